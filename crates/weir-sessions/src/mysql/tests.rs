//! Ladders of connections: the packets of client and server, and the resulting rows.

use super::PROTOCOL;
use super::compressed::packed;
use crate::conversation::rows;
use crate::wire::hex;

const LOG: &[&str] = &["cmd", "arg", "success", "rows", "response"];
const DEPRECATE_END: u32 = 1 << 24;

/// A packet with its sender, sequence number and payload.
fn packet(side: char, sequence: u8, payload: &[u8]) -> String {
    let length = &(payload.len() as u32).to_le_bytes()[..3];
    format!("{side} {}\n", hex(&[length, &[sequence], payload].concat()))
}

fn greeting(capabilities: u32) -> String {
    let [a, b, c, d] = capabilities.to_le_bytes();
    let payload = [
        &b"\x0a8.0.36\0\x08\0\0\0saltsalt\0"[..],
        &[a, b, 0x21, 2, 0, c, d, 21],
        &[0; 10],
        b"saltsaltsalt\0caching_sha2_password\0",
    ];
    packet('<', 0, &payload.concat())
}

fn login(capabilities: u32) -> String {
    let start = [&(capabilities | 0x008f_a209).to_le_bytes()[..], &[0, 0, 0, 1, 33], &[0; 23]].concat();
    packet(
        '>',
        1,
        &[&start[..], b"bob\0\x03abcshop\0mysql_native_password\0\x15\x0cprogram_name\x07mysqldo"].concat(),
    )
}

/// A login with these capabilities in addition to the usual ones.
fn logged_in(capabilities: u32) -> String {
    greeting(capabilities | 0x008f_a209) + &login(capabilities) + &packet('<', 2, b"\0\0\0\x02\0\0\0")
}

fn command(payload: &[u8]) -> String {
    packet('>', 0, payload)
}

const COLUMN: &[u8] = b"\x03def\0\0\0\x01a\0\x0c\x3f\0\x01\0\0\0\x08\0\0\0\0\0";
const END: &[u8] = b"\xfe\0\0\x02\0";
const OK_END: &[u8] = b"\xfe\0\0\x02\0\0\0";

/// Several packets of the server in sequence.
fn answer(payloads: &[&[u8]]) -> String {
    payloads.iter().enumerate().map(|(at, payload)| packet('<', at as u8 + 1, payload)).collect()
}

#[test]
fn a_user_logs_in() {
    let names = ["cmd", "arg", "success", "mysql.user", "mysql.schema", "mysql.version", "mysql.auth_plugin"];
    assert_eq!(
        rows(&PROTOCOL, &logged_in(0), &names),
        ["login | bob | true | bob | shop | 8.0.36 | mysql_native_password"]
    );
    let switched = greeting(0)
        + &login(0)
        + &packet('<', 2, b"\xfecaching_sha2_password\0salt\0")
        + &packet('>', 3, b"proof")
        + &packet('<', 4, b"\x01\x03")
        + &packet('<', 5, b"\xff\x15\x04#28000Access denied");
    assert_eq!(
        rows(
            &PROTOCOL,
            &switched,
            &[&names[..3], &["mysql.auth_plugin", "response", "mysql.error"]].concat()
        ),
        ["login | bob | false | caching_sha2_password | Access denied | 1045"]
    );
}

#[test]
fn tls_is_handed_over() {
    let start = [&0x008f_aa09_u32.to_le_bytes()[..], &[0, 0, 0, 1, 33], &[0; 23]].concat();
    let talk = greeting(0x0800) + &packet('>', 1, &start) + "> 160301\n";
    assert_eq!(
        rows(&PROTOCOL, &talk, &["cmd", "success", "mysql.version"]),
        ["ssl_request | - | 8.0.36", "over to 36"]
    );
}

#[test]
fn who_is_not_let_in_gets_no_greeting() {
    let talk = packet('<', 0, b"\xff\x10\x04Too many connections");
    assert_eq!(rows(&PROTOCOL, &talk, LOG), ["login | - | false | - | Too many connections"]);
    assert_eq!(rows(&PROTOCOL, &greeting(0), LOG), ["login | - | - | - | -"]);
}

