//! The name of a flow of a worker.

use crate::table::FlowId;
use weir_ir::graph::Table;

/// Names a flow of a worker while the flow lives: its table, and its number there. The number is given to another flow
/// after the flow has ended.
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
