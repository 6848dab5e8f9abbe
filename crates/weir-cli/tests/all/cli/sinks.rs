//! One harness for everything that receives rows: each format of rows, and each exporter with a connection,
//! goes through the same cases. A receiver is slow, closes, is full, is started again, or gets half of a
//! batch because the run is ended. A format or an exporter that is added comes through all of them.

use crate::cli::export::{flow_ids, read_until_silent};
use crate::cli::outputs::{LONG, ended, signal, start};
use crate::cli::{example, text, weir};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use weir::io::Format;

/// The shipped capture so often that its rows exceed what queues and pipes hold.
const COPIES: usize = 12;

/// A question with one row a packet in every format. EVE has connections and sessions.
fn question(format: Format) -> Vec<String> {
    let ask = if format == Format::Eve { "flows" } else { "packets" };
    let copies = if format == Format::Eve { 4 * COPIES } else { COPIES };
    // Without notes about copies of connections.
    let mut args = vec![
        ask.to_string(),
        "-q".to_string(),
        "--format".to_string(),
        format.label().to_string(),
        "-r".to_string(),
    ];
    args.extend((0..copies).map(|_| example().display().to_string()));
    args
}

fn run(format: Format, stdout: Stdio) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let command = command.args(question(format)).stdin(Stdio::null()).stdout(stdout);
    command.stderr(Stdio::piped()).spawn().expect("the binary was built for this test")
}

fn whole(format: Format) -> Vec<u8> {
    let args = question(format);
    weir(&args.iter().map(String::as_str).collect::<Vec<_>>()).stdout
}

fn lines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

/// Reads in small pieces, the first of them slowly.
fn read_slowly(mut from: impl Read) -> Vec<u8> {
    let (mut all, mut piece) = (vec![], [0; 4096]);
    loop {
        if all.len() < 40 * piece.len() {
            std::thread::sleep(Duration::from_millis(5));
        }
        match from.read(&mut piece).expect("it is readable") {
            0 => return all,
            read => all.extend_from_slice(&piece[..read]),
        }
    }
}

#[test]
fn a_slow_reader_gets_every_format_whole() {
    for &format in Format::ALL {
        let mut child = run(format, Stdio::piped());
        let read = read_slowly(child.stdout.take().expect("a pipe"));
        let (output, _) = ended(child);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{format}");
        let whole = whole(format);
        assert!(read == whole, "{format}: {} bytes of {}", read.len(), whole.len());
        assert!(read.len() > 10_000, "{format}: {} bytes are too few for the test", read.len());
    }
}

#[test]
fn a_reader_that_closes_ends_every_format_in_silence() {
    for &format in Format::ALL {
        let mut child = run(format, Stdio::piped());
        let mut some = [0; 4];
        child.stdout.take().expect("a pipe").read_exact(&mut some).expect("a first row");
        let (output, _) = ended(child);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{format}");
    }
}

#[test]
fn a_full_device_ends_every_format_with_a_message() {
    for &format in Format::ALL {
        let full = File::options().write(true).open("/dev/full").expect("the device");
        let (output, _) = ended(run(format, full.into()));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{format}: {said}");
        assert!(said.contains("No space left on device"), "{format}: {said}");
        assert_eq!(said.lines().count(), 1, "{format}: {said}");
    }
}

#[test]
fn a_run_that_is_ended_leaves_whole_rows_of_every_format() {
    for &format in Format::ALL.iter().filter(|format| !format.is_columnar()) {
        let mut child = run(format, Stdio::piped());
        let mut out = child.stdout.take().expect("a pipe");
        let mut read = vec![0; 4096];
        out.read_exact(&mut read).expect("some rows");
        signal(&child, "TERM");
        // Nobody reads until the run waits for the reader.
        std::thread::sleep(Duration::from_millis(300));
        out.read_to_end(&mut read).expect("the rest");
        let (output, _) = ended(child);
        let status = output.status.code();
        assert!(matches!(status, Some(0 | 2 | 143)), "{format}: {}", text(&output.stderr));
        // On a machine that is too busy, the process ends a second after the signal, whatever it does.
        assert!(status == Some(143) || read.last() == Some(&b'\n'), "{format}: the last row is not whole");
        assert!(lines(&read) <= lines(&whole(format)), "{format}");
    }
}

/// An exporter with a connection.
struct Exporter {
    scheme: &'static str,
    /// The rows in what a connection has carried, some of which may be half.
    rows: fn(&[u8]) -> usize,
}

/// All exporters whose receiver is a stream of bytes. Kafka and ClickHouse have receivers of their own
/// (`kafka`, `clickhouse.rs`).
const EXPORTERS: &[Exporter] = &[
    Exporter { scheme: "ipfix+tcp", rows: |bytes| flow_ids(bytes).len() },
    Exporter { scheme: "syslog+tcp", rows: |bytes| count(bytes, b"\"conn_state\":") },
];

