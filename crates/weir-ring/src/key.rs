//! The key of a packet in the index: what [`HeaderRules`] compare.

use std::hash::{Hash, Hasher};
use weir_packet::{
    HeaderClass, HeaderPattern, HeaderRules, IpVersion, LinkType, Masked, PacketMeta, Transport,
};

/// Words of a key.
pub(crate) const KEY_WORDS: usize = 5;

/// The class, the addresses and the ports of a packet of one of the classes of [`HeaderClass`].
///
/// Words: the class (its place in [`HeaderClass::ALL`]) with both ports; the source address; the destination
/// address. Packets of both directions have different keys.
#[derive(Debug, Clone, Copy, Eq)]
pub(crate) struct Key(pub [u64; KEY_WORDS]);

const ETHERNET_BYTES: usize = 14;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// The more-fragments flag and the offset of a fragment.
const FRAGMENT: u16 = 0x3fff;

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
    /// The key of a packet; `None` for packets of no class: fragments, tags, tunnels, other protocols. They
    /// are read for each question.
    #[inline]
    pub fn of(meta: &PacketMeta, frame: &[u8]) -> Option<Self> {
        if meta.link != LinkType::ETHERNET {
            return None;
        }
        let (kind, packet) = (u16_at(frame, 12)?, frame.get(ETHERNET_BYTES..)?);
        match kind {
            IPV4 => {
                // Options have a length of their own.
                if packet.first()? & 0xf0 != 0x40 || u16_at(packet, 6)? & FRAGMENT != 0 {
                    return None;
                }
                let header_bytes = usize::from(packet[0] & 0xf) * 4;
                if header_bytes < 20 {
                    return None;
                }
                let address = |at| Some(u64::from(u32::from_be_bytes(*packet.get(at..)?.first_chunk()?)));
                let ports = packet.get(header_bytes..)?;
                Self::new(IpVersion::V4, *packet.get(9)?, ports, [0, address(12)?, 0, address(16)?])
            }
            IPV6 => {
                if packet.first()? & 0xf0 != 0x60 {
                    return None;
                }
                let half = |at| Some(u64::from_be_bytes(*packet.get(at..)?.first_chunk()?));
                let addresses = [half(8)?, half(16)?, half(24)?, half(32)?];
                Self::new(IpVersion::V6, *packet.get(6)?, packet.get(40..)?, addresses)
            }
            _ => None,
        }
    }

    fn new(version: IpVersion, protocol: u8, ports: &[u8], [a, b, c, d]: [u64; 4]) -> Option<Self> {
        let transport = match protocol {
            6 => Transport::Tcp,
            17 => Transport::Udp,
            _ => return None,
        };
        let class = HeaderClass::ALL.iter().position(|known| *known == HeaderClass { version, transport })?;
        let ports = u32::from_be_bytes(*ports.first_chunk()?);
        Some(Self([(class as u64) << 32 | u64::from(ports), a, b, c, d]))
    }

    /// Whether a packet with this key passes the rules.
    pub fn passes(self, rules: &HeaderRules) -> bool {
        let Self([first, a, b, c, d]) = self;
        let Some(class) = HeaderClass::ALL.get((first >> 32) as usize) else { return true };
        let wide = |high, low| u128::from(high) << 64 | u128::from(low);
        let ports = [first >> 16 & 0xffff, first & 0xffff].map(u128::from);
        let has = |pattern: &HeaderPattern| {
            let parts: [(Masked, u128); 4] = [
                (pattern.source, wide(a, b)),
                (pattern.destination, wide(c, d)),
                (pattern.source_port, ports[0]),
                (pattern.destination_port, ports[1]),
            ];
            pattern.class == *class && parts.iter().all(|(masked, number)| masked.holds(*number))
        };
        !rules.discarded.contains(class) || rules.passed.iter().any(has)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}
