//! Messages over TCP: [`Link`], a queue and the thread that sends its messages.
//!
//! A connection that ends is established again, with growing pauses. A message leaves the queue when the system of the peer
//! has acknowledged its last byte; other messages are sent again on the next connection. The peer's system acknowledges
//! before its program reads: TCP does not tell what a program that was killed had read.

use crate::carrier::{Carrier, Event, Notify, Protocol};
use crate::message::Message;
use crate::queue::Queue;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Pause after the first failure to connect. Each further pause is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Bytes that are written together.
const WRITE_BYTES: usize = 64 << 10;
/// How long a write may block before the thread looks whether it should end.
const WRITE_WAIT: Duration = Duration::from_millis(100);
/// How often the thread looks for acknowledgements.
const ACKNOWLEDGE_INTERVAL: Duration = Duration::from_millis(20);
/// How often a thread without messages looks whether the connection has failed.
const IDLE_INTERVAL: Duration = Duration::from_millis(500);
/// How often the exporter reports about itself.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);
/// How often a waiting sender looks whether its patience is over.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// What a link needs from its surroundings.
pub struct Terms {
    /// Connects to the peer. May block for some seconds.
    pub connect: Box<dyn FnMut() -> io::Result<TcpStream> + Send>,
    /// Bytes that were written and that the peer's system has not acknowledged, also after the connection has failed.
    pub unacknowledged: fn(&TcpStream) -> io::Result<usize>,
    /// Whether a full queue that has made no progress since then is waited for no longer.
    pub is_over: Box<dyn Fn(Instant) -> bool + Send>,
    /// Likewise at the end, until the queue is empty.
    pub is_over_at_end: Box<dyn Fn(Instant) -> bool + Send>,
    /// Receives events.
    pub notify: Notify,
}

/// A queue, and the thread that sends its messages over a TCP connection.
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
    pub fn start(queue: Queue, protocol: Box<dyn Protocol>, terms: Terms) -> io::Result<Self> {
        let Terms { connect, unacknowledged, is_over, is_over_at_end, notify } = terms;
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
        let mut worker = Worker {
            shared: Arc::clone(&shared),
            protocol,
            connect,
            unacknowledged,
            notify: notify.clone(),
            damaged_bytes: 0,
        };
        std::thread::Builder::new().name("weir-link".into()).spawn(move || worker.work())?;
        Ok(Self { shared, is_over, is_over_at_end, notify })
    }
}

