//! Formats that programs read: columns (Parquet, Arrow) and Suricata's EVE.

use crate::cli::{answer, example, scratch, text, weir};
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

fn file() -> String {
    example().to_str().expect("a path of text").to_string()
}

fn counted(question: &str) -> usize {
    answer(&[question, "-r", &file(), "--count"], 0).trim().parse().expect("a number alone")
}

/// Rows of a Parquet file, and its columns.
pub fn parquet_rows(path: &Path) -> (usize, Vec<String>) {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let about = reader.metadata().file_metadata();
    let names = about.schema().get_fields().iter().map(|field| field.name().to_string());
    (about.num_rows() as usize, names.collect())
}

pub fn arrow_rows(path: &Path) -> usize {
    let reader = arrow_ipc::reader::StreamReader::try_new(File::open(path).unwrap(), None).unwrap();
    reader.map(|batch| batch.unwrap().num_rows()).sum()
}

/// All files in a directory and its subdirectories.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

#[test]
fn columns_have_the_rows_that_count_says() {
    for question in ["flows", "dns", "sessions", "packets", "events", "stats"] {
        let (parquet, arrow) =
            (scratch(&format!("{question}.parquet")), scratch(&format!("{question}.arrow")));
        for (format, path) in [("parquet", &parquet), ("arrow", &arrow)] {
            answer(&[question, "-r", &file(), "--format", format, "-o", path.to_str().unwrap()], 0);
        }
        let rows = answer(&[question, "-r", &file(), "--format", "json"], 0).lines().count();
        if !["stats"].contains(&question) {
            assert_eq!(rows, counted(question), "{question}");
        }
        let (of_parquet, names) = parquet_rows(&parquet);
        assert_eq!((of_parquet, arrow_rows(&arrow)), (rows, rows), "{question}");
        assert!(names.iter().any(|name| name == "ts"), "{names:?}");
        // A pipe receives the same bytes.
        let piped = weir(&[question, "-r", &file(), "--format", "parquet"]).stdout;
        assert!(piped == fs::read(&parquet).unwrap(), "{question}");
    }
}

/// A user's columns are in every format, with their types.
#[test]
fn columns_of_ends_are_in_all_formats() {
    let stack = scratch("ends.weir");
    let declared = "extend tcp with ends {
        each side { sent: u32 }   vars { started: time = packet.time   wait: interval }
        count { me.sent += 1   if responder and wait == 0 { wait = packet.time - started } }
        event ended on end { mine = me.sent, yours = peer.sent, state, started, wait }
    }";
    fs::write(&stack, declared).unwrap();
    let of = |question: &[&str], format: &str| {
        let stack = stack.to_str().unwrap();
        answer(&[question, &["-r", &file(), "--stack", stack, "--format", format]].concat(), 0)
    };
    let rows: Vec<serde_json::Value> =
        of(&["flows", "tcp"], "json").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.len() > 2);
    for row in &rows {
        assert_eq!((&row["mine"], &row["yours"]), (&row["orig_pkts"], &row["resp_pkts"]), "{row}");
        assert_eq!(row["started"], row["ts"], "{row}");
        assert!(row["wait"].as_f64().is_none_or(|wait| wait <= row["duration"].as_f64().unwrap()), "{row}");
        assert!(row["state"].is_string(), "{row}");
    }
    assert!(rows.iter().any(|row| row["wait"].is_f64()));
    // Rows of other layers have no value.
    let udp = of(&["flows", "udp"], "json");
    assert!(!udp.is_empty() && !udp.contains("\"mine\""), "{udp}");
    let csv = of(&["flows"], "csv");
    assert!(csv.lines().next().unwrap().contains("mine,yours,state,started,wait"), "{csv}");
    let zeek = of(&["flows"], "zeek");
    assert!(zeek.contains("\tmine\tyours\tstate\tstarted\twait"), "{zeek}");
    assert!(zeek.contains("\tcount\tcount\tstring\ttime\tinterval"), "{zeek}");
    let eve: serde_json::Value =
        serde_json::from_str(of(&["flows", "tcp"], "eve").lines().next().unwrap()).unwrap();
    assert!(eve["flow"]["mine"].is_u64() && eve["flow"]["wait"].is_f64(), "{eve}");
    let parquet = scratch("ends.parquet");
    fs::write(
        &parquet,
        weir(&["flows", "-r", &file(), "--stack", stack.to_str().unwrap(), "--format", "parquet"]).stdout,
    )
    .unwrap();
    let (count, names) = parquet_rows(&parquet);
    assert!(
        count > rows.len()
            && ["mine", "state", "wait"].iter().all(|name| names.iter().any(|known| known == name))
    );
    // Rows of events are the same, without connections of other layers; `-e` alone asks for them.
    let events = of(&["events", "-e", "tcp.ended"], "json");
    assert_eq!(events.lines().count(), rows.len());
    assert!(!of(&["events"], "json").contains("tcp.ended"));
    let some = rows.iter().filter(|row| row["mine"].as_u64() > Some(5)).count();
    assert!(some > 0 && some < rows.len());
    for filter in ["tcp.ended.mine > 5", "conn.mine > 5", "ended.mine > 5"] {
        assert_eq!(of(&["flows", filter], "json").lines().count(), some, "{filter}");
    }
}

