//! [`TlsHandshake`]: all that could be read in clear of one connection's TLS handshake.
//!
//! The parser fills it in, `fields` shows it to filters and rows, subscribers take it as it is. What costs
//! something (certificates, fingerprints) is a method and computed when asked for.

use super::certificate::{Certificate, CertificateChain};
use super::fingerprint::{self, Transport};
use super::hello::{ClientHello, ServerHello, is_tls13};
use super::{fields, names};
use crate::{Direction, Session, Words};
use std::any::Any;
use std::borrow::Cow;
use weir_packet::{Timestamp, Value};

/// Most letters of [`TlsHandshake::history`].
pub const HISTORY_LETTERS_MAX: usize = 100;

/// Why a handshake was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Incomplete {
    /// Bytes are missing where they were needed.
    Gap,
    /// A message was longer than what is kept (64 KiB).
    Oversize,
    /// The bytes are not TLS.
    Malformed,
    /// One side sent a lot of ciphertext and the other's part of the handshake was never seen.
    OneSided,
}

impl Incomplete {
    /// The words for it in rows.
    pub(crate) const WORDS: Words =
        Words { list: || vec!["gap", "oversize", "malformed", "one_sided"], others: &[] };

    /// The word for it in rows: `gap`, `oversize`, `malformed`, `one_sided`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gap => "gap",
            Self::Oversize => "oversize",
            Self::Malformed => "malformed",
            Self::OneSided => "one_sided",
        }
    }
}

/// A TLS handshake, or as much of one as there was.
///
/// At least one of `client_hello` and `server_hello` is there. Memory is bounded: two hellos and two chains of
/// certificates, each from a message of at most 64 KiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsHandshake {
    /// Who is the client: who sent the ClientHello, which may be the responder of the connection.
    pub client: Direction,
    /// What its messages were carried in.
    pub transport: Transport,
    /// What the client offered, in its first hello: after a HelloRetryRequest the second tells less of the
    /// client and more of the server. Only `key_share_groups` and `has_pre_shared_key` are of the last one.
    pub client_hello: Option<ClientHello>,
    /// What the server chose; absent where it did not answer, or its answer was not seen. A HelloRetryRequest
    /// stands here until the true ServerHello comes.
    pub server_hello: Option<ServerHello>,
    /// Whether the server asked for a second ClientHello (RFC 8446 §4.1.4).
    pub is_retried: bool,
    /// The group of the key exchange: the server's key share in TLS 1.3, the named curve of its
    /// ServerKeyExchange before (RFC 8422 §5.4).
    pub group: Option<u16>,
    /// The server's certificates; none in TLS 1.3.
    pub server_certificates: CertificateChain,
    /// The client's certificates; none in TLS 1.3.
    pub client_certificates: CertificateChain,
    /// Whether the keys of an earlier connection were taken up: by session id (RFC 5246 §7.4.1.3), ticket (RFC 5077
    /// §3.1) or pre-shared key (RFC 8446 §2.2).
    pub is_resumed: bool,
    /// Whether both sides went over to encryption and went on: Zeek's `established`.
    pub is_established: bool,
    /// The last alert that was seen in clear (RFC 8446 §6).
    pub alert: Option<u8>,
    /// The messages seen, one letter each, as Zeek's `ssl_history`: the client's are capitals. `C`
    /// ClientHello, `S` ServerHello, `J` HelloRetryRequest, `X` certificate, `K` server key exchange, `R`
    /// certificate request, `N` ServerHelloDone, `G` client key exchange, `Y` certificate verify, `T` ticket,
    /// `U` certificate status, `I` ChangeCipherSpec, `L` alert, `B` heartbeat, `^` the client is the
    /// responder. At most [`HISTORY_LETTERS_MAX`].
    pub history: String,
    /// Why this is not the whole handshake, where it is not.
    pub incomplete: Option<Incomplete>,
}

impl Default for TlsHandshake {
    fn default() -> Self {
        Self {
            client: Direction::Originator,
            transport: Transport::default(),
            client_hello: None,
            server_hello: None,
            is_retried: false,
            group: None,
            server_certificates: CertificateChain::default(),
            client_certificates: CertificateChain::default(),
            is_resumed: false,
            is_established: false,
            alert: None,
            history: String::new(),
            incomplete: None,
        }
    }
}

