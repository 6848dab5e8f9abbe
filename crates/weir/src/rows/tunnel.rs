//! Rows of tunnels, with the columns of Zeek's tunnel.log
//! (<https://docs.zeek.org/en/master/scripts/base/frameworks/tunnels/main.zeek.html>).

use super::row_maker::RowMaker;
use super::session::Log;
use crate::flow::tunnel_names::TunnelNames;
use std::any::Any;
use std::sync::LazyLock;
use weir_engine::tunnels::Tunnel;
use weir_packet::{Column, Timestamp, Value, ValueType};
use weir_sessions::{Field, Session};

const fn field(column: &'static str, value_type: ValueType, doc: &'static str) -> Field {
    Field { name: column, aliases: &[], column, value_type, doc, words: None }
}

/// The columns of a row, behind those of its connection.
const FIELDS: &[Field] = &[
    field("tunnel_type", ValueType::Text, "kind of tunnel, with Zeek's name: `Tunnel::VXLAN`"),
    field(
        "action",
        ValueType::Text,
        "`Tunnel::DISCOVER`: the first connection inside began; `Tunnel::CLOSE`: the tunnel's own connection has ended",
    ),
    field("connections", ValueType::Unsigned, "connections that began inside; with `Tunnel::CLOSE`"),
];

/// Makes their rows.
pub(crate) static ROWS: LazyLock<RowMaker> = LazyLock::new(|| RowMaker::of_sessions(FIELDS, false));

/// All columns of a row about a tunnel.
pub fn tunnel_columns() -> Vec<Column> {
    Log::columns_of(FIELDS)
}

/// The begin or the end of a tunnel as a session, for its row.
#[derive(Debug)]
pub(crate) struct TunnelRow {
    kind: String,
    time: Timestamp,
    /// The number of connections; `None` at the begin.
    connections: Option<u64>,
}

impl TunnelRow {
    /// The rows of a tunnel whose connection has ended at this time.
    pub fn both(names: &TunnelNames, tunnel: &Tunnel, ended: Timestamp) -> [Self; 2] {
        let kind = names.kind(tunnel);
        [(tunnel.first, None), (ended, Some(tunnel.connections))].map(|(time, connections)| Self {
            kind: kind.clone(),
            time,
            connections,
        })
    }
}

impl Session for TunnelRow {
    fn value(&self, index: usize) -> Value<'_> {
        match index {
            0 => Value::Text(self.kind.as_str().into()),
            1 if self.connections.is_none() => Value::Text("Tunnel::DISCOVER".into()),
            1 => Value::Text("Tunnel::CLOSE".into()),
            2 => self.connections.map_or(Value::Absent, Value::Unsigned),
            _ => Value::Absent,
        }
    }

    fn time(&self) -> Option<Timestamp> {
        Some(self.time)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
