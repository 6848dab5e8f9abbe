//! [`TunnelWatch`]: follows HTTP up to a change of protocol when no exchanges are wanted.
//!
//! Few HTTP connections change their protocol, and parsing is expensive. So only those are followed whose
//! first request has CONNECT (RFC 9110 §9.3.6) or Upgrade (§7.8). An Upgrade in a later request is not
//! detected.

use super::HttpParser;
use crate::{CutOff, Data, Direction, Progress, Session, SessionParser};
use memchr::memmem;

/// Follows a connection whose first request may change the protocol; finishes all others at their first
/// bytes.
#[derive(Debug, Default)]
pub struct TunnelWatch {
    /// Present once the first bytes are found to need a parser.
    parser: Option<Box<HttpParser>>,
}

impl SessionParser for TunnelWatch {
    fn parse(&mut self, data: &Data<'_>, _: &mut Vec<Box<dyn Session>>) -> Progress {
        if self.parser.is_none() && !may_hand_over(data.bytes) {
            return Progress::Done;
        }
        let parser = self.parser.get_or_insert_default();
        let progress = parser.parse(data, &mut Vec::new());
        // HTTP/2 hands over to no other protocol.
        if parser.is_two() { Progress::Done } else { progress }
    }

    fn gap(&mut self, from: Direction, length_bytes: u64, _: &mut Vec<Box<dyn Session>>) -> Progress {
        match &mut self.parser {
            Some(parser) => parser.gap(from, length_bytes, &mut Vec::new()),
            None => Progress::Done,
        }
    }

    fn finish(&mut self, _: &mut Vec<Box<dyn Session>>) {}

    fn cut_off(&self) -> CutOff {
        self.parser.as_ref().map_or(CutOff::default(), |parser| parser.cut_off())
    }
}

/// Whether a connection with these first bytes may change its protocol; an incomplete head counts.
fn may_hand_over(first: &[u8]) -> bool {
    let head_bytes = memmem::find(first, b"\r\n\r\n").unwrap_or(first.len());
    let head = &first[..head_bytes];
    let names_upgrade = || head.windows(9).any(|nine| nine.eq_ignore_ascii_case(b"\nupgrade:"));
    head.starts_with(b"CONNECT ") || head_bytes == first.len() || names_upgrade()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::Timestamp;

    fn fed(pieces: &[(Direction, &[u8])]) -> Progress {
        let (mut watch, mut sessions, mut progress) = (TunnelWatch::default(), Vec::new(), Progress::Wanted);
        for (from, bytes) in pieces {
            let data = Data { from: *from, time: Timestamp(0), bytes, is_datagram: false };
            progress = watch.parse(&data, &mut sessions);
        }
        assert!(sessions.is_empty(), "nobody wants them");
        progress
    }

    #[test]
    fn what_asks_for_another_protocol_is_followed_to_where_it_begins() {
        use Direction::{Originator, Responder};
        let connect: &[u8] = b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n";
        let yes: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n\x16\x03";
        assert_eq!(fed(&[(Originator, connect), (Responder, yes)]), Progress::HandOver { rest_bytes: 2 });
        assert_eq!(
            fed(&[(Originator, b"CONN"), (Originator, &connect[4..]), (Responder, yes)]),
            Progress::HandOver { rest_bytes: 2 }
        );
        let switched: &[u8] = b"HTTP/1.1 101 Switching\r\n\r\n";
        for (upgrade, progress) in [
            (
                &b"GET / HTTP/1.1\r\nHost: a\r\nUPGRADE: tls/1.2\r\n\r\n"[..],
                Progress::HandOver { rest_bytes: 0 },
            ),
            (b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\n\r\n", Progress::Done),
        ] {
            assert_eq!(fed(&[(Originator, upgrade), (Responder, switched)]), progress);
        }
    }

    #[test]
    fn what_asks_for_a_page_is_done_with_at_once() {
        assert_eq!(fed(&[(Direction::Originator, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")]), Progress::Done);
        assert_eq!(
            fed(&[(Direction::Responder, b"HTTP/1.1 200 OK\r\nUpgraded: no\r\n\r\n")]),
            Progress::Done
        );
    }
}
