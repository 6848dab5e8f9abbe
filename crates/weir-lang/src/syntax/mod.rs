//! The protocol language as text: tokens, the tree, and the parser that makes one of the other.
//!
//! Nothing here knows what a name means; that is `check`'s. The grammar stands at the head of
//! [`parser`]. Whatever the text, the parser yields a tree of what it could read and says the rest.

pub mod ast;
pub mod lexer;
pub mod parser;

mod clauses;
mod constants;
mod expr;
mod header;
mod recover;
mod stack;

/// The bounds of what is read.
pub(crate) mod limits {
    pub(crate) use super::expr::OPERATORS_MAX;
    pub(crate) use super::parser::DEPTH_MAX;
}

pub use parser::{Outline, outline, parse};
