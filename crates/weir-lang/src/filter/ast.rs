//! The meaning of a filter: resolved predicates and their combination.

use super::frame_test::FrameTest;
use crate::diag::Span;
use std::hash::{Hash, Hasher};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use weir_packet::ValueType;

/// The stage at which a field is known. Later stages cost more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// From one packet.
    Packet,
    /// From one row of an event, in questions for events: the predicate applies to each of a packet's events
    /// separately.
    Row,
    /// From the connection's record (`conn.duration`).
    Connection,
    /// From a session (`tls.sni`).
    Session,
}

/// A field that filters can name.
#[derive(Debug, Clone)]
pub struct FieldInfo {
    /// The canonical name.
    pub name: String,
    /// All other names of the field.
    pub aliases: Vec<String>,
    /// Its type. `Bool` fields of one bit accept `== 1`, `== true` and standing alone.
    pub value_type: ValueType,
    /// Width of an unsigned field in bits (0 if not applicable). `==` and `in` with a larger constant are an
    /// error, ordering operators with a larger constant a warning.
    pub bits: u32,
    /// The stage at which the field is known.
    pub stage: Stage,
    /// One line of description.
    pub doc: String,
    /// A whole protocol (`tcp`, `tls`): it cannot be compared.
    pub is_protocol: bool,
    /// The frame's bytes, the only field with [`Op::Satisfies`].
    pub is_frame: bool,
    /// The compiler's key for the field; the owner of the catalogue defines its meaning.
    pub key: u32,
}

/// The names that a filter may use.
pub trait Catalog {
    /// Every field, in the order in which `weir fields` lists them.
    fn fields(&self) -> &[FieldInfo];

    /// The index of the field with this name or alias. If several fields share it, names take precedence over
    /// aliases, and earlier fields over later ones.
    fn find(&self, name: &str) -> Option<usize> {
        let fields = self.fields();
        let alias = |field: &FieldInfo| field.aliases.iter().any(|alias| alias == name);
        fields.iter().position(|field| field.name == name).or_else(|| fields.iter().position(alias))
    }

    /// Why a name that exists elsewhere is none of these fields, for a message.
    fn why_not(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// The field (or protocol) is present; for `Bool`: present and true. A one-bit number alone
    /// (`tcp.flags.syn`) is `Eq` 1 instead.
    Exists,
    /// `==`, `=`, `eq`: equal number, text or bytes; an address inside a prefix.
    Eq,
    /// `!=`, `ne`: the field has a value, and **all** values differ (Wireshark's meaning since 3.6).
    Ne,
    /// `<`, `lt`
    Lt,
    /// `<=`, `le`
    Le,
    /// `>`, `gt`
    Gt,
    /// `>=`, `ge`
    Ge,
    /// `in { … }`: equal to an element of the set.
    In,
    /// `contains`: the text or bytes occur in the field.
    Contains,
    /// `matches`, `~`: a regular expression, case-insensitive as in Wireshark.
    Matches,
    /// `satisfies`: an expression in the syntax of pcap-filter(7) holds for the frame.
    Satisfies,
    /// `field & number`, alone or with `!= 0`: any of these bits is set in any of the field's values.
    BitsAny,
}

/// A constant that a field is compared with, of the field's type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Literal {
    /// A number, or an inclusive range if the ends differ. Times are nanoseconds, booleans 0 or 1.
    Numbers(u64, u64),
    /// An IPv4 prefix; 32 for one address.
    Ipv4(Ipv4Addr, u8),
    /// An inclusive range of IPv4 addresses.
    Ipv4Range(Ipv4Addr, Ipv4Addr),
    /// An IPv6 prefix; 128 for one address.
    Ipv6(Ipv6Addr, u8),
    /// An inclusive range of IPv6 addresses.
    Ipv6Range(Ipv6Addr, Ipv6Addr),
    /// Bytes (`aa:bb:cc`), also MAC addresses.
    Bytes(Vec<u8>),
    /// Text, or a regular expression for `Matches`.
    Text(String),
    /// The expression of `Satisfies`.
    Frame(Arc<FrameTest>),
}

/// One comparison of one field. Equality ignores the span.
#[derive(Debug, Clone)]
pub struct Predicate {
    /// Index into [`Catalog::fields`].
    pub field: usize,
    /// A slice of the field's bytes (`eth.src[0:3]`): offset and length. For a protocol (`tcp[13]`): bytes
    /// from the start of its header, including its payload; if the packet has fewer bytes, the predicate is
    /// false. Up to eight bytes are compared as one big-endian number ([`Literal::Numbers`]), more as
    /// [`Literal::Bytes`]; `contains` always uses [`Literal::Bytes`].
    pub slice: Option<(u32, u32)>,
    /// The value is masked with these bits before the comparison (`ip.flags & 6 == 2`). Never with
    /// [`Op::BitsAny`].
    pub mask: Option<u64>,
    /// The comparison.
    pub op: Op,
    /// The constants: none for `Exists`, several for `In`, otherwise one.
    pub literals: Vec<Literal>,
    /// The predicate must **not** hold; true also if the field is absent: `not tcp.port == 80`.
    pub negated: bool,
    /// The predicate's span.
    pub span: Span,
}

impl PartialEq for Predicate {
    fn eq(&self, other: &Self) -> bool {
        self.field == other.field
            && self.slice == other.slice
            && self.mask == other.mask
            && self.op == other.op
            && self.literals == other.literals
            && self.negated == other.negated
    }
}

impl Eq for Predicate {}

impl Hash for Predicate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.field, self.slice, self.mask, self.op, &self.literals, self.negated).hash(state);
    }
}

/// A resolved filter in negation normal form (`not` only inside predicates). It is flat: no `And` directly
/// inside an `And`, no `Or` directly inside an `Or`, and each has at least two parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expr {
    /// An empty filter: matches everything.
    True,
    /// A comparison.
    Predicate(Predicate),
    /// The conjunction of the parts.
    And(Vec<Expr>),
    /// The disjunction of the parts.
    Or(Vec<Expr>),
}

/// A conjunction of predicates, as indices into the list that `dnf` returns with the terms, ordered by stage,
/// without duplicates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Term {
    /// Indices of predicates.
    pub predicates: Vec<usize>,
}
