//! A worker goes over to another program between two bursts: what it keeps of its flows stays.
//!
//! Tables of a stack have the same numbers in all of its programs. Of a flow's variables those are taken over that both
//! programs keep, by name; others begin as of a new flow. A question that both programs answer, by its number and what
//! it asks of connections and sessions, goes on where it was; one that is new sees what comes from now on: of
//! connections whose bytes are still followed also these.

use crate::flow::write_number;
use crate::flows::Flows;
use crate::hold::HoldQueue;
use crate::matcher::FlowVerdict;
use crate::packet_run::Lane;
use crate::plan::{Alternative, Plan, QuestionPlan, SessionVerdict, Want};
use crate::sequence::Reassembler;
use crate::sessions::FlowSessions;
use crate::sets::{ClassSet, RemainderSet};
use crate::subscriber::Subscriber;
use crate::table::FlowId;
use crate::tables::{TableLayout, TableState};
use crate::worker::Worker;
use std::collections::HashMap;
use std::sync::Arc;
use weir_ir::abi::{Layout, WANTS_BYTES};
use weir_ir::engine_var::EngineVar;
use weir_ir::graph::{Graph, Table, Var, VarKind};
use weir_sessions::ProtocolSet;

/// Where the remainders of one plan are in another's.
#[derive(Debug, Clone)]
pub(crate) struct ResidueMap(Vec<Option<usize>>);

impl ResidueMap {
    pub fn between(old: &Plan, new: &Plan) -> Self {
        fn key(bit: &Alternative) -> (usize, &str) {
            (bit.question, &bit.name)
        }
        let mut places = HashMap::new();
        for (index, bit) in new.alternatives.iter().enumerate() {
            places.entry(key(bit)).or_insert(index);
        }
        Self(old.alternatives.iter().map(|bit| places.get(&key(bit)).copied()).collect())
    }

    /// Remainders of the old plan as the new one's.
    pub fn map(&self, remainders: &RemainderSet) -> RemainderSet {
        remainders.iter().filter_map(|old| self.0[old]).collect()
    }
}

/// Which classes of another plan's packets each class of one plan's becomes.
struct ClassMap(Vec<ClassSet>);

impl ClassMap {
    /// A class that the new plan does not have is added to it: flows are of it, if no packet is any more. Where there is no
    /// room, flows are of those that mean less: what they miss is better missed than made up.
    fn between(old: &Plan, new: &mut Plan, remainders: &ResidueMap) -> Self {
        // Flows' records have a bit for each class of the program, and what is left of the last word.
        let room = new.classes.len().next_multiple_of(64).max(64);
        let mut map = vec![];
        for class in &old.classes {
            let wanted = remainders.map(class);
            let known = new.classes.iter().position(|class| *class == wanted);
            map.push(match known {
                _ if wanted.is_empty() => ClassSet::EMPTY,
                Some(known) => ClassSet::one(known),
                None if new.classes.len() < room => {
                    new.classes.push(wanted);
                    ClassSet::one(new.classes.len() - 1)
                }
                None => {
                    let is_less = |&index: &usize| new.classes[index].is_subset(&wanted);
                    (0..new.classes.len()).filter(is_less).collect()
                }
            });
        }
        Self(map)
    }

    fn map(&self, terms: &ClassSet) -> ClassSet {
        terms.iter().fold(ClassSet::EMPTY, |all, old| all | &self.0[old])
    }

    /// Every class is where it was.
    fn is_identity(&self) -> bool {
        self.0.iter().enumerate().all(|(index, new)| *new == ClassSet::one(index))
    }
}

impl<S: Subscriber> Worker<S> {
    /// Runs another plan from the next burst on. It is of the same stack, and what it was subscribed to has been told.
    ///
    /// Costs little where the programs keep the same variables; otherwise every entry of the tables is written anew.
    pub fn change(&mut self, plan: Arc<Plan>) {
        let mut plan = (*plan).clone();
        let remainders = ResidueMap::between(&self.plan, &plan);
        let classes = ClassMap::between(&self.plan, &mut plan, &remainders);
        let plan = Arc::new(plan);
        self.forget_streams(&plan);
        self.flows.change(&Moves { remainders: &remainders, classes: &classes, old: &self.plan, new: &plan });
        self.delivery.set_plan(Arc::clone(&plan), |open| remainders.map(open));
        self.program = Arc::clone(&plan.program);
        self.delivery.streams.overload.set_session_bytes(self.flows.session_bytes());
        self.lanes.fill(Lane::default());
        self.plan = plan;
    }
}

