//! Conversations in SMTP, and their expected sessions.

use weir_sessions::smtp::PROTOCOL;
use weir_sessions::{Data, Direction};
use weir_testing::conversation::{HELD_BYTES_MAX, rows};

fn seed(name: &str) -> String {
    let path = format!("{}/../../corpus/smtp/{name}.talk", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("a seed")
}

#[test]
fn each_mail_is_one_row() {
    let names = ["trans_depth", "helo", "mailfrom", "rcptto", "subject", "last_reply", "tls"];
    assert_eq!(
        rows(&PROTOCOL, &seed("two-mails"), &names),
        [
            "1 | client.example | a@one.example | b@two.example | first | 250 2.0.0 queued as 1 | false",
            "2 | client.example | <> | c@two.example,d@two.example | second folded | 250 2.0.0 queued as 2 | false",
        ]
    );
}

#[test]
fn header_fields_are_those_of_the_mail() {
    let rows_of = |names: &[&str]| rows(&PROTOCOL, &seed("two-mails"), names);
    assert_eq!(
        rows_of(&["date", "from", "to", "msg_id", "smtp.mail_bytes"])[0],
        "Tue, 1 Sep 2026 10:00:00 +0000 | A <a@one.example> | b@two.example | <1@one.example> | 138"
    );
    assert_eq!(
        rows_of(&["to", "cc", "reply_to", "in_reply_to", "user_agent", "x_originating_ip", "path"])[1],
        "c@two.example,d@two.example | e@f,g@h | r@s | <1@one.example> | m/1 | 192.0.2.9 | 192.0.2.7,192.0.2.8"
    );
    assert_eq!(
        rows_of(&["first_received", "second_received"])[1],
        "from z ([192.0.2.8]) by x | from x ([192.0.2.7]) by y; now"
    );
}

#[test]
fn chunks_are_one_mail_and_passwords_are_not_shown() {
    let names = ["mailfrom", "subject", "to", "last_reply", "smtp.mail_bytes", "smtp.user", "smtp.commands"];
    assert_eq!(
        rows(&PROTOCOL, &seed("chunks"), &names),
        ["a@b | chunked | x@y | 250 queued | 33 | me | EHLO,AUTH,MAIL,RCPT,BDAT"]
    );
}

#[test]
fn behind_starttls_is_tls() {
    let names = ["trans_depth", "helo", "last_reply", "tls", "smtp.greeting"];
    assert_eq!(
        rows(&PROTOCOL, &seed("starttls"), &names),
        ["1 | openssl.client.net | 220 2.0.0 Ready to start TLS | true | mx.example ESMTP", "over to 82"]
    );
    // The client's side alone suffices: its ClientHello is no command.
    let client: String = seed("starttls")
        .lines()
        .filter(|line| !line.starts_with('<'))
        .fold(String::new(), |text, line| text + line + "\n");
    assert_eq!(rows(&PROTOCOL, &client, &names), ["1 | openssl.client.net | - | true | -", "over to 35"]);
}

#[test]
fn a_mail_whose_end_is_missing_ends_with_its_reply() {
    let names = ["mailfrom", "subject", "last_reply", "smtp.mail_bytes", "smtp.has_gap"];
    assert_eq!(
        rows(&PROTOCOL, &seed("lossy"), &names),
        ["a@b | lost | 250 queued | 226 | true", "e@f | broken off | 354 go on | 27 | false"]
    );
}

#[test]
fn one_direction_alone_is_something() {
    let one = |side: char| -> String {
        seed("two-mails")
            .lines()
            .filter(|line| line.starts_with(side))
            .fold(String::new(), |text, line| text + line + "\n")
    };
    let names = ["helo", "mailfrom", "subject", "last_reply"];
    assert_eq!(
        rows(&PROTOCOL, &one('>'), &names),
        ["client.example | a@one.example | first | -", "client.example | <> | second folded | -"]
    );
    assert!(rows(&PROTOCOL, &one('<'), &names).is_empty(), "replies alone tell nothing");
}

#[test]
fn a_connection_without_a_mail_is_one_row() {
    let talk = "< \"220 mx ESMTP\\r\\n\"\n> \"EHLO x\\r\\n\"\n< \"421 too many connections\\r\\n\"";
    assert_eq!(
        rows(&PROTOCOL, talk, &["helo", "mailfrom", "last_reply"]),
        ["x | - | 421 too many connections"]
    );
    assert!(rows(&PROTOCOL, "< \"220 mx ESMTP\\r\\n\"\n> \"QUIT\\r\\n\"", &["helo"]).is_empty());
}

#[test]
fn endless_headers_and_lists_are_bounded() {
    let before = weir_memory::live_bytes();
    let mut parser = (PROTOCOL.open)(&weir_sessions::Context::default());
    let mut sessions = Vec::new();
    let mut feed = |bytes: &[u8]| {
        let time = weir_packet::Timestamp(0);
        parser.parse(&Data { from: Direction::Originator, time, bytes, is_datagram: false }, &mut sessions);
        assert!(weir_memory::live_bytes() - before < HELD_BYTES_MAX);
    };
    feed(b"EHLO x\r\nMAIL FROM:<a@b>\r\n");
    for _ in 0..10_000 {
        feed(b"RCPT TO:<aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa@b>\r\n");
    }
    feed(b"DATA\r\nTo: ");
    for _ in 0..1000 {
        feed(b"<a@b>,<a@b>,<a@b>,<a@b>,<a@b>,<a@b>,<a@b>,<a@b>,<a@b>,<a@b>,<a@b>,<a@b>,<a@b>,<a@b>,\r\n ");
    }
    for _ in 0..10_000 {
        feed(b"\r\nReceived: from x ([192.0.2.7]) by y ([192.0.2.8]) for z ([192.0.2.9])");
    }
    assert!(parser.cut_off().parts == 0 || parser.cut_off().parts > 9000);
    parser.finish(&mut sessions);
    assert!(parser.cut_off().parts > 9000);
    assert_eq!(sessions.len(), 1);
}

#[test]
fn a_greeting_that_is_handed_on_late_answers_nothing() {
    let talk = r#"
        > "EHLO x\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\n"
        < "220 mx\r\n250 mx\r\n250 ok\r\n250 ok\r\n354 go on\r\n"
        > "Subject: s\r\n\r\n.\r\n"
        < "250 queued\r\n""#;
    assert_eq!(rows(&PROTOCOL, talk, &["subject", "last_reply", "smtp.greeting"]), ["s | 250 queued | mx"]);
}

#[test]
fn a_mail_of_lmtp_has_a_reply_for_each_receiver() {
    let talk = r#"
        < "220 x LMTP\r\n"
        > "LHLO c\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nRCPT TO:<e@f>\r\nRCPT TO:<g@h>\r\nDATA\r\n"
        < "250 x\r\n250 ok\r\n250 ok\r\n550 no\r\n250 ok\r\n354 go on\r\n"
        > "Subject: 1\r\n\r\n.\r\n"
        < "250 c has it\r\n452 g is full\r\n"
        > "MAIL FROM:<i@j>\r\nRCPT TO:<k@l>\r\nDATA\r\n"
        < "250 ok\r\n250 ok\r\n354 go on\r\n"
        > "Subject: 2\r\n\r\n.\r\n"
        < "250 k has it\r\n""#;
    assert_eq!(rows(&PROTOCOL, talk, &["subject", "last_reply"]), ["1 | 250 c has it", "2 | 250 k has it"]);
}
