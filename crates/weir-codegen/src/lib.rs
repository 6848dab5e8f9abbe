//! Compiles graphs to native code: one module of machine code per program, compiled by Cranelift at run time.
//!
//! * [`compile`] creates a [`NativeProgram`], which implements the contract of [`weir_ir::abi`].
//! * `plan`: the blocks of the head and of each tail, and the values saved between them.
//! * `lower`: translates instructions to Cranelift's. `native`: the module, its memory, calls into it.
//!   `host`: the functions that native code calls.
//!
//! # Soundness
//! Native code loads without bounds checks, so everything that it loads is proven beforehand:
//! * Every graph is verified first: a check that the bytes are in the buffer dominates each load.
//! * A buffer is the frame, an input of a deferred predicate, or a slice in the continuation's buffers
//!   ([`weir_ir::abi::Continuation::keep`]), which hold their blocks. All are valid and unchanged until the
//!   packet is finished. A run resumes only with the frame that its head was given: the continuation is bound
//!   to program and frame, other code can neither bind it nor change the state that the run resumes from, and
//!   `resume` refuses other bindings.
//! * Values that are live across a lookup, or where a tail enters the head, have one location for all parts,
//!   fixed by the plan. After a panic of the host nothing resumes from them.
//! * Variables have the locations of [`Layout`](weir_ir::abi::Layout); `resume` refuses a shorter flow
//!   record. The number of letters in a variable of kind `letters` is bounded before use.
//! * Code is valid until the program is dropped, which cannot happen during a call.
//! * No panic crosses native code (see `host`).

mod code;
mod host;
mod lower;
mod native;
mod plan;

pub use native::NativeProgram;

use std::fmt;
use weir_ir::abi::LIVE_VALUES_MAX;
use weir_ir::graph::{Block, Graph, Value};

/// The optimization level of compilation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Effort {
    /// With the single-pass register allocator: half the compile time.
    Least,
    /// `Least` at first; parts that many packets run are recompiled as `Quick` (`Program::note_packets`).
    Growing,
    /// As `Growing`, but the interpreter runs the first packets. A small capture takes less time to interpret
    /// than its program takes to compile.
    Late,
    /// With the backtracking register allocator, but without Cranelift's own optimizer: the graph has been
    /// through the passes.
    #[default]
    Quick,
    /// With Cranelift's own optimizer.
    Thorough,
}

impl Effort {
    /// The effort of the first compilation.
    fn first(self) -> Self {
        if self.grows() { Effort::Least } else { self }
    }

    /// Whether parts that many packets run are recompiled.
    fn grows(self) -> bool {
        matches!(self, Effort::Growing | Effort::Late)
    }
}

/// Why a graph was not compiled.
#[derive(Debug)]
pub enum CompileError {
    /// The system forbids memory that is written and then executed: use the interpreter.
    NoExecutableMemory(String),
    /// Cranelift does not support this processor: use the interpreter.
    UnknownProcessor(String),
    /// The graph breaks an invariant.
    Unverified(String),
    /// A flow is used after the lookup of another flow.
    FlowAcrossLookup(Value),
    /// More loops than a continuation can count.
    TooManyLoops(usize),
    /// More live values than a continuation can hold.
    TooManyLive {
        /// Number of words.
        words: usize,
        /// The block that ends in the lookup.
        block: Block,
    },
    /// A key with more words than a continuation can hold.
    KeyTooLong(Block),
    /// A slot of the packet's record that a continuation does not have.
    TooManyOuts(Block),
    /// A pattern does not compile.
    Pattern(String),
    /// Cranelift failed.
    Backend(String),
}

impl CompileError {
    /// Whether the cause is the environment, not the graph. If so, use the interpreter.
    pub fn is_environment(&self) -> bool {
        matches!(self, Self::NoExecutableMemory(_) | Self::UnknownProcessor(_))
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoExecutableMemory(why) => write!(f, "the system forbids executable memory: {why}"),
            Self::UnknownProcessor(why) => write!(f, "no native code for this processor: {why}"),
            Self::Unverified(why) => write!(f, "the graph is broken: {why}"),
            Self::FlowAcrossLookup(value) => write!(f, "flow {value} is read after another lookup"),
            Self::TooManyLive { words, block } => {
                write!(
                    f,
                    "{words} words of values are live across the flow lookup in {block}; the limit is {LIVE_VALUES_MAX}"
                )
            }
            Self::TooManyLoops(loops) => write!(f, "{loops} loops are more than a continuation can count"),
            Self::KeyTooLong(block) => write!(f, "the key of {block} is too long"),
            Self::TooManyOuts(block) => write!(f, "{block} stores beyond the packet's record"),
            Self::Pattern(why) => write!(f, "pattern: {why}"),
            Self::Backend(why) => write!(f, "code generator: {why}"),
        }
    }
}

impl std::error::Error for CompileError {}

/// Compiles a graph. Takes some microseconds per block; see `examples/compile_time.rs`.
///
/// # Errors
/// If [`CompileError::is_environment`] holds, interpret the graph. All other errors are bugs in lowering or
/// in a pass.
pub fn compile(graph: Graph) -> Result<NativeProgram, CompileError> {
    compile_with(graph, Effort::default())
}

/// As [`compile`], with this effort.
///
/// # Errors
/// As [`compile`].
pub fn compile_with(graph: Graph, effort: Effort) -> Result<NativeProgram, CompileError> {
    NativeProgram::new(graph, None, effort)
}

/// As [`compile_with`], for a graph and its fast path ([`weir_ir::fast_path`]), which has been through the
/// passes itself.
///
/// # Errors
/// As [`compile`].
pub fn compile_with_fast_path(
    graph: Graph,
    fast_path: Option<Graph>,
    effort: Effort,
) -> Result<NativeProgram, CompileError> {
    NativeProgram::new(graph, fast_path, effort)
}
