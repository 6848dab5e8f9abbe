//! Conversations in POP3 and IMAP, and their expected sessions.

use weir_sessions::{imap, pop3};
use weir_testing::conversation::rows;

fn seed(name: &str) -> String {
    let path = format!("{}/../../corpus/{name}.talk", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("a seed")
}

/// One side of a conversation.
fn one(name: &str, side: char) -> String {
    let text = seed(name);
    text.lines().filter(|line| line.starts_with(side)).fold(String::new(), |text, line| text + line + "\n")
}

#[test]
fn a_connection_of_pop3_is_one_row() {
    let names = ["user", "auth_mechanism", "logged_in", "fetched", "deleted", "capabilities", "last_error"];
    assert_eq!(
        rows(&pop3::PROTOCOL, &seed("pop3/session"), &names),
        ["me | USER | true | 1 | 1 | TOP,SASL PLAIN LOGIN,STLS | no such message"]
    );
    assert_eq!(
        rows(&pop3::PROTOCOL, &seed("pop3/session"), &["results", "greeting"]),
        ["CAPA OK,USER OK,PASS OK,STAT OK,LIST OK,UIDL OK,RETR OK,DELE OK,RETR ERR,QUIT OK | \
          pop.example ready <1.2@pop.example>"]
    );
}

#[test]
fn behind_stls_is_tls() {
    let names = ["user", "auth_mechanism", "logged_in", "results", "tls"];
    assert_eq!(
        rows(&pop3::PROTOCOL, &seed("pop3/stls"), &names),
        ["me | PLAIN | false | AUTH ERR,STLS OK | true", "over to 48"]
    );
    assert_eq!(
        rows(&pop3::PROTOCOL, &one("pop3/stls", '>'), &names),
        ["me | PLAIN | - | - | true", "over to 36"]
    );
}

#[test]
fn one_direction_of_pop3_is_something() {
    let names = ["user", "logged_in", "pop3.commands", "greeting"];
    assert_eq!(
        rows(&pop3::PROTOCOL, &one("pop3/session", '>'), &names),
        ["me | - | CAPA,USER,PASS,STAT,LIST,UIDL,RETR,DELE,QUIT | -"]
    );
    assert_eq!(
        rows(&pop3::PROTOCOL, &one("pop3/session", '<'), &names),
        ["- | - | - | pop.example ready <1.2@pop.example>"]
    );
}

#[test]
fn a_connection_of_imap_is_one_row() {
    let names = ["user", "auth_mechanism", "logged_in", "mailboxes", "capabilities", "last_error"];
    assert_eq!(
        rows(&imap::PROTOCOL, &seed("imap/session"), &names),
        ["me | LOGIN | true | My \"box\" | IMAP4rev1,IDLE | too large"]
    );
    assert_eq!(
        rows(&imap::PROTOCOL, &seed("imap/session"), &["results", "client_id", "server_id"]),
        ["ID OK,LOGIN OK,SELECT OK,UID FETCH OK,IDLE OK,APPEND NO,LOGOUT OK | \
          (\"name\" \"client\") | (\"name\" \"server\")"]
    );
}

#[test]
fn behind_starttls_of_imap_is_tls() {
    let names = ["user", "auth_mechanism", "logged_in", "results", "tls"];
    assert_eq!(
        rows(&imap::PROTOCOL, &seed("imap/starttls"), &names),
        ["me | PLAIN | false | CAPABILITY OK,AUTHENTICATE NO,STARTTLS OK | true", "over to 100"]
    );
    assert_eq!(
        rows(&imap::PROTOCOL, &one("imap/starttls", '>'), &names),
        ["me | PLAIN | - | - | true", "over to 66"]
    );
}

#[test]
fn literals_bear_gaps() {
    let names = ["logged_in", "results"];
    assert_eq!(rows(&imap::PROTOCOL, &seed("imap/lossy"), &names), ["true | FETCH OK,NOOP OK"]);
}

#[test]
fn compression_is_the_end() {
    let talk = "< \"* OK\\r\\n\"\n> \"1 COMPRESS DEFLATE\\r\\n\"\n< \"1 OK\\r\\n\" 00ff00\n> 00ff\n";
    assert_eq!(rows(&imap::PROTOCOL, talk, &["results"]), ["COMPRESS OK"]);
}
