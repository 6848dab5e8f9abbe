//! Faults, losses and counts that all questions of a run share.

use crate::failure::Failure;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use weir::io::ClientLoss;

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
    /// The questions that run, by name.
    questions: Mutex<Vec<(String, Weak<QuestionCounters>)>>,
}

/// The counts of a question, which its answers keep up to date.
#[derive(Debug, Default)]
pub struct QuestionCounters {
    answers: AtomicU64,
    lost: AtomicU64,
}

impl QuestionCounters {
    /// Sets the counts.
    pub fn set(&self, QuestionTotals { answers, lost }: QuestionTotals) {
        self.answers.store(answers, Ordering::Relaxed);
        self.lost.store(lost, Ordering::Relaxed);
    }
}

/// The counts of a question at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuestionTotals {
    /// Answers so far.
    pub answers: u64,
    /// Answers that the output did not accept.
    pub lost: u64,
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
}

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

    /// Prints a failure of an output at once, since a live run may go on for months; the end of the run has its status.
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

    pub fn add_loss(&self, loss: Loss) {
        lock(&self.shared.losses).push(loss);
    }

    /// Adds the packets that clients of an output did not accept.
    pub fn add_client_losses(&self, question: Option<&str>, output: &str, losses: &[ClientLoss]) {
        for ClientLoss { client, packets } in losses {
            let output = format!("client {client} of {output}");
            self.add_loss(Loss { question: question.map(str::to_string), output, rows: *packets });
        }
    }

    /// Adds a question, which counts as long as its counters are kept.
    pub fn add_question(&self, name: String) -> Arc<QuestionCounters> {
        let counters = Arc::default();
        lock(&self.shared.questions).push((name, Arc::downgrade(&counters)));
        counters
    }

    /// The counts of the questions that run.
    pub fn questions(&self) -> Vec<(String, QuestionTotals)> {
        let mut questions = lock(&self.shared.questions);
        questions.retain(|(_, counters)| counters.strong_count() > 0);
        let read = |(name, counters): &(String, Weak<QuestionCounters>)| {
            let counters = counters.upgrade()?;
            let (answers, lost) =
                (counters.answers.load(Ordering::Relaxed), counters.lost.load(Ordering::Relaxed));
            Some((name.clone(), QuestionTotals { answers, lost }))
        };
        questions.iter().filter_map(read).collect()
    }

    pub fn add_answers(&self, answers: u64) {
        self.shared.answers.fetch_add(answers, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
