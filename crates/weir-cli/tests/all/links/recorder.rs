//! The recorder: a ring in memory that other processes read, and its spool.

use crate::links::{
    Capturing, FIRST_LIGHT, LOGS, captures, empty, frames_of, inside, make_pair, questions, scratch, send,
    sorted_rows, text,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use weir_testing::frames::{self, ACK};

/// Filters of all kinds: by headers, which the index knows, and by connections and sessions.
const FILTERS: &[&str] = &[
    "",
    "tcp.dstport == 443",
    "udp.port == 53",
    "ip.src == 192.0.2.10",
    "tls.sni ~ 'shop'",
    "http",
    "icmp or arp",
    "tcp.flags.syn == 1 and tcp.flags.ack == 0",
];

pub fn weir(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(args).output().expect("it runs");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// The number of packets that match.
pub fn count(input: &[&str], filter: &str) -> u64 {
    let (_, out, err) = weir(&[&["packets", "--count", filter, "-r"], input].concat());
    out.trim().parse().unwrap_or_else(|_| panic!("{input:?} {filter}: {out} {err}"))
}

/// The name of a recorder of this process. Sockets of recorders are in a file system of the test's own.
pub fn name(of: &str) -> String {
    fs::create_dir_all("/run/weir").expect("root may do so");
    crate::links::sh("mount -t tmpfs tmpfs /run/weir");
    format!("test-{}-{of}", std::process::id())
}

/// Waits until a recorder has this number of packets.
pub fn wait_for(ring: &str, packets: u64) {
    let began = Instant::now();
    while count(&[ring], "") < packets {
        assert!(began.elapsed() < Duration::from_secs(20), "{} of {packets}", count(&[ring], ""));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The files of a spool.
fn files(spool: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(spool).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut files: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "pcapng")).collect();
    files.sort();
    files
}

fn frames_in(files: &[PathBuf]) -> Vec<Vec<u8>> {
    files.iter().flat_map(|file| frames_of(file)).collect()
}

#[test]
fn the_past_is_what_was_sent_and_answers_as_a_file_does() {
    if !inside("recorder::the_past_is_what_was_sent_and_answers_as_a_file_does") {
        return;
    }
    make_pair(0);
    let name = name("past");
    let ring = format!("ring:{name}");
    for (at, capture) in captures().into_iter().enumerate() {
        let frames = frames_of(&capture);
        if frames.is_empty() || frames.len() > 20_000 {
            continue;
        }
        let (live, file) = (scratch("recorder-live"), scratch("recorder-file"));
        [&live, &file].into_iter().for_each(|folder| empty(folder));
        let workers = if at % 3 == 2 { "2" } else { "1" };
        let args = ["record", "-i", "in0", "--name", &name, "--ring", "32M", "-j", workers];
        let recorder = Capturing::start(&args);
        let sent = send("out0", &frames) as u64;
        wait_for(&ring, sent);
        let seen = live.join("seen.pcapng");
        let seen_name = seen.to_str().expect("text");
        let (status, _, said) = weir(&["packets", "-r", &ring, "-w", seen_name]);
        assert_eq!(status, Some(0), "{said}");
        let got = frames_of(&seen);
        assert_eq!(got.len() as u64, sent, "{}", capture.display());
        if workers == "1" {
            let same = frames.iter().filter(|frame| frame.len() >= 14);
            assert!(got.iter().zip(same).all(|(got, sent)| got == sent), "{}", capture.display());
        }
        for filter in FILTERS {
            let (expected, got) = (count(&[seen_name], filter), count(&[&ring], filter));
            assert_eq!(got, expected, "{}: {filter}", capture.display());
        }
        for (folder, input) in [(&live, ring.as_str()), (&file, seen_name)] {
            let asked = questions(folder, &LOGS, false);
            let (status, _, said) = weir(&["run", asked.to_str().expect("text"), "-r", input]);
            assert_eq!(status, Some(0), "{said}");
        }
        for log in LOGS {
            let [expected, got] =
                [&file, &live].map(|folder| sorted_rows(&folder.join(format!("{log}.json")), true));
            assert!(got == expected, "{}, {log}", capture.display());
        }
        recorder.end();
    }
}

#[test]
fn packets_are_in_the_spool_and_survive_a_restart() {
    if !inside("recorder::packets_are_in_the_spool_and_survive_a_restart") {
        return;
    }
    make_pair(0);
    let (name, spool) = (name("spool"), scratch("recorder-spool"));
    let (ring, spool_name) = (format!("ring:{name}"), spool.to_str().expect("text").to_string());
    let _ = fs::remove_dir_all(&spool);
    let record = ["record", "-i", "in0", "--name", &name, "--ring", "4M", "--spool", &spool_name];
    let frames = frames_of(Path::new(FIRST_LIGHT));
    // More than the ring holds.
    let many: Vec<_> = frames.iter().cycle().take(frames.len() * 8).cloned().collect();
    let recorder = Capturing::start(&record);
    for part in many.chunks(500) {
        assert_eq!(send("out0", part), part.len());
        std::thread::sleep(Duration::from_millis(5));
    }
    wait_for(&ring, many.len() as u64);
    let seen = scratch("recorder-seen.pcapng");
    weir(&["packets", "-r", &ring, "-w", seen.to_str().expect("text")]);
    assert!(frames_of(&seen) == many, "memory and disk together have every packet once, in order");
    let (expected, got) = (count(&[seen.to_str().expect("text")], "tls"), count(&[&ring], "tls"));
    assert_eq!(got, expected);
    let output = recorder.end();
    assert!(
        text(&output.stderr).contains(&format!("{} packets are in", many.len())),
        "{}",
        text(&output.stderr)
    );
    assert!(frames_in(&files(&spool)) == many, "the disk has all of them after the end");
    // Other programs read the files.
    for file in files(&spool) {
        let capinfos = Command::new("capinfos").args(["-c", "-M"]).arg(&file).output();
        match capinfos {
            Ok(output) => {
                let said = text(&output.stdout);
                let counted = said
                    .lines()
                    .find_map(|line| line.strip_prefix("Number of packets:")?.trim().parse().ok());
                assert_eq!(counted, Some(frames_of(&file).len()), "{said}");
            }
            Err(_) => eprintln!("skipped: capinfos (tshark) is not installed"),
        }
    }
    let recorder = Capturing::start(&record);
    assert_eq!(send("out0", &frames), frames.len());
    wait_for(&ring, (many.len() + frames.len()) as u64);
    recorder.end();
}

#[test]
fn classes_are_in_directories_of_their_own() {
    if !inside("recorder::classes_are_in_directories_of_their_own") {
        return;
    }
    make_pair(0);
    let (name, spool) = (name("classes"), scratch("recorder-classes"));
    let (ring, spool_name) = (format!("ring:{name}"), spool.to_str().expect("text").to_string());
    let _ = fs::remove_dir_all(&spool);
    let record = ["record", "-i", "in0", "--name", &name, "--ring", "16M", "--spool", &spool_name];
    let classes = ["--keep", "names=dns:64M/90d", "--keep", "web=tcp.port in {80, 443}:64M"];
    let recorder = Capturing::start(&[&record[..], &classes].concat());
    let frames = frames_of(Path::new(FIRST_LIGHT));
    assert_eq!(send("out0", &frames), frames.len());
    wait_for(&ring, frames.len() as u64);
    let seen = scratch("recorder-classes-seen.pcapng");
    weir(&["packets", "-r", &ring, "-w", seen.to_str().expect("text")]);
    assert!(frames_of(&seen) == frames, "a question reads all classes, in the order of time");
    recorder.end();
    // Each packet is in the directory of its class, and only there.
    let mut left = frames.len();
    let ports = "tcp.port in {53, 853} or udp.port in {53, 5353, 5355, 853, 137}";
    for (class, filter) in [("names", "dns"), ("web", "tcp.port in {80, 443}")] {
        let (_, layers, _) = weir(&["packets", "-r", FIRST_LIGHT, "--count", filter]);
        let in_class: usize = files(&spool.join(class)).iter().map(|file| frames_of(file).len()).sum();
        let expected = match class {
            "web" => layers.trim().parse().expect("a number"),
            // The name of a session protocol is that of its ports.
            _ => count(&[FIRST_LIGHT], ports) as usize,
        };
        assert!(in_class == expected && in_class > 20, "{class}: {in_class}, not {expected}");
        left -= in_class;
    }
    let rest: usize = files(&spool).iter().map(|file| frames_of(file).len()).sum();
    assert_eq!(rest, left);
    // Wrong classes have remedies.
    for (keep, said) in [
        ("tls=tls.sni ~ 'shop':64M", "delivered before this field is known"),
        ("a b=udp:64M", "no name of a class"),
        ("udp", "give a name, a filter and a size"),
        ("x=udp:64M/never", "give a time"),
        ("x=udp:1M", "give at least 32M"),
        ("x=udp.prt == 1:64M", "udp.port"),
    ] {
        let (status, _, err) = weir(&[&record[..], &["--keep", keep]].concat());
        assert!(status != Some(0) && err.contains(said), "{keep}: {err}");
    }
}

#[test]
fn a_follower_sees_packets_as_they_come() {
    if !inside("recorder::a_follower_sees_packets_as_they_come") {
        return;
    }
    make_pair(0);
    let (name, seen) = (name("follow"), scratch("recorder-follow.pcapng"));
    let ring = format!("ring:{name}");
    let recorder = Capturing::start(&["record", "-i", "in0", "--name", &name, "--ring", "8M"]);
    let frames = frames_of(Path::new(FIRST_LIGHT));
    send("out0", &frames[..100]);
    wait_for(&ring, 100);
    let seen_name = seen.to_str().expect("text");
    let mut follower = Command::new(env!("CARGO_BIN_EXE_weir"));
    follower.args(["packets", "-r", &ring, "--follow", "-w", seen_name]).stderr(Stdio::null());
    let mut follower = follower.spawn().expect("it runs");
    for part in frames[100..].chunks(100) {
        send("out0", part);
        std::thread::sleep(Duration::from_millis(10));
    }
    let began = Instant::now();
    while frames_of(&seen).len() < frames.len() && began.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(50));
    }
    crate::links::sh(&format!("kill -INT {}", follower.id()));
    follower.wait().expect("it ends");
    assert!(frames_of(&seen) == frames, "{} of {}", frames_of(&seen).len(), frames.len());
    recorder.end();
}

