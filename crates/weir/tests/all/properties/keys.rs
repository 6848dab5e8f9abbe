//! Flows keyed by something other than two addresses and two ports: the packets of each key form one flow,
//! and the interpreter and native code agree.

use crate::properties::drive::{MemoryPacket, ask, compile, in_memory, rows, seeds};
use std::collections::BTreeMap;
use std::convert::Infallible;
use weir::lang::ContextChanges;
use weir::packet::{Timestamp, Value};
use weir::{
    Ask, Compiled, Compiler, Connection, EventRows, Executor, Hosts, Item, Need, Options, Shape, Want,
};
use weir_testing::Random;
use weir_testing::frames::{V4, ethernet, ipv4, udp, vlan};

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

const SESSION: &str = "
//! A session that both ends name by the same number
protocol talk {
    header { session: u16 }
    context session
    instance (below.src) <-> (below.dst)
    each side { packets: u64 }
    count { me.packets += 1 }
    timeout 1m
}
//! Over UDP
stack talks extends internet { udp -> talk when dst_port == 7777 }
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

/// For each packet, the number of packets of its instance so far, computed by both engines. The column
/// `packets` of `event` contains that number.
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
        let mut each = |_: usize, item: Item<'_>| {
            let Item::Rows(made) = item else { panic!("{item:?} is no event") };
            for row in made.iter() {
                let values = row.values();
                let Value::Unsigned(count) = values[place] else {
                    panic!("{:?} is no number", values[place])
                };
                counts.push(count);
            }
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
        // `rows` also checks the counters' sums.
        rows(&compiler, &compiled, packets, 1);
        connections_of(&compiler, &compiled, packets)
    });
    assert_eq!(format!("{interpreted:?}"), format!("{native:?}"));
    native
}

fn connections_of(compiler: &Compiler, compiled: &Compiled, packets: &[MemoryPacket]) -> Vec<Connection> {
    let mut all = vec![];
    let mut each = |_: usize, item: Item<'_>| {
        if let Item::Connection(connection) = item {
            all.push(*connection);
        }
        Ok::<(), Infallible>(())
    };
    let mut source = in_memory(packets);
    let Ok(_) = weir::run(compiler, compiled, &mut source, &[Shape::default()], 1, &mut each, &mut |_| {});
    all
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

/// The numbers of packets of each connection of `proto`, in the order of the connections' ends.
fn packets_of(
    proto: &str,
    compiler: &Compiler,
    packets: &[MemoryPacket],
    context: [&[&str]; 2],
) -> Vec<[u64; 2]> {
    let [ignored, added] = context.map(|names| names.iter().map(ToString::to_string).collect());
    let context = ContextChanges { ignored, added };
    let [interpreted, native] = engines().map(|options| {
        let options = Options { context: context.clone(), ..options };
        let compiled = compile(compiler, &[ask("", Want::Connections)], &options);
        rows(compiler, &compiled, packets, 1);
        connections_of(compiler, &compiled, packets)
    });
    assert_eq!(format!("{interpreted:?}"), format!("{native:?}"));
    native.iter().filter(|flow| flow.proto == proto).map(|flow| flow.packets).collect()
}

