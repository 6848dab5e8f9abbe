//! The packets of a stream: every byte of a chunk came in one packet, which is reported with the chunk, in
//! byte order.

use crate::properties::drive::{MemoryPacket, run_streams, seeds};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use weir::stream::{Chunk, ChunkParams, OverloadParams, Stream, StreamHandler, StreamParams};
use weir::{Compiler, Engine, Options, Policies, Policy};
use weir_testing::Random;
use weir_testing::frames::{ACK, SYN, V4, ethernet, ipv4, tcp, udp};
use weir_testing::traffic::{Conversation, Network, conversation, mix};

/// Parses TCP in an unfragmented frame: ports, sequence number of the first byte, offset of the payload.
fn segment_of(frame: &[u8]) -> Option<((u32, u32), u32, usize)> {
    let at = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let tcp = match at(12) {
        0x0800 if frame[23] == 6 && at(20) & 0x3fff == 0 => 14 + usize::from(frame[14] & 15) * 4,
        0x86dd if frame[20] == 6 => 54,
        _ => return None,
    };
    let seq = u32::from(at(tcp + 4)) << 16 | u32::from(at(tcp + 6));
    let is_syn = u32::from(frame[tcp + 13] & SYN != 0);
    let payload = tcp + usize::from(frame[tcp + 12] >> 4) * 4;
    Some(((u32::from(at(tcp)), u32::from(at(tcp + 2))), seq.wrapping_add(is_syn), payload))
}

/// Compares each chunk with the capture.
struct Checker {
    capture: Arc<Vec<MemoryPacket>>,
    /// Sequence number of each stream's first byte, by ports.
    first: Arc<HashMap<(u32, u32), u32>>,
    /// Memory is limited, so some packets are not reported.
    is_short: bool,
    /// Streams with a chunk, by ports; and those that were ended early for lack of memory, and began again:
    /// the offsets of these count from another byte.
    begun: HashSet<(u32, u32)>,
    begun_again: HashSet<(u32, u32)>,
    wrong: Vec<String>,
    /// Packets reported; packets compared byte by byte; packets reported again.
    told: usize,
    exact: usize,
    again: usize,
}

impl Checker {
    /// Checks a chunk. Returns the first error.
    fn check(
        &mut self,
        seen: &mut HashSet<u64>,
        ports: (u32, u32),
        chunk: &Chunk<'_>,
    ) -> Result<(), &'static str> {
        let mut end = 0;
        if seen.is_empty() && !self.begun.insert(ports) && self.is_short {
            self.begun_again.insert(ports);
        }
        for packet in chunk.packets() {
            let number = packet.meta.number;
            let captured = &self.capture[number as usize - 1];
            let is_it =
                packet.meta.time.0 == captured.time.0 && packet.meta.wire_bytes == captured.wire_bytes;
            if packet.frame != captured.frame || !is_it {
                return Err("it is another packet");
            }
            if packet.bytes.start != end || packet.bytes.is_empty() {
                return Err("bytes are of no packet, or of two");
            }
            end = packet.bytes.end;
            let is_new = seen.insert(number);
            // Packets dropped for lack of memory also count as reported.
            if !is_new && !packet.is_repeated || is_new && packet.is_repeated && !self.is_short {
                return Err("it was told of before, or was not");
            }
            (self.told, self.again) = (self.told + 1, self.again + usize::from(packet.is_repeated));
            let Some((_, seq, payload)) = segment_of(packet.frame) else { continue };
            if self.begun_again.contains(&ports) {
                continue;
            }
            let offset = (chunk.offset as u32).wrapping_add(packet.bytes.start as u32);
            let skip = offset.wrapping_sub(seq.wrapping_sub(self.first[&ports])) as usize;
            let brought = packet.frame.get(payload..).and_then(|all| all.get(skip..)).unwrap_or(&[]);
            if !brought.starts_with(&chunk.bytes[packet.bytes]) {
                return Err("it did not bring these bytes");
            }
            self.exact += 1;
        }
        if end == chunk.bytes.len() { Ok(()) } else { Err("the last bytes are of no packet") }
    }
}

impl StreamHandler for Checker {
    type State = HashSet<u64>;

    fn data(&mut self, seen: &mut HashSet<u64>, stream: &mut Stream<'_, '_>, chunk: &Chunk<'_>) {
        let [from, to] = stream.endpoints();
        if let Err(wrong) = self.check(seen, (from.1, to.1), chunk) {
            self.wrong.push(format!(
                "{:?} at {}: {wrong}: {:?}",
                (from.1, to.1),
                chunk.offset,
                chunk
                    .packets()
                    .map(|packet| (packet.meta.number, packet.bytes, packet.is_repeated))
                    .collect::<Vec<_>>()
            ));
        }
        if chunk.offset.is_multiple_of(5) {
            stream.keep_chunk();
        }
    }
}

