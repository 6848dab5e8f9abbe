//! Captures that tests make.

use std::fs;
use std::path::Path;
use weir_testing::frames::{ethernet, ipv4, pcap, udp};

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
    let frames: Vec<Vec<u8>> = datagrams.iter().map(Datagram::frame).collect();
    let path = folder.join("capture.pcap");
    fs::write(&path, pcap(&frames)).expect("a file for tests");
    path.to_str().expect("UTF-8").to_string()
}
