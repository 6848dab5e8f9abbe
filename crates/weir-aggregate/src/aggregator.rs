//! One worker's part of an aggregate: records go to the group and the pane that they belong to.

use std::sync::Arc;

use crate::budget::Counters;
use crate::context::Context;
use crate::pane::Pane;
use crate::plan::Plan;
use crate::record::Record;
use crate::seed::Seed;

/// A closed pane of one worker, for the [`Merger`](crate::Merger).
#[derive(Debug)]
pub struct Partial {
    /// How often time was set back before.
    pub(crate) epoch: u64,
    /// The number of the pane.
    pub(crate) number: i64,
    pub(crate) pane: Pane,
}

/// Groups the records of one worker.
///
/// The results are those of the [`Merger`](crate::Merger), also with a single worker.
#[derive(Debug)]
pub struct Aggregator {
    plan: Arc<Plan>,
    context: Context,
    /// Open panes, by number.
    panes: Vec<Open>,
    /// The pane of the last record.
    current: usize,
    /// Panes before this one are closed; none before the first capture time.
    first_open: Option<i64>,
    epoch: u64,
}

#[derive(Debug)]
struct Open {
    number: i64,
    /// Times from which to before which records belong to the pane, saturated.
    range: (i64, i64),
    pane: Pane,
}

impl Aggregator {
    /// An aggregator without records. All aggregators of a run, and the merger, have the same plan and seed.
    pub fn new(plan: Arc<Plan>, seed: Seed) -> Self {
        let context = Context::new(&plan, seed, plan.params().limits.bytes_max);
        Self { plan, context, panes: vec![], current: 0, first_open: None, epoch: 0 }
    }

    /// Adds a record. Nothing is allocated for a known group, except for sets, sketches and histograms.
    ///
    /// # Panics
    ///
    /// If the record has not the words that the plan says: a mistake of the compiled program, which no
    /// traffic causes.
    #[inline]
    pub fn record(&mut self, record: &Record<'_>) {
        assert_eq!(record.key.len(), self.plan.params().key_words, "words of the key");
        assert!(record.inputs.len() >= self.plan.input_words(), "words of the inputs");
        self.context.counters.records += 1;
        let time_ns = record.time_ns;
        let is_current = self
            .panes
            .get(self.current)
            .is_some_and(|open| open.range.0 <= time_ns && time_ns < open.range.1);
        if is_current || self.open(time_ns) {
            self.panes[self.current].pane.add(&self.plan, record, &mut self.context);
        }
    }

    /// Makes the pane of a time the current one. Returns false if records of this time are dropped.
    #[cold]
    #[inline(never)]
    fn open(&mut self, time_ns: i64) -> bool {
        let windows = self.plan.params().windows;
        let number = windows.pane(time_ns);
        let panes_max = self.plan.params().limits.panes_max;
        if self.first_open.is_some_and(|first| number < first) {
            self.context.counters.late += 1;
            return false;
        }
        match self.panes.binary_search_by_key(&number, |open| open.number) {
            Ok(position) => self.current = position,
            Err(position) => {
                // Before the first capture time, any times are possible. Afterwards, panes of wrong times
                // cannot take the place of others: the next ones after the closed ones have room in any case.
                // The first record after a long silence is further ahead, because the capture time follows
                // only with the next record.
                let has_room = match self.first_open.map(|first| first.saturating_add(panes_max as i64)) {
                    Some(end) => {
                        number < end || self.panes_from(end) < self.plan.params().limits.panes_ahead_max
                    }
                    None => self.panes.len() < panes_max,
                };
                if !has_room {
                    self.context.counters.ahead += 1;
                    return false;
                }
                let pane = Pane::new(&self.plan, &mut self.context);
                self.panes.insert(position, Open { number, range: windows.range(number), pane });
                self.current = position;
            }
        }
        true
    }

    /// The number of open panes from this one on.
    fn panes_from(&self, number: i64) -> usize {
        self.panes.len() - self.panes.partition_point(|open| open.number < number)
    }

    /// Closes panes whose end is at or before the capture time `capture_ns` less the allowed lateness. Later
    /// records for them are dropped and counted. A time before an earlier one changes nothing. Closed panes
    /// are returned in the order of time.
    ///
    /// Called before the first record, the capture time also bounds the panes that wrong times can open
    /// ([`Limits::panes_max`](crate::Limits::panes_max)). Otherwise, the first panes are open until their
    /// time comes, whatever their times are, and which records are dropped depends on the number of workers.
    pub fn advance(&mut self, capture_ns: i64) -> Vec<Partial> {
        let params = self.plan.params();
        let Some(first) = params.windows.first_open(capture_ns.saturating_sub_unsigned(params.lateness_ns))
        else {
            return vec![];
        };
        if self.first_open.is_some_and(|open| first <= open) {
            return vec![];
        }
        self.first_open = Some(first);
        let closed = self.panes.partition_point(|open| open.number < first);
        self.close(closed)
    }

    /// Time was set back, or forward beyond the capture time so far: all panes are closed, and time goes on
    /// at `capture_ns`. The merger has to [restart](crate::Merger::restart), too.
    pub fn restart(&mut self, capture_ns: i64) -> Vec<Partial> {
        let params = self.plan.params();
        let Some(first) = params.windows.first_open(capture_ns.saturating_sub_unsigned(params.lateness_ns))
        else {
            return vec![];
        };
        let partials = self.close(self.panes.len());
        self.first_open = Some(first);
        self.epoch += 1;
        partials
    }

    /// Closes all panes, at the end of the run. Records that come later belong to new panes.
    pub fn finish(&mut self) -> Vec<Partial> {
        self.close(self.panes.len())
    }

    fn close(&mut self, panes: usize) -> Vec<Partial> {
        self.current = 0;
        let (epoch, context) = (self.epoch, &mut self.context);
        let partial = |open: Open| {
            open.pane.leave(context);
            Partial { epoch, number: open.number, pane: open.pane }
        };
        self.panes.drain(..panes).map(partial).collect()
    }

    /// Bytes of the states of all open panes.
    pub fn bytes(&self) -> u64 {
        self.context.budget.used()
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.context.counters
    }
}
