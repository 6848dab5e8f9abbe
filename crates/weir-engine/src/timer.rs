//! A hierarchical timer wheel on packet time, which finds flows that have been idle for too long.
//!
//! Seven levels of 64 slots cover all of time in ticks of 67 ms. Level 0 holds deadlines within the current
//! 64 ticks, level 1 deadlines within the current 64 × 64, and so on. The level of a deadline is its first
//! digit (to base 64) that differs from the current tick's. Packets do not access the wheel: a flow has one
//! entry, scheduled once. When its slot is reached, the caller returns the flow's real deadline, and only
//! then the entry moves. A flow therefore costs one visit per time-out, not one per packet.
//!
//! Expiry is late by up to a tick, never early. To decide exactly whether a flow was over when a packet came,
//! compare times at the lookup; the wheel finds flows that are not looked up.

use crate::table::FlowId;
use weir_memory::checked;

/// The length of a tick in nanoseconds: 2²⁶.
pub const TICK_NS: i64 = 1 << TICK_SHIFT;
const TICK_SHIFT: u32 = 26;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// 38 bits of ticks (64 bits of time less 26) in digits of 6 bits.
const LEVELS: usize = (64 - TICK_SHIFT).div_ceil(SLOT_BITS) as usize;

/// Maximum number of flows that a search for the earliest deadline visits.
const FIRST_VISITS_MAX: usize = 64;

const NONE: u32 = u32::MAX;
const IDLE: u16 = u16::MAX;

/// A flow's entry in the doubly linked list of a slot.
#[derive(Debug, Clone, Copy)]
struct Node {
    previous: u32,
    next: u32,
    /// The slot, numbered level by level; of two slots, the one with the lower number is always due first.
    slot: u16,
}

/// The wheel of one table. Uses 12 bytes per id and 4 KiB.
#[derive(Debug)]
pub struct TimerWheel {
    /// The current tick: the first one that has not passed entirely.
    current: u64,
    /// A bit for every slot that is not empty.
    occupied: [u64; LEVELS],
    heads: [u32; LEVELS * SLOTS],
    tails: [u32; LEVELS * SLOTS],
    nodes: Vec<Node>,
    pending: usize,
    /// First flows of the slots being emptied; kept to reuse its allocation.
    emptied: Vec<u32>,
}

impl Default for TimerWheel {
    fn default() -> Self {
        Self {
            current: 0,
            occupied: [0; LEVELS],
            heads: [NONE; LEVELS * SLOTS],
            tails: [NONE; LEVELS * SLOTS],
            nodes: Vec::new(),
            pending: 0,
            emptied: Vec::new(),
        }
    }
}

/// The number of a time's tick, counted from the smallest time.
fn tick_of(time: i64) -> u64 {
    (time as u64 ^ 1 << 63) >> TICK_SHIFT
}

impl TimerWheel {
    /// Bytes of a flow in the wheel.
    pub(crate) const BYTES_PER_FLOW: usize = size_of::<Node>();

    /// Reserves memory for `flows` ids.
    ///
    /// # Errors
    /// If the system has no memory.
    pub(crate) fn reserve(&mut self, flows: usize) -> Result<(), std::collections::TryReserveError> {
        checked(|| self.nodes.try_reserve(flows.saturating_sub(self.nodes.len())))
    }

    /// Schedules a visit of the flow soon after `deadline` (nanoseconds since 1970). An earlier visit stays
    /// scheduled. Constant time.
    pub fn schedule(&mut self, id: FlowId, deadline: i64) {
        if self.nodes.len() <= id.0 as usize {
            self.nodes.resize(id.0 as usize + 1, Node { previous: NONE, next: NONE, slot: IDLE });
        }
        let slot = self.slot_of(deadline);
        let armed = self.nodes[id.0 as usize].slot;
        if armed != IDLE {
            if armed <= slot {
                return;
            }
            self.unlink(id);
        }
        self.link(id, slot);
    }

    /// Removes a flow, if it is in the wheel. Constant time.
    pub fn cancel(&mut self, id: FlowId) {
        if self.is_pending(id) {
            self.unlink(id);
        }
    }

