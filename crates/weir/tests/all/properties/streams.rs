//! Streams are delivered as sent, with gaps exactly where bytes are missing.

use crate::properties::drive::{MemoryPacket, ask, compile, in_memory, seeds};
use std::collections::HashMap;
use std::sync::Arc;
use weir::packet::{Burst, Poll, Source};
use weir::{Compiler, Executor, Options, Policies, Policy, Want};
use weir_engine::stream::{Chunk, StreamHandle, StreamParams, StreamSubscriber};
use weir_engine::subscriber::{Order, Subscriber};
use weir_engine::worker::Worker;
use weir_sessions::Direction;
use weir_testing::Random;
use weir_testing::frames::{ACK, SYN, V4, V6, ethernet, ipv4, ipv6, ipv6_fragment, tcp};
use weir_testing::traffic::{Conversation, Network, conversation, mix};

/// Bytes of each stream, by source and destination port; `None` for missing ones.
#[derive(Default)]
pub struct Streams(pub HashMap<(u16, u16), Vec<Option<u8>>>);

impl Subscriber for Streams {}

impl StreamSubscriber for Streams {
    fn stream_data(&mut self, _: Order, _: usize, stream: &mut StreamHandle<'_>, chunk: &Chunk<'_>) {
        let (originator, responder) = stream.flow.endpoints();
        let ports = (originator.port as u16, responder.port as u16);
        let is_originator = stream.from == Direction::Originator;
        let got = self.0.entry(if is_originator { ports } else { (ports.1, ports.0) }).or_default();
        got.resize(got.len() + usize::try_from(chunk.gap_bytes).unwrap(), None);
        got.extend(chunk.bytes[chunk.overlap..].iter().copied().map(Some));
    }
}

/// The streams of these packets.
///
/// # Panics
/// If the accounts do not balance.
pub fn streams_of(plan: &Arc<weir_engine::plan::Plan>, packets: &[MemoryPacket]) -> Streams {
    let mut worker = Worker::new(Arc::clone(plan), Streams::default());
    let mut source = in_memory(packets);
    let mut burst = Burst::default();
    let mut number = 0;
    while source.poll(&mut burst).unwrap() != Poll::End {
        worker.take(&burst, 0..burst.packets.len(), number);
        number += 1;
    }
    while worker.finish(number) {}
    let (live, _) = worker.size();
    assert_eq!(worker.counters().adds_up(live), Ok(()));
    assert_eq!(live, 0, "all flows were ended");
    assert_eq!(worker.counters().packet.packets, packets.len() as u64);
    worker.into_subscriber()
}

/// Without trailing missing bytes: their number is unknown if the stream was not closed.
fn trimmed(stream: &[Option<u8>]) -> &[Option<u8>] {
    let end = stream.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    &stream[..end]
}

fn check(conversations: &[Conversation], streams: &Streams, seed: u64) {
    for conversation in conversations {
        let (client, server) = conversation.ports;
        for (side, key) in [(0, (client, server)), (1, (server, client))] {
            let sent = trimmed(&conversation.sides[side]);
            let got = trimmed(streams.0.get(&key).map_or(&[], |s| s));
            if sent != got {
                let differs =
                    sent.iter().zip(got).position(|(a, b)| a != b).unwrap_or(sent.len().min(got.len()));
                panic!(
                    "seed {seed}, ports {key:?}: {} bytes sent, {} came out, they differ at {differs}: \
                     {:?} was sent, {:?} came out",
                    sent.len(),
                    got.len(),
                    &sent[differs..(differs + 8).min(sent.len())],
                    &got[differs..(differs + 8).min(got.len())]
                );
            }
        }
    }
}

fn hold(count: u64, network: Network) {
    let compiler = Compiler::default();
    let plans = [Executor::Native, Executor::Interpreter].map(|engine| {
        compile(
            &compiler,
            &[ask("", Want::Streams(StreamParams::default()))],
            &Options { engine, ..Options::default() },
        )
        .plan()
        .clone()
    });
    for seed in seeds(0..count) {
        let mut random = Random::new(seed);
        let conversations: Vec<Conversation> = (0..1 + random.below(4))
            .map(|index| conversation(&mut random, (40_000 + index as u16, 443), network))
            .collect();
        let packets = mix(&mut random, &conversations);
        let streams = streams_of(&plans[(seed % 4 == 3) as usize], &packets);
        check(&conversations, &streams, seed);
    }
}

pub const CALM: Network =
    Network { repeats: false, loses: false, reorders: false, fragments: false, cuts: false };

#[test]
fn a_calm_network_delivers_everything() {
    hold(60, CALM);
}

#[test]
fn reordered_and_repeated_segments_are_put_right() {
    hold(150, Network { repeats: true, reorders: true, ..CALM });
}

