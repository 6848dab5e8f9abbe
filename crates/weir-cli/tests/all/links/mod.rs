//! Capture on real interfaces: pairs of virtual Ethernet in network namespaces that the tests make. The tests
//! need root and `ip`; without them they are skipped, with a message. `kernel`: filters that run there.
//! `balance`: workers that fall behind. `dpdk`: devices of DPDK. `servers`: real servers. `downloads`:
//! downloads that the kernel counts. `front_end`: instances on another host. `recorder`: the past.
//! `WEIR_LINK_CAPTURES=N` replays N of the shared captures (default 12).

mod balance;
mod browser;
mod dashboard;
mod downloads;
mod dpdk;
mod front_end;
mod http_client;
mod kernel;
mod other_users;
mod prometheus;
mod recorder;
mod recorder_api;
mod recorder_page;

mod servers;
pub(crate) mod service;
mod watching;

use crate::cli::worker_of;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use weir::io::CaptureReader;
use weir::link::Sender;
use weir::packet::{Burst, DropReason, LinkType, Poll, Source};
use weir_testing::frames::{self, ACK};

/// Set in the process that runs a test inside its own namespace.
const INSIDE: &str = "WEIR_TEST_INSIDE";

const FIRST_LIGHT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/first-light.pcap");

/// Runs a test in a network namespace of its own, which ends with the test: the test binary calls itself
/// again for this test. Returns whether this is the inner process, which does the work.
fn inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        sh("ip link set lo up");
        return true;
    }
    let options = ["--net", "--mount", "--fork", "--kill-child", "--"];
    let probe = ["ip", "link", "add", "one", "type", "veth", "peer", "name", "other"];
    let has_pairs = Command::new("unshare")
        .args(options)
        .args(probe)
        .output()
        .is_ok_and(|output| output.status.success());
    if !is_root() || !has_pairs {
        eprintln!("skipped: {test} needs root, ip (iproute2), unshare (util-linux) and virtual Ethernet");
        return false;
    }
    let itself = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new("unshare");
    let name = format!("links::{test}");
    command.args(options).arg(itself).args([name.as_str(), "--exact", "--nocapture", "--test-threads=1"]);
    let output = command.env(INSIDE, "1").output().expect("unshare runs");
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    said.lines().filter(|line| line.ends_with(" rows")).for_each(|line| eprintln!("{line}"));
    false
}

fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        status
            .lines()
            .any(|line| line.strip_prefix("Uid:").is_some_and(|ids| ids.trim_start().starts_with("0\t")))
    })
}

