//! Parses a pattern's text into its meaning (`Hir`), or reports the mistake.

use regex_automata::util::syntax;
use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir};

use crate::{PATTERN_BYTES_MAX, Pattern, PatternError};

/// Maximum nesting of groups and repetitions.
const NESTING_MAX: u32 = 100;

/// Parses the pattern with the given index.
///
/// # Errors
///
/// If the pattern is too long or malformed, cannot match, matches the empty string, or uses Unicode's word
/// characters.
pub(crate) fn read(number: usize, pattern: &Pattern) -> Result<Hir, PatternError> {
    let bytes = pattern.text.len();
    if bytes > PATTERN_BYTES_MAX {
        let message = format!("{bytes} bytes long; the maximum is {PATTERN_BYTES_MAX}");
        return Err(PatternError::of(number, message, "write it as several patterns"));
    }
    let hir = if pattern.literal { literal(pattern) } else { expression(number, pattern)? };
    let properties = hir.properties();
    if properties.look_set().contains_word_unicode() {
        let help = "`(?-u:\\b)` uses ASCII words";
        return Err(PatternError::of(number, "Unicode words are not supported in streams", help));
    }
    match properties.minimum_len() {
        None => Err(PatternError::of(number, "no bytes match it", "a class in it is empty")),
        Some(0) => Err(PatternError::of(
            number,
            "it matches the empty string, that is, everywhere",
            "require at least one byte: `+` instead of `*`, or omit the `?`",
        )),
        Some(_) => Ok(hir),
    }
}

/// A fixed string. Case is ASCII: other bytes need not be text.
fn literal(pattern: &Pattern) -> Hir {
    let one = |byte: u8| {
        if !pattern.ignore_case || !byte.is_ascii_alphabetic() {
            return Hir::literal([byte]);
        }
        let both = [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()];
        Hir::class(Class::Bytes(ClassBytes::new(both.map(|byte| ClassBytesRange::new(byte, byte)))))
    };
    Hir::concat(pattern.text.bytes().map(one).collect())
}

fn expression(number: usize, pattern: &Pattern) -> Result<Hir, PatternError> {
    let config = syntax::Config::new()
        .unicode(false)
        .utf8(false)
        .case_insensitive(pattern.ignore_case)
        .nest_limit(NESTING_MAX);
    syntax::parse_with(&pattern.text, &config).map_err(|error| {
        use regex_syntax::hir::ErrorKind::UnicodeNotAllowed;
        let (span, message, help) = match &error {
            regex_syntax::Error::Parse(error) => (error.span(), error.kind().to_string(), None),
            regex_syntax::Error::Translate(error) => {
                let help = "patterns match bytes; `(?u)` at the start makes this one match UTF-8 text";
                let is_text = matches!(error.kind(), UnicodeNotAllowed);
                (error.span(), error.kind().to_string(), is_text.then(|| help.to_string()))
            }
            // The enumeration is non-exhaustive.
            other => return PatternError::of(number, other.to_string(), "see the syntax of the crate regex"),
        };
        let span = span.start.offset..span.end.offset;
        let help = help.or_else(|| unsupported(&pattern.text[span.clone()]));
        PatternError { pattern: Some(number), span: Some(span), message, help }
    })
}

/// The alternative to an unsupported feature of other engines.
fn unsupported(wrong: &str) -> Option<String> {
    let is_reference = wrong.starts_with('\\') && wrong[1..].starts_with(|c: char| c.is_ascii_digit());
    (is_reference || wrong.starts_with("(?")).then(|| {
        "back-references and look-around need unbounded memory: use a broader pattern and filter its matches".into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> PatternError {
        read(3, &Pattern { text: text.into(), ignore_case: false, literal: false }).unwrap_err()
    }

    #[test]
    fn faults_tell_where_and_what_instead() {
        let wrong = fault("ab(c");
        assert_eq!((wrong.pattern, wrong.span), (Some(3), Some(2..3)));
        assert!(fault("a(?=b)").help.unwrap().contains("look-around"));
        assert!(fault(r"(a)\1").help.unwrap().contains("references"));
        assert!(fault("[é]").help.unwrap().contains("(?u)"));
        assert!(fault("a*").help.unwrap().contains('+'));
        assert!(fault("^").message.contains("everywhere"));
        assert!(fault(r"[^\x00-\xff]").message.contains("no bytes"));
        assert!(fault(r"(?u:\bfoo)").help.unwrap().contains("(?-u"));
        assert!(fault(&"a".repeat(PATTERN_BYTES_MAX + 1)).message.contains("long"));
        assert!(fault(&"(".repeat(4_000)).message.contains("unclosed"));
    }

    #[test]
    fn fixed_strings_have_no_syntax() {
        let pattern = Pattern { text: "a.(É".into(), ignore_case: true, literal: true };
        let hir = read(0, &pattern).unwrap();
        assert_eq!(hir.properties().minimum_len(), Some(5));
        assert!(!hir.properties().is_literal());
    }
}
