//! Packets over UDP, with the command at both ends, on loopback only: what is sent comes back, and losses are
//! counted.

use crate::cli::outputs::{signal, until};
use crate::cli::tcp::{Running, has};
use crate::cli::{answer, example, scratch, text, weir};
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const PACKETS: usize = 2738;

/// Time in which a receiver has what was sent.
const SETTLE: Duration = Duration::from_millis(300);

/// The header of the shipped capture, and pieces of this number of packets.
fn pieces(packets: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
    let bytes = fs::read(example()).expect("the capture");
    let (header, mut rest) = bytes.split_at(24);
    let mut records = vec![];
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[8..12].try_into().expect("four bytes")) as usize;
        let (record, behind) = rest.split_at(16 + length);
        records.push(record.to_vec());
        rest = behind;
    }
    (header.to_vec(), records.chunks(packets).map(<[Vec<u8>]>::concat).collect())
}

/// A command that writes what arrives at a port to a file.
struct Instance {
    run: Running,
    address: SocketAddr,
    file: PathBuf,
}

impl Instance {
    fn start(name: &str, more: &[&str]) -> Self {
        let file = scratch(name);
        let args = ["packets", "-r", "udp://127.0.0.1:0", "-w", file.to_str().unwrap()];
        let run = Running::start(&[&args[..], more].concat(), Stdio::null());
        let address = run.address();
        Self { run, address, file }
    }

    /// Ends it, once it has what was sent. Returns its messages, and its packets as lines: time, length and
    /// bytes.
    fn end(self) -> (Output, Vec<String>) {
        std::thread::sleep(SETTLE);
        signal(&self.run.child, "INT");
        let output = self.run.end();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let packets = packets_of(&self.file);
        (output, packets)
    }
}

/// The value of a counter that `--stats` printed.
fn counter(said: &str, name: &str) -> usize {
    let line = said.lines().find(|line| line.starts_with(&format!("{name} ")));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

/// The packets of a file: time, lengths, link type and bytes of each.
fn packets_of(file: &Path) -> Vec<String> {
    let rows = answer(&["packets", file.to_str().unwrap(), "-x", "--format", "json"], 0);
    let row = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let mut row = row.as_object().expect("an object").clone();
        // What layers there are depends on packets before, if there are fragments.
        ["number", "layers", "info"].iter().for_each(|name| drop(row.remove(*name)));
        serde_json::Value::from(row).to_string()
    };
    rows.lines().map(row).collect()
}

/// Writes pieces to the command's standard input, with a pause behind each.
fn feed(input: &mut impl Write, pieces: &[Vec<u8>]) {
    for piece in pieces {
        input.write_all(piece).expect("it reads");
        std::thread::sleep(Duration::from_millis(4));
    }
}

/// Sends the shipped capture in pieces, as from a link.
fn send(to: &str, more: &[&str], packets: usize) -> Output {
    let (header, pieces) = pieces(packets);
    let mut sender = Running::start(&[&["packets", "-r", "-", "-w", to][..], more].concat(), Stdio::piped());
    let mut input = sender.child.stdin.take().expect("it is piped");
    input.write_all(&header).expect("it reads");
    feed(&mut input, &pieces);
    drop(input);
    sender.end()
}

#[test]
fn packets_come_back_byte_for_byte() {
    let instance = Instance::start("udp-whole.pcap", &[]);
    let sent = send(&format!("udp://{}", instance.address), &[], 40);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    std::thread::sleep(SETTLE);
    signal(&instance.run.child, "INT");
    assert_eq!(instance.run.end().status.code(), Some(0));
    let direct = scratch("udp-direct.pcap");
    answer(&["packets", example().to_str().unwrap(), "-w", direct.to_str().unwrap()], 0);
    let read = |path: &Path| fs::read(path).expect("a capture");
    assert!(read(&instance.file) == read(&direct), "the same capture file as without UDP");
}

