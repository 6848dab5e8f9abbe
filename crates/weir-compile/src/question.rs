//! Questions: filters, and the data wanted of the matching traffic.

use crate::events::EventSet;
use weir_lang::filter::{Catalog, Filter, Predicate};
use weir_sessions::ProtocolSet;

/// The data that a question needs from the program; several kinds may be needed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Need {
    /// The packets themselves.
    pub packets: bool,
    /// The values that `show` prints of each layer, in the packet's record.
    pub lines: bool,
    /// Notes about every layer and field, for a trace of the interpreter. Native code ignores them.
    pub detail: bool,
    /// The order of layers, in the packet's record.
    pub path: bool,
    /// The record of each connection.
    pub connections: bool,
    /// All variables of each connection, for consumers that read them by name.
    pub variables: bool,
    /// The application protocol of each connection, for its record.
    pub service: bool,
    /// The layers by which each connection carries other connections: what tunnels it is.
    pub tunnels: bool,
    /// The in-order bytes of streams.
    pub streams: bool,
    /// Number of bytes of the originator's and the responder's stream beyond which none are needed.
    pub cutoff: Option<[u64; 2]>,
    /// Sessions of these protocols.
    pub sessions: ProtocolSet,
    /// Events, by index into [`events`](crate::events::events) of the stack.
    pub events: EventSet,
    /// What is odd about each connection.
    pub odd: bool,
    /// The results of sessions, stored with each connection: for questions that select connections or packets
    /// by their sessions.
    pub verdicts: bool,
    /// Ignores data that a host would not accept (`strict` in the protocols' texts).
    pub strict: bool,
    /// Only the number by which packets are assigned to workers.
    pub dispatch: bool,
    /// With `dispatch`: where the headers of IP, TCP and UDP are, in place of the number.
    pub headers: bool,
    /// Values of packets, in the packet's record.
    pub values: ValueList,
    /// Packets are counted as they arrive, so the filter cannot depend on later data.
    pub at_once: bool,
}

/// What a value of a packet is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValueOf {
    /// A field with one value, by its index in the catalogue.
    Field(u16),
    /// A part of the packet's tuple.
    Tuple(TuplePart),
}

/// A part of a packet's tuple: of the key of its innermost layer with connections, as the packet has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TuplePart {
    /// The sender's address.
    Source,
    /// The receiver's address.
    Destination,
    /// The sender's port.
    SourcePort,
    /// The receiver's port.
    DestinationPort,
    /// The number of the layer in the stack.
    Layer,
    /// Offset of the layer's header in the captured bytes, or in the bytes that fragments were put together
    /// to.
    HeaderAt,
    /// The same of the layer's payload.
    PayloadAt,
    /// Length of the layer's payload as its headers claim it, bytes.
    PayloadLength,
}

impl TuplePart {
    /// The name in aggregates.
    pub fn name(self) -> &'static str {
        match self {
            Self::Source => "src",
            Self::Destination => "dst",
            Self::SourcePort => "sport",
            Self::DestinationPort => "dport",
            Self::Layer => "proto",
            Self::HeaderAt => "header_at",
            Self::PayloadAt => "payload_at",
            Self::PayloadLength => "payload_length",
        }
    }
}

impl ValueOf {
    /// The name in aggregates; fields are those of `catalog`.
    pub fn name(self, catalog: &dyn Catalog) -> &str {
        match self {
            Self::Field(field) => catalog.fields().get(usize::from(field)).map_or("", |field| &field.name),
            Self::Tuple(part) => part.name(),
        }
    }
}

/// A list of values, at most [`ValueList::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ValueList {
    values: [Option<ValueOf>; ValueList::MAX],
}

impl ValueList {
    /// Maximum number of values.
    pub const MAX: usize = 24;

    /// Adds a value, unless the list has the value. Returns whether there was room.
    pub fn add(&mut self, of: ValueOf) -> bool {
        if self.iter().any(|known| known == of) {
            return true;
        }
        match self.values.iter_mut().find(|place| place.is_none()) {
            Some(place) => {
                *place = Some(of);
                true
            }
            None => false,
        }
    }

