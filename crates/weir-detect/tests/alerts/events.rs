//! Events, protocols that stay unknown, and actions that change.

use crate::support::{CLIENT, SERVER, Talk, alerts, listed, packet, program_with};
use std::collections::BTreeMap;
use std::sync::Arc;
use weir::io::MemoryPacket;
use weir_detect::Detection;
use weir_rules::{Tunings, Variables};
use weir_testing::frames::{ACK, ethernet, ipv4, udp};

/// Each event is that of its packet: packets without one do not alert.
#[test]
fn events_are_those_of_packets_and_sessions() {
    let rules = "alert tcp any any -> any any (stream-event:pkt_retransmission; sid:1;)\n\
                 alert tcp any any -> any any (stream-event:reassembly_overlap_different_data; sid:2;)\n\
                 alert tcp any any -> any any (stream-event:reassembly_seq_gap; sid:3;)\n\
                 alert http any any -> any any (app-layer-event:http.missing_host_header; sid:4;)\n\
                 alert ip any any -> any any (decode-event:ipv4.trunc_pkt; sid:5;)\n\
                 alert dns any any -> any any (app-layer-event:dns.z_flag_set; sid:6;)\n";
    let mut talk = Talk::new(9_999);
    let first = talk.next[0];
    talk.say(true, b"hello").say(false, b"world");
    talk.at(true, first, ACK, b"hello");
    assert_eq!(alerts(rules, talk.end()), BTreeMap::from([(1, 1)]));
    let mut talk = Talk::new(9_999);
    let first = talk.next[0];
    talk.at(true, first + 4, ACK, b"efgh");
    talk.at(true, first + 4, ACK, b"EVIL");
    talk.at(true, first, ACK, b"abcd");
    talk.next[0] += 8;
    assert_eq!(alerts(rules, talk.end()).get(&2), Some(&1));
    let mut talk = Talk::new(9_999);
    let first = talk.next[0];
    talk.at(true, first + 5, ACK, b"late");
    talk.next[0] += 9;
    talk.segment(false, ACK, b"seen");
    assert_eq!(alerts(rules, talk.end()).get(&3), Some(&1));
    let mut talk = Talk::new(80);
    talk.say(
        true,
        b"GET / HTTP/1.1\r\nAccept: *\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.0\r\n\r\n",
    );
    assert_eq!(alerts(rules, talk.end()), BTreeMap::from([(4, 1)]));
    let mut cut = ethernet(0x0800, &ipv4((CLIENT, SERVER), 17, 1, 0, &[], &udp((5, 9_000), b"0123456789")));
    cut.truncate(cut.len() - 4);
    assert_eq!(alerts(rules, &[MemoryPacket::ethernet(cut)]), BTreeMap::from([(5, 1)]));
    let lookup = |flags: u8| {
        [&[0, flags, 1, flags, 0, 1, 0, 0, 0, 0, 0, 0][..], b"\x01a\x03com\0\0\x01\0\x01"].concat()
    };
    let packets =
        [0, 0x40].map(|flags: u8| packet(i64::from(flags), true, 17, &udp((4_000, 53), &lookup(flags))));
    assert_eq!(alerts(rules, &packets), BTreeMap::from([(6, 1)]));
}

#[test]
fn a_protocol_that_stays_unknown_is_none_of_those() {
    let rules = "alert tcp any any -> any 80 (app-layer-protocol:!http; sid:1;)\n\
                 alert tcp any any -> any 80 (app-layer-protocol:failed; sid:2;)\n\
                 alert tcp any any -> any 80 (app-layer-protocol:http; sid:3;)\n";
    let mut other = Talk::new(80);
    other.say(true, b"\x01\x02\x03\x04 no protocol at all").say(false, b"\x05\x06\x07\x08");
    assert_eq!(alerts(rules, other.end()), BTreeMap::from([(1, 1), (2, 1)]));
    let mut http = Talk::new(80);
    http.say(true, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").say(false, b"HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(alerts(rules, http.end()), BTreeMap::from([(3, 1)]));
}

#[test]
fn frequent_alerts_have_another_action() {
    let many: Vec<MemoryPacket> =
        (0..30).map(|number| packet(number * 100, true, 17, &udp((5_000, 9_999), b"ping"))).collect();
    let rule = "alert udp any any -> any 9999 (content:\"ping\"; sid:1;)";
    for (filter, expected) in [
        // Alerts 11 to 21 come within the second behind the eleventh. Then the rule's own action is back; as
        // before, more than ten alerts came within a minute.
        (
            "count 10, seconds 60, new_action drop, timeout 1",
            vec![("alert", 10), ("drop", 11), ("alert", 1), ("drop", 8)],
        ),
        ("count 10, seconds 60, new_action pass, timeout 100", vec![("alert", 10)]),
        ("count 10, seconds 1, new_action reject, timeout 100", vec![("alert", 10), ("reject", 20)]),
        ("count 30, seconds 60, new_action drop, timeout 1", vec![("alert", 30)]),
    ] {
        let mut tunings = Tunings::default();
        let text = format!("rate_filter gen_id 1, sig_id 1, track by_src, {filter}\n");
        assert_eq!(tunings.read(&text, 0, &Variables::default()).len(), 0, "{text}");
        let found = listed(&Detection::new(Arc::new(program_with(rule, &tunings))), &many);
        let mut runs: Vec<(&str, usize)> = vec![];
        for alert in &found {
            match runs.last_mut() {
                Some((action, count)) if *action == alert.action => *count += 1,
                _ => runs.push((&alert.action, 1)),
            }
        }
        assert_eq!(runs, expected, "{filter}");
    }
}
