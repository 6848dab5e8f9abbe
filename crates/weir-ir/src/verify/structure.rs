//! Every name exists, is defined once, and has the type that its uses need.

use super::operands::check_operands;
use super::scope::Scope;
use super::{Place, Report};
use crate::abi::{FUELS_MAX, METAS_MAX, OUTS_MAX};
use crate::graph::{
    BinaryOp, Block, Graph, Op, Sequence, Table, Target, Terminator, Type, Value, Var, VarKind,
};
use crate::key::{KEY_WORDS_MAX, KeyLayout};

pub(super) fn check(graph: &Graph, report: &mut Report<'_>) {
    check_declarations(graph, report);
    if !report.violations.is_empty() {
        return;
    }
    let mut definitions = vec![0_u32; graph.values.len()];
    for block in graph.block_ids() {
        let data = graph.block(block);
        let results = data.insts.iter().flat_map(|inst| &inst.results);
        for &value in data.params.iter().chain(results) {
            match definitions.get_mut(value.index()) {
                None => report.add(Place::Block(block), format!("{value} has no type")),
                Some(count) => *count += 1,
            }
            if definitions.get(value.index()) == Some(&2) {
                report.add(Place::Block(block), format!("{value} is defined twice"));
            }
        }
    }
    for block in graph.block_ids() {
        let mut scope = Scope { graph, definitions: &definitions, report, place: Place::Block(block) };
        for (at, inst) in graph.block(block).insts.iter().enumerate() {
            scope.place = Place::Inst(block, at);
            scope.check_inst(&inst.op, &inst.results);
        }
        scope.place = Place::Terminator(block);
        scope.check_terminator(&graph.block(block).terminator);
    }
    check_undeclared_keys(graph, report);
}

/// If a table's layout is undeclared, the keys of all its lookups have the same size.
fn check_undeclared_keys(graph: &Graph, report: &mut Report<'_>) {
    let mut words: Vec<Option<usize>> = vec![None; graph.tables.len()];
    for block in graph.block_ids() {
        let Terminator::Lookup { table, key, .. } = &graph.block(block).terminator else { continue };
        let Some(wanted) = words.get_mut(table.index()) else { continue };
        let wanted = *wanted.get_or_insert(key.len());
        if wanted != key.len() && graph.tables[table.index()].key.is_undeclared() {
            let message = format!("{} words of key, another lookup of {table} has {wanted}", key.len());
            report.add(Place::Terminator(block), message);
        }
    }
}

fn check_declarations(graph: &Graph, report: &mut Report<'_>) {
    let mut wrong = |message: String| report.add(Place::Declarations, message);
    let tables = graph.tables.len();
    for (at, table) in graph.tables.iter().enumerate() {
        if table.key.words() > KEY_WORDS_MAX {
            wrong(format!("table{at}: {} words of key, {KEY_WORDS_MAX} may be", table.key.words()));
        }
        if table.key.parts().iter().any(|part| part.bits == 0) {
            wrong(format!("table{at}: a part of its key has no bits"));
        }
    }
    for (at, var) in graph.vars.iter().enumerate() {
        if var.table.index() >= tables {
            wrong(format!("var{at}: there is no {}", var.table));
        }
        if let VarKind::Bits(bits) = var.kind
            && ![8, 16, 32, 64].contains(&bits)
        {
            wrong(format!("var{at}: numbers have 8, 16, 32 or 64 bits, not {bits}"));
        }
        if let Some(engine) = var.name.engine()
            && !engine.admits(var)
        {
            wrong(format!("var{at}: `{engine}` has another kind or other sides"));
        }
    }
    for (at, sequence) in graph.sequences.iter().enumerate() {
        if sequence.table.index() >= tables {
            wrong(format!("sequence{at}: there is no {}", sequence.table));
        }
        if !(1..=64).contains(&sequence.bits) {
            wrong(format!("sequence{at}: sequence numbers have 1 to 64 bits, not {}", sequence.bits));
        }
        if usize::from(sequence.metas) > METAS_MAX {
            wrong(format!("sequence{at}: {} values with each piece, {METAS_MAX} may be", sequence.metas));
        }
        if sequence.wholes > sequence.metas {
            let (wholes, metas) = (sequence.wholes, sequence.metas);
            wrong(format!("sequence{at}: {wholes} of {metas} values go with wholes"));
        }
    }
    for (at, set) in graph.sets.iter().enumerate() {
        let sorted = set.windows(2).all(|pair| pair[0].1 < pair[1].0);
        if !sorted || set.iter().any(|(first, last)| first > last) {
            wrong(format!("set{at}: its ranges are not sorted and disjoint"));
        }
    }
    if graph.outs.len() > OUTS_MAX {
        wrong(format!("{} slots of the packet's record, {OUTS_MAX} may be", graph.outs.len()));
    }
    match graph.blocks.get(graph.entry.index()) {
        None => wrong(format!("there is no {} to enter", graph.entry)),
        Some(entry) if !entry.params.is_empty() => {
            wrong(format!("{} is the entry and has parameters", graph.entry))
        }
        Some(_) => {}
    }
}

