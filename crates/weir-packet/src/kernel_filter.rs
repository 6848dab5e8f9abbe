//! Filters that the kernel runs before packets reach a source.

use crate::LinkType;
use std::fmt;

/// An instruction of eBPF (RFC 9669, section 3), as the kernel reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct BpfInstruction {
    /// The operation.
    pub code: u8,
    /// The destination in the lower four bits, the source in the upper ones.
    pub registers: u8,
    /// The displacement of a load or a store, or the distance of a jump.
    pub offset: i16,
    /// The immediate number.
    pub number: i32,
}

impl BpfInstruction {
    /// An instruction; registers are numbered from 0 to 10.
    pub const fn new(code: u8, destination: u8, source: u8, offset: i16, number: i32) -> Self {
        Self { code, registers: source << 4 | destination, offset, number }
    }
}

impl fmt::Display for BpfInstruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, registers, offset, number } = *self;
        let (to, from) = (registers & 15, registers >> 4);
        let size = match code & 0x18 {
            0x00 => "u32",
            0x08 => "u16",
            0x10 => "u8",
            _ => "u64",
        };
        let operand = if code & 8 == 0 { format!("{number:#x}") } else { format!("r{from}") };
        let sign = |names: [&'static str; 14]| names.get(usize::from(code >> 4)).copied().unwrap_or("?");
        match code & 7 {
            0 if code == 0x18 => write!(f, "r{to} = {number:#x} (lower half)"),
            0 => write!(f, "     {number:#x} (upper half)"),
            1 => write!(f, "r{to} = {size}[r{from} {offset:+}]"),
            3 => write!(f, "{size}[r{to} {offset:+}] = r{from}"),
            4 => write!(f, "r{to} = big-endian r{to} of {number} bits"),
            5 if code == 5 => write!(f, "go {offset:+}"),
            5 => {
                let names = ["", "==", ">", ">=", "&", "!=", "", "", "", "", "<", "<=", "", ""];
                write!(f, "go {offset:+} if r{to} {} {operand}", sign(names))
            }
            _ => {
                let names = ["+=", "-=", "*=", "/=", "|=", "&=", "<<=", ">>=", "-", "%=", "^=", "=", "", ""];
                write!(f, "r{to} {} {operand}", sign(names))
            }
        }
    }
}

/// Makes the filters of some questions.
pub trait KernelFilters: fmt::Debug + Send + Sync {
    /// The filter for frames of a link type. Each number gives a more exact filter than the one before, which the kernel takes longer
    /// to verify, or refuses. `None`: there are no more; for number 0: every packet is needed.
    ///
    /// # Errors
    /// Why there is no such filter, as part of a sentence.
    fn filter(&self, link: LinkType, number: usize) -> Result<Option<KernelFilter>, &'static str>;
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
