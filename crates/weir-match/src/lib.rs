//! Patterns over streams: many regular expressions at once, searched in bytes that come piece by piece.
//!
//! [`Patterns::compile`] makes one machine of all patterns; [`Patterns::feed`] takes the next bytes of a stream and
//! tells of the matches in them, those across the borders of pieces included. How a stream is cut into pieces
//! makes no difference to what is found.
//!
//! # What matches
//!
//! Each pattern is searched by itself, as `grep -o` would: its matches don't overlap, each is the leftmost after the one
//! before, and of those that start there the one that Perl and the crate `regex` prefer (`a|ab` matches `a`; `a+`
//! as many as there are, `a+?` one). Matches of different patterns may overlap; they are told in the order of
//! their ends.
//!
//! * Patterns match bytes, not text: `.` is any byte but `\n`, classes and case are those of ASCII, characters beyond
//!   it stand for their UTF-8. With `(?u)` a pattern, or part of it, is one of UTF-8.
//! * `^`, `\A` are the start of the stream, `$`, `\z` its end (known in [`Patterns::finish`]), `(?m)` makes them those of
//!   lines. `\b` goes by ASCII.
//! * Matches are never empty, so a pattern that matches where there are no bytes is refused.
//! * Lost bytes ([`Patterns::gap`]) are in no match, are neither start nor end nor line end nor part of a word.
//!
//! # How
//!
//! A DFA over all patterns (`dense`; where that is too large `lazy`, states as needed) tells where any match of which
//! pattern ends, and where no match is under way. A stream's state is a number, and nothing of its bytes is kept
//! where no match is under way. Where one ended, `search` finds the leftmost one of that pattern in the bytes
//! kept: its end by a forward search for this pattern alone, its start backwards from there. `machine` makes the
//! states of all these.
//!
//! Where no match is under way, bytes that are part of none are passed over faster than a table allows: by literals that
//! all matches begin with, or by the system's vectorscan (`skip`, `needles`).
//!
//! Not quick: a pattern with an optional rest that fails late, such as `foo(.*bar)?`: all that follows each `foo` is gone
//! over, up to [`MATCH_BYTES_MAX`] bytes. And streams in which every byte may begin a match that is long under way
//! (`(?s).+foo`) keep [`MATCH_BYTES_MAX`] bytes each.
#![forbid(unsafe_code)]

mod dense;
mod error;
mod feed;
mod lazy;
mod machine;
mod needles;
mod scan;
mod search;
mod skip;
mod stream;
mod syntax;

use regex_automata::nfa::thompson::{Config, NFA, WhichCaptures};
use regex_syntax::hir::Hir;

pub use error::PatternError;
pub use search::Counters;
pub use stream::StreamState;

use dense::Dense;
use lazy::LazyDfa;
use machine::{Goal, Machine, Work};
use search::Caches;
use skip::{Skip, Skipper};

/// The most patterns at once.
pub const PATTERNS_MAX: usize = 4_096;
/// The most bytes of one pattern's text.
pub const PATTERN_BYTES_MAX: usize = 16 << 10;
/// The most memory for the NFA of all patterns; it is needed twice, forward and reverse.
pub const NFA_BYTES_MAX: usize = 16 << 20;
/// The most memory for the NFA of one pattern: large counted repetitions (`.{10000}`) are searched too slowly to be of use.
pub const PATTERN_NFA_BYTES_MAX: usize = 256 << 10;
/// Of a longer match only the end is exact, and how long after a match's end a preferred one is waited for. A
/// stream keeps twice that at most.
pub const MATCH_BYTES_MAX: u64 = 32 << 10;
/// Decided matches that wait for others to be told in order; beyond, they are told as they are.
pub const WAITING_MAX: usize = 1_024;
/// The memory that the caches of one [`Scratch`] take, about.
pub const CACHE_BYTES_MAX: usize = 64 << 20;

/// One pattern as a user wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// The expression, or the string.
    pub text: String,
    /// Case does not count.
    pub ignore_case: bool,
    /// It is a fixed string, not an expression; case is then that of ASCII letters.
    pub literal: bool,
}

/// Which engine looks for ends. What is found is the same with each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EngineChoice {
    /// The fastest at hand.
    #[default]
    Auto,
    /// Ours.
    Rust,
    /// Ours, its states as they are needed: what [`EngineChoice::Rust`] does where a table would be too large.
    RustLazy,
    /// Ours behind the system's vectorscan, which passes over what is part of no match. Where a pattern has no
    /// literal near its start, or vectorscan refuses them, ours alone.
    Vectorscan,
}