fn sh(line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = Command::new(words[0]).args(&words[1..]).output().expect("the program is there");
    assert!(output.status.success(), "{line}: {}", text(&output.stderr));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Makes a pair of interfaces `out0` and `in0`, without traffic of the kernel's own.
fn make_pair(number: u32) {
    for name in ["all", "default"] {
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
    }
    sh(&format!("ip link add out{number} mtu 65535 type veth peer name in{number} mtu 65535"));
    sh(&format!("ip link set out{number} up"));
    sh(&format!("ip link set in{number} up"));
}

/// A command that captures, until it gets a signal.
struct Capturing {
    child: Child,
    /// What the command has written to standard error, once it ends.
    said: Option<JoinHandle<Vec<u8>>>,
    /// The same, so far.
    heard: Arc<Mutex<Vec<u8>>>,
}

/// A test that fails leaves no process.
impl Drop for Capturing {
    fn drop(&mut self) {
        let ended = self.child.try_wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let (true, Some(said)) = (std::thread::panicking(), self.said.take()) {
            eprintln!("the command, {ended:?}, said: {}", text(&said.join().unwrap_or_default()));
        }
    }
}

impl Capturing {
    /// Starts the command, and waits until it captures.
    fn start(args: &[&str]) -> Self {
        Self::start_until(args, "capturing on")
    }

    /// Starts the command, and waits for a message.
    fn start_until(args: &[&str], message: &'static str) -> Self {
        Self::run(Command::new(env!("CARGO_BIN_EXE_weir")).args(args), message)
    }

    /// Runs a command, and waits for a message.
    fn run(command: &mut Command, message: &'static str) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program is there");
        let mut errors = child.stderr.take().expect("it is piped");
        let (begun, begins) = channel();
        let heard = Arc::<Mutex<Vec<u8>>>::default();
        let hearing = Arc::clone(&heard);
        let said = std::thread::spawn(move || {
            let (mut all, mut some) = (vec![], [0; 4096]);
            while let Ok(count @ 1..) = errors.read(&mut some) {
                all.extend_from_slice(&some[..count]);
                hearing.lock().expect("no thread panics").clone_from(&all);
                if text(&all).contains(message) {
                    let _ = begun.send(());
                }
            }
            all
        });
        if begins.recv_timeout(Duration::from_secs(30)).is_err() {
            let _ = child.kill();
            panic!("{command:?} does not capture: {}", text(&said.join().expect("the thread reads")));
        }
        Self { child, said: Some(said), heard }
    }

    /// The word of standard error that begins with this text, as soon as it is there: an address.
    fn word(&self, start: &str) -> String {
        for _ in 0..300 {
            let heard = text(&self.heard.lock().expect("no thread panics"));
            let whole = heard.rfind('\n').map_or("", |end| &heard[..end]);
            if let Some(word) = whole.split_whitespace().find(|word| word.starts_with(start)) {
                return word.to_string();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the command does not say {start}: {}", text(&self.heard.lock().expect("no thread panics")));
    }

    fn signal(&self, name: &str) {
        sh(&format!("kill -{name} {}", self.child.id()));
    }

    /// Stops the process that sees packets: SIGSTOP of the one that was started would stop that one alone.
    fn pause(&self) {
        sh(&format!("kill -STOP {}", self.worker()));
    }

    fn go_on(&self) {
        sh(&format!("kill -CONT {}", self.worker()));
    }

    /// The process that sees packets.
    fn worker(&self) -> u32 {
        worker_of(self.child.id())
    }

    /// Waits for the end.
    fn wait(mut self) -> Output {
        let mut stdout = vec![];
        if let Some(mut output) = self.child.stdout.take() {
            output.read_to_end(&mut stdout).expect("it is open");
        }
        let status = self.child.wait().expect("it ended");
        let stderr = self.said.take().map(|said| said.join().expect("the thread reads")).unwrap_or_default();
        Output { status, stdout, stderr }
    }

    /// Ends the capture as Ctrl-C does.
    fn end(self) -> Output {
        self.signal("INT");
        let output = self.wait();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        output
    }
}

/// The Ethernet frames of a capture.
fn frames_of(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = CaptureReader::open(&[path]);
    let (mut burst, mut all) = (Burst::default(), vec![]);
    while let Ok(Poll::Packets) = reader.poll(&mut burst) {
        let ethernet =
            burst.packets.iter().enumerate().filter(|(_, packet)| packet.link == LinkType::ETHERNET);
        all.extend(ethernet.map(|(index, _)| burst.data(index).to_vec()));
    }
    all
}

/// Sends the frames; returns how many the interface accepted.
fn send(interface: &str, frames: &[Vec<u8>]) -> usize {
    let sender = Sender::open(interface).expect("the interface is up");
    frames.iter().filter(|frame| sender.send(frame).is_ok()).count()
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("links");
    fs::create_dir_all(&folder).expect("a temporary folder");
    folder.join(format!("{}-{name}", std::process::id()))
}

/// A file that only its owner can read.
fn secret(name: &str, contents: &str) -> PathBuf {
    let path = scratch(name);
    fs::write(&path, contents).expect("a temporary file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its owner may");
    path
}

/// Makes a folder without files.
fn empty(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).expect("a temporary folder");
}

/// The value of a counter that `--stats` printed.
fn counter(output: &Output, name: &str) -> u64 {
    let said = text(&output.stderr);
    let line = said.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    line.unwrap_or(0)
}

/// The accounts of a capture: what the kernel received is what the engine got, what the kernel discarded, and
/// what the ring lost.
fn assert_exact(output: &Output, sent: u64) {
    let said = text(&output.stderr);
    assert_eq!(counter(output, "source_received"), sent, "{said}");
    assert_eq!(counter(output, "packets") + discarded(output) + lost(output), sent, "{said}");
    let dropped: u64 = DropReason::ALL.iter().map(|reason| counter(output, reason.label())).sum();
    let [packets, delivered, filtered] =
        ["packets", "delivered", "filtered"].map(|name| counter(output, name));
    assert_eq!(packets, delivered + filtered + dropped, "{said}");
}

/// Packets that the kernel, or a device, discarded although nothing was lost.
fn discarded(output: &Output) -> u64 {
    ["filtered", "counted"].map(|why| counter(output, &format!("source_{why}"))).iter().sum()
}

/// Packets that were lost before the engine.
fn lost(output: &Output) -> u64 {
    ["ring_full", "no_buffer", "refused", "invalid", "damaged"]
        .map(|why| counter(output, &format!("source_{why}")))
        .iter()
        .sum()
}

/// The captures that are replayed: the project's own, and some of the shared ones.
fn captures() -> Vec<PathBuf> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let mut found = vec![];
    let mut folders = vec![shared];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            match path.is_dir() {
                true => folders.push(path),
                false if matches!(ending, "pcap" | "pcapng" | "cap" | "trace") => found.push(path),
                false => {}
            }
        }
    }
    found.sort();
    let wanted = std::env::var("WEIR_LINK_CAPTURES").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    let step = found.len().div_ceil(wanted).max(1);
    let own = Path::new(FIRST_LIGHT).with_file_name("tunnels.pcap");
    [PathBuf::from(FIRST_LIGHT), own].into_iter().chain(found.into_iter().step_by(step)).collect()
}

