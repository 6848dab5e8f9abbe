//! A minimal TCP reassembler, and TLS on top of it. For tests only: the first copy of a byte wins, missing
//! bytes become a gap at the end of the capture, RST and windows are ignored.

use super::capture::{Tcp, frames, tcp};
use super::{own, piece};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use weir_sessions::tls::{PROTOCOL, TlsHandshake};
use weir_sessions::{Direction, Opening, Probe, Progress, Session, SessionParser};

type Endpoint = (IpAddr, u16);

/// One connection and its TLS handshakes.
pub struct Connection {
    pub originator: Endpoint,
    pub responder: Endpoint,
    pub handshake: Option<TlsHandshake>,
    streams: [Stream; 2],
    /// Bytes since the beginning, or since the stream was last found not to be TLS.
    opening: Vec<(Direction, Vec<u8>)>,
    parser: Option<Box<dyn SessionParser>>,
    is_done: bool,
}

#[derive(Default)]
struct Stream {
    next: Option<u32>,
    /// Out-of-order segments, by their offset from the first byte.
    early: BTreeMap<u64, Vec<u8>>,
    delivered: u64,
    has_syn: bool,
}

/// The connections of a capture, and the connection of each frame, counted from 1.
pub fn connections(capture: &[u8]) -> (Vec<Connection>, HashMap<u64, usize>) {
    let mut connections: Vec<Connection> = Vec::new();
    let mut current: HashMap<[Endpoint; 2], usize> = HashMap::new();
    let mut of_frame = HashMap::new();
    for (number, (link, frame)) in (1..).zip(frames(capture)) {
        let Some(segment) = tcp(link, frame) else { continue };
        let mut key = [segment.source, segment.destination];
        key.sort_unstable();
        let is_anew = |at: &usize| {
            let first = connections[*at].streams[0].next;
            segment.is_syn
                && !segment.is_ack
                && first.is_some()
                && first != Some(segment.sequence.wrapping_add(1))
        };
        if current.get(&key).is_none_or(is_anew) {
            current.insert(key, connections.len());
            connections.push(Connection::new(&segment));
        }
        let index = current[&key];
        of_frame.insert(number, index);
        connections[index].take(&segment);
    }
    for connection in &mut connections {
        connection.close();
    }
    (connections, of_frame)
}

impl Connection {
    fn new(first: &Tcp<'_>) -> Self {
        // A connection whose first packet is a SYN-ACK was opened by the other side.
        let is_turned = first.is_syn && first.is_ack;
        let (originator, responder) =
            if is_turned { (first.destination, first.source) } else { (first.source, first.destination) };
        Self {
            originator,
            responder,
            handshake: None,
            streams: Default::default(),
            opening: Vec::new(),
            parser: None,
            is_done: false,
        }
    }

    fn take(&mut self, segment: &Tcp<'_>) {
        let from =
            if segment.source == self.originator { Direction::Originator } else { Direction::Responder };
        let stream = &mut self.streams[from as usize];
        let sequence = segment.sequence.wrapping_add(segment.is_syn.into());
        if segment.is_syn && !stream.has_syn {
            stream.has_syn = true;
            stream.next = Some(sequence);
        }
        if segment.payload.is_empty() {
            return;
        }
        let next = *stream.next.get_or_insert(sequence);
        // Negative for bytes that were already delivered.
        let distance = i64::from(sequence.wrapping_sub(next) as i32) + stream.delivered as i64;
        let (at, payload) = match u64::try_from(distance) {
            Ok(at) => (at, segment.payload),
            Err(_) => (0, segment.payload.get(distance.unsigned_abs() as usize..).unwrap_or_default()),
        };
        let kept = stream.early.entry(at).or_default();
        if kept.len() < payload.len() {
            *kept = payload.to_vec();
        }
        while let Some(bytes) = self.streams[from as usize].pop(false) {
            self.deliver(from, &bytes);
        }
    }

    fn deliver(&mut self, from: Direction, bytes: &[u8]) {
        if self.is_done || bytes.is_empty() {
            return;
        }
        if self.parser.is_some() {
            return self.parse(from, bytes);
        }
        self.opening.push((from, bytes.to_vec()));
        if self.probe() == Probe::NotForUs {
            // STARTTLS, AUTH TLS, SOCKS, CONNECT: TLS may begin with any later segment.
            self.opening = vec![(from, bytes.to_vec())];
            if self.probe() == Probe::NotForUs {
                self.opening.clear();
            }
        }
        if self.probe() == Probe::Certain {
            self.parser = Some((PROTOCOL.open)(&weir_sessions::Context::default()));
            for (from, bytes) in std::mem::take(&mut self.opening) {
                self.parse(from, &bytes);
            }
        }
    }

    fn probe(&self) -> Probe {
        let of = |wanted| -> Vec<u8> {
            let pieces = self.opening.iter().filter(|(from, _)| *from == wanted);
            pieces.flat_map(|(_, bytes)| bytes.clone()).collect()
        };
        let (originator, responder) = (of(Direction::Originator), of(Direction::Responder));
        (PROTOCOL.probe)(&Opening { originator: &originator, responder: &responder, ..Opening::default() })
    }

    fn parse(&mut self, from: Direction, bytes: &[u8]) {
        self.with_parser(|parser, sessions| parser.parse(&piece(from, bytes), sessions));
    }

    fn with_parser(
        &mut self,
        action: impl FnOnce(&mut dyn SessionParser, &mut Vec<Box<dyn Session>>) -> Progress,
    ) {
        let Some(parser) = &mut self.parser else { return };
        let mut sessions = Vec::new();
        self.is_done |= action(parser.as_mut(), &mut sessions) == Progress::Done;
        if let Some(session) = sessions.first() {
            assert!(self.handshake.is_none() && sessions.len() == 1, "one handshake a connection");
            self.handshake = Some(own(session.as_ref()));
        }
    }

    /// Delivers the bytes behind gaps, and ends the connection.
    fn close(&mut self) {
        for from in [Direction::Originator, Direction::Responder] {
            loop {
                let stream = &mut self.streams[from as usize];
                let Some((at, _)) = stream.early.first_key_value() else { break };
                let length = at.saturating_sub(stream.delivered);
                if length > 0 && !self.is_done {
                    self.with_parser(|parser, sessions| parser.gap(from, length, sessions));
                }
                if let Some(bytes) = self.streams[from as usize].pop(true) {
                    self.deliver(from, &bytes);
                }
            }
        }
        self.with_parser(|parser, sessions| {
            parser.finish(sessions);
            Progress::Done
        });
    }
}

impl Stream {
    /// The next bytes in order; with `over_gaps` also those behind a gap.
    fn pop(&mut self, over_gaps: bool) -> Option<Vec<u8>> {
        let (at, _) = self.early.first_key_value()?;
        if *at > self.delivered && !over_gaps {
            return None;
        }
        let (at, bytes) = self.early.pop_first()?;
        let known = self.delivered.saturating_sub(at) as usize;
        let fresh = bytes.get(known..).unwrap_or_default().to_vec();
        let end = self.delivered.max(at + bytes.len() as u64);
        self.next = self.next.map(|next| next.wrapping_add((end - self.delivered) as u32));
        self.delivered = end;
        Some(fresh)
    }
}
