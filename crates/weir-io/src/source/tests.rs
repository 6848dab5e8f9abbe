//! Tests of the capture reader.

use super::capture::fuzz_reader;
use super::craft::*;
use super::*;
use Order::{Big, Little};
use proptest::prelude::*;
use std::io::{Cursor, Write};
use std::sync::atomic::AtomicU64;
use weir_packet::{LinkType, PacketMeta, SourceErrorKind, SourcePlace, Timestamp};

/// A packet with its bytes, for comparing.
type Seen = (PacketMeta, Vec<u8>);

/// The place of an error in a capture: packets before it, and its offset.
fn record_of(error: &SourceError) -> (u64, u64) {
    match error.place {
        SourcePlace::Capture { packets_before, offset_bytes, .. } => (packets_before, offset_bytes),
        SourcePlace::Interface { .. } => panic!("no capture: {error}"),
    }
}

/// Reads everything: packets (their offsets zeroed) and errors.
fn drain(mut source: CaptureReader) -> (Vec<Seen>, Vec<SourceError>, CaptureReader) {
    let (mut packets, mut errors, mut burst) = (Vec::new(), Vec::new(), Burst::default());
    loop {
        match source.poll(&mut burst) {
            Ok(Poll::End) => return (packets, errors, source),
            Ok(_) => packets.extend(
                burst
                    .packets
                    .iter()
                    .enumerate()
                    .map(|(i, &p)| (PacketMeta { offset: 0, ..p }, burst.data(i).to_vec())),
            ),
            Err(e) => errors.push(e),
        }
    }
}

fn reader(bytes: &[u8]) -> CaptureReader {
    CaptureReader::from_reader("test", Box::new(Cursor::new(bytes.to_vec())))
}

/// All packets of a capture without errors.
fn packets(bytes: &[u8]) -> Vec<Seen> {
    let (packets, errors, _) = drain(reader(bytes));
    assert_eq!(errors, []);
    packets
}

/// The only error of a capture, and the number of packets before it.
fn fault(bytes: &[u8]) -> (usize, SourceError) {
    let (packets, mut errors, _) = drain(reader(bytes));
    assert_eq!(errors.len(), 1, "{errors:?}");
    (packets.len(), errors.remove(0))
}

#[test]
fn pcap_is_read_in_both_orders_and_units() {
    for order in [Big, Little] {
        for (magic, ns) in [(0xa1b2_c3d4, 7_000), (0xa1b2_3c4d, 7)] {
            let mut file = pcap_header(order, magic, 101);
            file.extend(pcap_record(order, (3, 7), (2, 60), &[], b"ab"));
            file.extend(pcap_record(order, (u32::MAX, 0), (0, 0), &[], b""));
            let got = packets(&file);
            let expected = PacketMeta {
                time: Timestamp(3_000_000_000 + ns),
                number: 1,
                offset: 0,
                captured_bytes: 2,
                wire_bytes: 60,
                link: LinkType::RAW,
                interface: 0,
            };
            assert_eq!(got[0], (expected, b"ab".to_vec()));
            assert_eq!(got[1].0.time, Timestamp(4_294_967_295_000_000_000));
            assert_eq!(got.len(), 2);
        }
    }
}

#[test]
fn the_modified_dialect_has_longer_records_and_ixias_a_longer_header() {
    for order in [Big, Little] {
        let mut file = pcap_header(order, 0xa1b2_cd34, 1);
        file.extend(pcap_record(order, (1, 0), (3, 3), &[9; 8], b"abc"));
        file.extend(pcap_record(order, (2, 0), (1, 1), &[9; 8], b"d"));
        assert_eq!(packets(&file).iter().map(|p| &p.1[..]).collect::<Vec<_>>(), [&b"abc"[..], b"d"]);
        for (magic, ns) in [(0x1c00_01ac, 5), (0x1c00_01ab, 5_000)] {
            let mut file = pcap_header(order, magic, 1);
            file.extend([0; 4]);
            file.extend(pcap_record(order, (0, 5), (1, 1), &[], b"x"));
            assert_eq!(packets(&file)[0].0.time, Timestamp(ns));
        }
    }
}

