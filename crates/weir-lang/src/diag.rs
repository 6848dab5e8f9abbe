//! Diagnostics: the author's mistakes, with the span underlined, a code and a remedy.

/// A range of bytes of one source text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Span {
    /// Index of the source in its `Sources`.
    pub source: u16,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// From the start of `self` to the end of `other`.
    pub fn to(self, other: Span) -> Span {
        Span { source: self.source, start: self.start, end: other.end.max(self.start) }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Nothing is run.
    Error,
    /// It works, but probably not as meant.
    Warning,
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// `W0107`; listed in `docs/diagnostics.md`.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in one line.
    pub message: String,
    /// What to underline, each with a label (may be empty); the first is the main one.
    pub spans: Vec<(Span, String)>,
    /// What to write instead.
    pub help: Option<String>,
}
