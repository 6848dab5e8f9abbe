//! An exchange of DHCP or DHCPv6 is one row, whichever connections its messages are in.

use crate::properties::drive::{MemoryPacket, all_sessions, ask, compile, in_memory, read_capture, rows};
use weir::packet::Timestamp;
use weir::{ColumnMask, Compiler, Item, Options, Shape};

const CAPTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sessions.pcap");

/// Offsets in an Ethernet frame with an IPv4 header of 20 bytes: of the UDP ports, and of the UDP payload.
const PORTS_AT: usize = 34;
const PAYLOAD_AT: usize = 42;

/// The packets of DHCP.
fn packets() -> Vec<MemoryPacket> {
    let is_dhcp = |packet: &MemoryPacket| {
        let frame = &packet.frame;
        frame.len() > PAYLOAD_AT
            && frame[12..15] == [8, 0, 0x45]
            && frame[23] == 17
            && matches!(frame[PORTS_AT..PORTS_AT + 4], [0, 67, 0, 68] | [0, 68, 0, 67])
    };
    read_capture(CAPTURE).into_iter().filter(is_dhcp).collect()
}

/// The message types of each row.
fn in_order(packets: &[MemoryPacket], workers: usize) -> Vec<String> {
    let compiler = Compiler::default();
    let compiled = compile(&compiler, &[ask("dhcp", all_sessions())], &Options::default());
    let (rows, _) = rows(&compiler, &compiled, packets, workers);
    let kinds = ["DISCOVER", "OFFER", "REQUEST", "ACK", "RELEASE"];
    let of = |row: &String| {
        let mut found: Vec<(usize, &str)> =
            kinds.iter().flat_map(|kind| row.match_indices(*kind).map(|(at, _)| (at, *kind))).collect();
        found.sort_unstable();
        found.iter().map(|(_, kind)| *kind).collect::<Vec<_>>().join(" ")
    };
    rows.iter().map(of).collect()
}

/// As [`in_order`], sorted.
fn exchanges(packets: &[MemoryPacket], workers: usize) -> Vec<String> {
    let mut all = in_order(packets, workers);
    all.sort_unstable();
    all
}

#[test]
fn requests_to_all_hosts_and_their_answers_are_one_row() {
    for workers in [1, 3] {
        let expected = ["DISCOVER OFFER REQUEST ACK", "RELEASE", "REQUEST ACK"];
        assert_eq!(exchanges(&packets(), workers), expected, "{workers} workers");
    }
}

#[test]
fn halves_of_different_exchanges_are_rows_of_their_own() {
    let is_answer = |packet: &MemoryPacket| packet.frame[PORTS_AT + 1] == 67;
    let (answers, requests): (Vec<_>, Vec<_>) = packets().into_iter().partition(is_answer);
    assert_eq!(exchanges(&requests, 1), ["DISCOVER REQUEST", "RELEASE", "REQUEST"]);
    assert_eq!(exchanges(&answers, 1), ["ACK", "OFFER ACK"]);
    // The number of the transaction, and the address of the client.
    for at in [PAYLOAD_AT + 4, PAYLOAD_AT + 28] {
        let mut changed = packets();
        for packet in changed.iter_mut().filter(|packet| is_answer(packet)) {
            packet.frame[at + 3] ^= 1;
            // The sender computed no checksum.
            packet.frame[PORTS_AT + 6..PAYLOAD_AT].fill(0);
        }
        let rows = exchanges(&changed, 1);
        assert!(rows.contains(&"OFFER ACK".to_string()), "{rows:?}");
        assert!(rows.contains(&"DISCOVER REQUEST".to_string()), "{rows:?}");
    }
}

#[test]
fn a_half_does_not_wait_for_ever() {
    let (answers, requests): (Vec<_>, Vec<_>) =
        packets().into_iter().partition(|packet| packet.frame[PORTS_AT + 1] == 67);
    let hours_later = |packet: &MemoryPacket, hours: i64| {
        let time = Timestamp(packet.time.0 + hours * 3_600_000_000_000);
        MemoryPacket { time, ..packet.clone() }
    };
    let [first, .., renewal, release] = &requests[..] else { panic!("{} requests", requests.len()) };
    let mut all = vec![first.clone()];
    // The row of the first exchange comes once its connection has ended, some bursts later.
    for _ in 0..20 {
        all.extend([renewal, &answers[answers.len() - 1]].map(|packet| hours_later(packet, 1)));
    }
    all.push(hours_later(release, 2));
    for workers in [1, 3] {
        let rows = in_order(&all, workers);
        assert_eq!(rows.iter().filter(|row| *row == "DISCOVER").count(), 1, "{rows:?}");
        assert_eq!(rows.last().map(String::as_str), Some("RELEASE"));
    }
}

/// Clients of DHCPv6 ask all servers of a link. In the rows of whole exchanges they are the originators.
#[test]
fn exchanges_of_dhcpv6_are_one_row_each() {
    const SERVICES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/services.pcap");
    let compiler = Compiler::default();
    let compiled = compile(&compiler, &[ask("dhcpv6", all_sessions())], &Options::default());
    for workers in [1, 3] {
        let (rows, outcome) = rows(&compiler, &compiled, &read_capture(SERVICES), workers);
        for request in ["SOLICIT", "REQUEST", "CONFIRM", "RELEASE", "INFORMATION-REQUEST"] {
            let answer = if request == "SOLICIT" { "ADVERTISE" } else { "REPLY" };
            let messages = format!("Texts([\"{request}\", \"{answer}\"])");
            assert_eq!(rows.iter().filter(|row| row.contains(&messages)).count(), 1, "{request}: {rows:#?}");
        }
        assert_eq!((rows.len(), &outcome.matched[..]), (5, &[5][..]));
        let from_client = "Unsigned(546), Address(fe80::ff:fe00:1), Unsigned(547)";
        assert!(rows.iter().all(|row| row.contains(from_client)), "{rows:#?}");
    }
}

/// The columns that are shown do not decide what is joined.
#[test]
fn hidden_columns_join_rows() {
    let compiler = Compiler::default();
    let compiled = compile(&compiler, &[ask("dhcp", all_sessions())], &Options::default());
    for shown in [ColumnMask::NONE, [0].into_iter().collect(), ColumnMask::ALL] {
        let shape = Shape { columns: shown, ..Shape::default() };
        let mut count = 0;
        let mut each = |_: usize, item: Item<'_>| {
            if let Item::Rows(rows) = item {
                count += rows.iter().count();
            }
            Ok::<(), std::convert::Infallible>(())
        };
        let mut source = in_memory(&packets());
        let Ok(_) = weir::run(&compiler, &compiled, &mut source, &[shape], 1, &mut each, &mut |_| {});
        assert_eq!(count, 3, "{shown:?}");
    }
}
