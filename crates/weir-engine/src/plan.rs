//! What a run is to do: the program, its questions, and what remains to be asked of connections and
//! sessions. Made by whoever compiled the questions; the engine only carries it out.

pub use crate::sets::{ClassSet, QuestionSet, RemainderSet};

use crate::deferred_predicate::{DeferredPredicate, Presence};
use crate::flow::FlowView;
use crate::sequence::Policies;
use crate::sets::{Terms, of_classes};
use crate::stream::{OverloadParams, StreamParams};
use crate::words::Words;
use std::sync::Arc;
use weir_ir::abi::{Program, VERDICT_FLAGS};
use weir_packet::Value;
use weir_sessions::{ProbeDecision, ProtocolSet, SessionRegistry};

/// Reads a column of a connection's record.
pub type ConnectionValue = dyn Fn(&FlowView<'_>, usize) -> Value<'static> + Send + Sync;

/// What the sessions of a flow fulfil.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionVerdict {
    /// Remainders whose session part they fulfil, so far.
    pub met: RemainderSet,
    /// The flow had a session.
    pub had_session: bool,
    /// No further session will come.
    pub is_over: bool,
}

/// Bits of the first word of a verdict in a flow's record: no further session will come; the flow had a session. The bits
/// below them stand for remainders, and all bits of further words.
const SESSIONS_OVER: u64 = 1 << 63;
const HAD_SESSION: u64 = 1 << (64 - VERDICT_FLAGS);

/// What a question is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// Every packet that matches (or whose connection or session does).
    Packets,
    /// The record of every connection that matches, when it is over.
    Connections,
    /// Every session that matches, of these protocols.
    Sessions(ProtocolSet),
    /// Every stream that matches: that it begins, its bytes in order, that it is over.
    Streams(StreamParams),
    /// The events that the program emits on packets that match, each if its own columns do.
    Events,
    /// Every packet and, of these protocols, every session of connections that may yet match, as they come; and the
    /// record of each that does, when it is over.
    Tracked(ProtocolSet),
    /// Nothing: a question that was taken away, and whose number is still in use.
    Nothing,
}

/// A question.
#[derive(Debug, Clone, Copy)]
pub struct QuestionPlan {
    /// What it is given.
    pub want: Want,
}

/// A question, and what has to be known of connection and session to answer it.
#[derive(Clone)]
pub struct Alternative {
    /// The question.
    pub question: usize,
    /// What is asked of connections and sessions, as text: bits of two plans that have the same mean the same.
    pub name: String,
    /// What must hold for the connection, when it is over.
    pub connection: Presence,
    /// What must hold for one session.
    pub session: Presence,
}

/// A whole run.
#[derive(Clone)]
pub struct Plan {
    /// The program.
    pub program: Arc<dyn Program>,
    /// Its questions.
    pub questions: Vec<QuestionPlan>,
    /// What remains to be asked of connections, sessions and rows of events: remainders.
    pub alternatives: Vec<Alternative>,
    /// What these ask of rows of events.
    pub row: Vec<DeferredPredicate>,
    /// What these ask of the records of connections.
    pub connection: Vec<DeferredPredicate>,
    /// What these ask of sessions.
    pub session: Vec<DeferredPredicate>,
    /// What the bits of a packet's terms mean: remainders that it comes to.
    pub classes: Vec<RemainderSet>,
    /// What [`verdict_bits`](Self::verdict_bits) finds, found once.
    pub verdicts: RemainderSet,
    /// Every session protocol, by number.
    pub sessions: Arc<SessionRegistry>,
    /// The probes of all protocols, compiled into one decision.
    pub probes: Arc<ProbeDecision>,
    /// Protocols to recognise.
    pub probed: ProtocolSet,
    /// Protocols to parse; a subset of those probed.
    pub parsed: ProtocolSet,
    /// Protocols whose sessions somebody wants; a subset of those parsed. The others are parsed for what they hand over to.
    pub wanted: ProtocolSet,
    /// The value of a column of a connection's record.
    pub connection_value: Arc<ConnectionValue>,
    /// Classes that every packet is of.
    pub unconditional: ClassSet,
    /// Somebody reads the records of connections: they are kept up to their ends, whoever still wants bytes.
    pub records: bool,
    /// Bounds.
    pub limits: Limits,
    /// Bounds on the memory of streams, of each worker.
    pub overload: OverloadParams,
    /// Whose bytes count where segments or fragments overlap.
    pub policies: Arc<Policies>,
    /// The cycles that each stage takes are counted.
    pub timed: bool,
}

