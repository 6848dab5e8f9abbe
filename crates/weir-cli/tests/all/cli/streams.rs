//! `weir streams` and `weir match`: accounts, digests, files, patterns.

use crate::cli::{answer, example, scratch, text_of, weir};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use weir_testing::frames;

/// The rows of a question over the shipped capture.
fn rows(args: &[&str]) -> Vec<Json> {
    let file = example();
    let all = [args, &["-r", file.to_str().unwrap(), "--format", "json"]].concat();
    answer(&all, 0).lines().map(|row| serde_json::from_str(row).expect("a JSON line")).collect()
}

fn number(row: &Json, column: &str) -> u64 {
    row[column].as_u64().unwrap_or_else(|| panic!("{column} of {row}"))
}

/// Asserts that every byte of a stream is counted in exactly one column.
fn add_up(rows: &[Json]) {
    let parts = ["delivered_bytes", "gap_bytes", "cut_bytes", "stuck_bytes", "dropped_bytes"];
    for row in rows {
        let sum: u64 = parts.iter().map(|part| number(row, part)).sum();
        assert_eq!(sum, number(row, "payload_bytes"), "{row}");
    }
}

#[test]
fn bytes_of_streams_are_those_of_connections() {
    let streams = rows(&["streams", "tcp"]);
    add_up(&streams);
    let mut sums: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for row in &streams {
        let side = usize::from(!row["is_orig"].as_bool().unwrap());
        sums.entry(row["uid"].as_str().unwrap().into()).or_default()[side] = number(row, "payload_bytes");
    }
    let flows = rows(&["flows", "tcp"]);
    assert_eq!(flows.len(), sums.len());
    for flow in flows {
        let sum = sums[flow["uid"].as_str().unwrap()];
        assert_eq!([number(&flow, "orig_bytes"), number(&flow, "resp_bytes")], sum, "{flow}");
    }
}

#[test]
fn a_cutoff_leaves_the_first_bytes_and_counts_the_others() {
    let streams = rows(&["streams", "--cutoff", "1k", "--cutoff", "tcp.port == 443:100", "tcp"]);
    add_up(&streams);
    assert_eq!(streams.len(), rows(&["streams", "tcp"]).len());
    let mut cut = 0;
    for row in streams {
        let is_https = number(&row, "src_p") == 443 || number(&row, "dst_p") == 443;
        let most = if is_https { 100 } else { 1024 };
        let wanted = number(&row, "payload_bytes").min(most);
        assert_eq!(number(&row, "delivered_bytes"), wanted, "{row}");
        cut += number(&row, "cut_bytes");
    }
    assert!(cut > 1 << 20, "{cut} bytes were cut off");
}

#[test]
fn a_cutoff_may_differ_between_directions() {
    for cutoff in [&["1k/100"][..], &["tls:1k/100"], &["tcp.port == 443:1k/100", "dns:5"]] {
        let options = cutoff.iter().flat_map(|cutoff| ["--cutoff", cutoff]);
        let streams =
            rows(&["streams"].into_iter().chain(options).chain(["tcp.port == 443"]).collect::<Vec<_>>());
        add_up(&streams);
        assert!(streams.iter().any(|row| number(row, "cut_bytes") > 0));
        for row in streams {
            let most = if row["is_orig"].as_bool().unwrap() { 1024 } else { 100 };
            assert_eq!(number(&row, "delivered_bytes"), number(&row, "payload_bytes").min(most), "{row}");
        }
    }
}

#[test]
fn a_service_alone_is_its_ports() {
    let of = |filter: &str| rows(&["streams", "--cutoff", &format!("{filter}:10")]);
    assert_eq!(of("dns"), of("tcp.port in {53, 5353, 5355} or udp.port in {53, 5353, 5355}"));
    assert!(of("dns").iter().any(|row| number(row, "cut_bytes") > 0));
}

