//! The fields of a handshake that filters can name: one line each, Wireshark's name first, then ours and Zeek's.

use super::certificate::{Certificate, CertificateChain};
use super::fingerprint::{self, Transport};
use super::handshake::TlsHandshake;
use super::hello::ClientHello;
use crate::Field;
use std::borrow::Cow;
use weir_packet::{Value, ValueType};

/// A field and how it is read.
#[derive(Clone, Copy)]
struct Entry {
    field: Field,
    read: fn(&TlsHandshake) -> Value<'_>,
}

/// The fields, in the order of [`value`].
pub(super) const FIELDS: [Field; TABLE.len()] = {
    let mut fields = [TABLE[0].field; TABLE.len()];
    let mut at = 0;
    while at < fields.len() {
        fields[at] = TABLE[at].field;
        at += 1;
    }
    fields
};

/// The value of field `index` of [`FIELDS`]; absent beyond their end.
pub(super) fn value(handshake: &TlsHandshake, index: usize) -> Value<'_> {
    TABLE.get(index).map_or(Value::Absent, |entry| (entry.read)(handshake))
}

const fn entry(
    name: &'static str,
    aliases: &'static [&'static str],
    value_type: ValueType,
    doc: &'static str,
    read: fn(&TlsHandshake) -> Value<'_>,
) -> Entry {
    Entry { field: Field { name, aliases, value_type, doc }, read }
}

use ValueType::{Bool, Bytes, Numbers, Text, Texts, Time, Unsigned};

