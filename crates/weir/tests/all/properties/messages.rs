//! Messages in streams are read as sent, for any segmentation and any network conditions.

use crate::properties::drive::{MemoryPacket, TLS_SESSIONS, ask, compile, rows, rows as rows_of, seeds};
use std::collections::BTreeMap;
use weir::packet::{LinkType, Timestamp};
use weir::{Ask, Compiled, Compiler, Counters, EventRows, Executor, Limits, Need, Options, Want};
use weir_testing::Random;
use weir_testing::frames::{ACK, PSH, RST, SYN, V4, ethernet, ipv4, tcp};

const CHAT: &str = "
//! What is said, and what it holds
protocol chat {
    header {
        magic: u16 = 0x7e5a
        kind: u8
        length: u16
        if kind == 1 {
            name_length: u8
            name: bytes[name_length]
        }
    }
    payload = rest[.. length]
    event said on packet { kind, length, port = below.src_port }
}
//! Numbers in what is said
protocol word {
    header { number: u32 }
    payload = rest
    let speaker = below.src_port
    let listener = below.dst_port
    instance (below.src, speaker) <-> (below.dst, listener)
    timeout 1m
    event written on packet { number }
}
//! Who calls whom
protocol call {
    header { from: u8  to: u8 }
    payload = rest
    instance (from) <-> (to)
    timeout 1m
}
//! The same messages, with nothing in them
protocol note {
    header {
        magic: u16 = 0x7e5a
        kind: u8
        length: u16
    }
    payload = rest[.. length + (if kind == 1 then 1 else 0)]
    event noted on packet { kind, length, port = below.src_port }
}
//! Over TCP
stack chats extends internet {
    tcp -> messages chat when dst_port == 7777
    tcp -> messages note when dst_port == 7778
    chat -> word when kind == 2 and payload.length >= 4
    chat -> call when kind == 4
}
";

/// A random message: kind and bytes.
fn message(random: &mut Random, names_max: u64) -> (u8, Vec<u8>) {
    let kind = random.below(4) as u8;
    let length = random.pick(&[0, 1, 4, 100, 3_000]).max(if kind == 2 { 4 } else { 0 });
    let mut bytes = vec![0x7e, 0x5a, kind, (length >> 8) as u8, length as u8];
    if kind == 1 {
        let name = random.below(names_max + 1) as u8;
        bytes.push(name);
        bytes.extend((0..name).map(|_| random.bits() as u8));
    }
    bytes.extend((0..length).map(|_| random.bits() as u8));
    (kind, bytes)
}

/// Network conditions for the client's segments.
#[derive(Debug, Clone, Copy)]
struct Way {
    swaps: bool,
    repeats: bool,
    loses: bool,
    snaplen: Option<usize>,
}

/// The worst conditions without losses.
const WILD: Way = Way { swaps: true, repeats: true, loses: false, snaplen: None };
const CALM: Way = Way { swaps: false, repeats: false, loses: false, snaplen: None };

/// A connection on which the client sends `said`.
fn conversation(random: &mut Random, port: u16, said: &[u8], way: Way) -> Vec<MemoryPacket> {
    let segment = |side: usize, flags, seq: u32, ack: u32, payload: &[u8]| {
        let ports = [(40_000, port), (port, 40_000)][side];
        let segment = tcp(ports, seq, ack, flags, &[], payload);
        MemoryPacket::ethernet(ethernet(0x0800, &ipv4((V4[side], V4[1 - side]), 6, 1, 0, &[], &segment)))
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
            let bytes = packet.frame.len().min(snaplen);
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
        packet.time.0 = number * 1_000_000;
    }
    packets
}

/// A question for an event's rows, compiled for both engines.
fn of_event(compiler: &Compiler, event: &str) -> [Compiled; 2] {
    let wanted = EventRows::of(compiler.stack(), &[event.to_string()]).expect("it is declared");
    let need = Need { events: wanted.asked, ..Need::default() };
    [Executor::Interpreter, Executor::Native].map(|engine| {
        let asked = Ask { filter: String::new(), need, want: Want::Events };
        compile(compiler, &[asked], &Options { engine, ..Options::default() })
    })
}

