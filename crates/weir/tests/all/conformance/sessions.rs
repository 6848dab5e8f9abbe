//! Sessions of protocols other than TLS: tshark's lists, and Zeek's logs.

use super::compare::{Tally, array, text};
use super::ours::{Seen, plain};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use weir::Log;
use weir::packet::Value;
use weir::sessions::SessionRegistry;

/// One of our rows, by column.
type Row = BTreeMap<String, String>;

/// Our log with Zeek's name.
fn log_of(path: &str) -> Option<Log> {
    let registry = SessionRegistry::builtin();
    Log::all(registry).into_iter().chain(Log::of_parts(registry)).find(|log| log.path == path)
}

/// Our rows of a log.
fn rows(seen: &Seen, path: &str) -> Vec<Row> {
    rows_as(seen, path, plain)
}

/// A value in Zeek's format, which distinguishes absent and empty values.
fn as_zeek(value: &Value<'_>) -> String {
    match value {
        Value::Absent => "-".into(),
        Value::Text(text) if text.is_empty() => "(empty)".into(),
        Value::Texts(list) if list.is_empty() => "(empty)".into(),
        Value::Bytes(bytes) if bytes.is_empty() => "(empty)".into(),
        value => plain(value),
    }
}

fn rows_as(seen: &Seen, path: &str, show: fn(&Value<'_>) -> String) -> Vec<Row> {
    let Some(log) = log_of(path) else { return vec![] };
    let columns = log.columns();
    let row = |values: &Vec<Value<'static>>| {
        columns.iter().zip(values).map(|(column, value)| (column.name.to_string(), show(value))).collect()
    };
    seen.sessions.iter().filter(|(of, _)| *of == path).map(|(_, values)| row(values)).collect()
}

/// Compares requests, replies, names and banners. Truncated lists are compared as far as they go.
pub fn tshark(tally: &mut Tally, file: &str, seen: &Seen, expect: &Json) {
    let whole = |name: &str| {
        let list = array(&expect[name]);
        let total = expect["totals"][name].as_u64();
        (total.is_none_or(|total| total == list.len() as u64)).then_some(list)
    };
    let http = rows(seen, "http");
    if let Some(requests) = whole("http_requests") {
        let without_port = |host: String| {
            let is_port = |port: &str| !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit());
            let name =
                host.rsplit_once(':').filter(|(_, port)| is_port(port)).map(|(name, _)| name.to_string());
            name.unwrap_or(host)
        };
        // tshark counts SSDP messages as HTTP.
        let ssdp = rows(seen, "ssdp");
        let ours = http.iter().chain(&ssdp).filter(|row| !row["method"].is_empty());
        let ours = ours
            .map(|row| format!("{} {} {}", row["method"], without_port(row["host"].clone()), row["uri"]))
            .collect();
        // As in Zeek's log, our hosts have no port.
        let theirs = requests.iter().map(|r| {
            let uri = unescaped(&text(&r["uri"]));
            format!("{} {} {}", text(&r["method"]), without_port(text(&r["host"])), uri)
        });
        tally.lists(file, "HTTP requests", ours, theirs.collect());
    }
    if let Some(responses) = whole("http_responses") {
        let ssdp = rows(seen, "ssdp");
        let codes = http.iter().flat_map(|row| [&row["status_code"], &row["info_code"]]);
        let codes = codes.chain(ssdp.iter().map(|row| &row["status_code"]));
        let ours = codes.filter(|code| !code.is_empty()).cloned().collect();
        tally.lists(file, "HTTP statuses", ours, responses.iter().map(|r| text(&r["status"])).collect());
    }
    if let Some(messages) = whole("dns") {
        names(tally, file, &rows(seen, "dns"), messages);
    }
    if let Some(hellos) = whole("quic_client_hello") {
        let ours: BTreeSet<String> =
            rows(seen, "quic").into_iter().map(|row| row["server_name"].clone()).collect();
        let theirs: BTreeSet<String> = hellos.iter().map(|hello| text(&hello["sni"])).collect();
        let list = |set: BTreeSet<String>| set.into_iter().filter(|name| !name.is_empty()).collect();
        tally.lists(file, "QUIC server names", list(ours), list(theirs));
    }
    if let Some(banners) = whole("ssh_banners") {
        let ssh = rows(seen, "ssh");
        let ours = ssh.iter().flat_map(|row| [&row["client"], &row["server"]]).filter(|b| !b.is_empty());
        let theirs = banners.iter().map(|banner| text(&banner["banner"]));
        tally.lists(file, "SSH versions", ours.cloned().collect(), theirs.collect());
    }
}

