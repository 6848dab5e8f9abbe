//! Flows keyed by something other than two addresses and two ports: the packets of each key form one flow, and the
//! interpreter and native code agree.

use crate::drive::{MemoryPacket, ask, compile, in_memory, rows, seeds};
use std::collections::BTreeMap;
use std::convert::Infallible;
use weir::packet::{Timestamp, Value};
use weir::{Ask, Compiler, Connection, EventRows, Executor, Hosts, Item, Need, Options, Shape, Want};
use weir_testing::Random;
use weir_testing::frames::{V4, ethernet, ipv4, udp};

const PORT: u16 = 7777;

const HOST: &str = "
//! Packets of one host
protocol host {
    header { _: u8 }
    instance (below.src)
    vars { packets: u64 }
    count { packets += 1 }
    timeout 1m
    event seen on packet { packets }
}
//! Over UDP
stack hosts extends internet { udp -> host when dst_port == 7777 }
";

const CONNECTION_ID: &str = "
//! A header with a connection ID
protocol tagged {
    header { _: u8  id: bytes[20] }
    instance (id)
    vars { packets: u64 }
    count { packets += 1 }
    timeout 1m
    event seen on packet { packets }
}
//! Over UDP
stack tags extends internet { udp -> tagged when dst_port == 7777 }
";

const BOTH_IDS: &str = "
//! A header with the connection IDs of both ends
protocol pair {
    header { _: u8  from: bytes[20]  to: bytes[20] }
    instance (from) <-> (to)
    each side { packets: u64 }
    count { me.packets += 1 }
    timeout 1m
}
//! Over UDP
stack pairs extends internet { udp -> pair when dst_port == 7777 }
";

const TENANT: &str = "
//! A network's identifier
protocol capsule {
    header { vni: u24 }
    payload = rest
}
//! Addresses that are unique in their network
protocol tenant {
    header { src: ipv4addr  dst: ipv4addr  from: u16  to: u16 }
    instance (below.vni, src, from) <-> (below.vni, dst, to)
    each side { packets: u64 }
    count { me.packets += 1 }
    timeout 1m
}
//! Over UDP
stack tenants extends internet { udp -> capsule when dst_port == 7777  capsule -> tenant }
";

fn compiler(text: &str) -> Compiler {
    let mut compiler = Compiler::default();
    compiler.add("keys.weir", text).unwrap_or_else(|wrong| panic!("{wrong}"));
    compiler
}

fn engines() -> [Options; 2] {
    [Executor::Interpreter, Executor::Native].map(|engine| Options { engine, ..Options::default() })
}

/// A datagram, a millisecond after the one before.
fn datagram(number: i64, from: [u8; 4], payload: &[u8]) -> MemoryPacket {
    let bytes = ethernet(0x0800, &ipv4((from, V4[1]), 17, 1, 0, &[], &udp((40_000, PORT), payload)));
    MemoryPacket { time: Timestamp(number * 1_000_000), ..MemoryPacket::ethernet(bytes) }
}

/// For each packet, the number of packets of its instance so far, computed by both engines. The column `packets` of
/// `event` contains that number.
fn counts(text: &str, event: &str, packets: &[MemoryPacket]) -> Vec<u64> {
    let compiler = compiler(text);
    let EventRows { asked, columns, .. } =
        EventRows::of(compiler.stack(), &[event.to_owned()]).expect("it is declared");
    let place = columns.iter().rposition(|column| column.name == "packets").expect("a column of the event");
    let question =
        Ask { filter: String::new(), need: Need { events: asked, ..Need::default() }, want: Want::Events };
    let [interpreted, native] = engines().map(|options| {
        let compiled = compile(&compiler, std::slice::from_ref(&question), &options);
        let mut counts = vec![];
        let mut each = |_: usize, item: Item| {
            let Item::Event(values) = item else { panic!("{item:?} is no event") };
            let Value::Unsigned(count) = values[place] else { panic!("{:?} is no number", values[place]) };
            counts.push(count);
            Ok::<(), Infallible>(())
        };
        let mut source = in_memory(packets);
        let Ok(_) =
            weir::run(&compiler, &compiled, &mut source, &[Shape::default()], 1, &mut each, &mut |_| {});
        counts
    });
    assert_eq!(interpreted, native);
    native
}

/// The connections of a run, by both engines.
fn connections(text: &str, packets: &[MemoryPacket]) -> Vec<Connection> {
    let compiler = compiler(text);
    let [interpreted, native] = engines().map(|options| {
        let compiled = compile(&compiler, &[ask("", Want::Connections)], &options);
        let mut all = vec![];
        let mut each = |_: usize, item: Item| {
            if let Item::Connection(connection) = item {
                all.push(*connection);
            }
            Ok::<(), Infallible>(())
        };
        let mut source = in_memory(packets);
        let Ok(_) =
            weir::run(&compiler, &compiled, &mut source, &[Shape::default()], 1, &mut each, &mut |_| {});
        // `rows` also checks the counters' sums.
        rows(&compiler, &compiled, packets, 1);
        all
    });
    assert_eq!(format!("{interpreted:?}"), format!("{native:?}"));
    native
}

