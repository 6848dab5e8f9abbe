//! The spool: files with segments that are complete, so that packets stay readable when they have left the
//! ring.
//!
//! A file is a pcapng file: its segments are sections, and their indexes are blocks that other programs skip.
//! All segments of a file have the same size, a power of two. Names begin with the time of the first packet,
//! in UTC.
//!
//! Each [class](Retention) of packets has segments, and a directory with files, of its own.

use crate::block::hole_of;
use crate::layout::{Use, WORD};
use crate::piece::{Piece, head_of};
use crate::ring::Ring;
use crate::time_range::{Stretch, TimeRange};
use crate::writer::class_of;
use rustix::fs::{FallocateFlags, FlockOperation, OFlags};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};
use weir_guard::files::{self, Opening};
use weir_packet::Timestamp;

/// The end of the names of files.
const END: &str = ".weir.pcapng";
/// The name of a file that is locked by the recorder.
const LOCK: &str = ".weir-lock";
/// Sizes of segments that a file may have.
const SEGMENT_BYTES: std::ops::RangeInclusive<usize> = 4 << 10..=64 << 20;
/// Segments that are looked at to find the size of all.
const PROBES_MAX: usize = 64;
/// A file has up to this part of the size of the spool …
const FILES: u64 = 64;
/// … between these numbers of bytes.
const FILE_BYTES_MIN: u64 = 1 << 20;
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Letters of the name of a class.
const CLASS_BYTES_MAX: usize = 64;
/// Files with the same first time.
const NAMES_MAX: u32 = 1000;
/// Holes of files are whole blocks of file systems.
const HOLE_ALIGN: usize = 4096;
/// A spool looks for complete segments in this interval.
const LOOK: Duration = Duration::from_millis(5);
/// After an error of the disk, a spool waits for this time.
const WAIT: Duration = Duration::from_secs(1);

/// The smallest spool: some segments of the largest size.
pub const SPOOL_BYTES_MIN: u64 = 32 << 20;

/// The directory of a spool, and the bounds of its files.
#[derive(Debug, Clone)]
pub struct SpoolParams {
    /// The directory.
    pub directory: PathBuf,
    /// The bounds of packets of no class, whose files are in the directory itself.
    pub rest: Retention,
    /// The classes, in the order of their numbers from 1: the name, which is that of a subdirectory, and the
    /// bounds.
    pub classes: Vec<(String, Retention)>,
}

/// How much of a class of packets is kept, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Bytes of all files: the oldest files are removed before there are more.
    pub bytes_max: u64,
    /// Files are removed when their last write is older; `None`: never.
    pub age_max: Option<Duration>,
}

/// Checks the name of a class.
///
/// # Errors
/// What is wrong with the name.
pub fn check_class(name: &str) -> Result<(), String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    match !name.is_empty() && name.len() <= CLASS_BYTES_MAX && name.chars().all(is_plain) {
        true => Ok(()),
        false => Err(format!(
            "`{name}` is no name of a class: write up to {CLASS_BYTES_MAX} letters, digits, `-` and `_`"
        )),
    }
}

/// What a spool counts. [`RingCounters::unspooled`](crate::RingCounters::unspooled) counts what it loses.
#[derive(Debug, Default)]
pub struct SpoolCounters {
    /// Packets written to files.
    pub packets: AtomicU64,
    /// Bytes written to files.
    pub bytes: AtomicU64,
    /// Files that were removed.
    pub removed: AtomicU64,
    /// Writes that failed.
    pub errors: AtomicU64,
}

/// Writes complete segments of a ring to files.
pub struct Spooler {
    ring: Ring,
    params: SpoolParams,
    counters: Arc<SpoolCounters>,
    /// By class.
    stores: Vec<Store>,
    /// For each writer, the last serial that was dealt with.
    done: HashMap<u32, u64>,
    is_direct: bool,
    /// When old files were looked for.
    looked: Option<Instant>,
    /// Keeps other recorders out of the directory.
    _lock: File,
    /// Tells what is worth telling.
    note: Box<dyn FnMut(String) + Send>,
    was_wrong: bool,
}

