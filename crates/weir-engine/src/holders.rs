//! Flows that may hold memory besides their entry, by how long they have been idle: buffers of parsers,
//! waiting segments and fragments, chunks, unfinished messages. If memory is short, the flow that has been
//! idle for the longest time ends first. Among the longest idle ones, flows of low priority end first.
//!
//! A flow is entered once, when it may begin to hold memory, and its later packets do not access the list.
//! The flow's time is therefore compared with the time of its entry only when a victim is chosen: a flow that
//! had packets since moves to the end.

use crate::flow_ref::FlowRef;
use std::collections::VecDeque;
use weir_memory::checked;

/// Maximum number of entries that one search for a victim visits. The longest idle flow of those is the
/// victim.
const VISITS_MAX: usize = 64;

/// Entries of ended flows are discarded once the list is longer than twice the number of live flows, and
/// this.
const LENGTH_MIN: usize = 1024;

/// A flow that may hold memory.
#[derive(Debug, Clone, Copy)]
struct Holder {
    flow: FlowRef,
    /// The number of the flow's first packet: another flow may use the same slot later.
    first_packet: u64,
    /// The time of the flow's last packet when it was entered, or visited last.
    seen: i64,
}

/// What a visit of a flow finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holding {
    /// The flow holds memory.
    Some {
        /// The time of its last packet.
        last: i64,
        /// The rank of its priority, from 0.
        rank: usize,
    },
    /// The flow holds nothing. The callee has cleared its mark, so that it is entered again later.
    Nothing,
    /// The flow has ended.
    Ended,
}

/// The list of one worker.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    list: VecDeque<Holder>,
}

impl Holders {
    /// Enters a flow that is not in the list. `false` if the system has no memory for the entry.
    pub fn enter(&mut self, flow: FlowRef, first_packet: u64, now: i64) -> bool {
        let has_room = checked(|| self.list.try_reserve(1)).is_ok();
        if has_room {
            self.list.push_back(Holder { flow, first_packet, seen: now });
        }
        has_room
    }

    /// Whether entries of ended flows should be discarded, while `live` flows exist.
    pub fn is_stale(&self, live: usize) -> bool {
        self.list.len() > LENGTH_MIN.max(2 * live)
    }

    /// Discards the entries of flows that have ended.
    pub fn discard(&mut self, is_live: impl Fn(FlowRef, u64) -> bool) {
        self.list.retain(|holder| is_live(holder.flow, holder.first_packet));
    }

    /// Bytes of memory beyond that of a short list.
    pub fn bytes(&self) -> usize {
        self.list.capacity().saturating_sub(2 * LENGTH_MIN) * size_of::<Holder>()
    }

    /// Removes and returns the flow that has been idle for the longest time, if its last packet is at or
    /// before `until`; of up to [`VISITS_MAX`] such flows, one of the lowest rank. `visit` says what a flow,
    /// given with the number of its first packet, holds now.
    pub fn longest_idle(
        &mut self,
        until: i64,
        mut visit: impl FnMut(FlowRef, u64) -> Holding,
    ) -> Option<FlowRef> {
        // Entries of ended flows are gone for good, so they do not count as visits.
        let mut visits = self.list.len().min(VISITS_MAX);
        // Idle flows with their ranks, the longest idle first.
        let mut idle: Vec<(usize, Holder)> = vec![];
        while visits > 0
            && let Some(holder) = self.list.pop_front_if(|holder| holder.seen <= until)
        {
            match visit(holder.flow, holder.first_packet) {
                Holding::Some { last, rank } if last <= holder.seen => {
                    idle.push((rank, holder));
                    visits = if rank == 0 { 0 } else { visits - 1 };
                }
                Holding::Some { last, .. } => {
                    self.list.push_back(Holder { seen: last, ..holder });
                    visits -= 1;
                }
                Holding::Nothing | Holding::Ended => {}
            }
        }
        let victim = idle.iter().enumerate().min_by_key(|(_, (rank, _))| *rank).map(|(at, _)| at);
        let victim = victim.map(|at| idle.remove(at).1.flow);
        idle.into_iter().rev().for_each(|(_, holder)| self.list.push_front(holder));
        if victim.is_some() || self.list.front().is_none_or(|holder| holder.seen > until) {
            return victim;
        }
        // All visited flows had packets since their last visit.
        let oldest = self.list.len().saturating_sub(VISITS_MAX);
        let (index, holder) =
            self.list.iter().enumerate().skip(oldest).min_by_key(|(_, holder)| holder.seen)?;
        if holder.seen > until {
            return None;
        }
        let flow = holder.flow;
        self.list.remove(index);
        Some(flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::FlowId;
    use weir_ir::graph::Table;

    fn flow(id: u32) -> FlowRef {
        FlowRef::new(Table(0), FlowId(id))
    }

    fn some(last: i64, rank: usize) -> Holding {
        Holding::Some { last, rank }
    }

    fn entered(flows: u32) -> Holders {
        let mut holders = Holders::default();
        (0..flows).for_each(|id| assert!(holders.enter(flow(id), u64::from(id), i64::from(id))));
        holders
    }

    #[test]
    fn the_flow_without_packets_for_the_longest_time_is_the_victim() {
        let mut holders = entered(4);
        // Flow 0 had a later packet, flow 1 holds nothing any more.
        let visit = |flow: FlowRef, _| match flow.id.0 {
            0 => some(100, 0),
            1 => Holding::Nothing,
            id => some(i64::from(id), 0),
        };
        let order: Vec<_> = std::iter::from_fn(|| holders.longest_idle(i64::MAX, visit)).collect();
        assert_eq!(order, [2, 3, 0].map(flow));
    }

    #[test]
    fn a_flow_with_a_packet_after_the_limit_is_no_victim() {
        let mut holders = entered(4);
        let visit = |flow: FlowRef, _| some(i64::from(flow.id.0), 0);
        let order: Vec<_> = std::iter::from_fn(|| holders.longest_idle(1, visit)).collect();
        assert_eq!(order, [0, 1].map(flow));
        assert_eq!(holders.longest_idle(1, |_, _| some(9, 0)), None);
    }

    #[test]
    fn of_idle_flows_one_of_the_lowest_rank_is_the_victim() {
        let mut holders = entered(4);
        let visit = |flow: FlowRef, _| some(i64::from(flow.id.0), [2, 1, 2, 1][flow.id.0 as usize]);
        let order: Vec<_> = std::iter::from_fn(|| holders.longest_idle(2, visit)).collect();
        assert_eq!(order, [1, 0, 2].map(flow), "flow 3 is not idle");
    }

    #[test]
    fn a_search_visits_a_bounded_number_of_active_flows_and_still_finds_one() {
        let mut holders = entered(10_000);
        let mut visits = 0;
        let victim = holders.longest_idle(i64::MAX, |flow, _| {
            visits += 1;
            some(1_000_000 - i64::from(flow.id.0), 0)
        });
        assert_eq!((victim, visits), (Some(flow(VISITS_MAX as u32 - 1)), VISITS_MAX));
    }

    #[test]
    fn entries_of_ended_flows_do_not_accumulate() {
        let mut holders = entered(5000);
        assert!(holders.is_stale(100) && !holders.is_stale(2500));
        holders.discard(|flow, first_packet| flow.id.0 < 50 && first_packet < 40);
        assert_eq!(holders.list.len(), 40);
        let none = holders.longest_idle(i64::MAX, |_, _| Holding::Ended);
        assert_eq!((none, holders.list.len()), (None, 0));
    }
}
