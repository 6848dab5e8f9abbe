//! Detects SMTP by a greeting that names SMTP, or a client's HELO. FTP's greeting has the same
//! code.

use super::PROTOCOL;
use crate::{Opening, Probe};
use memchr::{memchr, memmem};

/// Checks the first bytes of both directions.
pub(super) fn probe(opening: &Opening<'_>) -> Probe {
    let sides = [(opening.originator, opening.ports[0]), (opening.responder, opening.ports[1])];
    let mut found = Probe::Unsure;
    for (bytes, port) in sides {
        match side(bytes, port) {
            Probe::NotForUs => return Probe::NotForUs,
            Probe::Certain => found = Probe::Certain,
            Probe::Unsure => {}
        }
    }
    found
}

fn side(bytes: &[u8], port: u16) -> Probe {
    match bytes {
        [] => Probe::Unsure,
        [b'0'..=b'9', ..] => greeting(bytes, port),
        _ => command(bytes),
    }
}

fn greeting(bytes: &[u8], port: u16) -> Probe {
    let is_code = |code: &[u8]| bytes.len() >= code.len() || code.starts_with(bytes);
    let fits = [&b"220"[..], b"554", b"421"]
        .iter()
        .any(|code| is_code(code) && bytes.iter().zip(*code).all(|(byte, code)| byte == code));
    if !fits || !matches!(bytes.get(3), None | Some(b' ' | b'-' | b'\r')) {
        return Probe::NotForUs;
    }
    let Some(newline) = memchr(b'\n', bytes) else {
        return if says(bytes) == Says::Ftp { Probe::NotForUs } else { Probe::Unsure };
    };
    match (says(&bytes[..newline]), says(bytes)) {
        (Says::Nothing, _) if PROTOCOL.ports.contains(&port) => Probe::Certain,
        // On this port FTP's probe is certain after the first line, so later lines must not decide for SMTP.
        (Says::Nothing, _) if crate::ftp::PROTOCOL.ports.contains(&port) => Probe::Unsure,
        (_, Says::Nothing) => Probe::Unsure,
        (_, Says::Smtp) => Probe::Certain,
        (_, Says::Ftp) => Probe::NotForUs,
    }
}

/// The protocol that a greeting names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Says {
    Nothing,
    Smtp,
    Ftp,
}

/// The protocol named first in a greeting: in its own lines, because other protocols have the same codes, and
/// texts behind them (NNTP's `220 12 <id>` and an article).
pub(crate) fn says(greeting: &[u8]) -> Says {
    let upper = own_lines(&greeting[..greeting.len().min(1024)]).to_ascii_uppercase();
    let names = [(&b"SMTP"[..], Says::Smtp), (b"LMTP", Says::Smtp), (b"FTP", Says::Ftp)];
    let places =
        names.iter().filter_map(|(name, says)| Some((memmem::find(&upper, name)? + name.len(), *says)));
    places.min_by_key(|place| place.0).map_or(Says::Nothing, |place| place.1)
}

/// The lines of a reply (RFC 5321, section 4.2.1; RFC 959, section 4.2): those with its code, and any lines
/// between one that goes on and the last one.
fn own_lines(reply: &[u8]) -> &[u8] {
    let Some(code) = reply.get(..3) else { return reply };
    let (mut length, mut goes_on) = (0, false);
    for line in reply.split_inclusive(|byte| *byte == b'\n') {
        let mark = line.strip_prefix(code).map(|rest| rest.first());
        match mark {
            Some(None | Some(b' ' | b'-' | b'\r')) => goes_on = mark == Some(Some(&b'-')),
            _ if goes_on => {}
            _ => break,
        }
        length += line.len();
    }
    &reply[..length]
}

fn command(bytes: &[u8]) -> Probe {
    let word = &bytes[..bytes.len().min(16)];
    let end = word.iter().position(|byte| !byte.is_ascii_alphabetic());
    let upper = word[..end.unwrap_or(word.len())].to_ascii_uppercase();
    let verbs: [(&[u8], &[u8]); 8] = [
        (b"EHLO", b" \r"),
        (b"HELO", b" \r"),
        (b"LHLO", b" "),
        (b"MAIL", b" "),
        (b"RCPT", b" "),
        (b"STARTTLS", b"\r"),
        (b"NOOP", b"\r "),
        (b"QUIT", b"\r"),
    ];
    let verb = verbs.iter().find(|(verb, _)| verb.starts_with(&upper));
    match (verb, end) {
        (None, _) => Probe::NotForUs,
        (Some(_), None) if word.len() < 16 => Probe::Unsure,
        (Some((verb, behind)), Some(end)) if upper == *verb && behind.contains(&word[end]) => {
            // Other protocols have NOOP and QUIT, too.
            if matches!(*verb, b"NOOP" | b"QUIT" | b"STARTTLS") { Probe::Unsure } else { Probe::Certain }
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
    fn only_the_lines_of_a_greeting_name_the_protocol() {
        let article = b"220 12 <a@b> article\r\nReceived: from x by y with ESMTP\r\n\r\ntext\r\n";
        assert_eq!((says(article), probe(b"", article, 119)), (Says::Nothing, Probe::Unsure));
        for greeting in
            [&b"220-a\r\n220 b ESMTP\r\n"[..], b"220-a\r\nESMTP\r\n220 b\r\n", b"220 a\r\n220 ESMTP\r\n"]
        {
            assert_eq!(says(greeting), Says::Smtp);
        }
    }

    #[test]
    fn a_greeting_that_says_so_is_enough() {
        assert_eq!(probe(b"", b"220 mx.example ESMTP ready\r\n", 0), Probe::Certain);
        assert_eq!(probe(b"", b"220-mx.example\r\n220 esmtp\r\n", 0), Probe::Certain);
        assert_eq!(probe(b"", b"220 mx", 0), Probe::Unsure);
        assert_eq!(probe(b"", b"22", 0), Probe::Unsure);
        assert_eq!(probe(b"", b"220 welcome\r\n", 0), Probe::Unsure);
        assert_eq!(probe(b"", b"220 welcome\r\n", 25), Probe::Certain);
        assert_eq!(probe(b"EHLO x\r\n", b"220 welcome\r\n", 0), Probe::Certain);
    }

    #[test]
    fn a_client_alone_is_enough() {
        assert_eq!(probe(b"EHLO x", b"", 0), Probe::Certain);
        assert_eq!(probe(b"helo x\r\n", b"", 0), Probe::Certain);
        assert_eq!(probe(b"EH", b"", 0), Probe::Unsure);
        assert_eq!(probe(b"QUIT\r\n", b"220 welcome\r\n", 0), Probe::Unsure);
    }

    #[test]
    fn other_protocols_are_not_for_us() {
        assert_eq!(probe(b"", b"220 FTP server ready\r\n", 0), Probe::NotForUs);
        assert_eq!(probe(b"USER a\r\n", b"220 welcome\r\n", 0), Probe::NotForUs);
        for bytes in
            [&b"GET / HTTP/1.1\r\n"[..], b"+OK\r\n", b"* OK\r\n", b"SSH-2.0-x", &[22, 3, 1], b"HELOX"]
        {
            assert_eq!(probe(bytes, b"", 0), Probe::NotForUs, "{bytes:?}");
            assert_eq!(probe(b"", bytes, 0), Probe::NotForUs, "{bytes:?}");
        }
    }
}
