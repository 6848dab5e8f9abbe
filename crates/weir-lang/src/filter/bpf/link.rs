//! The places of headers, by link type, and the tests of the protocol that follows the link layer.
//!
//! `vlan`, `mpls`, `pppoes` and `geneve` move these places for everything that follows in the expression, as
//! in libpcap: `vlan and ip` is about the packet behind the tag.

use super::words;
use crate::filter::frame_test::{Arithmetic, Number, Register, Test};
use weir_packet::LinkType;

/// Largest number in the EtherType's place that is a length, after which an 802.2 header follows.
const LENGTH_MAX: u32 = 1500;
const IP: u16 = 0x0800;
const IP6: u16 = 0x86dd;
const IPX: u16 = 0xe0;
const IPX_ETHER_TYPE: u32 = 0x8137;
const APPLE_TALK: u16 = 0x809b;
const APPLE_TALK_ARP: u16 = 0x80f3;

/// The address families of IPv6 in BSD loopback headers: of Linux, NetBSD and OpenBSD, FreeBSD, macOS.
const FAMILIES_IP6: [u32; 4] = [10, 24, 28, 30];
const FAMILY_IP: u32 = 2;

/// What libpcap calls the link-layer header type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Ethernet,
    CookedV1,
    CookedV2,
    /// An address family in the byte order of the capturing host.
    Null,
    /// The same in network byte order.
    Loop,
    Raw,
    Ipv4,
    Ipv6,
    Ppp,
    CiscoHdlc,
    Wlan(WlanPrefix),
    Unknown,
}

/// What precedes an 802.11 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WlanPrefix {
    None,
    Radiotap,
    Ppi,
}

/// The link types with known headers.
pub(super) const KNOWN: &[LinkType] = &[
    LinkType::ETHERNET,
    LinkType::LINUX_SLL,
    LinkType::LINUX_SLL2,
    LinkType::NULL,
    LinkType::LOOP,
    LinkType::RAW,
    LinkType::RAW_BSD,
    LinkType::RAW_OPENBSD,
    LinkType::IPV4,
    LinkType::IPV6,
    LinkType::PPP,
    LinkType::PPP_HDLC,
    LinkType::PPP_ETHER,
    LinkType::C_HDLC,
    LinkType::IEEE802_11,
    LinkType::IEEE802_11_RADIOTAP,
    LinkType::PPI,
];

/// A place in the frame: a constant, plus a register if headers of variable length precede.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub register: Option<Register>,
    pub constant: u32,
}

impl Place {
    fn fixed(constant: u32) -> Place {
        Place { register: None, constant }
    }

    pub fn in_register(register: Register) -> Place {
        Place { register: Some(register), constant: 0 }
    }

    /// The place this many bytes later.
    pub fn after(self, bytes: u32) -> Place {
        Place { constant: self.constant + bytes, ..self }
    }

    /// The bytes at this place.
    pub fn load(self, bytes: u8) -> Number {
        let at = self.register.map(|register| Box::new(Number::Register(register)));
        Number::Load { at, plus: self.constant, bytes }
    }

    /// The bytes this many bytes after this place.
    pub fn load_after(self, offset: Number, bytes: u8) -> Number {
        let (at, plus) = match (self.register, offset) {
            (Some(register), offset) => {
                (Some(Number::binary(Arithmetic::Add, offset, Number::Register(register))), self.constant)
            }
            (None, Number::Constant(offset)) => match self.constant.checked_add(offset) {
                Some(plus) => (None, plus),
                None => (Some(Number::Constant(offset)), self.constant),
            },
            (None, offset) => (Some(offset), self.constant),
        };
        Number::Load { at: at.map(Box::new), plus, bytes }
    }
}

/// The places of headers at some point of an expression.
#[derive(Debug, Clone)]
pub(super) struct Headers {
    /// The link type of the frame, and of the current link layer.
    pub outermost: LinkType,
    pub kind: Kind,
    /// The link layer's header.
    pub link: Place,
    /// The number of the next protocol.
    pub link_type: Place,
    /// The link layer's payload.
    pub payload: Place,
    /// Number of bytes from the payload's start to the network layer's header.
    pub network: u32,
    /// The same without a SNAP header, for protocols directly over 802.2.
    pub network_bare: u32,
    /// Number of MPLS labels.
    pub labels: u32,
    /// Inside Geneve, where the link layer may be missing.
    pub in_geneve: bool,
    /// Number of used registers.
    pub registers: u16,
}

