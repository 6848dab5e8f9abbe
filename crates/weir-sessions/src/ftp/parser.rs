//! [`FtpParser`]: turns lines of both directions into [`FtpExchange`]s.
//!
//! The side that sends replies, which begin with three digits, is the server. A reply answers the oldest
//! command; replies 100 to 199 are preliminary (RFC 959 §4.2.1).

use super::address::{DataChannel, Transport, read_extended, read_extended_port, read_host_port};
use super::exchange::{FtpExchange, PRELIMINARY_MAX};
use crate::line::{Lines, Replies, read_code, split_word, text};
use crate::pairing::Waiting;
use crate::{CutOff, Data, Direction, Progress, Session, SessionParser};
use weir_packet::Timestamp;

/// Maximum bytes kept of a line.
pub const LINE_BYTES_MAX: usize = 2048;
/// Maximum bytes kept of a preliminary reply.
const PRELIMINARY_BYTES_MAX: usize = 256;
/// Maximum number of unanswered commands.
pub const COMMANDS_MAX: usize = 64;

/// Parses the commands of one control connection.
#[derive(Debug, Default)]
pub struct FtpParser {
    client: Option<Direction>,
    lines: [Lines; 2],
    replies: Replies,
    waiting: Waiting<FtpExchange, COMMANDS_MAX>,
    user: Option<String>,
    has_password: bool,
    /// The server's greeting, or another reply, was seen.
    has_replies: bool,
    /// Bytes are missing since the client's last command.
    has_gap: bool,
    cut_off: CutOff,
}

impl SessionParser for FtpParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        let mut rest = data.bytes;
        while !rest.is_empty() {
            if self.begins_tls(data.from, rest) {
                // The reply to AUTH was not seen, and perhaps not AUTH itself.
                self.finish(sessions);
                return Progress::HandOver { rest_bytes: rest.len() };
            }
            let lines = &mut self.lines[data.from as usize];
            let Some(line) = lines.next(&mut rest, data.time, LINE_BYTES_MAX) else { break };
            self.cut_off.parts += u64::from(line.is_cut);
            let is_reply = read_code(&line.bytes).is_some();
            let client = *self.client.get_or_insert(if is_reply { data.from.other() } else { data.from });
            if data.from == client {
                self.take_command(&line.bytes, line.time, sessions);
            } else if self.take_reply(&line.bytes, line.time, sessions) {
                self.finish(sessions);
                return Progress::HandOver { rest_bytes: rest.len() };
            }
        }
        Progress::Wanted
    }

    fn gap(&mut self, from: Direction, length_bytes: u64, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if length_bytes == 0 {
            return Progress::Wanted;
        }
        self.has_gap = true;
        self.lines[from as usize].lose();
        if self.client != Some(from) {
            // It is unknown which commands were answered in the gap.
            self.replies.lose();
            self.yield_waiting(sessions);
        }
        Progress::Wanted
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        self.yield_waiting(sessions);
        *self = Self { cut_off: self.cut_off(), ..Self::default() };
    }

    fn cut_off(&self) -> CutOff {
        CutOff { sessions: self.cut_off.sessions + self.waiting.evicted(), ..self.cut_off }
    }
}

impl FtpParser {
    /// Whether the client begins TLS instead of a command: a handshake record (RFC 8446 §5.1) after AUTH, or
    /// after a gap that may contain AUTH.
    fn begins_tls(&self, from: Direction, rest: &[u8]) -> bool {
        let is_asked = self.waiting.newest().is_some_and(|last| last.command.as_deref() == Some("AUTH"));
        rest[0] == 22
            && self.client == Some(from)
            && self.lines[from as usize].is_between()
            && (is_asked || self.has_gap)
    }

    /// Takes a line of the client. A line that is not text becomes an exchange without command, since the
    /// server may answer it.
    fn take_command(&mut self, line: &[u8], time: Timestamp, sessions: &mut Vec<Box<dyn Session>>) {
        let line = without_signals(line);
        let start = line.iter().position(u8::is_ascii_alphabetic).unwrap_or(line.len());
        let (verb, argument) = split_word(&line[start..]);
        if !is_text(line) || !verb.iter().all(u8::is_ascii_graphic) {
            let exchange = self.exchange(time);
            return self.wait(exchange, sessions);
        }
        if verb.is_empty() {
            return;
        }
        self.has_gap = false;
        let command = text(verb, 16).to_ascii_uppercase();
        let is_secret = matches!(&*command, "PASS" | "ADAT" | "ACCT");
        match &*command {
            "USER" => {
                self.user = Some(text(argument, 256));
                self.has_password = false;
            }
            "PASS" => self.has_password = true,
            "REIN" => (self.user, self.has_password) = (None, false),
            _ => {}
        }
        let argument_text = if is_secret { "<hidden>".to_owned() } else { text(argument, LINE_BYTES_MAX) };
        let active = match &*command {
            "PORT" => read_host_port(argument),
            "EPRT" => read_extended(argument),
            _ => None,
        };
        let exchange = FtpExchange {
            command: Some(command),
            argument: (!argument.is_empty()).then_some(argument_text),
            data_channel: active.map(|(address, port)| DataChannel {
                transport: Transport::Active,
                address: Some(address),
                port,
            }),
            ..self.exchange(time)
        };
        self.wait(exchange, sessions);
    }

