//! The packet that a segment came in, kept with the segment if a question asks for the packets of a stream.
//!
//! Frames are kept as bytes are: by reference to their block, or as a copy if the reference would pin too
//! much. A piece whose frame was copied refers to that copy, so its bytes are stored only once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_ir::abi::Slice;
use weir_packet::PacketMeta;

/// A packet while it is processed.
#[derive(Debug, Clone, Copy)]
pub struct FrameRef<'a> {
    /// The metadata of the packet.
    pub meta: &'a PacketMeta,
    /// The captured bytes of the packet.
    pub bytes: &'a [u8],
}

/// A packet whose payload waits in full or in part.
#[derive(Debug)]
pub struct KeptFrame {
    meta: PacketMeta,
    pub(super) bytes: Slice,
    /// A part of the payload has passed. Only one worker accesses it; it is atomic because workers move
    /// between threads.
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

    /// Marks that a part of the payload passes. Returns whether another part has passed before.
    pub(super) fn pass(&self) -> bool {
        self.has_passed.swap(true, Ordering::Relaxed)
    }

    /// Bytes that the frame costs besides `payload`, which may lie in the frame or elsewhere.
    pub(super) fn cost_beside(&self, payload: &Slice) -> usize {
        let is_part = Arc::ptr_eq(&self.bytes.block, &payload.block);
        let inside = if is_part { payload.length as usize } else { 0 };
        size_of::<Self>() + (self.bytes.length as usize).saturating_sub(inside)
    }
}
