//! Inputs that are read on threads of their own, and merged by time.
//!
//! Each TCP connection, and each port of UDP, has a thread; all other inputs together have one. Of several
//! inputs, the one whose next packet is the earliest is delivered next. An input that has no next packet
//! delays the others only for a moment: a silent connection must not hold back the packets of another one.
//! Packets of a live input wait for at most [`MERGE_WAIT`], or until their queue is full. Packets of files
//! wait until a connection that has sent nothing is silent for that time.

use super::CaptureReader;
use super::ahead::Ahead;
use super::findings::{Carried, Counts, Findings};
use super::input::InputCounts;
use super::interface::Interface;
use super::order::Turn;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_packet::{Burst, Poll, Source, SourceError, Timestamp};

/// Limit of bursts of an input that wait to be taken.
const BURSTS_WAITING_MAX: usize = 64;

/// Time for which an input without packets is waited for.
pub(crate) const MERGE_WAIT: Duration = Duration::from_millis(500);

/// Limit of interfaces that can be numbered.
const INTERFACES_MAX: usize = 1 << 16;

/// One result of a reader.
struct Reading {
    read: Result<Burst, SourceError>,
    progress: (u64, Option<u64>),
    /// When it was read.
    at: Instant,
    found: PartFound,
}

/// What a reader found besides packets, if it is one of several.
#[derive(Default)]
struct PartFound {
    /// Interfaces found since the last reading.
    interfaces: Vec<Interface>,
    carried: Carried,
    /// So far.
    counts: Counts,
}

/// The result of a look for packets.
pub(crate) enum Next {
    /// The burst has packets, which were read at this time.
    Packets(Instant),
    /// No packets have come.
    Idle,
    /// All inputs have ended.
    End,
}

/// The inputs of a run.
pub(crate) struct Inputs {
    parts: Vec<Part>,
    /// Something has come from an input.
    bell: Receiver<()>,
    findings: Findings,
    counts: InputCounts,
    /// Packets and interfaces delivered so far, over all parts. Unused with a single part.
    packets: u64,
    interfaces: usize,
}

/// An input, or several that one thread reads.
struct Part {
    readings: Receiver<Reading>,
    /// Readings that were received, oldest first.
    waiting: VecDeque<Reading>,
    /// The packets whose turn comes next, and when they were read.
    ahead: Ahead,
    ahead_at: Instant,
    /// Whether its packets may fail to come for a long time, unlike those of files.
    is_live: bool,
    /// The time of its last reading, or of its start.
    heard_at: Instant,
    has_ended: bool,
    /// For each of its interfaces, the number in the run.
    interfaces: Vec<u16>,
    counts: Counts,
    progress: (u64, Option<u64>),
    thread: Option<JoinHandle<()>>,
}

/// Which part is next.
enum Due {
    Part(usize),
    /// The earliest packet waits for other inputs, until this time at the latest; `None`: until something
    /// comes.
    Later(Option<Instant>),
    End,
}

impl Inputs {
    /// Begins to read. Each thread ends with its input, or with the first packets that have no receiver.
    ///
    /// # Errors
    /// If no thread can be created.
    pub fn start(reader: CaptureReader) -> std::io::Result<Self> {
        let (findings, counts) = (reader.findings().clone(), reader.counts());
        let readers = reader.into_parts();
        let is_single = readers.len() == 1;
        let (ring, bell) = sync_channel(1);
        let start = |(reader, is_live): (CaptureReader, bool)| {
            let (sender, readings) = sync_channel(BURSTS_WAITING_MAX);
            let (progress, ring) = (reader.progress(), ring.clone());
            let thread = std::thread::Builder::new().name("weir-read".into()).spawn(move || {
                read(reader, sender, &ring, is_single);
                // The receiver notices the end.
                let _ = ring.try_send(());
            })?;
            let now = Instant::now();
            Ok(Part {
                readings,
                waiting: VecDeque::new(),
                ahead: Ahead::default(),
                ahead_at: now,
                is_live,
                heard_at: now,
                has_ended: false,
                interfaces: vec![],
                counts: Counts::default(),
                progress,
                thread: Some(thread),
            })
        };
        let parts = readers.into_iter().map(start).collect::<std::io::Result<_>>()?;
        Ok(Self { parts, bell, findings, counts, packets: 0, interfaces: 0 })
    }

    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// What all inputs count.
    pub fn counts(&self) -> &InputCounts {
        &self.counts
    }

    /// Bytes read so far, and the total if it is known.
    pub fn progress(&self) -> (u64, Option<u64>) {
        let total = self.parts.iter().map(|part| part.progress.1).sum();
        (self.parts.iter().map(|part| part.progress.0).sum(), total)
    }