    fn wait(&mut self, exchange: FtpExchange, sessions: &mut Vec<Box<dyn Session>>) {
        self.waiting.push(exchange, |oldest| {
            if oldest.command.is_some() {
                sessions.push(Box::new(oldest));
            }
        });
    }

    /// Takes a line of the server; returns whether TLS follows.
    fn take_reply(&mut self, line: &[u8], time: Timestamp, sessions: &mut Vec<Box<dyn Session>>) -> bool {
        let Some(reply) = self.replies.read(line) else {
            // An invalid code (`99 …`) also answers a command.
            if line.first().is_some_and(u8::is_ascii_digit)
                && let Some(mut exchange) = self.waiting.take_oldest()
            {
                exchange.reply_text = Some(text(line.trim_ascii(), LINE_BYTES_MAX));
                sessions.push(Box::new(exchange));
            }
            return false;
        };
        if !reply.is_last {
            return false;
        }
        let is_greeting = !std::mem::replace(&mut self.has_replies, true) && reply.code == 220;
        if reply.code < 200 {
            if let Some(first) = self.waiting.oldest_mut() {
                first.file_bytes = first.file_bytes.or(read_size(reply.text));
                if first.preliminary.len() < PRELIMINARY_MAX {
                    let said = text(reply.text.trim_ascii(), PRELIMINARY_BYTES_MAX);
                    first.preliminary.push((reply.code, said));
                } else {
                    self.cut_off.parts += 1;
                }
            }
            return false;
        }
        let is_renewal = |oldest: &FtpExchange| oldest.command.as_deref() == Some("REIN");
        if is_greeting && !self.waiting.oldest().is_some_and(is_renewal) {
            // If commands wait, the client did not wait for the greeting, or its bytes were delivered first.
            return false;
        }
        let mut exchange = self.waiting.take_oldest().unwrap_or_else(|| self.exchange(time));
        let passive = match reply.code {
            227 => read_host_port(reply.text).map(|(address, port)| (Some(address), port)),
            229 => read_extended_port(reply.text).map(|port| (None, port)),
            _ => None,
        };
        if let Some((address, port)) = passive {
            exchange.data_channel = Some(DataChannel { transport: Transport::Passive, address, port });
        }
        if reply.code == 213 && exchange.command.as_deref() == Some("SIZE") {
            exchange.file_bytes =
                std::str::from_utf8(reply.text.trim_ascii()).ok().and_then(|n| n.parse().ok());
        }
        exchange.reply_code = Some(reply.code);
        exchange.reply_text = Some(text(reply.text.trim_ascii(), LINE_BYTES_MAX));
        // Only AUTH has this reply: if the command is missing, it was AUTH, most likely for TLS.
        let is_tls = reply.code == 234
            && match exchange.command.as_deref() {
                Some("AUTH") => exchange.argument.as_deref().is_some_and(is_tls),
                command => command.is_none(),
            };
        if exchange.command.is_some() {
            exchange.wait_ns = u64::try_from(time.0.saturating_sub(exchange.time.0)).ok();
        }
        sessions.push(Box::new(exchange));
        is_tls
    }

    /// A new exchange with the current user.
    fn exchange(&self, time: Timestamp) -> FtpExchange {
        FtpExchange {
            time,
            client: self.client.unwrap_or(Direction::Originator),
            user: self.user.clone(),
            has_password: self.has_password,
            command: None,
            argument: None,
            file_bytes: None,
            reply_code: None,
            reply_text: None,
            preliminary: vec![],
            data_channel: None,
            wait_ns: None,
        }
    }

    fn yield_waiting(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        let known = self.waiting.take_all().filter(|exchange| exchange.command.is_some());
        sessions.extend(known.map(|exchange| Box::new(exchange) as Box<dyn Session>));
    }
}