impl Headers {
    /// The places in frames of this link type. Types that are not [`KNOWN`] have no headers.
    pub fn of(link: LinkType) -> Headers {
        // The kind, the places of the next protocol's number and of the payload, and the SNAP header.
        let (kind, link_type, payload, network, network_bare) = match link {
            LinkType::ETHERNET => (Kind::Ethernet, 12, 14, 0, 3),
            LinkType::LINUX_SLL => (Kind::CookedV1, 14, 16, 0, 0),
            LinkType::LINUX_SLL2 => (Kind::CookedV2, 0, 20, 0, 0),
            LinkType::NULL => (Kind::Null, 0, 4, 0, 0),
            LinkType::LOOP => (Kind::Loop, 0, 4, 0, 0),
            LinkType::RAW | LinkType::RAW_BSD | LinkType::RAW_OPENBSD => (Kind::Raw, 0, 0, 0, 0),
            LinkType::IPV4 => (Kind::Ipv4, 0, 0, 0, 0),
            LinkType::IPV6 => (Kind::Ipv6, 0, 0, 0, 0),
            LinkType::PPP | LinkType::PPP_HDLC => (Kind::Ppp, 2, 4, 0, 0),
            LinkType::PPP_ETHER => (Kind::Ppp, 6, 8, 0, 0),
            LinkType::C_HDLC => (Kind::CiscoHdlc, 2, 4, 0, 0),
            LinkType::IEEE802_11 => (Kind::Wlan(WlanPrefix::None), 0, 0, 8, 3),
            LinkType::IEEE802_11_RADIOTAP => (Kind::Wlan(WlanPrefix::Radiotap), 0, 0, 8, 3),
            LinkType::PPI => (Kind::Wlan(WlanPrefix::Ppi), 0, 0, 8, 3),
            _ => (Kind::Unknown, 0, 0, 0, 0),
        };
        let mut headers = Headers {
            outermost: link,
            kind,
            link: Place::fixed(0),
            link_type: Place::fixed(link_type),
            payload: Place::fixed(payload),
            network,
            network_bare,
            labels: 0,
            in_geneve: false,
            registers: 0,
        };
        if let Kind::Wlan(prefix) = kind {
            let payload = headers.register();
            headers.payload = Place::in_register(payload);
            if prefix != WlanPrefix::None {
                headers.link = Place::in_register(headers.register());
            }
        }
        headers
    }

    /// A new register.
    pub fn register(&mut self) -> Register {
        self.registers += 1;
        Register(self.registers - 1)
    }

    /// The network layer's header.
    pub fn network_header(&self) -> Place {
        self.payload.after(self.network)
    }

    /// A byte's or word's place in the network layer's header.
    pub fn network(&self, offset: u32, bytes: u8) -> Number {
        self.network_header().after(offset).load(bytes)
    }

    /// The length of the IPv4 header, plus the payload's register.
    pub fn ipv4_header_end(&self) -> Number {
        let length = self.network(0, 1).masked(0xf);
        let length = Number::binary(Arithmetic::Shl, length, Number::Constant(2));
        match self.payload.register {
            Some(register) => Number::binary(Arithmetic::Add, length, Number::Register(register)),
            None => length,
        }
    }

    /// Bytes behind the IPv4 header.
    pub fn above_ipv4(&self, offset: u32, bytes: u8) -> Number {
        let plus = self.payload.constant + self.network + offset;
        Number::Load { at: Some(Box::new(self.ipv4_header_end())), plus, bytes }
    }

    /// Bytes behind the IPv6 header.
    pub fn above_ipv6(&self, offset: u32, bytes: u8) -> Number {
        self.network(40 + offset, bytes)
    }

