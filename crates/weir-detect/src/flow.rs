//! What is kept of a connection.

use crate::app;
use crate::ongoing::OngoingSessions;
use crate::packet::Moment;
use std::sync::Arc;
use weir::sessions::Session;
use weir_rules::BitsOp;

/// Bytes of a stream that stay for patterns that end in later ones.
pub const WINDOW_BYTES: usize = 4096;
/// Rules that wait for further bytes of a stream.
const WAITING_MAX: usize = 64;
/// Bytes of a stream in which a rule alerts once, as in Suricata (`toserver-chunk-size`).
const INSPECTED_BYTES: u64 = 2560;
/// Bits that a connection has.
const BITS_MAX: usize = 256;
/// Bytes of a connection's place in the table of a worker.
const PLACE_BYTES: usize = 32;
/// Pieces of a direction.
const PIECES_MAX: usize = 64;
/// Sessions that are complete and not inspected yet.
pub const SESSIONS_MAX: usize = 256;

/// A connection.
#[derive(Debug, Default)]
pub struct FlowState {
    /// The bytes of both directions, the originator's first.
    pub streams: [Stream; 2],
    /// Names of bits that are set.
    bits: Vec<u32>,
    /// Rules that match once for each direction and have matched: doubled, with a bit for the direction.
    once: Vec<u32>,
    /// Integers by name.
    ints: Vec<(u32, u32)>,
    /// Sessions since the last packet.
    pub sessions: Vec<(usize, Arc<dyn Session>)>,
    /// Sessions that go on.
    pub ongoing: OngoingSessions,
    /// The session protocol.
    pub app: Option<&'static str>,
    /// The session protocol before it was changed (STARTTLS).
    pub app_before: Option<&'static str>,
    /// Packets of both directions so far, and their bytes.
    pub packets: [u64; 2],
    #[allow(missing_docs)]
    pub bytes: [u64; 2],
    /// How far the handshake of TCP is.
    pub handshake: Handshake,
    /// The rest of the streams is encrypted: payload is not inspected.
    pub is_encrypted: bool,
    /// A rule said that nothing more is inspected.
    pub passed: bool,
    /// A bit for each filter of rules that held at the last packet.
    pub holds: u64,
    /// Alerts that wait for the protocol, or for a filter.
    pub undecided: Vec<Undecided>,
    /// Bytes that count as the connection's.
    counted_bytes: usize,
}

/// An alert that waits until the protocol of its connection is known, or its filter holds.
#[derive(Debug, Clone, Copy)]
pub struct Undecided {
    /// The rule.
    pub rule: u32,
    /// The originator sent the bytes.
    pub to_server: bool,
    /// The packet.
    pub moment: Moment,
}

/// A rule that has matched in a stream.
#[derive(Debug, Clone, Copy)]
pub struct Alerted {
    /// The rule.
    pub rule: u32,
    /// The end of the bytes in the stream.
    pub end: u64,
    /// Bytes that the other side had sent.
    pub other_bytes: u64,
}

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Handshake {
    /// Nothing was seen.
    #[default]
    None,
    /// The capture has no begin of this connection, and streams are inspected of whole connections only
    /// (`--complete`).
    Unseen,
    /// A SYN.
    Syn,
    /// A SYN, and the answer.
    Answered,
    /// Established, or seen from later on.
    Done,
}

/// The bytes of one direction.
#[derive(Debug, Default)]
pub struct Stream {
    /// The last bytes.
    pub window: Vec<u8>,
    /// Place in the window of the first byte that was not searched.
    pub new_at: usize,
    /// Length of the window, while it is inspected elsewhere.
    pub new_end: u64,
    /// Offset in the stream of the window's first byte.
    pub offset: u64,
    /// The payload of a datagram since the last packet.
    pub has_datagram: bool,
    /// A gap precedes the bytes that have arrived since the last packet.
    pub had_gap: bool,
    /// No further bytes come.
    pub is_closed: bool,
    /// Bytes before gaps that still have to be searched.
    pub pieces: Vec<Piece>,
    /// Rules that have matched, and where: the same bytes do not match again.
    pub alerted: Vec<Alerted>,
    /// Rules whose pattern was found, but not what else they ask for: the rule, and the place in the stream.
    pub waiting: Vec<(u32, u64)>,
}

