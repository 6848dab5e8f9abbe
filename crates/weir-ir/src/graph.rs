//! The graph: blocks of instructions in static single assignment form, with block parameters.
//!
//! A graph is a complete program: stack, filters and wanted types. It is run once per packet, from
//! [`Graph::entry`] to [`Terminator::Done`]. A [`Terminator::Lookup`] suspends the program so that the engine
//! can find the flow (the lookups of many packets overlap); the program then resumes at the named block with
//! the flow. The part before the first lookup is the *head*, which accesses only the packet. The part after
//! it is the *tail*.
//!
//! Text form (printed by `Display`, parsed by [`crate::text`]):
//! ```text
//! graph "tcp.port == 443"
//! table0 tcp two_sided observed
//! var0 table0 packets u64 each_side observed
//! out0 port
//! block0:                                           ; the entry
//!     v0 = frame
//!     v1 = const 12
//!     check v0 v1 2, block1, block3                 ; 2 bytes are there from v1 on: block1; else block3
//! block1:
//!     v2 = load16be v0 v1 0                         ; buffer, offset, displacement
//!     v3 = const 2048
//!     v4 = eq v2 v3
//!     branch v4, block2(v2, v0), block3
//! block2(v5: int, v6: buf):
//!     v7 = const 1
//!     done v7
//! block3:
//!     v8 = const 0
//!     done v8 truncated
//! ```
//!
//! Grammar. A line holds one declaration, block head, instruction or terminator; `;` starts a comment.
//! Declarations are numbered from 0 in order. `[x]` is optional, `x*` is repeated, `x,*` is repeated with
//! commas between; `v`, `table`, `block` and so on stand for `v7`, `table0`, `block3`.
//! ```text
//! declaration = graph "NAME"
//!             | tableN NAME [two_sided] [observed] [ends] [delivers] [asked] [scattered]
//!               [part NAME] [carries NAME]
//!                      [key (KEY_PART,*)] [timeout_ms NUMBER]
//!             | varN table VAR (u8 | u16 | u32 | u64 | letters MAX) [each_side] [observed]
//!             | sequenceN table NAME bits BITS from (first | zero) metas COUNT [wholes COUNT]
//!                      [retain] [headers_only] [overwrite] [distinct] [tells]
//!             | eventN NAME [wanted]
//!             | setN { (FIRST [.. LAST]),* }
//!             | patternN (contains | equals | less | matches) "TEXT"
//!             | outN NAME
//!             | fuels COUNT                           | usual (fuel,*)*  | fast_path
//!             | entry block                           ; where it is not block0
//! block       = blockN [( (v : type),* )] :  instruction*  terminator
//! type        = bool | int | buf | flow table
//! instruction = v = const NUMBER                 | v = bool (true | false)
//!             | v = (add | sub | sub_sat | mul | div | rem | and | or | xor | shl | shr | min | max) v v
//!             | v = (eq | ne | lt | le) v v      | v = not v        | v = from_bool v
//!             | v = select v v v                 | v = frame        | v = narrow v v      | v = length v
//!             | v = (load8 | load16be | load32be | load64be) v v DISPLACEMENT
//!             | v = (load8le | load16le | load32le | load64le) v v DISPLACEMENT
//!             | v = meta (time | wire_bytes | captured_bytes | link | interface | number)
//!             | v = input NUMBER                 | v = input_bytes NUMBER
//!             | v = member set v v               | v = search pattern v v v
//!             | v = get v var [side v]           | set v var [side v] = v
//!             | append v var v                   | append_again v var v
//!             | note NUMBER [values (v,*)]
//!             | v, v = seq_insert sequence v side v at v bytes v v v span v [metas (v,*)]
//!             | v,* = seq_next sequence v side v
//!             | v = seq_assemble sequence v side v
//!             | seq_acknowledge sequence v side v at v
//!             | seq_begin sequence v side v at v | seq_hold sequence v side v at v span v
//!             | collect v side v gap v bytes v v v [whole (v,*)]
//!             | deliver v side v gap v bytes v v v
//!             | v = messages v side v            | v = next_messages v wanted v
//!             | v = whole_value N
//!             | v = sum16 v v v v                | v = (keep | excerpt | items_fit) v v v | refuel fuel
//!             | emit event [flow v] (v,*)        | store out v
//! terminator  = jump target                      | branch v, target, target
//!             | switch v, (NUMBER : target,)* else target
//!             | check v v BYTES, target, target  | again fuel MAX, target, target
//!             | lookup table (v,*) swap v, block
//!             | restart                          | done v [DROP_REASON]
//!             | rejoin [lookup NUMBER (v,*) entered (fuel,*)]
//! target      = block [(v,*)]
//! ```
//! The flags of tables, variables and sequences (`two_sided`, `ends` …) are explained at the fields of the
//! same names: [`TableDecl`], [`VarDecl`], [`SequenceDecl`]. KEY_PART is
//! `NAME (address | mac | number | port | other) BITS [first | second]` ([`crate::key`]). VAR is the NAME of
//! a layer's variable, or the quoted name of a [`crate::engine_var::EngineVar`], which begins with `$`. A
//! NAME that is not letters, digits, `_` and `.` is quoted. Quoted text has the usual escapes `\"`, `\\` and
//! `\xNN` (a byte). Unreachable blocks are printed like others. Instructions are declared in the table
//! `graph/operations.rs`, from which their printer and parser follow.
//!
//! Invariants, checked by [`crate::verify`]; for unreachable blocks only that all names exist and types fit:
//! 1. Every value is defined once, and its definition dominates its uses. Types fit.
//! 2. Every load is dominated by the passing edge of a [`Terminator::Check`] that proves its bytes, on the
//!    same buffer or on one narrowed from it. An offset is traced to its root through additions of constants
//!    that cannot wrap. A check is exact: `offset + bytes <= length` without wrapping. Buffers are shorter
//!    than 4 GiB, so a passing check also bounds its offset.
//! 3. Every cycle of blocks contains a [`Terminator::Again`], so the work per packet is bounded. (Its
//!    counters keep counting across lookups, whose number the engine bounds.)
//! 4. `get`, `set`, `append` and sequences use a flow of their own table. They have a side if and only if the
//!    variable or table has sides. A flow is not used after the next lookup. All paths to a `restart` come
//!    from the same lookup.
//! 5. Integers are unsigned and 64 bits wide; shifts by 64 or more give 0.
//! 6. `rejoin` occurs only in fast paths ([`crate::fast_path`]), which are run before their whole graph.
//!    `weir-codegen`, which compiles both, checks that the values of a `rejoin` are the values from which the
//!    whole graph resumes.
//! 7. A key has as many words as its table's layout. If a table declares no layout, all its lookups have keys
//!    of the same size.
//! 8. The limits of [`crate::abi`] and [`crate::key`] hold: words of a key, values across a lookup, slots of
//!    the record.

