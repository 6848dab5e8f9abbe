//! The task of a run: the program, its questions, and the deferred predicates on connections and sessions.
//! The compiler of the questions makes the plan; the engine only executes it.

pub use crate::sets::{ClassSet, QuestionSet, RemainderSet};

use crate::deferred_predicate::{DeferredPredicate, Presence};
use crate::end_event::EndEvent;
use crate::flow::FlowView;
use crate::kernel_plan::KernelPlan;
use crate::oddities::OddEvent;
use crate::question_losses::QuestionLosses;
use crate::sequence::Policies;
use crate::sets::{Terms, of_classes};
use crate::stream::{OverloadParams, StreamParams};
use crate::words::Words;
use std::sync::{Arc, OnceLock};
use weir_ir::abi::{Program, VERDICT_FLAGS};
use weir_ir::graph::Table;
use weir_ir::slot::EngineSlot;
use weir_packet::Value;
use weir_sessions::{ProbeDecision, ProtocolSet, SessionRegistry};

/// Reads a column of a connection's record.
pub type ConnectionValue = dyn Fn(&FlowView<'_>, usize) -> Value<'static> + Send + Sync;

/// What the sessions of a flow fulfil.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionVerdict {
    /// Remainders whose session part has been fulfilled so far.
    pub met: RemainderSet,
    /// The flow had a session.
    pub had_session: bool,
    /// No further session will come.
    pub is_over: bool,
}

/// Flags in the first word of a verdict in a flow's record: no further session will come; the flow had a
/// session. The lower bits of the first word, and all bits of further words, stand for remainders.
const SESSIONS_OVER: u64 = 1 << 63;
const HAD_SESSION: u64 = 1 << (64 - VERDICT_FLAGS);

/// What a question receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// Every packet that matches, or whose connection or session matches.
    Packets,
    /// The record of every matching connection, when the connection ends.
    Connections,
    /// Every matching session of these protocols.
    Sessions(ProtocolSet),
    /// Every matching stream: its start, its bytes in order, its end.
    Streams(StreamParams),
    /// The events that the program emits on matching packets, if the event's columns match.
    Events,
    /// Every packet, and every session of these protocols, of connections that may still match, as they
    /// arrive; and the record of each matching connection, when it ends.
    Tracked(ProtocolSet),
    /// Nothing: a removed question whose number is still in use.
    Nothing,
}

/// A question.
#[derive(Debug, Clone)]
pub struct QuestionPlan {
    /// What the question receives.
    pub want: Want,
    /// What the question has lost.
    pub losses: Arc<QuestionLosses>,
}

impl QuestionPlan {
    /// A question that receives this, and has lost nothing yet.
    pub fn new(want: Want) -> Self {
        Self { want, losses: Arc::default() }
    }
}

/// One way to match a question, with the conditions on connection and session.
#[derive(Clone)]
pub struct Alternative {
    /// The question.
    pub question: usize,
    /// The conditions on connections and sessions as text: alternatives of two plans with the same text mean
    /// the same.
    pub name: String,
    /// The condition on the connection, known when it ends.
    pub connection: Presence,
    /// The condition on one session.
    pub session: Presence,
}

