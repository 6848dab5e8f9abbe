//! Frames of every layer in the stack, and damaged frames.

use crate::Random;
use weir_io::MemoryPacket;
use weir_packet::LinkType;

/// IPv4 addresses: few, so that filters match packets.
pub const V4: [[u8; 4]; 5] =
    [[10, 0, 0, 1], [10, 0, 0, 2], [192, 0, 2, 10], [198, 51, 100, 10], [203, 0, 113, 77]];
/// IPv6 addresses, likewise.
pub const V6: [[u8; 16]; 3] = [
    [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10],
    [0x20, 1, 0xd, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11],
    [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
];
/// Ports, likewise.
pub const PORTS: [u16; 8] = [22, 53, 80, 443, 8080, 40_000, 52_364, 65_535];

/// The flag FIN of TCP.
pub const FIN: u8 = 1;
/// The flag SYN of TCP.
pub const SYN: u8 = 2;
/// The flag RST of TCP.
pub const RST: u8 = 4;
/// The flag PSH of TCP.
pub const PSH: u8 = 8;
/// The flag ACK of TCP.
pub const ACK: u8 = 16;

/// A capture file (pcap, Ethernet) of these frames, one each millisecond.
pub fn pcap<T: AsRef<[u8]>>(frames: &[T]) -> Vec<u8> {
    let mut file = vec![];
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for (at, frame) in (0_u32..).zip(frames) {
        let frame = frame.as_ref();
        let (seconds, micros, length) = (1_700_000_000 + at / 1000, at % 1000 * 1000, frame.len() as u32);
        for word in [seconds, micros, length, length] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(frame);
    }
    file
}

/// Random bytes, at most `bytes_max`.
pub fn noise(random: &mut Random, bytes_max: u64) -> Vec<u8> {
    (0..random.below(bytes_max + 1)).map(|_| random.bits() as u8).collect()
}

/// A TCP segment; `options` are a multiple of four bytes.
pub fn tcp(ports: (u16, u16), seq: u32, ack: u32, flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    out.extend(ports.0.to_be_bytes());
    out.extend(ports.1.to_be_bytes());
    out.extend(seq.to_be_bytes());
    out.extend(ack.to_be_bytes());
    out.extend([((5 + options.len() / 4) << 4) as u8, flags, 0x20, 0, 0, 0, 0, 0]);
    out.extend(options);
    out.extend(payload);
    out
}

/// A UDP datagram.
pub fn udp(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    out.extend(ports.0.to_be_bytes());
    out.extend(ports.1.to_be_bytes());
    out.extend((8 + payload.len() as u16).to_be_bytes());
    out.extend([0, 0]);
    out.extend(payload);
    out
}

/// An IPv4 packet. `fragment`: flags and offset, as in the header.
pub fn ipv4(
    ends: ([u8; 4], [u8; 4]),
    protocol: u8,
    id: u16,
    fragment: u16,
    options: &[u8],
    payload: &[u8],
) -> Vec<u8> {
    let header_bytes = 20 + options.len();
    let mut out = vec![0x40 | (header_bytes / 4) as u8, 0];
    out.extend(((header_bytes + payload.len()) as u16).to_be_bytes());
    out.extend(id.to_be_bytes());
    out.extend(fragment.to_be_bytes());
    out.extend([64, protocol, 0, 0]);
    out.extend(ends.0);
    out.extend(ends.1);
    out.extend(options);
    out.extend(payload);
    out
}

/// An IPv6 packet.
pub fn ipv6(ends: ([u8; 16], [u8; 16]), next: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x60, 0, 0, 0];
    out.extend((payload.len() as u16).to_be_bytes());
    out.extend([next, 64]);
    out.extend(ends.0);
    out.extend(ends.1);
    out.extend(payload);
    out
}

/// An IPv6 fragment header with `payload`.
pub fn ipv6_fragment(next: u8, offset: u16, more: bool, ident: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![next, 0];
    out.extend((offset | u16::from(more)).to_be_bytes());
    out.extend(ident.to_be_bytes());
    out.extend(payload);
    out
}

/// An extension header of eight bytes with `payload`.
pub fn extension(next: u8, payload: &[u8]) -> Vec<u8> {
    [&[next, 0, 1, 4, 0, 0, 0, 0], payload].concat()
}

/// An Ethernet frame.
pub fn ethernet(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2];
    out.extend(ethertype.to_be_bytes());
    out.extend(payload);
    out
}

/// A VLAN tag with `payload`.
pub fn vlan(id: u16, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = id.to_be_bytes().to_vec();
    out.extend(ethertype.to_be_bytes());
    out.extend(payload);
    out
}

/// An MPLS label with `payload`.
pub fn mpls(label: u32, bottom: bool, payload: &[u8]) -> Vec<u8> {
    let mut out = (label << 12 | u32::from(bottom) << 8 | 64).to_be_bytes().to_vec();
    out.extend(payload);
    out
}

/// An ARP request or reply.
pub fn arp(random: &mut Random) -> Vec<u8> {
    let mut out = vec![0, 1, 8, 0, 6, 4, 0, 1 + random.below(2) as u8];
    out.extend([2, 0, 0, 0, 0, 1]);
    out.extend(random.pick(&V4));
    out.extend([0; 6]);
    out.extend(random.pick(&V4));
    out
}

