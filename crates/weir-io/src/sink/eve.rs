//! Suricata's EVE: a JSON object per event, with the common fields (`timestamp`, `flow_id`, `event_type`,
//! addresses and ports), and an object with the event's own fields. `eve_fields.rs` maps the names.
//!
//! Suricata logs requests and responses as separate events; a row here contains both. Suricata's flow events
//! have the time of logging; here they have the time of the first packet, as in every format. `flow_id` is
//! derived from the connection's `uid` and the same in all events of a connection; `uid` itself is among the
//! event's own fields.

use super::eve_fields::{EVENTS, Event, Field, How};
use super::jsonl::{push_list, push_string, push_value, quoted};
use super::text::*;
use super::{Options, Out, Rows};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;
use weir_packet::{Batch, Cell, Column, Row, RowSink, Timestamp};

pub(super) struct Eve {
    rows: Rows,
    /// The log of all rows.
    path: &'static str,
    /// The column that names a row's log.
    path_at: Option<usize>,
    columns: Vec<Column>,
    /// A plan for each kind of row.
    plans: Vec<Plan>,
}

/// The places of a log's columns in an event.
struct Plan {
    log: String,
    /// The columns that rows of the log have cells in; `None`: all.
    with_cells: Option<Vec<usize>>,
    event_type: String,
    /// The columns with a row's time, connection and carrier protocol.
    head: Head<Option<usize>>,
    /// The column that says whether a file was sent to the originator: Suricata's event is from the sender's
    /// view.
    is_orig: Option<usize>,
    nodes: Vec<Node>,
}

/// The common fields of every event.
#[derive(Clone, Copy)]
struct Head<T> {
    ts: T,
    uid: T,
    orig_h: T,
    orig_p: T,
    resp_h: T,
    resp_p: T,
    proto: T,
}

/// The log of alerts, whose rows have the ends of the packet beside those of the connection.
const ALERTS: &str = "alerts";

/// Columns for the common fields of an event.
const AT_HEAD: &[&str] = &["_path", "ts", "id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p", "proto"];

enum Node {
    Value { name: String, how: How, columns: Vec<usize> },
    Object { name: String, is_list: bool, nodes: Vec<Node> },
}

impl Eve {
    pub fn new(out: Out, options: &Options) -> Self {
        let rows = Rows::new(out);
        Self { rows, path: options.path, path_at: None, columns: vec![], plans: vec![] }
    }

    /// The index of the plan for rows of a log with cells in these columns, created with the first one. There
    /// are as many plans as kinds of rows.
    fn plan(&mut self, log: &str, with_cells: Option<&[usize]>) -> usize {
        let known =
            self.plans.iter().position(|plan| plan.log == log && plan.with_cells.as_deref() == with_cells);
        known.unwrap_or_else(|| {
            self.plans.push(Plan::new(log, &self.columns, with_cells));
            self.plans.len() - 1
        })
    }
}

