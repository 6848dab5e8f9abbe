//! A naive model of aggregates: it keeps all records, and computes each result from them.

use std::collections::{BTreeMap, BTreeSet};
use weir::packet::Cell;

/// A value, as rows show it.
#[derive(Debug, Clone, PartialEq)]
pub enum Datum {
    Absent,
    /// A number, a truth, a time, or an interval: the latter two in nanoseconds.
    Whole(i128),
    Fraction(f64),
    /// A text, an address, or bytes.
    Text(String),
    List(Vec<u64>),
}

impl Datum {
    pub fn of(cell: Cell<'_>) -> Self {
        match cell {
            Cell::Absent => Self::Absent,
            Cell::Bool(truth) => Self::Whole(i128::from(truth)),
            Cell::Unsigned(number) | Cell::Interval(number) => Self::Whole(i128::from(number)),
            Cell::Time(time) => Self::Whole(i128::from(time.0)),
            Cell::Fraction(fraction) => Self::Fraction(fraction),
            Cell::Address(address) => Self::Text(address.to_string()),
            Cell::Numbers(numbers) => Self::List(numbers.to_vec()),
            Cell::Text(text) => Self::Text(text.to_string()),
            Cell::Texts(texts) => Self::Text(texts.iter().collect::<Vec<_>>().join(",")),
            Cell::Mac(mac) => Self::Text(format!("{mac:?}")),
            Cell::Bytes(bytes) => Self::Text(format!("{bytes:?}")),
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(number) => Some(*number as f64),
            Self::Fraction(fraction) => Some(*fraction),
            _ => None,
        }
    }

    /// The address without the bits after its prefix, with the prefix.
    fn cut(&self, bits: Option<u8>) -> Self {
        let (Self::Text(text), Some(bits)) = (self, bits) else { return self.clone() };
        let address: std::net::IpAddr = text.parse().expect("only addresses have prefixes");
        let (bytes, bits) = match address {
            std::net::IpAddr::V4(v4) => (v4.octets().to_vec(), bits.min(32)),
            std::net::IpAddr::V6(v6) => (v6.octets().to_vec(), bits),
        };
        let kept = |(at, byte): (usize, &u8)| match usize::from(bits).saturating_sub(at * 8) {
            0 => 0,
            kept @ 1..8 => byte >> (8 - kept) << (8 - kept),
            _ => *byte,
        };
        let bytes: Vec<u8> = bytes.iter().enumerate().map(kept).collect();
        let address = match <[u8; 4]>::try_from(&bytes[..]) {
            Ok(v4) => std::net::IpAddr::from(v4),
            Err(_) => <[u8; 16]>::try_from(&bytes[..]).expect("4 or 16 bytes").into(),
        };
        Self::Text(format!("{address}/{bits}"))
    }
}

/// A record: its time, and the values that it has.
#[derive(Debug, Clone, Default)]
pub struct Record {
    pub time: i64,
    pub values: BTreeMap<String, Datum>,
}

impl Record {
    fn value(&self, name: &str) -> Datum {
        self.values.get(name).cloned().unwrap_or(Datum::Absent)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Function {
    Count,
    Sum,
    Min,
    Max,
    Mean,
    Rate,
    Quantile(f64),
    Distinct,
    First,
    Last,
    Histogram(Vec<u64>),
}

/// The type of a field, as far as it changes results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Number,
    Fraction,
    Interval,
    Time,
    Other,
}

/// A field, and its type.
pub type Field = (String, Kind);

/// An aggregate.
#[derive(Debug, Clone)]
pub struct Spec {
    pub measures: Vec<(Function, Option<Field>)>,
    pub keys: Vec<(String, Option<u8>)>,
    /// Length and step.
    pub window: Option<(i64, i64)>,
    /// A measure, whether the condition is negated, a comparison, and a number.
    pub having: Option<(usize, bool, &'static str, u64)>,
    /// Groups, and a measure.
    pub top: Option<(usize, usize)>,
}

impl Spec {
    pub fn text(&self) -> String {
        let measure = |(at, (function, field)): (usize, &(Function, Option<Field>))| {
            let field = field.as_ref().map_or("", |(name, _)| name);
            let (name, more) = match function {
                Function::Quantile(0.5) => ("median".to_string(), String::new()),
                Function::Quantile(share) => ("quantile".to_string(), format!(", {share}")),
                Function::Histogram(bounds) => {
                    ("histogram".to_string(), bounds.iter().map(|bound| format!(", {bound}")).collect())
                }
                other => (format!("{other:?}").to_lowercase(), String::new()),
            };
            format!("{name}({field}{more}) as m{at}")
        };
        let key = |(at, (name, bits)): (usize, &(String, Option<u8>))| {
            let prefix = bits.map_or(String::new(), |bits| format!("/{bits}"));
            format!("{name}{prefix} as k{at}")
        };
        let mut text = self.measures.iter().enumerate().map(measure).collect::<Vec<_>>().join(", ");
        if !self.keys.is_empty() {
            let keys: Vec<String> = self.keys.iter().enumerate().map(key).collect();
            text += &format!(" by {}", keys.join(", "));
        }
        if let Some((length, step)) = self.window {
            text += &format!(" over {length}ns every {step}ns");
        }
        if let Some((measure, is_negated, comparison, number)) = self.having {
            let not = if is_negated { "not " } else { "" };
            text += &format!(" having {not}(m{measure} {comparison} {number})");
        }
        if let Some((count, measure)) = self.top {
            text += &format!(" top {count} by m{measure}");
        }
        text
    }
}

/// What a result has to be.
#[derive(Debug, Clone)]
pub enum Expected {
    Is(Datum),
    /// Computed with other roundings.
    Near(f64),
    /// A quantile, whose error is bounded.
    Quantile(f64),
    /// A sum beyond 2⁶⁴ − 1.
    Saturated,
    /// The number of different values, which may be an estimate beyond 1 024.
    Distinct(i128),
    /// Counts of buckets, and where the buckets begin.
    Buckets(Vec<u64>, Vec<u64>),
}

impl Expected {
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Is(datum) => datum.number(),
            Self::Near(number) | Self::Quantile(number) => Some(*number),
            Self::Distinct(count) => Some(*count as f64),
            Self::Saturated => Some(u64::MAX as f64),
            Self::Buckets(..) => None,
        }
    }

