//! Events at the ends of instances: the rows of events and the columns of connections have the values of the
//! instance, computed here from the packets.

use crate::properties::drive::{MemoryPacket, ask, compile, in_memory, seeds};
use std::collections::BTreeMap;
use std::convert::Infallible;
use weir::packet::{Timestamp, Value};
use weir::{Ask, Compiled, Compiler, EventRows, Executor, Item, Need, Options, Shape, Want};
use weir_testing::Random;
use weir_testing::frames::{V4, ethernet, ipv4};

const NOTES: &str = "
protocol note {
    header { a: u8  who: u8 }
    payload = rest
    instance (below.src) <-> (below.dst)
    each side { loud: u16  sent: u8 }
    vars { began: time = packet.time   wait: interval   unused: u32 }
    count {
        me.sent += 1
        if a > 4 { me.loud += 1 }
        if responder and wait == 0 { wait = packet.time - began }
    }
    states { calm: start  tense: accept  gone: accept }
    on alarm: calm -> tense when a == 7
    on leave: any -> gone when a == 8
    on again: any -> restart when a == 9
    timeout 0s in gone   1m otherwise
    event over on end { loud = me.loud, answered = peer.loud, sent = me.sent, unused, state, began, wait } \"an end\"
}
protocol host {
    header { b: u8 }
    instance (below.who)
    vars { who: u8 = below.who   packets: u32   last: time }
    count { packets += 1   last = packet.time }
    timeout 1m
    event left on end { who, packets, last }
}
stack notes extends internet {
    ip -> note when upper == 253
    note -> host
}
";

/// One packet: sender and receiver (indices of hosts), `a`, `b`, and its time in seconds.
#[derive(Debug, Clone, Copy)]
struct Sent {
    ends: (usize, usize),
    a: u8,
    b: u8,
    at_s: i64,
}

const SECOND: i64 = 1_000_000_000;

fn packets(random: &mut Random) -> Vec<Sent> {
    let mut at_s = 1000;
    let mut sent = vec![];
    for _ in 0..60 {
        // Never near the time-out.
        at_s += if random.below(12) == 0 { 70 } else { random.below(8) as i64 };
        let from = random.below(3) as usize;
        let to = (from + 1 + random.below(2) as usize) % 3;
        sent.push(Sent { ends: (from, to), a: random.below(10) as u8, b: random.below(3) as u8, at_s });
    }
    sent
}

fn address(host: usize) -> [u8; 4] {
    [V4[0][0], V4[0][1], V4[0][2], 10 + host as u8]
}

fn frames(sent: &[Sent]) -> Vec<MemoryPacket> {
    let frame = |one: &Sent| {
        let ends = (address(one.ends.0), address(one.ends.1));
        let frame = ethernet(0x0800, &ipv4(ends, 253, 1, 0, &[], &[one.a, one.ends.0 as u8, one.b]));
        MemoryPacket { time: Timestamp(one.at_s * SECOND), ..MemoryPacket::ethernet(frame) }
    };
    sent.iter().map(frame).collect()
}

/// An instance of `note`, as its packets make it.
#[derive(Debug, Clone, Default)]
struct Note {
    originator: usize,
    loud: [u64; 2],
    sent: u64,
    state: &'static str,
    began_s: i64,
    last_s: i64,
    wait_s: i64,
    packets: Vec<(u8, u8)>,
}

/// The instances, by the rules of the text.
fn notes(sent: &[Sent]) -> Vec<Note> {
    let (mut live, mut ended) = (BTreeMap::<(usize, usize), Note>::new(), vec![]);
    for one in sent {
        let key = (one.ends.0.min(one.ends.1), one.ends.0.max(one.ends.1));
        let is_over = live.get(&key).is_some_and(|note| one.at_s - note.last_s > 60 || one.a == 9);
        if is_over {
            ended.extend(live.remove(&key));
        }
        let note = live.entry(key).or_insert_with(|| Note {
            originator: one.ends.0,
            state: "calm",
            began_s: one.at_s,
            ..Note::default()
        });
        let is_responder = one.ends.0 != note.originator;
        note.last_s = one.at_s;
        note.loud[usize::from(is_responder)] += u64::from(one.a > 4);
        note.sent += u64::from(!is_responder);
        if is_responder && note.wait_s == 0 {
            note.wait_s = one.at_s - note.began_s;
        }
        if one.a == 7 && note.state == "calm" {
            note.state = "tense";
        }
        note.packets.push((one.a, one.b));
        if one.a == 8 {
            note.state = "gone";
            ended.extend(live.remove(&key));
        }
    }
    ended.extend(live.into_values());
    ended
}

