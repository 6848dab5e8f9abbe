//! Writers, readers and a spool together.

use crate::{
    Reader, Retention, Ring, Selection, SpoolCounters, SpoolFiles, SpoolParams, Spooler, TimeRange, Writer,
};
use proptest::prelude::*;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use weir_packet::{
    Block, Burst, HeaderPair, HeaderPart, HeaderTerms, IpVersion, LinkType, Masked, PacketHeaders,
    PacketMeta, Timestamp, Transport,
};

const SEGMENT_BYTES: usize = 4096;

/// A packet of TCP over IPv4 with this source port and number, and `more` bytes of data.
fn frame(port: u16, number: u32, more: usize) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 80]);
    frame.extend(number.to_be_bytes());
    frame.extend((0..more).map(|byte| byte as u8));
    frame
}

fn burst(frames: &[(i64, Vec<u8>)]) -> Burst {
    let (mut bytes, mut packets) = (vec![], vec![]);
    for (time, frame) in frames {
        packets.push(PacketMeta {
            time: Timestamp(*time),
            offset: bytes.len() as u32,
            captured_bytes: frame.len() as u32,
            wire_bytes: frame.len() as u32 + 5,
            link: LinkType::ETHERNET,
            ..PacketMeta::default()
        });
        bytes.extend_from_slice(frame);
    }
    Burst { block: Arc::new(Block::from(bytes)), packets, ..Burst::default() }
}

fn ring(segments: usize) -> Ring {
    static IDENTITY: AtomicU64 = AtomicU64::new(1);
    let identity = IDENTITY.fetch_add(1, Ordering::Relaxed);
    Ring::with_segments(segments, SEGMENT_BYTES, "weir-ring-test", identity).expect("some megabytes").0
}

/// The headers of the packets that [`frame`] makes; others have none.
fn headers(frames: &[(i64, Vec<u8>)]) -> Vec<Option<PacketHeaders>> {
    let pair = HeaderPair { version: IpVersion::V4, ip_at: 14, transport: Some((Transport::Tcp, 34)) };
    frames
        .iter()
        .map(|(_, frame)| (frame.len() >= 38).then_some(PacketHeaders { outer: pair, inner: None }))
        .collect()
}

fn write(writer: &mut Writer, frames: &[(i64, Vec<u8>)]) {
    writer.write(&burst(frames), &headers(frames));
}

fn writer(ring: &Ring, number: u32) -> Writer {
    Writer::new(ring, 0, number, Box::new(|_| vec![]))
}

/// The packets in the bytes of a pcapng file: their times and frames.
fn packets(file: &[u8]) -> Vec<(i64, Vec<u8>)> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four bytes"));
    let (mut at, mut packets, mut interfaces) = (0, vec![], 0);
    while at < file.len() {
        let (kind, total) = (word(at), word(at + 4) as usize);
        assert_eq!(word(at + total - 4) as usize, total, "both lengths of a block");
        match kind {
            1 => interfaces += 1,
            6 => {
                assert!(word(at + 8) < interfaces, "the interface is described before");
                let time = (u64::from(word(at + 12)) << 32 | u64::from(word(at + 16))) as i64;
                let captured = word(at + 20) as usize;
                assert_eq!(word(at + 24) as usize, captured + 5, "bytes on the wire");
                packets.push((time, file[at + 28..at + 28 + captured].to_vec()));
            }
            _ => {}
        }
        at += total;
    }
    packets
}

fn read(ring: Option<&Ring>, spool: Option<&PathBuf>, selection: &Arc<Selection>) -> Vec<(i64, Vec<u8>)> {
    let spool = spool.map(|directory| SpoolFiles::new(directory.clone()));
    let mut bytes = vec![];
    let mut reader = Reader::new(ring.cloned(), spool, false, Arc::clone(selection));
    reader.read_to_end(&mut bytes).expect("bytes");
    packets(&bytes)
}

fn read_all(ring: &Ring) -> Vec<(i64, Vec<u8>)> {
    read(Some(ring), None, &Arc::default())
}

