//! Reads captures: files, standard input, or any reader, as one source, in the order of time.
//!
//! - `input.rs`: opens inputs, and explains failures
//! - `inflate.rs`: decompression on a thread of its own
//! - `window.rs`: bytes into blocks; the tail of one block is carried to the next
//! - `pcap.rs`, `pcapng.rs`: packets in the bytes (`walk.rs`: common parts)
//! - `file.rs`: an open file; `order.rs`: the order of files; `ahead.rs`: packets that wait for their turn
//! - `arriving.rs`: packets over UDP
//! - `growing.rs`: a file that is still written
//! - `interface.rs`: interfaces of captures; `options.rs`: options of pcapng
//! - `findings.rs`: metadata besides packets, shared with writers and reports
//! - `attended.rs`: readers on threads of their own, for runs that must not wait for packets; `inputs.rs`:
//!   these threads
//! - `mark.rs`: places inside of captures where reading can begin
//! - `memory.rs`: packets from memory, for tests

mod ahead;
mod arriving;
mod attended;
#[cfg(test)]
#[path = "../../../weir-testing/src/capture.rs"]
mod capture;
#[cfg(test)]
mod carry_tests;
#[cfg(test)]
mod craft;
mod file;
mod findings;
mod growing;
mod inflate;
mod input;
mod inputs;
mod interface;
mod mark;
mod memory;
mod options;
mod order;
mod pcap;
mod pcapng;
#[cfg(test)]
mod tests;
mod walk;
mod window;

pub use attended::Attended;
use findings::Counts;
pub use findings::{Findings, Following, Found};
pub use interface::{Description, Interface, TimeResolution};
pub use mark::Mark;
pub use memory::{MemoryPacket, MemorySource};
pub use order::first_time;

use crate::tcp::{Endpoint, Listener, Sender, explain_unbound};
use arriving::{Arriving, explain_port};
use file::OpenFile;
use input::{InputCounts, Pending};
use order::Waiting;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use walk::Run;
use weir_packet::{
    Burst, KernelFilters, Poll, Source, SourceError, SourceErrorKind, SourcePlace, SourceStats,
};
use weir_ring::{Selection, TimeRange};
use window::Window;

/// Limit of files that are open at the same time because they overlap in time. Each needs a descriptor and a
/// block or two.
const OPEN_MAX: usize = 64;

/// Reads captures as bursts of packets, in the order of time if files overlap.
///
/// Formats (pcap, pcapng) and compression (gzip, zstd, lz4) are determined from the first bytes of files,
/// never from their names. Packets and interfaces are numbered across all files.
///
/// Of several files, the one whose next packet is the earliest is read next, as `mergecap` does; packets of
/// one file keep their order. A file is open from the time of its first packet on: any number of consecutive
/// captures needs one descriptor.
///
/// Bytes are read in blocks of 1 MiB, which are reused when they have no references. Packets are not copied,
/// except one that is cut at the end of a block. Nothing is allocated per packet or per burst. If files
/// overlap, bursts end where another file has its turn.
pub struct CaptureReader {
    waiting: Waiting,
    open: Vec<OpenFile>,
    /// The window of the file that ended last; the next file reuses it with its blocks.
    spare: Option<Window>,
    block_bytes: usize,
    run: Run,
    /// Interfaces and counts that were published in the findings.
    told_interfaces: usize,
    told: Counts,
    /// Packets delivered.
    packets: u64,
    counts: InputCounts,
    total_bytes: Option<u64>,
    /// The last file, if it is followed.
    followed: Option<PathBuf>,
}

/// An input at which others arrive: its sockets are open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listening {
    /// The name of the input.
    pub name: String,
    /// The local addresses.
    pub addresses: Vec<SocketAddr>,
    /// Bytes that datagrams may occupy in the kernel until they are read; `None` for connections, and if
    /// unknown.
    pub buffer_bytes: Option<usize>,
}

