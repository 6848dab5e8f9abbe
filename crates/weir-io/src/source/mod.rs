//! Reading captures: files one after the other, standard input, or any reader, as one source.
//!
//! - `input.rs`: opening, and what to say where that fails
//! - `inflate.rs`: decompression on a thread of its own
//! - `window.rs`: bytes into blocks, the tail of one block carried to the next
//! - `pcap.rs`, `pcapng.rs`: packets in the bytes (`walk.rs` says what the two share)
//! - `interface.rs`: what captures say of their interfaces

#[cfg(test)]
mod craft;
mod inflate;
mod input;
mod interface;
mod pcap;
mod pcapng;
#[cfg(test)]
mod tests;
mod walk;
mod window;

pub use interface::{Interface, TimeResolution};

use inflate::Compression;
use input::{MAGIC_BYTES, Pending};
use std::collections::VecDeque;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use walk::{Fault, Run, Slots, Stop};
use weir_packet::{BURST_PACKETS_MAX, Burst, PacketMeta, Source, SourceError};
use window::{Feed, Window};

/// Reads captures as bursts of packets.
///
/// Formats (pcap, pcapng) and compression (gzip, zstd, lz4) are told by what files begin with, never
/// by their names. Packets and interfaces are numbered through all files.
///
/// Bytes are read in blocks of 1 MiB, into blocks that nobody refers to any longer; packets are not
/// copied, but for one cut at the end of a block. Nothing is allocated per packet or per burst.
pub struct CaptureReader {
    waiting: VecDeque<Pending>,
    open: Option<OpenFile>,
    window: Window,
    run: Run,
    read_bytes: Arc<AtomicU64>,
    total_bytes: Option<u64>,
}

/// The file being read.
struct OpenFile {
    feed: Feed,
    walker: Walker,
    /// Packets of the run before this file's first.
    packets_before: u64,
}

/// The walker of either format.
enum Walker {
    Pcap(pcap::Walker),
    Pcapng(pcapng::Walker),
}

impl Walker {
    fn walk(&mut self, bytes: &[u8], pos: &mut usize, run: &mut Run, slots: &mut Slots<'_>) -> Stop {
        match self {
            Self::Pcap(walker) => walker.walk(bytes, pos, run, slots),
            Self::Pcapng(walker) => walker.walk(bytes, pos, run, slots),
        }
    }
}

impl CaptureReader {
    /// Reads these captures one after the other; `-` is standard input.
    ///
    /// Each is opened when its turn comes: what is wrong with one is said by
    /// [`next_burst`](Source::next_burst), which then goes on with the next. Costs a look at the size
    /// of each file.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Self {
        Self::of(
            paths
                .iter()
                .map(|path| Pending { name: path.as_ref().to_string_lossy().into_owned(), reader: None })
                .collect(),
        )
    }

    /// Reads one capture from `reader`, called `name` in errors.
    pub fn from_reader(name: impl Into<String>, reader: Box<dyn Read + Send>) -> Self {
        Self::of(VecDeque::from([Pending { name: name.into(), reader: Some(reader) }]))
    }

    fn of(waiting: VecDeque<Pending>) -> Self {
        Self {
            total_bytes: waiting.iter().map(Pending::size_bytes).sum(),
            waiting,
            open: None,
            window: Window::new(window::BLOCK_BYTES),
            run: Run::default(),
            read_bytes: Arc::default(),
        }
    }

    /// Reads blocks of so many bytes (at least 64) instead of 1 MiB. Smaller ones reach the engine
    /// sooner and cost more calls of the system; a packet larger than a block gets a larger block.
    #[must_use]
    pub fn with_block_bytes(mut self, bytes: usize) -> Self {
        self.window = Window::new(bytes.max(64));
        self
    }

    /// The interfaces met so far, in the order of their numbers in [`PacketMeta::interface`].
    pub fn interfaces(&self) -> &[Interface] {
        &self.run.interfaces
    }

    /// Packets read so far, over all files.
    pub fn packets(&self) -> u64 {
        self.run.packets
    }

    /// Blocks of pcapng passed over because they hold no packets: names, statistics, secrets, comments
    /// of their own, and such as nobody knows.
    pub fn blocks_skipped(&self) -> u64 {
        self.run.blocks_skipped
    }

    /// Interfaces beyond the 65 536 that can be numbered: their packets have the number of the last one.
    pub fn interfaces_beyond(&self) -> u64 {
        self.run.interfaces_beyond
    }

    /// Opens an input and tells what it is.
    fn start(&mut self, pending: Pending, burst: &mut Burst) -> Result<OpenFile, Fault> {
        self.window.reset();
        self.run.file = Arc::from(pending.name.as_str());
        let packets_before = self.run.packets;
        let mut feed = Feed::Plain(pending.open(&self.read_bytes)?);
        fill(&mut self.window, &mut feed, MAGIC_BYTES, burst)?;
        if let Some(compression) = Compression::of(self.window.unread()) {
            let Feed::Plain(reader) = feed else { unreachable!("opened as such") };
            feed = input::inflate(compression, self.window.unread(), reader, self.window.geometry())?;
            self.window.reset();
            fill(&mut self.window, &mut feed, MAGIC_BYTES, burst)?;
        }
        let first = self.window.unread();
        let walker = if pcap::recognize(first) {
            let (walker, header_bytes) = pcap::open(first, &mut self.run)?;
            self.window.consume(header_bytes);
            Walker::Pcap(walker)
        } else if pcapng::recognize(first) {
            Walker::Pcapng(pcapng::Walker::new())
        } else {
            return Err(input::explain_magic(first));
        };
        Ok(OpenFile { feed, walker, packets_before })
    }

    /// Fills `burst` from the open file, whatever it held before; `false`, and no packets, at the file's
    /// end and with every fault.
    fn fill_burst(
        file: &mut OpenFile,
        window: &mut Window,
        run: &mut Run,
        burst: &mut Burst,
    ) -> Result<bool, Fault> {
        loop {
            // Full bursts follow each other mostly: then this changes nothing.
            burst.packets.resize(BURST_PACKETS_MAX, PacketMeta::default());
            let packets = burst.packets.first_chunk_mut().expect("of this length");
            let mut slots = Slots { packets, found: 0 };
            let (bytes, pos) = window.walked();
            let stop = file.walker.walk(bytes, pos, run, &mut slots);
            let found = slots.found;
            burst.packets.truncate(found);
            if found > 0 {
                window.lend_to(burst);
                return Ok(true);
            }
            let need = match stop {
                Stop::Full => unreachable!("full of no packets"),
                Stop::Fault(fault) => return Err(fault),
                Stop::Need(need) => need,
            };
            if !fill(window, &mut file.feed, need, burst)? {
                return match window.unread().len() {
                    0 => Ok(false),
                    there => Err(Fault::truncated(format!(
                        "the file ends inside a record: {there} bytes of {need} are there \
                         (was it still being written, or the disk full?)"
                    ))),
                };
            }
        }
    }

    /// The error that `fault` is, at the place reached.
    fn locate(&self, fault: Fault, packets_before: u64) -> SourceError {
        SourceError {
            kind: fault.kind,
            file: self.run.file.to_string(),
            packets_before: self.run.packets - packets_before,
            offset_bytes: self.window.offset(),
            message: fault.message,
        }
    }
}