/// Kind and length of the messages in the rows.
fn told(compiler: &Compiler, compiled: &Compiled, packets: &[MemoryPacket]) -> Vec<(u64, u64)> {
    told_and_counted(compiler, compiled, packets).0
}

/// As [`told`], with the counters of the run.
fn told_and_counted(
    compiler: &Compiler,
    compiled: &Compiled,
    packets: &[MemoryPacket],
) -> (Vec<(u64, u64)>, Counters) {
    let (rows, outcome) = rows(compiler, compiled, packets, 1);
    let rows: Vec<&String> = rows.iter().filter(|row| row.contains("Row(")).collect();
    let numbers = |row: &String| -> Vec<u64> {
        row.split("Unsigned(").skip(1).filter_map(|v| v.split(')').next()?.parse().ok()).collect()
    };
    // Kind, length and port are the last three numbers.
    let told = rows.into_iter().map(numbers).map(|n| (n[n.len() - 3], n[n.len() - 2])).collect();
    (told, outcome.counters)
}

/// Calls `check` with the messages sent and the messages read, for many conversations.
fn each(count: u64, port: u16, way: Way, mut check: impl FnMut(u64, &[(u64, u64)], &[(u64, u64)])) {
    let mut compiler = Compiler::default();
    compiler.add("chat.weir", CHAT).unwrap_or_else(|wrong| panic!("{wrong}"));
    let (event, names_max) = if port == 7777 { ("chat.said", 20) } else { ("note.noted", 0) };
    let compiled = of_event(&compiler, event);
    for seed in seeds(0..count) {
        let mut random = Random::new(seed);
        let messages: Vec<_> = (0..1 + random.below(60)).map(|_| message(&mut random, names_max)).collect();
        let said: Vec<u8> = messages.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        let packets = conversation(&mut random, port, &said, way);
        let told = told(&compiler, &compiled[(seed % 3 != 0) as usize], &packets);
        let length = |bytes: &[u8]| u64::from(u16::from_be_bytes([bytes[3], bytes[4]]));
        let sent: Vec<(u64, u64)> =
            messages.iter().map(|(kind, bytes)| (u64::from(*kind), length(bytes))).collect();
        check(seed, &sent, &told);
    }
}

#[test]
fn all_that_was_sent_is_read_in_order() {
    for (port, way) in [(7777, CALM), (7777, WILD), (7778, CALM), (7778, WILD)] {
        each(40, port, way, |seed, sent, told| assert_eq!(told, sent, "seed {seed}, {port}, {way:?}"));
    }
}

#[test]
fn where_bytes_are_missing_the_other_messages_are_read() {
    let (mut all, mut read) = (0, 0);
    for port in [7777, 7778] {
        each(40, port, Way { loses: true, ..WILD }, |seed, sent, told| {
            let mut rest = sent.iter();
            assert!(
                told.iter().all(|one| rest.any(|other| other == one)),
                "seed {seed}: {told:?} of {sent:?}"
            );
            (all, read) = (all + sent.len(), read + told.len());
        });
    }
    assert!(read * 4 > all && read < all, "{read} of {all}");
}

#[test]
fn what_the_capture_cut_off_is_no_message() {
    // 54 bytes of headers, and some of the first message.
    let cut = Way { snaplen: Some(54 + 700), ..CALM };
    let mut differs = 0;
    each(40, 7778, cut, |seed, sent, told| {
        let mut rest = sent.iter();
        assert!(told.iter().all(|one| rest.any(|other| other == one)), "seed {seed}: {told:?} of {sent:?}");
        differs += usize::from(told != sent);
    });
    assert!(differs > 0, "some were cut off");
}

