//! All states of a machine in one table, and the loops over bytes that need no more than it.
//!
//! States are ordered so that comparing a state with a bound tells what it is: idle ones first, then those in
//! which a match is under way, then those behind which one ended. A state is the index of its row.

use regex_automata::Span;
use regex_automata::util::prefilter::Prefilter;

use crate::lazy::LazyDfa;
use crate::machine::{Context, Goal, Machine, Work};

/// The most states of a table: beyond them building takes too long.
pub(crate) const STATES_MAX: usize = 16_384;
/// The most bytes that a table takes, and its states while they are found.
pub(crate) const TABLE_BYTES_MAX: usize = 64 << 20;
/// How many bytes of each lane are looked at before lanes are joined again.
const LANE_BYTES: usize = 256;
const LANES: usize = 4;
/// A prefilter is given up for the bytes at hand if after so many calls
const PREFILTER_TRIALS: usize = 8;
/// it did not skip so many bytes a call.
const PREFILTER_BYTES_MIN: usize = 64;

#[derive(Debug)]
pub(crate) struct Dense {
    rows: Vec<u32>,
    stride: u32,
    classes: [u8; 256],
    under_way_from: u32,
    ended_from: u32,
    /// Of each state from `ended_from` on: whether it is idle, and the patterns that ended.
    ended: Vec<(bool, Box<[u32]>)>,
    initial: [u32; Context::ALL.len()],
    /// The idle state behind each byte.
    idle_after: Box<[u32; 256]>,
}

/// How far a scan came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) state: u32,
    /// Bytes looked at; the scan stopped behind the first that told of an end.
    pub(crate) at: usize,
    /// Where no match was under way last, if that was within the scan and before `at`'s byte told of an end.
    pub(crate) idle_at: Option<usize>,
}

impl Dense {
    /// The table of a machine; none where it would be larger than the bounds.
    pub(crate) fn build(machine: &Machine) -> Option<Self> {
        let mut work = Work::new(TABLE_BYTES_MAX);
        let mut states = LazyDfa::new(Goal::Ends);
        let initial = Context::ALL.map(|c| states.number(machine, &mut work, machine.initial(c)));
        let mut done = 0;
        while done < states.len() {
            for symbol in 0..machine.symbols() {
                states.step(machine, &mut work, done as u32, symbol);
                if work.clears > 0 || states.len() > STATES_MAX {
                    return None;
                }
            }
            done += 1;
        }
        let kind = |number: u32| match states.facts(number) {
            facts if facts.matched() => 2,
            facts if facts.idle() => 0,
            _ => 1,
        };
        let mut order: Vec<u32> = (0..states.len() as u32).collect();
        order.sort_by_key(|&number| kind(number));
        let stride = machine.symbols() as u32;
        let mut place = vec![0; order.len()];
        for (n, &number) in order.iter().enumerate() {
            place[number as usize] = n as u32 * stride;
        }
        let mut rows = Vec::with_capacity(order.len() * stride as usize);
        for &number in &order {
            rows.extend(states.row(machine, number).iter().map(|&next| place[next as usize]));
        }
        let count = |below: u32| order.iter().filter(|&&n| kind(n) < below).count();
        let ended = order[count(2)..]
            .iter()
            .map(|&n| (states.facts(n).idle(), states.state(n).patterns().into()))
            .collect();
        let initial = initial.map(|number| place[number as usize]);
        let after = |byte| initial[machine.context_of(byte) as usize];
        Some(Self {
            rows,
            stride,
            classes: *machine.classes(),
            under_way_from: count(1) as u32 * stride,
            ended_from: count(2) as u32 * stride,
            ended,
            initial,
            idle_after: Box::new(std::array::from_fn(|byte| after(byte as u8))),
        })
    }

    pub(crate) fn initial(&self, context: Context) -> u32 {
        self.initial[context as usize]
    }

    pub(crate) fn step(&self, state: u32, symbol: usize) -> u32 {
        self.rows[state as usize + symbol]
    }

    /// The patterns that ended before the last symbol.
    pub(crate) fn ended(&self, state: u32) -> &[u32] {
        match state.checked_sub(self.ended_from) {
            Some(row) => &self.ended[(row / self.stride) as usize].1,
            None => &[],
        }
    }

    pub(crate) fn is_idle(&self, state: u32) -> bool {
        match state.checked_sub(self.ended_from) {
            Some(row) => self.ended[(row / self.stride) as usize].0,
            None => state < self.under_way_from,
        }
    }

    fn next(&self, state: u32, byte: u8) -> u32 {
        self.rows[state as usize + usize::from(self.classes[usize::from(byte)])]
    }

