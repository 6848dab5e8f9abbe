//! The paths through a stack: unreachable layers, unbounded cycles, and the names that layers require from
//! those below.

use super::scope::Kind;
use super::{BelowUse, CheckedProtocol, codes};
use crate::diag::{Diagnostic, Span};
use crate::model::{Edge, LayerId, Protocol, Stack};
use crate::syntax::ast;
use rustc_hash::FxHashSet;

/// Checks the paths of a stack. `repeated` says for each layer whether `repeat` bounds it.
pub(super) fn check(
    stack: &Stack,
    repeated: &[bool],
    protocols: &[CheckedProtocol],
    tree: &ast::Stack,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let reached = reach(stack);
    for (layer, _) in stack.layers.iter().zip(&reached).filter(|(_, reached)| !**reached) {
        let name = &layer.protocol.name;
        let mentions = tree.edges.iter().flat_map(|edge| edge.from.iter().chain([&edge.to]));
        // Inherited layers were reported with the other stack.
        let Some(mention) = mentions.into_iter().find(|mention| mention.text == *name) else { continue };
        diagnostics.push(
            Diagnostic::warning(codes::UNREACHED_LAYER, format!("no path from a start leads to `{name}`"))
                .at(mention.span)
                .help("add an edge to it, or a `start`"),
        );
    }
    find_unattributed_events(stack, tree, diagnostics);
    find_circle(stack, repeated, diagnostics);
    let mut below: Vec<Vec<LayerId>> = vec![Vec::new(); stack.layers.len()];
    for edge in &stack.edges {
        let lower = &mut below[usize::from(edge.to.0)];
        if !lower.contains(&edge.from) {
            lower.push(edge.from);
        }
    }
    for (index, layer) in stack.layers.iter().enumerate().filter(|(index, _)| reached[*index]) {
        let Some(known) = protocols.iter().find(|one| one.protocol.name == layer.protocol.declared) else {
            continue;
        };
        // All uses of a name find the same: one is enough.
        let mut asked: FxHashSet<(&str, bool, bool)> = FxHashSet::default();
        let mut lacking: Vec<Lacking> = Vec::new();
        for need in &known.below {
            if asked.insert((need.name.as_str(), need.number, need.shown)) {
                let found = find_below(stack, &below, LayerId(index as u16), need, diagnostics);
                lacking.extend(found.filter(|one| !lacking.iter().any(|other| other.name == one.name)));
            }
        }
        report_lacking(&layer.protocol.name, lacking, diagnostics);
    }
}

/// A name that some path to a layer lacks.
struct Lacking<'a> {
    name: &'a str,
    /// The first use.
    span: Span,
    /// The path, as text.
    path: String,
    /// The last edge of the path.
    edge: Option<&'a Edge>,
    /// Whether another path has the name: the edge is the mistake, not the name.
    is_elsewhere: bool,
    /// Names of the layers on the path, for suggestions.
    names: Vec<&'a str>,
}

/// Reports names that paths to a layer lack. An edge that bypasses the layers which have them is one mistake.
fn report_lacking(layer: &str, lacking: Vec<Lacking>, diagnostics: &mut Vec<Diagnostic>) {
    let mut reported: Vec<Span> = vec![];
    for one in &lacking {
        let same = |other: &&Lacking| {
            one.is_elsewhere
                && other.is_elsewhere
                && other.edge.map(|edge| edge.span) == one.edge.map(|edge| edge.span)
        };
        let edge = one.edge.map(|edge| edge.span);
        if one.is_elsewhere && edge.is_some_and(|edge| reported.contains(&edge)) {
            continue;
        }
        let together = lacking.iter().filter(same).map(|other| format!("`below.{}`", other.name));
        let names: Vec<String> = match one.is_elsewhere {
            true => together.collect(),
            false => vec![format!("`below.{}`", one.name)],
        };
        let message = format!("`{layer}` needs {}, which some path to it lacks", names.join(", "));
        let diagnostic = Diagnostic::error(codes::UNKNOWN_BELOW, message)
            .label(one.span, format!("not on {}", one.path))
            .help("declare fields or `let`s of these names in a layer below");
        let diagnostic = match one.is_elsewhere {
            true => diagnostic,
            false => diagnostic.did_you_mean(one.name, one.names.iter().copied()),
        };
        diagnostics.push(match edge.filter(|edge| edge.source != one.span.source) {
            Some(edge) => diagnostic.label(edge, "by this edge"),
            None => diagnostic,
        });
        reported.extend(edge.filter(|_| one.is_elsewhere));
    }
}

