//! [`Head`]: start line and header lines of a message, stored as one block with spans into it.
//!
//! A head is copied once and not split further: a header line is two spans of the copy. HTTP/2 builds the same type
//! from its header list, so all code above handles one type.

use memchr::memchr;
use std::borrow::Cow;

/// Maximum bytes kept of a head; the rest is skipped.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of header lines kept per message.
pub const HEAD_LINES_MAX: usize = 512;

/// A range of bytes in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Span {
    start: u32,
    end: u32,
}

/// A header line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    name: Span,
    value: Span,
}

/// The parts of a start line (RFC 9112 §3, §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Request { method: Span, target: Span },
    Response { code: u16, phrase: Span },
}

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

/// The start line and the header lines of a message. At most [`HEAD_BYTES_MAX`] bytes and [`HEAD_LINES_MAX`] lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    block: Box<[u8]>,
    start: Start,
    version: Version,
    lines: Vec<Line>,
    /// Number of header lines that were not kept.
    lines_cut: u32,
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
        if let Some(rest) = line.strip_prefix(b"HTTP/") {
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
}

/// Maximum length of a method: registered ones have up to 17 bytes (RFC 9110 §16.1.1).
pub(super) const METHOD_BYTES_MAX: usize = 32;

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

/// The end of the head that begins at `bytes`: after its empty line (RFC 9112 §2.1). Lines end in CRLF or bare LF.
/// `from` is the end of one of its lines.
pub(super) fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let newline = at + memchr(b'\n', bytes.get(at..)?)?;
        match bytes[newline + 1..] {
            [b'\n', ..] => return Some(newline + 2),
            [b'\r', b'\n', ..] => return Some(newline + 3),
            _ => at = newline + 1,
        }
    }
}

impl Head {
    /// Parses a block of a start line and header lines, up to an empty line or the end of the block; `None` if it does
    /// not begin with a start line.
    pub(crate) fn parse(block: &[u8]) -> Option<Self> {
        let (line, after) = first_line(block, 0)?;
        let parsed = StartLine::parse(&block[line.start as usize..line.end as usize])?;
        let at = |part: &[u8]| Span::of(part, block);
        let (start, version) = match parsed {
            StartLine::Request { method, target, version } => {
                (Start::Request { method: at(method), target: at(target) }, version)
            }
            StartLine::Response { code, phrase, version } => {
                (Start::Response { code, phrase: at(phrase) }, version)
            }
        };
        let mut head = Self { block: block.into(), start, version, lines: Vec::new(), lines_cut: 0 };
        head.read_lines(after);
        Some(head)
    }

    fn read_lines(&mut self, mut at: usize) {
        while let Some((line, after)) = first_line(&self.block, at) {
            let bytes = &self.block[line.start as usize..line.end as usize];
            if bytes.is_empty() {
                return;
            }
            if matches!(bytes[0], b' ' | b'\t') {
                self.fold(line);
            } else if let Some(colon) = memchr(b':', bytes) {
                let colon = line.start + colon as u32;
                let name = trim(&self.block, Span { start: line.start, end: colon });
                let value = trim(&self.block, Span { start: colon + 1, end: line.end });
                self.push(Line { name, value });
            }
            at = after;
        }
    }

    /// Continues the last value (obs-fold, RFC 9112 §5.2): the line end becomes spaces.
    fn fold(&mut self, line: Span) {
        let added = trim(&self.block, line);
        let Some(last) = self.lines.last_mut().filter(|_| self.lines_cut == 0 && added.start < added.end)
        else {
            return;
        };
        if last.value.start == last.value.end {
            last.value = added;
        } else {
            self.block[last.value.end as usize..added.start as usize].fill(b' ');
            last.value.end = added.end;
        }
    }

    fn push(&mut self, line: Line) {
        if self.lines.len() < HEAD_LINES_MAX {
            self.lines.push(line);
        } else {
            self.lines_cut += 1;
        }
    }

    /// Start line and header lines as sent, with the line ends; folded lines are joined. Of HTTP/2, the same as HTTP/1 would be.
    pub fn bytes(&self) -> &[u8] {
        &self.block
    }

