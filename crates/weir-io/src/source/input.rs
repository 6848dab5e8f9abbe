//! Opens inputs: files, standard input; detects their compression, and explains input that cannot be read.

use super::arriving::{Arriving, explain_port};
use super::growing::Growing;
use super::inflate::{Compression, Ring, TooDense, TrailingGarbage};
use super::walk::Fault;
use super::window::Feed;
use crate::tcp::{Endpoint, Sender, Unreadable};
use std::fs::File;
use std::io::{self, Cursor, ErrorKind, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_packet::{KernelFilters, SourceErrorKind, SourceStats};
use weir_ring::{Reader, Selection, recorders};
use weir_udp::Arrivals;

/// Number of bytes at the start of a file that determine its format.
pub(crate) const MAGIC_BYTES: usize = 28;

/// What all inputs of a reader count.
#[derive(Debug, Clone, Default)]
pub(crate) struct InputCounts {
    /// Bytes read.
    pub read_bytes: Arc<AtomicU64>,
    /// Packets over UDP.
    pub arrivals: Arc<Arrivals>,
    /// Packets of recorders: what is asked for, and what was lost.
    pub selection: Arc<Selection>,
}

impl InputCounts {
    /// The counters of packets over UDP and of recorders; all zero for other inputs.
    pub fn stats(&self) -> SourceStats {
        let arrived = self.arrivals.counts().stats();
        SourceStats { overtaken: self.selection.lost(), ..arrived }
    }

    /// Only packets that may pass these filters are needed from now on; `None`: all.
    pub fn narrow(&self, filters: Option<&Arc<dyn KernelFilters>>) {
        self.selection.narrow(filters.and_then(|filters| filters.header_terms()));
    }
}

/// An input that waits for its turn. A file is opened when its turn comes, so a run over thousands of files
/// needs one descriptor.
pub(crate) struct Pending {
    /// The path as the user named it; `-` for standard input.
    pub path: PathBuf,
    /// The reader, if there is one already.
    pub reader: Option<Box<dyn Read + Send>>,
    /// The file is still written: reads wait for more.
    pub grows: bool,
}

impl Pending {
    /// Bytes of the (compressed) file, if known without opening it.
    pub fn size_bytes(&self) -> Option<u64> {
        if self.reader.is_some() || self.is_stdin() || Endpoint::is_named(&self.path) {
            return None;
        }
        match std::fs::metadata(&self.path) {
            Ok(about) if about.is_file() => Some(about.len()),
            // A pipe or a device: the size is unknown.
            Ok(about) if !about.is_dir() => None,
            // The file cannot be opened, so nothing will be read.
            _ => Some(0),
        }
    }

    fn is_stdin(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    /// Whether the packets come over a connection, or in datagrams.
    pub fn is_connection(&self) -> bool {
        Endpoint::is_named(&self.path) && !Endpoint::is_recorder(&self.path)
    }

    /// Whether it is a file that can be opened more than once.
    pub fn is_file(&self) -> bool {
        let about = || std::fs::metadata(&self.path);
        self.reader.is_none() && !self.is_stdin() && about().is_ok_and(|about| about.is_file())
    }

    /// Opens the input, which counts in `counts`.
    pub fn open(self, counts: &InputCounts) -> Result<Box<dyn Read + Send>, Fault> {
        let inner: Box<dyn Read + Send> = match self.reader {
            Some(reader) => reader,
            None if self.is_stdin() => open_stdin()?,
            None if let Some(endpoint) = Endpoint::of(&self.path) => match endpoint.map_err(Fault::io)? {
                Endpoint::Datagrams(name) => {
                    let arriving = Arriving::bind(&name, Arc::clone(&counts.arrivals));
                    Box::new(arriving.map_err(|error| Fault::io(explain_port(&error)))?)
                }
                Endpoint::Recorder(name) => {
                    let found = recorders::find(&name).map_err(|error| Fault::io(error.to_string()))?;
                    let selection = Arc::clone(&counts.selection);
                    let reader = Reader::new(Some(found.ring), found.spool, self.grows, selection);
                    Box::new(reader.with_recorder(found.connection))
                }
                connection => Box::new(Sender::Named(connection)),
            },
            None if self.grows => {
                Box::new(Growing::open(&self.path).map_err(|e| Fault::io(format!("cannot be opened: {e}")))?)
            }
            None => open_file(&self.path)?,
        };
        Ok(Box::new(Counted { inner, bytes: Arc::clone(&counts.read_bytes) }))
    }
}

fn open_stdin() -> Result<Box<dyn Read + Send>, Fault> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Err(Fault::io(
            "standard input is a terminal: pipe a capture into it (tcpdump -w - | ...), or name a file",
        ));
    }
    Ok(Box::new(stdin))
}

fn open_file(name: &Path) -> Result<Box<dyn Read + Send>, Fault> {
    let file = File::open(name).map_err(|e| {
        Fault::io(match e.kind() {
            ErrorKind::NotFound => "no such file".to_owned(),
            ErrorKind::PermissionDenied => "permission denied: this user may not read the file".to_owned(),
            _ => format!("cannot be opened: {e}"),
        })
    })?;
    if file.metadata().is_ok_and(|about| about.is_dir()) {
        return Err(Fault::io("is a directory: name the captures in it, for instance DIR/*.pcap"));
    }
    Ok(Box::new(file))
}

