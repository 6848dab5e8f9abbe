//! Rows in every format; captures that are written and read back.

use super::*;
use crate::CaptureReader;
use proptest::prelude::*;
use std::io::{self, Cursor};
use std::sync::{Arc, Mutex};
use weir_packet::{Batch, Burst, Column, LinkType, PacketMeta, Poll, Source, Timestamp, Value, ValueType};

/// A writer whose bytes stay accessible.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A batch of one row.
fn one(values: &[Value<'_>]) -> Batch {
    let mut batch = Batch::default();
    batch.push(values);
    batch
}

impl Shared {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }
}

fn column(name: &'static str, value_type: ValueType) -> Column {
    Column { name: name.into(), value_type, doc: "".into() }
}

/// The output for these rows.
fn written(format: Format, options: Options, columns: &[Column], rows: &[Vec<Value<'_>>]) -> String {
    let out = Shared::default();
    let mut sink = create(format, Box::new(out.clone()), &options);
    sink.begin(columns).unwrap();
    let mut batch = Batch::new(columns.len());
    rows.iter().for_each(|row| batch.push(row));
    sink.batch(&batch).unwrap();
    sink.end().unwrap();
    out.text()
}

fn every_type() -> (Vec<Column>, Vec<Value<'static>>) {
    let texts: &'static [String] = Box::leak(Box::new(["a,b".to_owned(), "c\"".to_owned()]));
    [
        ("ts", ValueType::Time, Value::Time(Timestamp(1_795_226_401_123_456_789))),
        ("orig_h", ValueType::Address, Value::Address("10.0.0.1".parse().unwrap())),
        ("resp_h", ValueType::Ipv6, Value::Address("fe80::1".parse().unwrap())),
        ("resp_p", ValueType::Unsigned, Value::Unsigned(443)),
        ("share", ValueType::Fraction, Value::Fraction(1.0 / 3.0)),
        ("duration", ValueType::Interval, Value::Interval(1_002_003_004)),
        ("local", ValueType::Bool, Value::Bool(true)),
        ("mac", ValueType::Mac, Value::Mac([0, 1, 2, 0xfd, 0xfe, 0xff])),
        ("host", ValueType::Text, Value::Text("x\x1b[31m\u{9b}é".into())),
        ("none", ValueType::Text, Value::Absent),
        ("raw", ValueType::Bytes, Value::Bytes((&b"\x00\xab"[..]).into())),
        ("names", ValueType::Texts, Value::Texts(texts.into())),
        ("sizes", ValueType::Numbers, Value::Numbers((&[1u64, 20][..]).into())),
    ]
    .into_iter()
    .map(|(name, value_type, value)| (column(name, value_type), value))
    .unzip()
}

#[test]
fn json_lines_are_zeeks() {
    let (columns, row) = every_type();
    let absent = vec![Value::Absent; columns.len()];
    let got = written(Format::Json, Options::default(), &columns, &[row, absent]);
    let expected = concat!(
        r#"{"ts":1795226401.123456789,"orig_h":"10.0.0.1","resp_h":"fe80::1","resp_p":443,"#,
        r#""share":0.333333,"duration":1.002003004,"local":true,"mac":"00:01:02:fd:fe:ff","host":"x\u001b[31m\u009bé","#,
        r#""raw":"00ab","names":["a,b","c\""],"sizes":[1,20]}"#,
        "\n{}\n"
    );
    assert_eq!(got, expected);
}

#[test]
fn every_character_survives_json() {
    let all: String = (0..0x3000).filter_map(char::from_u32).chain("\u{10ffff}\u{1f600}".chars()).collect();
    let columns = [column("a\"b", ValueType::Text)];
    let got = written(Format::Json, Options::default(), &columns, &[vec![Value::Text(all.clone().into())]]);
    assert!(got.chars().all(|c| c == '\n' || !c.is_control()));
    let parsed: serde_json::Value = serde_json::from_str(&got).unwrap();
    assert_eq!(parsed["a\"b"], all);
}

#[test]
fn csv_quotes_what_needs_it() {
    let (columns, row) = every_type();
    let got = written(Format::Csv, Options::default(), &columns, &[row]);
    let expected = concat!(
        "ts,orig_h,resp_h,resp_p,share,duration,local,mac,host,none,raw,names,sizes\n",
        "1795226401.123456789,10.0.0.1,fe80::1,443,0.333333,1.002003004,true,00:01:02:fd:fe:ff,",
        "x\\x1b[31m\\xc2\\x9bé,,00ab,\"a\\x2cb,c\"\"\",\"1,20\"\n",
    );
    assert_eq!(got, expected);
    let texts = ["", "plain", "a\nb"].map(|t| vec![Value::Text(t.into())]);
    let got = written(Format::Csv, Options::default(), &[column("t", ValueType::Text)], &texts);
    assert_eq!(got, "t\n\"\"\nplain\na\\x0ab\n");
}

/// Characters that control a terminal or hide, one of each range.
const HIDDEN: &str = "\0\t\n\r\x1b\x7f\u{80}\u{9b}\u{ad}\u{61c}\u{180e}\u{200b}\u{200f}\u{2028}\u{202a}\u{202e}\u{2066}\
                      \u{2069}\u{feff}\u{fff9}\u{e0041}";

#[test]
fn no_text_format_writes_hidden_characters() {
    let list = vec![HIDDEN.to_string(), "a".to_string()];
    let own = [
        ("host", ValueType::Text, Value::Text(HIDDEN.into())),
        ("names", ValueType::Texts, Value::Texts(list.into())),
    ];
    let (columns, row) = of_connection(own.into());
    for &format in Format::ALL.iter().filter(|format| !format.is_columnar()) {
        let got = written(
            format,
            Options { path: "http", ..Options::default() },
            &columns,
            std::slice::from_ref(&row),
        );
        let bad: String =
            got.chars().filter(|c| !matches!(c, '\n' | '\t') && weir_packet::is_hidden(*c)).collect();
        assert!(bad.is_empty(), "{format}: {bad:?} in {got}");
        let lines = got.lines().filter(|line| !line.starts_with('#')).count();
        let header = usize::from(matches!(format, Format::Csv | Format::Tsv | Format::Table))
            + 2 * usize::from(format == Format::Markdown);
        assert_eq!(lines, 1 + header, "{format}: a row is a line: {got}");
        assert!(got.contains('a'), "{format}");
    }
}

#[test]
fn escapes_of_hidden_characters_can_be_undone() {
    let columns = [column("t", ValueType::Text)];
    let rows = [vec![Value::Text(HIDDEN.into())], vec![Value::Text("日本\u{2030}é".into())]];
    let got = written(Format::Json, Options::default(), &columns, &rows);
    let parsed: Vec<serde_json::Value> =
        got.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&parsed[0]["t"], &parsed[1]["t"]), (&HIDDEN.into(), &"日本\u{2030}é".into()));
    for format in [Format::Csv, Format::Zeek] {
        let got = written(format, Options::default(), &columns, &rows);
        let lines: Vec<_> = got.lines().filter(|line| !line.starts_with('#')).collect();
        let [.., hidden, plain] = lines[..] else { panic!("{got}") };
        let bytes: Vec<u8> = hidden
            .split("\\x")
            .skip(1)
            .map(|hex| u8::from_str_radix(hex, 16).unwrap_or_else(|_| panic!("{hidden}")))
            .collect();
        assert_eq!(String::from_utf8(bytes).unwrap(), HIDDEN, "{format}");
        assert_eq!(plain, "日本\u{2030}é", "{format}");
    }
}