const BAD: Network = Network { repeats: true, loses: true, reorders: true, fragments: false, cuts: false };

/// Packets reported, compared byte by byte and reported again, as in `Checker`, and the outcome of the run.
fn check(
    network: Network,
    options: &Options,
    seed: u64,
    params: StreamParams,
) -> ([usize; 3], weir::Outcome) {
    let mut random = Random::new(seed);
    let conversations: Vec<Conversation> =
        (0..4).map(|index| conversation(&mut random, (40_000 + index, 443), network)).collect();
    let capture = Arc::new(mix(&mut random, &conversations));
    let mut first = HashMap::new();
    for (ports, seq, _) in capture.iter().filter_map(|packet| segment_of(&packet.frame)) {
        first.entry(ports).or_insert(seq);
    }
    let (packets, first) = (Arc::clone(&capture), Arc::new(first));
    let mut streams = Engine::with(Compiler::default(), options.clone());
    let is_short = options.overload.memory_max < OverloadParams::default().memory_max;
    let checker = move || Checker {
        capture: Arc::clone(&packets),
        first: Arc::clone(&first),
        is_short,
        begun: HashSet::new(),
        begun_again: HashSet::new(),
        wrong: vec![],
        told: 0,
        exact: 0,
        again: 0,
    };
    let params = StreamParams { packets: true, ..params };
    let checked = streams.subscribe_streams("tcp", params, checker).expect("the filter is right");
    let outcome = run_streams(&streams, &capture);
    let one = outcome.handlers.of::<Checker>(checked)[0];
    assert_eq!(one.wrong, Vec::<String>::new(), "seed {seed}, {params:?}");
    ([one.told, one.exact, one.again], outcome)
}

fn random_params(random: &mut Random) -> StreamParams {
    let cutoff = [0, 1].map(|_| random.pick(&[1, 100, 3000, u64::MAX, u64::MAX]));
    let bytes = random.pick(&[1, 7, 64, 1000, 16_384]);
    let overlap = random.below(u64::from(bytes)) as u32;
    let flush_ns = random.pick(&[0, 1, 20_000]);
    let chunk = (!random.once_in(4)).then_some(ChunkParams { bytes, overlap, flush_ns });
    StreamParams { cutoff, chunk, ..StreamParams::default() }
}

