//! The rows of aggregates are those of a naive model, with any number of workers, native or interpreted.
//!
//! The model reads the fields of packets from their details ([`weir::Dissector`]), and those of rows from the
//! same rows.

use crate::properties::aggregate_model::{Datum, Field, Function, Kind, Record, Row, Spec, rows};
use crate::properties::drive::{FIRST_LIGHT, MemoryPacket, ask, in_memory, read_capture, seeds};
use std::collections::{BTreeMap, BTreeSet};
use weir::aggregate::{AggregateRows, Aggregation, CONNECTIONS, RecordSource};
use weir::lang::filter::Catalog;
use weir::lang::model::{FieldId, LayerId};
use weir::packet::{Batch, Column, DropReason, LinkType, PacketMeta, Value, ValueType};
use weir::{
    Compiler, Dissector, Engine, Executor, Item, LayerDetail, Log, Need, Next, Options, PacketDetail,
    Question, Shape, TakeItems, Want, connection_columns,
};
use weir_testing::Random;
use weir_testing::frames;
use weir_testing::traffic::{Network, conversation, mix};

/// The layers whose fields are keys and values.
const LAYERS: [&str; 4] = ["ip", "ipv6", "tcp", "udp"];

fn example(name: &str) -> String {
    FIRST_LIGHT.replace("first-light", name)
}

/// The details of a packet without what an error message quotes, and without incomplete layers.
fn own_layers<'a>(dissector: &Dissector, detail: &'a PacketDetail) -> Vec<&'a LayerDetail> {
    let name = |layer: &LayerDetail| name_of(dissector, layer.layer);
    let quotes = |pair: &[LayerDetail]| {
        matches!((name(&pair[0]), name(&pair[1])), ("icmp", "ip") | ("icmpv6", "ipv6"))
    };
    let end = detail.layers.windows(2).position(quotes).map_or(detail.layers.len(), |at| at + 1);
    detail.layers[..end].iter().filter(|layer| layer.payload.is_some()).collect()
}

fn name_of(dissector: &Dissector, layer: LayerId) -> &str {
    &dissector.stack().layers[usize::from(layer.0)].protocol.filter_name
}

fn datum(value: &Value<'_>) -> Datum {
    match value {
        Value::Unsigned(number) => Datum::Whole(i128::from(*number)),
        Value::Bool(truth) => Datum::Whole(i128::from(*truth)),
        Value::Address(address) => Datum::Text(address.to_string()),
        _ => Datum::Absent,
    }
}

