//! Invalid and malicious traffic: floods, contradictions, wrong lengths, truncated packets.
//!
//! A seeded mix, so that crashes are reproducible. Each kind is one function of [`Mix`].

use std::path::Path;

use crate::shell::Result;
use crate::traces::frame::{ETHERNET_BYTES, Ends, Trace, ethernet, ipv4, tcp, udp};
use weir_testing::Random;

const FRAMES: f64 = 2_300_000.0;
const STEP_US: u64 = 5;
const CONNECTIONS: u64 = 20_000;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const TCP: u8 = 6;
const UDP: u8 = 17;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// Adds one frame or a few.
type Kind = fn(&mut Mix) -> Result;

/// Kinds with their weights.
const KINDS: &[(u64, Kind)] = &[
    (14, Mix::syn_flood),
    (44, Mix::conversation),
    (8, Mix::random_segment),
    (6, Mix::tiny_fragments),
    (6, Mix::lying_length),
    (8, Mix::cut_hello),
    (5, Mix::nested),
    (5, Mix::extension_chain),
    (6, Mix::noise),
];

pub fn make(file: &Path, scale: f64) -> Result {
    let mut mix = Mix { random: Random::new(666), trace: Trace::create(file, STEP_US)?, talks: Vec::new() };
    for _ in 0..CONNECTIONS {
        let talk = mix.talk();
        mix.talks.push(talk);
    }
    let total: u64 = KINDS.iter().map(|k| k.0).sum();
    let frames = (FRAMES * scale) as u64;
    while mix.trace.frames < frames {
        let mut pick = mix.random.below(total);
        for (weight, kind) in KINDS {
            if pick < *weight {
                kind(&mut mix)?;
                break;
            }
            pick -= weight;
        }
    }
    mix.trace.finish()
}

/// A connection from the attacker's view.
#[derive(Clone)]
struct Talk {
    ends: Ends,
    seq: u32,
    ack: u32,
    sent: u32,
}

struct Mix {
    random: Random,
    trace: Trace,
    talks: Vec<Talk>,
}

impl Mix {
    /// SYNs from nonexistent addresses to four victims.
    fn syn_flood(&mut self) -> Result {
        let mut ends = self.ends();
        ends.dst = 0xc633_6401 + self.random.below(4) as u32;
        ends.dst_port = 443;
        let seq = self.random.bits() as u32;
        self.segment(ends, seq, 0, SYN, 0)
    }

    /// The next action of a random connection: in order, retransmitted, overlapping with other bytes, out of
    /// order, or an end.
    fn conversation(&mut self) -> Result {
        let n = self.random.below(CONNECTIONS) as usize;
        let talk = self.talks[n].clone();
        let (ends, seq, ack) = (talk.ends, talk.seq, talk.ack);
        let bytes = 1 + self.random.below(1460) as usize;
        if talk.sent == 0 {
            self.segment(ends, seq.wrapping_sub(1), 0, SYN, 0)?;
            self.segment(ends.reversed(), ack.wrapping_sub(1), seq, SYN | ACK, 0)?;
            self.segment(ends, seq, ack, ACK, 0)?;
        }
        let mut advance = bytes as u32;
        match self.random.below(16) {
            0..=6 => self.segment(ends, seq, ack, PSH | ACK, bytes)?,
            7 => (0..2).try_for_each(|_| self.segment(ends, seq, ack, PSH | ACK, bytes))?,
            8 => {
                let behind = seq.wrapping_sub(self.random.below(3000) as u32);
                self.segment(ends, behind, ack, PSH | ACK, bytes)?;
            }
            9 | 10 => {
                let ahead = seq.wrapping_add(self.random.below(100_000) as u32);
                advance = 0;
                self.segment(ends, ahead, ack, PSH | ACK, bytes)?;
            }
            11 => {
                self.segment(ends, seq.wrapping_add(bytes as u32 / 2), ack, ACK, bytes)?;
                self.segment(ends, seq, ack, ACK, bytes)?;
            }
            12 => (0..bytes.min(24) as u32)
                .try_for_each(|b| self.segment(ends, seq.wrapping_add(b), ack, ACK, 1))?,
            13 => self.segment(ends.reversed(), ack, seq, RST, 0)?,
            14 => self.segment(ends, seq, ack, FIN | PSH | ACK, bytes)?,
            _ => {
                self.talks[n] = self.talk();
                return Ok(());
            }
        }
        let talk = &mut self.talks[n];
        talk.seq = talk.seq.wrapping_add(advance);
        talk.sent += 1;
        Ok(())
    }

