//! Compares the reader with tshark on captures from other projects.
//!
//! The captures are not part of the project. `WEIR_TRACES` is their folder; the default is a folder beside
//! the project. If the folder does not exist, the test says so and passes. Each capture has its tshark
//! results in NAME.expect.json.

use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use weir_io::CaptureReader;
use weir_packet::{Burst, Poll, Source, SourceErrorKind};

/// Captures on which the reader and tshark cannot agree, and the reason.
const EXCEPTIONS: &[(&str, Kind, &str)] = &[
    ("libpcap/pcapng-invalid-vers-1.pcapng", Kind::Refused(SourceErrorKind::Unsupported), "version 0.1"),
    ("libpcap/pcapng-invalid-vers-2.pcapng", Kind::Refused(SourceErrorKind::Unsupported), "version 1.1"),
    ("libpcap/shb-option-too-long.pcapng", Kind::Refused(SourceErrorKind::Corrupt), "two lengths differ"),
    ("pcapng-test-generator/output_be__basic__test017.pcapng", Kind::NoPackets, "custom blocks only"),
    ("tcpdump/dsa.pcap", Kind::LinkUnknown, "link type 284"),
    (
        "tcpdump/timestamp_invalid_micro.pcap",
        Kind::Time,
        "a fraction of 2^31 microseconds: tshark shows what is left of it in 32 bits, we add it",
    ),
];

/// The expected difference from tshark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// tshark reports an error, and so does the reader, of this kind.
    Refused(SourceErrorKind),
    /// tshark does not know the link type. The number of packets must agree with tcpdump.
    LinkUnknown,
    /// tshark shows a block as a packet that does not contain one.
    NoPackets,
    /// A time is out of range; everything else agrees.
    Time,
}

/// The result of reading a capture.
#[derive(Debug, Default)]
struct Seen {
    packets: u64,
    wire_bytes: u64,
    captured_bytes: u64,
    first_time: Option<i64>,
    last_time: Option<i64>,
    links: Vec<u64>,
    error: Option<String>,
    kind: Option<SourceErrorKind>,
}

fn see(path: &Path) -> Seen {
    let (mut source, mut burst, mut seen) = (CaptureReader::open(&[path]), Burst::default(), Seen::default());
    loop {
        match source.poll(&mut burst) {
            Ok(Poll::End) => break,
            Ok(_) => {
                for packet in &burst.packets {
                    seen.packets += 1;
                    seen.wire_bytes += u64::from(packet.wire_bytes);
                    seen.captured_bytes += u64::from(packet.captured_bytes);
                    seen.first_time.get_or_insert(packet.time.0);
                    seen.last_time = Some(packet.time.0);
                }
            }
            Err(error) => {
                seen.kind = Some(error.kind);
                seen.error = Some(error.to_string());
            }
        }
    }
    seen.links = source.interfaces().iter().map(|i| u64::from(i.link.0)).collect();
    seen.links.sort_unstable();
    seen.links.dedup();
    seen
}

/// Nanoseconds of `1479375975.354415000`.
fn time_of(json: &Json) -> Option<i64> {
    let (seconds, fraction) = json.as_str()?.split_once('.')?;
    Some(seconds.parse::<i64>().ok()? * 1_000_000_000 + format!("{fraction:0<9}").parse::<i64>().ok()?)
}

/// The differences between `seen` and the expectation.
fn differences(seen: &Seen, expected: &Json) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: &str, ours: String, theirs: String| {
        if ours != theirs {
            found.push(format!("{what}: {ours}, expected {theirs}"));
        }
    };
    for (what, ours) in
        [("packets", seen.packets), ("wire_bytes", seen.wire_bytes), ("captured_bytes", seen.captured_bytes)]
    {
        compare(what, ours.to_string(), expected[what].to_string());
    }
    for (what, ours) in [("first_time", seen.first_time), ("last_time", seen.last_time)] {
        compare(what, format!("{ours:?}"), format!("{:?}", time_of(&expected[what])));
    }
    let links = serde_json::to_string(&seen.links).expect("numbers");
    compare("link types", links, expected["container"]["linktypes"].to_string());
    compare("error", format!("{:?}", seen.error), "None".to_owned());
    found
}

/// Whether the capture differs in the expected way only.
fn is_excused(kind: Kind, seen: &Seen, expected: &Json, found: &[String]) -> bool {
    match kind {
        Kind::Refused(error) => seen.kind == Some(error) && seen.packets == 0,
        Kind::LinkUnknown => {
            seen.error.is_none() && Some(seen.packets) == expected["tcpdump"]["packets"].as_u64()
        }
        Kind::NoPackets => seen.error.is_none() && seen.packets == 0,
        Kind::Time => found.iter().all(|f| f.contains("_time")),
    }
}

/// The files of expectations in `folder` and its subfolders.
fn expectations(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            expectations(&path, into);
        } else if path.to_string_lossy().ends_with(".expect.json") {
            into.push(path);
        }
    }
}

#[test]
fn every_capture_agrees_with_tshark() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("WEIR_TRACES").map_or(beside, PathBuf::from);
    let mut all = Vec::new();
    expectations(&folder, &mut all);
    all.sort();
    if all.is_empty() {
        eprintln!("skipped: no captures in {} (WEIR_TRACES names their folder)", folder.display());
        return;
    }
    let (mut wrong, mut excused) = (Vec::new(), 0);
    for path in &all {
        let expected: Json = serde_json::from_slice(&std::fs::read(path).expect("readable")).expect("JSON");
        let name = expected["file"].as_str().expect("a name");
        let seen = see(&path.with_file_name(name));
        let key = format!(
            "{}/{name}",
            path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy()
        );
        let found = differences(&seen, &expected);
        match EXCEPTIONS.iter().find(|e| e.0 == key) {
            Some(&(_, kind, why)) => {
                excused += 1;
                if found.is_empty() || !is_excused(kind, &seen, &expected, &found) {
                    wrong.push(format!("{key}: listed as {kind:?} ({why}), but: {found:?}"));
                }
            }
            None if found.is_empty() => {}
            None => wrong.push(format!("{key}: {}", found.join("; "))),
        }
    }
    eprintln!("{} captures, {excused} of them excused", all.len());
    assert!(wrong.is_empty(), "{} captures differ:\n{}", wrong.len(), wrong.join("\n"));
}