    /// Whether results of a row have this value, first the next one. `mark`: what the row says of the result,
    /// if it is not exact.
    pub fn agrees(&self, got: &mut dyn Iterator<Item = &Datum>, mark: &str) -> bool {
        let got_one = got.next().unwrap_or(&Datum::Absent);
        match (self, got_one.number()) {
            (Self::Is(datum), _) => datum == got_one && mark.is_empty(),
            (Self::Near(number), Some(got)) => (got - number).abs() <= number.abs() * 1e-12,
            (Self::Quantile(number), Some(got)) => (got - number).abs() <= number.abs() / 128.0,
            (Self::Saturated, _) => *got_one == Datum::Whole(i128::from(u64::MAX)) && mark == "saturated",
            (Self::Distinct(count @ 0..=1_024), Some(got)) => mark.is_empty() && got == *count as f64,
            // Six standard deviations.
            (Self::Distinct(count), Some(got)) => {
                mark == "estimated" && (got - *count as f64).abs() <= 0.1 * *count as f64
            }
            (Self::Buckets(counts, from), _) => {
                let list = |datum: Option<&Datum>| match datum {
                    Some(Datum::List(list)) => list.clone(),
                    _ => vec![],
                };
                list(Some(got_one)) == *counts && list(got.next()) == *from
            }
            _ => false,
        }
    }
}

/// A row: its window, its key, and its results.
#[derive(Debug)]
pub struct Row {
    pub window: Option<(i64, i64)>,
    pub key: Vec<Datum>,
    pub results: Vec<Expected>,
    /// The window ends after the last record: the end of the run may come before.
    pub is_optional: bool,
}

/// The rows of an aggregate, but for `top`, in any order.
pub fn rows(spec: &Spec, records: &[Record]) -> Vec<Row> {
    let mut rows = vec![];
    let last = records.iter().map(|record| record.time).max().unwrap_or(0);
    let windows: BTreeSet<Option<(i64, i64)>> = match spec.window {
        None => [None].into(),
        Some((length, step)) => {
            let ends = |record: &Record| {
                let first = (record.time.div_euclid(step) + 1) * step;
                (0..length / step).map(move |n| Some((first + n * step - length, first + n * step)))
            };
            records.iter().flat_map(ends).collect()
        }
    };
    for window in windows {
        let is_in = |record: &&Record| window.is_none_or(|(start, end)| (start..end).contains(&record.time));
        let inside: Vec<&Record> = records.iter().filter(is_in).collect();
        let times = || inside.iter().map(|record| record.time);
        let length = match spec.window {
            Some((length, _)) => length,
            None => times().max().unwrap_or(0) - times().min().unwrap_or(0),
        };
        let mut groups: Vec<(Vec<Datum>, Vec<&Record>)> = vec![];
        for record in inside {
            let key: Vec<Datum> =
                spec.keys.iter().map(|(name, bits)| record.value(name).cut(*bits)).collect();
            match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, group)) => group.push(record),
                None => groups.push((key, vec![record])),
            }
        }
        for (key, group) in groups {
            let result = |(function, field): &(Function, Option<Field>)| {
                result(function, field.as_ref(), &group, length as f64 / 1e9)
            };
            let results: Vec<Expected> = spec.measures.iter().map(result).collect();
            let holds = |(measure, is_negated, comparison, number): (usize, bool, &str, u64)| {
                let holds = results[measure].number().is_some_and(|got| match comparison {
                    "<" => got < number as f64,
                    ">=" => got >= number as f64,
                    "==" => got == number as f64,
                    _ => got != number as f64,
                });
                holds != is_negated
            };
            if spec.having.is_none_or(holds) {
                let is_optional = window.is_some_and(|(_, end)| end - spec.window.unwrap_or((0, 0)).1 > last);
                rows.push(Row { window, key, results, is_optional });
            }
        }
    }
    rows
}

