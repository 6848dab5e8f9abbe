//! One run: from the entry or from a lookup to the next lookup or the end.

use super::trace::TraceStep;
use super::{Interpreter, Trace, arithmetic};
use crate::abi::{Continuation, FlowRecord, Host, REVERSED, Slice, Step};
use crate::checksum::sum16;
use crate::excerpt::excerpt;
use crate::graph::{Block, Graph, Inst, Meta, NumberFormat, Op, Target, Terminator, Type, Value};
use crate::items::items_fit;
use crate::liveness::words_of_bools;
use weir_packet::PacketMeta;

/// The input of a run.
#[derive(Debug, Clone, Copy)]
pub(super) enum Record<'a> {
    /// A packet's bytes.
    Frame(&'a [u8]),
    /// The record on which a deferred predicate is evaluated.
    Inputs {
        /// Its numbers.
        numbers: &'a [u64],
        /// Its bytes.
        bytes: &'a [&'a [u8]],
    },
}

/// The host and the flow, after a lookup.
pub(super) struct Tail<'a> {
    pub(super) host: &'a mut dyn Host,
    pub(super) flow: FlowRecord<'a>,
}

/// The current values.
#[derive(Debug)]
pub(super) struct Registers {
    /// One word per value: bools as 0 and 1, buffers packed, flows unused (there is only one).
    pub(super) values: Vec<u64>,
    args: Vec<u64>,
}

impl Registers {
    pub(super) fn of(graph: &Graph) -> Self {
        Self { values: vec![0; graph.values.len()], args: vec![] }
    }
}

/// A buffer: the first bytes of its source.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buffer {
    /// 0: the frame. Others, from 1: a kept slice or an input.
    pub(super) source: u32,
    /// Number of bytes.
    pub(super) length: u32,
}

impl Buffer {
    fn pack(self) -> u64 {
        u64::from(self.source) << 32 | u64::from(self.length)
    }

    fn unpack(word: u64) -> Self {
        Self { source: (word >> 32) as u32, length: word as u32 }
    }
}

/// The range `offset .. offset + length` of a buffer, clipped to the buffer.
pub(super) fn cut(bytes: &[u8], offset: u64, length: u64) -> &[u8] {
    let all = bytes.len() as u64;
    let (start, end) = (offset.min(all), offset.saturating_add(length).min(all));
    &bytes[start as usize..end as usize]
}

pub(super) struct Run<'a, 't> {
    pub(super) program: &'a Interpreter,
    packet: &'a PacketMeta,
    record: Record<'a>,
    pub(super) tail: Option<Tail<'t>>,
    pub(super) k: &'a mut Continuation,
    registers: &'a mut Registers,
    trace: Trace<'a>,
}

impl<'a, 't> Run<'a, 't> {
    pub(super) fn new(
        program: &'a Interpreter,
        packet: &'a PacketMeta,
        record: Record<'a>,
        tail: Option<Tail<'t>>,
        k: &'a mut Continuation,
        registers: &'a mut Registers,
        trace: Trace<'a>,
    ) -> Self {
        if tail.is_none() {
            k.fuels[..program.graph.fuels as usize].fill(0);
        }
        Self { program, packet, record, tail, k, registers, trace }
    }

    pub(super) fn run(&mut self, mut at: Block) -> Step {
        let graph = &self.program.graph;
        loop {
            self.note(|| TraceStep::Block(at));
            let block = graph.block(at);
            for inst in &block.insts {
                self.inst(inst);
            }
            at = match &block.terminator {
                Terminator::Jump(target) => self.go(target),
                Terminator::Branch { condition, then, otherwise } => {
                    self.choose(self.bool(*condition), then, otherwise)
                }
                Terminator::Switch { value, cases, otherwise } => {
                    let value = self.int(*value);
                    self.go(cases.iter().find(|(case, _)| *case == value).map_or(otherwise, |(_, t)| t))
                }
                Terminator::Check { buf, offset, bytes, then, otherwise } => {
                    let passes = self.check(*buf, *offset, *bytes);
                    self.choose(passes, then, otherwise)
                }
                Terminator::Again { fuel, max, then, otherwise } => {
                    let taken = &mut self.k.fuels[fuel.index()];
                    let again = *taken < *max;
                    *taken += u32::from(again);
                    self.choose(again, then, otherwise)
                }
                Terminator::Lookup { table, key, swap, reversed, .. } => {
                    self.suspend(at, table.0, key, (*swap, *reversed));
                    return Step::Lookup;
                }
                Terminator::Restart => {
                    self.note(|| TraceStep::Restart);
                    return Step::Restart;
                }
                Terminator::Rejoin { .. } => unreachable!("the verifier: only whole graphs are interpreted"),
                Terminator::Done { terms, reason } => {
                    let terms = self.int(*terms);
                    self.k.terms = terms;
                    self.note(|| TraceStep::Done { terms, reason: *reason });
                    return Step::Done(*reason);
                }
            };
        }
    }

