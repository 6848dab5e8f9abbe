//! Whose turn it is: files wait for the time of their first packet.
//!
//! Captures of two taps of one link overlap in time. Read one after the other, the answers of the second would come
//! minutes behind their questions, and rows be wrong without a word.

use super::CaptureReader;
use super::input::Pending;
use std::collections::VecDeque;
use weir_packet::{Burst, Source, Timestamp};

/// When a file's turn is: the time of its next packet; of two at the same time, the file that was named first.
pub(crate) type Turn = (Timestamp, usize);

/// Bytes read at a time to find a file's first packet.
const LOOK_BYTES: usize = 4 << 10;

/// The files that have not been opened.
pub(crate) struct Waiting {
    files: VecDeque<(Turn, Pending)>,
    is_sorted: bool,
    /// Whether the next one's turn has come, and nobody could open it.
    is_late: bool,
    /// Files of which that was so.
    pub late: u64,
}

impl Waiting {
    /// All of these, in the order named.
    pub fn of(files: Vec<Pending>) -> Self {
        let unknown = |(place, pending)| ((Timestamp(i64::MIN), place), pending);
        Self {
            files: files.into_iter().enumerate().map(unknown).collect(),
            is_sorted: false,
            is_late: false,
            late: 0,
        }
    }

    /// Puts them in the order of their first packets. Those that nobody can look into without taking from them (pipes),
    /// and those that have none, come first. Only the first call does something, and only where there are several.
    pub fn sort(&mut self) {
        if std::mem::replace(&mut self.is_sorted, true) || self.files.len() < 2 {
            return;
        }
        for ((time, _), pending) in &mut self.files {
            if let Some(first) = first_time(pending) {
                *time = first;
            }
        }
        self.files.make_contiguous().sort_by_key(|(turn, _)| *turn);
    }

    /// When the next one's turn is.
    pub fn turn(&self) -> Option<Turn> {
        self.files.front().map(|(turn, _)| *turn)
    }

    /// Whether the next one's turn is before `next`, or nobody else's is next.
    pub fn is_due(&self, next: Option<Turn>) -> bool {
        self.turn().is_some_and(|turn| next.is_none_or(|next| turn < next))
    }

    /// Takes note that the next one is due and can't be opened.
    pub fn note_late(&mut self) {
        self.late += u64::from(!std::mem::replace(&mut self.is_late, true));
    }

    /// The next one, and its place among all.
    pub fn take(&mut self) -> Option<(Pending, usize)> {
        self.is_late = false;
        self.files.pop_front().map(|((_, place), pending)| (pending, place))
    }
}

/// The time of a file's first packet. What is wrong with it is said when it is read.
fn first_time(pending: &Pending) -> Option<Timestamp> {
    if !pending.is_file() {
        return None;
    }
    let mut burst = Burst::default();
    let found = CaptureReader::open(&[&pending.path]).with_block_bytes(LOOK_BYTES).poll(&mut burst);
    found.ok().and_then(|_| burst.packets.first().map(|packet| packet.time))
}
