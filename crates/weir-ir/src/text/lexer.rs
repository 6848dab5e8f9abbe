//! Splits a line of text into tokens and steps through them.

use super::error::ParseError;

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A name or a keyword: letters, digits, `_` and `.`, not starting with a digit.
    Word(String),
    /// A decimal number.
    Number(u128),
    /// The contents of quoted text.
    Text(Vec<u8>),
    /// One of `( ) { } : , =` or `..`.
    Mark(&'static str),
}

impl Token {
    fn describe(&self) -> String {
        match self {
            Token::Word(word) => format!("`{word}`"),
            Token::Number(number) => format!("`{number}`"),
            Token::Text(_) => "text in quotes".to_owned(),
            Token::Mark(mark) => format!("`{mark}`"),
        }
    }
}

const MARKS: [&str; 8] = ["..", "(", ")", "{", "}", ":", ",", "="];

/// The tokens of a line, read from the left.
#[derive(Debug)]
pub(super) struct Line {
    number: usize,
    tokens: Vec<(usize, Token)>,
    end: usize,
    at: usize,
}

impl Line {
    /// Splits line `number` (from 1) into tokens.
    pub(super) fn new(number: usize, text: &str) -> Result<Self, ParseError> {
        let mut line = Self { number, tokens: vec![], end: text.chars().count() + 1, at: 0 };
        let mut rest = text;
        loop {
            rest = rest.trim_start();
            let column = text[..text.len() - rest.len()].chars().count() + 1;
            let Some(first) = rest.chars().next() else { return Ok(line) };
            let used = if first == ';' {
                return Ok(line);
            } else if first == '"' {
                let (bytes, used) = quoted(rest).map_err(|message| line.error_in(column, message))?;
                line.tokens.push((column, Token::Text(bytes)));
                used
            } else if let Some(mark) = MARKS.into_iter().find(|m| rest.starts_with(m)) {
                line.tokens.push((column, Token::Mark(mark)));
                mark.len()
            } else if first.is_ascii_digit() {
                let used = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                let number = rest[..used].parse();
                let number =
                    number.map_err(|_| line.error_in(column, "the number is too large".to_owned()))?;
                line.tokens.push((column, Token::Number(number)));
                used
            } else if first.is_ascii_alphabetic() || first == '_' {
                let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
                let used = rest.find(|c: char| !part(c)).unwrap_or(rest.len());
                line.tokens.push((column, Token::Word(rest[..used].to_owned())));
                used
            } else {
                return Err(line.error_in(column, format!("`{first}` means nothing here")));
            };
            rest = &rest[used..];
        }
    }

    /// Whether all tokens are consumed.
    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.tokens.len()
    }

    /// The next token.
    pub(super) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    /// The next token, if it is a word.
    pub(super) fn peek_word(&self) -> Option<&str> {
        match self.peek() {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// Consumes the next token.
    pub(super) fn advance(&mut self) {
        self.at += 1;
    }

    /// Consumes the next token if it is this word or mark. Returns whether it was.
    pub(super) fn take(&mut self, wanted: &str) -> bool {
        let here = match self.peek() {
            Some(Token::Word(word)) => word == wanted,
            Some(Token::Mark(mark)) => *mark == wanted,
            _ => false,
        };
        self.at += usize::from(here);
        here
    }

    /// Consumes this word or mark, which must be next.
    pub(super) fn expect(&mut self, wanted: &str) -> Result<(), ParseError> {
        if self.take(wanted) { Ok(()) } else { Err(self.expected(&format!("`{wanted}`"))) }
    }

    /// Consumes a word.
    pub(super) fn word(&mut self, what: &str) -> Result<String, ParseError> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.advance();
                Ok(word)
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Consumes a word or quoted text as a name.
    pub(super) fn name(&mut self) -> Result<String, ParseError> {
        match self.peek() {
            Some(Token::Text(_)) => self.string(),
            _ => self.word("a name"),
        }
    }

    /// Consumes quoted text.
    pub(super) fn bytes(&mut self) -> Result<Vec<u8>, ParseError> {
        match self.peek() {
            Some(Token::Text(bytes)) => {
                let bytes = bytes.clone();
                self.advance();
                Ok(bytes)
            }
            _ => Err(self.expected("text in quotes")),
        }
    }

    /// Consumes quoted text that must be UTF-8.
    pub(super) fn string(&mut self) -> Result<String, ParseError> {
        let at = self.at;
        String::from_utf8(self.bytes()?).map_err(|_| self.error_at(at, "this must be UTF-8".to_owned()))
    }

    /// Consumes a number that fits the type.
    pub(super) fn number<T: TryFrom<u128>>(&mut self) -> Result<T, ParseError> {
        let Some(Token::Number(number)) = self.peek() else { return Err(self.expected("a number")) };
        let Ok(number) = T::try_from(*number) else {
            return Err(self.error_at(self.at, "the number is too large here".to_owned()));
        };
        self.advance();
        Ok(number)
    }

    /// Consumes an identifier: `prefix` and a number, in one word.
    pub(super) fn id(&mut self, prefix: &str) -> Result<u32, ParseError> {
        let digits = self.peek_word().and_then(|word| word.strip_prefix(prefix)).unwrap_or("");
        // Values are stored in a vector by number, so a mistyped number must not allocate gigabytes.
        match digits.parse() {
            Ok(number) if digits.as_bytes()[0].is_ascii_digit() && number < 1 << 24 => {
                self.advance();
                Ok(number)
            }
            _ => Err(self.expected(&format!("`{prefix}N`"))),
        }
    }

    /// The error that `what` was expected next.
    pub(super) fn expected(&self, what: &str) -> ParseError {
        let found = self.peek().map_or("the end of the line".to_owned(), Token::describe);
        self.error_at(self.at, format!("expected {what}, found {found}"))
    }

    /// An error at the last consumed token.
    pub(super) fn error_before(&self, message: String) -> ParseError {
        self.error_at(self.at.saturating_sub(1), message)
    }

    fn error_at(&self, token: usize, message: String) -> ParseError {
        self.error_in(self.tokens.get(token).map_or(self.end, |(column, _)| *column), message)
    }

    fn error_in(&self, column: usize, message: String) -> ParseError {
        ParseError { line: self.number, column, message }
    }
}

/// The bytes of a quoted text, and the number of bytes of `rest` that it takes.
fn quoted(rest: &str) -> Result<(Vec<u8>, usize), String> {
    let mut bytes = vec![];
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((bytes, at + 1)),
            '\\' => match chars.next() {
                Some((_, c @ ('"' | '\\'))) => bytes.push(c as u8),
                Some((_, 'x')) => {
                    let mut digit = || chars.next().and_then(|(_, c)| c.to_digit(16));
                    let (Some(high), Some(low)) = (digit(), digit()) else {
                        return Err("`\\x` takes two hexadecimal digits".to_owned());
                    };
                    bytes.push((high * 16 + low) as u8);
                }
                _ => return Err("after `\\` stands `\"`, `\\` or `xNN`".to_owned()),
            },
            c => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Err("the text has no closing quote".to_owned())
}
