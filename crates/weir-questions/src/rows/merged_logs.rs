//! Rows of all session logs in one output. `_path` names the log, as in Zeek's JSON.

use std::fmt::Write as _;
use weir::packet::{Batch, Cell, Column, Row, Value, ValueType};
use weir::sessions::SessionRegistry;
use weir::{ColumnMask, Log};

/// A log, with the places of its columns.
struct MergedLog {
    log: Log,
    columns: Vec<Column>,
    /// The columns of the union that rows of the log have cells in, ascending.
    places: Vec<usize>,
    /// For each of `places`: where its cell comes from.
    sources: Vec<Source>,
    /// The log's columns that have none in the union: their values go into the column `session`.
    others: Vec<usize>,
}

/// Where a cell of a merged row comes from.
#[derive(Clone, Copy)]
enum Source {
    /// The name of the log.
    Path,
    /// A column of the log.
    Column(usize),
    /// The protocol that carries the session, which comes after the log's own values.
    Carrier,
    /// The text of the log's other columns.
    Session,
}

/// Merges rows of several logs into one table.
pub struct Union {
    /// `_path`, the columns of the connection, then each column of any log once; or a single column `session`
    /// if narrow.
    pub columns: Vec<Column>,
    logs: Vec<MergedLog>,
    /// By number of a protocol: the index of its log.
    by_protocol: Vec<Option<usize>>,
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
        let carrier = columns.iter().position(|column| column.name == "proto");
        let merged = |log: Log| {
            let own = log.columns();
            let source = |(at, union): (usize, &Column)| {
                let source = match own.iter().position(|column| column.name == union.name) {
                    _ if at == 0 => Source::Path,
                    _ if is_narrow && at + 1 == columns.len() => Source::Session,
                    Some(column) => Source::Column(column),
                    None if Some(at) == carrier => Source::Carrier,
                    None => return None,
                };
                Some((at, source))
            };
            let (places, sources) = columns.iter().enumerate().filter_map(source).unzip();
            let is_other = |column: &Column| columns.iter().all(|union| union.name != column.name);
            let others = (0..own.len()).filter(|&at| is_other(&own[at])).collect();
            MergedLog { log, places, sources, others, columns: own }
        };
        let logs: Vec<MergedLog> = logs.into_iter().map(merged).collect();
        let log_of = |protocol: usize| logs.iter().position(|merged| merged.log.protocols.contains(protocol));
        let by_protocol = (0..sessions.protocols().len()).map(log_of).collect();
        Self { columns, logs, by_protocol, is_narrow, carrier }
    }

    /// The columns of the logs that these columns of the union need. The same mask applies to the rows of all
    /// logs.
    pub fn needed(&self, shown: ColumnMask) -> ColumnMask {
        let of_log = |merged: &MergedLog| -> Vec<usize> {
            let sources = merged.places.iter().zip(&merged.sources).filter(|(at, _)| shown.contains(**at));
            let column = |(_, source): (&usize, &Source)| match *source {
                Source::Column(column) => Some(column),
                Source::Path | Source::Carrier | Source::Session => None,
            };
            let mut needed: Vec<usize> = sources.filter_map(column).collect();
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
        let log = self.by_protocol.get(protocol).copied().flatten();
        let Some(merged) = log.and_then(|log| self.logs.get(log)) else { return };
        let mut session = String::new();
        for &at in &merged.others {
            let value = row.cell(at).value();
            if value != Value::Absent {
                let _ = write!(session, "{}={} ", merged.columns[at].name, weir::io::json_text(&value));
            }
        }
        let mut to = batch.add_to(&merged.places);
        for source in &merged.sources {
            to.push(match *source {
                Source::Path => Cell::Text(merged.log.path),
                Source::Column(column) => row.cell(column),
                // Absent if the rows have none.
                Source::Carrier => row.cell(merged.columns.len()),
                Source::Session => Cell::Text(session.trim_end()),
            });
        }
    }
}
