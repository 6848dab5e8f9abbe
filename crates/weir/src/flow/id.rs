//! Identifiers of a connection: Zeek's uid, and the Community ID.

use base64::Engine as _;
use sha1::{Digest, Sha1};
use std::net::IpAddr;
use weir_engine::table::Header;
use weir_ir::graph::{Graph, Table};
use weir_ir::key::Hosts;
use weir_packet::Cell;

/// Bytes of an identifier in Zeek's form.
const ID_BYTES: usize = 18;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// An identifier in Zeek's form: `C` and 17 digits to base 62. It is computed from protocol, key and first
/// packet, so the same capture always gives the same identifiers. A part of a connection has the connection's
/// identifier if both began with the same packet.
pub fn uid(graph: &Graph, table: Table, header: &Header) -> String {
    let mut id = String::with_capacity(ID_BYTES);
    push_uid(graph, table, header, &mut id);
    id
}

/// Appends a [`uid`] to a text.
pub fn push_uid(graph: &Graph, table: Table, header: &Header, text: &mut String) {
    let declared = &graph.tables[table.index()];
    let protocol = declared.part.as_ref().unwrap_or(&declared.name);
    // FNV-1a: short names, and the same result in every run.
    let name = protocol.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ name;
    let mut mix = |word: u64| {
        let product = u128::from(state ^ word) * 0xa076_1d64_78bd_642f_u128;
        state = (product >> 64) as u64 ^ product as u64 ^ word.rotate_left(29);
        state
    };
    let (key, ends) = (header.key(), declared.key.ends());
    if declared.two_sided {
        // Addresses and ports come first and have the same form for all key sizes, so the identifier does not
        // depend on the layout.
        for word in [0, 1].into_iter().flat_map(|side| ends.address(side, key)) {
            mix(word);
        }
        mix(u64::from(ends.port(0, key)) << 32 | u64::from(ends.port(1, key)));
    }
    if !declared.two_sided || !declared.key.is_ends_alone() {
        for &word in key {
            mix(word);
        }
    } else {
        for number in [ends.context(key), ends.tags(key)].into_iter().filter(|&number| number != 0) {
            mix(number);
        }
    }
    mix(header.first_time as u64);
    push_spelled(b'C', u128::from(mix(header.first_packet)) << 64 | u128::from(mix(1)), text);
}

/// One end of a flow as a row value: an address, or the value that the layer's key has in place of one.
pub fn host(hosts: Hosts, address: IpAddr) -> Cell<'static> {
    // A value that looks like an IPv4-mapped address was read as an IPv4 address.
    let number = match address {
        IpAddr::V4(mapped) => 0xffff << 32 | u64::from(u32::from(mapped)),
        IpAddr::V6(key) => u128::from(key) as u64,
    };
    let [_, _, mac @ ..] = number.to_be_bytes();
    match hosts {
        Hosts::Addresses => Cell::Address(address),
        Hosts::Macs => Cell::Mac(mac),
        Hosts::Numbers => Cell::Unsigned(number),
        Hosts::Nothing => Cell::Absent,
    }
}

/// An identifier in Zeek's form: `F` and 17 digits to base 62. It is computed from the connection's
/// identifier (or the hosts of several connections that share the file), and from the session's protocol and
/// the file's number.
pub fn fuid(of: &str, protocol: u64, number: u64) -> String {
    let mut sha = Sha1::new();
    sha.update(of);
    sha.update(protocol.to_be_bytes());
    sha.update(number.to_be_bytes());
    let digest = sha.finalize();
    let mut id = String::with_capacity(ID_BYTES);
    let number = digest.iter().take(16).fold(0, |sum, byte| sum << 8 | u128::from(*byte));
    push_spelled(b'F', number, &mut id);
    id
}

