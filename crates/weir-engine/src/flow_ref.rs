//! The name of a flow of a worker.

use crate::table::FlowId;
use weir_ir::graph::Table;

/// Parts of a table that workers share: several times as many as workers, so that workers rarely wait.
pub(crate) const PARTS: usize = 32;

/// Identifies a live flow of a worker, or of a table that workers share. After the flow has ended, the name
/// is reused for another flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowRef {
    /// The table.
    pub table: Table,
    /// The number of the flow in that table, or in that part of the table.
    pub id: FlowId,
    /// The part of a shared table; 0 for tables of the worker's own.
    pub part: u8,
    /// 0 names the flow itself. A larger number names a packet that waits beside the flow: 1 the first such
    /// packet.
    pub beside: u8,
}

impl FlowRef {
    /// Flow `id` of a `table` that one worker has.
    pub fn new(table: Table, id: FlowId) -> Self {
        Self { table, id, part: 0, beside: 0 }
    }

    /// The flow of the same number in a part of a shared table.
    pub fn in_part(self, part: u8) -> Self {
        Self { part, ..self }
    }
}
