//! A minimal engine: flows in a map, and sequences that follow the rules of `weir-engine` as far as programs
//! can observe them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use weir_ir::abi::{
    Continuation, FlowRecord, FlowSide, Host, Layout, MESSAGES_LOST, METAS_MAX, OUTS_MAX, Ordered,
    OrderedBytes, Program, Resume, SEQ_FORCED, SEQ_ORDERED, SEQ_OUT_OF_WINDOW, SEQ_QUEUED, SEQ_RETRANSMITTED,
    SeqInsert, SeqInserted, SeqSide, Slice, Step,
};
use weir_ir::engine_var::EngineVar;
use weir_ir::graph::{Event, Graph, Sequence, SequenceDecl, Table, Var, VarKind};
use weir_ir::sequence::{ACKNOWLEDGES, ENDED, QUEUED, RETAINED, STARTED};
use weir_packet::{Block, Direction, DropReason, PacketMeta};

const WINDOW_MAX: u64 = 1 << 30;
const PIECES_MAX: usize = 3;
const STEPS_MAX: usize = 12;

/// A table and a key of it.
type Key = (u32, Vec<u64>);

/// The observable behaviour of a run.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    /// By packet.
    pub packets: Vec<PacketOutcome>,
    /// The observed variables of the flows of observed tables, at the end.
    pub flows: BTreeMap<Key, Vec<(String, Vec<u8>)>>,
}

/// The observable behaviour of a packet.
#[derive(Debug, PartialEq)]
pub struct PacketOutcome {
    done: Option<(u64, Option<DropReason>)>,
    outs: Vec<u64>,
    /// Lookups in observed tables, bytes delivered, wanted events.
    calls: Vec<String>,
}

impl PacketOutcome {
    /// The bits of the terms that the packet satisfies.
    pub fn terms(&self) -> u64 {
        self.done.map_or(0, |(terms, _)| terms)
    }

    /// Lookups, deliveries and events, as text.
    pub fn calls(&self) -> &[String] {
        &self.calls
    }
}

struct Flow {
    id: u32,
    swap: bool,
    data: Vec<u8>,
}

/// Runs packets in order through a program.
pub fn run(program: &dyn Program, packets: &[(PacketMeta, Vec<u8>)]) -> Outcome {
    let (graph, layout) = (program.graph(), program.layout());
    let (kept, acknowledged, collected) = Default::default();
    let at_hand = (Table(0), 0, false);
    let mut host = PlainHost { graph, layout, calls: vec![], kept, acknowledged, collected, at_hand };
    let mut flows: BTreeMap<Key, Flow> = BTreeMap::new();
    let mut k = Continuation::default();
    let mut ids = vec![0; graph.tables.len()];
    let mut outcomes = vec![];
    for (packet, frame) in packets {
        k.outs = [0; OUTS_MAX];
        let mut step = program.head(packet, frame, &mut k);
        for _ in 0..STEPS_MAX {
            let place = (k.table, k.key().to_vec());
            let is_restart = step == Step::Restart;
            match step {
                Step::Done(_) => break,
                Step::Lookup => {}
                Step::Restart => drop(flows.remove(&place)),
            }
            if graph.tables[k.table as usize].observed {
                host.calls.push(format!("flow {place:?} swap {} restart {is_restart}", k.swap));
            }
            let is_known = flows.contains_key(&place);
            let flow = flows.entry(place).or_insert_with(|| {
                ids[k.table as usize] += 1;
                let mut data = vec![0; layout.size(Table(k.table))];
                if let Some(var) = graph.find_var(Table(k.table), &EngineVar::Wants) {
                    data[layout.offset(var)] = 3;
                }
                Flow { id: ids[k.table as usize], swap: k.sender().0 != k.sender().1, data }
            });
            let direction = Direction::responder_if(flow.swap != k.sender().0);
            let record = FlowRecord { id: flow.id, data: &mut flow.data };
            let at = Resume { packet, frame, flow: record, direction, is_new: !is_known };
            step = program.resume(&mut host, at, &mut k);
        }
        let done = match step {
            Step::Done(reason) => Some((k.terms, reason)),
            Step::Lookup | Step::Restart => None,
        };
        let outs = k.outs[..graph.outs.len()].to_vec();
        outcomes.push(PacketOutcome { done, outs, calls: std::mem::take(&mut host.calls) });
    }
    let observed = flows.into_iter().filter(|((table, _), _)| graph.tables[*table as usize].observed);
    let flows = observed
        .map(|(place, flow)| {
            let vars = observed_vars(graph, layout, Table(place.0), &flow.data);
            (place, vars)
        })
        .collect();
    Outcome { packets: outcomes, flows }
}

