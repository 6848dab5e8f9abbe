//! Tests of reading runs and wholes.

use super::*;
use crate::table::Birth;
use weir_packet::{PacketMemory, offset_in};

const FLOW: FlowRef = FlowRef { table: Table(0), id: FlowId(7), part: 0, beside: 0 };

fn flow_ref(id: u32) -> FlowRef {
    FlowRef::new(Table(0), FlowId(id))
}

/// A segment of all bytes of a block, next in order.
fn segment(block: &Arc<Block>) -> Segment<'_> {
    let bytes = block.heap();
    Segment { gap_bytes: 0, bytes, claimed_bytes: bytes.len() as u64, block, whole: &[] }
}

fn carrier() -> MessageCarrier {
    MessageCarrier { table: Table(0), header: OwnedHeader::born(&[0; 5], Birth::default()) }
}

/// Reads messages as programs do. A message is a digit that says how many bytes follow.
#[derive(Default)]
struct Reader {
    messages: Messages,
    read: Vec<String>,
    /// Limit of messages per packet.
    most: Option<usize>,
}

impl Reader {
    fn collect(&mut self, gap_bytes: u64, text: &str, claimed_bytes: usize) {
        let block = Arc::new(Block::from(text.as_bytes().to_vec()));
        let claimed_bytes = claimed_bytes as u64;
        let segment = Segment { gap_bytes, claimed_bytes, ..segment(&block) };
        self.messages.collect(FLOW, Direction::Originator, &segment);
    }

    fn read(&mut self) {
        let mut run = self.messages.first(FLOW, Direction::Originator, carrier(), None);
        let mut fuel = self.most.unwrap_or(usize::MAX);
        while let Some(&first) = run.bytes().first() {
            let bytes = 1 + usize::from(first.wrapping_sub(b'0'));
            let (done, wanted) = match run.bytes().get(..bytes) {
                _ if !first.is_ascii_digit() => (0, MESSAGES_LOST),
                None => (0, bytes as u64),
                Some(message) => {
                    self.read.push(String::from_utf8(message.to_vec()).unwrap());
                    fuel -= 1;
                    (bytes as u64, if fuel == 0 { MESSAGES_LATER } else { 0 })
                }
            };
            run = self.messages.next(done, wanted);
        }
    }

    /// Offers the segments of a stream, each with the bytes missing before it and cut off it; returns the
    /// messages read.
    fn hears(mut self, segments: &[(u64, &str, usize)]) -> Vec<String> {
        for &(gap_bytes, text, cut) in segments {
            self.collect(gap_bytes, text, text.len() + cut);
            self.read();
        }
        self.messages.release(FLOW);
        assert_eq!((self.messages.held_bytes, self.messages.is_empty()), (0, true));
        self.read
    }
}

#[test]
fn messages_are_read_however_they_are_cut_into_segments() {
    let stream = "3abc0 2de4fghi1j".replace(' ', "");
    for first in 1..stream.len() {
        for second in first..stream.len() {
            let parts = [&stream[..first], &stream[first..second], &stream[second..]];
            let segments = parts.map(|part| (0, part, 0));
            let read = Reader::default().hears(&segments);
            assert_eq!(read, ["3abc", "0", "2de", "4fghi", "1j"], "{parts:?}");
        }
    }
}

#[test]
fn behind_a_gap_a_message_begins_with_a_segment() {
    let reader = Reader::default;
    assert_eq!(reader().hears(&[(0, "3ab", 0), (1, "2de", 0)]), ["2de"]);
    assert_eq!(reader().hears(&[(0, "1a3ab", 1), (0, "2de", 0)]), ["1a", "2de"], "cut off by the capture");
    assert_eq!(reader().hears(&[(0, "1axyz", 0), (0, "2de", 0)]), ["1a", "2de"], "what is no message");
}

#[test]
fn what_is_too_short_to_be_told_from_a_message_spoils_no_segment_behind_it() {
    let mut reader = Reader::default();
    // The text could be the start of a message that includes the next bytes, but these show that it is not.
    reader.collect(0, "4", 1);
    reader.read();
    reader.collect(0, "2ab", 3);
    reader.collect(0, "1c", 2);
    assert_eq!(reader.messages.first(FLOW, Direction::Originator, carrier(), None).bytes(), b"42ab1c");
    assert_eq!(reader.messages.next(0, MESSAGES_LOST).bytes(), b"2ab1c", "from the next segment on");
    assert_eq!(reader.messages.next(3, 0).bytes(), b"1c");
    assert_eq!(reader.messages.next(0, MESSAGES_LOST).length, 0);
    let counters = reader.messages.counters;
    assert_eq!((counters.messages_lost, counters.message_bytes_lost), (2, 3));
}

