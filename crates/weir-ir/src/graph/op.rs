//! Instructions: their type, operands, result types and effects, all derived from the
//! [table](super::operations).

use super::operations::operations;
use super::{
    BinaryOp, CompareOp, Event, Fuel, Graph, Meta, NumberFormat, Out, Pattern, Sequence, Set, Type, Value,
    Var,
};
use smallvec::{SmallVec, smallvec};

/// The type that the values of an operand must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// A bool.
    Bool,
    /// An int.
    Int,
    /// A buffer.
    Buf,
    /// A flow of any table.
    Flow,
    /// A column of an event: a bool or an int.
    Column,
    /// Any type; checked together with other operands.
    Any,
}

/// The part of a flow's record that an instruction reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// Nothing.
    Nothing,
    /// One variable.
    Var(Var),
    /// The state of sequences ([`crate::sequence`]).
    Sequence,
    /// The engine's variables of a flow: its [`EngineVar`](crate::engine_var::EngineVar)s.
    Engine,
}

/// The read and the write set of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touches {
    /// Read.
    pub reads: Touch,
    /// Written.
    pub writes: Touch,
}

impl Touches {
    /// Neither reads nor writes.
    const NOTHING: Touches = Touches { reads: Touch::Nothing, writes: Touch::Nothing };
}

/// An operand: a value, some values, or something without values.
trait Operand {
    /// Calls `f` on each value.
    #[inline]
    fn each(&self, _f: &mut impl FnMut(Value)) {}

    /// Replaces each value.
    #[inline]
    fn map(&mut self, _f: &mut impl FnMut(Value) -> Value) {}
}

impl Operand for Value {
    #[inline]
    fn each(&self, f: &mut impl FnMut(Value)) {
        f(*self);
    }

    #[inline]
    fn map(&mut self, f: &mut impl FnMut(Value) -> Value) {
        *self = f(*self);
    }
}

impl Operand for Option<Value> {
    #[inline]
    fn each(&self, f: &mut impl FnMut(Value)) {
        self.iter().for_each(|value| f(*value));
    }

    #[inline]
    fn map(&mut self, f: &mut impl FnMut(Value) -> Value) {
        self.iter_mut().for_each(|value| *value = f(*value));
    }
}

impl Operand for Vec<Value> {
    #[inline]
    fn each(&self, f: &mut impl FnMut(Value)) {
        self.iter().for_each(|value| f(*value));
    }

    #[inline]
    fn map(&mut self, f: &mut impl FnMut(Value) -> Value) {
        self.iter_mut().for_each(|value| *value = f(*value));
    }
}

macro_rules! without_values {
    ($($operand:ty),*) => {
        $(impl Operand for $operand {})*
    };
}
without_values!(u64, u32, bool, BinaryOp, CompareOp, NumberFormat, Meta);
without_values!(Var, Sequence, Event, Set, Pattern, Out, Fuel);

/// The types of results.
macro_rules! types {
    ($graph:ident: ) => {
        smallvec![]
    };
    ($graph:ident: bool) => {
        smallvec![Type::Bool]
    };
    ($graph:ident: int) => {
        smallvec![Type::Int]
    };
    ($graph:ident: buf) => {
        smallvec![Type::Buf]
    };
    ($graph:ident: int, int) => {
        smallvec![Type::Int, Type::Int]
    };
    ($graph:ident: like $operand:ident) => {
        smallvec![$graph.type_of(*$operand)]
    };
    ($graph:ident: bool, int, buf, int, int, bool, metas $sequence:ident) => {{
        let metas = $graph.sequences[$sequence.index()].metas as usize;
        let first = [Type::Bool, Type::Int, Type::Buf, Type::Int, Type::Int, Type::Bool];
        first.into_iter().chain(std::iter::repeat_n(Type::Int, metas)).collect()
    }};
}

