//! Parses tokens into a tree: the file, its protocols and stacks, and recovery after mistakes.
//!
//! ```text
//! file      = { "import" TEXT | function | table | doc (protocol | stack) | extension } function  = "fn"
//! NAME "(" NAME { "," NAME } ")" "=" expr table     = "table" NAME "{" { N [".." N] { "," N [".." N] } ":" N
//! } ["otherwise" ":" N] "}" protocol  = "protocol" NAME ["as" NAME { "," NAME }] "{" { clause } "}"
//! extension = "extend" NAME "with" NAME "{" { clause } "}"    clauses added to a protocol; the second name
//! is its own clause    = "header" "{" { item } "}"
//!           | "alias" NAME "=" NAME { "|" NAME } [TEXT]
//!           | "let" NAME "=" expr [TEXT]
//!           | "payload" "=" "rest" [ "[" ".." expr "]" ]
//!           | ("context" | "tag") NAME { "," NAME }
//!           | "instance" key ["<->" key] ["when" expr] ["reversed" "when" expr]
//!                                                             key = "(" expr { "," expr } ")"
//!           | ("each" "side" | "vars" | "packet") "{" { NAME ":" type ["=" expr] [TEXT] } "}"
//!           | ("count" | "prepare") block                     block = "{" { stmt } "}"
//!           | "steady" ["when" expr] [block]
//!           | "join" "when" expr
//!           | "admit" "when" expr
//!           | "sequence" "at" expr "of" ("payload" | NAME) { "spanning" expr | "window" expr ".." expr
//!                                             | "from" ("first" | 0) | "overwrite" | "distinct" | "wholes" expr ".." expr
//!                                             | "headers" "only" | "when" expr }
//!           | "assembled" NAME "=" expr
//!           | ("acknowledge" | "confirm" | "hold") expr ["when" expr]  | "end" "when" expr
//!           | "states" "{" { NAME [":" {"start" | "accept"}] } "}"
//!           | "on" NAME block
//!           | "on" NAME ":" NAME { "," NAME } "->" NAME ["when" expr] ["idle" DURATION]
//!                                                             from `any`, to `restart`
//!           | "timeout" { DURATION ["in" NAME { "," NAME } | "otherwise"] }
//!           | "event" NAME { order } ["{" column { "," column } "}"] { order } [TEXT]
//!           | "show" TEXT                                     values are in braces
//! order     = ("on" | "with" | "after") NAME { ("," | "or") NAME } | "when" expr
//! column    = "assemble" | [NAME "="] expr
//! item      = ["peek"] NAME ["as" NAME] ":" type ["=" N | "where" OP N] [TEXT]
//!           | "_" ":" type
//!           | NAME "{" { item } "}" [TEXT]                    a group: prefixes its fields' names
//!           | "if" expr "{" { item } "}" ["else" ("{" { item } "}" | if)]
//!           | NAME ":" "run" [type] "{" { tagged } "}" "until" expr
//! tagged    = NAME ["as" NAME] "=" (N | "_") ["stop"] ["{" { item } "}"]
//! type      = "u1" … "u64" | "u16le" | "u32le" | "u64le" | "macaddr" | "ipv4addr" | "ipv6addr"
//!           | ("bytes" | "text" | "uint") "[" expr "]"
//! stmt      = NAME ("=" | "+=") expr | "if" expr block ["else" (block | if)] | "history" LETTER ["again"]
//! ["when" expr] stack     = "stack" NAME ["extends" NAME] "{" { part } "}" part      = "layer" NAME ["as"
//! NAME] ":" NAME               one protocol at several places
//!           | "start" LINK { "," LINK } ":" NAME | "repeat" NAME N | "usual" NAME { ("," | "->") NAME }
//!           | NAME { "," NAME } (edge | "{" { edge } "}")     edge = "->" ["quoted" | "messages"] NAME ["when" expr]
//!           | "dispatch" NAME "<->" NAME { "," NAME "<->" NAME } | "sessions" NAME "as" NAME
//! ```
//!
//! `expr` holds the grammar of expressions. White space separates tokens. Line ends are insignificant, except
//! for recovery after a mistake (`recover`). Functions return `None` after they reported a mistake; the
//! enclosing loop over clauses or items then recovers.

use super::ast;
use super::lexer::{Token, TokenKind, Tokens, lex};
use super::recover::{Block, ITEMS};
use crate::check::codes;
use crate::diag::{Diagnostic, Span};

/// Maximum nesting of braces, parentheses and `else if`s.
pub(crate) const DEPTH_MAX: usize = 48;

