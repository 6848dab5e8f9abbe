//! Asks the questions of a command in one pass over the captures.

use crate::metrics::{self, Published, Readers};
use crate::monitor::Monitor;
use crate::progress::Progress;
use crate::reload::{self, Reload};
use crate::sandbox::{self, Needs};
use crate::shutdown::Shutdown;
use crate::signals::{self, Hangup};
use crate::{shortage, terminal};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use weir::io::ring::recorders::Name;
use weir::link::Loader;
use weir::{Outcome, Watch};
use weir_questions::Input;
use weir_questions::local_users;
use weir_questions::messages::Failure;
use weir_questions::run::control::{self, Bound};
use weir_questions::run::report::{self, Ran};
use weir_questions::run::{Run, RunSettings};
use weir_questions::source::Captures;
use weir_questions::{QuestionSpec, Stdout};
use weir_recorder::api::{Api, ApiParams, Door};
use weir_recorder::{RecorderOptions, Recording};

/// The questions of a command, and the settings of their run.
pub struct Asked<'a> {
    /// The captures, and the compiler settings.
    pub input: &'a Input,
    /// The questions.
    pub specs: &'a [QuestionSpec],
    /// Mistakes found in the questions so far.
    pub wrong: Vec<Failure>,
    /// Control socket, through which questions are added and removed during the run.
    pub socket: Option<&'a Path>,
    /// The file of questions, which SIGHUP reads again.
    pub reload: Option<Reload>,
    /// The packets are recorded.
    pub recorder: Option<&'a RecorderOptions>,
    /// Report counters.
    pub stats: bool,
    /// Standard output.
    pub stdout: Stdout,
}

impl<'a> Asked<'a> {
    /// A single question, which owns standard output.
    pub fn one(input: &'a Input, spec: &'a QuestionSpec, stats: bool) -> Self {
        let stdout = Stdout { is_shared: false, screen: terminal::screen() };
        Self { stats, stdout, ..Self::of(input, std::slice::from_ref(spec)) }
    }

    /// Several questions.
    pub fn of(input: &'a Input, specs: &'a [QuestionSpec]) -> Self {
        let (wrong, stdout) = (vec![], Stdout { is_shared: true, screen: terminal::screen() });
        let (socket, reload, recorder) = (None, None, None);
        Self { input, specs, wrong, socket, reload, recorder, stats: false, stdout }
    }
}

/// The socket files of a run, before their connections are accepted.
struct SocketFiles {
    /// The recorder's name.
    name: Option<Name>,
    control: Option<Bound>,
}

/// The result of a run.
pub struct Answered {
    /// Outcome of the run.
    ran: Ran,
    /// Its exit status.
    pub status: ExitCode,
    /// Number of answers to all questions.
    pub answers: u64,
    /// The reader of an output has closed it.
    pub is_unread: bool,
}

impl Answered {
    /// Exit status of a command that searches or counts: 1 if nothing was found, as grep does.
    pub fn status_of_search(&self) -> ExitCode {
        let is_nothing = self.ran.is_complete() && !self.is_unread && self.answers == 0;
        if is_nothing { ExitCode::from(1) } else { self.status }
    }
}

/// Answers one question; returns the exit status.
pub fn answer_one(asked: Asked<'_>) -> Result<ExitCode, Failure> {
    let is_count = asked.specs.iter().any(|spec| spec.count);
    let answered = answer(asked)?;
    Ok(if is_count { answered.status_of_search() } else { answered.status })
}

