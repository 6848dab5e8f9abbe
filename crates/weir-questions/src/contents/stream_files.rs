//! Files in a directory: one per stream, with tcpflow's file names, or one per content (`extraction.rs`). The
//! files are written on a thread of their own.
//!
//! Others may write to the directory, too: a link there is not followed, and an input of the run is not
//! overwritten.

use crate::messages::failure::{self, Failure};
use crate::output::file_budget::FileBudget;
use crate::output::place::FileId;
use rustix::fs::OFlags;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use weir::io::outlet::{Load, Refused};
use weir::io::{Outlet, Patience};
use weir::stream::Stream;
use weir_guard::files::{self, Opening};

/// Buffer size: bytes are written in pieces of about this size.
const BUFFER_BYTES: usize = 16 << 10;

/// The directory, and the files in it.
#[derive(Debug)]
pub struct Files {
    directory: PathBuf,
    /// The files that the run reads.
    inputs: Vec<FileId>,
    /// The thread that writes.
    outlet: Arc<Outlet>,
    patience: Patience,
    /// How many files there may be, and how large.
    budget: FileBudget,
    /// Streams so far by file name, with a number for each: connections may reuse ports.
    names: Mutex<HashMap<String, (String, u32)>>,
    /// The first failure.
    fault: Mutex<Option<String>>,
    /// Bytes that the thread did not accept, because the directory was blocked.
    lost_bytes: AtomicU64,
}

/// A file that is written in pieces. It is open only during writes, since files may outnumber the file
/// descriptors.
#[derive(Debug)]
pub struct StreamFile {
    path: Arc<Path>,
    /// The file, once it is created; `None`: it cannot be.
    created: Arc<OnceLock<Option<FileId>>>,
    /// Bytes not yet written, and their offset in the stream.
    buffer: Vec<u8>,
    at: u64,
    files: Arc<Files>,
    /// Whether the budget has a place for the file, once it has bytes; and the bytes that it has taken.
    has_place: Option<bool>,
    taken_bytes: u64,
    is_cut: bool,
}

impl Files {
    /// Files in this directory, which is created with the first file. `inputs` are not overwritten; `outlet`
    /// writes, as far as the budget allows.
    pub fn new(
        directory: PathBuf,
        inputs: Vec<FileId>,
        (outlet, patience): (Arc<Outlet>, Patience),
        budget: FileBudget,
    ) -> Self {
        let (names, fault, lost_bytes) = (Mutex::default(), Mutex::default(), AtomicU64::new(0));
        Self { directory, inputs, outlet, patience, budget, names, fault, lost_bytes }
    }

    /// The file of a stream, which has bytes.
    pub fn of(self: &Arc<Self>, stream: &Stream<'_, '_>) -> StreamFile {
        let [(src, src_port), (dst, dst_port)] = stream.endpoints();
        let mut name = format!("{}.{src_port:05}-{}.{dst_port:05}", digits(src), digits(dst));
        if stream.proto() != "tcp" {
            name = format!("{name}.{}", stream.proto());
        }
        let uid = stream.uid();
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() as u64 >= self.budget.bounds().files && !names.contains_key(&name) {
            // No file would have the name, and names are kept to the end.
            let mut file = self.named(&name);
            file.has_place = Some(false);
            self.budget.refuse();
            return file;
        }
        // All streams between the same endpoints belong to one worker, so their numbers do not depend on the
        // number of workers.
        let (last, number) = names.entry(name.clone()).or_insert((uid.clone(), 0));
        if *last != uid {
            (*last, *number) = (uid, *number + 1);
        }
        if *number > 0 {
            name = format!("{name}c{number}");
        }
        self.named(&name)
    }

    /// A file of this name, created at the first byte.
    pub fn named(self: &Arc<Self>, name: &str) -> StreamFile {
        let path = self.directory.join(name).into();
        let (files, has_place) = (Arc::clone(self), None);
        StreamFile {
            path,
            created: Arc::default(),
            buffer: vec![],
            at: 0,
            files,
            has_place,
            taken_bytes: 0,
            is_cut: false,
        }
    }

    /// What became of the bounds.
    pub fn budget(&self) -> &FileBudget {
        &self.budget
    }

