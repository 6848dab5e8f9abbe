//! Randomly generated protocols give the same results in every engine.
//!
//! Texts, filters and packets are derived from random bytes, as in the fuzz target `text`. A failing case is
//! minimised before it is printed; earlier failures are tests of their own below.

use crate::properties::drive::{MemoryPacket, ask, compile, has_all_seeds, many_seeds, rows, run_streams};
use std::collections::BTreeMap;
use std::panic;
use weir::packet::{LinkType, Timestamp};
use weir::stream::{Chunk, Stream, StreamHandler, StreamParams};
use weir::{Compiler, Engine, Executor, Options, Want};
use weir_testing::Random;
use weir_testing::engines::Tried;

const SEEDS: u64 = 150;
/// Random bytes, more than any text, filter and packets consume.
const BYTES: usize = 6_000;

pub fn choices(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..BYTES).map(|_| random.bits() as u8).collect()
}

#[test]
fn engines_agree_on_generated_protocols() {
    let (mut taken, mut refused, mut rows) = (0, BTreeMap::<String, u32>::new(), 0);
    for seed in many_seeds(0..SEEDS) {
        let bytes = choices(seed);
        match panic::catch_unwind(|| weir_testing::engines::try_text(&bytes)) {
            Ok(Tried::Agreed(said)) => (taken, rows) = (taken + 1, rows + said),
            Ok(Tried::Refused(why)) => {
                println!("seed {seed} refused: {why}");
                *refused.entry(why[..5].to_string()).or_default() += 1;
            }
            Err(_) => panic!(
                "seed {seed}, made small:\n{}",
                weir_testing::engines::shrink_text(&bytes).unwrap_or_default()
            ),
        }
    }
    let count: u32 = refused.values().sum();
    println!("{taken} taken, {rows} rows; {count} refused: {refused:?}");
    // Of few seeds, more may be refused by chance.
    let taken_for_one_refused = if has_all_seeds() { 19 } else { 8 };
    assert!(taken >= count * taken_for_one_refused, "most texts are taken: {taken} of {}", taken + count);
    assert!(rows > taken as usize * 40, "most say something: {rows} rows");
}

fn packets(frames: &[&[u8]]) -> Vec<MemoryPacket> {
    let packet = |frame: &&[u8]| {
        let wire_bytes = frame.len() as u32;
        MemoryPacket { time: Timestamp(0), link: LinkType(147), wire_bytes, frame: frame.to_vec() }
    };
    frames.iter().map(packet).collect()
}

/// Results of a question about packets of one stack, under each of these options.
fn answers<const N: usize>(
    text: &str,
    asked: weir::Ask,
    frames: &[&[u8]],
    ways: [Options; N],
) -> [Vec<String>; N] {
    let mut compiler = Compiler::default();
    compiler.add("mine.weir", text).unwrap_or_else(|wrong| panic!("{wrong}"));
    let packets = packets(frames);
    ways.map(|options| {
        let compiled = compile(&compiler, std::slice::from_ref(&asked), &options);
        rows(&compiler, &compiled, &packets, 1).0
    })
}

/// Rows of the connections, without and with passes.
fn connections(text: &str, filter: &str, frames: &[&[u8]]) -> [Vec<String>; 2] {
    let ways = [vec!["all".to_string()], vec![]].map(|without_passes| Options {
        engine: Executor::Interpreter,
        without_passes,
        ..Options::default()
    });
    answers(text, ask(filter, Want::Connections), frames, ways)
}

#[test]
fn a_one_sided_instance_is_no_connection() {
    let text = "
        //! Who talks to whom
        protocol talk {
            header { from: u8  to: u8 }
            payload = rest
            instance (from) <-> (to)
            timeout 1m
        }
        //! Counted by its kind
        protocol kind {
            header { kind: u8 }
            instance (kind)
            timeout 1m
        }
        //! Both
        stack both { start 147: talk  talk -> kind }";
    // The packet belongs to the connection, whether or not the other instance is used or optimised away.
    for rows in connections(text, "kind.kind == 3", &[&[1, 2, 3], &[2, 3, 4]]) {
        assert_eq!(rows.len(), 1, "{rows:?}");
    }
}

