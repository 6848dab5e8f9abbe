//! Overload control, after Scap (Papadogiannakis et al., IMC 2013, section 2.2, "prioritized packet loss"):
//! if memory is short, streams of low priority and the tails of long streams lose bytes first. Sessions use
//! the same memory.
//!
//! Above the base threshold, equally spaced watermarks divide the rest of the budget into one region per
//! priority in use. The `i`-th of these priorities (from 0) has the region between watermarks `i` and
//! `i + 1`: within the region, bytes beyond the overload cutoff of their stream are refused; above the
//! region, all bytes are.

use crate::counters::StreamCounters;

/// Limit of the number of priorities. Priorities start at 0, the lowest.
pub const PRIORITIES_MAX: u8 = 16;

/// Bounds on the memory of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverloadParams {
    /// Bytes that a worker may hold for streams and sessions: chunks, waiting segments, state of parsers.
    pub memory_max: usize,
    /// The part of `memory_max`, in thousandths, up to which nothing is refused.
    pub base_permille: u16,
    /// Bytes at the start of each stream that are refused last when memory is short; `u64::MAX`: all bytes
    /// alike.
    pub cutoff: u64,
    /// The priorities in use.
    pub priorities: Priorities,
}

/// A set of priorities in use: memory is divided by their number, whatever their values (Scap, section 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Priorities(u16);

impl Priorities {
    /// A set of these priorities.
    pub fn of(priorities: impl IntoIterator<Item = u8>) -> Self {
        let mut all = Self::default();
        priorities.into_iter().for_each(|priority| all.insert(priority));
        all
    }

    /// Adds a priority; one above the limit counts as the highest.
    pub fn insert(&mut self, priority: u8) {
        self.0 |= 1 << priority.min(PRIORITIES_MAX - 1);
    }

    /// The number of priorities, at least 1.
    pub(crate) fn count(self) -> usize {
        self.0.count_ones().max(1) as usize
    }

    /// The number of priorities in use below this one; a priority that is not in use counts as the next lower
    /// one.
    pub(crate) fn rank(self, priority: u8) -> usize {
        let up_to = u16::MAX >> (PRIORITIES_MAX - 1 - priority.min(PRIORITIES_MAX - 1));
        ((self.0 & up_to).count_ones() as usize).saturating_sub(1)
    }
}

impl Default for OverloadParams {
    fn default() -> Self {
        Self {
            memory_max: 512 << 20,
            base_permille: 500,
            cutoff: u64::MAX,
            priorities: Priorities::default(),
        }
    }
}

/// A worker's memory account.
#[derive(Debug)]
pub struct Overload {
    params: OverloadParams,
    /// Bytes of chunks.
    chunk_bytes: usize,
    /// Bytes that each stream needs and that cannot be refused: descriptions of chunks, and their scheduled
    /// times.
    fixed_bytes: usize,
    /// Bytes of session parsers, of connections whose protocol is not known yet, and of sessions that are
    /// still in use.
    session_bytes: isize,
    /// Bytes of sessions that wait for the record of their connection.
    held_session_bytes: usize,
    /// Bytes that flow tables obtained beyond their smallest size. They are never returned.
    table_bytes: usize,
    /// The program's allocator counts bytes.
    is_counted: bool,
    counters: StreamCounters,
}

impl Overload {
    /// An empty account.
    pub fn new(params: OverloadParams) -> Self {
        Self {
            params,
            chunk_bytes: 0,
            fixed_bytes: 0,
            session_bytes: 0,
            held_session_bytes: 0,
            table_bytes: 0,
            is_counted: weir_memory::is_counting(),
            counters: StreamCounters::default(),
        }
    }

    /// The priorities in use.
    pub(crate) fn priorities(&self) -> Priorities {
        self.params.priorities
    }

