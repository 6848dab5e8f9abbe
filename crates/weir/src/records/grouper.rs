//! Groups the packets of a worker, and keeps the lists of each group.

use super::shared::{Feature, PacketRecords};
use crate::ask::group_key::GroupKey;
use crate::handlers::worker_pipeline::WorkerPipeline;
use crate::items::yields::{RowPlace, Yields};
use crate::rows::values::{Part, Place, fill, words_of, write_key};
use foldhash::fast::RandomState;
use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;
use weir_compile::PacketValue;
use weir_engine::subscriber::SeenPacket;
use weir_packet::{Cell, Timestamp};
use weir_pipeline::RowIndex;

/// The groups of a worker.
pub(crate) struct RecordGrouper {
    shared: Arc<PacketRecords>,
    keys: Vec<Place>,
    inputs: Vec<Place>,
    /// The words of a packet's key, and the bits of its present parts.
    key: Vec<u64>,
    input: Vec<u64>,
    /// Places in `groups`, by key.
    index: RowIndex,
    /// Is random for each run.
    hash: RandomState,
    groups: Vec<Group>,
    /// Places in `groups` without a group.
    free: Vec<usize>,
    /// Each group once, with a time of the worker at which the group had a packet.
    by_time: VecDeque<(i64, usize)>,
    /// The worker's time.
    now: i64,
    /// Numbers for which the lists of all groups have room.
    numbers: usize,
}

struct Group {
    key: Vec<u64>,
    /// The hash of the key.
    hash: u64,
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

/// Places without a group that keep the memory of their lists.
const FREE_MAX: usize = 1_024;

impl RecordGrouper {
    pub fn new(shared: Arc<PacketRecords>) -> Self {
        let (key, input) = (vec![0; words_of(&shared.key.parts) + 1], vec![0; words_of(&shared.inputs)]);
        Self {
            shared,
            keys: vec![],
            inputs: vec![],
            key,
            input,
            index: RowIndex::new(),
            hash: RandomState::default(),
            groups: vec![],
            free: vec![],
            by_time: VecDeque::new(),
            now: i64::MIN,
            numbers: 0,
        }
    }

    /// Begins the group of the current key, which has this hash. Returns the place of the group.
    #[cold]
    fn begin_group(
        &mut self,
        hash: u64,
        time: i64,
        now: i64,
        is_swapped: bool,
        place: RowPlace,
        yields: &mut Yields,
    ) -> usize {
        while self.index.len() >= self.shared.limits.groups_max.max(1) && self.end_oldest(place, yields) {}
        let at = self.free.pop().unwrap_or(self.groups.len());
        if at == self.groups.len() {
            self.groups.push(Group::of(self.shared.features.len()));
        }
        let group = &mut self.groups[at];
        self.numbers += group.numbers();
        group.begin(time, is_swapped, false);
        (group.last, group.seen, group.hash) = (time, now, hash);
        group.key.clone_from(&self.key);
        self.by_time.push_back((now, at));
        if self.index.is_full() {
            self.index.grow();
        }
        self.index.insert(hash, at);
        at
    }

    /// Ends a group without packets for a long time. Returns whether there was one.
    fn end_oldest(&mut self, place: RowPlace, yields: &mut Yields) -> bool {
        for looks in 1.. {
            let Some((time, at)) = self.by_time.pop_front() else { break };
            let seen = self.groups[at].seen;
            if seen <= time || looks > LOOKS {
                self.end(at, "memory", place, yields);
                return true;
            }
            self.by_time.push_back((seen, at));
        }
        false
    }

    /// Ends a group, which is no longer in `by_time`.
    fn end(&mut self, at: usize, reason: &str, place: RowPlace, yields: &mut Yields) {
        let group = &mut self.groups[at];
        if group.packets > 0 && !group.is_done {
            group.write(&self.shared, reason, place, yields);
        }
        self.index.remove(group.hash, at);
        self.numbers -= group.numbers();
        let kept = if self.free.len() < FREE_MAX { KEPT_NUMBERS } else { 0 };
        group.clear(kept);
        self.free.push(at);
    }
}

impl WorkerPipeline for RecordGrouper {
    fn find(&mut self, values: &[PacketValue]) {
        let place = |part: &Part| Place::of(part, values);
        self.keys = self.shared.key.parts.iter().map(place).collect();
        self.inputs = self.shared.inputs.iter().map(place).collect();
    }

