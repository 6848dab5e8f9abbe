//! BitTorrent's peer protocol (BEP 3), over TCP and over uTP (BEP 29): one [`TorrentHandshake`] per
//! connection. Messages after the handshake are not parsed. Of the distributed table of peers (BEP 5), one
//! row per flow that asks for a torrent.

mod datagrams;

use crate::frames::{Frames, Head, Next};
use crate::session::session_fields;
use crate::values::{bytes, owned};
use crate::{
    ByteSet, CutOff, Data, Direction, FirstPlace, Opening, Probe, Progress, Session, SessionParser,
    SessionProtocol,
};
use datagrams::NAME;
use std::any::Any;
use weir_packet::{Timestamp, Value};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "bittorrent",
    service: "bittorrent",
    log: "bittorrent",
    transports: &["tcp", "udp"],
    ports: &[6881, 6882, 6883, 6884, 6885, 6886, 6887, 6888, 6889],
    hands_over: &[],
    doc: "BitTorrent: torrents and peers (BEP 3, 5, 29)",
    probe,
    may_begin,
    open: |_| Box::new(TorrentParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "info_hash", "orig_peer", "resp_peer"],
    fields: FIELDS,
};

/// The length of the protocol's name, and its first letters. Over UDP: a dictionary, or a type of uTP and its
/// version.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        at if !place.is_datagram => ByteSet::of(|byte| byte == NAME[at]),
        0 => ByteSet::of(|byte| byte == b'd' || byte & 15 == 1 && byte >> 4 <= 4),
        _ => ByteSet::ALL,
    }
}

/// Length of a handshake: name, reserved bits, digest of the torrent, peer ID.
const HANDSHAKE_BYTES: usize = 20 + 8 + 20 + 20;

/// Datagrams of a flow that are searched for handshakes and torrents.
const SEARCHED_MAX: u8 = 64;

/// The handshakes of both peers, or the only one seen; or the torrent that a flow of the distributed table
/// asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TorrentHandshake {
    /// Time of the first handshake, or of the question for the torrent.
    pub time: Timestamp,
    /// Digest of the torrent.
    pub info_hash: [u8; 20],
    /// Reserved bits, which announce extensions, of the originator and the responder.
    pub reserved: [Option<[u8; 8]>; 2],
    /// Peer IDs of the originator and the responder.
    pub peers: [Option<[u8; 20]>; 2],
}

impl TorrentHandshake {
    /// The printable start of a peer ID as text: `-TR3000-`.
    fn peer_name(&self, side: usize) -> Option<String> {
        let peer = self.peers[side]?;
        let printable = peer.iter().take_while(|byte| byte.is_ascii_graphic());
        let name: String = printable.map(|byte| char::from(*byte)).collect();
        (!name.is_empty()).then_some(name)
    }
}

/// The length of a handshake.
fn measure(bytes: &[u8]) -> Head {
    match bytes.first() {
        None => Head::Short,
        // The rest of the name is checked once the handshake is complete.
        Some(first) if *first == NAME[0] => Head::Bytes(HANDSHAKE_BYTES as u64),
        Some(_) => Head::Wrong,
    }
}

/// Detects the protocol's name, sent by either side.
fn probe(opening: &Opening<'_>) -> Probe {
    if opening.is_datagram {
        return datagrams::probe(opening);
    }
    match (Probe::of_word(opening.originator, NAME), Probe::of_word(opening.responder, NAME)) {
        (Probe::Certain, _) | (_, Probe::Certain) => Probe::Certain,
        (Probe::Unsure, Probe::Unsure) => Probe::Unsure,
        _ => Probe::NotForUs,
    }
}

/// Parses one connection.
#[derive(Debug, Default)]
pub struct TorrentParser {
    sides: [Frames; 2],
    handshake: Option<Box<TorrentHandshake>>,
    /// Datagrams that were searched.
    searched: u8,
}

impl SessionParser for TorrentParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        let side = data.from as usize;
        if data.is_datagram {
            return self.search(data, sessions);
        }
        let is_seen = self.handshake.as_ref().is_some_and(|handshake| handshake.peers[side].is_some());
        if is_seen {
            return Progress::Wanted;
        }
        let mut rest = data.bytes;
        match self.sides[side].next(&mut rest, data.time, HANDSHAKE_BYTES, measure) {
            Next::More => return Progress::Wanted,
            Next::Frame(frame)
                if frame.bytes.starts_with(NAME) && !self.take_handshake(side, frame.time, &frame.bytes) =>
            {
                return Progress::Wanted;
            }
            _ => {}
        }
        self.finish(sessions);
        Progress::Done
    }

    fn gap(&mut self, _: Direction, length_bytes: u64, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if length_bytes == 0 {
            return Progress::Wanted;
        }
        self.finish(sessions);
        Progress::Done
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        sessions.extend(self.handshake.take().map(|handshake| handshake as Box<dyn Session>));
    }

    fn cut_off(&self) -> CutOff {
        CutOff::default()
    }
}

