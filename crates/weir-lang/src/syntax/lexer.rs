//! Tokens of the protocol language, each with its span.
//!
//! Dotted names are one token (`flags.syn`), and so are durations (`30s`). Comments are discarded; `//!`
//! lines are stored separately with the token that they precede. Unknown characters are reported and skipped:
//! the list of tokens always exists and always ends in [`TokenKind::End`].

use crate::check::codes;
use crate::diag::{Diagnostic, Span};
use std::time::Duration;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "their spelling is in `describe`")]
pub enum TokenKind {
    /// A name including dots, or a contextual keyword (`header`).
    Name,
    /// A decimal, `0x` or `0b` number.
    Number(u64),
    /// A number with `ms`, `s`, `m` or `h`.
    Duration(Duration),
    /// Text in double quotes; the span includes them.
    Text,
    // Reserved words.
    And,
    Or,
    Not,
    In,
    If,
    Then,
    Else,
    True,
    False,
    // Operators and punctuation.
    BraceOpen,
    BraceClose,
    ParenOpen,
    ParenClose,
    BracketOpen,
    BracketClose,
    Comma,
    Colon,
    Assign,
    AddAssign,
    Arrow,
    Both,
    DotDot,
    Pipe,
    Caret,
    Ampersand,
    ShiftLeft,
    ShiftRight,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    /// An operator of other languages; the parser reads its context with the meaning it has there.
    Question,
    /// The end of the text.
    End,
}

impl TokenKind {
    /// The kind's name in messages.
    pub fn describe(self) -> &'static str {
        use TokenKind as T;
        match self {
            T::Name => "a name",
            T::Number(_) => "a number",
            T::Duration(_) => "a duration",
            T::Text => "text in quotes",
            T::And => "`and`",
            T::Or => "`or`",
            T::Not => "`not`",
            T::In => "`in`",
            T::If => "`if`",
            T::Then => "`then`",
            T::Else => "`else`",
            T::True => "`true`",
            T::False => "`false`",
            T::BraceOpen => "`{`",
            T::BraceClose => "`}`",
            T::ParenOpen => "`(`",
            T::ParenClose => "`)`",
            T::BracketOpen => "`[`",
            T::BracketClose => "`]`",
            T::Comma => "`,`",
            T::Colon => "`:`",
            T::Assign => "`=`",
            T::AddAssign => "`+=`",
            T::Arrow => "`->`",
            T::Both => "`<->`",
            T::DotDot => "`..`",
            T::Pipe => "`|`",
            T::Caret => "`^`",
            T::Ampersand => "`&`",
            T::ShiftLeft => "`<<`",
            T::ShiftRight => "`>>`",
            T::Plus => "`+`",
            T::Minus => "`-`",
            T::Star => "`*`",
            T::Slash => "`/`",
            T::Percent => "`%`",
            T::Equal => "`==`",
            T::NotEqual => "`!=`",
            T::Less => "`<`",
            T::LessEqual => "`<=`",
            T::Greater => "`>`",
            T::GreaterEqual => "`>=`",
            T::Question => "`?`",
            T::End => "the end of the text",
        }
    }
}

/// A token.
#[derive(Debug, Clone, Copy)]
pub struct Token {
    /// Its kind.
    pub kind: TokenKind,
    /// Its span.
    pub span: Span,
    /// The token is the first of its line: the parser may resume here after a mistake.
    pub first_of_line: bool,
    /// The token was reported; further mistakes at its place are follow-up errors.
    pub is_reported: bool,
}

/// All tokens of a text, and the documentation lines between them.
#[derive(Debug, Default)]
pub struct Tokens {
    /// The tokens; the last is [`TokenKind::End`].
    pub list: Vec<Token>,
    /// Index of a token, and the `//!` lines immediately above it.
    pub docs: Vec<(usize, String)>,
}

