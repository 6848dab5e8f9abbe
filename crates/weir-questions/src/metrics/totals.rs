//! Faults, losses and counts that all questions of a run share.

use crate::messages::failure::Failure;
use crate::metrics::Series;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use weir::io::ClientLoss;
use weir::{LossCounts, QuestionLosses};

/// Faults, losses and counts of a run.
#[derive(Default, Clone)]
pub struct RunTotals {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The first failure of each output.
    fault: Mutex<Option<Failure>>,
    /// Names of questions that have failed.
    failed: Mutex<Vec<String>>,
    losses: Mutex<Vec<Loss>>,
    /// Number of answers to all questions so far.
    answers: AtomicU64,
    questions: Mutex<Questions>,
    /// The metrics of aggregates.
    series: Mutex<Vec<Weak<Series>>>,
    /// The counters of others.
    further: OnceLock<Box<dyn FurtherCounters>>,
}

/// Counters of something that takes part in a run.
pub trait FurtherCounters: Send + Sync {
    /// What begins the names of their metrics: `recorder`.
    fn owner(&self) -> &'static str;

    /// Each counter: its name, its value, and one sentence about it.
    fn counters(&self) -> Vec<(&'static str, u64, &'static str)>;

    /// Each value that may also fall: its name, the value, and one sentence about it.
    fn levels(&self) -> Vec<(&'static str, f64, &'static str)>;
}

/// Limit of the names of ended questions whose counts are kept apart.
const ENDED_MAX: usize = 1024;

/// The name of all further ended questions.
const OTHERS: &str = "(others)";

#[derive(Default)]
struct Questions {
    /// The questions that run, by name.
    running: Vec<(String, Arc<QuestionCounters>)>,
    /// The sums of the questions that have ended, by name.
    ended: BTreeMap<String, QuestionTotals>,
}

/// The counts of a question, which its answers and its output keep up to date.
#[derive(Debug, Default)]
pub struct QuestionCounters {
    answers: AtomicU64,
    lost: AtomicU64,
    /// What its parts lose in the engine.
    losses: Vec<Arc<QuestionLosses>>,
}

impl QuestionCounters {
    /// Sets the number of answers.
    pub fn set_answers(&self, answers: u64) {
        self.answers.store(answers, Ordering::Relaxed);
    }

    /// Adds answers that the output did not accept, or did not write.
    pub fn add_lost(&self, answers: u64) {
        self.lost.fetch_add(answers, Ordering::Relaxed);
    }

    fn totals(&self) -> QuestionTotals {
        let mut in_engine = LossCounts::default();
        self.losses.iter().for_each(|losses| in_engine.add(losses.counts()));
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        QuestionTotals { answers: read(&self.answers), lost: read(&self.lost), in_engine }
    }
}

/// The counts of a question at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuestionTotals {
    /// Answers so far.
    pub answers: u64,
    /// Answers that the output did not accept, or did not write because it failed.
    pub lost: u64,
    /// Data that could have become answers, and was given up in the engine.
    pub in_engine: LossCounts,
}

impl QuestionTotals {
    fn add(&mut self, other: Self) {
        self.answers += other.answers;
        self.lost += other.lost;
        self.in_engine.add(other.in_engine);
    }
}

impl Questions {
    /// Adds the counts of questions that have ended since to their sums.
    fn settle(&mut self) {
        let has_ended =
            |(_, counters): &mut (String, Arc<QuestionCounters>)| Arc::strong_count(counters) == 1;
        for (name, counters) in self.running.extract_if(.., has_ended) {
            let is_kept = self.ended.len() < ENDED_MAX || self.ended.contains_key(&name);
            let name = if is_kept { name } else { OTHERS.to_string() };
            self.ended.entry(name).or_default().add(counters.totals());
        }
    }
}

/// Rows that an output did not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Name of the question, if the run has several.
    pub question: Option<String>,
    /// The output.
    pub output: String,
    /// Number of rows.
    pub rows: u64,
    /// Why: `was blocked`.
    pub why: &'static str,
}

/// An output that accepted nothing for too long.
pub const BLOCKED: &str = "was blocked (--output-wait)";

impl RunTotals {
    /// Takes the failure; later calls return `None`.
    pub fn take_fault(&self) -> Option<Failure> {
        lock(&self.shared.fault).take()
    }

