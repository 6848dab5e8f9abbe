//! What every question does: compile, open the captures, run, report.

use crate::args::{Ask, Output};
use crate::failure::Failure;
use crate::{input, output};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Instant;
use weir::io::CaptureReader;
use weir::packet::{Column, Source, Value};
use weir::{Compiled, Compiler, Item, Need, Outcome, Shape, Stage, Want};

/// Bytes of input from which on a progress bar is worth its space.
const PROGRESS_BYTES_MIN: u64 = 64 << 20;

/// Workers beyond this many are no use.
const WORKERS_MAX: usize = 256;

/// A program ready to be run.
pub struct Question {
    compiler: Compiler,
    /// The program.
    pub compiled: Compiled,
    args: Ask,
}

/// How it ran.
pub struct Ran {
    /// What became of the packets.
    pub outcome: Outcome,
    /// The exit status that this calls for.
    pub status: ExitCode,
    /// Blocks that the reader passed over.
    pub blocks_skipped: u64,
}

/// One question: the filter of the command line, and what is wanted of what it lets through.
pub fn one(args: &Ask, need: Need, want: Want) -> [weir::Ask; 1] {
    [weir::Ask { filter: args.filter.clone().unwrap_or_default(), need, want }]
}

/// Compiles questions into one program.
pub fn compile<const N: usize>(args: &Ask, asks: [weir::Ask; N]) -> Result<Question, Failure> {
    let compiler = input::compiler(&args.input.program.stack)?;
    let options = input::options(&args.input.program, Some(&args.input))?;
    let compiled = compiler.compile(&asks, &options)?;
    if !compiled.warnings.list.is_empty() {
        eprintln!("{}", compiled.warnings.render(output::stderr_color()));
    }
    Ok(Question { compiler, compiled, args: args.clone() })
}

impl Question {
    /// Runs it over the captures; every item goes to `each`. Faults are reported.
    pub fn run(
        &self,
        shape: Shape,
        each: &mut dyn FnMut(Item) -> Result<(), Failure>,
    ) -> Result<Ran, Failure> {
        let started = Instant::now();
        let mut reader = CaptureReader::open(&self.args.input.read);
        let bar = progress_bar(&reader);
        let outcome = weir::run(
            &self.compiler,
            &self.compiled,
            &mut reader,
            &vec![shape; self.compiled.filters.len()],
            self.args.input.workers.clamp(1, WORKERS_MAX),
            &mut |_, item| each(item),
            &mut |source| bar.iter().for_each(|b| b.set_position(source.progress().0)),
        )?;
        bar.iter().for_each(ProgressBar::finish_and_clear);
        let mut status = ExitCode::SUCCESS;
        for error in &outcome.errors {
            eprintln!("weir: {error}");
            status = ExitCode::from(2);
        }
        self.warn_of_links(&reader);
        warn_of_losses(&outcome);
        if self.args.output.stats {
            report(&self.compiled, &outcome, started.elapsed().as_secs_f64());
        }
        Ok(Ran { outcome, status, blocks_skipped: reader.blocks_skipped() })
    }

    /// Interfaces whose packets the stack can't start from are named, once each.
    fn warn_of_links(&self, reader: &CaptureReader) {
        let stack = &self.compiled.stack;
        let mut named = vec![];
        for interface in reader.interfaces() {
            let known = stack.starts.iter().any(|(number, _)| *number == interface.link.0);
            if !known && !named.contains(&interface.link) {
                named.push(interface.link);
                let (file, link, stack) = (&interface.file, interface.link, &stack.name);
                eprintln!(
                    "weir: {file}: {link} is none that the stack `{stack}` starts from: its packets have no layers"
                );
            }
        }
    }
}

/// A bar where a person is watching and the input is large.
fn progress_bar(source: &dyn Source) -> Option<ProgressBar> {
    let total = source.progress().1?;
    if total < PROGRESS_BYTES_MIN || !std::io::stderr().is_terminal() {
        return None;
    }
    let style =
        ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes}  {bytes_per_sec}  {eta}").ok()?;
    Some(ProgressBar::new(total).with_style(style))
}

/// What a bound cut off is said even without `--stats`.
fn warn_of_losses(outcome: &Outcome) {
    let (flows, undecided) = (outcome.counters.flow.flows_refused, outcome.counters.packet.undecided);
    if flows > 0 {
        eprintln!("weir: {flows} packets have no connection: the flow table was full (--flows-max)");
    }
    if undecided > 0 {
        eprintln!(
            "weir: {undecided} packets were given up before their connection was known: too many had to wait"
        );
    }
}

/// Rows of one kind: columns, and what hands an item's values to the sink.
pub fn rows(
    question: &Question,
    args: &Output,
    columns: &[Column],
    mut row: impl FnMut(&Item, &mut dyn FnMut(&[Value<'_>]) -> io::Result<()>) -> io::Result<()>,
) -> Result<ExitCode, Failure> {
    if args.count {
        return count(question, args);
    }
    let mut sink = output::sink(args)?;
    sink.begin(columns)?;
    let ran = question.run(Shape::default(), &mut |item| {
        row(&item, &mut |values| sink.row(values))?;
        Ok(())
    })?;
    sink.end()?;
    Ok(ran.status)
}

/// The number of answers alone. Exit status 1 where there is none, as grep's.
pub fn count(question: &Question, args: &Output) -> Result<ExitCode, Failure> {
    let shape = Shape { count_only: true, ..Shape::default() };
    let Ran { outcome, status, .. } = question.run(shape, &mut |_| Ok(()))?;
    let matched = outcome.matched.first().copied().unwrap_or(0);
    let mut out = output::writer(args)?;
    writeln!(out, "{matched}")?;
    out.flush()?;
    let clean = outcome.errors.is_empty();
    Ok(if clean && matched == 0 { ExitCode::from(1) } else { status })
}

/// Counters and stages, to standard error.
fn report(compiled: &Compiled, outcome: &Outcome, seconds: f64) {
    let counters = &outcome.counters;
    let timing = compiled.timing;
    let micros = |d: std::time::Duration| d.as_secs_f64() * 1e6;
    eprintln!(
        "program    {}; parse {:.0} µs, lower {:.0} µs, passes {:.0} µs, code {:.0} µs",
        if compiled.engine.is_ok() { "native" } else { "interpreter" },
        micros(timing.parse),
        micros(timing.lower),
        micros(timing.optimize),
        micros(timing.code)
    );
    let packets = counters.packet.packets.max(1);
    eprintln!(
        "run        {seconds:.3} s, {:.2} Mpackets/s, {:.2} Gbit/s",
        packets as f64 / seconds / 1e6,
        counters.packet.wire_bytes as f64 * 8.0 / seconds / 1e9
    );
    for (name, stage) in [("head", Stage::Head), ("tail", Stage::Tail)] {
        let (passed, time) = outcome.stages.of(stage);
        let each = if passed == 0 { 0.0 } else { time.as_nanos() as f64 / passed as f64 };
        eprintln!(
            "{name:<10} {passed} packets ({:.4} %), {:.3} s, {each:.1} ns each",
            passed as f64 * 100.0 / packets as f64,
            time.as_secs_f64()
        );
    }
    for (name, value, _) in counters.iter().filter(|c| c.1 > 0) {
        eprintln!("{name:<20} {value}");
    }
    eprintln!("{:<20} {}", "table_bytes", outcome.table_bytes);
}
