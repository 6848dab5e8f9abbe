//! Notices when the machine's clock is set: it then differs from the clock that runs steadily.

use std::time::{Duration, Instant, SystemTime};

/// Smaller steps are left alone: no time-out is so short, and clocks that are corrected slowly have none.
const STEP_MIN: Duration = Duration::from_secs(1);

/// The clock of the machine, compared with the steady one.
#[derive(Debug)]
pub(crate) struct ClockWatch {
    system: SystemTime,
    steady: Instant,
    /// Steps in nanoseconds that packets do not show yet: the ring has packets from before.
    pending_ns: i64,
}

impl ClockWatch {
    pub fn new() -> Self {
        Self { system: SystemTime::now(), steady: Instant::now(), pending_ns: 0 }
    }

    /// Looks at the clocks, which show these times. Called before each poll.
    pub fn look(&mut self, system: SystemTime, steady: Instant) {
        let expected = self.system + steady.saturating_duration_since(self.steady);
        let (step, sign) = match system.duration_since(expected) {
            Ok(ahead) => (ahead, 1),
            Err(behind) => (behind.duration(), -1),
        };
        if step >= STEP_MIN {
            let step_ns = i64::try_from(step.as_nanos()).unwrap_or(i64::MAX);
            self.pending_ns = self.pending_ns.saturating_add(sign * step_ns);
        }
        (self.system, self.steady) = (system, steady);
    }

    /// The step between the packets before and a packet of this time since 1970 in nanoseconds; `None`: no
    /// packet comes. 0: there was none, or the packet is from before the step.
    pub fn step_before(&mut self, packet_ns: Option<i64>) -> i64 {
        if self.pending_ns == 0 {
            return 0;
        }
        let now = self.system.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now_ns = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        let is_after =
            |time: i64| now_ns.saturating_sub(time).saturating_abs() <= self.pending_ns.saturating_abs() / 2;
        if packet_ns.is_none_or(is_after) { std::mem::take(&mut self.pending_ns) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_reported_once_packets_show_it() {
        let (system, steady) = (SystemTime::now(), Instant::now());
        let hour = Duration::from_secs(3600);
        let ns = |time: SystemTime| {
            let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
        };
        for is_forward in [true, false] {
            let mut watch = ClockWatch { system, steady, pending_ns: 0 };
            let later = |seconds: u64| steady + Duration::from_secs(seconds);
            // A clock that is corrected slowly makes no step.
            watch.look(system + Duration::from_millis(1900), later(1));
            assert_eq!(watch.step_before(None), 0);
            let before = system + Duration::from_secs(2);
            let after = if is_forward { before + hour } else { before - hour };
            watch.look(after, later(2));
            assert_eq!(watch.step_before(Some(ns(before))), 0, "the ring has packets from before");
            watch.look(after, later(2));
            let step = watch.step_before(Some(ns(after)));
            let wanted = hour.as_nanos() as i64 * if is_forward { 1 } else { -1 };
            assert!((step - wanted).abs() < 1_000_000_000, "{step}");
            assert_eq!(watch.step_before(None), 0, "once");
        }
    }
}
