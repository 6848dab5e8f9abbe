//! Streams that no protocol recognised at their beginning. A capture may begin in the middle of a message, a
//! segment may be missing, one side may say what no probe expects, or another protocol may come first
//! (STARTTLS of LDAP). So one refusal is not final: each change of direction, and each gap, is a further
//! chance, for protocols with distinctive first bytes only.

use crate::recognised::Recognised;
use weir_packet::Timestamp;
use weir_sessions::{Data, Direction};

/// Changes of direction, after which a stream is given up.
const TURNS_MAX: u8 = 16;

/// Beginnings of a stream that are passed over: the headers of two proxies, or one and the byte of a
/// keep-alive.
pub(crate) const BEGINNINGS_MAX: u8 = 2;

/// Bytes of a turn that are kept once it will not be probed: the parser of the answer may need the request.
/// Further ones are a gap.
const KEPT_BYTES_MAX: usize = 1024;

/// A part of a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    /// So many of the kept bytes.
    Bytes(Timestamp, usize),
    /// So many bytes that are not there.
    Gap(u64),
}

/// What one side sent before the other one answered, or before a gap.
#[derive(Debug)]
pub(crate) struct Turn {
    pub from: Direction,
    pub bytes: Vec<u8>,
    pub parts: Vec<Part>,
    /// Whether further bytes may make a protocol certain.
    is_open: bool,
}

/// What follows from a piece.
pub(crate) enum Watched {
    /// The bytes of this turn so far are to be probed.
    Probe,
    /// The first byte is no part of the stream: what is left is probed anew.
    Begins(Turn),
    /// The piece says nothing.
    Nothing,
    /// No further chance.
    Over,
}

/// A stream that no protocol recognised.
#[derive(Debug)]
pub(crate) struct Watching {
    pub before: Recognised,
    /// The last turn but one.
    pub earlier: Option<Turn>,
    pub turn: Turn,
    turns: u8,
    /// Beginnings of the stream that were passed over.
    pub passed: u8,
    /// Bytes until the stream is given up.
    left_bytes: u64,
}

impl Watching {
    /// A stream whose first turn no protocol recognised. `passed`: beginnings that were passed over.
    pub fn begin(before: Recognised, passed: u8, left_bytes: u64) -> Box<Self> {
        let turn = Turn { is_open: false, ..Turn::new(Direction::Originator) };
        Box::new(Self { before, earlier: None, turn, turns: 0, passed, left_bytes })
    }

    /// Takes the next bytes. Those of the first turn were probed already.
    pub fn take(&mut self, data: &Data<'_>) -> Watched {
        let Some(left_bytes) = self.left_bytes.checked_sub(data.bytes.len() as u64) else {
            return Watched::Over;
        };
        self.left_bytes = left_bytes;
        if !self.turn.parts.is_empty() && self.turn.from != data.from {
            self.next_turn(data.from);
        }
        if self.turns > TURNS_MAX {
            return Watched::Over;
        }
        self.turn.from = data.from;
        self.turn.push_bytes(data);
        if self.turns == 0
            && self.passed < BEGINNINGS_MAX
            && let Some(turn) = self.turn.without_keep_alive()
        {
            return Watched::Begins(turn);
        }
        if self.turn.is_open {
            return Watched::Probe;
        }
        self.turn.trim();
        Watched::Nothing
    }

    /// Further bytes of this turn will not be probed.
    pub fn refuse_turn(&mut self) {
        self.turn.is_open = false;
        self.turn.trim();
    }

    /// Takes note of missing bytes. The bytes behind them are a new turn, and are probed. Returns `false`
    /// once there were more than `TURNS_MAX` turns: the stream is given up.
    pub fn gap(&mut self, from: Direction, bytes: u64) -> bool {
        let is_new = self.turn.from != from || !self.turn.bytes.is_empty();
        if is_new && !self.turn.parts.is_empty() {
            self.next_turn(from);
        }
        self.turn.from = from;
        self.turn.push_gap(bytes);
        self.turn.is_open = true;
        self.turns <= TURNS_MAX
    }

    fn next_turn(&mut self, from: Direction) {
        self.earlier = Some(std::mem::replace(&mut self.turn, Turn::new(from)));
        self.turns = self.turns.saturating_add(1);
    }

    /// The turns that a parser takes once the last one is recognised: an answer with the turn that it
    /// answers, a request alone, and the first words of both sides together.
    pub fn into_turns(self) -> (Option<Turn>, Turn) {
        let is_answer = self.turn.from == Direction::Responder || self.turns == 1;
        (self.earlier.filter(|_| is_answer), self.turn)
    }
}

impl Turn {
    fn new(from: Direction) -> Self {
        Self { from, bytes: vec![], parts: vec![], is_open: true }
    }

    fn push_bytes(&mut self, data: &Data<'_>) {
        self.bytes.extend_from_slice(data.bytes);
        self.parts.push(Part::Bytes(data.time, data.bytes.len()));
    }

    fn push_gap(&mut self, missing: u64) {
        match self.parts.last_mut() {
            _ if missing == 0 => {}
            Some(Part::Gap(bytes)) => *bytes += missing,
            _ => self.parts.push(Part::Gap(missing)),
        }
    }

