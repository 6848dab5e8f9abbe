//! Certificates (RFC 5280): the X.509 contents that rows show, parsed by the x509-parser crate on first
//! access.
//!
//! A chain is kept as the bytes of the Certificate message (RFC 5246 §7.4.2). A handshake whose certificates
//! are not accessed costs one copy of these bytes. In TLS 1.3 certificates are encrypted.

use super::distinguished_name::{common_name, distinguished_name};
use crate::wire::{Reader, hex};
use sha2::Digest;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::OnceLock;
use weir_packet::Timestamp;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

/// Maximum number of certificates kept of a chain; real chains have one to five.
pub const CHAIN_CERTIFICATES_MAX: usize = 32;

/// One certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Certificate {
    /// Whether it is an X.509 certificate; if not, only `sha256` is set.
    pub is_well_formed: bool,
    /// SHA-256 of the certificate's bytes, hexadecimal.
    pub sha256: String,
    /// Version: 1 to 3.
    pub version: Option<u32>,
    /// Subject in the format of RFC 4514, most specific part first: `CN=a.example,O=A,C=XX`.
    pub subject: String,
    /// Issuer, in the same format.
    pub issuer: String,
    /// Common name of the subject; of several, the most specific.
    pub common_name: Option<String>,
    /// Serial number, upper-case hexadecimal without leading zero bytes.
    pub serial: String,
    /// Start of validity.
    pub not_before: Timestamp,
    /// End of validity.
    pub not_after: Timestamp,
    /// DNS names of the subject (RFC 5280 §4.2.1.6).
    pub san_dns: Vec<String>,
    /// IP addresses of the subject.
    pub san_ips: Vec<IpAddr>,
    /// URIs of the subject.
    pub san_uris: Vec<String>,
    /// Mail addresses of the subject.
    pub san_emails: Vec<String>,
    /// Whether it may issue certificates. `None` without basic constraints (RFC 5280 §4.2.1.9).
    pub is_ca: Option<bool>,
    /// Path length constraint: most certificates between this one and the last of a chain.
    pub path_length: Option<u32>,
    /// Name of the key's algorithm, or its object identifier.
    pub key_algorithm: String,
    /// `rsa`, `ecdsa`, `dsa`, the name of the key's algorithm, or its object identifier.
    pub key_type: String,
    /// Key length, bits; 0 if unknown.
    pub key_bits: usize,
    /// Public exponent of an RSA key: decimal, or hexadecimal after `0x` if it exceeds 64 bits.
    pub exponent: Option<String>,
    /// OpenSSL's name of the key's curve, or its object identifier.
    pub curve: Option<String>,
    /// Name of the signature algorithm, or its object identifier.
    pub signature_algorithm: String,
}

impl Certificate {
    /// Parses a certificate in DER.
    pub fn parse(der: &[u8]) -> Self {
        Self::parse_digested(der, digest(der))
    }

    fn parse_digested(der: &[u8], sha256: String) -> Self {
        let Ok((_, x509)) = X509Certificate::from_der(der) else {
            return Self { sha256, ..Self::default() };
        };
        let (key_type, key_bits) = key(x509.public_key());
        let mut certificate = Self {
            is_well_formed: true,
            sha256,
            version: Some(x509.version().0.saturating_add(1)),
            subject: distinguished_name(x509.subject()),
            common_name: common_name(x509.subject()),
            issuer: distinguished_name(x509.issuer()),
            serial: serial(x509.raw_serial()),
            not_before: Timestamp::from_parts(x509.validity().not_before.timestamp(), 0),
            not_after: Timestamp::from_parts(x509.validity().not_after.timestamp(), 0),
            key_algorithm: algorithm(&x509.public_key().algorithm.algorithm.to_id_string()),
            key_type,
            key_bits,
            exponent: exponent(x509.public_key()),
            curve: curve(x509.public_key()),
            signature_algorithm: algorithm(&x509.signature_algorithm.algorithm.to_id_string()),
            ..Self::default()
        };
        if let Ok(Some(names)) = x509.subject_alternative_name() {
            certificate.take_alternative_names(&names.value.general_names);
        }
        if let Ok(Some(constraints)) = x509.basic_constraints() {
            certificate.is_ca = Some(constraints.value.ca);
            certificate.path_length = constraints.value.path_len_constraint;
        }
        certificate
    }

