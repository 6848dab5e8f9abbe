//! Packets in `examples/tunnels.pcap` are compared with the counters of the tunnel ends during the recording,
//! and SCTP messages with its server's log.

use crate::support::{Capture, Found, Row, ask, same};
use std::cell::RefCell;
use std::collections::BTreeMap;
use weir::sessions::http::HttpExchange;
use weir::{Compiler, Connection, Engine, Frame, Options};

static CAPTURE: Capture = Capture::new("tunnels", ask_all);

fn ask_all<'c>(engine: &mut Engine<'c>, found: &'c RefCell<Found>) {
    ask::<HttpExchange>(engine, "http", found);
}

fn logged(log: &str) -> Vec<Row> {
    CAPTURE.logged(log)
}

/// Number of packets that match a filter over a stack.
fn count(stack: &str, filter: &str) -> String {
    let mut compiler = Compiler::default();
    compiler.use_stack(stack).unwrap();
    count_with(compiler, filter)
}

fn count_with(compiler: Compiler, filter: &str) -> String {
    let mut packets = 0u64;
    let mut engine = Engine::with(compiler, Options::default());
    engine.subscribe(filter, |_: &Frame| packets += 1).unwrap();
    engine.read([CAPTURE.file("pcap")]).unwrap();
    drop(engine);
    packets.to_string()
}

/// A filter for the packets of a tunnel, as it was configured.
fn filter(tunnel: &str) -> &'static str {
    match tunnel {
        "gnv" => "geneve.vni == 42 and ip",
        "gnv6" => "geneve.vni == 43 and ipv6",
        "vxl" => "vxlan.vni == 44 and not ipv6",
        "vxl6" => "vxlan.vni == 45 and ipv6",
        "gre" => "gre.key == 46 and gre.proto == 0x6558 and not ipv6",
        "gre6" => "gre.key == 47 and gre.proto == 0x6558 and ipv6",
        "seq" => "gre.key == 48 and gre.flags.sequence_number == 1",
        "gip" => "gre.proto == 0x0800 and gre.flags.key == 0",
        "es2" => "erspan.version == 1 and erspan.spanid == 49 and erspan.index == 3",
        "es3" => "erspan.version == 2 and erspan.spanid == 50 and erspan.direction == 1 and erspan.hw == 4",
        "gtp" => "gtp.teid == 51 and gtp.message == 255",
        other => panic!("{other} is not set up"),
    }
}

#[test]
fn packets_in_tunnels_are_as_many_as_their_ends_counted() {
    // The server received the client's packets.
    let ends = logged("tunnels").into_iter().filter(|row| !row.is("tunnel", "gtp"));
    for row in ends {
        let (tunnel, end) = (row.text("tunnel"), row.text("end"));
        let sender = match (end, tunnel.ends_with('6')) {
            ("server", false) => "ip.src == 192.0.2.10",
            ("server", true) => "ipv6.src == 2001:db8:1::10",
            (_, false) => "ip.src == 198.51.100.10",
            (_, true) => "ipv6.src == 2001:db8:2::10",
        };
        let filter = format!("{} and {sender}", filter(tunnel));
        assert_eq!(count("internet", &filter), row.text("received"), "{tunnel}, to the {end}: {filter}");
    }
}

#[test]
fn pings_go_through_the_tunnel_they_were_sent_through() {
    for row in logged("pings") {
        let tunnel = row.text("tunnel");
        for (kind, log) in [(8, "sent"), (0, "received")] {
            let filter = format!("{} and icmp.type == {kind}", filter(tunnel));
            assert_eq!(count("internet", &filter), row.text(log), "{filter}");
        }
    }
}

#[test]
fn pages_were_asked_for_inside_tunnels() {
    let wanted = logged("pages").into_iter().map(|row| row.texts(&["client", "uri", "status"]));
    let names = ["orig_h", "http.request.uri", "http.response.code"];
    same(CAPTURE.sessions("http").map(|row| row.texts(&names)).collect(), wanted.collect());
}