#[test]
fn chunks_and_workers_change_no_digest() {
    let digests = |more: &[&str]| {
        let all = rows(&[&["streams", "--digest", "sha256", "tcp"], more].concat());
        let row = |row: &Json| (row["uid"].clone(), row["is_orig"].clone(), row["sha256"].clone());
        all.iter().map(|one| format!("{:?}", row(one))).collect::<Vec<_>>()
    };
    let plain = digests(&[]);
    assert!(plain.len() > 40, "{}", plain.len());
    assert_eq!(plain, digests(&["--chunk", "1000", "--overlap", "10", "--flush", "0.01"]));
    assert_eq!(plain, digests(&["-j", "3"]));
    assert_eq!(plain, digests(&["--policy", "linux", "--policy", "10.0.0.0/8:windows"]));
    // One client resets its connection while the server still sends. In strict mode, bytes that the client
    // does not receive are not delivered.
    let strict = digests(&["--mode", "strict"]);
    let differ = plain.iter().filter(|row| !strict.contains(row)).count();
    assert_eq!((strict.len(), differ), (plain.len(), 1));
}

#[test]
fn files_have_the_bytes_of_streams() {
    let folder = scratch("streams");
    let streams = rows(&["streams", "tcp", "-o", folder.to_str().unwrap()]);
    let wanted: u64 = streams.iter().map(|row| number(row, "delivered_bytes")).sum();
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(Result::unwrap).collect();
    assert_eq!(files.iter().map(|file| file.metadata().unwrap().len()).sum::<u64>(), wanted);
    let with_bytes = streams.iter().filter(|row| number(row, "delivered_bytes") > 0).count();
    assert_eq!(files.len(), with_bytes);
    let name = "192.000.002.010.54476-198.051.100.010.00080";
    let request = std::fs::read(folder.join(name)).expect("named as tcpflow names it");
    assert!(request.starts_with(b"GET / HTTP/1.1\r\n"));
}

#[test]
fn patterns_are_found_where_they_stand() {
    let found = rows(&["match", "-e", "^SSH-2.0-[^\r\n]+", "-e", "server: NGINX", "-i"]);
    let of = |pattern: &str| found.iter().filter(|row| row["pattern"] == pattern).collect::<Vec<_>>();
    assert!(of("^SSH-2.0-[^\r\n]+").iter().all(|row| number(row, "offset") == 0));
    assert!(!of("^SSH-2.0-[^\r\n]+").is_empty());
    let servers = of("server: NGINX");
    assert!(servers.len() > 3 && servers.iter().all(|row| row["match"] == "Server: nginx"));
    let file = example();
    let file = file.to_str().unwrap();
    let count = answer(&["match", "-r", file, "-F", "-e", "Server: nginx", "--count"], 0);
    assert_eq!(count.trim().parse(), Ok(servers.len()));
    assert_eq!(answer(&["match", "-r", file, "-e", "no such thing", "--count"], 1), "0\n");
    let grep = answer(&["match", "-r", file, "-e", "GET /", "--format", "grep", "-m", "1", "-C", "3"], 0);
    let first = "192.0.2.10:54476 > 198.51.100.10:80 tcp:0:GET / HT";
    assert_eq!(grep.lines().next(), Some(first));
}

#[test]
fn matchers_find_the_same() {
    let file = example();
    let ask = ["match", "-r", file.to_str().unwrap(), "-i", "-e", "server: [a-z]+", "-e", "[0-9]{1,3}[.]ex"];
    let with = |matcher| weir(&[&ask[..], &["--stats", "--matcher", matcher]].concat());
    let (rust, auto, vectorscan) = (with("rust"), with("auto"), with("vectorscan"));
    assert!(String::from_utf8_lossy(&rust.stdout).lines().count() > 3);
    assert_eq!(auto.stdout, rust.stdout);
    assert!(text_of(&rust).contains("patterns   2; engine dfa, prefilter none"), "{}", text_of(&rust));
    if vectorscan.status.code() == Some(2) {
        eprintln!("skipped: {}", text_of(&vectorscan));
        return;
    }
    assert_eq!(vectorscan.stdout, rust.stdout);
    assert!(text_of(&vectorscan).contains("engine dfa, prefilter vectorscan"), "{}", text_of(&vectorscan));
    assert!(text_of(&auto).contains("prefilter vectorscan"), "{}", text_of(&auto));
}

/// The file in place of the library is not a library.
#[test]
fn a_matcher_that_is_missing_is_said_or_done_without() {
    let file = example();
    let folder = scratch("no-library");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("libhs.so.5"), "no library").unwrap();
    let with = |matcher| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args([
            "match",
            "-i",
            "-e",
            "nginx",
            "-c",
            "--matcher",
            matcher,
            "-r",
            file.to_str().unwrap(),
        ]);
        command.env("LD_LIBRARY_PATH", &folder).output().unwrap()
    };
    let missing = with("vectorscan");
    let said = text_of(&missing);
    assert_eq!(missing.status.code(), Some(2), "{said}");
    assert!(said.contains("vectorscan can't be used") && said.contains("install libhyperscan5"), "{said}");
    assert_eq!(with("auto").stdout, with("rust").stdout);
}

