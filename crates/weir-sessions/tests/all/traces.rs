//! Public captures, compared with the output of other programs: hellos and fingerprints by tshark (JA4
//! recomputed and checked against FoxIO's values), `ssl.log` and `x509.log` by Zeek. The captures are not
//! part of the project: `WEIR_TRACES` is their folder. Without it the test passes with a message.
//!
//! Scope of the comparison:
//! * TCP without fragments and tunnels; other tests cover QUIC, GTP and VXLAN;
//! * after a HelloRetryRequest our client hello is the first one, our server hello the last one;
//! * intended differences are in [`KNOWN`] with their reasons; any other difference fails the test.

use crate::support::capture;
use crate::support::tcp::{Connection, connections};
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use weir_sessions::tls::{TlsHandshake, fingerprint, names};

/// Intended differences: part of the file's path, fields, reason.
const KNOWN: &[(&str, &[&str], &str)] = &[
    (
        "tls_cipher_lens",
        &["ja3", "ja3_full"],
        "tshark breaks off the text at an empty list; JA3 has all its commas",
    ),
    (
        "ssl-malformed1",
        &["ja4"],
        "server_name alone: the list is empty without it, its hash zeros since 2026",
    ),
    (
        "tls13_draft14",
        &["cipher", "ja3s"],
        "tshark looks for a session id, which a ServerHello of that draft has not",
    ),
    (
        "tls-fragmented-handshake",
        &["cert_chain_fps", "sni_matches_cert"],
        "a certificate longer than what is kept",
    ),
];

/// Zeek's tests that change scripts, but none of the compared columns.
const NEARLY_CLEAN: &[&str] = &["ftp/ftp-auth-tls", "ssl/fragment"];

#[derive(Default)]
struct Tally {
    agreed: usize,
    differences: Vec<String>,
    known: Vec<String>,
    skipped: Vec<String>,
}

impl Tally {
    fn compare(&mut self, file: &str, place: &str, field: &str, ours: &str, theirs: &str) {
        let known = KNOWN.iter().find(|known| file.contains(known.0) && known.1.contains(&field));
        match known {
            _ if ours == theirs => self.agreed += 1,
            Some((.., why)) => self.known.push(format!("{file} {place} {field}: {why}")),
            None => {
                self.differences.push(format!("{file} {place} {field}: ours {ours:?}, theirs {theirs:?}"))
            }
        }
    }

    fn report(&self, name: &str) {
        println!("{name}: {} values agree, {} differ as known", self.agreed, self.known.len());
        for known in &self.known {
            println!("  differs as known: {known}");
        }
        for skipped in &self.skipped {
            println!("  skipped: {skipped}");
        }
        for difference in &self.differences {
            println!("  differs: {difference}");
        }
        assert!(self.agreed > 0, "the captures are there, but nothing was compared");
        assert!(self.differences.is_empty(), "{} values differ", self.differences.len());
    }
}

fn traces() -> Option<PathBuf> {
    let given = std::env::var_os("WEIR_TRACES").map(PathBuf::from);
    let path = given.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"));
    if path.is_dir() {
        return Some(path);
    }
    println!("skipped: no captures at {} (set WEIR_TRACES)", path.display());
    None
}

