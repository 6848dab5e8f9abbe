//! `weir aggregate`: its formats, what it is computed of, and its place beside other questions. The other
//! part is `aggregate_bounds.rs`.

use crate::cli::formats::{arrow_rows, parquet_rows};
use crate::cli::{answer, count, example, scratch, text, text_of, weir};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn file() -> String {
    example().to_str().expect("a path of text").to_string()
}

/// The rows of an aggregate of the shipped capture.
fn rows(aggregate: &str, more: &[&str]) -> Vec<Value> {
    parsed(&answer(&[&["aggregate", aggregate, "-r", &file()], more].concat(), 0))
}

fn parsed(rows: &str) -> Vec<Value> {
    rows.lines().map(|row| serde_json::from_str(row).unwrap_or_else(|e| panic!("{row}: {e}"))).collect()
}

fn sum(rows: &[Value], column: &str) -> u64 {
    rows.iter().map(|row| row[column].as_u64().unwrap_or_else(|| panic!("{column}: {row}"))).sum()
}

#[test]
fn every_format_has_the_rows_of_windows() {
    let aggregate = "count(), sum(frame.len) as bytes, distinct(ip.src) by proto every 2s";
    let expected = rows(aggregate, &[]);
    assert!(expected.len() > 10 && sum(&expected, "count") == count("frame"), "{expected:?}");
    for row in &expected {
        assert_eq!(row["te"].as_f64().unwrap() - row["ts"].as_f64().unwrap(), 2.0, "{row}");
        assert_eq!(row["ts"].as_f64().unwrap() % 2.0, 0.0, "windows are aligned: {row}");
    }
    let of = |format: &str| answer(&["aggregate", aggregate, "-r", &file(), "--format", format], 0);
    let csv = of("csv");
    assert_eq!(csv.lines().next(), Some("ts,te,proto,count,bytes,distinct_ip_src,other,inexact"));
    let cells = |line: &str| line.split(',').map(str::to_string).collect::<Vec<_>>();
    for (line, row) in csv.lines().skip(1).zip(&expected) {
        let cells = cells(line);
        let number = |column: &str| row[column].as_u64().unwrap().to_string();
        let proto = row["proto"].as_str().unwrap_or_default();
        assert_eq!(
            cells[2..6],
            [proto.to_string(), number("count"), number("bytes"), number("distinct_ip_src")]
        );
    }
    let table = of("table");
    assert_eq!(table.lines().count(), expected.len() + 1, "{table}");
    assert!(!table.contains("inexact"), "a table has the columns that people read: {table}");
    for (format, read) in [
        ("parquet", &(|path: &Path| parquet_rows(path).0) as &dyn Fn(&Path) -> usize),
        ("arrow", &arrow_rows),
    ] {
        let path = scratch(&format!("aggregate.{format}"));
        answer(&["aggregate", aggregate, "-r", &file(), "-o", path.to_str().unwrap()], 0);
        assert_eq!(read(&path), expected.len(), "{format}");
    }
    for variant in [["-j", "3"], ["--engine", "interpreter"], ["--without", "all"]] {
        assert_eq!(rows(aggregate, &variant), expected, "{variant:?}");
    }
}

#[test]
fn aggregates_of_every_kind_of_row_count_these_rows() {
    let capture = format!("{}/../../examples/sessions.pcap", env!("CARGO_MANIFEST_DIR"));
    let said = text_of(&weir(&["aggregate", "count()", "--of", "nothing", "-r", &capture]));
    let known = said.split_once("there are packets, ").expect(&said).1.trim();
    let mut counted = 0;
    for of in known.split(", ") {
        let command = if of == "packets" { "packets" } else { of };
        let rows = weir(&[command, "-r", &capture, "--format", "json"]);
        let number = text(&rows.stdout).lines().count() as u64;
        let made = parsed(&answer(&["aggregate", "count()", "--of", of, "-r", &capture], 0));
        // No records, no groups.
        let expected: Vec<u64> = (number > 0).then_some(number).into_iter().collect();
        let got: Vec<u64> = made.iter().map(|row| row["count"].as_u64().unwrap()).collect();
        // `x509` shows each certificate once.
        assert!(got == expected || of == "x509" && got >= expected, "{of}: {got:?}, not {expected:?}");
        counted += usize::from(number > 0);
    }
    assert!(counted > 10, "{counted} kinds of rows");
}

