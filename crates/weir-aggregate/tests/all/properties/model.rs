//! The naive model: all records in a list, sorted and summed anew for each window.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use weir_aggregate::{
    Buckets, Comparison, Function, Having, Kind, Measure, PlanParams, QUANTILE_RELATIVE_ERROR, Scalar, Value,
    Windows,
};

use crate::properties::random::{OwnedRecord, Step, inputs};

pub struct ModelWindow {
    pub start_ns: i64,
    pub end_ns: i64,
    pub rows: Vec<ModelRow>,
}

pub struct ModelRow {
    pub key: Vec<u64>,
    pub key_present: u64,
    pub values: Vec<Expected>,
}

/// A result of the model.
#[derive(Debug, Clone)]
pub enum Expected {
    Value {
        value: Value,
        is_exact: bool,
    },
    /// The exact number of different values, of which the result is an estimate.
    Distinct(u64),
    /// The exact quantile, of which the result is an estimate.
    Quantile(Scalar),
}

impl Expected {
    pub fn agrees(&self, value: &Value, is_exact: bool) -> bool {
        match (self, value) {
            (
                Self::Value { value: Value::Scalar(Scalar::Fraction(a)), is_exact: e },
                Value::Scalar(Scalar::Fraction(b)),
            ) => (a - b).abs() <= a.abs() * 1e-12 && *e == is_exact,
            (Self::Value { value: expected, is_exact: e }, value) => expected == value && *e == is_exact,
            // Six standard deviations, and rounding.
            (Self::Distinct(count), Value::Scalar(Scalar::Number(estimate))) => {
                !is_exact && estimate.abs_diff(*count) as f64 <= *count as f64 * 6.0 * 1.04 / 64.0 + 0.5
            }
            (Self::Quantile(exact), Value::Scalar(estimate)) => {
                let (a, b) = (float(*exact), float(*estimate));
                exact.kind() == estimate.kind()
                    && (a - b).abs() <= a.abs() * QUANTILE_RELATIVE_ERROR
                    && (!is_exact || a == b)
            }
            _ => false,
        }
    }

    fn scalar(&self) -> Option<Scalar> {
        match self {
            Self::Value { value: Value::Scalar(scalar), .. } => Some(*scalar),
            _ => None,
        }
    }
}

fn float(scalar: Scalar) -> f64 {
    match scalar {
        Scalar::Fraction(value) => value,
        _ => scalar.word() as f64,
    }
}

pub struct Outcome {
    pub windows: Vec<ModelWindow>,
    pub late: u64,
    pub ahead: u64,
}

/// The windows of a run.
pub fn run(params: &PlanParams, steps: &[Step]) -> Outcome {
    let (length, slide) = match params.windows {
        Windows::None => (0, 0),
        Windows::Tumbling { length_ns } => (i128::from(length_ns), i128::from(length_ns)),
        Windows::Sliding { length_ns, slide_ns } => (i128::from(length_ns), i128::from(slide_ns)),
    };
    let saturated = |time: i128| time.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
    let mut closed_ns = i128::from(i64::MIN) * 2;
    let mut accepted: Vec<(i128, &OwnedRecord)> = vec![];
    let (mut late, mut ahead) = (0, 0);
    for step in steps {
        match step {
            Step::Time(_) if slide == 0 => {}
            Step::Time(time) => {
                let time = i128::from(time.saturating_sub_unsigned(params.lateness_ns));
                closed_ns = closed_ns.max(time.div_euclid(slide) * slide);
            }
            Step::Record(record) if slide == 0 => accepted.push((0, record)),
            Step::Record(record) => {
                let pane_ns = i128::from(record.time_ns).div_euclid(slide) * slide;
                if pane_ns < closed_ns {
                    late += 1;
                } else if pane_ns >= closed_ns + slide * params.limits.panes_max as i128
                    && params.limits.panes_ahead_max == 0
                {
                    ahead += 1;
                } else {
                    accepted.push((pane_ns, record));
                }
            }
        }
    }
    let starts: BTreeSet<i128> = accepted.iter().map(|(pane_ns, _)| *pane_ns).collect();
    let Some(last) = starts.last() else { return Outcome { windows: vec![], late, ahead } };
    let panes = if slide == 0 { 1 } else { length / slide };
    // The last pane of each window with records, unless the run ended before the window.
    let ends: BTreeSet<i128> = starts
        .iter()
        .flat_map(|start| (0..panes).map(move |pane| start + pane * slide))
        .filter(|end| end <= last || *end < closed_ns)
        .collect();
    let windows = ends.into_iter().map(|end| {
        let is_in = |(pane_ns, _): &&(i128, &OwnedRecord)| *pane_ns > end - panes * slide && *pane_ns <= end;
        let records: Vec<_> = if slide == 0 {
            accepted.iter().map(|(_, record)| *record).collect()
        } else {
            accepted.iter().filter(is_in).map(|(_, record)| *record).collect()
        };
        let (start_ns, end_ns) = if slide == 0 {
            let times = || records.iter().map(|record| record.time_ns);
            (times().min().unwrap_or(0), times().max().unwrap_or(0))
        } else {
            (saturated(end + slide - length), saturated(end + slide))
        };
        let seconds = if slide == 0 { end_ns.abs_diff(start_ns) as f64 } else { length as f64 } / 1e9;
        ModelWindow { start_ns, end_ns, rows: rows(params, &records, seconds) }
    });
    Outcome { windows: windows.collect(), late, ahead }
}

