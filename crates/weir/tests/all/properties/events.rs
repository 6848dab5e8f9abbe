//! Filters on events: a row is delivered if it matches the event terms itself, and its packet the other
//! terms.

use crate::properties::drive::{MemoryPacket, ask, compile, in_memory, rows, seeds};
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use weir::packet::{Timestamp, Value};
use weir::{Ask, Compiled, Compiler, EventRows, EventSet, Executor, Item, Need, Options, Shape, Want};
use weir_testing::Random;
use weir_testing::frames::{ACK, V4, ethernet, ipv4, tcp};

const TALK: &str = "
//! What is said
protocol talk {
    header {
        kind: u8 where < 8
        if kind == 1 { mood: u8 }
        length: u8
        if kind < 6 { words: text[length] } else { raw: bytes[length] }
    }
    payload = rest[.. 0]
    event said on packet { kind, mood, length, words, raw, who = below.src }
    event meant on packet when kind > 4 { kind, twice = kind * 2, ms = packet.time / 1000000, third = kind % 3 }
    event ended on packet when kind == 7
}
//! Over TCP
stack talks extends internet {
    tcp -> messages talk when dst_port == 7777 or src_port == 7777
}
";

/// A row of an event, with the fields that the filters here use.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    event: String,
    packet: u64,
    kind: Option<u64>,
    mood: Option<u64>,
    length: Option<u64>,
    words: Option<String>,
    raw: Option<Vec<u8>>,
    who: Option<IpAddr>,
    twice: Option<u64>,
}

/// The bytes of a message.
fn message(random: &mut Random) -> Vec<u8> {
    let (kind, length) = (random.below(8) as u8, random.below(6) as u8);
    let mut bytes = vec![kind];
    if kind == 1 {
        bytes.push(random.below(4) as u8);
    }
    bytes.push(length);
    bytes.extend((0..length).map(|_| b'a' + random.below(3) as u8));
    bytes
}

/// Both sides send, up to six messages at a time.
fn talk(random: &mut Random) -> Vec<MemoryPacket> {
    let mut next = [100_u32, 900];
    let mut packets = vec![];
    for number in 1..=20 {
        let side = random.below(2) as usize;
        let payload: Vec<u8> = (0..random.below(7)).flat_map(|_| message(random)).collect();
        let ports = [(40_000, 7777), (7777, 40_000)][side];
        let segment = tcp(ports, next[side], next[1 - side], ACK, &[], &payload);
        next[side] += payload.len() as u32;
        let frame = ethernet(0x0800, &ipv4((V4[side], V4[1 - side]), 6, 1, 0, &[], &segment));
        packets.push(MemoryPacket { time: Timestamp(number * 1_000_000), ..MemoryPacket::ethernet(frame) });
    }
    packets
}

/// A question for rows of these events.
fn asked(compiler: &Compiler, filter: &str, events: &[&str]) -> Ask {
    let names: Vec<String> = events.iter().map(ToString::to_string).collect();
    let asked = EventRows::of(compiler.stack(), &names).expect("they are declared").asked;
    Ask { filter: filter.into(), need: Need { events: asked, ..Need::default() }, want: Want::Events }
}

fn told(
    compiler: &Compiler,
    compiled: &Compiled,
    asked: EventSet,
    packets: &[MemoryPacket],
    workers: usize,
) -> Vec<Row> {
    let columns = EventRows::of_set(compiler.stack(), asked).columns;
    let place = |name: &str| columns.iter().position(|column| column.name == name);
    let mut told = vec![];
    let mut each = |_: usize, item: Item<'_>| {
        let Item::Rows(made) = item else { panic!("{item:?} is no event") };
        for row in made.iter() {
            let values = row.values();
            let number = |name: &str| match place(name).map(|at| &values[at]) {
                Some(Value::Unsigned(number)) => Some(*number),
                _ => None,
            };
            let who = match place("who").map(|at| &values[at]) {
                Some(Value::Address(who)) => Some(*who),
                _ => None,
            };
            let words = match place("words").map(|at| &values[at]) {
                Some(Value::Text(words)) => Some(words.to_string()),
                _ => None,
            };
            let raw = match place("raw").map(|at| &values[at]) {
                Some(Value::Bytes(raw)) => Some(raw.to_vec()),
                _ => None,
            };
            let Value::Text(event) = &values[1] else { panic!("an event has a name") };
            told.push(Row {
                event: event.to_string(),
                packet: number("packet").expect("an event has a packet"),
                kind: number("kind"),
                mood: number("mood"),
                length: number("length"),
                words,
                raw,
                who,
                twice: number("twice"),
            });
        }
        Ok::<(), Infallible>(())
    };
    let (shapes, mut source) = (vec![Shape::default(); compiled.question_count()], in_memory(packets));
    let Ok(_) = weir::run(compiler, compiled, &mut source, &shapes, workers, &mut each, &mut |_| {});
    told
}

/// Context of a row: all rows, and the packets.
struct Said<'a> {
    rows: &'a [Row],
    packets: &'a [MemoryPacket],
}

