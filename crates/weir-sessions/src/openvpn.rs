//! OpenVPN (its protocol as of 2.6, `src/openvpn/ssl_pkt.h`; there is no RFC): one [`OpenvpnHandshake`] for
//! the first two packets. Their kind of protection and both session ids are in clear.
//!
//! The packets of the control channel carry TLS, and are readable unless `tls-crypt` encrypts them. Some are
//! lost, repeated or out of order. [`Control`] puts their TLS in order, and the parser yields it as an inner
//! stream. The first packet of data ends the parser.

use crate::frames::{Frames, Head, Next};
use crate::session::session_fields;
use crate::values::{bytes, text, unsigned};
use crate::wire::Reader;
use crate::{
    ByteSet, CutOff, Data, Direction, FirstPlace, InnerPiece, Opening, Probe, Progress, Session,
    SessionParser, SessionProtocol,
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
    hands_over: &["tls"],
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

/// Maximum length of a control packet, bytes. The longest one is the first packet of a tls-crypt-v2 client,
/// which contains its wrapped key.
const PACKET_BYTES_MAX: usize = 2048;

/// Maximum number of control packets of a direction that wait for an earlier one. Senders of 2.6 have at most
/// six packets without acknowledgement.
pub const WAITING_MAX: usize = 8;

/// Opcodes, without the key id.
const CLIENT_RESET_V1: u8 = 1;
const SERVER_RESET_V1: u8 = 2;
const SOFT_RESET: u8 = 3;
const CONTROL: u8 = 4;
const DATA_V1: u8 = 6;
const CLIENT_RESET_V2: u8 = 7;
const SERVER_RESET_V2: u8 = 8;
const DATA_V2: u8 = 9;
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

/// The control channel of a connection whose control packets are readable.
#[derive(Debug)]
struct Control {
    /// Size of the digest in each packet, bytes; `None` without `tls-auth`.
    digest_bytes: Option<u8>,
    /// The TLS of each direction.
    sides: [ControlSide; 2],
    /// TLS in order, until the engine takes it.
    inner: Vec<InnerPiece>,
}

/// The control packets of one direction.
#[derive(Debug)]
struct ControlSide {
    /// Number of the packet whose TLS is next. The first packet, number 0, has none.
    next: u32,
    /// Later packets: number and TLS.
    waiting: Vec<(u32, Vec<u8>)>,
}

impl Control {
    /// The control channel of connections with this protection. `None` if its packets are encrypted.
    fn of(protection: Protection) -> Option<Self> {
        let digest_bytes = match protection {
            Protection::None => None,
            Protection::Digest(bytes) => Some(bytes),
            Protection::Shared | Protection::Own => return None,
        };
        let side = || ControlSide { next: 1, waiting: Vec::new() };
        Some(Self { digest_bytes, sides: [side(), side()], inner: Vec::new() })
    }

    /// The number and the TLS of a control packet.
    fn read<'a>(&self, packet: &'a [u8]) -> Option<(u32, &'a [u8])> {
        let mut reader = Reader::new(packet);
        // The opcode and the session id.
        reader.take(1 + 8)?;
        if let Some(bytes) = self.digest_bytes {
            // The packet number against replays, and the time.
            reader.take(usize::from(bytes) + 8)?;
        }
        let acknowledged = usize::from(reader.u8()?);
        reader.take(4 * acknowledged)?;
        if acknowledged > 0 {
            // The session id of the other side.
            reader.take(8)?;
        }
        let number = u32::from_be_bytes(reader.array()?);
        Some((number, reader.rest()))
    }

    /// Whether both sides have sent TLS.
    fn is_of_both(&self) -> bool {
        self.sides.iter().all(|side| side.next > 1)
    }

    /// Takes a control packet. An error if packets have to be discarded: their number.
    fn take(&mut self, data: &Data<'_>, packet: &[u8]) -> Result<(), u64> {
        let Some((number, tls)) = self.read(packet) else { return Ok(()) };
        let ControlSide { next, waiting } = &mut self.sides[data.from as usize];
        let is_repeated = number < *next || waiting.iter().any(|(other, _)| *other == number);
        if is_repeated {
            return Ok(());
        }
        if number > *next {
            if waiting.len() == WAITING_MAX || tls.len() > PACKET_BYTES_MAX {
                return Err(1 + waiting.len() as u64);
            }
            waiting.push((number, tls.to_vec()));
            return Ok(());
        }
        let mut tls = tls.to_vec();
        loop {
            *next = next.saturating_add(1);
            if !tls.is_empty() {
                let Data { from, time, .. } = *data;
                self.inner.push(InnerPiece { from, time, gap_bytes: 0, bytes: tls });
            }
            let Some(at) = waiting.iter().position(|(number, _)| number == next) else { return Ok(()) };
            tls = waiting.swap_remove(at).1;
        }
    }
}

