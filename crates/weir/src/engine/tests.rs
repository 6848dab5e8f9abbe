//! Tests of callbacks, and of programs that change during a run, over the capture that the project ships.

use super::*;
use crate::CALLBACK_PANICS_MAX;
use crate::compile::QUESTIONS_MAX;
use crate::io::CaptureReader;
use crate::item::{Flow, Item};
use crate::outcome::Changes;
use crate::stream_handler::erased;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_compile::Need;
use weir_engine::flow::EndReason;
use weir_engine::plan::Want;
use weir_engine::stream::Chunk;
use weir_packet::{Burst, PacketMeta, Poll, SourceError, Value};
use weir_sessions::tls::TlsHandshake;
use weir_sessions::{ProtocolSet, SessionRegistry};

const FIRST_LIGHT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/first-light.pcap");

/// Reads the shipped capture in bursts of a few packets, and calls a function before each burst.
struct Slow<F> {
    reader: CaptureReader,
    rest: Burst,
    size: usize,
    before: F,
}

fn slow<F: FnMut()>(size: usize, before: F) -> Slow<F> {
    Slow { reader: CaptureReader::open(&[FIRST_LIGHT]), rest: Burst::default(), size, before }
}

impl<F: FnMut()> Source for Slow<F> {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        (self.before)();
        if self.rest.packets.is_empty() && self.reader.poll(&mut self.rest)? == Poll::End {
            burst.packets.clear();
            return Ok(Poll::End);
        }
        burst.block = Arc::clone(&self.rest.block);
        let count = self.size.min(self.rest.packets.len());
        burst.packets = self.rest.packets.drain(..count).collect();
        Ok(Poll::Packets)
    }
}

/// Rows of each question, as text.
type Rows = Vec<Vec<String>>;

/// A run whose program is replaced by the next one of a list after a number of bursts.
struct Replaced<'a> {
    programs: &'a [Compiled],
    every: usize,
    bursts: usize,
    rows: Rows,
}

impl Changes for Replaced<'_> {
    fn item(&mut self, question: usize, mut item: Item) {
        // The offset of a packet in its block depends on the block's address.
        if let Item::Packet { meta, .. } = &mut item {
            meta.offset = 0;
        }
        self.rows[question].push(format!("{item:?}"));
    }

    fn program(&mut self) -> Option<(Compiled, Vec<Shape>)> {
        self.bursts += 1;
        let is_time = self.bursts.is_multiple_of(self.every);
        is_time.then(|| (self.programs[self.bursts / self.every % self.programs.len()].clone(), vec![]))
    }
}

fn compile(questions: &[(&str, Want)]) -> Compiled {
    // The recognised services depend on all questions together, so each question asks for all of them.
    let need = |want| Need { service: want == Want::Connections, ..Need::default() };
    let ask = |&(filter, want): &(&str, Want)| Ask { filter: filter.into(), need: need(want), want };
    let asks: Vec<Ask> = questions.iter().map(ask).collect();
    Compiler::default().compile(&asks, &Options::default()).unwrap_or_else(|wrong| panic!("{wrong}"))
}

fn replaced(programs: &[Compiled], every: usize, workers: usize) -> (Rows, Outcome) {
    let mut changes = Replaced { programs, every, bursts: 0, rows: vec![vec![]; 6] };
    let mut source = slow(16, || ());
    let compiler = Compiler::default();
    let outcome =
        run_changing(&compiler, programs[0].clone(), &mut source, &[], workers, &mut changes, &mut |_| ());
    assert_eq!(outcome.counters.adds_up(0), Ok(()));
    (changes.rows, outcome)
}

/// Questions that stay, while others are added and removed.
const STAYING: [(&str, Want); 4] = [
    ("", Want::Connections),
    ("tls.sni contains \"example\"", Want::Sessions(ProtocolSet::of(0))),
    ("tls.established == true and tcp", Want::Packets),
    ("conn.orig_bytes > 300 and conn.service == \"ssl\"", Want::Connections),
];

#[test]
fn questions_that_stay_do_not_notice_that_others_come_and_go() {
    let base = compile(&STAYING);
    let (expected, _) = replaced(&[base], usize::MAX, 1);
    assert!(expected[..4].iter().all(|rows| rows.len() > 3), "each finds something");
    for other in [
        ("", Want::Packets),
        ("tls", Want::Packets),
        ("udp", Want::Sessions(SessionRegistry::builtin().all())),
        ("tcp.port == 80", Want::Streams(StreamParams::default())),
        ("", Want::Events),
        ("conn.resp_bytes > 10", Want::Tracked(ProtocolSet::of(0))),
    ] {
        let with = compile(&[&STAYING[..], &[other]].concat());
        let without = compile(&[&STAYING[..], &[("", Want::Nothing)]].concat());
        for (every, workers) in [(1, 1), (7, 1), (1, 2), (50, 3)] {
            let (rows, outcome) = replaced(&[without.clone(), with.clone()], every, workers);
            assert!(outcome.swaps.0 > 0 || workers > 1, "{other:?}");
            for (question, expected) in expected.iter().enumerate().take(4) {
                assert_eq!(&rows[question], expected, "{other:?} every {every} bursts, {workers} workers");
            }
        }
    }
}

