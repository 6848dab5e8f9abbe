//! Parses an aggregate into a tree of names and numbers. After a mistake, parsing continues at the next comma
//! or clause.

use super::tree::{ConditionText, Meant, MeasureText, Tree, Word, name_of};
use super::{CLAUSE, Comparison};
use crate::diag::{Span, suggest};
use crate::filter::lexer::{Kind, Token, display_keyword, lex};
use crate::filter::{Report, codes};

/// Maximum nesting of a condition.
const NESTING_MAX: usize = 50;

/// The words with which clauses begin.
const CLAUSES: &[&str] = &["by", "over", "every", "having", "top"];

pub fn parse(text: &str, report: &mut Report) -> Tree {
    let tokens = lex(text, display_keyword, report);
    let mut parser = Parser { text, tokens, at: 0, depth: 0, report };
    let mut tree = Tree::default();
    parser.measures(&mut tree);
    parser.clauses(&mut tree);
    tree
}

/// The byte at which the clause `where` of a text begins, and the one at which its filter does: what follows
/// is no part of the aggregate.
pub fn find_filter(text: &str) -> Option<(usize, usize)> {
    let mut open = 0_usize;
    // Mistakes are those of the aggregate before, or of the filter.
    for token in lex(text, display_keyword, &mut Report::default()) {
        let (start, end) = (token.span.start as usize, token.span.end as usize);
        match token.kind {
            Kind::LeftParen => open += 1,
            Kind::RightParen => open = open.saturating_sub(1),
            Kind::Word if open == 0 && text[start..end].eq_ignore_ascii_case("where") => {
                return Some((start, end));
            }
            _ => {}
        }
    }
    None
}

/// A key alone.
pub fn parse_keys(text: &str, report: &mut Report) -> Tree {
    let tokens = lex(text, display_keyword, report);
    let mut parser = Parser { text, tokens, at: 0, depth: 0, report };
    let mut tree = Tree::default();
    parser.keys(&mut tree);
    if *parser.peek() != Kind::End {
        parser.unexpected("a comma", "fields are separated by commas: `ip.src/24, tcp.dstport`");
    }
    tree
}

struct Parser<'t, 'r> {
    text: &'t str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    report: &'r mut Report,
}

impl Parser<'_, '_> {
    fn peek(&self) -> &Kind {
        &self.tokens[self.at].kind
    }

    fn span(&self) -> Span {
        self.tokens[self.at].span
    }

    fn written(&self) -> &str {
        let span = self.span();
        &self.text[span.start as usize..span.end as usize]
    }

    fn is_word(&self, word: &str) -> bool {
        *self.peek() == Kind::Word && self.written().eq_ignore_ascii_case(word)
    }

    fn is_clause(&self) -> bool {
        CLAUSES.iter().any(|clause| self.is_word(clause))
    }

    fn advance(&mut self) -> Span {
        let span = self.span();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        span
    }

    fn accept(&mut self, kind: &Kind) -> bool {
        let is_it = self.peek() == kind;
        if is_it {
            self.advance();
        }
        is_it
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let is_it = self.is_word(word);
        if is_it {
            self.advance();
        }
        is_it
    }

    /// The next token as a word, if it is one that begins no clause.
    fn word(&mut self) -> Option<Word> {
        if *self.peek() != Kind::Word || self.is_clause() {
            return None;
        }
        let (text, span) = (self.written().to_string(), self.advance());
        Some(Word { text, span })
    }

    /// As [`word`](Self::word); reports that `what` is missing.
    fn expect_word(&mut self, what: &str, help: &str) -> Option<Word> {
        let word = self.word();
        if word.is_none() {
            self.unexpected(what, help);
        }
        word
    }

    fn unexpected(&mut self, wanted: &str, help: &str) {
        let (span, found) = match self.peek() {
            Kind::End => (self.span(), "the end".to_string()),
            _ => (self.span(), format!("`{}`", self.written())),
        };
        let message = format!("{wanted} is missing before {found}");
        let diagnostic = self.report.error(codes::UNEXPECTED, span, message);
        diagnostic.help = Some(help.to_string()).filter(|help| !help.is_empty());
    }

