//! Realistic frames, modified at random: mutated, truncated, reordered by random sequence numbers.

use weir_packet::{LinkType, PacketMeta, Timestamp};

/// A generator of frames; the same seed gives the same frames.
pub struct Frames(u64);

impl Frames {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Generates `count` packets.
    pub fn packets(&mut self, count: usize) -> Vec<(PacketMeta, Vec<u8>)> {
        (1..=count as u64)
            .map(|number| {
                let (link, mut frame) = self.frame();
                let mut wire_bytes = frame.len() as u32;
                if self.once_in(5) && !frame.is_empty() {
                    let at = self.below(frame.len() as u64) as usize;
                    frame[at] = self.bits() as u8;
                }
                if self.once_in(5) {
                    frame.truncate(self.below(frame.len() as u64 + 1) as usize);
                    if self.once_in(2) {
                        wire_bytes = frame.len() as u32;
                    }
                }
                let packet = PacketMeta {
                    time: Timestamp(number as i64 * 1_000_000),
                    number,
                    captured_bytes: frame.len() as u32,
                    wire_bytes,
                    link: LinkType(link),
                    ..PacketMeta::default()
                };
                (packet, frame)
            })
            .collect()
    }

    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick(&mut self, choices: &[u64]) -> u64 {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn frame(&mut self) -> (u16, Vec<u8>) {
        if self.once_in(20) {
            let (ethertype, network) = self.network(0);
            let _ = ethertype;
            return (self.pick(&[101, 228, 229, 147, 0]) as u16, network);
        }
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, self.below(3) as u8];
        let (ethertype, network) = self.network(0);
        for _ in 0..self.pick(&[0, 0, 0, 1, 2, 10]) {
            frame.extend([0x81, 0, 0, self.below(9) as u8]);
        }
        frame.extend(ethertype.to_be_bytes());
        frame.extend(network);
        (1, frame)
    }

    fn network(&mut self, depth: u32) -> (u16, Vec<u8>) {
        match self.below(12) {
            0 => (0x0806, self.arp()),
            1..=3 => (0x86dd, self.ipv6(depth)),
            4 if depth == 0 => {
                let mut labels = vec![0, 0x10, if self.once_in(4) { 0 } else { 1 }, 64];
                labels.extend(self.ipv4(depth));
                (0x8847, labels)
            }
            5 if depth == 0 => (self.bits() as u16, vec![0; 40]),
            _ => (0x0800, self.ipv4(depth)),
        }
    }

    fn arp(&mut self) -> Vec<u8> {
        let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1 + self.below(2) as u8];
        arp.extend((0..20).map(|_| self.bits() as u8));
        arp
    }

    fn ipv4(&mut self, depth: u32) -> Vec<u8> {
        let (protocol, payload) = self.transport(depth);
        let words = self.pick(&[5, 5, 5, 6, 15]) as u8;
        let total = (usize::from(words) * 4 + payload.len()) as u16;
        let (flags, payload, id) = match self.below(12) {
            0 if payload.len() > 16 => (0x2000u16, payload[..16].to_vec(), 1),
            1 if payload.len() > 16 => (2, payload[16..].to_vec(), 1),
            2 if payload.len() > 24 => (0x2000 | 1, payload[8..24].to_vec(), 1),
            _ => (0, payload, self.below(9) as u8),
        };
        let total = if flags == 0 { total } else { (usize::from(words) * 4 + payload.len()) as u16 };
        let mut ip = vec![0x40 | words, 0];
        ip.extend(total.to_be_bytes());
        ip.extend([0, id]);
        ip.extend(flags.to_be_bytes());
        ip.extend([self.pick(&[1, 4, 64]) as u8, protocol, 0, 0]);
        let (a, b) = (1 + self.below(3) as u8, 1 + self.below(3) as u8);
        ip.extend([10, 0, 0, a, 10, 0, 0, b]);
        ip.resize(usize::from(words) * 4, 1);
        ip.extend(payload);
        ip.resize(ip.len() + self.pick(&[0, 0, 0, 6]) as usize, 0);
        ip
    }

    fn ipv6(&mut self, depth: u32) -> Vec<u8> {
        let (mut next, mut payload) = self.transport(depth);
        if self.once_in(4) {
            let kind = self.pick(&[0, 43, 60, 44]) as u8;
            let mut extended = vec![next, 0];
            extended.extend((0..6).map(|_| if kind == 44 { self.pick(&[0, 1, 8]) as u8 } else { 0 }));
            extended.extend(payload);
            (next, payload) = (kind, extended);
        }
        let mut ip = vec![0x60, 0, 0, 0];
        ip.extend((payload.len() as u16).to_be_bytes());
        ip.extend([next, self.pick(&[1, 4, 64]) as u8]);
        for _ in 0..2 {
            ip.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, self.below(2) as u8]);
        }
        ip.extend(payload);
        ip
    }

    fn transport(&mut self, depth: u32) -> (u8, Vec<u8>) {
        match self.below(12) {
            0 if depth < 2 => (4, self.ipv4(depth + 1)),
            1 if depth < 2 => (41, self.ipv6(depth + 1)),
            2 if depth < 2 => {
                let mut icmp = vec![self.pick(&[3, 8, 11]) as u8, 0, 0, 0, 0, 0, 0, 0];
                icmp.extend(self.ipv4(depth + 1));
                (1, icmp)
            }
            3 => (58, vec![self.pick(&[1, 128, 135]) as u8, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]),
            4 | 5 => {
                let bytes = self.below(30) as usize;
                let mut udp = self.ports();
                udp.extend((bytes as u16 + 8).to_be_bytes());
                udp.extend([0, 0]);
                udp.extend((0..bytes).map(|n| n as u8));
                (17, udp)
            }
            6 => (self.bits() as u8, vec![1; 20]),
            _ => (6, self.tcp()),
        }
    }

    fn ports(&mut self) -> Vec<u8> {
        let ports = [80, 443, 53, 8001, 40000];
        let (a, b) = (self.pick(&ports) as u16, self.pick(&ports) as u16);
        [a.to_be_bytes(), b.to_be_bytes()].concat()
    }

    fn tcp(&mut self) -> Vec<u8> {
        let mut tcp = self.ports();
        // Few numbers, so that some segments are next, some early and some old.
        let at = self.pick(&[0xffff_fff8, 0xffff_fffc, 0, 4, 8, 12, 16]) as u32;
        tcp.extend(at.to_be_bytes());
        tcp.extend((self.below(20) as u32).to_be_bytes());
        let options: &[u8] = match self.below(5) {
            0 => &[2, 4, 5, 180, 1, 3, 3, 7],
            1 => &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
            2 => &[9, 0, 0, 0],
            _ => &[],
        };
        let flags = self.pick(&[2, 0x12, 0x10, 0x10, 0x18, 0x18, 0x11, 4, 0]) as u8;
        tcp.extend([(5 + options.len() as u8 / 4) << 4, flags, 1, 0, 0, 0, 0, 0]);
        tcp.extend(options);
        let bytes = self.pick(&[0, 0, 4, 4, 8, 40]) as usize;
        tcp.extend(b"GET /".iter().cycle().take(bytes));
        tcp
    }
}