#[test]
fn a_directory_has_a_file_for_each_hour() {
    let lake = scratch("lake/");
    let _ = fs::remove_dir_all(&lake);
    let rows = |question: &str| {
        answer(&[question, "-r", &file(), "--format", "parquet", "-o", lake.to_str().unwrap()], 0);
        let files = files(&lake);
        assert!(files.iter().all(|file| file.to_str().unwrap().contains("/date=2026-")), "{files:?}");
        files.iter().map(|file| parquet_rows(file).0).sum::<usize>()
    };
    assert_eq!(rows("flows"), counted("flows"));
    let first = files(&lake);
    assert!(first.iter().all(|file| file.ends_with("part-0.parquet")), "{first:?}");
    // Another run adds its rows.
    assert_eq!(rows("flows"), 2 * counted("flows"));
    let refused = weir(&["flows", "-r", &file(), "--format", "csv", "-o", lake.to_str().unwrap()]);
    assert!(text(&refused.stderr).contains("--format parquet or arrow or packed"), "{refused:?}");
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn packed_rows_are_those_of_other_formats() {
    let bytes = weir(&["records", "-r", &file(), "--format", "packed"]).stdout;
    let json = weir(&["records", "-r", &file(), "--format", "json"]).stdout;
    let mut reader = weir::io::packed::Reader::new(&bytes[..]).unwrap();
    let names: Vec<String> = reader.columns().iter().map(|column| column.name.to_string()).collect();
    let (iat, len) =
        (names.iter().position(|name| name == "iat"), names.iter().position(|name| name == "len"));
    let (iat, len) = (iat.unwrap(), len.unwrap());
    assert!(reader.columns()[len].doc.contains("each packet"));
    let mut lists = vec![];
    while let Some(batch) = reader.read().unwrap() {
        let row = |row: weir_packet::Row<'_>| match (row.cell(iat), row.cell(len)) {
            (weir_packet::Cell::Numbers(iat), weir_packet::Cell::Numbers(len)) => {
                [iat.to_vec(), len.to_vec()]
            }
            other => panic!("{other:?}"),
        };
        lists.extend(batch.iter().map(row));
    }
    let expected: Vec<[Vec<u64>; 2]> = text(&json)
        .lines()
        .map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            let list = |name: &str| serde_json::from_value(row[name].clone()).unwrap();
            [list("iat"), list("len")]
        })
        .collect();
    assert!(lists.len() > 50 && bytes.len() * 3 < json.len(), "{} {}", bytes.len(), json.len());
    assert_eq!(lists, expected);
    // Columns whose values have several types have all of them.
    let sessions = [&["sessions", "-r", "../../examples/sessions.pcap", "--format"][..]];
    let rows = text(&weir(&[sessions[0], &["json"]].concat()).stdout);
    let packed = weir(&[sessions[0], &["packed"]].concat()).stdout;
    let present = rows.lines().map(|line| serde_json::from_str::<serde_json::Map<_, _>>(line).unwrap().len());
    let mut reader = weir::io::packed::Reader::new(&packed[..]).unwrap();
    let mut stored = 0;
    while let Some(batch) = reader.read().unwrap() {
        stored += batch.iter().flat_map(|row| row.iter()).filter(|cell| cell.is_present()).count();
    }
    assert_eq!(stored, present.sum::<usize>());
    // The name of a file selects the format.
    let path = scratch("rows.packed");
    answer(&["records", "-r", &file(), "-o", path.to_str().unwrap()], 0);
    assert_eq!(fs::read(path).unwrap(), bytes);
}

