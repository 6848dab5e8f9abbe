//! A broker of Kafka on loopback, from the files that `cargo xtask fetch` has fetched, and the other end
//! of the tests.

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::StreamReader;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A long time for a test: whoever waits this long has failed.
pub const LONG: Duration = Duration::from_secs(60);

/// Kafka's default.
pub const MESSAGE_MAX: &str = "1048588";

/// Waits until the condition holds.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// An empty folder for a test.
pub fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a folder for tests");
    path
}

/// Kafka's files as a class path.
fn class_path() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("kafka").join("*")
}

/// A broker, which ends with the test.
pub struct Broker {
    folder: PathBuf,
    port: u16,
    process: Option<Child>,
}

impl Broker {
    /// A broker of this test. `None`, with a message: Kafka is not here.
    pub fn start(test: &str) -> Option<Self> {
        let has_java = Command::new("java").arg("-version").stderr(Stdio::null()).status().is_ok();
        if !has_java || !class_path().with_file_name("complete").is_file() {
            eprintln!(
                "skipped: {test} needs a broker: apt-get install default-jdk-headless maven, then cargo xtask fetch"
            );
            return None;
        }
        let folder = folder(test);
        let ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("loopback"));
        let [port, controller] = ports.map(|socket| socket.local_addr().expect("it is bound").port());
        let logs = folder.join("logs");
        let properties = format!(
            "process.roles=broker,controller\nnode.id=1\n\
             controller.quorum.voters=1@127.0.0.1:{controller}\ncontroller.listener.names=CONTROLLER\n\
             listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={}\n\
             offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n\
             transaction.state.log.min.isr=1\nauto.create.topics.enable=false\n\
             broker.session.timeout.ms=2000\nbroker.heartbeat.interval.ms=500\n",
            logs.display()
        );
        fs::write(folder.join("broker.properties"), properties).expect("a file for tests");
        let format =
            ["kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAA", "-c", "broker.properties"];
        let formatted = java(&folder).args(format).output().expect("java runs");
        assert!(formatted.status.success(), "{}", String::from_utf8_lossy(&formatted.stderr));
        let mut broker = Self { folder, port, process: None };
        broker.run();
        Some(broker)
    }

    /// Starts the process, which may have been killed before.
    pub fn run(&mut self) {
        let log = self.folder.join("broker.log");
        let said = File::create(&log).expect("a file for tests");
        let process = java(&self.folder)
            .args(["-Xmx512m", "kafka.Kafka", "broker.properties"])
            .stdin(Stdio::null())
            .stdout(said.try_clone().expect("a second handle"))
            .stderr(said)
            .spawn();
        self.process = Some(process.expect("java runs"));
        until("the broker has started", || {
            fs::read_to_string(&log).is_ok_and(|said| said.contains("Kafka Server started"))
        });
    }

    /// Kills the process, which has no time to write anything (SIGKILL).
    pub fn kill(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.kill().expect("it is a child");
        process.wait().expect("it is a child");
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The output of `weir` for a topic.
    pub fn output(&self, topic: &str) -> String {
        format!("kafka://{}/{topic}", self.address())
    }

    /// Runs the other end, `Topic.java`.
    fn topic(&self, args: &[&str]) -> String {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/kafka/Topic.java");
        let address = self.address();
        let all = [&[source, args[0], &address], &args[1..]].concat();
        let output = java(&self.folder).args(all).output().expect("java runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    pub fn create(&self, topic: &str, message_max: &str) {
        self.topic(&["create", topic, message_max]);
    }

    pub fn limit(&self, topic: &str, message_max: &str) {
        self.topic(&["limit", topic, message_max]);
    }

    /// All messages of a topic, in order.
    pub fn read(&self, topic: &str) -> Vec<Message> {
        self.topic(&["read", topic]).lines().map(Message::of).collect()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if self.process.is_some() {
            self.kill();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn java(folder: &Path) -> Command {
    let mut command = Command::new("java");
    command.current_dir(folder).arg("-cp").arg(class_path());
    command
}

/// A message of a topic.
#[derive(Debug)]
pub struct Message {
    pub key: String,
    pub headers: BTreeMap<String, String>,
    pub value: Vec<u8>,
}

impl Message {
    fn of(line: &str) -> Self {
        let [_, key, headers, value] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let headers = headers.split_terminator(';').map(|header| {
            let (name, value) = header.split_once('=').expect("name=value");
            (name.to_string(), value.to_string())
        });
        let value =
            (0..value.len()).step_by(2).map(|at| u8::from_str_radix(&value[at..at + 2], 16).expect("digits"));
        Self { key: key.to_string(), headers: headers.collect(), value: value.collect() }
    }

    pub fn sequence(&self) -> u64 {
        self.headers["sequence"].parse().expect("a number")
    }

    pub fn run(&self) -> &str {
        &self.headers["run"]
    }

    /// The one batch of the message's stream.
    pub fn batch(&self) -> RecordBatch {
        let mut reader = StreamReader::try_new(self.value.as_slice(), None).expect("a stream");
        let batch = reader.next().expect("a batch").expect("a batch that can be read");
        assert!(reader.next().is_none() && reader.is_finished(), "a complete stream of one batch");
        assert_eq!(self.headers["rows"], batch.num_rows().to_string());
        batch
    }

    /// The values of a text column.
    pub fn texts(&self, column: &str) -> Vec<String> {
        let batch = self.batch();
        let column = batch.column_by_name(column).expect("the column").as_string::<i32>();
        (0..column.len()).map(|row| column.value(row).to_string()).collect()
    }
}
