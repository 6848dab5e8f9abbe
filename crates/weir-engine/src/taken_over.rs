//! Connections that the kernel has taken over (Scap, section 5: "subzero copy").
//!
//! Once nothing more than its record is wanted of a connection, and some packets have come that nobody needed, the engine gives
//! the connection to the kernel: an entry of the kernel's table gets the variables that the kernel needs
//! ([`weir_ir::kernel_flows`]). The kernel then counts the packets that change nothing else. The engine takes the connection
//! back, with what was counted, when one of its packets arrives, when its time-out has passed, when its record is asked for,
//! and when it ends. Packets on their way to the engine were received before the connection was given away; they do not
//! take it back.
//!
//! A connection in a tunnel whose own connection is observed stays with the engine, because its packets count for both.

use crate::flow_hit::FlowHit;
use crate::flow_ref::FlowRef;
use crate::flows::Flows;
use crate::kernel_entries::{Given, TakenOver};
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
/// The times of packets and those of the kernel's table may differ by this much: 1 µs.
const SLACK_NS: i64 = 1_000;
impl Flows {
    /// Before a packet of a live flow is processed, received at `time`: takes the flow back if the kernel has it and has opened its
    /// entry, or removed it. The flow stays there if the packet was received before the kernel got the flow, or passed the
    /// kernel unseen, such as a fragment.
    #[inline]
    pub fn take_back_for(&mut self, flow: FlowRef, time: i64) {
        if self.quiet(flow) == GIVEN && self.is_opened(flow, time) {
            self.take_back(flow);
        }
    }

    #[cold]
    fn is_opened(&mut self, flow: FlowRef, time: i64) -> bool {
        let taken = &mut self.taken_over;
        let Some(given) = taken.given.get(&flow) else { return true };
        let Some(kernel) = taken.plan.as_ref().and_then(|plan| plan.get()).filter(|_| time > given.since)
        else {
            return false;
        };
        taken.entry.clear();
        taken.entry.resize(kernel.layout.entry_words, 0);
        let is_known = kernel.flows.read(&given.key, &mut taken.entry);
        let last_time = taken.entry[LAST_TIME] as i64;
        // The flow is not idle.
        let header = self.tables[flow.table.index()].flows.entry_mut(flow.id).0;
        header.last_time = header.last_time.max(last_time);
        !is_known || taken.entry[STATE] != 0 && time.saturating_add(SLACK_NS) >= last_time
    }

    #[inline]
    fn quiet(&self, flow: FlowRef) -> u8 {
        self.tables[flow.table.index()].quiet.get(flow.id.0 as usize).copied().unwrap_or(0)
    }

    /// After a packet of a connection: gives the connection to the kernel if enough packets have come that nobody needed.
    #[inline]
    pub fn note_quiet(&mut self, found: FlowHit, matcher: &Matcher) {
        let state = &mut self.tables[found.table().index()];
        let id = found.id().0 as usize;
        if !state.layout.observed || state.layout.part || state.part > 0 || !state.flows.is_live(found.id()) {
            return;
        }
        let wants = state.layout.wants_at.map_or(u8::MAX, |at| state.flows.entry(found.id()).1[at]);
        if wants & !(WANTS_RECORD as u8) != 0 {
            return;
        }
        if state.quiet.len() <= id {
            state.quiet.resize(state.flows.ids() as usize, 0);
        }
        let enough = self.taken_over.plan.as_ref().and_then(|plan| plan.get()).map(|plan| plan.quiet_packets);
        match (state.quiet[id], enough) {
            (GIVEN, _) | (_, None) => {}
            (count, Some(enough)) if count + 1 >= enough.min(GIVEN - 1) => {
                state.quiet[id] = 0;
                self.give(found.flow(), matcher);
            }
            (count, _) => state.quiet[id] = count + 1,
        }
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
        taken.given.insert(flow, Given { number, key, first, since: flows.now() });
        self.tables[flow.table.index()].quiet[flow.id.0 as usize] = GIVEN;
    }

