//! Frames of rarer link types: serial lines, rings and radio, switches, firewalls, and metadata of systems.

use super::{datagram, join, ping, ping6};
use crate::traces::frame::ethernet;

/// LINKTYPE_ numbers of the captures.
pub const LINKS: &[(&str, u32)] = &[
    ("arcnet", 7),
    ("slip", 8),
    ("fddi", 10),
    ("ppp_ether", 51),
    ("rfc1483", 100),
    ("fr", 107),
    ("enc", 109),
    ("pflog", 117),
    ("prism", 119),
    ("tzsp_link", 128),
    ("arcnet_linux", 129),
    ("avs", 163),
    ("juniper_monitor", 164),
    ("juniper", 178),
    ("juniper_ppp", 179),
    ("juniper_fr", 180),
    ("juniper_chdlc", 181),
    ("mfr", 182),
    ("ipnet", 226),
    ("wpan", 230),
    ("ipoib", 242),
    ("exported_pdu", 252),
    ("pktap", 258),
    ("brcm", 281),
    ("brcm_prepend", 282),
    ("wpan_tap", 283),
    ("dsa", 284),
    ("edsa", 285),
];

const NEAR: [u8; 6] = [2, 0, 0, 0, 0, 1];
const FAR: [u8; 6] = [2, 0, 0, 0, 0, 2];
const POINT: [u8; 6] = [2, 0, 0, 0, 0, 0xa];

/// An 802.2 and a SNAP header.
fn snap(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    join(&[&[0xaa, 0xaa, 3, 0, 0, 0], &ethertype.to_be_bytes(), payload])
}

/// A bridged frame without checksum in SNAP (RFC 2684, section 5.2; RFC 2427, section 4.2).
const BRIDGED: [u8; 5] = [0, 0x80, 0xc2, 0, 7];

/// A data frame of 802.11 with IPv4.
fn wireless() -> Vec<u8> {
    join(&[&[0x08, 0x01, 0, 0], &[POINT, NEAR, FAR].concat(), &[0x10, 0], &snap(0x0800, &ping())])
}

/// A request of ARP (RFC 826) with this hardware type and these addresses of the hardware.
fn arp(hardware: u8, address: &[u8]) -> Vec<u8> {
    let head = [0, hardware, 8, 0, address.len() as u8, 4, 0, 1];
    join(&[&head, address, &[10, 0, 0, 1], &vec![0; address.len()], &[10, 0, 0, 2]])
}

/// RFC 1201 with a plain and an exception packet, a fragment, RFC 1051, and ARP.
pub fn arcnet() -> Vec<Vec<u8>> {
    vec![
        join(&[&[1, 2, 0xd4, 0, 0, 7], &ping()]),
        join(&[&[1, 2, 0xd4, 0xff, 0xff, 0xff, 0xff, 0, 0, 8], &datagram()]),
        join(&[&[1, 2, 0xd4, 1, 0, 9], &ping()[..20]]),
        join(&[&[2, 1, 0xf0], &ping()]),
        join(&[&[1, 0, 0xd5, 0, 0, 10], &arp(7, &[1])]),
        join(&[&[1, 2, 0xc4, 0, 0, 11], &ping6()]),
    ]
}

/// The same with the offset in the card's memory, without exceptions.
pub fn arcnet_linux() -> Vec<Vec<u8>> {
    vec![join(&[&[1, 2, 0, 0xe0, 0xd4, 0, 0, 7], &ping()]), join(&[&[2, 1, 0, 0xe0, 0xf0], &datagram()])]
}

/// A header of 16 bytes: direction, kind, a compressed header.
pub fn slip() -> Vec<Vec<u8>> {
    let of = |direction: u8, kind: u8, payload: &[u8]| join(&[&[direction, kind], &[0; 14], payload]);
    vec![of(0, 0x45, &ping()), of(1, 0x45, &datagram()), of(1, 0x80, &[0x05, 1, 2, 3])]
}

