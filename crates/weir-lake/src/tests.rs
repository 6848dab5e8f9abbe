//! Rows do not depend on the division of captures.

use crate::cuts::{Unit, units};
use crate::{
    Capture, Chunk, Division, Files, Identity, Index, Task, TaskSource, Window, build_index, host_pairs, plan,
};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir::io::{CaptureReader, MemoryPacket, MemorySource, PcapWriter};
use weir::packet::{Burst, LinkType, Poll, Source};
use weir::sessions::SessionRegistry;
use weir::{
    Ask, ClockState, Compiled, Compiler, Engine, FlowWatch, Item, Log, Need, Next, Options, Question, Shape,
    TakeItems, Want,
};
use weir_testing::Random;

/// Logs whose rows are compared, besides connections.
const LOGS: &[&str] = &["dns", "http", "tls", "ftp", "files", "dhcp", "sip", "quic", "smb", "ntp"];

/// An index of chunks with these times.
fn index_of_times(times: &[(i64, i64)]) -> Index {
    let clock = ClockState { now: i64::MIN, last: i64::MIN, behind: 0 };
    let chunk = |(number, &times): (u64, &(i64, i64))| Chunk {
        start: number,
        skip: 0,
        head: 0,
        offset_bytes: number,
        length_bytes: Some(1),
        stored_bytes: 1,
        first_packet: number,
        packets: 1,
        first_interface: 0,
        first_time: times.0,
        times,
        clock,
        clock_max: times.1,
        pairs: vec![1],
        open: vec![],
    };
    Index {
        identity: Identity { size_bytes: 0, stamp: 0, settings: 0, chunk_bytes: 1 },
        is_zstd: false,
        interfaces: 1,
        packets: times.len() as u64,
        error: None,
        heads: vec![vec![]],
        chunks: (0..).zip(times).map(chunk).collect(),
        deadlines: vec![],
        joined: vec![],
        clock,
    }
}

/// Collects the rows of all questions of a run, as text.
#[derive(Clone, Default)]
struct Rows(std::sync::Arc<std::sync::Mutex<Vec<String>>>);

impl TakeItems for Rows {
    fn take(&mut self, question: usize, item: Item<'_>) -> Next {
        if let Item::Rows(rows) = item {
            let mut all = self.0.lock().unwrap();
            all.extend(rows.iter().map(|row| format!("{question} {row:?}")));
        }
        Next::Go
    }
}

/// Questions about connections and logs, compiled once: that takes longer than to answer them.
struct Asked {
    engine: Engine<'static>,
    compiled: Compiled,
    taken: Rows,
}

thread_local! {
    static ASKED: RefCell<Asked> = RefCell::new(Asked::new());
}

impl Asked {
    fn new() -> Self {
        let need = Need { service: true, ..Need::default() };
        let flows = Ask { filter: String::new(), need, want: Want::Connections };
        let shape = Shape { as_rows: true, ..Shape::default() };
        let mut questions = vec![Question::new(flows, shape)];
        for name in LOGS {
            let log = Log::of(SessionRegistry::builtin(), name).expect("the log exists");
            let ask = Ask { filter: String::new(), need: Need::default(), want: Want::Sessions(log.asked()) };
            questions.push(Question::new(ask, log.shape()));
        }
        let mut engine = Engine::with(Compiler::default(), Options::default());
        let taken = Rows::default();
        engine.subscribe_questions(questions, taken.clone()).unwrap();
        let compiled = engine.compile().unwrap();
        Self { engine, compiled, taken }
    }
}

/// The rows of connections and of logs of a source, sorted, with the errors of the source.
fn rows(source: &mut dyn Source) -> Vec<String> {
    ASKED.with_borrow_mut(|asked| {
        let outcome = asked.engine.run_compiled(asked.compiled.clone(), source, 1, &mut |_| {});
        let mut all = std::mem::take(&mut *asked.taken.0.lock().unwrap());
        all.extend(outcome.errors.iter().map(|error| format!("error {error}")));
        all.sort();
        all
    })
}

