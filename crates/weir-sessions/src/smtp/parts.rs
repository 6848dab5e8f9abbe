//! The parts of a mail (MIME: RFC 2045, RFC 2046): their boundaries, names and sizes.
//!
//! ```text
//! mail    = header parts            header = fields, then an empty line
//! parts   = content                 a file, unless it is a multipart
//! | preamble (--boundary header parts)* --boundary-- epilogue
//! ```
//!
//! Contents are decoded (base64, quoted-printable) to count them and to detect the media type from their
//! first bytes; no more is kept. If the run asks for contents ([`Contents`]), they are passed on. The line
//! end before a boundary belongs to the boundary.

use crate::files::{hex_byte, name_in_header, parameter};
use crate::http::sniff;
use crate::pe::{PeHead, Start};
use crate::{Content, Contents};
use memchr::memchr;
use weir_packet::Timestamp;

/// Maximum number of files of a mail.
pub const FILES_MAX: usize = 64;
/// Deepest nesting of multiparts.
const NESTED_MAX: usize = 8;
/// Longest boundary kept, bytes (RFC 2046 §5.1.1 allows 70).
const BOUNDARY_BYTES_MAX: usize = 128;
/// Maximum number of bytes of a line that are kept to recognise a boundary or a header field; longer lines
/// are content.
const LINE_BYTES_MAX: usize = 1024;
/// Maximum number of bytes kept of a field in a part's header.
const FIELD_BYTES_MAX: usize = 4096;
/// Bytes of a file used to detect its media type.
const START_BYTES_MAX: usize = 512;

/// A part of a mail that is not a multipart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MailFile {
    /// Number of the part in the mail, from 1, multiparts included.
    pub part: u64,
    /// File name.
    pub name: Option<String>,
    /// Media type, detected from the first bytes.
    pub media_type: Option<&'static str>,
    /// Capture times of its first and last bytes.
    pub times: Option<(Timestamp, Timestamp)>,
    /// Decoded bytes seen.
    pub seen_bytes: u64,
    /// Encoded bytes missing from the capture.
    pub missing_bytes: u64,
    /// The decoded content, if somebody asks for contents.
    pub content: Option<Content>,
    /// The head of the content, if it is an executable of Windows.
    pub executable: Option<Box<PeHead>>,
}

/// Transfer encoding of a content (RFC 2045 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Coding {
    #[default]
    Plain,
    Base64,
    QuotedPrintable,
}

/// Contents of a part's header.
#[derive(Debug, Default)]
struct Head {
    boundary: Option<Vec<u8>>,
    is_message: bool,
    name: Option<String>,
    coding: Coding,
}

/// The part of the mail that the next line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    #[default]
    Header,
    Content,
    /// Text before, between and after parts.
    Nothing,
}

/// Parses the parts of one mail. The mail's own header is parsed by the caller.
#[derive(Debug)]
pub(super) struct Parts {
    /// Boundaries of the open multiparts, outermost first.
    boundaries: Vec<Vec<u8>>,
    place: Place,
    head: Head,
    /// The current field of a part's header, which the next line may continue.
    field: Vec<u8>,
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    /// Capture time of the last bytes.
    time: Timestamp,
    /// Whether the beginning of the line has already been processed.
    is_mid_line: bool,
    open: Option<Open>,
    files: Vec<MailFile>,
    /// Number of parts so far.
    count: u64,
    /// Number of parts, fields and heads of executables that were not kept.
    pub(super) cut: u64,
    contents: Contents,
}

/// The file being read.
#[derive(Debug, Default)]
struct Open {
    file: MailFile,
    coding: Coding,
    start: Vec<u8>,
    executable: Start,
    /// Line ends that may belong to a boundary.
    newlines: u64,
    /// Base64 bits that do not yet fill a byte.
    bits: u32,
    bits_count: u32,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            boundaries: Vec::new(),
            place: Place::Header,
            head: Head::default(),
            field: Vec::new(),
            line: Vec::new(),
            time: Timestamp(0),
            is_mid_line: false,
            open: None,
            files: Vec::new(),
            count: 1,
            cut: 0,
            contents: Contents::default(),
        }
    }
}

