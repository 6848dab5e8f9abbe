//! The results of an aggregate as metrics: the parts of the key are labels.
//!
//! Counts and sums are counters, which add up the windows; histograms likewise. All other results are gauges
//! with the values of the last window. Of sliding windows, which overlap, everything is a gauge. The number
//! of label sets is bounded: amounts of further groups are added to one series whose labels are all `other`.

use super::family::{Family, Kind, Label, Sample, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use weir::aggregate::{Aggregation, MeasureKind};
use weir::packet::{Batch, Cell, Row, printable};

/// Maximum number of label sets of a question.
const SETS_MAX: usize = 1_000;
/// The value of all labels of groups beyond that.
const OTHER: &str = "other";
/// Maximum number of characters of a label's value. Longer ones are cut, with `…`.
const VALUE_MAX: usize = 256;
/// Nanoseconds per second.
const SECOND_NS: f64 = 1e9;

/// The series of a question.
#[derive(Debug)]
pub struct Series {
    /// The name of the question with `_`, as part of names of metrics; empty if the run has one question.
    name: String,
    /// Names of labels, with the indexes of their columns.
    labels: Vec<(String, usize)>,
    measures: Vec<Exported>,
    /// Windows have a time, and overlap.
    has_time: bool,
    is_sliding: bool,
    /// Start of the counting, as time since 1970: a question may come during the run, and be replaced by one
    /// of the same name.
    begun: Duration,
    state: Mutex<State>,
}

/// A measure with its metric.
#[derive(Debug)]
struct Exported {
    name: String,
    column: usize,
    kind: MeasureKind,
}

#[derive(Debug, Default)]
struct State {
    /// By values of labels: the results, by measure.
    sets: BTreeMap<Vec<String>, Vec<Shown>>,
    /// Beginning of the last window.
    window: Option<i64>,
    /// Results that were added to the series of others.
    beyond: u64,
}

/// The value of a series.
#[derive(Debug, Clone, PartialEq)]
enum Shown {
    /// There is none in the last window.
    Absent,
    Number(f64),
    /// By upper bound: values up to it, not cumulated. The last bound is infinite.
    Buckets(Vec<(f64, u64)>),
}

impl Series {
    /// Series of an aggregate; `question` is the name of its question, which is empty if the run has no
    /// other.
    pub fn new(question: &str, made: &Aggregation) -> Self {
        let columns = made.columns();
        let at = |name: &str| columns.iter().position(|column| column.name == name);
        let mut labels: Vec<(String, usize)> = vec![];
        for (name, column) in made.key_names().filter_map(|name| Some((label(name), at(name)?))) {
            let name = distinct(name, |name| labels.iter().any(|(known, _)| known == name));
            labels.push((name, column));
        }
        let measures = made
            .measures()
            .filter_map(|(name, kind)| Some(Exported { name: label(name), column: at(name)?, kind }));
        Self {
            name: if question.is_empty() { String::new() } else { format!("{}_", label(question)) },
            labels,
            measures: measures.collect(),
            has_time: made.has_windows(),
            is_sliding: made.is_sliding(),
            begun: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
            state: Mutex::default(),
        }
    }

    /// Takes the rows of windows, which come in the order of time.
    pub fn take(&self, rows: &Batch) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for row in rows.iter() {
            let begins = match row.cell(0) {
                Cell::Time(time) if self.has_time => Some(time.0),
                _ => None,
            };
            if begins.is_none() || begins != state.window {
                state.window = begins;
                self.forget_gauges(&mut state);
            }
            self.take_row(&mut state, row);
        }
    }

    /// Gauges have the values of one window.
    fn forget_gauges(&self, state: &mut State) {
        for shown in state.sets.values_mut() {
            let results = shown.iter_mut().zip(&self.measures);
            results.filter(|(_, of)| !self.adds_up(of)).for_each(|(shown, _)| *shown = Shown::Absent);
        }
        state.sets.retain(|_, shown| shown.iter().any(|one| *one != Shown::Absent));
    }

    fn adds_up(&self, of: &Exported) -> bool {
        of.kind != MeasureKind::Level && !self.is_sliding
    }

    fn take_row(&self, state: &mut State, row: Row<'_>) {
        let mut key: Vec<String> = self.labels.iter().map(|(_, column)| text(row.cell(*column))).collect();
        let is_beyond = state.sets.len() >= SETS_MAX && !state.sets.contains_key(&key);
        let is_other = matches!(row.cell(row.len().saturating_sub(2)), Cell::Bool(true));
        if is_other || is_beyond {
            state.beyond += 1;
            key.iter_mut().for_each(|value| *value = OTHER.to_string());
        }
        let shown = state.sets.entry(key).or_insert_with(|| vec![Shown::Absent; self.measures.len()]);
        for (shown, measure) in shown.iter_mut().zip(&self.measures) {
            let now = match (measure.kind, row.cell(measure.column)) {
                (MeasureKind::Buckets { seconds, is_open }, Cell::Numbers(counts)) => {
                    let Cell::Numbers(from) = row.cell(measure.column + 1) else { continue };
                    Shown::Buckets(buckets(counts, from, seconds, is_open))
                }
                (_, cell) => number(cell).map_or(Shown::Absent, Shown::Number),
            };
            // The levels of several groups have no sum.
            if !(is_other || is_beyond) || self.adds_up(measure) {
                shown.take(now, self.adds_up(measure));
            }
        }
    }

    /// The metrics as they are now.
    pub fn families(&self) -> Vec<Family> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut families = vec![];
        for (index, measure) in self.measures.iter().enumerate() {
            let is_counter = self.adds_up(measure);
            let kind = match measure.kind {
                MeasureKind::Buckets { .. } => Kind::Histogram,
                _ if is_counter => Kind::Counter,
                _ => Kind::Gauge,
            };
            let mut samples = vec![];
            for (values, shown) in &state.sets {
                let Some(value) = shown[index].value() else { continue };
                let names = self.labels.iter().map(|(name, _)| name.clone().into());
                let labels: Vec<Label> = names.zip(values.iter().cloned()).collect();
                samples.push(Sample { labels, value });
            }
            families.push(Family {
                name: format!("weir_aggregate_{}{}", self.name, measure.name).into(),
                kind,
                help: format!("{} of an aggregate, by its key.", measure.name).into(),
                since: Some(self.begun),
                samples,
            });
        }
        families.push(Family {
            name: format!("weir_aggregate_{}results_beyond", self.name).into(),
            kind: Kind::Counter,
            help: "Results of groups beyond the bound on label sets, which are in the series `other`.".into(),
            since: Some(self.begun),
            samples: vec![Sample::of(state.beyond as f64)],
        });
        families
    }
}

