//! Instructions.

use super::{BinaryOp, CompareOp, Event, Fuel, Meta, Out, Pattern, Sequence, Set, Value, Var, Width};

/// An instruction. What it defines stands in [`Inst::results`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Op {
    /// A number. → int
    Const(u64),
    /// True or false. → bool
    Bool(bool),
    /// Arithmetic on ints; and, or, xor on bools too. → type of its operands
    Binary(BinaryOp, Value, Value),
    /// Comparison of ints. → bool
    Compare(CompareOp, Value, Value),
    /// Not. → bool
    Not(Value),
    /// 1 for true, 0 for false. → int
    FromBool(Value),
    /// The second where the first (a bool) is true, else the third. → their type
    Select(Value, Value, Value),
    /// The packet's bytes. → buf
    Frame,
    /// Its bytes up to an offset (the second); all where it is longer than that. → buf
    Narrow(Value, Value),
    /// Bytes in a buffer. → int
    Length(Value),
    /// Bytes at offset plus displacement, most significant first unless `little`. → int
    Load {
        /// The buffer.
        buf: Value,
        /// Offset.
        offset: Value,
        /// Added to the offset.
        displacement: u32,
        /// How many bytes.
        width: Width,
        /// Least significant byte first.
        little: bool,
    },
    /// What the capture says of the packet. → int
    Meta(Meta),
    /// Number `n` of the record that a residual filter is asked about. → int
    Input(u32),
    /// Bytes `n` of that record (text, too). → buf
    InputBytes(u32),
    /// Whether (high, low), a number of 128 bits, lies in a set. → bool
    Member {
        /// The set.
        set: Set,
        /// Upper 64 bits.
        high: Value,
        /// Lower 64 bits.
        low: Value,
    },
    /// Whether a pattern occurs in the bytes `offset .. offset + length` (cut to the buffer; needs no check). → bool
    Search {
        /// The pattern.
        pattern: Pattern,
        /// The buffer.
        buf: Value,
        /// Offset.
        offset: Value,
        /// Length.
        length: Value,
    },
    /// The sum of a number and the bytes `offset .. offset + length`, taken as numbers of 16 bits, an odd last one
    /// filled up with a zero, with carries added in at the end (RFC 1071): 0 to 0xffff. 0 where the bytes do not all
    /// lie in the buffer (needs no check), and else only where everything is 0. → int
    Sum16 {
        /// The buffer.
        buf: Value,
        /// Offset.
        offset: Value,
        /// Length.
        length: Value,
        /// The number.
        first: Value,
    },
    /// The first eight of the bytes `offset .. offset + length` (cut to the buffer; needs no check) as one number, the
    /// first of them highest; where there are fewer, zeros follow them. → int
    Excerpt {
        /// The buffer.
        buf: Value,
        /// Offset.
        offset: Value,
        /// Length.
        length: Value,
    },
    /// Reads a variable of a flow. `side` (false: the originator's, true: the responder's) exactly where it has sides. → int
    Get {
        /// The flow.
        flow: Value,
        /// The variable.
        var: Var,
        /// Whose.
        side: Option<Value>,
    },
    /// Writes a variable of a flow, cut to its bits.
    Set {
        /// The flow.
        flow: Value,
        /// The variable.
        var: Var,
        /// Whose.
        side: Option<Value>,
        /// The new value.
        value: Value,
    },
    /// Appends a letter (an int) to a variable of kind `letters`, once: not where it is in it, or it is full.
    Append {
        /// The flow.
        flow: Value,
        /// The variable: first byte the count, then the letters.
        var: Var,
        /// The letter.
        letter: Value,
    },
    /// Offers bytes to a sequence. → int status ([`crate::abi::SEQ_QUEUED`] …), int bytes at their front that were there already.
    SeqInsert {
        /// The sequence.
        sequence: Sequence,
        /// The flow.
        flow: Value,
        /// Whose direction (false: the originator's).
        side: Value,
        /// Sequence number of the first byte.
        at: Value,
        /// The buffer that the bytes lie in.
        buf: Value,
        /// Their offset (the bytes may reach past the buffer's end where a capture cut them).
        offset: Value,
        /// Their number, as the headers claim it.
        length: Value,
        /// Sequence numbers they use up.
        span: Value,
        /// Values to remember for when they are in order.
        metas: Vec<Value>,
    },
    /// The other side acknowledged all numbers before `at`: what is missing before it will not come. What waits behind
    /// holes there passes at the next `seq_next` of the other side.
    SeqAcknowledge {
        /// The sequence.
        sequence: Sequence,
        /// The flow.
        flow: Value,
        /// Whose numbers these are (false: the originator's).
        side: Value,
        /// The number behind the last one acknowledged.
        at: Value,
    },
    /// The next queued bytes that are in order now: first those of the other direction that this packet acknowledged.
    /// → bool there are some, int bytes missing before them, buf, int offset, int length as claimed, bool they are the
    /// other direction's, then the metas
    SeqNext {
        /// The sequence.
        sequence: Sequence,
        /// The flow.
        flow: Value,
        /// Whose direction.
        side: Value,
    },
    /// All bytes in order that the sequence retains, as one buffer, and forgets them. → buf
    SeqAssemble {
        /// The sequence.
        sequence: Sequence,
        /// The flow.
        flow: Value,
        /// Whose direction.
        side: Value,
    },
    /// Adds bytes in order to those of which a direction's messages are made.
    Collect {
        /// The flow.
        flow: Value,
        /// Whose direction.
        side: Value,
        /// Bytes missing before them.
        gap: Value,
        /// The buffer.
        buf: Value,
        /// Offset.
        offset: Value,
        /// Bytes as claimed; those beyond the buffer's end are missing.
        length: Value,
        /// Nothing, or what these bytes are of a whole ([`crate::abi::WHOLE_EDGE`] and others), and values that go with it.
        whole: Vec<Value>,
    },
    /// Of the whole at hand (which [`Op::Messages`] or [`Op::NextMessages`] gave) one of the values that its first part
    /// brought. → int
    WholeValue {
        /// Which of [`Op::Collect`]'s.
        number: u32,
    },
    /// The first run of a direction's collected bytes, without a gap in it, that may hold a message; empty where there
    /// is none. From now on this direction is the one at hand. → buf
    Messages {
        /// The flow.
        flow: Value,
        /// Whose direction.
        side: Value,
    },
    /// Of the run at hand the first `done` bytes are a message that is over; the next one is whole once `wanted` bytes
    /// are there behind them (0: nobody knows yet; [`crate::abi::MESSAGES_LOST`]: no message begins there;
    /// [`crate::abi::MESSAGES_LATER`]: it is for the next packet). What is left of the run, or the next one, as of
    /// [`Op::Messages`]. → buf
    NextMessages {
        /// Bytes of the run at hand.
        done: Value,
        /// Bytes.
        wanted: Value,
    },
    /// A loop begins anew: a message's own, which another loop bounds that is around them.
    Refuel {
        /// Which counter.
        fuel: Fuel,
    },
    /// Hands bytes in order to the sessions of a flow.
    Deliver {
        /// The flow.
        flow: Value,
        /// Whose direction.
        side: Value,
        /// Bytes missing before them.
        gap: Value,
        /// The buffer.
        buf: Value,
        /// Offset.
        offset: Value,
        /// Bytes as claimed; those beyond the buffer's end are missing.
        length: Value,
    },
    /// Keeps the bytes `offset .. offset + length` of a buffer (cut to it; needs no check) until the packet's events
    /// have been told. → int by which a column of these names them
    Keep {
        /// The buffer.
        buf: Value,
        /// Offset.
        offset: Value,
        /// Length.
        length: Value,
    },
    /// An event with its columns.
    Emit {
        /// The event.
        event: Event,
        /// Its flow, where it has one.
        flow: Option<Value>,
        /// The columns.
        values: Vec<Value>,
    },
    /// Stores a value (an int) in a slot of the packet's record.
    Store {
        /// The slot.
        out: Out,
        /// The value.
        value: Value,
    },
}
