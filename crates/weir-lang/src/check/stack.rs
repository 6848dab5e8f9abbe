//! One stack: its layers, starts, edges and dispatch keys.

use super::constants::Constants;
use super::expr::{Place, Resolver};
use super::scope::{Kind, Scope, Symbol, duplicate};
use super::{CheckedProtocol, codes, messages, reach};
use crate::diag::{Diagnostic, Span};
use crate::model::{BinaryOp, EVENTS_MAX, Edge, Expr, FieldId, Layer, LayerId, LetId, Protocol, Stack};
use crate::syntax::ast;
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use std::sync::Arc;
use weir_packet::LinkType;

/// Maximum number of edges of one stack.
pub(crate) const EDGES_MAX: usize = 4_096;
/// Maximum number of occurrences of one layer in a packet.
pub(crate) const REPEAT_MAX: u64 = 64;
/// Link types with names are below this number; numbers in capture files go up to 65 535.
const NAMED_LINKS: u16 = 512;

/// Checks a stack. `refused`: names of stacks with mistakes; `open`: stacks that are not checked yet.
pub(super) fn check(
    tree: &ast::Stack,
    protocols: &[CheckedProtocol],
    stacks: &[Stack],
    refused: &[String],
    open: &[&ast::Stack],
    constants: &Rc<Constants>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Stack> {
    if let Some(known) = stacks.iter().find(|stack| stack.name == tree.name.text) {
        let diagnostic =
            Diagnostic::error(codes::DUPLICATE, format!("there is already a stack `{}`", known.name));
        diagnostics.push(diagnostic.at(tree.name.span).help("give it another name"));
        return None;
    }
    let wrong = wrong_protocols(tree, protocols, open, diagnostics);
    let mut stack = match &tree.extends {
        Some(base) => extended(tree, base, stacks, refused, open, diagnostics)?,
        None => Stack {
            name: String::new(),
            doc: String::new(),
            layers: Vec::new(),
            starts: Vec::new(),
            edges: Vec::new(),
            usual: Vec::new(),
            dispatch: Vec::new(),
            by_interface: false,
        },
    };
    stack.name = tree.name.text.clone();
    stack.doc = tree.doc.clone();
    let ids = stack.layers.iter().enumerate();
    let layers = ids.map(|(index, layer)| (layer.protocol.name.clone(), LayerId(index as u16))).collect();
    let repeated = stack.layers.iter().map(|layer| layer.repeat_max > 1).collect();
    let mut checker = Checker {
        tree,
        protocols,
        constants,
        layers,
        repeated,
        scopes: FxHashMap::default(),
        unknown: FxHashSet::default(),
        reported: FxHashSet::default(),
        wrong,
        stack,
        diagnostics,
    };
    checker.places();
    checker.starts(tree);
    checker.edges(tree);
    checker.repeats(tree);
    checker.usual(tree);
    checker.sessions(tree);
    checker.dispatch(tree);
    checker.events(tree);
    let Checker { stack, repeated, unknown, wrong, diagnostics, .. } = checker;
    // Paths through unknown layers are missing: checks of paths would report false errors.
    if unknown.is_empty() {
        messages::check(&stack, (protocols, &wrong), tree, diagnostics);
        reach::check(&stack, &repeated, protocols, tree, diagnostics);
    }
    Some(stack)
}

/// The protocols with mistakes, by the spans of their names: each mistake belongs to the protocol or stack
/// whose name precedes it.
fn wrong_protocols(
    tree: &ast::Stack,
    protocols: &[CheckedProtocol],
    open: &[&ast::Stack],
    diagnostics: &[Diagnostic],
) -> FxHashSet<Span> {
    let stacks = open.iter().map(|open| open.name.span).chain([tree.name.span]);
    let mut names: Vec<Span> = protocols.iter().map(|one| one.protocol.span).chain(stacks).collect();
    let place = |span: &Span| (span.source, span.start);
    names.sort_by_key(place);
    let mistakes = diagnostics.iter().filter(|one| one.is_error()).filter_map(|one| one.spans.first());
    mistakes
        .filter_map(|(span, _)| {
            let before = names.partition_point(|name| place(name) <= place(span)).checked_sub(1)?;
            Some(names[before]).filter(|name| name.source == span.source)
        })
        .collect()
}

/// A copy of the extended stack.
fn extended(
    tree: &ast::Stack,
    base: &ast::Name,
    stacks: &[Stack],
    refused: &[String],
    open: &[&ast::Stack],
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Stack> {
    if let Some(found) = stacks.iter().find(|stack| stack.name == base.text) {
        return Some(found.clone());
    }
    if refused.contains(&base.text) {
        return None;
    }
    let diagnostic = if tree.name.text == base.text {
        let help = format!("give it another name: `stack my_{0} extends {0} {{ … }}`", base.text);
        Diagnostic::error(codes::CYCLE, format!("`{}` extends itself", base.text)).at(base.span).help(help)
    } else if open.iter().any(|tree| tree.name.text == base.text) {
        Diagnostic::error(codes::CYCLE, format!("`{}` is part of a cycle of `extends`", base.text))
            .at(base.span)
    } else {
        Diagnostic::error(codes::UNKNOWN_LAYER, format!("there is no stack `{}`", base.text))
            .at(base.span)
            .did_you_mean(&base.text, stacks.iter().map(|stack| stack.name.as_str()))
    };
    diagnostics.push(diagnostic);
    None
}

/// Maximum number of condition values that are compared; beyond it there are no warnings.
const COMPARED_MAX: usize = 1_000;

/// The subject of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Field(FieldId),
    Let(LetId),
}

/// The subjects of a condition with their matching ranges; `None` if the condition has another form.
fn matched_values(condition: &Expr) -> Option<Vec<(Subject, (u64, u64))>> {
    let subject = |expr: &Expr| match expr {
        Expr::Field(field) => Some(Subject::Field(*field)),
        Expr::Let(value) => Some(Subject::Let(*value)),
        _ => None,
    };
    match condition {
        Expr::Binary(BinaryOp::Eq, value, number) => match &**number {
            Expr::Number(number) => Some(vec![(subject(value)?, (*number, *number))]),
            _ => None,
        },
        Expr::In(value, ranges) => {
            let what = subject(value)?;
            Some(ranges.iter().map(|&range| (what, range)).collect())
        }
        Expr::Binary(BinaryOp::LogicalOr, a, b) => {
            let mut a = matched_values(a)?;
            a.extend(matched_values(b)?);
            Some(a)
        }
        _ => None,
    }
}

struct Checker<'a> {
    tree: &'a ast::Stack,
    protocols: &'a [CheckedProtocol],
    constants: &'a Rc<Constants>,
    layers: FxHashMap<String, LayerId>,
    /// For each layer, whether `repeat` bounds it.
    repeated: Vec<bool>,
    scopes: FxHashMap<LayerId, Scope>,
    /// Layers that were reported as unknown.
    unknown: FxHashSet<String>,
    /// Reported mistakes of conditions: an edge from several layers is checked for each.
    reported: FxHashSet<(&'static str, Span)>,
    /// Spans of protocols with mistakes.
    wrong: FxHashSet<Span>,
    stack: Stack,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl Checker<'_> {
    /// The layer of that name, created on first use. `None` if the name is unknown, which is reported.
    fn layer(&mut self, name: &ast::Name) -> Option<LayerId> {
        if let Some(id) = self.layers.get(&name.text) {
            return Some(*id);
        }
        let place = self.tree.places.iter().find(|place| place.name.text == name.text);
        let declared = place.map_or(&name.text, |place| &place.protocol.text);
        if let Some(known) = self.protocols.iter().find(|one| one.protocol.name == *declared) {
            let id = LayerId(self.stack.layers.len() as u16);
            self.layers.insert(name.text.clone(), id);
            let mut protocol = known.protocol.clone();
            if let Some(place) = place {
                let protocol = Arc::make_mut(&mut protocol);
                protocol.name = name.text.clone();
                protocol.other_filter_names.clear();
                protocol.filter_name = place.filter_name.as_ref().unwrap_or(name).text.clone();
            }
            if let Some(other) =
                self.stack.layers.iter().find(|l| l.protocol.filter_name == protocol.filter_name)
            {
                let (own, other) = (&protocol.filter_name, &other.protocol.name);
                let message = format!("`{own}` is already the filter name of `{other}`");
                self.diagnostics.push(
                    Diagnostic::error(codes::DUPLICATE, message)
                        .at(place.map_or(name.span, |place| place.name.span))
                        .help("`layer NAME as FILTER_NAME: PROTOCOL` gives it another name"),
                );
            }
            self.stack.layers.push(Layer { protocol, repeat_max: 1, carries: None });
            self.repeated.push(false);
            return Some(id);
        }
        if self.unknown.insert(name.text.clone()) {
            let names = self.protocols.iter().map(|one| one.protocol.name.as_str());
            let message = format!("there is no protocol `{}`", name.text);
            let diagnostic = Diagnostic::error(codes::UNKNOWN_LAYER, message)
                .at(name.span)
                .help("layers are protocols, by the name after `protocol`")
                .did_you_mean(&name.text, names);
            self.diagnostics.push(diagnostic);
        }
        None
    }

    /// Checks that places have unique names and existing protocols.
    fn places(&mut self) {
        let mut seen: FxHashMap<&str, Span> = FxHashMap::default();
        for ast::Place { name: place, protocol, .. } in &self.tree.places {
            if let Some(first) = seen.insert(&place.text, place.span) {
                self.diagnostics.push(duplicate(&place.text, first, place.span));
            }
            if self.layers.contains_key(&place.text) {
                let message = format!("`{}` is a layer of the stack that is extended", place.text);
                self.diagnostics.push(
                    Diagnostic::error(codes::DUPLICATE, message).at(place.span).help("give it another name"),
                );
            }
            if place.text.contains('.') {
                self.diagnostics.push(
                    Diagnostic::error(codes::RESERVED_NAME, "the name of a layer has no dots").at(place.span),
                );
            }
            if !self.protocols.iter().any(|one| one.protocol.name == protocol.text) {
                let names = self.protocols.iter().map(|one| one.protocol.name.as_str());
                let message = format!("there is no protocol `{}`", protocol.text);
                let diagnostic = Diagnostic::error(codes::UNKNOWN_LAYER, message).at(protocol.span);
                self.diagnostics.push(diagnostic.did_you_mean(&protocol.text, names));
                self.unknown.insert(place.text.clone());
            }
        }
    }

    /// A layer that an edge or start of this stack uses.
    fn present_layer(&mut self, name: &ast::Name) -> Option<LayerId> {
        let before = self.stack.layers.len();
        let id = self.layer(name)?;
        if usize::from(id.0) < before {
            return Some(id);
        }
        self.stack.layers.pop();
        self.repeated.pop();
        self.layers.remove(&name.text);
        self.diagnostics.push(
            Diagnostic::error(codes::UNKNOWN_LAYER, format!("`{}` is no layer of this stack", name.text))
                .at(name.span)
                .help("add an edge that leads to it"),
        );
        None
    }

    fn starts(&mut self, tree: &ast::Stack) {
        let mut own: FxHashMap<u16, Span> = FxHashMap::default();
        for (links, name) in &tree.starts {
            let layer = self.layer(name);
            for link in links {
                let Some(number) = self.link(link) else { continue };
                if let Some(first) = own.insert(number, link.name.span) {
                    self.diagnostics.push(duplicate(&link.name.text, first, link.name.span));
                }
                if let Some(layer) = layer {
                    self.stack.starts.retain(|(inherited, _)| *inherited != number);
                    self.stack.starts.push((number, layer));
                }
            }
        }
        if self.stack.starts.is_empty() {
            self.diagnostics.push(
                Diagnostic::error(
                    codes::MISSING_CLAUSE,
                    format!("`{}` starts with no layer", tree.name.text),
                )
                .at(tree.name.span)
                .help("add `start ETHERNET: eth`"),
            );
        }
    }

    fn link(&mut self, link: &ast::Link) -> Option<u16> {
        let found = match link.number {
            Some(number) => u16::try_from(number).ok(),
            None => (0..NAMED_LINKS).find(|&number| LinkType(number).name() == Some(&link.name.text)),
        };
        if found.is_none() {
            let names: Vec<&str> = (0..NAMED_LINKS).filter_map(|number| LinkType(number).name()).collect();
            let diagnostic =
                Diagnostic::error(codes::UNKNOWN_LINK, format!("there is no link type `{}`", link.name.text))
                    .at(link.name.span)
                    .help("write its LINKTYPE_ number (tcpdump.org/linktypes.html)")
                    .did_you_mean(&link.name.text, names);
            self.diagnostics.push(diagnostic);
        }
        found
    }

    /// The stack's own edges, before those of the extended stack.
    fn edges(&mut self, tree: &ast::Stack) {
        let inherited = std::mem::take(&mut self.stack.edges);
        let mut compared: Vec<(LayerId, Subject, Span, (u64, u64))> = Vec::new();
        let mut always: FxHashMap<LayerId, Span> = FxHashMap::default();
        for edge in &tree.edges {
            let to = self.layer(&edge.to);
            for name in &edge.from {
                let (Some(from), Some(to)) = (self.layer(name), to) else { continue };
                if self.stack.edges.len() >= EDGES_MAX {
                    let message = format!("a stack has at most {EDGES_MAX} edges");
                    self.diagnostics.push(Diagnostic::error(codes::TOO_MUCH, message).at(edge.to.span));
                    return;
                }
                if let Some(first) = always.get(&from) {
                    self.diagnostics.push(
                        Diagnostic::warning(codes::DEAD_EDGE, format!("`{}` can never be followed by this", name.text))
                            .at(edge.to.span)
                            .label(*first, "always taken before it")
                            .help("the first edge whose condition holds is taken: add a `when` to it, or move it down"),
                    );
                }
                if edge.condition.is_none() {
                    always.insert(from, edge.to.span);
                }
                let (condition, rest_length) = edge
                    .condition
                    .as_ref()
                    .map_or((Expr::Number(1), None), |expr| self.condition(from, expr));
                let span = edge.to.span;
                for (what, range) in matched_values(&condition).into_iter().flatten() {
                    if compared.len() < COMPARED_MAX {
                        self.find_overlap(&compared, &(from, &what, span, range));
                        compared.push((from, what, span, range));
                    }
                }
                self.stack.edges.push(Edge { from, to, condition, kind: edge.kind, rest_length, span });
            }
        }
        self.stack.edges.extend(inherited);
    }

    /// Warns if an earlier edge of the same text is taken for some of these values.
    fn find_overlap(
        &mut self,
        compared: &[(LayerId, Subject, Span, (u64, u64))],
        &(from, what, span, (low, high)): &(LayerId, &Subject, Span, (u64, u64)),
    ) {
        let meets = |other: &&(LayerId, Subject, Span, (u64, u64))| {
            let (least, most) = other.3;
            other.0 == from && other.1 == *what && other.2 != span && least <= high && low <= most
        };
        let Some(earlier) = compared.iter().find(meets) else { return };
        if self.reported.insert((codes::OVERLAP, span)) {
            let value = low.max(earlier.3.0);
            self.diagnostics.push(
                Diagnostic::warning(codes::OVERLAP, format!("{value} already leads elsewhere"))
                    .at(span)
                    .label(earlier.2, "taken first")
                    .help("the first edge whose condition holds is taken"),
            );
        }
    }

    /// The condition in terms of `from`, and its first use of `rest.length`.
    fn condition(&mut self, from: LayerId, expr: &ast::Expr) -> (Expr, Option<Span>) {
        let protocol = &self.stack.layers[usize::from(from.0)].protocol;
        // Conditions use fields: after mistakes in the fields nothing more is reported.
        if self.wrong.contains(&protocol.span) {
            return (Expr::Number(1), None);
        }
        let scope = self.scopes.entry(from).or_insert_with(|| Scope::of(protocol, self.constants));
        let mut found = Vec::new();
        let condition =
            Resolver { scope, place: Place::Packet, diagnostics: &mut found }.condition(expr).expr;
        let rest_length = scope.rest_length.take();
        for below in std::mem::take(&mut scope.below) {
            let name = &below.name;
            found.push(
                Diagnostic::error(
                    codes::NOT_HERE,
                    format!("`below.{name}` can't be used here: it is of another layer"),
                )
                .at(below.span)
                .help(format!(
                    "an edge can use the layer that it leaves: `let {name} = below.{name}` in its protocol"
                )),
            );
        }
        for diagnostic in found {
            let span = diagnostic.spans.first().map_or(expr.span, |(span, _)| *span);
            if self.reported.insert((diagnostic.code, span)) {
                self.diagnostics.push(diagnostic);
            }
        }
        (condition, rest_length)
    }

    fn repeats(&mut self, tree: &ast::Stack) {
        let mut own: FxHashMap<&str, Span> = FxHashMap::default();
        for (name, times, span) in &tree.repeats {
            if let Some(first) = own.insert(&name.text, name.span) {
                self.diagnostics.push(duplicate(&name.text, first, name.span));
            }
            let Some(layer) = self.present_layer(name) else { continue };
            if !(1..=REPEAT_MAX).contains(times) {
                self.diagnostics.push(
                    Diagnostic::error(codes::BAD_CLAUSE, format!("a layer occurs 1 to {REPEAT_MAX} times"))
                        .at(*span),
                );
                continue;
            }
            self.stack.layers[usize::from(layer.0)].repeat_max = *times as u32;
            self.repeated[usize::from(layer.0)] = true;
        }
    }

    /// Layers whose bytes carry the sessions of another layer.
    fn sessions(&mut self, tree: &ast::Stack) {
        for (name, transport) in &tree.sessions {
            let Some(layer) = self.present_layer(name) else { continue };
            let mut known = self.protocols.iter().map(|one| one.protocol.name.as_str());
            if !known.any(|known| known == transport.text) {
                let names = self.protocols.iter().map(|one| one.protocol.name.as_str());
                let message = format!("there is no protocol `{}`", transport.text);
                let diagnostic = Diagnostic::error(codes::UNKNOWN_LAYER, message).at(transport.span);
                self.diagnostics.push(
                    diagnostic
                        .help("a layer that carries sessions: `tcp` for streams, `udp` for datagrams")
                        .did_you_mean(&transport.text, names),
                );
                continue;
            }
            let protocol = &self.stack.layers[usize::from(layer.0)].protocol;
            let is_two_sided = protocol.instance.as_ref().is_some_and(|one| !one.destination.is_empty());
            let delivers = protocol.events.iter().any(|event| event.assemble);
            if !(is_two_sided && delivers) {
                let message = format!("`{}` delivers no bytes to sessions", name.text);
                let help = "it needs an instance with two sides, and an event that delivers bytes: \
                     `event bytes on ordered { assemble }`, without a sequence `on packet`";
                let diagnostic = Diagnostic::error(codes::MISSING_CLAUSE, message).at(name.span);
                self.diagnostics.push(diagnostic.help(help));
                continue;
            }
            self.stack.layers[usize::from(layer.0)].carries = Some(transport.text.clone());
        }
    }

    fn usual(&mut self, tree: &ast::Stack) {
        if tree.usual.is_empty() {
            return;
        }
        let level = |names: &Vec<ast::Name>| names.iter().filter_map(|n| self.present_layer(n)).collect();
        self.stack.usual = tree.usual.iter().map(level).collect();
    }

    fn events(&mut self, tree: &ast::Stack) {
        let count: usize = self.stack.layers.iter().map(|layer| layer.protocol.events.len()).sum();
        if count > EVENTS_MAX {
            let message = format!("this stack has {count} events, and at most {EVENTS_MAX} are allowed");
            self.diagnostics.push(
                Diagnostic::error(codes::TOO_MUCH, message)
                    .at(tree.name.span)
                    .help("omit layers, or merge events and distinguish them by a column"),
            );
        }
    }

    fn dispatch(&mut self, tree: &ast::Stack) {
        for (source, destination) in &tree.dispatch {
            let (Some((layer, one)), Some((other, two))) = (self.key(source), self.key(destination)) else {
                continue;
            };
            let protocol = &self.stack.layers[usize::from(layer.0)].protocol;
            let kind = |id: FieldId| Kind::of(&protocol.fields[usize::from(id.0)].ty);
            if layer != other || kind(one) != kind(two) || kind(one) == Kind::Bytes {
                self.diagnostics.push(
                    Diagnostic::error(
                        codes::DISPATCH,
                        "these are not two numbers or addresses of one type and layer",
                    )
                    .at(source.span)
                    .label(destination.span, "")
                    .help("both directions must give the same worker: `dispatch ip.src <-> ip.dst`"),
                );
                continue;
            }
            self.stack.dispatch.retain(|known| *known != (layer, one, two));
            self.stack.dispatch.push((layer, one, two));
        }
    }

    /// `LAYER.FIELD`
    fn key(&mut self, name: &ast::Name) -> Option<(LayerId, FieldId)> {
        let Some((layer, field)) = name.text.split_once('.') else {
            self.diagnostics.push(
                Diagnostic::error(codes::DISPATCH, "a key is a field of a layer")
                    .at(name.span)
                    .help("write `ip.src`"),
            );
            return None;
        };
        let layer_span = Span { end: name.span.start + layer.len() as u32, ..name.span };
        let id = self.present_layer(&ast::Name { text: layer.to_string(), span: layer_span })?;
        let scope = Scope::of(&self.stack.layers[usize::from(id.0)].protocol, self.constants);
        if let Some(Symbol::Field(field)) = scope.find(field) {
            return Some((id, field));
        }
        let protocol: &Protocol = &self.stack.layers[usize::from(id.0)].protocol;
        let fields = protocol.fields.iter().map(|field| field.path.as_str());
        let diagnostic = Diagnostic::error(codes::UNKNOWN_NAME, format!("`{layer}` has no field `{field}`"))
            .at(name.span)
            .did_you_mean(field, fields);
        self.diagnostics.push(diagnostic);
        None
    }
}
