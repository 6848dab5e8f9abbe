//! Runs questions: checks them, lets an engine know them, compiles all of them to one program, and runs the
//! program over a source of packets.
//!
//! The command, the screen of `weir top`, the recorder with its triggers and its API, and other programs ask
//! in this way. They differ in what receives the answers: an output ([`Run::ask`]), or something of their own
//! ([`Run::subscribe`]).

use super::live_clock;
use super::question_changes::QuestionChanges;
use super::question_set::{Active, QuestionSet, Stated};
use super::report::Ran;
use crate::input_options::Input;
use crate::kind::QuestionKinds;
use crate::kinds;
use crate::messages::{Failure, Level, Message};
use crate::source::captures::Captures;
use crate::source::ender::Ender;
use crate::source::input;
use crate::spec::{QuestionSpec, Stdout};
use std::sync::{Arc, PoisonError};
use weir::packet::{Source, Timestamp};
use weir::{
    Compiled, Compiler, Control, Engine, Item, Next, Outcome, Question, Stages, Subscription, TakeItems,
    Watch,
};

/// Maximum number of workers.
const WORKERS_MAX: usize = 256;

/// What a run is beside its input and its questions.
#[derive(Default)]
pub struct RunSettings {
    /// The standard output.
    pub stdout: Stdout,
    /// Shows the counters while the run goes on.
    pub watch: Option<Watch>,
    /// Cycles are counted by stage.
    pub is_timed: bool,
    /// Questions are added while the run goes on.
    pub is_open: bool,
    /// Packets that no question needs are not read from a recorder.
    pub is_narrow: bool,
    /// The time of the first packet, to which filters may refer. `None`: that of the captures.
    pub first_time: Option<Timestamp>,
}

/// A run that is not begun: its input and its settings are checked.
pub struct Plan {
    set: Arc<QuestionSet>,
    specs: Vec<QuestionSpec>,
    options: weir::Options,
    workers: usize,
}

impl Plan {
    /// A run over this input with the stacks that it names. `specs`: the questions with which it begins.
    ///
    /// # Errors
    /// All mistakes in the input.
    pub fn new(input: &Input, settings: RunSettings, specs: &[QuestionSpec]) -> Result<Self, Failure> {
        Self::with(input, input::compiler(&input.stack)?, settings, specs)
    }

    /// As [`new`](Self::new), with the stack of a compiler.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(
        input: &Input,
        compiler: Compiler,
        settings: RunSettings,
        specs: &[QuestionSpec],
    ) -> Result<Self, Failure> {
        let RunSettings { stdout, watch, is_timed, is_open, is_narrow, first_time } = settings;
        let options = input::options(input)?;
        input::check_files(input, &compiler)?;
        // Only such a filter needs to know; reading the first packets of all files takes time.
        let asks_for_first = is_open || specs.iter().any(QuestionSpec::uses_relative_time);
        let read = || asks_for_first.then(|| weir::io::first_time(&input.read)).flatten();
        let first_time = first_time.or_else(read);
        let narrow = options.narrow || is_narrow;
        let options = weir::Options { timed: is_timed, first_time, watch, narrow, ..options };
        let kinds = QuestionKinds::new(kinds::all());
        let counts_copies =
            specs.iter().any(|spec| kinds.get(&spec.ask).is_ok_and(|kind| kind.counts_copies));
        let mut set = QuestionSet::new(Input { counts_copies, ..input.clone() }, compiler, stdout);
        set.share(specs)?;
        let (specs, workers) = (specs.to_vec(), input.workers.min(WORKERS_MAX));
        Ok(Self { set: Arc::new(set), specs, options, workers })
    }

    /// The questions, and what they share.
    pub fn set(&self) -> &Arc<QuestionSet> {
        &self.set
    }

    /// Over files, too, packets that no question needs are not asked for: how a link or a recorder is read is
    /// shown then.
    #[must_use]
    pub fn narrowed(mut self) -> Self {
        self.options.narrow = true;
        self
    }

    /// The packets come from another source than the input, which one worker reads.
    #[must_use]
    pub fn with_one_worker(mut self) -> Self {
        self.workers = 1;
        self
    }

    /// The questions with which the run begins.
    pub fn specs(&self) -> &[QuestionSpec] {
        &self.specs
    }

    /// Begins the run.
    pub fn begin<'a>(self) -> Run<'a> {
        let Self { set, options, workers, .. } = self;
        let is_timed = options.timed;
        let engine = Engine::with(set.compiler.clone(), options);
        let (compiled, ran) = (None, None);
        Run { set, engine, compiled, ran, workers, is_timed, notes: vec![], lost_bytes: false }
    }
}

/// Questions that are to be run, or run.
pub struct Run<'a> {
    set: Arc<QuestionSet>,
    engine: Engine<'a>,
    /// The program of the questions, once it is compiled.
    compiled: Option<Compiled>,
    /// The program that ran last.
    ran: Option<Compiled>,
    workers: usize,
    is_timed: bool,
    /// Lines that questions add to the report of counters.
    notes: Vec<String>,
    lost_bytes: bool,
}

impl<'a> Run<'a> {
    /// A run over this input with the stacks that it names. `specs`: the questions with which it begins,
    /// which [`ask`](Self::ask) adds.
    ///
    /// # Errors
    /// All mistakes in the input.
    pub fn new(input: &Input, settings: RunSettings, specs: &[QuestionSpec]) -> Result<Self, Failure> {
        Plan::new(input, settings, specs).map(Plan::begin)
    }

    /// The questions, and what they share.
    pub fn set(&self) -> &Arc<QuestionSet> {
        &self.set
    }

