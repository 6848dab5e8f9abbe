//! [`QuicParser`]: parses datagrams of both directions into one [`QuicHandshake`].
//!
//! The parser does not track key changes: it tries the known keys on each Initial, then keys derived from the
//! Initial's own connection id. So it needs no state for Retry (RFC 9000 §17.2.5), which changes the keys,
//! for lost packets, or for a server that answers in another version (RFC 9368). The handshake is over, and
//! yielded, when
//! * both hellos are read;
//! * an Initial closes the connection;
//! * [`LATE_PACKETS_MAX`] packets of a later stage have arrived, which leaves time for a missing hello;
//! * [`DATAGRAMS_MAX`] is reached, or the flow ends.

use super::crypto::{CryptoStream, Frame, frames};
use super::handshake::QuicHandshake;
use super::header::{Kind, LongPacket, is_short};
use super::protection::{InitialKeys, Opened};
use super::version;
use crate::tls::{ClientHello, ServerHello};
use crate::{CutOff, Data, Direction, Progress, Session, SessionParser};

/// Packets of later stages after which a missing hello is no longer awaited.
const LATE_PACKETS_MAX: u32 = 8;

/// Packets with a short header before any with a long one, after which no handshake is awaited.
const EARLY_PACKETS_MAX: u32 = 64;

/// Datagrams after a handshake in which another connection may begin on the same ports.
pub(super) const AFTER_MAX: u32 = 16;

/// Datagrams after which an incomplete handshake is given up.
pub const DATAGRAMS_MAX: u32 = 512;

/// Maximum number of packets read of one datagram. Real ones hold three or four.
const COALESCED_MAX: usize = 16;

/// Maximum number of key sets kept: for the first connection id, the one after a Retry, and other versions.
const KEYS_MAX: usize = 4;

/// Undecryptable Initials after which no more are tried.
const FAILURES_MAX: u32 = 64;

const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;

/// Earlier connections on the same ports whose beginnings are known.
const EARLIER_MAX: usize = 8;

/// The connection that a datagram belongs to.
enum Whose {
    /// The one whose handshake is read, as far as can be told.
    This,
    /// One before.
    Earlier,
    /// One that begins.
    Another,
}

/// What the Initials of a connection's client have in common.
struct Beginning {
    client: Direction,
    /// The connection id of the first one, until the server has chosen its own (RFC 9000, section 7.2).
    first_id: Vec<u8>,
    /// The client's own id, which may be empty.
    client_id: Vec<u8>,
}

impl Beginning {
    fn has(&self, packet: &LongPacket<'_>) -> bool {
        packet.destination_id == self.first_id
            || packet.source_id == self.client_id && !self.client_id.is_empty()
    }
}

/// Keys, and the inputs of their derivation.
struct KnownKeys {
    version: u32,
    id: Vec<u8>,
    keys: InitialKeys,
}

/// Parses the handshake of one flow. Holds at most 64 KiB of each side's handshake and a few keys.
#[derive(Default)]
pub struct QuicParser {
    handshake: QuicHandshake,
    is_client_known: bool,
    /// Newest last.
    keys: Vec<KnownKeys>,
    /// Of the client and the server.
    streams: [CryptoStream; 2],
    /// Expected packet numbers, of the client and the server.
    next_numbers: [u64; 2],
    short_packets: [u64; 2],
    datagrams: u32,
    failures: u32,
    late_packets: u32,
    early_packets: u32,
    kept_bytes: usize,
    cut_off: CutOff,
    is_done: bool,
    /// The handshake was yielded, and so many datagrams have come since.
    after: Option<u32>,
    /// Of this connection, once an Initial of its client is read.
    beginning: Option<Beginning>,
    /// Of connections before on the same ports, the last one last.
    earlier: Vec<Beginning>,
}

