//! The example programs, run on the capture in the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

const FIRST_LIGHT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/first-light.pcap");
const TUNNELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tunnels.pcap");
const KEY: &str = "0123456789abcdef0123456789abcdeffedcba9876543210fedcba9876543210";

/// Runs an example and returns its output. Cargo builds examples with the tests, in a folder beside them.
fn run(name: &str, args: &[&str]) -> String {
    let tests = std::env::current_exe().expect("this test has a file");
    let examples: PathBuf = tests.parent().and_then(Path::parent).expect("in deps").join("examples");
    let output = Command::new(examples.join(name)).args(args).output().expect("it was built");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn handshakes_under_com_are_logged() {
    let text = run("com_handshakes", &[FIRST_LIGHT]);
    assert_eq!(text.lines().count(), 17);
    assert!(text.lines().all(|line| line.contains(".com TLSv1")), "{text}");
}

#[test]
fn no_client_random_comes_again() {
    assert_eq!(run("client_randoms", &[FIRST_LIGHT]), "24 randoms\n");
}

#[test]
fn anonymised_packets_are_as_many_and_tell_no_address() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("anonymised.pcapng");
    let text = run("anonymise", &[KEY, out.to_str().expect("text"), FIRST_LIGHT]);
    let count: usize = text.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    let mut engine = weir::Engine::new();
    let (mut packets, mut exchanges) = (0, 0);
    engine.subscribe("", |_: &weir::Frame| packets += 1).expect("it is right");
    engine
        .subscribe("http", |flow: &weir::Flow, _: &weir::sessions::http::HttpExchange| {
            exchanges += 1;
            let is_known = ["192.0.2.", "198.51.100.", "2001:db8:"].iter();
            assert!(
                is_known.into_iter().all(|known| !flow.orig.0.to_string().starts_with(known)),
                "{flow:?}"
            );
        })
        .expect("it is right");
    engine.read([&out]).expect("it was written");
    drop(engine);
    assert_eq!(packets, count);
    // As in the capture itself, without exchanges in fragments, in tunnels or on another link.
    assert_eq!(exchanges, 18);
}

/// Packets in tunnels have addresses behind those of the tunnel.
#[test]
fn no_address_inside_a_tunnel_is_left() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("anonymised-tunnels.pcapng");
    let text = run("anonymise", &[KEY, out.to_str().expect("text"), TUNNELS]);
    let hosts = |file: &Path| {
        let mut hosts = std::collections::BTreeSet::new();
        let mut engine = weir::Engine::new();
        let take = |flow: &weir::Flow, _: &weir::sessions::http::HttpExchange| {
            hosts.extend([flow.orig.0, flow.resp.0]);
        };
        engine.subscribe("http", take).expect("it is right");
        engine.read([file]).expect("it is there");
        drop(engine);
        hosts
    };
    let octets = |host: std::net::IpAddr| match host {
        std::net::IpAddr::V4(v4) => v4.octets().to_vec(),
        std::net::IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let inner = hosts(Path::new(TUNNELS));
    let written = std::fs::read(&out).expect("it was written");
    assert!(inner.len() > 2 && text.ends_with(" packets\n"), "{inner:?} {text}");
    for host in inner {
        let octets = octets(host);
        assert!(!written.windows(octets.len()).any(|part| part == octets), "{host}");
    }
    assert!(hosts(&out).is_empty(), "all pages of that capture came through tunnels");
}

#[test]
fn video_sessions_are_told_by_name() {
    assert_eq!(run("video", &[FIRST_LIGHT]), "");
    let text = run("video", &[FIRST_LIGHT, "example[.]com$"]);
    assert!(
        text.starts_with("10.42.0.10: 1 connections, at most 1 at a time\n  vlan.example.com up "),
        "{text}"
    );
    // No client there pauses for a second, and the beginning of a connection is no pause.
    assert_eq!(text.matches(" requests\n").count(), text.matches(", 0 requests\n").count(), "{text}");
}

#[test]
fn nothing_weak_and_nothing_suspicious_is_in_the_capture() {
    assert_eq!(run("weak_crypto", &[FIRST_LIGHT]), "");
    assert_eq!(run("fully_encrypted", &[FIRST_LIGHT]), "0 of 43 connections\n");
    assert_eq!(run("ttl_changes", &[FIRST_LIGHT]), "");
}

/// Builds a capture of TCP packets between two hosts.
struct Talk(Vec<u8>);

impl Talk {
    fn new() -> Self {
        // Microseconds, Ethernet.
        let header = [0xa1b2_c3d4_u32, 2 << 16 | 4, 0, 0, 65_535, 1];
        Self(header.iter().flat_map(|word| word.to_be_bytes()).collect())
    }