#[test]
fn what_ends_on_a_packet_holds_what_that_carries() {
    let text = "
        //! Over at once
        protocol brief {
            header { from: u8  to: u8 }
            payload = rest
            instance (from) <-> (to)
            timeout 0s
        }
        //! Not over
        protocol lasting {
            header { from: u8  to: u8 }
            instance (from) <-> (to)
            timeout 1m
        }
        //! In it
        stack both {
            start 147: brief
            repeat brief 2
            brief -> brief     when from == 1
            brief -> lasting
        }";
    for rows in connections(text, "", &[&[1, 2, 3, 4, 5, 6], &[3, 4, 5, 6]]) {
        assert_eq!(rows.len(), 4, "{rows:#?}");
        let parents = |row: &String| {
            row.split("tunnel_parents: ").nth(1).map_or(0, |list| list.matches('"').count() / 2)
        };
        assert_eq!(rows.iter().map(parents).collect::<Vec<_>>(), [0, 1, 0, 2], "{rows:#?}");
    }
}

#[test]
fn what_ends_at_once_ends_in_one_order() {
    let text = "
        //! Outside
        protocol outer {
            header { from: u8  to: u8 }
            payload = rest
            instance (from) <-> (to)
            timeout 1s
        }
        //! Inside
        protocol inner {
            header { from: u8  to: u8 }
            payload = rest
            instance (from) <-> (to)
            timeout 1s
        }
        //! In no one's sight
        protocol hidden {
            header { who: u8 }
            instance (who)
            timeout 1s
        }
        //! All
        stack all { start 147: outer  outer -> inner  inner -> hidden }";
    // Enough packets that an unstable sort would reorder equal ones.
    let frames: Vec<[u8; 5]> = (0..40).map(|n| [n, n, n, n, n]).collect();
    let frames: Vec<&[u8]> = frames.iter().map(|frame| &frame[..]).collect();
    let [plain, optimised] = connections(text, "", &frames);
    assert_eq!(plain.len(), 80);
    assert_eq!(plain, optimised);
}

/// Bytes delivered to streams, without and with passes.
fn stream_bytes(sequence: &str, event: &str, frames: &[&[u8]]) -> [u64; 2] {
    let text = format!(
        "
        //! A sequence
        protocol numbered {{
            header {{ from: u8  to: u8  number: u8  span: u64 }}
            payload = rest
            instance (from) <-> (to)
            sequence at number of payload {sequence}
            timeout 1m
            event seen on {event} {{ assemble }}
        }}
        //! Of them
        stack all {{ start 147: numbered }}"
    );
    let mut compiler = Compiler::default();
    compiler.add("mine.weir", &text).unwrap_or_else(|wrong| panic!("{wrong}"));
    let packets = packets(frames);
    [vec!["all".to_string()], vec![]].map(|without_passes| {
        let options = Options { without_passes, ..Options::default() };
        let mut streams = Engine::with(compiler.clone(), options);
        let count = streams
            .subscribe_streams("", StreamParams::default(), Count::default)
            .expect("the filter is right");
        let outcome = run_streams(&streams, &packets);
        outcome.handlers.of::<Count>(count)[0].0
    })
}

/// Counts bytes, including missing ones.
#[derive(Default)]
struct Count(u64);

impl StreamHandler for Count {
    type State = ();

    fn data(&mut self, (): &mut (), _: &mut Stream<'_, '_>, chunk: &Chunk<'_>) {
        self.0 += chunk.gap_bytes + chunk.bytes.len() as u64;
    }
}

#[test]
fn a_sequence_without_events_in_order_hands_on_nothing() {
    // The segment waits for number 0, which never arrives.
    let early = [&[1, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0][..], b"abc"].concat();
    assert_eq!(stream_bytes("from 0", "packet", &[&early]), [0, 0]);
    assert_eq!(stream_bytes("from 0", "ordered", &[&early]), [4, 4], "the gap, too");
}

#[test]
fn packets_use_up_any_number_of_numbers() {
    let all = [&[1, 2, 0][..], &[255; 8], b"abc"].concat();
    let [plain, optimised] = stream_bytes("spanning span from first", "ordered", &[&all, &all, &all]);
    assert_eq!(plain, optimised);
}

