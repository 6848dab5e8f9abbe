//! The client of a request, and how its query ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The client of a request, while the request is answered.
#[derive(Debug, Clone, Default)]
pub struct Client(Arc<Ending>);

#[derive(Debug, Default)]
struct Ending {
    ends: Arc<AtomicBool>,
    is_late: AtomicBool,
}

impl Client {
    /// Set when the answer is no longer wanted: the client is gone, or the time for the query is over.
    pub fn ends(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0.ends)
    }

    /// The time for the query is over: what was found so far is the answer.
    pub fn is_late(&self) -> bool {
        self.0.is_late.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self) {
        self.0.ends.store(true, Ordering::Release);
    }

    pub(crate) fn end_late(&self) {
        self.0.is_late.store(true, Ordering::Release);
        self.end();
    }
}

/// Ends the query of a client when it is dropped.
pub(crate) struct EndsWith(pub Client);

impl Drop for EndsWith {
    fn drop(&mut self) {
        self.0.end();
    }
}