#[test]
fn questions_that_share_predicates_with_others_do_not_notice_either() {
    let staying = [
        ("tcp.port == 443 and tls.sni contains \"example\"", Want::Connections),
        ("tcp.port == 443 and tls.sni contains \"example\"", Want::Packets),
        ("conn.orig_bytes > 70 and conn.resp_bytes > 200 and not tls", Want::Connections),
        ("tls and conn.orig_bytes > 300", Want::Sessions(ProtocolSet::of(0))),
    ];
    let (expected, _) = replaced(&[compile(&staying)], usize::MAX, 1);
    assert!(expected[..4].iter().all(|rows| rows.len() > 3), "each finds something");
    for before in
        ["tls.sni contains \"example\"", "conn.resp_bytes > 200", "not tls", "conn.orig_bytes > 300"]
    {
        for want in [Want::Connections, Want::Packets, Want::Sessions(ProtocolSet::of(0))] {
            // The other question comes first, so that shared parts are found there first.
            let other = [(before, want)];
            let with = compile(&[&other[..], &staying].concat());
            let without = compile(&[&[("", Want::Nothing)][..], &staying].concat());
            let (rows, _) = replaced(&[with, without], 5, 1);
            for (question, expected) in expected.iter().enumerate().take(4) {
                assert_eq!(&rows[question + 1], expected, "{:?} beside {before} {want:?}", staying[question]);
            }
        }
    }
}

#[test]
fn a_number_used_again_has_nothing_of_its_former_question() {
    let streams = |port| (port, Want::Streams(StreamParams::default()));
    let passing: MakeQuestionWorker = Arc::new(|| QuestionWorker::Stream(erased(datum::Passing, None)));
    let program = |questions: &[(&str, Want)]| {
        let is_stream = |want: &Want| matches!(want, Want::Streams(_));
        let make_workers =
            questions.iter().map(|(_, want)| is_stream(want).then(|| Arc::clone(&passing))).collect();
        Compiled { make_workers, ..compile(questions) }
    };
    let both = program(&[streams("tcp"), streams("tcp")]);
    let one = program(&[streams("tcp"), ("", Want::Nothing)]);
    let (expected, _) = replaced(&[program(&[streams("tcp")])], usize::MAX, 1);
    let (rows, _) = replaced(&[both, one], 5, 1);
    assert_eq!(rows[0], expected[0]);
    assert!(!rows[1].is_empty() && rows[1].len() < rows[0].len());
}

/// Packets of `tcp` wait behind packets whose connection is undecided; the question is removed while they wait.
#[test]
fn a_question_that_is_taken_away_was_given_all_that_was_found() {
    let tcp = ("tcp", Want::Packets);
    let slower = ("conn.service == \"ssl\"", Want::Packets);
    let both = compile(&[tcp, slower]);
    let one = compile(&[("", Want::Nothing), slower]);
    let alone = [compile(&[tcp, ("", Want::Nothing)]), compile(&[("", Want::Nothing); 2])];
    for every in [4, 20, 40] {
        let (expected, _) = replaced_once(&alone, every);
        let (rows, _) = replaced_once(&[both.clone(), one.clone()], every);
        assert!(expected[0].len() >= 5, "{every}");
        assert_eq!(rows[0], expected[0], "after {every} bursts");
    }
}

/// The questions change between two fragments: what waits for the datagram does not wait forever.
#[test]
fn fragments_wait_while_the_questions_change() {
    use weir_testing::frames::{V4, ethernet, ipv4, udp};
    let datagram = udp((53, 4000), b"sixteen bytes ok");
    let fragment = |place, bytes: &[u8]| {
        let packet = ipv4((V4[0], V4[1]), 17, 7, place, &[], bytes);
        [crate::io::MemoryPacket::ethernet(ethernet(0x0800, &packet))]
    };
    let (of_udp, other, of_ip) =
        (("udp.port == 53", Want::Packets), ("udp.port == 54", Want::Packets), ("ip", Want::Packets));
    let nothing = ("", Want::Nothing);
    for (before, after, wanted) in [
        ([of_udp, of_ip], [of_udp, of_ip], [3, 3]),
        // The second fragment alone is not of the removed question, and nobody waits for it.
        ([of_udp, of_ip], [nothing, of_ip], [0, 3]),
        ([of_udp, nothing], [of_udp, of_ip], [3, 2]),
        ([of_udp, other], [of_udp, nothing], [3, 0]),
    ] {
        let source = || {
            let source = weir_io::MemorySource::new().then_packets(fragment(0x2000, &datagram[..16]));
            source.then_packets(fragment(0, &datagram)).then_packets(fragment(2, &datagram[16..]))
        };
        for workers in [1, 2] {
            let programs =
                [compile(&before), compile(&after), compile(&after), compile(&after), compile(&after)];
            let mut changes = Replaced { programs: &programs, every: 1, bursts: 0, rows: vec![vec![]; 2] };
            let (compiler, first) = (Compiler::default(), programs[0].clone());
            let outcome =
                run_changing(&compiler, first, &mut source(), &[], workers, &mut changes, &mut |_| ());
            assert_eq!(outcome.counters.adds_up(0), Ok(()));
            assert_eq!(outcome.counters.packet.undecided, 0);
            let rows: Vec<usize> = changes.rows.iter().map(Vec::len).collect();
            // Several workers receive all three packets before they change.
            assert!(workers > 1 || rows == wanted, "{before:?} then {after:?}: {rows:?}");
        }
    }
}

/// As [`replaced`], with one change: the second program runs to the end.
fn replaced_once(programs: &[Compiled; 2], after: usize) -> (Rows, Outcome) {
    let [first, second] = programs;
    let mut list = vec![second.clone(); 200];
    list[0] = first.clone();
    replaced(&list, after, 1)
}

#[test]
fn a_session_and_its_connection_come_together_whatever_the_filter_asks() {
    let mut pairs = 0;
    let mut engine = Engine::new();
    engine
        .subscribe("tls and conn.orig_bytes > 100", |_: &crate::Connection, _: &TlsHandshake| pairs += 1)
        .unwrap();
    engine.run(&mut slow(64, || ()), 1).unwrap();
    drop(engine);
    assert_eq!(pairs, 24);
}