/// Longer operators precede their prefixes.
const SIGNS: [(&str, TokenKind); 30] = [
    ("<->", TokenKind::Both),
    ("->", TokenKind::Arrow),
    ("..", TokenKind::DotDot),
    ("+=", TokenKind::AddAssign),
    ("<<", TokenKind::ShiftLeft),
    (">>", TokenKind::ShiftRight),
    ("==", TokenKind::Equal),
    ("!=", TokenKind::NotEqual),
    ("<=", TokenKind::LessEqual),
    (">=", TokenKind::GreaterEqual),
    ("{", TokenKind::BraceOpen),
    ("}", TokenKind::BraceClose),
    ("(", TokenKind::ParenOpen),
    (")", TokenKind::ParenClose),
    ("[", TokenKind::BracketOpen),
    ("]", TokenKind::BracketClose),
    (",", TokenKind::Comma),
    (":", TokenKind::Colon),
    ("=", TokenKind::Assign),
    ("|", TokenKind::Pipe),
    ("^", TokenKind::Caret),
    ("&", TokenKind::Ampersand),
    ("+", TokenKind::Plus),
    ("-", TokenKind::Minus),
    ("*", TokenKind::Star),
    ("/", TokenKind::Slash),
    ("%", TokenKind::Percent),
    ("<", TokenKind::Less),
    (">", TokenKind::Greater),
    ("?", TokenKind::Question),
];

/// Operators of other languages, the token that each is read as, and the remedy. Each is reported once.
const FOREIGN: [(&str, Option<TokenKind>, &str); 6] = [
    ("&&", Some(TokenKind::And), "write `and`"),
    ("||", Some(TokenKind::Or), "write `or`"),
    ("!", Some(TokenKind::Not), "write `not`"),
    ("**", Some(TokenKind::Star), "there are no powers; shift instead: `1 << n` is the nth power of 2"),
    ("~", None, "there is no complement; `x ^ 0xff` has the other 8 bits"),
    (";", None, "statements are separated only by white space"),
];

/// Delimiters of other languages' comments.
const FOREIGN_COMMENTS: [(&str, &str); 2] = [("#", "\n"), ("/*", "*/")];

