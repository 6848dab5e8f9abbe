//! WireGuard (its white paper, §5.4): one [`WireguardHandshake`] for each handshake. Only message types and
//! session indices are unencrypted.

use crate::pairing::{Held, Waiting};
use crate::session::{Words, session_fields};
use crate::values::{text, unsigned};
use crate::{
    ByteSet, CutOff, Data, Direction, FirstPlace, Opening, Probe, Progress, Session, SessionParser,
    SessionProtocol,
};
use std::any::Any;
use weir_packet::{Timestamp, Value};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "wireguard",
    service: "wireguard",
    log: "wireguard",
    transports: &["udp"],
    ports: &[51820],
    hands_over: &[],
    doc: "WireGuard: handshakes, which are repeated every two minutes while there is traffic",
    probe,
    may_begin,
    open: |_| Box::new(WireguardParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "result", "rtt"],
    fields: FIELDS,
};

/// The type of a handshake message, and three zeros.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| matches!(byte, 1 | 2)),
        1..=3 => ByteSet::of(|byte| byte == 0),
        _ => ByteSet::ALL,
    }
}

/// Maximum number of handshakes of a flow that wait for their responses.
pub const WAITING_MAX: usize = 16;

/// A handshake message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Message {
    /// The initiation, with the sender's index.
    Initiation { sender: u32 },
    /// The response, with the indices of both sides.
    Response { sender: u32, receiver: u32 },
    /// A cookie reply: a busy peer asks the initiator to retry with this cookie.
    Cookie { receiver: u32 },
}

impl Message {
    /// Parses a datagram. `None` if it is no handshake message. Each type has a fixed length.
    fn parse(datagram: &[u8]) -> Option<Self> {
        let words = datagram.as_chunks::<4>().0;
        let word = |at: usize| words.get(at).map_or(0, |word: &[u8; 4]| u32::from_le_bytes(*word));
        match (words.first()?, datagram.len()) {
            ([1, 0, 0, 0], 148) => Some(Self::Initiation { sender: word(1) }),
            ([2, 0, 0, 0], 92) => Some(Self::Response { sender: word(1), receiver: word(2) }),
            ([3, 0, 0, 0], 64) => Some(Self::Cookie { receiver: word(1) }),
            _ => None,
        }
    }
}

/// A handshake, as far as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireguardHandshake {
    /// Capture time of the first message.
    pub time: Timestamp,
    /// Direction of the initiator.
    pub initiator: Direction,
    /// Index of the initiator.
    pub initiator_index: Option<u32>,
    /// Index of the responder.
    pub responder_index: Option<u32>,
    /// Whether the responder was busy and sent a cookie.
    pub has_cookie: bool,
    /// Time from initiation to response, nanoseconds.
    pub rtt_ns: Option<u64>,
}

/// Recognises the type and the length of a handshake message.
fn probe(opening: &Opening<'_>) -> Probe {
    let is_first = |datagram| {
        matches!(Message::parse(datagram), Some(Message::Initiation { .. } | Message::Response { .. }))
    };
    if opening.is_datagram && (is_first(opening.originator) || is_first(opening.responder)) {
        Probe::Certain
    } else {
        Probe::NotForUs
    }
}

/// Parses the handshakes of one flow.
#[derive(Debug, Default)]
pub struct WireguardParser {
    waiting: Waiting<WireguardHandshake, WAITING_MAX>,
}

impl SessionParser for WireguardParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if !data.is_datagram {
            return Progress::Done;
        }
        let other = data.from.other();
        let is_asked = |index: u32| {
            move |waiting: &WireguardHandshake| {
                waiting.initiator == other && waiting.initiator_index == Some(index)
            }
        };
        let unknown = WireguardHandshake {
            time: data.time,
            initiator: other,
            initiator_index: None,
            responder_index: None,
            has_cookie: false,
            rtt_ns: None,
        };
        match Message::parse(data.bytes) {
            // Data, which are encrypted.
            None if data.bytes.starts_with(&[4, 0, 0, 0]) => {}
            None => return Progress::NotMine,
            Some(Message::Initiation { sender }) => {
                let begun =
                    WireguardHandshake { initiator: data.from, initiator_index: Some(sender), ..unknown };
                self.waiting.push(begun, |oldest| sessions.push(Box::new(oldest)));
            }
            Some(Message::Response { sender, receiver }) => {
                let mut handshake = match self.waiting.take(is_asked(receiver)) {
                    Some(asked) => {
                        WireguardHandshake { rtt_ns: Some(data.time.since_ns(asked.time)), ..asked }
                    }
                    None => WireguardHandshake { initiator_index: Some(receiver), ..unknown },
                };
                handshake.responder_index = Some(sender);
                sessions.push(Box::new(handshake));
            }
            Some(Message::Cookie { receiver }) => {
                if let Some(waiting) = self.waiting.find(is_asked(receiver)) {
                    waiting.has_cookie = true;
                }
            }
        }
        Progress::Wanted
    }

    fn gap(&mut self, _: Direction, _: u64, _: &mut Vec<Box<dyn Session>>) -> Progress {
        Progress::Wanted
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        sessions.extend(self.waiting.take_all().map(|waiting| Box::new(waiting) as Box<dyn Session>));
    }

    fn cut_off(&self) -> CutOff {
        CutOff { sessions: self.waiting.evicted(), ..CutOff::default() }
    }
}

