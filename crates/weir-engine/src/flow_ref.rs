//! The name of a flow of a worker.

use crate::table::FlowId;
use weir_ir::graph::Table;

/// Identifies a live flow of a worker: its table, and its number there. After the flow has ended, the number is
/// reused for another flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowRef {
    /// The table.
    pub table: Table,
    /// The number of the flow in that table.
    pub id: FlowId,
}

impl FlowRef {
    /// Flow `id` of `table`.
    pub fn new(table: Table, id: FlowId) -> Self {
        Self { table, id }
    }
}
