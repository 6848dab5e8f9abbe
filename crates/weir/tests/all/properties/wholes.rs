//! Messages made of chunks are read as sent, each with its stream, for any number of chunks per message and
//! per packet, and any network conditions.

use crate::properties::drive::{MemoryPacket, ask, compile, rows, seeds};
use std::collections::BTreeSet;
use weir::{Ask, Compiled, Compiler, EventRows, Executor, Need, Options, Want};
use weir_testing::Random;
use weir_testing::frames::{V4, damage, ethernet, ipv4};

const TEXT: &str = "
//! As long as the whole that it is
protocol blob {
    header { mark: u16 = 0x4242  from: u8  to: u8  number: u32 }
    let stream = below.sid
    payload = rest
    instance (from) <-> (to)
    each side { packets: u64 }
    count { me.packets += 1 }
    timeout 1h
    event came on packet { number, size = layer.length, stream }
}
//! Several to a whole
protocol record {
    header { mark: u16 = 0x1717  length: u8  number: u32 }
    let stream = below.sid
    payload = rest[.. length]
    event came on packet { number, size = layer.length, stream }
}
stack chunks extends sctp {
    sctpdata -> messages blob    when ppid == 77
    sctpdata -> messages record  when ppid == 78
}
";

/// A message, and the expected rows: number and stream of a blob, or of each of its records.
struct Message {
    ppid: u32,
    stream: u16,
    bytes: Vec<u8>,
    told: Vec<(u64, u64)>,
}

fn message(random: &mut Random, number: &mut u32) -> Message {
    let stream = random.below(5) as u16;
    let ppid = random.pick(&[5, 77, 77, 78]);
    let mut told = vec![];
    let mut next = || {
        *number += 1;
        told.push((u64::from(*number), u64::from(stream)));
        number.to_be_bytes()
    };
    let noise =
        |random: &mut Random, bytes: u64| (0..bytes).map(|_| random.bits() as u8).collect::<Vec<u8>>();
    let bytes = match ppid {
        77 => {
            let ends = [random.below(3) as u8, 3 + random.below(3) as u8];
            let length = random.pick(&[0, 1, 30, 900]);
            [&[0x42, 0x42], &ends[..], &next(), &noise(random, length)].concat()
        }
        78 => (0..1 + random.below(4)).fold(vec![], |before, _| {
            let length = random.below(40);
            [&before[..], &[0x17, 0x17, length as u8], &next(), &noise(random, length)].concat()
        }),
        _ => noise(random, 50),
    };
    Message { ppid, stream, bytes, told }
}

