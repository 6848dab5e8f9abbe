//! The places of the columns of events `on end` in the records of flows.

use std::sync::Arc;
use weir_compile::end_columns;
use weir_compile::events::{EventSet, events};
use weir_engine::end_event::{EndColumn, EndEvent};
use weir_engine::flow::NumberPlace;
use weir_ir::abi::Layout;
use weir_ir::engine_var::EngineVar;
use weir_ir::graph::{Event, Graph, Table};
use weir_lang::model::{self, LayerId, Protocol, Side, Stack, Unit};
use weir_packet::Column;

/// The events `on end` of a stack, and the columns that they add to the records of connections.
pub(crate) struct EndPlaces<'a> {
    stack: &'a Stack,
    /// By table: its layer.
    layers: &'a [LayerId],
    /// The columns of records, after those of every connection.
    pub columns: Arc<[Column]>,
    /// By column: number of the event, and place in the columns of the event.
    of: Vec<Vec<(usize, usize)>>,
    /// By event: its layer, and its index in the layer.
    events: Vec<(LayerId, usize)>,
}

impl<'a> EndPlaces<'a> {
    /// `layers`: by table of the program, its layer.
    pub fn new(stack: &'a Stack, layers: &'a [LayerId]) -> Self {
        let (columns, of) = end_columns(stack).into_iter().map(|end| (end.column, end.of)).unzip();
        let columns: Vec<Column> = columns;
        let events = events(stack).iter().map(|event| (event.layer, usize::from(event.index))).collect();
        Self { stack, layers, columns: columns.into(), of, events }
    }

    /// The stack.
    pub fn stack(&self) -> &'a Stack {
        self.stack
    }

    /// The places of the columns of records in the flows of a table; `None` for those of other layers.
    pub fn of_records(&self, graph: &Graph, layout: &Layout, table: Table) -> Vec<Option<EndColumn>> {
        let layer = self.layers[table.index()];
        let of_column = |of: &Vec<(usize, usize)>| {
            let (event, column) = *of.iter().find(|(event, _)| self.events[*event].0 == layer)?;
            let protocol = &self.stack.layers[usize::from(layer.0)].protocol;
            let value = protocol.events[self.events[event].1].end_columns[column].1;
            Some(place(protocol, value, (graph, layout, table)))
        };
        self.of.iter().map(of_column).collect()
    }

    /// By table: the events among `asked` that report its flows at their ends, or at intervals.
    pub fn asked(&self, graph: &Graph, layout: &Layout, asked: EventSet) -> Vec<Vec<EndEvent>> {
        let of_table = |(table, layer): (usize, &LayerId)| {
            let protocol = &self.stack.layers[usize::from(layer.0)].protocol;
            let numbered = self.events.iter().enumerate().filter(|(_, (of, _))| of == layer);
            let ends = numbered
                .filter(|(number, (_, at))| asked.contains(*number) && protocol.events[*at].is_of_instance());
            let found = (graph, layout, Table(table as u32));
            let ends = ends.map(|(number, (_, at))| EndEvent {
                event: Event(number as u32),
                interval_ns: protocol.events[*at].interval().map(|interval| interval.as_nanos() as i64),
                columns: protocol.events[*at]
                    .end_columns
                    .iter()
                    .map(|(_, value)| place(protocol, *value, found))
                    .collect(),
            });
            ends.collect()
        };
        self.layers.iter().enumerate().map(of_table).collect()
    }
}

/// The place of a column in the flows of a table.
fn place(
    protocol: &Protocol,
    value: model::EndValue,
    (graph, layout, table): (&Graph, &Layout, Table),
) -> EndColumn {
    match value {
        model::EndValue::State => EndColumn {
            place: NumberPlace::of(graph, layout, table, &EngineVar::State),
            responder: false,
            absent_if_zero: false,
            names: protocol.states.iter().map(|state| state.name.clone()).collect(),
        },
        model::EndValue::Var(var, side) => {
            let var = &protocol.vars[usize::from(var.0)];
            EndColumn {
                place: NumberPlace::of(graph, layout, table, var.name.as_str()),
                responder: side == Side::Peer,
                absent_if_zero: var.unit != Unit::None,
                names: Arc::new([]),
            }
        }
    }
}