/// LLC, and a token.
pub fn fddi() -> Vec<Vec<u8>> {
    let of = |control: u8, payload: &[u8]| join(&[&[control], &FAR, &NEAR, payload]);
    vec![of(0x50, &snap(0x0800, &ping())), of(0x57, &snap(0x86dd, &ping6())), of(0x41, &[0; 20])]
}

/// PPPoE without Ethernet.
pub fn ppp_ether() -> Vec<Vec<u8>> {
    let inside = join(&[&[0, 0x21], &ping()]);
    vec![join(&[&[0x11, 0, 0, 17, 0, inside.len() as u8], &inside])]
}

/// RFC 2684: routed, and bridged.
pub fn rfc1483() -> Vec<Vec<u8>> {
    let bridged = join(&[&[0xaa, 0xaa, 3], &BRIDGED, &[0, 0], &ethernet(0x0800, &datagram())]);
    vec![snap(0x0800, &ping()), bridged]
}

/// Circuit 100 in an address of two bytes.
const CIRCUIT: [u8; 2] = [0x18, 0x41];

/// RFC 2427: IPv4 and IPv6, SNAP, a bridged frame, PPP, signalling, Cisco's encapsulation; addresses of three
/// and four bytes.
pub fn fr() -> Vec<Vec<u8>> {
    vec![
        join(&[&CIRCUIT, &[3, 0xcc], &ping()]),
        join(&[&CIRCUIT, &[3, 0x8e], &ping6()]),
        join(&[&CIRCUIT, &[3, 0, 0x80, 0, 0, 0, 8, 0], &datagram()]),
        join(&[&CIRCUIT, &[3, 0, 0x80], &BRIDGED, &ethernet(0x0800, &ping())]),
        join(&[&CIRCUIT, &[3, 0xcf, 0xc0, 0x21], &[9, 1, 0, 8, 1, 2, 3, 4]]),
        join(&[&CIRCUIT, &[8, 0], &ping()]),
        join(&[&[0, 1, 3, 8], &[0, 0x75, 1, 1, 0]]),
        join(&[&[0x18, 0x40, 0x29], &[3, 0xcc], &ping()]),
        join(&[&[0x18, 0x40, 0x02, 0x15], &[3, 0xcc], &ping()]),
    ]
}

/// FRF.16.1: a whole frame, the first fragment of another, signalling.
pub fn mfr() -> Vec<Vec<u8>> {
    vec![
        join(&[&[0xc0, 5], &CIRCUIT, &[3, 0xcc], &ping()]),
        join(&[&[0x80, 6], &CIRCUIT, &[3, 0xcc], &ping()[..10]]),
        join(&[&[0xe0, 0], &[1, 1, 5, b'm', b'f', b'r']]),
    ]
}

/// The address family in both byte orders.
pub fn enc() -> Vec<Vec<u8>> {
    vec![
        join(&[&[2, 0, 0, 0], &[0, 0, 0x12, 0x34], &[0, 0xc, 0, 0], &ping()]),
        join(&[&[0, 0, 0, 24], &[0, 0, 0x12, 0x35], &[0, 0, 0xc, 0], &ping6()]),
    ]
}

/// Headers of 61 and 100 bytes.
pub fn pflog() -> Vec<Vec<u8>> {
    let of = |length: u8, family: u8, action: u8, payload: &[u8]| {
        let mut interface = b"em0".to_vec();
        interface.resize(16, 0);
        let rule = join(&[&[0, 0, 0, 7], &[0xff; 4]]);
        let owners = [1000u32, 77, 0, 78].map(u32::to_le_bytes).concat();
        let mut bytes = join(&[&[length, family, action, 0], &interface, &[0; 16], &rule, &owners, &[1]]);
        bytes.resize(usize::from(length).next_multiple_of(4), 0);
        join(&[&bytes, payload])
    };
    vec![of(61, 2, 1, &ping()), of(61, 24, 0, &ping6()), of(100, 2, 0, &datagram())]
}

