//! Detects TLS by a hello, or by records in sequence of a connection that began before the capture.

use super::message::{CLIENT_HELLO, SERVER_HELLO};
use super::record::{HANDSHAKE, is_header};
use crate::{Opening, Probe};

/// Records that suffice without a hello: two of one side in sequence, or one of each side. Five random bytes
/// are the header of a record once in two million times.
const RECORDS_MIN: usize = 2;

/// What the first bytes of a side are.
enum Side {
    /// Records up to a hello.
    Hello,
    /// So many records without a hello, as far as the bytes go.
    Records(usize),
    /// Something else behind so many records.
    Other(usize),
}

/// Checks the first bytes of both directions; either may be empty. One hello, or the records of one side,
/// suffice: the other side's bytes do not matter.
pub(super) fn probe(opening: &Opening<'_>) -> Probe {
    use Side::{Hello, Other, Records};
    match (side(opening.originator), side(opening.responder)) {
        (Hello, _) | (_, Hello) => Probe::Certain,
        (Records(one) | Other(one), Records(other) | Other(other)) if one + other >= RECORDS_MIN => {
            Probe::Certain
        }
        (Other(_), _) | (_, Other(_)) => Probe::NotForUs,
        _ => Probe::Unsure,
    }
}

fn side(bytes: &[u8]) -> Side {
    match bytes {
        [first, ..] if first & 0x80 != 0 => match sslv2(bytes) {
            Probe::Certain => Side::Hello,
            Probe::Unsure => Side::Records(0),
            Probe::NotForUs => Side::Other(0),
        },
        _ => records(bytes),
    }
}

/// Follows records (RFC 8446 §5.1) up to a hello (§4), or until there are enough. Empty ones do not count.
fn records(mut bytes: &[u8]) -> Side {
    let mut count = 0;
    while count < RECORDS_MIN {
        let Some(&[content, major, minor, high, low]) = bytes.first_chunk() else {
            return if is_begin_of_header(bytes) { Side::Records(count) } else { Side::Other(count) };
        };
        if !is_header(content, major, minor, high, low) {
            return Side::Other(count);
        }
        let content_bytes = usize::from(u16::from_be_bytes([high, low]));
        if content == HANDSHAKE && content_bytes > 0 {
            // Only one byte of the message is checked: a message may be split into as many records as it has
            // bytes (§5.1).
            match bytes.get(5) {
                Some(&(CLIENT_HELLO | SERVER_HELLO)) => return Side::Hello,
                Some(_) => {}
                None => return Side::Records(count),
            }
        }
        count += usize::from(content_bytes > 0);
        bytes = bytes.get(5 + content_bytes..).unwrap_or_default();
    }
    Side::Records(count)
}

/// Whether fewer than five bytes may become the header of a record.
fn is_begin_of_header(bytes: &[u8]) -> bool {
    let mut header = [23, 3, 3, 0, 0];
    header[..bytes.len()].copy_from_slice(bytes);
    is_header(header[0], header[1], header[2], header[3], header[4])
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
            &[23, 3, 3, 0xff, 1, 1],
            &[23, 3, 3, 0, 1, 1, 25],
            &[21, 3, 3, 0, 2, 2, 40, 22, 1],
        ] {
            assert_eq!(probe(bytes, &[]), Probe::NotForUs, "{bytes:?}");
        }
        assert_eq!(probe(&[], b"220 mail"), Probe::NotForUs);
    }

    #[test]
    fn one_record_without_a_hello_leaves_it_open() {
        for record in
            [&[21, 3, 3, 0, 2, 2, 40][..], &[23, 3, 3, 0, 1, 1], &[22, 3, 3, 0, 1, 11], &[23, 3, 1, 0, 0]]
        {
            assert_eq!(probe(&[], record), Probe::Unsure, "{record:?}");
            assert_eq!(probe(HELLO, record), Probe::Certain, "{record:?}");
            assert_eq!(probe(record, b"HTTP/1.1 400"), Probe::NotForUs, "{record:?}");
        }
    }

    #[test]
    fn two_records_in_sequence_are_enough_and_one_of_each_side() {
        let two = [23, 3, 3, 0, 1, 1, 23, 3, 3, 0x40, 0]; // the content of the second is not needed
        for length in 0..11 {
            assert_eq!(probe(&two[..length], &[]), Probe::Unsure, "{length}");
        }
        assert_eq!(probe(&two, &[]), Probe::Certain);
        assert_eq!(probe(b"rest of a record", &two), Probe::Certain);
        assert_eq!(probe(&two[..6], &two[6..]), Probe::Certain);
    }

    #[test]
    fn a_hello_may_follow_other_records() {
        for before in
            [&[20, 3, 1, 0, 1, 1][..], &[24, 3, 1, 0, 2, 1, 0], &[21, 3, 1, 0, 0], &[22, 3, 1, 0, 0]]
        {
            assert_eq!(probe(&[before, HELLO].concat(), b"HTTP/1.1 400"), Probe::Certain, "{before:?}");
        }
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
