//! The rows of an aggregate.

use super::packets::Report;
use super::rows::RowReader;
use super::shared::{Aggregation, ShownMeasure};
use crate::pipeline::{Gather, PipelinePart};
use crate::values::{Part, write_key};
use std::sync::Arc;
use weir_aggregate::{Aggregator, Counters, Mark, Measured, Merger, Scalar, Value, Window};
use weir_lang::model::Stack;
use weir_packet::{Batch, Cell, Column, Row, RowWriter, Texts, Timestamp, ValueType};
use weir_pipeline::{Fused, Operator, Port, Signal};

/// Receives the parts of an aggregate, or rows, and makes the aggregate's rows.
pub struct AggregateRows {
    shared: Arc<Aggregation>,
    merger: Merger,
    gather: Gather,
    /// By worker: what its bounds discarded.
    counters: Vec<Counters>,
    /// For an aggregate of rows.
    reader: Option<(RowReader, Aggregator)>,
    /// The time of the last row.
    last: i64,
    /// By number of a layer: its name.
    layers: Vec<String>,
    rows: Batch,
}

impl std::fmt::Debug for AggregateRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AggregateRows").finish_non_exhaustive()
    }
}

impl AggregateRows {
    /// The rows of an aggregate of packets over a stack, or of rows with these columns.
    pub fn new(shared: &Aggregation, stack: &Stack, columns: Option<&[Column]>) -> Self {
        let shared = Arc::new(shared.clone());
        let aggregator = || Aggregator::new(Arc::clone(&shared.plan), shared.seed);
        let name = |layer: &weir_lang::model::Layer| layer.protocol.filter_name.clone();
        Self {
            merger: Merger::new(Arc::clone(&shared.plan), shared.seed),
            gather: Gather::default(),
            counters: vec![],
            reader: columns.map(|columns| (RowReader::new(&shared, columns), aggregator())),
            last: i64::MIN,
            layers: stack.layers.iter().map(name).collect(),
            rows: Batch::new(shared.columns().len()),
            shared,
        }
    }

    /// Takes the part of a worker. Returns the rows of the windows that are closed.
    pub fn take_part(&mut self, part: &PipelinePart) -> &Batch {
        let known = self.counters.len().max(part.workers);
        self.counters.resize_with(known, Counters::default);
        let (merger, counters) = (&mut self.merger, &mut self.counters[part.worker]);
        let mut merge = Merge { merger, counters, windows: vec![] };
        self.gather.take(part, &mut merge);
        let windows = merge.windows;
        self.write(&windows)
    }

    /// Takes a row. Returns the rows of the windows that are closed.
    pub fn take_row(&mut self, row: Row<'_>) -> &Batch {
        let Self { reader: Some((reader, aggregator)), shared, last, .. } = self else {
            return self.write(&[]);
        };
        let record = reader.record(shared, row);
        // As the clock of packets: a single row with a wrong time closes no windows.
        let time = record.time_ns.min(std::mem::replace(last, record.time_ns));
        aggregator.record(&record);
        self.pass_time(time)
    }

    /// All rows that end before this time, in nanoseconds since 1970, came, except those that the delay of
    /// the windows is for. Returns the rows of the windows that are closed. Windows of packets close by the
    /// time of their workers.
    pub fn pass_time(&mut self, time: i64) -> &Batch {
        let Some((_, aggregator)) = &mut self.reader else { return self.write(&[]) };
        let mut windows = vec![];
        aggregator.signal(Signal::Time(time), &mut Fused::new(&mut self.merger, &mut windows));
        self.write(&windows);
        if let Some((reader, _)) = &mut self.reader {
            reader.pass_time(time);
        }
        &self.rows
    }

    /// The rows of the last windows, at the end of the run.
    pub fn finish(&mut self) -> &Batch {
        let mut windows = vec![];
        let mut merger = Fused::new(&mut self.merger, &mut windows);
        match &mut self.reader {
            Some((_, aggregator)) => aggregator.signal(Signal::End, &mut merger),
            None => merger.signal(Signal::End),
        }
        self.write(&windows)
    }

    /// What the bounds of the aggregate discarded so far.
    pub fn counters(&self) -> Counters {
        let mut all = self.merger.counters();
        self.counters.iter().for_each(|counters| all.add(counters));
        if let Some((_, aggregator)) = &self.reader {
            all.add(&aggregator.counters());
        }
        all
    }

