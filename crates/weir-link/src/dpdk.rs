//! Whether devices of DPDK can be captured on this machine, and the thread that DPDK has.

/// Begins the names of devices of DPDK: `dpdk:net_pcap0,rx_pcap=x.pcap`.
pub const PREFIX: &str = "dpdk:";

/// What capture with DPDK needs, and whether it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    /// The release of DPDK for which the plug-in was built (`DPDK 22.11.11`), or what is missing, with a
    /// remedy.
    pub release: Result<&'static str, String>,
    /// Memory in free huge pages, bytes.
    pub free_huge_bytes: u64,
}

/// Loads the plug-in for DPDK, if it is there. DPDK itself is not started.
pub fn readiness() -> Readiness {
    let release = weir_dpdk::release().map_err(|why| why.to_string());
    Readiness { release, free_huge_bytes: weir_dpdk::free_huge_bytes() }
}

/// Calls a function in the thread that DPDK has started for interrupts of devices, and waits for its result.
/// `None`: DPDK was not started. A process that gives up rights calls this, because rights belong to threads.
///
/// # Errors
/// If the thread does not call the function within seconds; as part of a sentence.
pub fn in_its_thread<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, String> {
    weir_dpdk::in_its_thread(call).map_err(|why| why.to_string())
}
