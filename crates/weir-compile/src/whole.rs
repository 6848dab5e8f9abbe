//! Instances that are parts of connections.

use crate::walk::walk_through_lets;
use weir_lang::model::{Expr, LayerId, Stack};

/// The protocol of the connections that contain the instances of the layer `id`, if the instances are parts
/// of connections: both have the same endpoints, from a layer below both. The chunks of an association are
/// such parts, and do not form a second connection.
pub(crate) fn whole_of(stack: &Stack, id: LayerId) -> Option<String> {
    let protocol = &stack.layers[usize::from(id.0)].protocol;
    let instance = protocol.instance.as_ref()?;
    let mut names = vec![];
    for part in instance.source.iter().chain(&instance.destination) {
        walk_through_lets(protocol, part, &mut |e| {
            if let Expr::Below(name) = e {
                names.push(name.clone());
            }
        });
    }
    names.iter().find_map(|name| instance_before(stack, id, name, instance.source.len()))
}

/// The protocol of a layer below `id` that has a two-sided instance with `parts` key parts per side. `None`
/// if some path down reaches a layer with the field `name` first.
fn instance_before(stack: &Stack, id: LayerId, name: &str, parts: usize) -> Option<String> {
    let (mut open, mut seen, mut found) = (vec![id], vec![id], None);
    while let Some(at) = open.pop() {
        for below in stack.edges.iter().filter(|edge| edge.to == at).map(|edge| edge.from) {
            let protocol = &stack.layers[usize::from(below.0)].protocol;
            let has_name = protocol.fields.iter().any(|f| f.is_called(name))
                || protocol.lets.iter().any(|value| value.name == name);
            let is_kept = protocol
                .instance
                .as_ref()
                .is_some_and(|i| i.destination.len() == parts && i.condition.is_none());
            match (has_name, is_kept) {
                (true, _) => return None,
                (false, true) if below != id => {
                    found.get_or_insert_with(|| protocol.declared.clone());
                }
                _ if !seen.contains(&below) => {
                    seen.push(below);
                    open.push(below);
                }
                _ => {}
            }
        }
    }
    found
}
