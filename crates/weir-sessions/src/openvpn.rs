//! OpenVPN (its protocol as of 2.6, `src/openvpn/ssl_pkt.h`; there is no RFC): one [`OpenvpnHandshake`] for
//! the first two packets. Their kind of protection and both session ids are in clear.

use crate::session::session_fields;
use crate::values::{bytes, text, unsigned};
use crate::wire::Reader;
use crate::{
    ByteSet, CutOff, Data, Direction, FirstPlace, Opening, Probe, Progress, Session, SessionParser,
    SessionProtocol,
};
use std::any::Any;
use weir_packet::{Timestamp, Value};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "openvpn",
    service: "openvpn",
    log: "openvpn",
    transports: &["udp", "tcp"],
    ports: &[1194],
    hands_over: &[],
    doc: "OpenVPN: the first packet of each side",
    probe,
    may_begin,
    open: |_| Box::new(OpenvpnParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "protection", "rtt"],
    fields: FIELDS,
};

/// A client's first opcode with key id 0; over TCP a length below 2 KiB precedes the opcode.
fn may_begin(place: FirstPlace) -> ByteSet {
    let is_operation =
        |byte: u8| matches!(byte >> 3, CLIENT_RESET_V1 | CLIENT_RESET_V2 | CLIENT_RESET_V3) && byte & 7 == 0;
    match (place.at, place.is_datagram) {
        (0, true) => ByteSet::of(is_operation),
        (0, false) => ByteSet::of(|byte| byte <= 7),
        _ => ByteSet::ALL,
    }
}

/// Longest first packet, bytes: a tls-crypt-v2 client puts its wrapped key into it.
const PACKET_BYTES_MAX: usize = 2048;

/// Opcodes, without the key id.
const CLIENT_RESET_V1: u8 = 1;
const SERVER_RESET_V1: u8 = 2;
const CLIENT_RESET_V2: u8 = 7;
const SERVER_RESET_V2: u8 = 8;
const CLIENT_RESET_V3: u8 = 10;

/// Protection of the first packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// None.
    None,
    /// A digest (`tls-auth`) of this many bytes.
    Digest(u8),
    /// Encrypted with a key that all clients share (`tls-crypt`).
    Shared,
    /// Encrypted with the client's own key (`tls-crypt-v2`).
    Own,
}

/// A packet that begins a connection (`P_CONTROL_HARD_RESET_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reset {
    is_of_client: bool,
    operation: u8,
    session_id: [u8; 8],
    protection: Option<Protection>,
}

impl Reset {
    /// Parses a packet. `None` if it does not begin a connection.
    fn parse(packet: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(packet);
        let first = reader.u8()?;
        let (operation, key) = (first >> 3, first & 7);
        let is_of_client = matches!(operation, CLIENT_RESET_V1 | CLIENT_RESET_V2 | CLIENT_RESET_V3);
        if key != 0 || !(is_of_client || matches!(operation, SERVER_RESET_V1 | SERVER_RESET_V2)) {
            return None;
        }
        let session_id = reader.array()?;
        let protection = if is_of_client { protection(operation, reader.rest()) } else { None };
        Some(Self { is_of_client, operation, session_id, protection })
    }
}

