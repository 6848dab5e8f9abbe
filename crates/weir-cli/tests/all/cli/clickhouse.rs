//! Rows in ClickHouse: its engine, behind `clickhouse_server.py`. The tests are skipped, with a message,
//! where Python has no chdb.

use crate::cli::outputs::{ended, start, until};
use crate::cli::{answer, example, scratch, text, weir};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server, which ends with the test.
struct Server {
    folder: PathBuf,
    port: u16,
    password: &'static str,
    process: Option<Child>,
}

impl Server {
    /// A server of this test. `None`, with a message: the engine is not here.
    fn start(test: &str, password: &'static str) -> Option<Self> {
        let found = Command::new("python3").args(["-c", "import chdb"]).stderr(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            eprintln!("skipped: {test} needs the engine of ClickHouse: python3 -m pip install chdb-core");
            return None;
        }
        let folder = scratch(test);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a scratch folder");
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("loopback").port();
        let mut server = Self { folder, port, password, process: None };
        server.run();
        Some(server)
    }

    /// Starts the process, which may have been killed before.
    fn run(&mut self) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/cli/clickhouse_server.py");
        let mut process = Command::new("python3")
            .arg(script)
            .arg(&self.folder)
            .arg(self.port.to_string())
            .env("WANTED_PASSWORD", self.password)
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 runs");
        let mut said = String::new();
        BufReader::new(process.stdout.as_mut().expect("it is piped")).read_line(&mut said).expect("a line");
        assert_eq!(said, "ready\n");
        until("the server listens", || TcpStream::connect(("127.0.0.1", self.port)).is_ok());
        self.process = Some(process);
    }

    /// Kills the process, which has no time to answer (SIGKILL).
    fn kill(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.kill().expect("it is a child");
        process.wait().expect("it is a child");
    }

    fn output(&self, table: &str) -> String {
        format!("clickhouse://127.0.0.1:{}/{table}", self.port)
    }

    /// Rows of an answer.
    fn ask(&self, statement: &str) -> Vec<serde_json::Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the server listens");
        let (length, password) = (statement.len(), self.password);
        let request = format!(
            "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-ClickHouse-Key: {password}\r\nContent-Length: {length}\r\n\r\n{statement}"
        );
        stream.write_all(request.as_bytes()).expect("the server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a header");
        assert!(head.contains(" 200 "), "{answer}");
        body.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// The number of rows of a table, and of their different identifiers.
    fn count(&self, table: &str) -> (u64, u64) {
        let counted =
            self.ask(&format!("SELECT toUInt32(count()) AS n, toUInt32(uniqExact(uid)) AS u FROM {table}"));
        let number = |name: &str| counted[0][name].as_u64().expect("a number");
        (number("n"), number("u"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.process.is_some() {
            self.kill();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn capture(name: &str) -> String {
    example().with_file_name(name).display().to_string()
}

fn rows_of(command: &str, capture: &str) -> Vec<serde_json::Value> {
    answer(&[command, capture, "--format", "json"], 0)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// Every value, of every log of some captures: numbers, times, lists, texts, and what is absent.
#[test]
fn a_table_has_the_values_of_the_rows() {
    let Some(server) = Server::start("clickhouse-values", "") else { return };
    for (command, name) in [
        ("flows", "services.pcap"),
        ("flows", "tunnels.pcap"),
        ("dns", "first-light.pcap"),
        ("http", "sessions.pcap"),
        ("tls", "first-light.pcap"),
    ] {
        let (capture, table) = (capture(name), format!("weir.{command}"));
        let output = weir(&[command, &capture, "-o", &server.output(&table), "--create", "--sensor", name]);
        assert_eq!((text(&output.stderr).as_str(), output.status.code()), ("", Some(0)));
        // JSON has bytes in hexadecimal digits.
        let bytes =
            if command == "tls" { " REPLACE (lower(hex(client_random)) AS client_random)" } else { "" };
        let stored =
            server.ask(&format!("SELECT *{bytes} FROM {table} WHERE sensor = '{name}' ORDER BY ts, uid"));
        let mut rows = rows_of(command, &capture);
        let time = |row: &serde_json::Value| row["ts"].as_f64().expect("a time");
        rows.sort_by(|a, b| {
            time(a).total_cmp(&time(b)).then_with(|| a["uid"].as_str().cmp(&b["uid"].as_str()))
        });
        assert!(
            !rows.is_empty() && stored.len() == rows.len(),
            "{command}: {} of {}",
            stored.len(),
            rows.len()
        );
        let mut compared = 0;
        // Rows of the same connection and time may change their order.
        for column in rows[0].as_object().expect("a row").keys().filter(|column| *column != "ts") {
            let values = |rows: &[serde_json::Value]| {
                let mut values: Vec<String> =
                    rows.iter().map(|row| format!("{} {}", row["uid"], canonical(&row[column]))).collect();
                values.sort();
                values
            };
            assert_eq!(values(&stored), values(&rows), "{command}: {column}");
            compared += 1;
        }
        assert!(compared > 10, "{command}: {compared} columns");
    }
    let times = server
        .ask("SELECT toUnixTimestamp64Micro(min(ts)) AS t FROM weir.flows WHERE sensor = 'services.pcap'");
    let micros = times[0]["t"].as_str().map_or_else(|| times[0]["t"].to_string(), str::to_string);
    let first = rows_of("flows", &capture("services.pcap"))
        .iter()
        .map(|row| row["ts"].as_f64().expect("a time"))
        .fold(f64::MAX, f64::min);
    assert_eq!(micros, format!("{:.0}", first * 1e6));
}

/// A value as both sides write it: numbers by value, absent texts and lists as null.
fn canonical(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) if text.is_empty() => "null".to_string(),
        serde_json::Value::Array(list) if list.is_empty() => "null".to_string(),
        serde_json::Value::Number(number) => {
            number.as_f64().map(|number| format!("{number:.6}")).unwrap_or_default()
        }
        other => other.to_string(),
    }
}

#[test]
fn a_batch_whose_answer_is_missing_is_sent_again_and_stored_once() {
    let Some(mut server) = Server::start("clickhouse-killed", "") else { return };
    let spool = server.folder.join("spool");
    let output = server.output("weir.conn");
    let args = ["flows", "-r", "-", "-o", &output, "--create", "--spool", spool.to_str().expect("text")];
    let mut child = start(&args, Stdio::piped());
    let mut input = child.stdin.take().expect("it is piped");
    let bytes = fs::read(example()).expect("the example");
    let (first, second) = bytes.split_at(bytes.len() * 3 / 4);
    input.write_all(first).expect("weir reads");
    input.flush().expect("weir reads");
    let total = rows_of("flows", example().to_str().expect("text")).len() as u64;
    until("the table has rows", || {
        let tables = server.ask("SELECT name FROM system.tables WHERE database = 'weir'");
        !tables.is_empty() && server.count("weir.conn").0 > 0
    });
    // From now on, the answer to an insertion does not come.
    fs::write(server.folder.join("delay"), "60").expect("a scratch file");
    input.write_all(second).expect("weir reads");
    drop(input);
    let body = server.folder.join("body.arrows");
    let before = fs::metadata(&body).and_then(|file| file.modified()).expect("a batch");
    until("a batch is inserted", || {
        fs::metadata(&body).and_then(|file| file.modified()).is_ok_and(|now| now > before)
    });
    std::thread::sleep(Duration::from_secs(1));
    server.kill();
    fs::remove_file(server.folder.join("delay")).expect("a scratch file");
    // The run ends, and its rows wait; the last batch is stored.
    let (output, _) = ended(child);
    assert!(text(&output.stderr).contains("stay in the spool"), "{}", text(&output.stderr));
    server.run();
    let stored = server.count("weir.conn").0;
    assert_eq!(stored, total, "the insertion itself was done");
    let empty = &bytes[..24];
    let mut child = start(&args, Stdio::piped());
    child.stdin.take().expect("it is piped").write_all(empty).expect("weir reads");
    let (output, _) = ended(child);
    assert_eq!((text(&output.stderr).as_str(), output.status.code()), ("", Some(0)));
    assert_eq!(server.count("weir.conn"), (total, total), "the repeated batch is not stored twice");
    assert_eq!(waiting(&spool), 0);
}

/// Segments of a spool.
fn waiting(spool: &std::path::Path) -> usize {
    let files = fs::read_dir(spool).expect("the spool").flatten();
    files.filter(|file| file.path().extension().is_some_and(|end| end == "segment")).count()
}

#[test]
fn a_server_that_is_killed_has_each_row_once_in_the_end() {
    let Some(mut server) = Server::start("clickhouse-again", "") else { return };
    let output = server.output("weir.conn");
    let log = server.folder.join("said");
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["flows", "-r", "-", "-o", &output, "--create"])
        .stdin(Stdio::piped())
        .stderr(fs::File::create(&log).expect("a scratch file"))
        .spawn()
        .expect("the binary was built for this test");
    let said = || fs::read_to_string(&log).expect("a scratch file");
    let mut input = child.stdin.take().expect("it is piped");
    let bytes = fs::read(example()).expect("the example");
    let (first, second) = bytes.split_at(bytes.len() * 3 / 4);
    input.write_all(first).expect("weir reads");
    input.flush().expect("weir reads");
    let has_rows = |server: &Server| {
        let tables = server.ask("SELECT name FROM system.tables WHERE database = 'weir'");
        !tables.is_empty() && server.count("weir.conn").0 > 0
    };
    until("the table has rows", || has_rows(&server));
    server.kill();
    input.write_all(second).expect("weir reads");
    until("a batch cannot be sent", || said().contains("no connection"));
    server.run();
    drop(input);
    let (output, _) = ended(child);
    assert!(said().contains("connected again"), "{}", said());
    assert_eq!(output.status.code(), Some(0), "{}", said());
    let total = rows_of("flows", example().to_str().expect("text")).len() as u64;
    assert_eq!(server.count("weir.conn"), (total, total));
}

#[test]
fn refusals_of_a_server_say_what_to_do() {
    let Some(server) = Server::start("clickhouse-refusals", "secret") else { return };
    let file = capture("services.pcap");
    let run = |command: &str, table: &str, password: &str, more: &[&str]| {
        let output = server.output(table);
        let args = [&[command, &file, "-o", &output, "--output-wait", "1"], more].concat();
        let output =
            Command::new(env!("CARGO_BIN_EXE_weir")).args(args).env("CLICKHOUSE_PASSWORD", password).output();
        let output = output.expect("weir runs");
        (text(&output.stderr), output.status.code())
    };
    let (said, status) = run("flows", "weir.conn", "wrong", &[]);
    assert!(said.contains("set CLICKHOUSE_USER and CLICKHOUSE_PASSWORD") && status == Some(2), "{said}");
    assert!(!said.contains("wrong"), "no password in messages: {said}");
    let (said, status) = run("flows", "weir.conn", "secret", &[]);
    assert!(said.contains("create the table `weir`.`conn`, or give --create") && status == Some(2), "{said}");
    let (said, status) = run("flows", "none.conn", "secret", &["--create"]);
    assert!(said.contains("create the database") && status == Some(2), "{said}");
    assert_eq!(run("flows", "weir.conn", "secret", &["--create"]), (String::new(), Some(0)));
    let (said, status) = run("http", "weir.conn", "secret", &[]);
    assert!(said.contains("lacks a column") && said.contains("rows are lost") && status == Some(2), "{said}");
}

#[test]
fn a_server_that_is_absent_holds_nothing_up() {
    let output = format!("clickhouse://127.0.0.1:{}/conn", 1);
    let child = start(&["flows", example().to_str().expect("text"), "-o", &output], Stdio::null());
    let (output, _) = ended(child);
    let said = text(&output.stderr);
    assert!(said.contains("no connection") && said.contains("rows are lost"), "{said}");
    assert_eq!(output.status.code(), Some(2));
}
