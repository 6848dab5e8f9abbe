//! The dumps of a recorder, for those who list them: those of this run, and the files of earlier ones.

use std::collections::{HashMap, VecDeque};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Dumps of this run that are remembered; of others, only their files are known.
const KNOWN_MAX: usize = 20_000;
/// Files of a directory that are listed, the newest ones.
pub const LISTED_MAX: usize = 1000;
/// The end of the names of files.
const END: &str = ".pcapng";
/// Behind the name of a file that is being written.
const PART: &str = ".part";
/// Bytes of a file in which its comment is.
const HEAD_BYTES: usize = 1024;

/// How far a dump is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpState {
    /// Packets are written.
    Begun,
    /// All packets are in the file.
    Complete,
    /// Packets are missing: the dump was interrupted, or the disk had no room.
    Incomplete,
}

impl DumpState {
    /// The name for other programs.
    pub fn label(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Complete => "complete",
            Self::Incomplete => "incomplete",
        }
    }
}

/// A dump.
#[derive(Debug, Clone)]
pub struct ListedDump {
    /// The name of its file, when it is complete.
    pub file: String,
    /// The name by which it ends: the identifier of a connection, or the name of the file.
    pub name: String,
    pub state: DumpState,
    /// Packets in the file. `None`: the dump is of an earlier run.
    pub packets: Option<u64>,
    /// Bytes of the file.
    pub bytes: u64,
    /// Why there is the dump.
    pub reason: String,
}

/// What happens to dumps.
pub enum DumpEvent<'a> {
    /// A connection matches a trigger.
    Matched { trigger: &'a str, uid: &'a str },
    /// A dump begins or ends.
    Changed(&'a ListedDump),
}

/// Is told of events. Called by the threads of the run: must not wait.
type Hear = Box<dyn Fn(DumpEvent<'_>) + Send + Sync>;

/// The dumps of this run.
#[derive(Default)]
pub struct DumpList {
    known: Mutex<VecDeque<ListedDump>>,
    hear: OnceLock<Hear>,
}

/// The number of dumps in a directory, complete or not, and their bytes.
pub fn volume(directory: &Path) -> (u64, u64) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let dumps = entries.filter(|entry| {
        let file = file_name(&entry.path());
        file.ends_with(END) || file.strip_suffix(PART).is_some_and(|file| file.ends_with(END))
    });
    let bytes = dumps
        .filter_map(|entry| fs::symlink_metadata(entry.path()).ok().filter(fs::Metadata::is_file))
        .map(|about| about.len());
    bytes.fold((0, 0), |(files, all), bytes| (files + 1, all + bytes))
}

impl DumpList {
    /// Tells `hear` of events from now on. Only one listener is possible.
    pub fn tell(&self, hear: Hear) {
        let _ = self.hear.set(hear);
    }

    /// A connection matches a trigger.
    pub fn matched(&self, trigger: &str, uid: &str) {
        self.hear.get().iter().for_each(|hear| hear(DumpEvent::Matched { trigger, uid }));
    }

    /// A dump has begun.
    pub fn begun(&self, path: &Path, name: &str, reason: &str) {
        let file = file_name(path);
        let state = DumpState::Begun;
        let dump =
            ListedDump { file, name: name.into(), state, packets: Some(0), bytes: 0, reason: reason.into() };
        self.hear.get().iter().for_each(|hear| hear(DumpEvent::Changed(&dump)));
        let mut known = self.lock();
        known.retain(|other| other.file != dump.file);
        if known.len() >= KNOWN_MAX {
            known.pop_front();
        }
        known.push_back(dump);
    }

    /// A dump has this number of packets.
    pub fn wrote(&self, path: &Path, packets: u64) {
        self.change(path, |dump| dump.packets = Some(packets));
    }

    /// A dump is over.
    pub fn ended(&self, path: &Path, is_complete: bool) {
        let state = if is_complete { DumpState::Complete } else { DumpState::Incomplete };
        let ended = self.change(path, |dump| dump.state = state);
        if let (Some(dump), Some(hear)) = (ended, self.hear.get()) {
            hear(DumpEvent::Changed(&dump));
        }
    }

