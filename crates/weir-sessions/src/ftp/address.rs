//! Addresses of data connections in PORT, EPRT, and the replies to PASV and EPSV.

use std::net::{IpAddr, Ipv4Addr};

/// Which side opens the data connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// The server opens it (PORT, EPRT).
    Active,
    /// The client opens it (PASV, EPSV).
    Passive,
}

/// A negotiated data connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataChannel {
    /// Which side opens it.
    pub transport: Transport,
    /// Address of the listening side. `None` for EPSV (RFC 2428 §3): the server's own address.
    pub address: Option<IpAddr>,
    /// Port of the listening side.
    pub port: u16,
}

/// Finds `h1,h2,h3,h4,p1,p2` in a text (RFC 959 §4.1.2): argument of PORT, reply 227.
pub(super) fn read_host_port(text: &[u8]) -> Option<(IpAddr, u16)> {
    let mut numbers = [0_u8; 6];
    let mut known = 0;
    for run in text.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()) {
        let number = std::str::from_utf8(run).ok().and_then(|digits| digits.parse::<u8>().ok());
        match (number, run) {
            (Some(number), _) => {
                numbers[known] = number;
                known += 1;
            }
            (None, b",") => continue,
            // Six consecutive numbers are needed.
            (None, _) => known = 0,
        }
        if let [a, b, c, d, high, low] = numbers
            && known == 6
        {
            return Some((Ipv4Addr::new(a, b, c, d).into(), u16::from_be_bytes([high, low])));
        }
    }
    None
}

/// Reads `|2|2001:db8::1|5000|` (RFC 2428 §2): argument of EPRT.
pub(super) fn read_extended(argument: &[u8]) -> Option<(IpAddr, u16)> {
    let delimiter = *argument.first()?;
    let mut parts = argument.split(|byte| *byte == delimiter).skip(2);
    let address = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    let port = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    Some((address, port))
}

/// Finds `(|||6446|)` in a text (RFC 2428 §3): reply 229.
pub(super) fn read_extended_port(text: &[u8]) -> Option<u16> {
    let open = memchr::memchr(b'(', text)?;
    let inner = &text[open + 1..];
    let delimiter = inner.first().filter(|byte| byte.is_ascii_graphic())?;
    let port = inner.split(|byte| byte == delimiter).nth(3)?;
    std::str::from_utf8(port).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_numbers_are_an_address_and_a_port() {
        let expected = Some(([192, 0, 2, 1].into(), 0x1234));
        assert_eq!(read_host_port(b"192,0,2,1,18,52"), expected);
        assert_eq!(read_host_port(b"Entering Passive Mode (192,0,2,1,18,52)."), expected);
        assert_eq!(read_host_port(b"227 and 5 then 192,0,2,1,18,52"), expected);
        for text in ["192,0,2,1,18", "192,0,2,1,18,256", "1,2 3,4,5,6", ""] {
            assert_eq!(read_host_port(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn extended_forms_have_any_delimiter() {
        let address: IpAddr = "2001:db8::1".parse().expect("an address");
        assert_eq!(read_extended(b"|2|2001:db8::1|5000|"), Some((address, 5000)));
        assert_eq!(read_extended(b"!1!192.0.2.1!80!"), Some(([192, 0, 2, 1].into(), 80)));
        assert_eq!(read_extended_port(b"Entering Extended Passive Mode (|||6446|)"), Some(6446));
        assert_eq!(read_extended_port(b"no port here"), None);
        assert_eq!(read_extended_port(b"(|||65536|)"), None);
    }
}