fn index_of(path: &Path, chunk_bytes: u64) -> Index {
    let reader = Box::new(File::open(path).unwrap());
    let identity =
        Identity { size_bytes: path.metadata().unwrap().len(), stamp: 0, settings: 0, chunk_bytes };
    let name = path.to_string_lossy();
    let index = build_index(&name, reader, identity, &Compiler::default(), &Options::default()).unwrap();
    assert_eq!(Index::decode(&index.encode()).as_ref(), Ok(&index));
    index
}

/// The rows of the tasks that read captures together, sorted, and the number of tasks.
fn divided(paths: &[PathBuf], chunk_bytes: u64, tasks: usize) -> (Vec<String>, usize) {
    let indices: Vec<Index> = paths.iter().map(|path| index_of(path, chunk_bytes)).collect();
    let names: Vec<String> = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let captures: Vec<Capture<'_>> =
        names.iter().zip(&indices).map(|(name, index)| Capture { name, index }).collect();
    let longest = crate::longest_timeout(&Compiler::default(), &Options::default());
    let tasks = plan(&captures, &Division { tasks, longest, window: None });
    let count = tasks.len();
    (rows_of(tasks), count)
}

fn rows_of(tasks: Vec<Task>) -> Vec<String> {
    let mut all = vec![];
    for task in tasks {
        let task = Task::decode(&task.encode()).expect("a task as bytes is the same");
        all.extend(task.errors.iter().map(|error| format!("error {error}")));
        let pairs = host_pairs(&Compiler::default(), &Options::default()).unwrap();
        all.extend(rows(&mut TaskSource::new(task, Box::new(Files), pairs)));
    }
    all.sort();
    all
}

fn assert_same(paths: &[PathBuf], chunk_bytes: u64, tasks: usize) -> usize {
    let whole = rows(&mut CaptureReader::open(paths));
    let (parts, count) = divided(paths, chunk_bytes, tasks);
    let lost: Vec<_> = whole.iter().filter(|row| parts.binary_search(row).is_err()).take(3).collect();
    let new: Vec<_> = parts.iter().filter(|row| whole.binary_search(row).is_err()).take(3).collect();
    assert!(
        lost.is_empty() && new.is_empty() && whole.len() == parts.len(),
        "{paths:?}, {chunk_bytes}, {tasks}: lost {lost:#?}, new {new:#?}"
    );
    count
}

fn captures_of(folder: &str, bytes_max: u64) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let Ok(entries) = std::fs::read_dir(folder) else { return vec![] };
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_capture = |path: &PathBuf| {
        path.extension().is_some_and(|end| end == "pcap" || end == "pcapng")
            && path.metadata().is_ok_and(|about| about.len() < bytes_max)
    };
    let mut found: Vec<PathBuf> = paths.filter(is_capture).collect();
    found.sort();
    found
}

#[test]
fn shipped_captures_have_the_same_rows_in_any_division() {
    let mut divisions = 0;
    // The other ones are read by the tests of Spark.
    let paths = captures_of("examples", 3_000_000)
        .into_iter()
        .chain(captures_of("protocols", 300_000).into_iter().step_by(4));
    for path in paths {
        let paths = [path];
        divisions += assert_same(&paths, 1_000, 16) - 1;
    }
    assert!(divisions > 50, "only {divisions} borders");
}

#[test]
fn several_captures_are_one_sequence_where_they_meet() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..3 {
        let mut random = Random::new(seed);
        let packets = traffic(&mut random, 400, 2);
        // Parts of one capture after the other, and a second tap whose packets come in between.
        let (one, others): (Vec<_>, Vec<_>) = packets.iter().cloned().partition(|_| random.below(3) > 0);
        let third = one.len() / 3;
        let parts = [&one[..third], &one[third..2 * third], &one[2 * third..], &others];
        let paths: Vec<PathBuf> = (0..4)
            .zip(parts)
            .map(|(number, part)| write(folder.path(), &format!("{seed}-{number}"), part))
            .collect();
        for tasks in [1, 4] {
            assert_same(&paths, 3_000, tasks);
            assert_same(&paths[..3], 3_000, tasks);
        }
    }
}