#[test]
fn several_runs_are_read_one_after_the_other() {
    let mut reader = Reader::default();
    reader.collect(0, "1a3b", 4);
    reader.collect(2, "0", 1);
    reader.collect(0, "2cd", 3);
    reader.read();
    assert_eq!(reader.read, ["1a", "0", "2cd"]);
    let counters = reader.messages.counters;
    assert_eq!((counters.messages_cut, counters.message_bytes_lost), (1, 2));
}

#[test]
fn what_one_packet_leaves_the_next_one_reads() {
    let mut reader = Reader { most: Some(2), ..Reader::default() };
    reader.collect(0, "01a02bc0", 8);
    reader.collect(1, "1d1e1f", 6);
    for read in [2, 4, 6, 8] {
        reader.read();
        assert_eq!(reader.read.len(), read);
    }
    assert_eq!(reader.read, ["0", "1a", "0", "2bc", "0", "1d", "1e", "1f"]);
    assert_eq!((reader.messages.held_bytes, reader.messages.counters), (0, MessageCounters::default()));
}

#[test]
fn a_packet_that_ended_among_its_messages_loses_them() {
    let mut reader = Reader::default();
    reader.collect(0, "1a1b", 4);
    reader.messages.first(FLOW, Direction::Originator, carrier(), None);
    reader.collect(0, "c0", 2);
    reader.read();
    assert_eq!(reader.read, ["0"; 0], "`c` is none");
    reader.collect(0, "0", 1);
    reader.read();
    assert_eq!((reader.read, reader.messages.counters.message_bytes_lost), (vec!["0".to_string()], 6));
}

#[test]
fn what_would_be_too_long_is_no_message() {
    let mut messages = Messages::default();
    let block = Arc::new(Block::from(vec![7; 10]));
    messages.collect(FLOW, Direction::Responder, &segment(&block));
    assert_eq!(messages.first(FLOW, Direction::Responder, carrier(), None).length, 10);
    assert_eq!(messages.next(4, 0).length, 6);
    assert_eq!(messages.next(0, MESSAGE_BYTES_MAX + 1).length, 0);
    assert_eq!((messages.counters.messages_too_long, messages.counters.message_bytes_lost), (1, 6));
    assert_eq!(messages.held_bytes, 0);
}

#[test]
fn what_is_left_for_later_does_not_pile_up() {
    let mut messages = Messages::default();
    let block = Arc::new(Block::from(vec![7; 1 << 16]));
    for _ in 0..64 {
        messages.collect(FLOW, Direction::Originator, &segment(&block));
        messages.first(FLOW, Direction::Originator, carrier(), None);
        assert_eq!(messages.next(1, MESSAGES_LATER).length, 0);
        assert!(messages.held_bytes <= LATER_BYTES_MAX);
    }
    let counters = messages.counters;
    let left = 64 * (1 << 16) - 64;
    assert_eq!(counters.message_bytes_lost + messages.held_bytes as u64, left, "nothing goes uncounted");
    assert!(counters.messages_cut > 0);
}

#[test]
fn all_that_waits_is_bounded() {
    let mut messages = Messages::default();
    let block = Arc::new(Block::from(vec![7; 1 << 16]));
    for flow in 0..2_000 {
        messages.collect(flow_ref(flow), Direction::Originator, &segment(&block));
        messages.first(flow_ref(flow), Direction::Originator, carrier(), None);
        messages.next(0, 1 << 17);
    }
    assert!(messages.held_bytes <= TOTAL_BYTES_MAX);
    let refused = 2_000 * (1 << 16) - TOTAL_BYTES_MAX as u64;
    assert_eq!(messages.counters.message_bytes_lost, refused);
    messages.release_tables(|table| table != Table(0));
    assert_eq!((messages.held_bytes, messages.is_empty()), (0, true));
}

