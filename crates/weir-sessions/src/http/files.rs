//! Bodies as files, for `files.log`.

use super::exchange::{HttpExchange, HttpMessage};
use super::media::EXECUTABLE;
use super::uri::unescape;
use crate::files::{File, SHARED_NUMBER, name_in_header};
use crate::values::readable;
use crate::{Direction, Session};
use sha2::{Digest, Sha256};

/// The files of an exchange: its nonempty bodies, the request's first.
pub(crate) fn files(session: &dyn Session) -> Vec<Box<dyn Session>> {
    let Some(exchange) = session.as_any().downcast_ref::<HttpExchange>() else { return vec![] };
    let messages = [&exchange.request, &exchange.response].into_iter().flatten();
    let files = messages.filter(|message| message.body_bytes > 0).map(|message| file(exchange, message));
    files.map(|file| Box::new(file) as Box<dyn Session>).collect()
}

/// The number of a body among the files of its connection, derived from time, exchange and direction.
/// Exchanges are numbered anew after a CONNECT. The ranges of a download have one number in all connections
/// between the hosts.
pub(super) fn number(exchange: &HttpExchange, message: &HttpMessage) -> u64 {
    if let Some(number) = number_of_download(exchange, message) {
        return number;
    }
    let time = exchange.time().map_or(0, |time| time.0 as u64);
    let number = time << 12 ^ u64::from(exchange.depth) << 1 ^ u64::from(!message.head.is_request());
    number & !SHARED_NUMBER
}

/// The number of the download that a response is a range of: derived from the host and the target, and from
/// size and version of the whole. `None` if the response is no range.
fn number_of_download(exchange: &HttpExchange, message: &HttpMessage) -> Option<u64> {
    let range = content_range(message)?;
    let request = &exchange.request.as_ref()?.head;
    let whole = range.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let of_request = [request.header("host").unwrap_or_default(), request.target()];
    let of_response = [whole.trim_ascii(), message.head.header("etag").unwrap_or_default()];
    let mut sha = Sha256::new();
    for part in of_request.into_iter().chain(of_response) {
        sha.update((part.len() as u64).to_be_bytes());
        sha.update(part);
    }
    let digest = sha.finalize();
    let first = digest.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    Some(first | SHARED_NUMBER)
}

/// The header Content-Range of a response that is one range of a whole (RFC 9110 section 14.4), or of the
/// first of several ranges (section 14.6).
fn content_range(message: &HttpMessage) -> Option<&[u8]> {
    if message.head.code() != 206 {
        return None;
    }
    message.head.header("content-range").or_else(|| {
        is_parted(message, b"byteranges")
            .then(|| header_of_part(&message.body_start, b"content-range:").next())?
    })
}

/// Whether the content has several parts (RFC 2046 section 5.1), and its subtype begins so.
fn is_parted(message: &HttpMessage, subtype: &[u8]) -> bool {
    let kind = message.head.header("content-type").unwrap_or_default();
    [b"multipart/", subtype]
        .into_iter()
        .try_fold(kind, |rest, part| {
            let (start, rest) = rest.split_at_checked(part.len())?;
            start.eq_ignore_ascii_case(part).then_some(rest)
        })
        .is_some()
}

/// The values of a header in the header lines of the parts of a content.
fn header_of_part<'a>(body: &'a [u8], name: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
    let lines = body.split(|byte| *byte == b'\n').filter_map(|line| line.split_at_checked(name.len()));
    lines.filter(|(line, _)| line.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim_ascii())
}

/// The file name that a message gives its content (RFC 6266; or else a parameter of Content-Type). For forms
/// in several parts (RFC 7578), the first name in the kept start of the body.
pub(super) fn name(message: &HttpMessage) -> Option<String> {
    let named = |header, parameter| name_in_header(message.head.header(header)?, parameter);
    named("content-disposition", "filename").or_else(|| named("content-type", "name")).or_else(|| {
        let body = if is_parted(message, b"") { &message.body_start[..] } else { &[] };
        header_of_part(body, b"content-disposition:").find_map(|value| name_in_header(value, "filename"))
    })
}

