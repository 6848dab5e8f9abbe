//! Gaps that show at the end of a flow: no packet runs the program's statements for them, so the engine does.

use crate::flow_ref::FlowRef;
use crate::flows::Flows;
use weir_ir::abi::{
    Continuation, FlowRecord, Host, Resume, SEQ_RETRANSMITTED, SeqInsert, SeqInserted, Step, gap_packet,
};
use weir_packet::Direction;

impl Flows {
    /// Runs the statements `on gap` of a flow's layer for a gap of `side`. Costs a pass through the program's
    /// head.
    pub fn run_on_gap(&mut self, FlowRef { table, id, .. }: FlowRef, side: Direction) {
        let (packet, mut k) = (gap_packet(table), Continuation::default());
        if self.program.head(&packet, &[], &mut k) == Step::Lookup {
            let flow = FlowRecord { id: id.0, data: self.tables[table.index()].flows.entry_mut(id).1 };
            let resume = Resume { packet: &packet, frame: &[], flow, direction: side, is_new: false };
            self.program.resume(&mut GapHost, resume, &mut k);
        }
    }
}

/// The host of these statements, which only change variables of the flow.
struct GapHost;

impl Host for GapHost {
    fn seq_insert(&mut self, _: SeqInsert<'_>) -> SeqInserted {
        SeqInserted { status: SEQ_RETRANSMITTED, skip_bytes: 0 }
    }
}
