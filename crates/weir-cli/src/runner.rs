//! Runs the questions of an engine over the captures of the command line, and reports the outcome.

use crate::captures::{Captures, Hangup};
use crate::failure::Failure;
use crate::input_options::Input;
use crate::report::{self, Ran};
use crate::shortage;
use crate::terminal;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Instant;
use weir::io::Findings;
use weir::packet::Source;
use weir::{Compiled, Engine, Outcome, Stages};

/// Minimum input size, in bytes, for a progress bar.
const PROGRESS_BYTES_MIN: u64 = 64 << 20;

/// Maximum number of workers.
const WORKERS_MAX: usize = 256;

/// The input of a run, and the settings of its report.
pub struct Runner<'a> {
    /// The captures, and the number of workers.
    pub input: &'a Input,
    /// Metadata that the reader finds in the captures in addition to packets.
    pub findings: &'a Findings,
    /// Whether a control socket adds and removes questions. If so, its requests do not wait for packets, and
    /// a signal is the normal end of the run (exit status 0).
    pub has_control: bool,
    /// Whether to report bytes that are missing in streams.
    pub lost_bytes: bool,
    /// Whether to report all counters.
    pub stats: bool,
    /// Lines that questions add to the report.
    pub notes: &'a [String],
}

/// A finished run before its report.
pub struct Unreported {
    outcome: Outcome,
    stopped: Option<ExitCode>,
    seconds: f64,
}

impl Runner<'_> {
    fn workers(&self) -> usize {
        self.input.workers.min(WORKERS_MAX)
    }

    /// Opens the captures. Packets of interfaces are received from now on.
    ///
    /// # Errors
    /// As for [`Captures::open`].
    pub fn open(&self, hangup: Hangup) -> Result<Captures, Failure> {
        // Calibrate the cycle counter now, so that the measured time does not include it.
        let _ = Stages::new(self.stats);
        Captures::open(self.input, self.workers(), self.has_control, self.findings, hangup)
    }

    /// Runs the questions of `engine` over the captures; `compiled` is their program.
    pub fn run(&self, engine: &mut Engine<'_>, compiled: &Compiled, captures: Captures) -> Unreported {
        captures.announce(self.input);
        let started = Instant::now();
        self.run_over(captures, started, engine, compiled)
    }

    /// Runs the questions of `engine` over captures that are open since `started`.
    pub fn run_over(
        &self,
        mut captures: Captures,
        started: Instant,
        engine: &mut Engine<'_>,
        compiled: &Compiled,
    ) -> Unreported {
        let bar = progress_bar(&captures);
        let mut progress =
            |source: &dyn Source| bar.iter().for_each(|bar| bar.set_position(source.progress().0));
        let outcome = engine.run_compiled(compiled.clone(), &mut captures, self.workers(), &mut progress);
        bar.iter().for_each(ProgressBar::finish_and_clear);
        let seconds = started.elapsed().as_secs_f64();
        Unreported { outcome, stopped: captures.stopped(), seconds }
    }

    /// Reports faults and losses, and the counters if [`stats`](Self::stats) is set.
    pub fn report(&self, compiled: &Compiled, run: Unreported) -> Ran {
        let Unreported { outcome, stopped, seconds } = run;
        let is_short = shortage::is_reported();
        let mut status = stopped.filter(|_| !self.has_control).unwrap_or(ExitCode::SUCCESS);
        for error in &outcome.errors {
            say!("weir: {error}");
            status = ExitCode::from(2);
        }
        let found = self.findings.found();
        if is_short {
            status = ExitCode::from(2);
        }
        let is_unread = report::is_unread(&outcome);
        if is_unread || found.times_beyond > 0 {
            status = ExitCode::from(2);
        }
        let ran = Ran { outcome, status, is_whole: stopped.is_none() && !is_short, is_unread, found };
        report::warnings(&ran, self.input.workers, compiled.stack(), self.lost_bytes);
        if self.stats {
            report::stats(compiled, &ran, seconds);
            self.notes.iter().for_each(|note| say!("{note}"));
        }
        ran
    }
}

/// Prints the warnings of a program.
pub fn warn(compiled: &Compiled) {
    if !compiled.warnings().list.is_empty() && !terminal::is_quiet() {
        terminal::say_rendered(&compiled.warnings().render(terminal::stderr_color()));
    }
}

/// A progress bar, if standard error is a terminal and the input is large.
fn progress_bar(source: &dyn Source) -> Option<ProgressBar> {
    let total = source.progress().1?;
    let has_no_line = !std::io::stderr().is_terminal() || terminal::is_quiet() || terminal::is_held();
    if total < PROGRESS_BYTES_MIN || has_no_line {
        return None;
    }
    let style =
        ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes}  {bytes_per_sec}  {eta}").ok()?;
    Some(ProgressBar::new(total).with_style(style))
}
