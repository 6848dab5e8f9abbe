//! The streams of a call have its Call-ID, whichever worker has found them.

use crate::properties::drive::{MemoryPacket, ask, compile, in_memory, read_capture};
use std::convert::Infallible;
use weir::packet::{Cell, Timestamp};
use weir::{Compiler, Item, Log, Options, Outcome, Want};
use weir_testing::frames::{ethernet, ipv4, udp};

const SERVICES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/services.pcap");

type End = ([u8; 4], u16);

const CALLER: [u8; 4] = [10, 0, 0, 1];
const CALLEE: [u8; 4] = [10, 0, 0, 9];

/// The rows of a question about RTP: whether the originator has sent the stream, its ports, and its call.
fn streams(
    packets: &[MemoryPacket],
    filter: &str,
    workers: usize,
) -> (Vec<(u64, u64, Option<String>)>, Outcome) {
    let compiler = Compiler::default();
    let log = Log::of(compiler.sessions(), "rtp").expect("it is there");
    let compiled = compile(&compiler, &[ask(filter, Want::Sessions(log.asked()))], &Options::default());
    let columns = log.columns();
    let at = |name: &str| columns.iter().position(|column| column.name == name).unwrap();
    let mut found = vec![];
    let mut each = |_: usize, item: Item<'_>| {
        let Item::Rows(rows) = item else { return Ok::<(), Infallible>(()) };
        for row in rows.iter() {
            let port = |name| match row.cell(at(name)) {
                Cell::Unsigned(port) => port,
                _ => 0,
            };
            let call = match row.cell(at("call_id")) {
                Cell::Text(call) => Some(call.to_string()),
                _ => None,
            };
            found.push((port("id.orig_p"), port("id.resp_p"), call));
        }
        Ok(())
    };
    let mut source = in_memory(packets);
    let Ok(outcome) =
        weir::run(&compiler, &compiled, &mut source, &[log.shape()], workers, &mut each, &mut |_| {});
    (found, outcome)
}

/// A datagram, sent so many milliseconds after the beginning.
fn datagram(ms: i64, from: End, to: End, payload: &[u8]) -> MemoryPacket {
    let datagram = udp((from.1, to.1), payload);
    let mut packet =
        MemoryPacket::ethernet(ethernet(0x0800, &ipv4((from.0, to.0), 17, 1, 0, &[], &datagram)));
    packet.time = Timestamp(1_700_000_000_000_000_000 + ms * 1_000_000);
    packet
}

/// A SIP message of the call `id`; the body describes media.
fn message(start: &str, id: &str, media: &str) -> Vec<u8> {
    let lines = [
        start,
        &format!("Via: SIP/2.0/UDP 10.0.0.1;branch=z9hG4bK{id}"),
        "From: <sip:a@x>",
        "To: <sip:b@x>",
        &format!("Call-ID: {id}"),
        "CSeq: 1 INVITE",
        "Content-Type: application/sdp",
        &format!("Content-Length: {}", media.len()),
        "",
        media,
    ];
    lines.join("\r\n").into_bytes()
}

/// The lines of a description of media that are about one stream.
fn media(host: &str, port: u16) -> String {
    format!("m=audio {port} RTP/AVP 0\r\nc=IN IP4 {host}\r\n")
}

/// The INVITE of a call and its answer, with the ports of the media.
fn call(ms: i64, id: &str, [caller_port, callee_port]: [u16; 2]) -> [MemoryPacket; 2] {
    let invite = message("INVITE sip:b@x SIP/2.0", id, &media("10.0.0.1", caller_port));
    let answer = message("SIP/2.0 200 OK", id, &media("10.0.0.9", callee_port));
    let ends = [(CALLER, 5060), (CALLEE, 5060)];
    [datagram(ms, ends[0], ends[1], &invite), datagram(ms + 1, ends[1], ends[0], &answer)]
}

/// A stream of four packets.
fn stream(ms: i64, from: End, to: End) -> Vec<MemoryPacket> {
    let packet = |n: u8| {
        let mut bytes = vec![0x80, 0, 0, n, 0, 0, 0, n, 0, 0, (ms % 251) as u8, 7];
        bytes.resize(12 + 160, 7);
        datagram(ms + i64::from(n) * 20, from, to, &bytes)
    };
    (1..=4).map(packet).collect()
}

#[test]
fn streams_name_the_calls_of_real_clients() {
    let packets = read_capture(SERVICES);
    for workers in [1, 3] {
        let (found, outcome) = streams(&packets, "", workers);
        assert_eq!((found.len(), &outcome.matched[..]), (4, &[4][..]), "no rows of SIP: {found:?}");
        let call = found[0].2.clone();
        assert!(call.is_some() && found.iter().all(|row| row.2 == call), "{found:?}");
    }
    // The condition excludes the messages of the call.
    let (found, _) = streams(&packets, "rtp.packets > 3", 1);
    assert_eq!(found.iter().map(|row| row.2.is_some()).collect::<Vec<_>>(), [false, false]);
    let (found, _) = streams(&packets, "rtp.packets > 3 or sip", 1);
    assert_eq!(found.iter().map(|row| row.2.is_some()).collect::<Vec<_>>(), [true, true]);
}