#[test]
fn rows_are_counted_with_and_without_an_end_behind_the_columns() {
    let select = command(b"\x03select a");
    let expected = "query | select a | true | 2 | -";
    let old = answer(&[&[1], COLUMN, END, b"\x01a", b"\x01b", END]);
    let new = answer(&[&[1], COLUMN, b"\x01a", b"\x01b", OK_END]);
    let none = answer(&[&[1], COLUMN, OK_END]);
    assert_eq!(rows(&PROTOCOL, &(logged_in(0) + &select + &old + &select + &old), LOG)[1..], [expected; 2]);
    let talk = logged_in(DEPRECATE_END) + &select + &new + &select + &none;
    assert_eq!(rows(&PROTOCOL, &talk, LOG)[1..], [expected, "query | select a | true | 0 | -"]);
}

#[test]
fn what_is_changed_and_what_goes_wrong() {
    let talk = logged_in(0)
        + &command(b"\x03update t set a = 1")
        + &answer(&[b"\0\x05\0\x02\0\0\0\x0bMatched: 5."])
        + &command(b"\x03insert into t values (1)")
        + &answer(&[b"\0\x01\x07\x02\0\0\0"])
        + &command(b"\x03selct")
        + &answer(&[b"\xff\x28\x04#42000You have an error"])
        + &command(b"\x0e")
        + &answer(&[b"\0\0\0\x02\0\0\0"])
        + &command(b"\x09")
        + &answer(&[b"Uptime: 7"])
        + &command(b"\x01");
    assert_eq!(
        rows(
            &PROTOCOL,
            &talk,
            &["cmd", "arg", "success", "rows", "response", "mysql.insert_id", "mysql.sqlstate"]
        )[1..],
        [
            "query | update t set a = 1 | true | 5 | Matched: 5. | - | -",
            "query | insert into t values (1) | true | 1 | - | 7 | -",
            "query | selct | false | - | You have an error | - | 42000",
            "ping | - | true | 0 | - | - | -",
            "statistics | - | true | - | Uptime: 7 | - | -",
            "quit | - | - | - | - | - | -",
        ]
    );
}

#[test]
fn a_statement_is_prepared_and_executed() {
    let prepared: &[&[u8]] = &[b"\0\x07\0\0\0\x01\0\x01\0\0\0\0", COLUMN, END, COLUMN, END];
    let prepared_new: &[&[u8]] = &[b"\0\x07\0\0\0\x01\0\x01\0\0\0\0", COLUMN, COLUMN];
    let execute = command(b"\x17\x07\0\0\0\0\x01\0\0\0");
    let both = |capabilities, prepared, rest: &[&[u8]]| {
        logged_in(capabilities)
            + &command(b"\x16select ?")
            + &answer(prepared)
            + &execute
            + &answer(rest)
            + &command(b"\x19\x07\0\0\0")
            + &execute
    };
    let names = ["cmd", "arg", "success", "rows", "mysql.stmt_id"];
    let expected = [
        "stmt_prepare | select ? | true | - | 7",
        "stmt_execute | select ? | true | 1 | 7",
        "stmt_close | select ? | - | - | 7",
        "stmt_execute | - | - | - | 7",
    ];
    let old = both(0, prepared, &[&[1], COLUMN, END, b"\0\0\x01", END]);
    assert_eq!(rows(&PROTOCOL, &old, &names)[1..], expected);
    let new = both(DEPRECATE_END, prepared_new, &[&[1], COLUMN, b"\0\0\x01", OK_END]);
    assert_eq!(rows(&PROTOCOL, &new, &names)[1..], expected);
}

#[test]
fn several_results_are_one_answer() {
    let talk = logged_in(0)
        + &command(b"\x03call p()")
        + &answer(&[
            &[1],
            COLUMN,
            b"\xfe\0\0\x0a\0",
            b"\x01a",
            b"\xfe\0\0\x0a\0",
            b"\0\0\0\x0a\0\0\0",
            b"\0\x01\0\x02\0\0\0",
        ])
        + &command(b"\x02other")
        + &answer(&[b"\0\0\0\x02\0\0\0"])
        + &command(b"\x03x");
    assert_eq!(
        rows(&PROTOCOL, &talk, &["cmd", "arg", "rows", "mysql.schema"])[1..],
        ["query | call p() | 2 | shop", "init_db | other | 0 | shop", "query | x | - | other"]
    );
}

