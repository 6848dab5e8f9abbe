//! Rows of all session logs in one output. `_path` names the log, as in Zeek's JSON.

use std::fmt::Write as _;
use weir::Log;
use weir::packet::{Column, Value, ValueType};
use weir::sessions::SessionRegistry;

/// The columns of a log, each with its index in the union; `None`: its value goes into the column `session`.
type Places = Vec<(Column, Option<usize>)>;

/// Merges rows of several logs into one table.
pub struct Union {
    /// `_path`, the columns of the connection, then each column of any log once; or a single column `session` if
    /// narrow.
    pub columns: Vec<Column>,
    logs: Vec<(Log, Places)>,
    is_narrow: bool,
    /// Index of the column for the protocol that carries the session.
    carrier: Option<usize>,
}

impl Union {
    /// The union of all logs of these protocols. `is_narrow`: for people, with one column of text for all values of a session.
    pub fn of_all(sessions: &SessionRegistry, is_narrow: bool) -> Self {
        let logs = Log::all(sessions);
        let path = Column::new("_path", ValueType::Text, "log of the row");
        let mut columns = vec![path];
        let of_connection = logs.iter().take(1).flat_map(Log::connection_columns);
        columns.extend(of_connection);
        if is_narrow {
            columns.push(Column::new("session", ValueType::Text, "the log's own columns"));
        } else {
            for column in logs.iter().flat_map(Log::own_columns) {
                match columns.iter_mut().find(|known| known.name == column.name) {
                    // `version` is a number in SSH and text in TLS. Columnar formats need one type, which is text then.
                    Some(known) if known.value_type != column.value_type => {
                        known.value_type = ValueType::Text
                    }
                    Some(_) => {}
                    None => columns.push(column),
                }
            }
        }
        let place = |column: Column| {
            let at = columns.iter().position(|known| known.name == column.name);
            (column, at)
        };
        let logs =
            logs.into_iter().map(|log| (log, log.columns().into_iter().map(place).collect())).collect();
        let carrier = columns.iter().position(|column| column.name == "proto");
        Self { columns, logs, is_narrow, carrier }
    }

    /// The row of a session; empty for a protocol without a log.
    pub fn row<'a>(&self, protocol: usize, values: &'a [Value<'static>]) -> Vec<Value<'a>> {
        let Some((log, places)) = self.logs.iter().find(|(log, _)| log.protocols.contains(protocol)) else {
            return vec![];
        };
        let mut row = vec![Value::Absent; self.columns.len()];
        row[0] = Value::Text(log.path.into());
        let mut session = String::new();
        for ((column, place), value) in places.iter().zip(values) {
            match place {
                Some(at) => row[*at] = value.borrowed(),
                None if *value == Value::Absent => {}
                None => {
                    let _ = write!(session, "{}={} ", column.name, weir::io::json_text(value));
                }
            }
        }
        // The carrier comes after the log's own values, if the row has one.
        if let (Some(carrier), Some(at)) = (values.get(places.len()), self.carrier) {
            row[at] = carrier.borrowed();
        }
        if self.is_narrow {
            row[self.columns.len() - 1] = Value::Text(session.trim_end().to_string().into());
        }
        row
    }
}