    /// How often a text of rows was refused, because there were too many.
    pub fn texts_refused(&self) -> u64 {
        self.reader.as_ref().map_or(0, |(reader, _)| reader.texts.refused())
    }

    fn write(&mut self, windows: &[Window]) -> &Batch {
        self.rows.clear();
        let mut rows = std::mem::take(&mut self.rows);
        for window in windows {
            for row in self.sorted(&window.rows) {
                self.write_row(window, row, &mut rows.add());
            }
        }
        self.rows = rows;
        &self.rows
    }

    /// The rows of a window, sorted by the texts of their keys: hashes, which stand for texts, differ from
    /// run to run. Rows of `top` stay sorted by their results.
    fn sorted<'r>(&self, rows: &'r [weir_aggregate::Row]) -> Vec<&'r weir_aggregate::Row> {
        let mut sorted: Vec<_> = rows.iter().collect();
        let Some((reader, _)) = &self.reader else { return sorted };
        let is_text = |part: &Part| matches!(part.value_type, ValueType::Text | ValueType::Bytes);
        if !self.shared.keys.iter().any(is_text) {
            return sorted;
        }
        let key = |row: &weir_aggregate::Row| -> Vec<(bool, Vec<u64>, Vec<u8>)> {
            let part = |(number, part): (usize, &Part)| {
                let words = &row.key[part.word..part.word + part.words];
                let text = if is_text(part) { reader.texts.text([words[0], words[1]]) } else { None };
                let words = if text.is_some() { vec![] } else { words.to_vec() };
                (row.key_present >> number & 1 != 0, words, text.unwrap_or_default().to_vec())
            };
            self.shared.keys.iter().enumerate().map(part).collect()
        };
        let by = self.shared.plan.params().top.map(|top| top.by);
        let is_same = |a: &&weir_aggregate::Row, b: &&weir_aggregate::Row| {
            a.is_other == b.is_other && by.is_none_or(|by| a.values[by].value == b.values[by].value)
        };
        sorted.chunk_by_mut(is_same).for_each(|tied| tied.sort_by_cached_key(|row| key(row)));
        sorted
    }

    fn write_row(&self, window: &Window, row: &weir_aggregate::Row, to: &mut RowWriter<'_>) {
        if self.shared.window.is_some() {
            to.push(Cell::Time(Timestamp(window.start_ns)));
            to.push(Cell::Time(Timestamp(window.end_ns)));
        }
        for (number, part) in self.shared.keys.iter().enumerate() {
            match row.key_present >> number & 1 != 0 && !row.is_other {
                true => {
                    let words = &row.key[part.word..part.word + part.words];
                    write_key(part.prefix, self.cell_of(part, words), to);
                }
                false => to.push(Cell::Absent),
            }
        }
        let mut inexact = vec![];
        for shown in &self.shared.shown {
            let measured = &row.values[shown.index];
            self.write_measured(shown, measured, to);
            if let Some(why) = why_inexact(shown, measured, &self.shared) {
                inexact.push(format!("{} {why}", shown.name));
            }
        }
        to.push(if row.is_other { Cell::Bool(true) } else { Cell::Absent });
        to.push(if inexact.is_empty() { Cell::Absent } else { Cell::Texts(Texts::Whole(&inexact)) });
    }

    /// The value that words of a record stand for.
    fn cell_of<'a>(&'a self, part: &Part, words: &[u64]) -> Cell<'a> {
        if !matches!(part.value_type, ValueType::Text | ValueType::Bytes) || part.words == 1 {
            return part.cell(words, &self.layers);
        }
        let texts = self.reader.as_ref().map(|(reader, _)| &reader.texts);
        let bytes = texts.and_then(|texts| texts.text([words[0], words[1]]));
        match (bytes, part.value_type) {
            (None, _) => Cell::Text("(forgotten: memory was short)"),
            (Some(bytes), ValueType::Bytes) => Cell::Bytes(bytes),
            (Some(bytes), _) => std::str::from_utf8(bytes).map_or(Cell::Bytes(bytes), Cell::Text),
        }
    }

    fn write_measured(&self, shown: &ShownMeasure, measured: &Measured, to: &mut RowWriter<'_>) {
        match &measured.value {
            Value::Absent => {
                to.push(Cell::Absent);
                if shown.is_histogram {
                    to.push(Cell::Absent);
                }
            }
            Value::Scalar(scalar) => to.push(match (*scalar, shown.input) {
                (Scalar::Number(number), Some(ValueType::Bool)) if self.is_value(shown) => {
                    Cell::Bool(number != 0)
                }
                (Scalar::Number(number), _) => Cell::Unsigned(number),
                (Scalar::Time(time), _) => Cell::Time(Timestamp(time)),
                (Scalar::Interval(ns), _) => Cell::Interval(ns),
                (Scalar::Fraction(fraction), _) => Cell::Fraction(fraction),
            }),
            Value::Identity(words) => {
                let input = self.shared.plan.params().measures[shown.index].input;
                to.push(input.map_or(Cell::Absent, |input| self.cell_of(&self.shared.inputs[input], words)));
            }
            Value::Histogram(buckets) => {
                let counts: Vec<u64> = buckets.iter().map(|bucket| bucket.count).collect();
                let from: Vec<u64> = buckets.iter().map(|bucket| whole(bucket.from)).collect();
                to.push(Cell::Numbers(&counts));
                to.push(Cell::Numbers(&from));
            }
        }
    }

    /// Whether the result of a measure is a value of its input.
    fn is_value(&self, shown: &ShownMeasure) -> bool {
        use weir_aggregate::Function;
        matches!(self.shared.plan.params().measures[shown.index].function, Function::First | Function::Last)
    }
}

