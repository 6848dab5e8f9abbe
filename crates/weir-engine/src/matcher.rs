//! Which questions something is for: a packet, an event, a session, a stream, a connection.
//!
//! A [`Matcher`] only answers. It hands nothing over, and remembers nothing between two calls:
//! [`Delivery`](crate::delivery) does both. An answer depends on what the program found (classes of packets, as bits
//! named *terms*), on what a flow's sessions and its record fulfil ([`FlowVerdict`]), and on the predicates that are
//! left to be asked of sessions, records and rows of events.

use crate::deferred_predicate::{DeferredField, Presence};
use crate::flow::{FlowView, read_number};
use crate::flow_ref::FlowRef;
use crate::mask::{Mask, of_classes};
use crate::plan::{Plan, SESSIONS_OVER, Want};
use crate::stream::FlowStreams;
use crate::subscriber::EventView;
use crate::tables::TableLayout;
use std::sync::Arc;
use weir_ir::abi::Continuation;
use weir_packet::Value;
use weir_sessions::Session;

/// Matches what was found against the questions of a plan.
pub(crate) struct Matcher {
    pub plan: Arc<Plan>,
    masks: Masks,
    /// Registers of the programs that answer deferred predicates; of no meaning between two calls.
    ask: Continuation,
}

/// What is known of a flow, as far as it says which questions the flow is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlowVerdict {
    /// Classes that its packets are of.
    pub terms: u64,
    /// Of the other classes, those that the current packet may still be of.
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

/// Which questions a packet is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PacketMatch {
    /// For these.
    Decided(Mask),
    /// The packet's connection decides.
    Undecided(OpenMatch),
}

/// Which questions a packet may be for, by what becomes of its connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenMatch {
    pub flow: FlowRef,
    /// Remainders that the packet comes to.
    pub remainders: Mask,
    /// Questions that are given the packet whatever becomes of the flow.
    pub certain: Mask,
    /// Questions that may be given the packet.
    pub possible: Mask,
}

/// Which questions a session is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionMatch {
    /// Remainders of verdicts that the session fulfils.
    pub verdict: Mask,
    /// Questions that are given the session now.
    pub questions: Mask,
    /// Remainders by which a question is given the session if the record of the connection fulfils them, too.
    pub open: Mask,
}

/// Which questions about streams a flow's streams are for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Eligibility {
    /// They are given the streams.
    pub given: Mask,
    /// They may be, by the packets that came: bytes wait for them.
    pub pending: Mask,
    /// They may be, whatever comes.
    pub possible: Mask,
}

