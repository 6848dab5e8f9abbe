//! The events that a stack declares, as they can be asked for.

use weir_lang::model::{Expr, FieldType, LayerId, Stack};
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
            let columns = columns.map(|(name, value)| (name.clone(), type_of(stack, layer_id, value)));
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

fn type_of(stack: &Stack, layer: LayerId, value: &Expr) -> ValueType {
    let of_field = |ty: &FieldType| match ty {
        FieldType::Ipv4 => ValueType::Ipv4,
        FieldType::Ipv6 => ValueType::Ipv6,
        FieldType::Mac => ValueType::Mac,
        _ => ValueType::Unsigned,
    };
    match value {
        Expr::Field(field) | Expr::Ordered(field) => {
            of_field(&stack.layers[usize::from(layer.0)].protocol.fields[usize::from(field.0)].ty)
        }
        // Whatever lies below: an address where it is one in every layer that has it.
        Expr::Below(name) => {
            let fields = stack.layers.iter().flat_map(|layer| &layer.protocol.fields);
            let named = fields.filter(|f| f.path == *name || f.alias.as_deref() == Some(name));
            let types: Vec<ValueType> = named.map(|f| of_field(&f.ty)).collect();
            let is_address = |ty: &ValueType| matches!(ty, ValueType::Ipv4 | ValueType::Ipv6);
            // Link layers have other addresses of the same name; what carries a datagram has these.
            match types.split_first() {
                _ if types.iter().any(is_address) => ValueType::Address,
                Some((first, rest)) if rest.iter().all(|other| other == first) => *first,
                _ => ValueType::Unsigned,
            }
        }
        _ => ValueType::Unsigned,
    }
}
