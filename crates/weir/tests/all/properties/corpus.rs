//! Replays the seeds of fuzzers, and inputs that once failed: `corpus/TARGET/*`.
//!
//! `WEIR_BLESS=1` rewrites the seeds, from our own texts and the capture in `examples/`. Files with other
//! names (found by a fuzzer, and named after the fault) are kept.

use crate::properties::drive::{FIRST_LIGHT, MemoryPacket, read_capture};
use std::fs;
use std::path::PathBuf;
use weir::Compiler;
use weir::io::udp::wire::{Header, Record};
use weir::packet::{LinkType, Timestamp};
use weir_testing::Random;
use weir_testing::filters::filter;
use weir_testing::frames;

fn folder(target: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus")).join(target)
}

/// Runs `one` on every file of the target, sorted by name.
fn replay(target: &str, one: fn(&[u8])) {
    if std::env::var_os("WEIR_BLESS").is_some() {
        for (name, bytes) in beginnings(target) {
            fs::create_dir_all(folder(target)).unwrap();
            fs::write(folder(target).join(name), bytes).unwrap();
        }
    }
    let mut paths: Vec<PathBuf> = fs::read_dir(folder(target)).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        println!("{}", path.file_name().unwrap().to_string_lossy());
        one(&fs::read(&path).unwrap());
    }
}

#[test]
fn readers_take_any_bytes() {
    replay("reader", weir_testing::capture::fuzz_reader);
}

#[test]
fn receivers_take_any_datagrams() {
    replay("datagrams", weir_testing::datagrams::fuzz_datagrams);
}

#[test]
fn the_language_takes_any_text() {
    replay("lang", weir_testing::language::fuzz_lang);
}

#[test]
fn filters_take_any_text() {
    replay("filter", weir_testing::language::fuzz_filter);
}

#[test]
fn a_keeper_takes_any_instructions() {
    replay("part", weir_testing::engines::fuzz_part);
}

#[test]
fn programs_agree_on_any_packets() {
    replay("program", weir_testing::engines::fuzz_program);
}

#[test]
fn engines_agree_on_any_text() {
    replay("text", weir_testing::engines::fuzz_text);
}

#[test]
fn tls_takes_any_bytes() {
    replay("tls", |bytes| weir_testing::conversation::fuzz_session(&weir_sessions::tls::PROTOCOL, bytes));
}

/// Minimum number of seeds in a folder. `cargo xtask fuzz --distill` tells which inputs reach other code.
const SEEDS_MIN: usize = 20;

/// A fuzzer ignores what a seed has beyond (`LENGTH` in `xtask/src/fuzz/libfuzzer.rs`).
const SEED_BYTES_MAX: usize = 8192;

