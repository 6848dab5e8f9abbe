//! Thresholds of a recorder: the packets of a group of an aggregate are dumped while the group's rows come.
//!
//! A group is named by the values of its key. The dump has the packets with these values in both directions:
//! `ip.dst` counts as `ip.addr`, so that it has whole conversations.

use crate::asking::PendingAsker;
use crate::dump_queue::DumpParams;
use crate::options::{Around, RecorderOptions};
use std::fmt::Write as _;
use std::time::Duration;
use weir::aggregate::{AggregateRows, Aggregation, RecordSource};
use weir::packet::{Batch, Timestamp, Value, ValueType};
use weir::{Compiler, Item, Next, Question, RunEnd, TakeItems};
use weir_questions::messages::Failure;
use weir_questions::run::Run;

/// Memory for the groups of a threshold, bytes.
const MEMORY_MAX: usize = 64 << 20;

/// Adds the thresholds that the options state.
///
/// # Errors
/// Their mistakes.
pub fn ask(options: &RecorderOptions, run: &mut Run<'_>, asking: &PendingAsker) -> Result<(), Failure> {
    if run.set().input.bpf && !options.threshold.is_empty() {
        return Err(Failure::new("--threshold: keys and filters are in the syntax of Weir: leave --bpf out"));
    }
    for (number, text) in options.threshold.iter().enumerate() {
        let compiler = run.set().compiler.clone();
        let made = Threshold::new((number, text), options.around()?, &compiler, asking.clone())?;
        let (threshold, question) = made;
        run.subscribe(vec![question], threshold)?;
    }
    Ok(())
}

/// An aggregate whose groups are dumped.
struct Threshold {
    text: String,
    filter: String,
    around: Around,
    /// For each part of the key, the forms of a condition on its value.
    keys: Vec<KeyPart>,
    rows: AggregateRows,
    dumps: PendingAsker,
    /// The number among the thresholds, from 0.
    number: usize,
    /// Rows without a dump: of groups that had no room, or whose values no filter can compare.
    left_out: u64,
}

/// A part of the key.
struct KeyPart {
    /// The column.
    name: String,
    /// Fields of filters: the value is in one of them.
    fields: Vec<&'static str>,
    own_field: String,
}

/// Fields for words of aggregates, and for fields of one direction.
const FIELDS: &[(&str, &[&str])] = &[
    ("src", &["ip.addr", "ipv6.addr"]),
    ("dst", &["ip.addr", "ipv6.addr"]),
    ("sport", &["tcp.port", "udp.port", "sctp.port"]),
    ("dport", &["tcp.port", "udp.port", "sctp.port"]),
    ("ip.src", &["ip.addr"]),
    ("ip.dst", &["ip.addr"]),
    ("ipv6.src", &["ipv6.addr"]),
    ("ipv6.dst", &["ipv6.addr"]),
    ("eth.src", &["eth.addr"]),
    ("eth.dst", &["eth.addr"]),
    ("tcp.srcport", &["tcp.port"]),
    ("tcp.dstport", &["tcp.port"]),
    ("udp.srcport", &["udp.port"]),
    ("udp.dstport", &["udp.port"]),
    ("sctp.srcport", &["sctp.port"]),
    ("sctp.dstport", &["sctp.port"]),
];

/// The word of aggregates whose value is the name of a layer.
const PROTO: &str = "proto";

impl Threshold {
    /// The threshold `AGGREGATE [where FILTER]`, and its question.
    ///
    /// # Errors
    /// The mistakes of the text; an aggregate without windows; a key that is no field of filters.
    fn new(
        (number, text): (usize, &str),
        around: Around,
        compiler: &Compiler,
        dumps: PendingAsker,
    ) -> Result<(Self, Question), Failure> {
        let (aggregate, filter) = weir::lang::aggregate::split_filter(text);
        let made = Aggregation::of(compiler, aggregate, RecordSource::Packets, MEMORY_MAX)?;
        if !made.has_windows() || !made.is_selective() {
            let example = "for example `count() by ip.dst every 1s having count > 1000`";
            return Err(Failure::new(format!("--threshold {text}: give windows and a bound, {example}")));
        }
        let key = |name: &str| {
            let field = name.split('/').next().unwrap_or(name);
            let fields = FIELDS.iter().find(|(known, _)| *known == field).map(|(_, fields)| fields.to_vec());
            if fields.is_none() && field != PROTO && compiler.check_filter(field, false).is_err() {
                let message = format!("--threshold {text}: no filter can name the key `{name}`");
                return Err(Failure::new(message));
            }
            let value_type =
                made.columns().iter().find(|column| column.name == name).map(|column| column.value_type);
            let is_comparable = !matches!(
                value_type,
                Some(ValueType::Time | ValueType::Interval | ValueType::Fraction | ValueType::Bytes)
            );
            if !is_comparable {
                let message =
                    format!("--threshold {text}: a filter for packets cannot compare the key `{name}`");
                return Err(Failure::new(message));
            }
            let own_field = field.to_string();
            Ok(KeyPart { name: name.to_string(), fields: fields.unwrap_or_default(), own_field })
        };
        let keys = made.key_names().map(key).collect::<Result<Vec<_>, _>>()?;
        let question = made.question(filter).map_err(Failure::new)?;
        let rows = AggregateRows::new(&made, compiler.stack(), None);
        let (text, filter) = (text.to_string(), filter.trim().to_string());
        Ok((Self { text, filter, around, keys, rows, dumps, number, left_out: 0 }, question))
    }
}

