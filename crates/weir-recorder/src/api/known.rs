//! The connections of answers, by their identifiers.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use weir::io::ring::TimeRange;
use weir::packet::{Batch, Cell, Column, Row};
use weir_questions::Ends;

/// Connections that are remembered, the last ones of all answers.
pub const KNOWN_MAX: usize = 100_000;

/// The ends and times of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownConnection {
    pub uid: String,
    pub ends: Ends,
    pub times: TimeRange,
}

/// The places of columns that tell a connection.
#[derive(Debug, Clone, Copy)]
pub struct EndColumns {
    uid: usize,
    ts: usize,
    orig: (usize, usize),
    resp: (usize, usize),
    proto: usize,
    /// Of connections, not of sessions.
    duration: Option<usize>,
}

impl EndColumns {
    /// The places among these columns. `None`: the rows tell no connections.
    pub fn of(columns: &[Column]) -> Option<Self> {
        let at = |name: &str| columns.iter().position(|column| column.name == name);
        let is_flows = at("conn_state").is_some();
        Some(Self {
            uid: at("uid")?,
            ts: at("ts")?,
            orig: (at("id.orig_h")?, at("id.orig_p")?),
            resp: (at("id.resp_h")?, at("id.resp_p")?),
            proto: at("proto")?,
            duration: at("duration").filter(|_| is_flows),
        })
    }

    /// The connection of a row. `span`: the times of the question.
    fn read(&self, row: Row<'_>, span: TimeRange) -> Option<KnownConnection> {
        let end = |(host, port): (usize, usize)| match (row.cell(host), row.cell(port)) {
            (Cell::Address(host), Cell::Unsigned(port)) => Some((host, u32::try_from(port).ok()?)),
            _ => None,
        };
        let (Cell::Text(uid), Cell::Time(ts), Cell::Text(proto)) =
            (row.cell(self.uid), row.cell(self.ts), row.cell(self.proto))
        else {
            return None;
        };
        let times = match self.duration.map(|duration| row.cell(duration)) {
            Some(Cell::Interval(ns)) => {
                TimeRange { first: ts.0, last: ts.0.saturating_add(i64::try_from(ns).unwrap_or(i64::MAX)) }
            }
            Some(_) => TimeRange { first: ts.0, last: ts.0 },
            None => span,
        };
        let (orig, resp) = (end(self.orig)?, end(self.resp)?);
        let ends = Ends { proto: proto.to_string(), orig, resp };
        Some(KnownConnection { uid: uid.to_string(), ends, times })
    }
}

/// The connections of answers.
#[derive(Debug, Clone, Default)]
pub struct Known(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    by_uid: HashMap<String, KnownConnection>,
    order: VecDeque<String>,
}

impl Known {
    /// Remembers the connections of rows.
    pub fn add(&self, columns: &EndColumns, rows: &Batch, count: usize, span: TimeRange) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for row in rows.iter().take(count) {
            let Some(connection) = columns.read(row, span) else { continue };
            match state.by_uid.get_mut(&connection.uid) {
                // Sessions do not say when their connection began.
                Some(known) if columns.duration.is_some() => *known = connection,
                Some(_) => {}
                None => {
                    if state.order.len() >= KNOWN_MAX
                        && let Some(oldest) = state.order.pop_front()
                    {
                        state.by_uid.remove(&oldest);
                    }
                    state.order.push_back(connection.uid.clone());
                    state.by_uid.insert(connection.uid.clone(), connection);
                }
            }
        }
    }

    /// The connection with this identifier.
    pub fn find(&self, uid: &str) -> Option<KnownConnection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_uid.get(uid).cloned()
    }
}
