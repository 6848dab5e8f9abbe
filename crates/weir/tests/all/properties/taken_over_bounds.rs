//! `taken_over` with full tables, and with segments that are repeated and reordered: connections that the
//! kernel takes over still have the rows that they have without.

use crate::properties::drive::{MemoryPacket, seeds};
use crate::properties::taken_over::{Fates, Setting, compare, questions, traffic};
use weir::{Limits, Options};
use weir_testing::Random;
use weir_testing::traffic::Network;

/// Segments are lost, and come in order once.
const LOSSES: Network =
    Network { repeats: false, loses: true, reorders: false, fragments: true, cuts: false };
/// Segments come twice, late, or not at all.
const BAD: Network = Network { repeats: true, loses: true, reorders: true, fragments: false, cuts: false };

/// Compares the rows of each question over traffic of some seeds. `None` if the process may not load
/// programs.
fn compare_all(setting: &Setting, network: Network) -> Option<Fates> {
    compare_traffic(setting, |random| traffic(random, network))
}

fn compare_traffic(setting: &Setting, make: impl Fn(&mut Random) -> Vec<MemoryPacket>) -> Option<Fates> {
    let mut fates = Fates::default();
    for seed in seeds(0..2) {
        let packets = make(&mut Random::new(seed));
        for asks in questions() {
            if !compare(&format!("seed {seed}"), setting, &asks, &packets, &mut fates) {
                return None;
            }
        }
    }
    println!("{fates:?}");
    Some(fates)
}

/// A connection for which the kernel has no room stays with the engine.
#[test]
fn the_kernels_table_may_be_full() {
    let setting = Setting { entries_max: 2, ..Setting::default() };
    let Some(fates) = compare_all(&setting, LOSSES) else { return };
    assert!(fates.refused > 500 && fates.counted > 100, "{fates:?}");
}

/// The engine takes connections without packets back to make room for others.
#[test]
fn a_worker_may_have_given_all_that_it_may() {
    let usual = Setting::default();
    let options = Options { kernel_flows_max: Some(2), ..usual.options.clone() };
    let Some(fates) = compare_all(&Setting { options, ..usual.clone() }, LOSSES) else { return };
    let Some(unbounded) = compare_all(&usual, LOSSES) else { return };
    assert!(fates.counted > 200 && fates.counted < unbounded.counted, "{fates:?}, {unbounded:?}");
}

/// The engine ends a connection early: never one whose packets the kernel counts, if another one is idle for
/// longer. The kernel counts packets before the engine has processed those in front of them, so another
/// connection may end if several packets are on their way.
#[test]
fn the_engines_table_may_be_full() {
    let usual = Setting { on_way: &[1], ..Setting::default() };
    let limits = Limits { flows_max: 8, ..usual.options.limits };
    let options = Options { limits, ..usual.options.clone() };
    let slow = |random: &mut Random| {
        let mut packets = traffic(random, LOSSES);
        let mut now = packets[0].time.0;
        for packet in &mut packets {
            // The precision with which the engine compares idle times is some seconds.
            now += if random.once_in(10) { 30_000_000_000 } else { 1_000_000 };
            packet.time.0 = now;
        }
        packets
    };
    let Some(fates) = compare_traffic(&Setting { options, ..usual }, slow) else { return };
    assert!(fates.shed > 50 && fates.counted > 500, "{fates:?}");
}

/// If no packets are on their way, all columns are exact.
#[test]
fn repeated_and_reordered_segments_are_in_the_rows() {
    let setting = Setting { on_way: &[1], ..Setting::default() };
    let Some(fates) = compare_all(&setting, BAD) else { return };
    assert!(fates.counted > 1000, "{fates:?}");
}

/// If packets are on their way when a connection changes hands, only the numbers of repeated and reordered
/// segments, and of missing bytes, may differ.
#[test]
fn repeated_and_reordered_segments_on_the_way_are_counted() {
    let Some(fates) = compare_all(&Setting { is_lax: true, ..Setting::default() }, BAD) else { return };
    assert!(fates.counted > 1000, "{fates:?}");
}
