//! Makes the index of a capture, in one pass by the engine: at each border between chunks, the engine says
//! which flows it has.

use crate::frames::{FrameReader, Frames, compression};
use crate::index::{Chunk, Identity, Index, Pair};
use foldhash::HashMap;
use std::collections::BTreeSet;
use std::io::{self, Cursor, Read};
use weir::io::{CaptureReader, Mark};
use weir::packet::{Burst, Poll, Source, SourceError, SourceErrorKind};
use weir::{ClockState, Compiler, FlowWatch, HostPairs, Options};

/// Packets of which the pair is kept, until only the pairs of live flows are.
const RECENT_MAX: usize = 1 << 20;

/// Bytes read at a time.
const BLOCK_BYTES: usize = 1 << 20;

/// Bytes of all heads of an index. Beyond, no further chunk begins that needs another head.
const HEADS_BYTES_MAX: usize = 16 << 20;

/// The bits of a pair's number that indices hold.
pub(crate) fn bits(pair: u64) -> Pair {
    (pair ^ pair >> 32) as Pair
}

/// Why there is no index.
#[derive(Debug)]
pub enum Fault {
    /// The engine has no program for the settings.
    Settings(String),
    /// The capture could not be read this time, for a reason outside of the capture.
    Io(String),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Settings(why) | Self::Io(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Fault {}

/// Makes the index of a capture: reads the capture once, which takes about as long as counting its
/// connections. The stack of `compiler` and the time-outs of `options` decide which connections there are.
/// Errors call the capture `name`. If the capture is damaged, the index says where and why.
///
/// # Errors
/// The settings are wrong, or reading failed for another reason than the capture's contents.
pub fn build_index(
    name: &str,
    reader: Box<dyn Read + Send>,
    identity: Identity,
    compiler: &Compiler,
    options: &Options,
) -> Result<Index, Fault> {
    let settings = |wrong: weir::lang::diag::Diagnostics| Fault::Settings(wrong.render(false));
    let (reader, places) = places_of(reader).map_err(|error| Fault::Io(format!("{name}: {error}")))?;
    let is_zstd = matches!(places, Places::Frames(_));
    let mut builder = Builder {
        places,
        pairs: HostPairs::new(compiler, options).map_err(settings)?,
        watch: FlowWatch::new(compiler, options).map_err(settings)?,
        open: HashMap::default(),
        joined: BTreeSet::new(),
        joined_last: (0, 0),
        chunk: None,
        index: Index {
            identity,
            is_zstd,
            interfaces: 0,
            packets: 0,
            error: None,
            heads: vec![vec![]],
            chunks: vec![],
            deadlines: vec![],
            joined: vec![],
            clock: ClockState { now: i64::MIN, last: i64::MIN, behind: 0 },
        },
    };
    // Chunks end at bursts, which end at blocks.
    let block_bytes =
        usize::try_from(identity.chunk_bytes).map_or(BLOCK_BYTES, |bytes| bytes.min(BLOCK_BYTES));
    let mut source = CaptureReader::from_reader(name, reader).with_block_bytes(block_bytes);
    let mut burst = Burst::default();
    loop {
        match source.poll(&mut burst) {
            Ok(Poll::Packets) => builder.take(&burst, source.mark()),
            Ok(Poll::Idle { .. }) => {}
            Ok(Poll::End) => break,
            // A failure to read need not be there the next time.
            Err(error) if error.kind == SourceErrorKind::Io => return Err(Fault::Io(error.to_string())),
            Err(error) => builder.fail(&error),
        }
    }
    Ok(builder.finish(u32::try_from(source.interfaces().len()).unwrap_or(u32::MAX)))
}

/// Where reading can begin.
enum Places {
    /// At each packet.
    Packets,
    /// At a packet, if a frame begins before.
    Frames(Frames),
    /// At the beginning.
    Beginning,
}

fn places_of(mut reader: Box<dyn Read + Send>) -> io::Result<(Box<dyn Read + Send>, Places)> {
    let mut first = vec![];
    (&mut reader).take(4).read_to_end(&mut first)?;
    let kind = compression(&first);
    let whole = Cursor::new(first).chain(reader);
    Ok(match kind {
        (false, _) => (Box::new(whole), Places::Packets),
        (true, false) => (Box::new(whole), Places::Beginning),
        (true, true) => {
            let frames = Frames::default();
            (Box::new(FrameReader::new(whole, frames.clone())?), Places::Frames(frames))
        }
    })
}

struct Builder {
    places: Places,
    pairs: HostPairs,
    watch: FlowWatch,
    /// The pairs of the first packets of live flows, at the last border.
    open: HashMap<u64, Pair>,
    /// The pairs of tunnels, and those inside: all of them, and the one found last.
    joined: BTreeSet<(Pair, Pair)>,
    joined_last: (Pair, Pair),
    chunk: Option<Open>,
    index: Index,
}

/// The chunk whose packets come.
struct Open {
    chunk: Chunk,
    /// The pair of each of the last packets.
    recent: Vec<Pair>,
    /// The pairs of the packets before these, sorted.
    pairs: Vec<Pair>,
}

impl Builder {
    /// Processes a burst, behind which the reader is at `mark`.
    fn take(&mut self, burst: &Burst, mark: Option<Mark>) {
        let open = self.chunk.get_or_insert_with(|| first_chunk(self.watch.clock().state()));
        for (index, packet) in burst.packets.iter().enumerate() {
            let found = self.pairs.of(packet, burst.data(index));
            let pair = bits(found.pair);
            let inner = bits(found.inner);
            if inner != pair && self.joined_last != (pair, inner) {
                self.joined_last = (pair, inner);
                self.joined.insert((pair, inner));
            }
            open.recent.push(pair);
            if open.chunk.packets == 0 {
                open.chunk.first_time = packet.time.0;
            }
            open.chunk.packets += 1;
            let times = &mut open.chunk.times;
            *times = (times.0.min(packet.time.0), times.1.max(packet.time.0));
        }
        self.watch.take(burst);
        let Open { chunk, recent, .. } = open;
        chunk.clock_max = chunk.clock_max.max(self.watch.clock().now());
        self.index.packets = chunk.first_packet + chunk.packets;
        if recent.len() >= RECENT_MAX {
            self.settle();
        }
        let Some(Open { chunk, .. }) = &mut self.chunk else { return };
        let is_full = |mark: &Mark| {
            mark.offset_bytes.saturating_sub(chunk.offset_bytes) >= self.index.identity.chunk_bytes
        };
        let Some(mark) = mark.filter(is_full) else { return };
        let Some((start, skip)) = self.places.at(&mark, chunk.start) else { return };
        let Some(head) = head_of(&mut self.index.heads, &mark.head) else { return };
        chunk.length_bytes = Some(mark.offset_bytes - chunk.offset_bytes);
        chunk.stored_bytes = start - chunk.start;
        self.close_chunk();
        let mut next = first_chunk(self.watch.clock().state());
        next.chunk.start = start;
        next.chunk.skip = skip;
        next.chunk.head = head;
        next.chunk.offset_bytes = mark.offset_bytes;
        next.chunk.first_packet = self.index.packets;
        next.chunk.first_interface = mark.first_interface;
        self.chunk = Some(next);
    }

    /// Keeps the pairs of the first packets of live flows, and the set of the chunk's pairs, but no longer
    /// the pair of each packet. Returns the pairs that are open, sorted, and when each ends at the latest.
    fn settle(&mut self) -> Vec<(Pair, i64)> {
        let Some(Open { chunk, recent, pairs }) = &mut self.chunk else { return vec![] };
        let before = chunk.first_packet + chunk.packets - recent.len() as u64;
        let (mut live, mut deadlines) = (HashMap::default(), HashMap::default());
        for (packet, deadline) in self.watch.live_flows() {
            let index = packet.checked_sub(before + 1).and_then(|index| usize::try_from(index).ok());
            let pair = index.and_then(|index| recent.get(index)).or_else(|| self.open.get(&packet));
            let &pair =
                pair.expect("the first packet of a live flow is one of these, or was one at the last border");
            live.insert(packet, pair);
            let latest = deadlines.entry(pair).or_insert(deadline);
            *latest = deadline.max(*latest);
        }
        self.open = live;
        pairs.append(recent);
        pairs.sort_unstable();
        pairs.dedup();
        let mut open: Vec<(Pair, i64)> = deadlines.into_iter().collect();
        open.sort_unstable();
        open
    }

    /// Ends the chunk; returns when its open pairs end at the latest.
    fn close_chunk(&mut self) -> Vec<i64> {
        let open = self.settle();
        // Without packets, the place is the end of the file, and nothing has changed since the chunk before.
        if let Some(Open { mut chunk, mut pairs, .. }) =
            self.chunk.take().filter(|open| open.chunk.packets > 0)
        {
            pairs.shrink_to_fit();
            chunk.pairs = pairs;
            chunk.open = open.iter().map(|(pair, _)| *pair).collect();
            self.index.chunks.push(chunk);
        }
        open.into_iter().map(|(_, deadline)| deadline).collect()
    }

    fn fail(&mut self, error: &SourceError) {
        self.index.error.get_or_insert_with(|| error.to_string());
    }

    fn finish(mut self, interfaces: u32) -> Index {
        self.index.deadlines = self.close_chunk();
        if let Some(last) = self.index.chunks.last_mut() {
            // Damage is behind the last packet, and found again by whoever reads the last chunk.
            last.length_bytes = None;
            last.stored_bytes =
                last.stored_bytes.max(self.index.identity.size_bytes.saturating_sub(last.start));
        }
        self.index.interfaces = interfaces;
        self.index.clock = self.watch.clock().state();
        self.index.joined = self.joined.into_iter().collect();
        self.index
    }
}

impl Places {
    /// Where reading begins for a chunk at `mark`, behind one that begins at the stored byte `start`: the
    /// stored byte, and the uncompressed bytes to skip from there.
    fn at(&self, mark: &Mark, start: u64) -> Option<(u64, u64)> {
        match self {
            Self::Packets => Some((mark.offset_bytes, 0)),
            Self::Frames(frames) => {
                let (stored, plain) = frames.before(mark.offset_bytes)?;
                (stored > start).then_some((stored, mark.offset_bytes - plain))
            }
            Self::Beginning => None,
        }
    }
}

/// The place of a head among others; `None` if there is no room for another one.
fn head_of(heads: &mut Vec<Vec<u8>>, head: &[u8]) -> Option<u32> {
    let known = heads.iter().rposition(|known| known == head);
    let place = known.or_else(|| {
        let bytes = heads.iter().map(Vec::len).sum::<usize>() + head.len();
        (bytes <= HEADS_BYTES_MAX).then(|| {
            heads.push(head.to_vec());
            heads.len() - 1
        })
    });
    place.and_then(|place| u32::try_from(place).ok())
}

fn first_chunk(clock: ClockState) -> Open {
    let chunk = Chunk {
        start: 0,
        skip: 0,
        head: 0,
        offset_bytes: 0,
        length_bytes: None,
        stored_bytes: 0,
        first_packet: 0,
        packets: 0,
        first_interface: 0,
        first_time: i64::MIN,
        times: (i64::MAX, i64::MIN),
        clock,
        clock_max: i64::MIN,
        pairs: vec![],
        open: vec![],
    };
    Open { chunk, recent: vec![], pairs: vec![] }
}
