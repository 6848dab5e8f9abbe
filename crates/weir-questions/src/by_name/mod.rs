//! Questions for other programs than the command, such as the Python package: stated by their options,
//! answered with rows.
//!
//! [`kinds`] lists the types of questions, [`Question::of`] states a question, and [`input`] states what
//! is read, both from options in JSON. [`Questions::of`] checks the questions of a run against each other's
//! stack, and knows their columns; [`Questions::run`] answers all of them in one pass, and gives the rows of
//! each to a [`TakeRows`]. The meaning of the options is that of the command: a question here is resolved by
//! the same code as on a command line, in a file of questions, or from the control socket. A type of
//! questions that is added to the command is therefore available here, too.
//!
//! No terminal and no output of rows takes part; a [`Listener`] receives the messages of a run. One side
//! effect remains: options that name a directory (`files`, `extract`) write files there.

mod filter_fields;
mod input;
mod mistake;
mod yielded;

pub use crate::messages::{Level, Listener, Message};
pub use crate::source::ender::Ender;
pub use filter_fields::{FilterColumn, filter_fields};
pub use input::input;
pub use mistake::{Mark, Mistake};
pub use yielded::{TakeRows, Yielded};

use crate::Input;
use crate::field_list;
use crate::kind::{QuestionKind, QuestionKinds};
use crate::kinds as all_kinds;
use crate::messages::failure::Failure;
use crate::options::Options as _;
use crate::run::question_set::SettledRows;
use crate::run::runner::{Plan, Run, RunSettings};
use crate::source::input as program;
use crate::spec::QuestionSpec;
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex, PoisonError};
use weir::io::Format;
use weir::packet::{Batch, Column, Source, Timestamp};
use weir::{Log, explain};

/// Options that every question has here: those of all types that do not say where rows go, and how they look
/// there.
const COMMON_OPTIONS: &[&str] = &["filter", "columns", "limit", "sort", "names"];

/// Options of types that select a form of answers other than rows.
const OTHER_FORMS: &[&str] = &["color", "detail", "hex", "balance"];

/// A type of questions.
#[derive(Debug, Clone)]
pub struct Kind {
    /// The name: `flows`, `tls`, `aggregate` …
    pub name: &'static str,
    /// What its rows are, in one line.
    pub about: String,
    /// The names of its options.
    pub options: Vec<&'static str>,
    /// The rows are those of one log of sessions.
    pub is_log: bool,
}

/// All types of questions, in the order of the command's help.
pub fn kinds() -> Vec<Kind> {
    QuestionKinds::new(all_kinds::all()).iter().map(Kind::of).collect()
}

impl Kind {
    fn of(kind: &QuestionKind) -> Self {
        let own = kind.options.iter().filter(|option| !OTHER_FORMS.contains(option));
        let options = COMMON_OPTIONS.iter().chain(own).copied().collect();
        let is_log = Log::of(weir::sessions::SessionRegistry::builtin(), kind.name).is_some();
        Self { name: kind.name, about: kind.about.to_string(), options, is_log }
    }
}

/// A stated question.
#[derive(Debug, Clone)]
pub struct Question(QuestionSpec);

impl Question {
    /// The question of this type with the options in `options`, an object of JSON. `name` is unique in the
    /// run.
    ///
    /// # Errors
    /// The type or an option does not exist (the message names those that do), or a value has another type
    /// than its option.
    pub fn of(name: &str, kind: &str, options: &str) -> Result<Self, Mistake> {
        let known = Kind::of(QuestionKinds::new(all_kinds::all()).get(kind)?).options;
        let options: Map<String, Value> = serde_json::from_str(options).map_err(Mistake::new)?;
        if let Some(unknown) = options.keys().find(|option| !known.contains(&option.as_str())) {
            let near = weir::lang::diag::suggest(unknown, known.iter().copied());
            let hint = near.map_or_else(|| known.join(", "), |near| format!("is `{near}` meant?"));
            return Err(Mistake::new(format!("`{kind}` has no option `{unknown}`: {hint}")));
        }
        let mut spec = QuestionSpec {
            name: name.to_string(),
            ask: kind.to_string(),
            format: Some(Format::Arrow.label().to_string()),
            ..QuestionSpec::default()
        };
        spec.set_all(&options).map_err(Mistake::new)?;
        Ok(Self(spec))
    }