#[test]
fn a_hundred_questions_are_answered_as_each_would_be_alone() {
    let sizes: Vec<String> = (0..60).map(|n| format!("conn.orig_bytes > {}", n * 10)).collect();
    let names: Vec<String> = ["www", "api", "static", "shop", "example", "com", "org"]
        .map(|name| format!("tls.sni contains \"{name}\""))
        .into();
    let mut questions: Vec<(&str, Want)> = vec![];
    for (n, size) in sizes.iter().enumerate() {
        questions.push((size, Want::Connections));
        questions.push((&names[n % names.len()], [Want::Sessions(ProtocolSet::of(0)), Want::Packets][n % 2]));
    }
    let mut changes = Replaced {
        programs: &[compile(&questions)],
        every: usize::MAX,
        bursts: 0,
        rows: vec![vec![]; questions.len()],
    };
    let compiled = changes.programs[0].clone();
    let compiler = Compiler::default();
    run_changing(&compiler, compiled, &mut slow(64, || ()), &[], 1, &mut changes, &mut |_| ());
    for (question, rows) in questions.iter().zip(&changes.rows).step_by(7) {
        let (alone, _) = replaced(&[compile(&[*question])], usize::MAX, 1);
        assert_eq!(rows, &alone[0], "{question:?}");
    }
}

#[test]
fn a_program_that_kept_nothing_may_be_followed_by_one_that_does() {
    let nothing = compile(&[("tcp", Want::Packets), ("", Want::Nothing)]);
    let all = compile(&[("tcp", Want::Packets), ("", Want::Connections)]);
    let (expected, _) = replaced(std::slice::from_ref(&all), usize::MAX, 1);
    for every in [1, 3, 20] {
        let (rows, _) = replaced(&[nothing.clone(), all.clone()], every, 1);
        assert_eq!(rows[0], expected[0]);
    }
    let none = compile(&[("", Want::Nothing), ("", Want::Nothing)]);
    for workers in [1, 2] {
        replaced(&[none.clone(), all.clone(), nothing.clone()], 2, workers);
    }
    let (rows, _) = replaced(&[nothing, all.clone(), all], 20, 1);
    assert!(!rows[1].is_empty() && rows[1].len() <= expected[1].len());
}

#[test]
fn callbacks_are_given_what_they_take() {
    let (mut names, mut pairs, mut lists, mut frames) = (vec![], vec![], vec![], 0);
    let flows = RefCell::new(vec![]);
    let mut engine = Engine::new();
    engine
        .subscribe("tls", |hello: &TlsHandshake| names.push(hello.server_name().map(String::from)))
        .unwrap();
    engine
        .subscribe("tls", |connection: &crate::Connection, hello: &TlsHandshake| {
            pairs.push((connection.uid.clone(), hello.server_name().map(String::from)));
        })
        .unwrap();
    engine
        .subscribe("tcp.port == 443", |flow: &Flow, all: &SessionsOf<TlsHandshake>| {
            lists.push((flow.uid.clone(), all.len()));
        })
        .unwrap();
    engine
        .subscribe("tls", |flow: &Flow, _: &TlsHandshake| flows.borrow_mut().push(flow.uid.clone()))
        .unwrap();
    engine.subscribe("udp", |_: &Frame| frames += 1).unwrap();
    let outcome = engine.run(&mut slow(64, || ()), 1).unwrap();
    drop(engine);
    assert_eq!(names.len(), 24);
    assert_eq!(pairs.len(), 24);
    let mut sorted = [names, pairs.iter().map(|pair| pair.1.clone()).collect()];
    sorted.iter_mut().for_each(|names| names.sort());
    assert_eq!(sorted[0], sorted[1]);
    assert!(lists.iter().all(|list| list.1 <= 1) && lists.iter().filter(|list| list.1 == 1).count() == 24);
    assert_eq!(flows.borrow().len(), 24);
    assert!(frames > 10 && outcome.matched.iter().sum::<u64>() > frames);
}

/// Packets of each side, and number of handshakes.
#[derive(Debug, Clone, Default)]
struct Sides([u64; 2], usize);

impl Track for Sides {
    const PROTOCOLS: &'static [&'static str] = &["tls"];

    fn packet(&mut self, packet: &TrackPacket<'_>) {
        self.0[usize::from(!packet.is_orig)] += 1;
    }

    fn session(&mut self, _: &dyn weir_sessions::Session) {
        self.1 += 1;
    }
}

#[test]
fn a_type_of_ones_own_is_told_of_packets_and_sessions() {
    for workers in [1, 3] {
        let (mut over, mut often) = (vec![], 0);
        let mut engine = Engine::new();
        engine
            .subscribe("tcp", |connection: &crate::Connection, sides: &Tracked<Sides>| {
                assert_eq!(connection.packets, sides.0, "{connection:?}");
                over.push(sides.1);
            })
            .unwrap();
        engine.subscribe_every(Every::Packets(10), "tls", |_: &Tracked<Sides>| often += 1).unwrap();
        engine.run(&mut slow(64, || ()), workers).unwrap();
        drop(engine);
        assert_eq!(over.iter().sum::<usize>(), 24);
        assert!(often > 24);
    }
}

/// Number, bytes and time of every packet of a connection.
#[derive(Debug, Clone, Default)]
struct Seen(Vec<(u64, u64, i64)>);

impl Track for Seen {
    fn packet(&mut self, packet: &TrackPacket<'_>) {
        self.0.push((packet.meta.number, packet.meta.wire_bytes.into(), packet.meta.time.0));
    }
}

