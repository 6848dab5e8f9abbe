//! [`TlsParser`]: parses both directions of a connection into one [`TlsHandshake`].
//!
//! `established` and `resumed` have the meaning of Zeek's `ssl.log`. The handshake is over, and yielded, when
//! * both sides have switched to encryption and one of them sends an encrypted record: in TLS 1.2 and before
//!   by ChangeCipherSpec (RFC 5246 §7.1); in TLS 1.3 when both send application data records after the
//!   ServerHello, of which the client's first is its Finished (RFC 8446 §2);
//! * a fatal alert or close_notify is seen unencrypted (RFC 8446 §6);
//! * the bytes are not TLS, or gaps and ciphertext leave nothing readable, as in a capture that begins behind
//!   the hellos;
//! * the connection ended.

use super::certificate::CertificateChain;
use super::handshake::{Incomplete, TlsHandshake};
use super::hello::{ClientHello, ServerHello, is_tls13};
use super::message::{self, Body, Message, Messages};
use super::names;
use super::record::{
    ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE, HEARTBEAT, Piece, Records, SSLV2,
};
use crate::wire::Reader;
use crate::{CutOff, Data, Direction, Progress, Session, SessionParser};

/// Bytes of ciphertext that are skipped while the rest of a handshake is awaited. A capture of one direction
/// never shows the other; early data of TLS 1.3 (RFC 8446 §4.2.10) is seldom more than 16 KiB.
pub const PATIENCE_BYTES: u64 = 256 * 1024;

/// Treatment of the current record's content.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Open {
    /// Encrypted: skipped.
    Ciphertext,
    /// Unencrypted: parsed by its content type.
    Clear,
    /// Unencrypted, but not used: skipped.
    #[default]
    Unread,
}

/// Parser state of one direction.
#[derive(Debug, Default)]
struct Side {
    records: Records,
    messages: Messages,
    open: Open,
    /// Content of an SSLv2 record, up to 32 KiB.
    sslv2: Vec<u8>,
    /// First byte of an alert whose second byte is missing.
    alert_level: Option<u8>,
    has_changed_cipher: bool,
    has_ciphertext: bool,
    /// Whether record boundaries are unknown after a loss.
    is_lost: bool,
}

/// Parses the handshake of one connection. Holds at most the hellos and chains it has read, and one
/// incomplete message of 64 KiB per direction.
#[derive(Debug, Default)]
pub struct TlsParser {
    sides: [Side; 2],
    handshake: TlsHandshake,
    is_client_known: bool,
    has_client_key_exchange: bool,
    /// The client sent ChangeCipherSpec without a key exchange, so its keys are those of an earlier
    /// connection.
    is_client_keyed: bool,
    /// Ciphertext skipped, bytes.
    passed_bytes: u64,
    /// Size of the kept hellos, bytes.
    kept_bytes: usize,
    cut_off: CutOff,
    is_done: bool,
}

impl SessionParser for TlsParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        let (from, mut rest) = (data.from, data.bytes);
        while !self.is_done && !self.side(from).is_lost {
            match self.side(from).records.next(&mut rest) {
                None => break,
                Some(Ok(Piece::Header { content, length_bytes })) => {
                    self.open_record(from, content, length_bytes)
                }
                Some(Ok(Piece::Content { content, bytes, last })) => {
                    self.take_content(from, content, bytes, last)
                }
                Some(Err(_)) => self.end(Some(Incomplete::Malformed)),
            }
        }
        self.settle(sessions)
    }

    fn gap(&mut self, from: Direction, length_bytes: u64, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if length_bytes > 0 && !self.is_done && !self.side(from).is_lost {
            self.skip(from, length_bytes);
        }
        self.settle(sessions)
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        if !self.is_done {
            self.end(None);
        }
        self.settle(sessions);
    }

    fn cut_off(&self) -> CutOff {
        self.cut_off
    }
}

