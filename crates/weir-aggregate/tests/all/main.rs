//! Bounds, plans, and properties against a model. One program, so that the crate is linked once.

mod bounds;
mod plan;
mod properties;
