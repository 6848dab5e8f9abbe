//! What becomes of packets, sessions and connections: the program's terms, and what remained to be
//! asked of connection and session, against the questions.

use crate::counters::{Account, Counters};
use crate::deferred_predicate::{DeferredField, Presence};
use crate::deferred_streams::{Eligibility, FlowVerdict, Wait};
use crate::emitted::Emitted;
use crate::flow::{EndReason, FlowView};
use crate::host::InOrder;
use crate::host::PacketCtx;
use crate::packet_end::{PacketEnd, Waiting};
use crate::plan::{HAD_SESSION, Mask, Plan, SESSIONS_OVER, Want, of_classes, places};
use crate::stage::Stages;
use crate::stream::{Delivery, DirectionCounts, Due, FlowStreams, HeldStreams, StreamBudget};
use crate::subscriber::{Order, Subscriber, TrackedPacket, Undecided, VerdictUpdate};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use weir_ir::abi::{Continuation, OUTS_MAX};
use weir_packet::{Block, PacketMeta, Value};
use weir_sessions::Session;

/// A packet and what the program made of it.
#[derive(Clone, Copy)]
pub(crate) struct PacketView<'a> {
    pub meta: &'a PacketMeta,
    /// Where its bytes are.
    pub block: &'a Block,
    /// Terms that it fulfils by itself.
    pub terms: u64,
    /// Its record.
    pub outs: &'a [u64; OUTS_MAX],
    /// What it counts as where no question is given it.
    pub otherwise: Account,
}

pub(crate) use crate::subscriber::FlowKey;

/// Sessions held until their connection's record is complete: the bits of which only the connection's part
/// is open, the protocol, and the session.
type HeldSessions = Vec<(Mask, usize, Arc<dyn Session>)>;

/// Hands to subscribers what is decided, and tells them of packets that are not.
pub(crate) struct Decider<S> {
    pub plan: Arc<Plan>,
    pub subscriber: S,
    /// Kept here, where every stage that lies within another one comes by.
    pub stages: Stages,
    /// What became of packets.
    pub counters: Counters,
    /// Flows with undecided packets.
    waiting: HashSet<FlowKey>,
    pub sessions: HashMap<FlowKey, HeldSessions>,
    /// Streams of flows of which it is not known yet who is given them.
    pub held: HashMap<FlowKey, HeldStreams>,
    /// What is to be decided with the packet at hand.
    pub packet_end: PacketEnd,
    ask: Continuation,
    pub masks: Masks,
    /// What the streams share.
    pub streams: StreamBudget,
    /// What the program emitted on the packet at hand.
    pub emitted: Emitted,
    /// Slots of the packet's record in use.
    outs: usize,
}

/// Remainders, questions, and classes of packets, by what they are about.
#[derive(Debug, Clone)]
pub(crate) struct Masks {
    all_bits: Mask,
    packet_bits: Mask,
    plain_bits: Mask,
    session_bits: Mask,
    /// Remainders that ask something of sessions, of connections; those whose questions are given records.
    of_sessions: Mask,
    connection_bits: Mask,
    record_bits: Mask,
    /// By protocol: remainders whose questions are given its sessions.
    told_of_sessions: Vec<Mask>,
    /// Remainders that hold for want of any session and record.
    absence_bits: Mask,
    stream_bits: Mask,
    /// Of these, those that hang on sessions or records; and the questions of the others.
    pub late_streams: Mask,
    pub plain_streams: Mask,
    event_bits: Mask,
    tracked_bits: Mask,
    /// Questions about streams; and those of them that are of a class.
    pub stream_questions: Mask,
    pub class_questions: Mask,
    /// And those that ask for packets.
    packet_questions: Mask,
    /// Questions that track connections.
    tracking: Mask,
    /// Classes of packets that come to some remainder of a question about packets, that hangs on connection or session,
    /// of another question, of one that tracks connections, or that is about events.
    packets: u64,
    late_packets: u64,
    others: u64,
    tracked: u64,
    events: u64,
    /// By class: the questions that are given packets of it whatever becomes of connection and session.
    packets_of_class: Vec<Mask>,
    /// By class: the questions about streams that a flow of it is given to.
    streams_of_class: Vec<Mask>,
}

