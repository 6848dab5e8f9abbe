//! Graph to native code: one module of machine code per program, made by Cranelift while Weir runs.
//!
//! * [`compile`] makes a [`NativeProgram`], which keeps the contract of [`weir_ir::abi`].
//! * `plan`: which blocks make up the head and the tail, what is saved between them.
//! * `lower`: instructions to Cranelift's.  `native`: the module, its memory, calling it.
//!   `host`: what native code calls.
//!
//! # Why it is sound
//! Native code loads without checking, so what it may load is settled before:
//! * Every graph is verified first: a load is dominated by a check that its bytes are in the buffer.
//! * A buffer is the frame, an input of a residual filter, or a slice in
//!   the continuation's buffers ([`weir_ir::abi::Continuation::keep`]), which hold their blocks; all live
//!   unchanged until the packet is done. A run is resumed only with the frame that its head was given: the
//!   continuation is bound to program and frame, nobody else can bind it or change what it goes on with, and
//!   `resume` refuses any other.
//! * What lives across a lookup, or is needed where a tail enters the head, lies where one plan says to all parts. After a
//!   panic of the host nothing goes on with it.
//! * Variables lie where [`Layout`](weir_ir::abi::Layout) says; `resume` refuses a shorter flow record. The
//!   count of letters is bounded before use.
//! * Code lives until the program is dropped, which nobody can do while calling it.
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

/// How to compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Effort {
    /// With the register allocator that goes through the code once: half the time.
    Least,
    /// So at first; as `Quick` what many packets run through, once they have (`Program::note_packets`).
    Growing,
    /// As fast as possible: the graph has been through its passes.
    #[default]
    Quick,
    /// Cranelift's own optimiser on top.
    Thorough,
}

impl Effort {
    /// The effort for what runs for the first time.
    fn first(self) -> Self {
        if self == Effort::Growing { Effort::Least } else { self }
    }
}

/// Why a graph was not compiled.
#[derive(Debug)]
pub enum CompileError {
    /// The system forbids memory that is written and then executed: interpret instead.
    NoExecutableMemory(String),
    /// Cranelift knows no code for this processor: interpret instead.
    UnknownProcessor(String),
    /// The graph breaks an invariant.
    Unverified(String),
    /// A flow is read after the lookup of another.
    FlowAcrossLookup(Value),
    /// More loops than a continuation counts.
    TooManyLoops(usize),
    /// More lives across a lookup than a continuation holds.
    TooManyLive {
        /// Words.
        words: usize,
        /// The block that ends in the lookup.
        block: Block,
    },
    /// A key of more words than a continuation holds.
    KeyTooLong(Block),
    /// A slot of the record beyond those of a continuation.
    TooManyOuts(Block),
    /// A pattern can't be compiled.
    Pattern(String),
    /// Cranelift failed.
    Backend(String),
}

impl CompileError {
    /// The interpreter runs what native code can't, for reasons that are neither the graph's nor ours.
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
                    "{words} words of what a packet says are kept until its flow is known ({block}), and {LIVE_VALUES_MAX} is the most"
                )
            }
            Self::TooManyLoops(loops) => write!(f, "{loops} loops, more than a continuation counts"),
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
/// Where [`CompileError::is_environment`] holds, interpret the graph. The others are mistakes of lowering
/// or of a pass.
pub fn compile(graph: Graph) -> Result<NativeProgram, CompileError> {
    compile_with(graph, Effort::default())
}

/// As [`compile`], with a choice of effort.
///
/// # Errors
/// As [`compile`].
pub fn compile_with(graph: Graph, effort: Effort) -> Result<NativeProgram, CompileError> {
    NativeProgram::new(graph, None, effort)
}

/// As [`compile`], of a graph and its straight graph ([`weir_ir::straight`]) after its own passes.
///
/// # Errors
/// As [`compile`].
pub fn compile_with_straight(graph: Graph, straight: Option<Graph>) -> Result<NativeProgram, CompileError> {
    NativeProgram::new(graph, straight, Effort::Growing)
}
