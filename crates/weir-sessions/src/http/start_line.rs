//! [`StartLine`]: the first line of a message (RFC 9112 §3, §4).

use memchr::memchr;
use std::borrow::Cow;

/// Version of the protocol: major and minor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u8, pub u8);

impl Version {
    /// The version as shown in rows: `1.1`, `2`.
    pub fn text(self) -> Cow<'static, str> {
        match self {
            Self(1, 1) => Cow::Borrowed("1.1"),
            Self(1, 0) => Cow::Borrowed("1.0"),
            Self(2, 0) => Cow::Borrowed("2"),
            Self(major, minor) => Cow::Owned(format!("{major}.{minor}")),
        }
    }
}

/// A start line; its parts borrow from the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartLine<'a> {
    /// `GET /index.html HTTP/1.1`
    Request { method: &'a [u8], target: &'a [u8], version: Version },
    /// `HTTP/1.1 200 OK`
    Response { code: u16, phrase: &'a [u8], version: Version },
}

impl<'a> StartLine<'a> {
    /// Parses a line without its line end; `None` if it is no start line.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        if let Some(rest) = strip_http(line) {
            let (version, rest) = read_version(rest)?;
            let rest = rest.strip_prefix(b" ")?.trim_ascii_start();
            let (code, phrase) = rest.split_at_checked(3)?;
            let is_code = code[0] != b'0' && code.iter().all(u8::is_ascii_digit);
            if !is_code || !matches!(phrase, [] | [b' ' | b'\t', ..]) {
                return None;
            }
            let code = code.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
            return Some(Self::Response { code, phrase: phrase.trim_ascii(), version });
        }
        let space = memchr(b' ', line)?;
        let (method, rest) = line.split_at(space);
        if method.is_empty() || method.len() > METHOD_BYTES_MAX || !method.iter().all(|byte| is_token(*byte))
        {
            return None;
        }
        let rest = rest.trim_ascii();
        let space = memchr::memrchr(b' ', rest)?;
        let (target, version) = rest.split_at(space);
        let (version, behind) = read_version(version.trim_ascii_start().strip_prefix(b"HTTP/")?)?;
        let target = target.trim_ascii_end();
        (behind.is_empty() && !target.is_empty()).then_some(Self::Request { method, target, version })
    }

    /// Parses a status line that violates the syntax, as browsers and libhtp do: any line that begins with
    /// `HTTP/`. Words are separated by white space and control bytes. What is no version counts as 1.0, and
    /// what is no code as 0.
    pub(super) fn parse_bent(line: &'a [u8]) -> Option<Self> {
        let is_text = |byte: &u8| *byte > b' ' && *byte != 0x7f;
        let next_word = |bytes: &'a [u8]| {
            let start = bytes.iter().position(is_text).unwrap_or(bytes.len());
            let bytes = &bytes[start..];
            bytes.split_at(bytes.iter().position(|byte| !is_text(byte)).unwrap_or(bytes.len()))
        };
        let (version, rest) = next_word(strip_http(line)?);
        let (code, phrase) = next_word(rest);
        let is_code = code.len() == 3 && code.iter().all(u8::is_ascii_digit);
        let code = code.iter().filter(|_| is_code).fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
        let start = phrase.iter().position(is_text).unwrap_or(phrase.len());
        let version = read_version(version).map_or(Version(1, 0), |(version, _)| version);
        Some(Self::Response { code, phrase: phrase[start..].trim_ascii_end(), version })
    }

    /// Splits the first line off a block, without its line end; also returns the offset of the next line. A
    /// CR ends a status line, as for browsers and libhtp.
    pub(super) fn split(block: &[u8]) -> (&[u8], usize) {
        let (line, next) = match memchr(b'\n', block) {
            Some(newline) => (&block[..newline], newline + 1),
            None => (block, block.len()),
        };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match memchr(b'\r', line).filter(|_| strip_http(line).is_some()) {
            Some(cr) if line[cr..].trim_ascii().is_empty() => (&line[..cr], next),
            Some(cr) => (&line[..cr], cr + 1),
            None => (line, next),
        }
    }

    /// Parses a request line that violates the syntax, as servers do: parts separated by tabs, a method in
    /// lower case, no target, another protocol's name, or no version, which is HTTP/0.9 (RFC 1945 §5.1).
    fn parse_bent_request(line: &'a [u8]) -> Option<Self> {
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let (method, rest) = line.split_at(line.iter().position(is_blank).unwrap_or(line.len()));
        if method.is_empty() || method.len() > METHOD_BYTES_MAX || !method.iter().all(|byte| is_token(*byte))
        {
            return None;
        }
        let rest = rest.trim_ascii();
        let mut known = METHODS.iter().chain(SHARED_METHODS);
        let is_known = known.any(|known| known.eq_ignore_ascii_case(method));
        let last = rest.iter().rposition(is_blank).map_or(0, |blank| blank + 1);
        if let Some((version, is_http)) = bent_version(&rest[last..])
            && (is_http || (is_known && last > 0))
        {
            return Some(Self::Request { method, target: rest[..last].trim_ascii_end(), version });
        }
        let is_upper = !method.iter().any(u8::is_ascii_lowercase);
        let is_simple = match rest {
            [] => is_known && is_upper,
            [b'/', ..] => is_known || (is_upper && last == 0),
            _ => is_known,
        };
        is_simple.then_some(Self::Request { method, target: rest, version: Version(0, 9) })
    }

    /// Whether a request has no version, and thus no header lines: HTTP/0.9.
    pub(super) fn is_simple(line: &'a [u8]) -> bool {
        // Nearly every line begins or ends like this.
        let tail = line.trim_ascii_end().last_chunk::<9>();
        if line.starts_with(b"HTTP/") || tail.is_some_and(|tail| tail.starts_with(b" HTTP/1.")) {
            return false;
        }
        let (line, _) = StartLine::split(line);
        let last = line.rsplit(|byte| matches!(byte, b' ' | b'\t')).next().unwrap_or_default();
        let parsed = StartLine::first(line);
        matches!(parsed, Some((Self::Request { version: Version(0, 9), .. }, _)))
            && bent_version(last).is_none()
    }

    /// Parses the first line of a block, which may be bent. Also returns the offset of the next line.
    pub(super) fn first(block: &'a [u8]) -> Option<(Self, usize)> {
        let (line, next) = StartLine::split(block);
        let bent = || Self::parse_bent(line).or_else(|| Self::parse_bent_request(line));
        Some((Self::parse(line).or_else(bent)?, next))
    }
}

