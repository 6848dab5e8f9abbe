//! `weir tls`, `weir http` …: the sessions of a protocol, as Zeek's logs have them. `weir sessions`: those of all
//! protocols, each row with the name of its log.

use super::ask;
use crate::args::{Ask, Output};
use crate::dedup::Known;
use crate::failure::Failure;
use crate::input;
use crate::merged_logs::Union;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use weir::packet::Value;
use weir::sessions::{PART_LOGS, PROTOCOLS};
use weir::{Item, Log, Need, Want};

/// The rows of one log.
pub fn run_log(name: &str, args: &Ask) -> Result<ExitCode, Failure> {
    let log = Log::of(name).expect("commands are made of the registries");
    let log = if is_eve(&args.output) { log.with_carrier() } else { log };
    let compiler = input::compiler(&args.input.program.stack)?;
    let text = args.filter.as_deref().unwrap_or_default();
    let split = log.split_filter(&compiler, text, args.input.program.bpf).map_err(Failure::from);
    let (filter, mut rows) = split.map_err(|wrong| name_carriers(name, wrong))?;
    let asked = weir::Ask { filter, need: Need::default(), want: Want::Sessions(log.asked()) };
    let mut question = ask::compile_over(compiler, args, [asked])?;
    question.shape = log.shape();
    let mut known = Known::of(&log);
    // How many are new is known once all are seen.
    let (columns, is_counted) = (log.columns(), args.output.count && (known.is_any() || rows.is_some()));
    let mut is_shown =
        |row: &[Value<'_>]| rows.as_mut().is_none_or(|rows| rows.takes(row)) && known.is_new(row);
    let status = match is_counted {
        true => ask::count_rows(&question, &args.output, is_shown)?,
        false => ask::rows(&question, &args.output, (log.path, &columns), |item, write| match item {
            Item::Session(_, values) if is_shown(values) => write(values),
            _ => Ok(()),
        })?,
    };
    known.report();
    Ok(status)
}

/// Says what filters on parts of sessions ask for, where one asks for something else.
fn name_carriers(name: &str, wrong: Failure) -> Failure {
    let parts = PART_LOGS.iter().find(|log| log.name == name);
    match (parts, wrong) {
        (Some(log), Failure::Mistakes(list)) => {
            let of: Vec<&str> = log.of.iter().map(|(protocol, _)| *protocol).collect();
            let tip = format!(
                "the filter of `weir {name}` uses the log's columns (`weir fields {name}`), and fields of \
                 the sessions that carry them, of {} (`weir fields {}`)",
                of.join(" and "),
                of[0]
            );
            Failure::Several(vec![Failure::Mistakes(list), Failure::new(tip)])
        }
        (_, wrong) => wrong,
    }
}

/// The rows of all logs.
pub fn run(args: &Ask) -> Result<ExitCode, Failure> {
    let protocols = (1 << PROTOCOLS.len()) - 1;
    let mut question = ask::compile(args, ask::one(args, Need::default(), Want::Sessions(protocols)))?;
    question.shape.carrier = is_eve(&args.output);
    let union = Union::of_all(is_narrow(&args.output));
    ask::rows(&question, &args.output, ("", &union.columns), |item, write| match item {
        Item::Session(protocol, values) => write(&union.row(*protocol, values)),
        _ => Ok(()),
    })
}

/// Events say what carries them.
fn is_eve(output: &Output) -> bool {
    output.format.as_deref() == Some("eve")
}

/// A person reads it: what sessions have is one text, and not a column each.
fn is_narrow(output: &Output) -> bool {
    match &output.format {
        Some(format) => format == "table",
        None => output.output.is_none() && io::stdout().is_terminal(),
    }
}
