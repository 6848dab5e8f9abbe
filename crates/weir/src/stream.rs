//! Streams for programs: a handler is told that a stream begins, given its bytes in order, told that it is over.
//!
//! Several handlers, each with a filter, a cutoff and chunks of its own, share one reassembly. There is one of each
//! per worker, and all of a stream happens on one worker; so handlers share nothing and lock nothing.
//!
//! ```no_run
//! use weir::stream::{Chunk, Stream, StreamHandler, StreamParams, Streams};
//!
//! /// Counts bytes in order.
//! #[derive(Default)]
//! struct Count(u64);
//!
//! impl StreamHandler for Count {
//!     type State = ();
//!     fn data(&mut self, _: &mut (), _: &mut Stream<'_, '_>, chunk: &Chunk<'_>) {
//!         self.0 += chunk.bytes.len() as u64;
//!     }
//! }
//!
//! let mut streams = Streams::new();
//! let https = streams.subscribe("tcp.port == 443", StreamParams::default(), Count::default);
//! let mut source = weir::io::CaptureReader::open(&["capture.pcap"]);
//! let outcome = streams.run(&mut source, 1).expect("the filter is right");
//! let bytes: u64 = outcome.handlers.of(https).iter().map(|count: &&Count| count.0).sum();
//! ```

use crate::compile::{Ask, Compiled, Compiler, Options};
use crate::connection::{Connection, Places};
use crate::engine::{MakeSink, Sink};
use crate::flow_id;
use crate::run::Outcome;
use crate::worker_output::Item;
use std::any::Any;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use weir_compile::Need;
use weir_engine::plan::Want;
use weir_lang::diag::Diagnostics;
use weir_packet::{Source, Timestamp, Value};
use weir_sessions::Direction;

pub use crate::engine::Subscription;
pub use weir_engine::flow::EndReason;
pub use weir_engine::sequence::{Policies, Policy};
pub use weir_engine::stream::{
    Chunk, ChunkParams, DirectionCounts, OverloadParams, PRIORITIES_MAX, StreamCounts, StreamHandle,
    StreamPacket, StreamParams,
};

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

    /// Bytes in order, with [their packets](Chunk::packets) where the subscription [asks for them](StreamParams::packets).
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
        let hosts = flow.graph.tables[flow.table.index()].hosts;
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

/// A question about streams: which, how much of them, and what makes a handler for each worker.
#[derive(Clone)]
pub struct StreamQuestion {
    pub(crate) ask: Ask,
    pub(crate) make: MakeSink,
}

impl std::fmt::Debug for StreamQuestion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamQuestion").field("ask", &self.ask).finish_non_exhaustive()
    }
}

impl StreamQuestion {
    /// Streams of flows one packet of which fulfils `filter`.
    pub fn new<H: StreamHandler>(
        filter: &str,
        params: StreamParams,
        make: impl Fn() -> H + Send + Sync + 'static,
    ) -> Self {
        let params = StreamParams { chunk: params.chunk.map(ChunkParams::sane), ..params };
        let need = Need { connections: H::RECORD, ..Need::default() };
        let ask = Ask { filter: filter.to_string(), need, want: Want::Streams(params) };
        Self { ask, make: Arc::new(move || Sink::Stream(typed_sink(make()))) }
    }

    /// The priority of its streams.
    pub(crate) fn priority(&self) -> u8 {
        match self.ask.want {
            Want::Streams(params) => params.priority,
            _ => 0,
        }
    }
}

/// Subscriptions to streams.
#[derive(Default)]
pub struct Streams {
    asks: Vec<Ask>,
    make: Vec<Option<MakeSink>>,
}

impl Streams {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a subscription: streams of flows one packet of which fulfils `filter`. `make` makes a handler for each
    /// worker.
    pub fn subscribe<H: StreamHandler>(
        &mut self,
        filter: &str,
        params: StreamParams,
        make: impl Fn() -> H + Send + Sync + 'static,
    ) -> Subscription {
        let StreamQuestion { ask, make } = StreamQuestion::new(filter, params, make);
        self.asks.push(ask);
        self.make.push(Some(make));
        Subscription::of_question(self.asks.len() - 1)
    }

    /// Their program, to be [run](crate::run()). Rows that handlers emit come as [`Item::Stream`](crate::Item),
    /// with the number of the subscription.
    ///
    /// # Errors
    /// Everything that is wrong with the filters, or why there is no code.
    pub fn compile(&self, compiler: &Compiler, options: &Options) -> Result<Compiled, Diagnostics> {
        let priority = |ask: &Ask| match ask.want {
            Want::Streams(params) => params.priority,
            _ => 0,
        };
        let highest = self.asks.iter().map(priority).max().unwrap_or(0);
        let priorities = options.overload.priorities.max(highest.saturating_add(1));
        let overload = OverloadParams { priorities, ..options.overload };
        let compiled = compiler.compile(&self.asks, &Options { overload, ..options.clone() })?;
        Ok(Compiled { sinks: self.make.clone(), ..compiled })
    }

    /// Compiles and runs them over a source, with so many workers, over the stack that takes whatever comes. Rows
    /// are dropped.
    ///
    /// # Errors
    /// As [`compile`](Self::compile). Faults of the source are in the outcome.
    pub fn run(&self, source: &mut dyn Source, workers: usize) -> Result<Outcome, Diagnostics> {
        let compiler = Compiler::default();
        let compiled = self.compile(&compiler, &Options::default())?;
        let ignore = &mut |_: usize, _| Ok::<(), Infallible>(());
        let Ok(outcome) = crate::run(&compiler, &compiled, source, &[], workers, ignore, &mut |_| ());
        Ok(outcome)
    }
}

/// The handlers of a run, at its end, with the subscription of each.
#[derive(Default)]
pub struct Handlers(Vec<(Subscription, Box<dyn Any + Send>)>);

impl Handlers {
    /// Adds those of a worker, by question.
    pub(crate) fn add(&mut self, sinks: Vec<Sink>) {
        for (question, sink) in sinks.into_iter().enumerate() {
            let handler = match sink {
                Sink::Stream(sink) => sink.into_handler(),
                Sink::Handler(sink) => sink.into_any(),
                Sink::Track(_) | Sink::Behind(_) | Sink::None => continue,
            };
            self.0.push((Subscription::of_question(question), handler));
        }
    }

    /// Says of each question which subscription it belongs to.
    pub(crate) fn name(&mut self, owners: &[Subscription]) {
        for (subscription, _) in &mut self.0 {
            *subscription = owners[subscription.question()];
        }
    }

    /// Those of a subscription, one per worker; none where they are not of type `H`.
    pub fn of<H: 'static>(&self, subscription: Subscription) -> Vec<&H> {
        let mine = self.0.iter().filter(|(of, _)| *of == subscription);
        mine.filter_map(|(_, handler)| handler.downcast_ref()).collect()
    }
}

impl std::fmt::Debug for Handlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} handlers", self.0.len())
    }
}