/// The record of a packet: `frame.len`, the fields of [`LAYERS`], and the tuple. `None`: fragments, whose
/// datagrams need several packets.
fn record_of(dissector: &Dissector, number: u64, packet: &MemoryPacket) -> Option<Record> {
    let meta = PacketMeta {
        time: packet.time,
        number,
        offset: 0,
        captured_bytes: packet.frame.len() as u32,
        wire_bytes: packet.wire_bytes.max(packet.frame.len() as u32),
        link: packet.link,
        interface: 0,
    };
    let detail = dissector.packet(&meta, &packet.frame);
    if detail.reason == Some(DropReason::FragmentWaiting) {
        return None;
    }
    let layers = own_layers(dissector, &detail);
    let mut values = BTreeMap::from([
        ("frame.len".to_string(), Datum::Whole(i128::from(meta.wire_bytes))),
        ("frame.time".to_string(), Datum::Whole(i128::from(packet.time.0))),
    ]);
    let field = |layer: &LayerDetail, name: &str| {
        let protocol = &dissector.stack().layers[usize::from(layer.layer.0)].protocol;
        let at = protocol.fields.iter().position(|field| field.path == name)?;
        let field = layer.field(FieldId(at as u16))?;
        Some(datum(&dissector.value(layer.layer, field, &packet.frame)))
    };
    for name in LAYERS {
        let Some(layer) = layers.iter().rfind(|layer| name_of(dissector, layer.layer) == name) else {
            continue;
        };
        let protocol = &dissector.stack().layers[usize::from(layer.layer.0)].protocol;
        for known in &protocol.fields {
            values.extend(field(layer, &known.path).map(|value| (format!("{name}.{}", known.path), value)));
        }
        for (derived, number) in &layer.derived {
            let known = &protocol.lets[usize::from(derived.0)].name;
            values.insert(format!("{name}.{known}"), Datum::Whole(i128::from(*number)));
        }
    }
    // The innermost layer with connections, and the addresses below.
    let two_sided = |layer: &&LayerDetail| {
        matches!(name_of(dissector, layer.layer), "tcp" | "udp" | "icmp" | "icmpv6" | "sctp")
    };
    if let Some(at) = layers.iter().rposition(two_sided) {
        let (layer, name) = (layers[at], name_of(dissector, layers[at].layer));
        let below =
            layers[..at].iter().rfind(|layer| matches!(name_of(dissector, layer.layer), "ip" | "ipv6"));
        let ports = match name {
            "icmp" | "icmpv6" => {
                [field(layer, "type")?, answer(name, field(layer, "type")?, field(layer, "code")?)]
            }
            _ => [field(layer, "src_port")?, field(layer, "dst_port")?],
        };
        let [sport, dport] = ports;
        let tuple = [
            ("src", field(below?, "src")?),
            ("dst", field(below?, "dst")?),
            ("sport", sport),
            ("dport", dport),
            ("proto", Datum::Text(name.to_string())),
        ];
        values.extend(tuple.map(|(name, value)| (name.to_string(), value)));
    }
    Some(Record { time: packet.time.0, values })
}

/// What takes the place of the receiver's port in ICMP: the type of the message that answers this one or is
/// answered by it, or else the code.
fn answer(name: &str, kind: Datum, code: Datum) -> Datum {
    let Datum::Whole(kind) = kind else { return Datum::Absent };
    let pairs: &[[i128; 2]] = match name {
        "icmp" => &[[8, 0], [13, 14], [15, 16], [17, 18], [10, 9]],
        _ => &[[128, 129], [130, 131], [133, 134], [135, 136], [139, 140], [144, 145]],
    };
    let pair = pairs.iter().find(|pair| pair.contains(&kind));
    pair.map_or(code, |[one, other]| Datum::Whole(if *one == kind { *other } else { *one }))
}

/// The fields that aggregates of packets use.
fn packet_fields(compiler: &Compiler, dissector: &Dissector) -> Vec<(String, Kind, Option<u8>)> {
    let mut all = vec![
        ("frame.len".to_string(), Kind::Number, None),
        ("frame.time".to_string(), Kind::Time, None),
        ("src".to_string(), Kind::Other, Some(128)),
        ("dst".to_string(), Kind::Other, Some(128)),
        ("sport".to_string(), Kind::Number, None),
        ("dport".to_string(), Kind::Number, None),
        ("proto".to_string(), Kind::Other, None),
    ];
    for layer in &dissector.stack().layers {
        let protocol = &layer.protocol;
        let names = protocol.fields.iter().map(|field| &field.path);
        let names = names.chain(protocol.lets.iter().filter(|one| !one.doc.is_empty()).map(|one| &one.name));
        for name in names.filter(|_| LAYERS.contains(&&*protocol.filter_name)) {
            let name = format!("{}.{name}", protocol.filter_name);
            let Some(known) = compiler.catalog().find(&name) else { continue };
            match compiler.catalog().fields()[known].value_type {
                ValueType::Unsigned => all.push((name, Kind::Number, None)),
                ValueType::Bool => all.push((name, Kind::Other, None)),
                ValueType::Ipv4 => all.push((name, Kind::Other, Some(32))),
                ValueType::Ipv6 => all.push((name, Kind::Other, Some(128))),
                _ => {}
            }
        }
    }
    all
}

