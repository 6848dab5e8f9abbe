//! Tokens to tree: the file, its protocols and stacks, and going on after mistakes.
//!
//! ```text
//! file      = { "import" TEXT | function | table | doc (protocol | stack) | extension }
//! function  = "fn" NAME "(" NAME { "," NAME } ")" "=" expr
//! table     = "table" NAME "{" { N [".." N] { "," N [".." N] } ":" N } ["otherwise" ":" N] "}"
//! protocol  = "protocol" NAME ["as" NAME] "{" { clause } "}"
//! extension = "extend" NAME "with" NAME "{" { clause } "}"    what is added to a protocol, and its own name
//! clause    = "header" "{" { item } "}"
//!           | "alias" NAME "=" NAME { "|" NAME } [TEXT]
//!           | "let" NAME "=" expr [TEXT]
//!           | "payload" "=" "rest" [ "[" ".." expr "]" ]
//!           | "instance" key ["<->" key] ["when" expr] ["reversed" "when" expr]
//!                                                             key = "(" expr { "," expr } ")"
//!           | ("each" "side" | "vars" | "packet") "{" { NAME ":" type ["=" expr] [TEXT] } "}"
//!           | ("count" | "prepare") block                     block = "{" { stmt } "}"
//!           | "admit" "when" expr
//!           | "sequence" "at" expr "of" ("payload" | NAME) { "spanning" expr | "window" expr ".." expr
//!                                             | "from" ("first" | 0) | "overwrite" | "headers" "only" }
//!           | "acknowledge" expr ["when" expr]
//!           | "states" "{" { NAME [":" {"start" | "accept"}] } "}"
//!           | "on" NAME ":" NAME { "," NAME } "->" NAME ["when" expr] ["idle" DURATION]
//!                                                             from `any`, to `restart`
//!           | "timeout" { DURATION ["in" NAME { "," NAME } | "otherwise"] }
//!           | "event" NAME { order } ["{" column { "," column } "}"] { order } [TEXT]
//!           | "show" TEXT                                     values stand in braces
//! order     = ("on" | "with" | "after") NAME { ("," | "or") NAME } | "when" expr
//! column    = "assemble" | [NAME "="] expr
//! item      = ["peek"] NAME ["as" NAME] ":" type ["=" N | "where" OP N] [TEXT]
//!           | "_" ":" type
//!           | NAME "{" { item } "}" [TEXT]                    a group: prefixes its fields' names
//!           | "if" expr "{" { item } "}" ["else" ("{" { item } "}" | if)]
//!           | NAME ":" "run" [type] "{" { tagged } "}" "until" expr
//! tagged    = NAME ["as" NAME] "=" (N | "_") ["stop"] ["{" { item } "}"]
//! type      = "u1" … "u64" | "u16le" | "u32le" | "u64le" | "macaddr" | "ipv4addr" | "ipv6addr"
//!           | ("bytes" | "uint") "[" expr "]"
//! stmt      = NAME ("=" | "+=") expr | "if" expr block ["else" (block | if)] | "history" LETTER ["when" expr]
//! stack     = "stack" NAME ["extends" NAME] "{" { part } "}"
//! part      = "layer" NAME ["as" NAME] ":" NAME               one protocol at several places
//!           | "start" LINK { "," LINK } ":" NAME | "repeat" NAME N | "usual" NAME { ("," | "->") NAME }
//!           | NAME { "," NAME } (edge | "{" { edge } "}")     edge = "->" ["quoted" | "messages"] NAME ["when" expr]
//!           | "dispatch" NAME "<->" NAME { "," NAME "<->" NAME }
//! ```
//!
//! Expressions are in `expr`. Space separates, line ends mean nothing, except to find the place from
//! which to go on after a mistake: a closing brace, or a line that starts as a clause does.
//! Functions return `None` after they reported a mistake; a loop over clauses or items catches it.

use super::ast;
use super::lexer::{Token, TokenKind, Tokens, lex};
use crate::check::codes;
use crate::diag::{Diagnostic, Span};

/// Braces, parentheses and `else if`s inside one another at most.
pub(super) const DEPTH_MAX: usize = 48;

