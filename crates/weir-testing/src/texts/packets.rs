//! Generates packets for a stack. Headers are built from the checked text, edges are followed if their
//! conditions hold, and constraints are mostly met.

use crate::choices::Choices;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use weir_lang::model::{
    BinaryOp, Constraint, Edge, EdgeKind, Expr, FieldId, FieldType, HeaderItem, LayerId, Protocol, Run, Stack,
};
use weir_packet::{Block, Burst, LinkType, PacketMeta, Poll, Source, SourceError, Timestamp};

/// Maximum number of layers of one packet.
const LAYERS_MAX: usize = 8;
/// Maximum size of one packet.
const BYTES_MAX: usize = 400;
/// Maximum size of a field or run; the packet ends at a longer one.
const FIELD_BYTES_MAX: u64 = 48;

/// A packet with a link type of the generated stack: 147 and following.
#[derive(Debug, Clone)]
pub(super) struct Packet {
    pub(super) time_ns: i64,
    pub(super) link: u16,
    pub(super) missing: u32,
    pub(super) bytes: Vec<u8>,
}

/// Packets in memory, in bursts of various sizes. Idle flows end between two bursts.
pub(super) struct Bursts(VecDeque<Burst>);

impl Bursts {
    pub(super) fn of(packets: &[Packet]) -> Self {
        let (mut bursts, mut number, mut rest) = (VecDeque::new(), 0, packets);
        for size in [7, 1, 3, 12].into_iter().cycle() {
            let (now, later) = rest.split_at(size.min(rest.len()));
            if now.is_empty() {
                break;
            }
            rest = later;
            let (mut bytes, mut metas) = (vec![], vec![]);
            for packet in now {
                number += 1;
                metas.push(PacketMeta {
                    time: Timestamp(packet.time_ns),
                    number,
                    offset: bytes.len() as u32,
                    captured_bytes: packet.bytes.len() as u32,
                    wire_bytes: packet.bytes.len() as u32 + packet.missing,
                    link: LinkType(packet.link),
                    interface: 0,
                });
                bytes.extend_from_slice(&packet.bytes);
            }
            bursts.push_back(Burst {
                block: Arc::new(Block::shared(bytes)),
                packets: metas,
                ..Burst::default()
            });
        }
        Self(bursts)
    }
}

impl Source for Bursts {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        *burst = self.0.pop_front().unwrap_or_default();
        Ok(if burst.packets.is_empty() { Poll::End } else { Poll::Packets })
    }
}

/// Generates `count` packets for `stack`; `constants` are the numbers in its text.
pub(super) fn build(
    choices: &mut Choices<'_>,
    stack: &Stack,
    constants: &[u64],
    count: usize,
) -> Vec<Packet> {
    let mut builder = Builder { choices, stack, constants, last: HashMap::new(), next: HashMap::new() };
    let mut time_ns = 1_700_000_000_000_000_000;
    let mut packets: Vec<Packet> = vec![];
    for _ in 0..count {
        time_ns +=
            builder.choices.pick(&[1_000_000, 1_000_000, 1_000, 400_000_000, 6_000_000_000, 70_000_000_000]);
        let mut packet = match builder.choices.below(12) {
            11 => builder.noise(),
            10 if !packets.is_empty() => builder.choices.pick(&packets),
            _ => builder.packet(),
        };
        packet.time_ns = time_ns;
        packets.push(packet);
    }
    packets
}

struct Builder<'s, 'c, 'b> {
    choices: &'c mut Choices<'b>,
    stack: &'s Stack,
    constants: &'s [u64],
    /// The last value of each field: sequences need numbers that increase.
    last: HashMap<(LayerId, FieldId), u64>,
    /// The value of each sequence number if the packet continues the previous one.
    next: HashMap<(LayerId, FieldId), u64>,
}

/// A packet under construction.
#[derive(Default)]
struct Frame {
    bits: Vec<bool>,
    /// Bits that a `peek` has read, by position. The field at that position must have the same bits.
    ahead: HashMap<usize, bool>,
    layers: Vec<Seen>,
    /// Whether the packet ends early, because a length exceeded the bounds.
    is_over: bool,
}

/// A layer of the packet.
struct Seen {
    layer: LayerId,
    start: usize,
    end: usize,
    /// The position of each field: its first bit, and the number of bits.
    places: HashMap<FieldId, (usize, usize)>,
    present: Vec<u16>,
}

impl Frame {
    fn bit(&self, at: usize) -> bool {
        self.bits.get(at).copied().or_else(|| self.ahead.get(&at).copied()).unwrap_or(false)
    }

