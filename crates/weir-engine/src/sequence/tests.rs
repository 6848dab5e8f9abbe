//! Tests of sequences as a program uses them: ladders, then properties over random traffic.

use super::kept::KEPT_COST;
use super::*;
use proptest::prelude::*;
use std::sync::Arc;
use weir_ir::abi::{SEQ_FORCED, SEQ_ORDERED, SEQ_OUT_OF_WINDOW, SEQ_QUEUED, SEQ_RETRANSMITTED};
use weir_ir::engine_var::{EngineVar, VarName};
use weir_ir::graph::{SequenceDecl, Table, TableDecl, VarDecl, VarKind};
use weir_ir::sequence::STARTED;
use weir_packet::{Block, Direction, PacketMeta};

const SEQUENCE: Sequence = Sequence(0);

pub(super) fn graph(bits: u8, retain: bool, headers_only: bool) -> Graph {
    let table = Table(0);
    let packets = VarDecl {
        table,
        name: VarName::Layer("packets".into()),
        kind: VarKind::Bits(32),
        each_side: true,
        observed: true,
    };
    let var = |var: EngineVar| var.declare(table, true);
    Graph {
        tables: vec![TableDecl {
            name: "t".into(),
            two_sided: true,
            observed: true,
            ends: false,
            delivers: true,
            asked: false,
            scattered: false,
            part: None,
            carries: None,
            key: Default::default(),
            timeout_ms: None,
        }],
        vars: vec![
            packets,
            var(EngineVar::SeqFlags),
            var(EngineVar::SeqNext),
            var(EngineVar::SeqHigh),
            var(EngineVar::SeqMissing),
        ],
        sequences: vec![SequenceDecl {
            table,
            name: "t".into(),
            bits,
            from_first: !retain,
            retain,
            headers_only,
            overwrite: false,
            distinct: false,
            tells: false,
            metas: 1,
            wholes: 0,
        }],
        ..Graph::default()
    }
}

/// One direction of one flow, used as a compiled program would.
pub(super) struct Receiver {
    pub(super) reassembler: Reassembler,
    vars: SequenceVars,
    data: Vec<u8>,
    pub(super) side: Direction,
    /// The output so far: `None` for a missing byte.
    pub(super) stream: Vec<Option<u8>>,
    /// Metas other than 0, with their positions in the output.
    pub(super) metas: Vec<(usize, u64)>,
    pub(super) policy: Policy,
    /// Keeps packets with waiting segments: a packet is `header` and its bytes.
    frames: bool,
}

impl Receiver {
    pub(super) fn new(graph: &Graph, limits: SequenceLimits) -> Self {
        let layout = Layout::of(graph);
        Self {
            reassembler: Reassembler::new(graph, &layout, limits),
            vars: SequenceVars::of(graph, &layout, Table(0)).unwrap(),
            data: vec![0; layout.size(Table(0))],
            side: Direction::Responder,
            stream: Vec::new(),
            metas: Vec::new(),
            policy: Policy::First,
            frames: false,
        }
    }

    pub(super) fn tcp() -> Self {
        Self::new(&graph(32, false, false), SequenceLimits::default())
    }

    pub(super) fn ip() -> Self {
        Self::new(&graph(64, true, false), SequenceLimits::default())
    }

    fn pass(&mut self, gap_bytes: u64, bytes: &[u8], claimed_bytes: u64, meta: u64) {
        assert!(bytes.len() as u64 <= claimed_bytes);
        self.stream.extend(std::iter::repeat_n(None, gap_bytes as usize));
        self.stream.extend(bytes.iter().copied().map(Some));
        self.stream.extend(std::iter::repeat_n(None, claimed_bytes as usize - bytes.len()));
        if meta != 0 {
            self.metas.push((self.stream.len(), meta));
        }
    }

    /// Inserts a segment of which `captured` bytes were captured, with a FIN (meta 1) or without.
    pub(super) fn insert(&mut self, at: u64, claimed: &[u8], captured: usize, fin: bool) -> Inserted {
        self.offer(at, claimed, captured, claimed.len() as u64 + u64::from(fin), u64::from(fin))
    }

    /// Inserts a chunk, which uses one number.
    pub(super) fn chunk(&mut self, at: u64, bytes: &[u8]) -> Inserted {
        self.offer(at, bytes, usize::MAX, 1, 0)
    }