// Records.
impl TlsParser {
    fn open_record(&mut self, from: Direction, content: u8, length_bytes: u16) {
        if self.is_ciphertext(from, content, length_bytes) {
            self.side(from).open = Open::Ciphertext;
            return self.pass_ciphertext(from);
        }
        self.side(from).open = match content {
            HANDSHAKE | SSLV2 => Open::Clear,
            ALERT if length_bytes == 2 => Open::Clear,
            _ => Open::Unread,
        };
        match content {
            CHANGE_CIPHER_SPEC => self.change_cipher(from),
            HEARTBEAT => self.handshake.push_history('b', from),
            ALERT => self.side(from).alert_level = None,
            _ => {}
        }
    }

    /// Whether a record is encrypted. In TLS 1.3 encrypted records have the content type of application data,
    /// and ChangeCipherSpec has no meaning (RFC 8446 §5).
    fn is_ciphertext(&self, from: Direction, content: u8, length_bytes: u16) -> bool {
        let changed = self.sides[from as usize].has_changed_cipher;
        match content {
            APPLICATION_DATA => true,
            SSLV2 => false,
            ALERT if length_bytes == 2 => changed && !self.is_tls13(),
            _ => changed && !self.is_tls13(),
        }
    }

    fn take_content(&mut self, from: Direction, content: u8, bytes: &[u8], last: bool) {
        match (self.side(from).open, content) {
            (Open::Ciphertext, _) => self.pass_bytes(bytes.len() as u64),
            (Open::Unread, _) => {}
            (Open::Clear, HANDSHAKE) => self.take_messages(from, bytes),
            (Open::Clear, ALERT) => {
                for byte in bytes {
                    match self.side(from).alert_level.take() {
                        None => self.side(from).alert_level = Some(*byte),
                        Some(level) => self.take_alert(from, level, *byte),
                    }
                }
            }
            (Open::Clear, _) => {
                self.side(from).sslv2.extend_from_slice(bytes);
                if last {
                    let content = std::mem::take(&mut self.side(from).sslv2);
                    self.take_sslv2(from, &content);
                }
            }
        }
    }

    /// Handles the start of an encrypted record. The module documentation defines when a connection is
    /// established.
    fn pass_ciphertext(&mut self, from: Direction) {
        self.side(from).has_ciphertext = true;
        let is_encrypted = |side: &Side| {
            if self.is_tls13() { side.has_ciphertext } else { side.has_changed_cipher }
        };
        if self.sides.iter().all(is_encrypted) && self.handshake.is_worth_yielding() {
            self.handshake.is_established = true;
            return self.end(None);
        }
        // The capture began behind the handshake.
        if self.sides.iter().all(|side| side.has_ciphertext) && !self.handshake.is_worth_yielding() {
            return self.end(None);
        }
        self.end_if_exhausted();
    }

    fn pass_bytes(&mut self, length_bytes: u64) {
        self.passed_bytes = self.passed_bytes.saturating_add(length_bytes);
        if self.passed_bytes > PATIENCE_BYTES && !self.is_done {
            self.cut_off.sessions += u64::from(self.handshake.is_worth_yielding());
            self.end(Some(Incomplete::OneSided));
        }
    }

    fn change_cipher(&mut self, from: Direction) {
        self.handshake.push_history('i', from);
        if from == self.handshake.client && !self.has_client_key_exchange {
            self.is_client_keyed = true;
        }
        let side = self.side(from);
        side.has_changed_cipher = true;
        side.messages = Messages::default();
        self.end_if_exhausted();
    }

    /// Handles a loss. It is harmless within skipped bytes; otherwise the direction is lost.
    fn skip(&mut self, from: Direction, length_bytes: u64) {
        let side = self.side(from);
        match (side.records.skip(length_bytes), side.open) {
            (Some(_), Open::Ciphertext) => return self.pass_bytes(length_bytes),
            (Some(_), Open::Unread) => return,
            (Some(HANDSHAKE), Open::Clear) if side.messages.skip(length_bytes) => return,
            _ => {}
        }
        *side = Side { is_lost: true, ..Side::default() };
        self.handshake.incomplete.get_or_insert(Incomplete::Gap);
        self.end_if_exhausted();
    }

