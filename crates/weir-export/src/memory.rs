//! A queue of messages in memory, bounded in bytes.

use crate::message::Message;
use std::collections::VecDeque;
use std::sync::Arc;

/// Limit of the bytes of the messages that wait in memory.
pub const MEMORY_BYTES_MAX: usize = 4 << 20;

/// Memory of a message beside its bytes, about.
const MESSAGE_BYTES: usize = 64;

/// Messages in memory.
#[derive(Debug)]
pub(crate) struct MemoryQueue {
    context: Arc<[u8]>,
    messages: VecDeque<(u32, Vec<u8>)>,
    /// How many of them were read.
    read: usize,
    bytes: usize,
    rows: u64,
}

impl MemoryQueue {
    pub fn new(context: Arc<[u8]>) -> Self {
        Self { context, messages: VecDeque::new(), read: 0, bytes: 0, rows: 0 }
    }

    pub fn has_room(&self, bytes: usize) -> bool {
        self.messages.is_empty() || self.bytes + bytes + MESSAGE_BYTES <= MEMORY_BYTES_MAX
    }

    pub fn push(&mut self, rows: u32, bytes: Vec<u8>) -> bool {
        if !self.has_room(bytes.len()) {
            return false;
        }
        self.bytes += bytes.len() + MESSAGE_BYTES;
        self.rows += u64::from(rows);
        self.messages.push_back((rows, bytes));
        true
    }

    pub fn read_next(&mut self) -> Option<Message> {
        let (rows, bytes) = self.messages.get(self.read)?;
        self.read += 1;
        Some(Message { rows: *rows, bytes: bytes.clone(), context: Arc::clone(&self.context) })
    }

    pub fn has_next(&self) -> bool {
        self.read < self.messages.len()
    }

    pub fn acknowledge(&mut self) {
        if self.read == 0 {
            return;
        }
        if let Some((rows, bytes)) = self.messages.pop_front() {
            self.read -= 1;
            self.bytes -= bytes.len() + MESSAGE_BYTES;
            self.rows -= u64::from(rows);
        }
    }

    pub fn rewind(&mut self) {
        self.read = 0;
    }

    /// Memory of the messages, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    pub fn waiting_rows(&self) -> u64 {
        self.rows
    }
}