/// The numbers of packets after which a connection is delivered, including its end.
fn due(every: Every, packets: &[(u64, u64, i64)]) -> Vec<usize> {
    let (mut at, mut begin, mut last) = (vec![], 0, packets[0].2);
    for end in 1..=packets.len() {
        let is_due = match every {
            Every::Connection | Every::Within(_) => false,
            Every::Packets(most) => (end - begin) as u64 >= most,
            Every::Bytes(most) => packets[begin..end].iter().map(|packet| packet.1).sum::<u64>() >= most,
            Every::Nanoseconds(most) => (packets[end - 1].2 - last) as u64 >= most,
        };
        if is_due {
            at.push(end);
            (begin, last) = (end, packets[end - 1].2);
        }
    }
    at.push(packets.len());
    at
}

#[test]
fn a_connection_is_given_as_often_as_was_asked() {
    use std::collections::BTreeMap;
    for every in [
        Every::Connection,
        Every::Packets(3),
        Every::Bytes(1),
        Every::Bytes(900),
        Every::Nanoseconds(1),
        Every::Nanoseconds(2_000_000),
        Every::Nanoseconds(u64::MAX),
    ] {
        // By the number of the first packet.
        let mut given: BTreeMap<u64, Vec<Vec<_>>> = BTreeMap::new();
        let mut engine = Engine::new();
        engine
            .subscribe_every(every, "tcp", |seen: &Tracked<Seen>| {
                given.entry(seen.0[0].0).or_default().push(seen.0.clone());
            })
            .unwrap();
        engine.run(&mut slow(64, || ()), 1).unwrap();
        drop(engine);
        assert!(given.len() > 20, "{every:?}");
        let mut between = 0;
        for times in given.values() {
            let all = times.last().expect("at its end");
            let lengths: Vec<usize> = times.iter().map(Vec::len).collect();
            assert_eq!(lengths, due(every, all), "{every:?}: {all:?}");
            between += times.len() - 1;
        }
        let never = matches!(every, Every::Connection | Every::Nanoseconds(u64::MAX));
        assert_eq!(between == 0, never, "{every:?}");
    }
}

/// A connection is reported within the time after each packet, though no packet of it follows; and for any number of workers
/// the same.
#[test]
fn a_connection_that_goes_on_is_reported_in_time() {
    const LATE_NS: i64 = 140_000_000;
    let reports = |within_ms: u64, workers: usize| {
        let mut reports = vec![];
        let mut engine = Engine::new();
        engine
            .subscribe_every(
                Every::Within(within_ms * 1_000_000),
                "tcp",
                |connection: &crate::Connection, seen: &Tracked<Seen>| {
                    reports.push((connection.uid.clone(), seen.0.clone(), connection.clone()));
                },
            )
            .unwrap();
        engine.run(&mut slow(64, || ()), workers).unwrap();
        drop(engine);
        reports
    };
    for within_ms in [1, 50, 1000] {
        let all = reports(within_ms, 1);
        assert!(all == reports(within_ms, 3), "{within_ms} ms");
        let last: HashMap<&str, &Vec<_>> = all.iter().map(|(uid, seen, _)| (uid.as_str(), seen)).collect();
        let end = all.iter().flat_map(|(_, seen, _)| seen).map(|packet| packet.2).max().expect("packets");
        for (uid, packets) in last {
            let of_this = || all.iter().filter(|(other, ..)| other == uid);
            for (position, packet) in packets.iter().enumerate() {
                let known = of_this().find(|(_, seen, _)| seen.len() > position).expect("it is reported");
                let until = packet.2 + within_ms as i64 * 1_000_000 + LATE_NS;
                // The clock shows a time once two packets agree on it.
                let after = known.1.iter().filter(|packet| packet.2 > until).count();
                assert!(until >= end || after <= 1, "{uid}, packet {position}, {within_ms} ms: {after}");
            }
        }
    }
    assert!(reports(1, 1).len() > reports(1000, 1).len());
    assert!(
        reports(1000, 1).iter().all(|(_, seen, record)| seen.len() as u64 == record.packets.iter().sum())
    );
}

/// Whoever watches a run also sees packets that waited for their connection, and at the end exact accounts.
#[test]
fn a_watch_sees_packets_that_waited() {
    for workers in [1, 2] {
        let watch = crate::Watch::default();
        let options = Options { watch: Some(watch.clone()), ..Options::default() };
        let (mut polls, mut seen) = (0, 0);
        let mut engine = Engine::with(Compiler::default(), options);
        engine.subscribe("tls", |_: &Frame| ()).unwrap();
        let before = || {
            polls += 1;
            if polls % 4 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(60));
            }
            seen = watch.glance().counters.packet.delivered;
        };
        let outcome = engine.run(&mut slow(32, before), workers).unwrap();
        drop(engine);
        assert!(seen > 0, "{workers} workers");
        assert_eq!(watch.glance().counters, outcome.counters);
        assert_eq!(watch.glance().counters.adds_up(0), Ok(()));
    }
}

/// Reports of several questions come in one order, whatever the number of workers is.
#[test]
fn reports_have_one_order() {
    const SESSIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sessions.pcap");
    let reports = |workers: usize| {
        let mut all = vec![];
        let mut engine = Engine::new();
        let questions = [("", 200), ("tcp", 1), ("udp", 30_000)];
        let questions =
            questions.map(|(filter, ms)| Question::of_records(filter, Every::Within(ms * 1_000_000)));
        engine.subscribe_questions(questions.to_vec(), Reports(&mut all)).unwrap();
        engine.run(&mut CaptureReader::open(&[SESSIONS]), workers).unwrap();
        drop(engine);
        all
    };
    let one = reports(1);
    assert!(one.iter().filter(|(_, _, is_over)| !is_over).count() > 100);
    for workers in 2..5 {
        assert!(reports(workers) == one, "{workers} workers");
    }
}

/// Takes reports: identifier, service, and whether the connection is over.
struct Reports<'a>(&'a mut Vec<(String, Option<String>, bool)>);

