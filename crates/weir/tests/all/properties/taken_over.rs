//! Connections that the kernel takes over have the rows that they have without: programs of XDP run over the
//! packets of captures, and the engine gets those that pass.

use crate::properties::drive::{FIRST_LIGHT, MemoryPacket, all_sessions, ask, read_capture, seeds};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use weir::io::MemorySource;
use weir::link::trial::Trial;
use weir::packet::{
    Burst, KernelFilters, KernelFlows, LinkType, Poll, Source, SourceError, SourceStats, Timestamp, Value,
    flow_entry,
};
use weir::{Ask, Compiled, Compiler, Connection, Item, Limits, Options, Outcome, Shape, Want};
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
    /// Gifts for which the kernel's table had no room.
    refused: usize,
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
        let has_room = self.flows.give(key, entry);
        state.refused += usize::from(!has_room);
        has_room
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

/// How packets pass the kernel.
#[derive(Clone)]
pub struct Setting {
    /// The number of the filter, at most.
    pub number: usize,
    /// Packets that are on their way to the engine at a time; the list begins again at its end.
    pub on_way: &'static [usize],
    /// Connections that the kernel's table has at most.
    pub entries_max: usize,
    /// The same with and without the kernel.
    pub options: Options,
    /// The numbers of repeated and reordered segments, and of missing bytes, may differ.
    pub is_lax: bool,
}

impl Default for Setting {
    fn default() -> Self {
        // Payload of noise is of no protocol, and connections are taken over once that is certain.
        let limits = Limits { late_bytes_max: 0, ..Limits::default() };
        let options = Options { quiet_packets: Some(1), limits, ..Options::default() };
        Self { number: 0, on_way: &[1, 7, 3, 12], entries_max: usize::MAX, options, is_lax: false }
    }
}

/// A source whose packets pass a program first; bursts of some packets are on their way to the engine at a
/// time.
pub struct Sieved<'a> {
    packets: &'a [MemoryPacket],
    at: usize,
    /// The time that the link has reached.
    time: i64,
    on_way: std::iter::Cycle<std::slice::Iter<'static, usize>>,
    trial: Option<Trial>,
    flows: Option<Arc<Timed>>,
    number: usize,
    entries_max: usize,
    /// Whether the packet with this number, from 0, has to wait.
    pub waits: Option<Box<dyn FnMut(usize) -> bool + 'a>>,
    /// The process may load programs, and has loaded one.
    pub has_loaded: bool,
    fates: Fates,
}

impl<'a> Sieved<'a> {
    pub fn new(packets: &'a [MemoryPacket], setting: &Setting) -> Self {
        Self {
            packets,
            at: 0,
            time: packets.first().map_or(0, |packet| packet.time.0),
            on_way: setting.on_way.iter().cycle(),
            trial: None,
            flows: None,
            number: setting.number,
            entries_max: setting.entries_max,
            waits: None,
            has_loaded: false,
            fates: Fates::default(),
        }
    }

    /// What became of the packets.
    pub fn fates(mut self) -> Fates {
        self.leave_table();
        self.fates
    }

    /// The program, and its table of connections, are used no more.
    fn leave_table(&mut self) {
        self.trial = None;
        if let Some(flows) = self.flows.take() {
            let state = flows.state.lock().expect("no panic");
            self.fates.gifts += state.gifts;
            self.fates.refused += state.refused;
        }
    }
}

impl Source for Sieved<'_> {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        let (mut kept, mut numbers) = (vec![], vec![]);
        let mut left = *self.on_way.next().expect("it never ends");
        while left > 0 {
            if self.waits.as_mut().is_some_and(|waits| waits(self.at)) {
                break;
            }
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
                self.fates.counted += 1;
            } else {
                self.fates.unneeded += 1;
            }
        }
        if kept.is_empty() {
            let now = Timestamp(self.time);
            return Ok(if self.at == self.packets.len() { Poll::End } else { Poll::Idle { now } });
        }
        self.fates.passed += kept.len();
        if let Some(flows) = &self.flows {
            let last = kept.iter().map(|packet| packet.time.0).max();
            flows.state.lock().expect("no panic").now = last.expect("there are some");
        }
        let polled = MemorySource::new().then_packets(kept).poll(burst);
        burst.packets.iter_mut().zip(numbers).for_each(|(packet, number)| packet.number = number);
        polled
    }

    fn narrow(&mut self, filters: Option<&Arc<dyn KernelFilters>>) {
        self.leave_table();
        let Some(filters) = filters else { return };
        let filter_of = |number| filters.filter(LinkType::ETHERNET, number, true).expect("it is expressible");
        // Some question needs every packet.
        if filter_of(self.number).is_none() {
            return;
        }
        let words = filters.flow_words();
        let words = words.map(|[key, entry, entries]| [key, entry, entries.min(self.entries_max)]);
        let load = |number| Trial::of_interface(&filter_of(number).expect("packets are not needed"), words);
        // The kernel may refuse the exact ones.
        let exact = (0..=self.number).rev().map(load).reduce(|exact, simpler| exact.or(simpler));
        match exact.expect("there is one") {
            Ok(trial) => {
                if let Some(flows) = trial.flows() {
                    let timed = Arc::new(Timed { flows, state: Mutex::default() });
                    self.flows = Some(Arc::clone(&timed));
                    filters.take_over(timed);
                }
                (self.trial, self.has_loaded) = (Some(trial), true);
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(1), "{error}"),
        }
    }

    fn stats(&self) -> SourceStats {
        SourceStats::default()
    }
}