    /// Ends the handshake if one side is lost and the other is lost or encrypted.
    fn end_if_exhausted(&mut self) {
        let changing_means_encrypting = !self.is_tls13();
        let is_silent = |side: &Side| {
            side.is_lost || side.has_ciphertext || (side.has_changed_cipher && changing_means_encrypting)
        };
        if self.sides.iter().any(|side| side.is_lost) && self.sides.iter().all(is_silent) {
            self.end(None);
        }
    }
}

// Messages.
impl TlsParser {
    fn take_messages(&mut self, from: Direction, bytes: &[u8]) {
        let mut rest = bytes;
        while !self.is_done
            && let Some(message) = self.side(from).messages.next(&mut rest)
        {
            self.take_message(from, &message);
        }
    }

    fn take_message(&mut self, from: Direction, message: &Message<'_>) {
        let body = match &message.body {
            Body::Whole(body) => body,
            Body::Unread => &[][..],
            Body::Oversize => {
                self.cut_off.parts += 1;
                self.handshake.incomplete.get_or_insert(Incomplete::Oversize);
                if matches!(message.kind, message::CLIENT_HELLO | message::SERVER_HELLO) {
                    return self.end(Some(Incomplete::Oversize));
                }
                return self.handshake.push_history(letter(message.kind), from);
            }
        };
        match message.kind {
            message::CLIENT_HELLO => {
                return self.take_client_hello(from, ClientHello::parse(body), body.len());
            }
            message::SERVER_HELLO => {
                return self.take_server_hello(from, ServerHello::parse(body), body.len());
            }
            message::CERTIFICATE => self.take_certificates(from, CertificateChain::parse(body)),
            message::SERVER_KEY_EXCHANGE => {
                let cipher = self.handshake.cipher();
                self.handshake.group =
                    cipher.and_then(|cipher| named_curve(cipher, body)).or(self.handshake.group);
            }
            message::CLIENT_KEY_EXCHANGE => self.has_client_key_exchange |= from == self.handshake.client,
            _ => {}
        }
        self.handshake.push_history(letter(message.kind), from);
    }

    fn take_client_hello(&mut self, from: Direction, hello: Option<ClientHello>, length_bytes: usize) {
        let Some(hello) = hello else { return self.end(Some(Incomplete::Malformed)) };
        self.set_client(from);
        if from != self.handshake.client {
            return; // Both sides sent a ClientHello; the first sender is the client.
        }
        self.handshake.push_history('c', from);
        match &mut self.handshake.client_hello {
            None => {
                self.kept_bytes += length_bytes;
                self.handshake.client_hello = Some(hello);
            }
            Some(first) if self.handshake.is_retried => {
                first.key_share_groups = hello.key_share_groups;
                first.has_pre_shared_key = hello.has_pre_shared_key;
                // After a HelloRetryRequest the client abandons its early data (RFC 8446 §4.2.10).
                self.side(from).has_ciphertext = false;
            }
            Some(_) => {}
        }
    }

    fn take_server_hello(&mut self, from: Direction, hello: Option<ServerHello>, length_bytes: usize) {
        let Some(hello) = hello else { return self.end(Some(Incomplete::Malformed)) };
        let client = from.other();
        self.set_client(client);
        if from == self.handshake.client {
            return;
        }
        let is_retry = hello.is_retry_request();
        self.handshake.push_history(if is_retry { 'j' } else { 's' }, from);
        self.handshake.is_retried |= is_retry;
        if self.handshake.server_hello.as_ref().is_some_and(|hello| !hello.is_retry_request()) {
            return;
        }
        if is_tls13(hello.negotiated_version()) {
            self.handshake.group = hello.key_share_group.or(self.handshake.group);
            if self.handshake.client_hello.as_ref().is_some_and(|client| client.has_early_data) {
                // The client's ciphertext so far is early data and not part of the handshake.
                self.side(client).has_ciphertext = false;
            }
        }
        self.kept_bytes += length_bytes;
        self.handshake.server_hello = Some(hello);
    }

