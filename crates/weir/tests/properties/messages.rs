//! Messages of streams: those that were sent are read, however they are cut into segments and whatever happens to these.

use crate::drive::{Packet, ask, compile, rows, seeds};
use crate::frames::{ACK, PSH, SYN, V4, ethernet, ipv4, tcp};
use weir::{Ask, Compiler, EventRows, Executor, Need, Options, Want};
use weir_ir::testing::Random;

const CHAT: &str = "
//! What is said
protocol chat {
    header {
        magic: u8 = 0x7e
        kind: u8
        length: u16
        if kind == 1 {
            name_length: u8
            name: bytes[name_length]
        }
    }
    payload = rest[.. length]
    let from_port = below.src_port
    let to_port = below.dst_port
    instance (below.src, from_port) <-> (below.dst, to_port)
    timeout 1m
    event said on packet { kind, length, port = from_port }
}
//! Numbers in what is said
protocol word {
    header { number: u32 }
    payload = rest
}
//! Over TCP
stack chats extends internet {
    tcp -> messages chat when dst_port == 7777
    chat -> word when kind == 2 and payload.length >= 4
}
";

/// A message: its kind, bytes, and the number in it.
fn message(random: &mut Random) -> (u8, Vec<u8>) {
    let kind = random.below(4) as u8;
    let length = random.pick(&[0, 1, 4, 100, 3_000]).max(if kind == 2 { 4 } else { 0 });
    let mut bytes = vec![0x7e, kind, (length >> 8) as u8, length as u8];
    if kind == 1 {
        let name = random.below(20) as u8;
        bytes.push(name);
        bytes.extend((0..name).map(|_| random.bits() as u8));
    }
    bytes.extend((0..length).map(|_| random.bits() as u8));
    (kind, bytes)
}

/// What happens to the client's segments.
#[derive(Debug, Clone, Copy)]
struct Way {
    swaps: bool,
    repeats: bool,
    loses: bool,
    snaplen: Option<usize>,
}

const CALM: Way = Way { swaps: false, repeats: false, loses: false, snaplen: None };

/// A connection on which the client says all this.
fn conversation(random: &mut Random, said: &[u8], way: Way) -> Vec<Packet> {
    let segment = |side: usize, flags, seq: u32, ack: u32, payload: &[u8]| {
        let ports = [(40_000, 7777), (7777, 40_000)][side];
        let segment = tcp(ports, seq, ack, flags, &[], payload);
        Packet::ethernet(ethernet(0x0800, &ipv4((V4[side], V4[1 - side]), 6, 1, 0, &[], &segment)))
    };
    let first = 0_u32.wrapping_sub(random.below(5_000) as u32);
    let mut segments = vec![];
    let mut at = 0;
    while at < said.len() {
        let bytes = random.pick(&[1, 3, 7, 50, 1_448, 1_448]).min(said.len() - at);
        segments.push((at, at + bytes));
        at += bytes;
    }
    let mut packets =
        vec![segment(0, SYN, first.wrapping_sub(1), 0, &[]), segment(1, SYN | ACK, 499, first, &[])];
    let mut order = segments;
    if way.swaps {
        for at in 1..order.len() {
            if random.once_in(4) {
                order.swap(at - 1, at);
            }
        }
    }
    for (from, to) in order {
        if way.loses && random.once_in(20) {
            continue;
        }
        let seq = first.wrapping_add(from as u32);
        let mut packet = segment(0, ACK | PSH, seq, 500, &said[from..to]);
        if let Some(snaplen) = way.snaplen {
            let bytes = packet.bytes.len().min(snaplen);
            packet = packet.cut(bytes);
        }
        packets.push(packet.clone());
        if way.repeats && random.once_in(5) {
            packets.push(packet);
        }
    }
    packets.push(segment(1, ACK, 500, first.wrapping_add(said.len() as u32), &[]));
    packets.push(segment(0, ACK, first.wrapping_add(said.len() as u32), 500, &[]));
    for (number, packet) in (1..).zip(&mut packets) {
        packet.time_ns = number * 1_000_000;
    }
    packets
}

/// Kind and length of the messages of which was told.
fn told(compiler: &Compiler, engine: Executor, packets: &[Packet]) -> Vec<(u64, u64)> {
    let wanted = EventRows::of(compiler.stack(), &["chat.said".to_string()]).expect("it is declared");
    let need = Need { events: wanted.mask, ..Need::default() };
    let asked = Ask { filter: String::new(), need, want: Want::Events };
    let options = Options { engine, ..Options::default() };
    let compiled = compile(compiler, &[asked], &options);
    let (rows, _) = rows(compiler, &compiled, packets, 1);
    let numbers = |row: &String| -> Vec<u64> {
        row.split("Unsigned(").skip(1).filter_map(|v| v.split(')').next()?.parse().ok()).collect()
    };
    // Behind the ports: kind and length, and the port.
    rows.iter().map(numbers).map(|n| (n[n.len() - 3], n[n.len() - 2])).collect()
}

fn hold(count: u64, way: Way) {
    let mut compiler = Compiler::default();
    compiler.add("chat.weir", CHAT).unwrap_or_else(|wrong| panic!("{wrong}"));
    for seed in seeds(0..count) {
        let mut random = Random::new(seed);
        let messages: Vec<_> = (0..1 + random.below(60)).map(|_| message(&mut random)).collect();
        let said: Vec<u8> = messages.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        let packets = conversation(&mut random, &said, way);
        let engine = if seed % 3 == 0 { Executor::Interpreter } else { Executor::Native };
        let told = told(&compiler, engine, &packets);
        let length = |bytes: &[u8]| u64::from(u16::from_be_bytes([bytes[2], bytes[3]]));
        let sent: Vec<(u64, u64)> =
            messages.iter().map(|(kind, bytes)| (u64::from(*kind), length(bytes))).collect();
        assert_eq!(told, sent, "seed {seed}");
    }
}

#[test]
fn all_that_was_sent_is_read() {
    hold(60, CALM);
}

#[test]
fn whatever_order_segments_come_in() {
    hold(60, Way { swaps: true, repeats: true, ..CALM });
}

#[test]
fn debug_rows() {
    let mut compiler = Compiler::default();
    compiler.add("chat.weir", CHAT).unwrap_or_else(|wrong| panic!("{wrong}"));
    let mut random = Random::new(1);
    let said = [&[0x7e, 0, 0, 2, 1, 2][..], &[0x7e, 2, 0, 4, 0, 0, 0, 9], &[0x7e, 3, 0, 0]].concat();
    let packets = conversation(&mut random, &said, CALM);
    for filter in ["chat", "chat.kind == 2", "word.number == 9", "chat.kind == 2 and frame.len > 60"] {
        let options = Options::default();
        let compiled = compile(&compiler, &[ask(filter, Want::Packets)], &options);
        println!("{filter}: {:?}", rows(&compiler, &compiled, &packets, 1).0);
    }
}
