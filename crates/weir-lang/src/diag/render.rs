//! Diagnostics as text: the message, the source lines with carets, the remedy.

use super::{Diagnostic, Severity, Sources, range};
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// One diagnostic as text, in the style of the Rust compiler, ending in a line break.
pub(super) fn render(diagnostic: &Diagnostic, sources: &Sources, color: bool) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group = Group::with_title(level.primary_title(diagnostic.message.as_str()).id(diagnostic.code));
    for source in sources_of(diagnostic) {
        let text = sources.text(source);
        // The renderer prints names of files and group messages unchanged, so they are sanitised here.
        let name = annotate_snippets::normalize_untrusted_str(sources.name(source));
        let mut snippet = Snippet::source(text).path(name).line_start(sources.first_line(source));
        for (index, (span, label)) in diagnostic.spans.iter().enumerate() {
            if span.source != source {
                continue;
            }
            let kind = if index == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
            let mut annotation = kind.span(range(text, *span));
            if !label.is_empty() {
                annotation = annotation.label(label.as_str());
            }
            snippet = snippet.annotation(annotation);
        }
        group = group.element(snippet);
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(annotate_snippets::normalize_untrusted_str(help)));
    }
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let mut text = renderer.render(&[group]);
    text.push('\n');
    text
}

/// The sources of the spans without duplicates, the primary span's source first.
fn sources_of(diagnostic: &Diagnostic) -> Vec<u16> {
    let mut found = Vec::new();
    for (span, _) in &diagnostic.spans {
        if !found.contains(&span.source) {
            found.push(span.source);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::Span;

    #[test]
    fn names_of_files_cannot_control_the_terminal() {
        let mut sources = Sources::new();
        let source = sources.add("evil\u{1b}[31m\u{202e}.weir", "x\u{1b}");
        let diagnostic = Diagnostic::error("W0001", "x\u{1b}").at(Span { source, start: 0, end: 1 });
        let text = diagnostic.help("\u{1b}").render(&sources, false);
        assert!(!text.contains(['\u{1b}', '\u{202e}']) && text.contains("evil"), "{text}");
    }

    #[test]
    fn a_diagnostic_shows_the_line_carets_and_help() {
        let mut sources = Sources::new();
        let source = sources.add("filter", "tls.sni == 443");
        let text = Diagnostic::error("W0107", "`tls.sni` is text, `443` is a number")
            .label(Span { source, start: 0, end: 7 }, "text")
            .label(Span { source, start: 11, end: 14 }, "a number")
            .help("text is quoted: `tls.sni == \"443\"`")
            .render(&sources, false);
        let expected = "\
error[W0107]: `tls.sni` is text, `443` is a number
 --> filter:1:1
  |
1 | tls.sni == 443
  | ^^^^^^^    --- a number
  | |
  | text
  |
  = help: text is quoted: `tls.sni == \"443\"`
";
        assert_eq!(text, expected);
    }
}