/// A match of one pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match {
    /// Which pattern, from 0.
    pub pattern: usize,
    /// Offset in the stream of its first byte.
    pub start: u64,
    /// Offset behind its last byte.
    pub end: u64,
    /// False where it is longer than [`MATCH_BYTES_MAX`]: it starts at `start` or before.
    pub start_is_exact: bool,
}

/// Patterns compiled together. Shared by all streams and workers.
#[derive(Debug)]
pub struct Patterns {
    forward: Machine,
    reverse: Machine,
    /// The length of a pattern's matches, where all have the same.
    lengths: Vec<Option<u64>>,
    engine: Engine,
    skip: Option<Skip>,
}

/// What finds ends.
#[derive(Debug)]
enum Engine {
    Dense(Box<Dense>),
    /// The states are in each worker's [`Scratch`].
    Lazy,
}

impl Patterns {
    /// Compiles patterns. 50 ordinary ones take some 10 to 100 ms, 1 000 about 0.3 s, 4 096 seconds.
    ///
    /// # Errors
    ///
    /// The first pattern that is wrong, with the place in its text; or patterns beyond [`PATTERNS_MAX`],
    /// [`PATTERN_BYTES_MAX`], [`NFA_BYTES_MAX`]; or [`EngineChoice::Vectorscan`] where it is not installed, or faulty.
    pub fn compile(patterns: &[Pattern], engine: EngineChoice) -> Result<Self, PatternError> {
        if patterns.len() > PATTERNS_MAX {
            let message = format!("{} patterns, and {PATTERNS_MAX} is the most", patterns.len());
            return Err(PatternError::of_all(message, "join some with `|`, or search in several runs"));
        }
        let read = |(number, pattern)| syntax::read(number, pattern);
        let hirs: Vec<Hir> = patterns.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        let forward = machine(&hirs, false)?;
        let dense = match engine {
            EngineChoice::RustLazy => None,
            _ => Dense::build(&forward),
        };
        let skip = match engine {
            EngineChoice::Vectorscan => {
                let help = "or let the engine be chosen: `auto`";
                weir_vectorscan::version()
                    .map_err(|missing| PatternError::of_all(missing.to_string(), help))?;
                Skip::needles(&hirs)
            }
            // Ours where it has literals: vectorscan took 0.04 to 0.06 s longer then, of 0.45 and 0.8 s, half of it to be
            // loaded and proven; where it has none, 0.3 to 0.5 s less (`cargo xtask bench`'s traces, 2026-11-23).
            EngineChoice::Auto => Skip::literals(&hirs).or_else(|| Skip::needles(&hirs)),
            EngineChoice::Rust | EngineChoice::RustLazy => Skip::literals(&hirs),
        };
        let length = |hir: &Hir| {
            let properties = hir.properties();
            properties.minimum_len().filter(|_| properties.minimum_len() == properties.maximum_len())
        };
        Ok(Self {
            forward,
            reverse: machine(&hirs, true)?,
            lengths: hirs.iter().map(|hir| length(hir).map(|bytes| bytes as u64)).collect(),
            engine: dense.map_or(Engine::Lazy, |dense| Engine::Dense(Box::new(dense))),
            skip,
        })
    }

