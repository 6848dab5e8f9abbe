//! The packets of a task, as a source of the engine, with the clock of all packets.

use crate::build::bits;
use crate::index::Pair;
use crate::task::{Part, Select, Step, Task};
use foldhash::HashMap;
use std::collections::VecDeque;
use std::io::{self, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use weir::io::CaptureReader;
use weir::packet::{
    BURST_PACKETS_MAX, Burst, Poll, Source, SourceError, SourceErrorKind, SourcePlace, Timestamp,
};
use weir::{Clock, HostPairs};

/// Opens captures where they are stored.
pub trait OpenCapture: Send {
    /// A reader of the stored bytes from `start` on, of which at most `bytes` are needed.
    ///
    /// # Errors
    /// The capture cannot be opened.
    fn open(&mut self, name: &str, start: u64, bytes: Option<u64>) -> io::Result<Box<dyn Read + Send>>;
}

/// Captures that are files of this machine.
#[derive(Debug, Clone, Copy)]
pub struct Files;

impl OpenCapture for Files {
    fn open(&mut self, name: &str, start: u64, _: Option<u64>) -> io::Result<Box<dyn Read + Send>> {
        use std::io::{Seek as _, SeekFrom};
        let mut file = std::fs::File::open(Path::new(name))?;
        file.seek(SeekFrom::Start(start))?;
        Ok(Box::new(file))
    }
}

/// The packets of a task. Runs over it must have one worker.
pub struct TaskSource {
    files: Vec<String>,
    aliases: HashMap<Pair, Pair>,
    steps: std::vec::IntoIter<Step>,
    opener: Box<dyn OpenCapture>,
    pairs: HostPairs,
    /// The step that is read.
    current: Option<Current>,
    /// Errors that were not returned yet.
    errors: Vec<SourceError>,
    clock: Clock,
    /// The time that the engine is to know with the result of this poll.
    shown: i64,
    /// The latest time of the clock that the engine does not know.
    latest: i64,
    /// The clock has seen the next packet.
    is_ticked: bool,
    is_over: bool,
    read_packets: u64,
}

/// A step that is read.
struct Current {
    select: Select,
    /// The number in the run of the last packet.
    number: u64,
    /// Parts whose turn has not come, the next one first.
    waiting: VecDeque<Part>,
    parts: Vec<OpenPart>,
}

struct OpenPart {
    part: Part,
    reader: CaptureReader,
    burst: Burst,
    next: usize,
    is_over: bool,
}

impl std::fmt::Debug for TaskSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskSource").field("files", &self.files).finish_non_exhaustive()
    }
}

impl TaskSource {
    /// The packets of `task`, from captures that `opener` opens. `pairs` are those of the indices.
    pub fn new(task: Task, opener: Box<dyn OpenCapture>, pairs: HostPairs) -> Self {
        Self {
            files: task.files,
            aliases: task.aliases.into_iter().collect(),
            steps: task.steps.into_iter(),
            opener,
            pairs,
            current: None,
            errors: vec![],
            clock: Clock::default(),
            shown: i64::MIN,
            latest: i64::MIN,
            is_ticked: false,
            is_over: false,
            read_packets: 0,
        }
    }

    /// Packets read, those of other tasks included.
    pub fn read_packets(&self) -> u64 {
        self.read_packets
    }

    fn begin(&mut self, step: Step) {
        self.latest = self.latest.max(step.clock_max);
        self.clock = Clock::resumed(step.clock);
        let mut waiting = step.parts;
        waiting.sort_by_key(|part| (part.first_time, part.place));
        let (select, number) = (step.select, step.packets_before);
        self.current = Some(Current { select, number, waiting: waiting.into(), parts: vec![] });
    }

    /// Opens the parts whose turn has come, and reads on where packets are needed. Returns the part with the
    /// next packet.
    fn next_part(&mut self) -> Option<usize> {
        loop {
            let current = self.current.as_mut()?;
            let reports = matches!(current.select, Select::Except(_));
            for part in &mut current.parts {
                part.ensure(|error| {
                    if reports {
                        self.errors.push(error)
                    }
                });
            }
            current.parts.retain(|part| !part.is_over);
            let turns = current.parts.iter().enumerate();
            let next = turns.filter_map(|(index, part)| Some((part.turn()?, index))).min();
            let is_due = |part: &mut Part| {
                next.is_none_or(|(turn, _)| (Timestamp(part.first_time), part.place) < turn)
            };
            let Some(due) = current.waiting.pop_front_if(is_due) else { return next.map(|(_, index)| index) };
            let name = self.files[due.file as usize].clone();
            match self.open(&due, &name) {
                Ok(reader) => {
                    let current = self.current.as_mut()?;
                    let (burst, next, is_over) = (Burst::default(), 0, false);
                    current.parts.push(OpenPart { part: due, reader, burst, next, is_over });
                }
                Err(error) if reports => self.errors.push(SourceError {
                    kind: SourceErrorKind::Io,
                    place: SourcePlace::Capture { file: name, packets_before: 0, offset_bytes: 0 },
                    message: format!("cannot be opened: {error}"),
                }),
                Err(_) => {}
            }
        }
    }