/// Measures a packet of a stream: two bytes have its length.
fn measure(bytes: &[u8]) -> Head {
    match bytes {
        [high, low, ..] => Head::Bytes(2 + u64::from(u16::from_be_bytes([*high, *low]))),
        _ => Head::Short,
    }
}

/// Parses the handshake of one connection or flow. Holds at most two packets of 2 KiB, and the waiting
/// control packets.
#[derive(Debug, Default)]
pub struct OpenvpnParser {
    /// For TCP: the packets of each direction.
    frames: [Frames; 2],
    /// For TCP: whether the first packet of each direction was read.
    is_read: [bool; 2],
    is_stream: bool,
    /// The row, until it is yielded.
    handshake: Option<OpenvpnHandshake>,
    /// The row is complete.
    is_row_complete: bool,
    /// The session id of each direction.
    session_ids: [Option<[u8; 8]>; 2],
    control: Option<Box<Control>>,
    /// No further TLS follows.
    is_control_over: bool,
    cut_off: CutOff,
}

impl SessionParser for OpenvpnParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if self.is_over() {
            return Progress::Done;
        }
        if !data.is_datagram {
            self.take_stream(data);
        } else if !self.take_packet(data, data.bytes) {
            return Progress::NotMine;
        }
        self.settle(sessions)
    }

    fn gap(&mut self, from: Direction, length_bytes: u64, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        // A lost datagram does not affect others.
        if self.is_stream && length_bytes > 0 {
            let is_read = self.is_read[from as usize];
            // Of a stream only the first packet matters for the row.
            self.is_row_complete |= !is_read && !self.frames[from as usize].is_between();
            // The beginning of the next packet is unknown.
            self.is_control_over |= is_read;
        }
        self.settle(sessions)
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        self.is_row_complete = true;
        self.is_control_over = true;
        self.settle(sessions);
    }

    fn take_inner(&mut self, pieces: &mut Vec<InnerPiece>) {
        if let Some(control) = &mut self.control {
            pieces.append(&mut control.inner);
        }
    }

    fn cut_off(&self) -> CutOff {
        self.cut_off
    }
}

impl OpenvpnParser {
    /// Takes bytes of a stream: packets behind their lengths.
    fn take_stream(&mut self, data: &Data<'_>) {
        self.is_stream = true;
        let side = data.from as usize;
        let mut rest = data.bytes;
        loop {
            let is_later = self.is_read[side];
            if is_later && (self.is_control_over || self.control.is_none()) {
                return;
            }
            let next = self.frames[side].next(&mut rest, data.time, 2 + PACKET_BYTES_MAX, measure);
            let Next::Frame(frame) = next else { return };
            let packet = &frame.bytes[2..];
            let is_cut = frame.length_bytes > frame.bytes.len() as u64;
            if is_cut {
                let is_control = packet.first().is_some_and(|first| first >> 3 == CONTROL);
                self.cut_off.parts += u64::from(is_later && is_control);
                self.is_row_complete |= !is_later;
                self.is_control_over = true;
                return;
            }
            if is_later {
                self.take_later(data, packet);
            } else {
                self.is_read[side] = true;
                self.take_packet(data, packet);
            }
            self.is_row_complete |= self.is_read == [true; 2];
            if self.is_over() {
                return;
            }
        }
    }

