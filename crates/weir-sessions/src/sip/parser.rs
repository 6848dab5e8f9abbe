//! [`SipParser`]: parses bytes of both directions into transactions; and the probe.

use super::message::{Message, Start};
use super::transaction::SipTransaction;
use crate::line::Lines;
use crate::pairing::Waiting;
use crate::{CutOff, Data, Direction, Opening, Probe, Progress, Session, SessionParser};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use weir_packet::Timestamp;

/// Maximum number of bytes kept of a line.
pub const LINE_BYTES_MAX: usize = 2048;

/// Maximum number of requests of a flow that wait for their final responses.
pub const WAITING_MAX: usize = 32;

/// Completed transactions whose retransmissions are still recognised.
const OVER_MAX: usize = 32;

/// Consecutive lines without SIP after which a stream is given up.
const STRAY_LINES_MAX: u32 = 256;

/// Parser state of one direction.
#[derive(Debug, Default)]
struct Side {
    lines: Lines,
    /// The message whose headers are being read.
    message: Option<Box<Message>>,
    /// Missing bytes of a body.
    body_bytes: u64,
    /// The body of `message` is read: a description of media.
    is_in_media: bool,
    stray_lines: u32,
}

/// Parses the transactions of one flow.
#[derive(Debug, Default)]
pub struct SipParser {
    sides: [Side; 2],
    waiting: Waiting<Box<SipTransaction>, WAITING_MAX>,
    /// Digests of the keys of completed transactions, oldest first.
    over: VecDeque<u64>,
    depth: u64,
    cut_off: CutOff,
}

/// Whether a datagram begins with the first line of a message, perhaps behind blank lines, or has only such
/// lines or zeros.
fn begins_message(datagram: &[u8]) -> bool {
    let is_blank = |byte: &u8| matches!(byte, 0 | b'\r' | b'\n');
    let Some(begin) = datagram.iter().position(|byte| !is_blank(byte)) else { return true };
    let line = datagram[begin..].split(|byte| *byte == b'\n').next().unwrap_or_default();
    Start::parse(line.strip_suffix(b"\r").unwrap_or(line)).is_some()
}

impl SessionParser for SipParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if data.is_datagram {
            // Each datagram has one message (§18.3), or keeps the flow open.
            if !begins_message(data.bytes) {
                return Progress::NotMine;
            }
            self.sides[data.from as usize] = Side::default();
        }
        let mut rest = data.bytes;
        loop {
            let side = &mut self.sides[data.from as usize];
            if side.is_in_media {
                side.read_media(&mut rest, data.time);
                if side.body_bytes > 0 {
                    break;
                }
                self.end_media(data.from, sessions);
                if data.is_datagram {
                    break;
                }
                continue;
            }
            let skipped = usize::try_from(side.body_bytes).unwrap_or(usize::MAX).min(rest.len());
            side.body_bytes -= skipped as u64;
            rest = &rest[skipped..];
            let Some(line) = side.lines.next(&mut rest, data.time, LINE_BYTES_MAX) else { break };
            self.cut_off.parts += u64::from(line.is_cut);
            let Some(message) = &mut side.message else {
                if let Some(start) = Start::parse(&line.bytes) {
                    side.message = Some(Box::new(Message::new(start, line.time)));
                    side.stray_lines = 0;
                } else if !line.bytes.is_empty() {
                    side.stray_lines += 1;
                    if side.stray_lines > STRAY_LINES_MAX {
                        self.finish(sessions);
                        return Progress::Done;
                    }
                }
                continue;
            };
            if !line.bytes.is_empty() {
                self.cut_off.parts += u64::from(!message.take_header(&line.bytes));
                continue;
            }
            if data.is_datagram {
                // The datagram's end is the body's end.
                message.body_bytes = message.body_bytes.or(Some(rest.len() as u64));
            }
            let body_bytes =
                if data.is_datagram { rest.len() as u64 } else { message.body_bytes.unwrap_or(0) };
            if body_bytes > 0 && message.describes_media() {
                (side.is_in_media, side.body_bytes) = (true, body_bytes);
                continue;
            }
            let Some(message) = side.message.take() else { continue };
            side.body_bytes = body_bytes;
            self.take_message(data.from, *message, sessions);
            if data.is_datagram {
                break;
            }
        }
        Progress::Wanted
    }

    fn gap(&mut self, from: Direction, length_bytes: u64, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        let side = &mut self.sides[from as usize];
        if length_bytes <= side.body_bytes {
            side.body_bytes -= length_bytes;
            if side.is_in_media && length_bytes > 0 {
                side.lines.lose();
                if side.body_bytes == 0 {
                    self.end_media(from, sessions);
                }
            }
        } else {
            if side.is_in_media {
                side.lines.lose();
                self.end_media(from, sessions);
            }
            let side = &mut self.sides[from as usize];
            // Skip the remaining headers until the next start line.
            *side = Side::default();
        }
        Progress::Wanted
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        for from in Direction::BOTH {
            self.end_media(from, sessions);
        }
        sessions.extend(self.waiting.take_all().map(|waiting| waiting as Box<dyn Session>));
        self.sides = Default::default();
        self.over = VecDeque::new();
    }

    fn cut_off(&self) -> CutOff {
        CutOff { sessions: self.waiting.evicted(), ..self.cut_off }
    }
}

