//! Messages of DHCP (RFC 2131 §2): the fixed part of BOOTP, then options (RFC 2132).

use crate::values::readable;
use crate::wire::Reader;
use std::net::Ipv4Addr;

/// What comes between the fixed part and the options.
const COOKIE: [u8; 4] = [0x63, 0x82, 0x53, 0x63];

/// Where the cookie lies.
const COOKIE_AT: usize = 236;

/// Addresses kept of one option.
const ADDRESSES_MAX: usize = 16;

/// Bits of option 52: which fields of the fixed part hold options, too.
const OVERLOAD_FILE: u8 = 1;
const OVERLOAD_NAME: u8 = 2;

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// From a client (1) or from a server (2).
    pub operation: u8,
    /// Number of the transaction.
    pub transaction: u32,
    /// Seconds since the client began, as it says.
    pub seconds: u16,
    /// The address the client has.
    pub client_address: Ipv4Addr,
    /// The address it is given.
    pub your_address: Ipv4Addr,
    /// The server of what comes next: where it boots from.
    pub next_server: Ipv4Addr,
    /// The relay in between.
    pub relay_address: Ipv4Addr,
    /// The client's MAC address, where it is on a network that has such.
    pub mac: Option<[u8; 6]>,
    /// Its options.
    pub options: Options,
}

/// What the options say that are read; of one that comes twice the first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Type of the message (53): 1 DISCOVER, 2 OFFER …
    pub kind: Option<u8>,
    /// Mask of the network (1).
    pub mask: Option<Ipv4Addr>,
    /// Routers (3).
    pub routers: Vec<Ipv4Addr>,
    /// Name servers (6).
    pub name_servers: Vec<Ipv4Addr>,
    /// Name of the client (12).
    pub host_name: Option<String>,
    /// Domain (15).
    pub domain: Option<String>,
    /// Address asked for (50).
    pub requested: Option<Ipv4Addr>,
    /// How long an address is lent (51), seconds.
    pub lease_seconds: Option<u32>,
    /// Which server (54).
    pub server: Option<Ipv4Addr>,
    /// Options asked for (55), in the client's order, by which it is known.
    pub parameters: Vec<u8>,
    /// Why it does not work (56).
    pub message: Option<String>,
    /// What kind of client (60).
    pub vendor_class: Option<String>,
    /// The client's identifier (61): a type, and what it is.
    pub client_id: Option<Vec<u8>>,
    /// Full name of the client (81, RFC 4702).
    pub client_fqdn: Option<String>,
    /// Numbers of all options, in order.
    pub numbers: Vec<u8>,
}

impl Message {
    /// Reads a datagram; `None` where it is no message of DHCP. Options are read up to the first that is cut.
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

    /// The client's MAC address: as its identifier tells, or as the fixed part does.
    pub fn client_mac(&self) -> Option<[u8; 6]> {
        match self.options.client_id.as_deref() {
            Some([1, a, b, c, d, e, f]) => Some([*a, *b, *c, *d, *e, *f]),
            _ => self.mac,
        }
    }
}

impl Options {
    /// Reads options up to the end (255); what option 52 says.
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
                    // Bit 2: the name is in the form of DNS.
                    let name = if flags & 4 == 0 { name.to_vec() } else { join_labels(name) };
                    set_text(&mut self.client_fqdn, &name);
                }
            }
            _ => {}
        }
    }

    /// Bytes it holds, about.
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

/// A name of labels with their lengths as text.
fn join_labels(name: &[u8]) -> Vec<u8> {
    let mut reader = Reader::new(name);
    let mut labels = Vec::new();
    while let Some(label) = reader.vector8().filter(|label| !label.is_empty()) {
        labels.push(label);
    }
    labels.join(&b'.')
}
