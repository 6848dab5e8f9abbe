//! Batches of rows as messages: a [`Batch`] is an Arrow stream with its number, and the [`Labels`] of the
//! output that made it.
//!
//! The number and the run of a batch say which batch it is, however often it is sent: [`Batches`] numbers the
//! batches of an output from 0, also those that are lost. A receiver sees repeats and gaps. [`Lingering`]
//! lets batches grow on live input.

use crate::carrier::{Carrier, Event, Notify};
use crate::message::Message;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_packet::{Column, RowSink};

/// Limit of the bytes of a batch. Kafka's brokers accept messages of 1 MiB by default, with labels and
/// framing.
pub const MESSAGE_BYTES_MAX: usize = 900_000;

/// How long rows of live input wait for further rows of their batch.
const LINGER: Duration = Duration::from_secs(1);

/// The first line of a context.
const MAGIC: &str = "weir-batches 1";

/// Bytes of the number of a batch.
const NUMBER_BYTES: usize = size_of::<u64>();

/// What the batches of an output have in common. No value has a control character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels {
    /// The name of the machine that captures.
    pub sensor: String,
    /// The name of the log, such as `conn`; empty if the rows have none.
    pub log: String,
    /// Identifies the output of this run.
    pub run: String,
    /// The names of the columns.
    pub columns: Vec<String>,
}

impl Labels {
    /// The labels as the context of messages: lines of text.
    pub fn context(&self) -> Arc<[u8]> {
        let mut text = [MAGIC, &self.sensor, &self.log, &self.run].join("\n");
        self.columns.iter().for_each(|column| text.extend(["\n", column]));
        text.into_bytes().into()
    }

    /// The labels in a context. `None`: the context is that of other messages.
    pub fn of(context: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(context).ok()?.split('\n').map(str::to_string);
        lines.next().filter(|magic| magic == MAGIC)?;
        Some(Self { sensor: lines.next()?, log: lines.next()?, run: lines.next()?, columns: lines.collect() })
    }
}

/// A batch in a message.
#[derive(Debug)]
pub struct Batch<'m> {
    /// Labels of the output that made the batch, possibly in an earlier run.
    pub labels: Labels,
    /// Number of the batch among those of the output, from 0.
    pub number: u64,
    /// Number of rows.
    pub rows: u32,
    /// A complete Arrow stream: schema, batch, end.
    pub arrow: &'m [u8],
}

impl<'m> Batch<'m> {
    /// The batch in a message. `None`: the message is not from [`Batches`].
    pub fn of(message: &'m Message) -> Option<Self> {
        let labels = Labels::of(&message.context)?;
        let (arrow, number) = message.bytes.split_last_chunk::<NUMBER_BYTES>()?;
        Some(Self { labels, number: u64::from_le_bytes(*number), rows: message.rows, arrow })
    }
}

/// Numbers batches, and gives them to a carrier, which ends with this value.
pub struct Batches {
    carrier: Box<dyn Carrier>,
    notify: Notify,
    next_number: u64,
}

impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches").field("next_number", &self.next_number).finish_non_exhaustive()
    }
}

impl Batches {
    /// Batches for a carrier; `notify` hears of batches that are too long.
    pub fn new(carrier: Box<dyn Carrier>, notify: Notify) -> Self {
        Self { carrier, notify, next_number: 0 }
    }

    /// Sends a batch of this number of rows. A batch that is longer than [`MESSAGE_BYTES_MAX`] is lost.
    pub fn send(&mut self, rows: u32, mut arrow: Vec<u8>) {
        let number = self.next_number;
        self.next_number += 1;
        if arrow.len() > MESSAGE_BYTES_MAX {
            self.notify.tell(Event::Lost(rows.into()));
            return;
        }
        arrow.extend(number.to_le_bytes());
        self.carrier.send(rows, arrow);
    }
}

impl Drop for Batches {
    /// The sink before this value has ended.
    fn drop(&mut self) {
        self.carrier.end();
    }
}

/// A sink whose flushes come up to [`LINGER`] later: on live input, rows would otherwise come in very small
/// batches.
pub struct Lingering {
    shared: Arc<Shared>,
}

impl fmt::Debug for Lingering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lingering").finish_non_exhaustive()
    }
}

struct Shared {
    state: Mutex<State>,
    /// A flush is due later, or the sink has ended.
    changed: Condvar,
}

struct State {
    /// `None` after the end.
    sink: Option<Box<dyn RowSink + Send>>,
    /// When the rows of the sink must be flushed.
    due: Option<Instant>,
    failed: Option<io::Error>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Flushes the sink when a flush is due, until the sink has ended.
    fn flush_when_due(&self) {
        let mut state = self.lock();
        while state.sink.is_some() {
            let left = state.due.map(|due| due.saturating_duration_since(Instant::now()));
            state = match left {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    state.due = None;
                    let flushed = state.sink.as_mut().map_or(Ok(()), |sink| sink.flush());
                    state.failed = flushed.err().or(state.failed.take());
                    state
                }
                Some(left) => {
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl State {
    /// Applies `act` to the sink, unless a flush has failed since.
    fn apply(&mut self, act: impl FnOnce(&mut (dyn RowSink + Send)) -> io::Result<()>) -> io::Result<()> {
        match (self.failed.take(), &mut self.sink) {
            (Some(error), _) => Err(error),
            (None, Some(sink)) => act(&mut **sink),
            (None, None) => Err(io::Error::other("rows come after the end")),
        }
    }
}

impl Lingering {
    /// Starts the thread that flushes the sink.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn start(sink: Box<dyn RowSink + Send>) -> io::Result<Self> {
        let state = State { sink: Some(sink), due: None, failed: None };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let flushed = Arc::clone(&shared);
        std::thread::Builder::new().name("weir-linger".into()).spawn(move || flushed.flush_when_due())?;
        Ok(Self { shared })
    }
}

impl RowSink for Lingering {
    fn begin(&mut self, columns: &[Column]) -> io::Result<()> {
        self.shared.lock().apply(|sink| sink.begin(columns))
    }

    fn rows(&mut self, batch: &weir_packet::Batch, rows: Range<usize>) -> io::Result<()> {
        self.shared.lock().apply(|sink| sink.rows(batch, rows))
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut state = self.shared.lock();
        if state.due.is_none() {
            state.due = Some(Instant::now() + LINGER);
            self.shared.changed.notify_one();
        }
        state.apply(|_| Ok(()))
    }

    fn end(&mut self) -> io::Result<()> {
        let mut state = self.shared.lock();
        let ended = state.apply(|sink| sink.end());
        let sink = state.sink.take();
        drop(state);
        self.shared.changed.notify_one();
        // What is behind the sink ends here.
        drop(sink);
        ended
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        drop(self.shared.lock().sink.take());
        self.shared.changed.notify_one();
    }
}

#[cfg(test)]
#[path = "batches_tests.rs"]
mod tests;
