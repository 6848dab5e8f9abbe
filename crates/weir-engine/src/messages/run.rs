//! Bytes of a direction without a gap in them.

use std::collections::VecDeque;
use std::sync::Arc;
use weir_ir::abi::{METAS_MAX, Slice};
use weir_packet::Block;

/// Starts of segments that are remembered of a run at most.
const STARTS_MAX: usize = 256;

/// Bytes without a gap.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub bytes: Bytes,
    /// Where segments begin in it, but for the first.
    pub starts: VecDeque<u32>,
    /// What came with the first of them, where it is a whole.
    pub values: [u64; METAS_MAX],
}

#[derive(Debug)]
pub(super) enum Bytes {
    /// Of one segment, which is being taken apart.
    Referred(Slice),
    /// Copied, and may grow.
    Kept(Vec<u8>),
}

impl Default for Bytes {
    fn default() -> Self {
        Bytes::Kept(vec![])
    }
}

impl Run {
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Referred(slice) => slice.bytes(),
            Bytes::Kept(bytes) => bytes,
        }
    }

    pub fn len(&self) -> usize {
        self.bytes().len()
    }

    /// Another segment, right behind.
    pub fn extend(&mut self, bytes: &[u8]) {
        if self.starts.len() < STARTS_MAX {
            self.starts.push_back(self.len() as u32);
        }
        self.append(bytes);
    }

    pub fn append(&mut self, bytes: &[u8]) {
        match &mut self.bytes {
            Bytes::Kept(before) => before.extend_from_slice(bytes),
            Bytes::Referred(slice) => self.bytes = Bytes::Kept([slice.bytes(), bytes].concat()),
        }
    }

    /// As what lives while a program reads it.
    pub fn slice(&mut self) -> Slice {
        if let Bytes::Kept(bytes) = &mut self.bytes {
            let (length, bytes) = (bytes.len() as u32, std::mem::take(bytes));
            self.bytes = Bytes::Referred(Slice { block: Arc::new(Block::from(bytes)), offset: 0, length });
        }
        match &self.bytes {
            Bytes::Referred(slice) => slice.clone(),
            Bytes::Kept(_) => unreachable!("it was just made a reference"),
        }
    }

    /// Without its first bytes.
    pub fn behind(mut self, done: u32) -> Self {
        let Slice { block, offset, length } = self.slice();
        let done = done.min(length);
        self.bytes = Bytes::Referred(Slice { block, offset: offset + done, length: length - done });
        self.starts.iter_mut().for_each(|start| *start = start.saturating_sub(done));
        self.starts.retain(|start| *start > 0);
        self
    }

    /// Copies it where it lies in memory that goes back to its source with the burst. `None`: it may stay there.
    pub fn hold(&mut self) -> Option<()> {
        let Bytes::Referred(slice) = &self.bytes else { return None };
        if slice.clone().hold().is_some() {
            return None;
        }
        self.bytes = Bytes::Kept(slice.bytes().to_vec());
        Some(())
    }

    /// Held by nobody else: blocks of capture are not kept from being used again.
    pub fn copied(mut self) -> Self {
        if let Bytes::Referred(slice) = &self.bytes {
            self.bytes = Bytes::Kept(slice.bytes().to_vec());
        }
        self
    }
}