    /// The newest dumps in a directory, the newest one first.
    pub fn all(&self, directory: &Path) -> Vec<ListedDump> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut found: Vec<(String, PathBuf, u64)> = vec![];
        for entry in entries {
            let path = entry.path();
            let file = file_name(&path);
            if file.ends_with(END)
                && let Ok(about) = fs::symlink_metadata(entry.path())
                && about.is_file()
            {
                found.push((file, path, about.len()));
            }
        }
        found.sort_by(|one, other| other.0.cmp(&one.0));
        found.truncate(LISTED_MAX);
        let known = self.lock();
        let known: HashMap<&str, &ListedDump> = known.iter().map(|dump| (dump.file.as_str(), dump)).collect();
        let listed = |(file, path, bytes): (String, PathBuf, u64)| match known.get(file.as_str()) {
            Some(&dump) => ListedDump { bytes, ..dump.clone() },
            None => {
                let is_part = path.extension().is_some_and(|end| end == &PART[1..]);
                let state = if is_part { DumpState::Incomplete } else { DumpState::Complete };
                let reason = comment_of(&path).unwrap_or_default();
                ListedDump { name: file.clone(), file, state, packets: None, bytes, reason }
            }
        };
        found.into_iter().map(listed).collect()
    }

    fn change(&self, path: &Path, change: impl FnOnce(&mut ListedDump)) -> Option<ListedDump> {
        let file = file_name(path);
        let mut known = self.lock();
        let dump = known.iter_mut().rev().find(|dump| dump.file == file)?;
        change(dump);
        Some(dump.clone())
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<ListedDump>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of a dump's file, when it is complete.
fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(PART).unwrap_or(&name).to_string()
}

/// The files of a dump in a directory: the complete one, or the one that is being written. `None`: the name
/// is no name of a dump.
pub fn file_of(directory: &Path, name: &str) -> Option<PathBuf> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if !name.ends_with(END) || name.starts_with('.') || !name.chars().all(is_plain) {
        return None;
    }
    let (complete, part) = (directory.join(name), directory.join(format!("{name}{PART}")));
    [complete, part].into_iter().find(|path| path.symlink_metadata().is_ok_and(|about| about.is_file()))
}

/// The comment of a pcapng file: the option 1 of its first block, the Section Header Block
/// (draft-ietf-opsawg-pcapng, section 4.1).
fn comment_of(path: &Path) -> Option<String> {
    const OPTIONS: usize = 24;
    let mut head = vec![];
    File::open(path).ok()?.take(HEAD_BYTES as u64).read_to_end(&mut head).ok()?;
    let total = u32::from_le_bytes(*head.get(4..8)?.first_chunk()?) as usize;
    let mut rest = head.get(OPTIONS..total.min(head.len()).saturating_sub(4))?;
    while let Some((code, after)) = rest.split_first_chunk::<2>() {
        let (length, after) = after.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_le_bytes(*length));
        let value = after.get(..length.min(after.len()))?;
        match u16::from_le_bytes(*code) {
            0 => return None,
            1 => return Some(String::from_utf8_lossy(value).into_owned()),
            _ => rest = after.get(length.next_multiple_of(4)..)?,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_directory_have_names() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("a.pcapng"), "x").expect("a file");
        fs::write(directory.path().join("b.pcapng.part"), "x").expect("a file");
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("c.pcapng")).expect("a link");
        let found = |name| file_of(directory.path(), name).is_some();
        assert!(found("a.pcapng") && found("b.pcapng"));
        for name in
            ["", "c.pcapng", "d.pcapng", "../a.pcapng", "/etc/passwd", ".pcapng", "a", "b.pcapng.part"]
        {
            assert!(!found(name), "{name}");
        }
    }

    #[test]
    fn dumps_of_earlier_runs_have_their_reason() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("2026-11-26-x.pcapng");
        let file = File::create(&path).expect("a file");
        let mut writer = weir::io::PcapngWriter::new(file).with_comment("weir: because");
        writer.begin().expect("a disk");
        writer.finish().expect("a disk");
        let list = DumpList::default();
        let seen = list.all(directory.path());
        assert_eq!((seen.len(), seen[0].reason.as_str(), seen[0].packets), (1, "weir: because", None));
        list.begun(&path.with_extension("pcapng.part"), "x", "again");
        list.wrote(&path, 7);
        list.ended(&path, true);
        let seen = list.all(directory.path());
        assert_eq!(
            (seen[0].reason.as_str(), seen[0].packets, seen[0].state),
            ("again", Some(7), DumpState::Complete)
        );
    }
}