#[test]
fn every_folder_has_seeds_and_no_two_are_equal() {
    let mut faults = vec![];
    for entry in fs::read_dir(folder("")).unwrap() {
        let target = entry.unwrap().file_name().into_string().unwrap();
        let files = fs::read_dir(folder(&target)).unwrap().map(|file| file.unwrap().path());
        let mut seeds: Vec<(Vec<u8>, PathBuf)> = files.map(|file| (fs::read(&file).unwrap(), file)).collect();
        if seeds.len() < SEEDS_MIN {
            faults.push(format!("{target} has {} seeds", seeds.len()));
        }
        seeds.sort();
        let twins = seeds.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        faults.extend(twins.map(|pair| format!("{} equals {}", pair[0].1.display(), pair[1].1.display())));
        let long = seeds.iter().filter(|(bytes, _)| bytes.len() > SEED_BYTES_MAX);
        faults.extend(long.map(|(bytes, file)| format!("{} has {} bytes", file.display(), bytes.len())));
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

type Named = (String, Vec<u8>);

fn beginnings(target: &str) -> Vec<Named> {
    let mut random = Random::new(1);
    match target {
        "reader" => captures(),
        "lang" => texts(),
        "filter" => {
            let compiler = Compiler::default();
            let catalog = compiler.catalog();
            let text =
                |n: u64| (format!("filter-{n:02}"), filter(&mut random, catalog, n as u32 % 4).into_bytes());
            let mut list: Vec<Named> = (0..24).map(text).collect();
            let bpf = [
                "tcp port 443 and host 192.0.2.10",
                "not (src net 10.0.0.0/8 or vlan 42)",
                "tcp[tcpflags] & (tcp-syn|tcp-ack) == tcp-syn",
                "portrange 20-1024 and less 100",
            ];
            list.extend(
                bpf.iter().enumerate().map(|(n, text)| (format!("bpf-{n}"), text.as_bytes().to_vec())),
            );
            list
        }
        "datagrams" => datagrams(&mut random),
        "program" => programs(&mut random),
        "text" => choices(&mut random),
        "part" => parts(&mut random),
        _ => handshakes(),
    }
}

/// Parts of filters: lookups and loops, with some instructions replaced by others of the language.
fn parts(random: &mut Random) -> Vec<Named> {
    let one = |code: u8, registers: u8, offset: i16, number: i32| {
        let mut bytes = vec![code, registers];
        bytes.extend(offset.to_le_bytes());
        bytes.extend(number.to_le_bytes());
        bytes
    };
    let lookup = [
        one(0x71, 0x72, 12, 0),
        one(0x55, 0x02, 8, 8),
        one(0xbf, 0x73, 0, 0),
        one(0x0f, 0x23, 0, 0),
        one(0x7b, 0x2a, -16, 0),
        one(0x18, 0x11, 0, -1),
        one(0, 0, 0, 0),
        one(0xbf, 0xa2, 0, 0),
        one(0x07, 0x02, 0, -16),
        one(0x85, 0, 0, 1),
        one(0xb7, 0, 0, 1),
    ];
    let round = [one(0xb7, 3, 0, 5), one(0xbf, 0x30, 0, 0), one(0xb7, 3, 0, 6), one(0x15, 6, -3, 60)];
    let others = [
        one(0x85, 0, 0, 5),
        one(0xdb, 0x20, 8, 0),
        one(0x79, 0xa1, -16, 0),
        one(0x2d, 0x87, 2, 0),
        one(0xdc, 2, 0, 16),
        one(0x57, 2, 0, 1),
        one(0x05, 0, 1, 0),
    ];
    let mut seed = |number: u64| {
        let mut all = if number.is_multiple_of(3) { round.to_vec() } else { lookup.to_vec() };
        for _ in 0..number % 5 {
            let at = random.below(all.len() as u64) as usize;
            all[at] = others[random.below(others.len() as u64) as usize].clone();
        }
        all.push(one(0xb7, 0, 0, number as i32 % 3));
        (format!("part-{number:02}"), all.concat())
    };
    (0..24).map(&mut seed).collect()
}

/// Datagrams of two streams and of TZSP, in an order that differs from seed to seed.
fn datagrams(random: &mut Random) -> Vec<Named> {
    let record = |frame: &[u8], captured_bytes| {
        let (time, wire_bytes, link) = (Timestamp(7), 9, LinkType::ETHERNET);
        [&Record { time, captured_bytes, wire_bytes, link }.emit()[..], frame].concat()
    };
    let header = |packets, stream, continued, sequence, packets_before| {
        let is_end = packets == 0;
        let instance = 0;
        Header { is_end, packets, stream, instance, continued, sequence, packets_before }.emit().to_vec()
    };
    let mut all = vec![];
    for stream in [1, 2] {
        // The second packet continues in the next datagram.
        all.push([header(2, stream, 0, 0, 0), record(b"one", 3), record(b"abc", 10)].concat());
        all.push([header(1, stream, 7, 1, 2), b"defghij".to_vec(), record(b"three", 5)].concat());
        all.push(header(0, stream, 0, 2, 3));
    }
    all.push([header(3, 1, 0, 3, 3), record(b"x", 300_000), record(b"", 0), record(b"", 0)].concat());
    all.push([header(0, 1, 90, u64::MAX, u64::MAX), vec![0; 90]].concat());
    all.push([&[1, 0, 0, 1, 0, 10, 1, 200, 40, 4, 0, 0, 0, 5, 41, 2, 5, 220, 1][..], b"frame"].concat());
    all.push([&[1, 0, 0, 18, 40, 4, 0, 0, 0, 9, 1][..], b"radio"].concat());
    all.push(vec![1, 4, 0, 0]);
    let seed = |n| {
        let length = 2 + n % 10;
        let picked = (0..length).map(|_| random.pick(&all));
        let bytes = picked.flat_map(|one| [&(one.len() as u16).to_be_bytes()[..], &one].concat()).collect();
        (format!("datagrams-{n:02}"), bytes)
    };
    (0..24).map(seed).collect()
}

/// The first frames of the capture in every supported format.
fn captures() -> Vec<Named> {
    let packets = &read_capture(FIRST_LIGHT)[..6];
    let mut list = vec![];
    for (name, magic, big) in [
        ("pcap-micro", 0xa1b2_c3d4_u32, false),
        ("pcap-nano", 0xa1b2_3c4d, false),
        ("pcap-micro-big", 0xa1b2_c3d4, true),
        ("pcap-nano-big", 0xa1b2_3c4d, true),
    ] {
        let word = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
        let half = |n: u16| if big { n.to_be_bytes() } else { n.to_le_bytes() };
        let mut file = word(magic).to_vec();
        file.extend([half(2), half(4)].concat());
        file.extend([word(0), word(0), word(65_535), word(1)].concat());
        for (n, packet) in packets.iter().enumerate() {
            let length = packet.frame.len() as u32;
            file.extend([word(1_700_000_000), word(n as u32), word(length), word(length)].concat());
            file.extend(&packet.frame);
        }
        let cut = file[..file.len() - 9].to_vec();
        list.push((name.to_string(), file));
        list.push((format!("{name}-cut"), cut));
    }
    let block = |kind: u32, body: &[u8]| {
        let padding = vec![0; (4 - body.len() % 4) % 4];
        let total = (12 + body.len() + padding.len()) as u32;
        [&kind.to_le_bytes(), &total.to_le_bytes(), body, &padding, &total.to_le_bytes()[..]].concat()
    };
    let mut section = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
    section.extend([1, 0, 0, 0]);
    section.extend([0xff; 8]);
    let mut file = block(0x0a0d_0d0a, &section);
    // Ethernet, snaplen 65535, nanosecond resolution, end of options.
    file.extend(block(1, &[1, 0, 0, 0, 0xff, 0xff, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]));
    file.extend(block(5, &[0; 12]));
    for packet in packets {
        let length = (packet.frame.len() as u32).to_le_bytes();
        file.extend(block(6, &[&[0; 12], &length[..], &length, &packet.frame].concat()));
        file.extend(block(3, &[&length[..], &packet.frame].concat()));
    }
    let cut = file[..file.len() - 5].to_vec();
    list.push(("pcapng".into(), file));
    list.push(("pcapng-cut".into(), cut));
    list
}

/// The built-in protocols, one per file.
fn texts() -> Vec<Named> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../protocols");
    let mut list = vec![];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "weir") {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            list.push((name, fs::read(&path).unwrap()));
        }
    }
    list
}

