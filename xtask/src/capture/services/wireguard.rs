//! WireGuard: two peers with wireguard-go, whose logs have each handshake, and a third one that the server
//! does not know.

use super::Service;
use crate::capture::logs::{Row, read};
use crate::capture::scenes::Scene;
use crate::shell::Result;

pub const SERVICE: Service = Service {
    scene: Scene {
        name: "wireguard",
        shows: "wireguard-go: a handshake and pings through it, over IPv4 and over IPv6; one whom the server does not know",
        script: SCRIPT,
    },
    tools: &[("wireguard-go", "wireguard-go"), ("wg", "wireguard-tools")],
    files: &[],
    stage: "
        mkdir -p /run/wireguard
        for who in wgs wgc wg6 wgx; do wg genkey > $who.key; wg pubkey < $who.key > $who.pub; done
        printf '[Interface]\\nPrivateKey = %s\\nListenPort = 51820\\n' $(cat wgs.key) > wgs.conf
        printf '[Peer]\\nPublicKey = %s\\nAllowedIPs = 10.77.0.%s/32\\n' $(cat wgc.pub) 2 $(cat wg6.pub) 3 >> wgs.conf
        for who in wgc:198.51.100.10 wg6:[2001:db8:2::10] wgx:198.51.100.10; do
            printf '[Interface]\\nPrivateKey = %s\\n[Peer]\\nPublicKey = %s\\nAllowedIPs = 10.77.0.1/32\\nEndpoint = %s:51820\\n' \
                $(cat ${who%%:*}.key) $(cat wgs.pub) ${who#*:} > ${who%%:*}.conf
        done
        cat > wg.sh <<'END'
LOG_LEVEL=verbose wireguard-go -f $1 > wireguard-$1.log 2>&1 &
echo $! > $1.pid
until [ -S /run/wireguard/$1.sock ]; do sleep 0.1; done
wg setconf $1 $1.conf; ip addr add $2/24 dev $1; ip link set $1 up
wait
END
    ",
    servers: &[("server", "sh wg.sh wgs 10.77.0.1")],
    listens: &["0.0.0.0:51820"],
    ask: "",
    logs: &[
        ("wireguard", "handshakes begun (wireguard-go's clients)", handshakes),
        ("wireguard_bytes", "bytes sent and received (wg)", bytes),
    ],
};

const SCRIPT: &str = "
talk() {
    sh wg.sh $1 $2 & sleep 1.5; ping -q -c $3 -i 0.2 -W 1 10.77.0.1 > ping-$1.out || true
    wg show $1 dump | tail -n 1 | sed \"s/^/$1\\t/\" >> wireguard.out; kill $(cat $1.pid); sleep 0.3
}
talk wgc 10.77.0.2 4; talk wg6 10.77.0.3 3; talk wgx 10.77.0.9 1
kill $(cat wgs.pid) # it would ask for those who have gone
";

/// `DEBUG: (wgc) … peer(…) - Sending handshake initiation`, `Received handshake response`
fn handshakes() -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = vec![];
    for client in ["wgc", "wg6", "wgx"] {
        for line in read(&format!("wireguard-{client}.log"))?.lines() {
            if line.ends_with("Sending handshake initiation") {
                rows.push(vec![("client", client.to_string()), ("answered", "false".to_string())]);
            } else if line.ends_with("Received handshake response")
                && let Some(row) = rows.last_mut()
            {
                row[1].1 = "true".to_string();
            }
        }
    }
    Ok(rows)
}

/// `wg show dump` of the peer, after the interface: key, preshared key, endpoint, allowed, handshake,
/// received, sent, keepalive.
fn bytes() -> Result<Vec<Row>> {
    let columns = [("client", 0), ("server", 3), ("received", 6), ("sent", 7)];
    let row = |line: &str| {
        let words: Vec<&str> = line.split('\t').collect();
        columns.iter().map(|&(name, n)| (name, words.get(n).unwrap_or(&"").to_string())).collect()
    };
    Ok(read("wireguard.out")?.lines().map(row).collect())
}
