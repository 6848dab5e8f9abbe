//! The window: the part of the input that is in memory, always one block.
//!
//! ```text
//!             headroom, up to a page       block_bytes
//!   block  |··········[tail]|[ fresh bytes, read or decompressed here ]|
//!                     ^pos   ^                                     ^end
//! ```
//!
//! A record that is cut at the end of a block is the only thing ever copied: it is carried to right
//! before the place that fresh bytes come to, so that reads stay large and aligned and a decompressed
//! block can be taken as it is. Where nobody refers to the block any longer it is used again in
//! place (one block then stays in the cache); otherwise another one comes from the pool.

use super::inflate::Ring;
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use weir_packet::{Block, BlockPool, Burst};

/// Bytes read at a time where nothing else is asked for.
pub(crate) const BLOCK_BYTES: usize = 1 << 20;

/// What the place of fresh bytes is a multiple of. The system copies from its pages to there: to a few bytes behind the
/// start of a page, where large allocations of glibc begin, takes twice as long (each load seems to wait for a
/// store of the same place in another page).
pub(crate) const PAGE_BYTES: usize = 4096;

/// Where fresh bytes come from.
pub(crate) enum Feed {
    /// Read here and now.
    Plain(Box<dyn Read + Send>),
    /// Decompressed on a thread of its own.
    Ring(Ring),
}

/// The bytes at hand, and the blocks they are kept in.
#[derive(Debug)]
pub(crate) struct Window {
    block: Arc<Block>,
    pos: usize,
    end: usize,
    /// Offset of `end` in the uncompressed file.
    end_offset: u64,
    pool: BlockPool,
    /// What a burst refers to while its old block is wanted back.
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

    /// Room before the fresh bytes of a block, and room for these.
    pub fn geometry(&self) -> (usize, usize) {
        (self.headroom, self.block_bytes)
    }

    /// Forgets all bytes: another file begins.
    pub fn reset(&mut self) {
        (self.pos, self.end, self.end_offset) = (0, 0, 0);
    }

    pub fn unread(&self) -> &[u8] {
        &self.block.heap()[self.pos..self.end]
    }

    /// The block's bytes up to the end of what was read, and the place of the next record in them.
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

    /// Lets `burst` refer to the block that its packets were found in.
    pub fn lend_to(&self, burst: &mut Burst) {
        if !Arc::ptr_eq(&burst.block, &self.block) {
            burst.block = Arc::clone(&self.block);
        }
    }

    /// Takes back the reference of `burst`, whose packets mean nothing any longer.
    pub fn reclaim(&self, burst: &mut Burst) {
        burst.block = Arc::clone(&self.nothing);
    }

    /// Brings in bytes until `need` are unread; `false` where the input ends before that.
    ///
    /// `burst` must not hold packets that mean anything: its reference is taken back, so that its block may
    /// be used again.
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
            // `own` made room for a block; only a record larger than that comes here without any.
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

    /// Makes `bytes` the block; answers with bytes that nobody refers to any longer.
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

    /// Makes the block this window's alone, with the unread bytes right before the first page behind the
    /// headroom (or behind their own length, where they are longer) and room for a block behind them.
    fn own(&mut self) {
        let tail = self.end - self.pos;
        let front = self.headroom.max(tail);
        let start = |bytes: &mut Vec<u8>| {
            let room = front + PAGE_BYTES + self.block_bytes;
            if bytes.is_empty() {
                // Pages that nobody wrote: of a small file most are never touched.
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
