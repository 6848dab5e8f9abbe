//! Diagnostics: the author's mistakes in a text, with an underlined span, a code and a remedy.
//!
//! A run collects all mistakes before it stops. `docs/diagnostics.md` lists the codes: W0001 to W0099 belong
//! to the protocol language, W0100 and above to filters. `render` prints diagnostics with source lines and
//! carets.

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
    /// The span from the start of `self` to the end of `other`.
    pub fn to(self, other: Span) -> Span {
        Span { source: self.source, start: self.start, end: other.end.max(self.start) }
    }

    /// The empty span immediately after `self`.
    pub fn after(self) -> Span {
        Span { start: self.end, ..self }
    }
}

/// The texts that spans refer to. Cloning is cheap, because texts are shared.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    files: Vec<Source>,
}

/// One text and its name in messages.
#[derive(Debug, Clone)]
struct Source {
    name: Arc<str>,
    text: Arc<str>,
    /// The number of the text's first line in messages.
    first_line: usize,
}

impl Sources {
    /// An empty set of sources.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text and returns its index, the value of [`Span::source`].
    ///
    /// # Panics
    /// If there are more than 65 535 texts.
    pub fn add(&mut self, name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> u16 {
        self.add_part(name, text, 1)
    }

    /// Adds lines of a longer text, of which `first_line` is the number of the first one (from 1). Spans
    /// refer to the lines, messages show their numbers in the longer text.
    ///
    /// # Panics
    /// If there are more than 65 535 texts.
    pub fn add_part(
        &mut self,
        name: impl Into<Arc<str>>,
        text: impl Into<Arc<str>>,
        first_line: usize,
    ) -> u16 {
        let index = u16::try_from(self.files.len()).expect("at most 65 535 sources");
        self.files.push(Source { name: name.into(), text: text.into(), first_line });
        index
    }

    /// The number of the first line of a source in messages.
    fn first_line(&self, source: u16) -> usize {
        self.files.get(usize::from(source)).map_or(1, |file| file.first_line)
    }

    /// The text of a source; empty for an index that `add` never returned.
    pub fn text(&self, source: u16) -> &str {
        self.files.get(usize::from(source)).map_or("", |file| &file.text)
    }

    /// The name of a source; empty for an index that `add` never returned.
    pub fn name(&self, source: u16) -> &str {
        self.files.get(usize::from(source)).map_or("", |file| &file.name)
    }

    /// The text under a span, restricted to the source and to whole characters.
    pub fn slice(&self, span: Span) -> &str {
        let text = self.text(span.source);
        &text[range(text, span)]
    }

    /// Line and column of a span's start, both 1-based; the column counts characters.
    pub fn position(&self, span: Span) -> (usize, usize) {
        let text = self.text(span.source);
        let before = &text[..range(text, span).start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (
            before.matches('\n').count() + self.first_line(span.source),
            before[line_start..].chars().count() + 1,
        )
    }
}

/// The bytes of `span` inside `text`, widened to whole characters, so that slicing never panics.
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

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Nothing is run.
    Error,
    /// The text is valid, but probably does not do what its author meant.
    Warning,
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The code, for example `W0107`. `docs/diagnostics.md` lists all codes.
    pub code: &'static str,
    /// Error or warning.
    pub severity: Severity,
    /// What is wrong, in one line.
    pub message: String,
    /// The underlined spans with their labels (possibly empty). The first is the primary span.
    pub spans: Vec<(Span, String)>,
    /// What to write instead.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A mistake that prevents the run.
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, severity: Severity::Error, message: message.into(), spans: Vec::new(), help: None }
    }

    /// A valid text that probably does not do what its author meant.
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, message) }
    }

    /// Underlines a span. The first one is the primary span.
    pub fn at(self, span: Span) -> Self {
        self.label(span, "")
    }

    /// Underlines a span with a label.
    pub fn label(mut self, span: Span, label: impl Into<String>) -> Self {
        self.spans.push((span, label.into()));
        self
    }

    /// Adds a remedy.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds "did you mean …?" if one of `candidates` resembles `name`.
    pub fn did_you_mean<'a>(self, name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Self {
        match suggest(name, candidates) {
            Some(found) => self.help(format!("did you mean `{found}`?")),
            None => self,
        }
    }

    /// Whether the diagnostic is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// The diagnostic as text with source lines and carets, ending in a line break. `color` adds ANSI
    /// sequences.
    pub fn render(&self, sources: &Sources, color: bool) -> String {
        render::render(self, sources, color)
    }
}

/// All diagnostics of a run with their texts. `Display` renders them without colour.
#[derive(Debug, Clone, Default)]
pub struct Diagnostics {
    /// The texts.
    pub sources: Sources,
    /// The diagnostics, in the order in which they were found.
    pub list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Whether the list contains an error.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(Diagnostic::is_error)
    }

    /// Adds the diagnostics of another list, with their texts.
    ///
    /// # Panics
    /// If there are more than 65 535 texts.
    pub fn append(&mut self, mut other: Self) {
        let before = self.sources.files.len() as u16;
        for Source { name, text, first_line } in other.sources.files {
            self.sources.add_part(name, text, first_line);
        }
        let spans = other.list.iter_mut().flat_map(|one| &mut one.spans);
        spans.for_each(|(span, _)| span.source += before);
        self.list.append(&mut other.list);
    }

    /// All diagnostics as text, separated by blank lines.
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
    fn lines_of_a_part_have_the_numbers_of_the_whole() {
        let mut sources = Sources::new();
        let source = sources.add_part("a.rules", "one\ntwo", 40);
        let span = Span { source, start: 4, end: 7 };
        assert_eq!(sources.position(span), (41, 1));
        let text = Diagnostic::error("W0001", "x").at(span).render(&sources, false);
        assert!(text.contains("--> a.rules:41:1") && text.contains("\n41 | two\n"), "{text}");
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
