//! SCTP associations from the recorder's view: bundled signalling messages, and large messages in several
//! chunks; acknowledgements with gap blocks.

use std::collections::VecDeque;
use std::path::Path;

use super::{Filler, Flow, Received, Trouble, record};
use crate::layers::transport::{chunk, data_of, init, sctp_packet};
use crate::shell::Result;
use crate::traces::frame::Ends;
use weir_testing::Random;

const PORT: u16 = 5000;
const STREAMS: usize = 8;
/// 1500 without the headers of IPv4 and SCTP.
const CHUNKS_BYTES_MAX: usize = 1500 - 20 - 12;
const DATA_HEAD_BYTES: usize = 16;
/// A receiver acknowledges at least every second packet (RFC 9260, section 6.2).
const UNACKED_MAX: u32 = 2;

const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const SACK: u8 = 3;
const SHUTDOWN: u8 = 7;
const SHUTDOWN_ACK: u8 = 8;
const COOKIE_ECHO: u8 = 10;
const COOKIE_ACK: u8 = 11;
const SHUTDOWN_COMPLETE: u8 = 14;

const LAST: u8 = 1;
const FIRST: u8 = 2;
const UNORDERED: u8 = 4;

/// 100 clients of four servers.
pub fn make(file: &Path, scale: f64) -> Result {
    record(file, scale, 9260, |slot, random| {
        let client = 0xc000_0210 + slot as u32 % 100;
        let port = 10_240 + random.below(50_000) as u16;
        let ends = Ends { src: client, dst: 0xc633_6401 + slot as u32 % 4, src_port: port, dst_port: PORT };
        Association::new(ends, random)
    })
}

struct Association {
    ends: Ends,
    sides: [Side; 2],
    queue: VecDeque<Packet>,
    exchanges_left: u64,
    packets: u16,
}

/// TSNs are relative to the first, which is 0.
struct Side {
    tag: u32,
    first: u32,
    sent: u64,
    numbers_in_stream: [u16; STREAMS],
    received: Received,
    unacked: u32,
}

#[derive(Clone)]
struct Packet {
    from: usize,
    /// Its only chunk: type and value; `None` if the packet carries data.
    control: Option<(u8, Vec<u8>)>,
    data: Vec<Data>,
}

/// A chunk of user data.
#[derive(Clone)]
struct Data {
    at: u64,
    flags: u8,
    stream: u16,
    number: u16,
    bytes: usize,
}

impl Data {
    fn chunk_bytes(&self) -> usize {
        (DATA_HEAD_BYTES + self.bytes).next_multiple_of(4)
    }
}

impl Association {
    fn new(ends: Ends, random: &mut Random) -> Self {
        let sides = [(); 2].map(|()| {
            let numbers = random.bits();
            let (tag, first) = (numbers as u32 | 1, (numbers >> 32) as u32);
            Side {
                tag,
                first,
                sent: 0,
                numbers_in_stream: [0; STREAMS],
                received: Received::default(),
                unacked: 0,
            }
        });
        let opens = |side: &Side| init(side.tag, STREAMS as u16, side.first);
        let cookie = [0, 7, 0, 8, 1, 2, 3, 4];
        let shake = [
            (0, INIT, opens(&sides[0])),
            (1, INIT_ACK, [opens(&sides[1]).as_slice(), &cookie].concat()),
            (0, COOKIE_ECHO, cookie[4..].to_vec()),
            (1, COOKIE_ACK, vec![]),
        ];
        let mut this =
            Self { ends, sides, queue: VecDeque::new(), exchanges_left: 20 + random.below(60), packets: 0 };
        shake.into_iter().for_each(|(from, kind, value)| this.say(from, kind, value));
        this
    }

    fn say(&mut self, from: usize, kind: u8, value: Vec<u8>) {
        self.queue.push_back(Packet { from, control: Some((kind, value)), data: vec![] });
    }

    /// Messages in both directions: about a dozen signalling messages, sometimes a large one.
    fn exchange(&mut self, random: &mut Random) {
        for from in [0, 1] {
            let mut chunks = vec![];
            for _ in 0..1 + random.below(12) {
                let bytes =
                    if random.below(8) == 0 { 2_000 + random.below(14_000) } else { 40 + random.below(260) };
                self.message(from, bytes as usize, random, &mut chunks);
            }
            let mut flight: Vec<Packet> = vec![];
            let mut room = 0;
            for data in chunks {
                if flight.is_empty() || data.chunk_bytes() > room {
                    flight.push(Packet { from, control: None, data: vec![] });
                    room = CHUNKS_BYTES_MAX;
                }
                room -= data.chunk_bytes();
                flight.last_mut().expect("one was pushed").data.push(data);
            }
            self.queue.extend(Trouble::SOME.meet(flight, random));
        }
    }