    /// Names and addresses of the subject as text: DNS names first.
    pub fn alternative_names(&self) -> Vec<String> {
        self.san_dns.iter().cloned().chain(self.san_ips.iter().map(IpAddr::to_string)).collect()
    }

    /// Whether the certificate is valid for `host` (RFC 9525 §6.3): by DNS names and addresses, or by the
    /// common name if it has no DNS names. A `*` matches the first label.
    pub fn matches_host(&self, host: &str) -> bool {
        if let Ok(address) = host.parse::<IpAddr>()
            && self.san_ips.contains(&address)
        {
            return true;
        }
        let fallback = if self.san_dns.is_empty() { self.common_name.as_slice() } else { &[] };
        self.san_dns.iter().chain(fallback).any(|name| name_matches(name, host))
    }

    fn take_alternative_names(&mut self, names: &[GeneralName<'_>]) {
        for name in names {
            match name {
                GeneralName::DNSName(name) => self.san_dns.push((*name).to_owned()),
                GeneralName::URI(name) => self.san_uris.push((*name).to_owned()),
                GeneralName::RFC822Name(name) => self.san_emails.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => {
                    let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
                    let v6 = <[u8; 16]>::try_from(*bytes).map(IpAddr::from);
                    self.san_ips.extend(v4.or(v6));
                }
                _ => {}
            }
        }
    }
}

/// The certificates of one side: its own first, each followed by its issuer's.
#[derive(Debug, Clone, Default)]
pub struct CertificateChain {
    der: Vec<u8>,
    spans: Vec<Range<usize>>,
    omitted: u64,
    digests: OnceLock<Vec<String>>,
    parsed: OnceLock<Vec<Certificate>>,
}

impl CertificateChain {
    /// Parses the body of a Certificate message of TLS up to 1.2 (RFC 5246 §7.4.2), up to its first truncated
    /// certificate, at most [`CHAIN_CERTIFICATES_MAX`] certificates.
    pub fn parse(body: &[u8]) -> Self {
        let mut chain = Self::default();
        let mut list = Reader::new(Reader::new(body).vector24().unwrap_or_default());
        while let Some(der) = list.vector24() {
            match chain.spans.len() {
                CHAIN_CERTIFICATES_MAX => chain.omitted += 1,
                _ => chain.push(der),
            }
        }
        chain
    }

    /// Number of certificates beyond [`CHAIN_CERTIFICATES_MAX`].
    pub(crate) fn omitted(&self) -> u64 {
        self.omitted
    }

    /// A chain of one.
    pub(super) fn single(der: &[u8]) -> Self {
        let mut chain = Self::default();
        if !der.is_empty() {
            chain.push(der);
        }
        chain
    }

    /// Whether there is no certificate: none was seen, or the client was asked and has none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The certificates in DER.
    pub fn der(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.spans.iter().map(|span| &self.der[span.clone()])
    }

    /// The certificates. Parses them at the first call.
    pub fn certificates(&self) -> &[Certificate] {
        self.parsed.get_or_init(|| {
            let digested = self.der().zip(self.digests());
            digested.map(|(der, sha256)| Certificate::parse_digested(der, sha256.clone())).collect()
        })
    }

    /// SHA-256 of each certificate, hexadecimal. Computed at the first call, without parsing.
    pub fn digests(&self) -> &[String] {
        self.digests.get_or_init(|| self.der().map(digest).collect())
    }

    /// The side's own certificate.
    pub fn leaf(&self) -> Option<&Certificate> {
        self.certificates().first()
    }

