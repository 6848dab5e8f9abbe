//! A file that is written from its beginning, and at all times ends with a complete footer.
//!
//! A Parquet file is readable only if its footer stands at its end. If the footer followed the data directly,
//! further data would overwrite the footer, and a process killed at that moment would leave an unreadable
//! file. Therefore a hole, which occupies no disk space, separates the data from the footer:
//!
//! ```text
//! data … | hole …                  | footer 1 |
//! data … more data … | hole …      | footer 2 | footer 1 |     still ends with footer 1
//! data … more data … | hole …      | footer 2 |                cut: now it ends with footer 2
//! data … more data … | last footer |                           cut at its completion
//! ```
//!
//! Data and footers are written into the hole, where no reader looks. A cut is one change of the file's size.
//! Only when the hole is full, a footer is written behind the end, at twice the size; the file is invalid for
//! the microseconds of that write.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Size of the first hole in bytes.
#[cfg(not(test))]
const HOLE_BYTES: u64 = 64 << 20;
/// Small in tests, so that it is filled.
#[cfg(test)]
pub const HOLE_BYTES: u64 = 64 << 10;

/// A file with data and a footer.
#[derive(Debug)]
pub struct FootedFile {
    file: File,
    data_bytes: u64,
    /// Where the current footer begins. The next one ends here. 0: there is no footer yet.
    hole_end: u64,
    /// The current footer.
    footer: Vec<u8>,
    /// The size of the data that the current footer describes.
    described_bytes: u64,
    /// The size of the data, for others.
    written: Arc<AtomicU64>,
}

impl FootedFile {
    /// An empty regular file. It ends with a footer as soon as the first one is [placed](Self::place).
    /// `written` counts the bytes of data.
    pub fn new(file: File, written: Arc<AtomicU64>) -> Self {
        Self { file, data_bytes: 0, hole_end: 0, footer: vec![], described_bytes: 0, written }
    }

    /// Whether a footer of all data is worth its bytes: footers grow with the data, and are written again and
    /// again.
    pub fn wants_footer(&self) -> bool {
        self.data_bytes - self.described_bytes >= self.footer.len() as u64
    }

    /// Ends the file with this footer, which describes all data so far.
    ///
    /// # Errors
    /// Those of the file.
    pub fn place(&mut self, footer: Vec<u8>) -> io::Result<()> {
        let bytes = footer.len() as u64;
        match self.hole_end.checked_sub(bytes).filter(|start| *start >= self.data_bytes) {
            Some(start) => {
                self.file.write_all_at(&footer, start)?;
                self.file.set_len(self.hole_end)?;
                self.hole_end = start;
                self.footer = footer;
            }
            None => {
                self.enlarge(0, Some(&footer))?;
                self.footer = footer;
            }
        }
        self.described_bytes = self.data_bytes;
        Ok(())
    }

    /// Makes the hole larger, for `bytes` of data, and writes this footer behind it, or the current one. If
    /// the disk is full, the file still ends with the current footer.
    fn enlarge(&mut self, bytes: u64, footer: Option<&[u8]>) -> io::Result<()> {
        let end = self.hole_end + self.footer.len() as u64;
        let start = end.max(self.data_bytes + bytes) * 2 + HOLE_BYTES;
        if let Err(error) = self.file.write_all_at(footer.unwrap_or(&self.footer), start) {
            let _ = self.file.set_len(end.max(self.data_bytes));
            return Err(error);
        }
        self.hole_end = start;
        Ok(())
    }

    /// Ends the file behind the data, whose end is the last footer.
    ///
    /// # Errors
    /// Those of the file.
    pub fn complete(&mut self) -> io::Result<()> {
        self.file.set_len(self.data_bytes)
    }
}

impl Write for FootedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let added = bytes.len() as u64;
        if !self.footer.is_empty() && self.data_bytes + added > self.hole_end {
            self.enlarge(added, None)?;
        }
        let written = self.file.write_at(bytes, self.data_bytes)?;
        self.data_bytes += written as u64;
        self.written.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("weir-footed-{}-{name}", std::process::id()))
    }

    #[test]
    fn the_file_ends_with_the_last_footer_after_every_step() {
        let path = path("steps");
        let read = || std::fs::read(&path).expect("it is readable");
        let mut file = FootedFile::new(File::create(&path).expect("a temporary file"), Arc::default());
        let (mut data, mut largest) = (vec![], 0);
        for step in 0..300usize {
            let footer = |what: &str| format!("{what} {step}{}", "f".repeat(step * 3)).into_bytes();
            file.place(footer("footer")).unwrap();
            assert!(read().ends_with(&footer("footer")) && read().starts_with(&data), "step {step}");
            let more = vec![step as u8; step * 7 % 2000];
            file.write_all(&more).unwrap();
            data.extend(more);
            assert!(read().ends_with(&footer("footer")) && read().starts_with(&data), "step {step}");
            largest = largest.max(read().len() as u64);
        }
        assert!(data.len() as u64 > HOLE_BYTES, "the hole was filled");
        assert!(largest < 8 * (data.len() as u64 + HOLE_BYTES), "{largest}");
        file.write_all(b"last footer").unwrap();
        file.complete().unwrap();
        data.extend(b"last footer");
        assert_eq!(read(), data);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_large_write_makes_room_first() {
        let path = path("large");
        let mut file = FootedFile::new(File::create(&path).expect("a temporary file"), Arc::default());
        file.place(b"footer".to_vec()).unwrap();
        file.write_all(&vec![7; 3 * HOLE_BYTES as usize]).unwrap();
        let read = std::fs::read(&path).unwrap();
        assert!(read.ends_with(b"footer") && read[3 * HOLE_BYTES as usize - 1] == 7);
        std::fs::remove_file(&path).unwrap();
    }
}
