//! Several subscriptions to streams share one reassembly: each receives the same bytes according to its own
//! cutoff and chunks, and every byte of a stream is accounted for.

use crate::properties::drive::{FIRST_LIGHT, ask, compile, in_memory, read_capture, run_streams, seeds};
use std::collections::BTreeMap;
use weir::io::MemoryPacket;
use weir::packet::{Burst, Poll, Source};
use weir::stream::{
    Chunk, ChunkParams, EndReason, OverloadParams, Priorities, Stream, StreamCounts, StreamHandler,
    StreamParams,
};
use weir::{Compiler, Engine, Options, Outcome, Subscription, Want};
use weir_engine::plan::Limits;
use weir_engine::stream::StreamSubscriber;
use weir_engine::subscriber::Subscriber;
use weir_engine::worker::Worker;
use weir_testing::Random;
use weir_testing::traffic::{Conversation, Network, conversation, mix};

/// A capture of many protocols.
const SESSIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sessions.pcap");

/// A stream by its ports.
type Key = (u32, u32);

/// Everything delivered for a stream.
#[derive(Debug, Default, Clone, PartialEq)]
struct Told {
    /// Bytes by offset; `None` for missing ones.
    bytes: Vec<Option<u8>>,
    counts: StreamCounts,
    /// Offset behind the last byte seen.
    payload_bytes: u64,
    /// Lengths of chunks without their overlaps.
    chunks: Vec<usize>,
    is_orig: bool,
    /// The number of bytes when the stream was closed.
    closed_at: Option<usize>,
}

/// Records everything it receives.
#[derive(Default)]
struct Keeper {
    streams: BTreeMap<Key, Told>,
    /// Errors in single chunks.
    wrong: Vec<String>,
    /// Streams that ended early for lack of memory.
    shed: usize,
}

fn key(stream: &Stream<'_, '_>) -> Key {
    let [from, to] = stream.endpoints();
    (from.1, to.1)
}

impl StreamHandler for Keeper {
    type State = Told;
    const RECORD: bool = true;

    fn data(&mut self, told: &mut Told, stream: &mut Stream<'_, '_>, chunk: &Chunk<'_>) {
        let start = chunk.offset as usize;
        let (old, new) = chunk.bytes.split_at(chunk.overlap);
        let repeats = (0..old.len()).all(|at| told.bytes.get(start + at) == Some(&Some(old[at])));
        let joins = start + old.len() == told.bytes.len() + chunk.gap_bytes as usize;
        // Counts must be exact at any time. A filter that matches late may skip the first bytes.
        let counts = stream.counts();
        let known = counts.delivered_bytes + counts.gap_bytes + counts.cut_bytes + counts.dropped_bytes;
        let joins = (joins || told.bytes.is_empty()) && known == stream.offset();
        let goes_on = told.closed_at.is_none();
        if !goes_on || !repeats || !joins || new.is_empty() || chunk.gap_bytes > 0 && chunk.overlap > 0 {
            self.wrong.push(format!("{:?}: {chunk:?} after {} bytes", key(stream), told.bytes.len()));
        }
        told.bytes.resize(start + old.len(), None);
        told.bytes.extend(new.iter().copied().map(Some));
        told.chunks.push(new.len());
    }

    fn closed(&mut self, told: &mut Told, stream: &mut Stream<'_, '_>) {
        if told.closed_at.replace(told.bytes.len()).is_some() {
            self.wrong.push(format!("{:?}: closed twice", key(stream)));
        }
    }

    fn terminated(&mut self, mut told: Told, stream: &mut Stream<'_, '_>, reason: EndReason) {
        self.shed += usize::from(reason == EndReason::Shed);
        (told.counts, told.payload_bytes, told.is_orig) =
            (stream.counts(), stream.volume().1, stream.is_orig());
        self.streams.insert(key(stream), told);
    }
}

fn told(outcome: &Outcome, subscription: Subscription) -> &BTreeMap<Key, Told> {
    let keepers = outcome.handlers.of::<Keeper>(subscription);
    assert_eq!(keepers.len(), 1);
    assert_eq!(keepers[0].wrong, Vec::<String>::new());
    &keepers[0].streams
}

