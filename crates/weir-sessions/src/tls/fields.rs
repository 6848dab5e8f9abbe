//! The fields of a handshake for filters: one line each, Wireshark's name first, then ours and Zeek's.

use super::certificate::{Certificate, CertificateChain};
use super::fingerprint;
use super::handshake::TlsHandshake;
use super::hello::ClientHello;
use crate::session::session_fields;
use crate::values::{bytes, name, numbers, owned, text, texts, unsigned};
use weir_packet::Value;

session_fields! { TlsHandshake;
    // Columns of the log.
    "tls.version" [] version: Text in super::names::VERSIONS, "Negotiated version, with Zeek's name: TLSv12" => |h| name(h.version_name());
    "tls.cipher" [] cipher: Text in super::names::CIPHER_NAMES, "Cipher suite that the server chose" => |h| name(h.cipher_name());
    "tls.curve" ["tls.group"] curve: Text in super::names::GROUP_NAMES, "Group of the key exchange" => |h| name(h.group_name());
    "tls.handshake.extensions_server_name" ["tls.sni", "tls.server_name"] server_name: Text, "Host name that the client requests (RFC 6066)" => |h| text(h.server_name());
    "tls.resumed" [] resumed: Bool, "Whether the handshake resumed an earlier session" => |h| Value::Bool(h.is_resumed);
    "tls.last_alert" [] last_alert: Text in super::names::ALERT_NAMES, "Name of the last unencrypted alert" => |h| name(h.alert_name());
    "tls.next_protocol" [] next_protocol: Text, "Application protocol that the server chose, if sent unencrypted" => |h| text(h.next_protocol());
    "tls.established" [] established: Bool, "Whether both sides switched to encryption" => |h| Value::Bool(h.is_established);
    "tls.history" ["tls.ssl_history"] ssl_history: Text, "One letter per message, upper case for the client's, as Zeek's ssl_history" => |h| text(Some(&h.history));
    "tls.cert.chain" ["tls.cert_chain_fps"] cert_chain_fps: Texts, "SHA-256 of each certificate of the server's chain, the server's own first" => |h| digests(h, &h.server_certificates);
    "tls.client_cert.chain" ["tls.client_cert_chain_fps"] client_cert_chain_fps: Texts, "SHA-256 of each certificate of the client's chain, the client's own first" => |h| digests(h, &h.client_certificates);
    "tls.cert.subject" ["tls.subject"] subject: Text, "Subject of the server's certificate" => |h| of_certificate(h, |c| text(Some(&c.subject)));
    "tls.cert.issuer" ["tls.issuer"] issuer: Text, "Issuer of the server's certificate" => |h| of_certificate(h, |c| text(Some(&c.issuer)));
    "tls.client_cert.subject" ["tls.client_subject"] client_subject: Text, "Subject of the client's certificate" => |h| h.client_certificate().map_or(Value::Absent, |c| text(Some(&c.subject)));
    "tls.client_cert.issuer" ["tls.client_issuer"] client_issuer: Text, "Issuer of the client's certificate" => |h| h.client_certificate().map_or(Value::Absent, |c| text(Some(&c.issuer)));
    "tls.sni_matches_cert" [] sni_matches_cert: Bool, "Whether the server's certificate is valid for the requested host name" => |h| h.does_name_match_certificate().map_or(Value::Absent, Value::Bool);
    "tls.handshake.ja3" ["tls.ja3"] ja3: Text, "JA3 of the client's hello: MD5, hexadecimal" => |h| of_client(h, |c| owned(fingerprint::ja3(c)));
    "tls.handshake.ja3s" ["tls.ja3s"] ja3s: Text, "JA3S of the server's hello: MD5, hexadecimal" => |h| h.ja3s().map_or(Value::Absent, owned);
    "tls.handshake.ja4" ["tls.ja4"] ja4: Text, "JA4 of the client's hello" => |h| h.ja4().map_or(Value::Absent, owned);
    "tls.client_random" [] client_random: Bytes, "Random of the client's hello, 32 bytes" => |h| of_client(h, |c| bytes(&c.random));
    // The client's offer.
    "tls.handshake.extensions_alpn_str" ["tls.alpn"] _: Texts, "Application protocols that the client offers (RFC 7301)" => |h| of_client(h, |c| texts(&c.alpn));
    "tls.handshake.ciphersuite" ["tls.ciphers"] _: Numbers, "Cipher suites the client offers, in its order" => |h| of_client(h, |c| numbers(&c.ciphers));
    "tls.handshake.extension.type" ["tls.extensions"] _: Numbers, "Extensions of the client's hello, in its order" => |h| of_client(h, |c| numbers(&c.extensions));
    "tls.handshake.extensions.supported_version" ["tls.supported_versions"] _: Numbers, "Versions that the client supports, if it lists them" => |h| of_client(h, |c| numbers(&c.supported_versions));
    "tls.handshake.extensions_supported_group" ["tls.groups"] _: Numbers, "Groups and curves the client supports" => |h| of_client(h, |c| numbers(&c.groups));
    "tls.handshake.extensions_ec_point_format" ["tls.point_formats"] _: Numbers, "Point formats the client supports" => |h| of_client(h, |c| numbers(&c.point_formats));
    "tls.handshake.sig_hash_alg" ["tls.signature_algorithms"] _: Numbers, "Signature algorithms the client supports" => |h| of_client(h, |c| numbers(&c.signature_algorithms));
    "tls.handshake.extensions_key_share_group" ["tls.key_share_groups"] _: Numbers, "Groups the client sends a key share for" => |h| of_client(h, |c| numbers(&c.key_share_groups));
    "tls.handshake.session_id" ["tls.session_id"] _: Bytes, "Session id of the client's hello" => |h| of_client(h, |c| bytes(&c.session_id));
    "tls.client_version" [] _: Unsigned, "Version number in the client's hello" => |h| of_client(h, |c| Value::Unsigned(c.version.into()));
    // The server's choice.
    "tls.handshake.version" ["tls.version_num"] _: Unsigned, "Number of the negotiated version; if unanswered, of the version that the client requests" => version_number;
    "tls.cipher_num" [] _: Unsigned, "Number of the cipher suite the server chose" => |h| unsigned(h.cipher());
    "tls.server_random" [] _: Bytes, "Random of the server's hello, 32 bytes" => |h| h.server_hello.as_ref().map_or(Value::Absent, |s| bytes(&s.random));
    "tls.server_extensions" [] _: Numbers, "Extensions of the server's hello, in its order" => |h| h.server_hello.as_ref().map_or(Value::Absent, |s| numbers(&s.extensions));
    // Results.
    "tls.retried" [] _: Bool, "Whether the server requested a second hello (HelloRetryRequest)" => |h| Value::Bool(h.is_retried);
    "tls.alert_message.desc" ["tls.alert"] _: Unsigned, "Number of the last unencrypted alert" => |h| unsigned(h.alert);
    "tls.incomplete" [] _: Text in super::Incomplete::WORDS, "Why the handshake is incomplete: gap, oversize, malformed, one_sided" => |h| text(h.incomplete.map(super::Incomplete::as_str));
    // Fingerprints.
    "tls.handshake.ja3_full" ["tls.ja3_full"] _: Text, "The text whose hash is JA3" => |h| of_client(h, |c| owned(fingerprint::ja3_text(c)));
    "tls.handshake.ja3s_full" ["tls.ja3s_full"] _: Text, "The text whose hash is JA3S" => |h| h.server_hello.as_ref().map_or(Value::Absent, |s| owned(fingerprint::ja3s_text(s)));
    "tls.handshake.ja4_r" ["tls.ja4_r"] _: Text, "JA4 with the lists instead of their hashes" => |h| h.client_hello.as_ref().map_or(Value::Absent, |c| owned(fingerprint::ja4_raw(c, h.transport)));
    // Certificates: each side's own unless stated otherwise.
    "tls.cert.san" [] _: Texts, "DNS names and addresses of the server's certificate" => |h| of_certificate(h, |c| Value::Texts(c.alternative_names().into()));
    "tls.cert.serial" [] _: Text, "Serial number of the server's certificate, hexadecimal" => |h| of_certificate(h, |c| text(Some(&c.serial)));
    "tls.cert.not_before" [] _: Time, "Start of validity of the server's certificate" => |h| of_certificate(h, |c| Value::Time(c.not_before));
    "tls.cert.not_after" [] _: Time, "End of validity of the server's certificate" => |h| of_certificate(h, |c| Value::Time(c.not_after));
    "tls.cert.key_type" [] _: Text, "Type of the key of the server's certificate: rsa, ecdsa …" => |h| of_certificate(h, |c| text(Some(&c.key_type)));
    "tls.cert.key_bits" ["tls.cert.key_length"] _: Unsigned, "Length of the key of the server's certificate, bits" => |h| of_certificate(h, |c| Value::Unsigned(c.key_bits as u64));
    "tls.cert.sig_alg" [] _: Text, "Algorithm of the signature of the server's certificate" => |h| of_certificate(h, |c| text(Some(&c.signature_algorithm)));
    "tls.cert.sha256" [] _: Text, "SHA-256 of the server's certificate, hexadecimal" => |h| h.server_certificate().map_or(Value::Absent, |c| text(Some(&c.sha256)));
}

