use super::*;
use crate::conversation::rows;

const NAMES: &[&str] = &["cmd.name", "cmd.key", "cmd.value", "success", "reply.value", "redis.arguments"];

#[test]
fn commands_meet_their_replies() {
    let talk = "> \"*3\\r\\n$3\\r\\nset\\r\\n$1\\r\\nk\\r\\n$2\\r\\nv1\\r\\n*2\\r\\n$3\\r\\nGET\\r\\n$1\\r\\nk\\r\\n\"\n\
                < \"+OK\\r\\n$2\\r\\nv1\\r\\n\"\n> \"KEYS *\\r\\n*1\\r\\n$4\\r\\nNOPE\\r\\n\"\n\
                < \"*2\\r\\n$1\\r\\na\\r\\n*1\\r\\n:7\\r\\n-ERR unknown\\r\\n\"\n";
    assert_eq!(
        rows(&PROTOCOL, talk, NAMES),
        [
            "SET | k | v1 | true | OK | 2",
            "GET | k | - | true | v1 | 1",
            "KEYS | * | - | true | 2 | 1",
            "NOPE | - | - | false | ERR unknown | 0",
        ]
    );
}

#[test]
fn passwords_are_not_kept() {
    let talk = "> \"*3\\r\\n$4\\r\\nauth\\r\\n$3\\r\\nbob\\r\\n$6\\r\\nsecret\\r\\nAUTH secret\\r\\n\"\n< \"+OK\\r\\n+OK\\r\\n\"\n";
    assert_eq!(
        rows(&PROTOCOL, talk, NAMES),
        ["AUTH | bob | - | true | OK | 2", "AUTH | - | - | true | OK | 1"]
    );
}

#[test]
fn what_is_pushed_is_no_reply() {
    let talk = "> \"PING\\r\\nSUBSCRIBE c\\r\\n\"\n< \">2\\r\\n+invalidate\\r\\n*-1\\r\\n|1\\r\\n+ttl\\r\\n:1\\r\\n+PONG\\r\\n\
                *3\\r\\n$9\\r\\nsubscribe\\r\\n$1\\r\\nc\\r\\n:1\\r\\n*3\\r\\n\"\n";
    assert_eq!(rows(&PROTOCOL, talk, &["cmd.name", "reply.value"]), ["PING | PONG", "SUBSCRIBE | 3"]);
}

#[test]
fn who_subscribes_in_resp_3_goes_on() {
    let talk = "> \"SUBSCRIBE a b\\r\\nGET k\\r\\n\"\n< \">3\\r\\n$9\\r\\nsubscribe\\r\\n+a\\r\\n:1\\r\\n\
                >3\\r\\n+subscribe\\r\\n+b\\r\\n:2\\r\\n>3\\r\\n+message\\r\\n+a\\r\\n+m\\r\\n+v\\r\\n\"\n";
    assert_eq!(rows(&PROTOCOL, talk, &["cmd.name", "reply.value"]), ["SUBSCRIBE | 3", "GET | v"]);
}

#[test]
fn who_wants_no_replies_gets_none() {
    let asked = |modes: &str| {
        let talk = format!("> \"GET a\\r\\n{modes}GET c\\r\\n\"\n< \"+1\\r\\n+2\\r\\n+3\\r\\n\"\n");
        rows(&PROTOCOL, &talk, &["cmd.name", "cmd.value", "reply.value"]).join(", ")
    };
    let first = "GET | - | 1";
    assert_eq!(
        asked("CLIENT REPLY OFF\\r\\nSET k v\\r\\nclient reply skip\\r\\nCLIENT REPLY ON\\r\\n"),
        format!("{first}, CLIENT | OFF | -, SET | v | -, CLIENT | skip | -, CLIENT | ON | 2, GET | - | 3")
    );
    assert_eq!(
        asked("CLIENT REPLY SKIP\\r\\nSET k v\\r\\nSET k w\\r\\n"),
        format!("{first}, CLIENT | SKIP | -, SET | v | -, SET | w | 2, GET | - | 3")
    );
    assert_eq!(
        asked("CLIENT REPLY OFF\\r\\nRESET\\r\\n"),
        format!("{first}, CLIENT | OFF | -, RESET | - | 2, GET | - | 3")
    );
    assert_eq!(
        asked("CLIENT REPLY\\r\\n"),
        format!("{first}, CLIENT | - | 2, GET | - | 3"),
        "that is a mistake"
    );
}

