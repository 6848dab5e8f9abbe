//! The cost of programs in the kernel, nanoseconds for each frame, as the kernel measures them: of filters, and of the assignment of
//! packets to workers.

use crate::shell::{Result, said};
use std::fmt::Write;
use weir_testing::frames;
use weir_testing::kernel::{assignment_costs, costs};

pub const TITLE: &str = "Filters in the kernel";

/// The prefixes of Retina's filter for Netflix (Retina, note 3).
const NETWORKS: [&str; 14] = [
    "ip.addr in 23.246.0.0/18",
    "ip.addr in 37.77.184.0/21",
    "ip.addr in 45.57.0.0/17",
    "ip.addr in 64.120.128.0/17",
    "ip.addr in 66.197.128.0/17",
    "ip.addr in 108.175.32.0/20",
    "ip.addr in 185.2.220.0/22",
    "ip.addr in 185.9.188.0/22",
    "ip.addr in 192.173.64.0/18",
    "ip.addr in 198.38.96.0/19",
    "ip.addr in 198.45.48.0/20",
    "ip.addr in 208.75.79.0/24",
    "ipv6.addr in 2620:10c:7000::/44",
    "ipv6.addr in 2a00:86c0::/32",
];

/// Pairs of hosts that were moved.
const MOVED: u32 = 100_000;

/// The table.
pub fn table() -> Result<String> {
    let mut networks = NETWORKS.join(" or ");
    for port in [80, 443, 8080, 8443] {
        let _ = write!(networks, " or tcp.port == {port} and ip.ttl < 9");
    }
    let filters = [
        ("`tcp.port == 443`", "tcp.port == 443".to_string()),
        ("`ip.addr == 10.0.0.1 and tcp`", "ip.addr == 10.0.0.1 and tcp".to_string()),
        ("32 comparisons of addresses, ports and hop limits", networks),
    ];
    let texts: Vec<&str> = filters.iter().map(|(_, text)| text.as_str()).collect();
    let costs = costs(&texts, &frames()).map_err(said("programs for the kernel"))?;
    let mut text = format!(
        "\n### {TITLE}\n\nNanoseconds of a whole program of XDP that drops what does not match, for each packet, medians as \
         the kernel measures them. By hand: `tcp.port == 443` over Ethernet and IPv4 alone; all others look \
         through VLAN tags, IPv6, MPLS, PPPoE and tunnels.\n\n| filter | TCP, matches | TCP, does not | UDP | VLAN, TCP, \
         matches | instructions | verification, ms |\n|---|--:|--:|--:|--:|--:|--:|\n"
    );
    let names = std::iter::once("by hand: `tcp.port == 443`").chain(filters.iter().map(|(name, _)| *name));
    for (name, cost) in names.zip(costs) {
        let times: Vec<String> = cost.nanoseconds.iter().map(ToString::to_string).collect();
        let millis = cost.verification.as_secs_f64() * 1e3;
        let _ = writeln!(text, "| {name} | {} | {} | {millis:.1} |", times.join(" | "), cost.instructions);
    }
    text += &assignment()?;
    Ok(text)
}

/// The table of the assignment to workers.
fn assignment() -> Result<String> {
    let mut text = format!(
        "\nThe assignment of packets to the workers of a link: nanoseconds of the whole program. While pairs of hosts were moved, {MOVED} \
         other pairs are in the table of moved pairs, or these and the packet's own.\n\n| packet | hash of the hosts alone | no \
         pair was moved | others were moved | moved |\n|---|--:|--:|--:|--:|\n"
    );
    let udp = frames::udp((40_000, 53), b"some bytes");
    let v4 = |a: [u8; 4]| frames::ethernet(0x0800, &frames::ipv4((a, [192, 0, 2, 7]), 17, 1, 0, &[], &udp));
    let v6 = frames::ethernet(0x86dd, &frames::ipv6(([1; 16], [2; 16]), 17, &udp));
    let others: Vec<Vec<u8>> = (0..MOVED).map(|host| v4((0x0a00_0000 + host).to_be_bytes())).collect();
    for (name, frame) in [("IPv4", v4([10, 9, 9, 9])), ("IPv6", v6)] {
        let costs = assignment_costs(&frame, &others).map_err(said("programs for the kernel"))?;
        let _ = writeln!(text, "| {name} | {} |", costs.map(|cost| cost.to_string()).join(" | "));
    }
    Ok(text)
}

/// The frames of the columns.
fn frames() -> Vec<Vec<u8>> {
    let ends = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let tcp = |port| {
        let segment = frames::tcp((40_000, port), 1, 1, frames::ACK, &[], b"some bytes");
        frames::ipv4(ends, 6, 1, 0, &[], &segment)
    };
    let udp = frames::ipv4(ends, 17, 1, 0, &[], &frames::udp((40_000, 53), b"some bytes"));
    let tagged = [&7u16.to_be_bytes()[..], &0x0800u16.to_be_bytes(), &tcp(443)].concat();
    vec![
        frames::ethernet(0x0800, &tcp(443)),
        frames::ethernet(0x0800, &tcp(22)),
        frames::ethernet(0x0800, &udp),
        frames::ethernet(0x8100, &tagged),
    ]
}
