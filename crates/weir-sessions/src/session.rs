//! The trait of session parsers, and what they yield.

use std::any::Any;
use weir_packet::{Value, ValueType};

/// Who sent some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// The originator: who sent the first packet of the connection that was seen.
    Originator,
    /// The responder.
    Responder,
}

/// What a probe thinks of the first bytes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// It is this protocol.
    Certain,
    /// It may be; more bytes are needed.
    Unsure,
    /// It is not.
    NotForUs,
}

/// Whether a parser wants to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Hand me the next bytes.
    Wanted,
    /// Nothing more is to be had from this connection; what there was has been yielded.
    Done,
}

/// What a parser's bounds have cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CutOff {
    /// Parts (messages, elements of lists) that were not kept: too long, or too many.
    pub parts: u64,
    /// Sessions ended early, as too many bytes had said nothing.
    pub sessions: u64,
}

/// A field of a session that filters can name and rows can show.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// The name in filters, Wireshark's where it has one: `tls.handshake.extensions_server_name`.
    pub name: &'static str,
    /// Other names for it: `tls.sni`.
    pub aliases: &'static [&'static str],
    /// The type. A filter on a list (`Texts`, `Numbers`) means any of its elements.
    pub value_type: ValueType,
    /// One line of meaning.
    pub doc: &'static str,
}

/// One application exchange: a TLS handshake, an HTTP request with its response …
pub trait Session: Any + Send + std::fmt::Debug {
    /// The value of field `index` of the protocol's [`SessionProtocol::fields`].
    fn value(&self, index: usize) -> Value<'_>;

    /// For subscribers that want the type itself.
    fn as_any(&self) -> &dyn Any;
}

/// Parses the sessions of one connection.
pub trait SessionParser: Send {
    /// Takes the next bytes of one direction, in order. Whole sessions are pushed to `sessions`.
    fn parse(&mut self, from: Direction, bytes: &[u8], sessions: &mut Vec<Box<dyn Session>>) -> Progress;

    /// Takes note that `length_bytes` bytes of one direction are missing here and never will come.
    fn gap(&mut self, from: Direction, length_bytes: u64, sessions: &mut Vec<Box<dyn Session>>) -> Progress;

    /// The connection is over; yields what is worth yielding (an unanswered ClientHello, say).
    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>);

    /// Bytes held in buffers, for the engine's accounting. Bounded by the parser itself.
    fn held_bytes(&self) -> usize;

    /// What its bounds have cut off so far. Asked once, when the parser is done with.
    fn cut_off(&self) -> CutOff;
}

/// A session protocol: how to recognise it, how to parse it, which fields it has.
pub struct SessionProtocol {
    /// Name in filters: `tls`.
    pub name: &'static str,
    /// Name in Zeek's `service` column: `ssl`.
    pub service: &'static str,
    /// One line of meaning, with the RFC.
    pub doc: &'static str,
    /// Layers whose payload it may be: `tcp`.
    pub transports: &'static [&'static str],
    /// Looks at the first bytes of both directions (either may be empty).
    pub probe: fn(originator: &[u8], responder: &[u8]) -> Probe,
    /// A parser for a new connection.
    pub parser: fn() -> Box<dyn SessionParser>,
    /// The fields of its sessions.
    pub fields: &'static [Field],
}

impl std::fmt::Debug for SessionProtocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionProtocol").field("name", &self.name).finish_non_exhaustive()
    }
}
