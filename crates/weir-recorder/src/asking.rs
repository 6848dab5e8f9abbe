//! Takes dumps for threads that are not there yet.

use crate::dumps::DumpAsker;
use std::sync::{Arc, OnceLock};

/// Takes dumps, once the threads that write them are there.
#[derive(Clone, Default)]
pub struct PendingAsker(Arc<OnceLock<DumpAsker>>);

impl PendingAsker {
    /// The threads are there.
    pub fn set(&self, asker: DumpAsker) {
        let _ = self.0.set(asker);
    }

    /// The threads, once they are there.
    pub fn get(&self) -> Option<&DumpAsker> {
        self.0.get()
    }
}
