//! Connections that the kernel has taken over (Scap, section 5: "subzero copy").
//!
//! Once nothing more than its record is wanted of a connection, and some packets have come that nobody
//! needed, the engine gives the connection to the kernel: an entry of the kernel's table gets the variables
//! that the kernel needs ([`weir_ir::kernel_flows`]). The kernel then counts the packets that change nothing
//! else. The engine takes the connection back, with what was counted, when the kernel lets one of its packets
//! pass, when its time-out has passed, and when it ends. Packets that were on their way to the engine when
//! the kernel got the connection do not take it back. For reports, the engine only adds what was counted so
//! far.
//!
//! A connection in a tunnel whose own connection is observed stays with the engine, because its packets count
//! for both.

use crate::flow_hit::FlowHit;
use crate::flow_ref::FlowRef;
use crate::flows::Flows;
use crate::kernel_entries::Given;
use crate::kernel_plan::KernelPlan;
use crate::matcher::Matcher;
use crate::sets::Terms;
use crate::table::FlowId;
use std::sync::Arc;
use weir_ir::abi::{FlowRecord, WANTS_RECORD};
use weir_ir::engine_var::{EngineVar, VarName};
use weir_ir::graph::Table;
use weir_ir::kernel_flows::{LAST_TIME, Role, STATE, SWAP};
use weir_packet::Direction;

/// The kernel has the connection.
const GIVEN: u8 = u8::MAX;
/// Connections that were given longest ago and are looked at if there is no room for another one.
const LOOKS: usize = 4;
/// Such a connection stays if the kernel has counted a packet within this time: 1 s.
const BUSY_NS: i64 = 1_000_000_000;
/// The times of packets and those of the kernel's table may differ by this much, because the kernel may take
/// the times of several packets before it handles the first one: 100 µs.
const SLACK_NS: i64 = 100_000;
/// Packets that pass the kernel unseen before their connection is taken back.
const UNSEEN_MAX: u8 = 16;
/// Times that a connection is given in vain before it is never given again.
const TRIES_MAX: u8 = 5;

impl Flows {
    /// Before a packet of a live flow is processed, received at `time`: takes the flow back if the kernel has
    /// it and has opened its entry, or removed it. The flow stays there if the packet was received before the
    /// kernel got the flow, or passed the kernel unseen, such as a fragment.
    #[inline]
    pub fn take_back_for(&mut self, flow: FlowRef, time: i64) {
        if self.quiet(flow) == GIVEN && self.is_opened(flow, time) {
            self.take_back(flow);
        }
    }

    /// Whether the kernel has opened the entry of a flow for a packet received at `time`, or has none, or the
    /// packet came after those counted although the entry is not open: the filter was away, or the packet
    /// passed unseen.
    #[cold]
    fn is_opened(&mut self, flow: FlowRef, time: i64) -> bool {
        let taken = &mut self.taken_over;
        let Some(given) = taken.given.get_mut(&flow) else { return true };
        let kernel = taken.plan.as_ref().and_then(|plan| plan.get());
        let Some(kernel) = kernel.filter(|_| time > given.since) else { return false };
        taken.entry.clear();
        taken.entry.resize(kernel.layout.entry_words, 0);
        let is_known = kernel.flows.read(&given.key, &mut taken.entry);
        let last_time = taken.entry[LAST_TIME] as i64;
        // The flow is not idle.
        let header = self.tables[flow.table.index()].flows.entry_mut(flow.id).0;
        header.last_time = header.last_time.max(last_time);
        let is_after = time.saturating_add(SLACK_NS) >= last_time;
        if !is_known || taken.entry[STATE] != 0 && is_after || last_time != 0 && time > last_time + SLACK_NS {
            return true;
        }
        given.unseen = given.unseen.saturating_add(1);
        given.unseen > UNSEEN_MAX
    }

    #[inline]
    fn quiet(&self, flow: FlowRef) -> u8 {
        self.tables[flow.table.index()].quiet.get(flow.id.0 as usize).map_or(0, |quiet| quiet[0])
    }

