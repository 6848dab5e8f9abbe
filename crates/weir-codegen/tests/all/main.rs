//! Native code beside the interpreter. One program, so that the crate is linked once.

mod native;
mod random;
