//! Reads captures on a thread of its own, for runs that have other work while no packets come, such as
//! questions that are added and removed on an idle link.

use super::inputs::{Inputs, Next};
use super::{CaptureReader, Findings};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_packet::{Burst, KernelFilters, PacketMeta, Poll, Source, SourceError, SourceStats, Timestamp};

/// Time between two idle results.
const PATIENCE: Duration = Duration::from_millis(10);

/// Time of uninterrupted packets after which the source returns idle between two bursts.
const BUSY_MAX: Duration = Duration::from_millis(100);

/// A live capture that was silent for less than this claims no time: an old capture that a slow program
/// writes into a pipe must give the same rows as the capture's file.
const SILENCE_MIN: Duration = Duration::from_secs(1);

/// The clock of a live capture while no packets come: the time of packets, plus the time elapsed since they
/// were read.
///
/// The last two packets have to agree, as in the engine's clock: the smaller of their two offsets is used. A
/// single packet with a wrong time therefore has no effect.
#[derive(Debug, Clone, Copy, Default)]
struct CaptureClock {
    /// For the last packet and the one before: its time minus the time at which it was read, in nanoseconds.
    offsets_ns: [Option<i64>; 2],
    /// When the last packet was read, in nanoseconds.
    read_ns: i64,
}

impl CaptureClock {
    /// Records that these packets were read at `read_ns`, nanoseconds of any clock that is never set.
    fn note(&mut self, packets: &[PacketMeta], read_ns: i64) {
        self.read_ns = read_ns;
        for packet in &packets[packets.len().saturating_sub(2)..] {
            let [last, _] = self.offsets_ns;
            self.offsets_ns = [Some(packet.time.0.saturating_sub(read_ns)), last];
        }
    }

    /// The time of the capture at `now_ns`; [`Timestamp::MIN`] if the silence is short or no packet has come.
    fn now(&self, now_ns: i64) -> Timestamp {
        let is_silent = now_ns.saturating_sub(self.read_ns) >= as_ns(SILENCE_MIN);
        let offset_ns = self.offsets_ns.into_iter().flatten().min().filter(|_| is_silent);
        offset_ns.map_or(Timestamp::MIN, |offset_ns| Timestamp(now_ns.saturating_add(offset_ns)))
    }
}

fn as_ns(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Reads captures on a thread of its own. As soon as no packet waits, [`poll`](Source::poll) returns
/// [`Poll::Idle`], and then every 10 ms until packets come. If packets come without a break, it returns idle
/// every 100 ms, so that rows found in them are not delayed until the end.
pub struct Attended {
    inputs: Inputs,
    /// The clock of a live capture; `None` for a complete one.
    clock: Option<CaptureClock>,
    started: Instant,
    /// The last result was [`Poll::Idle`].
    is_idle: bool,
    /// The time of the last such result.
    idle_at: Instant,
}

impl std::fmt::Debug for Attended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attended").field("progress", &self.inputs.progress()).finish_non_exhaustive()
    }
}

impl Attended {
    /// Continues reading with `reader`, which has not begun to read. Each of its TCP connections has a thread
    /// of its own, so that one without packets does not delay other inputs.
    ///
    /// # Errors
    /// If no thread can be created.
    pub fn start(reader: CaptureReader) -> std::io::Result<Self> {
        let (inputs, started) = (Inputs::start(reader)?, Instant::now());
        Ok(Self { inputs, clock: None, started, is_idle: false, idle_at: started })
    }

    /// The capture is live: its time passes even if it is silent for more than a second. The claimed time is
    /// the time of the last packets plus the time elapsed since they were read.
    #[must_use]
    pub fn with_passing_time(mut self) -> Self {
        self.clock = Some(CaptureClock::default());
        self
    }

    fn idle(&mut self, now: Timestamp) -> Poll {
        self.is_idle = true;
        self.idle_at = Instant::now();
        Poll::Idle { now }
    }