#[test]
fn keys_of_scripts_and_streams_are_found() {
    for (command, row) in [
        ("EVAL \\\"return 1\\\" 2 a b c", "EVAL | a | return 1"),
        ("EVALSHA abc 0 c", "EVALSHA | - | abc"),
        ("FCALL f 1 k", "FCALL | k | f"),
        ("XADD s * f v", "XADD | s | *"),
        ("XREAD COUNT 2 BLOCK 0 STREAMS s t 0 0", "XREAD | s | -"),
        ("XREADGROUP GROUP streams c streams s >", "XREADGROUP | s | -"),
        ("XGROUP CREATE s g $", "XGROUP | s | g"),
        ("ZMPOP 1 z MIN", "ZMPOP | z | -"),
        ("AUTH user secret", "AUTH | user | -"),
        ("SET k v", "SET | k | v"),
    ] {
        let talk = format!("> \"{command}\\r\\n\"\n< \"+OK\\r\\n\"\n");
        assert_eq!(rows(&PROTOCOL, &talk, &["cmd.name", "cmd.key", "cmd.value"]), [row], "{command}");
    }
}

#[test]
fn a_line_is_a_command_where_the_reply_is_one() {
    let probe = |originator: &[u8], responder: &[u8]| {
        (PROTOCOL.probe)(&Opening { originator, responder, ..Opening::default() })
    };
    assert_eq!(probe(b"PING\r\n", b""), Probe::Unsure);
    assert_eq!(probe(b"pi", b""), Probe::Unsure);
    assert_eq!(probe(b"PING\r\n", b"+PONG\r\n"), Probe::Certain);
    assert_eq!(probe(b"set a 1\r\n", b"-NOAUTH Auth"), Probe::Certain);
    assert_eq!(probe(b"get a\r\n", b"$1\r\n1"), Probe::Certain);
    assert_eq!(probe(b"get a\r\n", b"END\r\n"), Probe::NotForUs);
    assert_eq!(probe(b"PING\r\n", b"PONG\r\n"), Probe::NotForUs);
    assert_eq!(probe(b"PING\r\n", b"+O"), Probe::Unsure);
    assert_eq!(probe(b"PING\r\n", b"+OX"), Probe::NotForUs);
    assert_eq!(probe(b"GET / HTTP/1.1\r\n", b""), Probe::NotForUs);
    assert_eq!(probe(b"MULTI\r\n", b"+OK\r\n"), Probe::NotForUs);
    let opening =
        Opening { originator: b"MULTI\r\n", responder: b"+OK\r\n", ports: [5, 6379], ..Opening::default() };
    assert_eq!((PROTOCOL.probe)(&opening), Probe::Certain);
    // Where a segment ends does not matter: the next byte may make another word of it.
    for part in [&b"P"[..], b"GET", b"GET "] {
        assert_eq!(probe(part, b"*3"), Probe::Unsure, "{part:?}");
    }
    assert_eq!(probe(b"POST / HTTP/1.1\r\n", b"*3"), Probe::NotForUs);
}

#[test]
fn one_side_alone_and_what_is_no_redis() {
    assert_eq!(rows(&PROTOCOL, "> \"PING\\r\\n\"", &["cmd.name", "success"]), ["PING | -"]);
    assert_eq!(rows(&PROTOCOL, "< \"-ERR\\r\\n\"", &["cmd.name", "success"]), ["- | false"]);
    assert_eq!(rows(&PROTOCOL, "> \"*x\\r\\nPING\\r\\n\"", &["cmd.name"]), Vec::<String>::new());
}

#[test]
fn a_reply_that_is_seen_first_leaves_it_open() {
    let probe = |originator: &[u8], responder: &[u8]| {
        (PROTOCOL.probe)(&Opening { originator, responder, ..Opening::default() })
    };
    let command = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
    for reply in [&b"+OK\r\n"[..], b"$-1\r\n", b":7\r\n", b"-ERR no\r\n"] {
        assert_eq!(probe(reply, b""), Probe::Unsure);
        assert_eq!(probe(reply, b"*2\r\n"), Probe::Unsure);
        assert_eq!(probe(reply, command), Probe::Certain);
        assert_eq!(probe(reply, b"USER a\r\n"), Probe::NotForUs);
    }
    assert_eq!(probe(b"+OKAY\r\n", b""), Probe::NotForUs);
}

#[test]
fn a_command_makes_it_one() {
    let probe = |originator: &[u8]| (PROTOCOL.probe)(&Opening { originator, ..Opening::default() });
    assert_eq!(probe(b"*1\r\n$4\r\nPING\r\n"), Probe::Certain);
    assert_eq!(probe(b"*1\r\n$4"), Probe::Unsure);
    assert_eq!(probe(b"*"), Probe::Unsure);
    for other in [&b"* OK IMAP4 ready\r\n"[..], b"+OK ready\r\n", b"*x\r\n+a", b"**"] {
        assert_eq!(probe(other), Probe::NotForUs);
    }
}

