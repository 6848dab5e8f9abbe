//! Files of a process that was killed.

use crate::cli::outputs::until;
use crate::cli::{example, scratch, worker_of};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How often the process is killed.
const KILLS: u64 = 100;

/// Size of the JSON with as many packets as a row group of Parquet has.
const GROUP_BYTES: u64 = 15_000_000;

/// Formats of the files, and the kind of each question.
const FILES: [(&str, &str); 8] = [
    ("json", "json"),
    ("csv", "csv"),
    ("zeek", "zeek"),
    ("table", "table"),
    ("arrow", "arrow"),
    ("parquet", "parquet"),
    ("pcap", ""),
    ("pcapng", ""),
];

/// The packets of a file: their numbers where the format has them, otherwise as many zeros. A row that the
/// kill cut is none. `None`: the file does not exist.
fn packets(format: &str, path: &Path) -> Option<Vec<u64>> {
    let bytes = std::fs::read(path).ok();
    let lines = |skipped: usize, number: &dyn Fn(&str) -> Option<u64>| {
        let text = String::from_utf8(bytes.clone()?).expect("text");
        let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        let rows = whole.lines().filter(|line| !line.starts_with('#')).skip(skipped);
        Some(rows.map(|row| number(row).unwrap_or_else(|| panic!("{format}: {row}"))).collect::<Vec<u64>>())
    };
    match format {
        "json" => lines(0, &|row| row.strip_prefix("{\"number\":")?.split(',').next()?.parse().ok()),
        "csv" => lines(1, &|row| row.split(',').next()?.parse().ok()),
        "zeek" => lines(0, &|row| row.split('\t').next()?.parse().ok()),
        "table" => lines(1, &|row| row.split_whitespace().next()?.parse().ok()),
        "parquet" => path.exists().then(|| parquet_numbers(path)),
        "arrow" => bytes.map(arrow_numbers),
        "pcap" => bytes.map(|bytes| pcap_packets(&bytes)),
        _ => bytes.map(|bytes| pcapng_packets(&bytes)),
    }
}

fn numbers(batch: &arrow_array::RecordBatch) -> Vec<u64> {
    let numbers = arrow_array::cast::AsArray::as_primitive::<arrow_array::types::UInt64Type>(batch.column(0));
    numbers.values().to_vec()
}

/// A file that exists must be readable.
fn parquet_numbers(path: &Path) -> Vec<u64> {
    let file = File::open(path).expect("it exists");
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(file).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let batches = reader.build().expect("a reader");
    batches.flat_map(|batch| numbers(&batch.expect("a readable batch"))).collect()
}

/// Up to the first batch that is cut.
fn arrow_numbers(bytes: Vec<u8>) -> Vec<u64> {
    let Ok(reader) = arrow_ipc::reader::StreamReader::try_new(&bytes[..], None) else { return vec![] };
    reader.map_while(Result::ok).flat_map(|batch| numbers(&batch)).collect()
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize)
}

fn pcap_packets(bytes: &[u8]) -> Vec<u64> {
    let (mut packets, mut at) = (vec![], 24);
    while let Some(captured) = word(bytes, at + 8).filter(|captured| at + 16 + captured <= bytes.len()) {
        packets.push(0);
        at += 16 + captured;
    }
    packets
}

fn pcapng_packets(bytes: &[u8]) -> Vec<u64> {
    let (mut packets, mut at) = (vec![], 0);
    while let (Some(kind), Some(total)) = (word(bytes, at), word(bytes, at + 4)) {
        if at + total > bytes.len() {
            break;
        }
        assert_eq!(word(bytes, at + total - 4), Some(total), "the end of a block repeats its length");
        packets.extend((kind == 6).then_some(0));
        at += total;
    }
    packets
}

fn directory() -> PathBuf {
    let path = scratch("killed");
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a directory for tests");
    path
}

