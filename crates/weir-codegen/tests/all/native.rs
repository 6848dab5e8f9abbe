//! Ladders: hand-written graphs, and the behaviour of their native programs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use weir_codegen::{CompileError, Effort, NativeProgram, compile, compile_with};
use weir_ir::abi::{
    Continuation, FlowRecord, FlowSide, Host, Ordered, OrderedBytes, Program, Resume, SEQ_ORDERED, SeqInsert,
    SeqInserted, SeqSide, Slice, Step,
};
use weir_ir::build::{Builder, to};
use weir_ir::engine_var::VarName;
use weir_ir::graph::*;
use weir_packet::{Direction, DropReason, LinkType, PacketMeta, Timestamp};

/// A big-endian number of eight bytes.
const BIG_ENDIAN_64: NumberFormat = NumberFormat { width: Width::W8, little: false };

/// Records requests and returns prepared answers.
#[derive(Default)]
struct Notes {
    notes: Vec<String>,
    next: Vec<Ordered>,
    panics: bool,
}

impl Host for Notes {
    fn seq_insert(&mut self, offer: SeqInsert<'_>) -> SeqInserted {
        assert!(!self.panics, "the host is out of order");
        let SeqInsert { sequence, flow, direction, at, bytes, claimed_bytes, span, metas } = offer;
        let (id, side) = (flow.id, direction.is_responder());
        self.notes
            .push(format!("{sequence} flow {id} {side} {at} {bytes:?} {claimed_bytes} {span} {metas:?}"));
        SeqInserted { status: SEQ_ORDERED, skip_bytes: 2 }
    }

    fn seq_acknowledge(&mut self, of: SeqSide<'_>, at: u64) {
        self.notes.push(format!("acknowledge {} {at}", seq_side(&of)));
    }

    fn seq_begin(&mut self, of: SeqSide<'_>, at: u64) {
        self.notes.push(format!("begin {} {at}", seq_side(&of)));
    }

    fn seq_hold(&mut self, of: SeqSide<'_>, at: u64, span: u64) {
        self.notes.push(format!("hold {} {at} {span}", seq_side(&of)));
    }

    fn seq_next(&mut self, of: SeqSide<'_>) -> Option<Ordered> {
        self.notes.push(format!("next {}", seq_side(&of)));
        self.next.pop()
    }

    fn seq_assemble(&mut self, of: SeqSide<'_>) -> Slice {
        self.notes.push(format!("assemble {}", seq_side(&of)));
        slice(b"assembled")
    }

    fn collect(&mut self, of: FlowSide<'_>, next: OrderedBytes<'_>, whole: &[u64]) {
        let OrderedBytes { gap_bytes, bytes, claimed_bytes } = next;
        let of = flow_side(&of);
        self.notes.push(format!("collect {of} {gap_bytes} {bytes:?} {claimed_bytes} {whole:?}"));
    }

    fn whole_value(&mut self, number: usize) -> u64 {
        self.notes.push(format!("value {number} of the whole"));
        77
    }

    fn messages(&mut self, of: FlowSide<'_>) -> Slice {
        self.notes.push(format!("messages {}", flow_side(&of)));
        slice(b"message")
    }

    fn next_messages(&mut self, done: u64, wanted: u64) -> Slice {
        self.notes.push(format!("next messages {done} {wanted}"));
        slice(b"more")
    }

    fn deliver(&mut self, of: FlowSide<'_>, next: OrderedBytes<'_>) {
        let OrderedBytes { gap_bytes, bytes, claimed_bytes } = next;
        self.notes.push(format!("deliver {} {gap_bytes} {bytes:?} {claimed_bytes}", flow_side(&of)));
    }

    fn keep(&mut self, bytes: &[u8]) -> u64 {
        self.notes.push(format!("keep {bytes:?}"));
        self.notes.len() as u64
    }

    fn emit(&mut self, event: Event, flow: Option<FlowRecord<'_>>, values: &[u64]) {
        self.notes.push(format!("{event} {:?} {values:?}", flow.map(|flow| flow.id)));
    }
}

fn seq_side(of: &SeqSide<'_>) -> String {
    format!("{} flow {} {}", of.sequence, of.flow.id, of.direction.is_responder())
}

fn flow_side(of: &FlowSide<'_>) -> String {
    format!("{} flow {} {}", of.table, of.flow.id, of.direction.is_responder())
}

/// A packet of a flow. `of`: whether the responder sent it, and whether the flow is new.
fn resume<'a>(packet: &'a PacketMeta, frame: &'a [u8], flow: FlowRecord<'a>, of: [bool; 2]) -> Resume<'a> {
    let [responder, is_new] = of;
    Resume { packet, frame, flow, direction: Direction::responder_if(responder), is_new }
}

fn slice(bytes: &[u8]) -> Slice {
    let block = Arc::new(weir_packet::Block::from(bytes.to_vec()));
    Slice { block, offset: 0, length: bytes.len() as u32 }
}

fn by_effort(graph: &Graph) -> [NativeProgram; 3] {
    [Effort::Least, Effort::Quick, Effort::Thorough]
        .map(|effort| compile_with(graph.clone(), effort).expect("the graph compiles"))
}

