//! Literals near the start of every match, which vectorscan searches.
//!
//! For each pattern, literals are chosen such that every path through the pattern contains one of them,
//! ending within [`Needles::bytes_max`] bytes of the path's start. If no literal ends, then every match in
//! progress began fewer than that many bytes ago, and earlier bytes are irrelevant. The literals need not be
//! prefixes: for `[0-9]{1,3}\.exe` the literal is `.exe`. Assertions consume no byte and are ignored; this
//! yields false positives, which only cost time.

use std::collections::HashSet;
use std::mem;

use regex_syntax::hir::{Class, Hir, HirKind, Repetition};
use weir_libraries::vectorscan::{LITERALS_MAX, Literal};

/// The most bytes from the start of a match to the end of a needle in that match. The table therefore
/// processes this many bytes before each needle, and as many before the end of each piece.
pub(crate) const REACH_BYTES_MAX: usize = 32;
/// Maximum length of a needle: longer needles would not be more selective.
const NEEDLE_BYTES_MAX: usize = 12;
/// The first needle with this many bytes is used, otherwise the longest.
const ENOUGH_BYTES: usize = 6;
/// Minimum length: single bytes occur too often.
const NEEDLE_BYTES_MIN: usize = 2;

/// The needles of all patterns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Needles {
    /// The literals, without duplicates.
    pub(crate) literals: Vec<Literal>,
    /// Maximum distance from the start of a match to the end of a literal.
    pub(crate) bytes_max: usize,
}

impl Needles {
    /// `None` if a pattern has no such literals, if there are too many, or if there is no pattern.
    pub(crate) fn of(patterns: &[Hir]) -> Option<Self> {
        let mut known = HashSet::new();
        let mut all = Self { literals: vec![], bytes_max: 0 };
        for hir in patterns {
            let mut walk = Walk::new(0);
            walk.part(hir);
            walk.end_run();
            let best = walk.best?;
            all.bytes_max = all.bytes_max.max(best.reach);
            all.literals.extend(best.literals.into_iter().filter(|literal| known.insert(literal.clone())));
            if all.literals.len() > LITERALS_MAX {
                return None;
            }
        }
        (!patterns.is_empty()).then_some(all)
    }
}

/// Literals of which every path contains one.
#[derive(Debug, Clone)]
struct Choice {
    literals: Vec<Literal>,
    /// Maximum distance from the start to the end of a literal.
    reach: usize,
}

impl Choice {
    fn shortest(&self) -> usize {
        let lengths = self.literals.iter().map(|literal| literal.bytes.len());
        lengths.min().unwrap_or(0)
    }
}

/// The state of a walk through a pattern: the elements common to every path.
struct Walk {
    /// Maximum number of bytes from the start of a match to the current position.
    at: usize,
    /// The consecutive single bytes up to the current position.
    run: Literal,
    best: Option<Choice>,
}

impl Walk {
    fn new(at: usize) -> Self {
        Self { at, run: Literal { bytes: vec![], ignore_case: false }, best: None }
    }

