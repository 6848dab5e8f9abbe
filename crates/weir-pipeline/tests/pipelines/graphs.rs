//! Graphs: the same results with and without queues, and wrong connections.

use crate::Record;
use proptest::prelude::*;
use std::sync::mpsc::channel;
use weir_pipeline::{
    Either, Filter, Graph, GraphError, Inspect, Join, Map, Operator, Pass, Pipeline, Port, Queue, Reduce,
    Reduced, Signal, Tumbling,
};

/// Counts by key; the signal `Flush` passes the counts on.
fn counts() -> impl Operator<Record, Out = Reduced<u8, u64>> + Send + 'static {
    Reduce::new(|record: &Record| record.1, || 0, |sum: &mut u64, record: Record| *sum += record.2)
}

#[derive(Debug, Clone, Copy)]
enum Connection {
    Direct,
    Queued(usize),
}

fn connect<T: Send + 'static>(
    graph: &mut Graph<Record>,
    connection: Connection,
    from: weir_pipeline::Output<T>,
    to: weir_pipeline::Input<T>,
) {
    match connection {
        Connection::Direct => graph.connect(from, to),
        Connection::Queued(capacity) => graph.connect_queued(from, to, capacity),
    }
}

/// The items of an output.
fn collect<In: Send + 'static, T: Send + 'static>(
    graph: &mut Graph<In>,
    from: weir_pipeline::Output<T>,
) -> std::sync::mpsc::Receiver<T> {
    let (sender, receiver) = channel();
    graph.for_each(from, move |item| sender.send(item).expect("the test receives"));
    receiver
}