impl Carrier for Link {
    fn send(&mut self, rows: u32, bytes: Vec<u8>) {
        let mut state = self.shared.lock();
        while state.queue.as_ref().is_some_and(|queue| !queue.has_room(bytes.len())) {
            if (self.is_over)(state.progress) {
                break;
            }
            state = Shared::wait(&self.shared.progressed, state, CHECK_INTERVAL);
        }
        let Some(queue) = &mut state.queue else { return };
        let was_empty = queue.waiting_rows() == 0;
        let pushed = queue.push(rows, bytes);
        if was_empty {
            state.progress = Instant::now();
        }
        if !matches!(pushed, Ok(true)) {
            state.lost_rows += u64::from(rows);
            self.notify.tell(Event::Lost(rows.into()));
        }
        drop(state);
        pushed.err().into_iter().for_each(|error| self.shared.tell_disk(error, &self.notify));
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
    protocol: Box<dyn Protocol>,
    connect: Box<dyn FnMut() -> io::Result<TcpStream> + Send>,
    unacknowledged: fn(&TcpStream) -> io::Result<usize>,
    notify: Notify,
    damaged_bytes: u64,
}

/// A connection.
struct Connection {
    stream: TcpStream,
    written: u64,
    /// The messages that are not acknowledged: where they end.
    in_flight: VecDeque<u64>,
    /// The context that was announced.
    context: Option<Arc<[u8]>>,
    /// The first message with another context, for the next connection.
    is_outdated: bool,
    has_acknowledged: bool,
    reported: Instant,
}

/// Why a connection is not used any longer.
enum Ended {
    /// Everything is sent, or the link was ended.
    Done,
    /// Another connection is needed for messages with another context.
    Outdated,
    Failed(io::Error),
}

impl Worker {
    /// Connects, and sends messages, until the end.
    fn work(&mut self) {
        let mut pause = PAUSE_MIN;
        let mut is_reported = false;
        loop {
            if self.is_over() {
                return;
            }
            let failure = match (self.connect)() {
                Ok(stream) => {
                    self.shared.lock().connection = Stage::Established;
                    self.notify.tell(Event::Connected);
                    is_reported = false;
                    let mut connection = Connection::new(stream);
                    let ended = self.serve(&mut connection);
                    let mut state = self.shared.lock();
                    state.connection =
                        if matches!(ended, Ended::Outdated) { Stage::Unknown } else { Stage::Failed };
                    state.queue.iter_mut().for_each(Queue::rewind);
                    drop(state);
                    if connection.has_acknowledged {
                        pause = PAUSE_MIN;
                    }
                    match ended {
                        Ended::Done => return self.finish(),
                        Ended::Outdated => continue,
                        Ended::Failed(error) => error,
                    }
                }
                Err(error) => {
                    self.shared.lock().connection = Stage::Failed;
                    error
                }
            };
            if !std::mem::replace(&mut is_reported, true) {
                self.notify.tell(Event::Disconnected(failure));
            }
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
    fn serve(&mut self, connection: &mut Connection) -> Ended {
        self.protocol.begin();
        if let Err(error) = connection.stream.set_write_timeout(Some(WRITE_WAIT)) {
            return Ended::Failed(error);
        }
        loop {
            match self.step(connection) {
                Ok(None) => {}
                Ok(Some(ended)) => return ended,
                Err(error) => {
                    // The peer may have acknowledged more before the failure.
                    self.acknowledge(connection);
                    return Ended::Failed(error);
                }
            }
        }
    }

    fn step(&mut self, connection: &mut Connection) -> io::Result<Option<Ended>> {
        self.acknowledge(connection);
        if let Some(error) = connection.stream.take_error()? {
            return Err(error);
        }
        let (bytes, ends) = self.take(connection);
        connection.in_flight.extend(ends);
        if !bytes.is_empty() {
            return Ok(if self.write(connection, &bytes)? { None } else { Some(Ended::Done) });
        }
        let has_all = connection.in_flight.is_empty();
        if connection.is_outdated && has_all {
            return Ok(Some(Ended::Outdated));
        }
        if self.shared.lock().is_ending && has_all && !connection.is_outdated {
            let mut report = vec![];
            let lost_rows = self.shared.lock().lost_rows;
            if connection.context.is_some() {
                self.protocol.report(lost_rows, SystemTime::now(), &mut report);
            }
            self.write(connection, &report)?;
            // The peer may have closed its end first.
            let _ = connection.stream.shutdown(Shutdown::Write);
            return Ok(Some(Ended::Done));
        }
        let state = self.shared.lock();
        if state.queue.is_none() {
            return Ok(Some(Ended::Done));
        }
        let time = if has_all { IDLE_INTERVAL } else { ACKNOWLEDGE_INTERVAL };
        // A message may have come since.
        let is_awaited = !state.queue.as_ref().is_some_and(Queue::has_next) || connection.is_outdated;
        if is_awaited && !(state.is_ending && has_all) {
            drop(Shared::wait(&self.shared.arrived, state, time));
        }
        Ok(None)
    }

    /// Takes messages from the queue that are written together, in the form of the protocol, and where they end.
    fn take(&mut self, connection: &mut Connection) -> (Vec<u8>, Vec<u64>) {
        let (mut bytes, mut ends) = (vec![], vec![]);
        let now = SystemTime::now();
        while bytes.len() < WRITE_BYTES && !connection.is_outdated {
            let Some(message) = self.next() else { break };
            match &connection.context {
                Some(context) if *context == message.context => {}
                Some(_) => {
                    // The message is read again on the next connection.
                    connection.is_outdated = true;
                    break;
                }
                None => {
                    self.protocol.announce(&message.context, now, &mut bytes);
                    connection.context = Some(Arc::clone(&message.context));
                }
            }
            self.protocol.frame(&message, now, &mut bytes);
            ends.push(connection.written + bytes.len() as u64);
        }
        if connection.context.is_some() && connection.reported.elapsed() >= REPORT_INTERVAL {
            connection.reported = Instant::now();
            let lost_rows = self.shared.lock().lost_rows;
            self.protocol.report(lost_rows, now, &mut bytes);
        }
        (bytes, ends)
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

    /// Writes the bytes. Returns false if the link ended meanwhile.
    fn write(&mut self, connection: &mut Connection, mut bytes: &[u8]) -> io::Result<bool> {
        while !bytes.is_empty() {
            match connection.stream.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => {
                    connection.written += written as u64;
                    bytes = &bytes[written..];
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error),
            }
            self.acknowledge(connection);
            if self.is_over() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes the messages that the peer has from the queue.
    fn acknowledge(&mut self, connection: &mut Connection) {
        if connection.in_flight.is_empty() {
            return;
        }
        // A system that does not tell leaves only one assumption.
        let waiting = (self.unacknowledged)(&connection.stream).unwrap_or(0) as u64;
        let acknowledged = connection.written.saturating_sub(waiting);
        let count = connection.in_flight.partition_point(|end| *end <= acknowledged);
        if count == 0 {
            return;
        }
        connection.in_flight.drain(..count);
        connection.has_acknowledged = true;
        let mut state = self.shared.lock();
        state.progress = Instant::now();
        let Some(queue) = &mut state.queue else { return };
        let failed = (0..count).filter_map(|_| queue.acknowledge().err()).next();
        drop(state);
        self.shared.progressed.notify_all();
        failed.into_iter().for_each(|error| self.shared.tell_disk(error, &self.notify));
    }
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            written: 0,
            in_flight: VecDeque::new(),
            context: None,
            is_outdated: false,
            has_acknowledged: false,
            reported: Instant::now(),
        }
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
