//! Metrics at a collector of OpenTelemetry, which comes late, is killed, refuses, and comes back.
//! `cargo xtask fetch` fetches the collector's modules and runs these tests; without them they are
//! skipped, with a message.

mod collector;

use crate::cli::worker_of;
use collector::{Collector, Lines, eventually, folder, free_port};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

const CAPTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/first-light.pcap");

/// The bytes of the header of a capture file.
const HEADER: usize = 24;

/// A run of `weir` over standard input, whose messages go to a file.
struct Weir {
    process: Child,
    input: Option<ChildStdin>,
    said: PathBuf,
}

impl Weir {
    fn start(folder: &Path, args: &[&str]) -> Self {
        let said = folder.join("said");
        let mut process = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args([args, &["-r", "-"]].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(&said).expect("a file for tests"))
            .spawn()
            .expect("the binary was built for this test");
        let input = process.stdin.take();
        Self { process, input, said }
    }

    fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("it is open");
        input.write_all(bytes).and_then(|()| input.flush()).expect("weir reads");
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).expect("a file for tests")
    }

    fn until_said(&self, words: &str) {
        eventually(&format!("weir says `{words}`"), || self.said().contains(words).then_some(()));
    }

    /// The number of lines with these words.
    fn times_said(&self, words: &str) -> usize {
        self.said().lines().filter(|line| line.contains(words)).count()
    }

    /// The page of `--metrics`, as lines.
    fn page(&self) -> Lines {
        let said = self.said();
        let address =
            said.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address");
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (_, page) = answer.split_once("\r\n\r\n").expect("a body");
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        let line = |line: &str| {
            let (name, value) = line.rsplit_once(' ').expect("a value");
            (name.to_string(), value.parse().expect("a number"))
        };
        lines.map(line).collect()
    }

    /// Ends the input, and waits for the end. Returns the exit status.
    fn end(&mut self) -> Option<i32> {
        self.input = None;
        eventually("weir ends", || self.process.try_wait().expect("it is a child")).code()
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The values that do not concern the sending itself.
fn of_run(mut lines: Lines) -> Lines {
    lines.retain(|line, _| !line.starts_with("weir_otlp_"));
    lines
}

fn since_1970() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is later");
    u64::try_from(now.as_nanos()).expect("before 2554")
}

