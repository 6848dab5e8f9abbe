//! Lines of text protocols (SMTP, FTP, POP3, IMAP): splits one direction's bytes into lines.
//!
//! A line that is complete in one piece is not copied; otherwise it is buffered up to a bound, and truncated
//! there. Lines end in CRLF or bare LF.

use crate::values::readable;
use base64::Engine;
use memchr::memchr;
use std::borrow::Cow;
use weir_packet::Timestamp;

/// A line without its line end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// The bytes, truncated at the bound.
    pub(crate) bytes: Cow<'a, [u8]>,
    /// Time of the first byte.
    pub(crate) time: Timestamp,
    /// The line exceeded the bound.
    pub(crate) is_cut: bool,
}

/// State of one direction.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    kept: Vec<u8>,
    /// Time of the first buffered byte; none between lines.
    time: Option<Timestamp>,
    is_cut: bool,
}

impl Lines {
    /// Takes the next line off the front of `bytes`, which arrived at `time`; `None` if more bytes are
    /// needed. Keeps at most `bytes_max` bytes of a line.
    pub(crate) fn next<'a>(
        &mut self,
        bytes: &mut &'a [u8],
        time: Timestamp,
        bytes_max: usize,
    ) -> Option<Line<'a>> {
        if bytes.is_empty() {
            return None;
        }
        let time = *self.time.get_or_insert(time);
        let newline = memchr(b'\n', bytes);
        let (part, tail) = bytes.split_at(newline.unwrap_or(bytes.len()));
        *bytes = tail.get(1..).unwrap_or_default();
        if newline.is_some() && self.kept.is_empty() && chomp(part).len() <= bytes_max {
            self.time = None;
            return Some(Line { bytes: Cow::Borrowed(chomp(part)), time, is_cut: false });
        }
        // One byte beyond the bound, which may be the CR of the line end.
        let room = (bytes_max + 1).saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&part[..part.len().min(room)]);
        self.is_cut |= part.len() > room;
        newline?;
        self.time = None;
        let mut kept = std::mem::take(&mut self.kept);
        kept.truncate(chomp(&kept).len());
        let is_cut = std::mem::take(&mut self.is_cut) || kept.len() > bytes_max;
        kept.truncate(bytes_max);
        Some(Line { bytes: Cow::Owned(kept), time, is_cut })
    }

    /// Bytes are missing: drops the buffered bytes. The next byte counts as the start of a line.
    pub(crate) fn lose(&mut self) {
        *self = Self::default();
    }

    /// Whether the next byte begins a line.
    pub(crate) fn is_between(&self) -> bool {
        self.time.is_none()
    }
}

fn chomp(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Finds the line that ends a mail or a list: a single dot (RFC 5321 §4.5.2, RFC 1939 §3). Starts at the
/// beginning of a line.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UntilDot(Place);

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    #[default]
    LineStart,
    InLine,
    BehindDot,
    BehindDotCr,
}

impl UntilDot {
    /// Skips bytes up to the end of that line; returns whether it was found.
    pub(crate) fn skip(&mut self, bytes: &mut &[u8]) -> bool {
        loop {
            if self.0 == Place::InLine {
                let Some(newline) = memchr(b'\n', bytes) else {
                    *bytes = &[];
                    return false;
                };
                *bytes = &bytes[newline + 1..];
                self.0 = Place::LineStart;
            }
            let Some((byte, tail)) = bytes.split_first() else { return false };
            *bytes = tail;
            self.0 = match (self.0, byte) {
                (Place::LineStart, b'.') => Place::BehindDot,
                (Place::BehindDot, b'\r') => Place::BehindDotCr,
                (Place::BehindDot | Place::BehindDotCr, b'\n') => {
                    self.0 = Place::LineStart;
                    return true;
                }
                (_, b'\n') => Place::LineStart,
                _ => Place::InLine,
            };
        }
    }

    /// Bytes are missing: the next byte is not the start of a line.
    pub(crate) fn lose(&mut self) {
        self.0 = Place::InLine;
    }
}

/// Splits a line into its first word and the rest, without white space around either.
pub(crate) fn split_word(line: &[u8]) -> (&[u8], &[u8]) {
    let line = line.trim_ascii();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    (&line[..end], line[end..].trim_ascii_start())
}

/// The first `bytes_max` bytes of a line as text; invalid UTF-8 is replaced.
pub(crate) fn text(bytes: &[u8], bytes_max: usize) -> String {
    readable(&bytes[..bytes.len().min(bytes_max)]).into_owned()
}

/// Adds a text to a list unless it is there already, or the list has `list_max` entries.
pub(crate) fn note(list: &mut Vec<String>, text: String, list_max: usize) {
    if list.len() < list_max && !list.contains(&text) {
        list.push(text);
    }
}

