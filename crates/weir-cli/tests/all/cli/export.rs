//! Rows for other machines, on loopback only: IPFIX to nfcapd and to a collector of this test, whose messages
//! tshark reads, and syslog to rsyslogd. Tests with other programs are skipped, with a message, where the
//! program is missing.

use crate::cli::outputs::{LONG, ended, start, until};
use crate::cli::{answer, example, scratch, text, weir};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_testing::frames;

/// Captures with IPv4, IPv6, TCP, UDP, ICMP, VLAN tags and tunnels.
const CAPTURES: &[&str] = &["services", "tunnels", "sessions", "first-light"];

fn captures() -> Vec<String> {
    let folder = example().parent().expect("it is in a folder").to_path_buf();
    CAPTURES.iter().map(|name| folder.join(name).with_extension("pcap").display().to_string()).collect()
}

/// The arguments of `weir flows` over all captures, and more.
fn flows<'a>(files: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    ["flows"].into_iter().chain(files.iter().map(String::as_str)).chain(more.iter().copied()).collect()
}

fn directory(name: &str) -> PathBuf {
    let path = scratch(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a scratch directory");
    path
}

fn has(program: &str, test: &str) -> bool {
    let found =
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("skipped: {test} needs {program}");
    }
    found
}

/// A program that is ended with the test.
struct Running(Child);

impl Running {
    fn start(program: &str, args: &[&str]) -> Self {
        let child = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("it is installed"))
    }

    /// Ends the program in order.
    fn end(mut self) {
        crate::cli::outputs::signal(&self.0, "TERM");
        self.0.wait().expect("it is a child");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that is free for datagrams and connections.
fn free_port() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    socket.local_addr().expect("it is bound").port()
}

/// Waits until a program has bound this UDP port.
fn bound(port: u16) {
    until("the port is bound", || UdpSocket::bind(("127.0.0.1", port)).is_err());
}

/// What a flow record and a row have in common: both ends, protocol, packets and bytes in both directions,
/// and beginning.
type Flow = (String, String, u64, u64, u64, u64, u64, u64, u64, u64);

fn flow_of_row(row: &serde_json::Value) -> Flow {
    let number = |name: &str| row[name].as_u64().unwrap_or(0);
    let address = |name: &str| row[name].as_str().expect("an address").to_string();
    let is_icmp = row["proto"] == "icmp";
    let port = |name: &str| if is_icmp { 0 } else { number(name) };
    // Six decimals become milliseconds without rounding up.
    let start = (row["ts"].as_f64().expect("a time") * 1e6).round() as u64 / 1000;
    (
        address("id.orig_h"),
        address("id.resp_h"),
        port("id.orig_p"),
        port("id.resp_p"),
        number("ip_proto"),
        number("orig_pkts"),
        number("orig_ip_bytes"),
        number("resp_pkts"),
        number("resp_ip_bytes"),
        start,
    )
}

fn json_rows(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect()
}

/// The flows of all captures, as JSON has them.
fn expected() -> Vec<Flow> {
    let files = captures();
    let mut all: Vec<Flow> =
        json_rows(&answer(&flows(&files, &["--format", "json"]), 0)).iter().map(flow_of_row).collect();
    all.sort();
    all
}

/// Seconds since 1970 of `2026-11-22T10:52:50.557`, in milliseconds.
fn milliseconds(text: &str) -> u64 {
    let number = |range: std::ops::Range<usize>| text[range].parse::<i64>().expect("digits of a time");
    let (year, month, day) = (number(0..4), number(5..7), number(8..10));
    let before = |year: i64| 365 * year + year / 4 - year / 100 + year / 400;
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let days = before(year - 1) - before(1969) + lengths[..month as usize - 1].iter().sum::<i64>() + day - 1;
    let seconds = ((days * 24 + number(11..13)) * 60 + number(14..16)) * 60 + number(17..19);
    (seconds * 1000 + number(20..23)) as u64
}

