//! Detects SMB by the first frame of either side.

use super::header::FRAME_BYTES;
use crate::{Opening, Probe};

/// Checks the first bytes of both directions; either may be empty.
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
        [0, ..] => message(&bytes[1..]),
        [0x81, ..] => session_request(&bytes[1..]),
        // Responses to a NetBIOS session request: positive, negative, retarget.
        [0x82, rest @ ..] => is_begin(rest, &[0, 0, 0]),
        [0x83, rest @ ..] => is_begin(rest, &[0, 0, 1]),
        [0x84, rest @ ..] => is_begin(rest, &[0, 0, 6]),
        _ => Probe::NotForUs,
    }
}

fn is_begin(bytes: &[u8], of: &[u8]) -> Probe {
    if Probe::of_word(bytes, of) == Probe::NotForUs { Probe::NotForUs } else { Probe::Unsure }
}

/// Recognises an SMB 2 header by its mark and length, or an SMB 1 NEGOTIATE.
fn message(rest: &[u8]) -> Probe {
    let Some(message) = rest.get(FRAME_BYTES - 1..) else { return Probe::Unsure };
    let is_mark = |index: usize, byte: u8| match index {
        0 => matches!(byte, 0xfc..=0xff),
        _ => byte == b"\0SMB"[index],
    };
    if !message.iter().take(4).enumerate().all(|(index, byte)| is_mark(index, *byte)) {
        return Probe::NotForUs;
    }
    match *message {
        [0xfe, _, _, _, 64, 0, ..] | [0xff, _, _, _, 0x72, ..] | [0xfc | 0xfd, _, _, _, ..] => Probe::Certain,
        // SMB 1 in mid-connection has nothing to report.
        [0xff, _, _, _, _, ..] => Probe::NotForUs,
        [0xfe, _, _, _, 64] | [0xfe, _, _, _] | [0xff, _, _, _] | [_] | [_, _] | [_, _, _] | [] => {
            Probe::Unsure
        }
        _ => Probe::NotForUs,
    }
}

/// Recognises a session request: two names of 32 letters from A to P (RFC 1002 §4.3.2, RFC 1001 §14.1).
fn session_request(rest: &[u8]) -> Probe {
    const NAME: usize = 34;
    let fits = |(index, byte): (usize, &u8)| match index {
        0 | 1 => *byte == 0,
        2 => *byte == 2 * NAME as u8,
        3 | 37 => *byte == 32,
        36 | 70 => *byte == 0,
        _ => matches!(byte, b'A'..=b'P'),
    };
    let request = &rest[..rest.len().min(3 + 2 * NAME)];
    match request.iter().enumerate().all(fits) {
        true if request.len() == 3 + 2 * NAME => Probe::Certain,
        true => Probe::Unsure,
        false => Probe::NotForUs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(originator: &[u8], responder: &[u8]) -> Probe {
        super::probe(&Opening { originator, responder, ..Opening::default() })
    }

    #[test]
    fn a_message_tells() {
        let message = b"\0\0\0\x66\xfeSMB\x40\0\0\0";
        for length in 0..10 {
            assert_eq!(probe(&message[..length], &[]), Probe::Unsure, "{length}");
        }
        assert_eq!(probe(message, &[]), Probe::Certain);
        assert_eq!(probe(&[], b"\0\0\0\x66\xffSMB\x72"), Probe::Certain);
        assert_eq!(probe(&[], b"\0\0\0\x66\xffSMB\x73"), Probe::NotForUs);
        assert_eq!(probe(&[], b"\0\0\0\x66\xfdSMBsigned"), Probe::Certain);
    }

    #[test]
    fn a_session_of_netbios_tells() {
        let name = [b"\x20", &b"CKFDENECFDEFFCFGEFFCCACACACACACA"[..], &[0]].concat();
        let request = [b"\x81\0\0\x44", &name[..], &name].concat();
        assert_eq!(probe(&request, &[]), Probe::Certain);
        assert_eq!(probe(&request[..40], b"\x82\0\0\0"), Probe::Unsure);
        assert_eq!(probe(&[], b"\x83\0\0\x01\x80"), Probe::Unsure);
        assert_eq!(probe(&request.to_ascii_lowercase(), &[]), Probe::NotForUs);
    }

    #[test]
    fn other_protocols_are_not_for_us() {
        for bytes in
            [&b"GET / HTTP/1.1"[..], b"\0\0\0\x08\x04\xd2\x16\x2f", b"\0\x1c\0\0\0\0\0\0", &[22, 3, 1]]
        {
            assert_eq!(probe(bytes, &[]), Probe::NotForUs, "{bytes:?}");
        }
    }
}