#[test]
fn streams_are_named_as_grep_names_files() {
    let file = example();
    let ask = |more: &[&str]| answer(&[&["match", "-r", file.to_str().unwrap()], more].concat(), 0);
    let count = |more: &[&str]| ask(&[more, &["-c"]].concat()).trim().parse::<usize>().expect("a number");
    let uids = |more: &[&str]| -> Vec<(String, bool)> {
        let rows = ask(more);
        let row = |line: &str| serde_json::from_str::<Json>(line).expect("a JSON line");
        let name = |row: Json| (row["uid"].as_str().unwrap().to_owned(), row["is_orig"] == true);
        rows.lines().map(|line| name(row(line))).collect()
    };
    let mut of_matches = uids(&["-e", "nginx"]);
    assert!(of_matches.len() > 3);
    of_matches.sort();
    of_matches.dedup();
    let (mut with, without) = (uids(&["-e", "nginx", "-l"]), uids(&["-e", "nginx", "-L"]));
    with.sort();
    assert_eq!(with, of_matches);
    assert!(!without.is_empty() && without.iter().all(|name| !with.contains(name)));
    assert_eq!(count(&["-e", "nginx", "-l"]), with.len());
    assert_eq!(count(&["-e", "nginx", "-L"]), without.len());
    // Every stream with bytes either matches or does not match.
    let sent = rows(&["streams"]).iter().filter(|row| number(row, "delivered_bytes") > 0).count();
    assert_eq!(with.len() + without.len(), sent);
    let named = ask(&["-e", "nginx", "-l", "--format", "grep"]);
    assert!(named.lines().all(|line| line.ends_with(" tcp")), "{named}");
    let colored = ask(&["-e", "nginx", "--color", "always", "-m", "1"]);
    assert!(colored.lines().all(|line| line.contains("\x1b[1;31mnginx\x1b[m")), "{colored}");
}

/// A filter on sessions selects whole streams, from their first byte on, for every command about streams.
#[test]
fn a_filter_on_sessions_chooses_whole_streams() {
    let file = example();
    let file = file.to_str().unwrap();
    let ask = |args: &[&str]| answer(&[args, &["-r", file]].concat(), 0);
    let uids = |text: &str| -> BTreeSet<String> {
        let rows = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        rows.map(|row| row["uid"].as_str().unwrap().to_string()).collect()
    };
    let whole = ask(&["streams", "--digest", "sha256"]);
    for filter in [
        "tls",
        "not tls",
        "http",
        "dns",
        "conn.resp_bytes > 1000",
        "tls.version == \"TLSv13\" and tcp.port == 443",
    ] {
        let wanted = uids(&ask(&["flows", filter]));
        let streams = ask(&["streams", "--digest", "sha256", filter]);
        let of_these = |line: &&str| uids(line).iter().all(|uid| wanted.contains(uid));
        let expected: BTreeSet<&str> = whole.lines().filter(of_these).collect();
        assert!(!expected.is_empty(), "{filter}");
        assert_eq!(streams.lines().collect::<BTreeSet<&str>>(), expected, "{filter}");
        assert_eq!(ask(&["streams", "--digest", "sha256", "-j", "2", filter]), streams, "{filter}");
    }
    // The same holds for a class of streams: its cutoff counts from the first byte, even if the class is
    // known later.
    let cut = ask(&[
        "streams",
        "--cutoff",
        "tls.version == \"TLSv13\":7",
        "--cutoff",
        "http:9",
        "tcp",
        "--format",
        "csv",
    ]);
    let delivered = |of: &str, bytes: u64| {
        let wanted = uids(&ask(&["flows", of]));
        let names: Vec<&str> = cut.lines().next().unwrap().split(',').collect();
        let at = |name| names.iter().position(|one| *one == name).unwrap();
        let rows = cut.lines().skip(1).map(|row| row.split(',').collect::<Vec<&str>>());
        let mut rows = rows.filter(|row| wanted.contains(row[at("uid")])).peekable();
        assert!(rows.peek().is_some(), "{of}");
        for row in rows {
            let [payload, delivered]: [u64; 2] =
                ["payload_bytes", "delivered_bytes"].map(|name| row[at(name)].parse().unwrap());
            assert_eq!(delivered, payload.min(bytes), "{of}: {row:?}");
        }
    };
    delivered("tls.version == \"TLSv13\"", 7);
    delivered("http", 9);
    delivered("tcp and not http and not tls.version == \"TLSv13\"", u64::MAX);
    let [late, at_once] = ["http", "tcp.port == 80"].map(|filter| {
        let matches = ask(&["match", "-e", "GET", filter]);
        matches.lines().map(str::to_string).collect::<BTreeSet<String>>()
    });
    assert!(!late.is_empty() && late == at_once, "{late:?}, {at_once:?}");
}