impl Scope<'_, '_> {
    fn check_inst(&mut self, op: &Op, results: &[Value]) {
        let before = self.report.violations.len();
        check_operands(op, self);
        self.check_together(op);
        // The types of results are known only if the operands are valid.
        if self.report.violations.len() > before {
            return;
        }
        let types = self.graph.result_types(op);
        if types.len() != results.len() {
            self.wrong(format!("it has {} results, not {}", types.len(), results.len()));
        }
        for (&result, ty) in results.iter().zip(types) {
            self.expect(result, ty);
        }
    }

    /// Checks operands that depend on each other. Operands that are wrong alone have been reported.
    fn check_together(&mut self, op: &Op) {
        match op {
            Op::Binary(op, a, b) => self.check_binary(*op, *a, *b),
            Op::Select(_, a, b) => {
                if let Some(ty) = self.type_of(*a) {
                    self.expect(*b, ty);
                }
            }
            Op::Get { flow, var, side } | Op::Set { flow, var, side, .. } => {
                self.check_var(*flow, *var, *side, false);
            }
            Op::Append { flow, var, .. } | Op::AppendAgain { flow, var, .. } => {
                self.check_var(*flow, *var, None, true)
            }
            Op::SeqInsert { sequence, flow, metas, .. } => {
                self.check_sequence(*sequence, *flow, Some(metas.len()));
            }
            Op::SeqAcknowledge { sequence, flow, .. }
            | Op::SeqBegin { sequence, flow, .. }
            | Op::SeqHold { sequence, flow, .. }
            | Op::SeqNext { sequence, flow, .. }
            | Op::SeqAssemble { sequence, flow, .. } => self.check_sequence(*sequence, *flow, None),
            _ => {}
        }
    }

