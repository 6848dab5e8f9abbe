//! What pipelines cost, compared with what they are instead of: one line for each comparison, as of a table
//! in Markdown.
//!
//! `cargo run --release -p weir-pipeline --example pipeline_cost [ITEMS]`

use std::collections::{HashMap, VecDeque};
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;
use weir_pipeline::{Filter, FlatTable, Graph, Map, Pipeline, Port, Reduce};

/// A packet: the words of its flow's key, its length, and its sequence number.
type Item = ([u64; 2], u64, u64);

/// Rounds of each measurement; the median counts. The sides of a comparison are interleaved.
const ROUNDS: usize = 5;
/// Packets of a flow that follow each other.
const RUN: u64 = 4;

/// Packets of `flows` flows; hosts with lower numbers are more frequent.
fn items(count: usize, flows: u64) -> Vec<Item> {
    let mut state = 1_u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut items = vec![];
    while items.len() < count {
        let flow = next(flows).min(next(flows));
        let key = [0x0a00_0000 << 32 | flow, 443 * 65_536 + flow % 60_000];
        items.extend((0..RUN).map(|number| (key, 60 + flow % 1_441, number)));
    }
    items.truncate(count);
    items
}

/// Nanoseconds for each item of both sides: medians, interleaved.
fn compare<'a>(items: usize, one: &'a mut dyn FnMut() -> u64, two: &'a mut dyn FnMut() -> u64) -> [f64; 2] {
    let mut times = [vec![], vec![]];
    let mut sides = [one, two];
    for _ in 0..ROUNDS {
        for (times, side) in times.iter_mut().zip(&mut sides) {
            let start = Instant::now();
            black_box(side());
            times.push(start.elapsed().as_nanos() as f64 / items as f64);
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 2]
    })
}

fn line(what: &str, ours: &str, theirs: &str, [our_ns, their_ns]: [f64; 2], paper: &str) {
    println!(
        "| {what} | {ours} | {our_ns:.1} | {theirs} | {their_ns:.1} | {:.1} | {paper} |",
        their_ns / our_ns
    );
}

/// The filter, the map and the sum of all forms.
fn keep(item: &Item) -> bool {
    item.1 > 100
}

fn bytes(item: Item) -> u64 {
    item.1 * 8 + item.2
}

fn fused(items: &[Item]) -> u64 {
    let mut sum = 0_u64;
    Pipeline::new().filter(keep).map(bytes).for_each(items.iter().copied(), |bytes| sum += bytes);
    sum
}

/// The same with a queue before each operator, as where each operator is a thread.
fn queued(items: &[Item]) -> u64 {
    let mut sum = 0_u64;
    let last = Map(move |bytes: u64| {
        sum += bytes;
        black_box(sum);
    });
    let middle = Pipeline::new().map(bytes).queue(1 << 12, last);
    let mut running = Pipeline::new().filter(keep).queue(1 << 12, middle).run_into(vec![]);
    items.iter().for_each(|item| running.put(*item));
    running.finish();
    0
}

/// The same as stages of a graph, on one thread.
fn staged(items: &[Item]) -> u64 {
    let mut graph = Graph::<Item>::new();
    let filter = graph.add_stage(Filter(keep));
    let map = graph.add_stage(Map(bytes));
    let mut all = 0_u64;
    let sum = graph.add_stage(Map(move |bytes: u64| {
        all += bytes;
        black_box(all);
    }));
    graph.connect(graph.source(), filter.input);
    graph.connect(filter.output, map.input);
    graph.connect(map.output, sum.input);
    let mut running = graph.run().expect("right connections");
    items.iter().for_each(|item| running.put(*item));
    running.finish().expect("no thread panics");
    0
}

/// Items through a ring to another thread.
fn ring(items: &[Item]) -> u64 {
    let mut sum = 0;
    let rest = Map(move |item: Item| {
        sum += item.1;
        black_box(sum);
    });
    let mut running = Pipeline::new().queue(1 << 12, rest).run_into(vec![]);
    items.iter().for_each(|item| running.put(*item));
    running.finish();
    0
}

