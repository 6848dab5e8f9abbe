//! Conversations in FTP, and their expected sessions.

use weir_sessions::ftp::PROTOCOL;
use weir_testing::conversation::rows;

fn seed(name: &str) -> String {
    let path = format!("{}/../../corpus/ftp/{name}.talk", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("a seed")
}

#[test]
fn each_command_is_one_row_with_its_final_reply() {
    assert_eq!(
        rows(&PROTOCOL, &seed("session"), &["command", "arg", "reply_code", "reply_msg"]),
        [
            "USER | anonymous | 331 | Guest login ok",
            "PASS | <hidden> | 230 | logged in",
            "SYST | - | 215 | UNIX Type: L8",
            "PASV | - | 227 | Entering Passive Mode (192,0,2,1,18,52).",
            "LIST | - | 226 | Directory send OK.",
            "EPRT | |2|2001:db8::1|5000| | 200 | EPRT ok",
            "RETR | index.html | 226 | Transfer complete.",
            "EPSV | - | 229 | Entering Extended Passive Mode (|||38141|)",
            "SIZE | /README | 213 | 16557",
            "CWD | /x | 550 | /x: Not a directory",
            "ABOR | - | 226 | done",
            "QUIT | - | - | -",
        ]
    );
}

#[test]
fn the_user_is_known_and_the_password_hidden() {
    let rows = rows(&PROTOCOL, &seed("session"), &["user", "password"]);
    assert_eq!(rows[0], "anonymous | -");
    assert_eq!(rows[1..3], ["anonymous | <hidden>", "anonymous | <hidden>"]);
}

#[test]
fn data_connections_and_sizes_are_told() {
    let names =
        ["command", "data_channel.passive", "data_channel.resp_h", "data_channel.resp_p", "file_size"];
    let rows = rows(&PROTOCOL, &seed("session"), &names);
    assert_eq!(rows[3], "PASV | true | 192.0.2.1 | 4660 | -");
    assert_eq!(rows[5], "EPRT | false | 2001:db8::1 | 5000 | -");
    assert_eq!(rows[6], "RETR | - | - | - | 39");
    assert_eq!(rows[7], "EPSV | true | - | 38141 | -");
    assert_eq!(rows[8], "SIZE | - | - | - | 16557");
}

#[test]
fn behind_auth_tls_is_tls() {
    let names = ["command", "arg", "reply_code"];
    assert_eq!(rows(&PROTOCOL, &seed("auth-tls"), &names), ["AUTH | TLS | 234", "over to 51"]);
    let client = "> \"AUTH TLS\\r\\n\" 160301";
    assert_eq!(rows(&PROTOCOL, client, &names), ["AUTH | TLS | -", "over to 10"]);
}

#[test]
fn one_direction_alone_is_something() {
    let one = |side: char| -> String {
        seed("session")
            .lines()
            .filter(|line| line.starts_with(side))
            .fold(String::new(), |text, line| text + line + "\n")
    };
    let names = ["command", "reply_code"];
    assert_eq!(rows(&PROTOCOL, &one('>'), &names).len(), 12);
    assert_eq!(rows(&PROTOCOL, &one('<'), &names)[..2], ["- | 331", "- | 230"]);
}

#[test]
fn behind_lost_replies_commands_are_answered_anew() {
    let talk = r#"
        < "220 ftp\r\n"
        > "USER a\r\nPASS b\r\n"
        < gap 30
        > "PWD\r\n"
        < "257 \"/\" is current\r\n""#;
    assert_eq!(rows(&PROTOCOL, talk, &["command", "reply_code"]), ["USER | -", "PASS | -", "PWD | 257"]);
}

#[test]
fn commands_that_nobody_answers_do_not_pile_up() {
    let talk = format!("< \"220 ftp\\r\\n\"\n> \"{}\"", "NOOP\\r\\n".repeat(1000));
    assert_eq!(rows(&PROTOCOL, &talk, &["command"]).len(), 1000);
}

#[test]
fn a_greeting_that_is_handed_on_late_answers_nothing() {
    let talk = "> \"USER a\\r\\n\"\n< \"220 ready\\r\\n331 password\\r\\n\"";
    assert_eq!(rows(&PROTOCOL, talk, &["command", "reply_code"]), ["USER | 331"]);
}

#[test]
fn an_answer_without_a_code_is_one() {
    let talk = "< \"220 ftp\\r\\n\"\n> \"PASV\\r\\nQUIT\\r\\n\"\n< \"99 invalid\\r\\n221 Bye\\r\\n\"";
    let names = ["command", "reply_code", "reply_msg"];
    assert_eq!(rows(&PROTOCOL, talk, &names), ["PASV | - | 99 invalid", "QUIT | 221 | Bye"]);
}