impl Held for WireguardHandshake {
    fn held_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

impl WireguardHandshake {
    /// Result: `answered`, `cookie`, `unanswered`.
    pub fn result(&self) -> &'static str {
        match self.responder_index {
            Some(_) => "answered",
            None if self.has_cookie => "cookie",
            None => "unanswered",
        }
    }
}

impl Session for WireguardHandshake {
    fn value(&self, index: usize) -> Value<'_> {
        value(self, index)
    }

    fn time(&self) -> Option<Timestamp> {
        Some(self.time)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Results of handshakes.
const RESULTS: Words = Words { list: || vec!["answered", "cookie", "unanswered"], others: &[] };

session_fields! { WireguardHandshake;
    "wireguard.initiator_index" ["wireguard.sender"] initiator_index: Unsigned, "Session index of the initiator" => |h| unsigned(h.initiator_index);
    "wireguard.responder_index" ["wireguard.receiver"] responder_index: Unsigned, "Session index of the responder" => |h| unsigned(h.responder_index);
    "wireguard.result" [] result: Text in RESULTS, "Result: answered, cookie, unanswered" => |h| text(Some(h.result()));
    "wireguard.rtt" [] rtt: Interval, "Time from the first message to the answer" => |h| h.rtt_ns.map_or(Value::Absent, Value::Interval);
    "wireguard.reversed" [] _: Bool, "Whether the responder of the flow initiated the handshake" => |h| Value::Bool(h.initiator == Direction::Responder);
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Originator as C, Responder as S};

    fn message(kind: u8, words: &[u32], length: usize) -> Vec<u8> {
        let mut bytes = vec![kind, 0, 0, 0];
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.resize(length, 0x77);
        bytes
    }

    #[test]
    fn handshakes_are_answered_or_not() {
        let mut parser = WireguardParser::default();
        let mut sessions = Vec::new();
        for (from, millis, bytes) in [
            (C, 0, message(1, &[7], 148)),
            (S, 30, message(2, &[9, 7], 92)),
            (C, 31, message(4, &[9, 0, 0], 96)),
            (S, 100, message(1, &[11], 148)),
            (C, 101, message(3, &[11], 64)),
            (S, 200, message(1, &[12], 148)),
            (C, 230, message(2, &[13, 99], 92)),
        ] {
            let data = Data { from, time: Timestamp(millis * 1_000_000), bytes: &bytes, is_datagram: true };
            assert_eq!(parser.parse(&data, &mut sessions), Progress::Wanted);
        }
        parser.finish(&mut sessions);
        let shown = |session: &dyn Session| {
            let h = session.as_any().downcast_ref::<WireguardHandshake>().expect("one").clone();
            (h.initiator, h.initiator_index, h.responder_index, h.result(), h.rtt_ns)
        };
        let shown: Vec<_> = sessions.iter().map(|session| shown(session.as_ref())).collect();
        assert_eq!(
            shown,
            [
                (C, Some(7), Some(9), "answered", Some(30_000_000)),
                (S, Some(99), Some(13), "answered", None),
                (S, Some(11), None, "cookie", None),
                (S, Some(12), None, "unanswered", None),
            ]
        );
    }

    #[test]
    fn type_and_length_tell() {
        let probe = |originator: &[u8]| {
            (PROTOCOL.probe)(&Opening { originator, is_datagram: true, ..Opening::default() })
        };
        assert_eq!(probe(&message(1, &[7], 148)), Probe::Certain);
        assert_eq!(probe(&message(1, &[7], 147)), Probe::NotForUs);
        assert_eq!(probe(&message(4, &[7], 148)), Probe::NotForUs);
        assert_eq!(probe(b""), Probe::NotForUs);
    }
}
