//! Suppresses repeated rows of a log: a certificate recurs in many handshakes. Zeek's x509.log has each
//! certificate once a day, and `weir certs` has it once.

use std::collections::HashMap;
use weir::Log;
use weir::packet::{Cell, Row, Timestamp};

/// Maximum number of values remembered, as in Zeek; at the limit, all are forgotten.
const KNOWN_MAX: usize = 1_000_000;

/// The same, however little memory there is.
const KNOWN_MIN: usize = 1024;

/// Bytes of a value: the table while it grows, and a digest as text.
const VALUE_BYTES: usize = 3 * size_of::<(String, Timestamp)>() + 64;

/// A value of a log is shown again after this time.
const DAY_NS: i64 = 24 * 3600 * 1_000_000_000;

/// The rows of a log that were already shown.
pub struct Known {
    /// The column that identifies a row; `None`: every row is new.
    column: Option<usize>,
    seen: HashMap<String, Timestamp>,
    /// How often the limit was reached and all values were forgotten.
    forgotten: u64,
    max: usize,
    /// Nanoseconds after which a value is shown again.
    again_ns: i64,
}

impl Known {
    /// An empty set for this log, which uses about `memory_max` bytes: a row is shown once a day.
    pub fn of(log: &Log, memory_max: usize) -> Self {
        let max = KNOWN_MAX.min(memory_max / VALUE_BYTES).max(KNOWN_MIN);
        Self { column: log.known_by(), seen: HashMap::new(), forgotten: 0, max, again_ns: DAY_NS }
    }

    /// As [`of`](Self::of), and a row is shown once.
    pub fn once(log: &Log, memory_max: usize) -> Self {
        Self { again_ns: i64::MAX, ..Self::of(log, memory_max) }
    }

    /// A set that remembers nothing: every row is new.
    pub fn nothing() -> Self {
        Self { column: None, seen: HashMap::new(), forgotten: 0, max: 0, again_ns: 0 }
    }

    /// Whether the log suppresses repeated rows.
    pub fn is_any(&self) -> bool {
        self.column.is_some()
    }

    /// Learns of a row. Returns whether no equal row was shown before, or long enough ago.
    pub fn learn(&mut self, row: Row<'_>) -> bool {
        let Some(value) = self.column.and_then(|column| row.cell(column).text()) else { return true };
        let time = if let Cell::Time(time) = row.cell(0) { time } else { Timestamp(0) };
        if let Some(shown) = self.seen.get_mut(value) {
            let is_old = time.0.saturating_sub(shown.0) >= self.again_ns;
            if is_old {
                *shown = time;
            }
            return is_old;
        }
        if self.seen.len() >= self.max {
            self.seen.clear();
            self.forgotten += 1;
        }
        self.seen.insert(value.to_string(), time);
        true
    }

    /// Reports how often the limit was reached.
    pub fn report(&self) {
        if self.forgotten > 0 {
            let (times, max) = (self.forgotten, self.max);
            let remedy = if max < KNOWN_MAX { " (--memory)" } else { "" };
            note!(
                "weir: more than {max} certificates{remedy}: {times} times, all were forgotten and may be shown again"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir::packet::{Batch, Value};
    use weir::sessions::SessionRegistry;

    #[test]
    fn a_certificate_is_new_once_a_day() {
        let mut known =
            Known::of(&Log::of(SessionRegistry::builtin(), "x509").expect("there is one"), usize::MAX);
        let mut is_new = |print: &'static str, seconds| {
            let mut row = Batch::new(2);
            row.push(&[Value::Time(Timestamp::from_parts(seconds, 0)), Value::Text(print.into())]);
            known.learn(row.row(0))
        };
        let asked = [("a", 0), ("b", 1), ("a", 2), ("a", 86_399), ("a", 86_400), ("a", 86_401), ("b", 5)];
        let answers = asked.map(|(print, seconds)| is_new(print, seconds));
        assert_eq!(answers, [true, true, false, false, true, false, false]);
        let mut once =
            Known::once(&Log::of(SessionRegistry::builtin(), "x509").expect("there is one"), usize::MAX);
        let later = [0, 1, 200_000].map(|seconds| {
            let mut row = Batch::new(2);
            row.push(&[Value::Time(Timestamp::from_parts(seconds, 0)), Value::Text("a".into())]);
            once.learn(row.row(0))
        });
        assert_eq!(later, [true, false, false]);
        let mut none =
            Known::of(&Log::of(SessionRegistry::builtin(), "files").expect("there is one"), usize::MAX);
        let row = Batch::default();
        assert!(none.learn(row.row(0)) && none.learn(row.row(0)), "files have no such column");
    }
}