impl Shown {
    fn take(&mut self, now: Shown, adds_up: bool) {
        match (&mut *self, now) {
            (Shown::Number(sum), Shown::Number(number)) if adds_up => *sum += number,
            (Shown::Buckets(sums), Shown::Buckets(counts)) if adds_up => {
                for (bound, count) in counts {
                    match sums.iter_mut().find(|(known, _)| *known == bound) {
                        Some((_, sum)) => *sum += count,
                        None => sums.push((bound, count)),
                    }
                }
                sums.sort_by(|(one, _), (other, _)| one.total_cmp(other));
            }
            (_, Shown::Absent) if adds_up => {}
            (_, now) => *self = now,
        }
    }

    fn value(&self) -> Option<Value> {
        match self {
            Shown::Absent => None,
            Shown::Number(value) => Some(Value::Number(*value)),
            Shown::Buckets(buckets) => Some(Value::Buckets(buckets.clone())),
        }
    }
}

/// Buckets by their upper bounds, of buckets that begin at `from`. `is_open`: the last one has no end.
fn buckets(counts: &[u64], from: &[u64], seconds: bool, is_open: bool) -> Vec<(f64, u64)> {
    // A bucket of powers of two ends before the next power.
    let last = from.last().filter(|_| !is_open).map(|last| last.saturating_mul(2).max(1));
    let ends = from.iter().skip(1).copied().chain(last).map(|next| match seconds {
        true => next as f64 / SECOND_NS,
        // Whole numbers below the next bucket.
        false => next.saturating_sub(1) as f64,
    });
    ends.chain([f64::INFINITY]).zip(counts.iter().copied().chain([0])).collect()
}

/// A name as part of the name of a metric, or as that of a label.
fn label(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut label: String = name.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
    // `le` is the label of buckets; names that begin with `__` belong to Prometheus.
    while label.starts_with("__") {
        label.remove(0);
    }
    if label == "le" || label.starts_with(|first: char| first.is_ascii_digit()) {
        label.insert(0, '_');
    }
    label
}

/// The name, with a number if it is taken.
pub fn distinct(name: String, is_taken: impl Fn(&str) -> bool) -> String {
    if !is_taken(&name) {
        return name;
    }
    let mut numbered = (2_u64..).map(|number| format!("{name}_{number}"));
    numbered.find(|name| !is_taken(name)).unwrap_or_default()
}

/// The text of a part of a key: whoever sends packets may have written the value.
fn text(cell: Cell<'_>) -> String {
    let mut text = String::new();
    match cell {
        Cell::Interval(ns) => {
            let _ = write!(text, "{}", ns as f64 / SECOND_NS);
        }
        cell => cell.append_to(&mut text),
    }
    let cut = text.char_indices().nth(VALUE_MAX).map(|(at, _)| at);
    if let Some(cut) = cut {
        text.truncate(cut);
        text.push('…');
    }
    printable(&text, &[]).into_owned()
}