    fn check_binary(&mut self, op: BinaryOp, a: Value, b: Value) {
        match self.type_of(a) {
            Some(Type::Bool) if matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor) => {
                self.expect(b, Type::Bool);
            }
            Some(_) => self.ints(&[a, b]),
            None => {}
        }
    }

    fn table_of(&self, flow: Value) -> Option<Table> {
        match self.graph.values.get(flow.index()) {
            Some(Type::Flow(table)) => Some(*table),
            _ => None,
        }
    }

    fn check_var(&mut self, flow: Value, var: Var, side: Option<Value>, letters: bool) {
        let Some(decl) = self.graph.vars.get(var.index()) else { return };
        if let Some(of) = self.table_of(flow).filter(|&of| of != decl.table) {
            self.wrong(format!("{var} is one of {}, {flow} is of {of}", decl.table));
        }
        if matches!(decl.kind, VarKind::Letters(_)) != letters {
            let kind = if letters { "a number" } else { "letters" };
            self.wrong(format!("{var} holds {kind}"));
        }
        match (decl.each_side, side) {
            (true, None) => self.wrong(format!("{var} has sides: whose?")),
            (false, Some(_)) => self.wrong(format!("{var} has no sides")),
            (true, Some(_)) | (false, None) => {}
        }
    }

    fn check_sequence(&mut self, sequence: Sequence, flow: Value, metas: Option<usize>) {
        let Some(decl) = self.graph.sequences.get(sequence.index()) else { return };
        if let Some(of) = self.table_of(flow).filter(|&of| of != decl.table) {
            self.wrong(format!("{sequence} is one of {}, {flow} is of {of}", decl.table));
        }
        if let Some(metas) = metas.filter(|&metas| metas != usize::from(decl.metas)) {
            self.wrong(format!("{sequence} remembers {} values, not {metas}", decl.metas));
        }
    }

    fn check_terminator(&mut self, terminator: &Terminator) {
        for target in terminator.targets() {
            self.check_target(target);
        }
        match terminator {
            Terminator::Jump(_) | Terminator::Restart => {}
            Terminator::Rejoin { values, .. } => values.iter().for_each(|&value| {
                self.type_of(value);
            }),
            Terminator::Branch { condition, .. } => self.expect(*condition, Type::Bool),
            Terminator::Switch { value, .. } => self.expect(*value, Type::Int),
            Terminator::Check { buf, offset, .. } => {
                self.expect(*buf, Type::Buf);
                self.expect(*offset, Type::Int);
            }
            Terminator::Again { fuel, .. } => {
                self.exists(fuel, fuel.0, (self.graph.fuels as usize).min(FUELS_MAX));
            }
            Terminator::Lookup { table, key, swap, reversed, then } => {
                self.exists(table, table.0, self.graph.tables.len());
                self.ints(key);
                self.expect(*swap, Type::Bool);
                reversed.iter().for_each(|&reversed| self.expect(reversed, Type::Bool));
                self.check_key(*table, key.len());
                self.check_handed(*table, *then);
            }
            Terminator::Done { terms, .. } => self.expect(*terms, Type::Int),
        }
    }

    /// Checks that a key has as many words as its table's layout.
    fn check_key(&mut self, table: Table, words: usize) {
        if words > KEY_WORDS_MAX {
            self.wrong(format!("{words} words of key, {KEY_WORDS_MAX} may be"));
        }
        let declared = self.graph.tables.get(table.index()).map(|table| &table.key);
        let declared = declared.filter(|key| !key.is_undeclared() && key.words() != words);
        if let Some(wanted) = declared.map(KeyLayout::words) {
            self.wrong(format!("{words} words of key, {table} has keys of {wanted}"));
        }
    }

    /// Checks the parameters of the block after a lookup.
    fn check_handed(&mut self, table: Table, then: Block) {
        if !self.exists(then, then.0, self.graph.blocks.len()) {
            return;
        }
        let types: Vec<Type> =
            self.graph.block(then).params.iter().filter_map(|&param| self.type_of(param)).collect();
        if types != [Type::Flow(table), Type::Bool, Type::Bool] {
            self.wrong(format!("the parameters of {then} must be a flow of {table}, bool and bool"));
        }
    }

    fn check_target(&mut self, target: &Target) {
        if !self.exists(target.block, target.block.0, self.graph.blocks.len()) {
            return;
        }
        let params = &self.graph.block(target.block).params;
        if params.len() != target.args.len() {
            self.wrong(format!(
                "{} has {} parameters, not {}",
                target.block,
                params.len(),
                target.args.len()
            ));
        }
        for (&param, &arg) in params.iter().zip(&target.args) {
            if let Some(ty) = self.type_of(param) {
                self.expect(arg, ty);
            }
        }
    }
}
