//! Protocols of connections by the system's nDPI: they are those of nDPI's own program, `ndpiReader`, over
//! the captures of the project, nDPI's captures among the shared ones, and a sample of the others.

use crate::cli::{answer, example, scratch, text, text_of, weir};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_testing::tshark::captures;

/// Of the shared captures that are not nDPI's, every so many are in the sample.
const SAMPLED: usize = 6;

/// The transport protocols of connections, as `ndpiReader` and `weir flows` name them.
const PROTOCOLS: &[(&str, &str)] =
    &[("TCP", "tcp"), ("UDP", "udp"), ("ICMP", "icmp"), ("ICMPV6", "icmp"), ("132", "sctp")];

/// The known differences: the end of a capture's path, their number, the reason.
const KNOWN: &[(&str, usize, &str)] = &[
    (
        "examples/services.pcap",
        1,
        "decided later: ndpiReader guesses at the end of the capture, when nDPI has seen more hosts",
    ),
    ("ndpi/ip_fragmented_garbage.pcap", 1, "fragments: ndpiReader takes each for a packet, without ports"),
    ("ndpi/quic-fuzz-overflow.pcapng", 1, "bad header: the datagram is longer than its packet"),
    (
        "Pcap++Test__PcapExamples__frag_http_req.pcap",
        1,
        "fragments: the one that completes the datagram has no ports",
    ),
    ("suricata-verify/defrag__bug-6887-defrag-ipv4-tcp-syn__frag-ip-tcp-syn.pcap", 1, "fragments: as above"),
    ("suricata-verify/ipv6-evasion__ipv6-malformed-fragments-26__frag-26.pcap", 1, "fragments: as above"),
    ("zeek/ipv4__fragmented-2.pcap", 1, "fragments: the datagram is incomplete"),
];

/// Whether the library is installed. If not, says so.
fn is_installed(test: &str) -> bool {
    let missing = weir_libraries::ndpi::version().err();
    if let Some(missing) = &missing {
        eprintln!("skipped: {test}: {missing}");
    }
    missing.is_none()
}

/// A flow: its transport protocol and its ends, the smaller one first.
type Key = (&'static str, [String; 2]);

/// The results for a flow: protocols, category, risks.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    protocol: String,
    category: String,
    risks: Vec<String>,
}

fn key(proto: &str, ends: [String; 2]) -> Option<Key> {
    let (_, proto) = PROTOCOLS.iter().find(|(theirs, ours)| [*theirs, *ours].contains(&proto))?;
    let mut ends = ends;
    ends.sort();
    Some((*proto, ends))
}

/// The flows of a line of `ndpiReader -v 2`:
/// `TCP 192.0.2.1:1024 <-> 192.0.2.2:80 [proto: 7/HTTP]…[cat: Web/5]…[Risk: ** XSS Attack **]…`.
fn flow_of_line(line: &str) -> Option<(Key, Found)> {
    let mut words = line.split('\t').nth(2)?.split(' ');
    let (proto, from, arrow, to) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let between = |start: &str, end: char| {
        let rest = line.split_once(start)?.1;
        Some(rest.split_once(end)?.0.to_string())
    };
    if !["<->", "->"].contains(&arrow) {
        return None;
    }
    // Protocols without ports have none in the text, or 0.
    let end = |text: &str| match text.rsplit_once(':') {
        Some((host, port)) if host.starts_with('[') || !host.contains(':') => {
            format!("{} {port}", host.trim_matches(['[', ']']))
        }
        _ => format!("{} 0", text.trim_matches(['[', ']'])),
    };
    let protocol = between("[proto: ", ']')?;
    let risks = between("[Risk: ", ']').unwrap_or_default();
    let risks = risks.split("**").map(|risk| risk.trim().to_string()).filter(|risk| !risk.is_empty());
    let mut risks: Vec<String> = risks.collect();
    risks.sort();
    let category = between("[cat: ", '/').unwrap_or_default();
    let found = Found { protocol: protocol.split_once('/')?.1.to_string(), category, risks };
    Some((key(proto, [end(from), end(to)])?, found))
}

/// The flows by `ndpiReader`; `None` if the program is not installed.
fn reader(capture: &Path) -> Option<BTreeMap<Key, Vec<Found>>> {
    let output = Command::new("ndpiReader").args(["-v", "2", "-i"]).arg(capture).output().ok()?;
    let mut flows: BTreeMap<Key, Vec<Found>> = BTreeMap::new();
    for (key, found) in text(&output.stdout).lines().filter_map(flow_of_line) {
        flows.entry(key).or_default().push(found);
    }
    Some(flows)
}