    /// The same question with every row, also of logs that otherwise suppress rows which were shown before
    /// (certificates in `x509`): which rows came before is unknown to a run over a part of the captures.
    #[must_use]
    pub fn with_repeated(mut self) -> Self {
        self.0.repeated = true;
        self
    }
}

/// The questions of a run, checked.
pub struct Questions {
    plan: Plan,
    settled: Vec<SettledRows>,
    names: Vec<String>,
}

impl Questions {
    /// Checks questions over an input. Nothing is opened or created.
    ///
    /// # Errors
    /// All mistakes in the input and the questions.
    pub fn of(input: &Input, questions: Vec<Question>) -> Result<Self, Mistake> {
        let specs: Vec<QuestionSpec> = questions.into_iter().map(|question| question.0).collect();
        let plan = Plan::new(input, RunSettings::default(), &specs)?;
        Ok(Self::of_plan(plan)?)
    }

    /// As [`of`](Self::of), over the packets of another source in place of the input's, on one worker.
    /// `first_time`: the time of the first packet that `frame.time_relative` refers to.
    ///
    /// # Errors
    /// As for [`of`](Self::of).
    pub fn of_source(
        input: &Input,
        first_time: Option<Timestamp>,
        questions: Vec<Question>,
    ) -> Result<Self, Mistake> {
        let specs: Vec<QuestionSpec> = questions.into_iter().map(|question| question.0).collect();
        let plan = Plan::new(input, RunSettings { first_time, ..RunSettings::default() }, &specs)?;
        Ok(Self::of_plan(plan)?)
    }

    /// The questions with which a run begins.
    ///
    /// # Errors
    /// All mistakes in the questions.
    pub fn of_plan(plan: Plan) -> Result<Self, Failure> {
        let is_one = plan.specs().len() == 1;
        let (mut settled, mut wrong) = (vec![], vec![]);
        for spec in plan.specs() {
            match plan.set().settle_rows(spec) {
                Ok(rows) => settled.push(rows),
                Err(failure) => wrong.push(if is_one { failure } else { failure.of_question(&spec.name) }),
            }
        }
        Failure::all(wrong)?;
        let names = plan.specs().iter().map(|spec| spec.name.clone()).collect();
        Ok(Self { plan, settled, names })
    }

    /// The columns of the rows of each question, in the order of the questions.
    pub fn columns(&self) -> impl Iterator<Item = &[Column]> {
        self.settled.iter().map(|settled| &*settled.columns)
    }

