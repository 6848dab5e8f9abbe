//! Bounds of the files that traffic makes: those of streams, of extracted contents, and dumps.
//!
//! Whoever sends packets decides how many connections, contents and matches there are: a megabyte of hostile
//! traffic can ask for thousands of files. A budget says how many files a directory gets and how many bytes
//! they have; what exceeds it is counted, and said once with the option that changes it.

use crate::messages::failure::Failure;
use crate::quantity::bytes;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use weir::io::human;

/// Bytes of a directory's files, unless the option says otherwise; at most half of what the file system has.
const BYTES_MAX: u64 = 100 << 30;
/// Files of streams, or contents.
pub const FILES_MAX: u64 = 100_000;
/// Files of dumps.
pub const DUMP_FILES_MAX: u64 = 10_000;

/// How many files and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileBounds {
    /// Bytes of all files.
    pub bytes: u64,
    /// Number of files.
    pub files: u64,
}

impl FileBounds {
    /// The bounds that an option states as `BYTES` or `BYTES/FILES`, or the usual ones of a directory.
    ///
    /// # Errors
    /// The text is none.
    pub fn of(option: &str, stated: Option<&str>, directory: &Path, files: u64) -> Result<Self, Failure> {
        let Some(text) = stated else {
            let free = free_bytes(directory).map_or(BYTES_MAX, |free| free / 2);
            return Ok(Self { bytes: free.min(BYTES_MAX), files });
        };
        let (size, number) = text.split_once('/').map_or((text, None), |(size, number)| (size, Some(number)));
        let files = number.map_or(Ok(files), |number| {
            number.parse().map_err(|_| {
                Failure::new(format!("{option} {text}: give bytes, or bytes and files: 10G/5000"))
            })
        });
        Ok(Self { bytes: bytes(option, size)?, files: files? })
    }
}

/// Bytes that this user can still write where the directory is, or will be.
fn free_bytes(directory: &Path) -> Option<u64> {
    let directory = std::path::absolute(directory).ok()?;
    let there = directory.ancestors().find(|path| path.exists())?;
    let about = rustix::fs::statvfs(there).ok()?;
    about.f_bavail.checked_mul(about.f_frsize)
}

/// What is left of the bounds.
#[derive(Debug)]
pub struct FileBudget {
    bounds: FileBounds,
    directory: PathBuf,
    option: &'static str,
    bytes: AtomicU64,
    files: AtomicU64,
    /// Files that were not created, and files that were cut.
    refused: AtomicU64,
    cut: AtomicU64,
    is_said: AtomicBool,
}

impl FileBudget {
    /// The budget of a directory. `option` states its bounds.
    pub fn new(option: &'static str, bounds: FileBounds, directory: &Path) -> Self {
        let zero = || AtomicU64::new(0);
        let directory = directory.to_path_buf();
        let (bytes, files, refused, cut) = (zero(), zero(), zero(), zero());
        Self { bounds, directory, option, bytes, files, refused, cut, is_said: AtomicBool::new(false) }
    }

    /// The bounds.
    pub fn bounds(&self) -> FileBounds {
        self.bounds
    }

    /// What the directory has already counts.
    pub fn count_existing(&self, (files, bytes): (u64, u64)) {
        self.files.store(files, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether there is room for one more file, which counts from now on.
    pub fn add_file(&self) -> bool {
        if self.bytes.load(Ordering::Relaxed) >= self.bounds.bytes {
            return false;
        }
        let has_room = |files: u64| (files < self.bounds.files).then_some(files + 1);
        self.files.fetch_update(Ordering::Relaxed, Ordering::Relaxed, has_room).is_ok()
    }

    /// A file was not created.
    pub fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.say();
    }

    /// A file ends early.
    pub fn cut(&self) {
        self.cut.fetch_add(1, Ordering::Relaxed);
        self.say();
    }

    /// Takes room for these bytes; returns the number that fits.
    pub fn take(&self, bytes: usize) -> usize {
        let mut fits = 0;
        let take = |taken: u64| {
            let room = self.bounds.bytes.saturating_sub(taken);
            fits = bytes.min(usize::try_from(room).unwrap_or(usize::MAX));
            Some(taken + fits as u64)
        };
        // The closure never refuses.
        let _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        fits
    }

    /// A file with these bytes was removed.
    pub fn give_back(&self, bytes: u64) {
        let less = |amount: u64| move |all: u64| Some(all.saturating_sub(amount));
        let _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less(bytes));
        let _ = self.files.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less(1));
    }

    /// Files that were not created, and files that were cut, so far.
    pub fn exceeded(&self) -> (u64, u64) {
        (self.refused.load(Ordering::Relaxed), self.cut.load(Ordering::Relaxed))
    }

    /// Reports how much exceeded the bounds. Returns whether anything did.
    pub fn report(&self) -> bool {
        let (refused, cut) = self.exceeded();
        if refused + cut > 0 {
            note!(
                "weir: {}: {refused} files were not created, and {cut} are incomplete ({})",
                self.directory.display(),
                self.option
            );
        }
        refused + cut > 0
    }

    /// Says that the bounds are met, once.
    fn say(&self) {
        if self.is_said.swap(true, Ordering::Relaxed) {
            return;
        }
        let FileBounds { bytes, files } = self.bounds;
        note!(
            "weir: {} has the most that it gets, {} or {files} files: further ones are counted, and not written ({} \
             BYTES/FILES)",
            self.directory.display(),
            human::bytes(bytes),
            self.option
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_bytes_are_counted_and_given_back() {
        let place = Path::new("/nowhere/at/all");
        let bounds = FileBounds::of("--x", Some("1k/2"), place, 7).unwrap_or_else(|_| panic!("bounds"));
        assert_eq!(bounds, FileBounds { bytes: 1024, files: 2 });
        let budget = FileBudget::new("--x", bounds, place);
        assert!(budget.add_file() && budget.add_file() && !budget.add_file());
        assert_eq!((budget.take(1000), budget.take(1000), budget.take(1)), (1000, 24, 0));
        budget.give_back(1000);
        assert!(budget.add_file() && budget.take(2000) == 1000);
        budget.refuse();
        budget.cut();
        assert_eq!(budget.exceeded(), (1, 1));
        budget.count_existing((0, 1020));
        assert_eq!(budget.take(10), 4);
        assert!(!budget.add_file(), "a file without bytes is of no use");
    }

    #[test]
    fn without_a_statement_there_are_bounds_too() {
        let usual =
            FileBounds::of("--x", None, &std::env::temp_dir(), 7).unwrap_or_else(|_| panic!("bounds"));
        assert!(usual.files == 7 && usual.bytes <= BYTES_MAX);
        assert_eq!(FileBounds::of("--x", Some("2G"), Path::new("."), 7).ok().map(|b| b.files), Some(7));
        for wrong in ["", "x", "1G/", "1G/x", "/5", "1G/-1"] {
            assert!(FileBounds::of("--x", Some(wrong), Path::new("."), 7).is_err(), "{wrong}");
        }
    }
}
