//! Packets, bytes and losses over time. Each second of the run is remembered, up to a bound; what came before
//! is known from the indexes of segments, whose packets are spread evenly over their time.

use serde_json::{Value, json};
use std::collections::{HashSet, VecDeque};
use weir::io::ring::{Stretch, TimeRange};

/// Seconds that are remembered: a day.
pub const SECONDS_MAX: usize = 86_400;

const SECOND_NS: i64 = 1_000_000_000;

/// The counts of a run at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub packets: u64,
    pub bytes: u64,
    /// Packets that the link, the ring or the spool lost.
    pub lost: u64,
}

impl Counts {
    /// What came since these counts.
    fn since(self, before: Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(before.packets),
            bytes: self.bytes.saturating_sub(before.bytes),
            lost: self.lost.saturating_sub(before.lost),
        }
    }
}

/// What came in a second.
#[derive(Debug, Clone, Copy)]
struct Second {
    /// The end, in nanoseconds since 1970.
    end: i64,
    /// Nanoseconds since the second before.
    ns: i64,
    counts: Counts,
}

/// The seconds of a run.
#[derive(Debug, Default)]
pub struct History {
    seconds: VecDeque<Second>,
    last: Option<(i64, Counts)>,
}

impl History {
    /// Adds the counts of the run at a time. Returns what came since the last time.
    pub fn add(&mut self, now: i64, counts: Counts) -> Counts {
        let Some((before, last)) = self.last.replace((now, counts)) else { return Counts::default() };
        let came = counts.since(last);
        if now <= before {
            // The clock was set back.
            return came;
        }
        if self.seconds.len() >= SECONDS_MAX {
            self.seconds.pop_front();
        }
        self.seconds.push_back(Second { end: now, ns: now - before, counts: came });
        came
    }

    /// What came since the last time, up to now.
    fn since(&self, now: i64, counts: Counts) -> Option<Second> {
        let (before, last) = self.last.filter(|(before, _)| *before < now)?;
        Some(Second { end: now, ns: now - before, counts: counts.since(last) })
    }

    /// The first time of the seconds that are remembered.
    pub fn first(&self) -> Option<i64> {
        let first = self.seconds.front().map(|second| second.end - second.ns);
        first.or(self.last.map(|(time, _)| time))
    }
}

/// Parts of a time, of equal length.
pub struct Buckets {
    times: TimeRange,
    packets: Vec<f64>,
    bytes: Vec<f64>,
    lost: Vec<f64>,
}

impl Buckets {
    /// Empty parts of `times`, whose ends are no extremes.
    pub fn new(times: TimeRange, count: usize) -> Self {
        let empty = vec![0.0; count.max(1)];
        Self { times, packets: empty.clone(), bytes: empty.clone(), lost: empty }
    }

    /// Adds the seconds of the run, up to these counts of now. Packets and bytes only if `is_live`: the
    /// packets have the times of the clock.
    pub fn add_history(&mut self, history: &History, (now, counts): (i64, Counts), is_live: bool) {
        for second in history.seconds.iter().copied().chain(history.since(now, counts)) {
            let Counts { packets, bytes, lost } = second.counts;
            let (packets, bytes) = if is_live { (packets, bytes) } else { (0, 0) };
            let times = TimeRange { first: second.end - second.ns, last: second.end };
            self.spread(times, [packets, bytes, lost]);
        }
    }

    /// Adds segments, each once, as far as their packets came before `until`.
    pub fn add_stretches(&mut self, stretches: &[Stretch], until: i64) {
        let mut seen = HashSet::new();
        for Stretch { segment, times, packets, bytes } in stretches {
            if !seen.insert(*segment) || times.first >= until {
                continue;
            }
            // The part before `until`.
            let whole = times.last.saturating_sub(times.first).max(1) as f64;
            let last = times.last.min(until);
            let share = (last.saturating_sub(times.first).max(1) as f64 / whole).min(1.0);
            let part = |count: u64| (count as f64 * share).round() as u64;
            self.spread(TimeRange { first: times.first, last }, [part(*packets), part(*bytes), 0]);
        }
    }