impl Said<'_> {
    /// Whether the row's packet has a message of this kind.
    fn is_in_packet_of(&self, row: &Row, kind: u64) -> bool {
        let mut rows = self.rows.iter().filter(|one| one.packet == row.packet);
        rows.any(|one| of(one, "talk.said", one.kind) == Some(kind))
    }
}

type Holds = fn(&Row, &Said<'_>) -> bool;

/// `number`, if the row is of this event.
fn of(row: &Row, event: &str, number: Option<u64>) -> Option<u64> {
    number.filter(|_| row.event == event)
}

/// Terms, and whether a row satisfies them.
const TERMS: &[(&str, Holds)] = &[
    ("talk.said.kind == 2", |row, _| of(row, "talk.said", row.kind) == Some(2)),
    ("talk.said.kind != 2", |row, _| of(row, "talk.said", row.kind).is_some_and(|kind| kind != 2)),
    ("talk.said.kind in {0, 1, 5..6}", |row, _| {
        of(row, "talk.said", row.kind).is_some_and(|kind| matches!(kind, 0 | 1 | 5 | 6))
    }),
    ("talk.said.length > 2", |row, _| of(row, "talk.said", row.length).is_some_and(|length| length > 2)),
    ("talk.said.length & 1", |row, _| of(row, "talk.said", row.length).is_some_and(|length| length & 1 == 1)),
    ("talk.said.mood", |row, _| row.mood.is_some()),
    ("talk.said.mood != 3", |row, _| row.mood.is_some_and(|mood| mood != 3)),
    ("talk.said.words == \"ab\"", |row, _| row.words.as_deref() == Some("ab")),
    ("talk.said.words != \"\"", |row, _| row.words.as_ref().is_some_and(|words| !words.is_empty())),
    ("talk.said.words contains \"ca\"", |row, _| {
        row.words.as_ref().is_some_and(|words| words.contains("ca"))
    }),
    ("talk.said.words matches \"^[ab]+$\"", |row, _| {
        row.words.as_ref().is_some_and(|words| !words.is_empty() && !words.contains('c'))
    }),
    ("talk.said.raw", |row, _| row.raw.is_some()),
    ("talk.said.raw contains 61:62", |row, _| {
        row.raw.as_ref().is_some_and(|raw| raw.windows(2).any(|pair| pair == b"ab"))
    }),
    ("talk.said.raw[0] == 0x63", |row, _| row.raw.as_ref().is_some_and(|raw| raw.first() == Some(&b'c'))),
    ("talk.said.who == 10.0.0.1", |row, _| row.who == Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)))),
    ("talk.said.who in 10.0.0.2/31", |row, _| row.who == Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)))),
    // Every packet is a millisecond after the one before.
    ("talk.meant.ms > 5", |row, _| row.event == "talk.meant" && row.packet > 5),
    ("talk.meant.third == 1", |row, _| of(row, "talk.meant", row.kind).is_some_and(|kind| kind % 3 == 1)),
    ("talk.meant.kind > 5", |row, _| of(row, "talk.meant", row.kind).is_some_and(|kind| kind > 5)),
    ("talk.meant.twice == 10", |row, _| row.twice == Some(10)),
    // Terms on the packet are satisfied by any of its messages.
    ("talk.kind == 3", |row, said| said.is_in_packet_of(row, 3)),
    ("talk.ended", |row, said| said.is_in_packet_of(row, 7)),
    ("frame.len > 70", |row, said| said.packets[row.packet as usize - 1].frame.len() > 70),
    ("frame.number < 11", |row, _| row.packet < 11),
    ("ip.src == 10.0.0.1", |row, said| said.packets[row.packet as usize - 1].frame[26..30] == V4[0]),
];

/// A random filter as a tree.
enum Tree {
    Term(usize),
    Not(Box<Tree>),
    All(Vec<Tree>),
    Any(Vec<Tree>),
}

impl Tree {
    fn random(random: &mut Random, depth: u32) -> Self {
        match random.below(if depth == 0 { 1 } else { 4 }) {
            0 => Self::Term(random.below(TERMS.len() as u64) as usize),
            1 => Self::Not(Box::new(Self::random(random, depth - 1))),
            is_any => {
                let parts = (0..2 + random.below(2)).map(|_| Self::random(random, depth - 1)).collect();
                if is_any == 2 { Self::Any(parts) } else { Self::All(parts) }
            }
        }
    }

    fn text(&self) -> String {
        let joined = |parts: &[Tree], word: &str| {
            let parts: Vec<String> = parts.iter().map(Tree::text).collect();
            format!("({})", parts.join(word))
        };
        match self {
            Self::Term(index) => TERMS[*index].0.to_string(),
            Self::Not(tree) => format!("not ({})", tree.text()),
            Self::All(parts) => joined(parts, " and "),
            Self::Any(parts) => joined(parts, " or "),
        }
    }

