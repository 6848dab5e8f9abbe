//! The streams of all flows of a table, by the flows' numbers. Slots never move.

use super::FlowStreams;
use crate::table::{FlowId, prefetch};

/// The number of slots that are allocated together.
const PIECE: usize = 1024;

/// Slots for the largest number of flows that existed at the same time.
#[derive(Debug, Default)]
pub(crate) struct StreamSlots {
    pieces: Vec<Box<[FlowStreams]>>,
}

impl StreamSlots {
    /// Creates the slot of a flow.
    pub fn reserve(&mut self, id: FlowId) {
        while self.pieces.len() <= id.0 as usize / PIECE {
            self.pieces.push((0..PIECE).map(|_| FlowStreams::default()).collect());
        }
    }

    /// The streams of a flow; `None` if no question is about them.
    pub fn get(&self, id: FlowId) -> Option<&FlowStreams> {
        let piece = self.pieces.get(id.0 as usize / PIECE)?;
        Some(&piece[id.0 as usize % PIECE])
    }

    /// As [`get`](Self::get).
    pub fn get_mut(&mut self, id: FlowId) -> Option<&mut FlowStreams> {
        let piece = self.pieces.get_mut(id.0 as usize / PIECE)?;
        Some(&mut piece[id.0 as usize % PIECE])
    }

    /// Prefetches the slot of a flow.
    #[inline(always)]
    pub fn prefetch(&self, id: FlowId) {
        if let Some(piece) = self.pieces.get(id.0 as usize / PIECE) {
            piece[id.0 as usize % PIECE].sides.iter().for_each(prefetch);
        }
    }
}
