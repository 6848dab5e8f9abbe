//! Splits text into tokens, for both filter languages.
//!
//! ```text
//! word    = any run of letters, digits, `_ . : / -`, ending before `..`
//! quoted  = `"` { char | `\n` `\r` `\t` `\0` `\\` `\"` `\'` `\xHH` | `\` char } `"`  |  `r"` { char } `"`
//!         | the same between `'`
//! symbol  = ( ) { } [ ] , .. == = != < <= > >= && || ! ~ & | << >> + * % ^ \
//! ```
//!
//! A word is anything from `tcp.port` to `fe80::1/64`: its meaning depends on the field that it is compared
//! with. An unknown escape keeps its backslash, so that regular expressions (`"\.com$"`) need no doubled
//! backslashes.

use super::report::{self, Report};
use crate::diag::Span;

/// The kind of a token.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Word,
    Quoted(Vec<u8>),
    LeftParen,
    RightParen,
    LeftBrace,
    RightBrace,
    LeftBracket,
    RightBracket,
    Comma,
    DotDot,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    In,
    Contains,
    Matches,
    Satisfies,
    And,
    Or,
    Not,
    Ampersand,
    Pipe,
    ShiftLeft,
    ShiftRight,
    /// `+ * % ^ \`: arithmetic and escapes of pcap-filter(7).
    Symbol(char),
    End,
}

/// A token and its span.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub kind: Kind,
    pub span: Span,
}

/// The operators of the display-filter language that are words, case-insensitive.
pub(crate) fn display_keyword(word: &str) -> Option<Kind> {
    Some(match word.to_ascii_lowercase().as_str() {
        "and" => Kind::And,
        "or" => Kind::Or,
        "not" => Kind::Not,
        "eq" => Kind::Eq,
        "ne" => Kind::Ne,
        "lt" => Kind::Lt,
        "le" => Kind::Le,
        "gt" => Kind::Gt,
        "ge" => Kind::Ge,
        "in" => Kind::In,
        "contains" => Kind::Contains,
        "matches" => Kind::Matches,
        "satisfies" => Kind::Satisfies,
        "bitwise_and" => Kind::Ampersand,
        _ => return None,
    })
}

/// The operators of pcap-filter(7) that are words.
pub(crate) fn bpf_keyword(word: &str) -> Option<Kind> {
    Some(match word {
        "and" => Kind::And,
        "or" => Kind::Or,
        "not" => Kind::Not,
        _ => return None,
    })
}

/// Splits `text` into tokens, the last of which is [`Kind::End`]. Continues after mistakes.
pub(crate) fn lex(text: &str, keyword: fn(&str) -> Option<Kind>, report: &mut Report) -> Vec<Token> {
    let mut lexer = Lexer { text, at: 0, report };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_space();
        let start = lexer.at;
        let Some(kind) = lexer.token(keyword) else { continue };
        let end = kind == Kind::End;
        tokens.push(Token { kind, span: span(start, lexer.at) });
        if end {
            return tokens;
        }
    }
}

/// A span of the filter's text.
pub(crate) fn span(start: usize, end: usize) -> Span {
    Span { source: 0, start: start as u32, end: end as u32 }
}

struct Lexer<'t, 'r> {
    text: &'t str,
    at: usize,
    report: &'r mut Report,
}

