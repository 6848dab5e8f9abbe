//! Everyday tasks on a terminal: each command line with its output at 80, 120 and 200 columns, without and
//! with colours. `WEIR_BLESS=1` writes the outputs.

use crate::cli::{answer, scratch};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tasks: the name of the file with the output, and the command line.
const TASKS: &[(&str, &str)] = &[
    ("overview", "examples/sessions.pcap"),
    ("overview-tunnels", "examples/tunnels.pcap"),
    ("flows", "flows examples/sessions.pcap --limit 6"),
    ("flows-largest", "flows examples/sessions.pcap --sort -resp_bytes --limit 4"),
    ("flows-wide", "flows examples/sessions.pcap --wide --limit 2"),
    ("flows-columns", "flows examples/sessions.pcap --columns orig,resp,service,duration --limit 3"),
    ("flows-local", "flows examples/sessions.pcap --local --limit 2"),
    ("flows-names", "flows examples/sessions.pcap 'tcp.port == 80' --names dns --limit 3"),
    (
        "flows-decode-as",
        "flows examples/sessions.pcap 'tcp.port == 25' --decode-as 'tcp.port == 25: ftp' --limit 1",
    ),
    ("tls", "tls examples/sessions.pcap"),
    ("http", "http examples/sessions.pcap --limit 6"),
    ("dns", "dns examples/sessions.pcap --limit 6"),
    ("dns-names", "dns examples/sessions.pcap 'dns.rcode_name == \"NXDOMAIN\"' --fields query,rcode_name"),
    ("files", "files examples/sessions.pcap --limit 4"),
    ("smtp", "smtp examples/sessions.pcap --limit 3"),
    ("x509", "x509 examples/sessions.pcap"),
    ("certs", "certs examples/sessions.pcap --format markdown"),
    ("sessions", "sessions examples/sessions.pcap --limit 4"),
    ("packets", "packets examples/sessions.pcap 'tcp.flags.syn == 1' --limit 4"),
    ("packets-detail", "packets examples/sessions.pcap -V 'dns.query == \"www.example.com\"' --limit 2"),
    (
        "packets-detail-options",
        "packets examples/first-light.pcap -V -x 'ipv6 and tcp.flags.syn == 1' --limit 1",
    ),
    ("packets-detail-tunnel", "packets examples/tunnels.pcap -V 'vxlan and icmp' --limit 1"),
    ("packets-hex", "packets examples/sessions.pcap -x 'udp' --limit 2"),
    ("streams", "streams examples/sessions.pcap 'tcp.port == 25' --limit 4"),
    ("match", "match examples/sessions.pcap -e 'User-Agent: [^\\r]*' 'tcp.port == 80'"),
    ("events", "events examples/first-light.pcap -e tcp.retransmission --limit 3"),
    (
        "aggregate",
        "aggregate 'count(), sum(frame.len) as bytes, distinct(dst) by src top 4' examples/sessions.pcap",
    ),
    (
        "aggregate-windows",
        "aggregate 'count(), max(frame.len) by proto every 10s' examples/sessions.pcap 'ip'",
    ),
    (
        "aggregate-flows",
        "aggregate 'count(), median(duration) by service top 3' --of flows examples/sessions.pcap",
    ),
    ("stats", "stats examples/sessions.pcap"),
    ("follow", "follow examples/sessions.pcap 'tcp.port == 21'"),
    ("follow-hex", "follow examples/sessions.pcap 'tcp.port == 110' --as hex"),
    ("follow-limit", "follow examples/sessions.pcap 'tcp.port == 25' --limit 1"),
    ("fields", "fields 'server name'"),
    ("wrong-option", "flows -r examples/sessions.pcap --colums ts"),
    ("wrong-quotes", "flows examples/sessions.pcap tcp.port == 80"),
    ("wrong-column", "flows examples/sessions.pcap 'duration > 3s'"),
    ("wrong-stream", "flows examples/sessions.pcap 'tcp.stream == 3'"),
    ("wrong-stream-column", "packets examples/sessions.pcap --columns ts,tcp.stream"),
    ("wrong-sort", "flows examples/sessions.pcap --sort -pkts"),
    ("wrong-type", "dns examples/sessions.pcap 'dns.rcode == \"NXDOMAIN\"'"),
    (
        "wrong-aggregate",
        "aggregate 'avg(frame.len), sum(ip.src), count() as other by ip.sorce, src/129 every soon top none' examples/sessions.pcap",
    ),
    (
        "wrong-aggregate-rows",
        "aggregate 'sum(query), count() by answers having count() > 5s' --of dns examples/sessions.pcap",
    ),
    ("wrong-aggregate-sql", "aggregate 'count(*) group by ip.src order by count' examples/sessions.pcap"),
    ("wrong-pattern", "match examples/sessions.pcap nginx"),
    ("help-tls", "tls --help"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// The output of a command line on a terminal of this width. Escapes are shown as `␛`.
fn on_terminal(line: &str, columns: u32, color: bool) -> String {
    let weir = env!("CARGO_BIN_EXE_weir");
    let mut command = Command::new("script");
    command.args(["-qec", &format!("{weir} {line}"), "/dev/null"]).current_dir(root());
    command.env("COLUMNS", columns.to_string()).env("TZ", "<+02>-2").env("TERM", "xterm-256color");
    match color {
        true => command.env_remove("NO_COLOR"),
        false => command.env("NO_COLOR", "1"),
    };
    let output =
        command.stdin(std::process::Stdio::null()).output().expect("`script` of util-linux is installed");
    String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n").replace('\x1b', "␛")
}

#[test]
fn everyday_tasks_print_what_people_came_for() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/everyday");
    let is_blessed = std::env::var_os("WEIR_BLESS").is_some();
    let mut stale = vec![];
    // The help has what the build can do: that of all features is compared.
    let is_complete = cfg!(all(feature = "kafka", feature = "otlp", feature = "lua", feature = "pcre2"));
    for (name, line) in TASKS.iter().filter(|(name, _)| is_complete || !name.starts_with("help")) {
        let mut text = format!("$ weir {line}\n");
        let mut before = String::new();
        for (columns, color) in [(80, false), (120, false), (200, false), (120, true)] {
            let shown = on_terminal(line, columns, color);
            let what = if color { ", with colours" } else { "" };
            // Most error messages do not depend on the width.
            let same = if shown == before { "as before\n" } else { shown.as_str() };
            let _ = write!(text, "\n── {columns} columns{what}\n{same}");
            before = shown;
        }
        let path = folder.join(format!("{name}.txt"));
        if is_blessed {
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(&path, &text).expect("room");
        } else if std::fs::read_to_string(&path).unwrap_or_default() != text {
            stale.push(format!("{}:\n{text}", path.display()));
        }
    }
    assert!(stale.is_empty(), "WEIR_BLESS=1 writes these:\n{}", stale.join("\n"));
}

#[test]
fn no_line_of_a_table_is_wider_than_its_terminal() {
    for line in ["flows", "tls", "http", "dns", "streams", "packets", "files"] {
        for columns in [80, 120, 200] {
            let shown = on_terminal(&format!("{line} examples/sessions.pcap"), columns, false);
            let widest = shown.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= columns as usize, "{line}: {widest} of {columns} columns");
            let head = shown.lines().next().unwrap_or_default();
            let sorted = on_terminal("flows examples/sessions.pcap --sort -resp_pkts", columns, false);
            assert!(sorted.lines().next().unwrap_or_default().contains("resp_pkts"), "{sorted}");
            assert!(columns < 120 || !matches!(line, "tls") || head.contains("server_name"), "{head}");
        }
    }
}

