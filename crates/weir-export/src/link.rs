//! Messages that wait for a receiver: [`Link`], a queue and the thread that sends its messages.
//!
//! A connection that ends is established again, with growing pauses. A message leaves the queue when the
//! receiver has acknowledged it; other messages are sent again on the next connection. What an
//! acknowledgement means is up to the [`Connection`]: `stream.rs` has that of TCP, `clickhouse.rs` the answer
//! to a request.

use crate::carrier::{Carrier, Connection, Event, Interruption, Notify, Peer, Standing};
use crate::message::Message;
use crate::queue::Queue;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_pipeline::bounded::{Bounded, Refused};

/// Pause after the first failure to connect. Each further pause is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How often the thread looks for acknowledgements.
const ACKNOWLEDGE_INTERVAL: Duration = Duration::from_millis(20);
/// How often a thread without messages looks whether the connection has failed.
const IDLE_INTERVAL: Duration = Duration::from_millis(500);
/// How often a waiting sender looks whether its patience is over.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// What a link needs from its surroundings.
pub struct Terms {
    /// Whether a full queue that has made no progress since then is waited for no longer.
    pub is_over: Box<dyn Fn(Instant) -> bool + Send>,
    /// Likewise at the end, until the queue is empty.
    pub is_over_at_end: Box<dyn Fn(Instant) -> bool + Send>,
    /// Receives events.
    pub notify: Notify,
}

/// A queue, and the thread that sends its messages.
pub struct Link {
    shared: Arc<Shared>,
    is_over: Box<dyn Fn(Instant) -> bool + Send>,
    is_over_at_end: Box<dyn Fn(Instant) -> bool + Send>,
    notify: Notify,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

struct Shared {
    state: Mutex<State>,
    /// A message has come, or the end.
    arrived: Condvar,
    /// A message was acknowledged, or the thread has ended.
    progressed: Condvar,
}

struct State {
    /// `None` after the end.
    queue: Option<Queue>,
    is_ending: bool,
    /// The thread has sent everything.
    is_done: bool,
    connection: Stage,
    disk_failed: bool,
    /// When a message was acknowledged, or came to an empty queue.
    progress: Instant,
    lost_rows: u64,
}

/// Whether there is a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Not known yet.
    Unknown,
    Established,
    /// The last attempt failed, or the connection did.
    Failed,
}

impl State {
    /// Whether nothing waits to be sent.
    fn is_empty(&self) -> bool {
        self.queue.as_ref().is_none_or(|queue| queue.waiting_rows() == 0 && !queue.has_next())
    }

    /// Whether waiting for the peer would be in vain: there is nothing to send, or the next run can send it.
    fn needs_no_peer(&self) -> bool {
        let is_kept = self.queue.as_ref().is_none_or(Queue::is_kept);
        match self.connection {
            Stage::Established => false,
            Stage::Unknown => self.is_empty(),
            Stage::Failed => self.is_empty() || is_kept,
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports the first failure of the disk.
    fn tell_disk(&self, error: io::Error, notify: &Notify) {
        if !std::mem::replace(&mut self.lock().disk_failed, true) {
            notify.tell(Event::Disk(error));
        }
    }

    fn wait<'s>(condvar: &Condvar, state: MutexGuard<'s, State>, time: Duration) -> MutexGuard<'s, State> {
        condvar.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Link {
    /// Starts the thread, which sends what is in the queue.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn start(queue: Queue, peer: Box<dyn Peer>, terms: Terms) -> io::Result<Self> {
        let Terms { is_over, is_over_at_end, notify } = terms;
        let state = State {
            queue: Some(queue),
            is_ending: false,
            is_done: false,
            connection: Stage::Unknown,
            disk_failed: false,
            progress: Instant::now(),
            lost_rows: 0,
        };
        let shared = Shared { state: Mutex::new(state), arrived: Condvar::new(), progressed: Condvar::new() };
        let shared = Arc::new(shared);
        let mut worker =
            Worker { shared: Arc::clone(&shared), notify: notify.clone(), damaged_bytes: 0, reported: None };
        std::thread::Builder::new().name("weir-link".into()).spawn(move || worker.work(peer))?;
        Ok(Self { shared, is_over, is_over_at_end, notify })
    }
}

impl Carrier for Link {
    fn send(&mut self, rows: u32, bytes: Vec<u8>) {
        let mut state = self.shared.lock();
        while state.queue.as_ref().is_some_and(|queue| !queue.has_room(bytes.len() as u64)) {
            if (self.is_over)(state.progress) {
                break;
            }
            state = Shared::wait(&self.shared.progressed, state, CHECK_INTERVAL);
        }
        let Some(queue) = &mut state.queue else { return };
        let was_empty = queue.waiting_rows() == 0;
        let offered = queue.offer((rows, bytes));
        if was_empty {
            state.progress = Instant::now();
        }
        if offered.is_err() {
            state.lost_rows += u64::from(rows);
            self.notify.tell(Event::Lost(rows.into()));
        }
        drop(state);
        if let Err(Refused::Broken(error)) = offered {
            self.shared.tell_disk(error, &self.notify);
        }
        self.shared.arrived.notify_one();
    }