/// The plan of a run.
#[derive(Clone)]
pub struct Plan {
    /// The program.
    pub program: Arc<dyn Program>,
    /// The questions.
    pub questions: Vec<QuestionPlan>,
    /// The alternatives of all questions. An index into this list is a remainder.
    pub alternatives: Vec<Alternative>,
    /// Deferred predicates on rows of events.
    pub row: Vec<DeferredPredicate>,
    /// Deferred predicates on the records of connections.
    pub connection: Vec<DeferredPredicate>,
    /// Deferred predicates on sessions.
    pub session: Vec<DeferredPredicate>,
    /// For each class (a bit of a packet's terms): the remainders that a packet of the class has.
    pub classes: Vec<RemainderSet>,
    /// The result of [`verdict_bits`](Self::verdict_bits), computed once.
    pub verdicts: RemainderSet,
    /// Every session protocol, by number.
    pub sessions: Arc<SessionRegistry>,
    /// Connections whose protocol is given, and not recognised from their bytes.
    pub forced: Vec<ForcedProtocol>,
    /// The probes of all protocols, compiled into one decision.
    pub probes: Arc<ProbeDecision>,
    /// Protocols whose sessions, or whose names, questions ask for.
    pub asked: ProtocolSet,
    /// Protocols to recognise in any layer: those, and the ones that these may be inside of.
    pub probed: ProtocolSet,
    /// Protocols to parse; a subset of those probed.
    pub parsed: ProtocolSet,
    /// Protocols whose sessions a question receives; a subset of those parsed. The others are parsed because
    /// other protocols follow them.
    pub wanted: ProtocolSet,
    /// Reads a column of a connection's record.
    pub connection_value: Arc<ConnectionValue>,
    /// By table: the events that report its flows, at their ends or at intervals, and that a question asks
    /// for.
    pub ends: Vec<Vec<EndEvent>>,
    /// Classes that every packet is of.
    pub unconditional: ClassSet,
    /// A question receives records of connections: flows are kept up to their ends, even if nobody wants more
    /// of their bytes.
    pub records: bool,
    /// The events that are odd, if a question receives [oddities](crate::oddities).
    pub odd: Option<Arc<[OddEvent]>>,
    /// Bounds.
    pub limits: Limits,
    /// Bounds on the memory of streams, per worker.
    pub overload: OverloadParams,
    /// Questions whose packets do not wait: they receive a fragment only if the fragment itself matches.
    pub at_once: QuestionSet,
    /// The policies for overlapping segments and fragments, by receiver.
    pub policies: Arc<Policies>,
    /// Counts the cycles that each stage takes.
    pub timed: bool,
    /// The connections that the kernel may take over; `None` unless the source is a link.
    pub kernel: Option<Arc<OnceLock<KernelPlan>>>,
}

/// The protocol of the connections of a layer that have a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForcedProtocol {
    /// The layer's name: `tcp`.
    pub layer: String,
    /// The first and the last port.
    pub ports: (u64, u64),
    /// The session protocol.
    pub protocol: usize,
}

impl Plan {
    /// The losses of each question.
    pub(crate) fn losses(&self) -> Vec<Arc<QuestionLosses>> {
        self.questions.iter().map(|question| Arc::clone(&question.losses)).collect()
    }

    /// The protocol that the connections of a table have with these ports, if it is given.
    pub(crate) fn forced(&self, table: Table, ports: [u16; 2]) -> Option<usize> {
        if self.forced.is_empty() {
            return None;
        }
        let declared = &self.program.graph().tables[table.index()];
        let layer = declared.carries.as_ref().unwrap_or(&declared.name);
        let is_one = |forced: &&ForcedProtocol| {
            let (first, last) = forced.ports;
            forced.layer == **layer && ports.iter().any(|port| (first..=last).contains(&u64::from(*port)))
        };
        self.forced.iter().find(is_one).map(|forced| forced.protocol)
    }
}

/// Bounds on the memory of a worker, and on packets held behind all workers. Losses at each bound are
/// counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Flows per table.
    pub flows_max: usize,
    /// Packets held until their connection's verdict is known, or their datagram is complete.
    pub held_packets_max: usize,
    /// Bytes that these packets may occupy.
    pub held_bytes_max: usize,
    /// Sessions per worker held until the record of their connection is complete.
    pub held_sessions_max: usize,
    /// Bytes kept per direction until the protocol is recognised.
    pub probe_bytes_max: usize,
    /// Bytes of a stream in which a protocol is recognised although the stream began with something else; 0:
    /// the first bytes decide.
    pub late_bytes_max: u64,
    /// Lookups per packet (fragments, tunnels).
    pub lookups_max: u32,
    /// Idle time-out of connections in milliseconds, in place of the time-outs that layers declare for idle
    /// states (a minute and more; unanswered or closed connections keep their shorter time-outs). 0:
    /// connections end only with the capture. Fragments keep their time-outs.
    pub idle_timeout_ms: Option<u32>,
    /// TCP reassembly never passes over a hole: bytes behind a permanent hole are not delivered. If `false`,
    /// reassembly continues once too much waits, and reports the missing bytes.
    pub strict: bool,
    /// Seed of the tables' hash: secret where traffic is hostile, fixed in tests.
    pub seed: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            flows_max: 1 << 24,
            held_packets_max: 1 << 20,
            held_bytes_max: 256 << 20,
            held_sessions_max: 1 << 16,
            probe_bytes_max: 4096,
            late_bytes_max: 64 << 10,
            lookups_max: 4_096,
            idle_timeout_ms: None,
            strict: false,
            seed: 0,
        }
    }
}

