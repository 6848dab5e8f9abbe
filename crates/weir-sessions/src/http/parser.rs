//! [`HttpParser`]: selects the parser of the HTTP version.
//!
//! HTTP/2 with prior knowledge (RFC 9113 §3.3) begins with a preface that is no HTTP/1 request; the server's
//! first frame begins with a zero byte, which begins no line. At most the preface is buffered until the
//! version is known.

use super::http1::{Http1, PREFACE_HEAD_BYTES};
use super::http2::Http2;
use super::http2::frame::PREFACE;
use crate::{Contents, Context, CutOff, Data, Direction, Early, Progress, Session, SessionParser};
use weir_packet::Timestamp;

/// Parses the exchanges of one connection in HTTP/1 or HTTP/2.
#[derive(Debug, Default)]
pub struct HttpParser {
    which: Which,
    /// Whether a side has sent bytes.
    has_sent: [bool; 2],
    contents: Contents,
    early: Early,
}

#[derive(Debug)]
enum Which {
    /// The bytes so far are empty, or a prefix of the HTTP/2 preface.
    Unknown {
        /// Length, direction and time of this prefix.
        preface_bytes: usize,
        from: Direction,
        time: Timestamp,
    },
    One(Box<Http1>),
    Two(Box<Http2>),
}

impl Default for Which {
    fn default() -> Self {
        Self::Unknown { preface_bytes: 0, from: Direction::Originator, time: Timestamp(0) }
    }
}

impl SessionParser for HttpParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if data.bytes.is_empty() {
            return Progress::Wanted;
        }
        let is_first = !std::mem::replace(&mut self.has_sent[data.from as usize], true);
        if matches!(self.which, Which::Unknown { .. }) && !self.decide(data, sessions) {
            return Progress::Wanted;
        }
        if is_first && data.bytes[0] == 0 {
            self.correct(data.from, sessions);
        }
        match &mut self.which {
            Which::Unknown { .. } => Progress::Wanted,
            Which::One(parser) => {
                let progress = parser.parse(data, sessions);
                match (progress, parser.is_http2) {
                    (Progress::HandOver { rest_bytes }, true) => {
                        self.go_on_as_two(data, rest_bytes, sessions)
                    }
                    _ => progress,
                }
            }
            Which::Two(parser) => parser.parse(data, sessions),
        }
    }

    fn gap(&mut self, from: Direction, length_bytes: u64, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if length_bytes == 0 {
            return Progress::Wanted;
        }
        if matches!(self.which, Which::Unknown { .. }) {
            self.become_one(sessions);
        }
        match &mut self.which {
            Which::Unknown { .. } => Progress::Wanted,
            Which::One(parser) => {
                let progress = parser.gap(from, length_bytes, sessions);
                if parser.is_http2 { Progress::Done } else { progress }
            }
            Which::Two(parser) => parser.gap(from, length_bytes, sessions),
        }
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        match &mut self.which {
            Which::Unknown { .. } => {}
            Which::One(parser) => parser.finish(sessions),
            Which::Two(parser) => parser.finish(sessions),
        }
    }

    fn cut_off(&self) -> CutOff {
        match &self.which {
            Which::Unknown { .. } => CutOff::default(),
            Which::One(parser) => parser.cut_off(),
            Which::Two(parser) => parser.cut_off(),
        }
    }
}

impl HttpParser {
    /// Whether the connection is, or has become, one of HTTP/2.
    pub(super) fn is_two(&self) -> bool {
        matches!(self.which, Which::Two(_))
    }

    /// A parser in this context.
    pub(super) fn new(context: &Context<'_>) -> Self {
        Self { contents: context.contents().clone(), early: context.early(), ..Self::default() }
    }

