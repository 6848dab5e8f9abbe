//! Tables that workers share (FlowScope, 2017, section 4).
//!
//! A table is shared if packets of one instance may reach several workers: the table is
//! [scattered](weir_ir::graph::TableDecl::scattered). The hash of a key selects one of 32 parts. A worker
//! takes the part of the flow that a packet requests, runs the packet's tail, and gives the part back;
//! meanwhile no other worker has access to the flows of the part. A worker has at most one part at a time, so
//! workers never wait for each other in a circle.
//!
//! A part that a worker has stands in the place of the worker's own table, which is empty. The rest of the
//! engine does not distinguish the two.
//!
//! The flows of a part expire at the time that all workers have reached: a worker that is ahead does not end
//! flows that others still have packets of. The worker that ends last ends the flows that are left.

use crate::flow_ref::PARTS;
use crate::plan::Plan;
use crate::tables::TableState;
use parking_lot::lock_api::ArcMutexGuard;
use parking_lot::{Mutex, RawMutex};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use weir_ir::graph::Table;

/// The first bit of a hash that selects a part: between the bits of the bucket and those of the tag.
const HASH_SHIFT: u32 = 40;

/// The tables that the workers of a run share.
pub struct SharedTables {
    /// The parts of each table of the graph; none if the table is not shared.
    tables: Vec<Vec<Arc<Mutex<Part>>>>,
    /// The time that each worker has reached, nanoseconds since 1970; the maximum for workers without further
    /// packets.
    times: Vec<AtomicI64>,
    /// Number of workers that have no more packets.
    ended: AtomicUsize,
}

/// A part of a table.
struct Part {
    state: TableState,
    /// Number of plans so far.
    plans: u64,
    /// The time up to which flows have expired, nanoseconds since 1970.
    expired: i64,
    /// The time of the last check of its flows, likewise.
    checked: i64,
}

impl SharedTables {
    /// The tables that `workers` workers share when they run `plan`; `None` if there are none.
    pub fn of(plan: &Plan, workers: usize) -> Option<Arc<Self>> {
        let graph = plan.program.graph();
        let is_shared = |table: Table| workers > 1 && graph.tables[table.index()].scattered;
        let all: Vec<Table> = (0..graph.tables.len() as u32).map(Table).collect();
        if !all.iter().any(|&table| is_shared(table)) {
            return None;
        }
        let part = |table, part| {
            let state = TableState::part(table, plan, part, workers);
            Arc::new(Mutex::new(Part { state, plans: 0, expired: i64::MIN, checked: i64::MIN }))
        };
        let parts = |&table: &Table| {
            let count = if is_shared(table) { PARTS } else { 0 };
            (0..count).map(|number| part(table, number as u8)).collect()
        };
        Some(Arc::new(Self {
            tables: all.iter().map(parts).collect(),
            times: (0..workers).map(|_| AtomicI64::new(i64::MIN)).collect(),
            ended: AtomicUsize::new(0),
        }))
    }

    /// All parts of all tables.
    fn parts(&self) -> impl Iterator<Item = (Table, u8)> + use<> {
        let counts: Vec<usize> = self.tables.iter().map(Vec::len).collect();
        let tables = counts.into_iter().enumerate();
        tables.flat_map(|(table, count)| (0..count).map(move |part| (Table(table as u32), part as u8)))
    }
}

impl fmt::Debug for SharedTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedTables").field("workers", &self.times.len()).finish_non_exhaustive()
    }
}

/// A worker's access to the tables that it shares.
pub(crate) struct Sharing {
    shared: Arc<SharedTables>,
    worker: usize,
    taken: Option<TakenPart>,
    /// Number of plans so far.
    plans: u64,
    /// Bytes by which this worker let the tables grow; they count in its memory.
    pub granted_bytes: usize,
    has_ended: bool,
}

/// The part that a worker has. While the guard exists, the part's state is in the worker's list of tables,
/// and the worker's own state is behind the guard.
struct TakenPart {
    table: Table,
    number: u8,
    guard: ArcMutexGuard<RawMutex, Part>,
}

impl Sharing {
    pub fn new(shared: Arc<SharedTables>, worker: usize) -> Self {
        Self { shared, worker, taken: None, plans: 0, granted_bytes: 0, has_ended: false }
    }

    #[inline]
    pub fn is_shared(&self, table: Table) -> bool {
        !self.shared.tables[table.index()].is_empty()
    }