#[test]
fn of_a_direction_the_last_packet_is_kept_while_something_waits() {
    let mut messages = Messages::default();
    let (meta, bytes) = (PacketMeta { offset: 9, number: 4, ..PacketMeta::default() }, vec![7; 1 << 16]);
    let packet = Some(FrameRef { meta: &meta, bytes: &bytes });
    for flow in 0..2_000 {
        messages.first(flow_ref(flow), Direction::Responder, carrier(), packet);
        messages.first(flow_ref(flow), Direction::Responder, carrier(), packet);
    }
    assert!(messages.held_bytes <= TOTAL_BYTES_MAX && messages.held_bytes > TOTAL_BYTES_MAX / 2);
    assert!(messages.take_packet(flow_ref(0), Direction::Originator).is_none(), "it is the other side's");
    let last = messages.take_packet(flow_ref(0), Direction::Responder).expect("it is kept");
    assert_eq!((last.meta.offset, last.meta.number, last.block.size_bytes()), (0, 4, 1 << 16));
    // Nothing waits any more.
    messages.first(flow_ref(1), Direction::Responder, carrier(), None);
    assert!(messages.take_packet(flow_ref(1), Direction::Responder).is_none());
    messages.release_tables(|table| table != Table(0));
    assert_eq!((messages.held_bytes, messages.kept_packets, messages.is_empty()), (0, 0, true));
}

/// Memory that its source wants back.
#[derive(Debug)]
struct Lent(Vec<u8>);

impl PacketMemory for Lent {
    fn range(&self, offset: usize, length: usize) -> &[u8] {
        &self.0[offset..][..length]
    }

    fn locate(&self, bytes: &[u8]) -> Option<usize> {
        offset_in(&self.0, bytes)
    }

    fn size_bytes(&self) -> usize {
        self.0.len()
    }
}

#[test]
fn unread_bytes_leave_memory_that_goes_back_with_its_burst() {
    let mut messages = Messages::default();
    let lent =
        |text: &str| Arc::new(Block::foreign(Box::new(Lent(text.as_bytes().to_vec())), Retention::Copy));
    let mut collect = |gap_bytes, text: &str, is_read: bool| {
        let block = lent(text);
        let bytes = block.range(0, text.len());
        let claimed_bytes = bytes.len() as u64;
        let segment = Segment { gap_bytes, bytes, claimed_bytes, block: &block, whole: &[] };
        messages.collect(FLOW, Direction::Originator, &segment);
        assert_eq!(Arc::strong_count(&block), 2, "referred to while its packet is current");
        let given = is_read.then(|| messages.first(FLOW, Direction::Originator, carrier(), None));
        drop(given);
        messages.end_packet();
        assert_eq!(Arc::strong_count(&block), 1, "{text}");
        messages.counters.message_runs_copied
    };
    assert_eq!(collect(0, "3abc", false), 1, "nobody reads them");
    assert_eq!(collect(1, "1x", true), 2, "one is being read, the other waits");
    let next = messages.next(0, 0);
    assert_eq!(next.bytes(), b"3abc");
    assert_eq!(messages.next(4, 0).bytes(), b"1x");
}

/// Offers a part of a whole: its kind, and its text.
fn part(messages: &mut Messages, gap_bytes: u64, kind: u64, text: &str, cut: u64) {
    let block = Arc::new(Block::from(text.as_bytes().to_vec()));
    let length = text.len() as u64;
    let whole = &[kind, 7, length];
    let segment = Segment { gap_bytes, claimed_bytes: length + cut, whole, ..segment(&block) };
    messages.collect(FLOW, Direction::Originator, &segment);
}

/// All complete wholes, with the edge of each.
fn wholes(messages: &mut Messages) -> Vec<(String, u64)> {
    let (mut run, mut all) = (messages.first(FLOW, Direction::Originator, carrier(), None), vec![]);
    while run.length > 0 {
        let edge = messages.whole_value(0) & WHOLE_EDGE;
        assert_eq!(messages.whole_value(1), 7);
        all.push((String::from_utf8(run.bytes().to_vec()).unwrap(), edge));
        run = messages.next(u64::from(run.length), 0);
    }
    assert_eq!(messages.whole_value(0), 0, "none is read");
    all
}

const WHOLE: u64 = WHOLE_BEGINS | WHOLE_ENDS;

