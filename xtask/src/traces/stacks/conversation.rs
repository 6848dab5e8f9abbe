//! A TCP connection from the recorder's view: handshake, requests and responses, end; acknowledgements cover
//! the bytes received so far.

use std::collections::VecDeque;

use super::{Filler, Received, Trouble};
use crate::traces::frame::{Ends, ipv4};
use crate::traces::sums;
use weir_testing::Random;

const FIN: u8 = 1;
const SYN: u8 = 2;
const PSH: u8 = 8;
const ACK: u8 = 16;
const TCP: u8 = 6;

const IP_AND_TCP_BYTES: usize = 40;
/// Two NOPs and timestamps (RFC 7323).
const OPTIONS_BYTES: usize = 12;
/// A receiver acknowledges at least every second segment (RFC 9293, section 3.8.6.3).
const UNACKED_MAX: u32 = 2;

pub struct Conversation {
    ends: Ends,
    /// The opener and its peer.
    sides: [Side; 2],
    /// Segments to send.
    queue: VecDeque<Segment>,
    exchanges_left: u64,
    payload_bytes_max: usize,
    /// The clock of timestamps.
    ticks: u32,
    packets: u16,
}

/// Positions are relative to the SYN, which is 0.
struct Side {
    first: u32,
    sent: u64,
    received: Received,
    unacked: u32,
}

#[derive(Clone)]
struct Segment {
    from: usize,
    at: u64,
    bytes: usize,
    flags: u8,
}

impl Segment {
    fn span(&self) -> u64 {
        self.bytes as u64 + u64::from(self.flags & (SYN | FIN) != 0)
    }
}

impl Conversation {
    pub fn new(ends: Ends, datagram_bytes_max: usize, random: &mut Random) -> Self {
        let side = |first| Side { first, sent: 1, received: Received::default(), unacked: 0 };
        let numbers = random.bits();
        let shake = |from, flags| Segment { from, at: 0, bytes: 0, flags };
        Self {
            ends,
            sides: [side(numbers as u32), side((numbers >> 32) as u32)],
            queue: [shake(0, SYN), shake(1, SYN | ACK)].into(),
            exchanges_left: 1 + random.below(12),
            payload_bytes_max: datagram_bytes_max - IP_AND_TCP_BYTES - OPTIONS_BYTES,
            ticks: random.bits() as u32,
            packets: 0,
        }
    }

    /// The next datagram, and whether the opener sends it; `None` at the end of the connection.
    pub fn next(&mut self, random: &mut Random, filler: &Filler) -> Option<(bool, Vec<u8>)> {
        if self.queue.is_empty() && self.exchanges_left > 0 {
            self.exchanges_left -= 1;
            self.exchange(random);
            if self.exchanges_left == 0 {
                self.end(random.below(2) as usize);
            }
        }
        let segment = self.queue.pop_front()?;
        let datagram = self.emit(&segment, filler);
        self.receive(&segment);
        Some((segment.from == 0, datagram))
    }

    /// A request and its response: usually a small request and a large response, sometimes the reverse.
    fn exchange(&mut self, random: &mut Random) {
        let (little, some, much) =
            (100 + random.below(1200), 200 + random.below(4000), 8_000 + random.below(120_000));
        let (request, answer) = match random.below(16) {
            0 => (much, little),
            1..=4 => (little, some),
            _ => (little, much),
        };
        for (from, bytes) in [(0, request), (1, answer)] {
            let flight = self.flight(from, bytes as usize, random);
            self.queue.extend(Trouble::SOME.meet(flight, random));
        }
    }

    /// Bytes cut into segments, all full except the last of each write.
    fn flight(&mut self, from: usize, bytes: usize, random: &mut Random) -> Vec<Segment> {
        let mut flight = vec![];
        let mut left = bytes;
        while left > 0 {
            let mut write = left.min(2_000 + random.below(40_000) as usize);
            left -= write;
            while write > 0 {
                let bytes = write.min(self.payload_bytes_max);
                write -= bytes;
                let flags = if write == 0 { PSH | ACK } else { ACK };
                flight.push(Segment { from, at: self.sides[from].sent, bytes, flags });
                self.sides[from].sent += bytes as u64;
            }
        }
        flight
    }

    /// Both ends close, `first` before the other.
    fn end(&mut self, first: usize) {
        for from in [first, 1 - first] {
            self.queue.push_back(Segment { from, at: self.sides[from].sent, bytes: 0, flags: FIN | ACK });
            self.sides[from].sent += 1;
        }
    }

    fn emit(&mut self, segment: &Segment, filler: &Filler) -> Vec<u8> {
        let (me, peer) = (&self.sides[segment.from], &self.sides[1 - segment.from]);
        let ends = if segment.from == 0 { self.ends } else { self.ends.reversed() };
        let acks = segment.flags & ACK != 0;
        let ack = if acks { peer.first.wrapping_add(me.received.next as u32) } else { 0 };
        let options = self.options(segment.flags);
        let payload = filler.bytes(u64::from(me.first) + segment.at, segment.bytes);
        let mut bytes = [ends.src_port, ends.dst_port].map(u16::to_be_bytes).concat();
        bytes.extend(me.first.wrapping_add(segment.at as u32).to_be_bytes());
        bytes.extend(ack.to_be_bytes());
        bytes.extend([((20 + options.len()) as u8 / 4) << 4, segment.flags, 0x80, 0, 0, 0, 0, 0]);
        bytes.extend(options);
        bytes.extend(payload);
        let sum = sums::internet(&[&ends.pseudo_header(TCP, bytes.len()), &bytes]);
        bytes[16..18].copy_from_slice(&sum.to_be_bytes());
        self.packets = self.packets.wrapping_add(1);
        self.ticks = self.ticks.wrapping_add(1);
        ipv4(ends, TCP, self.packets, 0x4000, &bytes)
    }

    /// Timestamps always; in a SYN also MSS, selective acknowledgement, window scale.
    fn options(&self, flags: u8) -> Vec<u8> {
        let stamps = [self.ticks, self.ticks.wrapping_sub(1)].map(u32::to_be_bytes).concat();
        if flags & SYN == 0 {
            return [&[1, 1, 8, 10][..], &stamps].concat();
        }
        let mss = ((self.payload_bytes_max + OPTIONS_BYTES) as u16).to_be_bytes();
        [&[2, 4][..], &mss, &[4, 2, 8, 10], &stamps, &[1, 3, 3, 7]].concat()
    }

    /// The other side receives the segment, and acknowledges where it must do so immediately: gaps, ends,
    /// every second segment.
    fn receive(&mut self, segment: &Segment) {
        self.sides[segment.from].unacked = 0;
        let to = 1 - segment.from;
        let side = &mut self.sides[to];
        if segment.span() == 0 {
            return;
        }
        let is_next = segment.at == side.received.next;
        side.received.take(segment.at, segment.at + segment.span());
        side.unacked += 1;
        let now = !is_next || !side.received.early.is_empty() || side.unacked >= UNACKED_MAX;
        let opens = segment.flags & SYN != 0;
        if now && !opens || segment.flags & FIN != 0 || opens && segment.flags & ACK != 0 {
            let at = self.sent_before(to);
            self.queue.push_front(Segment { from: to, at, bytes: 0, flags: ACK });
        }
    }

    /// The position of a side's next byte to send, without the segments still in the queue.
    fn sent_before(&self, side: usize) -> u64 {
        let planned = self.queue.iter().filter(|s| s.from == side && s.span() > 0).map(|s| s.at).min();
        planned.unwrap_or(self.sides[side].sent)
    }
}
