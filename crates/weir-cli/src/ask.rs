//! Asks the questions of a command in one pass over the captures.

use crate::api::{Api, Door};
use crate::captures::Hangup;
use crate::control;
use crate::failure::Failure;
use crate::input;
use crate::input_options::Input;
use crate::kind::QuestionKinds;
use crate::kinds;
use crate::live_clock;
use crate::loaded_rules;
use crate::local_users;
use crate::metrics::{self, Published};
use crate::monitor::Monitor;
use crate::question_changes::QuestionChanges;
use crate::question_set::{Active, QuestionSet, Stated};
use crate::recording::Recording;
use crate::reload::{self, Reload};
use crate::report::{self, Ran};
use crate::rule_triggers::RuleTriggers;
use crate::runner::{self, Runner};
use crate::sandbox;
use crate::shutdown::Shutdown;
use crate::spec::{QuestionSpec, Stdout};
use crate::terminal;
use crate::thresholds::Threshold;
use crate::triggers::{PendingAsker, Trigger};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, PoisonError};
use weir::{Engine, Watch};

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
    /// Report counters.
    pub stats: bool,
    /// Whether other questions write to standard output.
    pub stdout: Stdout,
}

impl<'a> Asked<'a> {
    /// A single question, which owns standard output.
    pub fn one(input: &'a Input, spec: &'a QuestionSpec, stats: bool) -> Self {
        let stdout = Stdout::Own { is_terminal: io::stdout().is_terminal() };
        Self { stats, stdout, ..Self::of(input, std::slice::from_ref(spec)) }
    }

    /// Several questions.
    pub fn of(input: &'a Input, specs: &'a [QuestionSpec]) -> Self {
        let (wrong, stdout) = (vec![], Stdout::Shared);
        Self { input, specs, wrong, socket: None, reload: None, stats: false, stdout }
    }
}

/// The result of a run.
pub struct Answered {
    /// Outcome and status of the run.
    pub ran: Ran,
    /// Number of answers to all questions.
    pub answers: u64,
    /// The reader of an output has closed it.
    pub is_unread: bool,
}

impl Answered {
    /// Exit status of a command that searches or counts: 1 if nothing was found, as grep does.
    pub fn status_of_search(&self) -> ExitCode {
        let is_complete = self.ran.is_whole && self.ran.outcome.errors.is_empty() && !self.ran.is_unread;
        let is_nothing = is_complete && self.answers == 0;
        if is_nothing { ExitCode::from(1) } else { self.ran.status }
    }
}

/// Answers one question; returns the exit status.
pub fn answer_one(asked: Asked<'_>) -> Result<ExitCode, Failure> {
    let is_count = asked.specs.iter().any(|spec| spec.count);
    let answered = answer(asked)?;
    Ok(if is_count { answered.status_of_search() } else { answered.ran.status })
}

