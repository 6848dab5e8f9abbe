//! Detects the media type of content by its first bytes, with Zeek's names.

use crate::coding::Decoder;
use std::borrow::Cow;

/// Maximum number of decompressed bytes that are inspected.
const UNPACKED_BYTES_MAX: usize = 512;

/// The media type of programs of DOS and Windows.
pub(super) const EXECUTABLE: &str = "application/x-dosexec";

/// Signatures: offset, bytes, media type.
const SIGNATURES: &[(usize, &[u8], &str)] = &[
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (0, b"%PDF-", "application/pdf"),
    (0, b"PK\x03\x04", "application/zip"),
    (0, b"PK\x05\x06", "application/zip"),
    (0, b"\x1f\x8b\x08", "application/x-gzip"),
    (0, b"BZh", "application/x-bzip2"),
    (0, b"\xfd7zXZ\0", "application/x-xz"),
    (0, b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (0, b"Rar!\x1a\x07", "application/x-rar"),
    (0, b"\x28\xb5\x2f\xfd", "application/zstd"),
    (0, b"MSCF\0\0\0\0", "application/vnd.ms-cab-compressed"),
    (0, b"MZ", EXECUTABLE),
    (0, b"\x7fELF", "application/x-executable"),
    (0, b"\xca\xfe\xba\xbe", "application/x-java-applet"),
    (0, b"\xcf\xfa\xed\xfe", "application/x-mach-o-executable"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/msword"),
    (0, b"\0\0\x01\0", "image/x-icon"),
    (0, b"II*\0", "image/tiff"),
    (0, b"MM\0*", "image/tiff"),
    (0, b"BM", "image/x-ms-bmp"),
    (8, b"WEBP", "image/webp"),
    (8, b"WAVE", "audio/x-wav"),
    (4, b"ftyp", "video/mp4"),
    (0, b"\x1a\x45\xdf\xa3", "video/webm"),
    (0, b"FLV\x01", "video/x-flv"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"OggS", "application/ogg"),
    (0, b"FWS", "application/x-shockwave-flash"),
    (0, b"CWS", "application/x-shockwave-flash"),
    (0, b"ZWS", "application/x-shockwave-flash"),
    (0, b"wOFF", "application/font-woff"),
    (0, b"wOF2", "application/font-woff2"),
    (0, b"%!PS", "application/postscript"),
    (0, b"{\\rtf", "text/rtf"),
    (0, b"-----BEGIN CERTIFICATE", "application/x-x509-ca-cert"),
];

/// First tags of markup in lower case, with the media type.
const MARKUP: &[(&[u8], &str)] = &[
    (b"<!doctype html", "text/html"),
    (b"<html", "text/html"),
    (b"<head", "text/html"),
    (b"<body", "text/html"),
    (b"<title", "text/html"),
    (b"<script", "text/html"),
    (b"<table", "text/html"),
    (b"<div", "text/html"),
    (b"<svg", "image/svg+xml"),
    (b"<?xml", "application/xml"),
    (b"<?php", "text/x-php"),
    (b"<soap", "application/xml"),
];

/// The media type of content that begins with `bytes`; none if unknown. `coding` is its Content-Encoding:
/// gzip, deflate, Brotli and zstd are decoded.
pub(crate) fn sniff(bytes: &[u8], coding: Option<&[u8]>) -> Option<&'static str> {
    if bytes.is_empty() {
        return None;
    }
    sniff_plain(&unpack(bytes, coding, UNPACKED_BYTES_MAX)?)
}

/// The first bytes of a content without its Content-Encoding: as they are if it has none, else decoded, at
/// most `unpacked_max`. `None` if the coding is unknown.
pub(super) fn unpack<'a>(
    bytes: &'a [u8],
    coding: Option<&[u8]>,
    unpacked_max: usize,
) -> Option<Cow<'a, [u8]>> {
    Some(match Decoder::of(coding)? {
        Decoder::Plain => bytes.into(),
        mut decoder => {
            let mut unpacked = vec![];
            // An error only marks the end of the available bytes.
            let _ = decoder.decode(bytes, &mut |piece| {
                let room = unpacked_max - unpacked.len();
                unpacked.extend_from_slice(&piece[..piece.len().min(room)]);
                unpacked.len() < unpacked_max
            });
            unpacked.into()
        }
    })
}

fn sniff_plain(bytes: &[u8]) -> Option<&'static str> {
    let has = |&&(at, signature, _): &&(usize, &[u8], &str)| {
        bytes.get(at..).is_some_and(|rest| rest.starts_with(signature))
    };
    if let Some(found) = SIGNATURES.iter().find(has) {
        return Some(found.2);
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if text.is_empty() || text.iter().any(is_control) {
        return None;
    }
    let is_utf8 = is_utf8(text);
    let text = skip_comments(text.trim_ascii_start());
    let begins = |(beginning, _): &&(&[u8], &str)| {
        text.get(..beginning.len()).is_some_and(|start| start.eq_ignore_ascii_case(beginning))
    };
    if let Some((_, meaning)) = MARKUP.iter().find(begins) {
        return Some(meaning);
    }
    if is_script(text) {
        return Some("application/javascript");
    }
    // Another character set has no sign of its own.
    if !is_utf8 {
        return None;
    }
    if is_json(text) { Some("text/json") } else { Some("text/plain") }
}

