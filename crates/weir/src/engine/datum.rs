//! The types that callbacks are given, and what each needs of the program.

use super::bundle::{Bundle, EventRow, Frame};
use super::track::{Every, MakeTrack, Track, Tracked, track_sink};
use crate::connection::Connection;
use crate::item::{Bytes, Flow, Item};
use crate::stream_handler::{Stream, StreamHandler};
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use weir_engine::stream::Chunk;
use weir_sessions::{ProtocolSet, Session, SessionRegistry, SessionType};

/// What a subscription needs of the program.
#[derive(Default)]
pub struct Needs {
    /// The session protocols that there are.
    registry: Arc<SessionRegistry>,
    pub(super) packets: bool,
    pub(super) connections: bool,
    pub(super) sessions: ProtocolSet,
    pub(super) events: bool,
    /// Bytes of streams in order, in chunks of so many; 0: as packets bring them.
    pub(super) bytes: Option<u32>,
    pub(super) track: Option<MakeTrack>,
    /// Sessions that what is tracked is told of.
    pub(super) track_sessions: ProtocolSet,
    /// Types of sessions for each of which it is called once.
    pub(super) each_session: u8,
    /// Types of bytes, and of what is tracked.
    pub(super) kinds: u8,
    /// Which connection it is.
    pub(super) flow: bool,
    /// It is called when a connection is over.
    pub(super) at_end: bool,
    /// It takes sessions of a type that no registered protocol yields.
    is_unregistered: bool,
}

impl Needs {
    /// Nothing yet, of an engine that knows these session protocols.
    pub(super) fn over(registry: &Arc<SessionRegistry>) -> Self {
        Self { registry: Arc::clone(registry), ..Self::default() }
    }

    /// What of it can't be had together, or at all.
    pub(super) fn conflict(&self, every: Every) -> Option<&'static str> {
        if self.is_unregistered {
            return Some(
                "no protocol that is registered yields sessions of this type: `Engine::register` it first",
            );
        }
        let of_connections = self.connections || !self.sessions.is_empty();
        let alone = [self.packets, self.events, self.bytes.is_some(), of_connections];
        match alone.iter().filter(|&&one| one).count() {
            0 => Some("a connection's name alone is given to nobody"),
            2.. => Some(
                "packets, events, bytes of streams, and what is known of connections come at different times",
            ),
            _ if self.flow && (self.packets || self.events) => {
                Some("packets and events come without their connection")
            }
            _ if self.each_session > 1 => Some("sessions of several types come one at a time"),
            _ if self.kinds > 1 => Some("one type is tracked, and bytes come in one way, by a callback"),
            _ if every != Every::Connection && !self.connections => {
                Some("only records of connections, and what is tracked of them, are given every so often")
            }
            _ => None,
        }
    }

    /// Packets.
    pub fn packets(&mut self) {
        self.packets = true;
    }

    /// Records of connections.
    pub fn connections(&mut self) {
        self.connections = true;
        self.at_end = true;
    }

    /// Sessions of a type.
    pub fn sessions<T: SessionType>(&mut self) {
        let mine = T::FIELDS.first().map(|field| field.name);
        let of_type = self.registry.where_(|p| p.fields.first().map(|field| field.name) == mine);
        self.is_unregistered |= of_type.is_empty();
        self.sessions |= of_type;
    }

    /// Events of the stack.
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

/// A type that callbacks can be given.
pub trait Datum: 'static {
    /// What it needs of the program.
    fn needs(needs: &mut Needs);

    /// Hands it to `take`, where it is there.
    #[doc(hidden)]
    fn with(bundle: &Bundle, take: &mut dyn FnMut(&Self));
}

/// A session, as a callback takes it: any type of [`sessions`](crate::sessions).
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

/// All sessions of a connection that are of a type, in the order in which they became whole.
#[derive(Debug)]
pub struct SessionsOf<T> {
    sessions: Vec<Arc<dyn Session>>,
    of: PhantomData<fn() -> T>,
}

impl<T: SessionType> SessionsOf<T> {
    /// Goes over them.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.sessions.iter().filter_map(|session| session.as_any().downcast_ref())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// There is none.
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

/// Bytes of a stream in order, in chunks of `CHUNK` bytes, the last one shorter; of 0: as the packets bring them. They
/// are copied: a [`StreamHandler`](crate::stream::StreamHandler) is given them where they lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamBytes<const CHUNK: u32>(pub(super) Arc<Bytes>);

/// A segment in its turn.
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

/// Hands bytes of streams to callbacks.
pub(super) struct Passing;

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
        stream.emitted.push(Item::Bytes(Box::new(flow), Arc::new(bytes)));
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
        needs.track = Some(Arc::new(|every| track_sink::<T>(every)));
        needs.kinds += 1;
    }

    fn with(bundle: &Bundle, take: &mut dyn FnMut(&Self)) {
        if let Some(tracked) = bundle.tracked.as_ref().and_then(|tracked| tracked.downcast_ref()) {
            take(tracked);
        }
    }
}
