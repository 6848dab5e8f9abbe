//! Packets into a pcapng file: any mix of link types and interfaces, times in nanoseconds.

use super::pcap::{BUFFER_BYTES, SNAPLEN_BYTES, length_of};
use std::io::{self, BufWriter, Write};
use weir_packet::{LinkType, PacketMeta};

/// Writes packets as a pcapng file: one little-endian section, an interface description for each
/// pair of link type and input interface, written right before its first packet.
#[derive(Debug)]
pub struct PcapngWriter<W: Write> {
    out: BufWriter<W>,
    begun: bool,
    /// The interfaces described so far, in the order of their numbers in the file.
    interfaces: Vec<(LinkType, u16)>,
    /// Number of the interface of the packet before: mostly that of the next one too.
    last: usize,
}

impl<W: Write> PcapngWriter<W> {
    /// A writer of a file that begins with the first packet.
    pub fn new(out: W) -> Self {
        Self {
            out: BufWriter::with_capacity(BUFFER_BYTES, out),
            begun: false,
            interfaces: Vec::new(),
            last: 0,
        }
    }

    /// Writes one packet: what `meta` says of it, and its captured bytes `data`.
    ///
    /// Times before 1970 become 1970-01-01.
    ///
    /// # Errors
    /// Those of the underlying writer.
    pub fn write(&mut self, meta: &PacketMeta, data: &[u8]) -> io::Result<()> {
        let interface = self.describe(meta.link, meta.interface)?;
        let ticks = meta.time.0.max(0) as u64;
        let captured = length_of(data)?;
        let padding = data.len().next_multiple_of(4) - data.len();
        let total = captured + padding as u32 + 32;
        let mut header = [0; 28];
        let words = [
            6,
            total,
            interface,
            (ticks >> 32) as u32,
            ticks as u32,
            captured,
            meta.wire_bytes.max(captured),
        ];
        for (place, word) in header.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        self.out.write_all(&header)?;
        self.out.write_all(data)?;
        self.out.write_all(&[0; 3][..padding])?;
        self.out.write_all(&total.to_le_bytes())
    }

    /// The number of an interface in the file, described there the first time.
    fn describe(&mut self, link: LinkType, input: u16) -> io::Result<u32> {
        if self.interfaces.get(self.last) != Some(&(link, input)) {
            self.begin()?;
            match self.interfaces.iter().position(|&known| known == (link, input)) {
                Some(number) => self.last = number,
                None => {
                    let mut block = Vec::with_capacity(32);
                    block.extend(1u32.to_le_bytes());
                    block.extend(32u32.to_le_bytes());
                    block.extend(link.0.to_le_bytes());
                    block.extend([0; 2]);
                    block.extend(SNAPLEN_BYTES.to_le_bytes());
                    block.extend([9, 0, 1, 0, 9, 0, 0, 0]); // if_tsresol: 10^-9 s
                    block.extend([0; 4]); // end of options
                    block.extend(32u32.to_le_bytes());
                    self.out.write_all(&block)?;
                    self.last = self.interfaces.len();
                    self.interfaces.push((link, input));
                }
            }
        }
        Ok(self.last as u32)
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.begun {
            return Ok(());
        }
        self.begun = true;
        let mut block = Vec::with_capacity(28);
        block.extend(0x0a0d_0d0au32.to_le_bytes());
        block.extend(28u32.to_le_bytes());
        block.extend(0x1a2b_3c4du32.to_le_bytes());
        block.extend(1u16.to_le_bytes());
        block.extend(0u16.to_le_bytes());
        block.extend(u64::MAX.to_le_bytes()); // length of the section: not told
        block.extend(28u32.to_le_bytes());
        self.out.write_all(&block)
    }

    /// Hands on what was written, for a file that somebody watches grow.
    ///
    /// # Errors
    /// Those of the underlying writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Ends the file. One without packets has a section all the same, so that it is a capture.
    ///
    /// # Errors
    /// Those of the underlying writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.begin()?;
        self.out.into_inner().map_err(io::IntoInnerError::into_error)
    }
}