#[test]
fn wholes_are_read_once_they_end() {
    let mut messages = Messages::default();
    part(&mut messages, 0, 1 | WHOLE, "one", 0);
    part(&mut messages, 0, 2 | WHOLE_BEGINS, "t", 0);
    assert_eq!(wholes(&mut messages), [("one".into(), 1)]);
    part(&mut messages, 0, 2, "w", 0);
    assert_eq!(wholes(&mut messages), []);
    part(&mut messages, 0, 9 | WHOLE_ENDS, "o", 0);
    part(&mut messages, 0, WHOLE, "nobody's", 0);
    part(&mut messages, 0, 3 | WHOLE, "", 0);
    part(&mut messages, 0, 3 | WHOLE, "three", 0);
    assert_eq!(
        wholes(&mut messages),
        [("two".into(), 2), ("three".into(), 3)],
        "of the edge that it began with"
    );
    messages.release(FLOW);
    assert_eq!((messages.held_bytes, messages.counters), (0, MessageCounters::default()));
}

#[test]
fn a_whole_with_a_hole_is_lost_and_no_other() {
    let mut messages = Messages::default();
    part(&mut messages, 0, 1, "middle", 0);
    part(&mut messages, 0, 1 | WHOLE_BEGINS, "ab", 0);
    part(&mut messages, 1, 1 | WHOLE_ENDS, "d", 0);
    part(&mut messages, 0, 1 | WHOLE_BEGINS, "e", 0);
    part(&mut messages, 0, 1 | WHOLE, "f", 0);
    part(&mut messages, 0, 1 | WHOLE, "cut", 5);
    part(&mut messages, 0, 1 | WHOLE_BEGINS, "last", 0);
    assert_eq!(wholes(&mut messages), [("f".into(), 1)]);
    messages.release(FLOW);
    let counters = messages.counters;
    assert_eq!((counters.messages_cut, counters.message_bytes_lost), (4, 6 + 2 + 1 + 1 + 3 + 4));
    assert_eq!((messages.held_bytes, messages.is_empty()), (0, true));
}

#[test]
fn what_a_whole_lacks_no_other_one_brings() {
    let mut messages = Messages::default();
    part(&mut messages, 0, 1 | WHOLE, "ab", 0);
    part(&mut messages, 0, 1 | WHOLE, "cd", 0);
    assert_eq!(messages.first(FLOW, Direction::Originator, carrier(), None).bytes(), b"ab");
    assert_eq!(messages.next(0, 4).bytes(), b"cd");
    assert_eq!(messages.next(0, MESSAGES_LOST).length, 0);
    let counters = messages.counters;
    assert_eq!((counters.messages_cut, counters.messages_lost, counters.message_bytes_lost), (1, 1, 4));
}

#[test]
fn wholes_do_not_grow_without_bound() {
    let mut messages = Messages::default();
    let text = "x".repeat(1 << 16);
    part(&mut messages, 0, 1 | WHOLE_BEGINS, &text, 0);
    for _ in 0..300 {
        part(&mut messages, 0, 1, &text, 0);
        assert!(messages.held_bytes as u64 <= MESSAGE_BYTES_MAX);
    }
    assert_eq!((messages.counters.messages_too_long, wholes(&mut messages)), (1, vec![]));
    assert_eq!(messages.counters.message_bytes_lost, 301 << 16);
    for _ in 0..2 * RUNS_MAX {
        part(&mut messages, 0, 1 | WHOLE, "x", 0);
    }
    assert_eq!(wholes(&mut messages).len(), RUNS_MAX);
}

#[test]
fn a_packet_leaves_few_runs_to_the_next_one() {
    let mut messages = Messages::default();
    for _ in 0..RUNS_MAX {
        part(&mut messages, 0, 1 | WHOLE, "xy", 0);
    }
    part(&mut messages, 0, 1 | WHOLE_BEGINS, "open", 0);
    messages.first(FLOW, Direction::Originator, carrier(), None);
    messages.next(2, MESSAGES_LATER);
    assert_eq!(messages.held_bytes, 2 * LATER_RUNS_MAX);
    assert_eq!(messages.counters.message_bytes_lost as usize, 2 * (RUNS_MAX - 1 - LATER_RUNS_MAX) + 4);
    assert_eq!(wholes(&mut messages).len(), LATER_RUNS_MAX);
    assert_eq!(messages.held_bytes, 0);
}
