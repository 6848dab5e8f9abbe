//! Dumps: packets of the past and of the next time, from the ring of a recorder to a capture file each.
//!
//! A dump is written in parts. The first part has the packets that are in the ring when the dump begins;
//! later ones those that came since, until the end of the dump. Between two parts, a dump is a file, and has
//! a place in the ring together with others: thousands of dumps wait for few threads.

use crate::copy_packets::{Copy, Room, copy_packets};
use crate::dump_list::{self, DumpList};
use crate::dump_queue::{Batch, Dump, DumpParams, DumpQueue, Work};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir::Compiler;
use weir::io::ring::{Reader, Ring, Selection, SpoolFiles, TimeRange};
use weir::io::{CaptureReader, PcapngWriter};
use weir_guard::files;
use weir_questions::messages::Failure;
use weir_questions::output::{DUMP_FILES_MAX, FileBounds, FileBudget};
use weir_questions::quantity::seconds;

/// Threads that write dumps.
const THREADS: usize = 2;
/// Dumps at the same time, each with an open file, if the system allows as many; further ones are refused,
/// and counted.
const DUMPS_MAX: usize = 256;
/// How long the files of earlier dumps are not counted again, when there is no room for a new one.
const COUNTED: Duration = Duration::from_secs(10);
/// Dumps whose names differ only in a number.
const NAMES_MAX: u32 = 10_000;
/// Open files for everything else.
const FILES_KEPT: u64 = 128;
/// Time without packets after which a dump ends whose trigger was removed.
const SILENCE: Duration = Duration::from_secs(60);
/// Time between two parts of a dump.
const PART: Duration = Duration::from_secs(2);

/// Counters of dumps.
#[derive(Debug, Default)]
pub struct DumpCounters {
    /// Files that are complete.
    pub written: AtomicU64,
    /// Their packets.
    pub packets: AtomicU64,
    /// Dumps that were not begun, because there were too many.
    pub refused: AtomicU64,
    /// Dumps that ended before their packets, because they were too large.
    pub cut: AtomicU64,
    /// Packets that left the ring before their dump came to them.
    pub lost: AtomicU64,
    /// Dumps that could not be written.
    pub failed: AtomicU64,
}

/// Where dumps come from and go to.
#[derive(Clone)]
pub struct DumpPlace {
    pub ring: Ring,
    pub spool: Option<SpoolFiles>,
    pub directory: PathBuf,
    pub compiler: Compiler,
    pub bounds: DumpBounds,
}

/// How many files and bytes dumps have, and how long one lasts.
#[derive(Debug, Clone, Copy)]
pub struct DumpBounds {
    files: FileBounds,
    age: Duration,
}

impl DumpBounds {
    /// The option that states them.
    pub const OPTION: &str = "--dumps-max";
    /// How long a dump lasts, unless the option says otherwise: connections may never end.
    const AGE: Duration = Duration::from_hours(1);

    /// The bounds that `BYTES`, `BYTES/FILES` or `BYTES/FILES/TIME` states, or the usual ones.
    ///
    /// # Errors
    /// The text is none.
    pub fn of(stated: Option<&str>, directory: &Path) -> Result<Self, Failure> {
        let (files, age) = match stated.map(|text| text.rsplit_once('/')) {
            Some(Some((files, age))) if files.contains('/') => (Some(files), Some(age)),
            _ => (stated, None),
        };
        let age = age.map_or(Ok(Self::AGE), |age| {
            let seconds = seconds(age).map_err(|why| Failure::new(format!("{}: {why}", Self::OPTION)))?;
            Duration::try_from_secs_f64(seconds).map_err(Failure::new)
        });
        Ok(Self { files: FileBounds::of(Self::OPTION, files, directory, DUMP_FILES_MAX)?, age: age? })
    }
}

/// The dumps of a recorder.
pub struct Dumps {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    place: DumpPlace,
    state: Mutex<State>,
    changed: Condvar,
    counters: DumpCounters,
    list: DumpList,
    dumps_max: usize,
    budget: Arc<FileBudget>,
    /// When the files in the directory were counted; it was said that too many dumps go on.
    counted: Mutex<Instant>,
    was_full: AtomicBool,
}