    /// Skips what follows a mistake: up to the next comma outside of parentheses, or the next clause.
    fn recover(&mut self) {
        let mut open = 0;
        loop {
            match self.peek() {
                Kind::End => return,
                Kind::Comma if open == 0 => return,
                Kind::LeftParen => open += 1,
                Kind::RightParen => open -= i32::from(open > 0),
                _ if open == 0 && self.is_clause() => return,
                _ => {}
            }
            self.advance();
        }
    }

    fn measures(&mut self, tree: &mut Tree) {
        const HELP: &str = "for example `count(), sum(frame.len) by ip.src`";
        loop {
            match self.word() {
                Some(function) => match self.call(function) {
                    Some(call) => {
                        let name = self.name();
                        tree.measures.push(MeasureText { name, ..call });
                    }
                    None => self.recover(),
                },
                None => {
                    self.unexpected("a function", HELP);
                    self.recover();
                }
            }
            if !self.accept(&Kind::Comma) {
                return;
            }
        }
    }

    /// `as NAME`
    fn name(&mut self) -> Option<Word> {
        if !self.accept_word("as") {
            return None;
        }
        self.expect_word("a name", "")
    }

    /// The call of a function whose name was read.
    fn call(&mut self, function: Word) -> Option<MeasureText> {
        if !self.accept(&Kind::LeftParen) {
            let help =
                format!("write `{}()`, with the field in the parentheses if there is one", function.text);
            self.unexpected(&format!("`(` after `{}`", function.text), &help);
            return None;
        }
        let mut arguments = vec![];
        while *self.peek() != Kind::RightParen {
            arguments.push(self.expect_word("an argument", "an argument is a field or a number")?);
            if !self.accept(&Kind::Comma) {
                break;
            }
        }
        let end = self.span();
        if !self.accept(&Kind::RightParen) {
            self.unexpected("`)`", "");
            return None;
        }
        let span = function.span.to(end);
        Some(MeasureText { function, arguments, name: None, span })
    }

    fn clauses(&mut self, tree: &mut Tree) {
        while *self.peek() != Kind::End {
            let (word, span) = (self.written().to_ascii_lowercase(), self.span());
            let is_twice = match word.as_str() {
                "by" => !tree.keys.is_empty(),
                "over" => tree.over.is_some(),
                "every" => tree.every.is_some(),
                "having" => tree.having.is_some(),
                "top" => tree.top.is_some(),
                _ => {
                    self.unknown_clause(&word, span);
                    continue;
                }
            };
            if is_twice {
                self.report.error(CLAUSE, span, format!("`{word}` is stated twice"));
            }
            self.advance();
            match word.as_str() {
                "by" => self.keys(tree),
                "over" => tree.over = self.expect_word("a time", "for example `over 1m every 10s`"),
                "every" => tree.every = self.expect_word("a time", "for example `every 10s`"),
                "having" => tree.having = Some(self.condition()),
                _ => self.top(tree),
            }
        }
    }

    fn unknown_clause(&mut self, word: &str, span: Span) {
        let known = [
            ("where", "a filter is an argument of its own, after the aggregate"),
            ("group", "write `by`"),
            ("order", "`top 10` sorts by the first measure, `top 10 by sum(frame.len)` by another one"),
            ("limit", "write `top 10`"),
            ("from", "name the capture with -r FILE, sessions with --of tls"),
        ];
        let foreign = known.iter().find(|(other, _)| *other == word).map(|(_, help)| (*help).to_string());
        let near = suggest(word, CLAUSES.iter().copied()).map(|near| format!("did you mean `{near}`?"));
        let help = foreign.or(near).unwrap_or_else(|| format!("clauses begin with {}", CLAUSES.join(", ")));
        let message = format!("`{}` begins no clause", self.written());
        self.report.error(CLAUSE, span, message).help = Some(help);
        self.advance();
        while *self.peek() != Kind::End && !self.is_clause() {
            self.advance();
        }
    }