/// Derives a client packet's protection from the bytes behind its session id. `None` if no kind fits.
///
/// In clear these bytes are an empty list of acknowledgements and packet id 0: five zeros. `tls-auth` puts a
/// digest, a packet number and a time before them. `tls-crypt` encrypts them, behind its own header.
fn protection(operation: u8, rest: &[u8]) -> Option<Protection> {
    const CLEAR: [u8; 5] = [0; 5];
    let (_, tail) = rest.split_last_chunk::<5>().map(|(head, tail)| (head, *tail))?;
    let digest_bytes = rest.len().checked_sub(8 + CLEAR.len());
    // tls-crypt: packet number and time, a digest of 32 bytes, the five encrypted bytes.
    let has_number_and_time = || {
        let mut reader = Reader::new(rest);
        let number = reader.u16().zip(reader.u16());
        // 0x0f00 0001 is the first packet number of clients that announce early negotiation.
        let is_first = matches!(number, Some((0 | 0x0f00, 1)));
        let time = reader.array().map(u32::from_be_bytes);
        is_first && time.is_some_and(|time| (0x5000_0000..0x9000_0000).contains(&time))
    };
    match (operation, rest.len(), digest_bytes) {
        (CLIENT_RESET_V3, 48.., _) if has_number_and_time() => {
            let wrapped = rest.len() - 45;
            let told = rest.last_chunk::<2>().map(|pair| usize::from(u16::from_be_bytes(*pair)));
            (told == Some(wrapped)).then_some(Protection::Own)
        }
        (_, 5, _) if tail == CLEAR => Some(Protection::None),
        (_, _, Some(bytes @ (16 | 20 | 28 | 32 | 48 | 64))) if tail == CLEAR => {
            Some(Protection::Digest(bytes as u8))
        }
        (_, 45, _) if has_number_and_time() => Some(Protection::Shared),
        _ => None,
    }
}

/// The first packet of a stream, behind its two-byte length. `None` if it is not complete.
fn first_of_stream(bytes: &[u8]) -> Option<&[u8]> {
    Reader::new(bytes).vector16()
}

/// Recognises the client's first packet; every byte of the packet must fit.
fn probe(opening: &Opening<'_>) -> Probe {
    let is_client = |packet: &[u8]| Reset::parse(packet).is_some_and(|reset| reset.protection.is_some());
    let side = |bytes: &[u8]| {
        if opening.is_datagram {
            return if is_client(bytes) { Probe::Certain } else { Probe::NotForUs };
        }
        // A length below 2 KiB, then one of two opcodes.
        let is_possible = match *bytes {
            [] | [0..=7] | [0..=7, _] => return Probe::Unsure,
            [0, 14..=255, first, ..] | [1..=7, _, first, ..] => {
                matches!(first >> 3, CLIENT_RESET_V2 | CLIENT_RESET_V3) && first & 7 == 0
            }
            _ => false,
        };
        match first_of_stream(bytes) {
            _ if !is_possible => Probe::NotForUs,
            None => Probe::Unsure,
            Some(packet) if is_client(packet) => Probe::Certain,
            Some(_) => Probe::NotForUs,
        }
    };
    match (side(opening.originator), side(opening.responder)) {
        (Probe::Certain, _) | (_, Probe::Certain) => Probe::Certain,
        (Probe::Unsure, Probe::Unsure) if !opening.is_datagram => Probe::Unsure,
        _ => Probe::NotForUs,
    }
}

/// The handshake of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenvpnHandshake {
    /// Capture time of the first packet.
    pub time: Timestamp,
    /// Direction of the client.
    pub client: Direction,
    /// Session id of the client.
    pub client_session_id: Option<[u8; 8]>,
    /// Session id of the server.
    pub server_session_id: Option<[u8; 8]>,
    /// Protection of the packets, if a client packet was seen.
    pub protection: Option<Protection>,
    /// The client's opcode: 7, or 10 with tls-crypt-v2.
    pub operation: Option<u8>,
    /// Time from the client's first packet to the server's, nanoseconds.
    pub rtt_ns: Option<u64>,
}

/// Parses the handshake of one connection or flow. Holds at most two packets of 2 KiB.
#[derive(Debug, Default)]
pub struct OpenvpnParser {
    /// For TCP: the beginning of each direction's first packet.
    kept: [Vec<u8>; 2],
    is_read: [bool; 2],
    handshake: Option<OpenvpnHandshake>,
    is_done: bool,
}