#[test]
fn packets_come_back_byte_for_byte_while_the_segment_is_open() {
    let ring = ring(16);
    let mut writer = writer(&ring, 0);
    let written: Vec<_> = (0..30).map(|n| (1_000 + n, frame(1, n as u32, n as usize))).collect();
    for part in written.chunks(7) {
        write(&mut writer, part);
    }
    assert_eq!(read_all(&ring), written);
    drop(writer);
    assert_eq!(read_all(&ring), written);
    let counters = ring.counters();
    assert_eq!((counters.packets, counters.left), (30, 0));
}

#[test]
fn the_oldest_packets_leave() {
    let ring = ring(16);
    let mut writer = writer(&ring, 0);
    let written: Vec<_> = (0..2_000).map(|n| (n, frame(1, n as u32, 100))).collect();
    for part in written.chunks(10) {
        write(&mut writer, part);
    }
    let got = read_all(&ring);
    let left = ring.counters().left as usize;
    assert!(left > 0 && got.len() > 200, "{left} {}", got.len());
    assert_eq!(got, written[left..]);
}

#[test]
fn a_packet_that_is_too_long_is_counted() {
    let ring = ring(16);
    let mut writer = writer(&ring, 0);
    write(&mut writer, &[(1, frame(1, 1, 3000)), (2, frame(1, 2, 1)), (3, frame(1, 3, 1))]);
    write(&mut writer, &[(4, frame(1, 4, 0)), (5, vec![]), (6, vec![1, 2, 3])]);
    let times: Vec<i64> = read_all(&ring).iter().map(|(time, _)| *time).collect();
    assert_eq!((times, ring.counters().too_long), (vec![2, 3, 4, 5, 6], 1));
}

#[test]
fn packets_of_several_writers_are_in_the_order_of_time() {
    let ring = ring(32);
    let mut writers = [writer(&ring, 0), writer(&ring, 1), writer(&ring, 2)];
    let written: Vec<_> = (0..300).map(|n| (n, frame(n as u16, n as u32, 40))).collect();
    for (at, packet) in written.iter().enumerate() {
        write(&mut writers[at * 7 % 3], std::slice::from_ref(packet));
    }
    assert_eq!(read_all(&ring), written);
}

/// TCP from one of these ports.
fn terms(ports: &[u16]) -> HeaderTerms {
    let of = |port: &u16| HeaderPart {
        transport: Some(Transport::Tcp),
        source_port: Masked { value: u128::from(*port), mask: 0xffff },
        ..HeaderPart::default()
    };
    HeaderTerms { terms: vec![vec![ports.iter().map(of).collect()]], all_nested: false }
}

#[test]
fn the_index_finds_packets_of_flows_and_skips_segments() {
    let ring = ring(64);
    let mut writer = writer(&ring, 0);
    let arp = [vec![0; 12], vec![8, 6, 0, 1]].concat();
    let written: Vec<_> = (0..400)
        .map(|n| match n {
            17 => (n, arp.clone()),
            _ => (n, frame(if n < 200 { n as u16 % 5 } else { 9 }, n as u32, 60)),
        })
        .collect();
    written.chunks(3).for_each(|part| write(&mut writer, part));
    drop(writer);
    let selection = Arc::<Selection>::default();
    selection.narrow(Some(terms(&[3])));
    let got = read(Some(&ring), None, &selection);
    let expected: Vec<_> =
        written.iter().filter(|(n, _)| *n == 17 || *n < 200 && n % 5 == 3).cloned().collect();
    assert_eq!(got, expected);
    let (read_segments, skipped) = selection.segments();
    assert!(skipped > 5 && read_segments > 3, "{read_segments} {skipped}");
}

#[test]
fn times_select_packets() {
    let ring = ring(64);
    let mut writer = writer(&ring, 0);
    let written: Vec<_> = (0..400).map(|n| (n, frame(1, n as u32, 60))).collect();
    written.chunks(3).for_each(|part| write(&mut writer, part));
    let selection = Arc::new(Selection::of(TimeRange { first: 123, last: 321 }));
    let got = read(Some(&ring), None, &selection);
    assert_eq!(got, written[123..=321]);
    assert!(selection.segments().0 < 15, "only segments of these times are read");
}

