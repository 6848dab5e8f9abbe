//! [`SshHandshake`]: the unencrypted messages of both sides, and its fields.

use super::kex::{self, KexInit, agreed, agreed_both};
use crate::session::session_fields;
use crate::values::{numbers, owned, owned_texts, text, texts, unsigned};
use crate::{Direction, Session};
use std::any::Any;
use weir_packet::{Timestamp, Value};

/// Maximum number of message numbers kept.
pub const MESSAGES_MAX: usize = 32;

/// The unencrypted beginning of a connection, as far as it was seen.
///
/// Memory is bounded: two banners and two KEXINIT offers, each from a packet of at most 64 KiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshHandshake {
    /// Capture time of the first banner.
    pub time: Option<Timestamp>,
    /// Direction of the client, from the key exchange; before it, the originator.
    pub client: Direction,
    /// Banners of client and server: `SSH-2.0-OpenSSH_9.6`.
    pub banners: [Option<String>; 2],
    /// Offers of client and server.
    pub offers: [Option<KexInit>; 2],
    /// Type of the server's key: `ssh-ed25519`.
    pub host_key_type: Option<String>,
    /// SHA-256 of the server's key in OpenSSH's format: `SHA256:` and base64.
    pub host_key_fingerprint: Option<String>,
    /// Numbers of the unencrypted messages (RFC 4250 §4.1), in order, [`MESSAGES_MAX`] at most.
    pub messages: Vec<u8>,
}

impl Default for SshHandshake {
    fn default() -> Self {
        Self {
            time: None,
            client: Direction::Originator,
            banners: [None, None],
            offers: [None, None],
            host_key_type: None,
            host_key_fingerprint: None,
            messages: Vec::new(),
        }
    }
}

impl SshHandshake {
    /// The protocol version: 2, 1, or 0 if the sides have none in common. `None` without a banner. 1.99
    /// supports both (RFC 4253 §5.1).
    pub fn version(&self) -> Option<u64> {
        let version = |banner: &str| match banner.get(4..) {
            Some(rest) if rest.starts_with("1.99") => 3, // one bit per version
            Some(rest) if rest.starts_with("1.") => 1,
            Some(rest) if rest.starts_with("2.") => 2,
            _ => 0,
        };
        let told = self.banners.iter().flatten().map(|banner| version(banner));
        let common = told.reduce(|one, other| one & other)?;
        Some(if common == 3 { 2 } else { common })
    }

    fn agreed<R>(&self, read: impl FnOnce(&KexInit, &KexInit) -> Option<R>) -> Option<R> {
        let [Some(client), Some(server)] = &self.offers else { return None };
        read(client, server)
    }

    /// The negotiated key exchange.
    pub fn kex_algorithm(&self) -> Option<String> {
        self.agreed(|client, server| agreed(&client.kex, &server.kex).map(str::to_owned))
    }

    /// The negotiated host key algorithm.
    pub fn host_key_algorithm(&self) -> Option<String> {
        self.agreed(|client, server| agreed(&client.host_keys, &server.host_keys).map(str::to_owned))
    }

    /// The negotiated cipher.
    pub fn cipher(&self) -> Option<String> {
        self.agreed(|client, server| agreed_both(&client.ciphers, &server.ciphers))
    }

    /// The negotiated message authentication code, even if the cipher does not need it.
    pub fn mac(&self) -> Option<String> {
        self.agreed(|client, server| agreed_both(&client.macs, &server.macs))
    }

    /// The negotiated compression.
    pub fn compression(&self) -> Option<String> {
        self.agreed(|client, server| agreed_both(&client.compressions, &server.compressions))
    }

    /// HASSH of the client: MD5, hexadecimal. Computed anew at each call.
    pub fn hassh(&self) -> Option<String> {
        self.offers[0].as_ref().map(|offer| kex::hassh(&offer.hassh_text()))
    }

    /// HASSH of the server.
    pub fn hassh_server(&self) -> Option<String> {
        self.offers[1].as_ref().map(|offer| kex::hassh(&offer.hassh_server_text()))
    }
}

