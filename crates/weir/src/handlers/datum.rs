//! The types of callback parameters, and the needs of each.

use super::bundle::{Bundle, EventRow, Frame};
use super::isolation::Isolation;
use super::stream_handler::{Stream, StreamHandler};
use super::track::{Every, MakeTrack, Track, Tracked, track_store};
use crate::flow::connection::Connection;
use crate::items::item::{Bytes, Flow, Item};
use crate::items::yielded::Yielded;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use weir_engine::stream::Chunk;
use weir_sessions::{ProtocolSet, Session, SessionRegistry, SessionType};

/// The data that a subscription needs from the program.
#[derive(Default)]
pub struct Needs {
    /// The known session protocols.
    registry: Arc<SessionRegistry>,
    pub(crate) packets: bool,
    pub(crate) connections: bool,
    pub(crate) sessions: ProtocolSet,
    pub(crate) events: bool,
    /// Chunk size for in-order bytes of streams; 0: as packets bring them.
    pub(crate) bytes: Option<u32>,
    pub(crate) track: Option<MakeTrack>,
    /// Protocols whose sessions a tracked type receives.
    pub(crate) track_sessions: ProtocolSet,
    /// Number of session types for each of which the callback is called once per session.
    pub(crate) each_session: u8,
    /// Number of parameter types for bytes and tracked state.
    pub(crate) kinds: u8,
    /// The callback takes the identity of the connection.
    pub(crate) flow: bool,
    /// The callback is called when a connection ends.
    pub(crate) at_end: bool,
    /// The panics of the callback, or of its types that run on workers.
    pub(crate) isolation: Isolation,
    /// The callback takes a session type that no registered protocol produces.
    is_unregistered: bool,
}

impl Needs {
    /// No needs yet; `registry` holds the session protocols of the engine.
    pub(crate) fn over(registry: &Arc<SessionRegistry>) -> Self {
        Self { registry: Arc::clone(registry), ..Self::default() }
    }

    /// The reason why these needs cannot be met together, or at all.
    pub(crate) fn conflict(&self, every: Every) -> Option<&'static str> {
        if self.is_unregistered {
            return Some(
                "no protocol that is registered yields sessions of this type: `Engine::register` it first",
            );
        }
        let of_connections = self.connections || !self.sessions.is_empty();
        let alone = [self.packets, self.events, self.bytes.is_some(), of_connections];
        match alone.iter().filter(|&&one| one).count() {
            0 => Some("a callback needs another parameter beside the connection"),
            2.. => Some(
                "packets, events, bytes of streams and records of connections are delivered at different times",
            ),
            _ if self.flow && (self.packets || self.events) => {
                Some("packets and events are delivered without their connection")
            }
            _ if self.each_session > 1 => Some("sessions of several types are delivered one at a time"),
            _ if self.kinds > 1 => Some("a callback can track one type, and receive bytes in one form"),
            _ if every != Every::Connection && !self.connections => Some(
                "only records of connections, and tracked data of connections, can be delivered at intervals",
            ),
            _ => None,
        }
    }

    /// Needs packets.
    pub fn packets(&mut self) {
        self.packets = true;
    }

    /// Needs records of connections.
    pub fn connections(&mut self) {
        self.connections = true;
        self.at_end = true;
    }

    /// Needs sessions of a type.
    pub fn sessions<T: SessionType>(&mut self) {
        let mine = T::FIELDS.first().map(|field| field.name);
        let of_type = self.registry.where_(|p| p.fields.first().map(|field| field.name) == mine);
        self.is_unregistered |= of_type.is_empty();
        self.sessions |= of_type;
    }

    /// Needs events of the stack.
    pub fn events(&mut self) {
        self.events = true;
    }
}

impl std::fmt::Debug for Needs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { packets, connections, sessions, events, .. } = self;
        write!(f, "packets {packets}, connections {connections}, sessions {sessions:?}, events {events}")
    }
}

/// A parameter type of callbacks.
pub trait Datum: 'static {
    /// Adds its needs to those of the program.
    fn needs(needs: &mut Needs);

    /// Passes the value to `take`, if it is present.
    #[doc(hidden)]
    fn with(bundle: &Bundle, take: &mut dyn FnMut(&Self));
}

/// A session as a callback parameter: any type of [`sessions`](crate::sessions).
pub trait SessionData: SessionType {}

impl<T: SessionType> SessionData for T {}

