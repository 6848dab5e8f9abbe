//! Writes packets to a pcapng file: any mix of link types and interfaces, times in nanoseconds.

use super::pcap::{BUFFER_BYTES, SNAPLEN_BYTES, make_room, too_long};
use crate::source::{Description, Following};
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use weir_packet::{LinkType, PacketMeta};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

/// Writes packets as a pcapng file: one little-endian section, with an interface description per pair of link
/// type and input interface, written before its first packet.
///
/// With the reader's [findings](Self::with_findings), metadata of the captures is kept: options of
/// interfaces, names and secrets before the same packets, and the options of the first packet's section.
#[derive(Debug)]
pub struct PcapngWriter<W: Write> {
    out: BufWriter<W>,
    begun: bool,
    /// The interfaces described so far, in the order of their numbers in the file.
    interfaces: Vec<(LinkType, u16)>,
    /// The interface number of the previous packet, usually also that of the next one.
    last: usize,
    /// The reader's findings, and the position of the last written one.
    findings: Option<Following>,
    /// Options of the section: a comment.
    comment: Vec<u8>,
}

impl<W: Write> PcapngWriter<W> {
    /// A writer for a new file.
    pub fn new(out: W) -> Self {
        Self {
            out: BufWriter::with_capacity(BUFFER_BYTES, out),
            begun: false,
            interfaces: Vec::new(),
            last: 0,
            findings: None,
            comment: vec![],
        }
    }

    /// Says this in the file, as a comment of the section: up to 65 535 bytes of it.
    #[must_use]
    pub fn with_comment(mut self, comment: &str) -> Self {
        let length = u16::try_from(comment.len()).unwrap_or(u16::MAX);
        let value = &comment.as_bytes()[..usize::from(length)];
        self.comment = [&1u16.to_le_bytes()[..], &length.to_le_bytes(), value].concat();
        self.comment.resize(self.comment.len().next_multiple_of(4), 0);
        self
    }

    /// Also writes the captures' interfaces, sections, names and secrets. `findings` are those of the
    /// [reader](crate::CaptureReader::with_findings), followed since it began to read.
    #[must_use]
    pub fn with_findings(mut self, findings: Following) -> Self {
        self.follow(findings);
        self
    }

    /// As [`with_findings`](Self::with_findings), for another reader of the same interfaces.
    pub fn follow(&mut self, findings: Following) {
        self.findings = Some(findings);
    }

    /// Writes one packet: its metadata `meta`, and its captured bytes `data`.
    ///
    /// Times before 1970 become 1970-01-01.
    ///
    /// # Errors
    /// Those of the underlying writer.
    pub fn write(&mut self, meta: &PacketMeta, data: &[u8]) -> io::Result<()> {
        self.write_with_options(meta, data, &[])
    }

    /// Like [`write`](Self::write), with packet options in the form of
    /// [`PacketExtra::annotations`](weir_packet::PacketExtra::annotations).
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
        // The data is shorter than its block, whose length was checked.
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
        make_room(&mut self.out, total as usize)?;
        self.out.write_all(&header)?;
        self.out.write_all(data)?;
        self.out.write_all(&[0; 3][..padding])?;
        self.out.write_all(options)?;
        self.out.write_all(end)?;
        self.out.write_all(&total.to_le_bytes())
    }

    /// The number of an interface in the file; writes its description on first use.
    fn describe(&mut self, link: LinkType, input: u16) -> io::Result<u32> {
        if self.interfaces.get(self.last) != Some(&(link, input)) {
            match self.interfaces.iter().position(|&known| known == (link, input)) {
                Some(number) => self.last = number,
                None => {
                    let found = self.findings.as_ref().and_then(|findings| findings.interface(input));
                    // The last number stands for all interfaces beyond it.
                    let found = found.filter(|found| found.link == link);
                    let said = found.and_then(|found| Some((found.snaplen_bytes, found.description?)));
                    let (snaplen_bytes, options) = match &said {
                        Some((snaplen_bytes, description)) => (*snaplen_bytes, &*description.options),
                        None => (SNAPLEN_BYTES, &[][..]),
                    };
                    self.begin_with(said.as_ref().map(|(_, description)| description))?;
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

    /// Begins the section before its first packet, with the options of the section of the first interface, if
    /// it is known.
    ///
    /// # Errors
    /// Those of the underlying writer.
    pub fn begin(&mut self) -> io::Result<()> {
        let first = self.findings.as_ref().and_then(|findings| findings.interface(0));
        self.begin_with(first.and_then(|first| first.description).as_ref())
    }

    /// Begins the section, with the options of the described interface's section.
    fn begin_with(&mut self, described: Option<&Description>) -> io::Result<()> {
        if self.begun {
            return Ok(());
        }
        self.begun = true;
        let options = described.map_or(Arc::default(), |description| Arc::clone(&description.section));
        let mut body = 0x1a2b_3c4du32.to_le_bytes().to_vec();
        body.extend(1u16.to_le_bytes());
        body.extend(0u16.to_le_bytes());
        body.extend(u64::MAX.to_le_bytes()); // length of the section: unspecified
        let options = [&self.comment[..], &options].concat();
        body.extend(&options);
        body.extend(end_of(&options));
        self.write_block(SECTION, &body)
    }

    /// Writes a block with this body, whose length is a multiple of 4 bytes.
    fn write_block(&mut self, block_type: u32, body: &[u8]) -> io::Result<()> {
        make_room(&mut self.out, 12 + body.len())?;
        let total = length(12 + body.len())?.to_le_bytes();
        self.out.write_all(&[block_type.to_le_bytes(), total].concat())?;
        self.out.write_all(body)?;
        self.out.write_all(&total)
    }

    /// Writes the blocks of names and secrets that precede this packet in the captures.
    fn write_blocks_before(&mut self, packet: u64) -> io::Result<()> {
        let Self { findings: Some(findings), out, .. } = self else { return Ok(()) };
        findings.take_before(packet, |block| {
            make_room(out, block.len())?;
            out.write_all(block)
        })
    }

    /// Flushes the output, for readers of a growing file.
    ///
    /// # Errors
    /// Those of the underlying writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// What the file is written to. Bytes that were not [flushed](Self::flush) are not there yet.
    pub(crate) fn inner(&mut self) -> &mut W {
        self.out.get_mut()
    }

    /// Ends the file. A file without packets also gets a section, so that it is a valid capture.
    ///
    /// # Errors
    /// Those of the underlying writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.begin()?;
        self.write_blocks_before(u64::MAX)?;
        self.out.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

/// The end-of-options marker, if there are options.
fn end_of(options: &[u8]) -> &'static [u8] {
    if options.is_empty() { &[] } else { &[0; 4] }
}

/// The length of a block.
fn length(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(|_| too_long())
}
