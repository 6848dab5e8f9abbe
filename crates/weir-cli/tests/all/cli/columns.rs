//! Columns that are not shown are not computed. Those that are shown have the values that they have among
//! all.

use crate::cli::{answer, text, weir};
use serde_json::{Map, Value};
use std::path::Path;

/// The rows of a question, without columns that have no value.
fn rows(words: &[&str]) -> Vec<Map<String, Value>> {
    let text = answer(&[words, &["--format", "json"]].concat(), 0);
    text.lines().map(|line| serde_json::from_str(line).expect("an object for each row")).collect()
}

#[test]
fn shown_columns_have_the_values_that_they_have_among_all() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let captures =
        ["first-light.pcap", "sessions.pcap"].map(|name| examples.join(name).display().to_string());
    for (log, columns, filter) in [
        ("flows", "uid,service", ""),
        ("tls", "ja4,server_name", ""),
        ("tls", "id.resp_h", "tls.sni contains \"example\""),
        ("http", "method,resp_fuids", ""),
        ("dns", "answers,ts", ""),
        // The rows of these are chosen by columns that are not shown.
        ("x509", "certificate.subject", "x509.version == 3"),
        ("files", "fuid,mime_type", "files.total_bytes > 100"),
        ("sessions", "_path,server_name,host", ""),
        ("packets", "layers", ""),
        ("packets", "length,number", ""),
        ("packets", "info", "udp"),
    ] {
        let question = [log, "-r", &captures[0], &captures[1], "-Y", filter];
        let names: Vec<&str> = columns.split(',').collect();
        let mut all = rows(&question);
        all.iter_mut().for_each(|row| row.retain(|name, _| names.contains(&name.as_str())));
        assert!(!all.is_empty(), "{log} has rows");
        assert_eq!(rows(&[&question[..], &["--columns", columns]].concat()), all, "{log}: {columns}");
    }
}

/// The example with a call between two telephones.
fn with_a_call() -> String {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    examples.join("services.pcap").display().to_string()
}

/// The call of a stream is a column, which needs the messages of SIP: nobody else pays for these.
#[test]
fn the_call_of_a_stream_is_found_where_it_is_shown() {
    let capture = with_a_call();
    let flows = |words: &[&str]| {
        let output = weir(&[&["rtp", "-r", &capture, "--stats"], words].concat());
        assert!(output.status.success());
        let lines = text(&output.stderr);
        let line =
            lines.lines().find(|line| line.starts_with("flows_created")).expect("a counter").to_string();
        (text(&output.stdout).to_string(), line)
    };
    let (calls, all) = flows(&["--columns", "call_id", "--format", "csv"]);
    assert_eq!(calls.lines().count(), 5, "{calls}");
    assert!(calls.lines().skip(1).all(|call| call.len() == 16), "{calls}");
    let (count, counted) = flows(&["--count"]);
    assert_eq!(count.trim(), "4");
    let (_, others) = flows(&["--columns", "ssrc"]);
    assert_eq!(counted, others);
    assert_ne!(all, others);
}

#[test]
fn values_that_only_rows_have_are_no_conditions_and_no_keys() {
    let capture = with_a_call();
    for command in ["rtp", "sessions", "flows", "packets"] {
        let output = weir(&[command, "-r", &capture, "-Y", "rtp.call_id == \"x\""]);
        assert!(text(&output.stderr).contains("W0119"), "{command}: {}", text(&output.stderr));
    }
    let output = weir(&["aggregate", "count() by call_id", "--of", "rtp", "-r", &capture]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("do not know the column `call_id`"), "{}", text(&output.stderr));
}