/// The result of a graph without lookups, which must not depend on the effort.
fn head(graph: &Graph, frame: &[u8]) -> (Step, u64, Vec<u64>) {
    let packet = PacketMeta {
        time: Timestamp(1_234),
        number: 7,
        offset: 3,
        captured_bytes: frame.len() as u32,
        wire_bytes: 1_500,
        link: LinkType::ETHERNET,
        interface: 2,
    };
    // At the end of an allocation of its own, so that a memory checker detects a read past the end.
    let frame = frame.to_vec().into_boxed_slice();
    let [least, quick, thorough] = by_effort(graph).map(|program| {
        let mut k = Continuation::default();
        let step = program.head(&packet, &frame, &mut k);
        (step, k.terms, k.outs[..graph.outs.len()].to_vec())
    });
    assert_eq!((&least, &thorough), (&quick, &quick));
    quick
}

/// A graph of one block that stores the values returned by `f`.
fn outs(f: impl FnOnce(&mut Builder) -> Vec<Value>) -> Graph {
    let mut b = Builder::new(Graph::default());
    let values = f(&mut b);
    for (number, value) in values.into_iter().enumerate() {
        b.graph.outs.push(format!("out{number}").into());
        b.push(Op::Store { out: Out(number as u32), value });
    }
    let terms = b.int(1);
    b.done(terms, None);
    b.finish()
}

fn from_bool(b: &mut Builder, value: Value) -> Value {
    b.one(Op::FromBool(value))
}

/// Runs `f` on values that the compiler cannot know: the frame's eight-byte numbers.
fn checked(frame: &[u64], f: impl FnOnce(&mut Builder, &[Value]) -> Vec<Value>) -> Vec<u64> {
    let mut b = Builder::new(Graph::default());
    let buf = b.one(Op::Frame);
    let zero = b.int(0);
    let (yes, no) = (b.block(), b.block());
    b.check(buf, zero, 8 * frame.len() as u32, yes, no);
    b.seal(yes);
    b.seal(no);
    b.switch_to(no);
    b.done(zero, Some(DropReason::Truncated));
    b.switch_to(yes);
    let values: Vec<Value> = (0..frame.len() as u32)
        .map(|n| b.one(Op::Load { buf, offset: zero, displacement: 8 * n, format: BIG_ENDIAN_64 }))
        .collect();
    for (number, value) in f(&mut b, &values).into_iter().enumerate() {
        b.graph.outs.push(format!("out{number}").into());
        b.push(Op::Store { out: Out(number as u32), value });
    }
    b.done(zero, None);
    let bytes: Vec<u8> = frame.iter().flat_map(|number| number.to_be_bytes()).collect();
    let (step, _, outs) = head(&b.finish(), &bytes);
    assert_eq!(step, Step::Done(None));
    outs
}

#[test]
fn arithmetic_is_that_of_64_unsigned_bits() {
    use BinaryOp::*;
    let interesting = [0, 1, 2, 63, 64, 65, 0xffff, 1 << 63, u64::MAX - 1, u64::MAX];
    for a in interesting {
        for b in interesting {
            let ops = [Add, Sub, SubSat, Mul, Div, Rem, And, Or, Xor, Shl, Shr, Min, Max];
            let want = vec![
                a.wrapping_add(b),
                a.wrapping_sub(b),
                a.saturating_sub(b),
                a.wrapping_mul(b),
                a.checked_div(b).unwrap_or(0),
                a.checked_rem(b).unwrap_or(0),
                a & b,
                a | b,
                a ^ b,
                if b < 64 { a << b } else { 0 },
                if b < 64 { a >> b } else { 0 },
                a.min(b),
                a.max(b),
            ];
            let got = checked(&[a, b], |builder, v| ops.map(|op| builder.binary(op, v[0], v[1])).to_vec());
            assert_eq!(got, want, "{a} {b}, of the frame");
            let constant = outs(|builder| {
                let (a, b) = (builder.int(a), builder.int(b));
                ops.map(|op| builder.binary(op, a, b)).to_vec()
            });
            assert_eq!(head(&constant, &[]).2, want, "{a} {b}, constant");
        }
    }
}

#[test]
fn comparisons_are_unsigned_and_bools_are_0_or_1() {
    for (a, b) in [(0, 0), (1, u64::MAX), (u64::MAX, 1), (1 << 63, 1 << 63)] {
        let got = checked(&[a, b], |builder, v| {
            let ops = [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le];
            let mut bools: Vec<Value> = ops.iter().map(|op| builder.compare(*op, v[0], v[1])).collect();
            bools.push(builder.one(Op::Not(bools[0])));
            bools.push(builder.binary(BinaryOp::Xor, bools[0], bools[2]));
            bools.push(builder.one(Op::Select(bools[2], bools[0], bools[1])));
            bools.into_iter().map(|v| from_bool(builder, v)).collect()
        });
        let truths =
            [a == b, a != b, a < b, a <= b, a != b, (a == b) ^ (a < b), if a < b { a == b } else { a != b }];
        assert_eq!(got, truths.map(u64::from), "{a} {b}");
    }
}

