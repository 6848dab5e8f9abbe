//! The unencrypted part of a Kerberos [`Message`] (RFC 4120 §5.4 to §5.9, ASN.1 module in appendix A).

use crate::der::{BITS, Elements, GENERAL_STRING, GENERALIZED_TIME, INTEGER, OCTETS, SEQUENCE, integer};
use crate::line::text;
use crate::pairing::Held;
use weir_packet::Timestamp;

/// Maximum bytes kept of a name or a text.
const TEXT_BYTES_MAX: usize = 256;

/// Maximum number of name components, ciphers, and pre-authentication types kept per message.
const PARTS_MAX: usize = 32;

/// The flags forwardable and renewable (§5.4.1), in the first byte and the second.
const FORWARDABLE: u32 = 1 << 30;
const RENEWABLE: u32 = 1 << 23;

/// Message types, by application tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A request to the authentication service for a first ticket.
    AsRequest,
    /// The answer to an AS request.
    AsReply,
    /// A request to the ticket-granting service for another ticket.
    TgsRequest,
    /// The answer to a TGS request.
    TgsReply,
    /// A client presents a ticket to a service.
    ApRequest,
    /// The service authenticates itself to the client.
    ApReply,
    /// An error.
    Error,
}

impl Kind {
    fn from_tag(tag: u8) -> Option<Self> {
        Some(match tag {
            0x6a => Self::AsRequest,
            0x6b => Self::AsReply,
            0x6c => Self::TgsRequest,
            0x6d => Self::TgsReply,
            0x6e => Self::ApRequest,
            0x6f => Self::ApReply,
            0x7e => Self::Error,
            _ => return None,
        })
    }

    /// Zeek's name of the request type: `AS`, `TGS`, `AP`.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::AsRequest | Self::AsReply => Some("AS"),
            Self::TgsRequest | Self::TgsReply => Some("TGS"),
            Self::ApRequest | Self::ApReply => Some("AP"),
            Self::Error => None,
        }
    }
}

/// Whether a tag is a message type.
pub(super) fn is_tag(tag: u8) -> bool {
    Kind::from_tag(tag).is_some()
}

/// The unencrypted part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Message type.
    pub kind: Kind,
    /// Client name: `bob`.
    pub client: Option<String>,
    /// Realm of the client; in a request also the service's realm.
    pub client_realm: Option<String>,
    /// Service name: `krbtgt/EXAMPLE.COM`.
    pub service: Option<String>,
    /// The service's realm.
    pub service_realm: Option<String>,
    /// Options of a request; bit 31 is the first (§5.4.1).
    pub options: Option<u32>,
    /// Requested start time of the ticket.
    pub from: Option<Timestamp>,
    /// Requested end time.
    pub till: Option<Timestamp>,
    /// Requested end of renewal.
    pub renew_till: Option<Timestamp>,
    /// Random number that identifies the request.
    pub nonce: Option<i64>,
    /// Ciphers that the client supports, by preference.
    pub ciphers: Vec<i32>,
    /// Types of pre-authentication data (IANA "Pre-authentication and Typed Data").
    pub proofs: Vec<i32>,
    /// Cipher of the ticket: the issued one in an answer, the presented one in a request.
    pub ticket_cipher: Option<i32>,
    /// Cipher of the part of an answer that only the client can read.
    pub cipher: Option<i32>,
    /// Error code.
    pub error: Option<i32>,
    /// Error text of the server.
    pub error_text: Option<String>,
}

