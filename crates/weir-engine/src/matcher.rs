//! Decides which questions a packet, an event, a session, a stream or a connection is for.
//!
//! A [`Matcher`] only answers. It delivers nothing and stores nothing between two calls:
//! [`Delivery`](crate::delivery) does both. An answer depends on the results of the program (classes of
//! packets, as bits named *terms*), on what a flow's sessions and its record fulfil ([`FlowVerdict`]), and on
//! the deferred predicates on sessions, records and rows of events.

use crate::deferred_predicate::{DeferredField, Presence};
use crate::flow::FlowView;
use crate::flow_ref::FlowRef;
use crate::plan::{Alternative, Plan, SessionVerdict, Want};
use crate::sets::{ClassSet, ClassWords, QuestionSet, RemainderSet, Terms, of_classes};
use crate::stream::FlowStreams;
use crate::subscriber::{EventView, PacketVerdict};
use crate::tables::TableLayout;
use std::borrow::Cow;
use std::sync::Arc;
use weir_ir::abi::Continuation;
use weir_packet::Value;
use weir_sessions::Session;

/// Matches items against the questions of a plan.
pub(crate) struct Matcher {
    pub plan: Arc<Plan>,
    masks: Masks,
    /// Registers of the programs that answer deferred predicates; they carry no state between two calls.
    ask: Continuation,
}

/// What is known of a flow that determines which questions the flow is for.
#[derive(Debug, Clone)]
pub(crate) struct FlowVerdict {
    /// Classes that the flow's packets are of.
    pub terms: ClassSet,
    /// Other classes that the current packet may still be of.
    pub open: ClassSet,
    /// What the flow's sessions fulfil.
    pub verdict: SessionVerdict,
    /// What the flow's record fulfils; `None` while the flow is live.
    pub ended: Option<RemainderSet>,
}

impl FlowVerdict {
    /// The verdict on a live flow, between packets.
    pub fn of(plan: &Plan, layout: &TableLayout, data: &[u8]) -> Self {
        let (terms, verdict) = (layout.terms(plan, data), layout.verdict(plan, data));
        Self { terms, open: ClassSet::EMPTY, verdict, ended: None }
    }
}

/// Which questions a packet is for.
#[derive(Debug, Clone)]
pub(crate) enum PacketMatch<'a> {
    /// The packet is for these questions.
    Decided(Cow<'a, QuestionSet>),
    /// The packet's connection decides; and the questions that may receive the packet.
    Undecided(PacketVerdict, QuestionSet),
}

/// Which questions a session is for.
#[derive(Debug, Clone)]
pub(crate) struct SessionMatch {
    /// Remainders of verdicts that the session fulfils.
    pub verdict: RemainderSet,
    /// Questions that receive the session now.
    pub questions: QuestionSet,
    /// Remainders whose questions receive the session only if the record of the connection fulfils them, too.
    pub open: RemainderSet,
}

/// Which questions about streams a flow's streams are for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Eligibility {
    /// Questions that receive the streams.
    pub given: QuestionSet,
    /// Questions that may receive the streams, judging by the packets so far: bytes wait for the decision.
    pub pending: QuestionSet,
    /// Questions that sessions and the record have not ruled out, whatever the packets are.
    pub possible: QuestionSet,
}

impl Matcher {
    pub fn new(plan: Arc<Plan>) -> Self {
        Self { masks: Masks::of(&plan), plan, ask: Continuation::default() }
    }

