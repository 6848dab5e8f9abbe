//! The command `weir`: one syntax for every question, `weir WHAT -r FILE… [FILTER]`.
//!
//! Each file of `kinds` is a type of question, and says how such questions are resolved (`kind`); `spec` is a
//! question with its options. Each file of `command` is a subcommand that is more than a type of question.
//! `ask` answers one or several questions in one pass over the captures; `answers` writes each question's
//! answers to its output. `report` summarises the run; `failure` has the errors and the exit status (0 done,
//! 1 nothing found where that matters, 2 error; a broken pipe is success).
//!
//! The command is a library with a small binary (`main.rs`), so that a question means the same in other
//! programs. The Python package states questions through [`questions`], which has no terminals and no output
//! files.
#![forbid(unsafe_code)]
// `eprintln!` panics if standard error is closed: use `say!`.
#![deny(clippy::print_stderr)]

/// Like `eprintln!`, but through [`terminal::say`], which does not panic.
macro_rules! say {
    ($($words:tt)*) => { $crate::terminal::say(format_args!($($words)*)) };
}

/// Prints a warning to standard error, unless `-q` is given.
macro_rules! note {
    ($($words:tt)*) => { $crate::terminal::note(format_args!($($words)*)) };
}

/// Prints how the run proceeds to standard error, unless `-q` is given.
macro_rules! inform {
    ($($words:tt)*) => { $crate::terminal::inform(format_args!($($words)*)) };
}

mod answers;
mod api;
mod ask;
mod asking;
mod captures;
mod command;
mod command_line;
mod compiled_in;
mod control;
mod control_socket;
mod conversation_lines;
mod copy_packets;
mod decoded_bodies;
mod dedup;
mod destination;
mod dump_list;
mod dump_queue;
mod dumps;
mod ender;
mod ends;
mod export;
mod extraction;
mod failure;
mod file_budget;
mod first_connections;
mod flags;
mod form;
mod grep;
mod handover;
mod hex_lines;
mod host_names;
mod input;
mod input_options;
mod instances;
mod kind;
mod kinds;
mod leftovers;
mod listener;
mod live_clock;
mod loaded_rules;
mod local_users;
mod machine_memory;
mod memory;
mod merged_logs;
mod metrics;
mod monitor;
mod ndpi;
mod options;
mod outlets;
mod output;
mod packet_details;
mod packet_text;
mod packet_tree;
mod part;
mod policies;
mod quantity;
mod question_changes;
mod question_options;
mod question_set;
pub mod questions;
mod recording;
mod reload;
mod report;
mod report_lines;
mod rotation;
mod row_code;
mod rows;
mod rule_triggers;
mod runner;
mod sandbox;
mod server_ports;
mod shortage;
mod shown_rows;
mod shutdown;
mod sorter;
mod source_part;
mod spec;
mod stream_columns;
mod stream_files;
mod stream_questions;
mod subcommand;
mod summary;
mod tagged_sink;
mod terminal;
mod thresholds;
mod top;
mod totals;
mod triggers;
mod view;
mod words;
mod write_bounds;

use std::process::ExitCode;

/// Runs the command with the arguments of this process; returns the exit status.
pub fn run_command() -> ExitCode {
    shortage::prepare();
    weir::link::keep_lookups_built_in();
    match command_line::run(&command::all()) {
        Ok(status) => status,
        Err(failure) => failure.report(),
    }
}