#[test]
fn old_versions_have_the_lengths_the_other_way_round() {
    let file = |version, lengths| {
        let mut file = pcap_header_of(Little, 0xa1b2_c3d4, version, 96, 1);
        file.extend(pcap_record(Little, (1, 0), lengths, &[], b"abc"));
        let got = packets(&file);
        (got[0].0.captured_bytes, got[0].0.wire_bytes)
    };
    assert_eq!(file((2, 2), (60, 3)), (3, 60));
    assert_eq!(file((2, 3), (60, 3)), (3, 60), "2.3 may have either: the smaller is the captured");
    assert_eq!(file((2, 3), (3, 60)), (3, 60));
    assert_eq!(file((543, 0), (60, 3)), (3, 60), "DG/UX");
    assert_eq!(file((2, 4), (3, 60)), (3, 60));
    let (_, error) = fault(&pcap_header_of(Little, 0xa1b2_c3d4, (1, 0), 96, 1));
    assert_eq!(error.kind, SourceErrorKind::Unsupported);
}

#[test]
fn lies_of_the_file_are_tolerated() {
    let mut file = pcap_header_of(Little, 0xa1b2_c3d4, (2, 4), 2, 0x2400_0001);
    file.extend(pcap_record(Little, (1, 0), (5, 3), &[], b"abcde"));
    let (got, errors, source) = drain(reader(&file));
    assert_eq!(errors, []);
    assert_eq!((got[0].0.captured_bytes, got[0].0.wire_bytes), (5, 5), "beyond the snap length; wire raised");
    let interface = &source.interfaces()[0];
    assert_eq!(
        (interface.link, interface.fcs_bytes, interface.snaplen_bytes),
        (LinkType::ETHERNET, Some(4), 2)
    );
}

#[test]
fn a_hostile_length_is_an_error_and_no_allocation() {
    for length in [262_145, 0x7fff_ffff, u32::MAX] {
        let mut file = plain_pcap(&[4, 4]);
        file.extend(pcap_record(Little, (1, 0), (length, length), &[], b"abc"));
        let (before, error) = fault(&file);
        assert_eq!((before, error.kind), (2, SourceErrorKind::Corrupt));
        assert_eq!(record_of(&error), (2, 24 + 2 * 20));
    }
    // The snap length allows this packet, so the length is accepted, but memory grows only with the data that
    // arrives.
    let mut file = pcap_header_of(Little, 0xa1b2_c3d4, (2, 4), u32::MAX, 1);
    file.extend(pcap_record(Little, (1, 0), (60 << 20, 60 << 20), &[], b"abc"));
    let (_, errors, source) = drain(reader(&file));
    assert_eq!(errors[0].kind, SourceErrorKind::Truncated);
    let window = source.spare.as_ref().expect("the file is closed");
    let (headroom, block) = window.geometry();
    assert!(window.held_bytes() <= headroom + window::PAGE_BYTES + block);
}

#[test]
fn pcapng_has_sections_interfaces_and_units() {
    let mut file = section(Big);
    file.extend(interface(Big, 1, 0, &[(2, b"eth0"), (9, &[9]), (13, &[4])]));
    file.extend(interface(Big, 101, 0, &[(9, &[0x80 | 10]), (14, &Big.u64(100)), (0, &[])]));
    file.extend(enhanced(Big, 0, (1 << 32) + 5, (1, 60), b"a"));
    file.extend(enhanced(Big, 1, 512, (2, 2), b"bb"));
    file.extend(block(Big, 5, &[0; 12]));
    file.extend(block(Big, 0xbad, &[0; 4]));
    file.extend(section(Little));
    file.extend(interface(Little, 113, 0, &[(1, b"a comment"), (14, &Little.u64((-1i64) as u64))]));
    file.extend(enhanced(Little, 0, 3_000_000, (3, 3), b"ccc"));
    let (got, errors, source) = drain(reader(&file));
    assert_eq!(errors, []);
    let brief: Vec<_> = got
        .iter()
        .map(|(p, data)| (p.number, p.time.0, p.link.0, p.interface, p.wire_bytes, data.as_slice()))
        .collect();
    assert_eq!(
        brief,
        [
            (1, (1 << 32) + 5, 1, 0, 60, &b"a"[..]),
            (2, 100_500_000_000, 101, 1, 2, b"bb"),
            (3, 2_000_000_000, 113, 2, 3, b"ccc"),
        ]
    );
    assert_eq!(source.blocks_skipped(), 2);
    let first = &source.interfaces()[0];
    assert_eq!((first.name.as_str(), first.fcs_bytes), ("eth0", Some(4)));
    assert_eq!(first.resolution, TimeResolution::NANOSECONDS);
    assert_eq!(source.interfaces()[1].resolution, TimeResolution::Binary(10));
}