#[test]
fn safe_csv_has_no_formulas() {
    let texts =
        ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "\u{ff1d}1", "\t=1", "a=1", "=\"a\",b", "http://x/?a=-1", ""];
    let columns = [column("=t", ValueType::Text), column("n", ValueType::Fraction)];
    let rows = texts.map(|text| vec![Value::Text(text.into()), Value::Fraction(-0.5)]);
    let plain = written(Format::Csv, Options::default(), &columns, &rows);
    assert!(!plain.contains('\''), "{plain}");
    let safe = written(Format::Csv, Options { csv_safe: true, ..Options::default() }, &columns, &rows);
    let expected = "\
'=t,n
'=1+1,-0.500000
'+1,-0.500000
'-1,-0.500000
'@SUM(A1),-0.500000
' =1,-0.500000
'\u{ff1d}1,-0.500000
'\\x09=1,-0.500000
a=1,-0.500000
\"'=\"\"a\"\",b\",-0.500000
http://x/?a=-1,-0.500000
\"\",-0.500000
";
    assert_eq!(safe, expected);
}

#[test]
fn a_table_is_aligned_and_sends_no_escapes() {
    let columns =
        [column("ts", ValueType::Time), column("port", ValueType::Unsigned), column("host", ValueType::Text)];
    let row = |port, host: &'static str| {
        vec![
            Value::Time(Timestamp(1_795_226_401_123_456_000)),
            Value::Unsigned(port),
            Value::Text(host.into()),
        ]
    };
    let rows = [row(7, "\x1b]0;x\x07\n\u{202e}"), row(65_535, "日本"), vec![Value::Absent; 3]];
    let got = written(Format::Table, Options::default(), &columns, &rows);
    let expected = "\
ts (UTC)                  port  host
2026-11-21 02:00:01.123      7  \\x1b]0;x\\x07\\n\\u{202e}
2026-11-21 02:00:01.123  65535  日本
-                            -  -
";
    assert_eq!(got, expected);
    let bold = written(Format::Table, Options { color: true, ..Options::default() }, &columns, &[]);
    assert_eq!(bold, "\x1b[1mts (UTC)  port  host\x1b[0m\n");
}

