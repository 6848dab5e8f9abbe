//! The cost of programs in the kernel, nanoseconds for each frame, as the kernel measures them: of filters,
//! next to a filter by hand, and of the assignment of packets to workers. Prints a table for
//! `docs/benchmarks.md`: `cargo xtask bench "Filters in the kernel"`. Needs root.

use std::fmt::Write;
use std::io;
use std::time::{Duration, Instant};
use weir::link::trial::{Assignment, Trial};
use weir::packet::{BpfInstruction, KernelFilter, LinkType};
use weir::{Ask, Compiler, Need, Options, Want};
use weir_testing::frames;

/// Runs of a program over a frame for one measurement.
const RUNS: u32 = 1_000_000;
/// Measurements, of which the median counts.
const MEASUREMENTS: usize = 9;

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

fn main() -> io::Result<()> {
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
    let costs = costs(&texts, &frames())?;
    let mut text = String::from(
        "Nanoseconds of a whole program of XDP that drops what does not match, for each packet, medians as \
         the kernel measures them. By hand: `tcp.port == 443` over Ethernet and IPv4 alone; all others look \
         through VLAN tags, IPv6, MPLS, PPPoE and tunnels.\n\n| filter | TCP, matches | TCP, does not | UDP | VLAN, TCP, \
         matches | instructions | verification, ms |\n|---|--:|--:|--:|--:|--:|--:|\n",
    );
    let names = std::iter::once("by hand: `tcp.port == 443`").chain(filters.iter().map(|(name, _)| *name));
    for (name, cost) in names.zip(costs) {
        let times: Vec<String> = cost.nanoseconds.iter().map(ToString::to_string).collect();
        let millis = cost.verification.as_secs_f64() * 1e3;
        let _ = writeln!(text, "| {name} | {} | {} | {millis:.1} |", times.join(" | "), cost.instructions);
    }
    text += &assignment()?;
    print!("{text}");
    Ok(())
}

/// The table of the assignment to workers.
fn assignment() -> io::Result<String> {
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
        let costs = assignment_costs(&frame, &others)?;
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

/// The cost of a filter as a program of XDP.
#[derive(Debug, Clone)]
struct Cost {
    /// Instructions of the filter.
    instructions: usize,
    /// Time in which the kernel verifies the filter and makes machine code of it.
    verification: Duration,
    /// By frame: nanoseconds of the whole program, a median.
    nanoseconds: Vec<u32>,
}

/// Measures programs over each frame: the filter by hand first, then those of questions about packets.
/// Programs take turns.
///
/// # Errors
/// If the process may not load programs, or the kernel refuses one.
///
/// # Panics
/// If a filter is wrong, or passes every packet.
fn costs(filters: &[&str], frames: &[Vec<u8>]) -> io::Result<Vec<Cost>> {
    let compiler = Compiler::default();
    let options = Options { narrow: true, ..Options::default() };
    let made = filters.iter().map(|filter| {
        let ask = Ask { filter: filter.to_string(), need: Need::default(), want: Want::Packets };
        let compiled = compiler.compile(&[ask], &options).unwrap_or_else(|wrong| panic!("{wrong}"));
        let filters = compiled.kernel_filters().expect("not every packet is needed");
        let filter = filters.filter(LinkType::ETHERNET, 0, true).expect("it is expressible");
        (filter.expect("not every packet is needed"), filters.flow_words())
    });
    let by_hand = (KernelFilter { frame: by_hand(), copy: vec![] }, None);
    let mut all = vec![];
    for (filter, flow_words) in std::iter::once(by_hand).chain(made) {
        let began = Instant::now();
        let trial = Trial::of_interface(&filter, flow_words)?;
        all.push((filter.frame.len(), began.elapsed(), trial, vec![vec![]; frames.len()]));
    }
    for _ in 0..MEASUREMENTS {
        for (_, _, trial, times) in &mut all {
            for (frame, times) in frames.iter().zip(times) {
                times.push(trial.nanoseconds(frame, RUNS)?);
            }
        }
    }
    let cost = |(instructions, verification, _, times): (usize, Duration, Trial, Vec<Vec<u32>>)| Cost {
        instructions,
        verification,
        nanoseconds: times.into_iter().map(median).collect(),
    };
    Ok(all.into_iter().map(cost).collect())
}

fn median(mut times: Vec<u32>) -> u32 {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Measures the assignment of a frame to workers, in nanoseconds, medians: the hash of its hosts alone; the
/// whole program while no pair of hosts was moved; while all of `others` were; and for a pair that was moved.
///
/// # Errors
/// If the process may not load programs, or the kernel refuses one.
fn assignment_costs(frame: &[u8], others: &[Vec<u8>]) -> io::Result<[u32; 4]> {
    let (stays, moves) = (Assignment::new()?, Assignment::new()?);
    let measure = |assignment: &Assignment| {
        let times = (0..MEASUREMENTS).map(|_| assignment.nanoseconds(frame, RUNS));
        let times: Vec<[u32; 2]> = times.collect::<io::Result<_>>()?;
        Ok::<_, io::Error>([0, 1].map(|which| median(times.iter().map(|time| time[which]).collect())))
    };
    let [hash, unmoved] = measure(&stays)?;
    for assignment in [&stays, &moves] {
        assignment.move_new_pairs();
        others.iter().try_for_each(|other| assignment.worker_of(other).map(drop))?;
    }
    Ok([hash, unmoved, measure(&stays)?[1], measure(&moves)?[1]])
}

/// `tcp.port == 443` as people write it for XDP: Ethernet and IPv4 without tags, tunnels and fragments. 1 for
/// packets that match.
fn by_hand() -> Vec<BpfInstruction> {
    let op = BpfInstruction::new;
    vec![
        // 0: no, so far. 1: the end of the shortest headers.
        op(0xb7, 0, 0, 0, 0),
        op(0xbf, 1, 7, 0, 0),
        op(0x07, 1, 0, 0, 34),
        op(0x2d, 1, 8, 20, 0),
        // The type of the Ethernet header, and the protocol of IP.
        op(0x69, 1, 7, 12, 0),
        op(0x55, 1, 0, 18, 0x0008),
        op(0x71, 1, 7, 23, 0),
        op(0x55, 1, 0, 16, 6),
        // 2: the bytes of the IP header. 3: the header of TCP.
        op(0x71, 2, 7, 14, 0),
        op(0x57, 2, 0, 0, 15),
        op(0x67, 2, 0, 0, 2),
        op(0x25, 2, 0, 12, 60),
        op(0xbf, 3, 7, 0, 0),
        op(0x07, 3, 0, 0, 14),
        op(0x0f, 3, 2, 0, 0),
        op(0xbf, 1, 3, 0, 0),
        op(0x07, 1, 0, 0, 20),
        op(0x2d, 1, 8, 6, 0),
        op(0x69, 1, 3, 0, 0),
        op(0x15, 1, 0, 3, 0xbb01),
        op(0x69, 1, 3, 2, 0),
        op(0x15, 1, 0, 1, 0xbb01),
        op(0x05, 0, 0, 1, 0),
        op(0xb7, 0, 0, 0, 1),
    ]
}
