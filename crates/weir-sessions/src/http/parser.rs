//! [`HttpParser`]: which HTTP it is, and then its parser.
//!
//! HTTP/2 with prior knowledge (RFC 9113 §3.3) begins with a preface that no request of HTTP/1 is, and the server's
//! first frame with a zero, which begins no line. At most the preface is kept until that is known.

use super::http1::Http1;
use super::http2::Http2;
use super::http2::frame::PREFACE;
use crate::{CutOff, Data, Direction, Progress, Session, SessionParser};
use weir_packet::Timestamp;

/// Parses the exchanges of one connection, of HTTP/1 or HTTP/2.
#[derive(Debug, Default)]
pub struct HttpParser(Which);

#[derive(Debug)]
enum Which {
    /// What came so far is the beginning of the preface of HTTP/2, or nothing.
    Unknown {
        /// How much of the preface came, of whom, and when.
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
        if matches!(self.0, Which::Unknown { .. }) && !self.decide(data, sessions) {
            return Progress::Wanted;
        }
        match &mut self.0 {
            Which::Unknown { .. } => Progress::Wanted,
            Which::One(parser) => parser.parse(data, sessions),
            Which::Two(parser) => parser.parse(data, sessions),
        }
    }

    fn gap(&mut self, from: Direction, length_bytes: u64, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if length_bytes == 0 {
            return Progress::Wanted;
        }
        if matches!(self.0, Which::Unknown { .. }) {
            self.become_one(sessions);
        }
        match &mut self.0 {
            Which::Unknown { .. } => Progress::Wanted,
            Which::One(parser) => parser.gap(from, length_bytes, sessions),
            Which::Two(parser) => parser.gap(from, length_bytes, sessions),
        }
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        match &mut self.0 {
            Which::Unknown { .. } => {}
            Which::One(parser) => parser.finish(sessions),
            Which::Two(parser) => parser.finish(sessions),
        }
    }

    fn held_bytes(&self) -> usize {
        match &self.0 {
            Which::Unknown { .. } => 0,
            Which::One(parser) => parser.held_bytes(),
            Which::Two(parser) => parser.held_bytes(),
        }
    }

    fn cut_off(&self) -> CutOff {
        match &self.0 {
            Which::Unknown { .. } => CutOff::default(),
            Which::One(parser) => parser.cut_off(),
            Which::Two(parser) => parser.cut_off(),
        }
    }
}

impl HttpParser {
    /// Whether it is known now which HTTP it is; then `data` is still to be parsed, else it has been taken.
    fn decide(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> bool {
        let Which::Unknown { preface_bytes, from, time } = &mut self.0 else { return true };
        if *preface_bytes > 0 && *from != data.from {
            // The preface comes from one side; what the other sends tells by itself.
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
        if data.bytes[0] == 0 && *preface_bytes == 0 {
            self.become_two(sessions);
        } else if data.bytes[..known] != rest[..known] {
            self.become_one(sessions);
        } else if known < rest.len() {
            *preface_bytes += known;
            return false;
        } else {
            self.become_two(sessions);
        }
        true
    }

    fn become_one(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        let mut parser = Box::<Http1>::default();
        if let Some(data) = self.kept() {
            parser.parse(&data, sessions);
        }
        self.0 = Which::One(parser);
    }

    fn become_two(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        let mut parser = Box::<Http2>::default();
        if let Some(data) = self.kept() {
            parser.parse(&data, sessions);
        }
        self.0 = Which::Two(parser);
    }

    /// What was taken of the preface.
    fn kept(&self) -> Option<Data<'static>> {
        match self.0 {
            Which::Unknown { preface_bytes, from, time } if preface_bytes > 0 => {
                Some(Data { from, time, bytes: &PREFACE[..preface_bytes], is_datagram: false })
            }
            _ => None,
        }
    }
}
