//! TCP anomaly events: each is reported for the segment that causes it, and none for a correct conversation.

use crate::properties::drive::{MemoryPacket, compile, rows};
use weir::{Ask, Compiler, EventRows, Need, Options, Want};
use weir_testing::frames::{ACK, FIN, PSH, SYN, V4, ethernet, ipv4, tcp};

const RST: u8 = 4;
const URG: u8 = 32;

/// A segment: side, sequence number, acknowledgement, flags, time stamp, payload, time to live.
#[derive(Clone, Copy)]
struct Segment(usize, u32, u32, u8, Option<u32>, &'static [u8], u8);

fn packet(segment: &Segment) -> MemoryPacket {
    let Segment(side, seq, ack, flags, clock, payload, ttl) = *segment;
    let ports = if side == 0 { (40_000, 80) } else { (80, 40_000) };
    let stamp = |clock: u32| [&[1, 1, 8, 10][..], &clock.to_be_bytes(), &[0; 4]].concat();
    let options = clock.map(stamp).unwrap_or_default();
    let ends = if side == 0 { (V4[0], V4[1]) } else { (V4[1], V4[0]) };
    let mut datagram = ipv4(ends, 6, 1, 0x4000, &[], &tcp(ports, seq, ack, flags, &options, payload));
    datagram[8] = ttl;
    MemoryPacket::ethernet(ethernet(0x0800, &datagram))
}

/// The events of these segments after a handshake (sequence numbers 100 and 500, window 65 535 unscaled),
/// with packet numbers; the first segment is packet 4.
fn events(segments: &[Segment]) -> Vec<(String, u64)> {
    let handshake = [
        Segment(0, 100, 0, SYN, Some(1000), b"", 64),
        Segment(1, 500, 101, SYN | ACK, Some(7000), b"", 60),
        Segment(0, 101, 501, ACK, Some(1001), b"", 64),
    ];
    let packets: Vec<MemoryPacket> = handshake.iter().chain(segments).map(packet).collect();
    let compiler = Compiler::default();
    let names = ["inconsistent", "data_in_syn", "urgent", "stray", "old_clock", "new_hops", "beyond_window"];
    let names: Vec<String> = names.iter().map(|name| format!("tcp.{name}")).collect();
    let wanted = EventRows::of(compiler.stack(), &names).expect("they are declared");
    let need = Need { events: wanted.asked, ..Need::default() };
    let ask = Ask { filter: String::new(), need, want: Want::Events };
    let compiled = compile(&compiler, &[ask], &Options::default());
    let (rows, _) = rows(&compiler, &compiled, &packets, 1);
    let told = rows.iter().map(|row| {
        let name = names.iter().find(|name| row.contains(name.as_str())).expect("one of them");
        let number = row.split("Unsigned(").nth(1).and_then(|rest| rest.split(')').next());
        (name.clone(), number.and_then(|number| number.parse().ok()).expect("the packet's number"))
    });
    told.collect()
}

#[test]
fn nothing_is_wrong_with_what_is_right() {
    let right = [
        Segment(0, 101, 501, ACK | PSH, Some(1002), b"request", 64),
        Segment(1, 501, 108, ACK | PSH, Some(7001), b"answer", 60),
        Segment(0, 101, 501, ACK | PSH, Some(1003), b"request", 64), // retransmission
        Segment(1, 507, 108, ACK | FIN, Some(7002), b"", 60),
        Segment(0, 108, 508, ACK | FIN, Some(1004), b"", 64),
        Segment(1, 508, 109, ACK, None, b"", 60),
    ];
    assert_eq!(events(&right), []);
}

#[test]
fn each_anomaly_is_told_where_it_happens() {
    let wanted = |name: &str| vec![(format!("tcp.{name}"), 4)];
    let of = |segment| events(&[segment]);
    assert_eq!(of(Segment(0, 101, 501, ACK | URG, Some(1002), b"oob", 64)), wanted("urgent"));
    assert_eq!(of(Segment(1, 900, 101, RST | ACK, None, b"", 60)), wanted("stray"));
    assert_eq!(of(Segment(0, 101, 501, ACK, Some(900), b"old", 64)), wanted("old_clock"));
    assert_eq!(of(Segment(0, 101, 501, ACK, Some(1002), b"near", 3)), wanted("new_hops"));
    assert_eq!(of(Segment(0, 101 + 70_000, 501, ACK, Some(1002), b"far", 64)), wanted("beyond_window"));
    let waits = Segment(0, 106, 501, ACK, Some(1002), b"index", 64);
    let again = |text: &'static [u8]| events(&[waits, Segment(0, 107, 501, ACK, Some(1002), text, 64)]);
    assert_eq!(again(b"nde"), []);
    assert_eq!(again(b"nXe"), vec![("tcp.inconsistent".to_string(), 5)]);
    let syn = [Segment(0, 3_000, 0, SYN, Some(1002), b"early", 64)];
    assert!(events(&syn).contains(&("tcp.data_in_syn".into(), 4)));
}
