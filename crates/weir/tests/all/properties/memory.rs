//! Packet memory that is returned to its source after each burst, like the memory of a mapped ring, a UMEM or
//! a device: every question gives the same rows as over a file, and no reference outlives its burst.

use crate::properties::drive::{
    FIRST_LIGHT, MemoryPacket, all_sessions, ask, compile, in_memory, read_capture, seeds,
};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use weir::packet::{
    Block, Burst, Cell, PacketExtra, PacketMemory, PacketMeta, Poll, Retention, Source, SourceError, VlanTag,
    offset_in,
};
use weir::patterns::{EngineChoice, Pattern, Patterns, Scratch, StreamState};
use weir::stream::{Chunk, ChunkParams, EndReason, Stream, StreamHandler, StreamParams};
use weir::{
    Ask, Compiled, Compiler, Engine, EventRow, Every, Executor, Frame, Item, Need, Options, Outcome, Segment,
    SessionsOf, Shape, StreamBytes, Track, TrackPacket, Tracked, Want,
};
use weir_testing::Random;
use weir_testing::traffic::{Conversation, Network, conversation, mix};

/// The content of returned memory.
const RETURNED: u8 = 0xdd;

/// The frames of a burst, in memory that the source takes back.
#[derive(Debug)]
struct Frames {
    bytes: Vec<u8>,
    /// The content once the source has taken the memory back.
    overwritten: Vec<u8>,
    is_returned: Arc<AtomicBool>,
    /// The number of bursts that are still referred to.
    lent: Arc<AtomicUsize>,
}

impl PacketMemory for Frames {
    fn range(&self, offset: usize, length: usize) -> &[u8] {
        let is_returned = self.is_returned.load(Ordering::Relaxed);
        &(if is_returned { &self.overwritten } else { &self.bytes })[offset..][..length]
    }

    fn locate(&self, bytes: &[u8]) -> Option<usize> {
        offset_in(&self.bytes, bytes)
    }

    fn size_bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        self.lent.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Delivers another source's packets in memory that this source takes back at the next poll.
struct Ring<'s> {
    source: &'s mut dyn Source,
    read: Burst,
    is_returned: Arc<AtomicBool>,
    lent: Arc<AtomicUsize>,
}

impl<'s> Ring<'s> {
    fn new(source: &'s mut dyn Source) -> Self {
        Self { source, read: Burst::default(), is_returned: Arc::default(), lent: Arc::default() }
    }
}

impl Source for Ring<'_> {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        // Set before the burst is dropped: any remaining reference reads other bytes from now on.
        self.is_returned.store(true, Ordering::Relaxed);
        *burst = Burst::default();
        assert_eq!(self.lent.load(Ordering::Relaxed), 0, "nobody refers to a burst that is over");
        let read = self.source.poll(&mut self.read)?;
        let mut bytes = vec![];
        for (index, packet) in self.read.packets.iter().enumerate() {
            // Leaves gaps between frames, as between the buffers of a device.
            burst.packets.push(PacketMeta { offset: bytes.len() as u32, ..*packet });
            bytes.extend_from_slice(self.read.data(index));
            bytes.extend([RETURNED; 64]);
        }
        self.is_returned = Arc::default();
        self.lent.fetch_add(1, Ordering::Relaxed);
        let memory = Frames {
            overwritten: vec![RETURNED; bytes.len()],
            bytes,
            is_returned: Arc::clone(&self.is_returned),
            lent: Arc::clone(&self.lent),
        };
        burst.block = Arc::new(Block::foreign(Box::new(memory), Retention::Copy));
        Ok(read)
    }
}

/// Emits each chunk of a stream unchanged, with its packets.
struct Echo;

impl StreamHandler for Echo {
    type State = ();

    fn data(&mut self, (): &mut (), stream: &mut Stream<'_, '_>, chunk: &Chunk<'_>) {
        let mut shown =
            format!("{:?} {} {} {:?}", stream.endpoints(), chunk.offset, chunk.gap_bytes, chunk.bytes);
        for packet in chunk.packets() {
            shown += &format!(" {} {:?} {:?}", packet.meta.number, packet.bytes, packet.frame);
        }
        if chunk.offset.is_multiple_of(5) {
            stream.keep_chunk();
        }
        stream.emit([Cell::Text(&shown)]);
    }
}

/// Emits the matches of patterns, as `weir match` finds them.
struct Search(Arc<Patterns>, Scratch);

impl StreamHandler for Search {
    type State = StreamState;

    fn data(&mut self, state: &mut StreamState, stream: &mut Stream<'_, '_>, chunk: &Chunk<'_>) {
        self.0.gap(state, chunk.gap_bytes);
        self.0.feed(&mut self.1, state, &chunk.bytes[chunk.overlap..], &mut |found| {
            stream.emit([Cell::Text(&format!("{found:?}"))]);
        });
    }