/// The columns of rows that aggregates use.
fn row_fields(columns: &[Column]) -> Vec<(String, Kind, Option<u8>)> {
    let field = |column: &Column| {
        let (kind, bits) = match column.value_type {
            ValueType::Unsigned => (Kind::Number, None),
            ValueType::Fraction => (Kind::Fraction, None),
            ValueType::Interval => (Kind::Interval, None),
            ValueType::Time => (Kind::Time, None),
            ValueType::Address => (Kind::Other, Some(128)),
            ValueType::Bool | ValueType::Text => (Kind::Other, None),
            _ => return None,
        };
        Some((column.name.to_string(), kind, bits))
    };
    columns.iter().filter_map(field).collect()
}

fn spec(random: &mut Random, fields: &[(String, Kind, Option<u8>)]) -> Spec {
    let measure = |random: &mut Random| {
        let bounds = random.pick(&[&[][..], &[64, 512], &[1, 2, 1_000]]).to_vec();
        let function = match random.below(12) {
            0 => return (Function::Count, None),
            1 => return (Function::Rate, None),
            2 => Function::Count,
            3 => Function::Sum,
            4 => Function::Min,
            5 => Function::Max,
            6 => Function::Mean,
            7 => Function::Rate,
            8 => Function::Quantile(random.pick(&[0.0, 0.25, 0.5, 0.99, 1.0])),
            9 => Function::Distinct,
            10 if random.once_in(2) => Function::First,
            10 => Function::Last,
            _ => Function::Histogram(bounds),
        };
        let takes = |kind: Kind| match &function {
            Function::Count | Function::Distinct | Function::First | Function::Last => true,
            Function::Min | Function::Max => kind != Kind::Other,
            Function::Histogram(_) => matches!(kind, Kind::Number | Kind::Interval),
            _ => !matches!(kind, Kind::Other | Kind::Time),
        };
        let possible: Vec<Field> =
            fields.iter().filter(|field| takes(field.1)).map(|field| (field.0.clone(), field.1)).collect();
        let field = possible[random.below(possible.len() as u64) as usize].clone();
        (function, Some(field))
    };
    let mut measures: Vec<_> = (0..=random.below(4)).map(|_| measure(random)).collect();
    let mut keys: Vec<(String, Option<u8>)> = vec![];
    for _ in 0..random.below(4) {
        // The first ones are in all packets.
        let all = if random.once_in(2) { fields.len() } else { fields.len().min(7) };
        let (name, kind, bits) = &fields[random.below(all as u64) as usize];
        let bits = bits.filter(|_| random.once_in(2)).map(|bits| 1 + random.below(u64::from(bits)) as u8);
        // Times as keys make a group of each record.
        if *kind != Kind::Time && keys.iter().all(|(known, _)| known != name) {
            keys.push((name.clone(), bits));
        }
    }
    let step = random.pick(&[20_000_000, 1_000_000_000, 10_000_000_000, 61_000_000_000]);
    let window = match random.below(3) {
        0 => None,
        1 => Some((step, step)),
        _ => Some((step * (1 + random.below(5) as i64), step)),
    };
    let is_compared = |(function, field): &(Function, Option<Field>)| match function {
        Function::Count | Function::Sum | Function::Min | Function::Max => {
            field.as_ref().is_none_or(|(_, kind)| *kind == Kind::Number) || *function == Function::Count
        }
        _ => false,
    };
    measures.push((Function::Count, None));
    let compared: Vec<usize> = (0..measures.len()).filter(|at| is_compared(&measures[*at])).collect();
    let having = random.once_in(3).then(|| {
        let comparison = random.pick(&["<", ">=", "==", "!="]);
        (random.pick(&compared), random.once_in(3), comparison, random.pick(&[0, 1, 2, 10, 60, 1_000]))
    });
    let top = random.once_in(3).then(|| (1 + random.below(5) as usize, random.pick(&compared)));
    Spec { measures, keys, window, having, top }
}

/// An aggregate, its rows, and what it got.
struct Asked {
    spec: Spec,
    question: usize,
    rows: AggregateRows,
    columns: usize,
    got: Vec<Vec<Datum>>,
}

