//! QUIC connections from the recorder's view: long headers, several per datagram, then short ones. Encrypted
//! parts are arbitrary bytes.

use std::collections::VecDeque;
use std::path::Path;

use super::{Filler, Flow, Trouble, record};
use crate::layers::transport::{quic_long, sealed};
use crate::shell::Result;
use crate::traces::frame::{Ends, ethernet, ipv4, summed_udp};
use weir_testing::Random;

const PORT: u16 = 443;
const VERSION: u32 = 1;
const INITIAL: u8 = 0;
const HANDSHAKE: u8 = 2;
/// The datagram size of common implementations after path MTU discovery.
const DATAGRAM_BYTES: usize = 1252;
/// RFC 9000, section 14.1: datagrams with a client's Initial are padded to this.
const INITIAL_BYTES: usize = 1200;

/// Lost packets are sent again under new numbers, so only reordering is visible.
const TROUBLE: Trouble = Trouble { lost: 0, late: 6, again: 0 };

/// 100 clients of four servers.
pub fn make(file: &Path, scale: f64) -> Result {
    record(file, scale, 9000, |slot, random| {
        let client = 0xc000_0210 + slot as u32 % 100;
        let port = 10_240 + random.below(50_000) as u16;
        let ends = Ends { src: client, dst: 0xc633_6401 + slot as u32 % 4, src_port: port, dst_port: PORT };
        Connection::new(ends, random)
    })
}

struct Connection {
    ends: Ends,
    /// The connection ids of client and server.
    ids: [[u8; 8]; 2],
    queue: VecDeque<Datagram>,
    exchanges_left: u64,
    packets: u16,
}

/// The sender, and the packets: long ones by kind, a short one for `None`; bytes of content.
#[derive(Clone)]
struct Datagram {
    from: usize,
    packets: Vec<(Option<u8>, usize)>,
}

impl Connection {
    fn new(ends: Ends, random: &mut Random) -> Self {
        let ids = [(); 2].map(|()| random.bits().to_be_bytes());
        let (initial, handshake, short) = (Some(INITIAL), Some(HANDSHAKE), None);
        let shake = [
            (0, vec![(initial, INITIAL_BYTES)]),
            (1, vec![(initial, 130), (handshake, 1000)]),
            (1, vec![(handshake, 1150)]),
            (1, vec![(handshake, 700), (short, 200)]),
            (0, vec![(initial, INITIAL_BYTES - 160), (handshake, 60), (short, 30)]),
        ];
        let queue = shake.into_iter().map(|(from, packets)| Datagram { from, packets }).collect();
        Self { ends, ids, queue, exchanges_left: 1 + random.below(12), packets: 0 }
    }

    /// A request and its response, usually small and large, with an acknowledgement for every few datagrams.
    fn exchange(&mut self, random: &mut Random) {
        let short = |from: usize, bytes: usize| Datagram { from, packets: vec![(None, bytes)] };
        let sends = usize::from(random.below(16) != 0);
        self.queue.push_back(short(1 - sends, 60 + random.below(300) as usize));
        let mut left = 300 + random.below(100_000) as usize;
        let mut flight = vec![];
        while left > 0 {
            for _ in 0..2 + random.below(8) {
                let bytes = left.min(DATAGRAM_BYTES - 9);
                left -= bytes;
                if bytes > 0 {
                    flight.push(short(sends, bytes.max(24)));
                }
            }
            flight.push(short(1 - sends, 24 + random.below(12) as usize));
        }
        self.queue.extend(TROUBLE.meet(flight, random));
    }

    fn emit(&mut self, datagram: &Datagram, random: &mut Random, filler: &Filler) -> Vec<u8> {
        let (me, peer) = (&self.ids[datagram.from], &self.ids[1 - datagram.from]);
        let mut payload = vec![];
        for (kind, bytes) in &datagram.packets {
            let content = filler.bytes(random.bits(), *bytes);
            match *kind {
                Some(INITIAL) => {
                    let rest = [&[0], sealed(content).as_slice()].concat(); // no token
                    payload.extend(quic_long(INITIAL, VERSION, peer, me, &rest));
                }
                Some(kind) => payload.extend(quic_long(kind, VERSION, peer, me, &sealed(content))),
                None => {
                    payload.push(0x40 | random.below(64) as u8);
                    payload.extend(peer);
                    payload.extend(content);
                }
            }
        }
        let ends = if datagram.from == 0 { self.ends } else { self.ends.reversed() };
        self.packets = self.packets.wrapping_add(1);
        ethernet(0x0800, &ipv4(ends, 17, self.packets, 0x4000, &summed_udp(ends, &payload)))
    }
}

impl Flow for Connection {
    fn next(&mut self, random: &mut Random, filler: &Filler) -> Option<Vec<u8>> {
        if self.queue.is_empty() && self.exchanges_left > 0 {
            self.exchanges_left -= 1;
            self.exchange(random);
        }
        let datagram = self.queue.pop_front()?;
        Some(self.emit(&datagram, random, filler))
    }
}
