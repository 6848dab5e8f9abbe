//! Lowers a layer's events: their triggers, events that occur with others, and events that are emitted after
//! others.

use super::Lower;
use super::packet_line::may_lack;
use crate::catalog::FieldKey;
use crate::question::Need;
use std::net::Ipv6Addr;
use weir_ir::build::Variable;
use weir_ir::graph::{BinaryOp, Event, EventDecl, Op, Type, Value};
use weir_lang::filter::{Literal, Op as FilterOp, Predicate};
use weir_lang::model::{self, FieldId, FieldType, LayerId, Trigger};

/// The state of a packet's events.
#[derive(Debug, Clone)]
pub(super) struct Telling {
    /// The layer's own flow; `None`: the flow of the last lookup.
    pub flow: Option<Value>,
    /// True if a transition's event passes the instance's bytes to the next layer.
    pub assembled: Variable,
    /// Events whose emission is delayed, because others must be emitted before them.
    late: Vec<LateEvent>,
}

/// An event with delayed emission: whether it occurred, and its columns at that time.
#[derive(Debug, Clone)]
pub(super) struct LateEvent {
    /// Index among the protocol's events.
    event: usize,
    happened: Variable,
    /// High and low word of each column.
    columns: Vec<(Variable, Variable)>,
}

impl Lower<'_> {
    /// Whether a filter tests an event of this layer or one of its columns.
    pub(super) fn is_asked_for_events(&self, id: LayerId) -> bool {
        let mut keys = self.trie.predicates.iter().map(|predicate| self.catalog.key(predicate.field));
        keys.any(|key| {
            key.layer() == Some(id) && matches!(key, FieldKey::Event(..) | FieldKey::EventColumn(..))
        })
    }

    /// Whether the ends of a layer's instances are reported as events.
    pub(super) fn reports_ends(&self, id: LayerId) -> bool {
        self.ends_of(id).any(|(number, _)| self.need.events.contains(number))
    }

    /// Whether a question asks for events at the ends of instances, in whatever layer.
    pub(super) fn asks_for_ends(&self, need: &Need) -> bool {
        let mut layers = (0..self.stack.layers.len() as u16).map(LayerId);
        !need.events.is_empty()
            && layers.any(|id| self.ends_of(id).any(|(number, _)| need.events.contains(number)))
    }

    /// The columns of the layer's events that are read from an instance: for rows of events, or, at its end,
    /// for rows of connections.
    pub(super) fn end_values(&self, id: LayerId) -> Vec<model::EndValue> {
        let in_records = self.need.connections && self.has_connections(id);
        let read = self
            .ends_of(id)
            .filter(|(number, event)| in_records && event.is_end() || self.need.events.contains(*number));
        read.flat_map(|(_, event)| event.end_columns.iter().map(|(_, value)| *value)).collect()
    }

    /// A layer's events `on end` and `on check`, with their numbers.
    fn ends_of(&self, id: LayerId) -> impl Iterator<Item = (usize, &model::Event)> {
        let events = self.layer(id).protocol.events.iter().enumerate();
        let ends = events.filter(|(_, event)| event.is_of_instance());
        ends.map(move |(at, event)| (self.catalog.event_number(id, at as u16), event))
    }

    /// The initial state: no event has occurred.
    pub(super) fn telling(&mut self, id: LayerId, flow: Option<Value>) -> Telling {
        let (assembled, no) = (self.b.variable(Type::Bool), self.b.bool(false));
        self.b.write(assembled, no);
        Telling { flow, assembled, late: self.late_events(id) }
    }

    pub(super) fn declare_events(&mut self, id: LayerId) {
        let protocol = &self.layer(id).protocol;
        for event in &protocol.events {
            let name = format!("{}.{}", protocol.name, event.name);
            let index = self.b.graph.events.len();
            let wanted = self.need.events.contains(index);
            self.b.graph.events.push(EventDecl { name, wanted });
        }
    }

    /// Lowers the events of a layer without an instance: they belong to the flow of the last lookup. Quoted
    /// packets have no events.
    pub(super) fn lower_events_alone(&mut self, id: LayerId) {
        self.declare_events(id);
        if self.layer(id).protocol.events.is_empty() {
            return;
        }
        let quoted = self.b.read(self.quoted);
        self.lower_either(
            quoted,
            |_| {},
            |l| {
                let telling = l.telling(id, None);
                l.lower_events(id, &telling, Trigger::Packet);
                l.lower_late_events(id, &telling);
            },
        );
    }

    /// Lowers the events with trigger `trigger`, in the order of the text. If no event is used, only those
    /// that assemble.
    pub(super) fn lower_events(&mut self, id: LayerId, telling: &Telling, trigger: Trigger) {
        let events = &self.layer(id).protocol.events;
        let are_heeded = !self.need.events.is_empty() || self.is_asked_for_events(id);
        let happens =
            |event: &model::Event| event.triggers.contains(&trigger) && (are_heeded || event.assemble);
        for (index, event) in events.iter().enumerate().filter(|(_, event)| happens(event)) {
            let assembles = event.assemble && matches!(trigger, Trigger::Transition(_));
            self.lower_event(id, telling, index, assembles);
        }
    }

    /// Lowers an event: if its condition holds, it occurs, and so do the events declared `with` it.
    fn lower_event(&mut self, id: LayerId, telling: &Telling, index: usize, assembles: bool) {
        let event = &self.layer(id).protocol.events[index];
        match &event.condition {
            Some(condition) => {
                let holds = self.truth(id, condition);
                self.lower_either(holds, |l| l.lower_happening(id, telling, index, assembles), |_| {});
            }
            None => self.lower_happening(id, telling, index, assembles),
        }
    }

    fn lower_happening(&mut self, id: LayerId, telling: &Telling, index: usize, assembles: bool) {
        if assembles {
            let yes = self.b.bool(true);
            self.b.write(telling.assembled, yes);
        }
        let events = &self.layer(id).protocol.events;
        let mut columns: Vec<super::Pair> =
            events[index].columns.iter().map(|(_, column)| self.column(id, column)).collect();
        columns.extend(self.known_columns(id, index));
        self.lower_event_predicates(id, index, &columns);
        match telling.late.iter().find(|late| late.event == index) {
            Some(late) => {
                let yes = self.b.bool(true);
                self.b.write(late.happened, yes);
                for (&(high, low), (h, l)) in late.columns.iter().zip(columns) {
                    self.b.write(high, h);
                    self.b.write(low, l);
                }
            }
            None => self.tell(id, telling, index, columns),
        }
        // The checker guarantees that this recursion ends and is shallow.
        for (other, _) in events.iter().enumerate().filter(|(_, other)| other.with.contains(&index)) {
            self.lower_event(id, telling, other, false);
        }
    }

    /// The words of a column: a number, or the number by which the engine keeps the bytes of a field.
    fn column(&mut self, id: LayerId, column: &model::Expr) -> super::Pair {
        let Some(field) = field_of_bytes(&self.layer(id).protocol, column) else {
            return self.pair(id, column);
        };
        let (offset, length) = self.vars(id).field_at[usize::from(field.0)];
        let [buf, offset, length] = [self.buf, offset, length].map(|variable| self.b.read(variable));
        (self.b.int(0), self.b.one(Op::Keep { buf, offset, length }))
    }

    /// The word after an event's columns that says which are present, if packets may lack some.
    fn known_columns(&mut self, id: LayerId, index: usize) -> Option<super::Pair> {
        let lacking = self.lacking_columns(id, index);
        if lacking.is_empty() {
            return None;
        }
        let columns = &self.layer(id).protocol.events[index].columns;
        let mut known = self.b.int(0);
        for (place, (_, column)) in columns.iter().enumerate().take(64) {
            let here = match lacking.contains(&place) {
                true => self.is_known(id, column),
                false => self.b.bool(true),
            };
            let (here, place) = (self.b.one(Op::FromBool(here)), self.b.int(place as u64));
            let here = self.b.binary(BinaryOp::Shl, here, place);
            known = self.b.binary(BinaryOp::Or, known, here);
        }
        Some((known, self.b.int(0)))
    }

    /// The columns that packets may lack. Columns with `ordered.` belong to another packet, whose missing
    /// fields are not known.
    fn lacking_columns(&self, id: LayerId, index: usize) -> Vec<usize> {
        let protocol = &self.layer(id).protocol;
        let columns = protocol.events[index].columns.iter().take(64).enumerate();
        columns.filter(|(_, (_, column))| may_lack(protocol, column)).map(|(place, _)| place).collect()
    }

    fn tell(&mut self, id: LayerId, telling: &Telling, at: usize, columns: Vec<super::Pair>) {
        let protocol = &self.layer(id).protocol;
        let name = format!("{}.{}", protocol.name, protocol.events[at].name);
        let index = self.b.graph.events.iter().position(|e| e.name == name).expect("declared");
        let words = 2 * protocol.events[at].columns.len() + 1;
        let values = columns.into_iter().flat_map(|(high, low)| [high, low]).take(words).collect();
        self.b.push(Op::Emit { event: Event(index as u32), flow: telling.flow, values });
    }

    /// The delayed events, each after those that it waits for. None has occurred yet.
    fn late_events(&mut self, id: LayerId) -> Vec<LateEvent> {
        let events = &self.layer(id).protocol.events;
        let mut order: Vec<usize> = vec![];
        // The checker guarantees that they do not wait for each other in a cycle.
        while let Some(next) = (0..events.len()).find(|&at| {
            let waits = events[at].after.iter().filter(|&&other| !events[other].after.is_empty());
            !events[at].after.is_empty()
                && !order.contains(&at)
                && waits.clone().all(|other| order.contains(other))
        }) {
            order.push(next);
        }
        let (no, zero) = (self.b.bool(false), self.b.int(0));
        order
            .into_iter()
            .map(|event| {
                let happened = self.b.variable(Type::Bool);
                self.b.write(happened, no);
                let known = !self.lacking_columns(id, event).is_empty();
                let columns = (0..events[event].columns.len() + usize::from(known)).map(|_| {
                    let words = (self.b.variable(Type::Int), self.b.variable(Type::Int));
                    self.b.write(words.0, zero);
                    self.b.write(words.1, zero);
                    words
                });
                LateEvent { event, happened, columns: columns.collect() }
            })
            .collect()
    }

    /// Emits the delayed events.
    pub(super) fn lower_late_events(&mut self, id: LayerId, telling: &Telling) {
        for late in &telling.late {
            let happened = self.b.read(late.happened);
            self.lower_either(
                happened,
                |l| {
                    let columns = late.columns.iter().map(|&(high, low)| (l.b.read(high), l.b.read(low)));
                    let columns = columns.collect();
                    l.tell(id, telling, late.event, columns);
                },
                |_| {},
            );
        }
    }

    /// Evaluates the filters' predicates on an event that occurs here.
    fn lower_event_predicates(&mut self, id: LayerId, index: usize, columns: &[super::Pair]) {
        for p in 0..self.trie.predicates.len() {
            let predicate = &self.trie.predicates[p];
            let mut exists = self.b.bool(true);
            let holds = match self.catalog.key(predicate.field) {
                FieldKey::Event(layer, event) if layer == id && usize::from(event) == index => {
                    self.b.bool(true)
                }
                FieldKey::EventColumn(layer, event, column) if layer == id && usize::from(event) == index => {
                    let (high, low) = columns[usize::from(column)];
                    let protocol = &self.layer(id).protocol;
                    let of_column = &protocol.events[index].columns[usize::from(column)].1;
                    if may_lack(protocol, of_column) {
                        exists = self.is_known(id, of_column);
                    }
                    let bytes = field_of_bytes(protocol, of_column);
                    match predicate.op {
                        _ if let Some(field) = bytes => {
                            let vars = self.vars(id);
                            self.field_predicate(id, &vars, field, predicate).1
                        }
                        FilterOp::Exists => self.b.bool(true),
                        _ if self.catalog.is_address(predicate.field) => {
                            self.compare_words(&as_key(predicate), high, low)
                        }
                        _ => self.compare_words(predicate, high, low),
                    }
                }
                _ => continue,
            };
            let holds = self.b.binary(BinaryOp::And, exists, holds);
            self.record(p, exists, holds, holds);
        }
    }
}

/// The field that a column consists of, if that is bytes.
fn field_of_bytes(protocol: &model::Protocol, column: &model::Expr) -> Option<FieldId> {
    let model::Expr::Field(field) = column else { return None };
    let ty = &protocol.fields[usize::from(field.0)].ty;
    matches!(ty, FieldType::Bytes(_) | FieldType::Text(_)).then_some(*field)
}

/// Maps IPv4 addresses into IPv6 (RFC 4291, 2.5.5.2), as in keys. Fields that may hold either version use
/// this form.
pub fn as_key(predicate: &Predicate) -> Predicate {
    let mapped = |word: u32| Ipv6Addr::from(0xffff_0000_0000 | u128::from(word));
    let literals = predicate.literals.iter().map(|literal| match *literal {
        Literal::Ipv4(address, bits) => {
            let host = u32::MAX.checked_shr(u32::from(bits)).unwrap_or(0);
            let address = u32::from(address);
            Literal::Ipv6Range(mapped(address & !host), mapped(address | host))
        }
        Literal::Ipv4Range(from, to) => Literal::Ipv6Range(mapped(from.into()), mapped(to.into())),
        ref other => other.clone(),
    });
    Predicate { literals: literals.collect(), ..predicate.clone() }
}
