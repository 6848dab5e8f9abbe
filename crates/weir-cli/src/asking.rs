//! The arguments of a command that asks a question.

use crate::ask::{self, Asked};
use crate::flags::{self, file_named};
use crate::words::Words;
use clap::{ArgMatches, Args as _, Command, FromArgMatches as _};
use std::process::ExitCode;
use weir_questions::Input;
use weir_questions::QuestionSpec;
use weir_questions::messages::Failure;
use weir_questions::options::Options as _;
use weir_questions::{COMMON_OPTIONS, QuestionKind};

/// What a command line asks.
pub struct Asking {
    /// The words that are no options.
    pub words: Words,
    /// The question, without the filter that the words state.
    pub spec: QuestionSpec,
    /// The input, without the files that the words name.
    pub input: Input,
    /// Print counters.
    pub stats: bool,
}

impl Asking {
    /// Adds the arguments of questions of this type. `left_out`: options of all types that have no flag here.
    pub fn arguments(command: Command, kind: &QuestionKind, left_out: &[&str]) -> Command {
        let is_common = |name| COMMON_OPTIONS.contains(&name) && !left_out.contains(&name);
        let options = QuestionSpec::TABLE;
        let options = options.iter().filter(|one| is_common(one.name) || kind.options.contains(&one.name));
        let command = flags::add(Words::augment_args(command), options).arg(flags::stats());
        flags::add(command, Input::TABLE)
    }

    /// The arguments of a command line; mistakes in them end the process.
    pub fn of(ask: &str, matches: &ArgMatches) -> Self {
        let mut spec: QuestionSpec = flags::read(matches).unwrap_or_else(|wrong| wrong.exit());
        spec.ask = ask.to_string();
        spec.output = file_named(spec.output);
        let words = Words::from_arg_matches(matches).unwrap_or_else(|wrong| wrong.exit());
        let input = flags::read(matches).unwrap_or_else(|wrong| wrong.exit());
        Self { words, spec, input, stats: matches.get_flag("stats") }
    }

    /// Takes the filter and the files from the words.
    ///
    /// # Errors
    /// It is not clear which word is the filter.
    pub fn settle(mut self) -> Result<Self, Failure> {
        self.spec.filter = self.words.settle(&mut self.input.read)?;
        Ok(self)
    }

    /// Answers the question; returns the exit status.
    ///
    /// # Errors
    /// The question has mistakes, or cannot be answered.
    pub fn answer(self) -> Result<ExitCode, Failure> {
        ask::answer_one(self.settle()?.asked())
    }

    /// The question for [`ask::answer`].
    pub fn asked(&self) -> Asked<'_> {
        Asked::one(&self.input, &self.spec, self.stats)
    }
}