    /// Number of answers to all questions.
    pub fn answers(&self) -> u64 {
        self.shared.answers.load(Ordering::Relaxed)
    }

    /// The losses of all questions so far.
    pub fn losses(&self) -> Vec<Loss> {
        lock(&self.shared.losses).clone()
    }

    /// As [`add_fault`](Self::add_fault), of a question, if the run has several.
    pub fn add_fault_of(&self, question: Option<&str>, failure: Failure) {
        let Some(name) = question else { return self.add_fault(failure) };
        lock(&self.shared.failed).push(name.to_string());
        self.add_fault(failure.of_question(name));
    }

    /// Whether a question of this name has failed, and has not begun again.
    pub fn has_failed(&self, question: &str) -> bool {
        lock(&self.shared.failed).iter().any(|name| name == question)
    }

    /// A question of this name begins again.
    pub fn forget_failed(&self, question: &str) {
        lock(&self.shared.failed).retain(|name| name != question);
    }

    /// Prints a failure of an output at once, since a live run may go on for months; the end of the run has
    /// its status.
    pub fn add_fault(&self, failure: Failure) {
        let failure = match failure {
            Failure::BrokenPipe => Failure::BrokenPipe,
            other => {
                other.report();
                Failure::Reported
            }
        };
        let mut fault = lock(&self.shared.fault);
        *fault = Some(match fault.take() {
            Some(before) => before.and(failure),
            None => failure,
        });
    }

    /// Adds rows that an output did not accept.
    pub fn add_loss(&self, loss: Loss) {
        lock(&self.shared.losses).push(loss);
    }

    /// Adds the packets that clients of an output did not accept.
    pub fn add_client_losses(&self, question: Option<&str>, output: &str, losses: &[ClientLoss]) {
        for ClientLoss { client, packets } in losses {
            let output = format!("client {client} of {output}");
            self.add_loss(Loss {
                question: question.map(str::to_string),
                output,
                rows: *packets,
                why: BLOCKED,
            });
        }
    }

    /// Adds a question, which runs as long as its counters are kept. `losses`: those of its parts in the
    /// engine.
    pub fn add_question(&self, name: String, losses: Vec<Arc<QuestionLosses>>) -> Arc<QuestionCounters> {
        let counters = Arc::new(QuestionCounters { losses, ..QuestionCounters::default() });
        let mut questions = lock(&self.shared.questions);
        questions.settle();
        questions.running.push((name, Arc::clone(&counters)));
        counters
    }

    /// Adds the metrics of an aggregate, which are shown as long as they are kept.
    pub fn add_series(&self, series: &Arc<Series>) {
        let mut all = lock(&self.shared.series);
        all.retain(|known| known.strong_count() > 0);
        all.push(Arc::downgrade(series));
    }

    /// Shows counters of something that takes part in the run, such as a recorder. The first ones count.
    pub fn set_further(&self, counters: impl FurtherCounters + 'static) {
        let _ = self.shared.further.set(Box::new(counters));
    }

    /// The counters of something that takes part in the run.
    pub fn further(&self) -> Option<&dyn FurtherCounters> {
        self.shared.further.get().map(|counters| &**counters)
    }

    /// The metrics of all aggregates that run.
    pub fn series(&self) -> Vec<Arc<Series>> {
        lock(&self.shared.series).iter().filter_map(Weak::upgrade).collect()
    }

    /// The counts of the questions that run.
    fn questions(&self) -> Vec<(String, QuestionTotals)> {
        let mut questions = lock(&self.shared.questions);
        questions.settle();
        questions.running.iter().map(|(name, counters)| (name.clone(), counters.totals())).collect()
    }

    /// The counts of all questions of the run so far, by name: those that have ended, too.
    pub fn all_questions(&self) -> BTreeMap<String, QuestionTotals> {
        let mut all = BTreeMap::new();
        for (name, totals) in self.questions() {
            all.entry(name).or_insert_with(QuestionTotals::default).add(totals);
        }
        for (name, totals) in &lock(&self.shared.questions).ended {
            all.entry(name.clone()).or_default().add(*totals);
        }
        all
    }

    /// Adds answers to questions.
    pub fn add_answers(&self, answers: u64) {
        self.shared.answers.fetch_add(answers, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
