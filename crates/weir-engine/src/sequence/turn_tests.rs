//! Tests of both directions of a flow: segments come out behind the bytes that they acknowledge, in any
//! capture order.

use super::tests::graph;
use super::*;
use proptest::prelude::*;
use std::sync::Arc;
use weir_ir::abi::{SEQ_FORCED, SEQ_ORDERED};
use weir_ir::graph::Table;
use weir_packet::Direction::{Originator, Responder};
use weir_packet::{Block, Direction};

const SEQUENCE: Sequence = Sequence(0);

/// A segment of one side: its bytes, and how many bytes of the other side it acknowledges.
#[derive(Debug, Clone)]
struct Said {
    side: Direction,
    at: u64,
    bytes: Vec<u8>,
    heard: u64,
}

/// A program that receives both sides.
struct Listener {
    reassembler: Reassembler,
    vars: SequenceVars,
    data: Vec<u8>,
    /// There is memory for waiting segments.
    may_wait: bool,
    /// The output: side, bytes missing before, bytes.
    out: Vec<(Direction, u64, Vec<u8>)>,
}

impl Listener {
    fn new(limits: SequenceLimits) -> Self {
        let graph = graph(32, false, false);
        let layout = Layout::of(&graph);
        let mut new = Self {
            reassembler: Reassembler::new(&graph, &layout, limits),
            vars: SequenceVars::of(&graph, &layout, Table(0)).unwrap(),
            data: vec![0; layout.size(Table(0))],
            may_wait: true,
            out: vec![],
        };
        // Both sides have begun, at number 0.
        for side in Direction::BOTH {
            new.hears(&Said { side, at: 0, bytes: vec![], heard: 0 });
        }
        new
    }

    fn hears(&mut self, said: &Said) {
        let Said { side, at, bytes, heard } = said;
        let (side, length) = (*side, bytes.len() as u64);
        let other = self.vars.read(&self.data, side.other());
        let is_ahead = length > 0 && heard.wrapping_sub(other.next) & 0xffff_ffff > 0;
        if other.flags & QUEUED != 0 || is_ahead {
            let flow = FlowRecord { id: 5, data: &mut self.data };
            self.reassembler.acknowledge(SEQUENCE, flow, side.other(), *heard);
        }
        let block = Arc::new(Block::from(bytes.clone()));
        let segment = Segment {
            may_wait: self.may_wait,
            at: *at,
            bytes: block.heap(),
            claimed_bytes: length,
            span: length,
            metas: &[0],
            policy: Policy::First,
            frame: None,
        };
        let flow = FlowRecord { id: 5, data: &mut self.data };
        let inserted = self.reassembler.insert(SEQUENCE, flow, side, segment, &block);
        if inserted.status == SEQ_ORDERED && length > inserted.skip {
            self.out.push((side, 0, bytes[inserted.skip as usize..].to_vec()));
        }
        let flags = self.vars.read(&self.data, side).flags;
        let is_ordered = inserted.status == SEQ_ORDERED && flags & (QUEUED | ACKNOWLEDGES | EXPECTED) != 0;
        if is_ordered || inserted.status == SEQ_FORCED {
            self.drain(side, Reassembler::next);
        }
    }