    fn packet(&mut self, place: RowPlace, packet: &SeenPacket<'_>, yields: &mut Yields) {
        let SeenPacket { meta, outs, .. } = *packet;
        let mut present = fill(&self.keys, &mut self.key, outs);
        let known = fill(&self.inputs, &mut self.input, outs);
        let GroupKey { ends, is_tuple, .. } = &self.shared.key;
        if *is_tuple && present == 0 {
            return;
        }
        let is_swapped = ends.as_ref().is_some_and(|ends| ends.order(&mut self.key, &mut present));
        if let Some(word) = self.key.last_mut() {
            *word = present;
        }
        let time = meta.time.0;
        // Before the first time of the worker, the packet's own is the only one.
        let now = if self.now == i64::MIN { time } else { self.now };
        let hash = self.hash.hash_one(&self.key[..]);
        let at = match self.index.find(hash, |at| self.groups[at].key == self.key) {
            Some(at) => at,
            None => self.begin_group(hash, time, now, is_swapped, place, yields),
        };
        let Self { shared, groups, input, numbers, .. } = self;
        let (group, limits) = (&mut groups[at], &shared.limits);
        group.seen = now;
        let age = time.saturating_sub(group.first);
        if group.packets > 0 && !group.is_done && age >= i64::try_from(limits.age_ns).unwrap_or(i64::MAX) {
            group.write(shared, "age", place, yields);
            *numbers -= group.numbers();
            group.begin(time, is_swapped, limits.first_only);
            *numbers += group.numbers();
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
                Feature::Field(number) => {
                    group.missing += u64::from(known >> number & 1 == 0);
                    input[shared.inputs[number].word]
                }
            });
        }
        group.packets += 1;
        *numbers += group.numbers() - before_numbers;
        if group.packets >= limits.packets_max.max(1) {
            group.write(shared, "count", place, yields);
            *numbers -= group.numbers();
            group.begin(time, is_swapped, limits.first_only);
            *numbers += group.numbers();
        }
        while self.numbers > self.shared.limits.numbers_max && self.end_oldest(place, yields) {}
    }

    /// Ends groups that are idle; all of them at the end of the run.
    fn pass_time(&mut self, place: RowPlace, now: i64, yields: &mut Yields) {
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
            let Some((_, at)) = self.by_time.pop_front() else { return };
            match self.groups[at].seen {
                seen if !is_idle(seen) => self.by_time.push_back((seen, at)),
                _ => self.end(at, if is_end { "end" } else { "idle" }, place, yields),
            }
        }
    }

    fn step_clock(&mut self, step_ns: i64) {
        let step = |time: &mut i64| *time = time.saturating_add(step_ns);
        if self.now > i64::MIN {
            step(&mut self.now);
        }
        self.by_time.iter_mut().for_each(|(time, _)| step(time));
        for group in &mut self.groups {
            [&mut group.first, &mut group.last, &mut group.seen].into_iter().for_each(step);
        }
    }
}

/// Groups that are looked at for one without packets.
const LOOKS: usize = 8;
/// Numbers for which a list that is kept has room.
const KEPT_NUMBERS: usize = 256;

impl Group {
    /// A place for a group, with this number of lists.
    fn of(lists: usize) -> Self {
        Self {
            key: vec![],
            hash: 0,
            first: 0,
            last: 0,
            seen: 0,
            lists: vec![vec![]; lists],
            packets: 0,
            missing: 0,
            is_swapped: false,
            is_done: false,
        }
    }

    /// Numbers for which its lists have room.
    fn numbers(&self) -> usize {
        self.lists.iter().map(Vec::capacity).sum()
    }

    /// Empties the lists; each keeps room for at most this many numbers.
    fn clear(&mut self, kept: usize) {
        for list in &mut self.lists {
            list.clear();
            list.shrink_to(kept);
        }
    }

    /// Begins the next record.
    fn begin(&mut self, time: i64, is_swapped: bool, is_done: bool) {
        self.clear(if is_done { 0 } else { KEPT_NUMBERS });
        (self.first, self.packets, self.missing) = (time, 0, 0);
        (self.is_swapped, self.is_done) = (is_swapped, is_done);
    }

    /// Writes the row of the current record.
    fn write(&self, shared: &PacketRecords, reason: &str, place: RowPlace, yields: &mut Yields) {
        let mut row = yields.add_row(place, shared.columns.len());
        row.push(Cell::Time(Timestamp(self.first)));
        row.push(Cell::Interval(self.last.saturating_sub(self.first).max(0) as u64));
        let GroupKey { parts, ends, .. } = &shared.key;
        let present = self.key.last().copied().unwrap_or(0);
        // The first packet's sender comes first.
        let ends = ends.as_ref().filter(|_| self.is_swapped);
        for (number, part) in parts.iter().enumerate() {
            let shown = ends.and_then(|ends| ends.other(number)).unwrap_or(number);
            if present >> shown & 1 == 0 {
                row.push(Cell::Absent);
                continue;
            }
            let word = parts[shown].word;
            let words = &self.key[word..word + part.words];
            write_key(part.prefix, part.cell(words, &shared.layers), &mut row);
        }
        row.push(Cell::Unsigned(self.packets as u64));
        self.lists.iter().for_each(|list| row.push(Cell::Numbers(list)));
        row.push(Cell::Unsigned(self.missing));
        row.push(Cell::Text(reason));
    }
}