    /// Appends a number. Bits that a `peek` has read keep their values.
    fn write(&mut self, value: u64, bits: usize) {
        for bit in (0..bits).rev() {
            let at = self.bits.len();
            let written = self.ahead.get(&at).copied().unwrap_or(bit < 64 && value >> bit & 1 == 1);
            self.bits.push(written);
        }
    }

    fn number(&self, seen: &Seen, protocol: &Protocol, field: FieldId) -> u64 {
        let Some(&(start, bits)) = seen.places.get(&field) else { return 0 };
        let value = (start..start + bits).fold(0, |value: u64, at| value << 1 | u64::from(self.bit(at)));
        match protocol.fields[usize::from(field.0)].ty {
            FieldType::Unsigned { little: true, bits } => value.swap_bytes() >> (64 - bits),
            _ => value,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let byte = |bits: &[bool]| bits.iter().fold(0, |byte, &bit| byte << 1 | u8::from(bit));
        self.bits.chunks(8).map(byte).collect()
    }
}

impl Builder<'_, '_, '_> {
    fn noise(&mut self) -> Packet {
        let count = self.choices.below(40);
        let bytes = (0..count).map(|_| self.choices.number() as u8).collect();
        Packet { time_ns: 0, link: 147 + self.choices.below(2) as u16, missing: 0, bytes }
    }

    fn packet(&mut self) -> Packet {
        let (link, mut layer) = self.choices.pick(&self.stack.starts);
        let mut frame = Frame::default();
        let mut message = None;
        for _ in 0..LAYERS_MAX {
            self.layer(&mut frame, layer);
            let at = frame.layers.len() - 1;
            let Some(next) = self.next_layer(&frame, at, &mut message) else { break };
            layer = next;
            if frame.is_over || frame.bits.len() > BYTES_MAX * 8 {
                break;
            }
        }
        let mut bytes = frame.bytes();
        let count = self.choices.pick(&[0, 1, 3, 4, 9, 30]);
        bytes.extend((0..count).map(|_| self.choices.number() as u8));
        self.note_next(&frame, bytes.len());
        let mut missing = 0;
        match self.choices.below(16) {
            13 if !bytes.is_empty() => {
                let at = self.choices.below(bytes.len());
                bytes[at] = self.choices.word() as u8;
            }
            14 => bytes.truncate(self.choices.below(bytes.len() + 1)),
            15 => {
                let kept = self.choices.below(bytes.len() + 1);
                missing = (bytes.len() - kept) as u32;
                bytes.truncate(kept);
            }
            _ => {}
        }
        Packet { time_ns: 0, link, missing, bytes }
    }

    /// The layer after the layer `at`, according to its edges. After a message, often another message of the
    /// same kind; `before` is the kind of the last message.
    fn next_layer(&mut self, frame: &Frame, at: usize, before: &mut Option<LayerId>) -> Option<LayerId> {
        let layer = frame.layers[at].layer;
        let edges = self.stack.edges.iter().filter(|edge| edge.from == layer);
        let holds = |edge: &&&Edge| self.value(frame, at, &edge.condition) != 0;
        let (messages, others): (Vec<&Edge>, Vec<&Edge>) =
            edges.partition(|edge| edge.kind == EdgeKind::Messages);
        let message = messages.iter().find(holds).map(|edge| edge.to);
        let other = others.iter().find(holds).map(|edge| edge.to);
        if let Some(message) = message.filter(|_| self.choices.chance(70)) {
            *before = Some(message);
            return Some(message);
        }
        other.or_else(|| before.filter(|_| self.choices.chance(50)))
    }

    /// Records the sequence numbers that follow this packet of `length` bytes.
    fn note_next(&mut self, frame: &Frame, length: usize) {
        for seen in &frame.layers {
            let protocol = &self.stack.layers[usize::from(seen.layer.0)].protocol;
            let Some(sequence) = &protocol.sequence else { continue };
            if let Expr::Field(field) = sequence.at {
                let span = match sequence.span {
                    Some(Expr::Number(span)) => span,
                    _ => (length - seen.end.div_ceil(8).min(length)) as u64,
                };
                let value = frame.number(seen, protocol, field);
                self.next.insert((seen.layer, field), value.wrapping_add(span));
            }
        }
    }