    fn push(&mut self, der: &[u8]) {
        let start = self.der.len();
        self.der.extend_from_slice(der);
        self.spans.push(start..self.der.len());
    }
}

/// Chains are compared by their bytes.
impl PartialEq for CertificateChain {
    fn eq(&self, other: &Self) -> bool {
        self.der == other.der && self.spans == other.spans
    }
}

impl Eq for CertificateChain {}

fn digest(der: &[u8]) -> String {
    hex(&sha2::Sha256::digest(der))
}

fn name_matches(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        None => pattern.eq_ignore_ascii_case(host),
        Some(domain) => host
            .split_once('.')
            .is_some_and(|(label, rest)| !label.is_empty() && rest.eq_ignore_ascii_case(domain)),
    }
}

fn serial(raw: &[u8]) -> String {
    let zeros = raw.iter().take_while(|byte| **byte == 0).count().min(raw.len().saturating_sub(1));
    hex(&raw[zeros..]).to_ascii_uppercase()
}

/// Type of a key, and its length in bits.
fn key(info: &SubjectPublicKeyInfo<'_>) -> (String, usize) {
    let oid = info.algorithm.algorithm.to_id_string();
    let bytes = info.subject_public_key.data.len();
    match info.parsed() {
        Ok(PublicKey::RSA(rsa)) => ("rsa".to_owned(), bits(rsa.modulus)),
        Ok(PublicKey::DSA(_)) => ("dsa".to_owned(), dsa_bits(info)),
        Ok(PublicKey::EC(point)) => {
            let curve = info.algorithm.parameters.as_ref().and_then(|any| any.as_oid().ok());
            let named = curve.and_then(|curve| curve_bits(&curve.to_id_string()));
            ("ecdsa".to_owned(), named.unwrap_or_else(|| point.key_size()))
        }
        _ => match oid.as_str() {
            "1.3.101.110" => ("x25519".to_owned(), 253),
            "1.3.101.111" => ("x448".to_owned(), 448),
            "1.3.101.112" => ("ed25519".to_owned(), 256),
            "1.3.101.113" => ("ed448".to_owned(), 456),
            other => (algorithm(other), bytes * 8),
        },
    }
}

/// Length of a big-endian number, bits.
fn bits(number: &[u8]) -> usize {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    let number = &number[zeros..];
    number.first().map_or(0, |first| number.len() * 8 - first.leading_zeros() as usize)
}

/// Length of p, the first parameter of a DSA key, bits (RFC 3279 §2.3.2).
fn dsa_bits(info: &SubjectPublicKeyInfo<'_>) -> usize {
    let parameters = info.algorithm.parameters.as_ref().map(|any| any.data).unwrap_or_default();
    match x509_parser::der_parser::parse_der(parameters) {
        Ok((_, p)) => p.as_slice().map_or(0, bits),
        Err(_) => 0,
    }
}

/// The public exponent of an RSA key (RFC 8017 §3.1).
fn exponent(info: &SubjectPublicKeyInfo<'_>) -> Option<String> {
    let Ok(PublicKey::RSA(key)) = info.parsed() else { return None };
    let zeros = key.exponent.iter().take_while(|byte| **byte == 0).count();
    let digits = &key.exponent[zeros..];
    if digits.len() > 8 {
        return Some(format!("0x{}", hex(digits)));
    }
    Some(digits.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte)).to_string())
}

/// OpenSSL's name of the named curve of a key (RFC 5480 §2.1.1).
fn curve(info: &SubjectPublicKeyInfo<'_>) -> Option<String> {
    let Ok(PublicKey::EC(_)) = info.parsed() else { return None };
    let oid = info.algorithm.parameters.as_ref()?.as_oid().ok()?.to_id_string();
    Some(
        match oid.as_str() {
            "1.2.840.10045.3.1.1" => "prime192v1",
            "1.3.132.0.33" => "secp224r1",
            "1.2.840.10045.3.1.7" => "prime256v1",
            "1.3.132.0.10" => "secp256k1",
            "1.3.132.0.34" => "secp384r1",
            "1.3.132.0.35" => "secp521r1",
            other => other,
        }
        .to_owned(),
    )
}

/// Key length of a named curve, bits (RFC 5480 §2.1.1.1).
fn curve_bits(oid: &str) -> Option<usize> {
    Some(match oid {
        "1.2.840.10045.3.1.1" => 192,
        "1.3.132.0.33" => 224,
        "1.2.840.10045.3.1.7" | "1.3.132.0.10" => 256,
        "1.3.132.0.34" => 384,
        "1.3.132.0.35" => 521,
        _ => return None,
    })
}