    /// How many patterns there are.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there are none; then nothing is found.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// What finds ends: `dfa`, or `lazy-dfa` where that would be too large.
    pub fn engine(&self) -> &'static str {
        match self.engine {
            Engine::Dense(_) => "dfa",
            Engine::Lazy => "lazy-dfa",
        }
    }

    /// What passes over bytes that are part of no match: `literals`, `vectorscan`, or `none`.
    pub fn prefilter(&self) -> &'static str {
        match self.skip {
            Some(Skip::Literals(_)) => "literals",
            Some(Skip::Needles(..)) => "vectorscan",
            None => "none",
        }
    }

    /// Caches for one worker.
    pub fn scratch(&self) -> Scratch {
        self.scratch_of(CACHE_BYTES_MAX)
    }

    /// Caches of about the given size. Too small ones cost time, nothing else.
    pub fn scratch_of(&self, cache_bytes: usize) -> Scratch {
        Scratch {
            scan: LazyDfa::new(Goal::Ends, self.forward.symbols()),
            skipper: Skipper::new(self.skip.as_ref()),
            caches: (0..self.len()).map(|_| None).collect(),
            work: Work::new(cache_bytes.min(CACHE_BYTES_MAX)),
            counters: Counters::default(),
        }
    }

    /// A stream of which nothing was fed yet.
    pub fn start(&self) -> StreamState {
        StreamState::default()
    }

    /// The next bytes of a stream. Calls `found` for each match, in the order of their ends. A match is told with the
    /// byte behind it at the earliest, and once it is certain that no preferred one follows.
    ///
    /// # Panics
    ///
    /// `scratch` or `stream` are of other patterns.
    pub fn feed(
        &self,
        scratch: &mut Scratch,
        stream: &mut StreamState,
        bytes: &[u8],
        found: &mut dyn FnMut(Match),
    ) {
        self.pass_gap(scratch, stream, found);
        if !bytes.is_empty() {
            feed::feed(self, scratch, stream, bytes, found);
        }
    }

    /// `missing` bytes are lost here: no match spans them; offsets go on behind. Matches that end before them are
    /// told with the next piece.
    pub fn gap(&self, stream: &mut StreamState, missing: u64) {
        stream.missing = stream.missing.saturating_add(missing);
    }

    /// The stream is over: matches that waited for its end are told. Then `stream` is as new.
    ///
    /// # Panics
    ///
    /// As [`Self::feed`].
    pub fn finish(&self, scratch: &mut Scratch, stream: &mut StreamState, found: &mut dyn FnMut(Match)) {
        self.pass_gap(scratch, stream, found);
        feed::close(self, scratch, stream, None, found);
    }

    fn pass_gap(&self, scratch: &mut Scratch, stream: &mut StreamState, found: &mut dyn FnMut(Match)) {
        if stream.missing > 0 {
            feed::close(self, scratch, stream, Some(stream.missing), found);
        }
    }
}

/// What one worker needs to search: caches of at most [`CACHE_BYTES_MAX`], about.
#[derive(Debug)]
pub struct Scratch {
    /// The states of all patterns together, where these have no table.
    scan: LazyDfa,
    skipper: Skipper,
    caches: Vec<Option<Box<Caches>>>,
    work: Work,
    counters: Counters,
}

impl Scratch {
    /// How often bounds were reached.
    pub fn counters(&self) -> Counters {
        Counters { cache_clears: self.work.clears, ..self.counters }
    }

    /// Between pieces no state of a cache is in use: where they are full, all are emptied.
    fn make_room(&mut self) {
        if self.work.cached_bytes > self.work.cached_bytes_max {
            self.scan.clear(&mut self.work);
            self.caches.iter_mut().flatten().for_each(|caches| caches.clear(&mut self.work));
        }
    }
}

fn machine(hirs: &[Hir], is_reverse: bool) -> Result<Machine, PatternError> {
    let captures = WhichCaptures::None;
    let config = Config::new().utf8(false).which_captures(captures).reverse(is_reverse);
    let config = config.nfa_size_limit(Some(NFA_BYTES_MAX));
    let mut compiler = NFA::compiler();
    compiler.configure(config);
    let help = "large counted repetitions, `{1000}`, are what takes most";
    let built = compiler.build_many_from_hir(hirs);
    if built.as_ref().is_ok_and(|nfa| nfa.memory_usage() > PATTERN_NFA_BYTES_MAX) {
        let is_large = |hir: &Hir| {
            compiler.build_from_hir(hir).is_ok_and(|nfa| nfa.memory_usage() > PATTERN_NFA_BYTES_MAX)
        };
        if let Some(pattern) = hirs.iter().position(is_large) {
            let message = format!("larger than {} KiB, compiled", PATTERN_NFA_BYTES_MAX >> 10);
            return Err(PatternError::of(pattern, message, help));
        }
    }
    built.map(|nfa| Machine::new(nfa, is_reverse)).map_err(|error| {
        if error.size_limit().is_none() {
            return PatternError::of_all(error.to_string(), help);
        }
        let message = format!("larger than {} MiB, compiled", NFA_BYTES_MAX >> 20);
        match hirs.iter().position(|hir| compiler.build_from_hir(hir).is_err()) {
            Some(pattern) => PatternError::of(pattern, message, help),
            None => PatternError::of_all(format!("all patterns together are {message}"), help),
        }
    })
}

#[cfg(test)]
mod tests;