    /// Adds a segment of the client (`true`) or of its server; its payload begins the stream of its side.
    fn say(&mut self, (is_client, client, server): (bool, u16, u16), ttl: u8, flags: u8, payload: &[u8]) {
        let ports = if is_client { [client, server] } else { [server, client] };
        let hosts = if is_client { [1, 2] } else { [2, 1] };
        let length = (40 + payload.len()) as u16;
        let mut frame = vec![2, 0, 0, 0, 0, hosts[1], 2, 0, 0, 0, 0, hosts[0], 8, 0, 0x45, 0];
        frame.extend(length.to_be_bytes());
        frame.extend([0, 1, 0, 0, ttl, 6, 0, 0, 192, 0, 2, hosts[0], 192, 0, 2, hosts[1]]);
        frame.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        frame.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        frame.extend(payload);
        let frame_bytes = frame.len() as u32;
        let head = [1_700_000_000_u32, self.0.len() as u32, frame_bytes, frame_bytes];
        self.0.extend(head.iter().flat_map(|word| word.to_be_bytes()));
        self.0.extend(frame);
    }

    fn write(&self, name: &str) -> String {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, &self.0).expect("a place for files");
        path.to_str().expect("text").to_string()
    }
}

const ACK: u8 = 0x10;
const RST: u8 = 4;

/// A hello of TLS 1.0 with `rest` after version and random.
fn tls_hello(kind: u8, rest: &[u8]) -> Vec<u8> {
    let body = [&[3, 1][..], &[7; 32], rest].concat();
    let length = body.len() as u8;
    [&[22, 3, 1, 0, length + 4, kind, 0, 0, length][..], &body].concat()
}

/// An SSH banner, and a KEXINIT with one algorithm of each kind.
fn ssh_offer(names: [&str; 4]) -> Vec<u8> {
    let [kex, host_key, cipher, mac] = names;
    let lists = [kex, host_key, cipher, cipher, mac, mac, "none", "none", "", ""];
    let mut payload = vec![20];
    payload.extend([9; 16]);
    for list in lists {
        payload.extend((list.len() as u32).to_be_bytes());
        payload.extend(list.bytes());
    }
    payload.extend([0; 5]);
    let padding = 4 + (8 - (payload.len() + 5 + 4) % 8) % 8;
    let length = (payload.len() + 1 + padding) as u32;
    let packet = [&length.to_be_bytes()[..], &[padding as u8], &payload, &vec![0; padding]].concat();
    [b"SSH-2.0-old\r\n", &packet[..]].concat()
}

#[test]
fn what_is_weak_is_named() {
    let mut talk = Talk::new();
    // RC4 without forward secrecy, in TLS 1.0.
    talk.say((true, 40_001, 443), 64, ACK, &tls_hello(1, &[0, 0, 2, 0, 5, 1, 0]));
    talk.say((false, 40_001, 443), 64, ACK, &tls_hello(2, &[0, 0, 5, 0]));
    // A static elliptic curve key, and an anonymous key exchange; the ephemeral one is not reported.
    for (port, suite) in [(40_004, [0xc0, 5]), (40_005, [0, 0x34]), (40_006, [0xc0, 0x14])] {
        let mut hello = tls_hello(1, &[0, 0, 2, suite[0], suite[1], 1, 0]);
        hello[9..11].copy_from_slice(&[3, 3]);
        talk.say((true, port, 443), 64, ACK, &hello);
        let mut hello = tls_hello(2, &[0, suite[0], suite[1], 0]);
        hello[9..11].copy_from_slice(&[3, 3]);
        talk.say((false, port, 443), 64, ACK, &hello);
    }
    let offer = ssh_offer(["diffie-hellman-group1-sha1", "ssh-dss", "aes128-cbc", "hmac-md5"]);
    talk.say((true, 40_002, 22), 64, ACK, &offer);
    talk.say((false, 40_002, 22), 64, ACK, &offer);
    let good = ssh_offer(["curve25519-sha256", "ssh-ed25519", "aes256-ctr", "hmac-sha1"]);
    talk.say((true, 40_003, 22), 64, ACK, &good);
    talk.say((false, 40_003, 22), 64, ACK, &good);
    let text = run("weak_crypto", &[&talk.write("weak.pcap")]);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let expected = [
        "ssh 192.0.2.1 -> 192.0.2.2 : diffie-hellman-group1-sha1, aes128-cbc, hmac-md5, ssh-dss",
        "tls 192.0.2.1 -> 192.0.2.2 : TLS_DH_ANON_WITH_AES_128_CBC_SHA",
        "tls 192.0.2.1 -> 192.0.2.2 : TLS_ECDH_ECDSA_WITH_AES_256_CBC_SHA",
        "tls 192.0.2.1 -> 192.0.2.2 : TLSv10, TLS_RSA_WITH_RC4_128_SHA",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn what_looks_random_is_suspicious() {
    let mut talk = Talk::new();
    // Four bits of each byte are set, and no byte is printable.
    let random: Vec<u8> = [0x87, 0xb1, 0xc6, 0xe8].repeat(30);
    talk.say((true, 40_001, 8388), 64, ACK, &random);
    // Exempt: too few bits set, and too many; a printable beginning; TLS; HTTP.
    talk.say((true, 40_002, 8388), 64, ACK, &[0x80; 100]);
    talk.say((true, 40_003, 8388), 64, ACK, &[0xff; 100]);
    talk.say((true, 40_004, 8388), 64, ACK, &[b"readme", &random[..]].concat());
    talk.say((true, 40_005, 8388), 64, ACK, &[&[22, 3, 1], &random[..]].concat());
    talk.say((true, 40_006, 8388), 64, ACK, &[b"GET ", &random[..]].concat());
    let text = run("fully_encrypted", &[&talk.write("random.pcap")]);
    assert_eq!(text, "192.0.2.1:40001 -> 192.0.2.2:8388\n1 of 6 connections\n");
}

#[test]
fn a_reset_from_nearer_by_has_another_time_to_live() {
    let mut talk = Talk::new();
    for port in [40_001, 40_002] {
        talk.say((true, port, 80), 64, ACK, b"GET / HTTP/1.1\r\n\r\n");
        talk.say((false, port, 80), 51, ACK, b"HTTP/1.1 200 OK\r\n");
    }
    talk.say((false, 40_001, 80), 60, RST, b"");
    let text = run("ttl_changes", &[&talk.write("reset.pcap")]);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.ends_with(" 192.0.2.1 -> 192.0.2.2 responder: {51: 1, 60: 1}\n"), "{text}");
}

#[test]
fn evidence_is_the_packets_that_brought_a_text() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("evidence.pcapng");
    let (text, path) = ("HTTP/1.1 200 OK\r\n", out.to_str().expect("text"));
    let said = run("evidence", &[text, path, FIRST_LIGHT]);
    let frames = |filter: &str, file: &Path| {
        let mut frames = vec![];
        let mut engine = weir::Engine::new();
        engine
            .subscribe(filter, |frame: &weir::Frame| frames.push(frame.bytes.clone()))
            .expect("it is right");
        engine.read([file]).expect("it is there");
        drop(engine);
        frames
    };
    // Here no segment splits the text and none is repeated: the frames whose payload contains it.
    let holds = |frame: &Vec<u8>| frame.windows(text.len()).any(|part| part == text.as_bytes());
    let wanted: Vec<Vec<u8>> = frames("tcp", Path::new(FIRST_LIGHT)).into_iter().filter(holds).collect();
    assert!(wanted.len() > 3 && said == format!("{} packets\n", wanted.len()), "{said}");
    assert_eq!(frames("", &out), wanted);
}

