//! TZSP, the TaZmen sniffer protocol: a packet in each datagram, behind tags. There is no standard; the
//! numbers are those of its description (<https://en.wikipedia.org/wiki/TZSP>) and of Wireshark's dissector
//! (`packet-tzsp.c`).

use crate::Packet;
use crate::counters::ArrivalCounts;
use crate::unpack::Sink;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use weir_packet::{LinkType, Timestamp};

/// Senders whose packet counts are known, at most. The one that was silent for the longest time makes room
/// for another one.
const SENDERS_MAX: usize = 256;
/// A packet that others have overtaken is waited for this long.
const WAIT: Duration = Duration::from_millis(20);
/// A count that is this much ahead shows that the sender began anew.
const AHEAD_MAX: u32 = 1 << 16;

const VERSION: u8 = 1;
/// The types of datagrams with a packet: "received tag list" and "packet for transmit". Others have none.
const WITH_PACKET: [u8; 2] = [0, 1];
/// "Configuration", "keepalive" and "port opener" are no packets, and no mistakes.
const WITHOUT_PACKET: [u8; 3] = [3, 4, 5];

const TAG_PADDING: u8 = 0;
const TAG_END: u8 = 1;
const TAG_PACKET_COUNT: u8 = 40;
const TAG_FRAME_LENGTH: u8 = 41;

/// Link types of encapsulated protocols: Ethernet, 802.11, Prism header, AVS header.
const PROTOCOLS: [(u16, u16); 4] = [(1, 1), (18, 105), (119, 119), (127, 163)];

/// The senders to a port. Packets come in the order of arrival. Senders that number their packets (tag 40)
/// show which are missing.
#[derive(Debug, Default)]
pub struct Senders {
    senders: HashMap<SocketAddr, Sender>,
    turn: u64,
}

/// A sender that numbers its packets.
#[derive(Debug)]
struct Sender {
    /// The number of the next packet.
    next: u32,
    /// Which of the 64 packets before have come, or were given up: the lowest bit is the last one.
    seen: u64,
    /// Since when packets are missing that may still come.
    since: Option<Instant>,
    /// The turn of its last packet.
    turn: u64,
}

/// A datagram's parts.
struct Parts<'d> {
    link: LinkType,
    count: Option<u32>,
    wire_bytes: Option<u16>,
    frame: &'d [u8],
}

impl Senders {
    /// Takes a datagram that arrived from `sender` at `time`, and was read at `now`. Its packet goes to
    /// `sink`.
    pub fn take(
        &mut self,
        datagram: &[u8],
        (sender, time, now): (SocketAddr, Timestamp, Instant),
        counts: &mut ArrivalCounts,
        sink: &mut Sink<'_>,
    ) {
        let [VERSION, kind, _, _, ..] = datagram else {
            counts.datagrams_invalid += 1;
            return;
        };
        if WITHOUT_PACKET.contains(kind) {
            return;
        }
        let Some(parts) = parse(datagram).filter(|_| WITH_PACKET.contains(kind)) else {
            counts.datagrams_invalid += 1;
            return;
        };
        if let Some(count) = parts.count
            && !self.is_new(sender, count, now, counts)
        {
            return;
        }
        counts.packets += 1;
        // A datagram is shorter than 64 KiB.
        let wire_bytes = parts.wire_bytes.map_or(0, u32::from).max(parts.frame.len() as u32);
        sink(&Packet { time, wire_bytes, link: parts.link, frame: parts.frame });
    }

    /// Whether packets may still come that others have overtaken: [`expire`](Self::expire) must be called
    /// soon.
    pub fn wait(&self) -> bool {
        self.senders.values().any(|sender| sender.since.is_some())
    }

    /// Counts the packets that were waited for until `now` as missing.
    pub fn expire(&mut self, now: Instant, counts: &mut ArrivalCounts) {
        for sender in self.senders.values_mut() {
            if sender.since.is_some_and(|since| now.saturating_duration_since(since) >= WAIT) {
                sender.give_up(counts);
            }
        }
    }

