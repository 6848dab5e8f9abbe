//! Rates of the last minutes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};
use weir::Glance;

/// Time between two samples.
const PERIOD: Duration = Duration::from_secs(1);

/// Samples that are kept: as many as a wide terminal shows.
const SAMPLES_MAX: usize = 600;

/// The rates between two glances.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rates {
    /// Packets per second.
    pub packets: f64,
    /// Bits on the wire per second.
    pub bits: f64,
}

/// The rates so far, one for each second.
#[derive(Debug, Default)]
pub struct History {
    last: Option<(Instant, Glance)>,
    rates: VecDeque<Rates>,
}

impl History {
    /// Takes a glance at a time, if a second has passed since the last one.
    pub fn sample(&mut self, now: Instant, glance: &Glance) {
        let Some((at, before)) = &self.last else {
            self.last = Some((now, *glance));
            return;
        };
        let passed = now - *at;
        if passed < PERIOD {
            return;
        }
        let of = |before: u64, now: u64| now.saturating_sub(before) as f64 / passed.as_secs_f64();
        let packets = |glance: &Glance| glance.counters.packet.packets + glance.source.discarded()[0];
        let bytes = |glance: &Glance| glance.counters.packet.wire_bytes + glance.source.discarded()[1];
        let (packets, bits) = (of(packets(before), packets(glance)), of(bytes(before), bytes(glance)) * 8.0);
        if self.rates.len() == SAMPLES_MAX {
            self.rates.pop_front();
        }
        self.rates.push_back(Rates { packets, bits });
        self.last = Some((now, *glance));
    }

    /// The latest rates.
    pub fn latest(&self) -> Rates {
        self.rates.back().copied().unwrap_or_default()
    }

    /// The last `count` values of a rate, the latest last.
    pub fn last(&self, count: usize, of: fn(&Rates) -> f64) -> Vec<u64> {
        let skipped = self.rates.len().saturating_sub(count);
        self.rates.iter().skip(skipped).map(|rates| of(rates) as u64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_by_time() {
        let (mut history, begin, mut glance) = (History::default(), Instant::now(), Glance::default());
        for second in 0..=SAMPLES_MAX as u64 + 5 {
            glance.counters.packet.packets = second * second;
            history.sample(begin + Duration::from_secs(second), &glance);
            history.sample(begin + Duration::from_millis(second * 1000 + 500), &glance);
        }
        assert_eq!(history.rates.len(), SAMPLES_MAX);
        assert_eq!(history.latest().packets, 2.0 * (SAMPLES_MAX as f64 + 5.0) - 1.0);
        assert_eq!(history.last(2, |rates| rates.packets), [1207, 1209]);
    }
}