/// Lexes the part of `text` under `span`; spans of tokens are relative to the whole text.
pub fn lex(text: &str, span: Span, diagnostics: &mut Vec<Diagnostic>) -> Tokens {
    let end = (span.end as usize).min(text.len());
    let mut lexer = Lexer {
        text: &text[..end],
        at: span.start as usize,
        source: span.source,
        first_of_line: true,
        doc: String::new(),
        tokens: Tokens::default(),
        diagnostics,
    };
    lexer.run();
    lexer.tokens
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    source: u16,
    first_of_line: bool,
    doc: String,
    tokens: Tokens,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl Lexer<'_> {
    fn run(&mut self) {
        loop {
            self.skip_blanks();
            let Some(&first) = self.text.as_bytes().get(self.at) else { break };
            let (start, before) = (self.at, self.diagnostics.len());
            let kind = match first {
                b'A'..=b'Z' | b'a'..=b'z' | b'_' => Some(self.read_name()),
                b'0'..=b'9' => self.read_number(),
                b'"' => self.read_text(),
                _ => self.read_sign(),
            };
            if let Some(kind) = kind {
                self.push(kind, start, self.diagnostics.len() > before);
            }
        }
        self.push(TokenKind::End, self.at, false);
    }

    fn push(&mut self, kind: TokenKind, start: usize, is_reported: bool) {
        if !self.doc.is_empty() {
            self.tokens.docs.push((self.tokens.list.len(), std::mem::take(&mut self.doc)));
        }
        let span = self.span(start);
        self.tokens.list.push(Token { kind, span, first_of_line: self.first_of_line, is_reported });
        self.first_of_line = false;
    }

    fn span(&self, start: usize) -> Span {
        // Texts of more than 4 GiB were rejected before.
        Span { source: self.source, start: start as u32, end: self.at as u32 }
    }

    /// Skips white space, comments and documentation lines. A blank line ends a documentation block: lines
    /// above the blank line belong to the file.
    fn skip_blanks(&mut self) {
        let mut line_breaks = 0;
        while let Some(&byte) = self.text.as_bytes().get(self.at) {
            let rest = &self.text[self.at..];
            if byte == b'\n' {
                self.first_of_line = true;
                line_breaks += 1;
                self.at += 1;
            } else if byte.is_ascii_whitespace() {
                self.at += 1;
            } else if rest.starts_with("//") {
                let line = &rest[..rest.find('\n').unwrap_or(rest.len())];
                if let Some(words) = line.strip_prefix("//!") {
                    if line_breaks > 1 {
                        self.doc.clear();
                    }
                    if !self.doc.is_empty() {
                        self.doc.push(' ');
                    }
                    self.doc.push_str(words.trim());
                }
                line_breaks = 0;
                self.at += line.len();
            } else {
                break;
            }
        }
    }

    fn read_name(&mut self) -> TokenKind {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        loop {
            while bytes.get(self.at).is_some_and(is_inside) {
                self.at += 1;
            }
            // A dot belongs to the name if a letter follows; `a..b` is a range.
            let next = bytes.get(self.at + 1);
            if bytes.get(self.at) != Some(&b'.') || !next.is_some_and(is_inside) {
                break;
            }
            self.at += 1;
        }
        match &self.text[start..self.at] {
            "and" => TokenKind::And,
            "or" => TokenKind::Or,
            "not" => TokenKind::Not,
            "in" => TokenKind::In,
            "if" => TokenKind::If,
            "then" => TokenKind::Then,
            "else" => TokenKind::Else,
            "true" => TokenKind::True,
            "false" => TokenKind::False,
            _ => TokenKind::Name,
        }
    }

    fn read_number(&mut self) -> Option<TokenKind> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
            self.at += 1;
        }
        // `10.0.0.1` and `1.5` are one mistake each; `8..10` is a range.
        while bytes[self.at..].first() == Some(&b'.')
            && bytes.get(self.at + 1).is_some_and(u8::is_ascii_alphanumeric)
        {
            self.at += 1;
            while bytes.get(self.at).is_some_and(u8::is_ascii_alphanumeric) {
                self.at += 1;
            }
        }
        let written = &self.text[start..self.at];
        let kind = number(written);
        if kind.is_none() {
            let message = format!("`{written}` is not a number");
            let help = match written.parse::<std::net::Ipv4Addr>() {
                Ok(address) => format!(
                    "write an address as a number: `{:#010x}`; filters accept addresses",
                    address.to_bits()
                ),
                Err(_) => {
                    "numbers are `26`, `0x1a` or `0b11010` and fit 64 bits; durations end in ms, s, m or h"
                        .into()
                }
            };
            let diagnostic = Diagnostic::error(codes::BAD_NUMBER, message).at(self.span(start));
            self.diagnostics.push(diagnostic.help(help));
        }
        // Return a token, so that the parser reports no further error.
        Some(kind.unwrap_or(TokenKind::Number(0)))
    }

    fn read_text(&mut self) -> Option<TokenKind> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.text.as_bytes().get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Some(TokenKind::Text);
                }
                Some(b'\\') if matches!(self.text.as_bytes().get(self.at + 1), Some(b'"' | b'\\')) => {
                    self.at += 2
                }
                None | Some(b'\n') => {
                    self.diagnostics.push(
                        Diagnostic::error(codes::UNTERMINATED_TEXT, "text without its closing quote")
                            .at(self.span(start))
                            .help("text ends on its line: add `\"`"),
                    );
                    return None;
                }
                Some(_) => self.at += 1,
            }
        }
    }

    fn read_sign(&mut self) -> Option<TokenKind> {
        let rest = &self.text[self.at..];
        let start = self.at;
        if let Some(&(begin, end)) = FOREIGN_COMMENTS.iter().find(|(begin, _)| rest.starts_with(begin)) {
            self.at += begin.len();
            let message = format!("`{begin}` does not begin a comment in this language");
            let diagnostic = Diagnostic::error(codes::BAD_CHARACTER, message).at(self.span(start));
            self.diagnostics.push(diagnostic.help("comments begin with `//` and end at the end of the line"));
            // The words of the comment are not reported.
            let inside = &rest[begin.len()..];
            self.at += inside.find(end).map_or(inside.len(), |at| at + end.len());
            self.first_of_line |= self.text[start..self.at].contains('\n');
            return None;
        }
        if !rest.starts_with("!=")
            && let Some(&(sign, kind, help)) = FOREIGN.iter().find(|(sign, ..)| rest.starts_with(sign))
        {
            self.at += sign.len();
            self.diagnostics.push(
                Diagnostic::error(codes::BAD_CHARACTER, format!("`{sign}` is not a sign of this language"))
                    .at(self.span(start))
                    .help(help),
            );
            return kind;
        }
        if let Some((sign, kind)) = SIGNS.iter().find(|(sign, _)| rest.starts_with(sign)) {
            self.at += sign.len();
            return Some(*kind);
        }
        let unknown =
            |c: char| !c.is_ascii_alphanumeric() && !c.is_whitespace() && !"_\"{}()[],:".contains(c);
        let first = rest.chars().next().map_or(1, char::len_utf8);
        // A sequence of unknown characters is one mistake.
        self.at += rest.find(|c| !unknown(c)).unwrap_or(rest.len()).max(first);
        let written = &self.text[start..self.at];
        self.diagnostics.push(
            Diagnostic::error(codes::BAD_CHARACTER, format!("`{written}` has no meaning here"))
                .at(self.span(start)),
        );
        None
    }
}

