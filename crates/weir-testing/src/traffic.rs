//! TCP conversations over a bad network: segmented, reordered, duplicated, overlapping (always with the same
//! bytes), lost in places, fragmented.

use crate::Random;
use crate::frames::{ACK, FIN, PSH, SYN, V4, ethernet, ipv4, ipv6, ipv6_fragment, tcp};
use weir_io::MemoryPacket;
use weir_packet::Timestamp;

/// Network conditions.
#[derive(Debug, Clone, Copy)]
pub struct Network {
    /// Segments are repeated, alone or as part of larger ones.
    pub repeats: bool,
    /// Some segments are lost.
    pub loses: bool,
    /// Segments are reordered.
    pub reorders: bool,
    /// Some segments are fragmented.
    pub fragments: bool,
    /// Some packets were captured with a small snaplen. Not together with `repeats`, which may repeat the
    /// truncated bytes.
    pub cuts: bool,
}

/// A generated conversation.
pub struct Conversation {
    /// Ports of both sides; unique in a test.
    pub ports: (u16, u16),
    /// Bytes sent by each side; `None` if no captured packet contains the byte.
    pub sides: [Vec<Option<u8>>; 2],
    /// Packets in the order of the capture.
    pub packets: Vec<MemoryPacket>,
}

/// A segment of one side: a range of its bytes.
#[derive(Debug, Clone, Copy)]
struct Piece {
    start: usize,
    end: usize,
    fin: bool,
}

struct Ends {
    is_v6: bool,
    ports: (u16, u16),
    id: u16,
}

/// A conversation between `ports`.
pub fn conversation(random: &mut Random, ports: (u16, u16), network: Network) -> Conversation {
    let mut ends = Ends { is_v6: random.once_in(3), ports, id: random.bits() as u16 };
    let sent: [Vec<u8>; 2] = [0, 1].map(|_| {
        let bytes = random.pick(&[0, 1, 300, 3_000, 8_000]);
        (0..random.below(bytes + 1)).map(|_| random.bits() as u8).collect()
    });
    let first = [0, 1].map(|side| match random.below(3) {
        // Sequence numbers that wrap within the stream.
        0 => 0_u32.wrapping_sub(random.below(sent[side].len() as u64 + 2) as u32),
        _ => random.bits() as u32,
    });
    let mut packets = vec![];
    let greets = !random.once_in(6);
    if greets {
        let options = [2, 4, 5, 0xb4];
        let segment = |ends: &mut Ends, side: usize, flags, ack: u32, options: &[u8]| {
            let seq = first[side].wrapping_sub(u32::from(flags & SYN != 0));
            let ports = if side == 0 { ends.ports } else { (ends.ports.1, ends.ports.0) };
            whole(ends, side, &tcp(ports, seq, ack, flags, options, &[]))
        };
        packets.push(segment(&mut ends, 0, SYN, 0, &options));
        packets.push(segment(&mut ends, 1, SYN | ACK, first[0], &options));
        packets.push(segment(&mut ends, 0, ACK, first[1], &[]));
    }
    let mut came: [Vec<bool>; 2] = [0, 1].map(|side| vec![false; sent[side].len()]);
    let mut queues = [0, 1].map(|side| pieces(random, sent[side].len(), network, greets));
    let mut left = queues[0].len() + queues[1].len();
    while left > 0 {
        let side = usize::from(random.below(left as u64) as usize >= queues[0].len());
        let piece = queues[side].remove(0);
        let is_first = !greets && came[side].iter().all(|came| !came);
        left -= 1;
        let seq = first[side].wrapping_add(piece.start as u32);
        let flags = ACK | if piece.fin { FIN } else { PSH };
        let ports = if side == 0 { ports } else { (ports.1, ports.0) };
        let segment = tcp(ports, seq, first[1 - side], flags, &[], &sent[side][piece.start..piece.end]);
        let mut captured = piece.end;
        if network.fragments && random.once_in(4) && !is_first {
            let (mut fragments, lost) = fragments(random, &mut ends, side, &segment, network);
            packets.append(&mut fragments);
            if lost {
                continue;
            }
        } else {
            let mut packet = whole(&mut ends, side, &segment);
            if network.cuts && random.once_in(4) && piece.end > piece.start {
                let cut = random.below((piece.end - piece.start) as u64 + 1) as usize;
                let bytes = packet.frame.len() - cut;
                packet = packet.cut(bytes);
                captured -= cut;
            }
            packets.push(packet);
        }
        came[side][piece.start..captured].fill(true);
    }
    let sides = [0, 1].map(|side: usize| {
        let bytes = sent[side].iter().zip(&came[side]);
        bytes.map(|(byte, came)| came.then_some(*byte)).collect()
    });
    Conversation { ports, sides, packets }
}