#[test]
fn fields_of_rows_have_the_names_of_columns_and_those_of_filters() {
    let of = |aggregate: &str, rows: &str| self::rows(aggregate, &["--of", rows]);
    let same = |a: &str, b: &str, of_rows: &str| {
        let (a, b) = (of(a, of_rows), of(b, of_rows));
        assert!(!a.is_empty() && a == b, "{a:?}, {b:?}");
    };
    same("count() by service as s", "count() by conn.service as s", "flows");
    same("max(duration) as d by proto as p", "max(conn.duration) as d by conn.proto as p", "flows");
    same("count() by server_name as s", "count() by tls.sni as s", "tls");
    same("count() by pair", "count() by id.orig_h, id.resp_h", "flows");
    // Lists are counted, and are no keys.
    let answered = of("count(answers) as answered, count()", "dns");
    let rows = parsed(&answer(&["dns", "-r", &file()], 0));
    let expected = rows.iter().filter(|row| row.get("answers").is_some()).count() as u64;
    assert_eq!((sum(&answered, "answered"), sum(&answered, "count")), (expected, rows.len() as u64));
    assert!(0 < expected && expected < rows.len() as u64);
}

/// A prefix applies to each version of IP in its own length, for packets as for rows.
#[test]
fn prefixes_of_both_versions_are_those_of_the_addresses() {
    let networks = |rows: Vec<Value>, column: &str| -> Vec<String> {
        rows.iter().filter_map(|row| Some(row[column].as_str()?.to_string())).collect()
    };
    let packets = networks(rows("count() by src/24", &[]), "src/24");
    let flows = networks(rows("count() by id.orig_h/24", &["--of", "flows"]), "id.orig_h/24");
    assert!(packets.contains(&"192.0.2.0/24".to_string()), "{packets:?}");
    assert!(flows.iter().all(|network| packets.contains(network)), "{packets:?}, {flows:?}");
    assert_eq!(
        rows("count() by ip.src/24 as n", &["ip and tcp"]),
        rows("count() by src/24 as n", &["ip and tcp"])
    );
}

#[test]
fn rows_are_selected_sorted_and_counted_as_those_of_other_commands() {
    let all = rows("count() by ip.src", &["ip"]);
    let number = answer(&["aggregate", "count() by ip.src", "-r", &file(), "ip", "--count"], 0);
    assert_eq!(number.trim().parse(), Ok(all.len()));
    let sorted = rows("count() by ip.src", &["ip", "--sort=-count", "--limit", "3"]);
    assert_eq!(sorted, rows("count() by ip.src top 3", &["ip"]));
    assert!(sorted.len() == 3 && sorted[0]["count"].as_u64() > sorted[2]["count"].as_u64(), "{sorted:?}");
    let narrow = rows("count() by ip.src", &["ip", "--columns", "count"]);
    assert!(narrow.iter().all(|row| row.as_object().unwrap().len() == 1), "{narrow:?}");
    let wrong = weir(&["aggregate", "count() by ip.src", "-r", &file(), "--columns", "counts"]);
    assert!(wrong.status.code() == Some(2) && text_of(&wrong).contains("count"), "{wrong:?}");
    assert_eq!(answer(&["aggregate", "count()", "-r", &file(), "ip.addr == 203.0.113.99"], 0), "");
}

