//! How many packets pass each stage, and how long they take there.

use std::time::{Duration, Instant};

/// A stage of the data path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The part of the program before the first lookup.
    Head,
    /// Lookup, tail, sessions and subscribers.
    Tail,
}

/// Packets and time per stage of one worker. Three clock readings per burst.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stages {
    packets: [u64; 2],
    time: [Duration; 2],
}

impl Stages {
    /// Counts `packets` at a stage, which took from `since` until now; now.
    pub(crate) fn lap(&mut self, stage: Stage, packets: usize, since: Instant) -> Instant {
        let now = Instant::now();
        self.packets[stage as usize] += packets as u64;
        self.time[stage as usize] += now - since;
        now
    }

    /// Packets that passed the stage, and time spent there.
    pub fn of(&self, stage: Stage) -> (u64, Duration) {
        (self.packets[stage as usize], self.time[stage as usize])
    }

    /// Adds another worker's.
    pub fn merge(&mut self, other: &Self) {
        for stage in 0..2 {
            self.packets[stage] += other.packets[stage];
            self.time[stage] += other.time[stage];
        }
    }
}
