//! The share of a capture that one worker has: a socket on each interface.

use crate::balance::Balance;
use crate::card::CardDrops;
use crate::clock_watch::ClockWatch;
use crate::interface_states::InterfaceStates;
use crate::link_socket::{LinkSocket, LinkState};
use crate::options::{Note, Notes};
use crate::packet_socket::RETIRE_MS;
use crate::system::{InterfaceQuery, wait};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_packet::{
    Burst, KernelFilters, Poll, Source, SourceError, SourceErrorKind, SourcePlace, SourceStats, Timestamp,
};

/// Time of waiting for packets, before [`Poll::Idle`].
const PATIENCE: Duration = Duration::from_millis(10);
/// Time of waiting for several packets, once packets have come: so short that rings with room for thousands
/// do not overflow.
const PAUSE: Duration = Duration::from_micros(200);
/// Queues of DPDK wake no thread: they are looked at again after this time. It is so short that a queue with
/// room for thousands of packets does not overflow.
const LOOK: Duration = Duration::from_micros(50);
/// Time from the end of reception until the last packets are in the ring: the kernel passes the last block
/// meanwhile.
const DRAIN: Duration = Duration::from_millis(4 * RETIRE_MS as u64);
/// Packets older than this have been passed by the kernel.
const DELAY: Duration = Duration::from_millis(10 * RETIRE_MS as u64);
/// Time between two looks at the interfaces.
const CHECK: Duration = Duration::from_millis(100);

/// What all shares of a capture have in common.
#[derive(Debug, Clone)]
pub(crate) struct Common {
    /// The number of the last packet.
    pub numbers: Arc<AtomicU64>,
    /// Not 0: the capture ends.
    pub stop: Arc<AtomicUsize>,
    pub notes: Notes,
    pub states: InterfaceStates,
    /// Times are those of the network card, whose clock may differ from the machine's.
    pub hardware_time: bool,
}

/// An interface whose capture ends.
#[derive(Debug)]
struct Leaving {
    index: u32,
    since: Instant,
    why: String,
}

/// The sockets of one worker.
#[derive(Debug)]
pub(crate) struct Share {
    sockets: Vec<Box<dyn LinkSocket>>,
    /// Interfaces that have gone. The last packets of their sockets follow.
    leaving: Vec<Leaving>,
    /// The socket that is asked first.
    turn: usize,
    /// The cards of the interfaces. One share has them all.
    cards: Vec<CardDrops>,
    /// Counters of sockets that were removed.
    gone: SourceStats,
    common: Common,
    /// When the reception ended.
    stopped: Option<Instant>,
    checked: Instant,
    asks: InterfaceQuery,
    /// Packets have come since the last pause.
    had_packets: bool,
    clock: ClockWatch,
    /// A step of the machine's clock that is not reported yet, in nanoseconds.
    step_ns: i64,
    /// The balance between the shares, and whether this share reports its counters.
    balance: Option<(Arc<Balance>, bool)>,
}

impl Share {
    pub fn new(sockets: Vec<Box<dyn LinkSocket>>, common: Common) -> io::Result<Self> {
        let (gone, asks) = (SourceStats::default(), InterfaceQuery::new()?);
        let (leaving, checked) = (vec![], Instant::now());
        let clock = ClockWatch::new();
        Ok(Self {
            sockets,
            leaving,
            turn: 0,
            cards: vec![],
            gone,
            common,
            stopped: None,
            checked,
            asks,
            had_packets: false,
            clock,
            step_ns: 0,
            balance: None,
        })
    }

    /// Also counts what these cards drop.
    pub fn watch_cards(&mut self, cards: Vec<CardDrops>) {
        self.cards.extend(cards);
    }

    /// Shares a balance with others, one of which reports its counters.
    pub fn join(&mut self, balance: &Arc<Balance>, reports: bool) {
        self.balance = Some((Arc::clone(balance), reports));
    }

    /// Takes over the sockets of another share.
    pub fn absorb(&mut self, other: Self) {
        self.sockets.extend(other.sockets);
        self.cards.extend(other.cards);
    }

