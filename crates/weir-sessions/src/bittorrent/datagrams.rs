//! BitTorrent over UDP: packets of its transport protocol uTP (BEP 29), and messages of its distributed table
//! of peers (BEP 5).

use crate::{Opening, Probe};

/// The start of a handshake: the length of the protocol's name, and the name.
pub(super) const NAME: &[u8; 20] = b"\x13BitTorrent protocol";

/// Length of a uTP header without extensions.
const HEADER_BYTES: usize = 20;

/// Limit of extensions of a uTP packet that are skipped. Two are defined.
const EXTENSIONS_MAX: usize = 4;

/// Types of uTP packets.
const STATE: u8 = 2;
const SYN: u8 = 4;

/// The ways in which messages of the table begin: a query, a response, an error, a response with the address
/// of the peer (BEP 42).
const BEGINNINGS: [&[u8]; 4] = [b"d1:ad", b"d1:rd", b"d1:el", b"d2:ip"];

/// What precedes the identifier of a node, and the digest of a torrent.
const NODE: &[u8] = b"2:id20:";
const TORRENT: &[u8] = b"9:info_hash20:";

/// The identifier of a node is among these first bytes of a message.
const NODE_WITHIN: usize = 64;

/// The digest of a torrent is among these first bytes of a query.
const TORRENT_WITHIN: usize = 512;

/// A uTP packet.
struct Utp<'a> {
    kind: u8,
    connection: u16,
    number: u16,
    acknowledged: u16,
    payload: &'a [u8],
}

impl<'a> Utp<'a> {
    /// `None` if the datagram is none.
    fn parse(datagram: &'a [u8]) -> Option<Self> {
        let header = datagram.get(..HEADER_BYTES)?;
        let (kind, version) = (header[0] >> 4, header[0] & 15);
        if version != 1 || kind > SYN {
            return None;
        }
        let number = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let (mut next, mut payload) = (header[1], &datagram[HEADER_BYTES..]);
        for _ in 0..EXTENSIONS_MAX {
            if next == 0 {
                break;
            }
            let (&[following, length], rest) = payload.split_first_chunk()?;
            (next, payload) = (following, rest.get(usize::from(length)..)?);
        }
        let (connection, number, acknowledged) = (number(2), number(16), number(18));
        (next == 0).then_some(Self { kind, connection, number, acknowledged, payload })
    }
}

/// Whether a datagram is one of the two kinds.
pub(super) fn is_mine(datagram: &[u8]) -> bool {
    is_of_table(datagram) || Utp::parse(datagram).is_some()
}

/// The bytes that a datagram carries of a connection over uTP.
pub(super) fn carried(datagram: &[u8]) -> Option<&[u8]> {
    Utp::parse(datagram).map(|packet| packet.payload)
}

/// Whether two datagrams are the SYN of a connection over uTP, and its answer: without payload, with the same
/// identifier of the connection, and the number of the one acknowledged by the other.
fn greet(one: &[u8], other: &[u8]) -> bool {
    let (Some(syn), Some(state)) = (Utp::parse(one), Utp::parse(other)) else { return false };
    (syn.kind, state.kind) == (SYN, STATE)
        && syn.connection == state.connection
        && syn.number == state.acknowledged
        && syn.payload.is_empty()
        && state.payload.is_empty()
}

/// Whether a datagram is a message of the distributed table.
pub(super) fn is_of_table(datagram: &[u8]) -> bool {
    let [query, response, error, address] = BEGINNINGS.map(|word| datagram.starts_with(word));
    let first = &datagram[..datagram.len().min(NODE_WITHIN)];
    (query || response || address) && find(first, NODE).is_some()
        || error && first.last_chunk::<8>().is_some() && find(datagram, b"1:y1:e").is_some()
}

/// The digest of the torrent that a query asks for.
pub(super) fn wanted_torrent(message: &[u8]) -> Option<[u8; 20]> {
    let first = &message[..message.len().min(TORRENT_WITHIN)];
    let at = find(first, TORRENT)? + TORRENT.len();
    message.get(at..at + 20)?.try_into().ok()
}

fn find(bytes: &[u8], word: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, word)
}

/// Detects a message of the table, a handshake inside a uTP packet, or the SYN of a connection over uTP with
/// its answer.
pub(super) fn probe(opening: &Opening<'_>) -> Probe {
    let sides = [opening.originator, opening.responder];
    let is_handshake = |datagram| carried(datagram).is_some_and(|bytes| bytes.starts_with(NAME));
    let is_certain = sides.iter().any(|datagram| is_of_table(datagram) || is_handshake(datagram));
    if is_certain || greet(sides[0], sides[1]) || greet(sides[1], sides[0]) {
        return Probe::Certain;
    }
    let is_syn = |packet: Utp<'_>| packet.kind == SYN && packet.payload.is_empty();
    match sides.iter().any(|datagram| Utp::parse(datagram).is_some_and(is_syn)) {
        true => Probe::Unsure,
        false => Probe::NotForUs,
    }
}
