//! The cost of kept segments for a worker: the bytes referred to, and the capture blocks that the references
//! keep from being reused.

use super::piece::{PIECE_COST, Piece};
use crate::table::BuildIdHasher;
use std::collections::HashMap;
use std::sync::Arc;
use weir_ir::abi::Slice;
use weir_packet::{Block, Retention, offset_in};

/// Blocks that [`Assembly`] reuses; more are allocated when more datagrams are in use at once.
const ASSEMBLED_BLOCKS_MAX: usize = 16;

/// The account of one worker.
#[derive(Debug)]
pub(super) struct Budget {
    /// References per block, by the block's address. Copies are not counted, because nobody waits to reuse
    /// them.
    references: HashMap<usize, u32, BuildIdHasher>,
    pinned_bytes: usize,
    pinned_bytes_max: usize,
    held_bytes: usize,
}

impl Budget {
    /// An empty account that allows up to `pinned_bytes_max` bytes of pinned blocks.
    pub(super) fn new(pinned_bytes_max: usize) -> Self {
        Self { references: HashMap::default(), pinned_bytes: 0, pinned_bytes_max, held_bytes: 0 }
    }

    /// The cost of a kept segment: its bytes, its description, and its packet if that is kept. Each part of a
    /// packet is charged for the whole packet.
    pub(super) fn cost(piece: &Piece) -> usize {
        let frame = piece.frame.as_ref().map_or(0, |frame| frame.cost_beside(&piece.bytes));
        piece.bytes.length as usize + PIECE_COST + frame
    }

    /// The cost of all kept segments, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Bytes of all blocks referred to, except copies.
    pub(super) fn pinned_bytes(&self) -> usize {
        self.pinned_bytes
    }

    /// Whether a reference to this block is within the bound: the block is referred to already, or small
    /// enough.
    pub(super) fn may_pin(&self, block: &Arc<Block>) -> bool {
        self.pinned_bytes.saturating_add(block.size_bytes()) <= self.pinned_bytes_max
            || self.references.contains_key(&Arc::as_ptr(block).addr())
    }

    /// Charges a segment to the account. Returns its cost.
    pub(super) fn keep(&mut self, piece: &Piece) -> usize {
        self.refer(&piece.bytes);
        piece.frame.iter().for_each(|frame| self.refer(&frame.bytes));
        let cost = Self::cost(piece);
        self.held_bytes += cost;
        cost
    }

    /// Removes a segment from the account.
    pub(super) fn release(&mut self, piece: &Piece) {
        self.held_bytes -= Self::cost(piece);
        self.let_go(&piece.bytes);
        piece.frame.iter().for_each(|frame| self.let_go(&frame.bytes));
    }

    /// Charges what is kept besides segments.
    pub(super) fn hold(&mut self, bytes: usize) {
        self.held_bytes += bytes;
    }

    /// Removes such a charge.
    pub(super) fn free(&mut self, bytes: usize) {
        self.held_bytes -= bytes;
    }

    fn refer(&mut self, bytes: &Slice) {
        if !pins(bytes) {
            return;
        }
        let references = self.references.entry(Arc::as_ptr(&bytes.block).addr()).or_insert(0);
        *references += 1;
        if *references == 1 {
            self.pinned_bytes += bytes.block.size_bytes();
        }
    }

    fn let_go(&mut self, bytes: &Slice) {
        if !pins(bytes) {
            return;
        }
        let block = Arc::as_ptr(&bytes.block).addr();
        let references = self.references.get_mut(&block).expect("what is released was kept");
        *references -= 1;
        if *references == 0 {
            self.references.remove(&block);
            self.pinned_bytes -= bytes.block.size_bytes();
        }
    }
}

/// Whether a reference to these bytes keeps a block from being reused.
fn pins(bytes: &Slice) -> bool {
    bytes.length > 0 && bytes.block.retention() != Retention::Owned
}

/// The range of `kept` that corresponds to `part` of `all`; `kept` holds the bytes of `all`.
pub(super) fn within_kept(kept: &Slice, all: &[u8], part: &[u8]) -> Option<Slice> {
    let offset = kept.offset + u32::try_from(offset_in(all, part)?).ok()?;
    let length = u32::try_from(part.len()).ok()?;
    Some(Slice { block: Arc::clone(&kept.block), offset, length })
}

