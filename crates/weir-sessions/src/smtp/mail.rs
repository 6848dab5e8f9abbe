//! The mail (RFC 5322): the header fields that are kept, and the mail's end (RFC 5321 §4.5.2).
//!
//! The body is not kept; `parts` examines its contents.

use super::parts::Parts;
use crate::Contents;
use crate::line::{Lines, UntilDot, text};
use memchr::memchr;
use std::net::IpAddr;
use weir_packet::Timestamp;

/// Maximum number of bytes kept of a header field, folded lines included.
pub const FIELD_BYTES_MAX: usize = 4096;
/// Maximum number of addresses of a list.
pub const ADDRESSES_MAX: usize = 256;
/// Maximum number of header bytes read of a mail.
pub const HEADER_BYTES_MAX: u64 = 256 * 1024;

/// Header fields of a mail, each at most [`FIELD_BYTES_MAX`] bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MailHeader {
    /// Date.
    pub date: Option<String>,
    /// From, unparsed.
    pub from: Option<String>,
    /// Addresses of To.
    pub to: Vec<String>,
    /// Addresses of Cc.
    pub cc: Vec<String>,
    /// Reply-To.
    pub reply_to: Option<String>,
    /// Message-ID.
    pub message_id: Option<String>,
    /// In-Reply-To.
    pub in_reply_to: Option<String>,
    /// Subject; encoded words (RFC 2047) are left as they are.
    pub subject: Option<String>,
    /// X-Originating-IP.
    pub x_originating_ip: Option<IpAddr>,
    /// The last Received field, added by the first relay.
    pub first_received: Option<String>,
    /// The last Received field but one.
    pub second_received: Option<String>,
    /// Bracketed addresses in the Received fields, in order.
    pub path: Vec<String>,
    /// User-Agent or X-Mailer.
    pub user_agent: Option<String>,
    /// Content-Type.
    pub content_type: Option<String>,
    /// Number of values that were dropped or truncated.
    pub(super) parts_cut: u64,
}

impl MailHeader {
    fn take(&mut self, name: &[u8], value: &[u8]) {
        let value = text(value.trim_ascii(), FIELD_BYTES_MAX);
        match name.to_ascii_lowercase().as_slice() {
            b"date" => self.date = Some(value),
            b"from" => self.from = Some(value),
            b"to" => self.parts_cut += push_addresses(&mut self.to, &value),
            b"cc" => self.parts_cut += push_addresses(&mut self.cc, &value),
            b"reply-to" => self.reply_to = Some(value),
            b"message-id" => self.message_id = Some(value),
            b"in-reply-to" => self.in_reply_to = Some(value),
            b"subject" => self.subject = Some(value),
            b"user-agent" | b"x-mailer" => self.user_agent = Some(value),
            b"content-type" => self.content_type = Some(value),
            b"x-originating-ip" => {
                self.x_originating_ip = value.trim_matches(['[', ']', ' ']).parse().ok();
            }
            b"received" => {
                let addresses = value.split('[').skip(1).filter_map(|rest| rest.split(']').next());
                for address in addresses.filter(|address| is_address(address)) {
                    if self.path.len() < ADDRESSES_MAX {
                        self.path.push(address.trim_start_matches("IPv6:").to_owned());
                    } else {
                        self.parts_cut += 1;
                    }
                }
                self.second_received = self.first_received.replace(value);
            }
            _ => {}
        }
    }
}

fn is_address(text: &str) -> bool {
    text.trim_start_matches("IPv6:").parse::<IpAddr>().is_ok()
}

/// Adds the addresses of a list (RFC 5322 §3.4): the text in angle brackets, otherwise the word with an `@`.
/// Returns how many did not fit.
fn push_addresses(list: &mut Vec<String>, value: &str) -> u64 {
    let mut cut = 0;
    let mut is_quoted = false;
    let is_end = |letter: char| {
        is_quoted ^= letter == '"';
        !is_quoted && matches!(letter, ',' | ';' | ':')
    };
    for part in value.split(is_end) {
        let address = match part.rsplit_once('<') {
            Some((_, rest)) => rest.split('>').next().unwrap_or(rest),
            None => part.split_ascii_whitespace().find(|word| word.contains('@')).unwrap_or_default(),
        };
        if address.is_empty() {
            continue;
        }
        if list.len() < ADDRESSES_MAX { list.push(address.trim().to_owned()) } else { cut += 1 }
    }
    cut
}