#[derive(Default)]
struct State {
    queue: DumpQueue,
    /// An error of the disk was reported.
    was_wrong: bool,
}

/// A reader that a batch keeps.
struct Kept(Arc<Mutex<Reader>>);

impl Read for Kept {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).read(bytes)
    }
}

impl Dumps {
    /// Begins to take dumps.
    ///
    /// # Errors
    /// The directory cannot be created; there is no thread.
    pub fn start(place: DumpPlace) -> Result<Self, Failure> {
        files::create_directories(&place.directory)
            .map_err(|error| Failure::writing(place.directory.display(), &error))?;
        let budget = FileBudget::new(DumpBounds::OPTION, place.bounds.files, &place.directory);
        budget.count_existing(dump_list::volume(&place.directory));
        let shared = Arc::new(Shared {
            place,
            budget: Arc::new(budget),
            counted: Mutex::new(Instant::now()),
            was_full: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
            counters: DumpCounters::default(),
            list: DumpList::default(),
            dumps_max: dumps_max(),
        });
        let start = |_| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name("weir-dump".into())
                .spawn(move || shared.work())
                .map_err(Failure::new)
        };
        let threads = (0..THREADS).map(start).collect::<Result<_, _>>()?;
        Ok(Self { shared, threads })
    }

    /// For those who ask for dumps.
    pub fn asker(&self) -> DumpAsker {
        DumpAsker(Arc::clone(&self.shared))
    }

    /// Ends all dumps with a last part, and reports what was written. Returns whether something was lost.
    pub fn finish(self) -> bool {
        self.shared.lock().queue.has_ended = true;
        self.shared.changed.notify_all();
        for thread in self.threads {
            if thread.join().is_err() {
                say!("weir: a thread of dumps has failed");
            }
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let DumpCounters { written, packets, refused, cut, lost, failed } = &self.shared.counters;
        note!(
            "weir: {} dumps with {} packets are in {}",
            count(written),
            count(packets),
            self.shared.place.directory.display()
        );
        for (count, what) in [
            (count(refused), "dumps were not begun, because there were too many (--dumps-max)"),
            (count(cut), "dumps end before their packets, because there was no room (--dumps-max)"),
            (count(lost), "packets left the ring before they were dumped"),
            (count(failed), "dumps could not be written"),
        ] {
            if count > 0 {
                say!("weir: {count} {what}");
            }
        }
        count(refused) + count(cut) + count(lost) + count(failed) > 0
    }
}

/// The number of dumps for which the system allows open files; asks the system for as many as it may allow.
fn dumps_max() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limits = getrlimit(Resource::Nofile);
    let wanted = DUMPS_MAX as u64 + FILES_KEPT;
    let most = limits.maximum.map_or(wanted, |most| most.min(wanted));
    let raised = limits.current.is_some_and(|now| now < most)
        && setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limits }).is_ok();
    let files = if raised { most } else { limits.current.unwrap_or(wanted) };
    usize::try_from(files.saturating_sub(FILES_KEPT)).map_or(DUMPS_MAX, |files| files.min(DUMPS_MAX))
}

/// Creates a file for a dump in a directory. The name is `stem`, with a number if the directory has such a
/// dump. The file ends with `.part` until the dump is complete.
pub fn create_file(directory: &Path, stem: &str) -> Result<(PathBuf, File), Failure> {
    let mut number = 0;
    loop {
        let again = if number == 0 { String::new() } else { format!("_{number}") };
        let path = directory.join(format!("{stem}{again}.pcapng.part"));
        let opened = match path.with_extension("").exists() {
            true => Err(io::ErrorKind::AlreadyExists.into()),
            false => files::create_new(&path),
        };
        match opened {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < NAMES_MAX => number += 1,
            opened => {
                let file = opened.map_err(|error| Failure::writing(path.display(), &error))?;
                return Ok((path, file));
            }
        }
    }
}

/// Asks for dumps.
#[derive(Clone)]
pub struct DumpAsker(Arc<Shared>);

impl DumpAsker {
    /// The counters of all dumps.
    pub fn counters(&self) -> &DumpCounters {
        &self.0.counters
    }

