//! The name of a subscription.

/// A subscription of an [`Engine`](crate::Engine).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subscription {
    /// How many were made before it.
    pub(crate) serial: u64,
    /// Its place among the entries.
    pub(crate) place: usize,
}

impl Subscription {
    /// That of a question by its number, where each has one of its own.
    pub(crate) fn of_question(question: usize) -> Self {
        Self { serial: question as u64, place: question }
    }

    /// The other way round.
    pub(crate) fn question(self) -> usize {
        self.place
    }
}

impl std::fmt::Display for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "q{}", self.serial)
    }
}
