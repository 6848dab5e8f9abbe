//! The header: assigns field ids in the order of the text, and checks that bits fill bytes.

use super::codes;
use super::expr::{Place, Resolver};
use super::range::ones;
use super::scope::{Kind, Scope, Symbol};
use super::types::{group_bits, named_type, translate};
use crate::diag::{Diagnostic, Span};
use crate::model::{
    Constraint, Expr, Field, FieldId, FieldType, HeaderItem, Presence, PresenceId, Run, RunItem,
};
use crate::syntax::ast;
use rustc_hash::FxHashMap;

/// Maximum number of fields of one protocol.
pub(crate) const FIELDS_MAX: usize = 4_096;

/// Types with a fixed name, for suggestions.
const TYPES: [&str; 13] = [
    "u8", "u16", "u32", "u64", "u16le", "u32le", "u64le", "macaddr", "ipv4addr", "ipv6addr", "bytes", "text",
    "uint",
];

/// The result for a header.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) items: Vec<HeaderItem>,
    pub(super) fields: Vec<Field>,
    pub(super) presences: Vec<Presence>,
    /// Fields directly in a group, by its path.
    pub(super) groups: FxHashMap<String, Vec<FieldId>>,
}

/// The name prefix of the following fields.
#[derive(Clone, Default)]
struct Prefix {
    path: String,
    /// The prefix of second names (`as`), without the name of a run's item (`options.mss_val`).
    alias: String,
    /// The second name of the enclosing item, the prefix of its fields' second names.
    other: Option<String>,
}

impl Prefix {
    fn path_of(&self, name: &str) -> String {
        format!("{}{name}", self.path)
    }

    fn alias_of(&self, name: &str, alias: Option<&ast::Name>) -> Option<String> {
        match (alias, &self.other) {
            (Some(alias), _) => Some(format!("{}{}", self.alias, alias.text)),
            (None, Some(other)) => Some(format!("{other}{name}")),
            (None, None) => None,
        }
    }
}

/// Checks a header's items and declares their names in `scope`.
pub(super) fn check(
    items: &[ast::HeaderItem],
    scope: &mut Scope,
    diagnostics: &mut Vec<Diagnostic>,
) -> Layout {
    announce(items, &mut String::new(), scope);
    let mut checker =
        Checker { scope, diagnostics, layout: Layout::default(), bits: 0, fixed_bits: Some(0), last: None };
    let items = checker.items(items, &Prefix::default());
    checker.fill_byte("the header ends");
    let mut layout = checker.layout;
    layout.items = items;
    layout
}

/// Collects the names of all fields, to distinguish a field used too early from an unknown one.
fn announce(items: &[ast::HeaderItem], prefix: &mut String, scope: &mut Scope) {
    for item in items {
        match item {
            ast::HeaderItem::Field(field) => {
                for name in std::iter::once(&field.name).chain(&field.alias) {
                    scope.later.insert(format!("{prefix}{}", name.text), name.span);
                }
            }
            ast::HeaderItem::Group { name, items, .. } => {
                let length = prefix.len();
                prefix.push_str(&name.text);
                prefix.push('.');
                announce(items, prefix, scope);
                prefix.truncate(length);
            }
            ast::HeaderItem::If { then, otherwise, .. } => {
                announce(then, prefix, scope);
                announce(otherwise, prefix, scope);
            }
            ast::HeaderItem::Skip { .. } | ast::HeaderItem::Run { .. } => {}
        }
    }
}

struct Checker<'a> {
    scope: &'a mut Scope,
    diagnostics: &'a mut Vec<Diagnostic>,
    layout: Layout,
    /// Bits since the last byte boundary, less than 8.
    bits: u32,
    /// Bits since the header's start, if all earlier items have a fixed length.
    fixed_bits: Option<u64>,
    /// The last item, to report missing bits there.
    last: Option<Span>,
}

