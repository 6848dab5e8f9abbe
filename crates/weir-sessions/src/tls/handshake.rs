//! [`TlsHandshake`]: the unencrypted contents of one connection's TLS handshake.
//!
//! The parser creates it, `fields` exposes it to filters and rows, and subscribers receive it. Costly
//! contents (certificates, fingerprints) are methods and computed on demand.

use super::certificate::{Certificate, CertificateChain};
use super::fingerprint::{self, Transport};
use super::hello::{ClientHello, ServerHello, is_tls13};
use super::{fields, names};
use crate::{Direction, Session, Words};
use std::any::Any;
use std::borrow::Cow;
use weir_packet::{Timestamp, Value};

/// Maximum number of letters of [`TlsHandshake::history`].
pub const HISTORY_LETTERS_MAX: usize = 100;

/// Why a handshake is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Incomplete {
    /// Required bytes are missing.
    Gap,
    /// A message exceeds the limit of 64 KiB.
    Oversize,
    /// The bytes are not TLS.
    Malformed,
    /// One side sent much ciphertext, and the other side's handshake was not seen.
    OneSided,
}

impl Incomplete {
    /// All words for it in rows.
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

/// A TLS handshake, as far as it was seen.
///
/// At least one of `client_hello` and `server_hello` is present. Memory is bounded: two hellos and two chains
/// of certificates, each from a message of at most 64 KiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsHandshake {
    /// Direction of the client: the sender of the ClientHello, which may be the responder of the connection.
    pub client: Direction,
    /// Transport of its messages.
    pub transport: Transport,
    /// The first ClientHello: the one after a HelloRetryRequest says less about the client and more about the
    /// server. Only `key_share_groups` and `has_pre_shared_key` are those of the last one.
    pub client_hello: Option<ClientHello>,
    /// The server's hello: a HelloRetryRequest until the ServerHello arrives. `None` if no answer was seen.
    pub server_hello: Option<ServerHello>,
    /// Whether the server asked for a second ClientHello (RFC 8446 §4.1.4).
    pub is_retried: bool,
    /// Group of the key exchange: the server's key share in TLS 1.3, the named curve of ServerKeyExchange
    /// before (RFC 8422 §5.4).
    pub group: Option<u16>,
    /// The server's certificates; empty in TLS 1.3.
    pub server_certificates: CertificateChain,
    /// The client's certificates; empty in TLS 1.3.
    pub client_certificates: CertificateChain,
    /// Whether the keys of an earlier connection were reused: by session id (RFC 5246 §7.4.1.3), ticket (RFC
    /// 5077 §3.1) or pre-shared key (RFC 8446 §2.2).
    pub is_resumed: bool,
    /// Whether both sides switched to encryption and sent encrypted data: Zeek's `established`.
    pub is_established: bool,
    /// The last unencrypted alert (RFC 8446 §6).
    pub alert: Option<u8>,
    /// The messages seen, one letter each, as in Zeek's `ssl_history`, in upper case for the client. `C`
    /// ClientHello, `S` ServerHello, `J` HelloRetryRequest, `X` certificate, `K` server key exchange, `R`
    /// certificate request, `N` ServerHelloDone, `G` client key exchange, `Y` certificate verify, `T` ticket,
    /// `U` certificate status, `I` ChangeCipherSpec, `L` alert, `B` heartbeat, `^` the client is the
    /// responder. At most [`HISTORY_LETTERS_MAX`] letters.
    pub history: String,
    /// Why the handshake is incomplete; `None` if it is complete.
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
    /// Host name that the client asks for (RFC 6066 §3).
    pub fn server_name(&self) -> Option<&str> {
        self.client_hello.as_ref()?.server_name.as_deref()
    }

    /// The negotiated version; `None` before the ServerHello.
    pub fn version(&self) -> Option<u16> {
        self.server_hello.as_ref().map(ServerHello::negotiated_version)
    }

    /// Name of the negotiated version: `TLSv12`.
    pub fn version_name(&self) -> Option<Cow<'static, str>> {
        self.version().map(names::version)
    }

    /// The cipher suite the server chose.
    pub fn cipher(&self) -> Option<u16> {
        self.server_hello.as_ref()?.cipher
    }

    /// Name of the cipher suite: `TLS_AES_128_GCM_SHA256`.
    pub fn cipher_name(&self) -> Option<Cow<'static, str>> {
        self.cipher().map(names::cipher)
    }

    /// Name of the key exchange's group: `x25519`.
    pub fn group_name(&self) -> Option<Cow<'static, str>> {
        self.group.map(names::group)
    }

    /// The application protocol the server chose (RFC 7301), if it was sent unencrypted.
    pub fn next_protocol(&self) -> Option<&str> {
        self.server_hello.as_ref()?.alpn.as_deref()
    }

    /// Name of the last alert: `handshake_failure`.
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

    /// Whether the server's certificate is valid for the host name that the client sent. `None` if either is
    /// unknown.
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

    /// Whether the hellos reuse the keys of an earlier connection. `is_client_keyed`: the client sent
    /// ChangeCipherSpec without a key exchange.
    pub(crate) fn takes_up_keys(&self, is_client_keyed: bool) -> bool {
        let (Some(client), Some(server)) = (&self.client_hello, &self.server_hello) else { return false };
        if is_tls13(server.negotiated_version()) {
            return client.has_pre_shared_key && server.has_pre_shared_key;
        }
        // Some servers echo a session id of 32 zeros.
        let is_session_known =
            client.session_id.iter().any(|byte| *byte != 0) && client.session_id == server.session_id;
        let is_ticket_taken = client.has_ticket && client.session_id.is_empty() && is_client_keyed;
        is_session_known || is_ticket_taken
    }

    /// Whether there is a hello, so that the handshake is reported.
    pub(crate) fn is_worth_yielding(&self) -> bool {
        self.client_hello.is_some() || self.server_hello.is_some()
    }

    /// Appends a message's letter, in the case of its sender.
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