#[test]
fn loads_of_every_width_in_both_orders() {
    let frame = [0x80, 0x91, 0xa2, 0xb3, 0xc4, 0xd5, 0xe6, 0xf7, 0x08];
    let mut b = Builder::new(Graph::default());
    let buf = b.one(Op::Frame);
    let offset = b.int(1);
    let (yes, no) = (b.block(), b.block());
    b.check(buf, offset, 8, yes, no);
    b.seal(yes);
    b.seal(no);
    b.switch_to(no);
    b.done(offset, Some(DropReason::Truncated));
    b.switch_to(yes);
    let mut want = vec![];
    for width in [Width::W1, Width::W2, Width::W4, Width::W8] {
        for little in [false, true] {
            let out = Out(b.graph.outs.len() as u32);
            b.graph.outs.push(format!("{width:?}").into());
            let value =
                b.one(Op::Load { buf, offset, displacement: 0, format: NumberFormat { width, little } });
            b.push(Op::Store { out, value });
            let bytes = frame[1..][..width.bytes() as usize].iter();
            let fold = |sum, byte: &u8| sum << 8 | u64::from(*byte);
            want.push(if little { bytes.rev().fold(0, fold) } else { bytes.fold(0, fold) });
        }
    }
    b.done(offset, None);
    let graph = b.finish();
    assert_eq!(head(&graph, &frame), (Step::Done(None), 1, want));
    assert_eq!(head(&graph, &frame[..8]).0, Step::Done(Some(DropReason::Truncated)), "a byte short");
}

#[test]
fn a_check_is_exact_even_where_the_offset_wraps() {
    for (offset, bytes, fits) in [
        (8, 0, true),
        (0, 16, true),
        (8, 8, true),
        (9, 8, false),
        (16, 0, true),
        (17, 0, false),
        (u64::MAX, 1, false),
        (u64::MAX - 3, 8, false),
        (u64::MAX, u32::MAX, false),
    ] {
        let mut graphs = vec![];
        for constant in [false, true] {
            let mut b = Builder::new(Graph::default());
            let buf = b.one(Op::Frame);
            let zero = b.int(0);
            let [start, yes, no, out] = [(); 4].map(|()| b.block());
            b.check(buf, zero, 8, start, out);
            [start, out].into_iter().for_each(|block| b.seal(block));
            b.switch_to(start);
            let at = match constant {
                true => b.int(offset),
                false => b.one(Op::Load { buf, offset: zero, displacement: 0, format: BIG_ENDIAN_64 }),
            };
            b.check(buf, at, bytes, yes, no);
            [yes, no].into_iter().for_each(|block| b.seal(block));
            for (block, terms) in [(yes, 1), (no, 0), (out, 2)] {
                b.switch_to(block);
                let terms = b.int(terms);
                b.done(terms, None);
            }
            graphs.push(b.finish());
        }
        let frame: Vec<u8> = [offset.to_be_bytes(), [0; 8]].concat();
        for graph in graphs {
            assert_eq!(head(&graph, &frame).1, u64::from(fits), "{offset} + {bytes} in 16");
        }
    }
}

#[test]
fn a_switch_takes_the_first_case_that_fits() {
    for count in [1, 3, 4, 5, 40] {
        let cases: Vec<u64> = (0..count).map(|n| if n % 3 == 2 { u64::MAX - n } else { n * 7 }).collect();
        let mut b = Builder::new(Graph::default());
        let buf = b.one(Op::Frame);
        let zero = b.int(0);
        let (start, short, join) = (b.block(), b.block(), b.block());
        b.check(buf, zero, 8, start, short);
        [start, short].into_iter().for_each(|block| b.seal(block));
        b.switch_to(short);
        b.done(zero, None);
        b.switch_to(start);
        let value = b.one(Op::Load { buf, offset: zero, displacement: 0, format: BIG_ENDIAN_64 });
        let mut targets = vec![];
        for (number, case) in cases.iter().chain(&cases[..1]).enumerate() {
            let hit = b.int(number as u64 + 1);
            targets.push((*case, Target { block: join, args: vec![hit] }));
        }
        let otherwise = Target { block: join, args: vec![zero] };
        b.end(Terminator::Switch { value, cases: targets, otherwise });
        b.seal(join);
        b.switch_to(join);
        let terms = b.param(join, Type::Int);
        b.done(terms, None);
        let graph = b.finish();
        let hits = cases.iter().enumerate().map(|(number, case)| (*case, number as u64 + 1));
        for (number, want) in hits.chain([(1, 0), (1 << 63, 0)]) {
            assert_eq!(head(&graph, &number.to_be_bytes()).1, want, "{number} of {count}");
        }
    }
}

