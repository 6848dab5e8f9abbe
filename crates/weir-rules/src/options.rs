//! The options of a rule: `(name:value; name; …)`.

use crate::text::RuleText;
use weir_lang::diag::{Diagnostic, Span};

/// A code for the form of rules.
pub(crate) const FORM: &str = "W0201";

/// An option's words, and where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OptionText<'t> {
    pub name: &'t str,
    pub name_span: Span,
    /// Without spaces around.
    pub value: Option<&'t str>,
    pub value_span: Span,
}

impl<'t> OptionText<'t> {
    /// The parts of the value between commas, without spaces around.
    pub fn list(&self) -> impl Iterator<Item = &'t str> {
        self.value.unwrap_or_default().split(',').map(str::trim)
    }

    /// The place of a part of the value.
    pub fn part_span(&self, part: &str) -> Span {
        let value = self.value.unwrap_or_default();
        let at = part.as_ptr().addr().checked_sub(value.as_ptr().addr()).filter(|at| *at <= value.len());
        at.map_or(self.value_span, |at| {
            let start = self.value_span.start + at as u32;
            Span { start, end: start + part.len() as u32, ..self.value_span }
        })
    }
}

/// The options between the parentheses that begin at `at`.
pub(crate) fn options<'t>(rule: &RuleText<'t>, at: usize) -> Result<Vec<OptionText<'t>>, Diagnostic> {
    let text = rule.text;
    let wrong = |message: &str, at: usize, help: &str| {
        Diagnostic::error(FORM, message).at(rule.span(at, text.len())).help(help)
    };
    if !text.ends_with(')') {
        return Err(wrong("the rule has no end", at, "a rule ends with `)`"));
    }
    let (mut options, mut start, end) = (vec![], at + 1, text.len() - 1);
    loop {
        start += spaces(&text[start..end]);
        if start >= end {
            return Ok(options);
        }
        let Some(length) = length_of(&text[start..end]) else {
            return Err(wrong("an option has no end", start, "an option ends with `;`"));
        };
        let option = &text[start..start + length];
        let colon = option.find(':');
        let name = option[..colon.unwrap_or(length)].trim_end();
        let (value, value_at) = match colon {
            Some(colon) => {
                let value = &option[colon + 1..];
                let trimmed = trim(value);
                let before = value.len() - value[spaces(value)..].len();
                (Some(trimmed), start + colon + 1 + before)
            }
            None => (None, start + length),
        };
        if name.is_empty() {
            return Err(wrong("an option has no name", start, "write `name;` or `name:value;`"));
        }
        options.push(OptionText {
            name,
            name_span: rule.span(start, start + name.len()),
            value,
            value_span: rule.span(value_at, value_at + value.map_or(0, str::len)),
        });
        start += length + 1;
    }
}

/// Bytes of spaces, and of line ends that are joined.
fn spaces(text: &str) -> usize {
    let is_space = |letter: char| letter.is_whitespace() || letter == '\\';
    let rest = text.trim_start_matches(|letter: char| letter.is_whitespace());
    // A backslash alone is a space before a line end only.
    match rest.starts_with("\\\n") || rest.starts_with("\\\r\n") {
        true => text.len() - rest.trim_start_matches(is_space).len(),
        false => text.len() - rest.len(),
    }
}

fn trim(text: &str) -> &str {
    text[spaces(text)..].trim_end()
}

/// Bytes of an option up to its semicolon: one behind a backslash is part of a value, and so is one between
/// quotes.
fn length_of(text: &str) -> Option<usize> {
    let (mut is_quoted, mut is_escaped, mut has_colon) = (false, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b':' => has_colon = true,
            b'"' if has_colon => is_quoted = !is_quoted,
            b';' if !is_quoted => return Some(at),
            _ => {}
        }
    }
    // A quote without an end: Suricata ends such options at the first semicolon.
    (is_quoted).then(|| text.find(';')).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<(&str, Option<&str>)>, Diagnostic> {
        let rule = RuleText { text, start: 0, line: 1, source: 0 };
        Ok(options(&rule, 0)?.into_iter().map(|option| (option.name, option.value)).collect())
    }

    #[test]
    fn values_may_have_semicolons_behind_backslashes_and_in_quotes() {
        let text = r#"(msg:"a\; b; c: d"; nocase ; sid: 7; pcre:"/;\"x/i"; content:!"|3b|";)"#;
        let wanted = [
            ("msg", Some(r#""a\; b; c: d""#)),
            ("nocase", None),
            ("sid", Some("7")),
            ("pcre", Some(r#""/;\"x/i""#)),
            ("content", Some(r#"!"|3b|""#)),
        ];
        assert_eq!(of(text), Ok(wanted.to_vec()));
        assert_eq!(of("(a; \\\n b:1;)"), Ok(vec![("a", None), ("b", Some("1"))]));
        assert_eq!(of("()"), Ok(vec![]));
        assert!(of("(a").is_err() && of("(a)").is_err() && of("(:1;)").is_err());
    }
}
