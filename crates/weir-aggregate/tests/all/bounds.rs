//! What the bounds discard is counted, and memory stays within its bound.

use crate::listed;
use std::sync::Arc;

use weir_aggregate::{
    Aggregator, Counters, Function, Input, Kind, Limits, Mark, Measure, Merger, Plan, PlanParams, Record,
    Row, Scalar, Seed, Value, Window, Windows,
};

const SEED: Seed = Seed([1, 2]);

fn params(windows: Windows, functions: &[(Function, Option<usize>)]) -> PlanParams {
    let measure =
        |(function, input): &(Function, Option<usize>)| Measure { function: function.clone(), input: *input };
    PlanParams {
        key_words: 1,
        inputs: vec![
            Input { first_word: 0, words: 1, kind: Kind::Number },
            Input { first_word: 1, words: 2, kind: Kind::Identity },
        ],
        measures: functions.iter().map(measure).collect(),
        windows,
        lateness_ns: 0,
        having: None,
        top: None,
        limits: Limits::default(),
    }
}

fn plan(params: PlanParams) -> Arc<Plan> {
    Arc::new(Plan::new(params).expect("a valid plan"))
}

fn record(aggregator: &mut Aggregator, time_ns: i64, key: u64, value: u64) {
    let inputs = [value, value, 0];
    let record =
        Record { time_ns, order: 0, key: &[key], key_present: 1, inputs: &inputs, inputs_present: u64::MAX };
    aggregator.record(&record);
}

/// Ends the aggregators and merges what they have. Returns the merged windows, and the sums of all counters.
fn finish(plan: &Arc<Plan>, aggregators: Vec<Aggregator>) -> (Vec<Window>, Counters) {
    let mut merger = Merger::new(plan.clone(), SEED);
    let mut counters = Counters::default();
    for mut aggregator in aggregators {
        aggregator.finish().into_iter().for_each(|partial| merger.add(partial));
        counters.add(&aggregator.counters());
    }
    let windows = listed(|out| merger.finish(out));
    counters.add(&merger.counters());
    (windows, counters)
}

fn number(row: &Row, measure: usize) -> u64 {
    match row.values[measure].value {
        Value::Scalar(Scalar::Number(number)) => number,
        ref value => panic!("{value:?} is no number"),
    }
}

const COUNT: (Function, Option<usize>) = (Function::Count, None);
const SUM: (Function, Option<usize>) = (Function::Sum, Some(0));

#[test]
fn groups_beyond_the_bound_are_other_in_workers_and_in_the_merger() {
    let mut params = params(Windows::None, &[COUNT, SUM]);
    params.limits.groups_max = 3;
    let plan = plan(params);
    let mut aggregators: Vec<_> = (0..2).map(|_| Aggregator::new(plan.clone(), SEED)).collect();
    for key in 0..5 {
        record(&mut aggregators[0], 0, key, 10);
        record(&mut aggregators[1], 0, key + 2, 10);
        record(&mut aggregators[1], 0, key + 2, 10);
    }
    let (windows, counters) = finish(&plan, aggregators);
    let row = |row: &Row| (row.is_other, row.key[0], number(row, 0), number(row, 1));
    let rows: Vec<_> = windows[0].rows.iter().map(row).collect();
    // The first worker has 0, 1, 2; the second one 2, 3, 4, of which 3 and 4 have no room in the window.
    assert_eq!(rows, [(false, 0, 1, 10), (false, 1, 1, 10), (false, 2, 3, 30), (true, 0, 10, 100)]);
    assert_eq!(counters, Counters { records: 15, in_other: 10, ..Counters::default() });
}

#[test]
fn distinct_is_exact_up_to_the_bound_of_all_workers_together() {
    let functions = [(Function::Distinct, Some(1))];
    for (values, is_exact) in [(1_024, true), (1_025, false)] {
        let plan = plan(params(Windows::None, &functions));
        let mut aggregators: Vec<_> = (0..2).map(|_| Aggregator::new(plan.clone(), SEED)).collect();
        for value in 0..values {
            record(&mut aggregators[value as usize % 2], 0, 0, value);
            record(&mut aggregators[0], 0, 0, value / 2);
        }
        let (windows, _) = finish(&plan, aggregators);
        let row = &windows[0].rows[0];
        assert_eq!(row.values[0].is_exact(), is_exact, "{values}");
        if is_exact {
            assert_eq!(number(row, 0), values);
        }
        assert!(number(row, 0).abs_diff(values) < 100, "{row:?}");
    }
}