fn all_counted(told: &Told) -> bool {
    let counts = told.counts;
    let known = counts.delivered_bytes + counts.gap_bytes + counts.dropped_bytes;
    let delivered = told.bytes.iter().filter(|byte| byte.is_some()).count() as u64;
    delivered == counts.delivered_bytes && known + counts.cut_bytes <= told.payload_bytes
}

const CALM: Network =
    Network { repeats: false, loses: false, reorders: false, fragments: false, cuts: false };
const BAD: Network = Network { repeats: true, loses: true, reorders: true, fragments: true, cuts: false };

#[test]
fn each_is_given_the_same_bytes_by_its_own_cutoff_and_chunks() {
    let mut cut = 0;
    let compiler = Compiler::default();
    for seed in seeds(0..80) {
        let mut random = Random::new(seed);
        let conversations: Vec<Conversation> =
            (0..3).map(|index| conversation(&mut random, (40_000 + index, 443), BAD)).collect();
        let packets = mix(&mut random, &conversations);
        let mut streams = Engine::with(compiler.clone(), Options::default());
        let all = streams
            .subscribe_streams("", StreamParams::default(), Keeper::default)
            .expect("the filter is right");
        let mut others = vec![];
        for _ in 0..3 {
            let cutoff = [0, 1].map(|_| random.pick(&[0, 1, 100, 1000, 3000, u64::MAX]));
            let bytes = random.pick(&[1, 7, 64, 1000, 16_384]);
            let overlap = random.below(u64::from(bytes)) as u32;
            let flush_ns = random.pick(&[0, 1, 20_000]);
            let chunk = (!random.once_in(4)).then_some(ChunkParams { bytes, overlap, flush_ns });
            let params = StreamParams { cutoff, chunk, ..StreamParams::default() };
            others.push((
                streams.subscribe_streams("tcp", params, Keeper::default).expect("the filter is right"),
                params,
            ));
        }
        let outcome = run_streams(&streams, &packets);
        let whole = told(&outcome, all);
        for (key, told) in whole {
            let counts = told.counts;
            let known = counts.delivered_bytes + counts.gap_bytes + counts.cut_bytes + counts.dropped_bytes;
            assert!(all_counted(told) && counts.cut_bytes == 0, "seed {seed}, {key:?}: {told:?}");
            assert_eq!(known, told.payload_bytes, "seed {seed}, {key:?}");
        }
        // With a single subscription, its cutoff becomes the program's.
        let (subscription, params) = others[0];
        let mut alone = Engine::with(compiler.clone(), Options::default());
        let only = alone.subscribe_streams("tcp", params, Keeper::default).expect("the filter is right");
        let by_itself = run_streams(&alone, &packets);
        let bytes = |told: &BTreeMap<Key, Told>| {
            told.iter().map(|(&key, told)| (key, told.bytes.clone())).collect::<Vec<_>>()
        };
        assert!(
            bytes(told(&by_itself, only)) == bytes(told(&outcome, subscription)),
            "seed {seed}, {params:?}"
        );
        for (subscription, params) in others {
            for (key, told) in told(&outcome, subscription) {
                let side = usize::from(!told.is_orig);
                let whole = &whole[key];
                let end = whole.bytes.len().min(usize::try_from(params.cutoff[side]).unwrap_or(usize::MAX));
                let trim = |bytes: &[Option<u8>]| {
                    let last = bytes.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
                    bytes[..last].to_vec()
                };
                assert!(trim(&told.bytes) == trim(&whole.bytes[..end]), "seed {seed}, {key:?}, {params:?}");
                assert!(all_counted(told), "seed {seed}, {key:?}, {params:?}: {told:?}");
                cut += usize::from(end < whole.bytes.len());
                let most = params.chunk.map_or(usize::MAX, |chunk| chunk.bytes as usize);
                assert!(told.chunks.iter().all(|&bytes| bytes <= most), "seed {seed}, {key:?}, {params:?}");
            }
        }
    }
    assert!(cut > 100, "{cut} streams were cut off");
}

/// Ignores all chunks.
struct Nothing;

impl Subscriber for Nothing {}
impl StreamSubscriber for Nothing {}

