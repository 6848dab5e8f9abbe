//! `weir run`: several questions at once, from a file, over one reading of the packets; more may come and go through a
//! control socket while it lasts. `weir zeek`: the questions that make Zeek's logs.

use crate::args::{Input, Run, Zeek};
use crate::control;
use crate::failure::Failure;
use crate::questions::{Prepared, Question, QuestionSet, QuestionSpec};
use crate::runner::{self, Runner};
use crate::{input, output};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, PoisonError};
use toml::Spanned;
use weir::Engine;
use weir::io::Format;

/// What a file of questions says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Questions {
    /// Capture files, where the command line names none.
    #[serde(default)]
    read: Vec<PathBuf>,
    /// A stack by name, or a .weir file with one.
    #[serde(default)]
    stack: Option<String>,
    /// Workers, where the command line does not say.
    #[serde(default, deserialize_with = "workers")]
    workers: Option<usize>,
    /// The questions, as they stand there: each is read alone, so that all that is wrong can be said.
    #[serde(default)]
    question: Vec<Spanned<toml::Table>>,
}

/// As the command line's.
fn workers<'de, D: Deserializer<'de>>(value: D) -> Result<Option<usize>, D::Error> {
    let value = i64::deserialize(value).ok().and_then(|number| usize::try_from(number).ok());
    let wanted = || D::Error::custom("`workers`: give a whole number of at least 1, for example 4");
    value.filter(|number| *number > 0).map(Some).ok_or_else(wanted)
}

impl Questions {
    /// The questions of the text of a file, and what is wrong with those that are none.
    fn specs(&self, path: &Path, text: &str) -> (Vec<QuestionSpec>, Vec<Failure>) {
        let (mut specs, mut wrong) = (vec![], vec![]);
        for question in &self.question {
            match QuestionSpec::deserialize(question.get_ref().clone()) {
                Ok(spec) => specs.push(spec),
                Err(error) => {
                    let before = text.get(..question.span().start).unwrap_or_default();
                    let line =
                        before.lines().count() + usize::from(before.ends_with('\n') || before.is_empty());
                    let (path, error) = (path.display(), error.message().to_string());
                    wrong.push(Failure::new(format!("{path}: the question of line {line}: {error}")));
                }
            }
        }
        (specs, wrong)
    }
}

pub fn run(args: &Run) -> Result<ExitCode, Failure> {
    let (mut questions, mut specs, mut wrong) = (Questions::default(), vec![], vec![]);
    if let Some(path) = &args.file {
        let text = input::read_text(path)?;
        questions =
            toml::from_str(&text).map_err(|wrong| Failure::new(format!("{}: {wrong}", path.display())))?;
        (specs, wrong) = questions.specs(path, &text);
        let overwrites =
            |spec: &&QuestionSpec| spec.output.as_ref().is_some_and(|out| output::is_same_file(out, path));
        wrong.extend(specs.iter().filter(overwrites).map(|spec| {
            let message = format!("{} is the file of questions: write to another file", path.display());
            Failure::new(message).of_question(&spec.name)
        }));
    }
    let mut input = args.input.clone();
    if input.read.is_empty() {
        input.read = questions.read.drain(..).map(PathBuf::into_os_string).collect();
    }
    if input.program.stack.is_empty() {
        input.program.stack.extend(questions.stack.take());
    }
    if input.workers == 1 {
        input.workers = questions.workers.unwrap_or(1);
    }
    if input.read.is_empty() {
        return Err(Failure::new("no input: give -r FILE, or `read = [\"FILE\"]` in the file of questions"));
    }
    if questions.question.is_empty() && args.control.is_none() {
        return Err(Failure::new("no question: give `[[question]]` in a file, or --control SOCKET"));
    }
    answer(&input, (&specs, wrong), args.control.as_deref(), args.stats)
}

/// The questions of Zeek's logs, a file each.
pub fn zeek(args: &Zeek) -> Result<ExitCode, Failure> {
    let dir = &args.dir;
    // All logs have one filter: what is wrong with it is said once.
    if let Some(filter) = &args.filter {
        let program = &args.input.program;
        input::compiler(&program.stack)?.check_filter(filter, program.bpf)?;
    }
    std::fs::create_dir_all(dir).map_err(|e| Failure::new(format!("{}: {e}", dir.display())))?;
    let format: Format = args.format.parse().map_err(Failure::new)?;
    let ending = if format.is_columnar() { format.label() } else { "log" };
    let spec = |path: &str, ask: &str| QuestionSpec {
        name: path.to_string(),
        ask: ask.to_string(),
        filter: args.filter.clone().unwrap_or_default(),
        format: Some(args.format.clone()),
        output: Some(dir.join(format!("{path}.{ending}"))),
        // Zeek makes no log of what did not happen.
        drops_empty: true,
        ..QuestionSpec::default()
    };
    let mut specs = vec![spec("conn", "flows")];
    let logs = weir::Log::all().into_iter().chain(weir::Log::of_parts());
    specs.extend(logs.map(|log| spec(log.path, log.ask)));
    answer(&args.input, (&specs, vec![]), None, args.stats)
}

/// Answers all of them in one run; or says all that is wrong with any, what is known to be `wrong` first.
fn answer(
    input: &Input,
    (specs, mut wrong): (&[QuestionSpec], Vec<Failure>),
    socket: Option<&Path>,
    stats: bool,
) -> Result<ExitCode, Failure> {
    let mut options = input::options(&input.program, Some(input))?;
    options.timed = stats;
    let board = Arc::new(QuestionSet::new(input.clone(), input::compiler(&input.program.stack)?));
    wrong.extend(specs.iter().enumerate().flat_map(|(index, spec)| board.check(spec, &specs[..index])));
    Failure::all(wrong)?;
    input::check_files(input, &board.compiler)?;
    let mut engine = Engine::with(board.compiler.clone(), options);
    {
        let mut names = board.names.lock().unwrap_or_else(PoisonError::into_inner);
        for spec in specs {
            let Prepared { question, answers } = board.admit(spec, &names)?;
            let added = match question {
                Question::Items(ask, shape) => engine.subscribe_items(ask, shape, answers),
                Question::Stream(streams) => engine.subscribe_stream_items(streams, answers),
            };
            let added = added.map_err(|wrong| Failure::from(wrong).of_question(&spec.name))?;
            names.insert(spec.name.clone(), (added, spec.clone()));
        }
    }
    let _listening =
        socket.map(|path| control::listen(path, engine.control(), Arc::clone(&board))).transpose()?;
    let compiled = engine.compile()?;
    runner::warn(&compiled);
    let runner = Runner {
        input,
        findings: &board.findings,
        has_control: socket.is_some(),
        lost_bytes: specs.iter().any(QuestionSpec::is_of_streams),
        stats,
        is_over: Arc::default(),
    };
    let outcome = runner.run(&mut engine, &compiled)?;
    let ran = runner.report(&compiled, outcome);
    match board.fault.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // Nobody reads one of the outputs any more; what is wrong with the input counts all the same.
        Some(Failure::BrokenPipe) => Ok(ran.status),
        Some(failure) => Err(failure),
        None => Ok(ran.status),
    }
}