impl CaptureReader {
    /// Reads these captures; `-` is standard input, `tcp://HOST:PORT` and `tcp-listen:PORT` are
    /// [connections](Endpoint), `udp://:PORT` [packets over UDP](weir_udp), and `ring:NAME` the packets of a
    /// [recorder](weir_ring).
    ///
    /// Each file is opened when its turn comes: [`poll`](Source::poll) returns errors of a file, and then
    /// continues with the others. Costs a query of each file's size; with several files, the first burst also
    /// reads each file's first packet.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Self {
        Self::of(
            paths
                .iter()
                .map(|path| Pending { path: path.as_ref().to_owned(), reader: None, grows: false })
                .collect(),
        )
    }

    /// Reads one capture from `reader`, called `name` in errors.
    pub fn from_reader(name: impl Into<String>, reader: Box<dyn Read + Send>) -> Self {
        Self::of(vec![Pending { path: name.into().into(), reader: Some(reader), grows: false }])
    }

    /// Reads packets of a recorder from `reader`, whose selection is this one.
    pub fn of_recorder(
        name: impl Into<String>,
        reader: Box<dyn Read + Send>,
        selection: Arc<Selection>,
    ) -> Self {
        let mut made = Self::from_reader(name, reader);
        made.counts.selection = selection;
        made
    }

    fn of(files: Vec<Pending>) -> Self {
        Self {
            total_bytes: files.iter().map(Pending::size_bytes).sum(),
            waiting: Waiting::of(files),
            open: Vec::new(),
            spare: None,
            block_bytes: window::BLOCK_BYTES,
            run: Run::default(),
            told_interfaces: 0,
            told: Counts::default(),
            packets: 0,
            counts: InputCounts::default(),
            followed: None,
        }
    }

    /// Reads blocks of this size (at least 64 bytes) instead of 1 MiB. Smaller blocks reach the engine sooner
    /// and cost more system calls; a packet larger than a block gets a larger block.
    #[must_use]
    pub fn with_block_bytes(mut self, bytes: usize) -> Self {
        self.block_bytes = bytes.max(64);
        self
    }

    /// Reads on as the last file grows, and then reads the file that takes its name. [`poll`](Source::poll)
    /// waits, and never returns the end of the captures.
    #[must_use]
    pub fn following(mut self) -> Self {
        self.followed = self.waiting.follow_last();
        self.total_bytes = None;
        self
    }

    /// Opens the sockets of all inputs now at which others arrive (`tcp-listen:`, `udp://`): from now on,
    /// senders can connect, and datagrams are kept. Otherwise a socket is opened when the turn of its input
    /// comes.
    ///
    /// # Errors
    /// The first socket that cannot be opened.
    pub fn listen(&mut self) -> Result<Vec<Listening>, SourceError> {
        let mut listening = vec![];
        for pending in self.waiting.pending_mut().filter(|pending| pending.reader.is_none()) {
            let name = pending.path.display().to_string();
            let failed = |message| SourceError {
                kind: SourceErrorKind::Io,
                place: SourcePlace::Capture { file: name.clone(), packets_before: 0, offset_bytes: 0 },
                message,
            };
            let (addresses, buffer_bytes) = match Endpoint::of(&pending.path) {
                Some(Ok(Endpoint::Listen { address, port })) => {
                    let listener =
                        Listener::bind(address, port).map_err(|error| failed(explain_unbound(&error)))?;
                    let addresses = listener.addresses();
                    pending.reader = Some(Box::new(Sender::Awaited(listener)));
                    (addresses, None)
                }
                Some(Ok(Endpoint::Datagrams(udp))) => {
                    let arriving = Arriving::bind(&udp, Arc::clone(&self.counts.arrivals));
                    let arriving = arriving.map_err(|error| failed(explain_port(&error)))?;
                    let (addresses, buffer_bytes) = (arriving.addresses(), arriving.buffer_bytes());
                    pending.reader = Some(Box::new(arriving));
                    (addresses, buffer_bytes)
                }
                _ => continue,
            };
            listening.push(Listening { name, addresses, buffer_bytes });
        }
        Ok(listening)
    }

    /// Readers that can be read on threads of their own, in the order of their inputs: one for each
    /// connection, and one for all other inputs. With each, whether its packets may fail to come for a long
    /// time.
    fn into_parts(mut self) -> Vec<(Self, bool)> {
        let count = self.waiting.pending().count();
        if count < 2 || !self.waiting.pending().any(|(_, pending)| pending.is_connection()) {
            return vec![(self, true)];
        }
        let (findings, block_bytes) = (self.run.findings.clone(), self.block_bytes);
        let shared = self.counts.clone();
        let connection = |(place, pending)| {
            let counts = InputCounts { read_bytes: Arc::default(), ..shared.clone() };
            let reader = Self { counts, ..Self::of(vec![pending]).with_block_bytes(block_bytes) };
            (place, reader.with_findings(findings.of_part()), true)
        };
        let mut parts: Vec<_> = self.waiting.take_connections().into_iter().map(connection).collect();
        let first = self.waiting.pending().next().map(|(place, _)| place);
        if let Some(place) = first {
            let is_live =
                self.followed.is_some() || !self.waiting.pending().all(|(_, pending)| pending.is_file());
            parts.push((place, self.with_findings(findings.of_part()), is_live));
        }
        parts.sort_by_key(|(place, ..)| *place);
        parts.into_iter().map(|(_, reader, is_live)| (reader, is_live)).collect()
    }

    /// Publishes metadata in `findings`, which pcapng writers share, instead of findings of its own.
    #[must_use]
    pub fn with_findings(mut self, findings: Findings) -> Self {
        self.run.findings = findings;
        self
    }

    /// The interfaces found so far, in the order of their numbers in
    /// [`PacketMeta::interface`](weir_packet::PacketMeta::interface).
    pub fn interfaces(&self) -> &[Interface] {
        &self.run.interfaces
    }

    /// What all inputs count.
    fn counts(&self) -> InputCounts {
        self.counts.clone()
    }

    /// Reads only packets of recorders with these times. Other inputs are not concerned.
    #[must_use]
    pub fn with_times(mut self, times: TimeRange) -> Self {
        self.counts.selection = Arc::new(Selection::of(times));
        self
    }

    /// Packets read so far, over all files.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The place behind the last burst, at which another reader of the same capture can begin. `None` if
    /// there is none: several files are open, or packets follow that depend on those before them.
    pub fn mark(&self) -> Option<Mark> {
        let [file] = &self.open[..] else { return None };
        file.mark()
    }

    /// pcapng blocks that were skipped because they hold no packets: statistics, custom and unknown blocks,
    /// and, without a pcapng writer, names and secrets.
    pub fn blocks_skipped(&self) -> u64 {
        self.run.blocks_skipped
    }

    /// Interfaces beyond the 65 536 that can be numbered: their packets have the number of the last
    /// interface.
    pub fn interfaces_beyond(&self) -> u64 {
        self.run.interfaces_beyond
    }

    /// What was counted besides packets.
    fn counted(&self) -> Counts {
        let Self { run, waiting, .. } = self;
        Counts {
            blocks_skipped: run.blocks_skipped,
            interfaces_beyond: run.interfaces_beyond,
            files_late: waiting.late,
            options_cut: run.options_cut,
            captures_joined: run.captures_joined,
            times_beyond: run.times_beyond,
        }
    }

    /// Files whose turn came while 64 others were open: they had to wait, and their packets come late.
    pub fn files_late(&self) -> u64 {
        self.waiting.late
    }

    /// The findings so far, updated with every burst.
    pub fn findings(&self) -> &Findings {
        &self.run.findings
    }

    /// Publishes what was found since the last call.
    fn tell(&mut self) {
        self.run.findings.carry(&mut self.run.carried);
        let (interfaces, counts) = (self.run.interfaces.len(), self.counted());
        if self.told_interfaces == interfaces && self.told == counts {
            return;
        }
        self.told_interfaces = interfaces;
        let new = counts.since(std::mem::replace(&mut self.told, counts));
        let run = &self.run;
        run.findings.tell(|found| {
            let told = found.interfaces.len();
            found.interfaces.extend_from_slice(&run.interfaces[told..]);
            found.add(new);
        });
    }

    /// Opens the file whose turn it is.
    fn open_next(&mut self) -> Result<(), SourceError> {
        let Some((pending, place)) = self.waiting.take() else { return Ok(()) };
        let window = self.spare.take().unwrap_or_else(|| Window::new(self.block_bytes));
        self.open.push(OpenFile::open(pending, place, window, &mut self.run, &self.counts)?);
        Ok(())
    }

    /// Continues reading the open file `index`: into `burst` if it is the only one, ahead if it must wait for
    /// others. Closes a file at its end. Returns whether `burst` holds the next packets.
    fn read_on(&mut self, index: usize, burst: &mut Burst) -> Result<bool, SourceError> {
        let is_alone = self.open.len() == 1;
        let file = &mut self.open[index];
        let found = match is_alone {
            true => file.fill(&mut self.run, burst),
            false => {
                burst.clear();
                file.window.reclaim(burst);
                let read = file.read_ahead(&mut self.run);
                // Packets are numbered when they are delivered; the packets after these blocks may be the
                // next ones.
                let next = self.packets + 1;
                self.run.carried.stand_before(next);
                read
            }
        };
        if let Ok(true) = found {
            return Ok(is_alone && file.is_before(burst, self.waiting.turn()));
        }
        self.spare = Some(self.open.remove(index).into_window());
        let is_last = self.open.is_empty() && self.waiting.turn().is_none();
        // A growing file ends when another file has taken its place: the reader goes on with that file. The
        // last record of the old file may be incomplete. After any other error, the place holds the same
        // damaged file, and the reader stops.
        let is_complete = match &found {
            Ok(_) => true,
            Err(error) => error.kind == SourceErrorKind::Truncated,
        };
        if let (Some(path), true, true) = (&self.followed, is_complete, is_last) {
            self.waiting.add(Pending { path: path.clone(), reader: None, grows: true });
        }
        found
    }

    /// Numbers the packets of a burst that is delivered. Packets of a file that was not interrupted have
    /// their numbers already.
    fn number(&mut self, burst: &mut Burst) {
        if burst.packets.first().is_some_and(|first| first.number != self.packets + 1) {
            for (number, packet) in (self.packets + 1..).zip(&mut burst.packets) {
                packet.number = number;
            }
        }
        self.packets += burst.packets.len() as u64;
    }
}