    fn take_certificates(&mut self, from: Direction, chain: CertificateChain) {
        self.cut_off.parts += chain.omitted();
        let kept = if from == self.handshake.client {
            &mut self.handshake.client_certificates
        } else {
            &mut self.handshake.server_certificates
        };
        if kept.is_empty() {
            *kept = chain;
        }
    }

    fn take_alert(&mut self, from: Direction, level: u8, description: u8) {
        const FATAL: u8 = 2;
        const CLOSE_NOTIFY: u8 = 0;
        self.handshake.push_history('l', from);
        self.handshake.alert = Some(description);
        if level == FATAL || description == CLOSE_NOTIFY {
            self.end(None);
        }
    }

    fn take_sslv2(&mut self, from: Direction, content: &[u8]) {
        if content.first() == Some(&message::CLIENT_HELLO) {
            return self.take_client_hello(from, ClientHello::parse_sslv2(content), content.len());
        }
        let Some((hello, certificate)) = ServerHello::parse_sslv2(content) else {
            return self.end(Some(Incomplete::Malformed));
        };
        self.take_server_hello(from, Some(hello), content.len());
        self.take_certificates(from, CertificateChain::single(certificate));
        // The remaining SSLv2 messages contain nothing that is reported.
        self.end(None);
    }
}

// State and end of the handshake.
impl TlsParser {
    fn side(&mut self, from: Direction) -> &mut Side {
        &mut self.sides[from as usize]
    }

    fn is_tls13(&self) -> bool {
        self.handshake.is_retried || self.handshake.version().is_some_and(is_tls13)
    }

    fn set_client(&mut self, client: Direction) {
        if !self.is_client_known {
            self.is_client_known = true;
            self.handshake.client = client;
            if client == Direction::Responder {
                self.handshake.history.push('^');
            }
        }
    }

    fn end(&mut self, incomplete: Option<Incomplete>) {
        self.is_done = true;
        if let Some(reason) = incomplete {
            self.handshake.incomplete.get_or_insert(reason);
        }
    }

    /// Yields the handshake once it is over.
    fn settle(&mut self, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if !self.is_done {
            return Progress::Wanted;
        }
        // The default left behind is not worth yielding again.
        let mut handshake = std::mem::take(&mut self.handshake);
        if handshake.is_worth_yielding() {
            handshake.is_resumed = handshake.takes_up_keys(self.is_client_keyed);
            sessions.push(Box::new(handshake));
        }
        self.sides = Default::default();
        self.kept_bytes = 0;
        Progress::Done
    }
}

/// The named curve of a ServerKeyExchange (RFC 8422 §5.4), if the cipher suite has one.
pub(crate) fn named_curve(cipher: u16, body: &[u8]) -> Option<u16> {
    const NAMED_CURVE: u8 = 3;
    let suite = names::cipher(cipher);
    let mut reader = Reader::new(body);
    if suite.starts_with("TLS_ECDHE_PSK_") {
        reader.vector16()?; // the hint of RFC 5489 §2
    } else if !suite.starts_with("TLS_ECDHE_") && !suite.starts_with("TLS_ECDH_ANON_") {
        return None;
    }
    if reader.u8()? == NAMED_CURVE { reader.u16() } else { None }
}

/// Zeek's letter for a handshake type.
pub(crate) fn letter(kind: u8) -> char {
    match kind {
        0 => 'h',
        message::CLIENT_HELLO => 'c',
        message::SERVER_HELLO => 's',
        3 => 'v',
        4 => 't',
        5 => 'e',
        6 => 'j',
        8 => 'o',
        message::CERTIFICATE => 'x',
        message::SERVER_KEY_EXCHANGE => 'k',
        13 => 'r',
        14 => 'n',
        15 => 'y',
        message::CLIENT_KEY_EXCHANGE => 'g',
        20 => 'f',
        21 => 'w',
        22 => 'u',
        23 => 'a',
        24 => 'p',
        254 => 'm',
        _ => 'z',
    }
}
