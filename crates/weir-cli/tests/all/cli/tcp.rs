//! Captures over TCP connections, with the command at one end or both, on loopback only. Tests with tcpdump
//! or tshark are skipped, with a message, where the program is missing.

use crate::cli::outputs::{LONG, ended, number_before, signal, start, until};
use crate::cli::{answer, example, scratch, text, weir};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

const PACKETS: usize = 2738;

/// A generous margin over the two seconds that a row may take, for a busy machine.
const ROW_MAX: Duration = Duration::from_secs(2);

/// The command, and its messages as they come.
pub struct Running {
    pub child: Child,
    said: JoinHandle<String>,
    lines: Receiver<String>,
}

impl Running {
    pub fn start(args: &[&str], stdin: Stdio) -> Self {
        let mut child = start(args, stdin);
        let errors = BufReader::new(child.stderr.take().expect("it is piped"));
        let (sender, lines) = channel();
        let said = std::thread::spawn(move || {
            let mut all = String::new();
            for line in errors.lines().map_while(Result::ok) {
                all += &format!("{line}\n");
                let _ = sender.send(line);
            }
            all
        });
        Self { child, said, lines }
    }

    /// Waits for a message with these words.
    pub fn wait_for(&self, words: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(LONG).unwrap_or_else(|_| panic!("no message says `{words}`"));
            if line.contains(words) {
                return line;
            }
        }
    }

    /// The address on which the command listens.
    pub fn address(&self) -> SocketAddr {
        let line = self.wait_for("waiting for");
        let address = line.split(" on ").nth(1).and_then(|rest| rest.split(' ').next());
        address.and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("{line}"))
    }

    pub fn end(self) -> Output {
        let (output, _) = ended(self.child);
        Output { stderr: self.said.join().expect("it reads").into_bytes(), ..output }
    }
}

pub fn has(program: &str, test: &str) -> bool {
    let found =
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("skipped: {test} needs {program}");
    }
    found
}

fn args_of(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// Serves bytes to one client, in pieces with a pause before each.
fn serve(pieces: Vec<(Duration, Vec<u8>)>) -> (String, JoinHandle<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let name = format!("tcp://{}", listener.local_addr().expect("it is bound"));
    let sent = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client comes");
        for (pause, bytes) in pieces {
            std::thread::sleep(pause);
            // The client may have ended.
            let _ = stream.write_all(&bytes);
        }
        stream
    });
    (name, sent)
}

fn serve_all(bytes: Vec<u8>) -> String {
    serve(vec![(Duration::ZERO, bytes)]).0
}

/// The shipped capture in the other byte order and with nanoseconds.
fn big_endian() -> Vec<u8> {
    let little = fs::read(example()).expect("the capture");
    let word = |at: usize| u32::from_le_bytes(little[at..at + 4].try_into().expect("four bytes"));
    assert_eq!(word(0), 0xa1b2_c3d4, "microseconds");
    let mut big = 0xa1b2_3c4d_u32.to_be_bytes().to_vec();
    big.extend([0, 2, 0, 4]);
    big.extend((8..24).step_by(4).flat_map(|at| word(at).to_be_bytes()));
    let mut at = 24;
    while at < little.len() {
        let length = word(at + 8);
        for number in [word(at), word(at + 4) * 1000, length, word(at + 12)] {
            big.extend(number.to_be_bytes());
        }
        big.extend(&little[at + 16..at + 16 + length as usize]);
        at += 16 + length as usize;
    }
    big
}