    /// The values, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = ValueOf> + use<> {
        self.values.into_iter().flatten()
    }
}

impl Need {
    /// Whether a flow must be looked up for every packet.
    pub fn flows(&self) -> bool {
        self.connections || self.variables || self.streams || !self.sessions.is_empty()
    }

    /// Whether in-order bytes are needed.
    pub fn bytes(&self) -> bool {
        self.streams || !self.sessions.is_empty()
    }
}

/// A variable of a layer that the record of its connections contains, if the layer declares the variable.
/// Other variables of a layer are kept only if the layer or a question needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordVar {
    /// Packets of a direction.
    Packets,
    /// Bytes of a direction's IP packets.
    IpBytes,
    /// Payload bytes of a direction.
    Bytes,
    /// State of an endpoint.
    Endpoint,
    /// Whether a direction's last sequence number is that of a FIN.
    HasFin,
    /// Payload bytes that the receiver rejects.
    RefusedBytes,
    /// Payload bytes outside of the connection.
    OutsideBytes,
    /// Type of the first ICMP message.
    IcmpType,
    /// Code of the first ICMP message.
    IcmpCode,
    /// The outer VLAN identifier.
    Vlan,
    /// The inner VLAN identifier.
    InnerVlan,
    /// The VLAN identifier of the other direction, if it differs.
    OtherVlan,
}

impl RecordVar {
    const ALL: [RecordVar; 12] = [
        RecordVar::Packets,
        RecordVar::IpBytes,
        RecordVar::Bytes,
        RecordVar::Endpoint,
        RecordVar::HasFin,
        RecordVar::RefusedBytes,
        RecordVar::OutsideBytes,
        RecordVar::IcmpType,
        RecordVar::IcmpCode,
        RecordVar::Vlan,
        RecordVar::InnerVlan,
        RecordVar::OtherVlan,
    ];

    /// The name of the variable in the text of layers.
    pub fn name(self) -> &'static str {
        match self {
            RecordVar::Packets => "packets",
            RecordVar::IpBytes => "ip_bytes",
            RecordVar::Bytes => "bytes",
            RecordVar::Endpoint => "endpoint",
            RecordVar::HasFin => "has_fin",
            RecordVar::RefusedBytes => "refused_bytes",
            RecordVar::OutsideBytes => "outside_bytes",
            RecordVar::IcmpType => "type",
            RecordVar::IcmpCode => "code",
            RecordVar::Vlan => "vlan",
            RecordVar::InnerVlan => "inner_vlan",
            RecordVar::OtherVlan => "other_vlan",
        }
    }

    /// Whether the record has the variable of a layer with this name.
    pub(crate) fn has(name: &str) -> bool {
        Self::ALL.into_iter().any(|var| var.name() == name)
    }
}

/// One question.
#[derive(Debug, Clone)]
pub struct Question {
    /// The filter.
    pub filter: Filter,
    /// What is wanted.
    pub need: Need,
}

/// One bit of a packet's terms: a question, and the predicates that remain for rows of events, connection and
/// session.
#[derive(Debug, Clone, PartialEq)]
pub struct TrieAlternative {
    /// Index of the question.
    pub question: usize,
    /// Predicates on columns of events; one row must satisfy all.
    pub row: Vec<Predicate>,
    /// Predicates on the connection's record; all must hold.
    pub connection: Vec<Predicate>,
    /// Predicates on a session; one session must satisfy all.
    pub session: Vec<Predicate>,
}

impl TrieAlternative {
    /// Whether predicates remain for the connection or a session.
    pub fn has_remainder(&self) -> bool {
        !(self.connection.is_empty() && self.session.is_empty())
    }
}

/// What a term decides about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decides {
    /// The current packet: a predicate that fails excludes it.
    #[default]
    Packets,
    /// The packet's connection: one packet that satisfies a predicate is enough, so a failure excludes
    /// nothing yet.
    Connections,
}
