//! Consecutive bytes of a direction.

use std::collections::VecDeque;
use std::sync::Arc;
use weir_ir::abi::{METAS_MAX, Slice};
use weir_packet::Block;

/// Limit of segment starts that are stored per run.
const STARTS_MAX: usize = 256;

/// Bytes without a gap.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub bytes: Bytes,
    /// Offsets at which segments begin in the run, except the first.
    pub starts: VecDeque<u32>,
    /// The values of the first part, if the run is a whole.
    pub values: [u64; METAS_MAX],
}

#[derive(Debug)]
pub(super) enum Bytes {
    /// Refers to the segment that is being read.
    Referred(Slice),
    /// A copy, which may grow.
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

    /// Appends the next segment.
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

    /// The bytes as a slice that stays valid while a program reads it.
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

    /// The run without its first `done` bytes.
    pub fn behind(mut self, done: u32) -> Self {
        let Slice { block, offset, length } = self.slice();
        let done = done.min(length);
        self.bytes = Bytes::Referred(Slice { block, offset: offset + done, length: length - done });
        self.starts.iter_mut().for_each(|start| *start = start.saturating_sub(done));
        self.starts.retain(|start| *start > 0);
        self
    }

    /// Copies the bytes if their memory returns to its source with the burst. `None`: they may stay there.
    pub fn hold(&mut self) -> Option<()> {
        let Bytes::Referred(slice) = &self.bytes else { return None };
        if slice.clone().hold().is_some() {
            return None;
        }
        self.bytes = Bytes::Kept(slice.bytes().to_vec());
        Some(())
    }

    /// The run as a copy, so that it does not keep a block of the capture from being reused.
    pub fn copied(mut self) -> Self {
        if let Bytes::Referred(slice) = &self.bytes {
            self.bytes = Bytes::Kept(slice.bytes().to_vec());
        }
        self
    }
}