    /// Classes of packets that some question about packets may receive.
    #[inline]
    pub fn packet_classes(&self) -> Terms<'_> {
        self.masks.packets.terms()
    }

    /// Classes of packets that concern some other question.
    #[inline]
    pub fn other_classes(&self) -> &ClassWords {
        &self.masks.others
    }

    /// Classes of packets for which some question tracks connections.
    #[inline]
    pub fn tracked_classes(&self) -> &ClassWords {
        &self.masks.tracked
    }

    /// The classes of a packet with these terms that decide alone which questions about packets receive it.
    /// `None`: its connection or sessions decide, too, or there are more than 64 classes.
    #[inline]
    pub fn listed_classes(&self, terms: Terms<'_>) -> Option<u64> {
        let word = terms.first_word();
        let is_listed = self.masks.has_one_word && word & self.masks.deferred_packets.word(0) == 0;
        is_listed.then(|| word & self.masks.packets.word(0))
    }

    /// The questions that receive packets of these classes whatever their connections and sessions are.
    pub fn questions_about_packets(&self, terms: Terms<'_>) -> Cow<'_, QuestionSet> {
        of_classes(&self.masks.packets_of_class, terms.among(self.packet_classes()))
    }

    /// Matches a packet with these `terms`, whose [class](Self::packet_classes) some question about packets
    /// may receive. `flow` returns the packet's connection and its verdict, if the packet has a connection;
    /// most packets are decided without.
    #[inline]
    pub fn packet(
        &self,
        terms: Terms<'_>,
        flow: impl FnOnce() -> Option<(FlowRef, SessionVerdict)>,
    ) -> PacketMatch<'_> {
        if !terms.intersects(self.masks.deferred_packets.terms()) {
            return PacketMatch::Decided(self.questions_about_packets(terms));
        }
        self.packet_with_remainders(self.plan.remainders_of(terms) & &self.masks.packet_bits, flow())
    }

    fn packet_with_remainders(
        &self,
        remainders: RemainderSet,
        flow: Option<(FlowRef, SessionVerdict)>,
    ) -> PacketMatch<'_> {
        let Some((flow, verdict)) = flow else {
            // Without a flow there is no session and no record, so questions for their absence are decided.
            let certain = remainders & &self.masks.immediate_or_absence_bits;
            return PacketMatch::Decided(Cow::Owned(self.plan.questions_of(&certain)));
        };
        let (certain, possible) = self.plan.eligibility(&remainders, &verdict, None);
        if certain == possible {
            return PacketMatch::Decided(Cow::Owned(certain));
        }
        let connection = Some((flow, remainders));
        PacketMatch::Undecided(PacketVerdict { certain, connection, datagram: None }, possible)
    }

    /// The questions that receive a fragment with these certain terms whatever its datagram is, and those
    /// that may receive it because of these possible terms.
    pub fn fragment(&self, [certain, possible]: [Terms<'_>; 2]) -> [QuestionSet; 2] {
        let plan = &*self.plan;
        let certain = self.questions_about_packets(certain).into_owned();
        let possible = plan.questions_of(&(plan.remainders_of(possible) & &self.masks.packet_bits));
        [certain, possible - &plan.at_once]
    }

    /// The questions that track a connection with these terms.
    pub fn tracking(&self, terms: Terms<'_>) -> QuestionSet {
        self.tracking_by(&self.plan.remainders_of(terms))
    }

    /// The questions that track a connection with these remainders.
    pub fn tracking_by(&self, remainders: &RemainderSet) -> QuestionSet {
        self.plan.questions_of(&(remainders & &self.masks.tracked_bits))
    }

    /// All questions that track connections.
    pub fn trackers(&self) -> &QuestionSet {
        &self.masks.tracking
    }

    /// The remainders of questions about events that packets with these terms fulfil.
    #[inline]
    pub fn event_remainders(&self, terms: Terms<'_>) -> RemainderSet {
        if !terms.intersects(self.masks.events.terms()) {
            return RemainderSet::EMPTY;
        }
        self.plan.remainders_of(terms) & &self.masks.immediate_event_bits
    }

    /// The questions that receive an event of a packet with these [remainders](Self::event_remainders).
    pub fn event(&mut self, remainders: &RemainderSet, event: &EventView<'_>) -> QuestionSet {
        let mut met = remainders.clone();
        for predicate in &self.plan.row {
            let DeferredField::Event { event: number, column, is_bytes } = predicate.field else {
                continue;
            };
            if predicate.asked_by.intersects(&met) {
                let words = event.column(column).filter(|_| event.event.index() == number);
                match words {
                    Some(words) if is_bytes => {
                        predicate.rule_out_by_bytes(event.bytes(words), &mut met, &mut self.ask);
                    }
                    words => predicate.rule_out_by(words, &mut met, &mut self.ask),
                }
            }
        }
        self.plan.questions_of(&met)
    }

    /// Whether a question of these remainders, or one that tracks their connection, receives sessions of the
    /// protocol.
    pub fn wants_session(&self, protocol: usize, remainders: &RemainderSet) -> bool {
        let Masks { receiving_sessions, tracked_bits, .. } = &self.masks;
        remainders.intersects(&receiving_sessions[protocol]) || remainders.intersects(tracked_bits)
    }

    /// Matches a session against the questions of these remainders.
    pub fn session(
        &mut self,
        remainders: &RemainderSet,
        protocol: usize,
        session: &dyn Session,
    ) -> SessionMatch {
        let plan = &*self.plan;
        let receiving_sessions = remainders & &self.masks.receiving_sessions[protocol];
        let mut met = &receiving_sessions | &self.masks.session_bits;
        for predicate in &plan.session {
            // No remaining question needs this predicate.
            if !predicate.asked_by.intersects(&met) {
                continue;
            }
            let value = match predicate.field {
                DeferredField::Session(p, field) if p == protocol => session.value(field),
                DeferredField::Protocol(p) => Value::Bool(p == protocol),
                DeferredField::Session(..) | DeferredField::Connection(_) | DeferredField::Event { .. } => {
                    Value::Absent
                }
            };
            predicate.rule_out(&value, &mut met, &mut self.ask);
        }
        let told = &met & &receiving_sessions;
        SessionMatch {
            verdict: met & &self.masks.session_bits,
            questions: plan.questions_of(&(&told - &self.masks.connection_bits)),
            open: told & &self.masks.connection_bits,
        }
    }

    /// The remainders that a flow's record does not rule out.
    pub fn record(&mut self, flow: &FlowView<'_>) -> RemainderSet {
        let plan = &*self.plan;
        let mut held = self.masks.all_bits.clone();
        for predicate in &plan.connection {
            let DeferredField::Connection(column) = predicate.field else { continue };
            if !predicate.asked_by.intersects(&held) {
                continue;
            }
            let value = (plan.connection_value)(flow, column);
            predicate.rule_out(&value, &mut held, &mut self.ask);
        }
        held
    }

    /// The questions that receive the record of a connection with this verdict. `held`: the remainders that
    /// the [record](Self::record) does not rule out.
    pub fn connection(&self, terms: Terms<'_>, verdict: &SessionVerdict, held: &RemainderSet) -> QuestionSet {
        let mut met = self.plan.remainders_of(terms) & &self.masks.record_bits & held;
        // Remainders that depend on sessions need a session that fulfils them.
        met -= &(&self.masks.of_sessions - &verdict.met);
        self.plan.questions_of(&met)
    }

    /// The questions that receive the records of connections with these terms, if nothing else decides: no
    /// filter of a connection depends on its record or its sessions, and no question tracks connections.
    #[inline]
    pub fn plain_records(&self, terms: Terms<'_>) -> Option<Cow<'_, QuestionSet>> {
        let Masks { has_plain_records, records, records_of_class, .. } = &self.masks;
        has_plain_records.then(|| of_classes(records_of_class, terms.among(records.terms())))
    }

    /// A question about streams depends on sessions or records.
    pub fn has_deferred_streams(&self) -> bool {
        !self.masks.deferred_streams.is_empty()
    }

    /// Which questions receive the streams of a flow with the verdict `known`.
    pub fn eligibility(&self, streams: &FlowStreams, known: &FlowVerdict) -> Cow<'_, Eligibility> {
        let (late, terms) = (&self.masks.deferred_streams, Terms::of(&known.terms));
        if late.is_empty() && known.open.is_subset(&known.terms) {
            return self.eligibility_of_packets(terms, streams);
        }
        let open = &known.open - &known.terms;
        let (verdict, ended) = (&known.verdict, known.ended.as_ref());
        let of_packets = self.plan.remainders_of(terms) & late;
        let (given, pending) = self.plan.eligibility(&of_packets, verdict, ended);
        let (_, possible) = self.plan.eligibility(late, verdict, ended);
        let given = given | &self.streams_of(terms);
        let possible = possible | &self.masks.immediate_streams;
        let open = self.plan.questions_of(&self.plan.remainders_of(Terms::of(&open))) & &possible;
        let pending = (pending | &open) - &given;
        Cow::Owned(self.of_one_class(streams, Eligibility { given, pending, possible }))
    }

    /// As [`eligibility`](Self::eligibility), from the flow's packets alone.
    fn eligibility_of_packets(&self, terms: Terms<'_>, streams: &FlowStreams) -> Cow<'_, Eligibility> {
        let of_class = &self.masks.streams_of_class;
        let mut classes = terms.among(self.masks.streams.terms());
        let all = match (classes.next(), classes.next()) {
            (None, _) => Cow::Borrowed(&self.masks.without_streams),
            (Some(class), None) => Cow::Borrowed(&of_class[class]),
            (Some(first), Some(second)) => {
                let mut all = of_class[first].clone();
                classes.chain([second]).for_each(|class| all.given |= &of_class[class].given);
                Cow::Owned(all)
            }
        };
        match self.masks.class_questions.is_empty() {
            true => all,
            false => Cow::Owned(self.of_one_class(streams, all.into_owned())),
        }
    }

    /// Of the questions that have a class, only the first one that matches receives the streams: while an
    /// earlier question is undecided, the later ones wait, too.
    fn of_one_class(&self, streams: &FlowStreams, all: Eligibility) -> Eligibility {
        let of_class = &self.masks.class_questions;
        if of_class.is_empty() {
            return all;
        }
        let Eligibility { given, pending, possible } = all;
        let classes = (&given | &pending) & of_class;
        let Some(first) = classes.first() else { return Eligibility { given, pending, possible } };
        let told = streams.questions() & &classes;
        if told.is_empty() && pending.contains(first) {
            return Eligibility { given: given - of_class, pending: pending | &classes, possible };
        }
        let meant = if told.is_empty() { QuestionSet::one(first) } else { told };
        let others = of_class - &meant;
        Eligibility { given: given - &others, pending: pending - &others, possible: possible - &others }
    }

    /// Whether a question that receives, or may receive, these streams asks for their packets.
    pub fn asks_for_packets(&self, terms: Terms<'_>, streams: &FlowStreams) -> bool {
        let asking = &self.masks.packet_questions;
        !asking.is_empty() && self.eligibility_of_packets(terms, streams).possible.intersects(asking)
    }

    /// Counts an out-of-order segment of a flow with these terms that was discarded, for each question about
    /// streams that the packets of the flow match.
    pub fn count_segment(&self, terms: Terms<'_>, streams: &FlowStreams) {
        let deferred = self.plan.remainders_of(terms) & &self.masks.deferred_streams;
        let (given, pending) = (self.streams_of(terms), self.plan.questions_of(&deferred));
        let all = Eligibility { given, pending, possible: QuestionSet::EMPTY };
        let Eligibility { given, pending, .. } = self.of_one_class(streams, all);
        for question in &(given | &pending) {
            self.plan.questions[question].losses.add_segment();
        }
    }

    /// The questions about streams that receive a flow with these terms whatever its sessions and its record
    /// are.
    fn streams_of(&self, terms: Terms<'_>) -> QuestionSet {
        let mut given = QuestionSet::EMPTY;
        terms
            .among(self.masks.streams.terms())
            .for_each(|class| given |= &self.masks.streams_of_class[class].given);
        given
    }

    /// The highest priority of the questions about streams that receive a flow with these terms.
    pub fn priority(&self, terms: Terms<'_>) -> u8 {
        let classes = terms.among(self.masks.streams.terms());
        classes.map(|class| self.masks.priority_of_class[class]).max().unwrap_or(0)
    }

    /// The highest priority of these questions.
    pub fn priority_of(&self, given: &QuestionSet) -> u8 {
        self.plan.priority_of(given)
    }

    /// The verdict on a flow that will have no further session: conditions on absence (`not tls`) hold from
    /// now on.
    pub fn without_further_sessions(&self, mut verdict: SessionVerdict) -> SessionVerdict {
        verdict.is_over = true;
        verdict.met |= &self.plan.absent(&verdict);
        verdict
    }
}

/// Sets of remainders, questions and classes of packets, by subject.
#[derive(Debug, Clone)]
struct Masks {
    all_bits: RemainderSet,
    packet_bits: RemainderSet,
    /// Remainders that do not depend on connection or session, or that hold if there is no session and no
    /// record.
    immediate_or_absence_bits: RemainderSet,
    session_bits: RemainderSet,
    /// Remainders that depend on sessions, on connections; remainders whose questions receive records.
    of_sessions: RemainderSet,
    connection_bits: RemainderSet,
    record_bits: RemainderSet,
    /// For each protocol: remainders whose questions receive its sessions.
    receiving_sessions: Vec<RemainderSet>,
    /// Remainders of questions about streams that depend on sessions or records; and the questions of the
    /// other remainders.
    deferred_streams: RemainderSet,
    immediate_streams: QuestionSet,
    /// Remainders of questions about events.
    immediate_event_bits: RemainderSet,
    tracked_bits: RemainderSet,
    /// Questions about streams that have a class.
    class_questions: QuestionSet,
    /// Questions about streams that ask for packets.
    packet_questions: QuestionSet,
    /// Questions that track connections.
    tracking: QuestionSet,
    /// Classes of packets with a remainder of a question about packets; of such a question that depends on
    /// connection or session; of another question; of one that tracks connections; of one about events; of
    /// one about streams that does not depend on sessions or records.
    packets: ClassWords,
    /// The plan has 64 classes at most.
    has_one_word: bool,
    deferred_packets: ClassWords,
    others: ClassWords,
    tracked: ClassWords,
    events: ClassWords,
    streams: ClassWords,
    /// For each class: the questions that receive packets of the class whatever the verdict on connection and
    /// session.
    packets_of_class: Vec<QuestionSet>,
    /// For each class: the questions that receive the records of connections of the class; and the classes
    /// with such a question. Valid if nothing but the classes decides.
    records_of_class: Vec<QuestionSet>,
    records: ClassWords,
    has_plain_records: bool,
    /// For each class: the questions about streams that receive, or may receive, a flow of this class alone;
    /// and the highest priority of those that receive the flow.
    streams_of_class: Vec<Eligibility>,
    priority_of_class: Vec<u8>,
    /// As `streams_of_class`, for a flow of no class.
    without_streams: Eligibility,
}

impl Masks {
    fn of(plan: &Plan) -> Self {
        let packets = plan.packet_bits();
        let plain = plan.immediate_bits();
        let streams = plan.bits_of(|w| matches!(w, Want::Streams(_)));
        let classes = plan.bits_of(|w| matches!(w, Want::Streams(params) if params.is_class));
        let with_packets = plan.bits_of(|w| matches!(w, Want::Streams(params) if params.packets));
        let tracked = plan.bits_of(|w| matches!(w, Want::Tracked(_)));
        let events = plan.bits_of(|w| w == Want::Events);
        let of_class = |bits: &RemainderSet| -> Vec<QuestionSet> {
            plan.classes.iter().map(|class| plan.questions_of(&(class & bits))).collect()
        };
        let classes_of = |remainders: &RemainderSet| ClassWords::of(&plan.classes_of(remainders));
        let told_of =
            |protocol: usize| plan.bits_of(|w| matches!(w, Want::Sessions(set) if set.contains(protocol)));
        let all = RemainderSet::all(plan.alternatives.len());
        let (immediate_streams, immediate_packets, immediate_events) =
            (&streams & &plain, &packets & &plain, &events & &plain);
        let given_by_class = of_class(&immediate_streams);
        let records = plan.bits_of(|w| matches!(w, Want::Connections | Want::Tracked(_)));
        let of_sessions = plan.bits_where(|bit: &Alternative| bit.session != Presence::Nothing);
        let possible = plan.questions_of(&streams);
        let eligible = |given| Eligibility { given, pending: QuestionSet::EMPTY, possible: possible.clone() };
        Self {
            has_plain_records: plan.connection.is_empty()
                && !of_sessions.intersects(&records)
                && tracked.is_empty(),
            records_of_class: of_class(&records),
            records: classes_of(&records),
            of_sessions,
            connection_bits: plan.bits_where(|bit: &Alternative| bit.connection != Presence::Nothing),
            record_bits: records,
            receiving_sessions: (0..plan.sessions.protocols().len()).map(told_of).collect(),
            immediate_or_absence_bits: &plain | &plan.absence_bits(),
            session_bits: plan.verdict_bits(),
            deferred_streams: &streams - &plain,
            immediate_streams: plan.questions_of(&immediate_streams),
            class_questions: plan.questions_of(&classes),
            packet_questions: plan.questions_of(&with_packets),
            tracking: plan.questions_of(&tracked),
            packets: classes_of(&packets),
            has_one_word: plan.classes.len() <= 64,
            deferred_packets: classes_of(&(&packets - &plain)),
            others: classes_of(&(&all - &packets)),
            tracked: classes_of(&tracked),
            events: classes_of(&immediate_events),
            packets_of_class: of_class(&immediate_packets),
            streams: classes_of(&immediate_streams),
            priority_of_class: given_by_class.iter().map(|given| plan.priority_of(given)).collect(),
            streams_of_class: given_by_class.into_iter().map(eligible).collect(),
            without_streams: eligible(QuestionSet::EMPTY),
            all_bits: all,
            packet_bits: packets,
            immediate_event_bits: immediate_events,
            tracked_bits: tracked,
        }
    }
}
