//! Detects DNS. DNS has no signature, so the first message must parse completely; on known ports, a header
//! with a question is enough.

use super::message::{HEADER_BYTES, Header, Message};
use super::{name, names};
use crate::{Opening, Probe};

/// The ports of DNS, NetBIOS names, multicast DNS and LLMNR.
pub(super) const PORTS: &[u16] = &[53, 137, 5353, 5355];

/// Maximum number of questions in a plausible message; multicast DNS sends dozens.
const QUESTIONS_BELIEVED: u16 = 255;

/// How well a sender's first message fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// Not DNS.
    No,
    /// Undecided; more bytes are needed.
    Open,
    /// The header is plausible, and the first question complete.
    Question,
    /// The message parses up to its last byte, or to zeros behind it.
    Whole,
}

/// Checks the first message of either side. One that fits is enough.
pub(super) fn probe(opening: &Opening<'_>) -> Probe {
    let is_port_known = opening.is_on(PORTS);
    let side = |bytes: &[u8]| match bytes {
        [] => Fit::Open,
        _ if opening.is_datagram => message(bytes, bytes.len(), is_port_known, is_port_known),
        _ => stream(bytes, is_port_known),
    };
    let judge = |fit: Fit| match fit {
        Fit::Whole => Probe::Certain,
        Fit::Question if is_port_known => Probe::Certain,
        Fit::Question | Fit::Open if !opening.is_datagram => Probe::Unsure,
        // The capture truncated the datagram: the next one may decide.
        Fit::Open if is_port_known => Probe::Unsure,
        _ => Probe::NotForUs,
    };
    match (opening.originator, opening.responder) {
        ([], []) => Probe::Unsure,
        (one, []) | ([], one) => judge(side(one)),
        (originator, responder) => match (judge(side(originator)), judge(side(responder))) {
            (Probe::Certain, _) | (_, Probe::Certain) => Probe::Certain,
            (Probe::NotForUs, _) | (_, Probe::NotForUs) => Probe::NotForUs,
            _ => Probe::Unsure,
        },
    }
}

/// Over TCP each message has a length prefix (RFC 1035 §4.2.2). On a known port, bytes after the first
/// question do not matter; on other ports, only the complete message counts. So the result does not depend on
/// segmentation.
fn stream(bytes: &[u8], is_port_known: bool) -> Fit {
    let Some(([high, low], rest)) = bytes.split_first_chunk::<2>() else { return Fit::Open };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if length < HEADER_BYTES {
        return Fit::No;
    }
    let seen = &rest[..rest.len().min(length)];
    let is_whole = seen.len() == length;
    match message(seen, length, is_port_known, false) {
        Fit::Whole | Fit::Question if is_port_known => Fit::Question,
        Fit::Whole if is_whole => Fit::Whole,
        Fit::No => Fit::No,
        _ if is_whole => Fit::No,
        _ => Fit::Open,
    }
}

/// How well the available bytes fit a message of `length` bytes. `is_lenient`: servers answer queries with
/// any bits in the header.
fn message(bytes: &[u8], length: usize, is_port_known: bool, is_lenient: bool) -> Fit {
    if !is_header_possible(bytes, is_port_known, is_lenient) {
        return Fit::No;
    }
    // Odd bits need a whole message.
    let open = if is_header_possible(bytes, is_port_known, false) { Fit::Open } else { Fit::No };
    let Some(header) = Header::read(bytes) else { return open };
    let [questions, records @ ..] = header.counts;
    if questions == 0 && records == [0; 3] {
        // A refusal may consist of the header alone.
        let is_refusal = header.is_response() && header.rcode() != 0 && length == HEADER_BYTES;
        return if is_refusal && is_port_known { Fit::Question } else { Fit::No };
    }
    if questions > 0 {
        match read_question(bytes, is_port_known) {
            None if bytes.len() < HEADER_BYTES + 256 + 4 => return open,
            Some(true) => {}
            _ => return Fit::No,
        }
    }
    match Message::parse(bytes) {
        // Some senders fill their datagrams with zeros.
        Some(message) if bytes[message.end..].iter().all(|byte| *byte == 0) && has_known_types(&message) => {
            Fit::Whole
        }
        Some(_) => Fit::Question,
        None => open,
    }
}

/// Whether a datagram of a flow that has messages may be another one, however odd.
pub(super) fn is_possible(datagram: &[u8]) -> bool {
    let Some(header) = Header::read(datagram) else { return false };
    let [questions, answers, authorities, _] = header.counts;
    let is_fitting = match questions {
        // A query may ask for a cookie only (RFC 7873, section 5.4), or list further answers that are known
        // (RFC 6762, section 7.2).
        0 if !header.is_response() && header.opcode() == 0 && (answers, authorities) != (0, 0) => {
            Message::parse(datagram).is_some_and(|message| message.end == datagram.len())
        }
        0 => true,
        _ => read_question(datagram, true) != Some(false),
    };
    is_fitting && is_header_possible(datagram, true, true)
}