/// The flows in the files of nfcapd.
fn nfdump(folder: &Path) -> Vec<Flow> {
    let output =
        Command::new("nfdump").args(["-R", folder.to_str().unwrap(), "-o", "json"]).env("TZ", "UTC").output();
    let said = text(&output.expect("nfdump is installed").stdout);
    let records: Vec<serde_json::Value> =
        serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
    let mut all: Vec<Flow> = records
        .iter()
        .map(|record| {
            let number = |name: &str| record[name].as_u64().unwrap_or(0);
            let address = |v4: &str, v6: &str| {
                let address = record[v4].as_str().or(record[v6].as_str()).expect("an address");
                address.to_string()
            };
            (
                address("src4_addr", "src6_addr"),
                address("dst4_addr", "dst6_addr"),
                number("src_port"),
                number("dst_port"),
                number("proto"),
                number("in_packets"),
                number("in_bytes"),
                number("out_packets"),
                number("out_bytes"),
                milliseconds(record["first"].as_str().expect("a time")),
            )
        })
        .collect();
    all.sort();
    all
}

#[test]
fn nfcapd_has_the_flows_of_the_captures() {
    if !has("nfcapd", "a collector of IPFIX") {
        return;
    }
    let (folder, port) = (directory("nfcapd"), free_port());
    let collector = Running::start(
        "nfcapd",
        &["-p", &port.to_string(), "-l", folder.to_str().unwrap(), "-b", "127.0.0.1"],
    );
    bound(port);
    let (files, target) = (captures(), format!("ipfix://127.0.0.1:{port}"));
    let output = weir(&flows(&files, &["-o", &target]));
    assert_eq!((text(&output.stderr).as_str(), output.status.code()), ("", Some(0)));
    // Its socket has everything; a moment to read.
    std::thread::sleep(Duration::from_millis(500));
    collector.end();
    let (wanted, found) = (expected(), nfdump(&folder));
    assert!(wanted.len() > 400, "{}", wanted.len());
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(&wanted) {
        assert_eq!(found, wanted);
    }
}

#[test]
fn a_collector_that_starts_late_gets_templates_and_further_flows() {
    if !has("nfcapd", "a late collector of IPFIX") {
        return;
    }
    let (folder, port) = (directory("nfcapd-late"), free_port());
    let target = format!("ipfix://127.0.0.1:{port}");
    let mut child = start(&["flows", "-r", "-", "-o", &target, "--limit", "100000"], Stdio::piped());
    let mut input = child.stdin.take().expect("it is piped");
    let capture = fs::read(example()).expect("the example");
    // Three quarters end some connections; no collector is there.
    let (first, second) = capture.split_at(capture.len() * 3 / 4);
    input.write_all(first).unwrap();
    input.flush().unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let collector = Running::start(
        "nfcapd",
        &["-p", &port.to_string(), "-l", folder.to_str().unwrap(), "-b", "127.0.0.1"],
    );
    bound(port);
    input.write_all(second).unwrap();
    drop(input);
    let (output, _) = ended(child);
    std::thread::sleep(Duration::from_millis(500));
    collector.end();
    let said = text(&output.stderr);
    assert!(said.contains("nothing receives there") && said.contains("rows are lost"), "{said}");
    assert_eq!(output.status.code(), Some(2));
    let found = nfdump(&folder);
    let all: BTreeSet<Flow> =
        json_rows(&answer(&["flows", example().to_str().unwrap(), "--format", "json"], 0))
            .iter()
            .map(flow_of_row)
            .collect();
    assert!(found.len() > 20 && found.len() < all.len(), "{} of {}", found.len(), all.len());
    assert!(found.iter().all(|flow| all.contains(flow)), "{found:?}");
}

/// The messages of IPFIX in the bytes of a connection, without an incomplete last one.
fn messages(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut all = vec![];
    while bytes.len() >= 4 {
        assert_eq!(bytes[..2], [0, 10], "a message begins with the version");
        let length = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
        let Some((message, rest)) = bytes.split_at_checked(length) else { break };
        all.push(message);
        bytes = rest;
    }
    all
}