impl Source for CaptureReader {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        let polled = self.read_burst(burst);
        self.tell();
        polled
    }

    fn progress(&self) -> (u64, Option<u64>) {
        (self.counts.read_bytes.load(Ordering::Relaxed), self.total_bytes)
    }

    /// Of packets over UDP and of recorders; all zero for other inputs.
    fn stats(&self) -> SourceStats {
        self.counts.stats()
    }

    fn narrow(&mut self, filters: Option<&Arc<dyn KernelFilters>>) {
        self.counts.narrow(filters);
    }
}

impl CaptureReader {
    fn read_burst(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        self.waiting.sort();
        loop {
            if let Some(drained) = self.open.iter().position(OpenFile::is_drained) {
                if self.read_on(drained, burst)? {
                    break;
                }
                continue;
            }
            let turns = || self.open.iter().enumerate().map(|(index, file)| (file.turn(), index));
            let next = turns().min();
            let is_due = self.waiting.is_due(next.map(|(turn, _)| turn));
            if is_due && self.open.len() < OPEN_MAX {
                self.open_next()?;
                continue;
            } else if is_due {
                self.waiting.note_late();
            }
            let Some((_, index)) = next else {
                burst.clear();
                self.spare.iter().for_each(|window| window.reclaim(burst));
                return Ok(Poll::End);
            };
            // A file that is due but cannot be opened yet does not delay the others.
            let waits = self.waiting.turn().filter(|_| !is_due);
            let others = turns().filter(|(_, other)| *other != index).map(|(turn, _)| turn);
            let limit = others.chain(waits).min();
            self.open[index].hand_out(limit, burst);
            break;
        }
        self.number(burst);
        Ok(Poll::Packets)
    }
}
