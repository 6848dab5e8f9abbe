//! [`DtlsParser`]: turns datagrams of both directions into one [`DtlsHandshake`].
//!
//! Messages are read once they are complete, in any order of their fragments. Retransmitted messages are
//! recognised by their number and ignored. The handshake ends, and is yielded, when
//! * both sides have sent encrypted records;
//! * an unencrypted fatal alert or close_notify arrives;
//! * one side encrypts but the other sends nothing, or no further message can be read;
//! * the flow ends.

use super::handshake::DtlsHandshake;
use super::record::{ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, Fragment, HANDSHAKE, Record};
use crate::pieces::Pieces;
use crate::tls::message::{self, MESSAGE_BYTES_MAX, is_read};
use crate::tls::parser::{letter, named_curve};
use crate::tls::{CertificateChain, ClientHello, Incomplete, ServerHello, is_tls13};
use crate::wire::Reader;
use crate::{CutOff, Data, Direction, Progress, Session, SessionParser};

/// Maximum number of encrypted records to wait for the rest of a handshake.
const PATIENCE_RECORDS: u32 = 256;

/// Maximum number of datagrams until a handshake is complete. The flow may carry other protocols (RFC 7983).
pub const DATAGRAMS_MAX: u32 = 4096;

/// Maximum number of messages of one side in reassembly.
const PARTS_MAX: usize = 3;

/// Maximum number of messages per side. A full handshake has six.
const MESSAGES_MAX: usize = 64;

const HELLO_VERIFY_REQUEST: u8 = 3;

/// A message in reassembly.
#[derive(Debug)]
struct Part {
    kind: u8,
    sequence: u16,
    length: usize,
    pieces: Pieces,
}

/// One direction.
#[derive(Debug, Default)]
struct Side {
    parts: Vec<Part>,
    /// Types and numbers of the messages that were read.
    seen: Vec<(u8, u16)>,
    has_changed_cipher: bool,
    has_ciphertext: bool,
}

/// Parses the handshake of one flow. Holds at most the hellos and certificate chains that it has read, and
/// three incomplete messages of 64 KiB per direction.
#[derive(Debug, Default)]
pub struct DtlsParser {
    sides: [Side; 2],
    session: DtlsHandshake,
    is_client_known: bool,
    has_client_key_exchange: bool,
    /// The client changed ciphers without a key exchange, so it has keys of an earlier session.
    is_client_keyed: bool,
    datagrams: u32,
    encrypted_records: u32,
    kept_bytes: usize,
    cut_off: CutOff,
    is_done: bool,
}

impl SessionParser for DtlsParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if !data.is_datagram {
            return Progress::Done;
        }
        // RTP, which uses keys of this handshake, may share the flow (RFC 7983 §7, RFC 5764).
        if matches!(data.bytes.first(), Some(0..=3 | 128..=191)) {
            return Progress::NotMine;
        }
        self.datagrams += 1;
        let mut rest = data.bytes;
        while !self.is_done
            && let Some(record) = Record::next(&mut rest)
        {
            if self.session.time.0 == 0 {
                self.session.time = data.time;
            }
            self.take_record(data.from, &record);
        }
        if self.datagrams >= DATAGRAMS_MAX && !self.is_done {
            self.give_up();
        }
        self.settle(sessions)
    }

    fn gap(&mut self, _: Direction, _: u64, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        self.settle(sessions)
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        self.is_done = true;
        self.settle(sessions);
    }

    fn cut_off(&self) -> CutOff {
        self.cut_off
    }
}

// Records and fragments.
impl DtlsParser {
    fn take_record(&mut self, from: Direction, record: &Record<'_>) {
        match record.content {
            _ if record.epoch > 0 => self.take_ciphertext(from, record),
            HANDSHAKE => {
                let mut reader = Reader::new(record.body);
                while !self.is_done
                    && let Some(fragment) = Fragment::next(&mut reader)
                {
                    self.take_fragment(from, &fragment);
                }
            }
            CHANGE_CIPHER_SPEC if !self.sides[from as usize].has_changed_cipher => {
                self.session.handshake.push_history('i', from);
                if from == self.session.handshake.client && !self.has_client_key_exchange {
                    self.is_client_keyed = true;
                }
                self.sides[from as usize].has_changed_cipher = true;
            }
            ALERT => {
                if let [level, description] = *record.body {
                    self.take_alert(from, level, description);
                }
            }
            _ => {}
        }
    }

    fn take_ciphertext(&mut self, from: Direction, record: &Record<'_>) {
        // In DTLS 1.3, epoch 1 is early data, which does not end the handshake (RFC 9147 §6.1).
        if record.content == APPLICATION_DATA && record.epoch == 1 && self.is_tls13() {
            return;
        }
        self.sides[from as usize].has_ciphertext = true;
        if self.sides.iter().all(|side| side.has_ciphertext) && self.session.handshake.is_worth_yielding() {
            self.session.handshake.is_established = true;
            self.is_done = true;
        }
        self.encrypted_records += 1;
        if self.encrypted_records > PATIENCE_RECORDS && !self.is_done {
            self.give_up();
        }
    }

    fn take_alert(&mut self, from: Direction, level: u8, description: u8) {
        const FATAL: u8 = 2;
        const CLOSE_NOTIFY: u8 = 0;
        self.session.handshake.push_history('l', from);
        self.session.handshake.alert = Some(description);
        self.is_done |= level == FATAL || description == CLOSE_NOTIFY;
    }

