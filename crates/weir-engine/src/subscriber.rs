//! Whoever is given what questions asked for.

use crate::flow::{EndReason, FlowView};
use weir_packet::PacketMeta;
use weir_sessions::{Direction, Session};

/// Where in the run something happened: the same whatever the number of workers, so that their
/// rows can be merged into one order. Compares as it came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Order {
    /// Number of the burst, counted over all workers.
    pub burst: u64,
    /// 0: flows ended before the burst; 1: a packet of it.
    pub phase: u8,
    /// Deadline of the flow, or number of the packet.
    pub at: i64,
    /// Number of the flow's first packet.
    pub flow: u64,
}

/// Is given what questions asked for. One per worker; calls come in the order of the capture.
///
/// Everything handed over is valid during the call only.
pub trait Subscriber: Send {
    /// A packet. `outs`: its record, as the program's slots say.
    fn packet(&mut self, order: Order, question: usize, packet: &PacketMeta, frame: &[u8], outs: &[u64]) {
        let _ = (order, question, packet, frame, outs);
    }

    /// A connection, when it is over.
    fn connection(&mut self, order: Order, question: usize, flow: &FlowView<'_>, reason: EndReason) {
        let _ = (order, question, flow, reason);
    }

    /// A session. `protocol`: index into the plan's protocols.
    fn session(
        &mut self,
        order: Order,
        question: usize,
        flow: &FlowView<'_>,
        protocol: usize,
        session: &dyn Session,
    ) {
        let _ = (order, question, flow, protocol, session);
    }

    /// Bytes in order, `gap_bytes` missing before them.
    fn stream(
        &mut self,
        order: Order,
        question: usize,
        flow: &FlowView<'_>,
        from: Direction,
        gap_bytes: u64,
        bytes: &[u8],
    ) {
        let _ = (order, question, flow, from, gap_bytes, bytes);
    }
}
