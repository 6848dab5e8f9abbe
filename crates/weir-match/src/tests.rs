use super::*;

fn pattern(text: &str) -> Pattern {
    Pattern { text: text.into(), ignore_case: false, literal: false }
}

fn compile(texts: &[&str]) -> Patterns {
    let patterns: Vec<Pattern> = texts.iter().map(|text| pattern(text)).collect();
    Patterns::compile(&patterns, EngineChoice::Auto).unwrap()
}

/// The matches in consecutive pieces. An empty piece is a gap of 10 bytes.
fn found(texts: &[&str], pieces: &[&str]) -> Vec<(usize, u64, u64)> {
    let patterns = compile(texts);
    let (mut scratch, mut stream, mut all) = (patterns.scratch(), patterns.start(), vec![]);
    let mut note = |found: Match| {
        assert!(found.start_is_exact, "{found:?}");
        all.push((found.pattern, found.start, found.end));
    };
    for piece in pieces {
        match piece.len() {
            0 => patterns.gap(&mut stream, 10),
            _ => patterns.feed(&mut scratch, &mut stream, piece.as_bytes(), &mut note),
        }
    }
    patterns.finish(&mut scratch, &mut stream, &mut note);
    all
}

#[test]
fn matches_go_over_pieces_and_are_those_of_each_pattern() {
    assert_eq!(found(&["hello"], &["he", "l", "lo hell", "o"]), [(0, 0, 5), (0, 6, 11)]);
    assert_eq!(found(&["aa"], &["aaaaa"]), [(0, 0, 2), (0, 2, 4)]);
    assert_eq!(found(&["a|ab", "ab|a", "b"], &["ab"]), [(0, 0, 1), (1, 0, 2), (2, 1, 2)]);
    // Although `bc` ends first, the leftmost match is reported.
    assert_eq!(found(&["abcd|bc"], &["abc", "dabce"]), [(0, 0, 4), (0, 5, 7)]);
    assert_eq!(found(&["foo(.*bar)?"], &["foo bar foo", " ba\nfoo"]), [(0, 0, 7), (0, 8, 11), (0, 15, 18)]);
}

#[test]
fn ends_come_in_order_though_some_are_certain_late() {
    assert_eq!(found(&["a(.*z)?", "b"], &["ab", "b b"]), [(0, 0, 1), (1, 1, 2), (1, 2, 3), (1, 4, 5)]);
    assert_eq!(found(&["a(.*z)?", "b"], &["ab", "bz"]), [(1, 1, 2), (1, 2, 3), (0, 0, 4)]);
}

#[test]
fn anchors_are_the_streams() {
    assert_eq!(
        found(&["^a", "a$", "(?m)^a$", r"\ba"], &["a\n", "a"]),
        [(0, 0, 1), (2, 0, 1), (3, 0, 1), (1, 2, 3), (2, 2, 3), (3, 2, 3)]
    );
    assert_eq!(found(&["(?Rm)a$"], &["a\r", "\na\r", "a"]), [(0, 0, 1), (0, 3, 4), (0, 5, 6)]);
}

#[test]
fn a_gap_is_neither_start_nor_end_nor_bytes() {
    assert_eq!(found(&["ab", "^b", "a$", r"b\b"], &["a", "", "b"]), [(3, 11, 12)]);
    assert_eq!(found(&["a+", "x"], &["aa", "", "", "ax"]), [(0, 0, 2), (0, 22, 23), (1, 23, 24)]);
    assert_eq!(found(&["^a"], &["", "a"]), []);
}

#[test]
fn bytes_are_no_text_unless_asked_for() {
    assert_eq!(found(&[r"[^a]", r"(?u)[^a]", "é"], &["é"]), [(0, 0, 1), (0, 1, 2), (1, 0, 2), (2, 0, 2)]);
    let patterns = [
        Pattern { text: "A.b".into(), ignore_case: true, literal: true },
        Pattern { text: "A.b".into(), ignore_case: true, literal: false },
    ];
    let patterns = Patterns::compile(&patterns, EngineChoice::Auto).unwrap();
    let (mut scratch, mut stream, mut all) = (patterns.scratch(), patterns.start(), vec![]);
    patterns.feed(&mut scratch, &mut stream, b"a.B axB", &mut |found| all.push((found.pattern, found.start)));
    patterns.finish(&mut scratch, &mut stream, &mut |found| all.push((found.pattern, found.start)));
    assert_eq!(all, [(0, 0), (1, 0), (1, 4)]);
}

#[test]
fn a_long_match_has_its_end_and_what_is_kept_is_bounded() {
    let patterns = compile(&["a[^x]*b"]);
    let (mut scratch, mut stream, mut all) = (patterns.scratch(), patterns.start(), vec![]);
    let mut most = 0;
    for piece in ["a", "-", "b---x ab"] {
        let times = if piece == "-" { 100_000 } else { 1 };
        for _ in 0..times {
            patterns.feed(&mut scratch, &mut stream, piece.as_bytes(), &mut |found| all.push(found));
            most = most.max(stream.heap_bytes());
        }
    }
    assert_eq!(stream.position(), 100_009);
    patterns.finish(&mut scratch, &mut stream, &mut |found| all.push(found));
    let start = 100_001 + 1 - 1 - MATCH_BYTES_MAX + 1;
    assert_eq!(all[0], Match { pattern: 0, start, end: 100_002, start_is_exact: false });
    assert_eq!((all[1].start, all[1].end, all[1].start_is_exact), (100_007, 100_009, true));
    assert_eq!(scratch.counters().starts_cut, 1);
    assert!(most as u64 <= 4 * MATCH_BYTES_MAX, "{most}");
}

#[test]
fn what_a_waiting_match_needs_is_kept() {
    // When the match is decided, its end is 20 kB back and its start 40 kB: beyond the bound on matches.
    let (before, after) = ("-".repeat(20_000), "-".repeat(1_000));
    let mut pieces = vec!["a", &before, "b"];
    pieces.extend([&*after; 20]);
    pieces.push("x");
    assert_eq!(found(&["a[^x]*b"], &pieces), [(0, 0, 20_002)]);
}

#[test]
fn a_stream_is_small_where_nothing_is_under_way() {
    assert!(size_of::<StreamState>() <= 136, "{}", size_of::<StreamState>());
    let patterns = compile(&["needle[0-9]+", "password"]);
    let (mut scratch, mut stream) = (patterns.scratch(), patterns.start());
    for _ in 0..1_000 {
        patterns.feed(&mut scratch, &mut stream, b"needle 12 needle12 ", &mut |_| {});
        assert_eq!(stream.heap_bytes(), 0);
    }
}

#[test]
fn bounds_are_told() {
    let many = vec![pattern("a"); PATTERNS_MAX + 1];
    assert_eq!(Patterns::compile(&many, EngineChoice::Auto).unwrap_err().pattern, None);
    let large = [pattern("a"), pattern("((((a{30}){30}){30}){30}){30}")];
    let error = Patterns::compile(&large, EngineChoice::Auto).unwrap_err();
    assert_eq!(error.pattern, Some(1), "{error}");
    let none = Patterns::compile(&[], EngineChoice::Auto).unwrap();
    assert!(none.is_empty());
    assert_eq!(found(&[], &["abc"]), []);
}

#[test]
fn what_is_too_large_for_a_table_is_lazy() {
    assert_eq!(compile(&["abc"]).engine(), "dfa");
    let wide = "[ab]*a[ab]{20}c";
    assert_eq!(compile(&[wide]).engine(), "lazy-dfa");
    assert_eq!(found(&[wide], &["bbabababababababab", "ababababac"]), [(0, 0, 28)]);
}