/// Packets between some hosts, with tunnels and fragments; some are late.
fn traffic(random: &mut Random, count: usize, tunnels: u32) -> Vec<MemoryPacket> {
    let mut packets: Vec<MemoryPacket> =
        (0..count).map(|_| weir_testing::frames::whole_within(random, tunnels)).collect();
    // A pcap file has one link type.
    packets.retain(|packet| packet.link == LinkType::ETHERNET);
    weir_testing::frames::give_times(random, &mut packets);
    for (number, packet) in packets.iter_mut().enumerate() {
        // Other hosts come and go.
        if packet.frame[12..14] == [8, 0] {
            [28, 32].into_iter().for_each(|octet| packet.frame[octet] = (number / 40) as u8);
        }
        if random.once_in(12) {
            packet.time.0 -= random.below(9_000_000_000) as i64;
        }
    }
    packets
}

fn write(folder: &Path, name: &str, packets: &[MemoryPacket]) -> PathBuf {
    let path = folder.join(format!("{name}.pcap"));
    let mut writer = PcapWriter::new(File::create(&path).unwrap());
    let mut source = MemorySource::new().then_packets(packets.iter().cloned());
    let mut burst = Burst::default();
    while source.poll(&mut burst).unwrap() == Poll::Packets {
        for (index, packet) in burst.packets.iter().enumerate() {
            writer.write(packet, burst.data(index)).unwrap();
        }
    }
    writer.finish().unwrap();
    path
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Random packets of random pairs, with times that go back, in random divisions.
    #[test]
    fn random_traffic_has_the_same_rows_in_any_division(
        seed in any::<u64>(), count in 100usize..500, chunk_bytes in 1u64..8_000, tasks in 2usize..20,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), "x", &traffic(&mut Random::new(seed), count, 2));
        assert_same(&[path], chunk_bytes, tasks);
    }

    /// Whatever the bytes are, they are an index or refused.
    #[test]
    fn any_bytes_are_refused_or_consistent(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = index_of_times(&[(0, 9), (10, 19), (15, 30)]).encode();
        for (place, byte) in places {
            let place = place.index(bytes.len() - 12) + 12;
            bytes[place] = byte;
        }
        bytes.truncate(12 + cut.index(bytes.len() - 11));
        // A checksum that fits shows what the decoder itself finds.
        let sum = crc32fast::hash(&bytes[12..]).to_le_bytes();
        bytes[8..12].copy_from_slice(&sum);
        if let Ok(index) = Index::decode(&bytes) {
            let captures = [Capture { name: "x", index: &index }];
            let division = Division { tasks: 3, longest: Some(Duration::from_secs(300)), window: None };
            prop_assert!(!plan(&captures, &division).is_empty());
            let again = Index::decode(&index.encode());
            prop_assert_eq!(again.as_ref(), Ok(&index));
        }
    }
}

#[test]
fn a_sequence_that_grows_has_each_row_once() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 10..14 {
        let mut packets = traffic(&mut Random::new(seed), 500, 0);
        packets.sort_by_key(|packet| packet.time);
        // Much later, other hosts say something: everything before is closed.
        let mut last = packets[0].clone();
        last.frame = weir_testing::frames::ethernet(0x9000, b"end");
        last.time.0 = packets.last().map_or(0, |packet| packet.time.0) + 1_000_000_000_000;
        let paths: Vec<PathBuf> = packets
            .chunks(90)
            .chain([&[last][..]])
            .enumerate()
            .map(|(number, part)| write(folder.path(), &format!("{seed}-{number}"), part))
            .collect();
        let indices: Vec<Index> = paths.iter().map(|path| index_of(path, 3_000)).collect();
        let names: Vec<String> = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        let captures: Vec<Capture<'_>> =
            names.iter().zip(&indices).map(|(name, index)| Capture { name, index }).collect();
        let longest = crate::longest_timeout(&Compiler::default(), &Options::default());
        let whole = rows(&mut CaptureReader::open(&paths));
        for (ends, tasks) in [((1..=paths.len()).collect::<Vec<_>>(), 1), (vec![2, paths.len()], 3)] {
            let (mut history, mut all) = (0, vec![]);
            for end in ends {
                let window = Window { history, cut: Duration::from_secs(1 << 40) };
                let division = Division { tasks, longest, window: Some(window) };
                all.extend(rows_of(plan(&captures[..end], &division)));
                history = end;
            }
            all.sort();
            assert_eq!(all, whole, "{seed} {tasks}");
        }
    }
}