impl SessionParser for OpenvpnParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if self.is_done {
            return Progress::Done;
        }
        if data.is_datagram {
            self.take_packet(data, data.bytes);
            return self.settle(sessions);
        }
        let side = data.from as usize;
        if !self.is_read[side] {
            let mut kept = std::mem::take(&mut self.kept[side]);
            let room = (2 + PACKET_BYTES_MAX).saturating_sub(kept.len());
            kept.extend_from_slice(&data.bytes[..data.bytes.len().min(room)]);
            match first_of_stream(&kept) {
                Some(packet) => {
                    self.is_read[side] = true;
                    self.take_packet(data, packet);
                }
                None if kept.len() == 2 + PACKET_BYTES_MAX => self.is_done = true,
                None => self.kept[side] = kept,
            }
        }
        self.is_done |= self.is_read == [true; 2];
        self.settle(sessions)
    }

    fn gap(&mut self, from: Direction, length_bytes: u64, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        // A lost datagram does not affect others. Of a stream only the first packet matters.
        self.is_done |= length_bytes > 0 && !self.kept[from as usize].is_empty();
        self.settle(sessions)
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        self.is_done = true;
        self.settle(sessions);
    }

    fn cut_off(&self) -> CutOff {
        CutOff::default()
    }
}

impl OpenvpnParser {
    fn take_packet(&mut self, data: &Data<'_>, packet: &[u8]) {
        let Some(reset) = Reset::parse(packet) else {
            // A data packet ends the handshake.
            self.is_done |=
                self.handshake.is_some() && packet.first().is_some_and(|first| matches!(first >> 3, 6 | 9));
            return;
        };
        let client = match (reset.is_of_client, data.from) {
            (true, from) => from,
            (false, Direction::Originator) => Direction::Responder,
            (false, Direction::Responder) => Direction::Originator,
        };
        let handshake = self.handshake.get_or_insert(OpenvpnHandshake {
            time: data.time,
            client,
            client_session_id: None,
            server_session_id: None,
            protection: None,
            operation: None,
            rtt_ns: None,
        });
        if client != handshake.client {
            return;
        }
        if reset.is_of_client {
            handshake.client_session_id.get_or_insert(reset.session_id);
            handshake.operation.get_or_insert(reset.operation);
            handshake.protection = handshake.protection.or(reset.protection);
        } else {
            handshake.server_session_id = Some(reset.session_id);
            handshake.rtt_ns = handshake.client_session_id.map(|_| data.time.since_ns(handshake.time));
            self.is_done = true;
        }
    }

    fn settle(&mut self, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if !self.is_done {
            return Progress::Wanted;
        }
        self.kept = Default::default();
        sessions.extend(self.handshake.take().map(|handshake| Box::new(handshake) as Box<dyn Session>));
        Progress::Done
    }
}