impl Plan {
    /// Remainders of a packet, or a flow, with these terms.
    #[inline]
    pub(crate) fn remainders_of(&self, terms: Terms<'_>) -> RemainderSet {
        of_classes(&self.classes, terms.iter()).into_owned()
    }

    /// Classes that have any of the remainders.
    pub fn classes_of(&self, remainders: &RemainderSet) -> ClassSet {
        let classes = self.classes.iter().enumerate().filter(|(_, class)| class.intersects(remainders));
        classes.map(|(index, _)| index).collect()
    }

    /// Remainders of the questions that receive packets.
    pub fn packet_bits(&self) -> RemainderSet {
        self.bits_of(|w| w == Want::Packets)
    }

    /// Remainders of the questions for which `is` holds.
    pub fn bits_of(&self, is: impl Fn(Want) -> bool) -> RemainderSet {
        self.bits_where(|bit| is(self.questions[bit.question].want))
    }

    /// Remainders for which `is` holds.
    pub(crate) fn bits_where(&self, is: impl Fn(&Alternative) -> bool) -> RemainderSet {
        let bits = self.alternatives.iter().enumerate().filter(|(_, bit)| is(bit));
        bits.map(|(index, _)| index).collect()
    }

    /// Remainders that are fulfilled if there is neither a session nor a connection's record.
    pub fn absence_bits(&self) -> RemainderSet {
        self.bits_where(|bit| bit.session != Presence::Presence && bit.connection != Presence::Presence)
    }

    /// Protocols to recognise in the bytes that a layer carries.
    pub fn probed_over(&self, layer: &str) -> ProtocolSet {
        self.sessions.probed_over(layer, self.asked)
    }

    /// Whether packets wait for data that comes later.
    pub fn holds_packets(&self) -> bool {
        self.awaits_connections() || self.holds_fragments()
    }

    /// Whether a question receives packets depending on their connections or sessions.
    pub fn awaits_connections(&self) -> bool {
        !self.packet_bits().is_subset(&self.immediate_bits())
    }

    /// Whether a question receives fragments depending on other fragments of their datagrams.
    pub fn holds_fragments(&self) -> bool {
        !self.program.graph().slots_of(EngineSlot::PossibleTerms).is_empty()
    }

    /// Divides the memory between workers and the packets that [wait](Self::holds_packets), which get a
    /// quarter at most. They are not counted in a worker's account, because they wait behind all workers.
    pub fn share_with_held_packets(&mut self) {
        let memory_max = self.overload.memory_max;
        self.limits.held_bytes_max = self.limits.held_bytes_max.min(memory_max / 4);
        self.overload.memory_max = memory_max - self.limits.held_bytes_max;
    }

    /// Remainders with a bit in a verdict that hold because there is no session, for a flow with this
    /// verdict.
    pub(crate) fn absent(&self, verdict: &SessionVerdict) -> RemainderSet {
        if verdict.had_session {
            return RemainderSet::EMPTY;
        }
        let is_absence = |&index: &usize| self.alternatives[index].session == Presence::Absence;
        self.verdicts.iter().filter(is_absence).collect()
    }

    /// Questions that the remainders belong to.
    pub fn questions_of(&self, remainders: &RemainderSet) -> QuestionSet {
        remainders.iter().map(|index| self.alternatives[index].question).collect()
    }

    /// All questions that have a remainder.
    pub fn asked(&self) -> QuestionSet {
        self.alternatives.iter().map(|bit| bit.question).collect()
    }

