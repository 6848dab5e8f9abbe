//! Outputs of rows: format and destination, by the options or to suit a terminal or pipe.

use crate::input_options::Input;
use crate::messages::failure::Failure;
use crate::output::export::Target;
use crate::source::input::STDIN;
use crate::spec::Stdout;
use rustix::fs::OFlags;
use std::fs::{File, Metadata};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use weir::io::tcp::{self, Endpoint, Listener};
use weir::io::{Format, Options};
use weir_guard::files::{self, Opening};

/// Options of a sink for a file or standard output. A terminal gets colours and tables of its width.
pub fn options(log: &'static str, target: Option<&Path>, stdout: Stdout) -> Options {
    let screen = stdout.screen_of(target);
    Options {
        color: screen.is_some_and(|screen| screen.is_colored),
        width: screen.and_then(|screen| screen.width),
        path: log,
        ..Options::default()
    }
}

/// Rejects a columnar format on a terminal.
pub fn refuse_terminal(format: Format, target: Option<&Path>, stdout: Stdout) -> Result<(), Failure> {
    if target.is_none() && format.is_columnar() && stdout.screen.is_some() {
        return Err(Failure::new(format!(
            "{format} cannot be printed on a terminal: use -o FILE, or a pipe"
        )));
    }
    Ok(())
}

/// Whether a path is a directory: one exists there, or the path ends with `/`.
pub fn is_directory(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().as_bytes().ends_with(b"/")
}

/// Opens the file, or standard output. Nothing is buffered: the process may end while an output blocks.
pub fn open(target: Option<&Path>) -> Result<File, Failure> {
    let opened = match target {
        Some(path) => files::create(path),
        None => io::stdout().as_fd().try_clone_to_owned().map(File::from),
    };
    opened.map_err(|e| Failure::writing(name_of(target), &e))
}

/// The name of an output in messages.
pub fn name_of(output: Option<&Path>) -> String {
    output.map_or("standard output".to_string(), |path| path.display().to_string())
}

/// Whether the path exists and is not a file: a pipe, a terminal, `/dev/null`.
pub fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|about| !about.is_file())
}

/// Rejects an output that is also an input under any name: writing would destroy it.
pub fn refuse_input(output: &Path, input: &Input) -> Result<(), Failure> {
    let Some(target) = identity(output) else { return Ok(()) };
    match inputs(input).contains(&target) {
        true => Err(Failure::new(format!("{} is an input file: write to another file", output.display()))),
        false => Ok(()),
    }
}

/// The regular files that a run reads.
pub fn inputs(input: &Input) -> Vec<FileId> {
    let captures = input.read.iter().map(|name| match name.to_str() {
        Some("-") => Path::new(STDIN),
        _ => Path::new(name),
    });
    let stacks = input.stack.iter().map(Path::new);
    captures.chain(stacks).filter_map(identity).collect()
}

/// Whether an output is no file, but another machine: the name may have mistakes.
pub fn is_remote(path: &Path) -> bool {
    Endpoint::is_named(path) || Target::is_named(path)
}

/// Checks that a file can be written, without changing it; or that the socket can be opened.
pub fn check(path: &Path) -> Result<(), Failure> {
    if Target::is_named(path) {
        // To send something would disturb the receiver. `export::check` knows its name.
        return Ok(());
    }
    if let Some(endpoint) = endpoint(path)? {
        if let Endpoint::Datagrams(name) = &endpoint {
            let wrong = |mistake| Failure::new(format!("{}: {mistake}", path.display()));
            return name.instances().map(drop).map_err(wrong);
        }
        if let Endpoint::Recorder(_) = endpoint {
            return Err(Failure::new(format!("{}: a recorder can be read, not written", path.display())));
        }
        // To connect would disturb the receiver.
        let Endpoint::Listen { address, port } = endpoint else { return Ok(()) };
        return listen(path, address, port).map(drop);
    }
    if is_directory(path) {
        return check_directory(path);
    }
    let tried = files::refuse_link(path).and_then(|()| match (path.exists(), identity(path)) {
        (true, None) => Ok(()),
        (true, _) => files::open(path, Opening::Existing, OFlags::APPEND).map(drop),
        (false, _) => files::create_new(path).and_then(|_| std::fs::remove_file(path)),
    });
    tried.map_err(|e| Failure::writing(path.display(), &e))
}

/// The TCP connection of this name, if it is not the name of a file.
pub fn endpoint(path: &Path) -> Result<Option<Endpoint>, Failure> {
    let endpoint = Endpoint::of(path).transpose();
    endpoint.map_err(|mistake| Failure::new(format!("{}: {mistake}", path.display())))
}

/// Opens the socket of an output, where clients connect.
pub fn listen(path: &Path, address: Option<IpAddr>, port: u16) -> Result<Listener, Failure> {
    let listener = Listener::bind(address, port);
    listener.map_err(|error| Failure::new(format!("{}: {}", path.display(), tcp::explain_unbound(&error))))
}

/// Checks that a file can be replaced by a file that is created beside it.
pub fn check_replaceable(path: &Path) -> Result<(), Failure> {
    if is_special(path) || is_directory(path) {
        return check(path);
    }
    files::refuse_link(path).map_err(|e| Failure::writing(path.display(), &e))?;
    // A run that is restricted makes only files whose names begin with that of the output.
    let mut beside = path.as_os_str().to_owned();
    beside.push(tried_name());
    let tried = files::create_new(Path::new(&beside)).and_then(|_| std::fs::remove_file(&beside));
    tried.map_err(|e| Failure::writing(path.display(), &e))
}

/// Checks that a file can be created in a directory, or that the directory can be made; nothing remains.
pub fn check_directory(path: &Path) -> Result<(), Failure> {
    let tried = files::refuse_foreign_link(path).and_then(|()| {
        let path = std::path::absolute(path)?;
        match path.ancestors().take_while(|path| !path.exists()).last() {
            Some(missing) => std::fs::create_dir(missing).and_then(|()| std::fs::remove_dir(missing)),
            None => {
                let tried = path.join(tried_name());
                files::create_new(&tried).and_then(|_| std::fs::remove_file(&tried))
            }
        }
    });
    tried.map_err(|e| Failure::writing(path.display(), &e))
}

/// The end of the name of a file that is made and removed at once.
fn tried_name() -> String {
    format!(".weir-{}", std::process::id())
}

/// A file or directory that is written to, by whatever path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileId {
    /// Device and inode of an existing one.
    Inode(u64, u64),
    /// The absolute path of one that does not exist yet.
    Path(PathBuf),
}

impl FileId {
    /// The file with this metadata.
    pub fn of(about: &Metadata) -> Self {
        FileId::Inode(about.dev(), about.ino())
    }
}

/// What a path leads to. `None` for special files (a terminal, `/dev/null`), receivers of exports and
/// instances, which several may write to.
pub fn file_id(path: &Path) -> Option<FileId> {
    if Target::is_named(path) || matches!(Endpoint::of(path), Some(Ok(Endpoint::Datagrams(_)))) {
        return None;
    }
    match std::fs::metadata(path) {
        Ok(about) if about.is_file() || about.is_dir() => Some(FileId::of(&about)),
        Ok(_) => None,
        Err(_) => std::path::absolute(path).ok().map(FileId::Path),
    }
}

/// A regular file, after resolving links. `None` for special files (a terminal, `/dev/null`), which writing
/// does not destroy.
fn identity(path: &Path) -> Option<FileId> {
    let about = std::fs::metadata(path).ok().filter(|about| about.is_file())?;
    Some(FileId::of(&about))
}