fn directory(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("weir-ring-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    directory
}

fn spooler(ring: &Ring, directory: &Path, bytes_max: u64) -> (Spooler, Arc<SpoolCounters>) {
    let params = SpoolParams {
        directory: directory.to_path_buf(),
        rest: Retention { bytes_max, age_max: None },
        classes: vec![],
    };
    let counters = Arc::<SpoolCounters>::default();
    let note = Box::new(|note: String| panic!("{note}"));
    (Spooler::new(ring, params, Arc::clone(&counters), note).expect("a directory"), counters)
}

#[test]
fn what_left_the_ring_is_in_the_spool_and_nothing_comes_twice() {
    let (ring, directory) = (ring(16), directory("spool"));
    let (mut spooler, counters) = spooler(&ring, &directory, 1 << 30);
    let mut writer = writer(&ring, 0);
    let written: Vec<_> = (0..3_000).map(|n| (n, frame(n as u16 % 7, n as u32, 100))).collect();
    let once = AtomicBool::new(true);
    for part in written.chunks(20) {
        write(&mut writer, part);
        spooler.run(&once);
    }
    assert_eq!(read(Some(&ring), Some(&directory), &Arc::default()), written);
    let selection = Arc::new(Selection::of(TimeRange { first: 100, last: 2_000 }));
    selection.narrow(Some(terms(&[3])));
    let got = read(Some(&ring), Some(&directory), &selection);
    let expected: Vec<_> =
        written.iter().filter(|(n, _)| (100..=2_000).contains(n) && n % 7 == 3).cloned().collect();
    // Segments without index are read whole: the engine filters them.
    assert_eq!(got.into_iter().filter(|(n, _)| n % 7 == 3).collect::<Vec<_>>(), expected);
    drop(writer);
    spooler.run(&once);
    assert_eq!(ring.counters().unspooled, 0);
    assert_eq!(counters.packets.load(Ordering::Relaxed), 3_000);
    // The process is gone: its files remain.
    assert_eq!(read(None, Some(&directory), &Arc::default()), written);
    std::fs::remove_dir_all(&directory).expect("the files");
}

#[test]
fn the_spool_has_its_size_and_keeps_the_newest() {
    let (ring, directory) = (ring(16), directory("size"));
    let (mut spooler, counters) = spooler(&ring, &directory, 3 << 20);
    let mut writer = writer(&ring, 0);
    let once = AtomicBool::new(true);
    let written: Vec<_> = (0..12_000).map(|n| (n, frame(1, n as u32, 400))).collect();
    for part in written.chunks(20) {
        write(&mut writer, part);
        spooler.write_once();
    }
    drop(writer);
    spooler.run(&once);
    let bytes: u64 = std::fs::read_dir(&directory)
        .expect("the directory")
        .map(|entry| entry.and_then(|entry| entry.metadata()).map_or(0, |about| about.len()))
        .sum();
    assert!(bytes <= 3 << 20, "{bytes}");
    assert!(counters.removed.load(Ordering::Relaxed) > 0);
    let got = read(None, Some(&directory), &Arc::default());
    assert!(got.len() > 2_000 && got == written[written.len() - got.len()..], "{}", got.len());
    std::fs::remove_dir_all(&directory).expect("the files");
}

#[test]
fn segments_of_quiet_links_go_to_the_disk_and_take_little_room() {
    use std::os::unix::fs::MetadataExt;
    let identity = 4711;
    let ring = Ring::with_segments(16, 1 << 20, "weir-ring-test", identity).expect("some megabytes").0;
    let directory = directory("quiet");
    let (mut spooler, _) = spooler(&ring, &directory, 1 << 30);
    let mut writer = writer(&ring, 0).with_age_max(Duration::ZERO);
    let written: Vec<_> = (0..5).map(|n| (n, frame(1, n as u32, 100))).collect();
    for one in &written {
        write(&mut writer, std::slice::from_ref(one));
        spooler.write_once();
    }
    // The last segment is complete when the writer looks next, also without packets.
    write(&mut writer, &[]);
    spooler.write_once();
    let seen = read(None, Some(&directory), &Arc::default());
    assert_eq!(seen, written);
    let entries = std::fs::read_dir(&directory).expect("the directory").flatten();
    let abouts: Vec<_> = entries.filter_map(|entry| entry.metadata().ok()).collect();
    let [length, on_disk] =
        [|about: &std::fs::Metadata| about.len(), |about: &std::fs::Metadata| about.blocks() * 512]
            .map(|of| abouts.iter().map(of).sum::<u64>());
    assert!(length == 5 << 20 && on_disk <= length, "{on_disk} of {length}");
    // Not all file systems have holes.
    if on_disk < length {
        assert!(on_disk < 5 * (64 << 10), "{on_disk}");
    }
    std::fs::remove_dir_all(&directory).expect("the files");
}

#[test]
fn classes_have_bounds_and_files_of_their_own() {
    let (ring, directory) = (ring(32), directory("classes"));
    let retention = |bytes_max| Retention { bytes_max, age_max: None };
    let classes = vec![("kept".to_string(), retention(1 << 30)), ("short".to_string(), retention(2 << 20))];
    let params = SpoolParams { directory: directory.clone(), rest: retention(2 << 20), classes };
    let note = Box::new(|note: String| panic!("{note}"));
    let mut spooler = Spooler::new(&ring, params, Arc::default(), note).expect("a directory");
    let mut writers: Vec<_> =
        (0..3).map(|class| Writer::new(&ring, class, 0, Box::new(|_| vec![]))).collect();
    let written: Vec<_> = (0..24_000_i64).map(|n| (n, frame(1, n as u32, 400))).collect();
    for part in written.chunks(30) {
        let burst = burst(part);
        for (class, writer) in writers.iter_mut().enumerate() {
            writer.write_some(&burst, &headers(part), |index| part[index].0 as usize % 3 == class);
        }
        spooler.write_once();
    }
    writers.clear();
    spooler.run(&AtomicBool::new(true));
    // All of the class with room, and the newest of each other one; in the order of time.
    let got = read(None, Some(&directory), &Arc::default());
    assert!(got.is_sorted() && got.iter().all(|packet| written[packet.0 as usize] == *packet));
    let of = |class| got.iter().filter(move |packet| packet.0 % 3 == class);
    assert_eq!(of(1).count(), 8_000);
    for class in [0, 2] {
        let first = of(class).next().expect("packets").0;
        assert!(
            first > 1_000 && of(class).count() as i64 == (23_997 + class - first) / 3 + 1,
            "{class}: {first}"
        );
    }
    // A recorder without the class leaves its files alone, and they are read.
    drop(spooler);
    let params = SpoolParams { directory: directory.clone(), rest: retention(2 << 20), classes: vec![] };
    let other = Spooler::new(&ring, params, Arc::default(), Box::new(drop)).expect("a directory");
    let mut foreign = other.foreign();
    foreign.sort();
    assert_eq!(foreign, [directory.join("kept"), directory.join("short")]);
    std::fs::remove_dir_all(&directory).expect("the files");
}

#[test]
fn damaged_and_foreign_files_cost_no_packets_of_others() {
    let (ring, directory) = (ring(64), directory("damage"));
    let (mut spooler, _) = spooler(&ring, &directory, 1 << 30);
    let mut writer = writer(&ring, 0);
    let written: Vec<_> = (0..300).map(|n| (n, frame(1, n as u32, 100))).collect();
    written.chunks(20).for_each(|part| write(&mut writer, part));
    drop(writer);
    spooler.run(&AtomicBool::new(true));
    std::fs::write(directory.join("notes.weir.pcapng"), "not a capture").expect("a file");
    let file = std::fs::read_dir(&directory)
        .expect("the directory")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.metadata().is_ok_and(|about| about.len() > 1 << 12))
        .expect("a file");
    let whole = std::fs::read(&file).expect("bytes");
    // A power cut: the last segment is not whole.
    std::fs::write(&file, &whole[..whole.len() - 100]).expect("a file");
    let got = read(None, Some(&directory), &Arc::default());
    assert!(got.len() > 200 && got == written[..got.len()], "{}", got.len());
    // Any byte may be wrong.
    for at in (0..whole.len()).step_by(97) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        std::fs::write(&file, &damaged).expect("a file");
        let mut bytes = vec![];
        let selection = Arc::<Selection>::default();
        selection.narrow(Some(terms(&[1])));
        let spool = SpoolFiles::new(directory.clone());
        let mut reader = Reader::new(None, Some(spool), false, selection);
        let read = reader.read_to_end(&mut bytes);
        let mut got = vec![];
        let mut block = 0;
        while let Some(next) = crate::piece::Block::at(&bytes, block) {
            got.extend((next.time != i64::MIN).then_some(next.time));
            block = next.end;
        }
        assert_eq!(block, bytes.len(), "byte {at}: what is passed on is a pcapng file");
        // A segment has at most 25 of the packets. A wrong byte of a packet's data is not noticed.
        assert!(got.len() + 25 > written.len() - 25, "byte {at}: {} packets, {read:?}", got.len());
        assert!(got.len() + 25 >= written.len() || read.is_err(), "byte {at}: {} packets", got.len());
    }
    std::fs::remove_dir_all(&directory).expect("the files");
}

