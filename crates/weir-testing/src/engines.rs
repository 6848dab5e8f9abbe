//! For fuzzers: runs any filter over any packets, and compares native code with all passes against the
//! interpreter without passes. `texts` does the same with generated protocols.

pub use crate::texts::{Tried, fuzz_text, shrink_text, try_text};

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use weir::{Ask, Compiled, Compiler, Executor, Item, Need, Options, Shape, Want, run};
use weir_packet::{
    Block, BpfInstruction, Burst, KernelFilter, LinkType, PacketMeta, Poll, Source, SourceError, Timestamp,
};
use weir_sessions::ProtocolSet;

/// Maximum number of packets of one input, which form one burst.
const PACKETS_MAX: usize = 32;

/// The packets of an input, in one burst.
struct Once(Option<Burst>);

impl Source for Once {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        *burst = self.0.take().unwrap_or_default();
        Ok(if burst.packets.is_empty() { Poll::End } else { Poll::Packets })
    }
}

/// Checks bytes as the part of a filter for the kernel: the verdict does not matter.
pub fn fuzz_part(bytes: &[u8]) {
    let part: Vec<_> = bytes.as_chunks().0.iter().map(|bytes| BpfInstruction::from_bytes(*bytes)).collect();
    let filter = KernelFilter { frame: part.clone(), copy: part };
    for words in [None, Some([3, 8, 64])] {
        let _ = weir::link::trial::check(&filter, words);
    }
}

/// Reads `bytes` as a filter, a line end, and packets. A packet begins with two bytes: the lower eleven bits
/// are the number of its captured bytes, which follow; the upper five bits are the number of bytes that were
/// cut off.
///
/// # Panics
/// If the two engines differ, or the packet counters do not add up.
pub fn fuzz_program(bytes: &[u8]) {
    static COMPILER: OnceLock<Compiler> = OnceLock::new();
    let compiler = COMPILER.get_or_init(Compiler::default);
    let end = bytes.iter().position(|&b| b == b'\n').unwrap_or(bytes.len());
    let Ok(filter) = std::str::from_utf8(&bytes[..end]) else { return };
    let burst = read_packets(bytes.get(end + 1..).unwrap_or_default());
    let ask = |want| Ask { filter: filter.to_string(), need: Need::default(), want };
    let asks = [ask(Want::Packets), ask(Want::Connections), ask(Want::Sessions(ProtocolSet::of(0)))];
    let plain =
        Options { engine: Executor::Interpreter, without_passes: vec!["all".into()], ..Options::default() };
    let Ok(reference) = compiler.compile(&asks, &plain) else { return };
    let native = compiler.compile(&asks, &Options::default()).expect("it compiles for the interpreter");
    assert_eq!(answer(compiler, &native, &burst), answer(compiler, &reference, &burst), "{filter:?}");
}

fn read_packets(mut rest: &[u8]) -> Burst {
    let mut bytes = vec![];
    let mut packets = vec![];
    while let [high, low, tail @ ..] = rest
        && packets.len() < PACKETS_MAX
    {
        let head = u16::from_be_bytes([*high, *low]);
        let (data, next) = tail.split_at(usize::from(head & 0x7ff).min(tail.len()));
        rest = next;
        let number = packets.len() as u64 + 1;
        packets.push(PacketMeta {
            time: Timestamp(number as i64 * 1_000_000),
            number,
            offset: bytes.len() as u32,
            captured_bytes: data.len() as u32,
            wire_bytes: data.len() as u32 + u32::from(head >> 11),
            link: LinkType::ETHERNET,
            interface: 0,
        });
        bytes.extend(data);
    }
    Burst { block: Arc::new(Block::shared(bytes)), packets, ..Burst::default() }
}

fn answer(compiler: &Compiler, compiled: &Compiled, burst: &Burst) -> Vec<String> {
    let mut items = vec![];
    let mut each = |question: usize, item: Item<'_>| {
        items.push(format!("{question} {item:?}"));
        Ok::<(), Infallible>(())
    };
    let mut source = Once(Some(burst.clone()));
    let shapes = [Shape::default(); 3];
    let Ok(outcome) = run(compiler, compiled, &mut source, &shapes, 1, &mut each, &mut |_| {});
    assert_eq!(outcome.counters.packet.packets, burst.packets.len() as u64);
    assert_eq!(outcome.counters.adds_up(0), Ok(()));
    items
}