/// Files whose names end in `suffix`, their JSON, and the capture of each.
fn oracles(root: &Path, suffix: &str) -> Vec<(String, PathBuf, Json)> {
    let mut found = Vec::new();
    for folder in std::fs::read_dir(root).expect("a folder").flatten().filter(|entry| entry.path().is_dir()) {
        for entry in std::fs::read_dir(folder.path()).expect("a folder").flatten() {
            let path = entry.path();
            let name = path.to_string_lossy().into_owned();
            let Some(capture) = name.strip_suffix(suffix) else { continue };
            let json = serde_json::from_slice(&std::fs::read(&path).expect("readable")).expect("JSON");
            let short = Path::new(capture).strip_prefix(root).unwrap_or(Path::new(capture));
            found.push((short.to_string_lossy().into_owned(), PathBuf::from(capture), json));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

fn array(json: &Json) -> &[Json] {
    json.as_array().map_or(&[], Vec::as_slice)
}

fn hexadecimal(number: Option<u16>) -> String {
    number.map_or_else(|| "null".to_owned(), |number| format!("0x{number:04x}"))
}

/// A JSON value as text: lists joined by commas, strings without quotes.
fn plain(json: &Json) -> String {
    match json {
        Json::String(text) => text.clone(),
        Json::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

#[test]
fn hellos_are_those_of_tshark() {
    let Some(root) = traces() else { return };
    let mut tally = Tally::default();
    let (mut hellos, mut compared) = (0, 0);
    for (file, capture, json) in oracles(&root, ".expect.json") {
        let expected: Vec<&Json> =
            array(&json["tls"]).iter().filter(|hello| hello["over"] == "tcp").collect();
        if expected.is_empty() {
            continue;
        }
        hellos += expected.len();
        let Some(bytes) = capture::read(&capture) else {
            tally.skipped.push(format!("{file}: can't be read or unpacked"));
            continue;
        };
        let (connections, of_frame) = connections(&bytes);
        for hello in &expected {
            let frame = hello["frame"].as_u64().unwrap_or_default();
            let Some(connection) = of_frame.get(&frame).map(|index| &connections[*index]) else {
                tally.skipped.push(format!("{file} frame {frame}: in a tunnel or a fragment"));
                continue;
            };
            let Some(handshake) = &connection.handshake else {
                tally.compare(&file, &format!("frame {frame}"), "session", "none", "a hello");
                continue;
            };
            let of_same =
                |other: &&&Json| other["stream"] == hello["stream"] && other["type"] == hello["type"];
            let is_first =
                expected.iter().find(of_same).is_some_and(|first| first["frame"] == hello["frame"]);
            let is_last = expected.iter().rfind(of_same).is_some_and(|last| last["frame"] == hello["frame"]);
            let is_client = hello["type"] == "client_hello";
            if (is_client && !is_first) || (!is_client && !is_last) {
                tally.skipped.push(format!("{file} frame {frame}: not the {} we keep", hello["type"]));
                continue;
            }
            compared += 1;
            if is_client {
                compare_client(&mut tally, &file, frame, hello, handshake);
            } else {
                compare_server(&mut tally, &file, frame, hello, handshake);
            }
        }
    }
    println!("hellos: {compared} of {hellos} over TCP compared");
    tally.report("tshark");
}

fn compare_client(tally: &mut Tally, file: &str, frame: u64, hello: &Json, handshake: &TlsHandshake) {
    let place = format!("frame {frame} client");
    let Some(client) = &handshake.client_hello else {
        return tally.compare(file, &place, "hello", "none", "a hello");
    };
    let versions = client.supported_versions.iter().filter(|version| !names::is_grease(**version));
    let versions: Vec<String> = versions.map(|version| hexadecimal(Some(*version))).collect();
    for (field, ours) in [
        ("sni", client.server_name.clone().unwrap_or_else(|| "null".to_owned())),
        ("alpn", client.alpn.join(",")),
        ("legacy_version", hexadecimal(Some(client.version))),
        ("supported_versions", versions.join(",")),
        ("ja3_full", fingerprint::ja3_text(client)),
        ("ja3", fingerprint::ja3(client)),
        ("ja4", fingerprint::ja4(client, fingerprint::Transport::Tcp)),
    ] {
        let is_said = hello.get(field).is_some_and(|value| field == "sni" || !value.is_null());
        if is_said {
            tally.compare(file, &place, field, &ours, &plain(&hello[field]));
        }
    }
}

fn compare_server(tally: &mut Tally, file: &str, frame: u64, hello: &Json, handshake: &TlsHandshake) {
    let place = format!("frame {frame} server");
    let Some(server) = &handshake.server_hello else {
        return tally.compare(file, &place, "hello", "none", "a hello");
    };
    tally.compare(
        file,
        &place,
        "legacy_version",
        &hexadecimal(Some(server.version)),
        &plain(&hello["legacy_version"]),
    );
    tally.compare(file, &place, "cipher", &hexadecimal(server.cipher), &plain(&hello["cipher"]));
    tally.compare(file, &place, "ja3s", &fingerprint::ja3s(server), &plain(&hello["ja3s"]));
    if !hello["several_hellos_in_frame"].as_bool().unwrap_or_default() {
        let selected = hexadecimal(server.selected_version);
        tally.compare(file, &place, "selected_version", &selected, &plain(&hello["selected_version"]));
    }
}

#[test]
fn rows_are_those_of_zeek() {
    let Some(root) = traces() else { return };
    let mut tally = Tally::default();
    let (mut rows, mut certificates) = (0, 0);
    for (file, capture, json) in oracles(&root, ".zeek.json") {
        for test in array(&json).iter().filter(|test| is_usable(test)) {
            let (ssl, x509) =
                (array(&test["logs"]["ssl.log"]["rows"]), array(&test["logs"]["x509.log"]["rows"]));
            if ssl.is_empty() && x509.is_empty() {
                continue;
            }
            let Some(bytes) = capture::read(&capture) else {
                tally.skipped.push(format!("{file}: can't be read or unpacked"));
                continue;
            };
            let (connections, _) = connections(&bytes);
            for row in ssl {
                match connections.iter().find(|connection| is_of(row, connection)) {
                    None => {
                        tally.skipped.push(format!("{file} {}: no TCP connection", plain(&row["id.orig_p"])))
                    }
                    Some(Connection { handshake: None, .. }) => {
                        tally.compare(&file, "ssl.log", "session", "none", "a row");
                    }
                    Some(Connection { handshake: Some(handshake), .. }) => {
                        rows += 1;
                        compare_ssl(&mut tally, &file, row, handshake);
                    }
                }
            }
            for row in x509 {
                certificates += compare_x509(&mut tally, &file, row, &connections);
            }
        }
    }
    println!("{rows} rows of ssl.log, {certificates} of x509.log compared");
    tally.report("zeek");
}

/// Whether Zeek ran with its stock scripts, or with changes that do not matter here.
fn is_usable(test: &Json) -> bool {
    test["clean"] == true || NEARLY_CLEAN.iter().any(|name| plain(&test["test"]).contains(name))
}

fn is_of(row: &Json, connection: &Connection) -> bool {
    let ours =
        [connection.originator, connection.responder].map(|(address, port)| format!("{address} {port}"));
    let end = |side: &str| {
        format!("{} {}", plain(&row[format!("id.{side}_h")]), plain(&row[format!("id.{side}_p")]))
    };
    ours == [end("orig"), end("resp")]
}

fn compare_ssl(tally: &mut Tally, file: &str, row: &Json, handshake: &TlsHandshake) {
    let truth = |is: bool| if is { "T" } else { "F" }.to_owned();
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let chain = handshake.server_certificates.digests().join(",");
    for (field, ours) in [
        ("version", or_dash(handshake.version_name().map(Into::into))),
        ("cipher", or_dash(handshake.cipher_name().map(Into::into))),
        ("curve", or_dash(handshake.group_name().map(Into::into))),
        ("server_name", or_dash(handshake.server_name().map(Into::into))),
        ("resumed", truth(handshake.is_resumed)),
        ("last_alert", or_dash(handshake.alert_name().map(Into::into))),
        ("next_protocol", or_dash(handshake.next_protocol().map(Into::into))),
        ("established", truth(handshake.is_established)),
        ("ssl_history", handshake.history.clone()),
        ("cert_chain_fps", if chain.is_empty() { "-".to_owned() } else { chain }),
        ("sni_matches_cert", or_dash(handshake.does_name_match_certificate().map(truth))),
    ] {
        tally.compare(file, "ssl.log", field, &ours, &plain(&row[field]));
    }
}

/// Compares a row of `x509.log` with our certificate, if we have it. Returns the number of comparisons.
fn compare_x509(tally: &mut Tally, file: &str, row: &Json, connections: &[Connection]) -> usize {
    let handshakes = connections.iter().filter_map(|connection| connection.handshake.as_ref());
    let chains = handshakes.flat_map(|h| [&h.server_certificates, &h.client_certificates]);
    let mut certificates = chains.flat_map(|chain| chain.certificates());
    let Some(ours) = certificates.find(|certificate| certificate.sha256 == plain(&row["fingerprint"])) else {
        tally.compare(file, "x509.log", "fingerprint", "none", &plain(&row["fingerprint"]));
        return 0;
    };
    let dns = if ours.san_dns.is_empty() { "-".to_owned() } else { ours.san_dns.join(",") };
    for (field, ours) in [
        ("certificate.serial", ours.serial.clone()),
        ("certificate.subject", ours.subject.clone()),
        ("certificate.issuer", ours.issuer.clone()),
        ("certificate.not_valid_before", ours.not_before.to_string()),
        ("certificate.not_valid_after", ours.not_after.to_string()),
        ("certificate.sig_alg", ours.signature_algorithm.clone()),
        ("certificate.key_type", ours.key_type.clone()),
        ("certificate.key_length", ours.key_bits.to_string()),
        ("san.dns", dns),
    ] {
        tally.compare(file, "x509.log", field, &ours, &plain(&row[field]));
    }
    1
}
