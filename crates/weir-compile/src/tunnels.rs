//! Tunnels: the layers by which connections carry other connections.

use crate::columns::is_two_sided;
use crate::whole::whole_of;
use rustc_hash::FxHashSet;
use weir_lang::model::{Edge, EdgeKind, LayerId, Stack};

/// Whether the instances of a layer are connections, and not parts of connections below.
pub(crate) fn has_connections(stack: &Stack, id: LayerId) -> bool {
    is_two_sided(&stack.layers[usize::from(id.0)]) && whole_of(stack, id).is_none()
}

/// The layers by which connections carry other connections: such a layer directly follows a layer of
/// connections, and has connections itself, or leads to some.
pub fn tunnel_layers(stack: &Stack) -> Vec<LayerId> {
    let edges = || stack.edges.iter().filter(|edge: &&Edge| edge.kind != EdgeKind::Quoted);
    let leads_to_connections = |id: LayerId| {
        let (mut seen, mut work) = (FxHashSet::default(), vec![id]);
        while let Some(at) = work.pop() {
            if has_connections(stack, at) {
                return true;
            }
            work.extend(
                edges().filter(|edge| edge.from == at).map(|edge| edge.to).filter(|to| seen.insert(*to)),
            );
        }
        false
    };
    let mut layers: Vec<LayerId> =
        edges().filter(|edge| has_connections(stack, edge.from)).map(|edge| edge.to).collect();
    layers.sort_by_key(|id| id.0);
    layers.dedup();
    layers.retain(|id| leads_to_connections(*id));
    layers
}