    fn take_fragment(&mut self, from: Direction, fragment: &Fragment<'_>) {
        let side = &mut self.sides[from as usize];
        let id = (fragment.kind, fragment.sequence);
        if side.seen.contains(&id) || side.seen.len() == MESSAGES_MAX {
            return;
        }
        let is_oversize = fragment.length > MESSAGE_BYTES_MAX;
        if fragment.is_whole() || !is_read(fragment.kind) || is_oversize {
            side.seen.push(id);
            side.parts.retain(|part| (part.kind, part.sequence) != id);
            if is_oversize && is_read(fragment.kind) {
                self.cut_off.parts += 1;
                self.session.handshake.incomplete.get_or_insert(Incomplete::Oversize);
                return self.session.handshake.push_history(letter(fragment.kind), from);
            }
            return self.take_message(from, fragment.kind, fragment.bytes);
        }
        let is_it = |part: &Part| (part.kind, part.sequence, part.length) == (id.0, id.1, fragment.length);
        let at = side.parts.iter().position(is_it).unwrap_or_else(|| {
            side.parts.push(Part {
                kind: id.0,
                sequence: id.1,
                length: fragment.length,
                pieces: Pieces::default(),
            });
            side.parts.len() - 1
        });
        if side.parts.len() > PARTS_MAX {
            side.parts.pop();
            self.cut_off.parts += 1;
            return;
        }
        let part = &mut side.parts[at];
        self.cut_off.parts += u64::from(!part.pieces.insert(fragment.offset, fragment.bytes, part.length));
        if part.pieces.whole().len() == part.length {
            side.seen.push(id);
            let part = side.parts.swap_remove(at);
            self.take_message(from, part.kind, part.pieces.whole());
        }
    }
}

// Messages.
impl DtlsParser {
    fn take_message(&mut self, from: Direction, kind: u8, body: &[u8]) {
        let handshake = &mut self.session.handshake;
        match kind {
            message::CLIENT_HELLO => return self.take_client_hello(from, body),
            message::SERVER_HELLO => return self.take_server_hello(from, body),
            message::CERTIFICATE => {
                let chain = CertificateChain::parse(body);
                self.cut_off.parts += chain.omitted();
                let kept = if from == handshake.client {
                    &mut handshake.client_certificates
                } else {
                    &mut handshake.server_certificates
                };
                if kept.is_empty() {
                    *kept = chain;
                }
            }
            message::SERVER_KEY_EXCHANGE => {
                let curve = handshake.cipher().and_then(|cipher| named_curve(cipher, body));
                handshake.group = curve.or(handshake.group);
            }
            message::CLIENT_KEY_EXCHANGE => self.has_client_key_exchange |= from == handshake.client,
            HELLO_VERIFY_REQUEST => {
                self.set_client(from.other());
                self.session.is_verified = true;
            }
            _ => {}
        }
        self.session.handshake.push_history(letter(kind), from);
    }

    fn take_client_hello(&mut self, from: Direction, body: &[u8]) {
        let Some(hello) = ClientHello::parse_dtls(body) else { return self.fail() };
        self.set_client(from);
        let handshake = &mut self.session.handshake;
        if from != handshake.client {
            return;
        }
        handshake.push_history('c', from);
        match &mut handshake.client_hello {
            None => {
                self.kept_bytes += body.len();
                handshake.client_hello = Some(hello);
            }
            // A second ClientHello repeats the first with a cookie, or with another key share.
            Some(first) => {
                first.cookie_bytes = hello.cookie_bytes;
                if handshake.is_retried {
                    first.key_share_groups = hello.key_share_groups;
                    first.has_pre_shared_key = hello.has_pre_shared_key;
                }
            }
        }
    }

    fn take_server_hello(&mut self, from: Direction, body: &[u8]) {
        let Some(hello) = ServerHello::parse(body) else { return self.fail() };
        self.set_client(from.other());
        let handshake = &mut self.session.handshake;
        if from == handshake.client {
            return;
        }
        let is_retry = hello.is_retry_request();
        handshake.push_history(if is_retry { 'j' } else { 's' }, from);
        handshake.is_retried |= is_retry;
        if handshake.server_hello.as_ref().is_some_and(|hello| !hello.is_retry_request()) {
            return;
        }
        if is_tls13(hello.negotiated_version()) {
            handshake.group = hello.key_share_group.or(handshake.group);
        }
        self.kept_bytes += body.len();
        handshake.server_hello = Some(hello);
    }

    fn is_tls13(&self) -> bool {
        self.session.handshake.is_retried || self.session.handshake.version().is_some_and(is_tls13)
    }

    fn set_client(&mut self, client: Direction) {
        if !self.is_client_known {
            self.is_client_known = true;
            self.session.handshake.client = client;
            if client == Direction::Responder {
                self.session.handshake.history.push('^');
            }
        }
    }

    fn fail(&mut self) {
        self.session.handshake.incomplete.get_or_insert(Incomplete::Malformed);
    }

    fn give_up(&mut self) {
        self.cut_off.sessions += 1;
        self.session.handshake.incomplete.get_or_insert(Incomplete::OneSided);
        self.is_done = true;
    }

    fn settle(&mut self, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if !self.is_done {
            return Progress::Wanted;
        }
        let mut session = std::mem::take(&mut self.session);
        if session.handshake.is_worth_yielding() {
            session.handshake.is_resumed = session.handshake.takes_up_keys(self.is_client_keyed);
            sessions.push(Box::new(session));
        }
        self.sides = Default::default();
        self.kept_bytes = 0;
        // The flow may carry RTP with keys of this handshake.
        Progress::HandOver { rest_bytes: 0 }
    }
}