    fn terminated(&mut self, mut state: StreamState, stream: &mut Stream<'_, '_>, _: EndReason) {
        self.0.finish(&mut self.1, &mut state, &mut |found| {
            stream.emit([Cell::Text(&format!("{found:?}"))]);
        });
    }
}

/// All calls that it receives for a connection.
#[derive(Debug, Clone, Default)]
struct Seen(Vec<String>);

impl Track for Seen {
    const PROTOCOLS: &'static [&'static str] = &["tls", "dns", "http"];

    fn packet(&mut self, packet: &TrackPacket<'_>) {
        self.0.push(format!("{} {} {:?}", packet.meta.number, packet.is_orig, packet.frame));
    }

    fn session(&mut self, session: &dyn weir::sessions::Session) {
        self.0.push(format!("{session:?}"));
    }
}

/// A text for each packet, row or other result: how rows are divided into items depends on the workers.
fn texts(question: usize, item: &Item<'_>) -> Vec<String> {
    match item {
        Item::Rows(rows) => rows.iter().map(|row| format!("{question} {} {row:?}", rows.protocol)).collect(),
        item => vec![format!("{question} {item:?}")],
    }
}

/// Questions over a stack, compiled once and run over several captures.
struct Questions {
    compiler: Compiler,
    /// For each engine, the same questions: first each question in a program of its own, then all together.
    programs: [Vec<Compiled>; 2],
}

impl Questions {
    fn of(stack: &str) -> Self {
        let mut compiler = Compiler::default();
        compiler.use_stack(stack).unwrap_or_else(|wrong| panic!("{wrong}"));
        let programs = [Executor::Native, Executor::Interpreter].map(|engine| {
            let options = Options { engine, ..Options::default() };
            asks(&compiler)
                .iter()
                .map(|asks| compile(&compiler, asks, &options))
                .chain([streams(&compiler, &options)])
                .collect()
        });
        Self { compiler, programs }
    }

    /// Holds the rows over a ring against those over the reader's memory. Segments that were copied.
    fn hold(&self, name: &str, packets: &[MemoryPacket]) -> u64 {
        let mut copied = 0;
        for (index, reference) in self.programs[0].iter().enumerate() {
            // Connections in tunnels depend on the number of workers (ARCHITECTURE, warts).
            let references = [1, 2].map(|workers| self.rows(reference, &mut in_memory(packets), workers));
            for (engine, workers) in [(0, 1), (0, 2), (1, 1)] {
                let (expected, outcome) = &references[workers - 1];
                let compiled = &self.programs[engine][index];
                let mut memory = in_memory(packets);
                let (got, ring) = self.rows(compiled, &mut Ring::new(&mut memory), workers);
                let named = format!("{name}, question {index}, engine {engine}, {workers} workers");
                compare(&named, expected, &got);
                assert_eq!(outcome.counters.packet, ring.counters.packet, "{named}");
                assert_eq!(outcome.counters.drops, ring.counters.drops, "{named}");
                copied += ring.counters.sequence.copied;
            }
            assert_eq!(
                references[0].1.counters.sequence.copied, 0,
                "{name}: blocks of a file are referred to"
            );
        }
        copied
    }

    fn rows(&self, compiled: &Compiled, source: &mut dyn Source, workers: usize) -> (Vec<String>, Outcome) {
        let shape = Shape { as_rows: true, ..Shape::default() };
        let shapes = vec![shape; compiled.question_count()];
        let mut rows = vec![];
        let mut each = |question: usize, item: Item<'_>| {
            rows.extend(texts(question, &item));
            Ok::<(), Infallible>(())
        };
        let Ok(outcome) =
            weir::run(&self.compiler, compiled, source, &shapes, workers, &mut each, &mut |_| {});
        assert_eq!(outcome.counters.adds_up(0), Ok(()), "{:?}", outcome.counters);
        (rows, outcome)
    }
}

fn compare(name: &str, expected: &[String], got: &[String]) {
    if let Some(at) = (0..expected.len().max(got.len())).find(|&at| expected.get(at) != got.get(at)) {
        let (is, should) = (got.get(at), expected.get(at));
        panic!("{name}: row {at} of {} is\n  {is:?}\nshould be\n  {should:?}", expected.len());
    }
}

/// Sets of questions: packets alone, packets that wait for their connection, all kinds together.
fn asks(compiler: &Compiler) -> Vec<Vec<Ask>> {
    let events = weir::EventRows::of(compiler.stack(), &[]).expect("no name is wrong").asked;
    let events = Ask { filter: String::new(), need: Need { events, ..Need::default() }, want: Want::Events };
    let mut everything =
        vec![ask("", Want::Packets), ask("", Want::Connections), ask("", all_sessions()), events];
    everything.retain(|ask| ask.want != Want::Events || !ask.need.events.is_empty());
    vec![
        vec![ask("", Want::Packets)],
        vec![ask("conn.orig_bytes > 100", Want::Packets), ask("dns or tls", Want::Packets)],
        everything,
    ]
}