#[test]
fn the_two_other_packet_blocks_are_read_too() {
    let mut file = section(Little);
    file.extend(interface(Little, 1, 3, &[]));
    file.extend(enhanced(Little, 0, 7, (1, 1), b"a"));
    let mut simple = Little.u32(6).to_vec();
    simple.extend(b"bcd");
    file.extend(block(Little, 3, &simple));
    let mut old = [Little.u16(0), Little.u16(9)].concat();
    for word in [0, 8, 2, 5] {
        old.extend(Little.u32(word));
    }
    old.extend(b"ef");
    file.extend(block(Little, 2, &old));
    let brief: Vec<_> = packets(&file).into_iter().map(|(p, data)| (p.time.0, p.wire_bytes, data)).collect();
    assert_eq!(
        brief,
        [
            (7_000, 1, b"a".to_vec()),
            (7_000, 6, b"bcd".to_vec()), // no time of its own; cut by the interface's snap length
            (8_000, 5, b"ef".to_vec()),
        ]
    );
}

#[test]
fn faults_of_pcapng_are_told_apart() {
    use SourceErrorKind::{Corrupt, Truncated, Unsupported};
    let good = plain_pcapng(Little, &[4]);
    let mut two_lengths = enhanced(Little, 0, 0, (4, 4), b"abcd");
    let last = two_lengths.len() - 4;
    two_lengths[last] += 4;
    let length = |total: u32| [Little.u32(6), Little.u32(total)].concat();
    for (tail, kind, words) in [
        (two_lengths, Corrupt, "two lengths, 36 before and 40"),
        ([length(8), vec![0; 8]].concat(), Corrupt, "too short for any block"),
        ([length(37), vec![0; 40]].concat(), Corrupt, "no multiple of 4"),
        ([length(0x7fff_fffc), vec![0; 40]].concat(), Corrupt, "more than any block"),
        ([length(400), vec![0; 40]].concat(), Truncated, "48 bytes of 400"),
        (enhanced(Little, 1, 0, (4, 4), b"abcd"), Corrupt, "interface 1"),
        (enhanced(Little, 0, 0, (5, 5), b"abcd"), Corrupt, "room for 4"),
        (block(Little, 6, &[0; 8]), Corrupt, "only 20 bytes"),
        (section_of(Little, (1, 1)), Unsupported, "version 1.1"),
        (block(Little, 0x0a0d_0d0a, &[0; 16]), Corrupt, "byte-order"),
        (
            interface(Little, 1, 0, &[]).tap(|b| drop(b.splice(16..16, [2, 0, 9, 0, 1, 1, 1, 1]))),
            Corrupt,
            "option",
        ),
    ] {
        let (before, error) = fault(&[&good[..], &tail].concat());
        assert_eq!((before, error.kind), (1, kind), "{error}");
        assert_eq!(record_of(&error), (1, good.len() as u64), "{error}");
        assert!(error.message.contains(words), "{error}");
    }
}

/// Changes a block's body and corrects both its lengths.
trait Tap {
    fn tap(self, change: impl FnOnce(&mut Vec<u8>)) -> Self;
}

impl Tap for Vec<u8> {
    fn tap(mut self, change: impl FnOnce(&mut Vec<u8>)) -> Self {
        change(&mut self);
        let (total, end) = (Little.u32(self.len() as u32), self.len() - 4);
        self[4..8].copy_from_slice(&total);
        self[end..].copy_from_slice(&total);
        self
    }
}

#[test]
fn cut_at_any_byte_what_came_before_is_delivered() {
    let (pcap, pcapng) = (plain_pcap(&[3, 0, 40]), plain_pcapng(Big, &[3, 0, 40]));
    for whole in [pcap, pcapng] {
        let all = packets(&whole);
        for cut in 0..whole.len() {
            for block_bytes in [64, 1 << 20] {
                let (got, errors, _) = drain(reader(&whole[..cut]).with_block_bytes(block_bytes));
                assert_eq!(got, all[..got.len()], "cut at {cut}");
                assert!(errors.len() <= 1 && got.len() < all.len(), "cut at {cut}");
                if let [error] = errors.as_slice() {
                    let (packets_before, offset_bytes) = record_of(error);
                    assert_eq!(packets_before, got.len() as u64);
                    assert!(offset_bytes <= cut as u64);
                    assert!(cut < 4 || error.kind == SourceErrorKind::Truncated, "cut at {cut}: {error}");
                } else {
                    // A clean end: directly after a record.
                    assert!(cut >= 24);
                }
            }
        }
    }
}