const LOGS: [&str; 4] = ["flows", "sessions", "events", "files"];

/// A file of questions for these logs, and for the packets as a capture if `has_packets`.
fn questions(folder: &Path, logs: &[&str], has_packets: bool) -> PathBuf {
    let mut text = String::new();
    for ask in logs {
        let output = folder.join(format!("{ask}.json"));
        text += &format!(
            "[[question]]\nname = \"{ask}\"\nask = \"{ask}\"\nformat = \"json\"\noutput = {output:?}\n"
        );
    }
    if has_packets {
        let output = folder.join("seen.pcapng");
        text += &format!("[[question]]\nname = \"packets\"\nask = \"packets\"\noutput = {output:?}\n");
    }
    let path = folder.join("questions.toml");
    fs::write(&path, text).expect("a temporary file");
    path
}

/// The rows of a log, sorted. `with_uids`: identifiers and numbers are those of the packets' order, which
/// several workers do not keep.
fn sorted_rows(path: &Path, with_uids: bool) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let anonymous = |row: &str| {
        let mut row: serde_json::Map<_, _> = serde_json::from_str(row).expect("a row is an object");
        row.retain(|name, _| !name.contains("uid") && !["tunnel_parents", "packet"].contains(&name.as_str()));
        serde_json::to_string(&row).expect("it is text")
    };
    let of = |row: &str| if with_uids { row.to_string() } else { anonymous(row) };
    let mut rows: Vec<String> = text.lines().map(of).collect();
    rows.sort();
    rows
}

/// A link's rows are those of the packets that were seen there, byte for byte; and the packets are those that
/// were sent.
#[test]
fn rows_of_a_link_are_those_of_its_packets() {
    if !inside("rows_of_a_link_are_those_of_its_packets") {
        return;
    }
    make_pair(0);
    let (mut replayed, mut rows) = (0, 0);
    for capture in captures() {
        let frames = frames_of(&capture);
        if frames.is_empty() || frames.len() > 20_000 {
            continue;
        }
        for (method, workers) in [("af_packet", "1"), ("af_packet", "2"), ("af_xdp", "1")] {
            let (live, file) = (scratch("live"), scratch("file"));
            [&live, &file].into_iter().for_each(|folder| empty(folder));
            let asked = questions(&live, &LOGS, true);
            let run =
                ["run", asked.to_str().unwrap(), "-i", "in0", "--method", method, "-j", workers, "--stats"];
            let capturing = Capturing::start(&run);
            let sent = send("out0", &frames) as u64;
            let output = capturing.end();
            assert_exact(&output, sent);
            assert_eq!(counter(&output, "packets"), sent, "{}: nothing is lost", capture.display());
            let seen = live.join("seen.pcapng");
            assert_eq!(frames_of(&seen).len() as u64, sent, "{}", capture.display());
            let asked = questions(&file, &LOGS, false);
            let run = ["run", asked.to_str().unwrap(), "-r", seen.to_str().unwrap()];
            let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(run).output().expect("it runs");
            assert!(output.status.success(), "{}", text(&output.stderr));
            for name in LOGS {
                let [expected, got] = [&file, &live]
                    .map(|folder| sorted_rows(&folder.join(format!("{name}.json")), workers == "1"));
                let only = |these: &[String], those: &[String]| {
                    these.iter().filter(|row| !those.contains(row)).take(3).cloned().collect::<Vec<_>>()
                };
                let (more, fewer) = (only(&got, &expected), only(&expected, &got));
                let name = format!("{}, {name}, {method}, {workers} workers", capture.display());
                assert!(got == expected, "{name}: rows of the link\n{more:#?}\nrows of the file\n{fewer:#?}");
                rows += got.len();
            }
            if workers == "1" {
                let same = frames.iter().filter(|frame| frame.len() >= 14);
                let all = frames_of(&seen);
                assert!(all.iter().zip(same).all(|(got, sent)| got == sent), "{}", capture.display());
            }
        }
        replayed += 1;
    }
    eprintln!("{replayed} captures, {rows} rows");
    assert!(replayed >= 2 && rows > 100);
}

