//! Tests of provisional ends: FINs and resets that the receiver confirms, disproves, or never answers.

use super::tests::{Receiver, graph};
use super::*;
use proptest::prelude::*;
use weir_ir::abi::{SEQ_FORCED, SEQ_ORDERED, SEQ_OUT_OF_WINDOW, SEQ_QUEUED, SEQ_RETRANSMITTED};

const WHOLE: usize = usize::MAX;

/// `abc` with a FIN behind it has passed.
fn finished() -> Receiver {
    let mut tcp = Receiver::tcp();
    tcp.text(0, "");
    assert_eq!(tcp.segment(0, b"abc", WHOLE, true), SEQ_ORDERED);
    tcp
}

#[test]
fn bytes_behind_a_fin_wait_until_the_receiver_has_taken_some() {
    let mut tcp = finished();
    assert_eq!(tcp.text(3, "def"), SEQ_QUEUED);
    // As little as one byte of the three: the FIN has the same number.
    tcp.acknowledge(4);
    assert_eq!(tcp.so_far(), "abc", "the receiver may have acknowledged the FIN or `d`");
    tcp.acknowledge(6);
    assert_eq!(tcp.so_far(), "abcdef");
    assert_eq!(tcp.text(6, "g"), SEQ_ORDERED);
    let counters = *tcp.reassembler.counters();
    assert_eq!((counters.ends_provisional, counters.ends_disproved), (1, 1));
    tcp.end();
    assert_eq!(tcp.so_far(), "abcdefg");
}

#[test]
fn an_acknowledged_fin_ends_its_direction() {
    let mut tcp = finished();
    tcp.acknowledge(4);
    assert_eq!(tcp.text(4, "evil"), SEQ_OUT_OF_WINDOW);
    assert_eq!(tcp.segment(3, b"", WHOLE, true), SEQ_RETRANSMITTED, "the FIN itself, again");
    tcp.acknowledge(8);
    tcp.end();
    assert_eq!((tcp.so_far().as_str(), tcp.metas.as_slice()), ("abc", &[(3, 1)][..]));
}

#[test]
fn silence_confirms_a_fin() {
    let mut tcp = finished();
    assert_eq!(tcp.text(3, "def"), SEQ_QUEUED);
    tcp.end();
    assert_eq!(tcp.so_far(), "abc");
    assert_ne!(tcp.hot().flags & ENDED, 0);
}

#[test]
fn a_fin_among_bytes_that_are_still_to_come_cuts_no_hole() {
    let mut tcp = Receiver::tcp();
    tcp.text(0, "");
    assert_eq!(tcp.segment(2, b"", WHOLE, true), SEQ_QUEUED);
    assert_eq!(tcp.text(0, "abcd"), SEQ_FORCED, "only its first part is in order");
    assert_eq!(tcp.so_far(), "ab");
    tcp.acknowledge(4);
    assert_eq!((tcp.so_far().as_str(), tcp.hot().missing_bytes), ("abcd", 0));
    tcp.end();
}

#[test]
fn a_reset_is_disproved_by_one_byte() {
    let mut tcp = Receiver::tcp();
    tcp.text(0, "ab");
    tcp.reset();
    assert_eq!(tcp.text(2, "cd"), SEQ_QUEUED);
    tcp.acknowledge(2);
    assert_eq!(tcp.so_far(), "ab");
    tcp.acknowledge(3);
    assert_eq!(tcp.so_far(), "abcd");
    tcp.reset();
    assert_eq!(tcp.text(4, "ef"), SEQ_QUEUED);
    tcp.end();
    assert_eq!(tcp.so_far(), "abcd", "nobody took `ef`");
}

#[test]
fn a_disproved_reset_is_disproved_for_both_directions() {
    let mut tcp = Receiver::tcp();
    tcp.text(0, "GET ");
    tcp.side = Direction::Originator;
    tcp.text(100, "");
    for side in Direction::BOTH {
        tcp.side = side;
        tcp.reset();
    }
    tcp.side = Direction::Responder;
    assert_eq!(tcp.text(4, "/"), SEQ_QUEUED);
    tcp.acknowledge(5);
    assert_eq!(tcp.so_far(), "GET /");
    tcp.side = Direction::Originator;
    tcp.text(100, "200");
    assert_eq!(tcp.so_far(), "GET /200", "although nobody has acknowledged the answer yet");
    tcp.end();
}

