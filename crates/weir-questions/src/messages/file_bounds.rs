//! Where the sandbox permits this process to read and to write, for messages.

use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Unset: everywhere.
static WRITABLE: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// The process may write only here from now on, and read little more. The first call counts: a sandbox is
/// never left.
pub fn set(writable: &[PathBuf]) {
    let _ = WRITABLE.set(writable.to_vec());
}

/// What to do if a file cannot be written; empty if this process may write everywhere.
pub fn remedy_of_writing() -> String {
    let Some(places) = WRITABLE.get() else { return String::new() };
    let places: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
    let only =
        if places.is_empty() { "no files".to_string() } else { format!("only to {}", places.join(", ")) };
    format!(": this run writes {only}: start it with --write-to DIR, or --no-sandbox")
}

/// What to do if a file cannot be read for this reason; empty if this process may read everywhere.
pub fn remedy_of_reading(error: &io::Error) -> &'static str {
    match error.kind() == io::ErrorKind::PermissionDenied && WRITABLE.get().is_some() {
        true => {
            ": this run reads only its captures, and beside the files of its questions: start it with --read-from DIR, or --no-sandbox"
        }
        false => "",
    }
}
