//! The protocol of a connection is recognised from its first bytes, however they are segmented.

use crate::properties::drive::{MemoryPacket, all_sessions, ask, compile, rows};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use weir::packet::Direction;
use weir::sessions::{ProtocolSet, SessionRegistry};
use weir::stream::{OverloadParams, StreamParams};
use weir::{Ask, Compiled, Compiler, Counters, Limits, Need, Options, Want};
use weir_testing::Random;
use weir_testing::conversation::{Act, Conversation, Step};
use weir_testing::frames::{ACK, PSH, SYN, V4, ethernet, give_times, ipv4, tcp, udp};

/// A segment of the client (0) or the server (1).
fn segment(side: usize, flags: u8, numbers: (u32, u32), payload: &[u8]) -> MemoryPacket {
    let ports = [(40_000, 443), (443, 40_000)][side];
    let segment = tcp(ports, numbers.0, numbers.1, flags, &[], payload);
    MemoryPacket::ethernet(ethernet(0x0800, &ipv4((V4[side], V4[1 - side]), 6, 1, 0, &[], &segment)))
}

/// A hello in one record, padded to `bytes` by an extension (RFC 7685).
fn hello(kind: u8, bytes: usize) -> Vec<u8> {
    let sized = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
    let rest: &[u8] = if kind == 1 { &[0, 2, 0x13, 1, 1, 0] } else { &[0x13, 1, 0] };
    let fixed = [&[3, 3][..], &[7; 32], &[0], rest].concat();
    let padding = [&[0, 21][..], &sized(&vec![0; bytes - 4 - fixed.len() - 2 - 4 - 5])].concat();
    let body = [fixed, sized(&padding)].concat();
    let message = [&[kind, 0][..], &sized(&body)].concat();
    [&[22, 3, 1][..], &sized(&message)].concat()
}

/// Handshakes found, and the counters.
fn found(mut packets: Vec<MemoryPacket>) -> (u64, Counters) {
    static PROGRAM: OnceLock<(Compiler, Compiled)> = OnceLock::new();
    let (compiler, compiled) = PROGRAM.get_or_init(|| {
        let compiler = Compiler::default();
        let compiled = compile(&compiler, &[ask("", all_sessions())], &Options::default());
        (compiler, compiled)
    });
    give_times(&mut Random::new(1), &mut packets);
    let outcome = rows(compiler, compiled, &packets, 1).1;
    (outcome.matched[0], outcome.counters)
}

#[test]
fn a_hello_larger_than_what_is_kept_is_seen() {
    let hello = hello(1, 6_068);
    assert_eq!(hello.len(), 6_068);
    let greeting = [
        segment(0, SYN, (99, 0), &[]),
        segment(1, SYN | ACK, (499, 100), &[]),
        // This segment delivers no bytes and decides nothing.
        segment(0, ACK, (100, 500), &[]),
    ];
    let whole = [&greeting[..], &[segment(0, ACK | PSH, (100, 500), &hello)]].concat();
    assert_eq!(found(whole).0, 1);
    // The first segment is not enough to decide; the second one is.
    let (head, tail) = hello.split_at(3);
    let parts = [segment(0, ACK | PSH, (100, 500), head), segment(0, ACK | PSH, (103, 500), tail)];
    assert_eq!(found([&greeting[..], &parts].concat()).0, 1);
}

#[test]
fn a_flight_of_the_server_in_one_piece_is_seen() {
    let flight = [hello(2, 5_000), vec![20, 3, 3, 0, 1, 1]].concat();
    let packets = vec![
        segment(1, SYN | ACK, (499, 100), &[]),
        segment(1, ACK, (500, 100), &[]),
        segment(1, ACK | PSH, (500, 100), &flight),
    ];
    assert_eq!(found(packets).0, 1);
}

/// A conversation over TCP, with `blank` before the first bytes of both sides.
fn conversation(conversation: &Conversation, blank: &[u8]) -> Vec<MemoryPacket> {
    let mut next = [100, 500];
    let mut packets = vec![segment(0, SYN, (99, 0), &[]), segment(1, SYN | ACK, (499, 100), &[])];
    let mut send = |side: usize, bytes: &[u8]| {
        for piece in bytes.chunks(1400) {
            packets.push(segment(side, ACK | PSH, (next[side], next[1 - side]), piece));
            next[side] += piece.len() as u32;
        }
    };
    for (n, step) in conversation.steps.iter().enumerate() {
        let Act::Send(bytes) = &step.act else { continue };
        let is_first = conversation.steps[..n].iter().all(|other| other.from != step.from);
        send(step.from as usize, &[if is_first { blank } else { &[] }, bytes].concat());
    }
    packets
}

