//! Parses constants by type. The printer's counterpart; independent of fields and spans.

use std::net::{Ipv4Addr, Ipv6Addr};
use weir_packet::Timestamp;

/// Why a text is not a constant of the requested type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The text has the form of another type.
    Type,
    /// The text has the right form but is invalid: the mistake, and the remedy.
    Malformed(String, String),
    /// The value is out of range.
    Range(String),
}

fn malformed<T>(message: impl Into<String>, help: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Malformed(message.into(), help.into()))
}

/// The apparent type of a word, for messages.
pub(crate) fn describe_word(word: &str) -> &'static str {
    let digit = |byte: u8| byte.is_ascii_digit();
    if parse_number(word).is_ok() || word.strip_prefix('-').is_some_and(|rest| rest.bytes().all(digit)) {
        "a number"
    } else if parse_ipv4(word).is_ok() {
        if word.contains('/') { "an IPv4 prefix" } else { "an IPv4 address" }
    } else if parse_mac(word).is_ok() {
        "a MAC address"
    } else if parse_ipv6(word).is_ok() {
        if word.contains('/') { "an IPv6 prefix" } else { "an IPv6 address" }
    } else if word.contains(':') && parse_bytes(word).is_ok() {
        "bytes"
    } else if parse_interval(word).is_ok() {
        if word.ends_with(|c: char| c.is_alphabetic()) { "a duration" } else { "a fraction" }
    } else if parse_time(word).is_ok() {
        "a time"
    } else {
        "a word"
    }
}

/// `443`, `0x1bb`, `0o673`, `0b110111011`.
pub(crate) fn parse_number(word: &str) -> Result<u64, Fault> {
    if let Some(rest) = word.strip_prefix('-')
        && rest.starts_with(|c: char| c.is_ascii_digit())
    {
        return Err(Fault::Range("no value is negative".to_string()));
    }
    let lower = word.to_ascii_lowercase();
    for (prefix, radix, name) in [("0x", 16, "hexadecimal"), ("0o", 8, "octal"), ("0b", 2, "binary")] {
        if let Some(digits) = lower.strip_prefix(prefix) {
            if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
                return malformed(
                    format!("`{word}` is no {name} number"),
                    format!("after `{prefix}` come {name} digits"),
                );
            }
            return u64::from_str_radix(digits, radix).map_err(|_| too_large(word));
        }
    }
    if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Fault::Type);
    }
    if word.len() > 1 && word.starts_with('0') {
        // Octal in C and in Wireshark, decimal elsewhere: ambiguous, and therefore rejected.
        let digits = word.trim_start_matches('0');
        let decimal = if digits.is_empty() { "0" } else { digits };
        return malformed(
            format!("`{word}`: decimal or octal?"),
            format!("write `{decimal}`, or `0o{decimal}` if it is octal"),
        );
    }
    word.parse().map_err(|_| too_large(word))
}

fn too_large(word: &str) -> Fault {
    Fault::Range(format!("`{word}` has more than 64 bits"))
}

/// `true`, `false`, `1`, `0`.
pub(crate) fn parse_bool(word: &str) -> Result<u64, Fault> {
    match word.to_ascii_lowercase().as_str() {
        "true" => Ok(1),
        "false" => Ok(0),
        _ => match parse_number(word)? {
            number @ 0..=1 => Ok(number),
            _ => Err(Fault::Range("a flag is 0 or 1".to_string())),
        },
    }
}

/// `10.0.0.1`, `10.0.0.0/8` or `10/8`: an address and its prefix length.
pub(crate) fn parse_ipv4(word: &str) -> Result<(Ipv4Addr, u8), Fault> {
    let (address, prefix) = word.split_once('/').map_or((word, None), |(a, p)| (a, Some(p)));
    if address.is_empty() || !address.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(Fault::Type);
    }
    if prefix.is_none() && !address.contains('.') {
        return Err(Fault::Type);
    }
    // A prefix may be short: `23.246.0/18`.
    let missing = 4usize.saturating_sub(address.split('.').count());
    let whole = match prefix {
        Some(_) => format!("{address}{}", ".0".repeat(missing)),
        None => address.to_string(),
    };
    match whole.parse() {
        Ok(address) => Ok((address, parse_prefix(prefix, 32)?)),
        Err(_) if address.split('.').count() < 4 => {
            let address = address.trim_end_matches('.');
            let parts = address.split('.').count();
            let (zeros, whole) = (".0".repeat(4 - parts), (parts * 8).to_string());
            let help = format!("write `{address}{zeros}/{}`", prefix.unwrap_or(&whole));
            malformed(format!("`{word}` is no IPv4 address: it has fewer than four parts"), help)
        }
        Err(_) => malformed(
            format!("`{word}` is no IPv4 address"),
            "four numbers up to 255 without leading zeros: `192.0.2.1`",
        ),
    }
}

