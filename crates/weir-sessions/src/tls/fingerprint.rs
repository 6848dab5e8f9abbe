//! Fingerprints of hellos: JA3 and JA3S (Salesforce, 2017) and JA4 (FoxIO, BSD 3-clause; only JA4 for TLS
//! clients, as the rest of the family has another licence).
//!
//! All are computed on demand and not cached. GREASE values are omitted.

use super::hello::{ClientHello, ServerHello};
use super::names::is_grease;
use crate::wire::hex;
use sha2::Digest;
use std::fmt::Write;

/// Transport of a hello: the first letter of JA4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// TLS records over TCP.
    #[default]
    Tcp,
    /// CRYPTO frames of QUIC.
    Quic,
    /// DTLS records over UDP.
    Dtls,
}

/// Extensions excluded from JA4's hash because its first part covers them: `server_name` and ALPN.
const TOLD_IN_FIRST_PART: [u16; 2] = [0, 16];

/// JA4's hash of an empty list.
const EMPTY_HASH: &str = "000000000000";

/// The text hashed by JA3: `version,ciphers,extensions,groups,point formats`, numbers decimal.
pub fn ja3_text(hello: &ClientHello) -> String {
    let mut text = hello.version.to_string();
    for list in [&hello.ciphers, &hello.extensions, &hello.groups] {
        text.push(',');
        push_decimal(&mut text, list.iter().copied().filter(|number| !is_grease(*number)));
    }
    text.push(',');
    push_decimal(&mut text, hello.point_formats.iter().copied().map(u16::from));
    text
}

/// JA3: MD5 of [`ja3_text`], hexadecimal.
pub fn ja3(hello: &ClientHello) -> String {
    md5(&ja3_text(hello))
}

/// The text hashed by JA3S: `version,cipher,extensions`, numbers decimal.
pub fn ja3s_text(hello: &ServerHello) -> String {
    let mut text = format!("{},", hello.version);
    push_decimal(&mut text, hello.cipher.into_iter());
    text.push(',');
    push_decimal(&mut text, hello.extensions.iter().copied().filter(|number| !is_grease(*number)));
    text
}

/// JA3S: MD5 of [`ja3s_text`], hexadecimal.
pub fn ja3s(hello: &ServerHello) -> String {
    md5(&ja3s_text(hello))
}

/// JA4: ten letters that summarise the offer, then hashes of ciphers and extensions.
pub fn ja4(hello: &ClientHello, transport: Transport) -> String {
    let parts = Parts::of(hello);
    let extensions = match (parts.extensions.as_str(), parts.signatures.as_str()) {
        (extensions, "") => extensions.to_owned(),
        (extensions, signatures) => format!("{extensions}_{signatures}"),
    };
    let extensions = if parts.extensions.is_empty() { EMPTY_HASH.to_owned() } else { sha256_12(&extensions) };
    let ciphers = if parts.ciphers.is_empty() { EMPTY_HASH.to_owned() } else { sha256_12(&parts.ciphers) };
    format!("{}_{ciphers}_{extensions}", first_part(hello, transport))
}

/// JA4_r: [`ja4`] with the lists instead of their hashes.
pub fn ja4_raw(hello: &ClientHello, transport: Transport) -> String {
    let Parts { ciphers, extensions, signatures } = Parts::of(hello);
    let mut text = format!("{}_{ciphers}_{extensions}", first_part(hello, transport));
    if !signatures.is_empty() {
        text.push('_');
        text.push_str(&signatures);
    }
    text
}

/// JA4's lists as text: hexadecimal, separated by commas.
struct Parts {
    /// Sorted.
    ciphers: String,
    /// Sorted, without [`TOLD_IN_FIRST_PART`].
    extensions: String,
    /// In the client's order.
    signatures: String,
}

impl Parts {
    fn of(hello: &ClientHello) -> Self {
        let mut ciphers = without_grease(&hello.ciphers);
        ciphers.sort_unstable();
        let mut extensions = without_grease(&hello.extensions);
        extensions.retain(|kind| !TOLD_IN_FIRST_PART.contains(kind));
        extensions.sort_unstable();
        let signatures = without_grease(&hello.signature_algorithms);
        Self {
            ciphers: hexadecimal(&ciphers),
            extensions: hexadecimal(&extensions),
            signatures: hexadecimal(&signatures),
        }
    }
}

fn first_part(hello: &ClientHello, transport: Transport) -> String {
    let transport = match transport {
        Transport::Tcp => 't',
        Transport::Quic => 'q',
        Transport::Dtls => 'd',
    };
    let offered = hello.supported_versions.iter().copied().filter(|version| !is_grease(*version));
    // Version numbers of DTLS decrease.
    let best = if transport == 'd' { offered.min() } else { offered.max() };
    let version = match best.unwrap_or(hello.version) {
        0x0304 => "13",
        0x0303 => "12",
        0x0302 => "11",
        0x0301 => "10",
        0x0300 => "s3",
        0x0002 => "s2",
        0xfeff => "d1",
        0xfefd => "d2",
        0xfefc => "d3",
        _ => "00",
    };
    let name = if hello.extensions.contains(&0) { 'd' } else { 'i' };
    let ciphers = without_grease(&hello.ciphers).len().min(99);
    let extensions = without_grease(&hello.extensions).len().min(99);
    let [first, last] = alpn_letters(hello.alpn_ends);
    format!("{transport}{version}{name}{ciphers:02}{extensions:02}{first}{last}")
}

