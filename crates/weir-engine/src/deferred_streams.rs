//! Questions about streams that hang on sessions or on the connection's record: what may be theirs waits until that is
//! known, and is handed over then as if it came.

use crate::decide::{Decider, FlowKey};
use crate::flow::{FlowView, read_number};
use crate::host::InOrder;
use crate::plan::{Mask, Plan};
use crate::stream::FlowStreams;
use crate::subscriber::{Order, Subscriber, VerdictUpdate};
use crate::tables::TableLayout;
use std::sync::Arc;

/// What is known of a flow by which it is said whose streams it has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlowVerdict {
    /// Classes that its packets are of.
    pub terms: u64,
    /// Of the others, those that the packet at hand may still be of.
    pub open: u64,
    /// What its sessions fulfil.
    pub verdict: Mask,
    /// What its record fulfils, once it is over.
    pub ended: Option<Mask>,
}

impl FlowVerdict {
    /// Of a flow that goes on, between packets.
    pub fn of(plan: &Plan, facts: &TableLayout, data: &[u8]) -> Self {
        let terms = plan.unconditional | facts.terms_at.map_or(0, |at| read_number(data, at, 64));
        let verdict = facts.verdict_at.map_or(0, |at| plan.unpack(read_number(data, at, 64)));
        Self { terms, open: 0, verdict, ended: None }
    }
}

/// Which questions about streams a flow's streams are for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Eligibility {
    /// They are given them.
    pub given: Mask,
    /// They may be, by the packets that came: what comes waits for them.
    pub pending: Mask,
    /// They may be, whatever comes.
    pub possible: Mask,
}

/// What bytes wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The end of their packet.
    Packet,
    /// Sessions of their connection, or its end.
    Late,
}

impl<S: Subscriber> Decider<S> {
    /// Who is given a flow's streams, by what is known of it.
    pub fn eligibility(&self, key: FlowKey, streams: &mut FlowStreams, known: FlowVerdict) -> Eligibility {
        let (late, open) = (self.masks.late_streams, known.open & !known.terms);
        if late == 0 && open == 0 {
            return self.eligibility_of_packets(known.terms, streams);
        }
        let settled = VerdictUpdate { flow: key, verdict: known.verdict, ended: known.ended };
        let (given, pending) = self.plan.eligibility(self.plan.remainders_of(known.terms) & late, &settled);
        let (_, possible) = self.plan.eligibility(late, &settled);
        let given = given | self.streams_of(known.terms);
        let possible = possible | self.masks.plain_streams;
        let pending = pending | self.plan.questions_of(self.plan.remainders_of(open)) & possible;
        self.of_one_class(streams, Eligibility { given, pending: pending & !given, possible })
    }

    /// As [`eligibility`](Self::eligibility), by its packets alone.
    pub fn eligibility_of_packets(&self, terms: u64, streams: &mut FlowStreams) -> Eligibility {
        let (given, possible) = (self.streams_of(terms), self.masks.stream_questions);
        self.of_one_class(streams, Eligibility { given, pending: 0, possible })
    }

    /// Of the questions that are of a class the first one is meant: while it is not known whether that is, those behind it
    /// wait, too.
    fn of_one_class(&self, streams: &mut FlowStreams, all: Eligibility) -> Eligibility {
        let Eligibility { given, pending, possible } = all;
        let classes = (given | pending) & self.masks.class_questions;
        if classes == 0 {
            return all;
        }
        let first = classes & classes.wrapping_neg();
        let told = streams.questions() & classes;
        if told == 0 && pending & first != 0 {
            return Eligibility { given: given & !classes, pending: pending | classes, possible };
        }
        let others = self.masks.class_questions & if told == 0 { !first } else { !told };
        Eligibility { given: given & !others, pending: pending & !others, possible: possible & !others }
    }

    /// Bytes in order that may be some question's wait, as far as they lie before the cutoff of one.
    pub fn hold(
        &mut self,
        wait: Wait,
        key: FlowKey,
        streams: &mut FlowStreams,
        next: &InOrder<'_>,
        (pending, queued_bytes): (Mask, usize),
    ) {
        if pending == 0 {
            return;
        }
        let priority = self.priority_of(pending);
        let (_, offset) = streams.rank(next.side, priority);
        let cutoff =
            self.plan.stream_questions(pending).map(|(_, params)| params.cutoff[usize::from(next.side)]);
        if cutoff.max().is_some_and(|cutoff| offset >= cutoff) {
            return;
        }
        let held = match wait {
            Wait::Packet => self.packet_end.streams_of(key),
            Wait::Late => self.held.entry(key).or_default(),
        };
        held.pending |= pending;
        let lost = held.hold(next, (priority, offset), &mut self.streams.overload, queued_bytes);
        streams.drop_late(next.side, lost);
    }

    /// More is known of a flow: what waits goes to those who are given it, and is let go where nobody can be.
    pub fn settle_streams(
        &mut self,
        (order, now, queued_bytes): (Order, i64, usize),
        flow: &FlowView<'_>,
        key: FlowKey,
        streams: &mut FlowStreams,
        known: FlowVerdict,
    ) {
        if self.held.is_empty() {
            return;
        }
        let Some(waiting) = self.held.get(&key).map(|held| held.pending) else { return };
        let Eligibility { given, possible, .. } = self.eligibility(key, streams, known);
        let given = given & waiting;
        let pending = if known.ended.is_some() { 0 } else { waiting & possible & !given };
        if pending == waiting {
            return;
        }
        let Some(mut held) = self.held.remove(&key) else { return };
        if given != 0 {
            let plan = Arc::clone(&self.plan);
            let questions: Vec<_> = plan.stream_questions(given).collect();
            let (_, mut to) = self.delivery(order, flow, key, now, queued_bytes);
            held.replay((streams, None), &mut to, &questions, pending == 0);
        }
        held.pending = pending;
        match pending {
            0 => held.release(&mut self.streams.overload),
            _ => drop(self.held.insert(key, held)),
        }
    }

    /// Questions that are about streams no more wait for none.
    pub fn forget_held(&mut self, gone: &[usize]) {
        let gone = gone.iter().fold(0, |mask: Mask, question| mask | 1 << question);
        let (overload, held) = (&mut self.streams.overload, &mut self.held);
        held.values_mut().for_each(|one| one.pending &= !gone);
        held.extract_if(|_, one| one.pending == 0).for_each(|(_, one)| one.release(overload));
    }
}
