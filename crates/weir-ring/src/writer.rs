//! A writer of packets: it has a segment of its own, so that writers do not wait for each other.

use crate::block::{self, INDEX_END_WORDS, INDEX_HEAD_WORDS, IndexHead, NOT_A_PACKET};
use crate::key::{KEY_WORDS, Key};
use crate::layout::WORD;
use crate::layout::head;
use crate::ring::Ring;
use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_packet::{Burst, LinkType, PacketHeaders, PacketMeta};

/// Describes interfaces: the options of pcapng for an interface of the run, such as its name, without their
/// end.
pub type DescribeInterface = Box<dyn FnMut(u16) -> Vec<u8> + Send>;

/// Bits of the number of a writer; its class is above.
const NUMBER_BITS: u32 = 24;

/// The class of the packets of a writer.
pub(crate) fn class_of(writer: u32) -> usize {
    (writer >> NUMBER_BITS) as usize
}

/// Writes packets of a class into a ring.
pub struct Writer {
    ring: Ring,
    number: u32,
    describe: DescribeInterface,
    open: Option<Open>,
    keys: Keys,
    /// Packets in segments that are complete.
    before: u64,
    /// A segment is completed at this age, although it is not full.
    age_max: Option<Duration>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("number", &self.number).finish_non_exhaustive()
    }
}

/// The segment of a writer.
struct Open {
    segment: usize,
    began: Instant,
    serial: u64,
    /// Words written from the begin.
    words: usize,
    /// Entries written from the end: of packets, and of interfaces.
    entries: usize,
    packets: usize,
    times: (i64, i64),
    interfaces: Vec<(LinkType, u16)>,
}

impl Open {
    /// Adds the entry of the block that is written next.
    fn add_entry(&mut self, words: &[AtomicU64], key: u32) {
        let at = words.len() - INDEX_END_WORDS - self.entries - 1;
        words[at].store(block::entry(key, self.words * WORD), Ordering::Relaxed);
        self.entries += 1;
    }
}

/// The keys of a segment.
#[derive(Default)]
struct Keys {
    hasher: DefaultHashBuilder,
    table: HashTable<u32>,
    keys: Vec<Key>,
    /// The last outer and the last inner key, often those of the next packet, too; and their numbers.
    last: [Option<(Key, u32)>; 2],
}

impl Keys {
    fn clear(&mut self) {
        self.table.clear();
        self.keys.clear();
        self.last = [None; 2];
    }

    /// The number of the key of a packet with these headers. `None`: it has none.
    #[inline]
    fn of_packet(&mut self, frame: &[u8], headers: &PacketHeaders) -> Option<u32> {
        let inside = match &headers.inner {
            Some(inner) => self.number(Key::of(frame, inner, 0)?, 1),
            None => 0,
        };
        Some(self.number(Key::of(frame, &headers.outer, inside)?, 0))
    }

    /// The number of a key, from 1. `place`: 0 for outer keys, 1 for inner ones.
    #[inline]
    fn number(&mut self, key: Key, place: usize) -> u32 {
        if let Some((last, number)) = self.last[place]
            && last == key
        {
            return number;
        }
        let Self { hasher, table, keys, .. } = self;
        let hash = |key: &Key| hasher.hash_one(key);
        let entry = table.entry(hash(&key), |at| keys[*at as usize] == key, |at| hash(&keys[*at as usize]));
        let number = match entry {
            Entry::Occupied(entry) => *entry.get() + 1,
            Entry::Vacant(entry) => {
                let at = keys.len() as u32;
                entry.insert(at);
                keys.push(key);
                at + 1
            }
        };
        self.last[place] = Some((key, number));
        number
    }
}

impl Writer {
    /// The writer of a class with this number; no other writer of the class has the number. A ring has room
    /// for a quarter as many writers as segments. Class 0 is that of packets of no class; the spool has the
    /// [other ones](crate::SpoolParams::classes).
    pub fn new(ring: &Ring, class: u8, number: u32, describe: DescribeInterface) -> Self {
        let number = u32::from(class) << NUMBER_BITS | number & ((1 << NUMBER_BITS) - 1);
        Self {
            ring: ring.clone(),
            number,
            describe,
            open: None,
            keys: Keys::default(),
            before: 0,
            age_max: None,
        }
    }

