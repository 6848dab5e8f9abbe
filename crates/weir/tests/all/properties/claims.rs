//! Packets with false claims: headers longer than their packet, and payload on a tunnel's port that is no
//! tunnel.

use crate::properties::drive::{MemoryPacket, ask, compile, read_capture, rows, seeds};
use weir::lang::ContextChanges;
use weir::{Compiler, Options, Want};
use weir_testing::Random;
use weir_testing::frames::{
    ACK, PSH, V4, V6, damage, ethernet, give_times, ipv4, ipv6, noise, tcp, udp, vlan, whole_within,
};

fn rows_of(random: &mut Random, packets: Vec<MemoryPacket>, filter: &str, want: Want) -> Vec<String> {
    rows_with(&Options::default(), random, packets, filter, want)
}

fn rows_with(
    options: &Options,
    random: &mut Random,
    mut packets: Vec<MemoryPacket>,
    filter: &str,
    want: Want,
) -> Vec<String> {
    give_times(random, &mut packets);
    let compiler = Compiler::default();
    let compiled = compile(&compiler, &[ask(filter, want)], options);
    rows(&compiler, &compiled, &packets, 1).0
}

/// If a header claims more bytes than its datagram has, the length from IP is used.
#[test]
fn bytes_of_connections_are_those_of_their_datagrams() {
    for words in [5u8, 6, 15] {
        let mut segment = tcp((40_000, 80), 1, 1, ACK | PSH, &[], b"");
        segment[12] = words << 4;
        let authenticated = [&[6, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1][..], &segment].concat();
        let packets = [
            ethernet(0x0800, &ipv4((V4[0], V4[1]), 6, 1, 0, &[], &segment)),
            ethernet(0x86dd, &ipv6((V6[0], V6[1]), 6, &segment)),
            ethernet(0x0800, &ipv4((V4[0], V4[1]), 51, 1, 0, &[], &authenticated)),
        ];
        let bytes = [40, 60, 52];
        for (packet, bytes) in packets.into_iter().zip(bytes) {
            let rows =
                rows_of(&mut Random::new(1), vec![MemoryPacket::ethernet(packet)], "", Want::Connections);
            assert!(rows[0].contains(&format!("ip_bytes: [{bytes},")), "{words} words: {rows:#?}");
        }
    }
}

/// Random payload on a tunnel's port yields no inner connections, and Teredo's lengths must match.
#[test]
fn noise_on_the_port_of_teredo_and_vxlan_is_no_tunnel() {
    let carried = ipv6((V6[0], V6[1]), 17, &udp((1000, 2000), b"inside"));
    let frame = ethernet(0x86dd, &carried);
    let over = |port: u16, payload: &[u8]| {
        MemoryPacket::ethernet(ethernet(
            0x0800,
            &ipv4((V4[0], V4[1]), 17, 1, 0, &[], &udp((port, port), payload)),
        ))
    };
    let inside = |packets: Vec<MemoryPacket>| {
        rows_of(
            &mut Random::new(1),
            packets,
            "udp.port == 2000 or ipv6.addr == 2001:db8:1::10",
            Want::Packets,
        )
        .len()
    };
    let vxlan = |flags: u8| [&[flags, 0, 0, 0, 0, 0, 7, 0], &frame[..]].concat();
    let bubble = |trailer: &[u8]| [&ipv6((V6[0], V6[1]), 59, b""), trailer].concat();
    assert_eq!(inside(vec![over(3544, &carried)]), 1);
    assert_eq!(inside(vec![over(3544, &[&carried[..], b"more"].concat())]), 0);
    assert_eq!(inside(vec![over(3544, &carried[..carried.len() - 1])]), 0);
    assert_eq!(inside(vec![over(3544, &bubble(b"")), over(3544, &bubble(&[4, 4, 0, 0, 0, 0]))]), 2);
    assert_eq!(inside(vec![over(4789, &vxlan(8))]), 1);
    assert_eq!(inside(vec![over(4789, &vxlan(0))]), 0);
    for seed in seeds(0..20) {
        let mut random = Random::new(seed);
        let packets = (0..50).map(|_| {
            // A length that no datagram here has.
            let start = [0x60 | random.bits() as u8 & 15, 0, 0, 0, 0xff];
            let payload = [&start[..], &noise(&mut random, 200)].concat();
            over(3544, &payload)
        });
        let packets = packets.collect();
        let rows = rows_of(&mut random, packets, "ipv6", Want::Packets);
        assert!(rows.is_empty(), "seed {seed}: {rows:#?}");
    }
}

