//! The state of a sequence that programs and the engine share: the variables [`EngineVar::SEQUENCE`] of its table, one
//! per direction. They lie in the flow's own record, so the flow's cache lines hold them.
//!
//! The engine owns them. A program may pass a segment by itself where the segment is next in order and nothing is
//! queued (pass `fast_forward`): it moves [`EngineVar::SeqNext`] and [`EngineVar::SeqHigh`] on, and counts the segment in
//! [`EngineVar::SeqFlags`]; the engine takes the count over at its next call for the sequence, and at the flow's end.
//!
//! This file has the bits of [`EngineVar::SeqFlags`].
//!
//! [`EngineVar::SEQUENCE`]: crate::engine_var::EngineVar::SEQUENCE
//! [`EngineVar::SeqNext`]: crate::engine_var::EngineVar::SeqNext
//! [`EngineVar::SeqHigh`]: crate::engine_var::EngineVar::SeqHigh
//! [`EngineVar::SeqFlags`]: crate::engine_var::EngineVar::SeqFlags

/// The sequence has its first number.
pub const STARTED: u32 = 1;
/// Segments are queued: `seq_next` may have some.
pub const QUEUED: u32 = 2;
/// Bytes in order are retained for `seq_assemble`.
pub const RETAINED: u32 = 4;
/// The direction acknowledged holes of the other's: `seq_next` has what waits behind them.
pub const ACKNOWLEDGES: u32 = 8;
/// The direction's next segment acknowledges numbers of the other one that have not come.
pub const AHEAD: u32 = 16;
/// Segments of the other direction wait for what this one has yet to bring: `seq_next` has them then.
pub const EXPECTED: u32 = 32;
/// What the other direction acknowledges of this one, and has not come, is missing: nothing waits for it.
pub const UNAWAITED: u32 = 64;
/// The first bit of the count of segments passed.
pub const PASSED_SHIFT: u32 = 8;
/// The last bit of that count: where it is set, the program asks the engine, so the count never overflows.
pub const PASSED_MANY: u32 = 1 << 31;
