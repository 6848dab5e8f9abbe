//! Packets that wait for the call that takes them.
//!
//! A packet is a record of words. `trusted.lua` declares the same layout as a C struct.

use weir::packet_task::TaskPacket;
use weir_pipeline::RowNumber;

/// Packets of a batch.
pub const PACKETS_MAX: usize = 256;
/// Bytes of the frames of a batch; the packet that passes the bound is the last one.
const FRAME_BYTES_MAX: usize = 1 << 20;

/// Words of a record before the fields.
pub const HEAD_WORDS: usize = 8;
/// The address of the first captured byte.
pub const DATA: usize = 0;
/// Captured bytes, and above them bytes on the wire.
pub const LENGTHS: usize = 1;
/// Capture time, in nanoseconds since 1970.
pub const TIME: usize = 2;
/// The number of the packet.
pub const NUMBER: usize = 3;
/// The addresses of key and state.
pub const KEY: usize = 4;
pub const STATE: usize = 5;
/// Four bytes: whether the packet is the first one of its flow; the table, from 1 on, 0: the packet has no
/// key; the direction; whether the module wants a dump.
pub const MARKS: usize = 6;
/// A bit for each field that the packet has.
pub const KNOWN: usize = 7;

/// Packets that wait.
#[derive(Debug)]
pub struct Batch {
    record_words: usize,
    key_words: usize,
    records: Vec<u64>,
    /// For each packet the words of its key.
    keys: Vec<u64>,
    frames: Vec<u8>,
    /// For each packet where its frame begins.
    frame_starts: Vec<usize>,
    /// For each packet its flow.
    pub rows: Vec<Option<RowNumber>>,
    has_frames: bool,
}

impl Batch {
    /// A batch of packets with fields of this number of words, and keys of at most this number.
    pub fn new(field_words: usize, key_words: usize, has_frames: bool) -> Self {
        Self {
            record_words: HEAD_WORDS + field_words,
            key_words,
            records: vec![],
            keys: vec![],
            frames: vec![],
            frame_starts: vec![],
            rows: vec![],
            has_frames,
        }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_full(&self) -> bool {
        self.len() >= PACKETS_MAX || self.frames.len() >= FRAME_BYTES_MAX
    }

    /// Removes all packets.
    pub fn clear(&mut self) {
        self.records.clear();
        self.keys.clear();
        self.frames.clear();
        self.frame_starts.clear();
        self.rows.clear();
    }

    /// Adds a packet.
    pub fn push(&mut self, packet: &TaskPacket<'_>) {
        let meta = packet.meta;
        let mut captured = u64::from(meta.captured_bytes);
        let mut wire = u64::from(meta.wire_bytes);
        self.frame_starts.push(self.frames.len());
        if self.has_frames {
            let frame = packet.frame();
            // A VLAN tag that was restored counts, too.
            wire += (frame.len() as u64).saturating_sub(captured);
            captured = frame.len() as u64;
            self.frames.extend_from_slice(&frame);
        }
        let table = packet.key.map_or(0, |(table, _)| table as u64 + 1);
        let marks = table << 8 | u64::from(packet.is_swapped) << 16;
        let lengths = captured | wire << 32;
        self.records.extend([0, lengths, meta.time.0 as u64, meta.number, 0, 0, marks, packet.known]);
        self.records.extend_from_slice(packet.words);
        self.records.resize(self.frame_starts.len() * self.record_words, 0);
        let start = self.keys.len();
        self.keys.resize(start + self.key_words, 0);
        if let Some((_, key)) = packet.key {
            write_bytes(key, &mut self.keys[start..]);
        }
        self.rows.push(None);
    }

    /// A word of a packet's record.
    #[inline]
    pub fn word(&self, packet: usize, word: usize) -> u64 {
        self.records[packet * self.record_words + word]
    }

    #[inline]
    pub fn set_word(&mut self, packet: usize, word: usize, value: u64) {
        self.records[packet * self.record_words + word] = value;
    }

    /// The index of the table of a packet's key; `None`: it has no key.
    #[inline]
    pub fn table(&self, packet: usize) -> Option<usize> {
        (self.word(packet, MARKS) >> 8 & 0xff).checked_sub(1).map(|table| table as usize)
    }

    /// Sets the table of a packet's key.
    pub fn set_table(&mut self, packet: usize, table: Option<usize>) {
        let marks = self.word(packet, MARKS) & !0xff00;
        self.set_word(packet, MARKS, marks | table.map_or(0, |table| table as u64 + 1) << 8);
    }

    /// Marks a packet as the first one of its flow.
    pub fn set_first(&mut self, packet: usize) {
        let marks = self.word(packet, MARKS);
        self.set_word(packet, MARKS, marks | 1);
    }

    pub fn is_first(&self, packet: usize) -> bool {
        self.word(packet, MARKS) & 0xff != 0
    }

    pub fn is_swapped(&self, packet: usize) -> bool {
        self.word(packet, MARKS) >> 16 & 0xff != 0
    }

    /// Whether the module wants a dump of the packet's flow.
    pub fn is_dumped(&self, packet: usize) -> bool {
        self.word(packet, MARKS) >> 24 & 0xff != 0
    }

    pub fn set_dumped(&mut self, packet: usize) {
        let marks = self.word(packet, MARKS);
        self.set_word(packet, MARKS, marks | 1 << 24);
    }

    /// The words of a packet's fields.
    pub fn fields(&self, packet: usize) -> &[u64] {
        let first = packet * self.record_words;
        &self.records[first + HEAD_WORDS..first + self.record_words]
    }

    /// The words of a packet's key.
    #[inline]
    pub fn key(&self, packet: usize, words: usize) -> &[u64] {
        &self.keys[packet * self.key_words..packet * self.key_words + words]
    }

    pub fn key_mut(&mut self, packet: usize) -> &mut [u64] {
        &mut self.keys[packet * self.key_words..(packet + 1) * self.key_words]
    }

    /// The captured bytes of a packet; none unless the module reads them.
    pub fn frame(&self, packet: usize) -> &[u8] {
        let end = self.frame_starts.get(packet + 1).copied().unwrap_or(self.frames.len());
        &self.frames[self.frame_starts[packet]..end]
    }

    /// Writes the addresses of frames and keys into the records. They are right until a packet is added.
    pub fn place(&mut self) {
        let (frames, keys) = (self.frames.as_mut_ptr() as u64, self.keys.as_mut_ptr() as u64);
        for packet in 0..self.len() {
            self.set_word(packet, DATA, frames + self.frame_starts[packet] as u64);
            self.set_word(packet, KEY, keys + (packet * self.key_words * size_of::<u64>()) as u64);
        }
    }

    /// The address of the records.
    pub fn address(&mut self) -> *mut u64 {
        self.records.as_mut_ptr()
    }
}

/// Writes bytes into words, and zeros after them.
pub fn write_bytes(bytes: &[u8], words: &mut [u64]) {
    let (chunks, rest) = bytes.as_chunks::<8>();
    words.fill(0);
    for (word, chunk) in words.iter_mut().zip(chunks) {
        *word = u64::from_ne_bytes(*chunk);
    }
    if let Some(word) = words.get_mut(chunks.len()).filter(|_| !rest.is_empty()) {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        *word = u64::from_ne_bytes(last);
    }
}

/// The first bytes of words.
pub fn read_bytes(words: &[u64], bytes: &mut [u8]) {
    for (chunk, word) in bytes.chunks_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_ne_bytes()[..chunk.len()]);
    }
}
