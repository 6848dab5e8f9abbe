//! Tests of overlap policies: the published tables, then random traffic compared with an array of bytes.
//!
//! The tables are from the unit tests of Suricata (`src/tests/stream-tcp-list.c`, `src/defrag.c`), which take
//! six fragments from the paper of Shankar and Paxson and seventeen from Novak's, and from the cases that
//! Snort 3 distinguishes (`tcp_overlap_resolver.cc`, `ip_defrag.cc`).

use super::policy::Rule;
use super::tests::Receiver;
use super::*;
use Policy::*;
use proptest::prelude::*;
use weir_ir::abi::{SEQ_ORDERED, SEQ_QUEUED, SEQ_RETRANSMITTED};

/// The results of a rule for a new segment that begins before, with or after the old one, and, for each of
/// these, ends before, with or after the old one: `n` if the new bytes win, `o` if the old bytes win.
fn matrix(rule: Rule) -> String {
    let says = |start: i64, end: i64| {
        let new = ((10 + start) as u64, (20 + end) as u64);
        if rule.new_counts((10, 20), new) { "n" } else { "o" }
    };
    [-1, 0, 1].map(|start| [-1, 0, 1].map(|end| says(start, end)).concat()).join(" ")
}

#[test]
fn every_policy_has_its_rules() {
    let segments = |policies: &[Policy], wanted| {
        policies.iter().for_each(|p| assert_eq!(matrix(p.of_segments()), wanted, "{}", p.name()));
        policies.len()
    };
    let count = segments(&[First, Vista], "ooo ooo ooo")
        + segments(&[Last], "nnn nnn nnn")
        + segments(&[Bsd, BsdRight, Windows, Macos], "nnn ooo ooo")
        + segments(&[Linux, Hpux10, Irix], "nnn oon ooo")
        + segments(&[OldLinux], "nnn onn ooo")
        + segments(&[Solaris, Hpux], "onn onn oon");
    assert_eq!(count, Policy::ALL.len());

    let fragments = |policies: &[Policy], wanted| {
        policies.iter().for_each(|p| assert_eq!(matrix(p.of_fragments()), wanted, "{}", p.name()));
        policies.len()
    };
    let count = fragments(&[First, Hpux, Macos], "ooo ooo ooo")
        + fragments(&[Last], "nnn nnn nnn")
        + fragments(&[Bsd, Hpux10, Irix], "nnn ooo ooo")
        + fragments(&[BsdRight], "onn onn oon")
        + fragments(&[Linux, OldLinux], "nnn nnn ooo")
        + fragments(&[Windows, Vista], "oon ooo ooo")
        + fragments(&[Solaris], "onn ooo ooo");
    assert_eq!(count, Policy::ALL.len());
}

/// Reassembles fragments (from, to, letter) in units of eight bytes. `late`: the first unit comes last of
/// all, so all fragments wait; else fragments in order are retained at once.
fn datagram(policy: Policy, fragments: &[(u64, u64, char)], late: bool) -> String {
    let mut ip = Receiver::ip();
    ip.policy = policy;
    let shift = if late { 8 } else { 0 };
    for &(from, to, letter) in fragments {
        ip.text(from * 8 + shift, &letter.to_string().repeat((to - from) as usize * 8));
    }
    if late {
        assert_eq!(ip.assemble(), b"");
        ip.text(0, "-------");
        ip.text(7, "-");
    }
    let text = String::from_utf8(ip.assemble()).unwrap();
    ip.end();
    let units: Vec<&str> = text.as_bytes().chunks(8).map(|unit| str::from_utf8(unit).unwrap()).collect();
    assert!(units.iter().all(|unit| unit.chars().all(|c| unit.starts_with(c))), "{text}");
    units.iter().map(|unit| &unit[..1]).collect::<String>().trim_start_matches('-').into()
}

#[test]
fn shankars_and_paxsons_six_fragments() {
    let six = [(0, 3, '1'), (4, 6, '2'), (6, 9, '3'), (1, 5, '4'), (6, 9, '5'), (9, 12, '6')];
    let wanted = [
        ("111442333666", &[Bsd, Hpux10, Irix][..]),
        ("144422555666", &[BsdRight]),
        ("111442555666", &[Linux, OldLinux]),
        ("111422333666", &[First, Windows, Vista, Solaris, Hpux, Macos]),
        ("144442555666", &[Last]),
    ];
    assert_eq!(wanted.iter().map(|(_, policies)| policies.len()).sum::<usize>(), Policy::ALL.len());
    for (wanted, policies) in wanted {
        for &policy in policies {
            assert_eq!(datagram(policy, &six, false), wanted, "{}", policy.name());
            assert_eq!(datagram(policy, &six, true), wanted, "{}, late", policy.name());
        }
    }
}

