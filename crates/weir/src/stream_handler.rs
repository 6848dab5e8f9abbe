//! Handlers of streams, and the stream as a handler sees it during a call.

use crate::connection::{Connection, Places};
use crate::flow_id;
use crate::item::Item;
use std::any::Any;
use std::net::IpAddr;
use weir_engine::flow::EndReason;
use weir_engine::sequence::Policy;
use weir_engine::stream::{Chunk, ChunkParams, DirectionCounts, StreamCounts, StreamHandle};
use weir_packet::{Timestamp, Value};
use weir_sessions::Direction;

/// What is done with streams. One per worker and subscription.
pub trait StreamHandler: Send + 'static {
    /// What it keeps of a stream while that lives.
    type State: Default + Send;

    /// Whether it asks for what stands in the record of the connection: [`Stream::connection`].
    const RECORD: bool = false;

    /// A stream begins: its first bytes follow, or, where there are none, its end.
    fn created(&mut self, state: &mut Self::State, stream: &mut Stream<'_, '_>) {
        let _ = (state, stream);
    }

    /// Bytes in order, with [their packets](Chunk::packets) where the subscription [asks for them](weir_engine::stream::StreamParams::packets).
    /// Without chunks each call is what one packet added.
    fn data(&mut self, state: &mut Self::State, stream: &mut Stream<'_, '_>, chunk: &Chunk<'_>);

    /// The stream is over.
    fn terminated(&mut self, state: Self::State, stream: &mut Stream<'_, '_>, reason: EndReason) {
        let _ = (state, stream, reason);
    }
}

/// A stream, during a call.
#[derive(Debug)]
pub struct Stream<'a, 'h> {
    pub(crate) handle: &'a mut StreamHandle<'h>,
    pub(crate) places: &'a Places,
    pub(crate) emitted: &'a mut Vec<Item>,
}

impl Stream<'_, '_> {
    /// The identifier of its connection: the same in every run.
    pub fn uid(&self) -> String {
        let flow = self.handle.flow;
        flow_id::uid(flow.graph, flow.table, flow.header)
    }

    /// It is the originator's.
    pub fn is_orig(&self) -> bool {
        self.handle.from == Direction::Originator
    }

    /// Address and port of who sends it, and of who it is for.
    pub fn endpoints(&self) -> [(IpAddr, u32); 2] {
        let (orig, resp) = self.handle.flow.endpoints();
        let (orig, resp) = ((orig.address, orig.port), (resp.address, resp.port));
        if self.is_orig() { [orig, resp] } else { [resp, orig] }
    }

    /// Who sends and who receives, as rows have them: where its layer has no addresses of IP, what it has in their place.
    pub fn hosts(&self) -> [Value<'static>; 2] {
        let flow = self.handle.flow;
        let hosts = flow.key_layout().ends().hosts;
        self.endpoints().map(|(address, _)| flow_id::host(hosts, address))
    }

    /// The layer that carries it: `tcp`, `udp`.
    pub fn proto(&self) -> &str {
        self.handle.flow.table_name()
    }

    /// Time of its connection's first packet.
    pub fn first_time(&self) -> Timestamp {
        self.handle.flow.first_time()
    }