impl<T: SessionData> Datum for T {
    fn needs(needs: &mut Needs) {
        needs.sessions::<T>();
        needs.each_session += 1;
    }

    fn with(bundle: &Bundle, take: &mut dyn FnMut(&Self)) {
        if let Some(session) = bundle.session.as_ref().and_then(|session| session.as_any().downcast_ref()) {
            take(session);
        }
    }
}

/// All sessions of one type in a connection, in the order of their completion.
#[derive(Debug)]
pub struct SessionsOf<T> {
    sessions: Vec<Arc<dyn Session>>,
    of: PhantomData<fn() -> T>,
}

impl<T: SessionType> SessionsOf<T> {
    /// Iterates over the sessions.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.sessions.iter().filter_map(|session| session.as_any().downcast_ref())
    }

    /// The number of sessions.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there is no session.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: SessionType> Datum for SessionsOf<T> {
    fn needs(needs: &mut Needs) {
        needs.connections();
        needs.sessions::<T>();
    }

    fn with(bundle: &Bundle, take: &mut dyn FnMut(&Self)) {
        take(&Self { sessions: bundle.sessions.clone(), of: PhantomData });
    }
}

impl Datum for Frame {
    fn needs(needs: &mut Needs) {
        needs.packets();
    }

    fn with(bundle: &Bundle, take: &mut dyn FnMut(&Self)) {
        bundle.frame.iter().for_each(take);
    }
}

impl Datum for Connection {
    fn needs(needs: &mut Needs) {
        needs.connections();
    }

    fn with(bundle: &Bundle, take: &mut dyn FnMut(&Self)) {
        bundle.connection.iter().for_each(|connection| take(connection));
    }
}

impl Datum for EventRow {
    fn needs(needs: &mut Needs) {
        needs.events();
    }

    fn with(bundle: &Bundle, take: &mut dyn FnMut(&Self)) {
        bundle.event.iter().for_each(take);
    }
}

/// In-order bytes of a stream, in chunks of `CHUNK` bytes, the last one shorter; with 0, as the packets bring
/// them. The bytes are a copy; a [`StreamHandler`](crate::stream::StreamHandler) receives them without
/// copying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamBytes<const CHUNK: u32>(pub(crate) Arc<Bytes>);

/// A segment, when it is next in order.
pub type Segment = StreamBytes<0>;

/// A chunk of 16 KiB.
pub type StreamChunk = StreamBytes<16_384>;

impl<const CHUNK: u32> Deref for StreamBytes<CHUNK> {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.0
    }
}

impl<const CHUNK: u32> Datum for StreamBytes<CHUNK> {
    fn needs(needs: &mut Needs) {
        needs.bytes = Some(CHUNK);
        needs.kinds += 1;
    }

    fn with(bundle: &Bundle, take: &mut dyn FnMut(&Self)) {
        if let Some(bytes) = &bundle.bytes {
            take(&Self(Arc::clone(bytes)));
        }
    }
}

/// A handler of streams that passes their bytes to callbacks.
pub(crate) struct Passing;

impl StreamHandler for Passing {
    type State = ();

    fn data(&mut self, _: &mut (), stream: &mut Stream<'_, '_>, chunk: &Chunk<'_>) {
        let bytes = Bytes {
            is_orig: stream.is_orig(),
            offset: chunk.offset,
            gap_bytes: chunk.gap_bytes,
            time: stream.now(),
            bytes: chunk.bytes.to_vec(),
        };
        let flow = Flow::of(stream.handle.flow);
        let item = Item::Bytes(Box::new(flow), Arc::new(bytes));
        stream.yields.push(stream.order, Yielded::Item(stream.question, item));
    }
}

impl Datum for Flow {
    fn needs(needs: &mut Needs) {
        needs.flow = true;
    }

    fn with(bundle: &Bundle, take: &mut dyn FnMut(&Self)) {
        bundle.flow.iter().for_each(take);
    }
}

impl<T: Track> Datum for Tracked<T> {
    fn needs(needs: &mut Needs) {
        needs.connections();
        needs.track_sessions |= needs.registry.where_(|protocol| T::PROTOCOLS.contains(&protocol.name));
        needs.track = Some(Arc::new(|every, isolation| track_store::<T>(every, isolation)));
        needs.kinds += 1;
    }

    fn with(bundle: &Bundle, take: &mut dyn FnMut(&Self)) {
        if let Some(tracked) = bundle.tracked.as_ref().and_then(|tracked| tracked.downcast_ref()) {
            take(tracked);
        }
    }
}
