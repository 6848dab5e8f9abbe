//! The table of connections whose packets the kernel counts: a hash map that programs of eBPF and the engine
//! share.

use crate::bpf::HashMap;
use crate::system::clock;
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use weir_packet::flow_entry::LAST_TIME;
use weir_packet::{KernelFilters, KernelFlows};

/// Differences of the clocks that differ by less than this are the same: 20 µs, more than it takes to read
/// them.
const SAME_NS: i64 = 20_000;

/// The table of the connections of some filters.
#[derive(Debug)]
pub(crate) struct FlowMap {
    map: HashMap,
    /// What the clock of packets is ahead of the kernel's clock, which began with the machine.
    ahead_ns: AtomicI64,
}

impl FlowMap {
    /// An empty table, whose keys and entries have these words; the last number is that of entries at most.
    pub fn new([key_words, entry_words, entries_max]: [usize; 3]) -> io::Result<Self> {
        Ok(Self {
            map: HashMap::new([key_words, entry_words], entries_max)?,
            ahead_ns: AtomicI64::new(ahead_ns()),
        })
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

/// The table of the current filters, which the interfaces of a capture share.
#[derive(Debug, Clone, Default)]
pub(crate) struct FlowMaps(Arc<Mutex<Option<Current>>>);

/// The filters, and their table.
type Current = (Arc<dyn KernelFilters>, Arc<FlowMap>);

impl FlowMaps {
    /// The table of these filters. `None` if they take over no connection.
    ///
    /// # Errors
    /// If the kernel refuses to make the table.
    pub fn of(&self, filters: &Arc<dyn KernelFilters>) -> io::Result<Option<Arc<FlowMap>>> {
        let Some(words) = filters.flow_words() else { return Ok(None) };
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, map)) = &*current
            && Arc::ptr_eq(known, filters)
        {
            return Ok(Some(Arc::clone(map)));
        }
        let map = Arc::new(FlowMap::new(words)?);
        *current = Some((Arc::clone(filters), Arc::clone(&map)));
        Ok(Some(map))
    }
}