/// Reports events of layers without any instance, their own or below: such events cannot be attributed.
fn find_unattributed_events(stack: &Stack, tree: &ast::Stack, diagnostics: &mut Vec<Diagnostic>) {
    let has_instance =
        |layer: LayerId| protocol(stack, layer).instance.as_ref().is_some_and(|one| one.condition.is_none());
    let before = reach_through(stack, |layer| !has_instance(layer));
    for (layer, _) in stack.layers.iter().zip(&before).filter(|(_, reached)| **reached) {
        let protocol = &layer.protocol;
        if protocol.instance.is_some() || protocol.events.is_empty() {
            continue;
        }
        let mentions = tree.edges.iter().flat_map(|edge| edge.from.iter().chain([&edge.to]));
        let mut mentions = mentions.chain(tree.starts.iter().map(|(_, name)| name));
        let Some(mention) = mentions.find(|mention| mention.text == protocol.name) else { continue };
        let message = format!("events of `{}` have no instance", protocol.name);
        let help = "declare in the protocol how its packets are grouped: `instance (src, dst)`; if every \
             path has an instance below, events belong to that instance";
        let diagnostic = Diagnostic::error(codes::MISSING_CLAUSE, message).at(mention.span);
        diagnostics.push(diagnostic.help(help));
    }
}

fn protocol(stack: &Stack, layer: LayerId) -> &Protocol {
    &stack.layers[usize::from(layer.0)].protocol
}

fn reach(stack: &Stack) -> Vec<bool> {
    reach_through(stack, |_| true)
}

/// The layers reachable from the starts, along edges that satisfy `passes`.
fn reach_through(stack: &Stack, passes: impl Fn(LayerId) -> bool) -> Vec<bool> {
    let mut reached = vec![false; stack.layers.len()];
    let mut open: Vec<LayerId> = stack.starts.iter().map(|(_, layer)| *layer).collect();
    while let Some(layer) = open.pop() {
        if std::mem::replace(&mut reached[usize::from(layer.0)], true) {
            continue;
        }
        if !passes(layer) {
            continue;
        }
        open.extend(stack.edges.iter().filter(|edge| edge.from == layer).map(|edge| edge.to));
    }
    reached
}

/// Reports a cycle of layers without `repeat`: it would be traversed only once, which is never intended.
fn find_circle(stack: &Stack, repeated: &[bool], diagnostics: &mut Vec<Diagnostic>) {
    let free = |layer: LayerId| !repeated[usize::from(layer.0)];
    let edges: Vec<&Edge> = stack.edges.iter().filter(|edge| free(edge.from) && free(edge.to)).collect();
    let mut left: Vec<bool> = repeated.iter().map(|repeated| !repeated).collect();
    // A layer without an edge from the remaining layers is not in a cycle. Once no more can be removed, only
    // cycles remain.
    let mut entries = vec![0; left.len()];
    edges.iter().for_each(|edge| entries[usize::from(edge.to.0)] += 1);
    let mut open: Vec<usize> = (0..left.len()).filter(|&layer| left[layer] && entries[layer] == 0).collect();
    while let Some(gone) = open.pop() {
        left[gone] = false;
        for edge in edges.iter().filter(|edge| usize::from(edge.from.0) == gone) {
            let to = usize::from(edge.to.0);
            entries[to] -= 1;
            if entries[to] == 0 {
                open.push(to);
            }
        }
    }
    let Some(start) = left.iter().position(|left| *left) else { return };
    // Following the remaining edges backwards must visit a layer twice.
    let mut path: Vec<(usize, &Edge)> = Vec::new();
    let mut at = start;
    while !path.iter().any(|(layer, _)| *layer == at) {
        let into = edges.iter().find(|edge| usize::from(edge.to.0) == at && left[usize::from(edge.from.0)]);
        let Some(edge) = into else { return };
        path.push((at, edge));
        at = usize::from(edge.from.0);
    }
    let first = path.iter().position(|(layer, _)| *layer == at).unwrap_or(0);
    let name = |layer: usize| stack.layers[layer].protocol.name.as_str();
    let mut names: Vec<&str> = path[first..].iter().map(|(layer, _)| name(*layer)).collect();
    names.push(name(at));
    names.reverse();
    let circle = names.join(" \u{2192} ");
    diagnostics.push(
        Diagnostic::error(codes::UNBOUNDED, "unbounded cycle of layers")
            .label(path[first].1.span, circle)
            .help(format!("add a bound: `repeat {} 4`", name(at))),
    );
}

