//! Streams from the real packer, damaged on their way: lost, repeated, late and reordered datagrams.

use super::*;
use crate::pack::Packer;
use crate::{PACKET_BYTES_MAX, Packet};
use proptest::prelude::*;
use weir_packet::{LinkType, Timestamp};

/// A packet that says its number.
fn packet(number: u64, bytes: usize) -> (Timestamp, u32, LinkType, Vec<u8>) {
    let frame = (0..bytes).map(|at| (number as usize * 7 + at) as u8).collect();
    (Timestamp(number as i64 * 1_001), bytes as u32 + number as u32 % 5, LinkType((number % 3) as u16), frame)
}

type Kept = (Timestamp, u32, LinkType, Vec<u8>);

fn keep(packets: &mut Vec<Kept>) -> impl FnMut(&Packet<'_>) {
    |packet| packets.push((packet.time, packet.wire_bytes, packet.link, packet.frame.to_vec()))
}

/// The datagrams of packets of these lengths, with at most `bytes_max` bytes each.
fn datagrams(stream: u64, lengths: &[usize], bytes_max: usize) -> (Vec<Kept>, Vec<Vec<u8>>) {
    let mut packer = Packer::new(stream, 0);
    packer.limit(bytes_max);
    // The limit holds from the next datagram on.
    packer.flush();
    let (mut packets, mut out) = (vec![], vec![]);
    for (number, &length) in lengths.iter().enumerate() {
        let (time, wire_bytes, link, frame) = packet(number as u64, length);
        packer.push(&Packet { time, wire_bytes, link, frame: &frame }).expect("it is short enough");
        packets.push((time, wire_bytes, link, frame));
        out.extend(packer.complete().iter().map(|datagram| datagram.bytes.clone()));
        packer.clear();
    }
    packer.end();
    out.extend(packer.complete().iter().map(|datagram| datagram.bytes.clone()));
    (packets, out)
}

/// Takes datagrams one millisecond apart, and expires the rest.
fn take<'d>(datagrams: impl IntoIterator<Item = &'d Vec<u8>>) -> (Vec<Kept>, ArrivalCounts) {
    let (mut streams, mut counts, mut packets) = (Streams::default(), ArrivalCounts::default(), vec![]);
    let mut now = Instant::now();
    for datagram in datagrams {
        streams.take(datagram, now, &mut counts, &mut keep(&mut packets));
        now += Duration::from_millis(1);
        streams.expire(now, &mut counts, &mut keep(&mut packets));
    }
    while streams.wait() {
        now += WAIT;
        streams.expire(now, &mut counts, &mut keep(&mut packets));
    }
    assert_eq!(counts.packets, packets.len() as u64);
    (packets, counts)
}

#[test]
fn packets_longer_than_datagrams_come_whole() {
    let lengths = [0, 1, 60, 511, 512, 513, 1514, 9000, 65_535, PACKET_BYTES_MAX, 64];
    for bytes_max in [512, 1472, 65_507] {
        let (sent, datagrams) = datagrams(1, &lengths, bytes_max);
        assert!(datagrams.iter().all(|datagram| datagram.len() <= bytes_max));
        let (received, counts) = take(&datagrams);
        assert!(received == sent, "{bytes_max}");
        assert_eq!(counts, ArrivalCounts { packets: sent.len() as u64, ..ArrivalCounts::default() });
    }
}

#[test]
fn reordered_datagrams_come_in_order_and_repeated_ones_once() {
    let (sent, mut datagrams) = datagrams(1, &[400; 40], 512);
    // The first one comes late, too.
    datagrams.swap(0, 1);
    datagrams.swap(10, 13);
    datagrams.insert(20, datagrams[18].clone());
    let (received, counts) = take(&datagrams);
    assert!(received == sent);
    assert_eq!((counts.datagrams_repeated, counts.packets_missing), (1, 0));
}

#[test]
fn the_end_is_repeated_without_being_counted() {
    let (sent, mut datagrams) = datagrams(1, &[100], 1472);
    let end = datagrams.last().cloned().expect("an end");
    datagrams.extend([end.clone(), end]);
    assert_eq!(take(&datagrams), (sent, ArrivalCounts { packets: 1, ..ArrivalCounts::default() }));
}

#[test]
fn a_datagram_that_was_given_up_is_late_and_its_packets_are_missing() {
    let (sent, mut datagrams) = datagrams(1, &[400; 200], 512);
    let late = datagrams.remove(5);
    datagrams.insert(120, late);
    let (received, counts) = take(&datagrams);
    assert_eq!(counts.datagrams_late, 1);
    assert_eq!(received.len() as u64 + counts.packets_missing, sent.len() as u64);
    assert!(counts.packets_missing <= 2, "{}", counts.packets_missing);
}

#[test]
fn missing_packets_are_counted_also_those_at_the_beginning_and_at_the_end() {
    let (sent, datagrams) = datagrams(1, &[1000; 100], 1472);
    let end = datagrams.len() - 1;
    for gone in [0..3, 40..60, end - 4..end] {
        let kept: Vec<Vec<u8>> = datagrams
            .iter()
            .enumerate()
            .filter(|(at, _)| !gone.contains(at))
            .map(|(_, d)| d.clone())
            .collect();
        let (received, counts) = take(&kept);
        assert!(received.iter().all(|packet| sent.contains(packet)), "no packet is made of two");
        assert_eq!(received.len() as u64 + counts.packets_missing, 100, "{gone:?}");
    }
}

