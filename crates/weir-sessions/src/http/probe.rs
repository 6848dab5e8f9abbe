//! Detects HTTP: a request or status line, the HTTP/2 preface, or frames of HTTP/2 in sequence, from either
//! side.

use super::http2::frame::{in_sequence, is_settings};
use super::start_line::{METHOD_BYTES_MAX, METHODS, StartLine, is_token};
use crate::{Opening, Probe};
use memchr::memchr;

/// How targets begin (RFC 9112 §3.2). Other protocols share methods but not targets: Redis GET, SIP URIs.
const TARGETS: &[&[u8]] = &[b"/", b"http://", b"https://"];

/// Checks the first bytes of both directions.
pub(super) fn probe(opening: &Opening<'_>) -> Probe {
    let [originator, responder] = [opening.originator, opening.responder].map(side);
    match (originator, responder) {
        (Probe::Certain, _) | (_, Probe::Certain) => Probe::Certain,
        // If one side is certainly not HTTP, the other side does not matter.
        (Probe::NotForUs, _) | (_, Probe::NotForUs) => Probe::NotForUs,
        _ => Probe::Unsure,
    }
}

fn side(bytes: &[u8]) -> Probe {
    match bytes {
        [] => Probe::Unsure,
        [0, ..] => match is_settings(bytes) {
            Probe::NotForUs => in_sequence(bytes),
            verdict => verdict,
        },
        [b'H', b'T', b'T', b'P', b'/', ..] => status_line(bytes),
        _ if bytes.len() < 5 && b"HTTP/".starts_with(bytes) => Probe::Unsure,
        _ => request_line(bytes),
    }
}

fn status_line(bytes: &[u8]) -> Probe {
    let shape = b"HTTP/d.";
    let fits = |(byte, shape): (&u8, &u8)| if *shape == b'd' { byte.is_ascii_digit() } else { byte == shape };
    match bytes.iter().zip(shape).all(fits) {
        true if bytes.len() >= shape.len() => Probe::Certain,
        true => Probe::Unsure,
        false => Probe::NotForUs,
    }
}

fn request_line(bytes: &[u8]) -> Probe {
    let method = &bytes[..bytes.len().min(METHOD_BYTES_MAX + 1)];
    let space = memchr(b' ', method);
    let method = &method[..space.unwrap_or(method.len())];
    let is_upper = |byte: &u8| is_token(*byte) && !byte.is_ascii_lowercase();
    if !bytes[0].is_ascii_uppercase() || method.len() > METHOD_BYTES_MAX || !method.iter().all(is_upper) {
        return Probe::NotForUs;
    }
    // The rest of the line does not matter: HTTP/0.9 has no version, and some clients misspell it.
    let is_target = |space: usize| TARGETS.iter().any(|target| bytes[space + 1..].starts_with(target));
    if METHODS.contains(&method) && space.is_some_and(is_target) {
        return Probe::Certain;
    }
    match memchr(b'\n', bytes) {
        Some(newline) => {
            let line = &bytes[..newline];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if StartLine::parse(line).is_some() { Probe::Certain } else { Probe::NotForUs }
        }
        // Other protocols share methods: OPTIONS rtsp://…, REGISTER sip:…
        None => Probe::Unsure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(originator: &[u8], responder: &[u8]) -> Probe {
        super::probe(&Opening { originator, responder, ..Opening::default() })
    }

    #[test]
    fn a_method_and_what_it_asks_for_are_enough() {
        assert_eq!(probe(b"GET /index", b""), Probe::Certain);
        assert_eq!(probe(b"GET /\r\n", b""), Probe::Certain);
        assert_eq!(probe(b"GET / HTTPS/1.1\r\n", b""), Probe::Certain);
        assert_eq!(probe(b"GET http:", b""), Probe::Unsure);
        assert_eq!(probe(b"GET http://a", b""), Probe::Certain);
        assert_eq!(probe(b"GET ", b""), Probe::Unsure);
        assert_eq!(probe(b"CONNECT a:443 HTTP/1.1\r\n", b""), Probe::Certain);
        assert_eq!(probe(b"", b"GET /index"), Probe::Certain);
        assert_eq!(probe(b"GE", b""), Probe::Unsure);
        assert_eq!(probe(b"BREW /pot HTTP/1.1\r\n", b""), Probe::Certain);
    }

    #[test]
    fn a_status_line_of_either_side_is_enough() {
        assert_eq!(probe(b"", b"HTTP/1.1 200 OK"), Probe::Certain);
        assert_eq!(probe(b"HTTP/1.00 404", b""), Probe::Certain);
        assert_eq!(probe(b"", b"HTTP/1"), Probe::Unsure);
    }

    #[test]
    fn the_preface_of_http2_is_enough() {
        assert_eq!(probe(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b""), Probe::Certain);
        assert_eq!(probe(b"", b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64"), Probe::Certain);
        assert_eq!(probe(b"", b"\0\0\x06\x04"), Probe::Unsure);
    }

    #[test]
    fn other_protocols_are_not_for_us() {
        for bytes in [
            &b"OPTIONS rtsp://a/ RTSP/1.0\r\n"[..],
            b"REGISTER sip:a SIP/2.0\r\n",
            b"SSH-2.0-x\r\n",
            b"220 mail",
            b"EHLO x\r\n",
            &[22, 3, 1],
            b"get x\r\n",
            b"GET x\r\n",
            b"\r\n\r\n\r\nGET / HTTP/1.1\r\n",
            &[0, 0, 0, 85, 0xff, b'S', b'M', b'B'],
        ] {
            assert_eq!(probe(bytes, b""), Probe::NotForUs, "{bytes:?}");
        }
        assert_eq!(probe(b"OPTIONS rtsp", b""), Probe::Unsure);
    }
}