    /// Nanoseconds from the start to `at`.
    fn ns(&self, at: Instant) -> i64 {
        as_ns(at.saturating_duration_since(self.started))
    }

    /// The findings of the reader so far.
    pub fn findings(&self) -> &Findings {
        self.inputs.findings()
    }
}

impl Source for Attended {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        burst.clear();
        if !self.is_idle && self.idle_at.elapsed() >= BUSY_MAX {
            // Packets wait; they give the time, so no claim is made.
            return Ok(self.idle(Timestamp::MIN));
        }
        let patience = if self.is_idle { PATIENCE } else { Duration::ZERO };
        // After an error, more packets may wait.
        let next = self.inputs.next(patience, burst).inspect_err(|_| self.is_idle = false)?;
        match next {
            Next::Packets(at) => {
                self.is_idle = false;
                let read_ns = self.ns(at);
                self.clock.iter_mut().for_each(|clock| clock.note(&burst.packets, read_ns));
                Ok(Poll::Packets)
            }
            Next::Idle => {
                let now_ns = self.ns(Instant::now());
                let now = self.clock.map_or(Timestamp::MIN, |clock| clock.now(now_ns));
                Ok(self.idle(now))
            }
            Next::End => Ok(Poll::End),
        }
    }

    fn progress(&self) -> (u64, Option<u64>) {
        self.inputs.progress()
    }

    fn stats(&self) -> SourceStats {
        self.inputs.counts().stats()
    }

    fn narrow(&mut self, filters: Option<&Arc<dyn KernelFilters>>) {
        self.inputs.counts().narrow(filters);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::craft;
    use std::io::Read;
    use std::sync::mpsc::Receiver;
    use weir_packet::SourcePlace;

    const IDLE: Result<Poll, SourceError> = Ok(Poll::Idle { now: Timestamp::MIN });
    const END: Result<Poll, SourceError> = Ok(Poll::End);

    /// A pipe: it ends when its writer ends.
    struct Pipe(Receiver<Vec<u8>>, Vec<u8>);

    impl Read for Pipe {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            if self.1.is_empty() {
                self.1 = self.0.recv().unwrap_or_default();
            }
            let n = self.1.len().min(out.len());
            out[..n].copy_from_slice(&self.1[..n]);
            self.1.drain(..n);
            Ok(n)
        }
    }

    #[test]
    fn a_silent_source_is_idle() {
        let (writer, pipe) = std::sync::mpsc::channel();
        let reader = CaptureReader::from_reader("a pipe", Box::new(Pipe(pipe, vec![])));
        let mut source = Attended::start(reader).expect("a thread");
        let mut burst = Burst::default();
        // The file's header has not arrived yet.
        assert_eq!(source.poll(&mut burst), IDLE);
        assert!(burst.packets.is_empty());
        assert!(source.findings().found().interfaces.is_empty());
        writer.send(craft::plain_pcap(&[3, 3])).expect("it is read");
        let mut packets = 0;
        while packets < 2 {
            assert_ne!(source.poll(&mut burst), END);
            packets += burst.packets.len();
        }
        assert_eq!(source.findings().found().interfaces.len(), 1);
        assert_eq!(source.poll(&mut burst), IDLE);
        assert!(burst.packets.is_empty());
        drop(writer);
        while source.poll(&mut burst) != END {
            assert!(burst.packets.is_empty());
        }
    }

    #[test]
    fn the_time_of_a_silent_live_capture_passes() {
        const SECOND: i64 = 1_000_000_000;
        const START: i64 = 1_790_000_000 * SECOND;
        let at = |time| PacketMeta { time: Timestamp(time), ..PacketMeta::default() };
        let mut clock = CaptureClock::default();
        assert_eq!(clock.now(9 * SECOND), Timestamp::MIN, "no packet came");
        clock.note(&[at(START)], SECOND);
        assert_eq!(clock.now(2 * SECOND - 1), Timestamp::MIN, "it is not silent");
        assert_eq!(clock.now(6 * SECOND), Timestamp(START + 5 * SECOND));
        // A packet with a wrong time has no effect.
        for wrong in [START + START, i64::MAX] {
            let mut clock = clock;
            clock.note(&[at(wrong)], 2 * SECOND);
            assert_eq!(clock.now(6 * SECOND), Timestamp(START + 5 * SECOND));
        }
        clock.note(&[at(i64::MIN)], 2 * SECOND);
        assert!(clock.now(6 * SECOND) < Timestamp(0));
        // The next two packets count again.
        clock.note(&[at(0), at(START + 8 * SECOND), at(START + 9 * SECOND)], 10 * SECOND);
        assert_eq!(clock.now(12 * SECOND), Timestamp(START + 10 * SECOND));
    }

    #[test]
    fn packets_without_a_break_leave_room_for_idle_answers() {
        let (writer, pipe) = std::sync::mpsc::channel();
        let reader = CaptureReader::from_reader("a pipe", Box::new(Pipe(pipe, craft::plain_pcap(&[3]))));
        let mut source = Attended::start(reader).expect("a thread");
        let mut burst = Burst::default();
        // Until the first packet arrives.
        while burst.packets.is_empty() {
            assert_ne!(source.poll(&mut burst), END);
        }
        let record = craft::plain_pcap(&[3]).split_off(24);
        (0..100).for_each(|_| writer.send(record.clone()).expect("it is read"));
        source.idle_at = Instant::now().checked_sub(BUSY_MAX).expect("the clock has run for so long");
        assert_eq!(source.poll(&mut burst), IDLE);
        assert!(burst.packets.is_empty(), "however many wait");
        let mut packets = 0;
        while packets < 100 {
            assert_ne!(source.poll(&mut burst), END);
            packets += burst.packets.len();
        }
    }

    #[test]
    fn faults_come_in_their_turn() {
        let mut bytes = craft::plain_pcap(&[3]);
        bytes.pop();
        let reader = CaptureReader::from_reader("cut", Box::new(std::io::Cursor::new(bytes)));
        let mut source = Attended::start(reader).expect("a thread");
        let mut burst = Burst::default();
        let fault = loop {
            match source.poll(&mut burst) {
                Ok(Poll::Packets) => panic!("its packet is cut"),
                Ok(Poll::Idle { .. }) => {}
                Ok(Poll::End) => panic!("the fault is lost"),
                Err(fault) => break fault,
            }
        };
        assert!(matches!(&fault.place, SourcePlace::Capture { file, .. } if file == "cut"), "{fault}");
        while source.poll(&mut burst) != END {}
    }

    #[test]
    fn a_growing_file_is_read_on_and_its_successor_too() {
        let dir = std::env::temp_dir().join(format!("weir-growing-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a temporary directory");
        let path = dir.join("x.pcap");
        let whole = craft::plain_pcap(&[3]);
        let append = |bytes: &[u8]| {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
            std::io::Write::write_all(&mut file.expect("the file"), bytes).expect("room");
        };
        append(&whole);
        let mut source = Attended::start(CaptureReader::open(&[&path]).following()).expect("a thread");
        let mut burst = Burst::default();
        let mut numbers = vec![];
        let mut wait_for = |count: usize| {
            while numbers.len() < count {
                match source.poll(&mut burst).expect("the captures are whole") {
                    Poll::End => panic!("a growing file has no end"),
                    _ => numbers.extend(burst.packets.iter().map(|packet| packet.number)),
                }
            }
        };
        wait_for(1);
        // A record in two parts, and the next file.
        let (head, tail) = whole[24..].split_at(7);
        append(head);
        append(tail);
        wait_for(2);
        std::fs::rename(&path, dir.join("x.pcap.1")).expect("a rename");
        append(&craft::plain_pcap(&[3, 3]));
        wait_for(4);
        // The file is emptied and written anew.
        std::fs::write(&path, &whole).expect("room");
        wait_for(5);
        assert_eq!(numbers, [1, 2, 3, 4, 5]);
        drop(std::fs::remove_dir_all(&dir));
    }
}