impl TlsHandshake {
    /// The host the client asks for (RFC 6066 §3).
    pub fn server_name(&self) -> Option<&str> {
        self.client_hello.as_ref()?.server_name.as_deref()
    }

    /// The version that was agreed on; none before the server's answer.
    pub fn version(&self) -> Option<u16> {
        self.server_hello.as_ref().map(ServerHello::negotiated_version)
    }

    /// Its name: `TLSv12`.
    pub fn version_name(&self) -> Option<Cow<'static, str>> {
        self.version().map(names::version)
    }

    /// The cipher suite the server chose.
    pub fn cipher(&self) -> Option<u16> {
        self.server_hello.as_ref()?.cipher
    }

    /// Its name: `TLS_AES_128_GCM_SHA256`.
    pub fn cipher_name(&self) -> Option<Cow<'static, str>> {
        self.cipher().map(names::cipher)
    }

    /// The name of the group of the key exchange: `x25519`.
    pub fn group_name(&self) -> Option<Cow<'static, str>> {
        self.group.map(names::group)
    }

    /// The application protocol the server chose (RFC 7301), where it said so in clear.
    pub fn next_protocol(&self) -> Option<&str> {
        self.server_hello.as_ref()?.alpn.as_deref()
    }

    /// The name of the last alert: `handshake_failure`.
    pub fn alert_name(&self) -> Option<Cow<'static, str>> {
        self.alert.map(names::alert)
    }

    /// The server's certificate. Parses the chain at the first call.
    pub fn server_certificate(&self) -> Option<&Certificate> {
        self.server_certificates.leaf()
    }

    /// The client's certificate. Parses the chain at the first call.
    pub fn client_certificate(&self) -> Option<&Certificate> {
        self.client_certificates.leaf()
    }

    /// Whether the server's certificate is for the host the client asked for; none where either is unknown.
    pub fn does_name_match_certificate(&self) -> Option<bool> {
        let host = self.server_name()?;
        self.server_certificate().map(|certificate| certificate.matches_host(host))
    }

    /// JA3 of the client's hello, hexadecimal. Computed anew at each call.
    pub fn ja3(&self) -> Option<String> {
        self.client_hello.as_ref().map(fingerprint::ja3)
    }

    /// JA3S of the server's hello, hexadecimal. Computed anew at each call.
    pub fn ja3s(&self) -> Option<String> {
        self.server_hello.as_ref().map(fingerprint::ja3s)
    }

    /// JA4 of the client's hello. Computed anew at each call.
    pub fn ja4(&self) -> Option<String> {
        self.client_hello.as_ref().map(|hello| fingerprint::ja4(hello, self.transport))
    }

    /// Whether the hellos say that the keys of an earlier connection are taken up. `is_client_keyed`: the client
    /// changed ciphers without a key exchange.
    pub(crate) fn takes_up_keys(&self, is_client_keyed: bool) -> bool {
        let (Some(client), Some(server)) = (&self.client_hello, &self.server_hello) else { return false };
        if is_tls13(server.negotiated_version()) {
            return client.has_pre_shared_key && server.has_pre_shared_key;
        }
        // Some servers echo 32 zeros to anybody.
        let is_session_known =
            client.session_id.iter().any(|byte| *byte != 0) && client.session_id == server.session_id;
        let is_ticket_taken = client.has_ticket && client.session_id.is_empty() && is_client_keyed;
        is_session_known || is_ticket_taken
    }

    /// Whether there is anything worth a row.
    pub(crate) fn is_worth_yielding(&self) -> bool {
        self.client_hello.is_some() || self.server_hello.is_some()
    }

    /// Adds the letter of a message, in the case of who sent it.
    pub(crate) fn push_history(&mut self, letter: char, from: Direction) {
        if self.history.len() < HISTORY_LETTERS_MAX {
            let by_client = from == self.client;
            self.history.push(if by_client { letter.to_ascii_uppercase() } else { letter });
        }
    }
}

impl Session for TlsHandshake {
    fn value(&self, index: usize) -> Value<'_> {
        fields::value(self, index)
    }

    fn time(&self) -> Option<Timestamp> {
        None
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
