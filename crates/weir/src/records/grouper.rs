//! Groups the packets of a worker, and keeps the lists of each group.

use super::shared::{Feature, PacketRecords};
use crate::values::{Part, Place, Source, fill, words_of};
use crate::yields::Yields;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use weir_compile::{PacketValue, TuplePart, ValueOf};
use weir_engine::subscriber::Order;
use weir_packet::{Cell, PacketMeta, Timestamp};

/// The groups of a worker.
pub(crate) struct RecordGrouper {
    shared: Arc<PacketRecords>,
    keys: Vec<Place>,
    inputs: Vec<Place>,
    key: Vec<u64>,
    input: Vec<u64>,
    groups: HashMap<Box<[u64]>, Group>,
    /// Each group once, with a time of the worker at which the group had a packet.
    by_time: VecDeque<(i64, Box<[u64]>)>,
    /// The worker's time.
    now: i64,
    /// Numbers in all lists.
    numbers: usize,
    /// Lists of ended groups, for others.
    free: Vec<Vec<Vec<u64>>>,
}

struct Group {
    /// Bits of the present parts of the key.
    present: u64,
    first: i64,
    last: i64,
    /// The worker's time at its last packet.
    seen: i64,
    /// Lists by feature.
    lists: Vec<Vec<u64>>,
    packets: usize,
    missing: u64,
    /// The first packet was sent by the greater end of the flow.
    is_swapped: bool,
    /// The first record of the group is complete, and the rest is left out.
    is_done: bool,
}

/// Lists that are kept for other groups.
const FREE_MAX: usize = 1_024;

impl RecordGrouper {
    pub fn new(shared: Arc<PacketRecords>) -> Self {
        let (key, input) = (vec![0; words_of(&shared.keys)], vec![0; words_of(&shared.inputs)]);
        let (groups, by_time, free) = (HashMap::new(), VecDeque::new(), vec![]);
        Self {
            shared,
            keys: vec![],
            inputs: vec![],
            key,
            input,
            groups,
            by_time,
            now: i64::MIN,
            numbers: 0,
            free,
        }
    }

    /// Finds the values in the records of a program.
    pub fn find(&mut self, values: &[PacketValue]) {
        let place = |part: &Part| Place::of(part, values);
        self.keys = self.shared.keys.iter().map(place).collect();
        self.inputs = self.shared.inputs.iter().map(place).collect();
    }

    /// Adds a packet; `outs` is its record.
    pub fn packet(&mut self, at: (Order, usize), meta: &PacketMeta, outs: &[u64], yields: &mut Yields) {
        let present = fill(&self.keys, &mut self.key, outs);
        let known = fill(&self.inputs, &mut self.input, outs);
        let shared = Arc::clone(&self.shared);
        if shared.of_tuple && present == 0 {
            return;
        }
        let is_swapped = shared.is_flow && order_ends(&shared, &mut self.key);
        let (time, limits) = (meta.time.0, shared.limits);
        // Before the first time of the worker, the packet's own is the only one.
        let now = if self.now == i64::MIN { time } else { self.now };
        if !self.groups.contains_key(&self.key[..]) {
            while self.groups.len() >= limits.groups_max.max(1) && self.end_oldest(at, yields) {}
            let lists = self.free.pop().unwrap_or_else(|| vec![vec![]; shared.features.len()]);
            self.numbers += lists.iter().map(Vec::capacity).sum::<usize>();
            let group = Group {
                present,
                first: time,
                last: time,
                seen: now,
                lists,
                packets: 0,
                missing: 0,
                is_swapped,
                is_done: false,
            };
            self.by_time.push_back((now, self.key.clone().into_boxed_slice()));
            self.groups.insert(self.key.clone().into_boxed_slice(), group);
        }
        let Some(group) = self.groups.get_mut(&self.key[..]) else { return };
        group.seen = now;
        let age = time.saturating_sub(group.first);
        if group.packets > 0 && !group.is_done && age >= i64::try_from(limits.age_ns).unwrap_or(i64::MAX) {
            write(&shared, &self.key, group, "age", at, yields);
            self.numbers -= group.numbers();
            group.begin(time, is_swapped, limits.first_only);
            self.numbers += group.numbers();
        }
        let before = if group.packets == 0 { time } else { group.last };
        group.last = group.last.max(time);
        if group.is_done {
            return;
        }
        let before_numbers = group.numbers();
        for (feature, list) in shared.features.iter().zip(&mut group.lists) {
            list.push(match *feature {
                Feature::Time => time as u64,
                Feature::Gap => time.saturating_sub(before).max(0) as u64,
                Feature::Direction => u64::from(is_swapped != group.is_swapped),
                Feature::Field(input) => {
                    group.missing += u64::from(known >> input & 1 == 0);
                    self.input[shared.inputs[input].word]
                }
            });
        }
        group.packets += 1;
        self.numbers += group.numbers() - before_numbers;
        if group.packets >= limits.packets_max.max(1) {
            write(&shared, &self.key, group, "count", at, yields);
            self.numbers -= group.numbers();
            group.begin(time, is_swapped, limits.first_only);
            self.numbers += group.numbers();
        }
        while self.numbers > limits.numbers_max && self.end_oldest(at, yields) {}
    }