    /// The dumps of this run.
    pub fn list(&self) -> &DumpList {
        &self.0.list
    }

    /// Where dumps come from and go to.
    pub fn place(&self) -> &DumpPlace {
        &self.0.place
    }

    /// The room for one more file of a dump. `None`: there is none, and the refusal is counted.
    pub fn admit(&self) -> Option<Room> {
        self.0.admit()
    }

    /// Begins a dump of this name, which ends after the time `lasts`, or with [`end`](Self::end). If such a
    /// dump goes on, it ends no earlier than the new one would. Returns whether there is such a dump.
    pub fn begin(&self, name: &str, lasts: Option<Duration>, params: impl FnOnce() -> DumpParams) -> bool {
        let mut state = self.0.lock();
        let age = self.0.place.bounds.age;
        let until = Some(Instant::now() + lasts.map_or(age, |lasts| lasts.min(age)));
        if state.queue.extend(name, until) {
            return true;
        }
        if state.queue.len() >= self.0.dumps_max {
            self.0.counters.refused.fetch_add(1, Ordering::Relaxed);
            if !self.0.was_full.swap(true, Ordering::Relaxed) {
                note!("weir: {} dumps go on: further ones are counted, and not begun", self.0.dumps_max);
            }
            return false;
        }
        state.queue.push(params(), until);
        self.0.changed.notify_one();
        true
    }

    /// The packets of a dump have all come: the dump ends with its next part.
    pub fn end(&self, name: &str) {
        self.0.lock().queue.end(name);
        self.0.changed.notify_one();
    }

