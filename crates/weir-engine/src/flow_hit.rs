//! A flow that was found or created for a packet.

use crate::flow_ref::{FlowRef, PARTS};
use crate::table::FlowId;
use std::num::NonZeroU64;
use weir_ir::graph::Table;

/// A flow that was found or created for a packet: its table, its id, and how the packet relates to it.
///
/// The value is a single word, which is copied in a register. A copy of several fields would be one wide load
/// of bytes that were just written by several stores. The processor cannot forward such stores; it waits
/// until all earlier stores complete, among them stores to table entries that are not in the cache yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlowHit(NonZeroU64);

/// Always set, so that the word is not 0.
const FOUND: u64 = 1 << 63;
/// The responder sent the packet.
const RESPONDER: u64 = 1 << 62;
/// The flow was created for the packet.
const NEW: u64 = 1 << 61;
/// The first bit of the table's part, if workers share the table.
const PART_SHIFT: u32 = 56;
/// The first bit of the table's number; the bits below hold the flow's number.
const TABLE_SHIFT: u32 = 32;
const _: () = assert!(NEW >> PART_SHIFT >= PARTS as u64);

impl FlowHit {
    /// Flow `id` of `table`. `responder`: the responder sent the packet. `new`: the flow was created for the
    /// packet.
    #[inline]
    pub fn new(table: Table, id: FlowId, responder: bool, new: bool) -> Self {
        debug_assert!(table.0 < 1 << 24, "graphs have some tens of tables");
        let flags = if responder { FOUND | RESPONDER } else { FOUND } | if new { NEW } else { 0 };
        let word = flags | u64::from(table.0) << TABLE_SHIFT | u64::from(id.0);
        Self(NonZeroU64::new(word).expect("a bit is set"))
    }

    /// The flow of the same number in a part of a shared table.
    #[inline]
    pub fn in_part(self, part: u8) -> Self {
        debug_assert!(usize::from(part) < PARTS, "a table has {PARTS} parts");
        Self(self.0 | u64::from(part) << PART_SHIFT)
    }

    #[inline]
    pub fn table(self) -> Table {
        Table((self.0.get() >> TABLE_SHIFT) as u32 & 0xff_ffff)
    }

    #[inline]
    pub fn id(self) -> FlowId {
        FlowId(self.0.get() as u32)
    }

    /// The responder sent the packet.
    #[inline]
    pub fn is_responder(self) -> bool {
        self.0.get() & RESPONDER != 0
    }

    /// The flow was created for the packet.
    #[inline]
    pub fn is_new(self) -> bool {
        self.0.get() & NEW != 0
    }

    #[inline]
    pub fn flow(self) -> FlowRef {
        let part = (self.0.get() >> PART_SHIFT) as u8 % PARTS as u8;
        FlowRef::new(self.table(), self.id()).in_part(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_it_is_made_of_comes_out() {
        for (table, id, responder, new) in [
            (0, 0, false, false),
            (3, u32::MAX, true, false),
            (0xff_ffff, 1, false, true),
            (7, 6, true, true),
        ] {
            let part = (id % PARTS as u32) as u8;
            let found = FlowHit::new(Table(table), FlowId(id), responder, new).in_part(part);
            assert_eq!(found.flow(), FlowRef::new(Table(table), FlowId(id)).in_part(part));
            assert_eq!((found.table(), found.id()), (Table(table), FlowId(id)));
            assert_eq!((found.is_responder(), found.is_new()), (responder, new));
        }
    }
}