#[test]
fn streams_that_are_over_hold_no_memory() {
    let compiler = Compiler::default();
    let mut most = (0, 0);
    for seed in seeds(0..20) {
        let mut random = Random::new(seed);
        let conversations: Vec<Conversation> =
            (0..5).map(|index| conversation(&mut random, (40_000 + index, 443), BAD)).collect();
        let packets = mix(&mut random, &conversations);
        // Some chunks are due long after their flow has ended, some during it.
        let asks = [1 << 60, 20_000, 0].map(|flush_ns| {
            let chunk = Some(ChunkParams { bytes: 1000, overlap: 10, flush_ns });
            ask(
                "tcp",
                Want::Streams(StreamParams { chunk, packets: flush_ns == 0, ..StreamParams::default() }),
            )
        });
        let late = ask("conn.orig_pkts > 5", Want::Streams(StreamParams::default()));
        let asks = [&asks[..], &[late]].concat();
        let plan = compile(&compiler, &asks, &Options::default()).plan().clone();
        let mut worker = Worker::new(plan, Nothing);
        let (mut source, mut burst, mut number) = (in_memory(&packets), Burst::default(), 0);
        while source.poll(&mut burst).unwrap() != Poll::End {
            while worker.pass_time(number, burst.packets[0].time.0) {}
            worker.take(&burst, 0..burst.packets.len(), number);
            number += 1;
            let (chunks, fixed) = worker.stream_bytes();
            most = (most.0.max(chunks), most.1.max(fixed));
        }
        while worker.finish(number) {}
        assert_eq!(worker.stream_bytes(), (0, 0), "seed {seed}");
        let weir::Memory { streams, sessions, reassembly, .. } = worker.memory();
        assert_eq!((streams, sessions, reassembly), (0, 0, 0), "seed {seed}");
    }
    assert!(most.0 > 10_000 && most.1 > 1000, "{most:?}");
}

/// Keeps the first chunk of one stream, reduces the cutoff of another, and discards a third.
#[derive(Default)]
struct Calls(BTreeMap<Key, Vec<(u64, usize, usize)>>);

impl StreamHandler for Calls {
    type State = ();

    fn created(&mut self, (): &mut (), stream: &mut Stream<'_, '_>) {
        if key(stream).0 == 40_002 {
            stream.discard();
        }
    }

    fn data(&mut self, (): &mut (), stream: &mut Stream<'_, '_>, chunk: &Chunk<'_>) {
        let calls = self.0.entry(key(stream)).or_default();
        calls.push((chunk.offset, chunk.bytes.len(), chunk.overlap));
        match key(stream).0 {
            40_000 if calls.len() == 1 => stream.keep_chunk(),
            40_001 => stream.set_cutoff(150),
            _ => {}
        }
    }
}

/// Terms on sessions or records are decided late, but streams are delivered in full: each to the filter or to
/// its negation.
#[test]
fn what_is_known_late_chooses_whole_streams() {
    let compiler = Compiler::default();
    let filters = ["tls", "http and not dns", "conn.resp_bytes > 1000", "dns or conn.orig_pkts > 6"];
    for (at, capture) in [FIRST_LIGHT, SESSIONS].into_iter().enumerate() {
        let packets = read_capture(capture);
        for filter in filters {
            let mut streams = Engine::with(compiler.clone(), Options::default());
            let all = streams
                .subscribe_streams("", StreamParams::default(), Keeper::default)
                .expect("the filter is right");
            let chunk = (at > 0).then_some(ChunkParams { bytes: 700, overlap: 9, flush_ns: 50_000 });
            let params = StreamParams { chunk, ..StreamParams::default() };
            let no = format!("not ({filter})");
            let parts = [filter, &no].map(|filter| {
                streams.subscribe_streams(filter, params, Keeper::default).expect("the filter is right")
            });
            let short = StreamParams { cutoff: [100; 2], ..StreamParams::default() };
            let short =
                streams.subscribe_streams(filter, short, Keeper::default).expect("the filter is right");
            let outcome = run_streams(&streams, &packets);
            let starts = told(&outcome, short);
            let (whole, [yes, no]) = (told(&outcome, all), parts.map(|part| told(&outcome, part)));
            assert!(!yes.is_empty() && !no.is_empty(), "{filter}");
            assert_eq!(yes.len() + no.len(), whole.len(), "{filter}");
            for (key, told) in yes.iter().chain(no) {
                let wanted = &whole[key];
                assert!(told.bytes == wanted.bytes && told.counts == wanted.counts, "{filter}, {key:?}");
            }
            assert!(starts.keys().eq(yes.keys()), "{filter}");
            for (key, told) in starts {
                let start = whole[key].bytes.iter().take(100).filter(|byte| byte.is_some());
                assert!(told.bytes.iter().filter(|byte| byte.is_some()).eq(start), "{filter}, {key:?}");
            }
            assert_eq!(outcome.counters.stream.stream_bytes_dropped, 0);
        }
    }
}

