//! An interrupted run ends as if its input did: what was read is answered, files are whole. The second signal ends it at once.

use crate::failure::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir::packet::{Burst, Source, SourceError};

/// Captures, until a signal comes.
pub struct Stoppable<'a> {
    source: &'a mut dyn Source,
    stop: Arc<AtomicBool>,
}

impl<'a> Stoppable<'a> {
    /// From now on SIGINT and SIGTERM end `source`, with the next packets that come.
    pub fn new(source: &'a mut dyn Source) -> Result<Self, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // In this order: the first one finds the flag unset.
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))
                .map_err(Failure::new)?;
            signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(Failure::new)?;
        }
        Ok(Self { source, stop })
    }
}

impl Source for Stoppable<'_> {
    fn next_burst(&mut self, burst: &mut Burst) -> Result<bool, SourceError> {
        if self.stop.load(Ordering::Relaxed) {
            burst.packets.clear();
            return Ok(false);
        }
        self.source.next_burst(burst)
    }

    fn progress(&self) -> (u64, Option<u64>) {
        self.source.progress()
    }
}