impl TakeItems for Reports<'_> {
    fn take(&mut self, _: usize, item: Item) -> Next {
        if let Item::Tracked { connection, is_over, .. } = item {
            self.0.push((connection.uid.clone(), connection.service.map(|name| name.to_string()), is_over));
        }
        Next::Go
    }
}

#[test]
fn reports_name_the_protocol_and_match_the_whole_filter() {
    let reports = |filter: &str| {
        let mut all = vec![];
        let mut engine = Engine::new();
        let question = Question::of_records(filter, Every::Within(1));
        engine.subscribe_questions(vec![question], Reports(&mut all)).unwrap();
        engine.run(&mut slow(64, || ()), 1).unwrap();
        drop(engine);
        all
    };
    let of_tls = |reports: &[(String, Option<String>, bool)], is_over: bool| {
        let is_tls = |service: &Option<String>| service.as_deref() == Some("ssl");
        let all = reports.iter().filter(|(_, service, over)| *over == is_over && is_tls(service));
        all.map(|(uid, ..)| uid.clone()).collect::<std::collections::BTreeSet<_>>()
    };
    let all = reports("");
    let ended = of_tls(&all, true);
    assert!(!ended.is_empty() && of_tls(&all, false).is_subset(&ended));
    assert!(!of_tls(&all, false).is_empty(), "known before the end");
    let tls = reports("tls");
    assert_eq!(of_tls(&tls, true), ended);
    assert!(tls.iter().all(|(uid, ..)| ended.contains(uid)), "others are never reported");
    assert!(tls.iter().any(|(_, _, is_over)| !is_over));
}

#[test]
fn a_callback_ends_its_subscription_or_one_connection() {
    let (mut first, mut each) = (0, 0);
    let mut engine = Engine::new();
    engine
        .subscribe("", |_: &Frame| {
            first += 1;
            Next::End
        })
        .unwrap();
    engine
        .subscribe_every(Every::Packets(1), "tcp", |_: &Tracked<()>| {
            each += 1;
            Next::EndFlow
        })
        .unwrap();
    engine.run(&mut slow(1, || ()), 1).unwrap();
    assert_eq!(engine.subscriptions().count(), 1);
    drop(engine);
    assert_eq!(first, 1);
    let mut connections = 0;
    let mut engine = Engine::new();
    engine.subscribe("tcp", |_: &crate::Connection| connections += 1).unwrap();
    engine.run(&mut slow(64, || ()), 1).unwrap();
    drop(engine);
    assert_eq!(each, connections);
}

#[test]
fn a_run_ends_once_nobody_asks_anything() {
    for workers in [1, 2] {
        let mut polls = 0;
        let mut engine = Engine::new();
        engine.subscribe("", |_: &Frame| Next::End).unwrap();
        let outcome = engine.run(&mut slow(1, || polls += 1), workers).unwrap();
        assert!(
            outcome.counters.packet.packets < 600,
            "{workers} workers: {}",
            outcome.counters.packet.packets
        );
        // While a control exists, the run cannot end early, because another thread may add a subscription.
        let (mut all, mut engine) = (0, Engine::new());
        let _control = engine.control();
        engine.subscribe("", |_: &Frame| Next::End).unwrap();
        engine.run(&mut slow(1, || all += 1), workers).unwrap();
        assert!(polls < all, "{workers} workers: {polls} of {all}");
    }
}

#[test]
fn a_failure_ends_the_run_for_all_questions() {
    let compiled = compile(&[("", Want::Packets), ("tcp.port == 1", Want::Connections)]);
    for workers in [1, 2] {
        let polls = |fails: bool| {
            let mut polls = 0;
            let mut each = |_: usize, _: Item| if fails { Err("no more") } else { Ok(()) };
            let mut source = slow(1, || polls += 1);
            let ended = crate::run(
                &Compiler::default(),
                &compiled,
                &mut source,
                &[],
                workers,
                &mut each,
                &mut |_| (),
            );
            assert_eq!(ended.err(), fails.then_some("no more"));
            drop(source);
            polls
        };
        assert!(polls(true) < polls(false), "{workers} workers");
    }
}

/// Counts items.
struct Counting<'a>(&'a mut usize);

impl TakeItems for Counting<'_> {
    fn take(&mut self, _: usize, _: Item) -> Next {
        *self.0 += 1;
        Next::Go
    }
}

#[test]
fn a_removed_question_receives_what_was_found_before() {
    let (mut items, mut engine) = (0, Engine::new());
    let ask = Ask { filter: String::new(), need: Need::default(), want: Want::Packets };
    let question = Question::new(ask, Shape::default());
    let subscription = engine.subscribe_questions(vec![question], Counting(&mut items)).unwrap();
    assert!(engine.dismiss(subscription));
    Running::of(&mut engine).item(0, Item::Pause);
    drop(engine);
    assert_eq!(items, 1);
}

#[test]
fn ip_bytes_of_datagrams_in_fragments_are_those_of_the_whole() {
    let (mut whole, mut in_parts) = (0, 0);
    let mut engine = Engine::new();
    engine
        .subscribe("udp or icmp", |connection: &crate::Connection| {
            let head = if connection.orig_h.is_ipv4() { 20 } else { 40 } + 8;
            for side in [0, 1] {
                let Some(bytes) = connection.bytes.filter(|_| connection.packets[side] > 0) else { continue };
                let [ip_bytes, packets] = [connection.ip_bytes[side], connection.packets[side]];
                // Fragments have an extension header.
                match ip_bytes - bytes[side] - head * packets {
                    0 => whole += 1,
                    more => assert!(more % 8 == 0 && more <= 8 * packets, "{connection:?}"),
                }
                in_parts += usize::from(ip_bytes > 1260 * packets);
            }
        })
        .unwrap();
    engine.run(&mut slow(64, || ()), 1).unwrap();
    drop(engine);
    assert!(whole > 50, "{whole}");
    assert!(in_parts >= 2, "{in_parts} of the capture's pings and datagrams are larger than a frame");
}

