//! Numbers as people write them on a command line: `10k`, `512M`, `FILTER:10k`.

use crate::failure::Failure;

/// Bytes: a number, with `k`, `M` or `G` for powers of 1024.
pub fn bytes(option: &str, text: &str) -> Result<u64, Failure> {
    let wrong = || Failure::new(format!("{option} {text}: give bytes, as 1500, 10k, 512M or 2G"));
    let (digits, unit) = match text.char_indices().last().ok_or_else(wrong)? {
        (at, 'k' | 'K') => (&text[..at], 1u64 << 10),
        (at, 'm' | 'M') => (&text[..at], 1 << 20),
        (at, 'g' | 'G') => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(unit).ok_or_else(wrong)
}

/// A filter and what stands for it, divided by the last colon; no filter where there is no colon. Addresses of IPv6
/// have colons, too, but what stands behind a filter's last one is no quantity then.
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
    fn a_class_is_what_stands_before_the_last_colon() {
        assert_eq!(classified("10k"), (None, "10k"));
        assert_eq!(classified("tcp.port == 443: 1k"), (Some("tcp.port == 443"), "1k"));
        assert_eq!(classified("ipv6.addr == ::1:9"), (Some("ipv6.addr == ::1"), "9"));
    }
}