impl Masks {
    fn of(plan: &Plan) -> Self {
        let packets = plan.packet_bits();
        let plain = plan.plain_bits();
        let streams = plan.bits_of(|w| matches!(w, Want::Streams(_)));
        let classes = plan.bits_of(|w| matches!(w, Want::Streams(params) if params.is_class));
        let with_packets = plan.bits_of(|w| matches!(w, Want::Streams(params) if params.packets));
        let tracked = plan.bits_of(|w| matches!(w, Want::Tracked(_)));
        let events = plan.bits_of(|w| w == Want::Events);
        let bits = || plan.alternatives.iter().enumerate();
        let of_class =
            |bits: Mask| plan.classes.iter().map(|class| plan.questions_of(class & bits)).collect();
        let told_of =
            |protocol: usize| plan.bits_of(|w| matches!(w, Want::Sessions(set) if set >> protocol & 1 == 1));
        Self {
            all_bits: bits().fold(0, |all, (index, _)| all | 1 << index),
            of_sessions: bits()
                .fold(0, |all, (i, bit)| all | Mask::from(bit.session != Presence::Nothing) << i),
            connection_bits: bits()
                .fold(0, |all, (i, bit)| all | Mask::from(bit.connection != Presence::Nothing) << i),
            record_bits: plan.bits_of(|w| matches!(w, Want::Connections | Want::Tracked(_))),
            told_of_sessions: (0..plan.protocols.len()).map(told_of).collect(),
            packet_bits: packets,
            plain_bits: plain,
            session_bits: plan.verdict_bits(),
            absence_bits: plan.absence_bits(),
            stream_bits: streams,
            late_streams: streams & !plain,
            plain_streams: plan.questions_of(streams & plain),
            event_bits: events,
            tracked_bits: tracked,
            stream_questions: plan.questions_of(streams),
            class_questions: plan.questions_of(classes),
            packet_questions: plan.questions_of(with_packets),
            tracking: plan.questions_of(tracked),
            packets: plan.classes_of(packets),
            late_packets: plan.classes_of(packets & !plain),
            others: plan.classes_of(!packets),
            tracked: plan.classes_of(tracked),
            events: plan.classes_of(events & plain),
            packets_of_class: of_class(packets & plain),
            streams_of_class: of_class(streams & plain),
        }
    }
}

impl<S: Subscriber> Decider<S> {
    pub fn new(plan: Arc<Plan>, subscriber: S) -> Self {
        Self {
            masks: Masks::of(&plan),
            streams: StreamBudget::new(plan.overload),
            emitted: Emitted::default(),
            outs: plan.program.graph().outs.len().min(OUTS_MAX),
            stages: Stages::new(plan.timed),
            counters: Counters::default(),
            plan,
            subscriber,
            waiting: HashSet::new(),
            sessions: HashMap::new(),
            held: HashMap::new(),
            packet_end: PacketEnd::default(),
            ask: Continuation::default(),
        }
    }

    /// Goes over to another plan.
    pub fn set_plan(&mut self, plan: Arc<Plan>) {
        self.masks = Masks::of(&plan);
        self.outs = plan.program.graph().outs.len().min(OUTS_MAX);
        self.plan = plan;
    }

    /// A packet is through the program, and of a [class](Self::packet_classes) that some question about packets may be
    /// given. `flow`: its connection's key and verdict, where it has one.
    #[inline]
    pub fn packet(&mut self, order: Order, packet: &PacketView<'_>, flow: Option<(FlowKey, Mask)>) {
        let mine = packet.terms & self.masks.packets;
        if mine & self.masks.late_packets == 0 {
            let questions = of_classes(&self.masks.packets_of_class, mine);
            self.deliver(order, questions, packet);
            return;
        }
        let remainders = self.plan.remainders_of(mine) & self.masks.packet_bits;
        self.packet_with_residue(order, packet, remainders, flow);
    }

    fn packet_with_residue(
        &mut self,
        order: Order,
        packet: &PacketView<'_>,
        remainders: Mask,
        flow: Option<(FlowKey, Mask)>,
    ) {
        let &PacketView { meta, block, outs, otherwise, .. } = packet;
        let Some((flow, verdict)) = flow else {
            // No flow: no session and no record. What asks for their absence holds.
            let certain = remainders & (self.masks.plain_bits | self.masks.absence_bits);
            self.deliver(order, self.plan.questions_of(certain), packet);
            return;
        };
        let (certain, possible) =
            self.plan.eligibility(remainders, &VerdictUpdate { flow, verdict, ended: None });
        if certain == possible {
            self.deliver(order, certain, packet);
            return;
        }
        self.waiting.insert(flow);
        let outs = &outs[..self.outs];
        let undecided =
            Undecided { flow, remainders, certain, possible, otherwise, packet: meta, block, outs };
        self.subscriber.undecided(order, &undecided);
    }

