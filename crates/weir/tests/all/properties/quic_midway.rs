//! QUIC connections are recognised without their handshake, by the connection id in the client's datagrams.
//! The handshake is missing if the connection began before the capture. The handshake is also missing, in the
//! new flow, if the client's port changes during the connection (RFC 9000, section 9).

use crate::properties::drive::{MemoryPacket, all_sessions, ask, compile, rows};
use std::collections::BTreeMap;
use weir::packet::{LinkType, Timestamp};
use weir::{Ask, Compiler, Need, Options, Want};
use weir_testing::Random;
use weir_testing::frames::{ethernet, ipv4, udp};

const CLIENT: [u8; 4] = [192, 0, 2, 1];
const SERVER: [u8; 4] = [198, 51, 100, 1];

/// A datagram after the handshake. `id`: the connection id in datagrams of the client. The id in datagrams of
/// the server is empty.
fn datagram(random: &mut Random, ports: (u16, u16), id: &[u8], is_client: bool) -> MemoryPacket {
    let first = 0x40 | random.below(0x40) as u8;
    let rest: Vec<u8> = (0..40 + random.below(1_000)).map(|_| random.below(256) as u8).collect();
    let (ends, ports, id) = match is_client {
        true => ((CLIENT, SERVER), ports, id),
        false => ((SERVER, CLIENT), (ports.1, ports.0), &[][..]),
    };
    let payload = [&[first][..], id, &rest].concat();
    let frame = ethernet(0x800, &ipv4(ends, 17, 0, 0, &[], &udp(ports, &payload)));
    let (time, link, wire_bytes) = (Timestamp(0), LinkType::ETHERNET, frame.len() as u32);
    MemoryPacket { time, link, wire_bytes, frame }
}

#[test]
fn quic_is_recognised_without_its_handshake() {
    let mut random = Random::new(8);
    let mut packets = vec![];
    let (noise, elsewhere, encrypted) = (50_100, 50_200, 50_300..50_310);
    for number in 0..20 {
        let is_client = number % 3 == 0;
        for port in 50_000..50_010_u16 {
            let id = [&port.to_be_bytes()[..], &[1, 2, 3, 4, 5, 6, 7]].concat();
            packets.push(datagram(&mut random, (port, 443), &id, is_client));
        }
        // Random bytes, which no id precedes, and another port.
        packets.push(datagram(&mut random, (noise, 443), &[], is_client));
        packets.push(datagram(&mut random, (elsewhere, 4_433), &[1, 2, 3, 4, 5, 6, 7, 8], is_client));
        // A counter in front, as other encrypted protocols have.
        for port in encrypted.clone() {
            packets.push(datagram(&mut random, (port, 443), &[1, 2, 3, 4, 5, 6, 7, number], is_client));
        }
    }
    for (packet, time) in packets.iter_mut().zip((1_700_000_000_000_000_000..).step_by(1_000_000)) {
        packet.time = Timestamp(time);
    }
    let compiler = Compiler::default();
    let need = Need { service: true, ..Need::default() };
    let connections = Ask { filter: "udp".into(), need, want: Want::Connections };
    let compiled = compile(&compiler, &[connections, ask("quic", all_sessions())], &Options::default());
    for workers in [1, 3] {
        let (rows, _) = rows(&compiler, &compiled, &packets, workers);
        assert!(rows.iter().all(|row| row.starts_with("0 ")), "no handshake: {rows:#?}");
        let after = |row: &str, name: &str| row.split_once(name).map(|(_, rest)| rest.to_string());
        let connection = |row: &String| {
            let port: u16 = after(row, "orig_p: ")?.split(',').next()?.parse().ok()?;
            Some((port, after(row, "service: ")?.starts_with("Some(\"quic")))
        };
        let services: BTreeMap<u16, bool> = rows.iter().filter_map(connection).collect();
        assert_eq!(services.len(), 22, "{services:?}");
        for (port, is_quic) in services {
            assert_eq!(is_quic, port < noise, "{port}");
        }
    }
}
