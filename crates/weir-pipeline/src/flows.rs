//! A state for each flow, with an end.

use crate::operator::{Operator, Port};
use crate::signal::Signal;
use crate::table::{FlatTable, RowNumber};
use std::hash::Hash;
use std::time::Duration;

/// The usual bound on flows.
pub const FLOWS_MAX: usize = 1 << 20;

/// Why a flow has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlowEnd {
    /// The handler ended the flow.
    Handler,
    /// The flow had no items for the idle time.
    Idle,
    /// There were too many flows, and this one had no items for the longest time.
    Room,
    /// No items follow.
    End,
}

/// What happens next to a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The flow goes on.
    Going,
    /// The flow ends: its next item begins another one.
    Ended,
}

/// What a flow table does with the items of a flow.
pub trait FlowHandler<T> {
    /// What identifies a flow.
    type Key: Hash + Eq + Clone;
    /// The state of a flow.
    type State;
    /// What is passed on.
    type Out;

    /// The flow of an item; `None` if it belongs to none.
    fn key(&mut self, item: &T) -> Option<Self::Key>;

    /// The time of an item, in nanoseconds since 1970.
    fn time(&mut self, item: &T) -> i64;

    /// The state of a flow, before its first item.
    fn begin(&mut self, key: &Self::Key, first: &T) -> Self::State;

    /// Takes an item of a flow.
    fn item(
        &mut self,
        key: &Self::Key,
        state: &mut Self::State,
        item: T,
        out: &mut impl Port<Self::Out>,
    ) -> Keep;

    /// A flow has ended.
    fn end(&mut self, key: Self::Key, state: Self::State, why: FlowEnd, out: &mut impl Port<Self::Out>) {
        let _ = (key, state, why, out);
    }
}

/// Calls a [`FlowHandler`] for the items of each flow. Flows end when they are idle by the
/// [watermark](Signal::Time), or, without any, by the times of the items, and the one without items for the
/// longest time ends if there are too many.
#[derive(Debug)]
pub struct FlowTable<K, S, H> {
    handler: H,
    flows: FlatTable<K, Flow<S>>,
    idle_ns: i64,
    /// The flows with the oldest and the newest last item: a list through all flows.
    oldest: Option<RowNumber>,
    newest: Option<RowNumber>,
    now: i64,
    /// The time comes by signals.
    is_told: bool,
    ended_for_room: u64,
}

#[derive(Debug)]
struct Flow<S> {
    state: S,
    last: i64,
    older: Option<RowNumber>,
    newer: Option<RowNumber>,
}

impl<K: Hash + Eq, S, H> FlowTable<K, S, H> {
    /// Flows that end after this time without items; at most [`FLOWS_MAX`].
    pub fn new<T>(idle: Duration, handler: H) -> Self
    where
        H: FlowHandler<T, Key = K, State = S>,
    {
        Self {
            handler,
            flows: FlatTable::new(FLOWS_MAX),
            idle_ns: i64::try_from(idle.as_nanos()).unwrap_or(i64::MAX),
            oldest: None,
            newest: None,
            now: i64::MIN,
            is_told: false,
            ended_for_room: 0,
        }
    }

    /// The same with another bound on flows, but at least 1. Flows so far are dropped.
    #[must_use]
    pub fn flows_max(self, flows_max: usize) -> Self {
        Self { flows: FlatTable::new(flows_max.max(1)), oldest: None, newest: None, ..self }
    }

    /// The handler.
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// Number of flows.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether there are no flows.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Flows that ended because there were too many.
    pub fn ended_for_room(&self) -> u64 {
        self.ended_for_room
    }

    /// Takes a flow out of the list.
    fn unlink(&mut self, row: RowNumber) {
        let (_, flow) = self.flows.row(row);
        let (older, newer) = (flow.older.take(), flow.newer.take());
        match older {
            Some(older) => self.flows.row(older).1.newer = newer,
            None => self.oldest = newer,
        }
        match newer {
            Some(newer) => self.flows.row(newer).1.older = older,
            None => self.newest = older,
        }
    }

    /// Makes a flow the newest, which is not in the list.
    fn link(&mut self, row: RowNumber) {
        let newest = self.newest.replace(row);
        self.flows.row(row).1.older = newest;
        match newest {
            Some(newest) => self.flows.row(newest).1.newer = Some(row),
            None => self.oldest = Some(row),
        }
    }

    fn end<T>(&mut self, row: RowNumber, why: FlowEnd, out: &mut impl Port<H::Out>)
    where
        H: FlowHandler<T, Key = K, State = S>,
    {
        self.unlink(row);
        if let Some((key, flow)) = self.flows.remove(row) {
            self.handler.end(key, flow.state, why, out);
        }
    }

    /// Ends flows without items since `before`.
    fn expire<T>(&mut self, before: i64, why: FlowEnd, out: &mut impl Port<H::Out>)
    where
        H: FlowHandler<T, Key = K, State = S>,
    {
        while let Some(row) = self.oldest
            && self.flows.row(row).1.last < before
        {
            self.end(row, why, out);
        }
    }
}

impl<T, H: FlowHandler<T>> Operator<T> for FlowTable<H::Key, H::State, H> {
    type Out = H::Out;

    fn take(&mut self, item: T, out: &mut impl Port<H::Out>) {
        let Some(key) = self.handler.key(&item) else { return };
        // Items in the wrong order do not set the time back, and one with a wrong time does not set it
        // forward if there is a watermark.
        if !self.is_told || self.now == i64::MIN {
            self.now = self.now.max(self.handler.time(&item));
        }
        let now = self.now;
        self.expire::<T>(now.saturating_sub(self.idle_ns), FlowEnd::Idle, out);
        let row = match self.flows.find(&key) {
            Some(row) => {
                self.unlink(row);
                row
            }
            None => {
                if self.flows.is_full()
                    && let Some(oldest) = self.oldest
                {
                    self.ended_for_room += 1;
                    self.end::<T>(oldest, FlowEnd::Room, out);
                }
                let state = self.handler.begin(&key, &item);
                let begin = || Flow { state, last: now, older: None, newer: None };
                let Some((row, _)) = self.flows.find_or_insert(key, begin) else { return };
                row
            }
        };
        self.link(row);
        let (key, flow) = self.flows.row(row);
        flow.last = now;
        if self.handler.item(key, &mut flow.state, item, out) == Keep::Ended {
            self.end::<T>(row, FlowEnd::Handler, out);
        }
    }

    fn signal(&mut self, signal: Signal, out: &mut impl Port<H::Out>) {
        match signal {
            Signal::Time(time) => {
                self.is_told = true;
                self.now = self.now.max(time);
                self.expire::<T>(self.now.saturating_sub(self.idle_ns), FlowEnd::Idle, out);
            }
            Signal::End => {
                while let Some(row) = self.oldest {
                    self.end::<T>(row, FlowEnd::End, out);
                }
            }
            Signal::Restart(time) => {
                // Idle times go on as they were.
                let step = time.saturating_sub(self.now);
                let mut next = self.oldest;
                while let Some(row) = next {
                    let (_, flow) = self.flows.row(row);
                    flow.last = flow.last.saturating_add(step);
                    next = flow.newer;
                }
                self.now = time;
            }
            Signal::Window { .. } | Signal::Flush => {}
        }
        out.signal(signal);
    }

    fn counters(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        tell("ended_for_room", self.ended_for_room);
    }
}