/// Subscriptions to streams.
fn streams(compiler: &Compiler, options: &Options) -> Compiled {
    let mut streams = Engine::with(compiler.clone(), options.clone());
    let plain = StreamParams { packets: true, ..StreamParams::default() };
    streams.subscribe_streams("", plain, || Echo).expect("the filter is right");
    let chunk = Some(ChunkParams { bytes: 700, overlap: 10, flush_ns: 0 });
    streams
        .subscribe_streams("", StreamParams { chunk, packets: true, ..StreamParams::default() }, || Echo)
        .expect("the filter is right");
    streams.subscribe_streams("http or tls", StreamParams::default(), || Echo).expect("the filter is right");
    let pattern = |text: &str| Pattern { text: text.into(), ignore_case: true, literal: false };
    let patterns =
        Patterns::compile(&[pattern("host: [a-z.]+"), pattern("server|example")], EngineChoice::Rust);
    let patterns = Arc::new(patterns.expect("they are right"));
    let search = move || Search(Arc::clone(&patterns), patterns.scratch());
    streams.subscribe_streams("tcp", StreamParams::default(), search).expect("the filter is right");
    streams.compile().expect("the filters are right")
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// The captures in a folder, each with its stack, sorted by name.
fn captures(name: &str) -> Vec<(PathBuf, String)> {
    let files = std::fs::read_dir(folder(name)).expect("the folder is there");
    let mut paths: Vec<PathBuf> = files.map(|entry| entry.expect("it can be read").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "pcap"));
    paths.sort();
    assert!(paths.len() > 3, "there are captures in {name}");
    let stack = |path: &Path| {
        let text = std::fs::read_to_string(path.with_extension("expect")).unwrap_or_default();
        let named = text.lines().find_map(|line| line.strip_prefix("stack "));
        named.unwrap_or("internet").to_owned()
    };
    paths.into_iter().map(|path| (path.clone(), stack(&path))).collect()
}

/// Moves packets a few places on, so that segments and fragments come before their turn.
fn disordered(mut packets: Vec<MemoryPacket>, random: &mut Random) -> Vec<MemoryPacket> {
    for at in 1..packets.len() {
        if random.once_in(3) {
            let to = at - (random.below(4) as usize).min(at);
            let (a, b) = (packets[at].time.0, packets[to].time.0);
            packets.swap(at, to);
            (packets[at].time.0, packets[to].time.0) = (a, b);
        }
    }
    packets
}

#[test]
fn small_captures_of_every_layer_yield_the_same_rows() {
    let mut stacks = BTreeMap::<String, Questions>::new();
    let mut copied = 0;
    for (path, stack) in captures("protocols") {
        let questions = stacks.entry(stack).or_insert_with_key(|stack| Questions::of(stack));
        let packets = read_capture(&path.to_string_lossy());
        let name = path.display().to_string();
        copied += questions.hold(&name, &packets);
        copied += questions.hold(&name, &disordered(packets, &mut Random::new(1)));
    }
    assert!(copied > 0, "some had to be copied");
}

#[test]
fn larger_captures_yield_the_same_rows() {
    let questions = Questions::of("internet");
    for name in ["services", "sessions", "tunnels", "first-light"] {
        let path = folder("examples").join(name).with_extension("pcap");
        let mut packets = read_capture(&path.to_string_lossy());
        packets.truncate(400);
        questions.hold(name, &packets);
        questions.hold(name, &disordered(packets, &mut Random::new(2)));
    }
}

#[test]
fn conversations_over_a_bad_network_yield_the_same_rows() {
    let questions = Questions::of("internet");
    for seed in seeds(0..12) {
        let mut random = Random::new(seed);
        let is_cut = seed % 4 == 1;
        let network =
            Network { repeats: !is_cut, loses: true, reorders: true, fragments: seed % 2 == 0, cuts: is_cut };
        let conversations: Vec<Conversation> =
            (0..4).map(|index| conversation(&mut random, (40_000 + index, 443), network)).collect();
        questions.hold(&format!("seed {seed}"), &mix(&mut random, &conversations));
    }
}

