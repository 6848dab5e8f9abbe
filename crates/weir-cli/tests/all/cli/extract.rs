//! `weir files --extract`: each content once, safely. `tshark` compares contents with those that tshark
//! exports.

use crate::cli::{answer, scratch, text_of, weir};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn shipped(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    path.to_str().expect("a path in UTF-8").to_string()
}

fn digest(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A new directory.
fn directory(name: &str) -> PathBuf {
    let path = scratch(name);
    let _ = fs::remove_dir_all(&path);
    path
}

fn extract(capture: &str, into: &Path, args: &[&str]) -> Vec<Json> {
    let all = [&["files", capture, "--format", "json", "--extract", into.to_str().unwrap()], args].concat();
    answer(&all, 0).lines().map(|row| serde_json::from_str(row).expect("a JSON line")).collect()
}

/// The files in a directory.
fn listing(of: &Path) -> BTreeSet<PathBuf> {
    let Ok(entries) = fs::read_dir(of) else { return BTreeSet::new() };
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

#[test]
fn every_content_is_written_once_and_its_row_names_it() {
    let into = directory("extract-all");
    let rows = extract(&shipped("sessions.pcap"), &into, &[]);
    let mut paths = BTreeMap::<String, u64>::new();
    for row in rows.iter().filter(|row| row["source"] != "SMB") {
        let path = Path::new(row["extracted"].as_str().unwrap_or_else(|| panic!("{row} has no file")));
        assert_eq!(fs::metadata(path).expect("it is written").len(), row["extracted_size"], "{row}");
        match row["sha256"].as_str() {
            Some(sha256) => {
                assert_eq!((digest(path).as_str(), &row["extracted_cutoff"]), (sha256, &Json::Bool(false)));
            }
            None => assert_eq!(row["extracted_cutoff"], true, "{row}"),
        }
        *paths.entry(row["extracted"].to_string()).or_default() += 1;
    }
    assert!(rows.iter().any(|row| row["source"] == "HTTP") && rows.iter().any(|row| row["source"] == "SMTP"));
    // Neither temporary files remain, nor files without a row.
    assert_eq!(listing(&into).len(), paths.len());
    let digests: BTreeSet<String> = listing(&into).iter().map(|path| digest(path)).collect();
    assert_eq!(digests.len(), paths.len(), "no content is there twice");
    assert!(paths.values().any(|rows| *rows > 1), "the capture repeats a content");
    // With workers, the rows and the names are the same.
    let again = directory("extract-again");
    let with_workers = extract(&shipped("sessions.pcap"), &again, &["-j", "3"]);
    let at =
        |rows: &[Json], of: &Path| serde_json::to_string(rows).unwrap().replace(of.to_str().unwrap(), "DIR");
    assert_eq!(at(&rows, &into), at(&with_workers, &again));
}

#[test]
fn zeeks_logs_come_with_the_same_contents() {
    let (logs, into, alone) =
        (directory("extract-logs"), directory("extract-zeek"), directory("extract-one"));
    let capture = shipped("sessions.pcap");
    let of = |path: &Path| path.to_str().unwrap().to_string();
    let args = ["zeek", &capture, "-d", &of(&logs), "--format", "json", "--extract", &of(&into)];
    answer(&args, 0);
    let log = fs::read_to_string(logs.join("files.log")).expect("files were seen");
    let rows: Vec<Json> = log.lines().map(|row| serde_json::from_str(row).expect("a JSON line")).collect();
    let expected = extract(&capture, &alone, &[]);
    let at =
        |rows: &[Json], of: &Path| serde_json::to_string(rows).unwrap().replace(of.to_str().unwrap(), "DIR");
    assert_eq!(at(&rows, &into), at(&expected, &alone));
    let names = |of: &Path| -> BTreeSet<_> {
        listing(of).iter().map(|path| (path.file_name().unwrap().to_owned(), digest(path))).collect()
    };
    assert!(!names(&into).is_empty() && names(&into) == names(&alone));
    // No other log has the column.
    let conn = fs::read_to_string(logs.join("conn.log")).expect("connections were seen");
    assert!(!conn.contains("extracted") && listing(&logs).len() > 3);
    let output = weir(&["zeek", &capture, "-d", &of(&logs), "--extract-max", "1k"]);
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
}

#[test]
fn only_the_files_of_shown_rows_are_written() {
    let capture = shipped("sessions.pcap");
    let all = extract(&capture, &directory("extract-every"), &[]);
    let kind = all.iter().find_map(|row| row["mime_type"].as_str()).expect("a known type");
    for filter in [format!("files.mime_type == \"{kind}\""), "http.response.code == 404".to_string()] {
        let into = directory("extract-some");
        let rows = extract(&capture, &into, &[&filter]);
        let paths: BTreeSet<PathBuf> =
            rows.iter().filter_map(|row| row["extracted"].as_str()).map(PathBuf::from).collect();
        assert_eq!(listing(&into), paths, "{filter}");
        assert!(rows.len() < all.len(), "{filter}");
    }
    let into = directory("extract-count");
    let count = answer(&["files", &capture, "--count", "--extract", into.to_str().unwrap()], 0);
    assert_eq!(count.trim(), all.len().to_string());
    assert!(!listing(&into).is_empty(), "counted rows are written, too");
}

#[test]
fn bounds_cut_contents_and_rows_say_so() {
    let into = directory("extract-bounded");
    let capture = shipped("sessions.pcap");
    let output = weir(&[
        "files",
        &capture,
        "--format",
        "json",
        "--extract",
        into.to_str().unwrap(),
        "--extract-max",
        "1k",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    assert!(text_of(&output).contains("are incomplete (--extract-max)"), "{}", text_of(&output));
    let bytes: u64 = listing(&into).iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!((1..=1024).contains(&bytes), "{bytes}");
    let rows = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(rows.lines().any(|row| row.contains("\"extracted_cutoff\":true")), "{rows}");
    let output = weir(&["files", &capture, "--extract-max", "1k"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text_of(&output).contains("--extract"), "{}", text_of(&output));
}

#[test]
fn links_and_inputs_are_not_replaced() {
    let into = directory("extract-links");
    let capture = shipped("sessions.pcap");
    let rows = extract(&capture, &into, &[]);
    let path = Path::new(rows.iter().find_map(|row| row["extracted"].as_str()).expect("a file"));
    let other = scratch("extract-other");
    fs::write(&other, "precious").unwrap();
    fs::remove_file(path).unwrap();
    std::os::unix::fs::symlink(&other, path).unwrap();
    let again = || weir(&["files", &capture, "--extract", into.to_str().unwrap()]);
    let output = again();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text_of(&output).contains("a symbolic link, which is not replaced"), "{}", text_of(&output));
    assert_eq!(fs::read(&other).unwrap(), b"precious");
    fs::remove_file(path).unwrap();
    let copy = into.join("copy.pcap");
    fs::copy(&capture, &copy).unwrap();
    fs::hard_link(&copy, path).unwrap();
    let output = weir(&["files", copy.to_str().unwrap(), "--extract", into.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text_of(&output).contains("an input file: write to another directory"), "{}", text_of(&output));
    assert_eq!(digest(&copy), digest(Path::new(&capture)));
}

#[test]
fn a_full_disk_is_an_error() {
    let into = directory("extract-full");
    fs::create_dir_all(&into).unwrap();
    let script =
        "mount -t tmpfs -o size=8k none \"$1\" || exit 77; \"$2\" files \"$3\" --extract \"$1\" > /dev/null";
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", script, "sh", into.to_str().unwrap(), env!("CARGO_BIN_EXE_weir")]);
    let Ok(output) = command.arg(shipped("sessions.pcap")).output() else { return };
    if matches!(output.status.code(), Some(77 | 1)) {
        eprintln!("no namespace for a small disk: {}", text_of(&output));
        return;
    }
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    assert!(text_of(&output).contains("No space left on device"), "{}", text_of(&output));
}

#[test]
fn a_run_extracts_for_one_question_that_it_begins_with() {
    let (into, file) = (directory("extract-run"), scratch("extract-run.toml"));
    let question = |name: &str| {
        format!("[[question]]\nname = \"{name}\"\nask = \"files\"\nextract = \"{}\"\n", into.display())
    };
    fs::write(&file, question("one")).unwrap();
    let capture = shipped("sessions.pcap");
    answer(&["run", file.to_str().unwrap(), "-r", &capture], 0);
    assert!(!listing(&into).is_empty());
    fs::write(&file, question("one") + &question("two")).unwrap();
    let output = weir(&["run", file.to_str().unwrap(), "-r", &capture]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text_of(&output).contains("one question of a run may have `extract`"), "{}", text_of(&output));
}

#[test]
fn followed_bodies_are_the_extracted_ones() {
    let (into, capture) = (directory("extract-followed"), shipped("sessions.pcap"));
    let mut decoded = 0;
    // Behind an upgrade to HTTP/2, the body comes in frames.
    for row in extract(&capture, &into, &["http.version == \"1.1\" and not tcp.port == 8081"]) {
        let content = fs::read(row["extracted"].as_str().expect("a path")).unwrap();
        let uid = row["uid"].as_str().unwrap();
        let follow = |args: &[&str]| weir(&[&["follow", &capture, uid, "--as", "raw"], args].concat()).stdout;
        let holds =
            |shown: &[u8]| content.is_empty() || shown.windows(content.len()).any(|part| part == content);
        assert!(holds(&follow(&["--decode"])), "{row}");
        decoded += u64::from(!holds(&follow(&[])));
    }
    assert!(decoded > 0, "the capture has chunked or compressed bodies");
}