#[test]
fn a_set_holds_exactly_its_ranges() {
    let wide = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
    let mut many: Vec<(u128, u128)> = (0..20).map(|n| (n * 100, n * 100 + 9)).collect();
    many.push((wide(3, 5), wide(5, 3)));
    let sets = [
        vec![],
        vec![(80, 80), (443, 443), (8000, 8080)],
        vec![(0, u128::from(u64::MAX))],
        vec![(wide(1, 0), wide(4, u64::MAX))],
        vec![(wide(1, 7), wide(1, 9)), (wide(3, 5), wide(5, 3))],
        vec![(1 << 63, u128::MAX)],
        many,
    ];
    let numbers = [0, 7, 8, 9, 10, 80, 81, 443, 1905, 8000, 8050, 8081, 1 << 63, u64::MAX];
    for set in sets {
        for high in [0, 1, 3, 4, 5, 6, u64::MAX] {
            for low in numbers {
                let is_in = set.iter().any(|&(first, last)| (first..=last).contains(&wide(high, low)));
                let got = checked(&[high, low], |b, v| {
                    b.graph.sets.push(set.clone());
                    let known = b.int(high);
                    let known_low = b.int(low);
                    [(v[0], v[1]), (known, v[1]), (v[0], known_low), (known, known_low)]
                        .map(|(high, low)| {
                            let is_in = b.one(Op::Member { set: Set(0), high, low });
                            from_bool(b, is_in)
                        })
                        .to_vec()
                });
                assert_eq!(got, [u64::from(is_in); 4], "{high:x}:{low:x} in {set:x?}");
            }
        }
    }
}

#[test]
fn what_the_capture_says_buffers_and_patterns() {
    let graph = outs(|b| {
        b.graph.patterns =
            vec![PatternDecl::Contains(b"lo".to_vec()), PatternDecl::Equals(b"hello".to_vec())];
        let metas =
            [Meta::Time, Meta::WireBytes, Meta::CapturedBytes, Meta::Link, Meta::Interface, Meta::Number];
        let mut values = metas.map(|meta| b.one(Op::Meta(meta))).to_vec();
        let buf = b.one(Op::Frame);
        let (zero, three, huge) = (b.int(0), b.int(3), b.int(u64::MAX));
        for end in [three, huge] {
            let narrow = b.one(Op::Narrow(buf, end));
            values.push(b.one(Op::Length(narrow)));
            for (pattern, offset) in [(0, zero), (0, three), (1, zero), (1, huge)] {
                let found =
                    b.one(Op::Search { pattern: Pattern(pattern), buf: narrow, offset, length: huge });
                values.push(from_bool(b, found));
            }
        }
        values
    });
    let want = [1_234, 1_500, 5, 1, 2, 7, 3, 0, 0, 0, 0, 5, 1, 1, 1, 0];
    assert_eq!(head(&graph, b"hello").2, want);
}

/// `sum = 0; while again(5) and number < limit { sum += number; number += 1 }`
#[test]
fn a_loop_ends_by_itself_or_when_its_fuel_is_spent() {
    let mut b = Builder::new(Graph { fuels: 1, ..Graph::default() });
    let buf = b.one(Op::Frame);
    let limit = b.one(Op::Length(buf));
    let (sum, number) = (b.variable(Type::Int), b.variable(Type::Int));
    let zero = b.int(0);
    b.write(sum, zero);
    b.write(number, zero);
    let [header, test, body, out, spent] = [(); 5].map(|()| b.block());
    b.jump(header);
    b.switch_to(header);
    b.end(Terminator::Again { fuel: Fuel(0), max: 5, then: to(test), otherwise: to(spent) });
    b.seal(test);
    b.seal(spent);
    b.switch_to(test);
    let at = b.read(number);
    let more = b.compare(CompareOp::Lt, at, limit);
    b.branch(more, body, out);
    [body, out].into_iter().for_each(|block| b.seal(block));
    b.switch_to(body);
    let (old, at, one) = (b.read(sum), b.read(number), b.int(1));
    let new = b.binary(BinaryOp::Add, old, at);
    b.write(sum, new);
    let next = b.binary(BinaryOp::Add, at, one);
    b.write(number, next);
    b.jump(header);
    b.seal(header);
    b.switch_to(out);
    let terms = b.read(sum);
    b.done(terms, None);
    b.switch_to(spent);
    let terms = b.read(sum);
    b.done(terms, Some(DropReason::NestingLimit));
    let graph = b.finish();
    assert_eq!(head(&graph, &[0; 4]), (Step::Done(None), 6, vec![]));
    assert_eq!(head(&graph, &[0; 9]), (Step::Done(Some(DropReason::NestingLimit)), 10, vec![]));
}

fn table(b: &mut Builder) -> Table {
    let name = "tcp".to_owned();
    b.graph.tables.push(TableDecl {
        name,
        two_sided: true,
        observed: true,
        asked: false,
        scattered: false,
        part: None,
        carries: None,
        key: Default::default(),
        ends: false,
        delivers: true,
        timeout_ms: None,
    });
    Table(b.graph.tables.len() as u32 - 1)
}

fn var(b: &mut Builder, table: Table, kind: VarKind, each_side: bool) -> Var {
    let number = b.graph.vars.len() as u32;
    b.graph.vars.push(VarDecl {
        table,
        name: VarName::Layer(format!("var{number}")),
        kind,
        each_side,
        observed: true,
    });
    Var(number)
}

/// Ends the block with a lookup and continues after it. Returns flow, responder, new.
fn lookup(b: &mut Builder, table: Table, key: Vec<Value>) -> [Value; 3] {
    let then = b.block();
    let swap = b.bool(true);
    b.end(Terminator::Lookup { table, key, swap, reversed: None, then });
    b.seal(then);
    b.switch_to(then);
    [Type::Flow(table), Type::Bool, Type::Bool].map(|ty| b.param(then, ty))
}

