//! The command `weir`: one grammar for every question, `weir WHAT -r FILE… [FILTER]`.
//!
//! `args` declares the command line; each subcommand is a file of `command`; `output` is where rows
//! go; `report` is what is said of a run when it is over; `failure` says what went wrong and with which exit status (0 done, 1 nothing matched where that
//! matters, 2 error; a broken pipe is success).
#![forbid(unsafe_code)]
// It panics where standard error is closed: use `say!`.
#![deny(clippy::print_stderr)]

/// As `eprintln!`, through [`terminal::say`].
macro_rules! say {
    ($($words:tt)*) => { $crate::terminal::say(format_args!($($words)*)) };
}

mod args;
mod captures;
mod command;
mod control;
mod dedup;
mod failure;
mod grep;
mod input;
mod merged_logs;
mod output;
mod policies;
mod quantity;
mod questions;
mod report;
mod runner;
mod stream_files;
mod stream_questions;
mod tagged_sink;
mod terminal;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = args::Args::read();
    match command::run(&args.command) {
        Ok(status) => status,
        Err(failure) => failure.report(),
    }
}
