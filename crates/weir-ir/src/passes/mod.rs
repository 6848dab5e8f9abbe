//! The passes: one file each, named as the pass; [`PASSES`] lists them.
//!
//! A pass transforms a graph that [`crate::verify`] accepts into one with the same observable behaviour on
//! every packet: terms and reason, the packet's record, wanted events, delivered bytes, flows of observed
//! tables and their observed variables.
//!
//! [`optimize`] repeats the passes until a round changes almost nothing, for a few rounds at most. To add a
//! pass: one file with `pub fn run(graph: &mut Graph) -> bool`, one line in [`PASSES`], one folder in
//! `filetests/passes/`.

mod arrange;
mod copies;
mod drop_dead;
mod edit;
mod evaluate;
mod fast_forward;
mod fold;
mod forward;
mod lift_branches;
mod merge;
mod region;
mod share;
mod switch;
mod thread;

use crate::graph::{Graph, Op, Terminator};
use std::time::{Duration, Instant};

/// A pass.
#[derive(Debug, Clone, Copy)]
pub struct Pass {
    /// Name of the pass and of its file.
    pub name: &'static str,
    /// One-line description.
    pub doc: &'static str,
    /// Runs the pass. Returns whether it changed anything.
    pub run: fn(&mut Graph) -> bool,
    /// When the pass runs.
    pub when: When,
}

/// When a pass runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// In every round.
    EachRound,
    /// In every round; from the second round on again after the other passes, to clean up.
    EachRoundAndAfter,
    /// Once, after the first round: dead code is gone by then, and the other passes clean up afterwards.
    Once,
    /// Once, after all others.
    Last,
}

/// Every pass, in the order in which they run.
pub const PASSES: &[Pass] = &[
    Pass { name: "fold", doc: "computes constants", run: fold::run, when: When::EachRound },
    Pass {
        name: "copies",
        doc: "drops parameters that always hold one value",
        run: copies::run,
        when: When::EachRound,
    },
    Pass {
        name: "drop_dead",
        doc: "drops unneeded instructions, variables and flows",
        run: drop_dead::run,
        when: When::EachRoundAndAfter,
    },
    Pass {
        name: "thread",
        doc: "skips branches whose outcome is known",
        run: thread::run,
        when: When::EachRound,
    },
    Pass { name: "merge", doc: "merges blocks", run: merge::run, when: When::EachRoundAndAfter },
    Pass { name: "share", doc: "shares equal computations", run: share::run, when: When::EachRound },
    Pass {
        name: "switch",
        doc: "combines comparisons of one number into a switch",
        run: switch::run,
        when: When::EachRound,
    },
    Pass {
        name: "lift_branches",
        doc: "moves decisive checks to an earlier place",
        run: lift_branches::run,
        when: When::Once,
    },
    Pass {
        name: "fast_forward",
        doc: "delivers in-order segments without a queue",
        run: fast_forward::run,
        when: When::Once,
    },
    Pass { name: "forward", doc: "reads each variable of a flow once", run: forward::run, when: When::Once },
    Pass { name: "arrange", doc: "orders blocks, hot ones first", run: arrange::run, when: When::Last },
];

/// Maximum number of rounds. Most graphs take two, of which the second cleans up after the passes that run
/// once.
const ROUNDS_MAX: usize = 6;

/// The rounds end when a round changes less than this fraction of the instructions. Over five filters and the
/// eight stacks, a third and a fourth round together removed about three of five hundred instructions and
/// took a fifth of the time of all passes (2026-11-22).
const STEADY: i64 = 16;

/// Options of the optimizer.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Names of passes to leave out.
    pub without: Vec<String>,
}

/// The size of a graph, including unreachable blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// Blocks.
    pub blocks: i64,
    /// Instructions.
    pub insts: i64,
    /// Loads among them.
    pub loads: i64,
    /// Checks of buffer lengths.
    pub checks: i64,
    /// Lookups, and instructions that access a flow or call the engine.
    pub stateful: i64,
}