/// Bytes of the client's stream that were captured, repeated ones counted once.
fn captured_bytes(packets: &[MemoryPacket]) -> u64 {
    let mut ends: BTreeMap<u32, usize> = BTreeMap::new();
    for packet in packets.iter().filter(|packet| packet.frame[34..36] == 40_000_u16.to_be_bytes()) {
        let seq = u32::from_be_bytes(packet.frame[38..42].try_into().expect("four bytes"));
        let bytes = ends.entry(seq).or_default();
        *bytes = packet.frame.len().saturating_sub(54).max(*bytes);
    }
    ends.values().sum::<usize>() as u64
}

/// Every captured byte is part of a reported message or counted as lost, also behind holes that are never
/// filled, and if only one direction was captured.
#[test]
fn what_nobody_reads_is_counted() {
    let mut compiler = Compiler::default();
    compiler.add("chat.weir", CHAT).unwrap_or_else(|wrong| panic!("{wrong}"));
    let events = of_event(&compiler, "note.noted");
    // With a question for streams, bytes behind a hole are delivered when the connection ends.
    let streams = Ask { want: TLS_SESSIONS, ..ask("", Want::Packets) };
    let with_sessions = {
        let wanted = EventRows::of(compiler.stack(), &["note.noted".to_string()]).expect("it is declared");
        let need = Need { events: wanted.asked, ..Need::default() };
        let asked = Ask { filter: String::new(), need, want: Want::Events };
        compile(&compiler, &[asked, streams], &Options::default())
    };
    let (mut unread, mut ways) = (0, [0; 4]);
    for seed in seeds(0..80) {
        let mut random = Random::new(seed);
        let messages: Vec<_> = (0..1 + random.below(30)).map(|_| message(&mut random, 0)).collect();
        let said: Vec<u8> = messages.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        let way = Way { loses: true, snaplen: random.once_in(4).then_some(54 + 700), ..WILD };
        let mut packets = conversation(&mut random, 7778, &said, way);
        let is_one_sided = random.once_in(2);
        if is_one_sided {
            packets.retain(|packet| packet.frame[34..36] == 40_000_u16.to_be_bytes());
        }
        let loses_first = random.once_in(3) && packets.len() > 2 + usize::from(!is_one_sided);
        if loses_first {
            packets.remove(1 + usize::from(!is_one_sided));
        }
        let compiled = [&events[0], &events[1], &with_sessions][(seed % 3) as usize];
        let (told, counters) = told_and_counted(&compiler, compiled, &packets);
        let in_messages = |&(kind, length): &(u64, u64)| 5 + length + u64::from(kind == 1);
        let read: u64 = told.iter().map(in_messages).sum();
        let lost = counters.message.message_bytes_lost;
        assert_eq!(read + lost, captured_bytes(&packets), "seed {seed}: {read} read, {lost} lost");
        unread += usize::from(lost > 0);
        ways[usize::from(is_one_sided) + 2 * usize::from(loses_first)] += usize::from(lost > 0);
    }
    assert!(unread > 30 && ways.iter().all(|&count| count > 0), "some was lost each way: {ways:?}");
}

/// How a connection ends while messages wait behind a hole.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Capture,
    Silence,
    Reset,
    Reuse,
    /// The other side acknowledges all bytes.
    Acknowledged,
}