    /// Fills the burst from the first socket that has packets.
    fn fill(&mut self, burst: &mut Burst) -> Result<bool, SourceError> {
        let count = self.sockets.len();
        for step in 0..count {
            let at = (self.turn + step) % count;
            let socket = &mut self.sockets[at];
            let filled = socket.fill(burst);
            if filled.map_err(|error| of_interface(&socket.target().name, error.to_string()))? {
                let packets = burst.packets.len() as u64;
                let first = self.common.numbers.fetch_add(packets, Ordering::Relaxed) + 1;
                burst.packets.iter_mut().zip(first..).for_each(|(packet, number)| packet.number = number);
                self.turn = (at + 1) % count;
                self.had_packets = true;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Looks for interfaces that changed their state, and removes the sockets of those that are gone.
    fn check(&mut self) -> Result<(), SourceError> {
        self.checked = Instant::now();
        self.balance.iter().for_each(|(balance, _)| balance.look(self.checked));
        for socket in &self.sockets {
            let index = socket.target().index;
            if self.leaving.iter().any(|leaving| leaving.index == index) {
                continue;
            }
            match socket.state(&self.asks) {
                LinkState::Gone(why) => self.leaving.push(Leaving { index, since: self.checked, why }),
                LinkState::Down(name) if self.common.states.go_down(index) => {
                    self.common.notes.tell(Note::Down(name))
                }
                LinkState::Up(name) if self.common.states.come_up(index) => {
                    self.common.notes.tell(Note::Up(name))
                }
                LinkState::Up(_) | LinkState::Down(_) | LinkState::Same => {}
            }
        }
        let Some(at) = self.leaving.iter().position(|leaving| leaving.since.elapsed() > DRAIN) else {
            return Ok(());
        };
        let Leaving { index, why, .. } = self.leaving.swap_remove(at);
        let mut name = String::new();
        for socket in self.sockets.extract_if(.., |socket| socket.target().index == index) {
            self.gone.add(socket.stats());
            name.clone_from(&socket.target().name);
        }
        // Each share has a socket on the interface; one of them reports.
        if self.common.states.leave(index) { Err(of_interface(&name, why)) } else { Ok(()) }
    }

    /// Removes the sockets whose packets have all been delivered.
    fn forget_ended(&mut self) {
        for socket in self.sockets.extract_if(.., |socket| socket.is_at_end()) {
            self.gone.add(socket.stats());
        }
    }

    /// Times are those of other clocks than the machine's.
    fn has_own_clock(&self) -> bool {
        self.common.hardware_time || self.sockets.iter().any(|socket| socket.has_own_clock())
    }

    /// Waits for packets, for a while.
    fn wait(&mut self, burst: &mut Burst) -> Result<(), SourceError> {
        if self.sockets.iter().all(|socket| socket.socket().is_some()) {
            let waited = wait(self.sockets.iter().filter_map(|socket| socket.socket()), PATIENCE);
            waited.map_err(|error| of_interface(&self.sockets[0].target().name, error.to_string()))?;
            self.fill(burst)?;
            return Ok(());
        }
        let began = Instant::now();
        while !self.fill(burst)? && began.elapsed() < PATIENCE {
            self.forget_ended();
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Ends the reception. Packets in the rings follow.
    fn stop(&mut self) -> Result<(), SourceError> {
        self.stopped = Some(Instant::now());
        for socket in &mut self.sockets {
            socket.stop().map_err(|error| of_interface(&socket.target().name, error.to_string()))?;
        }
        Ok(())
    }

    /// A time that the traffic has reached.
    fn now(&self) -> Timestamp {
        if self.has_own_clock() {
            return Timestamp::MIN;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(DELAY);
        Timestamp(i64::try_from(now.as_nanos()).unwrap_or(i64::MAX))
    }
}

/// An error of the interface of this name.
pub(crate) fn of_interface(name: &str, message: String) -> SourceError {
    let place = SourcePlace::Interface { name: name.to_string() };
    SourceError { kind: SourceErrorKind::Io, place, message }
}

impl Source for Share {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        self.clock.look(SystemTime::now(), Instant::now());
        let polled = self.poll_sockets(burst)?;
        // The clock of a network card, or of a file, is another one.
        if !self.has_own_clock() {
            self.step_ns += self.clock.step_before(burst.packets.first().map(|packet| packet.time.0));
        }
        Ok(polled)
    }

    fn narrow(&mut self, filters: Option<&Arc<dyn KernelFilters>>) {
        self.sockets.iter_mut().for_each(|socket| socket.narrow(filters));
    }

    fn clock_step(&mut self) -> i64 {
        std::mem::take(&mut self.step_ns)
    }

    fn stats(&self) -> SourceStats {
        let mut all = self.gone;
        self.sockets.iter().for_each(|socket| all.add(socket.stats()));
        all.card_dropped = self.cards.iter().map(CardDrops::dropped).sum();
        if let Some((balance, true)) = &self.balance {
            all.add(balance.stats());
        }
        all
    }
}

impl Share {
    fn poll_sockets(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        burst.clear();
        // The memory of the last burst returns to the kernel.
        burst.block = Arc::default();
        if self.stopped.is_none() && self.common.stop.load(Ordering::Relaxed) != 0 {
            self.stop()?;
        }
        if self.checked.elapsed() > CHECK {
            self.check()?;
        }
        let is_drained = self.stopped.is_some_and(|at| at.elapsed() > DRAIN);
        if self.fill(burst)? {
            return Ok(Poll::Packets);
        }
        self.forget_ended();
        if self.sockets.is_empty() || is_drained {
            return Ok(Poll::End);
        }
        // After packets more will come soon: several of them together cost less than a call of the system for
        // each.
        let is_of_kernel = self.sockets.iter().all(|socket| socket.socket().is_some());
        if std::mem::take(&mut self.had_packets) && is_of_kernel {
            std::thread::sleep(PAUSE);
            if self.fill(burst)? {
                return Ok(Poll::Packets);
            }
        }
        self.wait(burst)?;
        Ok(if burst.packets.is_empty() { Poll::Idle { now: self.now() } } else { Poll::Packets })
    }
}