impl Message {
    /// Parses a message; `None` if it is invalid, or truncated before its decisive fields.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (tag, content) = Elements::new(bytes).next()?;
        let kind = Kind::from_tag(tag)?;
        let mut fields = Elements::new(Elements::new(content).next_of(SEQUENCE)?);
        // Field tags of requests begin at 1.
        let first = if matches!(kind, Kind::AsRequest | Kind::TgsRequest) { 0xa1 } else { 0xa0 };
        let version = number(fields.next_of(first)?)?;
        let number_of_kind = number(fields.next_of(first + 1)?)?;
        if version != 5 || number_of_kind != i64::from(tag & 0x1f) {
            return None;
        }
        let mut message = Self {
            kind,
            client: None,
            client_realm: None,
            service: None,
            service_realm: None,
            options: None,
            from: None,
            till: None,
            renew_till: None,
            nonce: None,
            ciphers: Vec::new(),
            proofs: Vec::new(),
            ticket_cipher: None,
            cipher: None,
            error: None,
            error_text: None,
        };
        while let Some((tag, content)) = fields.next() {
            let _ = match kind {
                Kind::AsRequest | Kind::TgsRequest => message.take_request(tag, content),
                Kind::AsReply | Kind::TgsReply => message.take_reply(tag, content),
                Kind::ApRequest => message.take_shown(tag, content),
                Kind::ApReply => None,
                Kind::Error => message.take_error(tag, content),
            };
        }
        Some(message)
    }

    /// KDC-REQ (§5.4.1).
    fn take_request(&mut self, tag: u8, content: &[u8]) -> Option<()> {
        match tag {
            0xa3 => self.take_proofs(content)?,
            0xa4 => {
                let mut body = Elements::new(Elements::new(content).next_of(SEQUENCE)?);
                while let Some((tag, content)) = body.next() {
                    match tag {
                        0xa0 => self.options = options(content),
                        0xa1 => self.client = name(content),
                        0xa2 => self.client_realm = string(content),
                        0xa3 => self.service = name(content),
                        0xa4 => self.from = time(content),
                        0xa5 => self.till = time(content),
                        0xa6 => self.renew_till = time(content),
                        0xa7 => self.nonce = number(content),
                        0xa8 => {
                            let mut list = Elements::new(Elements::new(content).next_of(SEQUENCE)?);
                            while let Some(cipher) =
                                list.next_of(INTEGER).filter(|_| self.ciphers.len() < PARTS_MAX)
                            {
                                self.ciphers
                                    .extend(integer(cipher).and_then(|cipher| i32::try_from(cipher).ok()));
                            }
                        }
                        _ => {}
                    }
                }
                self.service_realm.clone_from(&self.client_realm);
            }
            _ => {}
        }
        Some(())
    }

    /// Types of pre-authentication data; a ticket among them is read (§5.2.7).
    fn take_proofs(&mut self, content: &[u8]) -> Option<()> {
        const TICKET: i32 = 1;
        let mut list = Elements::new(Elements::new(content).next_of(SEQUENCE)?);
        while let Some(proof) = list.next_of(SEQUENCE) {
            let mut parts = Elements::new(proof);
            let kind = small(parts.next_of(0xa1)?)?;
            if self.proofs.len() < PARTS_MAX {
                self.proofs.push(kind);
            }
            if kind == TICKET && self.ticket_cipher.is_none() {
                let request = Elements::new(parts.next_of(0xa2)?).next_of(OCTETS)?;
                let content = Elements::new(request).next_of(0x6e)?;
                let mut fields = Elements::new(Elements::new(content).next_of(SEQUENCE)?);
                while let Some((tag, content)) = fields.next() {
                    if tag == 0xa3 {
                        self.ticket_cipher = ticket(content).and_then(|ticket| ticket.cipher);
                    }
                }
            }
        }
        Some(())
    }

    /// KDC-REP (§5.4.2).
    fn take_reply(&mut self, tag: u8, content: &[u8]) -> Option<()> {
        match tag {
            0xa3 => self.client_realm = string(content),
            0xa4 => self.client = name(content),
            0xa5 => self.take_ticket(ticket(content)?),
            0xa6 => self.cipher = cipher(content),
            _ => {}
        }
        Some(())
    }

    /// AP-REQ (§5.5.1).
    fn take_shown(&mut self, tag: u8, content: &[u8]) -> Option<()> {
        match tag {
            0xa3 => self.take_ticket(ticket(content)?),
            0xa4 => self.cipher = cipher(content),
            _ => {}
        }
        Some(())
    }

    fn take_ticket(&mut self, ticket: Ticket) {
        self.service = ticket.service;
        self.service_realm = ticket.realm;
        self.ticket_cipher = ticket.cipher;
    }

    /// KRB-ERROR (§5.9.1).
    fn take_error(&mut self, tag: u8, content: &[u8]) -> Option<()> {
        match tag {
            0xa6 => self.error = small(content),
            0xa7 => self.client_realm = string(content),
            0xa8 => self.client = name(content),
            0xa9 => self.service_realm = string(content),
            0xaa => self.service = name(content),
            0xab => self.error_text = string(content),
            _ => {}
        }
        Some(())
    }

    /// Whether a forwardable ticket is requested.
    pub fn is_forwardable(&self) -> Option<bool> {
        self.options.map(|options| options & FORWARDABLE != 0)
    }

    /// Whether a renewable ticket is requested.
    pub fn is_renewable(&self) -> Option<bool> {
        self.options.map(|options| options & RENEWABLE != 0)
    }
}

