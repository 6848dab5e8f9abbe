//! The modules in `examples/scripts`.

use crate::scripts::traffic::{Datagram, capture};
use crate::scripts::{FIRST_LIGHT, MODES, SCRIPTS, folder, number, rows, sorted, weir};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn path(name: &str) -> String {
    format!("{SCRIPTS}/{name}.lua")
}

/// The two ends of a row, in one order.
fn ends(row: &Value) -> String {
    let mut ends = [format!("{} {}", row["src"], row["sport"]), format!("{} {}", row["dst"], row["dport"])];
    ends.sort();
    format!("{ends:?} {}", row["proto"])
}

#[test]
fn each_module_is_short_and_gives_the_same_rows_with_and_without_trust() {
    let files = fs::read_dir(SCRIPTS).expect("the examples");
    let names: Vec<String> = files.map(|file| file.expect("a file").path().display().to_string()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    for name in names {
        let lines = fs::read_to_string(&name).expect("a script").lines().count();
        assert!(lines <= 60, "{name} has {lines} lines");
        let [without, with] = MODES.map(|mode| sorted(&[&["script", &name, FIRST_LIGHT], mode].concat()));
        assert_eq!(without, with, "{name}");
    }
}

#[test]
fn records_have_the_packets_and_bytes_that_an_aggregate_counts() {
    let mut expected: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let aggregate = "count(), sum(frame.len) as bytes by 5tuple";
    for row in rows(&["aggregate", aggregate, FIRST_LIGHT]).iter().filter(|row| !row["proto"].is_null()) {
        let sums = expected.entry(ends(row)).or_default();
        *sums = (sums.0 + number(row, "count"), sums.1 + number(row, "bytes"));
    }
    for mode in MODES {
        for workers in ["1", "3"] {
            let file = path("statistics");
            let mut found: BTreeMap<String, (u64, u64)> = BTreeMap::new();
            for row in rows(&[&["script", &file, FIRST_LIGHT, "-j", workers], mode].concat()) {
                let sums = found.entry(ends(&row)).or_default();
                *sums = (sums.0 + number(&row, "packets"), sums.1 + number(&row, "bytes"));
            }
            assert_eq!(found, expected, "-j {workers} {mode:?}");
        }
    }
}

#[test]
fn records_end_when_flows_are_idle_and_continue_while_they_go_on() {
    let folder = folder();
    // A packet of one flow each millisecond, for 90 s; of another one only at the beginning.
    let of = |port| Datagram { from: (1, port), to: (2, 53), ttl: 64, payload: b"x" };
    let mut datagrams: Vec<Datagram<'_>> = (0..90_000).map(|_| of(1000)).collect();
    datagrams[0] = of(2000);
    let capture = capture(folder.path(), &datagrams);
    let rows = rows(&["script", &path("statistics"), "--trust", &capture]);
    let by_reason = |reason: &str| rows.iter().filter(|row| row["reason"] == reason).collect::<Vec<_>>();
    let idle = by_reason("idle");
    assert_eq!((idle.len(), number(idle[0], "packets"), number(idle[0], "sport")), (1, 1, 2000), "{rows:?}");
    assert!(!by_reason("active").is_empty() && by_reason("end").len() == 1, "{rows:?}");
    assert_eq!(rows.iter().map(|row| number(row, "packets")).sum::<u64>(), 90_000);
}

#[test]
fn a_changed_ttl_is_a_row_and_a_dump_has_the_whole_flow() {
    let folder = folder();
    let of = |port, ttl| Datagram { from: (1, port), to: (2, 53), ttl, payload: b"question" };
    let back = |port, ttl| Datagram { from: (2, 53), to: (1, port), ttl, payload: b"answer" };
    let traffic = [
        of(1000, 64),
        back(1000, 61),
        of(2000, 64),
        of(1000, 64),
        of(1000, 57),
        back(1000, 61),
        of(2000, 64),
    ];
    let capture = capture(folder.path(), &traffic);
    for mode in MODES {
        // Not in the directory for temporary files, where every run may write.
        let dumps = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("dumps{}", mode.len()));
        let _ = fs::remove_dir_all(&dumps);
        let directory = dumps.to_str().expect("UTF-8");
        let file = path("ttl");
        let rows = rows(&[&["script", &file, &capture, "--dumps", directory], mode].concat());
        assert_eq!(rows.len(), 1, "{rows:?}");
        let row = &rows[0];
        let found = ["src", "dst", "sport", "dport", "before", "ttl"].map(|column| row[column].to_string());
        assert_eq!(found, ["\"10.0.0.1\"", "\"10.0.0.2\"", "1000", "53", "64", "57"]);
        let files: Vec<_> =
            fs::read_dir(&dumps).expect("dumps").map(|file| file.expect("a file").path()).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        let counted = weir(&["packets", files[0].to_str().expect("UTF-8"), "--count"]);
        assert_eq!(
            crate::scripts::text(&counted.stdout).trim(),
            "5",
            "all packets of the flow, both directions"
        );
    }
}

#[test]
fn a_connection_of_quic_that_moves_is_one_flow() {
    let folder = folder();
    let short = |id: u8| [&[0x40][..], &[id; 8], &[0; 20]].concat();
    let long = |id: u8| [&[0xc0, 0, 0, 0, 1, 8][..], &[id; 8], &[0; 20]].concat();
    let of = |from, payload| Datagram { from, to: (2, 443), ttl: 64, payload };
    let (first, later, other) = (long(7), short(7), short(9));
    let traffic = [
        of((1, 1000), &first),
        of((1, 1000), &later),
        of((3, 2000), &other),
        of((1, 3000), &later),
        of((1, 3000), &later),
    ];
    let capture = capture(folder.path(), &traffic);
    for mode in MODES {
        let rows = rows(&[&["script", &path("quic"), &capture], mode].concat());
        let events: Vec<_> =
            rows.iter().map(|row| (row["event"].to_string(), row["id"].to_string())).collect();
        let [seven, nine] = ["\"0707070707070707\"", "\"0909090909090909\""];
        let expected = [("\"migration\"", seven), ("\"flow\"", seven), ("\"flow\"", nine)];
        let expected = expected.map(|(event, id)| (event.to_string(), id.to_string()));
        assert_eq!(events, expected, "{mode:?}");
        assert_eq!((number(&rows[0], "port"), number(&rows[1], "packets")), (3000, 4));
        assert_eq!((number(&rows[1], "migrations"), number(&rows[2], "migrations")), (1, 0));
        assert_eq!(rows[0]["address"], "10.0.0.1");
    }
}
