//! The packet that a segment came in, kept with it where somebody asks for the packets of a stream.
//!
//! Frames are kept as bytes are: by reference to their block, or copied where that would pin too much. A piece whose
//! frame was copied lies in that copy, so that nothing is there twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_ir::abi::Slice;
use weir_packet::PacketMeta;

/// A packet while it is processed.
#[derive(Debug, Clone, Copy)]
pub struct FrameRef<'a> {
    /// What the capture says of it.
    pub meta: &'a PacketMeta,
    /// As much of it as was captured.
    pub bytes: &'a [u8],
}

/// A packet whose payload waits, or part of it.
#[derive(Debug)]
pub struct KeptFrame {
    meta: PacketMeta,
    pub(super) bytes: Slice,
    /// A part of its payload has passed. One worker alone sees it; it is atomic since workers go from thread to thread.
    has_passed: AtomicBool,
}

impl KeptFrame {
    pub(super) fn new(meta: PacketMeta, bytes: Slice) -> Self {
        Self { meta, bytes, has_passed: AtomicBool::new(false) }
    }

    /// The packet.
    pub fn frame(&self) -> FrameRef<'_> {
        FrameRef { meta: &self.meta, bytes: self.bytes.bytes() }
    }

    /// A part of its payload passes; whether another part has before.
    pub(super) fn pass(&self) -> bool {
        self.has_passed.swap(true, Ordering::Relaxed)
    }

    /// Bytes that it costs beside `payload`, a part of it or of something else.
    pub(super) fn cost_beside(&self, payload: &Slice) -> usize {
        let is_part = Arc::ptr_eq(&self.bytes.block, &payload.block);
        let inside = if is_part { payload.length as usize } else { 0 };
        size_of::<Self>() + (self.bytes.length as usize).saturating_sub(inside)
    }
}