#[test]
fn a_table_fits_its_terminal() {
    let columns = [
        column("host", ValueType::Text),
        column("bytes", ValueType::Unsigned),
        column("uri", ValueType::Text),
        column("agent", ValueType::Text),
    ];
    let row = || {
        let long = Value::Text("0123456789".repeat(9).into());
        vec![long.clone(), Value::Unsigned(u64::MAX), long.clone(), long]
    };
    for (width, notes) in [(200, 0), (70, 0), (40, 1), (12, 3)] {
        let options = Options { width: Some(width), ..Options::default() };
        let got = written(Format::Table, options, &columns, &[row(), row()]);
        let widest = got.lines().map(|l| l.chars().count()).max().unwrap();
        assert!(widest <= width.max(12 + 2 + 9), "{width}: {got}");
        assert_eq!(got.contains("more)"), notes > 0, "{got}");
        assert!(got.contains('…'));
    }
    let got = written(Format::Table, Options::default(), &columns, &[row()]);
    assert!(!got.contains('…'), "without a terminal nothing is cut");
}

#[test]
fn a_table_holds_a_few_rows_only() {
    let out = Shared::default();
    let mut sink = create(Format::Table, Box::new(out.clone()), &Options::default());
    sink.begin(&[column("n", ValueType::Unsigned)]).unwrap();
    for n in 0..20_000 {
        sink.batch(&one(&[Value::Unsigned(n)])).unwrap();
    }
    assert!(!out.text().is_empty(), "streams before its end");
    sink.end().unwrap();
    assert_eq!(out.text().lines().count(), 20_001);

    let live = Shared::default();
    let mut sink = create(Format::Table, Box::new(live.clone()), &Options::default());
    sink.begin(&[column("n", ValueType::Unsigned)]).unwrap();
    sink.flush().unwrap();
    assert_eq!(live.text(), "", "there is nothing yet to take widths from");
    sink.batch(&one(&[Value::Unsigned(1)])).unwrap();
    sink.flush().unwrap();
    assert_eq!(live.text(), "     n\n     1\n", "its widths are what such values mostly need");
    sink.batch(&one(&[Value::Unsigned(2)])).unwrap();
    sink.flush().unwrap();
    assert_eq!(live.text(), "     n\n     1\n     2\n");
}

#[test]
fn flushed_rows_are_read_before_the_end() {
    for &format in Format::ALL {
        let out = Shared::default();
        let mut sink = create(format, Box::new(out.clone()), &Options { path: "ssl", ..Options::default() });
        let (columns, row) = of_connection(vec![]);
        sink.begin(&columns).unwrap();
        let before = out.bytes().len();
        sink.batch(&one(&row)).unwrap();
        assert_eq!(out.bytes().len(), before, "{format}: larger pieces");
        sink.flush().unwrap();
        assert_eq!(out.bytes().len() > before, format != Format::Parquet, "{format}");
        let flushed = out.bytes().len();
        sink.flush().unwrap();
        assert_eq!(out.bytes().len(), flushed, "{format}: there is nothing more");
    }
}

