//! The index of a flow table: buckets of one cache line, from a hash to ids.
//!
//! A bucket holds ten ids with 16 bits of hash each, so a wrong entry is accessed once in some thousands of
//! lookups. A full bucket passes ids on to the next bucket and counts them. A search therefore stops at the
//! first bucket that has passed on nothing, and removal needs no tombstones.

use super::FlowId;
use super::memory::{Plain, Zeroed, equal, prefetch};

/// Ids per bucket.
const BUCKET_SLOTS: usize = 10;
/// Average number of ids per bucket at which the index is doubled. At 7 of 10, two of a hundred ids do not
/// fit into their own bucket.
const BUCKET_LOAD_MAX: usize = 7;
/// Buckets of an empty index: one page.
const BUCKETS_MIN: usize = 64;
/// Number of buckets from which huge pages are requested: one such page.
const BUCKETS_HUGE: usize = (2 << 20) / 64;

/// A cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Bucket {
    /// Upper bits of hashes; 0: the slot is free.
    tags: [u16; BUCKET_SLOTS],
    /// Ids that belong to this bucket or an earlier one and were stored in a later one; saturates.
    passed_on: u16,
    reserved: u16,
    flows: [u32; BUCKET_SLOTS],
}

const _: () = assert!(size_of::<Bucket>() == 64);

#[allow(unsafe_code)]
// SAFETY: integers; no slot is taken in a bucket of zeros.
unsafe impl Plain for Bucket {}

impl Bucket {
    /// A bit for every slot with this tag.
    #[inline(always)]
    fn slots_with(&self, tag: u16) -> u32 {
        let mut eight = [0; 8];
        eight.copy_from_slice(&self.tags[..8]);
        let rest = u32::from(self.tags[8] == tag) << 8 | u32::from(self.tags[9] == tag) << 9;
        equal(eight, tag) | rest
    }
}

/// The tag of a hash: its upper bits, where the bucket comes from the lower ones; never 0.
#[inline(always)]
fn tag_of(hash: u64) -> u16 {
    ((hash >> 48) as u16).max(1)
}

/// The index.
pub(super) struct Buckets {
    buckets: Zeroed<Bucket>,
    mask: usize,
}

impl Buckets {
    /// An index with room for `flows` ids; `None` if the system has no memory.
    pub(super) fn with_room(flows: usize) -> Option<Self> {
        let count = flows.div_ceil(BUCKET_LOAD_MAX).next_power_of_two().max(BUCKETS_MIN);
        Some(Self { buckets: Zeroed::new(count, count >= BUCKETS_HUGE)?, mask: count - 1 })
    }

    /// Number of ids up to which lookups stay fast.
    pub(super) fn room(&self) -> usize {
        self.buckets.len() * BUCKET_LOAD_MAX
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch(&self.buckets[hash as usize & self.mask]);
    }

    /// The first id with the tag of `hash` in its own bucket, if any: almost certainly the right one.
    #[inline(always)]
    pub(super) fn likely(&self, hash: u64) -> Option<FlowId> {
        let bucket = &self.buckets[hash as usize & self.mask];
        let slots = bucket.slots_with(tag_of(hash));
        (slots != 0).then(|| FlowId(bucket.flows[slots.trailing_zeros() as usize]))
    }

    /// The id with this hash for which `is_it` holds.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(FlowId) -> bool) -> Option<FlowId> {
        let tag = tag_of(hash);
        for step in 0..=self.mask {
            let bucket = &self.buckets[(hash as usize).wrapping_add(step) & self.mask];
            let mut slots = bucket.slots_with(tag);
            while slots != 0 {
                let id = FlowId(bucket.flows[slots.trailing_zeros() as usize]);
                if is_it(id) {
                    return Some(id);
                }
                slots &= slots - 1;
            }
            if bucket.passed_on == 0 {
                break;
            }
        }
        None
    }

    /// Adds an id that is not in the index. The index must have room (see [`room`](Self::room)), or no slot
    /// may be free.
    pub(super) fn insert(&mut self, hash: u64, id: FlowId) {
        for step in 0..=self.mask {
            let bucket = &mut self.buckets[(hash as usize).wrapping_add(step) & self.mask];
            let free = bucket.slots_with(0);
            if free != 0 {
                let slot = free.trailing_zeros() as usize;
                bucket.tags[slot] = tag_of(hash);
                bucket.flows[slot] = id.0;
                return;
            }
            bucket.passed_on = bucket.passed_on.saturating_add(1);
        }
        unreachable!("an index is doubled long before all of its slots are taken");
    }

    /// Removes an id that is there.
    ///
    /// # Panics
    /// If it is not there.
    pub(super) fn remove(&mut self, hash: u64, id: FlowId) {
        let tag = tag_of(hash);
        for step in 0..=self.mask {
            let bucket = &mut self.buckets[(hash as usize).wrapping_add(step) & self.mask];
            let mut slots = bucket.slots_with(tag);
            while slots != 0 {
                let slot = slots.trailing_zeros() as usize;
                if bucket.flows[slot] == id.0 {
                    bucket.tags[slot] = 0;
                    return;
                }
                slots &= slots - 1;
            }
            // The id is in a later bucket, so this bucket passed it on. A saturated count stays, because the
            // true one may be larger.
            assert!(bucket.passed_on > 0, "{id} is not in the index");
            if bucket.passed_on < u16::MAX {
                bucket.passed_on -= 1;
            }
        }
        panic!("{id} is not in the index");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_bucket_passes_on_and_forgets_that_it_did() {
        let mut index = Buckets::with_room(1).expect("there is memory");
        let hash = |n: u64| n << 48 | 5;
        for n in 1..=35 {
            index.insert(hash(n), FlowId(n as u32));
        }
        for n in 1..=35 {
            assert_eq!(index.find(hash(n), |id| id.0 == n as u32), Some(FlowId(n as u32)));
        }
        assert_eq!(index.buckets[5].passed_on, 25);
        for n in 1..=35 {
            index.remove(hash(n), FlowId(n as u32));
            assert_eq!(index.find(hash(n), |_| true), None);
        }
        assert!(index.buckets.iter().all(|b| b.passed_on == 0 && b.tags == [0; BUCKET_SLOTS]));
    }

    #[test]
    fn the_last_bucket_passes_on_to_the_first() {
        let mut index = Buckets::with_room(1).expect("there is memory");
        let hash = |n: u64| n << 48 | 63;
        (1..=11).for_each(|n| index.insert(hash(n), FlowId(n as u32)));
        assert_eq!(index.buckets[0].flows[0], 11);
        assert_eq!(index.find(hash(11), |_| true), Some(FlowId(11)));
    }
}
