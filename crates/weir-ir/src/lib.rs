//! The control-flow graph to which a question is compiled: instructions, text form, verifier, interpreter,
//! passes.
//!
//! * [`graph`]: the data structure, and the meaning of every instruction.
//! * [`build`]: how lowering builds a graph; turns variables into block parameters.
//! * [`text`]: prints and parses graphs. [`verify`]: checks the invariants. [`interpret`]: the reference
//!   semantics.
//! * `passes`: one file per pass. [`fast_path`]: the most common path of packets as a separate graph.
//! * Analyses: [`dominators`] (order, dominance, loops), [`liveness`] (values across lookups),
//!   [`range`](mod@range) (upper bounds of values), [`lengths`] (lower bounds of buffer lengths),
//!   [`patterns`] (searching).
//! * [`abi`]: the contract between a program compiled from a graph and the engine that runs it;
//!   [`engine_var`]: the variables of flow records that both access; [`key`]: the layout of flow keys;
//!   [`sequence`]: the state of sequences.
#![forbid(unsafe_code)]

pub mod abi;
pub mod build;
pub mod checksum;
mod csr;
pub mod dominators;
pub mod engine_var;
pub mod excerpt;
pub mod fast_path;
pub mod graph;
pub mod interpret;
pub mod items;
pub mod kernel_flows;
pub mod key;
pub mod lengths;
pub mod liveness;
pub mod passes;
pub mod patterns;
pub mod range;
pub mod sequence;
pub mod slot;
pub mod text;
pub mod verify;