/// A scan of random hosts and ports, with each large state.
#[test]
fn memory_stays_within_the_bound_and_every_record_is_counted() {
    let histogram = Function::Histogram(weir_aggregate::Buckets::PowersOfTwo);
    let functions =
        [COUNT, (Function::Distinct, Some(1)), (Function::Quantile(0.5), Some(0)), (histogram, Some(0))];
    let mut params = params(Windows::None, &functions);
    params.limits.bytes_max = 1 << 20;
    params.limits.merged_bytes_max = 1 << 20;
    let plan = plan(params);
    let mut aggregators: Vec<_> = (0..3).map(|_| Aggregator::new(plan.clone(), SEED)).collect();
    for number in 0..200_000_u64 {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let aggregator = &mut aggregators[number as usize % 3];
        record(aggregator, 0, mixed % if number < 60_000 { 8 } else { 4_096 }, mixed >> (mixed % 40));
        assert!(aggregator.bytes() <= 1 << 20, "{} bytes after {number} records", aggregator.bytes());
    }
    let mut merger = Merger::new(plan.clone(), SEED);
    let mut counters = Counters::default();
    for mut aggregator in aggregators {
        counters.add(&aggregator.counters());
        for partial in aggregator.finish() {
            merger.add(partial);
            assert!(merger.bytes() <= 1 << 20, "{} bytes", merger.bytes());
        }
    }
    let windows = listed(|out| merger.finish(out));
    let rows = &windows[0].rows;
    assert_eq!(rows.iter().map(|row| number(row, 0)).sum::<u64>(), 200_000);
    assert!(rows.last().is_some_and(|row| row.is_other));
    assert!(counters.in_other > 0 && counters.sets_estimated > 0 && counters.values_cut > 0, "{counters:?}");
    let marks: Vec<_> = rows.iter().map(|row| row.values[1].mark).collect();
    assert!(marks.contains(&Mark::Cut) && marks.contains(&Mark::Estimated), "{marks:?}");
}

/// A quarter of the memory is kept for the states of known groups.
#[test]
fn new_groups_use_three_quarters_of_the_memory() {
    let mut params = params(Windows::None, &[COUNT]);
    params.limits.groups_max = 1 << 20;
    // Various sizes, so that either of the table's arrays is the one that may not grow.
    for bytes_max in (1..40).map(|n| n * 5_000) {
        params.limits.bytes_max = bytes_max;
        let mut aggregator = Aggregator::new(plan(params.clone()), SEED);
        for key in 0..8_000 {
            record(&mut aggregator, 0, key, 0);
            assert!(aggregator.bytes() <= bytes_max / 4 * 3, "{} of {bytes_max} bytes", aggregator.bytes());
        }
        assert!(aggregator.counters().in_other > 0, "{bytes_max}");
    }
}

/// Large states of groups use memory, too: then there are no new groups, whether the table has free rows or
/// not.
#[test]
fn large_states_leave_no_room_for_groups() {
    let histogram = Function::Histogram(weir_aggregate::Buckets::PowersOfTwo);
    let mut params = params(Windows::None, &[(histogram, Some(0))]);
    for bytes_max in (1..40).map(|n| 10_000 + n * 3_000) {
        params.limits.bytes_max = bytes_max;
        let mut aggregator = Aggregator::new(plan(params.clone()), SEED);
        for key in 0..1_000 {
            let (bytes, before) = (aggregator.bytes(), aggregator.counters());
            record(&mut aggregator, 0, key, 1);
            if key >= 7 && bytes > bytes_max / 4 * 3 {
                assert_eq!(aggregator.counters().in_other, before.in_other + 1, "{bytes} of {bytes_max}");
            }
        }
        assert!(aggregator.counters().in_other > 0, "{bytes_max}");
    }
}

#[test]
fn memory_moves_from_the_aggregator_to_the_merger() {
    let plan = plan(params(Windows::Tumbling { length_ns: 1_000 }, &[(Function::Distinct, Some(0))]));
    let mut aggregator = Aggregator::new(plan.clone(), SEED);
    (0..100).for_each(|key| record(&mut aggregator, 0, key, key));
    let (bytes, mut merger) = (aggregator.bytes(), Merger::new(plan, SEED));
    aggregator.advance(1_000).into_iter().for_each(|partial| merger.add(partial));
    assert!(bytes > 100 * 8 * 4);
    assert_eq!((aggregator.bytes(), merger.bytes()), (0, bytes));
    merger.advance(1_000, &mut |_| {});
    assert_eq!(merger.bytes(), 0);
}