impl Held for Message {
    fn held_bytes(&self) -> usize {
        let texts = [&self.client, &self.client_realm, &self.service, &self.service_realm, &self.error_text];
        size_of::<Self>()
            + texts.into_iter().flatten().map(String::capacity).sum::<usize>()
            + (self.ciphers.capacity() + self.proofs.capacity()) * size_of::<i32>()
    }
}

/// The unencrypted part of a ticket (§5.3).
struct Ticket {
    realm: Option<String>,
    service: Option<String>,
    cipher: Option<i32>,
}

fn ticket(content: &[u8]) -> Option<Ticket> {
    let inner = Elements::new(content).next_of(0x61)?;
    let mut fields = Elements::new(Elements::new(inner).next_of(SEQUENCE)?);
    let mut ticket = Ticket { realm: None, service: None, cipher: None };
    while let Some((tag, content)) = fields.next() {
        match tag {
            0xa1 => ticket.realm = string(content),
            0xa2 => ticket.service = name(content),
            0xa3 => ticket.cipher = cipher(content),
            _ => {}
        }
    }
    Some(ticket)
}

/// The cipher of encrypted data (§5.2.9).
fn cipher(content: &[u8]) -> Option<i32> {
    let mut fields = Elements::new(Elements::new(content).next_of(SEQUENCE)?);
    small(fields.next_of(0xa0)?)
}

fn number(content: &[u8]) -> Option<i64> {
    integer(Elements::new(content).next_of(INTEGER)?)
}

fn small(content: &[u8]) -> Option<i32> {
    i32::try_from(number(content)?).ok()
}

fn string(content: &[u8]) -> Option<String> {
    Elements::new(content).next_of(GENERAL_STRING).map(|string| text(string, TEXT_BYTES_MAX))
}

/// A name (§5.2.2), its components joined by slashes.
fn name(content: &[u8]) -> Option<String> {
    let mut fields = Elements::new(Elements::new(content).next_of(SEQUENCE)?);
    fields.next_of(0xa0)?;
    let mut parts = Elements::new(Elements::new(fields.next_of(0xa1)?).next_of(SEQUENCE)?);
    let mut name = String::new();
    for index in 0..PARTS_MAX {
        let Some(part) = parts.next_of(GENERAL_STRING) else { break };
        if index > 0 {
            name.push('/');
        }
        let room = TEXT_BYTES_MAX.saturating_sub(name.len());
        name.push_str(&text(part, room));
    }
    Some(name)
}

/// The first 32 of some flags (§5.2.8).
fn options(content: &[u8]) -> Option<u32> {
    let bits = Elements::new(content).next_of(BITS)?.get(1..)?;
    bits.first_chunk().map(|bits| u32::from_be_bytes(*bits))
}

/// A time in seconds (§5.2.3): `20371231235959Z`.
fn time(content: &[u8]) -> Option<Timestamp> {
    let digits = Elements::new(content).next_of(GENERALIZED_TIME)?.strip_suffix(b"Z")?;
    if digits.len() != 14 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let read = |at: usize, count: usize| {
        digits[at..at + count].iter().fold(0, |number, digit| number * 10 + i64::from(digit & 15))
    };
    let (year, month, day) = (read(0, 4), read(4, 2), read(6, 2));
    if !(1..=12).contains(&month) {
        return None;
    }
    // Days since 1970 in the Gregorian calendar; years begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + day
        - 1
        - 719_468;
    let seconds = days * 86_400 + read(8, 2) * 3600 + read(10, 2) * 60 + read(12, 2);
    // `None` if the time does not fit nanoseconds in 64 bits.
    seconds.checked_mul(1_000_000_000).map(Timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_to_the_second() {
        let read = |text: &str| {
            time(&[&[GENERALIZED_TIME, text.len() as u8], text.as_bytes()].concat())
                .map(|time| time.0 / 1_000_000_000)
        };
        assert_eq!(read("19700101000000Z"), Some(0));
        assert_eq!(read("20370913024805Z"), Some(2_136_422_885));
        assert_eq!(read("20000229120000Z"), Some(951_825_600));
        assert_eq!(read("20371301000000Z"), None);
        assert_eq!(read("2037091302480Z"), None);
        assert_eq!(read("99991231235959Z"), None);
    }

    #[test]
    fn options_are_told_by_their_bits() {
        let content = [BITS, 5, 0, 0x40, 0x80, 0, 0x10];
        let options = options(&content).expect("whole");
        assert_eq!((options & FORWARDABLE != 0, options & RENEWABLE != 0), (true, true));
    }
}
