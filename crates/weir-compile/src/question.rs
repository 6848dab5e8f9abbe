//! What is asked: filters, and what is wanted of the traffic that fulfils them.

use crate::events::EventSet;
use weir_lang::filter::{Filter, Predicate};
use weir_sessions::ProtocolSet;

/// What a question needs of the program. Several may be needed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Need {
    /// Packets themselves.
    pub packets: bool,
    /// What `show` says of each layer, in the packet's record.
    pub lines: bool,
    /// Where in the packet what `show` says stands, in the packet's record.
    pub places: bool,
    /// The order of layers, in the packet's record.
    pub path: bool,
    /// The record of each connection.
    pub connections: bool,
    /// All that layers remember of each connection, for who reads it by name.
    pub variables: bool,
    /// The application protocol of each connection, for its record.
    pub service: bool,
    /// The bytes of streams in order.
    pub streams: bool,
    /// Bytes of the originator's and the responder's stream beyond which none is needed.
    pub cutoff: Option<[u64; 2]>,
    /// Sessions of these protocols.
    pub sessions: ProtocolSet,
    /// Events, by index into [`events`](crate::events::events) of the stack.
    pub events: EventSet,
    /// What its sessions fulfil, remembered with each connection: who asks for more than sessions by what these say.
    pub verdicts: bool,
    /// What a host would not take does not count (`strict` in the protocols' texts).
    pub strict: bool,
    /// The number by which packets are spread over workers, and nothing else.
    pub dispatch: bool,
}

impl Need {
    /// A flow has to be found for every packet.
    pub fn flows(&self) -> bool {
        self.connections || self.variables || self.streams || !self.sessions.is_empty()
    }

    /// Bytes in order are needed.
    pub fn bytes(&self) -> bool {
        self.streams || !self.sessions.is_empty()
    }
}

/// Names of variables that the record of a connection is made of, where its layer has them. What else a layer
/// remembers is kept only as far as it or a question needs it.
pub const RECORD_VARS: &[&str] =
    &["packets", "ip_bytes", "bytes", "endpoint", "has_fin", "type", "code", "vlan", "inner_vlan"];

/// What it is made of besides where reassembly is strict.
pub const STRICT_RECORD_VARS: &[&str] = &["refused_bytes"];

/// One question.
#[derive(Debug, Clone)]
pub struct Question {
    /// The filter.
    pub filter: Filter,
    /// What is wanted.
    pub need: Need,
}

/// One bit of a packet's terms: a question, and what remains to be asked of rows of events, connection and session.
#[derive(Debug, Clone, PartialEq)]
pub struct TermBit {
    /// Index of the question.
    pub question: usize,
    /// Predicates on columns of events; the row that is told must fulfil all.
    pub row: Vec<Predicate>,
    /// Predicates on the connection's record; all must hold.
    pub connection: Vec<Predicate>,
    /// Predicates on a session; one session must fulfil all.
    pub session: Vec<Predicate>,
}

impl TermBit {
    /// Something is asked of the connection or a session.
    pub fn has_residue(&self) -> bool {
        !(self.connection.is_empty() && self.session.is_empty())
    }
}

/// What a term decides about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decides {
    /// The packet at hand: a predicate that fails refuses it.
    #[default]
    Packets,
    /// The packet's connection: one packet that fulfils a predicate is enough, so failing refuses nothing yet.
    Connections,
}
