//! A regular file that grows by whole blocks: a block that cannot be written, because the disk is full,
//! leaves the file as it was before. The file therefore always ends with a whole row or packet.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of bytes written to a file, for those who wait for its size. Copies share the number.
#[derive(Debug, Clone, Default)]
pub struct Written(Arc<AtomicU64>);

impl Written {
    /// Bytes so far; without those that a sink still buffers.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// The number itself, for sinks that write to the file in their own way.
    pub(super) fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.0)
    }
}

/// An empty regular file that grows by whole blocks.
#[derive(Debug)]
pub struct WholeFile {
    file: File,
    bytes: u64,
    written: Written,
}

impl WholeFile {
    /// The empty file; `written` counts its bytes.
    pub fn new(file: File, written: Written) -> Self {
        Self { file, bytes: 0, written }
    }
}

impl Write for WholeFile {
    fn write(&mut self, block: &[u8]) -> io::Result<usize> {
        if let Err(error) = self.file.write_all_at(block, self.bytes) {
            // If the file cannot be cut either, its last block is incomplete.
            let _ = self.file.set_len(self.bytes);
            return Err(error);
        }
        self.bytes += block.len() as u64;
        self.written.0.fetch_add(block.len() as u64, Ordering::Relaxed);
        Ok(block.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