/// Answers all questions in one run, or reports the mistakes of all of them.
pub fn answer(asked: Asked<'_>) -> Result<Answered, Failure> {
    let Asked { input, specs, mut wrong, socket, reload, stats, stdout } = asked;
    if input.read.is_empty() && input.interface.is_empty() {
        let first = specs.first().map_or("flows", |spec| spec.ask.as_str());
        return Err(Failure::new(format!(
            "no input: name a capture file, as in `weir {first} FILE`, or an interface, as in `weir {first} -i eth0`"
        )));
    }
    let kinds = QuestionKinds::new(kinds::all());
    let counts_copies = specs.iter().any(|spec| kinds.get(&spec.ask).is_ok_and(|kind| kind.counts_copies));
    let input = &Input { counts_copies, ..input.clone() };
    local_users::begin(&input.allow_user, input.group_read);
    let options = input::options(input)?;
    let stats = stats || terminal::is_verbose();
    // Only such a filter needs to know; reading the first packets of all files takes time.
    let asks_for_first = socket.is_some() || specs.iter().any(QuestionSpec::uses_relative_time);
    let first_time = if asks_for_first { weir::io::first_time(&input.read) } else { None };
    let api = input.recording.as_ref().and_then(|params| params.api.as_ref());
    let door = api.map(Door::open).transpose()?;
    let is_watched = input.monitor || input.metrics.is_some() || input.otlp.is_some() || door.is_some();
    let watch = is_watched.then(Watch::default);
    let options = weir::Options { timed: stats, first_time, watch: watch.clone(), ..options };
    let compiler = input::compiler(&input.stack)?;
    input::check_files(input, &compiler)?;
    let mut set = QuestionSet::new(input.clone(), compiler, stdout);
    set.share(specs)?;
    let set = Arc::new(set);
    let stated: Vec<Stated> = specs.iter().cloned().map(Stated::new).collect();
    let mut prepared = vec![];
    for (index, own) in stated.iter().enumerate() {
        match set.admit(own, &stated[..index]) {
            Ok(question) => prepared.push(question),
            Err(mistakes) => wrong.extend(mistakes),
        }
    }
    Failure::all(wrong)?;
    let mut engine = Engine::with(set.compiler.clone(), options);
    let (mut notes, mut lost_bytes) = (vec![], false);
    {
        let mut names = set.names.lock().unwrap_or_else(PoisonError::into_inner);
        for (own, prepared) in stated.into_iter().zip(prepared) {
            let added = engine.subscribe_questions(prepared.questions, prepared.answers);
            let added = added.map_err(|wrong| set.named(&own.spec, Failure::from(wrong)))?;
            let name = own.spec.name.clone();
            names.insert(name, Active { subscription: added, stated: own, output: prepared.output });
            notes.extend(prepared.note);
            lost_bytes |= prepared.lost_bytes;
        }
    }
    let asking = PendingAsker::default();
    for filter in input.recording.iter().flat_map(|params| &params.triggers) {
        let (trigger, question) = Trigger::new(filter, asking.clone());
        engine.subscribe_questions(vec![question], trigger)?;
    }
    if let Some(params) = &input.recording {
        if !params.rules.is_empty() {
            let detection = loaded_rules::for_recorder(&params.rules, &set.compiler)?;
            set.file_contents().iter().for_each(|store| detection.ask_for_files(store));
            let questions = detection.questions(&set.compiler, "").map_err(Failure::new)?;
            let (around, dumps) = (params.around, asking.clone());
            engine.subscribe_questions(questions, RuleTriggers { detection, around, dumps, left_out: 0 })?;
        }
        for (number, text) in params.thresholds.iter().enumerate() {
            let (threshold, question) =
                Threshold::new((number, text), params.around, &set.compiler, asking.clone())?;
            engine.subscribe_questions(vec![question], threshold)?;
        }
    }
    let compiled = engine.compile()?;
    runner::warn(&compiled);
    let runner = Runner {
        input,
        findings: &set.findings,
        has_control: socket.is_some() || door.is_some(),
        lost_bytes,
        stats,
        notes: &notes,
    };
    let hangup = if reload.is_some() { Hangup::Reloads } else { Hangup::Ends };
    let mut captures = runner.open(hangup)?;
    // Only sockets of links need rights. Threads have the rights of the one that starts them, so threads come
    // later.
    if !input.interface.is_empty() {
        let mut writable = sandbox::writable(input, specs, socket);
        if let Some(params) = &input.recording {
            writable.extend(params.writable()?);
        }
        // Also a question that ends changes the filters of the others.
        let has_ends = specs.len() > 1 && specs.iter().any(|spec| spec.limit.is_some());
        let can_change = socket.is_some() || reload.is_some() || has_ends;
        if !can_change || input.recording.is_some() {
            captures.fix();
        }
        sandbox::enter(input, &writable, captures.loader())?;
        // The times of other inputs may be those of a capture that is replayed.
        live_clock::start(&set)?;
    }
    let recording = input
        .recording
        .as_ref()
        .map(|params| params.start(&set.findings, &set.compiler, (input.workers, input.bpf)))
        .transpose()?;
    if let Some(asker) = recording.as_ref().and_then(Recording::dump_asker) {
        asking.set(asker);
    }
    if let Some(recording) = &recording {
        captures.record(recording.recorder());
        set.totals.set_recording(recording.counters());
    }
    let shutdown = Shutdown::watch(Arc::clone(&set.outlets), socket, hangup)?;
    if let Some(reload) = reload {
        reload::watch(reload, specs, engine.control().downgrade(), &set)?;
    }
    // A recording goes on when the last question has ended.
    let _goes_on = recording.as_ref().map(|_| engine.control());
    let _listening = socket
        .map(|path| control::listen(path, QuestionChanges::new(engine.control(), Arc::clone(&set))))
        .transpose()?;
    let published = watch
        .as_ref()
        .map(|watch| metrics::publish(input.readers(), specs, watch, &set.totals))
        .transpose()?;
    let api = match (door, &recording, &watch) {
        (Some(door), Some(recording), Some(watch)) => {
            Some(Api::start(door, recording, (&set, engine.control(), watch))?)
        }
        _ => None,
    };
    let watch = watch.filter(|_| input.monitor);
    let monitor = watch.map(Monitor::start).transpose().map_err(Failure::new)?;
    let outcome = runner.run(&mut engine, &compiled, captures);
    drop(monitor);
    api.into_iter().for_each(Api::finish);
    let is_lossy = recording.is_some_and(Recording::finish);
    let blocked = set.outlets.wait();
    published.into_iter().for_each(Published::finish);
    let fault = set.totals.take_fault();
    match fault {
        // If the last output failed and ended the run early, counters would cover only part of the captures.
        Some(fault) if engine.subscriptions().next().is_none() => return Err(fault),
        _ => {}
    }
    let mut ran = runner.report(&compiled, outcome);
    report::questions(&set.totals.all_questions(), stdout == Stdout::Shared, stats);
    if report::lost_rows(&set.totals.losses(), &blocked, stats) {
        let ended = shutdown.ended();
        ran.status = ended.map_or(ExitCode::from(2), |(name, status)| {
            say!("weir: {name} ended the process before its outputs were complete");
            status
        });
    }
    if is_lossy {
        ran.status = ExitCode::from(2);
    }
    match fault {
        // The reader of one output closed it. Input errors still determine the result.
        Some(Failure::BrokenPipe) | None => {
            let is_unread = fault.is_some();
            Ok(Answered { ran, answers: set.totals.answers(), is_unread })
        }
        Some(failure) => Err(failure),
    }
}
