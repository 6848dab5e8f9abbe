//! Runs questions over packets in memory, and checks the accounts of every run.

use std::convert::Infallible;
use std::sync::Arc;
use weir::packet::{Block, Burst, LinkType, PacketMeta, Poll, Source, SourceError, Timestamp};
use weir::sessions::{ProtocolSet, SessionRegistry};
use weir::{Ask, Compiled, Compiler, Engine, Item, Need, Options, Outcome, Shape, Want};

/// A packet of a capture.
#[derive(Debug, Clone, PartialEq)]
pub struct Packet {
    pub time_ns: i64,
    pub link: LinkType,
    pub wire_bytes: u32,
    pub bytes: Vec<u8>,
}

impl Packet {
    /// A complete frame. Its time is set later.
    pub fn ethernet(bytes: Vec<u8>) -> Self {
        Self { time_ns: 0, link: LinkType::ETHERNET, wire_bytes: bytes.len() as u32, bytes }
    }

    /// The same packet captured with this snaplen.
    pub fn cut(mut self, snaplen: usize) -> Self {
        self.bytes.truncate(snaplen);
        self
    }
}

/// A source of packets in memory. Burst sizes vary.
pub struct Memory<'a> {
    packets: &'a [Packet],
    at: usize,
    bursts: usize,
}

impl<'a> Memory<'a> {
    pub fn new(packets: &'a [Packet]) -> Self {
        Self { packets, at: 0, bursts: 0 }
    }
}

impl Source for Memory<'_> {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        self.bursts += 1;
        let count = [64, 1, 7, 33][self.bursts % 4].min(self.packets.len() - self.at);
        let mut bytes = vec![];
        burst.packets.clear();
        for packet in &self.packets[self.at..self.at + count] {
            self.at += 1;
            burst.packets.push(PacketMeta {
                time: Timestamp(packet.time_ns),
                number: self.at as u64,
                offset: bytes.len() as u32,
                captured_bytes: packet.bytes.len() as u32,
                wire_bytes: packet.wire_bytes.max(packet.bytes.len() as u32),
                link: packet.link,
                interface: 0,
            });
            bytes.extend_from_slice(&packet.bytes);
        }
        burst.block = Arc::new(Block::shared(bytes));
        Ok(if count > 0 { Poll::Packets } else { Poll::End })
    }
}

/// A question with this filter.
pub fn ask(filter: &str, want: Want) -> Ask {
    Ask { filter: filter.to_string(), need: Need::default(), want }
}

/// The first session protocol of the registry.
pub const TLS_SESSIONS: Want = Want::Sessions(ProtocolSet::of(0));

/// Every session protocol.
pub fn all_sessions() -> Want {
    Want::Sessions(SessionRegistry::builtin().all())
}

/// Runs the questions, and checks that every packet and flow is accounted for. Returns the items as text, in
/// order.
///
/// # Panics
/// If the accounts do not balance.
pub fn rows(
    compiler: &Compiler,
    compiled: &Compiled,
    packets: &[Packet],
    workers: usize,
) -> (Vec<String>, Outcome) {
    let shapes = vec![Shape::default(); compiled.question_count()];
    let mut rows = vec![];
    let mut each = |question: usize, item: Item| {
        rows.push(match item {
            Item::Packet { meta, .. } => format!("{question} packet {}", meta.number),
            item => format!("{question} {item:?}"),
        });
        Ok::<(), Infallible>(())
    };
    let mut source = Memory::new(packets);
    let Ok(outcome) = weir::run(compiler, compiled, &mut source, &shapes, workers, &mut each, &mut |_| {});
    assert_eq!(outcome.counters.packet.packets, packets.len() as u64, "every packet was counted");
    assert_eq!(outcome.counters.adds_up(0), Ok(()), "{:?}", outcome.counters);
    (rows, outcome)
}

/// Runs subscriptions to streams on one worker; rows are dropped.
///
/// # Panics
/// If the accounts do not balance.
pub fn run_streams(engine: &Engine<'_>, packets: &[Packet]) -> Outcome {
    let compiled = engine.compile().unwrap_or_else(|wrong| panic!("{wrong}"));
    rows(engine.compiler(), &compiled, packets, 1).1
}

/// The seeds of a property, printed; `WEIR_SEEDS=93` or `WEIR_SEEDS=1000..2000` overrides them.
///
/// # Panics
/// If the variable is not a number or a range.
pub fn seeds(usual: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let number = |text: &str| text.parse().expect("WEIR_SEEDS is a number or a range");
    let seeds = match std::env::var("WEIR_SEEDS") {
        Ok(text) => match text.split_once("..") {
            Some((first, end)) => number(first)..number(end),
            None => number(&text)..number(&text) + 1,
        },
        Err(_) => usual,
    };
    println!("seeds {seeds:?}");
    seeds
}

/// Compiles questions whose filters are valid.
///
/// # Panics
/// If one is not.
pub fn compile(compiler: &Compiler, asks: &[Ask], options: &Options) -> Compiled {
    compiler.compile(asks, options).unwrap_or_else(|d| panic!("{asks:?}: {:?}", d.list))
}

/// The frames of a capture file.
///
/// # Panics
/// If it cannot be read.
pub fn read_capture(path: &str) -> Vec<Packet> {
    let mut source = weir::io::source::CaptureReader::open(&[path]);
    let mut burst = Burst::default();
    let mut packets = vec![];
    while source.poll(&mut burst).unwrap_or_else(|e| panic!("{e}")) != Poll::End {
        for (index, meta) in burst.packets.iter().enumerate() {
            packets.push(Packet {
                time_ns: meta.time.0,
                link: meta.link,
                wire_bytes: meta.wire_bytes,
                bytes: burst.data(index).to_vec(),
            });
        }
    }
    packets
}

/// The capture in `examples/`.
pub const FIRST_LIGHT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/first-light.pcap");