    fn layer(&mut self, frame: &mut Frame, layer: LayerId) {
        let start = frame.bits.len();
        frame.layers.push(Seen { layer, start, end: start, places: HashMap::new(), present: vec![] });
        let stack = self.stack;
        self.items(frame, &stack.layers[usize::from(layer.0)].protocol.header);
        let (at, end) = (frame.layers.len() - 1, frame.bits.len());
        frame.layers[at].end = end;
        // The next message begins after the payload length that this message declares.
        let payload = stack.layers[usize::from(layer.0)].protocol.payload.as_ref();
        if let Some(length) = payload.and_then(|payload| payload.length.as_ref())
            && stack.edges.iter().any(|edge| edge.to == layer && edge.kind == EdgeKind::Messages)
            && !stack.edges.iter().any(|edge| edge.from == layer)
        {
            let length = self.value(frame, at, length);
            frame.is_over |= length > FIELD_BYTES_MAX;
            frame.bits.resize(end + length.min(FIELD_BYTES_MAX) as usize * 8, true);
        }
    }

    fn items(&mut self, frame: &mut Frame, items: &[HeaderItem]) {
        for item in items {
            if frame.is_over || frame.bits.len() > BYTES_MAX * 8 {
                return;
            }
            match item {
                HeaderItem::Field(field) => self.field(frame, *field, false),
                HeaderItem::Peek(field) => self.field(frame, *field, true),
                HeaderItem::Whole(field) => {
                    let seen = frame.layers.last_mut().expect("in a layer");
                    let protocol = &self.stack.layers[usize::from(seen.layer.0)].protocol;
                    if let FieldType::Unsigned { bits, .. } = protocol.fields[usize::from(field.0)].ty {
                        seen.places.insert(*field, (frame.bits.len(), bits as usize));
                    }
                }
                HeaderItem::Skip { bits } => {
                    let value = self.choices.below(3) as u64;
                    frame.write(value, *bits as usize);
                }
                HeaderItem::If { condition, then, otherwise } => {
                    let at = frame.layers.len() - 1;
                    let holds = self.value(frame, at, condition) != 0;
                    self.items(frame, if holds { then } else { otherwise });
                }
                HeaderItem::Run(run) => self.run(frame, run),
            }
        }
    }

    fn field(&mut self, frame: &mut Frame, id: FieldId, ahead: bool) {
        let at = frame.layers.len() - 1;
        let layer = frame.layers[at].layer;
        let stack = self.stack;
        let field = &stack.layers[usize::from(layer.0)].protocol.fields[usize::from(id.0)];
        let bits = match &field.ty {
            FieldType::Unsigned { bits, .. } => *bits as usize,
            FieldType::Mac => 48,
            FieldType::Ipv4 => 32,
            FieldType::Ipv6 => 128,
            FieldType::Bytes(length) | FieldType::Text(length) | FieldType::Counted(length) => {
                let length = self.value(frame, at, length);
                frame.is_over = length > FIELD_BYTES_MAX;
                length.min(FIELD_BYTES_MAX) as usize * 8
            }
        };
        let mut value = self.number((layer, id), bits.min(64) as u32, field.constraint.as_ref());
        if let FieldType::Unsigned { little: true, bits } = field.ty {
            value = value.swap_bytes() >> (64 - bits);
        }
        let start = frame.bits.len();
        frame.layers[at].places.insert(id, (start, bits));
        if !ahead {
            return frame.write(value, bits);
        }
        for bit in 0..bits {
            let set = bits - 1 - bit < 64 && value >> (bits - 1 - bit) & 1 == 1;
            frame.ahead.entry(start + bit).or_insert(set);
        }
    }

    /// A value for a field of `bits` bits.
    fn number(&mut self, field: (LayerId, FieldId), bits: u32, constraint: Option<&Constraint>) -> u64 {
        let most = if bits == 0 { 0 } else { u64::MAX >> (64 - bits) };
        let last = self.last.get(&field).copied().unwrap_or(0);
        let next = self.next.get(&field).copied();
        let mut value = match (self.choices.below(16), next) {
            (0..10, Some(next)) => next,
            (0..7, _) => self.choices.below(4) as u64,
            (7..10, _) if !self.constants.is_empty() => self.choices.pick(self.constants),
            (10..14, _) => last.wrapping_add(self.choices.below(4) as u64),
            (14, _) => self.choices.number(),
            _ => self.choices.word(),
        } & most;
        if let Some(&Constraint { op, value: limit }) = constraint
            && compute(op, value, limit) == 0
            && !self.choices.chance(6)
        {
            value = match op {
                BinaryOp::Gt | BinaryOp::Ne => limit.wrapping_add(1) & most,
                BinaryOp::Lt => limit.wrapping_sub(1),
                _ => limit,
            };
        }
        self.last.insert(field, value);
        value
    }