/// A client's packets, with one segment missing, and the number of the packet that causes the rest to be
/// read.
fn with_hole(end: End) -> (Vec<MemoryPacket>, u64) {
    let segment = |side: usize, port: u16, flags, seq: u32, ack: u32, payload: &[u8]| {
        let ports = [(port, 7777), (7777, port)][side];
        let segment = tcp(ports, seq, ack, flags, &[], payload);
        MemoryPacket::ethernet(ethernet(0x0800, &ipv4((V4[side], V4[1 - side]), 6, 1, 0, &[], &segment)))
    };
    let client = |flags, seq, payload: &[u8]| segment(0, 40_000, flags, seq, 0, payload);
    let mut packets = vec![
        client(SYN, 99, &[]),
        client(ACK, 100, &[0x7e, 0x5a, 0, 0, 1, b'a']),
        // Ten bytes are missing; then a number, the first half of a call, its second half, and a word.
        client(ACK, 116, &[0x7e, 0x5a, 2, 0, 4, 0, 0, 0, 9, 0x7e, 0x5a, 4, 0]),
        client(ACK, 129, &[2, b'b', b'c', 0x7e, 0x5a, 0, 0, 0]),
    ];
    match end {
        End::Capture => {}
        End::Silence => packets.push(segment(0, 50_000, SYN, 1, 0, &[])),
        End::Reset => packets.push(client(RST, 137, &[])),
        End::Reuse => packets.push(client(SYN, 7_000_000, &[])),
        End::Acknowledged => packets.push(segment(1, 40_000, ACK, 500, 137, &[])),
    }
    for (number, packet) in (1..).zip(&mut packets) {
        packet.time.0 = number * 1_000_000;
    }
    if let (End::Silence, Some(last)) = (end, packets.last_mut()) {
        last.time.0 = 3_600_000_000_000;
    }
    (packets, if end == End::Reset { 5 } else { 4 })
}

#[test]
fn what_waits_when_its_connection_ends_is_read() {
    let mut compiler = Compiler::default();
    compiler.add("chat.weir", CHAT).unwrap_or_else(|wrong| panic!("{wrong}"));
    let names = ["chat.said", "word.written", "tcp.retransmission", "tcp.aborted"].map(str::to_string);
    let mask = EventRows::of(compiler.stack(), &names).expect("they are declared").asked;
    let need = Need { events: mask, ..Need::default() };
    let events = |filter: &str| Ask { filter: filter.into(), need, want: Want::Events };
    let asks = [
        events(""),
        events("chat.said.kind == 2 and tcp.dst_port == 7777"),
        ask("word.number == 9", Want::Connections),
        ask("call.from == 98", Want::Connections),
        ask("chat.kind == 2", Want::Packets),
    ];
    for engine in [Executor::Interpreter, Executor::Native] {
        let options = Options { engine, ..Options::default() };
        let together = compile(&compiler, &asks, &options);
        let alone = compile(&compiler, &asks[..1], &options);
        for end in [End::Capture, End::Silence, End::Reset, End::Reuse, End::Acknowledged] {
            let (packets, last) = with_hole(end);
            let (rows, outcome) = rows_of(&compiler, &together, &packets, 1);
            let what = format!("{end:?}, {engine:?}: {rows:#?}");
            let told = |question: usize| -> Vec<&String> {
                rows.iter().filter(|row| row.starts_with(&format!("{question} "))).collect()
            };
            let of_event = |question: usize, event: &str| -> Vec<u64> {
                let rows =
                    told(question).into_iter().filter(|row| row.contains(&format!("Text(\"{event}\")")));
                let number = |row: &String| row.split("Unsigned(").nth(1)?.split(')').next()?.parse().ok();
                rows.map(|row| number(row).expect("the packet's number")).collect()
            };
            assert_eq!(of_event(0, "chat.said"), [2, last, last, last], "{what}");
            assert_eq!(of_event(0, "word.written"), [last], "{what}");
            // The packet that ends the wait has no other effect twice.
            assert_eq!(told(0).len(), 5 + usize::from(end == End::Reset), "{what}");
            assert_eq!(of_event(1, "chat.said"), [last], "{what}");
            assert_eq!(told(2).len(), 1, "{what}");
            // The connection that carries the call, and the call.
            assert_eq!(told(3).len(), 2, "{what}");
            assert_eq!(told(4).len(), 0, "packets have gone long before: {what}");
            let counters = outcome.counters.message;
            assert_eq!((counters.message_bytes_lost, counters.messages_cut), (0, 0), "{what}");
            let (one, _) = rows_of(&compiler, &alone, &packets, 1);
            assert!(one.iter().eq(told(0)), "{what}: alone {one:#?}");
            assert_eq!(rows_of(&compiler, &together, &packets, 3).0, rows, "three workers: {what}");
        }
        // Strict reassembly does not skip holes.
        let options = Options { limits: Limits { strict: true, ..Limits::default() }, ..options };
        let strict = compile(&compiler, &asks[..1], &options);
        let (rows, outcome) = rows_of(&compiler, &strict, &with_hole(End::Capture).0, 1);
        assert_eq!((rows.len(), outcome.counters.message.message_bytes_lost), (1, 21), "{rows:#?}");
    }
}