mod op;
pub(crate) mod operations;
mod terminator;

pub use op::{Op, Touch, Touches, Wanted};

use crate::engine_var::{EngineVar, VarName};
use crate::key::KeyLayout;
use crate::slot::{EngineSlot, SlotName};
use smallvec::SmallVec;
use std::fmt;
use std::ops::Range;
use weir_packet::DropReason;

macro_rules! id {
    ($($(#[$doc:meta])* $name:ident, $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// The number as an index.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }
    )*};
}

id! {
    /// A value.
    Value, "v";
    /// A block.
    Block, "block";
    /// A flow table.
    Table, "table";
    /// A variable of a flow record.
    Var, "var";
    /// A sequence.
    Sequence, "sequence";
    /// An event.
    Event, "event";
    /// A set of ranges.
    Set, "set";
    /// A pattern to search for.
    Pattern, "pattern";
    /// A slot of the packet's record.
    Out, "out";
    /// A counter that bounds a loop.
    Fuel, "fuel";
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Type {
    /// True or false.
    Bool,
    /// An unsigned number of 64 bits.
    Int,
    /// Bytes: the frame, or a reassembled datagram.
    Buf,
    /// A flow of a table.
    Flow(Table),
}

/// Arithmetic on integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// Wrapping sum.
    Add,
    /// Wrapping difference.
    Sub,
    /// Saturating difference: 0 instead of a negative result.
    SubSat,
    /// Wrapping product.
    Mul,
    /// Quotient; 0 if the divisor is 0.
    Div,
    /// Remainder; 0 if the divisor is 0.
    Rem,
    /// Bitwise and; also of booleans.
    And,
    /// Bitwise or; also of booleans.
    Or,
    /// Bitwise exclusive or; also of booleans.
    Xor,
    /// Shift left; 0 for 64 or more.
    Shl,
    /// Shift right; 0 for 64 or more.
    Shr,
    /// The lesser.
    Min,
    /// The greater.
    Max,
}

/// Comparison of integers (unsigned).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// Equal.
    Eq,
    /// Different.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
}

