//! Where lines and heads end (RFC 9112 §2.2).
//!
//! Lines end in CRLF or bare LF. Browsers and libhtp also read these, and servers that evade inspection send
//! them:
//!
//! | bytes | meaning |
//! |---|---|
//! | CR, a header's name, a colon | the CR ends a line |
//! | a bare LF, CR, CR LF | two line ends: the CR after a bare LF belongs to it |
//! | a bare LF, a space, LF, and no line end | two line ends |

use super::start_line::is_token;
use memchr::memchr;

/// Whether a head ends after its last line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadEnd {
    No,
    Yes,
    /// Only if no line end follows.
    UnlessLineEnd,
}

impl HeadEnd {
    /// Whether a head ends after these bytes, which end in LF.
    pub(super) fn after(bytes: &[u8]) -> Self {
        match bytes {
            [.., b'\n', b'\n'] | [.., b'\n', b'\r', b'\n'] => Self::Yes,
            [.., b'\r', b'\n', b'\r', b'\r', b'\n'] => Self::No,
            [.., b'\n', b'\r', b'\r', b'\n'] => Self::Yes,
            [.., b'\r', b'\n', b' ' | b'\t', b'\n'] => Self::No,
            [.., b'\n', b' ' | b'\t', b'\n'] => Self::UnlessLineEnd,
            _ => Self::No,
        }
    }

    /// Whether the head ends, given the byte that follows; `None` if that byte is needed and not there.
    pub(super) fn is_end(self, next: Option<&u8>) -> Option<bool> {
        match (self, next) {
            (Self::No, _) => Some(false),
            (Self::Yes, _) => Some(true),
            (Self::UnlessLineEnd, next) => next.map(|byte| !matches!(byte, b'\r' | b'\n')),
        }
    }
}

/// The end of the head at the beginning of `bytes`: after its empty line. `from` is in its first line, or at
/// its end.
pub(super) fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from + 1;
    loop {
        at += memchr(b'\n', bytes.get(at..)?)? + 1;
        if HeadEnd::after(&bytes[..at]).is_end(bytes.get(at))? {
            return Some(at);
        }
    }
}

/// A line in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    /// The line without its line end.
    pub(super) start: usize,
    pub(super) end: usize,
    /// The offset of the next line.
    pub(super) next: usize,
    /// The line is empty, and ends the head.
    pub(super) is_last: bool,
}

/// The line at `start`; `None` at the end of the block.
pub(super) fn line_at(block: &[u8], start: usize) -> Option<Line> {
    let rest = block.get(start..).filter(|rest| !rest.is_empty())?;
    let (line, next) = match memchr(b'\n', rest) {
        Some(newline) => (&rest[..newline], start + newline + 1),
        None => (rest, block.len()),
    };
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if let Some(length) = bare_cr(line) {
        return Some(Line { start, end: start + length, next: start + length + 1, is_last: false });
    }
    Some(Line { start, end: start + line.len(), next, is_last: line.is_empty() })
}

/// The first CR in a line that ends it, because a header follows.
fn bare_cr(line: &[u8]) -> Option<usize> {
    let mut crs = memchr::memchr_iter(b'\r', line);
    crs.find(|cr| begins_header(&line[cr + 1..]))
}

/// Whether bytes begin with the name of a header and its colon.
fn begins_header(bytes: &[u8]) -> bool {
    let name_bytes = bytes.iter().take_while(|byte| is_token(**byte)).count();
    name_bytes > 0 && bytes[name_bytes..].trim_ascii_start().first() == Some(&b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_head_is_its_empty_line() {
        for (bytes, end) in [
            ("a\r\n\r\nb", Some(5)),
            ("a\n\nb", Some(3)),
            ("a\r\n\nb", Some(4)),
            ("a\r\nb\r\n", None),
            ("a\n\r\r\nb", Some(5)),
            ("a\r\n\r\r\nb\r\n\r\n", Some(11)),
            ("a\n \nb", Some(4)),
            ("a\n\t\n\nb", Some(5)),
            ("a\r\n \r\n\r\n", Some(8)),
            ("a\r\n \nb\n\n", Some(8)),
            ("a\n \n", None),
        ] {
            assert_eq!(end_of_head(bytes.as_bytes(), 0), end, "{bytes:?}");
        }
    }

    #[test]
    fn a_cr_ends_a_line_if_a_header_follows() {
        let lines = |block: &str| {
            let (mut lines, mut at) = (vec![], 0);
            while let Some(line) = line_at(block.as_bytes(), at) {
                lines.push(block[line.start..line.end].to_owned());
                at = line.next;
            }
            lines
        };
        assert_eq!(lines("a: 1\rb : 2\r\nc: 3\n"), ["a: 1", "b : 2", "c: 3"]);
        assert_eq!(lines("a: 1\rb\r\n\rc: 2\r\r\n"), ["a: 1\rb", "", "c: 2\r"]);
        assert_eq!(lines("a:\r b: 1"), ["a:\r b: 1"]);
        let many = format!("a{}", "\rx".repeat(100_000));
        assert_eq!(lines(&many).len(), 1, "and in linear time");
    }
}
