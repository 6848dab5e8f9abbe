//! The protocol language and the filter language: text to checked model, with diagnostics.
//!
//! `syntax` reads `.weir` text, `check` resolves it into the [`model`]; `filter` reads filters.
//! Nothing here knows of graphs: lowering lives in `weir-compile`.
#![forbid(unsafe_code)]

pub mod diag;
pub mod filter;
pub mod model;
