//! Text forms of values for people, in tables and reports: durations and numbers of bytes in units, times of
//! a time zone.

use super::text::push_date;
use chrono::{DateTime, Local, TimeZone};
use std::io::Write;
use weir_packet::Timestamp;

/// Units for durations below a minute, each with its length in nanoseconds.
const SECONDS: [(u64, &str); 4] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns")];

/// Units for numbers of bytes, each with its bytes.
const BYTES: [(u64, &str); 5] = [
    (1_000_000_000_000_000, "PB"),
    (1_000_000_000_000, "TB"),
    (1_000_000_000, "GB"),
    (1_000_000, "MB"),
    (1_000, "kB"),
];

/// A duration with three significant digits, from nanoseconds: `35.1 ms`, `2 min 3 s`, `4 d 7 h`.
pub fn duration(ns: u64) -> String {
    text(|line| push_duration(line, ns))
}

/// A number of bytes: `999 B`, `2.74 kB`.
pub fn bytes(bytes: u64) -> String {
    text(|line| push_bytes(line, bytes))
}

/// A time in UTC, with milliseconds: `2026-11-21 02:00:01.123`.
pub fn moment(time: Timestamp) -> String {
    text(|line| push_moment(line, time, false, false))
}

/// A time in UTC, with microseconds: `2026-11-21 02:00:01.123456`.
pub fn precise_moment(time: Timestamp) -> String {
    text(|line| push_moment(line, time, false, true))
}

/// A whole number with blanks between groups of three digits: `1 234 567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(|group| String::from_utf8_lossy(group)).collect();
    groups.join(" ")
}

fn text(push: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut line = vec![];
    push(&mut line);
    String::from_utf8(line).unwrap_or_default()
}

/// A duration with three significant digits: `35.1 ms`; from a minute on with two units: `2 min 3 s`,
/// `3 h 20 min`, `4 d 7 h`.
pub(super) fn push_duration(line: &mut Vec<u8>, ns: u64) {
    let (seconds, minutes) = (ns / 1_000_000_000, ns / 60_000_000_000);
    let (hours, days) = (minutes / 60, minutes / 1440);
    // Writing into a vector cannot fail.
    let _ = match (days, hours, minutes) {
        (0, 0, 0) => {
            let fitting = SECONDS.iter().find(|(unit, _)| ns >= *unit);
            return match fitting {
                Some((unit, name)) => push_in(line, ns, *unit, name),
                None => line.extend_from_slice(b"0 s"),
            };
        }
        (0, 0, _) => write!(line, "{minutes} min {} s", seconds % 60),
        (0, ..) => write!(line, "{hours} h {} min", minutes % 60),
        _ => write!(line, "{days} d {} h", hours % 24),
    };
}

/// A number of bytes, exact below 1 000, and otherwise with three significant digits in decimal units:
/// `2.74 kB`.
pub(super) fn push_bytes(line: &mut Vec<u8>, bytes: u64) {
    match BYTES.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => push_in(line, bytes, *unit, name),
        None => {
            let _ = write!(line, "{bytes} B");
        }
    }
}

/// A value in a unit, with three significant digits, not rounded up.
fn push_in(line: &mut Vec<u8>, value: u64, unit: u64, name: &str) {
    let whole = value / unit;
    let digits = match whole {
        0..10 => 2,
        10..100 => 1,
        _ => 0,
    };
    let scale = 10_u64.pow(digits);
    let part = (u128::from(value % unit) * u128::from(scale) / u128::from(unit)) as u64;
    let _ = match digits {
        _ if unit == 1 || digits == 0 => write!(line, "{whole} {name}"),
        digits => write!(line, "{whole}.{part:0width$} {name}", width = digits as usize),
    };
}

/// A time of the local time zone, with microseconds and its offset (RFC 3339).
pub(super) fn push_local(line: &mut Vec<u8>, time: Timestamp) {
    let _ = write!(line, "{}", Local.timestamp_nanos(time.0).format("%Y-%m-%dT%H:%M:%S.%6f%:z"));
}

/// A time: in UTC, or in the local time zone with its offset; with microseconds if `precise`, otherwise with
/// milliseconds.
pub(super) fn push_moment(line: &mut Vec<u8>, time: Timestamp, local: bool, precise: bool) {
    let zoned = local.then(|| Local.timestamp_nanos(time.0));
    push_in_zone(line, time, zoned, precise);
}

fn push_in_zone<Z: TimeZone<Offset: std::fmt::Display>>(
    line: &mut Vec<u8>,
    time: Timestamp,
    zoned: Option<DateTime<Z>>,
    precise: bool,
) {
    match zoned {
        None => {
            push_date(line, time);
            line.truncate(line.len() - if precise { 0 } else { 3 });
        }
        Some(zoned) => {
            let form = if precise { "%Y-%m-%d %H:%M:%S.%6f%:z" } else { "%Y-%m-%d %H:%M:%S.%3f%:z" };
            let _ = write!(line, "{}", zoned.format(form));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::FixedOffset;

    fn shown(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut line = vec![];
        push(&mut line);
        String::from_utf8(line).expect("text")
    }

    #[test]
    fn durations_have_the_unit_that_fits() {
        let cases = [
            (0, "0 s"),
            (999, "999 ns"),
            (1_500, "1.50 µs"),
            (35_149_000, "35.1 ms"),
            (999_999_999, "999 ms"),
            (1_234_567_890, "1.23 s"),
            (59_999_999_999, "59.9 s"),
            (123_000_000_000, "2 min 3 s"),
            (12_000_000_000_000, "3 h 20 min"),
            (370_800_000_000_000, "4 d 7 h"),
            (u64::MAX, "213503 d 23 h"),
        ];
        for (ns, expected) in cases {
            assert_eq!(shown(|line| push_duration(line, ns)), expected, "{ns} ns");
        }
    }

    #[test]
    fn bytes_have_the_unit_that_fits() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.00 kB"),
            (2_741, "2.74 kB"),
            (10_050_000, "10.0 MB"),
            (999_999_999, "999 MB"),
            (u64::MAX, "18446 PB"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(shown(|line| push_bytes(line, bytes)), expected, "{bytes} bytes");
        }
    }

    #[test]
    fn times_have_the_offset_of_their_zone() {
        let time = Timestamp(1_795_226_401_123_456_789);
        let none: Option<DateTime<Local>> = None;
        assert_eq!(shown(|line| push_in_zone(line, time, none, true)), "2026-11-21 02:00:01.123456");
        assert_eq!(shown(|line| push_in_zone(line, time, none, false)), "2026-11-21 02:00:01.123");
        let zone = FixedOffset::east_opt(19_800).expect("an offset");
        let zoned = zone.timestamp_nanos(time.0);
        assert_eq!(
            shown(|line| push_in_zone(line, time, Some(zoned), false)),
            "2026-11-21 07:30:01.123+05:30"
        );
    }
}
