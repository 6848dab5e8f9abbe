//! Edges `-> messages`: the in-order bytes of a direction as consecutive messages.

use super::{CheckedProtocol, codes};
use crate::diag::{Diagnostic, Span};
use crate::model::{
    Edge, EdgeKind, FieldType, HeaderItem, LayerId, Protocol, Stack, Trigger, WHOLE_VALUES_MAX,
};
use crate::reach::Reach;
use crate::syntax::ast;
use rustc_hash::FxHashSet;

/// Checks the edges to messages, except those of protocols with mistakes (`wrong`). Includes the edges of the
/// extended stack, because additions may invalidate them.
pub(super) fn check(
    stack: &Stack,
    (protocols, wrong): (&[CheckedProtocol], &FxHashSet<Span>),
    tree: &ast::Stack,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let own: FxHashSet<Span> = tree.edges.iter().map(|edge| edge.to.span).collect();
    let mut reported: FxHashSet<(String, Span)> = FxHashSet::default();
    // An unreadable part of a protocol does not count as missing.
    let is_read = |layer: LayerId| !wrong.contains(&protocol(stack, layer).span);
    let edges = stack.edges.iter().filter(|edge| edge.kind == EdgeKind::Messages);
    for edge in edges.filter(|edge| is_read(edge.from) && is_read(edge.to)) {
        let one = protocol(stack, edge.to);
        let place = format!("`layer {0}_message: {0}` gives the protocol a second place", one.declared);
        let starts = stack.starts.iter().any(|(_, layer)| *layer == edge.to);
        let of_frame = format!("`{}` is a message here, and the start of frames there", one.name);
        let of_frame = starts.then(|| (of_frame, place.clone()));
        for (message, help) in mistake(stack, edge).into_iter().chain(of_frame) {
            // Mistakes that exist without this stack were reported with the other stack.
            let is_new = own.contains(&edge.span) || !is_reported(diagnostics, &message, edge.span);
            if is_new && reported.insert((message.clone(), edge.span)) {
                diagnostics.push(Diagnostic::error(codes::MESSAGES, message).at(edge.span).help(help));
            }
        }
        let mut others = stack.edges.iter().filter(|other| other.to == edge.to && other.kind != edge.kind);
        let is_own = |other: &Edge| own.contains(&other.span) || own.contains(&edge.span);
        if let Some(other) = others.find(|other| is_own(other)) {
            let message = format!("`{}` is a message here, and a packet's layer there", one.name);
            let diagnostic = Diagnostic::error(codes::MESSAGES, message).at(edge.span);
            diagnostics.push(diagnostic.label(other.span, "follows in the packet").help(place));
        }
        match is_whole(protocol(stack, edge.from)) {
            true => find_values(stack, edge, protocols, diagnostics),
            false => find_rest(stack, edge, diagnostics),
        }
    }
}

/// Whether the protocol's ordered bytes consist of chunked messages (`wholes`): the end of a message is then
/// known before parsing.
fn is_whole(protocol: &Protocol) -> bool {
    protocol.sequence.as_ref().is_some_and(|sequence| sequence.wholes.is_some())
}

/// Collects the values of chunks that messages and their inner layers use. A few numbers are stored with each
/// message, for all messages of a layer together.
fn find_values(stack: &Stack, edge: &Edge, protocols: &[CheckedProtocol], diagnostics: &mut Vec<Diagnostic>) {
    let from = protocol(stack, edge.from);
    let is_of_it = |other: &&Edge| other.from == edge.from && other.kind == EdgeKind::Messages;
    let messages = stack.edges.iter().filter(is_of_it).map(|other| other.to);
    let reach = Reach::of(stack);
    let layers = messages.flat_map(|to| reach.above(to).chain([to]));
    let (mut names, mut seen) = (FxHashSet::default(), FxHashSet::default());
    for layer in layers.filter(|layer| seen.insert(*layer)) {
        let declared = &protocol(stack, layer).declared;
        let Some(found) = protocols.iter().find(|one| one.protocol.name == *declared) else { continue };
        for used in &found.below {
            let field = from.fields.iter().find(|field| field.is_called(&used.name));
            if let Some(field) = field.filter(|field| !is_number(&field.ty)) {
                let message = format!("`{}` of `{}` is no number", field.path, from.name);
                if !is_reported(diagnostics, &message, used.span) {
                    let help = "of a message's chunks only numbers are stored";
                    diagnostics.push(Diagnostic::error(codes::MESSAGES, message).at(used.span).help(help));
                }
            } else if field.is_some() || from.lets.iter().any(|value| value.name == used.name) {
                names.insert(&used.name);
            }
        }
    }
    let message = format!("messages use more than {WHOLE_VALUES_MAX} values of `{}`", from.name);
    let is_new = !diagnostics.iter().any(|one| one.message == message);
    if names.len() > WHOLE_VALUES_MAX && is_new {
        let help = "join some of them in a `let`";
        diagnostics.push(Diagnostic::error(codes::TOO_MUCH, message).at(edge.span).help(help));
    }
}