#[test]
fn values_buffers_and_loops_live_across_lookups_and_variables_are_kept() {
    let mut b =
        Builder::new(Graph { outs: (0..6).map(|n| n.to_string().into()).collect(), ..Graph::default() });
    let tcp = table(&mut b);
    let narrow_var = var(&mut b, tcp, VarKind::Bits(8), true);
    let wide_var = var(&mut b, tcp, VarKind::Bits(64), false);
    let buf = b.one(Op::Frame);
    let length = b.one(Op::Length(buf));
    let (two, four) = (b.int(2), b.int(4));
    let narrow = b.one(Op::Narrow(buf, four));
    let short = b.compare(CompareOp::Lt, length, four);
    let [flow, responder, new] = lookup(&mut b, tcp, vec![length, two]);
    // The originator's or the responder's variable: + 300, truncated to 8 bits.
    let before = b.one(Op::Get { flow, var: narrow_var, side: Some(responder) });
    let by = b.int(300);
    let after = b.binary(BinaryOp::Add, before, by);
    b.push(Op::Set { flow, var: narrow_var, side: Some(responder), value: after });
    b.push(Op::Set { flow, var: wide_var, side: None, value: length });
    let again = b.one(Op::Get { flow, var: narrow_var, side: Some(responder) });
    b.push(Op::Store { out: Out(0), value: again });
    let [flow, _, _] = lookup(&mut b, tcp, vec![again, two]);
    let wide = b.one(Op::Get { flow, var: wide_var, side: None });
    let narrow_length = b.one(Op::Length(narrow));
    for (out, value) in [(1, wide), (2, narrow_length), (3, two), (4, short), (5, new)] {
        let value = if out > 3 { from_bool(&mut b, value) } else { value };
        b.push(Op::Store { out: Out(out), value });
    }
    b.done(again, None);
    let graph = b.finish();

    for program in by_effort(&graph) {
        let (packet, frame, mut k) = (PacketMeta::default(), vec![9; 10], Continuation::default());
        k.set_key([77; 5]);
        let mut data = vec![0; program.layout().size(tcp)];
        data[0] = 200;
        data[program.layout().stride(tcp)] = 100;
        assert_eq!(program.head(&packet, &frame, &mut k), Step::Lookup);
        assert_eq!((k.key(), k.table, k.swap), (&[10, 2][..], 0, 1), "the words before are gone");
        let mut go_on = |k: &mut Continuation, responder, new| {
            let flow = FlowRecord { id: 5, data: &mut data };
            program.resume(&mut Notes::default(), resume(&packet, &frame, flow, [responder, new]), k)
        };
        assert_eq!(go_on(&mut k, true, true), Step::Lookup);
        assert_eq!(k.key(), [144, 2], "(100 + 300) mod 256");
        assert_eq!(go_on(&mut k, false, false), Step::Done(None));
        assert_eq!(
            (k.terms, &k.outs[..6]),
            (144, &[144, 10, 4, 2, 0, 1][..]),
            "new is that of the first lookup"
        );
        assert_eq!((data[0], data[program.layout().stride(tcp)]), (200, 144));
    }
}

/// `again(3) { lookup; count += 1 }`: loops may cross lookups, and their fuel keeps counting.
#[test]
fn a_loop_around_a_lookup_is_bounded_per_packet() {
    let mut b = Builder::new(Graph { fuels: 1, ..Graph::default() });
    let tcp = table(&mut b);
    let count = b.variable(Type::Int);
    let zero = b.int(0);
    b.write(count, zero);
    let [header, body, out] = [(); 3].map(|()| b.block());
    b.jump(header);
    b.switch_to(header);
    b.end(Terminator::Again { fuel: Fuel(0), max: 3, then: to(body), otherwise: to(out) });
    [body, out].into_iter().for_each(|block| b.seal(block));
    b.switch_to(body);
    let key = b.read(count);
    lookup(&mut b, tcp, vec![key]);
    let (old, one) = (b.read(count), b.int(1));
    let new = b.binary(BinaryOp::Add, old, one);
    b.write(count, new);
    b.jump(header);
    b.seal(header);
    b.switch_to(out);
    let terms = b.read(count);
    b.done(terms, None);
    for program in by_effort(&b.finish()) {
        let (packet, mut k) = (PacketMeta::default(), Continuation::default());
        let mut step = program.head(&packet, &[], &mut k);
        for round in 0..3 {
            assert_eq!((step, k.key()[0]), (Step::Lookup, round));
            let flow = FlowRecord { id: 0, data: &mut [] };
            step = program.resume(&mut Notes::default(), resume(&packet, &[], flow, [false, false]), &mut k);
        }
        assert_eq!((step, k.terms), (Step::Done(None), 3));
    }
}