    /// After a packet of a connection: gives the connection to the kernel if enough packets have come that
    /// nobody needed.
    #[inline]
    pub fn note_quiet(&mut self, found: FlowHit, matcher: &Matcher) {
        let state = &mut self.tables[found.table().index()];
        let id = found.id().0 as usize;
        if !state.layout.observed || state.layout.part || state.part > 0 || !state.flows.is_live(found.id()) {
            return;
        }
        let Some(kernel) = self.taken_over.plan.as_ref().and_then(|plan| plan.get()) else { return };
        let wants = state.layout.wants_at.map_or(u8::MAX, |at| state.flows.entry(found.id()).1[at]);
        if wants & !(WANTS_RECORD as u8) != 0 {
            return;
        }
        if state.quiet.len() <= id {
            state.quiet.resize(state.flows.ids() as usize, [0; 2]);
        }
        let [count, tries] = state.quiet[id];
        if count == GIVEN || tries > TRIES_MAX {
            return;
        }
        // Of a connection that was given in vain, more packets are waited for each time.
        let enough = u32::from(kernel.quiet_packets) << tries;
        if u32::from(count) + 1 < enough.min(u32::from(GIVEN) - 1) {
            state.quiet[id][0] = count + 1;
            return;
        }
        state.quiet[id][0] = 0;
        self.give(found.flow(), matcher);
    }

    #[cold]
    fn give(&mut self, flow: FlowRef, matcher: &Matcher) {
        let plan = Arc::clone(&self.plan);
        let is_shared = self.sharing.as_ref().is_some_and(|sharing| sharing.is_shared(flow.table));
        if is_shared || self.outer.contains_key(&flow) || !self.taken_over.is_ready(&plan) {
            return;
        }
        let terms = self.terms_of(flow);
        let terms = Terms::of(&terms);
        if terms.intersects(matcher.packet_classes()) || terms.intersects(matcher.tracked_classes().terms()) {
            return;
        }
        let Some(slot) = self.taken_over.plan.clone() else { return };
        let Some(kernel) = slot.get() else { return };
        let flows = &kernel.flows;
        let Some(Some(places)) = self.taken_over.places.get(flow.table.index()) else { return };
        let (header, data) = self.tables[flow.table.index()].flows.entry(flow.id);
        let key = kernel.layout.key(places.table.layer, header.key());
        let mut first = vec![0; kernel.layout.entry_words];
        places.fill(data, &mut first);
        first[SWAP] = u64::from(header.swap);
        self.make_room(kernel, flows.now());
        if self.taken_over.given.len() >= kernel.flows_max || !flows.give(&key, &first) {
            return;
        }
        let taken = &mut self.taken_over;
        taken.count += 1;
        let number = taken.count;
        taken.by_age.push_back((flow, number));
        taken.given.insert(flow, Given { number, key, first, since: flows.now(), unseen: 0 });
        taken.forget_old();
        self.tables[flow.table.index()].quiet[flow.id.0 as usize][0] = GIVEN;
    }

    /// Takes back connections without packets of late, if there is no room for another one.
    fn make_room(&mut self, kernel: &KernelPlan, now: i64) {
        for _ in 0..LOOKS {
            if self.taken_over.given.len() < kernel.flows_max {
                return;
            }
            let Some((flow, number)) = self.taken_over.by_age.pop_front() else { return };
            if self.taken_over.is_old(flow, number) {
                continue;
            }
            let taken = &mut self.taken_over;
            let mut entry = vec![0; kernel.layout.entry_words];
            let Some(given) = taken.given.get(&flow) else { continue };
            let is_known = kernel.flows.read(&given.key, &mut entry);
            if is_known && now.saturating_sub(entry[LAST_TIME] as i64) < BUSY_NS {
                taken.by_age.push_back((flow, number));
            } else {
                self.take_back(flow);
            }
        }
    }

    /// Takes a flow back from the kernel, with what the kernel has counted, if the kernel has it.
    #[inline]
    pub fn take_back(&mut self, flow: FlowRef) {
        if self.quiet(flow) != GIVEN {
            return;
        }
        let has_counted = self.collect(flow, true);
        self.taken_over.given.remove(&flow);
        if let Some(quiet) = self.tables[flow.table.index()].quiet.get_mut(flow.id.0 as usize) {
            let tries = if has_counted { 0 } else { quiet[1].saturating_add(1) };
            *quiet = [0, tries];
        }
    }