    /// A segment with random flags, numbers and options that belongs to no connection.
    fn random_segment(&mut self) -> Result {
        let (ends, numbers) = (self.ends(), self.random.bits());
        let bytes = self.random.below(200) as usize;
        let mut segment =
            tcp(ends, numbers as u32, (numbers >> 32) as u32, self.random.bits() as u8, &self.bytes(bytes));
        segment[12] = self.random.bits() as u8;
        self.trace.put(&ethernet(IPV4, &ipv4(ends, TCP, numbers as u16, 0, &segment)))
    }

    /// A datagram in fragments of 8 bytes that overlap and may stay incomplete.
    fn tiny_fragments(&mut self) -> Result {
        let (ends, id) = (self.ends(), self.random.bits() as u16);
        let whole = self.bytes(64);
        for piece in 0..8u16 {
            if self.random.below(8) == 0 {
                continue;
            }
            let offset = if self.random.below(6) == 0 { self.random.below(8191) as u16 } else { piece };
            let more = if piece == 7 { 0 } else { 0x2000 };
            let from = usize::from(piece) * 8;
            self.trace.put(&ethernet(IPV4, &ipv4(ends, TCP, id, offset | more, &whole[from..from + 8])))?;
        }
        Ok(())
    }

    /// A valid frame with one wrong length field, or truncated by the snapshot length.
    fn lying_length(&mut self) -> Result {
        let ends = self.ends();
        let bytes = self.random.below(900) as usize;
        let payload = self.bytes(bytes);
        let is_tcp = self.random.below(2) == 0;
        let inner = if is_tcp { tcp(ends, 1, 1, ACK, &payload) } else { udp(ends, &payload) };
        let mut frame = ethernet(IPV4, &ipv4(ends, if is_tcp { TCP } else { UDP }, 1, 0, &inner));
        let lie = self.random.bits() as u8;
        let mut cut = frame.len();
        match self.random.below(5) {
            0 => frame[ETHERNET_BYTES] = 0x40 | (lie & 15),
            1 => frame[ETHERNET_BYTES + 2] ^= lie,
            2 => frame[ETHERNET_BYTES + 20 + if is_tcp { 12 } else { 4 }] ^= lie,
            3 => cut = self.random.below(cut as u64) as usize,
            _ => frame.truncate(usize::from(lie).min(cut)),
        }
        self.trace.put_cut(&frame, cut)
    }

    /// A TLS ClientHello on a connection of its own: truncated, split, or with a wrong length.
    fn cut_hello(&mut self) -> Result {
        let mut ends = self.ends();
        ends.dst_port = 443;
        let mut hello = client_hello(&self.bytes(32));
        match self.random.below(3) {
            0 => hello.truncate(self.random.below(hello.len() as u64) as usize),
            1 => {
                let at = self.random.below(hello.len() as u64) as usize;
                hello[at] ^= self.random.bits() as u8;
            }
            _ => {}
        }
        let seq = self.random.bits() as u32;
        self.segment(ends, seq, 0, SYN, 0)?;
        self.segment(ends.reversed(), 7, seq.wrapping_add(1), SYN | ACK, 0)?;
        let at = self.random.below(hello.len() as u64 + 1) as usize;
        let mut parts = [(0, &hello[..at]), (at as u32, &hello[at..])];
        if self.random.below(2) == 0 {
            parts.swap(0, 1);
        }
        for (offset, part) in parts {
            let segment = tcp(ends, seq.wrapping_add(1).wrapping_add(offset), 8, PSH | ACK, part);
            self.trace.put(&ethernet(IPV4, &ipv4(ends, TCP, 1, 0x4000, &segment)))?;
        }
        Ok(())
    }

