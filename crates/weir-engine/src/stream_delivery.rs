//! Delivers streams to the questions that receive them.
//!
//! Sessions, the record of the connection or the rest of the current packet may decide which questions a
//! stream is for. Until then the bytes of the stream are held. After the decision they are delivered as if
//! they had just arrived.

use crate::delivery::Delivery;
use crate::effects::Effects;
use crate::flow::FlowView;
use crate::matcher::{Eligibility, FlowVerdict};
use crate::plan::Want;
use crate::sets::{ClassSet, QuestionSet};
use crate::stream::{Due, FlowStreams, Handover, HeldStreams, InOrder, Moment, StreamEnd};
use crate::subscriber::Subscriber;
use std::collections::hash_map::Entry;
use weir_packet::Direction;

impl<S: Subscriber> Delivery<S> {
    /// Delivers in-order bytes to questions about streams. Returns whether no question wants more of this
    /// direction. If the rest of the packet may decide about bytes, they are added to the `effects`.
    pub fn stream(
        &mut self,
        effects: &mut Effects,
        moment: Moment<'_>,
        flow: &FlowView<'_>,
        streams: &mut FlowStreams,
        next: &InOrder<'_>,
        known: &FlowVerdict,
    ) -> bool {
        self.settle_streams(moment, flow, streams, known);
        let (name, queued_bytes) = (flow.flow_ref(), moment.queued_bytes);
        let eligibility = self.matcher.eligibility(streams, known);
        let Eligibility { given, pending, possible } = &*eligibility;
        if !pending.is_empty() {
            // Questions that depend on sessions and the record wait for these, the others for the end of the
            // packet.
            let late = match known.open.is_empty() {
                true => pending.clone(),
                false => {
                    let closed = FlowVerdict { open: ClassSet::EMPTY, ..known.clone() };
                    pending & &self.matcher.eligibility(streams, &closed).pending
                }
            };
            let rest = pending - &late;
            if let Some(rank) = self.rank(&late, streams, next) {
                let held = self.held.entry(name).or_default();
                held.pending |= &late;
                let lost = held.hold(next, rank, &mut self.streams.overload, queued_bytes);
                self.drop_deferred(&late, streams, next.side, lost);
            }
            if let Some(rank) = self.rank(&rest, streams, next) {
                let held = effects.streams_of(name);
                held.pending |= &rest;
                let lost = held.hold(next, rank, &mut self.streams.overload, queued_bytes);
                self.drop_deferred(&rest, streams, next.side, lost);
            }
        }
        let plan = &self.matcher.plan;
        let mut to = Handover::new(self.order, moment, flow, &mut self.subscriber, &mut self.streams);
        let mut is_over = false;
        for question in given {
            let Want::Streams(params) = &plan.questions[question].want else { break };
            is_over |= streams.take(&mut to, (question, params), next);
        }
        streams.pass(next);
        is_over && streams.is_over(next.side, possible)
    }

    /// Counts bytes that waited for the decision about these questions, and were given up for lack of memory.
    fn drop_deferred(
        &self,
        questions: &QuestionSet,
        streams: &mut FlowStreams,
        side: Direction,
        lost_bytes: u64,
    ) {
        if lost_bytes > 0 {
            streams.drop_deferred(side, lost_bytes);
            let questions = questions.iter().map(|question| &self.matcher.plan.questions[question]);
            questions.for_each(|question| question.losses.add_bytes(lost_bytes));
        }
    }

    /// The highest priority of these questions, and the offset of the bytes in the stream. `None`: the bytes
    /// lie beyond the cutoff of every question.
    fn rank(&self, questions: &QuestionSet, streams: &FlowStreams, next: &InOrder<'_>) -> Option<(u8, u64)> {
        let side = next.side.index();
        let asked = self.matcher.plan.stream_questions(questions);
        let cutoff = asked.map(|(_, params)| params.cutoff[side]).max()?;
        let rank = streams.rank(next.side, self.matcher.priority_of(questions));
        Some(rank).filter(|(_, offset)| *offset < cutoff)
    }

