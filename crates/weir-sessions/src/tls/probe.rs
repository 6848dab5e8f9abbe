//! Detects TLS by the first record of either side.

use super::message::{CLIENT_HELLO, SERVER_HELLO};
use super::record::{ALERT, HANDSHAKE, is_header};
use crate::{Opening, Probe};

/// Checks the first bytes of both directions; either may be empty. One hello from either side suffices; the
/// other side's bytes do not matter. Never certain with fewer than six bytes.
pub(super) fn probe(opening: &Opening<'_>) -> Probe {
    match (side(opening.originator), side(opening.responder)) {
        (Probe::Certain, _) | (_, Probe::Certain) => Probe::Certain,
        (Probe::NotForUs, _) | (_, Probe::NotForUs) => Probe::NotForUs,
        _ => Probe::Unsure,
    }
}

fn side(bytes: &[u8]) -> Probe {
    match bytes {
        [] => Probe::Unsure,
        [first, ..] if first & 0x80 != 0 => sslv2(bytes),
        // An alert alone may answer a hello that has not arrived here yet.
        [content, rest @ ..] if matches!(*content, HANDSHAKE | ALERT) => record(*content, rest),
        _ => Probe::NotForUs,
    }
}

/// Recognises a TLS record (RFC 8446 §5.1) that begins with a hello (§4).
fn record(content: u8, rest: &[u8]) -> Probe {
    let fits = match *rest {
        [] => true,
        [major] => major == 3,
        [major, minor, high, low, ..] => is_header(content, major, minor, high, low) && (high, low) != (0, 0),
        [major, minor, ..] => major == 3 && minor <= 4,
    };
    if !fits {
        return Probe::NotForUs;
    }
    let Some(message) = rest.get(4..).filter(|message| content == HANDSHAKE && !message.is_empty()) else {
        return Probe::Unsure;
    };
    match message {
        // Only one byte is checked: a message may be split into as many records as it has bytes (§5.1).
        [CLIENT_HELLO | SERVER_HELLO, ..] => Probe::Certain,
        // HelloRequest (RFC 5246 §7.4.1.1): the other side will answer with a hello.
        [0, ..] => Probe::Unsure,
        _ => Probe::NotForUs,
    }
}

/// Recognises a ClientHello in the format of SSLv2 (RFC 5246 §E.2) with consistent lengths.
fn sslv2(bytes: &[u8]) -> Probe {
    let [high, low, rest @ ..] = bytes else { return Probe::Unsure };
    let length_bytes = usize::from(high & 0x7f) << 8 | usize::from(*low);
    let prefix_fits = match *rest {
        [] => true,
        [kind] => kind == CLIENT_HELLO,
        [kind, major] => kind == CLIENT_HELLO && matches!(major, 0 | 3),
        [kind, major, minor, ..] => kind == CLIENT_HELLO && matches!((major, minor), (0, 2) | (3, 0..=4)),
    };
    if !prefix_fits || length_bytes < 9 + 3 + 16 {
        return Probe::NotForUs;
    }
    let Some([a, b, c, d, e, f]) = rest.get(3..9).and_then(|lengths| <[u8; 6]>::try_from(lengths).ok())
    else {
        return Probe::Unsure;
    };
    let [specs, session_id, challenge] =
        [[a, b], [c, d], [e, f]].map(|pair| usize::from(u16::from_be_bytes(pair)));
    let fits = specs > 0
        && specs.is_multiple_of(3)
        && matches!(session_id, 0 | 16)
        && (16..=32).contains(&challenge)
        && 9 + specs + session_id + challenge == length_bytes;
    if fits { Probe::Certain } else { Probe::NotForUs }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(originator: &[u8], responder: &[u8]) -> Probe {
        super::probe(&Opening { originator, responder, ..Opening::default() })
    }

    const HELLO: &[u8] = &[22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];

    #[test]
    fn a_hello_of_either_side_is_enough() {
        assert_eq!(probe(HELLO, &[]), Probe::Certain);
        assert_eq!(probe(&[], HELLO), Probe::Certain);
        assert_eq!(probe(HELLO, b"HTTP/1.1 400"), Probe::Certain);
    }

    #[test]
    fn six_bytes_are_needed() {
        for length in 0..6 {
            assert_eq!(probe(&HELLO[..length], &[]), Probe::Unsure, "{length}");
        }
        assert_eq!(probe(&HELLO[..6], &[]), Probe::Certain);
    }

    #[test]
    fn a_hello_may_be_cut_into_records_of_one_byte() {
        assert_eq!(probe(&[22, 3, 1, 0, 1, 1, 22, 3, 1, 0, 1, 0], &[]), Probe::Certain);
    }

    #[test]
    fn other_protocols_are_not_for_us() {
        for bytes in [
            &b"GET / HTTP/1.1"[..],
            b"SSH-2.0-x",
            &[22, 1],
            &[22, 3, 9],
            &[23, 3, 3, 0, 1, 1],
            &[22, 3, 3, 0, 9, 11],
        ] {
            assert_eq!(probe(bytes, &[]), Probe::NotForUs, "{bytes:?}");
        }
        assert_eq!(probe(&[], b"220 mail"), Probe::NotForUs);
    }

    #[test]
    fn an_alert_alone_leaves_it_open() {
        assert_eq!(probe(&[], &[21, 3, 3, 0, 2, 2, 40]), Probe::Unsure);
        assert_eq!(probe(HELLO, &[21, 3, 3, 0, 2, 2, 40]), Probe::Certain);
    }

    #[test]
    fn the_lengths_of_sslv2_must_add_up() {
        let hello = [0x80, 28, 1, 3, 1, 0, 3, 0, 0, 0, 16, 0, 0, 0x2f];
        assert_eq!(probe(&hello, &[]), Probe::Certain);
        assert_eq!(probe(&hello[..8], &[]), Probe::Unsure);
        assert_eq!(probe(&[0x80, 29, 1, 3, 1, 0, 3, 0, 0, 0, 16], &[]), Probe::NotForUs);
        assert_eq!(probe(&[0xff, 0xfe, 0x41], &[]), Probe::NotForUs);
    }
}