    /// Time of the packet at hand.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.handle.now)
    }

    /// What became of its bytes so far, as this subscription sees it.
    pub fn counts(&self) -> StreamCounts {
        self.handle.counts_up_to(self.seen_bytes())
    }

    /// What its sequence met so far.
    pub fn sequence(&self) -> DirectionCounts {
        self.handle.sequence
    }

    /// Where in the stream the next byte lies.
    pub fn offset(&self) -> u64 {
        self.handle.offset
    }

    /// The record of its connection so far, where the handler [asks for it](StreamHandler::RECORD).
    pub fn connection(&self) -> Connection {
        Connection::read(self.handle.flow, self.places)
    }

    /// Packets, and bytes of payload up to the last that was seen, missing ones included, where the handler
    /// [asks for the record](StreamHandler::RECORD).
    pub fn volume(&self) -> (u64, u64) {
        let (packets, _) = self.places.volume(self.handle.flow, !self.is_orig());
        let seen_bytes = self.seen_bytes();
        (packets, seen_bytes + self.handle.behind(seen_bytes))
    }

    /// Up to where bytes passed or wait for their turn.
    fn seen_bytes(&self) -> u64 {
        let (_, bytes) = self.places.volume(self.handle.flow, !self.is_orig());
        // The sequence's numbers count a FIN, too, that may have come and not have been taken.
        bytes.max(self.offset())
    }

    /// Bytes that strict reassembly left out, as their receiver would; where the handler
    /// [asks for the record](StreamHandler::RECORD).
    pub fn refused_bytes(&self) -> u64 {
        self.places.refused_bytes(self.handle.flow, !self.is_orig())
    }

    /// Another cutoff. It can only be lower than the one before.
    pub fn set_cutoff(&mut self, bytes: u64) {
        self.handle.state.set_cutoff(bytes);
    }

    /// Nothing more of it is wanted.
    pub fn discard(&mut self) {
        self.handle.state.set_cutoff(0);
    }

    /// Nothing that lies at or beyond this offset is handed over.
    pub fn cutoff(&self) -> u64 {
        self.handle.state.cutoff()
    }

    /// Whose bytes count from now on where its segments overlap, whatever the [options](crate::Options::policies) say
    /// of its receiver. It holds for all subscriptions.
    pub fn set_policy(&mut self, policy: Policy) {
        *self.handle.policy = Some(policy);
    }

    /// Its priority from now on.
    pub fn set_priority(&mut self, priority: u8) {
        self.handle.state.set_priority(priority);
    }

    /// Size, overlap and time-out of its chunks, from the next one on, where it has chunks.
    pub fn set_chunk(&mut self, params: ChunkParams) {
        self.handle.state.set_chunk(params);
    }

    /// The chunk at hand is kept: the next one begins with all of it, up to 16 MiB.
    pub fn keep_chunk(&mut self) {
        self.handle.state.keep_chunk();
    }

    /// Hands a row to whoever started the run: rows come out in the order of the capture whatever the number of
    /// workers.
    pub fn emit(&mut self, row: Vec<Value<'static>>) {
        self.emitted.push(Item::Stream(row));
    }
}

/// A handler with the states of its streams, whatever their type.
pub(crate) trait StreamSink: Send {
    fn created(&mut self, stream: &mut Stream<'_, '_>);
    fn data(&mut self, stream: &mut Stream<'_, '_>, chunk: &Chunk<'_>);
    fn terminated(&mut self, stream: &mut Stream<'_, '_>, reason: EndReason);
    fn into_handler(self: Box<Self>) -> Box<dyn Any + Send>;
}

/// States by the number that the engine keeps with each stream.
struct Typed<H: StreamHandler> {
    handler: H,
    states: Vec<H::State>,
    free: Vec<u32>,
}

impl<H: StreamHandler> StreamSink for Typed<H> {
    fn created(&mut self, stream: &mut Stream<'_, '_>) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.states.push(H::State::default());
            self.states.len() as u32 - 1
        });
        stream.handle.state.user = number;
        self.handler.created(&mut self.states[number as usize], stream);
    }

    fn data(&mut self, stream: &mut Stream<'_, '_>, chunk: &Chunk<'_>) {
        let number = stream.handle.state.user as usize;
        self.handler.data(&mut self.states[number], stream, chunk);
    }

    fn terminated(&mut self, stream: &mut Stream<'_, '_>, reason: EndReason) {
        let number = stream.handle.state.user;
        let state = std::mem::take(&mut self.states[number as usize]);
        self.free.push(number);
        self.handler.terminated(state, stream, reason);
    }

    fn into_handler(self: Box<Self>) -> Box<dyn Any + Send> {
        Box::new(self.handler)
    }
}

/// A worker's part of a question about streams.
pub(crate) fn typed_sink<H: StreamHandler>(handler: H) -> Box<dyn StreamSink> {
    Box::new(Typed { handler, states: vec![], free: vec![] })
}