/// The filter of an aggregate of packets is decided packet by packet, also if the aggregate uses no field.
#[test]
fn a_filter_that_is_known_only_later_is_refused() {
    for aggregate in ["count()", "rate() every 1s", "count() by ip.src"] {
        for filter in ["tls", "tls.sni contains \"example\"", "conn.duration > 1s"] {
            let refused = weir(&["aggregate", aggregate, "-r", &file(), filter]);
            assert!(refused.status.code() == Some(2) && text_of(&refused).contains("W0193"), "{refused:?}");
        }
        assert!(!rows(aggregate, &["tcp.port == 443"]).is_empty());
    }
    // Rows are selected by everything that is known of them.
    let long = rows("count()", &["--of", "flows", "conn.duration > 1s"]);
    let expected = answer(&["flows", "-r", &file(), "conn.duration > 1s", "--count"], 0);
    assert_eq!(sum(&long, "count").to_string(), expected.trim());
}

#[test]
fn an_aggregate_is_a_question_beside_others() {
    let file_of = |name: &str| scratch(&format!("aggregate-run-{name}.json"));
    let questions = scratch("aggregate-run.toml");
    let question = |name: &str, lines: &str| {
        format!("[[question]]\nname = \"{name}\"\noutput = {:?}\n{lines}\n", file_of(name))
    };
    let asked = [
        question("hosts", "ask = \"aggregate\"\naggregate = \"count() by ip.src every 1s\""),
        question("ports", "ask = \"aggregate\"\naggregate = \"sum(frame.len) by dport\"\nfilter = \"tcp\""),
        question("names", "ask = \"aggregate\"\naggregate = \"count() by tls.sni\"\nof = \"tls\""),
        question("tls", "ask = \"tls\""),
    ];
    fs::write(&questions, asked.concat()).unwrap();
    for workers in ["1", "3"] {
        answer(&["run", questions.to_str().unwrap(), "-r", &file(), "-j", workers], 0);
        let written = |name: &str| fs::read_to_string(file_of(name)).unwrap();
        assert_eq!(parsed(&written("hosts")), rows("count() by ip.src every 1s", &[]));
        assert_eq!(parsed(&written("ports")), rows("sum(frame.len) by dport", &["tcp"]));
        let by_name = |rows: Vec<Value>| -> BTreeMap<String, u64> {
            rows.iter().map(|row| (row["tls.sni"].to_string(), row["count"].as_u64().unwrap())).collect()
        };
        assert_eq!(by_name(parsed(&written("names"))), by_name(rows("count() by tls.sni", &["--of", "tls"])));
        assert_eq!(written("tls"), answer(&["tls", "-r", &file()], 0));
    }
    for (lines, said) in [
        ("ask = \"aggregate\"", "`aggregate` is missing"),
        ("ask = \"flows\"\naggregate = \"count()\"", "`aggregate` does not apply to `flows`"),
        ("ask = \"aggregate\"\naggregate = \"cuont()\"", "did you mean `count()`"),
        ("ask = \"aggregate\"\naggregate = \"count()\"\nof = \"tsl\"", "`tls`"),
        ("ask = \"aggregate\"\naggregate = \"count()\"\nfilter = \"tls\"", "W0193"),
    ] {
        fs::write(&questions, question("a", lines)).unwrap();
        let output = weir(&["run", questions.to_str().unwrap(), "-r", &file()]);
        assert!(output.status.code() == Some(2) && text_of(&output).contains(said), "{lines}: {output:?}");
    }
}

