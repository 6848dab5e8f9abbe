//! The receiver of the results that questions asked for.

pub use crate::order::Order;

use crate::counters::Account;
use crate::flow::{EndReason, FlowView};
use crate::flow_ref::FlowRef;
use crate::oddities::Oddity;
use crate::plan::{Plan, SessionVerdict};
use crate::sets::{QuestionSet, RemainderSet};
use crate::stream::StreamSubscriber;
use crate::table::Header;
use std::borrow::Cow;
use std::sync::Arc;
use weir_ir::graph::{Event, Table};
use weir_packet::{Block, PacketExtra, PacketMeta, Timestamp};
use weir_sessions::Session;

/// A packet for a subscriber.
#[derive(Debug, Clone, Copy)]
pub struct SeenPacket<'a> {
    /// The metadata of the packet.
    pub meta: &'a PacketMeta,
    /// The block that holds the packet's bytes.
    pub block: &'a Block,
    /// Additional data about the packet.
    pub extra: PacketExtra<'a>,
    /// The packet's record; the program's slots describe it.
    pub outs: &'a [u64],
}

impl<'a> SeenPacket<'a> {
    /// The captured bytes as they were on the wire, with the VLAN tag restored if it was removed.
    pub fn frame(&self) -> Cow<'a, [u8]> {
        self.extra.frame_with_vlan(self.meta.link, self.block.frame(self.meta))
    }
}

/// Which questions receive a packet, as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PacketVerdict {
    /// Questions that receive the packet whatever the verdict on its connection. For the questions that the
    /// packet's datagram decides: those that receive the packet if the datagram stays incomplete.
    pub certain: QuestionSet,
    /// The connection that decides about further questions, and the remainders that the packet itself
    /// fulfils.
    pub connection: Option<(FlowRef, RemainderSet)>,
    /// If the packet is a fragment: its datagram, and the questions about which the datagram's other
    /// fragments decide.
    pub datagram: Option<(FlowRef, QuestionSet)>,
}

impl PacketVerdict {
    /// Nothing further decides about the packet.
    #[inline]
    pub fn is_decided(&self) -> bool {
        self.connection.is_none() && self.datagram.is_none()
    }

    /// The flows that decide about the packet.
    pub fn flows(&self) -> [Option<FlowRef>; 2] {
        let connection = self.connection.as_ref().map(|(flow, _)| *flow);
        [connection, self.datagram.as_ref().map(|(flow, _)| *flow)]
    }

    /// The questions that receive the packet whatever its connection and its datagram are.
    pub fn settled(&self) -> Cow<'_, QuestionSet> {
        match &self.datagram {
            Some((_, open)) => Cow::Owned(&self.certain - open),
            None => Cow::Borrowed(&self.certain),
        }
    }

    /// The questions about which a connection or a datagram decides.
    pub(crate) fn open(&self, plan: &Plan) -> QuestionSet {
        let of_connection = self.connection.iter().flat_map(|(_, remainders)| remainders);
        let mut open: QuestionSet = of_connection.map(|index| plan.alternatives[index].question).collect();
        if let Some((_, of_datagram)) = &self.datagram {
            open |= of_datagram;
        }
        open - &*self.settled()
    }

    /// Takes over the verdict of the packet that completes the datagram, for the `open` questions.
    pub(crate) fn take_over(&mut self, completing: &Self, open: &QuestionSet, plan: &Plan) {
        self.certain -= open;
        self.certain |= &(&completing.certain & open);
        // A question that depends on the fragment's own connection is open, too.
        self.connection = completing.connection.as_ref().and_then(|(flow, remainders)| {
            let remainders = remainders & &plan.bits_of_questions(&(open - &self.certain));
            (!remainders.is_empty()).then_some((*flow, remainders))
        });
        self.datagram = completing.datagram.as_ref().and_then(|(flow, of_completing)| {
            let open = of_completing & open;
            (!open.is_empty()).then_some((*flow, open))
        });
    }
}