    fn run(&mut self, frame: &mut Frame, run: &Run) {
        let at = frame.layers.len() - 1;
        let end = self.value(frame, at, &run.until);
        frame.is_over = end > 4 * FIELD_BYTES_MAX;
        let end = frame.layers[at].start + end.min(4 * FIELD_BYTES_MAX) as usize * 8;
        let end = end.max(frame.bits.len());
        while frame.bits.len() < end && !frame.is_over && !run.items.is_empty() {
            let item = &run.items[self.choices.below(run.items.len())];
            let tag = item.tag.unwrap_or(40 + self.choices.below(3) as u64);
            frame.write(tag, run.tag_bits as usize);
            self.items(frame, &item.items);
            frame.layers[at].present.push(item.presence.0);
            if item.stop {
                break;
            }
        }
        // The next field begins at the end of the run, even if the items fill less.
        if !frame.is_over {
            frame.bits.resize(end, false);
        }
    }

    /// The value of an expression in the layer `at` of the frame. The payload is not generated yet; its
    /// length is assumed to be 9.
    fn value(&self, frame: &Frame, at: usize, expr: &Expr) -> u64 {
        let seen = &frame.layers[at];
        let protocol = &self.stack.layers[usize::from(seen.layer.0)].protocol;
        match expr {
            Expr::Number(number) => *number,
            Expr::Field(field) => frame.number(seen, protocol, *field),
            Expr::Let(id) => self.value(frame, at, &protocol.lets[usize::from(id.0)].value),
            Expr::Present(id) => u64::from(seen.present.contains(&id.0)),
            Expr::Below(name) => self.below(frame, at, name),
            Expr::PayloadLength | Expr::RestLength => 9,
            Expr::LayerLength => 9 + (seen.end - seen.start) as u64 / 8,
            Expr::HeaderLength => (seen.end - seen.start) as u64 / 8,
            // Their values do not matter here.
            Expr::Sum16(_) | Expr::ItemsFit(_) | Expr::Strict | Expr::Unwanted | Expr::Time => 0,
            Expr::Cursor => (frame.bits.len() - seen.start) as u64 / 8,
            Expr::Not(inner) => u64::from(self.value(frame, at, inner) == 0),
            Expr::Binary(op, a, b) => compute(*op, self.value(frame, at, a), self.value(frame, at, b)),
            Expr::In(inner, ranges) => {
                let value = self.value(frame, at, inner);
                u64::from(ranges.iter().any(|&(low, high)| low <= value && value <= high))
            }
            Expr::Choose(condition, a, b) => {
                let chosen = if self.value(frame, at, condition) != 0 { a } else { b };
                self.value(frame, at, chosen)
            }
            Expr::Ordered(_) | Expr::Var(..) | Expr::InState(_) | Expr::Originator => 0,
        }
    }

    fn below(&self, frame: &Frame, at: usize, name: &str) -> u64 {
        for below in (0..at).rev() {
            let seen = &frame.layers[below];
            let protocol = &self.stack.layers[usize::from(seen.layer.0)].protocol;
            if let Some(found) = protocol.lets.iter().find(|value| value.name == name) {
                return self.value(frame, below, &found.value);
            }
            if let Some(found) = protocol.fields.iter().position(|field| field.path == name) {
                return frame.number(seen, protocol, FieldId(found as u16));
            }
        }
        0
    }
}

/// Evaluates an operator as the language defines it.
fn compute(op: BinaryOp, a: u64, b: u64) -> u64 {
    use BinaryOp as Op;
    let shift = u32::try_from(b).unwrap_or(u32::MAX);
    match op {
        Op::Add => a.wrapping_add(b),
        Op::Sub => a.saturating_sub(b),
        Op::Mul => a.wrapping_mul(b),
        Op::Div => a.checked_div(b).unwrap_or(0),
        Op::Rem => a.checked_rem(b).unwrap_or(0),
        Op::And => a & b,
        Op::Or => a | b,
        Op::Xor => a ^ b,
        Op::Shl => a.checked_shl(shift).unwrap_or(0),
        Op::Shr => a.checked_shr(shift).unwrap_or(0),
        Op::Eq => u64::from(a == b),
        Op::Ne => u64::from(a != b),
        Op::Lt => u64::from(a < b),
        Op::Le => u64::from(a <= b),
        Op::Gt => u64::from(a > b),
        Op::Ge => u64::from(a >= b),
        Op::LogicalAnd => u64::from(a != 0 && b != 0),
        Op::LogicalOr => u64::from(a != 0 || b != 0),
    }
}
