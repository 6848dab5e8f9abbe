//! Compressed input: recognised by its first bytes, and decompressed on a thread of its own.
//!
//! The thread fills blocks in the window's layout and sends them through a channel with room for a few; used
//! blocks come back for reuse. Decompression therefore overlaps with the processing of packets, in bounded
//! memory and without a further copy.

use flate2::bufread::GzDecoder;
use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

/// Limit of decompressed blocks that wait to be taken. Together with the one being filled and the one being
/// read, four blocks are in memory.
const CHUNKS_WAITING_MAX: usize = 2;

/// Compressed bytes read at a time.
const COMPRESSED_BYTES: usize = 256 << 10;

/// Decompressed bytes for each compressed byte, up to which a file is read. Captures stay far below: a flood
/// of equal packets with their times compresses to a thirtieth. gzip and lz4 cannot exceed 1 032 and 255;
/// zstd reaches tens of thousands.
const RATIO_MAX: u64 = 1_000;

/// Decompressed bytes of a file that are read whatever their ratio.
const UNRATED_BYTES: u64 = 64 << 20;

/// The first byte of a gzip member.
const GZIP_FIRST: u8 = 0x1f;

/// A known compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    Gzip,
    Zstd,
    Lz4,
}

impl Compression {
    /// Determines the compression from the first bytes of a file.
    pub fn of(first: &[u8]) -> Option<Self> {
        match first {
            [GZIP_FIRST, 0x8b, 8, ..] => Some(Self::Gzip),
            // The second pattern is a skippable frame, with which pzstd begins its files.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            [0x04, 0x22, 0x4d, 0x18, ..] | [0x02, 0x21, 0x4c, 0x18, ..] => Some(Self::Lz4),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
        }
    }

    /// A decoder of all of `input`: all members of a gzip file, all frames of the other formats.
    fn decode(self, input: impl Read + Send + 'static) -> io::Result<Box<dyn Read>> {
        let input = BufReader::with_capacity(COMPRESSED_BYTES, input);
        Ok(match self {
            Self::Gzip => Box::new(GzipMembers { decoder: Some(GzDecoder::new(input)), is_first: true }),
            Self::Zstd => Box::new(zstd::Decoder::with_buffer(input)?),
            Self::Lz4 => Box::new(Lz4Frames { decoder: lz4_flex::frame::FrameDecoder::new(Tail::of(input)) }),
        })
    }
}

/// A decompressed block: `headroom` unused bytes, then fresh bytes up to `end`.
pub(crate) struct Chunk {
    pub bytes: Vec<u8>,
    pub end: usize,
}

enum Message {
    Chunk(Chunk),
    Fault(io::Error),
    End,
}

/// The reader's side of a decompression thread. The thread ends soon after this is dropped.
pub(crate) struct Ring {
    compression: Compression,
    full: Receiver<Message>,
    empty: Sender<Vec<u8>>,
    ended: bool,
}

impl Ring {
    /// Starts to decompress `input` into blocks with this geometry (headroom, fresh bytes). Of live input,
    /// blocks are passed on before they are full.
    pub fn start(
        compression: Compression,
        input: impl Read + Send + 'static,
        geometry: (usize, usize),
        is_live: bool,
    ) -> io::Result<Self> {
        let (full_in, full) = sync_channel(CHUNKS_WAITING_MAX);
        let (empty, empty_out) = channel();
        let compressed = Arc::new(AtomicU64::new(0));
        let input = Counted { input, bytes: Arc::clone(&compressed) };
        std::thread::Builder::new().name(format!("weir-{}", compression.name())).spawn(move || {
            let last = match compression.decode(input) {
                Ok(decoder) => {
                    let decoder = Rated { decoder, compressed, bytes: 0 };
                    decompress(decoder, &full_in, &empty_out, geometry, is_live)
                }
                Err(e) => Message::Fault(e),
            };
            // The reader may have been dropped early; there is no receiver then.
            let _ = full_in.send(last);
        })?;
        Ok(Self { compression, full, empty, ended: false })
    }

    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// The next block; `None` at the end of the input.
    pub fn next_chunk(&mut self) -> io::Result<Option<Chunk>> {
        if self.ended {
            return Ok(None);
        }
        match self.full.recv() {
            Ok(Message::Chunk(chunk)) => return Ok(Some(chunk)),
            Ok(Message::End) => {}
            Ok(Message::Fault(e)) => {
                self.ended = true;
                return Err(e);
            }
            Err(_) => {
                self.ended = true;
                return Err(io::Error::other("the decoder gave up"));
            }
        }
        self.ended = true;
        Ok(None)
    }

    /// Returns an unused buffer to the thread.
    pub fn recycle(&self, bytes: Vec<u8>) {
        let _ = self.empty.send(bytes);
    }
}

/// Sends blocks until the input or its receiver ends. Returns the last message to send.
fn decompress(
    mut decoder: impl Read,
    full: &SyncSender<Message>,
    empty: &Receiver<Vec<u8>>,
    (headroom, block_bytes): (usize, usize),
    is_live: bool,
) -> Message {
    loop {
        let mut bytes = empty.try_recv().unwrap_or_default();
        bytes.resize(headroom + block_bytes, 0);
        let mut end = headroom;
        let last = loop {
            match decoder.read(&mut bytes[end..]) {
                Ok(0) => break Some(Message::End),
                Ok(n) => end += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => break Some(Message::Fault(e)),
            }
            // The next read may block, although these bytes hold packets.
            if end == bytes.len() || is_live && end > headroom {
                break None;
            }
        };
        if end > headroom && full.send(Message::Chunk(Chunk { bytes, end })).is_err() {
            return Message::End;
        }
        if let Some(last) = last {
            return last;
        }
    }
}