/// What a worker left out is missing in the window.
#[test]
fn marks_of_workers_are_marks_of_windows() {
    let mut params = params(Windows::None, &[(Function::Distinct, Some(0))]);
    params.limits.bytes_max = 0;
    let plan = plan(params);
    let mut aggregators: Vec<_> = (0..2).map(|_| Aggregator::new(plan.clone(), SEED)).collect();
    record(&mut aggregators[0], 0, 1, 1);
    record(&mut aggregators[1], 0, 2, 1);
    let (windows, _) = finish(&plan, aggregators);
    assert_eq!(windows[0].rows.iter().map(|row| row.values[0].mark).collect::<Vec<_>>(), [Mark::Cut; 2]);
}

#[test]
fn a_pane_is_closed_at_its_end() {
    let plan = plan(params(Windows::Tumbling { length_ns: 1_000 }, &[COUNT]));
    let mut aggregator = Aggregator::new(plan, SEED);
    record(&mut aggregator, 1_000, 0, 0);
    record(&mut aggregator, 2_000, 0, 0);
    let closed = [1_000, 1_999, 2_000, 2_000, 3_000].map(|time| aggregator.advance(time).len());
    assert_eq!(closed, [0, 0, 1, 0, 1]);
}

/// The first groups of a pane have room in any case; their large states do not.
#[test]
fn without_memory_counts_are_exact_and_large_states_are_cut() {
    let histogram = Function::Histogram(weir_aggregate::Buckets::PowersOfTwo);
    let large = [histogram, Function::Distinct, Function::Quantile(0.5)];
    let mut params = params(Windows::None, &large.map(|function| (function, Some(0))));
    params.measures.push(Measure { function: Function::Count, input: None });
    params.limits.bytes_max = 0;
    let plan = plan(params);
    let mut aggregator = Aggregator::new(plan.clone(), SEED);
    record(&mut aggregator, 0, 1, 1);
    record(&mut aggregator, 0, 1, 2);
    let (windows, counters) = finish(&plan, vec![aggregator]);
    assert_eq!(counters, Counters { records: 2, in_other: 0, values_cut: 6, ..Counters::default() });
    let values = &windows[0].rows[0].values;
    assert_eq!(
        values.iter().map(|value| value.mark).collect::<Vec<_>>(),
        [Mark::Cut, Mark::Cut, Mark::Cut, Mark::Exact]
    );
    assert_eq!((&values[2].value, number(&windows[0].rows[0], 3)), (&Value::Absent, 2));
}

/// A record of the year 2262, and one of 1677, among ordinary ones.
#[test]
fn steps_of_time_make_no_empty_windows_and_no_panes_without_bound() {
    let windows = Windows::Sliding { length_ns: 60_000, slide_ns: 1_000 };
    let plan = plan(params(windows, &[COUNT]));
    let mut aggregator = Aggregator::new(plan.clone(), SEED);
    for time in 0..1_000_i64 {
        record(&mut aggregator, time.wrapping_mul(0x1234_5678_9abc_def1), 0, 0);
    }
    assert_eq!(
        aggregator.counters().ahead,
        1_000 - 64,
        "before the first capture time, the first panes stay"
    );
    let mut merger = Merger::new(plan.clone(), SEED);
    let mut closed = 0;
    for capture_ns in [0, 500, i64::MAX] {
        aggregator.advance(capture_ns).into_iter().for_each(|partial| merger.add(partial));
        closed += listed(|out| merger.advance(capture_ns, out)).len();
        // Ordinary records have room, whatever the panes before are.
        let before = aggregator.counters();
        record(&mut aggregator, capture_ns.saturating_add(700), 0, 0);
        assert_eq!(aggregator.counters(), Counters { records: before.records + 1, ..before });
    }
    // Each pane is in 60 windows.
    assert!(closed <= 66 * 60, "{closed} windows");
}

/// The capture time follows a record only with the next one, so each record is far ahead of the last capture
/// time.
#[test]
fn records_of_sparse_traffic_have_panes() {
    let plan = plan(params(Windows::Tumbling { length_ns: 1_000 }, &[COUNT]));
    let mut aggregator = Aggregator::new(plan.clone(), SEED);
    let mut merger = Merger::new(plan.clone(), SEED);
    let mut windows = vec![];
    aggregator.advance(0);
    for number in 1..1_000 {
        record(&mut aggregator, number * 100_000, 0, 0);
        let capture_ns = (number - 1) * 100_000;
        aggregator.advance(capture_ns).into_iter().for_each(|partial| merger.add(partial));
        windows.extend(listed(|out| merger.advance(capture_ns, out)));
    }
    aggregator.finish().into_iter().for_each(|partial| merger.add(partial));
    windows.extend(listed(|out| merger.finish(out)));
    assert_eq!(windows.len(), 999);
    assert_eq!(aggregator.counters(), Counters { records: 999, ..Counters::default() });
    // Wrong times have no more than their share.
    for number in 0..1_000 {
        record(&mut aggregator, i64::MAX / 2 + number * 1_000, 0, 0);
    }
    assert_eq!(aggregator.counters().ahead, 1_000 - 64);
    record(&mut aggregator, 998 * 100_000 + 1, 0, 0);
    assert_eq!(aggregator.counters().ahead, 1_000 - 64, "ordinary records have room");
}

