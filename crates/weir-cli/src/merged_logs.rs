//! Rows of all session logs in one output. `_path` names the log, as in Zeek's JSON.

use std::fmt::Write as _;
use weir::packet::{Batch, Cell, Column, Row, Value, ValueType};
use weir::sessions::SessionRegistry;
use weir::{ColumnMask, Log};

/// A log, with the places of its columns.
struct MergedLog {
    log: Log,
    columns: Vec<Column>,
    /// By column of the union: the log's column.
    sources: Vec<Option<usize>>,
    /// The log's columns that have none in the union: their values go into the column `session`.
    others: Vec<usize>,
}

/// Merges rows of several logs into one table.
pub struct Union {
    /// `_path`, the columns of the connection, then each column of any log once; or a single column `session`
    /// if narrow.
    pub columns: Vec<Column>,
    logs: Vec<MergedLog>,
    is_narrow: bool,
    /// Index of the column for the protocol that carries the session.
    carrier: Option<usize>,
}

impl Union {
    /// The union of all logs of these protocols. `is_narrow`: for people, with one column of text for all
    /// values of a session.
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
                    // `version` is a number in SSH and text in TLS. Columnar formats need one type, which is
                    // text then.
                    Some(known) if known.value_type != column.value_type => {
                        known.value_type = ValueType::Text
                    }
                    Some(_) => {}
                    None => columns.push(column),
                }
            }
        }
        let merged = |log: Log| {
            let own = log.columns();
            let source = |union: &Column| own.iter().position(|column| column.name == union.name);
            let sources = columns.iter().map(source).collect();
            let is_other = |column: &Column| columns.iter().all(|union| union.name != column.name);
            let others = (0..own.len()).filter(|&at| is_other(&own[at])).collect();
            MergedLog { log, sources, others, columns: own }
        };
        let logs = logs.into_iter().map(merged).collect();
        let carrier = columns.iter().position(|column| column.name == "proto");
        Self { columns, logs, is_narrow, carrier }
    }

    /// The columns of the logs that these columns of the union need. The same mask applies to the rows of all
    /// logs.
    pub fn needed(&self, shown: ColumnMask) -> ColumnMask {
        let of_log = |merged: &MergedLog| -> Vec<usize> {
            let sources = merged.sources.iter().enumerate().filter(|(at, _)| shown.contains(*at));
            let mut needed: Vec<usize> = sources.filter_map(|(_, source)| *source).collect();
            if self.is_narrow {
                needed.extend(&merged.others);
            }
            needed
        };
        let mut needed: Vec<usize> = self.logs.iter().flat_map(of_log).collect();
        if self.carrier.is_some_and(|carrier| shown.contains(carrier)) {
            // The carrier comes after the columns of its log.
            needed.extend(self.logs.iter().map(|merged| merged.columns.len()));
        }
        needed.into_iter().collect()
    }

    /// Adds the row of a session to `batch`; nothing for a protocol without a log.
    pub fn push(&self, batch: &mut Batch, protocol: usize, row: Row<'_>) {
        let Some(merged) = self.logs.iter().find(|merged| merged.log.protocols.contains(protocol)) else {
            return;
        };
        let mut session = String::new();
        for &at in &merged.others {
            let value = row.cell(at).value();
            if value != Value::Absent {
                let _ = write!(session, "{}={} ", merged.columns[at].name, weir::io::json_text(&value));
            }
        }
        // The carrier comes after the log's own values, if the row has one.
        let carrier = self.carrier.filter(|_| row.len() > merged.columns.len());
        let mut to = batch.add();
        for (at, source) in merged.sources.iter().enumerate() {
            to.push(match source {
                _ if at == 0 => Cell::Text(merged.log.path),
                _ if Some(at) == carrier => row.cell(merged.columns.len()),
                _ if self.is_narrow && at + 1 == self.columns.len() => Cell::Text(session.trim_end()),
                Some(source) => row.cell(*source),
                None => Cell::Absent,
            });
        }
    }
}
