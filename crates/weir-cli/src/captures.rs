//! The captures of a run. A signal ends the captures early: the packets read so far are processed, and output files are
//! complete. A second signal terminates the process.

use crate::args::Input;
use crate::failure::Failure;
use crate::output;
use crate::quantity::bytes;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use weir::io::{Attended, CaptureReader, Findings, Interface};
use weir::link::{LinkOptions, Links, Method, Note, Notes};
use weir::packet::{Burst, KernelFilters, Poll, Source, SourceError, SourceStats};

/// Signals that end a run, with their names.
const SIGNALS: [(i32, &str); 3] = [(SIGINT, "SIGINT"), (SIGTERM, "SIGTERM"), (SIGHUP, "SIGHUP")];

/// Stands in the place of a signal's number if the program itself ends the captures.
const ENDED: usize = usize::MAX;

/// Ends captures early, from another thread.
#[derive(Clone)]
pub struct Ender(Arc<AtomicUsize>);

impl Ender {
    /// Ends the captures, unless a signal has done so.
    pub fn end(&self) {
        // If a signal came first, that signal determines the exit status.
        let _ = self.0.compare_exchange(0, ENDED, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Whether a signal, or an ender, has ended the captures.
    pub fn has_ended(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }
}

/// What SIGHUP means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hangup {
    /// The terminal was closed: the run ends.
    Ends,
    /// The file of questions is read again.
    Reloads,
}

/// A packet source that ends at the end of the captures, or at a signal.
pub struct Captures {
    reader: Reader,
    is_live: bool,
    /// Number of the signal received; 0: none.
    signal: Arc<AtomicUsize>,
    packets: u64,
    /// A signal ended the captures early.
    is_cut: bool,
}

/// Which thread reads.
enum Reader {
    /// The thread that runs the engine.
    Own(Box<CaptureReader>),
    /// A separate thread, which may block on input.
    Attended(Attended),
    /// The workers, or the thread that runs the engine. The source itself ends after a signal.
    Links(Links),
}

impl Reader {
    fn source(&self) -> &dyn Source {
        match self {
            Reader::Own(reader) => &**reader,
            Reader::Attended(reader) => reader,
            Reader::Links(links) => links,
        }
    }

    fn source_mut(&mut self) -> &mut dyn Source {
        match self {
            Reader::Own(reader) => &mut **reader,
            Reader::Attended(reader) => reader,
            Reader::Links(links) => links,
        }
    }
}

impl Captures {
    /// Opens the captures of `input` for this number of workers, and installs the signal handlers. If the input is an
    /// interface, the source does not block. Otherwise a separate thread reads with `is_attended`, or if the input is live, so
    /// that control requests and signals need not wait for packets. Metadata that is found besides packets goes to `findings`.
    pub fn open(
        input: &Input,
        workers: usize,
        is_attended: bool,
        findings: &Findings,
        hangup: Hangup,
    ) -> Result<Self, Failure> {
        let (is_stopped, signal) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let ends = |number: i32| number != SIGHUP || hangup == Hangup::Ends;
        for (number, _) in SIGNALS.into_iter().filter(|(number, _)| ends(*number)) {
            // The order matters: the first handler must find the flag unset, and terminates the process at the second
            // signal.
            signal_hook::flag::register_conditional_default(number, Arc::clone(&is_stopped))
                .map_err(Failure::new)?;
            signal_hook::flag::register(number, Arc::clone(&is_stopped)).map_err(Failure::new)?;
            signal_hook::flag::register_usize(number, Arc::clone(&signal), number as usize)
                .map_err(Failure::new)?;
        }
        let is_live = output::is_live(input);
        if !input.interface.is_empty() {
            let links = Links::open(&input.interface, &link_options(input, &signal, findings)?, workers);
            let reader = Reader::Links(links.map_err(Failure::new)?);
            return Ok(Self { reader, is_live, signal, packets: 0, is_cut: false });
        }
        let reader = CaptureReader::open(&input.read).with_findings(findings.clone());
        let mut reader = if input.follow { reader.following() } else { reader };
        for (name, addresses) in reader.listen().map_err(Failure::new)? {
            note!("weir: {name}: waiting for a sender on {}", output::addresses(&addresses));
        }
        let reader = match is_live || is_attended {
            true => {
                let attended = Attended::start(reader).map_err(Failure::new)?;
                Reader::Attended(if is_live { attended.with_passing_time() } else { attended })
            }
            false => Reader::Own(Box::new(reader)),
        };
        Ok(Self { reader, is_live, signal, packets: 0, is_cut: false })
    }

