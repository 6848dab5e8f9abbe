//! The same items in the same order, with any number of workers.

use crate::properties::drive::{
    FIRST_LIGHT, MemoryPacket, all_sessions, ask, compile, read_capture, rows, seeds,
};
use weir::packet::Timestamp;
use weir::{Ask, Compiler, Counters, EventRows, Limits, Need, Options, Want};
use weir_testing::Random;
use weir_testing::frames::{self, ACK};
use weir_testing::traffic::{Network, conversation, mix};

/// Many interleaved flows. No tunnels: the directions of an inner connection may use tunnels with different
/// ends, whose packets go to different workers ([`differences_are_announced`]).
fn capture(random: &mut Random) -> Vec<MemoryPacket> {
    let network = Network { repeats: true, loses: true, reorders: true, fragments: true, cuts: true };
    let mut list = vec![];
    for _ in 0..400 {
        let packet = frames::whole_within(random, 0);
        list.push(frames::damage(random, packet));
    }
    for port in 0..5 {
        let mut talk = conversation(random, (50_000 + port, 443), network).packets;
        talk.truncate(60);
        // Insert each packet at a random place after the previous one.
        let mut at = 0;
        for packet in talk {
            at = (at + 1 + random.below(8) as usize).min(list.len());
            list.insert(at, packet);
        }
    }
    frames::give_times(random, &mut list);
    // One packet has a wrong time.
    let at = random.below(list.len() as u64) as usize;
    list[at].time.0 = random.pick(&[0, i64::MAX, list[at].time.0 + 1_000_000_000_000]);
    list
}

fn hold(name: &str, packets: &[MemoryPacket], filters: &[(&str, Want)]) {
    hold_within(Limits::default(), name, packets, filters);
}

/// Tests the property within `limits`. Returns the counters of the run.
fn hold_within(limits: Limits, name: &str, packets: &[MemoryPacket], filters: &[(&str, Want)]) -> Counters {
    let compiler = Compiler::default();
    let asks: Vec<_> = filters.iter().map(|(filter, want)| ask(filter, *want)).collect();
    let compiled = compile(&compiler, &asks, &Options { limits, ..Options::default() });
    let (expected, one) = rows(&compiler, &compiled, packets, 1);
    assert!(!expected.is_empty(), "{name}: something is found");
    for workers in [2, 3, 5] {
        let (got, many) = rows(&compiler, &compiled, packets, workers);
        // Fragments that are too short or come too early: announced, as `differences_are_announced` tests.
        let announced = many.counters.dispatch.packets_astray;
        if announced > 0 {
            assert!(announced <= packets.len() as u64 / 20, "{name}: {announced} packets are astray");
            continue;
        }
        if let Some(at) = (0..expected.len().max(got.len())).find(|&i| expected.get(i) != got.get(i)) {
            panic!(
                "{name}, {workers} workers, {filters:?}: row {at} of {} is\n  {:?}\nshould be\n  {:?}",
                expected.len(),
                got.get(at),
                expected.get(at)
            );
        }
        assert_eq!(one.matched, many.matched, "{name}, {workers} workers");
        assert_eq!(one.counters.packet, many.counters.packet, "{name}, {workers} workers");
        assert_eq!(one.counters.drops, many.counters.drops, "{name}, {workers} workers");
    }
    one.counters
}

#[test]
fn packets_and_connections_do_not_depend_on_the_workers() {
    for seed in seeds(0..12) {
        let packets = capture(&mut Random::new(seed));
        let name = format!("seed {seed}");
        hold(&name, &packets, &[("", Want::Packets), ("", Want::Connections)]);
        hold(&name, &packets, &[("tcp or udp", Want::Connections)]);
    }
}

/// Random tunnels, whose ends change, and fragments in any order: whenever the rows differ from those of one
/// worker, packets were counted as astray.
#[test]
fn differences_are_announced() {
    let (mut equal, mut astray) = (0, 0);
    for seed in seeds(0..40) {
        let mut random = Random::new(seed);
        let tunnels = random.below(3) as u32;
        let count = random.pick(&[20, 60, 300]);
        let mut packets: Vec<MemoryPacket> =
            (0..count).map(|_| frames::whole_within(&mut random, tunnels)).collect();
        frames::give_times(&mut random, &mut packets);
        let compiler = Compiler::default();
        let asks = [ask("", Want::Packets), ask("", Want::Connections)];
        let compiled = compile(&compiler, &asks, &Options::default());
        let (expected, _) = rows(&compiler, &compiled, &packets, 1);
        for workers in [2, 4] {
            let (got, many) = rows(&compiler, &compiled, &packets, workers);
            let is_announced = many.counters.dispatch.packets_astray > 0;
            let at = (0..expected.len()).find(|&at| got.get(at) != Some(&expected[at]));
            let at = at.filter(|_| !is_announced).map(|at| (&expected[at], got.get(at)));
            assert_eq!(at, None, "seed {seed}, {tunnels} tunnels, {workers} workers");
            equal += usize::from(!is_announced);
            astray += usize::from(is_announced);
        }
    }
    assert!(equal > 10 && astray > 0 || !crate::properties::drive::has_all_seeds(), "{equal} {astray}");
}