#[test]
fn a_time_that_was_set_back_makes_new_windows() {
    let plan = plan(params(Windows::Tumbling { length_ns: 1_000 }, &[COUNT]));
    let mut aggregators: Vec<_> = (0..2).map(|_| Aggregator::new(plan.clone(), SEED)).collect();
    let mut merger = Merger::new(plan.clone(), SEED);
    for aggregator in &mut aggregators {
        aggregator.advance(50_000);
        record(aggregator, 50_100, 0, 0);
        record(aggregator, 20_100, 0, 0);
    }
    // The second worker restarts, and its next pane arrives before the merger knows.
    let mut partials = vec![];
    for aggregator in aggregators.iter_mut().rev() {
        partials.extend(aggregator.restart(20_000));
        record(aggregator, 20_200, 0, 0);
        partials.extend(aggregator.advance(21_000));
    }
    partials.into_iter().for_each(|partial| merger.add(partial));
    let starts = |windows: Vec<Window>| -> Vec<_> {
        windows.iter().map(|w| (w.start_ns, number(&w.rows[0], 0))).collect()
    };
    assert_eq!(starts(listed(|out| merger.advance(50_900, out))), []);
    assert_eq!(starts(listed(|out| merger.restart(20_000, out))), [(50_000, 2)]);
    assert_eq!(starts(listed(|out| merger.advance(21_000, out))), [(20_000, 2)]);
    assert_eq!(aggregators.iter().map(|aggregator| aggregator.counters().late).sum::<u64>(), 2);
    assert_eq!(listed(|out| merger.finish(out)), []);
}

#[test]
fn a_sliding_window_reports_groups_whose_records_are_in_earlier_panes() {
    let plan = plan(params(Windows::Sliding { length_ns: 3_000, slide_ns: 1_000 }, &[COUNT]));
    let mut aggregator = Aggregator::new(plan.clone(), SEED);
    record(&mut aggregator, 100, 7, 0);
    record(&mut aggregator, 4_100, 8, 0);
    let (windows, _) = finish(&plan, vec![aggregator]);
    let seen: Vec<_> =
        windows.iter().map(|w| (w.end_ns, w.rows.iter().map(|row| row.key[0]).collect::<Vec<_>>())).collect();
    assert_eq!(seen, [(1_000, vec![7]), (2_000, vec![7]), (3_000, vec![7]), (5_000, vec![8])]);
}

/// A pane that comes after its window was closed is counted, not lost in silence.
#[test]
fn a_pane_that_the_merger_does_not_expect_any_more_is_late() {
    let plan = plan(params(Windows::Tumbling { length_ns: 1_000 }, &[COUNT]));
    let mut aggregator = Aggregator::new(plan.clone(), SEED);
    let mut merger = Merger::new(plan.clone(), SEED);
    record(&mut aggregator, 0, 0, 0);
    record(&mut aggregator, 1, 1, 0);
    assert_eq!(listed(|out| merger.advance(1_000, out)), []);
    aggregator.finish().into_iter().for_each(|partial| merger.add(partial));
    assert_eq!((listed(|out| merger.finish(out)), merger.counters().late), (vec![], 2));
}

/// A burst of groups is in each of sixty windows, which are computed once.
#[test]
fn windows_of_the_same_panes_share_their_rows() {
    let plan = plan(params(Windows::Sliding { length_ns: 60_000, slide_ns: 1_000 }, &[COUNT]));
    let mut aggregator = Aggregator::new(plan.clone(), SEED);
    let mut merger = Merger::new(plan.clone(), SEED);
    record(&mut aggregator, 500, 0, 0);
    record(&mut aggregator, 2_500, 0, 0);
    aggregator.finish().into_iter().for_each(|partial| merger.add(partial));
    let windows = listed(|out| merger.advance(100_000, out));
    let is_shared = |pair: &[weir_aggregate::Window]| std::sync::Arc::ptr_eq(&pair[0].rows, &pair[1].rows);
    let changes = windows.windows(2).filter(|pair| !is_shared(pair)).count();
    // One pane, then both, then the other one.
    assert_eq!((windows.len(), changes), (62, 2));
}