    fn choose(&mut self, first: bool, then: &Target, otherwise: &Target) -> Block {
        self.go(if first { then } else { otherwise })
    }

    /// Passes the arguments to the block's parameters. Reads all arguments before it writes any parameter,
    /// because a loop may swap two.
    fn go(&mut self, target: &Target) -> Block {
        let Registers { values, args, .. } = &mut *self.registers;
        args.clear();
        args.extend(target.args.iter().map(|arg| values[arg.index()]));
        for (param, &arg) in self.program.graph.block(target.block).params.iter().zip(args.iter()) {
            values[param.index()] = arg;
        }
        target.block
    }

    fn check(&mut self, buf: Value, offset: Value, bytes: u32) -> bool {
        let (buffer, at) = (self.buf(buf), self.int(offset));
        let passes = at.checked_add(u64::from(bytes)).is_some_and(|end| end <= u64::from(buffer.length));
        self.note(|| TraceStep::Check { buf, offset: at, bytes, length: buffer.length, passes });
        passes
    }

    fn suspend(&mut self, at: Block, table: u32, key: &[Value], (swap, reversed): (Value, Option<Value>)) {
        let number = self.program.resumes[at.index()];
        let values = &self.registers.values;
        self.k.set_key(key.iter().map(|word| values[word.index()]));
        self.k.table = table;
        self.k.resume = number;
        let reversed = reversed.is_some_and(|reversed| self.bool(reversed));
        self.k.swap = u32::from(self.bool(swap)) | if reversed { REVERSED } else { 0 };
        let (graph, live) = (&self.program.graph, &self.program.crossings[number as usize].live);
        let mut slot = words_of_bools(graph, live);
        let mut keep = |k: &mut Continuation, word| {
            k.live[slot] = word;
            slot += 1;
        };
        let mut bools = vec![];
        for &value in live {
            let word = self.registers.values[value.index()];
            match graph.type_of(value) {
                Type::Buf => {
                    keep(self.k, word >> 32);
                    keep(self.k, word & 0xffff_ffff);
                }
                Type::Bool => bools.push(word as u8),
                _ => keep(self.k, word),
            }
        }
        for (word, bools) in self.k.live.iter_mut().zip(bools.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..bools.len()].copy_from_slice(bools);
            *word = u64::from_ne_bytes(bytes);
        }
        if self.trace.is_some() {
            let key = self.k.key().to_vec();
            self.note(|| TraceStep::Lookup { table: crate::graph::Table(table), key });
        }
    }

    fn inst(&mut self, inst: &Inst) {
        let word = match &inst.op {
            Op::Const(n) => *n,
            Op::Bool(b) => u64::from(*b),
            Op::Binary(op, a, b) => op.apply(self.int(*a), self.int(*b)),
            Op::Compare(op, a, b) => u64::from(op.apply(self.int(*a), self.int(*b))),
            Op::Not(a) => u64::from(!self.bool(*a)),
            Op::FromBool(a) => u64::from(self.bool(*a)),
            // The selected word is copied, whatever its type.
            Op::Select(a, b, c) => self.int(if self.bool(*a) { *b } else { *c }),
            Op::Frame => Buffer { source: 0, length: self.source(0).len() as u32 }.pack(),
            Op::Narrow(buf, end) => {
                let Buffer { source, length } = self.buf(*buf);
                Buffer { source, length: self.int(*end).min(u64::from(length)) as u32 }.pack()
            }
            Op::Length(buf) => u64::from(self.buf(*buf).length),
            Op::Load { .. } => self.load(inst),
            Op::Meta(meta) => self.meta(*meta),
            Op::Input(n) => match self.record {
                Record::Inputs { numbers, .. } => numbers.get(*n as usize).copied().unwrap_or(0),
                Record::Frame(_) => 0,
            },
            Op::InputBytes(n) => Buffer { source: n + 1, length: self.source(n + 1).len() as u32 }.pack(),
            Op::Member { set, high, low } => {
                let set = &self.program.graph.sets[set.index()];
                u64::from(arithmetic::member(set, self.int(*high), self.int(*low)))
            }
            Op::Search { pattern, buf, offset, length } => {
                let bytes = cut(self.bytes(*buf), self.int(*offset), self.int(*length));
                u64::from(self.program.patterns.search(*pattern, bytes))
            }
            Op::Sum16 { buf, offset, length, first } => {
                sum16(self.bytes(*buf), self.int(*offset), self.int(*length), self.int(*first))
            }
            Op::ItemsFit { buf, offset, length } => {
                u64::from(items_fit(self.bytes(*buf), self.int(*offset), self.int(*length)))
            }
            Op::Excerpt { buf, offset, length } => {
                excerpt(cut(self.bytes(*buf), self.int(*offset), self.int(*length)))
            }
            Op::Store { out, value } => {
                self.k.outs[out.index()] = self.int(*value);
                return;
            }
            Op::Note { what, values } => {
                if let Some(steps) = &mut self.trace {
                    let word = |value: &Value| self.registers.values[value.index()];
                    steps.push(TraceStep::Note { what: *what, values: values.iter().map(word).collect() });
                }
                return;
            }
            _ => return self.flow_inst(inst),
        };
        self.set(inst.results[0], word);
    }

    fn load(&mut self, inst: &Inst) -> u64 {
        let Op::Load { format, buf, offset, displacement } = inst.op else { unreachable!("a load") };
        let NumberFormat { width, little } = format;
        let offset = self.int(offset) + u64::from(displacement);
        let bytes = &self.bytes(buf)[offset as usize..][..width.bytes() as usize];
        let join = |word: u64, byte: &u8| word << 8 | u64::from(*byte);
        let word = if little { bytes.iter().rev().fold(0, join) } else { bytes.iter().fold(0, join) };
        let (value, bytes) = (inst.results[0], width.bytes());
        self.note(|| TraceStep::Load { value, buf, offset, bytes, word });
        word
    }

    fn meta(&self, meta: Meta) -> u64 {
        match meta {
            // Times before 1970 wrap to 64-bit unsigned numbers.
            Meta::Time => self.packet.time.0 as u64,
            Meta::WireBytes => u64::from(self.packet.wire_bytes),
            Meta::CapturedBytes => u64::from(self.packet.captured_bytes),
            Meta::Link => u64::from(self.packet.link.0),
            Meta::Interface => u64::from(self.packet.interface),
            Meta::Number => self.packet.number,
        }
    }

    /// The word of a value, usually of an int.
    pub(super) fn int(&self, value: Value) -> u64 {
        self.registers.values[value.index()]
    }

    pub(super) fn bool(&self, value: Value) -> bool {
        self.int(value) != 0
    }

    pub(super) fn buf(&self, value: Value) -> Buffer {
        Buffer::unpack(self.int(value))
    }

    pub(super) fn bytes(&self, value: Value) -> &[u8] {
        let Buffer { source, length } = self.buf(value);
        &self.source(source)[..length as usize]
    }

    /// All bytes of a source; empty if there is no such input.
    fn source(&self, number: u32) -> &[u8] {
        source(self.record, &self.k.buffers, number)
    }

    /// The tail and a buffer's bytes, borrowed together.
    pub(super) fn tail_and_bytes(&mut self, buf: Value) -> (&mut Tail<'t>, &[u8]) {
        let Buffer { source: number, length } = self.buf(buf);
        let bytes = &source(self.record, &self.k.buffers, number)[..length as usize];
        (self.tail.as_mut().expect("the verifier: this comes after a lookup"), bytes)
    }

    pub(super) fn set(&mut self, value: Value, word: u64) {
        self.registers.values[value.index()] = word;
    }

    /// Keeps a slice until the packet is finished.
    pub(super) fn keep(&mut self, value: Value, slice: Slice) {
        let length = slice.length;
        self.k.buffers.push(slice);
        self.set(value, Buffer { source: self.k.buffers.len() as u32, length }.pack());
    }

    fn note(&mut self, step: impl FnOnce() -> TraceStep) {
        if let Some(steps) = &mut self.trace {
            steps.push(step());
        }
    }
}

fn source<'a>(record: Record<'a>, kept: &'a [Slice], number: u32) -> &'a [u8] {
    match (record, number) {
        (Record::Frame(frame), 0) => frame,
        (Record::Frame(_), number) => kept.get(number as usize - 1).map_or(&[], Slice::bytes),
        (Record::Inputs { bytes, .. }, number) => {
            (number as usize).checked_sub(1).and_then(|at| bytes.get(at).copied()).unwrap_or(&[])
        }
    }
}
