//! The sessions of a flow, and their memory. Whatever a parser allocates and releases is measured at the
//! allocator, around each call, so no parser can hold memory that the account does not see.

use crate::counters::SessionCounters;
use crate::held_sessions;
use crate::recognised::Recognised;
use crate::row_account::RowAccount;
use crate::sessions::{Carrier, SessionPhase, Yielded};
use crate::stream::Overload;
use std::sync::Arc;
use weir_memory::live_bytes;
use weir_sessions::{Data, Field, ProtocolSet, Session};

/// The sessions of a flow.
#[derive(Default)]
pub(crate) struct FlowSessions {
    phase: SessionPhase,
    /// Bytes that the calls for this flow have allocated and not released, without the sessions that were
    /// yielded. 0 if nothing is held.
    held_bytes: u32,
    /// Bytes of the accounts of rows that are charged.
    account_bytes: u32,
    rows: RowAccount,
}

/// Bytes of one direction, in order. `gap_bytes` more are missing before them, and `cut_bytes` behind them.
pub(crate) struct Piece<'a> {
    pub data: Data<'a>,
    pub gap_bytes: u64,
    pub cut_bytes: u64,
}

/// Where a call puts what it completes, counts and allocates.
pub(crate) struct Results<'a> {
    pub out: &'a mut Yielded,
    pub counters: &'a mut SessionCounters,
    pub overload: &'a mut Overload,
}

// Each flow of a table that delivers bytes has such a value.
const _: () = assert!(size_of::<FlowSessions>() <= 64);

/// The memory of a parser in a program whose allocator does not [count](weir_memory::is_counting).
const UNCOUNTED_BYTES: usize = 8 << 10;

impl FlowSessions {
    /// Processes the next bytes of one direction. Completed sessions are pushed to the list of `results`.
    pub fn receive(&mut self, carrier: &Carrier<'_>, piece: &Piece<'_>, results: Results<'_>) {
        let Results { out, counters, overload } = results;
        let Piece { data, gap_bytes, cut_bytes } = piece;
        self.rows.earn(data.bytes.len(), data.is_datagram);
        self.measured(overload, |phase| {
            phase.gap(carrier, (data.from, *gap_bytes), out, counters);
            phase.take(carrier, data, out, counters);
            phase.gap(carrier, (data.from, *cut_bytes), out, counters);
        });
    }

    /// Finishes the sessions of a flow that is over, and releases their memory.
    pub fn finish(&mut self, results: Results<'_>) {
        let Results { out, counters, overload } = results;
        self.measured(overload, |phase| phase.finish(out, counters));
    }