/// Restarts if the flow is old: the same lookup is answered twice.
#[test]
fn a_restarted_program_goes_on_with_the_new_flow() {
    let mut b = Builder::new(Graph::default());
    let tcp = table(&mut b);
    let buf = b.one(Op::Frame);
    let length = b.one(Op::Length(buf));
    let [_, _, new] = lookup(&mut b, tcp, vec![length]);
    let (fresh, old) = (b.block(), b.block());
    b.branch(new, fresh, old);
    [fresh, old].into_iter().for_each(|block| b.seal(block));
    b.switch_to(old);
    b.end(Terminator::Restart);
    b.switch_to(fresh);
    b.done(length, None);
    for program in by_effort(&b.finish()) {
        let (packet, frame, mut k) = (PacketMeta::default(), [0; 3], Continuation::default());
        assert_eq!(program.head(&packet, &frame, &mut k), Step::Lookup);
        for (new, want) in [(false, Step::Restart), (true, Step::Done(None))] {
            let flow = FlowRecord { id: 0, data: &mut [] };
            assert_eq!(
                program.resume(&mut Notes::default(), resume(&packet, &frame, flow, [false, new]), &mut k),
                want
            );
        }
        assert_eq!(k.terms, 3);
    }
}

#[test]
#[should_panic(expected = "resumed with another packet")]
fn what_is_done_is_not_resumed() {
    let mut b = Builder::new(Graph::default());
    let tcp = table(&mut b);
    let buf = b.one(Op::Frame);
    let length = b.one(Op::Length(buf));
    lookup(&mut b, tcp, vec![]);
    b.done(length, None);
    let program = compile(b.finish()).expect("the graph compiles");
    let (packet, frame, mut k) = (PacketMeta::default(), [0; 3], Continuation::default());
    program.head(&packet, &frame, &mut k);
    for _ in 0..2 {
        let flow = FlowRecord { id: 0, data: &mut [] };
        program.resume(&mut Notes::default(), resume(&packet, &frame, flow, [false, false]), &mut k);
    }
}

#[test]
fn letters_are_appended_once_and_never_beyond_their_room() {
    let mut b = Builder::new(Graph::default());
    let tcp = table(&mut b);
    let letters = var(&mut b, tcp, VarKind::Letters(3), false);
    let buf = b.one(Op::Frame);
    let letter = b.one(Op::Length(buf));
    let [flow, _, _] = lookup(&mut b, tcp, vec![]);
    b.push(Op::Append { flow, var: letters, letter });
    b.done(letter, None);
    for program in by_effort(&b.finish()) {
        let mut data = vec![0; program.layout().size(tcp)];
        let append = |data: &mut [u8], letter: usize| {
            let (packet, frame, mut k) = (PacketMeta::default(), vec![0; letter], Continuation::default());
            program.head(&packet, &frame, &mut k);
            let flow = FlowRecord { id: 0, data };
            program.resume(&mut Notes::default(), resume(&packet, &frame, flow, [false, false]), &mut k);
        };
        for (letter, want) in [
            (7, [1, 7, 0, 0]),
            (7, [1, 7, 0, 0]),
            (8, [2, 7, 8, 0]),
            (9, [3, 7, 8, 9]),
            (8, [3, 7, 8, 9]),
            (4, [3, 7, 8, 9]),
        ] {
            append(&mut data, letter);
            assert_eq!(data[..4], want, "after {letter}");
        }
        data[0] = 255;
        append(&mut data, 4);
        assert_eq!(data[..4], [255, 7, 8, 9], "a count beyond the room is a full room");
    }
}

fn asks_the_host() -> (Graph, Table) {
    let mut b =
        Builder::new(Graph { outs: (0..5).map(|n| n.to_string().into()).collect(), ..Graph::default() });
    let tcp = table(&mut b);
    b.graph.sequences.push(SequenceDecl {
        table: tcp,
        name: "tcp".to_owned(),
        bits: 32,
        from_first: true,
        retain: true,
        headers_only: false,
        overwrite: false,
        distinct: false,
        tells: false,
        metas: 2,
        wholes: 0,
    });
    b.graph.events.push(EventDecl { name: "tcp.segment".to_owned(), wanted: true });
    let buf = b.one(Op::Frame);
    let [flow, side, new] = lookup(&mut b, tcp, vec![]);
    let (one, big) = (b.int(1), b.int(100));
    let sequence = Sequence(0);
    let new = from_bool(&mut b, new);
    let insert = Op::SeqInsert {
        sequence,
        flow,
        side,
        at: big,
        buf,
        offset: one,
        length: big,
        span: one,
        metas: vec![one, new],
    };
    let inserted = b.push(insert);
    b.push(Op::SeqAcknowledge { sequence, flow, side, at: one });
    b.push(Op::SeqBegin { sequence, flow, side, at: big });
    b.push(Op::SeqHold { sequence, flow, side, at: big, span: one });
    let next = b.push(Op::SeqNext { sequence, flow, side });
    let next_length = b.one(Op::Length(next[2]));
    b.push(Op::Deliver { flow, side, gap: next[1], buf: next[2], offset: next[3], length: next[4] });
    for whole in [vec![], vec![one, next[7]]] {
        let [gap, offset, length] = [next[1], next[3], next[4]];
        b.push(Op::Collect { flow, side, gap, buf: next[2], offset, length, whole });
    }
    let messages = b.one(Op::Messages { flow, side });
    let message_bytes = b.one(Op::Length(messages));
    let more = b.one(Op::NextMessages { done: one, wanted: message_bytes });
    let more_bytes = b.one(Op::Length(more));
    let of_whole = b.one(Op::WholeValue { number: 3 });
    let whole = b.one(Op::SeqAssemble { sequence, flow, side });
    let none = b.push(Op::SeqNext { sequence, flow, side });
    let none_there = from_bool(&mut b, none[0]);
    let [there, other] = [next[0], next[5]].map(|bit| from_bool(&mut b, bit));
    let kept = b.one(Op::Keep { buf, offset: one, length: big });
    let values = vec![there, none_there, other, next[6], next[7], more_bytes, of_whole, kept];
    b.push(Op::Emit { event: Event(0), flow: Some(flow), values });
    b.push(Op::Emit { event: Event(0), flow: None, values: vec![] });
    let many: Vec<Value> = (0..20).map(|n| b.int(n)).collect();
    b.push(Op::Emit { event: Event(0), flow: None, values: many });
    let whole_length = b.one(Op::Length(whole));
    for (out, value) in [inserted[0], inserted[1], next_length, whole_length, next[7]].into_iter().enumerate()
    {
        b.push(Op::Store { out: Out(out as u32), value });
    }
    b.done(one, None);
    (b.finish(), tcp)
}