    /// From `bytes[at..]` on to the first byte that tells of an end, or to the end of the bytes.
    pub(crate) fn scan(&self, prefilter: Option<&Prefilter>, from: u32, bytes: &[u8], at: usize) -> Scan {
        let mut scan = Scan { state: from, at, idle_at: None };
        if let Some(prefilter) = prefilter {
            self.scan_skipping(prefilter, &mut scan, bytes);
        }
        while scan.state < self.ended_from && bytes.len() - scan.at >= LANES * LANE_BYTES {
            match self.scan_lanes(&scan, bytes) {
                Some(further) => scan = further,
                None => break,
            }
        }
        if scan.state < self.ended_from || scan.at == at {
            self.scan_plain(&mut scan, bytes, |_| false);
        }
        scan
    }

    /// Goes from one place where a match may begin to the next, as long as that is far.
    fn scan_skipping(&self, prefilter: &Prefilter, scan: &mut Scan, bytes: &[u8]) {
        let (mut calls, mut skipped) = (0, 0);
        while scan.at < bytes.len() && (calls < PREFILTER_TRIALS || skipped >= calls * PREFILTER_BYTES_MIN) {
            if scan.state < self.under_way_from {
                let to = match prefilter.find(bytes, Span::from(scan.at..bytes.len())) {
                    Some(found) => found.start,
                    // What it looks for may have begun in the last bytes.
                    None => {
                        bytes.len().saturating_sub(prefilter.max_needle_len().saturating_sub(1)).max(scan.at)
                    }
                };
                if to > scan.at {
                    (calls, skipped) = (calls + 1, skipped + to - scan.at);
                    let state = self.idle_after[usize::from(bytes[to - 1])];
                    *scan = Scan { state, at: to, idle_at: Some(to) };
                } else {
                    calls += 1;
                }
            }
            self.scan_plain(scan, bytes, |state| state < self.under_way_from);
            if scan.state >= self.ended_from {
                return;
            }
        }
    }

    /// Byte by byte, up to an end or behind a byte after which `enough` holds.
    fn scan_plain(&self, scan: &mut Scan, bytes: &[u8], enough: impl Fn(u32) -> bool) {
        let from = scan.at;
        let (mut state, mut idle_at) = (scan.state, usize::MAX);
        let mut at = bytes.len();
        for (n, &byte) in bytes[from..].iter().enumerate() {
            state = self.next(state, byte);
            if state >= self.ended_from {
                at = from + n + 1;
                break;
            }
            idle_at = if state < self.under_way_from { from + n + 1 } else { idle_at };
            if enough(state) {
                at = from + n + 1;
                break;
            }
        }
        let idle_at = if idle_at == usize::MAX { scan.idle_at } else { Some(idle_at) };
        *scan = Scan { state, at, idle_at };
    }

    /// Several stretches at once, for what one costs: each byte waits for the table, not for the processor.
    /// Each but the first is begun as if no match were under way there. Where one is, its stretch is gone over
    /// again up to where that one is over: from there on both ways are the same, as an idle state is the same
    /// whatever came before. `None` where a match ends within: that is for [`Self::scan_plain`] to find.
    fn scan_lanes(&self, scan: &Scan, bytes: &[u8]) -> Option<Scan> {
        let lane =
            |n: usize| -> Option<&[u8; LANE_BYTES]> { bytes[scan.at + n * LANE_BYTES..].first_chunk() };
        let (a, b, c, d) = (lane(0)?, lane(1)?, lane(2)?, lane(3)?);
        let begin = |before: &[u8; LANE_BYTES]| self.idle_after[usize::from(before[LANE_BYTES - 1])];
        let mut states = [scan.state, begin(a), begin(b), begin(c)];
        let mut idle = [0; LANES];
        for n in 0..LANE_BYTES {
            for (lane, byte) in [a[n], b[n], c[n], d[n]].into_iter().enumerate() {
                states[lane] = self.next(states[lane], byte);
                idle[lane] = if states[lane] < self.under_way_from { n + 1 } else { idle[lane] };
            }
            if states.iter().any(|&state| state >= self.ended_from) {
                return None;
            }
        }
        let mut joined = Scan { state: states[0], at: scan.at + LANE_BYTES, idle_at: scan.idle_at };
        if idle[0] > 0 {
            joined.idle_at = Some(scan.at + idle[0]);
        }
        for lane in 1..LANES {
            let end = joined.at + LANE_BYTES;
            let mut again = joined;
            if joined.state >= self.under_way_from {
                self.scan_plain(&mut again, &bytes[..end], |state| state < self.under_way_from);
            }
            if again.state >= self.ended_from {
                return None;
            }
            if again.state < self.under_way_from {
                let idle_at = again.idle_at.max(Some(joined.at + idle[lane]));
                again = Scan { state: states[lane], at: end, idle_at };
            }
            joined = again;
        }
        Some(joined)
    }
}
