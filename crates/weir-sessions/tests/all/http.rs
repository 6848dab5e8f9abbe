//! Conversations in HTTP, and their expected sessions.

use std::fmt::Write;
use weir_sessions::http::{HEAD_BYTES_MAX, PROTOCOL, UNANSWERED_MAX};
use weir_sessions::{CutOff, Data, Direction, Progress};
use weir_testing::conversation::{Act, Conversation, HELD_BYTES_MAX, rows};

/// Method, URI, status, length of the response, anomalies.
fn exchanges(talk: &str) -> Vec<String> {
    rows(&PROTOCOL, talk, &["method", "uri", "status_code", "http.response.body_bytes", "http.incomplete"])
}

fn seed(name: &str) -> String {
    let path = format!("{}/../../corpus/http/{name}.talk", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("a seed")
}

#[test]
fn responses_answer_requests_in_order() {
    assert_eq!(
        exchanges(&seed("pipelined")),
        [
            "GET | /a | 200 | 6 | -",
            "POST | /b?q=1 | 404 | 7 | -",
            "HEAD | /c | 200 | 0 | -",
            "GET | /d | 304 | 0 | -",
            "GET | /e | 200 | 13 | -",
        ]
    );
}

#[test]
fn a_request_is_told_of_in_full() {
    let names =
        ["trans_depth", "host", "user_agent", "http.version", "http.host", "http.full_uri", "http.time"];
    assert_eq!(
        rows(&PROTOCOL, &seed("pipelined"), &names)[0],
        "1 | one.example:8080 | x/1 | 1.1 | one.example:8080 | http://one.example:8080/a | 1000000"
    );
    let names =
        ["http.request.body_bytes", "orig_mime_types", "resp_mime_types", "proxied", "http.content_length"];
    let rows = rows(&PROTOCOL, &seed("pipelined"), &names);
    assert_eq!(rows[0], "0 | - | text/html | - | 6");
    assert_eq!(rows[1], "5 | text/plain | text/plain | - | 5");
    assert_eq!(rows[2], "0 | - | - | X-FORWARDED-FOR -> 192.0.2.1 | 1000");
}

#[test]
fn an_interim_response_is_no_answer() {
    let names = ["method", "status_code", "info_code", "info_msg", "username", "password", "http.set_cookie"];
    let rows = rows(&PROTOCOL, &seed("continued"), &names);
    assert_eq!(rows, ["PUT | 303 | 100 | Continue | user | - | a=1,b=2"]);
}

#[test]
fn a_client_that_waits_may_give_its_body_up() {
    let names = ["method", "uri", "http.request.body_bytes", "status_code", "info_code", "http.incomplete"];
    assert_eq!(
        rows(&PROTOCOL, &seed("unasked"), &names),
        [
            "POST | /a | 0 | 401 | - | -",
            "POST | /b | 0 | 417 | - | -",
            "DELETE | /c | 222 | 413 | - | -",
            "PUT | /d | 9 | 302 | - | -",
            "PUT | /e | 19 | 200 | 100 | -",
            "GET | /f | 0 | 202 | - | -",
        ]
    );
}

#[test]
fn an_upgrade_to_http2_is_answered_on_stream_1() {
    let names =
        ["trans_depth", "http2.streamid", "method", "uri", "info_code", "status_code", "response_body_len"];
    assert_eq!(
        rows(&PROTOCOL, &seed("h2c"), &names),
        ["1 | 1 | GET | /up | 101 | 200 | 5", "2 | 3 | GET | /b | - | 204 | 0"]
    );
    let refused = r#"
        > "GET /up HTTP/1.1\r\nUpgrade: h2c\r\n\r\n"
        < "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok""#;
    assert_eq!(rows(&PROTOCOL, refused, &names), ["1 | - | GET | /up | - | 200 | 2"]);
}

#[test]
fn requests_of_http_0_9_and_bent_ones_have_rows() {
    let names =
        ["method", "uri", "http.version", "host", "status_code", "response_body_len", "http.incomplete"];
    for (request, response, row) in [
        (r"GET /old\r\n", r"<html>ok", "GET | /old | 0.9 | - | - | 8 | -"),
        (r"GET /old\r\n\r\n", r"HTML", "GET | /old | 0.9 | - | - | 4 | -"),
        (
            r"GET /old\n",
            r"HTTP/1.1 400 No\r\nContent-Length: 2\r\n\r\nno",
            "GET | /old | 0.9 | - | 400 | 2 | -",
        ),
        (
            r"GET\t/a\tHTTP/1.1\r\nHost: h:8\r\n\r\n",
            r"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "GET | /a | 1.1 | h:8 | 200 | 2 | -",
        ),
        (
            r"GET / HTTPS/1.1\r\nHost: h\r\n\r\n",
            r"HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n",
            "GET | / | 1.1 | h | 400 | 0 | -",
        ),
    ] {
        let talk = format!("> \"{request}\"\n< \"{response}\"");
        assert_eq!(rows(&PROTOCOL, &talk, &names), [row], "{request}");
    }
}

#[test]
fn a_switch_of_protocols_has_no_body() {
    let talk = r#"
        > "GET /chat HTTP/1.1\r\nUpgrade: x\r\n\r\n"
        < "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nContent-Length: 100\r\n\r\nhello""#;
    assert_eq!(exchanges(talk), ["GET | /chat | 101 | 0 | -", "over to 59"]);
}

#[test]
fn bytes_missing_in_a_body_are_counted_and_elsewhere_the_next_message_is_found() {
    assert_eq!(
        exchanges(&seed("lossy")),
        ["GET | /1 | 200 | 30 | -", "GET | /2 | 200 | 3 | gap", "GET | /3 | 206 | 2 | -"]
    );
}

#[test]
fn a_gap_up_to_the_end_of_a_body_is_no_loss() {
    let talk = r#"
        > "GET /1 HTTP/1.1\r\n\r\n"
        < "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234"
        < gap 5
        > "GET /2 HTTP/1.1\r\n\r\n"
        < "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n0"
        < gap 4
        < "\r\n0\r\n\r\n""#;
    assert_eq!(exchanges(talk), ["GET | /1 | 200 | 10 | -", "GET | /2 | 200 | 5 | -"]);
}

#[test]
fn a_response_that_is_lost_as_a_whole_leaves_its_request_without() {
    let talk = r#"
        > "GET /1 HTTP/1.1\r\n\r\n"
        < gap 500
        > "GET /2 HTTP/1.1\r\n\r\n"
        < "HTTP/1.1 204 No Content\r\n\r\n""#;
    assert_eq!(exchanges(talk), ["GET | /1 | - | - | -", "GET | /2 | 204 | 0 | -"]);
}

#[test]
fn other_protocols_take_over() {
    assert_eq!(exchanges(&seed("upgraded")), ["GET | /chat | 101 | 0 | -", "over to 77"]);
    assert_eq!(
        exchanges(&seed("tunnel")),
        ["CONNECT | h.example:443 | 407 | 2 | -", "CONNECT | h.example:443 | 200 | 0 | -", "over to 133"]
    );
}

#[test]
fn the_client_may_be_the_responder() {
    let turned = Conversation::parse(&seed("pipelined")).turned();
    let outcome = weir_testing::conversation::run(&PROTOCOL, &turned);
    let same = weir_testing::conversation::run(&PROTOCOL, &Conversation::parse(&seed("pipelined")));
    assert_eq!(outcome.sessions, same.sessions);
}

#[test]
fn one_direction_alone_is_something() {
    let client = r#"
        > "GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\nHost: a"
    "#;
    assert_eq!(exchanges(client), ["GET | /1 | - | - | -", "GET | /2 | - | - | unfinished"]);
    let server = r#"
        < "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.0 404 No\r\n\r\nto the end"
    "#;
    assert_eq!(exchanges(server), ["- | - | 200 | 2 | -", "- | - | 404 | 10 | -"]);
}

#[test]
fn what_is_cut_off_says_so() {
    let talk = r#"
        > "PUT /1 HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc"
        < "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabcd""#;
    assert_eq!(exchanges(talk), ["PUT | /1 | 200 | 4 | unfinished"]);
}

#[test]
fn a_length_that_is_none_is_no_length() {
    for length in ["x", "-1", "1, 2", "99999999999999999999"] {
        let talk = format!(
            "> \"GET / HTTP/1.1\\r\\n\\r\\n\"\n< \"HTTP/1.1 200 OK\\r\\nContent-Length: {length}\\r\\n\\r\\nabc\""
        );
        assert_eq!(exchanges(&talk), ["GET | / | 200 | 3 | -"], "{length}");
    }
    let talk =
        "> \"GET / HTTP/1.1\\r\\n\\r\\n\"\n< \"HTTP/1.1 200 OK\\r\\nContent-Length: 3, 3\\r\\n\\r\\nabc\"";
    assert_eq!(exchanges(talk), ["GET | / | 200 | 3 | -"]);
}

#[test]
fn a_broken_chunk_is_the_end_of_its_response() {
    let talk = r#"
        > "GET /1 HTTP/1.1\r\n\r\n"
        < "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nabcd\r\n"
        > "GET /2 HTTP/1.1\r\n\r\n"
        < "HTTP/1.1 204 No Content\r\n\r\n""#;
    assert_eq!(exchanges(talk), ["GET | /1 | 200 | 3 | malformed", "GET | /2 | 204 | 0 | -"]);
}

/// The rows of one response to a GET, in pieces of any size.
fn answered(response: &str) -> Vec<String> {
    let said = |pieces: Vec<&str>| {
        let pieces: String = pieces.iter().map(|piece| format!("< \"{piece}\"\n")).collect();
        exchanges(&format!("> \"GET / HTTP/1.1\\r\\n\\r\\n\"\n{pieces}"))
    };
    let whole = said(vec![response]);
    // Cut between the letters of the text, each of which is one byte or an escape.
    let (mut single, mut rest) = (vec![], response);
    while !rest.is_empty() {
        let length = match rest.as_bytes() {
            [b'\\', b'x', ..] => 4,
            [b'\\', ..] => 2,
            _ => 1,
        };
        let (piece, tail) = rest.split_at(length);
        single.push(piece);
        rest = tail;
    }
    assert_eq!(said(single), whole, "in single bytes: {response}");
    whole
}

#[test]
fn a_body_that_is_not_chunked_is_read_all_the_same() {
    for (head, body, row) in [
        (r"Transfer-Encoding: chunked", "no chunk", "GET | / | 200 | 8 | malformed"),
        (r"Transfer-Encoding: chunked", "abacus", "GET | / | 200 | 6 | malformed"),
        (r"Transfer-Encoding: chunked\r\nContent-Length: 3", "abxyz", "GET | / | 200 | 3 | malformed"),
        (r"Transfer-Encoding: chunked\r\nContent-Length: 1", "ab", "GET | / | 200 | 0 | unfinished"),
        (r"Transfer-Encoding: x, Chunkedx", r"3\r\nabc\r\n0\r\n\r\n", "GET | / | 200 | 3 | -"),
        (r"Transfer-Encoding: chu\x00nked", r"3\r\nabc\r\n0\r\n\r\n", "GET | / | 200 | 3 | -"),
        (
            r"Transfer-Encoding: chunked\r\nTransfer-Encoding: x",
            r"\n3\x00\r\nabc\r\n0\r\n\r\n",
            "GET | / | 200 | 3 | -",
        ),
        (r"Transfer-Encoding: identity", r"3\r\nabc", "GET | / | 200 | 6 | -"),
    ] {
        let found = answered(&format!(r"HTTP/1.1 200 ok\r\n{head}\r\n\r\n{body}"));
        assert_eq!(found, [row], "{head} {body}");
    }
}

#[test]
fn start_lines_and_ends_of_heads_may_be_bent() {
    for (response, row) in [
        (r"http/1.1 200 ok\r\nContent-Length: 3\r\n\r\nabc", "GET | / | 200 | 3 | -"),
        (r"HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "GET | / | - | 3 | -"),
        (r"HTTP/1.1 20x\rContent-Length: 3\r\n\r\nabc", "GET | / | - | 3 | -"),
        (r"\x00 \rHTTP/1.1 200\r\nContent-Length: 3\r\n\r\nabc", "GET | / | 200 | 3 | -"),
        (r"HTTP/1.1 200 ok\r\nContent-Length: 3\n\r\r\nabc", "GET | / | 200 | 3 | -"),
        (r"HTTP/1.1 200 ok\r\nContent-Length: 3\n \nabc", "GET | / | 200 | 3 | -"),
        (r"HTTP/1.1 200 ok\r\nA: b\n \n\nabc", "GET | / | 200 | 3 | -"),
    ] {
        assert_eq!(answered(response), [row], "{response}");
    }
}

#[test]
fn a_body_that_must_not_be_is_found_if_it_is_stated() {
    let next = r"HTTP/1.1 200 ok\r\nContent-Length: 0\r\n\r\n";
    for (status, body, rows) in [
        ("204", "abc", vec!["GET | / | 204 | 3 | -"]),
        ("101", "abc", vec!["GET | / | 101 | 3 | -"]),
        ("102", "abc", vec!["GET | / | 102 | 3 | -"]),
        ("204", "", vec!["GET | / | 204 | 0 | -"]),
        ("204", next, vec!["GET | / | 204 | 0 | -", "- | - | 200 | 0 | -"]),
        ("102", next, vec!["GET | / | 200 | 0 | -"]),
        ("304", "abc", vec!["GET | / | 304 | 0 | -"]),
    ] {
        let response = format!(r"HTTP/1.1 {status} ok\r\nContent-Length: 3\r\n\r\n{body}");
        assert_eq!(answered(&response), rows, "{response}");
    }
}

#[test]
fn targets_have_four_forms() {
    let talk = r#"
        > "GET http://a.example/p?q HTTP/1.1\r\nHost: b.example\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"
          "CONNECT c.example:443 HTTP/1.1\r\n\r\nGET http://d.example HTTP/1.0\r\n\r\n""#;
    let rows =
        rows(&PROTOCOL, talk, &["http.host", "http.server_name", "http.full_uri", "http.path", "http.query"]);
    assert_eq!(
        rows,
        [
            "b.example | b.example | http://a.example/p?q | http://a.example/p | q",
            "[::1]:80 | [::1] | http://[::1]:80 | * | -",
            "c.example:443 | c.example | c.example:443 | c.example:443 | -",
            "d.example | d.example | http://d.example | http://d.example | -",
        ]
    );
}

#[test]
fn streams_of_http2_are_exchanges() {
    let names = [
        "http2.streamid",
        "method",
        "http.server_name",
        "uri",
        "status_code",
        "http.request.body_bytes",
        "http.response.body_bytes",
    ];
    assert_eq!(
        rows(&PROTOCOL, &seed("http2"), &names),
        [
            "1 | GET | h2.example | /one?x=1 | 404 | 0 | 6",
            "3 | POST | h2.example | /two | 200 | 5 | 3",
            "5 | GET | h2.example | /five | - | 0 | -",
            "7 | GET | h2.example | /seven | - | 0 | -",
        ]
    );
    let names = ["http.version", "info_code", "http.reset_code", "http.incomplete"];
    assert_eq!(
        rows(&PROTOCOL, &seed("http2"), &names),
        ["2 | - | - | -", "2 | 103 | - | -", "2 | - | 7 | -", "2 | - | - | -"]
    );
}

#[test]
fn a_server_of_http2_alone_is_read() {
    let names =
        ["http2.streamid", "status_code", "http.server", "http.response.body_bytes", "http.incomplete"];
    assert_eq!(rows(&PROTOCOL, &seed("http2-server-only"), &names), ["1 | 200 | alone | 18 | -"]);
}

#[test]
fn a_gap_in_the_headers_of_http2_is_the_end() {
    let mut talk = Conversation::parse(&seed("http2"));
    talk.steps.truncate(4);
    talk.push(Direction::Originator, Act::Lose(1));
    let outcome = weir_testing::conversation::run(&PROTOCOL, &talk);
    assert_eq!(outcome.sessions.len(), 2, "what was asked for before");
}

/// Feeds bytes in large pieces until the parser is done. Returns the number of truncations, and of sessions.
fn feed(pieces: impl Iterator<Item = (Direction, Vec<u8>)>) -> (CutOff, usize) {
    let before = weir_memory::live_bytes();
    let mut parser = (PROTOCOL.open)(&weir_sessions::Context::default());
    let (mut sessions, mut yielded) = (Vec::new(), 0);
    for (from, bytes) in pieces {
        let data = Data { from, time: weir_packet::Timestamp(0), bytes: &bytes, is_datagram: false };
        let progress = parser.parse(&data, &mut sessions);
        yielded += sessions.drain(..).count();
        let held_bytes = weir_memory::live_bytes() - before - bytes.capacity() as isize;
        assert!(held_bytes < HELD_BYTES_MAX, "{held_bytes} bytes");
        if progress != Progress::Wanted {
            break;
        }
    }
    parser.finish(&mut sessions);
    (parser.cut_off(), yielded + sessions.len())
}

const CLIENT: Direction = Direction::Originator;
const SERVER: Direction = Direction::Responder;

#[test]
fn an_endless_head_is_read_as_far_as_it_is_kept() {
    let mut request = b"GET / HTTP/1.1\r\nHost: h\r\n".to_vec();
    while request.len() < 2 * HEAD_BYTES_MAX {
        request.extend_from_slice(
            b"A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n",
        );
    }
    request.extend_from_slice(b"\r\nGET /2 HTTP/1.1\r\n\r\n");
    for size in [1, 1000, request.len()] {
        let (cut_off, sessions) = feed(request.chunks(size).map(|piece| (CLIENT, piece.to_vec())));
        assert_eq!((cut_off.sessions, sessions), (0, 2));
        assert!(cut_off.parts > 0);
    }
}

#[test]
fn requests_that_nobody_answers_do_not_pile_up() {
    let mut requests = String::new();
    for number in 0..1000 {
        write!(requests, "GET /{number} HTTP/1.1\r\nCookie: {}\r\n\r\n", "x".repeat(5000)).expect("memory");
    }
    let pieces = |first: Option<(Direction, Vec<u8>)>| {
        first.into_iter().chain(requests.as_bytes().chunks(1460).map(|piece| (CLIENT, piece.to_vec())))
    };
    assert_eq!(feed(pieces(None)), (CutOff::default(), 1000), "of the server nothing is seen");
    let answer = (SERVER, b"HTTP/1.1 204 No\r\n\r\n".to_vec());
    let (cut_off, sessions) = feed(pieces(Some(answer)));
    assert_eq!(sessions, 1001);
    assert!(cut_off.sessions as usize >= 1000 - UNANSWERED_MAX, "they were cut off: {cut_off:?}");
}

#[test]
fn a_flood_of_continuations_is_cut_off() {
    let preface =
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\0\0\0\0\x01\x82".to_vec();
    let continuation = |length: usize| {
        let mut frame = vec![0, (length >> 8) as u8, length as u8, 9, 0, 0, 0, 0, 1];
        frame.resize(9 + length, 0);
        frame
    };
    for length in [0, 1000] {
        let flood = std::iter::repeat_n((CLIENT, continuation(length)), 100_000);
        feed(std::iter::once((CLIENT, preface.clone())).chain(flood));
    }
}

#[test]
fn a_header_bomb_costs_no_more_than_its_length() {
    // A value of 60 000 bytes in the table, then 60 000 references to it.
    let mut block = vec![0x3f, 0xe1, 0xff, 0x03, 0x82, 0x84, 0x40, 1, b'a', 0x7f, 0xe1, 0xd3, 0x03];
    block.resize(block.len() + 60_000, b'x');
    let frame = |kind: u8, block: &[u8]| {
        let length = &(block.len() as u32).to_be_bytes()[1..];
        [length, &[kind, 4, 0, 0, 0, 1], block].concat()
    };
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(1, &block));
    bytes.extend(frame(1, &vec![0xbe; 60_000]));
    let (cut_off, sessions) = feed(std::iter::once((CLIENT, bytes)));
    assert_eq!((cut_off.sessions, sessions), (0, 1));
}

/// Requests of 12 bytes each that refer to a target of 3 900 bytes in the table.
#[test]
fn references_decode_to_no_more_than_a_multiple_of_the_captured_bytes() {
    const REQUESTS: u32 = 600;
    let frame = |id: u32, block: &[u8]| {
        let length = &(block.len() as u32).to_be_bytes()[1..];
        [length, &[1, 5], &id.to_be_bytes(), block].concat()
    };
    // The length 3 900 is 127 and, in groups of seven bits, 3 773.
    let target = [&[0x82, 0x86, 0x44, 0x7f, 0xbd, 0x1d][..], &[b'v'; 3_900]].concat();
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(1, &target));
    (1..REQUESTS).for_each(|at| bytes.extend(frame(1 + 2 * at, &[0x82, 0x86, 0xbe])));
    let hex: String = bytes.iter().map(|byte| format!(" {byte:02x}")).collect();
    let rows = rows(&PROTOCOL, &format!(">{hex}"), &["uri"]);
    assert_eq!(rows.len(), REQUESTS as usize);
    let shown_bytes: usize = rows.iter().map(String::len).sum();
    assert!(shown_bytes < 8 * bytes.len() + 64 * 1024, "{shown_bytes}");
    assert!(rows[1].len() > 3_900 - 10);
    let (cut_off, sessions) = feed(std::iter::once((CLIENT, bytes)));
    assert_eq!(sessions, rows.len());
    assert!(cut_off.parts > 500, "{cut_off:?}");
}

