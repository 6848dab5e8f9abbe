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
    /// Groups in the order of their packets, with the time of a packet: the time is that of the last one, or the entry is old.
    by_time: VecDeque<(i64, Box<[u64]>)>,
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
        Self { shared, keys: vec![], inputs: vec![], key, input, groups, by_time, numbers: 0, free }
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
        if !self.groups.contains_key(&self.key[..]) {
            while self.groups.len() >= limits.groups_max.max(1) && self.end_oldest(at, yields) {}
            let lists = self.free.pop().unwrap_or_else(|| vec![vec![]; shared.features.len()]);
            let group = Group {
                present,
                first: time,
                last: time,
                lists,
                packets: 0,
                missing: 0,
                is_swapped,
                is_done: false,
            };
            self.groups.insert(self.key.clone().into_boxed_slice(), group);
        }
        let Some(group) = self.groups.get_mut(&self.key[..]) else { return };
        // Of a busy group, one entry in the list of times is enough for each second.
        if group.packets == 0 || time.saturating_sub(group.last) > TIMES_NS {
            self.by_time.push_back((time, self.key.clone().into_boxed_slice()));
        }
        let age = time.saturating_sub(group.first);
        if group.packets > 0 && !group.is_done && age >= i64::try_from(limits.age_ns).unwrap_or(i64::MAX) {
            write(&shared, &self.key, group, "age", at, yields);
            self.numbers -= group.numbers();
            group.begin(time, is_swapped, limits.first_only);
        }
        let before = if group.packets == 0 { time } else { group.last };
        group.last = group.last.max(time);
        if group.is_done {
            return;
        }
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
        self.numbers += shared.features.len();
        if group.packets >= limits.packets_max.max(1) {
            write(&shared, &self.key, group, "count", at, yields);
            self.numbers -= group.numbers();
            group.begin(time, is_swapped, limits.first_only);
        }
        while self.numbers > limits.numbers_max && self.end_oldest(at, yields) {}
    }

    /// Ends groups that are idle at `now`; all of them at the end of the run.
    pub fn pass_time(&mut self, at: (Order, usize), now: i64, yields: &mut Yields) {
        let idle_ns = i64::try_from(self.shared.limits.idle_ns).unwrap_or(i64::MAX);
        let reason = if now == i64::MAX { "end" } else { "idle" };
        while let Some((time, _)) = self.by_time.front() {
            if now != i64::MAX && now.saturating_sub(*time) < idle_ns {
                return;
            }
            let Some((_, key)) = self.by_time.pop_front() else { return };
            let Some(group) = self.groups.get(&key) else { continue };
            if now != i64::MAX && now.saturating_sub(group.last) < idle_ns {
                // The group had packets since.
                self.by_time.push_back((group.last, key));
                continue;
            }
            self.end(&key, reason, at, yields);
        }
    }

    /// Ends the group without packets for the longest time. Returns whether there was one.
    fn end_oldest(&mut self, at: (Order, usize), yields: &mut Yields) -> bool {
        while let Some((time, key)) = self.by_time.pop_front() {
            match self.groups.get(&key) {
                Some(group) if group.last.saturating_sub(time) > TIMES_NS => {
                    self.by_time.push_back((group.last, key));
                }
                Some(_) => {
                    self.end(&key, "memory", at, yields);
                    return true;
                }
                None => {}
            }
        }
        false
    }

    fn end(&mut self, key: &[u64], reason: &str, at: (Order, usize), yields: &mut Yields) {
        let Some(mut group) = self.groups.remove(key) else { return };
        if group.packets > 0 && !group.is_done {
            write(&self.shared, key, &group, reason, at, yields);
        }
        self.numbers -= group.numbers();
        if self.free.len() < FREE_MAX {
            group.lists.iter_mut().for_each(Vec::clear);
            self.free.push(group.lists);
        }
    }
}

/// How exactly the order of groups by time is kept: 1 s.
const TIMES_NS: i64 = 1_000_000_000;

impl Group {
    fn numbers(&self) -> usize {
        self.lists.iter().map(Vec::len).sum()
    }

    /// Begins the next record.
    fn begin(&mut self, time: i64, is_swapped: bool, is_done: bool) {
        self.lists.iter_mut().for_each(Vec::clear);
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