/// Columns beyond this number are treated as equal.
const COLUMN_MAX: usize = 1024;

/// Parses a file. Unreadable parts are missing from the tree and reported in `diagnostics`.
pub fn parse(text: &str, source: u16, diagnostics: &mut Vec<Diagnostic>) -> ast::File {
    let span = Span { source, start: 0, end: u32::try_from(text.len()).unwrap_or(u32::MAX) };
    let tokens = lex(text, span, diagnostics);
    let mut parser = Parser::new(text, tokens, diagnostics);
    parser.file()
}

/// The structure of a text that formatting needs.
pub struct Outline {
    /// All tokens; the last is [`TokenKind::End`].
    pub tokens: Vec<Token>,
    /// Indices of the tokens that begin an item of the file or of a block (clauses, fields, statements …).
    pub item_starts: Vec<usize>,
}

/// Parses a file like [`parse`], and returns where its items begin.
pub fn outline(text: &str, source: u16, diagnostics: &mut Vec<Diagnostic>) -> Outline {
    let span = Span { source, start: 0, end: u32::try_from(text.len()).unwrap_or(u32::MAX) };
    let tokens = lex(text, span, diagnostics);
    let mut parser = Parser::new(text, tokens, diagnostics);
    parser.file();
    Outline { tokens: parser.tokens.list, item_starts: parser.item_starts }
}

