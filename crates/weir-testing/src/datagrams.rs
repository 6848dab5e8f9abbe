//! Any bytes as datagrams of packets over UDP.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use weir_io::udp::{ArrivalCounts, PACKET_BYTES_MAX, Packet, Senders, Streams};
use weir_packet::Timestamp;

/// Takes bytes as datagrams, each behind two bytes with its length, in both forms.
///
/// # Panics
/// If a packet is too long, is longer than its original length, or is not counted.
pub fn fuzz_datagrams(bytes: &[u8]) {
    let (mut streams, mut senders) = (Streams::default(), Senders::default());
    let mut all = [ArrivalCounts::default(); 2];
    let mut packets = [0u64; 2];
    let [of_streams, of_senders] = &mut packets;
    let [counts, tzsp_counts] = &mut all;
    let (mut rest, mut now) = (bytes, Instant::now());
    let mut take = |packet: &Packet<'_>| {
        assert!(packet.frame.len() <= PACKET_BYTES_MAX && packet.frame.len() <= packet.wire_bytes as usize);
        *of_streams += 1;
    };
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length)).min(behind.len());
        let (datagram, behind) = behind.split_at(length);
        rest = behind;
        streams.take(datagram, now, counts, &mut take);
        let sender =
            SocketAddr::from((Ipv4Addr::LOCALHOST, u16::from(datagram.first().copied().unwrap_or(0))));
        senders.take(datagram, (sender, Timestamp(0), now), tzsp_counts, &mut |packet| {
            assert!(packet.frame.len() <= packet.wire_bytes as usize);
            *of_senders += 1;
        });
        now += Duration::from_millis(u64::from(length as u8 % 8));
        streams.expire(now, counts, &mut take);
        senders.expire(now, tzsp_counts);
    }
    assert_eq!(all.map(|counts| counts.packets), packets);
}
