//! An engine for tests: it records the program's calls and answers by a fixed rule.

use std::collections::HashMap;
use std::sync::Arc;
use weir_ir::abi::{
    FlowRecord, FlowSide, Host, METAS_MAX, Ordered, OrderedBytes, SEQ_FORCED, SEQ_ORDERED, SEQ_QUEUED,
    SeqInsert, SeqInserted, SeqSide, Slice,
};
use weir_ir::graph::{Event, Sequence};
use weir_packet::{Block, Direction};

/// Records every call as one line. Its answers depend on the arguments only: bytes at a sequence number
/// divisible by three are in order; other bytes are queued, and the next `seq_next` returns them.
#[derive(Debug, Default)]
pub struct RecordingHost {
    /// The recorded calls.
    pub calls: Vec<String>,
    queued: HashMap<(Sequence, u32, Direction), Vec<Ordered>>,
    collected: Vec<u8>,
    whole: Vec<u64>,
}

impl RecordingHost {
    /// Records a call, with the flow's variables at that time.
    fn note(&mut self, call: String, flow: &FlowRecord<'_>) {
        self.calls.push(format!("{call} flow {} {:02x?}", flow.id, flow.data));
    }
}

impl Host for RecordingHost {
    fn seq_insert(&mut self, offer: SeqInsert<'_>) -> SeqInserted {
        let SeqInsert { sequence, flow, direction, at, bytes, claimed_bytes, span, metas } = offer;
        let side = direction.is_responder();
        let call = format!("insert {sequence} {side} {at} {bytes:02x?} of {claimed_bytes} {span} {metas:?}");
        self.note(call, &flow);
        if at.is_multiple_of(3) {
            return SeqInserted { status: SEQ_ORDERED, skip_bytes: at % 5 };
        }
        let mut kept = [0; METAS_MAX];
        kept.iter_mut().zip(metas).for_each(|(word, meta)| *word = *meta);
        let piece = Ordered {
            gap_bytes: at % 7,
            bytes: slice(bytes),
            claimed_bytes,
            of_other: at.is_multiple_of(2),
            metas: kept,
        };
        self.queued.entry((sequence, flow.id, direction)).or_default().push(piece);
        let status = if at % 3 == 1 { SEQ_QUEUED } else { SEQ_FORCED };
        SeqInserted { status, skip_bytes: 0 }
    }

    fn seq_acknowledge(&mut self, of: SeqSide<'_>, at: u64) {
        self.note(format!("acknowledge {} {} {at}", of.sequence, of.direction.is_responder()), &of.flow);
    }

    fn seq_begin(&mut self, of: SeqSide<'_>, at: u64) {
        self.note(format!("begin {} {} {at}", of.sequence, of.direction.is_responder()), &of.flow);
    }

    fn seq_hold(&mut self, of: SeqSide<'_>, at: u64, span: u64) {
        let said = format!("hold {} {} {at} {span}", of.sequence, of.direction.is_responder());
        self.note(said, &of.flow);
    }

    fn seq_next(&mut self, of: SeqSide<'_>) -> Option<Ordered> {
        self.note(format!("next {} {}", of.sequence, of.direction.is_responder()), &of.flow);
        self.queued.get_mut(&(of.sequence, of.flow.id, of.direction))?.pop()
    }

    fn seq_assemble(&mut self, of: SeqSide<'_>) -> Slice {
        self.note(format!("assemble {} {}", of.sequence, of.direction.is_responder()), &of.flow);
        let pieces = self.queued.remove(&(of.sequence, of.flow.id, of.direction)).unwrap_or_default();
        let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.bytes.bytes()).copied().collect();
        slice(&bytes)
    }

    fn collect(&mut self, of: FlowSide<'_>, next: OrderedBytes<'_>, whole: &[u64]) {
        self.note(format!("collect {} {whole:?}", in_order(&of, &next)), &of.flow);
        self.collected.extend_from_slice(next.bytes);
        self.whole = whole.to_vec();
    }

    fn whole_value(&mut self, number: usize) -> u64 {
        self.calls.push(format!("value {number} of the whole"));
        self.whole.get(number).copied().unwrap_or(0)
    }

    fn messages(&mut self, of: FlowSide<'_>) -> Slice {
        self.note(format!("messages {} {}", of.table, of.direction.is_responder()), &of.flow);
        slice(&self.collected)
    }

    fn next_messages(&mut self, done: u64, wanted: u64) -> Slice {
        self.calls.push(format!("next messages behind {done} wanted {wanted}"));
        self.collected.drain(..self.collected.len().min(done as usize));
        slice(&self.collected)
    }

    fn deliver(&mut self, of: FlowSide<'_>, next: OrderedBytes<'_>) {
        self.note(format!("deliver {}", in_order(&of, &next)), &of.flow);
    }

    /// The number is computed from the bytes. It must not count the calls: a pass may remove a `keep` whose
    /// result is not used.
    fn keep(&mut self, bytes: &[u8]) -> u64 {
        bytes.iter().fold(bytes.len() as u64, |sum, &byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)))
    }

    fn emit(&mut self, event: Event, flow: Option<FlowRecord<'_>>, values: &[u64]) {
        let call = format!("emit {event} {values:?}");
        match flow {
            Some(flow) => self.note(call, &flow),
            None => self.calls.push(call),
        }
    }
}

fn in_order(of: &FlowSide<'_>, next: &OrderedBytes<'_>) -> String {
    let OrderedBytes { gap_bytes, bytes, claimed_bytes } = next;
    let side = of.direction.is_responder();
    format!("{} {side} after {gap_bytes} {bytes:02x?} of {claimed_bytes}", of.table)
}

/// A slice that begins in the middle of its block, as in real runs.
fn slice(bytes: &[u8]) -> Slice {
    let mut block = vec![0xee; 3];
    block.extend_from_slice(bytes);
    block.push(0xee);
    Slice { block: Arc::new(Block::from(block)), offset: 3, length: bytes.len() as u32 }
}
