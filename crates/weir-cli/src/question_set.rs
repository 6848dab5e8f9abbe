//! The questions of a run: checks each against the others, and prepares it.

use crate::answers::{Answers, Part, Told};
use crate::args::Input;
use crate::failure::Failure;
use crate::form::Form;
use crate::output;
use crate::spec::{QuestionSpec, Stdout};
use crate::subcommand::{Context, QuestionKind, Resolved, Subcommand};
use std::collections::HashMap;
use std::io;
use std::sync::Mutex;
use weir::io::{Findings, Options, Partitions};
use weir::{Compiler, Question, Subscription};

/// The questions of a run by name, and their shared state.
pub struct QuestionSet {
    /// The active questions.
    pub names: Mutex<HashMap<String, (Subscription, QuestionSpec)>>,
    /// The captures that the run reads.
    pub input: Input,
    /// What the reader finds in captures beside packets.
    pub findings: Findings,
    /// The compiler that checks filters.
    pub compiler: Compiler,
    /// Shared faults and counts of the outputs.
    pub told: Told,
    /// How to resolve questions, by command name, in the order of the subcommand list.
    kinds: Vec<(&'static str, QuestionKind)>,
    stdout: Stdout,
}

/// A question ready for subscription.
pub struct Prepared {
    /// The questions for the engine.
    pub questions: Vec<Question>,
    /// The output of the answers.
    pub answers: Answers,
    /// A line for the report of counters.
    pub note: Option<String>,
}

impl QuestionSet {
    /// An empty set.
    pub fn new(input: Input, compiler: Compiler, commands: &[Subcommand], stdout: Stdout) -> Self {
        let kinds = commands.iter().filter_map(|command| Some((command.name, command.question?))).collect();
        let (findings, told) = (Findings::default(), Told::default());
        Self { names: Mutex::default(), input, findings, compiler, told, kinds, stdout }
    }

    /// All mistakes of a question that is to run beside `others`: its name and its output must be unique. Nothing is
    /// created.
    pub fn check<'a>(
        &self,
        spec: &QuestionSpec,
        others: impl IntoIterator<Item = &'a QuestionSpec>,
    ) -> Vec<Failure> {
        if self.stdout == Stdout::Shared && (spec.name.is_empty() || spec.name.contains(char::is_control)) {
            return vec![Failure::new("a question needs a name of printable characters")];
        }
        let mut wrong = vec![];
        for other in others {
            if other.name == spec.name {
                wrong.push(Failure::new(format!("two questions are called `{}`", spec.name)));
                continue;
            }
            match (&spec.output, &other.output) {
                (Some(mine), Some(theirs)) if output::is_same_file(mine, theirs) => {
                    let (path, name) = (mine.display(), &other.name);
                    let message = format!("{path} is the output of `{name}`: use another file");
                    wrong.push(self.named(spec, Failure::new(message)));
                }
                (None, None) if !(spec.is_json() && other.is_json()) => {
                    let message = format!(
                        "`{}` also writes to standard output: give one of them an `output`",
                        other.name
                    );
                    wrong.push(self.named(spec, Failure::new(message)));
                }
                _ => {}
            }
        }
        let output = spec.output.as_ref().map_or(Ok(()), |path| {
            output::refuse_input(path, &self.input)?;
            if spec.drops_empty { output::check(&Part::of(path).path) } else { output::check(path) }
        });
        let files = spec.files.as_deref().map_or(Ok(()), output::check_directory);
        let (filter, rows) = match (self.kind(&spec.ask), self.resolve(spec)) {
            (_, Ok((resolved, form))) => (self.check_filters(&resolved), check_rows(spec, &resolved, form)),
            // Also check the filter of a question of unknown type.
            (None, Err(wrong)) => (self.check_filter(&spec.filter), Err(wrong)),
            (Some(_), Err(wrong)) => (Ok(()), Err(wrong)),
        };
        let own = [output, files, filter, rows].into_iter().filter_map(Result::err);
        wrong.extend(own.map(|wrong| self.named(spec, wrong)));
        wrong
    }

    /// Checks and prepares a question that is to run beside `names`. Its output is not touched until a program answers
    /// it; if compilation fails, an existing file stays as it is.
    pub fn admit(
        &self,
        spec: &QuestionSpec,
        names: &HashMap<String, (Subscription, QuestionSpec)>,
    ) -> Result<Prepared, Failure> {
        Failure::all(self.check(spec, names.values().map(|(_, spec)| spec)))?;
        self.prepare(spec).map_err(|wrong| self.named(spec, wrong))
    }

    /// Prepares a checked question. Nothing is created.
    fn prepare(&self, spec: &QuestionSpec) -> Result<Prepared, Failure> {
        let (mut resolved, form) = self.resolve(spec)?;
        let (questions, note) = (std::mem::take(&mut resolved.questions), resolved.note.take());
        let answers = Answers::new(spec, resolved, form, self.stdout, &self.findings, &self.told);
        Ok(Prepared { questions, answers, note })
    }

    fn resolve(&self, spec: &QuestionSpec) -> Result<(Resolved, Form), Failure> {
        let kind = self.kind(&spec.ask).ok_or_else(|| Failure::new(self.unknown(&spec.ask)))?;
        spec.check_options(kind.options)?;
        let form = spec.form(self.stdout)?;
        let (compiler, findings) = (&self.compiler, &self.findings);
        let context = Context { compiler, bpf: self.input.program.bpf, findings, form: &form };
        Ok(((kind.resolve)(spec, &context)?, form))
    }

    fn kind(&self, ask: &str) -> Option<&QuestionKind> {
        self.kinds.iter().find(|(name, _)| *name == ask).map(|(_, kind)| kind)
    }

    fn check_filters(&self, resolved: &Resolved) -> Result<(), Failure> {
        resolved.questions.iter().map(Question::filter).try_for_each(|filter| self.check_filter(filter))
    }

    fn check_filter(&self, filter: &str) -> Result<(), Failure> {
        Ok(self.compiler.check_filter(filter, self.input.program.bpf)?)
    }

    fn unknown(&self, ask: &str) -> String {
        let known: Vec<&str> = self.kinds.iter().map(|(name, _)| *name).collect();
        format!("`{ask}` is not a type of question; known are: {}", known.join(", "))
    }

    /// Adds the name of the question to a failure, if the run has several questions.
    pub fn named(&self, spec: &QuestionSpec, wrong: Failure) -> Failure {
        if self.stdout == Stdout::Shared { wrong.of_question(&spec.name) } else { wrong }
    }
}

/// Checks that the format can hold the question's rows, and that it is allowed for the output.
fn check_rows(spec: &QuestionSpec, resolved: &Resolved, form: Form) -> Result<(), Failure> {
    let Form::Rows(format) = form else { return Ok(()) };
    if let Some(directory) = spec.output.as_deref().filter(|path| output::is_directory(path)) {
        Partitions::new(directory, format, &Options::default()).map_err(Failure::new)?;
    }
    output::refuse_terminal(format, spec.output.as_deref())?;
    let options = Options { path: resolved.log, ..Options::default() };
    let mut nowhere = weir::io::sink::create(format, Box::new(io::sink()), &options);
    Ok(nowhere.begin(&resolved.columns)?)
}
