//! The headers of IP, TCP and UDP in a packet, and what a question needs of these: for an index of packets.

use crate::header_rules::{IpVersion, Masked, Transport};

/// A header of IP in a packet, and the header of TCP or UDP in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderPair {
    /// The version of IP.
    pub version: IpVersion,
    /// The offset of the header of IP in the frame.
    pub ip_at: u32,
    /// TCP or UDP behind this IP header, and the offset of its header in the frame. `None`: neither.
    pub transport: Option<(Transport, u32)>,
}

/// The IP headers of a packet with one or two of them, at least one of which has TCP or UDP behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketHeaders {
    /// The first header.
    pub outer: HeaderPair,
    /// The second header: inside a tunnel, or quoted by an error of ICMP.
    pub inner: Option<HeaderPair>,
}

/// A header of IP with the ports of TCP or UDP in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The version of IP.
    pub version: IpVersion,
    /// The transport protocol. `None`: another protocol, without ports.
    pub transport: Option<Transport>,
    /// The source address, in the order of the network.
    pub source: u128,
    /// The destination address, in the order of the network.
    pub destination: u128,
    /// The source port; 0 without ports.
    pub source_port: u16,
    /// The destination port; 0 without ports.
    pub destination_port: u16,
}

/// A header as far as a question describes one. `None`: any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeaderPart {
    /// The version of IP. Addresses are compared only with a version.
    pub version: Option<IpVersion>,
    /// The transport protocol. Ports are compared only with a protocol.
    pub transport: Option<Transport>,
    /// The source address.
    pub source: Masked,
    /// The destination address.
    pub destination: Masked,
    /// The source port.
    pub source_port: Masked,
    /// The destination port.
    pub destination_port: Masked,
}

impl HeaderPart {
    /// Whether a header is as described.
    pub fn holds(&self, header: &Header) -> bool {
        self.version.is_none_or(|version| version == header.version)
            && self.transport.is_none_or(|transport| Some(transport) == header.transport)
            && self.source.holds(header.source)
            && self.destination.holds(header.destination)
            && self.source_port.holds(header.source_port.into())
            && self.destination_port.holds(header.destination_port.into())
    }

    /// The headers of both; `None` if there are none.
    pub fn and(self, other: Self) -> Option<Self> {
        fn both<T: PartialEq>(one: Option<T>, other: Option<T>) -> Option<Option<T>> {
            match (one, other) {
                (Some(one), Some(other)) => (one == other).then_some(Some(one)),
                (one, other) => Some(one.or(other)),
            }
        }
        Some(Self {
            version: both(self.version, other.version)?,
            transport: both(self.transport, other.transport)?,
            source: self.source.and(other.source)?,
            destination: self.destination.and(other.destination)?,
            source_port: self.source_port.and(other.source_port)?,
            destination_port: self.destination_port.and(other.destination_port)?,
        })
    }

    /// The headers of the other direction.
    pub fn exchanged(self) -> Self {
        let Self { source, destination, source_port, destination_port, .. } = self;
        Self {
            source: destination,
            destination: source,
            source_port: destination_port,
            destination_port: source_port,
            ..self
        }
    }
}

/// One of these parts holds in a header of the packet.
pub type HeaderCondition = Vec<HeaderPart>;

/// All of these conditions hold, each in any header of the packet.
pub type HeaderTerm = Vec<HeaderCondition>;

/// The packets that questions may need, of those with TCP or UDP in one of at most two headers of IP.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeaderTerms {
    /// One of the terms holds.
    pub terms: Vec<HeaderTerm>,
    /// All packets with two headers may be needed. A connection is one of its own header: the other header,
    /// that of a tunnel or of an error of ICMP, may be another one in each packet.
    pub all_nested: bool,
}

impl HeaderTerms {
    /// Whether a packet with these headers may be needed.
    pub fn hold(&self, headers: &[Header]) -> bool {
        let is_in = |part: &HeaderPart| headers.iter().any(|header| part.holds(header));
        self.all_nested && headers.len() > 1
            || self.terms.iter().any(|term| term.iter().all(|condition| condition.iter().any(is_in)))
    }
}
