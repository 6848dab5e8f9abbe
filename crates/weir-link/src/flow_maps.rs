//! Which table of connections the filters of all interfaces of a capture share.

use crate::flow_map::FlowMap;
use crate::loader::Kernel;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use weir_packet::KernelFilters;

/// The table of connections that the current filters use; all interfaces of a capture share one table.
#[derive(Debug, Clone, Default)]
pub(crate) struct FlowMaps(Arc<Mutex<Option<Current>>>);

/// The filters, and their table.
type Current = (Arc<dyn KernelFilters>, Arc<FlowMap>);

impl FlowMaps {
    /// The table of these filters. `None` if they take over no connection.
    ///
    /// # Errors
    /// If the kernel refuses to make the table.
    pub fn of(&self, filters: &Arc<dyn KernelFilters>, kernel: &Kernel) -> io::Result<Option<Arc<FlowMap>>> {
        let Some(words) = filters.flow_words() else { return Ok(None) };
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, map)) = &*current
            && Arc::ptr_eq(known, filters)
        {
            return Ok(Some(Arc::clone(map)));
        }
        let map = Arc::new(kernel.table(words)?);
        *current = Some((Arc::clone(filters), Arc::clone(&map)));
        Ok(Some(map))
    }
}
