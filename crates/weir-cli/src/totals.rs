//! Faults, losses and counts that all questions of a run share.

use crate::failure::Failure;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

    pub fn add_answers(&self, answers: u64) {
        self.shared.answers.fetch_add(answers, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
