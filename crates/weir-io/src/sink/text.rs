//! Text forms of values that several formats share. Everything is appended to a line, without allocation.

use std::io::Write;
use std::net::IpAddr;
use weir_packet::{Timestamp, is_hidden};

/// Writes elements, separated by commas.
pub(super) fn join<T>(line: &mut Vec<u8>, list: impl Iterator<Item = T>, push: impl Fn(&mut Vec<u8>, T)) {
    for (index, element) in list.enumerate() {
        if index > 0 {
            line.push(b',');
        }
        push(line, element);
    }
}

pub(super) fn push_number(line: &mut Vec<u8>, number: u64) {
    line.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// A fraction with six decimals. NaN (a share of zero) is 0.
pub(super) fn push_fraction(line: &mut Vec<u8>, number: f64) {
    let number = if number.is_finite() { number } else { 0.0 };
    // Writing into a vector cannot fail.
    let _ = write!(line, "{number:.6}");
}

/// Seconds with six decimals, as in Zeek's logs; with nine if the capture has nanoseconds, as in tshark. Both
/// forms are one JSON number, without loss of precision.
pub(super) fn push_time(line: &mut Vec<u8>, time: Timestamp) {
    if time.0 < 0 {
        line.push(b'-');
    }
    push_seconds(line, time.0.unsigned_abs());
}

/// Nanoseconds as seconds with six decimals, or nine if necessary.
pub(super) fn push_seconds(line: &mut Vec<u8>, ns: u64) {
    push_number(line, ns / 1_000_000_000);
    push_micros(line, ns % 1_000_000_000 / 1_000);
    let nanos = ns % 1_000;
    if nanos > 0 {
        line.extend([nanos / 100, nanos / 10 % 10, nanos % 10].map(|digit| b'0' + digit as u8));
    }
}

/// A point and six digits.
fn push_micros(line: &mut Vec<u8>, micros: u64) {
    let mut digits = *b".000000";
    let mut rest = micros;
    for digit in digits[1..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    line.extend_from_slice(&digits);
}

/// UTC, as `2026-11-21 02:00:01.123456`.
pub(super) fn push_date(line: &mut Vec<u8>, time: Timestamp) {
    let fraction = time.0.div_euclid(1_000).rem_euclid(1_000_000);
    let [year, month, day, hour, minute, second] = time.utc();
    // Writing into a vector cannot fail.
    let _ = write!(line, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}");
    push_micros(line, fraction as u64);
}

/// UTC to the second in names of files, as `2026-11-21-02-00-01`: Zeek's form, whose order is that of time.
pub fn file_time(time: Timestamp) -> String {
    let [year, month, day, hour, minute, second] = time.utc();
    format!("{year:04}-{month:02}-{day:02}-{hour:02}-{minute:02}-{second:02}")
}

pub(super) fn push_address(line: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(v4) => {
            for (index, octet) in v4.octets().into_iter().enumerate() {
                if index > 0 {
                    line.push(b'.');
                }
                push_number(line, u64::from(octet));
            }
        }
        IpAddr::V6(v6) => {
            let _ = write!(line, "{v6}");
        }
    }
}

pub(super) fn push_mac(line: &mut Vec<u8>, mac: [u8; 6]) {
    for (index, octet) in mac.into_iter().enumerate() {
        if index > 0 {
            line.push(b':');
        }
        push_hex(line, &[octet]);
    }
}

pub(super) fn push_hex(line: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    line.extend(bytes.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]));
}

/// Appends a text, with an escape such as `\x9b` for each byte of a [hidden](is_hidden) character.
///
/// The text comes from [`readable`](weir_packet::readable), which writes the same kind of escape for each
/// byte of invalid UTF-8, and for each backslash that looks like the start of an escape. A reader who
/// replaces all escapes by their bytes therefore gets the captured bytes.
pub(super) fn push_visible(line: &mut Vec<u8>, text: &str) {
    let mut rest = text;
    while let Some((at, hidden)) = rest.char_indices().find(|(_, letter)| is_hidden(*letter)) {
        let (before, from) = rest.split_at(at);
        let (bytes, after) = from.split_at(hidden.len_utf8());
        line.extend_from_slice(before.as_bytes());
        push_escapes(line, bytes.as_bytes());
        rest = after;
    }
    line.extend_from_slice(rest.as_bytes());
}

/// Bytes as `\x9b`.
pub(super) fn push_escapes(line: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        line.extend_from_slice(b"\\x");
        push_hex(line, &[*byte]);
    }
}

pub(super) fn push_bool(line: &mut Vec<u8>, value: bool) {
    line.extend_from_slice(if value { b"true" } else { b"false" });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed<T>(push: impl Fn(&mut Vec<u8>, T), value: T) -> String {
        let mut line = Vec::new();
        push(&mut line, value);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn times_are_seconds_with_as_many_decimals_as_they_have() {
        for (ns, text) in [
            (0, "0.000000"),
            (1_600_000_000_123_456_000, "1600000000.123456"),
            (1_600_000_000_123_456_789, "1600000000.123456789"),
            (1_600_000_000_000_000_020, "1600000000.000000020"),
            (-500_000_000, "-0.500000"),
            (-999, "-0.000000999"),
            (i64::MIN, "-9223372036.854775808"),
        ] {
            assert_eq!(pushed(push_time, Timestamp(ns)), text);
        }
    }

    #[test]
    fn dates_are_gregorian_and_utc() {
        for (ns, text) in [
            (0, "1970-01-01 00:00:00.000000"),
            (-1_000, "1969-12-31 23:59:59.999999"),
            (951_782_400_000_000_000, "2000-02-29 00:00:00.000000"),
            (1_795_226_401_123_456_000, "2026-11-21 02:00:01.123456"),
            (4_107_542_400_000_000_000, "2100-03-01 00:00:00.000000"),
        ] {
            assert_eq!(pushed(push_date, Timestamp(ns)), text);
        }
    }

    #[test]
    fn addresses_are_as_people_write_them() {
        assert_eq!(pushed(push_address, "10.0.200.1".parse().unwrap()), "10.0.200.1");
        assert_eq!(pushed(push_address, "fe80::1".parse().unwrap()), "fe80::1");
        assert_eq!(pushed(push_mac, [0, 1, 0x2b, 0xff, 9, 0x10]), "00:01:2b:ff:09:10");
    }
}