#[test]
fn the_name_of_an_output_selects_its_format() {
    let folder = scratch("by-name");
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let capture = root().join("examples/sessions.pcap");
    let capture = capture.to_str().expect("a path of text");
    let begins: &[(&str, &[u8])] = &[
        ("a.parquet", b"PAR1"),
        ("a.arrow", b"\xff\xff\xff\xff"),
        ("a.csv", b"ts,uid,"),
        ("a.json", b"{\"ts\":"),
        ("a.log", b"#separator"),
        ("a.txt", b"ts (UTC)"),
        ("a", b"{\"ts\":"),
    ];
    for (name, expected) in begins {
        let path = folder.join(name);
        answer(&["flows", capture, "-o", path.to_str().expect("a path of text")], 0);
        let bytes = std::fs::read(&path).expect("it is written");
        assert!(bytes.starts_with(expected), "{name}: {:?}", &bytes[..20.min(bytes.len())]);
    }
    // A capture without a known ending is pcapng.
    let path = folder.join("capture");
    answer(&["packets", capture, "-w", path.to_str().expect("a path of text")], 0);
    assert!(std::fs::read(&path).expect("it is written").starts_with(b"\x0a\x0d\x0d\x0a"));
    answer(&["packets", capture, "-w", "/dev/null"], 0);
    let rows = answer(&["flows", capture, "-o", "-", "--format", "json"], 0);
    assert_eq!(rows, answer(&["flows", "-r", capture, "--format", "json"], 0));
    let bytes = answer(&["streams", capture, "tcp.port == 110", "--limit", "1000", "-o", "-"], 0);
    assert_eq!(bytes, answer(&["follow", capture, "tcp.port == 110", "--as", "raw"], 0));
    assert!(bytes.starts_with("+OK Dovecot"), "{bytes}");
    assert!(!Path::new("-").exists());
}