fn text(note: &Note) -> String {
    let wait = if note.wait_s == 0 { "-".to_string() } else { (note.wait_s * SECOND).to_string() };
    let Note { loud: [loud, answered], sent, state, began_s, .. } = note;
    format!("{} {loud} {answered} {sent} 0 {state} {began_s} {wait}", note.originator)
}

/// The values of a row that [`text`] has, by their columns' names.
fn shown(value: &dyn Fn(&str) -> Value<'static>) -> String {
    let Value::Address(std::net::IpAddr::V4(host)) = value("id.orig_h") else {
        panic!("a row has an originator")
    };
    let number = |name: &str| match value(name) {
        Value::Unsigned(number) => number,
        other => panic!("{name} is {other:?}"),
    };
    let Value::Text(state) = value("state") else { panic!("a note has a state") };
    let Value::Time(began) = value("began") else { panic!("a note has a begin") };
    let wait = match value("wait") {
        Value::Absent => "-".to_string(),
        Value::Interval(ns) => ns.to_string(),
        other => panic!("wait is {other:?}"),
    };
    let [loud, answered, sent, unused] = ["loud", "answered", "sent", "unused"].map(number);
    format!("{} {loud} {answered} {sent} {unused} {state} {} {wait}", host.octets()[3] - 10, began.0 / SECOND)
}

fn compiler() -> Compiler {
    let mut compiler = Compiler::default();
    compiler.add("notes.weir", NOTES).unwrap_or_else(|wrong| panic!("{wrong}"));
    compiler
}

/// A question for rows of an event.
fn events(compiler: &Compiler, filter: &str, event: &str) -> Ask {
    let asked = EventRows::of(compiler.stack(), &[event.to_string()]).expect("it is declared").asked;
    Ask { filter: filter.into(), need: Need { events: asked, ..Need::default() }, want: Want::Events }
}

/// The rows of the first question, in order.
fn told(
    compiler: &Compiler,
    compiled: &Compiled,
    packets: &[MemoryPacket],
    workers: usize,
    event: &str,
) -> Vec<String> {
    let of_events = EventRows::of(compiler.stack(), &[event.to_string()]).expect("it is declared").columns;
    let of_flows = weir::connection_columns(compiler.stack());
    let mut told = vec![];
    let mut each = |_: usize, item: Item<'_>| {
        let Item::Rows(made) = &item else { panic!("{item:?} was not asked for") };
        let columns = if made.batch.columns() == of_events.len() { &of_events } else { &of_flows };
        told.extend(made.iter().map(|row| {
            assert_eq!(columns.len(), row.len());
            let value = |name: &str| {
                let at = columns.iter().position(|column| column.name == name).expect(name);
                row.cell(at).value().into_owned()
            };
            match event {
                "host.left" => {
                    assert_eq!((value("packet"), value("uid")), (Value::Absent, Value::Absent));
                    let (who, packets, last) = (value("who"), value("packets"), value("last"));
                    assert_eq!(value("ts"), last, "the time of the last packet");
                    format!("{who:?} {packets:?}")
                }
                "host.alive" => {
                    assert_eq!((value("packet"), value("uid")), (Value::Absent, Value::Absent));
                    match ["ts", "who", "packets", "last"].map(value) {
                        [
                            Value::Time(at),
                            Value::Unsigned(who),
                            Value::Unsigned(packets),
                            Value::Time(last),
                        ] => {
                            format!("{} {who} {packets} {}", at.0 / SECOND, last.0 / SECOND)
                        }
                        other => panic!("{other:?}"),
                    }
                }
                _ => shown(&value),
            }
        }));
        Ok::<(), Infallible>(())
    };
    let mut source = in_memory(packets);
    let shape = Shape { as_rows: true, ..Shape::default() };
    let Ok(outcome) = weir::run(compiler, compiled, &mut source, &[shape], workers, &mut each, &mut |_| {});
    assert_eq!(outcome.counters.adds_up(0), Ok(()));
    told
}

type Holds = fn(&Note) -> bool;