/// Whether the available bytes of the header are plausible: a known operation, no answer records in queries,
/// and, unless `is_lenient`, a reserved bit of zero and no error in queries.
fn is_header_possible(bytes: &[u8], is_port_known: bool, is_lenient: bool) -> bool {
    let word = |at: usize| bytes.get(at..at + 2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    let flags = word(2).unwrap_or(0);
    let (is_response, opcode, rcode) = (flags & 0x8000 != 0, flags >> 11 & 15, flags & 15);
    let is_query = !is_response && opcode == 0;
    let at_most = |at: usize, max: u16| word(at).is_none_or(|count| count <= max);
    (opcode <= 6 || (is_port_known && opcode <= 8))
        && (is_lenient || flags & 0x40 == 0)
        && (is_lenient || is_response || rcode == 0)
        && at_most(4, if is_port_known { QUESTIONS_BELIEVED } else { 8 })
        // Multicast DNS queries list known answers (RFC 6762 §7.1).
        && (is_port_known || !is_query || (at_most(6, 0) && at_most(8, 0) && at_most(10, 4)))
}

/// Whether the first question is valid; `None` if it is truncated.
fn read_question(bytes: &[u8], is_port_known: bool) -> Option<bool> {
    let behind = name::skip(bytes, HEADER_BYTES)?;
    let [a, b, c, d] = *bytes.get(behind..)?.first_chunk::<4>()?;
    let (kind, class) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]) & 0x7fff);
    let is_class = matches!(class, 1 | 3 | 4 | 254 | 255);
    Some(name::read(bytes, HEADER_BYTES).is_some() && is_class && (is_port_known || names::is_assigned(kind)))
}

fn has_known_types(message: &Message) -> bool {
    message.records().all(|record| names::is_assigned(record.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x01\0\x01";

    fn datagram(bytes: &[u8], port: u16) -> Probe {
        super::probe(&Opening {
            originator: bytes,
            ports: [40000, port],
            is_datagram: true,
            ..Opening::default()
        })
    }

    fn stream(bytes: &[u8], port: u16) -> Probe {
        super::probe(&Opening { originator: bytes, ports: [40000, port], ..Opening::default() })
    }

    #[test]
    fn a_whole_query_is_enough_on_any_port() {
        assert_eq!(datagram(QUERY, 53), Probe::Certain);
        assert_eq!(datagram(QUERY, 9999), Probe::Certain);
        assert_eq!(stream(&[&[0, 29], QUERY].concat(), 9999), Probe::Certain);
    }

    #[test]
    fn elsewhere_every_byte_must_fit() {
        assert_eq!(datagram(&[QUERY, b"x"].concat(), 9999), Probe::NotForUs);
        assert_eq!(datagram(&[QUERY, b"x"].concat(), 53), Probe::Certain);
        assert_eq!(datagram(&QUERY[..QUERY.len() - 1], 9999), Probe::NotForUs);
    }

    #[test]
    fn a_stream_is_unsure_until_its_first_message_is_whole() {
        let bytes = [&[0, 29], QUERY].concat();
        for length in 0..bytes.len() {
            assert_eq!(stream(&bytes[..length], 9999), Probe::Unsure, "{length}");
        }
        assert_eq!(stream(&bytes, 53), Probe::Certain);
    }

    #[test]
    fn other_protocols_are_not_for_us() {
        for bytes in [
            &b"GET / HTTP/1.1\r\nHost: x\r\n"[..],
            b"SSH-2.0-OpenSSH_9.0\r\n",
            b"220 mail ESMTP ready\r\n",
            &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0, 0, 0],
            &[0; 64],
            &[0xff; 64],
        ] {
            assert_eq!(stream(bytes, 9999), Probe::NotForUs, "{bytes:?}");
            assert_eq!(stream(bytes, 53), Probe::NotForUs, "{bytes:?}");
            assert_eq!(datagram(bytes, 53), Probe::NotForUs, "{bytes:?}");
        }
    }

    #[test]
    fn queries_with_reserved_bits_and_errors_are_answered_on_their_port() {
        for flags in [0x40, 0x0b] {
            let query = [&QUERY[..3], &[flags], &QUERY[4..]].concat();
            assert_eq!((datagram(&query, 53), datagram(&query, 9999)), (Probe::Certain, Probe::NotForUs));
        }
    }

    #[test]
    fn a_refusal_of_twelve_bytes_is_dns_on_its_port() {
        let refusal = b"\x12\x34\x80\x05\0\0\0\0\0\0\0\0";
        assert_eq!((datagram(refusal, 53), datagram(refusal, 9999)), (Probe::Certain, Probe::NotForUs));
    }
}
