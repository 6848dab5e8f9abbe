//! Derived values, sorted so that each uses only earlier ones.

use super::codes;
use super::expr::{Place, Resolver};
use super::scope::{Scope, Symbol};
use crate::diag::Diagnostic;
use crate::model::{Let, LetId};
use crate::syntax::ast;
use rustc_hash::FxHashMap;

/// Maximum number of derived values of one protocol: the search for cycles is recursive.
pub(crate) const LETS_MAX: usize = 256;

/// Checks all `let`s. `payload` is the payload's length, on which the uses of `payload.length` depend.
pub(super) fn check(
    lets: &[&ast::Let],
    payload: Option<&ast::Expr>,
    scope: &mut Scope,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Let> {
    let kept = &lets[..lets.len().min(LETS_MAX)];
    if let Some(excess) = lets.get(LETS_MAX) {
        let message = format!("a protocol has at most {LETS_MAX} derived values");
        diagnostics.push(Diagnostic::error(codes::TOO_MUCH, message).at(excess.name.span));
    }
    let order = Order::of(kept, payload, diagnostics);
    for (id, &index) in order.iter().enumerate() {
        let name = &kept[index].name;
        scope.declare(&name.text, Symbol::Let(LetId(id as u16)), name.span, diagnostics);
    }
    let mut checked = Vec::new();
    for index in order {
        let tree = kept[index];
        let value = Resolver { scope, place: Place::Packet, diagnostics }.number(&tree.value);
        scope.let_ranges.push(value.range);
        checked.push(Let {
            name: tree.name.text.clone(),
            value: value.expr,
            doc: tree.doc.clone(),
            span: tree.name.span,
        });
    }
    checked
}

/// A depth-first search over dependencies.
struct Order<'a> {
    lets: &'a [&'a ast::Let],
    payload: Option<&'a ast::Expr>,
    by_name: FxHashMap<&'a str, usize>,
    /// Marks by index; the payload's length is at the end.
    marks: Vec<Mark>,
    path: Vec<usize>,
    found: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    Open,
    Done,
}

impl<'a> Order<'a> {
    /// Indices into `lets`. Reports a cycle once, and cuts it.
    fn of(
        lets: &'a [&'a ast::Let],
        payload: Option<&'a ast::Expr>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<usize> {
        let mut order = Order {
            lets,
            payload,
            by_name: lets.iter().enumerate().map(|(index, one)| (one.name.text.as_str(), index)).collect(),
            marks: vec![Mark::New; lets.len() + 1],
            path: Vec::new(),
            found: Vec::new(),
        };
        for index in 0..=lets.len() {
            order.visit(index, diagnostics);
        }
        order.found
    }

    fn visit(&mut self, index: usize, diagnostics: &mut Vec<Diagnostic>) {
        match self.marks[index] {
            Mark::Done => return,
            Mark::Open => return self.say_circle(index, diagnostics),
            Mark::New => {}
        }
        self.marks[index] = Mark::Open;
        self.path.push(index);
        let expr = self.lets.get(index).map_or(self.payload, |one| Some(&one.value));
        let mut uses = Vec::new();
        if let Some(expr) = expr {
            expr.names(&mut |name| match self.by_name.get(name) {
                Some(&used) => uses.push(used),
                None if name == "payload.length" && index < self.lets.len() => uses.push(self.lets.len()),
                None => {}
            });
        }
        for used in uses {
            self.visit(used, diagnostics);
        }
        self.path.pop();
        self.marks[index] = Mark::Done;
        if index < self.lets.len() {
            self.found.push(index);
        }
    }

    fn say_circle(&self, index: usize, diagnostics: &mut Vec<Diagnostic>) {
        let start = self.path.iter().position(|&on_path| on_path == index).unwrap_or(0);
        let circle = self.path[start..].iter().chain([&index]);
        let names: Vec<&str> = circle
            .map(|&at| self.lets.get(at).map_or("payload.length", |one| one.name.text.as_str()))
            .collect();
        let span = match self.lets.get(index) {
            Some(one) => one.name.span,
            None => self.payload.map_or_else(Default::default, |length| length.span),
        };
        diagnostics.push(
            Diagnostic::error(codes::CYCLE, format!("`{}` depends on itself", names[0]))
                .label(span, names.join(" \u{2192} "))
                .help("compute it from fields"),
        );
    }
}
