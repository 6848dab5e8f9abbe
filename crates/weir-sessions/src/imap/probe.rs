//! Detects IMAP: the server's `* OK`, or a client's command after a tag.

use super::PROTOCOL;
use crate::{Opening, Probe};
use memchr::memchr;

/// Maximum length of a tag.
const TAG_BYTES_MAX: usize = 32;

/// Commands that are enough on any port.
const TELLING: &[&[u8]] = &[b"CAPABILITY", b"LOGIN", b"AUTHENTICATE", b"STARTTLS", b"EXAMINE", b"NAMESPACE"];

/// SMTP and POP3 commands that look like tags before these: `AUTH LOGIN`, `HELP STARTTLS`.
const OF_OTHERS: &[&[u8]] = &[b"AUTH", b"HELP"];

/// Checks the first bytes of both directions.
pub(super) fn probe(opening: &Opening<'_>) -> Probe {
    let [originator, responder] =
        [(opening.originator, opening.ports[0]), (opening.responder, opening.ports[1])];
    let (server, client, port) = match (originator.0, responder.0) {
        ([], []) => return Probe::Unsure,
        ([b'*', ..], client) => (originator.0, client, originator.1),
        (client, server) => (server, client, responder.1),
    };
    match (greeting(server), command(client, port)) {
        (Probe::NotForUs, _) | (_, Probe::NotForUs) => Probe::NotForUs,
        (Probe::Certain, _) | (_, Probe::Certain) => Probe::Certain,
        _ => Probe::Unsure,
    }
}

fn greeting(bytes: &[u8]) -> Probe {
    for word in [&b"* OK"[..], b"* PREAUTH", b"* BYE"] {
        let known = bytes.len().min(word.len());
        if bytes[..known].eq_ignore_ascii_case(&word[..known]) {
            return match bytes.get(word.len()) {
                None => Probe::Unsure,
                Some(b' ' | b'\r' | b'\n') => Probe::Certain,
                Some(_) => Probe::NotForUs,
            };
        }
    }
    Probe::NotForUs
}

fn command(bytes: &[u8], port: u16) -> Probe {
    let start = &bytes[..bytes.len().min(TAG_BYTES_MAX + 1)];
    let space = memchr(b' ', start);
    let tag = &start[..space.unwrap_or(start.len())];
    let is_tag = tag.len() <= TAG_BYTES_MAX
        && tag.iter().all(|byte| byte.is_ascii_alphanumeric() || b".-_:".contains(byte));
    let Some(space) = space.filter(|space| is_tag && *space > 0) else {
        return if is_tag && space.is_none() { Probe::Unsure } else { Probe::NotForUs };
    };
    let rest = &bytes[space + 1..];
    let verb = &rest[..rest.len().min(16)];
    let end = verb.iter().position(|byte| !byte.is_ascii_alphabetic());
    let upper = verb[..end.unwrap_or(verb.len())].to_ascii_uppercase();
    let is_verb = |verb: &&&str| verb.as_bytes() == upper;
    match end {
        None if verb.len() < 16 && super::parser::VERBS.iter().any(|v| v.as_bytes().starts_with(&upper)) => {
            Probe::Unsure
        }
        Some(end)
            if matches!(verb[end], b' ' | b'\r' | b'\n')
                && super::parser::VERBS.iter().any(|v| is_verb(&v)) =>
        {
            let is_others = OF_OTHERS.iter().any(|command| tag.eq_ignore_ascii_case(command));
            let tells = TELLING.contains(&&*upper) && !is_others;
            if PROTOCOL.ports.contains(&port) || tells { Probe::Certain } else { Probe::Unsure }
        }
        _ => Probe::NotForUs,
    }
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
    fn what_other_protocols_say_is_told_by_the_answer() {
        assert_eq!(probe(b"AUTH LOGIN\r\n", b"", 110), Probe::Unsure);
        assert_eq!(probe(b"a1 LOGIN me\r\n", b"", 110), Probe::Certain);
        assert_eq!(probe(b"AUTH LOGIN me\r\n", b"", 143), Probe::Certain);
    }

    #[test]
    fn the_servers_greeting_is_enough() {
        assert_eq!(probe(b"", b"* OK ready\r\n", 0), Probe::Certain);
        assert_eq!(probe(b"* PREAUTH x\r\n", b"", 0), Probe::Certain);
        assert_eq!(probe(b"", b"* O", 0), Probe::Unsure);
    }

    #[test]
    fn a_clients_command_may_be() {
        assert_eq!(probe(b"a001 CAPABILITY\r\n", b"", 0), Probe::Certain);
        assert_eq!(probe(b"1 login a b\r\n", b"", 0), Probe::Certain);
        assert_eq!(probe(b"a1 NOOP\r\n", b"", 0), Probe::Unsure);
        assert_eq!(probe(b"a1 NOOP\r\n", b"", 143), Probe::Certain);
        assert_eq!(probe(b"a1 CAPA", b"", 143), Probe::Unsure);
        assert_eq!(probe(b"a1", b"", 143), Probe::Unsure);
    }

    #[test]
    fn other_protocols_are_not_for_us() {
        for bytes in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"220 mx\r\n",
            b"+OK\r\n",
            b"SSH-2.0-x\r\n",
            &[22, 3, 1],
            b"EHLO x\r\n",
            b"USER a\r\n",
            b"*1\r\n$4\r\n",
        ] {
            assert_eq!(probe(bytes, b"", 143), Probe::NotForUs, "{bytes:?}");
            assert_eq!(probe(b"", bytes, 143), Probe::NotForUs, "{bytes:?}");
        }
    }
}
