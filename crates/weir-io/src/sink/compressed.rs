//! Output that is compressed while it is written, as the ending of its name says.
//!
//! Each flush, and each full buffer, ends a member (gzip, RFC 1952, section 2.2) or frame (zstd, RFC 8878;
//! LZ4) and writes it as a whole: what was written so far can be read at any time, also after the process was
//! killed.

use lz4_flex::frame::{BlockSize, FrameEncoder, FrameInfo};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Bytes that a member or frame holds at least, unless the output is flushed.
const FRAME_BYTES: usize = 1 << 20;

/// A kind of compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// gzip (RFC 1952), level 6.
    Gzip,
    /// Zstandard (RFC 8878), level 3.
    Zstd,
    /// LZ4 frames.
    Lz4,
}

impl Compression {
    /// The endings of file names, and the kinds that they stand for.
    pub const ENDINGS: [(&'static str, Self); 4] =
        [("gz", Self::Gzip), ("zst", Self::Zstd), ("zstd", Self::Zstd), ("lz4", Self::Lz4)];

    /// The kind that the ending of a file name stands for, in upper or lower case.
    pub fn of_path(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?;
        let of = Self::ENDINGS.iter().find(|(known, _)| known.eq_ignore_ascii_case(ending));
        of.map(|(_, kind)| *kind)
    }

    /// The name without the ending of a compression, if it has one: `a.json` for `a.json.gz`.
    pub fn stripped(path: &Path) -> PathBuf {
        match Self::of_path(path) {
            Some(_) => path.with_extension(""),
            None => path.to_path_buf(),
        }
    }

    /// A member or frame that holds these bytes.
    fn compress(self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
                encoder.write_all(bytes)?;
                encoder.finish()
            }
            Self::Zstd => zstd::encode_all(bytes, zstd::DEFAULT_COMPRESSION_LEVEL),
            Self::Lz4 => {
                // All frames have blocks of one size, as decoders of concatenated frames expect.
                let form = FrameInfo::new().block_size(BlockSize::Max256KB);
                let mut encoder = FrameEncoder::with_frame_info(form, vec![]);
                encoder.write_all(bytes)?;
                encoder.finish().map_err(io::Error::other)
            }
        }
    }
}

/// Compresses what is written to `out`. Flush it at the end: an output without contents is then an empty
/// member or frame.
#[derive(Debug)]
pub struct Compressed<W> {
    out: W,
    kind: Compression,
    waiting: Vec<u8>,
    is_empty: bool,
}

impl<W: Write> Compressed<W> {
    /// Compresses what is written to `out`.
    pub fn new(out: W, kind: Compression) -> Self {
        Self { out, kind, waiting: vec![], is_empty: true }
    }

    fn end_frame(&mut self) -> io::Result<()> {
        let frame = self.kind.compress(&self.waiting);
        // Also after an error, so that nothing is written twice.
        self.waiting.clear();
        self.is_empty = false;
        self.out.write_all(&frame?)
    }
}

impl<W: Write> Write for Compressed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= FRAME_BYTES {
            self.end_frame()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_empty || !self.waiting.is_empty() {
            self.end_frame()?;
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn plain(kind: Compression, bytes: &[u8]) -> Vec<u8> {
        let mut plain = vec![];
        match kind {
            Compression::Gzip => flate2::read::MultiGzDecoder::new(bytes).read_to_end(&mut plain),
            Compression::Zstd => zstd::Decoder::new(bytes).and_then(|mut all| all.read_to_end(&mut plain)),
            Compression::Lz4 => {
                let mut decoder = lz4_flex::frame::FrameDecoder::new(bytes);
                loop {
                    match decoder.read_to_end(&mut plain) {
                        Ok(0) => break Ok(0),
                        Ok(_) => {}
                        Err(error) => break Err(error),
                    }
                }
            }
        }
        .expect("it was compressed");
        plain
    }

    #[test]
    fn what_was_flushed_can_be_read() {
        for (_, kind) in Compression::ENDINGS {
            let mut empty = Compressed::new(vec![], kind);
            empty.flush().expect("memory");
            assert!(!empty.out.is_empty() && plain(kind, &empty.out).is_empty(), "{kind:?}");
            let (mut written, mut compressed) = (vec![], Compressed::new(vec![], kind));
            for part in [&b"one\n"[..], b"two\n", &[b'x'; FRAME_BYTES], b"end"] {
                compressed.write_all(part).and_then(|()| compressed.flush()).expect("memory");
                written.extend_from_slice(part);
                assert!(plain(kind, &compressed.out) == written, "{kind:?}");
            }
            assert!(compressed.out.len() < FRAME_BYTES / 10, "{kind:?}");
        }
    }

    #[test]
    fn endings_name_the_kind() {
        assert_eq!(Compression::of_path(Path::new("a/b.json.GZ")), Some(Compression::Gzip));
        assert_eq!(Compression::stripped(Path::new("a/b.json.zst")), Path::new("a/b.json"));
        assert_eq!(Compression::stripped(Path::new("a.gz/b.json")), Path::new("a.gz/b.json"));
        assert_eq!(Compression::of_path(Path::new("gz")), None);
    }
}