fn is_number(ty: &FieldType) -> bool {
    !matches!(ty, FieldType::Ipv6 | FieldType::Bytes(_) | FieldType::Text(_))
}

/// Reports uses of `rest.length` in a message: the end of the enclosing bytes is unknown while the message is
/// parsed.
fn find_rest(stack: &Stack, edge: &Edge, diagnostics: &mut Vec<Diagnostic>) {
    let one = protocol(stack, edge.to);
    let edges = stack.edges.iter().filter(|next| next.from == edge.to);
    let places = one.rest_length.into_iter().chain(edges.filter_map(|next| next.rest_length));
    for span in places {
        let message = format!("`{}` is a message: the number of bytes after its header is unknown", one.name);
        let help = "the next message follows: give the length in a field of the header";
        let diagnostic = Diagnostic::error(codes::MESSAGES, message);
        // The mistake is in the text that declares the messages.
        let diagnostic = match span.source == edge.span.source {
            true => diagnostic.at(span).label(edge.span, "declared as a message here"),
            false => diagnostic.at(edge.span).label(span, "its length is used here"),
        };
        diagnostics.push(diagnostic.help(help));
    }
}

fn is_reported(diagnostics: &[Diagnostic], message: &str, span: Span) -> bool {
    let at = |one: &Diagnostic| one.spans.first().is_some_and(|(place, _)| *place == span);
    diagnostics.iter().any(|one| one.message == message && at(one))
}

fn protocol(stack: &Stack, layer: LayerId) -> &Protocol {
    &stack.layers[usize::from(layer.0)].protocol
}

/// The mistake of an edge, and the remedy.
fn mistake(stack: &Stack, edge: &Edge) -> Option<(String, String)> {
    let (from, to) = (protocol(stack, edge.from), protocol(stack, edge.to));
    if !puts_in_order(from) {
        let message = format!("`{}` has no ordered bytes of two sides", from.name);
        let help = "messages need the bytes that `instance (…) <-> (…)`, `sequence … from first` and \
             `event … on ordered { assemble }` reassemble";
        return Some((message, help.into()));
    }
    if !is_whole(from) && to.payload.as_ref().is_some_and(|payload| payload.length.is_none()) {
        let message = format!("the end of a message of `{}` is unknown", to.name);
        let help = "give the length of its payload: `payload = rest[.. length]`, or omit `payload`";
        return Some((message, help.into()));
    }
    if to.header.is_empty() {
        let message = format!("messages of `{}` have no bytes", to.name);
        return Some((message, "give it a `header`".into()));
    }
    if peeks(&to.header) {
        let message = format!("`{}` peeks beyond the end of the message", to.name);
        return Some((message, "read it as a field".into()));
    }
    let mut open = vec![edge.to];
    let mut seen = FxHashSet::from_iter([edge.to]);
    while let Some(layer) = open.pop() {
        for next in stack.edges.iter().filter(|next| next.from == layer) {
            if next.kind == EdgeKind::Messages {
                let name = &protocol(stack, layer).name;
                let message =
                    format!("messages of `{}` hold `{name}`, which itself carries messages", to.name);
                return Some((message, "streams inside messages are not reassembled".into()));
            }
            if seen.insert(next.to) {
                open.push(next.to);
            }
        }
    }
    None
}

fn puts_in_order(protocol: &Protocol) -> bool {
    let is_two_sided = protocol.instance.as_ref().is_some_and(|instance| !instance.destination.is_empty());
    let has_bytes = protocol.sequence.as_ref().is_some_and(|s| s.from_first && !s.headers_only);
    let mut events = protocol.events.iter();
    is_two_sided && has_bytes && events.any(|e| e.assemble && e.triggers.contains(&Trigger::Ordered))
}

fn peeks(items: &[HeaderItem]) -> bool {
    items.iter().any(|item| match item {
        HeaderItem::Peek(_) => true,
        HeaderItem::If { then, otherwise, .. } => peeks(then) || peeks(otherwise),
        HeaderItem::Run(run) => run.items.iter().any(|item| peeks(&item.items)),
        HeaderItem::Field(_) | HeaderItem::Whole(_) | HeaderItem::Skip { .. } => false,
    })
}