#[test]
fn small_requests_that_are_answered_are_all_reported() {
    // What a client repeats is in the table: a request has 9 + 3 bytes, its response 10 and a content of 9 +
    // 60. 100 requests at a time are open.
    let frame = |kind: u8, flags: u8, id: u32, content: &[u8]| {
        [&[0, 0, content.len() as u8, kind, flags][..], &id.to_be_bytes(), content].concat()
    };
    let mut pieces = vec![(CLIENT, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec())];
    for group in 0..50 {
        let ids = || (0..100).map(|at| 1 + 2 * (100 * group + at));
        pieces.push((CLIENT, ids().flat_map(|id| frame(1, 5, id, &[0x82, 0x86, 0x84])).collect()));
        let response = |id| [frame(1, 4, id, &[0x88]), frame(0, 1, id, &[b'x'; 60])].concat();
        pieces.push((SERVER, ids().flat_map(response).collect()));
    }
    let (cut_off, sessions) = feed(pieces.into_iter());
    assert_eq!((cut_off.sessions, cut_off.parts, sessions), (0, 0, 5_000));
}

#[test]
fn what_is_no_http_any_more_is_given_up() {
    let rest = std::iter::repeat_n((CLIENT, vec![0xff; 64 * 1024]), 100);
    let request = (CLIENT, b"GET / HTTP/1.1\r\n\r\n".to_vec());
    let (cut_off, sessions) = feed(std::iter::once(request).chain(rest));
    assert_eq!((cut_off.sessions, sessions), (1, 1));
}

