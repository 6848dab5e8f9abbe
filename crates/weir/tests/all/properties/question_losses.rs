//! What each question has lost in the engine, beside the sums of the run.

use crate::properties::drive::{FIRST_LIGHT, in_memory, read_capture, seeds};
use std::sync::Arc;
use weir::packet::Source;
use weir::stream::{Chunk, ChunkParams, OverloadParams, Priorities, Stream, StreamHandler, StreamParams};
use weir::{
    Ask, Compiler, Engine, Item, Limits, LossCounts, Need, Next, Options, Outcome, Question, QuestionLosses,
    Shape, TakeItems, Want,
};
use weir_testing::Random;
use weir_testing::traffic::{Network, conversation, mix};

struct Nowhere;

impl TakeItems for Nowhere {
    fn take(&mut self, _: usize, _: Item<'_>) -> Next {
        Next::Go
    }
}

#[derive(Debug)]
struct Ignored;

impl StreamHandler for Ignored {
    type State = ();

    fn data(&mut self, _: &mut (), _: &mut Stream<'_, '_>, _: &Chunk<'_>) {}
}

/// Runs these questions, each a subscription. Returns their losses.
fn losses(
    questions: Vec<Question>,
    options: Options,
    source: &mut dyn Source,
    workers: usize,
) -> (Vec<LossCounts>, Outcome) {
    let mut engine = Engine::with(Compiler::default(), options);
    let losses: Vec<Arc<QuestionLosses>> = questions.iter().map(Question::losses).collect();
    for question in questions {
        engine.subscribe_questions(vec![question], Nowhere).expect("the filter is right");
    }
    let outcome = engine.run(source, workers).expect("the questions can be asked together");
    (losses.iter().map(|losses| losses.counts()).collect(), outcome)
}

/// Packets that wait for their connection are given up: only the questions that may receive them lose
/// anything.
#[test]
fn packets_that_are_given_up_count_for_the_questions_that_wait() {
    let packets = read_capture(FIRST_LIGHT);
    let about = |filter: &str| {
        let ask = Ask { filter: filter.to_string(), need: Need::default(), want: Want::Packets };
        Question::new(ask, Shape::default())
    };
    for workers in [1, 2] {
        let limits = Limits { held_packets_max: 40, ..Limits::default() };
        let options = Options { limits, ..Options::default() };
        let asked = vec![about("tls"), about("udp"), about("http")];
        let (lost, outcome) = losses(asked, options, &mut in_memory(&packets), workers);
        let [tls, udp, http] = [0, 1, 2].map(|question: usize| lost[question].undecided_packets);
        let sum = outcome.counters.packet.undecided;
        assert!(sum > 0 && udp == 0, "{lost:?}");
        assert!(tls > 0 && tls <= sum && http <= sum && tls + http >= sum, "{lost:?} of {sum}");
    }
}

/// Memory is short: each byte of a chunk that is dropped counts for its question, and none for a question of
/// high priority.
#[test]
fn bytes_of_streams_that_are_dropped_count_for_their_question() {
    let (mut bytes, mut segments) = (0, 0);
    for seed in seeds(0..6) {
        let mut random = Random::new(seed);
        let network = Network { repeats: true, loses: false, reorders: true, fragments: false, cuts: false };
        let flood = (0..150).map(|index| conversation(&mut random, (20_000 + index, 80), network));
        let mut conversations: Vec<_> = flood.collect();
        conversations.extend((0..10).map(|index| conversation(&mut random, (50_000 + index, 53), network)));
        let packets = mix(&mut random, &conversations);
        let priorities = Priorities::of(0..3);
        let overload = OverloadParams { memory_max: 256 << 10, base_permille: 300, cutoff: 512, priorities };
        let chunk = Some(ChunkParams { bytes: 16 << 10, overlap: 0, flush_ns: 0 });
        let of = |filter: &str, priority| {
            let params = StreamParams { chunk, priority, ..StreamParams::default() };
            Question::of_streams(filter, params, || Ignored)
        };
        let asked = vec![of("tcp.port == 53", 2), of("tcp and not tcp.port == 53", 0)];
        let options = Options { overload, ..Options::default() };
        let (lost, outcome) = losses(asked, options, &mut in_memory(&packets), 1);
        let counted = outcome.counters.stream;
        assert_eq!(lost[0], LossCounts::default(), "seed {seed}");
        assert_eq!(lost[1].stream_bytes, counted.stream_bytes_dropped, "seed {seed}");
        assert_eq!(lost[1].stream_segments, counted.stream_segments_dropped, "seed {seed}");
        bytes += lost[1].stream_bytes;
        segments += lost[1].stream_segments;
    }
    assert!(bytes > 0 && segments > 0, "memory was short: {bytes} bytes, {segments} segments");
}
