//! The syntax tree that `parse` builds and `resolve` reads. Names and constants are still text.

use super::ast::Op;
use crate::diag::Span;

/// A filter as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// A field or protocol, alone or compared.
    Test(Test),
    /// `not`.
    Not(Box<Node>),
    /// The conjunction of the parts; never directly inside another `And`.
    And(Vec<Node>),
    /// The disjunction of the parts; never directly inside another `Or`.
    Or(Vec<Node>),
    /// An invalid part that was reported.
    Wrong,
}

/// `field[slice] & mask op operand`, all but the field optional.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Test {
    pub name: String,
    pub name_span: Span,
    /// The text between the brackets, and its span.
    pub slice: Option<(String, Span)>,
    pub mask: Option<Constant>,
    pub comparison: Option<Comparison>,
    pub span: Span,
}

/// `op operand`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Comparison {
    pub op: Op,
    pub op_span: Span,
    /// `not in`.
    pub negated: bool,
    /// One element, or those of a set.
    pub operand: Vec<Element>,
    /// The span of the whole operand, including braces.
    pub operand_span: Span,
}

/// A constant or a range.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Element {
    pub low: Constant,
    pub high: Option<Constant>,
}

impl Element {
    pub fn span(&self) -> Span {
        self.high.as_ref().map_or(self.low.span, |high| self.low.span.to(high.span))
    }
}

/// A constant; its meaning depends on the field that it is compared with.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Constant {
    pub value: ConstantText,
    pub span: Span,
}

/// The notation of a constant.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ConstantText {
    /// Without quotes.
    Word(String),
    /// Quoted, with escapes replaced; not always UTF-8.
    Quoted(Vec<u8>),
}

/// Joins two parts under `and` or `or`, keeping the tree flat.
pub(super) fn join(is_or: bool, left: Node, right: Node) -> Node {
    let mut parts = Vec::new();
    for node in [left, right] {
        match (is_or, node) {
            (true, Node::Or(inner)) | (false, Node::And(inner)) if parts.is_empty() => parts = inner,
            (true, Node::Or(inner)) | (false, Node::And(inner)) => parts.extend(inner),
            (_, node) => parts.push(node),
        }
    }
    if is_or { Node::Or(parts) } else { Node::And(parts) }
}
