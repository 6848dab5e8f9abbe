//! The captures of a run. An interrupted run ends as if its captures did: what was read is answered, files are whole. The
//! second signal ends it at once.

use crate::args::Input;
use crate::failure::Failure;
use crate::output;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use weir::io::{Attended, CaptureReader, Findings};
use weir::packet::{Burst, Poll, Source, SourceError};

/// Signals that end a run, and their names.
const SIGNALS: [(i32, &str); 3] = [(SIGINT, "SIGINT"), (SIGTERM, "SIGTERM"), (SIGHUP, "SIGHUP")];

/// Captures, until a signal comes.
pub struct Captures {
    reader: Reader,
    is_live: bool,
    /// The signal that came; 0 for none.
    signal: Arc<AtomicUsize>,
    packets: u64,
    /// It came before their end.
    is_cut: bool,
}

/// Who reads.
enum Reader {
    /// The thread that asks.
    Own(Box<CaptureReader>),
    /// One that waits for packets, while others come and go.
    Attended(Attended),
}

impl Captures {
    /// Those of `input`. From now on signals end them. `is_attended`: nobody is to wait until packets come; nor is who sends a
    /// signal, where they come as they happen. What the files say of themselves is told through `findings`.
    pub fn open(input: &Input, is_attended: bool, findings: &Findings) -> Result<Self, Failure> {
        let (is_stopped, signal) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        for (number, _) in SIGNALS {
            // In this order: the first one finds the flag unset.
            signal_hook::flag::register_conditional_default(number, Arc::clone(&is_stopped))
                .map_err(Failure::new)?;
            signal_hook::flag::register(number, Arc::clone(&is_stopped)).map_err(Failure::new)?;
            signal_hook::flag::register_usize(number, Arc::clone(&signal), number as usize)
                .map_err(Failure::new)?;
        }
        let is_live = output::is_live(input);
        let reader = CaptureReader::open(&input.read).with_findings(findings.clone());
        let reader = match is_live || is_attended {
            true => {
                let attended = Attended::start(reader).map_err(Failure::new)?;
                Reader::Attended(if is_live { attended.with_passing_time() } else { attended })
            }
            false => Reader::Own(Box::new(reader)),
        };
        Ok(Self { reader, is_live, signal, packets: 0, is_cut: false })
    }

    /// Where a signal ended them: says so; the exit status, that of a command that the signal ended, where they were not
    /// read to their end. What comes as it happens has no other end.
    pub fn stopped(&self) -> Option<ExitCode> {
        let number = self.signal.load(Ordering::Relaxed);
        let is_this = |(signal, _): &&(i32, &str)| self.is_cut && *signal as usize == number;
        let (_, name) = SIGNALS.iter().find(is_this)?;
        say!("weir: {name} after {} packets; the packets before are processed", self.packets);
        (!self.is_live).then(|| ExitCode::from(128 + number as u8))
    }
}

impl Source for Captures {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        let is_cut = self.signal.load(Ordering::Relaxed) != 0;
        if is_cut {
            burst.packets.clear();
            self.is_cut = true;
            return Ok(Poll::End);
        }
        let polled = match &mut self.reader {
            Reader::Own(reader) => reader.poll(burst),
            Reader::Attended(reader) => reader.poll(burst),
        };
        self.packets += burst.packets.len() as u64;
        polled
    }

    fn progress(&self) -> (u64, Option<u64>) {
        match &self.reader {
            Reader::Own(reader) => reader.progress(),
            Reader::Attended(reader) => reader.progress(),
        }
    }
}
