//! The receiver of the items of a run, which may change the questions meanwhile.

use crate::ask::compile::Compiled;
use crate::items::item::Item;
use crate::rows::shape::Shape;

/// Receives the items of a run, and may change the questions during the run.
pub(crate) trait Changes {
    /// Receives an item of a question.
    fn item(&mut self, question: usize, item: Item<'_>);

    /// Whether no questions are left, which ends the run. Called between bursts.
    fn is_over(&self) -> bool {
        false
    }

    /// The next program, with the shapes of its questions; `None`: no change. Called between bursts.
    fn program(&mut self) -> Option<(Compiled, Vec<Shape>)>;

    /// That program takes over now: all results for the previous questions have been delivered.
    fn taken_over(&mut self) {}

    /// Memory of the rows that wait to be joined and of what they are joined with, in bytes.
    fn joined_bytes(&self) -> u64 {
        0
    }
}