/// What `reader` has now.
fn more(reader: &mut Reader) -> Vec<(i64, Vec<u8>)> {
    let mut bytes = vec![];
    reader.read_to_end(&mut bytes).expect("bytes");
    reader.resume();
    packets(&bytes)
}

#[test]
fn what_a_reader_has_missed_is_in_the_spool_or_counted() {
    for has_spool in [true, false] {
        let (ring, directory) = (ring(16), directory(&format!("missed-{has_spool}")));
        let spool = has_spool.then(|| spooler(&ring, &directory, 1 << 30).0);
        let selection = Arc::<Selection>::default();
        let files = has_spool.then(|| SpoolFiles::new(directory.clone()));
        let mut reader = Reader::new(Some(ring.clone()), files, false, Arc::clone(&selection));
        let (mut writers, mut spool) = ([writer(&ring, 0), writer(&ring, 1)], spool);
        let (mut written, mut got, mut early) = (vec![], vec![], 0);
        for round in 0..5_i64 {
            for n in 0..700 {
                let number = round * 700 + n;
                let packet = (number, frame(1, number as u32, 100));
                write(&mut writers[(n % 3 == 0) as usize], std::slice::from_ref(&packet));
                written.push(packet);
                if n % 20 == 0 {
                    spool.iter_mut().for_each(Spooler::write_once);
                }
            }
            if round == 0 && !has_spool {
                // These left before the reader began.
                early = ring.counters().left as usize;
            }
            got.extend(more(&mut reader));
        }
        got.sort();
        let lost = written.len() - got.len() - early;
        assert_eq!(selection.lost(), lost as u64, "spool: {has_spool}");
        assert_eq!(lost == 0, has_spool, "{lost} lost");
        assert!(got.iter().all(|packet| written[packet.0 as usize] == *packet));
        assert!(got.windows(2).all(|two| two[0].0 < two[1].0), "nothing comes twice");
        let _ = std::fs::remove_dir_all(&directory);
    }
}