fn programs(random: &mut Random) -> Vec<Named> {
    let compiler = Compiler::default();
    let catalog = compiler.catalog();
    let shipped = read_capture(FIRST_LIGHT);
    (0..24)
        .map(|n| {
            let mut bytes = filter(random, catalog, n as u32 % 3).into_bytes();
            bytes.push(b'\n');
            let start = random.below(shipped.len() as u64 - 6) as usize;
            let made: Vec<MemoryPacket> = (0..6).map(|_| frames::any(random)).collect();
            for packet in shipped[start..start + 4].iter().chain(&made) {
                let length = packet.frame.len().min(0x7ff);
                let more = packet.wire_bytes as usize - packet.frame.len();
                bytes.extend((length as u16 | (more.min(31) as u16) << 11).to_be_bytes());
                bytes.extend(&packet.frame[..length]);
            }
            (format!("program-{n:02}"), bytes)
        })
        .collect()
}

/// Random bytes: enough for small texts, and more.
fn choices(random: &mut Random) -> Vec<Named> {
    let lengths = [200, 200, 400, 400, 800, 800, 1_600, 1_600, 2_400, 2_400, 3_200, 3_200];
    let one = |(n, length)| (format!("text-{n:02}"), (0..length).map(|_| random.bits() as u8).collect());
    lengths.into_iter().enumerate().map(one).collect()
}

/// The first bytes of connections of the capture, in the target's command format.
fn handshakes() -> Vec<Named> {
    let packets = read_capture(FIRST_LIGHT);
    let mut flows: Vec<(u16, Vec<u8>)> = vec![];
    for packet in &packets {
        // IPv4 without options suffices here.
        let frame = &packet.frame;
        if frame.len() < 54 || frame[12..15] != [8, 0, 0x45] || frame[23] != 6 {
            continue;
        }
        let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let (client, from_client) = if port(36) == 443 { (port(34), true) } else { (port(36), false) };
        if port(34) != 443 && port(36) != 443 {
            continue;
        }
        let end = 14 + usize::from(port(16));
        let payload = frame.get(34 + usize::from(frame[46] >> 4) * 4..end).unwrap_or_default();
        let index = flows.iter().position(|(port, _)| *port == client).unwrap_or_else(|| {
            flows.push((client, vec![]));
            flows.len() - 1
        });
        let commands = &mut flows[index].1;
        for piece in payload.chunks(63) {
            if commands.len() < 4_000 {
                commands.push((piece.len() as u8) << 2 | u8::from(!from_client));
                commands.extend(piece);
            }
        }
    }
    flows.retain(|(_, commands)| !commands.is_empty());
    flows.truncate(12);
    flows.into_iter().enumerate().map(|(n, (_, commands))| (format!("handshake-{n:02}"), commands)).collect()
}
