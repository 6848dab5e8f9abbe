//! The rows of an aggregate.

use super::packets::Report;
use super::rows::RowReader;
use super::shared::{Aggregation, ShownMeasure};
use crate::pipeline::{Gather, PipelinePart};
use crate::rows::values::{Part, write_key};
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

    /// Takes the part of a worker. Passes the rows of the windows that are closed to `each`, in batches: many
    /// windows may end together.
    pub fn take_part(&mut self, part: &PipelinePart, each: &mut dyn FnMut(&Batch)) {
        let known = self.counters.len().max(part.workers);
        self.counters.resize_with(known, Counters::default);
        let Self { shared, merger, gather, counters, reader, layers, rows, .. } = self;
        let look = Look { shared, reader: reader.as_ref().map(|(reader, _)| reader), layers };
        let counters = &mut counters[part.worker];
        let mut merge = Merge { merger, counters, writer: Writer { look, rows, each } };
        gather.take(part, &mut merge);
        merge.writer.flush();
    }

    /// Takes a row. Passes the rows of the windows that are closed to `each`, in batches.
    pub fn take_row(&mut self, row: Row<'_>, each: &mut dyn FnMut(&Batch)) {
        let Self { reader: Some((reader, aggregator)), shared, last, .. } = self else { return };
        let record = reader.record(shared, row);
        // As the clock of packets: a single row with a wrong time closes no windows.
        let time = record.time_ns.min(std::mem::replace(last, record.time_ns));
        aggregator.record(&record);
        self.pass_time(time, each);
    }

    /// All rows that end before this time, in nanoseconds since 1970, came, except those that the delay of
    /// the windows is for. Passes the rows of the windows that are closed to `each`, in batches. Windows of
    /// packets close by the time of their workers.
    pub fn pass_time(&mut self, time: i64, each: &mut dyn FnMut(&Batch)) {
        self.signal(Signal::Time(time), each);
        if let Some((reader, _)) = &mut self.reader {
            reader.pass_time(time);
        }
    }

    /// The end of the run: passes the rows of the last windows to `each`, in batches.
    pub fn finish(&mut self, each: &mut dyn FnMut(&Batch)) {
        match self.reader {
            Some(_) => self.signal(Signal::End, each),
            None => {
                let Self { shared, merger, layers, rows, .. } = self;
                let mut writer = Writer { look: Look { shared, reader: None, layers }, rows, each };
                merger.signal(Signal::End, &mut writer);
                writer.flush();
            }
        }
    }

    /// A signal to the aggregator of rows, if there is one.
    fn signal(&mut self, signal: Signal, each: &mut dyn FnMut(&Batch)) {
        let Self { shared, merger, reader, layers, rows, .. } = self;
        let Some((reader, aggregator)) = reader else { return };
        let mut writer = Writer { look: Look { shared, reader: Some(reader), layers }, rows, each };
        aggregator.signal(signal, &mut Fused::new(merger, &mut writer));
        writer.flush();
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
}

/// Rows of a batch: windows with more are written in several.
const BATCH_ROWS: usize = 4096;

/// Writes the rows of windows, and passes them on.
struct Writer<'a> {
    look: Look<'a>,
    rows: &'a mut Batch,
    each: &'a mut dyn FnMut(&Batch),
}

impl Port<Window> for Writer<'_> {
    fn put(&mut self, window: Window) {
        for row in self.look.sorted(&window.rows) {
            self.look.write_row(&window, row, &mut self.rows.add());
            if self.rows.rows() >= BATCH_ROWS {
                self.flush();
            }
        }
    }

    fn signal(&mut self, _: Signal) {}
}

impl Writer<'_> {
    fn flush(&mut self) {
        if !self.rows.is_empty() {
            (self.each)(self.rows);
            self.rows.clear();
        }
    }
}

/// What the words of a result mean.
struct Look<'a> {
    shared: &'a Aggregation,
    /// For an aggregate of rows.
    reader: Option<&'a RowReader>,
    layers: &'a [String],
}