#[test]
fn a_connection_gives_the_rows_of_the_file_in_any_format() {
    let file = example();
    let rows = answer(&["flows", file.to_str().unwrap()], 0);
    let little = fs::read(&file).expect("the capture");
    let (pcapng, zipped) = (scratch("tcp.pcapng"), scratch("tcp.pcap.gz"));
    answer(&["packets", file.to_str().unwrap(), "-w", pcapng.to_str().unwrap()], 0);
    let gzip = Command::new("gzip").arg("-c").arg(&file).output().expect("gzip is installed");
    fs::write(&zipped, gzip.stdout).expect("a scratch file");
    let read = |path| fs::read(path).expect("a scratch file");
    for (what, bytes) in [
        ("pcap", little),
        ("big-endian, nanoseconds", big_endian()),
        ("pcapng", read(&pcapng)),
        ("gzip", read(&zipped)),
    ] {
        let name = serve_all(bytes);
        assert_eq!(answer(&["flows", "-r", &name], 0), rows, "{what}");
    }
}

#[test]
fn our_own_command_sends_and_receives_in_both_directions() {
    let file = example();
    let file = file.to_str().unwrap();
    let rows = answer(&["packets", file, "tcp", "--columns", "ts,length,layers,info"], 0);
    for format in ["pcapng", "pcap"] {
        // The receiver connects.
        let args = format!("packets {file} tcp -w tcp-listen:0 --format {format}");
        let sender = Running::start(&args_of(&args), Stdio::null());
        let name = format!("tcp://{}", sender.address());
        let received = answer(&["packets", &name, "--columns", "ts,length,layers,info"], 0);
        assert!(received == rows, "{format}: other rows");
        let output = sender.end();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        // The sender connects.
        let out = scratch("tcp-received.json");
        let args = format!("packets tcp-listen:0 --columns ts,length,layers,info -o {}", out.display());
        let receiver = Running::start(&args_of(&args), Stdio::null());
        let name = format!("tcp://{}", receiver.address());
        answer(&["packets", file, "tcp", "-w", &name, "--format", format], 0);
        let output = receiver.end();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(fs::read_to_string(&out).expect("it is written") == rows, "{format}: other rows");
    }
}

#[test]
fn connections_and_files_are_merged_by_time() {
    let file = example();
    let file = file.to_str().unwrap();
    let parts: Vec<_> = ["tcp", "not tcp"].into_iter().enumerate().collect();
    let parts: Vec<_> = parts
        .into_iter()
        .map(|(index, filter)| {
            let path = scratch(&format!("tcp-part-{index}.pcapng"));
            answer(&["packets", file, filter, "-w", path.to_str().unwrap()], 0);
            path
        })
        .collect();
    let columns = ["--columns", "ts,length,info"];
    let rows = |inputs: &[&str]| answer(&[&["packets", "-r"], inputs, &columns].concat(), 0);
    let files = [parts[0].to_str().unwrap(), parts[1].to_str().unwrap()];
    let merged = rows(&files);
    assert_eq!(merged.lines().count(), PACKETS);
    let bytes = |index: usize| fs::read(&parts[index]).expect("a scratch file");
    assert!(rows(&[&serve_all(bytes(0)), &serve_all(bytes(1))]) == merged, "two connections");
    assert!(rows(&[&serve_all(bytes(0)), files[1]]) == merged, "a connection and a file");
    assert!(rows(&[files[0], &serve_all(bytes(1))]) == merged, "a file and a connection");
    // Each part has its own interface, which a capture of both keeps.
    let both = scratch("tcp-both.pcapng");
    let names = [serve_all(bytes(0)), serve_all(bytes(1))];
    answer(&["packets", "-r", &names[0], &names[1], "-w", both.to_str().unwrap()], 0);
    let count = |path: &str, filter: &str| answer(&["packets", path, "--count", filter], 0);
    let mut of_interfaces =
        [0, 1].map(|number| count(both.to_str().unwrap(), &format!("frame.interface_id == {number}")));
    let mut of_parts = files.map(|path| count(path, "frame"));
    of_interfaces.sort();
    of_parts.sort();
    assert_eq!(of_interfaces, of_parts);
}

