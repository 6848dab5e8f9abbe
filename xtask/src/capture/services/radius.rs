//! RADIUS: radclient and radtest query freeradius, which logs all requests and responses.

use super::Service;
use crate::capture::logs::{Row, between, cut, read};
use crate::capture::scenes::Scene;
use crate::shell::Result;

pub const SERVICE: Service = Service {
    scene: Scene {
        name: "radius",
        shows: "radclient and freeradius: PAP, CHAP and MS-CHAP let in, a wrong password, somebody unknown; accounting: \
                start, interim, stop; Status-Server; a wrong secret",
        script: SCRIPT,
    },
    tools: &[("freeradius", "freeradius"), ("radclient", "freeradius-utils"), ("radtest", "freeradius-utils")],
    files: &[("radius.site", SITE)],
    stage: "
        cp -r /etc/freeradius/3.0 raddb; mkdir -p /run/freeradius radius
        sed -i 's/^\\([[:space:]]*\\)\\(user\\|group\\) = freerad/\\1#/; s|^logdir = .*|logdir = /run/lab/radius|' raddb/radiusd.conf
        sed -i 's/status_server = no/status_server = yes/' raddb/radiusd.conf
        rm -f raddb/mods-enabled/*eap* raddb/sites-enabled/*; cp radius.site raddb/sites-enabled/lab
        cat > raddb/clients.conf <<'END'
client lab { ipaddr = 192.0.2.0/24
  secret = weirsecret }
END
        cat > raddb/mods-config/files/authorize <<'END'
alice Cleartext-Password := \"weir\"
    Reply-Message := \"The water is fine\", Framed-IP-Address := 192.0.2.77, Session-Timeout := 600
bob Cleartext-Password := \"weir\"
END
    ",
    servers: &[("server", "freeradius -X -d /run/lab/raddb > radius.log 2>&1")],
    listens: &["198.51.100.10:1812", "198.51.100.10:1813"],
    ask: "",
    logs: &[("radius", "messages (freeradius)", messages)],
};

const SITE: &str = "
server lab {
    listen {
        type = auth
        ipaddr = 198.51.100.10
        port = 1812
    }
    listen {
        type = acct
        ipaddr = 198.51.100.10
        port = 1813
    }
    authorize {
        chap
        mschap
        files
        pap
    }
    authenticate {
        Auth-Type PAP {
            pap
        }
        Auth-Type CHAP {
            chap
        }
        Auth-Type MS-CHAP {
            mschap
        }
    }
    accounting {
        ok
    }
}
";

const SCRIPT: &str = "
ask() { kind=$1; shift; printf '%s\\n' \"$@\" | radclient -x -r 1 -t 2 198.51.100.10:$port $kind weirsecret >> radclient.out 2>&1; }
port=1812
ask auth 'User-Name = \"alice\"' 'User-Password = \"weir\"' 'NAS-IP-Address = 192.0.2.10' 'NAS-Identifier = \"gate\"' 'NAS-Port = 7' \
    'Calling-Station-Id = \"02-00-00-00-00-0C\"' 'Called-Station-Id = \"weir:lab\"' 'Connect-Info = \"CONNECT 54Mbps\"'
ask auth 'User-Name = \"alice\"' 'CHAP-Password = \"weir\"' 'NAS-IPv6-Address = 2001:db8:1::10'
ask auth 'User-Name = \"bob\"' 'MS-CHAP-Password = \"weir\"'
fails 1 ask auth 'User-Name = \"alice\"' 'User-Password = \"dry\"'
fails 1 ask auth 'User-Name = \"mallory\"' 'User-Password = \"weir\"' 'Calling-Station-Id = \"02-00-00-00-00-66\"'
radtest -4 bob weir 198.51.100.10 3 weirsecret >> radclient.out 2>&1
ask status 'Message-Authenticator = 0x00'
printf 'User-Name = \"alice\"\\nUser-Password = \"weir\"\\n' > many.radius
radclient -c 3 -p 3 -f many.radius 198.51.100.10:1812 auth weirsecret >> radclient.out 2>&1
fails 1 radclient -r 1 -t 1 -f many.radius 198.51.100.10:1812 auth wrongsecret >> radclient.out 2>&1
port=1813
for status in Start Interim-Update Stop; do
    ask acct \"Acct-Status-Type = $status\" 'Acct-Session-Id = \"4D2\"' 'User-Name = \"alice\"' 'NAS-IP-Address = 192.0.2.10' \
        'Framed-IP-Address = 192.0.2.77' 'Acct-Input-Octets = 1234'
done
";

/// `(0) Received Access-Request Id 23 from 192.0.2.10:41234 to 198.51.100.10:1812 length 75`, or `Sent
/// Access-Accept Id 23 from … to 192.0.2.10:41234 length 20`, followed by the attributes, `(0)   User-Name =
/// \"alice\"`.
fn messages() -> Result<Vec<Row>> {
    let log = read("radius.log")?;
    let lines: Vec<&str> =
        log.lines().map(|line| line.split_once(") ").map_or("", |(_, rest)| rest)).collect();
    let mut rows = vec![];
    for (n, line) in lines.iter().enumerate() {
        let is_answer = line.starts_with("Sent ") && !line.contains(" from 127.0.0.1");
        if !(line.starts_with("Received ") || is_answer) || !line.contains(" Id ") {
            continue;
        }
        let attributes: Vec<&str> =
            lines[n + 1..].iter().take_while(|line| line.starts_with("  ")).map(|line| line.trim()).collect();
        let text = |name: &str| {
            let found = attributes.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
            found.unwrap_or("").trim_matches('\"').to_string()
        };
        rows.push(vec![
            ("kind", cut(line, " ", " Id")),
            ("id", cut(line, " Id ", " ")),
            ("client_port", cut(line, "192.0.2.10:", " ")),
            ("server_port", between(line, "198.51.100.10:", " ").to_string()),
            ("user", text("User-Name")),
            ("station", text("Calling-Station-Id")),
            ("called", text("Called-Station-Id")),
            ("nas", text("NAS-IP-Address") + &text("NAS-IPv6-Address")),
            ("nas_name", text("NAS-Identifier")),
            ("connect_info", text("Connect-Info")),
            ("status", text("Acct-Status-Type")),
            ("session", text("Acct-Session-Id")),
            ("address", text("Framed-IP-Address")),
            ("reply", text("Reply-Message")),
        ]);
    }
    Ok(rows)
}
