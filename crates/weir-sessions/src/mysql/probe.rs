//! Detects MySQL by the server's greeting or the client's login.

use super::packet::HEADER_BYTES;
use crate::{Opening, Probe};

/// Maximum length of a server version.
const VERSION_BYTES_MAX: usize = 120;

/// Checks the first bytes of both directions. Either side may be the server.
pub(super) fn probe(opening: &Opening<'_>) -> Probe {
    match (side(opening.originator), side(opening.responder)) {
        (Probe::Certain, _) | (_, Probe::Certain) => Probe::Certain,
        (Probe::NotForUs, _) | (_, Probe::NotForUs) => Probe::NotForUs,
        _ => Probe::Unsure,
    }
}

fn side(bytes: &[u8]) -> Probe {
    let Some((header, payload)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        // The third byte of the length: a first packet is shorter than 64 KiB.
        return if bytes.get(2).is_none_or(|byte| *byte == 0) { Probe::Unsure } else { Probe::NotForUs };
    };
    let length = usize::from(u16::from_le_bytes([header[0], header[1]]));
    match (header, payload.first()) {
        ([_, _, 0, 0], None) if length > 2 => Probe::Unsure,
        ([_, _, 0, 0], Some(10)) => greeting(length, payload),
        ([_, _, 0, 0], Some(0xff)) => refusal(length, payload),
        ([_, _, 0, 1], _) if (32..8192).contains(&length) => login(payload),
        _ => Probe::NotForUs,
    }
}

/// A greeting: a printable version, and a zero byte after eight bytes of salt.
fn greeting(length: usize, payload: &[u8]) -> Probe {
    if !(20..=512).contains(&length) {
        return Probe::NotForUs;
    }
    let version = &payload[1..];
    let seen = &version[..version.len().min(VERSION_BYTES_MAX)];
    let end = memchr::memchr(0, seen).unwrap_or(seen.len());
    let is_version =
        seen[..end].iter().all(u8::is_ascii_graphic) && seen.first().is_none_or(u8::is_ascii_digit);
    // After the version: the thread ID and the salt.
    let behind = end + 1 + 4 + 8;
    match version.get(behind) {
        _ if !is_version || end == 0 && !seen.is_empty() => Probe::NotForUs,
        _ if end == VERSION_BYTES_MAX || 1 + behind >= length => Probe::NotForUs,
        None => Probe::Unsure,
        Some(0) => Probe::Certain,
        Some(_) => Probe::NotForUs,
    }
}

/// An error in place of a greeting: too many connections, or a rejected host.
fn refusal(length: usize, payload: &[u8]) -> Probe {
    let [_, low, high, message @ ..] = payload else { return Probe::Unsure };
    let code = u16::from_le_bytes([*low, *high]);
    let is_known = matches!(code, 1040 | 1129 | 1130 | 1053 | 1077 | 1203 | 1226);
    // Only the first 16 bytes of the message are checked, so that the result does not depend on segmentation.
    let rest = message.len().min(length.saturating_sub(3)).min(16);
    if !is_known || length > 512 || !message[..rest].iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return Probe::NotForUs;
    }
    if rest == 16 || rest + 3 == length { Probe::Certain } else { Probe::Unsure }
}

/// A login: capabilities including version 4.1, maximum packet size, character set, and 19 zero bytes.
fn login(payload: &[u8]) -> Probe {
    let is_41 = payload.get(1).is_none_or(|byte| byte & 2 != 0);
    let zeros = payload.get(9..payload.len().min(28)).unwrap_or_default();
    if !is_41 || zeros.iter().any(|byte| *byte != 0) {
        return Probe::NotForUs;
    }
    if zeros.len() == 19 { Probe::Certain } else { Probe::Unsure }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(originator: &[u8], responder: &[u8]) -> Probe {
        super::probe(&Opening { originator, responder, ..Opening::default() })
    }

    const GREETING: &[u8] = b"\x4a\0\0\0\x0a8.0.36\0\x08\0\0\0saltsalt\0\xff\xff";

    #[test]
    fn a_greeting_tells_when_its_salt_has_come() {
        for length in 0..25 {
            assert_eq!(probe(&[], &GREETING[..length]), Probe::Unsure, "{length}");
        }
        assert_eq!(probe(&[], GREETING), Probe::Certain);
        assert_eq!(probe(GREETING, &[]), Probe::Certain);
    }

    #[test]
    fn a_login_tells_without_its_greeting() {
        let login = [&b"\x60\0\0\x01\x85\xa6\xff\x01\0\0\0\x01\x21"[..], &[0; 19], b"\0\0\0\0bob\0"].concat();
        for length in 0..32 {
            assert_eq!(probe(&login[..length], &[]), Probe::Unsure, "{length}");
        }
        assert_eq!(probe(&login, &[]), Probe::Certain);
    }

    #[test]
    fn a_refusal_tells() {
        assert_eq!(probe(&[], b"\x17\0\0\0\xff\x10\x04Too many connections"), Probe::Certain);
        assert_eq!(probe(&[], b"\x17\0\0\0\xff\x10\x05Too many connections"), Probe::NotForUs);
    }

    #[test]
    fn other_protocols_are_not_for_us() {
        for bytes in [
            &b"GET / HTTP/1.1"[..],
            b"SSH-2.0-x",
            &[22, 3, 1, 2, 0, 1],
            b"\0\0\0\x08\x04\xd2\x16\x2f",
            b"\0\0\0\0",
            b"\x4a\0\0\0\x0a\0\x08\0\0\0saltsalt\0",
        ] {
            assert_eq!(probe(bytes, &[]), Probe::NotForUs, "{bytes:?}");
        }
    }
}
