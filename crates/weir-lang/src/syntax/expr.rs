//! Expressions, by precedence climbing (Pratt).
//!
//! ```text
//! expr    = "if" expr "then" expr "else" expr      binds least
//!         | expr "or" expr
//!         | expr "and" expr
//!         | "not" expr
//!         | expr ("==" | "!=" | "<" | "<=" | ">" | ">=") expr | expr "in" "{" N [".." N] { "," … } "}"     not chained
//!         | expr "|" expr
//!         | expr "^" expr
//!         | expr "&" expr
//!         | expr ("<<" | ">>") expr
//!         | expr ("+" | "-") expr
//!         | expr ("*" | "/" | "%") expr            binds most
//!         | "(" expr ")" | N | "true" | "false" | NAME
//!         | NAME "(" expr { "," expr } ")"         a function
//!         | NAME "[" expr "]"                      a table
//! ```
//!
//! An expression ends where no operator follows, so no separator is needed after it. Unlike in C, `|`, `^`
//! and `&` bind more tightly than comparisons: `flags & 3 == 1` is `(flags & 3) == 1`.

use super::ast::{Expr, ExprKind, Range};
use super::lexer::TokenKind;
use super::parser::{DEPTH_MAX, Parser};
use crate::check::codes;
use crate::diag::Diagnostic;
use crate::model::BinaryOp;

/// Maximum number of operators in one chain: the tree is left-deep, and its traversals are recursive.
pub(crate) const OPERATORS_MAX: usize = 200;

/// Binding power of `not`: tighter than `and`, looser than comparisons.
const POWER_NOT: u8 = 3;
const POWER_COMPARE: u8 = 4;

/// A binary operator and its binding power.
fn binary(kind: TokenKind) -> Option<(BinaryOp, u8)> {
    use TokenKind as T;
    Some(match kind {
        T::Or => (BinaryOp::LogicalOr, 1),
        T::And => (BinaryOp::LogicalAnd, 2),
        T::Equal => (BinaryOp::Eq, POWER_COMPARE),
        T::NotEqual => (BinaryOp::Ne, POWER_COMPARE),
        T::Less => (BinaryOp::Lt, POWER_COMPARE),
        T::LessEqual => (BinaryOp::Le, POWER_COMPARE),
        T::Greater => (BinaryOp::Gt, POWER_COMPARE),
        T::GreaterEqual => (BinaryOp::Ge, POWER_COMPARE),
        T::Pipe => (BinaryOp::Or, 5),
        T::Caret => (BinaryOp::Xor, 6),
        T::Ampersand => (BinaryOp::And, 7),
        T::ShiftLeft => (BinaryOp::Shl, 8),
        T::ShiftRight => (BinaryOp::Shr, 8),
        T::Plus => (BinaryOp::Add, 9),
        T::Minus => (BinaryOp::Sub, 9),
        T::Star => (BinaryOp::Mul, 10),
        T::Slash => (BinaryOp::Div, 10),
        T::Percent => (BinaryOp::Rem, 10),
        _ => return None,
    })
}

/// The comparison of a token, for `where`.
pub(super) fn comparison(kind: TokenKind) -> Option<BinaryOp> {
    binary(kind).filter(|(_, power)| *power == POWER_COMPARE).map(|(op, _)| op)
}