/// A little-endian pcap with one UDP datagram of now.
fn record_of_now() -> Vec<u8> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let frame =
        [&[2; 12][..], &[8, 0, 0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]].concat();
    let frame = [&frame[..], &[0, 7, 0, 9, 0, 8, 0, 0]].concat();
    let words = [now.as_secs() as u32, now.subsec_micros(), frame.len() as u32, frame.len() as u32];
    words.iter().flat_map(|word| word.to_le_bytes()).chain(frame).collect()
}

fn pcap_header() -> Vec<u8> {
    fs::read(example()).expect("the capture")[..24].to_vec()
}

#[test]
fn each_row_comes_within_two_seconds_although_another_connection_is_silent() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let silent_name = format!("tcp://{}", silent.local_addr().expect("it is bound"));
    for others in [vec![], vec![silent_name.as_str()]] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let name = format!("tcp://{}", listener.local_addr().expect("it is bound"));
        let args = [vec!["packets", "--format", "json", "-r", &name], others].concat();
        let mut child = start(&args, Stdio::null());
        let mut rows = BufReader::new(child.stdout.take().expect("it is piped"));
        let (mut stream, _) = listener.accept().expect("the command connects");
        stream.write_all(&pcap_header()).expect("it reads");
        let mut slowest = Duration::ZERO;
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(300));
            stream.write_all(&record_of_now()).expect("it reads");
            let sent = Instant::now();
            assert!(rows.read_line(&mut String::new()).expect("rows") > 0);
            slowest = slowest.max(sent.elapsed());
        }
        assert!(slowest < ROW_MAX, "{args:?}: {slowest:?}");
        signal(&child, "INT");
        let (output, _) = ended(child);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
}

#[test]
fn packets_of_a_compressed_connection_do_not_wait_for_its_end() {
    use std::io::Seek;
    // gzip flushes what it has when its input ends: each member holds one packet.
    let zipped = |bytes: &[u8]| {
        let mut file =
            fs::File::create_new(scratch(&format!("tcp-{}.part", bytes.len()))).expect("a scratch file");
        file.write_all(bytes).and_then(|()| file.rewind()).expect("room");
        let path = scratch(&format!("tcp-{}.part", bytes.len()));
        let output = Command::new("gzip").arg("-c").arg(&path).output().expect("gzip is installed");
        output.stdout
    };
    let first = zipped(&[pcap_header(), record_of_now()].concat());
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let name = format!("tcp://{}", listener.local_addr().expect("it is bound"));
    let mut child = start(&["packets", "--format", "json", &name], Stdio::null());
    let mut rows = BufReader::new(child.stdout.take().expect("it is piped"));
    let (mut stream, _) = listener.accept().expect("the command connects");
    stream.write_all(&first).expect("it reads");
    let sent = Instant::now();
    assert!(rows.read_line(&mut String::new()).expect("rows") > 0);
    assert!(sent.elapsed() < ROW_MAX, "{:?}", sent.elapsed());
    drop(stream);
    let (output, _) = ended(child);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn what_is_wrong_with_a_connection_is_said_with_a_remedy() {
    let closed =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("loopback");
    let (busy, file) = (TcpListener::bind("127.0.0.1:0").expect("loopback"), example());
    let (refused, web) = (format!("tcp://{closed}"), serve_all(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()));
    let (empty, busy) =
        (serve_all(vec![]), format!("tcp-listen:{}", busy.local_addr().expect("bound").port()));
    let file = file.to_str().unwrap();
    for (args, message) in [
        (vec!["packets", &refused], "refused the connection: nothing listens on that port"),
        (
            vec!["packets", "tcp://no-such-host.invalid:9000"],
            "unknown host `no-such-host.invalid`: check the name",
        ),
        (vec!["packets", "tcp://::1:9000"], "with an IPv6 address in brackets: tcp://[::1]:9000"),
        (vec!["packets", &web], "no capture at the other end, which sent \"HTTP/1.1 400 Bad\""),
        (vec!["packets", &empty], "the connection ended before the header of a capture"),
        (vec!["packets", &busy], "another process listens on this port; use another port"),
        (vec!["packets", "tcp-listen:192.0.2.1:9000"], "this host does not have the address"),
        (vec!["packets", file, "-w", &refused], "refused the connection"),
        (vec!["packets", file, "-w", &busy], "another process listens on this port"),
        (vec!["packets", file, "-w", "tcp-listen:x"], "write tcp-listen:PORT"),
        (vec!["packets", file, "-w", "tcp-listen:0", "--format", "json"], "a capture can only hold packets"),
        (vec!["flows", file, "-o", "tcp-listen:0"], "a capture can only hold packets"),
    ] {
        let output = weir(&args);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(message), "{args:?}: {said}");
    }
}