impl Matcher {
    pub fn new(plan: Arc<Plan>) -> Self {
        Self { masks: Masks::of(&plan), plan, ask: Continuation::default() }
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

    /// A packet that fulfils `terms` and is of a [class](Self::packet_classes) that some question about packets may be
    /// given. `flow`: the packet's connection and its verdict, where the packet has one.
    #[inline]
    pub fn packet(&self, terms: u64, flow: Option<(FlowRef, Mask)>) -> PacketMatch {
        let mine = terms & self.masks.packets;
        if mine & self.masks.late_packets == 0 {
            return PacketMatch::Decided(of_classes(&self.masks.packets_of_class, mine));
        }
        self.packet_with_remainders(self.plan.remainders_of(mine) & self.masks.packet_bits, flow)
    }

    fn packet_with_remainders(&self, remainders: Mask, flow: Option<(FlowRef, Mask)>) -> PacketMatch {
        let Some((flow, verdict)) = flow else {
            // No flow: no session and no record. Questions for the absence of these are answered.
            let certain = remainders & (self.masks.plain_bits | self.masks.absence_bits);
            return PacketMatch::Decided(self.plan.questions_of(certain));
        };
        let (certain, possible) = self.plan.eligibility(remainders, verdict, None);
        if certain == possible {
            return PacketMatch::Decided(certain);
        }
        PacketMatch::Undecided(OpenMatch { flow, remainders, certain, possible })
    }

    /// Some question tracks a connection that fulfils these terms.
    #[inline]
    pub fn is_tracked(&self, terms: u64) -> bool {
        terms & self.masks.tracked != 0
    }

    /// The questions that track a connection that fulfils these terms.
    pub fn tracking(&self, terms: u64) -> Mask {
        self.tracking_by(self.plan.remainders_of(terms))
    }

    /// The questions that track a connection that comes to these remainders.
    pub fn tracking_by(&self, remainders: Mask) -> Mask {
        self.plan.questions_of(remainders & self.masks.tracked_bits)
    }

    /// All questions that track connections.
    pub fn trackers(&self) -> Mask {
        self.masks.tracking
    }

    /// The remainders by which questions about events are given those of a packet with these terms.
    #[inline]
    pub fn event_remainders(&self, terms: u64) -> Mask {
        if terms & self.masks.events == 0 {
            return 0;
        }
        self.plan.remainders_of(terms) & self.masks.event_bits & self.masks.plain_bits
    }

    /// The questions that are given an event of a packet that comes to these [remainders](Self::event_remainders).
    pub fn event(&mut self, remainders: Mask, event: &EventView<'_>) -> Mask {
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
        self.plan.questions_of(met)
    }

    /// Whether sessions of a protocol go to a question of these remainders, or to one that tracks their connection.
    pub fn wants_session(&self, protocol: usize, remainders: Mask) -> bool {
        remainders & (self.masks.told_of_sessions[protocol] | self.masks.tracked_bits) != 0
    }

    /// The questions of these remainders that a session is for.
    pub fn session(&mut self, remainders: Mask, protocol: usize, session: &dyn Session) -> SessionMatch {
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
        let told = met & told_of_sessions;
        SessionMatch {
            verdict: met & self.masks.session_bits,
            questions: plan.questions_of(told & !self.masks.connection_bits),
            open: told & self.masks.connection_bits,
        }
    }

    /// The remainders that a flow's record does not rule out.
    pub fn record(&mut self, flow: &FlowView<'_>) -> Mask {
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

    /// The questions that are given the record of a connection with this verdict. `held`: what the [record](Self::record)
    /// does not rule out.
    pub fn connection(&self, terms: u64, verdict: Mask, held: Mask) -> Mask {
        let by_sessions = verdict | !self.masks.of_sessions;
        self.plan.questions_of(held & self.plan.remainders_of(terms) & self.masks.record_bits & by_sessions)
    }

    /// Some question about streams depends on sessions or records.
    pub fn has_late_streams(&self) -> bool {
        self.masks.late_streams != 0
    }

    /// Which questions are given the streams of a flow of which this is known.
    pub fn eligibility(&self, streams: &FlowStreams, known: FlowVerdict) -> Eligibility {
        let (late, open) = (self.masks.late_streams, known.open & !known.terms);
        if late == 0 && open == 0 {
            return self.eligibility_of_packets(known.terms, streams);
        }
        let FlowVerdict { verdict, ended, .. } = known;
        let (given, pending) =
            self.plan.eligibility(self.plan.remainders_of(known.terms) & late, verdict, ended);
        let (_, possible) = self.plan.eligibility(late, verdict, ended);
        let given = given | self.streams_of(known.terms);
        let possible = possible | self.masks.plain_streams;
        let pending = pending | self.plan.questions_of(self.plan.remainders_of(open)) & possible;
        self.of_one_class(streams, Eligibility { given, pending: pending & !given, possible })
    }

    /// As [`eligibility`](Self::eligibility), by the flow's packets alone.
    fn eligibility_of_packets(&self, terms: u64, streams: &FlowStreams) -> Eligibility {
        let (given, possible) = (self.streams_of(terms), self.masks.stream_questions);
        self.of_one_class(streams, Eligibility { given, pending: 0, possible })
    }

    /// Of the questions that are of a class the first one is meant: while it is not known whether that is, those behind it
    /// wait, too.
    fn of_one_class(&self, streams: &FlowStreams, all: Eligibility) -> Eligibility {
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

    /// Whether a question that these streams are given to, or may be, asks for their packets.
    pub fn asks_for_packets(&self, terms: u64, streams: &FlowStreams) -> bool {
        let asking = self.masks.packet_questions;
        asking != 0 && self.eligibility_of_packets(terms, streams).possible & asking != 0
    }

    fn streams_of(&self, terms: u64) -> Mask {
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

    /// The verdict of a flow of which no further session will come: absences (`not tls`) are fulfilled now.
    pub fn without_further_sessions(&self, verdict: Mask) -> Mask {
        let verdict = verdict | SESSIONS_OVER;
        verdict | self.plan.absent(verdict)
    }
}

/// Remainders, questions, and classes of packets, by what they are about.
#[derive(Debug, Clone)]
struct Masks {
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
    /// Of these, those that hang on sessions or records; and the questions of the others.
    late_streams: Mask,
    plain_streams: Mask,
    event_bits: Mask,
    tracked_bits: Mask,
    /// Questions about streams; and those of them that are of a class.
    stream_questions: Mask,
    class_questions: Mask,
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
            |protocol: usize| plan.bits_of(|w| matches!(w, Want::Sessions(set) if set.contains(protocol)));
        Self {
            all_bits: bits().fold(0, |all, (index, _)| all | 1 << index),
            of_sessions: bits()
                .fold(0, |all, (i, bit)| all | Mask::from(bit.session != Presence::Nothing) << i),
            connection_bits: bits()
                .fold(0, |all, (i, bit)| all | Mask::from(bit.connection != Presence::Nothing) << i),
            record_bits: plan.bits_of(|w| matches!(w, Want::Connections | Want::Tracked(_))),
            told_of_sessions: (0..plan.sessions.protocols().len()).map(told_of).collect(),
            packet_bits: packets,
            plain_bits: plain,
            session_bits: plan.verdict_bits(),
            absence_bits: plan.absence_bits(),
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