fn observed_vars(graph: &Graph, layout: &Layout, table: Table, data: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut vars = vec![];
    for (at, var) in graph.vars.iter().enumerate().filter(|(_, v)| v.table == table && v.observed) {
        let bytes = match var.kind {
            VarKind::Bits(bits) => usize::from(bits) / 8,
            VarKind::Letters(max) => usize::from(max) + 1,
        };
        let start = layout.offset(Var(at as u32));
        vars.push((var.name.to_string(), data[start..start + bytes].to_vec()));
        if var.each_side {
            let start = start + layout.stride(table);
            vars.push((format!("{} back", var.name), data[start..start + bytes].to_vec()));
        }
    }
    vars
}

struct PlainHost<'a> {
    graph: &'a Graph,
    layout: &'a Layout,
    calls: Vec<String>,
    kept: HashMap<(Table, u32, bool), Vec<Piece>>,
    acknowledged: HashMap<(Table, u32, bool), u64>,
    collected: HashMap<(Table, u32, bool), Vec<u8>>,
    at_hand: (Table, u32, bool),
}

struct Piece {
    at: u64,
    span: u64,
    bytes: Ordered,
}

/// A sequence's variables of one direction.
struct Hot<'a, 'd> {
    host: &'a PlainHost<'a>,
    table: Table,
    data: &'d mut [u8],
    side: bool,
}

impl Hot<'_, '_> {
    fn place(&self, var: EngineVar) -> usize {
        let var = self.host.graph.find_var(self.table, &var).expect("a sequence has all its variables");
        let is_sided = self.host.graph.vars[var.index()].each_side;
        let stride = if self.side && is_sided { self.host.layout.stride(self.table) } else { 0 };
        self.host.layout.offset(var) + stride
    }

    fn word(&self, var: EngineVar) -> u64 {
        let at = self.place(var);
        u64::from_ne_bytes(self.data[at..at + 8].try_into().expect("eight bytes"))
    }

    fn set_word(&mut self, var: EngineVar, word: u64) {
        let at = self.place(var);
        self.data[at..at + 8].copy_from_slice(&word.to_ne_bytes());
    }

    fn flags(&self) -> u32 {
        let at = self.place(EngineVar::SeqFlags);
        u32::from_ne_bytes(self.data[at..at + 4].try_into().expect("four bytes"))
    }

    fn set_flags(&mut self, flags: u32) {
        let at = self.place(EngineVar::SeqFlags);
        self.data[at..at + 4].copy_from_slice(&flags.to_ne_bytes());
    }
}

fn mask(decl: &SequenceDecl) -> u64 {
    if decl.from_first { u64::MAX >> (64 - u32::from(decl.bits)) } else { u64::MAX }
}

fn slice(bytes: &[u8]) -> Slice {
    Slice { block: Arc::new(Block::from(bytes.to_vec())), offset: 0, length: bytes.len() as u32 }
}

impl PlainHost<'_> {
    /// The next piece of a direction; also after a gap if that is before `acknowledged`.
    fn pull(
        &mut self,
        sequence: Sequence,
        flow: FlowRecord<'_>,
        side: bool,
        acknowledged: Option<u64>,
    ) -> Option<Ordered> {
        let decl = &self.graph.sequences[sequence.index()];
        let (mask, table, retain) = (mask(decl), decl.table, decl.retain);
        let mut kept = self.kept.remove(&(table, flow.id, side)).unwrap_or_default();
        let mut hot = Hot { host: self, table, data: flow.data, side };
        let mut found = None;
        if hot.flags() & QUEUED != 0 {
            let next = hot.word(EngineVar::SeqNext);
            let queued = kept.iter().filter(|p| p.at != u64::MAX).count();
            let fits = kept.iter().position(|p| p.at == next);
            let arrived = acknowledged.and_then(|at| {
                let end = at.wrapping_sub(next) & mask;
                kept.iter().position(|p| p.at.wrapping_sub(next) & mask <= end)
            });
            let forced = (queued > PIECES_MAX && !retain)
                .then(|| kept.iter().position(|p| p.at != u64::MAX))
                .flatten();
            if let Some(at) = fits.or(arrived).or(forced) {
                let piece = kept.remove(at);
                let gap = piece.at.wrapping_sub(next) & mask;
                hot.set_word(EngineVar::SeqNext, piece.at.wrapping_add(piece.span) & mask);
                hot.set_word(EngineVar::SeqMissing, hot.word(EngineVar::SeqMissing).wrapping_add(gap));
                if queued == 1 {
                    hot.set_flags(hot.flags() & !QUEUED);
                }
                found = Some(Ordered { gap_bytes: gap, ..piece.bytes.clone() });
                if retain {
                    hot.set_flags(hot.flags() | RETAINED);
                    kept.push(Piece { at: u64::MAX, ..piece });
                }
            }
        }
        self.kept.insert((table, flow.id, side), kept);
        found
    }
}