/// Bytes before a gap that still have to be searched, with those before them that a pattern may begin in.
#[derive(Debug)]
pub struct Piece {
    window: Vec<u8>,
    new_at: usize,
    offset: u64,
}

impl Stream {
    /// Takes bytes in order. Returns whether there was room for those before a gap.
    pub fn take(&mut self, bytes: &[u8], gap_bytes: u64) -> bool {
        let mut has_room = true;
        if gap_bytes > 0 {
            self.had_gap = true;
            let next = self.offset + self.window.len() as u64 + gap_bytes;
            if self.is_unsearched() {
                has_room = self.pieces.len() < PIECES_MAX;
                let piece = Piece {
                    window: std::mem::take(&mut self.window),
                    new_at: self.new_at,
                    offset: self.offset,
                };
                self.pieces.extend(has_room.then_some(piece));
            }
            self.offset = next;
            self.window.clear();
            self.new_at = 0;
            self.waiting.clear();
        }
        self.window.extend_from_slice(bytes);
        has_room
    }

    /// Whether there are bytes that were not searched, beside earlier pieces.
    pub fn is_unsearched(&self) -> bool {
        self.new_at < self.window.len()
    }

    /// Puts a piece in the place of the current bytes, which are returned.
    pub fn go_back(&mut self, piece: Piece) -> Piece {
        let Piece { window, new_at, offset } = piece;
        Piece {
            window: std::mem::replace(&mut self.window, window),
            new_at: std::mem::replace(&mut self.new_at, new_at),
            offset: std::mem::replace(&mut self.offset, offset),
        }
    }

    /// Takes a datagram.
    pub fn take_datagram(&mut self, bytes: &[u8]) {
        self.window.clear();
        self.window.extend_from_slice(bytes);
        (self.new_at, self.has_datagram) = (0, true);
    }

    /// Forgets the bytes: nothing follows that could belong to them.
    pub fn release(&mut self) {
        (self.window, self.waiting, self.new_at) = (vec![], vec![], 0);
    }

    /// After the new bytes were inspected: all but the last ones leave.
    pub fn advance(&mut self) {
        let more = self.window.len().saturating_sub(WINDOW_BYTES);
        // Moving a few bytes at a time would cost more than it saves.
        if more >= WINDOW_BYTES {
            self.window.drain(..more);
            self.offset += more as u64;
            let offset = self.offset;
            self.waiting.retain(|(_, place)| *place >= offset);
            self.window.shrink_to(3 * WINDOW_BYTES);
        }
        self.new_at = self.window.len();
    }

    /// Whether a rule may match again where its pattern ends at `place`: the stream has gone on, or the other
    /// side has answered.
    pub fn may_match(&self, rule: u32, place: u64, other_bytes: u64) -> bool {
        let before = self.alerted.iter().find(|before| before.rule == rule);
        before.is_none_or(|before| {
            place > before.end && (place >= before.end + INSPECTED_BYTES || other_bytes != before.other_bytes)
        })
    }

    /// Place in the window behind the bytes in which a rule has matched.
    pub fn behind_alert(&self, rule: u32) -> usize {
        let before = self.alerted.iter().find(|before| before.rule == rule);
        before.map_or(0, |before| before.end.saturating_sub(self.offset).min(self.new_end) as usize)
    }

    /// A rule has matched.
    pub fn note_alert(&mut self, rule: u32, other_bytes: u64) {
        let end = self.offset + self.new_end;
        self.alerted.retain(|before| before.rule != rule);
        if self.alerted.len() == WAITING_MAX {
            self.alerted.remove(0);
        }
        self.alerted.push(Alerted { rule, end, other_bytes });
    }

