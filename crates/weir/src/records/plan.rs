//! Records from the names of their keys and features.

use super::grouper::RecordGrouper;
use super::shared::{Feature, PacketRecords, RecordLimits};
use crate::compile::{Ask, Compiler};
use crate::item::Shape;
use crate::names::{Names, part_of};
use crate::question::Question;
use crate::question_worker::QuestionWorker;
use crate::values::{Part, Source, words_of};
use std::sync::Arc;
use weir_compile::{Need, ValueList};
use weir_engine::plan::Want;
use weir_lang::diag::suggest;
use weir_lang::filter::Catalog;
use weir_lang::model::Stack;
use weir_packet::{Column, ValueType};

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
        let all: Vec<&str> = made.columns.iter().map(|column| &*column.name).collect();
        if let Some((_, name)) = all.iter().enumerate().find(|(at, name)| all[..*at].contains(name)) {
            return Err(format!("two columns are called `{name}`"));
        }
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
        let need = Need { packets: true, at_once: true, values, ..Need::default() };
        let ask = Ask { filter: filter.to_string(), need, want: Want::Packets };
        let shared = Arc::new(self.clone());
        let make = move || QuestionWorker::Records(Box::new(RecordGrouper::new(Arc::clone(&shared))));
        Ok(Question { make: Some(Arc::new(make)), ..Question::new(ask, Shape::default()) })
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