/// The version in the last word of a bent request line, and whether its protocol is HTTP: `HTTPS/1.1`,
/// `http/1`.
fn bent_version(word: &[u8]) -> Option<(Version, bool)> {
    let slash = memchr(b'/', word).filter(|slash| (1..=8).contains(slash));
    let (name, digits) = word.split_at(slash.unwrap_or(word.len()));
    let version = read_version(digits.get(1..).unwrap_or_default()).map(|(version, _)| version);
    if name.eq_ignore_ascii_case(b"HTTP") {
        return Some((version.unwrap_or(Version(1, 0)), true));
    }
    let is_name = name.iter().all(u8::is_ascii_alphabetic);
    version.filter(|_| is_name).map(|version| (version, false))
}

/// What follows `HTTP/`, in any case.
fn strip_http(line: &[u8]) -> Option<&[u8]> {
    let (http, rest) = line.split_at_checked(5)?;
    http.eq_ignore_ascii_case(b"HTTP/").then_some(rest)
}

/// Maximum length of a method: registered ones have up to 17 bytes (RFC 9110 §16.1.1).
pub(super) const METHOD_BYTES_MAX: usize = 32;

/// Methods of HTTP, which are enough to recognise a request if a target of HTTP follows.
pub(super) const METHODS: &[&[u8]] = &[
    b"GET",
    b"POST",
    b"HEAD",
    b"PUT",
    b"DELETE",
    b"CONNECT",
    b"PATCH",
    b"TRACE",
    b"PROPFIND",
    b"PROPPATCH",
    b"MKCOL",
    b"REPORT",
    b"MERGE",
    b"CHECKOUT",
    b"MKACTIVITY",
    b"M-SEARCH",
    b"UNLOCK",
];

/// Further methods, which other protocols have as well.
const SHARED_METHODS: &[&[u8]] = &[b"OPTIONS", b"COPY", b"MOVE", b"LOCK", b"SEARCH"];

/// Whether bytes of a client of HTTP begin a request: a known method, and the first byte of a target. `None`
/// if more bytes are needed.
pub(super) fn begins_request(bytes: &[u8]) -> Option<bool> {
    let known = || METHODS.iter().chain(SHARED_METHODS);
    let Some(space) = memchr(b' ', bytes) else {
        return if known().any(|method| method.starts_with(bytes)) { None } else { Some(false) };
    };
    let (method, target) = (&bytes[..space], &bytes[space + 1..]);
    if !known().any(|known| *known == method) {
        return Some(false);
    }
    let first = target.first()?;
    Some(matches!(first, b'/' | b'*' | b'h') || (method == b"CONNECT" && first.is_ascii_graphic()))
}

/// Whether a byte is allowed in a token, such as a method or header name (RFC 9110 §5.6.2).
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Reads `1.1`; returns the version and the rest. Some senders write more than one digit.
fn read_version(bytes: &[u8]) -> Option<(Version, &[u8])> {
    let (major, rest) = read_digits(bytes)?;
    let (minor, rest) = read_digits(rest.strip_prefix(b".")?)?;
    Some((Version(major, minor), rest))
}

