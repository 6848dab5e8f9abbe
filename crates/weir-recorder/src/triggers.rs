//! Triggers of a recorder: connections that match a filter are dumped, from their first packet to their last
//! one.

use crate::asking::PendingAsker;
use crate::dump_queue::DumpParams;
use crate::options::RecorderOptions;
use std::collections::HashSet;
use weir::{Every, Item, Next, Question, RunEnd, TakeItems};
use weir_questions::Ends;
use weir_questions::messages::Failure;
use weir_questions::run::Run;

/// A connection is dumped when timers tick next after the packet with which it matches.
const WITHIN_NS: u64 = 0;

/// Adds the triggers that the options state.
///
/// # Errors
/// The mistakes of their filters.
pub fn ask(options: &RecorderOptions, run: &mut Run<'_>, asking: &PendingAsker) -> Result<(), Failure> {
    for filter in &options.trigger {
        let reason = format!("matches the trigger `{filter}`");
        let (trigger, question) = Trigger::new((filter, filter.clone(), reason), asking.clone());
        run.subscribe(vec![question], trigger)?;
    }
    Ok(())
}

/// A filter whose connections are dumped.
pub struct Trigger {
    /// The name of the trigger, and why a connection is dumped.
    name: String,
    reason: String,
    dumps: PendingAsker,
    /// The names of its dumps whose connections are not over.
    going: HashSet<String>,
}

impl Trigger {
    /// The trigger of a filter with this name, and its question. `reason`: what is said of a connection in
    /// its dump.
    pub fn new((filter, name, reason): (&str, String, String), dumps: PendingAsker) -> (Self, Question) {
        let trigger = Self { name, reason, dumps, going: HashSet::new() };
        (trigger, Question::of_records(filter, Every::Within(WITHIN_NS)))
    }
}

impl TakeItems for Trigger {
    fn take(&mut self, _: usize, item: Item<'_>) -> Next {
        let Item::Tracked { connection, is_over, .. } = item else { return Next::Go };
        let Some(dumps) = self.dumps.get() else { return Next::Go };
        if let Some(ends) = Ends::of(&connection) {
            let begun = dumps.begin(&connection.uid, None, || {
                dumps.list().matched(&self.name, &connection.uid);
                DumpParams {
                    name: connection.uid.clone(),
                    filter: ends.filter(),
                    from: connection.ts,
                    reason: format!("weir: {} {}", connection.uid, self.reason),
                }
            });
            if is_over {
                dumps.end(&connection.uid);
                self.going.remove(&connection.uid);
            } else if begun {
                self.going.insert(connection.uid);
            }
        }
        Next::Go
    }

    fn finish(&mut self, end: Option<RunEnd<'_>>) {
        if let (None, Some(dumps)) = (end, self.dumps.get()) {
            dumps.leave(&self.going);
        }
    }
}
