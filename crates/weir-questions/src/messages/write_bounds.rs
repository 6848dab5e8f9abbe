//! Where the sandbox permits this process to write, for messages.

use std::path::PathBuf;
use std::sync::OnceLock;

/// Unset: everywhere.
static WRITABLE: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// The process may write only here from now on. The first call counts: a sandbox is never left.
pub fn set(writable: &[PathBuf]) {
    let _ = WRITABLE.set(writable.to_vec());
}

/// What to do if a file cannot be written; empty if this process may write everywhere.
pub fn remedy() -> String {
    let Some(places) = WRITABLE.get() else { return String::new() };
    let places: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
    let only =
        if places.is_empty() { "no files".to_string() } else { format!("only to {}", places.join(", ")) };
    format!(": this run writes {only}: start it with --write-to DIR, or --no-sandbox")
}
