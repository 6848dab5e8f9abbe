//! Whether a stack's `dispatch` assigns all packets of each instance to one worker, and what workers do
//! otherwise.

use crate::types::{field_named, givers};
use weir_lang::model::{EdgeKind, Expr, FieldId, LayerId, Stack};

/// The first layer because of which only one worker can run: packets of its instances may reach several
/// workers, and the instances cannot be [shared](is_shared).
pub fn scattered(stack: &Stack) -> Option<&str> {
    let mut layers = (0..stack.layers.len() as u16).map(LayerId);
    let first = layers.find(|&id| is_scattered(stack, id) && !is_shared(stack, id))?;
    Some(&stack.layers[usize::from(first.0)].protocol.name)
}

/// Whether workers share the table of a layer: packets of its instances may reach several workers.
///
/// The instances have neither two sides nor a sequence: streams, sessions and rows of connections stay with
/// one worker. Instances in messages are not shared, because a stream that ends reads its messages once more.
pub fn is_shared(stack: &Stack, id: LayerId) -> bool {
    let protocol = &stack.layers[usize::from(id.0)].protocol;
    let is_alone = protocol.instance.as_ref().is_some_and(|instance| instance.destination.is_empty());
    let mut carried = stack.edges.iter().filter(|edge| edge.kind == EdgeKind::Messages).map(|edge| edge.to);
    is_alone
        && protocol.sequence.is_none()
        && !carried.any(|first| first == id || reaches(stack, first, id))
        && is_scattered(stack, id)
}

/// Whether packets of one instance of a layer may reach several workers, because the key lacks the fields of
/// `dispatch`.
///
/// All packets without a layer named in `dispatch` go to one worker, so their instances stay together. An
/// instance whose packets have other instances, too, is on the worker of the outermost layer named in
/// `dispatch`; both directions are assumed to have the same outermost layer.
fn is_scattered(stack: &Stack, id: LayerId) -> bool {
    let meets = |&(other, ..): &(LayerId, FieldId, FieldId)| {
        other == id || reaches(stack, id, other) || reaches(stack, other, id)
    };
    stack.layers[usize::from(id.0)].protocol.instance.is_some()
        && stack.dispatch.iter().any(meets)
        && !is_kept_together(stack, id)
}

/// Whether the key contains both fields of a `dispatch` pair, one on each side if the key has two sides.
fn is_kept_together(stack: &Stack, id: LayerId) -> bool {
    let Some(instance) = &stack.layers[usize::from(id.0)].protocol.instance else { return true };
    let of = |parts: &[Expr], field: fn(&(LayerId, FieldId, FieldId)) -> FieldId| {
        parts.iter().any(|part| is_dispatched(stack, id, part, field))
    };
    let (source, destination) = (&instance.source, &instance.destination);
    let others = if destination.is_empty() { source } else { destination };
    of(source, |pair| pair.1) && of(others, |pair| pair.2)
}

/// Whether a part of a key is the `field` of a `dispatch` pair on every path to the layer.
fn is_dispatched(
    stack: &Stack,
    id: LayerId,
    part: &Expr,
    field: fn(&(LayerId, FieldId, FieldId)) -> FieldId,
) -> bool {
    let pair_of = |layer: LayerId| stack.dispatch.iter().find(|pair| pair.0 == layer);
    let protocol = &stack.layers[usize::from(id.0)].protocol;
    match part {
        // A number computed from an address does not identify the address.
        Expr::Let(value) => is_dispatched(stack, id, &protocol.lets[usize::from(value.0)].value, field),
        Expr::Field(own) => pair_of(id).is_some_and(|pair| field(pair) == *own),
        Expr::Below(name) => {
            let given = givers(stack, id, name);
            let is_right = |&layer: &LayerId| {
                let named = field_named(&stack.layers[usize::from(layer.0)].protocol, name);
                pair_of(layer).is_some_and(|pair| Some(field(pair)) == named)
            };
            !given.is_empty() && given.iter().all(is_right)
        }
        _ => false,
    }
}

/// Whether a packet with layer `from` may have layer `to` above it.
fn reaches(stack: &Stack, from: LayerId, to: LayerId) -> bool {
    let (mut open, mut seen) = (vec![from], vec![from]);
    while let Some(at) = open.pop() {
        for next in stack.edges.iter().filter(|edge| edge.from == at).map(|edge| edge.to) {
            if next == to {
                return true;
            }
            if !seen.contains(&next) {
                seen.push(next);
                open.push(next);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{is_shared, scattered};
    use weir_lang::Library;
    use weir_lang::model::LayerId;

    #[test]
    fn what_comes_with_weir_is_kept_together() {
        let library = Library::builtin();
        for stack in library.stacks().iter().filter(|stack| !stack.dispatch.is_empty()) {
            assert_eq!(scattered(stack), None, "{}", stack.name);
        }
    }

    #[test]
    fn a_key_without_both_addresses_is_scattered() {
        let cases = [
            ("instance (device)", true),
            ("instance (device, below.src)", true),
            ("instance (device, below.src, below.dst)", false),
            ("instance (device, below.src & 0xff, below.dst)", true),
            ("instance (device) <-> (other)", true),
            ("instance (below.src, device) <-> (below.dst, device)", false),
            ("instance (below.src, device) <-> (below.src, device)", true),
        ];
        for (instance, is_scattered) in cases {
            let text = format!(
                "//! It roams\nprotocol mine {{ header {{ device: u8  other: u8 }} {instance} timeout 1m }}\n\
                 //! Over IPv4\nstack roaming extends internet {{ ip -> mine when protocol == 200 }}"
            );
            let mut library = Library::builtin();
            library.extend_with("mine.weir", &text).unwrap_or_else(|wrong| panic!("{wrong}"));
            let roaming = library.stack("roaming").unwrap();
            let mine =
                (0..).map(LayerId).find(|id| roaming.layers[usize::from(id.0)].protocol.name == "mine");
            let is_shared = is_shared(roaming, mine.expect("the stack has the layer"));
            let has_two_sides = instance.contains("<->");
            assert_eq!(is_shared, is_scattered && !has_two_sides, "{instance}");
            let alone = (is_scattered && has_two_sides).then_some("mine");
            assert_eq!(scattered(roaming), alone, "{instance}");
        }
    }
}