/// Packets of one connection in a tagged network.
fn datagrams(count: u32, tag: Option<u16>) -> Vec<Vec<u8>> {
    let frame = |number: u32| {
        let segment = frames::tcp((40_000 + (number % 1000) as u16, 80), number, 1, ACK, &[], b"some bytes");
        let ends = ([10, 0, (number >> 8) as u8, number as u8], [10, 1, 0, 1]);
        let packet = frames::ipv4(ends, 6, number as u16, 0, &[], &segment);
        match tag {
            None => frames::ethernet(0x0800, &packet),
            Some(tag) => {
                let inner = [&tag.to_be_bytes()[..], &0x0800u16.to_be_bytes(), &packet].concat();
                frames::ethernet(0x8100, &inner)
            }
        }
    };
    (0..count).map(frame).collect()
}

/// What the ring has no room for is counted, to the packet.
#[test]
fn losses_of_a_flood_are_counted_exactly() {
    if !inside("losses_of_a_flood_are_counted_exactly") {
        return;
    }
    make_pair(0);
    for (method, workers) in [("af_packet", "1"), ("af_packet", "2"), ("af_xdp", "1"), ("af_xdp", "2")] {
        let of_method = ["--method", method, "-j", workers];
        let run =
            [&["packets", "-i", "in0", "--count", "--stats", "--buffer", "2M"][..], &of_method].concat();
        let capturing = Capturing::start(&run);
        let worker = capturing.worker();
        sh(&format!("kill -STOP {worker}"));
        let sent = send("out0", &datagrams(60_000, None)) as u64;
        sh(&format!("kill -CONT {worker}"));
        let output = capturing.end();
        assert_exact(&output, sent);
        assert!(lost(&output) > 10_000, "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout).trim(), counter(&output, "packets").to_string());
        assert!(text(&output.stderr).contains("--buffer"), "the remedy is named: {}", text(&output.stderr));
    }
}

/// The kernel removes the tag; the frame has it again.
#[test]
fn tags_that_the_kernel_removes_are_restored() {
    if !inside("tags_that_the_kernel_removes_are_restored") {
        return;
    }
    make_pair(0);
    let frames = datagrams(100, Some(7));
    let file = scratch("tagged.pcap");
    let capturing = Capturing::start(&[
        "packets",
        "-i",
        "in0",
        "-w",
        file.to_str().unwrap(),
        "vlan.id == 7 and tcp.port == 80",
    ]);
    send("out0", &frames);
    capturing.end();
    assert_eq!(frames_of(&file), frames);
}

#[test]
fn several_interfaces_and_any_are_captured_once() {
    if !inside("several_interfaces_and_any_are_captured_once") {
        return;
    }
    make_pair(0);
    make_pair(1);
    let frames = datagrams(50, None);
    let capturing = Capturing::start(&["packets", "-i", "in0", "-i", "in1", "--count", "--stats"]);
    send("out0", &frames);
    send("out1", &frames);
    assert_eq!(text(&capturing.end().stdout).trim(), "100");
    let file = scratch("any.pcapng");
    let capturing =
        Capturing::start(&["packets", "-i", "any", "-w", file.to_str().unwrap(), "tcp.port == 80"]);
    send("out0", &frames);
    send("lo", &frames);
    let output = capturing.end();
    // Each frame is seen as it leaves out0 and as it arrives at in0; on the loopback interface once.
    assert_eq!(frames_of(&file).len(), 150, "{}", text(&output.stderr));
    let written = fs::read(&file).expect("the capture was written");
    for name in ["out0", "in0", "lo"] {
        assert!(written.windows(name.len()).any(|bytes| bytes == name.as_bytes()), "{name} is described");
    }
}

#[test]
fn an_interface_may_go_down_and_come_back_and_go_away() {
    if !inside("an_interface_may_go_down_and_come_back_and_go_away") {
        return;
    }
    make_pair(0);
    for method in ["af_packet", "af_xdp"] {
        down_and_up(method);
    }
    let frames = datagrams(20, None);
    let capturing = Capturing::start(&["packets", "-i", "in0", "--count"]);
    send("out0", &frames);
    std::thread::sleep(Duration::from_millis(300));
    sh("ip link del in0");
    let output = capturing.wait();
    assert_eq!(text(&output.stdout).trim(), "20");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("in0: the interface was removed"), "{}", text(&output.stderr));
}

