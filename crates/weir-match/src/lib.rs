//! Patterns over streams: searches many regular expressions at once in bytes that arrive in pieces.
//!
//! [`Patterns::compile`] builds one machine from all patterns. [`Patterns::feed`] takes the next bytes of a
//! stream and reports the matches in them, including those across the borders of pieces. The result does not
//! depend on how a stream is cut into pieces.
//!
//! # What matches
//!
//! Each pattern is searched independently, as by `grep -o`: its matches do not overlap, and each is the
//! leftmost match after the previous one. Of several matches with the same start, the one that Perl and the
//! crate `regex` prefer is reported (`a|ab` matches `a`; `a+` is greedy, `a+?` is lazy). Matches of different
//! patterns may overlap; they are reported in the order of their ends.
//!
//! * Patterns match bytes, not text: `.` is any byte except `\n`, classes and case are ASCII, and other
//!   characters stand for their UTF-8 bytes. `(?u)` makes a pattern, or a part of it, match UTF-8 characters.
//! * `^` and `\A` match at the start of the stream, `$` and `\z` at its end (known in [`Patterns::finish`]);
//!   with `(?m)`, `^` and `$` match at lines. `\b` uses ASCII word characters.
//! * Matches are never empty; a pattern that matches the empty string is rejected.
//! * Lost bytes ([`Patterns::gap`]) are in no match. They are neither the start nor the end of the stream,
//!   nor a line end, nor part of a word.
//!
//! # How
//!
//! A DFA over all patterns (`dense`; if that is too large `lazy`, with states on demand) reports where a
//! match of which pattern ends, and where no match is in progress. A stream's state is a number; while no
//! match is in progress, none of its bytes are kept. After a reported end, `search` finds the leftmost match
//! of that pattern in the kept bytes: its end by a forward search for this pattern alone, its start backwards
//! from there. `machine` computes the states of all these automata.
//!
//! While no match is in progress, a prefilter skips bytes faster than the table: by literals that all matches
//! begin with, or by the system's vectorscan (`skip`, `needles`).
//!
//! Slow cases: a pattern with an optional rest that fails late, such as `foo(.*bar)?`: the bytes after each
//! `foo` are searched, up to [`MATCH_BYTES_MAX`] bytes. Streams in which every byte may begin a long match
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
use weir_libraries::vectorscan;

pub use error::PatternError;
pub use search::Counters;
pub use stream::StreamState;

use dense::Dense;
use lazy::LazyDfa;
use machine::{Goal, Machine, Work};
use search::Caches;
use skip::{Skip, Skipper};

/// Maximum number of patterns.
pub const PATTERNS_MAX: usize = 4_096;
/// Maximum size of one pattern's text, in bytes.
pub const PATTERN_BYTES_MAX: usize = 16 << 10;
/// Maximum memory of the NFA of all patterns, in bytes; needed twice, forward and reverse.
pub const NFA_BYTES_MAX: usize = 16 << 20;
/// Maximum memory of the NFA of one pattern, in bytes: large counted repetitions (`.{10000}`) are too slow to
/// be useful.
pub const PATTERN_NFA_BYTES_MAX: usize = 256 << 10;
/// Maximum length of a match with an exact start, and maximum wait after a match's end for a preferred end,
/// in bytes. A stream keeps at most twice as many bytes.
pub const MATCH_BYTES_MAX: u64 = 32 << 10;
/// Maximum number of complete matches that wait for earlier ones; beyond it, matches are reported out of
/// order.
pub const WAITING_MAX: usize = 1_024;
/// Approximate memory of the caches of one [`Scratch`], in bytes.
pub const CACHE_BYTES_MAX: usize = 64 << 20;

/// One pattern as a user wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// The expression, or the string.
    pub text: String,
    /// Case is ignored.
    pub ignore_case: bool,
    /// A fixed string rather than an expression; case is then that of ASCII letters.
    pub literal: bool,
}

/// The engine that finds ends of matches. The results are the same with each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EngineChoice {
    /// The fastest available engine.
    #[default]
    Auto,
    /// Weir's own engine.
    Rust,
    /// Weir's own engine with states on demand: the fallback of [`EngineChoice::Rust`] if the table would be
    /// too large.
    RustLazy,
    /// Weir's own engine after the system's vectorscan as a prefilter. If a pattern has no literal near its
    /// start, or vectorscan rejects the literals, the own engine alone.
    Vectorscan,
}

