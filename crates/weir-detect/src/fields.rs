//! The fields of packets that rules compare.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_rules::PacketField;

macro_rules! fields {
    ($($name:ident $text:literal)*) => {
        /// A field, with its name in questions.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Field { $($name),* }

        /// All fields.
        const ALL: &[Field] = &[$(Field::$name),*];

        /// The names of the fields, as questions state them.
        const NAMES: &[&str] = &[$($text),*];
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
    IsCut "ip.is_cut"
    IsCut6 "ipv6.is_cut"
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

/// The fields that a program asks for, and the place of each among the words of a packet.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    names: Vec<&'static str>,
    /// By field: its number and its first word.
    places: Vec<Option<(u8, u8)>>,
}

impl Fields {
    /// The fields for which `is_wanted` holds.
    pub fn of(is_wanted: impl Fn(Field) -> bool) -> Self {
        let (mut names, mut word) = (vec![], 0);
        let mut place = |field: &Field| {
            is_wanted(*field).then(|| {
                let place = (names.len() as u8, word);
                word += if matches!(field, Field::Src6 | Field::Dst6) { 2 } else { 1 };
                names.push(NAMES[*field as usize]);
                place
            })
        };
        let places = ALL.iter().map(&mut place).collect();
        Self { names, places }
    }

    /// The names, in the order of the words.
    pub fn names(&self) -> &[&'static str] {
        &self.names
    }

    fn place(&self, field: Field) -> Option<(u8, u8)> {
        self.places.get(field as usize).copied().flatten()
    }
}

/// The values of a packet.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    fields: &'a Fields,
    words: &'a [u64],
    known: u64,
}

impl<'a> Values<'a> {
    /// The words of a packet's fields, and a bit for each field that the packet has.
    pub fn new(fields: &'a Fields, words: &'a [u64], known: u64) -> Self {
        Self { fields, words, known }
    }

    /// No values: of a connection without a packet.
    pub fn none(fields: &'a Fields) -> Self {
        Self { fields, words: &[], known: 0 }
    }

    /// The words of a field that the packet has.
    fn words(&self, field: Field) -> Option<&'a [u64]> {
        let (number, word) = self.fields.place(field)?;
        if self.known >> number & 1 == 0 {
            return None;
        }
        self.words.get(usize::from(word)..)
    }

    /// Whether the packet has a field.
    pub fn has(&self, field: Field) -> bool {
        self.words(field).is_some()
    }

    /// The value of a field of one word.
    pub fn get(&self, field: Field) -> Option<u64> {
        self.words(field)?.first().copied()
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
        let address = |words: &[u64]| match *words {
            [high, low, ..] => {
                Some(IpAddr::from(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low))))
            }
            _ => None,
        };
        Some([address(self.words(Field::Src6)?)?, address(self.words(Field::Dst6)?)?])
    }

    /// Whether the packet is a fragment.
    pub fn is_fragment(&self) -> bool {
        let more = self.or_zero(Field::IpFlags) & 1 | self.or_zero(Field::More6);
        more != 0 || self.or_zero(Field::FragmentOffset) | self.or_zero(Field::FragmentOffset6) != 0
    }

    /// The value of a field of rules that the packet itself has.
    pub fn of_rule(&self, field: PacketField) -> Option<u64> {
        match field {
            PacketField::Tos => match self.get(Field::Dscp) {
                Some(dscp) => Some(dscp << 2 | self.or_zero(Field::Ecn)),
                None => self.get(Field::TrafficClass),
            },
            PacketField::VlanLayers => Some(u64::from(self.has(Field::Vlan))),
            field => behind(field).iter().find_map(|field| self.get(*field)),
        }
    }
}

/// The fields behind a field of rules: the first one that a packet has is the value.
pub fn behind(field: PacketField) -> &'static [Field] {
    match field {
        PacketField::PayloadSize => &[Field::PayloadLength],
        PacketField::Ttl => &[Field::Ttl, Field::HopLimit],
        PacketField::Tos => &[Field::Dscp, Field::Ecn, Field::TrafficClass],
        PacketField::IpId => &[Field::IpId],
        PacketField::IpProtocol => &[Field::Protocol, Field::NextHeader],
        PacketField::FragmentOffset => &[Field::FragmentOffset, Field::FragmentOffset6],
        PacketField::TcpSeq => &[Field::TcpSeq],
        PacketField::TcpAck => &[Field::TcpAck],
        PacketField::TcpWindow => &[Field::TcpWindow],
        PacketField::TcpMss => &[Field::TcpMss],
        PacketField::TcpWindowScale => &[Field::TcpScale],
        PacketField::IcmpType => &[Field::IcmpType, Field::Icmp6Type],
        PacketField::IcmpCode => &[Field::IcmpCode, Field::Icmp6Code],
        PacketField::IcmpId => &[Field::IcmpId],
        PacketField::IcmpSeq => &[Field::IcmpSeq],
        PacketField::VlanId | PacketField::VlanLayers => &[Field::Vlan],
        PacketField::VxlanVni => &[Field::Vni],
        _ => &[],
    }
}

/// Whether a field is one of the connection.
pub fn is_of_flow(field: PacketField) -> bool {
    matches!(
        field,
        PacketField::StreamSizeClient
            | PacketField::StreamSizeServer
            | PacketField::StreamSizeBoth
            | PacketField::StreamSizeEither
            | PacketField::FlowAge
            | PacketField::FlowPacketsToClient
            | PacketField::FlowPacketsToServer
            | PacketField::FlowBytesToClient
            | PacketField::FlowBytesToServer
    )
}