/// A packet whose match depends on its connection or session, or on other fragments of its datagram.
#[derive(Debug, Clone, Copy)]
pub struct Undecided<'a> {
    /// Which questions receive the packet, as far as that is known.
    pub verdict: &'a PacketVerdict,
    /// Questions that may receive the packet.
    pub possible: &'a QuestionSet,
    /// How the packet is counted if no question receives it in the end.
    pub otherwise: Account,
    /// The packet.
    pub packet: SeenPacket<'a>,
}

/// A new verdict on a flow with undecided packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictUpdate {
    /// The flow.
    pub flow: FlowRef,
    /// What the flow's sessions have fulfilled so far.
    pub verdict: SessionVerdict,
    /// If the flow has ended: remainders whose connection part its record fulfils.
    pub ended: Option<RemainderSet>,
}

/// An event of a flow.
#[derive(Debug, Clone, Copy)]
pub struct EventView<'a> {
    /// Which event of the graph.
    pub event: Event,
    /// The time of the packet that caused the event; of an event at the end of a flow: of the flow's last
    /// packet.
    pub time: Timestamp,
    /// The number of the packet that caused the event; `None` for an event at the end of a flow.
    pub packet: Option<u64>,
    /// The flow: its table, and its key and times so far.
    pub flow: (Table, &'a Header),
    /// The words of the columns, two per column, the high one first; if packets may lack columns, a final
    /// word says which exist.
    pub values: &'a [u64],
    /// The bytes of columns, and the end of each column in them.
    pub(crate) kept: (&'a [u8], &'a [usize]),
}

impl EventView<'_> {
    /// The high and low word of a column; `None` if the packet lacks the column.
    pub fn column(&self, column: usize) -> Option<[u64; 2]> {
        let (words, known) = self.values.as_chunks::<2>();
        let is_there = column >= 64 || known.first().is_none_or(|known| known >> column & 1 == 1);
        words.get(column).copied().filter(|_| is_there)
    }

    /// The bytes that the words of a column refer to.
    pub fn bytes(&self, [_, number]: [u64; 2]) -> &[u8] {
        let (bytes, ends) = self.kept;
        let end = |number: u64| ends.get(number as usize).copied();
        let start = number.checked_sub(1).map_or(Some(0), end);
        start.zip(end(number)).and_then(|(start, end)| bytes.get(start..end)).unwrap_or_default()
    }
}

/// A packet of a connection that a question tracks.
#[derive(Debug, Clone, Copy)]
pub struct TrackedPacket<'a> {
    /// The connection, including this packet.
    pub flow: FlowView<'a>,
    /// The responder sent it.
    pub from_responder: bool,
    /// The metadata of the packet.
    pub packet: &'a PacketMeta,
    /// The captured bytes.
    pub frame: &'a [u8],
    /// The packet's record; the program's slots describe it. Empty if `is_outer`.
    pub outs: &'a [u64],
    /// The connection is a tunnel, and the packet belongs to a connection inside.
    pub is_outer: bool,
    /// The tracking questions that the connection matches, as far as is known. Empty unless the subscriber
    /// [asks](Subscriber::asks_what_matches).
    pub matching: &'a QuestionSet,
}

/// A report of a connection that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Report {
    /// The number of the packet that asked for it: the first one of the connection since the last report.
    pub packet: u64,
    /// The question.
    pub question: usize,
    /// The connection.
    pub flow: FlowRef,
}

/// A complete session for a subscriber.
#[derive(Clone, Copy)]
pub struct SeenSession<'a> {
    /// Its protocol: index into the plan's protocols.
    pub protocol: usize,
    /// The session.
    pub session: &'a Arc<dyn Session>,
    /// The number of the packet that completed the session, or that closed its connection. `None` if no
    /// packet did: the connection was idle, was replaced or shed, or the capture ended.
    pub packet: Option<u64>,
}

/// Receives the results that questions asked for. Each worker has one; calls come in capture order.
///
/// All references are valid during the call only.
pub trait Subscriber: StreamSubscriber + Send {
    /// A packet.
    fn packet(&mut self, order: Order, question: usize, packet: &SeenPacket<'_>) {
        let _ = (order, question, packet);
    }

    /// Whether the packets of a question are only counted: by [`packets`](Self::packets), or one by one.
    /// Asked when the plan changes.
    fn only_counts_packets(&self, question: usize) -> bool {
        let _ = question;
        false
    }