impl Size {
    /// Counts the contents of a graph.
    pub fn of(graph: &Graph) -> Self {
        let mut size = Self { blocks: graph.blocks.len() as i64, ..Self::default() };
        for block in &graph.blocks {
            size.insts += block.insts.len() as i64;
            for inst in &block.insts {
                size.loads += i64::from(matches!(inst.op, Op::Load { .. }));
                size.stateful +=
                    i64::from(!inst.op.is_pure() && !matches!(inst.op, Op::Store { .. } | Op::Note { .. }));
            }
            size.checks += i64::from(matches!(block.terminator, Terminator::Check { .. }));
            size.stateful += i64::from(matches!(block.terminator, Terminator::Lookup { .. }));
        }
        size
    }

    /// The difference in blocks, instructions and checks.
    fn differs_by(&self, other: Self) -> i64 {
        (self.blocks - other.blocks).abs()
            + (self.insts - other.insts).abs()
            + (self.checks - other.checks).abs()
    }

    fn add(&mut self, before: Size, after: Size) {
        self.blocks += after.blocks - before.blocks;
        self.insts += after.insts - before.insts;
        self.loads += after.loads - before.loads;
        self.checks += after.checks - before.checks;
        self.stateful += after.stateful - before.stateful;
    }
}

/// The effect of one pass, over all rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effect {
    /// Name of the pass.
    pub name: &'static str,
    /// Number of runs that changed anything.
    pub runs: u32,
    /// What the pass added; negative if it removed.
    pub added: Size,
    /// Time spent in the pass.
    pub time: Duration,
}

/// The effects of all passes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// One entry per pass that ran, in the order of [`PASSES`].
    pub passes: Vec<Effect>,
    /// Number of rounds.
    pub rounds: u32,
    /// Size of the graph before.
    pub before: Size,
    /// Size of the graph after.
    pub after: Size,
}

/// The pass with this name.
pub fn pass(name: &str) -> Option<&'static Pass> {
    PASSES.iter().find(|pass| pass.name == name)
}

/// Runs the passes.
pub fn optimize(graph: &mut Graph, options: &Options) -> Report {
    let before = Size::of(graph);
    let wanted = PASSES.iter().filter(|pass| !options.without.iter().any(|name| name == pass.name));
    let effect =
        |pass: &Pass| Effect { name: pass.name, runs: 0, added: Size::default(), time: Duration::ZERO };
    let (passes, effects): (Vec<&Pass>, Vec<Effect>) = wanted.map(|pass| (pass, effect(pass))).unzip();
    let fresh = vec![None; passes.len()];
    let mut run = Run { graph, passes, effects, size: before, rounds: 0, version: 0, seen: fresh };
    run.rounds();
    run.all(&[When::Last]);
    Report { passes: run.effects, rounds: run.rounds, before, after: run.size }
}

struct Run<'a> {
    graph: &'a mut Graph,
    passes: Vec<&'static Pass>,
    effects: Vec<Effect>,
    size: Size,
    rounds: u32,
    /// Number of changes of the graph so far.
    version: u32,
    /// By pass: the version of the graph that the pass left unchanged.
    seen: Vec<Option<u32>>,
}

impl Run<'_> {
    fn rounds(&mut self) {
        for _ in 0..ROUNDS_MAX {
            self.rounds += 1;
            let mut changed = self.all(&[When::EachRound, When::EachRoundAndAfter]);
            if self.rounds == 1 {
                changed |= self.all(&[When::Once]);
            } else if changed {
                let before = self.size;
                self.all(&[When::EachRoundAndAfter]);
                changed = self.size.differs_by(before) > before.insts / STEADY;
            }
            if !changed {
                break;
            }
        }
    }

    fn all(&mut self, when: &[When]) -> bool {
        let mut changed = false;
        for at in 0..self.passes.len() {
            if when.contains(&self.passes[at].when) {
                changed |= self.one(at);
            }
        }
        changed
    }

    fn one(&mut self, at: usize) -> bool {
        if self.seen[at] == Some(self.version) {
            return false;
        }
        let start = Instant::now();
        let changed = (self.passes[at].run)(self.graph);
        let effect = &mut self.effects[at];
        effect.time += start.elapsed();
        if changed {
            let size = Size::of(self.graph);
            effect.runs += 1;
            effect.added.add(self.size, size);
            self.size = size;
            self.version += 1;
        } else {
            self.seen[at] = Some(self.version);
        }
        changed
    }
}
