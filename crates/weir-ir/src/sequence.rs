//! The sequence state that programs and the engine share: the variables [`EngineVar::SEQUENCE`] of its table,
//! one per direction. They are stored in the flow's own record, so the flow's cache lines hold them.
//!
//! The engine owns them. A program may handle a segment by itself if the segment is next in order and nothing
//! is queued (pass `fast_forward`): it advances [`EngineVar::SeqNext`] and [`EngineVar::SeqHigh`], and counts
//! the segment in [`EngineVar::SeqFlags`]. The engine takes over the count at its next call for the sequence,
//! and at the flow's end.
//!
//! This file defines the bits of [`EngineVar::SeqFlags`].
//!
//! [`EngineVar::SEQUENCE`]: crate::engine_var::EngineVar::SEQUENCE
//! [`EngineVar::SeqNext`]: crate::engine_var::EngineVar::SeqNext
//! [`EngineVar::SeqHigh`]: crate::engine_var::EngineVar::SeqHigh
//! [`EngineVar::SeqFlags`]: crate::engine_var::EngineVar::SeqFlags

/// The first sequence number is known.
pub const STARTED: u32 = 1;
/// Segments are queued, or an end is not confirmed yet: `seq_next` may return something.
pub const QUEUED: u32 = 2;
/// In-order bytes are retained for `seq_assemble`.
pub const RETAINED: u32 = 4;
/// This direction acknowledged gaps of the opposite one: `seq_next` returns the bytes queued behind them.
pub const ACKNOWLEDGES: u32 = 8;
/// The next segment of this direction acknowledges numbers of the opposite one that have not arrived.
pub const AHEAD: u32 = 16;
/// Segments of the opposite direction wait for the next bytes of this one; `seq_next` returns them then.
pub const EXPECTED: u32 = 32;
/// Bytes of this direction that the opposite one acknowledges and that have not arrived are lost: nothing
/// waits for them.
pub const UNAWAITED: u32 = 64;
/// The numbers of this direction have ended: the rest is out of window.
pub const ENDED: u32 = 128;
/// A FIN stands at the next number, and has passed; its receiver has not confirmed it yet. Nothing else is
/// kept.
pub const FINISHED: u32 = 256;
/// The first bit of the count of segments that the program handled.
pub const PASSED_SHIFT: u32 = 9;
/// The last bit of that count. If it is set, the program calls the engine, so the count never overflows.
pub const PASSED_MANY: u32 = 1 << 31;
