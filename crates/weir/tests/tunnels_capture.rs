//! What the ends of tunnels counted while `examples/tunnels.pcap` was recorded is what we find in them.

mod support;

use std::cell::RefCell;
use support::{Capture, Found, Row, ask, same};
use weir::sessions::http::HttpExchange;
use weir::{Compiler, Engine, Frame, Options};

static CAPTURE: Capture = Capture::new("tunnels", ask_all).over("gtp");

fn ask_all<'c>(engine: &mut Engine<'c>, found: &'c RefCell<Found>) {
    ask::<HttpExchange>(engine, "http", found);
}

fn logged(log: &str) -> Vec<Row> {
    CAPTURE.logged(log)
}

/// How many packets match, asked over a stack.
fn count(stack: &str, filter: &str) -> String {
    let mut compiler = Compiler::default();
    compiler.use_stack(stack).unwrap();
    let mut packets = 0u64;
    let mut engine = Engine::with(compiler, Options::default());
    engine.subscribe(filter, |_: &Frame| packets += 1).unwrap();
    engine.read([CAPTURE.file("pcap")]).unwrap();
    drop(engine);
    packets.to_string()
}

/// What tells a tunnel, as it is set up.
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
    // The client's are those that the server received.
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
        assert_eq!(count("gtp", &filter), row.text("received"), "{tunnel}, to the {end}: {filter}");
    }
}

#[test]
fn pings_go_through_the_tunnel_they_were_sent_through() {
    for row in logged("pings") {
        let tunnel = row.text("tunnel");
        for (kind, log) in [(8, "sent"), (0, "received")] {
            let filter = format!("{} and icmp.type == {kind}", filter(tunnel));
            assert_eq!(count("gtp", &filter), row.text(log), "{filter}");
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
fn frames_are_as_many_as_tcpdump_recorded() {
    CAPTURE.assert_frames();
}