#[test]
fn the_host_is_asked_with_what_the_graph_says() {
    let (graph, _) = asks_the_host();
    for program in by_effort(&graph) {
        let (packet, frame, mut k) = (PacketMeta::default(), [10, 11, 12], Continuation::default());
        assert_eq!(program.head(&packet, &frame, &mut k), Step::Lookup);
        let bytes = slice(b"next");
        let metas = [8, 9, 0, 0, 0, 0, 0, 0];
        let ordered = Ordered { gap_bytes: 3, bytes, claimed_bytes: 44, of_other: true, metas };
        let mut host = Notes { next: vec![ordered], ..Notes::default() };
        let flow = FlowRecord { id: 6, data: &mut [] };
        let step = program.resume(&mut host, resume(&packet, &frame, flow, [true, false]), &mut k);
        assert_eq!(step, Step::Done(None));
        let many: Vec<u64> = (0..20).collect();
        assert_eq!(
            host.notes,
            [
                "sequence0 flow 6 true 100 [11, 12] 100 1 [1, 0]".to_owned(),
                "acknowledge sequence0 flow 6 true 1".to_owned(),
                "begin sequence0 flow 6 true 100".to_owned(),
                "hold sequence0 flow 6 true 100 1".to_owned(),
                "next sequence0 flow 6 true".to_owned(),
                "deliver table0 flow 6 true 3 [110, 101, 120, 116] 44".to_owned(),
                "collect table0 flow 6 true 3 [110, 101, 120, 116] 44 []".to_owned(),
                "collect table0 flow 6 true 3 [110, 101, 120, 116] 44 [1, 9]".to_owned(),
                "messages table0 flow 6 true".to_owned(),
                "next messages 1 7".to_owned(),
                "value 3 of the whole".to_owned(),
                "assemble sequence0 flow 6 true".to_owned(),
                "next sequence0 flow 6 true".to_owned(),
                "keep [11, 12]".to_owned(),
                "event0 Some(6) [1, 0, 1, 8, 9, 4, 77, 14]".to_owned(),
                "event0 None []".to_owned(),
                format!("event0 None {many:?}"),
            ]
        );
        assert_eq!(k.outs[..5], [SEQ_ORDERED, 2, 4, 9, 9]);
        assert!(k.kept() == 0, "the packet is done, its buffers are given back");
    }
}

#[test]
fn what_many_packets_run_through_is_compiled_again_beside_the_run() {
    let (graph, _) = asks_the_host();
    let program = Arc::new(
        weir_codegen::compile_with_fast_path(graph, None, Effort::Growing).expect("the graph compiles"),
    );
    let run = || {
        let (packet, frame, mut k) = (PacketMeta::default(), [10, 11, 12], Continuation::default());
        let mut host = Notes::default();
        assert_eq!(program.head(&packet, &frame, &mut k), Step::Lookup);
        let flow = FlowRecord { id: 6, data: &mut [] };
        program.resume(&mut host, resume(&packet, &frame, flow, [true, false]), &mut k);
        (host.notes, k.outs)
    };
    let (before, bytes) = (run(), program.code_bytes());
    Arc::clone(&program).note_packets(8_191);
    assert_eq!(program.code_bytes(), bytes, "these were not many");
    Arc::clone(&program).note_packets(1);
    // Another thread recompiles; only this test waits for it.
    while Arc::strong_count(&program) > 1 {
        std::thread::yield_now();
    }
    assert!(program.code_bytes() < bytes, "{} bytes, {bytes} before", program.code_bytes());
    assert_eq!(run(), before);
}

