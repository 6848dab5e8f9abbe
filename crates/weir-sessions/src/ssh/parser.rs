//! [`SshParser`]: parses both directions of a connection into one [`SshHandshake`].
//!
//! The client's direction is unknown until the key exchange: its messages have even numbers from the client
//! and odd ones from the server (RFC 4253 §8, RFC 4419 §5, RFC 5656 §7.1). The handshake is over, and
//! yielded, when
//! * both offers have been read, and the server's key or a NEWKEYS, after which a side encrypts;
//! * the banners are those of version 1, whose packets are not read;
//! * both directions are encrypted, lost or not SSH;
//! * the connection ended.

use super::handshake::{MESSAGES_MAX, SshHandshake};
use super::kex::{KexInit, read_string};
use crate::values::readable;
use crate::wire::Reader;
use crate::{CutOff, Data, Direction, Progress, Session, SessionParser};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest, Sha256};
use weir_packet::Timestamp;

/// Longest packet read, bytes. Implementations must accept 35 000 (RFC 4253 §6.1); offers have one to three
/// thousand.
pub const PACKET_BYTES_MAX: usize = 64 * 1024;

/// Longest line before a packet, bytes. A banner has at most 255 (§4.2).
const LINE_BYTES_MAX: usize = 2048;

/// Maximum number of lines before a server's banner.
const LINES_MAX: u32 = 64;

/// Maximum number of packets read of one side before it encrypts; five are usual.
const PACKETS_MAX: u32 = 64;

const DISCONNECT: u8 = 1;
const KEXINIT: u8 = 20;
const NEWKEYS: u8 = 21;
/// Message numbers of the key exchange method.
const KEX: std::ops::RangeInclusive<u8> = 30..=49;

/// Stage of one direction.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Lines of text, one of which is the banner.
    #[default]
    Lines,
    /// Unencrypted packets.
    Packets,
    /// Nothing more can be read: encrypted or lost.
    Over,
}

#[derive(Debug, Default)]
struct Side {
    stage: Stage,
    /// The beginning of an incomplete line or packet.
    kept: Vec<u8>,
    lines: u32,
    packets: u32,
    has_new_keys: bool,
    banner: Option<String>,
    offer: Option<KexInit>,
}

/// Parses the handshake of one connection. Holds at most two incomplete packets of 64 KiB and the offers.
#[derive(Debug, Default)]
pub struct SshParser {
    sides: [Side; 2],
    handshake: SshHandshake,
    /// Whether the key exchange has shown which side is the client.
    is_client_known: bool,
    has_kex_reply: bool,
    kept_bytes: usize,
    cut_off: CutOff,
    is_done: bool,
}

