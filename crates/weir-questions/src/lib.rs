//! Questions about traffic: what a question and a run are, by their options, and the one way in which they
//! are answered. The command, the recorder and the Python package are made of this crate.
//!
//! [`QuestionSpec`] is a question with its options, [`Input`] what a run reads; both are declared once, as
//! data ([`options`]), from which flags, keys of files, requests and arguments follow. Each file of `kinds`
//! is a type of question ([`QuestionKind`]). [`run::Run`] checks questions, compiles all of them to one
//! program, runs the program over captures, and changes the questions while packets go on. Answers go to
//! outputs ([`output`]), or to somebody else. [`by_name`] is the way for programs that know nothing of all
//! this.
//!
//! There is no command line and no terminal here: messages go to a [`messages::Listener`].

#![forbid(unsafe_code)]
// Messages go to a listener: use `say!`.
#![deny(clippy::print_stderr, clippy::print_stdout)]

#[macro_use]
pub mod messages;
pub mod by_name;
pub mod compiled_in;
mod contents;
mod ends;
pub mod field_list;
mod form;
mod input_options;
mod kind;
pub mod kinds;
pub mod loaded_rules;
pub mod local_users;
pub mod metrics;
mod names;
mod ndpi;
pub mod options;
pub mod output;
pub mod quantity;
mod rows;
pub mod run;
mod server_ports;
pub mod source;
mod spec;
pub mod text;

pub use ends::Ends;
pub use input_options::Input;
pub use kind::{COMMON_OPTIONS, Group, QuestionKind, QuestionKinds};
pub use server_ports::service;
pub use spec::{Look, QuestionSpec, RunLink, Screen, Stdout, StreamsShown};
