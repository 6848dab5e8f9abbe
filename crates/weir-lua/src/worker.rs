//! A module on a worker: packets are collected in batches, find their flows, and are given to the module.

use crate::batch::{Batch, TIME};
use crate::checker::Checker;
use crate::host::{DumpRequest, Host};
use crate::runtime::Runtime;
use crate::shared::Shared;
use crate::tables::{self, FlowPlace, Flows};
use std::collections::HashSet;
use std::sync::Arc;
use weir::packet_task::{PacketTask, TaskPacket, TaskRows};
use weir_pipeline::ByteTable;

/// Flows whose end is told at once.
const ENDS: usize = 1024;

/// The module of a script on a worker.
pub struct ScriptTask {
    shared: Arc<Shared>,
    runtime: Box<dyn Runtime>,
    /// The version of the script that has been loaded.
    version: u64,
    batch: Batch,
    flows: Flows,
    checker: Option<Checker>,
    /// The state with which flows begin.
    state: Vec<u64>,
    order: Vec<u32>,
    dumps: Dumps,
    /// The module has `buildPacketFilter`; without it, nothing is dumped.
    has_filter: bool,
}

/// The filters of the flows that are being dumped.
struct Dumps {
    filters: HashSet<String>,
    max: u64,
}

impl ScriptTask {
    pub fn new(shared: Arc<Shared>, runtime: Box<dyn Runtime>, version: u64) -> Self {
        let manifest = shared.manifest();
        let key_bytes = runtime.key_bytes();
        let flows = match shared.flows() {
            Some(flows) => Flows::Shared(Arc::clone(flows)),
            None => Flows::Own(tables::tables(&key_bytes, runtime.state().len(), manifest.flows_max)),
        };
        // Of flows that workers share, one worker does the checks.
        let checks = shared.flows().is_none_or(|flows| flows.begin());
        let interval_ns = manifest.check_interval_ns.filter(|_| checks);
        let key_words = key_bytes.iter().map(|bytes| bytes.div_ceil(8)).max().unwrap_or(0);
        let batch = Batch::new(shared.values().words().max(1), key_words, manifest.has_frames);
        let dumps = Dumps { filters: HashSet::new(), max: manifest.dumps_max };
        let checker = interval_ns.map(Checker::new);
        let (state, order, has_filter) = (vec![], vec![], false);
        let mut task =
            Self { shared, runtime, version, batch, flows, checker, state, order, dumps, has_filter };
        task.take_module();
        task
    }

    /// Takes what a module says beside its calls.
    fn take_module(&mut self) {
        self.has_filter = self.runtime.machine().function("buildPacketFilter").is_some();
        let state = self.runtime.state();
        self.state.resize(state.len().div_ceil(8), 0);
        crate::batch::write_bytes(state, &mut self.state);
    }

    fn host(&self) -> &Arc<Host> {
        self.shared.host()
    }

    /// Gives the packets of the batch to the module.
    fn flush(&mut self, rows: &mut TaskRows<'_>) {
        if self.batch.len() > 0 && !self.host().is_off() {
            self.take_new_version();
            let last = (0..self.batch.len()).map(|packet| self.batch.word(packet, TIME) as i64).max();
            self.runtime.machine().desk.set_now(last.unwrap_or(i64::MIN));
            if self.shared.values().key().is_none() {
                self.runtime.extract(&mut self.batch);
            }
            self.handle();
            self.dump();
            self.runtime.machine().desk.write_rows(rows);
        }
        self.batch.clear();
    }

    fn handle(&mut self) {
        let Self { shared, runtime, batch, flows, state, order, .. } = self;
        let host = shared.host();
        order.clear();
        match flows {
            Flows::Own(tables) => {
                for packet in 0..batch.len() {
                    if tables::enter(tables, batch, packet, state, host) {
                        order.push(packet as u32);
                    }
                }
                runtime.handle(batch, order, tables);
            }
            Flows::Shared(shared) => {
                // Packets of a part are taken together, in their order, while no other worker has the part.
                let part_of = |packet: usize| {
                    let table = batch.table(packet)?;
                    Some((shared.part_of(table, batch.key(packet, shared.key_words(table))), packet as u32))
                };
                let mut places: Vec<(usize, u32)> = (0..batch.len()).filter_map(part_of).collect();
                places.sort_unstable();
                for group in places.chunk_by(|one, other| one.0 == other.0) {
                    let mut tables = shared.part(group[0].0);
                    order.clear();
                    for (_, packet) in group {
                        if tables::enter(&mut tables, batch, *packet as usize, state, host) {
                            order.push(*packet);
                        }
                    }
                    runtime.handle(batch, order, &mut tables);
                }
            }
        }
    }

