//! Filters that the kernel runs before packets reach a source.

use crate::{BpfInstruction, HeaderRules, LinkType};
use std::fmt;

/// Makes the filters of some questions.
pub trait KernelFilters: fmt::Debug + Send + Sync {
    /// The filter for frames of a link type. Each number gives a more exact filter than the one before, which the kernel takes longer
    /// to verify, or refuses. `None`: there are no more; for number 0: every packet is needed.
    ///
    /// # Errors
    /// Why there is no such filter, as part of a sentence.
    fn filter(&self, link: LinkType, number: usize) -> Result<Option<KernelFilter>, &'static str>;

    /// Rules for devices that compare headers.
    ///
    /// # Errors
    /// Why there are none, as part of a sentence.
    fn header_rules(&self) -> Result<HeaderRules, &'static str>;
}

/// The part of a program that decides, in the kernel, which packets some question may need. It passes too many packets rather
/// than too few.
///
/// A part is embedded in a program that prepares its registers and acts on its verdict. Register 6 holds the length of the frame
/// in bytes, and register 9 is left alone. The part goes to its end with the verdict in register 0: 0 if no question needs the
/// packet, else 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelFilter {
    /// For programs of XDP: registers 7 and 8 point to the first byte of the frame, and behind the last byte of its first piece.
    pub frame: Vec<BpfInstruction>,
    /// For socket filters: register 7 points to a copy of the frame's first [`COPY_BYTES`](Self::COPY_BYTES) bytes, VLAN tag
    /// included.
    pub copy: Vec<BpfInstruction>,
}

impl KernelFilter {
    /// Bytes of the frame that are copied for socket filters; the filter passes packets of which it needs more. Shorter frames are
    /// followed by arbitrary bytes.
    pub const COPY_BYTES: usize = 320;
}