/// Numbers of the packets that match.
fn matching(compiler: &Compiler, filter: &str, packets: &[MemoryPacket]) -> Vec<usize> {
    let numbers = [Executor::Native, Executor::Interpreter].map(|engine| {
        let options = Options { engine, ..Options::default() };
        let compiled = compile(compiler, &[ask(filter, Want::Packets)], &options);
        let rows = rows(compiler, &compiled, packets, 1).0;
        rows.iter().map(|row| row.rsplit(' ').next().unwrap().parse().unwrap()).collect()
    });
    let [native, interpreted]: [Vec<usize>; 2] = numbers;
    assert_eq!(native, interpreted, "{filter}");
    native
}

#[test]
fn filters_are_given_the_packet_that_makes_a_message_whole() {
    let mut compiler = Compiler::default();
    compiler.add("chat.weir", CHAT).unwrap_or_else(|wrong| panic!("{wrong}"));
    let first: &[u8] = &[0x7e, 0x5a, 0, 0, 3, 1, 2, 3];
    let second: &[u8] = &[0x7e, 0x5a, 2, 0, 4, 0, 0, 0, 9];
    let said = [first, second].concat();
    let segment = |port: u16, from: usize, to: usize| {
        let segment = tcp((40_000, port), from as u32, 0, ACK, &[], &said[from..to]);
        MemoryPacket::ethernet(ethernet(0x0800, &ipv4((V4[0], V4[1]), 6, 1, 0, &[], &segment)))
    };
    let cut = |port: u16, ends: &[usize]| {
        let starts = [0].iter().chain(ends);
        let mut packets: Vec<MemoryPacket> =
            starts.zip(ends).map(|(&from, &to)| segment(port, from, to)).collect();
        for (number, packet) in (1..).zip(&mut packets) {
            packet.time.0 = number * 1_000_000;
        }
        packets
    };
    // A header; its rest and half a header; the rest of that one and some payload; the last bytes.
    let packets = cut(7777, &[5, 10, 14, 17]);
    for (filter, numbers) in [
        ("chat", &[2, 4][..]),
        ("chat.kind == 0", &[2]),
        ("chat.kind == 2", &[4]),
        ("word.number == 9", &[4]),
        ("word.number == 8", &[]),
        ("chat.payload contains \"\\x02\"", &[2]),
        // Packets that the filter excludes still belong to the stream.
        ("chat.kind == 2 and frame.len == 57", &[4]),
        ("chat and frame.len == 58", &[]),
        ("tcp and not chat", &[1, 3]),
    ] {
        assert_eq!(matching(&compiler, filter, &packets), numbers, "{filter}");
    }
    // A message is reported once it is complete, whether or not its payload is read.
    let packets = cut(7778, &[5, 10, 14, 17]);
    assert_eq!(matching(&compiler, "note.kind == 0", &packets), [2]);
    assert_eq!(matching(&compiler, "note.kind == 2", &packets), [4]);
    assert_eq!(matching(&compiler, "note.payload contains \"\\x02\"", &packets), [2]);
}

