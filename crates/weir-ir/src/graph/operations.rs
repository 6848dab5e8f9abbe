//! The table of operations: one entry for each instruction.
//!
//! Everything that follows from an instruction's operands is derived from this table: the type
//! [`Op`](super::Op) with its operands, result types and effects (`op.rs`), the text form (`text/print.rs`,
//! `text/parse_op.rs`), and the checks of single operands (`verify/structure.rs`). What an instruction does
//! is written in the interpreter (`interpret/`) and in `weir-codegen`.
//!
//! An entry:
//! ```text
//! NAME WORD (operands) -> (result types) EFFECT;        or { operands } with names
//! operand     = NAME: TYPE [as WANTED] [= LEAD]
//! ```
//! * WORD begins the instruction's text. `[TYPE]`: the first operand, of this type, is that word.
//! * The text has the operands in the order of the entry. LEAD is a word that stands before an operand; an
//!   operand that may be absent (an `Option`, or an empty list) is absent together with its LEAD.
//! * WANTED is the type that an operand's values must have: a variant of [`Wanted`](super::Wanted).
//! * A result type is `bool`, `int`, `buf`, `like OPERAND`, or `metas OPERAND` (an int for each value that a
//!   sequence stores with a piece).
//! * EFFECT is `pure`, `effect`, `reads(VAR)`, `writes(VAR)`, `updates(VAR)`, `sequence` or `engine`: see
//!   [`Op::is_pure`](super::Op::is_pure) and [`Op::touches`](super::Op::touches).
//!
//! A user of the table is a macro that matches entries; `operations!(user)` calls the macro with all of them.

