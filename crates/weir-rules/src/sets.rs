//! Sets of addresses and of ports: ranges in order. Clones share their ranges, because many rules name the
//! same group.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// A set of numbers: ranges in order, with both ends, which do not touch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Ranges(Arc<[(u128, u128)]>);

impl Ranges {
    pub fn of(mut all: Vec<(u128, u128)>) -> Self {
        all.sort_unstable();
        let mut joined: Vec<(u128, u128)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match joined.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => joined.push((first, last)),
            }
        }
        Self(joined.into())
    }

    fn complement(&self, max: u128) -> Self {
        let (mut all, mut next) = (vec![], Some(0));
        for &(first, last) in self.0.iter() {
            if let Some(next) = next.filter(|next| *next < first) {
                all.push((next, first - 1));
            }
            next = last.checked_add(1).filter(|next| *next <= max);
        }
        all.extend(next.map(|next| (next, max)));
        Self(all.into())
    }

    pub fn without(&self, other: &Self, max: u128) -> Self {
        // What is in neither the complement of this, nor in the other.
        let mut all = self.complement(max).0.to_vec();
        all.extend(other.0.iter());
        Self::of(all).complement(max)
    }

    fn has(&self, number: u128) -> bool {
        let at = self.0.partition_point(|(first, _)| *first <= number);
        at > 0 && self.0[at - 1].1 >= number
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn pairs(&self) -> &[(u128, u128)] {
        &self.0
    }
}

/// A set of IP addresses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AddressSet {
    pub(crate) v4: Ranges,
    pub(crate) v6: Ranges,
}

/// A set of ports.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PortSet(pub(crate) Ranges);

pub(crate) const V4_MAX: u128 = u32::MAX as u128;
pub(crate) const PORT_MAX: u128 = u16::MAX as u128;

/// A member of a set of addresses, as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    /// Addresses of IPv4, with both ends.
    V4(Ipv4Addr, Ipv4Addr),
    /// Addresses of IPv6, with both ends.
    V6(Ipv6Addr, Ipv6Addr),
}

impl AddressSet {
    /// All addresses.
    pub fn any() -> Self {
        Self { v4: Ranges::of(vec![(0, V4_MAX)]), v6: Ranges::of(vec![(0, u128::MAX)]) }
    }

    /// Whether the set has an address.
    pub fn has(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => self.v4.has(u128::from(v4.to_bits())),
            IpAddr::V6(v6) => self.v6.has(v6.to_bits()),
        }
    }

    /// Whether the set has all addresses.
    pub fn is_any(&self) -> bool {
        *self == Self::any()
    }

    /// The ranges, in order: those of IPv4 first.
    pub fn ranges(&self) -> impl Iterator<Item = Address> + '_ {
        let v4 = |number: u128| Ipv4Addr::from_bits(number as u32);
        let of_v4 = self.v4.0.iter().map(move |(first, last)| Address::V4(v4(*first), v4(*last)));
        let v6 = Ipv6Addr::from_bits;
        of_v4.chain(self.v6.0.iter().map(move |(first, last)| Address::V6(v6(*first), v6(*last))))
    }
}

impl PortSet {
    /// All ports.
    pub fn any() -> Self {
        Self(Ranges::of(vec![(0, PORT_MAX)]))
    }

    /// Whether the set has a port.
    pub fn has(&self, port: u16) -> bool {
        self.0.has(u128::from(port))
    }

    /// Whether the set has all ports.
    pub fn is_any(&self) -> bool {
        *self == Self::any()
    }

    /// The ranges, in order, with both ends.
    pub fn ranges(&self) -> impl Iterator<Item = (u16, u16)> + '_ {
        self.0.0.iter().map(|(first, last)| (*first as u16, *last as u16))
    }
}
