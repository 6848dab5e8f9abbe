//! `A or B` matches what `A` or `B` matches, and `not A` matches the rest, for terms on packets, connections
//! and sessions.

use crate::properties::drive::{
    FIRST_LIGHT, MemoryPacket, all_sessions, ask, compile, many_seeds, read_capture, rows,
};
use std::collections::BTreeSet;
use weir::{Ask, Compiler, Need, Options, Want};
use weir_testing::Random;

/// Predicates on packets, connections and sessions, each of which matches only part of the capture.
const PARTS: [&[&str]; 3] = [
    &["tcp.port == 443", "ip", "ipv6", "tcp.flags.syn == 1", "frame.len > 200", "udp", "ip.ttl == 64"],
    &[
        "conn.orig_bytes > 500",
        "conn.orig_bytes < 600",
        "conn.resp_bytes in { 1..3000 }",
        "conn.duration > 0.004",
        "conn.conn_state == \"SF\"",
        "conn.resp_pkts > 8",
    ],
    &[
        "tls",
        "tls.sni contains \"a\"",
        "tls.sni == \"www.example.com\"",
        "tls.version == \"TLSv12\"",
        "tls.established",
        "tls.resumed",
    ],
];

fn filter(random: &mut Random, depth: u32) -> String {
    if depth == 0 || random.once_in(4) {
        let parts = random.pick(&PARTS);
        return random.pick(parts).to_string();
    }
    let left = filter(random, depth - 1);
    match random.below(3) {
        0 => format!("(({left}) and ({}))", filter(random, depth - 1)),
        1 => format!("(({left}) or ({}))", filter(random, depth - 1)),
        _ => format!("not ({left})"),
    }
}

/// The end of the capture in `examples/`, which has all kinds of conversations, limited to keep the tests
/// fast.
fn packets() -> Vec<MemoryPacket> {
    let mut packets = read_capture(FIRST_LIGHT);
    packets.split_off(packets.len() - 900)
}

/// A question whose rows do not depend on other questions: it always asks for the service.
fn whole(filter: &str, want: Want) -> Ask {
    Ask { need: Need { service: want == Want::Connections, ..Need::default() }, ..ask(filter, want) }
}

/// The rows of every question as sets: their order depends on the other questions.
fn sets(asks: &[Ask], packets: &[MemoryPacket]) -> Option<Vec<BTreeSet<String>>> {
    let compiler = Compiler::default();
    // Filters that can never match are refused.
    let compiled = compiler.compile(asks, &Options::default()).ok()?;
    let (rows, outcome) = rows(&compiler, &compiled, packets, 1);
    let mut sets = vec![BTreeSet::new(); asks.len()];
    for row in rows {
        let (question, row) = row.split_once(' ').unwrap();
        sets[question.parse::<usize>().unwrap()].insert(row.to_string());
    }
    for (set, matched) in sets.iter().zip(outcome.matched) {
        assert_eq!(set.len() as u64, matched, "each row once: {asks:?}");
    }
    Some(sets)
}

#[test]
fn an_or_is_given_what_its_sides_are_given() {
    let packets = packets();
    let (mut asked, mut both) = (0, 0);
    for seed in many_seeds(0..30) {
        let mut random = Random::new(seed);
        let (a, b) = (filter(&mut random, 1), filter(&mut random, 1));
        for want in [all_sessions(), Want::Connections, Want::Packets] {
            let one = |filter: &str| sets(&[whole(filter, want)], &packets).map(|mut sets| sets.remove(0));
            let (Some(of_a), Some(of_b)) = (one(&a), one(&b)) else { continue };
            let union: BTreeSet<String> = of_a.union(&of_b).cloned().collect();
            asked += 1;
            both += usize::from(union.len() > of_a.len() && union.len() > of_b.len());
            for either in [format!("({a}) or ({b})"), format!("({b}) or ({a})")] {
                assert_eq!(one(&either), Some(union.clone()), "seed {seed}, {want:?}: {either}");
            }
            // Several questions in one program each receive their own rows.
            let together = sets(&[whole(&a, want), whole(&b, want)], &packets);
            assert_eq!(together, Some(vec![of_a, of_b]), "seed {seed}, {want:?}: {a} | {b}");
        }
    }
    let is_varied = asked > 75 && both > 25 || !crate::properties::drive::has_all_seeds();
    assert!(is_varied, "{asked} asked, {both} of sides that each add something");
}

#[test]
fn a_not_is_given_the_rest_of_the_packets() {
    let packets = packets();
    let all: BTreeSet<String> = (1..=packets.len()).map(|number| format!("packet {number}")).collect();
    for seed in many_seeds(0..30) {
        let mut random = Random::new(seed);
        let a = filter(&mut random, 2);
        let one = |filter: &str| sets(&[ask(filter, Want::Packets)], &packets).map(|mut sets| sets.remove(0));
        let Some(of_a) = one(&a) else { continue };
        let rest: BTreeSet<String> = all.difference(&of_a).cloned().collect();
        assert_eq!(one(&format!("not ({a})")).unwrap_or_default(), rest, "seed {seed}: {a}");
    }
}

#[test]
fn a_session_is_given_by_any_alternative_of_its_connection() {
    let compiler = Compiler::default();
    let packets = read_capture(FIRST_LIGHT);
    let count = |filter: &str| {
        let compiled = compile(&compiler, &[ask(filter, all_sessions())], &Options::default());
        rows(&compiler, &compiled, &packets, 1).1.matched[0]
    };
    let (bytes, duration) = ("conn.orig_bytes > 700", "conn.duration > 100");
    assert!(count(bytes) > 0);
    assert_eq!(count(&format!("{bytes} or {duration}")), count(bytes));
    assert_eq!(count(&format!("{duration} or {bytes}")), count(bytes));
}

/// More predicates on one field than one of the engine's predicate programs holds, so that code is generated
/// for them.
#[test]
fn many_questions_about_one_field_are_each_given_theirs() {
    let packets = read_capture(FIRST_LIGHT);
    let mut filters: Vec<String> = (b'a'..=b'z')
        .flat_map(|letter| {
            let letter = char::from(letter);
            [
                format!("tls.sni contains \"{letter}\""),
                format!("tls.sni ~ \"^{letter}|{letter}m$\""),
                format!("not tls.sni ~ \"{letter}\""),
            ]
        })
        .collect();
    filters
        .extend(["example.com", "www.example.com", "nowhere"].map(|name| format!("tls.sni == \"{name}\"")));
    filters.extend(["www.example.com", "nowhere"].map(|name| format!("tls.sni != \"{name}\"")));
    filters.push("tls.sni".into());
    let asks: Vec<Ask> = filters.iter().map(|filter| ask(filter, all_sessions())).collect();
    let together = sets(&asks, &packets).expect("they are right");
    let mut different = BTreeSet::new();
    for (filter, together) in filters.iter().zip(together) {
        let alone = sets(&[ask(filter, all_sessions())], &packets).expect("it is right").remove(0);
        assert_eq!(together, alone, "{filter}");
        different.insert(alone.len());
    }
    assert!(different.len() > 5, "they are given different sessions: {different:?}");
}
