//! The plan of an aggregate: from its text to words of keys and inputs, and to columns of rows.

use super::shared::{Aggregation, ShownMeasure};
use crate::ask::compile::Compiler;
use crate::ask::group_key::{OF_PACKETS, OF_ROWS};
use crate::ask::key_ends::KeyEnds;
use crate::ask::names::{Names, part_of, parts_of};
use crate::rows::values::{Part, key_type, words_of};
use std::sync::Arc;
use std::time::Duration;
use weir_aggregate::{
    Buckets, Comparison, Function, Having, Input, Kind, Limits, Measure, Plan, PlanError, PlanParams, Scalar,
    Seed, Windows,
};
use weir_engine::timer::TICK_NS;
use weir_lang::aggregate::{self as text, Condition};
use weir_lang::diag::{Diagnostic, Diagnostics, Sources};
use weir_packet::{Column, ValueType};

/// Rows of connections may come this much later than others: the longest usual time-out, 5 min, and 10 s.
/// Their time is that of their last packet, and idle connections are rows at their time-out.
const FLOWS_LATENESS_NS: u64 = 310_000_000_000;
/// Other rows may come this much later than others: the time-out of an unanswered datagram, 1 min, and 10 s.
/// Sessions are rows at their end, with the time of their beginning.
const ROWS_LATENESS_NS: u64 = 70_000_000_000;
/// Open panes beside those for late records, or for the time until the clock ticks.
const PANES_MAX: u64 = 64;
/// The most open panes.
const OPEN_PANES_MAX: u64 = 1 << 16;

/// The name of the rows of connections: `conn.duration`, as in filters.
pub const CONNECTIONS: &str = "conn";

/// What an aggregate is computed of.
#[derive(Debug, Clone, Copy)]
pub enum RecordSource<'a> {
    /// Packets.
    Packets,
    /// Rows with these columns, the log's name first; of connections [`CONNECTIONS`].
    Rows(&'a str, &'a [Column]),
}

impl RecordSource<'_> {
    /// The columns that say when a row ends.
    fn times(&self) -> Vec<usize> {
        let RecordSource::Rows(_, columns) = self else { return vec![] };
        let is_time = |column: &&Column| matches!(&*column.name, "ts" | "duration");
        columns.iter().enumerate().filter(|(_, column)| is_time(column)).map(|(at, _)| at).collect()
    }
}