/// Values of all aggregates share the packet's record.
#[test]
fn more_fields_than_a_program_has_room_for_are_refused() {
    let fields =
        answer(&["fields", "ip"], 0) + &answer(&["fields", "ipv6"], 0) + &answer(&["fields", "tcp"], 0);
    let is_known = |name: &&str| {
        let known = weir(&["aggregate", &format!("count({name})"), "-r", &file(), "--count"]);
        known.status.code() == Some(0)
    };
    let listed = parsed(&fields);
    let names = listed.iter().filter_map(|field| field["field"].as_str());
    let names: Vec<&str> = names.filter(|name| name.contains('.')).filter(is_known).take(49).collect();
    assert_eq!(names.len(), 49);
    let counts =
        |names: &[&str]| names.iter().map(|name| format!("count({name})")).collect::<Vec<_>>().join(", ");
    let one = weir(&["aggregate", &counts(&names[..25]), "-r", &file()]);
    assert!(text_of(&one).contains("at most 24 fields of packets"), "{one:?}");
    let questions = scratch("aggregate-many.toml");
    let run = |parts: &[&[&str]]| {
        let question = |(at, names): (usize, &&[&str])| {
            let aggregate = counts(names);
            format!("[[question]]\nname = \"q{at}\"\nask = \"aggregate\"\naggregate = \"{aggregate}\"\n")
        };
        fs::write(&questions, parts.iter().enumerate().map(question).collect::<String>()).unwrap();
        weir(&["run", questions.to_str().unwrap(), "-r", &file()])
    };
    assert_eq!(run(&[&names[..24], &names[24..48]]).status.code(), Some(0));
    let refused = run(&[&names[..24], &names[24..48], &names[48..]]);
    assert!(refused.status.code() == Some(2) && text_of(&refused).contains("room for 48"), "{refused:?}");
}

#[test]
fn aggregates_come_and_go_while_it_runs() {
    let dir = scratch("aggregate-ctl");
    fs::create_dir_all(&dir).unwrap();
    for workers in ["1", "2"] {
        let (socket, hosts) = (dir.join(format!("{workers}.sock")), dir.join(format!("{workers}.json")));
        let gone = dir.join(format!("{workers}-gone.json"));
        let mut running = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["run", "-r", "-", "-j", workers, "--control", socket.to_str().unwrap()])
            .stdin(Stdio::piped())
            .spawn()
            .expect("the command runs");
        let mut input = running.stdin.take().unwrap();
        let began = Instant::now();
        while !socket.exists() && began.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let ctl = |args: &[&str]| weir(&[&["ctl", socket.to_str().unwrap()], args].concat());
        let set = |text: &str| format!("aggregate={text}");
        let by_host = set("count() by ip.src every 1s");
        let added =
            ctl(&["add", "hosts", "aggregate", "ip", "--set", &by_host, "-o", hosts.to_str().unwrap()]);
        assert_eq!(added.status.code(), Some(0), "{added:?}");
        let sizes = set("sum(frame.len)");
        let added = ctl(&["add", "gone", "aggregate", "--set", &sizes, "-o", gone.to_str().unwrap()]);
        assert_eq!(added.status.code(), Some(0), "{added:?}");
        let wrong = ctl(&["add", "wrong", "aggregate", "--set", &set("count() by ip.srk")]);
        assert!(wrong.status.code() == Some(2) && text_of(&wrong).contains("did you mean"), "{wrong:?}");
        assert!(text(&ctl(&["list"]).stdout).contains("\"name\":\"hosts\",\"ask\":\"aggregate\""));
        let bytes = fs::read(example()).unwrap();
        std::io::Write::write_all(&mut input, &bytes).expect("it reads");
        // Of an aggregate that is removed, the rows so far are written.
        let began = Instant::now();
        while text(&ctl(&["list"]).stdout).is_empty() && began.elapsed() < Duration::from_secs(20) {}
        assert_eq!(ctl(&["remove", "gone"]).status.code(), Some(0));
        assert!(fs::read_to_string(&gone).unwrap().lines().count() <= 1);
        drop(input);
        assert!(running.wait().unwrap().success());
        assert_eq!(parsed(&fs::read_to_string(&hosts).unwrap()), rows("count() by ip.src every 1s", &["ip"]));
    }
}