impl TorrentParser {
    /// Takes the handshake of a side. Returns whether both are known.
    fn take_handshake(&mut self, side: usize, time: Timestamp, bytes: &[u8]) -> bool {
        let part = |at: usize| bytes.get(at..at + 20).and_then(|part| part.try_into().ok());
        let Some(torrent) = part(28) else { return false };
        let handshake = self.of_torrent(time, torrent);
        handshake.peers[side] = part(48);
        handshake.reserved[side] = bytes.get(20..28).and_then(|bits| bits.try_into().ok());
        handshake.peers[1 - side].is_some()
    }

    fn of_torrent(&mut self, time: Timestamp, info_hash: [u8; 20]) -> &mut TorrentHandshake {
        let new = || Box::new(TorrentHandshake { time, info_hash, reserved: [None; 2], peers: [None; 2] });
        self.handshake.get_or_insert_with(new)
    }

    /// Searches a datagram for a handshake, or for the torrent that it asks for. A flow that is encrypted has
    /// neither.
    fn search(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if !datagrams::is_mine(data.bytes) {
            return Progress::NotMine;
        }
        self.searched += 1;
        let is_complete = if datagrams::is_of_table(data.bytes) {
            let torrent = datagrams::wanted_torrent(data.bytes);
            torrent.is_some_and(|torrent| {
                self.of_torrent(data.time, torrent);
                true
            })
        } else {
            let carried = datagrams::carried(data.bytes).filter(|bytes| bytes.starts_with(NAME));
            carried.is_some_and(|bytes| self.take_handshake(data.from as usize, data.time, bytes))
        };
        if !is_complete && self.searched < SEARCHED_MAX {
            return Progress::Wanted;
        }
        self.finish(sessions);
        Progress::Done
    }
}

