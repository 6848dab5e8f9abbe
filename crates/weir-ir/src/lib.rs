//! The control-flow graph that a question is compiled to: instructions, text form, verifier,
//! interpreter, passes.
//!
//! * [`graph`]: the data structure, and the meaning of every instruction.
//! * [`build`]: how lowering makes one, variables turned into block parameters.
//! * [`text`]: prints and parses it.  [`verify`]: the invariants.  [`interpret`]: the reference meaning.
//! * `passes`: one file a pass.  [`straight`]: the usual way of a packet as a graph of its own.
//! * What these share: [`dominators`] (order, dominance, loops), [`liveness`] (what lives across lookups),
//!   [`range`](mod@range) (how large values get), [`lengths`] (which bytes are there), [`patterns`] (searching).
//! * [`abi`]: the contract between a program made from a graph and whoever runs it; [`engine_var`]: the
//!   variables of flow records that both touch; [`key`]: the layout of flow keys; [`sequence`]: the state of sequences among them.
#![forbid(unsafe_code)]

pub mod abi;
pub mod build;
pub mod checksum;
pub mod dominators;
pub mod engine_var;
pub mod excerpt;
pub mod graph;
pub mod interpret;
pub mod key;
pub mod lengths;
mod lists;
pub mod liveness;
pub mod passes;
pub mod patterns;
pub mod range;
pub mod sequence;
pub mod straight;
pub mod text;
pub mod verify;
