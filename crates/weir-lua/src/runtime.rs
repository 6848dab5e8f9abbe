//! The functions of a module, with or without FFI.

use crate::batch::Batch;
use crate::machine::Machine;
use crate::tables::FlowPlace;
use weir_pipeline::ByteTable;

/// The functions of a module. Failed calls are counted, and the others go on.
pub trait Runtime: Send {
    fn machine(&self) -> &Machine;
    /// Bytes of the keys of each table.
    fn key_bytes(&self) -> Vec<usize>;
    /// The state with which flows begin.
    fn state(&self) -> &[u8];
    /// Finds the keys of all packets, and their tables.
    fn extract(&mut self, batch: &mut Batch);
    /// Takes these packets, which have flows in `tables`.
    fn handle(&mut self, batch: &mut Batch, order: &mut [u32], tables: &mut [ByteTable]);
    fn begin_check(&mut self);
    /// Says for each flow whether it is removed, and the time of its last packet, in seconds.
    fn check(&mut self, rows: &[FlowPlace], tables: &mut [ByteTable], expired: &mut Vec<Option<f64>>);
    /// These flows leave their tables.
    fn end_flows(&mut self, rows: &[FlowPlace], tables: &mut [ByteTable], why: &str);
    fn end_check(&mut self, kept: u64, purged: u64);
    /// The filter of a flow's packets.
    fn filter(&mut self, table: usize, key: &mut [u64]) -> Option<String>;
}
