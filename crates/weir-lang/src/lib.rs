//! The protocol language and the filter language: text to checked model, with diagnostics.
//!
//! `syntax` reads `.weir` text, `check` resolves it into the [`model`]; `filter` reads filters.
//! [`Library`] holds what was read; [`format()`] lays a text out anew. Nothing here knows of graphs:
//! lowering lives in `weir-compile`.
#![forbid(unsafe_code)]

pub mod check;
pub mod diag;
pub mod filter;
pub mod limits;
pub mod model;
pub mod syntax;

mod format;
mod library;
pub mod reference;

pub use format::format;
pub use library::{Library, fuzz_lang, load, read_text, text_of};
