//! Every name exists, is defined once, and has the type that its uses need.

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

/// The position being checked.
struct Scope<'a, 'b> {
    graph: &'a Graph,
    definitions: &'a [u32],
    report: &'a mut Report<'b>,
    place: Place,
}

impl Scope<'_, '_> {
    fn wrong(&mut self, message: String) {
        self.report.add(self.place, message);
    }

    /// The type of a value, which must exist.
    fn type_of(&mut self, value: Value) -> Option<Type> {
        match self.definitions.get(value.index()) {
            None | Some(0) => {
                self.wrong(format!("{value} is never defined"));
                None
            }
            Some(_) => Some(self.graph.type_of(value)),
        }
    }

    fn expect(&mut self, value: Value, wanted: Type) {
        if let Some(ty) = self.type_of(value)
            && ty != wanted
        {
            self.wrong(format!("{value} must be {wanted}, is {ty}"));
        }
    }

    /// Checks a buffer and numbers that describe a range of it.
    fn bytes(&mut self, buf: Value, values: &[Value]) {
        self.expect(buf, Type::Buf);
        self.ints(values);
    }

    fn ints(&mut self, values: &[Value]) {
        values.iter().for_each(|&value| self.expect(value, Type::Int));
    }

    fn exists(&mut self, what: impl std::fmt::Display, number: u32, count: usize) -> bool {
        let exists = (number as usize) < count;
        if !exists {
            self.wrong(format!("there is no {what}"));
        }
        exists
    }

    fn check_inst(&mut self, op: &Op, results: &[Value]) {
        let before = self.report.violations.len();
        self.check_op(op);
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

    fn check_op(&mut self, op: &Op) {
        match op {
            Op::Const(_) | Op::Bool(_) | Op::Frame | Op::Meta(_) | Op::Input(_) | Op::InputBytes(_) => {}
            Op::Binary(op, a, b) => self.check_binary(*op, *a, *b),
            Op::Compare(_, a, b) => self.ints(&[*a, *b]),
            Op::Not(a) | Op::FromBool(a) => self.expect(*a, Type::Bool),
            Op::Select(a, b, c) => {
                self.expect(*a, Type::Bool);
                if let Some(ty) = self.type_of(*b) {
                    self.expect(*c, ty);
                }
            }
            Op::Narrow(buf, end) => {
                self.expect(*buf, Type::Buf);
                self.expect(*end, Type::Int);
            }
            Op::Length(buf) => self.expect(*buf, Type::Buf),
            Op::Load { buf, offset, .. } => {
                self.expect(*buf, Type::Buf);
                self.expect(*offset, Type::Int);
            }
            Op::Member { set, high, low } => {
                self.exists(set, set.0, self.graph.sets.len());
                self.ints(&[*high, *low]);
            }
            Op::Search { pattern, buf, offset, length } => {
                self.exists(pattern, pattern.0, self.graph.patterns.len());
                self.bytes(*buf, &[*offset, *length]);
            }
            Op::Excerpt { buf, offset, length } => self.bytes(*buf, &[*offset, *length]),
            Op::Sum16 { buf, offset, length, first } => self.bytes(*buf, &[*offset, *length, *first]),
            Op::Store { out, value } => {
                self.exists(out, out.0, self.graph.outs.len());
                self.expect(*value, Type::Int);
            }
            of_flow => self.check_op_of_flow(of_flow),
        }
    }

    /// Checks an instruction that accesses a flow or calls the engine.
    fn check_op_of_flow(&mut self, op: &Op) {
        match op {
            Op::Get { flow, var, side } => self.check_var(*flow, *var, *side, false),
            Op::Set { flow, var, side, value } => {
                self.check_var(*flow, *var, *side, false);
                self.expect(*value, Type::Int);
            }
            Op::Append { flow, var, letter } => {
                self.check_var(*flow, *var, None, true);
                self.expect(*letter, Type::Int);
            }
            Op::SeqInsert { sequence, flow, side, at, buf, offset, length, span, metas } => {
                self.check_sequence(*sequence, *flow, *side, Some(metas.len()));
                self.expect(*buf, Type::Buf);
                self.ints(&[*at, *offset, *length, *span]);
                self.ints(metas);
            }
            Op::SeqAcknowledge { sequence, flow, side, at } => {
                self.check_sequence(*sequence, *flow, *side, None);
                self.expect(*at, Type::Int);
            }
            Op::SeqNext { sequence, flow, side } | Op::SeqAssemble { sequence, flow, side } => {
                self.check_sequence(*sequence, *flow, *side, None);
            }
            Op::Messages { flow, side } => {
                self.check_flow(*flow);
                self.expect(*side, Type::Bool);
            }
            Op::NextMessages { done, wanted } => self.ints(&[*done, *wanted]),
            Op::Refuel { fuel } => {
                self.exists(fuel, fuel.0, (self.graph.fuels as usize).min(FUELS_MAX));
            }
            Op::WholeValue { .. } => {}
            Op::Collect { flow, side, gap, buf, offset, length, whole } => {
                self.check_flow(*flow);
                self.expect(*side, Type::Bool);
                self.expect(*buf, Type::Buf);
                self.ints(&[*gap, *offset, *length]);
                self.ints(whole);
            }
            Op::Deliver { flow, side, gap, buf, offset, length } => {
                self.check_flow(*flow);
                self.expect(*side, Type::Bool);
                self.expect(*buf, Type::Buf);
                self.ints(&[*gap, *offset, *length]);
            }
            Op::Keep { buf, offset, length } => self.bytes(*buf, &[*offset, *length]),
            Op::Emit { event, flow, values } => {
                self.exists(event, event.0, self.graph.events.len());
                flow.map(|flow| self.check_flow(flow));
                for &value in values {
                    if let Some(ty @ (Type::Buf | Type::Flow(_))) = self.type_of(value) {
                        self.wrong(format!("{value} must be int or bool, is {ty}"));
                    }
                }
            }
            other => unreachable!("{other} is checked with those that touch no flow"),
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

    fn check_flow(&mut self, flow: Value) -> Option<Table> {
        match self.type_of(flow)? {
            Type::Flow(table) => Some(table),
            ty => {
                self.wrong(format!("{flow} must be a flow, is {ty}"));
                None
            }
        }
    }

    fn check_var(&mut self, flow: Value, var: Var, side: Option<Value>, letters: bool) {
        let of = self.check_flow(flow);
        if !self.exists(var, var.0, self.graph.vars.len()) {
            return;
        }
        let decl = &self.graph.vars[var.index()];
        if let Some(of) = of.filter(|&of| of != decl.table) {
            self.wrong(format!("{var} is one of {}, {flow} is of {of}", decl.table));
        }
        if matches!(decl.kind, VarKind::Letters(_)) != letters {
            let kind = if letters { "a number" } else { "letters" };
            self.wrong(format!("{var} holds {kind}"));
        }
        match (decl.each_side, side) {
            (true, Some(side)) => self.expect(side, Type::Bool),
            (true, None) => self.wrong(format!("{var} has sides: whose?")),
            (false, Some(_)) => self.wrong(format!("{var} has no sides")),
            (false, None) => {}
        }
    }

    fn check_sequence(&mut self, sequence: Sequence, flow: Value, side: Value, metas: Option<usize>) {
        let of = self.check_flow(flow);
        self.expect(side, Type::Bool);
        if !self.exists(sequence, sequence.0, self.graph.sequences.len()) {
            return;
        }
        let decl = &self.graph.sequences[sequence.index()];
        if let Some(of) = of.filter(|&of| of != decl.table) {
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
