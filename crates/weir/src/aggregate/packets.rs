//! Groups the packets of a worker.

use super::plan::{Aggregation, Part, Source};
use std::sync::Arc;
use weir_aggregate::{Aggregator, Counters, Partial, Record};
use weir_compile::PacketValue;
use weir_packet::{PacketMeta, ValueType};

/// The aggregate of a question, on one worker.
pub(crate) struct PacketAggregator {
    shared: Arc<Aggregation>,
    aggregator: Aggregator,
    keys: Vec<Place>,
    inputs: Vec<Place>,
    key: Vec<u64>,
    input: Vec<u64>,
    /// The step of the windows in which the worker's time was.
    step: Option<i64>,
}

/// The place of a part in the packet's record.
#[derive(Debug, Clone, Copy)]
struct Place {
    slot: usize,
    known: usize,
    bit: u8,
    word: usize,
    /// The bits of the value: of the high word, if the value has two words, and of the low word.
    masks: [u64; 2],
    /// The same of an address of IPv4 among addresses of both versions.
    masks_v4: [u64; 2],
    is_wide: bool,
}

impl PacketAggregator {
    pub fn new(shared: Arc<Aggregation>) -> Self {
        let aggregator = Aggregator::new(Arc::clone(&shared.plan), shared.seed);
        let words = |parts: &[Part]| vec![0; parts.iter().map(|part| part.words).sum()];
        let (key, input) = (words(&shared.keys), words(&shared.inputs));
        Self { aggregator, keys: vec![], inputs: vec![], key, input, step: None, shared }
    }

    /// Finds the values in the records of a program.
    pub fn find(&mut self, values: &[PacketValue]) {
        let place = |part: &Part| Place::of(part, values);
        self.keys = self.shared.keys.iter().map(place).collect();
        self.inputs = self.shared.inputs.iter().map(place).collect();
    }

    /// Adds a packet; `outs` is its record.
    #[inline]
    pub fn packet(&mut self, meta: &PacketMeta, outs: &[u64]) {
        let key_present = fill(&self.keys, &mut self.key, outs);
        let inputs_present = fill(&self.inputs, &mut self.input, outs);
        self.aggregator.record(&Record {
            time_ns: meta.time.0,
            order: meta.number,
            key: &self.key,
            key_present,
            inputs: &self.input,
            inputs_present,
        });
    }

    /// The worker's time is `now`, in nanoseconds since 1970: returns the panes that are closed if a step of the windows has passed.
    pub fn pass_time(&mut self, now: i64) -> Option<Vec<Partial>> {
        // Before the first packets are read, the time is not known.
        let step_ns = self.shared.window.filter(|_| now > i64::MIN)?.step_ns;
        let step = now.div_euclid(i64::try_from(step_ns).unwrap_or(i64::MAX));
        (self.step.replace(step) != Some(step)).then(|| self.aggregator.advance(now))
    }

    /// The panes so far.
    pub fn finish(&mut self) -> Vec<Partial> {
        self.aggregator.finish()
    }

    /// What the bounds discarded so far.
    pub fn counters(&self) -> Counters {
        self.aggregator.counters()
    }
}

impl Place {
    fn of(part: &Part, values: &[PacketValue]) -> Self {
        let Source::Packet(of) = part.source else { unreachable!("an aggregate of rows has no packets") };
        let value = values.iter().find(|value| value.of == of);
        let bits = u32::from(part.prefix.unwrap_or(128));
        let v6 = [leading(bits), leading(bits.saturating_sub(64))];
        // Of an address of IPv4, all bits before the address are those of the mapping.
        let v4 = [u64::MAX, leading(bits + 32)];
        let (masks, masks_v4) = match part.value_type {
            ValueType::Ipv4 => ([0, v4[1] & 0xffff_ffff], v4),
            ValueType::Ipv6 => (v6, v6),
            ValueType::Address => (v6, v4),
            _ => ([0, u64::MAX], v4),
        };
        // A program without the value: no packet has it.
        let (slot, known, bit) = value.map_or((0, usize::MAX, 0), |value| {
            (usize::from(value.slot), usize::from(value.known), value.bit)
        });
        Self { slot, known, bit, word: part.word, masks, masks_v4, is_wide: part.words == 2 }
    }
}

/// A word whose first bits are set.
fn leading(bits: u32) -> u64 {
    match bits {
        0 => 0,
        1..64 => u64::MAX << (64 - bits),
        _ => u64::MAX,
    }
}

/// Writes the words of all parts. Returns a bit for each part that the packet has.
#[inline]
fn fill(places: &[Place], words: &mut [u64], outs: &[u64]) -> u64 {
    let mut present = 0;
    for (number, place) in places.iter().enumerate() {
        let is_known = outs.get(place.known).is_some_and(|known| known >> place.bit & 1 != 0);
        let mask = if is_known { u64::MAX } else { 0 };
        let (low, high) = (outs[place.slot], outs[place.slot + 1]);
        match place.is_wide {
            true => {
                let is_v4 = high == 0 && low >> 32 == 0xffff;
                let masks = if is_v4 { place.masks_v4 } else { place.masks };
                words[place.word] = high & masks[0] & mask;
                words[place.word + 1] = low & masks[1] & mask;
            }
            false => words[place.word] = low & place.masks[1] & mask,
        }
        present |= u64::from(is_known) << number;
    }
    present
}
