//! What the tests share: they make packets, and run rules over them.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir::io::{MemoryPacket, MemorySource};
use weir::packet::{Cell, Source, Timestamp};
use weir::{Compiler, Engine, Item, Next, Options, TakeItems};
use weir_detect::{COLUMNS, Detection, FirstBytes, RuleProgram};
use weir_rules::{Classes, Rule, Tunings, Variables, parse};
use weir_testing::frames::{ACK, FIN, SYN, ethernet, ipv4, tcp};

/// The rules of a text, which must all be understood.
pub fn rules(text: &str) -> Vec<Rule> {
    let parsed = parse(text, 0, &Variables::default()).into_iter();
    parsed.map(|parsed| parsed.rule.unwrap_or_else(|refusal| panic!("{text}: {refusal:?}"))).collect()
}

/// The rules of a text, which must all run.
pub fn program(text: &str) -> RuleProgram {
    program_with(text, &Tunings::default())
}

/// The same, with thresholds and suppressions.
pub fn program_with(text: &str, tunings: &Tunings) -> RuleProgram {
    let program = RuleProgram::of(rules(text), &Classes::default(), tunings, |filter| {
        Compiler::default().check_filter(filter, false).map_err(|wrong| wrong.render(false))
    });
    assert_eq!(program.unsupported(), [], "{text}");
    program
}

/// An alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    pub sid: u64,
    /// The number of the packet that completed the match.
    pub packet: Option<u64>,
    pub action: String,
}

/// Passes each alert on.
pub struct Each<F>(pub F);

impl<F: FnMut(Alert) + Send> TakeItems for Each<F> {
    fn take(&mut self, _: usize, item: Item<'_>) -> Next {
        let Item::Rows(rows) = item else { return Next::Go };
        let at = |name: &str| COLUMNS.iter().position(|column| column.name == name).expect("a column");
        let (sid, packet, action) = (at("sid"), at("packet"), at("action"));
        for row in rows.iter() {
            let Cell::Unsigned(sid) = row.cell(sid) else { panic!("a number") };
            let packet = if let Cell::Unsigned(number) = row.cell(packet) { Some(number) } else { None };
            let Cell::Text(action) = row.cell(action) else { panic!("a text") };
            (self.0)(Alert { sid, packet, action: action.to_string() });
        }
        Next::Go
    }
}

/// Runs rules over the connections of a source that match a filter.
///
/// Returns what could not be read of the source.
#[must_use]
pub fn run(
    detection: &Detection,
    filter: &str,
    source: &mut dyn Source,
    each: impl FnMut(Alert) + Send,
) -> Vec<String> {
    let mut compiler = Compiler::default();
    let store = Arc::new(FirstBytes::default());
    detection.ask_for_files(&store);
    compiler.pass_contents_to(store);
    Detection::inspect_early(&mut compiler);
    let questions = detection.questions(&compiler, filter).expect("the fields are there");
    let mut engine = Engine::with(compiler, Options::default());
    engine.subscribe_questions(questions, Each(each)).expect("the filter is right");
    let outcome = engine.run(source, 1).expect("it compiles");
    outcome.errors.iter().map(|error| format!("{error:?}")).collect()
}

/// The alerts of a run over packets, in their order.
pub fn listed(detection: &Detection, packets: &[MemoryPacket]) -> Vec<Alert> {
    let mut found = vec![];
    let mut source = MemorySource::new().then_packets(packets.to_vec());
    assert_eq!(run(detection, "", &mut source, |alert| found.push(alert)), [""; 0]);
    found
}

/// The number of alerts of each rule over the connections that match a filter.
pub fn alerts_of(detection: Detection, filter: &str, packets: &[MemoryPacket]) -> BTreeMap<u64, u64> {
    let mut found = BTreeMap::new();
    let mut source = MemorySource::new().then_packets(packets.to_vec());
    let errors = run(&detection, filter, &mut source, |alert| *found.entry(alert.sid).or_default() += 1);
    assert_eq!(errors, [""; 0]);
    found
}

/// The number of alerts of each rule.
pub fn alerts(text: &str, packets: &[MemoryPacket]) -> BTreeMap<u64, u64> {
    alerts_of(Detection::new(Arc::new(program(text))), "", packets)
}

/// The number of alerts of a rule.
pub fn count(found: &BTreeMap<u64, u64>, sid: u64) -> u64 {
    found.get(&sid).copied().unwrap_or(0)
}

pub const CLIENT: [u8; 4] = [10, 0, 0, 1];
pub const SERVER: [u8; 4] = [192, 0, 2, 1];

/// A packet of one of two ends, at a time in milliseconds.
pub fn packet(time_ms: i64, from_client: bool, protocol: u8, payload: &[u8]) -> MemoryPacket {
    let ends = if from_client { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
    let bytes = ethernet(0x0800, &ipv4(ends, protocol, time_ms as u16, 0, &[], payload));
    MemoryPacket { time: Timestamp(time_ms * 1_000_000), ..MemoryPacket::ethernet(bytes) }
}

/// A connection of TCP.
pub struct Talk {
    ports: (u16, u16),
    pub next: [u32; 2],
    pub packets: Vec<MemoryPacket>,
}

impl Talk {
    /// With its handshake.
    pub fn new(port: u16) -> Self {
        let mut talk = Self { ports: (40_000, port), next: [1_000, 9_000], packets: vec![] };
        talk.segment(true, SYN, &[]);
        talk.next[0] += 1;
        talk.segment(false, SYN | ACK, &[]);
        talk.next[1] += 1;
        talk.segment(true, ACK, &[]);
        talk
    }

    pub fn at(&mut self, from_client: bool, seq: u32, flags: u8, payload: &[u8]) {
        let ports = if from_client { self.ports } else { (self.ports.1, self.ports.0) };
        let segment = tcp(ports, seq, self.next[usize::from(from_client)], flags, &[], payload);
        let time = 1_000 + self.packets.len() as i64;
        self.packets.push(packet(time, from_client, 6, &segment));
    }

    pub fn segment(&mut self, from_client: bool, flags: u8, payload: &[u8]) {
        let side = usize::from(!from_client);
        self.at(from_client, self.next[side], flags, payload);
        self.next[side] += payload.len() as u32;
    }

    pub fn say(&mut self, from_client: bool, bytes: &[u8]) -> &mut Self {
        self.segment(from_client, ACK, bytes);
        self
    }

    pub fn end(&mut self) -> &[MemoryPacket] {
        for from_client in [true, false] {
            self.segment(from_client, ACK | FIN, &[]);
            self.next[usize::from(!from_client)] += 1;
        }
        self.segment(true, ACK, &[]);
        &self.packets
    }
}