/// Connections that a filter rules out get no flow, unless they carry inner connections. Next to a question
/// for all connections they do; the filter's result must not change.
#[test]
fn connections_are_the_same_whatever_else_is_asked() {
    let compiler = Compiler::default();
    let mut captures: Vec<Vec<MemoryPacket>> =
        ["gtp", "vxlan", "geneve", "teredo", "l2tp", "pptp", "internet"]
            .map(|name| read_capture(&format!("{}/../../protocols/{name}.pcap", env!("CARGO_MANIFEST_DIR"))))
            .into();
    captures.extend(seeds(0..6).map(|seed| {
        let mut random = Random::new(seed);
        let mut packets: Vec<MemoryPacket> = vec![];
        for _ in 0..300 {
            let packet = whole_within(&mut random, 2);
            // Some packets are put into a tunnel over UDP, in either direction.
            let tunnel = |port: u16, head: &[u8], frame: &[u8], back: bool| {
                let (ports, ends) = match back {
                    true => ((port, 40_000), (V4[1], V4[0])),
                    false => ((40_000, port), (V4[0], V4[1])),
                };
                let datagram = udp(ports, &[head, frame].concat());
                MemoryPacket::ethernet(ethernet(0x0800, &ipv4(ends, 17, 1, 0, &[], &datagram)))
            };
            let back = random.once_in(3);
            let frame = &packet.frame[..packet.frame.len().min(1400)];
            let packet = match random.below(6) {
                0 => tunnel(4789, &[8, 0, 0, 0, 0, 0, 7, 0], frame, back),
                1 => tunnel(6081, &[0, 0, 0x65, 0x58, 0, 0, 7, 0], frame, back),
                2 => tunnel(2152, &[0x30, 0xff, 0, 0, 0, 0, 0, 9], frame.get(14..).unwrap_or(&[]), back),
                _ => packet,
            };
            packets.push(damage(&mut random, packet));
        }
        give_times(&mut random, &mut packets);
        packets
    }));
    let mut skipped = 0;
    for filter in [
        "tcp",
        "tcp.dstport == 443",
        "tls",
        "gtp.teid == 9 or tcp",
        "icmp or tls",
        "vxlan.vni == 7",
        "not udp",
    ] {
        let alone = compile(&compiler, &[ask(filter, Want::Connections)], &Options::default());
        let asks = [ask(filter, Want::Connections), ask("", Want::Connections)];
        let beside = compile(&compiler, &asks, &Options::default());
        for packets in &captures {
            let (alone, few) = rows(&compiler, &alone, packets, 1);
            let (beside, all) = rows(&compiler, &beside, packets, 1);
            let beside: Vec<String> = beside.into_iter().filter(|row| row.starts_with("0 ")).collect();
            assert_eq!(alone, beside, "{filter}");
            skipped += all.counters.flow.flows_created - few.counters.flow.flows_created;
        }
    }
    assert!(skipped > 0, "every connection was looked up");
}

/// Tests of values that differ between packets of a connection, such as tags of one direction or header
/// bytes, match the connection and exclude none of its packets. Tags of one direction only are VLANs to
/// ignore.
#[test]
fn a_packet_that_fulfils_a_filter_has_its_whole_connection() {
    let packets: Vec<MemoryPacket> = (0..4u8)
        .map(|number| {
            let (ports, ends) = match number % 2 {
                0 => ((40_000, 80), (V4[0], V4[1])),
                _ => ((80, 40_000), (V4[1], V4[0])),
            };
            let segment = tcp(ports, 1, 1, ACK, &[], b"");
            let mut datagram = ipv4(ends, 6, 1, 0, &[], &segment);
            datagram[8] = 64 + number % 2;
            MemoryPacket::ethernet(match number % 2 {
                0 => ethernet(0x8100, &vlan(5, 0x0800, &datagram)),
                _ => ethernet(0x0800, &datagram),
            })
        })
        .collect();
    for filter in ["vlan.id == 5", "ip[8:1] == 0x40", "ip.ttl == 64", "tcp.srcport == 80"] {
        let context = ContextChanges { ignored: vec!["vlan.id".to_string()], added: vec![] };
        let options = Options { context, ..Options::default() };
        let rows = rows_with(&options, &mut Random::new(1), packets.clone(), filter, Want::Connections);
        assert_eq!(rows.len(), 1, "{filter}");
        assert!(rows[0].contains("packets: [2, 2]"), "{filter}: {rows:#?}");
    }
}