    fn end(&mut self) {
        let mut state = self.shared.lock();
        state.is_ending = true;
        self.shared.arrived.notify_one();
        let mut progress = state.progress;
        while !state.is_done {
            if state.needs_no_peer() || (self.is_over_at_end)(state.progress) {
                break;
            }
            state = Shared::wait(&self.shared.progressed, state, CHECK_INTERVAL);
            if state.progress != progress {
                progress = state.progress;
                self.notify.tell(Event::Progress);
            }
        }
        let Some(queue) = state.queue.take() else { return };
        drop(state);
        self.shared.arrived.notify_one();
        match (queue.waiting_rows(), queue.is_kept()) {
            (0, _) => {}
            (rows, true) => self.notify.tell(Event::Kept(rows)),
            (rows, false) => self.notify.tell(Event::Lost(rows)),
        }
        queue.sync().err().into_iter().for_each(|error| self.shared.tell_disk(error, &self.notify));
    }
}

impl Drop for Link {
    /// The thread ends, and the queue is free for others.
    fn drop(&mut self) {
        drop(self.shared.lock().queue.take());
        self.shared.arrived.notify_one();
    }
}

/// The thread of a link.
struct Worker {
    shared: Arc<Shared>,
    notify: Notify,
    damaged_bytes: u64,
    /// What kinds of interruptions were reported since the receiver last accepted messages.
    reported: Option<Reported>,
}

/// The interruptions that were reported.
#[derive(Debug, Default)]
struct Reported {
    connection: bool,
    refusal: bool,
}

/// Why a connection is not used any longer.
enum Ended {
    /// Everything is sent, or the link was ended.
    Done,
    /// Another connection is needed for messages with another context.
    Outdated,
    Failed(Interruption),
}

/// The messages of a connection.
#[derive(Default)]
struct Taken {
    /// Messages that are not acknowledged.
    in_flight: usize,
    /// The first message with another context, for the next connection.
    is_outdated: bool,
    has_acknowledged: bool,
}

impl Worker {
    /// Connects, and sends messages, until the end.
    fn work(&mut self, mut peer: Box<dyn Peer>) {
        let mut pause = PAUSE_MIN;
        while !self.is_over() {
            let failure = match peer.connect() {
                Ok(mut connection) => {
                    let mut taken = Taken::default();
                    let ended = self.serve(&mut *connection, &mut taken);
                    let mut state = self.shared.lock();
                    state.queue.iter_mut().for_each(Queue::rewind);
                    if taken.has_acknowledged {
                        pause = PAUSE_MIN;
                    }
                    match ended {
                        Ended::Done => {
                            drop(state);
                            return self.finish();
                        }
                        Ended::Outdated => {
                            state.connection = Stage::Unknown;
                            continue;
                        }
                        Ended::Failed(failure) => failure,
                    }
                }
                Err(failure) => failure,
            };
            self.interrupted(failure);
            self.rest(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Whether the link has ended.
    fn is_over(&self) -> bool {
        self.shared.lock().queue.is_none()
    }

    fn finish(&self) {
        self.shared.lock().is_done = true;
        self.shared.progressed.notify_all();
    }

    /// Reports an interruption, each kind once until the receiver accepts messages again.
    fn interrupted(&mut self, why: Interruption) {
        self.shared.lock().connection = Stage::Failed;
        let reported = self.reported.get_or_insert_default();
        match why {
            Interruption::Connection(error) if !std::mem::replace(&mut reported.connection, true) => {
                self.notify.tell(Event::Disconnected(error));
            }
            Interruption::Refusal(why) if !std::mem::replace(&mut reported.refusal, true) => {
                self.notify.tell(Event::Rejected(why));
            }
            _ => {}
        }
    }

    /// Waits before the next attempt; an end of the link shortens the pause.
    fn rest(&self, pause: Duration) {
        let end = Instant::now() + pause;
        let mut state = self.shared.lock();
        while state.queue.is_some() {
            let left = end.saturating_duration_since(Instant::now());
            let left = if state.is_ending { left.min(PAUSE_MIN) } else { left };
            if left.is_zero() {
                return;
            }
            let is_ending = state.is_ending;
            state = Shared::wait(&self.shared.arrived, state, left);
            if is_ending {
                return;
            }
        }
    }

    /// Sends messages over a connection, until the connection or the link ends.
    fn serve(&mut self, connection: &mut dyn Connection, taken: &mut Taken) -> Ended {
        // The connection before may have failed.
        self.shared.lock().connection = Stage::Unknown;
        loop {
            match self.step(connection, taken) {
                Ok(None) => {}
                Ok(Some(ended)) => return ended,
                Err(error) => {
                    // The receiver may have acknowledged more before the failure.
                    self.acknowledge(connection, taken);
                    return Ended::Failed(error);
                }
            }
        }
    }

    fn step(
        &mut self,
        connection: &mut dyn Connection,
        taken: &mut Taken,
    ) -> Result<Option<Ended>, Interruption> {
        self.acknowledge(connection, taken);
        self.look(connection.standing());
        // Read before the queue: nothing is added to the queue after the end.
        let is_ending = self.shared.lock().is_ending;
        let mut is_drained = false;
        while connection.has_room() && !taken.is_outdated && !is_drained {
            let Some(message) = self.next() else {
                is_drained = true;
                continue;
            };
            // A message that is not taken is read again for the next connection.
            taken.is_outdated = !connection.take(&message);
            taken.in_flight += usize::from(!taken.is_outdated);
        }
        let lost_rows = self.shared.lock().lost_rows;
        connection.work(lost_rows)?;
        self.acknowledge(connection, taken);
        let has_all = taken.in_flight == 0;
        if taken.is_outdated && has_all {
            return Ok(Some(Ended::Outdated));
        }
        if is_ending && has_all && is_drained {
            connection.end(lost_rows);
            return Ok(Some(Ended::Done));
        }
        let state = self.shared.lock();
        let Some(queue) = &state.queue else { return Ok(Some(Ended::Done)) };
        // A message may have come since.
        if !queue.has_next() || taken.is_outdated || !connection.has_room() {
            let time = if has_all { IDLE_INTERVAL } else { ACKNOWLEDGE_INTERVAL };
            drop(Shared::wait(&self.shared.arrived, state, time));
        }
        Ok(None)
    }

    /// Reports whether the receiver accepts messages, if that has changed.
    fn look(&mut self, standing: Standing) {
        match standing {
            Standing::Unknown => {}
            Standing::Interrupted(why) => self.interrupted(why),
            Standing::Accepting => {
                let mut state = self.shared.lock();
                if std::mem::replace(&mut state.connection, Stage::Established) != Stage::Established {
                    // A receiver that is back gets time to acknowledge. At the end this would have no bound.
                    if !state.is_ending {
                        state.progress = Instant::now();
                    }
                    drop(state);
                    self.reported = None;
                    self.notify.tell(Event::Connected);
                }
            }
        }
    }

    /// The next message of the queue.
    fn next(&mut self) -> Option<Message> {
        let mut state = self.shared.lock();
        let queue = state.queue.as_mut()?;
        let next = queue.read_next();
        let damaged = queue.damaged_bytes();
        drop(state);
        if damaged > self.damaged_bytes {
            self.notify.tell(Event::Damaged(damaged - self.damaged_bytes));
            self.damaged_bytes = damaged;
        }
        next.unwrap_or_else(|error| {
            self.shared.tell_disk(error, &self.notify);
            None
        })
    }

    /// Removes the messages that the receiver has from the queue.
    fn acknowledge(&mut self, connection: &mut dyn Connection, taken: &mut Taken) {
        let count = connection.acknowledged();
        if count == 0 {
            return;
        }
        taken.in_flight = taken.in_flight.saturating_sub(count);
        taken.has_acknowledged = true;
        let mut state = self.shared.lock();
        state.progress = Instant::now();
        let Some(queue) = &mut state.queue else { return };
        let failed = (0..count).fold(None, |failed, _| queue.acknowledge().err().or(failed));
        drop(state);
        self.shared.progressed.notify_all();
        failed.into_iter().for_each(|error| self.shared.tell_disk(error, &self.notify));
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