/// Servers skip any number of blank lines before a request.
#[test]
fn blank_lines_before_the_first_line_hide_no_text_protocol() {
    let corpus = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus"));
    let mut tried = 0;
    for protocol in SessionRegistry::builtin().protocols() {
        let seeds = fs::read_dir(corpus.join(protocol.name)).into_iter().flatten();
        for seed in seeds
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "talk"))
        {
            let talk = Conversation::parse(&fs::read_to_string(&seed).unwrap());
            let is_text = |from| {
                let line = talk.bytes_of(from);
                let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
                line.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\r'))
            };
            let loses = talk.steps.iter().any(|step| matches!(step.act, Act::Lose(_)));
            if talk.is_datagram || loses || !is_text(Direction::Originator) || !is_text(Direction::Responder)
            {
                continue;
            }
            let plain = found(conversation(&talk, b"")).0;
            for blank in ["\r\n".to_owned(), "\n".repeat(3), "\r\n".repeat(50), "\r\n".repeat(9000)] {
                let behind = found(conversation(&talk, blank.as_bytes())).0;
                assert!(
                    behind >= plain.min(1),
                    "{}: {behind} of {plain} behind {}",
                    seed.display(),
                    blank.len()
                );
            }
            tried += 1;
        }
    }
    assert!(tried > 15, "{tried} conversations");
}

/// The conversations over TCP of the corpus that come whole, in these protocols.
fn whole_conversations(protocols: ProtocolSet) -> Vec<(String, Conversation)> {
    let corpus = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus"));
    let names: Vec<&str> = SessionRegistry::builtin().names(protocols).collect();
    let files = names.iter().flat_map(|name| fs::read_dir(corpus.join(name)).into_iter().flatten());
    let paths = files.map(|entry| entry.unwrap().path());
    let talks = paths.filter(|path| path.extension().is_some_and(|e| e == "talk"));
    let parsed = talks.map(|path| {
        let talk = Conversation::parse(&fs::read_to_string(&path).unwrap());
        (path.display().to_string(), talk)
    });
    let is_whole = |talk: &Conversation| {
        !talk.is_datagram && talk.steps.iter().all(|step| matches!(step.act, Act::Send(_)))
    };
    parsed.filter(|(_, talk)| is_whole(talk) && found(conversation(talk, b"")).0 > 0).collect()
}

/// As `talk`, behind what others said first: the last of them is not the one who begins.
fn behind(talk: &Conversation, words: &[&[u8]]) -> Conversation {
    let mut whole = talk.clone();
    let begins = talk.steps[0].from;
    for (n, words) in words.iter().rev().enumerate() {
        let from = if n % 2 == 0 { begins.other() } else { begins };
        whole.steps.insert(0, Step { from, act: Act::Send(words.to_vec()), ..talk.steps[0].clone() });
    }
    whole
}

/// SOCKS, STARTTLS of protocols that Weir does not know, and anything else.
#[test]
fn a_protocol_is_recognised_behind_others() {
    let talks = whole_conversations(SessionRegistry::builtin().late());
    assert!(talks.len() > 15, "{} conversations", talks.len());
    let socks: [&[u8]; 4] =
        [&[5, 1, 0], &[5, 0], &[5, 1, 0, 1, 1, 2, 3, 4, 1, 187], &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]];
    let lines: [&[u8]; 3] = [b"200 news ready\r\n", b"STARTTLS\r\n", b"382 begin\r\n"];
    let long = [7; 3000];
    let turns: [&[u8]; 12] = [&long; 12];
    let mut missing = vec![];
    for (name, talk) in &talks {
        for (what, words) in
            [("socks", &socks[..]), ("lines", &lines), ("two", &lines[1..]), ("many", &turns)]
        {
            if found(conversation(&behind(talk, words), b"")).0 == 0 {
                missing.push(format!("{name} behind {what}"));
            }
        }
        // Not behind more than the bound.
        let beyond: Vec<&[u8]> = [&b"?"[..]; 40].to_vec();
        assert_eq!(found(conversation(&behind(talk, &beyond), b"")).0, 0, "{name}");
    }
    assert_eq!(missing, Vec::<String>::new());
}

