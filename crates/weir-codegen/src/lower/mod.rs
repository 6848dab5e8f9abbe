//! Lowers a graph's head, or the tail after one of its lookups, to one Cranelift function.
//!
//! Types: a bool is an `i8` of 0 or 1, an int is an `i64`, a buffer is two `i64`s (address, length). A flow
//! has no representation: the only usable flow is that of the lookup after which the tail resumes, and it is
//! an argument. Constants and the frame are rematerialized at each use.
//!
//! A value that crosses a tail's lookup stays in the continuation, where it was saved. In the head, so do
//! values that are live where tails enter it; such a value may have several definitions if a tunnel leads to
//! the same block again. All other values are dominated by their only definition in the same part, because a
//! path around the definition would make them cross a lookup.

mod crossing;
mod inst;
mod member;
mod terminator;

use crate::host::Env;
use crate::plan::{Known, Plan};
use cranelift_codegen::ir::{self, AbiParam, BlockArg, InstBuilder, MemFlagsData, types};
use cranelift_codegen::isa::{CallConv, TargetFrontendConfig};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use crossing::Saved;
use std::mem::offset_of;
use weir_ir::abi::{Continuation, Layout};
use weir_ir::graph::{Block, Graph, Target, Terminator, Type, Value};
use weir_ir::liveness::Crossing;
use weir_packet::DropReason;

/// Return value of a function: the packet ended without a reason.
pub(crate) const DONE: u64 = 0;
/// The packet ended with a reason: this plus the number of the reason.
pub(crate) const DONE_WITH: u64 = 1;
/// A lookup is requested.
pub(crate) const LOOKUP: u64 = 256;
/// A restart is requested: the flow ends first.
pub(crate) const RESTART: u64 = 257;
/// The whole graph's head must run.
pub(crate) const REJOIN: u64 = 258;
/// The head must be entered: this plus the number of the entry.
pub(crate) const ENTER: u64 = 259;

/// A function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Arguments: environment, packet, frame, frame length, continuation, and 0 for the graph's entry or 1
    /// plus the number of one of the plan's entries.
    Head,
    /// The head of a fast path; same arguments.
    FastPath,
    /// The tail after the lookup with this number. Arguments: the first five of the head, then the flow's
    /// variables, then flags: 1 for a packet of the responder, plus 2 for a new flow.
    Tail(usize),
}

impl Part {
    /// Name in printed code.
    pub(crate) fn name(self) -> String {
        match self {
            Part::Head => "head".into(),
            Part::FastPath => "fast-path".into(),
            Part::Tail(number) => format!("tail{number}"),
        }
    }

    /// Its signature.
    pub(crate) fn signature(self, call_conv: CallConv) -> ir::Signature {
        let mut signature = ir::Signature::new(call_conv);
        let params = match self {
            Part::Head | Part::FastPath => 6,
            Part::Tail(_) => 7,
        };
        signature.params = vec![AbiParam::new(types::I64); params];
        signature.returns = vec![AbiParam::new(types::I64)];
        signature
    }
}

/// The Cranelift values of one value: two, one or none.
#[derive(Debug, Clone, Copy)]
enum Parts {
    None,
    One(ir::Value),
    Two(ir::Value, ir::Value),
}