/// Writes frames of Ethernet to a capture.
fn write_capture(path: &Path, frames: &[Vec<u8>]) {
    let number = |value: u32| value.to_le_bytes();
    let mut bytes =
        [number(0xa1b2_c3d4), number(0x0004_0002), [0; 4], [0; 4], number(65535), number(1)].concat();
    for (at, frame) in frames.iter().enumerate() {
        let length = number(frame.len() as u32);
        bytes.extend([number(1_800_000_000), number(at as u32), length, length].concat());
        bytes.extend_from_slice(frame);
    }
    fs::write(path, bytes).expect("a scratch file");
}

/// A message as a datagram in a frame, for tshark.
fn framed(message: &[u8], port: u16) -> Vec<u8> {
    let datagram = frames::udp((40_000, port), message);
    frames::ethernet(0x0800, &frames::ipv4(([127, 0, 0, 1], [127, 0, 0, 1]), 17, 0, 0, &[], &datagram))
}

/// The values of these fields in each packet, as tshark prints them.
fn tshark(capture: &Path, port: u16, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-r", capture.to_str().unwrap(), "-d", &format!("udp.port=={port},cflow"), "-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.env("TZ", "UTC").output().expect("tshark is installed");
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| line.split('\t').map(str::to_string).collect()).collect()
}