/// First words of scripts, after comments.
const SCRIPT: &[&[u8]] = &[
    b"\"use strict\"",
    b"'use strict'",
    b"(function",
    b"(()=>",
    b"(() =>",
    b"!function",
    b";(function",
    b"function ",
    b"function(",
    b"var ",
    b"let ",
    b"const ",
    b"window.",
    b"window[",
    b"document.",
    b"$(document",
    b"$(function",
    b"jQuery(",
    b"define(",
    b"try{",
    b"try {",
];

/// Whether the text may begin with JavaScript. A word that prose has as well (`let us`) needs the signs of a
/// statement.
fn is_script(mut text: &[u8]) -> bool {
    loop {
        let (opening, closing): (&[u8], &[u8]) = match text {
            [b'/', b'*', ..] => (b"/*", b"*/"),
            [b'/', b'/', ..] => (b"//", b"\n"),
            _ => break,
        };
        let rest = &text[opening.len()..];
        let Some(end) = memchr::memmem::find(rest, closing) else { return false };
        text = rest[end + closing.len()..].trim_ascii_start();
    }
    let has_statement = || text.iter().any(|byte| matches!(byte, b'=' | b'(' | b';' | b'{'));
    SCRIPT.iter().any(|word| text.starts_with(word)) && has_statement()
}

/// The text after leading comments.
fn skip_comments(mut text: &[u8]) -> &[u8] {
    while let Some(rest) = text.strip_prefix(b"<!--") {
        let Some(end) = memchr::memmem::find(rest, b"-->") else { return text };
        text = rest[end + 3..].trim_ascii_start();
    }
    text
}

/// Whether the text may begin with a JSON object or array (RFC 8259).
fn is_json(text: &[u8]) -> bool {
    match text {
        [b'{', rest @ ..] => matches!(rest.trim_ascii_start(), [b'"' | b'}', ..]),
        [b'[', rest @ ..] => {
            matches!(rest.trim_ascii_start(), [b'{' | b'[' | b']' | b'"' | b'-' | b'0'..=b'9', ..])
                || [&b"true"[..], b"false", b"null"]
                    .iter()
                    .any(|word| rest.trim_ascii_start().starts_with(word))
        }
        _ => false,
    }
}

/// Whether the byte is a control character that no text has.
fn is_control(byte: &u8) -> bool {
    byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b)
}

/// Whether the bytes are UTF-8 except for a character cut at the end.
fn is_utf8(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn contents_are_known_by_their_beginnings() {
        for (bytes, expected) in [
            (&b"\x89PNG\r\n\x1a\n\0\0"[..], Some("image/png")),
            (b"  <!DOCTYPE HTML PUBLIC", Some("text/html")),
            (b"<!-- a --> <html>", Some("text/html")),
            (b"<?xml version=\"1.0\"?>", Some("application/xml")),
            (b"{\"a\": 1", Some("text/json")),
            (b"{a}", Some("text/plain")),
            ("gr\u{fc}n".as_bytes(), Some("text/plain")),
            (b"gr\xfcn", None),
            (b"<html><title>gr\xfcn</title>", Some("text/html")),
            (b"/* \xa9 a */ // b\n var a = 1;", Some("application/javascript")),
            (b"!function(a){}()", Some("application/javascript")),
            (b"let us go", Some("text/plain")),
            (b"\0\x01\x02", None),
            (b"", None),
        ] {
            assert_eq!(sniff(bytes, None), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_compressed_content_is_known_by_what_it_unpacks_to() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"<html><body>").expect("memory");
        let packed = encoder.finish().expect("memory");
        assert_eq!(sniff(&packed, Some(b"gzip")), Some("text/html"));
        assert_eq!(sniff(&packed, None), Some("application/x-gzip"));
        assert_eq!(sniff(&packed, Some(b"br")), None);
        // Output of Debian's brotli for `<html><body>` and eight paragraphs; and its first bytes, which are
        // code tables only.
        let brotli = b"\x1f\x9b\x00\x00\xa4}x\xc2\xe0\x82C\x0e\\\x8e_\xc8\x91&\x845\x85\xa6+*\t*=\x8cnf \xb3\xa0\xd7\xd2\xfc/\x05";
        assert_eq!(sniff(brotli, Some(b"br")), Some("text/html"));
        assert_eq!(sniff(&brotli[..4], Some(b"br")), None);
        assert_eq!(sniff(b"no gzip", Some(b"gzip")), None);
    }
}
