//! The reference semantics of graphs: runs a graph instruction by instruction, in plain safe code.
//!
//! It runs graphs that [`crate::verify`] accepts; others may cause a panic, but no undefined behaviour.
//! Native code must behave the same on every packet. [`Interpreter::trace`] explains filter results.
//!
//! A buffer always starts at the start of the frame, of a kept slice or of an input. So a source number and a
//! length identify it, and these two are stored across lookups.

mod arithmetic;
mod flow;
mod run;
mod trace;

pub use arithmetic::member;
pub use trace::TraceStep;

use crate::abi::{Continuation, Host, Layout, Program, Resume, Step};
use crate::graph::{Block, Graph, Terminator, Type, Value};
use crate::liveness::{Liveness, live_words, lookups, words_of_bools};
use crate::patterns::{PatternError, Patterns};
use run::{Record, Registers, Run, Tail};
use std::sync::{Arc, Mutex};
use weir_packet::PacketMeta;

/// A graph, prepared for interpretation.
#[derive(Debug)]
pub struct Interpreter {
    graph: Arc<Graph>,
    layout: Layout,
    patterns: Arc<Patterns>,
    crossings: Vec<Crossing>,
    /// By block: the number of its lookup.
    resumes: Vec<u32>,
    /// Registers not in use, kept so that packets need no allocation.
    spare: Mutex<Vec<Registers>>,
}

/// A lookup, as needed to resume after it.
#[derive(Debug)]
struct Crossing {
    then: Block,
    live: Vec<Value>,
}

impl Interpreter {
    /// Prepares a graph, which should be verified.
    ///
    /// # Errors
    /// If a regular expression does not compile.
    pub fn new(graph: Graph) -> Result<Self, PatternError> {
        let patterns = Patterns::of(&graph)?;
        Ok(Self::of(Arc::new(graph), Arc::new(patterns)))
    }

    /// Prepares a graph, which should be verified, and whose compiled patterns are known.
    pub fn of(graph: Arc<Graph>, patterns: Arc<Patterns>) -> Self {
        debug_assert!(!graph.is_fast_path, "its whole graph is interpreted");
        let liveness = Liveness::of(&graph);
        let mut resumes = vec![0; graph.blocks.len()];
        let mut crossings = vec![];
        for block in lookups(&graph) {
            resumes[block.index()] = crossings.len() as u32;
            let Terminator::Lookup { then, .. } = graph.block(block).terminator else { continue };
            let live = liveness.across(&graph, block);
            debug_assert!(live_words(&graph, &live) <= crate::abi::LIVE_VALUES_MAX, "{block}");
            crossings.push(Crossing { then, live });
        }
        let layout = Layout::of(&graph);
        Self { graph, layout, patterns, crossings, resumes, spare: Mutex::default() }
    }

    /// Runs `body` with registers. Registers of an earlier packet need no clearing, because every value is
    /// written before it is read.
    fn with_registers<R>(&self, body: impl FnOnce(&mut Registers) -> R) -> R {
        let spare = || self.spare.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut registers = spare().pop().unwrap_or_else(|| Registers::of(&self.graph));
        let result = body(&mut registers);
        spare().push(registers);
        result
    }

    fn start(&self, packet: &PacketMeta, record: Record<'_>, k: &mut Continuation, trace: Trace<'_>) -> Step {
        k.release();
        self.with_registers(|registers| {
            Run::new(self, packet, record, None, k, registers, trace).run(self.graph.entry)
        })
    }

    fn go_on(&self, host: &mut dyn Host, at: Resume<'_>, k: &mut Continuation, trace: Trace<'_>) -> Step {
        let Resume { packet, frame, flow, direction, is_new } = at;
        let tail = Tail { host, flow };
        let crossing = &self.crossings[k.resume as usize];
        self.with_registers(|registers| {
            let (bools, words) = k.live.split_at(words_of_bools(&self.graph, &crossing.live));
            let mut bools = bools.iter().flat_map(|word| word.to_ne_bytes());
            let mut words = words.iter();
            let mut word = || *words.next().expect("the verifier bounds what lives across a lookup");
            for &value in &crossing.live {
                registers.values[value.index()] = match self.graph.type_of(value) {
                    Type::Buf => word() << 32 | word(),
                    Type::Bool => u64::from(bools.next().expect("there is a byte for each")),
                    _ => word(),
                };
            }
            let params = &self.graph.block(crossing.then).params;
            for (param, word) in
                params.iter().zip([0, u64::from(direction.is_responder()), u64::from(is_new)])
            {
                registers.values[param.index()] = word;
            }
            Run::new(self, packet, Record::Frame(frame), Some(tail), k, registers, trace).run(crossing.then)
        })
    }
}

type Trace<'a> = Option<&'a mut Vec<TraceStep>>;

impl Program for Interpreter {
    fn graph(&self) -> &Graph {
        &self.graph
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn head(&self, packet: &PacketMeta, frame: &[u8], k: &mut Continuation) -> Step {
        self.start(packet, Record::Frame(frame), k, None)
    }

    fn resume(&self, host: &mut dyn Host, at: Resume<'_>, k: &mut Continuation) -> Step {
        self.go_on(host, at, k, None)
    }

    fn ask(&self, numbers: &[u64], bytes: &[&[u8]], k: &mut Continuation) -> u64 {
        match self.start(&PacketMeta::default(), Record::Inputs { numbers, bytes }, k, None) {
            Step::Done(_) => k.terms,
            Step::Lookup | Step::Restart => 0,
        }
    }
}