    fn offer(&mut self, at: u64, claimed: &[u8], captured: usize, span: u64, meta: u64) -> Inserted {
        let bytes = [b"header", &claimed[..captured.min(claimed.len())]].concat();
        let block = Arc::new(Block::shared(bytes));
        let captured_bytes = block.size_bytes() as u32;
        let meta_of_frame = PacketMeta { number: at, captured_bytes, ..PacketMeta::default() };
        let frame = FrameRef { meta: &meta_of_frame, bytes: block.heap() };
        let segment = Segment {
            may_wait: true,
            at,
            bytes: &block.heap()[6..],
            claimed_bytes: claimed.len() as u64,
            span,
            metas: &[meta],
            policy: self.policy,
            frame: self.frames.then_some(frame),
        };
        let flow = FlowRecord { id: 5, data: &mut self.data };
        let inserted = self.reassembler.insert(SEQUENCE, flow, self.side, segment, &block);
        let Inserted { status, skip, .. } = inserted;
        if status == SEQ_ORDERED {
            let skip_captured = segment.bytes.len().min(skip as usize);
            self.pass(0, &segment.bytes[skip_captured..], segment.claimed_bytes - skip, meta);
        }
        if status == SEQ_ORDERED || status == SEQ_FORCED {
            self.drain(Reassembler::next);
        }
        inserted
    }

    /// Inserts a segment and returns its status.
    pub(super) fn segment(&mut self, at: u64, claimed: &[u8], captured: usize, fin: bool) -> u64 {
        self.insert(at, claimed, captured, fin).status
    }

    pub(super) fn text(&mut self, at: u64, text: &str) -> u64 {
        self.segment(at, text.as_bytes(), usize::MAX, false)
    }

    /// The receiver acknowledges all numbers before `at`; what passes then is added to the output.
    pub(super) fn acknowledge(&mut self, at: u64) {
        let flow = FlowRecord { id: 5, data: &mut self.data };
        self.reassembler.acknowledge(SEQUENCE, flow, self.side, at);
        self.drain(Reassembler::next);
    }

    /// The next segment, at `at`, opens the connection with `text`: it has to be acknowledged.
    pub(super) fn open(&mut self, at: u64, text: &str) -> u64 {
        let flow = FlowRecord { id: 5, data: &mut self.data };
        self.reassembler.hold(SEQUENCE, flow, self.side, at, text.len() as u64);
        self.text(at, text)
    }

    /// A reset of the flow.
    pub(super) fn reset(&mut self) {
        let flow = FlowRecord { id: 5, data: &mut self.data };
        self.reassembler.reset(SEQUENCE, flow, self.side);
    }

