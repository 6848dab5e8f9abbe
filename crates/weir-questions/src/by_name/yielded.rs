//! The rows of a question, for another program.

use crate::rows::shown_rows::{AddRows, ShownRows, each_part};
use std::io;
use std::ops::Range;
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
    out: Out,
    count: u64,
    /// The input is an interface, whose times are those of the clock.
    is_link: bool,
}

/// The taker, and rows that it has not got yet.
struct Out {
    taker: Box<dyn TakeRows>,
    waiting: Batch,
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
        let out = Out { taker, waiting: Batch::default(), is_over: false, faults };
        Self { shown, out, count: 0, is_link }
    }

    fn take_item(&mut self, item: &Item<'_>) {
        let is_pause = matches!(item, Item::Pause);
        let now = if self.is_link && is_pause { now_ns() } else { None };
        let taken = self.shown.take(item, now, &mut self.count, &mut self.out);
        self.out.settle(taken);
        if is_pause {
            self.out.send();
        }
        if is_pause && !self.out.is_over {
            let wanted = self.out.taker.pause();
            self.out.heed(wanted);
        }
    }
}

impl AddRows for Out {
    fn add(&mut self, batch: &Batch, rows: Range<usize>, columns: Option<&[usize]>) -> io::Result<()> {
        self.waiting.extend(batch, rows, columns);
        if self.waiting.bytes() >= BATCH_BYTES {
            self.send();
        }
        Ok(())
    }
}

impl Out {
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
        if self.out.is_over {
            return Next::End;
        }
        if self.shown.learn(question, &item) {
            return Next::Go;
        }
        each_part(item, |part| {
            if !self.out.is_over {
                self.take_item(&part);
            }
        });
        if self.out.is_over || self.shown.is_enough(self.count) { Next::End } else { Next::Go }
    }

    fn finish(&mut self, end: Option<RunEnd<'_>>) {
        if self.out.is_over {
            return;
        }
        let ended = self.shown.end(end.as_ref(), &mut self.count, &mut self.out);
        self.out.settle(ended);
        if let Some(kept) = self.shown.view.take_kept() {
            let sorted = kept.each(&mut |batch, rows, columns| self.out.add(batch, rows, columns));
            self.out.settle(sorted);
        }
        self.out.send();
        if !self.out.is_over {
            let ended = self.out.taker.end();
            self.out.settle(ended);
        }
        self.shown.view.report();
        if let Some(failure) = self.shown.rows.fault() {
            self.out.add_fault(failure.to_string());
        }
        // Later items of the run are not for this question.
        self.out.is_over = true;
    }
}