/// `fe80::1` or `fe80::/10`.
pub(crate) fn parse_ipv6(word: &str) -> Result<(Ipv6Addr, u8), Fault> {
    let (address, prefix) = word.split_once('/').map_or((word, None), |(a, p)| (a, Some(p)));
    let plausible = |byte: u8| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.';
    if !address.contains(':') || !address.bytes().all(plausible) {
        return Err(Fault::Type);
    }
    match address.parse() {
        Ok(address) => Ok((address, parse_prefix(prefix, 128)?)),
        Err(_) if parse_mac(word).is_ok() => Err(Fault::Type),
        Err(_) => malformed(
            format!("`{word}` is no IPv6 address"),
            "eight groups of up to four digits, `::` for a run of zeros: `2001:db8::1`",
        ),
    }
}

fn parse_prefix(prefix: Option<&str>, max: u8) -> Result<u8, Fault> {
    let Some(prefix) = prefix else { return Ok(max) };
    match prefix.parse::<u8>() {
        Ok(bits) if bits <= max && !prefix.starts_with('+') => Ok(bits),
        _ => malformed(
            format!("`/{prefix}` is no prefix length"),
            format!("a prefix length is the number of leading bits that count: `/0` to `/{max}`"),
        ),
    }
}

/// `aa:bb:cc:dd:ee:ff`, with `-`, or `aabb.ccdd.eeff`.
pub(crate) fn parse_mac(word: &str) -> Result<Vec<u8>, Fault> {
    let dotted = word.len() == 14 && word.split('.').all(|part| part.len() == 4);
    let bytes = if dotted { parse_bytes(&word.replace('.', "")) } else { parse_separated(word) };
    match bytes {
        Ok(bytes) if bytes.len() == 6 => Ok(bytes),
        Ok(bytes) => malformed(
            format!("a MAC address has 6 bytes, `{word}` has {}", bytes.len()),
            "to compare the first bytes only, take a slice: `eth.src[0:3] == 00:1b:21`",
        ),
        Err(_) => Err(Fault::Type),
    }
}

/// Pairs of digits separated by `:` or `-`.
fn parse_separated(word: &str) -> Result<Vec<u8>, Fault> {
    let separator = if word.contains('-') { '-' } else { ':' };
    if !word.contains(separator) {
        return Err(Fault::Type);
    }
    word.split(separator).map(parse_byte).collect()
}

fn parse_byte(pair: &str) -> Result<u8, Fault> {
    if pair.is_empty() || pair.len() > 2 || !pair.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Fault::Type);
    }
    u8::from_str_radix(pair, 16).map_err(|_| Fault::Type)
}

/// `aa:bb:cc`, `aa-bb-cc`, `aabbcc`, `0xaabbcc`.
pub(crate) fn parse_bytes(word: &str) -> Result<Vec<u8>, Fault> {
    if let Ok(bytes) = parse_separated(word) {
        return Ok(bytes);
    }
    let digits = word.strip_prefix("0x").unwrap_or(word);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Fault::Type);
    }
    if digits.len() % 2 == 1 {
        return malformed(
            format!("`{word}` has an odd number of digits"),
            "a byte has two hexadecimal digits: `0a:ff`",
        );
    }
    (0..digits.len()).step_by(2).map(|at| parse_byte(&digits[at..at + 2])).collect()
}

/// `1.5`, `1.5s`, `100ms`, `2m` in nanoseconds; a bare number is seconds.
pub(crate) fn parse_interval(word: &str) -> Result<u64, Fault> {
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let (number, unit) = word.split_at(end);
    let unit_ns: u64 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ if word.starts_with('-') && word.len() > 1 => {
            return Err(Fault::Range("no duration is negative".to_string()));
        }
        _ if number.is_empty() => return Err(Fault::Type),
        _ => {
            return malformed(
                format!("`{unit}` is no unit of time"),
                "units are ns, us, ms, s, m, h, d; a bare number is seconds",
            );
        }
    };
    scale(number, unit_ns)
}

