//! The sessions of a flow, and their memory. Whatever a parser allocates and releases is measured at the
//! allocator, around each call, so no parser can hold memory that the account does not see.

use crate::counters::SessionCounters;
use crate::recognised::Recognised;
use crate::sessions::{Carrier, SessionPhase, Yielded};
use crate::stream::Overload;
use std::sync::Arc;
use weir_memory::live_bytes;
use weir_sessions::{Data, ProtocolSet, Session};

/// The sessions of a flow.
#[derive(Default)]
pub(crate) struct FlowSessions {
    phase: SessionPhase,
    /// Bytes that the calls for this flow have allocated and not released, without the sessions that were
    /// yielded. 0 if nothing is held.
    held_bytes: u32,
}

// Each flow of a table that delivers bytes has such a value.
const _: () = assert!(size_of::<FlowSessions>() <= 40);

/// The memory of a parser in a program whose allocator does not [count](weir_memory::is_counting).
const UNCOUNTED_BYTES: usize = 8 << 10;

impl FlowSessions {
    /// Processes bytes of one direction, between the missing bytes before and after them. Completed sessions
    /// are pushed to `out`.
    pub fn receive(
        &mut self,
        carrier: &Carrier<'_>,
        (data, gap_bytes, cut_bytes): (&Data<'_>, u64, u64),
        (out, counters, overload): (&mut Yielded, &mut SessionCounters, &mut Overload),
    ) {
        self.measured(overload, |phase| {
            phase.gap(carrier, (data.from, gap_bytes), out, counters);
            phase.take(carrier, data, out, counters);
            phase.gap(carrier, (data.from, cut_bytes), out, counters);
        });
    }

    /// Finishes the sessions of a flow that is over, and releases their memory.
    pub fn finish(&mut self, out: &mut Yielded, counters: &mut SessionCounters, overload: &mut Overload) {
        self.measured(overload, |phase| phase.finish(out, counters));
    }

    /// Ends the sessions for lack of memory. Sessions completed so far are pushed to `out`.
    pub fn shed(&mut self, out: &mut Yielded, counters: &mut SessionCounters, overload: &mut Overload) {
        counters.sessions_shed += 1;
        self.measured(overload, |phase| {
            phase.finish(out, counters);
            *phase = SessionPhase::Over(phase.recognised());
        });
    }

    /// Takes note that a session that this flow yielded was given to its receivers: `bytes` of it are
    /// released.
    pub fn given(&mut self, bytes: usize) {
        self.held_bytes = self.held_bytes.saturating_sub(bytes.try_into().unwrap_or(u32::MAX));
    }

    fn measured(&mut self, overload: &mut Overload, act: impl FnOnce(&mut SessionPhase)) {
        let before = live_bytes();
        act(&mut self.phase);
        let change = if overload.is_counted() {
            live_bytes() - before
        } else {
            (self.phase.parsers() * UNCOUNTED_BYTES) as isize - self.held_bytes as isize
        };
        overload.charge_sessions(change);
        let held = if self.phase.holds() { (self.held_bytes as isize + change).max(1) } else { 0 };
        self.held_bytes = held.try_into().unwrap_or(u32::MAX);
    }

    /// Bytes that are held.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes as usize
    }

    /// Whether the flow has received no bytes since the start, or since the last protocol handed over.
    pub fn is_fresh(&self) -> bool {
        matches!(self.phase, SessionPhase::Fresh(..))
    }

    /// Whether no more bytes are wanted.
    pub fn is_over(&self) -> bool {
        self.phase.is_over()
    }

    /// Adds protocols to the candidates, also for bytes that are kept while the protocol is not certain.
    pub fn consider(&mut self, protocols: ProtocolSet) {
        self.phase.consider(protocols);
    }

    /// The protocols that were recognised.
    pub fn recognised(&self) -> Recognised {
        self.phase.recognised()
    }
}

/// Sessions that were yielded and have receivers that keep them. They count until the last receiver has let
/// them go, and are released by their worker, so that the worker's count of bytes falls.
#[derive(Default)]
pub(crate) struct KeptSessions {
    sessions: Vec<Arc<dyn Session>>,
    /// The number at which the list is searched for sessions without receivers.
    search_at: usize,
}

/// The least number of kept sessions for which they are searched.
const SEARCH_MIN: usize = 64;

impl KeptSessions {
    /// Takes back a session whose receivers have had it; returns the bytes that were released, if no
    /// receiver has kept it.
    pub fn take_back(&mut self, session: Arc<dyn Session>, overload: &mut Overload) -> Option<usize> {
        if !overload.is_counted() {
            return None;
        }
        if Arc::strong_count(&session) > 1 {
            self.sessions.push(session);
            return None;
        }
        let before = live_bytes();
        drop(session);
        let change = live_bytes() - before;
        overload.charge_sessions(change);
        Some(change.unsigned_abs())
    }

    /// Releases sessions that nobody keeps any more. Does so once their number may have halved, so that each
    /// session is looked at a constant number of times.
    #[inline]
    pub fn release(&mut self, overload: &mut Overload) {
        if self.sessions.len() > self.search_at.max(SEARCH_MIN) {
            self.release_all(overload);
        }
    }

    #[cold]
    fn release_all(&mut self, overload: &mut Overload) {
        let before = live_bytes();
        self.sessions.retain(|session| Arc::strong_count(session) > 1);
        overload.charge_sessions(live_bytes() - before);
        self.search_at = 2 * self.sessions.len();
    }
}
