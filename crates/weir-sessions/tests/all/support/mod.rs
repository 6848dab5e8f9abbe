//! Shared by several tests: parses handshakes from text, and feeds them to a parser in pieces.
#![allow(dead_code)] // Each test uses only some functions.

pub mod capture;
pub mod tcp;

use weir_packet::{Timestamp, Value};
use weir_sessions::tls::{PROTOCOL, TlsHandshake};
use weir_sessions::{Data, Direction, Progress, Session};

/// A segment with its sender.
pub type Segment = (Direction, Vec<u8>);

/// Parses a handshake of `corpus/tls`: `>` begins a segment of the client, `<` one of the server, a line
/// without either continues the segment, `#` begins a comment.
pub fn parse_segments(text: &str) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.split_at_checked(1) {
            Some((">", _)) => segments.push((Direction::Originator, Vec::new())),
            Some(("<", _)) => segments.push((Direction::Responder, Vec::new())),
            _ => {}
        }
        let digits: Vec<u32> = line.chars().filter_map(|letter| letter.to_digit(16)).collect();
        let bytes = digits.as_chunks::<2>().0.iter().map(|[high, low]| (high << 4 | low) as u8);
        segments.last_mut().expect("a segment begins the file").1.extend(bytes);
    }
    segments
}

/// The handshakes of `corpus/tls` by name.
pub fn handshakes() -> Vec<(&'static str, Vec<Segment>)> {
    macro_rules! all {
        ($($name:literal)*) => {
            vec![$(($name, parse_segments(include_str!(concat!("../../../../../corpus/tls/", $name, ".talk"))))),*]
        };
    }
    all!["tls10-rsa" "tls12-full" "tls12-resumed" "tls12-client-cert" "tls12-refused" "tls13-full" "tls13-plain" "tls13-retry" "tls13-resumed" "tls13-early-data"]
}

/// The segments of one of [`handshakes`].
pub fn handshake(name: &str) -> Vec<Segment> {
    handshakes().into_iter().find(|entry| entry.0 == name).expect("a handshake of that name").1
}

/// Bytes of a stream, at time 0.
pub fn piece(from: Direction, bytes: &[u8]) -> Data<'_> {
    Data { from, time: Timestamp(0), bytes, is_datagram: false }
}

/// Feeds segments to a new parser until it is done, then ends the connection. Returns the handshakes.
pub fn feed(segments: &[Segment]) -> Vec<TlsHandshake> {
    let mut parser = (PROTOCOL.open)(&weir_sessions::Context::default());
    let mut sessions: Vec<Box<dyn Session>> = Vec::new();
    for (from, bytes) in segments {
        if parser.parse(&piece(*from, bytes), &mut sessions) == Progress::Done {
            break;
        }
    }
    parser.finish(&mut sessions);
    sessions.iter().map(|session| own(session.as_ref())).collect()
}

/// Feeds segments that must yield exactly one handshake.
pub fn feed_one(segments: &[Segment]) -> TlsHandshake {
    let mut handshakes = feed(segments);
    assert_eq!(handshakes.len(), 1);
    handshakes.remove(0)
}

/// A copy of the handshake behind the trait.
pub fn own(session: &dyn Session) -> TlsHandshake {
    session.as_any().downcast_ref::<TlsHandshake>().expect("a TLS handshake").clone()
}

/// The value of the field with this name.
pub fn value<'a>(session: &'a dyn Session, name: &str) -> Value<'a> {
    let index = PROTOCOL.fields.iter().position(|field| field.name == name || field.aliases.contains(&name));
    session.value(index.unwrap_or_else(|| panic!("no field {name}")))
}