#[test]
fn messages_of_sctp_are_those_that_its_server_received() {
    for row in logged("sctp") {
        // The header of a chunk has 16 bytes.
        let length: u32 = row.text("bytes").parse::<u32>().unwrap() + 16;
        let port = row.text("from").rsplit_once(':').unwrap().1;
        let (number, stream) = (row.text("number"), row.text("stream"));
        let filter = format!(
            "sctp.srcport == {port} and sctp.data.tsn == {number} and sctp.data.length == {length} and sctp.data.sid == {stream}"
        );
        assert_eq!(count("internet", &filter), "1", "{filter}");
    }
    // An association has several paths, each a connection here; they share the client's port.
    let mut found = BTreeMap::<u32, [u64; 2]>::new();
    let mut engine = Engine::new();
    let keep = |connection: &Connection| {
        let is_client = connection.resp_p == 9;
        let [sent, received] = connection.packets;
        let port = if is_client { connection.orig_p } else { connection.resp_p };
        let [all_sent, all_received] = found.entry(port).or_default();
        *all_sent += if is_client { sent } else { received };
        *all_received += if is_client { received } else { sent };
    };
    engine.subscribe("sctp", keep).unwrap();
    engine.read([CAPTURE.file("pcap")]).unwrap();
    drop(engine);
    let found = found.into_values().map(|counts| counts.map(|count| count.to_string()).to_vec()).collect();
    let wanted = logged("sctp_packets").into_iter().map(|row| row.texts(&["sent", "received"]));
    same(found, wanted.collect());
}

#[test]
fn messages_of_sctp_have_as_many_bytes_however_many_chunks_they_took() {
    let text = "
        protocol whole {
            header { first: u8 }
            let number = below.tsn \"of its first chunk\"
            let stream = below.sid \"that it came in\"
            let size = layer.length \"bytes\"
            payload = rest
        }
        stack wholes extends sctp { sctpdata -> messages whole }
    ";
    let (log, mut bytes) = (logged("sctp"), 0);
    for row in &log {
        let mut compiler = Compiler::default();
        compiler.add("wholes.weir", text).unwrap();
        let [number, stream, size] = ["number", "stream", "bytes"].map(|name| row.text(name));
        let filter =
            format!("whole.number == {number} and whole.stream == {stream} and whole.size == {size}");
        assert_eq!(count_with(compiler, &filter), "1", "{filter}");
        bytes += size.parse::<u32>().unwrap();
    }
    assert!(bytes > 1_000);
}

#[test]
fn control_messages_of_l2tp_are_those_that_its_ends_received() {
    let log = logged("l2tp");
    for row in &log {
        let (from, to) = match row.text("end") {
            "server" => ("192.0.2.10", "198.51.100.10"),
            _ => ("198.51.100.10", "192.0.2.10"),
        };
        let kind = row.text("type");
        let filter = format!("l2tp.avp.message_type == {kind} and ip.src == {from} and ip.dst == {to}");
        let received = log.iter().filter(|other| other.is("type", kind) && other.is("end", row.text("end")));
        assert_eq!(count("internet", &filter), received.count().to_string(), "{filter}");
        // Packets in the other direction carry the tunnel id that the message's sender assigned.
        let filter = format!("l2tp.tunnel == {} and ip.dst == {from}", row.text("tunnel"));
        assert_ne!(count("internet", &filter), "0", "{filter}");
    }
}

#[test]
fn control_messages_of_pptp_are_those_that_its_ends_logged() {
    let log = logged("pptp");
    for row in &log {
        let (from, kind) = (row.text("from"), row.text("type"));
        let address = if from == "client" { "192.0.2.10" } else { "198.51.100.10" };
        let filter = format!("pptp.control_message_type == {kind} and ip.src == {address}");
        let sent = log.iter().filter(|other| other.is("type", kind) && other.is("from", from));
        assert_eq!(count("pptp", &filter), sent.count().to_string(), "{filter}");
    }
    assert_eq!(count("pptp", "pptp.control_message_type > 0"), log.len().to_string());
}

#[test]
fn frames_are_as_many_as_tcpdump_recorded() {
    CAPTURE.assert_frames();
}
