//! Live runs that others watch: readers of metrics, and a person in front of `weir top`.

use super::{Capturing, datagrams, frames_of, inside, make_pair, scratch, send};
use crate::cli::screen::Screen;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_testing::frames::{self, ACK};

/// The port of the metrics.
const PORT: &str = "9464";

/// The metrics page, if the server answers.
pub fn page(accept: &str) -> String {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{PORT}")).expect("the server listens");
    let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    answer.split_once("\r\n\r\n").expect("a body").1.to_string()
}

/// The sum of the samples of a metric.
fn sum(page: &str, metric: &str) -> u64 {
    let is_of = |line: &&str| line.strip_prefix(metric).is_some_and(|rest| rest.starts_with([' ', '{']));
    let value = |line: &str| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
    page.lines().filter(is_of).filter_map(value).sum::<f64>() as u64
}

/// Repeats `attempt` until it succeeds.
pub fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(done) = attempt() {
            return done;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Packets of which some match, some do not, and some are cut inside a header.
pub fn mixed() -> Vec<Vec<u8>> {
    let mut all = datagrams(400, None);
    let udp = |number: u16| {
        let packet =
            frames::ipv4(([10, 0, 0, 1], [10, 1, 0, 1]), 17, number, 0, &[], &[0, 53, 0, 53, 0, 8, 0, 0]);
        frames::ethernet(0x0800, &packet)
    };
    all.extend((0..300).map(udp));
    all.extend(datagrams(200, None).into_iter().map(|frame| frame[..30].to_vec()));
    all
}

/// Packets received are those delivered, filtered and dropped for any reason, as soon as no more come.
#[test]
fn metrics_add_up() {
    if !inside("watching::metrics_add_up") {
        return;
    }
    make_pair(0);
    for workers in ["1", "2"] {
        let run =
            ["flows", "-i", "in0", "-j", workers, "--buffer", "2M", "--metrics", PORT, "tcp.port == 80"];
        let capturing = Capturing::start(&run);
        let processed = |sent: u64| {
            eventually("the packets are processed", || {
                let page = page("text/plain");
                let undecided = sum(&page, "weir_packets_received_total")
                    - sum(&page, "weir_packets_delivered_total")
                    - sum(&page, "weir_packets_filtered_total")
                    - sum(&page, "weir_packets_counted_total")
                    - sum(&page, "weir_drops_total");
                assert!(sum(&page, "weir_packets_received_total") <= sent, "{page}");
                (sum(&page, "weir_packets_received_total") == sent && undecided == 0).then_some(page)
            })
        };
        // The kernel passes the blocks of its ring on at intervals, full or not. So a command that waits for
        // a processor loses packets of any rate. They are sent again.
        let mut sent = 0;
        eventually("all kinds of packets are read", || {
            sent += send("out0", &mixed()) as u64;
            let page = processed(sent);
            let [delivered, filtered] =
                ["weir_packets_delivered_total", "weir_packets_filtered_total"].map(|name| sum(&page, name));
            (delivered >= 400 && filtered >= 300).then_some(())
        });
        capturing.pause();
        sent += send("out0", &datagrams(40_000, None)) as u64;
        capturing.go_on();
        let all = processed(sent);
        for (metric, least) in [
            ("weir_packets_delivered_total", 400),
            ("weir_packets_filtered_total", 300),
            ("weir_drops_total{reason=\"source_ring_full\"}", 1000),
            ("weir_packets_stopped_total", 0),
            ("weir_flows_active", 400),
            ("weir_memory_bytes", 1000),
            ("process_start_time_seconds", 1_700_000_000),
        ] {
            let value = all.lines().find_map(|line| line.strip_prefix(metric)?.trim().parse::<f64>().ok());
            let value = value.map_or_else(|| sum(&all, metric), |value| value as u64);
            assert!(value >= least, "{metric} {value}\n{all}");
        }
        let of_workers = all.lines().filter(|line| line.starts_with("weir_worker_packets_total{")).count();
        assert_eq!(of_workers.to_string(), workers, "{all}");
        let is_unread = |line: &&str| line.contains("reason=\"source_") || line.contains("{by=\"kernel\"}");
        let unread: u64 = all
            .lines()
            .filter(is_unread)
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum();
        assert_eq!(sum(&all, "weir_worker_packets_total") + unread, sent, "{all}");
        assert!(!all.contains("10.0.0.1"), "nothing of the traffic is a label: {all}");
        let taken = Command::new(env!("CARGO_BIN_EXE_weir")).args(run).output().expect("it runs");
        let said = super::text(&taken.stderr);
        assert!(taken.status.code() == Some(2) && said.contains("another program uses this port"), "{said}");
        capturing.end();
    }
}

/// Questions lose answers for different reasons: an output that is blocked, a receiver that is killed, and a
/// flood that is too fast for all. Each question shows its own losses, and the packets add up at any time.
#[test]
fn each_question_shows_its_losses_and_packets_add_up() {
    if !inside("watching::each_question_shows_its_losses_and_packets_add_up") {
        return;
    }
    make_pair(0);
    let folder = scratch("losses");
    super::empty(&folder);
    let fifo = folder.join("fifo");
    super::sh(&format!("mkfifo {}", fifo.display()));
    let command = || Command::new(env!("CARGO_BIN_EXE_weir"));
    let receive = ["packets", "-r", "tcp-listen:9465", "-o", "/dev/null"];
    let mut receiver = Server(command().args(receive).stderr(Stdio::null()).spawn().expect("it runs"));
    eventually("the receiver listens", || {
        let listening = fs::read_to_string("/proc/net/tcp").expect("sockets are listed");
        // 9465, in the state LISTEN.
        listening.lines().any(|line| line.contains(":24F9 ") && line.contains(" 0A ")).then_some(())
    });
    let questions = folder.join("questions.toml");
    let mut asked = String::new();
    for (name, output) in [
        ("kept", folder.join("kept.json").display().to_string()),
        ("blocked", fifo.display().to_string()),
        ("sent", "tcp://127.0.0.1:9465".to_string()),
    ] {
        let format = if name == "sent" { "pcapng" } else { "json" };
        asked += &format!(
            "[[question]]\nname = {name:?}\nask = \"packets\"\noutput = {output:?}\nformat = {format:?}\nfilter = \"tcp\"\n"
        );
    }
    fs::write(&questions, asked).expect("a temporary file");
    let run = ["run", questions.to_str().expect("text"), "-i", "in0", "--buffer", "2M", "--stats"];
    let capturing = Capturing::start(&[&run[..], &["--output-wait", "0.5", "--metrics", PORT]].concat());
    // A reader that reads nothing.
    let blocked = fs::OpenOptions::new().read(true).write(true).open(&fifo).expect("it is a pipe");
    let of = |page: &str, metric: &str, question: &str| {
        sum(page, &format!("weir_question_{metric}_total{{question=\"{question}\"}}"))
    };
    let balanced = |sent: u64| {
        eventually("the packets add up", || {
            let page = page("text/plain");
            let [received, delivered, filtered, counted, dropped] =
                ["packets_received", "packets_delivered", "packets_filtered", "packets_counted", "drops"]
                    .map(|name| sum(&page, &format!("weir_{name}_total")));
            let is_exact = received == sent && received == delivered + filtered + counted + dropped;
            // The answers to a question are the packets that were delivered.
            let has_all = of(&page, "answers", "kept") == delivered;
            (is_exact && has_all).then_some(page)
        })
    };
    let mut sent = send("out0", &mixed()) as u64;
    balanced(sent);
    // A flood.
    capturing.pause();
    sent += send("out0", &datagrams(40_000, None)) as u64;
    capturing.go_on();
    let flooded = balanced(sent);
    assert!(sum(&flooded, "weir_drops_total{reason=\"source_ring_full\"}") > 1000, "{flooded}");
    // The queue of the blocked output is full after some megabytes.
    let (mut page_now, mut rounds) = (flooded, 0);
    while of(&page_now, "lost_answers", "blocked") == 0 {
        rounds += 1;
        assert!(rounds < 60, "{page_now}");
        sent += send("out0", &datagrams(5_000, None)) as u64;
        page_now = balanced(sent);
    }
    assert_eq!(of(&page_now, "lost_answers", "kept"), 0, "{page_now}");
    // SIGKILL.
    receiver.0.kill().expect("it runs");
    receiver.0.wait().expect("it ends");
    let mut answers = vec![];
    for _ in 0..6 {
        sent += send("out0", &datagrams(2_000, None)) as u64;
        answers.push(of(&balanced(sent), "answers", "sent"));
    }
    assert_eq!(answers[4], answers[5], "the question without a receiver has ended");
    drop(blocked);
    capturing.signal("INT");
    let output = capturing.wait();
    let said = super::text(&output.stderr);
    super::assert_exact(&output, sent);
    let line = |name: &str| said.lines().find(|line| line.starts_with(&format!("question   {name}: ")));
    assert!(line("kept").is_some_and(|line| line.contains(" answers, 0 lost at its output")), "{said}");
    assert!(line("blocked").is_some_and(|line| !line.contains(" answers, 0 lost at its output")), "{said}");
    assert!(line("sent").is_some(), "{said}");
    let _ = fs::remove_dir_all(&folder);
}

/// A program that ends with the test.
pub struct Server(pub Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends packets of two connections until it is dropped; the first has larger packets. Their numbers count
/// up.
struct Talking {
    is_over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<Vec<Vec<u8>>>>,
}

impl Talking {
    fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let mut sent = vec![];
            for number in 0.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let of = |port: u16, bytes: usize| {
                    let (payload, seq) = (vec![b'x'; bytes], number * bytes as u32);
                    let segment = frames::tcp((port, 80), seq, 1, ACK, &[], &payload);
                    let ends = ([10, 0, 0, 1], [10, 1, 0, 1]);
                    frames::ethernet(0x0800, &frames::ipv4(ends, 6, number as u16, 0, &[], &segment))
                };
                let both = [of(40_001, 900), of(40_002, 90)];
                assert_eq!(send("out0", &both), 2);
                sent.push(both[0].clone());
                std::thread::sleep(Duration::from_millis(10));
            }
            sent
        });
        Self { is_over, thread: Some(thread) }
    }

    /// Ends; returns the packets of the first connection.
    fn end(mut self) -> Vec<Vec<u8>> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().expect("it runs").join().expect("it sends")
    }
}