    /// VLAN tags or IPv4 inside IPv4, dozens deep.
    fn nested(&mut self) -> Result {
        let ends = self.ends();
        let depth = 1 + self.random.below(60);
        let mut packet = ipv4(ends, UDP, 1, 0, &udp(ends, b"deep"));
        if self.random.below(2) == 0 {
            for _ in 0..depth {
                packet = ipv4(ends, 4, 1, 0, &packet);
            }
            return self.trace.put(&ethernet(IPV4, &packet));
        }
        let mut kind = IPV4;
        for tag in 0..depth as u16 {
            packet = [&tag.to_be_bytes()[..], &kind.to_be_bytes(), &packet].concat();
            kind = VLAN;
        }
        self.trace.put(&ethernet(kind, &packet))
    }

    /// IPv6 with a long or broken chain of extension headers (RFC 8200, section 4).
    fn extension_chain(&mut self) -> Result {
        let mut chain = Vec::new();
        let count = self.random.below(20);
        for n in 0..count {
            let next = if n + 1 == count { TCP } else { [0, 43, 44, 60][self.random.below(4) as usize] };
            let length = if self.random.below(10) == 0 { self.random.bits() as u8 } else { 0 };
            chain.extend([next, length, 0, 0, 0, 0, 0, 0]);
        }
        let ends = self.ends();
        chain.extend(tcp(ends, 1, 1, ACK, b"behind"));
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend((chain.len() as u16).to_be_bytes());
        packet.extend([if count == 0 { TCP } else { 0 }, 64]);
        packet.extend(self.bytes(32));
        packet.extend(chain);
        self.trace.put(&ethernet(IPV6, &packet))
    }

    /// Random bytes, with or without a plausible EtherType.
    fn noise(&mut self) -> Result {
        let bytes = self.random.below(1500) as usize;
        let payload = self.bytes(bytes);
        let kinds = [IPV4, IPV6, VLAN, 0x88a8, 0x8847, 0x0806, self.random.bits() as u16];
        let kind = kinds[self.random.below(kinds.len() as u64) as usize];
        self.trace.put(&ethernet(kind, &payload))
    }

    fn segment(&mut self, ends: Ends, seq: u32, ack: u32, flags: u8, bytes: usize) -> Result {
        let payload = self.bytes(bytes);
        let id = self.random.bits() as u16;
        self.trace.put(&ethernet(IPV4, &ipv4(ends, TCP, id, 0x4000, &tcp(ends, seq, ack, flags, &payload))))
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend(self.random.bits().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }

    fn ends(&mut self) -> Ends {
        let (addresses, ports) = (self.random.bits(), self.random.bits());
        Ends {
            src: addresses as u32,
            dst: (addresses >> 32) as u32,
            src_port: ports as u16,
            dst_port: (ports >> 16) as u16,
        }
    }

    fn talk(&mut self) -> Talk {
        let numbers = self.random.bits();
        Talk { ends: self.ends(), seq: numbers as u32, ack: (numbers >> 32) as u32, sent: 0 }
    }
}

/// A small valid ClientHello (RFC 8446, section 4.1.2) with a server name.
fn client_hello(random: &[u8]) -> Vec<u8> {
    let name = b"hostile.example.com";
    let mut sni = ((name.len() + 3) as u16).to_be_bytes().to_vec();
    sni.push(0);
    sni.extend((name.len() as u16).to_be_bytes());
    sni.extend(name);
    let mut extensions = vec![0, 0];
    extensions.extend((sni.len() as u16).to_be_bytes());
    extensions.extend(sni);
    extensions.extend([0, 43, 0, 3, 2, 3, 4, 0, 10, 0, 4, 0, 2, 0, 29]);
    let mut body = vec![3, 3];
    body.extend(random);
    body.extend([0, 0, 4, 0x13, 0x01, 0xc0, 0x2f, 1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let mut message = vec![1, 0];
    message.extend((body.len() as u16).to_be_bytes());
    message.extend(body);
    let mut record = vec![22, 3, 1];
    record.extend((message.len() as u16).to_be_bytes());
    record.extend(message);
    record
}
