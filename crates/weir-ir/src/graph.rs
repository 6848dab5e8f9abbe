//! The graph: blocks of instructions in static single assignment form, with block parameters.
//!
//! One graph is one whole question: stack, filters and wanted types. It is run once per packet. It
//! starts at [`Graph::entry`] and ends in [`Terminator::Done`]. A [`Terminator::Lookup`] leaves the
//! program so that the engine can find the flow (many packets' lookups overlap); the program then
//! goes on at the named block with the flow. What comes before the first lookup is the *head*: it
//! touches nothing but the packet. What comes after is the *tail*.
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
//! Everything declared is numbered from 0 in the order it stands in. `[x]` may be left out, `x*` may be
//! repeated, `x,*` with commas between; `v`, `table`, `block` and so on stand for `v7`, `table0`, `block3`.
//! ```text
//! declaration = graph "NAME"
//!             | tableN NAME [two_sided] [observed] [delivers] [asked] [part NAME] [key (KEY_PART,*)] [timeout_ms NUMBER]
//!             | varN table VAR (u8 | u16 | u32 | u64 | letters MAX) [each_side] [observed]
//!             | sequenceN table NAME bits BITS from (first | zero) metas COUNT [wholes COUNT] [retain] [headers_only] [overwrite] [distinct] [tells]
//!             | eventN NAME [wanted]
//!             | setN { (FIRST [.. LAST]),* }
//!             | patternN (contains | equals | less | matches) "TEXT"
//!             | outN NAME
//!             | fuels COUNT                           | usual (fuel,*)*  | straight
//!             | entry block                           ; where it is not block0
//! block       = blockN [( (v : type),* )] :  instruction*  terminator
//! type        = bool | int | buf | flow table
//! instruction = v = const NUMBER                 | v = bool (true | false)
//!             | v = (add | sub | sub_sat | mul | and | or | xor | shl | shr | min | max) v v
//!             | v = (eq | ne | lt | le) v v      | v = not v        | v = from_bool v
//!             | v = select v v v                 | v = frame        | v = narrow v v      | v = length v
//!             | v = (load8 | load16be | load16le | load32be …) v v DISPLACEMENT
//!             | v = meta (time | wire_bytes | captured_bytes | link | interface | number)
//!             | v = input NUMBER                 | v = input_bytes NUMBER
//!             | v = member set v v               | v = search pattern v v v
//!             | v = get v var [side v]           | set v var [side v] = v
//!             | append v var v
//!             | v, v = seq_insert sequence v side v at v bytes v v v span v metas (v,*)
//!             | v,* = seq_next sequence v side v
//!             | v = seq_assemble sequence v side v
//!             | seq_acknowledge sequence v side v at v
//!             | (collect | deliver) v side v gap v bytes v v v
//!             | v = messages v side v            | v = next_messages v wanted v
//!             | v = whole_value N
//!             | v = sum16 v v v v                | v = (keep | excerpt) v v v | refuel fuel
//!             | emit event [flow v] (v,*)        | store out v
//! terminator  = jump target                      | branch v, target, target
//!             | switch v, (NUMBER : target,)* else target
//!             | check v v BYTES, target, target  | again fuel MAX, target, target
//!             | lookup table (v,*) swap v, block
//!             | restart                          | done v [DROP_REASON]
//!             | rejoin [lookup NUMBER (v,*) entered (fuel,*)]
//! target      = block [(v,*)]
//! ```
//! KEY_PART is `NAME (address | mac | number | port | other) BITS [first | second]` ([`crate::key`]).
//! VAR is the NAME of a layer's variable, or the quoted text of a [`crate::engine_var::EngineVar`], which begins with `$`.
//! A NAME that is not letters, digits, `_` and `.` is quoted; in quotes, `\"`, `\\` and `\xNN` (a byte)
//! are what they are elsewhere. Unreachable blocks are printed like others.
//!
//! Invariants (held by [`crate::verify`]; of unreachable blocks only that everything named exists and fits):
//! 1. Every value is defined once, and its definition dominates its uses. Types fit.
//! 2. Every load is dominated by the passing edge of a [`Terminator::Check`] on the same buffer, or on
//!    one narrowed from it, that proves its bytes there: an offset is traced through additions of
//!    constants to its root, as far as these cannot wrap. A check is exact: `offset + bytes <= length`
//!    without wrapping. Buffers are shorter than 4 GiB, so a passing check also bounds its offset.
//! 3. Every cycle of blocks passes through a [`Terminator::Again`], so every packet's work is bounded.
//!    (Counters go on counting across lookups, which the engine bounds.)
//! 4. `get`, `set`, `append` and sequences are used with a flow of their own table, sides exactly with
//!    what has sides; a flow is not used after the next lookup, and a `restart` comes from one and the same on every way.
//! 5. Integers are unsigned and 64 bits wide; shifts by 64 or more give 0.
//! 6. `rejoin` occurs in straight graphs only ([`crate::straight`]), which are run before their whole graph. That
//!    what they save there is what it goes on with, `weir-codegen` makes sure: it takes both.
//! 7. A key has as many words as its table's layout. If a table declares no layout, all its lookups have keys of the
//!    same size.
//! 8. The bounds of [`crate::abi`] and [`crate::key`] hold: words of a key, values across a lookup, slots of the record.

