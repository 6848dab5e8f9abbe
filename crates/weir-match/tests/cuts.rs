//! Results do not depend on how a stream is cut, and equal those of `regex` for each pattern alone.

use std::sync::Once;

use proptest::prelude::*;
use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use weir_match::{EngineChoice, MATCH_BYTES_MAX, Match, Pattern, Patterns};

type Found = (usize, u64, u64);

/// The matches of each pattern alone, in the order of ends.
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

/// The matches if the stream is cut at `cuts`, with alternating workers, one of which has a tiny cache.
fn fed(patterns: &Patterns, bytes: &[u8], cuts: &[usize]) -> Vec<Match> {
    let mut all = vec![];
    let mut workers = [patterns.scratch(), patterns.scratch_of(4 << 10)];
    let mut stream = patterns.start();
    let mut from = 0;
    for (n, &to) in cuts.iter().chain([&bytes.len()]).enumerate() {
        patterns.feed(&mut workers[n % 2], &mut stream, &bytes[from..to], &mut |found| all.push(found));
        assert!(stream.heap_bytes() <= 4 * MATCH_BYTES_MAX as usize + 4_096 * size_of::<Match>());
        from = to;
    }
    patterns.finish(&mut workers[0], &mut stream, &mut |found| all.push(found));
    all
}

/// The matches reported with each piece, and whether bytes are kept after it.
fn steps(patterns: &Patterns, bytes: &[u8], cuts: &[usize]) -> Vec<(Vec<Match>, bool)> {
    let (mut scratch, mut stream, mut from) = (patterns.scratch(), patterns.start(), 0);
    let mut step = |&to: &usize| {
        let mut all = vec![];
        patterns.feed(&mut scratch, &mut stream, &bytes[from..to], &mut |found| all.push(found));
        from = to;
        (all, stream.heap_bytes() > 0)
    };
    cuts.iter().chain([&bytes.len()]).map(&mut step).collect()
}

fn plain(found: &[Match]) -> Vec<Found> {
    assert!(found.iter().all(|found| found.start_is_exact));
    found.iter().map(|found| (found.pattern, found.start, found.end)).collect()
}

/// Expressions over few letters, so that many matches occur.
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

/// Bytes with few matches, so that the fast methods run: prefilter and lanes.
fn sparse(words: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let rare = prop::sample::select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec());
    let filler = (prop::sample::select(vec!["z", ". ", "1", "\n", "yx"]), 1usize..200)
        .prop_map(|(text, times)| text.repeat(times).into_bytes());
    prop::collection::vec(prop_oneof![rare, filler], 0..20).prop_map(|parts| parts.concat())
}

const WORDS: &[&str] =
    &["abcdef", "abcd", "cdefgh", "Cdef", "gh12", "foo", "bar", "f", "ab", "user: ", "pass", "12"];

/// Parts of matches of [`rare_pattern`].
const LETTERS: &[&str] = &[
    "ab",
    "bc",
    "cab",
    "aab",
    "abcc",
    "AB",
    "ab b",
    "a\nbc",
    "abcabcabcabcabcabcabcabcabcabcabcabc",
    "bc\r\n",
    "abé",
];

/// A pattern with two letters near its start, which vectorscan can search.
fn rare_pattern() -> impl Strategy<Value = Pattern> {
    let first =
        ["ab", "bc", r"\bcab", "(?m)^ab", "(?:ab|bc)", "[^b]{0,9}ab", "(?:a|.b){1,3}bc", "[abc]{3,20}ab"];
    (prop::sample::select(first.to_vec()), pattern())
        .prop_map(|(first, pattern)| Pattern { text: format!("{first}(?:{})", pattern.text), ..pattern })
}

fn word_pattern() -> impl Strategy<Value = Pattern> {
    let between =
        prop::sample::select(vec!["", "", ".*", ".*?", "[0-9]+", "\\s*", "|", "[^\\n]{0,9}", "(?s:.{3})"]);
    let word = || prop::sample::select(WORDS.to_vec());
    (word(), between, word(), any::<bool>()).prop_map(|(one, between, other, ignore_case)| {
        let text = format!("{one}{between}{other}");
        Pattern { text, ignore_case, literal: false }
    })
}

/// A missing library is reported once.
static SKIPPED: Once = Once::new();