    /// The trigger of these dumps is removed: each ends when its packets fall silent.
    pub fn leave<'n>(&self, names: impl IntoIterator<Item = &'n String>) {
        let mut state = self.0.lock();
        names.into_iter().for_each(|name| state.queue.leave(name));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(&self) -> Option<Room> {
        let is_counted_again = || {
            let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
            // Somebody may have removed files.
            let is_due = counted.elapsed() > COUNTED;
            if is_due {
                *counted = Instant::now();
                self.budget.count_existing(dump_list::volume(&self.place.directory));
            }
            is_due
        };
        if self.budget.add_file() || is_counted_again() && self.budget.add_file() {
            return Some(Room::new(Arc::clone(&self.budget)));
        }
        self.budget.refuse();
        self.counters.refused.fetch_add(1, Ordering::Relaxed);
        None
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            match state.queue.next() {
                Work::New(new) => {
                    drop(state);
                    let batch = self.begin(new);
                    state = self.lock();
                    if !batch.dumps.is_empty() {
                        state.queue.put(batch, Instant::now());
                    }
                }
                Work::Part(batch) => {
                    drop(state);
                    self.part(batch);
                    state = self.lock();
                }
                Work::Wait(patience) => {
                    let waited = self.changed.wait_timeout(state, patience.unwrap_or(PART));
                    (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
                }
                Work::End => return,
            }
        }
    }

    /// Tells of the first error.
    fn wrong(&self, failure: &Failure) {
        if !std::mem::replace(&mut self.lock().was_wrong, true) {
            say!(
                "weir: {}: {failure}; the dump lacks packets, and keeps the name `.part`",
                self.place.directory.display()
            );
        }
    }

    /// Creates the files of new dumps.
    fn begin(&self, new: Vec<DumpParams>) -> Batch {
        let first = new.iter().map(|params| params.from.0).min().unwrap_or(i64::MAX);
        let selection = Arc::new(Selection::of(TimeRange { first, last: i64::MAX }));
        let (ring, spool) = (self.place.ring.clone(), self.place.spool.clone());
        let reader = Reader::new(Some(ring), spool, false, Arc::clone(&selection));
        let mut dumps = vec![];
        for params in new {
            let name = params.name.clone();
            let Some(room) = self.admit() else {
                self.lock().queue.remove(&name);
                continue;
            };
            match self.begin_one(params, room) {
                Ok(dump) => dumps.push(dump),
                Err(failure) => {
                    self.wrong(&failure);
                    self.counters.failed.fetch_add(1, Ordering::Relaxed);
                    self.lock().queue.remove(&name);
                }
            }
        }
        Batch { dumps, reader: Arc::new(Mutex::new(reader)), selection, lost: 0 }
    }

    fn begin_one(&self, params: DumpParams, room: Room) -> Result<Dump, Failure> {
        self.place.compiler.check_filter(&params.filter, false)?;
        let safe = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let name: String = params.name.chars().map(safe).take(64).collect();
        let time = weir::io::file_time(params.from);
        let (path, file) = create_file(&self.place.directory, &format!("{time}-{name}"))?;
        self.list.begun(&path, &params.name, &params.reason);
        // A filter may have characters that control terminals.
        let mut writer = PcapngWriter::new(file).with_comment(&weir::packet::printable(&params.reason, &[]));
        writer.begin().and_then(|()| writer.flush()).map_err(Failure::new)?;
        Ok(Dump { params, path, writer, packets: 0, grew: Instant::now(), room, has_failed: false })
    }

    /// Writes the next part of a batch; dumps whose last part it was are complete.
    fn part(&self, mut batch: Batch) {
        let began = Instant::now();
        let ending: Vec<bool> = {
            let state = self.lock();
            batch.dumps.iter().map(|dump| state.queue.is_over(&dump.params.name)).collect()
        };
        if let Err(failure) = self.write_part(&mut batch) {
            batch.dumps.iter_mut().for_each(|dump| dump.has_failed = true);
            self.wrong(&failure);
        }
        let mut state = self.lock();
        let (mut over, mut going) = (vec![], vec![]);
        for (dump, is_ending) in std::mem::take(&mut batch.dumps).into_iter().zip(ending) {
            // Meanwhile, somebody may have asked for more.
            let name = &dump.params.name;
            let is_silent = dump.grew.elapsed() >= SILENCE && state.queue.is_left(name);
            if dump.room.is_cut() || is_silent || is_ending && state.queue.is_over(name) {
                state.queue.remove(&dump.params.name);
                over.push(dump);
            } else {
                going.push(dump);
            }
        }
        if !going.is_empty() {
            let next = going.iter().filter_map(|dump| state.queue.until(&dump.params.name)).min();
            let due = next.map_or(began + PART, |next| next.min(began + PART));
            batch.dumps = going;
            state.queue.put(batch, due);
        }
        drop(state);
        over.into_iter().for_each(|dump| self.complete(dump));
    }

    /// Writes the packets that came since the last part.
    fn write_part(&self, batch: &mut Batch) -> Result<(), Failure> {
        let Batch { dumps, reader, selection, lost } = batch;
        let kept = Box::new(Kept(Arc::clone(reader)));
        let source = CaptureReader::of_recorder("dumps".to_string(), kept, Arc::clone(selection));
        let before: Vec<u64> = dumps.iter().map(|dump| dump.packets).collect();
        let copies = dumps.iter_mut().map(|dump| Copy {
            filter: dump.params.filter.clone(),
            from: dump.params.from,
            writer: &mut dump.writer,
            packets: &mut dump.packets,
            room: Some(&mut dump.room),
        });
        let copied = copy_packets(source, &self.place.compiler, copies.collect());
        reader.lock().unwrap_or_else(PoisonError::into_inner).resume();
        for (dump, before) in dumps.iter_mut().zip(before) {
            if dump.packets > before {
                dump.grew = Instant::now();
            }
            self.list.wrote(&dump.path, dump.packets);
        }
        self.counters.lost.fetch_add(selection.lost() - *lost, Ordering::Relaxed);
        *lost = selection.lost();
        copied
    }

    fn complete(&self, dump: Dump) {
        let Dump { path, writer, packets, room, has_failed, .. } = dump;
        // What was written stays, as `.part`.
        let is_cut = room.is_cut();
        let done = !has_failed
            && !is_cut
            && writer.finish().and_then(|_| fs::rename(&path, path.with_extension(""))).is_ok();
        self.list.ended(&path, done);
        if done {
            self.counters.written.fetch_add(1, Ordering::Relaxed);
            self.counters.packets.fetch_add(packets, Ordering::Relaxed);
        } else if is_cut && !has_failed {
            self.counters.cut.fetch_add(1, Ordering::Relaxed);
        } else {
            self.counters.failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}
