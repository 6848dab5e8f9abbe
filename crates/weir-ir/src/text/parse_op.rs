//! Parses instructions, by the [table of operations](crate::graph::operations).

use super::error::ParseError;
use super::lexer::Line;
use super::operand::{Operand, Word};
use crate::graph::operations::operations;
use crate::graph::{BinaryOp, CompareOp, Inst, NumberFormat, Op, Value, Values};

/// Parses an instruction and its results.
pub(super) fn inst(line: &mut Line) -> Result<Inst, ParseError> {
    let mut results = Values::new();
    let is_value = |word: &str| word.strip_prefix('v').is_some_and(|n| n.parse::<u32>().is_ok());
    if line.peek_word().is_some_and(is_value) {
        results.push(Value::parse("", line)?);
        while line.take(",") {
            results.push(Value::parse("", line)?);
        }
        line.expect("=")?;
    }
    Ok(Inst { results, op: op(line)? })
}

/// The word before an operand.
macro_rules! lead {
    () => {
        ""
    };
    ($lead:literal) => {
        $lead
    };
}

/// Whether the line continues with the word of an operation. A word that is an operand is not consumed.
macro_rules! begins {
    ($line:ident [$kind:ident]) => {
        $line.peek_word().is_some_and($kind::has)
    };
    ($line:ident $word:literal) => {
        $line.take($word)
    };
}

macro_rules! parser {
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
        fn op(line: &mut Line) -> Result<Op, ParseError> {
            $(if begins!(line $word) {
                $( $(let $part = Operand::parse("", line)?;)* )?
                $( $(let $field = Operand::parse(lead!($($lead)?), line)?;)* )?
                return Ok(Op::$name $( ( $($part),* ) )? $( { $($field),* } )?);
            })*
            let word = line.word("an instruction")?;
            Err(line.error_before(format!("there is no instruction `{word}`")))
        }
    };
}
operations!(parser);