/// Several connections have messages of one instance: its count is the same with any number of workers.
#[test]
fn connections_that_share_an_instance_share_a_worker() {
    const NOTES: &str = "
//! A message of one byte; both hosts count these in all of their connections
protocol note {
    header { id: u8 }
    instance (below.src) <-> (below.dst)
    vars { notes: u64 }
    count { notes += 1 }
    timeout 1m
    event seen on packet { id, notes }
}
//! Over TCP
stack notes extends internet { tcp -> messages note when dst_port == 7777 }
";
    let mut compiler = Compiler::default();
    compiler.add("notes.weir", NOTES).unwrap_or_else(|wrong| panic!("{wrong}"));
    let mut packets = vec![];
    for number in 0..200_u32 {
        let (port, ends) = (40_000 + (number % 20) as u16, ([10, 0, 0, 1], [10, 0, 0, 2]));
        let segment = frames::tcp((port, 7777), 1 + number / 20, 1, ACK, &[], &[number as u8]);
        let frame = frames::ethernet(0x0800, &frames::ipv4(ends, 6, 1, 0, &[], &segment));
        let time = Timestamp(1_700_000_000_000_000_000 + i64::from(number) * 1_000_000);
        packets.push(MemoryPacket { time, ..MemoryPacket::ethernet(frame) });
    }
    let seen = EventRows::of(compiler.stack(), &["note.seen".to_string()]).expect("it is declared").asked;
    let need = Need { events: seen, ..Need::default() };
    let question = Ask { filter: String::new(), need, want: Want::Events };
    let compiled = compile(&compiler, &[question], &Options::default());
    let (expected, _) = rows(&compiler, &compiled, &packets, 1);
    assert_eq!(expected.len(), packets.len());
    assert!(expected[199].contains("Unsigned(200)"), "{}", expected[199]);
    for workers in [2, 4] {
        assert_eq!(rows(&compiler, &compiled, &packets, workers).0, expected, "{workers} workers");
    }
}

/// Connections between two hosts are spread over the workers.
#[test]
fn two_hosts_occupy_all_workers() {
    let mut packets = vec![];
    for port in 0..2_000u16 {
        for reply in [false, true] {
            let [client, server] = [[10, 0, 0, 1], [10, 0, 0, 2]];
            let (ends, ports) = match reply {
                false => ((client, server), (10_000 + port, 53)),
                true => ((server, client), (53, 10_000 + port)),
            };
            let datagram = frames::ipv4(ends, 17, port, 0, &[], &frames::udp(ports, b"some words"));
            let mut packet = MemoryPacket::ethernet(frames::ethernet(0x0800, &datagram));
            packet.time.0 = 1_700_000_000_000_000_000 + i64::from(port) * 1_000_000;
            packets.push(packet);
        }
    }
    let compiler = Compiler::default();
    let compiled = compile(&compiler, &[ask("", Want::Connections)], &Options::default());
    let (expected, _) = rows(&compiler, &compiled, &packets, 1);
    let (got, many) = rows(&compiler, &compiled, &packets, 4);
    assert_eq!(got, expected);
    assert!(many.shares.iter().all(|&share| (700..1_300).contains(&share)), "{:?}", many.shares);
    assert_eq!(many.counters.dispatch.packets_astray, 0);
}

#[test]
fn nor_do_those_that_are_moved_from_a_worker_with_too_much_to_do() {
    for seed in seeds(0..3) {
        let mut random = Random::new(seed);
        let mut packets = vec![];
        // Two hosts that send all the time, and many that send a few packets, some of them again much later.
        for n in 0..12_000u64 {
            let pair = if random.once_in(3) { 1 + n / 20 + random.below(8) } else { 0 };
            let [a, b] = (pair as u16).to_be_bytes();
            let hosts = ([10, 1, a, b], [10, 2, 0, 1]);
            let ends = if random.once_in(2) { hosts } else { (hosts.1, hosts.0) };
            let ports = if ends == hosts { (4000, 53) } else { (53, 4000) };
            let datagram = frames::ipv4(ends, 17, n as u16, 0, &[], &frames::udp(ports, b"some words"));
            let mut packet = MemoryPacket::ethernet(frames::ethernet(0x0800, &datagram));
            packet.time.0 = 1_700_000_000_000_000_000 + n as i64 * 100_000_000;
            packets.push(packet);
        }
        let questions = [("", Want::Packets), ("", Want::Connections)];
        let compiler = Compiler::default();
        let asks = questions.map(|(filter, want)| ask(filter, want));
        let compiled = compile(&compiler, &asks, &Options::default());
        let (_, three) = rows(&compiler, &compiled, &packets, 3);
        assert!(
            three.counters.dispatch.units_moved > 50,
            "{:?}: too few to show anything",
            three.counters.dispatch
        );
        assert_eq!(three.shares.iter().sum::<u64>(), packets.len() as u64);
        hold(&format!("seed {seed}"), &packets, &questions);
    }
}

