//! What is done with the packets of a source on their way: copies are counted or left out, packets are
//! recorded; and the part of a source that one worker polls.

use crate::input_options::Input;
use std::sync::Arc;
use std::time::Duration;
use weir::packet::{Burst, Copies, KernelFilters, Poll, Source, SourceError, SourceStats};

/// Bytes of a packet that are compared if copies are only counted: most headers lie in them, also those in
/// tunnels.
const COUNTED_BYTES: usize = 256;

/// What happens to the copies of packets.
pub enum CopyRule {
    /// They are packets like others.
    Keep,
    /// They are counted, and kept.
    Count(Copies),
    /// They are left out.
    Remove(Copies),
}

impl CopyRule {
    /// The rule that the options state.
    pub fn of(input: &Input) -> Self {
        match (input.dedup, input.counts_copies) {
            (true, _) => Self::Remove(Copies::default()),
            (false, true) => Self::Count(Copies::comparing(COUNTED_BYTES)),
            (false, false) => Self::Keep,
        }
    }

    /// The same rule for a part of the source: all copies of a packet belong to one part.
    pub fn of_part(&self) -> Self {
        match self {
            Self::Keep => Self::Keep,
            Self::Count(_) => Self::Count(Copies::comparing(COUNTED_BYTES)),
            Self::Remove(_) => Self::Remove(Copies::default()),
        }
    }

    /// Whether copies are left out. The kernel must not count packets of connections then.
    pub fn removes(&self) -> bool {
        matches!(self, Self::Remove(_))
    }

    /// Polls a source, until it has packets that are not left out, or none.
    pub fn poll(&mut self, source: &mut dyn Source, burst: &mut Burst) -> Result<Poll, SourceError> {
        loop {
            let polled = source.poll(burst)?;
            match self {
                Self::Keep => return Ok(polled),
                Self::Count(copies) => copies.count_in(burst),
                Self::Remove(copies) => copies.remove_from(burst),
            }
            if polled != Poll::Packets || !burst.packets.is_empty() {
                return Ok(polled);
            }
        }
    }

    /// Adds the number of copies to the counters of the source.
    pub fn add_to(&self, stats: &mut SourceStats) {
        match self {
            Self::Keep => {}
            Self::Count(copies) => stats.copies += copies.found(),
            Self::Remove(copies) => stats.copies_removed += copies.found(),
        }
    }
}

/// Receives all packets of a run as they come, such as a recorder: the kernel does not filter them then.
pub trait Taps: Send + Sync {
    /// What receives the packets of one thread.
    fn tap(&self) -> Box<dyn Tap>;
}

/// Receives the packets that one thread reads.
pub trait Tap: Send {
    /// Receives packets.
    fn take(&mut self, burst: &Burst);
}

/// A part of a source.
pub struct SourcePart {
    pub part: Box<dyn Source + Send>,
    pub copies: CopyRule,
    /// Receives the packets, too.
    pub tap: Option<Box<dyn Tap>>,
}

impl Source for SourcePart {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        let polled = self.copies.poll(&mut *self.part, burst);
        if let Some(tap) = &mut self.tap {
            tap.take(burst);
        }
        polled
    }

    fn narrow(&mut self, filters: Option<&Arc<dyn KernelFilters>>) {
        if self.tap.is_none() && !self.copies.removes() {
            self.part.narrow(filters);
        }
    }

    fn stats(&self) -> SourceStats {
        let mut stats = self.part.stats();
        self.copies.add_to(&mut stats);
        stats
    }

    fn clock_step(&mut self) -> i64 {
        self.part.clock_step()
    }

    fn progress(&self) -> (u64, Option<u64>) {
        self.part.progress()
    }

    fn split(
        &mut self,
        _: usize,
        _: Option<Duration>,
    ) -> Result<Option<Vec<Box<dyn Source + Send>>>, SourceError> {
        Ok(None)
    }
}
