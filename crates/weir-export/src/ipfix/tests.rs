//! Messages of IPFIX, read by their templates as a collector does.

use super::elements::{REVERSE, VARIABLE};
use super::*;
use crate::carrier::Carrier;
use crate::message::Message;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};
use weir_packet::{Timestamp, Value, ValueType};

const COLUMNS: &[(&str, ValueType)] = &[
    ("ts", ValueType::Time),
    ("uid", ValueType::Text),
    ("id.orig_h", ValueType::Address),
    ("id.orig_p", ValueType::Unsigned),
    ("id.resp_h", ValueType::Address),
    ("id.resp_p", ValueType::Unsigned),
    ("service", ValueType::Text),
    ("duration", ValueType::Interval),
    ("orig_bytes", ValueType::Unsigned),
    ("resp_bytes", ValueType::Unsigned),
    ("conn_state", ValueType::Text),
    ("history", ValueType::Text),
    ("orig_pkts", ValueType::Unsigned),
    ("orig_ip_bytes", ValueType::Unsigned),
    ("resp_pkts", ValueType::Unsigned),
    ("resp_ip_bytes", ValueType::Unsigned),
    ("ip_proto", ValueType::Unsigned),
    ("vlan", ValueType::Unsigned),
];

fn columns() -> Vec<Column> {
    COLUMNS.iter().map(|&(name, value_type)| Column::new(name, value_type, "")).collect()
}

/// A row: the columns from `service` on have fixed values.
fn row(orig: &str, resp: &str, ports: (u64, u64), protocol: u64, service: &str) -> Vec<Value<'static>> {
    let text = |text: &str| Value::Text(text.to_string().into());
    let address = |text: &str| Value::Address(text.parse().unwrap());
    vec![
        Value::Time(Timestamp(1_700_000_000_123_456_789)),
        text("C1"),
        address(orig),
        Value::Unsigned(ports.0),
        address(resp),
        Value::Unsigned(ports.1),
        if service.is_empty() { Value::Absent } else { text(service) },
        Value::Interval(2_000_000_000),
        Value::Unsigned(11),
        Value::Unsigned(12),
        text("SF"),
        text("ShADadFr"),
        Value::Unsigned(3),
        Value::Unsigned(1 << 40),
        Value::Unsigned(5),
        Value::Unsigned(6),
        Value::Unsigned(protocol),
        Value::Absent,
    ]
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Messages>>);

type Messages = Vec<(u32, Vec<u8>)>;

impl Carrier for Kept {
    fn send(&mut self, rows: u32, bytes: Vec<u8>) {
        self.0.lock().unwrap().push((rows, bytes));
    }

    fn end(&mut self) {}
}

