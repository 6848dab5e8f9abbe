//! Copies of packets. A mirror port that shows several interfaces or VLANs delivers a packet several times:
//! once for each interface or VLAN that the packet passes.
//!
//! A packet is a copy if an equal packet came at most [`COPIES_WITHIN_NS`] before. Two packets are equal if
//! their IP packets are equal, except for the two fields that each router changes: the time to live (in IPv6
//! the hop limit), and the checksum of the IPv4 header. Link headers, VLAN tags and padding are not compared.
//! Frames without IP are equal if all their bytes are.
//!
//! A retransmission is usually no copy: it comes later, or has another identification (IPv4) or timestamp
//! (TCP).

use crate::{Burst, LinkType, PacketMeta};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};

/// The usual time within which copies come, nanoseconds.
pub const COPIES_WITHIN_NS: i64 = 5_000_000;

/// Limit of packets that are remembered.
const REMEMBERED_MAX: usize = 1 << 18;

/// Recognises copies of packets.
#[derive(Debug)]
pub struct Copies {
    /// The times of packets, nanoseconds since 1970, by what copies have in common.
    seen: HashMap<u64, i64>,
    /// The same, in the order of the packets.
    order: VecDeque<(i64, u64)>,
    /// Its keys are random: nobody can make two packets look like copies.
    hasher: RandomState,
    within_ns: i64,
    /// Bytes of a packet that are compared.
    bytes_max: usize,
    found: u64,
}

impl Default for Copies {
    /// Compares whole packets, within the [usual time](COPIES_WITHIN_NS).
    fn default() -> Self {
        Self::comparing(usize::MAX)
    }
}

impl Copies {
    /// Compares the first `bytes_max` bytes of packets, and their lengths.
    pub fn comparing(bytes_max: usize) -> Self {
        Self {
            seen: HashMap::new(),
            order: VecDeque::new(),
            hasher: RandomState::new(),
            within_ns: COPIES_WITHIN_NS,
            bytes_max,
            found: 0,
        }
    }

    /// Number of copies so far.
    pub fn found(&self) -> u64 {
        self.found
    }

    /// Examines the next packet, with its captured bytes. Returns whether it is a copy of an earlier one.
    pub fn examine(&mut self, packet: &PacketMeta, frame: &[u8]) -> bool {
        let (now, key) = (packet.time.0, self.key(packet.link, frame));
        while let Some(&(time, old)) = self.order.front()
            && (now.saturating_sub(time) > self.within_ns || self.order.len() >= REMEMBERED_MAX)
        {
            self.order.pop_front();
            // A later packet may have the same key.
            if self.seen.get(&old) == Some(&time) {
                self.seen.remove(&old);
            }
        }
        let is_copy =
            self.seen.get(&key).is_some_and(|before| now.abs_diff(*before) <= self.within_ns as u64);
        if is_copy {
            self.found += 1;
        } else {
            self.seen.insert(key, now);
            self.order.push_back((now, key));
        }
        is_copy
    }

    /// Counts the copies among the packets of a burst.
    pub fn count_in(&mut self, burst: &Burst) {
        for packet in &burst.packets {
            self.examine(packet, burst.block.frame(packet));
        }
    }

    /// Removes the copies among the packets of a burst.
    pub fn remove_from(&mut self, burst: &mut Burst) {
        let mut is_kept = vec![];
        for (index, packet) in burst.packets.iter().enumerate() {
            let is_copy = self.examine(packet, burst.block.frame(packet));
            if is_copy && is_kept.is_empty() {
                is_kept.resize(index, true);
            }
            if is_copy || !is_kept.is_empty() {
                is_kept.push(!is_copy);
            }
        }
        if is_kept.is_empty() {
            return;
        }
        let mut rest = Burst { block: std::sync::Arc::clone(&burst.block), ..Burst::default() };
        for index in (0..burst.packets.len()).filter(|&index| is_kept[index]) {
            rest.extend_from(burst, index..index + 1);
        }
        (burst.packets, burst.extras) = (rest.packets, rest.extras);
    }

    /// A number that copies have in common.
    fn key(&self, link: LinkType, frame: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        match ip_of(link, frame) {
            Some(packet) => {
                let changed: &[usize] = if packet[0] >> 4 == 4 { &[8, 10, 11] } else { &[7] };
                let (header, rest) = packet.split_at(20);
                let mut header: [u8; 20] = header.try_into().expect("of this length");
                changed.iter().for_each(|&at| header[at] = 0);
                hasher.write(&header);
                hasher.write(&rest[..rest.len().min(self.bytes_max)]);
                hasher.write_usize(packet.len());
            }
            None => {
                hasher.write(&frame[..frame.len().min(self.bytes_max)]);
                hasher.write_usize(frame.len());
            }
        }
        hasher.finish()
    }
}