#[test]
fn what_waits_for_its_filter_is_kept_as_far_as_memory_allows() {
    let compiler = Compiler::default();
    let mut lost = 0;
    for seed in seeds(0..12) {
        let mut random = Random::new(seed);
        let network = Network { repeats: true, loses: false, reorders: true, fragments: false, cuts: false };
        let conversations: Vec<Conversation> =
            (0..60).map(|index| conversation(&mut random, (40_000 + index, 443), network)).collect();
        let packets = mix(&mut random, &conversations);
        let memory_max = random.pick(&[32 << 10, 256 << 10]);
        let overload =
            OverloadParams { memory_max, base_permille: 500, cutoff: 512, priorities: Priorities::default() };
        let mut streams = Engine::with(compiler.clone(), Options { overload, ..Options::default() });
        // For streams that are delivered late, the counters of the sequence are ahead.
        let keeper = || Recorded(Keeper::default());
        let late = streams
            .subscribe_streams("conn.orig_pkts > 1", StreamParams::default(), keeper)
            .expect("the filter is right");
        let never = streams
            .subscribe_streams("conn.orig_pkts > 1000000", StreamParams::default(), keeper)
            .expect("the filter is right");
        let outcome = run_streams(&streams, &packets);
        let counters = outcome.counters.stream;
        assert!(counters.stream_bytes_peak <= memory_max as u64, "seed {seed}: {counters:?}");
        let [late, never] = [late, never].map(|one| &outcome.handlers.of::<Recorded>(one)[0].0.streams);
        assert!(never.is_empty());
        for (key, told) in late {
            let counts = told.counts;
            let known = counts.delivered_bytes + counts.gap_bytes + counts.dropped_bytes;
            assert_eq!(
                (known, counts.cut_bytes),
                (told.payload_bytes, 0),
                "seed {seed}, {key:?}: {counts:?}"
            );
            lost += counts.dropped_bytes;
        }
    }
    assert!(lost > 100_000, "memory was short: {lost}");
}

#[test]
fn a_stream_s_own_cutoff_chunks_and_discard() {
    let calm = Network { repeats: false, loses: false, reorders: false, fragments: false, cuts: false };
    // All three must be long enough.
    let long = |ports: u16| {
        let seeds = 0..;
        let all = seeds.map(|seed| conversation(&mut Random::new(seed), (ports, 443), calm));
        all.into_iter().find(|c| c.sides[0].len() > 2000).expect("some are long")
    };
    let packets = mix(&mut Random::new(1), &[long(40_000), long(40_001), long(40_002)]);
    let mut streams = Engine::new();
    let chunk = Some(ChunkParams { bytes: 100, overlap: 0, flush_ns: 0 });
    let params = StreamParams { chunk, ..StreamParams::default() };
    let calls = streams.subscribe_streams("tcp", params, Calls::default).expect("the filter is right");
    let outcome = run_streams(&streams, &packets);
    let calls = &outcome.handlers.of::<Calls>(calls)[0].0;
    assert_eq!(calls[&(40_000, 443)][..3], [(0, 100, 0), (0, 200, 100), (200, 100, 0)]);
    assert_eq!(calls[&(40_001, 443)], [(0, 100, 0), (100, 50, 0)]);
    assert!(!calls.contains_key(&(40_002, 443)));
}

/// Records everything, and requests the connection's record.
struct Recorded(Keeper);

impl StreamHandler for Recorded {
    type State = Told;
    const RECORD: bool = true;

    fn data(&mut self, told: &mut Told, stream: &mut Stream<'_, '_>, chunk: &Chunk<'_>) {
        self.0.data(told, stream, chunk);
    }

    fn terminated(&mut self, told: Told, stream: &mut Stream<'_, '_>, reason: EndReason) {
        self.0.terminated(told, stream, reason);
    }
}