impl Parser<'_> {
    /// An expression.
    pub(super) fn expr(&mut self) -> Option<Expr> {
        self.expr_above(0)
    }

    /// An expression used as a condition: a following `=` is read as `==`.
    pub(super) fn condition(&mut self) -> Option<Expr> {
        let left = self.expr()?;
        let span = self.span();
        if !self.eat(TokenKind::Assign) {
            return Some(left);
        }
        let diagnostic =
            Diagnostic::error(codes::BAD_EXPRESSION, "`=` assigns; here two values are compared")
                .at(span)
                .help("write `==`");
        self.report(diagnostic);
        let right = self.expr()?;
        let span = left.span.to(right.span);
        Some(Expr { kind: ExprKind::Binary(BinaryOp::Eq, Box::new(left), Box::new(right)), span })
    }

    /// An expression of operators that bind more tightly than `power`.
    fn expr_above(&mut self, power: u8) -> Option<Expr> {
        if self.depth >= DEPTH_MAX {
            self.too_deep(self.span());
            return None;
        }
        self.depth += 1;
        let expr = self.operand().and_then(|left| self.operators(left, power));
        self.depth -= 1;
        expr
    }

    fn operators(&mut self, mut left: Expr, power: u8) -> Option<Expr> {
        for _ in 0..OPERATORS_MAX {
            if self.peek() == TokenKind::In {
                if POWER_COMPARE <= power {
                    return Some(left);
                }
                left = self.set(left)?;
            } else {
                let Some((op, op_power)) = binary(self.peek()).filter(|(_, op_power)| *op_power > power)
                else {
                    return if power == 0 { self.choice(left) } else { Some(left) };
                };
                self.bump();
                let right = self.expr_above(op_power)?;
                let span = left.span.to(right.span);
                left = Expr { kind: ExprKind::Binary(op, Box::new(left), Box::new(right)), span };
                if op_power == POWER_COMPARE {
                    self.refuse_chain(&left)?;
                }
            }
        }
        let diagnostic = Diagnostic::error(codes::TOO_MUCH, "too many operators in one expression")
            .at(left.span)
            .help("name a part of it: `let part = …`");
        self.report(diagnostic);
        None
    }

    /// `left ? a : b` of other languages: reported, and parsed with that meaning; `left` if no `?` follows.
    fn choice(&mut self, left: Expr) -> Option<Expr> {
        let span = self.span();
        if !self.eat(TokenKind::Question) {
            return Some(left);
        }
        let diagnostic = Diagnostic::error(codes::BAD_CHARACTER, "`?` is not a sign of this language")
            .at(span)
            .help("write `if a then b else c`");
        self.report(diagnostic);
        let then = self.expr()?;
        self.expect(TokenKind::Colon)?;
        let otherwise = self.expr()?;
        let span = left.span.to(otherwise.span);
        Some(Expr { kind: ExprKind::Choose(Box::new(left), Box::new(then), Box::new(otherwise)), span })
    }

    /// Rejects `a < b < c`, which would compare a truth value with a number.
    fn refuse_chain(&mut self, left: &Expr) -> Option<()> {
        if comparison(self.peek()).is_none() {
            return Some(());
        }
        let span = left.span.to(self.span());
        let diagnostic = Diagnostic::error(codes::BAD_EXPRESSION, "comparisons can't be chained")
            .at(span)
            .help("write `a < b and b < c`");
        self.report(diagnostic);
        None
    }

    /// `left in { a, b..c }`, at the word `in`.
    fn set(&mut self, left: Expr) -> Option<Expr> {
        self.bump();
        if matches!(self.peek(), TokenKind::Number(_)) {
            self.expected_with("`{`", &format!("write `in {{ {} }}`", self.written(self.span())));
            return None;
        }
        let open = self.expect(TokenKind::BraceOpen)?;
        let (mut ranges, mut is_read) = (Vec::new(), true);
        while is_read && self.peek() != TokenKind::BraceClose {
            match self.range() {
                Some(range) => ranges.push(range),
                None => is_read = false,
            }
            if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        if !is_read {
            // The brace belongs to the set, so parsing can continue after it.
            use TokenKind as T;
            while matches!(self.peek(), T::Number(_) | T::Comma | T::DotDot)
                || !matches!(self.peek(), T::BraceClose | T::End) && !self.token().first_of_line
            {
                self.bump();
            }
        }
        let close = self.expect(TokenKind::BraceClose)?;
        if ranges.is_empty() && is_read {
            let diagnostic = Diagnostic::error(codes::BAD_EXPRESSION, "nothing is in an empty set")
                .at(open.to(close))
                .help("name some numbers: `in { 1, 4..6 }`");
            self.report(diagnostic);
        }
        let span = left.span.to(close);
        Some(Expr { kind: ExprKind::In(Box::new(left), ranges), span })
    }

    /// `N` or `N..N`.
    pub(super) fn range(&mut self) -> Option<Range> {
        let (low, start) = self.number()?;
        let (high, end) = if self.eat(TokenKind::DotDot) {
            if !matches!(self.peek(), TokenKind::Number(_)) {
                self.expected_with("a number", "a range has two ends, both in it: `1..65535`");
                return None;
            }
            self.number()?
        } else {
            (low, start)
        };
        let span = start.to(end);
        if high < low {
            let diagnostic = Diagnostic::error(codes::BAD_EXPRESSION, "this range is empty")
                .at(span)
                .help(format!("write `{high}..{low}`"));
            self.report(diagnostic);
        }
        Some((low, high, span))
    }

    /// A name, a function call, or a table lookup.
    fn named(&mut self) -> Option<ExprKind> {
        let name = self.name()?;
        if self.eat(TokenKind::ParenOpen) {
            let mut args = vec![self.expr()?];
            while self.eat(TokenKind::Comma) {
                args.push(self.expr()?);
            }
            self.expect(TokenKind::ParenClose)?;
            return Some(ExprKind::Call(name, args));
        }
        if self.eat(TokenKind::BracketOpen) {
            let inner = self.expr()?;
            self.expect(TokenKind::BracketClose)?;
            return Some(ExprKind::Lookup(name, Box::new(inner)));
        }
        Some(ExprKind::Name(name.text))
    }

    fn operand(&mut self) -> Option<Expr> {
        let start = self.span();
        if self.is_missing_operand() {
            self.expected("a value");
            return None;
        }
        let kind = match self.peek() {
            TokenKind::Number(number) => {
                self.bump();
                ExprKind::Number(number)
            }
            TokenKind::True | TokenKind::False => {
                let truth = self.eat(TokenKind::True);
                if !truth {
                    self.bump();
                }
                ExprKind::Number(u64::from(truth))
            }
            TokenKind::Name => self.named()?,
            TokenKind::Not => {
                self.bump();
                ExprKind::Not(Box::new(self.expr_above(POWER_NOT)?))
            }
            TokenKind::If => {
                self.bump();
                let condition = self.condition()?;
                self.expect(TokenKind::Then)?;
                let then = self.expr()?;
                self.expect(TokenKind::Else)?;
                let otherwise = self.expr()?;
                ExprKind::Choose(Box::new(condition), Box::new(then), Box::new(otherwise))
            }
            TokenKind::ParenOpen => {
                self.bump();
                let inner = self.expr()?;
                self.expect(TokenKind::ParenClose)?;
                inner.kind
            }
            TokenKind::Minus => {
                let diagnostic =
                    Diagnostic::error(codes::BAD_EXPRESSION, "there are no negative numbers").at(start).help(
                        "all numbers are unsigned; subtract from something, or compare the other way round",
                    );
                self.report(diagnostic);
                return None;
            }
            _ => {
                self.expected("a value");
                return None;
            }
        };
        Some(Expr { kind, span: start.to(self.last_span()) })
    }
}
