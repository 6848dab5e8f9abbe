//! Compares our output with that of tshark and Zeek, by category. Counts agreements and describes
//! differences.

use super::known::Difference;
use super::ours::{Questions, Seen, column};
use super::sessions;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use weir::Connection;
use weir::sessions::tls::names;

/// Result of the comparison.
#[derive(Default)]
pub struct Tally {
    /// Per category: values that agree, values compared.
    pub counts: BTreeMap<String, (u64, u64)>,
    pub differences: BTreeSet<Difference>,
}

impl Tally {
    /// Compares one value.
    pub fn value(&mut self, file: &str, category: &str, ours: impl ToString, theirs: impl ToString) {
        let (ours, theirs) = (ours.to_string(), theirs.to_string());
        self.count(category, u64::from(ours == theirs), 1);
        if ours != theirs {
            self.differ(file, category, format!("ours {ours}, theirs {theirs}"));
        }
    }

    /// Compares lists regardless of order.
    pub fn lists(&mut self, file: &str, category: &str, ours: Vec<String>, theirs: Vec<String>) {
        let (all_ours, all_theirs) = (ours.len(), theirs.len());
        let mut only_ours = ours;
        let mut only_theirs = vec![];
        for item in theirs {
            match only_ours.iter().position(|o| *o == item) {
                Some(index) => drop(only_ours.swap_remove(index)),
                None => only_theirs.push(item),
            }
        }
        self.count(category, (all_theirs - only_theirs.len()) as u64, all_theirs.max(all_ours) as u64);
        if !only_ours.is_empty() || !only_theirs.is_empty() {
            let some = |mut list: Vec<String>| {
                list.sort();
                let count = list.len();
                list.truncate(2);
                format!("{count} ({})", list.join("; "))
            };
            self.differ(
                file,
                category,
                format!("only ours {}, only theirs {}", some(only_ours), some(only_theirs)),
            );
        }
    }

    fn count(&mut self, category: &str, agreed: u64, compared: u64) {
        let count = self.counts.entry(category.to_string()).or_default();
        *count = (count.0 + agreed, count.1 + compared);
    }

    fn differ(&mut self, file: &str, category: &str, what: String) {
        self.differences.insert((file.to_string(), category.to_string(), what.replace(['\t', '\n'], " ")));
    }
}

pub fn array(json: &Json) -> &[Json] {
    json.as_array().map_or(&[], Vec::as_slice)
}

