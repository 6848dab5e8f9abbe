//! Packet vectors (Jetstream, section 4: "grouped packet vectors"): the features of consecutive packets of a group as lists in one row.
//!
//! The program computes the key and the features of a packet; each worker keeps the lists of its groups, and a row is complete at a
//! number of packets, at an age, when the group was idle for some time, and at the end of the run. Groups with the tuple in their key
//! are whole, whatever the number of workers; other groups have a row for each worker.

use crate::compile::{Ask, Compiler};
use crate::item::Shape;
use crate::question::Question;
use crate::question_worker::QuestionWorker;
use crate::values::{Names, Part, Place, Source, fill, part_of, words_of};
use crate::yields::Yields;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use weir_compile::{Need, PacketValue, TuplePart, ValueList, ValueOf};
use weir_engine::plan::Want;
use weir_engine::subscriber::Order;
use weir_lang::diag::suggest;
use weir_lang::filter::Catalog;
use weir_lang::model::Stack;
use weir_packet::{Cell, Column, PacketMeta, Timestamp, ValueType};

/// When a record is complete, and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordLimits {
    /// Maximum number of packets of a record.
    pub packets_max: usize,
    /// Only the first record of a group is made: packets after it are left out, until the group was idle.
    pub first_only: bool,
    /// A record is complete this long after its first packet, in nanoseconds.
    pub age_ns: u64,
    /// A group ends this long after its last packet, in nanoseconds.
    pub idle_ns: u64,
    /// Groups of a worker: if there are more, the one without packets for the longest time ends.
    pub groups_max: usize,
    /// Numbers in all lists of a worker: if there are more, groups end likewise.
    pub numbers_max: usize,
}

impl Default for RecordLimits {
    fn default() -> Self {
        Self {
            packets_max: 1_024,
            first_only: false,
            age_ns: 60_000_000_000,
            idle_ns: 15_000_000_000,
            groups_max: 1 << 16,
            numbers_max: 32 << 20,
        }
    }
}

/// A feature of packets.
#[derive(Debug, Clone)]
enum Feature {
    /// Capture time: nanoseconds since 1970.
    Time,
    /// Nanoseconds since the packet before in the record.
    Gap,
    /// Whether the packet goes in the other direction than the first one of the record.
    Direction,
    /// A field with this number among the values.
    Field(usize),
}

/// Names of features that are no fields, and other names of fields.
const FEATURES: &[(&str, &str)] = &[
    ("ts", "capture times, nanoseconds since 1970"),
    ("iat", "times since the packet before, nanoseconds; 0 for the first one"),
    ("dir", "0 for packets in the direction of the first one, 1 for others; needs the key flow"),
];
const OTHER_NAMES: &[(&str, &str)] = &[
    ("len", "frame.len"),
    ("flags", "tcp.flags"),
    ("seq", "tcp.seq"),
    ("ack", "tcp.ack"),
    ("ttl", "ip.ttl"),
];

/// The word for keys of both directions of a connection.
const FLOW: &str = "flow";
/// Words for several keys.
const TUPLE: &[&str] = &["src", "sport", "dst", "dport", "proto"];

/// Packet vectors by a key.
#[derive(Debug, Clone)]
pub struct PacketRecords {
    keys: Vec<Part>,
    inputs: Vec<Part>,
    features: Vec<Feature>,
    limits: RecordLimits,
    /// The key is the tuple: packets without one are in no group.
    of_tuple: bool,
    /// Both directions are one group: the key is the tuple.
    is_flow: bool,
    columns: Vec<Column>,
    layers: Vec<String>,
}

impl PacketRecords {
    /// Records of these features, grouped by these fields: names, separated by commas. The keys `5tuple` and `flow` are the tuple of
    /// packets; `flow` joins both directions.
    ///
    /// # Errors
    /// A name that is no field of packets with one value, or too many of them.
    pub fn of(compiler: &Compiler, key: &str, features: &str, limits: RecordLimits) -> Result<Self, String> {
        let names = Names::of_packets(compiler);
        let list =
            |text: &str| -> Vec<String> { text.split(',').map(|name| name.trim().to_string()).collect() };
        let is_flow = key.trim() == FLOW;
        let key_names: Vec<String> = match key.trim() {
            FLOW | "5tuple" => TUPLE.iter().map(|name| (*name).to_string()).collect(),
            _ => list(key),
        };
        let mut keys: Vec<Part> = vec![];
        for name in &key_names {
            keys.push(part_of(&names, find(&names, name, "key")?, words_of(&keys)));
        }
        let mut made = Self {
            columns: columns_before(&names, &key_names, is_flow)?,
            inputs: vec![],
            features: vec![],
            layers: layer_names(compiler.stack()),
            keys,
            limits,
            of_tuple: matches!(key.trim(), FLOW | "5tuple"),
            is_flow,
        };
        for name in list(features) {
            made.add_feature(&names, &name)?;
        }
        let reason = "why the record is complete: count, age, idle, end, memory (there were too many groups or numbers)";
        made.columns.push(Column::new(
            "missing",
            ValueType::Unsigned,
            "values that packets do not have; they are 0 in lists",
        ));
        made.columns.push(Column::new("reason", ValueType::Text, reason));
        Ok(made)
    }