fn shown(batch: &Batch, columns: usize) -> Vec<Vec<Datum>> {
    batch.iter().map(|row| (0..columns).map(|at| Datum::of(row.cell(at))).collect()).collect()
}

/// Takes the items of all questions: those of aggregates, numbers of packets, and rows.
struct Taken<'a> {
    asked: &'a mut [Asked],
    /// By question: the numbers of its packets.
    packets: &'a mut BTreeMap<usize, BTreeSet<u64>>,
    /// By question: its rows.
    rows: &'a mut BTreeMap<usize, Vec<Vec<Datum>>>,
}

impl TakeItems for Taken<'_> {
    fn take(&mut self, question: usize, item: Item<'_>) -> Next {
        match item {
            Item::Packet { meta, .. } => {
                self.packets.entry(question).or_default().insert(meta.number);
            }
            Item::Pipeline(part) => {
                for asked in self.asked.iter_mut().filter(|asked| asked.question == question) {
                    let Asked { rows, columns, got, .. } = asked;
                    rows.take_part(&part, &mut |batch| got.extend(shown(batch, *columns)));
                }
            }
            Item::Rows(made) => {
                for row in made.iter() {
                    let cells = (0..row.len()).map(|at| Datum::of(row.cell(at))).collect();
                    self.rows.entry(question).or_default().push(cells);
                    for asked in self.asked.iter_mut().filter(|asked| asked.question == question) {
                        let Asked { rows, columns, got, .. } = asked;
                        rows.take_row(row, &mut |batch| got.extend(shown(batch, *columns)));
                    }
                }
            }
            _ => {}
        }
        Next::Go
    }

    fn finish(&mut self, _: Option<weir::RunEnd<'_>>) {
        for asked in self.asked.iter_mut() {
            let Asked { rows, columns, got, .. } = asked;
            rows.finish(&mut |batch| got.extend(shown(batch, *columns)));
        }
    }
}

/// Asserts that the rows of an aggregate are those of the model. Returns their number.
fn check(name: &str, asked: &Asked, records: &[Record]) -> usize {
    let Asked { spec, got, rows: aggregate, .. } = asked;
    let name = format!("{name}: {}", spec.text());
    let counters = aggregate.counters();
    let lost = [counters.late, counters.ahead, counters.in_other, counters.values_cut];
    assert_eq!((counters.records, lost), (records.len() as u64, [0; 4]), "{name}");
    let expected = rows(spec, records);
    let times = if spec.window.is_some() { 2 } else { 0 };
    let window_of = |row: &[Datum]| match (times, row) {
        (2, [Datum::Whole(start), Datum::Whole(end), ..]) => Some((*start as i64, *end as i64)),
        _ => None,
    };
    // The rows of each window, in their order.
    let mut found: BTreeMap<Option<(i64, i64)>, Vec<&Row>> = BTreeMap::new();
    for row in got {
        let window = window_of(row);
        let key = &row[times..times + spec.keys.len()];
        let is_it = |known: &&Row| known.window == window && known.key == key;
        let model = expected.iter().find(is_it).unwrap_or_else(|| panic!("{name}: {row:?} is not expected"));
        let of_window = found.entry(window).or_default();
        assert!(!of_window.iter().any(|known| std::ptr::eq(*known, model)), "{name}: {row:?} twice");
        of_window.push(model);
        let inexact = row.last().map_or(String::new(), |datum| format!("{datum:?}"));
        let mut cells = row[times + spec.keys.len()..].iter();
        for (at, result) in model.results.iter().enumerate() {
            let is_marked = |mark: &&str| inexact.contains(&format!("m{at} {mark}"));
            let mark = ["estimated", "saturated", "cut"].into_iter().find(is_marked).unwrap_or_default();
            assert!(result.agrees(&mut cells, mark), "{name}: m{at} is not {result:?} in {row:?}");
        }
        assert_eq!(cells.next(), Some(&Datum::Absent), "{name}: no row stands for others");
    }
    let windows: BTreeSet<_> = expected.iter().filter(|row| !row.is_optional).map(|row| row.window).collect();
    for window in windows {
        let of_window: Vec<&Row> = expected.iter().filter(|row| row.window == window).collect();
        let got = found.get(&window).map_or(&[][..], |rows| rows);
        let Some((count, by)) = spec.top else {
            assert_eq!(got.len(), of_window.len(), "{name}: {window:?}");
            continue;
        };
        let number = |row: &&Row| row.results[by].number().unwrap_or(f64::NEG_INFINITY);
        let mut best: Vec<f64> = of_window.iter().map(number).collect();
        best.sort_by(|a, b| b.total_cmp(a));
        best.truncate(count);
        assert_eq!(got.iter().map(number).collect::<Vec<_>>(), best, "{name}: {window:?}");
    }
    got.len()
}

