//! Explains why a packet matches or not: layer by layer, with the deciding bytes.
//!
//! The answers come from small programs, compiled like any question: the layers of the packet, whether a predicate
//! holds, the values of fields and their positions (`Need::places`).

use super::{line, predicates};
use crate::compile::Compiled;
use crate::format_packet::Path;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;
use weir_compile::{FieldKey, Lowered, Need, OutValue, Question, StackCatalog, lower};
use weir_ir::abi::Continuation;
use weir_ir::interpret::{Interpreter, TraceStep};
use weir_lang::filter::{self, Catalog, Predicate, Stage};
use weir_lang::model::{BinaryOp, Expr, FieldId, LayerId, ShowPart, Stack};
use weir_packet::{Burst, DropReason};

/// Limit of fields shown per layer: a packet's record has room for this many, of 128 bits each.
const FIELDS_MAX: usize = 16;
/// Limit of bytes shown per field.
const BYTES_MAX: usize = 16;

/// The result of a program on the packet.
struct Ran {
    outs: Vec<OutValue>,
    k: Continuation,
    terms: u64,
    reason: Option<DropReason>,
}

/// A field of the packet.
struct Seen {
    field: FieldId,
    number: u64,
    text: String,
    bytes: Range<usize>,
}

/// A packet, and the context for explaining it.
struct Asked<'a> {
    stack: &'a Stack,
    catalog: &'a StackCatalog,
    burst: &'a Burst,
    /// Its layers, outermost first.
    path: Vec<LayerId>,
    reason: Option<DropReason>,
}

/// Explains why a packet matches or not.
pub fn packet(compiled: &Compiled, catalog: &StackCatalog, burst: &Burst, number: u64) -> String {
    let mut asked = Asked { stack: &compiled.stack, catalog, burst, path: vec![], reason: None };
    if let Some(ran) = asked.run(asked.stack, "", Need { path: true, ..Need::default() }) {
        asked.path = Path::of_record(&ran.k.outs).layers().collect();
        asked.reason = ran.reason;
    }
    let meta = &burst.packets[0];
    let mut text = String::new();
    line(&mut text, "packet", &format!("{number}, {} of {} bytes", meta.captured_bytes, meta.wire_bytes));
    line(&mut text, "layers", &asked.layers());
    for predicate in predicates(compiled) {
        line(&mut text, "predicate", &asked.verdict(predicate));
        if let Some(why) = asked.why(predicate) {
            line(&mut text, "", &format!("  {why}"));
        }
    }
    text
}