impl<S: Subscriber> Worker<S> {
    /// What questions about streams have of them that are questions about streams no more.
    fn forget_streams(&mut self, plan: &Plan) {
        let is_gone = |(index, question): (usize, &QuestionPlan)| {
            let still = plan.questions.get(index).is_some_and(|new| matches!(new.want, Want::Streams(_)));
            matches!(question.want, Want::Streams(_)) && !still
        };
        let gone: Vec<usize> = (0..self.plan.questions.len())
            .filter(|&index| is_gone((index, &self.plan.questions[index])))
            .collect();
        if gone.is_empty() {
            return;
        }
        self.delivery.forget_held(&gone);
        let overload = &mut self.delivery.streams.overload;
        for table in &mut self.flows.tables {
            for id in (0..table.flows.ids()).map(FlowId) {
                if let Some(streams) = table.streams.get_mut(id) {
                    streams.forget(&gone, overload);
                }
            }
        }
    }
}

impl<P> HoldQueue<P> {
    /// Goes over to another plan of the same stack.
    pub fn change(&mut self, plan: &Arc<Plan>) {
        let map = ResidueMap::between(self.plan(), plan);
        self.replace(Arc::clone(plan), |remainders| map.map(remainders), &plan.asked());
    }
}

impl Flows {
    fn change(&mut self, moves: &Moves<'_>) {
        let (plan, old_plan) = (moves.new, moves.old);
        let mut new = Flows::new(plan);
        for (index, table) in new.tables.iter_mut().enumerate() {
            moves.table(Table(index as u32), &mut self.tables[index], table);
        }
        let (graph, layout) = (plan.program.graph(), plan.program.layout());
        let old_graph = old_plan.program.graph();
        std::mem::swap(&mut self.sequences, &mut new.sequences);
        new.sequences = Reassembler::taking_over(new.sequences, old_graph, graph, layout);
        new.outer = std::mem::take(&mut self.outer);
        new.messages = std::mem::take(&mut self.messages);
        new.messages.release_tables(|table| graph.find_var(table, &EngineVar::Messages).is_some());
        *self = new;
    }
}

/// How flows' parts go from one program to another.
struct Moves<'a> {
    remainders: &'a ResidueMap,
    classes: &'a ClassMap,
    old: &'a Plan,
    new: &'a Arc<Plan>,
}

impl Moves<'_> {
    /// Nothing in the entries of a table changes its meaning.
    fn is_same(&self, old: &TableLayout, new: &TableLayout) -> bool {
        let places =
            |facts: &TableLayout| (facts.wants_at, facts.terms, facts.open, facts.verdict, facts.timeouts.at);
        let (remainders, verdicts) = (self.remainders.map(&self.old.verdicts), &self.new.verdicts);
        places(old) == places(new)
            && old.initial_wants == new.initial_wants
            && self.classes.is_identity()
            && self.old.unconditional == self.new.unconditional
            && remainders == *verdicts
            && remainders == self.old.verdicts
            && new.probed.is_subset(&old.probed)
    }

    fn table(&self, table: Table, old: &mut TableState, new: &mut TableState) {
        let copies = Copies::of(self.old, self.new, table);
        let size = self.new.program.layout().size(table);
        let old_size = self.old.program.layout().size(table);
        let (had, has) = (old.facts, new.facts);
        std::mem::swap(&mut new.flows, &mut old.flows);
        let sessions = std::mem::take(&mut old.sessions);
        let is_probed_anew = has.delivers && !has.probed.is_subset(&had.probed);
        let is_same = copies.is_whole(size, old_size) && self.is_same(&had, &has);
        new.flows.lay_out_anew(size, is_same, |id, from, to| {
            copies.copy(from, to);
            if let Some(at) = has.timeouts.at.filter(|_| had.timeouts.at.is_none()) {
                write_number(to, at, 32, u64::from(had.timeouts.ms(from)));
            }
            if let Some(at) = has.wants_at {
                // What is wanted for the first time is wanted of every flow; what a flow is done with stays so.
                let before = had.wants_at.map_or(had.initial_wants, |at| from[at]);
                to[at] = before & has.initial_wants | has.initial_wants & !had.initial_wants;
            }
            if let Some(words) = has.terms {
                // What every packet fulfilled is in no flow's variable.
                let before = self.classes.map(&FlowVerdict::of(self.old, &had, from).terms);
                (0..words.count).for_each(|word| words.write(to, word, before.word(word)));
            }
            if has.verdict.is_some() {
                let flow = sessions.get(id.0 as usize).filter(|_| has.delivers);
                let before = had.verdict(self.old, from);
                let is_new = had.verdict.is_none();
                // In what is probed anew everything is open.
                let mut known = SessionVerdict {
                    met: self.remainders.map(&before.met),
                    had_session: before.had_session
                        || is_new && flow.is_some_and(|flow| !flow.recognised().is_empty()),
                    is_over: false,
                };
                let is_over =
                    |flow: &FlowSessions| flow.is_over() && !(is_probed_anew && flow.recognised().is_empty());
                if !has.delivers || flow.is_some_and(is_over) {
                    known.is_over = true;
                    known.met |= &self.new.absent(&known);
                }
                has.set_verdict(self.new, to, &known);
            }
        });
        std::mem::swap(&mut new.wheel, &mut old.wheel);
        if has.delivers {
            new.sessions = sessions;
            new.sessions.resize_with(new.flows.ids() as usize, Default::default);
            if is_probed_anew {
                begin_anew(new, has.probed - had.probed);
            }
        }
        if !self.new.bits_of(|want| matches!(want, Want::Streams(_))).is_empty() && has.delivers {
            std::mem::swap(&mut new.streams, &mut old.streams);
            if new.flows.ids() > 0 {
                new.streams.reserve(FlowId(new.flows.ids() - 1));
            }
        }
    }
}