    /// The name of the log of each question's rows; empty if the rows are no log.
    pub fn logs(&self) -> impl Iterator<Item = &'static str> {
        self.settled.iter().map(|settled| settled.log)
    }

    /// How the questions are evaluated, as text: all stages in short, or one (`parse`, `trie`, `ir`, `opt`,
    /// `kernel`, `device`, `fast-path`, `code`).
    ///
    /// # Errors
    /// The questions cannot be compiled together; there is no such stage.
    pub fn explain(self, stage: Option<&str>) -> Result<String, Mistake> {
        const STAGES: &[&str] = &["parse", "trie", "ir", "opt", "kernel", "device", "fast-path", "code"];
        if let Some(unknown) = stage.filter(|stage| !STAGES.contains(stage)) {
            return Err(Mistake::new(format!(
                "there is no stage `{unknown}`; there are {}",
                STAGES.join(", ")
            )));
        }
        let Self { plan, settled, .. } = self;
        let mut run = plan.narrowed().begin();
        settled.into_iter().try_for_each(|settled| run.show(settled.questions))?;
        let compiled = run.compile()?.clone();
        let catalog = run.set().compiler.catalog();
        Ok(match stage {
            Some(stage) => explain::stage(&compiled, catalog, stage),
            None => explain::overview(&compiled, catalog),
        })
    }

    /// Answers the questions in one pass: `takers` receive the rows, in the order of the questions, on this
    /// thread. `progress` receives the bytes that were read and, if known, those of the whole input.
    /// `listener` receives messages, also on other threads: what the compiler says about the questions, how
    /// live input is read, and what the answers lack because of bounds. The run ends with the input, when no
    /// taker wants more rows, or when `ender` says so.
    ///
    /// # Errors
    /// The questions cannot be compiled together, or the input cannot be opened. Damage of the input is in
    /// the result, since what is readable is answered.
    ///
    /// # Panics
    /// If there is not one taker for each question.
    pub fn run(
        self,
        takers: Vec<Box<dyn TakeRows>>,
        ender: &Ender,
        listener: Listener,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<Ended, Mistake> {
        let open = |run: &Run<'_>| run.open(false, ender);
        Listener::within(Some(listener), || self.answer(takers, open, ender, progress))
    }

    /// As [`run`](Self::run), over the packets of another source: see [`of_source`](Self::of_source). The
    /// source itself must end when `ender` says so.
    ///
    /// # Errors
    /// The questions cannot be compiled together.
    ///
    /// # Panics
    /// If there is not one taker for each question.
    pub fn run_over(
        mut self,
        takers: Vec<Box<dyn TakeRows>>,
        source: impl Source,
        ender: &Ender,
        listener: Listener,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<Ended, Mistake> {
        self.plan = self.plan.with_one_worker();
        Listener::within(Some(listener), || self.answer(takers, |_| Ok(source), ender, progress))
    }

    fn answer<S: Source>(
        self,
        takers: Vec<Box<dyn TakeRows>>,
        open: impl FnOnce(&Run<'_>) -> Result<S, Failure>,
        ender: &Ender,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<Ended, Mistake> {
        assert_eq!(takers.len(), self.settled.len(), "a taker for each question");
        let Self { plan, settled, names } = self;
        let mut run = plan.begin();
        let faults = Arc::new(Mutex::new(vec![]));
        let is_link = !run.set().input.interface.is_empty();
        for ((settled, taker), name) in settled.into_iter().zip(takers).zip(names) {
            let yielded = Yielded::new(settled.rows, taker, is_link, (name, Arc::clone(&faults)));
            run.subscribe(settled.questions, yielded)?;
            if settled.lost_bytes {
                run.report_lost_bytes();
            }
        }
        run.compile()?;
        let mut source = open(&run)?;
        let mut show = |source: &dyn Source| {
            let (read, whole) = source.progress();
            progress(read, whole);
        };
        let outcome = run.over(&mut source, &mut show)?;
        show(&source);
        let blocked = run.set().outlets.wait();
        let ran = run.report(outcome, !ender.has_ended(), None);
        let mut errors: Vec<String> = ran.outcome.errors.iter().map(ToString::to_string).collect();
        errors
            .extend(blocked.into_iter().map(|(output, _)| format!("{output} is blocked, and not complete")));
        errors.append(&mut faults.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Ended { errors })
    }
}

/// The compiler and its options for runs over an input: what decides about connections, whatever the
/// questions.
///
/// # Errors
/// A stack does not exist, or an option is wrong.
pub fn settings(input: &Input) -> Result<(weir::Compiler, weir::Options), Mistake> {
    Ok((program::compiler(&input.stack)?, program::options(input)?))
}

/// The end of a run.
#[derive(Debug)]
pub struct Ended {
    /// What could not be read, and files that could not be written. Everything readable was answered.
    pub errors: Vec<String>,
}

/// The fields that filters can use with these stacks and `.weir` files: columns, and one row for each field
/// whose name or meaning has all of these words.
///
/// # Errors
/// A stack does not exist, or a file has mistakes.
pub fn fields(stacks: &[String], words: &str) -> Result<(&'static [Column], Batch), Mistake> {
    let compiler = program::compiler(stacks)?;
    Ok((field_list::COLUMNS, field_list::rows(&compiler, words)))
}
