//! BitTorrent's peer protocol (BEP 3): one [`TorrentHandshake`] per connection. Messages after the handshake
//! are not parsed.

use crate::frames::{Frames, Head, Next};
use crate::session::session_fields;
use crate::values::{bytes, owned};
use crate::{
    ByteSet, CutOff, Data, Direction, FirstPlace, Opening, Probe, Progress, Session, SessionParser,
    SessionProtocol,
};
use std::any::Any;
use weir_packet::{Timestamp, Value};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "bittorrent",
    service: "bittorrent",
    log: "bittorrent",
    transports: &["tcp"],
    ports: &[6881, 6882, 6883, 6884, 6885, 6886, 6887, 6888, 6889],
    hands_over: &[],
    doc: "BitTorrent: torrents and peers (BEP 3)",
    probe,
    may_begin,
    open: |_| Box::new(TorrentParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "info_hash", "orig_peer", "resp_peer"],
    fields: FIELDS,
};

/// The length of the protocol's name, and its first letters.
fn may_begin(place: FirstPlace) -> ByteSet {
    ByteSet::of(|byte| byte == NAME[place.at])
}

/// The start of a handshake: the length of the protocol's name, and the name.
const NAME: &[u8; 20] = b"\x13BitTorrent protocol";

/// Length of a handshake: name, reserved bits, digest of the torrent, peer ID.
const HANDSHAKE_BYTES: usize = 20 + 8 + 20 + 20;

/// The handshakes of both peers, or the only one seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TorrentHandshake {
    /// Time of the first handshake.
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
}

impl SessionParser for TorrentParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        let side = data.from as usize;
        let is_seen = self.handshake.as_ref().is_some_and(|handshake| handshake.peers[side].is_some());
        if is_seen {
            return Progress::Wanted;
        }
        let mut rest = data.bytes;
        match self.sides[side].next(&mut rest, data.time, HANDSHAKE_BYTES, measure) {
            Next::More => return Progress::Wanted,
            Next::Frame(frame) if frame.bytes.starts_with(NAME) => {
                let part = |at: usize| frame.bytes.get(at..at + 20).and_then(|part| part.try_into().ok());
                let (info_hash, peer) = (part(28).unwrap_or_default(), part(48));
                let handshake = self.handshake.get_or_insert_with(|| {
                    Box::new(TorrentHandshake {
                        time: frame.time,
                        info_hash,
                        reserved: [None; 2],
                        peers: [None; 2],
                    })
                });
                handshake.peers[side] = peer;
                handshake.reserved[side] = frame.bytes.get(20..28).and_then(|bits| bits.try_into().ok());
                if handshake.peers[1 - side].is_none() {
                    return Progress::Wanted;
                }
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
}
