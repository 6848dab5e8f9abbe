//! Originators, responders and request pairs in captures with missing packets.

use crate::properties::drive::{MemoryPacket, all_sessions, ask, compile, rows, seeds};
use weir::{Compiler, Options, Want};
use weir_testing::Random;
use weir_testing::frames::{ACK, PSH, RST, SYN, V4, ethernet, give_times, ipv4, tcp, udp};

/// Builds a conversation; tracks the bytes sent by each side.
struct Talk {
    sent: [u32; 2],
    packets: Vec<MemoryPacket>,
}

impl Talk {
    fn new() -> Self {
        let mut talk = Self { sent: [99, 499], packets: vec![] };
        talk.say(0, SYN, b"");
        talk.say(1, SYN | ACK, b"");
        talk
    }

    /// Adds a segment of the client (0) or the server (1), which acknowledges all received bytes.
    fn say(&mut self, side: usize, flags: u8, payload: &[u8]) {
        let ports = [(40_000, 80), (80, 40_000)][side];
        let ack = if flags & ACK == 0 { 0 } else { self.sent[1 - side] };
        let segment = tcp(ports, self.sent[side], ack, flags, &[], payload);
        let packet = ipv4((V4[side], V4[1 - side]), 6, 1, 0, &[], &segment);
        self.sent[side] += payload.len() as u32 + u32::from(flags & SYN != 0);
        self.packets.push(MemoryPacket::ethernet(ethernet(0x0800, &packet)));
    }

    fn exchange(&mut self, path: &str, status: u16) {
        self.say(0, ACK | PSH, format!("GET /{path} HTTP/1.1\r\nHost: a.example\r\n\r\n").as_bytes());
        self.say(1, ACK | PSH, format!("HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\nok").as_bytes());
    }

    fn rows(mut self, filter: &str, want: Want) -> Vec<String> {
        give_times(&mut Random::new(1), &mut self.packets);
        let compiler = Compiler::default();
        let compiled = compile(&compiler, &[ask(filter, want)], &Options::default());
        rows(&compiler, &compiled, &self.packets, 1).0
    }
}

#[test]
fn an_answer_does_not_belong_to_the_request_after_the_one_that_is_missing() {
    let mut talk = Talk::new();
    for (path, status) in [("one", 201), ("two", 202), ("three", 203), ("four", 204)] {
        talk.exchange(path, status);
    }
    // The request for `two` was not captured.
    talk.packets.remove(4);
    let rows = talk.rows("http", all_sessions());
    for (path, status) in [("one", 201), ("three", 203), ("four", 204)] {
        let pair =
            rows.iter().filter(|row| row.contains(&format!("/{path}")) && row.contains(&status.to_string()));
        assert_eq!(pair.count(), 1, "{path} {status}: {rows:#?}");
    }
}

/// With two taps, or several queues of a network card, each direction is in order, and one may be ahead of
/// the other.
#[test]
fn answers_belong_to_their_requests_whichever_direction_the_capture_has_first() {
    let conversation = || {
        let mut talk = Talk::new();
        talk.say(0, ACK, b"");
        (0..12).for_each(|number| talk.exchange(&format!("{number}"), 210 + number));
        talk
    };
    let pairs = |talk: Talk| {
        let pair = |row: String| {
            let at = row.find("\"/").expect("a path");
            let status = row.find("Unsigned(2), Unsigned(").expect("a status");
            (row[at..at + 5].to_owned(), row[status..status + 26].to_owned())
        };
        talk.rows("http", all_sessions()).into_iter().map(pair).collect::<Vec<_>>()
    };
    let expected = pairs(conversation());
    assert_eq!(expected.len(), 12);
    for seed in seeds(0..40) {
        let (mut random, mut talk) = (Random::new(seed), conversation());
        let packets = talk.packets.split_off(3);
        let is_client = |packet: &MemoryPacket| packet.frame[26..30] == V4[0];
        let (client, server): (Vec<MemoryPacket>, Vec<MemoryPacket>) =
            packets.into_iter().partition(is_client);
        let mut sides = [client, server].map(|side| side.into_iter().peekable());
        let ahead = random.below(4) as usize;
        while sides.iter_mut().any(|side| side.peek().is_some()) {
            // Which side is ahead: neither, the client, the server, or both.
            let side = if ahead.is_multiple_of(2) { random.below(2) as usize } else { ahead / 2 };
            let next = sides[side].next().or_else(|| sides[1 - side].next());
            talk.packets.extend(next);
        }
        assert_eq!(pairs(talk), expected, "seed {seed}");
    }
}