    /// Applies a new verdict on a flow: held bytes go to the questions that receive them, and are released if
    /// no question can.
    pub fn settle_streams(
        &mut self,
        moment: Moment<'_>,
        flow: &FlowView<'_>,
        streams: &mut FlowStreams,
        known: &FlowVerdict,
    ) {
        if self.held.is_empty() {
            return;
        }
        let name = flow.flow_ref();
        let Some(waiting) = self.held.get(&name).map(|held| &held.pending) else { return };
        let eligibility = self.matcher.eligibility(streams, known);
        let given = &eligibility.given & waiting;
        let pending = match known.ended {
            Some(_) => QuestionSet::EMPTY,
            None => (&eligibility.possible & waiting) - &given,
        };
        if pending == *waiting {
            return;
        }
        let Some(mut held) = self.held.remove(&name) else { return };
        held.pending = pending;
        self.replay(moment, flow, streams, &mut held, &given);
        match held.pending.is_empty() {
            true => held.release(&mut self.streams.overload),
            false => drop(self.held.insert(name, held)),
        }
    }

    /// Applies the flow's terms at the end of the packet: held bytes go to the questions that receive them,
    /// or are held until the flow's sessions or its end decide.
    pub fn settle_streams_at_packet_end(
        &mut self,
        moment: Moment<'_>,
        flow: &FlowView<'_>,
        streams: &mut FlowStreams,
        mut held: HeldStreams,
        known: &FlowVerdict,
    ) {
        let name = flow.flow_ref();
        let eligibility = self.matcher.eligibility(streams, known);
        let (given, pending) = (&eligibility.given & &held.pending, &eligibility.pending & &held.pending);
        held.pending = pending;
        self.replay(moment, flow, streams, &mut held, &given);
        match self.held.entry(name) {
            _ if held.pending.is_empty() => held.release(&mut self.streams.overload),
            Entry::Vacant(none) => drop(none.insert(held)),
            Entry::Occupied(mut some) => some.get_mut().join(held, &mut self.streams.overload),
        }
    }

    /// Delivers held bytes to the questions `given`.
    fn replay(
        &mut self,
        moment: Moment<'_>,
        flow: &FlowView<'_>,
        streams: &mut FlowStreams,
        held: &mut HeldStreams,
        given: &QuestionSet,
    ) {
        if !given.is_empty() {
            let questions: Vec<_> = self.matcher.plan.stream_questions(given).collect();
            let mut to = Handover::new(self.order, moment, flow, &mut self.subscriber, &mut self.streams);
            held.replay(streams, &mut to, &questions);
        }
    }

    /// Whether no question about streams wants more bytes of this side.
    pub fn is_over(&self, streams: &FlowStreams, side: Direction, known: &FlowVerdict) -> bool {
        streams.is_over(side, &self.matcher.eligibility(streams, known).possible)
    }

    /// Delivers the bytes that wait in the chunks of a flow's streams.
    pub fn flush_chunks(&mut self, moment: Moment<'_>, flow: &FlowView<'_>, streams: &mut FlowStreams) {
        streams.flush(&mut Handover::new(self.order, moment, flow, &mut self.subscriber, &mut self.streams));
    }

    /// Delivers a chunk that has waited long enough.
    pub fn flush_chunk(
        &mut self,
        moment: Moment<'_>,
        flow: &FlowView<'_>,
        streams: &mut FlowStreams,
        due: &Due,
    ) {
        streams.flush_due(
            &mut Handover::new(self.order, moment, flow, &mut self.subscriber, &mut self.streams),
            due,
        );
    }

    /// Ends the streams of a flow that has ended.
    pub fn streams_over(
        &mut self,
        moment: Moment<'_>,
        flow: &FlowView<'_>,
        mut streams: FlowStreams,
        known: FlowVerdict,
        end: StreamEnd,
    ) {
        let ended = self.matcher.has_deferred_streams().then(|| self.matcher.record(flow));
        let known = FlowVerdict { ended, ..known };
        self.settle_streams(moment, flow, &mut streams, &known);
        let given = self.matcher.eligibility(&streams, &known).into_owned().given;
        let mut to = Handover::new(self.order, moment, flow, &mut self.subscriber, &mut self.streams);
        streams.end(&mut to, self.matcher.plan.stream_questions(&given), end);
    }

    /// Releases the held bytes of questions that are no longer about streams.
    pub fn forget_held(&mut self, gone: &[usize]) {
        let gone: QuestionSet = gone.iter().copied().collect();
        let (overload, held) = (&mut self.streams.overload, &mut self.held);
        held.values_mut().for_each(|one| one.pending -= &gone);
        held.extract_if(|_, one| one.pending.is_empty()).for_each(|(_, one)| one.release(overload));
    }
}
