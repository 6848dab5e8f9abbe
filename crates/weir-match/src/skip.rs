//! From one place where a match may begin to the next, faster than a table of states: a prefilter.
//!
//! It is asked where no match is under way, and what it passes over is known to be part of none. All else (what is
//! found, where it starts, what is told when) is the table's, so a prefilter changes nothing but the time that
//! it takes. There are two: [`Prefilter`] looks for the next of some literals that all matches begin with;
//! [`weir_vectorscan`] for all literals of a piece that matches have near their start (`needles`), many more of them.

use std::ops::Range;

use regex_automata::util::prefilter::Prefilter;
use regex_automata::{MatchKind, Span};
use regex_syntax::hir::Hir;
use weir_vectorscan::{Database, SCAN_BYTES_MIN, Scanner};

use crate::needles::Needles;

/// After so many places it is asked whether it pays;
const TRIALS: usize = 8;
/// if it did not skip so many bytes for each,
const BYTES_MIN: usize = 96;
/// it rests for so many.
const PAUSE_BYTES: usize = 64 << 10;
/// The most bytes that vectorscan is called for at once.
const SCAN_BYTES_MAX: usize = 64 << 10;
/// Where more needles than these end in them, it does not pay.
const ENDS_MAX: usize = 64;

/// A way to skip, for all workers.
#[derive(Debug)]
pub(crate) enum Skip {
    /// Literals that all matches begin with.
    Literals(Prefilter),
    /// Literals near the start of all matches, and how far behind it one ends at most.
    Needles(Database, usize),
}

impl Skip {
    /// By literals, where that is fast.
    pub(crate) fn literals(patterns: &[Hir]) -> Option<Self> {
        let found = Prefilter::from_hirs_prefix(MatchKind::LeftmostFirst, patterns);
        found.filter(Prefilter::is_fast).map(Self::Literals)
    }

    /// By vectorscan. None where it can't be used, or can't help with these patterns.
    pub(crate) fn needles(patterns: &[Hir]) -> Option<Self> {
        // Before the library is loaded, which takes longer.
        let needles = Needles::of(patterns)?;
        let database = Database::compile(&needles.literals).ok()?;
        database.scanner().ok()?;
        Some(Self::Needles(database, needles.bytes_max))
    }
}

/// One worker's.
#[derive(Debug)]
pub(crate) struct Skipper {
    finder: Option<Finder>,
    /// It did not pay of late; so many bytes go without it.
    pause_bytes: usize,
    /// Since it was asked last whether it pays.
    places: usize,
    skipped_bytes: usize,
}

#[derive(Debug)]
enum Finder {
    Literals(Prefilter),
    Needles(NeedleFinder),
}

/// Where the table takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// What begins before is part of no match, and not under way any more at `until`.
    pub(crate) from: usize,
    /// The table goes on to here at least.
    pub(crate) until: usize,
}

impl Skipper {
    pub(crate) fn new(skip: Option<&Skip>) -> Self {
        let finder = match skip {
            Some(Skip::Literals(prefilter)) => Some(Finder::Literals(prefilter.clone())),
            Some(Skip::Needles(database, bytes_max)) => {
                // Without memory for it the table does all.
                database.scanner().ok().map(|scanner| Finder::Needles(NeedleFinder::new(scanner, *bytes_max)))
            }
            None => None,
        };
        Self { finder, pause_bytes: 0, places: 0, skipped_bytes: 0 }
    }

    /// Other bytes, so many of them. False where they are to go without.
    pub(crate) fn begin(&mut self, bytes: usize) -> bool {
        if self.pause_bytes > 0 {
            self.pause_bytes = self.pause_bytes.saturating_sub(bytes);
            return false;
        }
        match &mut self.finder {
            None => false,
            Some(Finder::Literals(_)) => true,
            Some(Finder::Needles(needles)) => {
                needles.scanned = 0..0;
                bytes >= SCAN_BYTES_MIN
            }
        }
    }

    /// The next place from `at` on, where no match is under way. None where it does not pay to skip.
    pub(crate) fn next(&mut self, bytes: &[u8], at: usize) -> Option<Place> {
        if self.places >= TRIALS {
            let pays = self.skipped_bytes >= self.places * BYTES_MIN;
            (self.places, self.skipped_bytes) = (0, 0);
            if !pays {
                self.pause_bytes = PAUSE_BYTES;
                return None;
            }
        }
        let found = match &mut self.finder {
            Some(Finder::Literals(prefilter)) => Some(next_literal(prefilter, bytes, at)),
            Some(Finder::Needles(needles)) => needles.next(bytes, at),
            None => None,
        };
        let Some(place) = found else {
            self.pause_bytes = PAUSE_BYTES;
            return None;
        };
        self.places += usize::from(place.until < bytes.len());
        self.skipped_bytes += place.from - at;
        Some(place)
    }
}

fn next_literal(prefilter: &Prefilter, bytes: &[u8], at: usize) -> Place {
    match prefilter.find(bytes, Span::from(at..bytes.len())) {
        Some(found) => Place { from: found.start, until: found.end },
        // What it looks for may have begun in the last bytes, which are too few to be worth another call.
        None => {
            let last = bytes.len().saturating_sub(prefilter.max_needle_len().saturating_sub(1));
            Place { from: last.max(at), until: bytes.len() }
        }
    }
}

/// Vectorscan at work.
#[derive(Debug)]
struct NeedleFinder {
    scanner: Scanner,
    bytes_max: usize,
    /// The bytes of the piece that it was called for, and where needles end in them, from their start.
    scanned: Range<usize>,
    ends: Vec<u32>,
    /// The next of these.
    next: usize,
}

impl NeedleFinder {
    fn new(scanner: Scanner, bytes_max: usize) -> Self {
        Self { scanner, bytes_max, scanned: 0..0, ends: vec![], next: 0 }
    }

    /// None where there are too many.
    fn next(&mut self, bytes: &[u8], at: usize) -> Option<Place> {
        if at >= self.scanned.end {
            let left = bytes.len() - at;
            if left < SCAN_BYTES_MIN {
                return Some(Place { from: at, until: bytes.len() });
            }
            let scanned = if left < SCAN_BYTES_MAX + SCAN_BYTES_MIN { left } else { SCAN_BYTES_MAX };
            self.scanned = at..at + scanned;
            self.next = 0;
            let found = self.scanner.ends(&bytes[self.scanned.clone()], ENDS_MAX, &mut self.ends);
            if found != Ok(true) {
                return None;
            }
        }
        let start = self.scanned.start;
        while self.ends.get(self.next).is_some_and(|&end| start + end as usize <= at) {
            self.next += 1;
        }
        let place = match self.ends.get(self.next) {
            Some(&end) => {
                let end = start + end as usize;
                Place { from: end.saturating_sub(self.bytes_max), until: end }
            }
            // What began so few bytes before has not had its end.
            None => {
                let end = self.scanned.end;
                Place { from: end.saturating_sub(self.bytes_max - 1), until: end }
            }
        };
        Some(Place { from: place.from.max(at), ..place })
    }
}
