//! The syntax of the protocol language: tokens, syntax tree, and parser.
//!
//! This module does not resolve names; `check` does. The grammar is at the head of [`parser`]. For any text,
//! the parser returns a tree of the readable parts and reports the rest.

pub mod ast;
pub mod lexer;
pub mod parser;

mod clauses;
mod constants;
mod expr;
mod header;
mod recover;
mod stack;

/// The limits of the syntax.
pub(crate) mod limits {
    pub(crate) use super::expr::OPERATORS_MAX;
    pub(crate) use super::parser::DEPTH_MAX;
}

pub use parser::{Outline, outline, parse};