    /// The next packets. Waits for this time if there are none.
    ///
    /// # Errors
    /// Those of the readers, in their turn.
    pub fn next(&mut self, patience: Duration, burst: &mut Burst) -> Result<Next, SourceError> {
        if let [part] = &mut self.parts[..] {
            return part.next(patience, burst);
        }
        let deadline = Instant::now() + patience;
        loop {
            self.parts.iter_mut().for_each(Part::receive);
            (0..self.parts.len()).for_each(|index| self.advance(index));
            let now = Instant::now();
            let until = match self.due(now) {
                Due::Part(index) => return self.deliver(index, burst),
                Due::End => return Ok(Next::End),
                Due::Later(until) => until.map_or(deadline, |until| until.min(deadline)),
            };
            if now >= deadline {
                return Ok(Next::Idle);
            }
            // If all threads have ended, their last readings are there.
            let _ = self.bell.recv_timeout(until - now);
        }
    }

    /// Makes the next reading of a part the packets whose turn comes, unless it has such packets, or the
    /// reading is an error.
    fn advance(&mut self, index: usize) {
        let part = &mut self.parts[index];
        if part.ahead.next().is_some() || part.waiting.front().is_none_or(|reading| reading.read.is_err()) {
            return;
        }
        let Some(Reading { read: Ok(mut burst), progress, at, found }) = part.waiting.pop_front() else {
            return;
        };
        (part.progress, part.ahead_at) = (progress, at);
        self.note(index, found);
        let numbers = &self.parts[index].interfaces;
        for packet in &mut burst.packets {
            packet.interface = numbers.get(usize::from(packet.interface)).copied().unwrap_or(u16::MAX);
        }
        self.parts[index].ahead = Ahead::of(burst);
    }

    /// Adds what a part has found to the findings of all.
    fn note(&mut self, index: usize, found: PartFound) {
        let PartFound { interfaces, mut carried, counts } = found;
        carried.renumber(self.packets + 1);
        self.findings.carry(&mut carried);
        let part = &mut self.parts[index];
        if interfaces.is_empty() && counts == part.counts {
            return;
        }
        let mut beyond = 0;
        for interface in interfaces {
            if self.interfaces < INTERFACES_MAX {
                self.findings.add_interface(interface);
                self.interfaces += 1;
            } else {
                beyond += 1;
            }
            part.interfaces.push(u16::try_from(self.interfaces - 1).unwrap_or(u16::MAX));
        }
        let before = std::mem::replace(&mut part.counts, counts);
        let new = counts.since(before);
        self.findings.tell(|found| {
            found.add(new);
            found.interfaces_beyond += beyond;
        });
    }

    fn due(&self, now: Instant) -> Due {
        let turns = self.parts.iter().enumerate().filter_map(|(index, part)| part.turn(index));
        let Some((_, next)) = turns.min() else {
            return if self.parts.iter().all(Part::is_over) { Due::End } else { Due::Later(None) };
        };
        let first = &self.parts[next];
        let mut until = now;
        for part in self.parts.iter().filter(|part| part.turn(0).is_none() && !part.is_over()) {
            match (part.is_live, first.is_live) {
                // A file has its next packet soon.
                (false, _) => return Due::Later(None),
                (true, true) if first.waiting.len() + 1 >= BURSTS_WAITING_MAX => {}
                (true, true) => until = until.max(first.ahead_at + MERGE_WAIT),
                (true, false) => until = until.max(part.heard_at + MERGE_WAIT),
            }
        }
        if until > now { Due::Later(Some(until)) } else { Due::Part(next) }
    }

    /// Delivers the next packets of a part, up to the turn of another one.
    fn deliver(&mut self, index: usize, burst: &mut Burst) -> Result<Next, SourceError> {
        let others = self.parts.iter().enumerate().filter(|(other, _)| *other != index);
        let limit = others.filter_map(|(index, part)| part.turn(index)).min();
        let part = &mut self.parts[index];
        if part.ahead.next().is_none()
            && let Some(Reading { read, found, .. }) = part.waiting.pop_front()
        {
            self.note(index, found);
            return read.map(|_| Next::Idle);
        }
        part.ahead.hand_out(|packet| limit.is_none_or(|limit| (packet.time, index) < limit), burst);
        for (number, packet) in (self.packets + 1..).zip(&mut burst.packets) {
            packet.number = number;
        }
        self.packets += burst.packets.len() as u64;
        Ok(Next::Packets(part.ahead_at))
    }
}