    /// Whether `more` bytes of memory may be held, besides `queued` bytes that wait in sequences, for bytes
    /// of a stream up to offset `end`.
    pub fn admits(&self, priority: u8, end: u64, more: usize, queued: usize) -> bool {
        let used = self.used(queued).saturating_add(more);
        let base = self.base();
        if used <= base {
            return true;
        }
        let count = self.params.priorities.count();
        let region = (self.params.memory_max - base) / count;
        let rank = self.params.priorities.rank(priority);
        let own = base + region * rank;
        // The last watermark is the whole memory, without rounding errors.
        let above = if rank + 1 == count { self.params.memory_max } else { own + region };
        used <= own || used <= above && end <= self.params.cutoff
    }

    /// Bytes up to which nothing is refused.
    fn base(&self) -> usize {
        (self.params.memory_max as u128 * u128::from(self.params.base_permille.min(1000)) / 1000) as usize
    }

    fn used(&self, queued: usize) -> usize {
        let of_streams = self.chunk_bytes.saturating_add(self.fixed_bytes);
        // Where the allocator counts, held sessions are among the others.
        let held_sessions = if self.is_counted { 0 } else { self.held_session_bytes };
        let of_sessions = self.session_bytes().saturating_add(held_sessions);
        of_streams.saturating_add(of_sessions).saturating_add(self.table_bytes).saturating_add(queued)
    }

    /// Whether a flow table may grow by `more` bytes: tables do not return memory, so they only grow below
    /// the base threshold.
    pub fn admits_growth(&self, more: usize, queued: usize) -> bool {
        self.used(queued).saturating_add(more) <= self.base()
    }

    /// Charges bytes that a table obtained.
    pub fn charge_tables(&mut self, bytes: usize) {
        self.table_bytes += bytes;
    }

    /// Sets the bytes that all tables obtained.
    pub fn set_table_bytes(&mut self, bytes: usize) {
        self.table_bytes = bytes;
    }

    /// Whether memory is short: more is used than the base threshold.
    #[inline]
    pub fn is_short(&self, queued: usize) -> bool {
        self.used(queued) > self.base()
    }

    /// Bytes that the sessions of one connection may hold: a quarter of the memory.
    pub fn sessions_of_one_max(&self) -> usize {
        self.params.memory_max / 4
    }

    /// Bytes that sessions may hold while they wait for the record of their connection: a quarter of the
    /// memory.
    pub fn held_sessions_max(&self) -> usize {
        self.params.memory_max / 4
    }

    /// Sets the memory of these sessions.
    pub fn set_held_session_bytes(&mut self, bytes: usize) {
        self.held_session_bytes = bytes;
    }

    /// Bytes of memory of these sessions.
    pub fn held_session_bytes(&self) -> usize {
        self.held_session_bytes
    }

    /// As in a program whose allocator does not count.
    #[cfg(test)]
    pub fn uncounted(self) -> Self {
        Self { is_counted: false, ..self }
    }

    /// Whether the program's allocator counts bytes.
    #[inline]
    pub fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// Adds to the memory of sessions, or subtracts if `bytes` is negative.
    pub fn charge_sessions(&mut self, bytes: isize) {
        self.session_bytes += bytes;
    }

    /// Bytes of memory of all sessions.
    pub fn session_bytes(&self) -> usize {
        self.session_bytes.try_into().unwrap_or(0)
    }

    /// Whether more memory is used than allowed, including the `queued` bytes that wait in sequences.
    pub fn is_exceeded(&self, queued: usize) -> bool {
        self.used(queued) > self.params.memory_max
    }

    /// Changes the memory of a chunk from `old` to `new` bytes.
    pub fn resize(&mut self, old: usize, new: usize) {
        self.chunk_bytes = self.chunk_bytes - old + new;
        self.counters.stream_bytes_peak = self.counters.stream_bytes_peak.max(self.chunk_bytes as u64);
    }

    /// Charges bytes that a stream needs and that cannot be refused; other bytes are refused earlier.
    pub fn hold(&mut self, bytes: usize) {
        self.fixed_bytes += bytes;
    }

    /// Removes such bytes from the account.
    pub fn let_go(&mut self, bytes: usize) {
        self.fixed_bytes -= bytes;
    }

    /// Bytes held now: of chunks, and bytes that cannot be refused.
    pub fn held_bytes(&self) -> (usize, usize) {
        (self.chunk_bytes, self.fixed_bytes)
    }