/// Many messages in one segment, each in an inner connection of its own: they belong to the packet, not to
/// each other.
#[test]
fn messages_of_one_packet_do_not_hold_each_other() {
    let text = "
        //! Calls
        protocol call {
            header { number: u16  kind: u8 }
            instance (number) <-> (kind)
            timeout 1m
            event rang on packet { number }
        }
        //! Marks
        protocol mark {
            header { tag: u8  size: u8 }
            payload = rest[.. size]
            event made on packet { tag }
        }
        //! Over TCP
        stack calls extends internet {
            tcp -> messages mark when dst_port == 7777
            mark -> call when tag == 1
        }";
    let mut compiler = Compiler::default();
    compiler.add("calls.weir", text).unwrap_or_else(|wrong| panic!("{wrong}"));
    let said: Vec<u8> = (0..400_u16)
        .flat_map(|number| match number % 2 {
            0 => vec![1, 3, (number >> 8) as u8, number as u8, 5],
            _ => vec![0, 1, 9],
        })
        .collect();
    let packets = conversation(&mut Random::new(3), 7777, &said, CALM);
    let flows = |filter: &str| {
        let compiled = compile(&compiler, &[ask(filter, Want::Connections)], &Options::default());
        rows(&compiler, &compiled, &packets, 1).0
    };
    let all = flows("");
    assert_eq!(all.len(), 201, "a connection, and 200 calls");
    // All of them have the TCP connection as their only outer connection.
    let outer: Vec<usize> = all.iter().map(|row| row.matches("outer").count()).collect();
    assert!(outer.iter().all(|&count| count == outer[0]), "{all:#?}");
    let lengths: Vec<usize> = all.iter().map(String::len).collect();
    assert!(lengths.iter().max() < Some(&(lengths.iter().min().unwrap() + 200)), "{lengths:?}");
    assert_eq!(flows("mark.tag == 0").len(), 1, "what TCP's connection holds");
    let names = ["mark.made".to_string()];
    let need = Need { events: EventRows::of(compiler.stack(), &names).unwrap().asked, ..Need::default() };
    let asked = Ask { filter: String::new(), need, want: Want::Events };
    let compiled = compile(&compiler, &[asked], &Options::default());
    let told = rows(&compiler, &compiled, &packets, 1).0;
    assert_eq!(told.len(), 400);
    assert!(
        told.iter().all(|row| row.contains("Unsigned(40000)") && row.contains("Unsigned(7777)")),
        "{told:#?}"
    );
}

/// All language features for messages: conditions, runs, inner layers with instances and cycles, on both
/// sides.
const ALL: &str = "
//! Streams of small numbers
protocol carrier {
    header { from: u8  to: u8  number: u8  flags { ack: u1  end: u1  _: u6 }  acked: u8 }
    payload = rest
    instance (from) <-> (to) reversed when flags.end == 1
    each side { last: u8 }
    prepare { me.last = number }
    sequence at number of payload from first
    acknowledge acked when flags.ack == 1
    states { open: start  closed: accept }
    on over: open -> closed when ordered.flags.end == 1
    on anew: closed -> restart when flags.end == 0
    timeout 1m
    event part on ordered { assemble }
}
//! With what depends on what is in it
protocol item {
    header {
        kind: u8 where <= 40
        if kind == 1 { size: u16 } else if kind < 9 { small: u8 }
        marks: run {
            end = 0 stop
            one = 1 { mark: u8 }
            other = _ { length: u8 where >= 2  rest: bytes[length - 2] }
        } until if kind == 2 then 6 else 0
    }
    let bytes = if kind == 1 then size & 0x1ff else if kind < 9 then small & 31 else kind
    payload = rest[.. bytes]
    let who = below.from
    event told on packet { kind, bytes, who }
}
//! In items
protocol inner {
    header { a: u8  b: u8 }
    payload = rest
    instance (a) <-> (b)
    each side { seen: u32 }
    count { me.seen += 1 }
    timeout 1m
    event came on packet { a, b, seen = me.seen }
}
//! Heads alone
protocol head {
    header { size: u8 }
    payload = rest[.. size & 63]
    event counted on packet { size, number = below.number }
}
//! Of all these
stack all {
    start 147: carrier
    repeat inner 3
    carrier -> messages item when from < 3
    carrier -> messages head when from == 3
    item, inner -> inner when payload.length >= 2
    dispatch carrier.from <-> carrier.to
}
";