/// Calls the macro `$user` with the entries of the table.
macro_rules! operations {
    ($user:ident) => {
        $user! {
            /// A number.
            Const "const" (number: u64) -> (int) pure;

            /// True or false.
            Bool "bool" (is: bool) -> (bool) pure;

            /// Arithmetic on ints; and, or, xor on bools too.
            Binary [BinaryOp] (op: BinaryOp, a: Value as Any, b: Value as Any) -> (like a) pure;

            /// Comparison of ints.
            Compare [CompareOp] (op: CompareOp, a: Value as Int, b: Value as Int) -> (bool) pure;

            /// Not.
            Not "not" (a: Value as Bool) -> (bool) pure;

            /// 1 for true, 0 for false.
            FromBool "from_bool" (a: Value as Bool) -> (int) pure;

            /// The second operand if the first is true, else the third.
            Select "select" (condition: Value as Bool, a: Value as Any, b: Value as Any) -> (like a) pure;

            /// The packet's bytes.
            Frame "frame" -> (buf) pure;

            /// A prefix of a buffer, up to an offset, or all of a shorter buffer.
            Narrow "narrow" (buf: Value as Buf, end: Value as Int) -> (buf) pure;

            /// Number of bytes in a buffer.
            Length "length" (buf: Value as Buf) -> (int) pure;

            /// A number in a buffer, at offset plus displacement.
            Load [NumberFormat] {
                /// Its size and byte order.
                format: NumberFormat,
                /// The buffer.
                buf: Value as Buf,
                /// Offset.
                offset: Value as Int,
                /// Added to the offset.
                displacement: u32,
            } -> (int) pure;

            /// Metadata of the packet.
            Meta "meta" (meta: Meta) -> (int) pure;

            /// Number `n` of the record on which a deferred predicate is evaluated.
            Input "input" (n: u32) -> (int) pure;

            /// Bytes (or text) `n` of that record.
            InputBytes "input_bytes" (n: u32) -> (buf) pure;

            /// Whether the 128-bit number (high, low) is in a set.
            Member "member" {
                /// The set.
                set: Set,
                /// Upper 64 bits.
                high: Value as Int,
                /// Lower 64 bits.
                low: Value as Int,
            } -> (bool) pure;

            /// Whether a pattern matches the bytes `offset .. offset + length` (clipped to the buffer; needs
            /// no check).
            Search "search" {
                /// The pattern.
                pattern: Pattern,
                /// The buffer.
                buf: Value as Buf,
                /// Offset.
                offset: Value as Int,
                /// Length.
                length: Value as Int,
            } -> (bool) pure;

            /// The RFC 1071 sum of a number and the bytes `offset .. offset + length` as 16-bit numbers, an
            /// odd last byte padded with a zero: 0 to 0xffff. 0 if the range exceeds the buffer (needs no
            /// check); otherwise 0 only if all operands are 0.
            Sum16 "sum16" {
                /// The buffer.
                buf: Value as Buf,
                /// Offset.
                offset: Value as Int,
                /// Length.
                length: Value as Int,
                /// The number.
                first: Value as Int,
            } -> (int) pure;

            /// Whether the bytes `offset .. offset + length` are a list of items (a kind, a length from the
            /// kind's byte on, a value; kind 0 ends the list, kind 1 has no length), as 0 or 1. Also 1 if the
            /// range exceeds the buffer (needs no check).
            ItemsFit "items_fit" {
                /// The buffer.
                buf: Value as Buf,
                /// Offset.
                offset: Value as Int,
                /// Length.
                length: Value as Int,
            } -> (int) pure;

            /// The first eight of the bytes `offset .. offset + length` (clipped to the buffer; needs no
            /// check) as one big-endian number; missing bytes are zeros at the end.
            Excerpt "excerpt" {
                /// The buffer.
                buf: Value as Buf,
                /// Offset.
                offset: Value as Int,
                /// Length.
                length: Value as Int,
            } -> (int) pure;

            /// Reads a variable of a flow.
            Get "get" {
                /// The flow.
                flow: Value as Flow,
                /// The variable.
                var: Var,
                /// The side (false: the originator's, true: the responder's), present if and only if the
                /// variable has sides.
                side: Option<Value> as Bool = "side",
            } -> (int) reads(var);

            /// Writes a variable of a flow, truncated to its bits.
            Set "set" {
                /// The flow.
                flow: Value as Flow,
                /// The variable.
                var: Var,
                /// The side, as in [`Op::Get`].
                side: Option<Value> as Bool = "side",
                /// The new value.
                value: Value as Int = "=",
            } -> () writes(var);

            /// Appends a letter to a variable of kind `letters`, unless the letter is already present or the
            /// variable is full.
            Append "append" {
                /// The flow.
                flow: Value as Flow,
                /// The variable: its first byte is the count, the letters follow.
                var: Var,
                /// The letter.
                letter: Value as Int,
            } -> () updates(var);

            /// Appends a letter to a variable of kind `letters`, even if the letter is present, unless the
            /// variable is full.
            AppendAgain "append_again" {
                /// The flow.
                flow: Value as Flow,
                /// The variable: its first byte is the count, the letters follow.
                var: Var,
                /// The letter.
                letter: Value as Int,
            } -> () updates(var);

            /// Inserts bytes into a sequence. The results are a status ([`crate::abi::SEQ_QUEUED`] …) and the
            /// number of leading bytes received before.
            SeqInsert "seq_insert" {
                /// The sequence.
                sequence: Sequence,
                /// The flow.
                flow: Value as Flow,
                /// The direction (false: the originator's).
                side: Value as Bool = "side",
                /// Sequence number of the first byte.
                at: Value as Int = "at",
                /// The buffer that contains the bytes.
                buf: Value as Buf = "bytes",
                /// Their offset (the bytes may exceed the buffer if the capture truncated them).
                offset: Value as Int,
                /// Number of bytes according to the headers.
                length: Value as Int,
                /// Number of sequence numbers that the bytes consume; one more is a FIN's, in a sequence
                /// like TCP's.
                span: Value as Int = "span",
                /// Values to store until the bytes are in order.
                metas: Vec<Value> as Int = "metas",
            } -> (int, int) sequence;

            /// Records that the receiver acknowledged all numbers before `at`: provisional ends are confirmed
            /// or disproved, and missing bytes before `at` will not arrive. The next `seq_next` for the
            /// receiver's own direction returns the bytes queued behind these gaps.
            SeqAcknowledge "seq_acknowledge" {
                /// The sequence.
                sequence: Sequence,
                /// The flow.
                flow: Value as Flow,
                /// The direction of the acknowledged bytes (false: the originator's).
                side: Value as Bool = "side",
                /// The number after the last acknowledged one.
                at: Value as Int = "at",
            } -> () sequence;

            /// Records that a direction's numbers begin at `at`, because its receiver says so. No effect once
            /// numbers of the direction have passed.
            SeqBegin "seq_begin" {
                /// The sequence.
                sequence: Sequence,
                /// The flow.
                flow: Value as Flow,
                /// The direction whose numbers begin (false: the originator's).
                side: Value as Bool = "side",
                /// The first number.
                at: Value as Int = "at",
            } -> () sequence;

            /// Records that numbers of a direction count only once the receiver has acknowledged some of
            /// them: the `span` numbers from `at` on, which are those of the next `seq_insert`, or with a
            /// span of 0 all that follow those that have passed (a reset). They wait. Those of a span are
            /// discarded if the receiver acknowledges exactly `at`.
            SeqHold "seq_hold" {
                /// The sequence.
                sequence: Sequence,
                /// The flow.
                flow: Value as Flow,
                /// The direction whose numbers wait (false: the originator's).
                side: Value as Bool = "side",
                /// The first of the numbers; of no meaning with a span of 0.
                at: Value as Int = "at",
                /// The count of numbers.
                span: Value as Int = "span",
            } -> () sequence;

            /// The next queued bytes that are in order: first those of the opposite direction that this
            /// packet acknowledged. The results are whether there are any, the number of bytes missing before
            /// them, their buffer, offset and length according to the headers, whether they belong to the
            /// opposite direction, then the metas.
            SeqNext "seq_next" {
                /// The sequence.
                sequence: Sequence,
                /// The flow.
                flow: Value as Flow,
                /// The direction.
                side: Value as Bool = "side",
            } -> (bool, int, buf, int, int, bool, metas sequence) sequence;

            /// Returns all in-order bytes that the sequence retains as one buffer, and forgets them.
            SeqAssemble "seq_assemble" {
                /// The sequence.
                sequence: Sequence,
                /// The flow.
                flow: Value as Flow,
                /// The direction.
                side: Value as Bool = "side",
            } -> (buf) sequence;

            /// Appends in-order bytes to a direction's input for messages.
            Collect "collect" {
                /// The flow.
                flow: Value as Flow,
                /// The direction.
                side: Value as Bool = "side",
                /// Number of bytes missing before them.
                gap: Value as Int = "gap",
                /// The buffer.
                buf: Value as Buf = "bytes",
                /// Offset.
                offset: Value as Int,
                /// Number of bytes according to the headers; those beyond the buffer's end are missing.
                length: Value as Int,
                /// Empty, or the flags of a chunk ([`crate::abi::WHOLE_EDGE`] and others) and the values of
                /// its chunked message.
                whole: Vec<Value> as Int = "whole",
            } -> () effect;

            /// A value of the current chunked message, carried by its first chunk. [`Op::Messages`] or
            /// [`Op::NextMessages`] made the message current.
            WholeValue "whole_value" {
                /// The number of the value in [`Op::Collect`].
                number: u32,
            } -> (int) effect;

            /// The first contiguous run of a direction's collected bytes that may contain a message; empty if
            /// there is none. This direction and run become the current ones.
            Messages "messages" {
                /// The flow.
                flow: Value as Flow,
                /// The direction.
                side: Value as Bool = "side",
            } -> (buf) effect;

            /// Consumes the first `done` bytes of the current run, a finished message. Returns the rest of
            /// the run, or the next one, as [`Op::Messages`] does.
            NextMessages "next_messages" {
                /// Number of consumed bytes of the current run.
                done: Value as Int,
                /// The next message is complete with this number of further bytes (0: not known yet;
                /// [`crate::abi::MESSAGES_LOST`]: no message begins there; [`crate::abi::MESSAGES_LATER`]:
                /// continue with the next packet).
                wanted: Value as Int = "wanted",
            } -> (buf) effect;

            /// Resets the counter of a loop over parts of a message; the enclosing loop over messages is
            /// bounded separately.
            Refuel "refuel" {
                /// The counter.
                fuel: Fuel,
            } -> () effect;

            /// Delivers in-order bytes to the sessions of a flow.
            Deliver "deliver" {
                /// The flow.
                flow: Value as Flow,
                /// The direction.
                side: Value as Bool = "side",
                /// Number of bytes missing before them.
                gap: Value as Int = "gap",
                /// The buffer.
                buf: Value as Buf = "bytes",
                /// Offset.
                offset: Value as Int,
                /// Number of bytes according to the headers; those beyond the buffer's end are missing.
                length: Value as Int,
            } -> () engine;

            /// Keeps the bytes `offset .. offset + length` of a buffer (clipped to it; needs no check) until
            /// the packet's events have been emitted. The result is the number by which an event's column
            /// refers to them.
            Keep "keep" {
                /// The buffer.
                buf: Value as Buf,
                /// Offset.
                offset: Value as Int,
                /// Length.
                length: Value as Int,
            } -> (int) effect;

            /// Emits an event with its columns.
            Emit "emit" {
                /// The event.
                event: Event,
                /// The flow, if the event names one.
                flow: Option<Value> as Flow = "flow",
                /// The columns.
                values: Vec<Value> as Column,
            } -> () effect;

            /// Stores a value in a slot of the packet's record.
            Store "store" {
                /// The slot.
                out: Out,
                /// The value.
                value: Value as Int,
            } -> () effect;

            /// Reports values to a trace of the interpreter. Runs without a trace, and native code, ignore
            /// the instruction.
            Note "note" {
                /// What is reported: an index into a list that the author of the graph keeps.
                what: u32,
                /// The values.
                values: Vec<Value> as Int = "values",
            } -> () effect;
        }
    };
}

pub(crate) use operations;
