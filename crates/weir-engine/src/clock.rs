//! The time of a run, derived from packet timestamps, some of which may be wrong.
//!
//! The clock shows the latest time on which two consecutive packets agree: a single packet with a timestamp
//! in the next century affects only its own flow. (In Zeek, time follows every packet and never goes back, so
//! such a packet ends all connections; in Suricata, time goes wherever packets say.) Late packets, as several
//! interfaces produce them, do not set the clock back. Thousands of consecutive packets that lie far behind
//! do: the captures were read in the wrong order, or the machine's clock was set. One clock sees all packets
//! in order, so it shows the same time with any number of workers.
//!
//! While no packets arrive, a live source claims a time ([`Clock::idle`]), and the clock follows the claim:
//! flows end although nothing is captured. A claim and the next packet are two witnesses, as two packets are.
//! A packet less than a second behind the claim confirms the claim. An older packet, such as one of a pipe
//! that buffers, overrules it: the clock goes back to that packet's time, and flows that begin in late
//! packets have their whole time-out. Flows that the claim has ended stay ended. A regular file claims
//! nothing.
//!
//! A link reports when the machine's clock is set ([`Clock::step`]): the clock follows at once, and the idle
//! times of flows stay. A live source whose claims stay behind the clock sets it back, too: the machine's
//! clock was set, and too few packets come to show it. Otherwise time would stand still until the machine's
//! clock has caught up.

use crate::counters::ClockCounters;
use crate::timer::TICK_NS;

/// One hour, which is longer than any time-out. A packet more than this ahead of its successor is counted.
const FAR_NS: i64 = 3_600_000_000_000;
/// Packets and claims more than this behind may set the clock back: interfaces of one machine differ less.
const BACK_NS: i64 = 60_000_000_000;
/// Packets more than this behind are counted as late. Five seconds is the shortest time-out of a connection:
/// the connection of a later packet may have ended.
const LATE_NS: i64 = 5_000_000_000;
/// A packet up to this much behind the time that an idle source claimed confirms the claim: less than the
/// shortest time-out that a layer declares, so no flow that begins in such a packet ends before its time.
const CLAIM_TOLERANCE_NS: i64 = 1_000_000_000;
/// This many consecutive packets must lie far behind before the clock is set back, because that visits every
/// flow.
const BEHIND_PACKETS: u32 = 4096;
/// This many consecutive claims of an idle source must be [far behind](BACK_NS) before the clock is set back:
/// links claim a time every 10 ms.
const BEHIND_CLAIMS: u32 = 32;

/// What a clock knows between two packets: a clock that continues from there shows the same times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockState {
    /// The time that the clock shows, nanoseconds since 1970; `i64::MIN` before the second packet.
    pub now: i64,
    /// Time of the last packet.
    pub last: i64,
    /// Consecutive packets that were far behind.
    pub behind: u32,
}

/// The clock of a run.
#[derive(Debug, Clone)]
pub struct Clock {
    now: i64,
    /// Time of the last packet.
    last: i64,
    /// Consecutive packets that were far behind.
    behind: u32,
    /// Consecutive claims that were far behind.
    claims_behind: u32,
    /// If `now` was claimed by an idle source and no packet has arrived since: the time on which packets
    /// agreed before.
    before_claim: Option<i64>,
    counters: ClockCounters,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            now: i64::MIN,
            last: i64::MIN,
            behind: 0,
            claims_behind: 0,
            before_claim: None,
            counters: ClockCounters::default(),
        }
    }
}

impl Clock {
    /// A clock that continues one that had this state between two packets, and no claims.
    pub fn resumed(state: ClockState) -> Self {
        let ClockState { now, last, behind } = state;
        Self { now, last, behind, ..Self::default() }
    }

    /// The state after the packets so far.
    pub fn state(&self) -> ClockState {
        ClockState { now: self.now, last: self.last, behind: self.behind }
    }

    /// Shows the time of another clock, which sees more packets than this one. Returns whether another tick
    /// begins.
    pub fn follow(&mut self, now: i64) -> bool {
        let before = self.ticked();
        self.now = now;
        self.ticked() != before
    }

    /// Nanoseconds since 1970; `i64::MIN` before the second packet.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// The counters of the clock.
    pub fn counters(&self) -> &ClockCounters {
        &self.counters
    }

    /// The start of the current [tick](TICK_NS), nanoseconds since 1970. Timers advance by whole ticks, so
    /// that expiry does not depend on how packets are grouped into bursts.
    pub fn ticked(&self) -> i64 {
        self.now & -TICK_NS
    }

    /// Processes the timestamp of a packet. Returns whether another tick begins with the packet: timers must
    /// advance before the packet is processed.
    #[inline]
    pub fn tick(&mut self, time: i64) -> bool {
        let before = self.ticked();
        self.witness(time);
        self.ticked() != before
    }

    #[inline]
    fn witness(&mut self, time: i64) {
        let agreed = time.min(self.last);
        let is_far = time < self.last.saturating_sub(FAR_NS);
        self.last = time;
        if agreed >= self.now && !is_far {
            self.now = agreed;
            self.behind = 0;
            self.claims_behind = 0;
        } else {
            self.look_back(time, agreed, is_far);
        }
    }