    /// Takes the number of a packet. Returns whether the packet is new.
    fn is_new(&mut self, from: SocketAddr, count: u32, now: Instant, counts: &mut ArrivalCounts) -> bool {
        self.turn += 1;
        if self.senders.len() >= SENDERS_MAX && !self.senders.contains_key(&from) {
            let silent = self.senders.iter().min_by_key(|(_, sender)| sender.turn).map(|(key, _)| *key);
            if let Some(mut sender) = silent.and_then(|silent| self.senders.remove(&silent)) {
                sender.give_up(counts);
                counts.streams_forgotten += 1;
            }
        }
        let begin = || Sender { next: count, seen: u64::MAX, since: None, turn: 0 };
        let sender = self.senders.entry(from).or_insert_with(begin);
        sender.turn = self.turn;
        sender.is_new(count, now, counts)
    }
}

impl Sender {
    fn is_new(&mut self, count: u32, now: Instant, counts: &mut ArrivalCounts) -> bool {
        let ahead = count.wrapping_sub(self.next);
        let behind = self.next.wrapping_sub(count).wrapping_sub(1);
        if ahead < AHEAD_MAX {
            if ahead > 0 {
                self.since.get_or_insert(now);
            }
            // What leaves the last 64 is missing.
            let shift = ahead + 1;
            let left = if shift < u64::BITS { !self.seen >> (u64::BITS - shift) } else { !self.seen };
            let beyond = ahead.saturating_sub(u64::BITS - 1);
            counts.miss(u64::from(left.count_ones()) + u64::from(beyond));
            self.seen = self.seen.checked_shl(shift).unwrap_or(0) | 1;
        } else if behind < u64::BITS {
            let bit = 1 << behind;
            if self.seen & bit != 0 {
                counts.datagrams_repeated += 1;
                return false;
            }
            self.seen |= bit;
            return true;
        } else {
            self.give_up(counts);
        }
        self.next = count.wrapping_add(1);
        true
    }

    /// Packets that have not come are missing.
    fn give_up(&mut self, counts: &mut ArrivalCounts) {
        counts.miss(self.seen.count_zeros().into());
        (self.seen, self.since) = (u64::MAX, None);
    }
}

