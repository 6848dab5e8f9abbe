//! Instructions.

use super::{BinaryOp, CompareOp, Event, Fuel, Meta, Out, Pattern, Sequence, Set, Value, Var, Width};

/// An instruction. [`Inst::results`] holds its results.
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
    /// The second operand if the first (a bool) is true, else the third. → their type
    Select(Value, Value, Value),
    /// The packet's bytes. → buf
    Frame,
    /// A prefix of a buffer, up to an offset (the second operand), or all of a shorter buffer. → buf
    Narrow(Value, Value),
    /// Number of bytes in a buffer. → int
    Length(Value),
    /// Bytes at offset plus displacement, big-endian unless `little`. → int
    Load {
        /// The buffer.
        buf: Value,
        /// Offset.
        offset: Value,
        /// Added to the offset.
        displacement: u32,
        /// Number of bytes.
        width: Width,
        /// Little-endian.
        little: bool,
    },
    /// Metadata of the packet. → int
    Meta(Meta),
    /// Number `n` of the record on which a deferred predicate is evaluated. → int
    Input(u32),
    /// Bytes (or text) `n` of that record. → buf
    InputBytes(u32),
    /// Whether the 128-bit number (high, low) is in a set. → bool
    Member {
        /// The set.
        set: Set,
        /// Upper 64 bits.
        high: Value,
        /// Lower 64 bits.
        low: Value,
    },
    /// Whether a pattern matches the bytes `offset .. offset + length` (clipped to the buffer; needs no check). → bool
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
    /// The RFC 1071 sum of a number and the bytes `offset .. offset + length` as 16-bit numbers, an odd last byte
    /// padded with a zero: 0 to 0xffff. 0 if the range exceeds the buffer (needs no check); otherwise 0 only if all
    /// operands are 0. → int
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
    /// The first eight of the bytes `offset .. offset + length` (clipped to the buffer; needs no check) as one
    /// big-endian number; missing bytes are zeros at the end. → int
    Excerpt {
        /// The buffer.
        buf: Value,
        /// Offset.
        offset: Value,
        /// Length.
        length: Value,
    },
    /// Reads a variable of a flow. `side` (false: the originator's, true: the responder's) is present if and only if
    /// the variable has sides. → int
    Get {
        /// The flow.
        flow: Value,
        /// The variable.
        var: Var,
        /// The side.
        side: Option<Value>,
    },
    /// Writes a variable of a flow, truncated to its bits.
    Set {
        /// The flow.
        flow: Value,
        /// The variable.
        var: Var,
        /// The side.
        side: Option<Value>,
        /// The new value.
        value: Value,
    },
    /// Appends a letter (an int) to a variable of kind `letters`, unless the letter is already present or the variable
    /// is full.
    Append {
        /// The flow.
        flow: Value,
        /// The variable: its first byte is the count, the letters follow.
        var: Var,
        /// The letter.
        letter: Value,
    },
    /// Inserts bytes into a sequence. → int status ([`crate::abi::SEQ_QUEUED`] …), int number of leading bytes received
    /// before
    SeqInsert {
        /// The sequence.
        sequence: Sequence,
        /// The flow.
        flow: Value,
        /// The direction (false: the originator's).
        side: Value,
        /// Sequence number of the first byte.
        at: Value,
        /// The buffer that contains the bytes.
        buf: Value,
        /// Their offset (the bytes may exceed the buffer if the capture truncated them).
        offset: Value,
        /// Number of bytes according to the headers.
        length: Value,
        /// Number of sequence numbers that the bytes consume.
        span: Value,
        /// Values to store until the bytes are in order.
        metas: Vec<Value>,
    },
    /// Records that the receiver acknowledged all numbers before `at`: missing bytes before `at` will not arrive. The
    /// next `seq_next` for the receiver's own direction returns the bytes queued behind these gaps.
    SeqAcknowledge {
        /// The sequence.
        sequence: Sequence,
        /// The flow.
        flow: Value,
        /// The direction of the acknowledged bytes (false: the originator's).
        side: Value,
        /// The number after the last acknowledged one.
        at: Value,
    },
    /// The next queued bytes that are in order: first those of the opposite direction that this packet acknowledged. →
    /// bool whether there are any, int bytes missing before them, buf, int offset, int length according to the headers,
    /// bool whether they belong to the opposite direction, then the metas
    SeqNext {
        /// The sequence.
        sequence: Sequence,
        /// The flow.
        flow: Value,
        /// The direction.
        side: Value,
    },
    /// Returns all in-order bytes that the sequence retains as one buffer, and forgets them. → buf
    SeqAssemble {
        /// The sequence.
        sequence: Sequence,
        /// The flow.
        flow: Value,
        /// The direction.
        side: Value,
    },
    /// Appends in-order bytes to a direction's input for messages.
    Collect {
        /// The flow.
        flow: Value,
        /// The direction.
        side: Value,
        /// Number of bytes missing before them.
        gap: Value,
        /// The buffer.
        buf: Value,
        /// Offset.
        offset: Value,
        /// Number of bytes according to the headers; those beyond the buffer's end are missing.
        length: Value,
        /// Empty, or the flags of a chunk ([`crate::abi::WHOLE_EDGE`] and others) and the values of its chunked
        /// message.
        whole: Vec<Value>,
    },
    /// A value of the current chunked message, carried by its first chunk. [`Op::Messages`] or [`Op::NextMessages`]
    /// made the message current. → int
    WholeValue {
        /// The number of the value in [`Op::Collect`].
        number: u32,
    },
    /// The first contiguous run of a direction's collected bytes that may contain a message; empty if there is none.
    /// This direction and run become the current ones. → buf
    Messages {
        /// The flow.
        flow: Value,
        /// The direction.
        side: Value,
    },
    /// Consumes the first `done` bytes of the current run, a finished message. The next message is complete with
    /// `wanted` further bytes (0: not known yet; [`crate::abi::MESSAGES_LOST`]: no message begins there;
    /// [`crate::abi::MESSAGES_LATER`]: continue with the next packet). Returns the rest of the run, or the next one, as
    /// [`Op::Messages`] does. → buf
    NextMessages {
        /// Number of consumed bytes of the current run.
        done: Value,
        /// Number of bytes of the next message.
        wanted: Value,
    },
    /// Resets the counter of a loop over parts of a message; the enclosing loop over messages is bounded separately.
    Refuel {
        /// The counter.
        fuel: Fuel,
    },
    /// Delivers in-order bytes to the sessions of a flow.
    Deliver {
        /// The flow.
        flow: Value,
        /// The direction.
        side: Value,
        /// Number of bytes missing before them.
        gap: Value,
        /// The buffer.
        buf: Value,
        /// Offset.
        offset: Value,
        /// Number of bytes according to the headers; those beyond the buffer's end are missing.
        length: Value,
    },
    /// Keeps the bytes `offset .. offset + length` of a buffer (clipped to it; needs no check) until the packet's
    /// events have been emitted. → int by which an event's column refers to them
    Keep {
        /// The buffer.
        buf: Value,
        /// Offset.
        offset: Value,
        /// Length.
        length: Value,
    },
    /// Emits an event with its columns.
    Emit {
        /// The event.
        event: Event,
        /// The flow, if the event names one.
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
