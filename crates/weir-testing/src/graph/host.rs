//! An engine that writes down what it is asked and answers by rule.

use std::collections::HashMap;
use std::sync::Arc;
use weir_ir::abi::{FlowRecord, Host, METAS_MAX, Ordered, SEQ_FORCED, SEQ_ORDERED, SEQ_QUEUED, Slice};
use weir_ir::graph::{Event, Sequence, Table};
use weir_packet::Block;

/// Writes down every call, one line each. What it answers depends on the arguments only: bytes at a
/// sequence number divisible by three are in order, others are queued, and come next when asked for.
#[derive(Debug, Default)]
pub struct RecordingHost {
    /// The calls.
    pub calls: Vec<String>,
    queued: HashMap<(Sequence, u32, bool), Vec<Ordered>>,
    collected: Vec<u8>,
    whole: Vec<u64>,
}

impl RecordingHost {
    /// Writes a call down, with what the flow's variables held at that time.
    fn note(&mut self, call: String, flow: &FlowRecord<'_>) {
        self.calls.push(format!("{call} flow {} {:02x?}", flow.id, flow.data));
    }
}

impl Host for RecordingHost {
    fn seq_insert(
        &mut self,
        sequence: Sequence,
        flow: FlowRecord<'_>,
        side: bool,
        at: u64,
        bytes: &[u8],
        claimed_bytes: u64,
        span: u64,
        metas: &[u64],
    ) -> (u64, u64) {
        let call = format!("insert {sequence} {side} {at} {bytes:02x?} of {claimed_bytes} {span} {metas:?}");
        self.note(call, &flow);
        if at.is_multiple_of(3) {
            return (SEQ_ORDERED, at % 5);
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
        self.queued.entry((sequence, flow.id, side)).or_default().push(piece);
        (if at % 3 == 1 { SEQ_QUEUED } else { SEQ_FORCED }, 0)
    }

    fn seq_acknowledge(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: bool, at: u64) {
        self.note(format!("acknowledge {sequence} {side} {at}"), &flow);
    }

    fn seq_next(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: bool) -> Option<Ordered> {
        self.note(format!("next {sequence} {side}"), &flow);
        self.queued.get_mut(&(sequence, flow.id, side))?.pop()
    }

    fn seq_assemble(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: bool) -> Slice {
        self.note(format!("assemble {sequence} {side}"), &flow);
        let pieces = self.queued.remove(&(sequence, flow.id, side)).unwrap_or_default();
        let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.bytes.bytes()).copied().collect();
        slice(&bytes)
    }

    fn collect(
        &mut self,
        table: Table,
        flow: FlowRecord<'_>,
        side: bool,
        gap_bytes: u64,
        bytes: &[u8],
        claimed_bytes: u64,
        whole: &[u64],
    ) {
        let call = format!("collect {table} {side} after {gap_bytes} {bytes:02x?} of {claimed_bytes}");
        self.note(format!("{call} {whole:?}"), &flow);
        self.collected.extend_from_slice(bytes);
        self.whole = whole.to_vec();
    }

    fn whole_value(&mut self, number: usize) -> u64 {
        self.calls.push(format!("value {number} of the whole"));
        self.whole.get(number).copied().unwrap_or(0)
    }

    fn messages(&mut self, table: Table, flow: FlowRecord<'_>, side: bool) -> Slice {
        self.note(format!("messages {table} {side}"), &flow);
        slice(&self.collected)
    }

    fn next_messages(&mut self, done: u64, wanted: u64) -> Slice {
        self.calls.push(format!("next messages behind {done} wanted {wanted}"));
        self.collected.drain(..self.collected.len().min(done as usize));
        slice(&self.collected)
    }

    fn deliver(
        &mut self,
        table: Table,
        flow: FlowRecord<'_>,
        side: bool,
        gap_bytes: u64,
        bytes: &[u8],
        claimed_bytes: u64,
    ) {
        let call = format!("deliver {table} {side} after {gap_bytes} {bytes:02x?} of {claimed_bytes}");
        self.note(call, &flow);
    }

    /// What is kept and then told to nobody may be left out, so the number is of the bytes, not of the call.
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

/// A slice that does not start where its block does, as real ones do not.
fn slice(bytes: &[u8]) -> Slice {
    let mut block = vec![0xee; 3];
    block.extend_from_slice(bytes);
    block.push(0xee);
    Slice { block: Arc::new(Block::from(block)), offset: 3, length: bytes.len() as u32 }
}