impl Part {
    /// The next result of the only part.
    fn next(&mut self, patience: Duration, burst: &mut Burst) -> Result<Next, SourceError> {
        match self.readings.recv_timeout(patience) {
            Ok(Reading { read, progress, at, .. }) => {
                self.progress = progress;
                *burst = read?;
                Ok(Next::Packets(at))
            }
            Err(RecvTimeoutError::Timeout) => Ok(Next::Idle),
            Err(RecvTimeoutError::Disconnected) => {
                self.end();
                Ok(Next::End)
            }
        }
    }

    /// Receives readings that have come.
    fn receive(&mut self) {
        while !self.has_ended && self.waiting.len() < BURSTS_WAITING_MAX {
            match self.readings.try_recv() {
                Ok(reading) => {
                    self.heard_at = reading.at;
                    self.waiting.push_back(reading);
                }
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => self.end(),
            }
        }
    }

    /// The thread has ended normally, or with a panic, which continues here.
    fn end(&mut self) {
        self.has_ended = true;
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
    }

    /// The time of its next packet; an error has its turn at once.
    fn turn(&self, index: usize) -> Option<Turn> {
        let time = self.ahead.next().map(|packet| packet.time);
        time.or(self.waiting.front().map(|_| Timestamp::MIN)).map(|time| (time, index))
    }

    fn is_over(&self) -> bool {
        self.has_ended && self.waiting.is_empty() && self.ahead.next().is_none()
    }
}

/// Reads to the end. `is_single`: no other reader shares the findings.
fn read(mut reader: CaptureReader, sender: SyncSender<Reading>, bell: &SyncSender<()>, is_single: bool) {
    let mut told = 0;
    loop {
        let mut burst = Burst::default();
        let read = match reader.poll(&mut burst) {
            Ok(Poll::Packets) => Ok(burst),
            Ok(Poll::Idle { .. }) => continue,
            Ok(Poll::End) => return,
            Err(error) => Err(error),
        };
        let found = if is_single { PartFound::default() } else { found_by(&reader, &mut told) };
        let reading = Reading { read, progress: reader.progress(), at: Instant::now(), found };
        if sender.send(reading).is_err() {
            return;
        }
        // If the bell has rung already, the readings are looked at anyway.
        let _ = bell.try_send(());
    }
}

/// What a reader has found since the last call.
fn found_by(reader: &CaptureReader, told: &mut usize) -> PartFound {
    let interfaces = reader.interfaces()[*told..].to_vec();
    *told += interfaces.len();
    PartFound { interfaces, carried: reader.findings().take_carried(), counts: reader.counted() }
}

#[cfg(test)]
mod tests {
    use super::super::craft::{Order, interface, pcap_header, pcap_record, section};
    use super::super::input::Pending;
    use super::*;
    use std::io::{Cursor, Read};
    use std::sync::mpsc::channel;

    /// A capture with a packet at each of these seconds.
    fn pcap(seconds: &[u32]) -> Vec<u8> {
        let mut out = pcap_header(Order::Big, 0xa1b2_c3d4, 1);
        seconds.iter().for_each(|&at| out.extend(pcap_record(Order::Big, (at, 0), (1, 1), &[], &[at as u8])));
        out
    }

    /// A reader of connections with these bytes.
    fn connections(readers: Vec<Box<dyn Read + Send>>) -> CaptureReader {
        let pending = |(index, reader)| Pending {
            path: format!("tcp://sensor:{}", index + 1).into(),
            reader: Some(reader),
            grows: false,
        };
        CaptureReader::of(readers.into_iter().enumerate().map(pending).collect())
    }

    fn bytes(bytes: Vec<u8>) -> Box<dyn Read + Send> {
        Box::new(Cursor::new(bytes))
    }

    /// Seconds, numbers and interfaces of all packets, and the errors.
    fn drain(inputs: &mut Inputs) -> (Vec<(i64, u64, u16)>, Vec<SourceError>) {
        let (mut packets, mut errors, mut burst) = (vec![], vec![], Burst::default());
        loop {
            match inputs.next(Duration::from_millis(10), &mut burst) {
                Ok(Next::Packets(_)) => {
                    let of = |packet: &weir_packet::PacketMeta| {
                        (packet.time.0 / 1_000_000_000, packet.number, packet.interface)
                    };
                    packets.extend(burst.packets.iter().map(of));
                }
                Ok(Next::Idle) => {}
                Ok(Next::End) => return (packets, errors),
                Err(error) => errors.push(error),
            }
        }
    }

