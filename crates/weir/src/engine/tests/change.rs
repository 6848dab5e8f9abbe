//! The program is replaced during a run: questions that stay notice nothing.

use super::*;

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
    fn item(&mut self, question: usize, mut item: Item<'_>) {
        // The offset of a packet in its block depends on the block's address.
        if let Item::Packet { meta, .. } = &mut item {
            meta.offset = 0;
        }
        match item {
            // How many rows come together depends on the number of workers.
            Item::Rows(rows) => self.rows[question].extend(rows.iter().map(|row| format!("{row:?}"))),
            item => self.rows[question].push(format!("{item:?}")),
        }
    }

    fn program(&mut self) -> Option<(Compiled, Vec<Shape>)> {
        self.bursts += 1;
        let is_time = self.bursts.is_multiple_of(self.every);
        is_time.then(|| (self.programs[self.bursts / self.every % self.programs.len()].clone(), vec![]))
    }
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

/// Packets of `tcp` wait behind packets whose connection is undecided; the question is removed while they
/// wait.
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