    /// Whether the head is a request's.
    pub fn is_request(&self) -> bool {
        matches!(self.start, Start::Request { .. })
    }

    /// The method of a request; empty for a response.
    pub fn method(&self) -> &[u8] {
        match self.start {
            Start::Request { method, .. } => self.read(method),
            Start::Response { .. } => &[],
        }
    }

    /// The request-target as sent (RFC 9112 §3.2); empty for a response.
    pub fn target(&self) -> &[u8] {
        match self.start {
            Start::Request { target, .. } => self.read(target),
            Start::Response { .. } => &[],
        }
    }

    /// The status code of a response; 0 for a request.
    pub fn code(&self) -> u16 {
        match self.start {
            Start::Request { .. } => 0,
            Start::Response { code, .. } => code,
        }
    }

    /// The reason phrase of a response; empty for a request, and in HTTP/2.
    pub fn phrase(&self) -> &[u8] {
        match self.start {
            Start::Request { .. } => &[],
            Start::Response { phrase, .. } => self.read(phrase),
        }
    }

    /// Whether this is the start of the HTTP/2 preface, which looks like a request (RFC 9113 §3.4).
    pub(super) fn is_http2_preface(&self) -> bool {
        (self.method(), self.target(), self.version) == (b"PRI", b"*", Version(2, 0))
    }

    /// The version in the start line.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Number of header lines beyond the bound, which were not kept.
    pub fn lines_cut(&self) -> u32 {
        self.lines_cut
    }

    /// Names and values of the header lines, in order.
    pub fn headers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.lines.iter().map(|line| (self.read(line.name), self.read(line.value)))
    }

    /// The first value of a header; `name` must be in lower case.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.all(name).next()
    }

    /// All values of a header; `name` must be in lower case.
    pub fn all<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        let is_it = move |line: &&Line| {
            // Compare lengths first: most names differ in length.
            let found = self.read(line.name);
            found.len() == name.len() && found.eq_ignore_ascii_case(name.as_bytes())
        };
        self.lines.iter().filter(is_it).map(|line| self.read(line.value))
    }

    /// Whether the comma-separated values of a header contain `token`, ignoring case.
    pub fn has_token(&self, name: &str, token: &str) -> bool {
        let mut tokens = self.all(name).flat_map(|value| value.split(|byte| *byte == b','));
        tokens.any(|found| found.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
    }

    /// Bytes held.
    pub(super) fn held_bytes(&self) -> usize {
        self.block.len() + self.lines.capacity() * size_of::<Line>()
    }

    fn read(&self, span: Span) -> &[u8] {
        &self.block[span.start as usize..span.end as usize]
    }
}

impl Span {
    /// The span of `part`, which is a slice of `whole`.
    fn of(part: &[u8], whole: &[u8]) -> Self {
        let start = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize).min(whole.len());
        let end = (start + part.len()).min(whole.len());
        Self { start: start as u32, end: end as u32 }
    }
}

/// The line at `at` without its line end, and the offset of the next line; `None` at the end of the block.
fn first_line(block: &[u8], at: usize) -> Option<(Span, usize)> {
    let rest = block.get(at..).filter(|rest| !rest.is_empty())?;
    let (line, after) = match memchr(b'\n', rest) {
        Some(newline) => (&rest[..newline], at + newline + 1),
        None => (rest, block.len()),
    };
    let length = line.strip_suffix(b"\r").unwrap_or(line).len();
    Some((Span { start: at as u32, end: (at + length) as u32 }, after))
}

/// The span without surrounding white space.
fn trim(block: &[u8], span: Span) -> Span {
    let bytes = &block[span.start as usize..span.end as usize];
    let start = span.start + (bytes.len() - bytes.trim_ascii_start().len()) as u32;
    Span { start, end: start + bytes.trim_ascii().len() as u32 }
}

/// Builds a head from the header list of HTTP/2.
#[derive(Debug, Default)]
pub(super) struct HeadBuilder {
    block: Vec<u8>,
    lines: Vec<Line>,
    lines_cut: u32,
}

