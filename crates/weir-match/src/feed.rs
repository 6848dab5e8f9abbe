//! Processes a piece of a stream: the scan for ends of matches, and the searches that it starts.
//!
//! While no search is active, [`Feed::scan_on`] alone processes the bytes. While searches are active, all of
//! them and the scan advance byte by byte, so that the result of each decision, and its position, do not
//! depend on how the stream is cut.

use std::mem;

use crate::lazy::LazyDfa;
use crate::machine::Context;
use crate::scan::Scan;
use crate::search::{Caches, Searcher, release};
use crate::stream::{Busy, Search, StreamState, Window};
use crate::{Engine, MATCH_BYTES_MAX, Match, Patterns, Scratch, WAITING_MAX};

/// A piece being processed.
struct Feed<'a> {
    patterns: &'a Patterns,
    scratch: &'a mut Scratch,
    window: Window<'a>,
    busy: Busy,
    /// The state of the scan: a row of the table, or a number of the lazy machine.
    scan: u32,
    idle_at: u64,
    found: &'a mut dyn FnMut(Match),
}

/// Processes the next bytes.
pub(crate) fn feed(
    patterns: &Patterns,
    scratch: &mut Scratch,
    stream: &mut StreamState,
    bytes: &[u8],
    found: &mut dyn FnMut(Match),
) {
    let mut history = mem::take(&mut stream.history);
    let window = Window {
        history: &history,
        base: stream.base,
        before: stream.before,
        piece: bytes,
        piece_at: stream.position,
        behind: Context::Other,
    };
    let mut feed = Feed::begin(patterns, scratch, stream, window, found);
    feed.bytes();
    let keep_from = feed.keep(stream);
    let behind_history = keep_from.checked_sub(stream.position);
    stream.position += bytes.len() as u64;
    match behind_history {
        Some(n) if n as usize >= bytes.len() => history = Default::default(),
        Some(n) => {
            history.clear();
            history.extend(&bytes[n as usize..]);
        }
        None => {
            history.drain(..(keep_from - stream.base) as usize);
            history.extend(bytes);
        }
    }
    stream.base = keep_from;
    stream.history = history;
}

/// Ends the current bytes: the stream is over, or `missing` bytes are lost.
pub(crate) fn close(
    patterns: &Patterns,
    scratch: &mut Scratch,
    stream: &mut StreamState,
    missing: Option<u64>,
    found: &mut dyn FnMut(Match),
) {
    let history = mem::take(&mut stream.history);
    let (behind, symbol) = match missing {
        Some(_) => (Context::Other, patterns.forward.unknown()),
        None => (Context::Start, patterns.forward.end()),
    };
    let window = Window {
        history: &history,
        base: stream.base,
        before: stream.before,
        piece: &[],
        piece_at: stream.position,
        behind,
    };
    let mut feed = Feed::begin(patterns, scratch, stream, window, found);
    feed.close(stream.position, symbol);
    *stream = match missing {
        Some(missing) => {
            let position = stream.position.saturating_add(missing);
            let before = Context::Other;
            StreamState { position, base: position, idle_at: position, before, ..StreamState::default() }
        }
        None => StreamState::default(),
    };
}

impl<'a> Feed<'a> {
    fn begin(
        patterns: &'a Patterns,
        scratch: &'a mut Scratch,
        stream: &mut StreamState,
        window: Window<'a>,
        found: &'a mut dyn FnMut(Match),
    ) -> Self {
        scratch.make_room();
        let scan = match &patterns.engine {
            Engine::Dense(dense) => stream.row.unwrap_or_else(|| dense.initial(stream.before)),
            Engine::Lazy => {
                let state = stream.state.take().unwrap_or_else(|| patterns.forward.initial(stream.before));
                scratch.scan.number(&mut scratch.work, state)
            }
        };
        let busy = stream.busy.take().map_or_else(Busy::default, |busy| *busy);
        let mut feed = Self { patterns, scratch, window, busy, scan, idle_at: stream.idle_at, found };
        let mut searches = mem::take(&mut feed.busy.searches);
        for search in &mut searches {
            feed.searcher(search.pattern).resume(search);
        }
        feed.busy.searches = searches;
        feed
    }