/// The segments of a side in the order of arrival.
fn pieces(random: &mut Random, bytes: usize, network: Network, greets: bool) -> Vec<Piece> {
    let mut list = vec![];
    let mut at = 0;
    let piece_max = random.pick(&[1, 9, 100, 1400]).max(bytes as u64 / 60);
    while at < bytes {
        let end = (at + 1 + random.below(piece_max) as usize).min(bytes);
        list.push(Piece { start: at, end, fin: false });
        at = end;
    }
    if random.once_in(2) {
        match list.last_mut().filter(|_| random.once_in(2)) {
            Some(last) => last.fin = true,
            None => list.push(Piece { start: bytes, end: bytes, fin: true }),
        }
    }
    // Without a handshake, the first segment defines the start of the stream, so it stays first.
    let fixed = usize::from(!greets).min(list.len());
    let mut out = list[..fixed].to_vec();
    for piece in &list[fixed..] {
        let lost = network.loses && random.once_in(10);
        if !lost {
            out.push(*piece);
        }
        if network.repeats && random.once_in(8) {
            let from = if fixed == 1 { 0 } else { piece.start.saturating_sub(random.below(200) as usize) };
            let end = (piece.start + random.below(300) as usize).clamp(from, bytes);
            out.push(Piece { start: from, end, fin: false });
        }
        if network.repeats && random.once_in(12) && !lost {
            out.push(*piece);
        }
    }
    if network.reorders {
        for index in fixed..out.len() {
            if random.once_in(4) {
                let other = (index + 1 + random.below(8) as usize).min(out.len() - 1);
                out.swap(index, other);
            }
        }
    }
    out
}

/// A segment in a packet of its own.
fn whole(ends: &mut Ends, side: usize, segment: &[u8]) -> MemoryPacket {
    ends.id = ends.id.wrapping_add(1);
    if ends.is_v6 {
        return MemoryPacket::ethernet(ethernet(0x86dd, &ipv6(v6_ends(side), 6, segment)));
    }
    MemoryPacket::ethernet(ethernet(0x0800, &ipv4(v4_ends(side), 6, ends.id, 0x4000, &[], segment)))
}

/// A segment in fragments, in any order; also returns whether one of them is lost.
fn fragments(
    random: &mut Random,
    ends: &mut Ends,
    side: usize,
    segment: &[u8],
    network: Network,
) -> (Vec<MemoryPacket>, bool) {
    ends.id = ends.id.wrapping_add(1);
    let mut list = vec![];
    let mut at = 0;
    while at < segment.len() {
        let end = (at + 8 * (1 + random.below(40) as usize)).min(segment.len());
        let more = end < segment.len();
        let bytes = &segment[at..end];
        let frame = if ends.is_v6 {
            // One counter for both sides, so that identifications are unique per pair of addresses.
            let ident = u32::from(ends.id) << 16 | u32::from(ends.ports.0);
            let fragment = ipv6_fragment(6, at as u16, more, ident, bytes);
            ethernet(0x86dd, &ipv6(v6_ends(side), 44, &fragment))
        } else {
            let place = (at as u16 / 8) | if more { 0x2000 } else { 0 };
            ethernet(0x0800, &ipv4(v4_ends(side), 6, ends.id, place, &[], bytes))
        };
        list.push(MemoryPacket::ethernet(frame));
        at = end;
    }
    if network.reorders && random.once_in(2) {
        for index in 0..list.len() {
            let other = random.below(list.len() as u64) as usize;
            list.swap(index, other);
        }
    }
    let mut lost = false;
    if network.loses && list.len() > 1 && random.once_in(12) {
        list.remove(random.below(list.len() as u64) as usize);
        lost = true;
    } else if network.repeats && list.len() > 2 && random.once_in(6) {
        list.insert(1, list[0].clone());
    }
    (list, lost)
}

fn v4_ends(side: usize) -> ([u8; 4], [u8; 4]) {
    if side == 0 { (V4[0], V4[1]) } else { (V4[1], V4[0]) }
}

fn v6_ends(side: usize) -> ([u8; 16], [u8; 16]) {
    let (a, b) = (crate::frames::V6[0], crate::frames::V6[1]);
    if side == 0 { (a, b) } else { (b, a) }
}

/// Merges several conversations into one capture, packets a microsecond apart.
pub fn mix(random: &mut Random, conversations: &[Conversation]) -> Vec<MemoryPacket> {
    let mut places = vec![0; conversations.len()];
    let mut out: Vec<MemoryPacket> = vec![];
    let open = |places: &[usize]| {
        let unfinished = |&i: &usize| places[i] < conversations[i].packets.len();
        (0..places.len()).filter(unfinished).collect::<Vec<usize>>()
    };
    while let candidates = open(&places)
        && !candidates.is_empty()
    {
        let chosen = random.pick(&candidates);
        for _ in 0..1 + random.below(6) {
            let Some(packet) = conversations[chosen].packets.get(places[chosen]) else { break };
            places[chosen] += 1;
            let time = Timestamp(1_700_000_000_000_000_000 + out.len() as i64 * 1_000);
            out.push(MemoryPacket { time, ..packet.clone() });
        }
    }
    out
}