/// Sums by key of records with even numbers.
fn run(records: &[Record], flush_each: usize, connections: [Connection; 2]) -> Vec<(u8, u64)> {
    let mut graph = Graph::new();
    let even = graph.add_stage(Filter(|record: &Record| record.2.is_multiple_of(2)));
    let sums = graph.add_stage(counts());
    let source = graph.source();
    connect(&mut graph, connections[0], source, even.input);
    connect(&mut graph, connections[1], even.output, sums.input);
    let results = collect(&mut graph, sums.output);
    let mut running = graph.run().expect("right connections");
    for (number, record) in records.iter().enumerate() {
        running.put(*record);
        if number % flush_each == flush_each - 1 {
            running.signal(Signal::Flush);
        }
    }
    running.finish().expect("no thread panics");
    results.try_iter().map(|sum| (sum.key.unwrap_or(u8::MAX), sum.state)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn queues_change_nothing(
        records in prop::collection::vec((0_i64..9, 0_u8..4, 0_u64..100), 0..600),
        flush_each in 1_usize..700,
        capacity in 1_usize..40,
    ) {
        let direct = run(&records, flush_each, [Connection::Direct; 2]);
        let queued = Connection::Queued(capacity);
        for connections in [[queued, Connection::Direct], [Connection::Direct, queued], [queued; 2]] {
            prop_assert_eq!(&direct, &run(&records, flush_each, connections));
        }
        let mut model = vec![];
        let mut fused = Pipeline::new().filter(|record: &Record| record.2.is_multiple_of(2)).then(counts()).run_into(&mut model);
        for (number, record) in records.iter().enumerate() {
            fused.put(*record);
            if number % flush_each == flush_each - 1 {
                fused.signal(Signal::Flush);
            }
        }
        fused.finish();
        let model: Vec<(u8, u64)> = model.into_iter().map(|sum| (sum.key.unwrap_or(u8::MAX), sum.state)).collect();
        prop_assert_eq!(direct, model);
    }
}

#[test]
fn a_join_over_two_queues_finds_every_pair_of_a_window() {
    let mut graph = Graph::<(char, u32)>::new();
    let left = graph.add_stage(Filter(|item: &(char, u32)| item.0 == 'l'));
    let right = graph.add_stage(Filter(|item: &(char, u32)| item.0 == 'r'));
    let join = graph.add_stage::<Either<(char, u32), (char, u32)>, _>(Join::new(
        |left: &(char, u32)| left.1,
        |right: &(char, u32)| right.1,
    ));
    let (of_left, of_right) = join.input.sides();
    graph.connect_copy(graph.source(), left.input);
    graph.connect_copy(graph.source(), right.input);
    graph.connect_queued(left.output, of_left, 4);
    graph.connect_queued(right.output, of_right, 4);
    let pairs = collect(&mut graph, join.output);
    let mut running = graph.run().expect("right connections");
    for number in 0..500 {
        running.put(('l', number));
        running.put(('r', number % 250));
    }
    running.finish().expect("no thread panics");
    assert_eq!(pairs.try_iter().count(), 500);
}

/// Windows of both inputs differ, and one input is ahead: only items of the same window are pairs.
#[test]
fn joins_pair_items_of_the_same_window() {
    let second = Tumbling::every(std::time::Duration::from_secs(1)).expect("a length");
    let time = |second: i64| second * 1_000_000_000;
    for is_queued in [false, true] {
        let mut graph = Graph::<(char, i64, u32)>::new();
        let left = graph.add_stage(Filter(|item: &(char, i64, u32)| item.0 == 'l'));
        let right = graph.add_stage(Filter(|item: &(char, i64, u32)| item.0 == 'r'));
        let join = graph.add_stage(
            Join::new(|left: &(char, i64, u32)| left.2, |right: &(char, i64, u32)| right.2).within(
                second,
                |left: &(char, i64, u32)| left.1,
                |right: &(char, i64, u32)| right.1,
            ),
        );
        let (of_left, of_right) = join.input.sides();
        graph.connect_copy(graph.source(), left.input);
        graph.connect_copy(graph.source(), right.input);
        if is_queued {
            graph.connect_queued(left.output, of_left, 2);
            graph.connect_queued(right.output, of_right, 2);
        } else {
            graph.connect(left.output, of_left);
            graph.connect(right.output, of_right);
        }
        let pairs = collect(&mut graph, join.output);
        let mut running = graph.run().expect("right connections");
        for (side, at, key) in [('l', 0, 9), ('l', 2, 9), ('r', 1, 9), ('r', 2, 9), ('l', 1, 5), ('r', 1, 5)]
        {
            running.put((side, time(at), key));
        }
        running.signal(Signal::Time(time(2)));
        running.put(('l', time(1), 5));
        let counts = running.finish().expect("no thread panics");
        let mut pairs: Vec<(i64, i64, u32)> = pairs.try_iter().map(|(l, r)| (l.1, r.1, l.2)).collect();
        pairs.sort_unstable();
        assert_eq!(pairs, [(time(1), time(1), 5), (time(2), time(2), 9)], "queued: {is_queued}");
        assert_eq!((counts["late"], counts["unkept"]), (1, 0));
    }
}

#[test]
fn a_join_of_many_pairs_passes_them_on_in_parts() {
    let mut graph = Graph::<Either<u32, u32>>::new();
    let join = graph.add_stage(Join::new(|_: &u32| (), |_: &u32| ()));
    graph.connect(graph.source(), join.input);
    let pairs = collect(&mut graph, join.output);
    let mut running = graph.run().expect("right connections");
    (0..300).for_each(|number| running.put(Either::Left(number)));
    (0..300).for_each(|number| running.put(Either::Right(number)));
    running.finish().expect("no thread panics");
    assert_eq!(pairs.try_iter().count(), 300 * 300);
}

#[test]
fn the_rest_of_a_pipeline_runs_on_its_own_thread() {
    let (sender, receiver) = channel();
    let main = std::thread::current().id();
    let rest = Pipeline::new().map(move |number: u32| {
        assert_ne!(std::thread::current().id(), main);
        sender.send(number * 2).expect("the test receives");
    });
    let mut running =
        Pipeline::new().filter(|number: &u32| number.is_multiple_of(3)).queue(2, rest).run_into(vec![]);
    (0..300).for_each(|number| running.put(number));
    running.finish();
    assert_eq!(receiver.iter().collect::<Vec<_>>(), (0..100).map(|number| number * 6).collect::<Vec<_>>());
}

#[test]
fn wrong_connections_are_refused() {
    let mut graph = Graph::<u8>::new();
    let _ = graph.add_stage::<u8, _>(Pass);
    assert_eq!(graph.run().expect_err("no input"), GraphError::NoInput(1));

    let mut graph = Graph::<u8>::new();
    let (a, b) = (graph.add_stage::<u8, _>(Pass), graph.add_stage::<u8, _>(Pass));
    graph.connect(graph.source(), a.input);
    graph.connect(a.output, b.input);
    graph.connect_copy(b.output, a.input);
    assert!(matches!(graph.run(), Err(GraphError::Cycle(_))));

    let mut graph = Graph::<u8>::new();
    let (a, b) = (graph.add_stage::<u8, _>(Pass), graph.add_stage::<u8, _>(Pass));
    graph.connect(graph.source(), a.input);
    graph.connect(graph.source(), b.input);
    let error = graph.run().expect_err("items can be moved once");
    assert_eq!(error, GraphError::TwoConsumers(0));
    assert_eq!(
        error.to_string(),
        "stage 0: its items go to several stages; use connect_copy for all but one"
    );

    let mut graph = Graph::<u8>::new();
    let (a, b) = (graph.add_stage::<u8, _>(Pass), graph.add_stage::<u8, _>(Pass));
    graph.connect(graph.source(), a.input);
    graph.connect_copy(a.output, b.input);
    graph.connect_queued(a.output, b.input, 8);
    assert_eq!(graph.run().expect_err("one stage on two threads"), GraphError::TwoThreads(2));

    // A queue that leads back to the thread of the source, and two threads that wait for each other.
    let mut graph = Graph::<u8>::new();
    let (b, c) = (graph.add_stage::<u8, _>(Pass), graph.add_stage::<u8, _>(Pass));
    graph.connect_copy(graph.source(), c.input);
    graph.connect_queued(graph.source(), b.input, 8);
    graph.connect_queued(b.output, c.input, 8);
    assert_eq!(graph.run().expect_err("items would wait"), GraphError::ThreadCycle(2));
    let mut graph = Graph::<u8>::new();
    let stages: Vec<_> = (0..4).map(|_| graph.add_stage::<u8, _>(Pass)).collect();
    graph.connect_queued(graph.source(), stages[0].input, 8);
    graph.connect_copy(stages[0].output, stages[1].input);
    graph.connect_queued(stages[0].output, stages[2].input, 8);
    graph.connect_copy(stages[2].output, stages[3].input);
    graph.connect_queued(stages[2].output, stages[1].input, 8);
    assert!(matches!(graph.run(), Err(GraphError::ThreadCycle(_))));
}

#[test]
fn a_thread_that_panics_stops_nobody_and_is_said() {
    let mut graph = Graph::<u32>::new();
    let all = graph.add_stage::<u32, _>(Map(|number: u32| number));
    let fails = graph.add_stage(Inspect(|number: &u32| assert!(*number < 5, "a mistake of the test")));
    graph.connect(graph.source(), all.input);
    graph.connect_queued(all.output, fails.input, 2);
    let mut running = graph.run().expect("right connections");
    (0..1_000).for_each(|number| running.put(number));
    assert_eq!(running.finish(), Err(GraphError::Panicked(2)));

    // A queue that is dropped before the end does not wait for ever.
    drop(Queue::new(1, Map(|_: u32| ())));
}
