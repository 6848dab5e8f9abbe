//! Rows in Kafka: a real broker, which is killed, refuses, and comes back. `cargo xtask fetch` fetches the
//! broker and runs these tests; without the broker they are skipped, with a message.

mod broker;
mod fleet;

use broker::{Broker, MESSAGE_MAX, Message, folder, until};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;
use weir_testing::frames;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/");

/// Flows of the generated capture: some 20 batches.
const FLOWS: usize = 60_000;

/// The bytes of the header of a capture file.
const HEADER: usize = 24;

/// A capture of flows of one datagram each. Time passes, so that flows end while the capture goes on.
fn many_flows() -> Vec<u8> {
    let number = |value: u32| value.to_le_bytes();
    let mut bytes =
        [number(0xa1b2_c3d4), number(0x0004_0002), [0; 4], [0; 4], number(65535), number(1)].concat();
    for flow in 0..u32::try_from(FLOWS).expect("a small number") {
        let [_, high, middle, low] = flow.to_be_bytes();
        let datagram = frames::udp((40_000, 9), b"x");
        let packet = frames::ipv4(([10, high, middle, low], [192, 0, 2, 1]), 17, 0, 0, &[], &datagram);
        let frame = frames::ethernet(0x0800, &packet);
        let length = number(u32::try_from(frame.len()).expect("a short frame"));
        // 20 flows in a second.
        bytes
            .extend([number(1_800_000_000 + flow / 20), number(flow % 20 * 50_000), length, length].concat());
        bytes.extend(frame);
    }
    bytes
}

/// `weir flows` over standard input, whose messages go to a file.
struct Weir {
    process: Child,
    input: Option<ChildStdin>,
    said: PathBuf,
}

impl Weir {
    fn start(said: PathBuf, args: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args([&["flows", "-r", "-"], args].concat())
            .stdin(Stdio::piped())
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
        until(&format!("weir says `{words}`"), || self.said().contains(words));
    }

    /// Ends the input, and waits for the end. Returns the exit status.
    fn end(&mut self) -> Option<i32> {
        self.input = None;
        until("weir ends", || self.process.try_wait().expect("it is a child").is_some());
        self.process.wait().expect("it is a child").code()
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The originators of rows, sorted.
fn originators<'m>(messages: impl IntoIterator<Item = &'m Message>) -> Vec<String> {
    let mut all: Vec<String> = messages.into_iter().flat_map(|message| message.texts("id.orig_h")).collect();
    all.sort();
    all
}

/// Those of the generated capture.
fn all_originators() -> Vec<String> {
    let mut all: Vec<String> =
        (0..FLOWS).map(|flow| format!("10.{}.{}.{}", flow >> 16, flow >> 8 & 255, flow & 255)).collect();
    all.sort();
    all
}

/// Each row is there once, in the order of the batches, of one run.
fn assert_exactly_once(messages: &[Message]) {
    let sequences: Vec<u64> = messages.iter().map(Message::sequence).collect();
    assert!(sequences.iter().copied().eq(0..messages.len() as u64), "{sequences:?}");
    assert!(messages.iter().all(|message| message.run() == messages[0].run()));
    assert!(originators(messages) == all_originators(), "each row once");
}

#[test]
fn rows_of_any_log_arrive_as_batches() {
    let Some(broker) = Broker::start("kafka-rows") else { return };
    broker.create("rows", MESSAGE_MAX);
    let capture = format!("{EXAMPLES}services.pcap");
    for (command, log) in [("flows", "conn"), ("http", "http")] {
        let args = [command, &capture, "-o", &broker.output("rows"), "--sensor", "eins"];
        let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(args).output().expect("weir runs");
        assert_eq!((String::from_utf8_lossy(&output.stderr).as_ref(), output.status.code()), ("", Some(0)));
        let json =
            Command::new(env!("CARGO_BIN_EXE_weir")).args([command, &capture, "--format", "json"]).output();
        let mut wanted: Vec<String> = String::from_utf8(json.expect("weir runs").stdout)
            .expect("text")
            .lines()
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).expect("JSON")["uid"]
                    .as_str()
                    .expect("text")
                    .into()
            })
            .collect();
        let all = broker.read("rows");
        let messages: Vec<&Message> = all.iter().filter(|message| message.headers["log"] == log).collect();
        let mut found: Vec<String> = messages.iter().flat_map(|message| message.texts("uid")).collect();
        wanted.sort();
        found.sort();
        assert!(!wanted.is_empty() && found == wanted, "{log}");
        for message in messages {
            assert_eq!((message.key.as_str(), message.headers["sensor"].as_str()), ("eins", "eins"));
            assert_eq!(message.headers["content-type"], "application/vnd.apache.arrow.stream");
            assert!(message.texts("sensor").iter().all(|sensor| sensor == "eins"));
            assert_eq!(message.batch().schema().metadata()["weir.log"], log);
        }
    }
}

