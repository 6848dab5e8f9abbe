//! What commands with one question have in common: compile it, run it (`runner`), write its rows or their number.

use crate::args::{Ask, Output};
use crate::failure::Failure;
use crate::report::{self, Ran};
use crate::runner::{self, Runner};
use crate::stream_questions::Classes;
use crate::{input, output};
use std::cell::RefCell;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir::io::Findings;
use weir::packet::{Column, RowSink, Value};
use weir::stream::StreamQuestion;
use weir::{Compiled, Compiler, Engine, Item, Need, Next, Options, Shape, TakeItems, Want};

/// A program ready to be run.
pub struct Question {
    compiler: Compiler,
    options: Options,
    asked: Vec<Asked>,
    /// The program.
    pub compiled: Compiled,
    /// What its rows are made of.
    pub shape: Shape,
    /// What its reader meets beside packets.
    pub findings: Findings,
    args: Ask,
}

/// What is asked of the program.
#[derive(Clone)]
enum Asked {
    Items(weir::Ask),
    Stream(StreamQuestion),
}

/// One question: the filter of the command line, and what is wanted of what it lets through.
pub fn one(args: &Ask, need: Need, want: Want) -> [weir::Ask; 1] {
    [weir::Ask { filter: args.filter.clone().unwrap_or_default(), need, want }]
}

/// Compiles questions into one program.
pub fn compile<const N: usize>(args: &Ask, asks: [weir::Ask; N]) -> Result<Question, Failure> {
    compile_over(input::compiler(&args.input.program.stack)?, args, asks)
}

/// As [`compile`], over stacks that were read before.
pub fn compile_over<const N: usize>(
    compiler: Compiler,
    args: &Ask,
    asks: [weir::Ask; N],
) -> Result<Question, Failure> {
    if let Some(path) = &args.output.output {
        output::refuse_input(path, &args.input)?;
    }
    let options = options(&compiler, args)?;
    let question = Question::of(compiler, options, args, asks.map(Asked::Items).to_vec())?;
    runner::warn(&question.compiled);
    Ok(question)
}

/// Compiles questions about streams into one program.
pub fn compile_streams(
    compiler: Compiler,
    args: &Ask,
    questions: Vec<StreamQuestion>,
    classes: Classes,
) -> Result<Question, Failure> {
    let options = Options { overload: classes.overload, ..options(&compiler, args)? };
    Question::of(compiler, options, args, questions.into_iter().map(Asked::Stream).collect())
}

/// How the questions are compiled; the captures are checked, too.
fn options(compiler: &Compiler, args: &Ask) -> Result<Options, Failure> {
    let options = input::options(&args.input.program, Some(&args.input))?;
    input::check_files(&args.input, compiler)?;
    Ok(Options { timed: args.output.stats, ..options })
}

impl Question {
    fn of(compiler: Compiler, options: Options, args: &Ask, asked: Vec<Asked>) -> Result<Self, Failure> {
        let mut engine = Engine::with(compiler.clone(), options.clone());
        subscribe(&mut engine, &asked, Shape::default(), || Nobody)?;
        let compiled = engine.compile()?;
        let (shape, findings) = (Shape::default(), Findings::default());
        Ok(Self { compiler, options, asked, compiled, shape, findings, args: args.clone() })
    }

    /// Runs the question over the captures; every item goes to `each`, whose first failure ends the run.
    pub fn run(
        &self,
        shape: Shape,
        each: &mut dyn FnMut(Item) -> Result<(), Failure>,
    ) -> Result<Ran, Failure> {
        let is_over = Arc::new(AtomicBool::new(false));
        let taker = RefCell::new(Taker { each, failure: None, is_over: Arc::clone(&is_over) });
        let mut engine = Engine::with(self.compiler.clone(), self.options.clone());
        subscribe(&mut engine, &self.asked, shape, || Share(&taker))?;
        let runner = Runner {
            input: &self.args.input,
            findings: &self.findings,
            has_control: false,
            lost_bytes: false,
            stats: self.args.output.stats,
            is_over,
        };
        let outcome = runner.run(&mut engine, &self.compiled)?;
        drop(engine);
        if let Some(failure) = taker.into_inner().failure {
            return Err(failure);
        }
        Ok(runner.report(&self.compiled, outcome))
    }
}

fn subscribe<'c, T: TakeItems + 'c>(
    engine: &mut Engine<'c>,
    asked: &[Asked],
    shape: Shape,
    take: impl Fn() -> T,
) -> Result<(), Failure> {
    for one in asked {
        match one.clone() {
            Asked::Items(ask) => engine.subscribe_items(ask, shape, take())?,
            Asked::Stream(question) => engine.subscribe_stream_items(question, take())?,
        };
    }
    Ok(())
}