/// A SYN of the next connection ends the previous one, but is not part of it.
#[test]
fn a_connection_lasts_until_its_own_last_packet() {
    let mut talk = Talk::new();
    talk.exchange("one", 201);
    talk.say(0, RST | ACK, b"");
    // The same ports again, with other sequence numbers.
    talk.sent = [5_000_000, 9_000_000];
    talk.say(0, SYN, b"");
    talk.say(1, SYN | ACK, b"");
    for (number, packet) in talk.packets.iter_mut().enumerate() {
        let seconds = if number < 5 { 0 } else { 3 };
        packet.time.0 = 1_700_000_000_000_000_000 + seconds * 1_000_000_000 + number as i64 * 1_000_000;
    }
    let compiler = Compiler::default();
    let compiled = compile(&compiler, &[ask("tcp", Want::Connections)], &Options::default());
    let rows = rows(&compiler, &compiled, &talk.packets, 1).0;
    let lasts = |row: &String, ns: u64| row.contains(&format!("duration_ns: Some({ns})"));
    assert!(rows.len() == 2 && lasts(&rows[0], 4_000_000) && lasts(&rows[1], 1_000_000), "{rows:#?}");
}

#[test]
fn who_answers_is_the_responder_whoever_is_seen_first() {
    let asked = |first: usize| {
        let mut talk = Talk::new();
        talk.exchange("one", 201);
        talk.exchange("two", 202);
        talk.packets.drain(..first);
        talk.rows("tcp", Want::Connections).remove(0)
    };
    // The whole connection; then from the SYN-ACK, from a request, and from a response.
    for first in [0, 1, 2, 3] {
        let row = asked(first);
        let at = |port: &str| row.find(port).unwrap_or_else(|| panic!("{port} in {row}"));
        assert!(at("40000") < at("80,"), "from packet {first} on: {row}");
    }
}

#[test]
fn who_alone_has_a_port_of_servers_is_the_responder_though_it_is_seen_first() {
    // Ports of the first sender and its peer; whether the first sender is the originator.
    let cases = [
        ((53, 40_000), false),
        ((40_000, 53), true),
        // Both are server ports: DNS among servers, NTP, IKE. Of DHCP, which runs over UDP, 68 is the
        // client's.
        ((53, 53), true),
        ((67, 68), true),
        ((68, 67), true),
        ((123, 123), true),
        ((500, 500), true),
        // Neither is a server port: the first sender is the originator.
        ((8080, 40_000), true),
        ((5353, 5353), true),
        // A client of NFS.
        ((1023, 2049), true),
    ];
    for ((from, to), is_originator) in cases {
        for (protocol, segment) in
            [(17, udp((from, to), b"x")), (6, tcp((from, to), 5000, 1000, ACK | PSH, &[], b"x"))]
        {
            let is_originator = is_originator && (protocol, from) != (17, 67);
            let packet = ethernet(0x0800, &ipv4((V4[1], V4[0]), protocol, 1, 0, &[], &segment));
            let talk = Talk { sent: [0; 2], packets: vec![MemoryPacket::ethernet(packet)] };
            let [row] = &talk.rows("", Want::Connections)[..] else { panic!("one flow") };
            let place = |end: usize| {
                let [a, b, c, d] = V4[end];
                row.find(&format!("{a}.{b}.{c}.{d}")).expect("a status")
            };
            assert_eq!(place(1) < place(0), is_originator, "{protocol} {from} > {to}: {row}");
        }
    }
}
