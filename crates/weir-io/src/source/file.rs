//! An open file: its bytes, its walker, and packets that were read ahead while other files had their turn.

use super::ahead::Ahead;
use super::inflate::Compression;
use super::input::{self, InputCounts, MAGIC_BYTES, Pending};
use super::mark::Mark;
use super::order::Turn;
use super::walk::{Fault, Run, Slots, Stop};
use super::window::{Feed, Window};
use super::{pcap, pcapng};
use std::sync::Arc;
use weir_packet::{BURST_PACKETS_MAX, Burst, PacketMeta, SourceError, SourcePlace};

/// An open file.
pub(crate) struct OpenFile {
    name: Arc<str>,
    /// Index among the files of the run, in the user's order.
    place: usize,
    pub window: Window,
    feed: Feed,
    walker: Walker,
    /// Packets of the file that were read.
    packets: u64,
    ahead: Ahead,
    is_connection: bool,
}

/// The walker of either format.
enum Walker {
    /// With the file's header.
    Pcap(pcap::Walker, Vec<u8>),
    Pcapng(pcapng::Walker),
}

impl Walker {
    /// Determines the format from the first bytes of a file, and skips its header.
    fn of(window: &mut Window, run: &mut Run, is_connection: bool) -> Result<Self, Fault> {
        let first = window.unread();
        if pcap::recognize(first) {
            let (walker, header_bytes) = pcap::open(first, run)?;
            let header = first[..header_bytes].to_vec();
            window.consume(header_bytes);
            Ok(Self::Pcap(walker, header))
        } else if pcapng::recognize(first) {
            Ok(Self::Pcapng(pcapng::Walker::new()))
        } else if is_connection {
            Err(input::explain_other_end(first))
        } else {
            Err(input::explain_magic(first))
        }
    }

    fn walk(&mut self, bytes: &[u8], pos: &mut usize, run: &mut Run, slots: &mut Slots<'_>) -> Stop {
        match self {
            Self::Pcap(walker, _) => walker.walk(bytes, pos, run, slots),
            Self::Pcapng(walker) => walker.walk(bytes, pos, run, slots),
        }
    }
}

impl OpenFile {
    /// Opens an input and determines its format. The input counts in `counts`.
    pub fn open(
        pending: Pending,
        place: usize,
        mut window: Window,
        run: &mut Run,
        counts: &InputCounts,
    ) -> Result<Self, SourceError> {
        window.reset();
        let name: Arc<str> = Arc::from(pending.path.to_string_lossy());
        run.file = Arc::clone(&name);
        let is_connection = pending.is_connection();
        match start(pending, &mut window, run, counts) {
            Ok((feed, walker)) => Ok(Self {
                name,
                place,
                window,
                feed,
                walker,
                packets: 0,
                ahead: Ahead::default(),
                is_connection,
            }),
            Err(fault) => Err(locate(fault, &name, 0, &window)),
        }
    }

    /// Fills `burst`, replacing its contents. Returns `false`, without packets, at the end of the file; an
    /// error also leaves no packets.
    ///
    /// Call this only when the file [`is_drained`](Self::is_drained).
    pub fn fill(&mut self, run: &mut Run, burst: &mut Burst) -> Result<bool, SourceError> {
        if !Arc::ptr_eq(&run.file, &self.name) {
            run.file = Arc::clone(&self.name);
        }
        let filled = self.fill_burst(run, burst);
        self.packets += burst.packets.len() as u64;
        filled.map_err(|fault| locate(fault, &self.name, self.packets, &self.window))
    }

    /// As [`fill`](Self::fill), into the file's own burst, which is delivered in parts.
    pub fn read_ahead(&mut self, run: &mut Run) -> Result<bool, SourceError> {
        let mut ahead = std::mem::take(&mut self.ahead).into_burst();
        let filled = self.fill(run, &mut ahead);
        self.ahead = Ahead::of(ahead);
        filled
    }

