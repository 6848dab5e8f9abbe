//! The values that a test compares: the type of a field or of its slice, with the operators that it supports.

use super::ast::{FieldInfo, Op, Predicate};
use weir_packet::ValueType;

/// The type of the compared values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Domain {
    /// Numbers up to this one.
    Number(u64),
    Bool,
    /// Only presence can be tested.
    Fraction,
    Time,
    Interval,
    Ipv4,
    Ipv6,
    Address,
    Mac,
    Text,
    Bytes,
    /// A slice of this many bytes.
    Slice(u32),
    Protocol,
}

impl Domain {
    /// The domain of a whole field.
    pub fn of_field(field: &FieldInfo) -> Domain {
        if field.is_protocol {
            return Domain::Protocol;
        }
        match field.value_type {
            ValueType::Bool => Domain::Bool,
            ValueType::Unsigned | ValueType::Numbers => Domain::Number(number_max(field.bits)),
            ValueType::Fraction => Domain::Fraction,
            ValueType::Time => Domain::Time,
            ValueType::Interval => Domain::Interval,
            ValueType::Ipv4 => Domain::Ipv4,
            ValueType::Ipv6 => Domain::Ipv6,
            ValueType::Address => Domain::Address,
            ValueType::Mac => Domain::Mac,
            ValueType::Text | ValueType::Texts => Domain::Text,
            ValueType::Bytes => Domain::Bytes,
        }
    }

    /// The domain of a predicate's compared values.
    pub fn of_predicate(field: &FieldInfo, predicate: &Predicate) -> Domain {
        match predicate.slice {
            Some((_, length)) => Domain::Slice(length),
            None => Domain::of_field(field),
        }
    }

    /// The description for messages, as in "`tcp.port` is …".
    pub fn describe(self) -> String {
        match self {
            Domain::Number(_) => "a number".to_string(),
            Domain::Bool => "a flag".to_string(),
            Domain::Fraction => "a fraction".to_string(),
            Domain::Time => "a time".to_string(),
            Domain::Interval => "a duration".to_string(),
            Domain::Ipv4 => "an IPv4 address".to_string(),
            Domain::Ipv6 => "an IPv6 address".to_string(),
            Domain::Address => "an address".to_string(),
            Domain::Mac => "a MAC address".to_string(),
            Domain::Text => "text".to_string(),
            Domain::Bytes => "bytes".to_string(),
            Domain::Slice(1) => "one byte".to_string(),
            Domain::Slice(length) => format!("a slice of {length} bytes"),
            Domain::Protocol => "a protocol".to_string(),
        }
    }

    /// A constant of this type, for examples in messages.
    pub fn example(self) -> &'static str {
        match self {
            Domain::Number(1) | Domain::Bool => "1",
            Domain::Number(_) => "443",
            Domain::Time => "\"2026-11-21 02:00:00\"",
            Domain::Interval => "1.5s",
            Domain::Ipv4 | Domain::Address => "192.0.2.1",
            Domain::Ipv6 => "2001:db8::1",
            Domain::Mac => "00:1b:21:aa:bb:cc",
            Domain::Text => "\"example\"",
            Domain::Bytes => "0a:ff",
            Domain::Slice(_) => "0x0a",
            Domain::Fraction | Domain::Protocol => "",
        }
    }

    /// The largest number, if values are compared as numbers.
    pub fn number_max(self) -> Option<u64> {
        match self {
            Domain::Number(max) => Some(max),
            Domain::Slice(length @ 1..=8) => Some(number_max(length * 8)),
            _ => None,
        }
    }

    /// Whether the operator is supported.
    pub fn has(self, op: Op) -> bool {
        match op {
            Op::Exists => true,
            Op::Eq | Op::Ne | Op::In => !matches!(self, Domain::Protocol | Domain::Fraction),
            Op::Lt | Op::Le | Op::Gt | Op::Ge => {
                let is_address = matches!(self, Domain::Ipv4 | Domain::Ipv6 | Domain::Address);
                self.number_max().is_some() || is_address || matches!(self, Domain::Time | Domain::Interval)
            }
            Op::Contains => matches!(self, Domain::Text | Domain::Bytes | Domain::Mac | Domain::Slice(_)),
            Op::Matches => matches!(self, Domain::Text | Domain::Bytes | Domain::Slice(_)),
            Op::BitsAny => self.number_max().is_some(),
            // Of one field only.
            Op::Satisfies => false,
        }
    }

    /// Whether ranges of values are supported.
    pub fn has_ranges(self) -> bool {
        self.has(Op::Lt)
    }
}

/// The largest number of this many bits; 0 bits: unlimited.
fn number_max(bits: u32) -> u64 {
    match bits {
        0 | 64.. => u64::MAX,
        _ => (1 << bits) - 1,
    }
}

/// The spelling of an operator.
pub(super) fn symbol(op: Op) -> &'static str {
    match op {
        Op::Exists => "",
        Op::Eq => "==",
        Op::Ne => "!=",
        Op::Lt => "<",
        Op::Le => "<=",
        Op::Gt => ">",
        Op::Ge => ">=",
        Op::In => "in",
        Op::Contains => "contains",
        Op::Matches => "matches",
        Op::Satisfies => "satisfies",
        Op::BitsAny => "&",
    }
}