mod op;
mod operands;

pub use op::Op;
pub use operands::{Touch, Touches};

use crate::engine_var::{EngineVar, VarName};
use crate::key::KeyLayout;
use smallvec::{SmallVec, smallvec};
use std::fmt;
use weir_packet::DropReason;

macro_rules! id {
    ($($(#[$doc:meta])* $name:ident, $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// As an index.
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
    /// Bytes: the frame, or a datagram put together.
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
    /// Difference, 0 where it would be negative.
    SubSat,
    /// Wrapping product.
    Mul,
    /// Bitwise and; also of booleans.
    And,
    /// Bitwise or; also of booleans.
    Or,
    /// Bitwise exclusive or; also of booleans.
    Xor,
    /// Shift left, 0 from 64 on.
    Shl,
    /// Shift right, 0 from 64 on.
    Shr,
    /// The smaller.
    Min,
    /// The larger.
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

/// Bytes of a load.
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

/// What the capture says of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Meta {
    /// Nanoseconds since 1970.
    Time,
    /// Bytes on the wire.
    WireBytes,
    /// Bytes captured.
    CapturedBytes,
    /// LINKTYPE_ number.
    Link,
    /// Interface number.
    Interface,
    /// Number in the run, from 1.
    Number,
}

/// A few values, most often one or none: nothing is allocated for them.
pub type Values = SmallVec<[Value; 2]>;

/// An instruction with what it defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inst {
    /// The values it defines.
    pub results: Values,
    /// What it does.
    pub op: Op,
}

/// Where control goes, with the values of the block's parameters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// The block.
    pub block: Block,
    /// As many as it has parameters.
    pub args: Vec<Value>,
}

/// How a block ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Terminator {
    /// Goes on there.
    Jump(Target),
    /// On a bool.
    Branch {
        /// The bool.
        condition: Value,
        /// If true.
        then: Target,
        /// If false.
        otherwise: Target,
    },
    /// On an int; the first case that fits.
    Switch {
        /// The int.
        value: Value,
        /// Cases.
        cases: Vec<(u64, Target)>,
        /// If none fits.
        otherwise: Target,
    },
    /// Are `bytes` bytes there in `buf` from `offset` on?
    Check {
        /// The buffer.
        buf: Value,
        /// The offset.
        offset: Value,
        /// How many.
        bytes: u32,
        /// Yes.
        then: Target,
        /// No.
        otherwise: Target,
    },
    /// Bounds a loop: taken at most `max` times per packet, then `exhausted`.
    Again {
        /// Which counter.
        fuel: Fuel,
        /// How often.
        max: u32,
        /// Not yet exhausted.
        then: Target,
        /// Exhausted.
        otherwise: Target,
    },
    /// Leaves the program for the engine to find (or make) the flow. Goes on at `then`, whose
    /// parameters are the flow, a bool (false: the packet is the originator's) and a bool (true: the flow is new).
    Lookup {
        /// The table.
        table: Table,
        /// The key's words (ints) in the table's [`KeyLayout`]. In a two-sided table the lesser side comes first.
        key: Vec<Value>,
        /// A bool: the sender stands second in the key.
        swap: Value,
        /// A bool: if the flow is made for this packet, the sender is its responder.
        reversed: Option<Value>,
        /// Takes no arguments but the three.
        then: Block,
    },
    /// The flow of the last lookup ends; the program goes on from there with a new one.
    Restart,
    /// A straight graph ends, and its whole graph goes on: from its entry, or after one of its lookups with
    /// what lives across it.
    Rejoin {
        /// The lookup's place in [`crate::liveness::lookups`] of the whole graph.
        lookup: Option<u32>,
        /// What lives across it, by [`crate::liveness::Liveness::across`], constants and the frame excepted.
        values: Vec<Value>,
        /// The loops whose first round has been taken; the others' has not.
        entered: Vec<Fuel>,
    },
    /// The packet is through.
    Done {
        /// An int: a bit for every term whose packet part the packet fulfils.
        terms: Value,
        /// Why the packet could not be followed to its end, if so.
        reason: Option<DropReason>,
    },
}

