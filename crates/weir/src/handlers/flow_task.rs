//! A task on a worker.

use crate::flow::id;
use crate::flow::places::proto_name;
use crate::flow::record::ip_proto;
use crate::items::task_rows::TaskRows;
use crate::items::yields::{RowPlace, Yields};
use crate::rows::values::{Part, Place, fill};
use std::borrow::Cow;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use weir_compile::PacketValue;
use weir_engine::FlowRef;
use weir_engine::flow::FlowView;
use weir_engine::stream::Chunk;
use weir_engine::subscriber::{EventView, SeenPacket, SeenSession, TrackedPacket};
use weir_packet::{PacketMeta, Timestamp};
use weir_sessions::Session;

/// Takes the connections of one worker. Each worker has its own, which may move to another thread between two
/// calls.
pub trait FlowTask: Send {
    /// Bytes in order of a connection; `is_orig`: the originator sent them. Over UDP the payload of a
    /// datagram.
    fn bytes(&mut self, flow: &TaskFlow<'_>, is_orig: bool, chunk: &Chunk<'_>);

    /// A direction has no more bytes than those that were passed on.
    fn closed(&mut self, flow: &TaskFlow<'_>, is_orig: bool) {
        let _ = (flow, is_orig);
    }

    /// A session of a connection. If the compiler was [told so](crate::Compiler::yield_early_sessions),
    /// sessions are passed on before they end, too ([`Session::is_early`]).
    fn session(&mut self, flow: &TaskFlow<'_>, session: &TaskSession<'_>);

    /// The session protocol that a connection has from now on: its number in the registry. `None`: none of
    /// those that the run parses.
    fn recognised(&mut self, flow: &TaskFlow<'_>, protocol: Option<usize>) {
        let _ = (flow, protocol);
    }

    /// A packet of a connection. Its bytes and its sessions were passed on before.
    fn packet(&mut self, packet: &FlowPacket<'_>, rows: &mut TaskRows<'_>);

    /// A packet without a connection.
    fn loose_packet(&mut self, packet: &LoosePacket<'_>, rows: &mut TaskRows<'_>);

    /// A connection has ended. Sessions that its end completed were passed on before.
    fn end(&mut self, flow: &TaskFlow<'_>, rows: &mut TaskRows<'_>);

    /// A connection has ended, of which nothing more is wanted: it never matched the filter.
    fn forget(&mut self, flow: FlowRef);
}

/// A connection, during a call.
#[derive(Debug)]
pub struct TaskFlow<'a> {
    view: &'a FlowView<'a>,
}

impl<'a> TaskFlow<'a> {
    /// Its name among the live connections of the worker. A later connection may have the same.
    pub fn name(&self) -> FlowRef {
        self.view.flow_ref()
    }

    /// Its identifier, the same in every run.
    pub fn uid(&self) -> String {
        id::uid(self.view.graph, self.view.table, self.view.header)
    }

    /// The identifier that other tools give it (Community ID, version 1); `None` if its layer has none.
    pub fn community_id(&self) -> Option<String> {
        let [orig, resp] = self.endpoints();
        let protocol = ip_proto(&self.proto(), orig.0)?;
        Some(id::community_id((orig.0, orig.1 as u16), (resp.0, resp.1 as u16), protocol))
    }

    /// The layer: `tcp`, `udp`, `icmp`.
    pub fn layer(&self) -> &'a str {
        self.view.table_name()
    }

    /// The protocol in rows: `icmp` for both versions.
    pub fn proto(&self) -> Cow<'static, str> {
        proto_name(self.view.table_name())
    }

    /// Address and port of the originator and of the responder.
    pub fn endpoints(&self) -> [(IpAddr, u32); 2] {
        let (orig, resp) = self.view.endpoints();
        [(orig.address, orig.port), (resp.address, resp.port)]
    }

    /// Time of the first packet.
    pub fn first_time(&self) -> Timestamp {
        self.view.first_time()
    }

    /// Time of the last packet.
    pub fn last_time(&self) -> Timestamp {
        self.view.last_time()
    }

    /// A number of the connection's layer: see [`FlowView::number`].
    pub fn number(&self, name: &str, responder: bool) -> Option<u64> {
        self.view.number(name, responder)
    }
}

/// A session of a connection.
#[derive(Debug)]
pub struct TaskSession<'a> {
    /// The index of its protocol in the registry.
    pub protocol: usize,
    /// The session.
    pub session: &'a Arc<dyn Session>,
}

/// A packet of a connection.
#[derive(Debug)]
pub struct FlowPacket<'a> {
    /// The connection.
    pub flow: TaskFlow<'a>,
    /// The responder sent the packet.
    pub from_responder: bool,
    /// Capture time, number and lengths.
    pub meta: &'a PacketMeta,
    /// The captured bytes.
    pub frame: &'a [u8],
    /// The values of the fields that the [questions](crate::flow_task::FlowQuestions::of) name.
    pub words: &'a [u64],
    /// A bit for each field that the packet has.
    pub known: u64,
    /// A bit for each [condition](crate::flow_task::FlowQuestions::conditions) that holds for the connection,
    /// as far as is known.
    pub holds: u64,
    /// Bit `n` is set if the [event](crate::flow_task::FlowQuestions::events) number `n` happened on this
    /// packet.
    pub happened: u64,
}