/// A process writes all formats at once and is killed at a random time: every file has the first packets,
/// without gaps, and a Parquet file that exists is readable.
#[test]
fn files_of_a_killed_process_are_readable() {
    let directory = directory();
    let questions = directory.join("questions.toml");
    let path = |name: &str| directory.join(format!("packets.{name}"));
    let tables = FILES.map(|(name, format)| {
        let format = if format.is_empty() { String::new() } else { format!("format = \"{format}\"\n") };
        let output = path(name);
        format!("[[question]]\nname = \"{name}\"\nask = \"packets\"\n{format}output = {output:?}\n")
    });
    std::fs::write(&questions, tables.concat()).expect("a file of questions");
    let capture = std::fs::read(example()).unwrap();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut most = [0; FILES.len()];
    for kill in 0..KILLS {
        for (name, _) in FILES {
            let _ = std::fs::remove_file(path(name));
        }
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let command =
            command.args(["run", questions.to_str().unwrap(), "--engine", "interpreter", "-r", "-"]);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("the binary was built for this test");
        let mut input = child.stdin.take().unwrap();
        let capture = capture.clone();
        let feeding = std::thread::spawn(move || {
            let (header, packets) = capture.split_at(24);
            let _ = input.write_all(header);
            while input.write_all(packets).is_ok() {}
        });
        // Some kills are late, after a row group of Parquet.
        let least = if kill % 10 == 9 { GROUP_BYTES } else { 0 };
        let is_early = || std::fs::metadata(path("json")).map_or(true, |about| about.len() < least);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(60) && is_early() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(random % 300));
        child.kill().expect("SIGKILL");
        child.wait().expect("it is a child");
        feeding.join().unwrap();
        for ((name, _), most) in FILES.iter().zip(&mut most) {
            let Some(packets) = packets(name, &path(name)) else { continue };
            if !name.starts_with("pcap") {
                let first = packets.first().copied().unwrap_or(1);
                let expected = first..first + packets.len() as u64;
                assert!(first <= 1 && packets.iter().copied().eq(expected), "{name}, kill {kill}");
            }
            *most = packets.len().max(*most);
        }
    }
    for ((name, _), most) in FILES.iter().zip(most) {
        assert!(most > 1000, "{name} has {most} packets at most: the process is killed too early");
    }
}

/// A killed run leaves its logs as `.part`; the next one completes them, with the rows that they have.
#[test]
fn the_next_run_completes_the_logs_of_a_killed_one() {
    let place = tempfile::tempdir().expect("a directory for tests");
    let logs = place.path().to_str().expect("text");
    for format in ["zeek", "parquet"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["zeek", "-r", "-", "-d", logs, "--format", format]);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("the binary was built for this test");
        let mut input = child.stdin.take().unwrap();
        input.write_all(&std::fs::read(example()).unwrap()).expect("it reads");
        let ending = if format == "zeek" { "log" } else { "parquet" };
        let part = || place.path().join(format!("dns.{ending}.{}.part", worker_of(child.id())));
        let began = Instant::now();
        let has_rows = || std::fs::metadata(part()).is_ok_and(|about| format != "zeek" || about.len() > 5000);
        while began.elapsed() < Duration::from_secs(60) && !has_rows() {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(has_rows(), "{format}: rows of DNS come before the end");
        let (part, worker) = (part(), worker_of(child.id()));
        // A run in the same directory leaves the files of one that goes on alone.
        let next = || {
            let file = example();
            let run = ["zeek", "-r", file.to_str().unwrap(), "-d", logs, "--format", format];
            let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(run).output().expect("it runs");
            assert!(output.status.success());
            String::from_utf8(output.stderr).expect("text")
        };
        assert!(!next().contains("was killed") && part.exists(), "{format}");
        child.kill().expect("SIGKILL");
        child.wait().expect("it is a child");
        until("the worker ends with its keeper", || !Path::new(&format!("/proc/{worker}")).exists());
        drop(input);
        let said = next();
        assert!(!part.exists(), "{format}: {said}");
        let completed = said.lines().find_map(|line| {
            let path = line.split_once("had not completed ")?.1.split_once(": the file")?.0;
            path.contains("/dns.2").then(|| PathBuf::from(path))
        });
        // No row group of Parquet was complete: such a file has no rows, and is removed.
        let Some(completed) = completed else {
            assert_eq!(format, "parquet", "{said}");
            continue;
        };
        assert!(completed.extension().is_some_and(|is| is == ending), "{}", completed.display());
        let text = std::fs::read_to_string(&completed).expect("a log");
        let rows = text.lines().filter(|line| !line.starts_with('#')).count();
        assert!(text.ends_with('\n') && rows > 10, "{rows} rows");
        let whole = std::fs::read_to_string(place.path().join("dns.log")).expect("the log of the next run");
        assert!(whole.starts_with(text.lines().next().expect("a header")));
    }
}