/// Merges what the workers report.
struct Merge<'a> {
    merger: &'a mut Merger,
    /// Those of the worker.
    counters: &'a mut Counters,
    windows: Vec<Window>,
}

impl Port<Report> for Merge<'_> {
    fn put(&mut self, report: Report) {
        match report {
            Report::Pane(pane) => self.merger.add(pane),
            Report::Counters(counters) => *self.counters = counters,
        }
    }

    fn signal(&mut self, signal: Signal) {
        self.merger.signal(signal, &mut self.windows);
    }
}

fn whole(scalar: Scalar) -> u64 {
    match scalar {
        Scalar::Number(number) | Scalar::Interval(number) => number,
        Scalar::Time(time) => time.max(0) as u64,
        Scalar::Fraction(fraction) => fraction.max(0.0) as u64,
    }
}

/// Why a result is not exact. Quantiles are estimates by their nature.
fn why_inexact(shown: &ShownMeasure, measured: &Measured, shared: &Aggregation) -> Option<&'static str> {
    let function = &shared.plan.params().measures[shown.index].function;
    match measured.mark {
        Mark::Exact => None,
        Mark::Estimated if matches!(function, weir_aggregate::Function::Quantile(_)) => None,
        Mark::Estimated => Some("estimated"),
        Mark::Saturated => Some("saturated"),
        Mark::Cut => Some("cut"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Compiler;
    use crate::aggregate::RecordSource;

    const SECOND: i64 = 1_000_000_000;

    fn seconds(batch: &Batch) -> Vec<i64> {
        let start = |row: usize| match batch.row(row).cell(0) {
            Cell::Time(time) => time.0 / SECOND,
            other => panic!("no time: {other:?}"),
        };
        (0..batch.rows()).map(start).collect()
    }

    #[test]
    fn windows_of_rows_close_while_no_rows_come() {
        let compiler = Compiler::default();
        let columns = [Column::new("ts", ValueType::Time, "time")];
        let of = RecordSource::Rows("dns", &columns);
        let made = Aggregation::of(&compiler, "count() every 10s", of, usize::MAX).expect("an aggregate");
        let mut rows = AggregateRows::new(&made, compiler.stack(), Some(&columns));
        let mut batch = Batch::new(1);
        for second in [1_001, 1_012] {
            batch.add().push(Cell::Time(Timestamp(second * SECOND)));
        }
        for row in 0..2 {
            assert_eq!(seconds(rows.take_row(batch.row(row))), [0; 0]);
        }
        // The delay is 70 s.
        assert_eq!(seconds(rows.pass_time(1_079 * SECOND)), [0; 0]);
        assert_eq!(seconds(rows.pass_time(1_081 * SECOND)), [1_000]);
        // A time of before changes nothing.
        assert_eq!(seconds(rows.pass_time(1_000 * SECOND)), [0; 0]);
        assert_eq!(seconds(rows.take_row(batch.row(0))), [0; 0]);
        assert_eq!(rows.counters().late, 1);
        assert_eq!(seconds(rows.pass_time(1_100 * SECOND)), [1_010]);
        assert_eq!(seconds(rows.finish()), [0; 0]);
    }
}