    /// Whether the protocol with this EtherType (or service access point, up to 1500) follows the link layer.
    pub fn follows(&self, protocol: u16) -> Result<Test, &'static str> {
        if self.labels > 0 {
            return self.follows_label(protocol);
        }
        let number = u32::from(protocol);
        let link_type = |number| Test::equals(self.link_type.load(2), number);
        Ok(match self.kind {
            Kind::Ethernet => self.follows_ethernet(protocol),
            Kind::CookedV1 => self.follows_cooked(protocol),
            Kind::CookedV2 => link_type(number),
            Kind::CiscoHdlc => link_type(if protocol == words::SAP_ISO { 0xfefe } else { number }),
            Kind::Ppp => link_type(ppp_number(protocol)),
            Kind::Wlan(_) => Test::all([self.is_wlan_data(), self.follows_llc(protocol)]),
            Kind::Null | Kind::Loop => {
                let families: &[u32] = match protocol {
                    IP => &[FAMILY_IP],
                    IP6 => &FAMILIES_IP6,
                    _ => return Ok(Test::constant(false)),
                };
                let mut values = families.to_vec();
                if self.kind == Kind::Null {
                    values.extend(families.iter().map(|family| family.swap_bytes()));
                }
                Test::In(self.link.load(4), values.into_iter().map(|value| (value, value)).collect())
            }
            Kind::Raw => match protocol {
                IP => Test::equals(self.link.load(1).masked(0xf0), 0x40),
                IP6 => Test::equals(self.link.load(1).masked(0xf0), 0x60),
                _ => Test::constant(false),
            },
            Kind::Ipv4 => Test::constant(protocol == IP),
            Kind::Ipv6 => Test::constant(protocol == IP6),
            Kind::Unknown => return Err("this link type's headers are not known"),
        })
    }

    /// The byte with the bottom-of-stack bit of the last MPLS label.
    pub fn label_bottom(&self) -> Number {
        let constant = self.network_header().constant - 2;
        Place { constant, ..self.payload }.load(1)
    }

    /// Whether an 802.11 frame is a data frame.
    pub fn is_wlan_data(&self) -> Test {
        let first = || self.link.load(1);
        Test::all([Test::has_bits(first(), 0x04).not(), Test::has_bits(first(), 0x08)])
    }

    /// Behind MPLS labels: the last label, then the version of IP.
    fn follows_label(&self, protocol: u16) -> Result<Test, &'static str> {
        let version = match protocol {
            IP => 0x40,
            IP6 => 0x60,
            _ => return Err("behind `mpls` only IPv4 and IPv6 can be told apart"),
        };
        Ok(Test::all([
            Test::equals(self.label_bottom().masked(1), 1),
            Test::equals(self.network(0, 1).masked(0xf0), version),
        ]))
    }

    fn follows_ethernet(&self, protocol: u16) -> Test {
        let link_type = || self.link_type.load(2);
        let is_length = || Test::In(link_type(), vec![(0, LENGTH_MAX)]);
        let number = u32::from(protocol);
        match protocol {
            IPX => {
                let snap = self.snap(0, IPX_ETHER_TYPE);
                // NetWare's frames begin with a checksum of ones instead of an 802.2 header.
                let bare = Test::equals(self.payload.load(2), 0xffff);
                let llc = Test::any([snap, Test::equals(self.payload.load(1), number), bare]);
                Test::any([Test::equals(link_type(), IPX_ETHER_TYPE), Test::all([is_length(), llc])])
            }
            APPLE_TALK | APPLE_TALK_ARP => {
                let organisation = if protocol == APPLE_TALK { 0x08_0007 } else { 0 };
                let snap = Test::all([is_length(), self.snap(organisation, number)]);
                Test::any([Test::equals(link_type(), number), snap])
            }
            words::SAP_ISO | 0xf0 | 0x06 => {
                Test::all([is_length(), Test::equals(self.payload.load(2), number << 8 | number)])
            }
            // libpcap reads the access point behind the length, also where Geneve has no Ethernet header.
            0..=1500 => Test::all([is_length(), Test::equals(self.link_type.after(2).load(1), number)]),
            _ => Test::equals(link_type(), number),
        }
    }

    fn follows_cooked(&self, protocol: u16) -> Test {
        /// Values in the protocol's place: an 802.2 header follows; NetWare's frames.
        const LLC: u32 = 4;
        const NETWARE: u32 = 1;
        let link_type = |number| Test::equals(self.link_type.load(2), number);
        let number = u32::from(protocol);
        match protocol {
            IPX => {
                let access = Test::equals(self.payload.load(1), number);
                let llc = Test::all([link_type(LLC), Test::any([access, self.snap(0, IPX_ETHER_TYPE)])]);
                Test::any([link_type(IPX_ETHER_TYPE), link_type(NETWARE), llc])
            }
            APPLE_TALK | APPLE_TALK_ARP => {
                let organisation = if protocol == APPLE_TALK { 0x08_0007 } else { 0 };
                let snap = Test::all([link_type(LLC), self.snap(organisation, number)]);
                Test::any([link_type(number), snap])
            }
            words::SAP_ISO | 0xf0 | 0x06 => {
                Test::all([link_type(LLC), Test::equals(self.payload.load(2), number << 8 | number)])
            }
            0..=1500 => Test::all([link_type(LLC), Test::equals(self.payload.load(1), number)]),
            _ => link_type(number),
        }
    }

    /// Behind a link layer that always has an 802.2 header.
    fn follows_llc(&self, protocol: u16) -> Test {
        let number = u32::from(protocol);
        match protocol {
            words::SAP_ISO | 0xf0 | 0x06 => Test::equals(self.payload.load(2), number << 8 | number),
            APPLE_TALK => self.snap(0x08_0007, number),
            0..=1500 => Test::equals(self.payload.load(1), number),
            _ => Test::equals(self.payload.after(6).load(2), number),
        }
    }

    /// Whether an 802.2 and a SNAP header with this organisation and protocol begin the payload.
    fn snap(&self, organisation: u32, protocol: u32) -> Test {
        let (high, low) = (0xaaaa_0300 | organisation >> 16, (organisation & 0xffff) << 16 | protocol);
        Test::all([
            Test::equals(self.payload.after(4).load(4), low),
            Test::equals(self.payload.load(4), high),
        ])
    }
}

/// The number of a protocol in PPP (RFC 1700 and successors), for its EtherType.
fn ppp_number(protocol: u16) -> u32 {
    match protocol {
        IP => 0x0021,
        IP6 => 0x0057,
        0x6003 => 0x0027,
        APPLE_TALK => 0x0029,
        0x0600 => 0x0025,
        words::SAP_ISO => 0x0023,
        0x42 => 0x0031,
        IPX => 0x002b,
        other => other.into(),
    }
}
