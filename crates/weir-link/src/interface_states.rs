//! The states of interfaces, which all shares of a capture look at: each change is reported once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The interfaces, by index, that are down or gone; clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct InterfaceStates(Arc<Mutex<States>>);

#[derive(Debug, Default)]
struct States {
    down: HashSet<u32>,
    gone: HashSet<u32>,
}

impl InterfaceStates {
    fn states(&self) -> MutexGuard<'_, States> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The interface is down. Returns whether this is new.
    pub fn go_down(&self, index: u32) -> bool {
        self.states().down.insert(index)
    }

    /// The interface is up again. Returns whether this is new.
    pub fn come_up(&self, index: u32) -> bool {
        self.states().down.remove(&index)
    }

    /// The interface is gone. Returns whether this is new.
    pub fn leave(&self, index: u32) -> bool {
        self.states().gone.insert(index)
    }
}