/// Bounds on what a worker keeps, and on what is held behind all workers. What a bound cuts off is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Flows of each table.
    pub flows_max: usize,
    /// Packets held until their connection's verdict is known.
    pub held_packets_max: usize,
    /// Bytes that these packets may cost.
    pub held_bytes_max: usize,
    /// Bytes kept of each direction while it is not known what protocol it is.
    pub probe_bytes_max: usize,
    /// Lookups that one packet may cause (fragments, tunnels).
    pub lookups_max: u32,
    /// Ends idle connections after this many milliseconds, in place of the time-outs that their layers
    /// declare for idle ones (a minute and more; what is unanswered or closed goes sooner, as declared).
    /// 0: connections end with the capture only. Fragments keep their time-outs.
    pub idle_timeout_ms: Option<u32>,
    /// Reassembly passes over no hole in TCP's bytes: what lies behind one that stays is not delivered. Without, it
    /// goes on once too much waits, and says how much is missing.
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
            probe_bytes_max: 4096,
            lookups_max: 4_096,
            idle_timeout_ms: None,
            strict: false,
            seed: 0,
        }
    }
}

impl Plan {
    /// Remainders that a packet, or a flow, of these terms comes to.
    #[inline]
    pub(crate) fn remainders_of(&self, terms: Terms<'_>) -> RemainderSet {
        of_classes(&self.classes, terms.iter()).into_owned()
    }

    /// Classes that have any of the remainders.
    pub fn classes_of(&self, remainders: &RemainderSet) -> ClassSet {
        let classes = self.classes.iter().enumerate().filter(|(_, class)| class.intersects(remainders));
        classes.map(|(index, _)| index).collect()
    }

    /// Remainders of the questions that are given packets.
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

    /// Remainders all of whose predicates hold where there is neither session nor connection.
    pub fn absence_bits(&self) -> RemainderSet {
        self.bits_where(|bit| bit.session != Presence::Presence && bit.connection != Presence::Presence)
    }

    /// Protocols to recognise in what a layer carries.
    pub(crate) fn probed_over(&self, layer: &str) -> ProtocolSet {
        self.probed & self.sessions.carried_by(layer)
    }

    /// Some question is given packets by what becomes of their connections or sessions.
    pub fn holds_packets(&self) -> bool {
        !self.packet_bits().is_subset(&self.plain_bits())
    }

    /// Remainders that hold for want of any session, of a flow that has this verdict.
    pub(crate) fn absent(&self, verdict: &SessionVerdict) -> RemainderSet {
        if verdict.had_session {
            return RemainderSet::EMPTY;
        }
        self.bits_where(|bit| bit.session == Presence::Absence)
    }

    /// Questions that the remainders belong to.
    pub fn questions_of(&self, remainders: &RemainderSet) -> QuestionSet {
        remainders.iter().map(|index| self.alternatives[index].question).collect()
    }

    /// All questions that have a remainder.
    pub fn asked(&self) -> QuestionSet {
        self.alternatives.iter().map(|bit| bit.question).collect()
    }

    /// Those of the questions that are about streams, and what they ask for.
    pub(crate) fn stream_questions<'a>(
        &'a self,
        questions: &'a QuestionSet,
    ) -> impl Iterator<Item = (usize, &'a StreamParams)> + Clone {
        questions.iter().filter_map(|index| match &self.questions.get(index)?.want {
            Want::Streams(params) => Some((index, params)),
            _ => None,
        })
    }

    /// Remainders that belong to the questions.
    pub(crate) fn bits_of_questions(&self, questions: &QuestionSet) -> RemainderSet {
        self.bits_where(|bit| questions.contains(bit.question))
    }

    /// Questions that are given a packet that comes to these remainders for certain, and those that may be, by what is
    /// known of its flow: the verdict of its sessions and, once the flow is over, what its record fulfils.
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

    /// Remainders that need no verdict on connection or session.
    pub fn plain_bits(&self) -> RemainderSet {
        self.bits_where(|bit| bit.connection == Presence::Nothing && bit.session == Presence::Nothing)
    }

    /// Remainders that a flow's verdict has a bit for: the session part of what is asked of packets, connections and streams.
    pub fn verdict_bits(&self) -> RemainderSet {
        self.bits_where(|bit| {
            bit.session != Presence::Nothing && self.questions[bit.question].want.has_verdicts()
        })
    }

    /// The remainders that a verdict has a bit for: the word of a flow's record, the bit in the word, the remainder.
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

    /// The other way round.
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
    /// Whether what a flow's sessions fulfil is remembered for such a question. Sessions themselves are reported at once.
    pub fn has_verdicts(self) -> bool {
        matches!(self, Self::Packets | Self::Connections | Self::Tracked(_) | Self::Streams(_))
    }
}
