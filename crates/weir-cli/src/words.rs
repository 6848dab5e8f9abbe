//! The words of a command line that are no options: capture files, and a filter.

use clap::Args as ClapArgs;
use std::ffi::OsString;
use weir_questions::messages::Failure;
use weir_questions::source::file_names::{CAPTURE_ENDINGS, expand, is_filter, names_file};

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

/// Whether the name of a file could also be a whole filter: `http`, `tcp.syn`.
fn is_like_filter(word: &str) -> bool {
    let is_name = word.starts_with(|c: char| c.is_ascii_lowercase())
        && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.'));
    let ending = word.rsplit_once('.').map_or("", |(_, ending)| ending);
    is_name && !CAPTURE_ENDINGS.contains(&ending) && is_filter(word)
}