/// Whenever a recorder is killed: its files are readable up to their last complete segment, and another
/// recorder takes its name. `WEIR_KILLS=N` kills N recorders (default 8).
#[test]
fn killed_recorders_leave_readable_files() {
    if !inside("recorder::killed_recorders_leave_readable_files") {
        return;
    }
    make_pair(0);
    let kills = std::env::var("WEIR_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    let (name, spool) = (name("killed"), scratch("recorder-killed"));
    let spool_name = spool.to_str().expect("text").to_string();
    let frames = frames_of(Path::new(FIRST_LIGHT));
    let mut readable = 0;
    for kill in 0..kills {
        let _ = fs::remove_dir_all(&spool);
        let record = ["record", "-i", "in0", "--name", &name, "--ring", "4M", "--spool", &spool_name];
        let recorder = Capturing::start(&record);
        let sending = frames.iter().cycle().take(frames.len() * 3).cloned().collect::<Vec<_>>();
        let sender = std::thread::spawn(move || {
            sending.chunks(200).for_each(|part| {
                send("out0", part);
                std::thread::sleep(Duration::from_millis(2));
            });
        });
        std::thread::sleep(Duration::from_millis(kill * 37 % 211));
        recorder.signal("KILL");
        recorder.wait();
        sender.join().expect("the sender ends");
        for file in files(&spool) {
            let (status, _, said) = weir(&["packets", "--count", "-r", file.to_str().expect("text")]);
            assert!(matches!(status, Some(0 | 1)), "{}: {said}", file.display());
        }
        let got = frames_in(&files(&spool));
        assert!(
            got.iter().zip(frames.iter().cycle()).all(|(got, sent)| got == sent),
            "{} packets",
            got.len()
        );
        readable += got.len();
    }
    assert!(readable > 0, "some recorders have written segments");
}

/// Connections that match are dumped whole, a file each, with the reason; and what is dumped is what tcpdump
/// captured beside.
#[test]
fn groups_over_a_threshold_are_dumped() {
    if !inside("recorder::groups_over_a_threshold_are_dumped") {
        return;
    }
    make_pair(0);
    let (name, dumps) = (name("threshold"), scratch("recorder-threshold"));
    let _ = fs::remove_dir_all(&dumps);
    let dumps_name = dumps.to_str().expect("text");
    let frames = frames_of(Path::new(FIRST_LIGHT));
    // The hosts that receive many packets with data of TCP, and their packets of TCP in both directions.
    let (_, hosts, _) =
        weir(&["aggregate", FIRST_LIGHT, "count() by ip.dst having count > 150", "tcp.len > 0"]);
    let hosts: Vec<&str> = hosts.lines().filter_map(|row| row.split('"').nth(3)).collect();
    assert!(!hosts.is_empty(), "the capture has such hosts");
    let threshold = "count() by ip.dst every 10s having count > 150 where tcp.len > 0";
    let record = ["record", "-i", "in0", "--name", &name, "--ring", "16M", "--dumps", dumps_name];
    let recorder =
        Capturing::start(&[&record[..], &["--threshold", threshold, "--around", "1m/1s"]].concat());
    assert_eq!(send("out0", &frames), frames.len());
    wait_for(&format!("ring:{name}"), frames.len() as u64);
    // The end of the capture is the end of the window, too.
    let output = recorder.end();
    let mut found = vec![];
    for file in files(&dumps) {
        let bytes = fs::read(&file).expect("bytes");
        let comment = String::from_utf8_lossy(&bytes[..400]).into_owned();
        let host = hosts.iter().find(|host| comment.contains(&format!("ip.dst {host} exceeds")));
        let host = *host.unwrap_or_else(|| panic!("{comment}"));
        let expected = count(&[FIRST_LIGHT], &format!("ip.addr == {host} and tcp.len > 0"));
        assert_eq!(frames_of(&file).len() as u64, expected, "{host}");
        found.push(host);
    }
    found.sort();
    let mut hosts = hosts;
    hosts.sort();
    assert_eq!(found, hosts, "{}", text(&output.stderr));
    for (threshold, said) in [
        ("count() by ip.dst", "give windows and a bound"),
        ("count() by ip.dts every 1s", "ip.dst"),
        ("count() by frame.time every 1s top 1", "cannot compare the key"),
        (
            "count() by ip.dst every 1s having count > 1 where tls.sni ~ 'a'",
            "delivered before this field is known",
        ),
    ] {
        let (status, _, err) = weir(&[&record[..], &["--threshold", threshold]].concat());
        assert!(status != Some(0) && err.contains(said), "{threshold}: {err}");
    }
}

/// The dumps of a recorder with a rule, of the example capture, and what the recorder said.
fn dumps_of(rule: &str, called: &str) -> (Vec<PathBuf>, Output) {
    make_pair(0);
    let (name, dumps) = (name(called), scratch(&format!("recorder-{called}")));
    let _ = fs::remove_dir_all(&dumps);
    let dumps_name = dumps.to_str().expect("text");
    let rules = scratch(&format!("recorder-{called}.rules"));
    fs::write(&rules, rule).expect("it is writable");
    let record = ["record", "-i", "in0", "--name", &name, "--ring", "16M", "--dumps", dumps_name];
    let recorder = Capturing::start(&[&record[..], &["--rules", rules.to_str().expect("text")]].concat());
    let frames = frames_of(Path::new(FIRST_LIGHT));
    for part in frames.chunks(50) {
        send("out0", part);
        std::thread::sleep(Duration::from_millis(4));
    }
    wait_for(&format!("ring:{name}"), frames.len() as u64);
    std::thread::sleep(Duration::from_millis(500));
    let output = recorder.end();
    (files(&dumps), output)
}

#[test]
fn alerts_of_rules_dump_their_connections() {
    if !inside("recorder::alerts_of_rules_dump_their_connections") {
        return;
    }
    let rule = "alert http any any -> any any (msg:\"A missing page\"; flow:to_client; http.stat_code; content:\"404\"; sid:7;)\n";
    let (files, output) = dumps_of(rule, "rules");
    let (_, flows, _) = weir(&["flows", "--count", "-r", FIRST_LIGHT, "http.status_code == 404"]);
    assert_eq!(files.len().to_string(), flows.trim(), "{}", text(&output.stderr));
    for file in &files {
        let of_file = file.to_str().expect("text");
        let (_, count, _) = weir(&["flows", "--count", "-r", of_file, "http.status_code == 404"]);
        assert_eq!(count.trim(), "1", "{of_file} has the connection");
        let (_, first, _) = weir(&["packets", "--count", "-r", of_file, "tcp.flags.syn == 1"]);
        assert_eq!(first.trim(), "2", "{of_file} begins with the handshake");
        let bytes = fs::read(file).expect("bytes");
        let reason = b"the rule 7 matches: A missing page";
        assert!(bytes.windows(reason.len()).any(|text| text == reason), "the comment says why");
    }
}

/// A rule with `tag:host` dumps the packets of its host, whatever connection they are of.
#[test]
fn tags_of_rules_dump_their_hosts() {
    if !inside("recorder::tags_of_rules_dump_their_hosts") {
        return;
    }
    let rule = "alert http any any -> any any (flow:to_client; http.stat_code; content:\"404\"; tag:host,5,seconds,dst; sid:8;)\n";
    let (files, output) = dumps_of(rule, "tags");
    let (_, clients, _) = weir(&[
        "flows",
        "-r",
        FIRST_LIGHT,
        "http.status_code == 404",
        "--format",
        "csv",
        "--columns",
        "id.orig_h",
    ]);
    let mut clients: Vec<&str> = clients.lines().skip(1).collect();
    clients.sort_unstable();
    clients.dedup();
    assert!(!clients.is_empty() && files.len() == clients.len(), "{files:?}, {}", text(&output.stderr));
    for file in &files {
        let count = |filter: &str| {
            let (_, count, _) = weir(&["packets", "--count", "-r", file.to_str().expect("text"), filter]);
            count.trim().parse::<u64>().expect("a number")
        };
        let of_hosts = clients.iter().map(|client| count(&format!("ip.addr == {client}")));
        assert_eq!(of_hosts.max(), Some(count("ip")), "all packets are those of a host");
        assert!(count("not tcp.port == 80") > 0, "other connections of the host follow the alert");
    }
}

#[test]
fn triggers_dump_whole_connections() {
    if !inside("recorder::triggers_dump_whole_connections") {
        return;
    }
    make_pair(0);
    let (name, dumps, beside) = (name("trigger"), scratch("recorder-dumps"), scratch("recorder-beside.pcap"));
    let _ = fs::remove_dir_all(&dumps);
    let dumps_name = dumps.to_str().expect("text");
    let filter = "tls.sni ~ 'shop' or http";
    let args =
        ["record", "-i", "in0", "--name", &name, "--ring", "16M", "--trigger", filter, "--dumps", dumps_name];
    let recorder = Capturing::start(&args);
    let beside_name = beside.to_str().expect("text");
    let tcpdump =
        Command::new("tcpdump").args(["-i", "in0", "-U", "-w", beside_name]).stderr(Stdio::piped()).spawn();
    let Ok(mut tcpdump) = tcpdump else { return eprintln!("skipped: tcpdump is not installed") };
    std::thread::sleep(Duration::from_millis(700));
    let frames = frames_of(Path::new(FIRST_LIGHT));
    for part in frames.chunks(50) {
        send("out0", part);
        std::thread::sleep(Duration::from_millis(4));
    }
    wait_for(&format!("ring:{name}"), frames.len() as u64);
    std::thread::sleep(Duration::from_millis(500));
    crate::links::sh(&format!("kill -INT {}", tcpdump.id()));
    tcpdump.wait().expect("it ends");
    recorder.end();
    let of_connections = scratch("recorder-expected.pcapng");
    weir(&["packets", "-r", beside_name, "-w", of_connections.to_str().expect("text"), filter]);
    let mut expected = frames_of(&of_connections);
    assert!(expected.len() > 100, "{}", expected.len());
    let files = files(&dumps);
    let (_, flows, _) = weir(&["flows", "--count", "-r", beside_name, filter]);
    assert_eq!(files.len().to_string(), flows.trim(), "a file for each connection");
    let mut got = vec![];
    for file in &files {
        assert_eq!(file.extension().and_then(|ending| ending.to_str()), Some("pcapng"), "{}", file.display());
        let (_, count, _) = weir(&["flows", "--count", "-r", file.to_str().expect("text")]);
        assert_eq!(count.trim(), "1", "{} has one connection", file.display());
        got.extend(frames_of(file));
        let bytes = fs::read(file).expect("bytes");
        assert!(bytes.windows(filter.len()).any(|text| text == filter.as_bytes()), "the comment says why");
    }
    got.sort();
    expected.sort();
    assert!(got == expected, "{} frames instead of {}", got.len(), expected.len());
}

/// Hostile traffic that matches a trigger has few dumps at a time, and as many in all as the directory gets.
#[test]
fn dumps_are_bounded_in_number_and_in_open_files() {
    if !inside("recorder::dumps_are_bounded_in_number_and_in_open_files") {
        return;
    }
    make_pair(0);
    let attack = |first: u16| -> Vec<Vec<u8>> {
        let frame = |number: u16| {
            let segment = frames::tcp((first + number, 80), 1, 1, ACK, &[], b"x");
            frames::ethernet(
                0x0800,
                &frames::ipv4(([10, 0, 0, 1], [10, 0, 0, 2]), 6, number, 0, &[], &segment),
            )
        };
        (0..1500).map(frame).collect()
    };
    for (more, files_max) in [(&[][..], 256), (&["--dumps-max", "1G/20"], 20), (&["--dumps-max", "4k"], 256)]
    {
        let (name, dumps) = (name("bounded"), scratch("bounded-dumps"));
        let _ = fs::remove_dir_all(&dumps);
        let dumps_name = dumps.to_str().expect("text");
        let args = [
            "record",
            "-i",
            "in0",
            "--name",
            &name,
            "--ring",
            "16M",
            "--trigger",
            "tcp",
            "--dumps",
            dumps_name,
        ];
        let recorder = Capturing::start(&[&args[..], more].concat());
        let mut sent = 0;
        let (mut most_open, mut most_files) = (0, 0);
        for round in 0..2 {
            for part in attack(10_000 + 2000 * round).chunks(50) {
                sent += send("out0", part) as u64;
                std::thread::sleep(Duration::from_millis(10));
            }
            wait_for(&format!("ring:{name}"), sent);
            std::thread::sleep(Duration::from_secs(1));
            let open = fs::read_dir(format!("/proc/{}/fd", recorder.child.id())).expect("a process").count();
            most_open = most_open.max(open);
            most_files = most_files.max(fs::read_dir(&dumps).expect("a directory").count());
        }
        recorder.signal("INT");
        let output = recorder.wait();
        let said = text(&output.stderr);
        assert!(most_open < 256 + 64, "{more:?}: {most_open} open files: {said}");
        assert!(most_files > 0 && most_files <= files_max, "{more:?}: {most_files} files: {said}");
        assert!(said.contains("dumps were not begun, because there were too many (--dumps-max)"), "{said}");
        assert_eq!(output.status.code(), Some(2), "what is missing is no success: {said}");
        assert!(!more.contains(&"4k") || said.contains("because there was no room"), "{said}");
    }
}
