//! Lines as messages of syslog (RFC 5424): [`Syslog`] is a writer behind a sink of lines, such as that of
//! JSON.

use crate::carrier::{Carrier, Protocol};
use crate::message::Message;
use chrono::{DateTime, SecondsFormat, Utc};
use std::io::{self, Write};
use std::time::SystemTime;

/// Facility local0, severity informational (RFC 5424, section 6.2.1): `16 * 8 + 6`.
const PRIORITY: u8 = 134;

/// How the end of a message is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// A datagram is a message (RFC 5426).
    Datagram,
    /// The length precedes the message (RFC 6587, section 3.4.1).
    OctetCounting,
}

/// Sends each line that is written as a message.
pub struct Syslog {
    carrier: Box<dyn Carrier>,
    framing: Framing,
    /// HOSTNAME, APP-NAME, PROCID, MSGID and STRUCTURED-DATA.
    header: String,
    /// The line so far.
    line: Vec<u8>,
}

impl std::fmt::Debug for Syslog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Syslog").field("header", &self.header).finish_non_exhaustive()
    }
}

impl Syslog {
    /// Messages from `host`, with the name of a log as MSGID.
    pub fn new(carrier: Box<dyn Carrier>, framing: Framing, host: &str, log: &str) -> Self {
        let process = std::process::id();
        let header = format!("{} weir {process} {} -", word(host, 255), word(log, 32));
        Self { carrier, framing, header, line: vec![] }
    }

    /// Sends the line, without its end.
    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let time = DateTime::<Utc>::from(SystemTime::now()).to_rfc3339_opts(SecondsFormat::Micros, true);
        let mut message = format!("<{PRIORITY}>1 {time} {} ", self.header).into_bytes();
        message.extend_from_slice(&line);
        let framed = match self.framing {
            Framing::Datagram => message,
            Framing::OctetCounting => [format!("{} ", message.len()).as_bytes(), &message].concat(),
        };
        self.carrier.send(1, framed);
        self.line = line;
        self.line.clear();
    }
}

impl Write for Syslog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&rest[..end]);
            self.end_line();
            rest = &rest[end + 1..];
        }
        self.line.extend_from_slice(rest);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Syslog {
    /// The sink before this writer has ended.
    fn drop(&mut self) {
        self.carrier.end();
    }
}

/// A field of the header: printable ASCII, of limited length; `-` if there is none (RFC 5424, section 6).
fn word(text: &str, length: usize) -> String {
    let printable = text.chars().filter(char::is_ascii_graphic).take(length).collect::<String>();
    if printable.is_empty() { "-".to_string() } else { printable }
}

/// Messages are complete: nothing is added to them.
#[derive(Debug)]
struct Plain;

/// What syslog adds to messages on the way: nothing.
pub fn stream() -> Box<dyn Protocol> {
    Box::new(Plain)
}

impl Protocol for Plain {
    fn begin(&mut self) {}

    fn announce(&mut self, _: &[u8], _: SystemTime, _: &mut Vec<u8>) {}

    fn frame(&mut self, message: &Message, _: SystemTime, out: &mut Vec<u8>) {
        out.extend_from_slice(&message.bytes);
    }

    fn report(&mut self, _: u64, _: SystemTime, _: &mut Vec<u8>) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Keeps what it carries.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<String>>>);

    impl Carrier for Kept {
        fn send(&mut self, rows: u32, bytes: Vec<u8>) {
            assert_eq!(rows, 1);
            self.0.lock().unwrap().push(String::from_utf8(bytes).unwrap());
        }

        fn end(&mut self) {
            self.0.lock().unwrap().push("end".to_string());
        }
    }

    fn messages(framing: Framing, pieces: &[&str]) -> Vec<String> {
        let kept = Kept::default();
        let mut syslog = Syslog::new(Box::new(kept.clone()), framing, "ho st\u{7f}", "");
        pieces.iter().for_each(|piece| syslog.write_all(piece.as_bytes()).unwrap());
        drop(syslog);
        let kept = kept.0.lock().unwrap();
        kept.clone()
    }

    #[test]
    fn each_line_is_a_message_however_it_is_written() {
        for pieces in [&["{1}\n{22}\n"][..], &["{", "1", "}\n{22}", "\n"]] {
            let said = messages(Framing::Datagram, pieces);
            assert_eq!((said.len(), said[2].as_str()), (3, "end"));
            for (message, line) in said.iter().zip(["{1}", "{22}"]) {
                let fields: Vec<&str> = message.split(' ').collect();
                let process = std::process::id().to_string();
                assert_eq!(fields[0], "<134>1");
                assert!(
                    fields[1].ends_with('Z') && fields[1].len() == "2026-11-26T07:00:00.123456Z".len(),
                    "{message}"
                );
                assert_eq!(fields[2..], ["host", "weir", &process, "-", "-", line]);
            }
        }
    }

    #[test]
    fn octet_counting_counts_the_message() {
        let said = messages(Framing::OctetCounting, &["{\"é\":1}\n"]);
        let (length, message) = said[0].split_once(' ').unwrap();
        assert_eq!(length.parse(), Ok(message.len()));
        assert!(message.starts_with("<134>1 ") && message.ends_with("{\"é\":1}"), "{message}");
    }
}