/// The Prism header of 144 bytes in both byte orders, and one of AVS in its place.
pub fn prism() -> Vec<Vec<u8>> {
    let mut device = b"wlan0".to_vec();
    device.resize(16 + 120, 0);
    vec![
        join(&[&[0x44, 0, 0, 0, 144, 0, 0, 0], &device, &wireless()]),
        join(&[&[0, 0, 0, 0x44, 0, 0, 0, 144], &device, &wireless()]),
        join(&[&avs_head(), &wireless()]),
    ]
}

fn avs_head() -> Vec<u8> {
    join(&[&[0x80, 0x21, 0x10, 1, 0, 0, 0, 64], &[0; 56]])
}

pub fn avs() -> Vec<Vec<u8>> {
    vec![join(&[&avs_head(), &wireless()])]
}

/// TZSP without UDP.
pub fn tzsp_link() -> Vec<Vec<u8>> {
    vec![join(&[&[1, 0, 0, 1, 1], &ethernet(0x0800, &ping())])]
}

/// Juniper's header: with an extension or without.
fn juniper_of(flags: u8, payload: &[u8]) -> Vec<u8> {
    match flags & 0x80 {
        0 => join(&[b"MGC", &[flags], payload]),
        // An extension: the type of the interface.
        _ => join(&[b"MGC", &[flags], &[0, 6, 3, 1, 14, 4, 1, 14], payload]),
    }
}

/// Ethernet with and without extensions, and a packet without it.
pub fn juniper() -> Vec<Vec<u8>> {
    vec![
        juniper_of(0x80, &ethernet(0x0800, &ping())),
        juniper_of(0x01, &ethernet(0x0800, &datagram())),
        juniper_of(0x82, &join(&[&[2, 0, 0, 0], &ping()])),
    ]
}

pub fn juniper_monitor() -> Vec<Vec<u8>> {
    vec![juniper_of(0x80, &ping()), juniper_of(0x02, &join(&[&[2, 0, 0, 0], &datagram()]))]
}

pub fn juniper_ppp() -> Vec<Vec<u8>> {
    vec![juniper_of(0x80, &join(&[&[0xff, 3, 0, 0x21], &ping()]))]
}

pub fn juniper_fr() -> Vec<Vec<u8>> {
    vec![juniper_of(0x80, &join(&[&CIRCUIT, &[3, 0xcc], &ping()]))]
}

pub fn juniper_chdlc() -> Vec<Vec<u8>> {
    vec![juniper_of(0x80, &join(&[&[0x0f, 0, 8, 0], &ping()]))]
}

/// IPv4 and IPv6, inbound and outbound.
pub fn ipnet() -> Vec<Vec<u8>> {
    let of = |family: u8, hook: u8, payload: &[u8]| {
        let words = [payload.len() as u32, 2, 0, 3, 4].map(u32::to_be_bytes).concat();
        join(&[&[1, family, 0, hook], &words, payload])
    };
    vec![of(2, 0, &ping()), of(26, 1, &ping6())]
}

/// The frame control of IEEE 802.15.4 in two bytes, least significant first, and what follows.
pub fn wpan() -> Vec<Vec<u8>> {
    let long = [1, 2, 3, 4, 5, 6, 7, 8];
    vec![
        // Data, acknowledged, within one network; short addresses.
        join(&[&[0x61, 0x88, 7], &[0xcd, 0xab], &[2, 0], &[1, 0], b"data"]),
        // Data between networks: a short and a long address.
        join(&[&[0x01, 0xc8, 8], &[0xcd, 0xab], &[2, 0], &[0xce, 0xab], &long, b"data"]),
        // An acknowledgement has no addresses.
        vec![0x02, 0x00, 7],
        // A beacon request.
        join(&[&[0x03, 0x08, 9], &[0xff; 4], &[7]]),
    ]
}

