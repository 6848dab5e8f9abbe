//! Stacks: starts, edges, repetitions, dispatch.

use super::ast::{Edge, Link, Name, Place, Stack};
use super::lexer::TokenKind;
use super::parser::Parser;
use super::recover::{Block, PARTS};
use crate::check::codes;
use crate::diag::{Diagnostic, suggest};
use crate::model::EdgeKind;

impl Parser<'_> {
    /// Parses a stack, at the word `stack`.
    pub(super) fn stack(&mut self, doc: String) -> Option<Stack> {
        self.bump();
        let name = self.name()?;
        self.mend_part(&["extends"]);
        let extends = if self.eat_word("extends") { Some(self.name()?) } else { None };
        let mut stack = Stack {
            name,
            extends,
            doc,
            starts: Vec::new(),
            places: Vec::new(),
            repeats: Vec::new(),
            usual: Vec::new(),
            edges: Vec::new(),
            sessions: Vec::new(),
            dispatch: Vec::new(),
        };
        self.block(Block::Stack, |parser| parser.stack_part(&mut stack))?;
        Some(stack)
    }

    fn stack_part(&mut self, stack: &mut Stack) -> Option<()> {
        // These words are also valid names of layers: a comma, an arrow or a brace then follows.
        let operand = matches!(self.peek_at(1), TokenKind::Name | TokenKind::Number(_));
        if operand && self.peek() == TokenKind::Name {
            self.mend(PARTS);
        }
        match self.word() {
            "start" if operand => {
                self.bump();
                let mut links = vec![self.link()?];
                while self.eat(TokenKind::Comma) {
                    links.push(self.link()?);
                }
                self.expect(TokenKind::Colon)?;
                let layer = self.name()?;
                stack.starts.push((links, layer));
            }
            "layer" if operand => {
                self.bump();
                let name = self.name()?;
                let filter_name = if self.eat_word("as") { Some(self.name()?) } else { None };
                self.expect(TokenKind::Colon)?;
                stack.places.push(Place { name, filter_name, protocol: self.name()? });
            }
            "repeat" if operand => {
                self.bump();
                let layer = self.name()?;
                let (times, span) = self.number()?;
                stack.repeats.push((layer, times, span));
            }
            "usual" if operand => {
                self.bump();
                stack.usual.push(self.names()?);
                while self.eat(TokenKind::Arrow) {
                    stack.usual.push(self.names()?);
                }
            }
            "sessions" if operand => {
                self.bump();
                let layer = self.name()?;
                self.expect_word("as")?;
                stack.sessions.push((layer, self.name()?));
            }
            "dispatch" if operand => {
                self.bump();
                loop {
                    let source = self.name()?;
                    self.expect(TokenKind::Both)?;
                    stack.dispatch.push((source, self.name()?));
                    if !self.eat(TokenKind::Comma) {
                        break;
                    }
                }
            }
            "" if self.peek() == TokenKind::Arrow => return self.stray_edges(stack),
            _ => return self.edges(stack),
        }
        Some(())
    }

    fn link(&mut self) -> Option<Link> {
        if let TokenKind::Number(number) = self.peek() {
            let span = self.span();
            self.bump();
            let name = Name { text: self.written(span).to_string(), span };
            return Some(Link { name, number: Some(number) });
        }
        Some(Link { name: self.name()?, number: None })
    }

    fn edges(&mut self, stack: &mut Stack) -> Option<()> {
        let from = self.names()?;
        if self.peek() != TokenKind::BraceOpen {
            let edge = self.edge(&from)?;
            stack.edges.push(edge);
            return Some(());
        }
        self.block(Block::Edges, |parser| {
            let edge = parser.edge(&from)?;
            stack.edges.push(edge);
            Some(())
        })
    }

    /// Several edges without braces around them: they belong to the previous edge's layers.
    fn stray_edges(&mut self, stack: &mut Stack) -> Option<()> {
        self.expected("a layer's name");
        let from = stack.edges.last()?.from.clone();
        while self.peek() == TokenKind::Arrow {
            let edge = self.edge(&from)?;
            stack.edges.push(edge);
        }
        // The brace without a counterpart.
        if self.peek() == TokenKind::BraceClose && self.peek_at(1) == TokenKind::Name && !self.ends_item() {
            self.bump();
        }
        Some(())
    }

    fn edge(&mut self, from: &[Name]) -> Option<Edge> {
        self.expect(TokenKind::Arrow)?;
        // These words are also valid names of layers.
        let is_word = self.peek_at(1) == TokenKind::Name && self.word_at(1) != "when";
        let kind = match self.word() {
            "quoted" if is_word => EdgeKind::Quoted,
            "messages" if is_word => EdgeKind::Messages,
            word if is_word => match suggest(word, ["quoted", "messages"]) {
                Some(meant) => {
                    let message = format!("`->` is followed by a layer, not by `{word}`");
                    let diagnostic = Diagnostic::error(codes::EXPECTED, message).at(self.span());
                    self.report(diagnostic.help(format!("did you mean `{meant}`?")));
                    if meant == "quoted" { EdgeKind::Quoted } else { EdgeKind::Messages }
                }
                None => EdgeKind::Payload,
            },
            _ => EdgeKind::Payload,
        };
        if kind != EdgeKind::Payload {
            self.bump();
        }
        let to = self.name()?;
        let condition = self.when()?;
        Some(Edge { from: from.to_vec(), to, kind, condition })
    }
}