/// Filters, and the instances that they select: columns as they are at the end, packets if any of them
/// matches.
const FILTERS: &[(&str, Holds)] = &[
    ("", |_| true),
    ("note.over.loud > 1", |note| note.loud[0] > 1),
    ("over.answered == 0", |note| note.loud[1] == 0),
    ("note.over.state == \"tense\"", |note| note.state == "tense"),
    ("note.over.state != \"calm\"", |note| note.state != "calm"),
    ("note.over.wait", |note| note.wait_s > 0),
    ("not note.over.wait", |note| note.wait_s == 0),
    ("note.over.wait > 3s", |note| note.wait_s > 3),
    ("note.a == 3", |note| note.packets.iter().any(|&(a, _)| a == 3)),
    ("note.a != 3", |note| note.packets.iter().any(|&(a, _)| a != 3)),
    // The layer above the instance.
    ("host.b == 1", |note| note.packets.iter().any(|&(_, b)| b == 1)),
    ("host.b != 1", |note| note.packets.iter().any(|&(_, b)| b != 1)),
    ("note.a == 3 and host.b == 1", |note| note.packets.contains(&(3, 1))),
    ("note.over.loud > 1 or note.a == 3", |note| {
        note.loud[0] > 1 || note.packets.iter().any(|&(a, _)| a == 3)
    }),
    ("host.b == 1 and not note.over.state == \"calm\"", |note| {
        note.state != "calm" && note.packets.iter().any(|&(_, b)| b == 1)
    }),
    ("tcp", |_| false),
];

#[test]
fn rows_of_events_and_of_connections_have_what_the_instance_holds() {
    let compiler = compiler();
    let mut selected = vec![(0, 0); FILTERS.len()];
    let runs: Vec<_> = seeds(0..16).map(|seed| packets(&mut Random::new(seed))).collect();
    for (index, (filter, holds)) in FILTERS.iter().enumerate() {
        for asked in [events(&compiler, filter, "note.over"), ask(filter, Want::Connections)] {
            let programs = [(Executor::Native, vec![]), (Executor::Interpreter, vec!["all".to_string()])];
            let programs = programs.map(|(engine, without_passes)| {
                let options = Options { engine, without_passes, ..Options::default() };
                compile(&compiler, std::slice::from_ref(&asked), &options)
            });
            for (seed, sent) in runs.iter().enumerate() {
                let (frames, all) = (frames(sent), notes(sent));
                let mut wanted: Vec<String> = all.iter().filter(|note| holds(note)).map(text).collect();
                wanted.sort();
                selected[index].0 += wanted.len();
                selected[index].1 += all.len();
                let runs = programs.iter().flat_map(|program| [(program, 1), (program, 2)]);
                let told =
                    runs.map(|(program, workers)| told(&compiler, program, &frames, workers, "note.over"));
                let told: Vec<Vec<String>> = told.collect();
                let mut found = told[0].clone();
                found.sort();
                assert_eq!(found, wanted, "seed {seed}: `{filter}` {:?}", asked.want);
                // Neither the executor nor the number of workers changes rows or their order.
                assert!(told.iter().all(|rows| *rows == told[0]), "seed {seed}: `{filter}` {told:#?}");
            }
        }
    }
    for ((filter, _), (some, of)) in FILTERS.iter().zip(selected) {
        let is_all = ["", "note.a != 3", "host.b != 1"].contains(filter);
        assert!(*filter == "tcp" || some > 0 && (is_all || some < of), "`{filter}` selects {some} of {of}");
    }
}

/// Instances with a one-sided key are no connections, and their ends are reported all the same.
#[test]
fn ends_without_a_connection_are_reported() {
    let compiler = compiler();
    type Picks = fn(&[(u8, u8)], usize) -> bool;
    let filters: &[(&str, Picks)] = &[
        ("", |_, _| true),
        ("host.left.packets > 9", |packets, _| packets.len() > 9),
        ("note.a == 3 and host.b == 1", |packets, _| packets.contains(&(3, 1))),
        ("host.left.who == 2", |_, who| who == 2),
    ];
    for seed in seeds(0..12) {
        let sent = packets(&mut Random::new(seed));
        let (mut live, mut ended) = (BTreeMap::<usize, (i64, Vec<(u8, u8)>)>::new(), vec![]);
        for one in &sent {
            let who = one.ends.0;
            if live.get(&who).is_some_and(|(last, _)| one.at_s - last > 60) {
                ended.extend(live.remove(&who).map(|(_, packets)| (who, packets)));
            }
            let host = live.entry(who).or_default();
            host.0 = one.at_s;
            host.1.push((one.a, one.b));
        }
        ended.extend(live.into_iter().map(|(who, (_, packets))| (who, packets)));
        for (filter, picks) in filters {
            let picked = ended.iter().filter(|(who, packets)| picks(packets, *who));
            let text =
                |(who, packets): &(usize, Vec<_>)| format!("Unsigned({who}) Unsigned({})", packets.len());
            let mut wanted: Vec<String> = picked.map(text).collect();
            wanted.sort();
            let asked = events(&compiler, filter, "host.left");
            let compiled = compile(&compiler, &[asked], &Options::default());
            let mut found = told(&compiler, &compiled, &frames(&sent), 1, "host.left");
            found.sort();
            assert_eq!(found, wanted, "seed {seed}: `{filter}`");
        }
    }
}