impl Session for SshHandshake {
    fn value(&self, index: usize) -> Value<'_> {
        value(self, index)
    }

    fn time(&self) -> Option<Timestamp> {
        self.time
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

session_fields! { SshHandshake;
    // Columns of the log.
    "ssh.version" [] version: Unsigned, "Version of the protocol: 2 or 1; 0 if the sides have no common version" => |h| unsigned(h.version());
    "ssh.auth_success" [] auth_success: Bool, "Whether the authentication succeeded; always absent, because it is encrypted" => |_| Value::Absent;
    "ssh.auth_attempts" [] auth_attempts: Unsigned, "Number of authentication attempts; always absent" => |_| Value::Absent;
    "ssh.direction" [] direction: Text, "INBOUND or OUTBOUND, if exactly one side is in a private network; in rows only" => |_| Value::Absent;
    "ssh.client" ["ssh.client.protocol"] client: Text, "Version banner of the client: SSH-2.0-OpenSSH_9.6" => |h| text(h.banners[0].as_deref());
    "ssh.server" ["ssh.server.protocol"] server: Text, "Version banner of the server" => |h| text(h.banners[1].as_deref());
    "ssh.cipher_alg" ["ssh.cipher"] cipher_alg: Text, "Negotiated cipher" => |h| made(h.cipher());
    "ssh.mac_alg" ["ssh.mac_algorithm"] mac_alg: Text, "Negotiated message authentication" => |h| made(h.mac());
    "ssh.compression_alg" ["ssh.compression"] compression_alg: Text, "Negotiated compression" => |h| made(h.compression());
    "ssh.kex_alg" ["ssh.kex"] kex_alg: Text, "Negotiated key exchange" => |h| made(h.kex_algorithm());
    "ssh.host_key_alg" [] host_key_alg: Text, "Negotiated host key algorithm" => |h| made(h.host_key_algorithm());
    "ssh.host_key.fingerprint" ["ssh.host_key"] host_key_fingerprint: Text, "SHA-256 of the server's key, in OpenSSH's format" => |h| text(h.host_key_fingerprint.as_deref());
    "ssh.kex.hassh" ["ssh.hassh"] hassh: Text, "HASSH of the client: MD5, hexadecimal" => |h| made(h.hassh());
    "ssh.kex.hasshserver" ["ssh.hassh_server"] hassh_server: Text, "HASSH of the server: MD5, hexadecimal" => |h| made(h.hassh_server());
    // The client's offer.
    "ssh.protocol" [] _: Texts, "Version banners of both sides" => |h| owned_texts(h.banners.iter().flatten().cloned().collect());
    "ssh.kex_algorithms" ["ssh.client.kex_algorithms"] _: Texts, "Key exchanges that the client offers" => |h| offered(h, 0, |o| &o.kex);
    "ssh.server_host_key_algorithms" ["ssh.client.host_key_algorithms"] _: Texts, "Host key algorithms that the client accepts" => |h| offered(h, 0, |o| &o.host_keys);
    "ssh.encryption_algorithms_client_to_server" ["ssh.client.ciphers"] _: Texts, "Ciphers that the client offers, client to server" => |h| offered(h, 0, |o| &o.ciphers[0]);
    "ssh.encryption_algorithms_server_to_client" [] _: Texts, "Ciphers that the client offers, server to client" => |h| offered(h, 0, |o| &o.ciphers[1]);
    "ssh.mac_algorithms_client_to_server" ["ssh.client.macs"] _: Texts, "Message authentication that the client offers, client to server" => |h| offered(h, 0, |o| &o.macs[0]);
    "ssh.mac_algorithms_server_to_client" [] _: Texts, "Message authentication that the client offers, server to client" => |h| offered(h, 0, |o| &o.macs[1]);
    "ssh.compression_algorithms_client_to_server" ["ssh.client.compressions"] _: Texts, "Compression that the client offers, client to server" => |h| offered(h, 0, |o| &o.compressions[0]);
    "ssh.compression_algorithms_server_to_client" [] _: Texts, "Compression that the client offers, server to client" => |h| offered(h, 0, |o| &o.compressions[1]);
    // The server's offer.
    "ssh.server.kex_algorithms" [] _: Texts, "Key exchanges that the server offers" => |h| offered(h, 1, |o| &o.kex);
    "ssh.server.host_key_algorithms" [] _: Texts, "Host key algorithms that the server offers" => |h| offered(h, 1, |o| &o.host_keys);
    "ssh.server.ciphers" [] _: Texts, "Ciphers that the server offers, server to client" => |h| offered(h, 1, |o| &o.ciphers[1]);
    "ssh.server.macs" [] _: Texts, "Message authentication that the server offers, server to client" => |h| offered(h, 1, |o| &o.macs[1]);
    "ssh.server.compressions" [] _: Texts, "Compression that the server offers, server to client" => |h| offered(h, 1, |o| &o.compressions[1]);
    // Results.
    "ssh.host_key.type" [] _: Text, "Type of the server's key: ssh-ed25519" => |h| text(h.host_key_type.as_deref());
    "ssh.message_code" [] _: Numbers, "Numbers of the unencrypted messages, in order of capture" => |h| numbers(&h.messages);
    "ssh.kex.hassh_algorithms" [] _: Text, "The text whose hash is the client's HASSH" => |h| made(h.offers[0].as_ref().map(KexInit::hassh_text));
    "ssh.kex.hasshserver_algorithms" [] _: Text, "The text whose hash is the server's HASSH" => |h| made(h.offers[1].as_ref().map(KexInit::hassh_server_text));
}

fn made(text: Option<String>) -> Value<'static> {
    text.map_or(Value::Absent, owned)
}

fn offered(handshake: &SshHandshake, side: usize, read: fn(&KexInit) -> &[String]) -> Value<'_> {
    handshake.offers[side].as_ref().map_or(Value::Absent, |offer| texts(read(offer)))
}