/// First and last character of the first ALPN name. If either is not an ASCII letter or digit, first and last
/// hexadecimal digit of the name.
fn alpn_letters(ends: Option<(u8, u8)>) -> [char; 2] {
    match ends {
        None => ['0', '0'],
        Some((first, last)) if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() => {
            [first.into(), last.into()]
        }
        Some((first, last)) => {
            let digit = |nibble: u8| char::from_digit(u32::from(nibble & 15), 16).unwrap_or('0');
            [digit(first >> 4), digit(last)]
        }
    }
}

fn without_grease(numbers: &[u16]) -> Vec<u16> {
    numbers.iter().copied().filter(|number| !is_grease(*number)).collect()
}

fn push_decimal(text: &mut String, numbers: impl Iterator<Item = u16>) {
    for (at, number) in numbers.enumerate() {
        let dash = if at == 0 { "" } else { "-" };
        let _ = write!(text, "{dash}{number}");
    }
}

fn hexadecimal(numbers: &[u16]) -> String {
    let mut text = String::with_capacity(numbers.len() * 5);
    for (at, number) in numbers.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(text, "{comma}{number:04x}");
    }
    text
}

fn md5(text: &str) -> String {
    hex(&md5::Md5::digest(text))
}

fn sha256_12(text: &str) -> String {
    hex(&sha2::Sha256::digest(text)[..6])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hello of the example in FoxIO's description of JA4, with GREASE added.
    fn example() -> ClientHello {
        ClientHello {
            version: 0x0303,
            ciphers: vec![
                0x2a2a, 0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013,
                0xc014, 0x009c, 0x009d, 0x002f, 0x0035,
            ],
            extensions: vec![
                0x7a7a, 0x001b, 0x0000, 0x0033, 0x0010, 0x4469, 0x0017, 0x002d, 0x000d, 0x0005, 0x0023,
                0x0012, 0x002b, 0xff01, 0x000b, 0x000a, 0x0015,
            ],
            signature_algorithms: vec![0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601],
            supported_versions: vec![0x6a6a, 0x0304, 0x0303],
            alpn_ends: Some((b'h', b'2')),
            groups: vec![0x4a4a, 29, 23],
            point_formats: vec![0],
            ..ClientHello::default()
        }
    }

    #[test]
    fn ja4_is_the_worked_example() {
        assert_eq!(ja4(&example(), Transport::Tcp), "t13d1516h2_8daaf6152771_e5627efa2ab1");
        assert_eq!(ja4(&example(), Transport::Quic), "q13d1516h2_8daaf6152771_e5627efa2ab1");
        assert!(
            ja4_raw(&example(), Transport::Tcp).ends_with("ff01_0403,0804,0401,0503,0805,0501,0806,0601")
        );
    }

    #[test]
    fn no_signature_algorithms_no_underscore() {
        let hello = ClientHello { signature_algorithms: vec![], ..example() };
        assert_eq!(ja4(&hello, Transport::Tcp), "t13d1516h2_8daaf6152771_6d807ffa2a79");
    }

    #[test]
    fn an_empty_list_has_zeros_for_a_hash() {
        let empty = ClientHello { version: 0x0301, ..ClientHello::default() };
        assert_eq!(ja4(&empty, Transport::Tcp), "t10i000000_000000000000_000000000000");
        // The list is empty without the extensions that the first part covers.
        let named = ClientHello { extensions: vec![0, 16], ..empty };
        assert_eq!(ja4(&named, Transport::Tcp), "t10d000200_000000000000_000000000000");
    }

    #[test]
    fn alpn_letters_are_ascii_or_hexadecimal() {
        for (name, letters) in [
            (&b""[..], "00"),
            (b"h2", "h2"),
            (b"http/1.1", "h1"),
            (b"x", "xx"),
            (b"\xab", "ab"),
            (b"\xab\xcd", "ad"),
            (b"\x30\xab", "3b"),
            (b"\x30\x31\xab\xcd", "3d"),
            (b"\x30\xab\xcd\x31", "01"),
            (b" ", "20"),
            (b"a ", "60"),
        ] {
            let ends = name.first().copied().zip(name.last().copied());
            assert_eq!(alpn_letters(ends).iter().collect::<String>(), letters, "{name:?}");
        }
    }

    #[test]
    fn ja3_leaves_grease_out() {
        assert_eq!(
            ja3_text(&example()),
            "771,4865-4866-4867-49195-49199-49196-49200-52393-52392-49171-49172-156-157-47-53,\
             27-0-51-16-17513-23-45-13-5-35-18-43-65281-11-10-21,29-23,0"
        );
        assert_eq!(ja3_text(&ClientHello { version: 2, ..ClientHello::default() }), "2,,,,");
    }

    #[test]
    fn ja3s_has_one_cipher() {
        let hello = ServerHello {
            version: 771,
            cipher: Some(0xc02f),
            extensions: vec![65281, 11],
            ..ServerHello::default()
        };
        assert_eq!(ja3s_text(&hello), "771,49199,65281-11");
    }
}