pub(crate) fn of_client<'a>(
    handshake: &'a TlsHandshake,
    read: fn(&'a ClientHello) -> Value<'a>,
) -> Value<'a> {
    handshake.client_hello.as_ref().map_or(Value::Absent, read)
}

/// Reads a field of the server's certificate. A malformed certificate has only a digest.
pub(crate) fn of_certificate<'a>(
    handshake: &'a TlsHandshake,
    read: fn(&'a Certificate) -> Value<'a>,
) -> Value<'a> {
    handshake
        .server_certificate()
        .filter(|certificate| certificate.is_well_formed)
        .map_or(Value::Absent, read)
}

pub(crate) fn version_number(handshake: &TlsHandshake) -> Value<'_> {
    unsigned(handshake.version().or(handshake.client_hello.as_ref().map(|hello| hello.version)))
}

/// Digests of a chain. As in Zeek, the list is empty, not absent, if only the other side sent certificates.
pub(crate) fn digests<'a>(handshake: &TlsHandshake, chain: &'a CertificateChain) -> Value<'a> {
    let has_any = !(handshake.server_certificates.is_empty() && handshake.client_certificates.is_empty());
    if has_any { Value::Texts(chain.digests().into()) } else { Value::Absent }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use weir_packet::ValueType::Bool;

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
