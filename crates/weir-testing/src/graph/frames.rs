//! Generates packets to run graphs on.

use crate::Random;
use weir_packet::{LinkType, PacketMeta, Timestamp};

/// An Ethernet frame with IPv4 (no options), TCP (no options) and a payload. Checksums are 0.
pub fn tcp_frame(src_port: u16, dst_port: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2, 0x08, 0x00];
    frame.extend([0x45, 0]);
    frame.extend((40 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(src_port.to_be_bytes());
    frame.extend(dst_port.to_be_bytes());
    frame.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 0x20, 0, 0, 0, 0, 0]);
    frame.extend(payload);
    frame
}

/// A realistic frame, possibly truncated or with one changed byte; or random bytes.
pub fn random_frame(random: &mut Random) -> Vec<u8> {
    let payload: Vec<u8> = match random.below(3) {
        0 => vec![],
        1 => b"GET /example HTTP/1.1\r\nHost: example.com\r\n\r\n".to_vec(),
        _ => (0..random.below(100)).map(|_| random.bits() as u8).collect(),
    };
    let port = random.pick(&[0, 22, 53, 80, 443, 8080, 65535]);
    let mut frame = tcp_frame(port, random.bits() as u16, &payload);
    match random.below(4) {
        0 => frame.truncate(random.below(frame.len() as u64 + 1) as usize),
        1 => {
            let at = random.below(frame.len() as u64) as usize;
            frame[at] = random.bits() as u8;
        }
        2 => {
            let mask = random.pick(&[0x03, 0x1f, 0xff]);
            frame = (0..random.below(120)).map(|_| random.bits() as u8 & mask).collect();
        }
        _ => {}
    }
    frame
}

/// Consecutive packets with their metadata.
pub fn random_packets(random: &mut Random, count: usize) -> Vec<(PacketMeta, Vec<u8>)> {
    let mut packet = |number: usize| {
        let frame = random_frame(random);
        let meta = PacketMeta {
            time: Timestamp(number as i64 * 1_000_003),
            number: number as u64 + 1,
            offset: 0,
            captured_bytes: frame.len() as u32,
            wire_bytes: frame.len() as u32 + random.below(3) as u32,
            link: LinkType(1),
            interface: random.below(2) as u16,
        };
        (meta, frame)
    };
    (0..count).map(&mut packet).collect()
}