    /// A file that is to be [kept](StreamFile::keep) or [removed](StreamFile::remove). Its name in the
    /// meantime is made of the process and `number`.
    pub fn temporary(self: &Arc<Self>, number: u64) -> StreamFile {
        self.named(&format!("{TEMPORARY}{}-{number}", std::process::id()))
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Waits until the files are written; the first failure, if any.
    pub fn fault(&self) -> Option<Failure> {
        let blocked = self.outlet.wait(&self.patience).err().map_or(0, |load| load.bytes as u64);
        let lost_bytes = self.lost_bytes.swap(0, Ordering::Relaxed) + blocked;
        let directory = self.directory.display();
        let lost = (lost_bytes > 0).then(|| {
            Failure::new(format!("{directory} was blocked: {lost_bytes} bytes are lost (--output-wait)"))
        });
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner).take().map(Failure::new);
        match (fault, lost) {
            (Some(fault), Some(lost)) => Some(fault.and(lost)),
            (fault, lost) => fault.or(lost),
        }
    }

    fn fail(&self, path: &Path, error: &io::Error) {
        let shown = if is_temporary(path) { &self.directory } else { path };
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        fault.get_or_insert_with(|| format!("{}: {}", shown.display(), failure::of_writing(error)));
    }

    /// Creates or empties the file.
    fn create(&self, path: &Path) -> io::Result<(File, FileId)> {
        let opening = if is_temporary(path) { Opening::New } else { Opening::Kept };
        let create = || open(path, opening);
        let file = create().or_else(|error| match error.kind() {
            // Create the directory with the first file.
            ErrorKind::NotFound => files::create_directories(&self.directory).and_then(|()| create()),
            _ => Err(error),
        })?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::Error::other("not a file"));
        }
        let id = FileId::of(&about);
        if self.inputs.contains(&id) {
            return Err(io::Error::other("an input file: write to another directory"));
        }
        file.set_len(0)?;
        Ok((file, id))
    }

    /// Opens a file that was created.
    fn reopen(&self, path: &Path, id: &FileId) -> io::Result<File> {
        let file = open(path, Opening::Existing)?;
        match FileId::of(&file.metadata()?) == *id {
            true => Ok(file),
            false => Err(io::Error::other("another file has taken its place")),
        }
    }

    /// Writes bytes at this offset.
    fn write(
        &self,
        path: &Path,
        created: &OnceLock<Option<FileId>>,
        bytes: &[u8],
        offset: u64,
    ) -> io::Result<()> {
        let file = match created.get() {
            // The failure is already known.
            Some(None) => return Ok(()),
            Some(Some(id)) => self.reopen(path, id)?,
            None => {
                let made = self.create(path);
                let _ = created.set(made.as_ref().ok().map(|(_, id)| id.clone()));
                made?.0
            }
        };
        file.write_all_at(bytes, offset)
    }

    /// Gives the file its final name; an empty one is created.
    fn rename(&self, path: &Path, created: &OnceLock<Option<FileId>>, target: &Path) -> io::Result<()> {
        match created.get() {
            // The failure is already known.
            Some(None) => return Ok(()),
            Some(Some(_)) => {}
            None => drop(self.create(path)?),
        }
        match fs::symlink_metadata(target) {
            Ok(about) if about.is_symlink() => {
                return Err(io::Error::other("a symbolic link, which is not replaced"));
            }
            Ok(about) if !about.is_file() => return Err(io::Error::other("not a file")),
            Ok(about) if self.inputs.contains(&FileId::of(&about)) => {
                return Err(io::Error::other("an input file: write to another directory"));
            }
            _ => {}
        }
        fs::rename(path, target)
    }
}

/// The beginning of the names of temporary files.
const TEMPORARY: &str = ".weir-";

fn is_temporary(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(TEMPORARY.as_bytes()))
}

/// Opens a file for writing. Links are not followed, and pipes are not waited for.
fn open(path: &Path, opening: Opening) -> io::Result<File> {
    files::open(path, opening, OFlags::NONBLOCK)
}