#[test]
fn packets_before_a_cut_are_delivered() {
    let whole = fs::read(example()).expect("the capture");
    let name = serve_all(whole[..100_000].to_vec());
    let output = weir(&["packets", &name]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("the connection ended inside a record") && said.contains("after packet "),
        "{said}"
    );
    let packets = text(&output.stdout).lines().count() as u64;
    assert_eq!(
        said.split("after packet ").nth(1).and_then(|rest| rest.split(',').next()?.parse().ok()),
        Some(packets)
    );
    // A connection that is reset.
    let (name, sent) = serve(vec![(Duration::ZERO, whole[..24].to_vec())]);
    let running = Running::start(&["packets", &name], Stdio::null());
    let stream = sent.join().expect("it sends");
    // The command is connected, and waits for packets.
    std::thread::sleep(Duration::from_millis(500));
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket");
    drop(stream);
    let output = running.end();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("the connection was lost: the sender has ended"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn signals_end_a_run_that_waits_for_a_sender_or_an_answer() {
    // A full queue of connections does not answer further ones.
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("it is bound");
    rustix::net::listen(&listener, 0).expect("a socket");
    let _first = TcpStream::connect(address).expect("it has room");
    let deaf = format!("tcp://{address}");
    for (args, name) in
        [(["packets", "tcp-listen:0"], "INT"), (["packets", &deaf], "INT"), (["packets", &deaf], "TERM")]
    {
        let child = start(&args, Stdio::null());
        std::thread::sleep(Duration::from_millis(500));
        signal(&child, name);
        let (output, took) = ended(child);
        assert!(took < Duration::from_secs(2), "{args:?}: {took:?}");
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
    }
}

/// The packets of a capture.
fn count_of(bytes: &[u8], name: &str) -> usize {
    let path = scratch(name);
    fs::write(&path, bytes).expect("a scratch file");
    answer(&["packets", path.to_str().unwrap(), "--count"], if bytes.len() > 200 { 0 } else { 1 })
        .trim()
        .parse()
        .expect("a number")
}

#[test]
fn a_late_client_gets_a_valid_capture_and_one_that_leaves_is_no_error() {
    let mut sender = Running::start(&["packets", "-r", "-", "-w", "tcp-listen:0"], Stdio::piped());
    let mut input = sender.child.stdin.take().expect("it is piped");
    input.write_all(&pcap_header()).expect("it reads");
    let address = sender.address();
    let connect = || {
        let client = TcpStream::connect(address).expect("it listens");
        sender.wait_for("is connected");
        client
    };
    let (mut first, leaving) = (connect(), connect());
    (0..3).for_each(|_| input.write_all(&record_of_now()).expect("it reads"));
    // The packets have been sent when the first client has received them.
    let mut early = vec![0; 28];
    first.read_exact(&mut early).expect("the header comes at once");
    let mut some = [0; 4096];
    while early.len() < 28 + 3 * 60 {
        let count = first.read(&mut some).expect("packets");
        early.extend(&some[..count]);
    }
    std::thread::sleep(Duration::from_millis(300));
    drop(leaving);
    let mut late = connect();
    (0..2).for_each(|_| {
        input.write_all(&record_of_now()).expect("it reads");
        std::thread::sleep(Duration::from_millis(200));
    });
    sender.wait_for("has left");
    drop(input);
    first.read_to_end(&mut early).expect("to the end");
    let mut last = vec![];
    late.read_to_end(&mut last).expect("to the end");
    let output = sender.end();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!((count_of(&early, "tcp-early.pcapng"), count_of(&last, "tcp-late.pcapng")), (5, 2));
}

#[test]
fn a_blocked_client_loses_packets_and_delays_nobody() {
    let mut sender = Running::start(&["packets", "-r", "-", "-w", "tcp-listen:0"], Stdio::piped());
    let mut input = sender.child.stdin.take().expect("it is piped");
    let whole = fs::read(example()).expect("the capture");
    input.write_all(&whole[..24]).expect("it reads");
    let address = sender.address();
    // This client never reads; its system buffers a few megabytes.
    let blocked = TcpStream::connect(address).expect("it listens");
    sender.wait_for("is connected");
    let mut reading = TcpStream::connect(address).expect("it listens");
    sender.wait_for("is connected");
    let received = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&received);
    let read = std::thread::spawn(move || {
        let (mut all, mut some) = (vec![], vec![0; 1 << 16]);
        while let Ok(bytes @ 1..) = reading.read(&mut some) {
            all.extend(&some[..bytes]);
            count.store(all.len(), Ordering::Relaxed);
        }
        all
    });
    let once = scratch("tcp-once.pcapng");
    answer(&["packets", example().to_str().unwrap(), "-w", once.to_str().unwrap()], 0);
    let (times, bytes) = (60, fs::metadata(&once).expect("it is written").len() as usize);
    for time in 0..times {
        // The client that reads keeps up at this rate, on the slowest machine: its queue holds 4 MiB.
        until("the other client receives packets", || {
            received.load(Ordering::Relaxed) + (1 << 20) >= time * bytes
        });
        input.write_all(&whole[24..]).expect("it reads");
    }
    drop(input);
    let all = read.join().expect("it reads");
    let output = sender.end();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(count_of(&all, "tcp-reading.pcapng"), times * PACKETS, "{said}");
    let name = format!("client {}", blocked.local_addr().expect("it is connected"));
    let loss =
        said.lines().find(|line| line.contains(" rows are lost: ")).unwrap_or_else(|| panic!("{said}"));
    assert!(loss.contains(&name), "{said}");
    let lost = number_before(loss, "rows are lost").expect("a number") as usize;
    assert!(lost > 0 && lost < times * PACKETS, "{said}");
    drop(blocked);
}

#[test]
fn sigterm_reports_the_losses_of_a_blocked_client_within_a_second() {
    let mut sender = Running::start(&["packets", "-r", "-", "-w", "tcp-listen:0"], Stdio::piped());
    let mut input = sender.child.stdin.take().expect("it is piped");
    let whole = fs::read(example()).expect("the capture");
    input.write_all(&whole[..24]).expect("it reads");
    let _blocked = TcpStream::connect(sender.address()).expect("it listens");
    sender.wait_for("is connected");
    (0..60).for_each(|_| input.write_all(&whole[24..]).expect("it reads"));
    std::thread::sleep(Duration::from_millis(500));
    signal(&sender.child, "TERM");
    let began = Instant::now();
    let output = sender.end();
    let said = text(&output.stderr);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}: {said}", began.elapsed());
    assert!(said.contains("rows are lost: client 127.0.0.1:") && !said.contains("is blocked"), "{said}");
    assert_eq!(output.status.code(), Some(128 + 15), "{said}");
}