/// Joins pieces into blocks, which are reused once nobody refers to them.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    blocks: Vec<Arc<Block>>,
    nothing: Slice,
}

impl Assembly {
    /// An empty slice. Allocates nothing.
    pub(super) fn nothing(&self) -> Slice {
        self.nothing.clone()
    }

    /// A reference to `bytes`, which lie in `block` or in a recently assembled block. `None` if they lie
    /// elsewhere.
    pub(super) fn refer(&self, block: &Arc<Block>, bytes: &[u8]) -> Option<Slice> {
        let assembled = || self.blocks.iter().find_map(|block| Slice::within(block, bytes));
        Slice::within(block, bytes).or_else(assembled)
    }

    /// Joins all pieces into one slice, up to the first byte that was not captured. A single piece is
    /// referred to; several are copied.
    pub(super) fn join(&mut self, pieces: &[Piece]) -> Slice {
        match pieces {
            [] => return self.nothing(),
            [piece] => return piece.bytes.clone(),
            _ => {}
        }
        let whole = |p: &&Piece| u64::from(p.bytes.length) == p.claimed_bytes;
        let count = pieces.iter().take_while(whole).count();
        let pieces = &pieces[..pieces.len().min(count + 1)];
        let length = pieces.iter().map(|p| p.bytes.length).sum();
        let free = self.blocks.iter_mut().position(|block| Arc::get_mut(block).is_some());
        let mut block = free.map_or_else(Arc::default, |free| self.blocks.swap_remove(free));
        let bytes = Arc::get_mut(&mut block).expect("nobody else refers to it").heap_mut();
        bytes.clear();
        pieces.iter().for_each(|p| bytes.extend_from_slice(p.bytes.bytes()));
        if self.blocks.len() < ASSEMBLED_BLOCKS_MAX {
            self.blocks.push(Arc::clone(&block));
        }
        Slice { block, offset: 0, length }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_ir::abi::METAS_MAX;

    fn piece(bytes: Slice) -> Piece {
        Piece { start: 0, span: 2, claimed_bytes: 2, bytes, metas: [0; METAS_MAX], last: true, frame: None }
    }

    #[test]
    fn a_block_is_pinned_once_however_many_refer_to_it() {
        let captured = |bytes| Arc::new(Block::shared(vec![7; bytes]));
        let block = captured(1000);
        let mut budget = Budget::new(1500);
        let assembly = Assembly::default();
        let pieces = [0, 10, 20].map(|at| piece(assembly.refer(&block, &block.heap()[at..at + 5]).unwrap()));
        pieces.iter().for_each(|piece| _ = budget.keep(piece));
        assert_eq!((pieces[2].bytes.offset, budget.pinned_bytes()), (20, 1000));
        assert!(budget.may_pin(&block) && !budget.may_pin(&captured(501)));
        pieces.iter().for_each(|piece| budget.release(piece));
        assert_eq!((budget.pinned_bytes(), budget.held_bytes()), (0, 0));
        let copy = piece(Slice::copy_of(&[7; 1000]));
        budget.keep(&copy);
        assert_eq!(budget.pinned_bytes(), 0, "nobody waits for a copy");
    }

    #[test]
    fn bytes_elsewhere_are_not_referred_to() {
        let block = Arc::new(Block::from(vec![7; 10]));
        assert!(Assembly::default().refer(&block, &[7; 4]).is_none());
    }

    #[test]
    fn a_joined_block_is_used_again_when_it_is_free() {
        let piece = |text: &str| piece(Slice::copy_of(text.as_bytes()));
        let mut assembly = Assembly::default();
        let first = assembly.join(&[piece("ab"), piece("cd")]);
        let second = assembly.join(&[piece("ef"), piece("g"), piece("hi")]);
        assert_eq!((first.bytes(), second.bytes()), (&b"abcd"[..], &b"efg"[..]), "cut where bytes lack");
        let address = Arc::as_ptr(&first.block);
        drop(first);
        let third = assembly.join(&[piece("jk"), piece("lm")]);
        assert_eq!((third.bytes(), Arc::as_ptr(&third.block)), (&b"jklm"[..], address));
    }
}
