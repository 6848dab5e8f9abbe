//! `weir files --extract` and `tshark --export-objects`: each object of tshark is a content of Weir. Parts of
//! tshark's mails are read by Python's `email`, because Weir extracts decoded parts.

use super::{Compared, rows, said, unhex};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// A type of objects that tshark exports and Weir extracts. Of the others, Weir has no contents (`dicom`,
/// `tftp`, `ftp-data`), or tshark finds none in the captures (`smb`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// Bodies of HTTP.
    Http,
    /// Mails.
    Imf,
}

impl ObjectKind {
    /// All types.
    pub const ALL: [ObjectKind; 2] = [ObjectKind::Http, ObjectKind::Imf];

    /// tshark's name.
    pub fn name(self) -> &'static str {
        match self {
            ObjectKind::Http => "http",
            ObjectKind::Imf => "imf",
        }
    }

    /// What tshark exports without being a content: nothing, the preface of HTTP/2, continuation requests of
    /// IMAP.
    fn is_content(self, object: &[u8]) -> bool {
        match self {
            ObjectKind::Http => !object.is_empty() && !object.starts_with(b"PRI * HTTP/2.0"),
            ObjectKind::Imf => !object.starts_with(b"+ "),
        }
    }
}

/// Prints the decoded parts of a mail, a line of hexadecimal digits each.
const PARTS_OF_A_MAIL: &str = "
import email, sys
for part in email.message_from_bytes(open(sys.argv[1], 'rb').read()).walk():
    if not part.is_multipart():
        print((part.get_payload(decode=True) or b'').hex())
";

/// Compares the objects of a capture; both programs write to folders in `scratch`, which is emptied. `None`:
/// tshark, or Python for mails, is not installed.
pub fn objects(weir: &Path, capture: &Path, kind: ObjectKind, scratch: &Path) -> Option<Compared> {
    let [theirs, ours] = ["tshark", "weir"].map(|name| scratch.join(name));
    for folder in [&theirs, &ours] {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).ok()?;
    }
    let mut compared = Compared::default();
    let export = format!("{},{}", kind.name(), theirs.display());
    let args = [OsStr::new("-Q"), OsStr::new("-r"), capture.as_os_str(), OsStr::new("--export-objects")];
    said("tshark", &[&args, &[OsStr::new(&export)][..]].concat())?;
    let exported = listing(&theirs);
    if exported.is_empty() {
        return Some(compared);
    }
    let columns = ["extracted_cutoff", "extracted"];
    let rows = rows(weir, capture, ["files", ""], columns, &[OsStr::new("--extract"), ours.as_os_str()])?;
    let whole = rows.iter().filter(|[is_cut, path]| !path.is_empty() && !is_true(is_cut));
    let contents: BTreeSet<Vec<u8>> =
        whole.filter_map(|[_, path]| fs::read(path).ok()).map(|content| comparable(kind, content)).collect();
    for path in exported {
        let Ok(object) = fs::read(&path) else { continue };
        if !kind.is_content(&object) {
            continue;
        }
        for part in parts(kind, &path, object)? {
            let bytes = part.len();
            match contents.contains(&comparable(kind, part)) {
                true => compared.equal += 1,
                false if bytes == 0 => {}
                false => {
                    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    compared.different.push(format!("{name}, {bytes} bytes"));
                }
            }
        }
    }
    Some(compared)
}

/// The contents in an object.
fn parts(kind: ObjectKind, path: &Path, object: Vec<u8>) -> Option<Vec<Vec<u8>>> {
    if kind == ObjectKind::Http {
        return Some(vec![object]);
    }
    let lines = said("python3", &[OsStr::new("-c"), OsStr::new(PARTS_OF_A_MAIL), path.as_os_str()])?;
    let lines = String::from_utf8_lossy(&lines).into_owned();
    Some(lines.lines().map(unhex).collect())
}

/// The line end at the end of a text of a mail belongs to the boundary for Weir, and to the text for Python.
fn comparable(kind: ObjectKind, mut content: Vec<u8>) -> Vec<u8> {
    while kind == ObjectKind::Imf && content.last().is_some_and(|byte| b"\r\n".contains(byte)) {
        content.pop();
    }
    content
}

fn is_true(text: &str) -> bool {
    matches!(text, "true" | "T")
}

/// The files in a folder, sorted.
fn listing(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
