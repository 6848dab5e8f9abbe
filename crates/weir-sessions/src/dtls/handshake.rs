//! [`DtlsHandshake`]: a TLS handshake over datagrams, and its filter fields. It shares the log and the
//! columns of TLS.

use crate::Session;
use crate::session::session_fields;
use crate::tls::fields::{digests, of_certificate, of_client, version_number};
use crate::tls::fingerprint::{self, Transport};
use crate::tls::{Incomplete, TlsHandshake};
use crate::values::{bytes, name, numbers, owned, text, texts, unsigned};
use std::any::Any;
use weir_packet::{Timestamp, Value};

/// The unencrypted part of one flow's handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DtlsHandshake {
    /// Time of the first datagram.
    pub time: Timestamp,
    /// The handshake, as in TLS. Versions have DTLS numbers: 0xfefd is 1.2.
    pub handshake: TlsHandshake,
    /// Whether the server verified the client's address (HelloVerifyRequest, RFC 6347 §4.2.1).
    pub is_verified: bool,
}

impl Default for DtlsHandshake {
    fn default() -> Self {
        let handshake = TlsHandshake { transport: Transport::Dtls, ..TlsHandshake::default() };
        Self { time: Timestamp(0), handshake, is_verified: false }
    }
}

impl Session for DtlsHandshake {
    fn value(&self, index: usize) -> Value<'_> {
        value(self, index)
    }

    fn time(&self) -> Option<Timestamp> {
        Some(self.time)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

session_fields! { DtlsHandshake;
    "dtls.version" [] version: Text in crate::tls::names::VERSIONS, "Negotiated version, with Zeek's name: DTLSv12" => |d| name(d.handshake.version_name());
    "dtls.cipher" [] cipher: Text in crate::tls::names::CIPHER_NAMES, "Cipher suite that the server chose" => |d| name(d.handshake.cipher_name());
    "dtls.curve" ["dtls.group"] curve: Text in crate::tls::names::GROUP_NAMES, "Group of the key exchange" => |d| name(d.handshake.group_name());
    "dtls.handshake.extensions_server_name" ["dtls.sni", "dtls.server_name"] server_name: Text, "Host name that the client requests (RFC 6066)" => |d| text(d.handshake.server_name());
    "dtls.resumed" [] resumed: Bool, "Whether the handshake resumed an earlier session" => |d| Value::Bool(d.handshake.is_resumed);
    "dtls.last_alert" [] last_alert: Text in crate::tls::names::ALERT_NAMES, "Name of the last unencrypted alert" => |d| name(d.handshake.alert_name());
    "dtls.next_protocol" [] next_protocol: Text, "Application protocol that the server chose, if sent unencrypted" => |d| text(d.handshake.next_protocol());
    "dtls.established" [] established: Bool, "Whether both sides switched to encryption" => |d| Value::Bool(d.handshake.is_established);
    "dtls.history" ["dtls.ssl_history"] ssl_history: Text, "One letter per message, upper case for the client's, as Zeek's ssl_history" => |d| text(Some(&d.handshake.history));
    "dtls.cert.chain" ["dtls.cert_chain_fps"] cert_chain_fps: Texts, "SHA-256 of each certificate of the server's chain, the server's own first" => |d| digests(&d.handshake, &d.handshake.server_certificates);
    "dtls.client_cert.chain" ["dtls.client_cert_chain_fps"] client_cert_chain_fps: Texts, "SHA-256 of each certificate of the client's chain, the client's own first" => |d| digests(&d.handshake, &d.handshake.client_certificates);
    "dtls.cert.subject" ["dtls.subject"] subject: Text, "Subject of the server's certificate" => |d| of_certificate(&d.handshake, |c| text(Some(&c.subject)));
    "dtls.cert.issuer" ["dtls.issuer"] issuer: Text, "Issuer of the server's certificate" => |d| of_certificate(&d.handshake, |c| text(Some(&c.issuer)));
    "dtls.client_cert.subject" ["dtls.client_subject"] client_subject: Text, "Subject of the client's certificate" => |d| d.handshake.client_certificate().map_or(Value::Absent, |c| text(Some(&c.subject)));
    "dtls.client_cert.issuer" ["dtls.client_issuer"] client_issuer: Text, "Issuer of the client's certificate" => |d| d.handshake.client_certificate().map_or(Value::Absent, |c| text(Some(&c.issuer)));
    "dtls.sni_matches_cert" [] sni_matches_cert: Bool, "Whether the server's certificate is valid for the requested host name" => |d| d.handshake.does_name_match_certificate().map_or(Value::Absent, Value::Bool);
    "dtls.handshake.ja3" ["dtls.ja3"] ja3: Text, "JA3 of the client's hello: MD5, hexadecimal" => |d| of_client(&d.handshake, |c| owned(fingerprint::ja3(c)));
    "dtls.handshake.ja3s" ["dtls.ja3s"] ja3s: Text, "JA3S of the server's hello: MD5, hexadecimal" => |d| d.handshake.ja3s().map_or(Value::Absent, owned);
    "dtls.handshake.ja4" ["dtls.ja4"] ja4: Text, "JA4 of the client's hello" => |d| d.handshake.ja4().map_or(Value::Absent, owned);
    "dtls.client_random" [] client_random: Bytes, "Random of the client's hello, 32 bytes" => |d| of_client(&d.handshake, |c| bytes(&c.random));
    // Offers of the client.
    "dtls.handshake.extensions_alpn_str" ["dtls.alpn"] _: Texts, "Application protocols that the client offers (RFC 7301)" => |d| of_client(&d.handshake, |c| texts(&c.alpn));
    "dtls.handshake.ciphersuite" ["dtls.ciphers"] _: Numbers, "Cipher suites the client offers, in its order" => |d| of_client(&d.handshake, |c| numbers(&c.ciphers));
    "dtls.handshake.extension.type" ["dtls.extensions"] _: Numbers, "Extensions of the client's hello, in its order" => |d| of_client(&d.handshake, |c| numbers(&c.extensions));
    "dtls.handshake.extensions.supported_version" ["dtls.supported_versions"] _: Numbers, "Versions that the client supports, if it lists them" => |d| of_client(&d.handshake, |c| numbers(&c.supported_versions));
    "dtls.handshake.extensions_supported_group" ["dtls.groups"] _: Numbers, "Groups and curves the client supports" => |d| of_client(&d.handshake, |c| numbers(&c.groups));
    "dtls.handshake.extensions_ec_point_format" ["dtls.point_formats"] _: Numbers, "Point formats the client supports" => |d| of_client(&d.handshake, |c| numbers(&c.point_formats));
    "dtls.handshake.sig_hash_alg" ["dtls.signature_algorithms"] _: Numbers, "Signature algorithms the client supports" => |d| of_client(&d.handshake, |c| numbers(&c.signature_algorithms));
    "dtls.handshake.extensions_key_share_group" ["dtls.key_share_groups"] _: Numbers, "Groups the client sends a key share for" => |d| of_client(&d.handshake, |c| numbers(&c.key_share_groups));
    "dtls.handshake.session_id" ["dtls.session_id"] _: Bytes, "Session id of the client's hello" => |d| of_client(&d.handshake, |c| bytes(&c.session_id));
    "dtls.client_version" [] _: Unsigned, "Version number in the client's hello" => |d| of_client(&d.handshake, |c| Value::Unsigned(c.version.into()));
    // Choices of the server, and the outcome.
    "dtls.handshake.version" ["dtls.version_num"] _: Unsigned, "Number of the negotiated version; if unanswered, of the version that the client requests" => |d| version_number(&d.handshake);
    "dtls.cipher_num" [] _: Unsigned, "Number of the cipher suite the server chose" => |d| unsigned(d.handshake.cipher());
    "dtls.server_random" [] _: Bytes, "Random of the server's hello, 32 bytes" => |d| d.handshake.server_hello.as_ref().map_or(Value::Absent, |s| bytes(&s.random));
    "dtls.server_extensions" [] _: Numbers, "Extensions of the server's hello, in its order" => |d| d.handshake.server_hello.as_ref().map_or(Value::Absent, |s| numbers(&s.extensions));
    "dtls.retried" [] _: Bool, "Whether the server requested a second hello (HelloRetryRequest)" => |d| Value::Bool(d.handshake.is_retried);
    "dtls.alert_message.desc" ["dtls.alert"] _: Unsigned, "Number of the last unencrypted alert" => |d| unsigned(d.handshake.alert);
    "dtls.incomplete" [] _: Text in Incomplete::WORDS, "Why the handshake is incomplete: gap, oversize, malformed, one_sided" => |d| text(d.handshake.incomplete.map(Incomplete::as_str));
    "dtls.handshake.ja3_full" ["dtls.ja3_full"] _: Text, "The text whose hash is JA3" => |d| of_client(&d.handshake, |c| owned(fingerprint::ja3_text(c)));
    "dtls.handshake.ja3s_full" ["dtls.ja3s_full"] _: Text, "The text whose hash is JA3S" => |d| d.handshake.server_hello.as_ref().map_or(Value::Absent, |s| owned(fingerprint::ja3s_text(s)));
    "dtls.handshake.ja4_r" ["dtls.ja4_r"] _: Text, "JA4 with the lists instead of their hashes" => |d| of_client(&d.handshake, |c| owned(fingerprint::ja4_raw(c, Transport::Dtls)));
    // Certificates: the first of each chain, unless the name says otherwise.
    "dtls.cert.san" [] _: Texts, "DNS names and addresses of the server's certificate" => |d| of_certificate(&d.handshake, |c| Value::Texts(c.alternative_names().into()));
    "dtls.cert.serial" [] _: Text, "Serial number of the server's certificate, hexadecimal" => |d| of_certificate(&d.handshake, |c| text(Some(&c.serial)));
    "dtls.cert.not_before" [] _: Time, "Start of validity of the server's certificate" => |d| of_certificate(&d.handshake, |c| Value::Time(c.not_before));
    "dtls.cert.not_after" [] _: Time, "End of validity of the server's certificate" => |d| of_certificate(&d.handshake, |c| Value::Time(c.not_after));
    "dtls.cert.key_type" [] _: Text, "Type of the key of the server's certificate: rsa, ecdsa …" => |d| of_certificate(&d.handshake, |c| text(Some(&c.key_type)));
    "dtls.cert.key_bits" ["dtls.cert.key_length"] _: Unsigned, "Length of the key of the server's certificate, bits" => |d| of_certificate(&d.handshake, |c| Value::Unsigned(c.key_bits as u64));
    "dtls.cert.sig_alg" [] _: Text, "Algorithm of the signature of the server's certificate" => |d| of_certificate(&d.handshake, |c| text(Some(&c.signature_algorithm)));
    "dtls.cert.sha256" [] _: Text, "SHA-256 of the server's certificate, hexadecimal" => |d| d.handshake.server_certificate().map_or(Value::Absent, |c| text(Some(&c.sha256)));
    "dtls.verified" [] _: Bool, "Whether the server verified the client's address (HelloVerifyRequest)" => |d| Value::Bool(d.is_verified);
    "dtls.handshake.cookie_length" ["dtls.cookie_length"] _: Unsigned, "Size of the cookie of the address verification, bytes" => |d| of_client(&d.handshake, |c| Value::Unsigned(c.cookie_bytes as u64));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_columns_are_those_of_tls() {
        let columns = |fields: &[crate::Field]| -> Vec<_> {
            fields
                .iter()
                .filter(|field| !field.column.is_empty())
                .map(|field| (field.column, field.value_type))
                .collect()
        };
        assert_eq!(columns(FIELDS), columns(crate::tls::PROTOCOL.fields));
    }

    #[test]
    fn names_are_distinct_and_begin_with_the_protocol() {
        let mut seen = std::collections::HashSet::new();
        for field in FIELDS {
            for name in field.aliases.iter().chain([&field.name]) {
                assert!(seen.insert(*name) && name.starts_with("dtls."), "{name}");
            }
        }
    }
}