/// Number of bytes of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Width {
    /// One byte.
    W1,
    /// Two bytes.
    W2,
    /// Four bytes.
    W4,
    /// Eight bytes.
    W8,
}

impl Width {
    /// The number of bytes.
    pub fn bytes(self) -> u32 {
        match self {
            Width::W1 => 1,
            Width::W2 => 2,
            Width::W4 => 4,
            Width::W8 => 8,
        }
    }
}

/// The size and the byte order of a number in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NumberFormat {
    /// Number of bytes.
    pub width: Width,
    /// Little-endian; otherwise big-endian.
    pub little: bool,
}

/// The capture's metadata of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Meta {
    /// Nanoseconds since the Unix epoch.
    Time,
    /// Bytes on the wire.
    WireBytes,
    /// Captured bytes.
    CapturedBytes,
    /// LINKTYPE_ number.
    Link,
    /// Interface number.
    Interface,
    /// Number of the packet in the run, from 1.
    Number,
}

/// A few values, usually at most one, which needs no allocation.
pub type Values = SmallVec<[Value; 2]>;

/// An instruction and its results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inst {
    /// The values that the instruction defines.
    pub results: Values,
    /// The operation.
    pub op: Op,
}

/// The target of an edge: a block, and the values of its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// The block.
    pub block: Block,
    /// One argument per parameter of the block.
    pub args: Vec<Value>,
}

/// The end of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Terminator {
    /// Continues at the target.
    Jump(Target),
    /// Branches on a bool.
    Branch {
        /// The bool.
        condition: Value,
        /// If true.
        then: Target,
        /// If false.
        otherwise: Target,
    },
    /// Branches on an int: to the first matching case.
    Switch {
        /// The int.
        value: Value,
        /// The cases.
        cases: Vec<(u64, Target)>,
        /// Target if no case matches.
        otherwise: Target,
    },
    /// Branches on whether `buf` contains `bytes` bytes from `offset` on.
    Check {
        /// The buffer.
        buf: Value,
        /// The offset.
        offset: Value,
        /// Number of bytes.
        bytes: u32,
        /// Target if all bytes are present.
        then: Target,
        /// Target if not.
        otherwise: Target,
    },
    /// Bounds a loop: goes to `then` at most `max` times per packet, afterwards to `otherwise`.
    Again {
        /// The counter.
        fuel: Fuel,
        /// Maximum number of iterations.
        max: u32,
        /// Target until the counter is exhausted.
        then: Target,
        /// Target once it is exhausted.
        otherwise: Target,
    },
    /// Suspends the program until the engine has found or created the flow. Continues at `then`, whose
    /// parameters are the flow, a bool (false: the packet is from the originator) and a bool (true: the flow
    /// is new).
    Lookup {
        /// The table.
        table: Table,
        /// The words of the key (ints) in the table's [`KeyLayout`]. In a two-sided table the lesser side
        /// comes first.
        key: Vec<Value>,
        /// A bool: the sender is second in the key.
        swap: Value,
        /// A bool: if this packet creates the flow, the sender is its responder.
        reversed: Option<Value>,
        /// The next block; its only parameters are the three above.
        then: Block,
    },
    /// Ends the flow of the last lookup; the program resumes after that lookup with a new flow.
    Restart,
    /// Ends a fast path and continues in its whole graph: at the entry, or after one of its lookups with the
    /// values that are live across it.
    Rejoin {
        /// The lookup's index in [`crate::liveness::lookups`] of the whole graph.
        lookup: Option<u32>,
        /// The values that are live across the lookup, by [`crate::liveness::Liveness::across`], except
        /// constants and the frame.
        values: Vec<Value>,
        /// Loops of which the first iteration has been done; all other loops have not been entered.
        entered: Vec<Fuel>,
    },
    /// Ends the packet.
    Done {
        /// An int: one bit for every term whose packet part the packet satisfies.
        terms: Value,
        /// Why the packet could not be parsed to its end, if so.
        reason: Option<DropReason>,
    },
}

