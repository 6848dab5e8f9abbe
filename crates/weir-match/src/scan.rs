//! Scan loops, as fast as a table of states allows, up to the first byte that reports an end.
//!
//! Three methods, each continuing where the previous one stopped: from one possible start of a match to the
//! next (`skip`); four segments in parallel; byte by byte.

use crate::skip::Skipper;

/// Bytes of each lane before the lanes are joined.
const LANE_BYTES_MAX: usize = 512;
/// Minimum number of bytes per lane: below it, lanes do not pay off.
const LANE_BYTES_MIN: usize = 16;
const LANES: usize = 4;

/// States and their successors.
pub(crate) trait Table {
    /// The state after `byte`.
    fn next(&self, state: u32, byte: u8) -> u32;
    /// A match ended before the last byte, or the state is unknown.
    fn stops(&self, state: u32) -> bool;
    /// No match is in progress. Unspecified for states that stop the scan.
    fn is_idle(&self, state: u32) -> bool;
    /// The unique idle state after `byte`.
    fn idle_after(&self, byte: u8) -> u32;
}

/// The result of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) state: u32,
    /// The state before the byte at which the scan stopped.
    pub(crate) before: u32,
    /// The number of scanned bytes; the scan stopped after the first byte that reported an end.
    pub(crate) at: usize,
    /// The last offset without a match in progress, if that is within the scan and before the stop.
    pub(crate) idle_at: Option<usize>,
}

impl Scan {
    pub(crate) fn new(state: u32, at: usize) -> Self {
        Self { state, before: state, at, idle_at: None }
    }

    /// Scans from `bytes[at..]` to the first byte that reports an end, or to the end of the bytes.
    pub(crate) fn run(&mut self, table: &impl Table, skipper: &mut Skipper, bytes: &[u8]) {
        if table.stops(self.state) {
            // The state reported an end before.
            self.run_plain(table, bytes, |_, _| true);
        }
        self.skip(table, skipper, bytes);
        while !table.stops(self.state) && bytes.len() - self.at >= LANES * LANE_BYTES_MIN {
            match self.run_lanes(table, bytes) {
                Some(further) => *self = further,
                None => break,
            }
        }
        if !table.stops(self.state) {
            self.run_plain(table, bytes, |_, _| false);
        }
    }

    /// Jumps from one possible start of a match to the next, as long as that pays off.
    fn skip(&mut self, table: &impl Table, skipper: &mut Skipper, bytes: &[u8]) {
        if !skipper.begin(bytes.len() - self.at) {
            return;
        }
        while self.at < bytes.len() && !table.stops(self.state) {
            let mut until = self.at;
            if table.is_idle(self.state) {
                let Some(place) = skipper.next(bytes, self.at) else { return };
                if place.from > self.at {
                    let state = table.idle_after(bytes[place.from - 1]);
                    *self = Self { idle_at: Some(place.from), ..Self::new(state, place.from) };
                }
                until = place.until;
            }
            self.run_plain(table, bytes, |state, at| at >= until && table.is_idle(state));
        }
    }

    /// Byte by byte, up to an end, or past a byte after which `enough` holds for state and offset.
    fn run_plain(&mut self, table: &impl Table, bytes: &[u8], enough: impl Fn(u32, usize) -> bool) {
        let from = self.at;
        let (mut state, mut before, mut idle_at) = (self.state, self.state, usize::MAX);
        self.at = bytes.len();
        for (n, &byte) in bytes[from..].iter().enumerate() {
            before = state;
            state = table.next(state, byte);
            if table.stops(state) {
                self.at = from + n + 1;
                break;
            }
            idle_at = if table.is_idle(state) { from + n + 1 } else { idle_at };
            if enough(state, from + n + 1) {
                self.at = from + n + 1;
                break;
            }
        }
        (self.state, self.before) = (state, before);
        self.idle_at = if idle_at == usize::MAX { self.idle_at } else { Some(idle_at) };
    }

    /// Scans several segments in parallel, at the cost of one: the loop is bound by the latency of the table,
    /// not by the processor. Each segment except the first assumes that no match is in progress at its start.
    /// If one is, the segment is scanned again until that match is over; from there on both scans agree,
    /// because an idle state does not depend on earlier bytes. `None` if the scan stops inside:
    /// [`Self::run_plain`] then finds the place.
    fn run_lanes(&self, table: &impl Table, bytes: &[u8]) -> Option<Self> {
        let length = ((bytes.len() - self.at) / LANES).min(LANE_BYTES_MAX);
        let lane = |n: usize| &bytes[self.at + n * length..][..length];
        let (a, b, c, d) = (lane(0), lane(1), lane(2), lane(3));
        let begin = |before: &[u8]| table.idle_after(before[length - 1]);
        let mut states = [self.state, begin(a), begin(b), begin(c)];
        let mut idle = [0; LANES];
        for (n, (((&a, &b), &c), &d)) in a.iter().zip(b).zip(c).zip(d).enumerate() {
            for (lane, byte) in [a, b, c, d].into_iter().enumerate() {
                states[lane] = table.next(states[lane], byte);
                idle[lane] = if table.is_idle(states[lane]) { n + 1 } else { idle[lane] };
            }
            if states.iter().any(|&state| table.stops(state)) {
                return None;
            }
        }
        let mut joined = Self { idle_at: self.idle_at, ..Self::new(states[0], self.at + length) };
        if idle[0] > 0 {
            joined.idle_at = Some(self.at + idle[0]);
        }
        for lane in 1..LANES {
            let end = joined.at + length;
            let mut again = joined;
            if !table.is_idle(joined.state) {
                again.run_plain(table, &bytes[..end], |state, _| table.is_idle(state));
            }
            if table.stops(again.state) {
                return None;
            }
            if table.is_idle(again.state) {
                let idle_at = again.idle_at.max(Some(joined.at + idle[lane]));
                again = Self { idle_at, ..Self::new(states[lane], end) };
            }
            joined = again;
        }
        Some(joined)
    }
}