impl Parts {
    /// The parts of a mail, whose contents are passed on.
    pub(super) fn new(contents: &Contents) -> Self {
        Self { contents: contents.clone(), ..Self::default() }
    }

    /// Takes a header field of the current part.
    pub(super) fn take_field(&mut self, name: &[u8], value: &[u8]) {
        let head = &mut self.head;
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
        if is("content-type") {
            let kind = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            let begins = |with: &[u8]| kind.get(..with.len()).is_some_and(|k| k.eq_ignore_ascii_case(with));
            head.boundary = parameter(value, "boundary").filter(|boundary| {
                begins(b"multipart/") && (1..=BOUNDARY_BYTES_MAX).contains(&boundary.len())
            });
            head.is_message = kind.eq_ignore_ascii_case(b"message/rfc822");
            head.name = head.name.take().or_else(|| name_in_header(value, "name"));
        } else if is("content-disposition") {
            head.name = name_in_header(value, "filename").or(head.name.take());
        } else if is("content-transfer-encoding") {
            head.coding = match value.trim_ascii() {
                value if value.eq_ignore_ascii_case(b"base64") => Coding::Base64,
                value if value.eq_ignore_ascii_case(b"quoted-printable") => Coding::QuotedPrintable,
                _ => Coding::Plain,
            };
        }
    }

    /// Ends the header of the current part.
    pub(super) fn end_header(&mut self) {
        self.end_field();
        let head = std::mem::take(&mut self.head);
        match head.boundary {
            Some(boundary) if self.boundaries.len() < NESTED_MAX => {
                self.boundaries.push(boundary);
                self.place = Place::Nothing;
            }
            None if head.is_message => self.begin_part(),
            boundary => {
                self.cut += u64::from(boundary.is_some());
                self.head = head_of_content(head.name, head.coding);
                self.place = Place::Content;
            }
        }
    }

    /// Takes bytes after the mail's header. `is_stuffed`: lines that begin with a dot have an additional dot
    /// (RFC 5321 §4.5.2).
    pub(super) fn take(&mut self, mut bytes: &[u8], time: Timestamp, is_stuffed: bool) {
        self.time = time;
        while !bytes.is_empty() {
            let room = LINE_BYTES_MAX - self.line.len();
            let newline = memchr(b'\n', &bytes[..bytes.len().min(room)]);
            let (part, tail) = bytes.split_at(newline.map_or(bytes.len().min(room), |at| at + 1));
            bytes = tail;
            if newline.is_some() && self.line.is_empty() {
                self.take_line(part, time, is_stuffed);
                continue;
            }
            self.line.extend_from_slice(part);
            if newline.is_none() && self.line.len() < LINE_BYTES_MAX {
                continue;
            }
            let mut line = std::mem::take(&mut self.line);
            // This byte may belong to the line end.
            let has_return = newline.is_none() && line.pop_if(|byte| *byte == b'\r').is_some();
            self.take_line(&line, time, is_stuffed);
            line.clear();
            line.extend(has_return.then_some(b'\r'));
            self.line = line;
        }
    }

    /// Handles a loss.
    pub(super) fn lose(&mut self, length_bytes: u64) {
        self.take_rest();
        self.is_mid_line = true;
        if self.place == Place::Content {
            self.open().lose(length_bytes);
        }
    }

    /// Ends the mail. Returns its files, and the number of its parts.
    /// `is_whole`: the end of the mail was seen.
    pub(super) fn finish(&mut self, is_whole: bool) -> (Vec<MailFile>, u64) {
        self.take_rest();
        self.close(is_whole);
        (std::mem::take(&mut self.files), self.count)
    }

    /// Processes an incomplete line.
    fn take_rest(&mut self) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, self.time, false);
        }
    }
}

