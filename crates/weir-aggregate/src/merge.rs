//! Panes of all workers become windows.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::aggregator::Partial;
use crate::budget::Counters;
use crate::context::Context;
use crate::finish::{self, Window};
use crate::pane::Pane;
use crate::plan::Plan;
use crate::seed::Seed;

/// Merges the closed panes of all workers, and makes results of closed windows.
///
/// The result of a window is that of one aggregator over all records, for any distribution of the records
/// over workers and any order of [`Merger::add`]. Exceptions are results that depend on a bound: which groups
/// are `other` if there are more than [`groups_max`](crate::Limits::groups_max), and what is estimated or cut
/// if memory is short. The counters tell.
#[derive(Debug)]
pub struct Merger {
    plan: Arc<Plan>,
    context: Context,
    /// By epoch and number. Panes stay while a window to come has a part in them.
    panes: BTreeMap<(u64, i64), Pane>,
    epoch: u64,
    /// Windows before this one are closed.
    first_open: i64,
}

impl Merger {
    /// A merger without panes, with the plan and the seed of the aggregators.
    pub fn new(plan: Arc<Plan>, seed: Seed) -> Self {
        let context = Context::new(&plan, seed, plan.params().limits.merged_bytes_max);
        Self { plan, context, panes: BTreeMap::new(), epoch: 0, first_open: i64::MIN }
    }

    /// Adds a closed pane of a worker. The records of a pane whose window is closed are dropped and counted
    /// as late.
    pub fn add(&mut self, partial: Partial) {
        let Partial { epoch, number, pane } = partial;
        if (epoch, number) < (self.epoch, self.first_open) {
            self.context.counters.late += pane.records();
            return;
        }
        match self.panes.get_mut(&(epoch, number)) {
            Some(known) => known.merge(&self.plan, &pane, &mut self.context),
            None => {
                pane.enter(&mut self.context);
                self.panes.insert((epoch, number), pane);
            }
        }
    }

    /// Closes windows whose end is at or before `capture_ns` less the allowed lateness, and returns those
    /// with records, in the order of time. The time is the earliest capture time of all workers: each of them
    /// has [advanced](crate::Aggregator::advance) to this time, and its panes were added. A time before an
    /// earlier one changes nothing.
    pub fn advance(&mut self, capture_ns: i64) -> Vec<Window> {
        let params = self.plan.params();
        let time_ns = capture_ns.saturating_sub_unsigned(params.lateness_ns);
        params.windows.first_open(time_ns).map_or(vec![], |first| self.close(first))
    }

    /// Time was set back, or forward: returns the windows so far, as [`Merger::finish`] does. Each worker has
    /// [restarted](crate::Aggregator::restart), and its panes were added. Windows that come later may have
    /// the times of earlier ones.
    pub fn restart(&mut self, capture_ns: i64) -> Vec<Window> {
        let params = self.plan.params();
        let time_ns = capture_ns.saturating_sub_unsigned(params.lateness_ns);
        let Some(first) = params.windows.first_open(time_ns) else { return vec![] };
        let windows = self.close_epoch();
        self.epoch += 1;
        self.first_open = first;
        windows
    }

    /// The remaining windows, at the end of the run. The last window is the one that ends with the pane of
    /// the last record.
    pub fn finish(&mut self) -> Vec<Window> {
        self.close_epoch()
    }

    fn close_epoch(&mut self) -> Vec<Window> {
        let last = self.panes.range(..=(self.epoch, i64::MAX)).next_back().map(|((_, number), _)| *number);
        let windows = last.map_or(vec![], |last| self.close(last + 1));
        self.drop_panes(i64::MAX);
        windows
    }

    /// Closes the windows before `first_open`. Only windows with panes are visited, so a step of time costs
    /// nothing.
    fn close(&mut self, first_open: i64) -> Vec<Window> {
        let panes_of_window = self.plan.params().windows.panes_of_window();
        let mut windows = vec![];
        while self.first_open < first_open {
            let Some((&(_, earliest), _)) = self.panes.range(..=(self.epoch, i64::MAX)).next() else { break };
            let last = self.first_open.max(earliest);
            if last >= first_open {
                break;
            }
            windows.push(self.window(last, panes_of_window));
            self.first_open = last + 1;
            self.drop_panes(self.first_open - (panes_of_window - 1));
        }
        self.first_open = self.first_open.max(first_open);
        windows
    }

    /// The result of the window with the last pane `last`.
    fn window(&mut self, last: i64, panes_of_window: i64) -> Window {
        let plan = Arc::clone(&self.plan);
        let first = last - (panes_of_window - 1);
        let mut parts = self.panes.range((self.epoch, first)..=(self.epoch, last)).map(|(_, pane)| pane);
        match (parts.next(), parts.next()) {
            (Some(only), None) => finish::window(&plan, only, last),
            (one, two) => {
                let mut whole = Pane::new(&plan, &mut self.context);
                for part in one.into_iter().chain(two).chain(parts) {
                    whole.merge(&plan, part, &mut self.context);
                }
                whole.leave(&mut self.context);
                finish::window(&plan, &whole, last)
            }
        }
    }

    /// Drops the panes of this epoch before `number`; all panes for the largest number.
    fn drop_panes(&mut self, number: i64) {
        while let Some(entry) = self.panes.first_entry() {
            let (epoch, of_pane) = *entry.key();
            if epoch > self.epoch || (number != i64::MAX && of_pane >= number) {
                break;
            }
            entry.remove().leave(&mut self.context);
        }
    }

    /// Bytes of the states of all panes.
    pub fn bytes(&self) -> u64 {
        self.context.budget.used()
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.context.counters
    }
}