/// A padded DATA chunk.
fn chunk(tsn: u32, message: &Message, (from, to): (usize, usize)) -> Vec<u8> {
    let flags = u8::from(from == 0) << 1 | u8::from(to == message.bytes.len());
    let length = (16 + to - from) as u16;
    let mut bytes = [&[0, flags][..], &length.to_be_bytes(), &tsn.to_be_bytes()].concat();
    bytes.extend([&message.stream.to_be_bytes()[..], &[0, 0], &message.ppid.to_be_bytes()].concat());
    bytes.extend(&message.bytes[from..to]);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Network conditions.
#[derive(Debug, Clone, Copy)]
struct Way {
    swaps: bool,
    repeats: bool,
    loses: bool,
}

/// Packets of one direction that carry the messages, and the indices of messages that lost a chunk.
fn association(random: &mut Random, messages: &[Message], way: Way) -> (Vec<MemoryPacket>, BTreeSet<usize>) {
    let mut chunks = vec![];
    let mut tsn = 0_u32.wrapping_sub(random.below(100) as u32);
    for (number, message) in messages.iter().enumerate() {
        let mut from = 0;
        while from < message.bytes.len() {
            let to = (from + random.pick(&[4, 100, 1_000])).min(message.bytes.len());
            chunks.push((number, chunk(tsn, message, (from, to))));
            (tsn, from) = (tsn.wrapping_add(1), to);
        }
    }
    let packet = |chunks: &[u8]| {
        let bytes = [&[0x0b, 0x59, 0x0b, 0x5a, 0, 0, 0, 9, 0, 0, 0, 0], chunks].concat();
        MemoryPacket::ethernet(ethernet(0x0800, &ipv4((V4[0], V4[1]), 132, 1, 0, &[], &bytes)))
    };
    let mut all = vec![];
    let mut rest = &chunks[..];
    while !rest.is_empty() {
        let (some, others) = rest.split_at(rest.len().min(1 + random.below(4) as usize));
        // A SACK chunk may come first.
        let sack: &[u8] =
            if random.once_in(3) { &[3, 0, 0, 16, 0, 0, 0, 1, 0, 0, 9, 9, 0, 0, 0, 0] } else { &[] };
        let bytes = some.iter().fold(sack.to_vec(), |before, (_, chunk)| [&before[..], chunk].concat());
        all.push((packet(&bytes), some.iter().map(|(number, _)| *number).collect::<Vec<usize>>()));
        rest = others;
    }
    // The first packet defines where chunk numbers begin, so it stays first.
    for at in 2..all.len() {
        if way.swaps && random.once_in(3) {
            all.swap(at - 1, at);
        }
    }
    let (mut packets, mut lost) = (vec![], BTreeSet::new());
    for (at, (packet, messages)) in all.into_iter().enumerate() {
        if way.loses && at > 0 && random.once_in(12) {
            lost.extend(messages);
            continue;
        }
        packets.push(packet.clone());
        if way.repeats && random.once_in(4) {
            packets.push(packet);
        }
    }
    for (number, packet) in (1..).zip(&mut packets) {
        packet.time.0 = number * 1_000_000;
    }
    // The association times out before the end of the capture, or ends with it.
    if random.once_in(2) {
        let mut other =
            MemoryPacket::ethernet(ethernet(0x0800, &ipv4((V4[0], V4[1]), 17, 2, 0, &[], &[0; 8])));
        other.time.0 = 3_600_000_000_000 + packets.len() as i64 * 1_000_000;
        packets.push(other);
    }
    (packets, lost)
}

fn compiler() -> Compiler {
    let mut compiler = Compiler::default();
    compiler.add("chunks.weir", TEXT).unwrap_or_else(|wrong| panic!("{wrong}"));
    compiler
}

fn of_events(compiler: &Compiler) -> [Compiled; 2] {
    let events = ["blob.came".to_string(), "record.came".to_string()];
    let wanted = EventRows::of(compiler.stack(), &events).expect("they are declared");
    let need = Need { events: wanted.asked, ..Need::default() };
    [Executor::Interpreter, Executor::Native].map(|engine| {
        let asked = Ask { filter: String::new(), need, want: Want::Events };
        compile(compiler, &[asked], &Options { engine, ..Options::default() })
    })
}

/// Number and stream of the reported messages.
fn told(compiler: &Compiler, compiled: &Compiled, packets: &[MemoryPacket]) -> (Vec<(u64, u64)>, u64) {
    let (rows, outcome) = rows(compiler, compiled, packets, 1);
    let numbers = |row: &String| -> Vec<u64> {
        row.split("Unsigned(").skip(1).filter_map(|v| v.split(')').next()?.parse().ok()).collect()
    };
    let told = rows.iter().filter(|row| row.contains("Row(")).map(numbers);
    let told = told.map(|n| (n[n.len() - 3], n[n.len() - 1])).collect();
    (told, outcome.counters.message.message_bytes_lost)
}

fn each(count: u64, way: Way, mut check: impl FnMut(u64, &[Message], &BTreeSet<usize>, &[(u64, u64)], u64)) {
    let compiler = compiler();
    let compiled = of_events(&compiler);
    for seed in seeds(0..count) {
        let mut random = Random::new(seed);
        let mut number = 0;
        let messages: Vec<_> = (0..1 + random.below(60)).map(|_| message(&mut random, &mut number)).collect();
        let (packets, lost) = association(&mut random, &messages, way);
        let (told, bytes_lost) = told(&compiler, &compiled[(seed % 3 != 0) as usize], &packets);
        check(seed, &messages, &lost, &told, bytes_lost);
    }
}

#[test]
fn all_that_was_sent_is_read_in_order_and_of_its_stream() {
    let calm = Way { swaps: false, repeats: false, loses: false };
    for way in [calm, Way { swaps: true, repeats: true, ..calm }] {
        each(60, way, |seed, messages, _, told, bytes_lost| {
            let sent: Vec<(u64, u64)> = messages.iter().flat_map(|one| one.told.clone()).collect();
            assert_eq!((told, bytes_lost), (&sent[..], 0), "seed {seed}, {way:?}");
        });
    }
}

#[test]
fn where_chunks_are_missing_the_other_messages_are_read() {
    let mut bytes = 0;
    each(60, Way { swaps: true, repeats: true, loses: true }, |seed, messages, lost, told, bytes_lost| {
        let whole = messages.iter().enumerate().filter(|(number, _)| !lost.contains(number));
        let sent: Vec<(u64, u64)> = whole.flat_map(|(_, one)| one.told.clone()).collect();
        assert_eq!(told, sent, "seed {seed}");
        bytes += bytes_lost;
    });
    assert!(bytes > 0, "some were lost");
}

#[test]
fn what_messages_fulfil_their_packet_does_and_their_instances_do() {
    let compiler = compiler();
    let mut hits = 0;
    for seed in seeds(0..20) {
        let mut random = Random::new(seed);
        let mut number = 0;
        let messages: Vec<_> = (0..40).map(|_| message(&mut random, &mut number)).collect();
        let (packets, _) =
            association(&mut random, &messages, Way { swaps: false, repeats: false, loses: false });
        let wanted = 1 + random.below(u64::from(number));
        let filter = format!("blob.number == {wanted} or record.number == {wanted}");
        let count = |filter: &str, want| {
            let compiled = compile(&compiler, &[ask(filter, want)], &Options::default());
            rows(&compiler, &compiled, &packets, 1).0
        };
        assert_eq!(count(&filter, Want::Packets).len(), 1, "seed {seed}");
        // A message belongs to one inner connection.
        let of_one = format!("blob.number == {wanted}");
        let is_blob = messages.iter().any(|one| one.ppid == 77 && one.told[0].0 == wanted);
        let rows = count(&of_one, Want::Connections);
        let inner = rows.iter().filter(|row| row.contains("blob")).count();
        assert_eq!(inner, usize::from(is_blob), "seed {seed}: {rows:?}");
        hits += inner;
    }
    assert!(hits > 0);
}

#[test]
fn damaged_chunks_mean_the_same_to_every_engine() {
    let compiler = compiler();
    let compiled = of_events(&compiler);
    let mut all = 0;
    for seed in seeds(0..60) {
        let mut random = Random::new(seed);
        let mut number = 0;
        let messages: Vec<_> = (0..30).map(|_| message(&mut random, &mut number)).collect();
        let way = Way { swaps: true, repeats: true, loses: true };
        let (packets, _) = association(&mut random, &messages, way);
        let damaged = packets
            .into_iter()
            .map(|packet| if random.once_in(3) { damage(&mut random, packet) } else { packet });
        let packets: Vec<MemoryPacket> = damaged.collect();
        let [interpreted, native] =
            compiled.each_ref().map(|compiled| rows(&compiler, compiled, &packets, 1).0);
        assert_eq!(interpreted, native, "seed {seed}");
        all += native.len();
    }
    assert!(all > 200, "{all} are left");
}