/// Two classes: a connection belongs to the first class whose filter matches, for both directions. Another
/// subscription receives the streams late.
#[test]
fn a_connection_is_of_one_class_and_late_streams_say_where_they_begin() {
    let compiler = Compiler::default();
    let mut late = 0;
    for seed in seeds(0..20) {
        let mut random = Random::new(seed);
        let conversations: Vec<Conversation> =
            (0..3).map(|index| conversation(&mut random, (40_000 + index, 443), BAD)).collect();
        let packets = mix(&mut random, &conversations);
        let mut streams = Engine::with(compiler.clone(), Options::default());
        let class = |cutoff| StreamParams { cutoff: [cutoff; 2], is_class: true, ..StreamParams::default() };
        let first = streams
            .subscribe_streams("tcp.srcport == 443", class(100), Keeper::default)
            .expect("the filter is right");
        let others =
            streams.subscribe_streams("tcp", class(u64::MAX), Keeper::default).expect("the filter is right");
        let whole = streams
            .subscribe_streams("tcp", StreamParams::default(), Keeper::default)
            .expect("the filter is right");
        let some = streams
            .subscribe_streams("tcp.len > 500", StreamParams::default(), Keeper::default)
            .expect("the filter is right");
        let outcome = run_streams(&streams, &packets);
        let [first, others, whole, some] = [first, others, whole, some].map(|one| told(&outcome, one));
        assert!(first.keys().all(|key| !others.contains_key(key)), "seed {seed}");
        assert_eq!(first.len() + others.len(), whole.len(), "seed {seed}");
        for (key, told) in some {
            let all = &whole[key].bytes;
            let same = told.bytes.iter().zip(all).all(|(one, two)| one.is_none() || one == two);
            assert!(same && told.bytes.len() <= all.len(), "seed {seed}, {key:?}");
            late += usize::from(told.counts.cut_bytes > 0);
        }
    }
    assert!(late > 3, "{late} streams were given late");
}

/// An adversary opens many streams and sends as much as possible on each, in order and out of order.
#[test]
fn where_memory_is_short_low_priorities_and_long_streams_lose() {
    const MEMORY: usize = 256 << 10;
    let (mut lost, mut refused, mut kept_starts) = (0, 0, 0);
    let compiler = Compiler::default();
    for seed in seeds(0..12) {
        let mut random = Random::new(seed);
        let network = Network { repeats: true, loses: false, reorders: true, fragments: false, cuts: false };
        let flood = (0..150).map(|index| conversation(&mut random, (20_000 + index, 80), network));
        let mut conversations: Vec<Conversation> = flood.collect();
        conversations.extend((0..10).map(|index| conversation(&mut random, (50_000 + index, 53), network)));
        let packets = mix(&mut random, &conversations);
        let overload = OverloadParams {
            memory_max: MEMORY,
            base_permille: 300,
            cutoff: 512,
            priorities: Priorities::of(0..3),
        };
        let mut streams = Engine::with(compiler.clone(), Options { overload, ..Options::default() });
        let chunk = Some(ChunkParams { bytes: 16 << 10, overlap: 0, flush_ns: 0 });
        // The filters are decided before the first bytes, so out-of-order segments may be refused.
        let of = |priority| StreamParams { chunk, priority, ..StreamParams::default() };
        let keeper = || Recorded(Keeper::default());
        let important =
            streams.subscribe_streams("tcp.port == 53", of(2), keeper).expect("the filter is right");
        let others = streams
            .subscribe_streams("tcp and not tcp.port == 53", of(0), keeper)
            .expect("the filter is right");
        let outcome = run_streams(&streams, &packets);
        let counters = outcome.counters.stream;
        assert!(counters.stream_bytes_peak <= MEMORY as u64, "seed {seed}: {counters:?}");
        let mut dropped = 0;
        let [of_important, of_others] =
            [important, others].map(|one| &outcome.handlers.of::<Recorded>(one)[0].0.streams);
        for (key, told) in of_important.iter().chain(of_others) {
            let counts = told.counts;
            let known = counts.delivered_bytes + counts.gap_bytes + counts.dropped_bytes;
            assert_eq!((known, counts.cut_bytes), (told.payload_bytes, 0), "seed {seed}, {key:?}");
            let is_important = key.0 == 53 || key.1 == 53;
            assert!(!is_important || counts.dropped_bytes == 0, "seed {seed}, {key:?}: {counts:?}");
            dropped += counts.dropped_bytes;
            let start = told.bytes.iter().take(256).filter(|byte| byte.is_some()).count() as u64;
            kept_starts += u64::from(counts.dropped_bytes > 0 && start == told.payload_bytes.min(256));
        }
        // Dropped bytes of chunks, and of out-of-order segments that were not repeated.
        assert!(dropped >= counters.stream_bytes_dropped, "seed {seed}: {dropped}, {counters:?}");
        refused += counters.stream_segments_dropped;
        lost += dropped;
    }
    assert!(lost > 1 << 20, "{lost} bytes were lost: memory was short");
    assert!(refused > 100, "{refused} segments that came early were refused");
    assert!(kept_starts > 100, "{kept_starts} streams that lost something kept their start");
}

