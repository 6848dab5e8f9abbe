//! Packets into a pcapng file: any mix of link types and interfaces, times in nanoseconds.

use super::pcap::{BUFFER_BYTES, SNAPLEN_BYTES, too_long};
use crate::source::{Description, Following};
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use weir_packet::{LinkType, PacketMeta};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

/// Writes packets as a pcapng file: one little-endian section, an interface description for each
/// pair of link type and input interface, written right before its first packet.
///
/// With the [findings](Self::with_findings) of who reads the packets, what their captures say goes on: options of
/// interfaces, names and secrets before the packets that they stood before, and options of the section of the first
/// packet.
#[derive(Debug)]
pub struct PcapngWriter<W: Write> {
    out: BufWriter<W>,
    begun: bool,
    /// The interfaces described so far, in the order of their numbers in the file.
    interfaces: Vec<(LinkType, u16)>,
    /// Number of the interface of the packet before: mostly that of the next one too.
    last: usize,
    /// What the reader met, and how many of its blocks were written.
    findings: Option<Following>,
}

impl<W: Write> PcapngWriter<W> {
    /// A writer of a file that begins with the first packet.
    pub fn new(out: W) -> Self {
        Self {
            out: BufWriter::with_capacity(BUFFER_BYTES, out),
            begun: false,
            interfaces: Vec::new(),
            last: 0,
            findings: None,
        }
    }

    /// Writes what the captures say of their interfaces, sections, names and secrets, too. `findings` are those of the
    /// [reader](crate::CaptureReader::with_findings), followed since it began to read.
    #[must_use]
    pub fn with_findings(mut self, findings: Following) -> Self {
        self.findings = Some(findings);
        self
    }

    /// Writes one packet: what `meta` says of it, and its captured bytes `data`.
    ///
    /// Times before 1970 become 1970-01-01.
    ///
    /// # Errors
    /// Those of the underlying writer.
    pub fn write(&mut self, meta: &PacketMeta, data: &[u8]) -> io::Result<()> {
        self.write_with_options(meta, data, &[])
    }

    /// As [`write`](Self::write), with its options as [`packet_options`](crate::packet_options) has them.
    ///
    /// # Errors
    /// Those of the underlying writer.
    pub fn write_with_options(&mut self, meta: &PacketMeta, data: &[u8], options: &[u8]) -> io::Result<()> {
        let interface = self.describe(meta.link, meta.interface)?;
        self.write_blocks_before(meta.number)?;
        let ticks = meta.time.0.max(0) as u64;
        let padding = data.len().next_multiple_of(4) - data.len();
        let end = end_of(options);
        let total = length(32 + data.len() + padding + options.len() + end.len())?;
        // Shorter than its block.
        let captured = data.len() as u32;
        let mut header = [0; 28];
        let words = [
            ENHANCED_PACKET,
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
        self.out.write_all(options)?;
        self.out.write_all(end)?;
        self.out.write_all(&total.to_le_bytes())
    }

    /// The number of an interface in the file, described there the first time.
    fn describe(&mut self, link: LinkType, input: u16) -> io::Result<u32> {
        if self.interfaces.get(self.last) != Some(&(link, input)) {
            match self.interfaces.iter().position(|&known| known == (link, input)) {
                Some(number) => self.last = number,
                None => {
                    let found = self.findings.as_ref().and_then(|findings| findings.interface(input));
                    // The last number is that of all interfaces beyond it.
                    let found = found.filter(|found| found.link == link);
                    let said = found.and_then(|found| Some((found.snaplen_bytes, found.description?)));
                    let (snaplen_bytes, options) = match &said {
                        Some((snaplen_bytes, description)) => (*snaplen_bytes, &*description.options),
                        None => (SNAPLEN_BYTES, &[][..]),
                    };
                    self.begin(said.as_ref().map(|(_, description)| description))?;
                    let mut body = link.0.to_le_bytes().to_vec();
                    body.extend([0; 2]);
                    body.extend(snaplen_bytes.to_le_bytes());
                    body.extend([9, 0, 1, 0, 9, 0, 0, 0]); // if_tsresol: 10^-9 s
                    body.extend(options);
                    body.extend([0; 4]); // end of options
                    self.write_block(INTERFACE, &body)?;
                    self.last = self.interfaces.len();
                    self.interfaces.push((link, input));
                }
            }
        }
        Ok(self.last as u32)
    }

    /// Begins the section, with the options of one of which something is described.
    fn begin(&mut self, described: Option<&Description>) -> io::Result<()> {
        if self.begun {
            return Ok(());
        }
        self.begun = true;
        let options = described.map_or(Arc::default(), |description| Arc::clone(&description.section));
        let mut body = 0x1a2b_3c4du32.to_le_bytes().to_vec();
        body.extend(1u16.to_le_bytes());
        body.extend(0u16.to_le_bytes());
        body.extend(u64::MAX.to_le_bytes()); // length of the section: not told
        body.extend(&*options);
        body.extend(end_of(&options));
        self.write_block(SECTION, &body)
    }

    /// Writes a block with this body, of a multiple of 4 bytes.
    fn write_block(&mut self, block_type: u32, body: &[u8]) -> io::Result<()> {
        let total = length(12 + body.len())?.to_le_bytes();
        self.out.write_all(&[block_type.to_le_bytes(), total].concat())?;
        self.out.write_all(body)?;
        self.out.write_all(&total)
    }

    /// Writes blocks of names and secrets that stand before this packet of the captures.
    fn write_blocks_before(&mut self, packet: u64) -> io::Result<()> {
        let Self { findings: Some(findings), out, .. } = self else { return Ok(()) };
        findings.take_before(packet, |block| out.write_all(block))
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
        let first = self.findings.as_ref().and_then(|findings| findings.interface(0));
        self.begin(first.and_then(|first| first.description).as_ref())?;
        self.write_blocks_before(u64::MAX)?;
        self.out.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

/// What ends options, where there are any.
fn end_of(options: &[u8]) -> &'static [u8] {
    if options.is_empty() { &[] } else { &[0; 4] }
}

/// The length of a block.
fn length(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(|_| too_long())
}
