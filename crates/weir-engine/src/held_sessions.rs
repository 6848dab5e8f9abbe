//! Sessions that are held until the record of their connection is complete, because filters depend on it.

use crate::flow_ref::FlowRef;
use crate::plan::RemainderSet;
use crate::subscriber::SeenSession;
use std::collections::HashMap;
use std::sync::Arc;
use weir_packet::Value;
use weir_sessions::{Field, Session};

/// A held session.
pub(crate) struct HeldSession {
    /// Remainders that only the record can still fulfil.
    pub open: RemainderSet,
    pub protocol: usize,
    pub session: Arc<dyn Session>,
    /// The number of the packet that completed the session.
    pub packet: Option<u64>,
    bytes: usize,
}

/// The held sessions of a worker, by their connection.
#[derive(Default)]
pub(crate) struct HeldSessions {
    of_flows: HashMap<FlowRef, Vec<HeldSession>>,
    count: usize,
    bytes: usize,
}

/// Bounds on held sessions.
pub(crate) struct HeldSessionsMax {
    pub count: usize,
    pub bytes: usize,
}

impl HeldSessions {
    /// Holds a session for these remainders. Returns `false` if a bound does not admit the session.
    pub fn hold(
        &mut self,
        (flow, fields): (FlowRef, &[Field]),
        seen: &SeenSession<'_>,
        open: RemainderSet,
        max: &HeldSessionsMax,
    ) -> bool {
        let &SeenSession { protocol, session, packet } = seen;
        let same = |held: &&mut HeldSession| Arc::ptr_eq(&held.session, session);
        if let Some(held) = self.of_flows.get_mut(&flow).and_then(|held| held.iter_mut().rev().find(same)) {
            held.open |= &open;
            return true;
        }
        let bytes = size_of::<HeldSession>() + bytes_of(&**session, fields);
        if self.count >= max.count || self.bytes + bytes > max.bytes {
            return false;
        }
        self.count += 1;
        self.bytes += bytes;
        let held = HeldSession { open, protocol, session: Arc::clone(session), packet, bytes };
        self.of_flows.entry(flow).or_default().push(held);
        true
    }

    /// Removes and returns the sessions of a connection.
    pub fn take(&mut self, flow: FlowRef) -> Vec<HeldSession> {
        let sessions = if self.count == 0 { None } else { self.of_flows.remove(&flow) };
        let sessions = sessions.unwrap_or_default();
        self.count -= sessions.len();
        self.bytes -= sessions.iter().map(|held| held.bytes).sum::<usize>();
        sessions
    }

    /// Changes to another plan. `map` translates remainders; sessions without remainders are released.
    pub fn renew(&mut self, map: impl Fn(&RemainderSet) -> RemainderSet) {
        (self.count, self.bytes) = (0, 0);
        self.of_flows.retain(|_, sessions| {
            sessions.retain_mut(|held| {
                held.open = map(&held.open);
                !held.open.is_empty()
            });
            self.count += sessions.len();
            self.bytes += sessions.iter().map(|held| held.bytes).sum::<usize>();
            !sessions.is_empty()
        });
    }

    /// Whether no session is held.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of memory, estimated by the values of the sessions.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// An estimate of a session's memory: the values of its fields, and 16 bytes for each field and text.
pub(crate) fn bytes_of(session: &dyn Session, fields: &[Field]) -> usize {
    let value = |index| match session.value(index) {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Texts(texts) => texts.iter().map(|text| 16 + text.len()).sum(),
        Value::Numbers(numbers) => size_of_val(&*numbers),
        _ => 0,
    };
    (0..fields.len()).map(|index| 16 + value(index)).sum()
}