/// At each multiple of the interval, all instances that live then are reported, with what they hold.
#[test]
fn checks_report_the_instances_that_live() {
    let mut compiler = compiler();
    let more = "extend host with checks { event alive on check 7s { who, packets, last } }
                extend note with checks {
                    event going on check 7s { loud = me.loud, answered = peer.loud, sent = me.sent, unused, state, began, wait }
                    event slow on check 14s { loud = me.loud, answered = peer.loud, sent = me.sent, unused, state, began, wait }
                }";
    compiler.add("checks.weir", more).unwrap_or_else(|wrong| panic!("{wrong}"));
    for seed in seeds(0..12) {
        let sent = packets(&mut Random::new(seed));
        let mut frames = frames(&sent);
        // Packets are not at the times of checks.
        frames.iter_mut().for_each(|frame| frame.time.0 += SECOND / 2);
        let seconds = sent[0].at_s + 1..=sent[sent.len() - 1].at_s;
        let (mut wanted, mut are_some_gone) = (vec![], false);
        for at_s in seconds.filter(|second| second % 7 == 0) {
            // The time is known with the second packet behind it: a check sees the first one.
            let first = sent.iter().position(|one| one.at_s >= at_s).unwrap_or(sent.len());
            if first + 1 >= sent.len() {
                break;
            }
            let seen = &sent[..=first];
            for who in 0..3 {
                let mut of_host: Vec<&Sent> = seen.iter().filter(|one| one.ends.0 == who).collect();
                let is_new = |at: usize, all: &[&Sent]| all[at].at_s - all[at - 1].at_s > 60;
                if let Some(first) = (1..of_host.len()).rev().find(|at| is_new(*at, &of_host)) {
                    of_host.drain(..first);
                }
                match of_host.last() {
                    Some(last) if at_s - last.at_s <= 60 && of_host[0].at_s < at_s => {
                        wanted.push(format!("{at_s} {who} {} {}", of_host.len(), last.at_s));
                    }
                    last => are_some_gone |= last.is_some(),
                }
            }
        }
        assert!(are_some_gone || wanted.len() > 10, "seed {seed}");
        let told_by = |event_names: &[&str], (engine, workers)| {
            let asked = event_names.iter().map(|event| events(&compiler, "", event)).collect::<Vec<_>>();
            let compiled = compile(&compiler, &asked, &Options { engine, ..Options::default() });
            told(&compiler, &compiled, &frames, workers, event_names[0])
        };
        // Workers share the table of hosts, and their times differ; not that of notes.
        let programs = [(Executor::Native, 1), (Executor::Interpreter, 1), (Executor::Native, 2)];
        let [native, interpreted, shared] = programs.map(|program| told_by(&["host.alive"], program));
        let mut found = native.clone();
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted, "seed {seed}");
        assert_eq!(native, interpreted, "seed {seed}");
        // Each host at most once at a time.
        let mut hosts: Vec<Vec<&str>> = shared.iter().map(|row| row.split(' ').take(2).collect()).collect();
        hosts.sort();
        assert!(hosts.windows(2).all(|two| two[0] != two[1]), "seed {seed}: {shared:#?}");
        let notes = programs.map(|program| told_by(&["note.going", "note.slow"], program));
        assert!(notes[0].len() > 10 && notes.iter().all(|rows| *rows == notes[0]), "seed {seed}: {notes:#?}");
        // In a filter, columns are as they were then.
        let asked = events(&compiler, "host.alive.packets > 5", "host.alive");
        let compiled = compile(&compiler, &[asked], &Options::default());
        let found = self::told(&compiler, &compiled, &frames, 1, "host.alive");
        let many = wanted
            .iter()
            .filter(|row| row.split(' ').nth(2).is_some_and(|many| many.parse::<u32>().unwrap() > 5));
        assert_eq!(found.len(), many.count(), "seed {seed}");
    }
}