impl Parts {
    fn for_each(self, mut f: impl FnMut(ir::Value)) {
        match self {
            Parts::None => {}
            Parts::One(one) => f(one),
            Parts::Two(first, second) => {
                f(first);
                f(second);
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Arguments {
    env: ir::Value,
    packet: ir::Value,
    frame: ir::Value,
    frame_bytes: ir::Value,
    k: ir::Value,
    /// Only in tails.
    flow_data: Option<ir::Value>,
}

/// Memory flags of bytes that nothing writes to during the run. They are unaligned, and loads must not move
/// above the check that proves them.
fn of_packet() -> MemFlagsData {
    MemFlagsData::new().with_notrap().with_readonly()
}

/// Memory flags of the continuation, the environment and the stack: aligned.
fn of_run() -> MemFlagsData {
    MemFlagsData::trusted()
}

/// Memory flags of a flow's variables, which may be unaligned.
fn of_flow() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

pub(crate) struct Lowering<'a> {
    graph: &'a Graph,
    plan: &'a Plan,
    layout: &'a Layout,
    order: Vec<Block>,
    /// In a fast path: the values that its whole graph saves across lookups.
    whole: &'a [Crossing],
    b: FunctionBuilder<'a>,
    arguments: Arguments,
    blocks: Vec<Option<ir::Block>>,
    values: Vec<Parts>,
    /// By value: its slot in the continuation.
    saved: Vec<Option<Saved>>,
    /// Edges from a tail to the head.
    leaving: Vec<(ir::Block, Target)>,
    /// The word array for host calls, and its size.
    words: Option<(ir::StackSlot, usize)>,
}

/// The inputs common to all functions of a graph.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    pub graph: &'a Graph,
    pub plan: &'a Plan,
    pub layout: &'a Layout,
    /// For a fast path: the values that its whole graph saves across lookups.
    pub whole: &'a [Crossing],
}

impl<'a> Source<'a> {
    /// Generates the code of `part` into `function`.
    pub(crate) fn lower(
        self,
        part: Part,
        function: &'a mut ir::Function,
        context: &'a mut FunctionBuilderContext,
        config: TargetFrontendConfig,
    ) {
        function.signature = part.signature(config.default_call_conv);
        let mut b = FunctionBuilder::new(function, context);
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let params = b.block_params(entry);
        let arguments = Arguments {
            env: params[0],
            packet: params[1],
            frame: params[2],
            frame_bytes: params[3],
            k: params[4],
            flow_data: matches!(part, Part::Tail(_)).then(|| params[5]),
        };
        let (entry, flags) = (params[5], params.get(6).copied());
        let mut lowering = Lowering {
            graph: self.graph,
            plan: self.plan,
            layout: self.layout,
            order: match part {
                Part::Head | Part::FastPath => self.plan.head.clone(),
                Part::Tail(number) => self.plan.tail(self.graph, number),
            },
            whole: self.whole,
            b,
            arguments,
            blocks: vec![None; self.graph.blocks.len()],
            values: vec![Parts::None; self.graph.values.len()],
            saved: vec![None; self.graph.values.len()],
            leaving: vec![],
            words: None,
        };
        lowering.declare();
        match (part, flags) {
            (Part::Tail(number), Some(flags)) => lowering.resume(number, flags),
            _ => lowering.enter(entry),
        }
        lowering.fill();
        lowering.b.seal_all_blocks();
        lowering.b.finalize(config);
    }
}

impl<'a> Lowering<'a> {
    /// Creates the blocks with their parameters.
    fn declare(&mut self) {
        for &block in &self.order {
            let made = self.b.create_block();
            self.blocks[block.index()] = Some(made);
            let data = self.graph.block(block);
            for &param in &data.params {
                for ty in clif_types(self.graph.type_of(param)) {
                    self.b.append_block_param(made, *ty);
                }
            }
            if let Terminator::Done { reason: Some(_), .. } = data.terminator {
                self.b.set_cold_block(made);
            }
        }
    }

    /// Starts the head at the graph's entry.
    fn start(&mut self) {
        if self.plan.fuels > 0 {
            let zero = self.b.ins().iconst(types::I64, 0);
            for pair in 0..self.plan.fuels.div_ceil(2) {
                let at = (offset_of!(Continuation, fuels) + 8 * pair) as i32;
                self.b.ins().store(of_run(), zero, self.arguments.k, at);
            }
        }
        let entry = self.made(self.graph.entry);
        self.b.ins().jump(entry, &[]);
    }

    fn fill(&mut self) {
        for block in std::mem::take(&mut self.order) {
            let made = self.made(block);
            self.b.switch_to_block(made);
            let data = self.graph.block(block);
            let mut params = self.b.block_params(made).to_vec().into_iter();
            let mut next = || params.next().expect("a block's parameters were declared");
            let parts: Vec<Parts> = data
                .params
                .iter()
                .map(|&param| match clif_types(self.graph.type_of(param)).len() {
                    0 => Parts::None,
                    1 => Parts::One(next()),
                    _ => Parts::Two(next(), next()),
                })
                .collect();
            for (&param, parts) in data.params.iter().zip(parts) {
                self.define(param, parts);
            }
            for inst in &data.insts {
                self.inst(inst);
            }
            self.terminator(block, &data.terminator);
        }
        for (block, target) in std::mem::take(&mut self.leaving) {
            self.b.switch_to_block(block);
            self.leave_for_head(&target);
        }
    }

    fn made(&self, block: Block) -> ir::Block {
        self.blocks[block.index()].expect("a block of this function")
    }

    fn define(&mut self, value: Value, parts: Parts) {
        match self.saved[value.index()] {
            Some(saved) => self.define_saved(value, saved.at, parts),
            None => self.values[value.index()] = parts,
        }
    }

    fn read(&mut self, value: Value) -> Parts {
        match self.plan.known[value.index()] {
            Some(Known::Int(number)) => return Parts::One(self.b.ins().iconst(types::I64, number as i64)),
            Some(Known::Bool(truth)) => return Parts::One(self.b.ins().iconst(types::I8, i64::from(truth))),
            Some(Known::Frame) => return Parts::Two(self.arguments.frame, self.arguments.frame_bytes),
            None => {}
        }
        self.read_saved(value).unwrap_or(self.values[value.index()])
    }

    /// A bool or an int.
    fn one(&mut self, value: Value) -> ir::Value {
        match self.read(value) {
            Parts::One(a) => a,
            other => unreachable!("{value} is no number but {other:?}"),
        }
    }

    /// Address and length of a buffer.
    fn buf(&mut self, value: Value) -> (ir::Value, ir::Value) {
        match self.read(value) {
            Parts::Two(address, bytes) => (address, bytes),
            other => unreachable!("{value} is no buffer but {other:?}"),
        }
    }

    /// A bool or an int as 64 bits.
    fn word(&mut self, value: Value) -> ir::Value {
        let one = self.one(value);
        match self.graph.type_of(value) {
            Type::Bool => self.b.ins().uextend(types::I64, one),
            _ => one,
        }
    }

    /// The block and the arguments of an edge.
    fn edge(&mut self, target: &Target) -> (ir::Block, Vec<BlockArg>) {
        let Some(made) = self.blocks[target.block.index()] else {
            let block = self.b.create_block();
            self.leaving.push((block, target.clone()));
            return (block, vec![]);
        };
        let mut arguments = Vec::with_capacity(target.args.len());
        for &value in &target.args {
            self.read(value).for_each(|part| arguments.push(BlockArg::Value(part)));
        }
        (made, arguments)
    }
}

fn clif_types(ty: Type) -> &'static [ir::Type] {
    match ty {
        Type::Bool => &[types::I8],
        Type::Int => &[types::I64],
        Type::Buf => &[types::I64, types::I64],
        Type::Flow(_) => &[],
    }
}

/// The return value for a packet that ended.
fn done(reason: Option<DropReason>) -> u64 {
    reason.map_or(DONE, |reason| DONE_WITH + reason as u64)
}

/// Offsets of the inputs of a deferred predicate in the environment.
fn env_offsets() -> (i32, i32) {
    (offset_of!(Env<'_>, numbers) as i32, offset_of!(Env<'_>, bytes) as i32)
}
