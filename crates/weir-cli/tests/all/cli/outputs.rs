//! Outputs that block, fail, or are cut by a signal.

use crate::cli::{example, scratch, text, weir, worker_of};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A long time for a test: whoever waits this long has failed.
pub const LONG: Duration = Duration::from_secs(60);

fn fifo(name: &str) -> PathBuf {
    let path = scratch(name);
    let _ = std::fs::remove_file(&path);
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo is installed").success());
    path
}

/// The read end of a named pipe, although nobody writes yet.
fn reader_of(fifo: &Path) -> File {
    // Opening a pipe only for reading waits for a writer.
    let both = OpenOptions::new().read(true).write(true).open(fifo).expect("the pipe");
    let read = File::open(fifo).expect("the pipe");
    drop(both);
    read
}

/// A file of questions: names, each with the rest of its table.
fn questions(name: &str, questions: &[(&str, String)]) -> PathBuf {
    let path = scratch(name);
    let tables = questions.iter().map(|(name, rest)| format!("[[question]]\nname = \"{name}\"\n{rest}\n"));
    std::fs::write(&path, tables.collect::<String>()).expect("a scratch file");
    path
}

pub fn start(args: &[&str], stdin: Stdio) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let command = command.args(args).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the binary was built for this test")
}

/// Waits until the process ends; kills it after a long time.
pub fn ended(mut child: Child) -> (Output, Duration) {
    let began = Instant::now();
    while child.try_wait().expect("it is a child").is_none() {
        if began.elapsed() > LONG {
            let _ = child.kill();
            panic!("the process did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let took = began.elapsed();
    (child.wait_with_output().expect("it has ended"), took)
}

/// Sends a signal. Waits for the process to have begun: until then, signals end it as they end any program.
pub fn signal(child: &Child, name: &str) {
    let number = ["HUP", "INT", "TERM"].iter().position(|known| *known == name);
    if let Some(bit) = number.map(|at| [1, 2, 15][at] - 1) {
        let began = Instant::now();
        while !catches(worker_of(child.id()), bit) && began.elapsed() < LONG {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
    assert!(sent.expect("kill is installed").success());
}

/// Whether a process catches the signal of this bit of its masks, or is gone.
fn catches(process: u32, bit: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_none_or(|mask| mask >> bit & 1 == 1)
}

/// Waits until the condition holds.
pub fn until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The number in a message, before these words.
pub fn number_before(message: &str, words: &str) -> Option<u64> {
    let before = &message[..message.find(words)?];
    before.trim_end().rsplit(' ').next()?.parse().ok()
}

const PACKETS: u64 = 2738;

/// The shipped capture, this many times.
fn captures(times: usize) -> Vec<String> {
    vec![example().to_str().expect("text").to_string(); times]
}

#[test]
fn a_blocked_output_affects_only_itself() {
    /// More rows than wait for an output.
    const COPIES: usize = 40;
    let (pipe, whole) = (fifo("blocked.fifo"), scratch("blocked.json"));
    // The reader never reads.
    let reader = reader_of(&pipe);
    let file = questions(
        "blocked.toml",
        &[
            ("blocked", format!("ask = \"packets\"\noutput = {pipe:?}")),
            ("whole", format!("ask = \"packets\"\noutput = {whole:?}")),
        ],
    );
    let files = captures(COPIES);
    let mut args = vec!["run", file.to_str().unwrap(), "--stats", "--output-wait", "500ms", "-r"];
    args.extend(files.iter().map(String::as_str));
    let (output, _) = ended(start(&args, Stdio::null()));
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert_eq!(std::fs::read_to_string(&whole).unwrap().lines().count() as u64, COPIES as u64 * PACKETS);
    let lost = number_before(&message, "rows are lost").unwrap_or_else(|| panic!("{message}"));
    let unwritten =
        number_before(&message, "more rows are not written").unwrap_or_else(|| panic!("{message}"));
    assert!(message.contains("question `blocked`") && !message.contains("`whole`"), "{message}");
    assert!(message.contains(&format!("rows_lost            {}\n", lost + unwritten)), "{message}");
    // The pipe holds the rest.
    let written =
        BufReader::new(reader).lines().map_while(Result::ok).filter(|line| line.ends_with('}')).count()
            as u64;
    assert!(written > 0 && lost > 0 && lost + unwritten < COPIES as u64 * PACKETS, "{message}");
    assert!(lost + unwritten + written >= COPIES as u64 * PACKETS, "{written} rows, and {message}");
}

#[test]
fn a_slow_output_loses_nothing() {
    let (pipe, whole) = (fifo("slow.fifo"), scratch("slow.json"));
    let mut reader = reader_of(&pipe);
    let file = questions(
        "slow.toml",
        &[
            ("slow", format!("ask = \"packets\"\noutput = {pipe:?}")),
            ("whole", format!("ask = \"packets\"\noutput = {whole:?}")),
        ],
    );
    let files = captures(8);
    let mut args = vec!["run", file.to_str().unwrap(), "--output-wait", "500ms", "-r"];
    args.extend(files.iter().map(String::as_str));
    let child = start(&args, Stdio::null());
    let reading: JoinHandle<Vec<u8>> = std::thread::spawn(move || {
        let (mut all, mut piece) = (vec![], [0; 4096]);
        loop {
            // A batch takes longer than the time after which an output is regarded as blocked.
            if all.len() < 30 * 4096 {
                std::thread::sleep(Duration::from_millis(60));
            }
            match reader.read(&mut piece).expect("it is readable") {
                // The writer may not have opened the pipe yet.
                0 if all.is_empty() => std::thread::sleep(Duration::from_millis(5)),
                0 => return all,
                read => all.extend_from_slice(&piece[..read]),
            }
        }
    });
    let (output, _) = ended(child);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    assert!(reading.join().unwrap() == std::fs::read(&whole).unwrap());
}

#[test]
fn losses_are_counted_exactly_and_end_with_the_blockade() {
    let (pipe, whole) = (fifo("counted.fifo"), scratch("counted.json"));
    let mut reader = reader_of(&pipe);
    let file = questions(
        "counted.toml",
        &[
            ("blocked", format!("ask = \"packets\"\noutput = {pipe:?}")),
            ("whole", format!("ask = \"packets\"\noutput = {whole:?}")),
        ],
    );
    let mut child = start(&["run", file.to_str().unwrap(), "--output-wait", "0", "-r", "-"], Stdio::piped());
    let mut input = child.stdin.take().unwrap();
    let capture = std::fs::read(example()).unwrap();
    let (header, packets) = capture.split_at(24);
    input.write_all(header).unwrap();
    for _ in 0..20 {
        input.write_all(packets).unwrap();
    }
    let rows = || std::fs::read_to_string(&whole).unwrap_or_default().lines().count() as u64;
    until("the other question has all rows", || rows() == 20 * PACKETS);
    let reading = std::thread::spawn(move || {
        let mut all = String::new();
        reader.read_to_string(&mut all).expect("text");
        all
    });
    // Further rows arrive once the pipe is read.
    std::thread::sleep(Duration::from_millis(500));
    input.write_all(packets).unwrap();
    drop(input);
    let (output, _) = ended(child);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    let lost = number_before(&message, "rows are lost").unwrap_or_else(|| panic!("{message}"));
    let read = reading.join().unwrap();
    assert_eq!(read.lines().count() as u64 + lost, 21 * PACKETS, "{message}");
    assert_eq!(rows(), 21 * PACKETS);
    let last = |text: &str| text.lines().last().map(str::to_string);
    assert_eq!(last(&read), last(&std::fs::read_to_string(&whole).unwrap()), "the last rows are there");
}

#[test]
fn the_first_sigterm_ends_a_blocked_run_within_a_second() {
    let files = captures(20);
    let args: Vec<&str> = ["packets", "-r"].into_iter().chain(files.iter().map(String::as_str)).collect();
    // Nobody reads standard output. A single question waits for its reader without limit.
    let child = start(&args, Stdio::null());
    std::thread::sleep(Duration::from_millis(1500));
    signal(&child, "TERM");
    let (output, took) = ended(child);
    assert_eq!(output.status.code(), Some(128 + 15));
    assert!(took < Duration::from_secs(1), "{took:?}");
    let message = text(&output.stderr);
    assert!(message.contains("SIGTERM"), "{message}");
    assert!(message.contains("standard output") && message.contains("rows are"), "{message}");
}

#[test]
fn the_other_outputs_are_complete_after_sigterm() {
    let (pipe, whole, table) = (fifo("term.fifo"), scratch("term.json"), scratch("term.parquet"));
    let _reader = reader_of(&pipe);
    let file = questions(
        "term.toml",
        &[
            ("blocked", format!("ask = \"packets\"\noutput = {pipe:?}")),
            ("whole", format!("ask = \"packets\"\noutput = {whole:?}")),
            ("table", format!("ask = \"packets\"\nformat = \"parquet\"\noutput = {table:?}")),
        ],
    );
    let args = ["run", file.to_str().unwrap(), "--output-wait", "1h", "-r", "-"];
    let mut child = start(&args, Stdio::piped());
    let mut input = child.stdin.take().unwrap();
    let capture = std::fs::read(example()).unwrap();
    let feeding = std::thread::spawn(move || {
        let (header, packets) = capture.split_at(24);
        let _ = input.write_all(header);
        // Until the run ends.
        while input.write_all(packets).is_ok() {}
    });
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |about| about.len());
    until("there are rows", || size(&whole) > 1 << 20);
    // By now the run waits for the blocked output.
    std::thread::sleep(Duration::from_millis(2000));
    signal(&child, "TERM");
    let (output, took) = ended(child);
    feeding.join().unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(128 + 15), "{message}");
    assert!(took < Duration::from_secs(1), "{took:?}: {message}");
    assert!(message.contains("question `blocked`"), "{message}");
    let rows = std::fs::read_to_string(&whole).unwrap();
    assert!(rows.ends_with("}\n") && rows.lines().count() > 1000);
    let reader = parquet::file::reader::SerializedFileReader::new(File::open(&table).unwrap()).unwrap();
    let of_table = parquet::file::reader::FileReader::metadata(&reader).file_metadata().num_rows() as usize;
    assert_eq!(of_table, rows.lines().count());
}

#[test]
fn sigterm_does_not_wait_for_standard_error() {
    let (read, write) = std::io::pipe().expect("a pipe");
    // A full pipe, which nobody reads.
    let mut filler = write.try_clone().unwrap();
    rustix::io::ioctl_fionbio(&filler, true).expect("it is a pipe");
    while filler.write(&[b'x'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&filler, false).expect("it is a pipe");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let command =
        command.args(["packets", "-r", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(write);
    let mut child = command.spawn().expect("the binary was built for this test");
    let input = child.stdin.take();
    std::thread::sleep(Duration::from_millis(500));
    signal(&child, "TERM");
    let (output, took) = ended(child);
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(matches!(output.status.code(), Some(0 | 143)), "{:?}", output.status);
    drop((input, read));
}

#[test]
fn a_pipe_without_reader_blocks_nothing_and_is_reported_at_the_control_socket() {
    let (pipe, socket, rows) = (fifo("lonely.fifo"), scratch("lonely.sock"), scratch("lonely.json"));
    let mut child = start(&["run", "-r", "-", "--control", socket.to_str().unwrap()], Stdio::piped());
    let mut input = child.stdin.take().unwrap();
    until("it listens", || socket.exists());
    let ctl = |args: &[&str]| {
        let began = Instant::now();
        let output = weir(&[&["ctl", socket.to_str().unwrap()], args].concat());
        assert!(began.elapsed() < Duration::from_secs(20), "{args:?}");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (status, _, message) = ctl(&["add", "lonely", "packets", "-o", pipe.to_str().unwrap()]);
    assert!(status == Some(0) && message.contains("not open yet"), "{message}");
    let (status, _, message) = ctl(&["add", "rows", "packets", "-o", rows.to_str().unwrap()]);
    assert!(status == Some(0) && !message.contains("not open yet"), "{message}");
    input.write_all(&std::fs::read(example()).unwrap()).unwrap();
    let count = || std::fs::read_to_string(&rows).unwrap_or_default().lines().count() as u64;
    until("the other question has all rows", || count() == PACKETS);
    assert!(ctl(&["list"]).1.contains("lonely"));
    let (status, _, message) = ctl(&["remove", "lonely"]);
    assert!(status == Some(2) && message.contains("rows are not written"), "{message}");
    drop(input);
    let (output, _) = ended(child);
    assert!(text(&output.stderr).contains("more rows are not written"), "{output:?}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn an_output_that_cannot_be_opened_is_reported_at_the_control_socket() {
    let socket = scratch("unopened.sock");
    let mut child = start(&["run", "-r", "-", "--control", socket.to_str().unwrap()], Stdio::piped());
    let mut input = child.stdin.take().unwrap();
    until("it listens", || socket.exists());
    let ctl = |args: &[&str]| weir(&[&["ctl", socket.to_str().unwrap()], args].concat());
    // A socket is not a file, and its status does not tell whether it can be opened.
    let refused = ctl(&["add", "bad", "flows", "-o", socket.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    let message = text(&refused.stderr);
    assert!(message.contains("unopened.sock") && message.contains("question `bad`"), "{message}");
    assert!(!text(&ctl(&["list"]).stdout).contains("bad"));
    let added = ctl(&["add", "bad", "flows", "-o", scratch("opened.json").to_str().unwrap()]);
    assert_eq!(added.status.code(), Some(0), "the name is free: {added:?}");
    input.write_all(&std::fs::read(example()).unwrap()).unwrap();
    drop(input);
    let (output, _) = ended(child);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn a_full_disk_ends_a_question_with_a_message() {
    let file = example();
    let output = weir(&["packets", "-r", file.to_str().unwrap(), "-o", "/dev/full"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("/dev/full: No space left on device"), "{output:?}");
}