/// The PROXY protocol, whose headers come in any number of segments, in front of every protocol; also those
/// in which the server speaks first.
#[test]
fn a_proxy_header_hides_no_protocol() {
    let two = [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..], &[9; 12]].concat();
    let talks = whole_conversations(SessionRegistry::builtin().where_(|_| true));
    assert!(talks.len() > 40, "{} conversations", talks.len());
    for (name, talk) in talks {
        let plain = found(conversation(&talk, b"")).0;
        for header in [&b"PROXY TCP4 192.0.2.1 192.0.2.2 40000 443\r\n"[..], b"PROXY UNKNOWN\r\n", &two] {
            for piece in [1, 5, 1000] {
                let mut whole = talk.clone();
                for piece in header.chunks(piece).rev() {
                    let act = Act::Send(piece.to_vec());
                    whole.steps.insert(0, Step { from: Direction::Originator, act, ..talk.steps[0].clone() });
                }
                assert_eq!(
                    found(conversation(&whole, b"")).0,
                    plain,
                    "{name} behind {header:?} in pieces of {piece}"
                );
            }
        }
    }
}

/// Whatever is encrypted looks like noise: many chances must not mean wrong names.
#[test]
fn bytes_of_noise_have_no_service() {
    const PORTS: [u16; 20] = [
        53, 80, 123, 161, 443, 22, 25, 110, 143, 502, 1812, 1883, 3306, 3389, 3478, 5060, 5353, 5432, 6379,
        40_001,
    ];
    let mut random = Random::new(47);
    let mut packets = vec![];
    for flow in 0..10_000u16 {
        let ports = [20_000 + flow, random.pick(&PORTS)];
        let mut next = [1, 1];
        for turn in 0..12 {
            let side = turn % 2;
            let payload: Vec<u8> = (0..20 + random.below(100)).map(|_| random.bits() as u8).collect();
            let ends = (ports[side], ports[1 - side]);
            let (protocol, message) = match flow % 4 {
                0 => (6, tcp(ends, next[side], next[1 - side], ACK | PSH, &[], &payload)),
                _ => (17, udp(ends, &payload)),
            };
            next[side] += payload.len() as u32;
            let addresses = (V4[side], V4[1 - side]);
            let frame = ethernet(0x0800, &ipv4(addresses, protocol, 1, 0, &[], &message));
            packets.push(MemoryPacket::ethernet(frame));
        }
    }
    let compiler = Compiler::default();
    let compiled = compile(&compiler, &[ask("", all_sessions())], &Options::default());
    let (sessions, outcome) = rows(&compiler, &compiled, &packets, 1);
    assert_eq!(sessions, Vec::<String>::new());
    assert_eq!(outcome.counters.flow.flows_created, 10_000);
}

/// The service of connections that begin before the capture, each of these turns: the side, bytes missing
/// before the turn, and the bytes.
fn services_of(talks: &[Vec<(usize, u32, Vec<u8>)>]) -> Vec<Option<String>> {
    let mut packets = vec![];
    for (port, talk) in (20_000..).zip(talks) {
        let mut next = [7_000, 9_000];
        for (side, missing, bytes) in talk {
            next[*side] += missing;
            for piece in bytes.chunks(1_400) {
                let ends = [(port, 9_443), (9_443, port)][*side];
                let segment = tcp(ends, next[*side], next[1 - side], ACK | PSH, &[], piece);
                let frame = ipv4((V4[*side], V4[1 - side]), 6, 1, 0, &[], &segment);
                packets.push(MemoryPacket::ethernet(ethernet(0x0800, &frame)));
                next[*side] += piece.len() as u32;
            }
        }
    }
    give_times(&mut Random::new(1), &mut packets);
    let compiler = Compiler::default();
    let need = Need { service: true, ..Need::default() };
    let connections = Ask { filter: "tcp".into(), need, want: Want::Connections };
    let compiled = compile(&compiler, &[connections, ask("", all_sessions())], &Options::default());
    let (rows, _) = rows(&compiler, &compiled, &packets, 1);
    let mut services = vec![None; talks.len()];
    for row in rows {
        let after = |name: &str| row.split_once(name).map_or("", |(_, rest)| rest);
        let port = |name: &str| after(name).split(',').next().and_then(|port| port.parse::<usize>().ok());
        let port = port("orig_p: ").into_iter().chain(port("resp_p: ")).find(|port| *port != 9_443);
        let service = after("service: ").strip_prefix("Some(\"").and_then(|rest| rest.split('"').next());
        services[port.expect("a connection") - 20_000] = service.map(str::to_owned);
    }
    services
}