    /// Takes a datagram, or the first packet of a direction of a stream. Returns whether it is of this
    /// protocol.
    fn take_packet(&mut self, data: &Data<'_>, packet: &[u8]) -> bool {
        let Some(reset) = Reset::parse(packet).filter(|_| !self.is_row_complete) else {
            if !self.is_row_complete && self.handshake.is_some() && is_of_data(packet) {
                // A packet of data ends the handshake.
                (self.is_row_complete, self.is_control_over) = (true, true);
                return true;
            }
            return self.take_later(data, packet);
        };
        let client = if reset.is_of_client { data.from } else { data.from.other() };
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
            return true;
        }
        self.session_ids[data.from as usize].get_or_insert(reset.session_id);
        if reset.is_of_client {
            handshake.client_session_id.get_or_insert(reset.session_id);
            handshake.operation.get_or_insert(reset.operation);
            handshake.protection = handshake.protection.or(reset.protection);
            if self.control.is_none() {
                self.control = handshake.protection.and_then(Control::of).map(Box::new);
            }
        } else {
            handshake.server_session_id = Some(reset.session_id);
            handshake.rtt_ns = handshake.client_session_id.map(|_| data.time.since_ns(handshake.time));
            self.is_row_complete = true;
        }
        true
    }

    /// Takes a packet that does not change the row. Returns whether it is of this session or of the next one.
    fn take_later(&mut self, data: &Data<'_>, packet: &[u8]) -> bool {
        let Some((&[first, ref session_id @ ..], _)) = packet.split_first_chunk::<9>() else { return false };
        let is_ours = self.session_ids[data.from as usize] == Some(*session_id);
        match first >> 3 {
            CONTROL if is_ours && first & 7 == 0 => {
                if let Some(control) = self.control.as_mut().filter(|_| !self.is_control_over)
                    && let Err(discarded) = control.take(data, packet)
                {
                    self.cut_off.parts += discarded;
                    self.is_control_over = true;
                }
            }
            // Another key of the same session.
            SOFT_RESET if is_ours => self.is_control_over = true,
            // A repeated first packet, acknowledgements, another key.
            _ if is_ours => {}
            // Data follow TLS. Before it, they are of another protocol.
            DATA_V1 | DATA_V2 if self.control.as_ref().is_some_and(|control| control.is_of_both()) => {
                self.is_control_over = true;
            }
            // A client begins anew.
            _ if Reset::parse(packet).is_some_and(|reset| reset.protection.is_some()) => {
                self.is_control_over = true;
            }
            _ => return false,
        }
        true
    }

    /// Whether neither the row nor TLS needs further packets.
    fn is_over(&self) -> bool {
        let is_readable = self.control.is_some() && self.session_ids.iter().all(Option::is_some);
        self.is_row_complete && (self.is_control_over || !is_readable)
    }

    fn settle(&mut self, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if self.is_row_complete {
            sessions.extend(self.handshake.take().map(|handshake| Box::new(handshake) as Box<dyn Session>));
        }
        if self.is_control_over
            && let Some(control) = &mut self.control
        {
            control.sides.iter_mut().for_each(|side| side.waiting = Vec::new());
        }
        let is_over = self.is_over();
        if is_over {
            self.frames = <[Frames; 2]>::default();
        }
        // The last TLS is taken first; the next call ends the parser.
        match &self.control {
            Some(control) if !control.inner.is_empty() => Progress::Inner,
            _ if is_over => Progress::Done,
            _ => Progress::Wanted,
        }
    }
}