/// Every path to `layer` must contain a layer with the required name. `below`: the layers directly below each
/// layer. Returns the name if a path lacks it.
fn find_below<'a>(
    stack: &'a Stack,
    below: &[Vec<LayerId>],
    layer: LayerId,
    need: &'a BelowUse,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Lacking<'a>> {
    let name = |layer: LayerId| stack.layers[usize::from(layer.0)].protocol.name.as_str();
    let is_start = |layer: LayerId| stack.starts.iter().any(|(_, start)| *start == layer);
    // For each layer, the next one on the path to `layer`.
    let mut above: Vec<Option<LayerId>> = vec![None; stack.layers.len()];
    let mut lower: Vec<&Protocol> = Vec::new();
    // The start of a path without the name.
    let mut without = is_start(layer).then_some(layer);
    let mut unfit: Option<&Protocol> = None;
    // Search downwards from the layer, through layers without the name.
    let mut open: Vec<LayerId> = vec![layer];
    while let Some(at) = open.pop() {
        for &lower_layer in &below[usize::from(at.0)] {
            let place = &mut above[usize::from(lower_layer.0)];
            if place.is_some() {
                continue;
            }
            *place = Some(at);
            let protocol = &stack.layers[usize::from(lower_layer.0)].protocol;
            lower.push(protocol);
            match provides(protocol, &need.name) {
                Some(kind) => {
                    let fits = (!need.number || kind.is_operand()) && (!need.shown || kind != Kind::Bytes);
                    unfit = unfit.or((!fits).then_some(protocol));
                }
                None => {
                    without = without.or(is_start(lower_layer).then_some(lower_layer));
                    open.push(lower_layer);
                }
            }
        }
    }
    let wanted = &need.name;
    if let Some(start) = without {
        let path = path_up(start, layer, &above);
        let path: Vec<&str> = path.into_iter().map(name).collect();
        return Some(Lacking {
            name: wanted,
            span: need.span,
            path: path.join(" \u{2192} "),
            edge: stack.edges.iter().find(|edge| edge.to == layer && path.contains(&name(edge.from))),
            is_elsewhere: lower.iter().any(|protocol| provides(protocol, wanted).is_some()),
            names: lower.iter().flat_map(|protocol| names_of(protocol)).collect(),
        });
    } else if let Some(protocol) = unfit {
        let message = format!("`{wanted}` of `{}` is no number", protocol.name);
        let use_of_it = if need.number { "used in arithmetic" } else { "used as a column or in `show`" };
        diagnostics.push(
            Diagnostic::error(codes::TYPE, message)
                .label(need.span, format!("{use_of_it}, in `{}`", name(layer)))
                .help("addresses of more than 64 bits can only be parts of keys and columns, bytes parts of keys"),
        );
    }
    None
}

/// The layers from `start` up to `layer`, along `above`.
fn path_up(start: LayerId, layer: LayerId, above: &[Option<LayerId>]) -> Vec<LayerId> {
    let mut path = vec![start];
    let mut at = start;
    // A layer in a cycle may be its own successor.
    while let Some(next) = above[usize::from(at.0)].filter(|next| at != layer && !path.contains(next)) {
        path.push(next);
        at = next;
    }
    path
}

fn names_of(protocol: &Protocol) -> impl Iterator<Item = &str> {
    let fields = protocol.fields.iter().flat_map(|field| std::iter::once(&field.path).chain(&field.alias));
    fields.chain(protocol.lets.iter().map(|derived| &derived.name)).map(String::as_str)
}

/// The protocol's field or value of this name.
fn provides(protocol: &Protocol, name: &str) -> Option<Kind> {
    if protocol.lets.iter().any(|derived| derived.name == name) {
        return Some(Kind::Number);
    }
    let field = protocol.fields.iter().find(|field| field.is_called(name))?;
    Some(Kind::of(&field.ty))
}