impl Lexer<'_, '_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// The next token, or `None` after a character that was reported and skipped.
    fn token(&mut self, keyword: fn(&str) -> Option<Kind>) -> Option<Kind> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Some(Kind::End) };
        if let Some(quote) = quote(first) {
            return Some(self.quoted(quote, false));
        }
        if let Some(quote) = rest.strip_prefix(['r', 'R']).and_then(|rest| quote(rest.chars().next()?)) {
            self.at += 1;
            return Some(self.quoted(quote, true));
        }
        if let Some((symbol, kind)) = symbol(rest) {
            let start = self.at;
            self.at += symbol.len();
            if let Some((better, example)) = foreign(symbol) {
                self.report
                    .error(report::OPERATOR, span(start, self.at), format!("`{symbol}` is no operator here"))
                    .help = Some(format!("write `{better}`: `{example}`"));
            }
            return Some(kind);
        }
        if is_word(first) {
            let length = word_length(rest);
            let word = &rest[..length];
            let kind = keyword(word).unwrap_or(Kind::Word);
            self.at += length;
            return Some(kind);
        }
        if let Some(kind) = self.foreign_quotes(first) {
            return Some(kind);
        }
        let start = self.at;
        self.at += first.len_utf8();
        let shown = first.escape_debug();
        let diagnostic = self.report.error(
            report::CHARACTER,
            span(start, self.at),
            format!("`{shown}` has no meaning in a filter"),
        );
        diagnostic.help = Some(match first {
            '$' => "variables are the shell's: it puts their values into double quotes only".to_string(),
            ';' | '?' | '#' | '@' => "join conditions with `and` and `or`".to_string(),
            _ => "remove it, or quote the text it belongs to".to_string(),
        });
        None
    }

    /// `` `text` `` and `“text”`: one mistake, treated as a quoted text.
    fn foreign_quotes(&mut self, first: char) -> Option<Kind> {
        let closing = match first {
            '`' => first,
            '‘' => '’',
            '“' | '”' => '”',
            _ => return None,
        };
        let start = self.at;
        let inside = &self.text[start + first.len_utf8()..];
        let length = inside.find(closing)?;
        let value = &inside[..length];
        self.at = start + first.len_utf8() + length + closing.len_utf8();
        let diagnostic = self.report.error(
            report::CHARACTER,
            span(start, self.at),
            format!("`{first}` is not a quote character of filters"),
        );
        diagnostic.help = Some(format!("text is quoted with `\"`: `\"{value}\"`"));
        Some(Kind::Quoted(value.as_bytes().to_vec()))
    }

    /// A quoted text, at its opening quote; the same character closes it.
    fn quoted(&mut self, quote: char, raw: bool) -> Kind {
        let start = self.at;
        self.at += 1;
        let mut value = Vec::new();
        while let Some(char) = self.rest().chars().next() {
            self.at += char.len_utf8();
            match char {
                _ if char == quote => return Kind::Quoted(value),
                '\\' if !raw => self.escape(&mut value),
                // In a raw text only the quote itself needs a backslash, and the backslash is kept.
                '\\' if self.rest().starts_with(quote) => {
                    value.extend_from_slice(&[b'\\', quote as u8]);
                    self.at += 1;
                }
                _ => value.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        self.report.error(report::QUOTE, span(start, start + 1), "this text has no closing quote").help =
            Some(format!("close it with `{quote}`; inside, a quote is written `\\{quote}`"));
        Kind::Quoted(value)
    }

    /// The character after a backslash.
    fn escape(&mut self, value: &mut Vec<u8>) {
        let start = self.at - 1;
        let Some(char) = self.rest().chars().next() else { return };
        self.at += char.len_utf8();
        match char {
            'n' => value.push(b'\n'),
            'r' => value.push(b'\r'),
            't' => value.push(b'\t'),
            '0' => value.push(0),
            '\\' | '"' | '\'' => value.push(char as u8),
            'x' => {
                let byte = self.rest().get(..2).filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
                match byte.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
                    Some(byte) => {
                        value.push(byte);
                        self.at += 2;
                    }
                    None => {
                        self.report
                            .error(report::QUOTE, span(start, self.at), "`\\x` needs two hexadecimal digits")
                            .help = Some("write `\\x0a`; a backslash itself is `\\\\`".to_string());
                    }
                }
            }
            _ => {
                value.push(b'\\');
                value.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }
}

/// The quote characters: two, so that the shell's quoting can use the other one.
fn quote(char: char) -> Option<char> {
    matches!(char, '"' | '\'').then_some(char)
}

/// The symbols, longer ones first.
fn symbol(rest: &str) -> Option<(&'static str, Kind)> {
    const SYMBOLS: &[(&str, Kind)] = &[
        ("===", Kind::Eq),
        ("!==", Kind::Ne),
        ("..", Kind::DotDot),
        ("==", Kind::Eq),
        ("=>", Kind::Ge),
        ("=<", Kind::Le),
        ("=~", Kind::Matches),
        ("!=", Kind::Ne),
        ("!~", Kind::Matches),
        ("<>", Kind::Ne),
        ("<=", Kind::Le),
        (">=", Kind::Ge),
        ("<<", Kind::ShiftLeft),
        (">>", Kind::ShiftRight),
        ("&&", Kind::And),
        ("||", Kind::Or),
        ("=", Kind::Eq),
        ("<", Kind::Lt),
        (">", Kind::Gt),
        ("!", Kind::Not),
        ("~", Kind::Matches),
        ("&", Kind::Ampersand),
        ("|", Kind::Pipe),
        ("(", Kind::LeftParen),
        (")", Kind::RightParen),
        ("{", Kind::LeftBrace),
        ("}", Kind::RightBrace),
        ("[", Kind::LeftBracket),
        ("]", Kind::RightBracket),
        (",", Kind::Comma),
        ("+", Kind::Symbol('+')),
        ("*", Kind::Symbol('*')),
        ("%", Kind::Symbol('%')),
        ("^", Kind::Symbol('^')),
        ("\\", Kind::Symbol('\\')),
    ];
    SYMBOLS.iter().find(|(symbol, _)| rest.starts_with(symbol)).cloned()
}

/// Operators of other languages: the replacement, and an example.
fn foreign(symbol: &str) -> Option<(&'static str, &'static str)> {
    Some(match symbol {
        "===" => ("==", "tcp.port == 443"),
        "!==" => ("!=", "tcp.port != 443"),
        "=>" => (">=", "frame.len >= 100"),
        "=<" => ("<=", "frame.len <= 100"),
        "<>" => ("!=", "tcp.port != 443"),
        "=~" => ("~", "http.host ~ \"example\""),
        "!~" => ("not … ~", "not http.host ~ \"example\""),
        _ => return None,
    })
}

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '_' | '.' | ':' | '/' | '-')
}

