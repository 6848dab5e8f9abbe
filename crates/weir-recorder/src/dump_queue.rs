//! Which dumps are written next.
//!
//! Dumps that begin at about the same time are a batch: one reader and one program have the packets of all of
//! them. New dumps come before everything else, because their files begin with them.

use crate::copy_packets::Room;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir::io::PcapngWriter;
use weir::io::ring::{Reader, Selection};
use weir::packet::Timestamp;

/// Dumps of a batch.
const BATCH_MAX: usize = 64;

/// What is dumped.
#[derive(Debug, Clone)]
pub struct DumpParams {
    /// The name of the dump: one at a time has a name.
    pub name: String,
    /// The packets.
    pub filter: String,
    /// The first time.
    pub from: Timestamp,
    /// Why, for the comment of the file.
    pub reason: String,
}

/// A dump with a file.
pub struct Dump {
    pub params: DumpParams,
    pub path: PathBuf,
    pub writer: PcapngWriter<File>,
    pub packets: u64,
    /// When a part had packets last.
    pub grew: Instant,
    pub room: Room,
    /// A part could not be written: packets are missing.
    pub has_failed: bool,
}

/// Dumps with one reader.
pub struct Batch {
    pub dumps: Vec<Dump>,
    pub reader: Arc<Mutex<Reader>>,
    pub selection: Arc<Selection>,
    /// Packets that the reader has lost so far.
    pub lost: u64,
}

/// What a thread does next.
pub enum Work {
    /// New dumps become a batch.
    New(Vec<DumpParams>),
    /// The next part of a batch.
    Part(Batch),
    /// Nothing, for this time.
    Wait(Option<Duration>),
    /// Nothing any more.
    End,
}

/// When the next part of a batch is due, and a number.
type Place = (Instant, u64);

/// What is known of a dump by name.
struct Named {
    /// The dump ends with the first part after this time.
    until: Option<Instant>,
    /// Nobody will say when its packets have all come.
    is_left: bool,
    /// The place of its batch among those that wait; `None`: a thread works at it.
    place: Option<Place>,
}

/// The dumps that go on.
#[derive(Default)]
pub struct DumpQueue {
    /// Dumps without a file.
    new: VecDeque<DumpParams>,
    /// Batches that no thread works at, by the time of their next part.
    waiting: BTreeMap<Place, Batch>,
    /// All dumps by name.
    names: HashMap<String, Named>,
    /// Batches that were put into `waiting` so far.
    placed: u64,
    pub has_ended: bool,
}

impl DumpQueue {
    /// Number of dumps that go on.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// A dump of this name is to end no earlier than at `until`; `None`: not by itself. Returns `false` if no
    /// such dump goes on.
    pub fn extend(&mut self, name: &str, until: Option<Instant>) -> bool {
        let Some(Named { until: known, is_left, .. }) = self.names.get_mut(name) else { return false };
        if known.is_some_and(|known| until.is_none_or(|until| until > known)) {
            *known = until;
        }
        *is_left = false;
        true
    }

    /// Adds a dump, whose name no other one has.
    pub fn push(&mut self, params: DumpParams, until: Option<Instant>) {
        self.names.insert(params.name.clone(), Named { until, is_left: false, place: None });
        self.new.push_back(params);
    }

    /// A dump ends with its next part, which is due now.
    pub fn end(&mut self, name: &str) {
        let now = Instant::now();
        let Some(named) = self.names.get_mut(name) else { return };
        named.until = Some(now);
        if let Some(place) = named.place.take()
            && let Some(batch) = self.waiting.remove(&place)
        {
            self.put(batch, now);
        }
    }

    /// Whoever asked for a dump is gone: the dump ends when its packets fall silent.
    pub fn leave(&mut self, name: &str) {
        if let Some(named) = self.names.get_mut(name) {
            named.is_left = true;
        }
    }

    /// Whether the dump ends when its packets fall silent.
    pub fn is_left(&self, name: &str) -> bool {
        self.names.get(name).is_some_and(|named| named.is_left)
    }

    /// A batch waits for its next part.
    pub fn put(&mut self, batch: Batch, due: Instant) {
        self.placed += 1;
        let place = (due, self.placed);
        for dump in &batch.dumps {
            if let Some(named) = self.names.get_mut(&dump.params.name) {
                named.place = Some(place);
            }
        }
        self.waiting.insert(place, batch);
    }

    /// When a dump is to end, as far as that is known.
    pub fn until(&self, name: &str) -> Option<Instant> {
        self.names.get(name).and_then(|named| named.until)
    }

    /// Whether a dump is to end with the part that is written now.
    pub fn is_over(&self, name: &str) -> bool {
        self.has_ended || self.until(name).is_some_and(|until| until <= Instant::now())
    }

    /// A dump is complete.
    pub fn remove(&mut self, name: &str) {
        self.names.remove(name);
    }

    /// The next work.
    pub fn next(&mut self) -> Work {
        if !self.new.is_empty() {
            let count = self.new.len().min(BATCH_MAX);
            return Work::New(self.new.drain(..count).collect());
        }
        let now = Instant::now();
        let due = self.waiting.first_key_value().map(|(&(due, _), _)| due);
        if due.is_some_and(|due| self.has_ended || due <= now)
            && let Some((_, batch)) = self.waiting.pop_first()
        {
            for dump in &batch.dumps {
                if let Some(named) = self.names.get_mut(&dump.params.name) {
                    named.place = None;
                }
            }
            return Work::Part(batch);
        }
        match self.has_ended {
            true => Work::End,
            false => Work::Wait(due.map(|due| due.saturating_duration_since(now))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(name: &str) -> DumpParams {
        DumpParams { name: name.into(), filter: String::new(), from: Timestamp(0), reason: String::new() }
    }

    #[test]
    fn a_dump_that_is_left_behind_ends_in_silence_unless_somebody_asks_for_more() {
        let mut queue = DumpQueue::default();
        let later = Instant::now().checked_add(Duration::from_secs(3600));
        ["left", "kept"].iter().for_each(|name| queue.push(params(name), later));
        queue.leave("left");
        queue.leave("unknown");
        assert_eq!(["left", "kept", "unknown"].map(|name| queue.is_left(name)), [true, false, false]);
        assert!(!queue.is_over("left"), "its packets may still come");
        assert!(queue.extend("left", later) && !queue.is_left("left"));
    }
}
