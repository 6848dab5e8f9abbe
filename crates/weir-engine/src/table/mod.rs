//! Flow tables: from a key to a flow's entry, designed for overlapping lookups.
//!
//! Each worker has one table per table of the graph; nothing is shared. A lookup accesses two places: a
//! bucket (one cache line) and the entry. For a burst, call [`FlowTable::prefetch_bucket`] on all hashes,
//! then [`FlowTable::prefetch_entry`] on all, then [`FlowTable::find`] one by one: the cache misses overlap,
//! and a lookup costs a fraction of one.
//!
//! * `hash`: keys to 64 bits, with a secret.  `buckets`: hashes to ids.
//! * `slab`: ids to entries, which never move.  `header`: times and key, in front of the variables.
//! * `memory`: huge pages, prefetching.
//!
//! Memory: an entry takes its header (32 bytes), its key and its variables, rounded up to 64 bytes; the index
//! 9 to 18 bytes per flow at its peak. Memory of ended flows is reused, not given back.

mod buckets;
mod hash;
mod header;
mod memory;
mod slab;
#[cfg(test)]
mod tests;

pub(crate) use hash::BuildIdHasher;
pub use header::{Header, OwnedHeader};
pub(crate) use memory::prefetch;

use buckets::Buckets;
use hash::KeyHash;
use slab::Slab;
use std::fmt;
use weir_memory::checked;

/// Whether two keys are equal. Inlined for five words, the usual size: `==` would call `bcmp`.
#[inline(always)]
fn is_same(a: &[u64], b: &[u64]) -> bool {
    match (<&[u64; 5]>::try_from(a), <&[u64; 5]>::try_from(b)) {
        (Ok(a), Ok(b)) => a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0,
        _ => a == b,
    }
}

/// The number of a flow in its table. It is reused after the flow has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId(pub u32);

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flow{}", self.0)
    }
}

/// The table has reached its limit of flows, or the system has no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// The properties of a flow that its first packet determines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Birth {
    /// Time of the packet, nanoseconds since 1970.
    pub time: i64,
    /// Number of the packet in the run, from 1.
    pub packet: u64,
    /// The sender is the second side of the key.
    pub swap: bool,
}

/// Entries that a table obtains at a time: it asks the worker's account before it grows by so many.
pub(crate) const GRANT_FLOWS: usize = 1024;

/// Bytes of the index per flow at its peak: just after the index was doubled, a bucket of 64 bytes holds 3.5
/// ids.
const INDEX_BYTES_PER_FLOW: usize = 19;

/// The flows of one table of one worker.
pub struct FlowTable {
    keys: KeyHash,
    buckets: Buckets,
    slab: Slab,
    free: Vec<FlowId>,
    live: usize,
    live_peak: usize,
    flows_max: usize,
    /// Entries that the table may use.
    granted: usize,
}

impl FlowTable {
    /// A table of flows with keys of `key_words` words and `data_bytes` bytes of variables (`Layout::size`),
    /// at most `flows_max` of them at a time. `seed` is secret and the same for all workers.
    pub fn new(key_words: usize, data_bytes: usize, flows_max: usize, seed: u64) -> Self {
        Self {
            keys: KeyHash::new(seed),
            buckets: Buckets::with_room(0).expect("there is a page of memory"),
            slab: Slab::new(key_words, data_bytes),
            free: Vec::new(),
            live: 0,
            live_peak: 0,
            flows_max: flows_max.min(u32::MAX as usize - 1),
            granted: usize::MAX,
        }
    }

    /// The table asks before it grows: beyond [`GRANT_FLOWS`] entries, each further group needs a
    /// [grant](Self::grant).
    pub(crate) fn on_request(self) -> Self {
        Self { granted: GRANT_FLOWS, ..self }
    }

    /// The same table with another limit of flows.
    pub(crate) fn limited_to(self, flows_max: usize) -> Self {
        Self { flows_max: flows_max.min(u32::MAX as usize - 1), ..self }
    }

    /// The hash of a key, for the other methods: computed once, used three times.
    #[inline(always)]
    pub fn hash(&self, key: &[u64]) -> u64 {
        self.keys.hash(key)
    }

