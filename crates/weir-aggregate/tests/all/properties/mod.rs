//! Random plans and records, distributed over workers, against a naive model.

mod model;
mod random;

use crate::listed;
use std::sync::Arc;

use random::{OwnedRecord, Step};
use weir_aggregate::{Aggregator, Counters, Merger, Partial, Plan, Record, Seed, Window};
use weir_testing::Random;

const SEEDS: u64 = 3_000;

fn record(record: &OwnedRecord) -> Record<'_> {
    let OwnedRecord { time_ns, order, key, key_present, inputs, inputs_present } = record;
    Record {
        time_ns: *time_ns,
        order: *order,
        key,
        key_present: *key_present,
        inputs,
        inputs_present: *inputs_present,
    }
}

/// Runs the steps on `workers`; which worker has a record, and the order of merging, are random.
fn run(plan: &Arc<Plan>, steps: &[Step], workers: usize, random: &mut Random) -> (Vec<Window>, Counters) {
    let seed = Seed([7, 8]);
    let mut workers: Vec<_> = (0..workers).map(|_| Aggregator::new(plan.clone(), seed)).collect();
    let mut merger = Merger::new(plan.clone(), seed);
    let mut windows = vec![];
    let merge = |merger: &mut Merger, mut partials: Vec<Partial>, random: &mut Random| {
        random.shuffle(&mut partials);
        partials.into_iter().for_each(|partial| merger.add(partial));
    };
    for step in steps {
        match step {
            Step::Record(owned) => {
                let worker = random.below(workers.len() as u64) as usize;
                workers[worker].record(&record(owned));
            }
            Step::Time(time) => {
                let partials = workers.iter_mut().flat_map(|worker| worker.advance(*time)).collect();
                merge(&mut merger, partials, random);
                // A merger may be later than the workers.
                if random.once_in(2) {
                    windows.extend(listed(|out| merger.advance(*time, out)));
                }
            }
        }
    }
    let partials = workers.iter_mut().flat_map(Aggregator::finish).collect();
    merge(&mut merger, partials, random);
    let last = steps.iter().filter_map(|step| if let Step::Time(time) = step { Some(*time) } else { None });
    windows.extend(last.max().map_or(vec![], |time| listed(|out| merger.advance(time, out))));
    windows.extend(listed(|out| merger.finish(out)));
    let mut counters = merger.counters();
    workers.iter().for_each(|worker| counters.add(&worker.counters()));
    assert_eq!(
        workers.iter().map(Aggregator::bytes).sum::<u64>() + merger.bytes(),
        0,
        "all memory is given back"
    );
    (windows, counters)
}

fn check(seed: u64) -> usize {
    let mut random = Random::new(seed);
    let params = random::plan(&mut random);
    let steps = random::steps(&mut random, params.key_words);
    let plan = Arc::new(Plan::new(params.clone()).unwrap_or_else(|error| panic!("seed {seed}: {error}")));
    let expected = model::run(&params, &steps);
    let (windows, counters) = run(&plan, &steps, 1, &mut random);

    let records = steps.iter().filter(|step| matches!(step, Step::Record(_))).count() as u64;
    let expected_counters =
        Counters { records, late: expected.late, ahead: expected.ahead, ..Counters::default() };
    assert_eq!(counters, expected_counters, "seed {seed}: {params:#?}");
    let times = |windows: &[Window]| windows.iter().map(|w| (w.start_ns, w.end_ns)).collect::<Vec<_>>();
    let expected_times: Vec<_> = expected.windows.iter().map(|w| (w.start_ns, w.end_ns)).collect();
    assert_eq!(times(&windows), expected_times, "seed {seed}: {params:#?}");
    for (window, expected) in windows.iter().zip(&expected.windows) {
        let keys: Vec<_> = window.rows.iter().map(|row| (row.key.to_vec(), row.key_present)).collect();
        let expected_keys: Vec<_> =
            expected.rows.iter().map(|row| (row.key.clone(), row.key_present)).collect();
        assert_eq!(keys, expected_keys, "seed {seed}: {params:#?}");
        for (row, expected) in window.rows.iter().zip(&expected.rows) {
            assert!(!row.is_other);
            assert_eq!(row.values.len(), expected.values.len());
            for (measure, (value, expected)) in row.values.iter().zip(&expected.values).enumerate() {
                assert!(
                    expected.agrees(&value.value, value.is_exact()),
                    "seed {seed}: {:?}: {value:?}, expected {expected:?}",
                    params.measures[measure]
                );
            }
        }
    }

    let workers = 2 + random.below(3) as usize;
    let (distributed, distributed_counters) = run(&plan, &steps, workers, &mut random);
    assert_eq!(distributed, windows, "seed {seed}: {workers} workers: {params:#?}");
    assert_eq!(distributed_counters, expected_counters, "seed {seed}");
    windows.iter().map(|window| window.rows.len()).sum()
}

/// The results are those of the model, and identical for any number of workers and any order of merging.
#[test]
fn results_are_those_of_the_model_for_any_number_of_workers() {
    let rows: usize = (0..SEEDS).map(check).sum();
    assert!(rows > 10 * SEEDS as usize, "{rows} rows are too few to mean anything");
}