#[test]
fn records_of_a_running_tls_connection_are_recognised() {
    let mut random = Random::new(48);
    let mut record = |content: u8, version: u8, length: usize| {
        let length_bytes = (length as u16).to_be_bytes();
        let noise = (0..length).map(|_| random.bits() as u8);
        [content, 3, version].into_iter().chain(length_bytes).chain(noise).collect::<Vec<u8>>()
    };
    let running = [
        vec![(0, 0, [record(23, 3, 80), record(23, 3, 34)].concat())],
        vec![(1, 0, record(23, 3, 900)), (0, 0, record(23, 3, 40))],
        vec![(0, 0, record(23, 1, 200)), (1, 0, record(23, 1, 16_000))],
        // The responder's first bytes are the rest of a record.
        vec![
            (1, 0, record(23, 3, 3_000)[1_000..].to_vec()),
            (0, 0, record(23, 3, 50)),
            (1, 0, record(23, 3, 60)),
        ],
        vec![
            (0, 0, record(23, 3, 900)[300..].to_vec()),
            (1, 0, [record(23, 3, 2), record(21, 3, 26)].concat()),
        ],
        // Behind a gap.
        vec![(0, 0, b"rest".to_vec()), (0, 5_000, [record(23, 3, 70), record(23, 3, 90)].concat())],
        // The tail of a handshake.
        vec![(1, 0, [record(20, 3, 1), record(22, 3, 40)].concat()), (0, 0, record(23, 3, 100))],
    ];
    assert_eq!(services_of(&running), vec![Some("ssl".to_owned()); running.len()]);
    let other = [
        // An article of NNTP begins as greetings of SMTP and FTP do.
        vec![
            (1, 0, b"200 news\r\n".to_vec()),
            (0, 0, b"ARTICLE 1\r\n".to_vec()),
            (1, 0, b"220 1 <x@ftp.a> article\r\nReceived: by a with ESMTP\r\n\r\n.\r\n".to_vec()),
        ],
        vec![(0, 0, record(23, 3, 80))],
        vec![(0, 0, record(23, 3, 80)), (1, 0, b"something else".to_vec())],
        vec![(0, 0, [record(23, 3, 80), record(25, 3, 80)].concat()), (1, 0, record(22, 9, 80))],
        vec![(0, 0, record(23, 3, 0)), (1, 0, record(23, 3, 0))],
        vec![(0, 0, record(23, 3, 30_000)), (1, 0, record(23, 3, 30_000))],
    ];
    assert_eq!(services_of(&other), vec![None; other.len()]);
}

/// Hellos with keys for after quantum computers have 1.7 kB, and segments any length.
#[test]
fn long_hellos_are_whole_behind_others() {
    let hello = hello(1, 1_700);
    let proxy = b"PROXY TCP4 192.0.2.1 192.0.2.2 40000 443\r\n";
    let handshake = || vec![segment(0, SYN, (99, 0), &[]), segment(1, SYN | ACK, (499, 100), &[])];
    // A segment for each byte would have pauses that end the connection.
    for length in [7, 500, 1_025, 1_460, 4_000] {
        let mut behind_socks = handshake();
        behind_socks.push(segment(0, ACK, (100, 500), &[5, 1, 0]));
        behind_socks.push(segment(1, ACK, (500, 103), &[5, 0]));
        let mut at = 103;
        for piece in hello.chunks(length) {
            behind_socks.push(segment(0, ACK, (at, 502), piece));
            at += piece.len() as u32;
        }
        let mut behind_proxy = handshake();
        let mut at = 100;
        for piece in [&proxy[..], &hello].concat().chunks(length) {
            behind_proxy.push(segment(0, ACK, (at, 500), piece));
            at += piece.len() as u32;
        }
        for (what, packets) in [("socks", behind_socks), ("proxy", behind_proxy)] {
            assert_eq!(found(packets).0, 1, "behind {what} in segments of {length} bytes");
        }
    }
}