/// The user name in a base64 answer of a SASL mechanism without encryption: PLAIN (RFC 4616 §2) sends it
/// between two zero bytes, LOGIN sends it alone.
pub(crate) fn read_plain_user(mechanism: Option<&str>, answer: &[u8]) -> Option<String> {
    let mechanism = mechanism?;
    let decoded = base64::engine::general_purpose::STANDARD.decode(answer).ok()?;
    let name = if mechanism.eq_ignore_ascii_case("PLAIN") {
        decoded.split(|byte| *byte == 0).nth(1)?
    } else if mechanism.eq_ignore_ascii_case("LOGIN") {
        &decoded[..]
    } else {
        return None;
    };
    (!name.is_empty()).then(|| text(name, 256))
}

/// Parser of three-digit replies, as in FTP (RFC 959 §4.2) and SMTP (RFC 5321 §4.2): `220 text`, or several
/// lines from `220-text` to `220 text`. In FTP the lines between may be any text.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    /// The code of the unfinished reply.
    open: Option<u16>,
}

/// A line of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reply<'a> {
    /// The code.
    pub(crate) code: u16,
    /// The text after the code.
    pub(crate) text: &'a [u8],
    /// Whether the line is the last of its reply.
    pub(crate) is_last: bool,
}

impl Replies {
    /// Parses a line; `None` if it belongs to no reply. Within a reply, every line belongs to it.
    pub(crate) fn read<'a>(&mut self, line: &'a [u8]) -> Option<Reply<'a>> {
        let coded = read_code(line);
        match (self.open, coded) {
            (Some(open), Some((code, is_last, text))) if code == open => {
                self.open = (!is_last).then_some(code);
                Some(Reply { code, text, is_last })
            }
            // Some servers end a reply with another code, so any complete reply line ends the unfinished
            // reply.
            (Some(_), Some((code, true, text))) => {
                self.open = None;
                Some(Reply { code, text, is_last: true })
            }
            (Some(code), _) => Some(Reply { code, text: line, is_last: false }),
            (None, Some((code, is_last, text))) => {
                self.open = (!is_last).then_some(code);
                Some(Reply { code, text, is_last })
            }
            (None, None) => None,
        }
    }

    /// Bytes are missing: ends the unfinished reply.
    pub(crate) fn lose(&mut self) {
        self.open = None;
    }
}

/// The code of a line, whether it ends its reply, and its text; `None` without a code.
pub(crate) fn read_code(line: &[u8]) -> Option<(u16, bool, &[u8])> {
    let (code, rest) = line.split_first_chunk::<3>()?;
    if !matches!(code[0], b'1'..=b'6') || !code.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let code = code.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
    match rest {
        [] => Some((code, true, rest)),
        [b' ', text @ ..] => Some((code, true, text)),
        [b'-', text @ ..] => Some((code, false, text)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&str], bytes_max: usize) -> Vec<(String, bool)> {
        let mut lines = Lines::default();
        let mut list = Vec::new();
        for piece in pieces {
            let mut rest = piece.as_bytes();
            while let Some(line) = lines.next(&mut rest, Timestamp(0), bytes_max) {
                list.push((text(&line.bytes, 100), line.is_cut));
            }
        }
        list
    }

    #[test]
    fn lines_are_the_same_in_any_pieces() {
        let expected = [("a b".to_owned(), false), (String::new(), false), ("c".to_owned(), false)];
        assert_eq!(lines(&["a b\r\n\nc\n"], 9), expected);
        assert_eq!(lines(&["a", " b\r", "\n\n", "c", "\n"], 9), expected);
    }

    #[test]
    fn long_lines_are_cut() {
        let expected = [("abc".to_owned(), true), ("abc".to_owned(), false)];
        assert_eq!(lines(&["abcdef\r\nabc\r\n"], 3), expected);
        assert_eq!(lines(&["ab", "cd", "ef\r\nabc", "\r", "\n"], 3), expected);
    }

    #[test]
    fn a_dot_alone_is_the_end() {
        for (bytes, rest) in
            [("a\r\n.\r\nb", Some("b")), (".\nb", Some("b")), ("a.\r\n..\r\n.a\r\n", None), ("a\n.\r", None)]
        {
            let (mut whole, mut left) = (UntilDot::default(), bytes.as_bytes());
            assert_eq!(whole.skip(&mut left).then_some(left), rest.map(str::as_bytes), "{bytes:?}");
            let mut single = UntilDot::default();
            let found = bytes.bytes().position(|byte| single.skip(&mut &[byte][..]));
            assert_eq!(found.map(|at| &bytes[at + 1..]), rest, "{bytes:?}");
        }
    }

    #[test]
    fn replies_have_one_line_or_many() {
        let mut replies = Replies::default();
        let mut read = |line: &'static str| replies.read(line.as_bytes()).map(|r| (r.code, r.is_last));
        assert_eq!(read("220 hello"), Some((220, true)));
        assert_eq!(read("250-a"), Some((250, false)));
        assert_eq!(read(" any text"), Some((250, false)));
        assert_eq!(read("250"), Some((250, true)));
        assert_eq!(read("HELO x"), None);
        assert_eq!(read("2500 x"), None);
    }

    #[test]
    fn words_are_told_from_what_follows() {
        assert_eq!(split_word(b" MAIL  FROM:<a> "), (&b"MAIL"[..], &b"FROM:<a>"[..]));
        assert_eq!(split_word(b"QUIT"), (&b"QUIT"[..], &b""[..]));
    }
}
