//! Executables in the sessions of each protocol that carries files, and what their rows say.

pub(crate) use super::head::tests::executable;
use super::{Executable, FIELDS, HEAD_BYTES_MAX};
use crate::part_logs::EXECUTABLES as LOG;
use crate::{CutOff, Data, Direction, Session, SessionProtocol};
use std::io::Write as _;
use weir_packet::{Timestamp, Value};

use Direction::{Originator, Responder};

/// The executables in a conversation in pieces of this size, and what the parser's bounds discarded.
fn found(
    protocol: &SessionProtocol,
    said: &[(Direction, &[u8])],
    piece_bytes: usize,
) -> (Vec<Box<dyn Session>>, CutOff) {
    let registry = crate::SessionRegistry::builtin();
    let number = registry.number_of(protocol.name).expect("it is built in");
    let (mut parser, mut sessions) = (registry.open(number, false), vec![]);
    for (from, bytes) in said {
        for bytes in bytes.chunks(piece_bytes) {
            parser.parse(&Data { from: *from, time: Timestamp(7), bytes, is_datagram: false }, &mut sessions);
        }
    }
    parser.finish(&mut sessions);
    let (_, parts_of) = LOG.of.iter().find(|(name, _)| *name == protocol.name).expect("it has files");
    (sessions.iter().flat_map(|session| parts_of(&**session)).collect(), parser.cut_off())
}

fn over_http(body: &[u8], coding: &str, piece_bytes: usize) -> (Vec<Box<dyn Session>>, CutOff) {
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n", body.len());
    let answer = [head.as_bytes(), body].concat();
    let request = b"GET /a.exe HTTP/1.1\r\nHost: a\r\n\r\n";
    found(&crate::http::PROTOCOL, &[(Originator, request), (Responder, &answer)], piece_bytes)
}

fn value<'a>(executable: &'a dyn Session, column: &str) -> Value<'a> {
    let at = FIELDS.iter().position(|field| field.column == column);
    executable.value(at.expect("a column"))
}

#[test]
fn the_row_of_an_executable_has_the_columns_of_zeek() {
    let columns: Vec<&str> =
        LOG.head.iter().copied().chain(FIELDS.iter().map(|field| field.column)).collect();
    let zeek = "ts id id machine compile_ts os subsystem is_exe is_64bit uses_aslr uses_dep uses_code_integrity \
                uses_seh has_import_table has_export_table has_cert_table has_debug_data section_names";
    assert_eq!(columns.join(" "), zeek);
    let (rows, cut_off) = over_http(&[&executable(128)[..], &[0; 5000]].concat(), "identity", 100);
    let [row] = &rows[..] else { panic!("one executable") };
    let text = |text: &str| Value::Text(text.to_string().into());
    for (column, expected) in [
        ("machine", text("AMD64")),
        ("compile_ts", Value::Time(Timestamp::from_parts(1_600_000_000, 0))),
        ("os", text("Windows 7 or Server 2008 R2")),
        ("subsystem", text("WINDOWS_CUI")),
        ("is_exe", Value::Bool(true)),
        ("is_64bit", Value::Bool(true)),
        ("uses_aslr", Value::Bool(true)),
        ("uses_dep", Value::Bool(true)),
        ("uses_code_integrity", Value::Bool(false)),
        ("uses_seh", Value::Bool(true)),
        ("has_import_table", Value::Bool(true)),
        ("has_export_table", Value::Bool(false)),
        ("has_cert_table", Value::Bool(false)),
        ("has_debug_data", Value::Bool(true)),
        ("section_names", Value::Texts(vec![".text".to_string(), "longname".to_string()].into())),
    ] {
        assert_eq!(value(&**row, column), expected, "{column}");
    }
    assert_eq!((row.time(), cut_off), (Some(Timestamp(7)), CutOff::default()));
}

#[test]
fn over_http_a_coded_executable_is_decoded_and_other_bodies_have_no_row() {
    let content = [&executable(128)[..], &[0; 5000]].concat();
    let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
    encoder.write_all(&content).expect("memory");
    let packed = encoder.finish().expect("memory");
    for piece_bytes in [1, 7, 100_000] {
        let (plain, coded) = (over_http(&content, "", piece_bytes), over_http(&packed, "gzip", piece_bytes));
        let head = |rows: &[Box<dyn Session>]| rows[0].as_any().downcast_ref::<Executable>().cloned();
        assert_eq!(head(&plain.0).map(|row| row.head), head(&coded.0).map(|row| row.head));
        assert!(over_http(b"MZ, a text", "", piece_bytes).0.is_empty());
    }
}

#[test]
fn a_head_behind_the_bound_is_counted() {
    let (rows, cut_off) = over_http(&[&executable(HEAD_BYTES_MAX)[..], &[0; 99]].concat(), "", 1460);
    assert_eq!((rows.len(), cut_off.parts), (0, 1));
    let (rows, cut_off) = over_http(&[&executable(HEAD_BYTES_MAX - 30)[..], &[0; 99]].concat(), "", 1460);
    assert_eq!((rows.len(), cut_off.parts), (1, 1));
    assert_eq!(value(&*rows[0], "subsystem"), Value::Absent);
}

#[test]
fn a_part_of_a_mail_may_be_an_executable() {
    use base64::Engine as _;
    let content = base64::engine::general_purpose::STANDARD.encode(executable(128));
    let lines: Vec<&str> =
        content.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).expect("ASCII")).collect();
    let mail = format!(
        "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nhello\r\n--b\r\n\
         Content-Transfer-Encoding: base64\r\nContent-Disposition: attachment; filename=a.exe\r\n\r\n{}\r\n--b--\r\n.\r\n",
        lines.join("\r\n")
    );
    let said: [(Direction, &[u8]); 8] = [
        (Responder, b"220 a\r\n"),
        (Originator, b"HELO b\r\nMAIL FROM:<a@b>\r\n"),
        (Responder, b"250 a\r\n250 ok\r\n"),
        (Originator, b"RCPT TO:<c@d>\r\nDATA\r\n"),
        (Responder, b"250 ok\r\n354 go\r\n"),
        (Originator, mail.as_bytes()),
        (Responder, b"250 ok\r\n"),
        (Originator, b"QUIT\r\n"),
    ];
    for piece_bytes in [1, 100_000] {
        let (rows, cut_off) = found(&crate::smtp::PROTOCOL, &said, piece_bytes);
        assert_eq!((rows.len(), cut_off), (1, CutOff::default()));
        assert_eq!(value(&*rows[0], "machine"), Value::Text("AMD64".into()));
    }
}