impl Side {
    /// Reads the lines of a description of media off the front of `bytes`.
    fn read_media(&mut self, bytes: &mut &[u8], time: Timestamp) {
        let length = usize::try_from(self.body_bytes).unwrap_or(usize::MAX).min(bytes.len());
        let (mut body, rest) = bytes.split_at(length);
        self.body_bytes -= length as u64;
        *bytes = rest;
        while let (Some(line), Some(message)) =
            (self.lines.next(&mut body, time, LINE_BYTES_MAX), &mut self.message)
        {
            message.take_media(&line.bytes);
        }
    }
}

impl SipParser {
    /// Ends the description of media (SDP) of a message, whose last line may lack its line end, and takes the
    /// message.
    fn end_media(&mut self, from: Direction, sessions: &mut Vec<Box<dyn Session>>) {
        let side = &mut self.sides[from as usize];
        if !std::mem::take(&mut side.is_in_media) {
            return;
        }
        if let (false, Some(message)) = (side.lines.is_between(), &mut side.message)
            && let Some(line) = side.lines.next(&mut &b"\n"[..], message.time, LINE_BYTES_MAX)
        {
            message.take_media(&line.bytes);
        }
        if let Some(message) = side.message.take() {
            self.take_message(from, *message, sessions);
        }
    }

    fn take_message(&mut self, from: Direction, message: Message, sessions: &mut Vec<Box<dyn Session>>) {
        let is_same = |waiting: &SipTransaction| {
            waiting.request.as_ref().is_some_and(|request| request.key() == message.key())
        };
        if self.over.contains(&digest(&message)) {
            let is_request = matches!(message.start, Start::Request { .. });
            let client = if is_request { from } else { from.other() };
            let mut transaction = Box::new(SipTransaction::new(message.time, client, self.next_depth()));
            transaction.is_resent = true;
            transaction.take(&message);
            *(if is_request { &mut transaction.request } else { &mut transaction.response }) = Some(message);
            sessions.push(transaction);
            return;
        }
        match &message.start {
            Start::Request { method, .. } => {
                if let Some(asked) = self.waiting.find(|waiting| waiting.client == from && is_same(waiting)) {
                    self.cut_off.parts += u64::from(!asked.take(&message));
                    return;
                }
                // ACK has no response (§17.1.1.3).
                let is_ack = method == "ACK";
                let mut transaction = Box::new(SipTransaction::new(message.time, from, self.next_depth()));
                transaction.take(&message);
                transaction.request = Some(message);
                if is_ack {
                    self.yield_over(transaction, sessions);
                } else {
                    let mut evicted = None;
                    self.waiting.push(transaction, |oldest| evicted = Some(oldest));
                    if let Some(oldest) = evicted {
                        self.yield_over(oldest, sessions);
                    }
                }
            }
            Start::Response { code: 0..200, .. } => {
                if let Some(asked) = self.waiting.find(|waiting| waiting.client != from && is_same(waiting)) {
                    self.cut_off.parts += u64::from(!asked.take(&message));
                    asked.answer(message);
                }
            }
            Start::Response { .. } => {
                let asked = self.waiting.take(|waiting| waiting.client != from && is_same(waiting));
                let mut transaction = match asked {
                    Some(asked) => asked,
                    None => Box::new(SipTransaction::new(message.time, from.other(), self.next_depth())),
                };
                self.cut_off.parts += u64::from(!transaction.take(&message));
                transaction.answer(message);
                self.yield_over(transaction, sessions);
            }
        }
    }