#[test]
fn explain_shows_which_values_are_stored() {
    let set = |aggregate: &str| format!("aggregate={aggregate}");
    let of = |aggregate: &str, more: &[&str]| {
        answer(&[&["explain", "--wants", "aggregate", "--set", &set(aggregate)], more].concat(), 0)
    };
    let overview = of("count(), sum(frame.len), max(frame.len) by ip.src, dport", &[]);
    let values = overview.lines().find(|line| line.starts_with("values")).expect(&overview);
    assert!(values.contains(" ip.src, dport, frame.len "), "{values}");
    let graph = of("count() by ip.src", &["--stage", "opt"]);
    let outs: Vec<(&str, &str)> =
        graph.lines().filter_map(|line| line.strip_prefix("out")?.split_once(' ')).collect();
    let stored: Vec<&str> = outs
        .iter()
        .filter(|(number, _)| graph.contains(&format!("store out{number} ")))
        .map(|(_, name)| *name)
        .collect();
    assert_eq!(stored, ["values.known", "values.ip.src.low", "values.ip.src.high"], "{outs:?}");
    assert!(!answer(&["explain", "--wants", "packets"], 0).contains("\nvalues"));
}

/// Another engine over the same packets: DuckDB, over `weir packets -V`.
#[test]
fn duckdb_computes_the_same() {
    const SCRIPT: &str = r#"
import sys, json, duckdb
rows = []
for line in open(sys.argv[1]):
    packet = json.loads(line)
    row = dict(ts=packet["ts"], len=packet["length"])
    names = [layer["name"] for layer in packet["layers"]]
    end = next((at + 1 for at, pair in enumerate(zip(names, names[1:])) if pair in [("icmp", "ip"), ("icmpv6", "ipv6")]), len(names))
    for layer in packet["layers"][:end]:
        if layer["name"] == "ip":
            values = {field["name"]: field["value"] for field in layer["fields"]}
            row.update(src=values["ip.src"], ttl=values["ip.ttl"])
    rows.append((row["ts"], row["len"], row.get("src"), row.get("ttl")))
db = duckdb.connect()
db.execute("create table packets (ts double, len ubigint, src varchar, ttl ubigint)")
db.executemany("insert into packets values (?, ?, ?, ?)", rows)
for row in db.execute(sys.argv[2]).fetchall():
    print(json.dumps(row))
"#;
    let has_duckdb = Command::new("python3").args(["-c", "import duckdb"]).output();
    if !has_duckdb.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: python3 with the package duckdb is not installed");
        return;
    }
    let details = scratch("aggregate-details.json");
    fs::write(&details, answer(&["packets", "-V", "-r", &file(), "--format", "json"], 0)).unwrap();
    for (sql, aggregate, columns) in [
        (
            "select src, count(*), sum(len), min(len), max(len), avg(len), count(distinct ttl), count(ttl) \
             from packets group by src",
            "count() as a, sum(frame.len) as b, min(frame.len) as c, max(frame.len) as d, mean(frame.len) as e, \
             distinct(ip.ttl) as f, count(ip.ttl) as g by ip.src",
            &["ip.src", "a", "b", "c", "d", "e", "f", "g"][..],
        ),
        (
            "select floor(ts / 5) * 5, count(*), sum(len) from packets group by 1 having sum(len) >= 20000",
            "count() as a, sum(frame.len) as b every 5s having b >= 20000",
            &["ts", "a", "b"],
        ),
        (
            "select src, ttl, count(*) from packets where src is not null group by all order by 3 desc limit 3",
            "count() as a by ip.src, ip.ttl top 3",
            &["ip.src", "ip.ttl", "a"],
        ),
    ] {
        let output = Command::new("python3").args(["-c", SCRIPT]).arg(&details).arg(sql).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let shown = |cell: &Value| match cell.as_f64() {
            Some(number) => format!("{number:.6}"),
            None => cell.to_string(),
        };
        let mut expected: Vec<Vec<String>> = parsed(&text(&output.stdout))
            .iter()
            .map(|row| row.as_array().unwrap().iter().map(shown).collect())
            .collect();
        let filter: &[&str] = if sql.contains("where") { &["ip"] } else { &[] };
        let mut got: Vec<Vec<String>> = rows(aggregate, filter)
            .iter()
            .map(|row| columns.iter().map(|column| shown(&row[*column])).collect())
            .collect();
        expected.sort();
        got.sort();
        assert!(!got.is_empty());
        assert_eq!(got, expected, "{aggregate}");
    }
}