    /// Prefetches the bucket of a hash. Does not wait.
    #[inline(always)]
    pub fn prefetch_bucket(&self, hash: u64) {
        self.buckets.prefetch(hash);
    }

    /// Prefetches the first cache lines of the entry that a hash most likely leads to. Reads the bucket.
    #[inline(always)]
    pub fn prefetch_entry(&self, hash: u64) -> Option<FlowId> {
        let likely = self.buckets.likely(hash);
        likely.inspect(|&id| self.slab.prefetch(id))
    }

    /// The flow of a key, if it exists. `hash` is [`hash`](Self::hash) of `key`; `likely` is a result of
    /// [`prefetch_entry`](Self::prefetch_entry) for it, of any age.
    #[inline(always)]
    pub fn find(&self, key: &[u64], hash: u64, likely: Option<FlowId>) -> Option<FlowId> {
        let is_it = |id: FlowId| is_same(self.slab.header(id).words(), key);
        match likely {
            // The flow may have ended since.
            Some(id) if is_it(id) && self.slab.header(id).live => Some(id),
            _ => self.buckets.find(hash, is_it),
        }
    }

    /// Adds a flow, with all variables 0, for a key that [`find`](Self::find) did not find.
    ///
    /// Doubles the index if necessary, which takes some 10 ms at a million flows. Entries do not move.
    ///
    /// # Errors
    /// [`Full`] if the limit of flows is reached, or the system has no memory.
    pub fn insert(&mut self, key: &[u64], hash: u64, birth: Birth) -> Result<FlowId, Full> {
        debug_assert!(self.find(key, hash, None).is_none(), "the key is there already");
        if self.live >= self.flows_max || self.needs_grant() {
            return Err(Full);
        }
        if self.live >= self.buckets.room() {
            self.grow()?;
        }
        let id = self.free.pop().or_else(|| self.slab.push()).ok_or(Full)?;
        let (header, data) = self.slab.parts_mut(id);
        header.begin(key, birth);
        data.fill(0);
        self.buckets.insert(hash, id);
        self.live += 1;
        self.live_peak = self.live_peak.max(self.live);
        Ok(id)
    }

    /// Whether the next flow needs entries beyond those granted.
    #[inline]
    pub(crate) fn needs_grant(&self) -> bool {
        self.free.is_empty() && self.slab.length() as usize >= self.granted && self.live < self.flows_max
    }

    /// Grants [`GRANT_FLOWS`] more entries.
    ///
    /// # Errors
    /// [`Full`] if the system has no memory for the list of free entries.
    pub(crate) fn grant(&mut self) -> Result<(), Full> {
        // Every entry may be free at the same time.
        checked(|| self.free.try_reserve(self.granted + GRANT_FLOWS)).map_err(|_| Full)?;
        self.granted += GRANT_FLOWS;
        Ok(())
    }

    /// Entries granted beyond those that need no grant.
    pub(crate) fn granted_flows(&self) -> usize {
        self.granted - GRANT_FLOWS
    }

    /// Bytes that a flow costs in this table at most: its entry, its part of the index, and its place in the
    /// list of free entries.
    pub(crate) fn bytes_per_flow(&self) -> usize {
        self.entry_bytes() + INDEX_BYTES_PER_FLOW + 2 * size_of::<FlowId>()
    }

    /// Removes a flow; its key and its id may be used again.
    ///
    /// # Panics
    /// If the flow has been removed before.
    pub fn remove(&mut self, id: FlowId) {
        let (header, _) = self.slab.parts_mut(id);
        assert!(header.live, "{id} has ended before");
        header.live = false;
        let hash = self.keys.hash(header.key());
        self.buckets.remove(hash, id);
        self.free.push(id);
        self.live -= 1;
    }

    /// The header and the variables of a live flow.
    ///
    /// # Panics
    /// If there was never such a flow.
    #[inline]
    pub fn entry(&self, id: FlowId) -> (&Header, &[u8]) {
        debug_assert!(self.slab.header(id).live, "{id} has ended");
        self.slab.parts(id)
    }