    #[test]
    fn packets_are_merged_by_time_and_numbered_over_all_connections() {
        let mut second = section(Order::Little);
        second.extend(interface(Order::Little, 1, 0, &[(2, b"unused")]));
        second.extend(interface(Order::Little, 1, 0, &[(2, b"eth1")]));
        for at in [2, 3, 6_u64] {
            second.extend(super::super::craft::enhanced(Order::Little, 1, at * 1_000_000, (1, 1), &[1]));
        }
        let mut cut = pcap(&[4, 5]);
        cut.pop();
        let reader = connections(vec![bytes(pcap(&[1, 3, 7])), bytes(second), bytes(cut)]);
        let mut inputs = Inputs::start(reader).expect("threads");
        let (packets, errors) = drain(&mut inputs);
        let seconds: Vec<i64> = packets.iter().map(|(second, ..)| *second).collect();
        assert_eq!(seconds, [1, 2, 3, 3, 4, 6, 7]);
        assert!(packets.iter().map(|(_, number, _)| *number).eq(1..=7));
        assert_eq!(errors.len(), 1, "{errors:?}");
        let found = inputs.findings().found();
        assert_eq!(found.interfaces.len(), 4);
        for (second, _, number) in packets {
            let interface = &found.interfaces[usize::from(number)];
            let expected = match second {
                2 | 6 => "tcp://sensor:2",
                4 => "tcp://sensor:3",
                3 => continue,
                _ => "tcp://sensor:1",
            };
            assert_eq!(&*interface.file, expected);
            assert!(interface.name != "unused", "each interface has its own number");
        }
    }

    /// A connection that has not ended.
    struct Open(Receiver<Vec<u8>>);

    impl Read for Open {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let bytes = self.0.recv().unwrap_or_default();
            out[..bytes.len()].copy_from_slice(&bytes);
            Ok(bytes.len())
        }
    }

    /// What a sender of a compressed capture has sent before it ends: everything up to its last flush.
    fn flushed(plain: &[u8]) -> [(&'static str, Vec<u8>); 3] {
        use std::io::Write;
        let mut gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        gzip.write_all(plain).and_then(|()| gzip.flush()).expect("memory");
        let mut zstd = zstd::Encoder::new(vec![], 1).expect("memory");
        zstd.write_all(plain).and_then(|()| zstd.flush()).expect("memory");
        let mut lz4 = lz4_flex::frame::FrameEncoder::new(vec![]);
        lz4.write_all(plain).and_then(|()| lz4.flush()).expect("memory");
        [("gzip", gzip.get_ref().clone()), ("zstd", zstd.get_ref().clone()), ("lz4", lz4.get_ref().clone())]
    }

    #[test]
    fn packets_of_compressed_connections_come_when_they_were_flushed() {
        for (compression, bytes) in flushed(&pcap(&[1, 2])) {
            let (sender, open) = channel();
            let mut inputs = Inputs::start(connections(vec![Box::new(Open(open))])).expect("threads");
            sender.send(bytes).expect("it is read");
            let (mut burst, sent, mut packets) = (Burst::default(), Instant::now(), 0);
            while packets < 2 {
                if let Ok(Next::Packets(_)) = inputs.next(Duration::from_millis(10), &mut burst) {
                    packets += burst.packets.len();
                }
                assert!(sent.elapsed() < MERGE_WAIT * 20, "{compression}: the packets do not come");
            }
        }
    }

    #[test]
    fn a_silent_connection_delays_others_only_for_a_moment() {
        let ((silent, one), (talking, other)) = (channel(), channel());
        let reader = connections(vec![Box::new(Open(one)), Box::new(Open(other))]);
        let mut inputs = Inputs::start(reader).expect("threads");
        talking.send(pcap(&[5])).expect("it is read");
        let (mut burst, sent) = (Burst::default(), Instant::now());
        while !matches!(inputs.next(Duration::from_millis(10), &mut burst), Ok(Next::Packets(_))) {
            assert!(sent.elapsed() < MERGE_WAIT * 20, "the packet does not come");
        }
        assert!(
            sent.elapsed() >= MERGE_WAIT - Duration::from_millis(50),
            "earlier packets may come in this time"
        );
        // An earlier packet comes in time.
        talking.send(pcap(&[8]).split_off(24)).expect("it is read");
        silent.send(pcap(&[7])).expect("it is read");
        drop((silent, talking));
        let (packets, errors) = drain(&mut inputs);
        assert_eq!(
            (packets.iter().map(|(second, ..)| *second).collect::<Vec<_>>(), errors),
            (vec![7, 8], vec![])
        );
    }
}
