//! A minimal capture reader: pcap and pcapng, down to TCP segments. For tests only. Unknown packets are
//! skipped.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

/// A TCP segment.
pub struct Tcp<'a> {
    pub source: (IpAddr, u16),
    pub destination: (IpAddr, u16),
    pub sequence: u32,
    pub is_syn: bool,
    pub is_ack: bool,
    pub payload: &'a [u8],
}

/// The bytes of a capture, decompressed by gzip(1) if its name ends in `.gz`.
pub fn read(path: &Path) -> Option<Vec<u8>> {
    if path.extension().is_some_and(|extension| extension == "gz") {
        let output = Command::new("gzip").arg("-dc").arg(path).output().ok()?;
        return output.status.success().then_some(output.stdout);
    }
    std::fs::read(path).ok()
}

/// Link type and bytes of each frame, in order: frame 1 is the first.
pub fn frames(bytes: &[u8]) -> Vec<(u32, &[u8])> {
    match bytes.first_chunk::<4>() {
        Some([0x0a, 0x0d, 0x0d, 0x0a]) => pcapng_frames(bytes).unwrap_or_default(),
        Some([0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1]) => pcap_frames(bytes, u32::from_le_bytes),
        Some([0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d]) => pcap_frames(bytes, u32::from_be_bytes),
        _ => Vec::new(),
    }
}

fn pcap_frames(bytes: &[u8], number: fn([u8; 4]) -> u32) -> Vec<(u32, &[u8])> {
    let at = |offset: usize| bytes.get(offset..offset + 4).map(|four| number(four.try_into().expect("four")));
    let link = at(20).unwrap_or(0) & 0xffff;
    let mut frames = Vec::new();
    let mut offset = 24;
    while let Some(length) = at(offset + 8) {
        let Some(frame) = bytes.get(offset + 16..offset + 16 + length as usize) else { break };
        frames.push((link, frame));
        offset += 16 + length as usize;
    }
    frames
}

fn pcapng_frames(bytes: &[u8]) -> Option<Vec<(u32, &[u8])>> {
    let number: fn([u8; 4]) -> u32 =
        if bytes.get(8..12)? == [0x4d, 0x3c, 0x2b, 0x1a] { u32::from_le_bytes } else { u32::from_be_bytes };
    let at = |offset: usize| bytes.get(offset..offset + 4).map(|four| number(four.try_into().expect("four")));
    let mut frames = Vec::new();
    let mut links = Vec::new();
    let mut offset = 0;
    while let (Some(kind), Some(length)) = (at(offset), at(offset + 4)) {
        let length = length as usize;
        if length < 12 || offset + length > bytes.len() {
            break;
        }
        match kind {
            0x0a0d_0d0a => links.clear(),
            // Link type in two bytes, then two reserved zero bytes, in either byte order.
            1 => links.push(at(offset + 8).map(|word| if word > 0xffff { word >> 16 } else { word })?),
            6 => {
                let link = links.get(at(offset + 8)? as usize).copied()?;
                let captured = at(offset + 20)? as usize;
                frames.push((link, bytes.get(offset + 28..offset + 28 + captured)?));
            }
            3 => frames.push((*links.first()?, bytes.get(offset + 12..offset + length - 4)?)),
            _ => {}
        }
        offset += length;
    }
    Some(frames)
}

/// The TCP segment in a frame of Ethernet (with VLAN tags and PPPoE), BSD loopback or raw IP. `None` for
/// fragments and tunnels.
pub fn tcp(link: u32, frame: &[u8]) -> Option<Tcp<'_>> {
    match link {
        0 => ip(frame.get(4..)?),
        1 => {
            let mut rest = frame.get(12..)?;
            loop {
                match rest.first_chunk::<2>()? {
                    [0x81, 0x00] | [0x88, 0xa8] => rest = rest.get(4..)?,
                    [0x88, 0x64] => return ip(rest.get(10..)?),
                    [0x08, 0x00] | [0x86, 0xdd] => return ip(&rest[2..]),
                    _ => return None,
                }
            }
        }
        101 => ip(frame),
        _ => None,
    }
}

fn ip(packet: &[u8]) -> Option<Tcp<'_>> {
    let word = |offset: usize| packet.get(offset..offset + 2).map(|two| u16::from_be_bytes([two[0], two[1]]));
    let (source, destination, segment): (IpAddr, IpAddr, &[u8]) = match packet.first()? >> 4 {
        4 => {
            if packet.get(9)? != &6 || word(6)? & 0x3fff != 0 {
                return None;
            }
            let header = usize::from(packet[0] & 15) * 4;
            // Segmentation offload leaves a length of zero: then the packet fills the frame.
            let total = match usize::from(word(2)?) {
                0 => packet.len(),
                total => total.min(packet.len()),
            };
            let address = |offset: usize| <[u8; 4]>::try_from(packet.get(offset..offset + 4)?).ok();
            (address(12)?.into(), address(16)?.into(), packet.get(header..total)?)
        }
        6 => {
            let (mut next, mut offset) = (*packet.get(6)?, 40);
            while matches!(next, 0 | 43 | 60) {
                next = *packet.get(offset)?;
                offset += usize::from(*packet.get(offset + 1)?) * 8 + 8;
            }
            if next != 6 {
                return None;
            }
            let address = |offset: usize| <[u8; 16]>::try_from(packet.get(offset..offset + 16)?).ok();
            let total = (40 + usize::from(word(4)?)).min(packet.len());
            (address(8)?.into(), address(24)?.into(), packet.get(offset..total)?)
        }
        _ => return None,
    };
    let port =
        |offset: usize| segment.get(offset..offset + 2).map(|two| u16::from_be_bytes([two[0], two[1]]));
    let header = usize::from(*segment.get(12)? >> 4) * 4;
    let flags = *segment.get(13)?;
    Some(Tcp {
        source: (source, port(0)?),
        destination: (destination, port(2)?),
        sequence: u32::from_be_bytes(segment.get(4..8)?.try_into().ok()?),
        is_syn: flags & 2 != 0,
        is_ack: flags & 16 != 0,
        payload: segment.get(header..)?,
    })
}
