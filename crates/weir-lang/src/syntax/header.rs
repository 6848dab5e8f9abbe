//! The layout of a header: fields, groups, conditions, runs.

use super::ast::{Field, HeaderItem, RunItem, Type};
use super::expr::comparison;
use super::lexer::TokenKind;
use super::parser::Parser;
use super::recover::Block;
use crate::model::BinaryOp;

impl Parser<'_> {
    /// `{ item … }`
    pub(super) fn header_items(&mut self) -> Option<Vec<HeaderItem>> {
        let mut items = Vec::new();
        self.block(Block::Header, |parser| {
            items.push(parser.header_item()?);
            Some(())
        })?;
        Some(items)
    }

    fn header_item(&mut self) -> Option<HeaderItem> {
        if self.peek() == TokenKind::If {
            return self.header_if();
        }
        let start = self.span();
        // `peek` is also a valid name of a field.
        let peek = self.word() == "peek" && self.peek_at(1) == TokenKind::Name && self.word_at(1) != "as";
        if peek {
            self.bump();
        }
        let name = self.name()?;
        if self.peek() == TokenKind::BraceOpen && !peek {
            let items = self.header_items()?;
            return Some(HeaderItem::Group { name, items, doc: self.text_line() });
        }
        let alias = if self.eat_word("as") { Some(self.name()?) } else { None };
        self.expect(TokenKind::Colon)?;
        if name.text == "_" {
            return Some(HeaderItem::Skip { ty: self.type_name()?, span: start });
        }
        if self.eat_word("run") {
            return self.run(name);
        }
        let ty = self.type_name()?;
        let constraint = self.constraint()?;
        let doc = self.text_line();
        Some(HeaderItem::Field(Field { name, alias, peek, ty, constraint, doc }))
    }

    fn header_if(&mut self) -> Option<HeaderItem> {
        let span = self.span();
        self.bump();
        let condition = self.condition()?;
        let then = self.header_items()?;
        let otherwise = if self.mend_else_if() {
            let nested = self.nested(Self::header_if)?;
            vec![nested]
        } else if !self.eat(TokenKind::Else) {
            Vec::new()
        } else if self.peek() == TokenKind::If {
            let nested = self.nested(Self::header_if)?;
            vec![nested]
        } else {
            self.header_items()?
        };
        Some(HeaderItem::If { condition, then, otherwise, span })
    }

    /// Parses an `else if`, one level deeper.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth >= super::parser::DEPTH_MAX {
            self.too_deep(self.span());
            return None;
        }
        self.depth += 1;
        let inner = read(self);
        self.depth -= 1;
        inner
    }

    /// `= N` or `where OP N`; the outer `None` after a mistake.
    fn constraint(&mut self) -> Option<Option<(BinaryOp, u64, crate::diag::Span)>> {
        let start = self.span();
        if self.eat(TokenKind::Assign) {
            let (number, end) = self.number()?;
            return Some(Some((BinaryOp::Eq, number, start.to(end))));
        }
        if !self.eat_word("where") {
            return Some(None);
        }
        let Some(op) = comparison(self.peek()) else {
            let help = match self.peek() {
                TokenKind::In => {
                    "a field is compared with one number; test a set where it is needed: `if kind in { … \
                     }`, `-> x when kind in { … }`"
                }
                _ => "",
            };
            self.expected_with("a comparison such as `>= 5`", help);
            return None;
        };
        self.bump();
        let (number, end) = self.number()?;
        Some(Some((op, number, start.to(end))))
    }

    /// The name of a type, and the expression in its brackets.
    pub(super) fn type_name(&mut self) -> Option<Type> {
        // A name before a colon belongs to the next item.
        if self.peek() != TokenKind::Name || self.peek_at(1) == TokenKind::Colon {
            let help = match self.peek() {
                TokenKind::Number(bits @ 1..=64) => format!("a number of {bits} bits: `u{bits}`"),
                _ => String::new(),
            };
            self.expected_with("a type such as `u16`", &help);
            return None;
        }
        let name = self.name()?;
        let length = if self.eat(TokenKind::BracketOpen) {
            let length = self.expr()?;
            self.expect(TokenKind::BracketClose)?;
            Some(Box::new(length))
        } else {
            None
        };
        Some(Type { name, length })
    }

    /// Parses the rest after `NAME: run`.
    fn run(&mut self, name: super::ast::Name) -> Option<HeaderItem> {
        let tag = if self.peek() == TokenKind::BraceOpen || self.starts(Block::Run) {
            None
        } else {
            Some(self.type_name()?)
        };
        let mut items = Vec::new();
        self.block(Block::Run, |parser| {
            items.push(parser.run_item()?);
            Some(())
        })?;
        self.expect_word("until")?;
        let until = self.expr()?;
        Some(HeaderItem::Run { name, tag, items, until })
    }

    fn run_item(&mut self) -> Option<RunItem> {
        let name = self.name()?;
        let alias = if self.eat_word("as") { Some(self.name()?) } else { None };
        self.expect(TokenKind::Assign)?;
        let span = self.span();
        let tag = match self.peek() {
            TokenKind::Number(number) => Some(number),
            TokenKind::Name if self.word() == "_" => None,
            _ => {
                self.expected("a tag (a number, or `_` for all others)");
                return None;
            }
        };
        self.bump();
        let stop = self.eat_word("stop");
        let has_items = self.peek() == TokenKind::BraceOpen
            || self.peek() == TokenKind::Name
                && self.peek_at(1) == TokenKind::Colon
                && self.is_missing_before(Block::Header);
        let items = if has_items { self.header_items()? } else { Vec::new() };
        Some(RunItem { name, alias, tag: (tag, span), stop, items })
    }
}