#[test]
fn formats_print_as_they_parse() {
    for &format in Format::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    assert_eq!("jsonl".parse(), Ok(Format::Json));
    let error = "xml".parse::<Format>().unwrap_err();
    assert!(error.starts_with("no format `xml`: there are table, json, csv"), "{error}");
    assert!(Format::labels().starts_with("table, json, csv") && Format::labels().contains(" or "));
}

/// A connection's columns and values, followed by those of `own`.
fn of_connection(own: Vec<(&'static str, ValueType, Value<'static>)>) -> (Vec<Column>, Vec<Value<'static>>) {
    let head = vec![
        ("ts", ValueType::Time, Value::Time(Timestamp(1_795_226_401_123_456_789))),
        ("uid", ValueType::Text, Value::Text("Cabc".into())),
        ("id.orig_h", ValueType::Address, Value::Address("10.0.0.1".parse().unwrap())),
        ("id.orig_p", ValueType::Unsigned, Value::Unsigned(50_000)),
        ("id.resp_h", ValueType::Address, Value::Address("10.0.0.2".parse().unwrap())),
        ("id.resp_p", ValueType::Unsigned, Value::Unsigned(443)),
    ];
    head.into_iter().chain(own).map(|(name, value_type, value)| (column(name, value_type), value)).unzip()
}

/// The event of a row of this log.
fn event(log: &'static str, own: Vec<(&'static str, ValueType, Value<'static>)>) -> serde_json::Value {
    let (columns, row) = of_connection(own);
    let got = written(Format::Eve, Options { path: log, ..Options::default() }, &columns, &[row]);
    serde_json::from_str(&got).unwrap_or_else(|e| panic!("{got}: {e}"))
}

#[test]
fn an_event_of_eve_begins_as_suricatas() {
    let (columns, row) = of_connection(vec![
        ("server_name", ValueType::Text, Value::Text("a\"b".into())),
        ("proto", ValueType::Text, Value::Text("tcp".into())),
    ]);
    let got = written(Format::Eve, Options { path: "ssl", ..Options::default() }, &columns, &[row]);
    let expected = concat!(
        r#"{"timestamp":"2026-11-21T02:00:01.123456+0000","flow_id":119421192153110,"event_type":"tls","#,
        r#""src_ip":"10.0.0.1","src_port":50000,"dest_ip":"10.0.0.2","dest_port":443,"proto":"TCP","ip_v":4,"#,
        r#""tls":{"sni":"a\"b","uid":"Cabc"}}"#,
        "\n"
    );
    assert_eq!(got, expected);
}

#[test]
fn a_flow_of_eve_has_suricatas_names_and_ours_for_the_rest() {
    let text = |text: &'static str| Value::Text(text.into());
    let got = event(
        "conn",
        vec![
            ("proto", ValueType::Text, text("tcp")),
            ("service", ValueType::Text, text("smtp,ssl")),
            ("duration", ValueType::Interval, Value::Interval(2_500_000_000)),
            ("conn_state", ValueType::Text, text("SF")),
            ("history", ValueType::Text, text("ShADadFf")),
            ("orig_pkts", ValueType::Unsigned, Value::Unsigned(7)),
            ("community_id", ValueType::Text, text("1:abc=")),
            ("vlan", ValueType::Unsigned, Value::Unsigned(5)),
            ("inner_vlan", ValueType::Unsigned, Value::Absent),
        ],
    );
    let expected = serde_json::json!({
        "timestamp": "2026-11-21T02:00:01.123456+0000", "flow_id": 119421192153110u64, "event_type": "flow",
        "src_ip": "10.0.0.1", "src_port": 50000, "dest_ip": "10.0.0.2", "dest_port": 443, "proto": "TCP", "ip_v": 4,
        "app_proto": "tls", "app_proto_orig": "smtp", "vlan": [5], "community_id": "1:abc=",
        "flow": {
            "pkts_toserver": 7, "start": "2026-11-21T02:00:01.123456+0000", "end": "2026-11-21T02:00:03.623456+0000",
            "age": 2, "alerted": false, "state": "closed", "conn_state": "SF", "duration": 2.5, "history": "ShADadFf", "uid": "Cabc",
        },
    });
    assert_eq!(got, expected);
    let icmp = event("conn", vec![("proto", ValueType::Text, text("icmp"))]);
    assert_eq!((&icmp["proto"], &icmp["icmp_code"]), (&"ICMP".into(), &443.into()));
    assert_eq!(icmp.get("src_port"), None);
}

