//! Captures that tests make.

use std::fs;
use std::path::Path;
use weir_testing::frames::{ethernet, ipv4, udp};

/// A datagram of UDP over IPv4, as a frame.
pub struct Datagram<'a> {
    pub from: (u8, u16),
    pub to: (u8, u16),
    pub ttl: u8,
    pub payload: &'a [u8],
}

impl Datagram<'_> {
    fn frame(&self) -> Vec<u8> {
        let datagram = udp((self.from.1, self.to.1), self.payload);
        let mut packet = ipv4(([10, 0, 0, self.from.0], [10, 0, 0, self.to.0]), 17, 1, 0, &[], &datagram);
        packet[8] = self.ttl;
        ethernet(0x0800, &packet)
    }
}

/// Writes a capture with a datagram each millisecond. Returns its path.
pub fn capture(folder: &Path, datagrams: &[Datagram<'_>]) -> String {
    let mut bytes = vec![];
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for (index, datagram) in datagrams.iter().enumerate() {
        let frame = datagram.frame();
        let (index, length) = (index as u32, frame.len() as u32);
        for word in [1_700_000_000 + index / 1000, index % 1000 * 1000, length, length] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    let path = folder.join("capture.pcap");
    fs::write(&path, bytes).expect("a file for tests");
    path.to_str().expect("UTF-8").to_string()
}
