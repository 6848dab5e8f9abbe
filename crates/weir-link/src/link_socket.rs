//! What the methods of capture have in common: a socket on an interface, or on one of its queues.

use crate::system::{InterfaceQuery, Socket};
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use weir_packet::{Burst, KernelFilters, SourceStats};

/// What a socket captures on.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub name: String,
    /// 0: all interfaces.
    pub index: u32,
}

/// The state of an interface, with its present name.
#[derive(Debug)]
pub(crate) enum LinkState {
    Up(String),
    Down(String),
    /// The capture on the interface ends, and why.
    Gone(String),
    /// The state never changes.
    Same,
}

/// Why the capture on an interface ends that is not there any more.
pub(crate) const REMOVED: &str = "the interface was removed: the capture on it has ended";

/// A socket that receives the packets of an interface.
pub(crate) trait LinkSocket: Debug + Send {
    /// The interface.
    fn target(&self) -> &Target;

    /// The socket itself, to wait for packets. `None` if packets come without the kernel, and must be asked
    /// for.
    fn socket(&self) -> Option<&Socket>;

    /// The state of the interface.
    fn state(&self, asks: &InterfaceQuery) -> LinkState {
        let (Some(socket), index) = (self.socket(), self.target().index) else { return LinkState::Same };
        if index == 0 {
            return LinkState::Same;
        }
        let error = socket.take_error();
        // An interface may have got another name.
        let Some(name) = asks.name(index) else { return LinkState::Gone(REMOVED.to_string()) };
        match error.filter(|error| error.raw_os_error() != Some(libc::ENETDOWN)) {
            Some(error) => LinkState::Gone(format!("the capture has ended: {error}")),
            None if asks.is_up(&name) => LinkState::Up(name),
            None => LinkState::Down(name),
        }
    }

    /// Whether no packet will come any more, because the source behind the interface is at its end.
    fn is_at_end(&self) -> bool {
        false
    }

    /// Whether the times of packets are those of another clock than the machine's.
    fn has_own_clock(&self) -> bool {
        false
    }

    /// Receives packets from now on.
    fn start(&mut self) -> io::Result<()>;

    /// Receives no more packets. Those received before follow.
    fn stop(&mut self) -> io::Result<()>;

    /// Discards packets that no question needs from now on, where possible; `None`: every packet is needed.
    fn narrow(&mut self, filters: Option<&Arc<dyn KernelFilters>>);

    /// The counters so far, read from the kernel.
    fn stats(&self) -> SourceStats;

    /// Fills an empty burst with the next packets, all of one block, without their numbers. Returns whether
    /// there are any.
    ///
    /// # Errors
    /// If the kernel's description of a packet is invalid. The packets before it have been delivered; those
    /// that cannot be read count as lost.
    fn fill(&mut self, burst: &mut Burst) -> io::Result<bool>;
}
