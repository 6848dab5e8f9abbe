//! Recorders by name: a socket at which a process passes its ring to readers.
//!
//! The socket is `NAME.sock` in `/run/weir/rings` (recorders of root) or `$XDG_RUNTIME_DIR/weir/rings`, which
//! only this user may enter. Who connects gets the descriptor of the memory, which can only be read, and the
//! directory of the spool. The connection ends with the recorder.

use crate::ring::Ring;
use crate::spool::SpoolFiles;
use rustix::fs::FlockOperation;
use rustix::net::RecvFlags;
use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_guard::{files, owner, sockets};

/// The name of a recorder without a name.
pub const DEFAULT: &str = "default";
/// Before a name on the command line.
pub const PREFIX: &str = "ring:";
const NAME_BYTES_MAX: usize = 64;
/// Bytes of the path of a spool.
const PATH_BYTES_MAX: usize = 4096;
/// A reader or recorder that does not answer is given up after this time.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Readers whose connections are kept: the first ones are told too early that the recorder has ended.
const CLIENTS_MAX: usize = 1024;
/// A socket looks for its end in this interval.
const LOOK: Duration = Duration::from_millis(20);

/// The name of a recorder in `ring:NAME`; `ring:` is the [default](DEFAULT) one. `None`: the text has another
/// form.
///
/// # Errors
/// What is wrong with the name.
pub fn name_of(text: &str) -> Option<Result<&str, String>> {
    let name = text.strip_prefix(PREFIX)?;
    if name.is_empty() {
        return Some(Ok(DEFAULT));
    }
    Some(check_name(name).map(|()| name))
}

/// Checks the name of a recorder.
///
/// # Errors
/// What is wrong with the name.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    match !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(is_plain) {
        true => Ok(()),
        false => Err(format!(
            "`{name}` is no name of a recorder: write {PREFIX}NAME with up to {NAME_BYTES_MAX} letters, digits, `-`, `_` and `.`"
        )),
    }
}

/// The directory of this user's sockets.
///
/// # Errors
/// The environment has no directory for sockets of the user.
pub fn directory() -> io::Result<PathBuf> {
    if owner::number() == 0 {
        return Ok(PathBuf::from("/run/weir/rings"));
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").ok_or_else(|| {
        io::Error::new(
            ErrorKind::NotFound,
            "XDG_RUNTIME_DIR is not set: it names the directory of a user's sockets",
        )
    })?;
    Ok(Path::new(&runtime).join("weir/rings"))
}

/// Makes the directory of this user's sockets, unless it is there.
///
/// # Errors
/// It cannot be made, or others may enter it.
pub fn make_directory() -> io::Result<PathBuf> {
    let directory = directory()?;
    if let Some(above) = directory.parent() {
        fs::create_dir_all(above)?;
    }
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let about = fs::metadata(&directory)?;
    if about.uid() != owner::number() || about.mode() & 0o077 != 0 {
        let shown = directory.display();
        let message = format!("{shown}: other users may enter it: chmod 700, as its owner");
        return Err(io::Error::new(ErrorKind::PermissionDenied, message));
    }
    Ok(directory)
}

fn socket_in(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.sock"))
}

/// The name of a recorder, which no other one has as long as this exists.
#[derive(Debug)]
pub struct Name {
    /// Keeps other recorders from the name.
    lock: File,
    path: PathBuf,
    listener: UnixListener,
}

impl Name {
    /// Takes a name.
    ///
    /// # Errors
    /// `AddrInUse` if another recorder has the name; those of the socket.
    pub fn take(name: &str) -> io::Result<Self> {
        let directory = make_directory()?;
        let lock = files::create(&directory.join(format!("{name}.lock")))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            io::Error::new(ErrorKind::AddrInUse, format!("another recorder is called `{name}`"))
        })?;
        let path = socket_in(&directory, name);
        // Replaces the file of a recorder that was killed.
        let listener = sockets::listen(&path)?;
        Ok(Self { lock, path, listener })
    }
}