    /// So many packets of a question whose packets are only counted.
    fn packets(&mut self, question: usize, count: u64) {
        let _ = (question, count);
    }

    /// The worker's time is now at least `now`, in nanoseconds since 1970; `i64::MAX` at the end of the
    /// capture, after everything else.
    fn pass_time(&mut self, order: Order, now: i64) {
        let _ = (order, now);
    }

    /// The worker's packets so far have this many bytes on the wire: rows are limited by their number. Called
    /// after each part of a burst.
    fn pass_bytes(&mut self, wire_bytes: u64) {
        let _ = wire_bytes;
    }

    /// The machine's clock was set by this many nanoseconds: the times of later packets are those of the new
    /// time.
    fn step_clock(&mut self, step_ns: i64) {
        let _ = step_ns;
    }

    /// An undecided packet. A subscriber that wants it keeps it in a [`HoldQueue`](crate::hold::HoldQueue).
    fn undecided(&mut self, order: Order, packet: &Undecided<'_>) {
        let _ = (order, packet);
    }

    /// A new verdict on a flow with undecided packets.
    fn settled(&mut self, order: Order, settled: VerdictUpdate) {
        let _ = (order, settled);
    }

    /// A datagram with undecided fragments is complete, or has ended incomplete (`None`). The fragments take
    /// over the verdict of the packet that completes the datagram.
    fn datagram(&mut self, order: Order, datagram: FlowRef, verdict: Option<&PacketVerdict>) {
        let _ = (order, datagram, verdict);
    }

    /// A connection that has ended.
    fn connection(&mut self, order: Order, question: usize, flow: &FlowView<'_>, reason: EndReason) {
        let _ = (order, question, flow, reason);
    }

    /// A packet of a connection that a question [tracks](crate::plan::Want::Tracked), in capture order. A
    /// packet in a tunnel is delivered for each connection around its own, too, from the outermost to the
    /// innermost one.
    fn tracked_packet(&mut self, order: Order, question: usize, packet: &TrackedPacket<'_>) {
        let _ = (order, question, packet);
    }

    /// Whether [tracked packets](Self::tracked_packet) say which questions their connection matches: a look
    /// at the connection for each packet.
    fn asks_what_matches(&self) -> bool {
        false
    }

    /// Removes and returns the next report that is due at `now` (nanoseconds since 1970): reports come in the
    /// order of packets, then of questions.
    fn next_report(&mut self, now: i64) -> Option<Report> {
        let _ = now;
        None
    }

    /// A connection of which a report is due, and which matches the question as far as is known.
    fn report(&mut self, order: Order, question: usize, flow: &FlowView<'_>) {
        let _ = (order, question, flow);
    }

    /// A session of a tracked connection, whether the question's filter matches it or not; also one that
    /// [goes on](Session::is_early).
    fn tracked_session(
        &mut self,
        order: Order,
        question: usize,
        flow: &FlowView<'_>,
        session: &SeenSession<'_>,
    ) {
        let _ = (order, question, flow, session);
    }

    /// All questions of this moment have received the last session. Who only compares the next one with it
    /// lets it go, so that its memory is released here.
    fn release_session(&mut self) {}

    /// The session protocol that a tracked connection has from now on, by number; `None`: none of the wanted
    /// ones.
    fn recognised(&mut self, question: usize, flow: &FlowView<'_>, protocol: Option<usize>) {
        let _ = (question, flow, protocol);
    }

    /// A tracked connection ended without a match; the subscriber discards its data.
    fn untracked(&mut self, question: usize, flow: FlowRef) {
        let _ = (question, flow);
    }

    /// A session.
    fn session(&mut self, order: Order, question: usize, flow: &FlowView<'_>, session: &SeenSession<'_>) {
        let _ = (order, question, flow, session);
    }

    /// What was odd about packets without a connection.
    fn odd(&mut self, order: Order, odd: &[Oddity]) {
        let _ = (order, odd);
    }

    /// An event, after its packet was processed; an event at the end of a flow before the flow's record.
    fn event(&mut self, order: Order, question: usize, event: &EventView<'_>) {
        let _ = (order, question, event);
    }
}