    fn add_feature(&mut self, names: &Names, name: &str) -> Result<(), String> {
        let feature = match name {
            "ts" => Feature::Time,
            "iat" => Feature::Gap,
            "dir" if self.is_flow => Feature::Direction,
            "dir" => return Err(format!("the feature `dir` needs the key `{FLOW}`")),
            name => {
                let field =
                    OTHER_NAMES.iter().find(|(other, _)| *other == name).map_or(name, |(_, field)| field);
                let at = find(names, field, "feature")?;
                let part = part_of(names, at, words_of(&self.inputs));
                if part.words > 1 {
                    return Err(format!("the feature `{name}` is no number: lists have numbers"));
                }
                self.inputs.push(part);
                Feature::Field(self.inputs.len() - 1)
            }
        };
        let known = FEATURES.iter().find(|(known, _)| *known == name).map(|(_, doc)| (*doc).to_string());
        let doc = known.unwrap_or_else(|| format!("{name} of each packet"));
        self.features.push(feature);
        // The record has a time of its own.
        let name = if name == "ts" { "times" } else { name };
        self.columns.push(Column {
            name: name.to_string().into(),
            value_type: ValueType::Numbers,
            doc: doc.into(),
        });
        Ok(())
    }

    /// The columns of its rows.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The question for the records of packets that match a filter.
    ///
    /// # Errors
    /// If more values of packets are used than a program has room for.
    pub fn question(&self, filter: &str) -> Result<Question, String> {
        let mut values = ValueList::default();
        for part in self.keys.iter().chain(&self.inputs) {
            if let Source::Packet(of) = part.source
                && !values.add(of)
            {
                return Err(format!("records use at most {} fields of packets", ValueList::MAX));
            }
        }
        let need = Need { packets: true, values, ..Need::default() };
        let ask = Ask { filter: filter.to_string(), need, want: Want::Packets };
        let shared = Arc::new(self.clone());
        let make = move || QuestionWorker::Records(Box::new(RecordGrouper::new(Arc::clone(&shared))));
        Ok(Question { make: Some(Arc::new(make)), ..Question::new(ask, Shape::default()) })
    }

    /// Where the words of a part of the tuple are in the key.
    fn tuple_words(&self, of: TuplePart) -> std::ops::Range<usize> {
        let part = self.keys.iter().find(|part| part.source == Source::Packet(ValueOf::Tuple(of)));
        part.map_or(0..0, |part| part.word..part.word + part.words)
    }
}

fn find(names: &Names, name: &str, what: &str) -> Result<usize, String> {
    names.find(name).ok_or_else(|| {
        let others = FEATURES.iter().chain(OTHER_NAMES).map(|(name, _)| *name);
        let known = names.fields().iter().map(|field| field.name.as_str()).chain(others);
        match suggest(name, known) {
            Some(near) => format!("there is no {what} `{name}`: is `{near}` meant?"),
            None => format!("there is no {what} `{name}`: `weir fields` lists the fields of packets"),
        }
    })
}

fn layer_names(stack: &Stack) -> Vec<String> {
    stack.layers.iter().map(|layer| layer.protocol.filter_name.clone()).collect()
}

fn columns_before(names: &Names, keys: &[String], is_flow: bool) -> Result<Vec<Column>, String> {
    /// Names of the tuple's parts in records of both directions, as in other rows of connections.
    const OF_FLOW: &[&str] = &["id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p", "proto"];
    let mut columns = vec![
        Column::new("ts", ValueType::Time, "time of the record's first packet"),
        Column::new("duration", ValueType::Interval, "time from the first packet to the last"),
    ];
    for (at, key) in keys.iter().enumerate() {
        let field = &names.fields()[find(names, key, "key")?];
        let name = OF_FLOW.get(at).filter(|_| is_flow).map_or(key.clone(), |name| (*name).to_string());
        columns.push(Column {
            name: name.into(),
            value_type: field.value_type,
            doc: field.doc.clone().into(),
        });
    }
    columns.push(Column::new("packets", ValueType::Unsigned, "number of packets in the lists"));
    Ok(columns)
}

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
    fn new(shared: Arc<PacketRecords>) -> Self {
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
