//! The syntax tree of pcap-filter(7), before the link type is known.

use super::words::Protocol;
use crate::diag::Span;
use crate::filter::frame_test::{Arithmetic, Order};

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// A condition, and its place for messages.
    Primitive(Primitive, Span),
    /// `not`.
    Not(Box<Node>),
    /// `and`; never directly inside another `And`.
    And(Vec<Node>),
    /// `or`; never directly inside another `Or`.
    Or(Vec<Node>),
}

/// A condition.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Primitive {
    /// A protocol alone.
    Protocol(Protocol),
    /// `host` and `net` for IPv4: inclusive ranges of addresses.
    Ipv4 { over: Option<Protocol>, direction: Direction, ranges: Vec<(u32, u32)> },
    /// `host` and `net` for IPv6: the network, and the number of bits that count.
    Ipv6 { direction: Direction, address: u128, bits: u32 },
    /// `ether host`.
    Ether { direction: Direction, address: [u8; 6] },
    /// `port` and `portrange`: the protocol's number, and inclusive ranges of ports.
    Port { over: Option<u8>, direction: Direction, ranges: Vec<(u32, u32)> },
    /// `proto`.
    Proto { over: Option<Protocol>, number: u32 },
    /// `protochain`.
    Chain { over: Option<Protocol>, number: u32 },
    /// `broadcast`.
    Broadcast,
    /// `multicast`.
    Multicast(Option<Protocol>),
    /// `inbound`, or `outbound` if true.
    Outbound(bool),
    /// `ifindex`.
    InterfaceIndex(u32),
    /// `vlan`, with an identifier.
    Vlan(Option<u32>),
    /// `mpls`, with a label.
    Mpls(Option<u32>),
    /// `pppoed`.
    PppoeDiscovery,
    /// `pppoes`, with a session.
    PppoeSession(Option<u32>),
    /// `geneve`, with a virtual network.
    Geneve(Option<u32>),
    /// `llc`, with a kind of frame.
    Llc(Option<LlcKind>),
    /// A comparison of two sums. With `is_not`: its contrary.
    Relation { order: Order, is_not: bool, left: Sum, right: Sum },
}

/// The kind of an LLC frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LlcKind {
    Information,
    Supervisory,
    Unnumbered,
}

/// The endpoint that a value applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Source,
    Destination,
    Either,
    Both,
}

/// A number computed from a frame.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Sum {
    Number(u32),
    /// `len`.
    Length,
    /// `protocol[offset:bytes]`.
    Load {
        protocol: Protocol,
        offset: Box<Sum>,
        bytes: u8,
    },
    /// `-sum`.
    Negative(Box<Sum>),
    Binary(Arithmetic, Box<Sum>, Box<Sum>),
}

/// Joins two parts under `and` or `or`, keeping the tree flat. Adjacent alternatives that differ only in
/// their addresses or ports become one with several ranges.
pub(super) fn join(is_or: bool, left: Node, right: Node) -> Node {
    let mut parts = match (is_or, left) {
        (true, Node::Or(parts)) | (false, Node::And(parts)) => parts,
        (_, left) => vec![left],
    };
    let more = match (is_or, right) {
        (true, Node::Or(parts)) | (false, Node::And(parts)) => parts,
        (_, right) => vec![right],
    };
    for part in more {
        let is_merged = is_or && parts.last_mut().is_some_and(|last| merge(last, &part));
        if !is_merged {
            parts.push(part);
        }
    }
    match parts.len() {
        1 => parts.remove(0),
        _ if is_or => Node::Or(parts),
        _ => Node::And(parts),
    }
}

/// Adds the ranges of `next` to `last`, if only these differ.
///
/// Source and destination of all later ranges may then be read before the next range is tested. This rejects
/// no further frames: the first range has read both (`generate` keeps that range apart).
fn merge(last: &mut Node, next: &Node) -> bool {
    let (Node::Primitive(last, span), Node::Primitive(next, next_span)) = (last, next) else { return false };
    let (ranges, more) = match (last, next) {
        (
            Primitive::Port { over, direction, ranges },
            Primitive::Port { over: other, direction: toward, ranges: more },
        ) if over == other && direction == toward => (ranges, more),
        (
            Primitive::Ipv4 { over, direction, ranges },
            Primitive::Ipv4 { over: other, direction: toward, ranges: more },
        ) if over == other && direction == toward => (ranges, more),
        _ => return false,
    };
    // With `both`, a packet's two ends would have to be in the same range.
    if matches!(
        next,
        Primitive::Port { direction: Direction::Both, .. }
            | Primitive::Ipv4 { direction: Direction::Both, .. }
    ) {
        return false;
    }
    for range in more {
        if !ranges.contains(range) {
            ranges.push(*range);
        }
    }
    *span = span.to(*next_span);
    true
}
