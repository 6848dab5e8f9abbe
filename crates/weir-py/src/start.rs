//! The thread of a run: answers the questions, and puts their rows into the queues.

use crate::lake::Part;
use crate::pipes::Pipes;
use crate::queues::{End, Queues};
use arrow_array::RecordBatch;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use weir_columns::ArrowBatches;
use weir_packet::Batch;
use weir_questions::by_name::{Listener, Questions, TakeRows};

/// Starts a run at the first call.
pub struct Start(Mutex<Option<(Questions, Packets)>>);

/// The packets of a run.
pub enum Packets {
    /// Those of its input, of which threads of Python fill some pipes.
    Input(Pipes),
    /// A part of captures.
    Part(Box<Part>),
}

impl Start {
    /// A run that is not started.
    pub fn new(questions: Questions, packets: Packets) -> Self {
        Self(Mutex::new(Some((questions, packets))))
    }

    /// Starts the run, unless it is started.
    ///
    /// # Errors
    /// No thread can be created.
    pub fn run(&self, queues: &Arc<Queues>) -> io::Result<()> {
        let questions = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((questions, packets)) = questions else { return Ok(()) };
        let queues = Arc::clone(queues);
        let thread = std::thread::Builder::new().name("weir".into());
        thread.spawn(move || answer(questions, packets, &queues)).map(drop)
    }
}

/// Answers the questions, on the thread of the run.
fn answer(questions: Questions, packets: Packets, queues: &Arc<Queues>) {
    let both = questions.columns().zip(questions.logs()).enumerate();
    let takers = both.map(|(index, (columns, log))| {
        let batches = ArrowBatches::new(columns, log);
        Box::new(ToQueue { index, batches, queues: Arc::clone(queues) }) as Box<dyn TakeRows>
    });
    let takers = takers.collect();
    let mut progress = |read, whole| queues.set_progress(read, whole);
    let hears = Arc::clone(queues);
    let listener = Listener::new(move |message| hears.add_message(message));
    let run = || match packets {
        Packets::Input(_pipes) => questions.run(takers, &queues.ender, listener, &mut progress),
        Packets::Part(part) => part.run(questions, takers, &queues.ender, listener, &mut progress),
    };
    queues.end(match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(ended)) => End::Done(ended),
        Ok(Err(mistake)) => End::Refused(mistake),
        Err(_) => End::Panicked,
    });
}

/// Puts the rows of a question into its queue.
struct ToQueue {
    index: usize,
    batches: ArrowBatches,
    queues: Arc<Queues>,
}

impl ToQueue {
    fn send(&mut self) -> io::Result<bool> {
        let batch = self.batches.take()?;
        Ok(batch.is_none_or(|batch| self.queues.push(self.index, batch)))
    }
}

impl TakeRows for ToQueue {
    fn rows(&mut self, rows: &Batch) -> io::Result<bool> {
        let (index, queues) = (self.index, &self.queues);
        let mut next = |batch: RecordBatch| queues.push(index, batch);
        if !self.batches.push(rows, 0..rows.rows(), &mut next)? {
            return Ok(false);
        }
        Ok(!queues.is_closed(index))
    }

    fn pause(&mut self) -> io::Result<bool> {
        // Whoever reads other batches finds these rows later, together with more.
        if self.queues.is_waited_for(self.index) {
            self.send()
        } else {
            Ok(!self.queues.is_closed(self.index))
        }
    }

    fn end(&mut self) -> io::Result<()> {
        self.send().map(drop)
    }
}
