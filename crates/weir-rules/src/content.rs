//! The bytes of `content:"…"`: letters, escapes and hexadecimal bytes between bars.

use std::borrow::Cow;

/// A number, or the variable with this index that holds one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Amount {
    Number(i64),
    Variable(u16),
}

/// A literal that a buffer has, or has not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Content {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The buffer must not have them.
    pub negated: bool,
    /// Upper and lower case of ASCII are the same.
    pub nocase: bool,
    /// First byte at or behind this one, from the begin of the buffer.
    pub offset: Option<Amount>,
    /// Last byte within this many from the begin (from `offset`, if stated).
    pub depth: Option<Amount>,
    /// First byte this far behind the end of the last match.
    pub distance: Option<Amount>,
    /// Last byte within this many behind the end of the last match (and `distance`).
    pub within: Option<Amount>,
    /// At the begin of the buffer.
    pub startswith: bool,
    /// At the end of the buffer.
    pub endswith: bool,
    /// The pattern by which the rule is searched.
    pub fast: Option<FastPattern>,
}

/// How `fast_pattern` is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastPattern {
    /// The whole content.
    Whole,
    /// Nothing else of the content is looked at.
    Only,
    /// These bytes of the content: the first one, and how many.
    Part(u16, u16),
}

impl Content {
    /// Whether the place depends on the match before.
    pub fn is_relative(&self) -> bool {
        self.distance.is_some() || self.within.is_some()
    }

    /// Why the content can never be found, and the remedy.
    pub(crate) fn contradiction(&self) -> Option<(&'static str, &'static str)> {
        let is_placed = self.is_relative() || self.offset.is_some() || self.depth.is_some();
        let too_short = |amount: Option<Amount>| matches!(amount, Some(Amount::Number(number)) if number < self.bytes.len() as i64);
        if self.startswith && is_placed {
            Some((
                "`startswith` says where the content is",
                "leave `depth`, `offset`, `distance` and `within` out",
            ))
        } else if matches!(self.offset, Some(Amount::Number(..0))) {
            Some(("an offset is not negative", "`distance` may be negative"))
        } else if too_short(self.depth) || too_short(self.within) {
            Some((
                "the content is longer than the bytes in which it is searched",
                "state a larger `depth` or `within`",
            ))
        } else {
            None
        }
    }
}

/// The text between quotes, and whether `!` precedes them.
pub(crate) fn quoted(value: &str) -> Option<(bool, &str)> {
    let (negated, rest) = match value.strip_prefix('!') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, value),
    };
    Some((negated, rest.strip_prefix('"')?.strip_suffix('"')?))
}

/// The bytes of a pattern.
///
/// # Errors
/// What is wrong, and where (bytes of `text`).
pub(crate) fn bytes_of(text: &str) -> Result<Vec<u8>, (Cow<'static, str>, usize)> {
    let (mut bytes, all, mut at) = (vec![], text.as_bytes(), 0);
    while at < all.len() {
        match all[at] {
            b'|' => {
                let end = all[at + 1..].iter().position(|byte| *byte == b'|').map(|length| at + 1 + length);
                let end = end.ok_or(("the hexadecimal bytes have no end: write `|0d 0a|`".into(), at))?;
                let mut high = None;
                for (place, byte) in all.iter().enumerate().take(end).skip(at + 1) {
                    let letter = char::from(*byte);
                    if letter.is_ascii_whitespace() {
                        continue;
                    }
                    let digit = letter.to_digit(16).ok_or(("this is no hexadecimal digit".into(), place))?;
                    match high.take() {
                        Some(first) => bytes.push((first << 4 | digit) as u8),
                        None => high = Some(digit),
                    }
                }
                if high.is_some() {
                    return Err(("a hexadecimal byte has two digits".into(), end - 1));
                }
                at = end + 1;
            }
            b'\\' => {
                match all.get(at + 1) {
                    Some(byte @ (b'\\' | b'"' | b';' | b':')) => bytes.push(*byte),
                    _ => {
                        return Err(("only `\\\\`, `\\\"`, `\\;` and `\\:` are escapes".into(), at));
                    }
                }
                at += 2;
            }
            byte => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_letters_escapes_and_hexadecimal_bytes() {
        assert_eq!(bytes_of(r#"a|0d 0A|\;\"|7C|"#), Ok(b"a\r\n;\"|".to_vec()));
        assert_eq!(bytes_of("|4142 43|"), Ok(b"ABC".to_vec()));
        for (wrong, place) in [("|4", 0), ("|4g|", 2), ("a|414|", 4), ("a\\n", 1), ("a\\", 1)] {
            assert_eq!(bytes_of(wrong).map_err(|(_, at)| at), Err(place), "{wrong}");
        }
        assert_eq!(quoted("!\"a\""), Some((true, "a")));
        assert_eq!(quoted("a"), None);
        assert_eq!(quoted("\""), None);
    }
}