fn file(exchange: &HttpExchange, message: &HttpMessage) -> File {
    let media_type = message.media_type();
    let duration = message.body_times.map(|(first, last)| last.0.saturating_sub(first.0));
    File {
        number: number(exchange, message),
        source: "HTTP",
        depth: 0,
        media_type,
        name: name(message),
        time: message.body_times.map(|(first, _)| first),
        duration_ns: duration.and_then(|ns| u64::try_from(ns).ok()),
        is_from_originator: (exchange.client == Direction::Originator) == message.head.is_request(),
        seen_bytes: message.body_bytes - message.lost_bytes.min(message.body_bytes),
        total_bytes: total_bytes(message),
        missing_bytes: message.lost_bytes,
        ranges: number_of_download(exchange, message).map(|_| 1),
        other_name: message.content.as_ref().and_then(|_| name_in_target(exchange)),
        content: message.content.clone(),
        executable: if media_type == Some(EXECUTABLE) { message.executable() } else { None },
    }
}

/// The end of the path of the request's target.
fn name_in_target(exchange: &HttpExchange) -> Option<String> {
    let target = exchange.request.as_ref()?.head.target();
    let path = target.split(|byte| matches!(byte, b'?' | b'#')).next()?;
    let end = path.rsplit(|byte| *byte == b'/').next()?;
    let name = readable(&unescape(end)).into_owned();
    (!name.is_empty()).then_some(name)
}

