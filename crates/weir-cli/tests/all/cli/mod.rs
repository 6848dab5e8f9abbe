//! The command as users run it: arguments, output, exit status.

mod aggregate;
mod aggregate_bounds;
mod applications;
mod captures;
mod check;
mod clickhouse;
mod columns;
mod detail;
mod disk_full;
mod everyday;
mod export;
mod extract;
mod fifteen;
mod file_bounds;
mod files;
mod fmt;
mod formats;
mod killed;
mod memory_claims;
mod ndpi;
mod outputs;
mod private;
mod questions;
mod records;
mod rights;
mod rotation;
mod row_limits;
mod rules;
pub mod screen;
mod shortage;
mod sinks;
mod streams;
mod tcp;
mod top;
mod tshark;
mod udp;
mod unit;
mod untrusted;
mod weird;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/first-light.pcap")
}

/// The process of a run that sees packets: another one than was started, if that one keeps the right to open
/// files or to load filters.
pub fn worker_of(run: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{run}/task/{run}/children")).unwrap_or_default();
    children.split_whitespace().next().map_or(run, |worker| worker.parse().expect("a number"))
}

fn weir(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(args).stdin(Stdio::null()).output().expect("the binary was built for this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs the command, asserts its exit status, and returns its standard output.
fn answer(args: &[&str], status: i32) -> String {
    let output = weir(args);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn text_of(output: &Output) -> String {
    text(&output.stderr)
}

fn count(filter: &str) -> u64 {
    let file = example();
    let output = weir(&["packets", "-r", file.to_str().unwrap(), "--count", filter]);
    text(&output.stdout).trim().parse().expect("--count prints a number alone")
}

/// A path for a file of this run, in a folder that is emptied at the start of the run.
fn scratch(name: &str) -> PathBuf {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        folder
    });
    FOLDER.join(name)
}

#[test]
fn the_filter_may_stand_before_or_behind_the_files() {
    let file = example();
    let file = file.to_str().unwrap();
    let rows = answer(&["flows", "-r", file, "tcp.port == 443"], 0);
    assert_eq!(rows, answer(&["flows", "tcp.port == 443", "-r", file], 0));
    assert!(rows.lines().count() > 10 && rows.lines().all(|row| row.contains("443")), "{rows}");
    let twice = answer(&["packets", "-r", file, file, "tcp.port == 443", "--count"], 0);
    assert_eq!(twice.trim().parse(), Ok(2 * count("tcp.port == 443")));
}

#[test]
fn what_a_filter_takes_and_what_its_negation_takes_is_everything() {
    let all = count("frame");
    for filter in
        ["tcp", "tls", "tls.sni contains \"example\"", "conn.proto == \"tcp\"", "ip.ttl > 60", "vlan"]
    {
        assert_eq!(count(filter) + count(&format!("not ({filter})")), all, "{filter}");
    }
}

#[test]
fn events_are_those_that_packets_show() {
    let file = example();
    let file = file.to_str().unwrap();
    let events = |more: &[&str]| answer(&[&["events", "-r", file], more].concat(), 0);
    let number = |text: String| text.trim().parse::<u64>().expect("a number");
    assert_eq!(number(events(&["-e", "tcp.aborted", "--count"])), count("tcp.flags.reset == 1"));
    let fragments = count("ip.flags.mf == 1 or ip.fragment_offset > 0");
    assert_eq!(number(events(&["-e", "ip.fragment", "--count"])), fragments);
    let rows = events(&["-e", "ip.fragment", "udp"]);
    // Only the fragment that completes a datagram is known to be UDP.
    assert!(!rows.is_empty() && (rows.lines().count() as u64) < fragments, "{rows}");
    assert!(rows.lines().all(|row| row.contains("\"src\":") && row.contains("\"frag_offset\":")), "{rows}");
    let all = events(&[]);
    assert_eq!(all, events(&["-j", "3"]));
    assert_eq!(all, events(&["--engine", "interpreter", "--without", "all"]));
    let refused = weir(&["events", "-r", file, "-e", "tcp.abort"]);
    assert!(text(&refused.stderr).contains("tcp.aborted"), "{refused:?}");
}

#[test]
fn docs_are_made_of_protocols_texts() {
    let page = answer(&["docs", "udp"], 0);
    assert!(
        page.starts_with("# udp\n") && page.contains("| udp.src_port | udp.srcport | 16 bits |"),
        "{page}"
    );
    assert!(answer(&["docs", "internet"], 0).contains("| tcp |"));
    let file = scratch("made_up.weir");
    let text = "//! Made up\nprotocol made_up {\n  header { kind: u8 \"what it is\" }\n  payload = rest\n}\n";
    std::fs::write(&file, text).expect("a scratch file");
    let page = answer(&["docs", file.to_str().unwrap()], 0);
    assert!(page.starts_with("# made_up\n\nMade up\n") && page.contains("what it is"), "{page}");
    let refused = weir(&["docs", "upd"]);
    assert!(text_of(&refused).contains("udp"), "{refused:?}");
}

#[test]
fn a_typo_is_underlined_and_mended() {
    let file = example();
    let output = weir(&["packets", "-r", file.to_str().unwrap(), "tcp.dstprt == 443"]);
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    assert!(message.contains("^^^^") && message.contains("did you mean `tcp.dstport`"), "{message}");
}

#[test]
fn nothing_counted_is_status_1() {
    let file = example();
    let out = answer(&["packets", "-r", file.to_str().unwrap(), "--count", "ip.addr == 203.0.113.99"], 1);
    assert_eq!(out, "0\n");
}

#[test]
fn a_truncated_file_gives_what_it_holds_and_status_2() {
    let bytes = std::fs::read(example()).expect("the shipped capture");
    let path = scratch("truncated.pcap");
    std::fs::write(&path, &bytes[..bytes.len() / 2 + 7]).expect("a temporary file");
    let output = weir(&["packets", "-r", path.to_str().unwrap(), "--count"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stdout).trim().parse::<u64>().expect("a number") > 1000);
    let message = text(&output.stderr);
    assert!(message.contains("truncated.pcap") && message.contains("after packet"), "{message}");
}

#[test]
fn a_link_type_that_no_layer_reads_is_named_and_status_2() {
    let bytes = std::fs::read(example()).expect("the shipped capture");
    let path = scratch("unread.pcap");
    let with_link = |link: u32| {
        let mut bytes = bytes.clone();
        bytes[20..24].copy_from_slice(&link.to_le_bytes());
        std::fs::write(&path, bytes).expect("a temporary file");
    };
    let name = path.to_str().unwrap();
    for (link, named) in
        [(201, "the link type BLUETOOTH_HCI_H4_WITH_PHDR (201)"), (3333, "the link type 3333")]
    {
        with_link(link);
        for args in [&[name][..], &["flows", name], &["packets", name], &["dns", name, "--count"]] {
            let output = weir(args);
            let said = text_of(&output);
            let right =
                format!("unread.pcap: the stack `internet` does not read {named}: nothing was analysed");
            assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
            assert!(said.contains(&right), "{args:?}: {said}");
        }
    }
    // Another file of the run is analysed.
    let output = weir(&["flows", name, example().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    assert!(text_of(&output).contains("does not read the link type 3333: its packets have no layers"));
}

#[test]
fn a_missing_file_is_named() {
    let output = weir(&["flows", "-r", "no-such-file.pcap"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no-such-file.pcap"));
}

#[test]
fn matching_frames_are_written_in_order_and_read_again() {
    let file = example();
    for name in ["out.pcap", "out.pcapng"] {
        let out = scratch(name);
        let filter = "tls.sni contains \"example\"";
        answer(&["packets", "-r", file.to_str().unwrap(), "-w", out.to_str().unwrap(), filter], 0);
        let again = answer(&["packets", "-r", out.to_str().unwrap(), "--count"], 0);
        assert_eq!(again.trim().parse(), Ok(count(filter)), "earlier packets of the connections included");
        let rows = answer(&["packets", "-r", out.to_str().unwrap(), "--format", "json"], 0);
        let time = |row: &str| -> f64 {
            let rest = row.split_once("\"ts\":").expect("every row has a time").1;
            rest.split(',').next().and_then(|t| t.parse().ok()).expect("a number")
        };
        assert!(rows.lines().map(time).is_sorted());
    }
}

/// HTTP inside VLAN, MPLS, GRE and VXLAN, where each tunnel and the innermost IPv6 are fragmented.
#[test]
fn the_frames_of_a_connection_include_all_fragments() {
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/found/n2.pcap");
    if !capture.exists() {
        return;
    }
    let (capture, out) = (capture.to_str().unwrap(), scratch("n2.pcapng"));
    let out = out.to_str().unwrap();
    for filter in ["http.host contains \"n2\"", "tcp", "udp.port == 4789 and not arp"] {
        for workers in ["1", "2"] {
            answer(&["packets", "-r", capture, "-j", workers, "-w", out, filter], 0);
            assert_eq!(answer(&["packets", "-r", out, "--count"], 0).trim(), "48", "{filter}");
            assert_eq!(answer(&["http", "-r", out], 0), answer(&["http", "-r", capture], 0));
        }
    }
    assert_eq!(answer(&["packets", "-r", capture, "--count", "not tcp"], 1).trim(), "0");
}

#[test]
fn rows_are_the_same_whatever_the_engine_passes_and_workers() {
    let file = example();
    for what in ["flows", "tls"] {
        let reference = answer(&[what, "-r", file.to_str().unwrap()], 0);
        assert!(reference.lines().count() > 10);
        for variant in [["-j", "2"], ["-j", "3"], ["--engine", "interpreter"], ["--without", "all"]] {
            let args = [&[what, "-r", file.to_str().unwrap()], &variant[..]].concat();
            assert_eq!(answer(&args, 0), reference, "{what} {variant:?}");
        }
    }
}

/// Rows of `weir stats` on the shipped capture, as objects.
fn stats(args: &[&str]) -> Vec<serde_json::Value> {
    let file = example();
    let rows = answer(&[&["stats", "-r", file.to_str().unwrap()], args].concat(), 0);
    rows.lines().map(|row| serde_json::from_str(row).expect("an object a line")).collect()
}

fn stat<'a>(rows: &'a [serde_json::Value], section: &str, name: &str) -> &'a serde_json::Value {
    rows.iter()
        .find(|row| row["section"] == section && row["name"] == name)
        .unwrap_or_else(|| panic!("{section} {name}: {rows:?}"))
}

#[test]
fn every_stage_is_counted_and_timed_when_asked() {
    let file = example();
    for (workers, stages) in [
        ("1", &["read", "head", "tail", "sessions", "expire", "output"][..]),
        ("3", &["read", "dispatch", "head", "tail", "sessions", "expire", "output"]),
    ] {
        let args = ["flows", "-r", file.to_str().unwrap(), "-j", workers];
        assert_eq!(text(&weir(&args).stderr), "", "nothing is said unless asked");
        let said = text(&weir(&[&args[..], &["--stats"]].concat()).stderr);
        for stage in stages {
            let line = said
                .lines()
                .find(|line| line.starts_with(stage))
                .unwrap_or_else(|| panic!("{stage}: {said}"));
            let numbers: Vec<u64> = line.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
            assert!(numbers.len() >= 2 && numbers[0] > 0 && numbers[1] > 0, "{line}");
            let packets = ["read", "dispatch", "head"].contains(stage);
            assert!(!packets || numbers[0] == count("frame"), "{line}");
        }
    }
}

#[test]
fn stats_are_numbers_that_agree() {
    let rows = stats(&[]);
    let all = stat(&rows, "all", "wire");
    assert_eq!(all["packets"].as_u64(), Some(count("frame")));
    assert_eq!(all["share"].as_f64(), Some(1.0));
    assert_eq!(stat(&rows, "layer", "tcp")["packets"].as_u64(), Some(count("tcp")));
    let sum = |section: &str, column: &str| -> u64 {
        rows.iter().filter(|r| r["section"] == section).filter_map(|r| r[column].as_u64()).sum()
    };
    assert_eq!(Some(sum("size", "bytes")), all["bytes"].as_u64());
    let value = |name: &str| stat(&rows, "time", name)["value"].as_f64().expect("a number");
    let packets = value("duration_s") * value("packets_per_s");
    assert!((packets - count("frame") as f64).abs() < 0.1, "{packets}");
    assert!(value("largest_gap_s") > 0.0 && value("largest_gap_s") < value("duration_s"));
    let moment = |name: &str| stat(&rows, "time", name)["ts"].as_f64().expect("a time");
    assert!((moment("last") - moment("first") - value("duration_s")).abs() < 1e-5);
    let talkers: Vec<_> = rows.iter().filter(|r| r["section"] == "talker").collect();
    assert!(
        talkers.len() == 10
            && talkers.iter().map(|t| t["bytes"].as_u64().unwrap()).is_sorted_by(|a, b| a >= b)
    );
    for talker in talkers {
        let bytes = |name: &str| talker[name].as_u64().expect("bytes");
        assert_eq!(bytes("bytes"), bytes("sent_bytes") + bytes("received_bytes"));
    }
    // Waiting fragments count as stopped. They count as dropped only if no question wants them.
    let fragments = stat(&rows, "stopped", "fragment_waiting")["packets"].as_u64();
    let dropped = |filter: &str| {
        let file = example();
        let said =
            text(&weir(&["packets", "-r", file.to_str().unwrap(), "--count", "--stats", filter]).stderr);
        let line = said.lines().find_map(|line| line.strip_prefix("fragment_waiting"));
        line.map(|number| number.trim().parse::<u64>().expect("a number"))
    };
    assert_eq!((dropped(""), dropped("tcp")), (None, fragments));
    assert_eq!(stat(&rows, "reader", "faults")["value"].as_f64(), Some(0.0));
}

#[test]
fn memory_bounds_the_sessions_of_a_log_and_the_message_says_so() {
    let file = format!("{}/../../examples/sessions.pcap", env!("CARGO_MANIFEST_DIR"));
    let run = |memory: &str| {
        let output = weir(&["http", "-r", &file, "--memory", memory, "--stats"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        (text(&output.stdout), text(&output.stderr))
    };
    let number = |said: &str, before: &str, after: &str| -> u64 {
        let (_, rest) = said.split_once(before).unwrap_or_else(|| panic!("{before}: {said}"));
        let (number, _) = rest.split_once(after).unwrap_or_else(|| panic!("{after}: {said}"));
        number.trim().parse().unwrap_or_else(|_| panic!("{number} is no number"))
    };
    let (whole, said) = run("1M");
    assert!(!said.contains("memory was short"), "{said}");
    assert!(
        number(&said, "+ sessions ", " bytes") > 8 << 10,
        "more than the bound of the second run: {said}"
    );
    // Half of so little memory is left to the process.
    let (short, said) = run("16k");
    let shed =
        number(&said, "memory was short: the sessions of ", " connections were ended early (--memory)");
    assert_eq!(shed, number(&said, "sessions_shed", "\n"));
    assert!(number(&said, "+ sessions ", " bytes") <= 8 << 10, "{said}");
    // Only rows of these connections differ.
    let missing = whole.lines().filter(|row| !short.lines().any(|other| other == *row));
    let uid =
        |row: &str| serde_json::from_str::<serde_json::Value>(row).expect("an object")["uid"].to_string();
    let connections: std::collections::BTreeSet<String> = missing.map(uid).collect();
    assert!(!connections.is_empty() && connections.len() as u64 <= shed, "{shed}: {connections:?}");
}

#[test]
fn stats_of_standard_input_are_those_of_the_file() {
    let file = std::fs::File::open(example()).expect("the shipped capture");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let output = command.args(["stats", "-r", "-", "--format", "csv"]).stdin(file).output().expect("it runs");
    let name = example();
    for workers in ["1", "3"] {
        let args = ["stats", "-r", name.to_str().unwrap(), "--format", "csv", "-j", workers];
        assert_eq!(text(&output.stdout), answer(&args, 0));
    }
}

#[test]
fn stats_are_of_what_the_filter_lets_through() {
    // The filter is decided at the end of connections, and matches fewer hosts than the limit of listed ones.
    let filter = "conn.conn_state == \"SF\" and tcp.port == 22";
    let (rows, matched) = (stats(&[filter]), count(filter));
    assert_eq!(stat(&rows, "all", "wire")["packets"].as_u64(), Some(matched));
    let talkers = rows.iter().filter(|r| r["section"] == "talker");
    let packets: u64 = talkers.map(|t| t["packets"].as_u64().unwrap()).sum();
    assert_eq!(packets, 2 * matched, "each packet has two ends");
    let name = example();
    assert_eq!(
        answer(&["stats", "-r", name.to_str().unwrap(), "--count", "tcp"], 0).trim().parse(),
        Ok(count("tcp"))
    );
}

#[test]
fn the_filter_is_found_wherever_it_stands_among_the_files() {
    let file = example();
    let file = file.to_str().unwrap();
    let once = answer(&["packets", "-r", file, "tcp", "--count"], 0);
    let twice = format!("{}\n", 2 * once.trim().parse::<u64>().unwrap());
    for (args, expected) in [
        (&["-r", "tcp", file][..], &once),
        (&["tcp", "-r", file], &once),
        (&["-r", file, "-r", file, "tcp"], &twice),
        (&["-r", file, "tcp", file], &twice),
        (&["tcp", "-r", file, "-r", file], &twice),
    ] {
        assert_eq!(&answer(&[&["packets", "--count"], args].concat(), 0), expected, "{args:?}");
    }
}

#[test]
fn what_is_wrong_with_a_command_line_is_named_with_the_remedy() {
    let file = example();
    let file = file.to_str().unwrap();
    for (args, said) in [
        (
            &["files", "-r", file, "files.mime == \"image/png\""][..],
            "uses the log's columns (`weir fields files`), and fields of the sessions that carry them, of http",
        ),
        (&["tls", "-r", "tcp.port == 443"], "no such file: `tcp.port == 443`; if that is the filter"),
        (&["streams", "-r", "udp"], "no such file: `udp`; if that is the filter"),
        (&["zeek", "-r", file, "-r", "tls", "tcp"], "no such file: `tls`; if that is the filter"),
        (&["tls", "-r", "no-such-file"], "no-such-file: no such file"),
        (&["tls", "tcp"], "no input: name a capture file, as in `weir tls FILE`"),
        (&["tls", file, "tcp.port", "==", "80"], "quote it, as in 'tcp.port == 80'"),
        (&["tls", file, "tcp", "--filter", "udp"], "two filters: `udp` and `tcp`"),
        (
            &["flows", file, "duration > 3s"],
            "did you mean `conn.duration`, the field of the column `duration`?",
        ),
        (&["tls", file, "server_name == \"a\""], "did you mean `tls.server_name`?"),
        (&["dns", file, "dns.rcode == \"NXDOMAIN\""], "`dns.rcode_name == \"NXDOMAIN\"`"),
        (&["flows", file, "tcp.stream == 3"], "connections have no numbers but a `uid`"),
        (
            &["packets", "-", "frame.time_relative < 3s"],
            "the time of the first packet is not known: the input is no file",
        ),
        (&["match", file, "nginx"], "A pattern follows -e: -e 'nginx'"),
        (&["flows", file, "--columns", "orig_byte"], "no column `orig_byte`: is `orig_bytes` meant?"),
        (&["flows", file, "--limit", "3", "--count"], "--limit cannot be used with --count"),
    ] {
        let output = weir(args);
        assert!(
            output.status.code() == Some(2) && text_of(&output).contains(said),
            "{args:?}: {}",
            text_of(&output)
        );
    }
}

#[test]
fn nothing_found_is_status_1_where_something_is_looked_for_or_counted() {
    let file = example();
    let file = file.to_str().unwrap();
    let none = "ip.addr == 203.0.113.99 and tcp.port == 9";
    for command in ["flows", "packets", "sessions", "tls", "x509", "files", "streams", "stats", "events"] {
        answer(&[command, "-r", file, none], 0);
        answer(&[command, "-r", file, none, "--count"], 1);
    }
    answer(&["match", "-e", "x", "-r", file, none], 1);
    answer(&["match", "-e", "x", "-r", file, none, "--count"], 1);
}

#[test]
fn sessions_and_their_parts_have_reference_pages() {
    let page = answer(&["docs", "http"], 0);
    assert!(
        page.starts_with("# http\n")
            && page.contains("| http.response.code | http.status_code http.status | status_code |"),
        "{page}"
    );
    assert!(answer(&["docs", "smb"], 0).contains("`smb2.nt_status`: SUCCESS, "), "words are listed");
    assert!(answer(&["docs", "x509"], 0).contains("| fingerprint | text |"));
    // A layer and a session protocol have the same name.
    assert_eq!(answer(&["docs", "quic"], 0).matches("\n# quic\n").count(), 1);
    assert!(text_of(&weir(&["docs", "nosuch"])).contains("the sessions bittorrent, "));
}

#[test]
fn names_of_a_protocol_are_meant_before_those_of_others() {
    let file = example();
    for (filter, meant) in [
        ("http.code == 404", "`http.response.code`"),
        ("http.useragent contains \"x\"", "`http.user_agent`"),
        ("http.length > 3", "`http.request.content_length`"),
        ("tls.sn1 == \"a\"", "`tls.sni`"),
    ] {
        let output = weir(&["flows", "-r", file.to_str().unwrap(), filter]);
        assert!(
            text_of(&output).contains(&format!("did you mean {meant}?")),
            "{filter}: {}",
            text_of(&output)
        );
    }
}

#[test]
fn rows_of_several_logs_are_no_log_of_zeeks() {
    let file = example();
    let output = weir(&["sessions", "-r", file.to_str().unwrap(), "--format", "zeek"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(
        text_of(&output).contains("`weir zeek -r FILE -d DIR` writes one file per log"),
        "{}",
        text_of(&output)
    );
}

#[test]
fn nobody_need_listen_to_standard_error() {
    let file = example();
    let file = file.to_str().unwrap();
    for (args, status) in [
        (&["tls", "-r", file, "--stats"][..], 0),
        (&["tls", "-r", "no-such-file.pcap"], 2),
        (&["tls", "-r", file, "tls.sni = 1"], 2),
        (&["packets", "-r", file, "-w", scratch("unheard.pcap").to_str().unwrap()], 0),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let command = command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary was built for this test");
        drop(child.stderr.take());
        assert_eq!(child.wait().expect("it ends").code(), Some(status), "{args:?}");
    }
}

#[test]
fn quantities_that_mean_nothing_are_refused_with_what_is_wanted() {
    let file = example();
    let file = file.to_str().unwrap();
    let (number, bytes, time) = (
        "give a whole number from 1 to ",
        "give a number of bytes, for example 1500, 10k, 512M or 2G",
        "give a time, for example 300, 1.5s",
    );
    let priority = "give FILTER:N with N from 0 to 15, for example dns:9";
    for (args, option, said) in [
        (&["flows"][..], "-j", number),
        (&["flows"], "--flows-max", number),
        (&["flows"], "--idle-timeout", time),
        (&["match", "-e", "x"], "-m", number),
        (&["match", "-e", "x"], "-C", "give a whole number from 0 to 65535, for example 24"),
        (&["streams"], "--cutoff", bytes),
        (&["streams"], "--chunk", bytes),
        (&["streams", "--chunk", "1k"], "--overlap", bytes),
        (&["streams", "--chunk", "1k"], "--flush", time),
        (&["streams"], "--memory", bytes),
        (&["streams"], "--overload-cutoff", bytes),
        (&["streams"], "--priority", priority),
    ] {
        let none = if option == "-C" { "1.5" } else { "5x" };
        // `nan` and huge numbers are not valid values either.
        let much = if said == time { "nan" } else { "99999999999999999999" };
        for wrong in ["-1", "abc", "", none, much] {
            let output = weir(&[args, &["-r", file, option, wrong]].concat());
            let err = text_of(&output);
            assert_eq!(output.status.code(), Some(2), "{args:?} {option} {wrong}: {err}");
            let first = err.lines().next().unwrap_or_default();
            assert!(first.contains(said), "{args:?} {option} {wrong}: {err}");
        }
    }
    for option in ["-j", "--flows-max"] {
        assert!(text_of(&weir(&["flows", "-r", file, option, "0"])).contains(number), "{option}");
    }
    let flows = |time: &str| answer(&["flows", "-r", file, "--idle-timeout", time], 0);
    assert_eq!([flows("60s"), flows("1m")], [flows("60"), flows("60")]);
    assert_ne!(flows("100ms"), flows("60"), "or the test shows nothing");
    for (workers, line) in
        [("0", "workers.toml: line 2: `workers`"), ("-1", "line 2"), ("\"all\"", "line 2: `workers`")]
    {
        let questions = scratch("workers.toml");
        let asked = format!("\nworkers = {workers}\n[[question]]\nname = \"a\"\nask = \"flows\"\n");
        std::fs::write(&questions, asked).expect("a scratch file");
        let output = weir(&["run", questions.to_str().unwrap(), "-r", file]);
        let err = text_of(&output);
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert!(err.contains(line) && err.contains(number), "{err}");
    }
}

#[test]
fn text_is_quoted_either_way() {
    assert_eq!(count("tls.sni contains 'example'"), count("tls.sni contains \"example\""));
}

#[test]
fn explain_shows_each_stage() {
    let overview = answer(&["explain", "tcp.port == 443 and tls.sni contains \"example\""], 0);
    for word in ["question", "packet", "session", "trie", "passes", "program", "code"] {
        assert!(overview.lines().any(|line| line.starts_with(word)), "{word} in {overview}");
    }
    for stage in ["parse", "trie", "ir", "opt", "fast-path", "code"] {
        assert!(!answer(&["explain", "tcp.port == 443", "--stage", stage], 0).is_empty(), "{stage}");
    }
}

#[test]
fn commands_say_by_which_fields_rows_of_other_protocols_are_chosen() {
    // Help is wrapped to the width of the terminal, so white space is normalised.
    let help = answer(&["tls", "--help"], 0).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        help.contains("`dtls.…`") && help.contains("`quic.…`") && help.contains("weir fields quic"),
        "{help}"
    );
    assert!(!answer(&["http", "--help"], 0).contains("are selected by their own fields"));
    // As the help says, the log of TLS contains rows of QUIC: the shipped capture has some.
    let file = format!("{}/../../examples/sessions.pcap", env!("CARGO_MANIFEST_DIR"));
    let rows = |filter: &str| answer(&["tls", "-r", &file, filter], 0).lines().count();
    assert!(rows("quic.sni") > 0 && rows("dtls") > 0);
    assert_eq!(
        rows("tls.sni or quic.sni or dtls.sni"),
        rows("tls.sni") + rows("quic.sni") + rows("dtls.sni")
    );
}

#[test]
fn explain_knows_what_every_command_asks_for() {
    let states = |wants: &str, filter: &str| answer(&["explain", filter, "--wants", wants], 0);
    for protocol in weir::sessions::SessionRegistry::builtin().protocols() {
        let said = states(protocol.name, "");
        let is_parsed =
            said.lines().any(|line| line.contains("to the parser of ") && line.contains(protocol.name));
        assert!(is_parsed, "{}: {said}", protocol.name);
    }
    let quic = states("tls", "");
    assert!(quic.contains("tls") && quic.contains("quic"), "their rows are of both: {quic}");
    assert!(states("x509", "").contains("parser of tls"));
    // Conditions on columns of the log are not part of the program.
    assert!(states("files", "files.mime_type == \"text/html\"").contains("http"));
    assert!(states("sessions", "").contains("tls, http, smtp"));
    assert!(states("streams", "tcp").contains("bytes in order to their subscribers"));
    assert!(states("events", "tcp").contains("wants: events"));
    assert!(states("flows", "").contains("only recognised") || states("flows", "").contains("probe"));
    // All questions of a command are shown, and the filter that they share once.
    let stats = states("stats", "tcp.port == 443");
    for line in [
        "question 0 tcp.port == 443      wants: packets\n",
        "question 1 tcp.port == 443      wants: connections\n",
        "packet     tcp.port == 443\n",
    ] {
        assert_eq!(stats.matches(line).count(), 1, "{line}{stats}");
    }
    assert_eq!(answer(&["explain", "tcp", "--wants", "stats", "--stage", "parse"], 0).lines().count(), 2);
    let classes = ["explain", "tcp", "--wants", "match", "--set", "patterns=x", "--set", "cutoff=dns:1k"];
    let classes = answer(&classes, 0);
    assert!(classes.contains("question 0 (tcp) and (tcp.port in {53, 137, 5353, 5355}"), "{classes}");
    for (args, said) in [
        (&["--wants", "match"][..], "there is no pattern: give `patterns`"),
        (&["--wants", "explain"], "`explain` is not a type of question"),
        (&["--wants", "flows", "--set", "digest=sha256"], "`digest` does not apply to `flows`"),
    ] {
        let output = weir(&[&["explain"], args].concat());
        assert!(output.status.code() == Some(2) && text_of(&output).contains(said), "{args:?}: {output:?}");
    }
    let output = weir(&["explain", "--wants", "tlss"]);
    let said = text_of(&output);
    let known = said.split_once("`tlss` is not a type of question; known are: ").expect(&said).1.trim();
    let known: Vec<&str> = known.split(", ").collect();
    assert!(output.status.code() == Some(2) && known.contains(&"tls") && known.contains(&"stats"), "{said}");
    for name in known.iter().filter(|name| !["match", "aggregate", "script"].contains(name)) {
        assert!(states(name, "tcp").starts_with("question"), "{name}");
    }
}

/// The output of `explain` for the first packet that matches a filter.
fn explained(which: &str, filter: &str, more: &[&str]) -> String {
    let file = example();
    let found = answer(&["packets", "-r", file.to_str().unwrap(), "--format", "csv", which], 0);
    let number = found.lines().nth(1).and_then(|row| row.split(',').next()).expect("there is one");
    let place = format!("{}:{number}", file.display());
    answer(&[&["explain", filter, "--packet", &place][..], more].concat(), 0)
}

#[test]
fn explain_says_which_layer_and_bytes_decided() {
    let two = "tcp.dstport == 443 and not vlan";
    for (which, filter, why) in [
        (
            "arp",
            two,
            "eth ✓  ip|ipv6 ✗  tcp ✗   eth.type is 2054 (arp), wanted 2048 or 34525, bytes 12..14: 08 06",
        ),
        ("ip and udp.port == 53", two, "eth ✓  ip ✓  tcp ✗   ip.protocol is 17 (udp), wanted 6, byte 23: 11"),
        ("icmp.type == 8", two, "eth ✓  ip ✓  tcp ✗   ip.protocol is 1 (icmp), wanted 6, byte 23: 01"),
        (
            "eth.type == 0x800 and tcp.dstport == 22",
            two,
            "✗ tcp.dst_port == 443\n             eth ✓  ip ✓  tcp ✓   tcp.dst_port is 22, bytes 36..38: 00 16",
        ),
        (
            "arp",
            two,
            "✓ not vlan\n             eth ✓  vlan ✗   eth.type is 2054 (arp), wanted 33024 or 34984 or 37120",
        ),
        (
            "icmp.type == 8",
            "ip.addr == 10.0.0.0/8",
            "ip.src is 192.0.2.10, bytes 26..30: c0 00 02 0a; ip.dst is 198.51.100.10, bytes 30..34: c6 33 64 0a",
        ),
        ("ip.flags.mf == 1", two, "? tcp.dst_port == 443   (known only once its fragments are together)"),
        ("ip.frag_offset > 0", two, "? tcp.dst_port == 443   (known only once its fragments are together)"),
        ("tcp", "tls", "? tls   (known only from the connection or its sessions)"),
    ] {
        let said = explained(which, filter, &[]);
        assert!(said.contains(why), "{which}: {why}\n{said}");
    }
    assert!(explained("tcp", "", &[]).contains("eth 0..14   ip 14..34   tcp 34.."));
    assert!(explained("tcp", two, &["--stage", "opt"]).contains("bytes of"));
}

#[test]
fn every_stack_that_is_listed_can_be_asked() {
    let rows = answer(&["stacks", "--format", "csv"], 0);
    let names: Vec<&str> = rows.lines().skip(1).filter_map(|row| row.split(',').next()).collect();
    assert!(names.contains(&"internet") && names.contains(&"gtp"), "{rows}");
    let file = example();
    for name in names {
        let counted = weir(&["packets", "-r", file.to_str().unwrap(), "--count", "--stack", name]);
        assert_eq!(text(&counted.stdout), format!("{}\n", count("frame")), "{name}");
        let fields = answer(&["fields", "tcp.dst", "--stack", name, "--format", "csv"], 0);
        assert!(fields.contains("tcp.dst_port"), "{name}");
    }
}

#[test]
fn a_packet_of_standard_input_is_explained_too() {
    let file = example();
    let args = |name: &str| ["explain".into(), "tcp".into(), "--packet".into(), format!("{name}:17")];
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let stdin = std::fs::File::open(&file).expect("the shipped capture");
    let output = command.args(args("-")).stdin(stdin).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let named = args(file.to_str().unwrap());
    assert_eq!(text(&output.stdout), answer(&named.each_ref().map(String::as_str), 0));
}
