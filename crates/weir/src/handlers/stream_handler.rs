//! Handlers of streams, and a handler's view of a stream during a call.

use super::isolation::Isolation;
use crate::flow::connection::Connection;
use crate::flow::id;
use crate::flow::places::Places;
use crate::items::yields::{RowPlace, Yields};
use std::any::Any;
use std::net::IpAddr;
use weir_engine::flow::EndReason;
use weir_engine::sequence::Policy;
use weir_engine::stream::{Chunk, ChunkParams, DirectionCounts, StreamCounts, StreamHandle};
use weir_engine::subscriber::Order;
use weir_packet::{Cell, Timestamp};
use weir_sessions::Direction;

/// A handler of streams. One per worker and subscription.
pub trait StreamHandler: Send + 'static {
    /// The handler's state of a live stream.
    type State: Default + Send;

    /// Whether the handler needs the record of the connection: [`Stream::connection`].
    const RECORD: bool = false;

    /// A stream begins; called before its first bytes, or before its end if it has none.
    fn created(&mut self, state: &mut Self::State, stream: &mut Stream<'_, '_>) {
        let _ = (state, stream);
    }

    /// In-order bytes, with [their packets](Chunk::packets) if the subscription [includes
    /// them](weir_engine::stream::StreamParams::packets). Without chunks, each call has the bytes that one
    /// packet added.
    fn data(&mut self, state: &mut Self::State, stream: &mut Stream<'_, '_>, chunk: &Chunk<'_>);

    /// The stream is complete: its end (TCP: the FIN) is in order, and all bytes before the end have been
    /// delivered, up to the cutoff. At most one call per stream; a stream that is reset or abandoned has no
    /// such call.
    fn closed(&mut self, state: &mut Self::State, stream: &mut Stream<'_, '_>) {
        let _ = (state, stream);
    }

    /// The connection of the stream ends, and the counters are final. A closed TCP connection ends after 5 s
    /// of packet time, because its last segments may be sent again. Other reasons: a time-out, lack of
    /// memory, the end of the capture.
    fn terminated(&mut self, state: Self::State, stream: &mut Stream<'_, '_>, reason: EndReason) {
        let _ = (state, stream, reason);
    }
}

/// A view of a stream, valid during the call that receives it.
#[derive(Debug)]
pub struct Stream<'a, 'h> {
    pub(crate) handle: &'a mut StreamHandle<'h>,
    pub(crate) places: &'a Places,
    /// Where emitted rows go.
    pub(crate) yields: &'a mut Yields,
    pub(crate) order: Order,
    pub(crate) question: usize,
}

impl Stream<'_, '_> {
    /// The identifier of the stream's connection; the same in every run.
    pub fn uid(&self) -> String {
        let flow = self.handle.flow;
        id::uid(flow.graph, flow.table, flow.header)
    }

    /// Whether the originator sends the stream.
    pub fn is_orig(&self) -> bool {
        self.handle.from == Direction::Originator
    }

    /// Address and port of the sender and of the receiver.
    pub fn endpoints(&self) -> [(IpAddr, u32); 2] {
        let (orig, resp) = self.handle.flow.endpoints();
        let (orig, resp) = ((orig.address, orig.port), (resp.address, resp.port));
        if self.is_orig() { [orig, resp] } else { [resp, orig] }
    }

    /// Sender and receiver as row values: if the layer has no IP addresses, the values of its key.
    pub fn hosts(&self) -> [Cell<'static>; 2] {
        let flow = self.handle.flow;
        let hosts = flow.key_layout().ends().hosts;
        self.endpoints().map(|(address, _)| id::host(hosts, address))
    }

    /// The layer that carries the stream: `tcp`, `udp`.
    pub fn proto(&self) -> &str {
        self.handle.flow.table_name()
    }

    /// Time of the first packet of the stream's connection.
    pub fn first_time(&self) -> Timestamp {
        self.handle.flow.first_time()
    }