    /// The number of the next transaction.
    fn next_depth(&mut self) -> u64 {
        self.depth += 1;
        self.depth - 1
    }

    fn yield_over(&mut self, transaction: Box<SipTransaction>, sessions: &mut Vec<Box<dyn Session>>) {
        if let Some(message) = transaction.request.as_ref().or(transaction.response.as_ref()) {
            if self.over.len() == OVER_MAX {
                self.over.pop_front();
            }
            self.over.push_back(digest(message));
        }
        sessions.push(transaction);
    }
}

/// A digest of a message's transaction key.
fn digest(message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    message.key().hash(&mut hasher);
    hasher.finish()
}

/// Methods registered with IANA.
const METHODS: &[&[u8]] = &[
    b"ACK",
    b"BYE",
    b"CANCEL",
    b"INFO",
    b"INVITE",
    b"MESSAGE",
    b"NOTIFY",
    b"OPTIONS",
    b"PRACK",
    b"PUBLISH",
    b"REFER",
    b"REGISTER",
    b"SUBSCRIBE",
    b"UPDATE",
];

/// Schemes of request URIs.
const SCHEMES: &[&[u8]] = &[b"sip:", b"sips:", b"tel:"];

/// Recognises a start line from either side.
pub(super) fn probe(opening: &Opening<'_>) -> Probe {
    let [originator, responder] = [opening.originator, opening.responder].map(side);
    match (originator, responder) {
        (Probe::Certain, _) | (_, Probe::Certain) => Probe::Certain,
        (Probe::NotForUs, _) | (_, Probe::NotForUs) => Probe::NotForUs,
        _ => Probe::Unsure,
    }
}

fn side(bytes: &[u8]) -> Probe {
    let blank = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let bytes = &bytes[blank..];
    if bytes.first().is_some_and(|first| !first.is_ascii_uppercase()) {
        return Probe::NotForUs;
    }
    let best = |probes: &mut dyn Iterator<Item = Probe>| {
        probes.fold(Probe::NotForUs, |best, probe| match (best, probe) {
            (Probe::Certain, _) | (_, Probe::Certain) => Probe::Certain,
            (Probe::Unsure, _) | (_, Probe::Unsure) => Probe::Unsure,
            _ => Probe::NotForUs,
        })
    };
    let request = |method: &&[u8]| match Probe::of_word(bytes, method) {
        Probe::Certain => match bytes[method.len()..].split_first() {
            Some((b' ', uri)) => best(&mut SCHEMES.iter().map(|scheme| Probe::of_word(uri, scheme))),
            Some(_) => Probe::NotForUs,
            None => Probe::Unsure,
        },
        other => other,
    };
    match blank {
        // Keep-alives (RFC 5626 §3.5.1).
        0..=8 => best(&mut METHODS.iter().map(request).chain([Probe::of_word(bytes, b"SIP/2.0 ")])),
        _ => Probe::NotForUs,
    }
}

#[cfg(test)]
mod tests {
    use super::super::PROTOCOL;
    use crate::conversation::rows;
    use crate::{Opening, Probe};

    const CALL: &[&str] = &["trans_depth", "method", "uri", "seq", "status_code", "status_msg"];

