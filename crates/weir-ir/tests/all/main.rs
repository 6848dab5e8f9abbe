//! The graph: its text, its meaning, its passes. One program, so that the crate is linked once.

mod filetests;
mod interpret;
mod passes;
mod random;
