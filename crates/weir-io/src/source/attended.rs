//! Captures that are read on a thread of their own, for runs that have other things to do while no packets come:
//! questions that come and go on an idle link.

use super::{CaptureReader, Findings};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_packet::{Burst, Poll, Source, SourceError, Timestamp};

/// Time between two answers that the source is idle.
const PATIENCE: Duration = Duration::from_millis(10);

/// Time for which packets come without a break until the source claims to be idle between two bursts.
const BUSY_MAX: Duration = Duration::from_millis(100);

/// Bursts that may wait to be taken.
const BURSTS_WAITING_MAX: usize = 64;

/// What was read, and how far the reader is.
type Reading = (Result<Burst, SourceError>, (u64, Option<u64>));

/// Reads captures on a thread of its own. As soon as none of their packets waits [`poll`](Source::poll) answers
/// [`Poll::Idle`], and then every 10 ms until packets come; where packets come without a break, every 100 ms: rows that
/// were found in them are not to wait for their end.
pub struct Attended {
    readings: Receiver<Reading>,
    progress: (u64, Option<u64>),
    findings: Findings,
    thread: Option<JoinHandle<()>>,
    /// The last answer was [`Poll::Idle`].
    is_idle: bool,
    /// The time of the last such answer.
    idle_at: Instant,
}

impl std::fmt::Debug for Attended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attended").field("progress", &self.progress).finish_non_exhaustive()
    }
}

impl Attended {
    /// Reads on with `reader`. The thread ends with its captures, or with the first packets that nobody takes any more.
    ///
    /// # Errors
    /// Where there is no thread to be had.
    pub fn start(reader: CaptureReader) -> std::io::Result<Self> {
        let (sender, readings) = sync_channel(BURSTS_WAITING_MAX);
        let (progress, findings) = (reader.progress(), reader.findings().clone());
        let thread = std::thread::Builder::new().name("weir-read".into());
        let thread = Some(thread.spawn(move || read(reader, &sender))?);
        Ok(Self { readings, progress, findings, thread, is_idle: false, idle_at: Instant::now() })
    }

    fn idle(&mut self) -> Poll {
        self.is_idle = true;
        self.idle_at = Instant::now();
        Poll::Idle { now: Timestamp::MIN }
    }

    /// What the reader met so far.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }
}

fn read(mut reader: CaptureReader, sender: &SyncSender<Reading>) {
    loop {
        let mut burst = Burst::default();
        let read = match reader.poll(&mut burst) {
            Ok(Poll::Packets) => Ok(burst),
            Ok(Poll::Idle { .. }) => continue,
            Ok(Poll::End) => return,
            Err(error) => Err(error),
        };
        if sender.send((read, reader.progress())).is_err() {
            return;
        }
    }
}

impl Source for Attended {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        burst.packets.clear();
        if !self.is_idle && self.idle_at.elapsed() >= BUSY_MAX {
            return Ok(self.idle());
        }
        let patience = if self.is_idle { PATIENCE } else { Duration::ZERO };
        match self.readings.recv_timeout(patience) {
            Ok((read, progress)) => {
                self.is_idle = false;
                self.progress = progress;
                *burst = read?;
                Ok(Poll::Packets)
            }
            Err(RecvTimeoutError::Timeout) => Ok(self.idle()),
            Err(RecvTimeoutError::Disconnected) => {
                // It ended as it should, or a panic there is one here.
                if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
                    std::panic::resume_unwind(panic);
                }
                Ok(Poll::End)
            }
        }
    }

    fn progress(&self) -> (u64, Option<u64>) {
        self.progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::craft;
    use std::io::Read;
    use weir_packet::SourcePlace;

    const IDLE: Result<Poll, SourceError> = Ok(Poll::Idle { now: Timestamp::MIN });
    const END: Result<Poll, SourceError> = Ok(Poll::End);

    /// A pipe: its end is when its writer's is.
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
        // Not even the file's header is there.
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
    fn packets_without_a_break_leave_room_for_idle_answers() {
        let (writer, pipe) = std::sync::mpsc::channel();
        let reader = CaptureReader::from_reader("a pipe", Box::new(Pipe(pipe, craft::plain_pcap(&[3]))));
        let mut source = Attended::start(reader).expect("a thread");
        let mut burst = Burst::default();
        // Until the first packet is there.
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
}