impl RowSink for Eve {
    fn begin(&mut self, columns: &[Column]) -> io::Result<()> {
        self.path_at = columns.iter().position(|column| column.name == "_path");
        if self.path.is_empty() && self.path_at.is_none() {
            return Err(io::Error::other(
                "eve only has events of connections and sessions (flows, sessions, tls, http …): use --format json for these rows",
            ));
        }
        self.columns = columns.to_vec();
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, rows: Range<usize>) -> io::Result<()> {
        for index in rows {
            let row = batch.row(index);
            let log = self.path_at.and_then(|at| row.cell(at).text()).unwrap_or(self.path);
            let at = self.plan(log, row.columns());
            self.plans[at].push(&mut self.rows.bytes, row);
            self.rows.end_row()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.rows.flush()
    }

    fn end(&mut self) -> io::Result<()> {
        self.rows.flush()
    }
}

impl Plan {
    fn new(log: &str, columns: &[Column], with_cells: Option<&[usize]>) -> Self {
        let unknown = Event { log: "", event_type: "", fields: &[] };
        let event = EVENTS.iter().find(|event| event.log == log).unwrap_or(&unknown);
        let event_type = if event.log.is_empty() { log } else { event.event_type };
        let at = |name: &str| columns.iter().position(|column| column.name == name);
        let mut nodes = vec![];
        for Field { column, place, how } in event.fields {
            if let Some(column) = at(column) {
                let place: Vec<&str> = place.split('.').collect();
                insert(&mut nodes, &place, *how, column);
            }
        }
        let is_of_packet =
            |name: &str| log == ALERTS && ["uid", "src", "src_p", "dst", "dst_p"].contains(&name);
        let is_named =
            |name: &str| is_of_packet(name) || event.fields.iter().any(|field| field.column == name);
        let has_cells = |at: usize| with_cells.is_none_or(|columns| columns.binary_search(&at).is_ok());
        let rest = columns
            .iter()
            .enumerate()
            .filter(|(at, _)| has_cells(*at))
            .filter(|(_, column)| !is_named(&column.name) && !AT_HEAD.contains(&column.name.as_ref()));
        for (column, about) in rest {
            let mut name = about.name.to_string();
            // Suricata uses the name for another field.
            while holds(&nodes, event_type, &name) {
                name.insert_str(0, "weir_");
            }
            insert(&mut nodes, &[event_type, &name], How::Plain, column);
        }
        // The ends of an event are those of its packet, if the row has these.
        let end =
            |packet: &str, connection: &str| at(packet).filter(|_| log == ALERTS).or_else(|| at(connection));
        let head = Head {
            ts: at("ts"),
            uid: at("uid"),
            orig_h: end("src", "id.orig_h"),
            orig_p: end("src_p", "id.orig_p"),
            resp_h: end("dst", "id.resp_h"),
            resp_p: end("dst_p", "id.resp_p"),
            proto: at("proto"),
        };
        let is_orig = if log == "files" { at("is_orig") } else { None };
        let (log, with_cells) = (log.to_string(), with_cells.map(<[usize]>::to_vec));
        Self { log, with_cells, event_type: event_type.to_string(), head, is_orig, nodes }
    }

    fn push(&self, line: &mut Vec<u8>, row: Row<'_>) {
        let mut head = self.head.of(row);
        if self.is_orig.is_some_and(|at| row.cell(at) == Cell::Bool(false)) {
            std::mem::swap(&mut head.orig_h, &mut head.resp_h);
            std::mem::swap(&mut head.orig_p, &mut head.resp_p);
        }
        line.push(b'{');
        if let Cell::Time(time) = head.ts {
            push_key(line, "timestamp");
            push_timestamp(line, time);
        }
        if let Cell::Text(uid) = head.uid {
            push_key(line, "flow_id");
            push_number(line, flow_id(uid));
        }
        push_key(line, "event_type");
        push_string(line, &self.event_type);
        let proto = head.carrier();
        let is_icmp = proto.ends_with("ICMP");
        let (orig_p, resp_p) = if is_icmp { ("icmp_type", "icmp_code") } else { ("src_port", "dest_port") };
        let named =
            [("src_ip", head.orig_h), (orig_p, head.orig_p), ("dest_ip", head.resp_h), (resp_p, head.resp_p)];
        for (name, value) in named.into_iter().filter(|(_, value)| value.is_present()) {
            push_key(line, name);
            match value {
                Cell::Address(IpAddr::V6(address)) => push_whole(line, address),
                value => push_value(line, value),
            }
        }
        if !proto.is_empty() {
            push_key(line, "proto");
            push_string(line, &proto);
        }
        if let Cell::Address(address) = head.orig_h {
            push_key(line, "ip_v");
            push_number(line, if address.is_ipv4() { 4 } else { 6 });
        }
        push_nodes(line, &self.nodes, row, &head);
        line.extend_from_slice(b"}\n");
    }
}

impl Head<Cell<'_>> {
    /// Suricata's name of the carrier protocol; empty if unknown.
    fn carrier(&self) -> String {
        match (self.proto, self.orig_h) {
            (Cell::Text("icmp"), Cell::Address(IpAddr::V6(_))) => "IPv6-ICMP".into(),
            (Cell::Text(proto), _) => proto.to_uppercase(),
            _ => String::new(),
        }
    }
}

impl Head<Option<usize>> {
    fn of<'a>(&self, row: Row<'a>) -> Head<Cell<'a>> {
        let at = |at: Option<usize>| at.map_or(Cell::Absent, |at| row.cell(at));
        Head {
            ts: at(self.ts),
            uid: at(self.uid),
            orig_h: at(self.orig_h),
            orig_p: at(self.orig_p),
            resp_h: at(self.resp_h),
            resp_p: at(self.resp_p),
            proto: at(self.proto),
        }
    }
}

