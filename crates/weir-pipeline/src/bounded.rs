//! The contract of bounded queues between a run and somebody slower: a thread, an output, a receiver on
//! another machine.
//!
//! Each queue declares what it does with an item that finds no room ([`WhenFull`]), and obeys the same rules:
//!
//! - items come out in the order in which they went in, each once; after a restart of a receiver, at least
//!   once;
//! - an item is refused only if it has no room ([`Bounded::has_room`]), or if the queue cannot be used;
//! - what waits never exceeds the bound, but for a single item that alone is larger;
//! - whoever offers a refused item counts the loss: nothing is lost in silence.
//!
//! `weir-questions/tests/queues.rs` holds the queues of pipelines, outputs and exporters against one model.

use std::io;

/// What a bounded queue does with an item that finds no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// The sender waits for room: without end, or until the patience of the queue is over. Then the item is
    /// refused.
    Wait,
    /// The item is refused at once.
    Refuse,
    /// Items wait on the disk, within a larger bound. Beyond this bound, an item is refused at once.
    Spill,
}

/// A bounded queue.
pub trait Bounded {
    /// What waits in the queue.
    type Item;

    /// What happens to an item that finds no room.
    fn when_full(&self) -> WhenFull;

    /// The most that waits: bytes, or a number of items.
    fn bound(&self) -> u64;

    /// What waits now, in the same unit.
    fn waiting(&self) -> u64;

    /// Whether an item of this size, in the same unit, has room now.
    fn has_room(&self, size: u64) -> bool {
        self.waiting() == 0 || self.waiting().saturating_add(size) <= self.bound()
    }

    /// Puts an item into the queue.
    ///
    /// # Errors
    /// The item was refused.
    fn offer(&mut self, item: Self::Item) -> Result<(), Refused>;
}

/// Why a queue has refused an item.
#[derive(Debug)]
pub enum Refused {
    /// There is no room, and the patience of a queue that waits is over.
    Full,
    /// Nobody takes items any more.
    Closed,
    /// The system refuses: the disk, or a thread.
    Broken(io::Error),
}
