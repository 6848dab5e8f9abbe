//! The part of a capture that one worker has: a socket on each interface.

use crate::link_socket::{LinkSocket, Target};
use crate::options::{Note, Notes};
use crate::packet_socket::RETIRE_MS;
use crate::system::{InterfaceQuery, interface_index, wait};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_packet::{Burst, Poll, Source, SourceError, SourceErrorKind, SourcePlace, SourceStats, Timestamp};

/// Time of waiting for packets, before [`Poll::Idle`].
const PATIENCE: Duration = Duration::from_millis(10);
/// Time from the end of reception until the last packets are in the ring: the kernel passes the last block meanwhile.
const DRAIN: Duration = Duration::from_millis(4 * RETIRE_MS as u64);
/// Packets older than this have been passed by the kernel.
const DELAY: Duration = Duration::from_millis(10 * RETIRE_MS as u64);

/// The sockets of one worker.
#[derive(Debug)]
pub(crate) struct Part {
    sockets: Vec<Box<dyn LinkSocket>>,
    /// The socket that is asked first.
    turn: usize,
    /// Counters of sockets whose interface was removed.
    gone: SourceStats,
    numbers: Arc<AtomicU64>,
    /// Not 0: the capture ends.
    stop: Arc<AtomicUsize>,
    /// When the reception ended.
    stopped: Option<Instant>,
    notes: Notes,
    asks: InterfaceQuery,
}

impl Part {
    pub fn new(
        sockets: Vec<Box<dyn LinkSocket>>,
        numbers: Arc<AtomicU64>,
        stop: Arc<AtomicUsize>,
        notes: Notes,
    ) -> io::Result<Self> {
        let (gone, asks) = (SourceStats::default(), InterfaceQuery::new()?);
        Ok(Self { sockets, turn: 0, gone, numbers, stop, stopped: None, notes, asks })
    }

    /// Fills the burst from the first socket that has packets.
    fn fill(&mut self, burst: &mut Burst) -> Result<bool, SourceError> {
        let count = self.sockets.len();
        for step in 0..count {
            let at = (self.turn + step) % count;
            let socket = &mut self.sockets[at];
            let filled = socket
                .fill(burst, &self.numbers)
                .map_err(|error| of_interface(&socket.target().name, &error))?;
            if filled {
                self.turn = (at + 1) % count;
                if std::mem::take(socket.down()) {
                    self.notes.tell(Note::Up(socket.target().name.clone()));
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Looks for interfaces that went down or are gone.
    fn check(&mut self) -> Result<(), SourceError> {
        for at in 0..self.sockets.len() {
            let socket = &mut self.sockets[at];
            let error = socket.socket().take_error();
            let Target { name, index } = socket.target().clone();
            let is_there = index == 0 || interface_index(&name).ok() == Some(index);
            let is_down = index != 0 && !self.asks.is_up(&name);
            let is_of_interface =
                matches!(error.as_ref().map(|error| error.raw_os_error()), Some(Some(libc::ENETDOWN)));
            if is_there && (error.is_none() || is_of_interface) {
                if (is_down || is_of_interface) && !std::mem::replace(socket.down(), true) {
                    self.notes.tell(Note::Down(name));
                }
                continue;
            }
            let mut socket = self.sockets.remove(at);
            socket.read_counters();
            self.gone.add(socket.stats());
            let message = match error {
                Some(error) if is_there => format!("the capture has ended: {error}"),
                _ => "the interface was removed: the capture on it has ended".to_string(),
            };
            return Err(SourceError {
                kind: SourceErrorKind::Io,
                place: SourcePlace::Interface { name },
                message,
            });
        }
        Ok(())
    }

    /// Ends the reception. Packets in the rings follow.
    fn stop(&mut self) -> Result<(), SourceError> {
        self.stopped = Some(Instant::now());
        for socket in &mut self.sockets {
            socket.stop().map_err(|error| of_interface(&socket.target().name, &error))?;
        }
        Ok(())
    }
}

fn of_interface(name: &str, error: &io::Error) -> SourceError {
    let place = SourcePlace::Interface { name: name.to_string() };
    SourceError { kind: SourceErrorKind::Io, place, message: error.to_string() }
}

impl Source for Part {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        burst.clear();
        // The memory of the last burst returns to the kernel.
        burst.block = Arc::default();
        if self.stopped.is_none() && self.stop.load(Ordering::Relaxed) != 0 {
            self.stop()?;
        }
        if self.fill(burst)? {
            return Ok(Poll::Packets);
        }
        if self.sockets.is_empty() || self.stopped.is_some_and(|at| at.elapsed() > DRAIN) {
            self.sockets.iter_mut().for_each(|socket| socket.read_counters());
            return Ok(Poll::End);
        }
        let waited = wait(self.sockets.iter().map(|socket| socket.socket()), PATIENCE);
        waited.map_err(|error| of_interface(&self.sockets[0].target().name, &error))?;
        if self.fill(burst)? {
            return Ok(Poll::Packets);
        }
        self.check()?;
        self.sockets.iter_mut().for_each(|socket| socket.read_counters());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(DELAY);
        Ok(Poll::Idle { now: Timestamp(i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)) })
    }

    fn stats(&self) -> SourceStats {
        let mut all = self.gone;
        self.sockets.iter().for_each(|socket| all.add(socket.stats()));
        all
    }
}