/// Somebody watches a link, records a connection, and looks at another one.
#[test]
fn a_connection_is_recorded_from_the_screen() {
    if !inside("watching::a_connection_is_recorded_from_the_screen") {
        return;
    }
    make_pair(0);
    let folder = scratch("top");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a temporary folder");
    let mut screen = Screen::start("top -i in0", &folder);
    screen.wait_for("the screen", |text| text.contains("filter: (all traffic)"));
    let talking = Talking::start();
    screen.wait_for("both connections", |text| {
        text.contains("10.0.0.1:40001") && text.contains("10.0.0.1:40002")
    });
    screen.wait_for("rates", |text| text.contains("pps") && !text.contains("  0 pps"));
    screen.type_text("w");
    screen.wait_for("the recording", |text| text.contains("go to weir-C") && text.contains(".pcapng"));
    std::thread::sleep(Duration::from_secs(1));
    screen.type_text("w");
    screen.wait_for("the end of the recording", |text| text.contains("is complete"));
    screen.type_text("/tcp.port == 40002\r");
    screen.wait_for("the other connection alone", |text| {
        text.contains("filter: tcp.port == 40002")
            && text.contains("10.0.0.1:40002")
            && !text.contains("40001")
    });
    let sent = talking.end();
    screen.type_text("q");
    assert_eq!(screen.wait().code(), Some(0), "{}", screen.text());
    let files: Vec<PathBuf> =
        fs::read_dir(&folder).expect("the folder").flatten().map(|entry| entry.path()).collect();
    let [file] = &files[..] else { panic!("one file: {files:?}") };
    let recorded = frames_of(file);
    assert!(recorded.len() > 30, "{}", recorded.len());
    let first = sent.iter().position(|frame| *frame == recorded[0]).expect("it was sent");
    assert!(
        sent[first..first + recorded.len()] == recorded[..],
        "from then on, all packets of the connection"
    );
    match Command::new("tshark").args(["-r", file.to_str().unwrap(), "-Y", "tcp.port == 40001"]).output() {
        Ok(read) => assert_eq!(super::text(&read.stdout).lines().count(), recorded.len()),
        Err(_) => eprintln!("skipped: tshark is not installed, which would read the recording"),
    }
}

/// A signal ends the capture, and the terminal is as before.
#[test]
fn a_signal_ends_the_screen_of_a_link() {
    if !inside("watching::a_signal_ends_the_screen_of_a_link") {
        return;
    }
    make_pair(0);
    for name in ["TERM", "INT"] {
        let mut screen = Screen::start("top -i in0", &std::env::temp_dir());
        screen.wait_for("the screen", |text| text.contains("filter: (all traffic)"));
        screen.signal(name);
        assert_eq!(screen.wait().code(), Some(0), "a signal is the usual end of a live capture");
        assert!(screen.written().contains("\x1b[?1049l"), "{}", screen.text());
    }
}