    /// Time of the current packet.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.handle.now)
    }

    /// The outcome of the stream's bytes so far, for this subscription.
    pub fn counts(&self) -> StreamCounts {
        self.handle.counts_up_to(self.seen_bytes())
    }

    /// Counters of the stream's sequence so far.
    pub fn sequence(&self) -> DirectionCounts {
        self.handle.sequence
    }

    /// Offset of the next byte in the stream.
    pub fn offset(&self) -> u64 {
        self.handle.offset
    }

    /// The record of the stream's connection so far. Valid only if the handler [needs the
    /// record](StreamHandler::RECORD).
    pub fn connection(&self) -> Connection {
        Connection::read(self.handle.flow, self.places)
    }

    /// The number of packets, and of payload bytes up to the last one seen, including missing ones. Valid
    /// only if the handler [needs the record](StreamHandler::RECORD).
    pub fn volume(&self) -> (u64, u64) {
        let (packets, _) = self.places.volume(self.handle.flow, !self.is_orig());
        let seen_bytes = self.seen_bytes();
        (packets, seen_bytes + self.handle.behind(seen_bytes))
    }

    /// Offset up to which bytes have passed or wait.
    fn seen_bytes(&self) -> u64 {
        let (_, bytes) = self.places.volume(self.handle.flow, !self.is_orig());
        // The sequence's numbers also count a FIN, which may have arrived without having passed.
        bytes.max(self.offset())
    }

    /// Payload bytes that the stream leaves out because its receiver rejects their segments: segments with
    /// invalid flags, and resets. In strict mode, the receiver also rejects segments with a wrong checksum or
    /// an old timestamp.
    ///
    /// The number is valid only if the handler [needs the record](StreamHandler::RECORD).
    pub fn refused_bytes(&self) -> u64 {
        self.places.refused_bytes(self.handle.flow, !self.is_orig())
    }

    /// Payload bytes that the stream leaves out because they lie outside of the connection. Such bytes have
    /// sequence numbers before the first one or after the FIN, or come before the handshake. In strict mode,
    /// bytes beyond the receiver's window count, too.
    ///
    /// The number is valid only if the handler [needs the record](StreamHandler::RECORD).
    pub fn outside_bytes(&self) -> u64 {
        self.handle.sequence.outside_bytes + self.places.outside_bytes(self.handle.flow, !self.is_orig())
    }

    /// Lowers the cutoff. It cannot be raised.
    pub fn set_cutoff(&mut self, bytes: u64) {
        self.handle.state.set_cutoff(bytes);
    }

    /// Ends the deliveries of this stream's bytes.
    pub fn discard(&mut self) {
        self.handle.state.set_cutoff(0);
    }

    /// Bytes at or beyond this offset are not delivered.
    pub fn cutoff(&self) -> u64 {
        self.handle.state.cutoff()
    }

    /// Sets the policy for overlapping segments from now on, in place of the receiver's in the
    /// [options](crate::Options::policies). It applies to all subscriptions.
    pub fn set_policy(&mut self, policy: Policy) {
        *self.handle.policy = Some(policy);
    }

    /// Sets the priority from now on.
    pub fn set_priority(&mut self, priority: u8) {
        self.handle.state.set_priority(priority);
    }

    /// Sets size, overlap and time-out of chunks from the next chunk on. No effect without chunks.
    pub fn set_chunk(&mut self, params: ChunkParams) {
        self.handle.state.set_chunk(params);
    }

    /// Keeps the current chunk: the next chunk begins with all its bytes, up to 16 MiB.
    pub fn keep_chunk(&mut self) {
        self.handle.state.keep_chunk();
    }

    /// Emits a row to the caller of the run. Rows come in capture order, whatever the number of workers.
    ///
    /// All rows of a question have the same number of cells, which the iterator knows.
    pub fn emit<'v>(&mut self, row: impl IntoIterator<Item = Cell<'v>>) {
        let cells = row.into_iter();
        let columns = cells.size_hint().0;
        let mut writer = self.yields.add_row(RowPlace::of(self.order, self.question), columns);
        cells.for_each(|cell| writer.push(cell));
    }
}

/// A handler with the states of its streams, with their types erased.
pub(crate) trait ErasedStreamHandler: Send {
    fn created(&mut self, stream: &mut Stream<'_, '_>);
    fn data(&mut self, stream: &mut Stream<'_, '_>, chunk: &Chunk<'_>);
    fn closed(&mut self, stream: &mut Stream<'_, '_>);
    fn terminated(&mut self, stream: &mut Stream<'_, '_>, reason: EndReason);
    fn into_handler(self: Box<Self>) -> Box<dyn Any + Send>;
}

/// A typed handler. The engine stores the index of each stream's state.
struct Typed<H: StreamHandler> {
    handler: H,
    states: Vec<H::State>,
    free: Vec<u32>,
    /// Catches the panics of the handler; `None`: they end the run.
    isolation: Option<Isolation>,
}

/// The index of a stream whose state could not be created.
const NO_STATE: u32 = u32::MAX;

impl<H: StreamHandler> Typed<H> {
    /// Calls the handler with the state of a stream. Returns whether the handler has completed the call.
    fn call(&mut self, number: u32, call: impl FnOnce(&mut H, &mut H::State)) -> bool {
        let Some(state) = self.states.get_mut(number as usize) else { return false };
        let handler = &mut self.handler;
        match &self.isolation {
            Some(isolation) => isolation.call(|| call(handler, state)).is_some(),
            None => {
                call(handler, state);
                true
            }
        }
    }

    /// Creates the state of a stream.
    fn state(&self) -> Option<H::State> {
        match &self.isolation {
            Some(isolation) => isolation.call(H::State::default),
            None => Some(H::State::default()),
        }
    }
}

impl<H: StreamHandler> ErasedStreamHandler for Typed<H> {
    fn created(&mut self, stream: &mut Stream<'_, '_>) {
        let number = self.free.pop().unwrap_or_else(|| match self.state() {
            Some(state) => {
                self.states.push(state);
                self.states.len() as u32 - 1
            }
            None => NO_STATE,
        });
        stream.handle.state.user = number;
        self.call(number, |handler, state| handler.created(state, stream));
    }

    fn data(&mut self, stream: &mut Stream<'_, '_>, chunk: &Chunk<'_>) {
        self.call(stream.handle.state.user, |handler, state| handler.data(state, stream, chunk));
    }

    fn closed(&mut self, stream: &mut Stream<'_, '_>) {
        self.call(stream.handle.state.user, |handler, state| handler.closed(state, stream));
    }

    fn terminated(&mut self, stream: &mut Stream<'_, '_>, reason: EndReason) {
        let number = stream.handle.state.user;
        let end = |handler: &mut H, state: &mut _| handler.terminated(std::mem::take(state), stream, reason);
        // Otherwise the state may be that of the previous stream. Panics are few, and without calls there are
        // no new states.
        if self.call(number, end) {
            self.free.push(number);
        }
    }

    fn into_handler(self: Box<Self>) -> Box<dyn Any + Send> {
        Box::new(self.handler)
    }
}

/// A worker's part of a question about streams.
pub(crate) fn erased<H: StreamHandler>(
    handler: H,
    isolation: Option<Isolation>,
) -> Box<dyn ErasedStreamHandler> {
    Box::new(Typed { handler, states: vec![], free: vec![], isolation })
}