#[test]
fn connections_of_different_networks_are_different() {
    let bytes = |reply: bool| {
        let (from, to) = if reply { (V4[1], V4[0]) } else { (V4[0], V4[1]) };
        let ports = if reply { (53, 40_000) } else { (40_000, 53) };
        ipv4((from, to), 17, 1, 0, &[], &udp(ports, b"x"))
    };
    let vni = |number: u8, reply| {
        let inner = ethernet(0x0800, &bytes(reply));
        let header = [8, 0, 0, 0, 0, 0, number, 0];
        let outer = udp((5555, 4789), &[&header[..], &inner].concat());
        ethernet(0x0800, &ipv4((V4[2], V4[3]), 17, 1, 0, &[], &outer))
    };
    let tagged = |ids: &[u16], reply| {
        let (mut ethertype, mut frame) = (0x0800, bytes(reply));
        for &id in ids.iter().rev() {
            (ethertype, frame) = (0x8100, vlan(id, ethertype, &frame));
        }
        ethernet(ethertype, &frame)
    };
    // Of each network a request and two replies; networks differ in the order of two tags, too. VLAN 0 is
    // none.
    let networks: Vec<Box<dyn Fn(bool) -> Vec<u8>>> = vec![
        Box::new(|reply| tagged(if reply { &[0] } else { &[] }, reply)),
        Box::new(|reply| tagged(&[7], reply)),
        Box::new(|reply| tagged(&[8], reply)),
        Box::new(|reply| tagged(&[7, 8], reply)),
        Box::new(|reply| tagged(&[8, 7], reply)),
        Box::new(|reply| vni(7, reply)),
        Box::new(|reply| vni(9, reply)),
    ];
    let mut packets = vec![];
    for reply in [false, true, true] {
        for network in &networks {
            let time = Timestamp(packets.len() as i64 * 1_000_000);
            packets.push(MemoryPacket { time, ..MemoryPacket::ethernet(network(reply)) });
        }
    }
    let compiler = Compiler::default();
    // The outer datagrams of VXLAN are one more connection.
    let mut apart = vec![[1, 2]; networks.len()];
    apart.push([6, 0]);
    let mut found = packets_of("udp", &compiler, &packets, [&[], &[]]);
    found.sort_unstable();
    assert_eq!(found, apart);
    let mut found = packets_of("udp", &compiler, &packets, [&["vlan.id"], &[]]);
    found.sort_unstable();
    assert_eq!(found, [[1, 2], [1, 2], [5, 10], [6, 0]]);
    let found = packets_of("udp", &compiler, &packets, [&["vlan.id", "vxlan.vni"], &[]]);
    assert_eq!(found.iter().map(|[from, to]| from + to).sum::<u64>(), 27);
    assert_eq!(found.len(), 2);
    // Both directions have addresses of their own, so an added address divides them.
    let found = packets_of("udp", &compiler, &packets[..1], [&[], &["ip.src"]]);
    assert_eq!(found, [[1, 0]]);
    let found = packets_of("udp", &compiler, &packets, [&[], &["ip.src"]]);
    assert_eq!(found.len(), 2 * networks.len() + 1);
}

#[test]
fn a_protocol_adds_its_own_numbers_to_the_context() {
    let packet = |number, session: u8| datagram(number, V4[0], &[0, session]);
    let packets = [packet(1, 1), packet(2, 2), packet(3, 1), packet(4, 3)];
    let compiler = compiler(SESSION);
    assert_eq!(packets_of("talk", &compiler, &packets, [&[], &[]]), [[2, 0], [1, 0], [1, 0]]);
    assert_eq!(packets_of("talk", &compiler, &packets, [&["talk.session"], &[]]), [[4, 0]]);
    assert_eq!(packets_of("talk", &compiler, &packets, [&[], &["udp.length"]]), [[2, 0], [1, 0], [1, 0]]);
}

/// A field that is called as the context is in key layouts does not replace it.
#[test]
fn a_field_may_be_called_context() {
    let text = "
//! It hands up a number called context
protocol shell {
    header { context: u8 }
    payload = rest
}
//! Connections in the shell
protocol talk {
    header { port: u8 }
    let shown = below.context
    instance (below.src, below.dst, port) <-> (below.dst, below.src, port)
    each side { packets: u64 }
    count { me.packets += 1 + shown - shown }
    timeout 1m
}
//! Over UDP
stack shells extends internet { udp -> shell when dst_port == 7777   shell -> talk }
";
    let compiler = compiler(text);
    let packets = [1, 2, 1].map(|shell| datagram(i64::from(shell), V4[0], &[shell, 5]));
    assert_eq!(packets_of("talk", &compiler, &packets, [&[], &[]]), [[3, 0]]);
    assert_eq!(packets_of("talk", &compiler, &packets, [&[], &["shell.context"]]), [[2, 0], [1, 0]]);
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