/// Nanoseconds, original lengths, several link types, VLAN tags, and packets longer than a datagram.
#[test]
fn what_a_capture_says_of_packets_survives() {
    let protocols = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../protocols");
    let all = ["chdlc", "ppp", "raw", "wlan", "nflog", "datacentre"]
        .map(|name| protocols.join(format!("{name}.pcap")));
    let mut files: Vec<PathBuf> = all.into_iter().filter(|file| file.exists()).collect();
    assert!(files.len() >= 3, "captures of several link types: {files:?}");
    let long = scratch("udp-long.pcap");
    let mut bytes = [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 262_144, 1].map(u32::to_le_bytes).concat();
    for (length, wire) in [(60, 1514), (200_000, 200_001), (0, 9)] {
        bytes.extend([1_700_000_000_u32, 123_456_789, length, wire].map(u32::to_le_bytes).concat());
        bytes.extend((0..length).map(|at| at as u8));
    }
    fs::write(&long, bytes).expect("room");
    files.push(long);
    let names: Vec<&str> = files.iter().map(|file| file.to_str().unwrap()).collect();
    let direct = scratch("udp-links-direct.pcapng");
    answer(&[&["packets", "-w", direct.to_str().unwrap(), "-r"][..], &names].concat(), 0);
    let instance = Instance::start("udp-links.pcapng", &[]);
    let to = format!("udp://{}", instance.address);
    answer(&[&["packets", "-w", &to, "-r"][..], &names].concat(), 0);
    let (_, received) = instance.end();
    assert_eq!(received, packets_of(&direct));
    let long = files.last().and_then(|file| file.to_str()).expect("it was written");
    let instance = Instance::start("udp-long-received.pcap", &[]);
    answer(&["packets", long, "-w", &format!("udp://{}", instance.address)], 0);
    let file = instance.file.clone();
    instance.end();
    assert!(fs::read(file).expect("a capture") == fs::read(long).expect("a capture"), "nanoseconds");
}

#[test]
fn a_key_selects_the_instance_and_all_packets_arrive_once() {
    let instances: Vec<Instance> =
        (0..3).map(|n| Instance::start(&format!("udp-key-{n}.pcapng"), &[])).collect();
    let ends: Vec<String> = instances.iter().map(|instance| instance.address.to_string()).collect();
    send(&format!("udp://{}", ends.join(",")), &["tcp"], 40);
    let parts: Vec<(PathBuf, Vec<String>)> = instances
        .into_iter()
        .map(|instance| {
            let file = instance.file.clone();
            (file, instance.end().1)
        })
        .collect();
    let whole = scratch("udp-key.pcapng");
    answer(&["packets", example().to_str().unwrap(), "tcp", "-w", whole.to_str().unwrap()], 0);
    assert_same(parts.iter().flat_map(|(_, packets)| packets.clone()).collect(), packets_of(&whole));
    let flows = |file: &Path| {
        let rows = answer(
            &[
                "flows",
                file.to_str().unwrap(),
                "--columns",
                "ts,orig,resp,orig_pkts,resp_pkts",
                "--format",
                "csv",
            ],
            0,
        );
        rows.lines().skip(1).map(str::to_string).collect::<Vec<String>>()
    };
    // Both directions of a connection are at one instance: no connection has two rows.
    let mut divided: Vec<String> = parts.iter().flat_map(|(file, _)| flows(file)).collect();
    let mut of_whole = flows(&whole);
    divided.sort();
    of_whole.sort();
    assert_eq!(divided, of_whole);
    assert!(parts.iter().all(|(_, packets)| packets.len() > 100), "every instance has a share");
}

fn assert_same(mut some: Vec<String>, mut others: Vec<String>) {
    some.sort();
    others.sort();
    assert!(some == others, "{} and {} packets", some.len(), others.len());
}