/// A block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockData {
    /// The parameters, whose values the predecessors pass.
    pub params: Vec<Value>,
    /// Instructions.
    pub insts: Vec<Inst>,
    /// How it ends.
    pub terminator: Terminator,
}

/// A flow table: declared by the instance declaration of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDecl {
    /// The layer's name.
    pub name: String,
    /// Whether instances have two directions.
    pub two_sided: bool,
    /// Whether instances are observed. If so, lookups must stay even if the program uses nothing of the flow.
    pub observed: bool,
    /// Whether the end of each instance is reported as an event. If so, lookups must stay, too.
    pub ends: bool,
    /// Whether in-order bytes are wanted. If so, `deliver` must stay.
    pub delivers: bool,
    /// Whether decisions about packets depend on the state of the flows. If so, flows are kept even without a
    /// subscriber.
    pub asked: bool,
    /// Whether packets of an instance may reach several workers. If so, workers share the table.
    pub scattered: bool,
    /// The connection of which a flow is part, by name. The part has the same key and no record of its own;
    /// if the connection was looked up before, its packets are those of the connection.
    pub part: Option<String>,
    /// The layer whose session protocols its bytes carry, if that is not the layer itself.
    pub carries: Option<String>,
    /// The layout of its flows' keys.
    pub key: KeyLayout,
    /// Idle timeout of instances in milliseconds. If it depends on their state, the variable
    /// [`EngineVar::TimeoutMs`](crate::engine_var::EngineVar::TimeoutMs) has it instead.
    pub timeout_ms: Option<u32>,
}

/// The kind of a flow variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VarKind {
    /// A number with 8, 16, 32 or 64 bits.
    Bits(u8),
    /// Letters: a count and at most this many bytes.
    Letters(u8),
}

/// A variable of a table's flow records. Its initial value is 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VarDecl {
    /// Its table.
    pub table: Table,
    /// Its name, unique in the table.
    pub name: VarName,
    /// Its kind.
    pub kind: VarKind,
    /// Whether each direction has an instance of its own.
    pub each_side: bool,
    /// Whether code outside the graph reads or writes the variable. If so, it must stay.
    pub observed: bool,
}

impl VarDecl {
    /// Whether the variable is part of a sequence's state ([`crate::sequence`]).
    pub fn is_of_sequence(&self) -> bool {
        self.name.engine().is_some_and(EngineVar::is_of_sequence)
    }
}

/// A sequence of a table's flows; one per direction if the table is two-sided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceDecl {
    /// Its table.
    pub table: Table,
    /// The layer's name.
    pub name: String,
    /// Sequence numbers wrap at this many bits.
    pub bits: u8,
    /// Whether the sequence starts at the first number seen; else it starts at 0.
    pub from_first: bool,
    /// Whether in-order bytes are kept until they are assembled; else they pass through.
    pub retain: bool,
    /// Whether only sequence ranges are kept, because the bytes are unwanted.
    pub headers_only: bool,
    /// Whether, of overlapping bytes, the last ones win while they are kept; else the receiver's policy
    /// decides.
    pub overwrite: bool,
    /// Whether a partial overlap with earlier bytes discards everything kept; nothing is assembled then.
    pub distinct: bool,
    /// Whether contradicting retransmissions are reported
    /// ([`SEQ_INCONSISTENT`](crate::abi::SEQ_INCONSISTENT)).
    pub tells: bool,
    /// Number of values stored with each piece.
    pub metas: u8,
    /// Number of these values, from the first, that describe the piece as a chunk of a chunked message, and
    /// the message's values ([`Op::Collect`]). 0: the sequence has no chunked messages.
    pub wholes: u8,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventDecl {
    /// `layer.name`.
    pub name: String,
    /// Whether the event has a subscriber.
    pub wanted: bool,
}