#[test]
fn what_is_not_admitted_is_counted_and_no_more() {
    let text = "
        //! A turnstile
        protocol gate {
            header { who: u8  coin: u8 }
            payload = rest
            instance (who)
            vars { came: u32  went: u32 }
            count { came += 1 }
            prepare { went += 1 }
            states { shut: start  open }
            on coin: shut -> open
            timeout 1m
            event opened on coin { came, went } \"the first who may\"
            event passed on packet { coin, came, went } \"everybody\"
        }
        extend gate with guard {
            count { if coin == 7 { came += 10 } }
            admit when coin != 0
            admit when coin != 7
        }
        //! Alone
        stack turnstile { start 147: gate }";
    let mut compiler = Compiler::default();
    compiler.add("gate.weir", text).unwrap_or_else(|wrong| panic!("{wrong}"));
    let names: Vec<String> = vec!["gate.opened".into(), "gate.passed".into()];
    let wanted = weir::EventRows::of(compiler.stack(), &names).expect("they are declared");
    let need = weir::Need { events: wanted.asked, ..weir::Need::default() };
    let packets = packets(&[&[1, 0], &[1, 7], &[1, 5], &[1, 0], &[1, 9]]);
    for engine in [Executor::Interpreter, Executor::Auto] {
        let options = Options { engine, ..Options::default() };
        let ask = weir::Ask { filter: String::new(), need, want: Want::Events };
        let compiled = compile(&compiler, &[ask], &options);
        let (rows, _) = rows(&compiler, &compiled, &packets, 1);
        let has = |row: &String, numbers: &[u64]| {
            let values: Vec<u64> =
                row.split("Unsigned(").skip(1).filter_map(|v| v.split(')').next()?.parse().ok()).collect();
            values.ends_with(numbers)
        };
        // `came`, `went` and `coin`; the third packet opens the gate.
        let expected: [&[u64]; 6] =
            [&[1, 0, 0], &[12, 0, 7], &[13, 1], &[13, 1, 5], &[14, 1, 0], &[15, 2, 9]];
        assert_eq!(rows.len(), expected.len(), "{rows:#?}");
        for (row, numbers) in rows.iter().zip(expected) {
            assert!(has(row, numbers), "{numbers:?} wanted: {row}");
        }
    }
}

/// Number of packets that match, the same in native code and the interpreter.
fn matching(text: &str, filter: &str, frames: &[&[u8]]) -> usize {
    let ways = [Executor::Interpreter, Executor::Auto].map(|engine| Options { engine, ..Options::default() });
    let [interpreted, native] = answers(text, ask(filter, Want::Packets), frames, ways);
    assert_eq!(interpreted, native, "{filter}");
    native.len()
}

#[test]
fn a_field_is_there_where_its_bytes_are() {
    let text = "
        //! Items, and something behind them
        protocol list {
            header {
                end: u8
                peek first: u8
                items: run {
                    one  = 1 { a: u8 }
                    two  = 2 { b: u8  c: u8 where < 9 }
                    any  = _ { length: u8  value: bytes[length] }
                } until end
            }
            let twice = items.one.a * 2 \"what may be missing\"
            let known = items.one or items.two \"a truth\"
            let total = end + 0 \"what is always there\"
            payload = rest
        }
        //! Alone
        stack lists { start 147: list }";
    let frames: [&[u8]; 5] = [
        &[3, 1, 7, 0xee],          // one element
        &[5, 1, 7, 2, 1, 200],     // the second is invalid: its third byte is out of range
        &[2, 1, 0xee, 0xee],       // one reaches beyond the run's end
        &[4, 9, 7, 1, 0xee, 0xee], // so does one of unknown kind
        &[1],                      // no element
    ];
    let expected = [
        ("list.items.one", 2),
        ("list.items.one.a", 2),
        ("list.items.one.a == 7", 2),
        ("list.items.two", 0),
        ("list.items.two.b", 0),
        ("list.items.any", 0),
        ("list.items.any.value contains ee", 0),
        ("list.twice", 2),
        ("list.twice == 0", 0),
        ("not list.twice", 3),
        ("list.known", 2),
        ("list.total", 5),
        ("list.first", 4),
        ("list.first == 0", 0),
    ];
    for (filter, count) in expected {
        assert_eq!(matching(text, filter, &frames), count, "{filter}");
    }
}

#[test]
fn a_length_that_wraps_leads_nowhere() {
    let text = "
        //! What its length says, and something behind
        protocol long { header { kind: u8  length: u64  value: bytes[length]  behind: u16 } payload = rest }
        //! Items up to where a number says
        protocol listed { header { kind: u8  end: u64  items: run { one = 1 { a: u8 } } until end } payload = rest }
        //! Below both
        protocol outer { header { kind: u32 } payload = rest }
        //! One above the other
        stack lying { start 147: outer  outer -> long when kind == 1  outer -> listed when kind == 2 }";
    for back in 1..=20u64 {
        let length = back.wrapping_neg().to_be_bytes();
        let frame = |kind: u8| [&[0, 0, 0, kind, 0xab][..], &length, &[0xcd; 24]].concat();
        let (long, listed) = (frame(1), frame(2));
        for filter in ["long.behind", "long.behind == 1", "listed.payload contains 00:00:00"] {
            assert_eq!(matching(text, filter, &[&long, &listed]), 0, "{filter}, {back} back");
        }
    }
}

