//! `weir packets -V` and `-x`: sessions below the packets that complete them, formats, and what does not go
//! together.

use crate::cli::{answer, text_of, weir};
use serde_json::Value as Json;
use std::collections::BTreeMap;

const SESSIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sessions.pcap");

/// The packets of a filter, as JSON.
fn packets(filter: &str, more: &[&str]) -> Vec<Json> {
    let text = answer(&[&["packets", SESSIONS, filter, "-V", "--format", "json"], more].concat(), 0);
    text.lines().map(|line| serde_json::from_str(line).expect("each packet is an object")).collect()
}

/// The packet of each session, by the text of the session.
fn completing(packets: &[Json]) -> BTreeMap<String, u64> {
    let each = packets.iter().flat_map(|packet| {
        let number = packet["number"].as_u64().expect("a number");
        let sessions = packet["sessions"].as_array().expect("a list");
        sessions.iter().map(move |session| (session.to_string(), number))
    });
    each.collect()
}

/// The value of a field in the innermost layer that has it.
fn field<'a>(packet: &'a Json, name: &str) -> &'a Json {
    let layers = packet["layers"].as_array().expect("layers").iter().rev();
    let fields = layers.flat_map(|layer| layer["fields"].as_array().expect("fields"));
    &fields.into_iter().find(|field| field["name"] == name).unwrap_or_else(|| panic!("{name} in {packet}"))["value"]
}

#[test]
fn a_session_is_below_the_packet_that_completes_it() {
    let all = packets("udp.port == 53", &[]);
    let found = completing(&all);
    let dns = answer(&["dns", SESSIONS, "udp.port == 53", "--count"], 0);
    // Queries without an answer are completed by no packet.
    assert!(found.len() > 4 && found.len() as u64 <= dns.trim().parse().expect("a number"), "{dns}");
    for (session, number) in &found {
        let session: Json = serde_json::from_str(session).expect("an object");
        let packet = all.iter().find(|packet| packet["number"] == *number).expect("it is shown");
        assert_eq!(session["_path"], "dns");
        assert_eq!(
            (field(packet, "udp.src_port"), field(packet, "udp.dst_port")),
            (&Json::from(53), &session["id.orig_p"])
        );
    }
}

#[test]
fn a_filter_that_is_decided_late_moves_no_session() {
    for (filter, late) in [
        ("udp.port == 53", "udp.port == 53 and conn.orig_pkts >= 1"),
        ("tcp.port == 80", "tcp.port == 80 and conn.orig_pkts >= 1"),
        ("tls", "tls and conn.resp_pkts >= 1"),
    ] {
        let (early, late) = (completing(&packets(filter, &[])), completing(&packets(late, &[])));
        assert!(!early.is_empty(), "{filter}");
        assert_eq!(early, late, "{filter}");
    }
}

#[test]
fn the_number_of_workers_changes_nothing() {
    let of = |workers| answer(&["packets", SESSIONS, "-V", "-x", "-j", workers], 0);
    assert_eq!(of("1"), of("3"));
}

#[test]
fn bytes_are_those_of_the_capture_file() {
    let written = answer(&["packets", SESSIONS, "-x", "--limit", "3", "--format", "json"], 0);
    let capture = std::fs::read(SESSIONS).expect("the example");
    for line in written.lines() {
        let packet: Json = serde_json::from_str(line).expect("an object");
        let digits = packet["bytes"].as_str().expect("digits");
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("a byte");
        let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
        assert_eq!(bytes.len() as u64, packet["captured"].as_u64().expect("a number"));
        assert!(capture.windows(bytes.len()).any(|part| part == bytes), "{line}");
    }
    assert_eq!(written.lines().count(), 3);
}

#[test]
fn detail_is_text_or_json() {
    let refused = weir(&["packets", SESSIONS, "-V", "--format", "csv"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text_of(&refused).contains("give no format or `json` instead of `csv`"), "{}", text_of(&refused));
    for other in [&["--count"][..], &["-w", "x.pcap"]] {
        let refused = weir(&[&["packets", SESSIONS, "-V"], other].concat());
        assert_eq!(refused.status.code(), Some(2), "{other:?}");
    }
    let explained = answer(&["explain", "tcp", "--wants", "packets", "--set", "detail=true"], 0);
    assert!(explained.contains("wants: packets"), "{explained}");
}