#[rustfmt::skip]
const TABLE: &[Entry] = &[
    // What the client offers.
    entry("tls.handshake.extensions_server_name", &["tls.sni", "tls.server_name"], Text, "Host the client asks for (RFC 6066)", |h| text(h.server_name())),
    entry("tls.handshake.extensions_alpn_str", &["tls.alpn"], Texts, "Application protocols the client offers (RFC 7301)", |h| of_client(h, |c| texts(&c.alpn))),
    entry("tls.handshake.ciphersuite", &["tls.ciphers"], Numbers, "Cipher suites the client offers, in its order", |h| of_client(h, |c| numbers(&c.ciphers))),
    entry("tls.handshake.extension.type", &["tls.extensions"], Numbers, "Extensions of the client's hello, in its order", |h| of_client(h, |c| numbers(&c.extensions))),
    entry("tls.handshake.extensions.supported_version", &["tls.supported_versions"], Numbers, "Versions the client supports, where it lists them", |h| of_client(h, |c| numbers(&c.supported_versions))),
    entry("tls.handshake.extensions_supported_group", &["tls.groups"], Numbers, "Groups and curves the client supports", |h| of_client(h, |c| numbers(&c.groups))),
    entry("tls.handshake.extensions_ec_point_format", &["tls.point_formats"], Numbers, "Point formats the client supports", |h| of_client(h, |c| numbers(&c.point_formats))),
    entry("tls.handshake.sig_hash_alg", &["tls.signature_algorithms"], Numbers, "Signature algorithms the client supports", |h| of_client(h, |c| numbers(&c.signature_algorithms))),
    entry("tls.handshake.extensions_key_share_group", &["tls.key_share_groups"], Numbers, "Groups the client sends a key share for", |h| of_client(h, |c| numbers(&c.key_share_groups))),
    entry("tls.handshake.session_id", &["tls.session_id"], Bytes, "Session id of the client's hello", |h| of_client(h, |c| bytes(&c.session_id))),
    entry("tls.client_random", &[], Bytes, "Random of the client's hello, 32 bytes", |h| of_client(h, |c| bytes(&c.random))),
    entry("tls.client_version", &[], Unsigned, "Version number in the client's hello", |h| of_client(h, |c| Value::Unsigned(c.version.into()))),
    // What the server chooses.
    entry("tls.version", &[], Text, "Version that was agreed on, as Zeek names it: TLSv12", |h| name(h.version_name())),
    entry("tls.handshake.version", &["tls.version_num"], Unsigned, "Version number that was agreed on, or that the client asked for where unanswered", version_number),
    entry("tls.cipher", &[], Text, "Cipher suite the server chose", |h| name(h.cipher_name())),
    entry("tls.cipher_num", &[], Unsigned, "Number of the cipher suite the server chose", |h| unsigned(h.cipher())),
    entry("tls.curve", &["tls.group"], Text, "Group of the key exchange", |h| name(h.group_name())),
    entry("tls.next_protocol", &[], Text, "Application protocol the server chose, where it said so in clear", |h| text(h.next_protocol())),
    entry("tls.server_random", &[], Bytes, "Random of the server's hello, 32 bytes", |h| h.server_hello.as_ref().map_or(Value::Absent, |s| bytes(&s.random))),
    entry("tls.server_extensions", &[], Numbers, "Extensions of the server's hello, in its order", |h| h.server_hello.as_ref().map_or(Value::Absent, |s| numbers(&s.extensions))),
    // How it went.
    entry("tls.resumed", &[], Bool, "Whether the keys of an earlier connection were taken up", |h| Value::Bool(h.is_resumed)),
    entry("tls.established", &[], Bool, "Whether both sides went over to encryption", |h| Value::Bool(h.is_established)),
    entry("tls.retried", &[], Bool, "Whether the server asked for a second hello (HelloRetryRequest)", |h| Value::Bool(h.is_retried)),
    entry("tls.alert_message.desc", &["tls.alert"], Unsigned, "Number of the last alert seen in clear", |h| unsigned(h.alert)),
    entry("tls.last_alert", &[], Text, "Name of the last alert seen in clear", |h| name(h.alert_name())),
    entry("tls.history", &["tls.ssl_history"], Text, "Messages seen, a letter each, the client's in capitals, as Zeek's ssl_history", |h| text(Some(&h.history))),
    entry("tls.incomplete", &[], Text, "Why the handshake was not read to its end: gap, oversize, malformed, one_sided", |h| text(h.incomplete.map(super::Incomplete::as_str))),
    // Fingerprints.
    entry("tls.handshake.ja3", &["tls.ja3"], Text, "JA3 of the client's hello: MD5, hexadecimal", |h| of_client(h, |c| owned(fingerprint::ja3(c)))),
    entry("tls.handshake.ja3_full", &["tls.ja3_full"], Text, "The text that JA3 is the hash of", |h| of_client(h, |c| owned(fingerprint::ja3_text(c)))),
    entry("tls.handshake.ja3s", &["tls.ja3s"], Text, "JA3S of the server's hello: MD5, hexadecimal", |h| h.ja3s().map_or(Value::Absent, owned)),
    entry("tls.handshake.ja3s_full", &["tls.ja3s_full"], Text, "The text that JA3S is the hash of", |h| h.server_hello.as_ref().map_or(Value::Absent, |s| owned(fingerprint::ja3s_text(s)))),
    entry("tls.handshake.ja4", &["tls.ja4"], Text, "JA4 of the client's hello", |h| of_client(h, |c| owned(fingerprint::ja4(c, Transport::Tcp)))),
    entry("tls.handshake.ja4_r", &["tls.ja4_r"], Text, "JA4 with its lists in place of their hashes", |h| of_client(h, |c| owned(fingerprint::ja4_raw(c, Transport::Tcp)))),
    // Certificates, the side's own unless said otherwise.
    entry("tls.cert.subject", &["tls.subject"], Text, "Subject of the server's certificate", |h| of_certificate(h, |c| text(Some(&c.subject)))),
    entry("tls.cert.issuer", &["tls.issuer"], Text, "Issuer of the server's certificate", |h| of_certificate(h, |c| text(Some(&c.issuer)))),
    entry("tls.cert.san", &[], Texts, "DNS names and addresses of the server's certificate", |h| of_certificate(h, |c| Value::Texts(c.alternative_names().into()))),
    entry("tls.cert.serial", &[], Text, "Serial number of the server's certificate, hexadecimal", |h| of_certificate(h, |c| text(Some(&c.serial)))),
    entry("tls.cert.not_before", &[], Time, "Start of validity of the server's certificate", |h| of_certificate(h, |c| Value::Time(c.not_before))),
    entry("tls.cert.not_after", &[], Time, "End of validity of the server's certificate", |h| of_certificate(h, |c| Value::Time(c.not_after))),
    entry("tls.cert.key_type", &[], Text, "Kind of key of the server's certificate: rsa, ecdsa …", |h| of_certificate(h, |c| text(Some(&c.key_type)))),
    entry("tls.cert.key_bits", &["tls.cert.key_length"], Unsigned, "Length of the key of the server's certificate, bits", |h| of_certificate(h, |c| Value::Unsigned(c.key_bits as u64))),
    entry("tls.cert.sig_alg", &[], Text, "Algorithm of the signature of the server's certificate", |h| of_certificate(h, |c| text(Some(&c.signature_algorithm)))),
    entry("tls.cert.sha256", &[], Text, "SHA-256 of the server's certificate, hexadecimal", |h| h.server_certificate().map_or(Value::Absent, |c| text(Some(&c.sha256)))),
    entry("tls.cert.chain", &["tls.cert_chain_fps"], Texts, "SHA-256 of each of the server's certificates, its own first", |h| digests(&h.server_certificates)),
    entry("tls.sni_matches_cert", &[], Bool, "Whether the server's certificate is for the host the client asks for", |h| h.does_name_match_certificate().map_or(Value::Absent, Value::Bool)),
    entry("tls.client_cert.subject", &["tls.client_subject"], Text, "Subject of the client's certificate", |h| h.client_certificate().map_or(Value::Absent, |c| text(Some(&c.subject)))),
    entry("tls.client_cert.issuer", &["tls.client_issuer"], Text, "Issuer of the client's certificate", |h| h.client_certificate().map_or(Value::Absent, |c| text(Some(&c.issuer)))),
    entry("tls.client_cert.chain", &["tls.client_cert_chain_fps"], Texts, "SHA-256 of each of the client's certificates, its own first", |h| digests(&h.client_certificates)),
];