/// Passes a ring to the processes that ask for it, until it is dropped.
#[derive(Debug)]
pub struct Published {
    /// Keeps other recorders from the name.
    _lock: File,
    path: PathBuf,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Published {
    /// Passes `ring` under this name, and the directory of its spool.
    ///
    /// # Errors
    /// Those of the socket; the system makes no thread.
    pub fn new(name: Name, ring: &Ring, spool: Option<&Path>) -> io::Result<Self> {
        let Name { lock, path, listener } = name;
        listener.set_nonblocking(true)?;
        let ends = Arc::<AtomicBool>::default();
        let (ring, end) = (ring.clone(), Arc::clone(&ends));
        let spool = spool.map(std::path::absolute).transpose()?;
        let serve = move || {
            // The connections end with this thread.
            let mut clients: VecDeque<UnixStream> = VecDeque::new();
            while !end.load(Ordering::Acquire) {
                match listener.accept() {
                    Ok((client, _)) => {
                        // A client that goes away is no fault of the recorder.
                        if pass(&client, &ring, spool.as_deref()).is_ok()
                            && client.set_nonblocking(true).is_ok()
                        {
                            clients.push_back(client);
                        }
                    }
                    Err(_) => {
                        clients.retain(|client| !has_ended(client));
                        std::thread::sleep(LOOK);
                    }
                }
                if clients.len() > CLIENTS_MAX {
                    clients.pop_front();
                }
            }
        };
        let thread = std::thread::Builder::new().name("weir-ring".into()).spawn(serve)?;
        Ok(Self { _lock: lock, path, ends, thread: Some(thread) })
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

fn pass(client: &UnixStream, ring: &Ring, spool: Option<&Path>) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_write_timeout(Some(ANSWER_MAX))?;
    let path = spool.map_or(&[][..], |path| path.as_os_str().as_bytes());
    // A message has at least a byte.
    sockets::send(client, &[b"/", path].concat(), Some(ring.fd()))
}

/// A recorder, as it is now.
#[derive(Debug)]
pub struct Found {
    /// Its packets in memory.
    pub ring: Ring,
    /// Its packets on the disk.
    pub spool: Option<SpoolFiles>,
    /// A connection that ends with the recorder.
    pub connection: UnixStream,
}

/// The answers of recorders that [`find_early`] has asked, by name. [`find`] takes an answer from here first.
static EARLY: Mutex<Vec<(String, io::Result<Found>)>> = Mutex::new(vec![]);

/// Finds a recorder for a later [`find`], which may run as a user whom the recorder does not answer. Returns
/// the directory of its spool, if it was found and has one. What answers for the recorder may have been taken
/// over: the directory is that of a spool of this user.
pub fn find_early(name: &str) -> Option<PathBuf> {
    let found = ask(name);
    let spool = found.as_ref().ok().and_then(|found| found.spool.as_ref());
    let spool = spool.filter(|spool| spool.is_of(owner::number()));
    let spool = spool.map(|spool| spool.directory().to_path_buf());
    EARLY.lock().unwrap_or_else(PoisonError::into_inner).push((name.to_string(), found));
    spool
}

/// The recorder with this name.
///
/// # Errors
/// `NotFound` if there is no such recorder of this user; those of the connection.
pub fn find(name: &str) -> io::Result<Found> {
    let mut early = EARLY.lock().unwrap_or_else(PoisonError::into_inner);
    match early.iter().position(|(known, _)| known == name) {
        Some(at) => early.swap_remove(at).1,
        None => {
            drop(early);
            ask(name)
        }
    }
}

fn ask(name: &str) -> io::Result<Found> {
    let connection = UnixStream::connect(socket_in(&directory()?, name)).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => io::Error::new(
            ErrorKind::NotFound,
            format!("no recorder `{name}` runs for this user: `weir record -i INTERFACE --name {name}` starts one"),
        ),
        _ => error,
    })?;
    let (ring, spool) = receive(&connection).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            io::Error::new(ErrorKind::TimedOut, format!("the recorder `{name}` does not answer"))
        }
        _ => error,
    })?;
    Ok(Found { ring, spool, connection })
}

/// Whether the other end of a connection is gone. It sends nothing.
pub(crate) fn has_ended(connection: &UnixStream) -> bool {
    let mut byte = [0; 1];
    let got = rustix::net::recv(connection, &mut byte[..], RecvFlags::DONTWAIT);
    match got {
        Ok((_, count)) => count == 0,
        Err(error) => error != rustix::io::Errno::AGAIN,
    }
}

fn receive(recorder: &UnixStream) -> io::Result<(Ring, Option<SpoolFiles>)> {
    recorder.set_read_timeout(Some(ANSWER_MAX))?;
    let mut bytes = vec![0; 1 + PATH_BYTES_MAX];
    let (count, fd) = sockets::receive(recorder, &mut bytes)?;
    let fd = fd.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "the recorder passed no memory"))?;
    let path = bytes.get(1..count).unwrap_or_default();
    let spool = (!path.is_empty())
        .then(|| SpoolFiles::new(PathBuf::from(std::ffi::OsString::from_vec(path.to_vec()))));
    Ok((Ring::attach(fd)?, spool))
}