    /// Decides the version if possible. Returns `true` if `data` is still to be parsed, `false` if it was
    /// buffered.
    fn decide(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> bool {
        let Which::Unknown { preface_bytes, from, time } = &mut self.which else { return true };
        if *preface_bytes > 0 && *from != data.from {
            // One side sends the preface; the first byte of the other side decides by itself.
            match data.bytes[0] {
                0 => self.become_two(sessions),
                _ => self.become_one(sessions),
            }
            return true;
        }
        if *preface_bytes == 0 {
            (*from, *time) = (data.from, data.time);
        }
        let rest = &PREFACE[*preface_bytes..];
        let known = rest.len().min(data.bytes.len());
        let same = rest.iter().zip(data.bytes).take_while(|(one, other)| one == other).count();
        if data.bytes[0] == 0 && *preface_bytes == 0 {
            self.become_two(sessions);
        } else if same < known {
            // No client of HTTP/1 sends the preface's head, so the rest is damaged.
            match *preface_bytes + same >= PREFACE_HEAD_BYTES {
                true => self.become_two(sessions),
                false => self.become_one(sessions),
            }
        } else if known < rest.len() {
            *preface_bytes += known;
            return false;
        } else {
            self.become_two(sessions);
        }
        true
    }

    fn become_one(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        let mut parser = Box::new(Http1::new(&self.contents, self.early));
        if let Some(data) = self.kept() {
            parser.parse(&data, sessions);
        }
        self.which = Which::One(parser);
    }

    /// Changes to HTTP/2, because the first byte of a side is zero, as that of a frame is, and no message of
    /// HTTP/1 was read. The other side may have begun with the tail of a frame, in the middle of a
    /// connection.
    fn correct(&mut self, from: Direction, sessions: &mut Vec<Box<dyn Session>>) {
        if matches!(&self.which, Which::One(parser) if !parser.has_begun()) {
            self.become_two(sessions);
            if let Which::Two(parser) = &mut self.which
                && self.has_sent[from.other() as usize]
            {
                parser.lose(from.other(), sessions);
            }
        }
    }

    fn become_two(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        let mut parser = Box::new(Http2::new(&self.contents, self.early));
        if let Some(data) = self.kept() {
            parser.parse(&data, sessions);
        }
        self.which = Which::Two(parser);
    }

    /// Switches to HTTP/2 in the middle of a connection: after `Upgrade: h2c`. If only one direction was
    /// captured, the start of its preface was read as a request.
    fn go_on_as_two(
        &mut self,
        data: &Data<'_>,
        rest_bytes: usize,
        sessions: &mut Vec<Box<dyn Session>>,
    ) -> Progress {
        let mut parser = Box::new(Http2::new(&self.contents, self.early));
        let (upgraded, cut_off) = match &mut self.which {
            Which::One(one) => (one.upgraded.take(), one.cut_off()),
            _ => (None, CutOff::default()),
        };
        parser.go_on_after(cut_off);
        match upgraded {
            Some(exchange) => parser.begin_with(*exchange),
            None => {
                parser.parse(&Data { bytes: &PREFACE[..PREFACE_HEAD_BYTES], ..*data }, sessions);
            }
        }
        let rest = &data.bytes[data.bytes.len() - rest_bytes..];
        let progress = if rest.is_empty() {
            Progress::Wanted
        } else {
            parser.parse(&Data { bytes: rest, ..*data }, sessions)
        };
        self.which = Which::Two(parser);
        progress
    }

    /// The buffered part of the preface.
    fn kept(&self) -> Option<Data<'static>> {
        match self.which {
            Which::Unknown { preface_bytes, from, time } if preface_bytes > 0 => {
                Some(Data { from, time, bytes: &PREFACE[..preface_bytes], is_datagram: false })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HttpExchange, PROTOCOL};
    use super::*;
    use crate::conversation::rows;

    #[test]
    fn the_preface_of_http2_is_no_request() {
        let upgrade: &[u8] =
            b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n";
        // SETTINGS, then a GET of /b with static-table entries, and an authority `h` (RFC 7541 §A).
        let frames: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x09\x01\x05\0\0\0\x03\x82\x86\x04\x02/b\x01\x01h";
        let sent = [upgrade, &PREFACE[..], frames].concat();
        for piece_bytes in [1, 7, upgrade.len() + 3, sent.len()] {
            let (mut parser, mut sessions) = (HttpParser::default(), vec![]);
            for piece in sent.chunks(piece_bytes) {
                let data = Data {
                    from: Direction::Originator,
                    time: Timestamp(0),
                    bytes: piece,
                    is_datagram: false,
                };
                assert_eq!(parser.parse(&data, &mut sessions), Progress::Wanted);
            }
            parser.finish(&mut sessions);
            let exchanges =
                sessions.iter().map(|session| session.as_any().downcast_ref::<HttpExchange>().unwrap());
            let requests = exchanges.filter_map(|exchange| exchange.request.as_ref());
            let targets: Vec<_> =
                requests.map(|request| (request.head.method(), request.head.target())).collect();
            assert_eq!(targets, [(&b"GET"[..], &b"/a"[..]), (b"GET", b"/b")], "in pieces of {piece_bytes}");
        }
    }

    /// The tail of a frame, an entry of the table that was not seen, a gap that hides where frames begin; in
    /// any pieces.
    #[test]
    fn http2_from_the_middle_has_what_is_known() {
        let talk = std::fs::read_to_string("../../corpus/http/http2-midway.talk").expect("a seed");
        let names =
            ["http2.streamid", "method", "http.request.uri", "host", "status_code", "response_body_len"];
        let expected = [
            "7 | - | - | - | 200 | 5",
            "9 | GET | /b | - | 204 | 0",
            "13 | GET | /c | - | 404 | 0",
            "11 | - | - | - | 200 | 0",
        ];
        assert_eq!(rows(&PROTOCOL, &talk, &names), expected);
        let conversation = crate::conversation::Conversation::parse(&talk);
        let whole = crate::conversation::run(&PROTOCOL, &conversation);
        for cut in [1, 4, 9, 10] {
            assert_eq!(crate::conversation::run(&PROTOCOL, &conversation.cut(&[cut])), whole, "{cut}");
        }
    }

    #[test]
    fn frames_in_sequence_name_a_running_connection() {
        use crate::{Opening, Probe};
        let probe = |originator: &[u8]| (PROTOCOL.probe)(&Opening { originator, ..Opening::default() });
        let headers = b"\0\0\x02\x01\x04\0\0\0\x07\x88\xbe";
        let data = b"\0\0\x05\0\x01\0\0\0\x07hello";
        let two = [&headers[..], data].concat();
        for length in 0..two.len() {
            let expected = if length < headers.len() + 9 { Probe::Unsure } else { Probe::Certain };
            assert_eq!(probe(&two[..length]), expected, "{length}");
        }
        // Of one type, three are needed.
        assert_eq!(probe(&data.repeat(2)), Probe::Unsure);
        assert_eq!(probe(&data.repeat(3)), Probe::Certain);
        // A type, a flag, a length and a stream that no frame has.
        for (at, byte) in [(3, 0x0a), (4, 0x40), (1, 0x70), (8, 0)] {
            let mut wrong = two.clone();
            wrong[at] = byte;
            assert_eq!(probe(&wrong), Probe::NotForUs, "byte {at}");
        }
        assert_eq!(probe(&[0; 100]), Probe::NotForUs);
    }

    /// Both versions: the request alone, a long body, the whole; however the bytes are divided.
    #[test]
    fn exchanges_are_yielded_early_on_demand() {
        use super::super::Reached;
        let mut registry = crate::SessionRegistry::default();
        registry.yield_early(3);
        let number = registry.number_of("http").expect("it is known");
        let one: [&[u8]; 2] =
            [b"GET /b HTTP/1.1\r\nHost: h\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"];
        let settings = b"\0\0\0\x04\0\0\0\0\0";
        let get = [&PREFACE[..], settings, b"\0\0\x09\x01\x05\0\0\0\x03\x82\x86\x04\x02/b\x01\x01h"].concat();
        // A status of 200 (RFC 7541, appendix A), then data that end the stream.
        let ok = [&settings[..], b"\0\0\x01\x01\x04\0\0\0\x03\x88\0\0\x05\0\x01\0\0\0\x03hello"].concat();
        // A stream that the client ends again and again is yielded once.
        let again = [&get[..], &b"\0\0\0\0\x01\0\0\0\x03".repeat(20)].concat();
        for sent in [one, [&get, &ok], [&again, &ok]] {
            for piece_bytes in [1, 4, 1_000] {
                let (mut parser, mut sessions) = (registry.open(number, false), vec![]);
                for (from, bytes) in Direction::BOTH.into_iter().zip(sent) {
                    for bytes in bytes.chunks(piece_bytes) {
                        parser.parse(
                            &Data { from, time: Timestamp(0), bytes, is_datagram: false },
                            &mut sessions,
                        );
                    }
                }
                parser.finish(&mut sessions);
                let exchanges = sessions
                    .iter()
                    .map(|one| one.as_any().downcast_ref::<HttpExchange>().expect("an exchange"));
                let seen: Vec<_> = exchanges
                    .map(|one| {
                        (one.early, one.depth, one.response.as_ref().map(|response| response.body_bytes >= 3))
                    })
                    .collect();
                let expected = [
                    (Some(Reached::Request), 1, None),
                    (Some(Reached::ResponseBody), 1, Some(true)),
                    (None, 1, Some(true)),
                ];
                assert_eq!(seen, expected, "pieces of {piece_bytes}");
            }
        }
    }

    #[test]
    fn users_name_themselves_to_servers_and_proxies() {
        for (header, user) in [
            ("Authorization: Basic YWxpY2U6c2VjcmV0", Some("alice")),
            ("Proxy-Authorization: basic Ym9iOng=", Some("bob")),
            ("Authorization: Bearer abc\r\nProxy-Authorization: Basic Ym9iOng=", Some("bob")),
            ("Authorization: Digest x", None),
        ] {
            let (mut parser, mut sessions) = (HttpParser::default(), vec![]);
            let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{header}\r\n\r\n");
            let from = Direction::Originator;
            let data = Data { from, time: Timestamp(0), bytes: request.as_bytes(), is_datagram: false };
            parser.parse(&data, &mut sessions);
            parser.finish(&mut sessions);
            let exchange = sessions[0].as_any().downcast_ref::<HttpExchange>().expect("an exchange");
            assert_eq!(exchange.user_name().as_deref(), user, "{header}");
        }
    }
}