    fn drain(
        &mut self,
        next: impl Fn(&mut Reassembler, Sequence, FlowRecord<'_>, Direction) -> Option<Passed>,
    ) {
        while let Some(Passed { ordered, frame, .. }) = {
            let flow = FlowRecord { id: 5, data: &mut self.data };
            next(&mut self.reassembler, SEQUENCE, flow, self.side)
        } {
            let bytes = ordered.bytes.bytes().to_vec();
            if let Some(kept) = frame {
                let FrameRef { meta, bytes: all } = kept.frame();
                let is_whole = all.starts_with(b"header") && all.len() == meta.captured_bytes as usize;
                assert!(is_whole && all.windows(bytes.len()).any(|part| part == bytes), "it is its packet");
            } else {
                assert!(!self.frames || bytes.is_empty(), "every byte has its packet");
            }
            self.pass(ordered.gap_bytes, &bytes, ordered.claimed_bytes, ordered.metas[0]);
        }
    }

    pub(super) fn assemble(&mut self) -> Vec<u8> {
        let flow = FlowRecord { id: 5, data: &mut self.data };
        self.reassembler.assemble(SEQUENCE, flow, self.side).bytes().to_vec()
    }

    pub(super) fn hot(&self) -> Hot {
        self.vars.read(&self.data, self.side)
    }

    /// The output so far, with `.` for a missing byte.
    pub(super) fn so_far(&self) -> String {
        self.stream.iter().map(|byte| byte.map_or('.', char::from)).collect()
    }

    /// Ends the flow; no account may hold anything afterwards.
    pub(super) fn end(&mut self) {
        self.drain(Reassembler::flush);
        let flow = FlowRecord { id: 5, data: &mut self.data };
        self.reassembler.release(SEQUENCE, flow);
        assert_eq!(self.reassembler.held_bytes(), (0, 0));
        assert_eq!(self.hot().flags & !ENDED, STARTED);
        assert!(self.reassembler.sequences[0].kept.is_empty());
    }
}

#[test]
fn bytes_in_order_pass() {
    let mut tcp = Receiver::tcp();
    assert_eq!(tcp.text(1000, ""), SEQ_ORDERED, "a SYN, say");
    assert_eq!(tcp.text(1000, "abc"), SEQ_ORDERED);
    assert_eq!(tcp.text(1003, "def"), SEQ_ORDERED);
    assert_eq!(tcp.so_far(), "abcdef");
    assert_eq!(tcp.hot(), Hot { next: 1006, high: 6, flags: STARTED, passed: 0, missing_bytes: 0 });
}

#[test]
fn early_bytes_wait_for_their_turn() {
    let mut tcp = Receiver::tcp();
    tcp.text(0, "");
    assert_eq!(tcp.text(6, "gh"), SEQ_QUEUED);
    assert_eq!(tcp.text(3, "def"), SEQ_QUEUED);
    assert_eq!((tcp.so_far().as_str(), tcp.hot().high), ("", 8));
    assert_eq!(tcp.text(0, "abc"), SEQ_ORDERED);
    assert_eq!(tcp.so_far(), "abcdefgh");
    tcp.end();
}

#[test]
fn numbers_wrap_and_the_count_of_them_does_not() {
    let mut tcp = Receiver::tcp();
    tcp.text(0xffff_fffe, "");
    assert_eq!(tcp.text(1, "def"), SEQ_QUEUED);
    assert_eq!(tcp.text(0xffff_fffe, "abc"), SEQ_ORDERED);
    assert_eq!(tcp.so_far(), "abcdef");
    assert_eq!((tcp.hot().next, tcp.hot().high), (4, 6));
    assert_eq!(tcp.text(0xffff_ffff, "bc"), SEQ_RETRANSMITTED);
}

#[test]
fn keepalives_and_repetitions_are_retransmitted_and_the_new_end_passes() {
    let mut tcp = Receiver::tcp();
    tcp.text(100, "abcd");
    assert_eq!(tcp.text(103, "d"), SEQ_RETRANSMITTED);
    assert_eq!(tcp.text(100, "abcd"), SEQ_RETRANSMITTED);
    assert_eq!(tcp.text(102, "cdef"), SEQ_ORDERED);
    assert_eq!(tcp.text(103, ""), SEQ_QUEUED, "nothing in it, and not its turn");
    assert_eq!(tcp.so_far(), "abcdef");
}

#[test]
fn a_fin_comes_out_last_and_once_and_takes_its_number_when_acknowledged() {
    let mut tcp = Receiver::tcp();
    tcp.text(0, "");
    assert_eq!(tcp.segment(3, b"de", usize::MAX, true), SEQ_QUEUED);
    assert_eq!(tcp.segment(5, b"", usize::MAX, true), SEQ_RETRANSMITTED);
    assert_eq!(tcp.segment(0, b"abcde", usize::MAX, true), SEQ_FORCED);
    assert_eq!((tcp.so_far().as_str(), tcp.metas.as_slice()), ("abcde", &[(5, 1)][..]));
    assert_eq!(tcp.hot().next, 5);
    tcp.acknowledge(6);
    assert_eq!((tcp.hot().next, tcp.hot().flags & ENDED), (6, ENDED));
    assert_eq!(tcp.text(6, "f"), SEQ_OUT_OF_WINDOW);
    tcp.end();
}

#[test]
fn what_came_first_counts() {
    let mut tcp = Receiver::tcp();
    tcp.text(0, "");
    tcp.text(2, "CD");
    assert_eq!(tcp.text(0, "abcdef"), SEQ_FORCED, "only parts of it are wanted");
    assert_eq!(tcp.so_far(), "abCDef");
    assert_eq!(tcp.reassembler.counters().overlapping, 1);
    tcp.end();
}

#[test]
fn far_away_numbers_are_out_of_the_window() {
    let mut tcp = Receiver::tcp();
    tcp.text(0, "abc");
    assert_eq!(tcp.text(3 + (1 << 30) + 1, "x"), SEQ_OUT_OF_WINDOW);
    assert_eq!(tcp.text(1 << 31, "x"), SEQ_OUT_OF_WINDOW);
    assert_eq!(tcp.reassembler.counters().out_of_window, 2);
    assert_eq!(tcp.hot().high, 3);
}

#[test]
fn a_bound_on_segments_gives_up_the_hole() {
    let limits = SequenceLimits { queued_segments_max: 2, ..Default::default() };
    let mut tcp = Receiver::new(&graph(32, false, false), limits);
    tcp.text(0, "");
    assert_eq!(tcp.text(2, "c"), SEQ_QUEUED);
    assert_eq!(tcp.text(4, "e"), SEQ_QUEUED);
    assert_eq!(tcp.text(6, "g"), SEQ_FORCED);
    assert_eq!(tcp.so_far(), "..c", "and no more than the bound asks for");
    assert_eq!(tcp.text(0, "ab"), SEQ_RETRANSMITTED, "too late");
    tcp.end();
    assert_eq!((tcp.so_far().as_str(), tcp.hot().missing_bytes), ("..c.e.g", 4));
    let counters = tcp.reassembler.counters();
    assert_eq!((counters.forced_by_segments, counters.gaps, counters.gap_bytes), (1, 3, 4));
}

#[test]
fn bounds_on_bytes_give_up_the_hole() {
    let tight = |queued_bytes_max, total_bytes_max| {
        let limits = SequenceLimits { queued_bytes_max, total_bytes_max, ..Default::default() };
        let mut tcp = Receiver::new(&graph(32, false, false), limits);
        tcp.text(0, "");
        assert_eq!(tcp.text(2, &"c".repeat(1500)), SEQ_FORCED);
        assert_eq!(tcp.stream.len(), 1502);
        *tcp.reassembler.counters()
    };
    assert_eq!(tight(1000, 1 << 20).forced_by_bytes, 1);
    assert_eq!(tight(1 << 20, 1000).forced_by_total, 1);
}

#[test]
fn bytes_not_captured_are_missing_and_keep_their_numbers() {
    let mut tcp = Receiver::tcp();
    tcp.text(0, "");
    tcp.segment(6, b"ghijkl", 2, false);
    tcp.segment(0, b"abcdef", 4, false);
    tcp.segment(8, b"IJKLmn", 6, false);
    assert_eq!(tcp.so_far(), "abcd..gh....mn");
}

#[test]
fn headers_only_remembers_places_and_no_bytes() {
    let mut tcp = Receiver::new(&graph(32, false, true), SequenceLimits::default());
    tcp.text(0, "");
    tcp.text(3, "def");
    assert_eq!(tcp.reassembler.held_bytes().1, 0, "no block is pinned");
    tcp.text(0, "abc");
    assert_eq!(tcp.so_far(), "abc...");
}

#[test]
fn beyond_the_bound_of_pinned_blocks_bytes_are_copied() {
    let limits = SequenceLimits { pinned_bytes_max: 20, ..Default::default() };
    let mut tcp = Receiver::new(&graph(32, false, false), limits);
    tcp.text(0, "");
    tcp.text(10, "klmnopq");
    assert_eq!((tcp.reassembler.held_bytes().1, tcp.reassembler.counters().copied), (13, 0));
    tcp.text(3, "defghij");
    assert_eq!((tcp.reassembler.held_bytes().1, tcp.reassembler.counters().copied), (13, 1));
    tcp.text(0, "abc");
    assert_eq!(tcp.so_far(), "abcdefghijklmnopq");
    tcp.end();
}

#[test]
fn a_packet_that_is_copied_is_copied_once() {
    let limits = SequenceLimits { pinned_bytes_max: 0, ..Default::default() };
    let mut tcp = Receiver::new(&graph(32, false, false), limits);
    tcp.frames = true;
    tcp.text(0, "");
    tcp.text(6, "ghi");
    // The piece's bytes lie in the copy of its packet.
    assert_eq!((tcp.reassembler.held_bytes().1, tcp.reassembler.counters().copied), (0, 1));
    tcp.text(3, "defGHIjkl");
    assert_eq!((tcp.reassembler.held_bytes().1, tcp.reassembler.counters().copied), (0, 2));
    tcp.text(0, "abc");
    assert_eq!(tcp.so_far(), "abcdefghijkl");
    tcp.end();
}

#[test]
fn directions_do_not_meet() {
    let mut tcp = Receiver::tcp();
    tcp.text(0, "");
    tcp.text(3, "def");
    tcp.side = Direction::Originator;
    assert_eq!(tcp.hot(), Hot::default());
    assert_eq!(tcp.text(0, "xyz"), SEQ_ORDERED);
    assert_eq!(tcp.so_far(), "xyz");
    tcp.side = Direction::Responder;
    tcp.text(0, "abc");
    assert_eq!(tcp.so_far(), "xyzabcdef");
}

/// The other side acknowledges everything before `at`. Returns the bytes that pass.
fn acknowledge(tcp: &mut Receiver, at: u64) -> String {
    let (side, sequences) = (tcp.side, &mut tcp.reassembler);
    sequences.acknowledge(SEQUENCE, FlowRecord { id: 5, data: &mut tcp.data }, side, at);
    let mut passed = String::new();
    while let Some(piece) = sequences.next(SEQUENCE, FlowRecord { id: 5, data: &mut tcp.data }, side.other())
    {
        assert!(piece.ordered.of_other);
        passed += &".".repeat(piece.ordered.gap_bytes as usize);
        passed.extend(piece.ordered.bytes.bytes().iter().copied().map(char::from));
    }
    passed
}

#[test]
fn what_the_receiver_has_is_not_waited_for() {
    let mut tcp = Receiver::tcp();
    tcp.text(0xffff_fff0, "ab");
    tcp.text(0xffff_fff5, "fg");
    tcp.text(0xffff_fff9, "jk");
    assert_eq!(acknowledge(&mut tcp, 0xffff_fff2), "", "what has passed");
    assert_eq!(acknowledge(&mut tcp, 0xffff_fff4), "", "part of the hole");
    assert_eq!(acknowledge(&mut tcp, 0x5000_0000), "", "far away");
    assert_eq!(acknowledge(&mut tcp, 0xffff_fff5), "...fg", "all of it, and not the next one");
    assert_eq!(acknowledge(&mut tcp, 3), "..jk", "numbers wrap");
    let counters = tcp.reassembler.counters();
    assert_eq!((counters.acknowledged, counters.gaps, counters.gap_bytes), (2, 2, 5));
    assert_eq!(tcp.hot().missing_bytes, 5);
    assert_eq!(tcp.text(0xffff_fffb, "lm"), SEQ_ORDERED);
    assert_eq!(tcp.text(0xffff_fff2, "cde"), SEQ_RETRANSMITTED, "too late");
    tcp.end();
}

#[test]
fn what_the_receiver_has_passes_before_what_it_says_itself() {
    let mut tcp = Receiver::tcp();
    tcp.text(0, "");
    tcp.text(3, "request");
    tcp.side = Direction::Originator;
    tcp.text(100, "");
    tcp.reassembler.acknowledge(
        SEQUENCE,
        FlowRecord { id: 5, data: &mut tcp.data },
        Direction::Responder,
        10,
    );
    assert_eq!(tcp.text(100, " answer"), SEQ_FORCED);
    assert_eq!(tcp.so_far(), "...request answer");
    assert_eq!(tcp.text(107, "!"), SEQ_ORDERED, "nothing waits any longer");
    tcp.end();
}

#[test]
fn bytes_behind_an_acknowledged_hole_wait_until_a_side_goes_on() {
    // The hole is filled after a pure acknowledgement.
    let mut tcp = Receiver::tcp();
    tcp.text(0, "");
    tcp.text(2, "cd");
    tcp.side = Direction::Originator;
    let flow = FlowRecord { id: 5, data: &mut tcp.data };
    tcp.reassembler.acknowledge(SEQUENCE, flow, Direction::Responder, 4);
    tcp.text(100, "");
    assert_eq!(tcp.so_far(), "", "a pure acknowledgement");
    tcp.side = Direction::Responder;
    assert_eq!(tcp.text(0, "ab"), SEQ_ORDERED);
    assert_eq!(tcp.so_far(), "abcd");
    // The sender goes on: the hole is not filled any more.
    tcp.text(6, "gh");
    tcp.side = Direction::Originator;
    let flow = FlowRecord { id: 5, data: &mut tcp.data };
    tcp.reassembler.acknowledge(SEQUENCE, flow, Direction::Responder, 8);
    tcp.text(100, "");
    tcp.side = Direction::Responder;
    assert_eq!(tcp.text(8, "ij"), SEQ_FORCED);
    assert_eq!(tcp.so_far(), "abcd..ghij");
    tcp.end();
}

/// The receiver says that the numbers begin at `at`. Returns the discarded bytes.
fn confirm(tcp: &mut Receiver, at: u64) -> u64 {
    let flow = FlowRecord { id: 5, data: &mut tcp.data };
    tcp.reassembler.confirm(SEQUENCE, flow, tcp.side, at)
}

#[test]
fn a_direction_begins_where_its_receiver_says() {
    for forged in [7, 40_000, 0x8000_0000, 0xffff_ff00_u64] {
        let mut tcp = Receiver::tcp();
        tcp.text(forged, "");
        assert_eq!(confirm(&mut tcp, 1000), 0);
        assert_eq!(tcp.text(1000, "abc"), SEQ_ORDERED, "{forged}");
        assert_eq!(confirm(&mut tcp, forged), 0, "numbers have passed");
        assert_eq!(tcp.text(1003, "def"), SEQ_ORDERED);
        assert_eq!(tcp.so_far(), "abcdef");
        tcp.end();
    }
}

#[test]
fn waiting_segments_keep_their_numbers_if_the_first_number_changes() {
    let mut tcp = Receiver::tcp();
    tcp.text(500, "");
    tcp.text(510, "forged");
    tcp.text(1003, "def");
    assert_eq!(confirm(&mut tcp, 1000), 6, "the first one lies before the first number");
    assert_eq!(tcp.text(1000, "abc"), SEQ_ORDERED);
    assert_eq!(tcp.so_far(), "abcdef");
    tcp.end();
}

#[test]
fn nothing_follows_the_last_number() {
    let mut tcp = Receiver::tcp();
    tcp.text(0, "abc");
    tcp.text(100, "forged");
    let flow = FlowRecord { id: 5, data: &mut tcp.data };
    assert_eq!(tcp.reassembler.end(SEQUENCE, flow, tcp.side), 6);
    let inserted = tcp.insert(1, b"bcde", usize::MAX, false);
    assert_eq!(
        (inserted.status, inserted.retransmitted_bytes, inserted.outside_bytes),
        (SEQ_OUT_OF_WINDOW, 2, 2)
    );
    assert_eq!(tcp.insert(0, b"abc", usize::MAX, false).retransmitted_bytes, 3);
    assert_eq!(tcp.so_far(), "abc");
    tcp.end();
}

#[test]
fn bytes_before_the_first_number_are_out_of_window() {
    let mut tcp = Receiver::tcp();
    tcp.text(100, "");
    let inserted = tcp.insert(95, b"12345678", usize::MAX, false);
    assert_eq!((inserted.status, inserted.skip, inserted.outside_bytes), (SEQ_ORDERED, 5, 5));
    let inserted = tcp.insert(90, b"123", usize::MAX, false);
    assert_eq!((inserted.status, inserted.outside_bytes), (SEQ_OUT_OF_WINDOW, 3));
    assert_eq!(tcp.so_far(), "678");
    tcp.end();
}

#[test]
fn strict_reassembly_waits_whatever_was_acknowledged() {
    let limits = SequenceLimits { strict: true, ..SequenceLimits::default() };
    let mut tcp = Receiver::new(&graph(32, false, false), limits);
    tcp.text(0, "");
    tcp.text(3, "def");
    assert_eq!(acknowledge(&mut tcp, 6), "");
}

#[test]
fn fragments_are_put_together() {
    let mut ip = Receiver::ip();
    assert_eq!(ip.segment(8, b"ijklm", usize::MAX, true), SEQ_QUEUED);
    assert_eq!(ip.text(0, "abcdefgh"), SEQ_ORDERED);
    assert_eq!(ip.metas, [(13, 1)], "the last fragment is there");
    assert_eq!(ip.reassembler.kept_segments(SEQUENCE, 5, Direction::Responder), 2);
    assert_eq!(ip.assemble(), b"abcdefghijklm");
    assert_eq!(ip.assemble(), b"");
    ip.end();
}

#[test]
fn a_datagram_of_one_piece_is_not_copied() {
    let mut ip = Receiver::ip();
    ip.text(0, "abcdefgh");
    let flow = FlowRecord { id: 5, data: &mut ip.data };
    let slice = ip.reassembler.assemble(SEQUENCE, flow, Direction::Responder);
    assert_eq!((slice.bytes(), slice.block.size_bytes()), (&b"abcdefgh"[..], 14), "the packet's own block");
}

#[test]
fn fragments_over_a_bound_are_refused() {
    let limits = SequenceLimits { retained_segments_max: 2, retained_bytes_max: 100, ..Default::default() };
    let mut ip = Receiver::new(&graph(64, true, false), limits);
    assert_eq!(ip.text(96, "abcdefgh"), SEQ_OUT_OF_WINDOW);
    assert_eq!(ip.text(8, "b"), SEQ_QUEUED);
    assert_eq!(ip.text(0, "a"), SEQ_ORDERED);
    assert_eq!(ip.text(16, "c"), SEQ_OUT_OF_WINDOW);
    let counters = *ip.reassembler.counters();
    assert_eq!((counters.refused_by_bytes, counters.refused_by_segments), (1, 1));
    ip.end();
    assert_eq!(ip.reassembler.counters().released, 2);
}

#[test]
fn where_fragments_have_to_be_distinct_an_overlap_is_the_end_of_all() {
    let mut graph = graph(64, true, false);
    graph.sequences[0].distinct = true;
    let mut ip = Receiver::new(&graph, SequenceLimits { strict: true, ..Default::default() });
    assert_eq!(ip.text(0, "abcdefgh"), SEQ_ORDERED);
    assert_eq!(ip.text(16, "qrst"), SEQ_QUEUED);
    assert_eq!(ip.text(0, "abcdefgh"), SEQ_RETRANSMITTED, "the same again");
    let overlapping = ip.insert(4, b"EFGHij", usize::MAX, false);
    assert_eq!((overlapping.status, overlapping.inconsistent_bytes), (SEQ_OUT_OF_WINDOW, 4));
    assert_eq!(
        (ip.reassembler.kept_segments(SEQUENCE, 5, Direction::Responder), ip.reassembler.held_bytes().0),
        (0, KEPT_COST)
    );
    // Later fragments are not accepted either.
    assert_eq!(ip.segment(8, b"ijklmnop", usize::MAX, true), SEQ_OUT_OF_WINDOW);
    assert_eq!((ip.reassembler.counters().refused_by_overlap, ip.assemble()), (2, vec![]));
    ip.end();
}

/// Pieces of a stream: start, length, byte.
fn pieces(stream_bytes: usize) -> impl Strategy<Value = Vec<(usize, usize, u8)>> {
    prop::collection::vec((0..stream_bytes, 1..200usize, 1u8..=255), 1..120)
}

/// The expected output: for each byte, the first one that came.
fn first_of_each(pieces: &[(usize, usize, u8)], stream_bytes: usize) -> Vec<Option<u8>> {
    let mut first = vec![None; stream_bytes];
    for &(start, length, text) in pieces {
        first[start..stream_bytes.min(start + length)].iter_mut().for_each(|b| _ = b.get_or_insert(text));
    }
    first
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// A stream that is cut, slightly shuffled, and partly repeated and lost comes out as it was sent, with
    /// gaps exactly where bytes were lost, and a FIN at its end.
    #[test]
    fn a_stream_comes_out_as_it_was_sent(
        base in prop_oneof![Just(0u32), Just(u32::MAX - 500), any::<u32>()],
        lengths in prop::collection::vec(1..100usize, 1..80),
        fates in prop::collection::vec((0u8..12, 0usize..30, 0usize..40), 80),
        captured in prop_oneof![Just(usize::MAX), 10..60usize],
    ) {
        let stream: Vec<u8> = (0..lengths.iter().sum()).map(|n: usize| (n % 251) as u8).collect();
        let mut start = 0;
        let mut sent = Vec::new();
        for (n, (&length, &(fate, delay, more))) in lengths.iter().zip(&fates).enumerate() {
            let end = (start + length + if fate == 3 { more } else { 0 }).min(stream.len());
            if fate > 0 { sent.push((n + delay, start, end)); }
            if fate < 3 { sent.push((n + delay + more, start, end)); }
            start += length;
        }
        sent.retain(|&(_, start, _)| fates[start % 80].0 != 11);
        sent.sort();
        let mut tcp = Receiver::tcp();
        tcp.text(base.into(), "");
        let mut wanted = vec![None; stream.len()];
        let mut fin = false;
        for &(_, start, end) in &sent {
            let at = base.wrapping_add(start as u32);
            tcp.segment(at.into(), &stream[start..end], captured, end == stream.len());
            fin |= end == stream.len();
            for n in start..end {
                // Cut segments overlap only where the generator chose so; each place counts as in its first
                // piece.
                if wanted[n].is_none() { wanted[n] = Some((n - start < captured).then_some(stream[n])); }
            }
        }
        tcp.end();
        let seen = wanted.iter().rposition(Option::is_some).map_or(0, |n| n + 1);
        let missing = wanted[..seen].iter().filter(|b| b.is_none()).count();
        let wanted: Vec<Option<u8>> = wanted[..seen].iter().map(|b| b.flatten()).collect();
        prop_assert_eq!(&tcp.stream, &wanted);
        prop_assert_eq!(tcp.hot().missing_bytes, missing as u64);
        prop_assert_eq!(tcp.hot().high, seen as u64 + u64::from(fin));
        let metas = if fin { vec![(seen, 1)] } else { vec![] };
        prop_assert_eq!(&tcp.metas, &metas);
        prop_assert_eq!(tcp.reassembler.counters().gap_bytes, missing as u64);
    }

    /// If bytes contradict each other, the first one wins.
    #[test]
    fn the_first_of_contradicting_bytes_counts(base: u32, pieces in pieces(1500)) {
        let mut tcp = Receiver::tcp();
        tcp.text(base.into(), "");
        for &(start, length, text) in &pieces {
            tcp.segment(base.wrapping_add(start as u32).into(), &vec![text; length], usize::MAX, false);
        }
        tcp.end();
        let mut wanted = first_of_each(&pieces, 1700);
        wanted.truncate(wanted.iter().rposition(Option::is_some).map_or(0, |n| n + 1));
        prop_assert_eq!(&tcp.stream, &wanted);
    }

    /// With any bounds, all output was sent and is at its place; the rest is counted as missing; and no more
    /// is held than the bounds allow.
    #[test]
    fn bounds_lose_nothing_uncounted(
        base: u32,
        pieces in pieces(1500),
        queued_segments_max in 0..20usize,
        queued_bytes_max in 0..8000usize,
        total_bytes_max in 0..8000usize,
        pinned_bytes_max in 0..4000usize,
        window_max in prop_oneof![Just(1u64 << 30), 1..2000u64],
        policy in prop::sample::select(Policy::ALL),
        frames: bool,
    ) {
        let limits = SequenceLimits {
            queued_segments_max, queued_bytes_max, total_bytes_max, pinned_bytes_max, window_max,
            ..Default::default()
        };
        let mut tcp = Receiver::new(&graph(32, false, false), limits);
        (tcp.policy, tcp.frames) = (policy, frames);
        tcp.text(base.into(), "");
        for &(start, length, _) in &pieces {
            let bytes: Vec<u8> = (start..start + length).map(|n| n as u8).collect();
            tcp.segment(base.wrapping_add(start as u32).into(), &bytes, usize::MAX, false);
            prop_assert!(tcp.reassembler.held_bytes().0 <= total_bytes_max.min(queued_bytes_max) + KEPT_COST);
            prop_assert!(tcp.reassembler.kept_segments(SEQUENCE, 5, Direction::Responder) <= queued_segments_max);
        }
        tcp.end();
        for (n, byte) in tcp.stream.iter().enumerate() {
            prop_assert!(byte.is_none_or(|byte| byte == n as u8), "byte {} is {:?}", n, byte);
        }
        let missing = tcp.stream.iter().filter(|b| b.is_none()).count() as u64;
        prop_assert_eq!(tcp.hot().missing_bytes, missing);
        prop_assert_eq!(tcp.hot().high, tcp.stream.len() as u64);
        let counters = tcp.reassembler.counters();
        let outcomes = counters.ordered + counters.queued + counters.retransmitted
            + counters.overlapping + counters.out_of_window;
        prop_assert_eq!(outcomes, pieces.len() as u64);
    }

    /// Fragments in any order, overlapping and contradicting, come out as one datagram.
    #[test]
    fn fragments_come_out_as_one(mut pieces in pieces(1500), end in 1500..1700usize) {
        pieces.push((0, end, 0));
        let mut ip = Receiver::ip();
        for &(start, length, text) in &pieces {
            ip.segment(start as u64, &vec![text; length.min(end - start)], usize::MAX, false);
        }
        let assembled: Vec<Option<u8>> = ip.assemble().into_iter().map(Some).collect();
        prop_assert_eq!(assembled, first_of_each(&pieces, end));
        ip.end();
    }
}

#[test]
fn what_a_program_passed_by_itself_is_counted_once() {
    let mut tcp = Receiver::tcp();
    tcp.text(1000, "abc");
    let mut hot = tcp.hot();
    (hot.next, hot.high, hot.passed) = (1007, 7, 2);
    tcp.vars.write(&mut tcp.data, tcp.side, hot);
    assert_eq!(tcp.text(1005, "fg"), SEQ_RETRANSMITTED);
    assert_eq!((tcp.reassembler.counters().ordered, tcp.hot().passed), (3, 0));
    let hot = Hot { passed: 5, ..tcp.hot() };
    tcp.vars.write(&mut tcp.data, tcp.side, hot);
    tcp.end();
    tcp.end();
    assert_eq!(tcp.reassembler.counters().ordered, 8);
}
