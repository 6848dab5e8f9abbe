//! The clock of live runs: an output that is divided by time completes its file although no rows come, and a
//! columnar file gets the rows that have waited for long.

use crate::messages::failure::Failure;
use crate::run::question_set::QuestionSet;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often outputs are told the time.
const INTERVAL: Duration = Duration::from_millis(500);

/// How often idle outputs write what has waited for long.
const KEEP_INTERVAL: Duration = Duration::from_mins(1);

/// Time for rows to come after their packets.
const ROW_DELAY: Duration = Duration::from_secs(2);

/// Tells the outputs of a run the time, until the run ends.
///
/// # Errors
/// The thread cannot be created.
pub fn start(set: &Arc<QuestionSet>) -> Result<(), Failure> {
    let set = Arc::downgrade(set);
    let thread = std::thread::Builder::new().name("weir-clock".into());
    thread.spawn(move || tell(&set)).map(drop).map_err(Failure::new)
}

fn tell(set: &Weak<QuestionSet>) {
    let mut kept = Instant::now();
    while let Some(set) = set.upgrade() {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(since_1970.saturating_sub(ROW_DELAY).as_nanos()).unwrap_or(i64::MAX);
        let names = set.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.values().for_each(|active| active.output.pass_time(now));
        if kept.elapsed() >= KEEP_INTERVAL {
            kept = Instant::now();
            names.values().for_each(|active| active.output.keep_rows());
        }
        drop(names);
        drop(set);
        std::thread::sleep(INTERVAL);
    }
}