impl Session for OpenvpnHandshake {
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

session_fields! { OpenvpnHandshake;
    "openvpn.sessionid" ["openvpn.client_session_id"] client_session_id: Bytes, "Session identifier that the client chose" => |h| h.client_session_id.as_ref().map_or(Value::Absent, |id| bytes(id));
    "openvpn.rsessionid" ["openvpn.server_session_id"] server_session_id: Bytes, "Session identifier that the server chose" => |h| h.server_session_id.as_ref().map_or(Value::Absent, |id| bytes(id));
    "openvpn.protection" [] protection: Text, "Protection of the first packets: none, tls-auth, tls-crypt, tls-crypt-v2" => |h| text(h.protection.map(protection_name));
    "openvpn.hmac_length" [] hmac_length: Unsigned, "Size of the tls-auth digest, bytes: 20 is SHA-1" => |h| if let Some(Protection::Digest(length)) = h.protection { Value::Unsigned(length.into()) } else { Value::Absent };
    "openvpn.rtt" [] rtt: Interval, "Time from the client's first packet to the answer" => |h| h.rtt_ns.map_or(Value::Absent, Value::Interval);
    "openvpn.opcode" [] _: Unsigned, "Opcode of the client's first packet: 7, or 10 for tls-crypt-v2" => |h| unsigned(h.operation);
    "openvpn.answered" [] _: Bool, "Whether the server answered" => |h| Value::Bool(h.server_session_id.is_some());
}

fn protection_name(protection: Protection) -> &'static str {
    match protection {
        Protection::None => "none",
        Protection::Digest(_) => "tls-auth",
        Protection::Shared => "tls-crypt",
        Protection::Own => "tls-crypt-v2",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{Conversation, run};
    use Direction::{Originator as C, Responder as S};

    const TIME: [u8; 8] = [0, 0, 0, 1, 0x65, 0, 0, 0];

    fn client(rest: &[u8]) -> Vec<u8> {
        [&[0x38][..], &[7; 8], rest].concat()
    }

    fn server() -> Vec<u8> {
        [&[0x40][..], &[9; 8], &[1, 0, 0, 0, 0], &[7; 8], &[0; 4]].concat()
    }

    fn probe(originator: &[u8], is_datagram: bool) -> Probe {
        (PROTOCOL.probe)(&Opening { originator, is_datagram, ..Opening::default() })
    }

    #[test]
    fn protections_are_told_apart() {
        let of = |packet: &[u8]| Reset::parse(packet).and_then(|reset| reset.protection);
        assert_eq!(of(&client(&[0; 5])), Some(Protection::None));
        assert_eq!(of(&client(&[&[3; 20][..], &TIME, &[0; 5]].concat())), Some(Protection::Digest(20)));
        assert_eq!(of(&client(&[&TIME[..], &[3; 37]].concat())), Some(Protection::Shared));
        let mut wrapped = client(&[&TIME[..], &[3; 37], &[4; 298], &[1, 44]].concat());
        wrapped[0] = 0x50;
        assert_eq!(of(&wrapped), Some(Protection::Own));
        assert_eq!(of(&client(&[3; 45])), None);
    }

    #[test]
    fn a_server_answers() {
        let mut parser = OpenvpnParser::default();
        let mut sessions = Vec::new();
        for (from, millis, bytes, progress) in
            [(C, 0, client(&[0; 5]), Progress::Wanted), (S, 20, server(), Progress::Done)]
        {
            let data = Data { from, time: Timestamp(millis * 1_000_000), bytes: &bytes, is_datagram: true };
            assert_eq!(parser.parse(&data, &mut sessions), progress);
        }
        let handshake = sessions[0].as_any().downcast_ref::<OpenvpnHandshake>().expect("one");
        assert_eq!((handshake.client_session_id, handshake.server_session_id), (Some([7; 8]), Some([9; 8])));
        assert_eq!(handshake.rtt_ns, Some(20_000_000));
    }

    #[test]
    fn over_a_stream_lengths_come_first() {
        let talk = "> 000e 38 0707070707070707 0000000000\n< 001a 40 0909090909090909 01 00000000 0707070707070707 00000000";
        let conversation = Conversation::parse(talk);
        let outcome = run(&PROTOCOL, &conversation);
        assert_eq!(run(&PROTOCOL, &conversation.cut(&[1])), outcome);
        assert!(outcome.sessions[0].contains("openvpn.answered = Bool(true)"));
        let stream = [&[0, 14][..], &client(&[0; 5])].concat();
        for length in 0..stream.len() {
            assert_eq!(probe(&stream[..length], false), Probe::Unsure, "{length}");
        }
        assert_eq!(probe(&stream, false), Probe::Certain);
    }

    #[test]
    fn other_bytes_are_not_for_us() {
        for bytes in
            [&b"8ello, this is no VPN"[..], &[0x38; 14], &[0; 54], b"SSH-2.0-x\r\n", b"GET / HTTP/1.1\r\n"]
        {
            assert_eq!(probe(bytes, true), Probe::NotForUs, "{bytes:?}");
            assert_eq!(probe(bytes, false), Probe::NotForUs, "{bytes:?}");
        }
    }
}