    /// Counts bytes of a chunk that were given up.
    pub fn drop_bytes(&mut self, bytes: u64) {
        self.counters.stream_bytes_dropped += bytes;
    }

    /// Counts an out-of-order segment that was not kept.
    pub fn drop_segment(&mut self) {
        self.counters.stream_segments_dropped += 1;
    }

    /// The counters.
    pub fn counters(&self) -> StreamCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(priorities: u8, cutoff: u64, bytes: usize) -> Overload {
        let priorities = Priorities::of(0..priorities);
        let params = OverloadParams { memory_max: 1000, base_permille: 400, cutoff, priorities };
        let mut overload = Overload::new(params);
        overload.resize(0, bytes);
        overload
    }

    #[test]
    fn below_the_base_threshold_everything_is_kept() {
        let overload = held(3, 0, 300);
        assert!((0..3).all(|priority| overload.admits(priority, u64::MAX, 100, 0)));
        assert!(!overload.admits(0, u64::MAX, 101, 0) && !overload.admits(0, u64::MAX, 1, 100));
    }

    #[test]
    fn low_priorities_lose_first() {
        // Watermarks at 400, 600, 800, 1000.
        let admitted = |used, offset: u64| {
            let overload = held(3, 50, used);
            [0, 1, 2].map(|priority| overload.admits(priority, offset + 1, 1, 0))
        };
        assert_eq!(admitted(500, 0), [true, true, true]);
        assert_eq!(admitted(500, 50), [false, true, true], "beyond the overload cutoff");
        assert_eq!(admitted(700, 0), [false, true, true]);
        assert_eq!(admitted(700, 50), [false, false, true]);
        assert_eq!(admitted(900, 49), [false, false, true]);
        assert_eq!(admitted(900, 50), [false, false, false]);
        assert_eq!(admitted(1000, 0), [false, false, false]);
    }

    #[test]
    fn what_comes_with_streams_leaves_less_for_chunks() {
        let mut overload = held(1, u64::MAX, 600);
        overload.hold(399);
        assert!(overload.admits(0, 1, 1, 0) && !overload.admits(0, 1, 2, 0));
        overload.let_go(399);
        assert_eq!((overload.held_bytes(), overload.admits(0, 1, 400, 0)), ((600, 0), true));
    }

    #[test]
    fn sessions_leave_less_for_chunks_and_have_no_more_than_all() {
        let mut overload = held(1, u64::MAX, 600);
        overload.charge_sessions(300);
        assert!(overload.admits(0, 1, 100, 0) && !overload.admits(0, 1, 101, 0));
        assert!(!overload.is_exceeded(100) && overload.is_exceeded(101));
        overload.charge_sessions(-300);
        assert_eq!((overload.session_bytes(), overload.admits(0, 1, 400, 0)), (0, true));
    }

    #[test]
    fn without_an_overload_cutoff_all_bytes_of_a_stream_are_alike() {
        let overload = held(1, u64::MAX, 999);
        assert!(overload.admits(0, 1 << 40, 1, 0) && !overload.admits(0, 0, 2, 0));
    }

    #[test]
    fn a_priority_beyond_those_in_use_counts_as_the_highest() {
        assert!(held(2, 0, 600).admits(200, 0, 1, 0));
    }

    #[test]
    fn memory_is_divided_by_the_number_of_priorities_in_use() {
        let priorities = Priorities::of([0, 9]);
        let params = OverloadParams { memory_max: 1000, base_permille: 400, cutoff: u64::MAX, priorities };
        let mut overload = Overload::new(params);
        // Watermarks at 400, 700, 1000, as for the priorities 0 and 1.
        overload.resize(0, 699);
        assert_eq!([0, 5, 9, 15].map(|priority| overload.admits(priority, 1, 1, 0)), [true; 4]);
        overload.resize(699, 700);
        assert_eq!(
            [0, 5, 9, 15].map(|priority| overload.admits(priority, 1, 1, 0)),
            [false, false, true, true]
        );
    }
}