fn of_client<'a>(handshake: &'a TlsHandshake, read: fn(&'a ClientHello) -> Value<'a>) -> Value<'a> {
    handshake.client_hello.as_ref().map_or(Value::Absent, read)
}

/// Of a certificate that is none only the digest is known.
fn of_certificate<'a>(handshake: &'a TlsHandshake, read: fn(&'a Certificate) -> Value<'a>) -> Value<'a> {
    handshake
        .server_certificate()
        .filter(|certificate| certificate.is_well_formed)
        .map_or(Value::Absent, read)
}

fn version_number(handshake: &TlsHandshake) -> Value<'_> {
    unsigned(handshake.version().or(handshake.client_hello.as_ref().map(|hello| hello.version)))
}

fn text(text: Option<&str>) -> Value<'_> {
    text.map_or(Value::Absent, |text| Value::Text(Cow::Borrowed(text)))
}

fn name(name: Option<Cow<'static, str>>) -> Value<'static> {
    name.map_or(Value::Absent, Value::Text)
}

fn owned(text: String) -> Value<'static> {
    Value::Text(Cow::Owned(text))
}

fn unsigned<N: Into<u64>>(number: Option<N>) -> Value<'static> {
    number.map_or(Value::Absent, |number| Value::Unsigned(number.into()))
}

fn bytes(bytes: &[u8]) -> Value<'_> {
    if bytes.is_empty() { Value::Absent } else { Value::Bytes(Cow::Borrowed(bytes)) }
}

fn texts(texts: &[String]) -> Value<'_> {
    if texts.is_empty() { Value::Absent } else { Value::Texts(Cow::Borrowed(texts)) }
}

fn numbers<N: Copy + Into<u64>>(numbers: &[N]) -> Value<'static> {
    if numbers.is_empty() {
        Value::Absent
    } else {
        Value::Numbers(numbers.iter().map(|n| (*n).into()).collect())
    }
}

fn digests(chain: &CertificateChain) -> Value<'static> {
    if chain.is_empty() { Value::Absent } else { Value::Texts(chain.digests().into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_and_aliases_are_distinct_and_begin_with_the_protocol() {
        let mut seen = HashSet::new();
        for field in FIELDS {
            for name in field.aliases.iter().chain([&field.name]) {
                assert!(seen.insert(*name), "{name} twice");
                assert!(name.starts_with("tls."), "{name}");
            }
        }
    }

    #[test]
    fn an_empty_handshake_has_no_values_but_flags_and_history() {
        let handshake = TlsHandshake::default();
        for (index, field) in FIELDS.iter().enumerate() {
            let absent = value(&handshake, index) == Value::Absent;
            assert_eq!(
                absent,
                field.value_type != Bool && field.name != "tls.history"
                    || field.name == "tls.sni_matches_cert"
            );
        }
        assert_eq!(value(&handshake, FIELDS.len()), Value::Absent);
    }
}
