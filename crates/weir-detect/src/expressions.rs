//! The expressions of a rule set. Each is compiled when it is first needed: of ten thousand, few are.

use regex_automata::meta::{Cache, Config, Regex};
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};
use std::ops::Range;
use std::sync::OnceLock;
use weir_rules::{Expressions, Pcre};

/// Memory of the states of an expression, bytes.
const NFA_BYTES_MAX: usize = 4 << 20;
/// Memory of the automaton that is built while an expression is used, bytes.
const CACHE_BYTES_MAX: usize = 256 << 10;
/// Automata that a worker keeps. Before one more, all are dropped, and built anew where they are used again.
const CACHES_MAX: usize = 256;

/// The compiled expressions of a set, by number.
#[derive(Debug, Default)]
pub struct Compiled(Vec<OnceLock<Option<Engine>>>);

/// A compiled expression.
#[derive(Debug)]
enum Engine {
    Linear(Regex),
    Backtracking(backtracking::Expression),
}

/// Whether expressions with look-around and back-references can be run.
pub const HAS_BACKTRACKING: bool = cfg!(feature = "pcre2");

impl Compiled {
    /// Room for this many expressions.
    pub fn new(count: usize) -> Self {
        Self((0..count).map(|_| OnceLock::new()).collect())
    }

    fn get(&self, pcre: &Pcre) -> Option<&Engine> {
        let make = || match pcre.needs_backtracking {
            true => backtracking::Expression::of(pcre).map(Engine::Backtracking),
            false => compile(pcre).map(Engine::Linear),
        };
        self.0.get(pcre.number as usize)?.get_or_init(make).as_ref()
    }
}

/// An expression for a linear engine. `None` if its states need more memory than is allowed.
pub fn compile(pcre: &Pcre) -> Option<Regex> {
    if pcre.needs_backtracking {
        return None;
    }
    let syntax = syntax::Config::new()
        .case_insensitive(pcre.nocase)
        .multi_line(pcre.multi_line)
        .dot_matches_new_line(pcre.dot_all)
        .ignore_whitespace(pcre.extended)
        .swap_greed(pcre.ungreedy)
        .octal(true)
        .unicode(false)
        .utf8(false);
    let config = Config::new()
        .nfa_size_limit(Some(NFA_BYTES_MAX))
        .hybrid_cache_capacity(CACHE_BYTES_MAX)
        .utf8_empty(false);
    Regex::builder().configure(config).syntax(syntax).build(&pcre.pattern).ok()
}

/// The memory of a worker for its searches.
#[derive(Debug, Default)]
pub struct Caches {
    /// By number of the expression.
    of: Vec<Option<Box<Cache>>>,
    count: usize,
}

impl Caches {
    fn of(&mut self, number: usize, regex: &Regex) -> &mut Cache {
        let is_there = self.of.get(number).is_some_and(Option::is_some);
        if !is_there && self.count == CACHES_MAX {
            *self = Self::default();
        }
        self.count += usize::from(!is_there);
        if self.of.len() <= number {
            self.of.resize_with(number + 1, || None);
        }
        self.of[number].get_or_insert_with(|| Box::new(regex.create_cache()))
    }
}

/// Finds matches with the expressions of a set.
pub struct Finder<'a> {
    /// The set.
    pub compiled: &'a Compiled,
    /// The worker's memory.
    pub caches: &'a mut Caches,
}

impl Expressions for Finder<'_> {
    fn find(&mut self, pcre: &Pcre, bytes: &[u8], from: usize, anchored: bool) -> Option<Range<usize>> {
        let from = from.min(bytes.len());
        let regex = match self.compiled.get(pcre)? {
            Engine::Linear(regex) => regex,
            Engine::Backtracking(expression) => return expression.find(bytes, from, anchored),
        };
        let cache = self.caches.of(pcre.number as usize, regex);
        let anchored = if anchored { Anchored::Yes } else { Anchored::No };
        let input = Input::new(bytes).range(from..).anchored(anchored);
        regex.search_with(cache, &input).map(|found| found.range())
    }
}

/// Expressions with look-around and back-references, whose time is bounded by PCRE2's limits.
#[cfg(feature = "pcre2")]
mod backtracking {
    use pcre2::bytes::{Regex, RegexBuilder};
    use std::ops::Range;
    use weir_rules::Pcre;

    /// Limits of a search: calls of the matcher, and kibibytes of memory.
    const LIMITS: &str = "(*LIMIT_MATCH=20000)(*LIMIT_DEPTH=2000)(*LIMIT_HEAP=1024)";

    #[derive(Debug)]
    pub struct Expression(Regex);

    impl Expression {
        /// `None` if PCRE2 does not understand the expression.
        pub fn of(pcre: &Pcre) -> Option<Self> {
            let ungreedy = if pcre.ungreedy { "(?U)" } else { "" };
            let mut builder = RegexBuilder::new();
            builder
                .caseless(pcre.nocase)
                .multi_line(pcre.multi_line)
                .dotall(pcre.dot_all)
                .extended(pcre.extended);
            builder
                .jit_if_available(false)
                .build(&format!("{LIMITS}{ungreedy}{}", pcre.pattern))
                .ok()
                .map(Self)
        }

        /// The first match from `from` on. A search that reaches a limit finds nothing.
        pub fn find(&self, bytes: &[u8], from: usize, anchored: bool) -> Option<Range<usize>> {
            let found = self.0.find_at(bytes, from).ok()??;
            (!anchored || found.start() == from).then(|| found.start()..found.end())
        }
    }
}

/// Without PCRE2, there are no such expressions.
#[cfg(not(feature = "pcre2"))]
mod backtracking {
    use std::ops::Range;
    use weir_rules::Pcre;

    #[derive(Debug)]
    pub enum Expression {}

    impl Expression {
        pub fn of(_: &Pcre) -> Option<Self> {
            None
        }

        pub fn find(&self, _: &[u8], _: usize, _: bool) -> Option<Range<usize>> {
            match *self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn automata_are_bounded() {
        let (mut caches, regex) = (Caches::default(), Regex::new("a[bc]+").expect("it is right"));
        for number in 0..CACHES_MAX + 2 {
            caches.of(number, &regex);
            caches.of(number, &regex);
        }
        assert_eq!((caches.count, caches.of.iter().flatten().count()), (2, 2));
    }
}
