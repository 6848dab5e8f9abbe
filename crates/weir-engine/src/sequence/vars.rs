//! The part of a sequence's state that every packet accesses, stored in the flow's own record.
//! [`weir_ir::engine_var`] describes each variable.

use weir_ir::abi::Layout;
use weir_ir::engine_var::EngineVar;
use weir_ir::graph::{Graph, Table};
use weir_ir::sequence::PASSED_SHIFT;
use weir_packet::Direction;

/// The places of a sequence's variables in a flow's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceVars {
    next: usize,
    high: usize,
    flags: usize,
    missing: usize,
    stride: usize,
}

/// The values of the variables for one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hot {
    /// The next number expected.
    pub next: u64,
    /// Distance from the first number to the highest number seen.
    pub high: u64,
    /// [`STARTED`](weir_ir::sequence::STARTED) and other flags, without the count.
    pub flags: u32,
    /// Segments that the program passed by itself and that have not been counted yet.
    pub passed: u32,
    /// Bytes passed over.
    pub missing_bytes: u64,
}

impl Hot {
    /// Passes the next `numbers` numbers, with an empty queue.
    pub(super) fn pass(&mut self, numbers: u64, mask: u64) {
        self.next = self.next.wrapping_add(numbers) & mask;
        self.high = self.high.wrapping_add(numbers);
    }
}

impl SequenceVars {
    /// Finds the variables of the sequence of `table`.
    ///
    /// # Errors
    /// The first variable that the graph does not declare.
    pub fn of(graph: &Graph, layout: &Layout, table: Table) -> Result<Self, EngineVar> {
        let offset = |name| Ok(layout.offset(graph.find_var(table, &name).ok_or(name)?));
        Ok(Self {
            next: offset(EngineVar::SeqNext)?,
            high: offset(EngineVar::SeqHigh)?,
            flags: offset(EngineVar::SeqFlags)?,
            missing: offset(EngineVar::SeqMissing)?,
            stride: layout.stride(table),
        })
    }

    /// Reads the values of a direction (false: the originator's) from a flow's record.
    #[inline]
    pub fn read(&self, data: &[u8], side: Direction) -> Hot {
        let data = &data[side.index() * self.stride..];
        let word = |at: usize| u64::from_ne_bytes(data[at..at + 8].try_into().expect("eight bytes"));
        let flags = &data[self.flags..self.flags + 4];
        let flags = u32::from_ne_bytes(flags.try_into().expect("four bytes"));
        Hot {
            next: word(self.next),
            high: word(self.high),
            flags: flags & ((1 << PASSED_SHIFT) - 1),
            passed: flags >> PASSED_SHIFT,
            missing_bytes: word(self.missing),
        }
    }

    /// Sets flags of a direction.
    pub(super) fn raise(&self, data: &mut [u8], side: Direction, flags: u32) {
        let mut hot = self.read(data, side);
        hot.flags |= flags;
        self.write(data, side, hot);
    }

    /// Writes the values of a direction.
    #[inline]
    pub fn write(&self, data: &mut [u8], side: Direction, hot: Hot) {
        let data = &mut data[side.index() * self.stride..];
        data[self.next..self.next + 8].copy_from_slice(&hot.next.to_ne_bytes());
        data[self.high..self.high + 8].copy_from_slice(&hot.high.to_ne_bytes());
        let flags = hot.flags | hot.passed << PASSED_SHIFT;
        data[self.flags..self.flags + 4].copy_from_slice(&flags.to_ne_bytes());
        data[self.missing..self.missing + 8].copy_from_slice(&hot.missing_bytes.to_ne_bytes());
    }
}
