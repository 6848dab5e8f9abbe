//! Decides which bytes win if segments or fragments overlap and differ, in the way of the receiver's system.
//!
//! For two bytes of the same number, the decision depends only on where the two segments begin and end. A
//! policy is therefore one [`Rule`] for TCP segments and one for IP fragments.
//!
//! * U. Shankar, V. Paxson, "Active Mapping: Resisting NIDS Evasion without Altering Traffic", 2003: first,
//!   last, BSD, BSD-right and Linux of fragments.
//! * J. Novak, "Target-Based Fragmentation Reassembly", 2005: Windows and Solaris of fragments.
//! * J. Novak, S. Sturges, "Target-Based TCP Stream Reassembly", 2007: TCP.
//! * Snort 3, `src/stream/tcp/tcp_overlap_resolver.cc` and `src/stream/ip/ip_defrag.cc`, by the same authors;
//!   Suricata, `src/stream-tcp-list.c` and `src/defrag.c`. The policies of systems for fragments: Suricata's
//!   `DefragGetOsPolicy`, and the table of platforms in Snort 2's manual (frag3).
//!
//! The rule is applied to the kept part of the old segment: systems trim the segments in their lists, as
//! Snort does. (Suricata uses the whole old segment.) It is applied to the new segment as it arrived, without
//! the part that has passed, as in real systems and in Suricata, whose test `DefragBsdFragmentAfterNoMf`
//! shows that this matters. Snort uses the rest of the new segment after the old one on its left has been
//! applied. A FIN uses a sequence number like a byte.
//!
//! Not covered: today's systems drop a datagram whose fragments overlap (Linux since 4.19, Windows since
//! Vista; all for IPv6, by RFC 5722; strict mode does so, too). Solaris and HP-UX 11 keep the first of two
//! equal segments if the one just before is missing (Snort), which depends on more than two segments. More
//! such cases: L. Aubard and others, "PYROLYSE", 2025.

use std::collections::HashMap;
use std::net::IpAddr;

/// How a system reassembles overlapping segments or fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Policy {
    /// The first bytes win.
    #[default]
    First,
    /// The last bytes win.
    Last,
    /// FreeBSD, NetBSD, OpenBSD, AIX.
    Bsd,
    /// HP JetDirect. Named for fragments; TCP as [`Policy::Bsd`], as in Suricata.
    BsdRight,
    /// Linux 2.4 and later.
    Linux,
    /// Linux 2.2 and earlier.
    OldLinux,
    /// Windows before Vista, including Windows 2003. These versions do not differ.
    Windows,
    /// Windows Vista and later.
    Vista,
    /// Solaris 9 and later.
    Solaris,
    /// HP-UX 11.
    Hpux,
    /// HP-UX 10.
    Hpux10,
    /// IRIX 6.
    Irix,
    /// Mac OS X 10.3 and later. The rule for fragments is from Shankar and Paxson's measurements of Mac OS.
    Macos,
}

/// The condition under which the bytes of a new segment replace the kept bytes of an old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Never.
    Never,
    /// Always.
    Always,
    /// The new segment begins before the old one.
    Before,
    /// The new segment begins before the old one, or with it.
    BeforeOrWith,
    /// The new segment begins before the old one, or begins with it and extends beyond it.
    BeforeOrLonger,
    /// The new segment begins before the old one, or begins with it and covers it.
    BeforeOrCovers,
    /// The new segment covers the old one, or begins inside it and extends beyond it.
    CoversOrContinues,
    /// The new segment begins before the old one and extends beyond it.
    Surrounds,
    /// The new segment begins before the old one and covers it.
    BeforeAndCovers,
}

impl Rule {
    /// Whether the new bytes win. `old` and `new` are overlapping ranges of numbers.
    pub(super) fn new_counts(self, old: (u64, u64), new: (u64, u64)) -> bool {
        let ((old_start, old_end), (new_start, new_end)) = (old, new);
        let (before, with) = (new_start < old_start, new_start == old_start);
        match self {
            Rule::Never => false,
            Rule::Always => true,
            Rule::Before => before,
            Rule::BeforeOrWith => before || with,
            Rule::BeforeOrLonger => before || with && new_end > old_end,
            Rule::BeforeOrCovers => before || with && new_end >= old_end,
            Rule::CoversOrContinues if before || with => new_end >= old_end,
            Rule::CoversOrContinues => new_end > old_end,
            Rule::Surrounds => before && new_end > old_end,
            Rule::BeforeAndCovers => before && new_end >= old_end,
        }
    }
}

impl Policy {
    /// All policies.
    pub const ALL: &[Policy] = &[
        Policy::First,
        Policy::Last,
        Policy::Bsd,
        Policy::BsdRight,
        Policy::Linux,
        Policy::OldLinux,
        Policy::Windows,
        Policy::Vista,
        Policy::Solaris,
        Policy::Hpux,
        Policy::Hpux10,
        Policy::Irix,
        Policy::Macos,
    ];

