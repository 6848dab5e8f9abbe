//! OpenVPN: clients and servers with all methods of protecting the first packets, over UDP and TCP.

use super::Service;
use crate::capture::logs::{Row, between, cut, read};
use crate::capture::scenes::Scene;
use crate::shell::Result;

pub const SERVICE: Service = Service {
    scene: Scene {
        name: "openvpn",
        shows: "openvpn over UDP: bare TLS, tls-auth (SHA-1 and SHA-256), tls-crypt, tls-crypt-v2; over TCP: bare TLS, tls-auth; pings \
                through them; a key that is wrong",
        script: SCRIPT,
    },
    tools: &[("openvpn", "openvpn")],
    files: &[],
    stage: "
        for key in right wrong; do openvpn --genkey secret $key.vpn; done
        openvpn --genkey tls-crypt-v2-server crypt2-server.vpn; openvpn --tls-crypt-v2 crypt2-server.vpn --genkey tls-crypt-v2-client crypt2-client.vpn
        cat > vpn.sh <<'END'
# vpn.sh PORT PROTOCOL KEY…
port=$1 proto=$2; shift 2
cert=www.example.com.ec; [ $role = server ] || cert=api.example.org.ec
all=\"--verb 4 --ca ca.pem --cert $cert.pem --key $cert.key --data-ciphers AES-256-GCM --keepalive 2 20 --dev-type tun --dev ovpn-$port\"
if [ $role = server ]; then
    exec openvpn --local 198.51.100.10 --lport $port --proto $proto --server 10.78.$((port % 100)).0 255.255.255.0 --dh none \
        --topology subnet $all \"$@\" > openvpn-$port.log 2>&1
fi
timeout 5 openvpn --client --remote 198.51.100.10 $port --nobind --proto $proto $all \"$@\" > openvpn-$port.out 2>&1 &
until grep -q 'Initialization Sequence Completed' openvpn-$port.out 2>/dev/null; do sleep 0.1; kill -0 $! || exit 0; done
ping -q -c 2 -i 0.2 -W 1 10.78.$((port % 100)).1 >> openvpn-ping.out || true
kill $!
wait || true
END
    ",
    servers: &[
        ("server", "env role=server sh vpn.sh 1194 udp"),
        ("server", "env role=server sh vpn.sh 1195 udp --tls-auth right.vpn 0"),
        ("server", "env role=server sh vpn.sh 1196 udp --auth SHA256 --tls-auth right.vpn 0"),
        ("server", "env role=server sh vpn.sh 1197 udp --tls-crypt right.vpn"),
        ("server", "env role=server sh vpn.sh 1198 udp --tls-crypt-v2 crypt2-server.vpn"),
        ("server", "env role=server sh vpn.sh 1199 tcp-server"),
        ("server", "env role=server sh vpn.sh 1200 tcp-server --tls-auth right.vpn 0"),
        ("server", "env role=server sh vpn.sh 1201 udp --tls-auth right.vpn 0"),
    ],
    listens: &["198.51.100.10:1194", "198.51.100.10:1198", "198.51.100.10:1199", "198.51.100.10:1200", "198.51.100.10:1201"],
    ask: "",
    logs: &[("openvpn", "first packets (openvpn)", handshakes)],
};

const SCRIPT: &str = "
export role=client
sh vpn.sh 1194 udp; sh vpn.sh 1195 udp --tls-auth right.vpn 1; sh vpn.sh 1196 udp --auth SHA256 --tls-auth right.vpn 1
sh vpn.sh 1197 udp --tls-crypt right.vpn; sh vpn.sh 1198 udp --tls-crypt-v2 crypt2-client.vpn
sh vpn.sh 1199 tcp-client; sh vpn.sh 1200 tcp-client --tls-auth right.vpn 1
sh vpn.sh 1201 udp --tls-auth wrong.vpn 1
";

/// `… TLS: Initial packet from [AF_INET]198.51.100.10:1194, sid=01234567 89abcdef`: the client logs the
/// server's, the server the client's, but only over TCP. For a wrong key the server logs an address and a
/// port.
fn handshakes() -> Result<Vec<Row>> {
    let kinds = ["none", "tls-auth", "tls-auth", "tls-crypt", "tls-crypt-v2", "none", "tls-auth", "tls-auth"];
    let mut rows = vec![];
    for (port, kind) in (1194u16..).zip(kinds) {
        let (by_server, by_client) =
            (read(&format!("openvpn-{port}.log"))?, read(&format!("openvpn-{port}.out"))?);
        let number = |log: &str| {
            let line = log.lines().find(|line| line.contains("TLS: Initial packet from "));
            line.map_or(String::new(), |line| cut(line, "sid=", "\n").replace(' ', ""))
        };
        let client = between(&by_server, "192.0.2.10:", "\n");
        rows.push(vec![
            ("server_port", port.to_string()),
            ("client_port", client.chars().take_while(char::is_ascii_digit).collect()),
            ("protection", kind.to_string()),
            ("client_sid", number(&by_server)),
            ("server_sid", number(&by_client)),
        ]);
    }
    Ok(rows)
}
