//! Checks that a graph keeps the invariants at the head of [`crate::graph`], and reports all violations.
//!
//! * `structure`: all names exist, and types fit; `operands`: those of instructions, by the table of
//!   operations.
//! * this file: definitions dominate uses; flows, loops, limits, loads.
//! * [`crate::lengths`]: the proof about loads.

mod operands;
mod scope;
mod structure;

use crate::abi::LIVE_VALUES_MAX;
use crate::dominators::ControlFlow;
use crate::graph::{Block, Graph, Op, Terminator, Type, Value};
use crate::lengths::Lengths;
use crate::liveness::{Kept, NO_LOOKUP, last_lookups, live_words, lookups};
use crate::range::Ranges;
use std::fmt;

/// A position in a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The graph's declarations.
    Declarations,
    /// A block as a whole.
    Block(Block),
    /// An instruction of a block, by its index.
    Inst(Block, usize),
    /// The terminator of a block.
    Terminator(Block),
}

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The position.
    pub place: Place,
    /// The instruction at the position, as text.
    pub text: String,
    /// Description of the violation.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Declarations => write!(f, "declarations: {}", self.message),
            Place::Block(block) => write!(f, "{block}: {}", self.message),
            Place::Inst(block, _) | Place::Terminator(block) => {
                write!(f, "{block}: `{}`: {}", self.text, self.message)
            }
        }
    }
}

/// The result of a successful verification: analyses that code generation reuses.
#[derive(Debug)]
pub struct Verified {
    /// Upper bounds of values.
    pub ranges: Ranges,
    /// Values that must be kept across lookups; `None` if there are no lookups.
    pub kept: Option<Kept>,
}

/// Checks all invariants.
///
/// # Errors
/// All violations. If names or types are wrong, only those, because the other checks depend on them.
pub fn verify(graph: &Graph) -> Result<Verified, Vec<Violation>> {
    let mut report = Report { graph, violations: vec![] };
    let rejoins = |block: &Block| matches!(graph.block(*block).terminator, Terminator::Rejoin { .. });
    for block in graph.block_ids().filter(|block| !graph.is_fast_path && rejoins(block)) {
        report.add(Place::Terminator(block), "there is no other graph to go on in");
    }
    structure::check(graph, &mut report);
    if !report.violations.is_empty() {
        return Err(report.violations);
    }
    let flow = ControlFlow::of(graph);
    let (ranges, kept) = (Ranges::of(graph, &flow), Kept::of(graph));
    check_definitions(graph, &flow, &mut report);
    // The proof about loads follows definitions back, so they must not be cyclic.
    if report.violations.is_empty() {
        check_loads(graph, &flow, &ranges, &mut report);
    }
    check_flows(graph, &flow, kept.as_ref(), &mut report);
    check_cycles(graph, &flow, &mut report);
    if report.violations.is_empty() { Ok(Verified { ranges, kept }) } else { Err(report.violations) }
}

/// As [`verify`], for graphs that must be valid.
///
/// # Panics
/// If there are violations; the message contains them and the graph.
pub fn assert_valid(graph: &Graph, after: &str) {
    if let Err(violations) = verify(graph) {
        let list: String = violations.iter().map(|v| format!("  {v}\n")).collect();
        panic!("the graph is wrong after {after}:\n{list}\n{graph}");
    }
}

/// Collects violations.
struct Report<'a> {
    graph: &'a Graph,
    violations: Vec<Violation>,
}

impl Report<'_> {
    /// Adds a violation, unless another check has found it: a value may be several operands of an
    /// instruction.
    fn add(&mut self, place: Place, message: impl Into<String>) {
        let message = message.into();
        let mut here = self.violations.iter().rev().take_while(|violation| violation.place == place);
        if here.any(|violation| violation.message == message) {
            return;
        }
        let text = match place {
            Place::Declarations | Place::Block(_) => String::new(),
            Place::Inst(block, at) => self.graph.block(block).insts[at].to_string(),
            Place::Terminator(block) => self.graph.block(block).terminator.to_string(),
        };
        self.violations.push(Violation { place, text, message });
    }
}