/// Whether a packet has data, with any key.
fn is_of_data(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| matches!(first >> 3, DATA_V1 | DATA_V2))
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
            [(C, 0, client(&[0; 5]), Progress::Wanted), (S, 20, server(), Progress::Wanted)]
        {
            let data = Data { from, time: Timestamp(millis * 1_000_000), bytes: &bytes, is_datagram: true };
            assert_eq!(parser.parse(&data, &mut sessions), progress);
        }
        let handshake = sessions[0].as_any().downcast_ref::<OpenvpnHandshake>().expect("one");
        assert_eq!((handshake.client_session_id, handshake.server_session_id), (Some([7; 8]), Some([9; 8])));
        assert_eq!(handshake.rtt_ns, Some(20_000_000));
    }

    /// A control packet without acknowledgements, or with one.
    fn control(from: Direction, number: u8, tls: &[u8]) -> Vec<u8> {
        let acknowledged: &[u8] = &[&[1, 0, 0, 0, 0][..], &[7; 8]].concat();
        let (id, acknowledged) = if from == C { (7, &[0][..]) } else { (9, acknowledged) };
        [&[CONTROL << 3][..], &[id; 8], acknowledged, &[0, 0, 0, number], tls].concat()
    }

    /// As [`control`], with a digest of 20 bytes.
    fn signed(packet: &[u8]) -> Vec<u8> {
        [&packet[..9], &[3; 20], &TIME, &packet[9..]].concat()
    }

    /// The result of a parser: the inner stream of each direction as text, the last progress, and the number
    /// of sessions.
    type Parsed = ([String; 2], Progress, usize);

    fn parse(packets: &[(Direction, Vec<u8>)], is_datagram: bool) -> (Parsed, CutOff) {
        let (mut parser, mut sessions) = (OpenvpnParser::default(), Vec::new());
        let (mut inner, mut progress) = ([Vec::new(), Vec::new()], Progress::Wanted);
        for (from, bytes) in packets {
            let data = Data { from: *from, time: Timestamp(0), bytes, is_datagram };
            progress = parser.parse(&data, &mut sessions);
            let mut pieces = Vec::new();
            parser.take_inner(&mut pieces);
            assert_eq!(progress == Progress::Inner, !pieces.is_empty(), "TLS is announced");
            pieces.iter().for_each(|piece| inner[piece.from as usize].extend_from_slice(&piece.bytes));
            if progress == Progress::Done {
                break;
            }
        }
        let inner = inner.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        ((inner, progress, sessions.len()), parser.cut_off())
    }

    /// What the client sends behind both first packets, and its TLS.
    fn tls_of(packets: &[Vec<u8>]) -> (String, Progress, u64) {
        let opening = [(C, client(&[0; 5])), (S, server())];
        let rest = packets.iter().map(|packet| (C, packet.clone()));
        let (([tls, _], progress, rows), cut_off) =
            parse(&opening.into_iter().chain(rest).collect::<Vec<_>>(), true);
        assert_eq!(rows, 1);
        (tls, progress, cut_off.parts)
    }

    #[test]
    fn control_packets_carry_tls_in_the_order_of_their_numbers() {
        let [one, two, three] =
            [(1, "ab"), (2, "cd"), (3, "ef")].map(|(n, tls)| control(C, n, tls.as_bytes()));
        let whole = ("abcdef".to_owned(), Progress::Inner, 0);
        assert_eq!(tls_of(&[one.clone(), two.clone(), three.clone()]), whole, "in order");
        assert_eq!(tls_of(&[three.clone(), two.clone(), one.clone()]), whole, "in another order");
        let repeated = [&one, &one, &three, &three, &one, &two].map(Vec::clone);
        assert_eq!(tls_of(&repeated), whole, "repeated");
        let lost = [one.clone(), three.clone()];
        assert_eq!(tls_of(&lost), ("ab".to_owned(), Progress::Wanted, 0), "lost");
        let mut foreign = two.clone();
        foreign[1] = 8;
        assert_eq!(tls_of(&[one, foreign]), ("ab".to_owned(), Progress::NotMine, 0), "of another session");
    }

    #[test]
    fn too_many_waiting_packets_end_the_stream() {
        let packets: Vec<_> = (2..=10).map(|number| control(C, number, b"x")).collect();
        assert_eq!(tls_of(&packets[..8]), (String::new(), Progress::Wanted, 0));
        assert_eq!(tls_of(&packets), (String::new(), Progress::Done, 9));
        let long = control(C, 2, &[b'x'; PACKET_BYTES_MAX + 1]);
        assert_eq!(tls_of(&[long]), (String::new(), Progress::Done, 1));
    }

    #[test]
    fn data_and_new_keys_end_the_stream() {
        let opening = [(C, client(&[0; 5])), (S, server()), (C, control(C, 1, b"ab"))];
        let hello = (S, control(S, 1, b"cd"));
        let then = |between: &[(Direction, Vec<u8>)], last: &[u8]| {
            parse(&[&opening[..], between, &[(C, last.to_vec())]].concat(), true).0.1
        };
        let acknowledgement = [&[5 << 3][..], &[7; 8], &[1, 0, 0, 0, 0], &[9; 8]].concat();
        for (last, progress) in [
            ([&[SOFT_RESET << 3 | 1][..], &[7; 8]].concat(), Progress::Done),
            ([&[0x38][..], &[8; 8], &[0; 5]].concat(), Progress::Done),
            (acknowledgement, Progress::Wanted),
            (client(&[0; 5]), Progress::Wanted),
            (b"M-SEARCH * HTTP/1.1\r\n".to_vec(), Progress::NotMine),
            (b"PUBLISH sip:a@b SIP/2.0\r\n".to_vec(), Progress::NotMine),
        ] {
            assert_eq!(then(&[], &last), progress, "{last:02x?}");
        }
        for first in [DATA_V1 << 3, DATA_V2 << 3 | 1] {
            let data = [first, 1, 2, 3, 4, 5, 6, 7, 8, 9];
            assert_eq!(then(std::slice::from_ref(&hello), &data), Progress::Done);
            assert_eq!(then(&[], &data), Progress::NotMine, "the server has sent no TLS");
        }
    }

    #[test]
    fn a_digest_precedes_the_acknowledgements() {
        let first = client(&[&[3; 20][..], &TIME, &[0; 5]].concat());
        let packets = [
            (C, first),
            (S, signed(&server())),
            (S, signed(&control(S, 1, b"hello"))),
            (C, signed(&control(C, 2, b"cd"))),
            (C, signed(&control(C, 1, b"ab"))),
        ];
        let (parsed, _) = parse(&packets, true);
        assert_eq!(parsed, (["abcd".into(), "hello".into()], Progress::Inner, 1));
    }

    #[test]
    fn encrypted_control_packets_end_the_parser_with_the_row() {
        let packets = [(C, client(&[&TIME[..], &[3; 37]].concat())), (S, server())];
        assert_eq!(parse(&packets, true).0, (Default::default(), Progress::Done, 1));
    }

    #[test]
    fn over_a_stream_control_packets_carry_tls_however_it_is_cut() {
        let framed = |from: Direction, packets: &[Vec<u8>]| {
            let frames =
                packets.iter().map(|packet| [&(packet.len() as u16).to_be_bytes()[..], packet].concat());
            (from, frames.collect::<Vec<_>>().concat())
        };
        let packets = [
            framed(C, &[client(&[0; 5])]),
            framed(S, &[server(), control(S, 1, b"he")]),
            framed(C, &[control(C, 1, b"ab"), control(C, 2, b"cd")]),
            framed(S, &[control(S, 2, b"llo"), vec![DATA_V2 << 3, 1, 2, 3, 4, 5, 6, 7, 8, 9]]),
            framed(C, &[control(C, 3, b"behind data")]),
        ];
        let expected = (["abcd".into(), "hello".into()], Progress::Done, 1);
        assert_eq!(parse(&packets, false).0, expected);
        for length in 1..40 {
            let cut = packets
                .iter()
                .flat_map(|(from, bytes)| bytes.chunks(length).map(|piece| (*from, piece.to_vec())));
            assert_eq!(parse(&cut.collect::<Vec<_>>(), false).0, expected, "in pieces of {length}");
        }
        let mut conversation = Conversation::default();
        for (from, bytes) in packets {
            conversation.push(from, crate::conversation::Act::Send(bytes));
        }
        assert_eq!(run(&PROTOCOL, &conversation.cut(&[1])), run(&PROTOCOL, &conversation));
    }

    #[test]
    fn over_a_stream_a_long_control_packet_and_a_gap_end_the_stream() {
        let begin =
            [client(&[0; 5]), server()].map(|packet| [&[0, packet.len() as u8][..], &packet].concat());
        let [client, server] = begin;
        let long = [&[0xff, 0xff, CONTROL << 3][..], &[0; PACKET_BYTES_MAX]].concat();
        let (parsed, cut_off) = parse(&[(C, client.clone()), (S, server.clone()), (C, long)], false);
        assert_eq!((parsed, cut_off.parts), ((Default::default(), Progress::Done, 1), 1));
        let (mut parser, mut sessions) = (OpenvpnParser::default(), Vec::new());
        let mut parse = |from, bytes: &[u8]| {
            parser.parse(&Data { from, time: Timestamp(0), bytes, is_datagram: false }, &mut sessions)
        };
        assert_eq!([parse(C, &client), parse(S, &server)], [Progress::Wanted; 2]);
        assert_eq!(parser.gap(C, 1, &mut sessions), Progress::Done);
        assert_eq!(sessions.len(), 1);
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
