//! Columns that are not shown are not computed. Those that are shown have the values that they have among
//! all.

use crate::cli::answer;
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