/// Parses one mail.
#[derive(Debug, Default)]
pub(super) struct Mail {
    pub(super) header: MailHeader,
    /// Length of header and body, bytes, including the final dot line.
    pub(super) length_bytes: u64,
    lines: Lines,
    /// Name and value of the current header field, which the next line may continue.
    field: Option<(Vec<u8>, Vec<u8>)>,
    /// Header bytes so far.
    header_bytes: u64,
    is_body: bool,
    end: UntilDot,
    pub(super) parts: Parts,
}

impl Mail {
    /// A mail, the contents of whose parts are passed on.
    pub(super) fn new(contents: &Contents) -> Self {
        Self { parts: Parts::new(contents), ..Self::default() }
    }

    /// Takes bytes up to the final dot line. Returns whether it was found.
    pub(super) fn take_until_dot(&mut self, bytes: &mut &[u8], time: Timestamp) -> bool {
        let before = bytes.len();
        while !self.is_body {
            if bytes.is_empty() {
                self.length_bytes += before as u64;
                return false;
            }
            let Some(line) = self.lines.next(bytes, Timestamp(0), FIELD_BYTES_MAX) else { continue };
            if line.bytes[..] == *b"." {
                self.end_field();
                self.length_bytes += (before - bytes.len()) as u64;
                return true;
            }
            self.take_line(&line.bytes, line.is_cut, (time, true));
        }
        let body = *bytes;
        let is_end = self.end.skip(bytes);
        self.parts.take(&body[..body.len() - bytes.len()], time, true);
        self.length_bytes += (before - bytes.len()) as u64;
        is_end
    }

    /// Takes bytes of a chunk (RFC 3030), which has no dot line.
    pub(super) fn take_chunk(&mut self, mut bytes: &[u8], time: Timestamp) {
        self.length_bytes += bytes.len() as u64;
        while !self.is_body {
            match self.lines.next(&mut bytes, Timestamp(0), FIELD_BYTES_MAX) {
                Some(line) => self.take_line(&line.bytes, line.is_cut, (time, false)),
                None => return,
            }
        }
        self.parts.take(bytes, time, false);
    }

    /// Handles a loss: all following bytes count as body.
    pub(super) fn lose(&mut self, length_bytes: u64) {
        self.end_field();
        self.lines.lose();
        if !std::mem::replace(&mut self.is_body, true) {
            self.parts.end_header();
        }
        self.parts.lose(length_bytes);
        self.end.lose();
        self.length_bytes = self.length_bytes.saturating_add(length_bytes);
    }

    /// Completes the current header field.
    pub(super) fn end_field(&mut self) {
        if let Some((name, value)) = self.field.take() {
            self.header.take(&name, &value);
            self.parts.take_field(&name, &value);
        }
    }

    fn take_line(&mut self, line: &[u8], is_cut: bool, (time, is_stuffed): (Timestamp, bool)) {
        self.header.parts_cut += u64::from(is_cut);
        self.header_bytes += line.len() as u64 + 1;
        if let [b' ' | b'\t', ..] = line
            && let Some((_, value)) = &mut self.field
        {
            let room = FIELD_BYTES_MAX - value.len().min(FIELD_BYTES_MAX);
            let more = line.trim_ascii();
            self.header.parts_cut += u64::from(more.len() + 1 > room);
            if room > 0 {
                value.push(b' ');
                value.extend_from_slice(&more[..more.len().min(room - 1)]);
            }
            return;
        }
        self.end_field();
        let colon = memchr(b':', line).filter(|colon| line[..*colon].iter().all(u8::is_ascii_graphic));
        match colon {
            Some(colon) if colon > 0 && self.header_bytes < HEADER_BYTES_MAX => {
                self.field = Some((line[..colon].to_vec(), line[colon + 1..].trim_ascii().to_vec()));
            }
            // An empty line ends the header, as does a line that is no header field.
            _ => {
                self.is_body = true;
                self.end = UntilDot::default();
                self.parts.end_header();
                if !line.is_empty() {
                    self.parts.take(&[line, b"\r\n"].concat(), time, is_stuffed);
                }
            }
        }
    }
}
