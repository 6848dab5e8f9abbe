//! Filters: which traffic a question is about.
//!
//! `parse` yields an [`Expr`] over names; `resolve` looks every name up in a [`Catalog`] and checks
//! types; `dnf` turns it into a disjunction of conjunctions of [`Predicate`]s, bounded.

pub mod ast;

pub use ast::{Catalog, Expr, FieldInfo, Literal, Op, Predicate, Stage, Term};
