//! Rules over packets that the tests make: what matches, and what does not, however the bytes are divided.

use crate::support::{CLIENT, SERVER, Talk, alerts, alerts_of, count, packet, program, rules, run};
use std::collections::BTreeMap;
use std::sync::Arc;
use weir::Compiler;
use weir::io::{MemoryPacket, MemorySource};
use weir::packet::Timestamp;
use weir_detect::{Detection, RuleProgram};
use weir_rules::{Classes, Tunings};
use weir_testing::frames::{ACK, ethernet, ipv4, udp};

/// A rule's filter holds for the connection of a packet, as far as is known; of packets without a connection,
/// for the packet.
#[test]
fn filters_of_weir_hold_for_connections() {
    let rules = "alert tcp any any -> any any (weir.filter:\"tcp.dstport == 80\"; content:\"needle\"; sid:1;)\n\
                 alert tcp any any -> any any (weir.filter:\"tcp.dstport == 81\"; content:\"needle\"; sid:2;)\n\
                 alert tcp any any -> any any (weir.filter:\"http.host contains 'example'\"; content:\"needle\"; sid:3;)\n\
                 alert tcp any any -> any any (weir.filter:\"http.host contains 'other'\"; content:\"needle\"; sid:4;)\n\
                 alert udp any any -> any any (weir.filter:\"udp.length > 11\"; content:\"x\"; sid:5;)\n\
                 alert ip any any -> any any (weir.filter:\"ip.proto == 89\"; ip_proto:89; sid:6;)\n\
                 alert ip any any -> any any (weir.filter:\"ip.proto == 90\"; ip_proto:89; sid:7;)\n\
                 alert tcp any any -> any any (weir.filter:\"http.host contains 'example'\"; sid:8;)\n";
    let mut talk = Talk::new(80);
    talk.say(true, b"GET / HTTP/1.1\r\nHost: www.example.org\r\n\r\n");
    talk.say(false, b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabcdef");
    talk.say(true, b"GET /needle HTTP/1.1\r\nHost: www.example.org\r\n\r\n");
    let mut packets = talk.packets;
    packets.push(packet(900, true, 17, &udp((5, 6), b"x")));
    packets.push(packet(901, true, 17, &udp((7, 8), b"xxxx")));
    packets.push(packet(902, true, 89, b"hello"));
    assert_eq!(alerts(rules, &packets), BTreeMap::from([(1, 1), (3, 1), (5, 1), (6, 1), (8, 2)]));
}

/// What a connection is about is known behind the first match: the match alerts then, or does not.
#[test]
fn matches_wait_for_what_is_known_later() {
    let mut talk = Talk::new(80);
    talk.say(true, b"POST /ok HTTP/1.1\r\nHost: www.example.org\r\nContent-Length: 10\r\n\r\npassword=x");
    talk.say(false, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let filter = "alert tcp any any -> any any (weir.filter:\"http.host contains 'example'\"; content:\"password=\"; sid:1;)\n\
                  alert tcp any any -> any any (weir.filter:\"http.host contains 'other'\"; content:\"password=\"; sid:2;)\n";
    assert_eq!(alerts(filter, talk.end()), BTreeMap::from([(1, 1)]));
    let pass = "pass http any any -> any any (content:\"POST /ok\"; sid:1;)\n\
                alert http any any -> any any (http.uri; content:\"/ok\"; sid:2;)\n";
    assert_eq!(alerts(pass, talk.end()), BTreeMap::new());
    // Alone: no other rule asks for the payload.
    let both =
        "alert http any any -> any any (content:\"password=\"; http.method; content:\"POST\"; sid:1;)\n";
    assert_eq!(alerts(both, talk.end()), BTreeMap::from([(1, 1)]));
    let lookup = |flags: [u8; 2]| {
        let head = [&[0, 7][..], &flags, &[0, 1, 0, 0, 0, 0, 0, 0]].concat();
        [&head[..], b"\x06google\x03com\0\0\x01\0\x01"].concat()
    };
    let packets = [
        packet(1, true, 17, &udp((4_000, 53), &lookup([1, 0]))),
        packet(2, false, 17, &udp((53, 4_000), &lookup([0x81, 0x80]))),
    ];
    let other = "alert sip any any -> any any (content:\"google\"; sid:1;)\n\
                 alert dns any any -> any any (content:\"google\"; sid:2;)\n";
    assert_eq!(alerts(other, &packets), BTreeMap::from([(2, 2)]));
}

/// Bytes between missing ones are inspected, whoever acknowledges them; also at the end of the capture.
#[test]
fn bytes_behind_missing_ones_are_inspected() {
    let rules = "alert tcp any any -> any any (flow:only_stream; content:\"evil\"; sid:1;)\n";
    let mut talk = Talk::new(80);
    let first = talk.next[0];
    talk.at(true, first + 5, ACK, b"evil");
    talk.at(true, first + 15, ACK, b"x");
    let unanswered = talk.packets.clone();
    talk.next[0] = first + 16;
    talk.segment(false, ACK, &[]);
    talk.segment(false, ACK, b"hello");
    assert_eq!(alerts(rules, &talk.packets), BTreeMap::from([(1, 1)]));
    assert_eq!(alerts(rules, &unanswered), BTreeMap::from([(1, 1)]));
}

/// Connections are forgotten when they need more than the memory: rules see their next packets, and bits are
/// gone.
#[test]
fn what_is_kept_of_connections_is_bounded() {
    let rules = "alert tcp any any -> any any (content:\"first\"; flowbits:set,seen; noalert; sid:1;)\n\
                 alert tcp any any -> any any (content:\"second\"; flowbits:isset,seen; sid:2;)\n\
                 alert tcp any any -> any any (content:\"second\"; sid:3;)\n";
    let mut talks: Vec<Talk> = (0..40).map(|port| Talk::new(8_000 + port)).collect();
    talks.iter_mut().for_each(|talk| _ = talk.say(true, b"first"));
    talks.iter_mut().for_each(|talk| _ = talk.say(true, b"second"));
    let mut packets: Vec<MemoryPacket> = vec![];
    for at in 0..5 {
        packets.extend(talks.iter().map(|talk| talk.packets[at].clone()));
    }
    let run = |memory: usize| {
        let detection = Detection::new(Arc::new(program(rules))).with_memory(memory);
        let forgotten = Arc::clone(detection.counters());
        let alerts = alerts_of(detection, "", &packets);
        (alerts, forgotten.flows_forgotten.load(std::sync::atomic::Ordering::Relaxed))
    };
    assert_eq!(run(1 << 20), (BTreeMap::from([(2, 40), (3, 40)]), 0));
    let (alerts, forgotten) = run(8_000);
    assert!(alerts[&3] == 40 && alerts.get(&2).is_none_or(|count| *count < 40), "{alerts:?}");
    assert!(forgotten > 40, "{forgotten}");
}

#[test]
fn a_wrong_filter_is_that_of_its_rule() {
    let text = "alert tcp any any -> any any (weir.filter:\"tcp.dsport == 80\"; sid:1;)\n\
                alert tcp any any -> any any (content:\"a\"; sid:2;)\n";
    let check = |filter: &str| {
        Compiler::default().check_filter(filter, false).map_err(|wrong| wrong.list[0].message.clone())
    };
    let program = RuleProgram::of(rules(text), &Classes::default(), &Tunings::default(), check);
    let [(1, 1, why)] = program.unsupported() else { panic!("{:?}", program.unsupported()) };
    assert!(why.starts_with("its filter `tcp.dsport == 80` is wrong: "), "{why}");
}

#[test]
fn a_pattern_is_found_however_segments_divide_it() {
    let rule =
        "alert tcp any any -> any 4444 (content:\"evil\"; content:\"payload\"; distance:1; within:7; sid:1;)";
    let bytes = b"some evil payload here";
    for size in 1..bytes.len() {
        let mut talk = Talk::new(4444);
        bytes.chunks(size).for_each(|piece| {
            talk.say(true, piece);
        });
        assert_eq!(alerts(rule, talk.end()), BTreeMap::from([(1, 1)]), "pieces of {size}");
    }
    // In another order, and with a segment that repeats bytes.
    let mut talk = Talk::new(4444);
    let first = talk.next[0];
    talk.at(true, first + 9, ACK, &bytes[9..]);
    talk.at(true, first, ACK, &bytes[..6]);
    talk.at(true, first + 2, ACK, &bytes[2..9]);
    talk.next[0] += bytes.len() as u32;
    assert_eq!(alerts(rule, talk.end()), BTreeMap::from([(1, 1)]));
    let mut talk = Talk::new(4444);
    talk.say(true, b"some evil other payload");
    assert_eq!(alerts(rule, talk.end()), BTreeMap::new());
}

#[test]
fn a_datagram_in_fragments_is_inspected_as_a_whole() {
    let rule = "alert udp any any -> any 53 (content:\"AAAABBBBCCCC\"; sid:1;)";
    let datagram = udp((5_000, 53), b"xxxxAAAABBBBCCCCyyyy");
    let ends = (CLIENT, SERVER);
    let fragment = |offset: usize, more: bool, time: i64| {
        let end = if more { offset + 16 } else { datagram.len() };
        let flags = (offset / 8) as u16 | if more { 0x2000 } else { 0 };
        let bytes = ethernet(0x0800, &ipv4(ends, 17, 7, flags, &[], &datagram[offset..end]));
        MemoryPacket { time: Timestamp(time * 1_000_000), ..MemoryPacket::ethernet(bytes) }
    };
    let packets = [fragment(0, true, 1), fragment(16, false, 2)];
    assert_eq!(alerts(rule, &packets), BTreeMap::from([(1, 1)]));
    let packets = [fragment(16, false, 1), fragment(0, true, 2)];
    assert_eq!(alerts(rule, &packets), BTreeMap::from([(1, 1)]));
}

#[test]
fn bits_and_numbers_of_a_connection_connect_rules() {
    let rules = "\
        alert tcp any any -> any any (flow:to_server; content:\"login\"; flowbits:set,seen; noalert; sid:1;)\n\
        alert tcp any any -> any any (flow:to_client; content:\"denied\"; flowbits:isset,seen; \
            flowint:tries,+,1; sid:2;)\n\
        alert tcp any any -> any any (flow:to_client; content:\"denied\"; flowint:tries,>=,2; sid:3;)\n\
        alert tcp any any -> any any (flow:to_client; content:\"denied\"; flowbits:isset,nobody_sets_it; sid:4;)\n"
        .replace("            flow", "flow");
    let mut talk = Talk::new(23);
    talk.say(false, b"denied")
        .say(true, b"login")
        .say(false, b"denied")
        .say(true, b"x")
        .say(false, b"denied");
    let found = alerts(&rules, talk.end());
    assert_eq!((count(&found, 1), count(&found, 2), count(&found, 4)), (0, 2, 0), "{found:?}");
    assert!(count(&found, 3) >= 1, "{found:?}");
}

#[test]
fn a_pass_rule_silences_its_packet() {
    let rules = "pass tcp any any -> any any (content:\"known\"; sid:1;)\n\
                 alert tcp any any -> any any (content:\"bad\"; sid:2;)\n";
    let mut talk = Talk::new(23);
    assert_eq!(alerts(rules, talk.say(true, b"bad known").end()), BTreeMap::new());
    let mut talk = Talk::new(23);
    assert_eq!(alerts(rules, talk.say(true, b"bad").end()), BTreeMap::from([(2, 1)]));
}

#[test]
fn thresholds_limit_alerts() {
    let many: Vec<MemoryPacket> =
        (0..30).map(|number| packet(number * 100, true, 17, &udp((5_000, 9_999), b"ping"))).collect();
    for (options, expected) in [
        ("threshold:type limit, track by_src, count 2, seconds 60;", 2),
        ("threshold:type threshold, track by_src, count 10, seconds 60;", 3),
        ("threshold:type both, track by_src, count 5, seconds 60;", 1),
        ("detection_filter:track by_dst, count 25, seconds 60;", 5),
        // Three seconds of packets, in intervals of more than one.
        ("threshold:type limit, track by_src, count 1, seconds 1;", 3),
        ("", 30),
    ] {
        let rule = format!("alert udp any any -> any 9999 (content:\"ping\"; {options} sid:1;)");
        assert_eq!(alerts(&rule, &many), BTreeMap::from([(1, expected)]), "{options}");
    }
}

#[test]
fn buffers_of_http_are_those_of_the_exchange() {
    let request = b"GET /a/../b%20c?x=1 HTTP/1.1\r\nHost: Example.COM:8080\r\nUser-Agent: tool/1\r\nCookie: id=7\r\n\r\n";
    let response = b"HTTP/1.1 404 Not Found\r\nServer: small\r\nContent-Length: 5\r\n\r\nhello";
    let mut talk = Talk::new(80);
    talk.say(true, request).say(false, response);
    let packets = talk.end();
    for (options, expected) in [
        ("http.uri; content:\"/b c?x=1\"; bsize:8;", 1),
        ("http.uri.raw; content:\"/a/../b%20c\"; startswith;", 1),
        ("content:\"/b c\"; http_uri;", 1),
        ("http.host; content:\"example.com\"; endswith;", 1),
        ("http.host.raw; content:\"Example.COM:8080\";", 1),
        ("http.user_agent; content:\"tool/1\";", 1),
        ("http.header; content:\"User-Agent|3a| tool\"; content:!\"Cookie\";", 1),
        ("http.cookie; content:\"id=7\";", 1),
        ("http.header_names; content:\"|0d 0a|Host|0d 0a|\"; startswith;", 1),
        ("flow:to_client; http.stat_code; content:\"404\";", 1),
        ("http.stat_msg; content:\"Not Found\";", 1),
        ("http.server; content:\"small\";", 1),
        ("flow:to_client; file.data; content:\"hello\"; bsize:5;", 1),
        ("http.response_body; content:\"hell\"; startswith;", 1),
        ("urilen:8;", 1),
        ("http.method; content:\"POST\";", 0),
        ("flow:to_client; http.uri; content:\"x=1\";", 0),
        ("http.uri; content:\"B C\"; nocase; http.stat_code; content:\"404\";", 0),
    ] {
        let found = alerts(&format!("alert http any any -> any any ({options} sid:1;)"), packets);
        assert_eq!(count(&found, 1), expected, "{options}");
    }
}

#[test]
fn headers_of_packets_are_compared() {
    let packets =
        [packet(1, true, 17, &udp((5_000, 53), b"abc")), packet(2, false, 17, &udp((53, 5_000), b"abcdef"))];
    for (rule, expected) in [
        ("alert udp any any -> any any (ttl:64; sid:1;)", 2),
        ("alert udp any any -> any any (ttl:<64; sid:1;)", 0),
        ("alert udp any any -> any any (dsize:>3; sid:1;)", 1),
        ("alert udp 10.0.0.0/8 any -> any 53 (dsize:3; sid:1;)", 1),
        ("alert udp !10.0.0.0/8 any -> any any (dsize:6; sid:1;)", 1),
        ("alert udp any any -> any [50:60,!53] (dsize:>0; sid:1;)", 0),
        ("alert udp any any <> 10.0.0.1 53 (dsize:>0; sid:1;)", 0),
        ("alert udp any any <> 10.0.0.1 5000 (dsize:>0; sid:1;)", 2),
        ("alert udp any any -> any any (udp.hdr; content:\"|00 35|\"; startswith; sid:1;)", 1),
        ("alert ip any any -> any any (ip_proto:17; ttl:64; sid:1;)", 2),
        ("alert tcp any any -> any any (ttl:64; sid:1;)", 0),
        ("alert udp any any -> any any (flow:established; dsize:>0; sid:1;)", 1),
    ] {
        let found = alerts(rule, &packets);
        assert_eq!(count(&found, 1), expected, "{rule}");
    }
}

#[test]
fn a_filter_selects_the_connections() {
    let packets =
        [packet(1, true, 17, &udp((5_000, 53), b"abc")), packet(2, true, 17, &udp((5_000, 54), b"abc"))];
    let detection =
        || Detection::new(Arc::new(program("alert udp any any -> any any (content:\"abc\"; sid:1;)")));
    assert_eq!(alerts_of(detection(), "udp.port == 54", &packets), BTreeMap::from([(1, 1)]));
    assert_eq!(alerts_of(detection(), "", &packets), BTreeMap::from([(1, 2)]));
}

#[test]
fn hostile_rules_and_streams_are_bounded() {
    // Ten thousand rules with one pattern, and a stream that half matches all of them.
    let rules: String = (1..=10_000)
        .map(|sid| {
            format!("alert tcp any any -> any any (content:\"aaaa\"; content:\"b\"; distance:0; content:\"never{sid}\"; distance:0; fast_pattern:0,4; sid:{sid};)\n")
                .replace("; fast_pattern:0,4", "; fast_pattern:0,4")
        })
        .collect();
    let mut talk = Talk::new(23);
    for _ in 0..20 {
        talk.say(true, &[b'a'; 1_000]).say(true, b"neve");
    }
    assert_eq!(alerts(&rules, talk.end()), BTreeMap::new());
}

#[test]
fn rules_are_replaced_while_they_run() {
    let first = "alert udp any any -> any 9 (content:\"one\"; flowbits:set,seen; sid:1;)\n\
                 alert udp any any -> any 9 (content:\"two\"; sid:2;)\n";
    let next = "alert udp any any -> any 9 (content:\"other\"; flowbits:isset,elsewhere; sid:4;)\n\
                alert udp any any -> any 9 (content:\"two\"; flowbits:isset,seen; sid:3;)\n";
    let detection = Detection::new(Arc::new(program(first)));
    let say = |time, word: &[u8]| packet(time, true, 17, &udp((5_000, 9), word));
    let mut found = vec![];
    // The source is idle in between: rows do not wait.
    let mut source = MemorySource::new()
        .then_packets([say(1, b"one")])
        .then_idle(Timestamp(2_000_000))
        .then_packets([say(3, b"two")]);
    let errors = run(&detection, "", &mut source, |alert| {
        found.push(alert.sid);
        if alert.sid == 1 {
            detection.replace(program(next)).expect("they need no more");
        }
    });
    assert_eq!((found, errors), (vec![1, 3], vec![]));
    let larger = program("alert http any any -> any any (http.uri; content:\"x\"; sid:5;)");
    assert!(detection.replace(larger).is_err_and(|why| why.contains("`http`")));
}
