//! User-defined state per connection: a type that receives the connection's packets and sessions, and is
//! passed to a callback when the connection ends, or at intervals.

use super::isolation::Isolation;
use std::any::Any;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::sync::Arc;
use weir_engine::FlowRef;
use weir_engine::subscriber::TrackedPacket;
use weir_packet::{PacketMeta, Timestamp};
use weir_sessions::Session;

/// User-defined state of a connection. Created with the first packet that fulfils the filter's part on
/// packets, or may still fulfil it; dropped when the connection ends. Callbacks take the state as
/// [`Tracked<Self>`](Tracked), if the connection matches the whole filter.
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

    /// Receives a packet of the connection, in capture order. A packet that ends the connection at once (a
    /// time-out of 0 in the stack's text) is not reported.
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
    /// A variable of the connection's layer for one side, including this packet: `bytes`, `packets`. `None`
    /// if the program keeps no such variable.
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
    /// With the first packet at least this many nanoseconds after the last delivery, and at the end of the
    /// connection.
    Nanoseconds(u64),
    /// At most this many nanoseconds after each packet (and 0.07 s, by which timers are late), whether more
    /// packets come or not, and at the end of the connection. One delivery stands for all packets since the
    /// last one. Only connections that match the whole filter by then are delivered, so a filter such as
    /// `conn.duration > 5s` selects those that have lasted for that time. For displays of what goes on.
    /// Connections in tables that workers share are delivered at their end only.
    Within(u64),
}

/// Creates the store of connection states.
pub(crate) type MakeTrack = Arc<dyn Fn(Every, Isolation) -> Box<dyn TrackStore> + Send + Sync>;

/// The states of a question's connections on a worker, with their type erased.
pub(crate) trait TrackStore: Send {
    /// Processes a packet. Returns a state to deliver now, if one is due.
    fn packet(&mut self, packet: &TrackedPacket<'_>) -> Option<Arc<dyn Any + Send + Sync>>;
    fn session(&mut self, flow: FlowRef, session: &dyn Session);
    /// The first report that is due at `now`: the packet that asked for it, and its connection.
    fn first_report(&mut self, now: i64) -> Option<(u64, FlowRef)>;
    /// The first report is made: later packets of its connection ask for another one.
    fn begin_report(&mut self, flow: FlowRef);
    /// The state of a connection, for a report.
    fn report(&self, flow: FlowRef) -> Option<Arc<dyn Any + Send + Sync>>;
    /// Removes and returns the state of a connection that has ended.
    fn end(&mut self, flow: FlowRef) -> Option<Arc<dyn Any + Send + Sync>>;
}

struct State<T> {
    tracked: T,
    /// The last delivery, as a number of packets or bytes, or as a time. `None` before the first packet.
    since: Option<u64>,
    /// The number of the packet that asked for the report to come, if the connection had packets after the
    /// last one.
    asked_by: Option<u64>,
}

impl<T: Default> Default for State<T> {
    fn default() -> Self {
        Self { tracked: T::default(), since: None, asked_by: None }
    }
}

struct Typed<T> {
    states: HashMap<FlowRef, State<T>>,
    every: Every,
    /// The reports that are to come, in the order in which packets asked for them.
    reports: VecDeque<Asked>,
    /// The run's clock, nanoseconds since 1970. The times of packets may be wrong.
    now: i64,
    isolation: Isolation,
}

/// A report that is to come.
struct Asked {
    /// When the packet asked for it, by the run's clock.
    since: i64,
    packet: u64,
    flow: FlowRef,
}

/// Reports of connections that have ended are removed from the queue if there are this many, and as many as
/// others.
const STALE_REPORTS_MAX: usize = 1024;

impl<T: Track> Typed<T> {
    /// Adds a report to come, unless the connection has one.
    fn ask_for_report(&mut self, packet: u64, flow: FlowRef) {
        let Some(state) = state_of(&mut self.states, flow, &self.isolation) else { return };
        if state.asked_by.is_some() {
            return;
        }
        state.asked_by = Some(packet);
        self.reports.push_back(Asked { since: self.now, packet, flow });
        if self.reports.len() > 2 * self.states.len() + STALE_REPORTS_MAX {
            let Self { states, reports, .. } = self;
            reports.retain(|asked| asked.is_of(states));
        }
    }
}

impl Asked {
    /// Whether the connection has not ended. (Another one may have its place.)
    fn is_of<T>(&self, states: &HashMap<FlowRef, State<T>>) -> bool {
        states.get(&self.flow).is_some_and(|state| state.asked_by == Some(self.packet))
    }
}

pub(crate) fn track_store<T: Track>(every: Every, isolation: Isolation) -> Box<dyn TrackStore> {
    let (reports, now) = (VecDeque::new(), i64::MIN);
    Box::new(Typed::<T> { states: HashMap::new(), every, reports, now, isolation })
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
            Some(place.insert(State { tracked, since: None, asked_by: None }))
        }
    }
}

impl<T: Track> TrackStore for Typed<T> {
    fn packet(&mut self, packet: &TrackedPacket<'_>) -> Option<Arc<dyn Any + Send + Sync>> {
        let Timestamp(first) = packet.flow.first_time();
        let every = self.every;
        let since = if matches!(every, Every::Nanoseconds(_)) { first as u64 } else { 0 };
        let flow = packet.flow.flow_ref();
        if matches!(every, Every::Within(_)) {
            self.ask_for_report(packet.packet.number, flow);
        }
        let state = state_of(&mut self.states, flow, &self.isolation)?;
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

    fn first_report(&mut self, now: i64) -> Option<(u64, FlowRef)> {
        let Every::Within(ns) = self.every else { return None };
        self.now = now;
        loop {
            let first = self.reports.front()?;
            // If the clock was set back, nothing waits longer for that.
            let is_due = now < first.since || now.saturating_sub(first.since) as u64 >= ns;
            if !is_due {
                return None;
            }
            if first.is_of(&self.states) {
                return Some((first.packet, first.flow));
            }
            self.reports.pop_front();
        }
    }

    fn begin_report(&mut self, flow: FlowRef) {
        self.reports.pop_front();
        if let Some(state) = self.states.get_mut(&flow) {
            state.asked_by = None;
        }
    }

    fn report(&self, flow: FlowRef) -> Option<Arc<dyn Any + Send + Sync>> {
        let state = self.states.get(&flow)?;
        let tracked = self.isolation.call(|| state.tracked.clone())?;
        Some(Arc::new(Tracked { state: tracked }))
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
            Every::Connection | Every::Within(_) => return false,
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
