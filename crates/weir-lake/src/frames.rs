//! Places at which the decompression of a zstd file can begin: its frames.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// Compressed bytes read at a time.
const COMPRESSED_BYTES: usize = 256 << 10;

/// Uncompressed bytes for each stored byte, up to which a file is read, and bytes that are read whatever
/// their ratio: those of the reader of captures.
const RATIO_MAX: u64 = 1_000;
const UNRATED_BYTES: u64 = 64 << 20;

/// Frames of a file at most: further ones are no places to begin at.
const FRAMES_MAX: usize = 1 << 20;

/// Whether a file with these first bytes is compressed, and whether with zstd.
pub(crate) fn compression(first: &[u8]) -> (bool, bool) {
    match first {
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => (true, true),
        [0x1f, 0x8b, 8, ..] | [0x04, 0x22, 0x4d, 0x18, ..] | [0x02, 0x21, 0x4c, 0x18, ..] => (true, false),
        _ => (false, false),
    }
}

/// The beginnings of frames: in the stored file, and in the uncompressed one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Frames(Arc<Mutex<Vec<(u64, u64)>>>);

impl Frames {
    /// The last frame that begins at or before an offset of the uncompressed file.
    pub fn before(&self, offset_bytes: u64) -> Option<(u64, u64)> {
        let frames = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let behind = frames.partition_point(|(_, plain)| *plain <= offset_bytes);
        frames.get(behind.checked_sub(1)?).copied()
    }
}

/// Decompresses a file frame by frame.
pub(crate) struct FrameReader {
    /// `None` only while it is replaced by the decoder of the next frame, and after an error.
    decoder: Option<zstd::Decoder<'static, Counted>>,
    frames: Frames,
    plain_bytes: u64,
}

impl FrameReader {
    /// Reads the frames of `reader`, whose beginnings are added to `frames`.
    pub fn new(reader: impl Read + Send + 'static, frames: Frames) -> io::Result<Self> {
        let inner = BufReader::with_capacity(COMPRESSED_BYTES, Box::new(reader) as Box<dyn Read + Send>);
        let mut new = Self { decoder: None, frames, plain_bytes: 0 };
        new.begin(Counted { inner, bytes: 0 })?;
        Ok(new)
    }

    fn begin(&mut self, input: Counted) -> io::Result<()> {
        let mut frames = self.frames.0.lock().unwrap_or_else(PoisonError::into_inner);
        if frames.len() < FRAMES_MAX {
            frames.push((input.bytes, self.plain_bytes));
        }
        drop(frames);
        self.decoder = Some(zstd::Decoder::with_buffer(input)?.single_frame());
        Ok(())
    }
}

impl Read for FrameReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = &mut self.decoder {
            let read = decoder.read(out)?;
            if read > 0 || out.is_empty() {
                self.plain_bytes += read as u64;
                let allowed = decoder.get_ref().bytes.saturating_mul(RATIO_MAX).max(UNRATED_BYTES);
                if self.plain_bytes > allowed {
                    return Err(io::Error::other("the zstd data may be a decompression bomb"));
                }
                return Ok(read);
            }
            let Some(decoder) = self.decoder.take() else { break };
            let mut input = decoder.finish();
            if input.fill_buf()?.is_empty() {
                break;
            }
            self.begin(input)?;
        }
        Ok(0)
    }
}

struct Counted {
    inner: BufReader<Box<dyn Read + Send>>,
    bytes: u64,
}

impl Read for Counted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(out)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

impl BufRead for Counted {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.inner.consume(bytes);
    }
}