#[test]
fn what_tells_nothing_within_the_bound_is_given_up() {
    // A single record, which is longer than what is kept.
    let record = [&[23, 3, 3, 0x20, 0][..], &[7; 5_000]].concat();
    let (handshakes, counters) =
        found(vec![segment(0, SYN, (99, 0), &[]), segment(0, ACK, (100, 500), &record)]);
    assert_eq!((handshakes, counters.session.probes_cut), (0, 1));
}

/// Calls through address translators have STUN, DTLS and RTP on one pair of ports (RFC 7983).
#[test]
fn protocols_that_share_datagrams_are_told_apart() {
    let ports = [(50_000, 60_000), (60_000, 50_000)];
    let datagram = |side: usize, payload: &[u8]| {
        let ends = (V4[side], V4[1 - side]);
        MemoryPacket::ethernet(ethernet(0x0800, &ipv4(ends, 17, 1, 0, &[], &udp(ports[side], payload))))
    };
    let stun =
        |kind: u16, id: u8| [&kind.to_be_bytes()[..], &[0, 0, 0x21, 0x12, 0xa4, 0x42], &[id; 12]].concat();
    let rtp = |number: u16| {
        let clock = u32::from(number) * 160;
        [&[0x80, 0][..], &number.to_be_bytes(), &clock.to_be_bytes(), &[1, 2, 3, 4], &[0x55; 160]].concat()
    };
    let mut packets = vec![datagram(0, &stun(1, 7))];
    packets.extend((100..120).map(|number| datagram(0, &rtp(number))));
    // The response to the first request, and another request between media packets.
    packets.extend([datagram(1, &stun(0x0101, 7)), datagram(0, &stun(1, 8))]);
    packets.extend((120..140).map(|number| datagram(0, &rtp(number))));
    packets.push(datagram(1, &stun(0x0101, 8)));
    give_times(&mut Random::new(1), &mut packets);
    let compiler = Compiler::default();
    let asks = ["stun", "rtp", ""].map(|filter| ask(filter, all_sessions()));
    let compiled = compile(&compiler, &asks, &Options::default());
    assert_eq!(rows(&compiler, &compiled, &packets, 1).1.matched, [2, 1, 3]);
    // Without a question for STUN, its datagrams are still probed for RTP.
    let alone = compile(&compiler, &[ask("", sessions_of("rtp"))], &Options::default());
    let (found, _) = rows(&compiler, &alone, &packets, 1);
    assert!(found.len() == 1 && found[0].contains("Unsigned(40)"), "{found:?}");
}