#[test]
fn every_byte_came_in_the_packet_that_is_told_with_it() {
    let mut sums = [0; 3];
    for seed in seeds(0..80) {
        let network =
            Network { fragments: seed % 4 == 0, cuts: seed % 4 == 1, repeats: seed % 4 != 1, ..BAD };
        let params = random_params(&mut Random::new(!seed));
        let (counts, _) = check(network, &Options::default(), seed, params);
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    let [told, exact, again] = sums;
    assert!(told > 10_000 && exact > told * 9 / 10 && again > 1000, "{sums:?}");
}

/// Memory stays within its limit, packets included, and the reported packets are still correct.
#[test]
fn packets_count_in_the_memory_of_streams() {
    const MEMORY: usize = 24 << 10;
    let chunk = Some(ChunkParams { bytes: 16 << 10, overlap: 0, flush_ns: 0 });
    let params = StreamParams { chunk, ..StreamParams::default() };
    let (mut peak, mut lost, mut copied) = ([0, 0], 0, 0);
    for seed in seeds(0..30) {
        let plenty = check(BAD, &Options::default(), seed, params).1;
        peak[0] = peak[0].max(plenty.counters.stream.stream_bytes_peak);
        let overload = OverloadParams { memory_max: MEMORY, ..OverloadParams::default() };
        let short = check(BAD, &Options { overload, ..Options::default() }, seed, params).1.counters;
        peak[1] = peak[1].max(short.stream.stream_bytes_peak);
        lost += short.stream.stream_bytes_dropped + short.stream.stream_segments_dropped;
        copied += short.sequence.copied;
    }
    assert!(peak[0] > MEMORY as u64 && peak[1] <= MEMORY as u64, "{peak:?}");
    assert!(lost > 0 && copied > 0, "{lost} were lost, {copied} frames copied");
}

/// For each packet: its number, its bytes in the chunk, whether it was reported before.
#[derive(Default)]
struct Log(Vec<Vec<(u64, String, bool)>>);

impl StreamHandler for Log {
    type State = ();

    fn data(&mut self, (): &mut (), _: &mut Stream<'_, '_>, chunk: &Chunk<'_>) {
        let text = |range| String::from_utf8_lossy(&chunk.bytes[range]).into_owned();
        self.0.push(chunk.packets().map(|p| (p.meta.number, text(p.bytes), p.is_repeated)).collect());
    }
}

/// The reported packets for the originator's segments (offset and text each), after a handshake of two
/// packets.
fn log(segments: &[(u32, &str)], params: StreamParams, policy: Policy) -> Vec<Vec<(u64, String, bool)>> {
    let frame = |orig: bool, segment: &[u8]| {
        let ends = if orig { (V4[0], V4[1]) } else { (V4[1], V4[0]) };
        MemoryPacket::ethernet(ethernet(0x0800, &ipv4(ends, 6, 7, 0, &[], segment)))
    };
    let mut capture = vec![
        frame(true, &tcp((4000, 80), 99, 0, SYN, &[], &[])),
        frame(false, &tcp((80, 4000), 299, 100, SYN | ACK, &[], &[])),
    ];
    for (at, text) in segments {
        capture.push(frame(true, &tcp((4000, 80), 100 + at, 300, ACK, &[], text.as_bytes())));
    }
    let options = Options { policies: Policies::new(policy), ..Options::default() };
    let mut streams = Engine::with(Compiler::default(), options);
    let log = streams.subscribe_streams("", params, Log::default).expect("the filter is right");
    let outcome = run_streams(&streams, &capture);
    outcome.handlers.of::<Log>(log)[0].0.clone()
}

const PACKETS: StreamParams =
    StreamParams { cutoff: [u64::MAX; 2], chunk: None, priority: 0, is_class: false, packets: true };

/// Expected entry for the packet of the segment with this number, from 1.
fn one(segment: u64, text: &str, is_repeated: bool) -> (u64, String, bool) {
    (segment + 2, text.to_string(), is_repeated)
}

#[test]
fn packets_come_in_the_order_of_their_bytes() {
    // An acknowledgement, two out-of-order segments, one that splits the second in two, the first, and a
    // repetition.
    let segments = [(0, ""), (4, "ee"), (2, "ccddeeff"), (0, "aabb"), (0, "aa"), (8, "ffgg")];
    let told = log(&segments, PACKETS, Policy::First);
    let wanted = [
        vec![one(4, "aa", false)],
        vec![one(3, "cc", false)],
        vec![one(2, "ee", false)],
        vec![one(3, "eeff", true)],
        vec![one(6, "gg", false)],
    ];
    assert_eq!(told, wanted);
}

#[test]
fn whose_bytes_count_is_whose_packet_is_told_of() {
    let segments = [(4, "oooo"), (2, "nnnn"), (0, "aa")];
    let told = |policy| log(&segments, PACKETS, policy).concat();
    assert_eq!(told(Policy::First), [one(3, "aa", false), one(2, "nn", false), one(1, "oooo", false)]);
    assert_eq!(told(Policy::Last), [one(3, "aa", false), one(2, "nnnn", false), one(1, "oo", false)]);
}

#[test]
fn a_packet_at_a_chunk_s_border_is_in_both() {
    let chunk = Some(ChunkParams { bytes: 4, overlap: 1, flush_ns: 0 });
    let told = log(&[(0, "aab"), (3, "cd"), (5, "e")], StreamParams { chunk, ..PACKETS }, Policy::First);
    let wanted =
        [vec![one(1, "aab", false), one(2, "c", false)], vec![one(2, "cd", true), one(3, "e", false)]];
    assert_eq!(told, wanted);
}

#[test]
fn nothing_beyond_the_cutoff_and_nothing_unasked() {
    let segments = [(0, "aab"), (3, "cd"), (5, "e")];
    let told = log(&segments, StreamParams { cutoff: [4; 2], ..PACKETS }, Policy::First);
    assert_eq!(told, [vec![one(1, "aab", false)], vec![one(2, "c", false)]]);
    let told = log(&segments, StreamParams { packets: false, ..PACKETS }, Policy::First);
    assert_eq!(told, vec![vec![]; 3]);
}

#[test]
fn datagrams_have_packets_too() {
    let frame = |text: &str| {
        let datagram = udp((4000, 53), text.as_bytes());
        MemoryPacket::ethernet(ethernet(0x0800, &ipv4((V4[0], V4[1]), 17, 7, 0, &[], &datagram)))
    };
    let mut streams = Engine::new();
    let chunk = Some(ChunkParams { bytes: 100, overlap: 0, flush_ns: 0 });
    let log = streams
        .subscribe_streams("udp", StreamParams { chunk, ..PACKETS }, Log::default)
        .expect("the filter is right");
    let capture = [frame("one"), frame(""), frame("three")];
    let outcome = run_streams(&streams, &capture);
    let told = &outcome.handlers.of::<Log>(log)[0].0;
    assert_eq!(told[..], [vec![(1, "one".to_string(), false), (3, "three".to_string(), false)]]);
}