/// Answers all questions in one run, or reports the mistakes of all of them.
pub fn answer(asked: Asked<'_>) -> Result<Answered, Failure> {
    let Asked { input, specs, wrong, socket, reload, recorder, stats, stdout } = asked;
    if input.read.is_empty() && input.interface.is_empty() {
        let first = specs.first().map_or("flows", |spec| spec.ask.as_str());
        return Err(Failure::new(format!(
            "no input: name a capture file, as in `weir {first} FILE`, or an interface, as in `weir {first} -i eth0`"
        )));
    }
    let mut input = input.clone();
    recorder.map(|recorder| recorder.reserve(&mut input)).transpose()?;
    let api = recorder.map(ApiParams::of).transpose()?.flatten();
    let input = &input;
    local_users::begin(&input.allow_user, input.group_read);
    let stats = stats || terminal::is_verbose();
    let mut needs = Needs::of(input, specs, socket);
    if let Some(recorder) = recorder {
        needs.writes_in(recorder.writable()?);
    }
    needs.removes(api.as_ref().and_then(ApiParams::socket));
    if recorder.is_some() || api.is_some() || reload.is_some() {
        needs.connects();
    }
    reload.iter().for_each(|reload| needs.reads(Path::new(&reload.file)));
    if socket.is_some() || reload.is_some() {
        needs.grows(socket);
    }
    // Threads have the rights of the one that starts them, so threads come later. Only sockets of links need
    // rights to be opened.
    let is_link = !input.interface.is_empty();
    let door = api.as_ref().map(Door::open).transpose()?;
    let is_served = sandbox::is_served(input, &needs);
    // A worker whose files are opened by another process cannot make sockets in their folders.
    let open = || {
        Ok::<_, Failure>(SocketFiles {
            name: recorder.map(RecorderOptions::take_name).transpose()?,
            control: socket.map(control::bind).transpose()?,
        })
    };
    let restrict = |loader: &Loader| {
        let early = is_served.then(open).transpose()?;
        sandbox::enter(input, &needs, loader)?;
        Ok::<_, Failure>(early)
    };
    let mut early = None;
    if !is_link {
        early = restrict(&Loader::default())?;
    }
    let is_watched = input.monitor || input.metrics.is_some() || input.otlp.is_some() || door.is_some();
    let watch = is_watched.then(Watch::default);
    let settings = RunSettings {
        stdout,
        watch: watch.clone(),
        is_timed: stats,
        is_open: socket.is_some(),
        ..RunSettings::default()
    };
    let mut run = Run::new(input, settings, specs)?;
    run.ask(specs, wrong)?;
    let asking = recorder.map(|recorder| recorder.ask(&mut run)).transpose()?;
    run.compile()?;
    let hangup = if reload.is_some() { Hangup::Reloads } else { Hangup::Ends };
    let has_control = socket.is_some() || door.is_some();
    let mut captures = run.open(has_control, &signals::install(hangup)?)?;
    if is_link {
        // Also a question that ends changes the filters of the others.
        let has_ends = specs.len() > 1 && specs.iter().any(|spec| spec.limit.is_some());
        let can_change = socket.is_some() || reload.is_some() || has_ends;
        if !can_change || recorder.is_some() {
            captures.fix();
        }
        early = restrict(captures.loader())?;
        run.start_clock()?;
    }
    let SocketFiles { name, control } = early.map_or_else(open, Ok)?;
    let recording = match (recorder, &asking, name) {
        (Some(recorder), Some(asking), Some(name)) => {
            Some(recorder.start(&run, &mut captures, asking, name)?)
        }
        _ => None,
    };
    let set = Arc::clone(run.set());
    let shutdown = Shutdown::watch(Arc::clone(&set.outlets), socket, hangup)?;
    if let Some(reload) = reload {
        reload::watch(reload, specs, run.control().downgrade(), &set)?;
    }
    let _listening = control.map(|bound| control::listen(bound, run.changes())).transpose()?;
    let published = watch
        .as_ref()
        .map(|watch| metrics::publish(Readers::of(input), specs, watch, &set.totals))
        .transpose()?;
    let api = match (door, &recording, &watch) {
        (Some(door), Some(recording), Some(watch)) => Some(Api::start(door, recording, &run, watch)?),
        _ => None,
    };
    let watch = watch.filter(|_| input.monitor);
    let monitor = watch.map(Monitor::start).transpose().map_err(Failure::new)?;
    captures.announce(input);
    let ended = run_over(&mut run, captures)?;
    drop(monitor);
    api.into_iter().for_each(Api::finish);
    let is_lossy = recording.is_some_and(Recording::finish);
    let blocked = set.outlets.wait();
    published.into_iter().for_each(Published::finish);
    let fault = set.totals.take_fault();
    match fault {
        // If the last output failed and ended the run early, counters would cover only part of the captures.
        Some(fault) if !run.has_questions() => return Err(fault),
        _ => {}
    }
    let (ran, mut status) = ended.report(&run, has_control, stats);
    report::questions(&set.totals.all_questions(), stdout.is_shared, stats);
    if report::lost_rows(&set.totals.losses(), &blocked, stats) {
        let ended = shutdown.ended();
        status = ended.map_or(ExitCode::from(2), |(name, status)| {
            say!("weir: {name} ended the process before its outputs were complete");
            status
        });
    }
    if is_lossy {
        status = ExitCode::from(2);
    }
    match fault {
        // The reader of one output closed it. Input errors still determine the result.
        Some(Failure::BrokenPipe) | None => {
            let is_unread = fault.is_some();
            Ok(Answered { ran, status, answers: set.totals.answers(), is_unread })
        }
        Some(failure) => Err(failure),
    }
}

/// A finished run before its report.
pub struct Finished {
    outcome: Outcome,
    /// The exit status of a process that a signal has ended.
    stopped: Option<ExitCode>,
    seconds: f64,
}

/// Runs over captures, with a progress bar.
///
/// # Errors
/// The questions cannot be compiled together.
pub fn run_over(run: &mut Run<'_>, mut captures: Captures) -> Result<Finished, Failure> {
    let started = Instant::now();
    let progress = Progress::of(&captures);
    let outcome = run.over(&mut captures, &mut |source| progress.show(source))?;
    drop(progress);
    Ok(Finished {
        outcome,
        stopped: captures.cut().and_then(signals::status_of),
        seconds: started.elapsed().as_secs_f64(),
    })
}

impl Finished {
    /// Reports faults and losses, with `stats` also all counters; returns the exit status, too.
    /// `has_control`: a signal is the normal end.
    pub fn report(self, run: &Run<'_>, has_control: bool, stats: bool) -> (Ran, ExitCode) {
        let Self { outcome, stopped, seconds } = self;
        let is_short = shortage::is_reported();
        outcome.errors.iter().for_each(|error| say!("weir: {error}"));
        let ran = run.report(outcome, stopped.is_none() && !is_short, stats.then_some(seconds));
        let is_wrong = is_short || ran.is_unread || ran.found.times_beyond > 0;
        let status = match (ran.outcome.errors.is_empty() && !is_wrong, stopped) {
            (false, _) => ExitCode::from(2),
            (true, Some(stopped)) if !has_control => stopped,
            (true, _) => ExitCode::SUCCESS,
        };
        (ran, status)
    }
}
