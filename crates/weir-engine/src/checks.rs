//! Checks: reports of all live flows of a table, at intervals (FlowScope, section 4: the checker).
//!
//! Intervals begin at multiples of their length since 1970, so that rows do not depend on the first packet.
//! All checks of one time are made together, flow by flow, so that the order of rows does not depend on the
//! number of workers.

use crate::plan::Plan;
use weir_ir::graph::Table;

/// Checks with flows that are made one after the other when the time jumps; further ones are skipped, and
/// counted.
const CHECKS_MAX: u64 = 1000;

/// When the flows of tables are reported.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    all: Vec<Interval>,
    /// The last check: its burst, and its time.
    last: Option<(u64, i64)>,
    /// Checks with flows in this burst.
    with_flows: u64,
}

#[derive(Debug, Clone, Copy)]
struct Interval {
    table: Table,
    ns: i64,
    /// The time of the next check, once the time is known.
    next: Option<i64>,
}

impl Interval {
    /// The first check behind this time.
    fn after(&self, time: i64) -> i64 {
        (time.div_euclid(self.ns) + 1).saturating_mul(self.ns)
    }
}

impl Checks {
    pub fn new(plan: &Plan) -> Self {
        let mut all = vec![];
        for (table, events) in plan.ends.iter().enumerate() {
            let mut intervals: Vec<i64> = events.iter().filter_map(|event| event.interval_ns).collect();
            intervals.sort_unstable();
            intervals.dedup();
            let table = Table(table as u32);
            all.extend(intervals.into_iter().map(|ns| Interval { table, ns, next: None }));
        }
        Self { all, ..Self::default() }
    }

    /// Another plan is in use: intervals that stay go on.
    pub fn change(&mut self, plan: &Plan) {
        let mut new = Self::new(plan);
        for interval in &mut new.all {
            let known =
                self.all.iter().find(|known| (known.table, known.ns) == (interval.table, interval.ns));
            interval.next = known.and_then(|known| known.next);
        }
        self.all = new.all;
    }

    /// The clock was set: the intervals begin anew.
    pub fn step_clock(&mut self) {
        self.all.iter_mut().for_each(|interval| interval.next = None);
    }

    /// The time of the first checks that are due at `now`. `skipped`: how many were left out because the time
    /// has jumped.
    pub fn due(&mut self, burst: u64, now: i64, skipped: &mut u64) -> Option<i64> {
        // Before the second packet, the time is not known.
        if now == i64::MIN {
            return None;
        }
        if self.last.is_none_or(|(last, _)| last != burst) {
            self.with_flows = 0;
        }
        for interval in &mut self.all {
            // The time has gone back.
            let is_ahead = |next: &i64| next.saturating_sub(now) > interval.ns;
            let after = interval.after(now);
            let next = interval.next.filter(|next| !is_ahead(next)).unwrap_or(after);
            interval.next = Some(next);
            if next <= now && self.with_flows >= CHECKS_MAX {
                *skipped += (after.saturating_sub(next) / interval.ns) as u64;
                interval.next = Some(after);
            }
        }
        self.all.iter().filter_map(|interval| interval.next).filter(|next| *next <= now).min()
    }

    /// The tables of the checks of this time, each with an interval, in order.
    pub fn at(&self, at: i64) -> impl Iterator<Item = (Table, i64)> + '_ {
        let due = self.all.iter().filter(move |interval| interval.next == Some(at));
        due.map(|interval| (interval.table, interval.ns))
    }

    /// No flow of the table lives at this time, and none begins before `resumes`.
    pub fn rest(&mut self, (table, at): (Table, i64), resumes: i64) {
        for interval in self.all.iter_mut().filter(|interval| interval.table == table) {
            if interval.next == Some(at) {
                interval.next = Some(interval.after(resumes.max(at).saturating_sub(1)).max(at + 1));
            }
        }
    }

    /// The checks of this time were made.
    pub fn made(&mut self, burst: u64, at: i64, has_flows: bool) {
        self.with_flows += u64::from(has_flows);
        self.last = Some((burst, at));
        for interval in self.all.iter_mut().filter(|interval| interval.next == Some(at)) {
            interval.next = Some(at.saturating_add(interval.ns));
        }
    }

    /// The time of the last check of a burst: later results of the burst do not come before.
    pub fn reached(&self, burst: u64) -> i64 {
        self.last.filter(|(last, _)| *last == burst).map_or(i64::MIN, |(_, at)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(intervals: &[(u32, i64)]) -> Checks {
        let all = intervals.iter().map(|&(table, ns)| Interval { table: Table(table), ns, next: None });
        Checks { all: all.collect(), ..Checks::default() }
    }

    /// The checks until `now`, all with flows, and how many were skipped so far.
    fn made(checks: &mut Checks, burst: u64, now: i64, skipped: &mut u64) -> Vec<(i64, Vec<u32>)> {
        let mut all = vec![];
        while let Some(at) = checks.due(burst, now, skipped) {
            all.push((at, checks.at(at).map(|(table, _)| table.0).collect()));
            checks.made(burst, at, true);
        }
        all
    }

    #[test]
    fn checks_come_at_multiples_those_of_one_time_together() {
        let (mut checks, mut skipped) = (checks(&[(0, 10), (1, 15)]), 0);
        assert_eq!(made(&mut checks, 1, i64::MIN, &mut skipped), []);
        assert_eq!(made(&mut checks, 1, 23, &mut skipped), []);
        assert_eq!(made(&mut checks, 2, 29, &mut skipped), []);
        let wanted = [(30, vec![0, 1]), (40, vec![0]), (45, vec![1])];
        assert_eq!(made(&mut checks, 3, 45, &mut skipped), wanted);
        assert_eq!((checks.reached(3), checks.reached(4), skipped), (45, i64::MIN, 0));
    }

    #[test]
    fn few_are_made_after_a_jump_and_none_without_flows() {
        let (mut checks, mut skipped) = (checks(&[(0, 10)]), 0);
        assert_eq!(made(&mut checks, 1, 45, &mut skipped), []);
        let all = made(&mut checks, 2, 50 + 10 * 1500, &mut skipped);
        assert_eq!((all.len() as u64, all[0].0, skipped), (CHECKS_MAX, 50, 501));
        assert_eq!(checks.due(3, 15_060, &mut skipped), Some(15_060));
        // No flow lives, and the next one begins at 90 000.
        checks.rest((Table(0), 15_060), 90_000);
        checks.made(3, 15_060, false);
        assert_eq!(checks.due(3, 90_015, &mut skipped), Some(90_000));
    }

    #[test]
    fn the_clock_may_be_set_back() {
        let (mut checks, mut skipped) = (checks(&[(0, 10)]), 0);
        assert_eq!(made(&mut checks, 1, 1000, &mut skipped), []);
        assert_eq!(made(&mut checks, 2, 7, &mut skipped), []);
        assert_eq!(made(&mut checks, 3, 10, &mut skipped), [(10, vec![0])]);
        checks.step_clock();
        assert_eq!(made(&mut checks, 4, 5, &mut skipped), []);
        assert_eq!(made(&mut checks, 5, 12, &mut skipped), [(10, vec![0])]);
    }
}
