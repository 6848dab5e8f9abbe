//! Parses the clauses of a protocol, except its header.

use super::ast::{
    Clause, ClauseKind, Event, Expr, ExprKind, Let, Name, Sequence, ShowPart, State, Stmt, Timeout,
    Transition, Var,
};
use super::lexer::{TokenKind, lex};
use super::parser::Parser;
use super::recover::Block;
use crate::check::codes;
use crate::diag::{Diagnostic, Span, suggest};
use crate::model::Held;

/// The words that begin a clause.
pub(super) const CLAUSES: &[&str] = &[
    "header",
    "alias",
    "let",
    "payload",
    "context",
    "tag",
    "instance",
    "each",
    "vars",
    "packet",
    "join",
    "count",
    "admit",
    "prepare",
    "steady",
    "sequence",
    "assembled",
    "acknowledge",
    "confirm",
    "hold",
    "end",
    "states",
    "on",
    "timeout",
    "event",
    "show",
];

/// The words that begin a part of a sequence.
const SEQUENCE: &[&str] =
    &["spanning", "window", "from", "overwrite", "distinct", "wholes", "headers", "when"];

impl Parser<'_> {
    pub(super) fn clause(&mut self) -> Option<Clause> {
        let span = self.span();
        if self.word() == "history" && self.peek_at(1) == TokenKind::Name {
            return self.stray_history();
        }
        if !CLAUSES.contains(&self.word()) {
            self.unknown_clause()?;
        }
        let word = self.word();
        self.bump();
        let kind = match word {
            "header" => ClauseKind::Header(self.header_items()?),
            "alias" => self.alias()?,
            "let" => self.let_clause()?,
            "payload" => self.payload()?,
            "context" => ClauseKind::Context(self.exprs()?),
            "tag" => ClauseKind::Tag(self.exprs()?),
            "instance" => self.instance()?,
            "each" => {
                self.expect_word("side")?;
                self.vars(Held::Side)?
            }
            "vars" => self.vars(Held::Instance)?,
            "packet" => self.vars(Held::Packet)?,
            "count" => ClauseKind::Count(self.stmts()?),
            "join" => {
                self.expect_word("when")?;
                ClauseKind::Join(self.condition()?)
            }
            "admit" => {
                self.expect_word("when")?;
                ClauseKind::Admit(self.condition()?)
            }
            "prepare" => ClauseKind::Prepare(self.stmts()?),
            "steady" => {
                let condition = self.when()?;
                let stmts = if self.peek() == TokenKind::BraceOpen { self.stmts()? } else { vec![] };
                ClauseKind::Steady(condition, stmts)
            }
            "sequence" => self.sequence()?,
            "assembled" => {
                let name = self.name()?;
                self.expect(TokenKind::Assign)?;
                ClauseKind::Assembled(name, self.expr()?)
            }
            "acknowledge" => {
                let at = self.expr()?;
                ClauseKind::Acknowledge(at, self.when()?)
            }
            "confirm" => {
                let at = self.expr()?;
                ClauseKind::Confirm(at, self.when()?)
            }
            "hold" => {
                let span = self.expr()?;
                ClauseKind::Hold(span, self.when()?)
            }
            "end" => {
                self.expect_word("when")?;
                ClauseKind::End(self.condition()?)
            }
            "states" => self.states()?,
            "on" if self.peek_at(1) == TokenKind::BraceOpen => {
                let trigger = self.name()?;
                ClauseKind::On(trigger, self.stmts()?)
            }
            "on" => self.transition()?,
            "timeout" => self.timeout()?,
            "event" => self.event()?,
            _ => self.show()?,
        };
        Some(Clause { kind, span })
    }

    /// A statement at the place of a clause: reported, and parsed as a statement of `prepare`.
    fn stray_history(&mut self) -> Option<Clause> {
        let span = self.span();
        let diagnostic = Diagnostic::error(codes::UNKNOWN_CLAUSE, "`history` stands outside of a block")
            .at(span)
            .help("it is a statement: write it in `count { … }` or `prepare { … }`");
        self.report(diagnostic);
        let stmt = self.stmt()?;
        Some(Clause { kind: ClauseKind::Prepare(vec![stmt]), span })
    }

    /// Reports an unknown clause. A word that nearly matches a clause's word is read as that word.
    fn unknown_clause(&mut self) -> Option<()> {
        let word = self.word();
        if self.is_stray_item() {
            self.skip_stray_items();
            return None;
        }
        if word.is_empty() {
            self.expected("a clause such as `header` or `payload`");
            return None;
        }
        let diagnostic =
            Diagnostic::error(codes::UNKNOWN_CLAUSE, format!("a protocol has no clause `{word}`"))
                .at(self.span())
                .help(format!("it has {}", CLAUSES.join(", ")))
                .did_you_mean(word, CLAUSES.iter().copied());
        self.report(diagnostic);
        let meant = suggest(word, CLAUSES.iter().copied()).filter(|meant| self.has_clause_form(meant))?;
        self.read_as(meant);
        Some(())
    }

    fn alias(&mut self) -> Option<ClauseKind> {
        let name = self.name()?;
        self.expect(TokenKind::Assign)?;
        let mut fields = vec![self.name()?];
        while self.eat(TokenKind::Pipe) {
            fields.push(self.name()?);
        }
        Some(ClauseKind::Alias { name, fields, doc: self.text_line() })
    }

    fn let_clause(&mut self) -> Option<ClauseKind> {
        let name = self.name()?;
        self.expect(TokenKind::Assign)?;
        let value = self.expr()?;
        Some(ClauseKind::Let(Let { name, value, doc: self.text_line() }))
    }

    fn payload(&mut self) -> Option<ClauseKind> {
        self.expect(TokenKind::Assign)?;
        self.expect_word("rest")?;
        if !self.eat(TokenKind::BracketOpen) {
            return Some(ClauseKind::Payload(None));
        }
        self.expect(TokenKind::DotDot)?;
        let length = self.expr()?;
        self.expect(TokenKind::BracketClose)?;
        Some(ClauseKind::Payload(Some(length)))
    }

    /// Expressions with commas between them.
    fn exprs(&mut self) -> Option<Vec<Expr>> {
        let mut values = vec![self.expr()?];
        while self.eat(TokenKind::Comma) {
            values.push(self.expr()?);
        }
        Some(values)
    }

    fn instance(&mut self) -> Option<ClauseKind> {
        let source = self.key()?;
        let destination = if self.eat(TokenKind::Both) { Some(self.key()?) } else { None };
        let condition = self.when()?;
        let reversed = if self.eat_word("reversed") {
            self.expect_word("when")?;
            Some(self.condition()?)
        } else {
            None
        };
        Some(ClauseKind::Instance { source, destination, condition, reversed })
    }

    fn key(&mut self) -> Option<Vec<Expr>> {
        self.expect(TokenKind::ParenOpen)?;
        let parts = self.exprs()?;
        self.expect(TokenKind::ParenClose)?;
        Some(parts)
    }

    /// `when EXPR`, if present; the outer `None` after a mistake.
    pub(super) fn when(&mut self) -> Option<Option<Expr>> {
        self.mend_part(&["when"]);
        if !self.eat_word("when") {
            return Some(None);
        }
        self.condition().map(Some)
    }

    fn vars(&mut self, held: Held) -> Option<ClauseKind> {
        let mut vars = Vec::new();
        self.block(Block::Vars, |parser| {
            let name = parser.name()?;
            parser.expect(TokenKind::Colon)?;
            let ty = parser.type_name()?;
            let first = if parser.eat(TokenKind::Assign) { Some(parser.expr()?) } else { None };
            parser.text_line();
            vars.push(Var { name, ty, first });
            Some(())
        })?;
        Some(ClauseKind::Vars { held, vars, of_steady: false })
    }

    fn stmts(&mut self) -> Option<Vec<Stmt>> {
        let mut stmts = Vec::new();
        self.block(Block::Stmts, |parser| {
            stmts.push(parser.stmt()?);
            Some(())
        })?;
        Some(stmts)
    }

    fn stmt(&mut self) -> Option<Stmt> {
        if self.peek() == TokenKind::If {
            return self.stmt_if();
        }
        if self.word() == "history" && self.peek_at(1) == TokenKind::Name {
            self.bump();
            let letter = self.name()?;
            let is_target = matches!(self.peek_at(1), TokenKind::Assign | TokenKind::AddAssign);
            let again = !is_target && self.eat_word("again");
            let condition = match self.word() == "when" {
                true => {
                    self.bump();
                    Some(self.condition()?)
                }
                false => None,
            };
            return Some(Stmt::History { letter, again, condition });
        }
        let target = self.name()?;
        let add = self.peek() == TokenKind::AddAssign;
        if !add && self.peek() != TokenKind::Assign {
            self.expected("`=` or `+=`");
            return None;
        }
        self.bump();
        Some(Stmt::Assign { target, add, value: self.expr()? })
    }

    fn stmt_if(&mut self) -> Option<Stmt> {
        self.bump();
        let condition = self.condition()?;
        let then = self.stmts()?;
        let otherwise = if self.mend_else_if() {
            vec![self.nested(Self::stmt_if)?]
        } else if !self.eat(TokenKind::Else) {
            Vec::new()
        } else if self.peek() == TokenKind::If {
            vec![self.nested(Self::stmt_if)?]
        } else {
            self.stmts()?
        };
        Some(Stmt::If { condition, then, otherwise })
    }

    fn sequence(&mut self) -> Option<ClauseKind> {
        self.expect_word("at")?;
        let at = self.expr()?;
        self.expect_word("of")?;
        let of = if self.eat_word("payload") { None } else { Some(self.name()?) };
        let mut sequence = Sequence {
            at,
            of,
            span: None,
            window: None,
            from_first: false,
            overwrite: false,
            distinct: None,
            wholes: None,
            headers_only: None,
            condition: None,
        };
        loop {
            let start = self.span();
            if self.eat_word("spanning") {
                sequence.span = Some(self.expr()?);
            } else if self.eat_word("window") {
                let low = self.expr()?;
                self.expect(TokenKind::DotDot)?;
                sequence.window = Some((low, self.expr()?));
            } else if self.eat_word("from") {
                sequence.from_first = self.eat_word("first");
                if !sequence.from_first && !self.eat(TokenKind::Number(0)) {
                    self.expected("`first` or `0`");
                    return None;
                }
            } else if self.eat_word("overwrite") {
                sequence.overwrite = true;
            } else if self.eat_word("distinct") {
                sequence.distinct = Some(start);
            } else if self.eat_word("wholes") {
                let first = self.condition()?;
                self.expect(TokenKind::DotDot)?;
                let last = self.condition()?;
                sequence.wholes = Some((first, last, start.to(self.last_span())));
            } else if self.eat_word("headers") {
                self.expect_word("only")?;
                sequence.headers_only = Some(start.to(self.last_span()));
            } else if self.eat_word("when") {
                sequence.condition = Some(self.condition()?);
            } else if !self.mend_part(SEQUENCE) {
                return Some(ClauseKind::Sequence(Box::new(sequence)));
            }
        }
    }

    fn states(&mut self) -> Option<ClauseKind> {
        let mut states = Vec::new();
        self.block(Block::States, |parser| {
            let state = parser.state()?;
            states.push(state);
            parser.eat(TokenKind::Comma);
            Some(())
        })?;
        Some(ClauseKind::States(states))
    }

    /// `NAME` or `NAME: start accept`
    fn state(&mut self) -> Option<State> {
        let mut state = State { name: self.name()?, start: false, accept: false };
        if !self.eat(TokenKind::Colon) {
            return Some(state);
        }
        let mut tried = false;
        loop {
            if self.eat_word("start") {
                state.start = true;
            } else if self.eat_word("accept") {
                state.accept = true;
            } else if state.start || state.accept || tried {
                return Some(state);
            } else if !self.mend(&["start", "accept"]) {
                self.expected("`start` or `accept`");
                // The word may follow tokens that are not allowed here.
                while !matches!(self.peek(), TokenKind::Name | TokenKind::BraceClose | TokenKind::End) {
                    self.bump();
                }
                tried = true;
            }
        }
    }

    fn transition(&mut self) -> Option<ClauseKind> {
        let name = self.name()?;
        self.expect(TokenKind::Colon)?;
        let from = self.names()?;
        self.expect(TokenKind::Arrow)?;
        let to = self.name()?;
        let condition = self.when()?;
        self.mend_part(&["idle"]);
        let mut timeout = None;
        if self.eat_word("idle") {
            let TokenKind::Duration(after) = self.peek() else {
                self.expected("a duration such as `30s`");
                return None;
            };
            timeout = Some((after, self.span()));
            self.bump();
        }
        Some(ClauseKind::Transition(Transition { name, from, to, condition, timeout }))
    }

    fn timeout(&mut self) -> Option<ClauseKind> {
        let mut timeouts = Vec::new();
        while let TokenKind::Duration(after) = self.peek() {
            let span = self.span();
            self.bump();
            let states = if self.eat(TokenKind::In) {
                Some(self.names()?)
            } else {
                self.mend_part(&["otherwise"]);
                self.eat_word("otherwise");
                None
            };
            timeouts.push(Timeout { after, span, states });
        }
        if timeouts.is_empty() {
            self.expected("a duration such as `30s`");
            return None;
        }
        Some(ClauseKind::Timeout(timeouts))
    }

    fn event(&mut self) -> Option<ClauseKind> {
        let mut event = Event {
            name: self.name()?,
            triggers: Vec::new(),
            interval: None,
            with: Vec::new(),
            after: Vec::new(),
            condition: None,
            assemble: None,
            columns: Vec::new(),
            doc: String::new(),
        };
        if !matches!(self.word(), "on" | "with") && !self.mend_part(&["on", "with"]) {
            self.expected("`on` or `with`");
            return None;
        }
        self.event_order(&mut event)?;
        if self.peek() == TokenKind::BraceOpen {
            self.block(Block::Columns, |parser| {
                parser.event_column(&mut event)?;
                parser.eat(TokenKind::Comma);
                Some(())
            })?;
        }
        self.event_order(&mut event)?;
        event.doc = self.text_line();
        Some(ClauseKind::Event(event))
    }

    /// `on NAME, NAME`, `on check 10s`, `with NAME`, `after NAME`, `when EXPR`: before or after the columns.
    fn event_order(&mut self, event: &mut Event) -> Option<()> {
        loop {
            // On a new line `on` begins a transition.
            let list = match self.word() {
                "on" if event.triggers.is_empty() && event.with.is_empty() => &mut event.triggers,
                "with" => &mut event.with,
                "after" => &mut event.after,
                "when" => {
                    event.condition = self.when()?;
                    continue;
                }
                _ if self.mend_part(&["on", "with", "after", "when"]) => continue,
                _ => return Some(()),
            };
            self.bump();
            list.push(self.name()?);
            while self.eat(TokenKind::Comma) || self.eat(TokenKind::Or) {
                list.push(self.name()?);
            }
            if let TokenKind::Duration(interval) = self.peek() {
                event.interval = Some((interval, self.span()));
                self.bump();
            }
        }
    }

    /// `assemble`, `NAME`, or `NAME = EXPR`.
    fn event_column(&mut self, event: &mut Event) -> Option<()> {
        if self.word() == "assemble" && self.peek_at(1) != TokenKind::Assign {
            event.assemble = Some(self.span());
            self.bump();
            return Some(());
        }
        if self.peek() == TokenKind::Name && self.peek_at(1) == TokenKind::Assign {
            let name = self.name()?;
            self.bump();
            let value = self.expr()?;
            event.columns.push((name, value));
            return Some(());
        }
        let value = self.expr()?;
        let ExprKind::Name(written) = &value.kind else {
            let diagnostic = Diagnostic::error(codes::EXPECTED, "a column that is no field needs a name")
                .at(value.span)
                .help("write `name = …`");
            self.report(diagnostic);
            return Some(());
        };
        let text = written.strip_prefix("below.").unwrap_or(written).to_string();
        event.columns.push((Name { text, span: value.span }, value));
        Some(())
    }

    fn show(&mut self) -> Option<ClauseKind> {
        let span = self.expect(TokenKind::Text)?;
        let inside = Span { start: span.start + 1, end: span.end - 1, ..span };
        let mut parts = Vec::new();
        let mut at = inside.start;
        while at < inside.end {
            let rest = self.written(Span { start: at, ..inside });
            let Some(open) = rest.find('{') else {
                parts.push(ShowPart::Text(rest.to_string()));
                break;
            };
            if open > 0 {
                parts.push(ShowPart::Text(rest[..open].to_string()));
            }
            let brace = at + open as u32;
            let Some(length) = rest[open..].find('}') else {
                let diagnostic = Diagnostic::error(codes::UNCLOSED, "this brace is never closed")
                    .at(Span { start: brace, end: brace + 1, ..span })
                    .help("a value stands in braces: `{src}`");
                self.report(diagnostic);
                break;
            };
            at = brace + length as u32 + 1;
            let value = Span { start: brace + 1, end: at - 1, ..span };
            if let Some(value) = self.shown(value) {
                parts.push(ShowPart::Value(value));
            }
        }
        Some(ClauseKind::Show(parts))
    }

    /// The expression under `span`, inside quotes.
    fn shown(&mut self, span: Span) -> Option<Expr> {
        let tokens = lex(self.text, span, self.diagnostics);
        let mut parser = Parser::new(self.text, tokens, self.diagnostics);
        let value = parser.expr()?;
        parser.expect(TokenKind::End)?;
        Some(value)
    }
}
