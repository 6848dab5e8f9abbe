//! Writes packets to a pcap file, with times in nanoseconds.

use std::io::{self, BufWriter, Write};
use weir_packet::{LinkType, PacketMeta};

/// Bytes that are buffered before a write.
pub(super) const BUFFER_BYTES: usize = 256 << 10;

/// The snap length in the header, which every reader accepts.
pub(super) const SNAPLEN_BYTES: u32 = 262_144;

/// Writes packets of one link type as a pcap file: little-endian, nanoseconds, snap length 262 144.
///
/// Every tool can read it. It has no interfaces and only one link type; [`super::PcapngWriter`] supports
/// both.
#[derive(Debug)]
pub struct PcapWriter<W: Write> {
    out: BufWriter<W>,
    link: Option<LinkType>,
}

impl<W: Write> PcapWriter<W> {
    /// A writer for a new file. The first packet's link type is the file's.
    pub fn new(out: W) -> Self {
        Self { out: BufWriter::with_capacity(BUFFER_BYTES, out), link: None }
    }

    /// Writes one packet: its metadata `meta`, and its captured bytes `data`.
    ///
    /// Times before 1970 and after 2106 are clamped to the format's range.
    ///
    /// # Errors
    /// Those of the underlying writer, and [`io::ErrorKind::InvalidInput`] if the packet's link type differs
    /// from the first packet's.
    pub fn write(&mut self, meta: &PacketMeta, data: &[u8]) -> io::Result<()> {
        match self.link {
            None => self.begin(meta.link)?,
            Some(link) if link == meta.link => {}
            Some(link) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!(
                        "packet {} has link type {}, the packets before have {link}, and a pcap file has \
                         only one link type: write pcapng (a name that ends in .pcapng)",
                        meta.number, meta.link
                    ),
                ));
            }
        }
        let ns = meta.time.0.clamp(0, i64::from(u32::MAX) * 1_000_000_000 + 999_999_999);
        let captured = u32::try_from(data.len()).map_err(|_| too_long())?;
        let mut header = [0; 16];
        header[0..4].copy_from_slice(&((ns / 1_000_000_000) as u32).to_le_bytes());
        header[4..8].copy_from_slice(&((ns % 1_000_000_000) as u32).to_le_bytes());
        header[8..12].copy_from_slice(&captured.to_le_bytes());
        header[12..16].copy_from_slice(&meta.wire_bytes.max(captured).to_le_bytes());
        make_room(&mut self.out, header.len() + data.len())?;
        self.out.write_all(&header)?;
        self.out.write_all(data)
    }

    fn begin(&mut self, link: LinkType) -> io::Result<()> {
        self.link = Some(link);
        let mut header = [0; 24];
        header[0..4].copy_from_slice(&0xa1b2_3c4du32.to_le_bytes());
        header[4..6].copy_from_slice(&2u16.to_le_bytes());
        header[6..8].copy_from_slice(&4u16.to_le_bytes());
        header[16..20].copy_from_slice(&SNAPLEN_BYTES.to_le_bytes());
        header[20..24].copy_from_slice(&u32::from(link.0).to_le_bytes());
        self.out.write_all(&header)
    }

    /// Flushes the output, for readers of a growing file.
    ///
    /// # Errors
    /// Those of the underlying writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Ends the file. A file without packets also gets a header (of Ethernet), so that it is a valid capture.
    ///
    /// # Errors
    /// Those of the underlying writer.
    pub fn finish(mut self) -> io::Result<W> {
        if self.link.is_none() {
            self.begin(LinkType::ETHERNET)?;
        }
        self.out.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

/// Writes the buffer if it has no room for a record of `bytes` bytes. The buffer then always holds whole
/// records, and a file ends with a whole record although the process is killed.
pub(super) fn make_room<W: Write>(out: &mut BufWriter<W>, bytes: usize) -> io::Result<()> {
    if out.capacity() - out.buffer().len() < bytes { out.flush() } else { Ok(()) }
}

/// The error for a packet whose length does not fit into 32 bits.
pub(super) fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "a packet exceeds the length limit of capture files")
}