    /// Adds questions whose answers go to outputs. `wrong`: mistakes that were found in others.
    ///
    /// # Errors
    /// All mistakes of all questions. Nothing is created then.
    pub fn ask(&mut self, specs: &[QuestionSpec], mut wrong: Vec<Failure>) -> Result<(), Failure> {
        self.compiled = None;
        let stated: Vec<Stated> = specs.iter().cloned().map(Stated::new).collect();
        let mut prepared = vec![];
        for (index, own) in stated.iter().enumerate() {
            match self.set.admit(own, &stated[..index]) {
                Ok(question) => prepared.push(question),
                Err(mistakes) => wrong.extend(mistakes),
            }
        }
        Failure::all(wrong)?;
        let mut names = self.set.names.lock().unwrap_or_else(PoisonError::into_inner);
        for (own, prepared) in stated.into_iter().zip(prepared) {
            let added = self.engine.subscribe_questions(prepared.questions, prepared.answers);
            let added = added.map_err(|wrong| self.set.named(&own.spec, Failure::from(wrong)))?;
            let name = own.spec.name.clone();
            names.insert(name, Active { subscription: added, stated: own, output: prepared.output });
            self.notes.extend(prepared.note);
            self.lost_bytes |= prepared.lost_bytes;
        }
        Ok(())
    }

    /// Adds questions of the engine, whose answers `taker` receives.
    ///
    /// # Errors
    /// All mistakes in them.
    pub fn subscribe(
        &mut self,
        questions: Vec<Question>,
        taker: impl TakeItems + 'a,
    ) -> Result<Subscription, Failure> {
        self.compiled = None;
        Ok(self.engine.subscribe_questions(questions, taker)?)
    }

    /// Adds questions of the engine that are not run: their program is shown.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub fn show(&mut self, questions: Vec<Question>) -> Result<(), Failure> {
        self.subscribe(questions, NoRun).map(drop)
    }

    /// Removes questions between two runs.
    pub fn unsubscribe(&mut self, subscription: Subscription) {
        self.compiled = None;
        self.engine.unsubscribe(subscription);
    }

    /// Compiles all questions to one program, and says what the compiler warns of.
    ///
    /// # Errors
    /// The questions cannot be compiled together.
    pub fn compile(&mut self) -> Result<&Compiled, Failure> {
        let compiled = self.engine.compile()?;
        let warnings = compiled.warnings();
        if !warnings.list.is_empty() {
            Message::rendered(|is_colored| warnings.render(is_colored), Level::Warning).tell();
        }
        Ok(self.compiled.insert(compiled))
    }

    /// Opens the captures of the input, which `ender` ends early. Packets of interfaces are received from now
    /// on. `is_attended`: requests do not wait for packets.
    ///
    /// # Errors
    /// As for [`Captures::open`].
    pub fn open(&self, is_attended: bool, ender: &Ender) -> Result<Captures, Failure> {
        // Calibrate the cycle counter now, so that the measured time does not include it.
        let _ = Stages::new(self.is_timed);
        Captures::open(&self.set.input, self.workers, is_attended, &self.set.findings, ender)
    }

    /// From now on, outputs of a run over links learn that time passes, until the run ends. The times of
    /// other inputs may be those of a capture that is replayed.
    ///
    /// # Errors
    /// The system makes no thread.
    pub fn start_clock(&self) -> Result<(), Failure> {
        live_clock::start(&self.set)
    }

    /// Adds and removes questions of the engine while the run goes on. As long as somebody has this, the run
    /// goes on without questions, too.
    pub fn control(&self) -> Control {
        self.engine.control()
    }

    /// Changes the questions while the run goes on.
    pub fn changes(&self) -> QuestionChanges {
        QuestionChanges::new(self.control(), Arc::clone(&self.set))
    }

    /// Whether questions are left: one that has ended, or failed, leaves the run.
    pub fn has_questions(&self) -> bool {
        self.engine.subscriptions().next().is_some()
    }

    /// Answers the questions over a source. `progress` sees the source after each burst. Questions that are
    /// not compiled yet are compiled without a word.
    ///
    /// # Errors
    /// The questions cannot be compiled together.
    pub fn over(
        &mut self,
        source: &mut dyn Source,
        progress: &mut dyn FnMut(&dyn Source),
    ) -> Result<Outcome, Failure> {
        let compiled = match &self.compiled {
            Some(compiled) => compiled.clone(),
            None => self.engine.compile()?,
        };
        self.ran = Some(compiled.clone());
        Ok(self.engine.run_compiled(compiled, source, self.workers, progress))
    }

    /// Says what the run could not do as it was asked, what the answers lack, and with the seconds that it
    /// took all counters. `is_whole`: the captures were read to their end.
    pub fn report(&self, outcome: Outcome, is_whole: bool, seconds: Option<f64>) -> Ran {
        let ran = Ran::new(outcome, is_whole, self.set.findings.found());
        let Some(compiled) = &self.ran else { return ran };
        ran.warn(self.set.input.workers, compiled.stack(), self.lost_bytes);
        if let Some(seconds) = seconds {
            ran.show_counters(compiled, seconds);
            self.notes.iter().for_each(|note| tell!("{note}"));
        }
        ran
    }

    /// The run reports the bytes that its streams lack.
    pub fn report_lost_bytes(&mut self) {
        self.lost_bytes = true;
    }
}

/// Receives nothing: the program is only shown.
struct NoRun;

impl TakeItems for NoRun {
    fn take(&mut self, _: usize, _: Item<'_>) -> Next {
        Next::End
    }
}
