//! The events that a stack declares, with the names that questions use.

use crate::types::{end_type, value_type};
use weir_lang::model::{EVENTS_MAX, Layer, LayerId, Stack};
use weir_packet::{FixedSet, ValueType};

/// A set of a stack's events, by their number in the graph of a program.
pub type EventSet = FixedSet<StackEvent, { EVENTS_MAX.div_ceil(64) }>;

/// An event of a stack.
#[derive(Debug, Clone)]
pub struct StackEvent {
    /// Its layer.
    pub layer: LayerId,
    /// Index among the events of its layer.
    pub index: u16,
    /// `layer.event`, with the name of the layer in filters: `tcp.aborted`.
    pub name: String,
    /// Aliases: with the layer's declared name, if that differs, and without a layer, if no other layer has
    /// such an event.
    pub aliases: Vec<String>,
    /// One-line description.
    pub doc: String,
    /// Columns: name and type. The program emits two words per column, the high one first. If packets may
    /// lack some columns, another word follows all columns: bit `n` says that column `n` is present (of the
    /// first 64). For bytes (`Bytes`, `Text`) the low word is the number by which the engine keeps them.
    pub columns: Vec<(String, ValueType)>,
    /// The event reports the end of an instance.
    pub is_end: bool,
    /// The event belongs to no packet: it reports an instance at its end, or at intervals, and the engine
    /// reads its columns from the instance's record.
    pub is_of_instance: bool,
}

impl StackEvent {
    /// Whether this is a name or an alias of the event.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.iter().any(|alias| alias == name)
    }
}

fn aliases(stack: &Stack, layer: &Layer, event: &str) -> Vec<String> {
    let own = format!("{}.{event}", layer.protocol.name);
    let all = stack.layers.iter().flat_map(|layer| &layer.protocol.events);
    let alone = all.filter(|other| other.name == event).count() == 1;
    let mut aliases = vec![];
    aliases.extend((layer.protocol.name != layer.protocol.filter_name).then_some(own));
    aliases.extend(alone.then(|| event.to_string()));
    aliases
}

/// All events, in the order of their numbers in the graph of a program.
pub fn events(stack: &Stack) -> Vec<StackEvent> {
    let mut events = vec![];
    for (index, layer) in stack.layers.iter().enumerate() {
        for (number, event) in layer.protocol.events.iter().enumerate() {
            let layer_id = LayerId(index as u16);
            let columns = event.columns.iter();
            let columns = columns.map(|(name, value)| (name.clone(), value_type(stack, layer_id, value)));
            let at_end = event.end_columns.iter();
            let at_end = at_end.map(|(name, value)| (name.clone(), end_type(&layer.protocol, *value)));
            events.push(StackEvent {
                layer: layer_id,
                index: number as u16,
                name: format!("{}.{}", layer.protocol.filter_name, event.name),
                aliases: aliases(stack, layer, &event.name),
                doc: event.doc.clone(),
                columns: columns.chain(at_end).collect(),
                is_end: event.is_end(),
                is_of_instance: event.is_of_instance(),
            });
        }
    }
    events
}
