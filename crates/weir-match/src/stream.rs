//! What is kept of a stream between two pieces.

use std::collections::VecDeque;

use crate::Match;
use crate::machine::{Context, State};

/// A stream (one direction of a connection) in the middle of being searched; see [`Patterns::start`](crate::Patterns).
///
/// About 120 bytes while no match is under way. While one is, the bytes from its earliest possible start on are
/// kept too, at most twice [`MATCH_BYTES_MAX`](crate::MATCH_BYTES_MAX) (in memory that may be twice as large), and some
/// 50 bytes for each pattern concerned.
/// It belongs to no worker: any [`Scratch`](crate::Scratch) of the same patterns will do for its next piece.
#[derive(Debug, Clone, Default)]
pub struct StreamState {
    /// How many bytes there were, lost ones included.
    pub(crate) position: u64,
    /// Lost bytes that are still to be taken note of: [`gap`](crate::Patterns::gap) has nowhere to report to.
    pub(crate) missing: u64,
    /// Where no match was under way last.
    pub(crate) idle_at: u64,
    /// Where `history` begins, and what is before it.
    pub(crate) base: u64,
    pub(crate) before: Context,
    /// State of the dense table.
    pub(crate) row: Option<u32>,
    /// State of the lazy machine; none: the initial one after `before`.
    pub(crate) state: Option<State>,
    /// The bytes from `base` to `position`.
    pub(crate) history: VecDeque<u8>,
    pub(crate) busy: Option<Box<Busy>>,
}

impl StreamState {
    /// Bytes that were fed and lost so far.
    pub fn position(&self) -> u64 {
        self.position.saturating_add(self.missing)
    }

    /// The memory that it takes besides itself, about.
    pub fn heap_bytes(&self) -> usize {
        self.history.capacity() + self.busy.as_ref().map_or(0, |busy| busy.heap_bytes())
    }
}

/// What is kept while some patterns may have matched.
#[derive(Debug, Clone, Default)]
pub(crate) struct Busy {
    /// Patterns that are searched right now.
    pub(crate) searches: Vec<Search>,
    /// Patterns that need no search for now, and where the next one begins at the earliest.
    pub(crate) parked: Vec<(u32, u64)>,
    /// Matches that are decided, but may not be the next in order.
    pub(crate) waiting: Vec<Match>,
}

impl Busy {
    pub(crate) fn is_empty(&self) -> bool {
        self.searches.is_empty() && self.parked.is_empty() && self.waiting.is_empty()
    }

    fn heap_bytes(&self) -> usize {
        size_of::<Self>()
            + self.searches.capacity() * size_of::<Search>()
            + self.parked.capacity() * size_of::<(u32, u64)>()
            + self.waiting.capacity() * size_of::<Match>()
    }
}

/// The search for one pattern's leftmost match.
#[derive(Debug, Clone)]
pub(crate) struct Search {
    pub(crate) pattern: u32,
    /// State while a piece is looked at, and between pieces.
    pub(crate) number: u32,
    pub(crate) state: Option<State>,
    /// Where it began, and where it is.
    pub(crate) from: u64,
    pub(crate) at: u64,
    /// It did not begin where no match was under way: bytes before are gone.
    pub(crate) is_cut: bool,
    /// The end of the match, unless a preferred one is found.
    pub(crate) end: Option<u64>,
}

/// The bytes that can be looked at: what was kept, and the piece at hand.
pub(crate) struct Window<'a> {
    pub(crate) history: &'a VecDeque<u8>,
    pub(crate) base: u64,
    pub(crate) before: Context,
    pub(crate) piece: &'a [u8],
    pub(crate) piece_at: u64,
    /// What is behind the piece, where that is known to be no byte.
    pub(crate) behind: Context,
}

impl Window<'_> {
    pub(crate) fn byte(&self, at: u64) -> Option<u8> {
        match at.checked_sub(self.piece_at) {
            Some(n) => self.piece.get(n as usize).copied(),
            None => self.history.get(at.checked_sub(self.base)? as usize).copied(),
        }
    }
}
