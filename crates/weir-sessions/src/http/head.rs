//! [`Head`]: start line and header lines of a message, stored as one block with spans into it.
//!
//! A head is copied once and not split further: a header line is two spans of the copy. HTTP/2 builds the
//! same type from its header list, so all code above handles one type.

use super::line_ends::line_at;
use super::start_line::{StartLine, Version, is_token};
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

/// The start line and the header lines of a message. At most [`HEAD_BYTES_MAX`] bytes and [`HEAD_LINES_MAX`]
/// lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    block: Box<[u8]>,
    start: Start,
    version: Version,
    lines: Vec<Line>,
    /// Number of header lines that were not kept.
    lines_cut: u32,
    /// There are zero bytes, perhaps in names.
    has_zeros: bool,
}

impl Head {
    /// Parses a block of a start line and header lines, up to an empty line or the end of the block; `None`
    /// if it does not begin with a start line.
    pub(crate) fn parse(block: &[u8]) -> Option<Self> {
        let (parsed, after) = StartLine::first(block)?;
        let at = |part: &[u8]| Span::of(part, block);
        let (start, version) = match parsed {
            StartLine::Request { method, target, version } => {
                (Start::Request { method: at(method), target: at(target) }, version)
            }
            StartLine::Response { code, phrase, version } => {
                (Start::Response { code, phrase: at(phrase) }, version)
            }
        };
        let has_zeros = memchr(0, block).is_some();
        let mut head =
            Self { block: block.into(), start, version, lines: Vec::new(), lines_cut: 0, has_zeros };
        head.read_lines(after);
        Some(head)
    }

    fn read_lines(&mut self, mut at: usize) {
        // The start of the last line, if the line is a name without a colon. The colon may follow in a folded
        // line.
        let mut name_start = None;
        while let Some(line) = line_at(&self.block, at) {
            if line.is_last {
                return;
            }
            at = line.next;
            let bytes = &self.block[line.start..line.end];
            let colon = memchr(b':', bytes).map(|colon| line.start + colon);
            let is_folded = matches!(bytes.first(), Some(b' ' | b'\t'));
            let is_name = |bytes: &[u8]| !bytes.is_empty() && bytes.iter().all(|byte| is_token(*byte));
            match colon {
                Some(colon) if !is_folded || name_start.is_some() || decides_over_body(bytes) => {
                    let start = if is_folded { name_start.unwrap_or(line.start) } else { line.start };
                    let name = trim_name(&self.block, start, colon);
                    let value = trim(&self.block, Span::between(colon + 1, line.end));
                    self.push(Line { name, value });
                    name_start = None;
                }
                None if is_folded && name_start.is_some() => {}
                _ if is_folded => self.fold(Span::between(line.start, line.end)),
                _ => name_start = is_name(bytes.trim_ascii()).then_some(line.start),
            }
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

    /// Start line and header lines as sent, with the line ends; folded lines are joined. Of HTTP/2, the same
    /// as HTTP/1 would be.
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

    /// All values of a header; `name` must be in lower case. Zero bytes in names are ignored, as by browsers
    /// and libhtp.
    pub fn all<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        let is_it = move |line: &&Line| {
            // Compare lengths first: most names differ in length.
            let found = self.read(line.name);
            match found.len() == name.len() {
                true => found.eq_ignore_ascii_case(name.as_bytes()),
                false => self.has_zeros && found.len() > name.len() && is_but_for_zeros(found, name),
            }
        };
        self.lines.iter().filter(is_it).map(|line| self.read(line.value))
    }

    /// All values of a header as one list; `None` without the header. `name` must be in lower case.
    pub(super) fn list(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let mut values = self.all(name);
        let first = values.next()?;
        Some(values.fold(Cow::Borrowed(first), |list, value| Cow::Owned([&*list, b", ", value].concat())))
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
    fn between(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// The span of `part`, which is a slice of `whole`.
    fn of(part: &[u8], whole: &[u8]) -> Self {
        let start = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize).min(whole.len());
        let end = (start + part.len()).min(whole.len());
        Self { start: start as u32, end: end as u32 }
    }
}

/// The span without surrounding white space.
fn trim(block: &[u8], span: Span) -> Span {
    let bytes = &block[span.start as usize..span.end as usize];
    let start = span.start + (bytes.len() - bytes.trim_ascii_start().len()) as u32;
    Span { start, end: start + bytes.trim_ascii().len() as u32 }
}

/// The span of a name, without surrounding white space and control bytes: browsers and libhtp ignore those.
fn trim_name(block: &[u8], start: usize, end: usize) -> Span {
    let is_text = |byte: &u8| *byte > b' ' && *byte != 0x7f;
    let name = &block[start..end];
    let first = name.iter().position(is_text).unwrap_or(0);
    let after = name.iter().rposition(is_text).map_or(0, |last| last + 1);
    Span::between(start + first, start + after.max(first))
}

/// Whether two names are equal apart from zero bytes in the first, and from case.
fn is_but_for_zeros(found: &[u8], name: &str) -> bool {
    let found = found.iter().filter(|byte| **byte != 0);
    found.map(u8::to_ascii_lowercase).eq(name.bytes())
}

/// Whether a folded line is a header of its own: browsers and libhtp find the length and the coding of a body
/// in it. No value goes on so by chance.
fn decides_over_body(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    let names = ["content-length", "content-encoding", "transfer-encoding"];
    names.iter().any(|name| {
        let (found, rest) = line.split_at_checked(name.len()).unwrap_or_default();
        found.eq_ignore_ascii_case(name.as_bytes()) && rest.trim_ascii_start().first() == Some(&b':')
    })
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
        let Self { block, lines, lines_cut } = self;
        Head { block: block.into(), start, version, lines, lines_cut, has_zeros: false }
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
    fn too_many_lines_are_counted() {
        let mut block = b"GET / HTTP/1.1\r\n".to_vec();
        for _ in 0..HEAD_LINES_MAX + 3 {
            block.extend_from_slice(b"a:b\r\n");
        }
        let head = Head::parse(&block).expect("a head");
        assert_eq!((head.headers().count(), head.lines_cut()), (HEAD_LINES_MAX, 3));
    }
    #[test]
    fn names_are_read_as_browsers_do() {
        for (lines, expected) in [
            ("Content-Encoding \x0b: gzip", "gzip"),
            ("Content-Encoding\x00: gzip", "gzip"),
            ("Content\x00-encoding: gzip", "gzip"),
            ("Content-Encoding\r\n : gzip", "gzip"),
            ("Content-Encoding\n \n :\r\n gzip", "gzip"),
            ("A: b\rContent-Encoding: gzip", "gzip"),
            ("A: b\r\n Content-Encoding: gzip", "gzip"),
            ("Content-Encoding: a\r\nContent-Encoding: b", "a, b"),
            ("A: b\r\r\nContent-Encoding: gzip", "gzip"),
            ("Content-Encoding:: gzip", ": gzip"),
        ] {
            let head = Head::parse(format!("HTTP/1.1 200 ok\r\n{lines}\r\n\r\n").as_bytes()).expect("a head");
            let found = head.list("content-encoding");
            assert_eq!(found.as_deref(), Some(expected.as_bytes()), "{lines:?}");
        }
    }

    #[test]
    fn a_folded_line_with_a_colon_goes_on_with_a_value() {
        let head =
            Head::parse(b"HTTP/1.1 200\r\nVia: a\r\n b:80\r\nnone\r\n x\r\n: y\r\n\r\n").expect("a head");
        assert_eq!(head.header("via"), Some(&b"a   b:80"[..]));
        assert_eq!(lines(&head).len(), 2);
    }
}
