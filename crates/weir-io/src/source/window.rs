//! The window: the part of the input that is in memory, always one block.
//!
//! ```text
//!             headroom, up to a page       block_bytes
//!   block  |··········[tail]|[ fresh bytes, read or decompressed here ]|
//!                     ^pos   ^                                     ^end
//! ```
//!
//! Only a record that is cut at the end of a block is ever copied: it is moved directly before the place of
//! fresh bytes, so that reads stay large and aligned, and a decompressed block can be used as it is. A block
//! without references is reused in place (one block then stays in the cache); otherwise the pool provides
//! another one.

use super::inflate::Ring;
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use weir_packet::{Block, BlockPool, Burst};

/// Default number of bytes per read.
pub(crate) const BLOCK_BYTES: usize = 1 << 20;

/// Fresh bytes begin at a multiple of this. Copies from the system's pages to an address a few bytes after
/// the start of a page, where large allocations of glibc begin, take twice as long (each load seems to wait
/// for a store to the same offset in another page).
pub(crate) const PAGE_BYTES: usize = 4096;

/// The origin of fresh bytes.
pub(crate) enum Feed {
    /// Read on the current thread.
    Plain(Box<dyn Read + Send>),
    /// Decompressed on a thread of its own.
    Ring(Ring),
}

/// The current bytes, and the blocks that hold them.
#[derive(Debug)]
pub(crate) struct Window {
    block: Arc<Block>,
    pos: usize,
    end: usize,
    /// Offset of `end` in the uncompressed file.
    end_offset: u64,
    pool: BlockPool,
    /// The block that a burst refers to while its old block is taken back.
    nothing: Arc<Block>,
    headroom: usize,
    block_bytes: usize,
}

impl Window {
    pub fn new(block_bytes: usize) -> Self {
        Self {
            block: Arc::default(),
            pos: 0,
            end: 0,
            end_offset: 0,
            pool: BlockPool::default(),
            nothing: Arc::default(),
            headroom: block_bytes / 4,
            block_bytes,
        }
    }

    /// Bytes before the fresh bytes of a block, and bytes for these.
    pub fn geometry(&self) -> (usize, usize) {
        (self.headroom, self.block_bytes)
    }

    /// Discards all bytes, because another file begins.
    pub fn reset(&mut self) {
        (self.pos, self.end, self.end_offset) = (0, 0, 0);
    }

    pub fn unread(&self) -> &[u8] {
        &self.block.heap()[self.pos..self.end]
    }

    /// The block's bytes up to the end of the bytes read, and the position of the next record.
    pub fn walked(&mut self) -> (&[u8], &mut usize) {
        (&self.block.heap()[..self.end], &mut self.pos)
    }

    /// Bytes of memory that the block takes up.
    #[cfg(test)]
    pub fn held_bytes(&self) -> usize {
        self.block.size_bytes()
    }

    /// Offset of the next unread byte in the uncompressed file.
    pub fn offset(&self) -> u64 {
        self.end_offset - (self.end - self.pos) as u64
    }

    pub fn consume(&mut self, bytes: usize) {
        self.pos += bytes;
        debug_assert!(self.pos <= self.end);
    }

    /// Lets `burst` refer to the block of its packets.
    pub fn lend_to(&self, burst: &mut Burst) {
        if !Arc::ptr_eq(&burst.block, &self.block) {
            burst.block = Arc::clone(&self.block);
        }
    }

    /// Takes back the reference of `burst`, whose packets become invalid.
    pub fn reclaim(&self, burst: &mut Burst) {
        burst.block = Arc::clone(&self.nothing);
    }

    /// Reads until `need` bytes are unread. Returns `false` if the input ends before that.
    ///
    /// `burst` must not hold valid packets: its reference is taken back, so that its block may be reused.
    /// Memory grows only as bytes arrive: a large `need` alone allocates nothing.
    pub fn fill(&mut self, feed: &mut Feed, need: usize, burst: &mut Burst) -> io::Result<bool> {
        self.reclaim(burst);
        match feed {
            Feed::Plain(reader) => self.fill_from_reader(reader.as_mut(), need),
            Feed::Ring(ring) => self.fill_from_ring(ring, need),
        }
    }

    fn fill_from_reader(&mut self, reader: &mut dyn Read, need: usize) -> io::Result<bool> {
        self.own();
        let block_bytes = self.block_bytes;
        let bytes = Arc::get_mut(&mut self.block).expect("`own` left nobody else").heap_mut();
        while self.end - self.pos < need {
            // `own` made room for a block; only a larger record leaves no room.
            if self.end == bytes.len() {
                bytes.resize(self.end + block_bytes, 0);
            }
            let room = bytes.len().min(self.end + block_bytes);
            match reader.read(&mut bytes[self.end..room]) {
                Ok(0) => return Ok(false),
                Ok(n) => {
                    self.end += n;
                    self.end_offset += n as u64;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    fn fill_from_ring(&mut self, ring: &mut Ring, need: usize) -> io::Result<bool> {
        while self.end - self.pos < need {
            let Some(mut chunk) = ring.next_chunk()? else { return Ok(false) };
            let tail = self.end - self.pos;
            self.end_offset += (chunk.end - self.headroom) as u64;
            if tail <= self.headroom {
                let start = self.headroom - tail;
                chunk.bytes[start..self.headroom].copy_from_slice(self.unread());
                let spent = self.replace_block(chunk.bytes);
                ring.recycle(spent);
                (self.pos, self.end) = (start, chunk.end);
            } else {
                self.own();
                let bytes = Arc::get_mut(&mut self.block).expect("`own` left nobody else").heap_mut();
                bytes.truncate(self.end);
                bytes.extend_from_slice(&chunk.bytes[self.headroom..chunk.end]);
                self.end = bytes.len();
                ring.recycle(chunk.bytes);
            }
        }
        Ok(true)
    }

    /// Makes `bytes` the block. Returns a buffer without references.
    fn replace_block(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        if let Some(own) = Arc::get_mut(&mut self.block) {
            return std::mem::replace(own.heap_mut(), bytes);
        }
        let mut fresh = self.pool.take();
        let own = Arc::get_mut(&mut fresh).expect("the pool's blocks are nobody's");
        let spent = std::mem::replace(own.heap_mut(), bytes);
        self.pool.lend(&self.block);
        self.block = fresh;
        spent
    }

    /// Makes the window the only owner of its block, with the unread bytes directly before the first page
    /// after the headroom (or after their own length, if they are longer) and room for a block behind them.
    fn own(&mut self) {
        let tail = self.end - self.pos;
        let front = self.headroom.max(tail);
        let start = |bytes: &mut Vec<u8>| {
            let room = front + PAGE_BYTES + self.block_bytes;
            if bytes.is_empty() {
                // The system provides zeroed pages on first access: with a small file, most are never
                // accessed.
                *bytes = vec![0; room];
            } else if bytes.len() < room {
                bytes.resize(room, 0);
            }
            front + bytes[front..].as_ptr().align_offset(PAGE_BYTES) - tail
        };
        let start = if let Some(own) = Arc::get_mut(&mut self.block) {
            let start = start(own.heap_mut());
            own.heap_mut().copy_within(self.pos..self.end, start);
            start
        } else {
            let mut fresh = self.pool.take();
            let own = Arc::get_mut(&mut fresh).expect("the pool's blocks are nobody's");
            let start = start(own.heap_mut());
            own.heap_mut()[start..start + tail].copy_from_slice(&self.block.heap()[self.pos..self.end]);
            self.pool.lend(&self.block);
            self.block = fresh;
            start
        };
        (self.pos, self.end) = (start, start + tail);
    }
}