/// Reads a file. What could not be read is missing from the tree and said in `diagnostics`.
pub fn parse(text: &str, source: u16, diagnostics: &mut Vec<Diagnostic>) -> ast::File {
    let span = Span { source, start: 0, end: u32::try_from(text.len()).unwrap_or(u32::MAX) };
    let tokens = lex(text, span, diagnostics);
    let mut parser = Parser::new(text, tokens, diagnostics);
    parser.file()
}

/// A text without its meaning: what laying it out anew has to know.
pub struct Outline {
    /// All tokens; the last is [`TokenKind::End`].
    pub tokens: Vec<Token>,
    /// Indices of the tokens that begin an item: of the file or of a block (clauses, fields, statements …).
    pub item_starts: Vec<usize>,
}

/// Reads a file as [`parse`] does, for where its items begin.
pub fn outline(text: &str, source: u16, diagnostics: &mut Vec<Diagnostic>) -> Outline {
    let span = Span { source, start: 0, end: u32::try_from(text.len()).unwrap_or(u32::MAX) };
    let tokens = lex(text, span, diagnostics);
    let mut parser = Parser::new(text, tokens, diagnostics);
    parser.file();
    Outline { tokens: parser.tokens.list, item_starts: parser.item_starts }
}

/// The place in the tokens, and what was wrong so far.
pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    tokens: Tokens,
    at: usize,
    pub(super) depth: usize,
    /// The token before which a brace was missing last.
    unclosed_at: Option<usize>,
    /// The tokens before which an item was read, for [`outline`].
    item_starts: Vec<usize>,
    pub(super) diagnostics: &'a mut Vec<Diagnostic>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, tokens: Tokens, diagnostics: &'a mut Vec<Diagnostic>) -> Self {
        Self { text, tokens, at: 0, depth: 0, unclosed_at: None, item_starts: Vec::new(), diagnostics }
    }

    fn file(&mut self) -> ast::File {
        let mut file = ast::File::default();
        while self.peek() != TokenKind::End {
            let start = self.at;
            self.item_starts.push(start);
            let doc = self.doc();
            let read = match self.word() {
                "protocol" => self.protocol(doc).map(|protocol| file.protocols.push(protocol)),
                "extend" => self.extension().map(|extension| file.extensions.push(extension)),
                "stack" => self.stack(doc).map(|stack| file.stacks.push(stack)),
                "import" => self.import().map(|import| file.imports.push(import)),
                "fn" => self.function().map(|function| file.functions.push(function)),
                "table" => self.table().map(|table| file.tables.push(table)),
                _ => {
                    self.expected("`protocol`, `extend`, `stack`, `import`, `fn` or `table`");
                    None
                }
            };
            if read.is_none() {
                self.skip_until(start, |parser| parser.is_item_start());
            }
        }
        file
    }

    fn protocol(&mut self, doc: String) -> Option<ast::Protocol> {
        self.bump();
        let name = self.name()?;
        let filter_name = if self.eat_word("as") { Some(self.name()?) } else { None };
        let clauses = self.clauses()?;
        Some(ast::Protocol { name, filter_name, doc, clauses })
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
        self.block(
            |parser| {
                let clause = parser.clause()?;
                clauses.push(clause);
                Some(())
            },
            |parser| parser.is_clause_start(),
        )?;
        Some(clauses)
    }

    /// `{`, then `item` until `}`. After a mistake of `item` it goes on where `is_start` holds on a
    /// new line. `None` only where the opening brace is missing.
    pub(super) fn block(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Option<()>,
        is_start: impl Fn(&Self) -> bool,
    ) -> Option<()> {
        let open = self.expect(TokenKind::BraceOpen)?;
        if self.depth >= DEPTH_MAX {
            self.too_deep(open);
            self.skip_block();
            return Some(());
        }
        self.depth += 1;
        while self.peek() != TokenKind::BraceClose {
            if self.peek() == TokenKind::End || self.is_item_start() {
                let diagnostic = Diagnostic::error(codes::UNCLOSED, "this brace is never closed")
                    .label(open, "opened here")
                    .label(self.span(), "`}` expected before this");
                // Said of the innermost brace only: which of several is missing, nobody knows.
                if self.unclosed_at != Some(self.at) {
                    self.unclosed_at = Some(self.at);
                    self.report(diagnostic);
                }
                self.depth -= 1;
                return Some(());
            }
            let start = self.at;
            self.item_starts.push(start);
            if item(self).is_none() {
                self.skip_until(start, &is_start);
            }
        }
        self.bump();
        self.depth -= 1;
        Some(())
    }

    /// Skips to the brace that closes the block, or to a token that starts a line as `is_start` says.
    fn skip_until(&mut self, start: usize, is_start: impl Fn(&Self) -> bool) {
        if self.at == start && self.peek() != TokenKind::BraceClose {
            if self.peek() == TokenKind::BraceOpen {
                self.bump();
                self.skip_block();
            } else {
                self.bump();
            }
        }
        loop {
            match self.peek() {
                TokenKind::End => return,
                TokenKind::BraceClose if self.depth > 0 => return,
                TokenKind::BraceOpen => {
                    self.bump();
                    self.skip_block();
                }
                _ if self.is_item_start() || (self.token().first_of_line && is_start(self)) => return,
                _ => self.bump(),
            }
        }
    }

    /// Behind an opening brace: skips to behind the closing one.
    fn skip_block(&mut self) {
        let mut open = 1;
        while open > 0 && self.peek() != TokenKind::End && !self.is_item_start() {
            match self.peek() {
                TokenKind::BraceOpen => open += 1,
                TokenKind::BraceClose => open -= 1,
                _ => {}
            }
            self.bump();
        }
    }

    /// A line that starts as `protocol NAME {` does: whatever was open before is over.
    fn is_item_start(&self) -> bool {
        let (next, after) = (self.peek_at(1), self.peek_at(2));
        let follows = match self.word() {
            "protocol" => after == TokenKind::BraceOpen || self.word_at(2) == "as",
            "stack" => after == TokenKind::BraceOpen || self.word_at(2) == "extends",
            "table" => after == TokenKind::BraceOpen,
            "extend" => self.word_at(2) == "with",
            "fn" => after == TokenKind::ParenOpen,
            "import" => return self.token().first_of_line && next == TokenKind::Text,
            _ => false,
        };
        self.token().first_of_line && next == TokenKind::Name && follows
    }

    // Looking.

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

    /// The name here; empty where there is none.
    pub(super) fn word(&self) -> &'a str {
        self.word_at(0)
    }

    pub(super) fn word_at(&self, ahead: usize) -> &'a str {
        match self.tokens.list.get(self.at + ahead) {
            Some(token) if token.kind == TokenKind::Name => self.written(token.span),
            _ => "",
        }
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

    // Reading.

    pub(super) fn bump(&mut self) {
        if self.peek() != TokenKind::End {
            self.at += 1;
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
        None
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Option<()> {
        if self.eat_word(word) {
            return Some(());
        }
        self.expected(&format!("`{word}`"));
        None
    }

    pub(super) fn name(&mut self) -> Option<ast::Name> {
        let span = self.expect(TokenKind::Name)?;
        Some(ast::Name { text: self.written(span).to_string(), span })
    }

    /// One name or more, with commas between.
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

    /// The text in quotes that may follow here, without the quotes.
    pub(super) fn text_line(&mut self) -> String {
        let span = self.span();
        if !self.eat(TokenKind::Text) {
            return String::new();
        }
        self.written(span)[1..].strip_suffix('"').unwrap_or("").replace("\\\"", "\"").replace("\\\\", "\\")
    }

    // Reporting.

    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Says what was expected here.
    pub(super) fn expected(&mut self, what: &str) {
        let found = match self.peek() {
            TokenKind::Name => format!("`{}`", self.word()),
            TokenKind::Number(_) | TokenKind::Duration(_) => format!("`{}`", self.written(self.span())),
            kind => kind.describe().to_string(),
        };
        let mut diagnostic =
            Diagnostic::error(codes::EXPECTED, format!("{what} expected, {found} found")).at(self.span());
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
            diagnostic = diagnostic.help(format!("{found} is a word of the language; no name can be that"));
        }
        self.report(diagnostic);
    }

    pub(super) fn too_deep(&mut self, span: Span) {
        let diagnostic = Diagnostic::error(codes::TOO_MUCH, "nested too deeply")
            .at(span)
            .help(format!("at most {DEPTH_MAX} blocks or parentheses stand inside one another"));
        self.report(diagnostic);
    }
}