    fn fill_burst(&mut self, run: &mut Run, burst: &mut Burst) -> Result<bool, Fault> {
        loop {
            // Usually one full burst follows another, and this changes nothing.
            burst.packets.resize(BURST_PACKETS_MAX, PacketMeta::default());
            let packets = burst.packets.first_chunk_mut().expect("of this length");
            burst.extras.clear();
            let extras = run.findings.is_asked().then_some(&mut burst.extras);
            let mut slots = Slots { packets, found: 0, extras };
            let (bytes, pos) = self.window.walked();
            let stop = self.walker.walk(bytes, pos, run, &mut slots);
            let found = slots.found;
            burst.packets.truncate(found);
            if found > 0 {
                self.window.lend_to(burst);
                return Ok(true);
            }
            let need = match stop {
                Stop::Full => unreachable!("full of no packets"),
                Stop::Fault(_) if self.begins_another() => {
                    self.walker = Walker::of(&mut self.window, run, self.is_connection)?;
                    run.captures_joined += 1;
                    continue;
                }
                Stop::Fault(fault) => return Err(fault),
                Stop::Need(need) => need,
            };
            if !fill_window(&mut self.window, &mut self.feed, need, burst, self.is_connection)? {
                if let Walker::Pcap(walker, _) = &mut self.walker
                    && !walker.is_at_end
                {
                    walker.is_at_end = true;
                    continue;
                }
                return match self.window.unread().len() {
                    0 => Ok(false),
                    there => Err(input::explain_end(there, need, self.is_connection)),
                };
            }
        }
    }

    /// Whether another capture begins where the walker found a fault, as in a file that `cat` wrote.
    fn begins_another(&self) -> bool {
        let first = self.window.unread();
        pcap::begins(first) || pcapng::recognize(first) && matches!(self.walker, Walker::Pcap(..))
    }

    /// The place behind the packets delivered; see [`CaptureReader::mark`](super::CaptureReader::mark).
    pub fn mark(&self) -> Option<Mark> {
        if !self.is_drained() {
            return None;
        }
        let (head, first_interface) = match &self.walker {
            Walker::Pcap(walker, header) => (&header[..], walker.interface),
            Walker::Pcapng(walker) => walker.head()?,
        };
        Some(Mark { offset_bytes: self.window.offset(), head: head.to_vec(), first_interface })
    }

    /// Whether all packets that were read have been delivered.
    pub fn is_drained(&self) -> bool {
        self.ahead.next().is_none()
    }

    /// The file's turn: the time of its next packet. The file must not be drained.
    pub fn turn(&self) -> Turn {
        self.turn_of(self.ahead.next().expect("the file is not drained"))
    }

    fn turn_of(&self, packet: &PacketMeta) -> Turn {
        (packet.time, self.place)
    }

    /// Whether all packets of `burst`, which were just read, come before another file's turn. Otherwise they
    /// become packets read ahead.
    pub fn is_before(&mut self, burst: &mut Burst, turn: Option<Turn>) -> bool {
        let is_before = turn.is_none_or(|turn| burst.packets.iter().all(|p| self.turn_of(p) < turn));
        if !is_before {
            self.ahead = Ahead::of(std::mem::take(burst));
        }
        is_before
    }

    /// Delivers packets read ahead: at least one, up to the first that is not before `limit`.
    pub fn hand_out(&mut self, limit: Option<Turn>, burst: &mut Burst) {
        let place = self.place;
        self.ahead.hand_out(|packet| limit.is_none_or(|limit| (packet.time, place) < limit), burst);
    }

    /// Closes the file; another one may reuse its window.
    pub fn into_window(self) -> Window {
        self.window
    }
}

/// Opens an input, with a decompressor if necessary, and determines its format.
fn start(
    pending: Pending,
    window: &mut Window,
    run: &mut Run,
    counts: &InputCounts,
) -> Result<(Feed, Walker), Fault> {
    let nobodys = &mut Burst::default();
    let (grows, is_connection) = (pending.grows, pending.is_connection());
    let mut feed = Feed::Plain(pending.open(counts)?);
    fill_window(window, &mut feed, MAGIC_BYTES, nobodys, is_connection)?;
    if let Some(compression) = Compression::of(window.unread()) {
        if grows {
            // The end of what was written can be in the middle of a compressed block.
            return Err(Fault::unsupported("compressed captures cannot be followed as they grow"));
        }
        let Feed::Plain(reader) = feed else { unreachable!("opened as such") };
        feed = input::inflate(compression, window.unread(), reader, window.geometry(), is_connection)?;
        window.reset();
        fill_window(window, &mut feed, MAGIC_BYTES, nobodys, is_connection)?;
    }
    let walker = Walker::of(window, run, is_connection)?;
    Ok((feed, walker))
}

fn fill_window(
    window: &mut Window,
    feed: &mut Feed,
    need: usize,
    burst: &mut Burst,
    is_connection: bool,
) -> Result<bool, Fault> {
    window.fill(feed, need, burst).map_err(|e| input::explain_read(feed, &e, is_connection))
}

/// Converts `fault` to an error at the current place.
fn locate(fault: Fault, name: &str, packets_before: u64, window: &Window) -> SourceError {
    SourceError {
        kind: fault.kind,
        place: SourcePlace::Capture { file: name.to_owned(), packets_before, offset_bytes: window.offset() },
        message: fault.message,
    }
}