#[test]
fn novaks_seventeen_fragments() {
    let fragments = [
        (0, 3, 'A'),
        (4, 6, 'B'),
        (6, 9, 'C'),
        (10, 11, 'D'),
        (13, 15, 'E'),
        (15, 18, 'F'),
        (18, 20, 'G'),
        (20, 22, 'H'),
        (22, 23, 'I'),
        (1, 5, 'J'),
        (6, 9, 'K'),
        (9, 12, 'L'),
        (12, 15, 'M'),
        (16, 17, 'N'),
        (19, 20, 'O'),
        (20, 21, 'P'),
        (22, 24, 'Q'),
    ];
    for (policy, wanted) in [
        (Bsd, "AAAJJBCCCLLLMMMFFFGGHHIQ"),
        (Linux, "AAAJJBKKKLLLMMMFFFGGPHQQ"),
        (Windows, "AAAJBBCCCLLLMEEFFFGGHHIQ"),
        (Solaris, "AAAJBBCCCLLLMMMFFFGGHHIQ"),
        (First, "AAAJBBCCCLDLMEEFFFGGHHIQ"),
        (Last, "AJJJJBKKKLLLMMMFNFGOPHQQ"),
    ] {
        assert_eq!(datagram(policy, &fragments, false), wanted, "{}", policy.name());
        assert_eq!(datagram(policy, &fragments, true), wanted, "{}, late", policy.name());
    }
}

/// Bytes of a new fragment win over an old fragment if the new one begins before *that* old fragment, even if
/// another old fragment to the left of it took precedence: Suricata's `DefragBsdFragmentAfterNoMf` and
/// `DefragTestJeremyLinux`.
#[test]
fn the_new_fragment_is_asked_about_as_it_came() {
    let bsd = [(3, 5, 'A'), (1, 3, 'B'), (2, 4, 'C'), (0, 1, 'D')];
    assert_eq!(datagram(Bsd, &bsd, false), "DBBCA");
    let linux = [(0, 3, 'A'), (5, 11, 'B'), (3, 9, 'C'), (11, 13, 'D')];
    assert_eq!(datagram(Linux, &linux, false), "AAACCCCCCBBDD");
}

/// Inserts segments (number, text) behind a hole, which is filled last.
fn stream(policy: Policy, segments: &[(u64, &str)]) -> String {
    let mut tcp = Receiver::tcp();
    tcp.policy = policy;
    tcp.text(0, "");
    segments.iter().for_each(|(at, text)| _ = tcp.text(*at, text));
    assert_eq!(tcp.so_far(), "", "all of them wait");
    tcp.text(0, "^");
    tcp.end();
    tcp.so_far()
}

#[test]
fn tcp_overlaps() {
    let all: &[(u64, &str)] = &[
        (2, "AAA"),
        (6, "BB"),
        (8, "CCC"),
        (12, "D"),
        (15, "EE"),
        (17, "FFF"),
        (20, "GG"),
        (22, "HH"),
        (24, "I"),
        (3, "JJJJ"),
        (8, "KKK"),
        (11, "LLL"),
        (14, "MMM"),
        (18, "N"),
        (21, "O"),
        (22, "P"),
        (24, "QQ"),
        (1, "0"),
    ];
    let before: &[(u64, &str)] =
        &[(3, "B"), (9, "D"), (12, "EE"), (2, "AA"), (1, "JJJJ"), (8, "LLL"), (11, "MMM")];
    let same: &[(u64, &str)] =
        &[(1, "CCC"), (15, "HH"), (17, "II"), (1, "KKK"), (1, "LLLL"), (15, "P"), (15, "QQ")];
    let after: &[(u64, &str)] = &[(1, "AA"), (16, "FFF"), (19, "GG"), (2, "JJ"), (20, "O"), (17, "N")];
    let wanted = [
        (
            &[Bsd, BsdRight, Windows, Macos][..],
            ["^0AAAJJBCCCLLLMMMFFFGGHHIQ", "^JJJJ...LLLMMM", "^CCCL..........HHII", "^AAJ............FFFGG"],
        ),
        (
            &[First, Vista],
            ["^0AAAJBBCCCLDLMEEFFFGGHHIQ", "^JABJ...LDLMEE", "^CCCL..........HHII", "^AAJ............FFFGG"],
        ),
        (
            &[Linux, Hpux10, Irix],
            ["^0AAAJJBCCCLLLMMMFFFGGHHQQ", "^JJJJ...LLLMMM", "^LLLL..........HHII", "^AAJ............FFFGG"],
        ),
        (
            &[OldLinux],
            ["^0AAAJJBKKKLLLMMMFFFGGHHQQ", "^JJJJ...LLLMMM", "^LLLL..........QQII", "^AAJ............FFFGG"],
        ),
        (
            &[Solaris, Hpux],
            ["^0AJJJBBKKKLLLMMMFFFGGHHQQ", "^JJJJ...LLLMMM", "^LLLL..........QQII", "^AJJ............FFFGG"],
        ),
        (
            &[Last],
            ["^0AJJJJBKKKLLLMMMFNFGOPHQQ", "^JJJJ...LLLMMM", "^LLLL..........QQII", "^AJJ............FNFGO"],
        ),
    ];
    assert_eq!(wanted.iter().map(|(policies, _)| policies.len()).sum::<usize>(), Policy::ALL.len());
    for (policies, wanted) in wanted {
        for &policy in policies {
            let got = [all, before, same, after].map(|segments| stream(policy, segments));
            assert_eq!(got, wanted, "{}", policy.name());
        }
    }
}