#[test]
fn tshark_finds_no_fault_in_messages_over_tcp() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let reader = std::thread::spawn(move || {
        let mut bytes = vec![];
        listener.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let (files, target) = (captures(), format!("ipfix+tcp://127.0.0.1:{port}"));
    let output = weir(&flows(&files, &["-o", &target, "--observation-domain", "4711"]));
    assert_eq!((text(&output.stderr).as_str(), output.status.code()), ("", Some(0)));
    let bytes = reader.join().unwrap();
    let sent = messages(&bytes);
    assert_eq!(sent.iter().map(|message| message.len()).sum::<usize>(), bytes.len(), "only whole messages");
    assert!(sent.iter().all(|message| message.len() <= 1400));
    if !has("tshark", "the dissector of IPFIX") {
        return;
    }
    let capture = scratch("ipfix.pcap");
    write_capture(&capture, &sent.iter().map(|message| framed(message, port)).collect::<Vec<_>>());
    let fields = [
        "_ws.expert.message",
        "_ws.malformed",
        "cflow.od_id",
        "cflow.octets",
        "cflow.packets",
        "cflow.srcport",
        "cflow.sequence",
    ];
    let packets = tshark(&capture, port, &fields);
    assert_eq!(packets.len(), sent.len());
    let numbers =
        |text: &str| -> Vec<u64> { text.split(',').filter_map(|number| number.parse().ok()).collect() };
    let (mut octets, mut records) = (0, 0);
    for packet in &packets {
        assert_eq!((packet[0].as_str(), packet[1].as_str()), ("", ""), "{packet:?}");
        assert!(packet[2].split(',').all(|domain| domain == "4711"), "{packet:?}");
        octets += numbers(&packet[3]).iter().sum::<u64>();
        // Forward and reverse.
        records += numbers(&packet[4]).len() / 2;
    }
    let wanted = expected();
    assert_eq!(records, wanted.len());
    assert_eq!(octets, wanted.iter().map(|flow| flow.6 + flow.8).sum::<u64>());
    let output = Command::new("tshark")
        .args(["-r", capture.to_str().unwrap(), "-d", &format!("udp.port=={port},cflow"), "-V"])
        .output();
    let shown = text(&output.unwrap().stdout);
    assert!(
        !shown.to_lowercase().contains("unknown") && !shown.contains("no template found"),
        "every field is known"
    );
    for field in [
        "flowId",
        "biflowDirection",
        "flowEndReason",
        "notSentFlowTotalCount",
        "icmpTypeCodeIPv6",
        "APPLICATION_NAME",
    ] {
        // tshark has names of its own for some elements.
        let other = match field {
            "notSentFlowTotalCount" => "NOT_SENT_FLOWS",
            "icmpTypeCodeIPv6" => "ICMP_IPv6_TYPE",
            _ => field,
        };
        assert!(shown.contains(field) || shown.to_lowercase().contains(&other.to_lowercase()), "{field}");
    }
}

/// The data records of flows in a connection's messages, by templates as RFC 7011 says: the values of
/// `flowId`.
pub fn flow_ids(bytes: &[u8]) -> Vec<u64> {
    let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    let mut templates: BTreeMap<u64, Vec<(u64, usize)>> = BTreeMap::new();
    let (mut ids, mut records) = (vec![], 0);
    for message in messages(bytes) {
        assert_eq!(number(&message[8..12]), records, "each connection counts its records from 0");
        let mut rest = &message[16..];
        while !rest.is_empty() {
            let (set_id, length) = (number(&rest[..2]), number(&rest[2..4]) as usize);
            let mut set = &rest[4..length];
            rest = &rest[length..];
            while !set.is_empty() {
                if set_id == 2 || set_id == 3 {
                    let (template, count) = (number(&set[..2]), number(&set[2..4]));
                    set = &set[if set_id == 3 { 6 } else { 4 }..];
                    for _ in 0..count {
                        let (element, length) = (number(&set[..2]), number(&set[2..4]) as usize);
                        set = &set[if element & 0x8000 == 0 { 4 } else { 8 }..];
                        templates.entry(template).or_default().push((element, length));
                    }
                    continue;
                }
                records += 1;
                for &(element, length) in &templates[&set_id] {
                    let mut length = length;
                    if length == 65535 {
                        length = set[0].into();
                        set = &set[1..];
                    }
                    if element == 148 {
                        ids.push(number(&set[..length]));
                    }
                    set = &set[length..];
                }
            }
        }
    }
    ids
}

/// The value of `flowId` for a uid: FNV-1a, as docs/outputs.md says.
fn flow_id(uid: &str) -> u64 {
    uid.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The values of `flowId` of all flows of these captures, in order.
fn expected_ids(files: &[String]) -> Vec<u64> {
    let rows = json_rows(&answer(&flows(files, &["--format", "json"]), 0));
    let mut ids: Vec<u64> = rows.iter().map(|row| flow_id(row["uid"].as_str().expect("a uid"))).collect();
    ids.sort_unstable();
    ids
}

fn sorted(mut ids: Vec<u64>) -> Vec<u64> {
    ids.sort_unstable();
    ids
}

/// Everything that arrives until the peer is silent for a second.
pub fn read_until_silent(stream: &mut TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let (mut all, mut piece) = (vec![], [0; 4096]);
    while let Ok(read @ 1..) = stream.read(&mut piece) {
        all.extend_from_slice(&piece[..read]);
    }
    all
}

#[test]
fn a_collector_that_is_started_again_gets_each_flow_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("ipfix+tcp://{}", listener.local_addr().unwrap());
    let mut child = start(&["flows", "-r", "-", "-o", &target], Stdio::piped());
    let mut input = child.stdin.take().expect("it is piped");
    let capture = fs::read(example()).expect("the example");
    let (first, second) = capture.split_at(capture.len() * 3 / 4);
    input.write_all(first).unwrap();
    let mut stream = listener.accept().unwrap().0;
    let early = read_until_silent(&mut stream);
    drop(stream);
    let reader = std::thread::spawn(move || {
        let mut late = vec![];
        listener.accept().unwrap().0.read_to_end(&mut late).unwrap();
        late
    });
    input.write_all(second).unwrap();
    drop(input);
    let (output, _) = ended(child);
    let said = text(&output.stderr);
    let late = reader.join().unwrap();
    assert!(said.contains("no connection") && said.contains("connected again"), "{said}");
    assert_eq!(output.status.code(), Some(0));
    let (early, late) = (flow_ids(&early), flow_ids(&late));
    assert!(!early.is_empty() && !late.is_empty(), "{} {}", early.len(), late.len());
    assert_eq!(sorted([early, late].concat()), expected_ids(&[example().display().to_string()]));
}

/// Flows of the capture in the next test.
const MANY: u32 = 20_000;
/// Bytes that the system of a collector may have acknowledged, and its program not read: the buffer, and what
/// is on the way.
const UNREAD_BYTES_MAX: usize = 256 << 10;

#[test]
fn a_collector_that_is_killed_loses_only_what_its_system_had_acknowledged() {
    let path = scratch("many.pcap");
    let packets: Vec<Vec<u8>> = (0..MANY)
        .map(|number| {
            let [_, b, c, d] = number.to_be_bytes();
            let datagram = frames::udp((1000, 2000), b"x");
            frames::ethernet(0x0800, &frames::ipv4(([10, b, c, d], [192, 0, 2, 1]), 17, 0, 0, &[], &datagram))
        })
        .collect();
    write_capture(&path, &packets);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 8192).unwrap();
    let target = format!("ipfix+tcp://{}", listener.local_addr().unwrap());
    let reader = std::thread::spawn(move || {
        let mut killed = vec![0; 50_000];
        let mut stream = listener.accept().unwrap().0;
        stream.read_exact(&mut killed).unwrap();
        // Bytes that were not read make the end a reset, as the end of a killed program is.
        std::thread::sleep(Duration::from_millis(300));
        drop(stream);
        let mut rest = vec![];
        listener.accept().unwrap().0.read_to_end(&mut rest).unwrap();
        (killed, rest)
    });
    let output = weir(&["flows", path.to_str().unwrap(), "-o", &target]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(0) && said.contains("connected again"), "{said}");
    let (killed, rest) = reader.join().unwrap();
    let ids = [flow_ids(&killed), flow_ids(&rest)].concat();
    let distinct: BTreeSet<u64> = ids.iter().copied().collect();
    assert_eq!(distinct.len(), ids.len(), "nothing comes twice");
    let record_bytes = rest.len() / flow_ids(&rest).len();
    let missing = MANY as usize - ids.len();
    assert!(
        missing * record_bytes <= UNREAD_BYTES_MAX,
        "{missing} flows of {record_bytes} bytes are missing"
    );
}

