//! Errors in patterns.

use std::fmt;
use std::ops::Range;

/// An invalid pattern, or patterns beyond the bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternError {
    /// The index of the pattern, from 0; `None` for all of them together.
    pub pattern: Option<usize>,
    /// The invalid bytes of the pattern's text, if known.
    pub span: Option<Range<usize>>,
    /// What is wrong, in one line.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

impl PatternError {
    /// An error of one pattern as a whole.
    pub(crate) fn of(pattern: usize, message: impl Into<String>, help: &str) -> Self {
        Self { pattern: Some(pattern), span: None, message: message.into(), help: Some(help.into()) }
    }

    /// An error of all patterns together.
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