/// The connections by Weir. A connection of `ndpiReader` may be several.
fn connections(capture: &Path) -> BTreeMap<Key, Vec<Found>> {
    let output = weir(&["flows", "--ndpi", "--format", "json", "-r", capture.to_str().expect("a text")]);
    let mut flows: BTreeMap<Key, Vec<Found>> = BTreeMap::new();
    for line in text(&output.stdout).lines() {
        let row: Value = serde_json::from_str(line).expect("a row is JSON");
        let proto = row["proto"].as_str().unwrap_or_default();
        let end = |side: &str| {
            // ndpiReader shortens addresses in its own way.
            let host = row[format!("id.{side}_h")].as_str().unwrap_or_default().replace(":0:", "::");
            let port = if ["icmp", "sctp"].contains(&proto) {
                0
            } else {
                row[format!("id.{side}_p")].as_u64().unwrap_or(0)
            };
            format!("{host} {port}")
        };
        let texts = |column: &str| -> Vec<String> {
            let list = row[column].as_array().map(Vec::as_slice).unwrap_or_default();
            let mut list: Vec<String> =
                list.iter().filter_map(|text| text.as_str().map(String::from)).collect();
            list.sort();
            list
        };
        let one = |column: &str| row[column].as_str().unwrap_or_default().to_string();
        let found = Found {
            protocol: one("ndpi_protocol"),
            category: one("ndpi_category"),
            risks: texts("ndpi_risk"),
        };
        if let Some(key) = key(proto, [end("orig"), end("resp")]) {
            flows.entry(key).or_default().push(found);
        }
    }
    flows
}

fn sample() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let own = ["examples", "protocols"].into_iter().flat_map(|folder| captures(&root.join(folder)));
    let shared = captures(&root.join("../shared/traces"));
    let is_ndpi = |capture: &PathBuf| capture.parent().is_some_and(|folder| folder.ends_with("ndpi"));
    let (ndpi, others): (Vec<_>, Vec<_>) = shared.into_iter().partition(is_ndpi);
    own.chain(ndpi).chain(others.into_iter().step_by(SAMPLED)).collect()
}