    /// Ends the sessions for lack of memory. Sessions completed so far are pushed to the list of `results`.
    pub fn shed(&mut self, results: Results<'_>) {
        let Results { out, counters, overload } = results;
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

    /// Charges the accounts of rows, which grow with the questions that have rows.
    pub fn charge_accounts(&mut self, overload: &mut Overload) {
        let bytes = self.rows.heap_bytes() as u32;
        overload.charge_sessions(bytes as isize - std::mem::replace(&mut self.account_bytes, bytes) as isize);
    }

    /// Gives up the charge for the accounts of rows: the flow is over.
    pub fn release_accounts(&mut self, overload: &mut Overload) {
        overload.charge_sessions(-(std::mem::take(&mut self.account_bytes) as isize));
    }

    /// Bytes that are charged.
    pub fn charged_bytes(&self) -> usize {
        self.held_bytes as usize + self.account_bytes as usize
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

    /// Whether no protocol recognised the last bytes that were probed; one may later.
    pub fn is_refused(&self) -> bool {
        self.is_over() || matches!(self.phase, SessionPhase::Watching(_))
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

    /// What rows of the sessions are paid with.
    pub fn rows(&self) -> &RowAccount {
        &self.rows
    }
}

/// Delivered sessions that a receiver keeps. They count until the last receiver has let them go, and their
/// worker releases them: bytes that another thread releases would stay in the worker's count.
#[derive(Default)]
pub(crate) struct KeptSessions {
    sessions: Vec<Arc<dyn Session>>,
    /// The place of the session that is looked at next.
    next: usize,
    /// Sessions that were added since the last look.
    added: usize,
}

/// Sessions that are looked at after each burst, beside two for each one that was added.
const LOOKS: usize = 64;

impl KeptSessions {
    /// Takes back a session that its receivers have had. Returns the bytes that its flow no longer holds:
    /// exact ones if they are released now, and an estimate if a receiver keeps the session.
    pub fn take_back(
        &mut self,
        session: Arc<dyn Session>,
        fields: &[Field],
        overload: &mut Overload,
    ) -> usize {
        // Then sessions do not count.
        if !overload.is_counted() {
            return 0;
        }
        if Arc::strong_count(&session) > 1 {
            let bytes = held_sessions::bytes_of(&*session, fields);
            self.sessions.push(session);
            self.added += 1;
            return bytes;
        }
        let before = live_bytes();
        drop(session);
        let change = live_bytes() - before;
        overload.charge_sessions(change);
        change.unsigned_abs()
    }

    /// Releases sessions that no receiver keeps any more. Looks at some of them, in turns: the time of a call
    /// does not depend on their number.
    #[inline]
    pub fn release(&mut self, overload: &mut Overload) {
        if !self.sessions.is_empty() {
            self.release_some(overload);
        }
    }

    fn release_some(&mut self, overload: &mut Overload) {
        let looks = (LOOKS + 2 * std::mem::take(&mut self.added)).min(self.sessions.len());
        let before = live_bytes();
        for _ in 0..looks {
            if self.next >= self.sessions.len() {
                self.next = 0;
            }
            match self.sessions.get(self.next) {
                Some(session) if Arc::strong_count(session) > 1 => self.next += 1,
                Some(_) => drop(self.sessions.swap_remove(self.next)),
                None => break,
            }
        }
        overload.charge_sessions(live_bytes() - before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::OverloadParams;
    use std::any::Any;
    use weir_packet::{Timestamp, Value};

    #[derive(Debug)]
    struct Text(String);

    impl Session for Text {
        fn value(&self, _: usize) -> Value<'_> {
            Value::Text((&*self.0).into())
        }

        fn time(&self) -> Option<Timestamp> {
            None
        }

        fn as_any(&self) -> &dyn Any {
            self
        }
    }

    /// Charges a session as the call of a parser does.
    fn session(overload: &mut Overload) -> Arc<dyn Session> {
        let before = live_bytes();
        let session: Arc<dyn Session> = Arc::new(Text("a".repeat(1000)));
        overload.charge_sessions(live_bytes() - before);
        session
    }

    #[test]
    fn sessions_count_until_the_last_receiver_lets_them_go() {
        let mut overload = Overload::new(OverloadParams::default());
        let mut kept = KeptSessions::default();
        let alone = session(&mut overload);
        let bytes = overload.session_bytes();
        assert!(bytes >= 1000);
        assert_eq!((kept.take_back(alone, &[], &mut overload), overload.session_bytes()), (bytes, 0));
        // Many that are let go together are released in some calls, and one that is kept stays.
        let receivers: Vec<_> = (0..500).map(|_| session(&mut overload)).collect();
        for session in &receivers {
            kept.take_back(Arc::clone(session), &[], &mut overload);
        }
        kept.release(&mut overload);
        assert_eq!((kept.sessions.len(), overload.session_bytes()), (500, 500 * bytes));
        let stays = Arc::clone(&receivers[250]);
        drop(receivers);
        for _ in 0..500_usize.div_ceil(LOOKS) + 1 {
            kept.release(&mut overload);
        }
        assert_eq!(kept.sessions.len(), 1);
        drop(stays);
        kept.release(&mut overload);
        assert!(kept.sessions.is_empty());
    }

    #[test]
    fn without_a_count_sessions_change_no_account() {
        let mut overload = Overload::new(OverloadParams::default()).uncounted();
        let mut kept = KeptSessions::default();
        let session: Arc<dyn Session> = Arc::new(Text("a".repeat(1000)));
        assert_eq!(kept.take_back(Arc::clone(&session), &[], &mut overload), 0);
        assert!(kept.sessions.is_empty() && overload.session_bytes() == 0);
    }
}