#[test]
fn what_has_passed_stays() {
    let mut tcp = Receiver::tcp();
    tcp.policy = Last;
    tcp.text(0, "abcd");
    let inserted = tcp.insert(2, b"XXef", usize::MAX, false);
    let wanted = Inserted { status: SEQ_ORDERED, skip: 2, retransmitted_bytes: 2, ..Inserted::default() };
    assert_eq!((inserted, tcp.so_far().as_str()), (wanted, "abcdef"));
    let inserted = tcp.insert(1, b"YYY", usize::MAX, false);
    let wanted = Inserted { status: SEQ_RETRANSMITTED, retransmitted_bytes: 3, ..Inserted::default() };
    assert_eq!(inserted, wanted);
    tcp.end();
}

#[test]
fn bytes_that_differ_are_counted_and_those_not_captured_are_not() {
    let mut tcp = Receiver::tcp();
    tcp.text(0, "");
    tcp.segment(4, b"efghij", 4, true);
    let inserted = tcp.insert(2, b"cdeXghYZkl", usize::MAX, false);
    let wanted = Inserted {
        status: SEQ_QUEUED,
        overlap_bytes: 6,
        inconsistent_bytes: 1,
        is_early: true,
        ..Inserted::default()
    };
    assert_eq!(inserted, wanted);
    let counters = tcp.reassembler.counters();
    assert_eq!((counters.overlap_bytes, counters.inconsistent_bytes), (6, 1));
    tcp.text(0, "ab");
    assert_eq!(tcp.so_far(), "abcdefgh..", "`kl` wait behind the FIN");
    tcp.end();
    assert_eq!(tcp.so_far(), "abcdefgh..");
}

#[test]
fn what_is_in_order_and_retained_may_still_be_displaced_and_an_end_with_it() {
    for (policy, status, overlap_bytes, metas, text) in
        [(First, SEQ_RETRANSMITTED, 4, 0, "aaaabbbbc"), (Last, SEQ_ORDERED, 5, 1, "aaaaXXXX")]
    {
        let mut ip = Receiver::ip();
        ip.policy = policy;
        assert_eq!(ip.text(0, "aaaabbbb"), SEQ_ORDERED);
        assert_eq!(ip.text(8, "c"), SEQ_ORDERED);
        // The end of the datagram is a number of its own; here it takes the number of `c`.
        let inserted = ip.insert(4, b"XXXX", usize::MAX, true);
        assert_eq!(
            (inserted.status, inserted.overlap_bytes, inserted.inconsistent_bytes),
            (status, overlap_bytes, 4)
        );
        assert_eq!((ip.metas.len(), ip.assemble()), (metas, text.into()));
        assert_eq!(ip.insert(0, b"aaaa", usize::MAX, false).retransmitted_bytes, 4, "no longer kept");
        ip.end();
    }
}

#[test]
fn chunks_are_not_cut() {
    let mut sctp = Receiver::tcp();
    sctp.policy = Last;
    sctp.text(0, "");
    sctp.chunk(2, b"two");
    let inserted = sctp.chunk(2, b"Xwo!");
    assert_eq!(
        (inserted.status, inserted.overlap_bytes, inserted.inconsistent_bytes),
        (SEQ_RETRANSMITTED, 4, 1)
    );
    sctp.chunk(1, b"one");
    sctp.chunk(0, b"zero");
    assert_eq!(sctp.so_far(), "zeroonetwo");
    sctp.end();
}