/// Connections in which nothing was recognised, or not yet, may be what is looked for now.
fn begin_anew(table: &mut TableState, probed: ProtocolSet) {
    for (id, sessions) in table.sessions.iter_mut().enumerate() {
        let id = FlowId(id as u32);
        sessions.consider(probed);
        if !sessions.is_over() || !sessions.recognised().is_empty() || !table.flows.is_live(id) {
            continue;
        }
        *sessions = Default::default();
        if let Some(at) = table.facts.wants_at {
            table.flows.entry_mut(id).1[at] |= WANTS_BYTES.iter().fold(0, |all, &bit| all | bit as u8);
        }
    }
}

/// Bytes that a table's variables of one program have in common with another's: from where, to where, how many; and whether
/// these are all variables of both.
struct Copies(Vec<(usize, usize, usize)>, bool);

impl Copies {
    fn of(old: &Plan, new: &Plan, table: Table) -> Self {
        let (from, to) = (&*old.program, &*new.program);
        let (mut copies, mut common) = (vec![], 0);
        for (index, declared) in to.graph().vars.iter().enumerate() {
            let is_same = |var: Var| {
                let other = &from.graph().vars[var.index()];
                other.kind == declared.kind && other.each_side == declared.each_side
            };
            let var = from.graph().find_var(table, &declared.name).filter(|&var| is_same(var));
            let Some(var) = var.filter(|_| declared.table == table) else { continue };
            let bytes = match declared.kind {
                VarKind::Bits(bits) => usize::from(bits / 8),
                VarKind::Letters(max) => usize::from(max) + 1,
            };
            let (at, by) = (place(from.layout(), var), place(to.layout(), Var(index as u32)));
            copies.push((at, by, bytes));
            common += 1;
            if declared.each_side {
                copies.push((at + from.layout().stride(table), by + to.layout().stride(table), bytes));
            }
        }
        let count = |graph: &Graph| graph.vars.iter().filter(|var| var.table == table).count();
        let is_all = common == count(from.graph()) && common == count(to.graph());
        Self(copies, is_all)
    }

    /// Every byte is where it was.
    fn is_whole(&self, size: usize, old_size: usize) -> bool {
        let bytes: usize = self.0.iter().map(|(.., bytes)| bytes).sum();
        size == old_size && bytes <= size && self.0.iter().all(|(at, by, _)| at == by) && self.1
    }

    fn copy(&self, from: &[u8], to: &mut [u8]) {
        for &(at, by, bytes) in &self.0 {
            to[by..by + bytes].copy_from_slice(&from[at..at + bytes]);
        }
    }
}

fn place(layout: &Layout, var: Var) -> usize {
    layout.offset(var)
}

impl Reassembler {
    /// Those of another program's graph, with all that these keep.
    fn taking_over(old: Self, from: &Graph, to: &Graph, layout: &Layout) -> Self {
        let named = |name: &str| from.sequences.iter().position(|sequence| sequence.name == name);
        old.renew(to, layout, &|name| named(name))
    }
}
