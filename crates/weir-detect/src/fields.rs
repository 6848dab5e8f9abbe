//! The fields of packets that rules compare.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_rules::PacketField;

macro_rules! fields {
    ($($name:ident $text:literal)*) => {
        /// A field, by its number in [`NAMES`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Field { $($name),* }

        /// The names of the fields, as questions state them.
        pub const NAMES: &[&str] = &[$($text),*];
    };
}

fields! {
    HeaderAt "header_at"
    PayloadAt "payload_at"
    PayloadLength "payload_length"
    Ttl "ip.ttl"
    Dscp "ip.dscp"
    Ecn "ip.ecn"
    IpId "ip.id"
    IpFlags "ip.flags"
    FragmentOffset "ip.fragment_offset"
    Ihl "ip.ihl"
    Protocol "ip.protocol"
    HopLimit "ipv6.hop_limit"
    TrafficClass "ipv6.tclass"
    NextHeader "ipv6.next_header"
    FragmentOffset6 "ipv6.fraghdr.fragment_offset"
    More6 "ipv6.fraghdr.more"
    TcpFlags "tcp.flags"
    TcpSeq "tcp.seq"
    TcpAck "tcp.ack"
    TcpWindow "tcp.window"
    TcpOffset "tcp.data_offset"
    TcpMss "tcp.options.mss.value"
    TcpScale "tcp.options.window_scale.shift"
    IcmpType "icmp.type"
    IcmpCode "icmp.code"
    IcmpId "icmp.ident"
    IcmpSeq "icmp.seq"
    Icmp6Type "icmpv6.type"
    Icmp6Code "icmpv6.code"
    Vlan "vlan.id"
    Vni "vxlan.vni"
    Src4 "ip.src"
    Dst4 "ip.dst"
    Src6 "ipv6.src"
    Dst6 "ipv6.dst"
}

/// The values of a packet.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    words: &'a [u64],
    known: u64,
}

impl<'a> Values<'a> {
    /// The words of a packet's fields, and a bit for each field that the packet has.
    pub fn new(words: &'a [u64], known: u64) -> Self {
        Self { words, known }
    }

    /// No values: of a connection without a packet.
    pub fn none() -> Self {
        Self { words: &[], known: 0 }
    }

    /// Whether the packet has a field.
    pub fn has(&self, field: Field) -> bool {
        self.known >> field as u32 & 1 != 0
    }

    /// The value of a field of one word.
    pub fn get(&self, field: Field) -> Option<u64> {
        if !self.has(field) {
            return None;
        }
        self.words.get(field as usize).copied()
    }

    /// The value, or 0.
    pub fn or_zero(&self, field: Field) -> u64 {
        self.get(field).unwrap_or(0)
    }

    /// The addresses of sender and receiver.
    pub fn addresses(&self) -> Option<[IpAddr; 2]> {
        if let (Some(source), Some(destination)) = (self.get(Field::Src4), self.get(Field::Dst4)) {
            return Some([source, destination].map(|word| Ipv4Addr::from_bits(word as u32).into()));
        }
        if !self.has(Field::Src6) || !self.has(Field::Dst6) {
            return None;
        }
        let at = Field::Src6 as usize;
        let &[source_high, source_low, high, low] = self.words.get(at..at + 4)?.as_array()?;
        let address = |high, low| IpAddr::from(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)));
        Some([address(source_high, source_low), address(high, low)])
    }

    /// Whether the packet is a fragment.
    pub fn is_fragment(&self) -> bool {
        let more = self.or_zero(Field::IpFlags) & 1 | self.or_zero(Field::More6);
        more != 0 || self.or_zero(Field::FragmentOffset) | self.or_zero(Field::FragmentOffset6) != 0
    }

    /// The value of a field of rules that the packet itself has.
    pub fn of_rule(&self, field: PacketField) -> Option<u64> {
        match field {
            PacketField::PayloadSize => self.get(Field::PayloadLength),
            PacketField::Ttl => self.get(Field::Ttl).or_else(|| self.get(Field::HopLimit)),
            PacketField::Tos => match self.get(Field::Dscp) {
                Some(dscp) => Some(dscp << 2 | self.or_zero(Field::Ecn)),
                None => self.get(Field::TrafficClass),
            },
            PacketField::IpId => self.get(Field::IpId),
            PacketField::IpProtocol => self.get(Field::Protocol).or_else(|| self.get(Field::NextHeader)),
            PacketField::FragmentOffset => {
                self.get(Field::FragmentOffset).or_else(|| self.get(Field::FragmentOffset6))
            }
            PacketField::TcpSeq => self.get(Field::TcpSeq),
            PacketField::TcpAck => self.get(Field::TcpAck),
            PacketField::TcpWindow => self.get(Field::TcpWindow),
            PacketField::TcpMss => self.get(Field::TcpMss),
            PacketField::TcpWindowScale => self.get(Field::TcpScale),
            PacketField::IcmpType => self.get(Field::IcmpType).or_else(|| self.get(Field::Icmp6Type)),
            PacketField::IcmpCode => self.get(Field::IcmpCode).or_else(|| self.get(Field::Icmp6Code)),
            PacketField::IcmpId => self.get(Field::IcmpId),
            PacketField::IcmpSeq => self.get(Field::IcmpSeq),
            PacketField::VlanId => self.get(Field::Vlan),
            PacketField::VlanLayers => Some(u64::from(self.has(Field::Vlan))),
            PacketField::VxlanVni => self.get(Field::Vni),
            _ => None,
        }
    }
}
