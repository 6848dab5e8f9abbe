//! Time of capture.

use std::fmt;

/// A point in time: nanoseconds since 1970-01-01T00:00:00 UTC, leap seconds not counted.
///
/// Captures may hold times before 1970 or after 2262; readers saturate them to this range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The earliest time; also stands for an unknown time.
    pub const MIN: Self = Self(i64::MIN);

    /// The time `seconds` and `nanoseconds` after 1970, saturated to the range of the type.
    pub fn from_parts(seconds: i64, nanoseconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds))
    }

    /// Year, month, day, hour, minute and second in the Gregorian calendar, UTC.
    pub fn utc(self) -> [i64; 6] {
        let seconds = self.0.div_euclid(1_000_000_000);
        let second = seconds.rem_euclid(86_400);
        // Howard Hinnant's `civil_from_days`: eras of 400 years, with years that begin in March.
        let days = seconds.div_euclid(86_400) + 719_468;
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        [year, month, day, second / 3_600, second / 60 % 60, second % 60]
    }

    /// Nanoseconds from `earlier` to `self`; 0 if `earlier` is later.
    pub fn since_ns(self, earlier: Self) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }
}

impl fmt::Display for Timestamp {
    /// Seconds and a six-digit fraction, as Zeek writes `ts`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.div_euclid(1_000);
        write!(f, "{}.{:06}", micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_seconds_and_micros() {
        assert_eq!(Timestamp::from_parts(12, 345_678_901).to_string(), "12.345678");
        assert_eq!(Timestamp::from_parts(i64::MAX, 0).0, i64::MAX);
    }

    #[test]
    fn difference_never_underflows() {
        assert_eq!(Timestamp(5).since_ns(Timestamp(9)), 0);
        assert_eq!(Timestamp(9).since_ns(Timestamp(5)), 4);
    }
}
