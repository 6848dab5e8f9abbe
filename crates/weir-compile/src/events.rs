//! The events that a stack declares, as they can be asked for.

use crate::types::value_type;
use weir_lang::model::{LayerId, Stack};
use weir_packet::ValueType;

/// An event of a stack.
#[derive(Debug, Clone)]
pub struct StackEvent {
    /// Its layer.
    pub layer: LayerId,
    /// Its number among those of its layer.
    pub index: u16,
    /// As filters name it: `tcp.aborted`.
    pub filter_name: String,
    /// `layer.event`
    pub name: String,
    /// One line of meaning.
    pub doc: String,
    /// Its columns: name and type. Of each the program yields two words, the high one first.
    pub columns: Vec<(String, ValueType)>,
}

/// All events, in the order in which the graph of a program numbers them.
pub fn events(stack: &Stack) -> Vec<StackEvent> {
    let mut events = vec![];
    for (index, layer) in stack.layers.iter().enumerate() {
        for (number, event) in layer.protocol.events.iter().enumerate() {
            let layer_id = LayerId(index as u16);
            let columns = event.columns.iter();
            let columns = columns.map(|(name, value)| (name.clone(), value_type(stack, layer_id, value)));
            events.push(StackEvent {
                layer: layer_id,
                index: number as u16,
                filter_name: format!("{}.{}", layer.protocol.filter_name, event.name),
                name: format!("{}.{}", layer.protocol.name, event.name),
                doc: event.doc.clone(),
                columns: columns.collect(),
            });
        }
    }
    events
}
