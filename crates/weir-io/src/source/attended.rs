//! Captures that are read on a thread of their own, for runs that have other things to do while no packets come:
//! questions that come and go on an idle link.

use super::{CaptureReader, Findings};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_packet::{Burst, Source, SourceError};

/// How long nothing comes until an empty burst says so again.
const PATIENCE: Duration = Duration::from_millis(10);

/// How long packets come without a break until an empty burst is put between them.
const BUSY_MAX: Duration = Duration::from_millis(100);

/// Bursts that may wait to be taken.
const BURSTS_WAITING_MAX: usize = 64;

/// What was read, and how far the reader is.
type Reading = (Result<Burst, SourceError>, (u64, Option<u64>));

/// Reads captures on a thread of its own. As soon as none of their packets waits [`next_burst`](Source::next_burst) yields a
/// burst without packets, and then one every 10 ms until some come; where packets never cease to, one every 100 ms: what was
/// found in them isn't to wait for their end.
pub struct Attended {
    readings: Receiver<Reading>,
    progress: (u64, Option<u64>),
    findings: Findings,
    thread: Option<JoinHandle<()>>,
    /// The last burst had no packets.
    has_paused: bool,
    /// When the last such burst was.
    paused: Instant,
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
        Ok(Self { readings, progress, findings, thread, has_paused: false, paused: Instant::now() })
    }

    fn pause(&mut self) {
        (self.has_paused, self.paused) = (true, Instant::now());
    }

    /// What the reader met so far.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }
}

fn read(mut reader: CaptureReader, sender: &SyncSender<Reading>) {
    loop {
        let mut burst = Burst::default();
        let read = match reader.next_burst(&mut burst) {
            Ok(true) => Ok(burst),
            Ok(false) => return,
            Err(error) => Err(error),
        };
        if sender.send((read, reader.progress())).is_err() {
            return;
        }
    }
}

impl Source for Attended {
    fn next_burst(&mut self, burst: &mut Burst) -> Result<bool, SourceError> {
        burst.packets.clear();
        if !self.has_paused && self.paused.elapsed() >= BUSY_MAX {
            self.pause();
            return Ok(true);
        }
        let patience = if self.has_paused { PATIENCE } else { Duration::ZERO };
        match self.readings.recv_timeout(patience) {
            Ok((read, progress)) => {
                self.has_paused = false;
                self.progress = progress;
                *burst = read?;
                Ok(true)
            }
            Err(RecvTimeoutError::Timeout) => {
                self.pause();
                Ok(true)
            }
            Err(RecvTimeoutError::Disconnected) => {
                // It ended as it should, or a panic there is one here.
                if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
                    std::panic::resume_unwind(panic);
                }
                Ok(false)
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
    fn where_nothing_comes_there_are_empty_bursts() {
        let (writer, pipe) = std::sync::mpsc::channel();
        let reader = CaptureReader::from_reader("a pipe", Box::new(Pipe(pipe, vec![])));
        let mut source = Attended::start(reader).expect("a thread");
        let mut burst = Burst::default();
        // Not even the file's header is there.
        assert!(source.next_burst(&mut burst).expect("nothing is wrong") && burst.packets.is_empty());
        assert!(source.findings().found().interfaces.is_empty());
        writer.send(craft::plain_pcap(&[3, 3])).expect("it is read");
        let mut packets = 0;
        while packets < 2 {
            assert!(source.next_burst(&mut burst).expect("nothing is wrong"));
            packets += burst.packets.len();
        }
        assert_eq!(source.findings().found().interfaces.len(), 1);
        assert!(source.next_burst(&mut burst).expect("nothing is wrong") && burst.packets.is_empty());
        drop(writer);
        while source.next_burst(&mut burst).expect("nothing is wrong") {
            assert!(burst.packets.is_empty());
        }
    }

    #[test]
    fn packets_that_never_cease_leave_room_for_empty_bursts() {
        let (writer, pipe) = std::sync::mpsc::channel();
        let reader = CaptureReader::from_reader("a pipe", Box::new(Pipe(pipe, craft::plain_pcap(&[3]))));
        let mut source = Attended::start(reader).expect("a thread");
        let mut burst = Burst::default();
        // Until the first packet is there.
        while burst.packets.is_empty() {
            assert!(source.next_burst(&mut burst).expect("nothing is wrong"));
        }
        let record = craft::plain_pcap(&[3]).split_off(24);
        (0..100).for_each(|_| writer.send(record.clone()).expect("it is read"));
        source.paused = Instant::now().checked_sub(BUSY_MAX).expect("the clock has run for so long");
        assert!(source.next_burst(&mut burst).expect("nothing is wrong"));
        assert!(burst.packets.is_empty(), "however many wait");
        let mut packets = 0;
        while packets < 100 {
            assert!(source.next_burst(&mut burst).expect("nothing is wrong"));
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
            match source.next_burst(&mut burst) {
                Ok(true) => assert!(burst.packets.is_empty()),
                Ok(false) => panic!("the fault is lost"),
                Err(fault) => break fault,
            }
        };
        assert_eq!(fault.file, "cut");
        while source.next_burst(&mut burst).expect("one file, one fault") {}
    }
}