    /// A rule waits for further bytes. Returns whether there was room.
    pub fn wait(&mut self, rule: u32, place: u64) -> bool {
        if self.waiting.iter().any(|(waiting, _)| *waiting == rule) {
            return true;
        }
        let has_room = self.waiting.len() < WAITING_MAX;
        if has_room {
            self.waiting.push((rule, place));
        }
        has_room
    }
}

impl FlowState {
    /// Bytes that the connection needs, with its place in a table, since the last call: the difference.
    pub fn grown_bytes(&mut self) -> isize {
        let lists = 4 * (self.bits.capacity() + self.once.capacity())
            + 8 * self.ints.capacity()
            + size_of::<Undecided>() * self.undecided.capacity()
            + size_of::<(usize, Arc<dyn Session>)>() * self.sessions.capacity()
            + self.ongoing.held_bytes();
        let of_stream = |stream: &Stream| {
            let lists = size_of::<Alerted>() * stream.alerted.capacity() + 16 * stream.waiting.capacity();
            let pieces: usize =
                stream.pieces.iter().map(|piece| piece.window.capacity() + size_of::<Piece>()).sum();
            stream.window.capacity() + lists + pieces
        };
        let streams: usize = self.streams.iter().map(of_stream).sum();
        let now = size_of::<Self>() + PLACE_BYTES + lists + streams;
        now as isize - std::mem::replace(&mut self.counted_bytes, now) as isize
    }

    /// Bytes that were counted.
    pub fn counted_bytes(&self) -> usize {
        self.counted_bytes
    }

    /// Forgets what is known by numbers of rules: the rules are other ones from now on.
    pub fn forget_rules(&mut self) {
        self.once.clear();
        self.undecided.clear();
        self.ongoing.forget_rules();
        for stream in &mut self.streams {
            stream.waiting.clear();
            stream.alerted.clear();
        }
    }

    /// The session protocol that the connection has from now on.
    pub fn set_app(&mut self, app: &'static str) {
        if self.app != Some(app) {
            let before = self.app.filter(|before| *before != app::FAILED);
            (self.app_before, self.app) = (before.or(self.app_before), Some(app));
        }
    }

    /// Takes note that a rule has matched in a direction. Returns whether it is the first time; `None`: there
    /// is no room for further rules.
    pub fn once(&mut self, rule: u32, to_server: bool) -> Option<bool> {
        let mark = rule << 1 | u32::from(to_server);
        if self.once.contains(&mark) {
            return Some(false);
        }
        (self.once.len() < BITS_MAX).then(|| {
            self.once.push(mark);
            true
        })
    }

    /// Whether a bit is set.
    pub fn has_bit(&self, bit: u32) -> bool {
        self.bits.contains(&bit)
    }

    /// Changes a bit. Returns whether there was room.
    pub fn change_bit(&mut self, op: BitsOp, bit: u32) -> bool {
        let at = self.bits.iter().position(|set| *set == bit);
        match (op, at) {
            (BitsOp::Set | BitsOp::Toggle, None) => {
                let has_room = self.bits.len() < BITS_MAX;
                if has_room {
                    self.bits.push(bit);
                }
                return has_room;
            }
            (BitsOp::Unset | BitsOp::Toggle, Some(at)) => {
                self.bits.swap_remove(at);
            }
            _ => {}
        }
        true
    }

    /// An integer.
    pub fn int(&self, name: u32) -> Option<u32> {
        self.ints.iter().find(|(of, _)| *of == name).map(|(_, value)| *value)
    }

    /// Sets an integer. Returns whether there was room.
    pub fn set_int(&mut self, name: u32, value: u32) -> bool {
        if let Some(known) = self.ints.iter_mut().find(|(of, _)| *of == name) {
            known.1 = value;
            return true;
        }
        let has_room = self.ints.len() < BITS_MAX;
        if has_room {
            self.ints.push((name, value));
        }
        has_room
    }

    /// Whether packets have gone both ways; for TCP whether the handshake is complete.
    pub fn is_established(&self, is_tcp: bool) -> bool {
        if is_tcp { self.handshake == Handshake::Done } else { self.packets.iter().all(|count| *count > 0) }
    }
}
