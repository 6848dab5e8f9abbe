//! The order of files: files wait for the time of their first packet.
//!
//! Captures of two taps of one link overlap in time. If they were read one after the other, the answers in
//! the second would come minutes after their requests, and rows would be wrong without a warning.

use super::CaptureReader;
use super::input::Pending;
use crate::tcp::Endpoint;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use weir_packet::{Burst, Source, Timestamp};

/// The turn of a file: the time of its next packet; at equal times, the file named first.
pub(crate) type Turn = (Timestamp, usize);

/// Bytes read at a time to find a file's first packet.
const LOOK_BYTES: usize = 4 << 10;

/// The files that have not been opened.
pub(crate) struct Waiting {
    files: VecDeque<(Turn, Pending)>,
    is_sorted: bool,
    /// Whether the next file is due but could not be opened.
    is_late: bool,
    /// Number of files that were due but could not be opened.
    pub late: u64,
}

impl Waiting {
    /// All of these files, in the order named.
    pub fn of(files: Vec<Pending>) -> Self {
        let unknown = |(place, pending)| ((Timestamp(i64::MIN), place), pending);
        Self {
            files: files.into_iter().enumerate().map(unknown).collect(),
            is_sorted: false,
            is_late: false,
            late: 0,
        }
    }

    /// Lets the last file grow, and all recorders. Returns the path of the file; `None` if it is no file.
    pub fn follow_last(&mut self) -> Option<PathBuf> {
        for (_, pending) in self.files.iter_mut().filter(|(_, pending)| Endpoint::is_recorder(&pending.path))
        {
            pending.grows = true;
        }
        let (_, last) = self.files.back_mut()?;
        if !last.is_file() {
            return None;
        }
        last.grows = true;
        Some(last.path.clone())
    }

    /// Removes and returns the TCP connections, each with its index among all.
    pub fn take_connections(&mut self) -> Vec<(usize, Pending)> {
        let all = std::mem::take(&mut self.files);
        let (connections, files) = all.into_iter().partition(|(_, pending)| pending.is_connection());
        self.files = files;
        let connections: VecDeque<(Turn, Pending)> = connections;
        connections.into_iter().map(|((_, place), pending)| (place, pending)).collect()
    }

    /// The inputs that were not opened, in the order named if they are not sorted yet.
    pub fn pending(&self) -> impl Iterator<Item = (usize, &Pending)> {
        self.files.iter().map(|((_, place), pending)| (*place, pending))
    }

    /// As [`pending`](Self::pending).
    pub fn pending_mut(&mut self) -> impl Iterator<Item = &mut Pending> {
        self.files.iter_mut().map(|(_, pending)| pending)
    }

    /// Adds a file behind all others.
    pub fn add(&mut self, pending: Pending) {
        self.files.push_back(((Timestamp(i64::MIN), usize::MAX), pending));
    }

    /// Sorts the files by their first packets. Files that cannot be read twice (pipes), and files without
    /// packets, come first. Only the first call has an effect, and only with several files.
    pub fn sort(&mut self) {
        if std::mem::replace(&mut self.is_sorted, true) || self.files.len() < 2 {
            return;
        }
        for ((time, _), pending) in &mut self.files {
            match first_time_of(pending) {
                // The end of a growing file is not known, so it comes last.
                _ if pending.grows => *time = Timestamp(i64::MAX),
                Some(first) => *time = first,
                None => {}
            }
        }
        self.files.make_contiguous().sort_by_key(|(turn, _)| *turn);
    }

    /// The turn of the next file.
    pub fn turn(&self) -> Option<Turn> {
        self.files.front().map(|(turn, _)| *turn)
    }

    /// Whether the next file's turn is before `next`, or no other file has a turn.
    pub fn is_due(&self, next: Option<Turn>) -> bool {
        self.turn().is_some_and(|turn| next.is_none_or(|next| turn < next))
    }

    /// Records that the next file is due and cannot be opened.
    pub fn note_late(&mut self) {
        self.late += u64::from(!std::mem::replace(&mut self.is_late, true));
    }

    /// Removes and returns the next file, and its index among all.
    pub fn take(&mut self) -> Option<(Pending, usize)> {
        self.is_late = false;
        self.files.pop_front().map(|((_, place), pending)| (pending, place))
    }
}

/// The time of a file's first packet. Errors of the file are reported when it is read.
fn first_time_of(pending: &Pending) -> Option<Timestamp> {
    if !pending.is_file() || pending.grows {
        return None;
    }
    let mut burst = Burst::default();
    let found = CaptureReader::open(&[&pending.path]).with_block_bytes(LOOK_BYTES).poll(&mut burst);
    found.ok().and_then(|_| burst.packets.first().map(|packet| packet.time))
}

/// The time of the earliest first packet of these files. `None` if an input is no file, or no file has
/// packets.
pub fn first_time<P: AsRef<Path>>(paths: &[P]) -> Option<Timestamp> {
    let pending = |path: &P| Pending { path: path.as_ref().to_owned(), reader: None, grows: false };
    let pending: Vec<Pending> = paths.iter().map(pending).collect();
    let are_files = pending.iter().all(Pending::is_file);
    if are_files { pending.iter().filter_map(first_time_of).min() } else { None }
}