/// A decimal number times `unit_ns`.
fn scale(number: &str, unit_ns: u64) -> Result<u64, Fault> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(Fault::Type);
    }
    if fraction.len() > 18 {
        return malformed(format!("`{number}` has too many digits"), "nanoseconds are the finest unit");
    }
    let large = || Fault::Range(format!("`{number}` is more than 584 years"));
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| large())? };
    let part: u64 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| Fault::Type)? };
    let ns = u128::from(whole) * u128::from(unit_ns)
        + u128::from(part) * u128::from(unit_ns) / 10u128.pow(fraction.len() as u32);
    u64::try_from(ns).map_err(|_| large())
}

/// The time of a text in the form of filters: `2026-11-21 02:00:00.5Z` (UTC without an offset), the day
/// alone, or seconds since 1970.
pub fn time_of(text: &str) -> Option<Timestamp> {
    i64::try_from(parse_time(text).ok()?).ok().map(Timestamp)
}

/// `2026-11-21 02:00:00.5Z` (UTC without an offset), the day alone, or seconds since 1970; in nanoseconds.
pub(crate) fn parse_time(text: &str) -> Result<u64, Fault> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return scale(text, 1_000_000_000);
    }
    if text.len() < 10 || !text.is_ascii() || text.as_bytes()[4] != b'-' {
        return Err(Fault::Type);
    }
    let wrong = || {
        Fault::Malformed(
            format!("`{text}` is not a time"),
            "write it as `\"2026-11-21 02:00:00\"`, in UTC, or as seconds since 1970".to_string(),
        )
    };
    let (day, clock) = text.split_at(10);
    let clock = clock.trim_start_matches(['T', 't', ' ']);
    let mut parts = day.split('-').map(|part| digits(part, 4));
    let (year, month, day) = (
        parts.next().flatten().ok_or_else(wrong)?,
        parts.next().flatten().ok_or_else(wrong)?,
        parts.next().flatten().ok_or_else(wrong)?,
    );
    let (clock, offset) = split_offset(clock).ok_or_else(wrong)?;
    let mut parts = clock.splitn(3, ':');
    let (hour, minute, second_ns) = match parts.next() {
        Some("") | None => (0, 0, 0),
        Some(hour) => (
            digits(hour, 2).ok_or_else(wrong)?,
            parts.next().and_then(|part| digits(part, 2)).ok_or_else(wrong)?,
            parts.next().map_or(Ok(0), |part| scale(part, 1_000_000_000)).map_err(|_| wrong())?,
        ),
    };
    let month_valid = (1..=12).contains(&month) && day >= 1 && day <= days_of_month(year, month);
    if !month_valid || hour > 23 || minute > 59 || second_ns >= 60_000_000_000 {
        return Err(wrong());
    }
    let seconds = days_from_civil(year, month, day) * 86_400 + (hour * 3_600 + minute * 60) as i64 - offset;
    let ns = i128::from(seconds) * 1_000_000_000 + i128::from(second_ns);
    u64::try_from(ns).map_err(|_| Fault::Range(format!("`{text}` is not between 1970 and 2554")))
}

/// Splits off `Z`, `UTC` or `+01:00`; returns the offset in seconds.
fn split_offset(clock: &str) -> Option<(&str, i64)> {
    if let Some(clock) = clock.strip_suffix("UTC").or(clock.strip_suffix(['Z', 'z'])) {
        return Some((clock.trim_end(), 0));
    }
    let Some(at) = clock.find(['+', '-']) else { return Some((clock, 0)) };
    let (hour, minute) = clock[at + 1..].split_once(':').or_else(|| clock[at + 1..].split_at_checked(2))?;
    let seconds = (digits(hour, 2)? * 3_600 + digits(minute, 2)? * 60) as i64;
    let offset = if clock[at..].starts_with('-') { -seconds } else { seconds };
    Some((clock[..at].trim_end(), offset))
}

fn digits(text: &str, length_max: usize) -> Option<u64> {
    let valid = !text.is_empty() && text.len() <= length_max && text.bytes().all(|b| b.is_ascii_digit());
    if valid { text.parse().ok() } else { None }
}

fn days_of_month(year: u64, month: u64) -> u64 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01. Years are counted from March, so that the leap day is the last day.
fn days_from_civil(year: u64, month: u64, day: u64) -> i64 {
    let year = year as i64 - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month as i64 + 9) % 12) + 2) / 5 + day as i64 - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Nanoseconds since 1970 as `2026-11-21 02:00:00.5Z`.
