//! Flows whose directions have different tags: a mirror port tags one direction, or gives each direction a
//! tag of its own.
//!
//! A packet that finds no flow with its key may belong to a flow with the same ends and other tags. The
//! program decides that, from the numbers of the packet and the flow (`join when …`). From then on, the key
//! with the packet's tags is a second key of the flow.

use crate::table::{BuildIdHasher, FlowId, FlowTable};
use std::collections::HashMap;
use weir_ir::key::KeyPlace;

/// Number of tags with which a flow is looked for: those of the flows created last.
const RECENT_MAX: usize = 16;

/// Limit of second keys of a table.
const JOINED_MAX: usize = 1 << 16;

/// A flow that a packet with other tags may join.
pub(crate) struct Candidate {
    pub flow: FlowId,
    /// The number of the tags to be tried next.
    pub next: usize,
}

/// The tags of a table's flows.
#[derive(Debug, Default)]
pub(crate) struct Tags {
    /// The tags of new flows, the latest ones first.
    recent: Vec<u64>,
    by_key: HashMap<Box<[u64]>, FlowId>,
    keys: HashMap<FlowId, Box<[u64]>, BuildIdHasher>,
}

impl Tags {
    /// Records the tags of a new flow.
    #[inline]
    pub fn note(&mut self, tags: u64) {
        if self.recent.first() != Some(&tags) {
            self.note_change(tags);
        }
    }

    fn note_change(&mut self, tags: u64) {
        match self.recent.iter().position(|&other| other == tags) {
            Some(at) => self.recent[..=at].rotate_right(1),
            None => {
                self.recent.truncate(RECENT_MAX - 1);
                self.recent.insert(0, tags);
            }
        }
    }

    /// The flow with this second key.
    #[inline]
    pub fn find(&self, key: &[u64]) -> Option<FlowId> {
        if self.by_key.is_empty() { None } else { self.by_key.get(key).copied() }
    }

    /// A flow with the ends of `key` and other recent tags, from those numbered `from` on.
    #[inline]
    pub fn candidate(
        &self,
        flows: &FlowTable,
        key: &[u64],
        place: KeyPlace,
        from: usize,
    ) -> Option<Candidate> {
        let own = place.low(key);
        // Usually all packets have the same tags, or none.
        if self.recent.iter().all(|&tags| tags == own) {
            return None;
        }
        let mut other = key.to_vec();
        for (at, &tags) in self.recent.iter().enumerate().skip(from) {
            place.set_low(&mut other, tags);
            if tags != own
                && let Some(flow) = flows.find(&other, flows.hash(&other), None)
                && !self.keys.contains_key(&flow)
            {
                return Some(Candidate { flow, next: at + 1 });
            }
        }
        None
    }

    /// Gives a flow, which has no second key, that one. Returns the bytes that it costs; `None` if there are
    /// too many.
    pub fn join(&mut self, key: &[u64], flow: FlowId) -> Option<usize> {
        if self.by_key.len() >= JOINED_MAX {
            return None;
        }
        self.by_key.insert(key.into(), flow);
        self.keys.insert(flow, key.into());
        Some(cost(key))
    }

    /// Removes the second key of a flow, if it has one. Returns the bytes that it cost.
    #[inline]
    pub fn forget(&mut self, flow: FlowId) -> usize {
        if self.keys.is_empty() { 0 } else { self.forget_key(flow) }
    }

    fn forget_key(&mut self, flow: FlowId) -> usize {
        let Some(key) = self.keys.remove(&flow) else { return 0 };
        self.by_key.remove(&key);
        cost(&key)
    }
}

/// Bytes of a second key in both maps, which may be half empty.
fn cost(key: &[u64]) -> usize {
    2 * (2 * size_of::<(Box<[u64]>, FlowId)>() + size_of_val(key) + 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_tags_come_first() {
        let mut all = Tags::default();
        (0..20).for_each(|tags| all.note(tags));
        all.note(10);
        all.note(10);
        assert_eq!(all.recent[..4], [10, 19, 18, 17]);
        assert_eq!(all.recent.len(), RECENT_MAX);
    }

    #[test]
    fn a_second_key_lasts_as_long_as_its_flow() {
        let mut all = Tags::default();
        let bytes = all.join(&[1, 2], FlowId(7)).expect("there is room");
        assert_eq!((all.find(&[1, 2]), all.find(&[1, 3])), (Some(FlowId(7)), None));
        assert_eq!((all.forget(FlowId(7)), all.forget(FlowId(7))), (bytes, 0));
        assert_eq!(all.find(&[1, 2]), None);
    }
}
