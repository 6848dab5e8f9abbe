//! Changes the program of a worker between two bursts. The state of the worker's flows is kept.
//!
//! All programs of a stack number its tables alike. Variables that both programs keep are copied by name; the
//! other variables of a flow start with their initial values. A question that both programs answer,
//! identified by its number and by its predicates on connections and sessions, continues without
//! interruption. A new question receives all data from now on, also of existing connections whose bytes are
//! still tracked.

use crate::flow::write_number;
use crate::flow_sessions::FlowSessions;
use crate::flows::Flows;
use crate::hold::HoldQueue;
use crate::matcher::FlowVerdict;
use crate::packet_run::Lane;
use crate::plan::{Alternative, Plan, QuestionPlan, SessionVerdict, Want};
use crate::sequence::Reassembler;
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

/// Maps the remainders of one plan to those of another.
#[derive(Debug, Clone)]
pub(crate) struct RemainderMap(Vec<Option<usize>>);

impl RemainderMap {
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

    /// Translates remainders of the old plan to the new plan.
    pub fn map(&self, remainders: &RemainderSet) -> RemainderSet {
        remainders.iter().filter_map(|old| self.0[old]).collect()
    }
}

/// For each class of one plan: the classes of the other plan that correspond to it.
struct ClassMap(Vec<ClassSet>);

impl ClassMap {
    /// Adds to the new plan each class that it lacks: existing flows are of such a class, even if no new
    /// packet can be. Where the new plan has no room, such flows get classes that imply less: a question may
    /// then miss a flow, but is never given a wrong one.
    fn between(old: &Plan, new: &mut Plan, remainders: &RemainderMap) -> Self {
        // A flow's record has a bit for each class of the program, and the unused bits of the last word.
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

    /// Every class keeps its index.
    fn is_identity(&self) -> bool {
        self.0.iter().enumerate().all(|(index, new)| *new == ClassSet::one(index))
    }
}

impl<S: Subscriber> Worker<S> {
    /// Runs another plan of the same stack from the next burst on. The caller has changed the subscriber to
    /// the plan.
    ///
    /// This is cheap if both programs keep the same variables; otherwise every table entry is rewritten.
    pub fn change(&mut self, plan: Arc<Plan>) {
        self.flows.take_all_back();
        let mut plan = (*plan).clone();
        let remainders = RemainderMap::between(&self.plan, &plan);
        let classes = ClassMap::between(&self.plan, &mut plan, &remainders);
        let plan = Arc::new(plan);
        self.forget_streams(&plan);
        let before = self.flows.session_bytes();
        self.flows.change(&Moves { remainders: &remainders, classes: &classes, old: &self.plan, new: &plan });
        self.delivery.set_plan(Arc::clone(&plan), |open| remainders.map(open));
        self.checks.change(&plan);
        self.program = Arc::clone(&plan.program);
        let change = self.flows.session_bytes() as isize - before as isize;
        self.delivery.streams.overload.charge_sessions(change);
        self.delivery.streams.overload.set_table_bytes(self.flows.granted_bytes());
        self.lanes.fill(Lane::default());
        self.plan = plan;
    }
}

impl<S: Subscriber> Worker<S> {
    /// Releases the stream state of questions that no longer ask for streams.
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
    /// Changes to another plan of the same stack.
    pub fn change(&mut self, plan: &Arc<Plan>) {
        let map = RemainderMap::between(self.plan(), plan);
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
        new.sharing = self.sharing.take();
        if let Some(sharing) = &mut new.sharing {
            sharing.change(plan, |table, old, new| moves.table(table, old, new));
        }
        let (graph, layout) = (plan.program.graph(), plan.program.layout());
        let old_graph = old_plan.program.graph();
        std::mem::swap(&mut self.sequences, &mut new.sequences);
        new.sequences = Reassembler::taking_over(new.sequences, old_graph, graph, layout);
        (new.outer, new.beside_bytes) = (std::mem::take(&mut self.outer), self.beside_bytes);
        new.tunnels.take_over(std::mem::take(&mut self.tunnels));
        new.holders = std::mem::take(&mut self.holders);
        new.messages = std::mem::take(&mut self.messages);
        new.messages.release_tables(|table| graph.find_var(table, &EngineVar::Messages).is_some());
        *self = new;
    }
}

/// Maps the parts of a flow from one program to another.
struct Moves<'a> {
    remainders: &'a RemainderMap,
    classes: &'a ClassMap,
    old: &'a Plan,
    new: &'a Arc<Plan>,
}

impl Moves<'_> {
    /// No byte of the table's entries changes its meaning.
    fn is_same(&self, old: &TableLayout, new: &TableLayout) -> bool {
        let places = |layout: &TableLayout| {
            (layout.wants_at, layout.terms, layout.open, layout.verdict, layout.timeouts.at)
        };
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
        let (had, has) = (old.layout, new.layout);
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
                // A new want applies to every flow; a want that a flow has completed stays completed.
                let before = had.wants_at.map_or(had.initial_wants, |at| from[at]);
                to[at] = before & has.initial_wants | has.initial_wants & !had.initial_wants;
            }
            if let Some(words) = has.terms {
                // A class that every packet is of has no bit in the flow's variables.
                let before = self.classes.map(&FlowVerdict::of(self.old, &had, from).terms);
                (0..words.count).for_each(|word| words.write(to, word, before.word(word)));
            }
            if has.verdict.is_some() {
                let flow = sessions.get(id.0 as usize).filter(|_| has.delivers);
                let before = had.verdict(self.old, from);
                let is_new = had.verdict.is_none();
                // All predicates on a newly probed protocol are undecided.
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
        std::mem::swap(&mut new.aside, &mut old.aside);
        std::mem::swap(&mut new.tags, &mut old.tags);
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

/// Probes connections again in which no protocol was recognised: they may carry a protocol that is probed
/// only now.
fn begin_anew(table: &mut TableState, probed: ProtocolSet) {
    for (id, sessions) in table.sessions.iter_mut().enumerate() {
        let id = FlowId(id as u32);
        sessions.consider(probed);
        if !sessions.is_over() || !sessions.recognised().is_empty() || !table.flows.is_live(id) {
            continue;
        }
        *sessions = Default::default();
        if let Some(at) = table.layout.wants_at {
            table.flows.entry_mut(id).1[at] |= WANTS_BYTES.iter().fold(0, |all, &bit| all | bit as u8);
        }
    }
}

/// Byte ranges that the variables of a table have in common in two programs: source offset, target offset,
/// length; and whether the ranges cover all variables of both programs.
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

    /// Every byte of an entry keeps its place.
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
    /// Builds the sequences of a graph and moves the state of another program's sequences to them.
    fn taking_over(old: Self, from: &Graph, to: &Graph, layout: &Layout) -> Self {
        let named = |name: &str| from.sequences.iter().position(|sequence| sequence.name == name);
        old.renew(to, layout, &|name| named(name))
    }
}