/// The IP packet of a frame, without padding, if it has at least 20 bytes.
fn ip_of(link: LinkType, frame: &[u8]) -> Option<&[u8]> {
    let number = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
    let at = match link {
        LinkType::ETHERNET => {
            let mut at = 12;
            // IEEE 802.1Q, 802.1ad, and the number that was used before it.
            while matches!(number(at)?, 0x8100 | 0x88a8 | 0x9100) {
                at += 4;
            }
            matches!(number(at)?, 0x0800 | 0x86dd).then_some(at + 2)?
        }
        LinkType::LINUX_SLL => 16,
        LinkType::LINUX_SLL2 => 20,
        LinkType::RAW | LinkType::RAW_BSD | LinkType::RAW_OPENBSD | LinkType::IPV4 | LinkType::IPV6 => 0,
        _ => return None,
    };
    let length = match frame.get(at)? >> 4 {
        4 => usize::from(number(at + 2)?),
        6 => 40 + usize::from(number(at + 4)?),
        _ => return None,
    };
    let packet = &frame[at..];
    // Segmentation offloading leaves the length 0.
    let packet = if length < 20 { packet } else { &packet[..packet.len().min(length)] };
    (packet.len() >= 20).then_some(packet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Block, Timestamp};

    /// A datagram with this identification in an Ethernet frame: tags, time to live, padding.
    fn frame(id: u8, tags: &[u8], ttl: u8, padding: usize) -> Vec<u8> {
        let mut frame = vec![ttl; 12];
        tags.iter().for_each(|tag| frame.extend([0x81, 0, 0, *tag]));
        frame.extend([0x08, 0, 0x45, 0, 0, 24, 0, id, 0, 0, ttl, 17, ttl, ttl, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([1, 2, 3, 4]);
        frame.resize(frame.len() + padding, ttl);
        frame
    }

    fn burst(frames: &[(i64, Vec<u8>)]) -> Burst {
        let mut packets = vec![];
        let mut bytes = vec![];
        for (number, (ms, frame)) in (1..).zip(frames) {
            packets.push(PacketMeta {
                time: Timestamp(ms * 1_000_000),
                number,
                offset: bytes.len() as u32,
                captured_bytes: frame.len() as u32,
                wire_bytes: frame.len() as u32,
                link: LinkType::ETHERNET,
                ..PacketMeta::default()
            });
            bytes.extend_from_slice(frame);
        }
        Burst { block: std::sync::Arc::new(Block::from(bytes)), packets, ..Burst::default() }
    }

    #[test]
    fn a_packet_behind_a_router_or_with_other_tags_is_a_copy() {
        let mut all = burst(&[
            (0, frame(1, &[], 64, 0)),
            (1, frame(1, &[7], 63, 10)),
            (2, frame(2, &[], 64, 0)),
            (2, frame(1, &[8, 9], 62, 0)),
            // Later, it was sent again.
            (9, frame(1, &[], 64, 0)),
        ]);
        let mut copies = Copies::default();
        copies.remove_from(&mut all);
        let numbers: Vec<u64> = all.packets.iter().map(|packet| packet.number).collect();
        assert_eq!((numbers, copies.found()), (vec![1, 3, 5], 2));
        let mut none = burst(&[(0, frame(1, &[], 64, 0)), (1, frame(2, &[], 64, 0))]);
        Copies::default().remove_from(&mut none);
        assert_eq!(none.packets.len(), 2);
    }

    #[test]
    fn frames_of_any_length_have_keys() {
        let whole = frame(1, &[7], 64, 0);
        let copies = Copies::default();
        for link in [LinkType::ETHERNET, LinkType::RAW, LinkType::LINUX_SLL, LinkType(147)] {
            for length in 0..whole.len() {
                let _ = copies.key(link, &whole[..length]);
            }
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut copies = Copies::default();
        for number in 0..REMEMBERED_MAX as u64 + 1_000 {
            copies.examine(&PacketMeta::default(), &number.to_be_bytes());
        }
        assert!(copies.order.len() <= REMEMBERED_MAX && copies.seen.len() <= REMEMBERED_MAX);
    }
}