/// Both streams end with the capture, after both calls have announced the caller's port.
#[test]
fn a_port_of_two_calls_belongs_to_the_call_with_the_other_port() {
    let (caller, callees) = ((CALLER, 4000), [(CALLEE, 4002), (CALLEE, 4004)]);
    let mut packets = vec![];
    packets.extend(call(0, "first", [4000, 4002]));
    packets.extend(stream(10, caller, callees[0]));
    packets.extend(call(200, "second", [4000, 4004]));
    packets.extend(stream(210, callees[1], caller));
    // One end is announced: the sender uses another port than it listens on.
    packets.extend(stream(400, (CALLEE, 4999), caller));
    packets.extend(stream(600, (CALLEE, 4999), (CALLER, 4998)));
    let expected = [
        (4000, 4002, Some("first".to_string())),
        (4004, 4000, Some("second".to_string())),
        (4999, 4000, Some("second".to_string())),
        (4999, 4998, None),
    ];
    for workers in [1, 3] {
        let (mut found, _) = streams(&packets, "", workers);
        found.sort();
        assert_eq!(found, expected, "{workers} workers");
    }
}

#[test]
fn refused_and_later_announcements_name_nothing() {
    let (caller, callee) = ((CALLER, 4000), (CALLEE, 4002));
    let mut packets = stream(0, caller, callee);
    packets.extend(call(500, "later", [4000, 4002]));
    packets.extend(call(600, "refused", [0, 0]));
    packets.extend(stream(700, (CALLEE, 0), (CALLER, 0)));
    let (found, _) = streams(&packets, "", 1);
    assert!(!found.is_empty() && found.iter().all(|row| row.2.is_none()), "{found:?}");
}

/// The caller's port is used again: ten minutes later one end is not enough, a day later both are not.
#[test]
fn announcements_grow_old() {
    let minutes = |minutes: i64| minutes * 60_000;
    let (caller, callee, other) = ((CALLER, 4000), (CALLEE, 4002), (CALLEE, 5002));
    let named = |after: i64, to: End| {
        let packets = [call(0, "old", [4000, 4002]).to_vec(), stream(minutes(after), caller, to)].concat();
        streams(&packets, "", 1).0[0].2.is_some()
    };
    assert_eq!([named(9, other), named(11, other)], [true, false]);
    assert_eq!([named(23 * 60, callee), named(25 * 60, callee)], [true, false]);
    // A call that announces its media again goes on.
    let mut packets = call(0, "old", [4000, 4002]).to_vec();
    packets.extend(call(minutes(23 * 60), "old", [4000, 4002]));
    packets.extend(stream(minutes(46 * 60), caller, callee));
    assert_eq!(streams(&packets, "", 1).0[0].2.as_deref(), Some("old"));
}

/// Other hosts can not take over the streams of a call, and later calls do not hide it.
#[test]
fn other_calls_do_not_take_streams_over() {
    let (caller, callee) = ((CALLER, 4000), (CALLEE, 4002));
    let mut packets = call(0, "right", [4000, 4002]).to_vec();
    let both = media("10.0.0.1", 4000) + &media("10.0.0.9", 4002);
    let forged = message("INVITE sip:b@x SIP/2.0", "forged", &both);
    let refused = message("SIP/2.0 486 Busy Here", "forged", "");
    let others = [([10, 9, 9, 9], 5060), ([10, 9, 9, 8], 5060)];
    packets.push(datagram(5, others[0], others[1], &forged));
    packets.push(datagram(6, others[1], others[0], &refused));
    packets.extend(stream(10, caller, callee));
    for n in 0..30 {
        packets.extend(call(1000 + n * 10, &format!("later-{n}"), [4000, 4002]));
    }
    let (found, _) = streams(&packets, "", 1);
    assert_eq!(found, [(4000, 4002, Some("right".to_string()))]);
}

/// 40 000 ends are announced; those of the latest calls are known.
#[test]
fn announcements_have_a_bound() {
    let mut packets = vec![];
    let last = 20_000;
    for n in 0..last {
        let name = format!("call-{n}-{}", "x".repeat(40));
        let port = 10_000 + 2 * n;
        packets.extend(call(i64::from(n), &name, [port, port + 1]));
    }
    let ports = [10_000, 10_000 + 2 * (last - 1)];
    for port in ports {
        packets.extend(stream(30_000, (CALLER, port), (CALLEE, port + 1)));
    }
    let (found, outcome) = streams(&packets, "", 1);
    let named: Vec<_> = found.iter().filter(|row| row.2.is_some()).map(|row| row.0).collect();
    assert_eq!((found.len(), named), (2, vec![u64::from(ports[1])]), "{found:?}");
    let bytes = outcome.memory.joined_rows;
    assert!((500_000..8_000_000).contains(&bytes), "{bytes} bytes");
}