impl Session for TorrentHandshake {
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

session_fields! { TorrentHandshake;
    "bittorrent.info_hash" [] info_hash: Text, "Digest of the torrent, hexadecimal" => |t| owned(crate::wire::hex(&t.info_hash));
    "bittorrent.orig_peer" ["bittorrent.client"] orig_peer: Text, "Identifier of the connecting peer, its printable part: -TR3000-" => |t| t.peer_name(0).map_or(Value::Absent, owned);
    "bittorrent.resp_peer" ["bittorrent.server"] resp_peer: Text, "Identifier of the other peer, its printable part" => |t| t.peer_name(1).map_or(Value::Absent, owned);
    // Fields without a column in the log.
    "bittorrent.peer_id" [] _: Bytes, "Identifier of the connecting peer" => |t| t.peers[0].as_ref().map_or(Value::Absent, |peer| bytes(peer));
    "bittorrent.reserved" [] _: Bytes, "Bits of the supported extensions" => |t| t.reserved[0].as_ref().map_or(Value::Absent, |bits| bytes(bits));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::rows;

    const HASH: &str = "0102030405060708090a0b0c0d0e0f1011121314";

    fn handshake(sign: char, peer: &str) -> String {
        format!("{sign} 13 \"BitTorrent protocol\" 0000000000100005 {HASH} \"{peer}\"\n")
    }

    #[test]
    fn peers_greet_each_other() {
        let talk = handshake('>', "-TR3000-abcdefghijkl")
            + &handshake('<', "-qB4500-\\x01\\x02cdefghijkl")
            + "> 00000001 02\n";
        assert_eq!(
            rows(&PROTOCOL, &talk, &["info_hash", "orig_peer", "resp_peer", "bittorrent.reserved"]),
            [format!("{HASH} | -TR3000-abcdefghijkl | -qB4500- | 0000000000100005")]
        );
    }

    #[test]
    fn one_side_alone_and_gaps() {
        let names = &["orig_peer", "resp_peer"];
        let talk = handshake('>', "-TR3000-abcdefghijkl") + "> 00000001 02\n> gap 9\n";
        assert_eq!(rows(&PROTOCOL, &talk, names), ["-TR3000-abcdefghijkl | -"]);
        assert_eq!(
            rows(&PROTOCOL, &handshake('<', "-TR3000-abcdefghijkl"), names),
            ["- | -TR3000-abcdefghijkl"]
        );
        assert_eq!(rows(&PROTOCOL, "> 13 \"Bit\"\n> gap 9\n", names), Vec::<String>::new());
    }

    #[test]
    fn the_name_makes_it_one() {
        let probe = |originator: &[u8]| (PROTOCOL.probe)(&Opening { originator, ..Opening::default() });
        assert_eq!(probe(b"\x13BitTorrent protocol\0"), Probe::Certain);
        assert_eq!(probe(b"\x13Bit"), Probe::Unsure);
        assert_eq!(probe(b"\x13Bat"), Probe::NotForUs);
    }
    const A: Direction = Direction::Originator;
    const B: Direction = Direction::Responder;

    /// A packet of uTP: its type, the identifier of the connection, its number, the number that it
    /// acknowledges.
    fn utp(kind: u8, connection: u16, number: u16, acknowledged: u16, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![kind << 4 | 1, 0];
        packet.extend(connection.to_be_bytes());
        packet.extend([0; 12]);
        packet.extend(number.to_be_bytes());
        packet.extend(acknowledged.to_be_bytes());
        packet.extend(payload);
        packet
    }

    fn probe_of(originator: &[u8], responder: &[u8]) -> Probe {
        (PROTOCOL.probe)(&Opening { originator, responder, is_datagram: true, ..Opening::default() })
    }

    /// Digest of the torrent and both peers of the sessions of these datagrams.
    fn found(datagrams: &[(Direction, Vec<u8>)]) -> Vec<(Vec<u8>, [Option<String>; 2])> {
        let (mut parser, mut sessions) = (TorrentParser::default(), vec![]);
        for (from, bytes) in datagrams {
            let data = Data { from: *from, time: Timestamp(0), bytes, is_datagram: true };
            if parser.parse(&data, &mut sessions) == Progress::Done {
                break;
            }
        }
        parser.finish(&mut sessions);
        let read = |session: &dyn Session| {
            let one = session.as_any().downcast_ref::<TorrentHandshake>().expect("the parser makes no other");
            (one.info_hash.to_vec(), [one.peer_name(0), one.peer_name(1)])
        };
        sessions.iter().map(|session| read(&**session)).collect()
    }

    #[test]
    fn peers_greet_each_other_over_utp() {
        let greeting = |peer: &[u8; 20]| [&NAME[..], &[0; 8], &[7; 20], peer].concat();
        let (syn, state) = (utp(4, 9, 1, 0, b""), utp(2, 9, 5, 1, b""));
        let (one, other) = (greeting(b"-TR3000-abcdefghijkl"), greeting(b"-qB4500-abcdefghijkl"));
        let talk =
            [(A, syn.clone()), (B, state.clone()), (A, utp(0, 10, 2, 5, &one)), (B, utp(0, 9, 6, 2, &other))];
        let peers = ["-TR3000-abcdefghijkl", "-qB4500-abcdefghijkl"].map(|peer| Some(peer.to_string()));
        assert_eq!(found(&talk), [(vec![7; 20], peers)]);
        assert_eq!(probe_of(&syn, &[]), Probe::Unsure);
        assert_eq!(probe_of(&syn, &state), Probe::Certain);
        assert_eq!(probe_of(&syn, &utp(2, 9, 5, 2, b"")), Probe::Unsure, "another number is acknowledged");
        assert_eq!(probe_of(&talk[2].1, &[]), Probe::Certain);
        // Encrypted: recognised, without a row.
        let encrypted = vec![(A, utp(0, 10, 2, 5, &[0xaa; 80])); 200];
        assert_eq!(found(&encrypted), []);
    }

    #[test]
    fn extensions_of_utp_are_skipped_and_may_be_damaged() {
        let mut packet = utp(0, 10, 2, 5, &[0, 4, 1, 2, 3, 4]);
        packet.extend(NAME);
        packet[1] = 1;
        assert_eq!(probe_of(&packet, &[]), Probe::Certain);
        for length in 0..packet.len() {
            assert_ne!(probe_of(&packet[..length], &[]), Probe::Certain);
            let _ = found(&[(A, packet[..length].to_vec())]);
        }
    }

    #[test]
    fn the_table_is_asked_for_torrents() {
        let node = [b'n'; 20];
        let ask = [b"d1:ad2:id20:", &node[..], b"9:info_hash20:", &[7; 20], b"e1:q9:get_peers1:t2:aa1:y1:qe"]
            .concat();
        let ping = [b"d1:ad2:id20:", &node[..], b"e1:q4:ping1:t2:aa1:y1:qe"].concat();
        let answer = [b"d2:ip6:abcdef1:rd2:id20:", &node[..], b"e1:t2:aa1:y1:re"].concat();
        let refusal = b"d1:eli201e23:A Generic Error Occurede1:t2:aa1:y1:ee".to_vec();
        for message in [&ask, &ping, &answer, &refusal] {
            assert_eq!(probe_of(message, &[]), Probe::Certain);
            assert_eq!(probe_of(&[], message), Probe::Certain);
        }
        assert_eq!(found(&[(A, ping), (B, answer), (A, ask)]), [(vec![7; 20], [None, None])]);
        assert_eq!(probe_of(b"d1:ad4:name", &[]), Probe::NotForUs);
    }
}
