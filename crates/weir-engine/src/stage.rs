//! Counts the items that pass each stage of a run, and the cycles that the stage takes.
//!
//! Items are always counted. The time-stamp counter is read only if the plan asks for it
//! ([`Plan::timed`](crate::plan::Plan::timed)): around bursts, never around packets, and around bytes
//! delivered to sessions. The time of an inner stage does not count for the enclosing stage.

use quanta::Clock;

/// A stage of a run, in the order that packets pass them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Reads blocks and describes them as bursts, including the wait for decompression. Counts packets.
    Read,
    /// Selects the worker of each packet, if there are several. Counts packets.
    Dispatch,
    /// The part of the program before the first lookup. Counts packets.
    Head,
    /// Lookup, tail, subscribers; flows that end with one of their packets. Counts packets.
    Tail,
    /// Probes and parsers. Counts deliveries of bytes.
    Sessions,
    /// Flows that end by idle time or with the capture. Counts flows.
    Expire,
    /// Merges the rows of several workers into one order, and writes them. Counts rows.
    Output,
}

impl Stage {
    /// All stages, with the unit of their counts.
    pub const ALL: [(Stage, &'static str, &'static str); 7] = [
        (Stage::Read, "read", "packets"),
        (Stage::Dispatch, "dispatch", "packets"),
        (Stage::Head, "head", "packets"),
        (Stage::Tail, "tail", "packets"),
        (Stage::Sessions, "sessions", "deliveries"),
        (Stage::Expire, "expire", "flows"),
        (Stage::Output, "output", "rows"),
    ];
}

/// Counts and cycles per stage of one thread, or of a run.
#[derive(Debug, Clone, Default)]
pub struct Stages {
    counts: [u64; Stage::ALL.len()],
    cycles: [u64; Stage::ALL.len()],
    /// Cycles measured for all stages; each cycle counts for one stage.
    measured: u64,
    clock: Option<Clock>,
}

/// The start of a stage.
#[derive(Debug, Clone, Copy)]
pub struct Began {
    at: u64,
    measured: u64,
}

impl Stages {
    /// Empty counts; cycles are counted if `timed`.
    pub fn new(timed: bool) -> Self {
        Self { clock: timed.then(Clock::new), ..Self::default() }
    }

    /// Starts a stage.
    #[inline]
    pub fn begin(&self) -> Began {
        Began { at: self.now(), measured: self.measured }
    }

    /// Ends a stage that `count` items passed.
    #[inline]
    pub fn end(&mut self, stage: Stage, count: usize, began: Began) {
        self.counts[stage as usize] += count as u64;
        self.charge(stage, self.now().saturating_sub(began.at), began.measured);
    }

    /// Charges cycles to a stage, less the cycles measured meanwhile for inner stages.
    fn charge(&mut self, stage: Stage, cycles: u64, measured_before: u64) {
        let inner = self.measured - measured_before;
        let own = cycles.saturating_sub(inner);
        self.cycles[stage as usize] += own;
        self.measured += own;
    }

    #[inline]
    fn now(&self) -> u64 {
        self.clock.as_ref().map_or(0, Clock::raw)
    }

    /// The items that passed the stage, and its cycles (0 if cycles are not counted).
    pub fn of(&self, stage: Stage) -> (u64, u64) {
        (self.counts[stage as usize], self.cycles[stage as usize])
    }

    /// Cycles of all stages.
    pub fn cycles(&self) -> u64 {
        self.cycles.iter().sum()
    }

    /// The unit of cycles: one of the time-stamp counter, whose rate does not depend on the processor's
    /// clock, or a nanosecond on machines without a steady counter.
    pub fn unit(&self) -> &'static str {
        const SOME: u64 = 1 << 30;
        match &self.clock {
            Some(clock) if clock.delta_as_nanos(0, SOME) != SOME => "cycles",
            _ => "ns",
        }
    }

    /// Adds the counts of another thread.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.cycles.iter_mut().zip(other.cycles).for_each(|(mine, theirs)| *mine += theirs);
        self.measured += other.measured;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_stand_in_their_order() {
        assert!(Stage::ALL.iter().enumerate().all(|(index, (stage, ..))| *stage as usize == index));
    }

    #[test]
    fn what_an_inner_stage_takes_is_not_the_outer_ones() {
        let mut stages = Stages::default();
        let tail = stages.begin();
        let sessions = stages.begin();
        stages.charge(Stage::Sessions, 30, sessions.measured);
        let sessions = stages.begin();
        stages.charge(Stage::Sessions, 20, sessions.measured);
        stages.charge(Stage::Tail, 75, tail.measured);
        let head = stages.begin();
        stages.charge(Stage::Head, 10, head.measured);
        assert_eq!((stages.of(Stage::Sessions).1, stages.of(Stage::Tail).1), (50, 25));
        assert_eq!((stages.of(Stage::Head).1, stages.cycles()), (10, 85));
    }

    #[test]
    fn without_a_clock_only_counts_are_kept() {
        let mut stages = Stages::new(false);
        let began = stages.begin();
        stages.end(Stage::Head, 64, began);
        assert_eq!(stages.of(Stage::Head), (64, 0));
        let mut timed = Stages::new(true);
        let began = timed.begin();
        std::hint::black_box((0..10_000).fold(0u64, |sum, n| std::hint::black_box(sum ^ n)));
        timed.end(Stage::Head, 1, began);
        assert!(timed.of(Stage::Head).1 > 0);
        timed.merge(&stages);
        assert_eq!(timed.of(Stage::Head).0, 65);
    }
}