#[test]
fn a_question_that_is_added_later_has_clients_until_it_is_removed() {
    let (socket, file, rows) = (scratch("tcp.sock"), scratch("tcp-later.toml"), scratch("tcp-later.json"));
    fs::write(&file, format!("[[question]]\nname = \"rows\"\nask = \"flows\"\noutput = {rows:?}\n"))
        .expect("room");
    let args = ["run", file.to_str().unwrap(), "-r", "-", "--control", socket.to_str().unwrap()];
    let mut run = Running::start(&args, Stdio::piped());
    let mut input = run.child.stdin.take().expect("it is piped");
    input.write_all(&pcap_header()).expect("it reads");
    until("the run listens for requests", || socket.exists());
    let ctl = |words: &str| answer(&[&["ctl", socket.to_str().unwrap()], &args_of(words)[..]].concat(), 0);
    ctl("add tap packets --set output=tcp-listen:0 --set format=pcap");
    let address = run.address();
    let mut client = TcpStream::connect(address).expect("it listens");
    run.wait_for("is connected");
    input.write_all(&record_of_now()).expect("it reads");
    let mut some = [0; 24];
    client.read_exact(&mut some).expect("the packet comes");
    assert_eq!(some[..4], 0xa1b2_3c4d_u32.to_le_bytes());
    ctl("remove tap");
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
    drop(input);
    assert_eq!(run.end().status.code(), Some(0));
}