/// A packet has several messages; callbacks receive the messages that match their filter.
#[test]
fn events_are_chosen_by_their_own_columns() {
    let records = "
        //! TLS record
        protocol record {
            header { type: u8 where <= 24  version: u16 where <= 0x0304  length: u16 where <= 16640 }
            payload = rest[.. length]
            event seen on packet { type, length }
        }
        //! TLS's records
        stack records extends internet { tcp -> messages record when port == 443 }";
    let mut compiler = crate::Compiler::default();
    compiler.add("records.weir", records).unwrap();
    let columns = crate::EventRows::of_set(compiler.stack(), crate::EventSet::FULL).columns;
    let at = |name: &str| columns.iter().position(|column| column.name == name).unwrap();
    let (name, kind) = (at("event"), at("type"));
    let is_record = |row: &EventRow| row.values[name] == Value::Text("record.seen".into());
    let is_alert = |row: &EventRow| is_record(row) && row.values[kind] == Value::Unsigned(21);
    let (mut all, mut alerts, mut own, mut others, mut beside) = (0, 0, 0, 0, 0);
    let mut engine = Engine::with(compiler, Options::default());
    engine
        .subscribe("", |row: &EventRow| {
            all += usize::from(is_record(row));
            alerts += usize::from(is_alert(row));
        })
        .unwrap();
    engine
        .subscribe("record.seen.type == 21", |row: &EventRow| {
            assert!(is_alert(row), "{row:?}");
            own += 1;
        })
        .unwrap();
    engine
        .subscribe("record.seen.type != 21", |row: &EventRow| {
            assert!(is_record(row) && !is_alert(row), "{row:?}");
            others += 1;
        })
        .unwrap();
    engine.subscribe("record.type == 21", |row: &EventRow| beside += usize::from(is_record(row))).unwrap();
    engine.run(&mut slow(64, || ()), 1).unwrap();
    drop(engine);
    assert!(own > 0 && others > 0, "some of each");
    assert_eq!((own, own + others), (alerts, all));
    assert!(beside >= own, "fields of layers are the packet's: {beside}");
}