// Lines.
impl Parts {
    /// Takes a line with its end, or a piece of a long line.
    fn take_line(&mut self, line: &[u8], time: Timestamp, is_stuffed: bool) {
        let is_ended = line.ends_with(b"\n");
        let is_start = !std::mem::replace(&mut self.is_mid_line, !is_ended);
        let mut line = if is_ended { chomp(line) } else { line };
        if is_start && is_stuffed && line.first() == Some(&b'.') {
            line = &line[1..];
            if line.is_empty() {
                // The end of the mail.
                return;
            }
        }
        if is_start && self.take_boundary(line) {
            return;
        }
        match self.place {
            Place::Header => self.take_header_line(line, is_start),
            Place::Content => self.open().take_line(line, is_ended, time),
            Place::Nothing => {}
        }
    }

    fn take_header_line(&mut self, line: &[u8], is_start: bool) {
        if line.is_empty() && is_start {
            return self.end_header();
        }
        let goes_on = !is_start || matches!(line, [b' ' | b'\t', ..]);
        if !goes_on {
            self.end_field();
        }
        let room = FIELD_BYTES_MAX - self.field.len();
        self.cut += u64::from(line.len() > room);
        self.field.extend_from_slice(&line[..line.len().min(room)]);
    }

    fn end_field(&mut self) {
        let field = std::mem::take(&mut self.field);
        if let Some(colon) = memchr(b':', &field) {
            self.take_field(field[..colon].trim_ascii(), &field[colon + 1..]);
        }
    }

    /// Whether the line is a boundary of an open multipart. A boundary also ends the multiparts nested in it.
    fn take_boundary(&mut self, line: &[u8]) -> bool {
        let Some(rest) = line.strip_prefix(b"--") else { return false };
        let behind = |boundary: &Vec<u8>| {
            let rest = rest.strip_prefix(&boundary[..])?.trim_ascii_end();
            (rest.is_empty() || rest == b"--").then_some(!rest.is_empty())
        };
        let found = self.boundaries.iter().enumerate().rev().find_map(|(at, b)| Some((at, behind(b)?)));
        let Some((at, is_last)) = found else { return false };
        if self.place == Place::Header {
            self.end_header();
        }
        self.close(true);
        self.boundaries.truncate(if is_last { at } else { at + 1 });
        self.place = Place::Nothing;
        if !is_last {
            self.begin_part();
        }
        true
    }

    fn begin_part(&mut self) {
        self.count += 1;
        self.head = Head::default();
        self.place = Place::Header;
    }

    fn open(&mut self) -> &mut Open {
        let (head, part, contents) = (&mut self.head, self.count, &self.contents);
        let is_kept = self.files.len() < FILES_MAX;
        self.open.get_or_insert_with(|| Open {
            file: MailFile {
                part,
                name: head.name.take(),
                content: contents.begin(None).filter(|_| is_kept),
                ..MailFile::default()
            },
            coding: head.coding,
            ..Open::default()
        })
    }

    /// Ends the current file; `is_whole`: its end was seen.
    fn close(&mut self, is_whole: bool) {
        let Some((file, heads_cut)) = self.open.take().and_then(|open| open.finish(is_whole)) else { return };
        self.cut += heads_cut;
        if self.files.len() < FILES_MAX {
            self.files.push(file);
        } else {
            self.cut += 1;
        }
    }
}

fn head_of_content(name: Option<String>, coding: Coding) -> Head {
    Head { name, coding, ..Head::default() }
}

