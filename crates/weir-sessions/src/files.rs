//! Files carried by sessions, with the columns of Zeek's `files.log`. A session's parser provides sizes and
//! the first bytes, and the head of an executable; no more of a file is kept. If the caller of the run asks
//! for contents, a file also refers to its [`Content`], with its digest.
//!
//! Certificates are not files here, as in Zeek's log: see [`x509`](crate::x509).

use crate::joins::Sum;
use crate::pe::PeHead;
use crate::session::session_fields;
use crate::values::{readable, text, unsigned};
use crate::{Content, ContentFacts, Session};
use std::any::Any;
use weir_packet::{Timestamp, Value};

/// A file whose number has this bit is the same in all connections between two hosts. Others have numbers
/// without the bit.
pub const SHARED_NUMBER: u64 = 1 << 63;

/// How rows of ranges become one row of the download.
pub(crate) const SUM: Sum = Sum {
    log: "files",
    by: "fuid",
    parts: "ranges",
    whole: "total_bytes",
    added: &["seen_bytes", "missing_bytes", "ranges"],
};

/// One file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct File {
    /// Number of the file among those of its protocol in the connection; the session refers to it by this
    /// number.
    pub number: u64,
    /// Zeek's name of the protocol that carried it: `HTTP`.
    pub source: &'static str,
    /// Nesting depth in the message that carried it; 0: the message itself.
    pub depth: u64,
    /// Media type, detected in the first bytes.
    pub media_type: Option<&'static str>,
    /// File name given by the sender.
    pub name: Option<String>,
    /// Time of the first bytes; none if all are missing.
    pub time: Option<Timestamp>,
    /// Time from the first to the last bytes, nanoseconds.
    pub duration_ns: Option<u64>,
    /// Whether the originator of the connection sent it.
    pub is_from_originator: bool,
    /// Number of bytes received, in the encoding in which they were sent.
    pub seen_bytes: u64,
    /// Total length, as announced by the sender.
    pub total_bytes: Option<u64>,
    /// Number of bytes missing in the capture.
    pub missing_bytes: u64,
    /// Number of responses with ranges of the file; none if it is whole (RFC 9110 section 14).
    pub ranges: Option<u64>,
    /// Another name for the content if the sender gave none: the end of a URI's path.
    pub other_name: Option<String>,
    /// The content, if the caller of the run asks for contents.
    pub content: Option<Content>,
    /// The head of the file, if it is an executable of Windows.
    pub executable: Option<Box<PeHead>>,
}

impl File {
    /// The content as it was passed on; `None` if nobody asks for contents.
    pub fn facts(&self) -> Option<ContentFacts> {
        self.content.as_ref().map(Content::facts)
    }
}

session_fields! { File;
    "files.source" [] source: Text, "Protocol that carried the file, with Zeek's name: HTTP" => |f| text(Some(f.source));
    "files.depth" [] depth: Unsigned, "Depth within the carrying message, 0 for its content; for mails, as in Zeek, the number of the part in the connection" => |f| Value::Unsigned(f.depth);
    "files.analyzers" [] analyzers: Texts, "Analyzers of the content; always empty" => |_| Value::Texts((&[][..]).into());
    "files.mime_type" [] mime_type: Text, "Media type, detected from the first bytes" => |f| text(f.media_type);
    "files.filename" [] filename: Text, "Name given by the sender" => |f| text(f.name.as_deref());
    "files.duration" [] duration: Interval, "Time from the first bytes to the last" => |f| f.duration_ns.map_or(Value::Absent, Value::Interval);
    "files.local_orig" [] local_orig: Bool, "Whether the sender is in a private network; in rows only" => |_| Value::Absent;
    "files.is_orig" [] is_orig: Bool, "Whether the originator of the connection sent it" => |f| Value::Bool(f.is_from_originator);
    "files.seen_bytes" [] seen_bytes: Unsigned, "Captured bytes: for HTTP as sent, possibly compressed; for mails decoded" => |f| Value::Unsigned(f.seen_bytes);
    "files.total_bytes" [] total_bytes: Unsigned, "Size stated by the sender, bytes" => |f| unsigned(f.total_bytes);
    "files.missing_bytes" [] missing_bytes: Unsigned, "Bytes missing in the capture" => |f| Value::Unsigned(f.missing_bytes);
    "files.overflow_bytes" [] overflow_bytes: Unsigned, "Bytes discarded during reassembly; always 0" => |_| Value::Unsigned(0);
    "files.timedout" [] timedout: Bool, "Whether the file ended by a timeout; never, because a file ends with its session" => |_| Value::Bool(false);
    "files.parent_fuid" [] parent_fuid: Unsigned, "The file that contains this one; always empty" => |_| Value::Absent;
    "files.md5" [] md5: Text, "MD5; not computed" => |_| Value::Absent;
    "files.sha1" [] sha1: Text, "SHA-1; not computed" => |_| Value::Absent;
    "files.sha256" [] sha256: Text, "SHA-256 of the content, decoded; with --extract, if the content is complete" => |f| sha256(f);
    "files.extracted" [] extracted: Text, "Path of the file with the content; with --extract, in rows only" => |_| Value::Absent;
    "files.extracted_cutoff" [] extracted_cutoff: Bool, "Whether the extracted content is incomplete; with --extract" => |f| f.facts().map_or(Value::Absent, |facts| Value::Bool(facts.is_cut));
    "files.extracted_size" [] extracted_size: Unsigned, "Size of the extracted content, bytes; with --extract" => |f| unsigned(f.facts().map(|facts| facts.size_bytes));
    "files.ranges" [] ranges: Unsigned, "Number of responses with ranges of the file (HTTP status 206): their sizes are added" => |f| unsigned(f.ranges);
    "files.number" [] fuid: Unsigned, "Number of the file in its connection; in rows an identifier, to which the session's row refers" => |f| Value::Unsigned(f.number);
}

