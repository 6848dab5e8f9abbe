//! The names of one protocol and their meaning.

use super::codes;
use super::constants::Constants;
use super::range::Range;
use crate::diag::{Diagnostic, Span};
use crate::model::{Expr, Field, FieldId, FieldType, LetId, PresenceId, Protocol, VarId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;

/// The meaning of a name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Symbol {
    Field(FieldId),
    Presence(PresenceId),
    Let(LetId),
    Var(VarId),
    /// A prefix of fields: a group or a run.
    Group,
    /// A name for several fields, for filters only.
    Alias,
}

/// The kind of a value. Addresses of up to 64 bits count as numbers; the others cannot be operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    Mac,
    Ipv4,
    Ipv6,
    Bytes,
    /// A value of another layer, or after a reported mistake.
    Unknown,
}

impl Kind {
    pub(super) fn of(ty: &FieldType) -> Kind {
        match ty {
            FieldType::Unsigned { .. } | FieldType::Counted(_) => Kind::Number,
            FieldType::Mac => Kind::Mac,
            FieldType::Ipv4 => Kind::Ipv4,
            FieldType::Ipv6 => Kind::Ipv6,
            FieldType::Bytes(_) | FieldType::Text(_) => Kind::Bytes,
        }
    }

    pub(super) fn is_operand(self) -> bool {
        !matches!(self, Kind::Ipv6 | Kind::Bytes)
    }

    pub(super) fn describe(self) -> &'static str {
        match self {
            Kind::Number | Kind::Unknown => "a number",
            Kind::Mac => "a MAC address",
            Kind::Ipv4 => "an IPv4 address",
            Kind::Ipv6 => "an IPv6 address",
            Kind::Bytes => "bytes",
        }
    }
}

/// A use of `below.NAME`. Stacks determine the layer.
#[derive(Debug, Clone)]
pub(crate) struct BelowUse {
    pub(crate) name: String,
    pub(crate) span: Span,
    /// The value is used in arithmetic: bytes and long addresses are not allowed.
    pub(crate) number: bool,
    /// The value is a column or shown: bytes are not allowed.
    pub(crate) shown: bool,
}

/// The names of one protocol.
#[derive(Debug, Default)]
pub(super) struct Scope {
    /// The protocol, for messages.
    pub(super) protocol: String,
    pub(super) symbols: FxHashMap<String, (Symbol, Span)>,
    /// Functions and tables, shared by all protocols.
    pub(super) constants: Rc<Constants>,
    /// Variables used with `me.` and `peer.`.
    pub(super) sides: FxHashMap<String, VarId>,
    /// Variables of the packet.
    pub(super) packet_vars: FxHashSet<VarId>,
    /// Kinds by `FieldId`.
    pub(super) kinds: Vec<Kind>,
    /// Ranges by `FieldId`, narrowed by tested conditions.
    pub(super) ranges: Vec<Range>,
    /// Ranges by `LetId`.
    pub(super) let_ranges: Vec<Range>,
    /// The prefix of relative names inside groups and run items: `options.sack.`.
    pub(super) prefix: String,
    /// Fields and derived values that the text declares later.
    pub(super) later: FxHashMap<String, Span>,
    /// Bytes of the header so far, if their number is fixed.
    pub(super) cursor: Option<u64>,
    /// Names of states, by index.
    pub(super) states: Vec<String>,
    /// Aliases: names of several fields.
    pub(super) aliases: FxHashMap<String, Vec<FieldId>>,
    pub(super) has_payload: bool,
    pub(super) has_sequence: bool,
    pub(super) has_instance: bool,
    pub(super) two_sided: bool,
    pub(super) below: Vec<BelowUse>,
    /// The first use of `rest.length` or `layer.length`.
    pub(super) rest_length: Option<Span>,
}

/// Words that are values.
pub(super) const VALUES: [&str; 8] = [
    "payload.length",
    "rest.length",
    "header.length",
    "layer.length",
    "packet.time",
    "cursor",
    "originator",
    "responder",
];

/// Prefixes before a dot that do not name a group.
const PREFIXES: [&str; 9] = ["me", "peer", "below", "ordered", "payload", "rest", "header", "layer", "state"];

impl Scope {
    /// Records that `value`, resolved last, is a column or shown.
    pub(super) fn mark_shown(&mut self, value: &Expr) {
        if let (Expr::Below(_), Some(last)) = (value, self.below.last_mut()) {
            last.shown = true;
        }
    }