fn result(function: &Function, field: Option<&Field>, group: &[&Record], seconds: f64) -> Expected {
    let per_second = |number: f64| match seconds > 0.0 {
        true => Expected::Near(number / seconds),
        false => Expected::Is(Datum::Absent),
    };
    let Some((name, kind)) = field else {
        return match function {
            Function::Rate => per_second(group.len() as f64),
            _ => Expected::Is(Datum::Whole(group.len() as i128)),
        };
    };
    let mut timed: Vec<(i64, Datum)> = group.iter().map(|record| (record.time, record.value(name))).collect();
    timed.retain(|(_, value)| *value != Datum::Absent);
    let present: Vec<&Datum> = timed.iter().map(|(_, value)| value).collect();
    let whole: Vec<i128> = present
        .iter()
        .filter_map(|datum| if let Datum::Whole(n) = datum { Some(*n) } else { None })
        .collect();
    let numbers: Vec<f64> = present.iter().filter_map(|datum| datum.number()).collect();
    let is_whole = *kind != Kind::Fraction;
    let sum: f64 = if is_whole { whole.iter().sum::<i128>() as f64 } else { numbers.iter().sum() };
    let or_absent = |value: Option<Datum>| Expected::Is(value.unwrap_or(Datum::Absent));
    let chosen = |at: Option<usize>| or_absent(at.map(|at| present[at].clone()));
    let places = || 0..present.len();
    match function {
        Function::Count => Expected::Is(Datum::Whole(present.len() as i128)),
        Function::Sum if is_whole => match u64::try_from(whole.iter().sum::<i128>()) {
            Ok(sum) => Expected::Is(Datum::Whole(i128::from(sum))),
            Err(_) => Expected::Saturated,
        },
        Function::Sum => Expected::Near(sum),
        Function::Min if is_whole => chosen(places().min_by_key(|at| whole[*at])),
        Function::Max if is_whole => chosen(places().max_by_key(|at| whole[*at])),
        Function::Min => chosen(places().min_by(|a, b| numbers[*a].total_cmp(&numbers[*b]))),
        Function::Max => chosen(places().max_by(|a, b| numbers[*a].total_cmp(&numbers[*b]))),
        Function::Mean if numbers.is_empty() => or_absent(None),
        Function::Mean if matches!(kind, Kind::Interval | Kind::Time) => {
            or_absent(Some(Datum::Whole(whole.iter().sum::<i128>().div_euclid(whole.len() as i128))))
        }
        Function::Mean => Expected::Near(sum / numbers.len() as f64),
        Function::Rate => per_second(if *kind == Kind::Interval { sum / 1e9 } else { sum }),
        Function::Quantile(share) => {
            let mut sorted = numbers;
            sorted.sort_by(f64::total_cmp);
            let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
            sorted.get(rank - 1).map_or_else(|| or_absent(None), |value| Expected::Quantile(*value))
        }
        Function::Distinct => {
            let different: BTreeSet<String> = present.iter().map(|datum| format!("{datum:?}")).collect();
            Expected::Distinct(different.len() as i128)
        }
        // Of the same time, the first one, and the last one.
        Function::First => chosen(places().min_by_key(|at| timed[*at].0)),
        Function::Last => chosen(places().max_by_key(|at| timed[*at].0)),
        Function::Histogram(bounds) => buckets(bounds, *kind, &whole),
    }
}

fn buckets(bounds: &[u64], kind: Kind, values: &[i128]) -> Expected {
    // Bounds of intervals are written in seconds.
    let unit = if kind == Kind::Interval { 1_000_000_000 } else { 1 };
    let mut from: Vec<u64> = match bounds {
        [] => [0].into_iter().chain((0..64).map(|bit| 1 << bit)).collect(),
        _ => [0].into_iter().chain(bounds.iter().map(|bound| bound * unit)).collect(),
    };
    let is_in = |value: i128, at: usize| {
        value >= i128::from(from[at]) && from.get(at + 1).is_none_or(|next| value < i128::from(*next))
    };
    let count = |at: usize| values.iter().filter(|value| is_in(**value, at)).count() as u64;
    let mut counts: Vec<u64> = (0..from.len()).map(count).collect();
    if bounds.is_empty() {
        // Only the buckets from the first one to the last one with values are reported.
        let end = counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
        (counts, from) = (counts[first..end].to_vec(), from[first..end].to_vec());
    }
    Expected::Buckets(counts, from)
}
