//! The flows of a script: tables of a worker, or tables that workers share, in parts that one worker at a
//! time has.

use crate::batch::{Batch, STATE};
use crate::host::Host;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_pipeline::{ByteTable, RowNumber};

/// Parts of tables that workers share.
const PARTS: usize = 32;

/// A table for each type of key.
pub type Tables = Vec<ByteTable>;

/// A flow: its table, and its row there.
pub type FlowPlace = (usize, RowNumber);

/// Flows that workers share.
#[derive(Debug)]
pub struct SharedFlows {
    parts: Vec<Mutex<Tables>>,
    /// Tables without rows, for the hashes of keys.
    empty: Tables,
    /// Workers that have begun, and workers that have ended.
    begun: AtomicUsize,
    ended: AtomicUsize,
}

/// The flows of a worker.
#[derive(Debug)]
pub enum Flows {
    Own(Tables),
    Shared(Arc<SharedFlows>),
}

/// Tables for keys and states of these numbers of bytes.
pub fn tables(key_bytes: &[usize], state_bytes: usize, rows_max: usize) -> Tables {
    let words = |bytes: usize| bytes.div_ceil(size_of::<u64>());
    key_bytes.iter().map(|bytes| ByteTable::new(words(*bytes), words(state_bytes), rows_max)).collect()
}

impl SharedFlows {
    pub fn new(key_bytes: &[usize], state_bytes: usize, rows_max: usize) -> Self {
        let empty = tables(key_bytes, state_bytes, rows_max.div_ceil(PARTS));
        let part = |_| Mutex::new(empty.iter().map(ByteTable::empty_like).collect());
        let parts = (0..PARTS).map(part).collect();
        Self { parts, empty, begun: AtomicUsize::new(0), ended: AtomicUsize::new(0) }
    }

    /// A worker begins. Returns whether it is the first one, which does the checks.
    pub fn begin(&self) -> bool {
        self.begun.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// A worker ends. Returns whether it is the last one.
    pub fn end(&self) -> bool {
        self.ended.fetch_add(1, Ordering::AcqRel) + 1 == self.begun.load(Ordering::Relaxed)
    }

    /// The tables of a part, for one worker until the guard is dropped.
    pub fn part(&self, part: usize) -> MutexGuard<'_, Tables> {
        self.parts[part].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The part that has a key of a table.
    pub fn part_of(&self, table: usize, key: &[u64]) -> usize {
        // The index of a table goes by the upper half of the hash.
        self.empty[table].hash(key) as usize % PARTS
    }

    pub fn key_words(&self, table: usize) -> usize {
        self.empty[table].key_words()
    }
}

impl Flows {
    /// Number of parts.
    pub fn parts(&self) -> usize {
        match self {
            Self::Own(_) => 1,
            Self::Shared(_) => PARTS,
        }
    }

    /// Calls `take` with the tables of a part.
    pub fn with_part<R>(&mut self, part: usize, take: impl FnOnce(&mut Tables) -> R) -> R {
        match self {
            Self::Own(tables) => take(tables),
            Self::Shared(shared) => take(&mut shared.part(part)),
        }
    }
}

/// Finds the flow of a packet, or begins it with the state `begin`. Returns whether the packet has a flow.
pub fn enter(tables: &mut [ByteTable], batch: &mut Batch, packet: usize, begin: &[u64], host: &Host) -> bool {
    let Some(table) = batch.table(packet) else { return false };
    let flows = &mut tables[table];
    let key = batch.key(packet, flows.key_words());
    let hash = flows.hash(key);
    match flows.find_or_insert(hash, key, begin) {
        Some((row, is_new)) => {
            if is_new {
                batch.set_first(packet);
            }
            batch.set_word(packet, STATE, flows.row(row).as_mut_ptr() as u64);
            batch.rows[packet] = Some(row);
            true
        }
        None => {
            host.counters.flows_refused.fetch_add(1, Ordering::Relaxed);
            batch.set_table(packet, None);
            false
        }
    }
}
