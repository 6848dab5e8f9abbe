//! Windows and reductions equal a computation over all records.

use crate::Record;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;
use weir_pipeline::{Pipeline, Port, Signal, Tumbling};

type Sums = BTreeMap<(i64, u8), u64>;

fn ns(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

/// Sums of windows, and the number of records that were late.
fn sums(records: &[Record], windows: Tumbling) -> Sums {
    let pipeline = Pipeline::new().window(windows, |record: &Record| record.0).reduce(
        |record| record.1,
        || 0,
        |sum, record| *sum += record.2,
    );
    let mut sums = Sums::new();
    pipeline.for_each(records.iter().copied(), |sum| {
        let key = (sum.window.map_or(-1, |(start, _)| start), sum.key.expect("no bound is reached"));
        assert_eq!(sums.insert(key, sum.state), None, "a window ends once: {key:?}");
    });
    sums
}

/// The same of records that are at most `delay` later than an earlier one.
fn model(records: &[Record], length: i64, delay: i64) -> Sums {
    let mut sums = Sums::new();
    let mut latest = i64::MIN;
    for &(time, key, number) in records {
        latest = latest.max(time);
        let end = (time.div_euclid(length) + 1) * length;
        if end > latest.saturating_sub(delay) {
            *sums.entry((time.div_euclid(length) * length, key)).or_default() += number;
        }
    }
    sums
}

proptest! {
    #[test]
    fn reductions_of_windows_equal_sums_of_all_records(
        records in prop::collection::vec((-200_i64..200, 0_u8..4, 0_u64..100), 0..200),
        length in 1_i64..50,
        delay in 0_i64..60,
        is_sorted: bool,
    ) {
        let mut records = records;
        if is_sorted {
            records.sort_by_key(|record| record.0);
        }
        let windows = Tumbling::every(ns(length as u64)).expect("a length").delayed(ns(delay as u64));
        prop_assert_eq!(sums(&records, windows), model(&records, length, delay));
    }
}

#[test]
fn windows_end_with_the_watermark_and_without_items() {
    let windows = Tumbling::every(ns(10)).expect("a length");
    let pipeline = Pipeline::new().window(windows, |record: &Record| record.0).reduce(
        |record| record.1,
        || 0,
        |sum, record| *sum += record.2,
    );
    let mut running = pipeline.run_into(vec![]);
    running.put((3, 1, 5));
    running.signal(Signal::Time(9));
    assert_eq!(running.out().len(), 0);
    running.signal(Signal::Time(10));
    assert_eq!(running.out().len(), 1);
    // The clock is set back: windows begin anew.
    running.signal(Signal::Restart(0));
    running.put((4, 1, 6));
    let states: Vec<u64> = running.finish().into_iter().map(|sum| sum.state).collect();
    assert_eq!(states, [5, 6]);
}

/// With a watermark, an item with a wrong time waits, and ends no window.
#[test]
fn an_item_with_a_wrong_time_ends_no_window() {
    let windows = Tumbling::every(ns(10)).expect("a length");
    let pipeline = Pipeline::new().window(windows, |record: &Record| record.0).reduce(
        |record| record.1,
        || 0,
        |sum, record| *sum += record.2,
    );
    let mut running = pipeline.run_into(vec![]);
    running.signal(Signal::Time(i64::MIN));
    for (number, time) in [3, 9_999, 4, 12].into_iter().enumerate() {
        running.put((time, 1, 1));
        running.signal(Signal::Time([3, 3, 4, 12][number]));
    }
    running.put((2, 1, 1));
    assert_eq!(running.counts()["late"], 1);
    let sums: Vec<_> = running.finish().into_iter().map(|sum| (sum.window, sum.state)).collect();
    assert_eq!(sums, [(Some((0, 10)), 2), (Some((10, 20)), 1), (Some((9_990, 10_000)), 1)]);
}

#[test]
fn a_window_without_a_length_is_refused() {
    let error = Tumbling::every(Duration::ZERO).expect_err("no window");
    assert_eq!(error.to_string(), "windows of 0ns: give a length from 1 ns to 292 years");
    assert!(Tumbling::every(Duration::MAX).is_err());
    // The ends of time are times, too: the first one is too late even for the longest delay.
    let windows = Tumbling::every(ns(i64::MAX as u64)).expect("a length").delayed(Duration::MAX);
    assert_eq!(sums(&[(i64::MAX, 1, 1), (i64::MIN, 1, 1), (0, 1, 1)], windows).values().sum::<u64>(), 2);
}