/// The packet in a tunnel between two routers, fragmented if it is long.
fn tunnelled(packet: &MemoryPacket, id: u16, bytes_max: usize) -> Vec<MemoryPacket> {
    let (etype, inner) = (&packet.frame[12..14], &packet.frame[14..]);
    let (protocol, towards) =
        if etype == [0x86, 0xdd] { (41, inner[23] == 0x10) } else { (4, inner[15] == 1) };
    let ends = [[192, 0, 2, 1], [192, 0, 2, 2]];
    let ends = if towards { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
    let pieces: Vec<&[u8]> = inner.chunks(bytes_max).collect();
    let last = pieces.len() - 1;
    let fragment = |(n, bytes): (usize, &&[u8])| {
        let place = (n * bytes_max / 8) as u16 | if n < last { 0x2000 } else { 0 };
        let outer = frames::ipv4(ends, protocol, id, place, &[], bytes);
        MemoryPacket::ethernet(frames::ethernet(0x0800, &outer))
    };
    pieces.iter().enumerate().map(fragment).collect()
}

#[test]
fn nor_do_connections_in_tunnels_that_fragment() {
    let network = Network { repeats: true, loses: true, reorders: true, fragments: false, cuts: false };
    for seed in seeds(0..12) {
        let mut random = Random::new(seed);
        let talks: Vec<_> = (0..5).map(|n| conversation(&mut random, (50_000 + n, 443), network)).collect();
        let plain = mix(&mut random, &talks);
        let mut packets = vec![];
        for (n, packet) in plain.iter().enumerate() {
            packets.extend(tunnelled(packet, n as u16, 400));
        }
        frames::give_times(&mut random, &mut packets);
        assert!(packets.len() > plain.len(), "some come in fragments");
        hold(&format!("seed {seed}"), &packets, &[("tcp", Want::Packets), ("", Want::Connections)]);
    }
}

#[test]
fn nor_do_the_shipped_capture_s_rows() {
    let packets = read_capture(FIRST_LIGHT);
    hold("shipped", &packets, &[("", Want::Connections), ("", all_sessions())]);
}

/// Questions whose packets wait for their connections or sessions, alone and combined.
fn waiting() -> [Vec<(&'static str, Want)>; 5] {
    [
        vec![("tls.sni contains \"example\" or udp", Want::Packets)],
        vec![("conn.orig_pkts > 8", Want::Packets)],
        vec![("not tls", Want::Packets), ("conn.resp_pkts > 2 or icmp", Want::Packets)],
        vec![
            ("conn.orig_bytes > 100 and tls", all_sessions()),
            ("conn.history contains \"F\"", Want::Packets),
        ],
        vec![("tls.sni matches \"com$\"", Want::Packets), ("", Want::Connections), ("ip", Want::Packets)],
    ]
}

#[test]
fn nor_do_packets_that_wait_for_their_connection() {
    let shipped = read_capture(FIRST_LIGHT);
    for questions in &waiting() {
        hold("shipped", &shipped, questions);
    }
    for seed in seeds(0..6) {
        let mut random = Random::new(seed);
        // Random traffic, mixed with packets of the capture in `examples/`.
        let start = random.below(shipped.len() as u64 - 200) as usize;
        let mut packets = capture(&mut random);
        for (n, packet) in shipped[start..start + 200].iter().enumerate() {
            packets.insert((n * 2).min(packets.len()), packet.clone());
        }
        frames::give_times(&mut random, &mut packets);
        for questions in &waiting() {
            hold(&format!("seed {seed}"), &packets, questions);
        }
    }
}

#[test]
fn nor_does_what_is_given_up_at_a_bound() {
    let packets = read_capture(FIRST_LIGHT);
    let few = Limits { held_packets_max: 40, ..Limits::default() };
    let small = Limits { held_bytes_max: 10_000, ..Limits::default() };
    for limits in [few, small] {
        for questions in &waiting() {
            let counters = hold_within(limits, "shipped", &packets, questions);
            assert!(counters.packet.undecided > 0, "{questions:?}: the bound is reached");
        }
    }
}