/// The position in the tokens, and the mistakes so far.
pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: Tokens,
    pub(super) at: usize,
    /// The first token of the current line.
    line: usize,
    /// The first token of the previous non-empty line.
    line_before: usize,
    /// The token corrected last, and the word that it is read as.
    meant: Option<(usize, &'static str)>,
    /// The kinds of the open blocks, the innermost last.
    pub(super) open: Vec<Block>,
    /// The end of the block that closed last.
    pub(super) closed: Option<Span>,
    /// The skipped parts.
    pub(super) unread: Vec<ast::Unread>,
    pub(super) depth: usize,
    /// The last token before which a brace was missing.
    unclosed_at: Option<usize>,
    /// The place of the last reported mistake.
    reported_at: Option<Span>,
    /// The tokens that began an item, for [`outline`].
    item_starts: Vec<usize>,
    pub(super) diagnostics: &'a mut Vec<Diagnostic>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, tokens: Tokens, diagnostics: &'a mut Vec<Diagnostic>) -> Self {
        Self {
            text,
            tokens,
            at: 0,
            line: 0,
            line_before: 0,
            meant: None,
            open: Vec::new(),
            closed: None,
            unread: Vec::new(),
            depth: 0,
            unclosed_at: None,
            reported_at: None,
            item_starts: Vec::new(),
            diagnostics,
        }
    }

    fn file(&mut self) -> ast::File {
        let mut file = ast::File::default();
        while self.peek() != TokenKind::End {
            let start = self.at;
            let parts = self.unread.len();
            self.item_starts.push(start);
            let doc = self.doc();
            if self.is_item_start() {
                self.mend(ITEMS);
            }
            let read = match self.word() {
                "protocol" => self.protocol(doc).map(|protocol| file.protocols.push(protocol)),
                "extend" => self.extension().map(|extension| file.extensions.push(extension)),
                "stack" => self.stack(doc).map(|stack| file.stacks.push(stack)),
                "import" => self.import().map(|import| file.imports.push(import)),
                "fn" => self.function().map(|function| file.functions.push(function)),
                "table" => self.table().map(|table| file.tables.push(table)),
                _ => {
                    self.expected_item();
                    None
                }
            };
            if read.is_none() {
                self.skip_item(start, 0);
            }
            let item = self.tokens.list[start].span.to(self.last_span());
            self.unread[parts..].iter_mut().for_each(|unread| unread.item = item);
        }
        file.unread = std::mem::take(&mut self.unread);
        file
    }

    fn protocol(&mut self, doc: String) -> Option<ast::Protocol> {
        self.bump();
        let name = self.name()?;
        let mut filter_names = vec![];
        if self.eat_word("as") {
            filter_names.push(self.name()?);
            while self.eat(TokenKind::Comma) {
                filter_names.push(self.name()?);
            }
        }
        let clauses = self.clauses()?;
        Some(ast::Protocol { name, filter_names, doc, clauses })
    }

    fn extension(&mut self) -> Option<ast::Extension> {
        self.bump();
        let of = self.name()?;
        self.expect_word("with")?;
        let name = self.name()?;
        let clauses = self.clauses()?;
        Some(ast::Extension { of, name, clauses })
    }

    fn clauses(&mut self) -> Option<Vec<ast::Clause>> {
        let mut clauses = Vec::new();
        self.block(Block::Clauses, |parser| {
            let clause = parser.clause()?;
            clauses.push(clause);
            Some(())
        })?;
        let is_steady = clauses.iter().any(|clause| matches!(clause.kind, ast::ClauseKind::Steady(..)));
        for clause in &mut clauses {
            if let ast::ClauseKind::Vars { of_steady, .. } = &mut clause.kind {
                *of_steady = is_steady;
            }
        }
        Some(clauses)
    }

    /// Parses `{`, then `item` until `}`, with recovery after mistakes of `item` as described in
    /// [`recover`](super::recover). `None` only if the opening brace is missing.
    pub(super) fn block(
        &mut self,
        block: Block,
        mut item: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let column = self.line_column();
        let is_open = self.peek() != TokenKind::BraceOpen && self.is_missing_before(block);
        let open = if is_open {
            self.expected("`{`");
            self.span()
        } else {
            self.expect(TokenKind::BraceOpen)?
        };
        if self.depth >= DEPTH_MAX {
            self.too_deep(open);
            self.at -= usize::from(!is_open);
            self.skip_braces();
            return Some(());
        }
        self.depth += 1;
        let column = if is_open && self.token().first_of_line { self.column_before() } else { column };
        self.open.push(block);
        while self.peek() != TokenKind::BraceClose {
            if self.peek() == TokenKind::End || self.is_item_start() || self.is_beyond(block, column) {
                self.unclosed(open);
                break;
            }
            let (start, column) = (self.at, self.line_column());
            self.item_starts.push(start);
            if item(self).is_none() {
                self.skip_item(start, column);
            }
        }
        self.closed = Some(self.span());
        self.eat(TokenKind::BraceClose);
        self.open.pop();
        self.depth -= 1;
        Some(())
    }

    /// Reports that the brace `open` is not closed before this token, only for the innermost brace: which one
    /// of several is missing is unknown.
    fn unclosed(&mut self, open: Span) {
        let diagnostic = Diagnostic::error(codes::UNCLOSED, "this brace is never closed")
            .label(open, "opened here")
            .label(self.span(), "`}` expected before this");
        if self.unclosed_at != Some(self.at) {
            self.unclosed_at = Some(self.at);
            self.report(diagnostic);
            // The parts after the brace cannot be attributed to a block.
            self.unread.push(ast::Unread { item: Span::default(), part: open.to(self.last_span()) });
        }
    }

    // Look-ahead.

    pub(super) fn token(&self) -> Token {
        self.tokens.list[self.at]
    }

    pub(super) fn peek(&self) -> TokenKind {
        self.token().kind
    }

    pub(super) fn peek_at(&self, ahead: usize) -> TokenKind {
        self.tokens.list.get(self.at + ahead).map_or(TokenKind::End, |token| token.kind)
    }

    pub(super) fn span(&self) -> Span {
        self.token().span
    }

    /// The span of the token read last.
    pub(super) fn last_span(&self) -> Span {
        self.tokens.list[self.at.saturating_sub(1)].span
    }

    /// The name at this token; empty if it is not a name.
    pub(super) fn word(&self) -> &'a str {
        self.word_at(0)
    }

    pub(super) fn word_at(&self, ahead: usize) -> &'a str {
        if let Some((at, meant)) = self.meant
            && at == self.at + ahead
        {
            return meant;
        }
        match self.tokens.list.get(self.at + ahead) {
            Some(token) if token.kind == TokenKind::Name => self.written(token.span),
            _ => "",
        }
    }

    /// Replaces the word at this token.
    pub(super) fn read_as(&mut self, word: &'static str) {
        self.meant = Some((self.at, word));
    }

    /// The kind of the previous token.
    pub(super) fn before(&self) -> Option<TokenKind> {
        self.at.checked_sub(1).map(|before| self.tokens.list[before].kind)
    }

    /// Bytes between the line's start and this token, which is the first of its line.
    pub(super) fn column(&self) -> u32 {
        self.column_of(self.at)
    }

    /// The column of the current line's first token.
    pub(super) fn line_column(&self) -> u32 {
        self.column_of(self.line)
    }

    /// The column of the previous line's first token.
    pub(super) fn column_before(&self) -> u32 {
        self.column_of(self.line_before)
    }

    fn column_of(&self, token: usize) -> u32 {
        // Only white space precedes the token, so the count is cheap.
        let before = &self.text.as_bytes()[..self.tokens.list[token].span.start as usize];
        before.iter().rev().take(COLUMN_MAX).take_while(|byte| **byte != b'\n').count() as u32
    }

    pub(super) fn written(&self, span: Span) -> &'a str {
        &self.text[span.start as usize..span.end as usize]
    }

    fn doc(&mut self) -> String {
        let at = self.at;
        match self.tokens.docs.binary_search_by_key(&at, |(token, _)| *token) {
            Ok(index) => std::mem::take(&mut self.tokens.docs[index].1),
            Err(_) => String::new(),
        }
    }

    // Consuming tokens.

    pub(super) fn bump(&mut self) {
        if self.peek() != TokenKind::End {
            self.at += 1;
            if self.token().first_of_line {
                self.line_before = self.line;
                self.line = self.at;
            }
        }
    }

    pub(super) fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.peek() == kind;
        if found {
            self.bump();
        }
        found
    }

    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.word() == word;
        if found {
            self.bump();
        }
        found
    }

    pub(super) fn expect(&mut self, kind: TokenKind) -> Option<Span> {
        let span = self.span();
        if self.eat(kind) {
            return Some(span);
        }
        self.expected(kind.describe());
        // A token that is missing before its successor is assumed to be present.
        self.is_behind(kind).then_some(span)
    }

    pub(super) fn expect_word(&mut self, word: &'static str) -> Option<()> {
        if self.mend(&[word]) {
            self.bump();
            return Some(());
        }
        self.expected(&format!("`{word}`"));
        None
    }

    pub(super) fn name(&mut self) -> Option<ast::Name> {
        let span = self.expect(TokenKind::Name)?;
        Some(ast::Name { text: self.written(span).to_string(), span })
    }

    /// One or more names, separated by commas.
    pub(super) fn names(&mut self) -> Option<Vec<ast::Name>> {
        let mut names = vec![self.name()?];
        while self.eat(TokenKind::Comma) {
            names.push(self.name()?);
        }
        Some(names)
    }

    pub(super) fn number(&mut self) -> Option<(u64, Span)> {
        let span = self.span();
        match self.peek() {
            TokenKind::Number(number) => {
                self.bump();
                Some((number, span))
            }
            _ => {
                self.expected("a number");
                None
            }
        }
    }

    /// An optional text in quotes, without the quotes.
    pub(super) fn text_line(&mut self) -> String {
        let span = self.span();
        if !self.eat(TokenKind::Text) {
            return String::new();
        }
        self.written(span)[1..].strip_suffix('"').unwrap_or("").replace("\\\"", "\"").replace("\\\\", "\\")
    }

    // Reporting.

    /// Reports a mistake. Only the first one at a place is kept, because the others are follow-up errors.
    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        let place = diagnostic.spans.last().map(|(span, _)| *span);
        if place.is_some() && place == self.reported_at {
            return;
        }
        self.reported_at = place;
        self.diagnostics.push(diagnostic);
    }

    /// Reports the expected token.
    pub(super) fn expected(&mut self, what: &str) {
        self.expected_with(what, "");
    }

    /// Reports the expected token with a remedy.
    pub(super) fn expected_with(&mut self, what: &str, help: &str) {
        if self.token().is_reported {
            return;
        }
        let found = match self.peek() {
            TokenKind::Name => format!("`{}`", self.word()),
            TokenKind::Number(_) | TokenKind::Duration(_) => format!("`{}`", self.written(self.span())),
            kind => kind.describe().to_string(),
        };
        let mut diagnostic =
            Diagnostic::error(codes::EXPECTED, format!("{what} expected, {found} found")).at(self.span());
        if !help.is_empty() {
            diagnostic = diagnostic.help(help);
        }
        if what == "a name"
            && matches!(
                self.peek(),
                TokenKind::And
                    | TokenKind::Or
                    | TokenKind::Not
                    | TokenKind::In
                    | TokenKind::If
                    | TokenKind::Then
                    | TokenKind::Else
                    | TokenKind::True
                    | TokenKind::False
            )
        {
            diagnostic = diagnostic.help(format!("{found} is a word of the language and cannot be a name"));
        }
        self.report(diagnostic);
    }

    pub(super) fn too_deep(&mut self, span: Span) {
        let diagnostic = Diagnostic::error(codes::TOO_MUCH, "nested too deeply")
            .at(span)
            .help(format!("at most {DEPTH_MAX} levels of blocks or parentheses are allowed"));
        self.report(diagnostic);
    }
}
