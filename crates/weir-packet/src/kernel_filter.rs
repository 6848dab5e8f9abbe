//! Filters that the kernel runs before packets reach a source.

use crate::{BpfInstruction, HeaderRules, HeaderTerms, LinkType};
use std::fmt;
use std::sync::Arc;

/// Makes the filters of some questions.
pub trait KernelFilters: fmt::Debug + Send + Sync {
    /// The filter for frames of a link type. Each number gives a more exact filter than the one before, which
    /// the kernel takes longer to verify, or refuses. `takes_over`: the filter counts packets of connections,
    /// in a table of these [words](Self::flow_words). `None`: there are no more; for number 0: every packet
    /// is needed.
    ///
    /// # Errors
    /// Why there is no such filter, as part of a sentence.
    fn filter(
        &self,
        link: LinkType,
        number: usize,
        takes_over: bool,
    ) -> Result<Option<KernelFilter>, &'static str>;

    /// Rules for devices that compare headers.
    ///
    /// # Errors
    /// Why there are none, as part of a sentence.
    fn header_rules(&self) -> Result<HeaderRules, &'static str>;

    /// The packets that the questions need, by their headers: for an index of packets. `None`: every packet
    /// is needed.
    fn header_terms(&self) -> Option<HeaderTerms>;

    /// The words of 64 bits of a key and of an entry, and the number of entries, of the table of connections
    /// that the filters take over. `None`: they take over none.
    fn flow_words(&self) -> Option<[usize; 3]> {
        None
    }

    /// The filters that run use this table from now on.
    fn take_over(&self, flows: Arc<dyn KernelFlows>) {
        let _ = flows;
    }
}

/// The words of an entry of the table of connections whose packets the kernel counts, before those of
/// variables.
pub mod flow_entry {
    /// The word that is 0 while the kernel counts packets, and 1 once the entry is open.
    pub const STATE: usize = 0;
    /// The word with the time of the last packet counted; 0 before the first one.
    pub const LAST_TIME: usize = 1;
    /// The word that is 1 if the originator is the second side of the key.
    pub const SWAP: usize = 2;
    /// The first word of variables.
    pub const FIRST_VAR: usize = 3;
}

/// The table of connections whose packets the kernel counts. The words of an entry are those of
/// `weir_ir::kernel_flows`, with times in nanoseconds since 1970.
pub trait KernelFlows: fmt::Debug + Send + Sync {
    /// Adds a connection. Returns `false` if there is no room.
    fn give(&self, key: &[u64], entry: &[u64]) -> bool;

    /// Reads the entry of a connection. Returns `false` if there is none.
    fn read(&self, key: &[u64], entry: &mut [u64]) -> bool;

    /// Reads the entry of a connection and removes it. Returns `false` if there is none.
    fn take(&self, key: &[u64], entry: &mut [u64]) -> bool;

    /// The time by the clock that stamps packets: those received after a [`give`](Self::give) are later than
    /// the time after it.
    fn now(&self) -> i64;
}

/// The part of a program that decides, in the kernel, which packets some question may need. It passes too
/// many packets rather than too few.
///
/// A part is embedded in a program that prepares its registers and acts on its verdict. Register 6 holds the
/// length of the frame in bytes, and register 9 is left alone. The part goes to its end with the verdict in
/// register 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelFilter {
    /// For programs of XDP: registers 7 and 8 point to the first byte of the frame, and behind the last byte
    /// of its first piece.
    pub frame: Vec<BpfInstruction>,
    /// For socket filters: register 7 points to a copy of the frame's first [`COPY_BYTES`](Self::COPY_BYTES)
    /// bytes, VLAN tag included.
    pub copy: Vec<BpfInstruction>,
}

impl KernelFilter {
    /// Bytes of the frame that are copied for socket filters; the filter passes packets of which it needs
    /// more. Shorter frames are followed by arbitrary bytes.
    pub const COPY_BYTES: usize = 320;

    /// Instructions of a part at most: the program around it jumps over it. The kernel's own limit is the
    /// number that its verifier visits.
    pub const INSTRUCTIONS_MAX: usize = 30_000;

    /// The verdict of packets that no question needs.
    pub const UNNEEDED: i32 = 0;
    /// The verdict of packets that some question may need.
    pub const NEEDED: i32 = 1;
    /// The verdict of packets that were counted for a connection that the kernel has taken over.
    pub const COUNTED: i32 = 2;

    /// The source register of an instruction whose number is that of a map.
    pub const IS_MAP: u8 = 1;
    /// In place of the number of the map of connections that the kernel has taken over.
    pub const FLOWS: i32 = -1;
}
