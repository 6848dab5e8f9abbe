//! The syntax tree: what `parse` yields and `resolve` reads. Names and constants are still text.

use super::ast::Op;
use crate::diag::Span;

/// A filter as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// A field or protocol, alone or compared.
    Test(Test),
    /// `not`.
    Not(Box<Node>),
    /// All of them; never directly inside another `And`.
    And(Vec<Node>),
    /// Any of them; never directly inside another `Or`.
    Or(Vec<Node>),
    /// A part that was wrong and has been reported.
    Wrong,
}

/// `field[slice] & mask op operand`, all but the field optional.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Test {
    pub name: String,
    pub name_span: Span,
    /// What stands between the brackets.
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
    /// Of the whole operand, braces included.
    pub operand_span: Span,
}

/// A constant, or a range of them.
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

/// A constant; what it means depends on the field that it is compared with.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Constant {
    pub value: ConstantText,
    pub span: Span,
}

/// How a constant was written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ConstantText {
    /// Without quotes.
    Word(String),
    /// In quotes, escapes replaced: not always UTF-8.
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
