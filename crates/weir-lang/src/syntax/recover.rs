//! Error recovery, so that one run reports all mistakes of a text, each once.
//!
//! Four rules, tried in this order:
//!
//! 1. A word that resembles an expected word is read as that word: `protocl x {`.
//! 2. A missing token before its successor is assumed to be present: `ttl u8`.
//! 3. An unreadable part ends at the closing brace of its block, where an item of this or an enclosing block
//!    begins, or at a line that is indented no deeper than the item itself. A set ends at its own brace. An
//!    expression with a missing operand ends at its line's end.
//! 4. A line that is indented no deeper than the line that opened the block, and that can only belong to an
//!    enclosing block, shows that a closing brace is missing before it.
//!
//! Skipped parts are recorded ([`Unread`]): errors about names declared there are follow-up errors, which
//! `followers` in `check` suppresses.

use super::ast::Unread;
use super::clauses::CLAUSES;
use super::lexer::TokenKind;
use super::parser::Parser;
use crate::check::codes;
use crate::diag::{Diagnostic, Span, suggest};

/// The kind of a block, which determines how its items begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    Clauses,
    Header,
    Run,
    Vars,
    Stmts,
    States,
    Columns,
    Stack,
    Edges,
    Table,
}

/// Maximum number of tokens of a line that are searched for a brace.
const LINE_TOKENS_MAX: usize = 256;

/// The words that begin an item of a file.
pub(super) const ITEMS: &[&str] = &["protocol", "extend", "stack", "import", "fn", "table"];

/// The words that begin a part of a stack, except edges.
pub(super) const PARTS: &[&str] = &["start", "layer", "repeat", "usual", "dispatch", "sessions"];

/// Whether `word` is `meant` with at most a small misspelling.
fn resembles(word: &str, meant: &'static str) -> bool {
    word == meant || suggest(word, [meant]).is_some()
}