#[test]
fn first_packets_are_interpreted_to_their_ends() {
    let (graph, _) = asks_the_host();
    let program =
        weir_codegen::compile_with_fast_path(graph, None, Effort::Late).expect("the graph compiles");
    let (packet, frame) = (PacketMeta::default(), [10, 11, 12]);
    let mut all = [(); 2].map(|()| (Notes::default(), Continuation::default()));
    assert_eq!(program.head(&packet, &frame, &mut all[0].1), Step::Lookup);
    for _ in 0..2_048 {
        assert_eq!(program.head(&packet, &frame, &mut all[1].1), Step::Lookup);
    }
    assert!(program.code_bytes() > 0);
    for (host, k) in &mut all {
        let flow = FlowRecord { id: 6, data: &mut [] };
        let step = program.resume(host, resume(&packet, &frame, flow, [true, false]), k);
        assert_eq!(step, Step::Done(None));
    }
    let [(interpreted, first), (native, second)] = all;
    assert_eq!((interpreted.notes, first.outs), (native.notes, second.outs));
}

#[test]
fn a_panic_of_the_host_comes_out_of_the_program() {
    let (graph, _) = asks_the_host();
    let program = compile(graph).expect("the graph compiles");
    let (packet, frame, mut k) = (PacketMeta::default(), [1, 2, 3], Continuation::default());
    program.head(&packet, &frame, &mut k);
    let mut host = Notes { panics: true, ..Notes::default() };
    let fault = catch_unwind(AssertUnwindSafe(|| {
        program.resume(
            &mut host,
            resume(&packet, &frame, FlowRecord { id: 0, data: &mut [] }, [true, false]),
            &mut k,
        )
    }));
    let fault = fault.expect_err("the host panicked");
    assert_eq!(fault.downcast_ref::<&str>(), Some(&"the host is out of order"));
    assert!(host.notes.is_empty(), "nothing is asked of it afterwards");
    let again = catch_unwind(AssertUnwindSafe(|| {
        let mut host = Notes::default();
        program.resume(
            &mut host,
            resume(&packet, &frame, FlowRecord { id: 0, data: &mut [] }, [true, false]),
            &mut k,
        )
    }));
    assert!(again.is_err(), "nothing goes on with what was left half done");
    assert_eq!(program.head(&packet, &frame, &mut k), Step::Lookup, "the next packet is none the worse");
}

#[test]
fn another_frame_or_a_short_record_is_refused() {
    let mut b = Builder::new(Graph::default());
    let tcp = table(&mut b);
    var(&mut b, tcp, VarKind::Bits(64), true);
    lookup(&mut b, tcp, vec![]);
    let terms = b.int(0);
    b.done(terms, None);
    let program = compile(b.finish()).expect("the graph compiles");
    let (packet, frame, mut k) = (PacketMeta::default(), [0; 8], Continuation::default());
    program.head(&packet, &frame, &mut k);
    let mut go_on = |frame: &[u8], data: &mut [u8]| {
        let flow = FlowRecord { id: 0, data };
        let mut host = Notes::default();
        let run = || program.resume(&mut host, resume(&packet, frame, flow, [false, false]), &mut k);
        catch_unwind(AssertUnwindSafe(run)).is_ok()
    };
    assert!(!go_on(&frame[..7], &mut [0; 16]));
    assert!(!go_on(&frame, &mut [0; 15]));
    assert!(go_on(&frame, &mut [0; 16]));
}

#[test]
fn a_residual_filter_is_asked_numbers_and_bytes() {
    let mut b = Builder::new(Graph::default());
    b.graph.patterns = vec![PatternDecl::Contains(b"example".to_vec())];
    let (number, text) = (b.one(Op::Input(1)), b.one(Op::InputBytes(0)));
    let (zero, all) = (b.int(0), b.int(u64::MAX));
    let found = b.one(Op::Search { pattern: Pattern(0), buf: text, offset: zero, length: all });
    let found = from_bool(&mut b, found);
    let terms = b.binary(BinaryOp::Add, number, found);
    b.done(terms, None);
    for program in by_effort(&b.finish()) {
        let mut k = Continuation::default();
        assert_eq!(program.ask(&[1, 40], &[b"www.example.org"], &mut k), 41);
        assert_eq!(program.ask(&[1, 40], &[&b""[..]; 40], &mut k), 40);
        assert_eq!(program.ask(&[1], &[], &mut k), 0, "what is missing is 0 or empty");
    }
}

#[test]
fn the_code_can_be_read() {
    let (graph, _) = asks_the_host();
    let program = compile(graph).expect("the graph compiles");
    let text = program.code_text();
    assert!(text.contains("; head") && text.contains("; tail") && text.contains("bytes for"), "{text}");
    assert!(program.code_bytes() > 0);
}

#[test]
fn what_no_program_can_do_is_refused() {
    let mut b = Builder::new(Graph::default());
    let tcp = table(&mut b);
    let count = var(&mut b, tcp, VarKind::Bits(32), false);
    let [flow, _, _] = lookup(&mut b, tcp, vec![]);
    lookup(&mut b, tcp, vec![]);
    let terms = b.one(Op::Get { flow, var: count, side: None });
    b.done(terms, None);
    let error = compile(b.finish()).expect_err("a flow is read after another lookup");
    assert!(matches!(error, CompileError::FlowAcrossLookup(_) | CompileError::Unverified(_)), "{error}");
    assert!(!error.is_environment());
}