/// The options are in a file of questions; names have quotes, line breaks and other letters.
#[test]
fn the_collector_has_the_values_of_the_page() {
    let Some(mut collector) = Collector::of("otlp-page") else { return };
    collector.run("accept");
    let questions = collector.folder().join("questions.toml");
    let aggregate = "count() as seen, sum(frame.len) as bytes, histogram(frame.len, 100, 1000) as sizes, max(frame.len) as \
                     most by tcp.dstport every 1s";
    let address = collector.address();
    let text = format!(
        "metrics = ':0'\notlp = '{address}'\notlp_interval = '1s'\n\
         [[question]]\nname = \"a \\\"b\\\" \\\\ zwölf 雨\"\nask = 'flows'\noutput = '/dev/null'\nformat = 'json'\n\
         [[question]]\nname = 'ports'\nask = 'aggregate'\naggregate = '{aggregate}'\noutput = '/dev/null'\nformat = 'json'\n"
    );
    fs::write(&questions, text).expect("a file for tests");
    let before = since_1970();
    let mut weir = Weir::start(collector.folder(), &["run", &questions.display().to_string()]);
    weir.write(&fs::read(CAPTURE).expect("the example"));
    weir.until_said("metrics are sent to");
    let is_complete =
        |page: &Lines| page.get("weir_packets_received_total").is_some_and(|count| *count > 50.0);
    let (page, export) = eventually("the same values", || {
        let page = of_run(weir.page());
        let export = collector.last()?;
        (is_complete(&page) && of_run(export.lines()) == page).then_some((page, export))
    });
    assert!(page.len() > 150, "{page:?}");
    let question = "weir_question_answers_total{question=\"a \\\"b\\\" \\\\ zwölf 雨\"}";
    assert!(page.contains_key(question), "{page:?}");
    let bucket = |line: &&String| line.starts_with("weir_aggregate_ports_sizes_bucket{tcp_dstport=\"");
    assert!(page.keys().filter(bucket).count() > 3, "{page:?}");
    for (metric, kind, unit) in [
        ("weir_packets_received", "sum", ""),
        ("weir_bytes", "sum", "By"),
        ("weir_memory_bytes", "gauge", "By"),
        ("process_start_time_seconds", "gauge", "s"),
        ("weir_build_info", "gauge", ""),
        ("weir_aggregate_ports_sizes", "histogram", ""),
        ("weir_aggregate_ports_most", "gauge", ""),
    ] {
        assert_eq!(export.kind_and_unit(metric), (kind, unit), "{metric}");
    }
    assert_eq!(export.help("weir_flows_active"), "Flows that have not ended.");
    assert_eq!(export.resource("service.name"), "weir");
    assert_eq!(export.resource("service.version"), env!("CARGO_PKG_VERSION"));
    let instance = export.resource("service.instance.id");
    assert!(instance.ends_with(&format!(":{}", worker_of(weir.process.id()))), "{instance}");
    assert!(export.agent().starts_with("weir/"), "{}", export.agent());
    let start = (page["process_start_time_seconds"] * 1e9) as u64;
    for metric in ["weir_packets_received", "weir_aggregate_ports_seen", "weir_aggregate_ports_sizes"] {
        for (begun, now) in export.times(metric) {
            assert!(before <= begun && begun <= now && now <= since_1970(), "{metric}: {begun} {now}");
            let is_of_run = begun.abs_diff(start) < 1_000_000;
            assert!(is_of_run || metric.contains("aggregate"), "{metric}: {begun}, and not {start}");
        }
    }
    assert_eq!(weir.end(), Some(0), "{}", weir.said());
}

/// A run shorter than the interval sends its metrics once, with everything that the end adds.
#[test]
fn the_last_values_are_sent_at_the_end() {
    let Some(mut collector) = Collector::of("otlp-last") else { return };
    collector.run("accept");
    let address = collector.address();
    let run = |args: &[&str]| {
        let all = [args, &["--otlp", &address, "--otlp-interval", "1h"]].concat();
        let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(all).output().expect("weir runs");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        (String::from_utf8_lossy(&output.stdout).into_owned(), collector.last().expect("an export").lines())
    };
    let (rows, lines) = run(&["flows", CAPTURE, "--format", "json"]);
    assert_eq!(lines["weir_question_answers_total{question=\"flows\"}"], rows.lines().count() as f64);
    let (count, lines) = run(&["packets", CAPTURE, "--count"]);
    assert_eq!(lines["weir_packets_received_total"].to_string(), count.trim());
    let sum = |lines: &Lines, metric: &str| -> f64 {
        lines.iter().filter(|(line, _)| line.starts_with(metric)).map(|(_, value)| value).sum()
    };
    let (_, lines) = run(&["aggregate", "count() as n by proto every 1s", CAPTURE]);
    assert_eq!(sum(&lines, "weir_aggregate_n_total{"), lines["weir_packets_received_total"]);
    assert_eq!(collector.count(), 3, "once each");
}

