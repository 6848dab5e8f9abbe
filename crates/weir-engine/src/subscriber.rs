//! Whoever is given what questions asked for.

pub use crate::order::Order;

use crate::counters::Account;
use crate::flow::{EndReason, FlowView};
use crate::flow_ref::FlowRef;
use crate::plan::SessionVerdict;
use crate::sets::{QuestionSet, RemainderSet};
use crate::stream::StreamSubscriber;
use crate::table::Header;
use std::borrow::Cow;
use std::sync::Arc;
use weir_ir::graph::{Event, Table};
use weir_packet::{Block, PacketExtra, PacketMeta};
use weir_sessions::Session;

/// A packet as a subscriber is given it.
#[derive(Debug, Clone, Copy)]
pub struct SeenPacket<'a> {
    /// What the capture says of it.
    pub meta: &'a PacketMeta,
    /// Where its bytes are.
    pub block: &'a Block,
    /// What is known of it beside that.
    pub extra: PacketExtra<'a>,
    /// Its record, as the program's slots say.
    pub outs: &'a [u64],
}

impl<'a> SeenPacket<'a> {
    /// Its captured bytes as they were on the wire: with the VLAN tag that was taken out, if one was.
    pub fn frame(&self) -> Cow<'a, [u8]> {
        self.extra.frame_with_vlan(self.meta.link, self.block.frame(self.meta))
    }
}

/// A packet whose match hangs on its connection or session.
#[derive(Debug, Clone, Copy)]
pub struct Undecided<'a> {
    /// Its flow.
    pub flow: FlowRef,
    /// Remainders that it comes to by itself.
    pub remainders: &'a RemainderSet,
    /// Questions that are given it whatever becomes of the flow.
    pub certain: &'a QuestionSet,
    /// Questions that may be given it.
    pub possible: &'a QuestionSet,
    /// What it counts as where no question is given it in the end.
    pub otherwise: Account,
    /// The packet.
    pub packet: SeenPacket<'a>,
}

/// What became of a flow with undecided packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictUpdate {
    /// The flow.
    pub flow: FlowRef,
    /// What its sessions fulfil, so far.
    pub verdict: SessionVerdict,
    /// It is over: remainders whose connection part its record fulfils.
    pub ended: Option<RemainderSet>,
}

/// Something that happened to a flow.
#[derive(Debug, Clone, Copy)]
pub struct EventView<'a> {
    /// Which event of the graph.
    pub event: Event,
    /// The packet on which it happened.
    pub packet: &'a PacketMeta,
    /// The flow: its key and its times until then.
    pub flow: (Table, &'a Header),
    /// The words of its columns, two each, the high one first; where packets may lack some, another one behind all.
    pub values: &'a [u64],
    /// The bytes of columns, and where each one's end.
    pub(crate) kept: (&'a [u8], &'a [usize]),
}

impl EventView<'_> {
    /// High and low word of a column; `None`: its packet lacks it.
    pub fn column(&self, column: usize) -> Option<[u64; 2]> {
        let (words, known) = self.values.as_chunks::<2>();
        let is_there = column >= 64 || known.first().is_none_or(|known| known >> column & 1 == 1);
        words.get(column).copied().filter(|_| is_there)
    }

    /// The bytes that the words of a column of bytes stand for.
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
    /// The connection, this packet counted.
    pub flow: FlowView<'a>,
    /// The responder sent it.
    pub from_responder: bool,
    /// What the capture says of it.
    pub packet: &'a PacketMeta,
    /// Its bytes.
    pub frame: &'a [u8],
}

/// Is given what questions asked for. One per worker; calls come in the order of the capture.
///
/// Everything handed over is valid during the call only.
pub trait Subscriber: StreamSubscriber + Send {
    /// A packet.
    fn packet(&mut self, order: Order, question: usize, packet: &SeenPacket<'_>) {
        let _ = (order, question, packet);
    }

    /// A packet that is not decided yet: who wants it keeps it in a [`HoldQueue`](crate::hold::HoldQueue).
    fn undecided(&mut self, order: Order, packet: &Undecided<'_>) {
        let _ = (order, packet);
    }

    /// More is known of a flow with undecided packets.
    fn settled(&mut self, order: Order, settled: VerdictUpdate) {
        let _ = (order, settled);
    }

    /// A connection, when it is over.
    fn connection(&mut self, order: Order, question: usize, flow: &FlowView<'_>, reason: EndReason) {
        let _ = (order, question, flow, reason);
    }

    /// A packet of a connection that a question [tracks](crate::plan::Want::Tracked), in the order of the capture.
    fn tracked_packet(&mut self, order: Order, question: usize, packet: &TrackedPacket<'_>) {
        let _ = (order, question, packet);
    }

    /// A session of such a connection, whether the question's filter lets it through or not.
    fn tracked_session(
        &mut self,
        order: Order,
        question: usize,
        flow: &FlowView<'_>,
        session: &Arc<dyn Session>,
    ) {
        let _ = (order, question, flow, session);
    }

    /// A connection is over, and what the question tracked of it is not wanted: it did not match.
    fn untracked(&mut self, question: usize, flow: FlowRef) {
        let _ = (question, flow);
    }

    /// A session. `protocol`: index into the plan's protocols.
    fn session(
        &mut self,
        order: Order,
        question: usize,
        flow: &FlowView<'_>,
        protocol: usize,
        session: &Arc<dyn Session>,
    ) {
        let _ = (order, question, flow, protocol, session);
    }

    /// An event, when its packet is through.
    fn event(&mut self, order: Order, question: usize, event: &EventView<'_>) {
        let _ = (order, question, event);
    }
}
