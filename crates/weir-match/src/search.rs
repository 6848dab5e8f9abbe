//! From a reported end to the match: one pattern's leftmost match, its start, and the continuation after it.
//!
//! A search runs forward from the earliest position where its pattern's next match can begin. It dies when
//! the leftmost match is certain. That match is reported, and the next search begins at its end, over bytes
//! that were already searched. All decisions depend on positions in the stream, never on the borders of
//! pieces.

use crate::lazy::LazyDfa;
use crate::machine::{Context, Goal, Machine, Work};
use crate::stream::{Busy, Search, Window};
use crate::{MATCH_BYTES_MAX, Match};

/// The caches of one pattern, for ends and for starts.
#[derive(Debug)]
pub(crate) struct Caches {
    leftmost: LazyDfa,
    anchored: LazyDfa,
}

impl Caches {
    pub(crate) fn new(pattern: u32, forward: &Machine, reverse: &Machine) -> Self {
        Self {
            leftmost: LazyDfa::new(Goal::Leftmost(pattern), forward.symbols()),
            anchored: LazyDfa::new(Goal::Anchored(pattern), reverse.symbols()),
        }
    }

    pub(crate) fn clear(&mut self, work: &mut Work) {
        self.leftmost.clear(work);
        self.anchored.clear(work);
    }
}

/// How often one worker reached the bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Matches longer than [`MATCH_BYTES_MAX`], reported with an inexact start.
    pub starts_cut: u64,
    /// Matches that were reported [`MATCH_BYTES_MAX`] bytes after their end, although a preferred one might
    /// have followed.
    pub ends_forced: u64,
    /// Matches that may have been reported out of order, because too many waited for others.
    pub order_forced: u64,
    /// Caches that were emptied because they were full.
    pub cache_clears: u64,
}

/// A search for one pattern in progress.
pub(crate) struct Searcher<'a> {
    pub(crate) forward: &'a Machine,
    pub(crate) reverse: &'a Machine,
    /// The length of all matches, if it is fixed.
    pub(crate) length: Option<u64>,
    pub(crate) caches: &'a mut Caches,
    pub(crate) work: &'a mut Work,
    pub(crate) counters: &'a mut Counters,
    pub(crate) window: &'a Window<'a>,
}

