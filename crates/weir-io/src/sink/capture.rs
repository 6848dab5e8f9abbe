//! Writes packets to a capture file, in the format of its file name.

use super::{Compressed, Compression, Out, PcapWriter, PcapngWriter};
use crate::source::Following;
use std::io;
use std::path::Path;
use weir_guard::files;
use weir_packet::PacketMeta;

/// A format of capture files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CaptureFormat {
    /// pcap: one link type, read by every tool.
    Pcap,
    /// pcapng: several link types and interfaces.
    Pcapng,
}

impl CaptureFormat {
    /// The names of the formats in options.
    pub const LABELS: [&'static str; 2] = ["pcapng", "pcap"];

    /// The format of this name in options.
    pub fn of_label(label: &str) -> Option<Self> {
        match label {
            "pcap" => Some(Self::Pcap),
            "pcapng" => Some(Self::Pcapng),
            _ => None,
        }
    }

    /// The format that the ending of a file name stands for: pcap for `.pcap` and `.cap`, pcapng for
    /// `.pcapng`, in upper or lower case, before the ending of a [`Compression`]. Standard output (`-`) is
    /// pcapng. Other names have none.
    pub fn of_path(path: &Path) -> Option<Self> {
        if path.as_os_str() == "-" {
            return Some(Self::Pcapng);
        }
        Self::of_ending(Compression::stripped(path).extension()?.to_str()?)
    }

    /// The format that the ending of a file name stands for, without its dot.
    pub fn of_ending(ending: &str) -> Option<Self> {
        match &*ending.to_ascii_lowercase() {
            "cap" => Some(Self::Pcap),
            ending => Self::of_label(ending),
        }
    }
}

/// Writes packets to a capture file of either format.
pub enum CaptureWriter {
    /// A pcap file.
    Pcap(PcapWriter<Out>),
    /// A pcapng file.
    Pcapng(PcapngWriter<Out>),
}

impl CaptureWriter {
    /// Creates or truncates the file `path`, and writes in the format of its name; `-` is standard output, as
    /// pcapng.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the name has no known format (no file is created then), and errors
    /// of creating the file; both name the file.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let format = CaptureFormat::of_path(path).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{}: the name must end in .pcapng or .pcap", path.display()),
            )
        })?;
        let out: Out = if path.as_os_str() == "-" {
            Box::new(io::stdout())
        } else {
            let file = files::create(path).map_err(|e| {
                io::Error::new(e.kind(), format!("{}: can't be created: {e}", path.display()))
            })?;
            match Compression::of_path(path) {
                Some(kind) => Box::new(Compressed::new(file, kind)),
                None => Box::new(file),
            }
        };
        Ok(Self::new(format, out))
    }

    /// Writes a capture of this format to `out`, which needs no buffering.
    pub fn new(format: CaptureFormat, out: Out) -> Self {
        match format {
            CaptureFormat::Pcap => Self::Pcap(PcapWriter::new(out)),
            CaptureFormat::Pcapng => Self::Pcapng(PcapngWriter::new(out)),
        }
    }

    /// Also writes the captures' interfaces, sections, names and secrets, if the format supports them.
    /// `findings` must be those of the [reader](crate::CaptureReader::with_findings), followed since the
    /// reader began to read.
    #[must_use]
    pub fn with_findings(self, findings: Following) -> Self {
        match self {
            Self::Pcapng(writer) => Self::Pcapng(writer.with_findings(findings)),
            pcap @ Self::Pcap(_) => pcap,
        }
    }

    /// Writes what precedes all packets, so that a reader recognises the capture before its first packet. The
    /// header of pcap depends on that packet, and is written with it.
    ///
    /// # Errors
    /// Those of the underlying writer.
    pub fn begin(&mut self) -> io::Result<()> {
        match self {
            Self::Pcap(_) => Ok(()),
            Self::Pcapng(writer) => writer.begin(),
        }
    }

    /// Writes one packet: its metadata `meta`, and its captured bytes `data`.
    ///
    /// # Errors
    /// As for [`PcapWriter::write`] and [`PcapngWriter::write`].
    pub fn write(&mut self, meta: &PacketMeta, data: &[u8]) -> io::Result<()> {
        self.write_with_options(meta, data, &[])
    }

    /// Like [`write`](Self::write), with packet options in the form of
    /// [`PacketExtra::annotations`](weir_packet::PacketExtra::annotations). pcap has no options.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn write_with_options(&mut self, meta: &PacketMeta, data: &[u8], options: &[u8]) -> io::Result<()> {
        match self {
            Self::Pcap(writer) => writer.write(meta, data),
            Self::Pcapng(writer) => writer.write_with_options(meta, data, options),
        }
    }

    /// Flushes the output, for readers of a growing file.
    ///
    /// # Errors
    /// Those of the underlying writer.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Pcap(writer) => writer.flush(),
            Self::Pcapng(writer) => writer.flush(),
        }
    }

    /// Ends the file. A file without packets is a valid, empty capture.
    ///
    /// # Errors
    /// Those of the underlying writer. Without this call, buffered data is written on drop, and errors are
    /// ignored.
    pub fn finish(self) -> io::Result<()> {
        let mut out = match self {
            Self::Pcap(writer) => writer.finish()?,
            Self::Pcapng(writer) => writer.finish()?,
        };
        out.flush()
    }
}