#[test]
fn what_is_in_quic_is_quic_in_eve() {
    let got = event("conn", vec![("service", ValueType::Text, Value::Text("quic,ssl".into()))]);
    assert_eq!((&got["app_proto"], got.get("app_proto_orig")), (&"quic".into(), None));
}

#[test]
fn a_file_in_eve_is_of_who_sent_it() {
    let file = |is_orig, numbers: [u64; 3]| {
        let [seen, total, missing] = numbers.map(Value::Unsigned);
        event(
            "files",
            vec![
                ("source", ValueType::Text, Value::Text("FTP_DATA".into())),
                ("filename", ValueType::Text, Value::Text("a.txt".into())),
                ("is_orig", ValueType::Bool, Value::Bool(is_orig)),
                ("seen_bytes", ValueType::Unsigned, seen),
                ("total_bytes", ValueType::Unsigned, total),
                ("missing_bytes", ValueType::Unsigned, missing),
            ],
        )
    };
    let got = file(false, [7, 7, 0]);
    assert_eq!((&got["src_ip"], &got["dest_port"]), (&"10.0.0.2".into(), &50_000.into()));
    let expected = serde_json::json!({
        "filename": "a.txt", "gaps": false, "state": "CLOSED", "stored": false, "size": 7,
        "uid": "Cabc", "is_orig": false,
    });
    assert_eq!((&got["fileinfo"], &got["app_proto"]), (&expected, &"ftp-data".into()));
    for (numbers, gaps) in [([7, 9, 0], false), ([5, 7, 2], true)] {
        let got = file(true, numbers);
        assert_eq!(
            (&got["fileinfo"]["state"], &got["fileinfo"]["gaps"]),
            (&"TRUNCATED".into(), &gaps.into())
        );
        assert_eq!(got["src_ip"], "10.0.0.1");
    }
}

