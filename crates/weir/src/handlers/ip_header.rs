//! Finds the IP header of a flow's packet in a frame.
//!
//! The header is found by the flow's addresses and ports, not by the layers around it. The search therefore
//! works for every link type and in every tunnel that leaves the header as it is.

use std::net::IpAddr;
use weir_engine::flow::Endpoint;

/// Extension headers of IPv6 that are skipped, at most.
const EXTENSIONS_MAX: usize = 8;
/// The protocols whose headers begin with two ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// The packet of a frame with these ends and this transport protocol, from its IP header on: the outermost
/// one. `None` if the frame has no such packet, or only a fragment without ports. Cost: a comparison of
/// addresses for each byte before the header.
pub(crate) fn ip_packet(frame: &[u8], from: Endpoint, to: Endpoint, proto: u8) -> Option<&[u8]> {
    let ports = [from.port as u16, to.port as u16];
    match (from.address, to.address) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut addresses = [0; 8];
            addresses[..4].copy_from_slice(&from.octets());
            addresses[4..].copy_from_slice(&to.octets());
            packets(frame, 12, &addresses).find(|packet| is_ipv4(packet, proto, ports))
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut addresses = [0; 32];
            addresses[..16].copy_from_slice(&from.octets());
            addresses[16..].copy_from_slice(&to.octets());
            packets(frame, 8, &addresses).find(|packet| is_ipv6(packet, proto, ports))
        }
        _ => None,
    }
}

/// The ends of the frame that have these bytes at this offset.
fn packets<'f>(frame: &'f [u8], offset: usize, bytes: &[u8]) -> impl Iterator<Item = &'f [u8]> {
    let at_offset = frame.get(offset..).unwrap_or_default();
    let places = at_offset.windows(bytes.len()).enumerate();
    places.filter(move |(_, window)| *window == bytes).map(move |(place, _)| &frame[place..])
}

fn is_ipv4(packet: &[u8], proto: u8, ports: [u16; 2]) -> bool {
    let [first, .., offset_high, offset_low, _, found] = packet[..10] else { return false };
    let header_bytes = usize::from(first & 0xf) * 4;
    let is_fragment = [offset_high & 0x1f, offset_low] != [0, 0];
    first >> 4 == 4
        && header_bytes >= 20
        && found == proto
        && !is_fragment
        && has_ports(packet, header_bytes, proto, ports)
}

fn is_ipv6(packet: &[u8], proto: u8, ports: [u16; 2]) -> bool {
    if packet[0] >> 4 != 6 {
        return false;
    }
    let (mut next, mut at) = (packet[6], 40);
    for _ in 0..EXTENSIONS_MAX {
        if next == proto {
            return has_ports(packet, at, proto, ports);
        }
        let Some(&[after, length, high, low]) = packet.get(at..).and_then(<[u8]>::first_chunk::<4>) else {
            return false;
        };
        at += match next {
            // Hop-by-hop options, routing, destination options.
            0 | 43 | 60 => usize::from(length) * 8 + 8,
            // Authentication.
            51 => usize::from(length) * 4 + 8,
            // A first fragment.
            44 if high == 0 && low & 0xf8 == 0 => 8,
            _ => return false,
        };
        next = after;
    }
    false
}

/// Whether the transport header at `at` has these ports, if its protocol has ports.
fn has_ports(packet: &[u8], at: usize, proto: u8, [from, to]: [u16; 2]) -> bool {
    if !WITH_PORTS.contains(&proto) {
        return true;
    }
    let [from, to] = [from.to_be_bytes(), to.to_be_bytes()];
    packet.get(at..at + 4) == Some(&[from[0], from[1], to[0], to[1]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(address: &str, port: u32) -> Endpoint {
        Endpoint { address: address.parse().expect("an address"), port }
    }

    fn ipv4(proto: u8, [from, to]: [u8; 2], rest: &[u8]) -> Vec<u8> {
        let header = [0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, proto, 0, 0, 192, 0, 2, from, 192, 0, 2, to];
        [&header, rest].concat()
    }

    #[test]
    fn a_header_is_found_behind_any_other_headers() {
        let packet = ipv4(6, [1, 2], &[0, 80, 4, 0, 9, 9]);
        let (from, to) = (end("192.0.2.1", 80), end("192.0.2.2", 1024));
        for before in [0, 14, 18, 60] {
            let frame = [vec![0; before], packet.clone()].concat();
            assert_eq!(ip_packet(&frame, from, to, 6), Some(&*packet), "{before} bytes before");
            assert_eq!(ip_packet(&frame, to, from, 6), None, "the other direction");
            assert_eq!(ip_packet(&frame, from, to, 17), None, "another protocol");
            assert_eq!(ip_packet(&frame, from, end("192.0.2.2", 1025), 6), None, "another port");
            assert_eq!(ip_packet(&frame[..before + 22], from, to, 6), None, "without ports");
        }
    }

    #[test]
    fn in_a_tunnel_between_the_same_hosts_the_flow_has_the_inner_header() {
        let inner = ipv4(17, [1, 2], &[0, 53, 4, 0]);
        let frame = [&[0; 14], &*ipv4(4, [1, 2], &inner)].concat();
        let (from, to) = (end("192.0.2.1", 53), end("192.0.2.2", 1024));
        assert_eq!(ip_packet(&frame, from, to, 17), Some(&*inner));
    }

    #[test]
    fn later_fragments_have_no_ports() {
        let mut packet = ipv4(17, [1, 2], &[0, 53, 4, 0]);
        let (from, to) = (end("192.0.2.1", 53), end("192.0.2.2", 1024));
        packet[6] = 0x20;
        assert!(ip_packet(&packet, from, to, 17).is_some(), "the first fragment");
        packet[7] = 1;
        assert_eq!(ip_packet(&packet, from, to, 17), None, "a later one");
    }

    #[test]
    fn extension_headers_are_skipped() {
        let (from, to) = (end("2001:db8::1", 53), end("2001:db8::2", 1024));
        let addresses = [from, to].map(|end| match end.address {
            IpAddr::V6(address) => address.octets(),
            IpAddr::V4(_) => unreachable!(),
        });
        let header = |next: u8| [&[0x60, 0, 0, 0, 0, 12, next, 64], &*addresses.concat()].concat();
        let plain = [&*header(17), &[0, 53, 4, 0]].concat();
        assert_eq!(ip_packet(&plain, from, to, 17), Some(&*plain));
        let options = [&*header(0), &[17, 0, 0, 0, 0, 0, 0, 0], &[0, 53, 4, 0]].concat();
        assert_eq!(ip_packet(&options, from, to, 17), Some(&*options));
        let endless = [&*header(0), &[0; 800]].concat();
        assert_eq!(ip_packet(&endless, from, to, 17), None);
        assert_eq!(ip_packet(&header(0), from, to, 17), None, "cut");
    }
}
