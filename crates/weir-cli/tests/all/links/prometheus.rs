//! Prometheus reads the metrics of live runs.

use super::watching::{Server, eventually, mixed, page};
use super::{Capturing, inside, make_pair, scratch, send};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_testing::frames::{self, ACK};

/// The ports of the metrics.
pub const PORTS: [&str; 2] = ["9464", "9465"];

/// Prometheus, which ends with the test.
pub struct Prometheus {
    _process: Server,
    folder: PathBuf,
}

impl Prometheus {
    /// Reads the metrics of these ports each second.
    pub fn start(folder: &Path, ports: &[&str]) -> Self {
        let config = folder.join("prometheus.yml");
        let scrape = "scrape_configs:\n- job_name: weir\n  scrape_interval: 1s\n  scrape_timeout: 1s\n  static_configs:\n";
        let target = |port: &&str| format!("'127.0.0.1:{port}'");
        let targets = ports.iter().map(target).collect::<Vec<_>>().join(", ");
        fs::write(&config, format!("{scrape}  - targets: [{targets}]\n")).expect("a temporary file");
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", config.display())).arg("--web.listen-address=127.0.0.1:9090");
        command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
        let log = fs::File::create(folder.join("log")).expect("a temporary file");
        let process = command.stdout(Stdio::null()).stderr(log).spawn().expect("it is installed");
        Self { _process: Server(process), folder: folder.to_path_buf() }
    }

    /// The series of the answer, one a line.
    pub fn query(&self, query: &str) -> String {
        let mut promtool = Command::new("promtool");
        let output = promtool.args(["query", "instant", "http://127.0.0.1:9090", query]).output();
        super::text(&output.expect("it runs").stdout)
    }