    /// Whether the flow is in the wheel.
    pub fn is_pending(&self, id: FlowId) -> bool {
        self.nodes.get(id.0 as usize).is_some_and(|node| node.slot != IDLE)
    }

    /// Flows in the wheel.
    pub fn len(&self) -> usize {
        self.pending
    }

    /// No flow is in the wheel.
    pub fn is_empty(&self) -> bool {
        self.pending == 0
    }

    /// Whether the wheel's time is later than `now`.
    pub fn is_later_than(&self, now: i64) -> bool {
        tick_of(now) < self.current
    }

    /// Advances the time to `now`. Calls `deadline_of` for the real deadline of each flow whose slot is
    /// reached (`None`: the flow is removed). Flows that are due are removed and pushed to `expired` with
    /// their deadlines; the others are scheduled again.
    ///
    /// Visits each flow at most once, and no empty slot, however far time has jumped; if time has gone back,
    /// every flow. `expired` is in the order of the wheel: sort before use. Usually the tick has not changed,
    /// and the call costs one comparison.
    #[inline]
    pub fn advance(
        &mut self,
        now: i64,
        deadline_of: impl FnMut(FlowId) -> Option<i64>,
        expired: &mut Vec<(i64, FlowId)>,
    ) {
        if tick_of(now) != self.current {
            self.turn(now, deadline_of, expired);
        }
    }

    fn turn(
        &mut self,
        now: i64,
        mut deadline_of: impl FnMut(FlowId) -> Option<i64>,
        expired: &mut Vec<(i64, FlowId)>,
    ) {
        // All slots are emptied before flows are scheduled again, so no flow is visited twice.
        let mut emptied = std::mem::take(&mut self.emptied);
        if tick_of(now) > self.current {
            self.empty_slots_before(tick_of(now), &mut emptied);
        } else {
            self.empty_all_slots(&mut emptied);
        }
        self.current = tick_of(now);
        for head in emptied.drain(..) {
            let mut next = head;
            while next != NONE {
                let id = FlowId(next);
                let node = &mut self.nodes[next as usize];
                next = node.next;
                node.slot = IDLE;
                self.pending -= 1;
                match deadline_of(id) {
                    Some(deadline) if deadline <= now => expired.push((deadline, id)),
                    Some(deadline) => self.link(id, self.slot_of(deadline)),
                    None => {}
                }
            }
        }
        self.emptied = emptied;
    }

    /// A flow whose deadline is among the earliest, to the precision of a slot: of those the one that was
    /// scheduled first. `deadline_of` returns a flow's real deadline, and `rank_of` the rank of its priority:
    /// a flow of a rank above 0 is spared if one of the first [`FIRST_VISITS_MAX`] flows has a lower rank. If
    /// these flows all have later deadlines than scheduled, the earliest one of these; they move to their
    /// slots, so a later call finds earlier ones. `None` if no flow is scheduled.
    pub fn first(
        &mut self,
        mut deadline_of: impl FnMut(FlowId) -> Option<i64>,
        mut rank_of: impl FnMut(FlowId) -> usize,
    ) -> Option<FlowId> {
        let mut moved: Option<(i64, FlowId)> = None;
        let mut spared: Option<(usize, FlowId)> = None;
        let mut visits = FIRST_VISITS_MAX;
        let mut from = 0;
        while visits > 0
            && let Some(slot) = self.occupied_slot(from)
        {
            from = slot + 1;
            let mut next = self.heads[slot];
            while next != NONE && visits > 0 {
                visits -= 1;
                let id = FlowId(next);
                next = self.nodes[next as usize].next;
                let Some(deadline) = deadline_of(id) else {
                    self.unlink(id);
                    continue;
                };
                let own = self.slot_of(deadline);
                if usize::from(own) > slot {
                    self.unlink(id);
                    self.link(id, own);
                    if moved.is_none_or(|(earliest, _)| deadline < earliest) {
                        moved = Some((deadline, id));
                    }
                    continue;
                }
                let rank = rank_of(id);
                if rank == 0 {
                    return Some(id);
                }
                if spared.is_none_or(|(lowest, _)| rank < lowest) {
                    spared = Some((rank, id));
                }
            }
        }
        spared.map(|(_, id)| id).or(moved.map(|(_, id)| id))
    }

