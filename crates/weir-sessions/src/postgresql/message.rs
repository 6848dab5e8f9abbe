//! Message boundaries, and the probe.

use crate::frames::Head;
use crate::{Opening, Probe};

/// Longest startup message that servers accept, bytes.
const STARTUP_BYTES_MAX: u32 = 10_000;

/// Request codes, in place of a protocol version.
pub(super) const CANCEL: u32 = 80_877_102;
pub(super) const TLS: u32 = 80_877_103;
pub(super) const GSS: u32 = 80_877_104;

/// The bytes before the first zero, or all of them.
pub(super) fn until_zero(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())]
}

/// Length, and version or request code, of a client's first message. `None` if `bytes` is no such message.
pub(super) fn read_startup(bytes: &[u8]) -> Option<(u32, u32)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (length, code) = (u32::from_be_bytes(*length), u32::from_be_bytes(*rest.first_chunk::<4>()?));
    let is_known = match code {
        TLS | GSS => length == 8,
        CANCEL => (16..=268).contains(&length),
        _ => code >> 16 == 3 && (9..=STARTUP_BYTES_MAX).contains(&length),
    };
    is_known.then_some((length, code))
}

/// Measures a message: a type, then a length that does not count the type. A client's first message has no
/// type.
pub(super) fn measure(bytes: &[u8], is_first: bool, kinds: &[u8]) -> Head {
    if is_first && bytes.first().is_none_or(|byte| *byte == 0) {
        return match read_startup(bytes) {
            Some((length, _)) => Head::Bytes(length.into()),
            None if bytes.len() < 8 => Head::Short,
            None => Head::Wrong,
        };
    }
    match bytes {
        [kind, ..] if !kinds.contains(kind) => Head::Wrong,
        [_, a, b, c, d, ..] => match u32::from_be_bytes([*a, *b, *c, *d]) {
            length @ 4..=0x7fff_ffff => Head::Bytes(1 + u64::from(length)),
            _ => Head::Wrong,
        },
        _ => Head::Short,
    }
}

/// Message types of clients and servers.
pub(super) const CLIENT_KINDS: &[u8] = b"BCDEFHPQSXcdfp";
pub(super) const SERVER_KINDS: &[u8] = b"123ACDEGHIKNRSTVWZcdnstv";

/// Longest name of a client's first parameter, including its zero, bytes.
const PARAMETER_BYTES_MAX: usize = 32;

/// Recognises a client's first message in either direction: the code is known and the length fits.
pub(super) fn probe(opening: &Opening<'_>) -> Probe {
    let side = |bytes: &[u8]| match bytes {
        [0, 0, ..] | [0] | [] => match read_startup(bytes) {
            Some((_, TLS | GSS | CANCEL)) => Probe::Certain,
            Some(_) => {
                let name = &bytes[8..];
                let is_name = |byte: &u8| byte.is_ascii_lowercase() || *byte == b'_';
                let name = &name[..name.len().min(PARAMETER_BYTES_MAX)];
                match memchr::memchr(0, name) {
                    Some(end) if end > 3 && name[..end].iter().all(is_name) => Probe::Certain,
                    None if name.len() < PARAMETER_BYTES_MAX && name.iter().all(is_name) => Probe::Unsure,
                    _ => Probe::NotForUs,
                }
            }
            None if bytes.len() < 8 => Probe::Unsure,
            None => Probe::NotForUs,
        },
        _ => Probe::NotForUs,
    };
    match (side(opening.originator), side(opening.responder)) {
        (Probe::Certain, _) | (_, Probe::Certain) => Probe::Certain,
        (Probe::Unsure, Probe::Unsure) => Probe::Unsure,
        _ => Probe::NotForUs,
    }
}
