//! Every operand exists and has the type that the [table of operations](crate::graph::operations) wants.

use super::scope::Scope;
use crate::abi::FUELS_MAX;
use crate::graph::operations::operations;
use crate::graph::{
    BinaryOp, CompareOp, Event, Fuel, Meta, NumberFormat, Op, Out, Pattern, Sequence, Set, Type, Value, Var,
    Wanted,
};

/// An operand that is checked alone.
trait Operand {
    /// Checks that the operand exists and has the wanted type.
    fn check(&self, wanted: Wanted, scope: &mut Scope<'_, '_>);
}

impl Operand for Value {
    fn check(&self, wanted: Wanted, scope: &mut Scope<'_, '_>) {
        let (fits, name): (fn(Type) -> bool, _) = match wanted {
            Wanted::Bool => return scope.expect(*self, Type::Bool),
            Wanted::Int => return scope.expect(*self, Type::Int),
            Wanted::Buf => return scope.expect(*self, Type::Buf),
            Wanted::Flow => (|ty| matches!(ty, Type::Flow(_)), "a flow"),
            Wanted::Column => (|ty| matches!(ty, Type::Int | Type::Bool), "int or bool"),
            Wanted::Any => (|_| true, "any type"),
        };
        if let Some(ty) = scope.type_of(*self).filter(|ty| !fits(*ty)) {
            scope.wrong(format!("{self} must be {name}, is {ty}"));
        }
    }
}

impl Operand for Option<Value> {
    fn check(&self, wanted: Wanted, scope: &mut Scope<'_, '_>) {
        self.iter().for_each(|value| value.check(wanted, scope));
    }
}

impl Operand for Vec<Value> {
    fn check(&self, wanted: Wanted, scope: &mut Scope<'_, '_>) {
        self.iter().for_each(|value| value.check(wanted, scope));
    }
}

macro_rules! declared {
    ($($kind:ident: $list:ident),*) => {$(
        impl Operand for $kind {
            fn check(&self, _: Wanted, scope: &mut Scope<'_, '_>) {
                scope.exists(self, self.0, scope.graph.$list.len());
            }
        }
    )*};
}
declared!(Var: vars, Sequence: sequences, Event: events, Set: sets, Pattern: patterns, Out: outs);

impl Operand for Fuel {
    fn check(&self, _: Wanted, scope: &mut Scope<'_, '_>) {
        scope.exists(self, self.0, (scope.graph.fuels as usize).min(FUELS_MAX));
    }
}

macro_rules! always_valid {
    ($($kind:ty),*) => {$(
        impl Operand for $kind {
            fn check(&self, _: Wanted, _: &mut Scope<'_, '_>) {}
        }
    )*};
}
always_valid!(u32, u64, bool, BinaryOp, CompareOp, NumberFormat, Meta);

macro_rules! wanted {
    () => {
        Wanted::Any
    };
    ($wanted:ident) => {
        Wanted::$wanted
    };
}

macro_rules! checker {
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
        /// Checks each operand of an instruction alone.
        pub(super) fn check_operands(op: &Op, scope: &mut Scope<'_, '_>) {
            match op {
                $(Op::$name $( ( $($part),* ) )? $( { $($field),* } )? => {
                    $( $($part.check(wanted!($($part_wanted)?), scope);)* )?
                    $( $($field.check(wanted!($($field_wanted)?), scope);)* )?
                })*
            }
        }
    };
}
operations!(checker);
