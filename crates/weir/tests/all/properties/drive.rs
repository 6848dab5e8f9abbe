//! Runs questions over packets in memory, and checks the accounts of every run.

use std::convert::Infallible;
pub use weir::io::MemoryPacket;
use weir::io::MemorySource;
use weir::packet::{Burst, Poll, Source};
use weir::sessions::{ProtocolSet, SessionRegistry};
use weir::{Ask, Compiled, Compiler, Engine, Item, Need, Options, Outcome, Shape, Want};

/// A source of these packets. Burst sizes vary.
pub fn in_memory(packets: &[MemoryPacket]) -> MemorySource {
    let mut packets = packets.iter().cloned().peekable();
    let mut source = MemorySource::new();
    for size in [1, 7, 33, 64].into_iter().cycle() {
        if packets.peek().is_none() {
            break;
        }
        source = source.then_packets(packets.by_ref().take(size));
    }
    source
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
    packets: &[MemoryPacket],
    workers: usize,
) -> (Vec<String>, Outcome) {
    rows_of(compiler, compiled, in_memory(packets), packets.len(), workers)
}

/// As [`rows`], of a source with this number of packets.
pub fn rows_of(
    compiler: &Compiler,
    compiled: &Compiled,
    mut source: MemorySource,
    packets: usize,
    workers: usize,
) -> (Vec<String>, Outcome) {
    let shapes = vec![Shape::default(); compiled.question_count()];
    let mut rows = vec![];
    let mut each = |question: usize, item: Item<'_>| {
        match item {
            Item::Packet { meta, .. } => rows.push(format!("{question} packet {}", meta.number)),
            // Packets may be inserted that change no answer but the numbers of later packets.
            Item::Rows(made) => {
                let protocol = made.protocol;
                rows.extend(made.iter().map(|row| format!("{question} Row({protocol}, {row:?})")));
            }
            item => rows.push(format!("{question} {item:?}")),
        }
        Ok::<(), Infallible>(())
    };
    let Ok(outcome) = weir::run(compiler, compiled, &mut source, &shapes, workers, &mut each, &mut |_| {});
    assert_eq!(outcome.counters.packet.packets, packets as u64, "every packet was counted");
    assert_eq!(outcome.counters.adds_up(0), Ok(()), "{:?}", outcome.counters);
    (rows, outcome)
}

/// Runs subscriptions to streams on one worker; rows are dropped.
///
/// # Panics
/// If the accounts do not balance.
pub fn run_streams(engine: &Engine<'_>, packets: &[MemoryPacket]) -> Outcome {
    let compiled = engine.compile().unwrap_or_else(|wrong| panic!("{wrong}"));
    rows(engine.compiler(), &compiled, packets, 1).1
}

/// The seeds of a property, printed. `WEIR_SEEDS=93` or `WEIR_SEEDS=1000..2000` overrides them.
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

/// The seeds of a property that takes long: with `WEIR_CASES=few`, as in CI, a third of them, but at least
/// eight. `cargo xtask soak` tries all.
pub fn many_seeds(usual: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let length = usual.end - usual.start;
    let few = usual.start + (length / 3).max(8).min(length);
    seeds(if has_few_cases() { usual.start..few } else { usual })
}

fn has_few_cases() -> bool {
    std::env::var("WEIR_CASES").is_ok_and(|cases| cases == "few")
}

/// Whether all usual seeds are tried, so that each kind of case must have come.
pub fn has_all_seeds() -> bool {
    std::env::var("WEIR_SEEDS").is_err() && !has_few_cases()
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
pub fn read_capture(path: &str) -> Vec<MemoryPacket> {
    let mut source = weir::io::source::CaptureReader::open(&[path]);
    let mut burst = Burst::default();
    let mut packets = vec![];
    while source.poll(&mut burst).unwrap_or_else(|e| panic!("{e}")) != Poll::End {
        for (index, meta) in burst.packets.iter().enumerate() {
            packets.push(MemoryPacket {
                time: meta.time,
                link: meta.link,
                wire_bytes: meta.wire_bytes,
                frame: burst.data(index).to_vec(),
            });
        }
    }
    packets
}

/// The capture in `examples/`.
pub const FIRST_LIGHT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/first-light.pcap");