#[test]
fn blocks_of_any_size_give_the_same_packets() {
    let lengths: Vec<usize> =
        (0..300).map(|i| (i * 37) % 900).chain([5_000, 70_000, 1, 200_000, 2]).collect();
    for whole in [plain_pcap(&lengths), plain_pcapng(Little, &lengths)] {
        let all = packets(&whole);
        assert_eq!(all.len(), lengths.len());
        for block_bytes in [64, 100, 1_000, 4_096, 65_536] {
            let (got, errors, _) = drain(reader(&whole).with_block_bytes(block_bytes));
            assert_eq!(errors, []);
            assert!(got == all, "blocks of {block_bytes} bytes");
        }
    }
}

/// Returns a few bytes at a time, and is interrupted from time to time.
struct Dribble(Cursor<Vec<u8>>, usize);

impl Read for Dribble {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.1 += 1;
        if self.1.is_multiple_of(5) {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        let few = out.len().min(1 + self.1 % 7);
        self.0.read(&mut out[..few])
    }
}

#[test]
fn a_slow_pipe_gives_the_same_packets() {
    let whole = plain_pcap(&[10, 600, 0, 3_000]);
    let dribble = Dribble(Cursor::new(whole.clone()), 0);
    let (got, errors, _) = drain(CaptureReader::from_reader("pipe", Box::new(dribble)));
    assert_eq!((got, errors), (packets(&whole), vec![]));
}

#[test]
fn bursts_that_are_kept_keep_their_bytes() {
    let whole = plain_pcap(&vec![100; 1_000]);
    let mut source = reader(&whole).with_block_bytes(1_000);
    let (mut kept, mut burst) = (Vec::new(), Burst::default());
    while source.poll(&mut burst).unwrap() != Poll::End {
        kept.push(burst.clone());
    }
    let data: Vec<_> = kept.iter().flat_map(|b| (0..b.packets.len()).map(|i| b.data(i).to_vec())).collect();
    assert!(data.iter().eq(packets(&whole).iter().map(|p| &p.1)));
}