/// Each change is reported once. Values are those since the start, whatever was not sent.
#[test]
fn a_collector_may_come_late_and_be_killed() {
    let Some(mut collector) = Collector::of("otlp-late") else { return };
    let address = collector.address();
    let mut weir = Weir::start(collector.folder(), &["flows", "--otlp", &address, "--otlp-interval", "1s"]);
    let bytes = fs::read(CAPTURE).expect("the example");
    let packets = |collector: &Collector| {
        collector.last().map(|export| export.lines()["weir_packets_received_total"]).filter(|sum| *sum > 0.0)
    };
    weir.write(&bytes);
    weir.until_said("does not accept metrics (Connection refused");
    // Further failures are no further messages.
    std::thread::sleep(Duration::from_millis(3500));
    collector.run("accept");
    let once = eventually("a late collector has the packets", || packets(&collector));
    weir.until_said("accepts metrics again");
    assert_eq!(weir.times_said("does not accept"), 1, "{}", weir.said());
    collector.kill();
    weir.write(&bytes[HEADER..]);
    eventually("the loss is reported", || (weir.times_said("does not accept") == 2).then_some(()));
    collector.run("accept");
    eventually("the next collector has all packets", || packets(&collector).filter(|sum| *sum == 2.0 * once));
    let failed = collector.last().expect("an export").lines()["weir_otlp_exports_total{result=\"failed\"}"];
    assert!(failed >= 3.0, "{failed}");
    assert_eq!(weir.end(), Some(0), "{}", weir.said());
    assert_eq!(weir.times_said("accepts metrics again"), 2, "{}", weir.said());
}

/// What the collector says is shown, without characters that control terminals.
#[test]
fn a_collector_may_refuse_metrics_or_values() {
    let Some(mut collector) = Collector::of("otlp-refuse") else { return };
    let address = collector.address();
    collector.run("refuse");
    let mut weir = Weir::start(collector.folder(), &["flows", "--otlp", &address, "--otlp-interval", "1s"]);
    // The header of a capture: an empty input is an error.
    weir.write(&fs::read(CAPTURE).expect("the example")[..24]);
    weir.until_said("does not accept metrics (ResourceExhausted: no [31mroom)");
    collector.run("partial");
    weir.until_said("rejects some metrics (three [31mvalues)");
    eventually("the values are counted", || {
        let lines = collector.last()?.lines();
        lines.get("weir_otlp_rejected_values_total").filter(|count| **count >= 6.0).copied()
    });
    assert_eq!(weir.times_said("rejects"), 1, "{}", weir.said());
    assert_eq!(weir.end(), Some(0), "{}", weir.said());
}

/// A collector that is not there, or never answers, delays the end of a run by 2 s at most.
#[test]
fn a_collector_that_does_not_answer_delays_nothing() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let silent = silent.local_addr().expect("it is bound").to_string();
    let absent = format!("127.0.0.1:{}", free_port());
    for address in [absent, silent] {
        let folder = folder("otlp-silent");
        let mut weir = Weir::start(&folder, &["flows", "--otlp", &address, "--otlp-interval", "1s"]);
        weir.write(&fs::read(CAPTURE).expect("the example"));
        std::thread::sleep(Duration::from_millis(1500));
        let began = Instant::now();
        assert_eq!(weir.end(), Some(0), "{}", weir.said());
        let seconds = began.elapsed().as_secs_f64();
        assert!(seconds < 5.0, "{address}: {seconds} s");
        assert_eq!(weir.times_said("did not accept the last metrics"), 1, "{}", weir.said());
    }
}

#[test]
fn the_sensor_is_the_instance() {
    let Some(mut collector) = Collector::of("otlp-sensor") else { return };
    collector.run("accept");
    let questions = collector.folder().join("questions.toml");
    let question = "ask = 'flows'\noutput = 'clickhouse://127.0.0.1:1/weir'\n";
    let sensor = "sensor = 'edge-1'\n";
    let text =
        format!("[[question]]\nname = 'a'\n{question}{sensor}[[question]]\nname = 'b'\n{question}{sensor}");
    fs::write(&questions, text).expect("a file for tests");
    let address = collector.address();
    let args = ["run", &questions.display().to_string(), "--otlp", &address, "--otlp-interval", "1s"];
    let _weir = Weir::start(collector.folder(), &args);
    let export = eventually("an export", || collector.last());
    assert_eq!(export.resource("service.instance.id"), "edge-1");
}