#[test]
fn compressed_captures_begin_at_frames() {
    let folder = tempfile::tempdir().unwrap();
    let plain = write(folder.path(), "x", &traffic(&mut Random::new(3), 600, 2));
    let bytes = std::fs::read(&plain).unwrap();
    let frames: Vec<u8> = bytes.chunks(7_001).flat_map(|part| zstd::encode_all(part, 1).unwrap()).collect();
    let (divisible, single) = (folder.path().join("x.pcap.zst"), folder.path().join("y.pcap.zst"));
    std::fs::write(&divisible, frames).unwrap();
    std::fs::write(&single, zstd::encode_all(&bytes[..], 1).unwrap()).unwrap();
    assert!(assert_same(&[divisible], 4_000, 8) > 3);
    assert_eq!(assert_same(&[single], 4_000, 8), 1, "decompression begins at the beginning only");
}

#[test]
fn damage_is_found_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "x", &traffic(&mut Random::new(4), 300, 2));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
    let text = folder.path().join("text.pcap");
    std::fs::write(&text, "no capture").unwrap();
    let (found, count) = divided(&[path.clone(), text.clone()], 3_000, 4);
    assert_eq!(count, 4);
    assert_eq!(found.iter().filter(|row| row.starts_with("error")).count(), 2);
    assert_same(&[path, text], 3_000, 4);
}

#[test]
fn a_pair_is_open_as_long_as_the_engine_has_flows_of_it() {
    let paths = captures_of("examples", 3_000_000);
    let first_light = paths.iter().find(|path| path.ends_with("first-light.pcap")).expect("it is shipped");
    let index = index_of(first_light, 10_000);
    let mut watch = FlowWatch::new(&Compiler::default(), &Options::default()).unwrap();
    let mut reader = CaptureReader::open(&[first_light]);
    let mut burst = Burst::default();
    let mut live: BTreeMap<u64, usize> = BTreeMap::new();
    while reader.poll(&mut burst).unwrap() == Poll::Packets {
        for packet in &burst.packets {
            watch.take(&Burst { packets: vec![*packet], ..burst.clone() });
            live.insert(packet.number, watch.live_flows().count());
        }
    }
    for chunk in &index.chunks {
        let flows = live[&(chunk.first_packet + chunk.packets)];
        assert!(chunk.open.len() <= flows && chunk.open.is_empty() == (flows == 0));
    }
}

fn units_of(captures: &[&[(i64, i64)]]) -> Vec<Unit> {
    let indices: Vec<Index> = captures.iter().map(|times| index_of_times(times)).collect();
    units(&indices.iter().collect::<Vec<_>>())
}

#[test]
fn captures_one_after_the_other_are_cut_at_each_chunk() {
    let units = units_of(&[&[(20, 29), (30, 39)], &[(0, 9), (10, 19)]]);
    assert_eq!(units, [vec![(1, 0..1)], vec![(1, 1..2)], vec![(0, 0..1)], vec![(0, 1..2)]]);
}

#[test]
fn times_within_a_capture_may_go_back() {
    assert_eq!(units_of(&[&[(5, 9), (0, 7)]]).len(), 2);
}

#[test]
fn only_chunks_that_overlap_are_read_together() {
    let units = units_of(&[&[(0, 9), (10, 21), (40, 49)], &[(20, 29), (30, 39)]]);
    let expected: Vec<Unit> =
        vec![vec![(0, 0..1)], vec![(0, 1..2), (1, 0..1)], vec![(1, 1..2)], vec![(0, 2..3)]];
    assert_eq!(units, expected);
    // Packets of one time are ordered by captures, so a border between them is no cut.
    assert_eq!(units_of(&[&[(0, 9)], &[(9, 20)]]).len(), 1);
}
