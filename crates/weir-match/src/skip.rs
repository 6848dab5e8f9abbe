//! Prefilter: jumps from one possible start of a match to the next, faster than a table of states.
//!
//! The prefilter runs only while no match is in progress, and skips only bytes that are in no match. The
//! table decides everything else (matches, their starts, the time of their report), so a prefilter changes
//! only the run time. There are two: [`Prefilter`] searches the next of a few literals that all matches begin
//! with; [`weir_libraries::vectorscan`] searches all literals near the start of matches (`needles`) in a
//! piece, and supports many more of them.

use std::ops::Range;

use regex_automata::util::prefilter::Prefilter;
use regex_automata::{MatchKind, Span};
use regex_syntax::hir::Hir;
use weir_libraries::vectorscan::{Database, SCAN_BYTES_MIN, Scanner};

use crate::needles::Needles;

/// The number of stops after which the benefit of the prefilter is checked.
const TRIALS: usize = 8;
/// Minimum number of bytes skipped per stop. Below it, the prefilter pauses.
const BYTES_MIN: usize = 96;
/// The number of bytes that a pause lasts.
const PAUSE_BYTES: usize = 64 << 10;
/// Maximum number of bytes per call of vectorscan.
const SCAN_BYTES_MAX: usize = 64 << 10;
/// Maximum number of needle ends per call. With more, the prefilter is slower than the table alone.
const ENDS_MAX: usize = 64;

/// A prefilter, shared by all workers.
#[derive(Debug)]
pub(crate) enum Skip {
    /// Literals that all matches begin with.
    Literals(Prefilter),
    /// Literals near the start of all matches, and the maximum distance to the end of one.
    Needles(Database, usize),
}

impl Skip {
    /// A prefilter by literals, if it is fast.
    pub(crate) fn literals(patterns: &[Hir]) -> Option<Self> {
        let found = Prefilter::from_hirs_prefix(MatchKind::LeftmostFirst, patterns);
        found.filter(Prefilter::is_fast).map(Self::Literals)
    }

    /// A prefilter by vectorscan. `None` if vectorscan is not usable, or not useful for these patterns.
    pub(crate) fn needles(patterns: &[Hir]) -> Option<Self> {
        // This check comes first, because loading the library takes longer.
        let needles = Needles::of(patterns)?;
        let database = Database::compile(&needles.literals).ok()?;
        database.scanner().ok()?;
        Some(Self::Needles(database, needles.bytes_max))
    }
}

/// The prefilter's state of one worker.
#[derive(Debug)]
pub(crate) struct Skipper {
    finder: Option<Finder>,
    /// Remaining bytes of a pause.
    pause_bytes: usize,
    /// Stops since the last check of the benefit.
    places: usize,
    skipped_bytes: usize,
}

#[derive(Debug)]
enum Finder {
    Literals(Prefilter),
    Needles(NeedleFinder),
}

/// A position at which the table takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// No match contains bytes before `from`.
    pub(crate) from: usize,
    /// The table scans at least up to here.
    pub(crate) until: usize,
}

impl Skipper {
    pub(crate) fn new(skip: Option<&Skip>) -> Self {
        let finder = match skip {
            Some(Skip::Literals(prefilter)) => Some(Finder::Literals(prefilter.clone())),
            Some(Skip::Needles(database, bytes_max)) => {
                // Without memory for the scanner, the table scans everything.
                database.scanner().ok().map(|scanner| Finder::Needles(NeedleFinder::new(scanner, *bytes_max)))
            }
            None => None,
        };
        Self { finder, pause_bytes: 0, places: 0, skipped_bytes: 0 }
    }

    /// Starts a new piece of this many bytes. Returns false if the prefilter pauses.
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

    /// The next stop from `at` on, where no match is in progress. `None` if skipping does not pay off.
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
        // A needle may begin in the last bytes, which are too few for another call.
        None => {
            let last = bytes.len().saturating_sub(prefilter.max_needle_len().saturating_sub(1));
            Place { from: last.max(at), until: bytes.len() }
        }
    }
}

/// A vectorscan search of a piece.
#[derive(Debug)]
struct NeedleFinder {
    scanner: Scanner,
    bytes_max: usize,
    /// The scanned part of the piece, and the ends of needles relative to its start.
    scanned: Range<usize>,
    ends: Vec<u32>,
    /// The index of the next end.
    next: usize,
}

impl NeedleFinder {
    fn new(scanner: Scanner, bytes_max: usize) -> Self {
        Self { scanner, bytes_max, scanned: 0..0, ends: vec![], next: 0 }
    }

    /// `None` if there are too many ends.
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
            // A needle that began within these last bytes has not ended yet.
            None => {
                let end = self.scanned.end;
                Place { from: end.saturating_sub(self.bytes_max - 1), until: end }
            }
        };
        Some(Place { from: place.from.max(at), ..place })
    }
}