/// Whether an instruction has one result, a bool.
macro_rules! is_bool {
    ($graph:ident: bool) => {
        true
    };
    ($graph:ident: like $operand:ident) => {
        $graph.type_of(*$operand) == Type::Bool
    };
    ($graph:ident: $($other:tt)*) => {
        false
    };
}

macro_rules! is_pure {
    (pure) => {
        true
    };
    ($other:ident) => {
        false
    };
}

macro_rules! touches {
    (pure) => {
        Touches::NOTHING
    };
    (effect) => {
        Touches::NOTHING
    };
    (sequence) => {
        Touches { reads: Touch::Sequence, writes: Touch::Sequence }
    };
    // Sessions and subscribers receive the bytes, and may stop wanting more.
    (engine) => {
        Touches { reads: Touch::Engine, writes: Touch::Engine }
    };
    (reads $var:ident) => {
        Touches { reads: Touch::Var(*$var), writes: Touch::Nothing }
    };
    (writes $var:ident) => {
        Touches { reads: Touch::Nothing, writes: Touch::Var(*$var) }
    };
    (updates $var:ident) => {
        Touches { reads: Touch::Var(*$var), writes: Touch::Var(*$var) }
    };
}

macro_rules! define {
    ($(
        $(#[$doc:meta])*
        $name:ident $word:tt
        $( ( $($part:ident: $part_type:ty $(as $part_wanted:ident)?),* ) )?
        $( { $(
            $(#[$field_doc:meta])*
            $field:ident: $field_type:ty $(as $field_wanted:ident)? $(= $lead:literal)?,
        )* } )?
        -> ($($result:tt)*) $effect:ident $(($touched:ident))?;
    )*) => {
        /// An instruction. [`Inst::results`](super::Inst::results) holds its results.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum Op {
            $(
                $(#[$doc])*
                $name $( ( $($part_type),* ) )? $( { $( $(#[$field_doc])* $field: $field_type, )* } )?,
            )*
        }

        #[allow(unused_variables)]
        impl Op {
            /// Calls `f` on every value that the instruction reads. Allocates nothing.
            pub fn for_each_operand(&self, mut f: impl FnMut(Value)) {
                match self {
                    $(Op::$name $( ( $($part),* ) )? $( { $($field),* } )? => {
                        $( $( $part.each(&mut f); )* )?
                        $( $( $field.each(&mut f); )* )?
                    })*
                }
            }

            /// Replaces every value that the instruction reads.
            pub fn map_operands(&mut self, mut f: impl FnMut(Value) -> Value) {
                match self {
                    $(Op::$name $( ( $($part),* ) )? $( { $($field),* } )? => {
                        $( $( $part.map(&mut f); )* )?
                        $( $( $field.map(&mut f); )* )?
                    })*
                }
            }

            /// Whether the instruction has no effect but its results, and equal operands give equal results
            /// everywhere. Such an instruction may be shared, dropped, or moved up to its operands (a load:
            /// to its check).
            pub fn is_pure(&self) -> bool {
                match self {
                    $(Op::$name { .. } => is_pure!($effect),)*
                }
            }

            /// The parts of the flow's record that the instruction reads and writes.
            pub fn touches(&self) -> Touches {
                match self {
                    $(Op::$name $( ( $($part),* ) )? $( { $($field),* } )? => {
                        touches!($effect $($touched)?)
                    })*
                }
            }
        }

        #[allow(unused_variables)]
        impl Graph {
            /// Types of the results of `op`.
            pub fn result_types(&self, op: &Op) -> SmallVec<[Type; 2]> {
                let graph = self;
                match op {
                    $(Op::$name $( ( $($part),* ) )? $( { $($field),* } )? => types!(graph: $($result)*),)*
                }
            }

            /// Whether `op` defines a single bool.
            pub fn result_is_bool(&self, op: &Op) -> bool {
                let graph = self;
                match op {
                    $(Op::$name $( ( $($part),* ) )? $( { $($field),* } )? => is_bool!(graph: $($result)*),)*
                }
            }
        }
    };
}
operations!(define);
