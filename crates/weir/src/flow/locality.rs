//! Which addresses belong to the local site: those that are not routed on the Internet, which is Zeek's
//! default (`Site::local_nets`, `Site::private_address_space`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Blocks that IANA's registry of special-purpose addresses marks as not globally reachable (RFC 6890), and
/// multicast blocks limited to a link or a site (RFC 5771, RFC 2365); each with its prefix length.
const V4: &[([u8; 4], u32)] = &[
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 24),
    ([239, 0, 0, 0], 8),
    ([240, 0, 0, 0], 4),
];

/// As [`V4`], for IPv6.
const V6: &[([u16; 8], u32)] = &[
    ([0, 0, 0, 0, 0, 0, 0, 0], 128),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128),
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48),
    ([0x100, 0, 0, 0, 0, 0, 0, 0], 64),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10),
];

/// Whether an address belongs to the local site.
pub fn is_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_local_v4(v4),
        // 6to4 (RFC 3056): local if the embedded IPv4 address is.
        IpAddr::V6(v6) if v6.segments()[0] == 0x2002 => {
            let [_, high, low, ..] = v6.segments();
            is_local_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
        }
        IpAddr::V6(v6) => V6
            .iter()
            .any(|(block, bits)| (v6.to_bits() ^ Ipv6Addr::from(*block).to_bits()) >> (128 - bits) == 0),
    }
}

fn is_local_v4(address: Ipv4Addr) -> bool {
    V4.iter().any(|(block, bits)| (address.to_bits() ^ u32::from_be_bytes(*block)) >> (32 - bits) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_routed_on_the_internet_is_of_this_site() {
        for local in [
            "10.9.8.7",
            "127.0.0.1",
            "172.31.255.255",
            "192.168.0.1",
            "100.127.0.1",
            "169.254.1.1",
            "255.255.255.255",
            "198.19.0.1",
            "239.255.255.250",
            "224.0.0.251",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "2001:db8::1",
            "2002:a00:1::1",
            "64:ff9b:1::7",
        ] {
            assert!(is_local(local.parse().unwrap()), "{local}");
        }
        for other in [
            "8.8.8.8",
            "172.32.0.1",
            "100.128.0.1",
            "192.0.1.1",
            "224.0.1.1",
            "11.0.0.1",
            "::2",
            "2606:4700::1",
            "2002:808:808::1",
            "2001:200::1",
            "64:ff9b::808:808",
            "ff02::1",
        ] {
            assert!(!is_local(other.parse().unwrap()), "{other}");
        }
    }
}
