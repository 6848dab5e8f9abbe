//! What a filter means: resolved predicates and their combination.

use crate::diag::Span;
use std::hash::{Hash, Hasher};
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_packet::ValueType;

/// At which stage a field is known. A later stage costs more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// From one packet.
    Packet,
    /// From one row of an event, of questions about events alone: of many events of a packet each is asked for itself.
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
    /// All other names for it.
    pub aliases: Vec<String>,
    /// Its type. `Bool` fields of one bit accept `== 1`, `== true` and standing alone.
    pub value_type: ValueType,
    /// Bits of an unsigned field (0 where not applicable): `==` and `in` with a constant beyond is an
    /// error, an ordering with one a warning.
    pub bits: u32,
    /// Where it is known.
    pub stage: Stage,
    /// One line of meaning.
    pub doc: String,
    /// A whole protocol (`tcp`, `tls`): it can only stand alone.
    pub is_protocol: bool,
    /// What the compiler knows it by: meaning is the catalogue's owner's.
    pub key: u32,
}

/// The names that a filter may use.
pub trait Catalog {
    /// Every field, in the order in which `weir fields` lists them.
    fn fields(&self) -> &[FieldInfo];

    /// The index of the field of this name, or alias; where several share it, names come before aliases, and the first
    /// has it.
    fn find(&self, name: &str) -> Option<usize> {
        let fields = self.fields();
        let alias = |field: &FieldInfo| field.aliases.iter().any(|alias| alias == name);
        fields.iter().position(|field| field.name == name).or_else(|| fields.iter().position(alias))
    }
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// The field (or protocol) is there; for `Bool`: it is there and true. A bare number of one bit
    /// (`tcp.flags.syn`) is `Eq` 1 instead.
    Exists,
    /// `==`, `=`, `eq`; text and bytes wholly equal; an address in a prefix.
    Eq,
    /// `!=`, `ne`: there is a value, and **all** values differ (Wireshark's meaning since 3.6).
    Ne,
    /// `<`, `lt`
    Lt,
    /// `<=`, `le`
    Le,
    /// `>`, `gt`
    Gt,
    /// `>=`, `ge`
    Ge,
    /// `in { … }`: any element of the set.
    In,
    /// `contains`: text or bytes inside.
    Contains,
    /// `matches`, `~`: a regular expression, case-insensitive as in Wireshark.
    Matches,
    /// `field & number` stands alone or `!= 0`: any of these bits, in any of the field's values.
    BitsAny,
}

/// A constant that a field is compared with, of the field's type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Literal {
    /// A number, or an inclusive range where both ends differ. Times: nanoseconds; booleans: 0, 1.
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
}

/// One comparison of one field. Two are equal if they mean the same; where they stand does not count.
#[derive(Debug, Clone)]
pub struct Predicate {
    /// Index into [`Catalog::fields`].
    pub field: usize,
    /// A slice of the field's bytes (`eth.src[0:3]`): offset and length. Of a protocol (`tcp[13]`): bytes
    /// from the start of its header on, its payload included; where there are too few, the predicate does
    /// not hold. Up to eight bytes are compared as one big-endian number ([`Literal::Numbers`]), more as
    /// [`Literal::Bytes`]; `contains` always takes [`Literal::Bytes`].
    pub slice: Option<(u32, u32)>,
    /// The value is first cut to these bits (`ip.flags & 6 == 2`). Never with [`Op::BitsAny`].
    pub mask: Option<u64>,
    /// The comparison.
    pub op: Op,
    /// What it is compared with: none for `Exists`, several for `In`, else one.
    pub literals: Vec<Literal>,
    /// The whole predicate must **not** hold (also where the field is absent): `not tcp.port == 80`.
    pub negated: bool,
    /// Where it stands.
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

/// A resolved filter in negation normal form (`not` only inside predicates). Flat: no `And` right inside
/// an `And`, no `Or` right inside an `Or`, and each has at least two parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expr {
    /// An empty filter: everything.
    True,
    /// A comparison.
    Predicate(Predicate),
    /// All of them.
    And(Vec<Expr>),
    /// Any of them.
    Or(Vec<Expr>),
}

/// A conjunction of predicates, as indices into the list that `dnf` returns beside the terms,
/// ordered by stage, without repetitions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Term {
    /// Indices of predicates.
    pub predicates: Vec<usize>,
}