#[test]
fn a_receiver_that_starts_later_misses_nothing_but_a_packet_in_parts() {
    let (sent, datagrams) = datagrams(1, &[1000; 300], 1472);
    let (received, counts) = take(&datagrams[100..]);
    assert_eq!(counts.packets_missing, 0);
    assert!(sent.ends_with(&received));
}

#[test]
fn a_sender_that_begins_anew_is_another_stream() {
    let (first, before) = datagrams(1, &[1000; 50], 1472);
    let (second, after) = datagrams(2, &[900; 50], 1472);
    // The first run was killed: it has no end.
    let (received, counts) = take(before[..before.len() - 1].iter().chain(&after));
    assert!(received == [first, second].concat());
    assert_eq!((counts.packets_missing, counts.datagrams_repeated, counts.datagrams_late), (0, 0, 0));
}

#[test]
fn the_memory_for_streams_is_bounded() {
    let (mut streams, mut counts) = (Streams::default(), ArrivalCounts::default());
    let now = Instant::now();
    for stream in 0..2000 {
        let header = Header {
            is_end: false,
            packets: 0,
            stream,
            instance: 0,
            continued: 60_000,
            sequence: 5,
            packets_before: u64::MAX,
        };
        for sequence in [5, 7, u64::MAX, 9] {
            let datagram = [&Header { sequence, ..header }.emit()[..], &[0; 60_000]].concat();
            streams.take(&datagram, now, &mut counts, &mut |_| panic!("there is no packet"));
            assert!(streams.waiting_bytes <= WAITING_BYTES_MAX + datagram.len());
        }
    }
    assert_eq!(streams.streams.len(), STREAMS_MAX);
    assert_eq!(counts.streams_forgotten, 2000 - STREAMS_MAX as u64);
}

/// Streams that make room for others account for what they have not delivered; those that have ended go
/// first, and are not counted.
#[test]
fn forgotten_streams_lose_nothing_without_a_count() {
    let mut counts = ArrivalCounts::default();
    let mut streams = Streams::default();
    let now = Instant::now();
    let mut delivered = 0;
    for stream in 0..400_u64 {
        // The second datagram of each stream comes, the first one does not.
        let header = Header {
            is_end: stream < 100,
            packets: 0,
            stream,
            instance: 0,
            continued: 0,
            sequence: 1,
            packets_before: 1,
        };
        streams.take(&header.emit(), now, &mut counts, &mut |_| delivered += 1);
        if stream == 99 {
            streams.expire(now + WAIT, &mut counts, &mut |_| delivered += 1);
        }
    }
    // 400 streams, of which 100 had ended: the places of these were taken first.
    assert_eq!((delivered, counts.streams_forgotten), (0, 400 - 100 - STREAMS_MAX as u64));
    streams.expire(now + 2 * WAIT, &mut counts, &mut |_| delivered += 1);
    assert_eq!(counts.packets_missing, 400);
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_no_harm(datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..50)) {
        let (mut streams, mut counts) = (Streams::default(), ArrivalCounts::default());
        let mut now = Instant::now();
        for mut datagram in datagrams {
            for head in [&b""[..], b"WEIR\x01"] {
                let n = head.len().min(datagram.len());
                datagram[..n].copy_from_slice(&head[..n]);
                streams.take(&datagram, now, &mut counts, &mut |_| ());
                now += Duration::from_millis(3);
                streams.expire(now, &mut counts, &mut |_| ());
            }
        }
    }

    /// What is received is what was sent, in order, without what is counted as missing; whatever happens on
    /// the way.
    #[test]
    fn packets_are_delivered_or_counted(
        lengths in prop::collection::vec(0usize..4000, 1..120),
        bytes_max in 512usize..3000,
        fates in prop::collection::vec(0u8..20, 1..400),
    ) {
        let (sent, datagrams) = datagrams(1, &lengths, bytes_max);
        let (end, datagrams) = datagrams.split_last().expect("an end");
        let mut arriving: Vec<Vec<u8>> = vec![];
        let mut before = 0;
        for (datagram, fate) in datagrams.iter().zip(fates.iter().cycle()) {
            let before = std::mem::replace(&mut before, *fate);
            match fate {
                0 => {}
                1 => arriving.extend([datagram.clone(), datagram.clone()]),
                // Of several in succession, each would overtake the same two datagrams, until these are given
                // up.
                2 if before != 2 => arriving.insert(arriving.len().saturating_sub(2), datagram.clone()),
                _ => arriving.push(datagram.clone()),
            }
        }
        arriving.push(end.clone());
        let (received, counts) = take(&arriving);
        prop_assert_eq!(received.len() as u64 + counts.packets_missing, sent.len() as u64);
        let mut rest = sent.iter();
        prop_assert!(received.iter().all(|packet| rest.any(|one| one == packet)), "in order");
        if !fates.contains(&0) || datagrams.len() < fates.iter().position(|fate| *fate == 0).unwrap_or(0) {
            prop_assert_eq!(counts.packets_missing, 0);
        }
    }
}
