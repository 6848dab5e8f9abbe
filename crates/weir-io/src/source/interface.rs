//! Interfaces as described in captures.

use std::fmt;
use std::sync::Arc;
use weir_packet::LinkType;

/// pcapng's option with the name of an interface.
const IF_NAME: u16 = 2;

/// An interface of a capture file: described by a pcapng block, or by the pcap header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The file with the description, as the user named it.
    pub file: Arc<str>,
    /// The name, for instance `eth0`; empty if the file has none. Limited to 256 bytes.
    pub name: String,
    /// Link type of its packets.
    pub link: LinkType,
    /// Limit of bytes captured per packet according to the file, which may be wrong; 0: no limit.
    pub snaplen_bytes: u32,
    /// The unit of timestamps.
    pub resolution: TimeResolution,
    /// Bytes of the frame check sequence at the end of each packet, if the file says so.
    pub fcs_bytes: Option<u8>,
    /// Further pcapng metadata; `None` for interfaces of other captures.
    pub description: Option<Description>,
}

impl Interface {
    /// The interface of a link, whose packets have times in nanoseconds.
    pub fn of_link(name: &str, link: LinkType) -> Self {
        let length = u16::try_from(name.len()).unwrap_or(u16::MAX);
        let value = &name.as_bytes()[..usize::from(length)];
        let padding = vec![0; value.len().next_multiple_of(4) - value.len()];
        let options = [&IF_NAME.to_le_bytes()[..], &length.to_le_bytes(), value, &padding].concat();
        Self {
            file: name.into(),
            name: name.to_string(),
            link,
            snaplen_bytes: 0,
            resolution: TimeResolution::NANOSECONDS,
            fcs_bytes: None,
            description: Some(Description { options: options.into(), section: Arc::default() }),
        }
    }
}

/// The options of an interface's pcapng block and of its section, for pcapng writers. Options are
/// little-endian, without the end marker; those beyond the limits are left out
/// ([`Found::options_cut`](super::Found::options_cut)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Options of the interface (name, description, addresses, filter …) except `if_tsresol` and
    /// `if_tsoffset`, which describe the form of timestamps.
    pub options: Arc<[u8]>,
    /// Options of the section (comments, hardware, operating system, application).
    pub section: Arc<[u8]>,
}

/// The unit of an interface's timestamps, as in pcapng's `if_tsresol`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimeResolution {
    /// 10 to the power of minus this many seconds.
    Decimal(u8),
    /// 2 to the power of minus this many seconds.
    Binary(u8),
}

impl TimeResolution {
    /// Microseconds: the unit of pcap, and the default of pcapng.
    pub const MICROSECONDS: Self = Self::Decimal(6);
    /// Nanoseconds.
    pub const NANOSECONDS: Self = Self::Decimal(9);

    /// The resolution for the value of an `if_tsresol` option.
    pub fn from_option(value: u8) -> Self {
        if value & 0x80 == 0 { Self::Decimal(value) } else { Self::Binary(value & 0x7f) }
    }
}

impl fmt::Display for TimeResolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decimal(0) => f.write_str("1 s"),
            Self::Decimal(3) => f.write_str("1 ms"),
            Self::Decimal(6) => f.write_str("1 us"),
            Self::Decimal(9) => f.write_str("1 ns"),
            Self::Decimal(n) => write!(f, "10^-{n} s"),
            Self::Binary(n) => write!(f, "2^-{n} s"),
        }
    }
}

/// The conversion of ticks to nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Times(u64),
    Over(u64),
    Shifted(u32),
}

impl Scale {
    pub fn of(resolution: TimeResolution) -> Self {
        match resolution {
            TimeResolution::Decimal(n @ 0..=9) => Self::Times(10u64.pow(9 - u32::from(n))),
            // If 64 bits of ticks are less than a nanosecond, the divisor is the largest number.
            TimeResolution::Decimal(n) => Self::Over(10u64.checked_pow(u32::from(n) - 9).unwrap_or(u64::MAX)),
            TimeResolution::Binary(n) => Self::Shifted(u32::from(n)),
        }
    }

    /// The nanoseconds in `ticks`, rounded down and saturated.
    #[inline(always)]
    pub fn nanoseconds(self, ticks: u64) -> i64 {
        let ns = match self {
            Self::Times(factor) => ticks.saturating_mul(factor),
            Self::Over(divisor) => ticks / divisor,
            // 2^64 * 10^9 fits 94 bits, and a shift is at most 127.
            Self::Shifted(bits) => {
                u64::try_from((u128::from(ticks) * 1_000_000_000) >> bits).unwrap_or(u64::MAX)
            }
        };
        i64::try_from(ns).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_the_option_has_a_scale() {
        for value in 0..=255u8 {
            let resolution = TimeResolution::from_option(value);
            let scale = Scale::of(resolution);
            assert!(scale.nanoseconds(u64::MAX) >= scale.nanoseconds(1), "{resolution}");
            assert_eq!(scale.nanoseconds(0), 0);
        }
    }

    #[test]
    fn units_become_nanoseconds() {
        let ns = |value, ticks| Scale::of(TimeResolution::from_option(value)).nanoseconds(ticks);
        assert_eq!(ns(6, 1_500_000), 1_500_000_000);
        assert_eq!(ns(9, 7), 7);
        assert_eq!(ns(12, 7_999), 7);
        assert_eq!(ns(0, 2), 2_000_000_000);
        assert_eq!(ns(0x80 | 10, 512), 500_000_000);
        assert_eq!(ns(0x80 | 32, 3 << 31), 1_500_000_000);
        assert_eq!(ns(6, u64::MAX), i64::MAX, "saturated");
    }
}