    /// A message in as many chunks as necessary; one of ten small messages is unordered.
    fn message(&mut self, from: usize, bytes: usize, random: &mut Random, chunks: &mut Vec<Data>) {
        let side = &mut self.sides[from];
        let stream = random.below(STREAMS as u64) as usize;
        let unordered = if random.below(10) == 0 { UNORDERED } else { 0 };
        let number = side.numbers_in_stream[stream];
        if unordered == 0 {
            side.numbers_in_stream[stream] = number.wrapping_add(1);
        }
        let mut left = bytes;
        while left > 0 {
            let part = left.min(CHUNKS_BYTES_MAX - DATA_HEAD_BYTES);
            let first = if left == bytes { FIRST } else { 0 };
            left -= part;
            let last = if left == 0 { LAST } else { 0 };
            let flags = unordered | first | last;
            chunks.push(Data { at: side.sent, flags, stream: stream as u16, number, bytes: part });
            side.sent += 1;
        }
    }

    /// The cumulative TSN, and up to four gap blocks.
    fn sack(&self, side: usize) -> Vec<u8> {
        let (me, peer) = (&self.sides[side], &self.sides[1 - side]);
        let blocks = &me.received.early[..me.received.early.len().min(4)];
        let last = me.received.next.wrapping_sub(1);
        let up_to = peer.first.wrapping_add(last as u32);
        let mut value = [up_to, 65_536, (blocks.len() as u32) << 16].map(u32::to_be_bytes).concat();
        for (from, to) in blocks {
            for end in [from.wrapping_sub(last), (to - 1).wrapping_sub(last)] {
                value.extend((end as u16).to_be_bytes());
            }
        }
        chunk(SACK, 0, &value)
    }

    fn end(&mut self) {
        let received = self.sides[1].first.wrapping_add(self.sides[1].sent as u32).wrapping_sub(1);
        self.say(0, SHUTDOWN, received.to_be_bytes().to_vec());
        self.say(1, SHUTDOWN_ACK, vec![]);
        self.say(0, SHUTDOWN_COMPLETE, vec![]);
    }

    fn emit(&mut self, packet: &Packet, filler: &Filler) -> Vec<u8> {
        let (me, peer) = (&self.sides[packet.from], &self.sides[1 - packet.from]);
        let mut chunks = vec![];
        if let Some((kind, value)) = &packet.control {
            // An acknowledgement is generated when it is sent: it covers the chunks received by then.
            chunks.push(if *kind == SACK { self.sack(packet.from) } else { chunk(*kind, 0, value) });
        }
        let bytes: usize = packet.data.iter().map(Data::chunk_bytes).sum();
        if packet.control.is_none() && me.unacked > 0 && me.received.early.is_empty() {
            let sack = self.sack(packet.from);
            if bytes + sack.len() <= CHUNKS_BYTES_MAX {
                chunks.push(sack);
            }
        }
        for data in &packet.data {
            let tsn = me.first.wrapping_add(data.at as u32);
            let text = filler.bytes(u64::from(me.tag) + 1451 * data.at, data.bytes);
            chunks.push(data_of(data.flags, tsn, data.stream, data.number, 0, text));
        }
        let opens = packet.control.as_ref().is_some_and(|(kind, _)| *kind == INIT);
        let ends = if packet.from == 0 { self.ends } else { self.ends.reversed() };
        self.packets = self.packets.wrapping_add(1);
        sctp_packet(ends, self.packets, if opens { 0 } else { peer.tag }, &chunks)
    }

    /// The other side receives the packet, and acknowledges where it must do so immediately.
    fn receive(&mut self, packet: &Packet) {
        if packet.data.is_empty() {
            return;
        }
        self.sides[packet.from].unacked = 0;
        let to = 1 - packet.from;
        let side = &mut self.sides[to];
        for data in &packet.data {
            side.received.take(data.at, data.at + 1);
        }
        side.unacked += 1;
        if side.unacked >= UNACKED_MAX || !side.received.early.is_empty() {
            side.unacked = 0;
            self.queue.push_front(Packet { from: to, control: Some((SACK, vec![])), data: vec![] });
        }
    }
}

impl Flow for Association {
    fn next(&mut self, random: &mut Random, filler: &Filler) -> Option<Vec<u8>> {
        if self.queue.is_empty() && self.exchanges_left > 0 {
            self.exchanges_left -= 1;
            self.exchange(random);
            if self.exchanges_left == 0 {
                self.end();
            }
        }
        let packet = self.queue.pop_front()?;
        let frame = self.emit(&packet, filler);
        self.receive(&packet);
        Some(frame)
    }
}
