//! The form in which a question receives its items.

use crate::flow::record::ColumnMask;
use weir_sessions::{PartLog, ProtocolSet};

/// The form of a question's items, fixed before the run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shape {
    /// Packets are only counted.
    pub count_only: bool,
    /// Packets include their bytes.
    pub frames: bool,
    /// Packets include their pcapng options.
    pub options: bool,
    /// Sessions come as objects, not as rows; parts of sessions come as both ([`Item::Part`]).
    ///
    /// [`Item::Part`]: crate::Item::Part
    pub whole: bool,
    /// Packets come as rows with the [columns of packets](crate::PACKET_COLUMNS), connections as rows of
    /// their log; not as objects.
    pub as_rows: bool,
    /// The columns that are computed of rows of packets, connections, sessions, and parts of sessions. Other
    /// columns are absent.
    pub columns: ColumnMask,
    /// Only sessions of these protocols have rows, whatever other protocols are needed to find them. `None`:
    /// all wanted protocols.
    pub rows: Option<ProtocolSet>,
    /// Instead of sessions, their parts come as rows of this log.
    pub parts: Option<&'static PartLog>,
    /// Instead of connections, rows of what was noted about them.
    pub notes: Option<Notes>,
    /// Rows of sessions and of their parts are not limited by the traffic of their connection: for rows that
    /// are folded, or wanted at any price.
    pub all_rows: bool,
    /// Rows of sessions have a column for the transport protocol (`tcp`), unless they have such a column
    /// already: [`Log::with_carrier`](crate::Log::with_carrier).
    pub carrier: bool,
}

/// What is noted about connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notes {
    /// What is odd: [`odd_columns`](crate::odd_columns). With `others`, also what is odd about packets
    /// without a connection.
    Odd {
        /// Packets without a connection, too.
        others: bool,
    },
    /// Connections that carry other connections, with two rows for each. The columns are
    /// [`tunnel_columns`](crate::tunnel_columns).
    Tunnels,
}