/// The patterns with each engine; vectorscan is skipped, with a message, if it is not installed.
fn engines(patterns: &[Pattern]) -> Vec<Patterns> {
    let ours = [EngineChoice::Rust, EngineChoice::RustLazy];
    let mut all = Vec::from(ours.map(|engine| Patterns::compile(patterns, engine).unwrap()));
    match Patterns::compile(patterns, EngineChoice::Vectorscan) {
        Ok(compiled) => all.push(compiled),
        Err(missing) => SKIPPED.call_once(|| eprintln!("skipped with vectorscan: {missing}")),
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    #[test]
    fn cuts_make_no_difference(
        patterns in prop::collection::vec(pattern(), 1..5),
        (bytes, cuts) in stream().prop_flat_map(cut),
    ) {
        let expected = oracle(&patterns, &bytes);
        let each: Vec<usize> = (0..bytes.len()).collect();
        for compiled in engines(&patterns) {
            prop_assert_eq!(&plain(&fed(&compiled, &bytes, &[])), &expected);
            prop_assert_eq!(&plain(&fed(&compiled, &bytes, &cuts)), &expected);
            prop_assert_eq!(&plain(&fed(&compiled, &bytes, &each)), &expected);
        }
    }

    #[test]
    fn fast_ways_find_the_same(
        patterns in prop::collection::vec(word_pattern(), 1..4),
        (bytes, cuts) in sparse(WORDS).prop_flat_map(cut),
    ) {
        let expected = oracle(&patterns, &bytes);
        for compiled in engines(&patterns) {
            prop_assert_eq!(&plain(&fed(&compiled, &bytes, &[])), &expected);
            prop_assert_eq!(&plain(&fed(&compiled, &bytes, &cuts)), &expected);
        }
    }

    #[test]
    fn nothing_spans_a_gap(
        patterns in prop::collection::vec(word_pattern(), 1..4),
        parts in prop::collection::vec((prop_oneof![stream(), sparse(WORDS)], 1u64..1_000), 1..5),
    ) {
        let (mut expected, mut at) = (vec![], 0);
        for (bytes, missing) in &parts {
            let moved = oracle(&patterns, bytes).into_iter().map(|(n, start, end)| (n, start + at, end + at));
            expected.extend(moved);
            at += bytes.len() as u64 + missing;
        }
        for compiled in engines(&patterns) {
            let (mut scratch, mut stream, mut all) = (compiled.scratch(), compiled.start(), vec![]);
            for (bytes, missing) in &parts {
                compiled.feed(&mut scratch, &mut stream, bytes, &mut |found| all.push(found));
                compiled.gap(&mut stream, *missing);
            }
            prop_assert_eq!(stream.position(), at);
            compiled.finish(&mut scratch, &mut stream, &mut |found| all.push(found));
            prop_assert_eq!(&plain(&all), &expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    /// A prefilter changes neither the matches, nor the time of their report, nor the kept bytes.
    #[test]
    fn prefilters_change_nothing(
        patterns in prop::collection::vec(prop_oneof![rare_pattern(), word_pattern()], 1..6),
        (bytes, cuts) in prop_oneof![sparse(LETTERS), sparse(WORDS)].prop_flat_map(cut),
    ) {
        let engines = engines(&patterns);
        let mut runs = engines.iter().map(|compiled| steps(compiled, &bytes, &cuts));
        let expected = runs.next().unwrap();
        for steps in runs {
            prop_assert_eq!(&steps, &expected, "{:?}", String::from_utf8_lossy(&bytes));
        }
    }
}

/// Patterns with matches longer than the kept bytes, or decided late.
const LONG: &[&str] =
    &["a[^x]*b", "(?s)c.*?a", "foo(.*bar)?", "(?s)b.+c", "x", "[ab]+", "(?s)^.*c", "(?s:a.{9})+", "c+$"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn cuts_make_no_difference_to_long_matches(
        texts in prop::collection::vec(prop::sample::select(LONG), 1..4),
        (bytes, cuts) in prop::collection::vec(
            (prop::sample::select(b"aabbccxz\n".to_vec()), prop_oneof![1usize..4, 1_000usize..45_000]),
            1..5,
        )
        .prop_map(|runs| runs.iter().flat_map(|&(byte, times)| vec![byte; times]).collect())
        .prop_flat_map(cut),
    ) {
        let pattern = |text: &&str| Pattern { text: text.to_string(), ignore_case: false, literal: false };
        let patterns: Vec<Pattern> = texts.iter().map(pattern).collect();
        let engines = engines(&patterns);
        let expected = fed(&engines[0], &bytes, &[]);
        for compiled in &engines {
            prop_assert_eq!(&fed(compiled, &bytes, &cuts), &expected);
        }
        for (n, one) in patterns.iter().enumerate() {
            let ends: Vec<u64> = expected.iter().filter(|found| found.pattern == n).map(|found| found.end).collect();
            prop_assert!(ends.is_sorted_by(|a, b| a < b), "{:?}", one);
        }
        // If all are short, they equal the matches of `regex`.
        let all = oracle(&patterns, &bytes);
        if all.iter().all(|&(_, start, end)| end - start < MATCH_BYTES_MAX) && !texts.iter().any(|t| t.contains("*")) {
            prop_assert_eq!(&plain(&expected), &all);
        }
    }
}

/// Before the end of a piece, as many bytes are scanned as a literal may lie after a match's start; one byte
/// fewer would not suffice.
#[test]
fn a_match_is_found_wherever_it_is_cut() {
    for (text, word) in [("abcdef", "abcdef"), (r"[0-9]{1,3}\.exe", "123.exe"), ("(?i)xyz[^-]*!", "XyZ123!")]
    {
        let patterns = [Pattern { text: text.into(), ignore_case: false, literal: false }];
        let bytes = format!("{}{word}{}", "-".repeat(200), "-".repeat(200)).into_bytes();
        let expected = vec![(0, 200, 200 + word.len() as u64)];
        for compiled in engines(&patterns) {
            for cut in 190..220 {
                assert_eq!(plain(&fed(&compiled, &bytes, &[cut])), expected, "{text} cut at {cut}");
            }
        }
    }
}

#[test]
fn any_text_compiles_or_is_refused() {
    let parts = [
        "a", "[", "]", "(", ")", "*", "+", "?", "{", "}", "9", "\\", "^", "$", "|", "(?u)", ".", "é", "-",
        "&&",
    ];
    let text =
        prop::collection::vec(prop::sample::select(parts.to_vec()), 0..12).prop_map(|parts| parts.concat());
    let mut runner = proptest::test_runner::TestRunner::default();
    let input = (prop::collection::vec(text, 0..3), prop::collection::vec(any::<u8>(), 0..99), any::<bool>());
    let checked = runner.run(&input, |(texts, bytes, literal)| {
        let pattern = |text: String| Pattern { text, ignore_case: true, literal };
        let patterns: Vec<Pattern> = texts.into_iter().map(pattern).collect();
        match Patterns::compile(&patterns, EngineChoice::Auto) {
            Ok(compiled) => {
                prop_assert_eq!(fed(&compiled, &bytes, &[]), fed(&compiled, &bytes, &[bytes.len() / 2]))
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
        Ok(())
    });
    checked.unwrap();
}
