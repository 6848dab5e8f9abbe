//! A collector of OpenTelemetry on loopback: Python with OpenTelemetry's messages, which
//! `cargo xtask fetch` has fetched.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A long time for a test: whoever waits this long has failed.
const LONG: Duration = Duration::from_secs(60);

/// Repeats `attempt` until it succeeds.
pub fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(done) = attempt() {
            return done;
        }
        assert!(began.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An empty folder for a test.
pub fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a folder for tests");
    path
}

/// A port of loopback that nobody uses.
pub fn free_port() -> u16 {
    let socket = TcpListener::bind("127.0.0.1:0").expect("loopback");
    socket.local_addr().expect("it is bound").port()
}

/// Lines of a page of metrics, without their values, and the values.
pub type Lines = BTreeMap<String, f64>;

/// The collector, which ends with the test.
pub struct Collector {
    folder: PathBuf,
    port: u16,
    process: Option<Child>,
}

/// An export that the collector has received.
pub struct Export(Value);

impl Export {
    /// The values, as lines of a page.
    pub fn lines(&self) -> Lines {
        let lines = self.0["lines"].as_array().expect("a list").iter();
        lines.map(|line| (line[0].as_str().expect("a text").to_string(), number(&line[1]))).collect()
    }

    pub fn resource(&self, attribute: &str) -> &str {
        self.0["resource"][attribute].as_str().unwrap_or_default()
    }

    pub fn agent(&self) -> &str {
        self.0["agent"].as_str().unwrap_or_default()
    }

    /// Type and unit of a metric.
    pub fn kind_and_unit(&self, metric: &str) -> (&str, &str) {
        let of = |what: &str| self.0["metrics"][metric][what].as_str().unwrap_or("missing");
        (of("kind"), of("unit"))
    }

    pub fn help(&self, metric: &str) -> &str {
        self.0["metrics"][metric]["help"].as_str().unwrap_or_default()
    }

    /// Start of the counting and time of each value of a metric, in nanoseconds since 1970.
    pub fn times(&self, metric: &str) -> Vec<(u64, u64)> {
        let times = self.0["metrics"][metric]["times"].as_array().expect("a list").iter();
        times.map(|both| (both[0].as_u64().expect("a time"), both[1].as_u64().expect("a time"))).collect()
    }
}

fn number(value: &Value) -> f64 {
    value.as_str().and_then(|text| text.parse().ok()).expect("a number as a text")
}

impl Collector {
    /// A collector of this test, which does not run. `None`, with a message: its modules are not here.
    pub fn of(test: &str) -> Option<Self> {
        let modules =
            ["-c", "import grpc, opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc"];
        let has_modules = python().args(modules).stderr(Stdio::null()).status().is_ok_and(|it| it.success());
        if !has_modules {
            eprintln!(
                "skipped: {test} needs Python with grpcio and opentelemetry-proto: apt-get install python3-pip, then cargo \
                 xtask fetch"
            );
            return None;
        }
        Some(Self { folder: folder(test), port: free_port(), process: None })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts the process, which may have been killed before, without exports. Modes: `accept`, `refuse`,
    /// `partial`.
    pub fn run(&mut self, mode: &str) {
        self.kill();
        self.exports().iter().for_each(|(path, _)| fs::remove_file(path).expect("it exists"));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/otlp/collector.py");
        let mut process = python()
            .args([script, &self.folder.display().to_string(), &self.port.to_string(), mode])
            .stdout(Stdio::piped())
            .spawn()
            .expect("python runs");
        let mut port = String::new();
        let said = process.stdout.take().expect("it is piped");
        BufReader::new(said).read_line(&mut port).expect("it says its port");
        assert_eq!(port.trim(), self.port.to_string(), "the port is free");
        self.process = Some(process);
    }

    /// Kills the process (SIGKILL), if it runs.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("it is a child");
            process.wait().expect("it is a child");
        }
    }

    /// The exports so far, in their order.
    fn exports(&self) -> Vec<(PathBuf, Export)> {
        let files = (0..).map(|number| self.folder.join(format!("export-{number}.json")));
        let read = |path: PathBuf| {
            let text = fs::read_to_string(&path).ok()?;
            Some((path, Export(serde_json::from_str(&text).expect("JSON"))))
        };
        files.map_while(read).collect()
    }

    pub fn count(&self) -> usize {
        self.exports().len()
    }

    /// The newest export.
    pub fn last(&self) -> Option<Export> {
        self.exports().pop().map(|(_, export)| export)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.kill();
    }
}

fn python() -> Command {
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("otlp"));
    python
}
