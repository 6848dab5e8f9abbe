//! Numbers on the command line: `4`, `5m`, `10k`, `512M`, `FILTER:10k`. Error messages say what is expected,
//! with an example.

use crate::messages::failure::Failure;
use std::fmt::Display;
use std::ops::RangeFrom;
use std::time::{SystemTime, UNIX_EPOCH};
use weir::SAMPLES;
use weir::io::human;
use weir::lang::filter::time_of;
use weir::packet::Timestamp;

/// A whole number in this range; `example` is shown in errors.
pub fn number<T>(text: &str, range: RangeFrom<T>, example: T) -> Result<T, String>
where
    T: std::str::FromStr + PartialOrd + Display + Bounds,
{
    text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        format!("give a whole number from {} to {}, for example {example}", range.start, T::LARGEST)
    })
}

/// Integer types.
pub trait Bounds {
    /// The largest value.
    const LARGEST: Self;
}

impl Bounds for u16 {
    const LARGEST: Self = Self::MAX;
}

impl Bounds for usize {
    const LARGEST: Self = Self::MAX;
}

impl Bounds for u64 {
    const LARGEST: Self = Self::MAX;
}

/// A duration in seconds: a number with `ms`, `s`, `m`, `h` or `d`; seconds without a unit.
pub fn seconds(text: &str) -> Result<f64, String> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];
    let of_unit = |(unit, seconds)| Some((text.strip_suffix(unit)?, seconds));
    let (digits, unit) = units.into_iter().find_map(of_unit).unwrap_or((text, 1.0));
    let number = digits.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number
        .map(|number| number * unit)
        .ok_or_else(|| "give a time, for example 300, 1.5s, 500ms, 5m, 1h or 30d".to_string())
}

/// A time: `14:02` (today, UTC), `2026-11-26 14:02:03.5`, seconds since 1970, or `-5m`, before now.
pub fn moment(text: &str) -> Result<Timestamp, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
    if let Some(before) = text.strip_prefix('-') {
        let before = (seconds(before)? * 1e9) as i64;
        return Ok(Timestamp(now.saturating_sub(before)));
    }
    let is_clock = text.as_bytes().get(..2).is_some_and(|hour| hour[0].is_ascii_digit())
        && text.find(':').is_some_and(|at| at <= 2);
    let today = || human::moment(Timestamp(now)).split_once(' ').map(|(day, _)| day.to_string());
    let whole = match today().filter(|_| is_clock) {
        Some(day) => format!("{day} {text}"),
        None => text.to_string(),
    };
    let example = "for example 14:02, \"2026-11-26 14:02:03\" (in UTC), or -5m (before now)";
    time_of(&whole).ok_or_else(|| format!("give a time, {example}"))
}

/// Seconds between two reports: from 1 s to 24 h.
pub fn interval(text: &str) -> Result<f64, String> {
    let seconds = seconds(text)?;
    let is_possible = (1.0..=86_400.0).contains(&seconds);
    if is_possible { Ok(seconds) } else { Err("give a time from 1s to 24h, for example 10s".to_string()) }
}

/// A share such as 1/8, in 65536ths.
pub fn share(text: &str) -> Result<u32, String> {
    let of = || {
        let (part, whole) = text.split_once('/')?;
        let (part, whole): (u32, u32) = (part.trim().parse().ok()?, whole.trim().parse().ok()?);
        let share = u64::from(part) * SAMPLES / u64::from(whole.max(1));
        (0 < part && part <= whole && share > 0).then_some(share as u32)
    };
    of().ok_or_else(|| "give a share from 1/65536 to 1/1, for example 1/8".to_string())
}

/// A number of bytes; `k`, `M` and `G` stand for powers of 1024.
pub fn bytes(option: &str, text: &str) -> Result<u64, Failure> {
    let shown = if text.is_empty() { "''" } else { text };
    let wrong = || {
        Failure::new(format!("{option} {shown}: give a number of bytes, for example 1500, 10k, 512M or 2G"))
    };
    let (digits, unit) = match text.char_indices().last().ok_or_else(wrong)? {
        (at, 'k' | 'K') => (&text[..at], 1u64 << 10),
        (at, 'm' | 'M') => (&text[..at], 1 << 20),
        (at, 'g' | 'G') => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(unit).ok_or_else(wrong)
}

/// Splits a filter and its quantity at the last colon; without a colon there is no filter. A filter may end
/// in an IPv6 address, but then the text after its last colon is no quantity.
pub fn classified(text: &str) -> (Option<&str>, &str) {
    match text.rsplit_once(':') {
        Some((filter, quantity)) => (Some(filter.trim()), quantity.trim()),
        None => (None, text.trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        let read = |text| bytes("--x", text).ok();
        assert_eq!(
            ["0", "1500", "10k", "16K", "512M", "2G"].map(read),
            [0, 1500, 10240, 16384, 512 << 20, 2 << 30].map(Some)
        );
        assert_eq!(["", "k", "10x", "-1", "1.5k", "99999999999G"].map(read), [None; 6]);
    }

    #[test]
    fn times_have_units_and_are_not_negative() {
        let read = |text| seconds(text).ok();
        assert_eq!(
            ["0", "300", "1.5", "300s", "5m", "2h", "250ms", "0.5m", "2d"].map(read),
            [0.0, 300.0, 1.5, 300.0, 300.0, 7200.0, 0.25, 30.0, 172_800.0].map(Some)
        );
        assert_eq!(["", "m", "-1", "-5m", "nan", "inf", "5 m", "5w", "1e999", "ms"].map(read), [None; 10]);
    }

    #[test]
    fn numbers_are_of_their_range() {
        assert_eq!(
            ["1", "0", "-1", "", "x", "99999999999999999999"].map(|n| number(n, 1.., 4usize).ok()),
            [Some(1), None, None, None, None, None]
        );
        let refused = number("70000", 0.., 24u16).unwrap_err();
        assert_eq!(refused, "give a whole number from 0 to 65535, for example 24");
    }

    #[test]
    fn a_class_is_what_stands_before_the_last_colon() {
        assert_eq!(classified("10k"), (None, "10k"));
        assert_eq!(classified("tcp.port == 443: 1k"), (Some("tcp.port == 443"), "1k"));
        assert_eq!(classified("ipv6.addr == ::1:9"), (Some("ipv6.addr == ::1"), "9"));
    }
}
