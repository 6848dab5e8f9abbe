//! Detects POP3. A server's `+OK` with text identifies it, unless the client has sent anything but a POP3
//! command. A bare `+OK` is also Redis's most frequent reply, so it needs a client's POP3 command as well.

use super::PROTOCOL;
use crate::{Opening, Probe};

/// Commands that a client may send first.
const COMMANDS: &[&[u8]] = &[b"USER", b"CAPA", b"STLS", b"AUTH", b"APOP", b"QUIT", b"NOOP", b"UTF8", b"LANG"];

/// Looks at the first bytes of both directions.
pub(super) fn probe(opening: &Opening<'_>) -> Probe {
    let [originator, responder] =
        [(opening.originator, opening.ports[0]), (opening.responder, opening.ports[1])];
    let (server, client, port) = match (originator.0, responder.0) {
        ([], []) => return Probe::Unsure,
        ([b'+' | b'-', ..], client) => (originator.0, client, originator.1),
        (client, server) => (server, client, responder.1),
    };
    match (greeting(server), command(client)) {
        (Probe::NotForUs, _) | (_, Probe::NotForUs) => Probe::NotForUs,
        (Probe::Certain, _) => Probe::Certain,
        (_, Probe::Certain) if PROTOCOL.ports.contains(&port) || (is_bare(server) && !is_common(client)) => {
            Probe::Certain
        }
        _ if PROTOCOL.ports.contains(&port) && is_bare(server) => Probe::Certain,
        _ => Probe::Unsure,
    }
}

/// A greeting with text is certain for `+OK` only. Redis also sends a bare `+OK`, and `-ERR`.
fn greeting(bytes: &[u8]) -> Probe {
    for (word, meaning) in [(&b"+OK"[..], Probe::Certain), (b"-ERR", Probe::Unsure)] {
        if Probe::of_word(bytes, word) != Probe::NotForUs {
            return match bytes.get(word.len()..).unwrap_or_default() {
                [] | [b' '] | [b' ', b'\r' | b'\n', ..] | [b'\r' | b'\n', ..] => Probe::Unsure,
                [b' ', ..] => meaning,
                _ => Probe::NotForUs,
            };
        }
    }
    Probe::NotForUs
}

/// Whether the server sent `+OK` without text.
fn is_bare(server: &[u8]) -> bool {
    matches!(server, [b'+', b'O', b'K', b' ' | b'\r' | b'\n', ..])
}

/// Whether the command is one that Redis also has.
fn is_common(client: &[u8]) -> bool {
    [&b"AUTH"[..], b"QUIT"].iter().any(|verb| Probe::of_word_in_any_case(client, verb) == Probe::Certain)
}

/// Certain for a complete line with a POP3 command, which another protocol may have, too.
fn command(bytes: &[u8]) -> Probe {
    let is_of = |command: &&[u8]| Probe::of_word_in_any_case(bytes, command) != Probe::NotForUs;
    match bytes.get(4) {
        _ if !COMMANDS.iter().any(is_of) => Probe::NotForUs,
        None => Probe::Unsure,
        Some(b' ' | b'\r' | b'\n') => match memchr::memchr(b'\n', bytes) {
            None => Probe::Unsure,
            Some(end) if is_tls(&bytes[..end]) => Probe::NotForUs,
            Some(_) => Probe::Certain,
        },
        Some(_) => Probe::NotForUs,
    }
}

/// AUTH with TLS or SSL is FTP (RFC 4217); POP3 does not have it.
fn is_tls(line: &[u8]) -> bool {
    let argument = line[4..].trim_ascii();
    Probe::of_word_in_any_case(line, b"AUTH") == Probe::Certain
        && [&b"TLS"[..], b"SSL"]
            .iter()
            .any(|name| Probe::of_word_in_any_case(argument, name) == Probe::Certain)
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
    fn the_servers_greeting_is_enough() {
        assert_eq!(probe(b"", b"+OK ready\r\n", 0), Probe::Certain);
        assert_eq!(probe(b"", b"+O", 0), Probe::Unsure);
        assert_eq!(probe(b"USER a\r\n", b"", 0), Probe::Unsure);
        assert_eq!(probe(b"USER a\r\n", b"", 110), Probe::Certain);
        assert_eq!(probe(b"CAPA\r\n", b"+OK\r\n", 0), Probe::Certain);
    }

    #[test]
    fn a_bare_ok_is_not() {
        for server in [&b"+OK\r\n"[..], b"+OK \r\n", b"+OK\n"] {
            assert_eq!(probe(b"", server, 0), Probe::Unsure);
            assert_eq!(probe(server, b"", 0), Probe::Unsure);
            assert_eq!(probe(server, b"USER a\r\n", 0), Probe::Certain);
            assert_eq!(probe(b"", server, 110), Probe::Certain);
            // Redis has these, too.
            assert_eq!(probe(b"AUTH a\r\n", server, 0), Probe::Unsure);
            assert_eq!(probe(server, b"*1\r\n$4\r\nPING\r\n", 0), Probe::NotForUs);
        }
    }

    #[test]
    fn other_protocols_are_not_for_us() {
        // Redis sends this reply, but its client speaks first.
        assert_eq!(probe(b"*1\r\n$4\r\nPING\r\n", b"+OK\r\n", 0), Probe::NotForUs);
        assert_eq!(probe(b"USER a\r\n", b"220 ftp\r\n", 0), Probe::NotForUs);
        assert_eq!(probe(b"AUTH TLS\r\n", b"", 110), Probe::NotForUs);
        for bytes in [&b"GET / HTTP/1.1\r\n"[..], b"* OK\r\n", b"SSH-2.0-x", &[22, 3, 1], b"+OKAY", b"EHLO x"]
        {
            assert_eq!(probe(bytes, b"", 110), Probe::NotForUs, "{bytes:?}");
            assert_eq!(probe(b"", bytes, 110), Probe::NotForUs, "{bytes:?}");
        }
    }
}
