//! The keys of a packet in the index: what [`HeaderTerms`](weir_packet::HeaderTerms) compare.
//!
//! A key is a header of IP with the ports of TCP or UDP in it. A packet in a tunnel has two, the outer one of
//! which names the inner one.

use std::hash::{Hash, Hasher};
use weir_packet::{Header, HeaderPair, IpVersion, Transport};

/// Words of a key.
pub(crate) const KEY_WORDS: usize = 5;

/// The kind, the addresses and the ports of a header.
///
/// Words: the number of the key inside (0: none) in 24 bits, the kind in 8 bits, both ports; the source
/// address; the destination address. Packets of both directions have different keys.
#[derive(Debug, Clone, Copy, Eq)]
pub(crate) struct Key(pub [u64; KEY_WORDS]);

/// Bits of the first word behind the kind, and behind the number of the key inside.
const KIND_AT: u32 = 32;
const INSIDE_AT: u32 = 40;
/// Keys that a key can name.
const INSIDE_MAX: u32 = 1 << 24;

impl PartialEq for Key {
    /// Without a call of `memcmp`, which costs more than the comparison.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
    }
}

impl Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.iter().for_each(|word| state.write_u64(*word));
    }
}

impl Key {
    /// The key of a header in a frame; `inside`: the number of the key inside, 0 if there is none. `None`:
    /// the header is not in the frame.
    #[inline]
    pub fn of(frame: &[u8], pair: &HeaderPair, inside: u32) -> Option<Self> {
        let ip = frame.get(pair.ip_at as usize..)?;
        let addresses = match pair.version {
            IpVersion::V4 => {
                let address = |at| Some(u64::from(u32::from_be_bytes(*ip.get(at..)?.first_chunk()?)));
                [0, address(12)?, 0, address(16)?]
            }
            IpVersion::V6 => {
                let half = |at| Some(u64::from_be_bytes(*ip.get(at..)?.first_chunk()?));
                [half(8)?, half(16)?, half(24)?, half(32)?]
            }
        };
        let ports = match pair.transport {
            Some((_, at)) => u32::from_be_bytes(*frame.get(at as usize..)?.first_chunk()?),
            None => 0,
        };
        let transport = match pair.transport {
            None => 0,
            Some((Transport::Tcp, _)) => 1,
            Some((Transport::Udp, _)) => 2,
        };
        let kind = 1 + transport + if pair.version == IpVersion::V4 { 0 } else { 3 };
        let [a, b, c, d] = addresses;
        let first = u64::from(inside) << INSIDE_AT | kind << KIND_AT | u64::from(ports);
        (inside < INSIDE_MAX).then_some(Self([first, a, b, c, d]))
    }

    /// The number of the key inside; 0: there is none.
    pub fn inside(self) -> u32 {
        (self.0[0] >> INSIDE_AT) as u32
    }

    /// The header. `None`: no writer has such a key.
    pub fn header(self) -> Option<Header> {
        let (version, transport) = match self.0[0] >> KIND_AT & 0xff {
            1 => (IpVersion::V4, None),
            2 => (IpVersion::V4, Some(Transport::Tcp)),
            3 => (IpVersion::V4, Some(Transport::Udp)),
            4 => (IpVersion::V6, None),
            5 => (IpVersion::V6, Some(Transport::Tcp)),
            6 => (IpVersion::V6, Some(Transport::Udp)),
            _ => return None,
        };
        let [first, source_high, source_low, destination_high, destination_low] = self.0;
        let wide = |high, low| u128::from(high) << 64 | u128::from(low);
        Some(Header {
            version,
            transport,
            source: wide(source_high, source_low),
            destination: wide(destination_high, destination_low),
            source_port: (first >> 16) as u16,
            destination_port: first as u16,
        })
    }
}