#[test]
fn a_packet_that_ends_its_connection_is_its_own() {
    let text = "
        //! Leases
        protocol lease {
            header { from: u8  to: u8  what: u8 }
            instance (from) <-> (to)
            states { held: start  gone }
            on release: held -> gone when what == 9
            timeout 0s in gone  1m otherwise
        }
        //! Alone
        stack leases { start 147: lease }";
    let frames: [&[u8]; 4] = [&[1, 2, 0], &[1, 2, 9], &[1, 2, 0], &[2, 1, 9]];
    assert_eq!(matching(text, "conn.orig_pkts >= 0", &frames), 4);
    for rows in connections(text, "", &frames) {
        assert_eq!(rows.len(), 2, "{rows:#?}");
    }
}

/// Each value uses the previous one twice; an evaluation without sharing would take exponential time.
#[test]
fn many_derived_values_are_asked_for_at_once() {
    let lets: String =
        (1..200).map(|n| format!("let l{n} = (l{} + l{}) & 255 \"one of many\"\n", n - 1, n - 1)).collect();
    let text = format!(
        "
        //! Many
        protocol many {{
            header {{ a: u8  b: u8 }}
            let l0 = a
            {lets}
            payload = rest
            instance (l199)
            timeout 1m
        }}
        //! Alone
        stack alone {{ start 147: many }}"
    );
    assert_eq!(matching(&text, "many.l3 == 8", &[&[1, 0], &[2, 0], &[]]), 1);
    assert_eq!(matching(&text, "many.l199 == 0", &[&[1, 0], &[2, 0], &[]]), 2);
}

/// Chunks, each a message of `word`s; `timeout` is that of the connection that carries them.
fn chunked(timeout: &str) -> String {
    format!(
        "
        //! A message each
        protocol chunk {{
            header {{ from: u8  to: u8  number: u16 }}
            payload = rest
            instance (from) <-> (to)
            sequence at number of payload spanning 1 from first wholes number > 0 .. number > 0
            timeout {timeout}
            event put on ordered {{ assemble }}
        }}
        //! In them
        protocol word {{
            header {{ from: u8  to: u8  kind: u8 }}
            instance (from) <-> (to)
            timeout 1ms
        }}
        //! All
        stack chunks {{ start 147: chunk  chunk -> messages word }}"
    )
}

#[test]
fn what_the_last_messages_make_anew_ends_once() {
    let mut packets = packets(&[&[1, 2, 0, 1, 7, 8, 1], &[1, 2, 0, 3, 7, 8, 2]]);
    packets[1].time.0 = 400_000_000;
    let mut compiler = Compiler::default();
    compiler.add("mine.weir", &chunked("1m")).unwrap_or_else(|wrong| panic!("{wrong}"));
    let compiled = compile(&compiler, &[ask("", Want::Connections)], &Options::default());
    let (rows, _) = rows(&compiler, &compiled, &packets, 1);
    // The second word waits for a missing chunk for longer than the first word's instance lives.
    assert_eq!(rows.len(), 3, "{rows:#?}");
}

#[test]
fn what_ends_on_a_packet_nobody_sees_carries_all_of_its_messages() {
    let ways = [vec!["all".to_string()], vec![]].map(|without_passes| Options {
        engine: Executor::Interpreter,
        without_passes,
        ..Options::default()
    });
    let frame: &[u8] = &[1, 2, 0, 1, 7, 8, 1, 7, 8, 2];
    let [plain, optimised] = answers(&chunked("0s"), ask("word.kind == 2", Want::Packets), &[frame], ways);
    assert_eq!((plain.len(), optimised.len()), (1, 1));
}

#[test]
fn layers_go_on_behind_their_messages_one_after_the_other() {
    let text = "
        //! A field of which messages are made
        protocol part {
            header { from: u8  to: u8  number: u8  length: u8  data: bytes[length] }
            payload = rest
            instance (from) <-> (to)
            sequence at number of data from first
            timeout 1m
            event put on ordered { assemble }
        }
        //! In the first
        protocol one { header { kind: u8 } }
        //! In the second
        protocol two { header { kind: u8 } }
        //! All
        stack parts {
            layer behind: part
            start 147: part
            part -> behind
            part   -> messages one
            behind -> messages two
        }";
    let frames: [&[u8]; 2] = [&[1, 2, 0, 2, 5, 6, 1, 2, 0, 1, 7], &[1, 2, 2, 0, 1, 2, 1, 1, 8]];
    for (filter, count) in [
        ("one.kind == 6 and two.kind == 7", 1),
        ("one.kind == 7 or two.kind == 5", 0),
        ("two.kind == 8 and not one", 1),
    ] {
        assert_eq!(matching(text, filter, &frames), count, "{filter}");
    }
}