#[test]
fn a_slow_client_of_files_loses_nothing() {
    let file = example();
    let files = vec![file.to_str().unwrap(); 20];
    let sender =
        Running::start(&[&["packets", "-w", "tcp-listen:0", "-r"], &files[..]].concat(), Stdio::null());
    let mut client = TcpStream::connect(sender.address()).expect("it listens");
    let (mut all, mut some) = (vec![], vec![0; 1 << 20]);
    for step in 0.. {
        if step < 10 {
            std::thread::sleep(Duration::from_millis(100));
        }
        match client.read(&mut some).expect("it sends") {
            0 => break,
            count => all.extend(&some[..count]),
        }
    }
    let output = sender.end();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(count_of(&all, "tcp-slow.pcapng"), 20 * PACKETS);
}

#[test]
fn a_receiver_that_closes_ends_the_run_without_an_error() {
    let (listener, file) = (TcpListener::bind("127.0.0.1:0").expect("loopback"), example());
    let name = format!("tcp://{}", listener.local_addr().expect("it is bound"));
    let files = vec![file.to_str().unwrap(); 20];
    let sender = Running::start(&[&["packets", "-w", &name, "-r"], &files[..]].concat(), Stdio::null());
    let (stream, _) = listener.accept().expect("it connects");
    drop(stream);
    let output = sender.end();
    let said = text(&output.stderr);
    assert!(
        output.status.code() == Some(0) && said.contains("the receiver has closed the connection"),
        "{said}"
    );
}

#[test]
fn only_loopback_listens_unless_an_address_is_given() {
    for (name, is_loopback) in [("tcp-listen:0", true), ("tcp-listen:0.0.0.0:0", false)] {
        let running = Running::start(&["packets", name], Stdio::null());
        assert_eq!(running.address().ip().is_loopback(), is_loopback);
        signal(&running.child, "INT");
        running.end();
    }
}

#[test]
fn an_ipv6_address_stands_in_brackets() {
    let Ok(listener) = TcpListener::bind("[::1]:0") else {
        eprintln!("skipped: this system has no IPv6");
        return;
    };
    let name = format!("tcp://{}", listener.local_addr().expect("it is bound"));
    assert!(name.starts_with("tcp://[::1]:"), "{name}");
    let sent = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the command connects");
        stream.write_all(&fs::read(example()).expect("the capture")).expect("it reads");
        stream.shutdown(Shutdown::Both).expect("it is open");
    });
    assert_eq!(answer(&["packets", &name, "--count"], 0).trim(), PACKETS.to_string());
    sent.join().expect("it sends");
}

