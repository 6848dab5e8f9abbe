//! Triggers of a recorder: connections that match a filter are dumped, from their first packet to their last
//! one.

use crate::dump_queue::DumpParams;
use crate::dumps::DumpAsker;
use crate::ends::Ends;
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use weir::{Every, Item, Next, Question, RunEnd, TakeItems};

/// A connection is dumped when timers tick next after the packet with which it matches.
const WITHIN_NS: u64 = 0;

/// Takes dumps, once the threads that write them are there.
#[derive(Clone, Default)]
pub struct PendingAsker(Arc<OnceLock<DumpAsker>>);

impl PendingAsker {
    /// The threads are there.
    pub fn set(&self, asker: DumpAsker) {
        let _ = self.0.set(asker);
    }

    /// The threads, once they are there.
    pub fn get(&self) -> Option<&DumpAsker> {
        self.0.get()
    }
}

/// A filter whose connections are dumped.
pub struct Trigger {
    filter: String,
    dumps: PendingAsker,
    /// The names of its dumps whose connections are not over.
    going: HashSet<String>,
}

impl Trigger {
    /// The trigger, and its question.
    pub fn new(filter: &str, dumps: PendingAsker) -> (Self, Question) {
        let trigger = Self { filter: filter.to_string(), dumps, going: HashSet::new() };
        (trigger, Question::of_records(filter, Every::Within(WITHIN_NS)))
    }
}

impl TakeItems for Trigger {
    fn take(&mut self, _: usize, item: Item<'_>) -> Next {
        let Item::Tracked { connection, is_over, .. } = item else { return Next::Go };
        let Some(dumps) = self.dumps.get() else { return Next::Go };
        if let Some(ends) = Ends::of(&connection) {
            let begun = dumps.begin(&connection.uid, None, || {
                dumps.list().matched(&self.filter, &connection.uid);
                DumpParams {
                    name: connection.uid.clone(),
                    filter: ends.filter(),
                    from: connection.ts,
                    reason: format!("weir: {} matches the trigger `{}`", connection.uid, self.filter),
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