fn rows(params: &PlanParams, records: &[&OwnedRecord], seconds: f64) -> Vec<ModelRow> {
    let mut groups: BTreeMap<(Vec<u64>, u64), Vec<&OwnedRecord>> = BTreeMap::new();
    for record in records {
        groups.entry((record.key.clone(), record.key_present)).or_default().push(record);
    }
    let exact_max = params.limits.distinct_exact_max;
    let mut rows: Vec<ModelRow> = groups
        .into_iter()
        .map(|((key, key_present), records)| {
            let values = params.measures.iter().map(|m| evaluate(m, &records, seconds, exact_max)).collect();
            ModelRow { key, key_present, values }
        })
        .filter(|row| params.having.as_ref().is_none_or(|having| holds(having, row)))
        .collect();
    if let Some(top) = params.top {
        rows.sort_by(|a, b| match (a.values[top.by].scalar(), b.values[top.by].scalar()) {
            (Some(a), Some(b)) => order(b, a),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        });
        rows.truncate(top.rows);
    }
    rows
}

fn order(a: Scalar, b: Scalar) -> Ordering {
    match (a, b) {
        (Scalar::Number(a), Scalar::Number(b)) | (Scalar::Interval(a), Scalar::Interval(b)) => a.cmp(&b),
        (Scalar::Time(a), Scalar::Time(b)) => a.cmp(&b),
        (Scalar::Fraction(a), Scalar::Fraction(b)) => a.partial_cmp(&b).expect("no NaN"),
        _ => panic!("{a:?} and {b:?} are of different kinds"),
    }
}

fn holds(having: &Having, row: &ModelRow) -> bool {
    match having {
        Having::Compare { measure, comparison, constant } => {
            let Some(result) = row.values[*measure].scalar() else { return false };
            let order = order(result, *constant);
            match comparison {
                Comparison::Equal => order == Ordering::Equal,
                Comparison::NotEqual => order != Ordering::Equal,
                Comparison::Less => order == Ordering::Less,
                Comparison::AtMost => order != Ordering::Greater,
                Comparison::Greater => order == Ordering::Greater,
                Comparison::AtLeast => order != Ordering::Less,
            }
        }
        Having::And(parts) => parts.iter().all(|part| holds(part, row)),
        Having::Or(parts) => parts.iter().any(|part| holds(part, row)),
        Having::Not(part) => !holds(part, row),
    }
}