#[test]
fn a_spool_keeps_rows_through_a_kill_until_a_collector_comes() {
    let (spool, port) = (directory("spool"), free_port());
    let (spool, target) = (spool.to_str().unwrap(), format!("ipfix+tcp://127.0.0.1:{port}"));
    let files = captures();
    // No collector, and no end: the input stays open until the kill.
    let mut child = start(&["flows", "-r", "-", "-o", &target, "--spool", spool], Stdio::piped());
    let mut input = child.stdin.take().expect("it is piped");
    input.write_all(&fs::read(&files[3]).unwrap()).unwrap();
    let segments = || {
        let sizes = fs::read_dir(spool).unwrap().filter_map(|entry| entry.ok()?.metadata().ok());
        sizes.map(|about| about.len()).sum::<u64>()
    };
    until("rows are in the spool", || segments() > 5_000);
    std::thread::sleep(Duration::from_secs(1));
    child.kill().expect("it runs");
    child.wait().expect("it is a child");
    drop(input);
    // A run without a collector adds its rows, and ends at once.
    let began = Instant::now();
    let output = weir(&["flows", &files[0], "-o", &target, "--spool", spool]);
    assert!(began.elapsed() < Duration::from_secs(20), "it does not wait for the collector");
    let said = text(&output.stderr);
    assert!(said.contains("rows stay in the spool") && output.status.code() == Some(0), "{said}");
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let reader = std::thread::spawn(move || {
        let mut bytes = vec![];
        listener.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let output = weir(&["flows", &files[1], "-o", &target, "--spool", spool]);
    assert_eq!((text(&output.stderr).as_str(), output.status.code()), ("", Some(0)));
    let found = sorted(flow_ids(&reader.join().unwrap()));
    let ids = |file: &str| -> Vec<u64> {
        let rows = json_rows(&answer(&["flows", file, "--format", "json"], 0));
        rows.iter().map(|row| flow_id(row["uid"].as_str().expect("a uid"))).collect()
    };
    let whole = sorted([ids(&files[0]), ids(&files[1])].concat());
    let killed: BTreeSet<u64> = ids(&files[3]).into_iter().collect();
    let (of_killed, others): (Vec<u64>, Vec<u64>) = found.iter().partition(|id| killed.contains(id));
    assert_eq!(sorted(others), whole, "the rows of complete runs come, each once");
    let distinct: BTreeSet<u64> = of_killed.iter().copied().collect();
    assert!(
        !of_killed.is_empty() && distinct.len() == of_killed.len(),
        "{} {}",
        of_killed.len(),
        distinct.len()
    );
    // Everything is acknowledged: nothing is left.
    assert!(segments() < 100, "{}", segments());
}

/// rsyslogd with inputs on loopback; each message becomes a line of a file.
fn rsyslogd(folder: &Path, port: u16) -> (Running, PathBuf) {
    let (config, out) = (folder.join("rsyslog.conf"), folder.join("out"));
    let text = format!(
        "global(workDirectory={folder:?} maxMessageSize=\"64k\")\nmodule(load=\"imudp\")\nmodule(load=\"imtcp\")\n\
         template(name=\"fields\" type=\"string\" string=\"%app-name% %msgid% %syslogfacility-text% %syslogseverity-text% \
         %timereported:::date-rfc3339%|%msg%\\n\")\n\
         input(type=\"imudp\" address=\"127.0.0.1\" port=\"{port}\")\n\
         input(type=\"imtcp\" address=\"127.0.0.1\" port=\"{port}\")\n\
         *.* action(type=\"omfile\" file={out:?} template=\"fields\")\n"
    );
    fs::write(&config, text).unwrap();
    let pid = folder.join("pid");
    let args = ["-n", "-f", config.to_str().unwrap(), "-i", pid.to_str().unwrap()];
    let running = Running::start("/usr/sbin/rsyslogd", &args);
    until("rsyslogd listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    (running, out)
}

#[test]
fn rsyslogd_has_each_row_as_a_message() {
    // rsyslogd has no option that only prints a version in all of its versions.
    if !Path::new("/usr/sbin/rsyslogd").exists() {
        eprintln!("skipped: a receiver of syslog needs rsyslogd");
        return;
    }
    let file = example();
    let file = file.to_str().unwrap();
    for (scheme, ask, log) in
        [("syslog", "flows", "conn"), ("syslog+tcp", "http", "http"), ("syslog+tcp", "flows", "conn")]
    {
        let (folder, port) = (directory(&format!("rsyslogd-{scheme}-{log}")), free_port());
        let (receiver, out) = rsyslogd(&folder, port);
        let target = format!("{scheme}://127.0.0.1:{port}");
        let output = weir(&[ask, file, "-o", &target]);
        assert_eq!((text(&output.stderr).as_str(), output.status.code()), ("", Some(0)));
        let rows = answer(&[ask, file, "--format", "json"], 0);
        let lines = || fs::read_to_string(&out).unwrap_or_default();
        until("all messages are written", || {
            lines().matches(" weir").count() + lines().matches("weir ").count() >= rows.lines().count()
        });
        std::thread::sleep(Duration::from_millis(200));
        receiver.end();
        let all = lines();
        let of_weir = all.lines().filter(|line| line.starts_with("weir "));
        let (mut heads, mut bodies) = (BTreeSet::new(), vec![]);
        for line in of_weir {
            let (head, body) = line.split_once('|').expect("the template has a bar");
            let (head, time) = head.rsplit_once(' ').expect("the time is last");
            assert!(time.starts_with("20"), "{line}");
            heads.insert(head.to_string());
            bodies.push(body.trim_start().to_string());
        }
        assert_eq!(heads.into_iter().collect::<Vec<_>>(), [format!("weir {log} local0 info")]);
        assert_eq!(bodies, rows.lines().map(str::to_string).collect::<Vec<_>>(), "{scheme} {ask}");
    }
}

#[test]
fn wrong_names_and_options_say_what_to_write() {
    let file = example();
    let file = file.to_str().unwrap();
    for (args, wanted) in [
        (&["flows", file, "-o", "ipfix://host"][..], "write ipfix://HOST:PORT"),
        (&["flows", file, "-o", "ipfix+tcp://::1:4739"], "ipfix+tcp://[::1]:4739"),
        (&["flows", file, "-o", "nats://host:9092"], "unknown receiver `nats://`"),
        (&["flows", file, "-o", "kafka://host:9092"], "write kafka://HOST[:9092][,HOST…]/TOPIC"),
        (&["flows", file, "-o", "kafka://host/topic", "--format", "json"], "as Arrow: leave --format out"),
        // With the feature `kafka`, `kafka` has tests of brokers.
        #[cfg(not(feature = "kafka"))]
        (&["flows", file, "-o", "kafka://host/topic"], "built without Kafka: build it with"),
        (&["flows", file, "-o", "clickhouse://host"], "write clickhouse://HOST[:8123]/[DATABASE.]TABLE"),
        (&["flows", file, "-o", "clickhouse://host/t", "--sensor", ""], "a name of 1 to 255 bytes"),
        (&["flows", file, "-o", "clickhouse://host/t", "--count"], "leave --count out"),
        (&["flows", file, "-o", "x.json", "--sensor", "x"], "--sensor is for"),
        (&["flows", file, "-o", "syslog://127.0.0.1:1", "--create"], "--create is for -o clickhouse://"),
        (&["http", file, "-o", "ipfix://127.0.0.1:1"], "use `weir flows`"),
        (&["flows", file, "-o", "ipfix://127.0.0.1:1", "--format", "json"], "leave --format out"),
        (&["flows", file, "-o", "ipfix://127.0.0.1:1", "--columns", "ts,uid"], "needs the columns id.orig_h"),
        (&["flows", file, "-o", "ipfix://127.0.0.1:1", "--count"], "leave --count out"),
        (&["flows", file, "-o", "ipfix://127.0.0.1:1", "--rotate", "1h"], "a connection is no file"),
        (
            &["flows", file, "-o", "ipfix://127.0.0.1:1", "--spool", "x"],
            "--spool is for receivers with a connection: -o ipfix+tcp://",
        ),
        (&["flows", file, "-o", "x.json", "--spool", "x"], "--spool is for"),
        (
            &["flows", file, "-o", "syslog+tcp://127.0.0.1:1", "--spool", "x", "--spool-max", "1k"],
            "give at least 4M",
        ),
        (
            &["flows", file, "-o", "syslog://127.0.0.1:1", "--observation-domain", "1"],
            "--observation-domain is for",
        ),
        (&["flows", file, "-o", "syslog://127.0.0.1:1", "--format", "csv"], "messages of syslog are JSON"),
        (&["packets", file, "-w", "syslog://127.0.0.1:1"], "packets are not sent to this receiver"),
        (&["flows", file, "-o", "syslog://no-such-host.invalid:514"], "unknown host"),
    ] {
        let output = weir(args);
        let said = text(&output.stderr);
        let is_said_once = said.matches(wanted).count() == 1;
        assert!(output.status.code() == Some(2) && is_said_once, "{args:?}: {said}");
    }
    assert!(!Path::new("x").exists() && !Path::new("x.json").exists(), "nothing is created");
}

#[test]
fn a_run_over_a_file_does_not_wait_forever_for_a_receiver() {
    let (port, file) = (free_port(), example());
    let target = format!("syslog+tcp://127.0.0.1:{port}");
    let began = Instant::now();
    let output = weir(&["flows", file.to_str().unwrap(), "-o", &target, "--stats"]);
    let said = text(&output.stderr);
    assert!(began.elapsed() < LONG / 2, "{:?}", began.elapsed());
    assert!(said.contains("refused the connection") && said.contains("rows are lost"), "{said}");
    assert!(said.contains("rows_lost") && output.status.code() == Some(2), "{said}");
}