pub(crate) fn format_time(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let days = (seconds / 86_400) as i64 + 719_468;
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + days.div_euclid(146_097) * 400 + i64::from(month <= 2);
    let (hour, minute) = (seconds / 3_600 % 24, seconds / 60 % 60);
    let second = format_decimal(seconds % 60, ns % 1_000_000_000);
    let pad = if seconds % 60 < 10 { "0" } else { "" };
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{pad}{second}Z")
}

/// Nanoseconds as `1.5s`.
pub(crate) fn format_interval(ns: u64) -> String {
    format_decimal(ns / 1_000_000_000, ns % 1_000_000_000) + "s"
}

fn format_decimal(seconds: u64, ns: u64) -> String {
    if ns == 0 {
        return seconds.to_string();
    }
    let fraction = format!("{ns:09}");
    format!("{seconds}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(parse_number("443"), Ok(443));
        assert_eq!(parse_number("0x1BB"), Ok(443));
        assert_eq!(parse_number("0o673"), Ok(443));
        assert_eq!(parse_number("0b110111011"), Ok(443));
        assert_eq!(parse_number("18446744073709551615"), Ok(u64::MAX));
        assert!(matches!(parse_number("18446744073709551616"), Err(Fault::Range(_))));
        assert!(matches!(parse_number("-1"), Err(Fault::Range(_))));
        assert!(matches!(parse_number("010"), Err(Fault::Malformed(..))));
        assert!(matches!(parse_number("0x"), Err(Fault::Malformed(..))));
        assert_eq!(parse_number("http"), Err(Fault::Type));
    }

    #[test]
    fn times_both_ways() {
        for (text, ns) in [
            ("1970-01-01 00:00:00Z", 0),
            ("2000-02-29 23:59:59Z", 951_868_799_000_000_000),
            ("2026-11-21 02:00:00Z", 1_795_226_400_000_000_000),
            ("2026-11-21 02:00:00.25Z", 1_795_226_400_250_000_000),
            ("2554-07-21 23:34:33.709551615Z", u64::MAX),
        ] {
            assert_eq!(parse_time(text), Ok(ns), "{text}");
            assert_eq!(format_time(ns), text);
        }
        assert_eq!(parse_time("2026-11-21T04:00:00+02:00"), Ok(1_795_226_400_000_000_000));
        assert_eq!(parse_time("1795226400.25"), Ok(1_795_226_400_250_000_000));
        assert_eq!(parse_time("2026-11-21"), parse_time("2026-11-21 00:00"));
        assert!(parse_time("2025-02-29").is_err());
        assert!(parse_time("1969-12-31").is_err());
        assert_eq!(parse_time("2026-é1-21 00"), Err(Fault::Type));
    }

    #[test]
    fn intervals_both_ways() {
        for (text, ns) in [("1.5s", 1_500_000_000), ("0.1s", 100_000_000), ("120s", 120_000_000_000)] {
            assert_eq!(parse_interval(text), Ok(ns));
            assert_eq!(format_interval(ns), text);
        }
        assert_eq!(parse_interval("2m"), parse_interval("120"));
        assert_eq!(parse_interval("100ms"), parse_interval(".1"));
        assert_eq!(parse_interval("."), Err(Fault::Type));
        assert!(matches!(parse_interval("5parsecs"), Err(Fault::Malformed(..))));
    }

    #[test]
    fn addresses() {
        assert_eq!(parse_ipv4("10.0.0.0/8").unwrap().1, 8);
        assert_eq!(parse_ipv4("10.0/8").unwrap().0, Ipv4Addr::new(10, 0, 0, 0));
        assert!(matches!(parse_ipv4("10.0"), Err(Fault::Malformed(..))));
        assert!(matches!(parse_ipv4("10.0.0.256"), Err(Fault::Malformed(..))));
        assert!(matches!(parse_ipv4("10.0.0.1/33"), Err(Fault::Malformed(..))));
        assert_eq!(parse_ipv4("10"), Err(Fault::Type));
        assert_eq!(parse_ipv6("fe80::/10").unwrap().1, 10);
        assert_eq!(parse_ipv6("aa:bb:cc:dd:ee:ff"), Err(Fault::Type));
        assert_eq!(parse_mac("aa-bb-cc-dd-ee-ff").unwrap().len(), 6);
        assert_eq!(parse_mac("aabb.ccdd.eeff").unwrap().len(), 6);
        assert!(matches!(parse_mac("aa:bb"), Err(Fault::Malformed(..))));
        assert_eq!(parse_bytes("0aff"), Ok(vec![10, 255]));
    }
}
