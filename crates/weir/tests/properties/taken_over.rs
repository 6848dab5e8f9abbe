//! Connections that the kernel takes over have the rows that they have without: programs of XDP run over the packets of captures, and
//! the engine gets those that pass.

use crate::drive::{FIRST_LIGHT, MemoryPacket, all_sessions, ask, read_capture, seeds};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use weir::io::MemorySource;
use weir::link::trial::Trial;
use weir::packet::{
    Burst, KernelFilters, KernelFlows, LinkType, Poll, Source, SourceError, SourceStats, Timestamp,
    flow_entry,
};
use weir::{Ask, Compiled, Compiler, Item, Options, Shape, Want};
use weir_testing::Random;
use weir_testing::frames;
use weir_testing::traffic::{Network, conversation, mix};

/// The kernel runs programs over frames of these lengths.
const FRAME_BYTES: std::ops::RangeInclusive<usize> = 15..=3000;

/// Time without packets after which a link says what time it is: 0.1 s.
const PAUSE_NS: i64 = 100_000_000;

/// A table of the kernel whose times are those of the capture.
#[derive(Debug)]
struct Timed {
    flows: Arc<dyn KernelFlows>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By key: the time of the last packet, by the kernel's clock and in the capture.
    given: HashMap<Vec<u64>, (u64, i64)>,
    /// The time of the last packet that is on its way to the engine.
    now: i64,
    entry_words: usize,
    gifts: usize,
}

impl Timed {
    /// Finds out whether a connection counted the packet that was received at `time`.
    fn note(&self, time: i64) -> bool {
        let mut state = self.state.lock().expect("no panic");
        let mut entry = vec![0; state.entry_words];
        for (key, (by_kernel, in_capture)) in &mut state.given {
            entry.fill(0);
            if self.flows.read(key, &mut entry) && entry[flow_entry::LAST_TIME] != *by_kernel {
                (*by_kernel, *in_capture) = (entry[flow_entry::LAST_TIME], time);
                return true;
            }
        }
        false
    }
}

impl KernelFlows for Timed {
    fn give(&self, key: &[u64], entry: &[u64]) -> bool {
        let mut state = self.state.lock().expect("no panic");
        (state.entry_words, state.gifts) = (entry.len(), state.gifts + 1);
        state.given.insert(key.to_vec(), (0, 0));
        self.flows.give(key, entry)
    }

    fn read(&self, key: &[u64], entry: &mut [u64]) -> bool {
        let is_known = self.flows.read(key, entry);
        if let Some((_, time)) = self.state.lock().expect("no panic").given.get(key) {
            entry[flow_entry::LAST_TIME] = *time as u64;
        }
        is_known
    }

    fn take(&self, key: &[u64], entry: &mut [u64]) -> bool {
        let is_known = self.flows.take(key, entry);
        if let Some((_, time)) = self.state.lock().expect("no panic").given.remove(key) {
            entry[flow_entry::LAST_TIME] = time as u64;
        }
        is_known
    }

    fn now(&self) -> i64 {
        self.state.lock().expect("no panic").now
    }
}

/// A source whose packets pass a program first; bursts of some packets are on their way to the engine at a time.
struct Sieved<'a> {
    packets: &'a [MemoryPacket],
    at: usize,
    /// The time that the link has reached.
    time: i64,
    chunks: std::iter::Cycle<std::array::IntoIter<usize, 4>>,
    trial: Option<Trial>,
    flows: Option<Arc<Timed>>,
    /// The number of the filter, at most.
    number: usize,
    /// Packets that passed; those that no question needs; those counted for connections.
    passed: usize,
    unneeded: usize,
    counted: usize,
}

impl Source for Sieved<'_> {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        let (mut kept, mut numbers) = (vec![], vec![]);
        let mut left = self.chunks.next().expect("it never ends");
        while left > 0 {
            let Some(packet) = self.packets.get(self.at) else { break };
            // A link without packets says what time it is, so that connections end in time.
            if packet.time.0 > self.time + PAUSE_NS {
                if kept.is_empty() {
                    self.time = packet.time.0 - 1;
                    return Ok(Poll::Idle { now: Timestamp(self.time) });
                }
                break;
            }
            left -= 1;
            self.at += 1;
            self.time = self.time.max(packet.time.0);
            let trial = self.trial.as_ref().filter(|_| FRAME_BYTES.contains(&packet.frame.len()));
            let trial = trial.filter(|_| packet.link == LinkType::ETHERNET);
            if trial.is_none_or(|trial| trial.needs(&packet.frame).expect("it runs")) {
                kept.push(packet.clone());
                numbers.push(self.at as u64);
            } else if self.flows.as_ref().is_some_and(|flows| flows.note(packet.time.0)) {
                self.counted += 1;
            } else {
                self.unneeded += 1;
            }
        }
        if kept.is_empty() {
            let now = Timestamp(self.time);
            return Ok(if self.at == self.packets.len() { Poll::End } else { Poll::Idle { now } });
        }
        self.passed += kept.len();
        if let Some(flows) = &self.flows {
            let last = kept.iter().map(|packet| packet.time.0).max();
            flows.state.lock().expect("no panic").now = last.expect("there are some");
        }
        let polled = MemorySource::new().then_packets(kept).poll(burst);
        burst.packets.iter_mut().zip(numbers).for_each(|(packet, number)| packet.number = number);
        polled
    }

    fn narrow(&mut self, filters: Option<&Arc<dyn KernelFilters>>) {
        let Some(filters) = filters else { return };
        let words = filters.flow_words();
        let load = |number| {
            let filter = filters.filter(LinkType::ETHERNET, number, true).expect("it is expressible");
            Trial::of_interface(&filter.expect("not every packet is needed"), words)
        };
        // The kernel may refuse the exact ones.
        let exact = (0..=self.number).rev().map(load).reduce(|exact, simpler| exact.or(simpler));
        match exact.expect("there is one") {
            Ok(trial) => {
                if let Some(flows) = trial.flows() {
                    let timed = Arc::new(Timed { flows, state: Mutex::default() });
                    self.flows = Some(Arc::clone(&timed));
                    filters.take_over(timed);
                }
                self.trial = Some(trial);
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(1), "{error}"),
        }
    }

    fn stats(&self) -> SourceStats {
        SourceStats::default()
    }
}

