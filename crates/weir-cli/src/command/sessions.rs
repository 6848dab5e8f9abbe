//! `weir tls`, `weir http` …: the sessions of a protocol, as Zeek's logs have them. `weir sessions`: those of all
//! protocols, each row with the name of its log.

use super::ask;
use crate::args::{Ask, Output};
use crate::failure::Failure;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use weir::packet::{Column, Value, ValueType};
use weir::sessions::PROTOCOLS;
use weir::{Item, Log, Need, Want};

/// The rows of one log.
pub fn run_log(protocol: &str, args: &Ask) -> Result<ExitCode, Failure> {
    let log = Log::of(protocol).expect("commands are made of the registry");
    let question = ask::compile(args, ask::one(args, Need::default(), Want::Sessions(log.protocols)))?;
    ask::rows(&question, &args.output, (log.path, &log.columns()), |item, write| match item {
        Item::Session(_, values) => write(values),
        _ => Ok(()),
    })
}

/// The rows of all logs.
pub fn run(args: &Ask) -> Result<ExitCode, Failure> {
    let protocols = (1 << PROTOCOLS.len()) - 1;
    let question = ask::compile(args, ask::one(args, Need::default(), Want::Sessions(protocols)))?;
    let union = Union::new(is_narrow(&args.output));
    ask::rows(&question, &args.output, ("", &union.columns), |item, write| match item {
        Item::Session(protocol, values) => write(&union.row(*protocol, values)),
        _ => Ok(()),
    })
}

/// A person reads it: what sessions have is one text, and not a column each.
fn is_narrow(output: &Output) -> bool {
    match &output.format {
        Some(format) => format == "table",
        None => output.output.is_none() && io::stdout().is_terminal(),
    }
}

/// Rows of several logs as rows of one.
struct Union {
    /// `_path`, which connection, then the columns of all logs, each once; or, where it is narrow, one for all.
    columns: Vec<Column>,
    logs: Vec<Log>,
    is_narrow: bool,
}

impl Union {
    fn new(is_narrow: bool) -> Self {
        let logs = Log::all();
        let path = Column::new("_path", ValueType::Text, "the log that the row belongs to");
        let mut columns = vec![path];
        let of_connection = logs.iter().take(1).flat_map(Log::connection_columns);
        columns.extend(of_connection);
        if is_narrow {
            columns.push(Column::new("session", ValueType::Text, "what the log has of it"));
        } else {
            for column in logs.iter().flat_map(Log::own_columns) {
                if columns.iter().all(|known| known.name != column.name) {
                    columns.push(column);
                }
            }
        }
        Self { columns, logs, is_narrow }
    }

    fn row<'a>(&self, protocol: usize, values: &'a [Value<'static>]) -> Vec<Value<'a>> {
        let Some(log) = self.logs.iter().find(|log| log.protocols >> protocol & 1 == 1) else {
            return vec![];
        };
        let mut row = vec![Value::Absent; self.columns.len()];
        row[0] = Value::Text(log.path.into());
        let mut session = String::new();
        for (column, value) in log.columns().iter().zip(values) {
            match self.columns.iter().position(|known| known.name == column.name) {
                Some(at) => row[at] = value.clone(),
                None if *value == Value::Absent => {}
                None => {
                    let _ = write!(session, "{}={} ", column.name, weir::io::json_text(value));
                }
            }
        }
        if self.is_narrow {
            row[self.columns.len() - 1] = Value::Text(session.trim_end().to_string().into());
        }
        row
    }
}