/// Instances are added and removed under traffic, by the control socket and by a reload: every packet arrives
/// once.
#[test]
fn instances_change_under_traffic_without_a_loss() {
    let instances: Vec<Instance> =
        (0..3).map(|n| Instance::start(&format!("udp-scale-{n}.pcapng"), &["--stats"])).collect();
    let to = |count: usize| {
        let ends: Vec<String> =
            instances[..count].iter().map(|instance| instance.address.to_string()).collect();
        format!("udp://{}", ends.join(","))
    };
    let (questions, socket) = (scratch("udp-scale.toml"), scratch("udp-scale.sock"));
    let ask = |output: &str| {
        let text = format!(
            "[[question]]\nname = \"front\"\nask = \"packets\"\noutput = \"{output}\"\nbalance = \"ip.src, ip.dst\"\n"
        );
        fs::write(&questions, text).expect("room");
    };
    ask(&to(2));
    let args = ["run", questions.to_str().unwrap(), "-r", "-", "--control", socket.to_str().unwrap()];
    let mut run = Running::start(&args, Stdio::piped());
    let mut input = run.child.stdin.take().expect("it is piped");
    let (header, pieces) = pieces(20);
    let part = pieces.len() / 4;
    input.write_all(&header).expect("it reads");
    feed(&mut input, &pieces[..part]);
    // Traffic goes on during both changes, and each number of instances has its part of it.
    let fed_max = Arc::new(AtomicUsize::new(2 * part));
    let all = pieces.len();
    let may_feed = Arc::clone(&fed_max);
    let feeding = std::thread::spawn(move || {
        for (at, piece) in pieces.iter().enumerate().skip(part) {
            while at >= may_feed.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(4));
            }
            feed(&mut input, std::slice::from_ref(piece));
        }
        input
    });
    let ctl = |more: &[&str]| weir(&[&["ctl", socket.to_str().unwrap()], more].concat());
    let changed = ctl(&["change", "front", "-o", &to(3)]);
    assert_eq!(changed.status.code(), Some(0), "{}", text(&changed.stderr));
    fed_max.store(3 * part, Ordering::Release);
    // The end of a file may be written just now.
    let count = |file: &Path| {
        let output = weir(&["packets", "--count", file.to_str().unwrap()]);
        text(&output.stdout).trim().parse::<usize>().unwrap_or(0)
    };
    until("all instances have packets", || instances.iter().all(|instance| count(&instance.file) > 20));
    fed_max.store(all, Ordering::Release);
    // The file says 2 instances, and 3 run: the file wins as soon as it changes.
    ask(&to(1));
    signal(&run.child, "HUP");
    run.wait_for("reloaded: ");
    drop(feeding.join().expect("it feeds"));
    let output = run.end();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let mut received = vec![];
    for (at, instance) in instances.into_iter().enumerate() {
        let (output, packets) = instance.end();
        assert!(!text(&output.stderr).contains("were lost"), "{}", text(&output.stderr));
        assert!(packets.len() > 20, "instance {at} has packets");
        received.extend(packets);
    }
    assert_same(received, packets_of(&example()));
}

/// A path that loses, repeats and reorders datagrams.
#[test]
fn missing_packets_are_counted_and_others_come_in_order() {
    let instance = Instance::start("udp-proxy.pcapng", &["--stats"]);
    let proxy = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    proxy.set_read_timeout(Some(Duration::from_secs(2))).expect("a time-out");
    let (to, from) = (instance.address, proxy.local_addr().expect("it is bound"));
    let forwarding = std::thread::spawn(move || {
        let (mut number, mut repeated, mut kept) = (0, 0, None);
        let mut datagram = vec![0; 1 << 16];
        while let Ok(bytes) = proxy.recv(&mut datagram) {
            let datagram = &datagram[..bytes];
            number += 1;
            match number {
                10 | 20 | 21 => continue,
                _ if number % 8 == 5 => repeated += proxy.send_to(datagram, to).map_or(0, |_| 1),
                _ if number % 8 == 7 => {
                    kept = Some(datagram.to_vec());
                    continue;
                }
                _ => {}
            }
            proxy.send_to(datagram, to).expect("loopback");
            kept.take().iter().for_each(|late: &Vec<u8>| drop(proxy.send_to(late, to)));
        }
        (number, repeated)
    });
    send(&format!("udp://{from}"), &[], 40);
    let (datagrams, repeated) = forwarding.join().expect("it forwards");
    assert!(datagrams > 40, "{datagrams} datagrams");
    let (output, received) = instance.end();
    let said = text(&output.stderr);
    let counter = |name: &str| counter(&said, name);
    let missing = counter("source_missing");
    assert!(missing > 0 && received.len() + missing == PACKETS, "{} and {missing}", received.len());
    assert_eq!(counter("source_received"), PACKETS);
    assert!(counter("datagrams_repeated") >= repeated.min(1), "{said}");
    assert!(said.contains(&format!("{missing} of {PACKETS} packets")), "{said}");
    assert!(said.contains("datagrams were lost between the sender and this receiver"), "{said}");
    let all = packets_of(&example());
    let mut rest = all.iter();
    assert!(received.iter().all(|packet| rest.any(|one| one == packet)), "in order, and each once");
}

/// A column of the line of the socket that is bound to a port, in the kernel's table of UDP sockets.
fn of_socket(port: u16, column: usize) -> Option<String> {
    let table = fs::read_to_string("/proc/net/udp").ok()?;
    let local = format!(":{port:04X}");
    let line =
        table.lines().find(|line| line.split_whitespace().nth(1).is_some_and(|at| at.ends_with(&local)))?;
    line.split_whitespace().nth(column).map(str::to_string)
}