/// The first datagrams of a flow do not decide for ever: a client may use its port for another purpose, an
/// earlier one's datagrams may be late, or a protocol may have been recognised by a weak sign.
#[test]
fn a_protocol_of_datagrams_hides_no_other() {
    let registry = SessionRegistry::builtin();
    let corpus = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus"));
    let over_udp: Vec<_> =
        registry.protocols().iter().filter(|protocol| protocol.transports.contains(&"udp")).collect();
    let asks: Vec<Ask> = over_udp.iter().map(|protocol| ask(protocol.name, all_sessions())).collect();
    let compiler = Compiler::default();
    let compiled = compile(&compiler, &asks, &Options::default());
    let sessions = |talks: &[&Conversation], port: u16| {
        let datagrams = talks.iter().flat_map(|talk| &talk.steps).filter_map(|step| {
            let Act::Send(bytes) = &step.act else { return None };
            let side = step.from as usize;
            let ends = ([40_001, port][side], [port, 40_001][side]);
            let packet = ipv4((V4[side], V4[1 - side]), 17, 1, 0, &[], &udp(ends, bytes));
            Some(MemoryPacket::ethernet(ethernet(0x0800, &packet)))
        });
        let mut packets: Vec<_> = datagrams.collect();
        give_times(&mut Random::new(1), &mut packets);
        rows(&compiler, &compiled, &packets, 1).1.matched
    };
    let port = |number: usize| over_udp[number].ports.first().copied().unwrap_or(40_002);
    let talk_of = |number: usize| {
        let mut paths: Vec<_> = fs::read_dir(corpus.join(over_udp[number].name)).unwrap().collect();
        paths.sort_by_key(|entry| entry.as_ref().unwrap().path());
        let paths = paths.into_iter().map(|entry| entry.unwrap().path());
        let texts = paths.filter(|path| path.extension().is_some_and(|e| e == "talk"));
        let mut talks = texts.map(|path| Conversation::parse(&fs::read_to_string(path).unwrap()));
        talks.find(|talk| talk.is_datagram && sessions(&[talk], port(number))[number] > 0)
    };
    let talks: Vec<_> = (0..over_udp.len()).filter_map(|number| Some((number, talk_of(number)?))).collect();
    assert!(talks.len() > 12, "{} protocols", talks.len());
    // Encrypted packets of QUIC have any other first byte than those of STUN and DTLS (RFC 9443), and once
    // the torrent is known, nothing more of its flow is read.
    let may_hide = |number: usize, talk: &Conversation| match over_udp[number].name {
        "bittorrent" => true,
        "quic" => talk
            .steps
            .iter()
            .any(|step| matches!(&step.act, Act::Send(bytes) if !matches!(bytes[0], 0..=3 | 20..=63))),
        _ => false,
    };
    let mut missing = vec![];
    for (first, before) in &talks {
        for (second, talk) in talks.iter().filter(|(_, talk)| !may_hide(*first, talk)) {
            let alone = sessions(&[talk], port(*second))[*second];
            let behind = sessions(&[before, talk], port(*second))[*second];
            if first != second && behind < alone {
                let names = [first, second].map(|number| over_udp[*number].name);
                missing.push(format!("{} behind {}: {behind} of {alone}", names[1], names[0]));
            }
        }
    }
    // Nor does a datagram that the capture cut, which a probe may accept and its parser refuse.
    let (_, dns) = talks.iter().find(|(number, _)| over_udp[*number].name == "dns").expect("a talk of DNS");
    let dns_number = over_udp.iter().position(|protocol| protocol.name == "dns").expect("it is there");
    let others = talks.iter().filter(|(number, talk)| *number != dns_number && !may_hide(*number, talk));
    for (number, talk) in others {
        let alone = sessions(&[dns], port(*number))[dns_number];
        let Act::Send(bytes) = &talk.steps[0].act else { continue };
        for length in (1..bytes.len()).step_by(7) {
            let act = Act::Send(bytes[..length].to_vec());
            let cut = Conversation {
                steps: vec![Step { act, ..talk.steps[0].clone() }],
                ..Conversation::clone(talk)
            };
            if sessions(&[&cut, dns], port(*number))[dns_number] < alone {
                missing.push(format!("dns behind {length} bytes of {}", over_udp[*number].name));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

/// Out-of-order segments hold no bytes if no question wants them: none asks for streams, or the protocol is
/// known to be another one.
#[test]
fn what_waits_unwanted_holds_no_bytes() {
    let begun = [
        segment(0, SYN, (99, 0), &[]),
        segment(1, SYN | ACK, (499, 100), &[]),
        segment(0, ACK | PSH, (100, 500), b"this is no hello of any kind\r\n"),
    ];
    let early = (1..41).map(|n| segment(0, ACK, (1000 + 100 * n, 500), &[7; 100]));
    let mut packets: Vec<MemoryPacket> = begun.into_iter().chain(early).collect();
    give_times(&mut Random::new(1), &mut packets);
    // No block may be pinned, so all kept bytes are copied and counted.
    let overload = OverloadParams { memory_max: 16 << 10, ..OverloadParams::default() };
    // Nor may TLS follow what is there.
    let limits = Limits { late_bytes_max: 0, ..Limits::default() };
    let options = Options { overload, limits, ..Options::default() };
    let counted = |wants: &[Want]| {
        let compiler = Compiler::default();
        let asks: Vec<Ask> = wants.iter().map(|&want| ask("tcp", want)).collect();
        rows(&compiler, &compile(&compiler, &asks, &options), &packets, 1).1.counters.sequence
    };
    for wants in [&[Want::Connections][..], &[Want::Connections, sessions_of("tls")]] {
        let counters = counted(wants);
        assert_eq!((counters.queued, counters.copied), (40, 0));
    }
    assert!(counted(&[Want::Connections, Want::Streams(StreamParams::default())]).copied > 0);
}

/// The sessions of one protocol.
fn sessions_of(name: &str) -> Want {
    Want::Sessions(ProtocolSet::of(SessionRegistry::builtin().number_of(name).expect("it is there")))
}
