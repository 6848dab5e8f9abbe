//! One file per subcommand; what questions have in common is in `ask`.

mod ask;
mod check;
mod ctl;
mod docs;
mod events;
mod explain;
mod fields;
mod flows;
mod fmt;
pub mod match_;
pub mod packets;
mod run;
mod sessions;
mod stacks;
mod stats;
pub mod streams;

use crate::args::{Command, LogCommand};
use crate::failure::Failure;
use std::process::ExitCode;

/// Runs a command; its exit status.
pub fn run(command: &Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Flows(args) => flows::run(args),
        Command::Log(LogCommand { name, ask }) => sessions::run_log(name, ask),
        Command::Sessions(args) => sessions::run(args),
        Command::Run(args) => run::run(args),
        Command::Zeek(args) => run::zeek(args),
        Command::Ctl(args) => ctl::run(args),
        Command::Packets(args) => packets::run(args),
        Command::Events(args) => events::run(args),
        Command::Stats(args) => stats::run(args),
        Command::Streams(args) => streams::run(args),
        Command::Match(args) => match_::run(args),
        Command::Fields(args) => fields::run(args),
        Command::Stacks(args) => stacks::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Docs(args) => docs::run(args),
        Command::Check(args) => check::run(args),
        Command::Fmt(args) => fmt::run(args),
    }
}