/// A parser of the example's own: rows of its log, filters on its fields, sessions as a type.
#[test]
fn a_registered_protocol_has_rows_filters_and_a_type() {
    let mut talk = Talk::new();
    let check_in = |machine: &str, sequence: u32| {
        [b"BCN1", &[machine.len() as u8][..], machine.as_bytes(), &sequence.to_be_bytes()].concat()
    };
    let answer = |command: &str| [b"BCN1", &[command.len() as u8][..], command.as_bytes()].concat();
    for (port, machine, command) in [(40_001, "desk", "sleep"), (40_002, "laptop", "upload notes")] {
        talk.say((true, port, 7_000), 64, ACK, &check_in(machine, 7));
        talk.say((false, port, 7_000), 64, ACK, &answer(command));
    }
    talk.say((true, 40_003, 7_000), 64, ACK, &check_in("phone", 8));
    talk.say((true, 40_004, 7_000), 64, ACK, b"GET / HTTP/1.1\r\n\r\n");
    let capture = talk.write("beacon.pcap");
    let text = run("beacon", &[&capture]);
    let told = "laptop was told by 192.0.2.2: upload notes";
    let rows = |text: &str| -> Vec<String> {
        let mut rows: Vec<serde_json::Value> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        rows.sort_by_key(|row| row["id.orig_p"].as_u64());
        let shown = |row: &serde_json::Value| {
            let columns = ["id.orig_p", "id.resp_h", "machine", "sequence", "command"];
            columns.map(|column| row[column].to_string()).join(" ")
        };
        rows.iter().map(shown).collect()
    };
    let expected = [
        r#"40001 "192.0.2.2" "desk" 7 "sleep""#,
        r#"40002 "192.0.2.2" "laptop" 7 "upload notes""#,
        r#"40003 "192.0.2.2" "phone" 8 null"#,
    ];
    assert_eq!(rows(&text), expected, "{text}");
    assert_eq!(text.lines().filter(|line| *line == told).count(), 1, "{text}");
    // Of both questions the filter concerns the first one only.
    let text = run("beacon", &[&capture, "beacon.sequence == 7 and beacon.command == 'sleep'"]);
    assert_eq!(rows(&text), expected[..1]);
    assert!(text.ends_with(&format!("{told}\n")), "{text}");
}

#[test]
fn a_pipeline_finds_senders_with_many_targets() {
    let text = run("port_scans", &[FIRST_LIGHT, "5"]);
    assert!(
        !text.is_empty() && text.lines().all(|line| line.ends_with(" opens connections to at least 5 ports"))
    );
    assert_eq!(run("port_scans", &[FIRST_LIGHT, "100000"]), "");
}