/// Invariant 1: definitions dominate uses.
fn check_definitions(graph: &Graph, flow: &ControlFlow, report: &mut Report<'_>) {
    // The definition of each value; parameters come before everything else in their block.
    let mut homes: Vec<Option<(Block, usize)>> = vec![None; graph.values.len()];
    for &block in flow.order() {
        let data = graph.block(block);
        data.params.iter().for_each(|v| homes[v.index()] = Some((block, 0)));
        for (at, inst) in data.insts.iter().enumerate() {
            inst.results.iter().for_each(|v| homes[v.index()] = Some((block, at + 1)));
        }
    }
    for &block in flow.order() {
        let data = graph.block(block);
        let mut used_at = |value: Value, at: usize, place: Place| match homes[value.index()] {
            Some((home, before)) if home == block && before <= at => {}
            Some((home, _)) if home == block => {
                report.add(place, format!("{value} is used before it is defined"));
            }
            Some((home, _)) if flow.dominates(home, block) => {}
            Some((home, _)) => {
                report.add(place, format!("{value} is defined in {home}, which not every way here passes"))
            }
            None => report.add(place, format!("{value} is defined only where nothing leads")),
        };
        for (at, inst) in data.insts.iter().enumerate() {
            inst.op.for_each_operand(|v| used_at(v, at, Place::Inst(block, at)));
        }
        data.terminator.for_each_operand(|v| used_at(v, data.insts.len(), Place::Terminator(block)));
    }
}

/// Invariant 4, flows: a flow ends at the next lookup, and all paths to a restart come from the same lookup.
/// Invariant 8: the values across each lookup fit.
fn check_flows(graph: &Graph, flow: &ControlFlow, kept: Option<&Kept>, report: &mut Report<'_>) {
    for block in lookups(graph).into_iter().filter(|&block| flow.is_reachable(block)) {
        let live = kept.map(|kept| kept.liveness.across(graph, block)).unwrap_or_default();
        for &value in live.iter().filter(|&&v| matches!(graph.type_of(v), Type::Flow(_))) {
            report.add(Place::Terminator(block), format!("{value} is a flow and is used after this lookup"));
        }
        let words = live_words(graph, &live);
        if words > LIVE_VALUES_MAX {
            let message = format!("{words} words live across this lookup, {LIVE_VALUES_MAX} may");
            report.add(Place::Terminator(block), message);
        }
    }
    let last = last_lookups(graph, flow.order());
    for &block in flow.order() {
        if graph.block(block).terminator == Terminator::Restart && last[block.index()] == NO_LOOKUP {
            report.add(Place::Terminator(block), "not every way here comes from one and the same lookup");
        }
    }
}

/// Invariant 3: without the blocks that end in `again`, there is no cycle.
fn check_cycles(graph: &Graph, flow: &ControlFlow, report: &mut Report<'_>) {
    let counted = |block: Block| matches!(graph.block(block).terminator, Terminator::Again { .. });
    let mut left: Vec<bool> =
        graph.block_ids().map(|block| flow.is_reachable(block) && !counted(block)).collect();
    // A block without remaining predecessors, or without remaining successors, is on no cycle.
    loop {
        let mut changed = false;
        for &block in flow.order() {
            let comes = flow.predecessors(block).iter().any(|p| left[p.index()]);
            let goes = graph.block(block).terminator.successors().iter().any(|s| left[s.index()]);
            if left[block.index()] && !(comes && goes) {
                left[block.index()] = false;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let names: Vec<String> =
        graph.block_ids().filter(|block| left[block.index()]).map(|block| block.to_string()).collect();
    if let Some(first) = graph.block_ids().find(|block| left[block.index()]) {
        let message = format!("a cycle without `again` among {}", names.join(", "));
        report.add(Place::Block(first), message);
    }
}

/// Invariant 2: loads stay inside their buffers.
fn check_loads(graph: &Graph, flow: &ControlFlow, ranges: &Ranges, report: &mut Report<'_>) {
    let lengths = Lengths::of(graph, flow, ranges);
    for &block in flow.order() {
        for (at, inst) in graph.block(block).insts.iter().enumerate() {
            if let Op::Load { format, buf, offset, displacement } = inst.op {
                let bytes = u64::from(displacement) + u64::from(format.width.bytes());
                if !lengths.prove(block, buf, offset, bytes) {
                    let message = format!("no check proves {bytes} bytes in {buf} from {offset} on");
                    report.add(Place::Inst(block, at), message);
                }
            }
        }
    }
}
