//! Loops over bytes: as fast as a table of states allows, to the first byte that tells of an end.
//!
//! Three ways, each from where the one before stopped: from one place where a match may begin to the next (`skip`);
//! four stretches side by side; byte by byte.

use crate::skip::Skipper;

/// How many bytes of each lane are looked at before lanes are joined again.
const LANE_BYTES_MAX: usize = 512;
/// With fewer, it is not worth it.
const LANE_BYTES_MIN: usize = 16;
const LANES: usize = 4;

/// States and what follows them.
pub(crate) trait Table {
    /// The state behind `byte`.
    fn next(&self, state: u32, byte: u8) -> u32;
    /// A match ended before the last byte; or the state is not known.
    fn stops(&self, state: u32) -> bool;
    /// No match is under way. Of states that stop the scan it tells nothing.
    fn is_idle(&self, state: u32) -> bool;
    /// The one idle state behind `byte`.
    fn idle_after(&self, byte: u8) -> u32;
}

/// How far a scan came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) state: u32,
    /// The state before the byte at which the scan stopped.
    pub(crate) before: u32,
    /// Bytes looked at; the scan stopped behind the first that told of an end.
    pub(crate) at: usize,
    /// Where no match was under way last, if that was within the scan and before the byte it stopped at.
    pub(crate) idle_at: Option<usize>,
}

impl Scan {
    pub(crate) fn new(state: u32, at: usize) -> Self {
        Self { state, before: state, at, idle_at: None }
    }

    /// From `bytes[at..]` on to the first byte that tells of an end, or to the end of the bytes.
    pub(crate) fn run(&mut self, table: &impl Table, skipper: &mut Skipper, bytes: &[u8]) {
        if table.stops(self.state) {
            // It told of an end before.
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

    /// Goes from one place where a match may begin to the next, as long as that pays.
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

    /// Byte by byte, up to an end or behind a byte after which `enough` holds of the state and the place.
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

    /// Several stretches at once, for what one costs: each byte waits for the table, not for the processor.
    /// Each but the first is begun as if no match were under way there. Where one is, its stretch is gone over
    /// again up to where that one is over: from there on both ways are the same, as an idle state is the same
    /// whatever came before. `None` where the scan stops within: that is for [`Self::run_plain`] to find.
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
