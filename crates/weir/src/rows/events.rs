//! Rows of events: time, flow, and the columns that the stack's text declares.

use crate::flow::id;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_compile::events::{EventSet, StackEvent, events};
use weir_compile::{FieldKey, StackCatalog};
use weir_engine::flow::{address, endpoints};
use weir_engine::subscriber::EventView;
use weir_ir::graph::Graph;
use weir_ir::key::Hosts;
use weir_lang::diag::Diagnostic;
use weir_lang::filter::{Filter, Predicate};
use weir_lang::model::Stack;
use weir_packet::{Cell, Column, RowWriter, Timestamp, Value, ValueType, readable};

/// Columns that every event has.
const COMMON: &[Column] = &[
    Column::new(
        "ts",
        ValueType::Time,
        "time of the packet that caused the event; at an end, of the last packet",
    ),
    Column::new("event", ValueType::Text, "layer and event, as in filters"),
    Column::new(
        "packet",
        ValueType::Unsigned,
        "number of the packet in the run, from 1; at an end, there is none",
    ),
    Column::new("uid", ValueType::Text, "identifier of the connection, as in its record"),
    Column::new("id.orig_h", ValueType::Address, "originator's address"),
    Column::new("id.orig_p", ValueType::Unsigned, "originator's port"),
    Column::new("id.resp_h", ValueType::Address, "responder's address"),
    Column::new("id.resp_p", ValueType::Unsigned, "responder's port"),
];

/// The events that are wanted of a stack, and the columns of their rows.
#[derive(Debug, Clone)]
pub struct EventRows {
    /// All events of the stack.
    pub events: Vec<StackEvent>,
    /// The wanted events.
    pub asked: EventSet,
    /// Columns: those of all events, then those of the wanted events; columns of the same name are merged.
    pub columns: Vec<Column>,
    /// For each event: the places of its columns among all columns.
    places: Vec<Vec<usize>>,
}

impl EventRows {
    /// The events of `stack` called `names`, in all layers; without names, all events on packets that have
    /// columns of their own.
    ///
    /// # Errors
    /// The name that no event has.
    pub fn of(stack: &Stack, names: &[String]) -> Result<Self, String> {
        let events = events(stack);
        let mut asked = EventSet::EMPTY;
        for name in names {
            // Filters use the name of the layer, too.
            let of_layer = |event: &StackEvent| {
                let protocol = &stack.layers[usize::from(event.layer.0)].protocol;
                protocol.filter_name == *name || protocol.name == *name
            };
            let is_layer = events.iter().any(of_layer);
            let meant = |event: &StackEvent| if is_layer { of_layer(event) } else { event.is_called(name) };
            let found = events.iter().enumerate().filter(|(_, event)| meant(event));
            let found: EventSet = found.map(|(index, _)| index).collect();
            if found.is_empty() {
                return Err(name.clone());
            }
            asked |= found;
        }
        if names.is_empty() {
            let on_packets = |event: &StackEvent| !event.is_of_instance && !event.columns.is_empty();
            let with_columns = events.iter().enumerate().filter(|(_, event)| on_packets(event));
            with_columns.for_each(|(index, _)| asked.insert(index));
        }
        Ok(Self::of_set(stack, asked))
    }

    /// As [`of`](Self::of), for these events.
    pub fn of_set(stack: &Stack, asked: EventSet) -> Self {
        let events = events(stack);
        let (mut columns, mut places) = (COMMON.to_vec(), vec![]);
        for (index, event) in events.iter().enumerate() {
            let is_wanted = asked.contains(index);
            let mut of_event = vec![];
            for (name, value_type) in event.columns.iter().filter(|_| is_wanted) {
                let known = columns.iter().position(|column| column.name == *name);
                of_event.push(known.unwrap_or_else(|| {
                    columns.push(Column {
                        name: name.clone().into(),
                        value_type: *value_type,
                        doc: format!("of {}", event.name).into(),
                    });
                    columns.len() - 1
                }));
            }
            places.push(of_event);
        }
        Self { events, asked, columns, places }
    }

    /// Whether an event is wanted.
    pub fn is_wanted(&self, view: &EventView<'_>) -> bool {
        self.asked.contains(view.event.index())
    }