    /// Spreads counts evenly over a time.
    fn spread(&mut self, TimeRange { first, last }: TimeRange, [packets, bytes, lost]: [u64; 3]) {
        let TimeRange { first: begin, last: end } = self.times;
        if last < begin || first > end {
            return;
        }
        let count = self.packets.len();
        let width = (end.saturating_sub(begin).max(1)) as f64 / count as f64;
        let place = |time: i64| (time.saturating_sub(begin)) as f64 / width;
        let (from, to) = (place(first), place(last));
        let length = (to - from).max(1e-9);
        let (least, most) = (from.max(0.0), to.min(count as f64));
        let mut add = |at: usize, share: f64| {
            self.packets[at] += packets as f64 * share;
            self.bytes[at] += bytes as f64 * share;
            self.lost[at] += lost as f64 * share;
        };
        if to - from < 1e-6 {
            return add((from.max(0.0) as usize).min(count - 1), 1.0);
        }
        for at in least as usize..=(most as usize).min(count - 1) {
            let inside = (most.min(at as f64 + 1.0) - least.max(at as f64)).max(0.0);
            if inside > 0.0 {
                add(at, inside / length);
            }
        }
    }

    /// The parts for other programs.
    pub fn to_json(&self) -> Value {
        let whole = |numbers: &[f64]| numbers.iter().map(|number| number.round() as u64).collect::<Vec<_>>();
        let seconds = |ns: i64| ns as f64 / SECOND_NS as f64;
        let TimeRange { first, last } = self.times;
        json!({
            "from": seconds(first),
            "to": seconds(last),
            "seconds": seconds(last.saturating_sub(first)) / self.packets.len() as f64,
            "packets": whole(&self.packets),
            "bytes": whole(&self.bytes),
            "lost": whole(&self.lost),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: i64, last: i64) -> TimeRange {
        TimeRange { first: first * SECOND_NS, last: last * SECOND_NS }
    }

    #[test]
    fn counts_are_spread_over_their_time_and_none_is_lost() {
        let mut buckets = Buckets::new(range(0, 10), 5);
        let stretch = |segment, first, last, packets| Stretch {
            segment: (1, segment),
            times: range(first, last),
            packets,
            bytes: packets * 100,
        };
        let all = [stretch(1, 0, 4, 40), stretch(1, 0, 4, 40), stretch(2, 5, 5, 7), stretch(3, 8, 12, 20)];
        buckets.add_stretches(&all, i64::MAX);
        assert_eq!(
            buckets.to_json()["packets"],
            json!([20, 20, 7, 0, 10]),
            "the second half of the last one is later"
        );
        let mut cut = Buckets::new(range(0, 10), 5);
        cut.add_stretches(&all, 2 * SECOND_NS);
        assert_eq!(cut.to_json()["packets"], json!([20, 0, 0, 0, 0]));
    }

    #[test]
    fn the_history_is_bounded_and_survives_a_clock_that_is_set_back() {
        let mut history = History::default();
        for second in 0..SECONDS_MAX as i64 + 10 {
            history.add(second * SECOND_NS, Counts { packets: second as u64 * 3, bytes: 0, lost: 1 });
        }
        assert_eq!(history.seconds.len(), SECONDS_MAX);
        history.add(5, Counts::default());
        assert_eq!(history.seconds.len(), SECONDS_MAX);
        let mut buckets = Buckets::new(range(100, 110), 10);
        buckets.add_history(&history, (0, Counts::default()), true);
        assert_eq!(buckets.to_json()["packets"], json!(vec![3; 10]));
        let mut other = Buckets::new(range(100, 110), 10);
        other.add_history(&history, (0, Counts::default()), false);
        assert_eq!(other.to_json()["packets"], json!(vec![0; 10]));
    }
}
