//! Output for the capture in `examples/` is compared with its servers' logs.

use crate::properties::drive::{FIRST_LIGHT, TLS_SESSIONS, ask, compile, in_memory, read_capture, rows};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use weir::packet::Value;
use weir::sessions::SessionRegistry;
use weir::{Ask, Compiler, Connection, Item, Log, Options, Shape, Want};

fn expectation() -> Json {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/first-light.expect.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn each_item(asks: &[Ask], take: &mut dyn FnMut(Item<'_>)) {
    let compiler = Compiler::default();
    let compiled = compile(&compiler, asks, &Options::default());
    let packets = read_capture(FIRST_LIGHT);
    let mut source = in_memory(&packets);
    let shapes = vec![Shape::default(); asks.len()];
    let mut each = |_: usize, item: Item<'_>| {
        take(item);
        Ok::<(), Infallible>(())
    };
    let Ok(_) = weir::run(&compiler, &compiled, &mut source, &shapes, 1, &mut each, &mut |_| {});
}

fn connections(filter: &str) -> Vec<Connection> {
    let mut connections = vec![];
    each_item(&[ask(filter, Want::Connections)], &mut |item| match item {
        Item::Connection(connection) => connections.push(*connection),
        other => panic!("{other:?} instead of a connection"),
    });
    connections
}

fn packets(filter: &str) -> u64 {
    let compiler = Compiler::default();
    let compiled = compile(&compiler, &[ask(filter, Want::Packets)], &Options::default());
    rows(&compiler, &compiled, &read_capture(FIRST_LIGHT), 1).1.matched[0]
}

/// The capture twice, the second time a minute later with other sequence numbers: the same ports, other
/// connections.
#[test]
fn a_connection_whose_ports_come_again_is_another_one() {
    let once = read_capture(FIRST_LIGHT);
    let mut twice = once.clone();
    for packet in &once {
        let mut again = packet.clone();
        again.time.0 += 60_000_000_000;
        let bytes = &mut again.frame;
        let ip = if bytes[12..14] == [0x81, 0] { 18 } else { 14 };
        let at = match [bytes[ip - 2], bytes[ip - 1]] {
            [8, 0] if bytes[ip + 9] == 6 => ip + usize::from(bytes[ip] & 15) * 4,
            [0x86, 0xdd] if bytes[ip + 6] == 6 => ip + 40,
            _ => continue,
        };
        let fields = if bytes[at + 13] & 0x10 != 0 { &[4, 8][..] } else { &[4] };
        for field in fields {
            let number: [u8; 4] = bytes[at + field..at + field + 4].try_into().unwrap();
            let number = u32::from_be_bytes(number).wrapping_add(0x0123_4567);
            bytes[at + field..at + field + 4].copy_from_slice(&number.to_be_bytes());
        }
        twice.push(again);
    }
    let compiler = Compiler::default();
    for want in [TLS_SESSIONS, Want::Connections] {
        let compiled = compile(&compiler, &[ask("tcp", want)], &Options::default());
        let [once, twice] = [&once, &twice].map(|p| rows(&compiler, &compiled, p, 1).1.matched[0]);
        assert!(once > 0);
        // The end of a connection must be noticed even after its last question is answered.
        assert_eq!(twice, 2 * once, "{want:?}");
    }
}

/// Client, server, server name, version, cipher, chosen protocol, whether resumed.
type Handshake = (String, String, String, String, String, String, bool);

#[test]
fn handshakes_are_those_that_the_servers_completed() {
    let column = |name: &str| {
        Log::of(SessionRegistry::builtin(), "tls")
            .unwrap()
            .columns()
            .iter()
            .position(|c| c.name == name)
            .unwrap()
    };
    let mut found: Vec<Handshake> = vec![];
    let mut unfinished = 0;
    let mut rows: Vec<Vec<Value<'static>>> = vec![];
    each_item(&[ask("", TLS_SESSIONS)], &mut |item| {
        let Item::Rows(made) = item else { panic!("{item:?} instead of a session") };
        rows.extend(made.iter().map(|row| row.iter().map(|cell| cell.value().into_owned()).collect()));
    });
    for row in rows {
        let text = |name: &str| match &row[column(name)] {
            Value::Text(text) => text.to_string(),
            Value::Address(address) => address.to_string(),
            Value::Unsigned(number) => number.to_string(),
            _ => String::new(),
        };
        if row[column("established")] != Value::Bool(true) {
            unfinished += 1;
            continue;
        }
        found.push((
            format!("{} {}", text("id.orig_h"), text("id.orig_p")),
            format!("{} {}", text("id.resp_h"), text("id.resp_p")),
            text("server_name"),
            text("version"),
            text("cipher"),
            text("next_protocol"),
            row[column("resumed")] == Value::Bool(true),
        ));
    }
    let expect = expectation();
    let mut wanted: Vec<Handshake> = vec![];
    for logged in expect["tls"].as_array().unwrap() {
        let text = |name: &str| logged[name].as_str().unwrap().to_string();
        wanted.push((
            format!("{} {}", text("client"), logged["client_port"]),
            format!("{} {}", text("server"), logged["server_port"]),
            text("server_name"),
            text("version"),
            text("cipher"),
            text("alpn"),
            logged["resumed"].as_bool().unwrap(),
        ));
    }
    found.sort();
    wanted.sort();
    // Servers log their own names for versions, and Zeek's columns have only unencrypted values: in TLS 1.3
    // the chosen protocol is encrypted.
    for row in found.iter_mut().chain(&mut wanted) {
        row.3 = row.3.replace(['v', '.'], "");
        row.4 = String::new();
        if row.3 == "TLS13" {
            row.5 = String::new();
        }
    }
    assert_eq!(found.len() as u64, expect["tls_handshakes_completed"].as_u64().unwrap());
    for (found, wanted) in found.iter().zip(&wanted) {
        assert_eq!(found, wanted);
    }
    assert_eq!(unfinished, expect["tls_handshakes_failed"].as_u64().unwrap());
    let resumed = found.iter().filter(|row| row.6).count() as u64;
    assert_eq!(resumed, expect["tls_handshakes_resumed"].as_u64().unwrap());
}

#[test]
fn connections_are_those_that_the_servers_logged() {
    let expect = expectation();
    let key = |c: &Connection| format!("{} {} {} {}", c.orig_h, c.orig_p, c.resp_h, c.resp_p);
    let of_log = |list: &str| -> BTreeMap<String, u64> {
        let mut keys = BTreeMap::new();
        for row in expect[list].as_array().unwrap() {
            let text = |name: &str| row[name].as_str().unwrap();
            let key = format!(
                "{} {} {} {}",
                text("client"),
                row["client_port"],
                text("server"),
                row["server_port"]
            );
            *keys.entry(key).or_default() += row["bytes_sent"].as_u64().unwrap_or(0);
        }
        keys
    };
    let web = connections("tcp.port == 80");
    let logged = of_log("http");
    let answered: Vec<&Connection> = web.iter().filter(|c| logged.contains_key(&key(c))).collect();
    assert_eq!(answered.len(), logged.len(), "every connection that a server logged is there, once");
    assert_eq!(logged.len() as u64, expect["http_connections_in_the_clear"].as_u64().unwrap());
    for connection in answered {
        assert_eq!(connection.proto, "tcp");
        // For aborted connections the server's count may differ from the bytes on the wire.
        if connection.conn_state == "SF" && connection.missed_bytes == 0 {
            assert_eq!(connection.bytes.unwrap()[1], logged[&key(connection)], "{}", key(connection));
        }
    }
    let secure = connections("tcp.port == 443");
    for key_of in of_log("tls").keys() {
        assert_eq!(secure.iter().filter(|c| &key(c) == key_of).count(), 1, "{key_of}");
    }
    let shells = connections("tcp.port == 22");
    assert_eq!(shells.len() as u64, expect["ssh_sessions"].as_u64().unwrap());
}

#[test]
fn packets_are_counted_as_logged() {
    let expect = expectation();
    let count = |name: &str| expect[name].as_u64().unwrap();
    assert_eq!(packets(""), count("frames"));
    let requests = "icmp.type == 8 and not icmp.type == 3 or icmpv6.type == 128";
    let replies = "icmp.type == 0 or icmpv6.type == 129";
    // Fragments arrive in order, and match with the last one.
    let last =
        |filter: &str| packets(&format!("({filter}) and not (ip.flags.mf == 1 or ipv6.fraghdr.more == 1)"));
    assert_eq!(last(requests), count("echo_requests_sent"));
    assert_eq!(last(replies), count("echo_replies_received"));
    assert!(packets(requests) > last(requests), "some are fragmented");
    let queries = packets("udp.dstport == 53 and not icmp and not icmpv6");
    assert!(queries >= 50, "{queries}");
}

#[test]
fn flags_are_one_number_too() {
    let alone = "tcp.flags.fin == 0 and tcp.flags.reset == 0 and tcp.flags.push == 0 and tcp.flags.urg == 0 \
                 and tcp.flags.ece == 0 and tcp.flags.cwr == 0 and tcp.flags.ae == 0";
    let (syn, ack) = ("tcp.flags.syn == 1", "tcp.flags.ack == 1");
    let same = [
        ("tcp.flags == 0x12".to_string(), format!("{syn} and {ack} and {alone}")),
        ("tcp.flags & 0x02".to_string(), syn.to_string()),
        ("tcp.flags & 0x12 == 0x10".to_string(), format!("{ack} and not {syn}")),
        (
            "ip.flags == 2".to_string(),
            "ip.flags.df == 1 and ip.flags.mf == 0 and ip.flags.rb == 0".to_string(),
        ),
    ];
    for (whole, parts) in same {
        assert!(packets(&whole) > 0, "{whole}");
        assert_eq!(packets(&whole), packets(&parts), "{whole}");
    }
}

#[test]
fn bytes_are_looked_for_in_what_is_no_bytes_field() {
    let sources = packets("eth.src contains 02:00");
    assert!(sources > 0);
    let anywhere: Vec<String> = (0..5).map(|at| format!("eth.src[{at}:2] == 02:00")).collect();
    assert_eq!(sources, packets(&anywhere.join(" or ")));
    assert_eq!(packets("eth.src not contains 02:00"), packets("eth") - sources);
}

#[test]
fn addresses_have_an_order() {
    let (below, rest) = (packets("ip.src < 192.0.2.11"), packets("ip.src >= 192.0.2.11"));
    assert!(below > 0 && rest > 0);
    assert_eq!(below, packets("ip.src in 0.0.0.0..192.0.2.10"));
    assert_eq!(rest, packets("ip.src in 192.0.2.11..255.255.255.255"));
    assert_eq!(below + packets("not ip.src < 192.0.2.11"), packets(""));
    assert_eq!(packets("ip.src > 192.0.2.0/24"), packets("ip.src in 192.0.3.0..255.255.255.255"));
    assert_eq!(packets("ip.src <= 192.0.2.0/24"), packets("ip.src in 0.0.0.0..192.0.2.255"));
    let old = packets("ipv6.src < 2001:db8:2::");
    assert_eq!(old, packets("ipv6.src in ::..2001:db8:1:ffff:ffff:ffff:ffff:ffff"));
    // IPv4 and IPv6 addresses have separate orders.
    let connections = connections("conn.id.orig_h > 192.0.2.9");
    let is_above =
        |c: &Connection| matches!(c.orig_h, IpAddr::V4(address) if address > Ipv4Addr::new(192, 0, 2, 9));
    assert!(!connections.is_empty() && connections.iter().all(is_above));
}