impl SessionParser for QuicParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if !data.is_datagram {
            return Progress::Done;
        }
        // First bytes of STUN are 0 to 3, of DTLS 20 to 63 (RFC 9443, section 3).
        if matches!(data.bytes.first(), Some(0..=3 | 20..=63)) {
            return Progress::NotMine;
        }
        if self.datagrams == 0 {
            self.handshake.time = data.time;
        }
        self.datagrams += 1;
        match self.whose(data) {
            Whose::This => {}
            // A repeated beginning, or a late part of one that was given up.
            Whose::Earlier => return Progress::Wanted,
            Whose::Another => self.begin_another(data, sessions),
        }
        if let Some(after) = &mut self.after {
            *after += 1;
            return if *after < AFTER_MAX { Progress::Wanted } else { Progress::Done };
        }
        let mut rest = data.bytes;
        for at in 0..COALESCED_MAX {
            let Some(first) = rest.first().filter(|_| !self.is_done) else { break };
            if is_short(*first) {
                self.take_short(data.from);
                break;
            }
            let Some(packet) = LongPacket::parse(rest) else {
                // Some senders pad the datagram instead of the packet.
                if at > 0 {
                    self.handshake.push_history('X', data.from);
                }
                break;
            };
            rest = &rest[packet.bytes.len()..];
            self.take_long(data.from, &packet);
        }
        if self.datagrams == DATAGRAMS_MAX && !self.is_done && !self.is_complete() {
            self.cut_off.sessions += 1;
            self.is_done = true;
        }
        self.settle(sessions)
    }

    fn gap(&mut self, _: Direction, _: u64, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if self.after.is_some() { Progress::Wanted } else { self.settle(sessions) }
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        if self.after.is_none() {
            self.is_done = true;
            self.settle(sessions);
        }
    }

    fn cut_off(&self) -> CutOff {
        self.cut_off
    }
}

// Packets.
impl QuicParser {
    fn take_short(&mut self, from: Direction) {
        // Of a connection before: this one has not begun.
        if self.handshake.version == 0 && self.handshake.offered_versions.is_empty() {
            self.early_packets += 1;
            self.is_done |= self.early_packets == EARLY_PACKETS_MAX;
            return;
        }
        let count = &mut self.short_packets[from as usize];
        *count += 1;
        if count.is_power_of_two() {
            self.handshake.push_history('O', from);
        }
        self.late_packets += 1;
    }

    fn take_long(&mut self, from: Direction, packet: &LongPacket<'_>) {
        if self.handshake.version == 0 {
            self.handshake.version = packet.version;
        }
        match packet.kind {
            Kind::Initial { token, number_at } => return self.take_initial(from, packet, token, number_at),
            Kind::Handshake => {
                self.handshake.push_history('H', from);
                self.late_packets += 1;
            }
            Kind::ZeroRtt => self.handshake.push_history('Z', from),
            Kind::Retry => {
                self.handshake.push_history('R', from);
                self.handshake.is_retried = true;
            }
            Kind::Negotiation(versions) => {
                self.handshake.push_history('V', from);
                let numbers = versions.as_chunks::<4>().0.iter().map(|four| u32::from_be_bytes(*four));
                self.handshake.offered_versions = numbers.take(32).collect();
            }
            Kind::Unknown => self.handshake.push_history('U', from),
        }
        if self.is_client_known && from != self.handshake.client {
            self.handshake.server_id = Some(packet.source_id.to_vec());
        }
    }

    fn take_initial(&mut self, from: Direction, packet: &LongPacket<'_>, token: &[u8], number_at: usize) {
        let Some((opened, role)) = self.open(from, packet, number_at) else {
            self.handshake.push_history('I', from);
            self.failures += 1;
            // Without keys, later packets cannot be decrypted either.
            self.late_packets += u32::from(self.failures > FAILURES_MAX);
            return;
        };
        self.next_numbers[role] = self.next_numbers[role].max(opened.number + 1);
        self.handshake.version = packet.version;
        if role == 0 {
            self.is_client_known = true;
            self.handshake.client = from;
            self.handshake.initial_destination_id.get_or_insert_with(|| packet.destination_id.to_vec());
            self.handshake.client_id = Some(packet.source_id.to_vec());
            self.beginning.get_or_insert_with(|| Beginning {
                client: from,
                first_id: packet.destination_id.to_vec(),
                client_id: packet.source_id.to_vec(),
            });
            self.handshake.token_bytes = token.len();
        } else {
            self.handshake.server_id = Some(packet.source_id.to_vec());
        }
        self.handshake.push_history('I', from);
        for frame in frames(&opened.payload) {
            match frame {
                Frame::Crypto(offset, bytes) => {
                    self.cut_off.parts += u64::from(!self.streams[role].insert(offset, bytes));
                }
                Frame::Close(code) => {
                    self.handshake.push_history('C', from);
                    self.handshake.close_code = Some(code);
                    self.is_done = true;
                }
            }
        }
        self.take_messages(role, from);
    }