impl Searcher<'_> {
    /// Starts a search at `from`.
    pub(crate) fn begin(&mut self, pattern: u32, from: u64, is_cut: bool) -> Search {
        let number = self.initial(from);
        Search { pattern, number, state: None, from, at: from, is_cut, end: None }
    }

    fn initial(&mut self, from: u64) -> u32 {
        let state = self.forward.initial(self.context_before(from));
        self.caches.leftmost.number(self.work, state)
    }

    fn context_before(&self, at: u64) -> Context {
        let byte = at.checked_sub(1).and_then(|at| self.window.byte(at));
        byte.map_or(self.window.before, |byte| self.forward.context_of(byte))
    }

    /// Continues a search with a saved state, whose number belongs to another cache.
    pub(crate) fn resume(&mut self, search: &mut Search) {
        if let Some(state) = search.state.take() {
            search.number = self.caches.leftmost.number(self.work, state);
        }
    }

    /// Saves the state for the next piece.
    pub(crate) fn suspend(&self, search: &mut Search) {
        search.state = Some(self.caches.leftmost.state(search.number).clone());
    }

    /// Searches up to `to`. Returns true if the search must continue there; otherwise no match is in
    /// progress.
    pub(crate) fn run(&mut self, search: &mut Search, to: u64, found: &mut Vec<Match>) -> bool {
        while search.at < to {
            // All bytes to search are in the window.
            let Some(byte) = self.window.byte(search.at) else { break };
            self.step(search, self.forward.symbol(byte));
            search.at += 1;
            let facts = LazyDfa::facts(search.number);
            let waited = search.end.is_some_and(|end| search.at - end >= MATCH_BYTES_MAX);
            if facts.dead() || waited {
                self.counters.ends_forced += u64::from(!facts.dead());
                self.report(search, found);
            }
        }
        search.end.is_some() || !LazyDfa::facts(search.number).idle()
    }

    /// No more bytes: `symbol` is the end of the stream, or a loss.
    pub(crate) fn close(&mut self, search: &mut Search, to: u64, symbol: usize, found: &mut Vec<Match>) {
        loop {
            self.run(search, to, found);
            self.step(search, symbol);
            if search.end.is_none() {
                return;
            }
            self.report(search, found);
        }
    }

    fn step(&mut self, search: &mut Search, symbol: usize) {
        search.number = self.caches.leftmost.step(self.forward, self.work, search.number, symbol);
        if LazyDfa::facts(search.number).matched() {
            search.end = Some(search.at);
        }
    }

    /// Reports the found match, and starts the next search after it.
    fn report(&mut self, search: &mut Search, found: &mut Vec<Match>) {
        let Some(end) = search.end.take() else { return };
        let (start, start_is_exact) = self.start_of(search, end);
        self.counters.starts_cut += u64::from(!start_is_exact);
        found.push(Match { pattern: search.pattern as usize, start, end, start_is_exact });
        self.restart(search, end);
    }

    fn restart(&mut self, search: &mut Search, from: u64) {
        *search = self.begin(search.pattern, from, false);
    }

    /// Reports a match of which only the end is known: it began before all kept bytes.
    pub(crate) fn report_cut(&mut self, search: &mut Search, end: u64, found: &mut Vec<Match>) {
        let start = self.length.map_or(search.from, |length| end.saturating_sub(length));
        let start_is_exact = self.length.is_some();
        self.counters.starts_cut += u64::from(!start_is_exact);
        found.push(Match { pattern: search.pattern as usize, start, end, start_is_exact });
        self.restart(search, end);
    }

    /// The leftmost start of the matches that end at `end`, searched backwards.
    fn start_of(&mut self, search: &Search, end: u64) -> (u64, bool) {
        if let Some(length) = self.length {
            return (end.saturating_sub(length), true);
        }
        let lowest = search.from.max(end.saturating_sub(MATCH_BYTES_MAX));
        let is_cut = search.is_cut || lowest > search.from;
        let behind = self.window.byte(end).map_or(self.window.behind, |byte| self.reverse.context_of(byte));
        let cache = &mut self.caches.anchored;
        let mut number = cache.number(self.work, self.reverse.initial(behind));
        let (mut at, mut start) = (end, None);
        loop {
            let byte = at.checked_sub(1).and_then(|at| self.window.byte(at));
            let symbol = match byte {
                Some(byte) => self.reverse.symbol(byte),
                None => self.reverse.symbol_of(self.window.before),
            };
            let under_way = at < end && !LazyDfa::facts(number).idle();
            number = cache.step(self.reverse, self.work, number, symbol);
            if LazyDfa::facts(number).matched() {
                start = Some(at);
            }
            if at == lowest && is_cut && under_way {
                return (lowest, false);
            }
            if at == lowest || LazyDfa::facts(number).idle() {
                return (start.unwrap_or(lowest), start.is_some());
            }
            at -= 1;
        }
    }
}

/// Reports the matches that no earlier-ending match can precede any more; all of them if `all`.
pub(crate) fn release(busy: &mut Busy, all: bool, found: &mut dyn FnMut(Match)) {
    if busy.waiting.is_empty() {
        return;
    }
    let open = busy.searches.iter().filter_map(|search| search.end).min();
    let bound = open.filter(|_| !all).unwrap_or(u64::MAX);
    busy.waiting.sort_unstable_by_key(|found| (found.end, found.pattern));
    let ready = busy.waiting.partition_point(|found| found.end < bound);
    busy.waiting.drain(..ready).for_each(found);
}