/// The rows, sorted, and the outcome.
fn rows(
    compiler: &Compiler,
    compiled: &Compiled,
    source: &mut dyn Source,
    setting: &Setting,
) -> (Vec<String>, Outcome) {
    let shapes = vec![Shape::default(); compiled.question_count()];
    let mut rows = vec![];
    let mut each = |question: usize, item: Item<'_>| {
        rows.extend(rows_of(item, setting).iter().map(|row| format!("{question} {row}")));
        Ok::<(), Infallible>(())
    };
    let Ok(outcome) = weir::run(compiler, compiled, source, &shapes, 1, &mut each, &mut |_| {});
    rows.sort_unstable();
    (rows, outcome)
}

/// The rows of an item.
pub fn rows_of(mut item: Item<'_>, setting: &Setting) -> Vec<String> {
    if let Item::Rows(made) = &item {
        return made.iter().map(|row| format!("{} {row:?}", made.protocol)).collect();
    }
    let mut others = vec![];
    if let Item::Connection(connection) = &mut item
        && setting.is_lax
    {
        others = forget_repeats(connection);
    }
    (!matches!(item, Item::Pause)).then(|| format!("{item:?} {others:?}")).into_iter().collect()
}

/// Removes the numbers of repeated and reordered segments, and of missing bytes, from a record
/// (docs/capture.md). Returns the other columns of events at the end.
fn forget_repeats(connection: &mut Connection) -> Vec<Value<'static>> {
    let mut letters: Vec<char> = connection.history.chars().collect();
    letters.sort_unstable();
    letters.dedup();
    connection.history = letters.into_iter().collect();
    connection.missed_bytes = 0;
    let at_end = std::mem::take(&mut connection.at_end);
    let all = at_end.columns().iter().zip(at_end.values());
    let is_kept = |name: &str| !name.ends_with("_retrans") && !name.ends_with("_out_of_order");
    all.filter(|(column, _)| is_kept(&column.name)).map(|(_, value)| value.clone()).collect()
}

/// What became of the packets of some captures.
#[derive(Debug, Default)]
pub struct Fates {
    /// Packets that passed; those that no question needs; those counted for connections.
    pub passed: usize,
    pub unneeded: usize,
    pub counted: usize,
    /// Connections that the engine gave to the kernel, and those of them for which the kernel had no room.
    pub gifts: usize,
    pub refused: usize,
    /// Connections that ended early because the engine's table was full.
    pub shed: u64,
}

impl Fates {
    pub fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.unneeded += other.unneeded;
        self.counted += other.counted;
        self.gifts += other.gifts;
        self.refused += other.refused;
        self.shed += other.shed;
    }
}

/// Compares the rows with and without the kernel. Returns `false` if the process may not load programs.
pub fn compare(
    what: &str,
    setting: &Setting,
    asks: &[Ask],
    packets: &[MemoryPacket],
    fates: &mut Fates,
) -> bool {
    let compiler = Compiler::default();
    let of = |narrow| {
        let options = Options { narrow, ..setting.options.clone() };
        compiler.compile(asks, &options).expect("filters")
    };
    let (expected, _) = rows(&compiler, &of(false), &mut Sieved::new(packets, setting), setting);
    let mut sieved = Sieved::new(packets, setting);
    let (got, outcome) = rows(&compiler, &of(true), &mut sieved, setting);
    if !sieved.has_loaded {
        println!("skipped: programs for the kernel need CAP_BPF and CAP_NET_ADMIN");
        return false;
    }
    fates.add(&sieved.fates());
    fates.shed += outcome.counters.flow.flows_shed;
    assert_same(&format!("{what}, {asks:#?}"), &got, &expected);
    true
}

/// Fails if rows with the kernel differ from those without.
pub fn assert_same(what: &str, got: &[String], expected: &[String]) {
    if expected != got {
        let missing: Vec<_> = expected.iter().filter(|row| !got.contains(row)).take(3).collect();
        let more: Vec<_> = got.iter().filter(|row| !expected.contains(row)).take(3).collect();
        panic!("{what}: missing {missing:#?}, new {more:#?}");
    }
}

pub fn questions() -> Vec<Vec<Ask>> {
    vec![
        vec![ask("", Want::Connections)],
        vec![ask("", all_sessions())],
        vec![ask("tcp.port in {80, 443}", Want::Connections), ask("tls", all_sessions())],
        vec![ask("ip.ttl < 60", Want::Connections), ask("udp", Want::Connections)],
    ]
}

/// Twelve conversations, with pauses.
pub fn traffic(random: &mut Random, network: Network) -> Vec<MemoryPacket> {
    let talks: Vec<_> = (0..12u16)
        .map(|number| conversation(random, (40_000 + number, [80, 443][usize::from(number % 2)]), network))
        .collect();
    let mut packets = mix(random, &talks);
    frames::give_times(random, &mut packets);
    packets
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
        let packets = traffic(&mut random, network);
        // With the usual limits, connections of no known protocol are taken over later, or never.
        let mut usual = Setting::default();
        usual.options.limits = Limits::default();
        for asks in questions() {
            for (setting, fates) in [(&Setting::default(), &mut fates), (&usual, &mut Fates::default())] {
                if !compare(&format!("seed {seed}"), setting, &asks, &packets, fates) {
                    return;
                }
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
            let setting = Setting { number, ..Setting::default() };
            if !compare(&capture, &setting, &asks, &packets, &mut fates) {
                return;
            }
        }
    }
    println!("{fates:?}");
    assert!(fates.counted > 500, "{fates:?}");
}