#[test]
fn the_file_that_is_written_is_not_removed() {
    let (ring, directory) = (ring(16), directory("age"));
    let params = SpoolParams {
        directory: directory.clone(),
        rest: Retention { bytes_max: 4 << 20, age_max: Some(Duration::from_millis(1)) },
        classes: vec![],
    };
    let note = Box::new(|note: String| panic!("{note}"));
    let mut spooler = Spooler::new(&ring, params, Arc::default(), note).expect("a directory");
    // A foreign file, which sorts behind all others.
    std::fs::write(directory.join("zz.weir.pcapng"), [0; 100]).expect("a file");
    let mut writer = writer(&ring, 0);
    let mut spooled = 0;
    for n in 0..6_i64 {
        let packets: Vec<_> = (0..40).map(|at| (n * 40 + at, frame(1, at as u32, 100))).collect();
        write(&mut writer, &packets);
        spooler.write_once();
        std::thread::sleep(Duration::from_millis(3));
        let readable = read(None, Some(&directory), &Arc::default()).len();
        assert!(readable >= spooled, "{readable} of {spooled}");
        spooled = readable;
    }
    assert!(spooled > 100, "{spooled}");
    assert!(directory.join("zz.weir.pcapng").exists(), "it is not the recorder's");
    assert!(
        Spooler::new(&ring, spooler.params().clone(), Arc::default(), Box::new(drop)).is_err(),
        "it is taken"
    );
    std::fs::remove_dir_all(&directory).expect("the files");
}