    fn request(method: &str, number: u32) -> String {
        format!(
            "> \"{method} sip:b@y.example SIP/2.0\\r\\nVia: SIP/2.0/UDP h.example:5060;branch=z9hG4bK{number};rport\\r\\n\
             f: <sip:a@x.example>;tag=1\\r\\nTo: Bob <sip:b@y.example>\\r\\ni: 7@h\\r\\nCSeq: {number} {method}\\r\\n\
             User-Agent: phone\\r\\nl: 4\\r\\nc: application/sdp\\r\\n\\r\\nv=0\\n\"\n"
        )
    }

    fn response(code: &str, method: &str, number: u32) -> String {
        format!(
            "< \"SIP/2.0 {code}\\r\\nVia: SIP/2.0/UDP h.example:5060;branch=z9hG4bK{number};rport=9\\r\\n\
             From: <sip:a@x.example>;tag=1\\r\\nTo: Bob <sip:b@y.example>;tag=2\\r\\nCall-ID: 7@h\\r\\n\
             CSeq: {number} {method}\\r\\nServer: proxy\\r\\nContent-Length: 0\\r\\n\\r\\n\"\n"
        )
    }

    #[test]
    fn a_call_is_taken_and_ended() {
        let steps = [
            request("INVITE", 1),
            response("180 Ringing", "INVITE", 1),
            response("200 OK", "INVITE", 1),
            request("ACK", 2),
            request("BYE", 3),
            response("200 OK", "BYE", 3),
        ];
        let expected = [
            "0 | INVITE | sip:b@y.example | 1 INVITE | 200 | OK",
            "1 | ACK | sip:b@y.example | 2 ACK | - | -",
            "2 | BYE | sip:b@y.example | 3 BYE | 200 | OK",
        ];
        assert_eq!(rows(&PROTOCOL, &steps.concat(), CALL), expected, "over TCP");
        assert_eq!(rows(&PROTOCOL, &format!("datagrams\n{}", steps.concat()), CALL), expected, "over UDP");
    }

    #[test]
    fn all_columns_are_filled() {
        let names = [
            "request_from",
            "request_to",
            "response_to",
            "call_id",
            "request_path",
            "response_path",
            "user_agent",
            "sip.server",
            "request_body_len",
            "response_body_len",
            "content_type",
        ];
        let talk = request("OPTIONS", 5) + &response("404 Not Found", "OPTIONS", 5);
        assert_eq!(
            rows(&PROTOCOL, &talk, &names),
            ["<sip:a@x.example> | Bob <sip:b@y.example> | Bob <sip:b@y.example> | 7@h | \
              SIP/2.0/UDP h.example:5060 | SIP/2.0/UDP h.example:5060 | phone | proxy | 4 | 0 | application/sdp"]
        );
    }

    #[test]
    fn repetitions_are_one_and_answers_come_in_any_order() {
        let talk = [
            "datagrams\n".to_owned(),
            request("REGISTER", 1),
            request("REGISTER", 1),
            request("MESSAGE", 2),
            response("200 OK", "MESSAGE", 2),
            response("401 Unauthorized", "REGISTER", 1),
            response("401 Unauthorized", "REGISTER", 1),
            request("REGISTER", 1),
        ];
        assert_eq!(
            rows(&PROTOCOL, &talk.concat(), &["seq", "status_code", "messages", "resent"]),
            [
                "2 MESSAGE | 200 | MESSAGE,200 OK | false",
                "1 REGISTER | 401 | REGISTER,REGISTER,401 Unauthorized | false",
                "1 REGISTER | 401 | 401 Unauthorized | true",
                "1 REGISTER | - | REGISTER | true",
            ]
        );
    }

