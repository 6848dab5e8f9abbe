//! Removes declarations without references.

use crate::graph::{Graph, Op, Pattern, Sequence, Set, Terminator, Var};

/// Removes unused variables, sequences, sets and patterns, and renumbers the others. All blocks must be
/// reachable. Returns whether anything was removed.
pub(super) fn drop_unused(graph: &mut Graph) -> bool {
    // A fast path shares its whole graph's declarations.
    if graph.is_fast_path {
        return false;
    }
    let used = Used::of(graph);
    let all = [&used.vars, &used.sequences, &used.sets, &used.patterns];
    if all.iter().all(|used| used.iter().all(|&u| u)) {
        return false;
    }
    retain(&mut graph.vars, &used.vars);
    retain(&mut graph.sequences, &used.sequences);
    retain(&mut graph.sets, &used.sets);
    retain(&mut graph.patterns, &used.patterns);
    let [vars, sequences, sets, patterns] = all.map(|used| numbers(used));
    for inst in graph.blocks.iter_mut().flat_map(|block| &mut block.insts) {
        match &mut inst.op {
            Op::Get { var, .. }
            | Op::Set { var, .. }
            | Op::Append { var, .. }
            | Op::AppendAgain { var, .. } => *var = Var(vars[var.index()]),
            Op::SeqInsert { sequence, .. }
            | Op::SeqAcknowledge { sequence, .. }
            | Op::SeqBegin { sequence, .. }
            | Op::SeqHold { sequence, .. }
            | Op::SeqNext { sequence, .. }
            | Op::SeqAssemble { sequence, .. } => *sequence = Sequence(sequences[sequence.index()]),
            Op::Member { set, .. } => *set = Set(sets[set.index()]),
            Op::Search { pattern, .. } => *pattern = Pattern(patterns[pattern.index()]),
            _ => {}
        }
    }
    true
}

/// The referenced declarations.
struct Used {
    vars: Vec<bool>,
    sequences: Vec<bool>,
    sets: Vec<bool>,
    patterns: Vec<bool>,
}

impl Used {
    fn of(graph: &Graph) -> Self {
        let mut used = Self {
            vars: vec![false; graph.vars.len()],
            sequences: vec![false; graph.sequences.len()],
            sets: vec![false; graph.sets.len()],
            patterns: vec![false; graph.patterns.len()],
        };
        let mut tables = vec![false; graph.tables.len()];
        for block in &graph.blocks {
            for inst in &block.insts {
                match inst.op {
                    Op::Get { var, .. }
                    | Op::Set { var, .. }
                    | Op::Append { var, .. }
                    | Op::AppendAgain { var, .. } => {
                        used.vars[var.index()] = true;
                    }
                    Op::SeqInsert { sequence, .. }
                    | Op::SeqAcknowledge { sequence, .. }
                    | Op::SeqBegin { sequence, .. }
                    | Op::SeqHold { sequence, .. }
                    | Op::SeqNext { sequence, .. }
                    | Op::SeqAssemble { sequence, .. } => used.sequences[sequence.index()] = true,
                    Op::Member { set, .. } => used.sets[set.index()] = true,
                    Op::Search { pattern, .. } => used.patterns[pattern.index()] = true,
                    _ => {}
                }
            }
            if let Terminator::Lookup { table, .. } = block.terminator {
                tables[table.index()] = true;
            }
        }
        for (at, var) in graph.vars.iter().enumerate() {
            let mut sequences = graph.sequences.iter().zip(&used.sequences);
            // The engine needs all of a sequence's variables, or none.
            let is_kept_for_sequence =
                var.is_of_sequence() && sequences.any(|(s, &is_used)| is_used && s.table == var.table);
            used.vars[at] |= var.observed && tables[var.table.index()] || is_kept_for_sequence;
        }
        used
    }
}

fn retain<T>(all: &mut Vec<T>, used: &[bool]) {
    let mut used = used.iter();
    all.retain(|_| *used.next().expect("as many as there are"));
}

/// The new number of each used declaration.
fn numbers(used: &[bool]) -> Vec<u32> {
    let mut next = 0;
    used.iter()
        .map(|&is_used| {
            next += u32::from(is_used);
            next.wrapping_sub(1)
        })
        .collect()
}
