//! Detects FTP: a greeting that names it, or commands of FTP alone. SMTP greets with the same code, and POP3
//! also has USER.

use super::PROTOCOL;
use crate::smtp::probe::{Says, says};
use crate::{Opening, Probe};
use memchr::memchr;

/// First commands of clients.
const COMMANDS: &[&[u8]] = &[
    b"USER", b"AUTH", b"FEAT", b"SYST", b"HOST", b"CLNT", b"OPTS", b"QUIT", b"HELP", b"NOOP", b"ADAT",
    b"CSID",
];

/// Checks the first bytes of both directions.
pub(super) fn probe(opening: &Opening<'_>) -> Probe {
    let [originator, responder] =
        [(opening.originator, opening.ports[0]), (opening.responder, opening.ports[1])];
    let (server, client, port) = match (originator.0, responder.0) {
        ([], []) => return Probe::Unsure,
        ([b'0'..=b'9', ..], client) => (originator.0, client, originator.1),
        (client, server) => (server, client, responder.1),
    };
    let asks = command(client);
    if asks == Probe::NotForUs || !is_greeting(server) {
        return Probe::NotForUs;
    }
    // A greeting that names no protocol is enough on the FTP port, or with a typical command: its further
    // lines would come too late.
    let said = memchr(b'\n', server).is_some_and(|end| says(&server[..end]) == Says::Nothing);
    let is_known = memchr(b'\n', client).is_some() && !is_common(client);
    if asks == Probe::Certain || (said && is_known) || ((said || is_known) && PROTOCOL.ports.contains(&port))
    {
        return Probe::Certain;
    }
    greeting(server)
}

/// Whether the bytes begin with the code of a greeting, or with a part of it.
fn is_greeting(bytes: &[u8]) -> bool {
    let fits = [b"220", b"120", b"421"].iter().any(|code| Probe::of_word(bytes, *code) != Probe::NotForUs);
    fits && matches!(bytes.get(3), None | Some(b' ' | b'-' | b'\r'))
}

fn greeting(bytes: &[u8]) -> Probe {
    let is_line = memchr(b'\n', bytes).is_some();
    match says(bytes) {
        Says::Smtp => Probe::NotForUs,
        Says::Ftp if is_line => Probe::Certain,
        _ => Probe::Unsure,
    }
}

fn command(bytes: &[u8]) -> Probe {
    let word = &bytes[..bytes.len().min(5)];
    let is_of = |command: &[u8]| Probe::of_word_in_any_case(word, command) != Probe::NotForUs;
    if !COMMANDS.iter().any(|command| is_of(command)) {
        return Probe::NotForUs;
    }
    if !matches!(word.get(4), None | Some(b' ' | b'\r' | b'\n')) {
        return Probe::NotForUs;
    }
    let Some(end) = memchr(b'\n', bytes).filter(|_| is_of(b"AUTH")) else { return Probe::Unsure };
    // SMTP and POP3 have AUTH with other mechanisms.
    let argument = bytes[4..end].trim_ascii_start();
    let is_tls = argument.len() >= 3
        && [&b"TLS"[..], b"SSL"].iter().any(|name| argument[..3].eq_ignore_ascii_case(name));
    if is_tls { Probe::Certain } else { Probe::NotForUs }
}

/// Commands common to FTP and similar protocols.
fn is_common(client: &[u8]) -> bool {
    [&b"QUIT"[..], b"NOOP", b"HELP"]
        .iter()
        .any(|verb| client.len() >= 4 && client[..4].eq_ignore_ascii_case(verb))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(originator: &[u8], responder: &[u8], port: u16) -> Probe {
        super::probe(&Opening {
            originator,
            responder,
            ports: [40_000, port],
            is_datagram: false,
            ..Opening::default()
        })
    }

    #[test]
    fn a_greeting_that_says_so_is_enough() {
        assert_eq!(probe(b"", b"220 (vsFTPd 3.0.5)\r\n", 0), Probe::Certain);
        assert_eq!(probe(b"", b"220-Welcome\r\n220 ftp.example\r\n", 0), Probe::Certain);
        assert_eq!(probe(b"", b"220 ready\r\n", 0), Probe::Unsure);
        assert_eq!(probe(b"", b"220 ready\r\n", 21), Probe::Certain);
        assert_eq!(probe(b"", b"220 ready", 21), Probe::Unsure);
    }

    #[test]
    fn greeting_and_command_together_are_enough() {
        assert_eq!(probe(b"USER a\r\n", b"220 ready\r\n", 0), Probe::Certain);
        assert_eq!(probe(b"USER a\r\n", b"", 0), Probe::Unsure);
        assert_eq!(probe(b"USER a\r\n", b"", 21), Probe::Certain);
        assert_eq!(probe(b"AUTH TLS\r\n", b"", 0), Probe::Certain);
        assert_eq!(probe(b"QUIT\r\n", b"220 ready\r\n", 0), Probe::Unsure);
    }

    #[test]
    fn other_protocols_are_not_for_us() {
        assert_eq!(probe(b"", b"220 mx ESMTP\r\n", 0), Probe::NotForUs);
        assert_eq!(probe(b"EHLO x\r\n", b"220 ready\r\n", 0), Probe::NotForUs);
        assert_eq!(probe(b"USER a\r\n", b"+OK\r\n", 0), Probe::NotForUs);
        assert_eq!(probe(b"AUTH PLAIN\r\n", b"", 0), Probe::NotForUs);
        for bytes in [&b"GET / HTTP/1.1\r\n"[..], b"* OK\r\n", b"SSH-2.0-x", &[22, 3, 1], b"USERS"] {
            assert_eq!(probe(bytes, b"", 0), Probe::NotForUs, "{bytes:?}");
            assert_eq!(probe(b"", bytes, 0), Probe::NotForUs, "{bytes:?}");
        }
    }
}