/// Datagrams that the kernel dropped because the buffer of the port's socket was full.
fn kernel_drops(port: u16) -> u64 {
    of_socket(port, 12).and_then(|drops| drops.parse().ok()).unwrap_or(0)
}

/// Bytes in the buffer of the port's socket.
fn queued_bytes(port: u16) -> u64 {
    let queues = of_socket(port, 4);
    let received = queues.as_deref().and_then(|queues| queues.split_once(':'));
    received.and_then(|(_, bytes)| u64::from_str_radix(bytes, 16).ok()).unwrap_or(0)
}

/// A receiver that does not read for a while: its kernel has a bounded buffer, and what does not fit is
/// counted.
#[test]
fn a_slow_receiver_loses_packets_and_counts_them() {
    /// More than the buffer of a socket, which is 64 MiB for root.
    const TIMES: usize = 60;
    let instance = Instance::start("udp-slow.pcapng", &["--stats"]);
    let (header, pieces) = pieces(PACKETS - 1);
    let to = format!("udp://{}", instance.address);
    let mut sender = Running::start(&["packets", "-r", "-", "-w", &to], Stdio::piped());
    let mut input = sender.child.stdin.take().expect("it is piped");
    input.write_all(&header).expect("it reads");
    feed(&mut input, &pieces[1..]);
    std::thread::sleep(SETTLE);
    signal(&instance.run.child, "STOP");
    (0..TIMES).for_each(|_| feed(&mut input, &pieces[..1]));
    until("the buffer is full", || kernel_drops(instance.address.port()) > 0);
    signal(&instance.run.child, "CONT");
    until("the buffer is read", || queued_bytes(instance.address.port()) == 0);
    feed(&mut input, &pieces[1..]);
    drop(input);
    assert_eq!(sender.end().status.code(), Some(0));
    let (output, received) = instance.end();
    let said = text(&output.stderr);
    let sent = TIMES * (PACKETS - 1) + 2;
    let (missing, dropped) = (counter(&said, "source_missing"), counter(&said, "datagrams_dropped"));
    assert!(missing > 0 && dropped > 0 && received.len() + missing == sent, "{} {said}", received.len());
    assert!(said.contains("the buffer of the socket was full"), "{said}");
}

#[test]
fn several_ports_are_read_together() {
    let file = scratch("udp-two.pcapng");
    let args =
        ["packets", "-r", "udp://127.0.0.1:0", "-r", "udp://127.0.0.1:0", "-w", file.to_str().unwrap()];
    let run = Running::start(&args, Stdio::null());
    let ends = format!("udp://{},{}", run.address(), run.address());
    send(&ends, &[], 40);
    std::thread::sleep(SETTLE * 4);
    signal(&run.child, "INT");
    assert_eq!(run.end().status.code(), Some(0));
    assert_same(packets_of(&file), packets_of(&example()));
}

