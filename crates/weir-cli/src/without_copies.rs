//! A part of a source, without the copies of packets that a mirror port delivers several times (`--dedup`).

use std::sync::Arc;
use std::time::Duration;
use weir::packet::{Burst, Copies, KernelFilters, Poll, Source, SourceError, SourceStats};

/// A part of a source, without copies.
pub struct WithoutCopies {
    pub part: Box<dyn Source + Send>,
    pub copies: Copies,
}

/// Polls a source until it has packets that are no copies, or none.
pub fn poll_without(
    source: &mut dyn Source,
    copies: &mut Copies,
    burst: &mut Burst,
) -> Result<Poll, SourceError> {
    loop {
        let polled = source.poll(burst)?;
        copies.remove_from(burst);
        if polled != Poll::Packets || !burst.packets.is_empty() {
            return Ok(polled);
        }
    }
}

impl Source for WithoutCopies {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        poll_without(&mut *self.part, &mut self.copies, burst)
    }

    fn narrow(&mut self, _: Option<&Arc<dyn KernelFilters>>) {
        // The kernel would count copies.
    }

    fn stats(&self) -> SourceStats {
        SourceStats { copies: self.copies.found(), ..self.part.stats() }
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