    /// A packet is decided: whoever is to have it is given it, and it is counted.
    fn deliver(&mut self, order: Order, questions: Mask, packet: &PacketView<'_>) {
        self.count(if questions != 0 { Account::Delivered } else { packet.otherwise });
        for question in places(questions) {
            self.subscriber.packet(order, question, packet.meta, packet.block, packet.outs);
        }
    }

    /// A packet is decided.
    #[inline]
    pub fn count(&mut self, account: Account) {
        self.counters.account(account);
    }

    /// A packet is through that fulfils `terms`: what was emitted on it, and is as they want it, goes to questions about
    /// events.
    #[inline]
    pub fn events(&mut self, at: &PacketCtx<'_>, terms: u64) {
        if !self.emitted.is_empty() {
            self.tell(at.order, at.packet, terms);
        }
    }

    fn tell(&mut self, order: Order, packet: &PacketMeta, terms: u64) {
        if terms & self.masks.events != 0 {
            let remainders = self.plan.remainders_of(terms) & self.masks.event_bits & self.masks.plain_bits;
            for event in self.emitted.views(packet) {
                let mut met = remainders;
                for predicate in &self.plan.row {
                    let DeferredField::Event { event: number, column, is_bytes } = predicate.field else {
                        continue;
                    };
                    if predicate.asked_by & met != 0 {
                        let words = event.column(column).filter(|_| event.event.index() == number);
                        met &= !match words {
                            Some(words) if is_bytes => {
                                predicate.ruled_out_by_bytes(event.bytes(words), &mut self.ask)
                            }
                            words => predicate.ruled_out_by(words, &mut self.ask),
                        };
                    }
                }
                // Once to each question, however many of its alternatives hold.
                for question in places(self.plan.questions_of(met)) {
                    self.subscriber.event(order, question, &event);
                }
            }
        }
        self.counters.event.column_bytes_cut += self.emitted.cut_bytes;
        self.emitted.clear();
    }

    /// Classes of packets that some question about packets may be given.
    #[inline]
    pub fn packet_classes(&self) -> u64 {
        self.masks.packets
    }

    /// Classes of packets that some other question is about.
    #[inline]
    pub fn other_classes(&self) -> u64 {
        self.masks.others
    }

    /// Some question is about streams.
    pub fn wants_streams(&self) -> bool {
        self.masks.stream_bits != 0
    }

    /// Bytes in order, for questions about streams. Whether nobody wants any more of this direction.
    pub fn stream(
        &mut self,
        (order, queued_bytes): (Order, usize),
        flow: &FlowView<'_>,
        key: FlowKey,
        streams: &mut FlowStreams,
        next: &InOrder<'_>,
        known: FlowVerdict,
    ) -> bool {
        self.settle_streams((order, next.now, queued_bytes), flow, key, streams, known);
        let Eligibility { given: questions, pending, possible } = self.eligibility(key, streams, known);
        let late = match known.open {
            0 => pending,
            _ => pending & self.eligibility(key, streams, FlowVerdict { open: 0, ..known }).pending,
        };
        self.hold(Wait::Late, key, streams, next, (late, queued_bytes));
        self.hold(Wait::Packet, key, streams, next, (pending & !late, queued_bytes));
        let (plan, mut to) = self.delivery(order, flow, key, next.now, queued_bytes);
        let mut is_over = false;
        for question in places(questions) {
            let Want::Streams(params) = &plan.questions[question].want else { break };
            is_over |= streams.take(&mut to, (question, params), next);
        }
        streams.pass(next);
        is_over && streams.is_over(next.side, possible)
    }

    /// Whether a question that these streams are given to, or may be, asks for their packets.
    pub fn asks_for_packets(&self, terms: u64, streams: &mut FlowStreams) -> bool {
        let asking = self.masks.packet_questions;
        asking != 0 && self.eligibility_of_packets(terms, streams).possible & asking != 0
    }

    pub fn streams_of(&self, terms: u64) -> Mask {
        of_classes(&self.masks.streams_of_class, terms)
    }

    /// The highest priority of the questions about streams that a flow with these terms is given to.
    pub fn priority(&self, terms: u64) -> u8 {
        self.priority_of(self.streams_of(terms))
    }