    /// Keeps the first bytes of a turn that will not be probed.
    fn trim(&mut self) {
        let mut left = KEPT_BYTES_MAX;
        for part in std::mem::take(&mut self.parts) {
            match part {
                Part::Gap(bytes) => self.push_gap(bytes),
                Part::Bytes(time, length) => {
                    let kept = length.min(left);
                    left -= kept;
                    if kept > 0 {
                        self.parts.push(Part::Bytes(time, kept));
                    }
                    self.push_gap((length - kept) as u64);
                }
            }
        }
        self.bytes.truncate(KEPT_BYTES_MAX);
    }

    /// The number of bytes, with those that are missing.
    pub fn length_bytes(&self) -> u64 {
        let of = |part: &Part| match *part {
            Part::Bytes(_, length) => length as u64,
            Part::Gap(bytes) => bytes,
        };
        self.parts.iter().map(of).sum()
    }

    /// Without the first byte, if that is the one of a keep-alive (RFC 9293, section 3.8.4), with which a
    /// capture may begin, and there are others.
    fn without_keep_alive(&self) -> Option<Self> {
        let [0, rest @ ..] = &self.bytes[..] else { return None };
        let skipped = 1;
        let mut rest = Self { bytes: (!rest.is_empty()).then(|| rest.to_vec())?, ..Self::new(self.from) };
        let mut at = 0;
        for part in &self.parts {
            match *part {
                Part::Bytes(time, length) => {
                    let left = (at + length).saturating_sub(skipped.max(at));
                    at += length;
                    if left > 0 {
                        rest.parts.push(Part::Bytes(time, left));
                    }
                }
                gap @ Part::Gap(_) => rest.parts.push(gap),
            }
        }
        Some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(from: Direction, bytes: &[u8]) -> Data<'_> {
        Data { from, time: Timestamp(0), bytes, is_datagram: false }
    }

    const ORIGINATOR: Direction = Direction::Originator;
    const RESPONDER: Direction = Direction::Responder;

    #[test]
    fn each_change_of_direction_is_a_chance_and_their_number_is_bounded() {
        let mut watching = Watching::begin(Recognised::default(), 0, 10_000);
        assert!(matches!(watching.take(&data(ORIGINATOR, b"what")), Watched::Nothing));
        assert!(matches!(watching.take(&data(ORIGINATOR, b"ever")), Watched::Nothing));
        assert!(matches!(watching.take(&data(RESPONDER, b"HTT")), Watched::Probe));
        assert!(matches!(watching.take(&data(RESPONDER, b"P/1.1")), Watched::Probe));
        let (earlier, turn) = watching.into_turns();
        assert_eq!((&earlier.unwrap().bytes[..], &turn.bytes[..]), (&b"whatever"[..], &b"HTTP/1.1"[..]));

        let mut watching = Watching::begin(Recognised::default(), 0, 10_000);
        let mut chances = 0;
        for turn in 0..100 {
            let from = if turn % 2 == 0 { ORIGINATOR } else { RESPONDER };
            chances += u8::from(matches!(watching.take(&data(from, b"?")), Watched::Probe));
        }
        assert_eq!(chances, TURNS_MAX);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut watching = Watching::begin(Recognised::default(), 0, 10_000);
        let long = vec![7; 3000];
        watching.take(&data(ORIGINATOR, &long));
        watching.take(&data(ORIGINATOR, &long));
        assert_eq!(watching.turn.bytes.len(), KEPT_BYTES_MAX);
        let parts = &watching.turn.parts;
        assert!(matches!(parts[..], [Part::Bytes(_, KEPT_BYTES_MAX), Part::Gap(4976)]), "{parts:?}");
        let more = vec![7; 4001];
        assert!(matches!(watching.take(&data(RESPONDER, &more)), Watched::Over));
    }

    #[test]
    fn gaps_alone_are_bounded() {
        let mut watching = Watching::begin(Recognised::default(), 0, 10_000);
        for _ in 0..1000 {
            assert!(watching.gap(ORIGINATOR, 1000));
        }
        assert!(matches!(watching.turn.parts[..], [Part::Gap(1_000_000)]));
        let is_watched = (0..600).filter(|n| watching.gap([RESPONDER, ORIGINATOR][n % 2], 1)).count();
        assert_eq!(is_watched, usize::from(TURNS_MAX));
    }

    #[test]
    fn the_byte_of_a_keep_alive_is_no_part_of_the_stream() {
        for pieces in [&[&b"\0"[..], b"GET"][..], &[b"\0GET"], &[b"\0G", b"ET"]] {
            let mut watching = Watching::begin(Recognised::default(), 0, 10_000);
            let first = pieces.iter().find_map(|piece| match watching.take(&data(ORIGINATOR, piece)) {
                Watched::Begins(turn) => Some(turn.bytes),
                _ => None,
            });
            assert!(first.is_some_and(|rest| b"GET".starts_with(&rest[..])), "{pieces:?}");
        }
    }
}
