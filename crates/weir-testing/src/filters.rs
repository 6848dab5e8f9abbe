//! Random filters over all fields.

use crate::Random;
use weir_lang::filter::{Catalog, FieldInfo};
use weir_packet::ValueType;

/// A filter over the fields of `catalog`, nested up to `depth`.
pub fn filter(random: &mut Random, catalog: &dyn Catalog, depth: u32) -> String {
    if depth == 0 || random.once_in(3) {
        return predicate(random, catalog);
    }
    let left = filter(random, catalog, depth - 1);
    match random.below(5) {
        0 | 1 => format!("({left}) and ({})", filter(random, catalog, depth - 1)),
        2 | 3 => format!("({left}) or ({})", filter(random, catalog, depth - 1)),
        _ => format!("not ({left})"),
    }
}

/// Fields that packets of these tests often have.
const COMMON: &[&str] = &[
    "eth",
    "ip",
    "ipv6",
    "tcp",
    "udp",
    "icmp",
    "vlan",
    "ip.addr",
    "ip.src",
    "ipv6.addr",
    "tcp.port",
    "tcp.srcport",
    "udp.port",
    "tcp.flags",
    "tcp.flags.syn",
    "tcp.flags.ack",
    "ip.proto",
    "ip.ttl",
    "frame.len",
    "tls",
    "tls.handshake.extensions_server_name",
    "conn.orig_pkts",
    "conn.history",
    "conn.proto",
    "frame.number",
    "tcp.len",
    "tcp.payload",
];

fn predicate(random: &mut Random, catalog: &dyn Catalog) -> String {
    let fields = catalog.fields();
    let common = random.pick(COMMON);
    let wanted = fields.iter().position(|f| f.name == common || f.aliases.iter().any(|a| a == common));
    let index = match wanted {
        Some(index) if random.once_in(2) => index,
        _ => random.below(fields.len() as u64) as usize,
    };
    comparison(random, &fields[index])
}

fn comparison(random: &mut Random, field: &FieldInfo) -> String {
    let name = &field.name;
    if field.is_protocol || random.once_in(8) && field.value_type != ValueType::Unsigned {
        return name.clone();
    }
    match field.value_type {
        ValueType::Bool => match random.below(3) {
            0 => format!("{name} == 1"),
            1 => format!("{name} == 0"),
            _ => name.clone(),
        },
        ValueType::Fraction => name.clone(),
        ValueType::Unsigned | ValueType::Numbers => number_comparison(random, name, field.bits),
        ValueType::Time => {
            format!("{name} {} \"2026-01-01 00:00:00\"", random.pick(&["<", ">="]))
        }
        ValueType::Interval => {
            format!("{name} {} {}", order(random), random.pick(&["0.001", "0.5", "2", "10"]))
        }
        ValueType::Ipv4 | ValueType::Ipv6 | ValueType::Address => {
            address_comparison(random, name, field.value_type)
        }
        ValueType::Mac => {
            let mac = random.pick(&["02:00:00:00:00:01", "02:00:00:00:00:02", "ff:ff:ff:ff:ff:ff"]);
            match random.below(3) {
                0 => format!("{name} == {mac}"),
                1 => format!("{name} != {mac}"),
                _ => format!("{name}[0:3] == 02:00:00"),
            }
        }
        ValueType::Text | ValueType::Texts => {
            let text = random.pick(&["example", "www.example.com", "S", "h2", "tcp", "TLSv13", "ssl", "a"]);
            match random.below(4) {
                0 => format!("{name} == \"{text}\""),
                1 => format!("{name} != \"{text}\""),
                2 => format!("{name} contains \"{text}\""),
                _ => format!("{name} matches \"{}\"", random.pick(&["^www", "exam?ple", "[A-Z]h", "com$"])),
            }
        }
        ValueType::Bytes => match random.below(4) {
            0 => format!("{name} contains \"example\""),
            1 => format!("{name} contains 16:03:01"),
            2 => format!("{name}[0:2] == 16:03"),
            _ => format!("{name} matches \"{}\"", random.pick(&["GET /", "host:", "[a-z]{3}"])),
        },
    }
}

fn order(random: &mut Random) -> &'static str {
    random.pick(&["<", "<=", ">", ">="])
}

fn number_comparison(random: &mut Random, name: &str, bits: u32) -> String {
    let max = if bits == 0 || bits >= 64 { u64::MAX >> 1 } else { (1 << bits) - 1 };
    let mut number = || {
        let common =
            [0, 1, 2, 3, 4, 6, 8, 17, 22, 42, 53, 58, 60, 64, 80, 255, 443, 8080, 0x0800, 0x86dd, 65_535];
        let number = if random.once_in(4) { random.number() } else { random.pick(&common) };
        number.min(max)
    };
    let (a, b, c) = (number(), number(), number());
    match random.below(8) {
        0 | 1 => format!("{name} == {a}"),
        2 => format!("{name} != {a}"),
        3 | 4 => format!("{name} {} {}", order(random), a.clamp(1, max.saturating_sub(1).max(1)).min(max)),
        5 => format!("{name} in {{ {}..{}, {c} }}", a.min(b), a.max(b)),
        6 if bits > 1 && bits <= 32 => format!("{name} & {} == {}", b.max(1), a & b.max(1)),
        6 => format!("{name} == {b}"),
        _ => format!("{name} in {{ {a}, {b}, {c} }}"),
    }
}

fn address_comparison(random: &mut Random, name: &str, value_type: ValueType) -> String {
    let v4 = ["10.0.0.1", "10.0.0.0/8", "192.0.2.10", "198.51.100.0/24", "203.0.113.77", "0.0.0.0"];
    let v6 = ["2001:db8:1::10", "2001:db8::/32", "fe80::/10", "2001:db8:2::11", "::"];
    let is_v6 = match value_type {
        ValueType::Ipv4 => false,
        ValueType::Ipv6 => true,
        _ => random.once_in(3),
    };
    let mut one = || if is_v6 { random.pick(&v6) } else { random.pick(&v4) };
    let (a, b) = (one(), one());
    match random.below(4) {
        0 | 1 => format!("{name} == {a}"),
        2 => format!("{name} != {a}"),
        _ => format!("{name} in {{ {a}, {b} }}"),
    }
}