fn count(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).filter(|window| window == &what).count()
}

fn flows(target: &str, more: &[&str]) -> Vec<String> {
    let mut args = vec!["flows".to_string(), "-q".to_string(), "-o".to_string(), target.to_string()];
    args.extend(more.iter().map(ToString::to_string));
    args.push("-r".to_string());
    args.extend((0..COPIES).map(|_| example().display().to_string()));
    args
}

fn export(exporter: &Exporter, listener: &TcpListener, more: &[&str]) -> Child {
    let target = format!("{}://{}", exporter.scheme, listener.local_addr().expect("an address"));
    let args = flows(&target, more);
    start(&args.iter().map(String::as_str).collect::<Vec<_>>(), Stdio::null())
}

/// The next connection, for which a test does not wait for ever.
fn accepted(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("a socket");
    let began = std::time::Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).expect("a socket");
                return stream;
            }
            Err(error) => assert!(began.elapsed() < LONG, "no connection: {error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The number of flows in this number of copies of the capture.
fn expected(copies: usize) -> usize {
    let file = example().display().to_string();
    let args = [&["flows", "-q", "--format", "json", "-r"][..], &vec![file.as_str(); copies]].concat();
    lines(&weir(&args).stdout)
}

fn said(output: &Output) -> String {
    text(&output.stderr)
}

#[test]
fn a_slow_receiver_gets_the_rows_of_every_exporter() {
    let expected = expected(COPIES);
    for exporter in EXPORTERS {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let child = export(exporter, &listener, &[]);
        let received = read_slowly(accepted(&listener));
        let (output, _) = ended(child);
        assert_eq!(output.status.code(), Some(0), "{}: {}", exporter.scheme, said(&output));
        assert_eq!((exporter.rows)(&received), expected, "{}", exporter.scheme);
    }
}

#[test]
fn a_receiver_that_is_not_there_loses_counted_rows_of_every_exporter() {
    let expected = expected(COPIES);
    for exporter in EXPORTERS {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let args = flows(&format!("{}://{address}", exporter.scheme), &["--output-wait", "1", "--stats"]);
        let (output, took) =
            ended(start(&args.iter().map(String::as_str).collect::<Vec<_>>(), Stdio::null()));
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{}: {said}", exporter.scheme);
        let lost = said.lines().find_map(|line| line.strip_prefix("rows_lost")?.trim().parse().ok());
        assert_eq!(lost, Some(expected), "{}: {said}", exporter.scheme);
        assert!(took < LONG / 2, "{}: {took:?}", exporter.scheme);
    }
}

#[test]
fn a_receiver_that_is_started_again_gets_the_rest_of_every_exporter() {
    let capture = std::fs::read(example()).expect("the example");
    let (first, second) = capture.split_at(capture.len() * 3 / 4);
    for exporter in EXPORTERS {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let target = format!("{}://{}", exporter.scheme, listener.local_addr().expect("an address"));
        let mut child = start(&["flows", "-r", "-", "-o", &target], Stdio::piped());
        let mut input = child.stdin.take().expect("it is piped");
        input.write_all(first).expect("it is read");
        let mut stream = accepted(&listener);
        let early = read_until_silent(&mut stream);
        drop(stream);
        let reader = std::thread::spawn(move || {
            let mut late = vec![];
            accepted(&listener).read_to_end(&mut late).expect("bytes");
            late
        });
        input.write_all(second).expect("it is read");
        drop(input);
        let (output, _) = ended(child);
        let late = reader.join().expect("it has read");
        assert_eq!(output.status.code(), Some(0), "{}: {}", exporter.scheme, said(&output));
        let received = (exporter.rows)(&early) + (exporter.rows)(&late);
        assert_eq!(received, expected(1), "{}", exporter.scheme);
    }
}

#[test]
fn a_run_that_is_ended_leaves_whole_messages_of_every_exporter() {
    for exporter in EXPORTERS {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let target = format!("{}://{}", exporter.scheme, listener.local_addr().expect("an address"));
        let mut child = start(&["flows", "-r", "-", "-o", &target], Stdio::piped());
        let mut input = child.stdin.take().expect("it is piped");
        input.write_all(&std::fs::read(example()).expect("the example")).expect("it is read");
        let mut stream = accepted(&listener);
        let mut received = read_until_silent(&mut stream);
        signal(&child, "TERM");
        stream.read_to_end(&mut received).expect("the rest");
        let (output, _) = ended(child);
        assert_eq!(output.status.code(), Some(0), "{}: {}", exporter.scheme, said(&output));
        assert_eq!((exporter.rows)(&received), expected(1), "{}", exporter.scheme);
    }
}