impl TakeItems for Threshold {
    fn take(&mut self, _: usize, item: Item<'_>) -> Next {
        let Self { text, number, filter, around, keys, rows, dumps, left_out } = self;
        let Item::Pipeline(part) = item else { return Next::Go };
        rows.take_part(&part, &mut |batch| {
            let Some(dumps) = dumps.get() else { return };
            for row in 0..batch.rows() {
                let Some(group) = Group::of(batch, row, keys) else {
                    *left_out += 1;
                    continue;
                };
                let lasts = group.window + around.after;
                // Groups of several thresholds may have the same name.
                let name = if *number == 0 {
                    group.name.clone()
                } else {
                    format!("{} ({})", group.name, *number + 1)
                };
                dumps.begin(&name.clone(), Some(lasts), || {
                    let parts: Vec<&str> = [filter.as_str(), &group.filter]
                        .into_iter()
                        .filter(|part| !part.is_empty())
                        .collect();
                    DumpParams {
                        filter: parts
                            .iter()
                            .map(|part| format!("({part})"))
                            .collect::<Vec<_>>()
                            .join(" and "),
                        from: Timestamp(group.begin.0.saturating_sub(around.before.as_nanos() as i64)),
                        reason: format!("weir: {} exceeds the threshold `{text}`", group.name),
                        name,
                    }
                });
            }
        });
        Next::Go
    }

    fn finish(&mut self, _: Option<RunEnd<'_>>) {
        if self.left_out > 0 {
            say!("weir: --threshold {}: {} rows have no dump: too many groups", self.text, self.left_out);
        }
    }
}

/// A group that exceeds its threshold.
struct Group {
    name: String,
    filter: String,
    begin: Timestamp,
    window: Duration,
}

impl Group {
    /// The group of a row. `None`: the row stands for groups that had no room.
    fn of(batch: &Batch, row: usize, keys: &[KeyPart]) -> Option<Self> {
        let value = |column: usize| batch.row(row).cell(column).value().into_owned();
        let (Value::Time(begin), Value::Time(end)) = (value(0), value(1)) else { return None };
        let values: Vec<Value<'static>> = (0..keys.len()).map(|key| value(2 + key)).collect();
        let is_other = (0..batch.columns()).rev().take(2).any(|column| value(column) == Value::Bool(true));
        if is_other {
            return None;
        }
        let proto = keys.iter().zip(&values).find_map(|(key, value)| match value {
            Value::Text(text) if key.own_field == PROTO => Some(text.as_ref()),
            _ => None,
        });
        let (mut name, mut filter) = (String::new(), String::new());
        for (key, value) in keys.iter().zip(&values) {
            let (shown, condition) = key.condition(value, proto)?;
            let _ = write!(name, "{}{} {shown}", if name.is_empty() { "" } else { ", " }, key.name);
            if let Some(condition) = condition {
                let between = if filter.is_empty() { "" } else { " and " };
                let _ = write!(filter, "{between}{condition}");
            }
        }
        if name.is_empty() {
            name = "all packets".to_string();
        }
        let window = Duration::from_nanos(end.0.saturating_sub(begin.0).try_into().unwrap_or(0));
        Some(Self { name, filter, begin, window })
    }
}

impl KeyPart {
    /// A value as text, and the condition that a packet has the value, if there is one. `proto`: the protocol
    /// in the same key. `None`: no filter can say that.
    fn condition(&self, value: &Value<'_>, proto: Option<&str>) -> Option<(String, Option<String>)> {
        let literal = match value {
            Value::Absent => {
                let fields =
                    if self.fields.is_empty() { vec![self.own_field.as_str()] } else { self.fields.clone() };
                let absent: Vec<String> = fields.iter().map(|field| format!("not {field}")).collect();
                let condition = (self.own_field != PROTO).then(|| absent.join(" and "));
                return Some(("-".to_string(), condition));
            }
            Value::Unsigned(number) => number.to_string(),
            Value::Bool(is_set) => u8::from(*is_set).to_string(),
            Value::Address(address) => address.to_string(),
            Value::Mac(mac) => mac.map(|byte| format!("{byte:02x}")).join(":"),
            Value::Text(text) if self.own_field == PROTO => {
                return Some((text.to_string(), Some(text.to_string())));
            }
            // Networks are texts.
            Value::Text(text) if self.name.contains('/') => text.to_string(),
            Value::Text(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
            _ => return None,
        };
        let is_v6 = matches!(value, Value::Address(address) if address.is_ipv6())
            || matches!(value, Value::Text(text) if text.contains(':'));
        let fits = |field: &&str| match *field {
            "ip.addr" => !is_v6,
            "ipv6.addr" => is_v6,
            port => proto.is_none_or(|proto| port.strip_suffix(".port").is_none_or(|of| of == proto)),
        };
        let fields: Vec<&str> = match &self.fields[..] {
            [] => vec![&self.own_field],
            fields => fields.iter().copied().filter(fits).collect(),
        };
        let one = |field: &str| format!("{field} == {literal}");
        let condition = match &fields[..] {
            // The ports of other protocols, such as types of ICMP, are no fields of this kind.
            [] => None,
            [field] => Some(one(field)),
            fields => {
                Some(format!("({})", fields.iter().map(|field| one(field)).collect::<Vec<_>>().join(" or ")))
            }
        };
        Some((literal, condition))
    }
}
