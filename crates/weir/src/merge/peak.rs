//! A size that changes, and its largest value.

/// Bytes that are held now, and the most that were held so far.
#[derive(Debug, Default)]
pub(crate) struct Peak {
    now: isize,
    most: isize,
}

impl Peak {
    /// So many bytes more are held; fewer, if the number is negative.
    pub fn change(&mut self, bytes: isize) {
        self.now += bytes;
        self.most = self.most.max(self.now);
    }

    /// Bytes that are held now.
    pub fn now(&self) -> u64 {
        u64::try_from(self.now).unwrap_or_default()
    }

    /// The most bytes that were held so far.
    pub fn most(&self) -> u64 {
        u64::try_from(self.most).unwrap_or_default()
    }
}
