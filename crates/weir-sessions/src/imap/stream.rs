//! One direction of IMAP: lines, and literals between them (RFC 9051 §4.3). `{5}` at the end of a line
//! announces a literal of five bytes, after which the line continues.

use crate::line::Lines;
use std::borrow::Cow;
use weir_packet::Timestamp;

/// Maximum bytes kept of a line, without its literals.
pub const LINE_BYTES_MAX: usize = 8 * 1024;
/// Maximum bytes kept of a literal.
const LITERAL_BYTES_MAX: usize = 256;

/// A piece of one direction.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A line, or a part of a line with literals.
    Line {
        bytes: Cow<'a, [u8]>,
        time: Timestamp,
        /// Whether the piece begins a command or response; otherwise it continues after a literal.
        is_begin: bool,
        is_cut: bool,
    },
    /// The first bytes of a literal that has ended.
    Literal(Vec<u8>),
}

/// State of one direction.
#[derive(Debug, Default)]
pub(super) struct Stream {
    lines: Lines,
    literal: Vec<u8>,
    literal_left: Option<u64>,
    is_behind_literal: bool,
}

impl Stream {
    /// Takes the next piece off the front of `bytes`, which arrived at `time`; `None` if more bytes are
    /// needed.
    pub(super) fn next<'a>(&mut self, bytes: &mut &'a [u8], time: Timestamp) -> Option<Piece<'a>> {
        if let Some(left) = &mut self.literal_left {
            let take = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
            let (part, tail) = bytes.split_at(take);
            *bytes = tail;
            *left -= take as u64;
            let room = LITERAL_BYTES_MAX - self.literal.len();
            self.literal.extend_from_slice(&part[..part.len().min(room)]);
            if *left > 0 {
                return None;
            }
            self.literal_left = None;
            self.is_behind_literal = true;
            return Some(Piece::Literal(std::mem::take(&mut self.literal)));
        }
        let line = self.lines.next(bytes, time, LINE_BYTES_MAX)?;
        self.literal_left = read_literal(&line.bytes);
        let is_begin = !std::mem::take(&mut self.is_behind_literal);
        Some(Piece::Line { bytes: line.bytes, time: line.time, is_begin, is_cut: line.is_cut })
    }

    /// Skips missing bytes. A literal continues after them; otherwise the next byte counts as the start of a
    /// line.
    pub(super) fn skip(&mut self, length_bytes: u64) {
        match &mut self.literal_left {
            Some(left) if *left >= length_bytes => *left -= length_bytes,
            _ => *self = Self::default(),
        }
    }

    /// The other side refused the announced literal (RFC 9051 §7.6), so it is not sent.
    pub(super) fn refuse_literal(&mut self) {
        if self.literal_left.is_some() && self.literal.is_empty() {
            self.literal_left = None;
        }
    }

    /// Whether the next byte begins a line.
    pub(super) fn is_between(&self) -> bool {
        self.lines.is_between() && self.literal_left.is_none() && !self.is_behind_literal
    }
}

/// The length in a line that ends in `{5}` or `{5+}` (RFC 7888).
pub(super) fn read_literal(line: &[u8]) -> Option<u64> {
    let rest = line.strip_suffix(b"}")?;
    let open = memchr::memrchr(b'{', rest)?;
    let digits = &rest[open + 1..];
    let digits = digits.strip_suffix(b"+").or(digits.strip_suffix(b"-")).unwrap_or(digits);
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(chunks: &[&str]) -> Vec<String> {
        let mut stream = Stream::default();
        let mut list = Vec::new();
        for chunk in chunks {
            let mut rest = chunk.as_bytes();
            // A literal of length zero ends without another byte.
            while let Some(piece) = stream.next(&mut rest, Timestamp(0)) {
                list.push(match piece {
                    Piece::Line { bytes, is_begin, .. } => {
                        format!("{} {is_begin}", String::from_utf8_lossy(&bytes))
                    }
                    Piece::Literal(bytes) => format!("literal {}", String::from_utf8_lossy(&bytes)),
                });
            }
        }
        list
    }

    #[test]
    fn literals_interrupt_lines() {
        let text = "a LOGIN {3}\r\nx\r\n {0+}\r\n\r\nb NOOP\r\n";
        let expected =
            ["a LOGIN {3} true", "literal x\r\n", " {0+} false", "literal ", " false", "b NOOP true"];
        let whole = pieces(&[text]);
        assert_eq!(
            whole,
            expected.map(|line| if line == " false" { " false".to_owned() } else { line.to_owned() })
        );
        let single: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(pieces(&single.iter().map(String::as_str).collect::<Vec<_>>()), whole);
    }

    #[test]
    fn what_looks_like_a_literal_need_not_be_one() {
        for line in ["a {x}", "a {}", "a {1} ", "a 1}", "{99999999999999999999}"] {
            assert_eq!(read_literal(line.as_bytes()), None, "{line}");
        }
        assert_eq!(read_literal(b"* 1 FETCH (BODY[] ~{12}"), Some(12));
    }

    #[test]
    fn a_gap_in_a_literal_is_borne() {
        let mut stream = Stream::default();
        let mut rest = &b"* 1 FETCH (BODY[] {10}\r\nabc"[..];
        while stream.next(&mut rest, Timestamp(0)).is_some() {}
        stream.skip(7);
        assert_eq!(stream.next(&mut &b""[..], Timestamp(0)), Some(Piece::Literal(b"abc".to_vec())));
    }
}
