//! The two ends of a connection, and the filters for its packets. Dumps, recordings, and questions about one
//! connection take their filters from here.

use std::net::IpAddr;
use weir::{Connection, Hosts};

/// Protocols whose ends have ports.
const WITH_PORTS: &[&str] = &["tcp", "udp", "udplite", "sctp"];

/// The ends of a connection between IP addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ends {
    /// The protocol, as in the column `proto`.
    pub proto: String,
    /// Address and port of the originator.
    pub orig: (IpAddr, u32),
    /// Address and port of the responder.
    pub resp: (IpAddr, u32),
}

impl Ends {
    /// The ends of a connection. `None`: they are no IP addresses.
    pub fn of(connection: &Connection) -> Option<Self> {
        let Connection { proto, orig_h, orig_p, resp_h, resp_p, hosts, .. } = connection;
        let ends = || Self { proto: proto.to_string(), orig: (*orig_h, *orig_p), resp: (*resp_h, *resp_p) };
        (*hosts == Hosts::Addresses).then(ends)
    }

    /// The filter that the packets of the connection match, in both directions: not those between the same
    /// hosts with the ports exchanged.
    pub fn filter(&self) -> String {
        let is_v4 = self.orig.0.is_ipv4();
        let ip = if is_v4 { "ip" } else { "ipv6" };
        // Connections of both versions of ICMP have one name.
        let proto = if self.proto == "icmp" && !is_v4 { "icmpv6" } else { &self.proto };
        self.both(|(from, from_port), (to, to_port)| match self.has_ports() {
            true => format!(
                "({ip}.src == {from} and {proto}.srcport == {from_port} and {ip}.dst == {to} and {proto}.dstport == {to_port})"
            ),
            false => format!("({ip}.src == {from} and {ip}.dst == {to} and {proto})"),
        })
    }

    /// The same filter in the syntax of pcap-filter(7).
    pub fn bpf_filter(&self) -> String {
        let proto = &self.proto;
        // The language has no ports of UDP-Lite.
        let has_ports = self.has_ports() && proto != "udplite";
        let of_protocol = match (proto.as_str(), self.orig.0.is_ipv4()) {
            ("icmp", true) => " and icmp",
            ("icmp", false) => " and icmp6",
            ("udplite", true) => " and ip proto 136",
            ("udplite", false) => " and ip6 proto 136",
            // The language does not know the protocol.
            _ => "",
        };
        self.both(|(from, from_port), (to, to_port)| match has_ports {
            true => format!(
                "({proto} and src host {from} and src port {from_port} and dst host {to} and dst port {to_port})"
            ),
            false => format!("(src host {from} and dst host {to}{of_protocol})"),
        })
    }

    fn has_ports(&self) -> bool {
        WITH_PORTS.contains(&self.proto.as_str())
    }

    fn both(&self, direction: impl Fn((IpAddr, u32), (IpAddr, u32)) -> String) -> String {
        format!("{} or {}", direction(self.orig, self.resp), direction(self.resp, self.orig))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use weir::{Compiler, Engine, Frame, Options};
    use weir_testing::frames;

    fn ends(proto: &str, orig: &str, resp: &str) -> Ends {
        let of = |host: &str, port| (host.parse().unwrap(), port);
        Ends { proto: proto.to_string(), orig: of(orig, 1000), resp: of(resp, 2000) }
    }

    #[test]
    fn both_languages_take_the_filters() {
        let compiler = Compiler::default();
        for (proto, orig, resp) in [
            ("tcp", "192.0.2.1", "192.0.2.2"),
            ("udp", "2001:db8::1", "2001:db8::2"),
            ("sctp", "192.0.2.1", "192.0.2.2"),
            ("udplite", "192.0.2.1", "192.0.2.2"),
            ("udplite", "2001:db8::1", "2001:db8::2"),
            ("icmp", "192.0.2.1", "192.0.2.2"),
            ("icmp", "2001:db8::1", "2001:db8::2"),
            ("gre", "192.0.2.1", "192.0.2.2"),
        ] {
            let ends = ends(proto, orig, resp);
            for (filter, bpf) in [(ends.filter(), false), (ends.bpf_filter(), true)] {
                let checked = compiler.check_filter(&filter, bpf);
                assert!(checked.is_ok(), "{proto}: {filter}: {checked:?}");
            }
        }
    }

    /// The numbers of the packets of a capture that match a filter.
    fn matching(frames: &[Vec<u8>], filter: &str, bpf: bool) -> Vec<u64> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, frames::pcap(frames)).unwrap();
        let found = Arc::<Mutex<Vec<u64>>>::default();
        let numbers = Arc::clone(&found);
        let take = move |packet: &Frame| numbers.lock().unwrap().push(packet.meta.number);
        let mut engine = Engine::with(Compiler::default(), Options { bpf, ..Options::default() });
        engine.subscribe(filter, take).unwrap();
        engine.read([file.path()]).unwrap();
        std::mem::take(&mut *found.lock().unwrap())
    }

    const HOSTS: [([u8; 4], [u8; 4]); 2] =
        [([192, 0, 2, 1], [192, 0, 2, 2]), ([192, 0, 2, 2], [192, 0, 2, 1])];

    /// Packets in both directions, and those of the connection with the ports exchanged.
    fn packets(proto: &str) -> Vec<Vec<u8>> {
        let segment = |ports| match proto {
            "tcp" => (6, frames::tcp(ports, 1, 1, 0x10, &[], b"x")),
            _ => (17, frames::udp(ports, b"x")),
        };
        let each = [
            (HOSTS[0], (1000, 2000)),
            (HOSTS[1], (2000, 1000)),
            (HOSTS[0], (2000, 1000)),
            (HOSTS[1], (1000, 2000)),
        ];
        let frame = |(hosts, ports)| {
            let (number, payload) = segment(ports);
            frames::ethernet(0x0800, &frames::ipv4(hosts, number, 1, 0, &[], &payload))
        };
        each.into_iter().map(frame).collect()
    }

    #[test]
    fn a_filter_takes_both_directions_and_nothing_else() {
        for proto in ["tcp", "udp"] {
            let ends = ends(proto, "192.0.2.1", "192.0.2.2");
            for (filter, bpf) in [(ends.filter(), false), (ends.bpf_filter(), true)] {
                assert_eq!(matching(&packets(proto), &filter, bpf), [1, 2], "{filter}");
            }
        }
    }

    #[test]
    fn the_filters_of_both_versions_of_icmp_find_their_packets() {
        let echo = [8, 0, 0xf7, 0xff, 0, 0, 0, 0];
        let v4 = |hosts| frames::ethernet(0x0800, &frames::ipv4(hosts, 1, 1, 0, &[], &echo));
        let [one, other] = [1, 2].map(|last| {
            let mut address = [0; 16];
            address[..4].copy_from_slice(&[0x20, 1, 0x0d, 0xb8]);
            address[15] = last;
            address
        });
        let v6 = |hosts| frames::ethernet(0x86dd, &frames::ipv6(hosts, 58, &[128, 0, 0, 0, 0, 0, 0, 0]));
        let packets = [v4(HOSTS[0]), v6((one, other)), v4(HOSTS[1]), v6((other, one))];
        for (orig, resp, expected) in
            [("192.0.2.1", "192.0.2.2", [1, 3]), ("2001:db8::1", "2001:db8::2", [2, 4])]
        {
            let ends = ends("icmp", orig, resp);
            for (filter, bpf) in [(ends.filter(), false), (ends.bpf_filter(), true)] {
                assert_eq!(matching(&packets, &filter, bpf), expected, "{filter}");
            }
        }
    }
}
