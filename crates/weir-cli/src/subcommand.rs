//! A subcommand: its arguments, the function that runs it, and, where it answers a question about traffic, how
//! that question is resolved. Each file of `command` declares its own; `command/mod.rs` lists them.

use crate::failure::Failure;
use crate::form::Form;
use crate::rows::Rows;
use crate::spec::QuestionSpec;
use clap::{ArgMatches, Args, FromArgMatches};
use std::borrow::Cow;
use std::io::Write;
use std::process::ExitCode;
use weir::io::Findings;
use weir::packet::{Column, RowSink};
use weir::{Compiler, Question};

/// A subcommand.
pub struct Subcommand {
    /// The name, as typed.
    pub name: &'static str,
    /// One line for the list of subcommands.
    pub about: Cow<'static, str>,
    /// How to resolve questions of this name; `None`: the subcommand asks no question.
    pub question: Option<QuestionKind>,
    /// Text below the options in the help, unless the arguments declare one.
    after_help: Option<String>,
    arguments: fn(clap::Command) -> clap::Command,
    run: Box<Run>,
}

type Run = dyn Fn(&ArgMatches, &[Subcommand]) -> Result<ExitCode, Failure>;

impl Subcommand {
    /// A subcommand that calls `run` with its arguments and the list of all subcommands.
    pub fn new<A: Args + FromArgMatches>(
        name: &'static str,
        about: impl Into<Cow<'static, str>>,
        run: impl Fn(A, &[Subcommand]) -> Result<ExitCode, Failure> + 'static,
    ) -> Self {
        let run = move |matches: &ArgMatches, all: &[Subcommand]| {
            run(A::from_arg_matches(matches).unwrap_or_else(|wrong| wrong.exit()), all)
        };
        let (about, arguments) = (about.into(), A::augment_args);
        Self { name, about, after_help: None, question: None, arguments, run: Box::new(run) }
    }

    /// Sets how to resolve questions of this name.
    pub fn with_question(self, kind: QuestionKind) -> Self {
        Self { question: Some(kind), ..self }
    }

    /// Sets the text below the options in the help.
    pub fn with_after_help(self, text: String) -> Self {
        Self { after_help: Some(text), ..self }
    }

    /// The clap command of the subcommand.
    pub fn command(&self) -> clap::Command {
        let command = clap::Command::new(self.name);
        let command = (self.arguments)(command).about(self.about.to_string());
        match &self.after_help {
            Some(text) => command.after_help(text),
            None => command,
        }
    }

    /// Runs the subcommand; returns its exit status.
    pub fn run(&self, matches: &ArgMatches, all: &[Subcommand]) -> Result<ExitCode, Failure> {
        (self.run)(matches, all)
    }
}

/// How to resolve a type of question, whether it comes from the command line, a file of questions, or the control
/// socket.
#[derive(Clone, Copy)]
pub struct QuestionKind {
    /// Resolves the question. Nothing is created.
    pub resolve: fn(&QuestionSpec, &Context<'_>) -> Result<Resolved, Failure>,
    /// The options of a [`QuestionSpec`] that apply only to this type.
    pub options: &'static [&'static str],
}

/// The context for resolving a question.
pub struct Context<'a> {
    /// The compiler; filters are resolved against its stack.
    pub compiler: &'a Compiler,
    /// Filters use the syntax of pcap-filter(7).
    pub bpf: bool,
    /// Metadata that the reader finds in the captures in addition to packets.
    pub findings: &'a Findings,
    /// The form of the answers.
    pub form: &'a Form,
}

/// A resolved question.
pub struct Resolved {
    /// The questions for the engine.
    pub questions: Vec<Question>,
    /// The name of the log of the rows.
    pub log: &'static str,
    /// The columns of the rows.
    pub columns: Vec<Column>,
    /// Turns items into rows.
    pub rows: Box<dyn Rows>,
    /// How answers are counted.
    pub counted: Counted,
    /// Makes a sink for the question's own line format.
    pub lines: Option<MakeLines>,
    /// A line for the report of counters.
    pub note: Option<String>,
}

/// Makes a sink that writes lines, with or without colours.
pub type MakeLines = fn(Box<dyn Write + Send>, bool) -> Box<dyn RowSink + Send>;

/// How answers are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// The engine's number of matches for the first question; no items are delivered.
    Matched,
    /// The number of rows.
    Rows,
}

impl Resolved {
    /// A question whose rows are counted.
    pub fn new(
        questions: Vec<Question>,
        log: &'static str,
        columns: Vec<Column>,
        rows: impl Rows + 'static,
    ) -> Self {
        let rows = Box::new(rows);
        Self { questions, log, columns, rows, counted: Counted::Rows, lines: None, note: None }
    }
}