    #[test]
    fn provisional_answers_are_listed_and_hops_of_one_line_are_several() {
        let talk = [
            request("INVITE", 1).replace("Via: ", "Via: SIP/2.0/UDP \\\"a,b\\\".example ;branch=z9hG4bK0, "),
            response("100 Trying", "INVITE", 1).replace("Via: ", "Via: SIP/2.0/UDP p;branch=z9hG4bK0, "),
            response("180 Ringing", "INVITE", 1).replace("Via: ", "Via: SIP/2.0/UDP p;branch=z9hG4bK0, "),
        ];
        assert_eq!(
            rows(&PROTOCOL, &talk.concat(), &["request_path", "response_path", "status_code", "messages"]),
            [
                "SIP/2.0/UDP \"a,b\".example ,SIP/2.0/UDP h.example:5060 | SIP/2.0/UDP p,SIP/2.0/UDP h.example:5060 | \
              180 | INVITE,100 Trying,180 Ringing"
            ]
        );
    }

    #[test]
    fn media_are_listed_with_their_addresses() {
        let sdp = "v=0\\r\\nc=IN IP4 192.0.2.7\\r\\nm=audio 4000/2 RTP/AVP 0\\r\\nm=video 4002 RTP/AVP 31\\r\\nc=IN IP6 2001:db8::7";
        let length = sdp.replace("\\r\\n", "..").len();
        let message = |rest: &str| {
            format!(
                "> \"INVITE sip:b@y SIP/2.0\\r\\nCall-ID: 7\\r\\nc: application/sdp\\r\\nl: {length}\\r\\n\\r\\n{rest}"
            )
        };
        let names = ["method", "request_media"];
        let whole = message(sdp) + "\"\n";
        let expected = "INVITE | audio 192.0.2.7:4000,video [2001:db8::7]:4002";
        assert_eq!(rows(&PROTOCOL, &format!("datagrams\n{whole}"), &names), [expected]);
        let next = whole.replace("INVITE", "UPDATE").replace("Call-ID: 7", "Call-ID: 8");
        assert_eq!(
            rows(&PROTOCOL, &(whole + &next), &names),
            [expected.to_owned(), expected.replace("INVITE", "UPDATE")]
        );
        let lost =
            message("v=0\\r\\nm=audio 4000 RTP/AVP 0\\r\\nm=vi") + &format!("\"\n> gap {}\n", length - 33);
        assert_eq!(rows(&PROTOCOL, &(lost + &next), &["method"]), ["INVITE", "UPDATE"]);
    }

    #[test]
    fn one_side_alone_and_gaps() {
        assert_eq!(rows(&PROTOCOL, &request("INVITE", 1), &["method", "status_code"]), ["INVITE | -"]);
        assert_eq!(
            rows(&PROTOCOL, &response("603 Decline", "INVITE", 1), &["method", "status_code"]),
            ["INVITE | 603"]
        );
        let talk = "> \"INVITE sip:\"\n> gap 100\n> \"x: y\\r\\n\\r\\n\"\n".to_owned() + &request("BYE", 2);
        assert_eq!(rows(&PROTOCOL, &talk, &["method"]), ["BYE"]);
        // A gap within a body is harmless.
        let talk = "> \"INFO sip:a SIP/2.0\\r\\nCall-ID: 1\\r\\nContent-Length: 9\\r\\n\\r\\nabc\"\n> gap 6\n"
            .to_owned() + &request("BYE", 2);
        assert_eq!(rows(&PROTOCOL, &talk, &["method"]), ["INFO", "BYE"]);
    }

    #[test]
    fn its_start_lines_make_it_one() {
        let probe = |originator: &[u8]| (PROTOCOL.probe)(&Opening { originator, ..Opening::default() });
        assert_eq!(probe(b"INVITE sip:a@b SIP/2.0\r\n"), Probe::Certain);
        assert_eq!(probe(b"\r\n\r\nOPTIONS sip:a"), Probe::Certain);
        assert_eq!(probe(b"SIP/2.0 200 OK\r\n"), Probe::Certain);
        assert_eq!(probe(b"OPTIONS "), Probe::Unsure);
        assert_eq!(probe(b"INV"), Probe::Unsure);
        for other in [
            &b"OPTIONS * HTTP/1.1\r\n"[..],
            b"NOTIFY * HTTP/1.1\r\n",
            b"OPTIONS rtsp://x RTSP/1.0",
            b"SSH-2.0",
        ] {
            assert_eq!(probe(other), Probe::NotForUs);
        }
    }
}