fn number(cell: Cell<'_>) -> Option<f64> {
    match cell {
        Cell::Unsigned(number) => Some(number as f64),
        Cell::Fraction(number) => Some(number),
        Cell::Interval(ns) => Some(ns as f64 / SECOND_NS),
        Cell::Time(time) => Some(time.0 as f64 / SECOND_NS),
        Cell::Bool(truth) => Some(u8::from(truth).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::exposition::{Exposition, text};
    use weir::Compiler;
    use weir::aggregate::RecordSource;
    use weir::packet::{Texts, Timestamp};

    fn series(aggregate: &str) -> Series {
        let made = Aggregation::of(&Compiler::default(), aggregate, RecordSource::Packets, usize::MAX)
            .expect("it is right");
        Series::new("a \"b\"", &made)
    }

    /// A row of a window: beginning in seconds, key, count, mean, and buckets from 0 and from 100.
    fn row(batch: &mut Batch, begin: i64, port: u64, count: u64, counts: [u64; 2]) {
        let mut row = batch.add();
        [begin, begin + 1].into_iter().for_each(|at| row.push(Cell::Time(Timestamp::from_parts(at, 0))));
        row.push(Cell::Unsigned(port));
        row.push(Cell::Unsigned(count));
        row.push(Cell::Fraction(0.5));
        row.push(Cell::Numbers(&counts));
        row.push(Cell::Numbers(&[0, 100]));
    }

    const AGGREGATE: &str =
        "count() as n, mean(frame.len) as m, histogram(frame.len, 100) as h by tcp.dstport every 1s";

    #[test]
    fn amounts_add_up_and_levels_are_those_of_the_last_window() {
        let series = series(AGGREGATE);
        for (begin, port) in [(1, 80), (1, 443), (2, 80)] {
            let mut batch = Batch::new(9);
            row(&mut batch, begin, port, 3, [1, 2]);
            series.take(&batch);
        }
        let shown = text(&series.families(), Exposition::OpenMetrics);
        for line in [
            "# TYPE weir_aggregate_a__b__n counter\n",
            "weir_aggregate_a__b__n_total{tcp_dstport=\"80\"} 6\n",
            "weir_aggregate_a__b__n_total{tcp_dstport=\"443\"} 3\n",
            "# TYPE weir_aggregate_a__b__m gauge\nweir_aggregate_a__b__m{tcp_dstport=\"80\"} 0.5\n",
            "weir_aggregate_a__b__h_bucket{tcp_dstport=\"80\",le=\"99\"} 2\nweir_aggregate_a__b__h_bucket{tcp_dstport=\"80\",le=\"+Inf\"} 6\n",
            "weir_aggregate_a__b__h_count{tcp_dstport=\"443\"} 3\n",
        ] {
            assert!(shown.contains(line), "{line}{shown}");
        }
        assert!(!shown.contains("__m{tcp_dstport=\"443\"}"), "{shown}");
    }

    #[test]
    fn names_and_values_make_a_valid_page() {
        let series = series("count() as n by ip.src/24, ip.dst as ip_src_24, ip.ttl as __name__ every 1s");
        let names: Vec<&str> = series.labels.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["ip_src_24", "ip_src_24_2", "_name__"]);
        assert_eq!(super::text(Cell::Text("a\x1b[31m\u{202e}")), "a\\x1b[31m\\u{202e}");
        assert_eq!(super::text(Cell::Text(&"é".repeat(300))), "é".repeat(VALUE_MAX) + "…");
    }

    #[test]
    fn label_sets_are_bounded() {
        let series = series(AGGREGATE);
        let mut batch = Batch::new(9);
        (0..SETS_MAX as u64 + 5).for_each(|port| row(&mut batch, 1, port, 2, [1, 1]));
        let mut other = batch.add();
        (0..7).for_each(|_| other.push(Cell::Unsigned(1)));
        other.push(Cell::Bool(true));
        other.push(Cell::Texts(Texts::Whole(&[])));
        drop(other);
        series.take(&batch);
        let families = series.families();
        let of = |name: &str| families.iter().find(|family| family.name.ends_with(name)).expect(name);
        assert_eq!(of("__n").samples.len(), SETS_MAX + 1);
        let beyond = of("__n")
            .samples
            .iter()
            .find(|sample| sample.labels[0].1 == OTHER)
            .map(|sample| sample.value.clone());
        let beyond = (beyond, of("_beyond").samples[0].value.clone());
        assert_eq!(beyond, (Some(Value::Number(11.0)), Value::Number(6.0)));
    }
}