/// A pattern to search for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PatternDecl {
    /// Contains these bytes.
    Contains(Vec<u8>),
    /// Equals these bytes.
    Equals(Vec<u8>),
    /// Compares less than these bytes (bytewise).
    Less(Vec<u8>),
    /// A regular expression, case-insensitive, on bytes.
    Matches(String),
}

/// A graph.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Graph {
    /// Name of the question.
    pub name: String,
    /// Tables.
    pub tables: Vec<TableDecl>,
    /// Variables.
    pub vars: Vec<VarDecl>,
    /// Sequences.
    pub sequences: Vec<SequenceDecl>,
    /// Events.
    pub events: Vec<EventDecl>,
    /// Sets: inclusive ranges of 128-bit numbers, sorted, disjoint.
    pub sets: Vec<Vec<(u128, u128)>>,
    /// Patterns.
    pub patterns: Vec<PatternDecl>,
    /// Names of the slots of the packet's record.
    pub outs: Vec<SlotName>,
    /// Number of loop counters: `fuel0 … fuelN-1`.
    pub fuels: u32,
    /// Loops whose first iteration most packets do, from the layers that the stack marks as usual: at most
    /// one of each list, in this order.
    pub usual: Vec<Vec<Fuel>>,
    /// Whether this is a fast path ([`crate::fast_path`]); its declarations are those of its whole graph.
    pub is_fast_path: bool,
    /// Type of every value.
    pub values: Vec<Type>,
    /// Blocks. Unreachable blocks may exist until a pass removes them.
    pub blocks: Vec<BlockData>,
    /// The first block.
    pub entry: Block,
}

impl Graph {
    /// Number of words of a table's keys.
    pub fn key_words(&self, table: Table) -> usize {
        let declared = &self.tables[table.index()].key;
        let mut lookups = self.blocks.iter().filter_map(|block| match &block.terminator {
            Terminator::Lookup { table: of, key, .. } if *of == table => Some(key.len()),
            _ => None,
        });
        match declared.is_undeclared() {
            true => lookups.next().unwrap_or(0),
            false => declared.words(),
        }
    }

    /// The places of an engine's slots in the packet's record; empty if the graph has none.
    pub fn slots_of(&self, slot: EngineSlot) -> Range<usize> {
        let is_one = |name: &&SlotName| **name == SlotName::Engine(slot);
        let first = self.outs.iter().position(|name| is_one(&name)).unwrap_or(0);
        first..first + self.outs.iter().filter(is_one).count()
    }

    /// Creates a value of a type.
    pub fn value(&mut self, ty: Type) -> Value {
        self.values.push(ty);
        Value(self.values.len() as u32 - 1)
    }

    /// The type of a value.
    pub fn type_of(&self, value: Value) -> Type {
        self.values[value.index()]
    }

    /// The contents of `block`.
    pub fn block(&self, block: Block) -> &BlockData {
        &self.blocks[block.index()]
    }

    /// Numbers of all blocks.
    pub fn block_ids(&self) -> impl DoubleEndedIterator<Item = Block> + use<> {
        (0..self.blocks.len() as u32).map(Block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_a_name_are_a_range() {
        let names = ["a", "$further_terms", "$further_terms", "b"].map(str::to_string);
        let outs = names.into_iter().filter_map(SlotName::parse).collect();
        let graph = Graph { outs, ..Graph::default() };
        assert_eq!(graph.slots_of(EngineSlot::FurtherTerms), 1..3);
        assert!(graph.slots_of(EngineSlot::OuterTerms).is_empty());
    }
}
