//! Native code does what the interpreter does: on random graphs, with random frames, to the last word
//! of every answer and every question to the host.

mod grow;

use grow::Random;
use std::collections::HashMap;
use std::sync::Arc;
use weir_codegen::{Effort, compile_with};
use weir_ir::abi::{Continuation, FlowRecord, Host, Ordered, Program, Slice, Step};
use weir_ir::graph::{Event, Graph, Sequence, Table};
use weir_ir::interpret::Interpreter;
use weir_packet::{LinkType, PacketMeta, Timestamp};

const GRAPHS: u64 = 1_500;
const PACKETS: usize = 6;
const RESTARTS_MAX: usize = 2;
/// What some graphs must come to, or the test shows nothing.
const KINDS: [&str; 10] = [
    "Lookup",
    "Restart",
    "Done(None)",
    "Done(Some",
    "sequence0",
    "next sequence1",
    "assemble",
    "deliver table1",
    "event0 Some",
    "event0 None",
];

/// Answers at random, the same to every program, and notes down what it is asked.
struct Oracle {
    random: Random,
    notes: Vec<String>,
}

impl Oracle {
    fn slice(&mut self) -> Slice {
        let bytes: Vec<u8> = (0..self.random.below(12)).map(|_| self.random.below(5) as u8).collect();
        let length = bytes.len() as u32;
        let offset = self.random.below(u64::from(length) + 1) as u32;
        Slice { block: Arc::new(weir_packet::Block { bytes }), offset, length: length - offset }
    }
}

impl Host for Oracle {
    fn seq_insert(
        &mut self,
        sequence: Sequence,
        flow: FlowRecord<'_>,
        side: bool,
        at: u64,
        bytes: &[u8],
        claimed_bytes: u64,
        span: u64,
        metas: &[u64],
    ) -> (u64, u64) {
        self.notes
            .push(format!("{sequence} {flow:?} {side} {at} {bytes:?} {claimed_bytes} {span} {metas:?}"));
        (self.random.below(5), self.random.below(9))
    }

    fn seq_next(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: bool) -> Option<Ordered> {
        self.notes.push(format!("next {sequence} {flow:?} {side}"));
        let there = self.random.below(3) > 0;
        there.then(|| Ordered {
            gap_bytes: self.random.below(3),
            bytes: self.slice(),
            claimed_bytes: self.random.below(30),
            metas: [(); 4].map(|()| self.random.next()),
        })
    }

    fn seq_assemble(&mut self, sequence: Sequence, flow: FlowRecord<'_>, side: bool) -> Slice {
        self.notes.push(format!("assemble {sequence} {flow:?} {side}"));
        self.slice()
    }

    fn deliver(
        &mut self,
        table: Table,
        flow: FlowRecord<'_>,
        side: bool,
        gap: u64,
        bytes: &[u8],
        claimed: u64,
    ) {
        // What the host changes in the record, the program must see.
        if let Some(byte) = flow.data.first_mut() {
            *byte = byte.wrapping_add(1);
        }
        self.notes.push(format!("deliver {table} {flow:?} {side} {gap} {bytes:?} {claimed}"));
    }

    fn emit(&mut self, event: Event, flow: Option<FlowRecord<'_>>, values: &[u64]) {
        self.notes.push(format!("{event} {flow:?} {values:?}"));
    }
}

/// All that can be seen of a program from outside while it runs on some packets.
fn observe(program: &dyn Program, seed: u64) -> Vec<String> {
    let mut random = Random(seed);
    let mut oracle = Oracle { random: Random(seed), notes: vec![] };
    let mut flows: HashMap<(u32, u64), Vec<u8>> = HashMap::new();
    let mut k = Continuation::default();
    for number in 0..PACKETS {
        // A box ends where the frame ends.
        let frame: Box<[u8]> = (0..random.below(24)).map(|_| random.below(5) as u8).collect();
        let packet = PacketMeta {
            time: Timestamp(random.next() as i64),
            number: number as u64 + 1,
            offset: 0,
            captured_bytes: frame.len() as u32,
            wire_bytes: random.below(2_000) as u32,
            link: LinkType(random.below(200) as u16),
            interface: random.below(9) as u16,
        };
        let mut step = program.head(&packet, &frame, &mut k);
        let mut restarts = 0;
        loop {
            oracle.notes.push(format!("{step:?}"));
            let new = match step {
                Step::Done(_) => break,
                Step::Lookup => {
                    oracle.notes.push(format!("{} {:?} {} {}", k.table, k.key, k.swap, k.resume));
                    random.below(2) == 0
                }
                Step::Restart if restarts == RESTARTS_MAX => break,
                Step::Restart => {
                    restarts += 1;
                    true
                }
            };
            let id = k.key[0] % 2;
            let size = program.layout().size(Table(k.table));
            let data = flows.entry((k.table, id)).or_default();
            data.resize(size, 0);
            if new {
                data.fill(0);
            }
            let flow = FlowRecord { id: id as u32, data };
            let responder = random.below(2) == 0;
            step = program.resume(&mut oracle, &packet, &frame, flow, responder, new, &mut k);
        }
        oracle.notes.push(format!("terms {} outs {:?}", k.terms, &k.outs[..program.graph().outs.len()]));
        let mut records: Vec<_> = flows.iter().collect();
        records.sort();
        oracle.notes.push(format!("{records:?}"));
    }
    oracle.notes
}

/// What the interpreter saw, once native code has seen the same.
fn compare(graph: &Graph, seed: u64) -> Vec<String> {
    let interpreter = Interpreter::new(graph.clone()).expect("the patterns compile");
    let want = observe(&interpreter, seed);
    for effort in [Effort::Quick, Effort::Thorough] {
        let program = compile_with(graph.clone(), effort)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{graph}"));
        let got = observe(&program, seed);
        if let Some(at) = (0..want.len().max(got.len())).find(|&at| want.get(at) != got.get(at)) {
            let (want, got) = (want.get(at), got.get(at));
            panic!("seed {seed}, {effort:?}:\ninterpreter {want:#?}\nnative {got:#?}\n{graph}");
        }
    }
    want
}

#[test]
fn native_code_does_what_the_interpreter_does() {
    let first = std::env::var("WEIR_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let mut seen = HashMap::from(KINDS.map(|kind| (kind, 0)));
    for seed in first..first + GRAPHS {
        let graph = grow::graph(&mut Random(seed));
        for note in compare(&graph, seed) {
            KINDS
                .iter()
                .filter(|kind| note.starts_with(**kind))
                .for_each(|kind| *seen.entry(kind).or_default() += 1);
        }
    }
    for (kind, times) in seen {
        assert!(times > 100, "the graphs say too little: `{kind}` only {times} times");
    }
}
