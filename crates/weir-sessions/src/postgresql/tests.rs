use super::*;
use crate::conversation::rows;
use crate::{Opening, Probe};

const STARTUP: &str = "> 0000001d 00030000 \"user\\x00bob\\x00database\\x00d\\x00\" 00\n";
const NAMES: &[&str] =
    &["user", "database", "frontend", "frontend_arg", "success", "backend", "backend_arg", "rows"];
const IN: &str = "< \"R\" 00000008 00000000 \"S\" 00000008 \"a\\x00b\\x00\" \"Z\" 00000005 \"I\"\n";

#[test]
fn a_user_logs_in_and_asks() {
    let talk = STARTUP.to_owned()
        + IN
        + "> \"Q\" 0000000d \"select 1\\x00\" \"Q\" 00000006 \"x\\x00\"\n\
         < \"T\" 00000006 0000 \"D\" 00000006 0000 \"C\" 0000000d \"SELECT 1\\x00\" \"Z\" 00000005 \"I\"\n\
         < \"E\" 00000013 \"SERROR\\x00C42601\\x00\\x00\" \"Z\" 00000005 \"I\"\n";
    assert_eq!(
        rows(&PROTOCOL, &talk, NAMES),
        [
            "bob | d | startup | - | true | auth_ok | - | -",
            "bob | d | simple_query | select 1 | true | command_complete | SELECT 1 | 1",
            "bob | d | simple_query | x | false | error | - | -",
        ]
    );
}

#[test]
fn tls_is_handed_over_or_refused() {
    let ssl = "> 00000008 04d2162f\n";
    assert_eq!(
        rows(&PROTOCOL, &format!("{ssl}< \"S\"\n> 160301\n"), &["frontend", "success"]),
        ["ssl_request | true", "over to 1"]
    );
    let talk = format!("{ssl}< \"N\"\n{STARTUP}< \"E\" 0000000d \"C28P01\\x00\\x00\\x00\"\n");
    assert_eq!(
        rows(&PROTOCOL, &talk, &["frontend", "success", "pgsql.error"]),
        ["ssl_request | false | -", "startup | false | 28P01"]
    );
}

const PARSE_GET: &str = "\"P\" 0000000c \"a\\x00get\\x00\" 0000";
const RUN_A: &str = "\"B\" 0000000d \"\\x00a\\x00\" 000000000000 \"E\" 00000009 \"\\x00\" 00000000";
const SYNC: &str = "\"S\" 00000004";
const DONE: &str = "\"2\" 00000004 \"C\" 0000000a \"GET 0\\x00\"";
const READY: &str = "\"Z\" 00000005 \"I\"";
const EXTENDED: &[&str] = &["frontend", "frontend_arg", "success", "backend_arg"];

#[test]
fn a_query_is_named_once_and_run_often() {
    let talk = format!(
        "{STARTUP}{IN}> {PARSE_GET} {SYNC}\n< \"1\" 00000004 {READY}\n> {RUN_A} {SYNC}\n< {DONE} {READY}\n\
         > {RUN_A} \"H\" 00000004\n< {DONE}\n> {SYNC}\n< {READY}\n"
    );
    assert_eq!(
        rows(&PROTOCOL, &talk, EXTENDED)[1..],
        [
            "parse | get | true | -",
            "extended_query | get | true | GET 0",
            "extended_query | get | true | GET 0"
        ]
    );
}

#[test]
fn of_what_is_sent_together_each_has_its_answer() {
    let talk = format!("{STARTUP}{IN}> {PARSE_GET} {RUN_A} {RUN_A} {RUN_A} {SYNC}\n");
    let answer = format!("< {DONE} \"E\" 0000000d \"C22012\\x00\\x00\\x00\" {READY}\n");
    assert_eq!(
        rows(&PROTOCOL, &(talk + &answer), &["frontend_arg", "success", "backend_arg", "pgsql.error"])[1..],
        ["get | true | GET 0 | -", "get | false | - | 22012", "get | false | - | -"]
    );
}

#[test]
fn a_sync_inside_a_copy_has_no_answer() {
    // As libpq does: a Sync with the query that begins the copy, which the server ignores, and another after
    // the copy.
    let (copy_in, rows_in) = ("\"G\" 00000007 000000", "\"d\" 00000008 \"1\\t2\\x0a\"");
    let copied = "\"C\" 0000000b \"COPY 1\\x00\"";
    for (end, answer, row) in [
        ("\"c\" 00000004", copied, "extended_query | get | true | COPY 1"),
        (
            "\"f\" 00000006 \"x\\x00\"",
            "\"E\" 0000000d \"C57014\\x00\\x00\\x00\"",
            "extended_query | get | false | -",
        ),
    ] {
        let talk = format!(
            "{STARTUP}{IN}> {PARSE_GET} {RUN_A} {SYNC}\n< \"1\" 00000004 \"2\" 00000004 {copy_in}\n\
             > {rows_in} {end} {SYNC}\n< {answer} {READY}\n> {RUN_A} {SYNC}\n< {DONE} {READY}\n\
             > {PARSE_GET} {SYNC}\n< \"1\" 00000004 {READY}\n"
        );
        let expected = [row, "extended_query | get | true | GET 0", "parse | get | true | -"];
        assert_eq!(rows(&PROTOCOL, &talk, EXTENDED)[1..], expected);
    }
}

