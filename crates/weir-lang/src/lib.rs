//! The protocol language and the filter language: from text to a checked model, with diagnostics.
//!
//! `syntax` parses `.weir` texts, and `check` resolves them into the [`model`]; `filter` parses filters, and
//! `aggregate` what is computed of records. [`Library`] holds the parsed texts; [`format()`] formats a text.
//! This crate does not depend on graphs: `weir-compile` does the lowering.
#![forbid(unsafe_code)]

pub mod aggregate;
pub mod check;
pub mod diag;
pub mod filter;
pub mod limits;
pub mod model;
pub mod reach;
pub mod syntax;

mod context;
mod format;
mod library;
pub mod reference;

pub use context::ContextChanges;
pub use format::format;
pub use library::{Library, load, read_text, text_of};
