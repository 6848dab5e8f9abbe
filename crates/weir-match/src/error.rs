//! Why patterns are refused.

use std::fmt;
use std::ops::Range;

/// A pattern that is wrong, or patterns that are more than the bounds allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternError {
    /// Which pattern, from 0; `None` where it is all of them together.
    pub pattern: Option<usize>,
    /// The bytes of its text that are wrong, where that is known.
    pub span: Option<Range<usize>>,
    /// What is wrong, in one line.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

impl PatternError {
    /// A fault of one pattern as a whole.
    pub(crate) fn of(pattern: usize, message: impl Into<String>, help: &str) -> Self {
        Self { pattern: Some(pattern), span: None, message: message.into(), help: Some(help.into()) }
    }

    /// A fault of all patterns together.
    pub(crate) fn of_all(message: impl Into<String>, help: &str) -> Self {
        Self { pattern: None, span: None, message: message.into(), help: Some(help.into()) }
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pattern {
            Some(pattern) => write!(f, "pattern {}: {}", pattern + 1, self.message)?,
            None => write!(f, "{}", self.message)?,
        }
        self.help.as_ref().map_or(Ok(()), |help| write!(f, "; {help}"))
    }
}

impl std::error::Error for PatternError {}
