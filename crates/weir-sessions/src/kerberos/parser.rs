//! [`KerberosParser`]: turns bytes of both directions into exchanges; and detection.

use super::message::{Kind, Message, is_tag};
use crate::frames::{Frames, Head, Next};
use crate::pairing::Pairing;
use crate::{CutOff, Data, Direction, Opening, Probe, Progress, Session, SessionParser};
use weir_packet::Timestamp;

/// Maximum length of a message over TCP. A TGS request has its tickets before its other fields.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of unanswered requests per flow.
pub const WAITING_MAX: usize = 32;

/// Bytes of the length prefix over TCP (RFC 4120 §7.2.2).
const LENGTH_BYTES: usize = 4;

/// Measures a message over TCP by its length prefix and tag. The highest bit of the length is reserved.
fn measure(bytes: &[u8]) -> Head {
    match bytes {
        [0, a, b, c, tag, ..] if is_tag(*tag) => {
            let length = u32::from_be_bytes([0, *a, *b, *c]);
            if length < 8 { Head::Wrong } else { Head::Bytes(LENGTH_BYTES as u64 + u64::from(length)) }
        }
        [] | [0] | [0, _] | [0, _, _] | [0, _, _, _] => Head::Short,
        _ => Head::Wrong,
    }
}

/// The bytes after the length of an element; an error is the result of the probe.
fn behind_length(bytes: &[u8]) -> Result<&[u8], Probe> {
    match bytes.split_first() {
        None => Err(Probe::Unsure),
        Some((0..=0x7f, rest)) => Ok(rest),
        Some((long @ 0x81..=0x84, rest)) => rest.get(usize::from(long & 7)..).ok_or(Probe::Unsure),
        Some(_) => Err(Probe::NotForUs),
    }
}

/// The bytes after the prefix `wanted`; an error is the result of the probe.
fn behind<'a>(bytes: &'a [u8], wanted: &[u8]) -> Result<&'a [u8], Probe> {
    let known = bytes.len().min(wanted.len());
    match bytes[..known] == wanted[..known] {
        false => Err(Probe::NotForUs),
        true => bytes.get(wanted.len()..).ok_or(Probe::Unsure),
    }
}

/// Whether the bytes begin a message: its tag, a sequence, version 5, and the message type of the tag.
fn begin(bytes: &[u8]) -> Result<(), Probe> {
    let (tag, rest) = bytes.split_first().ok_or(Probe::Unsure)?;
    if !is_tag(*tag) {
        return Err(Probe::NotForUs);
    }
    let rest = behind(behind_length(rest)?, &[0x30])?;
    let first = if matches!(tag, 0x6a | 0x6c) { 0xa1 } else { 0xa0 };
    behind(behind_length(rest)?, &[first, 3, 2, 1, 5, first + 1, 3, 2, 1, tag & 0x1f]).map(|_| ())
}

fn side(bytes: &[u8], is_datagram: bool) -> Probe {
    let told = if is_datagram {
        // A datagram is complete, so a truncated message is not Kerberos.
        begin(bytes).map_err(|_| Probe::NotForUs)
    } else {
        match measure(bytes) {
            Head::Bytes(_) => begin(&bytes[LENGTH_BYTES..]),
            Head::Short => Err(Probe::Unsure),
            Head::Wrong => Err(Probe::NotForUs),
        }
    };
    told.err().unwrap_or(Probe::Certain)
}

/// Detects the first message of either side.
pub(super) fn probe(opening: &Opening<'_>) -> Probe {
    let [originator, responder] =
        [opening.originator, opening.responder].map(|bytes| side(bytes, opening.is_datagram));
    match (originator, responder) {
        (Probe::Certain, _) | (_, Probe::Certain) => Probe::Certain,
        (Probe::NotForUs, _) | (_, Probe::NotForUs) => Probe::NotForUs,
        _ => Probe::Unsure,
    }
}

/// Parses one connection or flow.
#[derive(Debug, Default)]
pub struct KerberosParser {
    sides: [Frames; 2],
    pairing: Pairing<Message, WAITING_MAX>,
    cut_off: CutOff,
}

type Sessions = Vec<Box<dyn Session>>;