#[test]
fn a_broker_that_is_killed_has_each_row_once_in_the_end() {
    let Some(mut broker) = Broker::start("kafka-killed-broker") else { return };
    broker.create("rows", MESSAGE_MAX);
    let capture = many_flows();
    let (place, spool) = (folder("kafka-killed-broker-weir"), folder("kafka-killed-broker-spool"));
    let output = broker.output("rows");
    let mut weir =
        Weir::start(place.join("said"), &["-o", &output, "--spool", spool.to_str().expect("text")]);
    let parts: Vec<&[u8]> = capture.chunks(capture.len() / 4 + 1).collect();
    weir.write(parts[0]);
    until("some batches arrive", || broker.read("rows").len() >= 2);
    // The next part is on its way.
    weir.write(parts[1]);
    broker.kill();
    weir.write(parts[2]);
    weir.until_said("no connection");
    assert!(weir.said().contains("rows wait in"), "{}", weir.said());
    broker.run();
    weir.write(parts[3]);
    weir.until_said("connected again");
    assert_eq!(weir.end(), Some(0), "{}", weir.said());
    let messages = broker.read("rows");
    assert!(messages.len() > 15, "{}: {}", messages.len(), weir.said());
    assert!(messages.iter().all(|message| message.value.len() <= 900_000));
    assert_exactly_once(&messages);
}

#[test]
fn rows_in_the_spool_of_a_killed_weir_are_there_and_repeats_are_known() {
    let Some(mut broker) = Broker::start("kafka-killed-weir") else { return };
    broker.create("rows", MESSAGE_MAX);
    let capture = many_flows();
    let (place, spool) = (folder("kafka-killed-weir-weir"), folder("kafka-killed-weir-spool"));
    let (output, spool) = (broker.output("rows"), spool.to_str().expect("text"));
    let args = ["-o", &output, "--spool", spool];
    let mut weir = Weir::start(place.join("said"), &args);
    let (first, second) = capture.split_at(capture.len() / 2);
    weir.write(first);
    until("some batches arrive", || broker.read("rows").len() >= 2);
    broker.kill();
    weir.write(second);
    weir.until_said("no connection");
    let size = |spool: &str| -> u64 {
        let files = fs::read_dir(spool).expect("a folder").flatten();
        files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
    };
    // All batches are in one segment, which has 270 bytes for a row. Rows of an incomplete batch come after a
    // second, and the last flows end one by one.
    until("the spool has the rows", || size(spool) > FLOWS as u64 * 250);
    std::thread::sleep(Duration::from_secs(3));
    drop(weir);
    broker.run();
    // Further rows, and those of the spool.
    let mut weir = Weir::start(place.join("said"), &args);
    weir.write(&capture[..HEADER]);
    assert_eq!(weir.end(), Some(0), "{}", weir.said());
    let messages = broker.read("rows");
    // The batches of the killed run, by their numbers.
    let batches: BTreeMap<(&str, u64), &Message> =
        messages.iter().map(|message| ((message.run(), message.sequence()), message)).collect();
    let runs: BTreeSet<&str> = batches.keys().map(|(run, _)| *run).collect();
    assert_eq!(runs.len(), 1, "the second run has no rows of its own");
    assert!(batches.keys().map(|(_, sequence)| *sequence).eq(0..batches.len() as u64), "no gaps");
    for message in &messages {
        let known = batches[&(message.run(), message.sequence())];
        assert!(message.value == known.value, "repeats are equal");
    }
    // The last flows had not ended when the process was killed.
    let (found, all) = (originators(batches.into_values()), all_originators());
    assert!(found.windows(2).all(|pair| pair[0] != pair[1]), "each row once, without the repeats");
    assert!(
        found.len() > FLOWS * 9 / 10 && found.iter().all(|one| all.binary_search(one).is_ok()),
        "{}",
        found.len()
    );
}

#[test]
fn refused_batches_wait_and_the_others_are_not_sent_twice() {
    let Some(broker) = Broker::start("kafka-refused") else { return };
    // Compressed batches are longer than this, and the last one is not.
    broker.create("rows", "20000");
    let place = folder("kafka-refused-weir");
    let output = broker.output("rows");
    let spool = place.join("spool");
    let mut weir =
        Weir::start(place.join("said"), &["-o", &output, "--spool", spool.to_str().expect("text")]);
    let capture = many_flows();
    weir.write(&capture);
    weir.until_said("a message is too long for the topic `rows`: raise its max.message.bytes");
    broker.limit("rows", MESSAGE_MAX);
    weir.until_said("connected again");
    assert_eq!(weir.end(), Some(0), "{}", weir.said());
    let mut messages = broker.read("rows");
    messages.sort_by_key(Message::sequence);
    assert_exactly_once(&messages);
}

#[test]
fn an_unknown_topic_is_named_with_the_remedy() {
    let Some(broker) = Broker::start("kafka-unknown") else { return };
    let place = folder("kafka-unknown-weir");
    let spool = place.join("spool");
    let args = ["-o", &broker.output("late"), "--spool", spool.to_str().expect("text")];
    let mut weir = Weir::start(place.join("said"), &args);
    weir.write(&fs::read(Path::new(EXAMPLES).join("services.pcap")).expect("the example"));
    weir.until_said("there is no topic `late`: create it (kafka-topics.sh --create --topic late)");
    broker.create("late", MESSAGE_MAX);
    weir.until_said("connected again");
    assert_eq!(weir.end(), Some(0), "{}", weir.said());
    assert!(!broker.read("late").is_empty());
}