impl Aggregation {
    /// The aggregate with this text. The groups of each worker use at most half of `memory_max` bytes, the
    /// merged ones the other half, and the texts of rows a quarter.
    ///
    /// # Errors
    /// All mistakes in the text.
    pub fn of(
        compiler: &Compiler,
        text: &str,
        source: RecordSource<'_>,
        memory_max: usize,
    ) -> Result<Self, Diagnostics> {
        let (names, shorthands) = match source {
            RecordSource::Packets => (Names::of_packets(compiler), OF_PACKETS),
            RecordSource::Rows(log, columns) => (Names::of_rows(log, columns, compiler), OF_ROWS),
        };
        // Packets are never late, but the clock by which their windows close goes in ticks.
        let (lateness_ns, open_ns) = match source {
            RecordSource::Packets => (0, TICK_NS.cast_unsigned()),
            RecordSource::Rows(CONNECTIONS, _) => (FLOWS_LATENESS_NS, FLOWS_LATENESS_NS),
            RecordSource::Rows(..) => (ROWS_LATENESS_NS, ROWS_LATENESS_NS),
        };
        let wrong = |list| {
            let mut sources = Sources::new();
            sources.add("aggregate", text);
            Diagnostics { sources, list }
        };
        let made = text::compile(text, &names, shorthands).map_err(wrong)?;
        let keys = parts_of(&names, &made.keys);
        let mut inputs: Vec<(usize, Part)> = vec![];
        let mut measures = vec![];
        for measure in &made.measures {
            let input = measure.field.map(|field| {
                let known = inputs.iter().position(|(of, _)| *of == field);
                known.unwrap_or_else(|| {
                    let word = inputs.iter().map(|(_, part)| part.words).sum();
                    inputs.push((field, part_of(&names, field, word)));
                    inputs.len() - 1
                })
            });
            let kind = input.map(|input| kind_of(inputs[input].1.value_type));
            measures.push(Measure { function: function_of(&measure.function, kind), input });
        }
        let inputs: Vec<Part> = inputs.into_iter().map(|(_, part)| part).collect();
        let type_of = |field: Option<usize>| field.map(|field| names.fields[field].value_type);
        let result_types: Vec<ValueType> =
            made.measures.iter().map(|one| result_type(&one.function, type_of(one.field))).collect();
        let panes_max = made.window.map_or(PANES_MAX, |window| PANES_MAX + open_ns.div_ceil(window.step_ns));
        if panes_max > OPEN_PANES_MAX {
            let shortest = Duration::from_nanos(open_ns.div_ceil(OPEN_PANES_MAX - PANES_MAX));
            let message = format!("the windows are too short: their steps have at least {shortest:?}");
            return Err(wrong(vec![Diagnostic::error(text::WINDOW, message).at(whole_span(text))]));
        }
        let params = PlanParams {
            key_words: words_of(&keys),
            inputs: inputs.iter().map(input_of).collect(),
            measures,
            windows: made.window.map_or(Windows::None, windows_of),
            lateness_ns,
            having: made.having.as_ref().map(|condition| having_of(condition, &result_types)),
            top: made.top,
            limits: Limits { panes_max: panes_max as usize, ..Limits::within(memory_max as u64) },
        };
        let plan = Plan::new(params).map_err(|error| {
            wrong(vec![Diagnostic::error(code_of(&error), error.to_string()).at(whole_span(text))])
        })?;
        let shown = made.measures.iter().enumerate().filter(|(_, measure)| !measure.is_hidden);
        let shown: Vec<ShownMeasure> = shown
            .map(|(index, measure)| ShownMeasure {
                index,
                name: measure.name.clone(),
                input: type_of(measure.field),
                is_histogram: matches!(measure.function, text::Function::Histogram(_)),
            })
            .collect();
        let columns = columns_of(&made, &names, &shown, &result_types);
        Ok(Self {
            plan: Arc::new(plan),
            seed: Seed::random(),
            ends: KeyEnds::of(&made.keys, &keys),
            keys,
            inputs,
            shown,
            window: made.window,
            times: source.times(),
            memory_max,
            columns,
        })
    }
}

/// The code of a mistake that only the whole aggregate shows.
fn code_of(error: &PlanError) -> &'static str {
    match error {
        PlanError::KeyWords { .. } => text::KEY,
        PlanError::ShortWindow
        | PlanError::LongWindow
        | PlanError::Slide { .. }
        | PlanError::ShortSlide { .. } => text::WINDOW,
        PlanError::Depth => text::CLAUSE,
        _ => text::ARGUMENTS,
    }
}

fn whole_span(text: &str) -> weir_lang::diag::Span {
    weir_lang::diag::Span { source: 0, start: 0, end: text.len() as u32 }
}

fn kind_of(value_type: ValueType) -> Kind {
    match value_type {
        ValueType::Unsigned | ValueType::Bool => Kind::Number,
        ValueType::Fraction => Kind::Fraction,
        ValueType::Time => Kind::Time,
        ValueType::Interval => Kind::Interval,
        _ => Kind::Identity,
    }
}

fn input_of(part: &Part) -> Input {
    Input { first_word: part.word, words: part.words, kind: kind_of(part.value_type) }
}

/// The function of a text, with bounds of the kind of its input.
fn function_of(function: &text::Function, kind: Option<Kind>) -> Function {
    function.with_bounds(|bounds| match bounds.is_empty() {
        true => Buckets::PowersOfTwo,
        false => {
            let of = |bound: &u64| scalar(*bound as f64, kind.unwrap_or(Kind::Number));
            Buckets::From(bounds.iter().map(of).collect())
        }
    })
}