    /// Ends the captures before their end.
    pub fn ender(&self) -> Ender {
        Ender(Arc::clone(&self.signal))
    }

    /// Says that the capture begins, once the process is ready for signals and requests.
    pub fn announce(&self, input: &Input) {
        if matches!(self.reader, Reader::Links(_)) {
            note!("weir: capturing on {} (Ctrl-C ends)", input.interface.join(", "));
        }
    }

    /// If a signal cut the captures short: reports the signal, and returns the exit status of a process that it ended.
    /// Live input returns `None`, since only a signal ends it.
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
        let is_links = matches!(self.reader, Reader::Links(_));
        let is_cut = !is_links && self.signal.load(Ordering::Relaxed) != 0;
        if is_cut {
            burst.clear();
            self.is_cut = true;
            return Ok(Poll::End);
        }
        let polled = self.reader.source_mut().poll(burst);
        self.packets += burst.packets.len() as u64;
        polled
    }

    fn split(
        &mut self,
        parts: usize,
        idle_max: Option<Duration>,
    ) -> Result<Option<Vec<Box<dyn Source + Send>>>, SourceError> {
        self.reader.source_mut().split(parts, idle_max)
    }

    fn clock_step(&mut self) -> i64 {
        self.reader.source_mut().clock_step()
    }

    fn progress(&self) -> (u64, Option<u64>) {
        self.reader.source().progress()
    }

    fn narrow(&mut self, filters: Option<&Arc<dyn KernelFilters>>) {
        self.reader.source_mut().narrow(filters);
    }

    fn stats(&self) -> SourceStats {
        self.reader.source().stats()
    }
}

/// The settings of a capture on links, which ends at the signal.
fn link_options(
    input: &Input,
    signal: &Arc<AtomicUsize>,
    findings: &Findings,
) -> Result<LinkOptions, Failure> {
    let usual = LinkOptions::default();
    let buffer = input.buffer.as_deref().map(|text| bytes("--buffer", text)).transpose()?;
    let findings = findings.clone();
    let note = move |note: Note| match note {
        Note::Interface(named) => findings.add_interface(Interface::of_link(&named.name, named.link)),
        Note::Down(name) => say!("weir: {name} is down: the capture continues when it is up again"),
        Note::Method(name, method) => note!("weir: {name}: {method}"),
        Note::Filtered(name, by) => note!("weir: {name}: {by} discards packets that no question needs"),
        Note::Unfiltered(name, by, why) => note!("weir: {name}: {by} does not filter packets: {why}"),
        Note::Fixed(why) => {
            note!("weir: new connections do not move away from workers that fall behind: {why}")
        }
        Note::Up(name) => note!("weir: {name} has packets again"),
    };
    let method = Method::ALL.into_iter().find(|(name, _)| *name == input.method);
    Ok(LinkOptions {
        method: method.map_or(usual.method, |(_, method)| method),
        buffer_bytes: buffer.map_or(usual.buffer_bytes, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        promiscuous: !input.no_promiscuous,
        mirror: input.mirror,
        hardware_time: input.hardware_time,
        dpdk_arguments: input
            .dpdk_eal
            .iter()
            .flat_map(|words| words.split_whitespace())
            .map(String::from)
            .collect(),
        stop: Arc::clone(signal),
        notes: Notes::to(note),
    })
}