#[test]
fn tshark_reads_our_stream() {
    if !has("tshark", "tshark_reads_our_stream") {
        return;
    }
    let file = example();
    for format in ["pcapng", "pcap"] {
        let args = format!("packets {} tcp -w tcp-listen:0 --format {format}", file.display());
        let sender = Running::start(&args_of(&args), Stdio::null());
        let interface = format!("TCP@{}", sender.address());
        let mut tshark = Command::new("tshark");
        tshark.args(["-i", &interface, "-T", "fields", "-e", "frame.number"]).stdin(Stdio::null());
        let output = tshark.output().expect("it is there");
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout).lines().count(), crate::cli::count("tcp") as usize, "{format}");
        assert_eq!(sender.end().status.code(), Some(0));
    }
}

#[test]
fn tcpdump_sends_to_us_and_reads_from_us() {
    if !has("tcpdump", "tcpdump_sends_to_us_and_reads_from_us") {
        return;
    }
    let file = example();
    let rows = answer(&["flows", file.to_str().unwrap()], 0);
    // tcpdump gives up root's rights, except to the user that is named.
    let tcpdump = |args: &[&str], stdin: Stdio, stdout: Stdio| {
        let mut command = Command::new("tcpdump");
        command.args(["-Z", "root", "-n"]).args(args).stdin(stdin).stdout(stdout).stderr(Stdio::null());
        command.output().expect("it is there")
    };
    let receiver = Running::start(&["flows", "tcp-listen:0"], Stdio::null());
    let stream = TcpStream::connect(receiver.address()).expect("it listens");
    let stream = Stdio::from(std::os::fd::OwnedFd::from(stream));
    tcpdump(&["-U", "-r", file.to_str().unwrap(), "-w", "-"], Stdio::null(), stream);
    let output = receiver.end();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), rows);
    let sender = Running::start(&["packets", file.to_str().unwrap(), "-w", "tcp-listen:0"], Stdio::null());
    let stream = TcpStream::connect(sender.address()).expect("it listens");
    let stream = Stdio::from(std::os::fd::OwnedFd::from(stream));
    let output = tcpdump(&["-r", "-"], stream, Stdio::piped());
    assert_eq!(text(&output.stdout).lines().count(), PACKETS, "one line for each packet");
    assert_eq!(sender.end().status.code(), Some(0));
}

#[test]
fn a_file_of_questions_sends_packets_to_clients() {
    let path = scratch("tcp-questions.toml");
    let rows = scratch("tcp-rows.json");
    let table = format!(
        "[[question]]\nname = \"web\"\nask = \"packets\"\nfilter = \"tcp.port == 80\"\noutput = \"tcp-listen:0\"\n\
         [[question]]\nname = \"rows\"\nask = \"packets\"\noutput = {rows:?}\n"
    );
    fs::write(&path, table).expect("a scratch file");
    let file = example();
    let args = ["run", path.to_str().unwrap(), "-r", file.to_str().unwrap()];
    let sender = Running::start(&args, Stdio::null());
    let name = format!("tcp://{}", sender.address());
    assert_eq!(
        answer(&["packets", &name, "--count"], 0).trim(),
        crate::cli::count("tcp.port == 80").to_string()
    );
    assert_eq!(sender.end().status.code(), Some(0));
    until("the other question is complete", || {
        fs::read_to_string(&rows).is_ok_and(|rows| rows.lines().count() == PACKETS)
    });
}