    /// Adds to a flow what the kernel has counted so far, if the kernel has the flow; it keeps the flow.
    #[inline]
    pub fn refresh(&mut self, flow: FlowRef) {
        if self.quiet(flow) == GIVEN {
            self.collect(flow, false);
        }
    }

    /// Adds to a flow what the kernel has counted since the last time. Returns whether it has counted
    /// anything since it got the flow. `removes`: the kernel forgets the flow.
    #[cold]
    fn collect(&mut self, flow: FlowRef, removes: bool) -> bool {
        let state = &mut self.tables[flow.table.index()];
        let taken = &mut self.taken_over;
        let kernel = taken.plan.as_ref().and_then(|plan| plan.get());
        let (Some(given), Some(kernel), Some(Some(places))) =
            (taken.given.get_mut(&flow), kernel, taken.places.get(flow.table.index()))
        else {
            return false;
        };
        let mut entry = std::mem::take(&mut taken.entry);
        entry.clear();
        entry.resize(kernel.layout.entry_words, 0);
        let is_known = match removes {
            true => kernel.flows.take(&given.key, &mut entry),
            false => kernel.flows.read(&given.key, &mut entry),
        };
        if !is_known || entry[LAST_TIME] == 0 || !state.flows.is_live(flow.id) {
            taken.entry = entry;
            return false;
        }
        let (header, data) = state.flows.entry_mut(flow.id);
        header.last_time = header.last_time.max(entry[LAST_TIME] as i64);
        let (mut ends, mut counts) = ([0; 2], [0; 2]);
        for (var, place) in places.table.vars.iter().zip(&places.vars) {
            let Some(place) = place else { continue };
            for side in 0..=usize::from(var.each_side) {
                let (first, last) = (given.first[var.word + side], entry[var.word + side]);
                match (&var.name, var.role) {
                    (VarName::Engine(EngineVar::SeqHigh, _), _) => counts[side] = last.wrapping_sub(first),
                    (VarName::Engine(EngineVar::SeqNext, _), _) => ends[side] = last,
                    _ if first == last => {}
                    (_, Role::Sum) => {
                        let sum = place.read(data, side).wrapping_add(last.wrapping_sub(first));
                        place.write(data, side, sum);
                    }
                    (_, Role::Value) => place.write(data, side, last),
                    (_, Role::Read) => {}
                }
            }
        }
        for (side, (end, count)) in Direction::BOTH.into_iter().zip(ends.into_iter().zip(counts)) {
            if let Some(sequence) = state.layout.sequence.filter(|_| count > 0) {
                let record = FlowRecord { id: flow.id.0, data: state.flows.entry_mut(flow.id).1 };
                self.sequences.pass_counted(sequence, record, side, end, count);
            }
        }
        taken.entry = std::mem::replace(&mut given.first, entry);
        true
    }

    /// Takes all flows back.
    pub fn take_all_back(&mut self) {
        let mut all: Vec<FlowRef> = self.taken_over.given.keys().copied().collect();
        all.sort_unstable();
        all.into_iter().for_each(|flow| self.take_back(flow));
        self.taken_over.by_age.clear();
    }

    /// Takes a flow back whose time-out has passed. Returns whether the kernel has counted packets of it
    /// since, so that it lives on.
    pub fn lives_on(&mut self, flow: FlowRef, now: i64) -> bool {
        if self.quiet(flow) != GIVEN {
            return false;
        }
        self.take_back(flow);
        let state = &mut self.tables[flow.table.index()];
        let (header, data) = state.flows.entry(flow.id);
        let deadline = header.last_time.saturating_add(state.layout.timeouts.ns(data));
        if deadline <= now {
            return false;
        }
        state.wheel.schedule(flow.id, deadline);
        true
    }

    /// The machine's clock was set.
    pub fn step_taken_over(&mut self, step_ns: i64) {
        for given in self.taken_over.given.values_mut() {
            given.since = given.since.saturating_add(step_ns);
        }
    }

    /// A flow has ended: no packets of the next flow in its place have come.
    #[inline]
    pub fn forget_quiet(&mut self, table: Table, id: FlowId) {
        if let Some(quiet) = self.tables[table.index()].quiet.get_mut(id.0 as usize) {
            *quiet = [0; 2];
        }
    }
}