    /// The names of a protocol that was checked before: fields, presences and derived values.
    pub(super) fn of(protocol: &Protocol, constants: &Rc<Constants>) -> Scope {
        let mut scope = Scope {
            constants: Rc::clone(constants),
            protocol: protocol.name.clone(),
            has_payload: protocol.payload.is_some(),
            ..Scope::default()
        };
        for alias in &protocol.aliases {
            scope.aliases.insert(alias.name.clone(), alias.fields.clone());
            scope.symbols.insert(alias.name.clone(), (Symbol::Alias, protocol.span));
        }
        let mut known = |name: &str, symbol, span| {
            scope.symbols.insert(name.to_string(), (symbol, span));
        };
        for (index, field) in protocol.fields.iter().enumerate() {
            let symbol = Symbol::Field(FieldId(index as u16));
            known(&field.path, symbol, field.span);
            field.alias.iter().for_each(|alias| known(alias, symbol, field.span));
        }
        for (index, presence) in protocol.presences.iter().enumerate() {
            let symbol = Symbol::Presence(PresenceId(index as u16));
            known(&presence.path, symbol, protocol.span);
            presence.alias.iter().for_each(|alias| known(alias, symbol, protocol.span));
        }
        for (index, derived) in protocol.lets.iter().enumerate() {
            known(&derived.name, Symbol::Let(LetId(index as u16)), derived.span);
        }
        for field in &protocol.fields {
            scope.push_field(&field.ty);
        }
        scope.let_ranges = vec![Range::ANY; protocol.lets.len()];
        scope
    }

    /// Adds kind and range of the field with the next id.
    pub(super) fn push_field(&mut self, ty: &FieldType) {
        self.kinds.push(Kind::of(ty));
        self.ranges.push(field_range(ty));
    }

    /// The shortest name of a field.
    pub(super) fn name_of(&self, field: FieldId) -> &str {
        let names = self
            .symbols
            .iter()
            .filter(|(_, (symbol, _))| matches!(symbol, Symbol::Field(id) if *id == field));
        names.map(|(name, _)| name.as_str()).min_by_key(|name| (name.len(), *name)).unwrap_or("the field")
    }

    /// The meaning of a name: first inside the enclosing group or item, then outside.
    pub(super) fn find(&self, name: &str) -> Option<Symbol> {
        let mut prefix = self.prefix.as_str();
        while let Some(inside) = prefix.strip_suffix('.') {
            if let Some((symbol, _)) = self.symbols.get(&format!("{prefix}{name}")) {
                return Some(*symbol);
            }
            prefix = &prefix[..inside.rfind('.').map_or(0, |dot| dot + 1)];
        }
        self.symbols.get(name).map(|(symbol, _)| *symbol)
    }

    /// Declares a name, or reports why it is not allowed.
    pub(super) fn declare(
        &mut self,
        name: &str,
        symbol: Symbol,
        span: Span,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        let prefix = name.split_once('.').map(|(prefix, _)| prefix);
        if VALUES.contains(&name) || name == "_" || prefix.is_some_and(|prefix| PREFIXES.contains(&prefix)) {
            let word = if VALUES.contains(&name) || name == "_" { name } else { prefix.unwrap_or(name) };
            diagnostics.push(
                Diagnostic::error(
                    codes::RESERVED_NAME,
                    format!("`{name}` can't be a name: `{word}` is reserved"),
                )
                .at(span),
            );
            return;
        }
        if let Some((_, first)) = self.symbols.get(name) {
            diagnostics.push(duplicate(name, *first, span));
            return;
        }
        self.later.remove(name);
        self.symbols.insert(name.to_string(), (symbol, span));
    }

    /// Names for suggestions.
    pub(super) fn candidates(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .symbols
            .iter()
            .filter(|(_, (symbol, _))| !matches!(symbol, Symbol::Group | Symbol::Alias))
            .map(|(name, _)| name.clone())
            .collect();
        names.extend(VALUES.iter().map(ToString::to_string));
        for var in self.sides.keys() {
            names.push(format!("me.{var}"));
            names.push(format!("peer.{var}"));
        }
        // The first of two equally near names is suggested: sorting makes the suggestion independent of
        // hashing.
        names.sort_unstable();
        names
    }
}

/// The diagnostic for a duplicate name.
pub(super) fn duplicate(name: &str, first: Span, second: Span) -> Diagnostic {
    Diagnostic::error(codes::DUPLICATE, format!("`{name}` is already declared"))
        .label(second, "declared again here")
        .label(first, "first declared here")
}

fn field_range(ty: &FieldType) -> Range {
    match ty {
        FieldType::Unsigned { bits, .. } => Range::of_bits(*bits),
        FieldType::Ipv4 => Range::of_bits(32),
        FieldType::Mac => Range::of_bits(48),
        FieldType::Ipv6 | FieldType::Bytes(_) | FieldType::Text(_) | FieldType::Counted(_) => Range::ANY,
    }
}

/// The width of a sequence number in bits: that of the expression's first field, 64 if the field is scaled.
pub(super) fn sequence_bits(expr: &Expr, fields: &[Field], lets: &[crate::model::Let]) -> u32 {
    use crate::model::BinaryOp::{Add, Sub};
    match expr {
        Expr::Field(id) => match fields.get(usize::from(id.0)).map(|field| &field.ty) {
            Some(FieldType::Unsigned { bits, .. }) => *bits,
            _ => 64,
        },
        Expr::Binary(Add | Sub, left, _) => sequence_bits(left, fields, lets),
        // A derived value uses earlier derived values only, so the recursion ends.
        Expr::Let(id) => lets
            .get(usize::from(id.0))
            .map_or(64, |derived| sequence_bits(&derived.value, fields, &lets[..usize::from(id.0)])),
        _ => 64,
    }
}