impl StreamFile {
    /// Writes bytes at `offset` of the stream; missing bytes stay a hole. Returns the number of bytes for
    /// which the budget has room: without room, the file ends.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> usize {
        let fits = self.reserve(bytes.len());
        if fits > 0 {
            self.append(offset, &bytes[..fits]);
        }
        fits
    }

    /// Takes room for bytes; returns the number that fits.
    fn reserve(&mut self, bytes: usize) -> usize {
        let budget = &self.files.budget;
        let has_place = *self.has_place.get_or_insert_with(|| {
            let has_place = budget.add_file();
            if !has_place {
                budget.refuse();
            }
            has_place
        });
        if !has_place || self.is_cut {
            return 0;
        }
        let fits = budget.take(bytes);
        self.taken_bytes += fits as u64;
        if fits < bytes {
            self.is_cut = true;
            budget.cut();
        }
        fits
    }

    fn append(&mut self, offset: u64, bytes: &[u8]) {
        if offset != self.at + self.buffer.len() as u64 {
            self.flush();
            self.at = offset;
        }
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    /// Bytes of memory.
    pub fn held_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Gives a [temporary](Files::temporary) file its final name in the directory. A file of that name is
    /// replaced, unless it is an input or no regular file. Returns `false` if the budget has no place for it.
    pub fn keep(&mut self, name: &str) -> bool {
        // Also of a file without bytes.
        self.reserve(0);
        if self.has_place == Some(false) {
            return false;
        }
        self.flush();
        let target = self.files.directory.join(name);
        self.post(move |files, path, created| {
            let renamed = files.rename(path, created, &target);
            if let Err(error) = renamed {
                files.fail(&target, &error);
                // Another failure to remove the file is of no interest.
                let _ = fs::remove_file(path);
            }
        });
        true
    }

    /// Removes a [temporary](Files::temporary) file.
    pub fn remove(&mut self) {
        self.buffer.clear();
        if self.has_place.take() == Some(true) {
            self.files.budget.give_back(std::mem::take(&mut self.taken_bytes));
        }
        self.post(|files, path, created| {
            if let Some(Some(_)) = created.get()
                && let Err(error) = fs::remove_file(path)
            {
                files.fail(path, &error);
            }
        });
    }

    /// Executes a job behind the writes so far.
    fn post(&self, job: impl FnOnce(&Files, &Path, &OnceLock<Option<FileId>>) + Send + 'static) {
        let (path, created, files) =
            (Arc::clone(&self.path), Arc::clone(&self.created), Arc::clone(&self.files));
        let posted = self.files.outlet.post(Box::new(move || job(&files, &path, &created)));
        if let Err(Refused::Broken(error)) = posted {
            self.files.fail(&self.path, &error);
        }
    }

    /// Passes the buffer to the thread that writes.
    pub fn flush(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        let (bytes, at) = (std::mem::take(&mut self.buffer), self.at);
        self.at += bytes.len() as u64;
        let (path, created, files) =
            (Arc::clone(&self.path), Arc::clone(&self.created), Arc::clone(&self.files));
        let load = Load { rows: 0, bytes: bytes.len() };
        let job = Box::new(move || {
            let written = files.write(&path, &created, &bytes, at);
            written.err().iter().for_each(|error| files.fail(&path, error));
        });
        match self.files.outlet.send(load, job) {
            Ok(()) => {}
            Err(Refused::Full | Refused::Closed) => {
                self.files.lost_bytes.fetch_add(load.bytes as u64, Ordering::Relaxed);
            }
            Err(Refused::Broken(error)) => self.files.fail(&self.path, &error),
        }
    }
}

impl Drop for StreamFile {
    fn drop(&mut self) {
        self.flush();
    }
}

/// An address in tcpflow's format: IPv4 octets have three digits, so names sort in address order.
fn digits(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => v4.octets().map(|byte| format!("{byte:03}")).join("."),
        IpAddr::V6(v6) => v6.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::file_budget::FileBounds;

    #[test]
    fn bytes_that_a_blocked_directory_does_not_accept_are_counted() {
        let directory = std::env::temp_dir().join(format!("weir-stream-files-{}", std::process::id()));
        let (release, released) = std::sync::mpsc::channel::<()>();
        let patience = Patience::of(std::time::Duration::ZERO);
        let outlet = Arc::new(Outlet::new(patience.clone()));
        let budget = FileBudget::new("--files-max", FileBounds { bytes: 1 << 20, files: 9 }, &directory);
        let outlet_and_patience = (Arc::clone(&outlet), patience);
        let files = Arc::new(Files::new(directory.clone(), vec![], outlet_and_patience, budget));
        let file = |name: &str| files.named(name);
        let full = Load { rows: 0, bytes: weir::io::outlet::QUEUE_BYTES_MAX };
        let blocked = Box::new(move || {
            let _ = released.recv();
        });
        outlet.send(full, blocked).expect("the queue is empty");
        file("lost").write(0, b"seven b");
        drop(release);
        outlet.wait(&Patience::unlimited()).expect("it is released");
        let mut written = file("written");
        written.write(0, b"here");
        written.write(6, b"there");
        drop(written);
        outlet.wait(&Patience::unlimited()).expect("nothing blocks");
        let fault = files.fault().map(|fault| fault.to_string()).unwrap_or_default();
        assert!(fault.contains("was blocked: 7 bytes are lost"), "{fault}");
        assert!(files.fault().is_none() && !directory.join("lost").exists());
        assert_eq!(fs::read(directory.join("written")).unwrap(), b"here\0\0there");
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn addresses_are_those_of_tcpflow() {
        assert_eq!(digits("10.0.7.200".parse().unwrap()), "010.000.007.200");
        assert_eq!(digits("2001:db8::1".parse().unwrap()), "2001:db8::1");
    }
}
