//! DHCPv6: ISC's dhclient, and dnsmasq on the router, which logs every message.

use super::Service;
use crate::capture::logs::{Row, read};
use crate::capture::scenes::Scene;
use crate::shell::Result;

pub const SERVICE: Service = Service {
    scene: Scene {
        name: "dhcpv6",
        shows: "dhclient and dnsmasq: an address given and handed back; given in two messages; asked for again; only information",
        script: SCRIPT,
    },
    tools: &[("dhclient", "isc-dhcp-client")],
    files: &[("dhclient6.conf", "send fqdn.fqdn \"reader.example.com\";\nsend fqdn.encoded on;\n")],
    stage: "",
    servers: &[(
        "router",
        "dnsmasq --conf-file=/dev/null --keep-in-foreground --port=0 --interface=net0 --bind-interfaces \
         --user=root --group=root --pid-file= --log-facility=/run/lab/dhcpv6.log --log-dhcp --dhcp-leasefile=/run/lab/dhcpv6.leases \
         --dhcp-range=2001:db8:1::100,2001:db8:1::1ff,64,1h --domain=example.com \
         --dhcp-option=option6:dns-server,[2001:db8:2::10] --dhcp-option=option6:domain-search,example.com",
    )],
    listens: &[],
    ask: "",
    logs: &[("dhcpv6", "messages (dnsmasq)", messages)],
};

const SCRIPT: &str = "
lease() { timeout 9 dhclient -6 -v -1 -cf dhclient6.conf -lf dhclient6.leases -pf dhclient6.pid -sf /bin/true \"$@\" net0 >> dhclient6.out 2>&1; }
touch dhclient6.leases
lease; lease -x; lease; lease -r; lease -S; lease -x
";

/// `1234567 DHCPADVERTISE(net0) 2001:db8:1::1a2 00:01:…`
fn messages() -> Result<Vec<Row>> {
    let mut rows = vec![];
    for line in read("dhcpv6.log")?.lines() {
        let Some((number, rest)) = line.split_once("]: ").and_then(|(_, rest)| rest.split_once(" DHCP"))
        else {
            continue;
        };
        let Some((kind, rest)) = rest.split_once("(net0) ") else { continue };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let is_address = |word: &&&str| word.starts_with("2001:");
        rows.push(vec![
            ("id", number.to_string()),
            ("type", kind.to_string()),
            ("address", words.iter().find(is_address).unwrap_or(&"").to_string()),
            (
                "duid",
                words
                    .iter()
                    .find(|word| word.starts_with("00:"))
                    .map_or(String::new(), |word| word.replace(':', "")),
            ),
        ]);
    }
    Ok(rows)
}