/// A block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockData {
    /// Values that its predecessors hand it.
    pub params: Vec<Value>,
    /// Instructions.
    pub insts: Vec<Inst>,
    /// How it ends.
    pub terminator: Terminator,
}

/// A flow table: an instance declaration of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDecl {
    /// The layer's name.
    pub name: String,
    /// Instances have two directions.
    pub two_sided: bool,
    /// Somebody wants its instances: lookups must stay even where the program needs nothing of the flow.
    pub observed: bool,
    /// Somebody wants its bytes in order: `deliver` must stay.
    pub delivers: bool,
    /// What becomes of its flows decides about packets: they live on, even where nobody is given them.
    pub asked: bool,
    /// A flow is part of a connection of that name, with the same key: it has no record of its own, and packets are
    /// those of the connection, where that is looked up before it.
    pub part: Option<String>,
    /// The layout of its flows' keys.
    pub key: KeyLayout,
    /// Instances end when idle for so long, milliseconds; where that hangs on their state their variable
    /// [`EngineVar::TimeoutMs`](crate::engine_var::EngineVar::TimeoutMs) has it instead.
    pub timeout_ms: Option<u32>,
}

/// The kind of a flow variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VarKind {
    /// A number of 8, 16, 32 or 64 bits.
    Bits(u8),
    /// Letters: a count and up to this many bytes.
    Letters(u8),
}

/// A variable of a table's flow records, 0 at first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VarDecl {
    /// Its table.
    pub table: Table,
    /// Its name, unique in the table.
    pub name: VarName,
    /// Its kind.
    pub kind: VarKind,
    /// One per direction.
    pub each_side: bool,
    /// Somebody outside the graph reads or writes it: it must stay.
    pub observed: bool,
}

impl VarDecl {
    /// Whether it is part of a sequence's state ([`crate::sequence`]).
    pub fn is_of_sequence(&self) -> bool {
        self.name.engine().is_some_and(EngineVar::is_of_sequence)
    }
}

/// A sequence of a table's flows, one per direction where the table is two-sided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceDecl {
    /// Its table.
    pub table: Table,
    /// The layer's name.
    pub name: String,
    /// Sequence numbers wrap at this many bits.
    pub bits: u8,
    /// It starts at the first number seen; else at 0.
    pub from_first: bool,
    /// Bytes in order are kept until assembled; else they pass.
    pub retain: bool,
    /// Nobody wants the bytes themselves: only their places are remembered.
    pub headers_only: bool,
    /// Of bytes that come twice while they are kept the last count; else those that the receiver's policy says.
    pub overwrite: bool,
    /// Where some of what comes was there before, but not all of it, all that is kept is given up, and nothing is
    /// assembled.
    pub distinct: bool,
    /// Whether bytes contradict those that are kept is told ([`SEQ_INCONSISTENT`](crate::abi::SEQ_INCONSISTENT)).
    pub tells: bool,
    /// Values remembered with each piece.
    pub metas: u8,
    /// What is in order is made of wholes: so many of these values, the first ones, say what of one a piece is, and what
    /// goes with it ([`Op::Collect`]). 0: it is not.
    pub wholes: u8,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventDecl {
    /// `layer.name`.
    pub name: String,
    /// Somebody listens.
    pub wanted: bool,
}