/// Items through a queue with a lock to another thread.
fn locked(items: &[Item]) -> u64 {
    let queue: Arc<Mutex<VecDeque<Option<Item>>>> = Arc::default();
    let consumer = Arc::clone(&queue);
    let thread = thread::spawn(move || {
        let mut sum = 0;
        loop {
            let taken = consumer.lock().expect("no thread panics").pop_front();
            match taken {
                Some(Some(item)) => sum += item.1,
                Some(None) => return sum,
                None => thread::yield_now(),
            }
        }
    });
    let push = |item: Option<Item>| {
        loop {
            let mut queue = queue.lock().expect("no thread panics");
            if queue.len() < 1 << 12 {
                return queue.push_back(item);
            }
            drop(queue);
            thread::yield_now();
        }
    };
    items.iter().for_each(|item| push(Some(*item)));
    push(None);
    thread.join().expect("no thread panics")
}

/// The work for each packet of a flow: its count, its bytes, its next sequence number.
type State = (u64, u64, u64);

fn single(items: &[Item]) -> u64 {
    let reduce = Reduce::new(
        |item: &Item| item.0,
        || (0, 0, 0),
        |state: &mut State, item: Item| *state = (state.0 + 1, state.1 + item.1, state.2.max(item.2)),
    );
    Pipeline::new().then(reduce).collect(items.iter().copied()).len() as u64
}

/// Packets of a flow: the key, and their lengths and sequence numbers.
type Packets = ([u64; 2], Vec<(u64, u64)>);

/// The same of packets that came grouped by flow, as records do: one lookup for each group.
fn grouped(groups: &[Packets]) -> u64 {
    let reduce = Reduce::new(
        |group: &&Packets| group.0,
        || (0, 0, 0),
        |state: &mut State, group: &Packets| {
            for &(length, number) in &group.1 {
                *state = (state.0 + 1, state.1 + length, state.2.max(number));
            }
        },
    );
    Pipeline::new().then(reduce).collect(groups).len() as u64
}

fn flat(items: &[Item]) -> u64 {
    let mut table: FlatTable<[u64; 2], u64> = FlatTable::new(1 << 24);
    for item in items {
        if let Some((row, _)) = table.find_or_insert(item.0, || 0) {
            *table.row(row).1 += item.1;
        }
    }
    table.len() as u64
}

fn std_map(items: &[Item]) -> u64 {
    let mut table: HashMap<[u64; 2], u64> = HashMap::new();
    items.iter().for_each(|item| *table.entry(item.0).or_default() += item.1);
    table.len() as u64
}

fn hashbrown_map(items: &[Item]) -> u64 {
    let mut table: hashbrown::HashMap<[u64; 2], u64> = hashbrown::HashMap::new();
    items.iter().for_each(|item| *table.entry(item.0).or_default() += item.1);
    table.len() as u64
}

fn main() {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(4_000_000);
    let few = items(count, 10_000);
    println!("| | ours | ns | instead | ns | × | Jetstream |\n|---|---|--:|---|--:|--:|--:|");
    let chain = "filter, map, sum";
    let n = few.len();
    line(chain, "fused", "a queue before each", compare(n, &mut || fused(&few), &mut || queued(&few)), "");
    line(chain, "fused", "stages of a graph", compare(n, &mut || fused(&few), &mut || staged(&few)), "");
    line(
        "to another thread",
        "ring",
        "queue with a lock",
        compare(n, &mut || ring(&few), &mut || locked(&few)),
        "3.0",
    );
    for flows in [10_000, 1_000_000] {
        let items = items(count, flows);
        let mut groups: Vec<Packets> = vec![];
        Pipeline::new().group(64, |item: &Item| item.0).for_each(items.iter().copied(), |group| {
            groups.push((group.key, group.items.iter().map(|item| (item.1, item.2)).collect()));
        });
        let what = format!("state of each of {flows} flows");
        let times = compare(n, &mut || grouped(&groups), &mut || single(&items));
        line(&what, "grouped packets", "single packets", times, "5.4");
        let what = format!("table of {flows} keys");
        line(&what, "flat table", "`std`", compare(n, &mut || flat(&items), &mut || std_map(&items)), "1.8");
        line(
            &what,
            "flat table",
            "`hashbrown`",
            compare(n, &mut || flat(&items), &mut || hashbrown_map(&items)),
            "",
        );
    }
}