    /// Takes back connections without packets of late, if there is no room for another one.
    fn make_room(&mut self, kernel: &KernelPlan, now: i64) {
        let is_old = |taken: &TakenOver, flow: FlowRef, number: u64| {
            taken.given.get(&flow).is_none_or(|given| given.number != number)
        };
        while let Some(&(flow, number)) = self.taken_over.by_age.front()
            && is_old(&self.taken_over, flow, number)
        {
            self.taken_over.by_age.pop_front();
        }
        for _ in 0..LOOKS {
            if self.taken_over.given.len() < kernel.flows_max {
                return;
            }
            let Some((flow, number)) = self.taken_over.by_age.pop_front() else { return };
            if is_old(&self.taken_over, flow, number) {
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
    pub fn take_back(&mut self, flow: FlowRef) {
        let Some(given) = self.taken_over.given.remove(&flow) else { return };
        let state = &mut self.tables[flow.table.index()];
        if let Some(quiet) = state.quiet.get_mut(flow.id.0 as usize) {
            *quiet = 0;
        }
        let taken = &mut self.taken_over;
        let kernel = taken.plan.as_ref().and_then(|plan| plan.get());
        let (Some(kernel), Some(Some(places))) = (kernel, taken.places.get(flow.table.index())) else {
            return;
        };
        taken.entry.clear();
        taken.entry.resize(kernel.layout.entry_words, 0);
        let is_known = kernel.flows.take(&given.key, &mut taken.entry);
        if !is_known || taken.entry[LAST_TIME] == 0 || !state.flows.is_live(flow.id) {
            return;
        }
        let (header, data) = state.flows.entry_mut(flow.id);
        header.last_time = header.last_time.max(taken.entry[LAST_TIME] as i64);
        let mut passed = [None; 2];
        for (var, place) in places.table.vars.iter().zip(&places.vars) {
            let Some(place) = place else { continue };
            for side in 0..=usize::from(var.each_side) {
                let (first, last) = (given.first[var.word + side], taken.entry[var.word + side]);
                match (&var.name, var.role) {
                    _ if first == last => {}
                    (VarName::Engine(EngineVar::SeqHigh, _), _) => {
                        passed[side].get_or_insert((0, 0)).1 = last.wrapping_sub(first);
                    }
                    (VarName::Engine(EngineVar::SeqNext, _), _) => {
                        passed[side].get_or_insert((0, 0)).0 = last;
                    }
                    (_, Role::Sum) => {
                        let sum = place.read(data, side).wrapping_add(last.wrapping_sub(first));
                        place.write(data, side, sum);
                    }
                    (_, Role::Value) => place.write(data, side, last),
                    (_, Role::Read) => {}
                }
            }
        }
        let sequence = state.layout.sequence;
        for (side, passed) in Direction::BOTH.into_iter().zip(passed) {
            if let (Some((end, count @ 1..)), Some(sequence)) = (passed, sequence) {
                let data = self.tables[flow.table.index()].flows.entry_mut(flow.id).1;
                let record = FlowRecord { id: flow.id.0, data };
                if self.sequences.pass_counted(sequence, record, side, end, count) {
                    self.run_on_gap(flow, side);
                }
            }
        }
    }

    /// Takes all flows back.
    pub fn take_all_back(&mut self) {
        let mut all: Vec<FlowRef> = self.taken_over.given.keys().copied().collect();
        all.sort_unstable();
        all.into_iter().for_each(|flow| self.take_back(flow));
        self.taken_over.by_age.clear();
    }

    /// Takes a flow back whose time-out has passed. Returns whether the kernel has counted packets of it since, so that it
    /// lives on.
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

    /// A flow has begun, or ended: no quiet packets have come.
    #[inline]
    pub fn forget_quiet(&mut self, table: Table, id: FlowId) {
        if let Some(quiet) = self.tables[table.index()].quiet.get_mut(id.0 as usize) {
            *quiet = 0;
        }
    }
}