    /// Writes the row of an event.
    pub fn write(&self, graph: &Graph, view: &EventView<'_>, row: &mut RowWriter<'_>) {
        let index = view.event.index();
        let (table, header) = view.flow;
        let declared = &graph.tables[table.index()];
        let ends = declared.key.ends();
        let (originator, responder) = endpoints(ends, header);
        let own = &self.places[index];
        for column in 0..self.columns.len() {
            if let Some(at) = own.iter().position(|&place| place == column)
                && let Some(words) = view.column(at)
            {
                match self.events[index].columns[at].1 {
                    ValueType::Bytes => row.push(Cell::Bytes(view.bytes(words))),
                    ValueType::Text => row.push(Cell::Text(&readable(view.bytes(words)))),
                    value_type => row.push((&value(value_type, words[0], words[1])).into()),
                }
                continue;
            }
            let (side, end) = if column < 6 { (0, originator) } else { (1, responder) };
            row.push(match column {
                0 => Cell::Time(view.time),
                1 => Cell::Text(&self.events[index].name),
                2 => view.packet.map_or(Cell::Absent, Cell::Unsigned),
                3 if declared.two_sided => {
                    row.text_with(|text| id::push_uid(graph, table, header, text));
                    continue;
                }
                // An instance of one side has what its key has.
                4 | 6
                    if declared.two_sided
                        || ends.hosts == Hosts::Addresses && ends.addresses[side].is_some() =>
                {
                    id::host(ends.hosts, end.address)
                }
                5 | 7 if declared.two_sided || ends.ports[side].is_some() => {
                    Cell::Unsigned(u64::from(end.port))
                }
                _ => Cell::Absent,
            });
        }
    }
}

/// A warning if no row of the events `asked` for can match the filter: a row belongs to one event, and
/// matches no predicate on the columns of another one.
pub(crate) fn never_told(
    filter: &Filter,
    asked: EventSet,
    (catalog, stack): (&StackCatalog, &Stack),
) -> Option<Diagnostic> {
    let event_of = |predicate: &Predicate| match catalog.key(predicate.field) {
        FieldKey::EventColumn(layer, event, _) | FieldKey::EndColumn(layer, event, _) => {
            Some(catalog.event_number(layer, event))
        }
        _ => None,
    };
    let mut wrong = None;
    for term in &filter.terms {
        let predicates = term.predicates.iter().map(|&index| &filter.predicates[index]);
        let named: Vec<(&Predicate, usize)> = predicates
            .filter(|predicate| !predicate.negated)
            .filter_map(|predicate| Some((predicate, event_of(predicate)?)))
            .collect();
        let (_, first) = *named.first()?;
        let is_other = |&&(_, event): &&(&Predicate, usize)| event != first || !asked.contains(event);
        let &(predicate, event) = named.iter().find(is_other)?;
        wrong = wrong.or(Some((predicate, first, event)));
    }
    let (predicate, first, event) = wrong?;
    let events = events(stack);
    let (first, name) = (&events[first].name, &events[event].name);
    let (message, help) = match asked.contains(event) {
        false => (format!("no row of `{name}` is asked for"), format!("`-e {name}` asks for them")),
        true => (format!("no row is of `{first}` and of `{name}`"), "join them with `or`".to_string()),
    };
    let help = format!("columns of an event are asked of its own rows: {help}");
    Some(Diagnostic::warning("W0119", message).at(predicate.span).help(help))
}

/// The value that two words of a program represent, by type.
pub(crate) fn value(value_type: ValueType, high: u64, low: u64) -> Value<'static> {
    match value_type {
        ValueType::Ipv4 => Value::Address(IpAddr::V4(Ipv4Addr::from(low as u32))),
        ValueType::Ipv6 => {
            Value::Address(IpAddr::V6(Ipv6Addr::from(u128::from(high) << 64 | u128::from(low))))
        }
        ValueType::Address => Value::Address(address(high, low)),
        ValueType::Time => Value::Time(Timestamp(low as i64)),
        ValueType::Interval => Value::Interval(low),
        ValueType::Mac => {
            let [_, _, mac @ ..] = low.to_be_bytes();
            Value::Mac(mac)
        }
        _ => Value::Unsigned(low),
    }
}