    /// The stream parameters of those questions that are about streams.
    pub(crate) fn stream_questions<'a>(
        &'a self,
        questions: &'a QuestionSet,
    ) -> impl Iterator<Item = (usize, &'a StreamParams)> + Clone {
        questions.iter().filter_map(|index| match &self.questions.get(index)?.want {
            Want::Streams(params) => Some((index, params)),
            _ => None,
        })
    }

    /// The highest priority of those questions that are about streams.
    pub(crate) fn priority_of(&self, questions: &QuestionSet) -> u8 {
        self.stream_questions(questions).map(|(_, params)| params.priority).max().unwrap_or(0)
    }

    /// Remainders that belong to the questions.
    pub(crate) fn bits_of_questions(&self, questions: &QuestionSet) -> RemainderSet {
        self.bits_where(|bit| questions.contains(bit.question))
    }

    /// Questions that certainly receive a packet with these remainders, and questions that may receive it.
    /// Both depend on the verdict of the flow's sessions and, once the flow has ended, on what its record
    /// fulfils.
    pub(crate) fn eligibility(
        &self,
        remainders: &RemainderSet,
        verdict: &SessionVerdict,
        ended: Option<&RemainderSet>,
    ) -> (QuestionSet, QuestionSet) {
        let (mut certain, mut possible) = (QuestionSet::EMPTY, QuestionSet::EMPTY);
        let session_may_come = ended.is_none() && !verdict.is_over;
        for index in remainders {
            let bit = &self.alternatives[index];
            let session = bit.session == Presence::Nothing || verdict.met.contains(index);
            let connection =
                bit.connection == Presence::Nothing || ended.is_some_and(|met| met.contains(index));
            if session && connection {
                certain.insert(bit.question);
            }
            if (session || session_may_come) && (connection || ended.is_none()) {
                possible.insert(bit.question);
            }
        }
        (certain, possible)
    }

    /// Remainders that do not depend on connection or session.
    pub fn immediate_bits(&self) -> RemainderSet {
        self.bits_where(|bit| bit.connection == Presence::Nothing && bit.session == Presence::Nothing)
    }

    /// Remainders with a bit in a flow's verdict: the session part of conditions on packets, connections and
    /// streams.
    pub fn verdict_bits(&self) -> RemainderSet {
        self.bits_where(|bit| {
            bit.session != Presence::Nothing && self.questions[bit.question].want.has_verdicts()
        })
    }

    /// For each remainder with a bit in a verdict: the word of a flow's record, the bit in the word, the
    /// remainder.
    fn places_of_verdicts(&self) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        let place = |at: usize| match at.checked_sub(64 - VERDICT_FLAGS) {
            None => (0, at),
            Some(beyond) => (1 + beyond / 64, beyond % 64),
        };
        self.verdicts.iter().enumerate().map(move |(at, index)| (place(at).0, place(at).1, index))
    }

    /// Writes a verdict into these words of a flow's record.
    pub(crate) fn pack(&self, verdict: &SessionVerdict, words: Words, data: &mut [u8]) {
        let flags = [(verdict.is_over, SESSIONS_OVER), (verdict.had_session, HAD_SESSION)];
        let flags = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |word, (_, flag)| word | flag);
        let (mut at, mut packed) = (0, flags);
        for (word, bit, index) in self.places_of_verdicts() {
            if word != at {
                words.write(data, at, packed);
                (at, packed) = (word, 0);
            }
            packed |= u64::from(verdict.met.contains(index)) << bit;
        }
        words.write(data, at, packed);
    }

    /// Reads a verdict from these words of a flow's record.
    pub(crate) fn unpack(&self, words: Words, data: &[u8]) -> SessionVerdict {
        let first = words.read(data, 0);
        let (mut at, mut packed, mut met) = (0, first, RemainderSet::EMPTY);
        for (word, bit, index) in self.places_of_verdicts() {
            if word != at {
                (at, packed) = (word, words.read(data, word));
            }
            if packed >> bit & 1 == 1 {
                met.insert(index);
            }
        }
        SessionVerdict { met, had_session: first & HAD_SESSION != 0, is_over: first & SESSIONS_OVER != 0 }
    }
}

impl Want {
    /// Whether the flow's verdict is stored for such a question. Questions about sessions receive them at
    /// once.
    pub fn has_verdicts(self) -> bool {
        matches!(self, Self::Packets | Self::Connections | Self::Tracked(_) | Self::Streams(_))
    }
}