    /// The value of the first series of the answer.
    fn value(&self, query: &str) -> Option<f64> {
        let answer = self.query(query);
        answer.split_once("=> ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok())
    }

    pub fn assert_has_no_complaints(&self) {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        assert!(!log.contains("Append failed") && !log.contains("invalid"), "{log}");
    }
}

/// Whether the programs of Prometheus are installed.
fn has_prometheus(test: &str) -> bool {
    let is_there = |name| Command::new(name).arg("--version").output().is_ok();
    let both = is_there("prometheus") && is_there("promtool");
    if !both {
        eprintln!("skipped: {test} needs prometheus and promtool (package prometheus)");
    }
    both
}

/// Whether a test of this file can run here, in a namespace of its own.
fn can_run(test: &str) -> bool {
    can_run_as(&format!("prometheus::{test}"))
}

/// The same of a test with this path.
pub fn can_run_as(test: &str) -> bool {
    has_prometheus(test) && inside(test)
}

/// Prometheus reads the metrics of a live capture, and its checker finds nothing.
#[test]
fn prometheus_reads_the_metrics() {
    if !can_run("prometheus_reads_the_metrics") {
        return;
    }
    make_pair(0);
    let folder = scratch("prometheus");
    fs::create_dir_all(&folder).expect("a temporary folder");
    let questions = folder.join("questions.toml");
    let output = folder.join("rows.json");
    let question = format!("[[question]]\nname = \"se\\\"en\"\nask = \"tcp\"\noutput = {output:?}\n");
    let question = question.replace("\"tcp\"", "\"packets\"\nformat = \"json\"");
    let sizes = "count() as packets, sum(frame.len) as bytes, histogram(frame.len, 100, 1000) as sizes, max(frame.len) \
                 by proto, src/24 every 1s";
    let aggregate = format!(
        "[[question]]\nname = \"traffic\"\nask = \"aggregate\"\naggregate = \"{sizes}\"\noutput = {:?}\n",
        folder.join("traffic.json")
    );
    fs::write(&questions, format!("metrics = \":{}\"\n{question}{aggregate}", PORTS[0]))
        .expect("a temporary file");
    let capturing = Capturing::start(&["run", questions.to_str().unwrap(), "-i", "in0"]);
    let sent = send("out0", &mixed()) as f64;

    let prometheus = Prometheus::start(&folder, &PORTS[..1]);
    let value = |query: &str| prometheus.value(query);
    let received = "sum(weir_packets_received_total)";
    eventually("Prometheus has the packets", || (value(received) == Some(sent)).then_some(()));
    assert_eq!(value("sum(weir_question_answers_total{question=\"se\\\"en\"})"), Some(sent));
    let balance = format!(
        "{received} - sum(weir_packets_delivered_total) - sum(weir_packets_filtered_total) \
         - sum(weir_packets_counted_total) - sum(weir_drops_total)"
    );
    assert_eq!(value(&balance), Some(0.0));
    let packets = "sum(weir_aggregate_traffic_packets_total)";
    eventually("the last window is over", || (value(packets) == Some(sent)).then_some(()));
    assert_eq!(value("sum(weir_aggregate_traffic_sizes_bucket{le=\"+Inf\"})"), Some(sent));
    assert_eq!(value("sum(weir_aggregate_traffic_bytes_total) - sum(weir_bytes_total)"), Some(0.0));
    let info = prometheus.query("weir_build_info");
    assert!(info.contains("version=\""), "{info}");
    prometheus.assert_has_no_complaints();

    let mut check = Command::new("promtool");
    let mut check = check
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    check.stdin.take().expect("it is piped").write_all(page("text/plain").as_bytes()).expect("it reads");
    let checked = check.wait_with_output().expect("it ends");
    let complaints = super::text(&checked.stderr);
    assert!(checked.status.success() && complaints.is_empty(), "{complaints}");
    capturing.end();
}

/// Segments of a web server to two hosts; those of 192.168.0.0/16 repeat their sequence numbers.
fn web(second: u32) -> Vec<Vec<u8>> {
    let frame = |number: u32| {
        let (host, seq) = match number % 4 {
            0 => ([192, 168, 1, 7], second),
            1 => ([192, 168, 9, 9], second * 100 + number),
            _ => ([10, 0, 0, (number % 8) as u8], second * 100 + number),
        };
        let port = if number.is_multiple_of(2) { 443 } else { 80 };
        let segment = frames::tcp((port, 50_000), seq, 1, ACK, &[], b"some bytes");
        frames::ethernet(0x0800, &frames::ipv4((host, [10, 1, 0, 1]), 6, number as u16, 0, &[], &segment))
    };
    (0..100).map(frame).collect()
}

/// The three queries of Jetstream's paper (TNSM'21, section IV), over two instances.
#[test]
fn prometheus_answers_questions_about_two_instances() {
    if !can_run("prometheus_answers_questions_about_two_instances") {
        return;
    }
    let folder = scratch("prometheus-two");
    fs::create_dir_all(&folder).expect("a temporary folder");
    let question = |name: &str, text: &str, instance: usize| {
        let output = folder.join(format!("{name}{instance}.json"));
        format!(
            "[[question]]\nname = {name:?}\nask = \"aggregate\"\naggregate = {text:?}\noutput = {output:?}\n"
        )
    };
    let capturing: Vec<Capturing> = (0..2)
        .map(|instance| {
            make_pair(instance as u32);
            let questions = folder.join(format!("questions{instance}.toml"));
            let metrics = format!("metrics = \":{}\"\n", PORTS[instance]);
            let all = [
                question("volume", "sum(frame.len) as bytes by sport every 1s", instance),
                question("hitters", "count() as packets by src every 1s", instance),
                question("tcp", "distinct(tcp.seq) as seq by src every 1s", instance),
            ];
            fs::write(&questions, metrics + &all.concat()).expect("a temporary file");
            Capturing::start(&["run", questions.to_str().unwrap(), "-i", &format!("in{instance}")])
        })
        .collect();
    let is_over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_over);
    let sender = std::thread::spawn(move || {
        for second in 0.. {
            if told.load(Ordering::SeqCst) {
                return;
            }
            // The second instance sees half of the packets.
            send("out0", &web(second));
            send("out1", &web(second)[..50]);
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    let prometheus = Prometheus::start(&folder, &PORTS);
    let rate = "sum by (sport) (rate(weir_aggregate_volume_bytes_total{sport=\"443\"}[5s]))";
    eventually("bytes per second of a port", || prometheus.value(rate).filter(|rate| *rate > 1_000.0));
    let has_both = |answer: &String| PORTS.iter().all(|port| answer.contains(&format!(":{port}")));
    let of_each = "rate(weir_aggregate_volume_bytes_total{sport=\"443\"}[5s])";
    eventually("the same of each instance", || Some(prometheus.query(of_each)).filter(has_both));
    let top = prometheus.query("topk(3, sum by (src) (weir_aggregate_hitters_packets_total))");
    assert!(
        top.lines().count() == 3 && top.contains("\"192.168.1.7\"") && top.contains("\"192.168.9.9\""),
        "{top}"
    );
    let many = "weir_aggregate_tcp_seq{src=~\"192.168.+\"} > 10";
    let many = eventually("hosts with many numbers", || Some(prometheus.query(many)).filter(has_both));
    assert!(
        many.contains("192.168.9.9") && !many.contains("192.168.1.7") && !many.contains("10.0.0."),
        "{many}"
    );
    is_over.store(true, Ordering::SeqCst);
    sender.join().expect("it ends");
    prometheus.assert_has_no_complaints();
    capturing.into_iter().for_each(|capturing| drop(capturing.end()));
}