#[test]
fn behind_an_upgrade_stream_1_has_a_response_only() {
    // RFC 7540 §3.2: the request was made in HTTP/1.
    let talk = r#"
        > "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" 000000 04 00 00000000
          000003 01 05 00000003 82 84 86
        < 000000 04 00 00000000 000001 01 05 00000001 88
          000001 01 05 00000003 8d"#;
    let names = ["http2.streamid", "method", "status_code"];
    assert_eq!(rows(&PROTOCOL, talk, &names), ["1 | - | 200", "3 | GET | 404"]);
}

#[test]
fn what_is_late_for_a_stream_that_was_reset_is_no_new_one() {
    let talk = r#"
        > "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" 000000 04 00 00000000
          000003 01 05 00000003 82 84 86  000004 03 00 00000003 00000008
        < 000000 04 00 00000000 000001 01 04 00000003 88 000003 00 01 00000003 616263"#;
    let names = ["http2.streamid", "method", "status_code", "http.reset_code"];
    assert_eq!(rows(&PROTOCOL, talk, &names), ["3 | GET | - | 8"]);
}

#[test]
fn a_pushed_response_has_the_request_that_was_promised() {
    let talk = r#"
        > "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" 000000 04 00 00000000
          000003 01 05 00000001 82 84 86
        < 000000 04 00 00000000
          000007 05 04 00000001 00000002 82 85 86
          000001 01 05 00000001 88  000001 01 04 00000002 88  000002 00 01 00000002 6f6b"#;
    let names = ["http2.streamid", "method", "uri", "status_code", "http.response.body_bytes"];
    assert_eq!(rows(&PROTOCOL, talk, &names), ["1 | GET | / | 200 | 0", "2 | GET | /index.html | 200 | 2"]);
}

#[test]
fn messages_between_garbage_cost_no_more_than_their_length() {
    let (cut_off, sessions) = feed(std::iter::once((CLIENT, b"bad\nGET / HTTP/1.1\n\n".repeat(20_000))));
    assert_eq!((cut_off.sessions, sessions), (0, 20_000));
}