    /// Begins the dumps that the module wants.
    fn dump(&mut self) {
        if !self.has_filter {
            return;
        }
        for packet in 0..self.batch.len() {
            let Some(table) = self.batch.table(packet).filter(|_| self.batch.is_dumped(packet)) else {
                continue;
            };
            if self.dumps.filters.len() as u64 >= self.dumps.max {
                self.host().counters.dumps_refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                continue;
            }
            let Some(filter) = self.runtime.filter(table, self.batch.key_mut(packet)) else { continue };
            if self.dumps.filters.insert(filter.clone()) {
                let time_ns = self.batch.word(packet, TIME) as i64;
                self.shared.host().dump(DumpRequest { filter, time_ns, is_end: false }, self.dumps.max);
            }
        }
    }

    /// Loads the script again if it has changed. Flows stay.
    fn take_new_version(&mut self) {
        if self.version != self.shared.version() {
            self.version = self.shared.version();
            match self.shared.runtime() {
                Ok(runtime) => {
                    self.runtime = runtime;
                    self.take_module();
                }
                Err(why) => self.host().fail(&why.to_string(), false),
            }
        }
    }

    fn check(&mut self, now: Option<i64>) {
        let Self { checker, flows, runtime, dumps, shared, .. } = self;
        let has_end = runtime.machine().function("flowEnd").is_some();
        let has_expiry = runtime.machine().function("checkExpiry").is_some();
        let Some(checker) = checker.as_mut().filter(|_| has_expiry && !shared.host().is_off()) else {
            return;
        };
        let mut removed =
            |runtime: &mut dyn Runtime, rows: &[FlowPlace], times: &[f64], tables: &mut [ByteTable]| {
                if has_end && !rows.is_empty() {
                    runtime.end_flows(rows, tables, "expired");
                }
                if dumps.filters.is_empty() {
                    return;
                }
                for ((table, row), time) in rows.iter().zip(times) {
                    let state_words = runtime.state().len().div_ceil(8);
                    let mut key = tables[*table].row(*row)[state_words..].to_vec();
                    if let Some(filter) =
                        runtime.filter(*table, &mut key).filter(|filter| dumps.filters.remove(filter))
                    {
                        let time_ns = (time * 1e9) as i64;
                        shared.host().dump(DumpRequest { filter, time_ns, is_end: true }, dumps.max);
                    }
                }
            };
        match now {
            Some(now) => checker.pass_time(now, flows, &mut **runtime, &mut removed),
            None => checker.finish(flows, &mut **runtime, &mut removed),
        }
    }

    /// The flows that are left leave their tables.
    fn end_flows(&mut self) {
        let Self { flows, runtime, shared, .. } = self;
        if runtime.machine().function("flowEnd").is_none() {
            return;
        }
        for part in 0..flows.parts() {
            flows.with_part(part, |tables| {
                let mut rows = vec![];
                for table in 0..tables.len() {
                    let mut next = 0;
                    while let Some(row) = tables[table].next_row(next).filter(|_| !shared.host().is_off()) {
                        next = row.after();
                        rows.push((table, row));
                        if rows.len() == ENDS {
                            runtime.end_flows(&rows, tables, "end");
                            rows.clear();
                        }
                    }
                }
                runtime.end_flows(&rows, tables, "end");
            });
        }
    }
}

impl PacketTask for ScriptTask {
    #[inline]
    fn packet(&mut self, packet: &TaskPacket<'_>, rows: &mut TaskRows<'_>) {
        self.batch.push(packet);
        if self.batch.is_full() {
            self.flush(rows);
        }
    }

    fn pass_time(&mut self, now: i64, rows: &mut TaskRows<'_>) {
        if now == i64::MIN {
            return;
        }
        if now < i64::MAX {
            self.flush(rows);
            self.runtime.machine().desk.set_now(now);
            self.check(Some(now));
        } else {
            self.flush(rows);
            match self.shared.flows().map(|flows| flows.end()) {
                Some(false) => {}
                Some(true) => {
                    let interval = self.shared.manifest().check_interval_ns;
                    self.checker = self.checker.take().or(interval.map(Checker::new));
                    self.check(None);
                    self.end_flows();
                }
                None => {
                    self.check(None);
                    self.end_flows();
                }
            }
        }
        self.runtime.machine().desk.write_rows(rows);
    }

    fn step_clock(&mut self, step_ns: i64) {
        if let Some(checker) = &mut self.checker {
            checker.step_clock(step_ns);
        }
    }
}