#[test]
fn what_is_wrong_with_options_is_said() {
    let file = example();
    let file = file.to_str().unwrap();
    for (args, wanted) in [
        (&["streams", "--cutoff", "10x"][..], "give a number of bytes, for example 1500, 10k"),
        (&["streams", "--cutoff", "tcp.prot == 1:10k"], "did you mean `tcp.port`?"),
        (&["streams", "--policy", "beos"], "known are: first, last, bsd"),
        (&["streams", "--policy", "10.0.0.0/99:linux"], "give NETWORK:POLICY"),
        (&["streams", "--priority", "tcp:99"], "N from 0 to 15"),
        (&["streams", "--chunk", "10", "--overlap", "10"], "a chunk must be longer than its overlap"),
        (&["events", "tls"], "are delivered before this field is known"),
        (&["match", "-e", "a(b"], "unclosed group\n  | a(b\n  |  ^"),
        (&["match", "-e", "a*"], "require at least one byte"),
    ] {
        let output = weir(&[args, &["-r", file]].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = text_of(&output);
        assert!(said.contains(wanted), "{args:?}: {said}");
    }
}

/// The user data of an association is a part of it and has no record of its own, but its streams are
/// delivered.
#[test]
fn user_data_of_an_association_is_a_stream() {
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../protocols/sctp.pcap");
    let text = answer(&["streams", "--stack", "sctp", "-r", capture, "--format", "json"], 0);
    let streams: Vec<Json> =
        text.lines().map(|row| serde_json::from_str(row).expect("a JSON line")).collect();
    add_up(&streams);
    let bytes: Vec<[u64; 2]> =
        streams.iter().map(|row| [number(row, "packets"), number(row, "payload_bytes")]).collect();
    assert_eq!(bytes, [[5, 27], [1, 3]]);
}

/// A capture file of TCP segments from one host to another: sequence number, flags, payload size.
fn capture(segments: &[(u32, u8, usize)]) -> Vec<u8> {
    let frame = |&(seq, flags, length): &(u32, u8, usize)| {
        let segment = frames::tcp((40_000, 8080), seq, 1, flags, &[], &vec![b'x'; length]);
        frames::ethernet(0x0800, &frames::ipv4(([10, 0, 0, 1], [10, 0, 0, 2]), 6, 0, 0, &[], &segment))
    };
    frames::pcap(&segments.iter().map(frame).collect::<Vec<_>>())
}

#[test]
fn what_memory_refuses_is_not_what_the_capture_lacks() {
    // The first 1400 bytes are missing, so all later segments are out of order.
    let mut segments = vec![(99, 0x02, 0)];
    segments.extend((1..60).map(|at| (100 + at * 1400, 0x18, 1400)));
    let file = scratch("refused.pcap");
    std::fs::write(&file, capture(&segments)).expect("the file is written");
    let mut given_up = vec![];
    for memory in ["512M", "100k", "64k", "32k", "1k"] {
        let args = ["streams", "-r", file.to_str().unwrap(), "--memory", memory, "--format", "json"];
        let rows: Vec<Json> =
            answer(&args, 0).lines().map(|row| serde_json::from_str(row).expect("a JSON line")).collect();
        add_up(&rows);
        assert_eq!(number(&rows[0], "payload_bytes"), 60 * 1400, "{memory}");
        assert_eq!(number(&rows[0], "gap_bytes"), 1400, "{memory}");
        given_up.push(number(&rows[0], "dropped_bytes"));
    }
    assert!(given_up[0] == 0 && given_up[4] == 59 * 1400 && given_up.is_sorted(), "{given_up:?}");
}