#[test]
fn fragments_are_put_together() {
    hold(100, Network { fragments: true, reorders: true, repeats: true, ..CALM });
}

#[test]
fn gaps_are_where_bytes_are_missing() {
    hold(150, Network { loses: true, reorders: true, repeats: true, fragments: true, ..CALM });
}

#[test]
fn what_the_snaplen_cut_is_a_gap() {
    hold(100, Network { cuts: true, reorders: true, loses: true, ..CALM });
}

/// A conversation in which both sides send contradicting bytes, in segments and in fragments. `packet` builds
/// a packet from the sender (0: the client), a fragment's offset and more-fragments flag, and the bytes.
fn contradictions(
    ports: (u16, u16),
    packet: impl Fn(usize, Option<(u16, bool)>, &[u8]) -> Vec<u8>,
) -> Vec<MemoryPacket> {
    let segment = |side, seq: u32, ack, flags, options: &[u8], text: &str| {
        let ports = if side == 0 { ports } else { (ports.1, ports.0) };
        tcp(ports, seq, ack, flags, options, text.as_bytes())
    };
    let mut frames = vec![];
    for (side, seq, ack, flags) in [(0, 99, 0, SYN), (1, 299, 100, SYN | ACK), (0, 100, 300, ACK)] {
        frames.push(packet(side, None, &segment(side, seq, ack, flags, &[], "")));
    }
    for (side, seq, ack) in [(0, 100, 300), (1, 300, 100)] {
        for (at, text) in [(4, "bbbb"), (2, "XXXX"), (0, "aa")] {
            frames.push(packet(side, None, &segment(side, seq + at, ack, ACK, &[], text)));
        }
        let fragmented = segment(side, seq + 8, ack, ACK, &[1; 4], "ccccccccdddddddddddddddd");
        for (at, end) in [(0, 32), (32, 40)] {
            frames.push(packet(side, Some((at, true)), &fragmented[usize::from(at)..end]));
        }
        frames.push(packet(side, Some((32, false)), &[b'Y'; 16]));
    }
    frames.into_iter().map(MemoryPacket::ethernet).collect()
}

#[test]
fn of_contradicting_bytes_those_count_that_the_receiver_takes() {
    let mut policies = Policies::default();
    policies.add(std::net::Ipv4Addr::from(V4[0]).into(), 32, Policy::Linux);
    policies.add(std::net::Ipv6Addr::from(V6[0]).into(), 48, Policy::Linux);
    let v4 = |ends: [[u8; 4]; 2]| {
        move |side: usize, fragment: Option<(u16, bool)>, bytes: &[u8]| {
            let place = fragment.map_or(0x4000, |(at, more)| (at / 8) | (u16::from(more) << 13));
            ethernet(0x0800, &ipv4((ends[side], ends[1 - side]), 6, 7, place, &[], bytes))
        }
    };
    let v6 = |ends: [[u8; 16]; 2]| {
        move |side: usize, fragment: Option<(u16, bool)>, bytes: &[u8]| {
            let ends = (ends[side], ends[1 - side]);
            ethernet(
                0x86dd,
                &match fragment {
                    None => ipv6(ends, 6, bytes),
                    Some((at, more)) => ipv6(ends, 44, &ipv6_fragment(6, at, more, 7, bytes)),
                },
            )
        }
    };
    // The first host of each pair is Linux; it opens two of the connections.
    let packets = [
        contradictions((40_000, 443), v4([V4[0], V4[1]])),
        contradictions((40_001, 443), v4([V4[1], V4[0]])),
        contradictions((40_002, 443), v6([V6[0], V6[1]])),
        contradictions((40_003, 443), v6([V6[1], V6[0]])),
    ]
    .concat();
    for engine in [Executor::Native, Executor::Interpreter] {
        let options = Options { engine, policies: policies.clone(), ..Options::default() };
        let plan =
            compile(&Compiler::default(), &[ask("", Want::Streams(StreamParams::default()))], &options)
                .plan()
                .clone();
        let streams = streams_of(&plan, &packets);
        let came = |key| {
            let bytes: Vec<u8> = streams.0[&key].iter().map(|byte| byte.unwrap_or(b'.')).collect();
            String::from_utf8(bytes).unwrap()
        };
        let (linux, first) = ("aaXXXXbbccccccccYYYYYYYYYYYYYYYY", "aaXXbbbbccccccccddddddddYYYYYYYY");
        for client in 40_000..40_004 {
            let (at_client, at_server) = (came((443, client)), came((client, 443)));
            let wanted = if client % 2 == 0 { (linux, first) } else { (first, linux) };
            assert_eq!((at_client.as_str(), at_server.as_str()), wanted, "{client}");
        }
    }
}