/// Counts the bytes read.
struct Counted {
    inner: Box<dyn Read + Send>,
    bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(out)?;
        // The number is only displayed, so no ordering is needed.
        self.bytes.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// Puts a decompression thread in front of `reader`; `first` holds the bytes already read.
pub(crate) fn inflate(
    compression: Compression,
    first: &[u8],
    reader: Box<dyn Read + Send>,
    geometry: (usize, usize),
    is_connection: bool,
) -> Result<Feed, Fault> {
    let input = Cursor::new(first.to_vec()).chain(reader);
    match Ring::start(compression, input, geometry, is_connection) {
        Ok(ring) => Ok(Feed::Ring(ring)),
        Err(e) => Err(Fault::io(format!("no thread to decompress on: {e}"))),
    }
}

/// Explains an error of reading from `feed`.
pub(crate) fn explain_read(feed: &Feed, error: &io::Error, is_connection: bool) -> Fault {
    if let Some(explained) = error.get_ref().and_then(|inner| inner.downcast_ref::<Unreadable>()) {
        return Fault::io(explained.to_string());
    }
    let compression = match feed {
        // An error of the operating system concerns the underlying file, not the compressed data.
        Feed::Ring(ring) if error.raw_os_error().is_none() => ring.compression().name(),
        _ => return Fault::io(format!("can't be read: {error}")),
    };
    if error.kind() == ErrorKind::UnexpectedEof {
        let why = match is_connection {
            true => "the sender ended, or the connection was cut",
            false => "the file was copied in part, or is still being written",
        };
        return Fault::truncated(format!("the {compression} data ends too early: {why}"));
    }
    if error.get_ref().is_some_and(|inner| inner.is::<TrailingGarbage>()) {
        return Fault::corrupt("the data after the gzip data is not gzip data and was not read");
    }
    if error.get_ref().is_some_and(|inner| inner.is::<TooDense>()) {
        return Fault::corrupt(format!("the {compression} data may be a decompression bomb: {error}"));
    }
    Fault::corrupt(format!("the {compression} data is damaged: {error}"))
}

/// Explains an input that ends inside a record: only some bytes are there of those needed.
pub(crate) fn explain_end(there: usize, need: usize, is_connection: bool) -> Fault {
    let bytes = format!("{there} bytes of {need} are there");
    Fault::truncated(match is_connection {
        true => format!(
            "the connection ended inside a record: {bytes} (did the sender end, or is it being stopped?)"
        ),
        false => {
            format!("the file ends inside a record: {bytes} (was it still being written, or the disk full?)")
        }
    })
}

/// Explains why the other end of a connection, which sent these first bytes, sends no supported capture.
pub(crate) fn explain_other_end(first: &[u8]) -> Fault {
    let remedy = "the other end must send a capture, for instance `tcpdump -U -w - | nc HOST PORT` or `weir packets -w \
                  tcp-listen:PORT`";
    if first.is_empty() {
        return Fault::not_a_capture(format!(
            "the connection ended before the header of a capture: {remedy}"
        ));
    }
    let fault = explain_magic(first);
    if fault.kind != SourceErrorKind::NotACapture {
        return fault;
    }
    let shown = &first[..first.len().min(16)];
    Fault::not_a_capture(format!(
        "no capture at the other end, which sent \"{}\": {remedy}",
        shown.escape_ascii()
    ))
}

/// Explains why a file with these first bytes is not a supported capture.
pub(crate) fn explain_magic(first: &[u8]) -> Fault {
    let unsupported = |what: &str, remedy: &str| Fault::unsupported(format!("{what}: {remedy}"));
    let convert = "convert it with `editcap -F pcapng FILE OUT.pcapng`";
    match first {
        [] => Fault::not_a_capture("the file is empty: there is not even the header of a capture"),
        [b's', b'n', b'o', b'o', b'p', 0, ..] => unsupported("a snoop capture", convert),
        [b'G', b'M', b'B', b'U', ..] | [b'R', b'T', b'S', b'S', ..] => {
            unsupported("a Network Monitor capture", convert)
        }
        [b'i', b'p', b't', b'r', b'a', b'c', b'e', ..] => unsupported("an iptrace capture", convert),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => {
            unsupported("xz-compressed", "pipe it in: `xz -dc FILE | ... -r -`")
        }
        [b'B', b'Z', b'h', ..] => unsupported("bzip2-compressed", "pipe it in: `bzip2 -dc FILE | ... -r -`"),
        [b'P', b'K', 3, 4, ..] => unsupported("a zip archive", "unpack it, or `unzip -p FILE | ... -r -`"),
        _ if first.len() < 4 => {
            Fault::not_a_capture(format!("{} bytes long: too short for the header of a capture", first.len()))
        }
        _ => {
            let magic = u32::from_be_bytes([first[0], first[1], first[2], first[3]]);
            Fault::not_a_capture(format!(
                "not a capture: it begins with 0x{magic:08x}, neither pcap nor pcapng \
                 (plain, gzip, zstd or lz4)"
            ))
        }
    }
}