/// Zeek's name of an algorithm in `x509.log`; the object identifier if it has none.
fn algorithm(oid: &str) -> String {
    match oid {
        "1.2.840.113549.1.1.1" => "rsaEncryption",
        "1.2.840.113549.1.1.2" => "md2WithRSAEncryption",
        "1.2.840.113549.1.1.4" => "md5WithRSAEncryption",
        "1.2.840.113549.1.1.5" => "sha1WithRSAEncryption",
        "1.2.840.113549.1.1.10" => "rsassaPss",
        "1.2.840.113549.1.1.11" => "sha256WithRSAEncryption",
        "1.2.840.113549.1.1.12" => "sha384WithRSAEncryption",
        "1.2.840.113549.1.1.13" => "sha512WithRSAEncryption",
        "1.2.840.113549.1.1.14" => "sha224WithRSAEncryption",
        "1.2.840.10040.4.1" => "dsaEncryption",
        "1.2.840.10040.4.3" => "dsaWithSHA1",
        "2.16.840.1.101.3.4.3.2" => "dsa_with_SHA256",
        "1.2.840.10045.2.1" => "id-ecPublicKey",
        "1.2.840.10045.4.1" => "ecdsa-with-SHA1",
        "1.2.840.10045.4.3.1" => "ecdsa-with-SHA224",
        "1.2.840.10045.4.3.2" => "ecdsa-with-SHA256",
        "1.2.840.10045.4.3.3" => "ecdsa-with-SHA384",
        "1.2.840.10045.4.3.4" => "ecdsa-with-SHA512",
        "1.3.101.112" => "ED25519",
        "1.3.101.113" => "ED448",
        "1.2.156.10197.1.501" => "SM2-with-SM3",
        "2.16.840.1.101.3.4.3.17" => "ML-DSA-44",
        "2.16.840.1.101.3.4.3.18" => "ML-DSA-65",
        "2.16.840.1.101.3.4.3.19" => "ML-DSA-87",
        other => other,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_match_by_label() {
        assert!(name_matches("weir.example", "WEIR.example"));
        assert!(name_matches("*.weir.example", "a.weir.example"));
        assert!(!name_matches("*.weir.example", "weir.example"));
        assert!(!name_matches("*.weir.example", "a.b.weir.example"));
        assert!(!name_matches("*.weir.example", ".weir.example"));
    }

    #[test]
    fn what_is_no_certificate_has_a_digest_only() {
        let certificate = Certificate::parse(b"no");
        assert!(!certificate.is_well_formed);
        assert_eq!(certificate.sha256.len(), 64);
        assert!(!certificate.matches_host("a.example"));
    }

    #[test]
    fn a_chain_is_read_as_far_as_it_goes() {
        let chain = CertificateChain::parse(&[0, 0, 9, 0, 0, 1, 7, 0, 0, 2, 8, 9]);
        assert_eq!(chain.der().collect::<Vec<_>>(), [&[7][..], &[8, 9]]);
        assert!(CertificateChain::parse(&[0, 0, 9, 0, 0]).is_empty());
        let cut = CertificateChain::parse(&[0, 0, 7, 0, 0, 1, 7, 0, 0, 2]);
        assert_eq!(cut.der().len(), 1);
    }

    #[test]
    fn a_chain_is_bounded() {
        let mut body = vec![0, 1, 0];
        body.extend([0, 0, 1, 7].repeat(64));
        let chain = CertificateChain::parse(&body);
        assert_eq!((chain.der().len(), chain.omitted()), (CHAIN_CERTIFICATES_MAX, 32));
    }

    #[test]
    fn numbers_are_without_leading_zeros() {
        assert_eq!(serial(&[0, 0xab, 1]), "AB01");
        assert_eq!(serial(&[0]), "00");
        assert_eq!(bits(&[0, 0x80, 0]), 16);
        assert_eq!(bits(&[0x7f]), 7);
    }
}
