//! A segment of a spool: a file of records. The format, with all numbers in little-endian order:
//!
//! ```text
//! segment = "WEIRSPL1" length:u32 crc:u32 context  record*
//! record  = length:u32 rows:u32 crc:u32 bytes
//! ```
//!
//! The CRC-32 of a record covers its length, its rows and its bytes; that of the context covers the context.
//! A record that is incomplete or damaged ends the segment: nothing after it can be trusted.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use weir_guard::files;

/// The first bytes of a segment.
const MAGIC: &[u8; 8] = b"WEIRSPL1";
/// Bytes of the header before the context.
const HEADER_BYTES: usize = MAGIC.len() + 8;
/// Bytes of a record before its contents.
const RECORD_HEADER_BYTES: usize = 12;

/// Limit of the bytes of a record's contents. A longer length in a file is damage.
pub const RECORD_BYTES_MAX: usize = 1 << 20;
/// Limit of the bytes of a context, likewise.
pub const CONTEXT_BYTES_MAX: usize = 64 << 10;

/// The bytes that a record occupies in a file.
pub fn record_size(bytes: usize) -> u64 {
    (RECORD_HEADER_BYTES + bytes) as u64
}

/// The segment that is being written.
#[derive(Debug)]
pub struct SegmentWriter {
    file: File,
    /// Bytes written, all of them whole records.
    pub size: u64,
}

impl SegmentWriter {
    /// Creates a segment, which must not exist.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn create(path: &Path, context: &[u8]) -> io::Result<Self> {
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&length_of(context, CONTEXT_BYTES_MAX)?.to_le_bytes());
        header.extend_from_slice(&crc32fast::hash(context).to_le_bytes());
        header.extend_from_slice(context);
        let file = files::create_new(path)?;
        file.write_all_at(&header, 0)?;
        Ok(Self { file, size: header.len() as u64 })
    }

    /// Appends a record with one write, so that a killed process leaves at most this record incomplete.
    ///
    /// # Errors
    /// The contents are longer than [`RECORD_BYTES_MAX`], or the file cannot be written: the segment is then
    /// as before.
    pub fn append(&mut self, rows: u32, bytes: &[u8]) -> io::Result<()> {
        let length = length_of(bytes, RECORD_BYTES_MAX)?;
        let mut record = Vec::with_capacity(RECORD_HEADER_BYTES + bytes.len());
        record.extend_from_slice(&length.to_le_bytes());
        record.extend_from_slice(&rows.to_le_bytes());
        record.extend_from_slice(&crc_of(length, rows, bytes).to_le_bytes());
        record.extend_from_slice(bytes);
        let written = self.file.write_all_at(&record, self.size);
        match written {
            Ok(()) => self.size += record.len() as u64,
            // A part of a record would end the segment for its reader. If even this fails, the next record
            // overwrites the part.
            Err(_) => drop(self.file.set_len(self.size)),
        }
        written
    }

    /// Writes the segment to the disk.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

fn length_of(bytes: &[u8], most: usize) -> io::Result<u32> {
    let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= most);
    length.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "a record of a spool is too long"))
}

fn crc_of(length: u32, rows: u32, bytes: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&length.to_le_bytes());
    crc.update(&rows.to_le_bytes());
    crc.update(bytes);
    crc.finalize()
}

/// A record that was read.
#[derive(Debug, PartialEq, Eq)]
pub struct Record {
    pub rows: u32,
    pub bytes: Vec<u8>,
    /// Where the next record begins.
    pub end: u64,
}

/// A segment that is read, possibly while it is written.
#[derive(Debug)]
pub struct SegmentReader {
    file: File,
    pub context: Arc<[u8]>,
    /// Where the first record begins.
    pub start: u64,
}

impl SegmentReader {
    /// Opens a segment. `None`: the file is damaged, or no segment.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = File::open(path)?;
        let mut header = [0; HEADER_BYTES];
        if !read_whole(&file, &mut header, 0)? || header[..MAGIC.len()] != *MAGIC {
            return Ok(None);
        }
        let length = word(&header, MAGIC.len()) as usize;
        if length > CONTEXT_BYTES_MAX {
            return Ok(None);
        }
        let mut context = vec![0; length];
        let is_whole = read_whole(&file, &mut context, HEADER_BYTES as u64)?;
        if !is_whole || crc32fast::hash(&context) != word(&header, MAGIC.len() + 4) {
            return Ok(None);
        }
        Ok(Some(Self { file, context: context.into(), start: (HEADER_BYTES + length) as u64 }))
    }

    /// Reads the record that begins at `start`. `None`: there is no whole, undamaged record.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn record(&self, start: u64) -> io::Result<Option<Record>> {
        let mut header = [0; RECORD_HEADER_BYTES];
        if !read_whole(&self.file, &mut header, start)? {
            return Ok(None);
        }
        let (length, rows) = (word(&header, 0), word(&header, 4));
        if length as usize > RECORD_BYTES_MAX {
            return Ok(None);
        }
        let mut bytes = vec![0; length as usize];
        let is_whole = read_whole(&self.file, &mut bytes, start + RECORD_HEADER_BYTES as u64)?;
        if !is_whole || crc_of(length, rows, &bytes) != word(&header, 8) {
            return Ok(None);
        }
        let end = start + record_size(bytes.len());
        Ok(Some(Record { rows, bytes, end }))
    }
}

/// Whether the file has all of these bytes.
fn read_whole(file: &File, bytes: &mut [u8], start: u64) -> io::Result<bool> {
    // A place beyond the largest file cannot be asked for.
    if start > i64::MAX as u64 {
        return Ok(false);
    }
    match file.read_exact_at(bytes, start) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn word(bytes: &[u8], start: usize) -> u32 {
    let word = bytes.get(start..start + 4).and_then(|word| word.try_into().ok());
    word.map_or(0, u32::from_le_bytes)
}
