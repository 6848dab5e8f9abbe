//! The names of inputs: files, patterns, directories and connections.

use crate::messages::Failure;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use weir::io::Compression;
use weir::io::tcp::Endpoint;

/// File name extensions of captures: such a word is treated as a file even if the file does not exist.
pub const CAPTURE_ENDINGS: [&str; 6] = ["pcap", "pcapng", "cap", "gz", "zst", "lz4"];

/// Whether a word is a file name: the file exists, or the word looks like the name of a capture or a
/// connection.
pub fn names_file(word: &OsStr) -> bool {
    let path = Path::new(word);
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    let text = word.to_string_lossy();
    word == "-"
        || Endpoint::is_named(path)
        || path.exists() && (!path.is_dir() || text.contains('/') || !is_filter(&text))
        || CAPTURE_ENDINGS.contains(&&*ending)
        || is_pattern(&text)
}

/// Whether a word is a pattern of the names of files: `traces/*`.
///
/// Filters have such characters, too: a pattern has no operators, and names a file or looks like one.
fn is_pattern(word: &str) -> bool {
    let has_operators = word.contains([' ', '"', '\'', '=', '<', '>', '~', '&', '|', '!', '(', '{']);
    word.contains(['*', '?', '['])
        && !has_operators
        && !Path::new(word).exists()
        && (word.contains('/') || glob::glob(word).is_ok_and(|mut files| files.next().is_some()))
}

/// The captures that words name: files, those in a directory, and those with names of a pattern that the
/// shell did not expand. The files of a directory or pattern come in the order of their names.
pub fn expand(words: &[OsString]) -> Result<Vec<OsString>, Failure> {
    let mut files = vec![];
    for word in words {
        let (path, text) = (Path::new(word), word.to_string_lossy());
        let before = files.len();
        if word == "-" || Endpoint::is_named(path) {
            files.push(word.clone());
        } else if path.is_dir() {
            let entries = path.read_dir().and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
            let entries = entries.map_err(|e| Failure::new(format!("{}: {e}", path.display())))?;
            let all = entries.into_iter().map(|entry| entry.path());
            files.extend(all.filter(|file| file.is_file() && is_capture(file)).map(OsString::from));
            files[before..].sort();
            if files.len() == before {
                let message = format!(
                    "{} has no captures: files whose names end with .pcap, .pcapng or .cap, which may be \
                     followed by a number (tcpdump -C) or by .gz, .zst or .lz4",
                    path.display()
                );
                return Err(Failure::new(message));
            }
        } else if is_pattern(&text) {
            let all = glob::glob(&text).map_err(|e| Failure::new(format!("{text}: {e}")))?;
            files.extend(all.flatten().filter(|file| file.is_file()).map(OsString::from));
            if files.len() == before {
                return Err(Failure::new(format!("{text}: no file has such a name")));
            }
        } else {
            files.push(word.clone());
        }
    }
    Ok(files)
}

/// Whether the name of a file is that of a capture, which may be compressed, or be one of a sequence.
fn is_capture(path: &Path) -> bool {
    let plain = Compression::stripped(path);
    let ending = plain.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let ending = ending.trim_end_matches(|c: char| c.is_ascii_digit()).to_ascii_lowercase();
    CAPTURE_ENDINGS[..3].contains(&&*ending)
}

/// Whether an input has this name: a file that exists, standard input, or a connection.
pub fn names_input(word: &OsStr) -> bool {
    let path = Path::new(word);
    word == "-" || Endpoint::is_named(path) || path.exists()
}

/// Whether the default stack knows a filter.
pub fn is_filter(word: &str) -> bool {
    weir::Compiler::default().check_filter(word, false).is_ok()
}
