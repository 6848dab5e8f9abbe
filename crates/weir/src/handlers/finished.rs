//! The handlers of a run, at its end.

use super::question_worker::QuestionWorker;
use super::subscription::Subscription;
use std::any::Any;

/// The handlers of a run, at its end, with the subscription of each.
#[derive(Default)]
pub struct Handlers(Vec<(Subscription, Box<dyn Any + Send>)>);

impl Handlers {
    /// Adds the handlers of a worker, by question.
    pub(crate) fn add(&mut self, workers: Vec<QuestionWorker>) {
        for (question, worker) in workers.into_iter().enumerate() {
            let handler = match worker {
                QuestionWorker::Stream(handler) => handler.into_handler(),
                QuestionWorker::Handler(handler) => handler.into_any(),
                QuestionWorker::Track(_)
                | QuestionWorker::Inspector(_)
                | QuestionWorker::Pipeline(_)
                | QuestionWorker::Flows(_)
                | QuestionWorker::Behind(_)
                | QuestionWorker::None => continue,
            };
            self.0.push((Subscription::of_question(question), handler));
        }
    }

    /// Sets the subscription of each question.
    pub(crate) fn name(&mut self, owners: &[Subscription]) {
        for (subscription, _) in &mut self.0 {
            *subscription = owners[subscription.question()];
        }
    }

    /// The handlers of a subscription, one per worker; none if they are not of type `H`.
    pub fn of<H: 'static>(&self, subscription: Subscription) -> Vec<&H> {
        let mine = self.0.iter().filter(|(of, _)| *of == subscription);
        mine.filter_map(|(_, handler)| handler.downcast_ref()).collect()
    }
}

impl std::fmt::Debug for Handlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} handlers", self.0.len())
    }
}
