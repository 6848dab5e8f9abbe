//! Measures writers of a ring against `memcpy`: the same frames, one after the other, into memory of the same
//! size.
//!
//! Prints a row of a table for each kind of packets and number of writers. With the word `query`: the time in
//! which a hundredth of the packets of a large ring is found and written to a file, while a writer goes on.
//! With `spool DIR`: the bytes a second that a spool writes there, next to `dd`.

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_packet::{
    Block, Burst, HeaderPair, HeaderPart, HeaderTerms, IpVersion, LinkType, Masked, PacketHeaders,
    PacketMeta, Timestamp, Transport,
};
use weir_ring::{Reader, Retention, Ring, Selection, SpoolCounters, SpoolParams, Spooler, Writer};

const RING_BYTES: usize = 512 << 20;
/// Packets of a run, for each writer.
const PACKETS: usize = 4 << 20;
/// Different bursts.
const BURSTS: usize = 1024;
const RUNS: usize = 7;

/// The headers of the packets of a burst.
const HEADERS: [Option<PacketHeaders>; 64] = {
    let outer = HeaderPair { version: IpVersion::V4, ip_at: 14, transport: Some((Transport::Tcp, 34)) };
    [Some(PacketHeaders { outer, inner: None }); 64]
};

/// Bursts of packets of TCP, of this many flows.
fn bursts(length_of: impl Fn(usize) -> usize, flows: usize) -> Vec<Burst> {
    let mut number = 0_usize;
    let mut burst = || {
        let (mut bytes, mut packets) = (vec![], vec![]);
        for _ in 0..64 {
            let length = length_of(number);
            let start = bytes.len();
            let flow = (number.wrapping_mul(0x9e37_79b9) >> 7) % flows;
            bytes.extend([0; 12]);
            bytes.extend([8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0]);
            bytes.extend((flow as u16).to_be_bytes());
            bytes.extend([10, 1, 0, 1]);
            bytes.extend((1024 + (flow >> 4) as u16).to_be_bytes());
            bytes.extend([1, 187]);
            bytes.resize(start + length, number as u8);
            packets.push(PacketMeta {
                time: Timestamp(number as i64 * 1000),
                number: number as u64,
                offset: start as u32,
                captured_bytes: length as u32,
                wire_bytes: length as u32,
                link: LinkType::ETHERNET,
                interface: 0,
            });
            number += 1;
        }
        Burst { block: Arc::new(Block::from(bytes)), packets, ..Burst::default() }
    };
    (0..BURSTS).map(|_| burst()).collect()
}

fn median(mut runs: Vec<f64>) -> f64 {
    runs.sort_by(f64::total_cmp);
    runs[runs.len() / 2]
}

/// Nanoseconds a packet of `work`, which each of the threads does with a state of its own.
fn measure<S: Send>(states: &mut [S], work: impl Fn(&mut S) + Sync) -> f64 {
    let began = Instant::now();
    std::thread::scope(|scope| {
        for state in states {
            let work = &work;
            scope.spawn(move || work(state));
        }
    });
    began.elapsed().as_nanos() as f64 / PACKETS as f64
}

/// Bytes of the ring of a query.
const QUERY_RING_BYTES: usize = 10 << 30;

/// TCP from these source ports.
fn terms(ports: impl Iterator<Item = u16>) -> HeaderTerms {
    let of = |port| HeaderPart {
        transport: Some(Transport::Tcp),
        source_port: Masked { value: u128::from(port), mask: 0xffff },
        ..HeaderPart::default()
    };
    HeaderTerms { terms: vec![vec![ports.map(of).collect()]], all_nested: false }
}

