//! The queue before a connection: in memory, or in a spool on disk.

use crate::memory::{MEMORY_BYTES_MAX, MemoryQueue};
use crate::message::Message;
use crate::spool::Spool;
use std::io;
use std::sync::Arc;
use weir_pipeline::bounded::{Bounded, Refused, WhenFull};

/// A queue of messages. Messages that were read stay in the queue until they are acknowledged.
#[derive(Debug)]
pub struct Queue(Place);

#[derive(Debug)]
enum Place {
    /// The messages end with the process.
    Memory(MemoryQueue),
    /// The messages stay, and the next process sends them.
    Disk(Box<Spool>),
}

impl Bounded for Queue {
    /// A message with this number of rows.
    type Item = (u32, Vec<u8>);

    fn when_full(&self) -> WhenFull {
        match self.0 {
            Place::Memory(_) => WhenFull::Refuse,
            Place::Disk(_) => WhenFull::Spill,
        }
    }

    /// Bytes.
    fn bound(&self) -> u64 {
        match &self.0 {
            Place::Memory(_) => MEMORY_BYTES_MAX as u64,
            Place::Disk(spool) => spool.bytes_max(),
        }
    }

    fn waiting(&self) -> u64 {
        match &self.0 {
            Place::Memory(queue) => queue.bytes(),
            Place::Disk(spool) => spool.size(),
        }
    }

    /// A message on the disk has room beside what a file has in addition, and has a bound of its own.
    fn has_room(&self, bytes: u64) -> bool {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        match &self.0 {
            Place::Memory(queue) => queue.has_room(bytes),
            Place::Disk(spool) => spool.has_room(bytes),
        }
    }

    fn offer(&mut self, (rows, bytes): (u32, Vec<u8>)) -> Result<(), Refused> {
        let is_accepted = match &mut self.0 {
            Place::Memory(queue) => Ok(queue.push(rows, bytes)),
            Place::Disk(spool) => spool.push(rows, &bytes),
        };
        match is_accepted {
            Ok(true) => Ok(()),
            Ok(false) => Err(Refused::Full),
            Err(error) => Err(Refused::Broken(error)),
        }
    }
}

impl Queue {
    /// A queue in memory, for messages with this context.
    pub fn in_memory(context: Arc<[u8]>) -> Self {
        Self(Place::Memory(MemoryQueue::new(context)))
    }

    /// A queue on disk.
    pub fn on_disk(spool: Spool) -> Self {
        Self(Place::Disk(Box::new(spool)))
    }

    /// Reads the next message. `None`: there is none at present.
    ///
    /// # Errors
    /// The disk cannot be read. The next call goes on after the damage.
    pub fn read_next(&mut self) -> io::Result<Option<Message>> {
        match &mut self.0 {
            Place::Memory(queue) => Ok(queue.read_next()),
            Place::Disk(spool) => spool.read_next(),
        }
    }

    /// Removes the first message that was read.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn acknowledge(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Place::Memory(queue) => queue.acknowledge(),
            Place::Disk(spool) => return spool.acknowledge(),
        }
        Ok(())
    }

    /// The messages that were read and are not acknowledged will be read again.
    pub fn rewind(&mut self) {
        match &mut self.0 {
            Place::Memory(queue) => queue.rewind(),
            Place::Disk(spool) => spool.rewind(),
        }
    }

    /// Rows that wait, as far as is known.
    pub fn waiting_rows(&self) -> u64 {
        match &self.0 {
            Place::Memory(queue) => queue.waiting_rows(),
            Place::Disk(spool) => spool.waiting_rows(),
        }
    }

    /// Whether there may be a message that was not read.
    pub fn has_next(&self) -> bool {
        match &self.0 {
            Place::Memory(queue) => queue.has_next(),
            Place::Disk(spool) => spool.has_next(),
        }
    }

    /// Bytes of damaged messages on disk.
    pub fn damaged_bytes(&self) -> u64 {
        match &self.0 {
            Place::Memory(_) => 0,
            Place::Disk(spool) => spool.damaged_bytes(),
        }
    }

    /// Writes messages to the disk, as far as they are in files.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn sync(&self) -> io::Result<()> {
        match &self.0 {
            Place::Memory(_) => Ok(()),
            Place::Disk(spool) => spool.sync(),
        }
    }

    /// Whether the messages stay when the process ends.
    pub fn is_kept(&self) -> bool {
        matches!(self.0, Place::Disk(_))
    }
}