#[test]
fn who_sees_a_copy_fail_sends_a_sync_alone() {
    let (copy_in, rows_in) = ("\"G\" 00000007 000000", "\"d\" 00000008 \"1\\t2\\x0a\"");
    let failed = "\"E\" 0000000d \"C22P02\\x00\\x00\\x00\"";
    let talk = format!(
        "{STARTUP}{IN}> {PARSE_GET} {RUN_A} {SYNC}\n< \"1\" 00000004 \"2\" 00000004 {copy_in}\n\
         > {rows_in}\n< {failed}\n> {SYNC}\n< {READY}\n> {RUN_A} {SYNC}\n< {DONE} {READY}\n"
    );
    let expected = ["extended_query | get | false | -", "extended_query | get | true | GET 0"];
    assert_eq!(rows(&PROTOCOL, &talk, EXTENDED)[1..], expected);
}

#[test]
fn what_fails_before_it_is_run_has_a_row() {
    let bind = "\"B\" 0000000d \"\\x00a\\x00\" 000000000000";
    let describe = "\"D\" 00000007 \"Sa\\x00\"";
    let failed = format!("\"E\" 0000000d \"C22P02\\x00\\x00\\x00\" {READY}");
    let named = format!("{STARTUP}{IN}> {PARSE_GET} {SYNC}\n< \"1\" 00000004 {READY}\n");
    for (batch, answer, expected) in [
        (bind, &*failed, &["bind | get | false | -"][..]),
        (describe, &failed, &["describe | - | false | -"]),
        (bind, &format!("\"2\" 00000004 {READY}"), &[]),
    ] {
        let talk = format!("{named}> {batch} {SYNC}\n< {answer}\n> {RUN_A} {SYNC}\n< {DONE} {READY}\n");
        let last = ["extended_query | get | true | GET 0"];
        assert_eq!(rows(&PROTOCOL, &talk, EXTENDED)[2..], [expected, &last].concat(), "{batch}");
    }
}

#[test]
fn a_closed_name_is_nobodys() {
    let close = "\"C\" 00000007 \"Sa\\x00\"";
    let talk = format!("{STARTUP}{IN}> {PARSE_GET} {close} {RUN_A} {SYNC}\n< {DONE} {READY}\n");
    assert_eq!(rows(&PROTOCOL, &talk, EXTENDED)[1..], ["extended_query | - | true | GET 0"]);
}

#[test]
fn one_side_alone() {
    assert_eq!(rows(&PROTOCOL, STARTUP, &["user", "success"]), ["bob | -"]);
    assert_eq!(rows(&PROTOCOL, IN, &["user", "success"]), ["- | true"]);
}

#[test]
fn a_startup_makes_it_one() {
    let probe = |originator: &[u8]| (PROTOCOL.probe)(&Opening { originator, ..Opening::default() });
    assert_eq!(probe(b"\0\0\0\x08\x04\xd2\x16\x2f"), Probe::Certain);
    assert_eq!(probe(b"\0\0\0\x1e\0\x03\0\0user\0bob\0"), Probe::Certain);
    assert_eq!(probe(b"\0\0\0\x1e\0\x03\0\0us"), Probe::Unsure);
    assert_eq!(probe(b"\0\0\0\x1e\0\x03\0\0\0\0\0\0\0\0"), Probe::NotForUs);
    assert_eq!(probe(b"\0\0\0\x54\xffSMBr"), Probe::NotForUs);
}

