//! The language: filters, layout, diagnostics, models. One program, so that the crate is linked once.

mod filter;
mod format;
mod lang;
mod lang_properties;
mod model;