/// A reload changes the filter of a question with clients: the port stays open, and clients receive the
/// packets of the new filter in the same capture. A change of the format ends their captures, but does not
/// close the port.
#[test]
fn a_reload_hands_clients_over_to_the_changed_question() {
    let (file, rows) = (scratch("tcp-reload.toml"), scratch("tcp-reload.json"));
    let ask = |rest: &str| {
        let kept = format!("[[question]]\nname = \"rows\"\nask = \"flows\"\noutput = {rows:?}\n");
        let tap = "[[question]]\nname = \"tap\"\nask = \"packets\"\noutput = \"tcp-listen:0\"\n";
        fs::write(&file, format!("{kept}{tap}{rest}\n")).expect("room");
    };
    ask("filter = \"udp.srcport == 7\"");
    let mut run = Running::start(&["run", file.to_str().unwrap(), "-r", "-"], Stdio::piped());
    let mut input = run.child.stdin.take().expect("it is piped");
    input.write_all(&pcap_header()).expect("it reads");
    let address = run.address();
    let mut client = TcpStream::connect(address).expect("it listens");
    run.wait_for("is connected");
    input.write_all(&record_of_now()).expect("it reads");
    // Whoever connects during a reload is served.
    let is_over = Arc::new(AtomicUsize::new(0));
    let connecting = std::thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            let mut refused = 0;
            while is_over.load(Ordering::Relaxed) == 0 {
                refused += usize::from(TcpStream::connect(address).is_err());
                std::thread::sleep(Duration::from_millis(2));
            }
            refused
        }
    });
    // The new filter matches nothing, and the next one everything.
    for filter in ["udp.srcport == 8", "udp"] {
        ask(&format!("filter = \"{filter}\""));
        signal(&run.child, "HUP");
        run.wait_for("clients stay connected");
        run.wait_for("reloaded: 1 questions begin, 1 end, 1 continue");
        input.write_all(&record_of_now()).expect("it reads");
        // The packet passes the question before the next reload.
        std::thread::sleep(Duration::from_millis(300));
    }
    ask("format = \"pcap\"");
    signal(&run.child, "HUP");
    run.wait_for("waiting for clients");
    run.wait_for("reloaded: 1 questions begin, 1 end, 1 continue");
    is_over.store(1, Ordering::Relaxed);
    assert_eq!(connecting.join().expect("it connects"), 0, "the port is never closed");
    let mut received = vec![];
    client.read_to_end(&mut received).expect("the capture ends");
    assert_eq!(count_of(&received, "tcp-reload.pcapng"), 2, "the packets of the first and the last filter");
    let mut other = TcpStream::connect(address).expect("it listens");
    let own = other.local_addr().expect("it is connected");
    run.wait_for(&format!("client {own} is connected"));
    (0..5).for_each(|_| input.write_all(&record_of_now()).expect("it reads"));
    drop(input);
    let mut received = vec![];
    other.read_to_end(&mut received).expect("the capture ends");
    assert_eq!(received[..4], 0xa1b2_3c4d_u32.to_le_bytes());
    assert_eq!(count_of(&received, "tcp-reload.pcap"), 5);
    let output = run.end();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// A pipe gave its questions at the start. A reload says that it cannot be read again, and does not wait for
/// somebody who writes to it.
#[test]
fn a_reload_does_not_wait_for_a_pipe() {
    let place = tempfile::tempdir().expect("a directory for tests");
    let (fifo, output) = (place.path().join("questions"), place.path().join("out.json"));
    assert!(Command::new("mkfifo").arg(&fifo).status().is_ok_and(|status| status.success()), "mkfifo");
    let stated = format!("[[question]]\nname = \"rows\"\nask = \"flows\"\noutput = {output:?}\n");
    let writing = {
        let fifo = fifo.clone();
        std::thread::spawn(move || std::fs::write(fifo, stated).expect("weir reads it"))
    };
    let mut run = Running::start(&["run", fifo.to_str().unwrap(), "-r", "-"], Stdio::piped());
    writing.join().expect("it is read");
    let mut input = run.child.stdin.take().expect("it is piped");
    input.write_all(&pcap_header()).expect("it reads");
    let began = Instant::now();
    while !output.exists() && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    for _ in 0..2 {
        signal(&run.child, "HUP");
        run.wait_for("it is no regular file, and cannot be read again");
    }
    input.write_all(&record_of_now()).expect("it goes on");
    drop(input);
    assert_eq!(run.end().status.code(), Some(0));
}