/// A match of one pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match {
    /// The index of the pattern, from 0.
    pub pattern: usize,
    /// Offset in the stream of its first byte.
    pub start: u64,
    /// Offset after its last byte.
    pub end: u64,
    /// False if the match is longer than [`MATCH_BYTES_MAX`]: its start is then at or before `start`.
    pub start_is_exact: bool,
}

/// Patterns compiled together. Shared by all streams and workers.
#[derive(Debug)]
pub struct Patterns {
    forward: Machine,
    reverse: Machine,
    /// The length of a pattern's matches, if all have the same length.
    lengths: Vec<Option<u64>>,
    engine: Engine,
    skip: Option<Skip>,
}

/// The automaton that finds ends.
#[derive(Debug)]
enum Engine {
    Dense(Box<Dense>),
    /// The states are in each worker's [`Scratch`].
    Lazy,
}

impl Patterns {
    /// Compiles patterns. 50 ordinary patterns take about 10 to 100 ms, 1 000 about 0.3 s, 4 096 several
    /// seconds.
    ///
    /// # Errors
    ///
    /// The first invalid pattern, with the place in its text; patterns beyond [`PATTERNS_MAX`],
    /// [`PATTERN_BYTES_MAX`] or [`NFA_BYTES_MAX`]; or [`EngineChoice::Vectorscan`] if vectorscan is not
    /// installed or faulty.
    pub fn compile(patterns: &[Pattern], engine: EngineChoice) -> Result<Self, PatternError> {
        if patterns.len() > PATTERNS_MAX {
            let message = format!("{} patterns; the maximum is {PATTERNS_MAX}", patterns.len());
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
                let help = "or use `auto`";
                vectorscan::version().map_err(|missing| PatternError::of_all(missing.to_string(), help))?;
                Skip::needles(&hirs)
            }
            // Literals first: with literals, vectorscan took 0.04 to 0.06 s longer, of 0.45 and 0.8 s, half
            // of it for loading and testing; without literals, vectorscan took 0.3 to 0.5 s less (`cargo
            // xtask bench`'s traces, 2026-11-23).
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

    /// The number of patterns.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there are no patterns; then nothing matches.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// The engine that finds ends: `dfa`, or `lazy-dfa` if the table would be too large.
    pub fn engine(&self) -> &'static str {
        match self.engine {
            Engine::Dense(_) => "dfa",
            Engine::Lazy => "lazy-dfa",
        }
    }

    /// The prefilter: `literals`, `vectorscan`, or `none`.
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

    /// Caches of approximately this size. Smaller caches only cost time.
    pub fn scratch_of(&self, cache_bytes: usize) -> Scratch {
        Scratch {
            scan: LazyDfa::new(Goal::Ends, self.forward.symbols()),
            skipper: Skipper::new(self.skip.as_ref()),
            caches: (0..self.len()).map(|_| None).collect(),
            work: Work::new(cache_bytes.min(CACHE_BYTES_MAX)),
            counters: Counters::default(),
        }
    }

    /// The state of a new stream.
    pub fn start(&self) -> StreamState {
        StreamState::default()
    }

    /// Processes the next bytes of a stream. Calls `found` for each match, in the order of ends. A match is
    /// reported with the byte after it at the earliest, and once no preferred match can follow.
    ///
    /// # Panics
    ///
    /// If `scratch` or `stream` belong to other patterns.
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

    /// Records that `missing` bytes are lost here: no match spans them, and offsets continue after them.
    /// Matches that end before the gap are reported with the next piece.
    pub fn gap(&self, stream: &mut StreamState, missing: u64) {
        stream.missing = stream.missing.saturating_add(missing);
    }

    /// Ends the stream: reports the matches that waited for its end. `stream` is then in its initial state.
    ///
    /// # Panics
    ///
    /// As for [`Self::feed`].
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

/// The working memory of one worker: caches of about [`CACHE_BYTES_MAX`] at most.
#[derive(Debug)]
pub struct Scratch {
    /// The states of all patterns together, if there is no table.
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

    /// Between pieces no cached state is in use: full caches are emptied.
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
    let help = "large counted repetitions such as `{1000}` need the most memory";
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
