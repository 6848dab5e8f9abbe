//! The rows of a question, for another program.

use crate::shown_rows::{ShownRows, each_part};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir::packet::Batch;
use weir::{Item, Next, RunEnd, TakeItems};

/// Rows wait until they have this number of bytes, or no packet waits to be read.
const BATCH_BYTES: usize = 64 << 10;

/// Time of a live run for packets to come.
const ROW_DELAY: Duration = Duration::from_secs(2);

/// Takes the rows of a question.
pub trait TakeRows: Send {
    /// Takes rows, in order. May block, which stops the whole run for that time. Returns whether more rows
    /// are wanted.
    ///
    /// # Errors
    /// The rows cannot be taken: the question ends, and the error is reported at the end of the run.
    fn rows(&mut self, rows: &Batch) -> io::Result<bool>;

    /// No packet waits to be read: the rows so far should become visible. Returns whether more rows are
    /// wanted.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    fn pause(&mut self) -> io::Result<bool>;

    /// No more rows will come.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    fn end(&mut self) -> io::Result<()>;
}

/// Makes rows of a question's items, and gives them to a taker.
pub struct Yielded {
    shown: ShownRows,
    taker: Box<dyn TakeRows>,
    waiting: Batch,
    count: u64,
    /// The input is an interface, whose times are those of the clock.
    is_link: bool,
    /// The taker wants no more rows, or the question has failed.
    is_over: bool,
    /// The name of the question, and the faults of the run.
    faults: (String, Arc<Mutex<Vec<String>>>),
}

impl Yielded {
    /// Rows of `shown` for `taker`. `faults`: the name of the question, and where its faults are added.
    pub fn new(
        shown: ShownRows,
        taker: Box<dyn TakeRows>,
        is_link: bool,
        faults: (String, Arc<Mutex<Vec<String>>>),
    ) -> Self {
        Self { shown, taker, waiting: Batch::default(), count: 0, is_link, is_over: false, faults }
    }

    fn take_item(&mut self, item: &Item<'_>) {
        let is_pause = matches!(item, Item::Pause);
        let now = if self.is_link && is_pause { now_ns() } else { None };
        let taken = self.shown.take(item, now, &mut self.count, &mut self.waiting);
        self.settle(taken);
        if self.waiting.bytes() >= BATCH_BYTES || is_pause {
            self.send();
        }
        if is_pause && !self.is_over {
            let wanted = self.taker.pause();
            self.heed(wanted);
        }
    }

    fn send(&mut self) {
        if self.waiting.is_empty() || self.is_over {
            return;
        }
        let wanted = self.taker.rows(&self.waiting);
        self.waiting.clear();
        self.heed(wanted);
    }

    /// Ends the question if no more rows are wanted.
    fn heed(&mut self, wanted: io::Result<bool>) {
        match wanted {
            Ok(is_wanted) => self.is_over = !is_wanted,
            Err(error) => self.settle(Err(error)),
        }
    }

    /// Ends the question after an error.
    fn settle(&mut self, made: io::Result<()>) {
        if let Err(error) = made {
            self.add_fault(error.to_string());
            self.is_over = true;
        }
    }

    fn add_fault(&self, fault: String) {
        let (name, faults) = &self.faults;
        let fault = if name.is_empty() { fault } else { format!("question `{name}`: {fault}") };
        faults.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
    }
}

/// All packets before this time have been read, in nanoseconds since 1970.
fn now_ns() -> Option<i64> {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since_1970.saturating_sub(ROW_DELAY).as_nanos()).ok()
}

impl TakeItems for Yielded {
    fn take(&mut self, question: usize, item: Item<'_>) -> Next {
        if self.is_over {
            return Next::End;
        }
        if self.shown.learn(question, &item) {
            return Next::Go;
        }
        each_part(item, |part| {
            if !self.is_over {
                self.take_item(&part);
            }
        });
        if self.is_over || self.shown.is_enough(self.count) { Next::End } else { Next::Go }
    }

    fn finish(&mut self, end: Option<RunEnd<'_>>) {
        if self.is_over {
            return;
        }
        let ended = self.shown.end(end.as_ref(), &mut self.count, &mut self.waiting);
        self.settle(ended);
        if let Some(kept) = self.shown.view.take_kept() {
            let sorted = kept.each(&mut |batch, rows, columns| {
                self.waiting.extend(batch, rows, columns);
                if self.waiting.bytes() >= BATCH_BYTES {
                    self.send();
                }
                Ok(())
            });
            self.settle(sorted);
        }
        self.send();
        if !self.is_over {
            let ended = self.taker.end();
            self.settle(ended);
        }
        self.shown.view.report();
        if let Some(failure) = self.shown.rows.fault() {
            self.add_fault(failure.to_string());
        }
        // Later items of the run are not for this question.
        self.is_over = true;
    }
}