fn word_length(rest: &str) -> usize {
    let end = rest.find(|char| !is_word(char)).unwrap_or(rest.len());
    rest[..end].find("..").unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> (Vec<Kind>, usize) {
        let mut report = Report::default();
        let tokens = lex(text, display_keyword, &mut report);
        (tokens.into_iter().map(|token| token.kind).collect(), report.list.len())
    }

    #[test]
    fn a_word_ends_before_two_dots() {
        use Kind::{DotDot, End, In, LeftBrace, RightBrace, Word};
        let (kinds, wrong) = kinds("tcp.port in {80..90}");
        assert_eq!(kinds, [Word, In, LeftBrace, Word, DotDot, Word, RightBrace, End]);
        assert_eq!(wrong, 0);
    }

    #[test]
    fn addresses_are_one_word() {
        for text in ["fe80::1/64", "::", "aa-bb-cc-dd-ee-ff", "10.0.0.0/8", "0:3", "2026-11-21T02:00:00Z"] {
            assert_eq!(kinds(text), (vec![Kind::Word, Kind::End], 0), "{text}");
        }
    }

    #[test]
    fn escapes() {
        let (tokens, wrong) = kinds(r#""a\"\x41\.\\n" r"\x\"" "#);
        assert_eq!(wrong, 0);
        assert_eq!(tokens[0], Kind::Quoted(br#"a"A\.\n"#.to_vec()));
        assert_eq!(tokens[1], Kind::Quoted(br#"\x\""#.to_vec()));
    }

    #[test]
    fn either_quote_ends_what_it_began() {
        let (tokens, wrong) = kinds(r#"'a"\'\x41' "it's" r'\d\'"' 'open"#);
        assert_eq!(wrong, 1, "the last has no end");
        let texts = [r#"a"'A"#, "it's", r#"\d\'""#, "open"].map(|t| Kind::Quoted(t.as_bytes().to_vec()));
        assert_eq!(tokens[..4], texts);
    }

    #[test]
    fn mistakes_are_reported_and_skipped() {
        assert_eq!(kinds("$ ; “a”").1, 3);
        assert_eq!(kinds("\"open").1, 1);
        assert_eq!(kinds("a => 3").0[1], Kind::Ge);
    }
}
