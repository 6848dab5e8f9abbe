//! What is found does not depend on how a stream is cut, and is what `regex` finds for each pattern by itself.

use proptest::prelude::*;
use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use weir_match::{EngineChoice, Match, Pattern, Patterns};

type Found = (usize, u64, u64);

/// What each pattern finds by itself, in the order of ends.
fn oracle(patterns: &[Pattern], bytes: &[u8]) -> Vec<Found> {
    let mut all = vec![];
    for (number, pattern) in patterns.iter().enumerate() {
        let syntax = syntax::Config::new().unicode(false).utf8(false).case_insensitive(pattern.ignore_case);
        let config = Regex::config().utf8_empty(false);
        let regex = Regex::builder().syntax(syntax).configure(config).build(&pattern.text).unwrap();
        all.extend(regex.find_iter(bytes).map(|found| (number, found.start() as u64, found.end() as u64)));
    }
    all.sort_by_key(|&(number, _, end)| (end, number));
    all
}

/// What is found where the stream is cut at `cuts`, with several workers taking turns.
fn fed(patterns: &Patterns, bytes: &[u8], cuts: &[usize]) -> Vec<Match> {
    let mut all = vec![];
    let mut workers = [patterns.scratch(), patterns.scratch()];
    let mut stream = patterns.start();
    let mut from = 0;
    for (n, &to) in cuts.iter().chain([&bytes.len()]).enumerate() {
        patterns.feed(&mut workers[n % 2], &mut stream, &bytes[from..to], &mut |found| all.push(found));
        from = to;
    }
    patterns.finish(&mut workers[0], &mut stream, &mut |found| all.push(found));
    all
}

fn plain(found: &[Match]) -> Vec<Found> {
    assert!(found.iter().all(|found| found.start_is_exact));
    found.iter().map(|found| (found.pattern, found.start, found.end)).collect()
}

/// Expressions over few letters, so that much matches.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => "[abc]",
        2 => Just("[ab]".to_string()),
        1 => Just("[^a]".to_string()),
        1 => Just(".".to_string()),
        1 => Just(r"\n".to_string()),
        1 => Just(r"\r".to_string()),
        1 => Just(r"\w".to_string()),
        1 => Just(r"\b".to_string()),
        1 => Just(r"\B".to_string()),
        1 => Just("^".to_string()),
        1 => Just("$".to_string()),
        1 => Just("(?m:^)".to_string()),
        1 => Just("(?m:$)".to_string()),
        1 => Just("(?Rm:^)".to_string()),
        1 => Just("(?Rm:$)".to_string()),
        1 => Just(r"\b{start}".to_string()),
        1 => Just(r"\b{end-half}".to_string()),
        1 => Just("(?u:é)".to_string()),
    ];
    leaf.prop_recursive(4, 16, 3, |inner| {
        let more = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{2,}?"];
        prop_oneof![
            3 => prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| parts.concat()),
            1 => prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("(?:{})", parts.join("|"))),
            2 => (inner, prop::sample::select(more.to_vec())).prop_map(|(one, more)| format!("(?:{one}){more}")),
        ]
    })
}

/// A pattern that compiles.
fn pattern() -> impl Strategy<Value = Pattern> {
    (expression(), any::<bool>()).prop_filter_map("is refused", |(text, ignore_case)| {
        let pattern = Pattern { text, ignore_case, literal: false };
        Patterns::compile(std::slice::from_ref(&pattern), EngineChoice::Rust).is_ok().then_some(pattern)
    })
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let few = prop::sample::select(b"aaabbbcccA_ \n\r\xc3\xa9\xff".to_vec());
    let run = (few.clone(), 1usize..40).prop_map(|(byte, times)| vec![byte; times]);
    prop_oneof![
        3 => prop::collection::vec(few, 0..200),
        1 => prop::collection::vec(run, 0..150).prop_map(|runs| runs.concat()),
    ]
}

fn cut(bytes: Vec<u8>) -> impl Strategy<Value = (Vec<u8>, Vec<usize>)> {
    let cuts = prop::collection::vec(0..=bytes.len(), 0..20).prop_map(|mut cuts| {
        cuts.sort_unstable();
        cuts
    });
    (Just(bytes), cuts)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    #[test]
    fn cuts_make_no_difference(
        patterns in prop::collection::vec(pattern(), 1..5),
        (bytes, cuts) in stream().prop_flat_map(cut),
    ) {
        let compiled = Patterns::compile(&patterns, EngineChoice::Rust).unwrap();
        let expected = oracle(&patterns, &bytes);
        prop_assert_eq!(&plain(&fed(&compiled, &bytes, &[])), &expected);
        prop_assert_eq!(&plain(&fed(&compiled, &bytes, &cuts)), &expected);
        let each: Vec<usize> = (0..bytes.len()).collect();
        prop_assert_eq!(&plain(&fed(&compiled, &bytes, &each)), &expected);
    }
}