impl SessionParser for KerberosParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Sessions) -> Progress {
        if data.is_datagram {
            let Some(message) = Message::parse(data.bytes) else { return Progress::NotMine };
            self.take_message(data.from, data.time, message, sessions);
            return Progress::Wanted;
        }
        let mut rest = data.bytes;
        loop {
            let frames = &mut self.sides[data.from as usize];
            match frames.next(&mut rest, data.time, MESSAGE_BYTES_MAX, measure) {
                Next::Frame(frame) => {
                    let message = frame.bytes.get(LENGTH_BYTES..).and_then(Message::parse);
                    self.cut_off.parts += u64::from(frame.length_bytes > MESSAGE_BYTES_MAX as u64);
                    if let Some(message) = message {
                        self.take_message(data.from, frame.time, message, sessions);
                    }
                }
                Next::More => return Progress::Wanted,
                Next::Lost => {
                    self.finish(sessions);
                    return Progress::Done;
                }
            }
        }
    }

    fn gap(&mut self, from: Direction, length_bytes: u64, _: &mut Sessions) -> Progress {
        self.sides[from as usize].lose(length_bytes);
        Progress::Wanted
    }

    fn finish(&mut self, sessions: &mut Sessions) {
        sessions.extend(self.pairing.take_all().map(|unanswered| unanswered as Box<dyn Session>));
    }

    fn cut_off(&self) -> CutOff {
        CutOff { sessions: self.pairing.cut_off().sessions, ..self.cut_off }
    }
}

impl KerberosParser {
    fn take_message(&mut self, from: Direction, time: Timestamp, message: Message, sessions: &mut Sessions) {
        if matches!(message.kind, Kind::AsRequest | Kind::TgsRequest | Kind::ApRequest) {
            // A retransmitted request has the nonce of the first.
            let is_again = |waiting: &Message, request: &Message| {
                waiting.nonce.is_some() && (waiting.nonce, waiting.kind) == (request.nonce, request.kind)
            };
            let oldest = self.pairing.ask(from, time, message, is_again);
            return sessions.extend(oldest.map(|oldest| oldest as Box<dyn Session>));
        }
        let fits = |request: &Message, response: &Message| match response.kind {
            // An error names a service, but no request.
            Kind::Error => response.service.is_none() || response.service == request.service,
            kind => kind.name() == request.kind.name(),
        };
        sessions.push(self.pairing.answer(from, time, message, fits));
    }
}

#[cfg(test)]
mod tests {
    use super::super::PROTOCOL;
    use super::*;
    use crate::conversation::rows;
    use crate::wire::hex;

