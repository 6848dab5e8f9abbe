//! Fragments match with their datagram: how the frames of a capture are fragmented does not change which
//! datagrams match, and all fragments of a datagram that matches are delivered, in capture order.

use crate::properties::drive::{
    FIRST_LIGHT, MemoryPacket, ask, compile, in_memory, read_capture, rows, seeds,
};
use std::collections::BTreeSet;
use weir::packet::{DropReason, PacketMeta, Timestamp};
use weir::{Compiler, Engine, Executor, Handler, Limits, Options, Outcome, Want};
use weir_testing::Random;
use weir_testing::frames::{self, V4, V6, ethernet, ipv4, ipv6, ipv6_fragment, udp};

/// The frames of a capture, each with the number of the datagram that it is a part of.
type Parts = Vec<(usize, MemoryPacket)>;

/// How often datagrams were cut, for the tests of the tests.
#[derive(Debug, Default)]
struct Cuts {
    cut: usize,
    nested: usize,
    shuffled: usize,
    /// Fragments keep their order, and the first one has the whole header of the transport layer.
    in_order: bool,
}

/// A frame as fragments in random order: IP headers, also inside tunnels, are cut at random places.
fn cut(random: &mut Random, ip: &[u8], id: u32, cuts: &mut Cuts) -> Vec<Vec<u8>> {
    let is_v4 = ip[0] >> 4 == 4;
    let (header, next) = if is_v4 { (usize::from(ip[0] & 15) * 4, ip[9]) } else { (40, ip[6]) };
    let is_plain = if is_v4 { ip[6] & 0x3f == 0 && ip[7] == 0 } else { !matches!(next, 0 | 43 | 44 | 60) };
    let length = usize::from(u16::from_be_bytes(if is_v4 { [ip[2], ip[3]] } else { [ip[4], ip[5]] }));
    let length = if is_v4 { length } else { 40 + length };
    if !is_plain || header < 20 || ip.len() < length || length <= header + 8 || random.once_in(4) {
        return vec![ip.to_vec()];
    }
    let payload = &ip[header..length];
    let shortest = if cuts.in_order { 5 } else { 1 };
    let step = 8 * (shortest + random.below(payload.len() as u64 / 8)) as usize;
    let count = payload.chunks(step).count();
    let fragment = |(n, bytes): (usize, &[u8])| {
        let (at, more) = ((n * step) as u16, n + 1 < count);
        if is_v4 {
            let mut out = ip[..header].to_vec();
            out[2..4].copy_from_slice(&((header + bytes.len()) as u16).to_be_bytes());
            out[4..6].copy_from_slice(&(id as u16).to_be_bytes());
            out[6..8].copy_from_slice(&((at / 8) | if more { 0x2000 } else { 0 }).to_be_bytes());
            [&out, bytes].concat()
        } else {
            let mut out = ip[..40].to_vec();
            out[4..6].copy_from_slice(&((8 + bytes.len()) as u16).to_be_bytes());
            out[6] = 44;
            [out, ipv6_fragment(next, at, more, id, bytes)].concat()
        }
    };
    let mut fragments: Vec<Vec<u8>> = payload.chunks(step).enumerate().map(fragment).collect();
    cuts.cut += usize::from(count > 1);
    if count > 1 && !cuts.in_order && random.once_in(2) {
        let last = fragments.remove(random.below(count as u64) as usize);
        fragments.insert(random.below(count as u64) as usize, last);
        cuts.shuffled += 1;
    }
    fragments
}

/// The IP packet inside a tunnel of a random kind, between routers.
fn tunnelled(kind: u64, ip: &[u8]) -> Vec<u8> {
    let is_v4 = ip[0] >> 4 == 4;
    let etype: u16 = if is_v4 { 0x0800 } else { 0x86dd };
    let (four, six) = ((V4[2], V4[3]), (V6[0], V6[1]));
    match kind {
        0 => ipv4(four, if is_v4 { 4 } else { 41 }, 0, 0, &[], ip),
        1 => ipv6(six, if is_v4 { 4 } else { 41 }, ip),
        2 => ipv4(four, 47, 0, 0, &[], &[&[0, 0], &etype.to_be_bytes()[..], ip].concat()),
        _ => {
            let inner = [&[8, 0, 0, 0, 0, 0, 5, 0], &ethernet(etype, ip)[..]].concat();
            ipv4(four, 17, 0, 0, &[], &udp((5555, 4789), &inner))
        }
    }
}