    /// Segments are completed at this age, so that a spool has them: calls of
    /// [`write_some`](Self::write_some) look at the time.
    #[must_use]
    pub fn with_age_max(mut self, age_max: Duration) -> Self {
        self.age_max = Some(age_max);
        self
    }

    /// Writes packets. They are readable when the call returns. `headers`: those of each packet, which the
    /// index has; packets without are read for each question.
    pub fn write(&mut self, burst: &Burst, headers: &[Option<PacketHeaders>]) {
        self.write_some(burst, headers, |_| true);
    }

    /// As [`write`](Self::write), the packets of a burst at these indexes.
    pub fn write_some(
        &mut self,
        burst: &Burst,
        headers: &[Option<PacketHeaders>],
        is_wanted: impl Fn(usize) -> bool,
    ) {
        let is_old =
            |open: &Open| self.age_max.is_some_and(|age| open.packets > 0 && open.began.elapsed() >= age);
        if self.open.as_ref().is_some_and(is_old) {
            self.complete();
        }
        let (mut bytes, mut packets, mut refused) = (0, 0, [0; 2]);
        for (index, meta) in burst.packets.iter().enumerate().filter(|(index, _)| is_wanted(*index)) {
            let frame = burst.data(index);
            let extra = burst.extras.get(index);
            let whole = extra.frame_with_vlan(meta.link, frame);
            let headers = headers.get(index).copied().flatten().map(|headers| (frame, headers));
            match self.push(meta, &whole, headers) {
                Ok(()) => (bytes, packets) = (bytes + whole.len() as u64, packets + 1),
                Err(word) => refused[usize::from(word == head::NO_SEGMENT)] += 1,
            }
        }
        self.publish();
        let counts = [packets, bytes, refused[0], refused[1]];
        for (word, count) in
            [head::PACKETS, head::BYTES, head::TOO_LONG, head::NO_SEGMENT].into_iter().zip(counts)
        {
            if count > 0 {
                self.ring.word(word).fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Completes the segment: its packets have an index, and may go to the disk.
    pub fn complete(&mut self) {
        let Some(open) = self.open.take() else { return };
        let Self { ring, number, keys, before, .. } = self;
        let (words, descriptor) = (ring.segment(open.segment), ring.descriptor(open.segment));
        let index = IndexHead {
            has_terms: true,
            identity: ring.identity(),
            serial: open.serial,
            writer: *number,
            first: open.times.0,
            last: open.times.1,
            entries: open.entries as u32,
            keys: keys.keys.len() as u32,
            packets: open.packets as u32,
            segment_bytes: (words.len() * WORD) as u32,
            before: *before,
        };
        let values = index.words(words.len() - open.words);
        let keys = keys.keys.iter().flat_map(|key| key.0.map(u64::to_le));
        let last = words.len() - INDEX_END_WORDS;
        let mut at = open.words;
        for value in values.into_iter().chain(keys) {
            words[at].store(value, Ordering::Relaxed);
            at += 1;
        }
        // Older bytes do not stay between keys and entries.
        words[at..last - open.entries].iter().for_each(|word| word.store(0, Ordering::Relaxed));
        let total = ((words.len() - open.words) * WORD) as u64;
        words[last].store((total << 32).to_le(), Ordering::Relaxed);
        descriptor.publish(words.len() * WORD, open.packets as u64, open.times);
        descriptor.complete();
        *before += open.packets as u64;
    }

    /// Writes a packet.
    ///
    /// `headers`: those of the packet, with the bytes in which they have their offsets.
    ///
    /// # Errors
    /// The counter of the reason why there is no room.
    fn push(
        &mut self,
        meta: &PacketMeta,
        frame: &[u8],
        headers: Option<(&[u8], PacketHeaders)>,
    ) -> Result<(), usize> {
        let needed = block::packet_words(frame.len());
        let interface = self.make_room(needed, (meta.link, meta.interface))?;
        let key = headers.and_then(|(frame, headers)| self.keys.of_packet(frame, &headers)).unwrap_or(0);
        let Some(open) = &mut self.open else { return Err(head::NO_SEGMENT) };
        let words = self.ring.segment(open.segment);
        open.add_entry(words, key);
        let place = &words[open.words..open.words + needed];
        let wire_bytes = meta.wire_bytes.max(frame.len() as u32);
        block::packet(interface, meta.time.0.max(0) as u64, wire_bytes, frame, place);
        open.words += needed;
        open.packets += 1;
        open.times = (open.times.0.min(meta.time.0), open.times.1.max(meta.time.0));
        Ok(())
    }

    /// Finds room for a block of a packet; returns the number of the interface in the segment.
    fn make_room(&mut self, needed: usize, interface: (LinkType, u16)) -> Result<u32, usize> {
        if needed * WORD > self.ring.segment_bytes() / 2 {
            return Err(head::TOO_LONG);
        }
        loop {
            let is_new = self.open.is_none();
            if is_new {
                self.begin().ok_or(head::NO_SEGMENT)?;
            }
            let open = self.open.as_mut().ok_or(head::NO_SEGMENT)?;
            let words = self.ring.segment(open.segment);
            let known = open.interfaces.iter().position(|known| *known == interface);
            let described = match known {
                Some(_) => vec![],
                None => block::interface(interface.0, &(self.describe)(interface.1)),
            };
            // A packet may have two keys.
            let keys = INDEX_HEAD_WORDS + 1 + (self.keys.keys.len() + 2) * KEY_WORDS;
            let index = keys + open.entries + 2 + INDEX_END_WORDS;
            if open.words + described.len() / WORD + needed + index <= words.len() {
                if known.is_none() {
                    open.add_entry(words, NOT_A_PACKET);
                    store(&words[open.words..], &described);
                    open.words += described.len() / WORD;
                    open.interfaces.push(interface);
                }
                return Ok(known.unwrap_or(open.interfaces.len() - 1) as u32);
            }
            if is_new {
                return Err(head::TOO_LONG);
            }
            self.complete();
        }
    }

    /// Takes the segment that was written longest ago, and that no writer has.
    fn begin(&mut self) -> Option<()> {
        let ring = &self.ring;
        for _ in 0..ring.segments() {
            let serial = ring.word(head::NEXT).fetch_add(1, Ordering::Relaxed);
            let segment = ring.segment_of(serial);
            let descriptor = ring.descriptor(segment);
            let Some((left, is_spooled)) = descriptor.take() else { continue };
            ring.word(head::LEFT).fetch_add(left, Ordering::Relaxed);
            if !is_spooled {
                ring.word(head::UNSPOOLED).fetch_add(left, Ordering::Relaxed);
            }
            let section = block::section();
            store(ring.segment(segment), &section);
            descriptor.begin(serial, self.number, self.before);
            let (words, times) = (section.len() / WORD, (i64::MAX, i64::MIN));
            let began = Instant::now();
            self.open = Some(Open {
                segment,
                began,
                serial,
                words,
                entries: 0,
                packets: 0,
                times,
                interfaces: vec![],
            });
            self.keys.clear();
            return Some(());
        }
        None
    }

    fn publish(&self) {
        if let Some(open) = &self.open {
            let descriptor = self.ring.descriptor(open.segment);
            descriptor.publish(open.words * WORD, open.packets as u64, open.times);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.complete();
    }
}

fn store(words: &[AtomicU64], bytes: &[u8]) {
    for (word, bytes) in words.iter().zip(bytes.chunks_exact(WORD)) {
        word.store(u64::from_ne_bytes(bytes.try_into().unwrap_or_default()), Ordering::Relaxed);
    }
}