    const LOG: &[&str] = &["request_type", "client", "service", "success", "error_msg", "cipher"];

    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = content.len();
        let length =
            if length < 0x80 { vec![length as u8] } else { vec![0x82, (length >> 8) as u8, length as u8] };
        [&[tag], &length[..], content].concat()
    }

    fn list(fields: &[(u8, Vec<u8>)]) -> Vec<u8> {
        element(
            0x30,
            &fields.iter().flat_map(|(tag, content)| element(0xa0 | tag, content)).collect::<Vec<_>>(),
        )
    }

    fn number(number: u8) -> Vec<u8> {
        element(2, &[number])
    }

    fn string(text: &str) -> Vec<u8> {
        element(0x1b, text.as_bytes())
    }

    fn name(parts: &[&str]) -> Vec<u8> {
        let parts: Vec<u8> = parts.iter().flat_map(|part| string(part)).collect();
        list(&[(0, number(1)), (1, element(0x30, &parts))])
    }

    fn sealed(cipher: u8) -> Vec<u8> {
        list(&[(0, number(cipher)), (2, element(4, &[9; 200]))])
    }

    fn ticket(service: &[&str], cipher: u8) -> Vec<u8> {
        element(0x61, &list(&[(0, number(5)), (1, string("EX")), (2, name(service)), (3, sealed(cipher))]))
    }

    fn request(kind: u8, client: Option<&str>, service: &[&str], nonce: u8) -> Vec<u8> {
        let mut body = vec![(0, element(3, &[0, 0x40, 0x80, 0, 0]))];
        body.extend(client.map(|client| (1, name(&[client]))));
        body.extend([
            (2, string("EX")),
            (3, name(service)),
            (5, element(0x18, b"20370913024805Z")),
            (7, number(nonce)),
            (8, element(0x30, &[number(18), number(23)].concat())),
        ]);
        let shown =
            element(0x6e, &list(&[(0, number(5)), (1, number(14)), (3, ticket(&["krbtgt", "EX"], 18))]));
        let proof = match client {
            Some(_) => list(&[(1, number(2)), (2, element(4, b"now"))]),
            None => list(&[(1, number(1)), (2, element(4, &shown))]),
        };
        let fields = [(1, number(5)), (2, number(kind)), (3, element(0x30, &proof)), (4, list(&body))];
        element(0x60 | kind, &list(&fields))
    }

    fn reply(kind: u8, service: &[&str], cipher: u8) -> Vec<u8> {
        element(
            0x60 | kind,
            &list(&[
                (0, number(5)),
                (1, number(kind)),
                (3, string("EX")),
                (4, name(&["bob"])),
                (5, ticket(service, cipher)),
                (6, sealed(18)),
            ]),
        )
    }

    fn error(code: u8, service: &[&str]) -> Vec<u8> {
        element(
            0x7e,
            &list(&[
                (0, number(5)),
                (1, number(30)),
                (6, number(code)),
                (9, string("EX")),
                (10, name(service)),
                (11, string("why")),
            ]),
        )
    }

    const TGT: &[&str] = &["krbtgt", "EX"];
    const WEB: &[&str] = &["http", "web"];

    fn conversation(framed: impl Fn(&[u8]) -> String) -> String {
        [
            ('>', request(10, Some("bob"), TGT, 1)),
            ('>', request(10, Some("bob"), TGT, 1)),
            ('<', error(25, TGT)),
            ('>', request(10, Some("bob"), TGT, 2)),
            ('<', reply(11, TGT, 18)),
            ('>', request(12, None, WEB, 3)),
            ('<', reply(13, WEB, 23)),
            ('>', request(12, None, &["nope"], 4)),
            ('<', error(7, &["nope"])),
            ('>', request(10, Some("eve"), TGT, 5)),
        ]
        .iter()
        .map(|(side, message)| format!("{side} {}\n", framed(message)))
        .collect()
    }

    fn with_length(message: &[u8]) -> String {
        hex(&[&(message.len() as u32).to_be_bytes()[..], message].concat())
    }

    #[test]
    fn tickets_are_given_and_refused() {
        let expected = [
            "AS | bob/EX | krbtgt/EX | false | KDC_ERR_PREAUTH_REQUIRED | -",
            "AS | bob/EX | krbtgt/EX | true | - | aes256-cts-hmac-sha1-96",
            "TGS | bob/EX | http/web | true | - | rc4-hmac",
            "TGS | - | nope | false | KDC_ERR_S_PRINCIPAL_UNKNOWN | -",
            "AS | eve/EX | krbtgt/EX | - | - | -",
        ];
        assert_eq!(rows(&PROTOCOL, &format!("datagrams\n{}", conversation(hex)), LOG), expected);
        assert_eq!(rows(&PROTOCOL, &conversation(with_length), LOG), expected);
    }

    #[test]
    fn what_a_request_wants() {
        let talk = format!("datagrams\n> {}\n", hex(&request(12, None, WEB, 3)));
        let names = [
            "till",
            "forwardable",
            "renewable",
            "kerberos.etype",
            "kerberos.padata_type",
            "kerberos.shown_cipher",
        ];
        assert_eq!(
            rows(&PROTOCOL, &talk, &names),
            [
                "2136422885000000000 | true | true | aes256-cts-hmac-sha1-96,rc4-hmac | 1 | aes256-cts-hmac-sha1-96"
            ]
        );
    }

    #[test]
    fn one_side_alone_and_gaps() {
        let answers = format!("< {}\n< {}\n", with_length(&error(6, TGT)), with_length(&reply(13, WEB, 18)));
        assert_eq!(
            rows(&PROTOCOL, &answers, LOG),
            [
                "- | - | krbtgt/EX | false | KDC_ERR_C_PRINCIPAL_UNKNOWN | -",
                "TGS | bob/EX | http/web | true | - | aes256-cts-hmac-sha1-96",
            ]
        );
        let asked = format!("> {}\n", with_length(&request(10, Some("bob"), TGT, 1)));
        let lossy = asked.clone() + "< gap 300\n" + &answers;
        assert_eq!(rows(&PROTOCOL, &lossy, &["client", "success"]), ["bob/EX | false", "bob/EX | true"]);
        let lost = asked + "< gap 300\n< 55\n" + &answers;
        assert_eq!(rows(&PROTOCOL, &lost, &["client", "success"]), ["bob/EX | -"]);
    }

    #[test]
    fn a_message_tells() {
        let probe = |originator: &[u8], is_datagram| {
            super::probe(&Opening { originator, is_datagram, ..Opening::default() })
        };
        let message = request(10, Some("bob"), TGT, 1);
        assert_eq!(probe(&message, true), Probe::Certain);
        assert_eq!(probe(&message[..10], true), Probe::NotForUs);
        let framed = [&(message.len() as u32).to_be_bytes()[..], &message].concat();
        for length in 0..18 {
            assert_eq!(probe(&framed[..length], false), Probe::Unsure, "{length}");
        }
        assert_eq!(probe(&framed[..26], false), Probe::Certain);
        for other in [&b"\x30\x29\x02\x01\x01"[..], b"GET / HTTP/1.1", &[0x6a; 40], &[0, 0, 0, 9, 0x30]] {
            assert_eq!(probe(other, false), Probe::NotForUs);
            assert_eq!(probe(other, true), Probe::NotForUs);
        }
    }

    #[test]
    fn no_message_that_is_cut_does_harm() {
        for message in [request(12, None, WEB, 3), reply(11, TGT, 18), error(6, TGT)] {
            for length in 0..message.len() {
                assert_eq!(Message::parse(&message[..length]), None);
            }
            assert!(Message::parse(&message).is_some());
        }
    }
}
