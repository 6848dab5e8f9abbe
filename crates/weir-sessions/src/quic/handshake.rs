//! [`QuicHandshake`]: contents of a connection's Initial packets, and its fields.

use super::version;
use crate::session::session_fields;
use crate::tls::fingerprint::{self, Transport};
use crate::tls::{ClientHello, ServerHello, TlsHandshake, names};
use crate::values::{bytes, name, numbers, owned, text, texts, unsigned};
use crate::{Direction, Session};
use std::any::Any;
use std::borrow::Cow;
use weir_packet::{Timestamp, Value};

/// Maximum number of letters of [`QuicHandshake::history`], as in Zeek.
pub const HISTORY_LETTERS_MAX: usize = 100;

/// The handshake of a connection, as far as its Initial packets show it; fields that were not seen are
/// absent.
///
/// Memory is bounded: two hellos, each from a stream of at most 64 KiB, and connection ids of at most 20
/// bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuicHandshake {
    /// Capture time of the first packet.
    pub time: Timestamp,
    /// Direction of the client: the sender of an Initial sealed with client keys.
    pub client: Direction,
    /// Version of the last readable Initial, otherwise of the first packet.
    pub version: u32,
    /// Destination connection id of the client's first Initial.
    pub initial_destination_id: Option<Vec<u8>>,
    /// Connection id that the client chose for itself; may be empty.
    pub client_id: Option<Vec<u8>>,
    /// Connection id that the server chose for itself; may be empty.
    pub server_id: Option<Vec<u8>>,
    /// The client's first ClientHello.
    pub client_hello: Option<ClientHello>,
    /// The server's hello: a HelloRetryRequest until the ServerHello arrives.
    pub server_hello: Option<ServerHello>,
    /// Whether the server validated the client's address by a Retry (RFC 9000 §8.1.2).
    pub is_retried: bool,
    /// Versions in the server's Version Negotiation packet (RFC 9000 §6), 32 at most.
    pub offered_versions: Vec<u32>,
    /// Length of the token in the client's last Initial, bytes.
    pub token_bytes: usize,
    /// Error code of a CONNECTION_CLOSE in an Initial (RFC 9000 §20).
    pub close_code: Option<u64>,
    /// Packets seen until the handshake was yielded, as in Zeek: one letter each, in upper case for the
    /// client. `I` Initial, `H` Handshake, `Z` 0-RTT, `R` Retry, `S` a hello, `C` close, `O` short header
    /// (the first, second, fourth, eighth …), `U` an unknown version, `X` bytes after a packet that are no
    /// packet; and `V` version negotiation.
    pub history: String,
}

impl Default for QuicHandshake {
    fn default() -> Self {
        Self {
            time: Timestamp(0),
            client: Direction::Originator,
            version: 0,
            initial_destination_id: None,
            client_id: None,
            server_id: None,
            client_hello: None,
            server_hello: None,
            is_retried: false,
            offered_versions: Vec::new(),
            token_bytes: 0,
            close_code: None,
            history: String::new(),
        }
    }
}

impl QuicHandshake {
    /// Server name that the client asks for (RFC 6066 §3).
    pub fn server_name(&self) -> Option<&str> {
        self.client_hello.as_ref()?.server_name.as_deref()
    }

    /// The first application protocol the client offers: `h3`.
    pub fn client_protocol(&self) -> Option<&str> {
        self.client_hello.as_ref()?.alpn.first().map(String::as_str)
    }

    /// The cipher suite the server chose.
    pub fn cipher(&self) -> Option<u16> {
        self.server_hello.as_ref()?.cipher
    }

    /// The group of the key exchange.
    pub fn group(&self) -> Option<u16> {
        self.server_hello.as_ref()?.key_share_group
    }

    /// JA4 of the client's hello, which begins with `q`. Computed anew at each call.
    pub fn ja4(&self) -> Option<String> {
        self.client_hello.as_ref().map(|hello| fingerprint::ja4(hello, Transport::Quic))
    }

    /// Appends a packet's letter, in the case of its sender.
    pub(super) fn push_history(&mut self, letter: char, from: Direction) {
        if self.history.len() < HISTORY_LETTERS_MAX {
            let is_client = from == self.client;
            self.history.push(if is_client { letter } else { letter.to_ascii_lowercase() });
        }
    }
}

/// The TLS handshake inside the QUIC handshake (RFC 9001), as far as the Initial packets show it. Empty
/// without hellos.
pub(crate) fn tls_handshake(session: &dyn Session) -> Vec<Box<dyn Session>> {
    let Some(quic) = session.as_any().downcast_ref::<QuicHandshake>() else { return vec![] };
    let mut tls = TlsHandshake {
        client: quic.client,
        transport: Transport::Quic,
        client_hello: quic.client_hello.clone(),
        server_hello: quic.server_hello.clone(),
        group: quic.group(),
        ..TlsHandshake::default()
    };
    if !tls.is_worth_yielding() {
        return vec![];
    }
    tls.is_resumed = tls.takes_up_keys(false);
    let is_retry = quic.server_hello.as_ref().is_some_and(ServerHello::is_retry_request);
    let letters = [
        (tls.client_hello.is_some(), 'C', quic.client),
        (tls.server_hello.is_some(), 's', quic.client.other()),
    ];
    for (_, letter, from) in letters.into_iter().filter(|(is_there, ..)| *is_there) {
        tls.push_history(if letter == 's' && is_retry { 'j' } else { letter }, from);
    }
    vec![Box::new(tls)]
}

