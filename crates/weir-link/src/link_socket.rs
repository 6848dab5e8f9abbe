//! What the methods of capture have in common: a socket on an interface, or on one of its queues.

use crate::sieve::Sieve;
use crate::system::Socket;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use weir_packet::{Burst, SourceStats};

/// What a socket captures on.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub name: String,
    /// 0: all interfaces.
    pub index: u32,
}

/// A socket that receives the packets of an interface.
pub(crate) trait LinkSocket: Debug + Send {
    /// The interface.
    fn target(&self) -> &Target;

    /// The socket itself, to wait for packets.
    fn socket(&self) -> &Socket;

    /// Receives packets from now on.
    fn start(&mut self) -> io::Result<()>;

    /// Receives no more packets. Those received before follow.
    fn stop(&mut self) -> io::Result<()>;

    /// What discards packets of the interface in the kernel. `None` for packets of several interfaces.
    fn sieve(&self) -> Option<&Arc<Sieve>>;

    /// The counters so far, read from the kernel.
    fn stats(&self) -> SourceStats;

    /// Fills an empty burst with the next packets, all of one block, without their numbers. Returns whether there are any.
    ///
    /// # Errors
    /// If the kernel's description of a packet is invalid. The packets before it have been delivered; those that cannot be
    /// read count as lost.
    fn fill(&mut self, burst: &mut Burst) -> io::Result<bool>;
}
