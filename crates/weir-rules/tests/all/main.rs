//! Texts of rules: seeds of the fuzzer, and mistakes. One program, so that the crate is linked once.

mod corpus;
mod mistakes;