#[test]
fn other_threads_add_and_take_away_while_it_runs() {
    let mut engine = Engine::new();
    let mut frames = 0;
    engine.subscribe("", |_: &Frame| frames += 1).unwrap();
    let control = engine.control();
    let (names, done) = (Arc::new(Mutex::new(vec![])), Arc::new(AtomicBool::new(false)));
    let (told, is_done) = (Arc::clone(&names), Arc::clone(&done));
    let other = std::thread::spawn(move || {
        let push =
            move |hello: &TlsHandshake| told.lock().unwrap().push(hello.server_name().map(String::from));
        let added = control.subscribe("tls", push).expect("the filter is right");
        assert_eq!(control.list().unwrap().len(), 2);
        let wrong = control.subscribe("tls.sni == 5", |_: &Frame| ()).unwrap_err();
        assert!(wrong.contains("W0107"), "{wrong}");
        control.unsubscribe(added).unwrap();
        assert!(control.unsubscribe(added).is_err());
        let second = control.subscribe("tls", |_: &TlsHandshake| ()).unwrap();
        assert_ne!(added, second);
        is_done.store(true, Ordering::SeqCst);
    });
    let mut waited = 0;
    // The source waits until the other thread has done its part, within the first packets.
    let before = || {
        waited += 1;
        if waited > 20 && !done.load(Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    };
    let outcome = engine.run(&mut slow(1, before), 1).unwrap();
    drop(engine);
    other.join().unwrap();
    assert!(frames > 1000 && outcome.swaps.0 >= 1, "{:?}", outcome.swaps);
}

#[test]
fn an_addition_too_many_leaves_no_trace() {
    let mut engine = Engine::new();
    let all: Vec<_> = (0..QUESTIONS_MAX).map(|_| engine.subscribe("udp", |_: &Frame| ()).unwrap()).collect();
    let control = engine.control();
    let done = Arc::new(AtomicBool::new(false));
    let is_done = Arc::clone(&done);
    let other = std::thread::spawn(move || {
        let add = || control.subscribe("tcp", |_: &Frame| ());
        for _ in 0..3 {
            assert!(add().unwrap_err().contains("W0192"));
        }
        assert_eq!(control.list().unwrap().len(), QUESTIONS_MAX);
        control.unsubscribe(all[7]).unwrap();
        add().unwrap();
        assert!(add().unwrap_err().contains("W0192"));
        control.unsubscribe(all[QUESTIONS_MAX - 1]).unwrap();
        assert_eq!(control.list().unwrap().len(), QUESTIONS_MAX - 1);
        is_done.store(true, Ordering::SeqCst);
    });
    let before = || {
        if !done.load(Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    };
    engine.run(&mut slow(1, before), 1).unwrap();
    drop(engine);
    other.join().unwrap();
}

/// Counts packets.
#[derive(Debug, Default)]
struct Count(u64);

impl Handler for Count {
    fn needs(needs: &mut Needs) {
        needs.packets();
    }

    fn packet(&mut self, _: &PacketMeta, _: &[u8]) {
        self.0 += 1;
    }
}

#[test]
fn handlers_run_on_the_workers_and_are_there_at_the_end() {
    let mut engine = Engine::new();
    let tcp = engine.subscribe_handler("tcp", Count::default).unwrap();
    let udp = engine.subscribe_handler("udp", Count::default).unwrap();
    let outcome = engine.run(&mut slow(64, || ()), 2).unwrap();
    let sum = |of| outcome.handlers.of::<Count>(of).iter().map(|count| count.0).sum::<u64>();
    assert_eq!(outcome.handlers.of::<Count>(tcp).len(), 2);
    assert_eq!([sum(tcp), sum(udp)], [outcome.matched[0], outcome.matched[1]]);
    assert!(sum(tcp) > 1000);
}

/// Panics on every thread but the one that calls `run`.
struct Broken(std::thread::ThreadId, Arc<AtomicBool>);

impl Handler for Broken {
    fn needs(needs: &mut Needs) {
        needs.packets();
    }

    fn packet(&mut self, _: &PacketMeta, _: &[u8]) {
        if std::thread::current().id() != self.0 {
            self.1.store(true, Ordering::SeqCst);
            panic!("a broken handler");
        }
    }
}

#[test]
fn a_panic_of_a_handler_is_counted_and_the_run_continues() {
    for workers in [1, 2, 5] {
        // Handlers of the calling thread do not panic, so with one worker there are no panics.
        let has_panicked = Arc::new(AtomicBool::default());
        let (caller, told) = (std::thread::current().id(), Arc::clone(&has_panicked));
        let mut engine = Engine::new();
        let broken = engine.subscribe_handler("", move || Broken(caller, Arc::clone(&told))).unwrap();
        let other = engine.subscribe_handler("", Count::default).unwrap();
        let mut polls = 0;
        // The first batches are dispatched before the source waits.
        let before = || {
            polls += 1;
            while workers > 1 && polls > 100 && !has_panicked.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        };
        let outcome = engine.run(&mut slow(1, before), workers).unwrap();
        let counted: u64 = outcome.handlers.of::<Count>(other).iter().map(|count| count.0).sum();
        assert_eq!(counted, outcome.matched[0], "the other handler has all packets");
        if workers == 1 {
            assert_eq!(outcome.callback_panics, []);
            continue;
        }
        let [panics] = &outcome.callback_panics[..] else { panic!("{:?}", outcome.callback_panics) };
        assert_eq!((panics.subscription, panics.first.as_str()), (broken, "a broken handler"));
        let threads = workers as u64;
        assert!((1..CALLBACK_PANICS_MAX + threads).contains(&panics.count), "{panics}");
    }
}

/// Panics in all calls for every third stream.
struct BrokenStreams(u64);

impl StreamHandler for BrokenStreams {
    type State = u64;

    fn data(&mut self, state: &mut u64, stream: &mut crate::stream::Stream<'_, '_>, _: &Chunk<'_>) {
        *state += 1;
        assert!(stream.endpoints()[0].1 % 3 != 0, "a broken stream");
    }

    fn terminated(&mut self, state: u64, _: &mut crate::stream::Stream<'_, '_>, _: EndReason) {
        self.0 += state;
    }
}

#[test]
fn a_panic_in_a_callback_loses_this_call_only() {
    let (mut calls, mut sessions) = (0u64, 0);
    let mut engine = Engine::new();
    let broken = engine
        .subscribe("udp", |_: &Frame| {
            calls += 1;
            assert!(calls % 4 != 0, "call {calls}");
        })
        .unwrap();
    engine.subscribe("", |_: &TlsHandshake| sessions += 1).unwrap();
    let outcome = engine.run(&mut slow(64, || ()), 1).unwrap();
    drop(engine);
    let wanted = (outcome.matched[0] / 4).min(CALLBACK_PANICS_MAX);
    let [panics] = &outcome.callback_panics[..] else { panic!("{:?}", outcome.callback_panics) };
    assert_eq!((panics.subscription, panics.count, panics.first.as_str()), (broken, wanted, "call 4"));
    assert_eq!(panics.is_off, wanted == CALLBACK_PANICS_MAX);
    assert_eq!(calls, if panics.is_off { 4 * CALLBACK_PANICS_MAX } else { outcome.matched[0] });
    assert!(sessions > 10);
}

#[test]
fn a_callback_that_panics_too_often_is_not_called_any_more() {
    let calls = Arc::new(Mutex::new(0));
    let told = Arc::clone(&calls);
    let mut seen = 0;
    let mut engine = Engine::new();
    engine.subscribe("", |_: &Frame| -> () { panic!("always") }).unwrap();
    engine
        .subscribe_on((1, 1 << 16), "", move |_: &Frame| -> () {
            *told.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += 1;
            panic!("on a thread")
        })
        .unwrap();
    engine.subscribe("", |_: &Frame| seen += 1).unwrap();
    let outcome = engine.run(&mut slow(64, || ()), 1).unwrap();
    drop(engine);
    assert!(
        outcome.callback_panics.iter().all(|panics| panics.is_off && panics.count == CALLBACK_PANICS_MAX)
    );
    assert_eq!(outcome.callback_panics.len(), 2);
    assert_eq!(*calls.lock().unwrap(), CALLBACK_PANICS_MAX);
    assert_eq!(outcome.matched[2], seen);
}

#[test]
fn panics_of_stream_handlers_and_tracked_types_are_isolated() {
    #[derive(Debug, Clone, Default)]
    struct BrokenTrack(u64);

    impl Track for BrokenTrack {
        fn packet(&mut self, packet: &TrackPacket<'_>) {
            self.0 += 1;
            assert!(!packet.meta.number.is_multiple_of(50), "a broken type");
        }
    }

    let mut tracked = 0;
    let mut engine = Engine::new();
    let broken = engine.subscribe_streams("tcp", StreamParams::default(), || BrokenStreams(0)).unwrap();
    engine.subscribe("tcp", |state: &Tracked<BrokenTrack>| tracked += state.0).unwrap();
    let outcome = engine.run(&mut slow(64, || ()), 1).unwrap();
    drop(engine);
    let texts: Vec<&str> = outcome.callback_panics.iter().map(|panics| panics.first.as_str()).collect();
    assert_eq!(texts, ["a broken stream", "a broken type"]);
    let handlers = outcome.handlers.of::<BrokenStreams>(broken);
    assert!(handlers[0].0 > 100 && tracked > 1000, "{} {tracked}", handlers[0].0);
}

/// What the library itself does is not isolated: a fault there must be seen.
#[test]
fn a_panic_of_a_question_of_a_program_ends_the_run() {
    struct Nothing;

    impl TakeItems for Nothing {
        fn take(&mut self, _: usize, _: Item) -> Next {
            Next::Go
        }
    }

    for workers in [1, 3] {
        let mut engine = Engine::new();
        let streams = Question::of_streams("tcp", StreamParams::default(), || BrokenStreams(0));
        engine.subscribe_questions(vec![streams], Nothing).unwrap();
        let run = std::panic::AssertUnwindSafe(|| engine.run(&mut slow(64, || ()), workers));
        let panic = std::panic::catch_unwind(run).expect_err("the handler panics");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"a broken stream"));
    }
}