fn rows(compiler: &Compiler, compiled: &Compiled, source: &mut dyn Source) -> Vec<String> {
    let shapes = vec![Shape::default(); compiled.question_count()];
    let mut rows = vec![];
    let mut each = |question: usize, item: Item<'_>| {
        if !matches!(item, Item::Pause) {
            rows.push(format!("{question} {item:?}"));
        }
        Ok::<(), Infallible>(())
    };
    let Ok(_) = weir::run(compiler, compiled, source, &shapes, 1, &mut each, &mut |_| {});
    rows.sort_unstable();
    rows
}

/// What became of the packets of some captures.
#[derive(Debug, Default)]
struct Fates {
    passed: usize,
    unneeded: usize,
    counted: usize,
    gifts: usize,
}

/// Compares the rows with and without the kernel, which runs the filter of this number, or a simpler one. Returns `false` if the process may not load programs.
fn compare(what: &str, number: usize, asks: &[Ask], packets: &[MemoryPacket], fates: &mut Fates) -> bool {
    let compiler = Compiler::default();
    let of = |narrow| {
        let options = Options { narrow, quiet_packets: Some(1), ..Options::default() };
        compiler.compile(asks, &options).expect("filters")
    };
    let source = || Sieved {
        packets,
        at: 0,
        time: packets.first().map_or(0, |packet| packet.time.0),
        chunks: [1, 7, 3, 12].into_iter().cycle(),
        trial: None,
        flows: None,
        number,
        passed: 0,
        unneeded: 0,
        counted: 0,
    };
    let expected = rows(&compiler, &of(false), &mut source());
    let mut sieved = source();
    let got = rows(&compiler, &of(true), &mut sieved);
    if sieved.trial.is_none() {
        return false;
    }
    fates.passed += sieved.passed;
    fates.unneeded += sieved.unneeded;
    fates.counted += sieved.counted;
    fates.gifts += sieved.flows.map_or(0, |flows| flows.state.lock().expect("no panic").gifts);
    if expected != got {
        let missing: Vec<_> = expected.iter().filter(|row| !got.contains(row)).take(3).collect();
        let more: Vec<_> = got.iter().filter(|row| !expected.contains(row)).take(3).collect();
        panic!("{what}, {asks:#?}: missing {missing:#?}, new {more:#?}");
    }
    true
}

fn questions() -> Vec<Vec<Ask>> {
    vec![
        vec![ask("", Want::Connections)],
        vec![ask("", all_sessions())],
        vec![ask("tcp.port in {80, 443}", Want::Connections), ask("tls", all_sessions())],
        vec![ask("ip.ttl < 60", Want::Connections), ask("udp", Want::Connections)],
    ]
}

#[test]
fn connections_that_the_kernel_takes_over_have_the_same_rows() {
    let mut fates = Fates::default();
    for seed in seeds(0..6) {
        let mut random = Random::new(seed);
        // Numbers of repeated and of reordered segments may differ while a connection changes hands.
        let network = Network {
            repeats: false,
            loses: seed % 3 == 1,
            reorders: false,
            fragments: seed % 2 == 0,
            cuts: false,
        };
        let talks: Vec<_> = (0..12u16)
            .map(|number| {
                conversation(&mut random, (40_000 + number, [80, 443][usize::from(number % 2)]), network)
            })
            .collect();
        let mut packets = mix(&mut random, &talks);
        frames::give_times(&mut random, &mut packets);
        for asks in questions() {
            if !compare(&format!("seed {seed}"), 0, &asks, &packets, &mut fates) {
                println!("skipped: programs for the kernel need CAP_BPF and CAP_NET_ADMIN");
                return;
            }
        }
    }
    println!("{fates:?}");
    assert!(fates.counted * 5 > fates.passed, "{fates:?}");
    assert!(fates.gifts > 1000, "{fates:?}");
}

#[test]
fn so_have_those_of_captures() {
    let mut fates = Fates::default();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/");
    let names = ["services.pcap", "sessions.pcap", "tunnels.pcap"].map(|name| format!("{examples}{name}"));
    for capture in names.into_iter().chain([FIRST_LIGHT.to_string()]) {
        let packets = read_capture(&capture);
        for asks in questions() {
            // The kernel takes long to verify the exact ones.
            let number = if capture.contains("tunnels") { 2 } else { 0 };
            if !compare(&capture, number, &asks, &packets, &mut fates) {
                println!("skipped: programs for the kernel need CAP_BPF and CAP_NET_ADMIN");
                return;
            }
        }
    }
    println!("{fates:?}");
    assert!(fates.counted > 500, "{fates:?}");
}
