//! The table of connections whose packets the kernel counts: a hash map that programs of eBPF and the engine
//! share.

use crate::bpf::HashMap;
use crate::system::clock;
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use weir_packet::KernelFlows;
use weir_packet::flow_entry::LAST_TIME;

/// Differences of the clocks that differ by less than this are the same: 20 µs, more than it takes to read
/// them.
const SAME_NS: i64 = 20_000;

/// The table of the connections of some filters.
#[derive(Debug)]
pub(crate) struct FlowMap {
    map: HashMap,
    /// The number that the keeper has for the table.
    keeper_number: Option<u32>,
    /// What the clock of packets is ahead of the kernel's clock, which began with the machine.
    ahead_ns: AtomicI64,
}

impl FlowMap {
    /// An empty table, whose keys and entries have these words; the last number is that of entries at most.
    pub fn new([key_words, entry_words, entries_max]: [usize; 3]) -> io::Result<Self> {
        Ok(Self::of(HashMap::new([key_words, entry_words], entries_max)?, None))
    }

    /// A table that the keeper has made, and has this number for.
    pub fn of_keeper(map: HashMap, number: u32) -> Self {
        Self::of(map, Some(number))
    }

    fn of(map: HashMap, keeper_number: Option<u32>) -> Self {
        Self { map, keeper_number, ahead_ns: AtomicI64::new(ahead_ns()) }
    }

    /// The number that the keeper has for the table, if it has made the table.
    pub fn keeper_number(&self) -> Option<u32> {
        self.keeper_number
    }

    /// Turns the time of the last packet to that of packets. The difference of the clocks is kept as long as
    /// the clock is not set, so that a time is the same whenever it is read.
    fn set_time(&self, entry: &mut [u64]) {
        let Some(time) = entry.get_mut(LAST_TIME).filter(|time| **time > 0) else { return };
        let (since_start, since_1970) = clock();
        let now_ahead = since_1970 - since_start;
        let mut ahead = self.ahead_ns.load(Ordering::Relaxed);
        if ahead.abs_diff(now_ahead) > SAME_NS as u64 {
            // Either the clock was set, or this thread was interrupted between the two readings.
            let careful = ahead_ns();
            if ahead.abs_diff(careful) > SAME_NS as u64 {
                self.ahead_ns.store(careful, Ordering::Relaxed);
                ahead = careful;
            }
        }
        *time = (*time as i64).saturating_add(ahead).max(1) as u64;
    }

    /// The number by which programs name the table.
    pub fn number(&self) -> i32 {
        self.map.number()
    }
}

/// What the clock of packets is ahead of the kernel's clock, by the reading that took least time of some.
fn ahead_ns() -> i64 {
    let readings = [(); 16].map(|()| clock());
    let pairs = readings.windows(2).map(|pair| (pair[1].0 - pair[0].0, pair[0]));
    let shortest = pairs.min_by_key(|(took, _)| *took);
    // The clock of packets is read after the kernel's, half way between two readings of the latter.
    shortest.map_or(0, |(took, (since_start, since_1970))| since_1970 - since_start - took / 2)
}

impl KernelFlows for FlowMap {
    fn give(&self, key: &[u64], entry: &[u64]) -> bool {
        self.map.insert(key, entry).is_ok()
    }

    fn read(&self, key: &[u64], entry: &mut [u64]) -> bool {
        let is_known = self.map.look_up(key, entry).is_ok();
        self.set_time(entry);
        is_known
    }

    fn take(&self, key: &[u64], entry: &mut [u64]) -> bool {
        let is_known = self.map.take(key, entry).is_ok();
        self.set_time(entry);
        is_known
    }

    fn now(&self) -> i64 {
        clock().1
    }
}