#[test]
fn connections_have_the_protocols_categories_and_risks_of_ndpi_reader() {
    if !is_installed("agreement with ndpiReader") {
        return;
    }
    let (mut equal, mut wrong) = (0, vec![]);
    for capture in sample() {
        let Some(theirs) = reader(&capture) else {
            return eprintln!("skipped: agreement with ndpiReader: install libndpi-bin");
        };
        let ours = connections(&capture);
        let mut different = vec![];
        for (key, found) in &theirs {
            let mine = ours.get(key).map(Vec::as_slice).unwrap_or_default();
            for one in found {
                match mine.contains(one) {
                    true => equal += 1,
                    false => different.push(format!("{key:?}: {one:?}, Weir: {mine:?}")),
                }
            }
        }
        let shown = capture.display().to_string();
        let known = KNOWN.iter().find(|(ending, ..)| shown.ends_with(ending));
        let (expected, why) = known.map_or((0, ""), |(_, count, why)| (*count, why));
        if different.len() != expected {
            wrong.push(format!("{shown}: {expected} expected ({why}): {different:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(equal > 400, "{equal} were compared");
}

#[test]
fn lines_of_ndpi_reader_are_read() {
    let line = "\t1\tTCP 192.0.2.1:1024 <-> 192.0.2.2:80 [proto: 7.126/HTTP.Google][ClearText][cat: Web/5][1 pkts/60 bytes \
                <-> 1 pkts/60 bytes][Risk: ** XSS Attack **** HTTP Suspicious URL **][Risk Score: 260]";
    let (key, found) = flow_of_line(line).expect("a flow");
    assert_eq!(key, ("tcp", ["192.0.2.1 1024".to_string(), "192.0.2.2 80".to_string()]));
    assert_eq!((&*found.protocol, &*found.category), ("HTTP.Google", "Web"));
    assert_eq!(found.risks, ["HTTP Suspicious URL", "XSS Attack"]);
    let (key, found) =
        flow_of_line("\t2\tICMPV6 [2001:db8::2]:0 -> [2001:db8::1]:0 [proto: 102/ICMPV6]").expect("a flow");
    assert_eq!(key, ("icmp", ["2001:db8::1 0".to_string(), "2001:db8::2 0".to_string()]));
    assert_eq!((&*found.protocol, &*found.category, found.risks.len()), ("ICMPV6", "", 0));
    assert!(flow_of_line("\tDetected protocols:").is_none());
}

#[test]
fn filters_on_ndpi_select_rows() {
    if !is_installed("filters on nDPI") {
        return;
    }
    let capture = example();
    let capture = capture.to_str().expect("a text");
    let count = |filter: &str| -> u64 {
        answer(&["flows", capture, "--count", filter], 0).trim().parse().expect("a number")
    };
    let (all, dns) = (count(""), count("ndpi.protocol == 'DNS'"));
    assert!(dns > 0 && dns < all, "{dns} of {all}");
    assert_eq!(count("ndpi.protocol != 'DNS'") + dns, all);
    let tcp = count("ndpi.protocol == 'DNS' and tcp");
    assert!(tcp > 0 && tcp < dns, "{tcp} of {dns}");
    assert_eq!(count("ndpi.risk") + count("not ndpi.risk"), all);
    // Rows that a filter selects have the columns, with the option or without.
    for option in [&["--ndpi"][..], &[]] {
        let rows = answer(
            &[&["flows", capture, "--format", "json", "ndpi.protocol == 'DNS' and tcp"], option].concat(),
            0,
        );
        assert_eq!(rows.lines().count() as u64, tcp);
        assert!(
            rows.lines().all(|row| row.contains("\"ndpi_protocol\":\"DNS\",\"ndpi_category\":\"Network\"")),
            "{rows}"
        );
    }
    assert!(!answer(&["flows", capture, "--format", "json"], 0).contains("ndpi"));
    // Columns that the filter needs are there, whatever is shown.
    let shown = answer(
        &["flows", capture, "--format", "json", "--columns", "proto", "ndpi.protocol == 'DNS' and tcp"],
        0,
    );
    assert_eq!(shown.lines().next(), Some("{\"proto\":\"tcp\"}"));
}

#[test]
fn results_do_not_depend_on_the_number_of_workers() {
    if !is_installed("nDPI on several workers") {
        return;
    }
    let capture = example();
    let rows =
        |workers| answer(&["flows", "--ndpi", "-j", workers, "-r", capture.to_str().expect("a text")], 0);
    assert_eq!(rows("1"), rows("3"));
}

#[test]
fn in_a_tunnel_both_connections_have_a_protocol() {
    if !is_installed("nDPI in tunnels") {
        return;
    }
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tunnels.pcap");
    let rows =
        answer(&["flows", "--ndpi", "--format", "json", "-r", capture.to_str().expect("a text"), "vxlan"], 0);
    let protocols: Vec<(String, String)> = rows
        .lines()
        .map(|row| serde_json::from_str(row).expect("a row is JSON"))
        .map(|row: Value| (row["id.resp_p"].to_string(), row["ndpi_protocol"].to_string()))
        .collect();
    for wanted in [("8000", "\"HTTP\""), ("4789", "\"Unknown\"")] {
        let is_wanted = |(port, protocol): &(String, String)| (&**port, &**protocol) == wanted;
        assert!(protocols.iter().any(is_wanted), "{wanted:?} in {protocols:?}");
    }
}

#[test]
fn mistakes_in_filters_on_ndpi_are_explained() {
    let capture = example();
    let said = |args: &[&str]| {
        let output = weir(&[&["flows", capture.to_str().expect("a text")], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        text_of(&output)
    };
    assert!(said(&["ndpi.protocl == 'DNS'"]).contains("did you mean `ndpi.protocol`?"));
    let mixed = said(&["ndpi.protocol == 'DNS' or tcp.port == 53"]);
    assert!(mixed.contains("W0198") && mixed.contains("columns of `ndpi`"), "{mixed}");
    assert!(answer(&["fields", "ndpi.risk"], 0).contains("ndpi.risk"));
    let questions = scratch("ndpi.toml");
    std::fs::write(&questions, "[[question]]\nname = \"a\"\nask = \"tls\"\nndpi = true\n").expect("a file");
    let output = weir(&["run", questions.to_str().expect("a text"), "-r", capture.to_str().expect("a text")]);
    assert!(text_of(&output).contains("`ndpi` does not apply to `tls`"), "{output:?}");
}