/// Counts the bytes that are read.
struct Counted<R> {
    input: R,
    bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read(out)?;
        self.bytes.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// Decompressed bytes, up to [`RATIO_MAX`].
struct Rated {
    decoder: Box<dyn Read>,
    /// Compressed bytes read so far.
    compressed: Arc<AtomicU64>,
    /// Decompressed bytes so far.
    bytes: u64,
}

impl Read for Rated {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let rated = self.compressed.load(Ordering::Relaxed).saturating_mul(RATIO_MAX);
        if self.bytes > rated.saturating_add(UNRATED_BYTES) {
            return Err(io::Error::new(ErrorKind::InvalidData, TooDense(self.bytes)));
        }
        let n = self.decoder.read(out)?;
        self.bytes += n as u64;
        Ok(n)
    }
}

/// The file decompresses to more than [`RATIO_MAX`] times its size; reading stops after this many bytes.
#[derive(Debug)]
pub(crate) struct TooDense(u64);

impl fmt::Display for TooDense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "one compressed byte stands for more than {RATIO_MAX} bytes, which no usual capture has; reading stopped \
             after {} bytes. If the file is yours, decompress it and read the result",
            self.0
        )
    }
}

impl std::error::Error for TooDense {}

/// Reads all members. Zeros after a member are skipped, as in gzip: tape blocks are padded with zeros.
struct GzipMembers<R: BufRead> {
    /// Always present; taken only while it is replaced by the next member's decoder.
    decoder: Option<GzDecoder<R>>,
    is_first: bool,
}

/// The bytes after the last member are neither another member nor zeros.
#[derive(Debug)]
pub(crate) struct TrailingGarbage;

impl fmt::Display for TrailingGarbage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no gzip data follows")
    }
}

impl std::error::Error for TrailingGarbage {}

impl TrailingGarbage {
    fn error() -> io::Error {
        io::Error::new(ErrorKind::InvalidData, Self)
    }
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = &mut self.decoder {
            match decoder.read(out) {
                Ok(0) if !out.is_empty() => {}
                Err(e)
                    if e.kind() == ErrorKind::InvalidInput
                        && !self.is_first
                        && decoder.header().is_none() =>
                {
                    return Err(TrailingGarbage::error());
                }
                read => return read,
            }
            match pass_zeros(decoder.get_mut())? {
                None => return Ok(0),
                Some(GZIP_FIRST) => {}
                Some(_) => return Err(TrailingGarbage::error()),
            }
            self.decoder = self.decoder.take().map(|over| GzDecoder::new(over.into_inner()));
            self.is_first = false;
        }
        Ok(0)
    }
}

/// Skips zeros, and returns the next byte.
fn pass_zeros(input: &mut impl BufRead) -> io::Result<Option<u8>> {
    loop {
        let bytes = input.fill_buf()?;
        let (there, other) = (bytes.len(), bytes.iter().position(|&byte| byte != 0));
        let next = other.map(|at| bytes[at]);
        input.consume(other.unwrap_or(there));
        if next.is_some() || there == 0 {
            return Ok(next);
        }
    }
}

/// Reads all frames, and detects files that end inside a frame; the decoder does not distinguish that from
/// the end.
struct Lz4Frames<R: BufRead> {
    decoder: lz4_flex::frame::FrameDecoder<Tail<R>>,
}

impl<R: BufRead> Read for Lz4Frames<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.decoder.read(out)? {
                0 if out.is_empty() => return Ok(0),
                0 => {}
                n => return Ok(n),
            }
            let input = self.decoder.get_mut();
            if input.inner.fill_buf()?.is_empty() {
                return if input.ends_a_frame() { Ok(0) } else { Err(ErrorKind::UnexpectedEof.into()) };
            }
            input.pass_skippable()?;
        }
    }
}

/// Remembers the last eight bytes read.
struct Tail<R> {
    inner: R,
    /// Bytes that were peeked, and are read first.
    first: io::Cursor<Vec<u8>>,
    last: u64,
    legacy: Option<bool>,
}

impl<R> Tail<R> {
    fn of(inner: R) -> Self {
        Self { inner, first: io::Cursor::default(), last: 0, legacy: None }
    }

    /// Skips skippable frames, which the decoder does not support (LZ4 Frame Format 1.6.3, "Skippable
    /// Frames").
    fn pass_skippable(&mut self) -> io::Result<()>
    where
        R: Read,
    {
        loop {
            let mut head = vec![];
            (&mut self.inner).take(4).read_to_end(&mut head)?;
            if !matches!(head[..], [0x50..=0x5f, 0x2a, 0x4d, 0x18]) {
                self.first = io::Cursor::new(head);
                return Ok(());
            }
            let mut length = [0; 4];
            self.inner.read_exact(&mut length)?;
            let length = u64::from(u32::from_le_bytes(length));
            if io::copy(&mut (&mut self.inner).take(length), &mut io::sink())? < length {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Whether these can be the last bytes of a frame: its end mark (four zero bytes), perhaps followed by a
    /// checksum. The legacy format has no end mark, so it may end anywhere.
    fn ends_a_frame(&self) -> bool {
        self.legacy == Some(true) || self.last & 0xffff_ffff == 0 || self.last >> 32 == 0
    }
}

impl<R: Read> Read for Tail<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = match self.first.read(out)? {
            0 => self.inner.read(out)?,
            n => n,
        };
        if self.legacy.is_none() && n > 0 {
            self.legacy = Some(out[0] == 0x02);
        }
        for &byte in &out[n.saturating_sub(8)..n] {
            self.last = self.last << 8 | u64::from(byte);
        }
        Ok(n)
    }
}
