//! A queue of messages on disk, bounded in bytes: [`Spool`].
//!
//! The directory of a spool belongs to it alone:
//!
//! | file | contents |
//! |---|---|
//! | `lock` | locked while a process uses the spool |
//! | `N.segment` | records (`segment.rs`); N has 20 digits, so that the order of names is that of segments |
//! | `position` | the place of the first record that is not acknowledged: segment, byte, CRC-32 |
//!
//! Records are appended to the newest segment, which is written to the disk (`fsync`) when the next one
//! begins. Segments are deleted when all of their records are acknowledged. After a kill, at most the record
//! that was being written is lost; after a crash of the machine, at most the newest segment. A process never
//! appends to the segments of another one.
//!
//! A spool neither waits nor has a thread.

mod segment;
#[cfg(test)]
mod tests;

use crate::message::{Message, Refusals};
use segment::{SegmentReader, SegmentWriter};
use std::collections::VecDeque;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_guard::files;

pub use segment::RECORD_BYTES_MAX;

/// The least bound of a spool, in bytes: a segment with its longest record.
pub const SPOOL_BYTES_MIN: u64 = 4 << 20;

/// Segments of a full spool: acknowledged records occupy at most one of these parts of the bound.
const SEGMENTS: u64 = 16;
/// The largest segment, in bytes.
const SEGMENT_BYTES_MAX: u64 = 16 << 20;

/// Numbers of segments are lower, so that the next number always exists. Files with other numbers are
/// ignored.
const NUMBER_END: u64 = u64::MAX / 2;

/// A queue of messages on disk.
#[derive(Debug)]
pub struct Spool {
    directory: PathBuf,
    /// Held for its lock.
    _lock: File,
    position: File,
    bytes_max: u64,
    context: Arc<[u8]>,
    /// The segments that exist, the oldest one first.
    segments: VecDeque<Segment>,
    writer: Option<SegmentWriter>,
    next_number: u64,
    /// Where the next message is read.
    cursor: Place,
    reader: Option<(u64, SegmentReader)>,
    /// The messages that were read and are not acknowledged: the place after each one, and its rows.
    unacknowledged: VecDeque<(Place, u32)>,
    /// The first place that is not acknowledged.
    acknowledged: Place,
    /// Rows that wait, acknowledged or not yet read; those of earlier runs are counted when they are read.
    waiting_rows: u64,
    refused: Refusals,
    damaged_bytes: u64,
}

/// A segment file.
#[derive(Debug, Clone, Copy)]
struct Segment {
    number: u64,
    /// Bytes of the file.
    size: u64,
    /// The rows of this segment are counted in `waiting_rows` from the start: this process wrote them.
    is_own: bool,
}

/// A byte of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Place {
    segment: u64,
    /// 0: the first record.
    byte: u64,
}

