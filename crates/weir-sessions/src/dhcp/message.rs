//! DHCP messages (RFC 2131 §2): the fixed BOOTP header, then options (RFC 2132).

use crate::values::readable;
use crate::wire::Reader;
use std::net::Ipv4Addr;

/// The magic cookie between header and options.
const COOKIE: [u8; 4] = [0x63, 0x82, 0x53, 0x63];

/// Offset of the cookie.
const COOKIE_AT: usize = 236;

/// Maximum number of addresses kept per option.
const ADDRESSES_MAX: usize = 16;

/// Bits of option 52: header fields that also hold options.
const OVERLOAD_FILE: u8 = 1;
const OVERLOAD_NAME: u8 = 2;

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// From a client (1) or a server (2).
    pub operation: u8,
    /// Transaction ID.
    pub transaction: u32,
    /// Seconds since the client began, by its own count.
    pub seconds: u16,
    /// The client's current address (ciaddr).
    pub client_address: Ipv4Addr,
    /// The address assigned to the client (yiaddr).
    pub your_address: Ipv4Addr,
    /// The server of the next step, from which the client boots (siaddr).
    pub next_server: Ipv4Addr,
    /// The relay agent (giaddr).
    pub relay_address: Ipv4Addr,
    /// The client's MAC address, if its hardware type has one.
    pub mac: Option<[u8; 6]>,
    /// The options.
    pub options: Options,
}

/// The options that are read. If an option is repeated, the first one is used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Message type (53): 1 DISCOVER, 2 OFFER …
    pub kind: Option<u8>,
    /// Subnet mask (1).
    pub mask: Option<Ipv4Addr>,
    /// Routers (3).
    pub routers: Vec<Ipv4Addr>,
    /// Name servers (6).
    pub name_servers: Vec<Ipv4Addr>,
    /// Host name of the client (12).
    pub host_name: Option<String>,
    /// Domain name (15).
    pub domain: Option<String>,
    /// Requested address (50).
    pub requested: Option<Ipv4Addr>,
    /// Lease time (51), seconds.
    pub lease_seconds: Option<u32>,
    /// Server identifier (54).
    pub server: Option<Ipv4Addr>,
    /// Requested options (55) in the client's order, which identifies client software.
    pub parameters: Vec<u8>,
    /// Error message (56).
    pub message: Option<String>,
    /// Vendor class of the client (60).
    pub vendor_class: Option<String>,
    /// Client identifier (61): a type and a value.
    pub client_id: Option<Vec<u8>>,
    /// Fully qualified name of the client (81, RFC 4702).
    pub client_fqdn: Option<String>,
    /// Codes of all options, in order.
    pub numbers: Vec<u8>,
}

impl Message {
    /// Parses a datagram; `None` if it is no DHCP message. Options are read up to the first truncated one.
    pub fn parse(datagram: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(datagram);
        let [operation, hardware, hardware_bytes, _hops] = reader.array()?;
        if !matches!(operation, 1 | 2)
            || hardware_bytes > 16
            || datagram.get(COOKIE_AT..COOKIE_AT + 4)? != COOKIE
        {
            return None;
        }
        let transaction = u32::from_be_bytes(reader.array()?);
        let (seconds, _flags) = (reader.u16()?, reader.u16()?);
        let mut address = || reader.array::<4>().map(Ipv4Addr::from);
        let [client_address, your_address, next_server, relay_address] =
            [address()?, address()?, address()?, address()?];
        let [a, b, c, d, e, f, ..] = reader.array::<16>()?;
        let mac = ((hardware, hardware_bytes) == (1, 6)).then_some([a, b, c, d, e, f]);
        let (server_name, file) = (reader.array::<64>()?, reader.array::<128>()?);
        let mut options = Options::default();
        let overload = options.read(datagram.get(COOKIE_AT + 4..)?);
        if overload & OVERLOAD_FILE != 0 {
            options.read(&file);
        }
        if overload & OVERLOAD_NAME != 0 {
            options.read(&server_name);
        }
        Some(Self {
            operation,
            transaction,
            seconds,
            client_address,
            your_address,
            next_server,
            relay_address,
            mac,
            options,
        })
    }

    /// The client's MAC address, from its identifier or else from the header.
    pub fn client_mac(&self) -> Option<[u8; 6]> {
        match self.options.client_id.as_deref() {
            Some([1, a, b, c, d, e, f]) => Some([*a, *b, *c, *d, *e, *f]),
            _ => self.mac,
        }
    }
}

impl Options {
    /// Reads options up to the end option (255); returns the value of option 52.
    fn read(&mut self, bytes: &[u8]) -> u8 {
        let mut reader = Reader::new(bytes);
        let mut overload = 0;
        while let Some(number) = reader.u8() {
            match number {
                0 => continue,
                255 => break,
                _ => {}
            }
            let Some(value) = reader.vector8() else { break };
            if self.numbers.len() < 255 {
                self.numbers.push(number);
            }
            match (number, value) {
                (52, [bits]) => overload = *bits,
                _ => self.take(number, value),
            }
        }
        overload
    }

    fn take(&mut self, number: u8, value: &[u8]) {
        let addresses = || {
            let each = value.as_chunks::<4>().0.iter().map(|four| Ipv4Addr::from(*four));
            each.take(ADDRESSES_MAX).collect::<Vec<_>>()
        };
        let address = || addresses().first().copied();
        match number {
            1 => self.mask = self.mask.or_else(address),
            3 if self.routers.is_empty() => self.routers = addresses(),
            6 if self.name_servers.is_empty() => self.name_servers = addresses(),
            12 => set_text(&mut self.host_name, value),
            15 => set_text(&mut self.domain, value),
            50 => self.requested = self.requested.or_else(address),
            51 => {
                let seconds = value.try_into().ok().map(u32::from_be_bytes);
                self.lease_seconds = self.lease_seconds.or(seconds);
            }
            53 => self.kind = self.kind.or(value.first().copied()),
            54 => self.server = self.server.or_else(address),
            55 if self.parameters.is_empty() => self.parameters = value.to_vec(),
            56 => set_text(&mut self.message, value),
            60 => set_text(&mut self.vendor_class, value),
            61 if self.client_id.is_none() => self.client_id = Some(value.to_vec()),
            81 => {
                if let [flags, _, _, name @ ..] = value {
                    // Flag E (bit 2): the name is in DNS wire format.
                    let name = if flags & 4 == 0 { name.to_vec() } else { join_labels(name) };
                    set_text(&mut self.client_fqdn, &name);
                }
            }
            _ => {}
        }
    }

    /// Approximate bytes held.
    pub(super) fn held_bytes(&self) -> usize {
        let texts = [&self.host_name, &self.domain, &self.message, &self.vendor_class, &self.client_fqdn];
        let texts = texts.into_iter().flatten().map(String::len).sum::<usize>();
        let addresses = (self.routers.len() + self.name_servers.len()) * 4;
        texts
            + addresses
            + self.parameters.len()
            + self.client_id.as_ref().map_or(0, Vec::len)
            + self.numbers.len()
    }
}

fn set_text(field: &mut Option<String>, value: &[u8]) {
    let end = value.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    if field.is_none() && end > 0 {
        *field = Some(readable(&value[..end]).into_owned());
    }
}

/// A name of length-prefixed labels as text.
fn join_labels(name: &[u8]) -> Vec<u8> {
    let mut reader = Reader::new(name);
    let mut labels = Vec::new();
    while let Some(label) = reader.vector8().filter(|label| !label.is_empty()) {
        labels.push(label);
    }
    labels.join(&b'.')
}