/// A reader that is overtaken loses whole packets, counts them, and never sees torn ones.
#[test]
fn readers_race_with_writers() {
    let (ring, ends) = (ring(24), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for number in 0..2 {
            let (ring, ends) = (&ring, &ends);
            scope.spawn(move || {
                let mut writer = writer(ring, number);
                let mut n = 0_u32;
                while !ends.load(Ordering::Relaxed) {
                    let fill = |n: u32| {
                        let mut bytes = frame(number as u16, n, 64 + (n % 90) as usize);
                        let length = bytes.len();
                        bytes[42..length].fill(n as u8);
                        (i64::from(n), bytes)
                    };
                    write(&mut writer, &[fill(n), fill(n + 1), fill(n + 2)]);
                    n += 3;
                }
            });
        }
        for _ in 0..60 {
            let selection = Arc::<Selection>::default();
            let got = read(Some(&ring), None, &selection);
            // Of each writer, there is no hole but what is counted.
            let holes: i64 = (0..2_u8)
                .map(|writer| {
                    let of = got.iter().filter(|(_, bytes)| bytes[35] == writer).map(|(time, _)| *time);
                    let times: Vec<i64> = of.collect();
                    times.windows(2).map(|two| two[1] - two[0] - 1).sum::<i64>()
                })
                .sum();
            assert!(holes as u64 <= selection.lost(), "{holes} {}", selection.lost());
            for (time, bytes) in got {
                let number = u32::from_be_bytes(bytes[38..42].try_into().expect("four bytes"));
                assert_eq!(i64::from(number), time);
                assert!(bytes[42..].iter().all(|byte| *byte == number as u8), "a torn packet");
            }
            std::thread::sleep(Duration::from_micros(300));
        }
        ends.store(true, Ordering::Relaxed);
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Every packet that has not left comes out once, in order, byte for byte, whatever writers, spool and
    /// readers do.
    #[test]
    fn every_packet_comes_out_once(steps in prop::collection::vec((0..4_u32, 1..40_usize, 0..900_usize), 1..80), case in any::<u32>()) {
        let (ring, directory) = (ring(16), directory(&format!("case-{case}")));
        let (mut spooler, _) = spooler(&ring, &directory, 1 << 30);
        let mut writers = [writer(&ring, 0), writer(&ring, 1), writer(&ring, 2)];
        let mut written = vec![];
        for (step, count, more) in steps {
            if step == 3 {
                spooler.write_once();
                continue;
            }
            let first = written.len();
            written.extend((first..first + count).map(|n| (n as i64, frame(step as u16, n as u32, more))));
            for packet in &written[first..] {
                write(&mut writers[step as usize], std::slice::from_ref(packet));
            }
        }
        let got = read(Some(&ring), Some(&directory), &Arc::default());
        let lost = ring.counters().unspooled as usize;
        prop_assert_eq!(got.len() + lost, written.len());
        prop_assert!(got.windows(2).all(|two| two[0].0 < two[1].0), "in order, once");
        prop_assert!(got.iter().all(|packet| written[packet.0 as usize] == *packet));
        let _ = std::fs::remove_dir_all(&directory);
    }
}

#[test]
fn a_follower_gets_packets_of_one_segment_in_parts() {
    let ring = ring(16);
    let mut writer = writer(&ring, 0);
    let mut reader = Reader::new(Some(ring.clone()), None, true, Arc::default());
    let (mut bytes, mut written) = (vec![], vec![]);
    for n in 0..200 {
        let packet = (n, frame(1, n as u32, 30));
        write(&mut writer, std::slice::from_ref(&packet));
        written.push(packet);
        let mut some = [0; 4096];
        while packets(&bytes).len() < written.len() {
            let count = reader.read(&mut some).expect("bytes");
            bytes.extend_from_slice(&some[..count]);
        }
    }
    assert_eq!(packets(&bytes), written);
}

#[test]
fn files_of_an_earlier_version_are_read_whole() {
    let (ring, directory) = (ring(64), directory("version"));
    let (mut spooler, _) = spooler(&ring, &directory, 1 << 30);
    let mut writer = writer(&ring, 0);
    let written: Vec<_> = (0..300).map(|n| (n, frame(n as u16 % 5, n as u32, 100))).collect();
    written.chunks(20).for_each(|part| write(&mut writer, part));
    drop(writer);
    spooler.run(&AtomicBool::new(true));
    let asked = || {
        let selection = Arc::<Selection>::default();
        selection.narrow(Some(terms(&[3])));
        read(None, Some(&directory), &selection)
    };
    assert_eq!(asked().len(), 60);
    for file in std::fs::read_dir(&directory).expect("the spool").flatten() {
        let mut bytes = std::fs::read(file.path()).expect("a file");
        let index = crate::block::INDEX.to_le_bytes();
        let blocks: Vec<usize> =
            (0..bytes.len()).step_by(8).filter(|at| bytes[*at..].starts_with(&index)).collect();
        blocks.iter().for_each(|at| bytes[at + 8] = 1);
        std::fs::write(file.path(), bytes).expect("room");
    }
    assert_eq!(asked(), written);
}

#[test]
fn a_packet_in_a_tunnel_is_found_by_both_of_its_headers() {
    let ring = ring(64);
    let mut writer = writer(&ring, 0);
    // GRE between two hosts, and inside TCP with ports of its own.
    let inner = |port: u16, number: u32| frame(port, number, 20)[14..].to_vec();
    let outer = frame(0, 0, 0)[..34].to_vec();
    let tunnelled = |port, number| [&outer[..], &[0, 0, 8, 0], &inner(port, number)].concat();
    let pair = |ip_at, transport_at: Option<u32>| HeaderPair {
        version: IpVersion::V4,
        ip_at,
        transport: transport_at.map(|at| (Transport::Tcp, at)),
    };
    let written: Vec<_> =
        (0..400).map(|n| (n, tunnelled(if n < 200 { n as u16 % 5 } else { 9 }, n as u32))).collect();
    let both = Some(PacketHeaders { outer: pair(14, None), inner: Some(pair(38, Some(58))) });
    written.chunks(3).for_each(|part| writer.write(&burst(part), &vec![both; part.len()]));
    drop(writer);
    let selected = |terms: HeaderTerms| {
        let selection = Arc::<Selection>::default();
        selection.narrow(Some(terms));
        (read(Some(&ring), None, &selection), selection.segments().1)
    };
    let (got, skipped) = selected(terms(&[3]));
    let expected: Vec<_> = written.iter().filter(|(n, _)| *n < 200 && n % 5 == 3).cloned().collect();
    assert_eq!(got, expected);
    assert!(skipped > 5, "{skipped}");
    // A filter may find the address in the outer header, and the port in the inner one.
    let both = |address: [u8; 4]| {
        let source = Masked { value: u32::from_be_bytes(address).into(), mask: u32::MAX.into() };
        let from = HeaderPart { version: Some(IpVersion::V4), source, ..HeaderPart::default() };
        let mut both = terms(&[3]);
        both.terms[0].push(vec![from]);
        both
    };
    assert_eq!(selected(both([10, 0, 0, 1])).0, expected);
    assert!(selected(both([10, 0, 0, 9])).0.is_empty());
    // A connection may have packets in other tunnels.
    let of_flows = HeaderTerms { all_nested: true, ..both([10, 0, 0, 9]) };
    assert_eq!(selected(of_flows).0, written);
}
