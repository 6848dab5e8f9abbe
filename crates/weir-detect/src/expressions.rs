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

/// The compiled expressions of a set, by number.
#[derive(Debug, Default)]
pub struct Compiled(Vec<OnceLock<Option<Regex>>>);

impl Compiled {
    /// Room for this many expressions.
    pub fn new(count: usize) -> Self {
        Self((0..count).map(|_| OnceLock::new()).collect())
    }

    fn get(&self, pcre: &Pcre) -> Option<&Regex> {
        self.0.get(pcre.number as usize)?.get_or_init(|| compile(pcre)).as_ref()
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
pub struct Caches(Vec<Option<Box<Cache>>>);

/// Finds matches with the expressions of a set.
pub struct Finder<'a> {
    /// The set.
    pub compiled: &'a Compiled,
    /// The worker's memory.
    pub caches: &'a mut Caches,
}

impl Expressions for Finder<'_> {
    fn find(&mut self, pcre: &Pcre, bytes: &[u8], from: usize, anchored: bool) -> Option<Range<usize>> {
        let regex = self.compiled.get(pcre)?;
        let number = pcre.number as usize;
        if self.caches.0.len() <= number {
            self.caches.0.resize_with(number + 1, || None);
        }
        let cache = self.caches.0[number].get_or_insert_with(|| Box::new(regex.create_cache()));
        let anchored = if anchored { Anchored::Yes } else { Anchored::No };
        let input = Input::new(bytes).range(from.min(bytes.len())..).anchored(anchored);
        regex.search_with(cache, &input).map(|found| found.range())
    }
}
