//! Records from the names of their keys and features.

use super::grouper::RecordGrouper;
use super::shared::{Feature, PacketRecords, RecordLimits};
use crate::ask::compile::Compiler;
use crate::ask::group_key::GroupKey;
use crate::ask::names::{Names, keys_of, part_of};
use crate::ask::question::Question;
use crate::pipeline::packet_question;
use crate::rows::values::{key_type, words_of};
use std::sync::Arc;
use weir_lang::aggregate::{End, Key};
use weir_lang::diag::{Diagnostic, Diagnostics, Sources};
use weir_lang::filter::Catalog;
use weir_lang::model::Stack;
use weir_packet::{Column, ValueType};

/// Features that are no fields.
const FEATURES: &[(&str, Feature, &str)] = &[
    ("ts", Feature::Time, "capture times, nanoseconds since 1970"),
    ("iat", Feature::Gap, "times since the packet before, nanoseconds; 0 for the first one"),
    (
        "dir",
        Feature::Direction,
        "0 for packets in the direction of the first one, 1 for others; needs the key flow or hosts",
    ),
];
/// Other names of fields among features.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("len", "frame.len"),
    ("flags", "tcp.flags"),
    ("seq", "tcp.seq"),
    ("ack", "tcp.ack"),
    ("ttl", "ip.ttl"),
];

impl PacketRecords {
    /// Records of these features, grouped by these fields. Both texts are names separated by commas, in the
    /// form of the keys of aggregates; the keys `flow` and `hosts` join both directions of a connection.
    /// Without `features`, lists have the times between packets, lengths, and with such a key directions.
    ///
    /// # Errors
    /// A name that is no field of packets with one value, or too many of them.
    pub fn of(
        compiler: &Compiler,
        key: &str,
        features: Option<&str>,
        limits: RecordLimits,
    ) -> Result<Self, Diagnostics> {
        let names = Names::of_packets(compiler);
        let key = GroupKey::of(&names, key)?;
        let mut made = Self {
            columns: columns_before(&names, &key),
            inputs: vec![],
            features: vec![],
            layers: layer_names(compiler.stack()),
            key,
            limits,
        };
        let features = features.unwrap_or(match made.key.ends {
            Some(_) => "iat,len,dir",
            None => "iat,len",
        });
        let (names, others) = with_features(names);
        for key in keys_of(&names, "features", features, &[])? {
            made.add_feature(&names, others, &key)?;
        }
        let reason = "why the record is complete: count, age, idle, end, memory (there were too many groups or numbers)";
        let all: Vec<&str> = made.columns.iter().map(|column| &*column.name).collect();
        if let Some((_, name)) = all.iter().enumerate().find(|(at, name)| all[..*at].contains(name)) {
            return Err(wrong(format!("two columns are called `{name}`")));
        }
        made.columns.push(Column::new(
            "missing",
            ValueType::Unsigned,
            "values that packets do not have; they are 0 in lists",
        ));
        made.columns.push(Column::new("reason", ValueType::Text, reason));
        Ok(made)
    }

    /// Adds a feature; those from `others` on are no fields.
    fn add_feature(&mut self, names: &Names, others: usize, key: &Key) -> Result<(), Diagnostics> {
        let doc = match FEATURES.get(key.field.wrapping_sub(others)) {
            Some((name, Feature::Direction, _)) if self.key.ends.is_none() => {
                return Err(wrong(format!("the feature `{name}` needs the key `flow` or `hosts`")));
            }
            Some((_, feature, doc)) => {
                self.features.push(feature.clone());
                (*doc).to_string()
            }
            _ if key.prefix.is_some() => {
                return Err(wrong(format!(
                    "the feature `{}` has a prefix: lists have whole values",
                    key.name
                )));
            }
            None => {
                let part = part_of(names, key.field, words_of(&self.inputs));
                let is_number = matches!(
                    part.value_type,
                    ValueType::Unsigned | ValueType::Bool | ValueType::Interval | ValueType::Time
                );
                if !is_number {
                    return Err(wrong(format!(
                        "the feature `{}` is no number: lists have numbers",
                        key.name
                    )));
                }
                self.features.push(Feature::Field(self.inputs.len()));
                self.inputs.push(part);
                format!("{} of each packet", key.name)
            }
        };
        // The record has a time of its own.
        let name = if key.name == "ts" { "times" } else { &key.name };
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
        let shared = Arc::new(self.clone());
        let make = move || Box::new(RecordGrouper::new(Arc::clone(&shared))) as _;
        packet_question(filter, self.key.parts.iter().chain(&self.inputs), make)
    }
}

fn layer_names(stack: &Stack) -> Vec<String> {
    stack.layers.iter().map(|layer| layer.protocol.filter_name.clone()).collect()
}

fn columns_before(names: &Names, key: &GroupKey) -> Vec<Column> {
    let mut columns = vec![
        Column::new("ts", ValueType::Time, "time of the record's first packet"),
        Column::new("duration", ValueType::Interval, "time from the first packet to the last"),
    ];
    for part in &key.keys {
        let field = &names.fields()[part.field];
        columns.push(Column {
            name: name_of(part).to_string().into(),
            value_type: key_type(part.prefix, field.value_type),
            doc: field.doc.clone().into(),
        });
    }
    columns.push(Column::new("packets", ValueType::Unsigned, "number of packets in the lists"));
    columns
}

/// The name of a part's column. In records of both directions, the first packet says who begins, as in other
/// rows of connections.
fn name_of(part: &Key) -> &str {
    match (part.end, part.name.as_str()) {
        (Some(End::Sender), "src") => "id.orig_h",
        (Some(End::Sender), "sport") => "id.orig_p",
        (Some(End::Receiver), "dst") => "id.resp_h",
        (Some(End::Receiver), "dport") => "id.resp_p",
        (_, name) => name,
    }
}

/// The names of features: those of packets, with other names for some of them, and from the index on that is
/// returned those of [`FEATURES`].
fn with_features(mut names: Names) -> (Names, usize) {
    for (other, field) in OTHER_NAMES {
        if let Some(at) = names.find(field) {
            names.fields[at].aliases.push((*other).to_string());
        }
    }
    let others = names.fields.len();
    for (name, _, doc) in FEATURES {
        names.add(name, ValueType::Unsigned, doc);
    }
    (names, others)
}

fn wrong(message: String) -> Diagnostics {
    Diagnostics { sources: Sources::new(), list: vec![Diagnostic::error("W0134", message)] }
}