    /// As [`entry`](Self::entry), mutable.
    ///
    /// # Panics
    /// If there was never such a flow.
    #[inline]
    pub fn entry_mut(&mut self, id: FlowId) -> (&mut Header, &mut [u8]) {
        debug_assert!(self.slab.header(id).live, "{id} has ended");
        self.slab.parts_mut(id)
    }

    /// Whether a flow with this id is live.
    #[inline]
    pub fn is_live(&self, id: FlowId) -> bool {
        id.0 < self.slab.length() && self.slab.header(id).live
    }

    /// The live flows in the order of their creation. Allocates and sorts: for the end of a run.
    pub fn in_order(&self) -> Vec<FlowId> {
        let mut ids: Vec<FlowId> =
            (0..self.slab.length()).map(FlowId).filter(|&id| self.slab.header(id).live).collect();
        // One packet may create several flows of a table (tunnels); their ids differ by less than 2³¹.
        ids.sort_by(|&a, &b| {
            let [a, b] = [a, b].map(|id| self.slab.header(id));
            (a.first_packet, a.key()).cmp(&(b.first_packet, b.key()))
        });
        ids
    }

    /// Number of ids assigned so far; each id is less than this.
    pub fn ids(&self) -> u32 {
        self.slab.length()
    }

    /// Changes the layout of the variables, unless they are the same; flows keep their ids. `write` fills a
    /// live flow's new variables, which are zeros, from its old ones. Old entries are freed as soon as a
    /// chunk is copied.
    ///
    /// # Panics
    /// If the system has no memory for the new entries and a chunk of the old ones.
    pub fn lay_out_anew(
        &mut self,
        data_bytes: usize,
        is_same: bool,
        mut write: impl FnMut(FlowId, &[u8], &mut [u8]),
    ) {
        if is_same {
            return;
        }
        let new = Slab::new(self.slab.key_words(), data_bytes);
        let old = std::mem::replace(&mut self.slab, new);
        for part in old.into_chunks() {
            for at in (0..part.length()).map(FlowId) {
                let id = self.slab.push().expect("there is memory for as many flows as before");
                let (header, from) = part.parts(at);
                let (place, to) = self.slab.parts_mut(id);
                place.copy_from(header);
                if header.live {
                    write(id, from, to);
                }
            }
        }
    }

    /// Live flows.
    pub fn len(&self) -> usize {
        self.live
    }

    /// No flow is live.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// The largest number of flows that were live at the same time.
    pub fn live_peak(&self) -> usize {
        self.live_peak
    }

    /// Bytes of an entry.
    pub fn entry_bytes(&self) -> usize {
        self.slab.stride_bytes()
    }

    /// Bytes of address space of entries and index. Pages that were never accessed use no memory.
    pub fn bytes(&self) -> usize {
        self.slab.bytes() + self.buckets.bytes() + self.free.capacity() * size_of::<FlowId>()
    }

    /// Doubles the index. Hashes are computed again from the keys: the entries are read sequentially, which
    /// costs less than storing hashes would. Their target buckets are prefetched, a group at a time.
    #[cold]
    fn grow(&mut self) -> Result<(), Full> {
        const GROUP: usize = 16;
        self.buckets = Buckets::with_room(self.buckets.room() + 1).ok_or(Full)?;
        let mut group = [(0, FlowId(0)); GROUP];
        let mut filled = 0;
        for id in (0..self.slab.length()).map(FlowId) {
            let header = self.slab.header(id);
            if !header.live {
                continue;
            }
            let hash = self.keys.hash(header.key());
            self.buckets.prefetch(hash);
            group[filled] = (hash, id);
            filled += 1;
            if filled == GROUP {
                group.iter().for_each(|&(hash, id)| self.buckets.insert(hash, id));
                filled = 0;
            }
        }
        group[..filled].iter().for_each(|&(hash, id)| self.buckets.insert(hash, id));
        Ok(())
    }
}

impl fmt::Debug for FlowTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowTable")
            .field("live", &self.live)
            .field("flows_max", &self.flows_max)
            .field("entry_bytes", &self.entry_bytes())
            .finish_non_exhaustive()
    }
}