/// Metadata with one value, the channel.
pub fn wpan_tap() -> Vec<Vec<u8>> {
    vec![join(&[&[0, 0, 12, 0], &[3, 0, 3, 0, 11, 0, 0, 0], &wpan()[0]])]
}

/// RFC 4391, behind two hardware addresses: IPv4, IPv6, ARP.
pub fn ipoib() -> Vec<Vec<u8>> {
    let gid = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 3, 0, 0, 0, 9];
    let hardware = join(&[&[0, 0, 4, 4], &gid]);
    let of = |ethertype: u16, payload: &[u8]| {
        join(&[&[0; 20], &hardware, &ethertype.to_be_bytes(), &[0, 0], payload])
    };
    vec![of(0x0800, &ping()), of(0x86dd, &ping6()), of(0x0806, &arp(32, &hardware))]
}

/// Exported data: IP, Ethernet behind another value, and a protocol that Weir does not parse there.
pub fn exported_pdu() -> Vec<Vec<u8>> {
    let item =
        |tag: u16, value: &[u8]| join(&[&tag.to_be_bytes(), &(value.len() as u16).to_be_bytes(), value]);
    let of = |items: &[Vec<u8>], data: &[u8]| join(&[&items.concat(), &item(0, &[]), data]);
    vec![
        of(&[item(12, b"ip\0\0")], &ping()),
        of(&[item(12, b"ipv6")], &ping6()),
        of(&[item(36, &[0, 0, 0, 9]), item(12, b"eth_withoutfcs\0\0")], &ethernet(0x0800, &datagram())),
        of(&[item(12, b"http")], b"GET / HTTP/1.0\r\n\r\n"),
    ]
}

/// A header of 108 bytes before Ethernet, a null header, and an IP header.
pub fn pktap() -> Vec<Vec<u8>> {
    let of = |link: u32, payload: &[u8]| {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let name = |text: &[u8], bytes: usize| {
            let mut name = text.to_vec();
            name.resize(bytes, 0);
            name
        };
        let head = join(&[&words(&[108, 1, link]), &name(b"en0", 24), &words(&[2, 2, 14, 0, 501])]);
        let more = join(&[&words(&[0]), &[6, 0, 0, 0], &words(&[502]), &name(b"other", 20)]);
        join(&[&head, &name(b"curl", 20), &more, payload])
    };
    vec![of(1, &ethernet(0x0800, &ping())), of(0, &join(&[&[2, 0, 0, 0], &datagram()])), of(12, &ping6())]
}

/// A tag of Broadcom's switches, to the host from port 5.
const BROADCOM: [u8; 4] = [0, 0, 0, 5];

pub fn brcm() -> Vec<Vec<u8>> {
    vec![
        join(&[&FAR, &NEAR, &BROADCOM, &[8, 0], &ping()]),
        join(&[&FAR, &NEAR, &BROADCOM, &[0x81, 0, 0, 7, 8, 0], &datagram()]),
    ]
}

pub fn brcm_prepend() -> Vec<Vec<u8>> {
    vec![join(&[&BROADCOM, &ethernet(0x0800, &ping())])]
}

/// Tags of Marvell's switches: to the host from port 3, forwarded with a VLAN tag, and a length in place of
/// the EtherType.
fn marvell(before: &[u8]) -> Vec<Vec<u8>> {
    let snapped = snap(0x0800, &ping());
    let of = |tag: [u8; 4], kind: u16, payload: &[u8]| {
        join(&[&FAR, &NEAR, before, &tag, &kind.to_be_bytes(), payload])
    };
    vec![
        of([0, 3 << 3, 0, 1], 0x0800, &ping()),
        of([0xe1, 3 << 3, 0x60, 42], 0x86dd, &ping6()),
        of([0, 3 << 3, 0, 1], snapped.len() as u16, &snapped),
    ]
}

pub fn dsa() -> Vec<Vec<u8>> {
    marvell(&[])
}

pub fn edsa() -> Vec<Vec<u8>> {
    marvell(&[0xda, 0xda, 0, 0])
}
