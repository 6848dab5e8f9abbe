//! Identifies a subscription.

/// A subscription of an [`Engine`](crate::Engine).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subscription {
    /// Number of subscriptions created before this one.
    pub(crate) serial: u64,
    /// Index in the engine's list.
    pub(crate) place: usize,
}

impl Subscription {
    /// The subscription of a question, if each question has its own.
    pub(crate) fn of_question(question: usize) -> Self {
        Self { serial: question as u64, place: question }
    }

    /// The question of such a subscription.
    pub(crate) fn question(self) -> usize {
        self.place
    }
}

impl std::fmt::Display for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "q{}", self.serial)
    }
}
