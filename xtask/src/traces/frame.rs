//! Frames built by hand, and their pcap file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::shell::{Result, said};
use crate::traces::sums;

const MICROS_PER_SECOND: u64 = 1_000_000;
/// 2026-01-01T00:00:00Z, the first packet's time in generated traces.
const EPOCH_SECONDS: u64 = 1_767_225_600;

/// LINKTYPE_ETHERNET.
const ETHERNET: u32 = 1;

/// A pcap file of frames at a fixed interval in microseconds.
pub struct Trace {
    out: BufWriter<File>,
    now_us: u64,
    step_us: u64,
    /// How many frames were written.
    pub frames: u64,
    /// The bytes of the file so far.
    pub bytes: u64,
}

impl Trace {
    /// A file of Ethernet frames.
    pub fn create(file: &Path, step_us: u64) -> Result<Self> {
        Self::create_for(file, ETHERNET, step_us)
    }

    /// A file of frames of the link type with this LINKTYPE_ number.
    pub fn create_for(file: &Path, link: u32, step_us: u64) -> Result<Self> {
        let out = File::create(file).map_err(said(file.display()))?;
        let mut out = BufWriter::with_capacity(1 << 20, out);
        // draft-ietf-opsawg-pcap, section 4: magic, version 2.4, two reserved, snaplen, link type.
        let head: [u32; 6] = [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 262_144, link];
        for word in head {
            out.write_all(&word.to_le_bytes()).map_err(said("trace"))?;
        }
        Ok(Self { out, now_us: EPOCH_SECONDS * MICROS_PER_SECOND, step_us, frames: 0, bytes: 24 })
    }

    /// Writes a frame; `cut` is the number of captured bytes.
    pub fn put_cut(&mut self, frame: &[u8], cut: usize) -> Result {
        let kept = cut.min(frame.len());
        let record = [
            (self.now_us / MICROS_PER_SECOND) as u32,
            (self.now_us % MICROS_PER_SECOND) as u32,
            kept as u32,
            frame.len() as u32,
        ];
        for word in record {
            self.out.write_all(&word.to_le_bytes()).map_err(said("trace"))?;
        }
        self.out.write_all(&frame[..kept]).map_err(said("trace"))?;
        self.now_us += self.step_us;
        self.frames += 1;
        self.bytes += (16 + kept) as u64;
        Ok(())
    }

    pub fn put(&mut self, frame: &[u8]) -> Result {
        self.put_cut(frame, frame.len())
    }

    pub fn finish(mut self) -> Result {
        self.out.flush().map_err(said("trace"))
    }
}

/// The endpoints of a datagram.
#[derive(Clone, Copy)]
pub struct Ends {
    pub src: u32,
    pub dst: u32,
    pub src_port: u16,
    pub dst_port: u16,
}

impl Ends {
    pub fn reversed(self) -> Self {
        Self { src: self.dst, dst: self.src, src_port: self.dst_port, dst_port: self.src_port }
    }

    /// The IPv4 pseudo-header of transport checksums (RFC 9293, section 3.1).
    pub fn pseudo_header(self, protocol: u8, bytes: usize) -> Vec<u8> {
        [self.src, self.dst, u32::from(protocol) << 16 | bytes as u32].map(u32::to_be_bytes).concat()
    }
}

pub const ETHERNET_BYTES: usize = 14;
pub const IPV4_BYTES: usize = 20;

/// Ethernet II with a given type.
pub fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    frame.extend(kind.to_be_bytes());
    frame.extend(payload);
    frame
}

/// RFC 791. `fragment` is the field with flags and offset.
pub fn ipv4(ends: Ends, protocol: u8, id: u16, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend(((IPV4_BYTES + payload.len()) as u16).to_be_bytes());
    packet.extend(id.to_be_bytes());
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(ends.src.to_be_bytes());
    packet.extend(ends.dst.to_be_bytes());
    let sum = packet.chunks(2).map(|b| u32::from(u16::from_be_bytes([b[0], b[1]]))).sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    packet.extend(payload);
    packet
}

/// RFC 768, without a checksum (0).
pub fn udp(ends: Ends, payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::with_capacity(8 + payload.len());
    for word in [ends.src_port, ends.dst_port, (8 + payload.len()) as u16, 0] {
        datagram.extend(word.to_be_bytes());
    }
    datagram.extend(payload);
    datagram
}

/// RFC 768, with its checksum.
pub fn summed_udp(ends: Ends, payload: &[u8]) -> Vec<u8> {
    let mut datagram = udp(ends, payload);
    let sum = match sums::internet(&[&ends.pseudo_header(17, datagram.len()), &datagram]) {
        0 => 0xffff,
        sum => sum,
    };
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    datagram
}

/// RFC 9293, with checksum 0: no measured program checks it.
pub fn tcp(ends: Ends, seq: u32, ack: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut segment = Vec::with_capacity(20 + payload.len());
    segment.extend(ends.src_port.to_be_bytes());
    segment.extend(ends.dst_port.to_be_bytes());
    segment.extend(seq.to_be_bytes());
    segment.extend(ack.to_be_bytes());
    segment.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend(payload);
    segment
}
