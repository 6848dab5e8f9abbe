//! RDP: xfreerdp and xrdp; only the start of connections.

use super::Service;
use crate::capture::logs::{Row, between, cut, read};
use crate::capture::scenes::Scene;
use crate::shell::Result;

pub const SERVICE: Service = Service {
    scene: Scene {
        name: "rdp",
        shows: "xfreerdp asks xrdp for TLS, for RDP's own encryption, for what it has not (NLA)",
        script: SCRIPT,
    },
    tools: &[("xrdp", "xrdp"), ("xfreerdp", "freerdp2-x11"), ("Xvfb", "xvfb")],
    files: &[],
    stage: "
        cp -r /etc/xrdp xrdp; cp www.example.com.rsa.pem xrdp/cert.pem; cp www.example.com.rsa.key xrdp/key.pem; mkdir -p /run/xrdp
        sed -i 's|^port=.*|port=tcp://198.51.100.10:3389|; s|^certificate=.*|certificate=/run/lab/xrdp/cert.pem|; s|^key_file=.*|key_file=/run/lab/xrdp/key.pem|; s|^LogLevel=.*|LogLevel=TRACE|; s|^LogFile=.*|LogFile=/run/lab/xrdp.log|; s|^EnableSyslog=.*|EnableSyslog=no|; s|^runtime_user=.*||; s|^runtime_group=.*||' xrdp/xrdp.ini",
    servers: &[
        ("server", "xrdp --nodaemon -c /run/lab/xrdp/xrdp.ini > xrdp-console.log 2>&1"),
        ("client", "Xvfb :9 -screen 0 1024x768x24 -nolock -nolisten tcp -nolisten unix > xvfb.log 2>&1"),
    ],
    listens: &["198.51.100.10:3389"],
    ask: "",
    logs: &[("rdp", "connections (xrdp)", connections)],
};

const SCRIPT: &str = "
export DISPLAY=:9 HOME=/run/lab
show() { WLOG_LEVEL=DEBUG timeout 2 xfreerdp /v:198.51.100.10 /u:alice /p:weir /cert:ignore /client-hostname:reader /w:800 /h:600 /log-level:DEBUG \"$@\" >> freerdp.out 2>&1 || true; }
show /sec:tls; show /sec:rdp; show /sec:nla
";

/// `connection received from 192.0.2.10 port 59364`,
/// `Security protocol: configured […], requested [SSL|RDP], selected [SSL]`,
/// `Connected client computer name: reader`, `Adding channel: name rdpdr, channel …`,
/// `keylayout:[0x00000409]`.
fn connections() -> Result<Vec<Row>> {
    let log = read("xrdp.log")?;
    let row = |part: &str| {
        let channels: Vec<&str> = part
            .lines()
            .map(|line| between(line, "Adding channel: name ", ","))
            .filter(|name| !name.is_empty())
            .collect();
        vec![
            ("client_port", cut(part, "", "\n")),
            ("requested", cut(part, "requested [", "]")),
            ("selected", cut(part, "selected [", "]")),
            ("name", cut(part, "Connected client computer name: ", "\n")),
            ("channels", channels.join(" ")),
            ("keyboard", cut(part, "keylayout:[", "]")),
            ("level", cut(part, "with security level : ", "\n").trim().to_string()),
        ]
    };
    Ok(log.split("connection received from 192.0.2.10 port ").skip(1).map(row).collect())
}