/// What is searched for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PatternDecl {
    /// These bytes somewhere inside.
    Contains(Vec<u8>),
    /// Exactly these bytes.
    Equals(Vec<u8>),
    /// Bytes that compare less than these (bytewise).
    Less(Vec<u8>),
    /// A regular expression, case-insensitive, on bytes.
    Matches(String),
}

/// A graph.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Graph {
    /// What it answers.
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
    pub outs: Vec<String>,
    /// Loop counters in use: `fuel0 … fuelN-1`.
    pub fuels: u32,
    /// Loops whose first round most packets pass, one of each list at most, in this order: layers that the
    /// stack calls usual.
    pub usual: Vec<Vec<Fuel>>,
    /// It is a straight graph ([`crate::straight`]): what it refers to is declared as in its whole graph.
    pub is_straight: bool,
    /// Type of every value.
    pub values: Vec<Type>,
    /// Blocks. Unreachable ones may be there until a pass removes them.
    pub blocks: Vec<BlockData>,
    /// Where it starts.
    pub entry: Block,
}

impl Graph {
    /// The number of words of a table's keys.
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

    /// A new value of a type.
    pub fn value(&mut self, ty: Type) -> Value {
        self.values.push(ty);
        Value(self.values.len() as u32 - 1)
    }

    /// The type of a value.
    pub fn type_of(&self, value: Value) -> Type {
        self.values[value.index()]
    }

    /// The block `block`.
    pub fn block(&self, block: Block) -> &BlockData {
        &self.blocks[block.index()]
    }

    /// Its blocks' numbers.
    pub fn block_ids(&self) -> impl DoubleEndedIterator<Item = Block> + use<> {
        (0..self.blocks.len() as u32).map(Block)
    }

    /// Whether what `op` defines is one bool.
    pub fn result_is_bool(&self, op: &Op) -> bool {
        match op {
            Op::Bool(_) | Op::Compare(..) | Op::Not(_) | Op::Member { .. } | Op::Search { .. } => true,
            Op::Binary(_, a, _) | Op::Select(_, a, _) => self.type_of(*a) == Type::Bool,
            _ => false,
        }
    }

    /// The types of what `op` defines.
    pub fn result_types(&self, op: &Op) -> SmallVec<[Type; 2]> {
        match op {
            Op::Const(_)
            | Op::FromBool(_)
            | Op::Length(_)
            | Op::Load { .. }
            | Op::Sum16 { .. }
            | Op::Excerpt { .. }
            | Op::Meta(_)
            | Op::Input(_)
            | Op::Keep { .. }
            | Op::WholeValue { .. }
            | Op::Get { .. } => smallvec![Type::Int],
            Op::Bool(_) | Op::Compare(..) | Op::Not(_) | Op::Member { .. } | Op::Search { .. } => {
                smallvec![Type::Bool]
            }
            Op::Binary(_, a, _) | Op::Select(_, a, _) => smallvec![self.type_of(*a)],
            Op::Frame
            | Op::Narrow(..)
            | Op::InputBytes(_)
            | Op::SeqAssemble { .. }
            | Op::Messages { .. }
            | Op::NextMessages { .. } => smallvec![Type::Buf],
            Op::SeqInsert { .. } => smallvec![Type::Int, Type::Int],
            Op::SeqNext { sequence, .. } => {
                let metas = self.sequences[sequence.index()].metas as usize;
                let mut types: SmallVec<[Type; 2]> =
                    smallvec![Type::Bool, Type::Int, Type::Buf, Type::Int, Type::Int, Type::Bool];
                types.extend(std::iter::repeat_n(Type::Int, metas));
                types
            }
            Op::Set { .. }
            | Op::Append { .. }
            | Op::SeqAcknowledge { .. }
            | Op::Collect { .. }
            | Op::Refuel { .. }
            | Op::Deliver { .. }
            | Op::Emit { .. }
            | Op::Store { .. } => smallvec![],
        }
    }
}