fn fill(window: &mut Window, feed: &mut Feed, need: usize, burst: &mut Burst) -> Result<bool, Fault> {
    window.fill(feed, need, burst).map_err(|e| input::explain_read(feed, &e))
}

impl Source for CaptureReader {
    fn next_burst(&mut self, burst: &mut Burst) -> Result<bool, SourceError> {
        loop {
            if let Some(file) = &mut self.open {
                match Self::fill_burst(file, &mut self.window, &mut self.run, burst) {
                    Ok(true) => return Ok(true),
                    Ok(false) => self.open = None,
                    Err(fault) => {
                        let packets_before = file.packets_before;
                        self.open = None;
                        return Err(self.locate(fault, packets_before));
                    }
                }
            } else if let Some(pending) = self.waiting.pop_front() {
                let packets_before = self.run.packets;
                burst.packets.clear();
                match self.start(pending, burst) {
                    Ok(file) => self.open = Some(file),
                    Err(fault) => return Err(self.locate(fault, packets_before)),
                }
            } else {
                burst.packets.clear();
                self.window.reclaim(burst);
                return Ok(false);
            }
        }
    }

    fn progress(&self) -> (u64, Option<u64>) {
        (self.read_bytes.load(Ordering::Relaxed), self.total_bytes)
    }
}

/// Drains a reader of arbitrary bytes and checks what a source promises. For fuzzers and tests.
///
/// # Panics
/// Where a promise of [`Source`] is broken.
#[doc(hidden)]
pub fn fuzz_reader(bytes: &[u8]) {
    // Stops decompression bombs; more than any input of a fuzzer holds otherwise.
    const BURSTS_MAX: usize = 1 << 14;
    for block_bytes in [64, 4 << 10] {
        let reader = Box::new(std::io::Cursor::new(bytes.to_vec()));
        let mut source = CaptureReader::from_reader("fuzz", reader).with_block_bytes(block_bytes);
        let mut burst = Burst::default();
        let (mut number, mut errors) = (0, 0);
        for _ in 0..BURSTS_MAX {
            match source.next_burst(&mut burst) {
                Ok(false) => break,
                Ok(true) => {
                    assert!((1..=BURST_PACKETS_MAX).contains(&burst.packets.len()));
                    for (index, packet) in burst.packets.iter().enumerate() {
                        number += 1;
                        assert_eq!(packet.number, number);
                        assert!(packet.wire_bytes >= packet.captured_bytes);
                        assert_eq!(burst.data(index).len(), packet.captured_bytes as usize);
                        assert_eq!(source.interfaces()[usize::from(packet.interface)].link, packet.link);
                    }
                }
                Err(_) => errors += 1,
            }
        }
        assert!(errors <= 1, "one file, one error");
    }
}