impl Checker<'_> {
    fn items(&mut self, items: &[ast::HeaderItem], prefix: &Prefix) -> Vec<HeaderItem> {
        let outer = std::mem::replace(&mut self.scope.prefix, prefix.path.clone());
        let mut checked = Vec::new();
        for item in items {
            match item {
                ast::HeaderItem::Field(field) => self.field(field, prefix, &mut checked),
                ast::HeaderItem::Skip { ty, span } => self.skip(ty, *span, &mut checked),
                ast::HeaderItem::Group { name, items, doc } => {
                    self.group(name, items, doc, prefix, &mut checked);
                }
                ast::HeaderItem::If { condition, then, otherwise, span } => {
                    self.branch(condition, then, otherwise, *span, prefix, &mut checked);
                }
                ast::HeaderItem::Run { name, tag, items, until } => {
                    self.run(name, tag.as_ref(), items, until, prefix, &mut checked);
                }
            }
        }
        self.scope.prefix = outer;
        checked
    }

    // Fields.

    fn field(&mut self, field: &ast::Field, prefix: &Prefix, checked: &mut Vec<HeaderItem>) {
        let known = self.field_type(&field.ty);
        if self.layout.fields.len() >= FIELDS_MAX {
            if self.layout.fields.len() == FIELDS_MAX {
                let message = format!("a header has at most {FIELDS_MAX} fields");
                self.diagnostics.push(Diagnostic::error(codes::TOO_MUCH, message).at(field.name.span));
            }
            return;
        }
        let path = prefix.path_of(&field.name.text);
        match &known {
            Some(ty) => self.place(ty, field, &path),
            // Unknown length: assume that the next item is aligned.
            None => (self.bits, self.fixed_bits) = (0, None),
        }
        let is_known = known.is_some();
        let ty = known.unwrap_or(FieldType::Bytes(Expr::Number(0)));
        let id = FieldId(self.layout.fields.len() as u16);
        let alias = prefix.alias_of(&field.name.text, field.alias.as_ref());
        self.scope.declare(&path, Symbol::Field(id), field.name.span, self.diagnostics);
        if let Some(alias) = &alias {
            let span = field.alias.as_ref().map_or(field.name.span, |name| name.span);
            self.scope.declare(alias, Symbol::Field(id), span, self.diagnostics);
        }
        self.scope.push_field(&ty);
        let constraint = if is_known {
            self.constraint(&ty, field, id)
        } else {
            self.scope.kinds[usize::from(id.0)] = Kind::Unknown;
            None
        };
        let span = field.name.span;
        self.layout.fields.push(Field { path, alias, ty, constraint, doc: field.doc.clone(), span });
        checked.push(if field.peek { HeaderItem::Peek(id) } else { HeaderItem::Field(id) });
    }

    /// Moves the cursor past a field and checks its alignment.
    fn place(&mut self, ty: &FieldType, field: &ast::Field, path: &str) {
        let bits = match ty {
            FieldType::Unsigned { bits, little: false } => *bits,
            _ => {
                self.fill_byte(&format!("`{path}` starts"));
                match ty {
                    FieldType::Unsigned { bits, .. } => *bits,
                    FieldType::Mac => 48,
                    FieldType::Ipv4 => 32,
                    FieldType::Ipv6 => 128,
                    FieldType::Bytes(_) | FieldType::Text(_) | FieldType::Counted(_) => 0,
                }
            }
        };
        let span = field.name.span.to(field.ty.name.span);
        if self.bits > 0 && self.bits + bits > 64 {
            let message = format!("`{path}` spans nine bytes; a field spans at most eight");
            let help =
                "align it to a byte, or split it into two fields that a `let` joins: `high << 32 | low`";
            self.diagnostics.push(Diagnostic::error(codes::UNALIGNED, message).at(span).help(help));
        }
        if field.peek {
            if matches!(ty, FieldType::Bytes(_) | FieldType::Text(_) | FieldType::Counted(_)) {
                self.diagnostics.push(
                    Diagnostic::error(codes::TYPE, "only types of a fixed length can be peeked at").at(span),
                );
            }
            return;
        }
        self.last = Some(span);
        match ty {
            FieldType::Bytes(Expr::Number(bytes)) | FieldType::Text(Expr::Number(bytes)) => {
                let bits = bytes.checked_mul(8);
                self.fixed_bits = self.fixed_bits.zip(bits).and_then(|(fixed, bits)| fixed.checked_add(bits));
            }
            FieldType::Bytes(_) | FieldType::Text(_) | FieldType::Counted(_) => self.fixed_bits = None,
            _ => self.advance(bits),
        }
    }

    fn advance(&mut self, bits: u32) {
        self.bits = (self.bits + bits) % 8;
        self.fixed_bits = self.fixed_bits.map(|fixed| fixed + u64::from(bits));
    }

    /// Reports bits missing to a whole byte, once.
    fn fill_byte(&mut self, what: &str) {
        if self.bits == 0 {
            return;
        }
        let missing = 8 - self.bits;
        let plural = if missing == 1 { "bit is" } else { "bits are" };
        let diagnostic = Diagnostic::error(
            codes::UNALIGNED,
            format!("{missing} {plural} missing to a whole byte where {what}"),
        )
        .help(format!("add `_: u{missing}`"));
        self.diagnostics.push(match self.last {
            Some(last) => diagnostic
                .label(last, format!("the last {} here", if self.bits == 1 { "bit" } else { "bits" })),
            None => diagnostic,
        });
        self.advance(missing);
    }

    fn skip(&mut self, ty: &ast::Type, span: Span, checked: &mut Vec<HeaderItem>) {
        let bits = match self.field_type(ty) {
            Some(FieldType::Unsigned { bits, .. }) => bits,
            Some(FieldType::Bytes(Expr::Number(bytes))) if bytes <= 8_192 => {
                self.fill_byte("the bytes start");
                bytes as u32 * 8
            }
            Some(_) => {
                self.diagnostics.push(
                    Diagnostic::error(codes::TYPE, "`_` skips a fixed number of bits or bytes")
                        .at(ty.name.span)
                        .help("write `_: u16` or `_: bytes[6]`, or give it a name"),
                );
                return;
            }
            None => return,
        };
        self.advance(bits);
        self.last = Some(span.to(ty.name.span));
        checked.push(HeaderItem::Skip { bits });
    }

    fn constraint(&mut self, ty: &FieldType, field: &ast::Field, id: FieldId) -> Option<Constraint> {
        let (op, value, span) = field.constraint?;
        let FieldType::Unsigned { bits, .. } = ty else {
            self.diagnostics.push(Diagnostic::error(codes::TYPE, "only numbers can be constrained").at(span));
            return None;
        };
        let range = &mut self.scope.ranges[usize::from(id.0)];
        match range.fulfilling(op, value) {
            Some(kept) if value <= ones(*bits) => *range = kept,
            _ => {
                let message = format!("no value of `{}` satisfies this", field.name.text);
                let most = ones(*bits);
                self.diagnostics.push(
                    Diagnostic::error(codes::TOO_WIDE, message)
                        .label(span, format!("a field of {bits} bits is at most {most}")),
                );
            }
        }
        Some(Constraint { op, value })
    }

    /// The type with this name.
    fn field_type(&mut self, ty: &ast::Type) -> Option<FieldType> {
        let found = named_type(&ty.name.text);
        match (found, &ty.length) {
            (
                Some(kind @ (FieldType::Bytes(_) | FieldType::Text(_) | FieldType::Counted(_))),
                Some(length),
            ) => {
                let length = self.resolve(Place::Length, |resolver| resolver.number(length).expr);
                Some(match kind {
                    FieldType::Bytes(_) => FieldType::Bytes(length),
                    FieldType::Text(_) => FieldType::Text(length),
                    _ => FieldType::Counted(length),
                })
            }
            (Some(FieldType::Bytes(_) | FieldType::Text(_) | FieldType::Counted(_)), None) => {
                let name = &ty.name.text;
                self.diagnostics.push(
                    Diagnostic::error(codes::UNKNOWN_TYPE, format!("`{name}` needs a length in bytes"))
                        .at(ty.name.span)
                        .help(format!("write `{name}[4]` or `{name}[length - 2]`")),
                );
                None
            }
            (Some(_), Some(length)) => {
                self.diagnostics.push(
                    Diagnostic::error(codes::UNKNOWN_TYPE, format!("`{}` has a fixed length", ty.name.text))
                        .at(length.span)
                        .help("only `bytes[…]`, `text[…]` and `uint[…]` have a length"),
                );
                None
            }
            (Some(found), None) => Some(found),
            (None, _) => {
                let name = &ty.name.text;
                let diagnostic = Diagnostic::error(codes::UNKNOWN_TYPE, format!("there is no type `{name}`"))
                    .at(ty.name.span)
                    .help("types are u1 to u64, u16le, u32le, u64le, macaddr, ipv4addr, ipv6addr, bytes[…], text[…], uint[…]");
                self.diagnostics.push(match translate(name) {
                    Some(help) => diagnostic.help(help),
                    None => diagnostic.did_you_mean(name, TYPES),
                });
                None
            }
        }
    }

    // Groups, branches, runs.

    fn group(
        &mut self,
        name: &ast::Name,
        items: &[ast::HeaderItem],
        doc: &str,
        prefix: &Prefix,
        checked: &mut Vec<HeaderItem>,
    ) {
        let path = prefix.path_of(&name.text);
        let fits = |bits: &u32| self.bits + bits <= 64 && self.layout.fields.len() < FIELDS_MAX;
        match group_bits(items).filter(fits) {
            Some(bits) => self.whole(name, &path, bits, doc, prefix, checked),
            None => self.scope.declare(&path, Symbol::Group, name.span, self.diagnostics),
        }
        let inner = Prefix {
            path: format!("{path}."),
            alias: format!("{}{}.", prefix.alias, name.text),
            other: prefix.other.as_ref().map(|other| format!("{other}{}.", name.text)),
        };
        let items = self.items(items, &inner);
        let fields = items.iter().filter_map(|item| match item {
            HeaderItem::Field(id) => Some(*id),
            _ => None,
        });
        self.layout.groups.insert(path, fields.collect());
        checked.extend(items);
    }

    /// The group as one number.
    fn whole(
        &mut self,
        name: &ast::Name,
        path: &str,
        bits: u32,
        doc: &str,
        prefix: &Prefix,
        checked: &mut Vec<HeaderItem>,
    ) {
        let id = FieldId(self.layout.fields.len() as u16);
        let ty = FieldType::Unsigned { bits, little: false };
        let alias = prefix.alias_of(&name.text, None);
        for name_of_it in std::iter::once(path).chain(alias.as_deref()) {
            self.scope.declare(name_of_it, Symbol::Field(id), name.span, self.diagnostics);
        }
        self.scope.push_field(&ty);
        let (path, doc, span) = (path.to_string(), doc.to_string(), name.span);
        self.layout.fields.push(Field { path, alias, ty, constraint: None, doc, span });
        checked.push(HeaderItem::Whole(id));
    }

    fn branch(
        &mut self,
        condition: &ast::Expr,
        then: &[ast::HeaderItem],
        otherwise: &[ast::HeaderItem],
        span: Span,
        prefix: &Prefix,
        checked: &mut Vec<HeaderItem>,
    ) {
        self.fill_byte("`if` starts");
        let condition = self.resolve(Place::Header, |resolver| resolver.condition(condition).expr);
        let fixed_before = self.fixed_bits;
        let first = self.layout.fields.len();
        let then = self.arm(then, &condition, true, prefix);
        let fixed_then = std::mem::replace(&mut self.fixed_bits, fixed_before);
        let otherwise = self.arm(otherwise, &condition, false, prefix);
        self.fixed_bits = fixed_then.filter(|_| fixed_then == self.fixed_bits);
        self.forget(first);
        self.last = Some(span);
        checked.push(HeaderItem::If { condition, then, otherwise });
    }

    /// One branch of an `if`; the condition narrows the ranges of its fields.
    fn arm(
        &mut self,
        items: &[ast::HeaderItem],
        condition: &Expr,
        holds: bool,
        prefix: &Prefix,
    ) -> Vec<HeaderItem> {
        let before = self.scope.ranges.clone();
        // The narrowed ranges stay in effect while the branch's own fields are added.
        let narrowed = self.resolve(Place::Header, |resolver| {
            resolver.assuming(condition, holds, |resolver| resolver.scope.ranges.clone())
        });
        self.scope.ranges = narrowed;
        let items = self.items(items, prefix);
        self.fill_byte("the block ends");
        self.scope.ranges[..before.len()].copy_from_slice(&before);
        items
    }

    /// The fields from `first` on are in a block that may be skipped: they can also be 0.
    fn forget(&mut self, first: usize) {
        for range in &mut self.scope.ranges[first..] {
            range.low = 0;
        }
    }

    fn run(
        &mut self,
        name: &ast::Name,
        tag: Option<&ast::Type>,
        items: &[ast::RunItem],
        until: &ast::Expr,
        prefix: &Prefix,
        checked: &mut Vec<HeaderItem>,
    ) {
        self.fill_byte("the run starts");
        let path = prefix.path_of(&name.text);
        self.scope.declare(&path, Symbol::Group, name.span, self.diagnostics);
        let tag_bits = self.tag_bits(tag);
        let starts_at = self.fixed_bits;
        let inner = Prefix {
            path: format!("{path}."),
            alias: format!("{}{}.", prefix.alias, name.text),
            other: prefix.other.clone(),
        };
        let first = self.layout.fields.len();
        let mut list: Vec<RunItem> = Vec::new();
        let mut tags: FxHashMap<Option<u64>, Span> = FxHashMap::default();
        for item in items {
            self.check_tag(item, tag_bits, &mut tags);
            if let Some(item) = self.run_item(item, tag_bits, &inner) {
                list.push(item);
            }
            self.forget(first);
        }
        let end = self.resolve(Place::Length, |resolver| resolver.number(until));
        if let Some(start) = starts_at.map(|bits| bits / 8)
            && end.range.low < start
        {
            self.diagnostics.push(
                Diagnostic::warning(
                    codes::NEGATIVE_LENGTH,
                    "the run can end before it starts, and is then empty",
                )
                .label(until.span, format!("{} at least", end.range.low))
                .label(name.span, format!("starts at byte {start}"))
                .help("`until` counts from the start of the header; a constraint on the field makes it safe"),
            );
        }
        self.fixed_bits = None;
        self.last = Some(name.span);
        checked.push(HeaderItem::Run(Run { name: path, tag_bits, items: list, until: end.expr }));
    }

    fn tag_bits(&mut self, tag: Option<&ast::Type>) -> u32 {
        let Some(tag) = tag else { return 8 };
        match named_type(&tag.name.text) {
            Some(FieldType::Unsigned { bits, little: false }) if tag.length.is_none() => bits,
            found => {
                self.diagnostics.push(
                    Diagnostic::error(
                        codes::UNKNOWN_TYPE,
                        "the tag of a run is a number, most significant bit first",
                    )
                    .at(tag.name.span)
                    .help("types of tags are u1 to u64: `run u16`"),
                );
                // With the width that was meant, the items are whole bytes.
                if let Some(FieldType::Unsigned { bits, .. }) = found { bits } else { 8 }
            }
        }
    }

    fn check_tag(&mut self, item: &ast::RunItem, tag_bits: u32, tags: &mut FxHashMap<Option<u64>, Span>) {
        let (tag, span) = item.tag;
        if let Some(value) = tag.filter(|tag| *tag > ones(tag_bits)) {
            self.diagnostics.push(
                Diagnostic::error(codes::TOO_WIDE, format!("a tag of {tag_bits} bits is never {value}"))
                    .at(span),
            );
        }
        if let Some(others) = tags.get(&None).filter(|_| tag.is_some()) {
            self.diagnostics.push(
                Diagnostic::error(codes::RUN_TAG, "this item is unreachable")
                    .at(span)
                    .label(*others, "matches all other tags")
                    .help("`_` must be the last item"),
            );
        }
        if let Some(first) = tags.get(&tag) {
            self.diagnostics.push(
                Diagnostic::error(codes::RUN_TAG, "two items of a run have the same tag")
                    .label(span, "again here")
                    .label(*first, "first here"),
            );
        } else {
            tags.insert(tag, span);
        }
    }

    fn run_item(&mut self, item: &ast::RunItem, tag_bits: u32, prefix: &Prefix) -> Option<RunItem> {
        if self.layout.presences.len() >= FIELDS_MAX {
            return None;
        }
        let path = prefix.path_of(&item.name.text);
        let alias = prefix.alias_of(&item.name.text, item.alias.as_ref());
        let presence = PresenceId(self.layout.presences.len() as u16);
        self.scope.declare(&path, Symbol::Presence(presence), item.name.span, self.diagnostics);
        if let Some(alias) = &alias {
            let span = item.alias.as_ref().map_or(item.name.span, |name| name.span);
            self.scope.declare(alias, Symbol::Presence(presence), span, self.diagnostics);
        }
        let inner = Prefix {
            path: format!("{path}."),
            alias: prefix.alias.clone(),
            other: alias.as_ref().map(|alias| format!("{alias}.")),
        };
        self.layout.presences.push(Presence { path, alias });
        self.fixed_bits = None;
        // The layout begins at the next bit. Nothing follows an item that stops the run.
        if !(item.stop && item.items.is_empty()) {
            (self.bits, self.last) = (tag_bits % 8, Some(item.name.span));
        }
        let items = self.items(&item.items, &inner);
        self.fill_byte("the item ends");
        Some(RunItem { presence, tag: item.tag.0, stop: item.stop, items })
    }

    fn resolve<T>(&mut self, place: Place, with: impl FnOnce(&mut Resolver<'_>) -> T) -> T {
        self.scope.cursor = self.fixed_bits.map(|bits| bits / 8);
        with(&mut Resolver { scope: self.scope, place, diagnostics: self.diagnostics })
    }
}