#[test]
fn what_opens_a_connection_counts_once_it_is_acknowledged() {
    for (acknowledged, wanted) in [(0, ""), (1, "hello"), (5, "hello")] {
        let mut tcp = Receiver::tcp();
        assert_eq!(tcp.open(0, "hello"), SEQ_QUEUED);
        assert_eq!(tcp.open(0, "hello"), SEQ_RETRANSMITTED);
        assert_eq!(tcp.so_far(), "");
        tcp.acknowledge(acknowledged);
        assert_eq!(tcp.so_far(), wanted);
        tcp.text(0, "HELLO there");
        let wanted = if wanted.is_empty() { "HELLO there" } else { "hello there" };
        assert_eq!((tcp.so_far().as_str(), tcp.hot().high), (wanted, 11));
        tcp.end();
    }
}

#[test]
fn what_opens_a_connection_counts_if_nobody_answers() {
    let mut tcp = Receiver::tcp();
    tcp.open(7, "hello");
    tcp.end();
    assert_eq!(tcp.so_far(), "hello");
    // The receiver was not captured, and the sender goes on.
    let mut tcp = Receiver::tcp();
    tcp.open(7, "hello");
    tcp.text(12, " there");
    assert_eq!(tcp.so_far(), "hello there");
    tcp.end();
}

#[test]
fn only_what_opened_the_connection_is_discarded() {
    let mut tcp = Receiver::tcp();
    tcp.side = Direction::Originator;
    tcp.text(100, "");
    tcp.side = Direction::Responder;
    tcp.open(0, "decoy");
    assert_eq!(tcp.text(5, "later"), SEQ_QUEUED);
    tcp.acknowledge(0);
    tcp.text(0, "truth");
    assert_eq!((tcp.so_far().as_str(), tcp.hot().missing_bytes), ("truthlater", 0));
    tcp.end();
}

#[test]
fn bounds_give_ends_up_rather_than_bytes() {
    let limits = SequenceLimits { queued_segments_max: 2, ..Default::default() };
    let mut tcp = Receiver::new(&graph(32, false, false), limits);
    tcp.text(0, "");
    tcp.segment(0, b"a", WHOLE, true);
    for (at, text) in [(1, "b"), (2, "c"), (3, "d")] {
        tcp.text(at, text);
    }
    assert_eq!(tcp.reassembler.counters().ends_forced, 1);
    tcp.end();
    assert_eq!(tcp.so_far(), "abcd");
}

#[test]
fn a_direction_keeps_some_ends_and_counts_the_others() {
    let mut tcp = Receiver::tcp();
    tcp.text(0, "");
    for at in 1..=20 {
        tcp.segment(at, b"", WHOLE, true);
    }
    let counters = tcp.reassembler.counters();
    assert_eq!((counters.ends_provisional, counters.ends_refused), (16, 4));
    tcp.text(0, &"x".repeat(30));
    tcp.acknowledge(30);
    assert_eq!(tcp.so_far().len(), 30);
    tcp.end();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Forged FINs hide nothing that the receiver takes: it acknowledges each segment, and the true FIN.
    #[test]
    fn forged_fins_hide_nothing(
        base in prop_oneof![Just(0u32), Just(u32::MAX - 300), any::<u32>()],
        lengths in prop::collection::vec(1..50usize, 1..30),
        forged in prop::collection::vec((0..30usize, 0..700usize, 0..3usize), 0..12),
        is_late in any::<bool>(),
    ) {
        let length: usize = lengths.iter().sum();
        let stream: Vec<u8> = (0..length).map(|n| n as u8).collect();
        let number = |at: usize| u64::from(base.wrapping_add(at as u32));
        let mut tcp = Receiver::tcp();
        tcp.text(base.into(), "");
        let mut start = 0;
        for (n, &segment_length) in lengths.iter().enumerate() {
            for &(_, at, bytes) in forged.iter().filter(|(before, ..)| *before == n) {
                // Its bytes, if any, are those of the stream: only the FIN is forged.
                let from = at.min(length - 1).max(start);
                let to = (from + bytes).min(length - 1);
                tcp.segment(number(from), &stream[from..to.max(from)], WHOLE, true);
            }
            let end = start + segment_length;
            tcp.segment(number(start), &stream[start..end], WHOLE, end == length);
            if !is_late {
                tcp.acknowledge(number(end + usize::from(end == length)));
            }
            start = end;
        }
        tcp.acknowledge(number(length + 1));
        prop_assert_ne!(tcp.hot().flags & ENDED, 0);
        tcp.end();
        let sent: Vec<Option<u8>> = stream.into_iter().map(Some).collect();
        prop_assert_eq!(&tcp.stream, &sent);
        prop_assert_eq!(tcp.hot().missing_bytes, 0);
    }
}
