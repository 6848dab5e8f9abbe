//! Shared by the tests of recorded sessions: our rows and those of logs, by name, and their comparison.

#![allow(dead_code)] // Each test uses only some functions.

use serde_json::Value as Json;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use weir::packet::Value;
use weir::{Connection, Engine, Flow, sessions::SessionType};

/// Values by name, as text: absent values are empty, lists are separated by spaces.
#[derive(Debug, Clone, Default)]
pub struct Row(pub BTreeMap<String, String>);

impl Row {
    /// The value with this name. Panics if there is none, which is a mistake in the test.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    /// The values with these names.
    pub fn texts(&self, names: &[&str]) -> Vec<String> {
        names.iter().map(|name| self.text(name).to_string()).collect()
    }

    /// Whether the value with this name equals `value`.
    pub fn is(&self, name: &str, value: &str) -> bool {
        self.text(name) == value
    }
}

/// Sessions of each protocol, and connections.
#[derive(Default)]
pub struct Found {
    sessions: BTreeMap<&'static str, Vec<Row>>,
    connections: Vec<Connection>,
}

/// Subscribes to everything that a test needs.
pub type Ask = for<'c> fn(&mut Engine<'c>, &'c RefCell<Found>);

/// A capture in `examples/`, and the logs of its recording.
pub struct Capture {
    name: &'static str,
    ask: Ask,
    found: OnceLock<Found>,
    expectation: OnceLock<Json>,
}

impl Capture {
    pub const fn new(name: &'static str, ask: Ask) -> Self {
        Self { name, ask, found: OnceLock::new(), expectation: OnceLock::new() }
    }

    /// Path of the capture (`pcap`) or of its logs.
    pub fn file(&self, extension: &str) -> String {
        format!("{}/../../examples/{}.{extension}", env!("CARGO_MANIFEST_DIR"), self.name)
    }

    /// The log with this name in the expectation.
    pub fn logged(&self, log: &str) -> Vec<Row> {
        let all = self.expectation.get_or_init(|| {
            let text = std::fs::read_to_string(self.file("expect.json")).unwrap();
            serde_json::from_str(&text).unwrap()
        });
        let text = |value: &Json| value.as_str().map_or_else(|| value.to_string(), String::from);
        let row =
            |row: &Json| row.as_object().unwrap().iter().map(|(name, v)| (name.clone(), text(v))).collect();
        match &all[log] {
            Json::Array(rows) => rows.iter().map(|one| Row(row(one))).collect(),
            number => vec![Row(BTreeMap::from([("count".to_string(), number.to_string())]))],
        }
    }

    /// Rows of a log with this value.
    pub fn of(&self, log: &str, name: &str, value: &str) -> Vec<Row> {
        self.logged(log)
            .into_iter()
            .filter(|row| row.0.get(name).is_some_and(|found| found == value))
            .collect()
    }

    /// The contents of the capture, from one run.
    fn found(&self) -> &Found {
        self.found.get_or_init(|| {
            let found = RefCell::new(Found::default());
            let mut engine = Engine::new();
            (self.ask)(&mut engine, &found);
            let keep = |connection: &Connection| found.borrow_mut().connections.push(connection.clone());
            engine.subscribe("", keep).unwrap();
            engine.read([self.file("pcap")]).unwrap();
            drop(engine);
            found.into_inner()
        })
    }

    /// Sessions of a protocol.
    pub fn sessions(&self, protocol: &str) -> impl Iterator<Item = &Row> {
        self.found().sessions.get(protocol).into_iter().flatten()
    }

    pub fn connections(&self) -> &[Connection] {
        &self.found().connections
    }

    /// Asserts how many connections to a port have which service.
    #[track_caller]
    pub fn assert_services(&self, port: u32, wanted: &[(&str, usize)]) {
        let mut counts = BTreeMap::new();
        for connection in self.connections().iter().filter(|c| c.resp_p == port && c.conn_state != "REJ") {
            *counts.entry(connection.service.as_deref().unwrap_or("-").to_string()).or_default() += 1;
        }
        let wanted: BTreeMap<_, _> = wanted.iter().map(|(name, count)| (name.to_string(), *count)).collect();
        assert_eq!(counts, wanted, "port {port}");
    }

    /// Asserts that the capture has as many frames as tcpdump recorded.
    #[track_caller]
    pub fn assert_frames(&self) {
        let mut frames = 0u64;
        let mut engine = Engine::new();
        engine.subscribe("", |_: &weir::Frame| frames += 1).unwrap();
        engine.read([self.file("pcap")]).unwrap();
        drop(engine);
        assert_eq!(frames.to_string(), self.logged("frames")[0].text("count"));
    }
}

fn written(value: &Value<'_>) -> String {
    match value {
        Value::Absent => String::new(),
        Value::Bool(yes) => yes.to_string(),
        Value::Unsigned(number) | Value::Interval(number) => number.to_string(),
        Value::Address(address) => address.to_string(),
        Value::Mac(bytes) => bytes.map(|byte| format!("{byte:02x}")).join(":"),
        Value::Text(text) => text.to_string(),
        Value::Texts(texts) => texts.join(" "),
        Value::Numbers(numbers) => numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" "),
        Value::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        other => format!("{other:?}"),
    }
}

/// Subscribes to sessions of a type.
pub fn ask<'c, T: SessionType>(engine: &mut Engine<'c>, name: &'static str, found: &'c RefCell<Found>) {
    let take = move |flow: &Flow, session: &T| {
        let fields = T::FIELDS.iter().enumerate();
        let mut row: BTreeMap<_, _> =
            fields.map(|(n, field)| (field.name.to_string(), written(&session.value(n)))).collect();
        for (side, (address, port)) in [("orig", flow.orig), ("resp", flow.resp)] {
            row.insert(format!("{side}_h"), address.to_string());
            row.insert(format!("{side}_p"), port.to_string());
        }
        found.borrow_mut().sessions.entry(name).or_default().push(Row(row));
    };
    engine.subscribe(name, take).unwrap();
}

/// Asserts that both have the same rows, in any order.
#[track_caller]
pub fn same(mut found: Vec<Vec<String>>, mut wanted: Vec<Vec<String>>) {
    found.sort();
    wanted.sort();
    let missing: Vec<_> = wanted.iter().filter(|row| !found.contains(row)).collect();
    let surplus: Vec<_> = found.iter().filter(|row| !wanted.contains(row)).collect();
    assert!(found == wanted, "logged, but not found: {missing:#?}\nfound, but not logged: {surplus:#?}");
    assert!(!found.is_empty());
}

pub fn distinct(rows: &[Row], name: &str) -> usize {
    rows.iter().map(|row| row.text(name)).collect::<BTreeSet<_>>().len()
}