    /// The first slot from `from` on that is not empty.
    fn occupied_slot(&self, from: usize) -> Option<usize> {
        (from / SLOTS..LEVELS).find_map(|level| {
            let skipped = from.saturating_sub(level * SLOTS) as u32;
            let slots = self.occupied[level] & u64::MAX << skipped;
            (slots != 0).then(|| level * SLOTS + slots.trailing_zeros() as usize)
        })
    }

    /// Removes the lists of all slots.
    fn empty_all_slots(&mut self, lists: &mut Vec<u32>) {
        self.occupied = [0; LEVELS];
        self.tails = [NONE; LEVELS * SLOTS];
        let heads = self.heads.iter_mut().map(|head| std::mem::replace(head, NONE));
        lists.extend(heads.filter(|&head| head != NONE));
    }

    /// Removes the lists of all slots that begin before the end of `target`: on level 0 the ticks before it,
    /// on higher levels also the slot that contains it.
    fn empty_slots_before(&mut self, target: u64, lists: &mut Vec<u32>) {
        for level in 0..LEVELS {
            let shift = level as u32 * SLOT_BITS;
            let (from, to) = (self.current >> shift, target >> shift);
            if from == to {
                break;
            }
            let up_to = |digit: u64| u64::MAX >> (63 - digit);
            let digit = to % SLOTS as u64;
            let passed = match level {
                _ if from >> SLOT_BITS != to >> SLOT_BITS => u64::MAX,
                0 => up_to(digit) >> 1,
                _ => up_to(digit),
            };
            let mut slots = self.occupied[level] & passed;
            self.occupied[level] &= !passed;
            while slots != 0 {
                let slot = level * SLOTS + slots.trailing_zeros() as usize;
                lists.push(std::mem::replace(&mut self.heads[slot], NONE));
                self.tails[slot] = NONE;
                slots &= slots - 1;
            }
        }
    }

    /// The slot of a deadline, seen from the current tick; the current slot if the deadline has passed.
    fn slot_of(&self, deadline: i64) -> u16 {
        let tick = tick_of(deadline).max(self.current);
        let level = (tick ^ self.current).checked_ilog2().unwrap_or(0) / SLOT_BITS;
        let digit = tick >> (level * SLOT_BITS) & (SLOTS as u64 - 1);
        (level as u16) << SLOT_BITS | digit as u16
    }

    fn link(&mut self, id: FlowId, slot: u16) {
        // The flow that has waited the longest is the first one of its slot.
        let previous = std::mem::replace(&mut self.tails[slot as usize], id.0);
        match previous {
            NONE => self.heads[slot as usize] = id.0,
            previous => self.nodes[previous as usize].next = id.0,
        }
        self.nodes[id.0 as usize] = Node { previous, next: NONE, slot };
        self.occupied[slot as usize / SLOTS] |= 1 << (slot as usize % SLOTS);
        self.pending += 1;
    }