fn evaluate(measure: &Measure, records: &[&OwnedRecord], seconds: f64, exact_max: usize) -> Expected {
    let exact = |value| Expected::Value { value, is_exact: true };
    let scalar = |value: Option<Scalar>| exact(value.map_or(Value::Absent, Value::Scalar));
    let Some(number) = measure.input else {
        return match measure.function {
            Function::Count => scalar(Some(Scalar::Number(records.len() as u64))),
            _ => scalar((seconds > 0.0).then(|| Scalar::Fraction(records.len() as f64 / seconds))),
        };
    };
    let input = inputs()[number];
    let words =
        |record: &OwnedRecord| record.inputs[input.first_word..input.first_word + input.words].to_vec();
    let is_nan =
        |record: &OwnedRecord| input.kind == Kind::Fraction && f64::from_bits(record.inputs[3]).is_nan();
    let mut having: Vec<&OwnedRecord> = records.to_vec();
    having.retain(|record| record.inputs_present >> number & 1 == 1 && !is_nan(record));
    having.sort_by_key(|record| (record.time_ns, record.order));
    let one = |record: &OwnedRecord| typed(input.kind, words(record)[0]);
    let value = |record: Option<&&OwnedRecord>| {
        exact(record.map_or(Value::Absent, |record| match input.kind {
            Kind::Identity => Value::Identity(words(record).into()),
            _ => Value::Scalar(one(record)),
        }))
    };
    match &measure.function {
        Function::Count => scalar(Some(Scalar::Number(having.len() as u64))),
        Function::First => value(having.first()),
        Function::Last => value(having.last()),
        Function::Distinct => {
            let count = having.iter().map(|record| words(record)).collect::<BTreeSet<_>>().len();
            let number = Scalar::Number(count as u64);
            if count <= exact_max { scalar(Some(number)) } else { Expected::Distinct(count as u64) }
        }
        function => {
            let mut values: Vec<Scalar> = having.iter().map(|record| one(record)).collect();
            values.sort_by(|a, b| order(*a, *b));
            let float_sum: f64 =
                values.iter().map(|value| if let Scalar::Fraction(f) = value { *f } else { 0.0 }).sum();
            let sum: i128 = values.iter().map(|value| integer(*value)).sum();
            let count = values.len();
            match function {
                Function::Sum => match input.kind {
                    Kind::Fraction => scalar(Some(Scalar::Fraction(float_sum))),
                    kind => Expected::Value {
                        value: Value::Scalar(typed(kind, u64::try_from(sum).unwrap_or(u64::MAX))),
                        is_exact: sum <= i128::from(u64::MAX),
                    },
                },
                Function::Min => scalar(values.first().copied()),
                Function::Max => scalar(values.last().copied()),
                Function::Mean if count == 0 => exact(Value::Absent),
                Function::Mean => scalar(Some(match input.kind {
                    Kind::Fraction => Scalar::Fraction(float_sum / count as f64),
                    Kind::Number => Scalar::Fraction(sum as f64 / count as f64),
                    Kind::Time => Scalar::Time(sum.div_euclid(count as i128) as i64),
                    _ => Scalar::Interval((sum / count as i128) as u64),
                })),
                Function::Rate => {
                    let sum = match input.kind {
                        Kind::Fraction => float_sum,
                        Kind::Interval => sum as f64 / 1e9,
                        _ => sum as f64,
                    };
                    scalar((seconds > 0.0).then(|| Scalar::Fraction(sum / seconds)))
                }
                Function::Quantile(_) if count == 0 => exact(Value::Absent),
                Function::Quantile(q) => {
                    Expected::Quantile(values[((q * count as f64).ceil() as usize).max(1) - 1])
                }
                Function::Histogram(buckets) => exact(Value::Histogram(histogram(buckets, &values))),
                _ => unreachable!("handled above"),
            }
        }
    }
}

fn typed(kind: Kind, word: u64) -> Scalar {
    match kind {
        Kind::Time => Scalar::Time(word.cast_signed()),
        Kind::Interval => Scalar::Interval(word),
        Kind::Fraction => Scalar::Fraction(f64::from_bits(word)),
        Kind::Number | Kind::Identity => Scalar::Number(word),
    }
}

fn integer(value: Scalar) -> i128 {
    match value {
        Scalar::Number(value) | Scalar::Interval(value) => i128::from(value),
        Scalar::Time(value) => i128::from(value),
        Scalar::Fraction(_) => 0,
    }
}

fn histogram(buckets: &Buckets, values: &[Scalar]) -> Vec<weir_aggregate::Bucket> {
    let (lowest, bounds) = match buckets {
        Buckets::From(bounds) if bounds[0].kind() == Kind::Fraction => {
            (Scalar::Fraction(f64::NEG_INFINITY), bounds.clone())
        }
        Buckets::From(bounds) => (Scalar::Number(0), bounds.clone()),
        Buckets::PowersOfTwo => {
            let Some(first) = values.first() else { return vec![] };
            let same = |word| typed(first.kind(), word);
            (same(0), (0..64).map(|bit| same(1 << bit)).collect())
        }
    };
    let mut froms = vec![lowest];
    froms.extend(bounds);
    let bucket = |n: usize| {
        let is_in = |value: &&Scalar| {
            order(**value, froms[n]).is_ge()
                && froms.get(n + 1).is_none_or(|next| order(**value, *next).is_lt())
        };
        weir_aggregate::Bucket { from: froms[n], count: values.iter().filter(is_in).count() as u64 }
    };
    let mut all: Vec<_> = (0..froms.len()).map(bucket).collect();
    if *buckets == Buckets::PowersOfTwo {
        while all.last().is_some_and(|bucket| bucket.count == 0) {
            all.pop();
        }
        all.drain(..all.iter().position(|bucket| bucket.count > 0).unwrap_or(0));
    }
    all
}