/// The same datagrams whole and in fragments; some run in tunnels, which are fragmented, too. Datagrams
/// become complete in the order of `packets`, and at their times; earlier fragments may come among those of
/// other datagrams.
fn fragmented(random: &mut Random, packets: &[MemoryPacket], cuts: &mut Cuts) -> (Vec<MemoryPacket>, Parts) {
    let (mut whole, mut parts) = (vec![], Parts::new());
    for (number, packet) in packets.iter().enumerate() {
        let etype = u16::from_be_bytes([packet.frame[12], packet.frame[13]]);
        let ip = &packet.frame[14..];
        // Packets of one connection run in the same tunnel.
        let kind = u64::from(ip.iter().skip(12).take(8).fold(0, |sum, byte| sum ^ byte) % 8);
        if !matches!(etype, 0x0800 | 0x86dd) || ip.len() < 40 {
            whole.push(packet.clone());
            parts.push((number, packet.clone()));
            continue;
        }
        let frame = |ip: &[u8]| {
            let etype = if ip[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
            let frame = ethernet(etype, ip);
            MemoryPacket { frame: frame.clone(), wire_bytes: frame.len() as u32, ..packet.clone() }
        };
        let id = number as u32 * 64;
        let mut pieces = cut(random, ip, id, cuts);
        let mut all = ip.to_vec();
        if kind < 4 {
            all = tunnelled(kind, &all);
            let inner = pieces.len();
            let outer =
                pieces.iter().zip(1..).map(|(piece, n)| cut(random, &tunnelled(kind, piece), id + n, cuts));
            let outer: Vec<Vec<Vec<u8>>> = outer.collect();
            cuts.nested += usize::from(inner > 1 && outer.iter().any(|pieces| pieces.len() > 1));
            pieces = outer.concat();
        }
        whole.push(frame(&all));
        let (last, early) = pieces.split_last().expect("there is one");
        for piece in early {
            // Not before another fragment of the datagram: that could complete an outer datagram later.
            let at = parts.iter().rposition(|(of, _)| *of == number).map_or(0, |at| at + 1);
            let at = at.max(parts.len().saturating_sub(random.below(6) as usize));
            let time = parts.get(at).map_or(packet.time, |(_, next)| next.time);
            parts.insert(at, (number, MemoryPacket { time, ..frame(piece) }));
        }
        parts.push((number, frame(last)));
    }
    (whole, parts)
}

/// The numbers, from 0, of the packets that a filter selects; the engines and numbers of workers agree.
fn selected(filter: &str, packets: &[MemoryPacket], workers: usize) -> Option<(Vec<usize>, Outcome)> {
    let compiler = Compiler::default();
    let mut all = vec![];
    for (engine, workers) in [(Executor::Native, 1), (Executor::Interpreter, workers)] {
        let options = Options { engine, ..Options::default() };
        // Filters that can never match are refused.
        let compiled = compiler.compile(&[ask(filter, Want::Packets)], &options).ok()?;
        let (rows, outcome) = rows(&compiler, &compiled, packets, workers);
        let number = |row: &String| row.strip_prefix("0 packet ").unwrap().parse::<usize>().unwrap() - 1;
        let numbers: Vec<usize> = rows.iter().map(number).collect();
        assert_eq!(numbers.len() as u64, outcome.matched[0], "{filter}");
        assert!(numbers.is_sorted_by(|a, b| a < b), "{filter}: in capture order, each once");
        all.push((numbers, outcome));
    }
    let (other, one) = (all.pop()?, all.pop()?);
    // Fragments that come too early, or are too short, are announced: see
    // `workers::differences_are_announced`.
    if other.1.counters.dispatch.packets_astray == 0 {
        assert_eq!(one.0, other.0, "{filter}, {workers} workers");
    }
    Some(one)
}

/// Predicates whose value does not depend on how a datagram is fragmented.
const PREDICATES: [&str; 17] = [
    "tcp",
    "udp",
    "tcp.port == 443",
    "tcp.port != 443",
    "udp.port == 53",
    "udp.port == 4789",
    "tcp.flags.syn == 1",
    "tcp.flags.fin == 1",
    "gre",
    "vxlan.vni == 5",
    "icmp",
    "conn.orig_bytes > 500",
    "conn.conn_state == \"SF\"",
    "conn.resp_pkts > 8",
    "tls",
    "tls.sni contains \"a\"",
    "dns.query contains \"www\"",
];

fn filter(random: &mut Random, depth: u32) -> String {
    if depth == 0 || random.once_in(4) {
        return random.pick(&PREDICATES).to_string();
    }
    let left = filter(random, depth - 1);
    match random.below(3) {
        0 => format!("(({left}) and ({}))", filter(random, depth - 1)),
        1 => format!("(({left}) or ({}))", filter(random, depth - 1)),
        _ => format!("not ({left})"),
    }
}

/// The datagrams that are selected whole, and the frames that belong to them.
fn expected(filter: &str, whole: &[MemoryPacket], parts: &Parts) -> Option<Vec<usize>> {
    let (datagrams, _) = selected(filter, whole, 1)?;
    let datagrams: BTreeSet<usize> = datagrams.into_iter().collect();
    let frames = parts.iter().enumerate().filter(|(_, (of, _))| datagrams.contains(of));
    Some(frames.map(|(number, _)| number).collect())
}

fn frames_of(parts: &Parts) -> Vec<MemoryPacket> {
    parts.iter().map(|(_, frame)| frame.clone()).collect()
}

#[test]
fn all_fragments_of_the_datagrams_that_match_are_delivered() {
    let shipped = read_capture(FIRST_LIGHT);
    let (mut cuts, mut asked, mut some, mut distributed) = (Cuts::default(), 0, 0, 0);
    for seed in seeds(0..14) {
        let mut random = Random::new(seed);
        cuts.in_order = seed % 2 == 0;
        let start = random.below(shipped.len() as u64 - 250) as usize;
        let (whole, parts) = fragmented(&mut random, &shipped[start..start + 250], &mut cuts);
        let frames = frames_of(&parts);
        for _ in 0..4 {
            let filter = filter(&mut random, 2);
            let Some(wanted) = expected(&filter, &whole, &parts) else { continue };
            let (found, outcome) = selected(&filter, &frames, 3).unwrap();
            assert_eq!(found, wanted, "seed {seed}: {filter}");
            assert_eq!(outcome.counters.packet.undecided, 0);
            asked += 1;
            some += usize::from(!wanted.is_empty() && wanted.len() < frames.len());
        }
        // Where fragments are shuffled, or a tunnel joins connections, packets go astray.
        distributed += usize::from(is_distributed(&frames));
    }
    assert!(cuts.cut > 1000 && cuts.nested > 100 && cuts.shuffled > 250, "{cuts:?}");
    assert!(
        asked > 45 && some > 20 && distributed > 2,
        "{asked} asked, {some} selected a part, {distributed}"
    );
}

/// Whether three workers give the results of one.
fn is_distributed(frames: &[MemoryPacket]) -> bool {
    let compiler = Compiler::default();
    let compiled = compile(&compiler, &[ask("udp", Want::Packets)], &Options::default());
    rows(&compiler, &compiled, frames, 3).1.counters.dispatch.packets_astray == 0
}

/// A datagram that lacks a fragment is never complete: each of its fragments is a packet of its own.
#[test]
fn fragments_of_incomplete_datagrams_match_as_they_do_alone() {
    let (mut lost, compiler) = (0, Compiler::default());
    for seed in seeds(0..10) {
        let mut random = Random::new(seed);
        let mut packets = vec![];
        for number in 0..60 {
            let bytes = frames::noise(&mut random, 200);
            let ends = (random.pick(&V4), random.pick(&V4));
            let ports = (random.pick(&frames::PORTS), random.pick(&frames::PORTS));
            let ip = ipv4(ends, 17, 0, 0, &[], &udp(ports, &bytes));
            let time = Timestamp(number * 1_000_000_000);
            packets.push(MemoryPacket { time, ..MemoryPacket::ethernet(ethernet(0x0800, &ip)) });
        }
        let (_, mut parts) = fragmented(&mut random, &packets, &mut Cuts::default());
        // Datagrams in the second half keep fewer fragments than they have; the rest of the capture lets them
        // expire.
        let of = |parts: &Parts, number| parts.iter().filter(|(of, _)| *of == number).count();
        let mut incomplete = BTreeSet::new();
        for number in (0..60).filter(|number| number % 3 == 0) {
            if of(&parts, number) > 1 {
                let at = parts.iter().position(|(of, _)| *of == number).unwrap();
                parts.remove(at);
                incomplete.insert(number);
            }
        }
        lost += incomplete.len();
        let frames = frames_of(&parts);
        for filter in
            ["udp.port == 53", "not udp.port == 53", "udp", "not udp", "udp.port != 53", "ip", "not dns"]
        {
            let (found, _) = selected(filter, &frames, 2).unwrap();
            let compiled = compile(&compiler, &[ask(filter, Want::Packets)], &Options::default());
            for (number, (datagram, frame)) in parts.iter().enumerate() {
                if incomplete.contains(datagram) && is_alone(&parts, number) {
                    let alone = rows(&compiler, &compiled, std::slice::from_ref(frame), 1).0;
                    assert_eq!(found.contains(&number), !alone.is_empty(), "seed {seed}, {filter}: {number}");
                }
            }
        }
    }
    assert!(lost > 50, "{lost}");
}

/// No outer datagram is complete in the frame: the frame does not belong to a tunnel.
fn is_alone(parts: &Parts, number: usize) -> bool {
    let ip = &parts[number].1.frame[14..];
    ip[0] >> 4 == 4 && ip[9] == 17 && ip[12..16] != V4[2]
}

/// A fragment of a UDP datagram between the first two addresses.
fn fragment(id: u16, at: u16, more: bool, bytes: &[u8]) -> MemoryPacket {
    let place = (at / 8) | if more { 0x2000 } else { 0 };
    MemoryPacket::ethernet(ethernet(0x0800, &ipv4((V4[0], V4[1]), 17, id, place, &[], bytes)))
}

/// The two fragments of a datagram from port 53.
fn two(id: u16) -> [MemoryPacket; 2] {
    let datagram = udp((53, 4000), b"sixteen bytes ok");
    [fragment(id, 0, true, &datagram[..16]), fragment(id, 16, false, &datagram[16..])]
}

fn at(seconds: i64, packet: MemoryPacket) -> MemoryPacket {
    MemoryPacket { time: Timestamp(seconds * 1_000_000_000), ..packet }
}

fn numbers(filter: &str, packets: &[MemoryPacket]) -> Vec<usize> {
    selected(filter, packets, 2).unwrap().0
}

#[test]
fn each_fragment_tests_its_own_headers() {
    let [first, last] = two(7);
    let packets = [first, last];
    // Headers up to the datagram: no fragment waits for the others.
    for (filter, wanted) in [
        ("ip.flags.mf == 1", vec![0]),
        ("ip.flags.mf == 0", vec![1]),
        ("not ip.flags.mf == 1", vec![1]),
        ("ip.frag_offset > 0", vec![1]),
        ("frame.len > 45", vec![0]),
        ("ip.src == 10.0.0.1", vec![0, 1]),
        ("ip.src == 10.0.0.9", vec![]),
        ("ip.datagram", vec![1]),
        ("frame satisfies \"udp port 53\"", vec![0]),
        ("", vec![0, 1]),
    ] {
        let (found, outcome) = selected(filter, &packets, 1).unwrap();
        assert_eq!((found, outcome.memory.held_packets), (wanted, 0), "{filter}");
    }
    for (filter, wanted) in [
        ("udp.port == 53", vec![0, 1]),
        ("udp.port == 54", vec![]),
        ("not udp.port == 53", vec![]),
        ("udp.port != 53", vec![]),
        ("not udp.port != 53", vec![0, 1]),
        ("not tcp", vec![0, 1]),
        ("udp.datagram", vec![0, 1]),
        ("ip.flags.mf == 1 or tcp", vec![0]),
        ("ip.flags.mf == 0 and udp", vec![1]),
        ("frame.len > 45 or udp.port == 54", vec![0]),
    ] {
        assert_eq!(numbers(filter, &packets), wanted, "{filter}");
    }
}

#[test]
fn the_fragments_of_a_question_about_connections_are_not_held() {
    let compiler = Compiler::default();
    for want in [Want::Connections, Want::Events] {
        let compiled = compile(&compiler, &[ask("udp.port == 53", want)], &Options::default());
        let (_, outcome) = rows(&compiler, &compiled, &two(7), 1);
        assert_eq!(outcome.memory.held_packets, 0);
        assert!(!compiled.plan().holds_packets(), "{want:?}");
    }
}

#[test]
fn repeated_and_overlapping_fragments_are_parts_of_their_datagram() {
    let datagram = udp((53, 4000), b"twenty-four bytes are ok");
    let piece = |from: usize, to: usize| fragment(7, from as u16, to < 32, &datagram[from..to]);
    // The first fragment is repeated, another one overlaps it; what comes after the datagram is complete is
    // not of it.
    let packets = [piece(16, 32), piece(8, 24), piece(8, 24), piece(0, 16), piece(16, 32)];
    assert_eq!(numbers("udp.port == 53", &packets), [0, 1, 2, 3]);
    assert_eq!(numbers("not udp", &packets), [4]);
}

#[test]
fn packets_behind_a_fragment_leave_when_its_datagram_has_expired() {
    let (one, [first, _]) = (udp((53, 4000), b"one"), two(7));
    let other = |second| {
        at(second, MemoryPacket::ethernet(ethernet(0x0800, &ipv4((V4[2], V4[3]), 17, 9, 0, &[], &one))))
    };
    let mut packets = vec![at(0, first)];
    packets.extend((1..100).map(other));
    let wanted: Vec<usize> = (1..100).collect();
    let (found, outcome) = selected("udp.port == 53", &packets, 1).unwrap();
    assert_eq!(found, wanted);
    assert_eq!(outcome.counters.packet.undecided, 0, "the datagram expired");
    let frame_bytes = packets[1].frame.len() as u64 + 1000;
    assert!(
        outcome.memory.held_packets < 60 * frame_bytes,
        "packets left after 30 s: {}",
        outcome.memory.held_packets
    );
    // The number of the datagram is used again: the new fragments are not held with the old one.
    let [again, rest] = two(7);
    packets.extend([at(200, again), at(200, rest)]);
    assert_eq!(numbers("udp.port == 53", &packets), [wanted, vec![100, 101]].concat());
}

#[test]
fn fragments_beyond_the_bounds_are_given_up_and_counted() {
    // The second fragments of the first datagrams come last.
    let order = (0..100).map(|id| (id, 0)).chain((40..100).chain(0..40).map(|id| (id, 1)));
    let packets: Vec<MemoryPacket> = order.map(|(id, part): (u16, usize)| two(id)[part].clone()).collect();
    let compiler = Compiler::default();
    let few = Limits { held_packets_max: 60, ..Limits::default() };
    let small = Limits { held_bytes_max: 20_000, ..Limits::default() };
    for limits in [few, small] {
        for workers in [1, 3] {
            let options = Options { limits, ..Options::default() };
            let compiled = compile(&compiler, &[ask("udp.port == 53", Want::Packets)], &options);
            let (rows, outcome) = rows(&compiler, &compiled, &packets, workers);
            let given_up = outcome.counters.packet.undecided as usize;
            assert!(given_up == 40 || limits == small && (1..=100).contains(&given_up), "{given_up}");
            assert_eq!(rows.len(), 200 - given_up);
            assert_eq!(rows.last().unwrap(), "0 packet 200");
            assert_eq!(outcome.counters.drops.of(DropReason::FragmentWaiting), given_up as u64);
        }
    }
    // The table has room for one datagram: the fragments of a datagram that ends early are decided at once.
    let options = Options { limits: Limits { flows_max: 1, ..Limits::default() }, ..Options::default() };
    let packets: Vec<MemoryPacket> =
        (0..).zip(packets).map(|(second, packet)| at(second / 10, packet)).collect();
    let compiled = compile(&compiler, &[ask("udp.port == 53", Want::Packets)], &options);
    let (rows, outcome) = rows(&compiler, &compiled, &packets, 1);
    assert!(rows.len() < 10 && outcome.counters.packet.undecided == 0, "{rows:?}");
}

/// Flow tables, streams and held packets share one budget.
#[test]
fn held_fragments_count_in_the_memory_of_a_run() {
    let compiler = Compiler::default();
    let plan = |filter| compile(&compiler, &[ask(filter, Want::Packets)], &Options::default());
    let [with, without] = ["udp", "frame.len > 9"].map(plan);
    let memory_max = without.plan().overload.memory_max;
    let share = with.plan().limits.held_bytes_max;
    assert!(share > 0 && with.plan().overload.memory_max == memory_max - share);
}

const SHARDS: &str = "
//! A piece of a note
protocol shard {
    header { id: u8  at: u8  more: u8 }
    payload = rest
    instance (id)
    sequence at at of payload from 0
    states { some: start accept  all: accept }
    on last: some -> all when ordered.more == 0
    timeout 5s
    event complete on last { assemble }
}
//! A note
protocol note {
    header { kind: u8 }
}
//! Over UDP
stack shards extends internet { udp -> shard when dst_port == 7777  shard -> note }
";

#[test]
fn layers_of_the_user_are_datagrams_like_those_of_ip() {
    let shard = |id, at, more, bytes: &[u8]| {
        let shard = [&[id, at, more], bytes].concat();
        let packet = ipv4((V4[0], V4[1]), 17, 9, 0, &[], &udp((4000, 7777), &shard));
        MemoryPacket::ethernet(ethernet(0x0800, &packet))
    };
    // The instance stays when it is complete: the last shard waits for more, until the instance expires.
    let packets = [
        shard(1, 0, 1, &[5, 0]),
        shard(2, 2, 0, &[9]),
        shard(1, 2, 0, &[1]),
        shard(2, 0, 1, &[6, 0]),
        shard(1, 2, 0, &[1]),
    ];
    let mut compiler = Compiler::default();
    compiler.add("shards.weir", SHARDS).unwrap_or_else(|wrong| panic!("{wrong}"));
    for engine in [Executor::Interpreter, Executor::Native] {
        for (filter, wanted) in [
            ("note.kind == 5", vec!["0 packet 1", "0 packet 3"]),
            ("note.kind != 5", vec!["0 packet 2", "0 packet 4"]),
            ("not note", vec!["0 packet 5"]),
        ] {
            let options = Options { engine, ..Options::default() };
            let compiled = compile(&compiler, &[ask(filter, Want::Packets)], &options);
            for workers in [1, 2] {
                assert_eq!(rows(&compiler, &compiled, &packets, workers).0, wanted, "{filter}, {engine:?}");
            }
        }
    }
}

/// The lengths of the packets that it received.
#[derive(Default)]
struct Lengths(Vec<usize>);

impl Handler for Lengths {
    fn needs(needs: &mut weir::Needs) {
        needs.packets();
    }

    fn packet(&mut self, _: &PacketMeta, frame: &[u8]) {
        self.0.push(frame.len());
    }
}

#[test]
fn handlers_receive_packets_as_they_arrive() {
    let packets = two(7);
    let lengths = packets.iter().map(|packet| packet.frame.len()).collect::<Vec<_>>();
    let mut seen = vec![];
    let mut engine = Engine::new();
    let of_udp = engine.subscribe_handler("udp", Lengths::default).unwrap();
    let of_ip = engine.subscribe_handler("ip", Lengths::default).unwrap();
    engine.subscribe("udp.port == 53", |frame: &weir::Frame| seen.push(frame.bytes.len())).unwrap();
    let outcome = engine.run(&mut in_memory(&packets), 1).unwrap();
    let told = |handler| outcome.handlers.of::<Lengths>(handler)[0].0.clone();
    assert_eq!((told(of_udp), told(of_ip)), (lengths[1..].to_vec(), lengths.clone()));
    drop(outcome);
    drop(engine);
    assert_eq!(seen, lengths, "callbacks receive held packets");
}

/// The Next Header of the first fragment counts, whatever the others say (RFC 8200, section 4.5), and in
/// whatever order they come.
#[test]
fn the_next_header_of_the_first_fragment_counts() {
    let payload = udp((1000, 2000), b"a question of three fragments");
    let parts: Vec<&[u8]> = payload.chunks(16).collect();
    let fragment = |n: usize, next: u8| {
        let part = ipv6_fragment(next, 16 * n as u16, n + 1 < parts.len(), 7, parts[n]);
        MemoryPacket::ethernet(ethernet(0x86dd, &ipv6((V6[0], V6[1]), 44, &part)))
    };
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        for others in [17, 6, 58, 0] {
            let packets: Vec<MemoryPacket> =
                order.iter().map(|&n| fragment(n, if n == 0 { 17 } else { others })).collect();
            assert_eq!(numbers("udp.dst_port == 2000", &packets), [0, 1, 2], "{order:?} {others}");
        }
    }
}
