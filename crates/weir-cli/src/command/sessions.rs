//! `weir tls`, `weir http` …: the sessions of a protocol, as Zeek's logs have them. `weir sessions`: those of all
//! protocols, each row with the name of its log.

use super::ask;
use crate::args::{Ask, Output};
use crate::failure::Failure;
use crate::union::Union;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
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
    let union = Union::of_all(is_narrow(&args.output));
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