/// The files of a class.
struct Store {
    directory: PathBuf,
    retention: Retention,
    current: Option<Current>,
}

struct Current {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl std::fmt::Debug for Spooler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spooler").field("params", &self.params).finish_non_exhaustive()
    }
}

impl Spooler {
    /// A spool of `ring`. `note` tells the user of errors, and of their end.
    ///
    /// # Errors
    /// The directory cannot be created or written.
    pub fn new(
        ring: &Ring,
        params: SpoolParams,
        counters: Arc<SpoolCounters>,
        note: Box<dyn FnMut(String) + Send>,
    ) -> io::Result<Self> {
        let mut stores =
            vec![Store { directory: params.directory.clone(), retention: params.rest, current: None }];
        stores.extend(params.classes.iter().map(|(name, retention)| Store {
            directory: params.directory.join(name),
            retention: *retention,
            current: None,
        }));
        stores.iter().try_for_each(|store| files::create_directories(&store.directory))?;
        let lock = files::create(&params.directory.join(LOCK))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| io::Error::new(ErrorKind::AddrInUse, "another recorder writes to this directory"))?;
        let probe = params.directory.join(format!(".weir-{}", std::process::id()));
        let tried = files::open(&probe, Opening::New, OFlags::DIRECT);
        let is_direct = match tried {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                files::create_new(&probe)?;
                false
            }
            Err(error) => return Err(error),
        };
        fs::remove_file(&probe)?;
        let (done, ring) = (HashMap::new(), ring.clone());
        Ok(Self {
            ring,
            params,
            counters,
            stores,
            done,
            is_direct,
            looked: None,
            _lock: lock,
            note,
            was_wrong: false,
        })
    }

    /// Directories with files of classes that this spool does not have: nobody removes their files.
    pub fn foreign(&self) -> Vec<PathBuf> {
        let is_foreign = |directory: &PathBuf| {
            self.stores.iter().all(|store| store.directory != *directory)
                && files(directory).is_ok_and(|files| !files.is_empty())
        };
        classes(&self.params.directory).unwrap_or_default().into_iter().filter(is_foreign).collect()
    }

    /// Whether the directory allows direct access to the disk.
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Writes segments as they are completed, until `ends`; then those that are complete.
    /// Returns the number of packets in complete segments that could not be written.
    pub fn run(&mut self, ends: &AtomicBool) -> u64 {
        loop {
            let is_last = ends.load(Ordering::Acquire);
            let is_written = self.write_complete();
            if is_last {
                break;
            }
            self.remove_old();
            std::thread::sleep(if is_written { LOOK } else { WAIT });
        }
        self.stores.iter_mut().for_each(|store| store.end_file(&self.counters));
        self.waiting().iter().map(|used| used.packets).sum()
    }

    #[cfg(test)]
    pub(crate) fn params(&self) -> &SpoolParams {
        &self.params
    }

    /// Writes the segments that are complete, and removes old files.
    #[cfg(test)]
    pub(crate) fn write_once(&mut self) {
        self.write_complete();
        self.remove_old();
    }

    /// Writes the segments that are complete. Returns `false` after an error.
    fn write_complete(&mut self) -> bool {
        for used in self.waiting() {
            match self.write(&used) {
                Ok(is_whole) => {
                    if is_whole {
                        self.counters.packets.fetch_add(used.packets, Ordering::Relaxed);
                    }
                    if std::mem::take(&mut self.was_wrong) {
                        (self.note)(format!(
                            "{}: the spool is written again",
                            self.params.directory.display()
                        ));
                    }
                }
                Err(error) => {
                    self.counters.errors.fetch_add(1, Ordering::Relaxed);
                    // An empty file would have the name of the next attempt.
                    for store in &mut self.stores {
                        if let Some(Current { path, .. }) =
                            store.current.take_if(|current| current.bytes == 0)
                        {
                            let _ = fs::remove_file(path);
                        }
                    }
                    if !std::mem::replace(&mut self.was_wrong, true) {
                        let directory = self.params.directory.display();
                        (self.note)(format!(
                            "{directory}: {error}; packets that leave the ring meanwhile are lost"
                        ));
                    }
                    return false;
                }
            }
            self.done.insert(used.writer, used.serial);
        }
        true
    }

    /// The complete segments that were not written, in the order of their serials.
    fn waiting(&self) -> Vec<Use> {
        let mut uses = self.ring.uses();
        let done = |writer| self.done.get(&writer).copied().unwrap_or(0);
        uses.retain(|used| used.is_complete && used.serial > done(used.writer));
        uses.sort_by_key(|used| used.serial);
        uses
    }

    /// Writes a segment. Returns `false` if the segment has left the ring.
    fn write(&mut self, used: &Use) -> io::Result<bool> {
        let Use { serial, packets, first, writer, .. } = *used;
        if packets == 0 {
            return Ok(true);
        }
        let Self { ring, stores, counters, is_direct, .. } = self;
        // A segment of a class that there is not is kept as the rest.
        let class = if class_of(writer) < stores.len() { class_of(writer) } else { 0 };
        let (bytes, store) = (ring.segment_bytes() as u64, &mut stores[class]);
        let file_bytes = (store.retention.bytes_max / FILES).clamp(FILE_BYTES_MIN, FILE_BYTES_MAX).max(bytes);
        if store.current.as_ref().is_some_and(|current| current.bytes + bytes > file_bytes) {
            store.end_file(counters);
        }
        store.make_room(bytes, counters)?;
        let current = match &mut store.current {
            Some(current) => current,
            none => {
                let (path, file) = create(&store.directory, first, ring.identity(), *is_direct)?;
                none.insert(Current { path, file, bytes: 0 })
            }
        };
        let segment = ring.segment_of(serial);
        let (start, words) = (ring.first_word(segment), ring.segment_bytes() / WORD);
        let descriptor = ring.descriptor(segment);
        if !descriptor.is_still(serial) {
            return Ok(false);
        }
        let written = ring.memory.write_to(start, words, &current.file, current.bytes);
        let hole = hole_of(ring.segment(segment), HOLE_ALIGN);
        if written.is_err() || !descriptor.is_still(serial) {
            // A torn segment does not stay in the file.
            current.file.set_len(current.bytes)?;
            return written.map(|()| false);
        }
        // A segment that was completed early has a hole, which takes no room. Not all file systems can do
        // that.
        if !hole.is_empty() {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let (start, length) = (current.bytes + hole.start as u64, hole.len() as u64);
            let _ = rustix::fs::fallocate(&current.file, flags, start, length);
        }
        current.bytes += bytes;
        descriptor.set_spooled(serial);
        self.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(true)
    }

    /// Removes files that were written too long ago. Looks once a second.
    fn remove_old(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() < WAIT) {
            return;
        }
        self.looked = Some(Instant::now());
        let now = SystemTime::now();
        for store in &self.stores {
            let Some(age_max) = store.retention.age_max else { continue };
            for (path, about) in files(&store.directory).unwrap_or_default() {
                let age = about.modified().ok().and_then(|written| now.duration_since(written).ok());
                let is_old = age.is_some_and(|age| age > age_max) && !store.is_current(&path);
                if is_old && remove(&path, &self.counters).is_err() {
                    self.counters.errors.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

impl Store {
    /// The file is complete, and survives a power cut.
    fn end_file(&mut self, counters: &SpoolCounters) {
        if let Some(current) = self.current.take()
            && current.file.sync_data().is_err()
        {
            counters.errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes the oldest files, so that there is room for this number of bytes.
    fn make_room(&self, bytes: u64, counters: &SpoolCounters) -> io::Result<()> {
        let files = files(&self.directory)?;
        let mut all: u64 = files.iter().map(|(_, about)| on_disk(about)).sum();
        for (path, about) in files.iter().filter(|(path, _)| !self.is_current(path)) {
            if all + bytes <= self.retention.bytes_max {
                break;
            }
            remove(path, counters)?;
            all = all.saturating_sub(on_disk(about));
        }
        Ok(())
    }

    /// Whether a file is being written.
    fn is_current(&self, path: &Path) -> bool {
        self.current.as_ref().is_some_and(|current| current.path == path)
    }
}

/// Creates the file whose first packet has this time.
fn create(directory: &Path, first: i64, identity: u64, is_direct: bool) -> io::Result<(PathBuf, File)> {
    let flags = if is_direct { OFlags::DIRECT } else { OFlags::empty() };
    let mut number = 0;
    loop {
        let again = if number == 0 { String::new() } else { format!("_{number}") };
        let path = directory.join(format!("{}{again}-{identity:016x}{END}", file_time(first)));
        match files::open(&path, Opening::New, flags) {
            // The directory was removed.
            Err(error) if error.kind() == ErrorKind::NotFound && number == 0 => {
                files::create_directories(directory)?
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < NAMES_MAX => {}
            opened => return Ok((path, opened?)),
        }
        number += 1;
    }
}

/// Bytes that a file takes on the disk.
fn on_disk(about: &fs::Metadata) -> u64 {
    about.blocks().saturating_mul(512).min(about.len())
}

fn remove(path: &Path, counters: &SpoolCounters) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => {
            counters.removed.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether a name has the form of names of files: `TIME-IDENTITY.weir.pcapng`.
fn is_own(name: &str) -> bool {
    let stem = name.strip_suffix(END).and_then(|stem| stem.rsplit_once('-'));
    stem.is_some_and(|(time, identity)| {
        let is_time =
            time.len() >= 15 && time.bytes().all(|byte| byte.is_ascii_digit() || b"-._".contains(&byte));
        is_time && identity.len() == 16 && identity.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// The directories of classes of a spool, also of classes of earlier recorders.
fn classes(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(vec![]),
        entries => entries?,
    };
    let entries = entries.collect::<io::Result<Vec<_>>>()?;
    let is_class = |entry: &fs::DirEntry| {
        check_class(&entry.file_name().to_string_lossy()).is_ok()
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    Ok(entries.iter().filter(|entry| is_class(entry)).map(fs::DirEntry::path).collect())
}

/// The files of a directory of a spool, the oldest first.
fn files(directory: &Path) -> io::Result<Vec<(PathBuf, fs::Metadata)>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(vec![]),
        entries => entries?,
    };
    let mut files = vec![];
    for entry in entries {
        let entry = entry?;
        if is_own(&entry.file_name().to_string_lossy())
            && let Ok(about) = fs::symlink_metadata(entry.path())
        {
            files.push((entry.path(), about));
        }
    }
    files.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(files)
}

/// A time in nanoseconds since 1970 as the begin of a file name: `2026-11-26-14-02-03.123456789`.
fn file_time(time: i64) -> String {
    let [year, month, day, hour, minute, second] = Timestamp(time).utc();
    let ns = time.rem_euclid(1_000_000_000);
    format!("{year:04}-{month:02}-{day:02}-{hour:02}-{minute:02}-{second:02}.{ns:09}")
}

/// Reads the files of a spool.
#[derive(Debug, Clone)]
pub struct SpoolFiles {
    directory: PathBuf,
    /// By path: the segments of files, as far as they were listed.
    known: HashMap<PathBuf, Listed>,
}

/// The segments of a file of this length.
#[derive(Debug, Clone)]
struct Listed {
    bytes: u64,
    pieces: Vec<Piece>,
    /// Segments without an index that can be believed.
    damaged: usize,
}

impl SpoolFiles {
    /// The files in a directory.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory, known: HashMap::new() }
    }

    /// The directory of the files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether a recorder of this user has made the directory a spool.
    pub(crate) fn is_of(&self, user: u32) -> bool {
        let lock = fs::symlink_metadata(self.directory.join(LOCK));
        lock.is_ok_and(|lock| lock.is_file() && lock.uid() == user)
    }

    /// All complete segments in files that were written at this time or later, nanoseconds since 1970.
    pub(crate) fn pieces(&mut self, from: i64) -> io::Result<Vec<Piece>> {
        let is_later = |about: &fs::Metadata| {
            let written =
                about.modified().ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
            written
                .is_none_or(|written| i64::try_from(written.as_nanos()).is_ok_and(|written| written >= from))
        };
        self.list(is_later)?;
        Ok(self.known.values().flat_map(|listed| &listed.pieces).cloned().collect())
    }

    /// All complete segments, from their indexes. Files that were listed before are not read again.
    ///
    /// # Errors
    /// The directory or a file cannot be read.
    pub fn stretches(&mut self) -> io::Result<Vec<Stretch>> {
        let of = |piece: Piece| Stretch {
            segment: (piece.identity, piece.serial),
            times: TimeRange { first: piece.first, last: piece.last },
            packets: piece.packets,
            bytes: piece.to as u64,
        };
        Ok(self.pieces(i64::MIN)?.into_iter().map(of).collect())
    }

    /// The segments with these serials of a writer of a ring.
    pub(crate) fn pieces_between(&mut self, key: (u64, u32), serials: Range<u64>) -> io::Result<Vec<Piece>> {
        self.list(|_| true)?;
        let all = self.known.values().flat_map(|listed| &listed.pieces);
        let wanted =
            all.filter(|piece| (piece.identity, piece.writer) == key && serials.contains(&piece.serial));
        Ok(wanted.cloned().collect())
    }

    /// What is damaged of what was listed.
    pub(crate) fn damage(&self) -> Option<String> {
        let (path, listed) = self.known.iter().find(|(_, listed)| listed.damaged > 0)?;
        Some(format!(
            "{}: {} segments are damaged: their packets are missing",
            path.display(),
            listed.damaged
        ))
    }

    /// Lists the files that have changed.
    fn list(&mut self, is_wanted: impl Fn(&fs::Metadata) -> bool) -> io::Result<()> {
        let mut files = files(&self.directory)?;
        for class in classes(&self.directory)? {
            files.extend(self::files(&class)?);
        }
        self.known.retain(|path, _| files.iter().any(|(there, _)| there == path));
        for (path, about) in files.iter().filter(|(_, about)| is_wanted(about)) {
            if self.known.get(path).is_some_and(|listed| listed.bytes == about.len()) {
                continue;
            }
            match File::open(path).and_then(|file| list(&file, &Arc::new(path.clone()), about.len())) {
                Ok(listed) => drop(self.known.insert(path.clone(), listed)),
                // The spool has just removed the file, or a torn segment.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The segments of a file.
fn list(file: &File, path: &Arc<PathBuf>, bytes: u64) -> io::Result<Listed> {
    let mut listed = Listed { bytes, pieces: vec![], damaged: 0 };
    let sizes = std::iter::successors(Some(*SEGMENT_BYTES.start()), |size| Some(size * 2));
    let mut sizes = sizes.take_while(|size| SEGMENT_BYTES.contains(size) && *size as u64 <= bytes);
    // The first segment may be damaged: any segment says the size.
    let says = |size: usize, segment: u64| {
        head_of(file, segment * size as u64, size).is_ok_and(|head| head.is_some())
    };
    let Some(size) = sizes.find(|&size| (0..bytes / size as u64).take(PROBES_MAX).any(|at| says(size, at)))
    else {
        return Ok(listed);
    };
    for segment in 0..bytes / size as u64 {
        let start = segment * size as u64;
        match head_of(file, start, size)? {
            Some(head) => listed.pieces.push(Piece::of_index(&head, path, start)),
            None => listed.damaged += 1,
        }
    }
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_times() {
        assert_eq!(file_time(0), "1970-01-01-00-00-00.000000000");
        assert_eq!(file_time(1_795_227_296_247_093_000), "2026-11-21-02-14-56.247093000");
        assert_eq!(file_time(951_782_399_000_000_001), "2000-02-28-23-59-59.000000001");
        assert_eq!(file_time(951_782_400_000_000_000), "2000-02-29-00-00-00.000000000");
    }
}