impl HeadBuilder {
    /// Adds a header line unless it exceeds the bounds.
    pub(super) fn push(&mut self, name: &[u8], value: &[u8]) {
        if self.lines.len() >= HEAD_LINES_MAX || self.block.len() + name.len() + value.len() > HEAD_BYTES_MAX
        {
            self.lines_cut += 1;
            return;
        }
        let line = Line { name: self.keep(name), value: self.keep(value) };
        self.lines.push(line);
    }

    /// Builds the head of a request.
    pub(super) fn request(mut self, method: &[u8], target: &[u8], version: Version) -> Head {
        let start = Start::Request { method: self.keep(method), target: self.keep(target) };
        self.build(start, version)
    }

    /// Builds the head of a response.
    pub(super) fn response(self, code: u16, version: Version) -> Head {
        self.build(Start::Response { code, phrase: Span::default() }, version)
    }

    fn build(self, start: Start, version: Version) -> Head {
        Head { block: self.block.into(), start, version, lines: self.lines, lines_cut: self.lines_cut }
    }

    fn keep(&mut self, bytes: &[u8]) -> Span {
        let start = self.block.len() as u32;
        self.block.extend_from_slice(bytes);
        Span { start, end: self.block.len() as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(head: &Head) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        head.headers().map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn a_request_line_has_three_parts() {
        let head = Head::parse(b"GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n").expect("a head");
        assert_eq!(
            (head.method(), head.target(), head.version()),
            (&b"GET"[..], &b"/a?b"[..], Version(1, 1))
        );
        assert!(head.is_request());
        let head = Head::parse(b"GET /with a space HTTP/1.0\n\n").expect("a head");
        assert_eq!((head.target(), head.version().text()), (&b"/with a space"[..], "1.0".into()));
    }

    #[test]
    fn a_status_line_may_lack_its_phrase() {
        let head = Head::parse(b"HTTP/1.1 404 Not Found\r\n\r\n").expect("a head");
        assert_eq!((head.code(), head.phrase()), (404, &b"Not Found"[..]));
        for line in ["HTTP/1.1 204\r\n\r\n", "HTTP/1.1 204 \r\n\r\n"] {
            let head = Head::parse(line.as_bytes()).expect("a head");
            assert_eq!((head.code(), head.phrase()), (204, &b""[..]));
        }
    }

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
    fn names_are_without_case_and_values_without_white_space() {
        let head = Head::parse(b"GET / HTTP/1.1\r\nA : 1 \r\nb:\t2\r\nnone\r\na:3\r\n\r\n").expect("a head");
        assert_eq!(head.header("a"), Some(&b"1"[..]));
        assert_eq!(head.all("a").collect::<Vec<_>>(), [b"1", b"3"]);
        assert_eq!(lines(&head).len(), 3);
    }

    #[test]
    fn folded_lines_are_one_value() {
        let head = Head::parse(b"GET / HTTP/1.1\r\nA: 1\r\n  2\r\n\t3\r\nB: 4\r\n\r\n").expect("a head");
        assert_eq!(head.header("a"), Some(&b"1    2   3"[..]));
        assert_eq!(head.header("b"), Some(&b"4"[..]));
    }

    #[test]
    fn tokens_are_found_in_lists_over_several_lines() {
        let head =
            Head::parse(b"GET / HTTP/1.1\r\nConnection: close, Upgrade\r\nConnection: x\r\n\r\n").unwrap();
        assert!(head.has_token("connection", "upgrade") && head.has_token("connection", "x"));
        assert!(!head.has_token("connection", "up"));
    }

    #[test]
    fn the_end_of_a_head_is_its_empty_line() {
        for (bytes, end) in
            [("a\r\n\r\nb", Some(5)), ("a\n\nb", Some(3)), ("a\r\n\nb", Some(4)), ("a\r\nb\r\n", None)]
        {
            assert_eq!(end_of_head(bytes.as_bytes(), 0), end, "{bytes:?}");
        }
    }

    #[test]
    fn too_many_lines_are_counted() {
        let mut block = b"GET / HTTP/1.1\r\n".to_vec();
        for _ in 0..HEAD_LINES_MAX + 3 {
            block.extend_from_slice(b"a:b\r\n");
        }
        let head = Head::parse(&block).expect("a head");
        assert_eq!((head.headers().count(), head.lines_cut()), (HEAD_LINES_MAX, 3));
    }
}
