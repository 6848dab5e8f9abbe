//! A packet, as rules see it.

use crate::fields::{Field, Values};
use std::net::IpAddr;
use weir::packet::Timestamp;
use weir_rules::{BufferId, FlagsKind, PacketTest};

/// A packet, or what is known of one at the end of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// Its fields.
    pub values: Values<'a>,
    /// The captured bytes.
    pub frame: &'a [u8],
    /// Address and port of the sender and of the receiver.
    pub ends: [(IpAddr, u16); 2],
    /// The originator of the connection sent it.
    pub to_server: bool,
    /// Its payload: of a datagram in fragments, the whole one.
    pub payload: &'a [u8],
    /// Length of its payload, also where that is not inspected.
    pub payload_bytes: u64,
    /// There is a packet: otherwise, the connection has ended without one.
    pub is_there: bool,
    /// A bit for each filter of rules that holds for its connection.
    pub holds: u64,
    /// Bit `n` is set if the rules' event number `n` happened on this packet; the highest bit stands for a
    /// gap.
    pub happened: u64,
}

/// When and in which packet a match was completed.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// The time.
    pub time: Timestamp,
    /// The number of the packet.
    pub number: Option<u64>,
}

/// Whether a buffer is a header of packets.
pub fn is_header(buffer: BufferId) -> bool {
    buffer != BufferId::PAYLOAD && buffer.info().protocol.is_empty()
}

/// The payload of a packet in its frame.
pub fn payload_in<'a>(values: &Values<'_>, frame: &'a [u8]) -> &'a [u8] {
    // The payload of the last fragment is that of the datagram, which is not in the frame.
    let (Some(at), false) = (values.get(Field::PayloadAt), values.is_fragment()) else { return &[] };
    let rest = frame.get(at as usize..).unwrap_or_default();
    &rest[..rest.len().min(values.or_zero(Field::PayloadLength) as usize)]
}

impl<'a> Packet<'a> {
    /// No packet: what is known of the connection between `ends`, sender first.
    pub fn none(values: Values<'a>, ends: [(IpAddr, u16); 2], to_server: bool, holds: u64) -> Self {
        let (frame, payload): (&[u8], &[u8]) = (&[], &[]);
        Self {
            values,
            frame,
            ends,
            to_server,
            payload,
            payload_bytes: 0,
            is_there: false,
            holds,
            happened: 0,
        }
    }

    /// The bytes of a header.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        let values = &self.values;
        if values.is_fragment() {
            return None;
        }
        let upper = values.get(Field::HeaderAt)? as usize;
        let upper_end = values.get(Field::PayloadAt)? as usize;
        let before = |bytes: usize| self.frame.get(upper.checked_sub(bytes)?..upper);
        match name {
            "ipv4.hdr" => before(values.get(Field::Ihl)? as usize * 4),
            "ipv6.hdr" => values.get(Field::HopLimit).and_then(|_| before(40)),
            "tcp.hdr" => values.get(Field::TcpFlags).and_then(|_| self.frame.get(upper..upper_end)),
            "udp.hdr" if !values.has(Field::TcpFlags) => self.frame.get(upper..upper_end),
            "icmpv4.hdr" => values.get(Field::IcmpType).and_then(|_| self.frame.get(upper..upper_end)),
            "icmpv6.hdr" => values.get(Field::Icmp6Type).and_then(|_| self.frame.get(upper..upper_end)),
            _ => None,
        }
    }

    /// Whether a test on headers holds. Fields of the connection are not known here.
    pub fn holds(&self, test: &PacketTest) -> Option<bool> {
        Some(match test {
            PacketTest::Number(field, number) => number.holds(self.values.of_rule(*field)?),
            PacketTest::TcpFlags { kind, flags, ignored } => {
                let all = self.values.get(Field::TcpFlags)? as u8;
                compare(*kind, all & !ignored, flags & !ignored)
            }
            PacketTest::FragmentBits { kind, bits } => {
                compare(*kind, self.values.get(Field::IpFlags)? as u8, *bits)
            }
            PacketTest::IpOption(name) => has_option(self.header("ipv4.hdr")?, name),
            PacketTest::SameIp => self.ends[0].0 == self.ends[1].0,
        })
    }
}

fn compare(kind: FlagsKind, all: u8, flags: u8) -> bool {
    match kind {
        FlagsKind::Exactly => all == flags,
        FlagsKind::AtLeast => all & flags == flags,
        FlagsKind::Any => all & flags != 0,
        FlagsKind::Not => all & flags == 0,
    }
}

/// Options of IP by their names in rules (RFC 791 and others), with their numbers.
const OPTIONS: &[(&str, u8)] = &[
    ("rr", 7),
    ("eol", 0),
    ("nop", 1),
    ("ts", 68),
    ("sec", 130),
    ("esec", 133),
    ("lsrr", 131),
    ("ssrr", 137),
    ("satid", 136),
    ("cipso", 134),
    ("rtralt", 148),
    ("qs", 25),
];

/// Whether a header has an option; `any`: any option.
fn has_option(header: &[u8], name: &str) -> bool {
    let mut options = header.get(20..).unwrap_or_default();
    let wanted = OPTIONS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    while let Some((kind, rest)) = options.split_first() {
        if wanted.is_none_or(|wanted| wanted == *kind) {
            return true;
        }
        options = match (kind, rest.first()) {
            (0, _) => return false,
            (1, _) => rest,
            (_, Some(length)) if *length >= 2 => options.get(usize::from(*length)..).unwrap_or_default(),
            _ => return false,
        };
    }
    false
}
