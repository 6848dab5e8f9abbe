//! Rows of sessions: which connection, then what the protocol's log has, with Zeek's names
//! (<https://docs.zeek.org/en/master/logs/>). They follow from the registry of protocols.

use crate::flow_id;
use weir_engine::flow::FlowView;
use weir_packet::{Column, Value, ValueType};
use weir_sessions::{PROTOCOLS, Session, SessionProtocol};

/// What every row begins with.
const CONNECTION: &[Column] = &[
    Column::new(
        "ts",
        ValueType::Time,
        "time of its first bytes; of a handshake the connection's first packet",
    ),
    Column::new("uid", ValueType::Text, "identifier of the connection, as in its record"),
    Column::new("id.orig_h", ValueType::Address, "originator's address"),
    Column::new("id.orig_p", ValueType::Unsigned, "originator's port"),
    Column::new("id.resp_h", ValueType::Address, "responder's address"),
    Column::new("id.resp_p", ValueType::Unsigned, "responder's port"),
];

/// The log of a session protocol: one or several protocols whose rows have the same columns.
#[derive(Debug, Clone, Copy)]
pub struct Log {
    /// Zeek's name for it, the `_path` of its rows: `ssl`.
    pub path: &'static str,
    /// Protocols whose sessions it has: a bit each, by index into the registry.
    pub protocols: u64,
    first: &'static SessionProtocol,
}

impl Log {
    /// The log that a session protocol writes: of all that share it where it is the first of these (TLS, of TLS and DTLS),
    /// else of its own sessions alone. `None` where the registry has no protocol of this name.
    pub fn of(protocol: &str) -> Option<Self> {
        let index = PROTOCOLS.iter().position(|p| p.name == protocol)?;
        let log = Self::all().into_iter().find(|log| log.path == PROTOCOLS[index].log)?;
        let protocols = if log.first.name == protocol { log.protocols } else { 1 << index };
        Some(Self { protocols, ..log })
    }

    /// Every log, in the order of the registry.
    pub fn all() -> Vec<Self> {
        let mut logs: Vec<Self> = vec![];
        for (index, protocol) in PROTOCOLS.iter().enumerate() {
            match logs.iter_mut().find(|log| log.path == protocol.log) {
                Some(log) => log.protocols |= 1 << index,
                None => logs.push(Self { path: protocol.log, protocols: 1 << index, first: protocol }),
            }
        }
        logs
    }

    /// The columns of its rows.
    pub fn columns(&self) -> Vec<Column> {
        CONNECTION.iter().cloned().chain(self.own_columns()).collect()
    }

    /// The columns that say which connection: the same in every log.
    pub fn connection_columns(&self) -> impl Iterator<Item = Column> + use<> {
        CONNECTION.iter().cloned()
    }

    /// Its columns behind those that say which connection.
    pub fn own_columns(&self) -> impl Iterator<Item = Column> {
        let fields = self.first.fields.iter().filter(|field| !field.column.is_empty());
        fields.map(|field| Column::new(field.column, field.value_type, field.doc))
    }
}

/// The row of a session.
pub(crate) fn values(flow: &FlowView<'_>, protocol: usize, session: &dyn Session) -> Vec<Value<'static>> {
    let (orig, resp) = flow.endpoints();
    let mut row = vec![
        Value::Time(session.time().unwrap_or(flow.first_time())),
        Value::Text(flow_id::uid(flow.graph, flow.table, flow.header).into()),
        Value::Address(orig.address),
        Value::Unsigned(u64::from(orig.port)),
        Value::Address(resp.address),
        Value::Unsigned(u64::from(resp.port)),
    ];
    let fields = PROTOCOLS[protocol].fields.iter().enumerate();
    let logged = fields.filter(|(_, field)| !field.column.is_empty());
    row.extend(logged.map(|(index, _)| session.value(index).into_owned()));
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_that_share_a_log_have_the_same_columns() {
        for log in Log::all() {
            let of = |p: &SessionProtocol| -> Vec<_> {
                let logged = p.fields.iter().filter(|field| !field.column.is_empty());
                logged.map(|field| (field.column, field.value_type)).collect()
            };
            for protocol in PROTOCOLS.iter().filter(|p| p.log == log.path) {
                assert_eq!(of(protocol), of(log.first), "{} and {}", protocol.name, log.first.name);
            }
        }
    }

    #[test]
    fn a_log_has_no_column_twice() {
        for log in Log::all() {
            let columns = log.columns();
            for (index, column) in columns.iter().enumerate() {
                assert!(columns[..index].iter().all(|other| other.name != column.name), "{}", column.name);
            }
        }
    }
}