#[test]
fn eves_lines_are_events() {
    for (question, event) in [("flows", "flow"), ("dns", "dns"), ("tls", "tls"), ("http", "http")] {
        let lines = answer(&[question, "-r", &file(), "--format", "eve"], 0);
        assert_eq!(lines.lines().count(), counted(question), "{question}");
        for line in lines.lines() {
            let got: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
            assert_eq!(got["event_type"], event);
            assert!(got[event].is_object() && got["flow_id"].is_u64(), "{line}");
            assert!(got["timestamp"].as_str().is_some_and(|at| at.ends_with("+0000")), "{line}");
            for key in ["src_ip", "dest_ip", "proto"] {
                assert!(got[key].is_string(), "{key}: {line}");
            }
            assert!(got["src_port"].is_u64() || got["icmp_type"].is_u64(), "{line}");
        }
    }
    let refused = weir(&["packets", "-r", &file(), "--format", "eve"]);
    assert!(text(&refused.stderr).contains("--format json"), "{refused:?}");
}

#[test]
fn sessions_in_eve_are_those_of_each_log_and_belong_to_their_flows() {
    let events = |question: &str| -> Vec<serde_json::Value> {
        let lines = answer(&[question, "-r", &file(), "--format", "eve"], 0);
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let flows: Vec<_> = events("flows").iter().map(|flow| flow["flow_id"].as_u64()).collect();
    let mut by_type: BTreeMap<String, usize> = BTreeMap::new();
    for event in events("sessions") {
        assert!(flows.contains(&event["flow_id"].as_u64()), "{event}");
        *by_type.entry(event["event_type"].as_str().unwrap().to_string()).or_default() += 1;
    }
    for (event, question) in [("tls", "tls"), ("dns", "dns"), ("http", "http")] {
        assert_eq!(by_type.get(event), Some(&counted(question)), "{by_type:?}");
    }
}

#[test]
fn questions_of_a_file_and_zeeks_logs_may_be_columns() {
    let dir = scratch("columns");
    let _ = fs::remove_dir_all(&dir);
    answer(&["zeek", "-r", &file(), "-d", dir.to_str().unwrap(), "--format", "parquet"], 0);
    assert_eq!(parquet_rows(&dir.join("conn.parquet")).0, counted("flows"));
    assert_eq!(parquet_rows(&dir.join("dns.parquet")).0, counted("dns"));
    assert!(!dir.join("quic.parquet").exists(), "no QUIC in the capture");

    let (questions, lake) = (dir.join("questions.toml"), dir.join("lake/"));
    let of = |output: &str| {
        let text = format!("[[question]]\nname = \"a\"\nask = \"dns\"\nformat = \"arrow\"\n{output}");
        fs::write(&questions, text).unwrap();
        weir(&["run", questions.to_str().unwrap(), "-r", &file()])
    };
    let answered = of(&format!("output = {lake:?}\n"));
    assert_eq!((text(&answered.stderr).as_str(), answered.status.code()), ("", Some(0)));
    assert_eq!(files(&lake).iter().map(|file| arrow_rows(file)).sum::<usize>(), counted("dns"));
    let refused = text(&of("").stderr);
    assert!(refused.contains("arrow needs an `output`"), "{refused}");
}

#[test]
fn every_event_of_eve_says_what_carries_it() {
    let events = |file: &str, args: &[&str]| -> Vec<serde_json::Value> {
        let all = [args, &["-r", file, "--format", "eve"]].concat();
        let read = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        answer(&all, 0).lines().map(read).collect()
    };
    let mut types: BTreeMap<String, usize> = BTreeMap::new();
    for name in ["sessions.pcap", "services.pcap"] {
        let file = format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"));
        let flows = events(&file, &["flows"]);
        let carriers: BTreeMap<String, &serde_json::Value> =
            flows.iter().map(|flow| (flow["flow_id"].to_string(), &flow["proto"])).collect();
        let all = events(&file, &["sessions"]);
        for event in &all {
            let carrier = carriers.get(&event["flow_id"].to_string());
            assert_eq!(carrier, Some(&&event["proto"]), "{event}");
            *types.entry(event["event_type"].as_str().expect("text").to_string()).or_default() += 1;
        }
        // Questions for a single log give the same events.
        for log in ["mqtt", "kerberos", "sip", "dns", "tls"] {
            for event in events(&file, &[log]) {
                assert!(all.contains(&event), "{log}: {event}");
            }
        }
        for event in events(&file, &["files"]).iter().chain(&events(&file, &["x509"])) {
            assert!(["TCP", "UDP"].contains(&event["proto"].as_str().unwrap_or_default()), "{event}");
        }
    }
    for name in ["tls", "http", "dns", "mqtt", "pgsql", "sip"] {
        assert!(types.contains_key(name), "{name}: {types:?}");
    }
}

/// A name promises a format; a file that holds another one is an error of the program that reads it.
#[test]
fn endings_that_no_format_has_are_refused() {
    let file = example();
    for (name, said) in [
        ("endings.json.xz", "for `.xz`, pipe"),
        ("endings.parquet.gz", "leave `.gz` out"),
        ("endings.xlsx", "there are .json"),
        ("endings.gz", "or give --format"),
    ] {
        let output = weir(&["flows", file.to_str().unwrap(), "-o", scratch(name).to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(text(&output.stderr).contains(said), "{name}: {}", text(&output.stderr));
        assert!(!scratch(name).exists());
    }
    let args = ["packets", file.to_str().unwrap(), "-w"];
    let of = |name: &str| weir(&[&args[..], &[scratch(name).to_str().unwrap()]].concat());
    assert!(of("endings.cap").status.success());
    let magic = std::fs::read(scratch("endings.cap")).unwrap()[..4].to_vec();
    assert_eq!(magic[2..], [0xb2, 0xa1], "{magic:x?}");
    for (name, format) in [("endings.tsv", "csv"), ("endings.2024-01-02", "json")] {
        let path = scratch(name);
        assert!(
            weir(&["flows", file.to_str().unwrap(), "--format", format, "-o", path.to_str().unwrap()])
                .status
                .success()
        );
    }
}

fn plain(path: &Path) -> Vec<u8> {
    use std::io::Read;
    let (bytes, mut plain) = (fs::read(path).unwrap(), vec![]);
    match path.extension().unwrap().to_str().unwrap() {
        "zst" => zstd::Decoder::new(&bytes[..]).unwrap().read_to_end(&mut plain).unwrap(),
        _ => flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut plain).unwrap(),
    };
    plain
}

#[test]
fn a_name_that_promises_compression_gets_it() {
    let file = file();
    for (name, format) in
        [("z.json.gz", "json"), ("z.csv.zst", "csv"), ("z.tsv.gz", "tsv"), ("z.log.zst", "zeek")]
    {
        let path = scratch(name);
        answer(&["flows", "-r", &file, "-o", path.to_str().unwrap()], 0);
        let shown = answer(&["flows", "-r", &file, "--format", format], 0);
        // The times of the run are in the header of Zeek's logs.
        let rows = |text: &str| -> Vec<String> {
            text.lines()
                .filter(|line| !line.starts_with("#open") && !line.starts_with("#close"))
                .map(str::to_string)
                .collect()
        };
        assert_eq!(rows(&String::from_utf8(plain(&path)).unwrap()), rows(&shown), "{name}");
        // Without an answer, there is an empty file of its kind.
        answer(&["flows", "-r", &file, "tcp.port == 1", "--format", "json", "-o", path.to_str().unwrap()], 0);
        assert!(plain(&path).is_empty(), "{name}");
    }
    for name in ["z.pcap.gz", "z.pcapng.zst", "z.pcap.lz4"] {
        let path = scratch(name);
        answer(&["packets", "-r", &file, "-w", path.to_str().unwrap(), "udp"], 0);
        let count = |file: &str| answer(&["packets", "-r", file, "udp", "--count"], 0);
        assert_eq!(count(path.to_str().unwrap()), count(&file), "{name}");
    }
}

#[test]
fn files_of_a_sequence_are_compressed_and_keep_their_endings() {
    let place = tempfile::tempdir().unwrap();
    let output = place.path().join("conn.json.gz");
    answer(&["flows", "-r", &file(), "--rotate", "2s", "-o", output.to_str().unwrap()], 0);
    let all = files(place.path());
    assert!(all.len() > 1 && all.iter().all(|path| path.to_string_lossy().ends_with(".json.gz")), "{all:?}");
    let rows: usize = all.iter().map(|path| plain(path).split(|byte| *byte == b'\n').count() - 1).sum();
    assert_eq!(rows, counted("flows"));
}

#[test]
fn tabs_separate_and_local_times_are_texts() {
    let first = |args: &[&str]| {
        let all = answer(&[&["flows", "-r", &file()], args].concat(), 0);
        all.lines().nth(1).unwrap().to_string()
    };
    let (csv, tsv) = (first(&["--format", "csv"]), first(&["--format", "tsv"]));
    assert_eq!(tsv.replace('\t', ","), csv);
    for format in ["json", "csv", "tsv"] {
        let row = first(&["--format", format, "--local"]);
        let (date, rest) = row.split_once('T').expect("a time as text");
        assert!(date.ends_with(|c: char| c.is_ascii_digit()) && rest[8..].starts_with('.'), "{row}");
    }
}