/// The bytes of one direction, each with its segment: a model of the queue without pieces.
struct Model {
    rule: Rule,
    retain: bool,
    segments: Vec<(usize, usize, u8)>,
    /// For each number, the segment whose byte wins.
    owner: Vec<Option<usize>>,
    /// All numbers before this one have passed.
    next: usize,
}

impl Model {
    /// Inserts a segment. Returns the bytes that had passed, that were kept, and that differ from the kept
    /// ones.
    fn insert(&mut self, start: usize, end: usize, text: u8) -> (u64, u64, u64) {
        let index = self.segments.len();
        self.segments.push((start, end, text));
        let from = start.max(if self.retain { 0 } else { self.next }).min(end);
        let (mut overlap, mut inconsistent) = (0, 0);
        let before = self.owner.clone();
        for n in from..end {
            let Some(old) = before[n] else {
                self.owner[n] = Some(index);
                continue;
            };
            overlap += 1;
            inconsistent += u64::from(self.segments[old].2 != text);
            // The old segment, as far as it is still kept in one piece.
            let is_old = |n: &usize| before[*n] == Some(old);
            let old_start = (0..=n).rev().take_while(is_old).last().unwrap();
            let old_end = (n..before.len()).take_while(is_old).last().unwrap() + 1;
            if self.rule.new_counts((old_start as u64, old_end as u64), (from as u64, end as u64)) {
                self.owner[n] = Some(index);
            }
        }
        while !self.retain && self.owner.get(self.next).is_some_and(Option::is_some) {
            self.next += 1;
        }
        ((from - start) as u64, overlap, inconsistent)
    }

    fn bytes(&self) -> Vec<Option<u8>> {
        let seen = self.owner.iter().rposition(Option::is_some).map_or(0, |n| n + 1);
        self.owner[..seen].iter().map(|owner| owner.map(|index| self.segments[index].2)).collect()
    }
}

const NUMBERS: usize = 80;

/// Segments: start, length, byte.
fn segments() -> impl Strategy<Value = Vec<(usize, usize, u8)>> {
    prop::collection::vec((0..60usize, 1..20usize, b'a'..=b'd'), 1..60)
}

/// Offers the segments to a receiver and to the model.
fn run(
    mut receiver: Receiver,
    base: u32,
    retain: bool,
    segments: &[(usize, usize, u8)],
) -> (Receiver, Model) {
    let policy = receiver.policy;
    let rule = if retain { policy.of_fragments() } else { policy.of_segments() };
    let mut model = Model { rule, retain, segments: vec![], owner: vec![None; NUMBERS], next: 0 };
    for &(start, length, text) in segments {
        let at = if retain { start as u64 } else { base.wrapping_add(start as u32).into() };
        let inserted = receiver.insert(at, &vec![text; length], usize::MAX, false);
        let wanted = model.insert(start, start + length, text);
        let got = (inserted.retransmitted_bytes, inserted.overlap_bytes, inserted.inconsistent_bytes);
        assert_eq!(got, wanted, "{} {segments:?}", policy.name());
    }
    (receiver, model)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        rng_seed: proptest::test_runner::RngSeed::Fixed(2007),
        ..ProptestConfig::default()
    })]

    /// TCP: passed bytes stay; waiting bytes follow the rule, byte by byte.
    #[test]
    fn streams_are_as_the_rule_has_it(
        policy in prop::sample::select(Policy::ALL),
        base in prop_oneof![Just(0u32), Just(u32::MAX - 30), any::<u32>()],
        segments in segments(),
    ) {
        let mut tcp = Receiver::tcp();
        tcp.policy = policy;
        tcp.text(base.into(), "");
        let (mut tcp, model) = run(tcp, base, false, &segments);
        tcp.end();
        prop_assert_eq!(&tcp.stream, &model.bytes(), "{}", policy.name());
    }

    /// Fragments: all bytes that are not assembled may be replaced.
    #[test]
    fn datagrams_are_as_the_rule_has_it(
        policy in prop::sample::select(Policy::ALL),
        mut segments in segments(),
    ) {
        // The end, which comes in one fragment or in two, fills all holes.
        segments.extend([(0, 41, b'y'), (33, 47, b'z')]);
        let mut ip = Receiver::ip();
        ip.policy = policy;
        let (mut ip, model) = run(ip, 0, true, &segments);
        let assembled: Vec<Option<u8>> = ip.assemble().into_iter().map(Some).collect();
        prop_assert_eq!(assembled, model.bytes(), "{}", policy.name());
        ip.end();
    }
}
