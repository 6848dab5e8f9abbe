//! What a plan knows of the connections that the kernel takes over: see `taken_over`.

use std::sync::Arc;
use weir_ir::kernel_flows::KernelLayout;
use weir_packet::KernelFlows;

/// What a plan knows of the connections that the kernel takes over, once it does.
#[derive(Debug)]
pub struct KernelPlan {
    /// The kernel's table.
    pub flows: Arc<dyn KernelFlows>,
    /// The entries of that table.
    pub layout: KernelLayout,
    /// By table of the program: the number of its layer.
    pub layers: Vec<u64>,
    /// Connections that a worker may give away at a time.
    pub flows_max: usize,
    /// Packets of a connection that nobody needs, before the kernel gets the connection; at most 254.
    pub quiet_packets: u8,
}