/// The expected result of `counts`: for each key, its number of occurrences so far.
fn counted<K: Ord>(keys: impl Iterator<Item = K>) -> Vec<u64> {
    let mut seen: BTreeMap<K, u64> = BTreeMap::new();
    keys.map(|key| {
        let count = seen.entry(key).or_default();
        *count += 1;
        *count
    })
    .collect()
}

#[test]
fn a_flow_can_be_keyed_by_one_host() {
    for seed in seeds(0..5) {
        let mut random = Random::new(seed);
        let hosts: Vec<[u8; 4]> = (0..100).map(|_| [10, 0, 0, random.below(7) as u8]).collect();
        let packets: Vec<MemoryPacket> =
            (0..).zip(&hosts).map(|(number, &host)| datagram(number, host, &[0])).collect();
        assert_eq!(counts(HOST, "host.seen", &packets), counted(hosts.iter()));
    }
}

#[test]
fn a_flow_can_be_keyed_by_a_connection_id_of_twenty_bytes() {
    for seed in seeds(0..5) {
        let mut random = Random::new(seed);
        // The IDs differ in one bit of one byte, at any position.
        let ids: Vec<[u8; 20]> = (0..200)
            .map(|_| {
                let mut id = [0xab; 20];
                id[random.below(20) as usize] ^= random.below(2) as u8;
                id
            })
            .collect();
        let packet = |(number, id): (i64, &[u8; 20])| datagram(number, V4[0], &[&[0], &id[..]].concat());
        let packets: Vec<MemoryPacket> = (0..).zip(&ids).map(packet).collect();
        assert_eq!(counts(CONNECTION_ID, "tagged.seen", &packets), counted(ids.iter()));
    }
}

#[test]
fn bytes_that_a_packet_lacks_count_as_zeros() {
    let packets = [datagram(1, V4[0], &[0; 21]), datagram(2, V4[0], &[0; 20]), datagram(3, V4[0], &[0; 21])];
    assert_eq!(counts(CONNECTION_ID, "tagged.seen", &packets), [1, 2, 3]);
}

#[test]
fn both_directions_of_a_pair_of_connection_ids_are_one_flow() {
    let id = |number: u8| {
        let mut id = [7; 20];
        id[19] = number;
        id
    };
    let packet = |number, from: u8, to: u8| datagram(number, V4[0], &[&[0], &id(from)[..], &id(to)].concat());
    let packets = [packet(1, 9, 1), packet(2, 1, 9), packet(3, 1, 9), packet(4, 2, 1), packet(5, 9, 1)];
    let flows = connections(BOTH_IDS, &packets);
    let counts: Vec<[u64; 2]> =
        flows.iter().filter(|flow| flow.proto == "pair").map(|flow| flow.packets).collect();
    assert_eq!(counts, [[2, 2], [1, 0]]);
    let flows: Vec<&Connection> = flows.iter().filter(|flow| flow.proto == "pair").collect();
    assert!(flows.iter().all(|flow| flow.hosts == Hosts::Nothing), "they have neither addresses nor ports");
    assert_ne!(flows[0].uid, flows[1].uid);
}

#[test]
fn equal_addresses_in_two_networks_are_two_flows() {
    let packet = |number, vni: u8, back: bool| {
        let (ends, ports) = match back {
            false => ([[10, 0, 0, 1], [10, 0, 0, 2]], [40_000_u16, 80]),
            true => ([[10, 0, 0, 2], [10, 0, 0, 1]], [80, 40_000]),
        };
        let ports = ports.map(u16::to_be_bytes);
        datagram(number, V4[0], &[&[0, 0, vni], &ends.concat()[..], &ports.concat()].concat())
    };
    let packets = [
        packet(1, 5, false),
        packet(2, 6, true),
        packet(3, 5, true),
        packet(4, 5, false),
        packet(5, 6, false),
        packet(6, 6, true),
    ];
    let flows = connections(TENANT, &packets);
    let flows: Vec<&Connection> = flows.iter().filter(|flow| flow.proto == "tenant").collect();
    let ends: Vec<_> = flows
        .iter()
        .map(|flow| {
            (flow.orig_h.to_string(), flow.orig_p, flow.resp_h.to_string(), flow.resp_p, flow.packets)
        })
        .collect();
    let (one, two) = ("10.0.0.1".to_owned(), "10.0.0.2".to_owned());
    assert_eq!(ends, [(one.clone(), 40_000, two.clone(), 80, [2, 1]), (two, 80, one, 40_000, [2, 1])]);
    assert!(flows.iter().all(|flow| flow.hosts == Hosts::Addresses));
    assert_ne!(flows[0].uid, flows[1].uid);
}