pub fn text(json: &Json) -> String {
    match json {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Layers whose packets are compared.
const LAYERS: [&str; 22] = [
    "eth", "vlan", "mpls", "arp", "pppoe", "ppp", "ip", "ipv6", "icmp", "icmpv6", "tcp", "udp", "gre",
    "erspan", "vxlan", "geneve", "teredo", "l2tp", "gtp", "pptp", "sctp", "quic",
];

/// Compares all of tshark's output for a capture.
pub fn tshark(tally: &mut Tally, questions: &Questions, file: &str, seen: &Seen, expect: &Json) {
    let number = |json: &Json| json.as_u64().unwrap_or(0);
    tally.value(file, "packets", seen.stats.all.packets, number(&expect["packets"]));
    tally.value(file, "bytes on the wire", seen.stats.all.bytes, number(&expect["wire_bytes"]));
    tally.value(file, "bytes captured", seen.stats.captured_bytes, number(&expect["captured_bytes"]));
    for layer in LAYERS {
        let Some(ours) = questions.layer(seen, layer) else { continue };
        let frames = |name: &str| number(&expect["protocol_frames"][name]);
        // tshark has two protocols for discovery and sessions.
        let theirs = if layer == "pppoe" { frames("pppoed") + frames("pppoes") } else { frames(layer) };
        tally.value(file, &format!("packets with {layer}"), ours, theirs);
    }
    for proto in ["tcp", "udp", "sctp"].into_iter().filter(|p| questions.layer(seen, p).is_some()) {
        conversations(tally, file, proto, seen, &expect["conversations"][proto]);
    }
    for (version, name) in [(0, "ip_reassembled"), (1, "ipv6_reassembled")] {
        let ours = seen.whole[version].iter().map(u64::to_string).collect();
        let theirs = array(&expect[name]).iter().map(|d| text(&d["frame"])).collect();
        tally.lists(
            file,
            ["datagrams of fragments, IPv4", "datagrams of fragments, IPv6"][version],
            ours,
            theirs,
        );
    }
    payloads(tally, file, seen, expect);
    digests(tally, file, seen, expect);
    hellos(tally, file, seen, array(&expect["tls"]));
    sessions::tshark(tally, file, seen, expect);
}

/// Compares payload bytes of both directions together, for the first streams, without missing bytes. As in
/// Zeek's log, a connection whose packets have equal times has no bytes.
fn payloads(tally: &mut Tally, file: &str, seen: &Seen, expect: &Json) {
    let ends = |c: &Connection| format!("{} {} > {} {}", c.orig_h, c.orig_p, c.resp_h, c.resp_p);
    let list = array(&expect["conversations"]["tcp"]["list"]);
    let mut left: Vec<&Connection> = seen.connections.iter().filter(|c| c.proto == "tcp").collect();
    let (mut ours, mut theirs) = (vec![], vec![]);
    for stream in array(&expect["tcp_payload"]) {
        let Some(listed) = list.iter().find(|c| c["stream"] == stream["stream"]) else { continue };
        let t = |name: &str| text(&listed[name]);
        let key = format!("{} {} > {} {}", t("addr_a"), t("port_a"), t("addr_b"), t("port_b"));
        let Some(place) = left.iter().position(|c| ends(c) == key) else { continue };
        let connection = left.remove(place);
        let Some([a, b]) = connection.bytes else { continue };
        let length = |node: &str| stream[node]["length"].as_u64().unwrap_or(0);
        ours.push(format!("{key} {}", (a + b).saturating_sub(connection.missed_bytes)));
        theirs.push(format!("{key} {}", length("node0") + length("node1")));
    }
    tally.lists(file, "tcp conversations, payload bytes", ours, theirs);
}

/// Compares length and digest of each direction of the first streams, without missing bytes. If a sender has
/// several streams, one of them must match.
fn digests(tally: &mut Tally, file: &str, seen: &Seen, expect: &Json) {
    let (mut ours, mut theirs) = (vec![], vec![]);
    for node in array(&expect["tcp_payload"]).iter().flat_map(|stream| [&stream["node0"], &stream["node1"]]) {
        let length = node["length"].as_u64().unwrap_or(0);
        if length == 0 {
            continue;
        }
        let (sender, digest) = (text(&node["sender"]).replace(['[', ']'], ""), text(&node["sha256"]));
        let mine = || seen.streams.iter().filter(|(from, ..)| *from == sender);
        let found = mine().find(|(_, _, of)| *of == digest).or_else(|| mine().next());
        let shown = |bytes: u64, digest: &str| format!("{sender} {bytes} {}", &digest[..8]);
        ours.extend(found.map(|(_, bytes, digest)| shown(*bytes, digest)));
        theirs.push(shown(length, &digest));
    }
    tally.lists(file, "tcp streams, bytes and digest", ours, theirs);
}

fn conversations(tally: &mut Tally, file: &str, proto: &str, seen: &Seen, expect: &Json) {
    let mine = seen.connections.iter().filter(|c| c.proto == proto);
    let ours: Vec<String> = mine
        .map(|c| {
            let [a, b] = c.packets;
            format!("{} {} > {} {} {a}+{b}", c.orig_h, c.orig_p, c.resp_h, c.resp_p)
        })
        .collect();
    let list = array(&expect["list"]);
    let count = expect["count"].as_u64().unwrap_or(0);
    tally.value(file, &format!("number of {proto} conversations"), ours.len(), count);
    let theirs: Vec<String> = list
        .iter()
        .map(|c| {
            let t = |name: &str| text(&c[name]);
            let ends = format!("{} {} > {} {}", t("addr_a"), t("port_a"), t("addr_b"), t("port_b"));
            format!("{ends} {}+{}", t("frames_ab"), t("frames_ba"))
        })
        .collect();
    let category = format!("{proto} conversations, packets per direction");
    // A long list is truncated; then only the listed entries are compared.
    let ours = if (list.len() as u64) < count { listed(ours, &theirs) } else { ours };
    tally.lists(file, &category, ours, theirs);
}

fn listed(ours: Vec<String>, theirs: &[String]) -> Vec<String> {
    let theirs: HashSet<&String> = theirs.iter().collect();
    ours.into_iter().filter(|o| theirs.contains(o)).collect()
}

/// Compares, for each connection, the client's first hello and the server's last one (a HelloRetryRequest
/// adds hellos).
fn hellos(tally: &mut Tally, file: &str, seen: &Seen, expect: &[Json]) {
    let over_tcp = expect.iter().filter(|h| h["over"] == "tcp");
    let mut clients: BTreeMap<u64, &Json> = BTreeMap::new();
    let mut servers: BTreeMap<u64, &Json> = BTreeMap::new();
    for hello in over_tcp {
        let stream = hello["stream"].as_u64().unwrap_or(0);
        if hello["type"] == "client_hello" {
            clients.entry(stream).or_insert(hello);
        } else {
            servers.insert(stream, hello);
        }
    }
    let of = |list: &BTreeMap<u64, &Json>, name: &str| -> Vec<String> {
        list.values().map(|h| text(&h[name])).filter(|t| !t.is_empty()).collect()
    };
    let mine = |name: &str| -> Vec<String> {
        // Our list also has the TLS handshakes of QUIC; tshark's does not.
        let over_tcp = seen.tls.iter().filter(|row| !column(row, "ja4").starts_with('q'));
        over_tcp.map(|row| column(row, name)).filter(|t| !t.is_empty()).collect()
    };
    for (name, theirs) in [("server_name", "sni"), ("ja3", "ja3"), ("ja4", "ja4")] {
        tally.lists(file, &format!("TLS {name}"), mine(name), of(&clients, theirs));
    }
    tally.lists(file, "TLS ja3s", mine("ja3s"), of(&servers, "ja3s"));
    let hexadecimal = |t: &str| u16::from_str_radix(t.trim_start_matches("0x"), 16).unwrap_or(0);
    let ciphers = of(&servers, "cipher").iter().map(|c| names::cipher(hexadecimal(c)).into_owned()).collect();
    tally.lists(file, "TLS cipher", mine("cipher"), ciphers);
    let version = |h: &&Json| match text(&h["selected_version"]) {
        t if t.is_empty() => text(&h["legacy_version"]),
        t => t,
    };
    let versions = servers.values().map(|h| names::version(hexadecimal(&version(h))).into_owned()).collect();
    tally.lists(file, "TLS version", mine("version"), versions);
}

/// Compares Zeek's logs, for tests that load only stock scripts.
pub fn zeek(tally: &mut Tally, file: &str, seen: &Seen, tests: &[Json]) {
    for test in tests.iter().filter(|t| t["clean"] == true) {
        let Some(logs) = test["logs"].as_object() else { continue };
        for (name, log) in logs {
            match name.as_str() {
                "conn.log" => conn_log(tally, file, seen, array(&log["rows"])),
                other => sessions::log(tally, file, seen, (other, array(&log["rows"]))),
            }
        }
    }
}

const CONN_FIELDS: [&str; 14] = [
    "service",
    "duration",
    "orig_bytes",
    "resp_bytes",
    "conn_state",
    "local_orig",
    "local_resp",
    "missed_bytes",
    "history",
    "orig_pkts",
    "orig_ip_bytes",
    "resp_pkts",
    "resp_ip_bytes",
    "ip_proto",
];

fn conn_log(tally: &mut Tally, file: &str, seen: &Seen, rows: &[Json]) {
    let mut left: Vec<(String, usize)> = seen
        .connections
        .iter()
        .enumerate()
        .map(|(i, c)| (format!("{} {} {} {} {}", c.orig_h, c.orig_p, c.resp_h, c.resp_p, c.proto), i))
        .collect();
    let mut agreed: BTreeMap<&str, Vec<(String, String)>> = BTreeMap::new();
    let mut absent = vec![];
    for row in rows {
        let t = |name: &str| text(&row[name]);
        let ends = ["id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p", "proto"].map(t).join(" ");
        let Some(place) = left.iter().position(|(e, _)| *e == ends) else {
            absent.push(ends);
            continue;
        };
        let record = &seen.records[left.remove(place).1];
        for field in CONN_FIELDS {
            let index = weir::CONNECTION_COLUMNS.iter().position(|c| c.name == field).expect("Zeek's name");
            let ours = match &record[index] {
                weir::packet::Value::Absent => "-".to_string(),
                weir::packet::Value::Unsigned(n) => n.to_string(),
                weir::packet::Value::Bool(truth) => if *truth { "T" } else { "F" }.to_string(),
                weir::packet::Value::Interval(ns) => format!("{:.5}", *ns as f64 / 1e9),
                weir::packet::Value::Text(t) => t.to_string(),
                other => format!("{other:?}"),
            };
            let theirs = match (field, t(field).parse::<f64>()) {
                ("duration", Ok(seconds)) => format!("{seconds:.5}"),
                _ => t(field),
            };
            agreed.entry(field).or_default().push((format!("{ends} {ours}"), format!("{ends} {theirs}")));
        }
    }
    tally.lists(file, "conn.log rows", vec![String::new(); rows.len() - absent.len()], {
        let mut all = vec![String::new(); rows.len() - absent.len()];
        all.extend(absent);
        all
    });
    for (field, pairs) in agreed {
        let (ours, theirs) = pairs.into_iter().unzip();
        tally.lists(file, &format!("conn.log {field}"), ours, theirs);
    }
}