/// The items that callbacks receive, including callbacks on other threads.
fn callbacks(source: &mut dyn Source, engine: Executor, workers: usize) -> Vec<String> {
    let (told, sender) = {
        let (sender, told) = std::sync::mpsc::channel();
        (told, sender)
    };
    let tell = |name: &'static str| {
        let sender = sender.clone();
        move |shown: String| sender.send(format!("{name} {shown}")).expect("the test reads it")
    };
    let mut asked = Engine::with(Compiler::default(), Options { engine, ..Options::default() });
    let each = tell("frame");
    asked
        .subscribe("udp or tls", move |frame: &Frame| {
            each(format!("{} {:?}", frame.meta.number, frame.bytes))
        })
        .unwrap();
    let each = tell("elsewhere");
    asked
        .subscribe_on((1, 1 << 20), "tcp", move |frame: &Frame| {
            each(format!("{} {:?}", frame.meta.number, frame.bytes))
        })
        .unwrap();
    let each = tell("segment");
    asked.subscribe("tcp", move |segment: &Segment| each(format!("{segment:?}"))).unwrap();
    let each = tell("chunk");
    asked.subscribe("tls or http", move |chunk: &StreamBytes<1000>| each(format!("{chunk:?}"))).unwrap();
    let each = tell("tracked");
    asked
        .subscribe_every(Every::Packets(7), "", move |seen: &Tracked<Seen>| each(format!("{:?}", seen.0)))
        .unwrap();
    let each = tell("sessions");
    asked
        .subscribe("tcp", move |all: &SessionsOf<weir::sessions::tls::TlsHandshake>| {
            all.iter().for_each(|one| each(format!("{one:?}")));
        })
        .unwrap();
    let each = tell("event");
    asked.subscribe("", move |row: &EventRow| each(format!("{row:?}"))).unwrap();
    let outcome = asked.run(source, workers).unwrap();
    assert_eq!(outcome.lost, 0);
    drop((asked, sender));
    let mut all: Vec<String> = told.into_iter().collect();
    // Items of callbacks on other threads arrive in any order.
    all.sort();
    all
}

#[test]
fn callbacks_are_given_the_same() {
    let packets = disordered(read_capture(FIRST_LIGHT), &mut Random::new(3));
    let expected = callbacks(&mut in_memory(&packets), Executor::Native, 1);
    for (engine, workers) in [(Executor::Native, 1), (Executor::Native, 2), (Executor::Interpreter, 1)] {
        let mut memory = in_memory(&packets);
        let got = callbacks(&mut Ring::new(&mut memory), engine, workers);
        compare(&format!("{engine:?}, {workers} workers"), &expected, &got);
    }
}

/// Another source's packets. Every third one has a VLAN tag and annotations.
struct Tagging<'s>(&'s mut dyn Source);

impl Source for Tagging<'_> {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        let read = self.0.poll(burst)?;
        burst.extras.clear();
        for (index, packet) in burst.packets.iter().enumerate().filter(|(_, one)| one.number % 3 == 0) {
            let vlan = Some(VlanTag { tpid: 0x8100, tci: packet.number as u16 });
            let annotations = &packet.number.to_be_bytes();
            burst.extras.push(index, PacketExtra { vlan, annotations, ..PacketExtra::default() });
        }
        Ok(read)
    }
}

#[test]
fn a_tag_out_of_band_and_annotations_reach_who_writes_packets() {
    let packets = read_capture(FIRST_LIGHT);
    let compiler = Compiler::default();
    // The second filter makes packets wait for their connection.
    for (filter, workers) in [("", 1), ("", 2), ("conn.orig_bytes > 0", 1), ("conn.orig_bytes > 0", 2)] {
        let compiled = compile(&compiler, &[ask(filter, Want::Packets)], &Options::default());
        let shapes = [Shape { frames: true, options: true, ..Shape::default() }];
        let mut count = [0; 2];
        let mut each = |_: usize, item: Item<'_>| {
            let Item::Packet { meta, frame, options, .. } = item else { return Ok::<(), Infallible>(()) };
            let captured = &packets[meta.number as usize - 1];
            let is_tagged = meta.number % 3 == 0;
            count[usize::from(is_tagged)] += 1;
            let mut expected = captured.frame.clone();
            if is_tagged {
                let [high, low] = (meta.number as u16).to_be_bytes();
                expected.splice(12..12, [0x81, 0, high, low]);
                assert_eq!(options, meta.number.to_be_bytes());
            } else {
                assert!(options.is_empty());
            }
            assert_eq!(frame, expected, "packet {}", meta.number);
            assert_eq!(meta.captured_bytes as usize, frame.len());
            assert_eq!(meta.wire_bytes, captured.wire_bytes + if is_tagged { 4 } else { 0 });
            Ok(())
        };
        let mut memory = in_memory(&packets);
        let mut source = Tagging(&mut memory);
        let Ok(_) = weir::run(&compiler, &compiled, &mut source, &shapes, workers, &mut each, &mut |_| {});
        assert!(count[0] > 100 && count[1] > 100, "{count:?}");
    }
}
