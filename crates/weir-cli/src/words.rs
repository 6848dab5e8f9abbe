//! The words of a command line that are no options: capture files, and a filter.

use crate::failure::Failure;
use clap::Args as ClapArgs;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use weir::io::Compression;
use weir::io::tcp::Endpoint;

/// File name extensions of captures: such a word is treated as a file even if the file does not exist.
const CAPTURE_ENDINGS: [&str; 6] = ["pcap", "pcapng", "cap", "gz", "zst", "lz4"];

/// Capture files and a filter, in any order.
#[derive(ClapArgs, Clone)]
pub struct Words {
    /// Capture files, and a filter. Default: all traffic
    #[arg(value_name = "FILE|FILTER")]
    words: Vec<OsString>,
    /// The filter, if a file has the same name
    #[arg(short = 'Y', long, value_name = "FILTER")]
    filter: Option<String>,
}

impl Words {
    /// Removes and returns the first word that names no file, also of those after `-r`.
    pub fn take_first(&mut self, read: &mut Vec<OsString>) -> Option<String> {
        let list = if self.words.iter().any(|word| !names_file(word)) { &mut self.words } else { read };
        let at = list.iter().position(|word| !names_file(word))?;
        Some(list.remove(at).to_string_lossy().into_owned())
    }

    /// Adds the files to those of `-r`, and returns the filter.
    ///
    /// # Errors
    /// Several words may be the filter, or a word may be a file and the filter.
    pub fn settle(&self, files: &mut Vec<OsString>) -> Result<String, Failure> {
        let mut filter = self.filter.clone();
        let mut filters: Vec<&OsString> = vec![];
        for word in &self.words {
            match names_file(word) {
                true => files.push(word.clone()),
                false => filters.push(word),
            }
        }
        // `-r` takes all following words, so in `-r a.pcap b.pcap tcp` it also takes the filter.
        let read = files.clone();
        if filters.is_empty() && filter.is_none() && read.len() > 1 {
            let place = read.iter().rposition(|word| !names_file(word));
            place.iter().for_each(|&place| drop(files.remove(place)));
            filters.extend(place.map(|place| &read[place]));
        }
        let words: Vec<String> = filters.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        match (&words[..], &filter) {
            ([], _) => {}
            ([word], None) => filter = Some(word.clone()),
            ([word, ..], Some(filter)) => {
                return Err(Failure::new(format!(
                    "two filters: `{filter}` and `{word}`. Join them: --filter '({filter}) and ({word})'"
                )));
            }
            (several, None) => {
                let joined = several.join(" ");
                return Err(Failure::new(format!(
                    "a filter is one argument: quote it, as in '{joined}'. (No file has the name of one of these words.)"
                )));
            }
        }
        *files = expand(files)?;
        if filter.is_none()
            && files.len() > 1
            && let Some(word) =
                files.iter().filter_map(|word| word.to_str()).find(|word| is_like_filter(word))
        {
            return Err(Failure::new(format!(
                "`{word}` is a file, and may be a filter: write ./{word} for the file, or --filter {word}"
            )));
        }
        Ok(filter.unwrap_or_default())
    }
}

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

/// Whether the name of a file could also be a whole filter: `http`, `tcp.syn`.
fn is_like_filter(word: &str) -> bool {
    let is_name = word.starts_with(|c: char| c.is_ascii_lowercase())
        && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.'));
    let ending = word.rsplit_once('.').map_or("", |(_, ending)| ending);
    is_name && !CAPTURE_ENDINGS.contains(&ending) && is_filter(word)
}

/// Whether the default stack knows a filter.
fn is_filter(word: &str) -> bool {
    weir::Compiler::default().check_filter(word, false).is_ok()
}