#[test]
fn wrong_names_and_options_are_answered_with_the_right_form() {
    let file = example();
    let file = file.to_str().unwrap();
    for (args, says) in [
        (&["packets", file, "-w", "udp://host"][..], "udp://HOST:PORT"),
        (&["packets", file, "-w", "udp://:9000"], "the host is missing"),
        (&["packets", file, "-w", "udp://a.example:1,a.example:1"], "named twice"),
        (&["packets", file, "-w", "udp://does-not-exist.invalid:1"], "unknown host"),
        (&["packets", file, "-w", "tzsp://127.0.0.1:37008"], "read, not written"),
        (&["packets", "-r", "udp://:1,:2"], "several -r"),
        (&["packets", "-r", "udp://localhost:9000"], "udp://ADDRESS:PORT"),
        (&["packets", "-r", "udp://192.0.2.1:9000"], "does not have the address"),
        (
            &["packets", file, "-w", "out.pcap", "--balance", "ip.src"],
            "--balance is for packets to instances",
        ),
        (&["packets", file, "-w", "udp://127.0.0.1:9", "--balance", "ip.scr"], "ip.src"),
        (&["packets", file, "-w", "udp://127.0.0.1:9", "--balance", "ip.src every 1s"], "a comma"),
        (&["packets", file, "-w", "udp://127.0.0.1:9", "--format", "pcap"], "give no --format"),
        (&["flows", file, "-o", "udp://127.0.0.1:9"], "a capture can only hold packets"),
    ] {
        let output = weir(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(says), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn an_instance_that_nobody_reads_is_reported_once() {
    let free = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port");
    let output = send(&format!("udp://{free}"), &[], 200);
    let said = text(&output.stderr);
    assert_eq!(said.matches(&format!("nothing receives at {free}")).count(), 1, "{said}");
}

/// TZSP as an access point sends it: tags before the packet, and numbers.
#[test]
fn tzsp_gives_the_packets_inside() {
    let (_, records) = pieces(1);
    let records: Vec<&[u8]> = records[..50].iter().map(|record| &record[16..]).collect();
    let datagram = |number: u32, frame: &[u8]| {
        let length = (frame.len() as u16 + 4).to_be_bytes();
        [&[1, 0, 0, 1, 0, 10, 1, 0xc8, 40, 4], &number.to_be_bytes()[..], &[41, 2], &length, &[1], frame]
            .concat()
    };
    let file = scratch("udp-tzsp.pcap");
    let args = ["packets", "-r", "tzsp://127.0.0.1:0", "-w", file.to_str().unwrap(), "--stats"];
    let run = Running::start(&args, Stdio::null());
    let to = run.address();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    for (number, frame) in (0..).zip(&records).filter(|(number, _)| ![7, 8].contains(number)) {
        socket.send_to(&datagram(number, frame), to).expect("loopback");
    }
    std::thread::sleep(SETTLE);
    signal(&run.child, "INT");
    let said = text(&run.end().stderr);
    assert!(said.lines().any(|line| line.starts_with("source_missing ") && line.ends_with(" 2")), "{said}");
    let capture = fs::read(&file).expect("a capture");
    let (mut rest, mut frames) = (&capture[24..], vec![]);
    while !rest.is_empty() {
        let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("four bytes")) as usize;
        assert_eq!(word(12), word(8) + 4, "the original length is that of the tag");
        frames.push(&rest[16..16 + word(8)]);
        rest = &rest[16 + word(8)..];
    }
    let expected: Vec<&[u8]> =
        records.iter().enumerate().filter(|(at, _)| ![7, 8].contains(at)).map(|(_, frame)| *frame).collect();
    assert_eq!(frames, expected);
    if has("tshark", "tzsp_gives_the_packets_inside") {
        assert_eq!(tshark_frames(&datagram(3, records[3])), tshark_frames_of(records[3]));
    }
}

/// What tshark finds in a datagram of TZSP: the protocols behind it, and the bytes of the innermost payload.
fn tshark_frames(datagram: &[u8]) -> String {
    let udp =
        [&[0x90, 0, 0x90, 0x90][..], &(datagram.len() as u16 + 8).to_be_bytes(), &[0, 0], datagram].concat();
    let mut ip = vec![0x45, 0];
    ip.extend((udp.len() as u16 + 20).to_be_bytes());
    ip.extend([0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    ip.extend(udp);
    let all = tshark("tzsp", &[&[2; 12][..], &[8, 0], &ip].concat(), &["-d", "udp.port==36864,tzsp"]);
    let (_, inner) = all.split_once(":tzsp:").unwrap_or_else(|| panic!("tshark finds {all}"));
    inner.to_string()
}

fn tshark_frames_of(frame: &[u8]) -> String {
    tshark("inner", frame, &[])
}

/// The protocols of a frame of Ethernet.
fn tshark(name: &str, frame: &[u8], more: &[&str]) -> String {
    let file = scratch(&format!("udp-tshark-{name}.pcap"));
    let mut bytes = [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 262_144, 1].map(u32::to_le_bytes).concat();
    bytes.extend([1, 0, frame.len() as u32, frame.len() as u32].map(u32::to_le_bytes).concat());
    bytes.extend(frame);
    fs::write(&file, bytes).expect("room");
    let output = Command::new("tshark")
        .args(["-r", file.to_str().unwrap(), "-T", "fields", "-e", "frame.protocols"])
        .args(more)
        .output()
        .expect("tshark is installed");
    text(&output.stdout).trim().to_string()
}

/// A run that ends while datagrams wait has them: the receiver takes what the kernel keeps.
#[test]
fn a_limit_ends_the_receiver() {
    let file = scratch("udp-limit.pcapng");
    let args = ["packets", "-r", "udp://:0", "-w", file.to_str().unwrap(), "--limit", "100"];
    let run = Running::start(&args, Stdio::null());
    let to = format!("udp://{}", run.address());
    let sender = std::thread::spawn(move || send(&to, &[], 40));
    assert_eq!(run.end().status.code(), Some(0));
    sender.join().expect("it sends");
    until("the file is complete", || file.exists());
    assert_eq!(packets_of(&file), packets_of(&example())[..100]);
}