fn variants() -> Vec<(String, Options, usize)> {
    let native = |workers| (format!("{workers} workers"), Options::default(), workers);
    let interpreter = Options { engine: Executor::Interpreter, ..Options::default() };
    let plain = Options { without_passes: vec!["all".to_string()], ..interpreter.clone() };
    let mut all: Vec<_> = (1..=3).map(native).collect();
    all.extend([("interpreter".to_string(), interpreter, 2), ("without passes".to_string(), plain, 1)]);
    all
}

/// Filters whose packets are counted; they can be decided packet by packet.
const FILTERS: [&str; 4] = ["", "tcp", "udp or icmp or icmpv6", "ip.ttl > 60 and frame.len < 400"];

/// Checks aggregates of packets. Returns the number of rows.
fn check_packets(name: &str, random: &mut Random, packets: &[MemoryPacket]) -> usize {
    let compiler = Compiler::default();
    let dissector = compiler.dissector().expect("a dissector");
    let with_record: Vec<(MemoryPacket, Record)> = packets
        .iter()
        .filter_map(|packet| Some((packet.clone(), record_of(&dissector, 1, packet)?)))
        .collect();
    let (packets, records): (Vec<MemoryPacket>, Vec<Record>) = with_record.into_iter().unzip();
    let fields = packet_fields(&compiler, &dissector);
    let specs: Vec<(Spec, usize)> =
        (0..4).map(|_| (spec(random, &fields), random.below(FILTERS.len() as u64) as usize)).collect();
    let mut rows = 0;
    for (variant, options, workers) in variants() {
        let mut questions: Vec<Question> =
            FILTERS.map(|filter| Question::new(ask(filter, Want::Packets), Shape::default())).to_vec();
        let mut asked = vec![];
        for (spec, filter) in &specs {
            let made = Aggregation::of(&compiler, &spec.text(), RecordSource::Packets, usize::MAX)
                .unwrap_or_else(|wrong| panic!("{name}: {}: {wrong}", spec.text()));
            questions.push(made.question(FILTERS[*filter]).expect("few fields"));
            let rows = AggregateRows::new(&made, compiler.stack(), None);
            let (question, columns) = (questions.len() - 1, made.columns().len());
            asked.push(Asked { spec: spec.clone(), question, rows, columns, got: vec![] });
        }
        let (mut matched, mut unused) = (BTreeMap::new(), BTreeMap::new());
        let taken = Taken { asked: &mut asked, packets: &mut matched, rows: &mut unused };
        let mut engine = Engine::with(compiler.clone(), options);
        engine.subscribe_questions(questions, taken).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
        engine.run(&mut in_memory(&packets), workers).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
        drop(engine);
        for (asked, (_, filter)) in asked.iter().zip(&specs) {
            let of_filter = |number: &u64| records[*number as usize - 1].clone();
            let records: Vec<Record> =
                matched.get(filter).map_or(vec![], |numbers| numbers.iter().map(of_filter).collect());
            rows += check(&format!("{name}, {variant}"), asked, &records);
        }
    }
    rows
}