/// Appends a letter, then the last 17 digits of a number to base 62, the last digit first.
fn push_spelled(letter: u8, number: u128, id: &mut String) {
    // Divisions of 128-bit numbers are slow: two of them give ten digits and seven.
    let ten_digits = u128::from(62_u64.pow(10));
    let (rest, first) = (number / ten_digits, number % ten_digits);
    let mut spelled = [letter; ID_BYTES];
    let (one, other) = spelled[1..].split_at_mut(10);
    for (digits, number) in [(one, first), (other, rest % ten_digits)] {
        let mut number = number as u64;
        for digit in digits {
            *digit = DIGITS[(number % 62) as usize];
            number /= 62;
        }
    }
    id.push_str(str::from_utf8(&spelled).unwrap_or_default());
}

/// The Community ID, version 1, seed 0 (<https://github.com/corelight/community-id-spec>).
pub fn community_id(source: (IpAddr, u16), destination: (IpAddr, u16), protocol: u8) -> String {
    let mut id = String::new();
    push_community_id(source, destination, protocol, &mut id);
    id
}

/// Appends a [`community_id`] to a text.
pub fn push_community_id(source: End, destination: End, protocol: u8, text: &mut String) {
    let (a, b) = ordered(source, destination, protocol);
    let mut sha = Sha1::new();
    sha.update([0, 0]);
    for end in [a, b] {
        match end.0 {
            IpAddr::V4(v4) => sha.update(v4.octets()),
            IpAddr::V6(v6) => sha.update(v6.octets()),
        }
    }
    sha.update([protocol, 0]);
    sha.update(a.1.to_be_bytes());
    sha.update(b.1.to_be_bytes());
    text.push_str("1:");
    base64::engine::general_purpose::STANDARD.encode_string(sha.finalize(), text);
}

type End = (IpAddr, u16);

/// Orders the ends; ICMP types take the place of ports, and a request has the ports of its reply.
fn ordered(source: End, destination: End, protocol: u8) -> (End, End) {
    let mut ends = (source, destination);
    let mut one_way = false;
    if let Some(pairs) = counterparts(protocol) {
        let kind = source.1;
        match pairs.iter().find(|p| p.0 == kind) {
            Some(&(_, reply)) => ends.1.1 = reply,
            None => one_way = true,
        }
    }
    if one_way || ends.0 < ends.1 { ends } else { (ends.1, ends.0) }
}

/// Pairs of message types that belong together: (request, reply).
fn counterparts(protocol: u8) -> Option<&'static [(u16, u16)]> {
    match protocol {
        1 => Some(&[
            (8, 0),
            (0, 8),
            (13, 14),
            (14, 13),
            (15, 16),
            (16, 15),
            (17, 18),
            (18, 17),
            (10, 9),
            (9, 10),
        ]),
        58 => Some(&[
            (128, 129),
            (129, 128),
            (133, 134),
            (134, 133),
            (135, 136),
            (136, 135),
            (130, 131),
            (131, 130),
            (144, 145),
            (145, 144),
            (139, 140),
            (140, 139),
        ]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_examples() {
        // From the specification's baseline: tcp 128.232.110.120:34855 -> 66.35.250.204:80.
        let end = |a: &str, p| (a.parse().unwrap(), p);
        let (a, b) = (end("128.232.110.120", 34855), end("66.35.250.204", 80));
        assert_eq!(community_id(a, b, 6), "1:LQU9qZlK+B5F3KDmev6m5PMibrg=");
        assert_eq!(community_id(b, a, 6), community_id(a, b, 6));
        let (a, b) = (end("192.168.1.52", 54585), end("8.8.8.8", 53));
        assert_eq!(community_id(a, b, 17), "1:d/FP5EW3wiY1vCndhwleRRKHowQ=");
        let (a, b) = (end("192.168.170.8", 7), end("192.168.170.56", 80));
        assert_eq!(community_id(a, b, 132), "1:jQgCxbku+pNGw8WPbEc/TS/uTpQ=");
    }
}