    /// Ends groups that are idle at `now`, the worker's time; all of them at the end of the run.
    pub fn pass_time(&mut self, at: (Order, usize), now: i64, yields: &mut Yields) {
        let is_end = now == i64::MAX;
        if !is_end {
            self.now = now;
        }
        let idle_ns = i64::try_from(self.shared.limits.idle_ns).unwrap_or(i64::MAX);
        let is_idle = |since: i64| is_end || now.saturating_sub(since) >= idle_ns;
        for _ in 0..self.by_time.len() {
            if !self.by_time.front().is_some_and(|(time, _)| is_idle(*time)) {
                return;
            }
            let Some((_, key)) = self.by_time.pop_front() else { return };
            match self.groups.get(&key) {
                Some(group) if !is_idle(group.seen) => self.by_time.push_back((group.seen, key)),
                Some(_) => self.end(&key, if is_end { "end" } else { "idle" }, at, yields),
                None => {}
            }
        }
    }

    /// The machine's clock was set by this many nanoseconds.
    pub fn step_clock(&mut self, step_ns: i64) {
        let step = |time: &mut i64| *time = time.saturating_add(step_ns);
        if self.now > i64::MIN {
            step(&mut self.now);
        }
        self.by_time.iter_mut().for_each(|(time, _)| step(time));
        for group in self.groups.values_mut() {
            [&mut group.first, &mut group.last, &mut group.seen].into_iter().for_each(step);
        }
    }

    /// Ends a group without packets for a long time. Returns whether there was one.
    fn end_oldest(&mut self, at: (Order, usize), yields: &mut Yields) -> bool {
        for _ in 0..LOOKS {
            let Some((time, key)) = self.by_time.pop_front() else { return false };
            match self.groups.get(&key) {
                Some(group) if group.seen > time => self.by_time.push_back((group.seen, key)),
                Some(_) => {
                    self.end(&key, "memory", at, yields);
                    return true;
                }
                None => {}
            }
        }
        let Some((_, key)) = self.by_time.pop_front() else { return false };
        self.end(&key, "memory", at, yields);
        true
    }

    fn end(&mut self, key: &[u64], reason: &str, at: (Order, usize), yields: &mut Yields) {
        let Some(mut group) = self.groups.remove(key) else { return };
        if group.packets > 0 && !group.is_done {
            write(&self.shared, key, &group, reason, at, yields);
        }
        self.numbers -= group.numbers();
        if self.free.len() < FREE_MAX && group.lists.iter().all(|list| list.capacity() <= KEPT_NUMBERS) {
            group.lists.iter_mut().for_each(Vec::clear);
            self.free.push(group.lists);
        }
    }
}

/// Groups that are looked at for one without packets.
const LOOKS: usize = 8;
/// Numbers for which a list that is kept has room.
const KEPT_NUMBERS: usize = 256;

impl Group {
    /// Numbers for which its lists have room.
    fn numbers(&self) -> usize {
        self.lists.iter().map(Vec::capacity).sum()
    }

    /// Begins the next record.
    fn begin(&mut self, time: i64, is_swapped: bool, is_done: bool) {
        for list in &mut self.lists {
            list.clear();
            list.shrink_to(if is_done { 0 } else { KEPT_NUMBERS });
        }
        (self.first, self.packets, self.missing) = (time, 0, 0);
        (self.is_swapped, self.is_done) = (is_swapped, is_done);
    }
}

/// Puts the smaller end of a packet's tuple first. Returns whether the ends were exchanged.
fn order_ends(shared: &PacketRecords, key: &mut [u64]) -> bool {
    let words = |address, port| [shared.tuple_words(address), shared.tuple_words(port)];
    let sender = words(TuplePart::Source, TuplePart::SourcePort);
    let receiver = words(TuplePart::Destination, TuplePart::DestinationPort);
    let end = |key: &[u64], places: &[std::ops::Range<usize>; 2]| {
        [&key[places[0].clone()], &key[places[1].clone()]].concat()
    };
    let is_swapped = end(key, &sender) > end(key, &receiver);
    if is_swapped {
        for (from, to) in sender.into_iter().zip(receiver) {
            from.zip(to).for_each(|(a, b)| key.swap(a, b));
        }
    }
    is_swapped
}

fn write(
    shared: &PacketRecords,
    key: &[u64],
    group: &Group,
    reason: &str,
    at: (Order, usize),
    yields: &mut Yields,
) {
    let (order, question) = at;
    let mut row = yields.add_row(order, question, 0, None, shared.columns.len());
    row.push(Cell::Time(Timestamp(group.first)));
    row.push(Cell::Interval(group.last.saturating_sub(group.first).max(0) as u64));
    let exchanged = |of| match of {
        TuplePart::Source => TuplePart::Destination,
        TuplePart::Destination => TuplePart::Source,
        TuplePart::SourcePort => TuplePart::DestinationPort,
        TuplePart::DestinationPort => TuplePart::SourcePort,
        TuplePart::Layer => TuplePart::Layer,
    };
    for (number, part) in shared.keys.iter().enumerate() {
        if group.present >> number & 1 == 0 {
            row.push(Cell::Absent);
            continue;
        }
        let words = match part.source {
            // The first packet's sender comes first.
            Source::Packet(ValueOf::Tuple(of)) if group.is_swapped => shared.tuple_words(exchanged(of)),
            _ => part.word..part.word + part.words,
        };
        row.push(part.cell(&key[words], &shared.layers));
    }
    row.push(Cell::Unsigned(group.packets as u64));
    group.lists.iter().for_each(|list| row.push(Cell::Numbers(list)));
    row.push(Cell::Unsigned(group.missing));
    row.push(Cell::Text(reason));
}