#[test]
fn a_limit_ends_the_run_and_sorted_rows_are_all_rows() {
    let capture = root().join("examples/sessions.pcap");
    let capture = capture.to_str().expect("a path of text");
    let all = answer(&["flows", capture, "--format", "csv", "--columns", "orig_bytes,uid"], 0);
    let sorted = answer(
        &["flows", capture, "--format", "csv", "--columns", "orig_bytes,uid", "--sort", "-orig_bytes"],
        0,
    );
    let lines = |text: &str| text.lines().skip(1).map(str::to_string).collect::<Vec<_>>();
    let number = |line: &String| line.split(',').next().and_then(|word| word.parse::<u64>().ok());
    let (mut all, sorted) = (lines(&all), lines(&sorted));
    let numbers: Vec<_> = sorted.iter().map(number).collect();
    assert!(numbers.is_sorted_by(|a, b| a >= b), "{numbers:?}: absent values are last");
    let mut same = sorted.clone();
    all.sort();
    same.sort();
    assert_eq!(all, same);
    let first =
        answer(&["flows", capture, "--format", "csv", "--columns", "orig_bytes,uid", "--limit", "3"], 0);
    assert_eq!(lines(&first).len(), 3);
    let written = scratch("limit.pcapng");
    answer(&["packets", capture, "--limit", "7", "-w", written.to_str().expect("a path of text")], 0);
    assert_eq!(answer(&["packets", written.to_str().expect("a path of text"), "--count"], 0), "7\n");
}

#[test]
fn a_limit_of_followed_connections_counts_connections() {
    let capture = root().join("examples/sessions.pcap");
    let follow = |args: &[&str]| answer(&[&["follow", capture.to_str().unwrap(), "tcp"], args].concat(), 0);
    let headers = |text: &str| text.lines().filter(|line| line.contains(" UTC")).count();
    let (all, two) = (follow(&[]), follow(&["--limit", "2"]));
    assert!(headers(&all) > 2 && all.starts_with(&two), "the first ones, whole: {two}");
    assert_eq!((headers(&two), headers(&follow(&["--limit", "100000"]))), (2, headers(&all)));
    let rows = follow(&["--limit", "2", "--format", "csv"]);
    let uids: BTreeSet<&str> = rows.lines().skip(1).filter_map(|row| row.split(',').nth(1)).collect();
    let of_headers: BTreeSet<&str> =
        two.lines().filter(|line| line.contains(" UTC")).filter_map(|line| line.split(' ').next()).collect();
    assert!(of_headers.is_subset(&uids), "{of_headers:?} {uids:?}");
    let decoded = follow(&["--limit", "2", "--decode"]);
    assert_eq!(headers(&decoded), 2, "{decoded}");
}

#[test]
fn a_word_that_may_be_a_file_and_a_filter_is_refused() {
    let folder = scratch("ambiguous");
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    std::fs::copy(root().join("examples/first-light.pcap"), folder.join("http")).expect("a copy");
    let capture = root().join("examples/sessions.pcap");
    let weir = |args: &[&str]| {
        let run = Command::new(env!("CARGO_BIN_EXE_weir")).args(args).current_dir(&folder).output();
        let output = run.expect("weir runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let capture = capture.to_str().expect("a path of text");
    for args in [&["flows", "-r", capture, "http"][..], &["flows", capture, "http"]] {
        let (status, said) = weir(args);
        assert_eq!(status, Some(2));
        assert!(said.contains("write ./http for the file, or --filter http"), "{said}");
    }
    assert_eq!(weir(&["flows", capture, "--filter", "http"]).0, Some(0));
    assert_eq!(weir(&["flows", capture, "./http"]).0, Some(0));
    assert_eq!(weir(&["flows", "-r", "http"]).0, Some(0), "the only input is a file");
}

#[test]
fn times_relate_to_the_first_packet_of_all_files() {
    let file = |name: &str| root().join("examples").join(name).to_string_lossy().into_owned();
    let (early, late) = (file("first-light.pcap"), file("sessions.pcap"));
    let count = |files: &[&str], filter: &str| {
        let args = [&["packets"], files, &["--count", filter]].concat();
        let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(args).output().expect("weir runs");
        String::from_utf8_lossy(&output.stdout).trim().parse::<u64>().expect("a number")
    };
    let first = answer(&["packets", &late, "--limit", "1", "--format", "csv", "--columns", "ts"], 0);
    let first: f64 = first.lines().nth(1).and_then(|line| line.parse().ok()).expect("a time");
    for seconds in [0.5, 3.0, 30.0] {
        let absolute = format!("frame.time_epoch < {:.6}", first + seconds);
        let alone = count(&[&late], &format!("frame.time_relative < {seconds}s"));
        assert_eq!(alone, count(&[&late], &absolute));
        assert!(alone > 0);
    }
    assert_eq!(count(&[&late, &early], "frame.time_relative == 0s"), 1, "the first packet of both");
    assert_eq!(count(&[&late, &early], "frame.time_relative == 0s and frame.number == 1"), 1);
}