fn compress(bytes: &[u8]) -> [(&'static str, Vec<u8>); 3] {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(bytes).unwrap();
    [
        ("gzip", gzip.finish().unwrap()),
        ("zstd", zstd::encode_all(bytes, 1).unwrap()),
        ("lz4", lz4.finish().unwrap()),
    ]
}

#[test]
fn compressed_captures_are_told_by_their_magic() {
    let whole = plain_pcap(&vec![333; 5_000]);
    let all = packets(&whole);
    let (head, tail) = whole.split_at(777_777);
    for ((name, head), (_, tail)) in compress(head).into_iter().zip(compress(tail)) {
        for block_bytes in [128, 1 << 20] {
            let members = [&head[..], &tail].concat();
            let (got, errors, source) = drain(reader(&members).with_block_bytes(block_bytes));
            assert_eq!(errors, [], "{name}");
            assert!(got == all, "{name}: several members, blocks of {block_bytes}");
            assert_eq!(source.progress().0, members.len() as u64);
        }
    }
}

/// The second header, and the zeros, lie at any place of a block.
#[test]
fn joined_captures_and_zeros_are_found_at_the_ends_of_blocks() {
    let (first, second) = (plain_pcap(&[7, 0, 40, 0]), plain_pcap(&[0, 9]));
    let joined = [&first[..], &second].concat();
    let filled = [&first[..], &[0; 100]].concat();
    for block_bytes in 64..300 {
        let (got, errors, source) = drain(reader(&joined).with_block_bytes(block_bytes));
        assert_eq!((got.len(), errors.len()), (6, 0), "blocks of {block_bytes}");
        assert_eq!(source.counted().captures_joined, 1);
        let (got, errors, _) = drain(reader(&filled).with_block_bytes(block_bytes));
        assert_eq!((got.len(), errors.len()), (4, 1), "blocks of {block_bytes}");
    }
}

#[test]
fn frames_to_be_skipped_say_nothing() {
    let whole = plain_pcap(&vec![333; 50]);
    let all = packets(&whole);
    let (head, tail) = whole.split_at(7_777);
    for ((name, head), (_, tail)) in compress(head).into_iter().zip(compress(tail)).skip(1) {
        let skipped = |bytes: usize| {
            [&[0x53, 0x2a, 0x4d, 0x18][..], &(bytes as u32).to_le_bytes(), &vec![7; bytes]].concat()
        };
        for bytes in [0, 5, 300_000] {
            let between = [&head[..], &skipped(bytes), &skipped(3), &tail, &skipped(bytes)].concat();
            assert!(packets(&between) == all, "{name}: {bytes} bytes");
        }
        let (got, error) = fault(&[&head[..], &tail, &skipped(20)[..15]].concat());
        assert_eq!((got, error.kind), (50, SourceErrorKind::Truncated), "{name}");
    }
}

#[test]
fn compressed_captures_that_are_cut_or_damaged_give_what_is_there() {
    let whole = plain_pcap(&vec![333; 5_000]);
    let all = packets(&whole);
    for (name, data) in compress(&whole) {
        for cut in [5, data.len() / 2, data.len() - 5, data.len() - 1] {
            let (got, errors, _) = drain(reader(&data[..cut]));
            assert!(got == all[..got.len()], "{name} cut at {cut}");
            assert_eq!(errors.len(), 1, "{name} cut at {cut} of {}", data.len());
            assert_eq!(errors[0].kind, SourceErrorKind::Truncated, "{name} cut at {cut}: {}", errors[0]);
        }
        let mut damaged = data.clone();
        let middle = data.len() / 2;
        damaged[middle..middle + 40].fill(0xff);
        let (_, errors, _) = drain(reader(&damaged));
        assert_eq!(errors.len(), 1, "{name}");
    }
}

#[test]
fn zeros_behind_gzip_are_passed_over_and_anything_else_is_said() {
    let plain = plain_pcap(&[7, 800, 90]);
    let (head, tail) = plain.split_at(300);
    let [gzip_head, gzip_tail] = [head, tail].map(|part| compress(part)[0].1.clone());
    let members = [&gzip_head[..], &gzip_tail].concat();
    for zeros in [0, 1, 9, 10_240, 300_000] {
        let zeros = vec![0; zeros];
        assert_eq!(packets(&[&members[..], &zeros].concat()), packets(&plain), "{} zeros", zeros.len());
        let between = [&gzip_head[..], &zeros, &gzip_tail].concat();
        assert_eq!(packets(&between), packets(&plain), "{} zeros between members", zeros.len());
        for garbage in
            [&b"garbage"[..], b"\x1f", b"\x1fgarbage and more of it", b"\x1f\x8b\x07not deflated at all"]
        {
            let (got, error) = fault(&[&members[..], &zeros, garbage].concat());
            assert_eq!(got, 3, "what stands before it is delivered");
            let is_cut = error.kind == SourceErrorKind::Truncated && garbage.len() == 1;
            assert!(is_cut || error.message.contains("not gzip data"), "{garbage:?}: {error}");
        }
    }
    let (_, damaged) = fault(&[&gzip_head[..], &gzip_tail[..gzip_tail.len() - 8], &[9; 8]].concat());
    assert!(damaged.message.contains("damaged"), "a checksum that is wrong is no garbage: {damaged}");
}

#[test]
fn a_reader_may_go_to_another_thread() {
    let source = reader(&plain_pcap(&[4]));
    assert_eq!(std::thread::spawn(move || drain(source).0.len()).join().unwrap(), 1);
}

#[test]
fn a_reader_dropped_early_lets_its_thread_go() {
    for (_, data) in compress(&plain_pcap(&vec![1_000; 20_000])) {
        let mut source = reader(&data).with_block_bytes(64 << 10);
        assert_eq!(source.poll(&mut Burst::default()).unwrap(), Poll::Packets);
    }
}

#[test]
fn what_is_no_capture_is_told_with_a_remedy() {
    use SourceErrorKind::{NotACapture, Unsupported};
    for (bytes, kind, words) in [
        (&b""[..], NotACapture, "empty"),
        (b"ab", NotACapture, "2 bytes long"),
        (b"hello, world", NotACapture, "0x68656c6c"),
        (b"snoop\0\0\0\0\0\0\x02", Unsupported, "editcap"),
        (b"\xfd7zXZ\0", Unsupported, "xz -dc"),
    ] {
        let (_, error) = fault(bytes);
        assert_eq!(error.kind, kind);
        assert!(error.to_string().starts_with("test: ") && error.message.contains(words), "{error}");
    }
    for (_, data) in compress(b"") {
        assert!(fault(&data).1.message.contains("empty"));
    }
}

#[test]
fn files_that_cant_be_read_are_named_and_the_next_is_read() {
    let dir = std::env::temp_dir().join(format!("weir-io-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (one, two, none) = (dir.join("one.pcap"), dir.join("two"), dir.join("none"));
    let mut cut = plain_pcap(&[4, 4]);
    cut.pop();
    std::fs::write(&one, &cut).unwrap();
    std::fs::write(&two, plain_pcapng(Big, &[9])).unwrap();
    let (got, errors, source) = drain(CaptureReader::open(&[&dir, &one, &none, &two]));
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(
        got.iter().map(|(p, d)| (p.number, p.interface, d.len())).collect::<Vec<_>>(),
        [(1, 0, 4), (2, 1, 9)]
    );
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert!(texts[0].contains("is a directory") && texts[0].starts_with(dir.to_str().unwrap()), "{texts:?}");
    assert!(texts[1].ends_with("none: no such file"), "{texts:?}");
    assert!(texts[2].contains("one.pcap: after packet 1, byte 44: the file ends inside"), "{texts:?}");
    let total = (cut.len() + plain_pcapng(Big, &[9]).len()) as u64;
    assert_eq!(source.progress(), (total, Some(total)));
    assert_eq!(&*source.interfaces()[1].file, two.to_str().unwrap());
}

/// Reads files of these packets (second, byte) as one source, in blocks of this size. Returns the packets,
/// and the number of bursts.
fn merged(files: &[&[(u32, u8)]], block_bytes: usize) -> (Vec<(i64, u8, u16)>, usize, CaptureReader) {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("weir-io-merge-{}-{run}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let write = |(index, packets): (usize, &&[(u32, u8)])| {
        let mut file = pcap_header(Little, 0xa1b2_c3d4, 1);
        for (second, byte) in *packets {
            file.extend(pcap_record(Little, (*second, 0), (1, 1), &[], &[*byte]));
        }
        let path = dir.join(index.to_string());
        std::fs::write(&path, file).unwrap();
        path
    };
    let paths: Vec<_> = files.iter().enumerate().map(write).collect();
    let mut source = CaptureReader::open(&paths).with_block_bytes(block_bytes);
    let (mut got, mut bursts, mut burst, mut number) = (vec![], 0, Burst::default(), 0);
    while source.poll(&mut burst).expect("whole files") != Poll::End {
        bursts += 1;
        for (index, packet) in burst.packets.iter().enumerate() {
            number += 1;
            assert_eq!(packet.number, number, "as they are handed out");
            got.push((packet.time.0 / 1_000_000_000, burst.data(index)[0], packet.interface));
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(source.packets(), number);
    (got, bursts, source)
}

#[test]
fn files_that_overlap_in_time_are_merged_and_those_that_do_not_are_put_in_order() {
    let times = |files: &[&[(u32, u8)]]| {
        let (got, bursts, _) = merged(files, 1 << 20);
        (got.iter().map(|(_, byte, _)| *byte as char).collect::<String>(), bursts)
    };
    let (a, b): (&[_], &[_]) =
        (&[(1, b'a'), (3, b'b'), (3, b'c'), (7, b'd')], &[(2, b'A'), (3, b'B'), (9, b'C')]);
    assert_eq!(times(&[a, b]), ("aAbcBdC".into(), 6), "of two at the same time the first file's is first");
    assert_eq!(times(&[b, a]), ("aABbcdC".into(), 4));
    let later: &[_] = &[(20, b'x'), (21, b'y')];
    assert_eq!(times(&[later, a]), ("abcdxy".into(), 2), "named in the wrong order");
    assert_eq!(times(&[later, &[], a]), ("abcdxy".into(), 2), "one without packets");
    assert_eq!(
        times(&[&[(5, b'1'), (2, b'2')], &[(4, b'3')]]),
        ("312".into(), 2),
        "a file's own order stays"
    );
}

#[test]
fn merged_packets_keep_their_bytes_in_blocks_of_any_size() {
    let count = 500u32;
    let files: Vec<Vec<_>> = (0..3u32)
        .map(|k| (0..count).map(|i| (i * 7 % 5 + i * 3 + k, (i % 83) as u8 * 3 + k as u8)).collect())
        .collect();
    let refs: Vec<&[_]> = files.iter().map(Vec::as_slice).collect();
    let whole = merged(&refs, 1 << 20).0;
    assert_eq!(whole.len(), 3 * count as usize);
    for block_bytes in [64, 100, 4096] {
        assert_eq!(merged(&refs, block_bytes).0, whole, "{block_bytes}");
    }
    for (place, file) in files.iter().enumerate() {
        let bytes: Vec<u8> = whole.iter().filter(|p| usize::from(p.2) == place).map(|p| p.1).collect();
        assert_eq!(bytes, file.iter().map(|p| p.1).collect::<Vec<_>>(), "file {place} in its own order");
    }
}

#[test]
fn more_files_than_may_be_open_come_late_and_are_counted() {
    let wide: &[(u32, u8)] = &[(1, b'a'), (9, b'b')];
    let (got, _, source) = merged(&[wide; OPEN_MAX], 64);
    assert_eq!((got.len(), source.files_late()), (2 * OPEN_MAX, 0));
    assert!(got.is_sorted_by_key(|p| p.0));
    let (got, _, source) = merged(&[wide; OPEN_MAX + 3], 64);
    assert_eq!((got.len(), source.files_late()), (2 * OPEN_MAX + 6, 3), "all are read");
}

#[test]
fn errors_of_reading_come_after_what_was_read() {
    struct Fails(Cursor<Vec<u8>>);
    impl Read for Fails {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(out)? {
                0 => Err(std::io::Error::from_raw_os_error(5)),
                n => Ok(n),
            }
        }
    }
    let whole = plain_pcap(&[4; 3]);
    let (got, errors, _) = drain(CaptureReader::from_reader("disk", Box::new(Fails(Cursor::new(whole)))));
    assert_eq!((got.len(), errors.len(), errors[0].kind), (3, 1, SourceErrorKind::Io));
    let [_, (_, zstd), _] = compress(&plain_pcap(&[4; 3]));
    let (_, errors, _) = drain(CaptureReader::from_reader("disk", Box::new(Fails(Cursor::new(zstd)))));
    assert_eq!(errors[0].kind, SourceErrorKind::Io, "the file's error, not the data's: {}", errors[0]);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        fuzz_reader(&bytes);
    }

    #[test]
    fn arbitrary_bytes_behind_a_header_never_panic(
        which in 0..7usize,
        bytes in proptest::collection::vec(prop_oneof![Just(0u8), 0..40u8, any::<u8>()], 0..600),
    ) {
        let mut file = match which {
            0 => pcap_header(Little, 0xa1b2_c3d4, 1),
            1 => pcap_header(Big, 0xa1b2_cd34, 1),
            2 => pcap_header_of(Big, 0x1c00_01ab, (2, 3), 0, 1),
            3 => section(Big),
            4 => plain_pcapng(Little, &[3]),
            5 => vec![0x1f, 0x8b, 8],
            _ => vec![0x04, 0x22, 0x4d, 0x18],
        };
        file.extend(bytes);
        fuzz_reader(&file);
    }

    #[test]
    fn a_changed_byte_never_panics(
        at in any::<proptest::sample::Index>(),
        value in any::<u8>(),
        which in 0..5usize,
    ) {
        let plain = plain_pcap(&[1, 20, 300]);
        let mut file = match which {
            0 => plain,
            1 => plain_pcapng(Big, &[1, 20, 300]),
            n => compress(&plain)[n - 2].1.clone(),
        };
        let at = at.index(file.len());
        file[at] = value;
        fuzz_reader(&file);
    }
}

#[test]
fn a_file_that_expands_a_thousandfold_is_read_in_part_and_reported() {
    let mut bytes = plain_pcap(&[]);
    let record = [&[0; 8][..], &65_535_u32.to_le_bytes(), &65_535_u32.to_le_bytes(), &[0; 65_535]].concat();
    let packets = (200 << 20) / record.len();
    (0..packets).for_each(|_| bytes.extend_from_slice(&record));
    let bomb = zstd::encode_all(&bytes[..], 1).expect("it is compressed");
    assert!(bomb.len() * 1_000 < bytes.len() / 2);
    let (read, errors, _) = drain(CaptureReader::from_reader("bomb", Box::new(Cursor::new(bomb))));
    assert!((1_000..packets).contains(&read.len()), "{} of {packets}", read.len());
    assert!(errors.iter().any(|error| error.to_string().contains("decompression bomb")), "{errors:?}");
}