fn scalar(number: f64, kind: Kind) -> Scalar {
    match kind {
        Kind::Fraction => Scalar::Fraction(number),
        Kind::Time => Scalar::Time(number as i64),
        Kind::Interval => Scalar::Interval(number as u64),
        Kind::Number | Kind::Identity => Scalar::Number(number as u64),
    }
}

fn windows_of(window: text::Window) -> Windows {
    match window.length_ns == window.step_ns {
        true => Windows::Tumbling { length_ns: window.length_ns },
        false => Windows::Sliding { length_ns: window.length_ns, slide_ns: window.step_ns },
    }
}

/// The type of a measure's results, by the function and the type of its input.
fn result_type(function: &text::Function, input: Option<ValueType>) -> ValueType {
    match (function, input) {
        (text::Function::Count | text::Function::Distinct, _) => ValueType::Unsigned,
        (text::Function::Rate, _) => ValueType::Fraction,
        (text::Function::Mean, Some(ValueType::Unsigned | ValueType::Bool)) => ValueType::Fraction,
        (text::Function::Histogram(_), _) => ValueType::Numbers,
        (_, Some(input)) => input,
        (_, None) => ValueType::Unsigned,
    }
}

fn having_of(condition: &Condition, types: &[ValueType]) -> Having {
    let all = |parts: &[Condition]| parts.iter().map(|part| having_of(part, types)).collect();
    match condition {
        Condition::All(parts) => Having::And(all(parts)),
        Condition::Any(parts) => Having::Or(all(parts)),
        Condition::Not(part) => Having::Not(Box::new(having_of(part, types))),
        Condition::Is(measure, comparison, number) => {
            compared(*measure, *comparison, *number, types[*measure])
        }
    }
}

/// A comparison with a number that the results of the measure may not be able to have: `count() > 1.5`.
fn compared(measure: usize, comparison: Comparison, number: f64, value_type: ValueType) -> Having {
    let is_whole = number.fract() == 0.0 || value_type == ValueType::Fraction;
    let comparison = match comparison {
        Comparison::Equal if !is_whole => return Having::Or(vec![]),
        Comparison::NotEqual if !is_whole => return Having::And(vec![]),
        Comparison::Less if !is_whole => Comparison::AtMost,
        Comparison::AtLeast if !is_whole => Comparison::Greater,
        same => same,
    };
    let number = if value_type == ValueType::Fraction { number } else { number.floor() };
    Having::Compare { measure, comparison, constant: scalar(number, kind_of(value_type)) }
}

fn columns_of(
    made: &text::Aggregate,
    names: &Names,
    shown: &[ShownMeasure],
    result_types: &[ValueType],
) -> Vec<Column> {
    let column =
        |name: String, value_type, doc: String| Column { name: name.into(), value_type, doc: doc.into() };
    let mut columns = vec![];
    if made.window.is_some() {
        columns.push(Column::new("ts", ValueType::Time, "beginning of the window"));
        columns.push(Column::new("te", ValueType::Time, "end of the window, which is no part of it"));
    }
    for key in &made.keys {
        let field = &names.fields[key.field];
        let value_type = key_type(key.prefix, field.value_type);
        let doc = match key.end {
            None => field.doc.clone(),
            Some(_) => format!("{}; of the two ends, the smaller one comes first", field.doc),
        };
        columns.push(column(key.name.clone(), value_type, doc));
    }
    for measure in shown {
        let doc = format!("{} of the group", measure.name);
        columns.push(column(measure.name.clone(), result_types[measure.index], doc));
        if measure.is_histogram {
            let doc = format!("where the buckets of {} begin", measure.name);
            columns.push(column(format!("{}_from", measure.name), ValueType::Numbers, doc));
        }
    }
    columns.push(Column::new(
        "other",
        ValueType::Bool,
        "whether the row stands for all groups that had no room",
    ));
    let doc = "results that are not exact, and why: estimated, cut (memory was short), saturated";
    columns.push(Column::new("inexact", ValueType::Texts, doc));
    columns
}
