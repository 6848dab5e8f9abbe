//! Nanoseconds per record, compared with hash maps of libraries.
//!
//! `cargo run --release -p weir-aggregate --example record_cost [RECORDS]`: count and sum by a key of five
//! words, for several numbers of groups. The maps hash with SipHash (`std`) and with foldhash, the default of
//! `hashbrown`; neither has windows or bounds.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use weir_aggregate::{
    Aggregator, Function, Input, Kind, Limits, Measure, Merger, Plan, PlanParams, Record, Seed, Windows,
};

const KEY_WORDS: usize = 5;

/// The keys of the records: two addresses, and ports and protocol in one word. Hosts with lower numbers are
/// more frequent.
pub fn keys(records: usize, groups: u64) -> Vec<[u64; KEY_WORDS]> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % groups
    };
    (0..records)
        .map(|_| {
            let group = next().min(next());
            [0x2001_0db8 << 32, group, 0x2001_0db8 << 32, group / 7, (443 << 16) + group % 60_000]
        })
        .collect()
}

/// An aggregate with these functions of the single input, by the key.
pub fn plan(functions: &[Function], groups_max: usize) -> Arc<Plan> {
    let measure = |function: &Function| Measure {
        function: function.clone(),
        input: (*function != Function::Count).then_some(0),
    };
    let params = PlanParams {
        key_words: KEY_WORDS,
        inputs: vec![Input { first_word: 0, words: 1, kind: Kind::Number }],
        measures: functions.iter().map(measure).collect(),
        windows: Windows::Tumbling { length_ns: 1 << 40 },
        lateness_ns: 0,
        having: None,
        top: None,
        limits: Limits { groups_max, bytes_max: 4 << 30, merged_bytes_max: 4 << 30, ..Limits::default() },
    };
    Arc::new(Plan::new(params).expect("a valid plan"))
}

/// Nanoseconds per record of an aggregator whose groups are known, and bytes per group.
pub fn aggregator_ns(plan: &Arc<Plan>, keys: &[[u64; KEY_WORDS]]) -> (f64, u64) {
    let mut aggregator = Aggregator::new(plan.clone(), Seed::random());
    let mut pass = || {
        for (order, key) in keys.iter().enumerate() {
            let inputs = [60 + order as u64 % 1_441];
            aggregator.record(&Record {
                time_ns: order as i64,
                order: order as u64,
                key,
                key_present: 7,
                inputs: &inputs,
                inputs_present: 1,
            });
        }
    };
    pass();
    let ns = ns_of(keys.len(), &mut pass);
    (ns, aggregator.bytes())
}

/// Nanoseconds per record of the map of `std` with this hash.
pub fn std_ns<S: BuildHasher + Default>(keys: &[[u64; KEY_WORDS]]) -> f64 {
    let mut groups: HashMap<([u64; KEY_WORDS], u64), (u64, u128), S> = HashMap::default();
    let mut pass = || {
        for (order, key) in keys.iter().enumerate() {
            let state = groups.entry((*key, black_box(7))).or_default();
            state.0 += 1;
            state.1 += 60 + order as u128 % 1_441;
        }
    };
    pass();
    ns_of(keys.len(), &mut pass)
}

/// Nanoseconds per record of the map of `hashbrown` with its own hash.
pub fn hashbrown_ns(keys: &[[u64; KEY_WORDS]]) -> f64 {
    let mut groups: hashbrown::HashMap<([u64; KEY_WORDS], u64), (u64, u128)> = hashbrown::HashMap::default();
    let mut pass = || {
        for (order, key) in keys.iter().enumerate() {
            let state = groups.entry((*key, black_box(7))).or_default();
            state.0 += 1;
            state.1 += 60 + order as u128 % 1_441;
        }
    };
    pass();
    ns_of(keys.len(), &mut pass)
}

/// Milliseconds to merge the panes of two workers and to finish the window.
pub fn merge_ms(plan: &Arc<Plan>, keys: &[[u64; KEY_WORDS]]) -> f64 {
    let mut merger = Merger::new(plan.clone(), Seed([1, 1]));
    let mut partials = vec![];
    for half in keys.chunks(keys.len() / 2) {
        let mut aggregator = Aggregator::new(plan.clone(), Seed([1, 1]));
        for key in half {
            aggregator.record(&Record {
                time_ns: 0,
                order: 0,
                key,
                key_present: 7,
                inputs: &[1],
                inputs_present: 1,
            });
        }
        partials.extend(aggregator.finish());
    }
    let start = Instant::now();
    partials.into_iter().for_each(|partial| merger.add(partial));
    merger.finish(&mut |window| drop(black_box(window)));
    start.elapsed().as_secs_f64() * 1e3
}

/// The shortest of five passes.
fn ns_of(records: usize, pass: &mut dyn FnMut()) -> f64 {
    let mut time = || {
        let start = Instant::now();
        pass();
        start.elapsed().as_nanos() as f64 / records as f64
    };
    (0..5).map(|_| time()).fold(f64::INFINITY, f64::min)
}

fn main() {
    let records = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2_000_000);
    println!("{records} records, nanoseconds per record");
    println!(
        "{:>9} {:>9} {:>9} {:>9} {:>12} {:>9}",
        "groups", "weir", "std", "hashbrown", "bytes/group", "merge ms"
    );
    for groups in [10, 1_000, 65_536, 1_000_000] {
        let keys = keys(records, groups);
        let plan = plan(&[Function::Count, Function::Sum], 1 << 21);
        let (weir, bytes) = aggregator_ns(&plan, &keys);
        let std = std_ns::<std::hash::RandomState>(&keys);
        let (hashbrown, merge) = (hashbrown_ns(&keys), merge_ms(&plan, &keys));
        let used = keys.iter().collect::<std::collections::HashSet<_>>().len() as u64;
        println!("{used:>9} {weir:>9.1} {std:>9.1} {hashbrown:>9.1} {:>12} {merge:>9.1}", bytes / used);
    }
    println!("\nby function, 1000 groups");
    let keys = keys(records, 1_000);
    let functions = [
        Function::Count,
        Function::Sum,
        Function::Min,
        Function::Mean,
        Function::Last,
        Function::Quantile(0.5),
        Function::Distinct,
        Function::Histogram(weir_aggregate::Buckets::PowersOfTwo),
    ];
    for function in functions {
        let (ns, bytes) = aggregator_ns(&plan(std::slice::from_ref(&function), 1 << 21), &keys);
        println!("{:>30} {ns:>9.1} ns {:>9} bytes/group", format!("{function:?}"), bytes / 1_000);
    }
}