#[test]
fn what_a_slow_callback_has_no_room_for_is_counted() {
    let seen = Arc::new(Mutex::new(0));
    let told = Arc::clone(&seen);
    let mut engine = Engine::new();
    let slow_one = move |_: &Frame| {
        std::thread::sleep(std::time::Duration::from_micros(50));
        *told.lock().unwrap() += 1;
    };
    engine.subscribe_on((2, 4), "", slow_one).unwrap();
    let outcome = engine.run(&mut slow(64, || ()), 1).unwrap();
    assert_eq!(*seen.lock().unwrap() + outcome.lost, outcome.matched[0]);
}

#[test]
fn bytes_in_order_come_as_segments_and_as_chunks() {
    let (mut segments, mut chunks) = (vec![], vec![]);
    let mut engine = Engine::new();
    let filter = "tcp.port == 80 and ip";
    engine
        .subscribe(filter, |flow: &Flow, segment: &Segment| {
            segments.push((flow.uid.clone(), segment.is_orig, segment.offset, segment.bytes.clone()));
        })
        .unwrap();
    engine
        .subscribe(filter, |flow: &Flow, chunk: &StreamBytes<1000>| {
            assert!(chunk.bytes.len() <= 1000);
            chunks.push((flow.uid.clone(), chunk.is_orig, chunk.offset, chunk.bytes.clone()));
        })
        .unwrap();
    engine.run(&mut slow(64, || ()), 1).unwrap();
    drop(engine);
    assert!(chunks.len() > 100);
    let joined = |mut list: Vec<(String, bool, u64, Vec<u8>)>| {
        list.sort_by(|a, b| (&a.0, a.1, a.2).cmp(&(&b.0, b.1, b.2)));
        let mut streams: std::collections::BTreeMap<(String, bool), Vec<u8>> = Default::default();
        for (uid, is_orig, _, bytes) in list {
            streams.entry((uid, is_orig)).or_default().extend(bytes);
        }
        streams
    };
    let (segments, chunks) = (joined(segments), joined(chunks));
    assert!(segments.values().map(Vec::len).sum::<usize>() > 100_000);
    assert!(segments == chunks, "the same bytes");
}

#[test]
fn what_can_never_be_given_together_is_refused() {
    let mut engine = Engine::new();
    let wrong = |added: Result<Subscription, Diagnostics>| added.unwrap_err().list[0].code.to_string();
    assert_eq!(wrong(engine.subscribe("", |_: &Frame, _: &Flow| ())), "W0197");
    assert_eq!(wrong(engine.subscribe("", |_: &Frame, _: &TlsHandshake| ())), "W0197");
    assert_eq!(wrong(engine.subscribe("", |_: &Segment, _: &StreamChunk| ())), "W0197");
    assert_eq!(wrong(engine.subscribe_every(Every::Packets(1), "", |_: &Frame| ())), "W0197");
    assert_eq!(wrong(engine.subscribe_handler("tls.sni contains \"x\"", Count::default)), "W0193");
}

/// Number of packets and of connections, in one handler.
#[derive(Debug, Default)]
struct Both(u64, u64);

impl Handler for Both {
    fn needs(needs: &mut Needs) {
        needs.packets();
        needs.connections();
    }

    fn packet(&mut self, _: &PacketMeta, _: &[u8]) {
        self.0 += 1;
    }

    fn connection(&mut self, connection: &crate::Connection) {
        self.1 += connection.packets.iter().sum::<u64>();
    }
}

#[test]
fn a_handler_of_several_things_is_one() {
    let mut engine = Engine::new();
    let both = engine.subscribe_handler("tcp and not icmp", Both::default).unwrap();
    let outcome = engine.run(&mut slow(64, || ()), 1).unwrap();
    let handlers = outcome.handlers.of::<Both>(both);
    assert_eq!(handlers.len(), 1);
    assert!(handlers[0].0 > 1000 && handlers[0].0 == handlers[0].1, "{handlers:?}");
}

#[test]
fn an_engine_runs_again_and_nobody_asks_one_that_does_not_run() {
    let seen = Arc::new(Mutex::new(0));
    let told = Arc::clone(&seen);
    let mut engine = Engine::new();
    engine.subscribe_on((1, 1 << 16), "udp", move |_: &Frame| *told.lock().unwrap() += 1).unwrap();
    let control = engine.control();
    for run in 1..=2 {
        let outcome = engine.run(&mut slow(64, || ()), 1).unwrap();
        assert_eq!((*seen.lock().unwrap(), outcome.lost), (run * outcome.matched[0], 0));
        assert!(control.list().unwrap_err().contains("over"));
    }
    for _ in 0..3 {
        let added = engine.subscribe("udp", |_: &Frame| ()).unwrap();
        engine.run(&mut slow(64, || ()), 1).unwrap();
        assert!(engine.unsubscribe(added));
    }
}
