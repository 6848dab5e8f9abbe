//! Interarrival jitter (RFC 3550 §6.4.1, §A.8).
//!
//! Jitter is computed in units of the payload's clock. The clock of a dynamic payload type is unknown; then
//! jitter is computed for each common clock, and the clock whose timestamps advance as fast as time is chosen
//! at the end.

use weir_packet::Timestamp;

/// Common clock rates, Hz.
const CLOCKS: [u32; 6] = [8000, 16_000, 32_000, 44_100, 48_000, 90_000];

/// Shortest time from which a clock rate can be derived, nanoseconds.
const TELLING_NS: i64 = 500_000_000;

/// Largest relative deviation of a clock rate.
const TOLERANCE: f64 = 0.05;

const NS_PER_SECOND: f64 = 1e9;

/// Jitter for one clock, in its units.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Estimate {
    now: f64,
    most: f64,
    sum: f64,
}

/// The jitter of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Jitter {
    /// The clock rate, if the payload type determines it.
    clock: Option<u32>,
    /// For that clock, or for each of [`CLOCKS`].
    estimates: [Estimate; CLOCKS.len()],
    last: (Timestamp, u32),
    first_time: Timestamp,
    /// Clock units since the first packet.
    units: i64,
    packets: u64,
}

/// Results.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Outcome {
    /// Clock rate, Hz.
    pub(super) clock: u32,
    /// Current jitter as in receiver reports, nanoseconds.
    pub(super) now_ns: u64,
    /// Maximum, nanoseconds.
    pub(super) most_ns: u64,
    /// Mean, nanoseconds.
    pub(super) mean_ns: u64,
}

impl Jitter {
    pub(super) fn new(clock: Option<u32>, time: Timestamp, timestamp: u32) -> Self {
        Self {
            clock,
            estimates: Default::default(),
            last: (time, timestamp),
            first_time: time,
            units: 0,
            packets: 0,
        }
    }

    /// Updates the jitter with the next packet of the same payload type.
    pub(super) fn take(&mut self, time: Timestamp, timestamp: u32) {
        let (last_time, last_timestamp) = std::mem::replace(&mut self.last, (time, timestamp));
        let seconds = time.0.saturating_sub(last_time.0) as f64 / NS_PER_SECOND;
        let units = timestamp.wrapping_sub(last_timestamp) as i32;
        self.units = self.units.saturating_add(units.into());
        self.packets += 1;
        let step = |estimate: &mut Estimate, clock: u32| {
            let difference = (seconds * f64::from(clock) - f64::from(units)).abs();
            estimate.now += (difference - estimate.now) / 16.0;
            estimate.most = estimate.most.max(estimate.now);
            estimate.sum += estimate.now;
        };
        match self.clock {
            Some(clock) => step(&mut self.estimates[0], clock),
            None => self.estimates.iter_mut().zip(CLOCKS).for_each(|(estimate, clock)| step(estimate, clock)),
        }
    }

    /// The results. `None` if there is only one packet or no clock fits.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        if self.packets == 0 {
            return None;
        }
        let (clock, estimate) = match self.clock {
            Some(clock) => (clock, self.estimates[0]),
            None => {
                let elapsed_ns = self.last.0.0.saturating_sub(self.first_time.0);
                if elapsed_ns < TELLING_NS {
                    return None;
                }
                let rate = self.units as f64 / (elapsed_ns as f64 / NS_PER_SECOND);
                let at =
                    CLOCKS.iter().position(|clock| (rate / f64::from(*clock) - 1.0).abs() < TOLERANCE)?;
                (CLOCKS[at], self.estimates[at])
            }
        };
        // Casts saturate.
        let ns = |units: f64| (units / f64::from(clock) * NS_PER_SECOND) as u64;
        Some(Outcome {
            clock,
            now_ns: ns(estimate.now),
            most_ns: ns(estimate.most),
            mean_ns: ns(estimate.sum / self.packets as f64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn what_comes_evenly_has_none() {
        let mut jitter = Jitter::new(Some(8000), Timestamp(0), u32::MAX - 200);
        for packet in 1..100 {
            jitter.take(Timestamp(packet * 20 * MS), (u32::MAX - 200).wrapping_add(packet as u32 * 160));
        }
        assert_eq!(jitter.outcome().map(|outcome| outcome.most_ns), Some(0));
    }

    #[test]
    fn a_packet_that_is_late_makes_some() {
        let mut jitter = Jitter::new(Some(8000), Timestamp(0), 0);
        jitter.take(Timestamp(36 * MS), 160);
        // 16 ms late: a sixteenth of that.
        assert_eq!(jitter.outcome().map(|outcome| outcome.now_ns), Some(1_000_000));
    }

    #[test]
    fn a_clock_that_is_not_told_is_found() {
        for (clock, units) in [(90_000, 1800), (48_000, 960), (16_000, 320)] {
            let mut jitter = Jitter::new(None, Timestamp(0), 7);
            for packet in 1..100 {
                jitter.take(Timestamp(packet * 20 * MS + packet % 2 * MS), 7 + packet as u32 * units);
            }
            let outcome = jitter.outcome().expect("told");
            assert_eq!(outcome.clock, clock);
            assert!((900_000..1_000_000).contains(&outcome.now_ns), "{}", outcome.now_ns);
        }
        let mut none = Jitter::new(None, Timestamp(0), 7);
        none.take(Timestamp(2000 * MS), 10);
        assert_eq!(none.outcome(), None);
    }
}
