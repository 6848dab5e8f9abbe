//! Panes of all workers become windows.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::aggregator::Partial;
use crate::budget::Counters;
use crate::context::Context;
use crate::finish::{self, Row, Window};
use crate::pane::Pane;
use crate::plan::Plan;
use crate::seed::Seed;
use crate::windows::Windows;

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
    /// The rows of the last window: of several windows with the same panes, one is computed.
    before: Option<(Parts, Arc<[Row]>)>,
    /// The number of panes that were added, or merged into others.
    added: u64,
}

/// Which panes a window has: two windows with equal values have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts {
    first: i64,
    last: i64,
    /// The number of panes that were added so far.
    added: u64,
}

impl Merger {
    /// A merger without panes, with the plan and the seed of the aggregators.
    pub fn new(plan: Arc<Plan>, seed: Seed) -> Self {
        let context = Context::new(&plan, seed, plan.params().limits.merged_bytes_max);
        Self { plan, context, panes: BTreeMap::new(), epoch: 0, first_open: i64::MIN, before: None, added: 0 }
    }

    /// Adds a closed pane of a worker. The records of a pane whose window is closed are dropped and counted
    /// as late.
    pub fn add(&mut self, partial: Partial) {
        let Partial { epoch, number, pane } = partial;
        if (epoch, number) < (self.epoch, self.first_open) {
            self.context.counters.late += pane.records();
            return;
        }
        self.added += 1;
        match self.panes.get_mut(&(epoch, number)) {
            Some(known) => known.merge(&self.plan, &pane, &mut self.context),
            None => {
                pane.enter(&mut self.context);
                self.panes.insert((epoch, number), pane);
            }
        }
    }

    /// Closes windows whose end is at or before `capture_ns` less the allowed lateness, and passes those with
    /// records to `out`, one by one, in the order of time: many may end together. The time is the earliest
    /// capture time of all workers: before this call each of them [advances](crate::Aggregator::advance) to
    /// this time, and this merger is given its panes. A time before an earlier one changes nothing.
    pub fn advance(&mut self, capture_ns: i64, out: &mut dyn FnMut(Window)) {
        let params = self.plan.params();
        let time_ns = capture_ns.saturating_sub_unsigned(params.lateness_ns);
        if let Some(first) = params.windows.first_open(time_ns) {
            self.close(first, out);
        }
    }

    /// Time was set back, or forward: passes the windows so far to `out`, as [`Merger::finish`] does. Before
    /// this call each worker [restarts](crate::Aggregator::restart), and this merger is given its panes.
    /// Later windows may have the same times as earlier ones.
    pub fn restart(&mut self, capture_ns: i64, out: &mut dyn FnMut(Window)) {
        let params = self.plan.params();
        let time_ns = capture_ns.saturating_sub_unsigned(params.lateness_ns);
        let Some(first) = params.windows.first_open(time_ns) else { return };
        self.close_epoch(out);
        self.epoch += 1;
        self.first_open = first;
    }

    /// The remaining windows, at the end of the run. The last window is the one that ends with the pane of
    /// the last record.
    pub fn finish(&mut self, out: &mut dyn FnMut(Window)) {
        self.close_epoch(out);
    }

    fn close_epoch(&mut self, out: &mut dyn FnMut(Window)) {
        let last = self.panes.range(..=(self.epoch, i64::MAX)).next_back().map(|((_, number), _)| *number);
        if let Some(last) = last {
            self.close(last + 1, out);
        }
        self.drop_panes(i64::MAX);
    }

    /// Closes the windows before `first_open`. Only windows with panes are visited, so a step of time costs
    /// nothing.
    fn close(&mut self, first_open: i64, out: &mut dyn FnMut(Window)) {
        let panes_of_window = self.plan.params().windows.panes_of_window();
        while self.first_open < first_open {
            let Some((&(_, earliest), _)) = self.panes.range(..=(self.epoch, i64::MAX)).next() else { break };
            let last = self.first_open.max(earliest);
            if last >= first_open {
                break;
            }
            out(self.window(last, panes_of_window));
            self.first_open = last + 1;
            self.drop_panes(self.first_open - (panes_of_window - 1));
        }
        self.first_open = self.first_open.max(first_open);
        self.before = None;
    }

    /// The result of the window with the last pane `last`.
    fn window(&mut self, last: i64, panes_of_window: i64) -> Window {
        let plan = Arc::clone(&self.plan);
        let first = last - (panes_of_window - 1);
        let numbered = self.panes.range((self.epoch, first)..=(self.epoch, last));
        let ends = numbered.clone().next().zip(numbered.clone().next_back());
        let added = self.added;
        let parts = ends.map(|(((_, first), _), ((_, last), _))| Parts { first: *first, last: *last, added });
        if let Some((before, rows)) = &self.before
            && Some(*before) == parts
            && plan.params().windows != Windows::None
        {
            let (start_ns, end_ns) = plan.params().windows.window(last);
            return Window { start_ns, end_ns, rows: Arc::clone(rows) };
        }
        let mut panes = numbered.map(|(_, pane)| pane);
        let window = match (panes.next(), panes.next()) {
            (Some(only), None) => finish::window(&plan, only, last),
            (one, two) => {
                let mut whole = Pane::new(&plan, &mut self.context);
                for part in one.into_iter().chain(two).chain(panes) {
                    whole.merge(&plan, part, &mut self.context);
                }
                whole.leave(&mut self.context);
                finish::window(&plan, &whole, last)
            }
        };
        self.before = parts.map(|parts| (parts, Arc::clone(&window.rows)));
        window
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