    fn unlink(&mut self, id: FlowId) {
        let Node { previous, next, slot } = self.nodes[id.0 as usize];
        match next {
            NONE => self.tails[slot as usize] = previous,
            next => self.nodes[next as usize].previous = previous,
        }
        if previous != NONE {
            self.nodes[previous as usize].next = next;
        } else {
            self.heads[slot as usize] = next;
            if next == NONE {
                self.occupied[slot as usize / SLOTS] &= !(1 << (slot as usize % SLOTS));
            }
        }
        self.nodes[id.0 as usize].slot = IDLE;
        self.pending -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const SECOND: i64 = 1_000_000_000;
    const START: i64 = 1_790_000_000 * SECOND;

    /// Advances the wheel to `now`; `deadlines` holds the flows' real deadlines.
    fn advance(wheel: &mut TimerWheel, now: i64, deadlines: &BTreeMap<u32, i64>) -> Vec<(i64, FlowId)> {
        let mut expired = Vec::new();
        wheel.advance(now, |id| deadlines.get(&id.0).copied(), &mut expired);
        expired.sort();
        expired
    }

    #[test]
    fn a_flow_expires_within_a_tick_after_its_deadline() {
        let mut wheel = TimerWheel::default();
        advance(&mut wheel, START, &BTreeMap::new());
        wheel.schedule(FlowId(3), START + 5 * SECOND);
        let deadlines = BTreeMap::from([(3, START + 5 * SECOND)]);
        assert_eq!(advance(&mut wheel, START + 5 * SECOND - 1, &deadlines), []);
        let due = (START + 5 * SECOND, FlowId(3));
        assert_eq!(advance(&mut wheel, START + 5 * SECOND + TICK_NS, &deadlines), [due]);
        assert!(wheel.is_empty());
    }

    #[test]
    fn the_first_flow_is_the_one_that_waits_the_longest_for_an_early_deadline() {
        let mut wheel = TimerWheel::default();
        advance(&mut wheel, START, &BTreeMap::new());
        let mut deadlines = BTreeMap::new();
        for (id, seconds) in [(1, 300), (2, 5), (3, 5), (4, 300)] {
            wheel.schedule(FlowId(id), START + seconds * SECOND);
            deadlines.insert(id, START + seconds * SECOND);
        }
        let mut first = |deadlines: &BTreeMap<u32, i64>| {
            let first = wheel.first(|id| deadlines.get(&id.0).copied(), |_| 0);
            first.into_iter().for_each(|id| wheel.cancel(id));
            first.map(|id| id.0)
        };
        assert_eq!(first(&deadlines), Some(2));
        // The third flow had packets, and its deadline is now later than all others.
        deadlines.insert(3, START + 400 * SECOND);
        assert_eq!([(); 4].map(|()| first(&deadlines)), [Some(1), Some(4), Some(3), None]);
    }

    #[test]
    fn a_search_among_flows_that_all_have_later_deadlines_finds_one_of_them() {
        let mut wheel = TimerWheel::default();
        advance(&mut wheel, START, &BTreeMap::new());
        let flows = 10 * FIRST_VISITS_MAX as u32;
        (0..flows).for_each(|id| wheel.schedule(FlowId(id), START + 5 * SECOND));
        let deadline = |id: FlowId| Some(START + (300 + i64::from(id.0 % 7)) * SECOND);
        let first = wheel.first(deadline, |_| 0);
        assert!(first.is_some_and(|id| id.0 % 7 == 0), "{first:?}");
        assert_eq!(wheel.len(), flows as usize);
    }

    #[test]
    fn flows_of_a_higher_rank_are_spared_if_there_are_others() {
        let mut wheel = TimerWheel::default();
        advance(&mut wheel, START, &BTreeMap::new());
        let deadline = |id: FlowId| START + (5 + 100 * i64::from(id.0 % 3)) * SECOND;
        (0..6).for_each(|id| wheel.schedule(FlowId(id), deadline(FlowId(id))));
        let rank = |id: FlowId| [2, 1, 0, 2, 0, 1][id.0 as usize];
        let order = std::iter::from_fn(|| {
            let first = wheel.first(|id| Some(deadline(id)), rank);
            first.into_iter().for_each(|id| wheel.cancel(id));
            first.map(rank)
        });
        assert_eq!(order.collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn a_flow_with_later_packets_is_asked_about_and_goes_on() {
        let mut wheel = TimerWheel::default();
        wheel.schedule(FlowId(0), START + 5 * SECOND);
        let later = BTreeMap::from([(0, START + 9 * SECOND)]);
        assert_eq!(advance(&mut wheel, START + 6 * SECOND, &later), []);
        assert!(wheel.is_pending(FlowId(0)));
        assert_eq!(advance(&mut wheel, START + 10 * SECOND, &later).len(), 1);
    }

    #[test]
    fn an_earlier_deadline_moves_a_flow_and_a_later_one_does_not() {
        let mut wheel = TimerWheel::default();
        advance(&mut wheel, START, &BTreeMap::new());
        wheel.schedule(FlowId(0), START + 300 * SECOND);
        wheel.schedule(FlowId(0), START + 5 * SECOND);
        wheel.schedule(FlowId(0), START + 300 * SECOND);
        assert_eq!(wheel.len(), 1);
        let deadlines = BTreeMap::from([(0, START + 5 * SECOND)]);
        assert_eq!(advance(&mut wheel, START + 6 * SECOND, &deadlines).len(), 1);
    }

    #[test]
    fn time_may_jump_by_a_century_or_go_back() {
        let mut wheel = TimerWheel::default();
        wheel.schedule(FlowId(0), i64::MIN);
        wheel.schedule(FlowId(1), START);
        wheel.schedule(FlowId(2), i64::MAX);
        let deadlines = BTreeMap::from([(0, i64::MIN), (1, START), (2, i64::MAX)]);
        assert_eq!(advance(&mut wheel, START - SECOND, &deadlines), [(i64::MIN, FlowId(0))]);
        assert_eq!(advance(&mut wheel, i64::MIN, &deadlines), []);
        assert_eq!(advance(&mut wheel, START + SECOND, &deadlines), [(START, FlowId(1))]);
        let century = START + 100 * 365 * 86_400 * SECOND;
        assert_eq!(advance(&mut wheel, century, &deadlines), []);
        assert_eq!(wheel.len(), 1, "the last tick of all never passes");
    }

    #[test]
    fn time_that_went_back_comes_again() {
        let mut wheel = TimerWheel::default();
        let year = 365 * 86_400 * SECOND;
        advance(&mut wheel, START + year, &BTreeMap::new());
        (0..3).for_each(|id| wheel.schedule(FlowId(id), START));
        let deadlines =
            BTreeMap::from([(0, START + SECOND), (1, START + 300 * SECOND), (2, START + 2 * year)]);
        assert_eq!(advance(&mut wheel, START, &deadlines), []);
        assert_eq!(advance(&mut wheel, START + 2 * SECOND, &deadlines), [(START + SECOND, FlowId(0))]);
        assert_eq!(advance(&mut wheel, START + 301 * SECOND, &deadlines).len(), 1);
        assert_eq!(wheel.len(), 1);
    }

    #[test]
    fn a_flow_without_deadline_is_forgotten() {
        let mut wheel = TimerWheel::default();
        wheel.schedule(FlowId(7), START);
        assert_eq!(advance(&mut wheel, START + SECOND, &BTreeMap::new()), []);
        assert!(wheel.is_empty() && !wheel.is_pending(FlowId(7)));
    }

    #[test]
    fn a_cancelled_flow_does_not_come_up() {
        let mut wheel = TimerWheel::default();
        (0..3).for_each(|id| wheel.schedule(FlowId(id), START));
        wheel.cancel(FlowId(1));
        wheel.cancel(FlowId(1));
        wheel.cancel(FlowId(99));
        let deadlines = BTreeMap::from([(0, START), (1, START), (2, START)]);
        assert_eq!(advance(&mut wheel, START + SECOND, &deadlines), [(START, FlowId(0)), (START, FlowId(2))]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// Compared with a list, no flow expires early or more than a tick late, and none is lost.
        #[test]
        fn agrees_with_a_list(
            steps in prop::collection::vec((0u8..5, 0u32..40, 0u32..45, any::<u64>()), 1..400),
        ) {
            let mut wheel = TimerWheel::default();
            let mut deadlines = BTreeMap::new();
            let mut now = START;
            advance(&mut wheel, now, &deadlines);
            for (step, id, bits, random) in steps {
                // Spans of all magnitudes, from zero to some hours.
                let span = (random & ((1 << bits) - 1)) as i64;
                match step {
                    0 => {
                        // Earlier deadlines must be scheduled; later ones need not.
                        let earlier = deadlines.get(&id).is_none_or(|&old| now + span < old);
                        deadlines.insert(id, now + span);
                        if earlier || random % 2 == 0 {
                            wheel.schedule(FlowId(id), now + span);
                        }
                    }
                    1 => {
                        deadlines.remove(&id);
                        wheel.cancel(FlowId(id));
                    }
                    _ => {
                        now += span >> (step * 4);
                        for (deadline, id) in advance(&mut wheel, now, &deadlines) {
                            prop_assert_eq!(deadlines.remove(&id.0), Some(deadline));
                            prop_assert!(deadline <= now);
                        }
                        prop_assert!(deadlines.values().all(|&d| d + TICK_NS > now), "somebody is late");
                    }
                }
                prop_assert_eq!(wheel.len(), deadlines.len());
            }
        }
    }
}