/// Packets wait for such a predicate as for others on their connection.
#[test]
fn packets_wait_for_the_end_of_their_connection() {
    let compiler = compiler();
    let sent = packets(&mut Random::new(5));
    let wanted: usize =
        notes(&sent).iter().filter(|note| note.loud[0] > 1).map(|note| note.packets.len()).sum();
    let asked = [ask("note.over.loud > 1", Want::Packets), ask("conn.loud > 1", Want::Packets)];
    let compiled = compile(&compiler, &asked, &Options::default());
    let (rows, _) = crate::properties::drive::rows(&compiler, &compiled, &frames(&sent), 1);
    assert!(wanted > 0 && rows.len() == 2 * wanted, "{wanted} packets, {} rows", rows.len());
}

/// Events of packets and of ends in one question: each row matches by itself.
#[test]
fn one_question_has_events_of_packets_and_of_ends() {
    let mut compiler = compiler();
    let more = "extend note with alarms { event alarm on packet when a == 7 { a } }";
    compiler.add("alarms.weir", more).unwrap_or_else(|wrong| panic!("{wrong}"));
    let sent = packets(&mut Random::new(3));
    let count = |filter: &str| {
        let asked = events(&compiler, filter, "note");
        let compiled = compile(&compiler, &[asked], &Options::default());
        let (rows, _) = crate::properties::drive::rows(&compiler, &compiled, &frames(&sent), 1);
        let is_end = |row: &&String| row.contains("note.over");
        let ends = rows.iter().filter(is_end).count();
        (rows.len() - ends, ends)
    };
    let alarms = sent.iter().filter(|one| one.a == 7).count();
    let notes = notes(&sent);
    let loud = notes.iter().filter(|note| note.loud[0] > 1).count();
    let with_alarm = notes.iter().filter(|note| note.packets.iter().any(|&(a, _)| a == 7)).count();
    assert!(alarms > 0 && loud > 0 && with_alarm < notes.len());
    assert_eq!(count(""), (alarms, notes.len()));
    assert_eq!(count("over.loud > 1"), (0, loud));
    assert_eq!(count("over.loud > 1 or alarm.a == 7"), (alarms, loud));
    assert_eq!(count("note.a == 7"), (alarms, with_alarm));
}

/// A name that is taken gets the layer's before it; columns of several layers are one.
#[test]
fn columns_of_connections_have_one_name_each() {
    let mut compiler = Compiler::default();
    let text = "
        extend tcp with one { vars { far: u32 }
            event one on end { duration = far, far, service = far }
            event two on end { far } }
        extend udp with two { vars { far: u32  near: time }  event ends on end { far, near } }
        extend icmp with three { vars { near: u32 }  event ends on end { near } }";
    compiler.add("names.weir", text).unwrap_or_else(|wrong| panic!("{wrong}"));
    let columns = weir::connection_columns(compiler.stack());
    let known = weir::CONNECTION_COLUMNS.len();
    let mut names: Vec<&str> = columns[known..].iter().map(|column| &*column.name).collect();
    // Those of the shipped texts come before.
    names.retain(|name| name.contains("far") || name.contains("near") || name.starts_with("tcp."));
    assert_eq!(
        names,
        ["tcp.duration", "far", "tcp.service", "tcp.far", "near", "icmp.near"],
        "of {columns:?}"
    );
    let all: std::collections::BTreeSet<&str> = columns.iter().map(|column| &*column.name).collect();
    assert_eq!(all.len(), columns.len());
}

#[test]
fn filters_name_ends_where_they_mean_something() {
    let compiler = compiler();
    let wrong = |asked: Ask| {
        let wrong = compiler.compile(&[asked], &Options::default()).expect_err("it is refused");
        wrong.list.iter().map(|one| one.code).collect::<Vec<_>>()
    };
    assert_eq!(wrong(ask("host.left.packets > 1", Want::Connections)), ["W0197"]);
    assert_eq!(wrong(ask("note.over", Want::Connections)), ["W0197"]);
    assert_eq!(wrong(events(&compiler, "note.over", "note.over")), ["W0197"]);
    assert_eq!(wrong(events(&compiler, "conn.loud > 1", "note.over")), ["W0193"]);
}
