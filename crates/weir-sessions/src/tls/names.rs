//! Names of versions, cipher suites, groups and alerts, as in Zeek's `ssl.log`.
//!
//! As in Zeek, a number without a name is `unknown-N`, N decimal.

use super::ciphers::CIPHERS;
use crate::session::{Words, named};
use std::borrow::Cow;

/// Supported groups (IANA "TLS Supported Groups"), sorted by number.
const GROUPS: &[(u16, &str)] = &[
    (1, "sect163k1"),
    (2, "sect163r1"),
    (3, "sect163r2"),
    (4, "sect193r1"),
    (5, "sect193r2"),
    (6, "sect233k1"),
    (7, "sect233r1"),
    (8, "sect239k1"),
    (9, "sect283k1"),
    (10, "sect283r1"),
    (11, "sect409k1"),
    (12, "sect409r1"),
    (13, "sect571k1"),
    (14, "sect571r1"),
    (15, "secp160k1"),
    (16, "secp160r1"),
    (17, "secp160r2"),
    (18, "secp192k1"),
    (19, "secp192r1"),
    (20, "secp224k1"),
    (21, "secp224r1"),
    (22, "secp256k1"),
    (23, "secp256r1"),
    (24, "secp384r1"),
    (25, "secp521r1"),
    (26, "brainpoolP256r1"),
    (27, "brainpoolP384r1"),
    (28, "brainpoolP512r1"),
    (29, "x25519"),
    (30, "x448"),
    (31, "brainpoolP256r1tls13"),
    (32, "brainpoolP384r1tls13"),
    (33, "brainpoolP512r1tls13"),
    (34, "GC256A"),
    (35, "GC256B"),
    (36, "GC256C"),
    (37, "GC256D"),
    (38, "GC512A"),
    (39, "GC512B"),
    (40, "GC512C"),
    (41, "curveSM2"),
    (256, "ffdhe2048"),
    (257, "ffdhe3072"),
    (258, "ffdhe4096"),
    (259, "ffdhe6144"),
    (260, "ffdhe8192"),
    (512, "MLKEM512"),
    (513, "MLKEM768"),
    (514, "MLKEM1024"),
    (4587, "SecP256r1MLKEM768"),
    (4588, "X25519MLKEM768"),
    (4589, "SecP384r1MLKEM1024"),
    (4590, "curveSM2MLKEM768"),
    (16696, "CECPQ2"),
    (25497, "X25519Kyber768Draft00"),
    (25498, "SecP256r1Kyber768Draft00"),
    (0xff01, "arbitrary_explicit_prime_curves"),
    (0xff02, "arbitrary_explicit_char2_curves"),
];

/// Alerts (IANA "TLS Alerts"), sorted by number.
const ALERTS: &[(u16, &str)] = &[
    (0, "close_notify"),
    (10, "unexpected_message"),
    (20, "bad_record_mac"),
    (21, "decryption_failed"),
    (22, "record_overflow"),
    (30, "decompression_failure"),
    (40, "handshake_failure"),
    (41, "no_certificate"),
    (42, "bad_certificate"),
    (43, "unsupported_certificate"),
    (44, "certificate_revoked"),
    (45, "certificate_expired"),
    (46, "certificate_unknown"),
    (47, "illegal_parameter"),
    (48, "unknown_ca"),
    (49, "access_denied"),
    (50, "decode_error"),
    (51, "decrypt_error"),
    (60, "export_restriction"),
    (70, "protocol_version"),
    (71, "insufficient_security"),
    (80, "internal_error"),
    (86, "inappropriate_fallback"),
    (90, "user_canceled"),
    (100, "no_renegotiation"),
    (109, "missing_extension"),
    (110, "unsupported_extension"),
    (111, "certificate_unobtainable"),
    (112, "unrecognized_name"),
    (113, "bad_certificate_status_response"),
    (114, "bad_certificate_hash_value"),
    (115, "unknown_psk_identity"),
    (116, "certificate_required"),
    (117, "general_error"),
    (120, "no_application_protocol"),
    (121, "ech_required"),
];