    /// The highest priority of these questions.
    pub fn priority_of(&self, given: Mask) -> u8 {
        self.plan.stream_questions(given).map(|(_, params)| params.priority).max().unwrap_or(0)
    }

    pub fn delivery<'a>(
        &'a mut self,
        order: Order,
        flow: &'a FlowView<'a>,
        key: FlowKey,
        now: i64,
        queued_bytes: usize,
    ) -> (&'a Plan, Delivery<'a, S>) {
        let (subscriber, budget) = (&mut self.subscriber, &mut self.streams);
        let to = Delivery {
            order,
            flow,
            key,
            now,
            subscriber,
            budget,
            queued_bytes,
            side: false,
            offset: 0,
            sequence: DirectionCounts::default(),
            policy: None,
        };
        (&self.plan, to)
    }

    /// Whether no question about streams wants any more of what this side sends.
    pub fn is_over(&self, key: FlowKey, streams: &mut FlowStreams, side: bool, known: FlowVerdict) -> bool {
        let possible = self.eligibility(key, streams, known).possible;
        streams.is_over(side, possible)
    }

    /// What the chunks of a flow's streams hold is handed over.
    pub fn flush_chunks(
        &mut self,
        order: Order,
        flow: &FlowView<'_>,
        key: FlowKey,
        streams: &mut FlowStreams,
        now: i64,
    ) {
        streams.flush(&mut self.delivery(order, flow, key, now, 0).1);
    }

    /// A chunk has waited long enough.
    pub fn flush_chunk(&mut self, order: Order, flow: &FlowView<'_>, streams: &mut FlowStreams, due: &Due) {
        streams.flush_due(&mut self.delivery(order, flow, due.flow, due.at, 0).1, due);
    }

    /// A flow has ended, and its streams with it.
    pub fn streams_over(
        &mut self,
        (order, now): (Order, i64),
        flow: &FlowView<'_>,
        key: FlowKey,
        mut streams: FlowStreams,
        (terms, verdict): (u64, Mask),
        reason: EndReason,
    ) {
        let ended = (self.masks.late_streams != 0).then(|| self.record_bits_of(flow));
        let known = FlowVerdict { terms, open: 0, verdict, ended };
        self.settle_streams((order, now, 0), flow, key, &mut streams, known);
        let given = self.eligibility(key, &mut streams, known).given;
        let (plan, mut to) = self.delivery(order, flow, key, now, 0);
        streams.end(&mut to, plan.stream_questions(given), reason);
    }

    /// A session is complete. Its flow's verdict word learns which remainders it fulfils.
    pub fn session(
        &mut self,
        order: Order,
        flow: &FlowView<'_>,
        key: FlowKey,
        (terms, open): (u64, u64),
        protocol: usize,
        session: Arc<dyn Session>,
    ) -> Mask {
        let (remainders, open) = (self.plan.remainders_of(terms), self.plan.remainders_of(open));
        let (met, told) = self.tell_session(order, flow, key, (remainders, 0), protocol, &session);
        let asking = self.masks.told_of_sessions[protocol] | self.masks.tracked_bits;
        if open & !remainders & asking != 0 {
            self.packet_end.push_session(Waiting { flow: key, protocol, session, remainders, told });
        }
        met
    }

    /// A session is told of to questions of these remainders that were not yet. The remainders of verdicts that it fulfils,
    /// and the questions that were told of it by now.
    pub fn tell_session(
        &mut self,
        order: Order,
        flow: &FlowView<'_>,
        key: FlowKey,
        (remainders, before): (Mask, Mask),
        protocol: usize,
        session: &Arc<dyn Session>,
    ) -> (Mask, Mask) {
        let tracking = self.track_session((order, protocol), flow, key, (remainders, before), session);
        let plan = &*self.plan;
        let told_of_sessions = remainders & self.masks.told_of_sessions[protocol];
        let mut met = told_of_sessions | self.masks.session_bits;
        for predicate in &plan.session {
            // Nobody waits for it.
            if predicate.asked_by & met == 0 {
                continue;
            }
            let value = match predicate.field {
                DeferredField::Session(p, field) if p == protocol => session.value(field),
                DeferredField::Protocol(p) => Value::Bool(p == protocol),
                DeferredField::Session(..) | DeferredField::Connection(_) | DeferredField::Event { .. } => {
                    Value::Absent
                }
            };
            met &= !predicate.ruled_out(&value, &mut self.ask);
        }
        let told = plan.questions_of(met & told_of_sessions & !self.masks.connection_bits);
        for question in places(told & !before) {
            self.subscriber.session(order, question, flow, protocol, session);
        }
        let told = told | before;
        let mut open = met & told_of_sessions & self.masks.connection_bits;
        if open != 0 {
            open &= !plan.bits_of_questions(told);
        }
        if open != 0 {
            let held = self.sessions.entry(key).or_default();
            match held.iter_mut().find(|(_, _, held)| Arc::ptr_eq(held, session)) {
                Some((bits, ..)) => *bits |= open,
                None => held.push((open, protocol, Arc::clone(session))),
            }
        }
        (met & self.masks.session_bits, told | tracking)
    }

    /// Some question tracks a connection that fulfils these terms.
    #[inline]
    pub fn is_tracked(&self, terms: u64) -> bool {
        terms & self.masks.tracked != 0
    }

    /// A packet of a connection that fulfils `terms`, some of which are tracked.
    pub fn track(&mut self, order: Order, terms: u64, packet: &TrackedPacket<'_>) {
        let remainders = self.plan.remainders_of(terms) & self.masks.tracked_bits;
        for question in places(self.plan.questions_of(remainders)) {
            self.subscriber.tracked_packet(order, question, packet);
        }
    }

    fn track_session(
        &mut self,
        (order, protocol): (Order, usize),
        flow: &FlowView<'_>,
        key: FlowKey,
        (remainders, before): (Mask, Mask),
        session: &Arc<dyn Session>,
    ) -> Mask {
        let tracking = self.plan.questions_of(remainders & self.masks.tracked_bits);
        for question in places(tracking & !before) {
            let Want::Tracked(protocols) = self.plan.questions[question].want else { continue };
            if protocols >> protocol & 1 == 1 {
                self.subscriber.tracked_session(order, question, flow, key, session);
            }
        }
        tracking
    }

    /// No further session will come. What holds for want of any session (`not tls`) is met now.
    pub fn sessions_over(&mut self, order: Order, key: FlowKey, verdict: &mut Mask) {
        if *verdict & SESSIONS_OVER != 0 {
            return;
        }
        *verdict |= SESSIONS_OVER;
        *verdict |= self.plan.absent(*verdict);
        self.settle(order, key, *verdict, None);
    }

    /// A flow had sessions.
    pub fn note_session(verdict: &mut Mask) {
        *verdict |= HAD_SESSION;
    }

    /// More is known of the flow's packets that wait, if there are any.
    pub fn settle(&mut self, order: Order, flow: FlowKey, verdict: Mask, ended: Option<Mask>) {
        if self.waiting.is_empty() || !self.waiting.contains(&flow) {
            return;
        }
        if ended.is_some() {
            self.waiting.remove(&flow);
        }
        self.subscriber.settled(order, VerdictUpdate { flow, verdict, ended });
    }

    /// The remainders that a flow's record does not rule out.
    fn record_bits_of(&mut self, flow: &FlowView<'_>) -> Mask {
        let plan = &*self.plan;
        let mut held = self.masks.all_bits;
        for predicate in &plan.connection {
            let DeferredField::Connection(column) = predicate.field else { continue };
            if predicate.asked_by & held == 0 {
                continue;
            }
            let value = (plan.connection_value)(flow, column);
            held &= !predicate.ruled_out(&value, &mut self.ask);
        }
        held
    }

    /// A flow has ended: its record is complete.
    pub fn connection(
        &mut self,
        order: Order,
        flow: &FlowView<'_>,
        key: FlowKey,
        terms: u64,
        verdict: Mask,
        reason: EndReason,
    ) {
        let held = self.record_bits_of(flow);
        let plan = &*self.plan;
        // Sessions before the connection that they are of, as where nothing has to wait for it.
        let sessions = if self.sessions.is_empty() { None } else { self.sessions.remove(&key) };
        for (open, protocol, session) in sessions.unwrap_or_default() {
            // Once to each question, however many of its alternatives hold.
            for question in places(plan.questions_of(open & held)) {
                self.subscriber.session(order, question, flow, protocol, &session);
            }
        }
        let met =
            held & plan.remainders_of(terms) & self.masks.record_bits & (verdict | !self.masks.of_sessions);
        let told = plan.questions_of(met);
        for question in places(told) {
            self.subscriber.connection(order, question, flow, key, reason);
        }
        for question in places(self.masks.tracking & !told) {
            self.subscriber.untracked(question, key);
        }
        self.settle(order, key, verdict | SESSIONS_OVER, Some(held));
    }
}