/// Inserts a column at its place.
fn insert(nodes: &mut Vec<Node>, place: &[&str], how: How, column: usize) {
    let [name, rest @ ..] = place else { return };
    let (bare, is_list) = match name.strip_suffix("[]") {
        Some(bare) => (bare, true),
        None => (*name, false),
    };
    let known = nodes.iter_mut().find(|node| node.name() == bare);
    match (known, rest.is_empty()) {
        (Some(Node::Value { columns, .. }), _) => columns.push(column),
        (Some(Node::Object { nodes, .. }), _) => insert(nodes, rest, how, column),
        (None, true) => nodes.push(Node::Value { name: bare.to_string(), how, columns: vec![column] }),
        (None, false) => {
            let mut inner = vec![];
            insert(&mut inner, rest, how, column);
            nodes.push(Node::Object { name: bare.to_string(), is_list, nodes: inner });
        }
    }
}

/// Whether an event's object has a field of this name.
fn holds(nodes: &[Node], event_type: &str, name: &str) -> bool {
    nodes.iter().any(|node| match node {
        Node::Object { name: object, nodes, .. } if object == event_type => {
            nodes.iter().any(|n| n.name() == name)
        }
        _ => false,
    })
}

impl Node {
    fn name(&self) -> &str {
        match self {
            Node::Value { name, .. } | Node::Object { name, .. } => name,
        }
    }
}

/// Writes the present values of `nodes`; an object without fields is omitted.
fn push_nodes(line: &mut Vec<u8>, nodes: &[Node], row: Row<'_>, head: &Head<Cell<'_>>) {
    for node in nodes {
        let before = line.len();
        push_key(line, node.name());
        let is_there = match node {
            Node::Value { how, columns, .. } => {
                let mut of_it = columns.iter().map(|&at| row.cell(at));
                match how {
                    How::Listed if columns.len() > 1 => push_listed(line, of_it),
                    How::KeyLists => of_it.any(|value| push_key_lists(line, value)),
                    How::DnsAnswers => push_answers(line, of_it.next(), of_it.next()),
                    How::FileState => push_file_state(line, of_it),
                    _ => of_it.any(|value| push_as(line, *how, value, head)),
                }
            }
            Node::Object { is_list, nodes, .. } => {
                line.extend_from_slice(if *is_list { b"[{" } else { b"{" });
                let empty = line.len();
                push_nodes(line, nodes, row, head);
                let is_there = line.len() > empty;
                line.extend_from_slice(if *is_list { b"}]" } else { b"}" });
                is_there
            }
        };
        if !is_there {
            line.truncate(before);
        }
    }
}

/// Writes texts `key value` as an object: each key with the list of its values.
fn push_key_lists(line: &mut Vec<u8>, value: Cell<'_>) -> bool {
    let Cell::Texts(texts) = value else { return false };
    let pairs: Vec<(String, String)> = texts
        .iter()
        .map(|text| {
            let (key, value) = text.split_once(' ').unwrap_or((text, ""));
            (key.to_string(), value.to_string())
        })
        .collect();
    line.push(b'{');
    for (at, (key, _)) in pairs.iter().enumerate() {
        if pairs[..at].iter().any(|(before, _)| before == key) {
            continue;
        }
        push_key(line, key);
        line.push(b'[');
        for (number, (_, value)) in pairs.iter().filter(|(of, _)| of == key).enumerate() {
            if number > 0 {
                line.push(b',');
            }
            push_string(line, value);
        }
        line.push(b']');
    }
    line.push(b'}');
    true
}

/// Writes the name of the next field of an object.
fn push_key(line: &mut Vec<u8>, name: &str) {
    if line.last() != Some(&b'{') {
        line.push(b',');
    }
    push_string(line, name);
    line.push(b':');
}