/// A packet without a connection.
#[derive(Debug)]
pub struct LoosePacket<'a> {
    /// Capture time, number and lengths.
    pub meta: &'a PacketMeta,
    /// The captured bytes.
    pub frame: Cow<'a, [u8]>,
    /// The words of the fields; see [`FlowPacket::words`].
    pub words: &'a [u64],
    /// See [`FlowPacket::known`].
    pub known: u64,
    /// A bit for each condition that holds for the packet.
    pub holds: u64,
}

/// Where the conditions of a task are among its questions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conditions {
    /// The questions that track the connections that a condition holds for: for each condition, places behind
    /// the first one.
    pub of_connections: Range<usize>,
    /// The questions about packets without a connection: the place behind the first one, and the condition.
    pub of_packets: Vec<(usize, usize)>,
    /// The questions about events: places behind the first one.
    pub of_events: Range<usize>,
}

/// A task, and the places of its values in the records of a program.
pub(crate) struct FlowWorker {
    pub task: Box<dyn FlowTask>,
    pub parts: Arc<[Part]>,
    pub columns: usize,
    pub places: Vec<Place>,
    pub words: Vec<u64>,
    pub conditions: Conditions,
    /// The conditions that hold for the packet without a connection that comes next.
    pub held: u64,
    /// The number of a packet, and the events that happened on it.
    pub happened: (u64, u64),
}

impl FlowWorker {
    /// Looks up where the packet's record has the values.
    pub fn find(&mut self, values: &[PacketValue]) {
        self.places = self.parts.iter().map(|part| Place::of(part, values)).collect();
    }

    pub fn bytes(&mut self, view: &FlowView<'_>, is_orig: bool, chunk: &Chunk<'_>) {
        self.task.bytes(&TaskFlow { view }, is_orig, chunk);
    }

    pub fn closed(&mut self, view: &FlowView<'_>, is_orig: bool) {
        self.task.closed(&TaskFlow { view }, is_orig);
    }

    pub fn recognised(&mut self, view: &FlowView<'_>, protocol: Option<usize>) {
        self.task.recognised(&TaskFlow { view }, protocol);
    }

    pub fn session(&mut self, view: &FlowView<'_>, seen: &SeenSession<'_>) {
        let session = TaskSession { protocol: seen.protocol, session: seen.session };
        self.task.session(&TaskFlow { view }, &session);
    }

    #[inline]
    pub fn packet(
        &mut self,
        question: usize,
        place: RowPlace,
        packet: &TrackedPacket<'_>,
        yields: &mut Yields,
    ) {
        let known = fill(&self.places, &mut self.words, packet.outs);
        let conditions = self.conditions.of_connections.clone().enumerate();
        let holds = conditions.filter(|(_, behind)| packet.matching.contains(question + behind));
        let seen = FlowPacket {
            flow: TaskFlow { view: &packet.flow },
            from_responder: packet.from_responder,
            meta: packet.packet,
            frame: packet.frame,
            words: &self.words,
            known,
            happened: if self.happened.0 == packet.packet.number { self.happened.1 } else { 0 },
            holds: holds.fold(0, |holds, (condition, _)| holds | 1 << condition),
        };
        self.task.packet(&seen, &mut TaskRows::of(place, yields, self.columns));
    }

    /// An event on a packet, of the question this many places behind the first one.
    pub fn event(&mut self, behind: usize, event: &EventView<'_>) {
        let (Some(packet), true) = (event.packet, self.conditions.of_events.contains(&behind)) else {
            return;
        };
        if self.happened.0 != packet {
            self.happened = (packet, 0);
        }
        self.happened.1 |= 1 << (behind - self.conditions.of_events.start);
    }

    /// A packet without a connection, of the question this many places behind the first one.
    pub fn loose_packet(
        &mut self,
        behind: usize,
        place: RowPlace,
        packet: &SeenPacket<'_>,
        yields: &mut Yields,
    ) {
        if let Some((_, condition)) = self.conditions.of_packets.iter().find(|(at, _)| *at == behind) {
            self.held |= 1 << condition;
            return;
        }
        let holds = std::mem::take(&mut self.held);
        let known = fill(&self.places, &mut self.words, packet.outs);
        let (meta, words) = (packet.meta, &self.words);
        let seen = LoosePacket { meta, frame: packet.frame(), words, known, holds };
        self.task.loose_packet(&seen, &mut TaskRows::of(place, yields, self.columns));
    }

    pub fn end(&mut self, place: RowPlace, view: &FlowView<'_>, yields: &mut Yields) {
        self.task.end(&TaskFlow { view }, &mut TaskRows::of(place, yields, self.columns));
    }

    pub fn forget(&mut self, flow: FlowRef) {
        self.task.forget(flow);
    }
}