fn sha256(file: &File) -> Value<'static> {
    let digest = file.facts().and_then(|facts| facts.sha256);
    digest.map_or(Value::Absent, |digest| {
        Value::Text(digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into())
    })
}

impl Session for File {
    fn value(&self, index: usize) -> Value<'_> {
        value(self, index)
    }

    fn time(&self) -> Option<Timestamp> {
        self.time
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The file name in a Content-Disposition header (RFC 6266 §4.1), or in another parameter of a header. The
/// extended form takes precedence over the plain one; directories before the name are removed.
pub(crate) fn name_in_header(value: &[u8], parameter: &str) -> Option<String> {
    let all = parameters(value);
    let found =
        |name: &str| all.iter().find(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes())).map(|(_, v)| v);
    // charset'language'text (RFC 8187 §3.2.1).
    let text_of = |value: &[u8]| unescape(value.splitn(3, |byte| *byte == b'\'').nth(2).unwrap_or(value));
    let name = match (found(&format!("{parameter}*")), found(parameter)) {
        (Some(extended), _) => text_of(extended),
        (None, Some(plain)) => plain.clone(),
        // In numbered pieces, each of which may be extended (RFC 2231 §3).
        (None, None) => {
            let piece = |number: usize| {
                let extended = found(&format!("{parameter}*{number}*"));
                let text = extended.map(|value| if number == 0 { text_of(value) } else { unescape(value) });
                text.or_else(|| found(&format!("{parameter}*{number}")).cloned())
            };
            (0..PIECES_MAX).map_while(piece).collect::<Vec<_>>().concat()
        }
    };
    let name = name.rsplit(|byte| matches!(byte, b'/' | b'\\')).next().unwrap_or_default().trim_ascii();
    (!name.is_empty()).then(|| readable(name).chars().take(NAME_LETTERS_MAX).collect())
}

/// Maximum number of pieces of a name.
const PIECES_MAX: usize = 64;

/// Maximum length of a file name, characters.
const NAME_LETTERS_MAX: usize = 255;

/// The parameters after the first `;` of a header's value, unquoted (RFC 9110 §5.6.6).
fn parameters(value: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = vec![];
    let (mut part, mut is_quoted, mut is_escaped) = (vec![], false, false);
    let mut end = |part: &mut Vec<u8>| {
        if let Some(at) = part.iter().position(|byte| *byte == b'=') {
            found.push((part[..at].trim_ascii().to_owned(), part[at + 1..].trim_ascii().to_owned()));
        }
        part.clear();
    };
    for byte in value {
        match byte {
            _ if is_escaped => {
                part.push(*byte);
                is_escaped = false;
            }
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b';' if !is_quoted => end(&mut part),
            _ => part.push(*byte),
        }
    }
    end(&mut part);
    found
}

/// A parameter of a header's value (RFC 9110 §5.6.6).
pub(crate) fn parameter(value: &[u8], name: &str) -> Option<Vec<u8>> {
    let is_it = |(other, _): &(Vec<u8>, Vec<u8>)| other.eq_ignore_ascii_case(name.as_bytes());
    parameters(value).into_iter().find(is_it).map(|(_, value)| value)
}

/// Decodes `%41` as `A`.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = vec![];
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        let escaped = if *first == b'%' { hex_byte(behind) } else { None };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &behind[2..] } else { behind };
    }
    bytes
}

/// The byte encoded by the first two hexadecimal digits.
pub(crate) fn hex_byte(text: &[u8]) -> Option<u8> {
    let [high, low] = *text.first_chunk()?;
    let digit = |letter: u8| char::from(letter).to_digit(16);
    Some((digit(high)? << 4 | digit(low)?) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_read_as_senders_write_them() {
        for (value, name) in [
            ("attachment; filename=\"a b;c.pdf\"; x=y", Some("a b;c.pdf")),
            ("attachment;FileName=plain.txt", Some("plain.txt")),
            ("inline; filename=\"old.txt\"; filename*=UTF-8''gr%C3%BCn%20.txt", Some("grün .txt")),
            ("attachment; filename=\"C:\\\\dir\\\\x.exe\"", Some("x.exe")),
            ("attachment; filename=../../etc/passwd", Some("passwd")),
            ("attachment; filename*=100%", Some("100%")),
            ("attachment; filename*=ISO-8859-1''caf%E9", Some("caf\\xe9")),
            (
                "attachment; filename*0=\"a b\"; filename*1=c; filename*2*=%20d.zip; filename*4=x",
                Some("a bc d.zip"),
            ),
            ("attachment; filename*0*=UTF-8''gr%C3%BC; filename*1=n.txt", Some("grün.txt")),
            ("attachment; filename=\"\"", None),
            ("attachment", None),
        ] {
            assert_eq!(name_in_header(value.as_bytes(), "filename").as_deref(), name, "{value}");
        }
    }
}