/// Writes a value in Suricata's form; returns whether there was anything to write.
fn push_as(line: &mut Vec<u8>, how: How, value: Cell<'_>, head: &Head<Cell<'_>>) -> bool {
    match (how, value) {
        (How::Always(text), _) => line.extend_from_slice(text.as_bytes()),
        (How::DnsType, Cell::Absent) => push_string(line, "request"),
        (How::DnsType, _) => push_string(line, "response"),
        (_, Cell::Absent) => return false,
        (How::Yes, _) => push_string(line, "yes"),
        (How::Listed, value) => return push_listed(line, std::iter::once(value)),
        (How::ListedText, Cell::Unsigned(number)) => push_listed_text(line, number),
        (How::Seconds, Cell::Interval(ns)) => push_number(line, ns / 1_000_000_000),
        (How::FromZero, Cell::Unsigned(number)) => push_number(line, number.saturating_sub(1)),
        (How::End, Cell::Interval(ns)) => match head.ts {
            Cell::Time(ts) => push_timestamp(line, Timestamp(ts.0.saturating_add_unsigned(ns))),
            _ => return false,
        },
        (How::IsSome, Cell::Unsigned(number)) => push_bool(line, number > 0),
        (How::FtpMode, Cell::Bool(passive)) => push_string(line, if passive { "passive" } else { "active" }),
        (How::LastInLowerCase, Cell::Texts(texts)) => match texts.last() {
            Some(last) => push_string(line, &last.to_lowercase()),
            None => return false,
        },
        (how, Cell::Text(text)) => match reworded(how, text, head) {
            Some(text) => push_string(line, &text),
            None => return false,
        },
        (_, Cell::Time(time)) => push_timestamp(line, time),
        (_, value) => push_value(line, value),
    }
    true
}

/// Text in Suricata's form.
fn reworded(how: How, text: &str, head: &Head<Cell<'_>>) -> Option<String> {
    let app = |name: &str| if name == "ssl" { "tls".to_string() } else { name.to_string() };
    Some(match how {
        // Suricata does not list the TLS in QUIC as a protocol of its own.
        How::App | How::AppBefore if text.starts_with("quic,") => {
            return (how == How::App).then(|| "quic".to_string());
        }
        How::App => app(text.rsplit(',').next()?),
        How::AppBefore => app(text.split_once(',')?.0),
        How::Url => url(text),
        How::Host => without_port(text).into(),
        How::Carrier => text.to_lowercase().replace('_', "-"),
        How::State => state(text, head.proto == Cell::Text("tcp")).to_string(),
        How::Subject => subject(text),
        How::TlsVersion => match text {
            "TLSv10" => "TLSv1".into(),
            "TLSv11" => "TLS 1.1".into(),
            "TLSv12" => "TLS 1.2".into(),
            "TLSv13" => "TLS 1.3".into(),
            other => other.into(),
        },
        How::HttpVersion => format!("HTTP/{text}"),
        // Another form (RFC 4253, section 4.2): unchanged, and only once.
        How::SshVersion => text.strip_prefix("SSH-")?.split_once('-')?.0.to_string(),
        How::SshSoftware => match text.strip_prefix("SSH-").and_then(|rest| rest.split_once('-')) {
            Some((_, software)) => software.to_string(),
            None => text.to_string(),
        },
        _ => text.to_string(),
    })
}

/// A certificate's subject in Suricata's order, country first, without escapes.
fn subject(text: &str) -> String {
    let (mut parts, mut part, mut rest) = (vec![], String::new(), text.chars());
    while let Some(character) = rest.next() {
        match character {
            ',' => parts.push(std::mem::take(&mut part)),
            '\\' => part.extend(rest.next()),
            _ => part.push(character),
        }
    }
    parts.push(part);
    parts.reverse();
    parts.join(", ")
}

/// Converts Zeek's connection state to Suricata's state: whether both sides sent packets, and whether TCP has
/// ended.
fn state(conn_state: &str, is_tcp: bool) -> &'static str {
    match conn_state {
        "S0" => "new",
        "SF" | "REJ" | "RSTO" | "RSTR" | "RSTOS0" | "RSTRH" | "SH" | "SHR" if is_tcp => "closed",
        "SHR" | "RSTRH" => "new",
        _ => "established",
    }
}

/// A host without its port; the colons of an IPv6 address outside of brackets separate none.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            if name.contains(':') && !name.ends_with(']') { host } else { name }
        }
        _ => host,
    }
}

/// A target in a form that is valid in a request: other characters are escaped, including bytes that are not
/// text (`\xe9`).
fn url(text: &str) -> String {
    let (mut escaped, mut rest) = (String::with_capacity(text.len()), text.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        match (first, behind) {
            (b'\\', [b'x', high, low, ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                escaped.extend(['%', char::from(*high), char::from(*low)]);
                rest = &behind[3..];
            }
            (b'!' | b'#'..=b';' | b'=' | b'?'..=b'[' | b']' | b'_' | b'a'..=b'z' | b'~', _) => {
                escaped.push(char::from(*first));
            }
            _ => escaped += &format!("%{first:02X}"),
        }
    }
    escaped
}

/// Whether a file was seen completely, from its seen, total and missing bytes.
fn push_file_state<'a>(line: &mut Vec<u8>, mut values: impl Iterator<Item = Cell<'a>>) -> bool {
    let mut number = || match values.next() {
        Some(Cell::Unsigned(number)) => Some(number),
        _ => None,
    };
    let (seen, total, missing) = (number().unwrap_or(0), number(), number().unwrap_or(0));
    let is_whole = missing == 0 && total.is_none_or(|total| total <= seen);
    push_string(line, if is_whole { "CLOSED" } else { "TRUNCATED" });
    true
}

