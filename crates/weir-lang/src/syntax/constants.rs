//! Parses imports, functions and tables.

use super::ast::{Function, Table};
use super::lexer::TokenKind;
use super::parser::Parser;
use super::recover::Block;
use crate::diag::Span;

impl Parser<'_> {
    /// `import "FILE"`
    pub(super) fn import(&mut self) -> Option<(String, Span)> {
        self.bump();
        let span = self.span();
        if self.peek() != TokenKind::Text {
            self.expected("the name of a file in quotes");
            return None;
        }
        Some((self.text_line(), span))
    }

    /// `fn NAME(NAME, NAME) = EXPR`
    pub(super) fn function(&mut self) -> Option<Function> {
        self.bump();
        let name = self.name()?;
        self.expect(TokenKind::ParenOpen)?;
        let params = self.names()?;
        self.expect(TokenKind::ParenClose)?;
        self.expect(TokenKind::Assign)?;
        Some(Function { name, params, body: self.expr()? })
    }

    /// `table NAME { 0: 6   1, 2..5: 14   otherwise: 0 }`
    pub(super) fn table(&mut self) -> Option<Table> {
        self.bump();
        let mut table = Table { name: self.name()?, rows: Vec::new(), otherwise: None };
        self.block(Block::Table, |parser| {
            if parser.eat_word("otherwise") {
                parser.expect(TokenKind::Colon)?;
                table.otherwise = Some(parser.number()?.0);
                return Some(());
            }
            let mut numbers = vec![parser.range()?];
            while parser.eat(TokenKind::Comma) {
                numbers.push(parser.range()?);
            }
            parser.expect(TokenKind::Colon)?;
            table.rows.push((numbers, parser.number()?.0));
            Some(())
        })?;
        Some(table)
    }
}