/// Frames of all layers, some of them damaged, and conversations.
fn traffic(random: &mut Random) -> Vec<MemoryPacket> {
    let network = Network { repeats: true, loses: true, reorders: true, fragments: false, cuts: false };
    let talks: Vec<_> = (0..4).map(|port| conversation(random, (40_000 + port, 443), network)).collect();
    let mut packets = mix(random, &talks);
    packets.extend((0..300).map(|_| frames::any(random)));
    // Links without a start in the stack have no details.
    packets.retain(|packet| [LinkType::ETHERNET, LinkType::RAW].contains(&packet.link));
    frames::give_times(random, &mut packets);
    packets
}

#[test]
fn aggregates_of_packets_are_those_of_a_naive_model() {
    let mut rows = 0;
    for seed in seeds(0..16) {
        let mut random = Random::new(seed);
        let packets = traffic(&mut random);
        rows += check_packets(&format!("seed {seed}"), &mut random, &packets);
    }
    assert!(rows > 2_000, "{rows} rows are too few to mean anything");
}

#[test]
fn aggregates_of_captured_packets_are_those_of_a_naive_model() {
    for name in ["first-light", "tunnels", "sessions"] {
        let mut packets = read_capture(&example(name));
        packets.truncate(1_500);
        assert!(check_packets(name, &mut Random::new(5), &packets) > 0);
    }
}

/// The time of a row is that of its end.
fn record_of_row(columns: &[Column], row: &[Datum]) -> Record {
    let values: BTreeMap<String, Datum> =
        columns.iter().map(|column| column.name.to_string()).zip(row.iter().cloned()).collect();
    let whole = |name: &str| match values.get(name) {
        Some(Datum::Whole(number)) => *number as i64,
        _ => 0,
    };
    Record { time: whole("ts") + whole("duration"), values }
}

#[test]
fn aggregates_of_rows_are_those_of_a_naive_model() {
    let compiler = Compiler::default();
    let mut rows = 0;
    for capture in ["first-light", "sessions", "services"] {
        let packets = read_capture(&example(capture));
        for of in [CONNECTIONS, "dns", "tls", "http"] {
            let (question, columns) = match of {
                CONNECTIONS => {
                    let shape = Shape { as_rows: true, ..Shape::default() };
                    let need = Need { service: true, ..Need::default() };
                    let ask = weir::Ask { need, ..ask("", Want::Connections) };
                    (Question::new(ask, shape), connection_columns(compiler.stack()))
                }
                name => {
                    let log = Log::of(compiler.sessions(), name).expect("a log");
                    (Question::new(ask("", Want::Sessions(log.asked())), log.shape()), log.columns())
                }
            };
            for workers in [1, 3] {
                let mut random = Random::new(11);
                let mut asked = vec![];
                for _ in 0..12 {
                    let spec = spec(&mut random, &row_fields(&columns));
                    let made = Aggregation::of(
                        &compiler,
                        &spec.text(),
                        RecordSource::Rows(of, &columns),
                        usize::MAX,
                    )
                    .unwrap_or_else(|wrong| panic!("{of}: {}: {wrong}", spec.text()));
                    let rows = AggregateRows::new(&made, compiler.stack(), Some(&columns));
                    let columns = made.columns().len();
                    asked.push(Asked { spec, question: 0, rows, columns, got: vec![] });
                }
                let (mut unused, mut all) = (BTreeMap::new(), BTreeMap::new());
                let taken = Taken { asked: &mut asked, packets: &mut unused, rows: &mut all };
                let mut engine = Engine::with(compiler.clone(), Options::default());
                engine.subscribe_questions(vec![question.clone()], taken).expect("a question");
                engine.run(&mut in_memory(&packets), workers).expect("a program");
                drop(engine);
                let records: Vec<Record> = all
                    .remove(&0)
                    .unwrap_or_default()
                    .iter()
                    .map(|row| record_of_row(&columns, row))
                    .collect();
                for asked in &asked {
                    rows += check(&format!("{capture}, {of}, {workers} workers"), asked, &records);
                }
            }
        }
    }
    assert!(rows > 1_000, "{rows} rows are too few to mean anything");
}
