//! Sessions are inspected as they grow: each side when it is there, and each rule once.

use crate::support::{Alert, Talk, listed, program};
use std::collections::BTreeSet;
use std::sync::Arc;
use weir_detect::Detection;

/// Rule and packet of each alert.
fn found(rules: &str, talk: &mut Talk) -> Vec<(u64, Option<u64>)> {
    let alerts = listed(&Detection::new(Arc::new(program(rules))), talk.end());
    alerts.into_iter().map(|Alert { sid, packet, .. }| (sid, packet)).collect()
}

#[test]
fn each_side_is_inspected_when_it_is_there() {
    let rules = "alert http any any -> any any (http.uri; content:\"/first\"; sid:1;)\n\
                 alert http any any -> any any (http.uri; content:\"/second\"; sid:2;)\n\
                 alert http any any -> any any (http.stat_code; content:\"404\"; sid:3;)\n\
                 alert http any any => any any (http.uri; content:\"/first\"; http.stat_code; content:\"404\"; sid:4;)\n\
                 alert http any any -> any any (flow:to_server; urilen:6; sid:5;)\n\
                 alert http any any => any any (http.uri; content:\"/first\"; http.location; absent; sid:6;)\n";
    let mut talk = Talk::new(80);
    // Packets 4 to 8: two requests before the first answer, which comes in two parts.
    talk.say(true, b"GET /first HTTP/1.1\r\nHost: a\r\n\r\n")
        .say(true, b"GET /second HTTP/1.1\r\nHost: a\r\n\r\n")
        .say(false, b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nab")
        .say(false, b"cd")
        .say(false, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let expected = [(1, 4), (5, 4), (2, 5), (3, 7), (4, 7), (6, 7)];
    let found: BTreeSet<(u64, Option<u64>)> = found(rules, &mut talk).into_iter().collect();
    assert_eq!(found, expected.map(|(sid, packet)| (sid, Some(packet))).into());
}

#[test]
fn a_long_body_is_inspected_before_its_end() {
    let rules = "alert http any any -> any any (flow:to_client; file.data; content:\"needle\"; sid:1;)\n\
                 alert http any any -> any any (http.response_body; content:\"needle\"; startswith; sid:2;)\n\
                 alert http any any -> any any (flow:to_client; file.data; content:\"nothing\"; sid:3;)\n\
                 alert http any any -> any any (flow:to_client; filesize:200007; sid:4;)\n\
                 alert http any any -> any any (http.request_body; content:\"needle\"; sid:5;)\n\
                 alert http any any -> any any (http.method; content:\"POST\"; sid:6;)\n";
    let mut talk = Talk::new(80);
    let body = [b"needle", &[b'.'; 200_001][..]].concat();
    let mut message = |is_request: bool| {
        let line = if is_request { "POST / HTTP/1.1\r\nHost: a" } else { "HTTP/1.1 200 OK" };
        talk.say(is_request, format!("{line}\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes());
        body.chunks(1_000).for_each(|piece| _ = talk.say(is_request, piece));
    };
    message(true);
    message(false);
    // Heads are packets 4 and 206. The 103rd packet of a body completes its first 100 KiB; the last one is
    // the 201st.
    let expected = [(5, 4 + 103), (6, 4 + 103), (1, 206 + 103), (2, 206 + 103), (4, 206 + 201)];
    let found = found(rules, &mut talk);
    assert_eq!(found, expected.map(|(sid, packet)| (sid, Some(packet))));
}
