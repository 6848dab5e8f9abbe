//! The part of a sequence's state that every packet touches: variables of the flow's own record.
//!
//! They are ordinary variables of the graph, one per direction, declared by lowering under the names
//! below, so the flow's lines in cache hold them and a program may read them.

use weir_ir::abi::Layout;
use weir_ir::graph::{Graph, Table, Var, VarKind};

/// The sequence has its first number.
pub const STARTED: u8 = 1;
/// Segments are queued: `next` may have some.
pub const QUEUED: u8 = 2;
/// Bytes in order are retained for `assemble`.
pub const RETAINED: u8 = 4;

/// Name of the next number expected, in the arithmetic of the sequence's bits. 64 bits.
pub const NEXT: &str = "$seq.next";
/// Name of how many numbers after the first one have been seen at most; does not wrap. 64 bits.
pub const HIGH: &str = "$seq.high";
/// Name of [`STARTED`] | [`QUEUED`] | [`RETAINED`]. 8 bits.
pub const FLAGS: &str = "$seq.flags";
/// Name of the bytes passed over because they were missing. 64 bits.
pub const MISSING: &str = "$seq.missing_bytes";

/// Where the variables of a table's sequence lie in a flow's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceVars {
    next: usize,
    high: usize,
    flags: usize,
    missing: usize,
    stride: usize,
}

/// Their values for one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hot {
    /// The next number expected.
    pub next: u64,
    /// Numbers seen after the first one.
    pub high: u64,
    /// [`STARTED`] | [`QUEUED`] | [`RETAINED`].
    pub flags: u8,
    /// Bytes passed over.
    pub missing_bytes: u64,
}

impl SequenceVars {
    /// Finds the variables of the sequence of `table`.
    ///
    /// # Errors
    /// The name of the first that the graph does not declare as it should.
    pub fn of(graph: &Graph, layout: &Layout, table: Table) -> Result<Self, &'static str> {
        let offset = |name, bits| {
            let fits = |v: &weir_ir::graph::VarDecl| {
                v.table == table && v.name == name && v.each_side && v.kind == VarKind::Bits(bits)
            };
            let var = graph.vars.iter().position(fits).ok_or(name)?;
            Ok::<usize, &'static str>(layout.offset(Var(var as u32)))
        };
        Ok(Self {
            next: offset(NEXT, 64)?,
            high: offset(HIGH, 64)?,
            flags: offset(FLAGS, 8)?,
            missing: offset(MISSING, 64)?,
            stride: layout.stride(table),
        })
    }

    /// The values for a direction (false: the originator's) of a flow's record.
    #[inline]
    pub fn read(&self, data: &[u8], side: bool) -> Hot {
        let data = &data[usize::from(side) * self.stride..];
        let word = |at: usize| u64::from_ne_bytes(data[at..at + 8].try_into().expect("eight bytes"));
        Hot {
            next: word(self.next),
            high: word(self.high),
            flags: data[self.flags],
            missing_bytes: word(self.missing),
        }
    }

    /// Writes them back.
    #[inline]
    pub fn write(&self, data: &mut [u8], side: bool, hot: Hot) {
        let data = &mut data[usize::from(side) * self.stride..];
        data[self.next..self.next + 8].copy_from_slice(&hot.next.to_ne_bytes());
        data[self.high..self.high + 8].copy_from_slice(&hot.high.to_ne_bytes());
        data[self.flags] = hot.flags;
        data[self.missing..self.missing + 8].copy_from_slice(&hot.missing_bytes.to_ne_bytes());
    }
}