/// Strips Telnet commands, which may precede ABOR and others (RFC 854; RFC 959 §4.1.3).
fn without_signals(mut line: &[u8]) -> &[u8] {
    const IAC: u8 = 0xff;
    loop {
        line = match line {
            // Option negotiations have one more byte, the option.
            [IAC, 0xfb..=0xfe, _, rest @ ..] | [IAC, 0xf0..=0xfa, rest @ ..] => rest,
            _ => return line,
        };
    }
}

/// Whether a line is text: no control characters except white space and backspace.
fn is_text(line: &[u8]) -> bool {
    !line.iter().any(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace() && *byte != 8)
}

/// Mechanisms that start TLS (RFC 4217 §2).
fn is_tls(mechanism: &str) -> bool {
    ["TLS", "TLS-C", "TLS-P", "SSL"].iter().any(|name| mechanism.eq_ignore_ascii_case(name))
}

/// The size in a reply such as `Opening BINARY mode data connection for a (39 bytes).`
fn read_size(reply: &[u8]) -> Option<u64> {
    let reply = std::str::from_utf8(reply).ok()?;
    let before = &reply[..reply.find(" bytes")?];
    let digits = before.rfind(|letter: char| !letter.is_ascii_digit()).map_or(before, |at| &before[at + 1..]);
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use crate::conversation::rows;
    use crate::ftp::PROTOCOL;

    const NAMES: &[&str] = &["command", "arg", "reply_code"];
    const HELLO: &str = "> 160301000a \"USER a\\r\\n\"\n";

    #[test]
    fn tls_is_handed_over_where_auth_or_its_reply_is_missing() {
        let (greeting, auth, go) = ("< \"220 a\\r\\n\"\n", "> \"AUTH TLS\\r\\n\"\n", "< \"234 b\\r\\n\"\n");
        for (talk, expected) in [
            (format!("{greeting}{auth}{go}{HELLO}"), &["AUTH | TLS | 234", "over to 14"][..]),
            (format!("{greeting}> gap 10\n{go}{HELLO}"), &["- | - | 234", "over to 14"]),
            (format!("{auth}< gap 7\n{go}{HELLO}"), &["AUTH | TLS | -", "- | - | 234", "over to 14"]),
            (format!("{greeting}{auth}< gap 7\n{HELLO}"), &["AUTH | TLS | -", "over to 10"]),
            (format!("{greeting}> gap 10\n< gap 7\n{HELLO}"), &["over to 10"]),
        ] {
            assert_eq!(rows(&PROTOCOL, &talk, NAMES), expected, "{talk}");
        }
    }

    #[test]
    fn preliminary_replies_are_listed() {
        let talk = "< \"220 a\\r\\n\"\n> \"RETR f\\r\\n\"\n< \"150 Opening (9 bytes)\\r\\n\"\n< \"110-MARK 1\\r\\n110 end\\r\\n\"\n";
        let names = [NAMES, &["preliminary", "file_size"]].concat();
        for (end, code) in [("", "-"), ("< \"226 done\\r\\n\"\n", "226")] {
            let expected = format!("RETR | f | {code} | 150 Opening (9 bytes),110 end | 9");
            assert_eq!(rows(&PROTOCOL, &format!("{talk}{end}"), &names), [expected]);
        }
    }

    #[test]
    fn what_is_no_text_is_no_command_and_ends_nothing() {
        let (greeting, file) = ("< \"220 a\\r\\n\"\n", "> \"RETR f\\r\\n\"\n< \"226 b\\r\\n\"\n");
        let refused = "< \"500 c\\r\\n\"\n";
        for (line, row) in [
            ("fff4 fff2 \"abor\\r\\n\"", "ABOR | - | 500"),
            ("fffd06 \"NOOP\\r\\n\"", "NOOP | - | 500"),
            ("0808 \"NOOP\\r\\n\"", "NOOP | - | 500"),
            ("efbbbf \"STOR g\\r\\n\"", "STOR | g | 500"),
            ("\"-X-FOO x\\r\\n\"", "X-FOO | x | 500"),
            ("\"LIST; x\\r\\n\"", "LIST; | x | 500"),
            ("\"XMD5 g\\r\\n\"", "XMD5 | g | 500"),
            ("16 \"\\r\\n\"", "- | - | 500"),
            ("1703030019 \"a\\r\\n\"", "- | - | 500"),
        ] {
            let talk = format!("{greeting}> {line}\n{refused}{file}");
            assert_eq!(rows(&PROTOCOL, &talk, NAMES), [row, "RETR | f | 226"], "{line}");
        }
        let enciphered = format!("{greeting}> 1703030019 \"a\\r\\n\" 1703030019 \"F\\r\\n\"\n");
        assert_eq!(rows(&PROTOCOL, &enciphered, NAMES), [""; 0], "nobody answers it in clear");
    }
}
