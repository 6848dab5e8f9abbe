//! Why a packet was not delivered: one declared table, one counter per reason.

macro_rules! drop_reasons {
    ($($name:ident, $label:literal, $text:literal;)*) => {
        /// Why a packet (or bytes of it) did not reach a subscriber. This is an outcome, not an error.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum DropReason {
            $(#[doc = $text] $name,)*
        }

        impl DropReason {
            /// Every reason, in the order of their numbers.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$name,)*];

            /// The name used in counters and in output (`snake_case`).
            pub fn label(self) -> &'static str {
                match self { $(DropReason::$name => $label,)* }
            }

            /// One sentence of description.
            pub fn doc(self) -> &'static str {
                match self { $(DropReason::$name => $text,)* }
            }
        }
    };
}

drop_reasons! {
    Truncated, "truncated", "The capture cut the packet (snaplen) inside a header that the question needs.";
    Malformed, "malformed", "A header does not fit its enclosing layer, or breaks a rule of its protocol.";
    UnknownLink, "unknown_link", "The link type of the interface is not one that the stack starts from.";
    NestingLimit, "nesting_limit", "More repetitions of a layer than the stack allows.";
    FlowLimit, "flow_limit", "The flow table was full.";
    FragmentWaiting, "fragment_waiting", "A fragment that waits for others; its bytes count with the packet that completes the datagram.";
    FragmentLimit, "fragment_limit", "The bound on fragments of one datagram, or on bytes held for fragments, was reached.";
}

impl DropReason {
    /// The reason whose number is `number`, if there is one.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// A counter per drop reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drops([u64; DropReason::ALL.len()]);

impl Drops {
    /// Counts one packet dropped for `reason`.
    pub fn count(&mut self, reason: DropReason) {
        self.count_many(reason, 1);
    }

    /// Counts so many packets that were dropped for `reason`.
    #[inline]
    pub fn count_many(&mut self, reason: DropReason, packets: u64) {
        self.0[reason as usize] += packets;
    }

    /// The number of packets dropped for `reason`.
    pub fn of(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// The number of packets for each reason, in the order of [`DropReason::ALL`].
    pub fn counts(&self) -> [u64; DropReason::ALL.len()] {
        self.0
    }

    /// All packets dropped, for any reason.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds another worker's counters to these.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// The reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|&r| (r, self.of(r))).filter(|&(_, n)| n > 0)
    }
}
