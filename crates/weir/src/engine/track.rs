//! What a program of one's own keeps of each connection: a type that is told of its packets and sessions, and given to
//! a callback when the connection is over, or every so often.

use std::any::Any;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use weir_engine::FlowRef;
use weir_engine::subscriber::TrackedPacket;
use weir_packet::{PacketMeta, Timestamp};
use weir_sessions::Session;

/// What is kept of each connection. Made when a packet of it first fulfils the filter's part on packets, or may yet; dropped when
/// the connection is over. Callbacks take it as [`Tracked<Self>`](Tracked), if the connection fulfils the filter as a whole.
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
    /// Session protocols whose sessions it is told of, by name: `tls`.
    const PROTOCOLS: &'static [&'static str] = &[];

    /// A packet of the connection, in the order of the capture. One that ends it at once (a time-out of 0 in the stack's
    /// text) comes too late to be told.
    fn packet(&mut self, packet: &TrackPacket<'_>) {
        let _ = packet;
    }

    /// A session of the connection, of one of [`PROTOCOLS`](Self::PROTOCOLS).
    fn session(&mut self, session: &dyn Session) {
        let _ = session;
    }
}

/// What is kept of each connection by a type of one's own, when it is given to a callback.
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

/// Nothing of one's own: for records of connections [every so often](Every).
impl Track for () {}

/// A packet of a connection that is tracked.
#[derive(Debug, Clone, Copy)]
pub struct TrackPacket<'a> {
    /// What the capture says of it.
    pub meta: &'a PacketMeta,
    /// Its bytes.
    pub frame: &'a [u8],
    /// The originator sent it.
    pub is_orig: bool,
    tracked: &'a TrackedPacket<'a>,
}

impl TrackPacket<'_> {
    /// A variable that the connection's layer keeps of a side, this packet counted: `bytes`, `packets`. `None` where
    /// the program keeps no such variable.
    pub fn number(&self, name: &str, responder: bool) -> Option<u64> {
        self.tracked.flow.number(name, responder)
    }
}

/// How often a callback is given what is known of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Every {
    /// When it is over.
    #[default]
    Connection,
    /// Each time so many more packets of it were seen, and when it is over.
    Packets(u64),
    /// Each time so many more bytes on the wire of it were seen, and when it is over.
    Bytes(u64),
    /// With the first packet so long after the last time, nanoseconds, and when it is over.
    Nanoseconds(u64),
}

/// Makes what keeps the states of connections.
pub(super) type MakeTrack = Arc<dyn Fn(Every) -> Box<dyn TrackSink> + Send + Sync>;

/// The states of a question's connections on a worker, whatever their type.
pub(crate) trait TrackSink: Send {
    /// A packet. A state to be given away now, where it is time.
    fn packet(&mut self, packet: &TrackedPacket<'_>) -> Option<Arc<dyn Any + Send + Sync>>;
    fn session(&mut self, flow: FlowRef, session: &dyn Session);
    /// The connection is over: its state.
    fn end(&mut self, flow: FlowRef) -> Option<Arc<dyn Any + Send + Sync>>;
}

struct State<T> {
    tracked: T,
    /// Since it was last given away: packets or bytes; or when that was. `None` before the first packet.
    since: Option<u64>,
}

struct Typed<T> {
    states: HashMap<FlowRef, State<T>>,
    every: Every,
}

pub(super) fn track_sink<T: Track>(every: Every) -> Box<dyn TrackSink> {
    Box::new(Typed::<T> { states: HashMap::new(), every })
}

impl<T: Track> TrackSink for Typed<T> {
    fn packet(&mut self, packet: &TrackedPacket<'_>) -> Option<Arc<dyn Any + Send + Sync>> {
        let Timestamp(first) = packet.flow.first_time();
        let every = self.every;
        let since = if matches!(every, Every::Nanoseconds(_)) { first as u64 } else { 0 };
        let state = self.states.entry(packet.flow.flow_ref());
        let state = state.or_insert_with(|| State { tracked: T::default(), since: None });
        state.since.get_or_insert(since);
        let (meta, frame) = (packet.packet, packet.frame);
        let is_orig = !packet.from_responder;
        state.tracked.packet(&TrackPacket { meta, frame, is_orig, tracked: packet });
        state
            .is_due(every, meta)
            .then(|| Arc::new(Tracked { state: state.tracked.clone() }) as Arc<dyn Any + Send + Sync>)
    }

    fn session(&mut self, flow: FlowRef, session: &dyn Session) {
        let state = self.states.entry(flow).or_insert_with(|| State { tracked: T::default(), since: None });
        state.tracked.session(session);
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