    /// Walks through a part that every path contains. Returns false if nothing after it is within reach.
    fn part(&mut self, hir: &Hir) -> bool {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => true,
            HirKind::Literal(literal) => literal.0.iter().all(|&byte| self.byte(byte, false)),
            HirKind::Class(class) => self.class(class, hir),
            HirKind::Capture(capture) => self.part(&capture.sub),
            HirKind::Concat(parts) => parts.iter().all(|part| self.part(part)),
            HirKind::Repetition(repetition) => self.repetition(repetition),
            HirKind::Alternation(branches) => {
                self.end_run();
                self.alternation(branches);
                self.pass(hir)
            }
        }
    }

    /// A byte; with `ignore_case`, a letter in either case.
    fn byte(&mut self, byte: u8, ignore_case: bool) -> bool {
        if self.run.bytes.len() == NEEDLE_BYTES_MAX {
            self.end_run();
        }
        self.at += 1;
        if self.at > REACH_BYTES_MAX {
            self.end_run();
            return false;
        }
        self.run.bytes.push(byte);
        self.run.ignore_case |= ignore_case;
        true
    }

    fn class(&mut self, class: &Class, hir: &Hir) -> bool {
        let Class::Bytes(bytes) = class else { return self.pass(hir) };
        let mut ends = bytes.ranges().iter().flat_map(|range| [range.start(), range.end()]);
        match (bytes.ranges().len(), ends.next(), ends.nth(1)) {
            // `[Aa]`, the form of a case-insensitive `a`.
            (2, Some(upper), Some(lower))
                if upper.is_ascii_uppercase()
                    && lower == upper.to_ascii_lowercase()
                    && bytes.ranges().iter().all(|range| range.start() == range.end()) =>
            {
                self.byte(lower, true)
            }
            _ => self.pass(hir),
        }
    }

    fn repetition(&mut self, repetition: &Repetition) -> bool {
        let once = repetition.sub.properties().maximum_len();
        if once == Some(0) {
            return true;
        }
        for _ in 0..repetition.min {
            if !self.part(&repetition.sub) {
                return false;
            }
        }
        match repetition.max {
            Some(max) if max == repetition.min => true,
            max => {
                self.end_run();
                let more =
                    once.zip(max).map(|(once, max)| once.saturating_mul((max - repetition.min) as usize));
                self.reach(more)
            }
        }
    }

    /// Each branch has its own literals; together they are one choice.
    fn alternation(&mut self, branches: &[Hir]) {
        let mut all = Choice { literals: vec![], reach: 0 };
        for branch in branches {
            let mut walk = Self::new(self.at);
            walk.part(branch);
            walk.end_run();
            let Some(best) = walk.best else { return };
            all.literals.extend(best.literals);
            all.reach = all.reach.max(best.reach);
        }
        self.choose(all);
    }

    /// Skips a part without taking literals from it.
    fn pass(&mut self, hir: &Hir) -> bool {
        self.end_run();
        self.reach(hir.properties().maximum_len())
    }

    fn reach(&mut self, more: Option<usize>) -> bool {
        self.at = more.map_or(usize::MAX, |more| self.at.saturating_add(more));
        self.at < REACH_BYTES_MAX
    }

    /// The following bytes are not a literal, or the literal is long enough.
    fn end_run(&mut self) {
        let mut run = mem::replace(&mut self.run, Literal { bytes: vec![], ignore_case: false });
        run.ignore_case &= run.bytes.iter().any(u8::is_ascii_alphabetic);
        if run.ignore_case {
            run.bytes.make_ascii_lowercase();
        }
        // An additional byte ended the run.
        self.choose(Choice { literals: vec![run], reach: self.at.min(REACH_BYTES_MAX) });
    }

    fn choose(&mut self, choice: Choice) {
        let worth = |choice: &Choice| choice.shortest().min(ENOUGH_BYTES);
        let best = self.best.as_ref().map_or(NEEDLE_BYTES_MIN - 1, worth);
        if worth(&choice) > best {
            self.best = Some(choice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pattern, syntax};
    use proptest::prelude::*;
    use regex_automata::meta::Regex;
    use regex_automata::{Anchored, Input};

    fn read(text: &str) -> Option<Hir> {
        syntax::read(0, &Pattern { text: text.into(), ignore_case: false, literal: false }).ok()
    }

    fn is(text: &str, expected: &str, bytes_max: usize) {
        let needles = Needles::of(&[read(text).unwrap()]).unwrap_or_else(|| panic!("{text}: none"));
        let shown = |literal: &Literal| {
            let case = if literal.ignore_case { "/i" } else { "" };
            format!("{}{case}", literal.bytes.escape_ascii())
        };
        let shown: Vec<String> = needles.literals.iter().map(shown).collect();
        assert_eq!((shown.join(" ").as_str(), needles.bytes_max), (expected, bytes_max), "{text}");
    }

    #[test]
    fn every_way_has_one() {
        is("abc", "abc", 3);
        is(r"^\ba b$", "a b", 3);
        is("(?i)abc[0-9]", "abc/i", 3);
        is("(?i:[^a]1.2)?xy", "xy", 6);
        is(r"[0-9]{1,3}\.exe", ".exe", 7);
        is("a[0-9]{2,8}zy", "zy", 11);
        is("abcdef[0-9]ghijklmno", "abcdef", 6);
        is("abc.*longer", "abc", 3);
        is("ab(cd|ef?g)", "ab", 2);
        is("a(?:bcd|ef{1,3}gh)", "bcd ef", 4);
        is("(?:xyz|.?ab)+", "xyz ab", 3);
        is("(?:ab){3}c", "abababc", 7);
        is("(ab){2,}", "abab", 4);
        is("abcdefghijklmnop", "abcdefghijkl", 12);
        is(".{28}abcdefgh", "abcd", 32);
        is("(?u)[é-ż]xy", "xy", 4);
        for none in [".*ab", "a*ab", "a[bc]d", "(?:ab|[cd]e)", "(?:ab)?c", ".{31}abc", "(?s:.)+abc"] {
            assert_eq!(Needles::of(&[read(none).unwrap()]), None, "{none}");
        }
    }

    #[test]
    fn one_of_several_patterns_is_there_once() {
        let same = ["User: .*a", "User: [^b]*c", "other"].map(|text| read(text).unwrap());
        assert_eq!(
            Needles::of(&same).map(|needles| (needles.literals.len(), needles.bytes_max)),
            Some((2, 6))
        );
        assert_eq!(Needles::of(&[]), None);
    }

    /// Patterns composed of parts; rejected ones are skipped.
    fn pattern() -> impl Strategy<Value = String> {
        let parts = [
            "a", "b", "(", "(?:", ")", "*", "+", "?", "{2}", "{1,3}", "{2,}", "{9,40}", "|", "[ab]", "[^a]",
            ".", "^", "$", r"\b", r"\n", "(?u)", "(?i)", "é", "[é-ż]", "cab", "ab", "bc",
        ];
        prop::collection::vec(prop::sample::select(parts.to_vec()), 1..12)
            .prop_map(|parts| parts.concat())
            .prop_filter("is refused", |text| read(text).is_some())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, max_global_rejects: 1_000_000, ..ProptestConfig::default() })]

        #[test]
        fn each_match_has_a_needle_within_reach(text in pattern(), letters in "[abcé\\nAż ]{0,120}") {
            let hir = read(&text).unwrap();
            let Some(needles) = Needles::of(std::slice::from_ref(&hir)) else { return Ok(()) };
            prop_assert!(needles.bytes_max <= REACH_BYTES_MAX);
            // Nested repetitions may multiply to a pattern of any size; the search refuses those, too.
            let regex = match Regex::builder().build_from_hir(&hir) {
                Err(error) if error.size_limit().is_some() => return Ok(()),
                regex => regex.unwrap(),
            };
            let bytes = letters.as_bytes();
            for start in 0..bytes.len() {
                let Some(found) = regex.find(Input::new(bytes).range(start..).anchored(Anchored::Yes)) else { continue };
                let within = &bytes[start..found.end().min(start + needles.bytes_max)];
                let is_in = |needle: &Literal| {
                    within.windows(needle.bytes.len()).any(|window| match needle.ignore_case {
                        true => window.eq_ignore_ascii_case(&needle.bytes),
                        false => window == needle.bytes,
                    })
                };
                prop_assert!(needles.literals.iter().any(is_in), "{:?} in {:?} at {}", needles, letters, start);
            }
        }
    }
}
