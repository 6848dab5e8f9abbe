//! The words of pcap-filter(7): protocols, services, named offsets and constants.

use crate::filter::literal::parse_number;
use std::net::Ipv4Addr;

/// A protocol as a qualifier or alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Ether,
    Ip,
    Ip6,
    Arp,
    Rarp,
    Tcp,
    Udp,
    Sctp,
    /// Identified by its number in IPv4's header, in IPv6's, or both.
    Number {
        number: u8,
        over_ip: bool,
        over_ip6: bool,
    },
    /// A protocol above the link layer, with its EtherType. A number up to 1500 is not an EtherType but the
    /// protocol's service access point in an LLC header (IEEE 802.2).
    EtherType(u16),
    /// Identified by its number in the OSI network layer.
    Iso(u8),
}

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    Host,
    Net,
    Port,
    PortRange,
    Proto,
    Chain,
}

/// Service access point of the OSI network layer.
pub(super) const SAP_ISO: u16 = 0xfe;

impl Protocol {
    /// The protocol's number, and whether IPv4 and IPv6 carry it.
    pub fn over(self) -> Option<(u8, bool, bool)> {
        match self {
            Protocol::Tcp => Some((6, true, true)),
            Protocol::Udp => Some((17, true, true)),
            Protocol::Sctp => Some((132, true, true)),
            Protocol::Number { number, over_ip, over_ip6 } => Some((number, over_ip, over_ip6)),
            _ => None,
        }
    }

    /// The protocol's EtherType or service access point.
    pub fn ether_type(self) -> Option<u16> {
        match self {
            Protocol::Ip => Some(0x0800),
            Protocol::Ip6 => Some(0x86dd),
            Protocol::Arp => Some(0x0806),
            Protocol::Rarp => Some(0x8035),
            Protocol::EtherType(number) => Some(number),
            _ => None,
        }
    }
}

/// Words that require features which Weir does not have: interfaces, routing, firewalls, other media.
pub(super) const UNSUPPORTED: &[&str] = &[
    "ifname",
    "on",
    "rnr",
    "rulenum",
    "reason",
    "rset",
    "ruleset",
    "srnr",
    "subrulenum",
    "action",
    "type",
    "subtype",
    "dir",
    "direction",
    "addr1",
    "addr2",
    "addr3",
    "addr4",
    "ra",
    "ta",
    "radio",
    "vxlan",
    "batadv",
    "vpi",
    "vci",
    "lane",
    "oam",
    "gateway",
    "byte",
    "l1",
    "l2",
    "iih",
    "lsp",
    "snp",
    "csnp",
    "psnp",
];

pub(super) fn protocol(word: &str) -> Option<Protocol> {
    let number = |number, over_ip, over_ip6| Protocol::Number { number, over_ip, over_ip6 };
    Some(match word {
        // The names of all link layers mean the link layer.
        "ether" | "link" | "ppp" | "slip" | "fddi" | "tr" | "wlan" => Protocol::Ether,
        "ip" => Protocol::Ip,
        "ip6" => Protocol::Ip6,
        "arp" => Protocol::Arp,
        "rarp" => Protocol::Rarp,
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        "sctp" => Protocol::Sctp,
        "icmp" => number(1, true, false),
        "igmp" => number(2, true, false),
        "igrp" => number(9, true, false),
        "vrrp" | "carp" => number(112, true, false),
        "icmp6" => number(58, false, true),
        "esp" => number(50, true, true),
        "ah" => number(51, true, true),
        "pim" => number(103, true, true),
        "mopdl" => Protocol::EtherType(0x6001),
        "moprc" => Protocol::EtherType(0x6002),
        "decnet" => Protocol::EtherType(0x6003),
        "lat" => Protocol::EtherType(0x6004),
        "sca" => Protocol::EtherType(0x6007),
        "atalk" => Protocol::EtherType(0x809b),
        "aarp" => Protocol::EtherType(0x80f3),
        "iso" => Protocol::EtherType(SAP_ISO),
        "stp" => Protocol::EtherType(0x42),
        "ipx" => Protocol::EtherType(0xe0),
        "netbeui" => Protocol::EtherType(0xf0),
        "clnp" => Protocol::Iso(0x81),
        "esis" | "es-is" => Protocol::Iso(0x82),
        "isis" | "is-is" => Protocol::Iso(0x83),
        _ => return None,
    })
}

pub(super) fn value_kind(word: &str) -> Option<ValueKind> {
    Some(match word {
        "host" => ValueKind::Host,
        "net" => ValueKind::Net,
        "port" => ValueKind::Port,
        "portrange" => ValueKind::PortRange,
        "proto" => ValueKind::Proto,
        "protochain" => ValueKind::Chain,
        _ => return None,
    })
}

