//! Ends captures early.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Stands in the place of a signal's number if the program itself ends the captures.
const ENDED: usize = usize::MAX;

/// Ends captures early, from another thread. The number is that of the signal that ended them, or `ENDED`; 0:
/// they go on.
#[derive(Clone, Default)]
pub struct Ender(pub Arc<AtomicUsize>);

impl Ender {
    /// Ends the captures, unless a signal has done so.
    pub fn end(&self) {
        // If a signal came first, that signal determines the exit status.
        let _ = self.0.compare_exchange(0, ENDED, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Whether a signal, or an ender, has ended the captures.
    pub fn has_ended(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }
}