#[test]
fn zeek_tells_what_is_empty_and_what_is_no_text() {
    let columns = [
        column("query", ValueType::Text),
        column("TTLs", ValueType::Numbers),
        column("sizes", ValueType::Numbers),
        column("scid", ValueType::Bytes),
    ];
    let row = |text: &'static str, list: &[u64], bytes: Value<'static>| {
        let list = Value::Numbers(list.to_vec().into());
        vec![Value::Text(text.into()), list.clone(), list, bytes]
    };
    let rows =
        [row("caf\\xe9\\x5cxe9\\n", &[60, 1], Value::Bytes(vec![].into())), row("", &[], Value::Absent)];
    let got = written(Format::Zeek, Options { path: "dns", ..Options::default() }, &columns, &rows);
    let lines: Vec<&str> = got.lines().skip_while(|line| !line.starts_with("#types")).collect();
    let expected = [
        "#types\tstring\tvector[interval]\tvector[count]\tstring",
        "caf\\xe9\\x5cxe9\\x5cn\t60.000000,1.000000\t60,1\t(empty)",
        "(empty)\t(empty)\t(empty)\t-",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn dns_in_eve_is_of_version_3() {
    let own = |answers: Value<'static>, rcode: Value<'static>| {
        vec![
            ("proto", ValueType::Text, Value::Text("udp".into())),
            ("trans_id", ValueType::Unsigned, Value::Unsigned(7)),
            ("query", ValueType::Text, Value::Text("example.com".into())),
            ("qtype_name", ValueType::Text, Value::Text("A".into())),
            ("rcode", ValueType::Unsigned, Value::Unsigned(0)),
            ("rcode_name", ValueType::Text, rcode),
            ("answers", ValueType::Texts, answers),
            ("TTLs", ValueType::Numbers, Value::Numbers(vec![60].into())),
        ]
    };
    let answers = Value::Texts(vec!["10.0.0.9".to_string(), "x".to_string()].into());
    let got = &event("dns", own(answers, Value::Text("NOERROR".into())))["dns"];
    let expected = serde_json::json!({
        "version": 3, "type": "response", "id": 7, "rcode": "NOERROR", "rcode_number": 0, "uid": "Cabc",
        "queries": [{"rrname": "example.com", "rrtype": "A"}],
        "answers": [{"rdata": "10.0.0.9", "ttl": 60}, {"rdata": "x"}],
    });
    assert_eq!(*got, expected);
    let got = event("dns", own(Value::Absent, Value::Absent));
    assert_eq!((&got["dns"]["type"], got["dns"].get("answers")), (&"request".into(), None));
}

#[test]
fn eve_takes_the_log_of_each_row_and_refuses_rows_of_none() {
    let (mut columns, row) = of_connection(vec![
        ("client", ValueType::Text, Value::Text("SSH-2.0-OpenSSH_9.6".into())),
        ("version", ValueType::Text, Value::Text("1.1".into())),
        ("host", ValueType::Text, Value::Text("[::1]:8080".into())),
    ]);
    columns.push(column("_path", ValueType::Text));
    let rows = ["ssh", "http", "made_up"].map(|log| [&row[..], &[Value::Text(log.into())]].concat());
    let got = written(Format::Eve, Options::default(), &columns, &rows);
    let got: Vec<serde_json::Value> = got.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        got[0]["ssh"]["client"],
        serde_json::json!({"proto_version": "2.0", "software_version": "OpenSSH_9.6"})
    );
    assert_eq!(got[1]["http"]["protocol"], "HTTP/1.1");
    assert_eq!(got[1]["http"]["hostname"], "[::1]");
    assert_eq!((&got[2]["event_type"], &got[2]["made_up"]["version"]), (&"made_up".into(), &"1.1".into()));
    let mut sink = create(Format::Eve, Box::new(io::sink()), &Options::default());
    let error = sink.begin(&columns[..3]).unwrap_err();
    assert!(error.to_string().contains("--format json"), "{error}");
}

fn meta(number: u64, ns: i64, wire_bytes: u32, link: LinkType, interface: u16) -> PacketMeta {
    PacketMeta { time: Timestamp(ns), number, wire_bytes, link, interface, ..PacketMeta::default() }
}

/// Writes packets and reads them back: time, wire bytes, link, interface, data.
fn round_trip(
    format: CaptureFormat,
    packets: &[(PacketMeta, &[u8])],
) -> Vec<(i64, u32, LinkType, u16, Vec<u8>)> {
    let out = Shared::default();
    let mut writer = CaptureWriter::new(format, Box::new(out.clone()));
    for (meta, data) in packets {
        writer.write(meta, data).unwrap();
    }
    writer.finish().unwrap();
    let bytes = out.0.lock().unwrap().clone();
    let mut source = CaptureReader::from_reader("written", Box::new(Cursor::new(bytes)));
    let (mut got, mut burst) = (Vec::new(), Burst::default());
    while source.poll(&mut burst).unwrap() != Poll::End {
        for (i, p) in burst.packets.iter().enumerate() {
            got.push((p.time.0, p.wire_bytes, p.link, p.interface, burst.data(i).to_vec()));
        }
    }
    got
}

#[test]
fn captures_written_are_read_again() {
    let packets: Vec<(PacketMeta, &[u8])> = vec![
        (meta(1, 1_795_226_401_123_456_789, 60, LinkType::ETHERNET, 3), b"abcde"),
        (meta(2, -5, 0, LinkType::ETHERNET, 3), b""),
        (meta(3, 7, 1, LinkType::ETHERNET, 3), b"raised"),
    ];
    let expected = |interface| {
        vec![
            (1_795_226_401_123_456_789, 60, LinkType::ETHERNET, interface, b"abcde".to_vec()),
            (0, 0, LinkType::ETHERNET, interface, vec![]),
            (7, 6, LinkType::ETHERNET, interface, b"raised".to_vec()),
        ]
    };
    for format in [CaptureFormat::Pcap, CaptureFormat::Pcapng] {
        assert_eq!(round_trip(format, &packets), expected(0), "{format:?}");
        assert_eq!(round_trip(format, &[]), [], "{format:?}: empty, and a capture");
    }
}

#[test]
fn pcapng_keeps_link_types_and_interfaces_apart_and_pcap_says_that_it_cant() {
    let packets: Vec<(PacketMeta, &[u8])> = vec![
        (meta(1, 1, 1, LinkType::ETHERNET, 5), b"a"),
        (meta(2, 2, 1, LinkType::RAW, 5), b"b"),
        (meta(3, 3, 1, LinkType::ETHERNET, 9), b"c"),
        (meta(4, 4, 1, LinkType::RAW, 5), b"d"),
    ];
    let got: Vec<_> = round_trip(CaptureFormat::Pcapng, &packets).into_iter().map(|p| (p.2, p.3)).collect();
    assert_eq!(
        got,
        [(LinkType::ETHERNET, 0), (LinkType::RAW, 1), (LinkType::ETHERNET, 2), (LinkType::RAW, 1)]
    );
    let mut writer = PcapWriter::new(Vec::new());
    writer.write(&packets[0].0, b"a").unwrap();
    let error = writer.write(&packets[1].0, b"b").unwrap_err();
    assert!(error.to_string().contains("pcapng"), "{error}");
}

#[test]
fn a_capture_file_has_the_format_of_its_name() {
    let of = |name: &str| CaptureFormat::of_path(name.as_ref());
    assert_eq!(of("a/b.pcap"), Some(CaptureFormat::Pcap));
    assert_eq!(of("B.PCAPNG"), Some(CaptureFormat::Pcapng));
    assert_eq!(of("-"), Some(CaptureFormat::Pcapng));
    assert_eq!(of("b.cap"), Some(CaptureFormat::Pcap));
    assert_eq!(of("b.dump"), None);
    let error = CaptureWriter::create("x.txt").err().unwrap();
    assert!(error.to_string().contains("the name must end in"));
    assert!(CaptureWriter::create("/nonexistent/x.pcap").err().unwrap().to_string().contains("x.pcap"));
}

proptest! {
    #[test]
    fn any_packets_survive_being_written_and_read(
        packets in proptest::collection::vec(
            (0..4_000_000_000_000_000_000i64, 0..100_000u32, 0..3u16, proptest::collection::vec(any::<u8>(), 0..90)),
            0..200,
        ),
    ) {
        for format in [CaptureFormat::Pcap, CaptureFormat::Pcapng] {
            let links = if format == CaptureFormat::Pcap { 1 } else { 3 };
            let written: Vec<(PacketMeta, &[u8])> = packets
                .iter()
                .map(|(ns, wire, link, data)| (meta(1, *ns, *wire, LinkType(link % links), 0), &data[..]))
                .collect();
            let read = round_trip(format, &written);
            prop_assert_eq!(read.len(), written.len());
            for (got, (meta, data)) in read.iter().zip(&written) {
                let wire = meta.wire_bytes.max(data.len() as u32);
                prop_assert_eq!((got.0, got.1, got.2, &got.4[..]), (meta.time.0, wire, meta.link, *data));
            }
        }
    }
}

#[test]
fn markdown_shows_texts_of_the_traffic_as_texts() {
    let (columns, row) = every_type();
    let text = written(Format::Markdown, Options::default(), &columns, &[row]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0].split(" | ").count(), columns.len());
    assert_eq!(lines[1].matches("|---").count() + lines[1].matches("|--:").count(), columns.len());
    assert!(lines[2].starts_with("| 2026-11-21 02:00:01.123 | 10.0.0.1 | fe80::1 | 443 |"), "{}", lines[2]);
    assert!(
        lines[2].contains("| ` x\\x1b[31m\\xc2\\x9bé ` |  | 00ab | a,b, ` c\" ` | 1, 20 |"),
        "{}",
        lines[2]
    );
    let shown = |text: &str| {
        let value = vec![Value::Text(text.into())];
        let all = written(Format::Markdown, Options::default(), &[column("a", ValueType::Text)], &[value]);
        all.lines().nth(2).unwrap_or_default().to_string()
    };
    for (text, expected) in [
        ("a.example", "| a.example |"),
        ("http://a.example", "| ` http://a.example ` |"),
        ("id.orig_h", "| id.orig_h |"),
        ("_a_ b", "| ` _a_ b ` |"),
        ("GH-1", "| ` GH-1 ` |"),
        (":x:", "| ` :x: ` |"),
        ("0123abcd", "| ` 0123abcd ` |"),
        ("````````[a](b)", "| ` \\x60\\x60\\x60\\x60\\x60\\x60\\x60\\x60[a](b) ` |"),
        ("<b>|`x`", "| `` <b>\\|`x` `` |"),
        ("-", "| ` - ` |"),
        ("[a](b)", "| ` [a](b) ` |"),
        ("", "|  |"),
        ("a\nb", "| ` a\\x0ab ` |"),
    ] {
        assert_eq!(shown(text), expected);
    }
}
