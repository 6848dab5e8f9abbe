//! The connections of a worker that the kernel has, and their entries in the kernel's table: see
//! `taken_over`.

use crate::flow::{NumberPlace, read_number, write_number};
use crate::flow_ref::FlowRef;
use crate::kernel_plan::KernelPlan;
use crate::plan::Plan;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use weir_ir::engine_var::{EngineVar, VarName};
use weir_ir::graph::Table;
use weir_ir::kernel_flows::KernelTable;

/// Letters of a side in [`EngineVar::Letters`].
const LETTERS: u32 = 26;

/// The connections of a worker that the kernel has.
#[derive(Debug, Default)]
pub(crate) struct TakenOver {
    /// Set once the kernel counts packets; `None` unless the source is a link.
    pub plan: Option<Arc<OnceLock<KernelPlan>>>,
    /// By table: the places of the variables; empty until the kernel counts packets.
    pub places: Vec<Option<Places>>,
    /// The connections that the kernel has.
    pub given: HashMap<FlowRef, Given>,
    /// The same, those given first at the front. Connections that were taken back since have another number.
    pub by_age: VecDeque<(FlowRef, u64)>,
    /// Connections given so far.
    pub count: u64,
    /// An entry that was read last; kept for its memory.
    pub entry: Vec<u64>,
}

/// The places of the variables of a table.
#[derive(Debug)]
pub(crate) struct Places {
    pub table: KernelTable,
    /// By variable of the entry: the place in the flow's record.
    pub vars: Vec<Option<NumberPlace>>,
    /// The place of the history.
    pub letters: Option<usize>,
}

/// A connection that the kernel has.
#[derive(Debug)]
pub(crate) struct Given {
    /// Its number among all that were given.
    pub number: u64,
    /// Its key in the kernel's table.
    pub key: Vec<u64>,
    /// The entry as it was given, or as it was when its counts were added last.
    pub first: Vec<u64>,
    /// Packets up to this time may be on their way to the engine.
    pub since: i64,
    /// Packets that passed the kernel unseen.
    pub unseen: u8,
}

impl TakenOver {
    pub fn of(plan: &Plan) -> Self {
        Self { plan: plan.kernel.clone(), ..Self::default() }
    }

    /// Whether a connection was taken back since it was given with this number.
    pub fn is_old(&self, flow: FlowRef, number: u64) -> bool {
        self.given.get(&flow).is_none_or(|given| given.number != number)
    }

    /// Forgets the age of connections that were taken back, once they are most.
    pub fn forget_old(&mut self) {
        if self.by_age.len() > 2 * self.given.len() + 64 {
            let given = &self.given;
            self.by_age.retain(|(flow, number)| given.get(flow).is_some_and(|one| one.number == *number));
        }
    }

    /// Whether the kernel may take over connections.
    #[inline]
    pub fn is_possible(&self) -> bool {
        self.plan.is_some()
    }

    /// Finds the places of variables, once the kernel counts packets.
    pub fn is_ready(&mut self, plan: &Plan) -> bool {
        let Some(kernel) = self.plan.as_ref().and_then(|plan| plan.get()) else { return false };
        if self.places.is_empty() {
            let (graph, layout) = (plan.program.graph(), plan.program.layout());
            let places = |table: Table| {
                let known = kernel.layout.of_layer(kernel.layers[table.index()])?;
                let place = |name: &VarName| NumberPlace::of(graph, layout, table, name);
                let history = graph.find_var(table, &EngineVar::History);
                Some(Places {
                    vars: known.vars.iter().map(|var| place(&var.name)).collect(),
                    letters: history.map(|var| layout.offset(var)),
                    table: known.clone(),
                })
            };
            self.places = (0..graph.tables.len() as u32).map(|table| places(Table(table))).collect();
        }
        true
    }
}

impl Places {
    /// The values of the variables in a flow's record, in the words of an entry.
    pub fn fill(&self, data: &[u8], entry: &mut [u64]) {
        for (var, place) in self.table.vars.iter().zip(&self.vars) {
            let sides = if var.each_side { 2 } else { 1 };
            for side in 0..sides {
                entry[var.word + side] = match (&var.name, place) {
                    (VarName::Engine(EngineVar::Letters, _), _) => self.letters(data),
                    (_, Some(place)) => place.read(data, side),
                    (_, None) => 0,
                };
            }
        }
    }

    /// The letters of the flow's history, a bit for each.
    fn letters(&self, data: &[u8]) -> u64 {
        let Some(at) = self.letters else { return 0 };
        let history = data[at + 1..].iter().take(usize::from(data[at]));
        history.fold(0, |all, &letter| {
            let first = if letter.is_ascii_uppercase() { b'A' } else { b'a' };
            let bit = u32::from(letter.wrapping_sub(first)) + if first == b'a' { LETTERS } else { 0 };
            all | 1u64.checked_shl(bit).unwrap_or(0)
        })
    }
}

impl NumberPlace {
    /// The number of the originator (side 0) or the responder.
    pub(crate) fn read(&self, data: &[u8], side: usize) -> u64 {
        let (at, bits) = self.of_side(side);
        read_number(data, at, bits)
    }

    /// Sets the number of a side.
    pub(crate) fn write(&self, data: &mut [u8], side: usize, value: u64) {
        let (at, bits) = self.of_side(side);
        write_number(data, at, bits, value);
    }
}