/// The value of a number or duration; `None` if it is neither.
fn number(written: &str) -> Option<TokenKind> {
    let digits = written.replace('_', "");
    if let Some(hex) = digits.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok().map(TokenKind::Number);
    }
    if let Some(binary) = digits.strip_prefix("0b") {
        return u64::from_str_radix(binary, 2).ok().map(TokenKind::Number);
    }
    let split = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let (digits, unit) = digits.split_at(split);
    let count: u64 = digits.parse().ok()?;
    let unit_ms = match unit {
        "" => return Some(TokenKind::Number(count)),
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    Some(TokenKind::Duration(Duration::from_millis(count.checked_mul(unit_ms)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> (Vec<TokenKind>, Vec<Diagnostic>) {
        let mut diagnostics = Vec::new();
        let span = Span { source: 0, start: 0, end: text.len() as u32 };
        let tokens = lex(text, span, &mut diagnostics);
        (tokens.list.iter().map(|token| token.kind).collect(), diagnostics)
    }

    #[test]
    fn dotted_names_ranges_and_durations_are_told_apart() {
        use TokenKind as T;
        let (found, wrong) = kinds("a.b..c 8..10 30s 0x1f <-> <");
        assert!(wrong.is_empty(), "{wrong:?}");
        let seconds = T::Duration(Duration::from_secs(30));
        let expected = [
            T::Name,
            T::DotDot,
            T::Name,
            T::Number(8),
            T::DotDot,
            T::Number(10),
            seconds,
            T::Number(31),
            T::Both,
            T::Less,
            T::End,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn signs_of_other_languages_are_said_and_read_as_meant() {
        let (found, wrong) = kinds("a && !b");
        assert_eq!(found, [TokenKind::Name, TokenKind::And, TokenKind::Not, TokenKind::Name, TokenKind::End]);
        assert_eq!(wrong.len(), 2);
        assert_eq!(kinds("\u{20ac}\u{20ac} a").1.len(), 1, "a run of unknown characters is one mistake");
    }

    #[test]
    fn the_documentation_nearest_above_a_token_is_its_own() {
        let text = "//! file\n\n//! one\n//! two\nprotocol // no\n//! last\n\nstack";
        let span = Span { source: 0, start: 0, end: text.len() as u32 };
        let tokens = lex(text, span, &mut Vec::new());
        assert_eq!(tokens.docs, [(0, "one two".to_string()), (1, "last".to_string())]);
    }
}