/// Writes the present values as a list.
fn push_listed<'a>(line: &mut Vec<u8>, values: impl Iterator<Item = Cell<'a>>) -> bool {
    let there: Vec<_> = values.filter(|value| value.is_present()).collect();
    push_list(line, there.iter(), |line, value| push_value(line, *value));
    !there.is_empty()
}

fn push_listed_text(line: &mut Vec<u8>, number: u64) {
    line.push(b'[');
    quoted(line, |line| push_number(line, number));
    line.push(b']');
}

/// Writes DNS answers with their TTLs.
fn push_answers(line: &mut Vec<u8>, answers: Option<Cell<'_>>, ttls: Option<Cell<'_>>) -> bool {
    let Some(Cell::Texts(answers)) = answers else { return false };
    let ttls: &[u64] = match ttls {
        Some(Cell::Numbers(ttls)) => ttls,
        _ => &[],
    };
    push_list(line, answers.iter().enumerate(), |line, (index, answer)| {
        line.push(b'{');
        push_key(line, "rdata");
        push_string(line, answer);
        if let Some(ttl) = ttls.get(index) {
            push_key(line, "ttl");
            push_number(line, *ttl);
        }
        line.push(b'}');
    });
    !answers.is_empty()
}

/// Writes an IPv6 address with all its digits.
fn push_whole(line: &mut Vec<u8>, address: Ipv6Addr) {
    quoted(line, |line| {
        for (index, group) in address.octets().chunks(2).enumerate() {
            if index > 0 {
                line.push(b':');
            }
            push_hex(line, group);
        }
    });
}

/// `"2026-11-21T02:14:57.363965+0000"`.
fn push_timestamp(line: &mut Vec<u8>, time: Timestamp) {
    line.push(b'"');
    let begin = line.len();
    push_date(line, time);
    if let Some(blank) = line[begin..].iter().position(|byte| *byte == b' ') {
        line[begin + blank] = b'T';
    }
    line.extend_from_slice(b"+0000\"");
}

/// A number derived from a connection's identifier by FNV-1a. Like Suricata's, it has 51 bits, so that
/// programs with only floating-point numbers can read it.
fn flow_id(uid: &str) -> u64 {
    let hash = uid
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    hash & ((1 << 51) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_place_has_two_lines_that_are_not_meant_to() {
        for event in EVENTS {
            for (index, field) in event.fields.iter().enumerate() {
                let same = event.fields[..index].iter().filter(|other| other.place == field.place);
                assert!(same.clone().all(|other| other.how == field.how), "{} {}", event.log, field.place);
            }
        }
    }

    #[test]
    fn targets_are_escaped_again() {
        assert_eq!(url("/a b?c=d&e=%41#f"), "/a%20b?c=d&e=%41#f");
        assert_eq!(url("/<\"é\\xe9\\"), "/%3C%22%C3%A9%e9%5C");
    }

    #[test]
    fn states_are_those_of_suricata() {
        assert_eq!(
            ["S0", "S1", "SF", "REJ", "OTH"].map(|s| state(s, true)),
            ["new", "established", "closed", "closed", "established"]
        );
        assert_eq!(["S0", "SF", "SHR"].map(|s| state(s, false)), ["new", "established", "new"]);
    }

    #[test]
    fn names_and_addresses_are_as_suricata_writes_them() {
        assert_eq!(subject("CN=a,O=One\\, Inc.,C=US"), "C=US, O=One, Inc., CN=a");
        assert_eq!(subject("CN=a\\"), "CN=a");
        let mut line = vec![];
        push_whole(&mut line, "2001:db8::7".parse().unwrap());
        assert_eq!(line, b"\"2001:0db8:0000:0000:0000:0000:0000:0007\"");
    }

    #[test]
    fn a_flow_id_is_a_number_that_every_program_reads() {
        let id = flow_id("Cabc");
        assert!(id > 0 && id < 1 << 51 && id != flow_id("Cabd"));
    }
}
