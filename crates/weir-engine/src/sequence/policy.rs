//! Whose bytes count where segments or fragments overlap and differ: as the receiver's system does it.
//!
//! What is asked of two bytes of the same number is only where the two segments begin and end, so a policy is one
//! [`Rule`] for TCP's segments and one for IP's fragments.
//!
//! * U. Shankar, V. Paxson, "Active Mapping: Resisting NIDS Evasion without Altering Traffic", 2003: first, last,
//!   BSD, BSD-right and Linux of fragments.
//! * J. Novak, "Target-Based Fragmentation Reassembly", 2005: Windows and Solaris of fragments.
//! * J. Novak, S. Sturges, "Target-Based TCP Stream Reassembly", 2007: TCP.
//! * Snort 3, `src/stream/tcp/tcp_overlap_resolver.cc` and `src/stream/ip/ip_defrag.cc`, by the same authors;
//!   Suricata, `src/stream-tcp-list.c` and `src/defrag.c`. Which policy a system has for fragments:
//!   Suricata's `DefragGetOsPolicy`, and the table of platforms in Snort 2's manual (frag3).
//!
//! The old segment is asked about as far as it is still kept: systems trim the segments in their lists, as Snort does.
//! (Suricata asks about the whole old one.) The new one is asked about as it came, less what has passed: so do
//! the systems and Suricata, whose test `DefragBsdFragmentAfterNoMf` shows that it matters; Snort asks about what is
//! left of it behind the old one on its left. A FIN is a number like those of bytes.
//!
//! What is not here: where fragments overlap, systems of today drop the whole datagram (Linux since 4.19, Windows since
//! Vista; of IPv6 all, by RFC 5722: in strict mode so do we). Solaris and HP-UX 11 keep the first of two equal segments where the one just before
//! is missing (Snort): that asks for more than two segments. More such cases: L. Aubard and others, "PYROLYSE", 2025.

use std::collections::HashMap;
use std::net::IpAddr;

/// How a system puts together what overlaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Policy {
    /// What came first counts.
    #[default]
    First,
    /// What came last counts.
    Last,
    /// FreeBSD, NetBSD, OpenBSD, AIX.
    Bsd,
    /// HP JetDirect. Named for fragments; TCP as [`Policy::Bsd`], as in Suricata.
    BsdRight,
    /// Linux 2.4 and later.
    Linux,
    /// Linux 2.2 and earlier.
    OldLinux,
    /// Windows before Vista, Windows 2003 included: it differs in neither.
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
    /// Mac OS X 10.3 and later; fragments as Shankar and Paxson found with Mac OS.
    Macos,
}

/// Where the bytes of a new segment count, not those of an old one that are still kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Nowhere.
    Never,
    /// Everywhere.
    Always,
    /// It begins before the old one.
    Before,
    /// It begins before the old one, or with it.
    BeforeOrWith,
    /// It begins before the old one; or with it, and goes on behind it.
    BeforeOrLonger,
    /// It begins before the old one; or with it, and covers it.
    BeforeOrCovers,
    /// It covers the old one, or begins inside it and goes on behind it.
    CoversOrContinues,
    /// It begins before the old one and goes on behind it.
    Surrounds,
    /// It begins before the old one, and covers it.
    BeforeAndCovers,
}

impl Rule {
    /// Whether the new bytes count. Both are ranges of numbers, and overlap.
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
    /// All of them.
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

    /// Its name.
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

    /// The one with this name.
    pub fn named(name: &str) -> Option<Policy> {
        Self::ALL.iter().copied().find(|policy| policy.name() == name)
    }

    /// What holds of TCP's segments.
    pub(crate) fn of_segments(self) -> Rule {
        match self {
            Policy::First | Policy::Vista => Rule::Never,
            Policy::Last => Rule::Always,
            Policy::Bsd | Policy::BsdRight | Policy::Windows | Policy::Macos => Rule::Before,
            // HP-UX 10 and IRIX as Snort has them; in Suricata they are as BSD.
            Policy::Linux | Policy::Hpux10 | Policy::Irix => Rule::BeforeOrLonger,
            Policy::OldLinux => Rule::BeforeOrCovers,
            Policy::Solaris | Policy::Hpux => Rule::CoversOrContinues,
        }
    }

    /// What holds of IP's fragments.
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

/// Which policy each receiver has: that of the longest prefix its address begins with, else a default.
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
    /// By length and first bits, which stand uppermost.
    policies: HashMap<(u8, u128), Policy>,
}

impl Policies {
    /// This policy everywhere.
    pub fn new(default: Policy) -> Self {
        Self { default, ..Self::default() }
    }

    /// Another policy where addresses begin with the first `prefix_length` bits of `address`: with all of them,
    /// where it has no more. In place of what was said of the same prefix before.
    pub fn add(&mut self, address: IpAddr, prefix_length: u8, policy: Policy) {
        let (bits, width) = bits_of(address);
        let length = prefix_length.min(width);
        let prefixes = if address.is_ipv4() { &mut self.v4 } else { &mut self.v6 };
        prefixes.policies.insert((length, first_bits(bits, length)), policy);
        if let Err(at) = prefixes.lengths.binary_search_by(|other| length.cmp(other)) {
            prefixes.lengths.insert(at, length);
        }
    }

    /// The policy of a receiver. A look into a table for every length that prefixes have.
    pub fn of(&self, receiver: IpAddr) -> Policy {
        let prefixes = if receiver.is_ipv4() { &self.v4 } else { &self.v6 };
        let (bits, _) = bits_of(receiver);
        let mut lengths = prefixes.lengths.iter();
        let found = lengths.find_map(|&length| prefixes.policies.get(&(length, first_bits(bits, length))));
        found.copied().unwrap_or(self.default)
    }

    /// The policy of all receivers, where they have the same: nobody's address need be known.
    #[inline]
    pub fn uniform(&self) -> Option<Policy> {
        (self.v4.lengths.is_empty() && self.v6.lengths.is_empty()).then_some(self.default)
    }
}

/// An address's bits, the first one uppermost, and how many there are.
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