#[test]
fn who_listens_in_resp_2_goes_on() {
    let talk = "> \"SUBSCRIBE a b\\r\\nSUBSCRIBE c\\r\\n\"\n\
                < \"*3\\r\\n$9\\r\\nsubscribe\\r\\n$1\\r\\na\\r\\n:1\\r\\n*3\\r\\n$9\\r\\nsubscribe\\r\\n$1\\r\\nb\\r\\n:2\\r\\n\"\n\
                < \"*3\\r\\n$9\\r\\nsubscribe\\r\\n$1\\r\\nc\\r\\n:3\\r\\n*3\\r\\n$7\\r\\nmessage\\r\\n$1\\r\\na\\r\\n$1\\r\\nx\\r\\n\"\n\
                > \"PING\\r\\nUNSUBSCRIBE\\r\\nLRANGE l 0 9\\r\\n\"\n\
                < \"*3\\r\\n$7\\r\\nmessage\\r\\n$1\\r\\na\\r\\n$1\\r\\nx\\r\\n*2\\r\\n$4\\r\\npong\\r\\n$0\\r\\n\\r\\n\"\n\
                < \"*3\\r\\n$11\\r\\nunsubscribe\\r\\n$1\\r\\na\\r\\n:2\\r\\n*3\\r\\n$11\\r\\nunsubscribe\\r\\n$1\\r\\nb\\r\\n:1\\r\\n\"\n\
                < \"*3\\r\\n$11\\r\\nunsubscribe\\r\\n$1\\r\\nc\\r\\n:0\\r\\n*1\\r\\n$7\\r\\nmessage\\r\\n\"\n";
    let expected =
        ["SUBSCRIBE | a | 3", "SUBSCRIBE | c | 3", "PING | - | 2", "UNSUBSCRIBE | - | 3", "LRANGE | l | 1"];
    assert_eq!(rows(&PROTOCOL, talk, &["cmd.name", "cmd.key", "reply.value"]), expected);
}

#[test]
fn quotes_of_a_line_are_read() {
    let talk = "> \"ECHO \\\"hello world\\\"\\r\\n\"\n< \"$11\\r\\nhello world\\r\\n\"\n";
    assert_eq!(rows(&PROTOCOL, talk, &["cmd.key", "reply.value"]), ["hello world | hello world"]);
}

#[test]
fn what_servers_say_is_no_command() {
    for said in [
        // Messages to a subscriber, the middle of a nested array, a confirmation.
        "*3\\r\\n$7\\r\\nmessage\\r\\n$1\\r\\nc\\r\\n$1\\r\\nx\\r\\n",
        "*4\\r\\n$7\\r\\nsummary\\r\\n$1\\r\\na\\r\\n$5\\r\\nsince\\r\\n*1\\r\\n$1\\r\\nb\\r\\n",
        "*3\\r\\n$9\\r\\nsubscribe\\r\\n$1\\r\\nc\\r\\n:1\\r\\n",
        "*2\\r\\n$11\\r\\nhello world\\r\\n$1\\r\\nx\\r\\n",
    ] {
        assert_eq!(
            rows(&PROTOCOL, &format!("> \"{said}\"\n> \"*1\\r\\n$1\\r\\na\\r\\n\"\n"), &["cmd.name"]),
            Vec::<String>::new()
        );
    }
    let command = b"*1\r\n$4\r\nPING\r\n";
    let probe = |originator: &[u8], responder: &[u8], ports| {
        (PROTOCOL.probe)(&Opening { originator, responder, ports, ..Opening::default() })
    };
    assert_eq!(probe(command, b"", [6379, 40_000]), Probe::NotForUs);
    assert_eq!(probe(b"", command, [40_000, 6379]), Probe::NotForUs);
    assert_eq!(probe(command, b"", [40_000, 6379]), Probe::Certain);
    assert_eq!(probe(command, b"*1\r\n", [40_000, 6379]), Probe::Certain);
    assert_eq!(probe(b"KEYS a\r\n", b"*0\r\n", [40_000, 6379]), Probe::Certain);
    assert_eq!(probe(b"", command, [6379, 40_000]), Probe::Certain);
}

#[test]
fn a_confirmation_says_what_it_answers() {
    let talk = "> \"SUBSCRIBE c\\r\\n\"\n< \"*3\\r\\n$9\\r\\nsubscribe\\r\\n$1\\r\\nc\\r\\n:1\\r\\n\"\n\
                > \"PING\\r\\nUNSUBSCRIBE c\\r\\nGET k\\r\\n\"\n\
                < \"*3\\r\\n$11\\r\\nunsubscribe\\r\\n$1\\r\\nc\\r\\n:0\\r\\n$1\\r\\nv\\r\\n\"\n";
    let expected = ["SUBSCRIBE | 3", "PING | -", "UNSUBSCRIBE | 3", "GET | v"];
    assert_eq!(rows(&PROTOCOL, talk, &["cmd.name", "reply.value"]), expected);
}