    fn open(&mut self, part: &Part, name: &str) -> io::Result<CaptureReader> {
        let stored = self.opener.open(name, part.start, part.stored_bytes)?;
        // Other compressed captures are read whole, by the reader of captures.
        let mut bytes: Box<dyn Read + Send> =
            if part.is_zstd { Box::new(zstd::Decoder::new(stored)?) } else { stored };
        if part.skip > 0 {
            bytes = Box::new(Skip { inner: bytes, bytes: part.skip });
        }
        if let Some(length) = part.length_bytes {
            bytes = Box::new(bytes.take(length));
        }
        Ok(CaptureReader::from_reader(name, Box::new(Cursor::new(part.head.clone()).chain(bytes))))
    }

    /// Fills `burst` with packets of the step, as long as they are in one block and of one tick. `None`: the
    /// step is over.
    fn fill(&mut self, burst: &mut Burst) -> Option<Poll> {
        loop {
            // A burst that is being filled holds a block of its own.
            let Some(index) = self.next_part() else {
                return if burst.packets.is_empty() { None } else { Some(Poll::Packets) };
            };
            let Self { current, aliases, pairs, clock, .. } = self;
            let current = current.as_mut()?;
            let part = &mut current.parts[index];
            let mut packet = part.burst.packets[part.next];
            if !self.is_ticked {
                self.is_ticked = true;
                let _ = clock.tick(packet.time.0);
            }
            let is_other_tick = clock.ticked() != tick_of(self.shown);
            if is_other_tick && !burst.packets.is_empty() {
                return Some(Poll::Packets);
            }
            let frame = part.burst.data(part.next);
            let is_selected = match &current.select {
                Select::Except(left_out) if left_out.is_empty() => true,
                Select::Except(pairs_out) => !has(pairs_out, aliases, bits(pairs.of(&packet, frame).pair)),
                Select::Only(pairs_in) => has(pairs_in, aliases, bits(pairs.of(&packet, frame).pair)),
            };
            if is_selected {
                let is_other = !Arc::ptr_eq(&burst.block, &part.burst.block);
                if !burst.packets.is_empty() && (is_other || burst.packets.len() == BURST_PACKETS_MAX) {
                    return Some(Poll::Packets);
                }
                // The clock was set back: flows that have ended before stay ended.
                if tick_of(self.latest) > clock.ticked() && tick_of(self.latest) > tick_of(self.shown) {
                    self.shown = self.latest;
                    return Some(Poll::Idle { now: Timestamp(self.shown) });
                }
                self.shown = clock.now();
                self.latest = self.shown;
                packet.number = current.number.saturating_add(1);
                let interface = part.part.first_interface.saturating_add(packet.interface.into());
                packet.interface = u16::try_from(interface).unwrap_or(u16::MAX);
                burst.block = Arc::clone(&part.burst.block);
                burst.packets.push(packet);
            } else {
                self.latest = self.latest.max(clock.now());
            }
            self.is_ticked = false;
            current.number = current.number.saturating_add(1);
            self.read_packets += 1;
            part.next += 1;
        }
    }
}

impl OpenPart {
    /// The turn of the next packet.
    fn turn(&self) -> Option<(Timestamp, u32)> {
        self.burst.packets.get(self.next).map(|packet| (packet.time, self.part.place))
    }

    /// Reads on if there is no next packet.
    fn ensure(&mut self, mut fail: impl FnMut(SourceError)) {
        while self.next == self.burst.packets.len() && !self.is_over {
            self.next = 0;
            match self.reader.poll(&mut self.burst) {
                Ok(Poll::Packets | Poll::Idle { .. }) => {}
                Ok(Poll::End) => self.is_over = true,
                Err(mut error) => {
                    self.burst.clear();
                    if let SourcePlace::Capture { packets_before, offset_bytes, .. } = &mut error.place {
                        *packets_before = packets_before.saturating_add(self.part.packets_before);
                        let head = self.part.head.len() as u64;
                        *offset_bytes =
                            offset_bytes.saturating_add(self.part.offset_bytes).saturating_sub(head);
                    }
                    fail(error);
                }
            }
        }
    }
}

impl Source for TaskSource {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        burst.clear();
        loop {
            if let Some(error) = self.errors.pop() {
                return Err(error);
            }
            if let Some(polled) = self.fill(burst) {
                return Ok(polled);
            }
            self.current = None;
            if let Some(step) = self.steps.next() {
                self.begin(step);
                continue;
            }
            // Flows whose time-out has passed end before the others.
            if std::mem::replace(&mut self.is_over, true) {
                return Ok(Poll::End);
            }
            self.shown = self.shown.max(self.latest);
            return Ok(Poll::Idle { now: Timestamp(self.shown) });
        }
    }

    fn clock(&self) -> Option<Timestamp> {
        Some(Timestamp(self.shown))
    }
}

/// The start of the tick of a time.
fn tick_of(time: i64) -> i64 {
    Clock::resumed(weir::ClockState { now: time, last: time, behind: 0 }).ticked()
}

fn has(pairs: &[Pair], aliases: &HashMap<Pair, Pair>, pair: Pair) -> bool {
    let canonical = if aliases.is_empty() { pair } else { aliases.get(&pair).copied().unwrap_or(pair) };
    pairs.binary_search(&canonical).is_ok()
}

/// Skips bytes at the first read, which may take long.
struct Skip {
    inner: Box<dyn Read + Send>,
    bytes: u64,
}

impl Read for Skip {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.bytes > 0 {
            let bytes = std::mem::take(&mut self.bytes);
            if io::copy(&mut (&mut self.inner).take(bytes), &mut io::sink())? < bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        self.inner.read(out)
    }
}