impl Asked<'_> {
    /// Runs a small program on the packet.
    fn run(&self, stack: &Stack, filter: &str, need: Need) -> Option<Ran> {
        let filter = filter::compile(filter, self.catalog).ok()?;
        let question = Question { filter, need: Need { packets: true, ..need } };
        let Lowered { mut graph, outs, .. } = lower(stack, self.catalog, &[question]).ok()?;
        // The question needs no flows, so the passes remove the lookups.
        weir_ir::passes::optimize(&mut graph, &weir_ir::passes::Options::default());
        let mut k = Continuation::default();
        let program = Interpreter::new(graph).ok()?;
        match program.trace_into(&self.burst.packets[0], self.burst.data(0), &mut k).pop()? {
            TraceStep::Done { terms, reason } => Some(Ran { outs, k, terms, reason }),
            _ => None,
        }
    }

    fn name(&self, layer: LayerId) -> &str {
        &self.stack.layers[layer.0 as usize].protocol.filter_name
    }

    fn layers(&self) -> String {
        let mut words = vec![];
        for (place, &layer) in self.path.iter().enumerate() {
            // If a layer occurs several times, only the last occurrence is known.
            let header = match self.path[place + 1..].contains(&layer) {
                true => None,
                false => self.look(layer, &[]).map(|(header, _)| header),
            };
            let range = header.map_or(String::new(), |h| format!(" {}..{}", h.start, h.end));
            words.push(format!("{}{range}", self.name(layer)));
        }
        if words.is_empty() {
            words.push(format!("none: {}", self.burst.packets[0].link));
        }
        if let Some(reason) = self.reason {
            words.push(format!("then: {}", reason.label()));
        }
        words.join("   ")
    }

    /// Whether one predicate holds.
    fn verdict(&self, predicate: &Predicate) -> String {
        let shown = predicate.display(self.catalog).to_string();
        if self.catalog.fields()[predicate.field].stage != Stage::Packet {
            return format!("? {shown}   (known only from the connection or its sessions)");
        }
        if matches!(self.catalog.key(predicate.field), FieldKey::Event(..) | FieldKey::EventColumn(..)) {
            return format!("? {shown}   (known only from the packets before it)");
        }
        if self.is_in_messages(predicate) {
            return format!("? {shown}   (in messages, known only from the stream)");
        }
        match self.run(self.stack, &shown, Need::default()) {
            Some(ran) if ran.terms != 0 => format!("✓ {shown}"),
            Some(Ran { reason: Some(DropReason::FragmentWaiting), .. }) | None => {
                format!("? {shown}   (known only once its fragments are together)")
            }
            Some(Ran { reason: Some(reason), .. }) => format!("✗ {shown}   ({})", reason.label()),
            Some(_) => format!("✗ {shown}"),
        }
    }

    /// Whether the predicate applies to messages in streams, which a single packet does not show.
    fn is_in_messages(&self, predicate: &Predicate) -> bool {
        let layer = self.catalog.key(predicate.field).layer();
        layer.is_some_and(|layer| {
            !self.path.contains(&layer) && weir_compile::lower::in_messages(self.stack).contains(&layer)
        })
    }

    /// The layers on the way to the predicate's layer, as far as the packet has them, and the deciding bytes.
    fn why(&self, predicate: &Predicate) -> Option<String> {
        if self.is_in_messages(predicate) {
            return None;
        }
        let (layer, fields) = self.asks_of(self.catalog.key(predicate.field))?;
        if let Some(place) = self.path.iter().rposition(|&l| l == layer) {
            let (_, seen) = self.look(layer, &fields)?;
            let values: Vec<String> = seen.iter().map(|one| self.say(layer, one, "")).collect();
            return Some(format!("{}   {}", self.ticks(place), values.join("; ")).trim_end().to_string());
        }
        // The layer that is nearest to it, the innermost of several, and the layers that would have to follow.
        let steps = (0..self.path.len()).filter_map(|place| {
            let (distance, wanted) = self.steps(self.path[place], layer)?;
            Some((std::cmp::Reverse(distance), place, wanted))
        });
        let (_, place, wanted) = steps.max()?;
        let names: Vec<&str> = wanted.iter().map(|&next| self.name(next)).collect();
        let followed = self.path.get(place + 1);
        let waits = followed.is_none() && self.reason == Some(DropReason::FragmentWaiting);
        let mark = if waits { "?" } else { "✗" };
        let mut words = format!("{}  {} {mark}", self.ticks(place), names.join("|"));
        if !wanted.contains(&layer) {
            let _ = write!(words, "  {} {mark}", self.name(layer));
        }
        match (followed, self.reason) {
            (None, Some(reason)) => {
                let _ = write!(words, "   {}", reason.doc());
            }
            _ => {
                let _ = write!(words, "   {}", self.turn(self.path[place], &wanted, followed.copied()));
            }
        }
        Some(words)
    }

    fn ticks(&self, last: usize) -> String {
        let ticks = self.path[..=last].iter().map(|&layer| format!("{} ✓", self.name(layer)));
        ticks.collect::<Vec<_>>().join("  ")
    }

    /// The fields that made another layer than one of `wanted` follow `from`.
    fn turn(&self, from: LayerId, wanted: &[LayerId], followed: Option<LayerId>) -> String {
        let mut tests: Vec<(FieldId, Vec<(u64, u64)>)> = vec![];
        for edge in self.stack.edges.iter().filter(|e| e.from == from && wanted.contains(&e.to)) {
            for (field, ranges) in self.tests(from, &edge.condition) {
                match tests.iter_mut().find(|(f, _)| *f == field) {
                    Some((_, known)) => known.extend(ranges),
                    None => tests.push((field, ranges)),
                }
            }
        }
        let fields: Vec<FieldId> = tests.iter().map(|(field, _)| *field).collect();
        let Some((_, seen)) = self.look(from, &fields) else { return String::new() };
        let followed = followed.map_or(String::new(), |next| format!(" ({})", self.name(next)));
        let mut words = vec![];
        for one in &seen {
            let ranges = tests.iter().find(|(f, _)| *f == one.field).map_or(&[][..], |(_, r)| r);
            let is_met = ranges.iter().any(|&(low, high)| (low..=high).contains(&one.number));
            if is_met && seen.len() > 1 {
                continue;
            }
            let values: Vec<String> = ranges
                .iter()
                .map(|&(low, high)| if low == high { low.to_string() } else { format!("{low}..{high}") })
                .collect();
            let wanted = match values.is_empty() {
                true => followed.clone(),
                false => format!("{followed}, wanted {}", values.join(" or ")),
            };
            words.push(self.say(from, one, &wanted));
        }
        words.join("; ")
    }

    /// For example `ip.protocol is 17 (udp), wanted 6; byte 23: 11`.
    fn say(&self, layer: LayerId, one: &Seen, more: &str) -> String {
        let protocol = &self.stack.layers[layer.0 as usize].protocol;
        let path = &protocol.fields[one.field.0 as usize].path;
        let frame = self.burst.data(0);
        let Some(bytes) = frame.get(one.bytes.clone()).filter(|b| !b.is_empty()) else {
            return format!("{}.{path} is not there{more}", self.name(layer));
        };
        let place = match bytes.len() {
            1 => format!("byte {}", one.bytes.start),
            _ => format!("bytes {}..{}", one.bytes.start, one.bytes.end),
        };
        let mut shown = String::new();
        bytes.iter().take(BYTES_MAX).for_each(|byte| {
            let _ = write!(shown, " {byte:02x}");
        });
        let cut = if bytes.len() > BYTES_MAX { " …" } else { "" };
        format!("{}.{path} is {}{more}, {place}:{shown}{cut}", self.name(layer), one.text)
    }

    /// The layers that may follow `from` on a shortest path to `layer`, and their distance from it.
    fn steps(&self, from: LayerId, layer: LayerId) -> Option<(usize, Vec<LayerId>)> {
        let nexts = self.stack.edges.iter().filter(|e| e.from == from).map(|e| e.to);
        let far: Vec<_> = nexts.filter_map(|next| Some((self.distance(next, layer)?, next))).collect();
        let nearest = far.iter().map(|(distance, _)| *distance).min()?;
        let mut nexts = vec![];
        for (distance, next) in far {
            if distance == nearest && !nexts.contains(&next) {
                nexts.push(next);
            }
        }
        Some((nearest, nexts))
    }

    fn distance(&self, from: LayerId, to: LayerId) -> Option<usize> {
        let mut met = vec![from];
        let mut queue = VecDeque::from([(from, 0)]);
        while let Some((at, distance)) = queue.pop_front() {
            if at == to {
                return Some(distance);
            }
            for edge in self.stack.edges.iter().filter(|e| e.from == at) {
                if !met.contains(&edge.to) {
                    met.push(edge.to);
                    queue.push_back((edge.to, distance + 1));
                }
            }
        }
        None
    }

    /// The layer of a field in the catalogue, and the header fields that the field is made of.
    fn asks_of(&self, key: FieldKey) -> Option<(LayerId, Vec<FieldId>)> {
        let protocol = |layer: LayerId| &self.stack.layers[layer.0 as usize].protocol;
        Some(match key {
            FieldKey::Layer(layer) | FieldKey::Payload(layer) | FieldKey::Presence(layer, _) => {
                (layer, vec![])
            }
            FieldKey::Field(layer, field) => (layer, vec![field]),
            FieldKey::Alias(layer, alias) => {
                (layer, protocol(layer).aliases[usize::from(alias)].fields.clone())
            }
            FieldKey::Let(layer, one) => {
                let mut fields = vec![];
                self.read_by(layer, &Expr::Let(one), &mut fields);
                (layer, fields)
            }
            _ => return None,
        })
    }

    /// The fields that an expression reads.
    fn read_by(&self, layer: LayerId, expr: &Expr, fields: &mut Vec<FieldId>) {
        let protocol = &self.stack.layers[layer.0 as usize].protocol;
        match expr {
            Expr::Field(field) if !fields.contains(field) => fields.push(*field),
            Expr::Let(one) => self.read_by(layer, &protocol.lets[one.0 as usize].value, fields),
            Expr::Not(a) | Expr::In(a, _) => self.read_by(layer, a, fields),
            Expr::Binary(_, a, b) => [a, b].into_iter().for_each(|e| self.read_by(layer, e, fields)),
            Expr::Choose(a, b, c) => [a, b, c].into_iter().for_each(|e| self.read_by(layer, e, fields)),
            _ => {}
        }
    }

    /// The field that an expression consists of, perhaps under another name.
    fn field_of(&self, layer: LayerId, expr: &Expr) -> Option<FieldId> {
        match expr {
            Expr::Field(field) => Some(*field),
            Expr::Let(one) => {
                let lets = &self.stack.layers[layer.0 as usize].protocol.lets;
                self.field_of(layer, &lets[one.0 as usize].value)
            }
            _ => None,
        }
    }

    /// The fields that a condition tests, with the accepted values if it compares the field with constants.
    fn tests(&self, layer: LayerId, condition: &Expr) -> Vec<(FieldId, Vec<(u64, u64)>)> {
        let of = |expr: &Expr, ranges: &[(u64, u64)]| {
            self.field_of(layer, expr).map(|field| vec![(field, ranges.to_vec())])
        };
        let known = match condition {
            Expr::Binary(BinaryOp::And, a, b) => {
                return [a, b].into_iter().flat_map(|e| self.tests(layer, e)).collect();
            }
            Expr::Binary(BinaryOp::Eq, a, b) => match **b {
                Expr::Number(number) => of(a, &[(number, number)]),
                _ => None,
            },
            Expr::In(a, ranges) => of(a, ranges),
            _ => None,
        };
        known.unwrap_or_else(|| {
            let mut fields = vec![];
            self.read_by(layer, condition, &mut fields);
            fields.into_iter().map(|field| (field, vec![])).collect()
        })
    }

    /// The position of a layer's header (its last occurrence), and some of its fields.
    fn look(&self, layer: LayerId, fields: &[FieldId]) -> Option<(Range<usize>, Vec<Seen>)> {
        let mut stack = self.stack.clone();
        for one in &mut stack.layers {
            Arc::make_mut(&mut one.protocol).show.clear();
        }
        let fields = &fields[..fields.len().min(FIELDS_MAX)];
        let parts = fields.iter().map(|&field| ShowPart::Value(Expr::Field(field)));
        let show = [ShowPart::Value(Expr::HeaderLength)].into_iter().chain(parts).collect();
        Arc::make_mut(&mut stack.layers[layer.0 as usize].protocol).show = show;
        let ran = self.run(&stack, "", Need { lines: true, places: true, ..Need::default() })?;
        let place = |out: &OutValue| {
            let word = ran.k.outs[usize::from(out.place?)];
            let at = (word >> 32) as usize;
            Some(at..at + (word & 0xffff_ffff) as usize)
        };
        let protocol = &stack.layers[layer.0 as usize].protocol;
        let mut seen = vec![];
        for out in ran.outs.iter().skip(1) {
            let words = &ran.k.outs[usize::from(out.slot)..][..usize::from(out.slots)];
            let field = fields[usize::from(out.part) - 1];
            let mut text = String::new();
            let part = &protocol.show[usize::from(out.part)];
            crate::format_packet::show_value(&mut text, &stack, layer, part, words);
            seen.push(Seen { field, number: words[0], text, bytes: place(out)? });
        }
        Some((place(ran.outs.first()?)?, seen))
    }
}