/// Packets of a few connections, mostly in order, with mostly small byte values.
fn small_packets(random: &mut Random) -> Vec<MemoryPacket> {
    let mut sent = [[0_u8; 5]; 5];
    let mut packets: Vec<MemoryPacket> = vec![];
    for number in 0..120 {
        let (from, to) = (random.below(5) as usize, random.below(5) as usize);
        let length = random.pick(&[0, 1, 2, 5, 20, 60]);
        let mut small = || {
            let most = random.pick(&[3, 12, 256]);
            random.below(most) as u8
        };
        let payload: Vec<u8> = (0..length).map(|_| small()).collect();
        let at = match random.below(12) {
            0 => random.bits() as u8,
            1 => sent[from][to].wrapping_sub(2),
            2 => sent[from][to].wrapping_add(3),
            _ => sent[from][to],
        };
        sent[from][to] = at.wrapping_add(length as u8);
        let flags = random.pick(&[0, 0x80, 0x80, 0xc0]);
        let bytes = [&[from as u8, to as u8, at, flags, sent[to][from]][..], &payload].concat();
        let cut =
            if random.once_in(15) { random.below(bytes.len() as u64 + 1) as usize } else { bytes.len() };
        packets.push(
            MemoryPacket {
                time: Timestamp(number * 1_000_000),
                link: LinkType(147),
                wire_bytes: bytes.len() as u32,
                frame: bytes,
            }
            .cut(cut),
        );
    }
    packets
}

#[test]
fn messages_are_the_same_to_every_engine() {
    let mut compiler = Compiler::default();
    compiler.add("all.weir", ALL).unwrap_or_else(|wrong| panic!("{wrong}"));
    let names = ["item.told", "inner.came", "head.counted"].map(str::to_string);
    let need =
        Need { events: EventRows::of(compiler.stack(), &names).expect("declared").asked, ..Need::default() };
    let asks = vec![
        Ask { filter: String::new(), need, want: Want::Events },
        Ask { filter: "head or inner.b == 1".into(), need, want: Want::Events },
        ask("item.kind == 2 and item.marks.one", Want::Packets),
        ask("inner and frame.len > 20", Want::Packets),
        ask("head.size > 5 or item.payload contains \"\\x01\\x01\"", Want::Packets),
        ask("item.told.who == 1", Want::Connections),
        ask("", Want::Connections),
    ];
    let ways = [
        Options { engine: Executor::Interpreter, without_passes: vec!["all".into()], ..Options::default() },
        Options { engine: Executor::Interpreter, ..Options::default() },
        Options { engine: Executor::Native, ..Options::default() },
        Options { engine: Executor::Native, without_passes: vec!["all".into()], ..Options::default() },
    ];
    let each: Vec<Vec<_>> = asks
        .iter()
        .map(|one| ways.iter().map(|way| compile(&compiler, std::slice::from_ref(one), way)).collect())
        .collect();
    let together = compile(&compiler, &asks, &Options::default());
    let mut said = vec![0; asks.len()];
    for seed in seeds(0..60) {
        let packets = small_packets(&mut Random::new(seed));
        let (all, _) = rows(&compiler, &together, &packets, 1);
        for (number, ways) in each.iter().enumerate() {
            let first = rows(&compiler, &ways[0], &packets, 1).0;
            for (way, compiled) in ways.iter().enumerate().skip(1) {
                assert_eq!(
                    rows(&compiler, compiled, &packets, 1).0,
                    first,
                    "seed {seed}, question {number}, way {way}"
                );
            }
            let own = all.iter().filter_map(|row| row.strip_prefix(&format!("{number} ")));
            let alone = first.iter().filter_map(|row| row.strip_prefix("0 "));
            assert!(own.eq(alone), "seed {seed}, question {number} together with the others");
            let spread = rows(&compiler, &ways[2], &packets, 3).0;
            assert_eq!(spread, first, "seed {seed}, question {number}, three workers");
            said[number] += first.len();
        }
    }
    assert!(said.iter().all(|&rows| rows > 20), "each question has answers: {said:?}");
}