    fn searcher(&mut self, pattern: u32) -> Searcher<'_> {
        let cache = &mut self.scratch.caches[pattern as usize];
        Searcher {
            forward: &self.patterns.forward,
            reverse: &self.patterns.reverse,
            length: self.patterns.lengths[pattern as usize],
            caches: cache.get_or_insert_with(|| {
                let (forward, reverse) = (&self.patterns.forward, &self.patterns.reverse);
                Box::new(Caches::new(pattern, forward, reverse))
            }),
            work: &mut self.scratch.work,
            counters: &mut self.scratch.counters,
            window: &self.window,
        }
    }

    fn bytes(&mut self) {
        let mut at = 0;
        while at < self.window.piece.len() {
            if self.busy.searches.is_empty() {
                let scan = self.scan_on(at);
                self.scan = scan.state;
                at = scan.at;
                if let Some(idle_at) = scan.idle_at {
                    self.idle_at = self.window.piece_at + idle_at as u64;
                    self.busy.parked.clear();
                }
            } else {
                self.scan = self.step(self.patterns.forward.symbol(self.window.piece[at]));
                at += 1;
            }
            self.arrive(self.window.piece_at + at as u64);
        }
    }

    /// Scans from `piece[at..]` to the first byte that reports an end.
    fn scan_on(&mut self, at: usize) -> Scan {
        let piece = self.window.piece;
        let Scratch { scan: dfa, work, skipper, .. } = &mut *self.scratch;
        match &self.patterns.engine {
            Engine::Dense(dense) => {
                let mut scan = Scan::new(self.scan, at);
                scan.run(&**dense, skipper, piece);
                scan
            }
            Engine::Lazy => dfa.scan(&self.patterns.forward, work, skipper, piece, (self.scan, at)),
        }
    }

    fn step(&mut self, symbol: usize) -> u32 {
        match &self.patterns.engine {
            Engine::Dense(dense) => dense.step(self.scan, symbol),
            Engine::Lazy => {
                self.scratch.scan.step(&self.patterns.forward, &mut self.scratch.work, self.scan, symbol)
            }
        }
    }

    /// The patterns of which a match ended, and whether no match is in progress any more.
    fn told(&self) -> (Vec<u32>, bool) {
        match &self.patterns.engine {
            Engine::Dense(dense) => (dense.ended(self.scan).into(), dense.is_over(self.scan)),
            Engine::Lazy => {
                let dfa = &self.scratch.scan;
                (dfa.state(self.scan).patterns().into(), LazyDfa::facts(self.scan).idle())
            }
        }
    }

    /// Called when all bytes before `at` were scanned: searches catch up, and new ones start where the scan
    /// reported ends.
    fn arrive(&mut self, at: u64) {
        let (mut ended, is_idle) = self.told();
        ended.retain(|&pattern| self.busy.searches.iter().all(|search| search.pattern != pattern));
        let mut searches = mem::take(&mut self.busy.searches);
        searches.retain_mut(|search| self.run(search, at));
        for pattern in ended {
            let (mut search, end) = self.begin_search(pattern, at - 1);
            let found_before = self.busy.waiting.len();
            let mut goes_on = self.run(&mut search, at);
            if search.is_cut && !goes_on && self.busy.waiting.len() == found_before {
                let mut waiting = mem::take(&mut self.busy.waiting);
                self.searcher(pattern).report_cut(&mut search, end, &mut waiting);
                self.busy.waiting = waiting;
                goes_on = self.run(&mut search, at);
            }
            if goes_on {
                searches.push(search);
            }
        }
        self.busy.searches = searches;
        if is_idle {
            debug_assert!(self.busy.searches.is_empty(), "a search is under way where no match is");
            self.idle_at = at;
            self.busy.parked.clear();
        }
        let is_full = self.busy.waiting.len() > WAITING_MAX;
        self.scratch.counters.order_forced += u64::from(is_full);
        release(&mut self.busy, is_full, self.found);
    }

    /// The search for the match that the scan reported to end at `end`.
    fn begin_search(&mut self, pattern: u32, end: u64) -> (Search, u64) {
        let parked = self.busy.parked.binary_search_by_key(&pattern, |&(pattern, _)| pattern);
        let earliest = parked.map_or(self.idle_at, |n| self.busy.parked[n].1.max(self.idle_at));
        let kept = end.saturating_sub(MATCH_BYTES_MAX);
        (self.searcher(pattern).begin(pattern, earliest.max(kept), kept > earliest), end)
    }

    /// Runs the search up to `at`. Returns true if it must continue; otherwise it is parked.
    fn run(&mut self, search: &mut Search, at: u64) -> bool {
        let mut waiting = mem::take(&mut self.busy.waiting);
        let goes_on = self.searcher(search.pattern).run(search, at, &mut waiting);
        self.busy.waiting = waiting;
        if !goes_on {
            let parked = &mut self.busy.parked;
            match parked.binary_search_by_key(&search.pattern, |&(pattern, _)| pattern) {
                Ok(n) => parked[n].1 = at,
                Err(n) => parked.insert(n, (search.pattern, at)),
            }
        }
        goes_on
    }

    /// No more bytes: decides everything.
    fn close(&mut self, at: u64, symbol: usize) {
        self.scan = self.step(symbol);
        let (mut ended, _) = self.told();
        let mut waiting = mem::take(&mut self.busy.waiting);
        let mut searches = mem::take(&mut self.busy.searches);
        ended.retain(|&pattern| searches.iter().all(|search| search.pattern != pattern));
        for search in &mut searches {
            self.searcher(search.pattern).close(search, at, symbol, &mut waiting);
        }
        for pattern in ended {
            let (mut search, end) = self.begin_search(pattern, at);
            let (is_cut, found_before) = (search.is_cut, waiting.len());
            let mut searcher = self.searcher(pattern);
            searcher.close(&mut search, at, symbol, &mut waiting);
            if is_cut && waiting.len() == found_before {
                searcher.report_cut(&mut search, end, &mut waiting);
            }
        }
        self.busy.waiting = waiting;
        release(&mut self.busy, true, self.found);
    }

    /// Saves the state for the next piece; returns the offset from which bytes are kept.
    fn keep(mut self, stream: &mut StreamState) -> u64 {
        let end = self.window.piece_at + self.window.piece.len() as u64;
        let (_, is_idle) = self.told();
        let lowest = |from: u64, end: u64| from.max(end.saturating_sub(MATCH_BYTES_MAX));
        let mut from = if is_idle { end } else { lowest(self.idle_at, end) };
        let mut searches = mem::take(&mut self.busy.searches);
        for search in &mut searches {
            self.searcher(search.pattern).suspend(search);
            from = from.min(lowest(search.from, search.end.unwrap_or(end)));
        }
        self.busy.searches = searches;
        let last = from.checked_sub(1).filter(|_| from > self.window.base);
        if let Some(byte) = last.and_then(|at| self.window.byte(at)) {
            stream.before = self.patterns.forward.context_of(byte);
        }
        match &self.patterns.engine {
            Engine::Dense(_) => stream.row = Some(self.scan),
            Engine::Lazy if is_idle => stream.state = None,
            Engine::Lazy => stream.state = Some(self.scratch.scan.state(self.scan).clone()),
        }
        stream.idle_at = self.idle_at;
        stream.busy = (!self.busy.is_empty()).then(|| Box::new(self.busy));
        from
    }
}