/// Protocol number and bytes of a random IP payload.
pub fn transport(random: &mut Random) -> (u8, Vec<u8>) {
    let ports = (random.pick(&PORTS), random.pick(&PORTS));
    let payload = match random.below(4) {
        0 => vec![],
        1 => b"GET /example HTTP/1.1\r\nHost: www.example.com\r\n\r\n".to_vec(),
        2 => b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03".to_vec(),
        _ => noise(random, 60),
    };
    match random.below(8) {
        0..=3 => {
            let options: &[u8] = match random.below(4) {
                0 => &[2, 4, 5, 0xb4, 1, 3, 3, 7, 4, 2, 1, 0],
                1 => &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
                2 => &[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2],
                _ => &[],
            };
            let flags = random.pick(&[SYN, SYN | ACK, ACK, PSH | ACK, FIN | ACK, RST, RST | ACK, 0xff, 0]);
            let (seq, ack) = (random.number() as u32, random.number() as u32);
            (6, tcp(ports, seq, ack, flags, options, &payload))
        }
        4 | 5 => (17, udp(ports, &payload)),
        6 => {
            let mut message = vec![random.pick(&[0, 8, 13, 42]), 0, 0, 0, 0, 1, 0, 2];
            message.extend(payload);
            (1, message)
        }
        _ => (random.pick(&[2, 50, 132, 47]), payload),
    }
}

/// EtherType and bytes of a random IP packet, possibly with extension headers, fragmented or tunnelled.
pub fn network(random: &mut Random, depth: u32) -> (u16, Vec<u8>) {
    let (mut number, mut payload) = transport(random);
    if random.once_in(12) {
        let inner = network(random, 0).1;
        let error = [&[3, 1, 0, 0, 0, 0, 0, 0], &inner[..inner.len().min(60)]].concat();
        (number, payload) = (1, error);
    }
    if depth > 0 && random.once_in(6) {
        let (ethertype, inner) = network(random, depth - 1);
        (number, payload) = (if ethertype == 0x0800 { 4 } else { 41 }, inner);
    }
    if random.once_in(3) {
        if number == 1 && random.once_in(2) {
            number = 58;
        }
        for _ in 0..random.below(3) {
            payload = extension(number, &payload);
            number = random.pick(&[0, 43, 60]);
        }
        if random.once_in(5) {
            let (offset, more) = (random.below(4) as u16 * 8, random.once_in(2));
            payload = ipv6_fragment(number, offset, more, random.below(3) as u32, &payload);
            number = 44;
        }
        return (0x86dd, ipv6((random.pick(&V6), random.pick(&V6)), number, &payload));
    }
    let options: &[u8] = if random.once_in(6) { &[1, 1, 1, 0] } else { &[] };
    let fragment = match random.below(6) {
        0 => random.below(4) as u16 | if random.once_in(2) { 0x2000 } else { 0 },
        1 => 0x4000,
        _ => 0,
    };
    let id = random.below(4) as u16;
    (0x0800, ipv4((random.pick(&V4), random.pick(&V4)), number, id, fragment, options, &payload))
}

/// A well-formed frame of random layers.
pub fn whole(random: &mut Random) -> MemoryPacket {
    whole_within(random, 2)
}

/// A well-formed frame of random layers, in at most `tunnels` tunnels.
pub fn whole_within(random: &mut Random, tunnels: u32) -> MemoryPacket {
    let (mut ethertype, mut bytes) = match random.below(16) {
        0 => (0x0806, arp(random)),
        1 => (random.bits() as u16, noise(random, 60)),
        _ => network(random, tunnels),
    };
    if random.once_in(12) && matches!(ethertype, 0x0800 | 0x86dd) {
        return MemoryPacket { link: LinkType::RAW, ..MemoryPacket::ethernet(bytes) };
    }
    if random.once_in(8) && matches!(ethertype, 0x0800 | 0x86dd) {
        for place in 0..1 + random.below(3) {
            bytes = mpls(random.below(20) as u32, place == 0, &bytes);
        }
        ethertype = 0x8847;
    }
    for _ in 0..if random.once_in(5) { 1 + random.below(3) } else { 0 } {
        bytes = vlan(random.below(50) as u16, ethertype, &bytes);
        ethertype = random.pick(&[0x8100, 0x88a8]);
    }
    MemoryPacket::ethernet(ethernet(ethertype, &bytes))
}

/// A random frame, possibly damaged.
pub fn any(random: &mut Random) -> MemoryPacket {
    let packet = whole(random);
    damage(random, packet)
}

/// The frame, unchanged, with wrong bytes, truncated, or replaced by random bytes.
pub fn damage(random: &mut Random, mut packet: MemoryPacket) -> MemoryPacket {
    match random.below(8) {
        0 => {
            for _ in 0..1 + random.below(3) {
                let at = random.below(packet.frame.len() as u64) as usize;
                packet.frame[at] = random.bits() as u8;
            }
        }
        1 => {
            let snaplen = random.below(packet.frame.len() as u64 + 1) as usize;
            packet = packet.cut(snaplen);
        }
        2 => {
            // The frame itself is short, not only its capture.
            packet.frame.truncate(random.below(packet.frame.len() as u64 + 1) as usize);
            packet.wire_bytes = packet.frame.len() as u32;
        }
        3 if random.once_in(3) => {
            packet = MemoryPacket::ethernet(noise(random, 120));
            packet.link = LinkType(random.pick(&[0, 1, 101, 113, 276, 147]));
        }
        _ => {}
    }
    packet
}

/// Gives packets increasing times, sometimes minutes apart.
pub fn give_times(random: &mut Random, packets: &mut [MemoryPacket]) {
    let mut now = 1_700_000_000_000_000_000;
    for packet in packets {
        now += match random.below(60) {
            0 => 7_000_000_000,
            1 if random.once_in(4) => 400_000_000_000,
            _ => random.below(2_000_000) as i64,
        };
        packet.time.0 = now;
    }
}
