//! The rules of a text: a line each. A backslash at the end of a line joins the next one; lines that begin with `#` are comments.

use weir_lang::diag::Span;

/// A rule's text, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RuleText<'t> {
    pub text: &'t str,
    /// The first byte in the source.
    pub start: usize,
    /// Number of the first line, from 1.
    pub line: usize,
    pub source: u16,
}

impl RuleText<'_> {
    /// The place of bytes of the rule.
    pub fn span(&self, start: usize, end: usize) -> Span {
        let at = |offset: usize| u32::try_from(self.start + offset).unwrap_or(u32::MAX);
        Span { source: self.source, start: at(start), end: at(end) }
    }
}

/// The rules of a source.
pub(crate) fn rules_of(text: &str, source: u16) -> Vec<RuleText<'_>> {
    let (mut rules, mut start, mut line) = (vec![], 0, 1);
    while start < text.len() {
        let (mut end, mut lines) = (start, 0);
        loop {
            let rest = &text[end..];
            let length = rest.find('\n').map_or(rest.len(), |at| at + 1);
            end += length;
            lines += 1;
            let is_joined = rest[..length].trim_end_matches(['\n', '\r']).ends_with('\\');
            if !is_joined || end >= text.len() {
                break;
            }
        }
        let whole = &text[start..end];
        let trimmed = whole.trim();
        if !trimmed.is_empty() && !trimmed.starts_with('#') {
            let before = whole.len() - whole.trim_start().len();
            rules.push(RuleText { text: trimmed, start: start + before, line, source });
        }
        (start, line) = (end, line + lines);
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_lines_which_may_be_joined() {
        let text = "# a\nalert a\n\n  alert b \\\n  more\r\nalert c";
        let rules = rules_of(text, 3);
        let found: Vec<_> = rules.iter().map(|rule| (rule.text, rule.line)).collect();
        assert_eq!(found, [("alert a", 2), ("alert b \\\n  more", 4), ("alert c", 6)]);
        assert!(rules.iter().all(|rule| text[rule.start..].starts_with(rule.text)));
        assert_eq!(rules_of("", 0), []);
        assert_eq!(rules_of("\\", 0).len(), 1);
    }
}