fn read_digits(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let length = bytes.iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = bytes.split_at(length);
    Some((std::str::from_utf8(digits).ok()?.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_lines_are_no_start_lines() {
        for line in [
            "GET /",
            "GET  HTTP/1.1",
            "HTTP/1.1 2OO OK",
            "HTTP/1.1 2000",
            "HTTP/1.1",
            "G\u{1}T / HTTP/1.1",
            "x",
            "OPTIONS rtsp://a RTSP/1.0",
            "INVITE sip:a SIP/2.0",
            "",
            "GET / HTTP/1",
            "GET / HTTP/1.",
            "GET / HTTP/1.1000",
            "GET / HTTP/1.1x",
        ] {
            assert_eq!(StartLine::parse(line.as_bytes()), None, "{line}");
        }
    }
    #[test]
    fn bent_status_lines_are_read_as_far_as_possible() {
        for (line, version, code, phrase) in [
            ("http/1.1 200 ok", Version(1, 1), 200, "ok"),
            ("HTTP/1.1", Version(1, 1), 0, ""),
            ("HTTP/1.1foobar", Version(1, 1), 0, ""),
            ("HTTP/1.1\x00200\x00ok", Version(1, 1), 200, "ok"),
            ("HTTP/1.1\x0b200\x0bok", Version(1, 1), 200, "ok"),
            ("HTTP/1\0.1 200 ok", Version(1, 0), 0, "200 ok"),
            ("HTTP/1.1 000 ok", Version(1, 1), 0, "ok"),
            ("HTTP/1.1 20x ok", Version(1, 1), 0, "ok"),
            ("HTTP/1.1 2040 ok", Version(1, 1), 0, "ok"),
            ("HTTP/1.1 65536 ok ", Version(1, 1), 0, "ok"),
            ("HTTP/", Version(1, 0), 0, ""),
        ] {
            let expected = StartLine::Response { code, phrase: phrase.as_bytes(), version };
            assert_eq!(StartLine::parse_bent(line.as_bytes()), Some(expected), "{line:?}");
        }
        for line in ["GET / HTTP/1.1", "HTTP", "HTTPS/1.1 200", ""] {
            assert_eq!(StartLine::parse_bent(line.as_bytes()), None, "{line:?}");
        }
    }

    #[test]
    fn bent_request_lines_are_read_as_servers_do() {
        for (line, method, target, version) in [
            ("GET /", "GET", "/", Version(0, 9)),
            ("GET\t/a\tHTTP/1.1", "GET", "/a", Version(1, 1)),
            ("get / http/1.0", "get", "/", Version(1, 0)),
            ("GET  HTTP/1.1", "GET", "", Version(1, 1)),
            ("GET / HTTP/1", "GET", "/", Version(1, 0)),
            ("GET / HTTP/1.1x", "GET", "/", Version(1, 1)),
            ("GET / HTTP", "GET", "/", Version(1, 0)),
            ("GET / HTTPS/1.1", "GET", "/", Version(1, 1)),
            ("BREW /pot", "BREW", "/pot", Version(0, 9)),
            ("GET /a b", "GET", "/a b", Version(0, 9)),
            ("POST", "POST", "", Version(0, 9)),
        ] {
            let (method, target) = (method.as_bytes(), target.as_bytes());
            let expected = StartLine::Request { method, target, version };
            assert_eq!(StartLine::first(line.as_bytes()), Some((expected, line.len())), "{line:?}");
            assert_eq!(StartLine::is_simple(line.as_bytes()), version == Version(0, 9), "{line:?}");
        }
        for line in ["", "post", "hello /a b", "hello world", "a: b", "INVITE sip:a SIP/2.0", "G\u{1}T /"] {
            assert_eq!(StartLine::first(line.as_bytes()), None, "{line:?}");
        }
        assert!(!StartLine::is_simple(b"GET / HTTP/0.9\r\n"));
    }

    #[test]
    fn a_cr_ends_a_status_line_only() {
        for (block, line, next) in [
            ("HTTP/1.1 200\rA:b\r\n", "HTTP/1.1 200", 13),
            ("HTTP/1.1 200\r\r\nA:b", "HTTP/1.1 200", 15),
            ("HTTP/1.1 200", "HTTP/1.1 200", 12),
            ("GET /\rA:b HTTP/1.1\r\nx", "GET /\rA:b HTTP/1.1", 20),
        ] {
            assert_eq!(StartLine::split(block.as_bytes()), (line.as_bytes(), next), "{block:?}");
        }
    }
}