    fn keys(&mut self, tree: &mut Tree) {
        loop {
            match self.expect_word("a field", "for example `by ip.src/24, tcp.dstport`") {
                Some(field) => {
                    let name = self.name();
                    tree.keys.push((field, name));
                }
                None => self.recover(),
            }
            if !self.accept(&Kind::Comma) {
                return;
            }
        }
    }

    fn top(&mut self, tree: &mut Tree) {
        let Some(count) = self.expect_word("a number", "for example `top 20`") else { return self.recover() };
        // `by` also begins the clause of keys: after `top`, it names a measure if that is what follows.
        let is_measure = self.is_word("by") && self.is_named_by(tree);
        let by = if is_measure {
            self.advance();
            self.meant()
        } else {
            None
        };
        tree.top = Some((count, by));
    }

    /// Whether the word after this one is a measure: a call, or the name of one.
    fn is_named_by(&self, tree: &Tree) -> bool {
        let Some([next, after]) = self.tokens.get(self.at + 1..self.at + 3) else { return false };
        let text = &self.text[next.span.start as usize..next.span.end as usize];
        let is_name = tree.measures.iter().any(|measure| name_of(measure) == text);
        next.kind == Kind::Word && (after.kind == Kind::LeftParen || is_name)
    }

    /// A measure, by its name or in full.
    fn meant(&mut self) -> Option<Meant> {
        let word =
            self.expect_word("a measure", "a measure is a call as `count()`, or the name of its column")?;
        match self.peek() {
            Kind::LeftParen => self.call(word).map(Meant::Call),
            _ => Some(Meant::Named(word)),
        }
    }

    /// A condition: `and` binds more tightly than `or`.
    fn condition(&mut self) -> ConditionText {
        let mut parts = vec![self.part()];
        loop {
            match self.peek() {
                Kind::And => {
                    self.advance();
                    let right = self.part();
                    let left = parts.pop().unwrap_or(ConditionText::Wrong);
                    parts.push(match left {
                        ConditionText::All(mut all) => {
                            all.push(right);
                            ConditionText::All(all)
                        }
                        one => ConditionText::All(vec![one, right]),
                    });
                }
                Kind::Or => {
                    self.advance();
                    parts.push(self.part());
                }
                _ if parts.len() > 1 => return ConditionText::Any(parts),
                _ => return parts.pop().unwrap_or(ConditionText::Wrong),
            }
        }
    }

    fn part(&mut self) -> ConditionText {
        if self.depth >= NESTING_MAX {
            let span = self.span();
            self.report.error(codes::LIMIT, span, "the condition is nested too deeply");
            while !matches!(self.peek(), Kind::End) {
                self.advance();
            }
            return ConditionText::Wrong;
        }
        self.depth += 1;
        let part = match self.peek() {
            Kind::Not => {
                self.advance();
                ConditionText::Not(Box::new(self.part()))
            }
            Kind::LeftParen => {
                self.advance();
                let inner = self.condition();
                if !self.accept(&Kind::RightParen) {
                    self.unexpected("`)`", "");
                }
                // What is in parentheses is one part.
                ConditionText::Any(vec![inner])
            }
            _ => self.comparison(),
        };
        self.depth -= 1;
        part
    }

    fn comparison(&mut self) -> ConditionText {
        let Some(meant) = self.meant() else {
            self.recover();
            return ConditionText::Wrong;
        };
        let comparison = match self.peek() {
            Kind::Eq => Comparison::Equal,
            Kind::Ne => Comparison::NotEqual,
            Kind::Lt => Comparison::Less,
            Kind::Le => Comparison::AtMost,
            Kind::Gt => Comparison::Greater,
            Kind::Ge => Comparison::AtLeast,
            _ => {
                self.unexpected("a comparison", "for example `having count() > 100`");
                self.recover();
                return ConditionText::Wrong;
            }
        };
        self.advance();
        match self.expect_word("a number", "") {
            Some(number) => ConditionText::Is(meant, comparison, number),
            None => {
                self.recover();
                ConditionText::Wrong
            }
        }
    }
}
