//! The command `weir`: one syntax for every question, `weir WHAT -r FILE… [FILTER]`.
//!
//! Flags become the options of a question and of its run (`flags`, `asking`), which `weir-questions`
//! answers; `ask` does what only a process does: signals, rights, the exit status (0 done, 1 nothing found
//! where that matters, 2 error; a broken pipe is success). Each file of `command` is a subcommand that is
//! more than a type of question. `terminal` prints the messages of the process; `top` is a screen.
#![forbid(unsafe_code)]
// `eprintln!` panics if standard error is closed: use `say!`.
#![deny(clippy::print_stderr)]

#[macro_use]
extern crate weir_questions;

mod ask;
mod asking;
mod command;
mod command_line;
mod flags;
mod keeper;
mod metrics;
mod monitor;
mod progress;
mod question_options;
mod reload;
mod sandbox;
mod shortage;
mod shutdown;
mod signals;
mod subcommand;
mod terminal;
mod top;
mod version;
mod words;

use std::process::ExitCode;

/// Runs the command with the arguments of this process; returns the exit status.
pub fn run_command() -> ExitCode {
    shortage::prepare();
    terminal::listen();
    weir::link::keep_lookups_built_in();
    match command_line::run(&command::all()) {
        Ok(status) => status,
        Err(failure) if failure.is_success() => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            ExitCode::from(2)
        }
    }
}