#[test]
fn a_file_of_the_client_is_passed_over() {
    let talk = logged_in(0)
        + &command(b"\x03load data local infile 'a'")
        + &answer(&[b"\xfba"])
        + &packet('>', 2, b"\x03select 1")
        + &packet('>', 0, b"\x03select 2")
        + &packet('>', 1, b"")
        + &packet('<', 5, b"\0\x02\0\x02\0\0\0")
        + &command(b"\x0e");
    assert_eq!(
        rows(&PROTOCOL, &talk, LOG)[1..],
        ["query | load data local infile 'a' | true | 2 | -", "ping | - | - | - | -"]
    );
}

#[test]
fn pipelined_commands_are_answered_in_turn() {
    let talk = logged_in(0)
        + &command(b"\x03one")
        + &command(b"\x03two")
        + &answer(&[b"\0\x01\0\x02\0\0\0"])
        + &answer(&[b"\0\x02\0\x02\0\0\0"]);
    assert_eq!(
        rows(&PROTOCOL, &talk, LOG)[1..],
        ["query | one | true | 1 | -", "query | two | true | 2 | -"]
    );
}

#[test]
fn what_is_compressed_is_unpacked_or_said_to_be_unread() {
    let packet = |sequence: u8, payload: &[u8]| {
        [&(payload.len() as u32).to_le_bytes()[..3], &[sequence], payload].concat()
    };
    let compressed = |side: char, content: &[u8]| format!("{side} {}\n", hex(&packed(content)));
    let answers = [&[1][..], COLUMN, END, b"\x01a", b"\x01b", END];
    let answer: Vec<u8> =
        answers.iter().enumerate().flat_map(|(at, payload)| packet(at as u8 + 1, payload)).collect();
    // A plain packet may continue in the next compressed packet.
    let talk = compressed('>', &packet(0, b"\x03select a"))
        + &compressed('<', &answer[..30])
        + &compressed('<', &answer[30..])
        + "> 07000000000000 03000000 037465\n"
        + &compressed('<', &packet(1, b"\xff\x28\x04#42000no"));
    let names = [LOG, &["compression"]].concat();
    assert_eq!(
        rows(&PROTOCOL, &(logged_in(0x20) + &talk), &names),
        [
            "login | bob | true | 0 | - | zlib",
            "query | select a | true | 2 | - | zlib",
            "query | te | false | - | no | zlib"
        ]
    );
    let zstd = logged_in(1 << 26) + &talk;
    assert_eq!(rows(&PROTOCOL, &zstd, &names), ["login | bob | true | 0 | - | zstd"]);
    // An uncompressed packet after compression was negotiated ends the session.
    let plain = logged_in(0x20) + &command(b"\x03one") + "> ffffffffffffffffffffffff\n";
    assert_eq!(rows(&PROTOCOL, &plain, &names).len(), 1);
}

/// A few kilobytes that decompress to millions of unsolicited packets.
#[test]
fn few_bytes_unpack_to_few_answers() {
    let zeros = vec![0; 1 << 20];
    let talk = logged_in(0x20) + &format!("< {}\n", hex(&packed(&zeros))) + &command(b"\x03one");
    assert!(rows(&PROTOCOL, &talk, LOG).len() < 600, "a piece yields a few hundred at most");
}

#[test]
fn one_side_alone() {
    let client = login(0) + &command(b"\x03one") + &command(b"\x03two");
    assert_eq!(
        rows(&PROTOCOL, &client, LOG),
        ["login | bob | - | - | -", "query | one | - | - | -", "query | two | - | - | -"]
    );
    let server = greeting(0)
        + &packet('<', 2, b"\0\0\0\x02\0\0\0")
        + &answer(&[&[1], COLUMN, END, b"\x01a", END])
        + &answer(&[b"\xff\x28\x04#42000no"]);
    assert_eq!(
        rows(&PROTOCOL, &server, LOG),
        ["login | - | true | 0 | -", "- | - | true | 1 | -", "- | - | false | - | no"]
    );
}

