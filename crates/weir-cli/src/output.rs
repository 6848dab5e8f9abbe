//! Outputs of rows: format and destination, by the options or to suit a terminal or pipe.

use crate::args::Input;
use crate::failure::Failure;
use crate::spec::Stdout;
use crate::terminal;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use weir::io::{Format, Options, Partitions};
use weir::packet::RowSink;

/// Whether the input may be live, so that somebody may wait for each row.
pub fn is_live(input: &Input) -> bool {
    let path = |name| if name == "-" { Path::new(STDIN) } else { Path::new(name) };
    // A missing file never becomes live.
    let is_file =
        |path: &Path| std::fs::metadata(path).map_or(true, |about| about.is_file() || about.is_dir());
    input.read.iter().any(|name| !is_file(path(name)))
}

/// The sink of a listing command: rows on standard output, in the given format or a default.
pub fn listing(format: Option<&str>) -> Result<Box<dyn RowSink + Send>, Failure> {
    let is_terminal = io::stdout().is_terminal();
    let format: Format = match format {
        Some(name) => name.parse().map_err(Failure::new)?,
        None if is_terminal => Format::Table,
        None => Format::Json,
    };
    create(format, None, &options("", None, Stdout::Own { is_terminal }))
}

/// Options of a sink for a file or standard output. A terminal gets colours and tables of its width.
pub fn options(log: &'static str, target: Option<&Path>, stdout: Stdout) -> Options {
    let is_terminal = target.is_none() && stdout == (Stdout::Own { is_terminal: true });
    Options {
        color: is_terminal && std::env::var_os("NO_COLOR").is_none(),
        width: is_terminal.then(terminal::width).flatten(),
        path: log,
    }
}

/// A sink for a file, for files in a directory, or for standard output.
pub fn create(
    format: Format,
    target: Option<&Path>,
    options: &Options,
) -> Result<Box<dyn RowSink + Send>, Failure> {
    if let Some(directory) = target.filter(|path| is_directory(path)) {
        let partitions = Partitions::new(directory, format, options).map_err(Failure::new)?;
        return Ok(Box::new(partitions));
    }
    refuse_terminal(format, target)?;
    Ok(weir::io::sink::create(format, open(target)?, options))
}

/// Rejects a columnar format on a terminal.
pub fn refuse_terminal(format: Format, target: Option<&Path>) -> Result<(), Failure> {
    if target.is_none() && format.is_columnar() && io::stdout().is_terminal() {
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

/// Opens the file, or standard output.
pub fn open(target: Option<&Path>) -> Result<Box<dyn Write + Send>, Failure> {
    Ok(match target {
        Some(path) => {
            let file = File::create(path).map_err(|e| Failure::new(format!("{}: {e}", path.display())))?;
            Box::new(BufWriter::with_capacity(1 << 16, file))
        }
        None => Box::new(BufWriter::with_capacity(1 << 16, io::stdout())),
    })
}

/// Rejects an output that is also an input under any name: writing would destroy it.
pub fn refuse_input(output: &Path, input: &Input) -> Result<(), Failure> {
    let Some(target) = identity(output) else { return Ok(()) };
    let captures = input.read.iter().map(|name| match name.to_str() {
        Some("-") => Path::new(STDIN),
        _ => Path::new(name),
    });
    let stacks = input.program.stack.iter().map(Path::new);
    match captures.chain(stacks).any(|path| identity(path) == Some(target)) {
        true => Err(Failure::new(format!("{} is an input file: write to another file", output.display()))),
        false => Ok(()),
    }
}

/// Checks that a file can be written, without changing it.
pub fn check(path: &Path) -> Result<(), Failure> {
    let tried = match (is_directory(path), path.exists(), identity(path)) {
        (true, ..) => return check_directory(path),
        (_, true, None) => Ok(()),
        (_, true, _) => OpenOptions::new().append(true).open(path).map(drop),
        (_, false, _) => File::create_new(path).and_then(|_| std::fs::remove_file(path)),
    };
    tried.map_err(|e| Failure::new(format!("{}: {e}", path.display())))
}

/// Checks that a file can be created in a directory, or in its nearest existing ancestor; nothing remains.
pub fn check_directory(path: &Path) -> Result<(), Failure> {
    let tried = std::path::absolute(path).and_then(|path| {
        let there = path.ancestors().find(|path| path.exists()).unwrap_or(&path);
        let tried = there.join(format!(".weir-{}", std::process::id()));
        File::create_new(&tried).and_then(|_| std::fs::remove_file(&tried))
    });
    tried.map_err(|e| Failure::new(format!("{}: {e}", path.display())))
}

/// A file or directory that is written to, by whatever path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileId {
    /// Device and inode of an existing one.
    Inode(u64, u64),
    /// The absolute path of one that does not exist yet.
    Path(PathBuf),
}

/// What a path leads to. `None` for special files (a terminal, `/dev/null`), which several may write to.
pub fn file_id(path: &Path) -> Option<FileId> {
    match std::fs::metadata(path) {
        Ok(about) if about.is_file() || about.is_dir() => Some(FileId::Inode(about.dev(), about.ino())),
        Ok(_) => None,
        Err(_) => std::path::absolute(path).ok().map(FileId::Path),
    }
}

/// Standard input by path: a regular file if it is redirected from one.
const STDIN: &str = "/dev/stdin";

/// Device and inode of a regular file, after resolving links. `None` for special files (a terminal, `/dev/null`), which
/// writing does not destroy.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let about = std::fs::metadata(path).ok().filter(|about| about.is_file())?;
    Some((about.dev(), about.ino()))
}
