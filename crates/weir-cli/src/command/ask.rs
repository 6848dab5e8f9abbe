//! What every question does: compile, open the captures, run, report.

use crate::args::{Ask, Output};
use crate::captures::Captures;
use crate::failure::Failure;
use crate::report::{self, Ran};
use crate::stream_questions::Classes;
use crate::{input, output, terminal};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Instant;
use weir::io::{Findings, Found};
use weir::lang::model::Stack;
use weir::packet::{Column, Sink, Source, Value};
use weir::stream::Streams;
use weir::{Compiled, Compiler, Item, Need, Shape, Stages, Want};

/// Bytes of input from which on a progress bar is worth its space.
const PROGRESS_BYTES_MIN: u64 = 64 << 20;

/// Workers beyond this many are no use.
pub const WORKERS_MAX: usize = 256;

/// A program ready to be run.
pub struct Question {
    compiler: Compiler,
    /// The program.
    pub compiled: Compiled,
    /// What its rows are made of.
    pub shape: Shape,
    /// What its reader meets beside packets.
    pub findings: Findings,
    args: Ask,
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
    let mut options = input::options(&args.input.program, Some(&args.input))?;
    options.timed = args.output.stats;
    input::check_files(&args.input, &compiler)?;
    let compiled = compiler.compile(&asks, &options)?;
    if !compiled.warnings().list.is_empty() {
        say!("{}", compiled.warnings().render(terminal::stderr_color()));
    }
    Ok(Question::of(compiler, compiled, args))
}

/// Compiles subscriptions to streams into one program.
pub fn compile_streams(
    compiler: Compiler,
    args: &Ask,
    streams: &Streams,
    classes: Classes,
) -> Result<Question, Failure> {
    let mut options = input::options(&args.input.program, Some(&args.input))?;
    (options.timed, options.overload) = (args.output.stats, classes.overload);
    input::check_files(&args.input, &compiler)?;
    let compiled = streams.compile(&compiler, &options)?;
    Ok(Question::of(compiler, compiled, args))
}

impl Question {
    fn of(compiler: Compiler, compiled: Compiled, args: &Ask) -> Self {
        let (shape, findings) = (Shape::default(), Findings::default());
        Self { compiler, compiled, shape, findings, args: args.clone() }
    }

    /// Runs it over the captures; every item goes to `each`. Faults are reported.
    pub fn run(
        &self,
        shape: Shape,
        each: &mut dyn FnMut(Item) -> Result<(), Failure>,
    ) -> Result<Ran, Failure> {
        // The counter of cycles is calibrated once, and not at the expense of the run's time.
        let _ = Stages::new(self.args.output.stats);
        let started = Instant::now();
        let mut captures = Captures::open(&self.args.input, false, &self.findings)?;
        let bar = progress_bar(&captures);
        let outcome = weir::run(
            &self.compiler,
            &self.compiled,
            &mut captures,
            &vec![shape; self.compiled.question_count()],
            self.args.input.workers.min(WORKERS_MAX),
            &mut |_, item| each(item),
            &mut |source| bar.iter().for_each(|b| b.set_position(source.progress().0)),
        )?;
        bar.iter().for_each(ProgressBar::finish_and_clear);
        let stopped = captures.stopped();
        let mut status = stopped.unwrap_or(ExitCode::SUCCESS);
        for error in &outcome.errors {
            say!("weir: {error}");
            status = ExitCode::from(2);
        }
        if let Some(why) = &outcome.one_worker {
            say!("weir: using one worker instead of {}: {why}", self.args.input.workers);
        }
        let found = self.findings.found();
        warn_of_links(self.compiled.stack(), &found);
        let ran = Ran { status, is_whole: stopped.is_none(), ..Ran::of(outcome, found) };
        report::losses(&ran);
        if self.args.output.stats {
            report::stats(&self.compiled, &ran, started.elapsed().as_secs_f64());
        }
        Ok(ran)
    }
}

/// Interfaces whose packets the stack can't start from are named, once each.
pub fn warn_of_links(stack: &Stack, found: &Found) {
    let mut named = vec![];
    for interface in &found.interfaces {
        let known = stack.starts.iter().any(|(number, _)| *number == interface.link.0);
        if !known && !named.contains(&interface.link) {
            named.push(interface.link);
            let (file, link, stack) = (&interface.file, interface.link, &stack.name);
            say!("weir: {file}: {link} is not a start of the stack `{stack}`: its packets have no layers");
        }
    }
}

/// A bar where a person is watching and the input is large.
pub fn progress_bar(source: &dyn Source) -> Option<ProgressBar> {
    let total = source.progress().1?;
    if total < PROGRESS_BYTES_MIN || !std::io::stderr().is_terminal() {
        return None;
    }
    let style =
        ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes}  {bytes_per_sec}  {eta}").ok()?;
    Some(ProgressBar::new(total).with_style(style))
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
    own: Option<Box<dyn Sink + Send>>,
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