#[test]
fn after_a_gap_the_next_command_is_found() {
    let select = |name: &str| command(&[b"\x03", name.as_bytes()].concat());
    let ok = answer(&[b"\0\x01\0\x02\0\0\0"]);
    let rest = select("two") + &ok;
    let server = logged_in(0) + &select("one") + &answer(&[&[1], COLUMN]) + "< gap 100\n< 0102\n" + &rest;
    assert_eq!(rows(&PROTOCOL, &server, LOG)[1..], ["query | one | - | 0 | -", "query | two | true | 1 | -"]);
    let client = logged_in(0) + "> gap 100\n" + &ok + &rest;
    assert_eq!(rows(&PROTOCOL, &client, LOG)[1..], ["- | - | true | 1 | -", "query | two | true | 1 | -"]);
    let late = logged_in(0) + &ok + &ok + "> gap 100\n" + &select("one") + &rest;
    assert_eq!(
        rows(&PROTOCOL, &late, LOG)[3..],
        ["query | one | - | - | -", "query | two | true | 1 | -"],
        "what was lost and what came late may have been answered before"
    );
    let inside = logged_in(0) + "> gap 100\n> ffffffffff\n" + &ok + &rest;
    assert_eq!(rows(&PROTOCOL, &inside, LOG)[1..], ["- | - | true | 1 | -", "query | two | true | 1 | -"]);
    let both = logged_in(0) + "> gap 100\n> ffffffffff\n< gap 10\n" + &rest;
    assert_eq!(rows(&PROTOCOL, &both, LOG).len(), 1);
}

#[test]
fn hostile_answers_are_bounded() {
    let talk = logged_in(0)
        + &command(b"\x03one")
        + &answer(&[b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff"])
        + &command(b"\x03two")
        + &answer(&[b""])
        + &command(b"\x03three")
        + &answer(&[b"\xfd\xff\xff\xff"]);
    assert_eq!(rows(&PROTOCOL, &talk, &["arg", "success"])[1..], ["one | -", "two | -", "three | -"]);
}

#[test]
fn what_is_kept_is_bounded() {
    use crate::{Data, Direction, SessionParser};
    use weir_packet::Timestamp;
    let before = weir_memory::live_bytes();
    let mut parser = super::MysqlParser::default();
    let (mut sessions, mut yielded) = (Vec::new(), 0);
    let mut send = |from, sequence: u8, payload: &[u8]| {
        let length = &(payload.len() as u32).to_le_bytes()[..3];
        let bytes = [length, &[sequence], payload].concat();
        parser.parse(&Data { from, time: Timestamp(0), bytes: &bytes, is_datagram: false }, &mut sessions);
        yielded += sessions.drain(..).count();
        assert!(weir_memory::live_bytes() - before < crate::conversation::HELD_BYTES_MAX);
    };
    let (client, server) = (Direction::Originator, Direction::Responder);
    for number in 0..200 {
        send(client, 0, &[&[0x16][..], &[0xff; 2000]].concat());
        send(server, 1, &[0, number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    for number in 0..200 {
        send(client, 0, &[0x17, number, 0, 0, 0, 0]);
        send(client, 0, &[&[0x03][..], &[0xff; 2000]].concat());
    }
    assert!(parser.cut_off().parts > 0);
    assert!(yielded > 200);
}

#[test]
fn what_is_packed_is_no_command_where_the_login_is_not_whole() {
    const COMPRESS: u32 = 1 << 5;
    let small = "> 1f000000 000000 1b000000 03 \"select 1\"\n";
    let large = "> 2f000000 030100 789c 0102030405\n";
    let start = greeting(COMPRESS | 0x008f_a209);
    // Not a plain text: an empty text with its length, then the session state with its length.
    let ok = packet('<', 2, b"\0\0\0\x02\x40\0\0\0\x07\x01\x05\x04shop");
    for packed in [small, large] {
        let talk = start.clone() + &ok + "> gap 90\n" + packed;
        assert_eq!(rows(&PROTOCOL, &talk, LOG), ["login | - | true | 0 | -"]);
        let talk = start.clone() + &login(COMPRESS) + packed + "< gap 11\n";
        assert_eq!(rows(&PROTOCOL, &talk, LOG), ["login | bob | - | - | -"]);
    }
    let talk =
        start + &ok + "> gap 90\n" + &command(b"\x03select 1") + &answer(&[b"\0\x01\0\x02\0\0\0a text"]);
    let expected = ["login | - | true | 0 | -", "query | select 1 | true | 1 | a text"];
    assert_eq!(rows(&PROTOCOL, &talk, LOG), expected);
}
