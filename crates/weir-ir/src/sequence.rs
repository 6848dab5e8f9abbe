//! The state of a sequence that programs and the engine share: variables of its table, one per direction,
//! that lowering declares under the names below. So the flow's lines in cache hold them.
//!
//! The engine owns them. A program may pass a segment by itself where it is next in order and nothing waits
//! (pass `fast_forward`): it moves [`NEXT`] and [`HIGH`] on, and counts the segment in [`FLAGS`]; the engine
//! takes the count over when it is next asked, and when the flow ends.

use crate::graph::VarDecl;

/// Name of the next number expected, in the arithmetic of the sequence's bits. 64 bits.
pub const NEXT: &str = "$seq.next";
/// Name of how many numbers after the first one have been seen at most; does not wrap. 64 bits.
pub const HIGH: &str = "$seq.high";
/// Name of [`STARTED`] | [`QUEUED`] | [`RETAINED`] | [`ACKNOWLEDGES`] | [`AHEAD`] | [`EXPECTED`] | [`UNAWAITED`], and from [`PASSED_SHIFT`] on the segments with something
/// in them that the program passed by itself and that nobody has counted yet. 32 bits.
pub const FLAGS: &str = "$seq.flags";
/// Name of the bytes passed over because they were missing. 64 bits.
pub const MISSING: &str = "$seq.missing_bytes";

/// Name of which messages a direction holds, by the edge that leads to them, and one; 0 for none. 16 bits. Where it is
/// declared, programs collect bytes for them.
pub const MESSAGES: &str = "$messages";

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

/// Whether the engine keeps a sequence's state in this variable.
pub fn is_of_sequence(var: &VarDecl) -> bool {
    var.name.starts_with("$seq.")
}
