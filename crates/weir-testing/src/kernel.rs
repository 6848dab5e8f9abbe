//! The cost of programs in the kernel: of filters, next to a filter by hand, and of the assignment to workers.

use std::io;
use std::time::{Duration, Instant};
use weir::link::trial::{Assignment, Trial};
use weir::packet::{BpfInstruction, KernelFilter, LinkType};
use weir::{Ask, Compiler, Need, Options, Want};

/// Runs of a program over a frame for one measurement.
const RUNS: u32 = 1_000_000;
/// Measurements, of which the median counts.
const MEASUREMENTS: usize = 9;

/// The cost of a filter as a program of XDP.
#[derive(Debug, Clone)]
pub struct Cost {
    /// Instructions of the filter.
    pub instructions: usize,
    /// Time in which the kernel verifies the filter and makes machine code of it.
    pub verification: Duration,
    /// By frame: nanoseconds of the whole program, a median.
    pub nanoseconds: Vec<u32>,
}

/// Measures programs over each frame: the filter by hand first, then those of questions about packets. Programs take turns.
///
/// # Errors
/// If the process may not load programs, or the kernel refuses one.
///
/// # Panics
/// If a filter is wrong, or passes every packet.
pub fn costs(filters: &[&str], frames: &[Vec<u8>]) -> io::Result<Vec<Cost>> {
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

/// Measures the assignment of a frame to workers, in nanoseconds, medians: the hash of its hosts alone; the whole program while no
/// pair of hosts was moved; while all of `others` were; and for a pair that was moved.
///
/// # Errors
/// If the process may not load programs, or the kernel refuses one.
pub fn assignment_costs(frame: &[u8], others: &[Vec<u8>]) -> io::Result<[u32; 4]> {
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

/// `tcp.port == 443` as people write it for XDP: Ethernet and IPv4 without tags, tunnels and fragments. 1 for packets that match.
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
