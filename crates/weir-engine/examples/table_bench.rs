//! Measures the cost of a flow table: lookups and insertions for a million random flows, in batches whose
//! cache misses overlap.
//!
//! `cargo run --release -p weir-engine --example table_bench`. Rounds of the table alternate with rounds of a
//! lower bound: the same memory traffic without a table, which is one random line read from an array of the
//! same size. Disturbances by other programs therefore affect both.

use std::hint::black_box;
use std::time::Instant;
use weir_engine::table::{Birth, FlowTable};

const FLOWS: u64 = 1_000_000;
const LOOKUPS: u64 = 8_000_000;
const BATCH: usize = 64;

/// The generator of all test traffic: SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) ^ (z >> 31)
}

/// A random number below `bound`.
fn below(bound: u64, state: &mut u64) -> u64 {
    ((u128::from(random(state)) * u128::from(bound)) >> 64) as u64
}

fn key_of(flow: u64) -> [u64; 5] {
    [0x0a00_0000 + (flow & 0xffff), 0xc0a8_0000 + (flow >> 16), 1024 + flow % 50_000, 443, 0]
}

/// Seconds for `LOOKUPS` packets of random flows; `stages` of prefetching are used (0, 1 or 2).
fn run(table: &mut FlowTable, flows: u64, stages: u32, seed: u64) -> f64 {
    let mut state = seed;
    let mut keys = [[0u64; 5]; BATCH];
    let (mut hashes, mut likely) = ([0u64; BATCH], [None; BATCH]);
    let begin = Instant::now();
    for _ in 0..LOOKUPS / BATCH as u64 {
        for (key, hash) in keys.iter_mut().zip(&mut hashes) {
            *key = key_of(below(flows, &mut state));
            *hash = table.hash(key);
            if stages > 0 {
                table.prefetch_bucket(*hash);
            }
        }
        if stages > 1 {
            for (hash, likely) in hashes.iter().zip(&mut likely) {
                *likely = table.prefetch_entry(*hash);
            }
        }
        for ((key, &hash), &likely) in keys.iter().zip(&hashes).zip(&likely) {
            let id = match table.find(key, hash, likely) {
                Some(id) => id,
                None => table.insert(key, hash, Birth::default()).expect("there is room"),
            };
            // Every packet updates its flow: the time, and the packet and byte counts of its direction.
            let (header, data) = table.entry_mut(id);
            header.last_time += 1;
            let side = (hash & 1) as usize * (data.len() / 2);
            for offset in [side, side + 8] {
                let word: &mut [u8; 8] = (&mut data[offset..offset + 8]).try_into().expect("eight bytes");
                *word = (u64::from_ne_bytes(*word) + 1).to_ne_bytes();
            }
        }
    }
    begin.elapsed().as_secs_f64()
}

/// Seconds to generate the keys and to read one random line for each, in the same batches.
fn floor(lines: &[[u64; 8]], seed: u64) -> f64 {
    let mut state = seed;
    let mut places = [0usize; BATCH];
    let begin = Instant::now();
    for _ in 0..LOOKUPS / BATCH as u64 {
        for place in &mut places {
            *place = below(lines.len() as u64, &mut state) as usize;
        }
        black_box(places.iter().map(|&place| lines[place][0]).sum::<u64>());
    }
    begin.elapsed().as_secs_f64()
}

fn resident_bytes() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    pages.split(' ').nth(1)?.parse::<u64>().ok().map(|n| n * 4096)
}

fn main() {
    let lines = vec![[1u64; 8]; 2 * FLOWS as usize];
    for data_bytes in [48, 160] {
        let before = resident_bytes();
        let mut table = FlowTable::new(5, data_bytes, 2 * FLOWS as usize, 42);
        let begin = Instant::now();
        run(&mut table, FLOWS, 2, 1);
        println!("{data_bytes} bytes of variables, entries of {} bytes", table.entry_bytes());
        println!("  first {LOOKUPS} packets, flows made: {:.3} s", begin.elapsed().as_secs_f64());
        if let (Some(before), Some(after)) = (before, resident_bytes()) {
            println!("  {} bytes a flow", after.saturating_sub(before) / table.len() as u64);
        }
        let mut best = [f64::MAX; 4];
        for round in 0..7 {
            for (stages, best) in (0..3).zip(&mut best) {
                *best = best.min(run(&mut table, FLOWS, stages, round + 2));
            }
            best[3] = best[3].min(floor(&lines, round + 2));
        }
        let mut few = FlowTable::new(5, data_bytes, 1_000, 42);
        let near = (0..3).map(|round| run(&mut few, 1_000, 2, round)).fold(f64::MAX, f64::min);
        let best = best.into_iter().chain([near]);
        for (what, seconds) in [
            "no prefetching",
            "buckets prefetched",
            "buckets and entries",
            "floor: one line",
            "a thousand flows",
        ]
        .iter()
        .zip(best)
        {
            println!(
                "  {what:<20} {:6.1} M/s  {:5.1} ns",
                LOOKUPS as f64 / seconds / 1e6,
                seconds * 1e9 / LOOKUPS as f64
            );
        }
    }
}