/// Whether the sender with this port sends a FIN. The packets are Ethernet frames without tags.
fn has_fin(packets: &[MemoryPacket], port: u16) -> bool {
    packets.iter().any(|packet| {
        let header = if packet.frame[12..14] == [0x86, 0xdd] { 14 + 40 } else { 14 + 20 };
        packet.frame[header..header + 2] == port.to_be_bytes() && packet.frame[header + 13] & 1 == 1
    })
}

#[test]
fn a_stream_is_closed_when_its_end_is_in_order() {
    let mut closed = 0;
    let chunk = Some(ChunkParams { bytes: 1000, overlap: 10, flush_ns: 0 });
    let forms = [
        ("", StreamParams::default()),
        ("", StreamParams { chunk, ..StreamParams::default() }),
        ("", StreamParams { cutoff: [100, 0], ..StreamParams::default() }),
        // The filters are decided with the last packet of the connection, after the stream was closed.
        ("conn.orig_pkts > 0", StreamParams::default()),
        ("conn.orig_pkts > 0", StreamParams { chunk, ..StreamParams::default() }),
    ];
    for seed in seeds(0..20) {
        let mut random = Random::new(seed);
        let network = if seed % 2 == 0 { CALM } else { Network { reorders: true, repeats: true, ..CALM } };
        let conversations = [conversation(&mut random, (40_000, 443), network)];
        let packets = mix(&mut random, &conversations);
        let mut streams = Engine::default();
        let mut subscribe = |&(filter, params)| streams.subscribe_streams(filter, params, Keeper::default);
        let asked: Vec<_> = forms.iter().map(|form| subscribe(form).expect("the filter is right")).collect();
        let outcome = run_streams(&streams, &packets);
        for (subscription, form) in asked.into_iter().zip(forms) {
            let streams = told(&outcome, subscription);
            assert_eq!(streams.len(), 2, "seed {seed}, {form:?}");
            for (key, told) in streams {
                let expected = has_fin(&packets, key.0 as u16).then_some(told.bytes.len());
                assert_eq!(told.closed_at, expected, "seed {seed}, {key:?}, {form:?}");
                closed += usize::from(expected.is_some());
            }
        }
    }
    assert!(closed > 50, "{closed} streams have an end");
}

#[test]
fn connections_of_low_priority_end_first_where_the_table_is_full() {
    for seed in seeds(0..4) {
        let mut random = Random::new(seed);
        let others = (0..100).map(|index| conversation(&mut random, (20_000 + index, 80), CALM));
        let mut conversations: Vec<Conversation> = others.collect();
        conversations.extend((0..5).map(|index| conversation(&mut random, (50_000 + index, 53), CALM)));
        let packets = mix(&mut random, &conversations);
        let limits = Limits { flows_max: 20, ..Limits::default() };
        let overload = OverloadParams { priorities: Priorities::of([0, 7]), ..OverloadParams::default() };
        let mut streams =
            Engine::with(Compiler::default(), Options { limits, overload, ..Options::default() });
        let of = |priority| StreamParams { priority, ..StreamParams::default() };
        let mut subscribe = |filter, priority| {
            streams.subscribe_streams(filter, of(priority), Keeper::default).expect("the filter is right")
        };
        let [important, others] = [subscribe("tcp.port == 53", 7), subscribe("tcp.port == 80", 0)];
        let outcome = run_streams(&streams, &packets);
        let shed = |subscription| outcome.handlers.of::<Keeper>(subscription)[0].shed;
        assert_eq!(shed(important), 0, "seed {seed}");
        assert!(shed(others) > 100, "seed {seed}: {}", shed(others));
    }
}