impl SessionParser for SshParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        let mut rest = data.bytes;
        while !self.is_done && !rest.is_empty() {
            match self.sides[data.from as usize].stage {
                Stage::Lines => self.take_line(data.from, data.time, &mut rest),
                Stage::Packets => self.take_packet(data.from, &mut rest),
                Stage::Over => break,
            }
            self.judge();
        }
        self.settle(sessions)
    }

    fn gap(&mut self, from: Direction, length_bytes: u64, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if length_bytes > 0 && !self.is_done {
            self.lose(from);
            self.judge();
        }
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

// Lines and packets.
impl SshParser {
    fn take_line(&mut self, from: Direction, time: Timestamp, rest: &mut &[u8]) {
        let side = &mut self.sides[from as usize];
        let end = rest.iter().position(|byte| *byte == b'\n');
        let (head, tail) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
        if side.kept.len() + head.len() > LINE_BYTES_MAX {
            return self.lose(from);
        }
        *rest = tail;
        side.kept.extend_from_slice(head);
        if end.is_none() {
            return;
        }
        let line = std::mem::take(&mut side.kept);
        side.lines += 1;
        if !line.starts_with(b"SSH-") {
            if side.lines == LINES_MAX {
                self.lose(from);
            }
            return;
        }
        let banner = line.trim_ascii_end();
        side.banner = Some(readable(banner).into_owned());
        // Version 1 has another packet format.
        let is_first_version = banner.starts_with(b"SSH-1.") && !banner.starts_with(b"SSH-1.99");
        side.stage = if is_first_version { Stage::Over } else { Stage::Packets };
        self.kept_bytes += banner.len();
        self.handshake.time.get_or_insert(time);
    }

    /// Takes a packet (RFC 4253 §6): length, padding length, payload, padding.
    fn take_packet(&mut self, from: Direction, rest: &mut &[u8]) {
        let mut kept = std::mem::take(&mut self.sides[from as usize].kept);
        let length = |bytes: &[u8]| {
            bytes.first_chunk::<4>().map(|length| u32::from_be_bytes(*length) as usize).unwrap_or(0)
        };
        let known = if kept.is_empty() { rest.len() } else { kept.len() };
        let wanted = match if kept.is_empty() { length(rest) } else { length(&kept) } {
            _ if known < 4 => 4,
            // One byte for the padding length, at least four of padding, and one of payload.
            length @ 6..=PACKET_BYTES_MAX => 4 + length,
            length => {
                self.cut_off.parts += u64::from(length > PACKET_BYTES_MAX && length < 1 << 20);
                return self.lose(from);
            }
        };
        if kept.is_empty()
            && wanted > 4
            && let Some(packet) = rest.get(..wanted)
        {
            *rest = &rest[wanted..];
            return self.take_payload(from, packet);
        }
        let (head, tail) = rest.split_at(rest.len().min(wanted - kept.len()));
        kept.extend_from_slice(head);
        *rest = tail;
        if wanted > 4 && kept.len() == wanted {
            return self.take_payload(from, &kept);
        }
        self.sides[from as usize].kept = kept;
    }

    fn take_payload(&mut self, from: Direction, packet: &[u8]) {
        let padding = packet.get(4).copied().map_or(0, usize::from);
        let payload = packet.len().checked_sub(padding).and_then(|end| packet.get(5..end));
        let Some((number, content)) = payload.and_then(<[u8]>::split_first) else { return self.lose(from) };
        let side = &mut self.sides[from as usize];
        side.packets += 1;
        if side.packets > PACKETS_MAX {
            return self.lose(from);
        }
        if self.handshake.messages.len() < MESSAGES_MAX {
            self.handshake.messages.push(*number);
        }
        match *number {
            KEXINIT if side.offer.is_none() => {
                let Some(offer) = KexInit::parse(content) else { return self.lose(from) };
                self.cut_off.parts += offer.omitted;
                self.kept_bytes += offer.held_bytes();
                side.offer = Some(offer);
            }
            NEWKEYS => {
                side.has_new_keys = true;
                side.stage = Stage::Over;
            }
            DISCONNECT => self.is_done = true,
            number if KEX.contains(&number) => self.take_kex(from, number, content),
            _ => {}
        }
    }

    fn take_kex(&mut self, from: Direction, number: u8, content: &[u8]) {
        let is_from_client = number.is_multiple_of(2);
        if !self.is_client_known {
            self.is_client_known = true;
            self.handshake.client = if is_from_client { from } else { from.other() };
        }
        let is_group_exchange = self.offers_agree_on("diffie-hellman-group-exchange");
        // In a group exchange 31 is the group, and 33 the reply.
        if is_from_client || (is_group_exchange && number == 31) {
            return;
        }
        self.has_kex_reply = true;
        let Some(key) = read_string(&mut Reader::new(content)) else { return };
        if let Some(kind) = read_string(&mut Reader::new(key)).filter(|kind| kind.len() <= 64) {
            let digest = STANDARD_NO_PAD.encode(Sha256::digest(key));
            self.handshake.host_key_type = Some(readable(kind).into_owned());
            self.handshake.host_key_fingerprint = Some(format!("SHA256:{digest}"));
        }
    }

    fn offers_agree_on(&self, prefix: &str) -> bool {
        let [client, server] = [self.handshake.client, self.handshake.client.other()]
            .map(|side| &self.sides[side as usize].offer);
        let (Some(client), Some(server)) = (client, server) else { return false };
        super::kex::agreed(&client.kex, &server.kex).is_some_and(|name| name.starts_with(prefix))
    }

    fn lose(&mut self, from: Direction) {
        let side = &mut self.sides[from as usize];
        side.stage = Stage::Over;
        side.kept = Vec::new();
    }
}

// End of the handshake.
impl SshParser {
    fn judge(&mut self) {
        let has_offers = self.sides.iter().all(|side| side.offer.is_some());
        let has_new_keys = self.sides.iter().any(|side| side.has_new_keys);
        let is_over = self.sides.iter().all(|side| side.stage == Stage::Over);
        self.is_done |= is_over || (has_offers && (self.has_kex_reply || has_new_keys));
    }

    fn settle(&mut self, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if !self.is_done {
            return Progress::Wanted;
        }
        let mut handshake = std::mem::take(&mut self.handshake);
        let sides = std::mem::take(&mut self.sides);
        if sides.iter().any(|side| side.banner.is_some()) {
            let [originator, responder] = sides.map(|side| (side.banner, side.offer));
            let [client, server] = match handshake.client {
                Direction::Originator => [originator, responder],
                Direction::Responder => [responder, originator],
            };
            handshake.banners = [client.0, server.0];
            handshake.offers = [client.1, server.1];
            sessions.push(Box::new(handshake));
        }
        self.kept_bytes = 0;
        Progress::Done
    }
}