    /// Decrypts an Initial with a known key set, or with keys derived from its connection id. Also returns
    /// its sender: 0 client, 1 server.
    fn open(
        &mut self,
        from: Direction,
        packet: &LongPacket<'_>,
        number_at: usize,
    ) -> Option<(Opened, usize)> {
        if self.failures > FAILURES_MAX {
            return None;
        }
        let role = usize::from(self.is_client_known && from != self.handshake.client);
        let expected = self.next_numbers[role];
        let side = |keys: &InitialKeys| {
            let side = if role == 0 { &keys.client } else { &keys.server };
            side.open(packet.bytes, number_at, expected)
        };
        let of_version = self.keys.iter().rev().filter(|known| known.version == packet.version);
        if let Some(opened) = of_version.map(|known| &known.keys).find_map(side) {
            return Some((opened, role));
        }
        let id = match (role, &self.handshake.initial_destination_id) {
            (0, _) => packet.destination_id,
            (_, Some(id)) => id,
            (_, None) => return None,
        };
        if self.keys.iter().any(|known| known.version == packet.version && known.id == id) {
            return None;
        }
        let keys = InitialKeys::derive(version::find(packet.version)?, id);
        let opened = side(&keys)?;
        if self.keys.len() == KEYS_MAX {
            self.keys.remove(0);
        }
        self.keys.push(KnownKeys { version: packet.version, id: id.to_vec(), keys });
        Some((opened, role))
    }
}

// Handshake messages.
impl QuicParser {
    fn take_messages(&mut self, role: usize, from: Direction) {
        while let Some((kind, body)) = self.streams[role].next_message() {
            match (role, kind) {
                (0, CLIENT_HELLO) => {
                    // The ClientHello after a HelloRetryRequest says less about the client.
                    if self.handshake.client_hello.is_none() {
                        self.kept_bytes += body.len();
                        self.handshake.client_hello = ClientHello::parse(body);
                    }
                }
                (1, SERVER_HELLO) => {
                    self.kept_bytes += body.len();
                    self.handshake.server_hello =
                        ServerHello::parse(body).or(self.handshake.server_hello.take());
                }
                _ => continue,
            }
            self.handshake.push_history('S', from);
        }
    }

    fn is_complete(&self) -> bool {
        let server = self.handshake.server_hello.as_ref();
        self.handshake.client_hello.is_some() && server.is_some_and(|hello| !hello.is_retry_request())
    }

    fn settle(&mut self, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if !self.is_done && !self.is_complete() && self.late_packets < LATE_PACKETS_MAX {
            return Progress::Wanted;
        }
        self.is_done = true;
        let handshake = std::mem::take(&mut self.handshake);
        if handshake.version != 0 || !handshake.offered_versions.is_empty() {
            sessions.push(Box::new(handshake));
        }
        self.streams = Default::default();
        self.keys = Vec::new();
        self.kept_bytes = 0;
        // Without a beginning, nothing tells another connection from this one.
        self.after = self.beginning.is_some().then_some(0);
        if self.after.is_some() { Progress::Wanted } else { Progress::Done }
    }

    /// The connection that a datagram belongs to. An Initial of the client begins another connection if three
    /// conditions hold: neither of its ids is one of a known connection; it has no token, as an Initial after
    /// a Retry has; and the keys that its own id gives decrypt it.
    fn whose(&self, data: &Data<'_>) -> Whose {
        let Some(beginning) = self.beginning.as_ref().filter(|known| known.client == data.from) else {
            return Whose::This;
        };
        let is_long = data.bytes.first().is_some_and(|first| !is_short(*first));
        let Some(packet) = is_long.then(|| LongPacket::parse(data.bytes)).flatten() else {
            return Whose::This;
        };
        let Kind::Initial { token: [], number_at } = packet.kind else { return Whose::This };
        if beginning.has(&packet) {
            return Whose::This;
        }
        if self.earlier.iter().any(|known| known.has(&packet)) {
            return Whose::Earlier;
        }
        let version = version::find(packet.version);
        let keys = version.map(|version| InitialKeys::derive(version, packet.destination_id));
        let opens = keys.is_some_and(|keys| keys.client.open(packet.bytes, number_at, 0).is_some());
        if opens { Whose::Another } else { Whose::This }
    }

    /// Yields this handshake, if it is not yielded yet, and reads that of another connection from now on.
    fn begin_another(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) {
        // The rest of a hello in several Initials, between which the other connection begins, is not read.
        self.cut_off.sessions += u64::from(self.after.is_none() && self.handshake.client_hello.is_none());
        self.is_done = true;
        self.settle(sessions);
        let mut earlier = std::mem::take(&mut self.earlier);
        if earlier.len() == EARLIER_MAX {
            earlier.remove(0);
        }
        earlier.extend(self.beginning.take());
        *self = Self { cut_off: self.cut_off, datagrams: 1, earlier, ..Self::default() };
        self.handshake.time = data.time;
    }
}
