//! User-defined state per connection: a type that receives the connection's packets and sessions, and is passed to a
//! callback when the connection ends, or at intervals.

use crate::isolation::Isolation;
use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Deref;
use std::sync::Arc;
use weir_engine::FlowRef;
use weir_engine::subscriber::TrackedPacket;
use weir_packet::{PacketMeta, Timestamp};
use weir_sessions::Session;

/// User-defined state of a connection. Created with the first packet that fulfils the filter's part on packets, or may
/// still fulfil it; dropped when the connection ends. Callbacks take the state as [`Tracked<Self>`](Tracked), if the
/// connection matches the whole filter.
///
/// ```
/// use weir::{Track, TrackPacket};
///
/// /// Distinct sizes of packets.
/// #[derive(Debug, Clone, Default)]
/// struct Sizes(std::collections::BTreeSet<u32>);
///
/// impl Track for Sizes {
///     fn packet(&mut self, packet: &TrackPacket<'_>) {
///         self.0.insert(packet.meta.wire_bytes);
///     }
/// }
/// ```
pub trait Track: Default + Clone + Send + Sync + 'static {
    /// Session protocols whose sessions the type receives, by name: `tls`.
    const PROTOCOLS: &'static [&'static str] = &[];

    /// Receives a packet of the connection, in capture order. A packet that ends the connection at once (a time-out
    /// of 0 in the stack's text) is not reported.
    fn packet(&mut self, packet: &TrackPacket<'_>) {
        let _ = packet;
    }

    /// Receives a session of the connection, of one of [`PROTOCOLS`](Self::PROTOCOLS).
    fn session(&mut self, session: &dyn Session) {
        let _ = session;
    }
}

/// The user-defined state of a connection, for a callback.
#[derive(Debug, Clone)]
pub struct Tracked<T> {
    state: T,
}

impl<T> Deref for Tracked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.state
    }
}

/// No state: for records of connections [at intervals](Every).
impl Track for () {}

/// A packet of a tracked connection.
#[derive(Debug, Clone, Copy)]
pub struct TrackPacket<'a> {
    /// The metadata of the packet.
    pub meta: &'a PacketMeta,
    /// The captured bytes.
    pub frame: &'a [u8],
    /// The originator sent it.
    pub is_orig: bool,
    tracked: &'a TrackedPacket<'a>,
}

impl TrackPacket<'_> {
    /// A variable of the connection's layer for one side, including this packet: `bytes`, `packets`. `None` if the
    /// program keeps no such variable.
    pub fn number(&self, name: &str, responder: bool) -> Option<u64> {
        self.tracked.flow.number(name, responder)
    }
}

/// How often a callback receives the state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Every {
    /// When the connection ends.
    #[default]
    Connection,
    /// Whenever this many more packets of the connection were seen, and at its end.
    Packets(u64),
    /// Whenever this many more bytes on the wire were seen, and at the end of the connection.
    Bytes(u64),
    /// With the first packet at least this many nanoseconds after the last delivery, and at the end of the connection.
    Nanoseconds(u64),
}

/// Creates the store of connection states.
pub(super) type MakeTrack = Arc<dyn Fn(Every, Isolation) -> Box<dyn TrackStore> + Send + Sync>;

/// The states of a question's connections on a worker, with their type erased.
pub(crate) trait TrackStore: Send {
    /// Processes a packet. Returns a state to deliver now, if one is due.
    fn packet(&mut self, packet: &TrackedPacket<'_>) -> Option<Arc<dyn Any + Send + Sync>>;
    fn session(&mut self, flow: FlowRef, session: &dyn Session);
    /// Removes and returns the state of a connection that has ended.
    fn end(&mut self, flow: FlowRef) -> Option<Arc<dyn Any + Send + Sync>>;
}

struct State<T> {
    tracked: T,
    /// The last delivery, as a number of packets or bytes, or as a time. `None` before the first packet.
    since: Option<u64>,
}

struct Typed<T> {
    states: HashMap<FlowRef, State<T>>,
    every: Every,
    isolation: Isolation,
}

pub(super) fn track_store<T: Track>(every: Every, isolation: Isolation) -> Box<dyn TrackStore> {
    Box::new(Typed::<T> { states: HashMap::new(), every, isolation })
}

/// The state of a connection, which begins now if there is none. `None`: it cannot be created.
fn state_of<'s, T: Track>(
    states: &'s mut HashMap<FlowRef, State<T>>,
    flow: FlowRef,
    isolation: &Isolation,
) -> Option<&'s mut State<T>> {
    match states.entry(flow) {
        Entry::Occupied(state) => Some(state.into_mut()),
        Entry::Vacant(place) => {
            let tracked = isolation.call(T::default)?;
            Some(place.insert(State { tracked, since: None }))
        }
    }
}

impl<T: Track> TrackStore for Typed<T> {
    fn packet(&mut self, packet: &TrackedPacket<'_>) -> Option<Arc<dyn Any + Send + Sync>> {
        let Timestamp(first) = packet.flow.first_time();
        let every = self.every;
        let since = if matches!(every, Every::Nanoseconds(_)) { first as u64 } else { 0 };
        let state = state_of(&mut self.states, packet.flow.flow_ref(), &self.isolation)?;
        state.since.get_or_insert(since);
        let (meta, frame) = (packet.packet, packet.frame);
        let is_orig = !packet.from_responder;
        let seen = TrackPacket { meta, frame, is_orig, tracked: packet };
        self.isolation.call(|| state.tracked.packet(&seen));
        if !state.is_due(every, meta) {
            return None;
        }
        let copy = self.isolation.call(|| state.tracked.clone())?;
        Some(Arc::new(Tracked { state: copy }))
    }

    fn session(&mut self, flow: FlowRef, session: &dyn Session) {
        if let Some(state) = state_of(&mut self.states, flow, &self.isolation) {
            self.isolation.call(|| state.tracked.session(session));
        }
    }

    fn end(&mut self, flow: FlowRef) -> Option<Arc<dyn Any + Send + Sync>> {
        let state = self.states.remove(&flow)?;
        Some(Arc::new(Tracked { state: state.tracked }))
    }
}

impl<T> State<T> {
    fn is_due(&mut self, every: Every, packet: &PacketMeta) -> bool {
        let since = self.since.get_or_insert(0);
        let (step, limit) = match every {
            Every::Connection => return false,
            Every::Packets(packets) => (1, packets),
            Every::Bytes(bytes) => (u64::from(packet.wire_bytes), bytes),
            Every::Nanoseconds(ns) => {
                let now = packet.time.0.max(0) as u64;
                let is_due = now.saturating_sub(*since) >= ns.max(1);
                *since = if is_due { now } else { *since };
                return is_due;
            }
        };
        *since += step;
        let is_due = *since >= limit.max(1);
        *since = if is_due { 0 } else { *since };
        is_due
    }
}