impl Look<'_> {
    /// The rows of a window, sorted by the texts of their keys: hashes, which stand for texts, differ from
    /// run to run. Rows of `top` stay sorted by their results.
    fn sorted<'r>(&self, rows: &'r [weir_aggregate::Row]) -> Vec<&'r weir_aggregate::Row> {
        let mut sorted: Vec<_> = rows.iter().collect();
        let Some(reader) = self.reader else { return sorted };
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
            if let Some(why) = why_inexact(shown, measured, self.shared) {
                inexact.push(format!("{} {why}", shown.name));
            }
        }
        to.push(if row.is_other { Cell::Bool(true) } else { Cell::Absent });
        to.push(if inexact.is_empty() { Cell::Absent } else { Cell::Texts(Texts::Whole(&inexact)) });
    }

    /// The value that words of a record stand for.
    fn cell_of<'a>(&'a self, part: &Part, words: &[u64]) -> Cell<'a> {
        if !matches!(part.value_type, ValueType::Text | ValueType::Bytes) || part.words == 1 {
            return part.cell(words, self.layers);
        }
        let texts = self.reader.map(|reader| &reader.texts);
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
    writer: Writer<'a>,
}

impl Port<Report> for Merge<'_> {
    fn put(&mut self, report: Report) {
        match report {
            Report::Pane(pane) => self.merger.add(pane),
            Report::Counters(counters) => *self.counters = counters,
        }
    }

    fn signal(&mut self, signal: Signal) {
        // No time after the end closes windows: of those that overlap, a thousand could follow the last
        // record.
        let signal = if signal == Signal::Time(i64::MAX) { Signal::End } else { signal };
        self.merger.signal(signal, &mut self.writer);
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
    use std::sync::Mutex;
    use weir_aggregate::Record;
    use weir_pipeline::Counts;

    const SECOND: i64 = 1_000_000_000;

    /// The seconds in which the windows begin that `act` closes.
    fn seconds(act: impl FnOnce(&mut dyn FnMut(&Batch))) -> Vec<i64> {
        let mut all = vec![];
        act(&mut |batch| all.extend(seconds_of(batch)));
        all
    }

    fn seconds_of(batch: &Batch) -> Vec<i64> {
        let start = |row: usize| match batch.row(row).cell(0) {
            Cell::Time(time) => time.0 / SECOND,
            other => panic!("no time: {other:?}"),
        };
        (0..batch.rows()).map(start).collect()
    }

    /// A worker at its end reports the largest time; a window of 1 024 s is not reported for a thousand
    /// seconds more.
    #[test]
    fn no_window_follows_the_one_that_the_last_record_ends() {
        let compiler = Compiler::default();
        let (over, of) = ("count() over 1024s every 1s", RecordSource::Packets);
        let made = Aggregation::of(&compiler, over, of, usize::MAX).expect("an aggregate");
        let mut aggregator = Aggregator::new(Arc::clone(&made.plan), made.seed);
        for second in [5_000, 5_002] {
            let (key, inputs) = (&[][..], &[][..]);
            let time_ns = second * SECOND;
            aggregator.record(&Record { time_ns, order: 0, key, key_present: 0, inputs, inputs_present: 0 });
        }
        let mut panes = vec![];
        aggregator.signal(Signal::End, &mut panes);
        let reports: Vec<Report> = panes.into_iter().map(Report::Pane).collect();
        let end = PipelinePart {
            worker: 0,
            workers: 1,
            time: i64::MAX,
            restarts: 0,
            items: Mutex::new(Box::new(reports)),
            counts: Counts::new(),
        };
        let mut rows = AggregateRows::new(&made, compiler.stack(), None);
        let first = |last: i64| last - 1023;
        assert_eq!(seconds(|each| rows.take_part(&end, each)), [first(5_000), first(5_001), first(5_002)]);
        assert_eq!(seconds(|each| rows.finish(each)), [0; 0]);
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
            assert_eq!(seconds(|each| rows.take_row(batch.row(row), each)), [0; 0]);
        }
        // The delay is 70 s.
        assert_eq!(seconds(|each| rows.pass_time(1_079 * SECOND, each)), [0; 0]);
        assert_eq!(seconds(|each| rows.pass_time(1_081 * SECOND, each)), [1_000]);
        // A time of before changes nothing.
        assert_eq!(seconds(|each| rows.pass_time(1_000 * SECOND, each)), [0; 0]);
        assert_eq!(seconds(|each| rows.take_row(batch.row(0), each)), [0; 0]);
        assert_eq!(rows.counters().late, 1);
        assert_eq!(seconds(|each| rows.pass_time(1_100 * SECOND, each)), [1_010]);
        assert_eq!(seconds(|each| rows.finish(each)), [0; 0]);
    }
}
