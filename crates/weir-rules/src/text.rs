//! The rules of a text: a line each. A backslash at the end of a line joins the next one; lines that begin
//! with `#` are comments.

use weir_lang::diag::Span;

/// Bytes of a rule: with many options, some steps take quadratic time.
pub(crate) const RULE_BYTES_MAX: usize = 64 << 10;

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

/// Lines that are joined by backslashes, with the line end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Joined<'t> {
    pub text: &'t str,
    /// The first byte in the source.
    pub start: usize,
    /// Number of the first line.
    pub line: usize,
}

/// The lines of a text. `first_line`: the number of the first one.
pub(crate) fn joined_lines(text: &str, first_line: usize) -> impl Iterator<Item = Joined<'_>> {
    let (mut start, mut line) = (0, first_line);
    std::iter::from_fn(move || {
        if start >= text.len() {
            return None;
        }
        let (mut end, mut lines) = (start, 0);
        loop {
            let rest = &text.as_bytes()[end..];
            let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            end += length;
            lines += 1;
            let is_joined = text[end - length..end].trim_end_matches(['\n', '\r']).ends_with('\\');
            if !is_joined || end >= text.len() {
                break;
            }
        }
        let joined = Joined { text: &text[start..end], start, line };
        (start, line) = (end, line + lines);
        Some(joined)
    })
}

impl<'t> Joined<'t> {
    /// The rule of these lines, if they are neither empty nor a comment.
    pub fn rule(&self, source: u16) -> Option<RuleText<'t>> {
        let text = self.text.trim();
        let before = self.text.len() - self.text.trim_start().len();
        let is_rule = !text.is_empty() && !text.starts_with('#');
        is_rule.then_some(RuleText { text, start: self.start + before, line: self.line, source })
    }
}

/// The rules of a source.
pub(crate) fn rules_of(text: &str, source: u16) -> Vec<RuleText<'_>> {
    joined_lines(text, 1).filter_map(|lines| lines.rule(source)).collect()
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
