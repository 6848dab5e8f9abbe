//! Groups rows: of connections, sessions and events.

use super::shared::Aggregation;
use crate::rows::values::{Part, Source};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use weir_aggregate::{Record, Texts};
use weir_packet::{Cell, Column, Row, Timestamp, ValueType};

/// Texts that a dictionary has room for.
const TEXTS_MAX: usize = 1 << 18;
/// Bytes of these texts with their entries, unless there is less memory.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// Makes records of rows.
pub(super) struct RowReader {
    /// Indexes of the columns with the time, and with the time until the row's end.
    time: Option<usize>,
    duration: Option<usize>,
    hashes: [RandomState; 2],
    pub texts: Texts,
    /// How long windows may need a text after its row, in nanoseconds; without windows, to the end of the
    /// run.
    kept_ns: Option<i64>,
    /// When texts were last forgotten.
    turned: i64,
    key: Vec<u64>,
    input: Vec<u64>,
    number: u64,
    now: Timestamp,
}

impl RowReader {
    /// A reader of rows with these columns.
    pub fn new(shared: &Aggregation, columns: &[Column]) -> Self {
        let at = |name: &str| columns.iter().position(|column| column.name == name);
        let words = |parts: &[Part]| vec![0; parts.iter().map(|part| part.words).sum()];
        Self {
            time: at("ts").filter(|&at| columns[at].value_type == ValueType::Time),
            duration: at("duration").filter(|&at| columns[at].value_type == ValueType::Interval),
            hashes: [RandomState::new(), RandomState::new()],
            texts: Texts::new(TEXTS_MAX, TEXT_BYTES_MAX.min(shared.memory_max / 4) as u64),
            kept_ns: shared.window.map(|window| {
                let kept_ns = window.length_ns.saturating_add(window.step_ns);
                let kept_ns = kept_ns.saturating_add(shared.plan.params().lateness_ns);
                i64::try_from(kept_ns).unwrap_or(i64::MAX)
            }),
            turned: i64::MIN,
            key: words(&shared.keys),
            input: words(&shared.inputs),
            number: 0,
            now: Timestamp(0),
        }
    }

    /// Windows are closed as of `now`: forgets texts that no open window needs.
    pub fn pass_time(&mut self, now: i64) {
        if self.kept_ns.is_some_and(|kept_ns| now.saturating_sub(self.turned) >= kept_ns) {
            self.texts.turn();
            self.turned = now;
        }
    }

    /// The record of a row. Its time is that of the row's end.
    pub fn record(&mut self, shared: &Aggregation, row: Row<'_>) -> Record<'_> {
        if let Some(Cell::Time(time)) = self.time.map(|at| row.cell(at)) {
            let duration = match self.duration.map(|at| row.cell(at)) {
                Some(Cell::Interval(ns)) => ns,
                _ => 0,
            };
            self.now = Timestamp(time.0.saturating_add_unsigned(duration));
        }
        self.number += 1;
        let Self { hashes, texts, key, input, .. } = self;
        let mut key_present = fill(&shared.keys, key, row, hashes, texts);
        if let Some(ends) = &shared.ends {
            ends.order(key, &mut key_present);
        }
        let inputs_present = fill(&shared.inputs, input, row, hashes, texts);
        Record {
            time_ns: self.now.0,
            order: self.number,
            key: &self.key,
            key_present,
            inputs: &self.input,
            inputs_present,
        }
    }
}

/// Writes the words of all parts. Returns a bit for each part that the row has.
fn fill(
    parts: &[Part],
    words: &mut [u64],
    row: Row<'_>,
    hashes: &[RandomState; 2],
    texts: &mut Texts,
) -> u64 {
    let mut present = 0;
    for (number, part) in parts.iter().enumerate() {
        let Source::Row(column) = part.source else { continue };
        let [high, low] = match row.cell(column) {
            Cell::Absent => {
                words[part.word..part.word + part.words].fill(0);
                continue;
            }
            // Only `count` takes lists, and counts the rows that have one.
            Cell::Texts(_) | Cell::Numbers(_) => [0, 0],
            Cell::Bool(v) => [0, u64::from(v)],
            Cell::Unsigned(v) | Cell::Interval(v) => [0, v],
            Cell::Fraction(v) => [0, v.to_bits()],
            Cell::Time(v) => [0, v.0 as u64],
            Cell::Mac([a, b, c, d, e, f]) => [0, u64::from_be_bytes([0, 0, a, b, c, d, e, f])],
            Cell::Address(address) => masked(address, part.prefix),
            Cell::Text(text) => hash_of(text.as_bytes(), hashes, texts),
            Cell::Bytes(bytes) => hash_of(bytes, hashes, texts),
        };
        match part.words {
            1 => words[part.word] = low,
            _ => words[part.word..part.word + 2].copy_from_slice(&[high, low]),
        }
        present |= 1 << number;
    }
    present
}

fn hash_of(bytes: &[u8], hashes: &[RandomState; 2], texts: &mut Texts) -> [u64; 2] {
    let hash = [hashes[0].hash_one(bytes), hashes[1].hash_one(bytes)];
    texts.insert(hash, bytes);
    hash
}

/// The words of an address in the form of keys, with this many leading bits of the address.
fn masked(address: IpAddr, prefix: Option<u8>) -> [u64; 2] {
    let (bits, width) = match address {
        IpAddr::V4(v4) => (v4.to_ipv6_mapped().to_bits(), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    let cut = prefix.map_or(0, |prefix| width - u32::from(prefix).min(width));
    let bits = bits.checked_shr(cut).unwrap_or(0).checked_shl(cut).unwrap_or(0);
    [(bits >> 64) as u64, bits as u64]
}