    /// Takes the part of `table` that has the key of this hash; waits until no other worker has it. Does
    /// nothing if the table is not shared.
    #[inline]
    pub fn take_of(&mut self, tables: &mut [TableState], table: Table, hash: u64) {
        self.take(tables, table, (hash >> HASH_SHIFT) as u8 % PARTS as u8);
    }

    /// Takes a part of a table, as [`take_of`](Self::take_of).
    pub fn take(&mut self, tables: &mut [TableState], table: Table, number: u8) {
        let is_taken = |taken: &TakenPart| taken.table == table && taken.number == number;
        if !self.is_shared(table) || self.taken.as_ref().is_some_and(is_taken) {
            return;
        }
        self.give_back(tables);
        let mut guard = self.shared.tables[table.index()][usize::from(number)].lock_arc();
        std::mem::swap(&mut tables[table.index()], &mut guard.state);
        self.taken = Some(TakenPart { table, number, guard });
    }

    /// Gives back the part that the worker has, if any.
    #[inline]
    pub fn give_back(&mut self, tables: &mut [TableState]) {
        if let Some(TakenPart { table, mut guard, .. }) = self.taken.take() {
            std::mem::swap(&mut tables[table.index()], &mut guard.state);
        }
    }

    /// The worker has reached `now`. Returns the time that all workers have reached.
    pub fn pass_time(&self, now: i64) -> i64 {
        self.shared.times[self.worker].store(now, Ordering::Relaxed);
        self.shared.times.iter().map(|time| time.load(Ordering::Relaxed)).min().unwrap_or(now)
    }

    /// The parts whose flows this worker expires: its own, and those of workers that have ended.
    pub fn own_parts(&self) -> impl Iterator<Item = (Table, u8)> + use<> {
        let times: Vec<i64> = self.shared.times.iter().map(|time| time.load(Ordering::Relaxed)).collect();
        let worker = self.worker;
        self.shared.parts().filter(move |&(_, part)| {
            let owner = usize::from(part) % times.len();
            owner == worker || times[owner] == i64::MAX
        })
    }

    /// Whether flows of the taken part may expire at the time `reached`. The answer is no if another worker
    /// has passed a later time to the part already: for the part's timers, time would go back, and flows with
    /// newer packets would end.
    pub fn may_expire(&mut self, reached: i64) -> bool {
        let Some(TakenPart { guard, .. }) = &mut self.taken else { return false };
        let is_later = reached >= guard.expired;
        guard.expired = guard.expired.max(reached);
        is_later
    }

    /// Whether the flows of the taken part are reported at this time by this worker. The answer is no if
    /// another worker has done so: parts of workers that have ended belong to all others.
    pub fn may_check(&mut self, at: i64) -> bool {
        let Some(TakenPart { guard, .. }) = &mut self.taken else { return false };
        let is_later = at > guard.checked;
        guard.checked = guard.checked.max(at);
        is_later
    }

    /// All parts, if this worker ends last; else none.
    pub fn last_parts(&mut self) -> impl Iterator<Item = (Table, u8)> + use<> {
        let is_last = self.end();
        self.shared.parts().filter(move |_| is_last)
    }

    /// The worker has no more packets. Returns whether it is the last one.
    fn end(&mut self) -> bool {
        if std::mem::replace(&mut self.has_ended, true) {
            return false;
        }
        self.shared.times[self.worker].store(i64::MAX, Ordering::Relaxed);
        self.shared.ended.fetch_add(1, Ordering::AcqRel) + 1 == self.shared.times.len()
    }

    /// Changes to the next plan, while no worker has packets. The first worker that changes replaces each
    /// part with the result of `replace`.
    pub fn change(&mut self, plan: &Plan, mut replace: impl FnMut(Table, &mut TableState, &mut TableState)) {
        self.plans += 1;
        for (table, number) in self.shared.parts() {
            let mut part = self.shared.tables[table.index()][usize::from(number)].lock();
            if part.plans < self.plans {
                let mut new = TableState::part(table, plan, number, self.shared.times.len());
                replace(table, &mut part.state, &mut new);
                *part = Part { state: new, plans: self.plans, expired: part.expired, checked: part.checked };
            }
        }
    }

    /// Calls `each` with every part, if this worker counts the shared tables.
    pub fn count(&self, mut each: impl FnMut(&TableState)) {
        if self.worker == 0 && self.taken.is_none() {
            self.shared.tables.iter().flatten().for_each(|part| each(&part.lock().state));
        }
    }
}

impl Drop for Sharing {
    /// The flows of a worker that is gone do not wait for its time.
    fn drop(&mut self) {
        self.end();
    }
}