impl Spool {
    /// Opens the spool in a directory, which is created if it is missing: messages that are there are read
    /// first. `context` is the context of the messages that this process adds.
    ///
    /// # Errors
    /// The directory cannot be used; [`ErrorKind::WouldBlock`]: another process, or another output, uses the
    /// spool.
    pub fn open(directory: &Path, bytes_max: u64, context: Arc<[u8]>) -> io::Result<Self> {
        files::create_directories(directory)?;
        let lock = files::create_to_read(&directory.join("lock"))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                let message =
                    "another output or process uses this spool: give each output a directory of its own";
                io::Error::new(ErrorKind::WouldBlock, message)
            }
            TryLockError::Error(error) => error,
        })?;
        let mut segments = vec![];
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if let Some(number) = number_of(&entry.path()) {
                segments.push(Segment {
                    number,
                    size: fs::symlink_metadata(entry.path())?.len(),
                    is_own: false,
                });
            }
        }
        segments.sort_by_key(|segment| segment.number);
        let position = directory.join("position");
        let position = files::create_to_read(&position)?;
        let acknowledged = read_position(&position)?;
        let newest = segments.last().map_or(0, |segment| segment.number);
        let mut spool = Self {
            directory: directory.to_path_buf(),
            _lock: lock,
            position,
            bytes_max: bytes_max.max(SPOOL_BYTES_MIN),
            context,
            segments: segments.into(),
            writer: None,
            next_number: newest.max(acknowledged.segment) + 1,
            cursor: acknowledged,
            reader: None,
            unacknowledged: VecDeque::new(),
            acknowledged,
            waiting_rows: 0,
            refused: Refusals::default(),
            damaged_bytes: 0,
        };
        spool.delete_acknowledged()?;
        Ok(spool)
    }

    /// Adds a message. Returns whether the spool accepted it: a full spool refuses the message, and counts
    /// it.
    ///
    /// # Errors
    /// The disk refuses the message, which is counted, too. The spool can still be used.
    pub fn push(&mut self, rows: u32, bytes: &[u8]) -> io::Result<bool> {
        let added = self.add(rows, bytes);
        if !matches!(added, Ok(true)) {
            self.refused.messages += 1;
            self.refused.rows += u64::from(rows);
        }
        added
    }

    fn add(&mut self, rows: u32, bytes: &[u8]) -> io::Result<bool> {
        if !self.has_room(bytes.len()) {
            return Ok(false);
        }
        let segment_bytes = (self.bytes_max / SEGMENTS).min(SEGMENT_BYTES_MAX);
        if self.writer.as_ref().is_none_or(|writer| writer.size >= segment_bytes) {
            if let Some(writer) = self.writer.take() {
                writer.sync()?;
            }
            let number = self.next_number;
            // A number is used once, also after a failure that left a file.
            self.next_number += 1;
            let writer = SegmentWriter::create(&self.path_of(number), &self.context)?;
            self.segments.push_back(Segment { number, size: writer.size, is_own: true });
            self.writer = Some(writer);
        }
        let (Some(writer), Some(segment)) = (&mut self.writer, self.segments.back_mut()) else {
            return Ok(false);
        };
        writer.append(rows, bytes)?;
        segment.size = writer.size;
        self.waiting_rows += u64::from(rows);
        Ok(true)
    }

    /// Whether [`push`](Self::push) would accept a message of this size.
    pub fn has_room(&self, bytes: usize) -> bool {
        let header = self.context.len() as u64 + segment::record_size(bytes) + 16;
        bytes <= RECORD_BYTES_MAX && self.size().saturating_add(header) <= self.bytes_max
    }

    /// Reads the next message, which stays in the spool until it is acknowledged. `None`: there is none at
    /// present.
    ///
    /// # Errors
    /// A segment cannot be read: it is given up, and the next call goes on after it.
    pub fn read_next(&mut self) -> io::Result<Option<Message>> {
        loop {
            let Some(segment) = self.segment_at_cursor() else { return Ok(None) };
            let read = self.read(segment);
            if let Ok(Some(message)) = read {
                return Ok(Some(message));
            }
            let is_newest =
                self.writer.is_some() && self.segments.back().is_some_and(|s| s.number == segment.number);
            // Its writer goes on: there may be a whole record later.
            if is_newest && read.is_ok() {
                return Ok(None);
            }
            if is_newest {
                // What would be appended there could not be read.
                self.writer = None;
            }
            self.cut_damage(segment)?;
            self.cursor = Place { segment: segment.number + 1, byte: 0 };
            if self.unacknowledged.is_empty() {
                self.set_acknowledged(self.cursor)?;
            }
            read?;
        }
    }

    /// Whether there may be a message that was not read.
    pub fn has_next(&self) -> bool {
        let end = self.segments.back().map(|last| Place { segment: last.number, byte: last.size });
        // Nothing of the last segment is read yet: there is at least its header.
        end.is_some_and(|end| self.cursor < end)
    }

    /// The segment of the cursor, or the first one after it.
    fn segment_at_cursor(&mut self) -> Option<Segment> {
        let segment = self.segments.iter().find(|segment| segment.number >= self.cursor.segment).copied()?;
        if segment.number > self.cursor.segment {
            self.cursor = Place { segment: segment.number, byte: 0 };
        }
        Some(segment)
    }

    /// Reads the message at the cursor, in this segment.
    fn read(&mut self, segment: Segment) -> io::Result<Option<Message>> {
        if self.reader.as_ref().is_none_or(|(number, _)| *number != segment.number) {
            let opened = SegmentReader::open(&self.path_of(segment.number))?;
            let Some(reader) = opened else { return Ok(None) };
            self.reader = Some((segment.number, reader));
        }
        let Some((_, reader)) = &self.reader else { return Ok(None) };
        self.cursor.byte = self.cursor.byte.max(reader.start);
        let Some(record) = reader.record(self.cursor.byte)? else { return Ok(None) };
        self.cursor.byte = record.end;
        self.unacknowledged.push_back((self.cursor, record.rows));
        if !segment.is_own {
            self.waiting_rows += u64::from(record.rows);
        }
        Ok(Some(Message { rows: record.rows, bytes: record.bytes, context: Arc::clone(&reader.context) }))
    }

    /// Removes what follows the cursor in a segment, if anything does: a damaged record, and what nobody can
    /// find behind it.
    fn cut_damage(&mut self, segment: Segment) -> io::Result<()> {
        let damaged = segment.size.saturating_sub(self.cursor.byte);
        if damaged == 0 {
            return Ok(());
        }
        self.damaged_bytes += damaged;
        if let Some(cut) = self.segments.iter_mut().find(|one| one.number == segment.number) {
            cut.size = self.cursor.byte;
        }
        files::open_existing(&self.path_of(segment.number))?.set_len(self.cursor.byte)
    }

    /// Deletes the first message that was read: its receiver has it.
    ///
    /// # Errors
    /// Those of the file system. The message may then be read again after a restart.
    pub fn acknowledge(&mut self) -> io::Result<()> {
        let Some((place, rows)) = self.unacknowledged.pop_front() else { return Ok(()) };
        self.waiting_rows = self.waiting_rows.saturating_sub(u64::from(rows));
        self.set_acknowledged(place)
    }

    /// The messages that were read and are not acknowledged will be read again.
    pub fn rewind(&mut self) {
        for (place, rows) in std::mem::take(&mut self.unacknowledged) {
            let is_own =
                self.segments.iter().any(|segment| segment.number == place.segment && segment.is_own);
            if !is_own {
                self.waiting_rows = self.waiting_rows.saturating_sub(u64::from(rows));
            }
        }
        self.cursor = self.acknowledged;
    }

    fn set_acknowledged(&mut self, place: Place) -> io::Result<()> {
        self.acknowledged = place;
        write_position(&self.position, place)?;
        self.delete_acknowledged()
    }

    /// Deletes the segments whose records are all acknowledged.
    fn delete_acknowledged(&mut self) -> io::Result<()> {
        while let Some(&first) = self.segments.front() {
            let is_written = self.writer.is_some() && self.segments.len() == 1;
            let is_past = first.number < self.acknowledged.segment
                || first.number == self.acknowledged.segment && self.acknowledged.byte >= first.size;
            // The segment that is written is the last one.
            if !is_past || is_written {
                return Ok(());
            }
            self.segments.pop_front();
            match fs::remove_file(self.path_of(first.number)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// The bound, in bytes.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Bytes on disk.
    pub fn size(&self) -> u64 {
        self.segments.iter().map(|segment| segment.size).sum()
    }

    /// Rows that wait, as far as this process has written or read them.
    pub fn waiting_rows(&self) -> u64 {
        self.waiting_rows
    }

    /// Messages that were refused, because the spool was full or the disk failed.
    pub fn refused(&self) -> Refusals {
        self.refused
    }

    /// Bytes of damaged records, and of what follows them in their segments.
    pub fn damaged_bytes(&self) -> u64 {
        self.damaged_bytes
    }

    /// Writes everything to the disk.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn sync(&self) -> io::Result<()> {
        self.writer.as_ref().map_or(Ok(()), SegmentWriter::sync)
    }

    fn path_of(&self, number: u64) -> PathBuf {
        self.directory.join(format!("{number:020}.segment"))
    }
}

impl Drop for Spool {
    /// Nothing is appended any longer, so the last segment can be deleted, too.
    fn drop(&mut self) {
        self.writer = None;
        // What stays is deleted when the spool is opened again.
        let _ = self.delete_acknowledged();
    }
}

/// The number in the name of a segment.
fn number_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?.strip_suffix(".segment")?;
    let is_number = name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| name.parse().ok()).flatten().filter(|number| *number < NUMBER_END)
}

/// Bytes of the position: segment, byte, CRC-32 of both.
const POSITION_BYTES: usize = 20;

/// The position in the file; the beginning if the file is damaged: messages are then sent again rather than
/// lost.
fn read_position(file: &File) -> io::Result<Place> {
    let mut bytes = [0; POSITION_BYTES];
    match file.read_exact_at(&mut bytes, 0) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Place::default()),
        read => read?,
    }
    let number = |start: usize| bytes[start..start + 8].try_into().map_or(0, u64::from_le_bytes);
    let place = Place { segment: number(0), byte: number(8) };
    let is_whole = bytes == position_bytes(place) && place.segment < NUMBER_END;
    Ok(if is_whole { place } else { Place::default() })
}

fn write_position(file: &File, place: Place) -> io::Result<()> {
    file.write_all_at(&position_bytes(place), 0)
}

fn position_bytes(place: Place) -> [u8; POSITION_BYTES] {
    let mut bytes = [0; POSITION_BYTES];
    bytes[..8].copy_from_slice(&place.segment.to_le_bytes());
    bytes[8..16].copy_from_slice(&place.byte.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..16]);
    bytes[16..].copy_from_slice(&crc.to_le_bytes());
    bytes
}