    /// The name of the policy.
    pub fn name(self) -> &'static str {
        match self {
            Policy::First => "first",
            Policy::Last => "last",
            Policy::Bsd => "bsd",
            Policy::BsdRight => "bsd-right",
            Policy::Linux => "linux",
            Policy::OldLinux => "old-linux",
            Policy::Windows => "windows",
            Policy::Vista => "vista",
            Policy::Solaris => "solaris",
            Policy::Hpux => "hpux",
            Policy::Hpux10 => "hpux10",
            Policy::Irix => "irix",
            Policy::Macos => "macos",
        }
    }

    /// The policy with this name.
    pub fn named(name: &str) -> Option<Policy> {
        Self::ALL.iter().copied().find(|policy| policy.name() == name)
    }

    /// The rule for TCP segments.
    pub(crate) fn of_segments(self) -> Rule {
        match self {
            Policy::First | Policy::Vista => Rule::Never,
            Policy::Last => Rule::Always,
            Policy::Bsd | Policy::BsdRight | Policy::Windows | Policy::Macos => Rule::Before,
            // HP-UX 10 and IRIX follow Snort; Suricata treats them like BSD.
            Policy::Linux | Policy::Hpux10 | Policy::Irix => Rule::BeforeOrLonger,
            Policy::OldLinux => Rule::BeforeOrCovers,
            Policy::Solaris | Policy::Hpux => Rule::CoversOrContinues,
        }
    }

    /// The rule for IP fragments.
    pub(crate) fn of_fragments(self) -> Rule {
        match self {
            Policy::First | Policy::Hpux | Policy::Macos => Rule::Never,
            Policy::Last => Rule::Always,
            Policy::Bsd | Policy::Hpux10 | Policy::Irix => Rule::Before,
            Policy::BsdRight => Rule::CoversOrContinues,
            Policy::Linux | Policy::OldLinux => Rule::BeforeOrWith,
            Policy::Windows | Policy::Vista => Rule::Surrounds,
            Policy::Solaris => Rule::BeforeAndCovers,
        }
    }
}

/// The policy of each receiver: the policy of the longest prefix that matches the receiver's address, else a
/// default.
///
/// The default of the type is [`Policy::First`] everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policies {
    default: Policy,
    v4: Prefixes,
    v6: Prefixes,
}

/// Prefixes of one family's addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Prefixes {
    /// Their lengths, the longest first.
    lengths: Vec<u8>,
    /// By length and leading bits; these are the most significant bits.
    policies: HashMap<(u8, u128), Policy>,
}

impl Policies {
    /// The same policy for all receivers.
    pub fn new(default: Policy) -> Self {
        Self { default, ..Self::default() }
    }

    /// Sets the policy of addresses that begin with the first `prefix_length` bits of `address`, or with all
    /// its bits if it has fewer. Replaces an earlier policy of the same prefix.
    pub fn add(&mut self, address: IpAddr, prefix_length: u8, policy: Policy) {
        let (bits, width) = bits_of(address);
        let length = prefix_length.min(width);
        let prefixes = if address.is_ipv4() { &mut self.v4 } else { &mut self.v6 };
        prefixes.policies.insert((length, first_bits(bits, length)), policy);
        if let Err(at) = prefixes.lengths.binary_search_by(|other| length.cmp(other)) {
            prefixes.lengths.insert(at, length);
        }
    }

    /// The policy of a receiver. Takes one table lookup per distinct prefix length.
    pub fn of(&self, receiver: IpAddr) -> Policy {
        let prefixes = if receiver.is_ipv4() { &self.v4 } else { &self.v6 };
        let (bits, _) = bits_of(receiver);
        let mut lengths = prefixes.lengths.iter();
        let found = lengths.find_map(|&length| prefixes.policies.get(&(length, first_bits(bits, length))));
        found.copied().unwrap_or(self.default)
    }

    /// The policy of all receivers, if they share one: addresses need not be known then.
    #[inline]
    pub fn uniform(&self) -> Option<Policy> {
        (self.v4.lengths.is_empty() && self.v6.lengths.is_empty()).then_some(self.default)
    }
}

/// The bits of an address, with the first bit as the most significant, and the number of bits.
fn bits_of(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

fn first_bits(bits: u128, length: u8) -> u128 {
    bits & u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn policies_are_found_by_their_names() {
        for &policy in Policy::ALL {
            assert_eq!(Policy::named(policy.name()), Some(policy));
        }
        assert_eq!(Policy::ALL.len(), 13);
        assert_eq!((Policy::named("bsd-right"), Policy::named("BSD")), (Some(Policy::BsdRight), None));
    }

    #[test]
    fn the_longest_prefix_counts() {
        let mut policies = Policies::new(Policy::Windows);
        assert_eq!(policies.uniform(), Some(Policy::Windows));
        policies.add(address("10.0.0.0"), 8, Policy::Linux);
        policies.add(address("10.1.2.3"), 32, Policy::Solaris);
        policies.add(address("10.1.0.0"), 16, Policy::Bsd);
        assert_eq!(policies.uniform(), None);
        let found =
            ["10.1.2.3", "10.1.2.4", "10.2.0.1", "11.0.0.1", "::ffff:1"].map(|a| policies.of(address(a)));
        assert_eq!(found, [Policy::Solaris, Policy::Bsd, Policy::Linux, Policy::Windows, Policy::Windows]);
        policies.add(address("10.1.77.77"), 16, Policy::Irix);
        assert_eq!(policies.of(address("10.1.2.4")), Policy::Irix, "the same prefix");
    }

    #[test]
    fn prefixes_of_one_family_say_nothing_of_the_other() {
        let mut policies = Policies::default();
        policies.add(address("0.0.0.0"), 0, Policy::Last);
        assert_eq!(
            (policies.of(address("1.2.3.4")), policies.of(address("::1"))),
            (Policy::Last, Policy::First)
        );
        policies.add(address("2001:db8::"), 32, Policy::Macos);
        policies.add(address("2001:db8::7"), 200, Policy::Hpux);
        let found = ["2001:db8::7", "2001:db8::8", "2001:db9::7"].map(|a| policies.of(address(a)));
        assert_eq!(found, [Policy::Hpux, Policy::Macos, Policy::First]);
    }
}