/// The total length: of the whole representation for a range (RFC 9110 §14.4), else the Content-Length.
fn total_bytes(message: &HttpMessage) -> Option<u64> {
    if let Some(range) = content_range(message) {
        let whole = range.rsplit(|byte| *byte == b'/').next()?;
        return std::str::from_utf8(whole).ok()?.trim().parse().ok();
    }
    // With chunked coding, Content-Length is ignored (RFC 9112 §6.3).
    let is_chunked = message.head.header("transfer-encoding").is_some();
    message.content_length().filter(|_| !is_chunked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::HttpParser;
    use crate::{Data, SessionParser};
    use weir_packet::Timestamp;

    /// The exchanges of a connection whose pieces arrive one second apart.
    fn exchanges(pieces: &[(Direction, &[u8])]) -> Vec<Box<dyn Session>> {
        let (mut parser, mut sessions) = (HttpParser::default(), vec![]);
        for (second, (from, bytes)) in pieces.iter().enumerate() {
            let time = Timestamp::from_parts(second as i64, 0);
            match bytes.strip_prefix(b"gap ") {
                Some(length) => {
                    let length = std::str::from_utf8(length).expect("digits").parse().expect("a number");
                    parser.gap(*from, length, &mut sessions);
                }
                None => {
                    parser.parse(&Data { from: *from, time, bytes, is_datagram: false }, &mut sessions);
                }
            }
        }
        parser.finish(&mut sessions);
        sessions
    }

    fn files_of(session: &dyn Session) -> Vec<File> {
        let files = files(session);
        files.iter().map(|file| file.as_any().downcast_ref::<File>().expect("a file").clone()).collect()
    }

    use Direction::{Originator, Responder};

    #[test]
    fn bodies_are_files_and_heads_alone_are_none() {
        let sessions = exchanges(&[
            (Originator, b"POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Type: x/y; name=up.txt\r\n\r\nhel"),
            (Originator, b"lo"),
            (Responder, b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nContent-Disposition: attachment; filename=\"a.png\"\r\n\r\n"),
            (Responder, b"\x89PNG\r\n\x1a\n"),
            (Responder, b"gap 2"),
            (Originator, b"GET /no HTTP/1.1\r\nHost: a\r\n\r\n"),
            (Responder, b"HTTP/1.1 204 No Content\r\n\r\n"),
        ]);
        assert_eq!(sessions.len(), 2);
        let [up, down] = &files_of(&*sessions[0])[..] else { panic!("two files") };
        assert_eq!(
            (up.name.as_deref(), up.media_type, up.total_bytes),
            (Some("up.txt"), Some("text/plain"), Some(5))
        );
        assert_eq!((up.time, up.duration_ns), (Some(Timestamp(0)), Some(1_000_000_000)));
        assert!(up.is_from_originator && !down.is_from_originator);
        assert_eq!((down.name.as_deref(), down.media_type), (Some("a.png"), Some("image/png")));
        assert_eq!((down.seen_bytes, down.missing_bytes, down.total_bytes), (8, 2, Some(10)));
        assert_eq!(
            down.time,
            Some(Timestamp::from_parts(3, 0)),
            "it begins with its bytes, and not with its head"
        );
        assert_ne!(up.number, down.number);
        assert!(files_of(&*sessions[1]).is_empty());
    }

    #[test]
    fn a_form_has_the_name_of_its_first_file() {
        let body = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x\r\n\
                    content-disposition: form-data; name=\"b\"; filename=\"cat.png\"\r\n\r\n";
        let request = |kind: &str| {
            let length = body.len();
            format!("POST / HTTP/1.1\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}")
        };
        for (kind, name) in [("multipart/form-data; boundary=x", Some("cat.png")), ("text/plain", None)] {
            let sessions = exchanges(&[(Originator, request(kind).as_bytes())]);
            assert_eq!(files_of(&*sessions[0])[0].name.as_deref(), name, "{kind}");
        }
    }

    #[test]
    fn of_a_range_the_whole_is_told_and_of_chunks_nothing() {
        for (head, total) in [
            (
                "HTTP/1.1 206 Partial\r\nContent-Range: bytes 2-4/1000\r\nContent-Length: 3\r\n\r\nabc",
                Some(1000),
            ),
            ("HTTP/1.1 206 Partial\r\nContent-Range: bytes 2-4/*\r\nContent-Length: 3\r\n\r\nabc", None),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", Some(3)),
        ] {
            let request = &b"GET / HTTP/1.1\r\n\r\n"[..];
            let sessions = exchanges(&[(Originator, request), (Responder, head.as_bytes())]);
            let files = files_of(&*sessions[0]);
            assert_eq!((files[0].seen_bytes, files[0].total_bytes), (3, total), "{head}");
        }
    }

    /// The file in the response to a request for `/film` on `host`. `head` has the status and the header
    /// lines of the response.
    fn download(host: &str, head: &str, body: &str) -> File {
        let request = format!("GET /film HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let answer = format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let sessions = exchanges(&[(Originator, request.as_bytes()), (Responder, answer.as_bytes())]);
        files_of(&*sessions[0]).remove(0)
    }

    #[test]
    fn ranges_of_one_version_of_one_target_are_one_file() {
        let range = |number| format!("206 Partial Content\r\nContent-Range: bytes {number}-{number}/9");
        let first = download("a", &range(0), "x");
        assert_eq!((first.number, first.ranges), (download("a", &range(1), "y").number, Some(1)));
        let several = "206 Partial Content\r\nContent-Type: Multipart/Byteranges; boundary=B";
        let parts = "--B\r\nContent-Type: a/b\r\ncontent-range: bytes 2-3/9\r\n\r\nab\r\n--B--\r\n";
        let several = download("a", several, parts);
        assert_eq!((several.number, several.total_bytes), (first.number, Some(9)));
        for (host, head) in [
            ("b", range(0)),
            ("a", "206 Partial Content\r\nContent-Range: bytes 0-0/10".to_string()),
            ("a", range(0) + "\r\nETag: \"2\""),
            ("a", "200 OK\r\nContent-Range: bytes 0-0/9".to_string()),
            ("a", "206 Partial Content\r\nContent-Type: multipart/byteranges".to_string()),
        ] {
            assert_ne!(download(host, &head, "x").number, first.number, "{host} {head}");
        }
    }
}