    /// Processes the claim of an idle source that traffic has reached `time`. Returns whether the clock has
    /// moved.
    pub fn idle(&mut self, time: i64) -> bool {
        if time <= self.now {
            return self.is_set_back_by(time);
        }
        self.claims_behind = 0;
        // The time on which the last packet and the claim agree.
        let agreed = self.now.max(self.last.min(time));
        self.before_claim.get_or_insert(agreed);
        self.now = time;
        // The next packet is compared with the claim only.
        self.last = i64::MIN;
        true
    }

    /// The machine's clock was set by this many nanoseconds: packets and claims from now on are later by
    /// them, or earlier.
    pub fn step(&mut self, step_ns: i64) {
        let moved = |time: i64| if time == i64::MIN { time } else { time.saturating_add(step_ns) };
        (self.now, self.last) = (moved(self.now), moved(self.last));
        self.before_claim = self.before_claim.map(moved);
        (self.behind, self.claims_behind) = (0, 0);
        self.counters.clock_steps += 1;
    }

    /// Handles a claim that is behind the clock. A source that knows no time claims the smallest one.
    fn is_set_back_by(&mut self, time: i64) -> bool {
        if time == i64::MIN || time >= self.now.saturating_sub(BACK_NS) {
            self.claims_behind = 0;
            return false;
        }
        self.claims_behind += 1;
        if self.claims_behind < BEHIND_CLAIMS {
            return false;
        }
        (self.now, self.last, self.before_claim) = (time, i64::MIN, None);
        (self.behind, self.claims_behind) = (0, 0);
        self.counters.clock_set_back += 1;
        true
    }