/// Decodes a target as Zeek's log and ours do.
fn unescaped(target: &str) -> String {
    let (mut bytes, mut rest) = (vec![], target.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        let pair = behind.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        let byte = pair.filter(|_| *first == b'%').and_then(|pair| u8::from_str_radix(pair, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &behind[2..] } else { behind };
    }
    let shown =
        |text: &mut String, bytes: &[u8]| bytes.iter().for_each(|byte| *text += &format!("\\x{byte:02x}"));
    bytes.utf8_chunks().fold(String::new(), |mut text, chunk| {
        text += chunk.valid();
        shown(&mut text, chunk.invalid());
        text
    })
}

/// Compares DNS questions: id, name and type, without repetitions.
fn names(tally: &mut Tally, file: &str, ours: &[Row], messages: &[Json]) {
    let known = |name: &str| match name {
        "" | "<Root>" => ".".to_string(),
        name => name.to_ascii_lowercase(),
    };
    // tshark counts NetBIOS names as another protocol.
    let is_netbios = |row: &Row| row["id.resp_p"] == "137";
    let mine = ours.iter().filter(|row| !row["qtype"].is_empty() && !is_netbios(row));
    let mine: BTreeSet<String> =
        mine.map(|row| format!("{} {} {}", row["trans_id"], known(&row["query"]), row["qtype"])).collect();
    let mut theirs = BTreeSet::new();
    for message in messages {
        for (id, question) in array(&message["ids"]).iter().zip(array(&message["questions"])) {
            let id = u16::from_str_radix(text(id).trim_start_matches("0x"), 16).unwrap_or(0);
            theirs.insert(format!("{id} {} {}", known(&text(&question["name"])), text(&question["type"])));
        }
    }
    tally.lists(file, "DNS questions", mine.into_iter().collect(), theirs.into_iter().collect());
}

/// Columns that depend on how a capture was cut into packets, or name files and connections of a run.
const NOT_COMPARED: [&str; 9] =
    ["ts", "uid", "fuid", "fuids", "uids", "orig_fuids", "resp_fuids", "password", "rtt"];

/// Compares one of Zeek's logs: the rows of each connection in order, and the columns that both have.
pub fn log(tally: &mut Tally, file: &str, seen: &Seen, (name, theirs): (&str, &[Json])) {
    let path = name.trim_end_matches(".log");
    let Some(ours) = log_of(path) else { return };
    // Certificates are identified by digest, not by connection.
    let is_known_by = ours.known_by().is_some();
    let ends = match is_known_by {
        true => &["fingerprint"][..],
        false => &["id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p"],
    };
    let mut left = rows_as(seen, path, as_zeek);
    for row in theirs {
        let is_it = |ours: &Row| ends.iter().all(|name| ours[*name] == text(&row[*name]));
        let found = left.iter().position(is_it);
        tally.value(file, &format!("{name} rows"), if found.is_some() { "there" } else { "" }, "there");
        let Some(ours) = found.map(|place| left.remove(place)) else { continue };
        for (column, mine) in ours.iter().filter(|(column, _)| !NOT_COMPARED.contains(&column.as_str())) {
            let Some(value) = row.get(column).map(text) else { continue };
            if ends.contains(&column.as_str()) {
                continue;
            }
            // Zeek writes seconds with many digits.
            let numbers =
                |list: &str| list.split(',').map(|n| n.parse::<f64>().ok()).collect::<Option<Vec<_>>>();
            let same = mine == &value || numbers(mine).is_some() && numbers(mine) == numbers(&value);
            tally.value(file, &format!("{name} {column}"), mine, if same { mine } else { &value });
        }
    }
}

/// nDPI's names of protocols we recognise, and ours.
const NDPI: [(&str, &str); 28] = [
    ("TLS", "ssl"),
    ("DTLS", "dtls"),
    ("HTTP", "http"),
    ("DNS", "dns"),
    ("MDNS", "dns"),
    ("LLMNR", "dns"),
    ("QUIC", "quic"),
    ("SSH", "ssh"),
    ("SMTP", "smtp"),
    ("FTP_CONTROL", "ftp"),
    ("POP3", "pop3"),
    ("IMAP", "imap"),
    ("DHCP", "dhcp"),
    ("DHCPV6", "dhcpv6"),
    ("NTP", "ntp"),
    ("STUN", "stun"),
    ("SNMP", "snmp"),
    ("RADIUS", "radius"),
    ("WireGuard", "wireguard"),
    ("SSDP", "ssdp"),
    // Names and datagrams.
    ("NetBIOS", "dns"),
    ("NetBIOS", "nbdgm"),
    ("MySQL", "mysql"),
    ("MsSQL-TDS", "tds"),
    ("Kerberos", "krb"),
    ("RTP", "rtp"),
    ("SOCKS", "socks"),
    ("Teredo", "teredo"),
];

/// Compares nDPI's protocol of each flow, if we support that protocol or have recognised one.
pub fn ndpi(tally: &mut Tally, file: &str, seen: &Seen, flows: &[Json]) {
    let mut left: Vec<_> = seen.connections.iter().collect();
    for flow in flows {
        let t = |name: &str| text(&flow[name]);
        let ends = [(t("a"), t("a_port")), (t("b"), t("b_port"))];
        let found = left.iter().position(|c| {
            let mine = [(c.orig_h, c.orig_p), (c.resp_h, c.resp_p)];
            let mine = mine.map(|(address, port)| (address.to_string(), port.to_string()));
            (mine == ends || [mine[1].clone(), mine[0].clone()] == ends)
                && *c.proto == t("l4").to_ascii_lowercase()
        });
        let Some(connection) = found.map(|place| left.remove(place)) else { continue };
        // `91.140/TLS.Apple`: carrier, protocol and application; the number encodes the first two.
        let proto = t("proto");
        let name = proto.split_once('/').map_or("", |(_, name)| name);
        let name = name.split('.').next().unwrap_or_default();
        // Of several services the last is the one that the connection switched to.
        let services: Vec<&str> = connection.service.as_deref().unwrap_or_default().split(',').collect();
        let alike = || NDPI.iter().filter(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours);
        let theirs = alike().find(|ours| services.contains(ours)).or(alike().next()).unwrap_or_default();
        if theirs.is_empty() && services == [""] {
            continue;
        }
        let ours = if services.contains(&theirs) { theirs } else { services[services.len() - 1] };
        let shown = if theirs.is_empty() { name } else { theirs };
        tally.value(file, "nDPI protocol", ours, shown);
    }
}
