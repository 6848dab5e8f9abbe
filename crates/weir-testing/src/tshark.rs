//! Compares the command `weir` with tshark over captures: the bytes of connections ([`follow`]) and the
//! contents of files ([`objects`]). Where tshark, or Python for mails, is not installed, nothing is compared.
//! [`KNOWN`] has the reason for every difference over the shared captures; `docs/conformance.md` counts them.

mod follow;
mod known;
mod objects;

pub use follow::follow;
pub use known::{KNOWN, Known, known};
pub use objects::{ObjectKind, objects};

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The result of a comparison.
#[derive(Debug, Default)]
pub struct Compared {
    /// Number of equal streams or objects.
    pub equal: usize,
    /// Number of streams that were not compared, because bytes are missing.
    pub with_gaps: usize,
    /// The others, described.
    pub different: Vec<String>,
}

impl Compared {
    /// Adds another result.
    pub fn add(&mut self, other: Compared) {
        self.equal += other.equal;
        self.with_gaps += other.with_gaps;
        self.different.extend(other.different);
    }
}

/// The captures in a folder and its folders, sorted.
pub fn captures(folder: &Path) -> Vec<PathBuf> {
    const ENDINGS: [&str; 5] = [".pcap", ".pcapng", ".cap", ".pcap.gz", ".pcapng.gz"];
    let (mut found, mut open) = (vec![], vec![folder.to_path_buf()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(entry.path()),
                Ok(kind) if kind.is_file() && ENDINGS.iter().any(|ending| name.ends_with(ending)) => {
                    found.push(entry.path());
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// The standard output of a program, whatever its status; `None` if the program is not installed.
fn said(program: impl AsRef<OsStr>, args: &[&OsStr]) -> Option<Vec<u8>> {
    let mut command = Command::new(program);
    let output = command.args(args).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    Some(output.stdout)
}

/// The rows of a question of `weir` over a capture: these columns. Only values of the last one may have
/// commas.
fn rows<const N: usize>(
    weir: &Path,
    capture: &Path,
    question: [&str; 2],
    columns: [&str; N],
    more: &[&OsStr],
) -> Option<Vec<[String; N]>> {
    let (ask, filter, columns) = (question[0], question[1], columns.join(","));
    let given = ["--idle-timeout", "0", "--format", "csv", "--columns", &columns, "-q"];
    let given = given.iter().map(OsStr::new).chain(more.iter().copied());
    let args: Vec<&OsStr> =
        [OsStr::new(ask), capture.as_os_str(), OsStr::new("--filter"), OsStr::new(filter)]
            .into_iter()
            .chain(given)
            .collect();
    let text = String::from_utf8_lossy(&said(weir, &args)?).into_owned();
    let row = |line: &str| {
        let values: Vec<String> =
            line.splitn(N, ',').map(|value| value.trim_matches('"').to_string()).collect();
        <[String; N]>::try_from(values).ok()
    };
    Some(text.lines().skip(1).filter_map(row).collect())
}

/// The bytes of hexadecimal digits; other characters are skipped.
fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks_exact(2).map(|two| two[0] << 4 | two[1]).collect()
}