/// Where items go while a program is only compiled.
struct Nobody;

impl TakeItems for Nobody {
    fn take(&mut self, _: Item) -> Next {
        Next::Go
    }
}

/// Takes the items of all questions, until one fails.
struct Taker<'e> {
    each: &'e mut dyn FnMut(Item) -> Result<(), Failure>,
    failure: Option<Failure>,
    is_over: Arc<AtomicBool>,
}

/// A question's share of the taker.
struct Share<'t, 'e>(&'t RefCell<Taker<'e>>);

impl TakeItems for Share<'_, '_> {
    fn take(&mut self, item: Item) -> Next {
        let taker = &mut *self.0.borrow_mut();
        if taker.failure.is_none()
            && let Err(failure) = (taker.each)(item)
        {
            taker.failure = Some(failure);
            // The captures end here: a program without questions would read them to their end.
            taker.is_over.store(true, Ordering::Relaxed);
        }
        Next::Go
    }
}

/// Rows of one kind: the name of their log, columns, and what hands an item's values to the sink.
pub fn rows(
    question: &Question,
    args: &Output,
    (path, columns): (&'static str, &[Column]),
    mut row: impl FnMut(&Item, &mut dyn FnMut(&[Value<'_>]) -> io::Result<()>) -> io::Result<()>,
) -> Result<ExitCode, Failure> {
    if args.count {
        return count(question, args);
    }
    let mut sink = output::sink(args, path)?;
    sink.begin(columns)?;
    let ran = question.run(question.shape, &mut |item| {
        match item {
            Item::Pause => sink.flush()?,
            item => row(&item, &mut |values| sink.row(values))?,
        }
        Ok(())
    })?;
    sink.end()?;
    Ok(ran.status)
}

/// Rows that handlers of streams emit, to a sink of their own or as `args` say, or their number; how many there were.
pub fn stream_rows(
    question: &Question,
    args: &Output,
    own: Option<Box<dyn RowSink + Send>>,
    columns: &[Column],
) -> Result<(Ran, u64), Failure> {
    let mut count = 0u64;
    let mut sink = match (args.count, own) {
        (true, _) => None,
        (false, None) => Some(output::sink(args, "")?),
        (false, own) => own,
    };
    if let Some(sink) = &mut sink {
        sink.begin(columns)?;
    }
    let ran = question.run(Shape::default(), &mut |item| {
        match (item, &mut sink) {
            (Item::Stream(row), sink) => {
                count += 1;
                sink.as_mut().map_or(Ok(()), |sink| sink.row(&row))?;
            }
            (Item::Pause, Some(sink)) => sink.flush()?,
            _ => {}
        }
        Ok(())
    })?;
    report::lost_bytes(&ran);
    if let Some(sink) = &mut sink {
        sink.end()?;
    } else {
        write_count(args, &ran, count)?;
    }
    Ok((ran, count))
}

/// The number of answers alone. Exit status 1 where there is none, as grep's.
pub fn count(question: &Question, args: &Output) -> Result<ExitCode, Failure> {
    let shape = Shape { count_only: true, ..question.shape };
    let ran = question.run(shape, &mut |_| Ok(()))?;
    write_count(args, &ran, ran.outcome.matched.first().copied().unwrap_or(0))
}

/// The number of rows that are to be counted.
pub fn count_rows(
    question: &Question,
    args: &Output,
    mut is_counted: impl FnMut(&[Value<'_>]) -> bool,
) -> Result<ExitCode, Failure> {
    let mut count = 0;
    let ran = question.run(question.shape, &mut |item| {
        if let Item::Session(_, row) = item {
            count += u64::from(is_counted(&row));
        }
        Ok(())
    })?;
    write_count(args, &ran, count)
}

/// Writes a number alone; the exit status of a run that counted so many.
fn write_count(args: &Output, ran: &Ran, count: u64) -> Result<ExitCode, Failure> {
    let mut out = output::writer(args)?;
    writeln!(out, "{count}")?;
    out.flush()?;
    Ok(status_of(ran, count))
}

/// Exit status 1 where nothing was found by who looks for something (`weir match`) or counts, as of grep.
pub fn status_of(ran: &Ran, count: u64) -> ExitCode {
    if ran.is_whole && ran.outcome.errors.is_empty() && count == 0 { ExitCode::from(1) } else { ran.status }
}
