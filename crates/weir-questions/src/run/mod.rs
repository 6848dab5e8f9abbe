//! A run: its questions, what answers them, their changes while packets go on, and what is reported.
//!
//! - `runner.rs`: the one way in which questions are run, whoever asks
//! - `question_set.rs`: the questions, each checked against the others; `question_changes.rs`: others while
//!   the run goes on; `control.rs`: by requests at a socket (`control_socket.rs`)
//! - `run_options.rs`: the options of `weir run`
//! - `report.rs`: messages about its counts and losses; `live_clock.rs`: time passes
//!   without packets, too

pub mod control;
pub(crate) mod control_socket;
pub(crate) mod live_clock;
pub(crate) mod question_changes;
pub(crate) mod question_set;
pub mod report;
pub(crate) mod run_options;
pub(crate) mod runner;

pub use question_changes::QuestionChanges;
pub use question_set::QuestionSet;
pub use report::Ran;
pub use run_options::RunOptions;
pub use runner::{Plan, Run, RunSettings};