#[test]
fn behind_a_loss_what_comes_to_a_ready_server_is_answered() {
    let ask = |query: &str| format!("> \"Q\" 00000006 \"{query}\\x00\"\n");
    let done = |tag: &str| format!("\"C\" 00000006 \"{tag}\\x00\" {READY}\n");
    let begin = STARTUP.to_owned() + IN;
    let later = ask("c") + "< " + &done("C") + &ask("d") + "< " + &done("D");
    let last = ["simple_query | c | true | C", "simple_query | d | true | D"];
    let names = &["frontend", "frontend_arg", "success", "backend_arg"];
    let between = |lost: &str| {
        let rows = rows(&PROTOCOL, &(begin.clone() + lost + &later), names);
        assert_eq!(rows[rows.len() - 2..], last, "{lost}");
        rows[1..rows.len() - 2].to_vec()
    };
    // The server's whole answer is lost; the loss is seen when the next answer arrives.
    let lost = ask("a") + &ask("b") + "< gap 18\n< " + &done("B");
    assert_eq!(between(&lost), ["simple_query | a | - | -", "simple_query | b | - | -"]);
    // The beginning of an answer is lost, in the middle of a row; the rest of that row is skipped.
    let lost = ask("a") + "< \"D\" 00000009\n< gap 90\n< 01020304\n< gap 7\n< 0507" + READY + "\n";
    assert_eq!(between(&lost), ["simple_query | a | - | -"]);
    // The server's error is lost.
    let lost = ask("a") + "< gap 30\n< " + READY + "\n";
    assert_eq!(between(&lost), ["simple_query | a | - | -"]);
    // A request arrives before the server is ready.
    let lost = ask("a") + "< gap 30\n" + &ask("b") + "< " + READY + "\n";
    assert_eq!(between(&lost), ["simple_query | a | - | -", "simple_query | b | - | -"]);
    // The client's query is lost: the answer has no request.
    let lost = "< ".to_owned() + &done("B") + "> gap 7\n";
    assert_eq!(between(&lost), ["- | - | true | B"]);
    // The answer to the startup is lost.
    let talk = format!("{STARTUP}{}< gap 300\n< {}{later}", ask("a"), done("A"));
    let first = ["startup | - | - | -", "simple_query | a | - | -"];
    assert_eq!(rows(&PROTOCOL, &talk, names), [first, last].concat());
}

#[test]
fn who_does_not_wait_has_no_answers_behind_a_loss() {
    let ask = |query: &str| format!("> \"Q\" 00000006 \"{query}\\x00\"\n");
    let (a, b, c, d) = (ask("a"), ask("b"), ask("c"), ask("d"));
    for begin in [format!("{a}{b}< {READY}\n< gap 9\n< {READY}\n"), format!("{a}{b}{c}< gap 9\n< {READY}\n")]
    {
        let talk = format!("{STARTUP}{IN}{begin}{d}< \"C\" 00000006 \"X\\x00\" {READY}\n");
        let rows = rows(&PROTOCOL, &talk, &["frontend_arg", "backend_arg"]);
        assert!(rows.iter().all(|row| row.ends_with(" | -")), "{rows:?}");
    }
}

#[test]
fn a_statement_that_is_missing_is_not_the_one_before() {
    let parse = "\"P\" 0000000b \"\\x00get\\x00\" 0000";
    let run = "\"E\" 00000009 \"\\x00\" 00000000";
    let bind = "\"B\" 0000000c \"\\x00\\x00\" 000000000000";
    for (parse, run, query) in [
        // Unnamed statements and portals are those parsed and bound last; named ones last until closed.
        (parse, format!("{bind} {run}"), "-"),
        (PARSE_GET, run.to_owned(), "-"),
        (PARSE_GET, RUN_A.to_owned(), "get"),
    ] {
        let talk = format!(
            "{STARTUP}{IN}> {parse} {SYNC}\n< \"1\" 00000004 {READY}\n> gap 30\n> {run} {SYNC}\n< {DONE} {READY}\n"
        );
        let expected = [format!("extended_query | {query} | true | GET 0")];
        assert_eq!(rows(&PROTOCOL, &talk, EXTENDED)[2..], expected);
    }
}

#[test]
fn a_loss_of_the_clients_takes_no_answer_away() {
    let names = &["frontend", "success", "backend_arg"];
    let password = format!("{STARTUP}< \"R\" 00000008 00000003\n> gap 12\n{IN}");
    assert_eq!(rows(&PROTOCOL, &password, names), ["startup | true | -"]);
    let copy = format!(
        "{STARTUP}{IN}> \"Q\" 00000006 \"c\\x00\"\n< \"G\" 00000007 000000\n> gap 9\n> \"c\" 00000004\n\
         < \"C\" 0000000b \"COPY 2\\x00\" {READY}\n"
    );
    assert_eq!(rows(&PROTOCOL, &copy, names)[1..], ["simple_query | true | COPY 2"]);
}

#[test]
fn rows_of_a_copy_are_counted() {
    let asked = STARTUP.to_owned()
        + IN
        + "> \"Q\" 00000006 \"c\\x00\"\n< \"H\" 00000007 000000 \"d\" 00000006 \"a\\x0a\"";
    for (rest, expected) in [
        ("\"d\" 00000006 \"b\\x0a\" \"C\" 0000000b \"COPY 2\\x00\"", "COPY 2 | 2"),
        ("\"d\" 00000006 \"b\\x0a\" \"C\" 00000009 \"COPY\\x00\"", "COPY | 2"),
        // In the binary format the last message is not a row.
        ("\"d\" 00000006 ffff \"C\" 0000000b \"COPY 1\\x00\"", "COPY 1 | 1"),
    ] {
        let talk = format!("{asked}{rest} {READY}\n");
        assert_eq!(rows(&PROTOCOL, &talk, &["backend_arg", "rows"])[1..], [expected]);
    }
}