fn parse(datagram: &[u8]) -> Option<Parts<'_>> {
    let (head, mut rest) = datagram.split_at_checked(4)?;
    let protocol = u16::from_be_bytes([head[2], head[3]]);
    let link = PROTOCOLS.iter().find(|(number, _)| *number == protocol).map(|(_, link)| LinkType(*link))?;
    let (mut count, mut wire_bytes) = (None, None);
    loop {
        let (&tag, behind) = rest.split_first()?;
        rest = behind;
        match tag {
            TAG_PADDING => continue,
            TAG_END => return Some(Parts { link, count, wire_bytes, frame: rest }),
            _ => {}
        }
        let (&length, behind) = rest.split_first()?;
        let (value, behind) = behind.split_at_checked(length.into())?;
        rest = behind;
        match tag {
            TAG_PACKET_COUNT => count = value.try_into().ok().map(u32::from_be_bytes),
            TAG_FRAME_LENGTH => wire_bytes = value.try_into().ok().map(u16::from_be_bytes),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    /// Takes these datagrams of one sender; returns the frames and lengths.
    fn take(datagrams: &[&[u8]]) -> (Vec<(u16, u32, Vec<u8>)>, ArrivalCounts) {
        let (mut senders, mut counts, mut packets) = (Senders::default(), ArrivalCounts::default(), vec![]);
        for datagram in datagrams {
            senders.take(datagram, (sender(1), Timestamp(7), Instant::now()), &mut counts, &mut |packet| {
                assert_eq!(packet.time, Timestamp(7));
                packets.push((packet.link.0, packet.wire_bytes, packet.frame.to_vec()));
            });
        }
        (packets, counts)
    }

    #[test]
    fn tags_are_skipped_up_to_the_end() {
        let ethernet = [&[1, 0, 0, 1, 0, 10, 1, 0xd0, 0, 41, 2, 5, 220, 1][..], b"frame"].concat();
        let radio = [&[1, 0, 0, 18, 11, 1, 9, 18, 1, 6, 1][..], b"802"].concat();
        let (packets, counts) = take(&[&ethernet, &radio, &[1, 4, 0, 0], &[1, 0, 0, 1, 1]]);
        let expected = vec![(1, 1500, b"frame".to_vec()), (105, 3, b"802".to_vec()), (1, 0, vec![])];
        assert_eq!(packets, expected);
        assert_eq!(counts, ArrivalCounts { packets: 3, ..ArrivalCounts::default() });
    }

    #[test]
    fn what_is_not_tzsp_is_counted() {
        let wrong: [&[u8]; 8] = [
            b"",
            &[1, 0, 0],
            &[2, 0, 0, 1, 1],
            &[1, 2, 0, 1, 1],
            &[1, 0, 0, 99, 1],
            &[1, 0, 0, 1],
            &[1, 0, 0, 1, 10],
            &[1, 0, 0, 1, 10, 9, 1],
        ];
        let (packets, counts) = take(&wrong);
        assert!(packets.is_empty());
        assert_eq!(counts.datagrams_invalid, wrong.len() as u64);
    }

    #[test]
    fn packet_counts_show_what_is_missing_and_what_is_repeated() {
        let numbered = |count: u32| [&[1, 0, 0, 1, 40, 4][..], &count.to_be_bytes(), &[1, 42]].concat();
        let datagrams: Vec<Vec<u8>> =
            [u32::MAX - 1, u32::MAX, u32::MAX, 2, 3, 900_000, 900_001].map(numbered).into();
        let datagrams: Vec<&[u8]> = datagrams.iter().map(|datagram| &datagram[..]).collect();
        let (packets, counts) = take(&datagrams);
        assert_eq!(packets.len(), 6, "one was repeated");
        assert_eq!(
            (counts.packets_missing, counts.datagrams_repeated),
            (2, 1),
            "0 and 1; then the sender began anew"
        );
    }

    #[test]
    fn packets_in_another_order_are_not_missing() {
        let numbered = |count: u32| [&[1, 0, 0, 1, 40, 4][..], &count.to_be_bytes(), &[1, 42]].concat();
        let begin = Instant::now();
        let mut senders = Senders::default();
        let mut take = |numbers: &[u32], now: Instant| {
            let (mut counts, mut packets) = (ArrivalCounts::default(), 0);
            for number in numbers {
                let from = (sender(1), Timestamp(0), now);
                senders.take(&numbered(*number), from, &mut counts, &mut |_| packets += 1);
            }
            senders.expire(now, &mut counts);
            (packets, counts.packets_missing, counts.datagrams_repeated, senders.wait())
        };
        assert_eq!(take(&[1, 3, 2, 4, 3], begin), (4, 0, 1, true));
        assert_eq!(take(&[], begin + WAIT), (0, 0, 0, false));
        assert_eq!(take(&[6], begin + WAIT), (1, 0, 0, true));
        assert_eq!(take(&[], begin + 2 * WAIT), (0, 1, 0, false), "5");
        assert_eq!(take(&[5], begin + 3 * WAIT), (0, 0, 1, false), "it was given up");
        // Of 100 that are skipped, 37 leave the last 64.
        assert_eq!(take(&[107], begin + 3 * WAIT), (1, 37, 0, true));
        assert_eq!(take(&[], begin + 5 * WAIT), (0, 63, 0, false));
    }

    #[test]
    fn memory_for_senders_is_bounded() {
        let (mut senders, mut counts) = (Senders::default(), ArrivalCounts::default());
        for port in 1..=1000 {
            let datagram = [1, 0, 0, 1, 40, 4, 0, 0, 0, 1, 1];
            senders.take(&datagram, (sender(port), Timestamp(0), Instant::now()), &mut counts, &mut |_| ());
        }
        assert_eq!(senders.senders.len(), SENDERS_MAX);
        assert_eq!(counts.streams_forgotten, 1000 - SENDERS_MAX as u64);
    }
}