fn chomp(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

impl Open {
    fn take_line(&mut self, line: &[u8], is_ended: bool, time: Timestamp) {
        match self.coding {
            Coding::Plain => {
                self.write(line, time);
                self.newlines += u64::from(is_ended);
            }
            Coding::Base64 => self.take_base64(line, time),
            Coding::QuotedPrintable => {
                let line = if is_ended { line.trim_ascii_end() } else { line };
                let soft = line.strip_suffix(b"=").filter(|_| is_ended);
                self.write(&unquote(soft.unwrap_or(line)), time);
                self.newlines += u64::from(is_ended && soft.is_none());
            }
        }
    }

    fn take_base64(&mut self, line: &[u8], time: Timestamp) {
        let mut decoded = Vec::with_capacity(line.len() / 4 * 3 + 3);
        for letter in line {
            let value = match letter {
                b'A'..=b'Z' => letter - b'A',
                b'a'..=b'z' => letter - b'a' + 26,
                b'0'..=b'9' => letter - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                // After padding, the next letters are another base64 text.
                b'=' => {
                    (self.bits, self.bits_count) = (0, 0);
                    continue;
                }
                _ => continue,
            };
            self.bits = self.bits << 6 | u32::from(value);
            self.bits_count += 6;
            if self.bits_count >= 8 {
                self.bits_count -= 8;
                decoded.push((self.bits >> self.bits_count) as u8);
            }
        }
        self.write(&decoded, time);
    }

    /// Takes bytes of the content. The line ends before these bytes are part of the content as well.
    fn write(&mut self, bytes: &[u8], time: Timestamp) {
        if bytes.is_empty() {
            return;
        }
        let newlines = std::mem::take(&mut self.newlines);
        self.keep_newlines(newlines);
        self.keep(bytes);
        let first = self.file.times.map_or(time, |(first, _)| first);
        self.file.times = Some((first, time));
    }

    fn keep_newlines(&mut self, count: u64) {
        for _ in 0..count {
            self.keep(b"\r\n");
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.executable.take(self.file.seen_bytes.saturating_add(self.file.missing_bytes), bytes);
        self.file.seen_bytes += bytes.len() as u64;
        if let Some(content) = &self.file.content {
            content.write(bytes);
        }
        let room = START_BYTES_MAX - self.start.len();
        self.start.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Takes note of missing bytes, as sent.
    fn lose(&mut self, length_bytes: u64) {
        self.file.missing_bytes = self.file.missing_bytes.saturating_add(length_bytes);
        self.executable.lose();
        if let Some(content) = &self.file.content {
            // About as many bytes are missing in the decoded content.
            content.lose(if self.coding == Coding::Base64 { length_bytes / 4 * 3 } else { length_bytes });
        }
    }

    /// The file, and the number of heads of executables that the bound cut. `None` if it has no bytes.
    /// `is_whole`: its end was seen.
    fn finish(mut self, is_whole: bool) -> Option<(MailFile, u64)> {
        if self.file.seen_bytes > 0 {
            // The last line end belongs to the boundary, or to the end of the mail.
            self.keep_newlines(self.newlines.saturating_sub(1));
        }
        if let Some(content) = &self.file.content {
            content.end(is_whole && self.file.missing_bytes == 0);
        }
        let heads_cut = self.executable.end();
        let (media_type, executable) = (sniff(&self.start, None), self.executable.head());
        let file = MailFile { media_type, executable, ..self.file };
        (file.seen_bytes + file.missing_bytes > 0).then_some((file, heads_cut))
    }
}

/// Decodes a line of quoted-printable (RFC 2045 §6.7), without its line end.
fn unquote(line: &[u8]) -> Vec<u8> {
    let (mut plain, mut rest) = (Vec::with_capacity(line.len()), line);
    while let Some((first, behind)) = rest.split_first() {
        let byte = if *first == b'=' { hex_byte(behind) } else { None };
        plain.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &behind[2..] } else { behind };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses the parts of a mail body with this Content-Type, in pieces of `piece_bytes` bytes.
    fn parts(kind: &str, body: &str, piece_bytes: usize) -> (Vec<MailFile>, u64, u64) {
        let mut parts = Parts::default();
        parts.take_field(b"Content-Type", kind.as_bytes());
        parts.end_header();
        let body = body.replace('\n', "\r\n");
        for piece in body.as_bytes().chunks(piece_bytes) {
            parts.take(piece, Timestamp(7), true);
        }
        let (files, count) = parts.finish(true);
        (files, count, parts.cut)
    }

    /// Number, name, type and bytes of each file.
    fn told(kind: &str, body: &str) -> Vec<String> {
        let whole = parts(kind, body, 1 << 20);
        for piece_bytes in [1, 2, 7, 100] {
            assert_eq!(parts(kind, body, piece_bytes), whole, "in pieces of {piece_bytes}");
        }
        let tell = |file: &MailFile| {
            let (name, kind) = (file.name.as_deref().unwrap_or("-"), file.media_type.unwrap_or("-"));
            format!("{} {name} {kind} {}", file.part, file.seen_bytes)
        };
        whole.0.iter().map(tell).collect()
    }

    #[test]
    fn a_mail_without_parts_is_one_file() {
        assert_eq!(told("text/plain", "one\n..two\n\n.\n"), ["1 - text/plain 11"], "dots are undone");
        assert_eq!(told("text/plain; name=a.txt", "one\n.\n"), ["1 a.txt text/plain 3"]);
        assert_eq!(told("text/plain", ".\n"), [""; 0]);
        assert_eq!(told("multipart/mixed", "--x\n\nno boundary is known\n.\n").len(), 1);
    }

    #[test]
    fn parts_are_files_by_their_numbers_and_those_within_others_too() {
        let body = "preamble\n--out\nContent-Type: multipart/alternative;\n boundary=\"in ner\"\n\n\
                    --in ner\n\nplain\n--in ner\nContent-Type: text/html\n\n<html>\n--in ner--\n\
                    nothing\n--out\nContent-Disposition: attachment;\n\tfilename=\"a b.png\"\n\
                    Content-Transfer-Encoding: base64\n\niVBORw0K\nGgo=\n--out--\nepilogue\n.\n";
        let told = told("multipart/mixed; boundary=out", body);
        assert_eq!(told, ["3 - text/plain 5", "4 - text/html 6", "5 a b.png image/png 8"]);
    }

    #[test]
    fn contents_are_counted_as_they_are_decoded() {
        let part = |coding: &str, lines: &str| {
            let head = format!("--b\nContent-Transfer-Encoding: {coding}\n\n");
            told("multipart/mixed; boundary=b", &format!("{head}{lines}\n--b--\n.\n"))
        };
        assert_eq!(part("quoted-printable", "a=3D=\nb =20\nc"), ["2 - text/plain 8"], "a=b  , CRLF, c");
        assert_eq!(part("BASE64", "YQ==\nYWJj"), ["2 - text/plain 4"]);
        assert_eq!(part("8bit", "\n\n"), [""; 0], "nothing but line ends");
        // Longer than the part of a line that is kept, with the text of a boundary inside.
        let long = format!("{}--b", "x".repeat(3 * LINE_BYTES_MAX));
        assert_eq!(part("8bit", &long), [format!("2 - text/plain {}", long.len())]);
    }

    #[test]
    fn a_mail_within_a_mail_has_parts_of_its_own() {
        let body = "--b\nContent-Type: message/rfc822\n\nSubject: x\nContent-Type: text/plain; name=in.txt\n\nhi\n--b--\n.\n";
        assert_eq!(told("multipart/mixed; boundary=b", body), ["3 in.txt text/plain 2"]);
    }

    #[test]
    fn bounds_are_counted() {
        let many = "--b\n\nx\n".repeat(FILES_MAX + 2) + ".\n";
        let (files, count, cut) = parts("multipart/mixed; boundary=b", &many, 1000);
        assert_eq!((files.len(), count, cut), (FILES_MAX, FILES_MAX as u64 + 3, 2));
        let nested = "--b\nContent-Type: multipart/mixed; boundary=b\n\n".repeat(NESTED_MAX + 1) + ".\n";
        let (_, _, cut) = parts("multipart/mixed; boundary=b", &nested, 1000);
        assert_eq!(cut, 2, "the mail's own boundary is one of them");
        let mut parts = Parts::default();
        parts.end_header();
        parts.take(b"abc", Timestamp(1), true);
        parts.lose(10);
        parts.take(b"def\r\n.\r\n", Timestamp(3), true);
        let (files, _) = parts.finish(true);
        assert_eq!((files[0].seen_bytes, files[0].missing_bytes), (6, 10), "what came of the line counts");
    }
}