/// Ports of commonly filtered services. `/etc/services` is not used, so that a filter means the same on every
/// host.
pub(super) fn service(name: &str) -> Option<u32> {
    Some(match name {
        "ftp-data" => 20,
        "ftp" => 21,
        "ssh" => 22,
        "telnet" => 23,
        "smtp" => 25,
        "domain" => 53,
        "bootps" => 67,
        "bootpc" => 68,
        "tftp" => 69,
        "http" | "www" => 80,
        "kerberos" => 88,
        "pop3" => 110,
        "ntp" => 123,
        "imap2" | "imap" => 143,
        "snmp" => 161,
        "bgp" => 179,
        "ldap" => 389,
        "https" => 443,
        "syslog" => 514,
        "ldaps" => 636,
        "imaps" => 993,
        "pop3s" => 995,
        _ => return None,
    })
}

/// A number of at most 32 bits, or a named constant of a relation.
pub(super) fn number(word: &str) -> Option<u32> {
    // As in C, a leading zero means octal.
    let octal = word.len() > 1 && word.starts_with('0') && word.bytes().all(|byte| byte.is_ascii_digit());
    let number = match octal {
        true => u64::from_str_radix(word, 8).ok(),
        false => parse_number(word).ok().or_else(|| constant(word)),
    };
    number.and_then(|number| u32::try_from(number).ok())
}

fn constant(word: &str) -> Option<u64> {
    Some(match word {
        // Offsets.
        "icmptype" | "icmp6type" => 0,
        "icmpcode" | "icmp6code" => 1,
        "tcpflags" => 13,
        // Flags of TCP.
        "tcp-fin" => 0x01,
        "tcp-syn" => 0x02,
        "tcp-rst" => 0x04,
        "tcp-push" => 0x08,
        "tcp-ack" => 0x10,
        "tcp-urg" => 0x20,
        "tcp-ece" => 0x40,
        "tcp-cwr" => 0x80,
        // Types of ICMP and ICMPv6.
        "icmp-echoreply" => 0,
        "icmp-unreach" => 3,
        "icmp-sourcequench" => 4,
        "icmp-redirect" => 5,
        "icmp-echo" => 8,
        "icmp-routeradvert" => 9,
        "icmp-routersolicit" => 10,
        "icmp-timxceed" => 11,
        "icmp-paramprob" => 12,
        "icmp-tstamp" => 13,
        "icmp-tstampreply" => 14,
        "icmp-ireq" => 15,
        "icmp-ireqreply" => 16,
        "icmp-maskreq" => 17,
        "icmp-maskreply" => 18,
        "icmp6-destinationunreach" => 1,
        "icmp6-packettoobig" => 2,
        "icmp6-timeexceeded" => 3,
        "icmp6-parameterproblem" => 4,
        "icmp6-echo" => 128,
        "icmp6-echoreply" => 129,
        "icmp6-multicastlistenerquery" => 130,
        "icmp6-multicastlistenerreportv1" => 131,
        "icmp6-multicastlistenerdone" => 132,
        "icmp6-routersolicit" => 133,
        "icmp6-routeradvert" => 134,
        "icmp6-neighborsolicit" => 135,
        "icmp6-neighboradvert" => 136,
        "icmp6-redirect" => 137,
        "icmp6-routerrenum" => 138,
        "icmp6-nodeinformationquery" => 139,
        "icmp6-nodeinformationresponse" => 140,
        "icmp6-ineighbordiscoverysolicit" => 141,
        "icmp6-ineighbordiscoveryadvert" => 142,
        "icmp6-multicastlistenerreportv2" => 143,
        "icmp6-homeagentdiscoveryrequest" => 144,
        "icmp6-homeagentdiscoveryreply" => 145,
        "icmp6-mobileprefixsolicit" => 146,
        "icmp6-mobileprefixadvert" => 147,
        "icmp6-certpathsolicit" => 148,
        "icmp6-certpathadvert" => 149,
        "icmp6-multicastrouteradvert" => 151,
        "icmp6-multicastroutersolicit" => 152,
        "icmp6-multicastrouterterm" => 153,
        _ => return None,
    })
}

/// The prefix length of a netmask. Like a network it may be short: `255.255`.
pub(super) fn netmask(word: &str) -> Option<u32> {
    let parts = word.split('.').count();
    let padded = format!("{word}{}", ".0".repeat(4usize.checked_sub(parts)?));
    let mask = u32::from(padded.parse::<Ipv4Addr>().ok()?);
    (mask.leading_ones() + mask.trailing_zeros() == 32 || mask == 0).then_some(mask.leading_ones())
}
