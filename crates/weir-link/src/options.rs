//! How links are captured, and what a capture reports besides packets.

use crate::loader::Loader;
use crate::names::NamedInterface;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// An event of a capture besides packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The first packet of an interface comes. Interfaces come in the order of their numbers.
    Interface(NamedInterface),
    /// The interface of this name is down; the capture continues when it is up again.
    Down(String),
    /// Packets come again on the interface of this name.
    Up(String),
    /// Packets of the interface of this name that no question needs are discarded, and by whom
    /// (`the kernel`).
    Filtered(String, &'static str),
    /// Nobody discards packets of the interface of this name: who does not (`the kernel`), and why. All its
    /// packets come.
    Unfiltered(String, &'static str, String),
    /// New connections do not move away from workers that fall behind, and why.
    Fixed(String),
    /// How the interface of this name is captured.
    Method(String, String),
}

/// The receiver of notes; clones share it.
#[derive(Clone)]
pub struct Notes(Arc<dyn Fn(Note) + Send + Sync>);

impl Notes {
    /// Calls `receiver` with each note, from the thread that polls, or from the thread that loads a filter.
    pub fn to(receiver: impl Fn(Note) + Send + Sync + 'static) -> Self {
        Self(Arc::new(receiver))
    }

    pub(crate) fn tell(&self, note: Note) {
        (self.0)(note);
    }
}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notes")
    }
}

/// A method of capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// The kernel shows packets to Weir and to the machine's own programs.
    #[default]
    Packet,
    /// Weir takes all packets from the interface: the machine's own programs receive none of them.
    Xdp,
}

impl Method {
    /// All methods, with their names.
    pub const ALL: [(&str, Self); 2] = [("af_packet", Self::Packet), ("af_xdp", Self::Xdp)];
}

/// How links are captured.
#[derive(Debug, Clone)]
pub struct LinkOptions {
    /// The method of capture.
    pub method: Method,
    /// Bytes of the ring between the kernel and each worker, for each interface; at least 256 KiB are used.
    /// Below 16 MiB, packets of more than 64 KiB ("big TCP" on links of the same machine) may be cut.
    pub buffer_bytes: usize,
    /// Receive all packets of the link, also those for other hosts.
    pub promiscuous: bool,
    /// The link carries copies of traffic, such as a mirror port: packets that no question needs are dropped
    /// before the machine sees them.
    pub mirror: bool,
    /// Use the times of the network card, where it has a clock.
    pub hardware_time: bool,
    /// Further arguments with which DPDK is initialised, for devices `dpdk:…`.
    pub dpdk_arguments: Vec<String>,
    /// The capture ends once this is not 0: packets received before are still delivered.
    pub stop: Arc<AtomicUsize>,
    /// Loads filters into the kernel.
    pub loader: Loader,
    /// The receiver of notes.
    pub notes: Notes,
}

impl Default for LinkOptions {
    fn default() -> Self {
        let stop = Arc::new(AtomicUsize::new(0));
        Self {
            method: Method::default(),
            buffer_bytes: 64 << 20,
            promiscuous: true,
            mirror: false,
            hardware_time: false,
            dpdk_arguments: vec![],
            stop,
            loader: Loader::default(),
            notes: Notes::to(|_| {}),
        }
    }
}