impl Session for QuicHandshake {
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

session_fields! { QuicHandshake;
    // Columns of the log.
    "quic.version_name" [] version: Text, "Version, with Zeek's name: 1, quicv2, draft-29" => |h| name(Some(version::name(h.version)));
    "quic.dcid" ["quic.client_initial_dcid"] client_initial_dcid: Bytes, "Destination connection id of the client's first Initial" => |h| id(h.initial_destination_id.as_ref());
    "quic.scid" ["quic.client_scid"] client_scid: Bytes, "Connection id that the client chose for itself" => |h| id(h.client_id.as_ref());
    "quic.server_scid" [] server_scid: Bytes, "Connection id that the server chose for itself" => |h| id(h.server_id.as_ref());
    "quic.sni" ["quic.server_name", "quic.tls.sni"] server_name: Text, "Host name that the client requests (RFC 6066)" => |h| text(h.server_name());
    "quic.client_protocol" [] client_protocol: Text, "First application protocol that the client offers: h3" => |h| text(h.client_protocol());
    "quic.history" [] history: Text, "One letter per packet, upper case for the client's, as Zeek's history" => |h| text(Some(&h.history));
    "quic.ja3" [] ja3: Text, "JA3 of the client's hello: MD5, hexadecimal" => |h| of_client(h, |c| owned(fingerprint::ja3(c)));
    "quic.ja4" [] ja4: Text, "JA4 of the client's hello" => |h| of_client(h, |c| owned(fingerprint::ja4(c, Transport::Quic)));
    "quic.cipher" [] cipher: Text, "Cipher suite that the server chose" => |h| name(h.cipher().map(names::cipher));
    "quic.curve" ["quic.group"] curve: Text, "Group of the key exchange" => |h| name(h.group().map(names::group));
    // Packets.
    "quic.version" ["quic.version_num"] _: Unsigned, "Number of the version" => |h| Value::Unsigned(h.version.into());
    "quic.supported_version" [] _: Numbers, "Versions that the server listed, if it does not support the client's version" => |h| numbers(&h.offered_versions);
    "quic.retried" [] _: Bool, "Whether the server requested a new start with a token (Retry)" => |h| Value::Bool(h.is_retried);
    "quic.token_length" [] _: Unsigned, "Size of the token in the client's last Initial, bytes" => |h| Value::Unsigned(h.token_bytes as u64);
    "quic.cc.error_code" ["quic.close_code"] _: Unsigned, "Error code of an Initial that closed the connection" => |h| unsigned(h.close_code);
    // The client's offer.
    "quic.alpn" [] _: Texts, "Application protocols that the client offers (RFC 7301)" => |h| of_client(h, |c| texts(&c.alpn));
    "quic.ciphers" [] _: Numbers, "Cipher suites the client offers, in its order" => |h| of_client(h, |c| numbers(&c.ciphers));
    "quic.extensions" [] _: Numbers, "Extensions of the client's hello, in its order" => |h| of_client(h, |c| numbers(&c.extensions));
    "quic.groups" [] _: Numbers, "Groups and curves the client supports" => |h| of_client(h, |c| numbers(&c.groups));
    "quic.signature_algorithms" [] _: Numbers, "Signature algorithms the client supports" => |h| of_client(h, |c| numbers(&c.signature_algorithms));
    "quic.key_share_groups" [] _: Numbers, "Groups the client sends a key share for" => |h| of_client(h, |c| numbers(&c.key_share_groups));
    "quic.client_random" [] _: Bytes, "Random of the client's hello, 32 bytes" => |h| of_client(h, |c| bytes(&c.random));
    // The server's choice, and fingerprints.
    "quic.cipher_num" [] _: Unsigned, "Number of the cipher suite the server chose" => |h| unsigned(h.cipher());
    "quic.ja3s" [] _: Text, "JA3S of the server's hello: MD5, hexadecimal" => |h| h.server_hello.as_ref().map_or(Value::Absent, |s| owned(fingerprint::ja3s(s)));
    "quic.ja3_full" [] _: Text, "The text whose hash is JA3" => |h| of_client(h, |c| owned(fingerprint::ja3_text(c)));
    "quic.ja4_r" [] _: Text, "JA4 with the lists instead of their hashes" => |h| of_client(h, |c| owned(fingerprint::ja4_raw(c, Transport::Quic)));
}

fn of_client<'a>(handshake: &'a QuicHandshake, read: fn(&'a ClientHello) -> Value<'a>) -> Value<'a> {
    handshake.client_hello.as_ref().map_or(Value::Absent, read)
}

/// A connection id; an empty one is a value, too.
fn id(id: Option<&Vec<u8>>) -> Value<'_> {
    id.map_or(Value::Absent, |id| Value::Bytes(Cow::Borrowed(id)))
}
