//! Finds rules by the addresses that they name: lists of hosts are long, and a packet has two addresses.

use std::net::{IpAddr, Ipv4Addr};
use weir_rules::{Address, AddressSet, Direction, Rule};

/// Rules by address.
#[derive(Debug, Default)]
pub struct ByAddress {
    source: Index,
    destination: Index,
    /// Rules that name too many addresses, or any.
    rest: Vec<u32>,
}

/// Rules whose sets have an address: ranges of addresses in order.
#[derive(Debug, Default)]
struct Index {
    /// The first address of each range.
    starts: Vec<u128>,
    /// For each range, the end of its rules in `rules`.
    ends: Vec<u32>,
    rules: Vec<u32>,
}

/// Rules that are being collected.
#[derive(Debug, Default)]
pub struct Collected {
    source: Vec<(u128, u128, u32)>,
    destination: Vec<(u128, u128, u32)>,
    rest: Vec<u32>,
}

/// Addresses of a set that is worth looking up: a sixteenth of those of IPv4.
const ADDRESSES_MAX: u128 = 1 << 28;

/// An address as a number: those of IPv4 are mapped (RFC 4291, section 2.5.5.2).
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// The ranges of a set, and how many addresses they have.
fn ranges(set: &AddressSet) -> (Vec<(u128, u128)>, u128) {
    let mapped = |address: Ipv4Addr| number(IpAddr::V4(address));
    let ranges: Vec<(u128, u128)> = set
        .ranges()
        .map(|range| match range {
            Address::V4(first, last) => (mapped(first), mapped(last)),
            Address::V6(first, last) => (first.to_bits(), last.to_bits()),
        })
        .collect();
    // Of IPv6, networks of 64 bits count as one address.
    let size = |(first, last): &(u128, u128)| {
        if *first >> 32 == 0xffff { last - first } else { (last - first) >> 64 }
    };
    let count = ranges.iter().fold(0_u128, |count, range| count.saturating_add(size(range)));
    (ranges, count)
}

impl Collected {
    /// Adds a rule with this number.
    pub fn add(&mut self, number: u32, rule: &Rule) {
        let (source, of_source) = ranges(&rule.source.addresses);
        let (destination, of_destination) = ranges(&rule.destination.addresses);
        if rule.direction != Direction::ToDestination || of_source.min(of_destination) > ADDRESSES_MAX {
            return self.rest.push(number);
        }
        let (list, ranges) = match of_source <= of_destination {
            true => (&mut self.source, source),
            false => (&mut self.destination, destination),
        };
        list.extend(ranges.into_iter().map(|(first, last)| (first, last, number)));
    }

    /// Builds the index.
    pub fn build(self) -> ByAddress {
        ByAddress {
            source: Index::of(&self.source),
            destination: Index::of(&self.destination),
            rest: self.rest,
        }
    }
}

impl Index {
    fn of(ranges: &[(u128, u128, u32)]) -> Self {
        // Where a rule begins and ends to apply.
        let mut borders: Vec<(u128, bool, u32)> = vec![];
        for &(first, last, rule) in ranges {
            borders.push((first, true, rule));
            if let Some(behind) = last.checked_add(1) {
                borders.push((behind, false, rule));
            }
        }
        borders.sort_unstable();
        let mut index = Self::default();
        let mut active: Vec<u32> = vec![];
        let mut rest = borders.as_slice();
        while let Some(&(at, ..)) = rest.first() {
            while let Some((&(_, begins, rule), behind)) =
                rest.split_first().filter(|(border, _)| border.0 == at)
            {
                match active.binary_search(&rule) {
                    Err(place) if begins => active.insert(place, rule),
                    Ok(place) if !begins => _ = active.remove(place),
                    _ => {}
                }
                rest = behind;
            }
            index.starts.push(at);
            index.rules.extend_from_slice(&active);
            index.ends.push(index.rules.len() as u32);
        }
        index
    }

    fn rules_of(&self, address: IpAddr) -> &[u32] {
        let at = self.starts.partition_point(|start| *start <= number(address));
        let Some(at) = at.checked_sub(1) else { return &[] };
        let first = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.rules[first as usize..self.ends[at] as usize]
    }
}

impl ByAddress {
    /// The rules that packets between these addresses may match.
    pub fn rules_of(&self, [source, destination]: [IpAddr; 2]) -> impl Iterator<Item = u32> {
        let found = self.source.rules_of(source).iter().chain(self.destination.rules_of(destination));
        found.chain(&self.rest).copied()
    }

    /// The number of rules that each packet may match.
    pub fn rest(&self) -> usize {
        self.rest.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_rules::{Variables, parse};

    #[test]
    fn rules_are_found_by_either_end() {
        let text = "alert ip [1.1.1.1,2.2.2.0/24] any -> any any (sid:1;)\n\
                    alert ip any any -> [2.2.2.2,2001:db8::/64] any (sid:2;)\n\
                    alert ip any any -> any any (sid:3;)\n\
                    alert ip 1.1.1.1 any <> any any (sid:4;)\n\
                    alert ip [1.1.1.0-1.1.1.1] any -> any any (sid:5;)\n";
        let mut collected = Collected::default();
        let rules = parse(text, 0, &Variables::default());
        for (number, parsed) in (0..).zip(&rules) {
            collected.add(number, parsed.rule.as_ref().expect("it is right"));
        }
        let index = collected.build();
        let found = |source: &str, destination: &str| {
            let ends = [source, destination].map(|end| end.parse().expect("an address"));
            let mut rules: Vec<u32> = index.rules_of(ends).collect();
            rules.sort_unstable();
            rules
        };
        assert_eq!(index.rest(), 2);
        assert_eq!(found("1.1.1.1", "9.9.9.9"), [0, 2, 3, 4]);
        assert_eq!(found("1.1.1.0", "9.9.9.9"), [2, 3, 4]);
        assert_eq!(found("2.2.2.255", "2.2.2.2"), [0, 1, 2, 3]);
        assert_eq!(found("2.2.3.0", "2.2.2.3"), [2, 3]);
        assert_eq!(found("2001:db8::1", "2001:db8::ffff"), [1, 2, 3]);
    }
}
