//! The state of a stream between two pieces.

use std::collections::VecDeque;

use crate::Match;
use crate::machine::{Context, State};

/// The search state of a stream (one direction of a connection); see [`Patterns::start`](crate::Patterns).
///
/// About 120 bytes while no match is in progress. During a match, the bytes from its earliest possible start
/// are kept as well, at most twice [`MATCH_BYTES_MAX`](crate::MATCH_BYTES_MAX) (up to twice that in memory),
/// and about 50 bytes for each pattern concerned. The state is independent of workers: any
/// [`Scratch`](crate::Scratch) of the same patterns can process the next piece.
#[derive(Debug, Clone, Default)]
pub struct StreamState {
    /// The number of bytes so far, including lost ones.
    pub(crate) position: u64,
    /// Lost bytes that are not processed yet: [`gap`](crate::Patterns::gap) cannot report matches.
    pub(crate) missing: u64,
    /// The last offset without a match in progress.
    pub(crate) idle_at: u64,
    /// The offset of `history`, and the context before it.
    pub(crate) base: u64,
    pub(crate) before: Context,
    /// State of the dense table.
    pub(crate) row: Option<u32>,
    /// State of the lazy machine; `None`: the initial one after `before`.
    pub(crate) state: Option<State>,
    /// The bytes from `base` to `position`.
    pub(crate) history: VecDeque<u8>,
    pub(crate) busy: Option<Box<Busy>>,
}

impl StreamState {
    /// The number of bytes fed and lost so far.
    pub fn position(&self) -> u64 {
        self.position.saturating_add(self.missing)
    }

    /// Approximate heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.history.capacity() + self.busy.as_ref().map_or(0, |busy| busy.heap_bytes())
    }
}

/// The state while some patterns may have matched.
#[derive(Debug, Clone, Default)]
pub(crate) struct Busy {
    /// Patterns with a search in progress.
    pub(crate) searches: Vec<Search>,
    /// Patterns without a search at the moment, and the earliest start of the next one.
    pub(crate) parked: Vec<(u32, u64)>,
    /// Complete matches that may not be the next in order.
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
    /// The state during a piece, and between pieces.
    pub(crate) number: u32,
    pub(crate) state: Option<State>,
    /// Its start and its current offset.
    pub(crate) from: u64,
    pub(crate) at: u64,
    /// It did not begin where no match was in progress: earlier bytes are gone.
    pub(crate) is_cut: bool,
    /// The end of the match, unless a preferred one is found.
    pub(crate) end: Option<u64>,
}

/// The accessible bytes: those kept before, and the current piece.
pub(crate) struct Window<'a> {
    pub(crate) history: &'a VecDeque<u8>,
    pub(crate) base: u64,
    pub(crate) before: Context,
    pub(crate) piece: &'a [u8],
    pub(crate) piece_at: u64,
    /// The context after the piece, if it is known not to be a byte.
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