    fn drain(
        &mut self,
        side: Direction,
        next: impl Fn(&mut Reassembler, Sequence, FlowRecord<'_>, Direction) -> Option<Passed>,
    ) {
        while let Some(Passed { ordered, .. }) =
            next(&mut self.reassembler, SEQUENCE, FlowRecord { id: 5, data: &mut self.data }, side)
        {
            let bytes = ordered.bytes.bytes().to_vec();
            self.out.push((if ordered.of_other { side.other() } else { side }, ordered.gap_bytes, bytes));
        }
    }

    /// Ends the flow; no account may hold anything afterwards.
    fn end(&mut self) {
        for side in Direction::BOTH {
            self.drain(side, Reassembler::flush);
        }
        self.reassembler.release(SEQUENCE, FlowRecord { id: 5, data: &mut self.data });
        assert_eq!(self.reassembler.held_bytes(), (0, 0));
        assert!(self.reassembler.sequences[0].kept.is_empty());
    }

    /// The output as turns: side and text, with consecutive bytes of a side joined.
    fn turns(&self) -> Vec<(Direction, String)> {
        let mut turns: Vec<(Direction, String)> = vec![];
        for (side, gap, bytes) in &self.out {
            let text = ".".repeat(*gap as usize) + std::str::from_utf8(bytes).unwrap();
            match turns.last_mut().filter(|(last, _)| last == side) {
                Some((_, said)) => said.push_str(&text),
                None => turns.push((*side, text)),
            }
        }
        turns
    }
}

/// A conversation: the sides take turns, in one segment or several, and acknowledge all bytes before.
fn conversation(turns: &[(Direction, u8, u8)]) -> Vec<Said> {
    let (mut said, mut numbers) = (vec![], [0, 0]);
    for (turn, &(side, segments, bytes)) in turns.iter().enumerate() {
        for _ in 0..segments {
            let bytes = vec![b'a' + turn as u8 % 26; usize::from(bytes)];
            let (at, heard) = (numbers[side.index()], numbers[side.other().index()]);
            numbers[side.index()] += bytes.len() as u64;
            said.push(Said { side, at, bytes, heard });
        }
    }
    said
}

/// The same segments in another order: each side's own order is kept, and `choices` selects the side that
/// comes next.
fn interleave(said: &[Said], choices: &[bool]) -> Vec<Said> {
    let mut sides = Direction::BOTH.map(|side| said.iter().filter(move |one| one.side == side).peekable());
    let mut choices = choices.iter().cycle();
    let mut order = vec![];
    while order.len() < said.len() {
        let side = usize::from(*choices.next().unwrap());
        order.extend(sides[side].next().or_else(|| sides[1 - side].next()).cloned());
    }
    order
}

fn heard(order: &[Said]) -> Listener {
    let mut listener = Listener::new(SequenceLimits::default());
    order.iter().for_each(|said| listener.hears(said));
    listener
}

#[test]
fn an_answer_waits_for_its_request() {
    let said = conversation(&[(Originator, 1, 3), (Responder, 2, 4), (Originator, 1, 2), (Responder, 1, 1)]);
    let mut listener = heard(&[1, 2, 4, 0, 3].map(|index: usize| said[index].clone()));
    let turns = listener.turns();
    let expected = [(Originator, "aaa"), (Responder, "bbbbbbbb"), (Originator, "cc"), (Responder, "d")];
    assert_eq!(turns, expected.map(|(side, text)| (side, text.to_owned())));
    listener.end();
}

#[test]
fn what_was_not_captured_is_not_waited_for() {
    let said = conversation(&[(Originator, 1, 3), (Responder, 1, 4), (Originator, 1, 2), (Responder, 1, 1)]);
    // The first request is missing: its answer passes with the next request, before it.
    let mut listener = heard(&[1, 2, 3].map(|index: usize| said[index].clone()));
    let expected = [(Responder, "bbbb"), (Originator, "...cc"), (Responder, "d")];
    assert_eq!(listener.turns(), expected.map(|(side, text)| (side, text.to_owned())));
    listener.end();
    // An empty packet has the same effect.
    let mut listener = heard(&[said[1].clone()]);
    assert_eq!(listener.out, []);
    listener.hears(&Said { side: Originator, at: 3, bytes: vec![], heard: 4 });
    assert_eq!(listener.turns(), [(Responder, "bbbb".to_owned())]);
    listener.end();
}

#[test]
fn who_acknowledges_what_was_never_sent_does_not_stop_the_other() {
    let mut listener = Listener::new(SequenceLimits::default());
    let ask = |at, bytes: &[u8], heard| Said { side: Originator, at, bytes: bytes.to_vec(), heard };
    let answer = |at, bytes: &[u8], heard| Said { side: Responder, at, bytes: bytes.to_vec(), heard };
    listener.hears(&ask(0, b"aaa", 1_000));
    assert_eq!(listener.out, []);
    // The answer acknowledges the waiting question, which was therefore not sent after the missing bytes.
    listener.hears(&answer(0, b"bb", 3));
    listener.hears(&ask(3, b"cc", 2));
    listener.hears(&answer(2, b"d", 5));
    let expected = [(Originator, "aaa"), (Responder, "bb"), (Originator, "cc"), (Responder, "d")];
    assert_eq!(listener.turns(), expected.map(|(side, text)| (side, text.to_owned())));
    listener.end();
}

#[test]
fn once_it_is_not_waited_for_all_that_waited_comes() {
    let mut listener = Listener::new(SequenceLimits::default());
    let said = conversation(&[(Originator, 1, 3), (Responder, 4, 1)]);
    // The question is missing. An old packet of its sender shows that, and acknowledges nothing.
    said[1..4].iter().for_each(|one| listener.hears(one));
    assert_eq!(listener.out, []);
    listener.hears(&Said { side: Originator, at: 3, bytes: vec![], heard: 0 });
    assert_eq!(listener.turns(), [(Responder, "bbb".to_owned())]);
    // The rest does not wait either.
    listener.hears(&said[4]);
    assert_eq!(listener.turns(), [(Responder, "bbbb".to_owned())]);
    listener.end();
}

#[test]
fn what_comes_again_waits_once() {
    let mut listener = Listener::new(SequenceLimits::default());
    let answer = Said { side: Responder, at: 0, bytes: b"bb".to_vec(), heard: 3 };
    (0..100).for_each(|_| listener.hears(&answer));
    let stream = stream_key(5, Responder);
    assert_eq!(listener.reassembler.sequences[0].kept.get(stream).unwrap().awaited.len(), 1);
    listener.end();
}

#[test]
fn where_memory_is_short_nothing_waits_for_the_other_side() {
    let mut listener = Listener::new(SequenceLimits::default());
    let said = conversation(&[(Originator, 1, 3), (Responder, 4, 1)]);
    said[1..3].iter().for_each(|one| listener.hears(one));
    listener.may_wait = false;
    said[3..].iter().for_each(|one| listener.hears(one));
    assert_eq!(listener.turns(), [(Responder, "bbbb".to_owned())]);
    listener.end();
}

#[test]
fn a_side_that_waits_in_vain_waits_once() {
    let limits = SequenceLimits { queued_segments_max: 4, ..SequenceLimits::default() };
    let mut listener = Listener::new(limits);
    let said = conversation(&[(Originator, 1, 3), (Responder, 12, 1)]);
    for (number, one) in said[1..].iter().enumerate() {
        assert_eq!(listener.out.len(), if number < 5 { 0 } else { number }, "before {number}");
        listener.hears(one);
    }
    assert_eq!(listener.out.len(), 12);
    assert_eq!(listener.reassembler.counters().forced_by_awaiting, 1);
    listener.end();
}

proptest! {
    #[test]
    fn turns_come_as_they_were_whatever_the_capture_has_first(
        turns in prop::collection::vec((any::<bool>().prop_map(Direction::responder_if), 1..4u8, 1..5u8), 1..30),
        choices in prop::collection::vec(any::<bool>(), 1..40),
    ) {
        let said = conversation(&turns);
        let mut listener = heard(&interleave(&said, &choices));
        prop_assert_eq!(listener.turns(), heard(&said).turns());
        listener.end();
    }

    #[test]
    fn every_byte_comes_once_whatever_is_missing(
        turns in prop::collection::vec((any::<bool>().prop_map(Direction::responder_if), 1..4u8, 0..5u8), 1..30),
        choices in prop::collection::vec(any::<bool>(), 1..40),
        lost in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        swapped in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut order = interleave(&conversation(&turns), &choices);
        for index in lost {
            if order.len() > 1 {
                order.remove(index.index(order.len()));
            }
        }
        for index in swapped {
            let at = index.index(order.len());
            if at + 1 < order.len() {
                order.swap(at, at + 1);
            }
        }
        let mut listener = heard(&order);
        listener.end();
        for side in Direction::BOTH {
            let mut sent: Vec<&Said> = order.iter().filter(|one| one.side == side).collect();
            let is_in_order = sent.is_sorted_by_key(|one| one.at);
            sent.sort_by_key(|one| one.at);
            let sent: Vec<u8> = sent.iter().flat_map(|one| one.bytes.clone()).collect();
            let came = listener.out.iter().filter(|one| one.0 == side);
            let came: Vec<u8> = came.flat_map(|one| one.2.clone()).collect();
            // Segments swapped within a side may come late, behind a hole that was passed over.
            prop_assert!(came.len() <= sent.len());
            prop_assert!(!is_in_order || came == sent, "{:?} {:?}", came, sent);
        }
    }
}