impl Parser<'_> {
    /// Whether a line begins here that starts like `protocol NAME {`, possibly misspelt: all open blocks then
    /// end.
    pub(super) fn is_item_start(&self) -> bool {
        use TokenKind as T;
        // Most tokens cannot begin an item: compare words only where they can.
        let may_be = match self.peek_at(1) {
            T::Text => true,
            T::Name => matches!(self.peek_at(2), T::BraceOpen | T::ParenOpen | T::Name),
            _ => false,
        };
        self.token().first_of_line
            && may_be
            && (self.has_item_form(self.word())
                || suggest(self.word(), ITEMS.iter().copied().filter(|item| self.has_item_form(item)))
                    .is_some())
    }

    /// Whether the tokens after this word are those that follow `word` at the start of an item.
    fn has_item_form(&self, word: &str) -> bool {
        let (next, after) = (self.peek_at(1), self.peek_at(2));
        let follows = match word {
            "protocol" => after == TokenKind::BraceOpen || self.word_at(2) == "as",
            "stack" => after == TokenKind::BraceOpen || resembles(self.word_at(2), "extends"),
            "table" => after == TokenKind::BraceOpen,
            "extend" => resembles(self.word_at(2), "with"),
            "fn" => after == TokenKind::ParenOpen,
            "import" => return next == TokenKind::Text,
            _ => false,
        };
        next == TokenKind::Name && follows
    }

    /// Whether the tokens after this word are those that follow `word` at the start of a clause.
    pub(super) fn has_clause_form(&self, word: &str) -> bool {
        use TokenKind as T;
        let (next, after) = (self.peek_at(1), self.peek_at(2));
        match word {
            "header" | "vars" | "packet" | "count" | "prepare" | "states" => next == T::BraceOpen,
            "alias" | "let" | "assembled" => next == T::Name && after == T::Assign,
            "payload" => next == T::Assign,
            "instance" => next == T::ParenOpen,
            "each" => next == T::Name && after == T::BraceOpen,
            "join" | "admit" | "end" => resembles(self.word_at(1), "when"),
            "steady" => next == T::BraceOpen || resembles(self.word_at(1), "when"),
            "sequence" => resembles(self.word_at(1), "at"),
            "on" => next == T::Name && matches!(after, T::Colon | T::BraceOpen),
            "timeout" => matches!(next, T::Duration(_)),
            "event" => {
                let order = self.word_at(2);
                next == T::Name && (resembles(order, "on") || resembles(order, "with"))
            }
            "show" => next == T::Text,
            // On one line: a field may have that name and stand at the end of the previous clause.
            "acknowledge" | "confirm" | "hold" | "context" | "tag" => {
                let follows = self.tokens.list.get(self.at + 1).is_some_and(|token| !token.first_of_line);
                follows && matches!(next, T::Name | T::Number(_) | T::ParenOpen | T::If)
            }
            _ => false,
        }
    }

    /// Whether an item of such a block certainly begins here.
    pub(super) fn starts(&self, block: Block) -> bool {
        use TokenKind as T;
        let (name, next) = (self.peek() == T::Name, self.peek_at(1));
        let first_of_line = self.token().first_of_line;
        let named_twice = name && self.word_at(1) == "as" && self.peek_at(2) == T::Name;
        match block {
            Block::Clauses => self.has_clause_form(self.word()),
            Block::Header => {
                let peeks = self.word() == "peek" && next == T::Name && self.peek_at(2) == T::Colon;
                let named = name && (next == T::Colon || first_of_line && next == T::BraceOpen);
                named || named_twice || peeks || self.is_if_item()
            }
            Block::Run => name && next == T::Assign || named_twice,
            Block::Vars => name && next == T::Colon,
            Block::Stmts => {
                let assigns = name && matches!(next, T::Assign | T::AddAssign);
                assigns || self.is_if_item() || first_of_line && self.word() == "history"
            }
            Block::States => {
                let flag = matches!(self.word(), "start" | "accept");
                name && !flag && !self.has_clause_form(self.word())
            }
            Block::Columns => {
                let separate = matches!(self.before(), Some(T::Comma | T::BraceOpen));
                separate || name && next == T::Assign
            }
            Block::Stack => {
                let part = PARTS.contains(&self.word()) && matches!(next, T::Name | T::Number(_));
                part || first_of_line && (name && matches!(next, T::Arrow | T::Comma | T::BraceOpen))
            }
            Block::Edges => self.peek() == T::Arrow,
            Block::Table => {
                let row =
                    matches!(self.peek(), T::Number(_)) && matches!(next, T::Colon | T::Comma | T::DotDot);
                first_of_line && row || self.word() == "otherwise" && next == T::Colon
            }
        }
    }

    /// Whether a line begins here that is an edge or a clause, and not an operand of the previous line.
    pub(super) fn is_missing_operand(&self) -> bool {
        use TokenKind as T;
        // Values separated by commas may look like the layers of an edge.
        let is_listed = matches!(self.before(), Some(T::Comma | T::ParenOpen | T::BracketOpen));
        let block = self.open.last().copied();
        let block = block.filter(|block| matches!(block, Block::Stack | Block::Clauses));
        self.token().first_of_line && !is_listed && block.is_some_and(|block| self.starts(block))
    }

    /// Whether only the opening brace is missing before such a block's first item: the closing brace is on
    /// this line, or the item begins a line that is indented deeper.
    pub(super) fn is_missing_before(&self, block: Block) -> bool {
        if block == Block::States || !self.starts(block) {
            return false;
        }
        if self.token().first_of_line {
            return self.column() > self.column_before();
        }
        let mut open = 0;
        for token in self.tokens.list[self.at..].iter().take(LINE_TOKENS_MAX) {
            match token.kind {
                _ if token.first_of_line => return false,
                TokenKind::BraceOpen => open += 1,
                TokenKind::BraceClose if open == 0 => return true,
                TokenKind::BraceClose => open -= 1,
                _ => {}
            }
        }
        false
    }

    /// Whether an item of a file follows the brace.
    pub(super) fn ends_item(&self) -> bool {
        ITEMS.contains(&self.word_at(1))
    }

    /// Whether the token at the place of a clause can only begin an item of a header or a statement.
    pub(super) fn is_stray_item(&self) -> bool {
        use TokenKind as T;
        let next = self.peek_at(1);
        let of_header = self.peek() == T::Name && (next == T::Colon || self.word_at(1) == "as");
        let assigns =
            matches!(next, T::Assign | T::AddAssign) && self.word().contains('.') || next == T::AddAssign;
        of_header || assigns || matches!(self.peek(), T::If | T::Else | T::Text)
    }

    /// Whether an `if` begins an item here. An `if` expression follows a token that requires a value.
    fn is_if_item(&self) -> bool {
        use TokenKind as T;
        let before = self.before().is_none_or(|before| {
            let ends = matches!(before, T::Text | T::Name | T::Number(_) | T::BraceOpen | T::BraceClose);
            ends || matches!(before, T::BracketClose | T::ParenClose)
        });
        self.peek() == T::If && before
    }

    /// Whether a brace is missing before this token, in the innermost block, whose items are `block` and
    /// whose first line begins at `column`.
    pub(super) fn is_beyond(&self, block: Block, column: u32) -> bool {
        // `until` follows a run's closing brace.
        if block == Block::Run && self.word() == "until" && !self.starts(block) {
            return true;
        }
        // A text after a text belongs to a group whose brace is missing.
        let is_nested = matches!(self.open[..], [.., Block::Header | Block::Run, Block::Header]);
        let is_last = self.tokens.list.get(self.at + 1).is_some_and(|token| token.first_of_line);
        if is_nested && is_last && self.peek() == TokenKind::Text && self.before() == Some(TokenKind::Text) {
            return true;
        }
        let around = &self.open[..self.open.len().saturating_sub(1)];
        self.token().first_of_line
            && self.column() <= column
            && !self.starts(block)
            && around.iter().any(|outer| self.starts(*outer))
    }

    /// Recovers after an unreadable item that began at token `start`, on a line that begins at `column`.
    pub(super) fn skip_item(&mut self, start: usize, column: u32) {
        let block = self.open.last().copied();
        let from = self.tokens.list[start].span;
        if self.at == start && (block.is_none() || self.peek() != TokenKind::BraceClose) {
            match self.peek() {
                TokenKind::BraceOpen => self.skip_braces(),
                _ => self.bump(),
            }
        }
        loop {
            let first_of_line = self.token().first_of_line;
            match (self.peek(), block) {
                (TokenKind::End, _) | (TokenKind::BraceClose, Some(_)) => break,
                _ if self.is_item_start() => break,
                (_, Some(block)) if self.starts(block) => break,
                (TokenKind::BraceOpen, _) => self.skip_braces(),
                (_, Some(_)) if first_of_line && self.column() <= column => break,
                _ => self.bump(),
            }
        }
        self.unread.push(Unread { item: Span::default(), part: from.to(self.last_span()) });
    }

    /// At an opening brace: skips past the closing brace.
    pub(super) fn skip_braces(&mut self) {
        let mut open = 0;
        while self.peek() != TokenKind::End && (open == 0 || !self.is_item_start()) {
            match self.peek() {
                TokenKind::BraceOpen => open += 1,
                TokenKind::BraceClose => open -= 1,
                _ => {}
            }
            self.bump();
            if open == 0 {
                return;
            }
        }
    }

    /// Whether the token here can follow `kind`, so that only `kind` is missing.
    pub(super) fn is_behind(&self, kind: TokenKind) -> bool {
        use TokenKind as T;
        let (here, next) = (self.peek(), self.peek_at(1));
        let word = self.word();
        let is_type = matches!(word, "bytes" | "uint" | "run" | "macaddr" | "ipv4addr" | "ipv6addr")
            || (word == "text" && next == T::BracketOpen)
            || word.strip_prefix('u').is_some_and(|bits| bits.starts_with(|c: char| c.is_ascii_digit()));
        let follows = match kind {
            T::Colon => is_type || here == T::Name && matches!(next, T::Arrow | T::Comma),
            T::Assign => {
                next != T::Assign && matches!(here, T::Name | T::Number(_) | T::ParenOpen | T::If | T::Not)
            }
            T::Arrow => here == T::Name && word != "when" && matches!(next, T::Name | T::BraceClose | T::End),
            _ => false,
        };
        follows && !self.token().first_of_line
    }

    /// If the word here resembles one of `words`, reports the mistake and replaces the word.
    pub(super) fn mend(&mut self, words: &[&'static str]) -> bool {
        let word = self.word();
        if words.contains(&word) {
            return true;
        }
        let Some(meant) = suggest(word, words.iter().copied()) else { return false };
        let diagnostic = Diagnostic::error(codes::EXPECTED, format!("`{meant}` expected, `{word}` found"))
            .at(self.span())
            .help(format!("did you mean `{meant}`?"));
        self.report(diagnostic);
        self.read_as(meant);
        true
    }

    /// Reports other languages' spellings of `else if`; the tokens are read as `else if`.
    pub(super) fn mend_else_if(&mut self) -> bool {
        use TokenKind as T;
        let word = self.word();
        // These words are also valid names of fields and variables.
        let is_name = matches!(self.peek_at(1), T::Colon | T::Assign | T::AddAssign | T::BraceOpen);
        if !matches!(word, "elif" | "elsif" | "elseif") || is_name || self.word_at(1) == "as" {
            return false;
        }
        let diagnostic = Diagnostic::error(codes::EXPECTED, format!("`else if` expected, `{word}` found"))
            .at(self.span())
            .help("write `else if`");
        self.report(diagnostic);
        true
    }

    /// Like [`mend`](Self::mend), between the parts of a clause, where the next clause may begin as well.
    /// Also false if one of `words` stands here.
    pub(super) fn mend_part(&mut self, words: &[&'static str]) -> bool {
        let word = self.word();
        let wrong = !CLAUSES.contains(&word) && !words.contains(&word);
        use TokenKind as T;
        let begins = matches!(self.peek_at(1), T::Arrow | T::Comma | T::Colon | T::Assign | T::BraceOpen);
        wrong && !begins && !self.token().first_of_line && self.mend(words)
    }

    /// After a block that ended too early: reports its first item here, and skips past the last one.
    pub(super) fn skip_stray_items(&mut self) {
        let message = format!("`{}` stands outside of a block", self.written(self.span()));
        let mut diagnostic = Diagnostic::error(codes::UNKNOWN_CLAUSE, message).at(self.span());
        if let Some(closed) = self.closed {
            diagnostic = diagnostic.label(
                closed,
                "this brace closes the block: is it superfluous, or is one missing before it?",
            );
        }
        self.report(diagnostic);
        loop {
            let first_of_line = self.token().first_of_line;
            match self.peek() {
                TokenKind::End => return,
                _ if self.is_item_start() || first_of_line && self.starts(Block::Clauses) => return,
                // The block's own brace if a clause follows; otherwise the protocol's brace.
                TokenKind::BraceClose => {
                    self.bump();
                    if !self.starts(Block::Clauses) {
                        self.at -= 1;
                        return;
                    }
                }
                TokenKind::BraceOpen => self.skip_braces(),
                _ => self.bump(),
            }
        }
    }

    /// Reports, at the end of a block, clause words that stand outside of their blocks, as at the end of a
    /// file.
    pub(super) fn expected_item(&mut self) {
        let word = self.word();
        if CLAUSES.contains(&word)
            && self.has_clause_form(word)
            && let Some(closed) = self.closed
        {
            let message = format!("`{word}` stands outside of a protocol");
            let diagnostic = Diagnostic::error(codes::EXPECTED, message)
                .at(self.span())
                .label(closed, "the protocol ended here: is this brace superfluous?");
            self.report(diagnostic);
            return;
        }
        self.expected("`protocol`, `extend`, `stack`, `import`, `fn` or `table`");
    }
}
