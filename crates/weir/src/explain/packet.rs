//! Explains why a packet matches or not: layer by layer, with the deciding bytes.
//!
//! The layers and fields come from the packet's [detail](super::detail). Whether a predicate holds is the
//! answer of a small program, compiled like any question.

use super::detail::{Dissector, PacketDetail, clipped};
use super::lines::{line, predicates};
use crate::ask::compile::Compiled;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::ops::Range;
use weir_compile::{FieldKey, Lowered, Need, Question, StackCatalog, lower};
use weir_ir::interpret::{Interpreter, TraceStep};
use weir_lang::filter::{self, Catalog, Predicate, Stage};
use weir_lang::model::{BinaryOp, Expr, FieldId, LayerId, Stack};
use weir_packet::{Burst, DropReason};

/// Limit of bytes shown per field.
const BYTES_MAX: usize = 16;

/// The result of a program on the packet.
struct Ran {
    /// A bit for each condition that holds; the program has one, the filter.
    terms: u64,
    /// Why the packet could not be parsed to its end.
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
    dissector: &'a Dissector,
    detail: PacketDetail,
    /// Its complete layers, outermost first.
    path: Vec<LayerId>,
}

/// Explains why a packet matches or not.
pub fn packet(compiled: &Compiled, catalog: &StackCatalog, burst: &Burst, number: u64) -> String {
    let dissector = &match Dissector::new(&compiled.stack, catalog) {
        Ok(dissector) => dissector,
        Err(wrong) => return format!("{}\n", wrong.message),
    };
    let meta = &burst.packets[0];
    let detail = dissector.packet(meta, burst.data(0));
    let complete = detail.layers.iter().filter(|layer| layer.payload.is_some());
    let path = complete.map(|layer| layer.layer).collect();
    let asked = Asked { stack: &compiled.stack, catalog, burst, dissector, detail, path };
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
    /// Runs the program of this filter on the packet. `None`: the filter cannot be compiled, or the program
    /// waits for other packets.
    fn run(&self, filter: &str) -> Option<Ran> {
        let filter = filter::compile(filter, self.catalog).ok()?;
        let question = Question { filter, need: Need { packets: true, ..Need::default() } };
        let Lowered { mut graph, .. } = lower(self.stack, self.catalog, &[question]).ok()?;
        // The question needs no flows, so the passes remove the lookups.
        weir_ir::passes::optimize(&mut graph, &weir_ir::passes::Options::default());
        let program = Interpreter::new(graph).ok()?;
        let last = program.trace(&self.burst.packets[0], self.burst.data(0)).pop()?;
        match last {
            TraceStep::Done { terms, reason } => Some(Ran { terms, reason }),
            _ => None,
        }
    }

    fn name(&self, layer: LayerId) -> &str {
        &self.stack.layers[layer.0 as usize].protocol.filter_name
    }

    fn layers(&self) -> String {
        let mut words = vec![];
        for (layer, _) in self.detail.layers.iter().zip(&self.path) {
            let header = &layer.header;
            words.push(format!("{} {}..{}", self.name(layer.layer), header.start, header.end));
        }
        if words.is_empty() {
            words.push(format!("none: {}", self.burst.packets[0].link));
        }
        if let Some(reason) = self.detail.reason {
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
        match self.run(&shown) {
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
            let seen = self.look(place, &fields);
            let values: Vec<String> = seen.iter().map(|one| self.say(layer, one, "")).collect();
            return Some(format!("{}   {}", self.ticks(place), values.join("; ")).trim_end().to_string());
        }
        // The layer that is nearest to it, the innermost of several, and the layers that would have to
        // follow.
        let steps = (0..self.path.len()).filter_map(|place| {
            let (distance, wanted) = self.steps(self.path[place], layer)?;
            Some((std::cmp::Reverse(distance), place, wanted))
        });
        let (_, place, wanted) = steps.max()?;
        let names: Vec<&str> = wanted.iter().map(|&next| self.name(next)).collect();
        let followed = self.path.get(place + 1);
        let waits = followed.is_none() && self.detail.reason == Some(DropReason::FragmentWaiting);
        let mark = if waits { "?" } else { "✗" };
        let mut words = format!("{}  {} {mark}", self.ticks(place), names.join("|"));
        if !wanted.contains(&layer) {
            let _ = write!(words, "  {} {mark}", self.name(layer));
        }
        match (followed, self.detail.reason) {
            (None, Some(reason)) => {
                let _ = write!(words, "   {}", reason.doc());
            }
            _ => {
                let _ = write!(words, "   {}", self.turn(place, &wanted, followed.copied()));
            }
        }
        Some(words)
    }

    fn ticks(&self, last: usize) -> String {
        let ticks = self.path[..=last].iter().map(|&layer| format!("{} ✓", self.name(layer)));
        ticks.collect::<Vec<_>>().join("  ")
    }

    /// The fields that made another layer than one of `wanted` follow the layer at `place`.
    fn turn(&self, place: usize, wanted: &[LayerId], followed: Option<LayerId>) -> String {
        let from = self.path[place];
        let mut tests: Vec<(FieldId, Vec<(u64, u64)>)> = vec![];
        for edge in self.stack.edges.iter().filter(|e| e.from == from && wanted.contains(&e.to)) {
            for (field, ranges) in self.tests(from, &edge.condition) {
                match tests.iter_mut().find(|(f, _)| *f == field) {
                    // Several edges may have one condition.
                    Some((_, known)) => {
                        ranges.into_iter().for_each(|range| {
                            if !known.contains(&range) {
                                known.push(range);
                            }
                        });
                    }
                    None => tests.push((field, ranges)),
                }
            }
        }
        let fields: Vec<FieldId> = tests.iter().map(|(field, _)| *field).collect();
        let seen = self.look(place, &fields);
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
        let Some(bytes) = Some(&frame[clipped(&one.bytes, frame.len())]).filter(|b| !b.is_empty()) else {
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

    /// Some fields of a layer of the packet.
    fn look(&self, place: usize, fields: &[FieldId]) -> Vec<Seen> {
        let layer = &self.detail.layers[place];
        let look = |&field: &FieldId| {
            let seen = layer.field(field);
            let text = seen.map_or(String::new(), |seen| {
                let value = self.dissector.value(layer.layer, seen, self.burst.data(0));
                crate::explain::detail::shown_value(&value, BYTES_MAX)
            });
            let number = seen.map_or(0, |seen| seen.words[1]);
            Seen { field, number, text, bytes: seen.map_or(0..0, |seen| seen.bytes.clone()) }
        };
        fields.iter().map(look).collect()
    }
}