/// Whether a number is GREASE: reserved for clients, which send it to test that servers ignore unknown values
/// (RFC 8701 §2): 0x0a0a, 0x1a1a … 0xfafa.
pub fn is_grease(number: u16) -> bool {
    let [high, low] = number.to_be_bytes();
    high == low && low & 0x0f == 0x0a
}

/// The name of a version: `TLSv12`, `TLSv13-draft18`, `DTLSv12`.
pub fn version(number: u16) -> Cow<'static, str> {
    match number {
        0x0002 => "SSLv2".into(),
        0x0300 => "SSLv3".into(),
        0x0301 => "TLSv10".into(),
        0x0302 => "TLSv11".into(),
        0x0303 => "TLSv12".into(),
        0x0304 => "TLSv13".into(),
        0xfeff => "DTLSv10".into(),
        0xfefd => "DTLSv12".into(),
        0xfefc => "DTLSv13".into(),
        draft if draft >> 8 == 0x7f => format!("TLSv13-draft{}", draft & 0xff).into(),
        _ => unknown(number),
    }
}

/// The name of a cipher suite: `TLS_AES_128_GCM_SHA256`.
pub fn cipher(number: u16) -> Cow<'static, str> {
    lookup(CIPHERS, number)
}

/// The name of a group or curve: `x25519`.
pub fn group(number: u16) -> Cow<'static, str> {
    lookup(GROUPS, number)
}

/// The name of an alert's description: `handshake_failure`.
pub fn alert(number: u8) -> Cow<'static, str> {
    lookup(ALERTS, number.into())
}

/// Names of versions; the prefixes cover numbers without a name.
pub(crate) const VERSIONS: Words =
    Words { list: || named(0..=u16::MAX, version), others: &["unknown-", "TLSv13-draft"] };
/// Names of cipher suites.
pub(crate) const CIPHER_NAMES: Words =
    Words { list: || CIPHERS.iter().map(|entry| entry.1).collect(), others: OTHERS };
/// Names of groups.
pub(crate) const GROUP_NAMES: Words =
    Words { list: || GROUPS.iter().map(|entry| entry.1).collect(), others: OTHERS };
/// Names of alerts.
pub(crate) const ALERT_NAMES: Words =
    Words { list: || ALERTS.iter().map(|entry| entry.1).collect(), others: OTHERS };

const OTHERS: &[&str] = &["unknown-", "grease_"];

fn lookup(table: &'static [(u16, &'static str)], number: u16) -> Cow<'static, str> {
    match table.binary_search_by_key(&number, |entry| entry.0) {
        Ok(at) => table[at].1.into(),
        Err(_) if is_grease(number) => format!("grease_0x{number:04X}").into(),
        Err(_) => unknown(number),
    }
}

fn unknown(number: u16) -> Cow<'static, str> {
    format!("unknown-{number}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_for_the_binary_search() {
        for table in [CIPHERS, GROUPS, ALERTS] {
            assert!(table.is_sorted_by(|a, b| a.0 < b.0));
        }
    }

    #[test]
    fn names_are_those_of_zeek() {
        assert_eq!(version(0x0303), "TLSv12");
        assert_eq!(version(0x7f12), "TLSv13-draft18");
        assert_eq!(version(0xfefd), "DTLSv12");
        assert_eq!(version(0x0505), "unknown-1285");
        assert_eq!(cipher(0xc02f), "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256");
        assert_eq!(cipher(0x0034), "TLS_DH_ANON_WITH_AES_128_CBC_SHA");
        assert_eq!(group(29), "x25519");
        assert_eq!(group(0x2a2a), "grease_0x2A2A");
        assert_eq!(alert(40), "handshake_failure");
        assert_eq!(alert(200), "unknown-200");
    }

    #[test]
    fn grease_has_two_equal_bytes_that_end_in_a() {
        assert!(is_grease(0x0a0a) && is_grease(0xfafa));
        assert!(!is_grease(0x0a1a) && !is_grease(0x0b0b));
    }
}
