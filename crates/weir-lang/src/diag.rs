//! Diagnostics: the author's mistakes, with the span underlined, a code and a remedy.
//!
//! All mistakes of a run are collected before stopping. Codes are listed in `docs/diagnostics.md`:
//! W0001 to W0099 are those of the protocol language, from W0100 on those of filters. `render`
//! turns them into text with carets.

mod render;
mod suggest;

pub use suggest::suggest;

use std::fmt;
use std::sync::Arc;

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

    /// The empty span just behind `self`.
    pub fn after(self) -> Span {
        Span { start: self.end, ..self }
    }
}

/// The texts that spans refer to. Cheap to clone: texts are shared.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    files: Vec<Source>,
}

/// One text and its name in messages.
#[derive(Debug, Clone)]
struct Source {
    name: Arc<str>,
    text: Arc<str>,
}

impl Sources {
    /// No texts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text; the index is what [`Span::source`] holds.
    ///
    /// # Panics
    /// Where there are more than 65 535 texts.
    pub fn add(&mut self, name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> u16 {
        let index = u16::try_from(self.files.len()).expect("at most 65 535 sources");
        self.files.push(Source { name: name.into(), text: text.into() });
        index
    }

    /// The text of a source; empty for an index that `add` never yielded.
    pub fn text(&self, source: u16) -> &str {
        self.files.get(usize::from(source)).map_or("", |file| &file.text)
    }

    /// The name of a source; empty for an index that `add` never yielded.
    pub fn name(&self, source: u16) -> &str {
        self.files.get(usize::from(source)).map_or("", |file| &file.name)
    }

    /// The text under a span, cut to whole characters inside the source.
    pub fn slice(&self, span: Span) -> &str {
        let text = self.text(span.source);
        &text[range(text, span)]
    }

    /// Line and column of a span's start, both from 1, the column in characters.
    pub fn position(&self, span: Span) -> (usize, usize) {
        let text = self.text(span.source);
        let before = &text[..range(text, span).start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}

/// The bytes of `span` that are in `text`, widened to whole characters: never panics when sliced.
fn range(text: &str, span: Span) -> std::ops::Range<usize> {
    let mut start = (span.start as usize).min(text.len());
    let mut end = (span.end as usize).clamp(start, text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    while !text.is_char_boundary(end) {
        end += 1;
    }
    start..end
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

impl Diagnostic {
    /// A mistake because of which nothing is run.
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, severity: Severity::Error, message: message.into(), spans: Vec::new(), help: None }
    }

    /// Something that works, but probably not as meant.
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, message) }
    }

    /// Underlines a span; the first one is the main one.
    pub fn at(self, span: Span) -> Self {
        self.label(span, "")
    }

    /// Underlines a span with a word about it.
    pub fn label(mut self, span: Span, label: impl Into<String>) -> Self {
        self.spans.push((span, label.into()));
        self
    }

    /// Says what to write instead.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Says "did you mean …?" where one of `candidates` resembles `name`, nothing otherwise.
    pub fn did_you_mean<'a>(self, name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Self {
        match suggest(name, candidates) {
            Some(found) => self.help(format!("did you mean `{found}`?")),
            None => self,
        }
    }

    /// Whether nothing is run because of it.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// As text with the source lines and carets, ending in a line break; `color` adds ANSI sequences.
    pub fn render(&self, sources: &Sources, color: bool) -> String {
        render::render(self, sources, color)
    }
}

/// All mistakes found in a run, with the texts they are in. `Display` renders them without colour.
#[derive(Debug, Clone, Default)]
pub struct Diagnostics {
    /// The texts.
    pub sources: Sources,
    /// The mistakes, in the order in which they were found.
    pub list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Whether one of them is an error.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(Diagnostic::is_error)
    }

    /// All of them as text, a blank line between two.
    pub fn render(&self, color: bool) -> String {
        let texts: Vec<_> = self.list.iter().map(|one| one.render(&self.sources, color)).collect();
        texts.join("\n")
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_from_one() {
        let mut sources = Sources::new();
        let source = sources.add("a.weir", "one\n\u{e9}\u{e9} two\n");
        let span = Span { source, start: 9, end: 12 };
        assert_eq!(sources.slice(span), "two");
        assert_eq!(sources.position(span), (2, 4));
    }

    #[test]
    fn spans_outside_the_text_or_inside_a_character_are_harmless() {
        let mut sources = Sources::new();
        let source = sources.add("a.weir", "\u{e9}");
        assert_eq!(sources.slice(Span { source, start: 1, end: 1 }), "\u{e9}");
        for (start, end) in [(0, 1), (1, 2), (5, 9), (9, 5)] {
            let text =
                Diagnostic::error("W0001", "x").at(Span { source, start, end }).render(&sources, false);
            assert!(text.starts_with("error[W0001]: x"), "{text}");
        }
        assert_eq!(sources.slice(Span { source: 7, start: 1, end: 2 }), "");
    }
}
