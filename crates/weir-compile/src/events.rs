//! The events that a stack declares, as they can be asked for.

use crate::types::value_type;
use weir_lang::model::{EVENTS_MAX, Layer, LayerId, Stack};
use weir_packet::{FixedSet, ValueType};

/// Events of a stack, by their number in the graph of a program.
pub type EventSet = FixedSet<StackEvent, { EVENTS_MAX.div_ceil(64) }>;

/// An event of a stack.
#[derive(Debug, Clone)]
pub struct StackEvent {
    /// Its layer.
    pub layer: LayerId,
    /// Its number among those of its layer.
    pub index: u16,
    /// `layer.event`, the layer as filters name it: `tcp.aborted`.
    pub name: String,
    /// Other names: by the layer's own name, where that is another, and alone, where no other layer has such an event.
    pub aliases: Vec<String>,
    /// One line of meaning.
    pub doc: String,
    /// Its columns: name and type. Of each the program yields two words, the high one first; where packets may lack some,
    /// another word behind all, in which bit `n` says that column `n` is there (of the first 64). Of bytes (`Bytes`, `Text`)
    /// the low word is the number by which the engine keeps them.
    pub columns: Vec<(String, ValueType)>,
}

impl StackEvent {
    /// Whether it goes by this name.
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
                name: format!("{}.{}", layer.protocol.filter_name, event.name),
                aliases: aliases(stack, layer, &event.name),
                doc: event.doc.clone(),
                columns: columns.collect(),
            });
        }
    }
    events
}