    fn holds(&self, row: &Row, said: &Said<'_>) -> bool {
        match self {
            Self::Term(index) => TERMS[*index].1(row, said),
            Self::Not(tree) => !tree.holds(row, said),
            Self::All(parts) => parts.iter().all(|part| part.holds(row, said)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(row, said)),
        }
    }
}

#[test]
fn a_row_is_told_if_it_fulfils_the_filter_itself() {
    let mut compiler = Compiler::default();
    compiler.add("talk.weir", TALK).unwrap_or_else(|wrong| panic!("{wrong}"));
    let everything = asked(&compiler, "", &["talk.said", "talk.meant"]);
    let all_events = everything.need.events;
    let all = compile(&compiler, &[everything], &Options::default());
    let (mut some, mut few) = (0, 0);
    for seed in seeds(0..80) {
        let mut random = Random::new(seed);
        let packets = talk(&mut random);
        let rows = told(&compiler, &all, all_events, &packets, 1);
        let said = Said { rows: &rows, packets: &packets };
        let tree = if seed < TERMS.len() as u64 * 2 {
            let term = Tree::Term(seed as usize / 2);
            if seed % 2 == 0 { term } else { Tree::Not(Box::new(term)) }
        } else {
            Tree::random(&mut random, 3)
        };
        let filter = tree.text();
        let wanted: Vec<Row> = rows.iter().filter(|row| tree.holds(row, &said)).cloned().collect();
        some += usize::from(!wanted.is_empty());
        few += usize::from(wanted.len() < rows.len());
        let ask = asked(&compiler, &filter, &["talk.said", "talk.meant"]);
        for engine in [Executor::Interpreter, Executor::Native] {
            let options = Options { engine, ..Options::default() };
            let compiled = compile(&compiler, std::slice::from_ref(&ask), &options);
            for workers in [1, 3] {
                let found = told(&compiler, &compiled, all_events, &packets, workers);
                assert_eq!(found, wanted, "seed {seed}: {filter}, {engine:?}, {workers} workers");
            }
        }
    }
    assert!(some > 40 && few > 40, "filters tell rows apart: {some}, {few}");
}

/// Byte columns have the bytes that were sent, in order.
#[test]
fn columns_have_the_bytes_of_their_own_message() {
    let mut compiler = Compiler::default();
    compiler.add("talk.weir", TALK).unwrap_or_else(|wrong| panic!("{wrong}"));
    let asks = asked(&compiler, "", &["talk.said"]);
    let all_events = asks.need.events;
    for seed in seeds(0..20) {
        let packets = talk(&mut Random::new(seed));
        let mut sent = vec![];
        for packet in &packets {
            let mut rest = &packet.frame[14 + 20 + 20..];
            while let [kind, tail @ ..] = rest {
                let tail = &tail[usize::from(*kind == 1)..];
                let (words, behind) = tail[1..].split_at(usize::from(tail[0]));
                sent.push((u64::from(*kind), words.to_vec()));
                rest = behind;
            }
        }
        for without_passes in [vec![], vec!["all".to_string()]] {
            for engine in [Executor::Interpreter, Executor::Native] {
                let without_passes = without_passes.clone();
                let options = Options { engine, without_passes, ..Options::default() };
                let compiled = compile(&compiler, std::slice::from_ref(&asks), &options);
                let told = told(&compiler, &compiled, all_events, &packets, 1);
                let of_row = |row: &Row| {
                    let words = row.words.as_ref().map(|words| words.clone().into_bytes());
                    (row.kind.unwrap(), words.xor(row.raw.clone()).expect("one of them"))
                };
                assert_eq!(told.iter().map(of_row).collect::<Vec<_>>(), sent, "seed {seed}");
            }
        }
    }
}

/// For packets and connections, any of their rows may satisfy a term.
#[test]
fn of_packets_and_connections_any_row_will_do() {
    let mut compiler = Compiler::default();
    compiler.add("talk.weir", TALK).unwrap_or_else(|wrong| panic!("{wrong}"));
    let said = [2, 0, 5, 1, b'x', 3, 0];
    let segment = tcp((40_000, 7777), 1, 1, ACK, &[], &said);
    let packets = [MemoryPacket::ethernet(ethernet(0x0800, &ipv4((V4[0], V4[1]), 6, 1, 0, &[], &segment)))];
    let filter = "talk.said.kind == 2 and talk.said.length == 1";
    let asks = [
        ask(filter, Want::Packets),
        ask(filter, Want::Connections),
        asked(&compiler, filter, &["talk.said"]),
        asked(&compiler, "talk.said.kind == 5 and talk.said.length == 1", &["talk.said"]),
        asked(&compiler, "talk.said.kind == 5 or talk.said.kind == 2", &["talk.said"]),
    ];
    let together = compile(&compiler, &asks, &Options::default());
    let (rows, _) = rows(&compiler, &together, &packets, 1);
    let of = |question: usize| rows.iter().filter(|row| row.starts_with(&format!("{question} "))).count();
    assert_eq!([0, 1, 2, 3, 4].map(of), [1, 1, 0, 1, 2], "{rows:#?}");
}
