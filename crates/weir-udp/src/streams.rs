//! The datagrams of several senders: puts those of each stream in order, and counts those that are missing.
//!
//! A datagram that comes early waits for those before it: until 64 datagrams are between them, 20 ms have
//! passed, or 16 MiB of datagrams wait. Then those that have not come are given up.

use crate::counters::ArrivalCounts;
use crate::unpack::{Sink, Unpacker};
use crate::wire::Header;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// Streams at most. The one that was silent for the longest time makes room for another one.
const STREAMS_MAX: usize = 256;
/// A datagram waits while less than this number of datagrams are missing before it.
const WINDOW: u64 = 64;
/// A datagram waits for this time at most.
const WAIT: Duration = Duration::from_millis(20);
/// Bytes of datagrams that wait, of all streams.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// The streams of all senders to one port.
#[derive(Debug, Default)]
pub struct Streams {
    streams: HashMap<(u64, u32), Stream>,
    /// Bytes of datagrams that wait.
    waiting_bytes: usize,
    /// Datagrams so far.
    turn: u64,
}

#[derive(Debug)]
struct Stream {
    /// The number of the next datagram.
    next: u64,
    /// Which of the 64 datagrams before that were received: the lowest bit is the last one.
    seen: u64,
    /// Datagrams that came early.
    waiting: BTreeMap<u64, Box<[u8]>>,
    /// Since when datagrams wait.
    since: Option<Instant>,
    /// Datagrams before the next one are missing.
    is_after_gap: bool,
    unpacker: Unpacker,
    /// The end of the stream was delivered.
    is_over: bool,
    /// The turn of its last datagram.
    turn: u64,
}

impl Streams {
    /// Takes a datagram that arrived at `now`. The packets that are next in order go to `sink`.
    pub fn take(&mut self, datagram: &[u8], now: Instant, counts: &mut ArrivalCounts, sink: &mut Sink<'_>) {
        let Some((header, payload)) = Header::parse(datagram) else {
            counts.datagrams_invalid += 1;
            return;
        };
        self.turn += 1;
        self.make_room(&header, now, counts, sink);
        let key = (header.stream, header.instance);
        let stream = self.streams.entry(key).or_insert_with(|| Stream::begin(&header));
        stream.turn = self.turn;
        let early = header.sequence.checked_sub(stream.next);
        match early {
            None => stream.count_again(&header, counts),
            Some(0) => {
                stream.deliver(&header, payload, counts, sink);
                self.waiting_bytes -= stream.drain(now, counts, sink);
            }
            Some(_) if stream.waiting.contains_key(&header.sequence) => count_repeated(&header, counts),
            Some(_) => {
                self.waiting_bytes += datagram.len();
                stream.waiting.insert(header.sequence, datagram.into());
                stream.since.get_or_insert(now);
                let is_full = |bytes: usize| bytes > WAITING_BYTES_MAX;
                while stream.is_behind() || is_full(self.waiting_bytes) && !stream.waiting.is_empty() {
                    self.waiting_bytes -= stream.give_up(now, counts, sink);
                }
            }
        }
    }

    /// Whether datagrams wait for others: [`expire`](Self::expire) must be called soon.
    pub fn wait(&self) -> bool {
        self.waiting_bytes > 0
    }

    /// Gives up what has been waited for until `now`.
    pub fn expire(&mut self, now: Instant, counts: &mut ArrivalCounts, sink: &mut Sink<'_>) {
        if !self.wait() {
            return;
        }
        for stream in self.streams.values_mut() {
            while stream.since.is_some_and(|since| now.saturating_duration_since(since) >= WAIT) {
                self.waiting_bytes -= stream.give_up(now, counts, sink);
            }
        }
    }

    /// Forgets a stream if there are too many, and the datagram begins another one: one that has ended,
    /// otherwise the one that was silent for the longest time.
    fn make_room(&mut self, header: &Header, now: Instant, counts: &mut ArrivalCounts, sink: &mut Sink<'_>) {
        if self.streams.len() < STREAMS_MAX || self.streams.contains_key(&(header.stream, header.instance)) {
            return;
        }
        let order = |stream: &Stream| (!stream.is_over, stream.turn);
        let silent = self.streams.iter().min_by_key(|(_, stream)| order(stream)).map(|(key, _)| *key);
        if let Some(mut stream) = silent.and_then(|key| self.streams.remove(&key)) {
            while !stream.waiting.is_empty() {
                self.waiting_bytes -= stream.give_up(now, counts, sink);
            }
            stream.unpacker.end(counts);
            counts.streams_forgotten += u64::from(!stream.is_over);
        }
    }
}

impl Stream {
    /// A stream of which this is the first datagram. If it is among the first ones that were sent, those
    /// before it may still come.
    fn begin(header: &Header) -> Self {
        let is_new = header.sequence < WINDOW;
        Self {
            next: if is_new { 0 } else { header.sequence },
            seen: 0,
            waiting: BTreeMap::new(),
            since: None,
            is_after_gap: false,
            unpacker: Unpacker::new(is_new.then_some(0)),
            is_over: false,
            turn: 0,
        }
    }

    /// Counts a datagram whose turn has passed.
    fn count_again(&self, header: &Header, counts: &mut ArrivalCounts) {
        let before = self.next - 1 - header.sequence;
        match before < WINDOW && self.seen >> before & 1 != 0 {
            true => count_repeated(header, counts),
            false => counts.datagrams_late += 1,
        }
    }

    /// Takes the next datagram.
    fn deliver(&mut self, header: &Header, payload: &[u8], counts: &mut ArrivalCounts, sink: &mut Sink<'_>) {
        let is_after_gap = std::mem::take(&mut self.is_after_gap);
        self.unpacker.take((header, payload), is_after_gap, counts, sink);
        self.is_over = header.is_end;
        (self.next, self.seen) = (self.next.saturating_add(1), self.seen << 1 | 1);
    }

    /// Takes the datagrams that have waited for the ones before. Returns their bytes.
    fn drain(&mut self, now: Instant, counts: &mut ArrivalCounts, sink: &mut Sink<'_>) -> usize {
        let mut bytes = 0;
        while let Some(first) = self.waiting.first_entry().filter(|first| *first.key() <= self.next) {
            let datagram = first.remove();
            bytes += datagram.len();
            if let Some((header, payload)) = Header::parse(&datagram) {
                self.deliver(&header, payload, counts, sink);
            }
        }
        if bytes > 0 || self.waiting.is_empty() {
            self.since = (!self.waiting.is_empty()).then_some(now);
        }
        bytes
    }

    /// Whether the first datagram that waits has too many missing ones before the last.
    fn is_behind(&self) -> bool {
        self.waiting.last_key_value().is_some_and(|(last, _)| last - self.next >= WINDOW)
    }

    /// Gives up the datagrams before the first one that waits. Returns the bytes of those that need not wait
    /// any more.
    fn give_up(&mut self, now: Instant, counts: &mut ArrivalCounts, sink: &mut Sink<'_>) -> usize {
        if let Some((&first, _)) = self.waiting.first_key_value() {
            let missing = first.saturating_sub(self.next);
            self.seen = if missing < WINDOW { self.seen << missing } else { 0 };
            (self.next, self.is_after_gap) = (first, true);
        }
        self.drain(now, counts, sink)
    }
}

/// A sender repeats the end of a stream, which must not be lost.
fn count_repeated(header: &Header, counts: &mut ArrivalCounts) {
    counts.datagrams_repeated += u64::from(!header.is_end);
}

#[cfg(test)]
mod tests;