fn down_and_up(method: &str) {
    let capturing = Capturing::start(&["packets", "-i", "in0", "--count", "--method", method]);
    let frames = datagrams(20, None);
    send("out0", &frames);
    sh("ip link set in0 down");
    std::thread::sleep(Duration::from_millis(300));
    sh("ip link set in0 up");
    sh("ip link set in0 mtu 9000");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(send("out0", &frames), 20);
    let output = capturing.end();
    assert_eq!(text(&output.stdout).trim(), "40", "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.contains("in0 is down") && said.contains("in0 has packets again"), "{said}");
}

/// A file of questions may have every option of a capture.
#[test]
fn a_file_of_questions_names_its_interface() {
    if !inside("a_file_of_questions_names_its_interface") {
        return;
    }
    make_pair(0);
    let (file, output) = (scratch("all.toml"), scratch("all.json"));
    let options = "interface = \"in0\"\nmethod = \"af_xdp\"\nbuffer = \"4M\"\nno_promiscuous = true\n";
    let question = format!("[[question]]\nname = \"all\"\nask = \"flows\"\noutput = {output:?}\n");
    fs::write(&file, format!("{options}{question}")).expect("a temporary file");
    let capturing = Capturing::start(&["run", file.to_str().unwrap()]);
    send("out0", &datagrams(20, None));
    let said = text(&capturing.end().stderr);
    assert!(said.contains("in0: AF_XDP, copy mode"), "{said}");
    assert_eq!(fs::read_to_string(&output).expect("rows").lines().count(), 20);
}

/// A line each second says what happens.
#[test]
fn a_run_can_be_watched() {
    if !inside("a_run_can_be_watched") {
        return;
    }
    make_pair(0);
    for workers in ["1", "2"] {
        let capturing = Capturing::start(&["flows", "-i", "in0", "--monitor", "-j", workers]);
        send("out0", &datagrams(500, None));
        std::thread::sleep(Duration::from_millis(2500));
        let output = capturing.end();
        let said = text(&output.stderr);
        let lines: Vec<&str> = said.lines().filter(|line| line.contains("pps")).collect();
        assert!(lines.len() >= 2, "{said}");
        assert!(lines[1].contains("lost so far 0 (0.00 %)  flows 500 "), "{said}");
    }
}

#[test]
fn mistakes_have_remedies() {
    if !inside("mistakes_have_remedies") {
        return;
    }
    make_pair(0);
    let said = |command: &mut Command| {
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
        text(&output.stderr)
    };
    let weir = env!("CARGO_BIN_EXE_weir");
    let unknown = said(Command::new(weir).args(["flows", "-i", "eth9"]));
    assert!(unknown.contains("there is no interface `eth9`; there are: lo, in0, out0, any"), "{unknown}");
    let no_link = said(Command::new(weir).args(["flows", FIRST_LIGHT, "--buffer", "4M"]));
    assert!(no_link.contains("--buffer is for captures on an interface"), "{no_link}");
    let both = said(Command::new(weir).args(["flows", "-i", "in0", FIRST_LIGHT]));
    assert!(both.contains("read one of the two"), "{both}");
    let twice = said(Command::new(weir).args(["flows", "-i", "in0", "-i", "in0"]));
    assert!(twice.contains("named twice"), "{twice}");
    let large = said(Command::new(weir).args(["flows", "-i", "in0", "--buffer", "4G"]));
    assert!(large.contains("at most 4095M"), "{large}");
    let options = ["--bounding-set", "-all", "--inh-caps", "-all", "--reuid", "65534", "--clear-groups"];
    let mut poor = Command::new("setpriv");
    let refused = said(poor.args(options).arg(weir).args(["flows", "-i", "in0"]));
    assert!(refused.contains("CAP_NET_RAW") && refused.contains("setcap"), "{refused}");
    let capturing = Capturing::start(&["packets", "-i", "in0", "--count", "--method", "af_xdp"]);
    let second = said(Command::new(weir).args(["flows", "-i", "in0", "--method", "af_xdp"]));
    assert!(second.contains("another XDP program") && second.contains("--method af_packet"), "{second}");
    capturing.signal("INT");
    capturing.wait();
    let listed = Command::new(weir).args(["interfaces", "--format", "json"]).output().expect("it runs");
    let listed = text(&listed.stdout);
    assert!(
        listed.contains(r#""name":"in0","state":"up","link":"ETHERNET (1)","mtu":65535,"driver":"veth""#),
        "{listed}"
    );
}
