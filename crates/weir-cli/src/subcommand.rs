//! What a subcommand is: its arguments, the function that runs it, and, where it answers a question about traffic, how
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
    /// How questions of this name are resolved; `None`: the subcommand asks none.
    pub question: Option<QuestionKind>,
    /// Text below the options in the help, where the arguments declare none.
    after_help: Option<String>,
    arguments: fn(clap::Command) -> clap::Command,
    run: Box<Run>,
}

type Run = dyn Fn(&ArgMatches, &[Subcommand]) -> Result<ExitCode, Failure>;

impl Subcommand {
    /// A subcommand that `run` carries out; the function is given the arguments and all subcommands.
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

    /// Questions of this name are resolved so.
    pub fn with_question(self, kind: QuestionKind) -> Self {
        Self { question: Some(kind), ..self }
    }

    /// This text stands below the options in the help.
    pub fn with_after_help(self, text: String) -> Self {
        Self { after_help: Some(text), ..self }
    }

    /// The command line of the subcommand.
    pub fn command(&self) -> clap::Command {
        let command = clap::Command::new(self.name);
        let command = (self.arguments)(command).about(self.about.to_string());
        match &self.after_help {
            Some(text) => command.after_help(text),
            None => command,
        }
    }

    /// Runs the subcommand; its exit status.
    pub fn run(&self, matches: &ArgMatches, all: &[Subcommand]) -> Result<ExitCode, Failure> {
        (self.run)(matches, all)
    }
}

/// How a question is resolved, wherever it is stated: on a command line, in a file of questions, through a control socket.
#[derive(Clone, Copy)]
pub struct QuestionKind {
    /// Resolves the question. Nothing is created.
    pub resolve: fn(&QuestionSpec, &Context<'_>) -> Result<Resolved, Failure>,
    /// The options of a [`QuestionSpec`] that only questions of this kind have.
    pub options: &'static [&'static str],
}

/// What a question is resolved over.
pub struct Context<'a> {
    /// The compiler whose stack the filter is about.
    pub compiler: &'a Compiler,
    /// Filters are in the syntax of pcap-filter(7).
    pub bpf: bool,
    /// What the reader meets beside packets.
    pub findings: &'a Findings,
    /// The form that the answers take.
    pub form: &'a Form,
}

/// A question, resolved.
pub struct Resolved {
    /// What the program is asked.
    pub questions: Vec<Question>,
    /// The name of the log that the rows make.
    pub log: &'static str,
    /// The columns of the rows.
    pub columns: Vec<Column>,
    /// Makes rows of items.
    pub rows: Box<dyn Rows>,
    /// What the number of answers is.
    pub counted: Counted,
    /// Writes rows as lines of the question's own format.
    pub lines: Option<MakeLines>,
    /// A line for the report of counters.
    pub note: Option<String>,
}

/// Makes a sink that writes lines, in colours or without.
pub type MakeLines = fn(Box<dyn Write + Send>, bool) -> Box<dyn RowSink + Send>;

/// What the number of answers is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// What the program gives the first question: nothing is handed over.
    Matched,
    /// The rows that are made of its items.
    Rows,
}

impl Resolved {
    /// A question of which each row counts.
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