fn query() {
    let bursts = bursts(|number| if number % 3 == 0 { 64 } else { 1514 }, 6400);
    let (ring, pages) = Ring::create(QUERY_RING_BYTES, "ring-bench", 1).expect("memory for the ring");
    let mut writer = Writer::new(&ring, 0, 0, Box::new(|_| vec![]));
    while ring.counters().left == 0 {
        bursts.iter().for_each(|burst| writer.write(burst, &HEADERS));
    }
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // About 1 Gbit/s.
        scope.spawn(|| {
            for burst in bursts.iter().cycle().take_while(|_| !ends.load(Ordering::Relaxed)) {
                writer.write(burst, &HEADERS);
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        let mut seconds = vec![];
        let mut bytes = 0;
        for _ in 0..RUNS {
            let selection = Arc::<Selection>::default();
            // Ports of 64 of 6 400 flows: a flow has 16 addresses for each port.
            selection.narrow(Some(terms(1024..1028)));
            let began = Instant::now();
            let mut reader = Reader::new(Some(ring.clone()), None, false, selection);
            let mut file = std::fs::File::create("/tmp/ring-bench").expect("a file");
            bytes = std::io::copy(&mut reader, &mut file).expect("room");
            seconds.push(began.elapsed().as_secs_f64());
        }
        ends.store(true, Ordering::Relaxed);
        let _ = std::fs::remove_file("/tmp/ring-bench");
        println!(
            "| {} GiB, {pages:?} pages | {} M packets | {} MB | {:.2} s |",
            QUERY_RING_BYTES >> 30,
            ring.counters().packets / 1_000_000,
            bytes / 1_000_000,
            median(seconds)
        );
    });
}

/// Bytes of the ring whose segments are written to a disk.
const SPOOL_RING_BYTES: usize = 1 << 30;

/// Writes the segments of a full ring to files, and as many bytes with `dd`: one after the other, several
/// times.
fn spool(directory: &Path) {
    let (ring, _) = Ring::create(SPOOL_RING_BYTES, "ring-bench", 1).expect("memory for the ring");
    let mut writer = Writer::new(&ring, 0, 0, Box::new(|_| vec![]));
    let bursts = bursts(mixed, 1000);
    while ring.counters().left == 0 {
        bursts.iter().for_each(|burst| writer.write(burst, &HEADERS));
    }
    drop(writer);
    let own = directory.join("ring-bench");
    let (mut spooled, mut copied) = (vec![], vec![]);
    for _ in 0..5 {
        let counters = Arc::<SpoolCounters>::default();
        let rest = Retention { bytes_max: 64 << 30, age_max: None };
        let params = SpoolParams { directory: own.clone(), rest, classes: vec![] };
        let note = Box::new(|note| println!("{note}"));
        let mut spooler = Spooler::new(&ring, params, Arc::clone(&counters), note).expect("the directory");
        let began = Instant::now();
        spooler.run(&AtomicBool::new(true));
        let bytes = counters.bytes.load(Ordering::Relaxed);
        spooled.push(bytes as f64 / began.elapsed().as_secs_f64() / 1e6);
        std::fs::remove_dir_all(&own).expect("files of the benchmark");
        let segment = ring.segment_bytes();
        let file = directory.join("ring-bench-dd");
        let words = [
            "if=/dev/zero".to_string(),
            format!("of={}", file.display()),
            format!("bs={segment}"),
            format!("count={}", bytes as usize / segment),
            "oflag=direct".to_string(),
            "conv=fsync".to_string(),
        ];
        let began = Instant::now();
        let status = Command::new("dd").args(words).stderr(Stdio::null()).status();
        assert!(status.is_ok_and(|status| status.success()), "dd writes");
        copied.push(bytes as f64 / began.elapsed().as_secs_f64() / 1e6);
        std::fs::remove_file(&file).expect("the file of dd");
    }
    let (spooled, copied) = (median(spooled), median(copied));
    println!("| {spooled:.0} | {copied:.0} | {:.2} |", spooled / copied);
}

/// Sizes of packets on the Internet: two fifths short, a third long.
fn mixed(number: usize) -> usize {
    match number % 15 {
        0..6 => 64,
        6..10 => 200 + number % 700,
        _ => 1514,
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("query") => return query(),
        Some("spool") => return spool(Path::new(words.get(1).expect("spool DIR"))),
        _ => {}
    }
    type Length = Box<dyn Fn(usize) -> usize>;
    let kinds: [(&str, Length); 2] = [("64 bytes", Box::new(|_| 64)), ("mixed", Box::new(mixed))];
    for (name, length_of) in kinds {
        for (writers, flows) in [(1, 1000), (1, 100_000), (2, 1000)] {
            let bursts = bursts(&length_of, flows);
            let (ring, _) = Ring::create(RING_BYTES, "ring-bench", 1).expect("memory for the ring");
            let mut own: Vec<Writer> =
                (0..writers).map(|number| Writer::new(&ring, 0, number, Box::new(|_| vec![]))).collect();
            let mut memories: Vec<(Vec<u8>, usize)> =
                (0..writers).map(|_| (vec![1; RING_BYTES / writers as usize], 0)).collect();
            let (mut of_ring, mut of_copy) = (vec![], vec![]);
            for _ in 0..RUNS {
                of_copy.push(measure(&mut memories, |(memory, at)| {
                    for burst in bursts.iter().cycle().take(PACKETS / 64) {
                        for index in 0..burst.packets.len() {
                            let frame = burst.data(index);
                            if *at + frame.len() > memory.len() {
                                *at = 0;
                            }
                            memory[*at..*at + frame.len()].copy_from_slice(frame);
                            *at += frame.len();
                        }
                    }
                    black_box(&memory[0]);
                }));
                of_ring.push(measure(&mut own, |writer| {
                    bursts.iter().cycle().take(PACKETS / 64).for_each(|burst| writer.write(burst, &HEADERS));
                }));
            }
            let (ring, copy) = (median(of_ring), median(of_copy));
            println!(
                "{name}, {flows} flows, {writers} writers: ring {ring:.1} ns, memcpy {copy:.1} ns, {:.2}",
                ring / copy
            );
        }
    }
}