impl Host for PlainHost<'_> {
    fn seq_insert(&mut self, offer: SeqInsert<'_>) -> SeqInserted {
        let inserted = |status, skip_bytes| SeqInserted { status, skip_bytes };
        let SeqInsert { sequence, flow, direction, at, bytes, claimed_bytes, span, metas } = offer;
        let side = direction.is_responder();
        let decl = &self.graph.sequences[sequence.index()];
        let (mask, table, retain) = (mask(decl), decl.table, decl.retain);
        let key = (table, flow.id, side);
        let mut hot = Hot { host: self, table, data: flow.data, side };
        let _ = hot.word(EngineVar::SeqMissing);
        if hot.flags() & STARTED == 0 {
            hot.set_flags(hot.flags() | STARTED);
            hot.set_word(EngineVar::SeqNext, if decl.from_first { at & mask } else { 0 });
        }
        let next = hot.word(EngineVar::SeqNext);
        let forward = at.wrapping_sub(next) & mask;
        let is_old = if decl.from_first { forward > mask >> 1 } else { at < next };
        let old = if is_old { next.wrapping_sub(at) & mask } else { 0 };
        let ahead = if is_old { 0 } else { forward };
        if ahead.max(old) > WINDOW_MAX {
            return inserted(SEQ_OUT_OF_WINDOW, 0);
        }
        if span == 0 {
            return inserted(if ahead | old == 0 { SEQ_ORDERED } else { SEQ_QUEUED }, 0);
        }
        if old >= span {
            return inserted(SEQ_RETRANSMITTED, 0);
        }
        if hot.flags() & ENDED != 0 {
            return inserted(SEQ_OUT_OF_WINDOW, 0);
        }
        let new = span - old;
        hot.set_word(EngineVar::SeqHigh, hot.word(EngineVar::SeqHigh) + if ahead == 0 { new } else { 0 });
        if ahead == 0 && (retain || hot.flags() & (QUEUED | ACKNOWLEDGES) == 0) {
            hot.set_word(EngineVar::SeqNext, next.wrapping_add(new) & mask);
            if retain {
                hot.set_flags(hot.flags() | RETAINED);
                let piece = Ordered { bytes: slice(bytes), claimed_bytes, ..Ordered::default() };
                self.kept.entry(key).or_default().push(Piece { at: u64::MAX, span, bytes: piece });
            }
            return inserted(
                SEQ_ORDERED,
                if span < claimed_bytes && old == 0 {
                    0
                } else {
                    old.max(claimed_bytes * u64::from(span < claimed_bytes)).min(claimed_bytes)
                },
            );
        }
        hot.set_flags(hot.flags() | QUEUED);
        let mut words = [0; METAS_MAX];
        words.iter_mut().zip(metas).for_each(|(word, meta)| *word = *meta);
        let piece = Ordered { bytes: slice(bytes), claimed_bytes, metas: words, ..Ordered::default() };
        let kept = self.kept.entry(key).or_default();
        kept.push(Piece { at: at & mask, span, bytes: piece });
        inserted(if ahead == 0 || kept.len() > PIECES_MAX { SEQ_FORCED } else { SEQ_QUEUED }, 0)
    }

    fn seq_acknowledge(&mut self, of: SeqSide<'_>, at: u64) {
        let SeqSide { sequence, flow, direction } = of;
        let side = direction.is_responder();
        let decl = &self.graph.sequences[sequence.index()];
        let (table, retain) = (decl.table, decl.retain);
        let hot = Hot { host: self, table, data: flow.data, side };
        if hot.flags() & QUEUED != 0 && !retain {
            let mut other = Hot { side: !side, ..hot };
            other.set_flags(other.flags() | ACKNOWLEDGES);
            self.acknowledged.insert((table, flow.id, side), at);
        }
    }

    fn seq_begin(&mut self, of: SeqSide<'_>, at: u64) {
        let SeqSide { sequence, flow, direction } = of;
        let decl = &self.graph.sequences[sequence.index()];
        let (mask, table, is_open) = (mask(decl), decl.table, decl.from_first && !decl.retain);
        let mut hot = Hot { host: self, table, data: flow.data, side: direction.is_responder() };
        if is_open && hot.word(EngineVar::SeqHigh) == 0 {
            hot.set_word(EngineVar::SeqNext, at & mask);
            hot.set_flags(hot.flags() | STARTED);
        }
    }

    fn seq_hold(&mut self, of: SeqSide<'_>, _: u64, span: u64) {
        let SeqSide { sequence, flow, direction } = of;
        let decl = &self.graph.sequences[sequence.index()];
        if decl.retain || span > 0 {
            return;
        }
        let (table, side) = (decl.table, direction.is_responder());
        self.kept.remove(&(table, flow.id, side));
        let mut hot = Hot { host: self, table, data: flow.data, side };
        hot.set_flags(hot.flags() & !QUEUED | ENDED);
    }

    fn seq_next(&mut self, of: SeqSide<'_>) -> Option<Ordered> {
        let SeqSide { sequence, flow, direction } = of;
        let side = direction.is_responder();
        let table = self.graph.sequences[sequence.index()].table;
        let (id, data) = (flow.id, flow.data);
        let hot = Hot { host: self, table, data, side };
        if hot.flags() & ACKNOWLEDGES != 0 {
            let at = self.acknowledged.get(&(table, id, !side)).copied();
            if let Some(next) = self.pull(sequence, FlowRecord { id, data: &mut *data }, !side, at) {
                return Some(Ordered { of_other: true, ..next });
            }
            let mut hot = Hot { host: self, table, data: &mut *data, side };
            hot.set_flags(hot.flags() & !ACKNOWLEDGES);
        }
        self.pull(sequence, FlowRecord { id, data }, side, None)
    }

    fn seq_assemble(&mut self, of: SeqSide<'_>) -> Slice {
        let SeqSide { sequence, flow, direction } = of;
        let side = direction.is_responder();
        let table = self.graph.sequences[sequence.index()].table;
        let kept = self.kept.entry((table, flow.id, side)).or_default();
        let whole = kept.iter().filter(|p| p.at == u64::MAX);
        let bytes: Vec<u8> = whole.flat_map(|p| p.bytes.bytes.bytes()).copied().collect();
        kept.retain(|p| p.at != u64::MAX);
        let mut hot = Hot { host: self, table, data: flow.data, side };
        hot.set_flags(hot.flags() & !RETAINED);
        slice(&bytes)
    }

    fn collect(&mut self, of: FlowSide<'_>, next: OrderedBytes<'_>, _whole: &[u64]) {
        let direction = (of.table, of.flow.id, of.direction.is_responder());
        let collected = self.collected.entry(direction).or_default();
        if next.gap_bytes > 0 {
            collected.clear();
        }
        collected.extend_from_slice(next.bytes);
    }

    fn whole_value(&mut self, number: usize) -> u64 {
        number as u64
    }

    fn messages(&mut self, of: FlowSide<'_>) -> Slice {
        self.at_hand = (of.table, of.flow.id, of.direction.is_responder());
        self.next_messages(0, 0)
    }

    fn next_messages(&mut self, done: u64, wanted: u64) -> Slice {
        let collected = self.collected.entry(self.at_hand).or_default();
        let over = if wanted == MESSAGES_LOST { collected.len() } else { collected.len().min(done as usize) };
        collected.drain(..over);
        match wanted > collected.len() as u64 {
            true => slice(&[]),
            false => slice(collected),
        }
    }

    fn deliver(&mut self, of: FlowSide<'_>, next: OrderedBytes<'_>) {
        let FlowSide { table, flow, direction } = of;
        let (side, OrderedBytes { gap_bytes, bytes, claimed_bytes }) = (direction.is_responder(), next);
        if self.graph.tables[table.index()].delivers {
            let id = flow.id;
            self.calls
                .push(format!("deliver {table} {id} {side} {gap_bytes} {bytes:02x?} of {claimed_bytes}"));
        }
    }

    /// Returns a hash of the contents, not a counter, because bytes of unwanted events may or may not be
    /// kept.
    fn keep(&mut self, bytes: &[u8]) -> u64 {
        bytes.iter().fold(bytes.len() as u64, |sum, &byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)))
    }

    fn emit(&mut self, event: Event, flow: Option<FlowRecord<'_>>, values: &[u64]) {
        if self.graph.events[event.index()].wanted {
            self.calls.push(format!("emit {event} {:?} {values:?}", flow.map(|f| f.id)));
        }
    }
}