    /// Handles a late packet, or the first packet after a claim.
    #[cold]
    fn look_back(&mut self, time: i64, agreed: i64, is_far: bool) {
        if let Some(before_claim) = self.before_claim.take()
            && time < self.now.saturating_sub(CLAIM_TOLERANCE_NS)
        {
            self.now = before_claim.max(time);
            self.counters.claims_overruled += 1;
        }
        self.counters.packets_ahead += u64::from(is_far);
        self.now = self.now.max(agreed);
        self.counters.packets_late += u64::from(time < self.now.saturating_sub(LATE_NS));
        if time >= self.now.saturating_sub(BACK_NS) {
            self.behind = 0;
            return;
        }
        self.behind += 1;
        if self.behind == BEHIND_PACKETS {
            self.behind = 0;
            self.now = agreed;
            self.counters.clock_set_back += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;
    const START: i64 = 1_790_000_000 * SECOND;
    const CENTURY: i64 = 100 * 365 * 86_400 * SECOND;

    /// The time that the clock shows after each of these packets.
    fn shows(times: &[i64]) -> (Vec<i64>, ClockCounters) {
        let mut clock = Clock::default();
        let shown = times.iter().map(|&time| {
            let _ = clock.tick(time);
            clock.now()
        });
        (shown.collect(), clock.counters)
    }

    #[test]
    fn time_is_as_late_as_two_packets_in_a_row_agree_on() {
        let (shown, counters) =
            shows(&[START, START + 1, START + 9, START + 5, START + CENTURY, START + CENTURY + 1]);
        assert_eq!(shown, [i64::MIN, START, START + 1, START + 5, START + 5, START + CENTURY]);
        assert_eq!(counters, ClockCounters::default());
    }

    #[test]
    fn a_clock_continues_between_any_two_packets() {
        let mut times = vec![START + CENTURY; 9];
        times.extend((0..5_000).map(|n| START + n * (n % 7)));
        let mut whole = Clock::default();
        for (index, &time) in times.iter().enumerate() {
            if index % 977 == 0 {
                whole = Clock::resumed(whole.state());
            }
            let _ = whole.tick(time);
        }
        assert_eq!(whole.now(), *shows(&times).0.last().unwrap());
    }

    #[test]
    fn one_wrong_packet_moves_nothing() {
        let wrong = [START + CENTURY, i64::MAX, START - CENTURY, i64::MIN];
        for wrong in wrong {
            let (shown, counters) = shows(&[START, START + 1, wrong, START + 2, START + 3]);
            assert!(shown[2] <= START + 1 && shown[3] <= START + 2, "{shown:?}");
            assert_eq!(shown[4], START + 2);
            assert_eq!(counters.clock_set_back, 0);
        }
        assert_eq!(shows(&[START + CENTURY, START, START + 1]).0[1..], [START, START]);
        assert_eq!(shows(&[START, START + CENTURY, START + 1]).1.packets_ahead, 1);
    }

    #[test]
    fn thousands_of_packets_far_behind_set_it_back() {
        let mut times = vec![START + CENTURY; 9];
        times.extend((0..5_000).map(|n| START + n));
        let (shown, counters) = shows(&times);
        assert_eq!(shown[9 + 4_094], START + CENTURY);
        assert_eq!(shown[9 + 4_095], START + 4_094);
        assert_eq!((counters.clock_set_back, counters.packets_ahead), (1, 1));
    }

    #[test]
    fn a_clock_that_was_set_back_by_minutes_does_not_stand_still() {
        let mut times = vec![START; 9];
        times.extend((0..5_000).map(|n| START - 120 * SECOND + n));
        let (shown, counters) = shows(&times);
        assert_eq!(shown.last(), Some(&(START - 120 * SECOND + 4_998)));
        assert_eq!(counters.clock_set_back, 1);
    }

    #[test]
    fn late_claims_of_a_slow_link_set_it_back() {
        for back in [90 * SECOND, 3_600 * SECOND] {
            let mut clock = Clock::default();
            [START, START + SECOND].into_iter().for_each(|time| _ = clock.tick(time));
            assert!(clock.idle(START + 2 * SECOND));
            let claims = (0..40).map(|n| {
                // A packet now and then does not change that.
                if n % 10 == 0 {
                    let _ = clock.tick(START - back + n * SECOND / 10);
                }
                clock.idle(START - back + n * SECOND / 10)
            });
            let moved: Vec<bool> = claims.collect();
            assert!(moved.contains(&true), "{back}");
            assert!(clock.now() < START && clock.now() > START - back, "{}", clock.now());
            assert_eq!(clock.counters.clock_set_back, 1);
        }
        // Claims a little behind are usual.
        let mut clock = Clock::default();
        [START, START + SECOND].into_iter().for_each(|time| _ = clock.tick(time));
        assert!((0..100).all(|_| !clock.idle(START - 30 * SECOND)));
        assert_eq!((clock.now(), clock.counters.clock_set_back), (START, 0));
    }

    #[test]
    fn time_passes_while_a_source_is_idle() {
        let mut clock = Clock::default();
        assert!(!clock.idle(i64::MIN), "a source that knows no time");
        let _ = clock.tick(START);
        assert_eq!(clock.now(), i64::MIN, "one packet is no agreement");
        assert!(clock.idle(START + SECOND));
        assert!(clock.idle(START + 5 * SECOND));
        assert!(!clock.idle(START + 2 * SECOND) && !clock.idle(i64::MIN), "claims do not set it back");
        assert_eq!(clock.now(), START + 5 * SECOND);
        // A packet that is a little late confirms the claim.
        let _ = clock.tick(START + 5 * SECOND - CLAIM_TOLERANCE_NS);
        assert_eq!(clock.now(), START + 5 * SECOND);
        let _ = clock.tick(START + 7 * SECOND);
        let _ = clock.tick(START + 8 * SECOND);
        assert_eq!(clock.now(), START + 7 * SECOND);
        assert_eq!(clock.counters, ClockCounters::default());
    }

    #[test]
    fn late_packets_overrule_a_claim() {
        let mut clock = Clock::default();
        [START, START + SECOND].into_iter().for_each(|time| _ = clock.tick(time));
        assert!(clock.idle(START + 100 * SECOND));
        let _ = clock.tick(START + 50 * SECOND);
        assert_eq!(clock.now(), START + 50 * SECOND, "a claim and a packet agree on the packet's time");
        let _ = clock.tick(START + 51 * SECOND);
        let _ = clock.tick(START + 52 * SECOND);
        assert_eq!(clock.now(), START + 51 * SECOND);
        assert_eq!(clock.counters, ClockCounters { claims_overruled: 1, ..ClockCounters::default() });
    }

    #[test]
    fn a_packet_of_a_wrong_time_does_not_take_a_claim_far_back() {
        let mut clock = Clock::default();
        [START, START + 100 * SECOND].into_iter().for_each(|time| _ = clock.tick(time));
        assert!(clock.idle(START + 110 * SECOND));
        let _ = clock.tick(START - CENTURY);
        assert_eq!(clock.now(), START + 100 * SECOND);
        [START + 111 * SECOND, START + 112 * SECOND].into_iter().for_each(|time| _ = clock.tick(time));
        assert_eq!(clock.now(), START + 111 * SECOND);
    }

    #[test]
    fn a_claim_that_was_confirmed_is_never_overruled() {
        let mut clock = Clock::default();
        let _ = clock.tick(START);
        assert!(clock.idle(START + 10 * SECOND));
        [START + 10 * SECOND, START + 10 * SECOND, START + 3 * SECOND]
            .into_iter()
            .for_each(|time| _ = clock.tick(time));
        assert_eq!(clock.now(), START + 10 * SECOND);
        assert_eq!(clock.counters.claims_overruled, 0);
    }

    #[test]
    fn interfaces_that_differ_by_seconds_do_not() {
        let times: Vec<i64> =
            (0..20_000).map(|n| START + n * 1_000 - if n % 3 == 0 { 30 * SECOND } else { 0 }).collect();
        let (shown, counters) = shows(&times);
        assert!(shown.is_sorted());
        // The first of these packets precedes the first agreed time.
        assert_eq!(counters, ClockCounters { packets_late: 20_000 / 3, ..ClockCounters::default() });
    }
}