/// The messages for these rows, templates first.
fn messages(rows: &[Vec<Value<'static>>]) -> (Vec<Vec<u8>>, u64) {
    let (kept, skipped) = (Kept::default(), Arc::<Mutex<u64>>::default());
    let format = Format::of(&columns()).unwrap();
    let context = format.context();
    let tell = Arc::clone(&skipped);
    let mut sink =
        Ipfix::new(format, Box::new(kept.clone()), Box::new(move |rows| *tell.lock().unwrap() = rows));
    let mut batch = Batch::default();
    rows.iter().for_each(|row| batch.push(row));
    sink.begin(&columns()).unwrap();
    sink.batch(&batch).unwrap();
    sink.end().unwrap();
    let mut stream = stream(77);
    let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    stream.begin();
    let mut all = vec![vec![]];
    stream.announce(&context, now, &mut all[0]);
    for (rows, bytes) in kept.0.lock().unwrap().drain(..) {
        let mut out = vec![];
        stream.frame(&Message { rows, bytes, context: Arc::clone(&context) }, now, &mut out);
        all.push(out);
    }
    let mut report = vec![];
    stream.report(9, now, &mut report);
    all.push(report);
    let skipped = *skipped.lock().unwrap();
    (all, skipped)
}

type Record = BTreeMap<(u32, u16), Vec<u8>>;

/// Reads messages as RFC 7011 says, and returns the data records with their template's number.
fn collect(messages: &[Vec<u8>]) -> Vec<(u16, Record)> {
    let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    let mut templates: BTreeMap<u16, Vec<(u32, u16, u16)>> = BTreeMap::new();
    let mut records = vec![];
    for message in messages {
        assert!(message.len() <= MESSAGE_BYTES_MAX);
        assert_eq!(number(&message[..2]), 10);
        assert_eq!(number(&message[2..4]) as usize, message.len());
        assert_eq!(number(&message[4..8]), 1_800_000_000);
        assert_eq!(number(&message[8..12]) as usize, records.len(), "the sequence number");
        assert_eq!(number(&message[12..16]), 77);
        let mut rest = &message[16..];
        while !rest.is_empty() {
            let (id, length) = (number(&rest[..2]) as u16, number(&rest[2..4]) as usize);
            let mut set = &rest[4..length];
            rest = &rest[length..];
            while !set.is_empty() {
                if id == 2 || id == 3 {
                    let (template, count) = (number(&set[..2]) as u16, number(&set[2..4]));
                    set = if id == 3 { &set[6..] } else { &set[4..] };
                    for _ in 0..count {
                        let (element, length) = (number(&set[..2]) as u16, number(&set[2..4]) as u16);
                        set = &set[4..];
                        let mut enterprise = 0;
                        if element & 0x8000 != 0 {
                            enterprise = number(&set[..4]) as u32;
                            set = &set[4..];
                        }
                        templates.entry(template).or_default().push((enterprise, element & 0x7fff, length));
                    }
                    continue;
                }
                let mut record = Record::new();
                for &(enterprise, element, length) in &templates[&id] {
                    let mut length = usize::from(length);
                    if length == usize::from(VARIABLE) {
                        length = set[0].into();
                        set = &set[1..];
                    }
                    record.insert((enterprise, element), set[..length].to_vec());
                    set = &set[length..];
                }
                records.push((id, record));
            }
        }
    }
    records
}

#[test]
fn a_collector_reads_what_the_row_says() {
    let rows = [
        row("10.0.0.1", "10.0.0.2", (1234, 443), 6, "tls"),
        row("2001:db8::1", "2001:db8::2", (128, 129), 58, ""),
        row("10.0.0.1", "10.0.0.3", (3, 1), 1, ""),
        row("10.0.0.1", "10.0.0.3", (5353, 53), 17, &"é".repeat(200)),
    ];
    let (messages, skipped) = messages(&rows);
    let records = collect(&messages);
    assert_eq!((records.len(), skipped), (5, 0));
    let (_, tcp) = &records[0];
    let value = |id: u16| tcp[&(0, id)].clone();
    assert_eq!(value(152), 1_700_000_000_123_u64.to_be_bytes());
    assert_eq!(value(153), 1_700_000_002_123_u64.to_be_bytes());
    assert_eq!((value(8), value(12)), (vec![10, 0, 0, 1], vec![10, 0, 0, 2]));
    assert_eq!((value(7), value(11), value(4)), (vec![4, 210], vec![1, 187], vec![6]));
    assert_eq!((value(1), value(2)), ((1_u64 << 40).to_be_bytes().to_vec(), 3_u64.to_be_bytes().to_vec()));
    assert_eq!(tcp[&(REVERSE, 1)], 6_u64.to_be_bytes());
    assert_eq!(tcp[&(REVERSE, 2)], 5_u64.to_be_bytes());
    assert_eq!((value(231), value(232)), (11_u64.to_be_bytes().to_vec(), 12_u64.to_be_bytes().to_vec()));
    // SYN, ACK, FIN; SYN, ACK, RST.
    assert_eq!((value(6), tcp[&(REVERSE, 6)].clone()), (vec![0, 0x13], vec![0, 0x16]));
    assert_eq!(
        (value(58), value(136), value(239), value(96)),
        (vec![0, 0], vec![3], vec![1], b"tls".to_vec())
    );
    let (_, icmp) = &records[1];
    assert_eq!(icmp[&(0, 139)], [128, 0]);
    assert_eq!((icmp[&(0, 27)].len(), icmp[&(0, 136)][0]), (16, 1));
    assert!(icmp[&(0, 96)].is_empty());
    assert!(!icmp.contains_key(&(0, 7)) && !icmp.contains_key(&(0, 6)));
    // Unreachable, host.
    assert_eq!(records[2].1[&(0, 32)], [3, 1]);
    // A text is cut between characters.
    assert_eq!(records[3].1[&(0, 96)], "é".repeat(127).as_bytes());
    let (id, report) = &records[4];
    assert_eq!(
        (*id, &report[&(0, 149)][..], &report[&(0, 42)][..]),
        (512, &77_u32.to_be_bytes()[..], &4_u64.to_be_bytes()[..])
    );
    assert_eq!(report[&(0, 41)], 2_u64.to_be_bytes());
    assert_eq!(report[&(0, 40)], (messages[0].len() as u64 + messages[1].len() as u64).to_be_bytes());
    assert_eq!(report[&(0, 166)], 9_u64.to_be_bytes());
}

#[test]
fn many_rows_are_many_messages_and_rows_without_addresses_are_skipped() {
    let mut rows: Vec<_> = (0..1000)
        .map(|n| {
            let v4 = n % 3 == 0;
            let (orig, resp) = if v4 { ("10.0.0.1", "10.0.0.2") } else { ("::1", "::2") };
            row(orig, resp, (n, n * 7), [6, 17, 1][n as usize % 2], ["", "dns", "quic"][n as usize % 3])
        })
        .collect();
    let mut without = row("::1", "::2", (1, 2), 6, "");
    without[2] = Value::Absent;
    rows.insert(500, without);
    let (messages, skipped) = messages(&rows);
    let records = collect(&messages);
    assert_eq!((records.len(), skipped), (1001, 1));
    assert!(messages.len() > 80, "{}", messages.len());
    let ports = records
        .iter()
        .take(1000)
        .map(|(_, record)| u16::from_be_bytes(record[&(0, 7)][..].try_into().unwrap()));
    assert!(ports.eq(0..1000));
}

#[test]
fn missing_columns_are_named_and_optional_ones_are_left_out() {
    let few: Vec<_> =
        columns().into_iter().filter(|column| column.name != "ip_proto" && column.name != "ts").collect();
    assert_eq!(Format::of(&few).expect_err("it needs both"), ["ts", "ip_proto"]);
    let few: Vec<_> = columns().into_iter().filter(|column| column.name != "uid").collect();
    let format = Format::of(&few).unwrap();
    assert!(
        format.templates.iter().all(|template| template.elements.iter().all(|element| element.id != 148))
    );
}
