//! Rules about headers, for devices that discard packets before the machine receives them.
//!
//! A rule is much simpler than a filter in the kernel ([`KernelFilter`](crate::KernelFilter)): a device
//! compares a few fields of the outermost headers. The rules therefore discard only packets of certain
//! classes, and all others pass.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// The packets that have Ethernet, this version of IP without fragmentation and without extension headers,
/// and this transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HeaderClass {
    /// The version of IP.
    pub version: IpVersion,
    /// The transport protocol.
    pub transport: Transport,
}

impl HeaderClass {
    /// All classes.
    pub const ALL: [Self; 4] = [
        Self { version: IpVersion::V4, transport: Transport::Tcp },
        Self { version: IpVersion::V4, transport: Transport::Udp },
        Self { version: IpVersion::V6, transport: Transport::Tcp },
        Self { version: IpVersion::V6, transport: Transport::Udp },
    ];

    /// Bits of an address.
    pub fn address_bits(self) -> u32 {
        if self.version == IpVersion::V4 { 32 } else { 128 }
    }
}

/// A number of which some bits are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Masked {
    /// The bits; those beyond the mask are 0.
    pub value: u128,
    /// The bits that are compared; 0: none.
    pub mask: u128,
}

impl Masked {
    /// Whether a number has these bits.
    pub fn holds(self, number: u128) -> bool {
        number & self.mask == self.value
    }

    /// The numbers that have the bits of both; `None` if there are none.
    pub fn and(self, other: Self) -> Option<Self> {
        let is_contradiction = (self.value ^ other.value) & self.mask & other.mask != 0;
        (!is_contradiction).then_some(Self { value: self.value | other.value, mask: self.mask | other.mask })
    }
}

/// Packets of a class: all four conditions hold. Addresses and ports are numbers in the order of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HeaderPattern {
    /// The class.
    pub class: HeaderClass,
    /// The source address.
    pub source: Masked,
    /// The destination address.
    pub destination: Masked,
    /// The source port.
    pub source_port: Masked,
    /// The destination port.
    pub destination_port: Masked,
}

impl HeaderPattern {
    /// All packets of a class.
    pub fn of(class: HeaderClass) -> Self {
        let any = Masked::default();
        Self { class, source: any, destination: any, source_port: any, destination_port: any }
    }
}

/// The packets that a device passes. It discards those of a class in `discarded` that no pattern describes,
/// and nothing else: fragments, tags, tunnels and other protocols pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeaderRules {
    /// Patterns of packets that pass, each of a class in `discarded`.
    pub passed: Vec<HeaderPattern>,
    /// Classes of packets that are discarded otherwise.
    pub discarded: Vec<HeaderClass>,
}

impl fmt::Display for HeaderClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = if self.version == IpVersion::V4 { "ipv4" } else { "ipv6" };
        let transport = if self.transport == Transport::Tcp { "tcp" } else { "udp" };
        write!(f, "eth / {version} / {transport}")
    }
}

impl fmt::Display for HeaderPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.class)?;
        for (name, address) in [("src", self.source), ("dst", self.destination)] {
            if address.mask != 0 {
                let ip = match self.class.version {
                    IpVersion::V4 => IpAddr::from(Ipv4Addr::from(address.value as u32)),
                    IpVersion::V6 => IpAddr::from(Ipv6Addr::from(address.value)),
                };
                write!(f, " {name} {ip}/{}", address.mask.count_ones())?;
            }
        }
        for (name, port) in [("srcport", self.source_port), ("dstport", self.destination_port)] {
            match port.mask {
                0 => {}
                0xffff => write!(f, " {name} {}", port.value)?,
                mask => write!(f, " {name} {:#x}/{mask:#x}", port.value)?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for HeaderRules {
    /// One rule a line, in the order in which the device tries them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.passed.iter().try_for_each(|pattern| writeln!(f, "pass    {pattern}"))?;
        self.discarded.iter().try_for_each(|class| writeln!(f, "discard {class}"))
    }
}
