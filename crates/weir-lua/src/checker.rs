//! Checks: at intervals, all flows are visited, some after each burst of packets, and those that the module
//! says are removed.

use crate::runtime::Runtime;
use crate::tables::{FlowPlace, Flows};

/// Flows that are visited after a burst of packets.
const STEP: usize = 1024;

/// The checks of a worker.
#[derive(Debug)]
pub struct Checker {
    interval_ns: i64,
    due_ns: Option<i64>,
    pass: Option<Pass>,
    rows: Vec<FlowPlace>,
    expired: Vec<Option<f64>>,
}

/// A check that goes on.
#[derive(Debug, Default)]
struct Pass {
    part: usize,
    table: usize,
    next: u32,
    kept: u64,
    purged: u64,
}

impl Checker {
    pub fn new(interval_ns: i64) -> Self {
        Self { interval_ns, due_ns: None, pass: None, rows: vec![], expired: vec![] }
    }

    /// The time is `now_ns`: begins a check if one is due, and visits some flows. `removed` gets those that
    /// are removed, with the last time that the module names.
    pub fn pass_time(
        &mut self,
        now_ns: i64,
        flows: &mut Flows,
        runtime: &mut dyn Runtime,
        removed: Removed<'_>,
    ) {
        let due = *self.due_ns.get_or_insert(now_ns.saturating_add(self.interval_ns));
        if self.pass.is_none() {
            if now_ns < due {
                return;
            }
            self.due_ns = Some(now_ns.saturating_add(self.interval_ns));
            self.begin(runtime);
        }
        self.step(flows, runtime, removed);
    }

    /// Ends the check that goes on, and visits all flows once more.
    pub fn finish(&mut self, flows: &mut Flows, runtime: &mut dyn Runtime, removed: Removed<'_>) {
        while self.pass.is_some() {
            self.step(flows, runtime, removed);
        }
        self.begin(runtime);
        while self.pass.is_some() {
            self.step(flows, runtime, removed);
        }
    }

    /// The machine's clock was set by this many nanoseconds.
    pub fn step_clock(&mut self, step_ns: i64) {
        self.due_ns = self.due_ns.map(|due| due.saturating_add(step_ns));
    }

    fn begin(&mut self, runtime: &mut dyn Runtime) {
        runtime.begin_check();
        self.pass = Some(Pass::default());
    }

    fn step(&mut self, flows: &mut Flows, runtime: &mut dyn Runtime, removed: Removed<'_>) {
        let Self { pass: Some(pass), rows, expired, .. } = self else { return };
        let mut left = STEP;
        while left > 0 && pass.part < flows.parts() {
            let part = pass.part;
            let visited = flows.with_part(part, |tables| {
                rows.clear();
                expired.clear();
                while rows.len() < left && pass.table < tables.len() {
                    match tables[pass.table].next_row(pass.next) {
                        Some(row) => {
                            rows.push((pass.table, row));
                            pass.next = row.after();
                        }
                        None => (pass.table, pass.next) = (pass.table + 1, 0),
                    }
                }
                runtime.check(rows, tables, expired);
                let mut at = expired.iter();
                rows.retain(|_| at.next().is_some_and(Option::is_some));
                let times: Vec<f64> = expired.iter().flatten().copied().collect();
                removed(runtime, rows, &times, tables);
                pass.kept += (expired.len() - rows.len()) as u64;
                pass.purged += rows.len() as u64;
                for (table, row) in rows.iter() {
                    tables[*table].remove(*row);
                }
                if pass.table == tables.len() {
                    (pass.part, pass.table, pass.next) = (part + 1, 0, 0);
                }
                expired.len()
            });
            left = left.saturating_sub(visited.max(1));
        }
        if pass.part == flows.parts() {
            runtime.end_check(pass.kept, pass.purged);
            self.pass = None;
        }
    }
}

/// Gets the flows that a check removes, and the last time of each.
pub type Removed<'a> =
    &'a mut dyn FnMut(&mut dyn Runtime, &[FlowPlace], &[f64], &mut [weir_pipeline::ByteTable]);
