//! The captures of a run. A signal ends the captures early: the packets read so far are processed, and output
//! files are complete. A second signal terminates the process.

use crate::ender::Ender;
use crate::failure::Failure;
use crate::input_options::Input;
use crate::listener::Listener;
use crate::memory;
use crate::output;
use crate::quantity::bytes;
use crate::recording::{RecordWriter, Recorder};
use crate::shortage;
use crate::source_part::{CopyRule, SourcePart};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use weir::io::ring::TimeRange;
use weir::io::{Attended, CaptureReader, Findings, Interface, Listening};
use weir::link::{LinkOptions, Links, Loader, Method, Note, Notes};
use weir::packet::{Burst, KernelFilters, Poll, Source, SourceError, SourceStats};

/// Signals that end a run, with their names.
const SIGNALS: [(i32, &str); 3] = [(SIGINT, "SIGINT"), (SIGTERM, "SIGTERM"), (SIGHUP, "SIGHUP")];

/// Bytes that datagrams should be able to occupy in the kernel until they are read: some hundredths of a
/// second of 10 Gbit/s.
const DATAGRAM_BUFFER_BYTES: usize = 32 << 20;

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
    copies: CopyRule,
    /// Writes the packets into a ring, too.
    writer: Option<RecordWriter>,
    /// Makes the writers of parts.
    recorder: Option<Recorder>,
    /// A signal ended the captures early.
    is_cut: bool,
    /// Of links: loads filters into the kernel.
    loader: Loader,
    /// The questions cannot change: the first filters are the last ones.
    is_fixed: bool,
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
    /// Opens the captures of `input` for this number of workers, and installs the signal handlers. If the
    /// input is an interface, the source does not block. Otherwise a separate thread reads with
    /// `is_attended`, or if the input is live, so that control requests and signals need not wait for
    /// packets. Metadata that is found besides packets goes to `findings`.
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
            // The order matters: the first handler must find the flag unset, and terminates the process at
            // the second signal.
            signal_hook::flag::register_conditional_default(number, Arc::clone(&is_stopped))
                .map_err(Failure::new)?;
            signal_hook::flag::register(number, Arc::clone(&is_stopped)).map_err(Failure::new)?;
            signal_hook::flag::register_usize(number, Arc::clone(&signal), number as usize)
                .map_err(Failure::new)?;
        }
        let ender = Ender(signal);
        shortage::ends(&ender);
        Self::open_with(input, workers, is_attended, findings, &ender)
    }

    /// As [`open`](Self::open), without handlers of signals: `ender` ends the captures early.
    pub fn open_with(
        input: &Input,
        workers: usize,
        is_attended: bool,
        findings: &Findings,
        ender: &Ender,
    ) -> Result<Self, Failure> {
        memory::check(input)?;
        let signal = Arc::clone(&ender.0);
        let is_live = output::is_live(input);
        if !input.interface.is_empty() {
            let options = link_options(input, &signal, findings)?;
            let links = Links::open(&input.interface, &options, workers);
            let reader = Reader::Links(links.map_err(Failure::new)?);
            let copies = CopyRule::of(input);
            return Ok(Self { loader: options.loader, copies, ..Self::of(reader, is_live, signal) });
        }
        let times = TimeRange {
            first: input.from.map_or(i64::MIN, |time| time.0),
            last: input.to.map_or(i64::MAX, |time| time.0),
        };
        let reader = CaptureReader::open(&input.read).with_findings(findings.clone()).with_times(times);
        let mut reader = if input.follow { reader.following() } else { reader };
        for Listening { name, addresses, buffer_bytes } in reader.listen().map_err(Failure::new)? {
            inform!("weir: {name}: waiting for a sender on {}", output::addresses(&addresses));
            if let Some(bytes) = buffer_bytes.filter(|bytes| *bytes < DATAGRAM_BUFFER_BYTES) {
                note!(
                    "weir: {name}: the kernel keeps {} KiB of datagrams at most: sysctl -w net.core.rmem_max={DATAGRAM_BUFFER_BYTES} \
                     (or root) gives more room",
                    bytes >> 10
                );
            }
        }
        let reader = match is_live || is_attended {
            true => {
                let attended = Attended::start(reader).map_err(Failure::new)?;
                Reader::Attended(if is_live { attended.with_passing_time() } else { attended })
            }
            false => Reader::Own(Box::new(reader)),
        };
        Ok(Self { copies: CopyRule::of(input), ..Self::of(reader, is_live, signal) })
    }

    fn of(reader: Reader, is_live: bool, signal: Arc<AtomicUsize>) -> Self {
        Self {
            reader,
            is_live,
            signal,
            packets: 0,
            copies: CopyRule::Keep,
            writer: None,
            recorder: None,
            is_cut: false,
            loader: Loader::default(),
            is_fixed: false,
        }
    }

    /// The questions cannot change: once their filters are loaded, no thread has the rights for that.
    pub fn fix(&mut self) {
        self.is_fixed = true;
    }

    /// What loads filters into the kernel, for those who give up rights.
    pub fn loader(&self) -> &Loader {
        &self.loader
    }

    /// Records the packets. Called before they are read.
    pub fn record(&mut self, recorder: Recorder) {
        self.writer = Some(recorder.writer());
        self.recorder = Some(recorder);
    }

    /// Ends the captures before their end.
    pub fn ender(&self) -> Ender {
        Ender(Arc::clone(&self.signal))
    }

    /// Says that the capture begins, once the process is ready for signals and requests.
    pub fn announce(&self, input: &Input) {
        if matches!(self.reader, Reader::Links(_)) {
            inform!("weir: capturing on {} (Ctrl-C ends)", input.interface.join(", "));
        }
    }

    /// If a signal cut the captures short: reports the signal, and returns the exit status of a process that
    /// it ended. Live input returns `None`, since only a signal ends it.
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
        let polled = self.copies.poll(self.reader.source_mut(), burst);
        self.packets += burst.packets.len() as u64;
        if let Some(writer) = &mut self.writer {
            writer.write(burst);
        }
        polled
    }

    fn split(
        &mut self,
        parts: usize,
        idle_max: Option<Duration>,
    ) -> Result<Option<Vec<Box<dyn Source + Send>>>, SourceError> {
        let parts = self.reader.source_mut().split(parts, idle_max)?;
        if self.recorder.is_none() && matches!(self.copies, CopyRule::Keep) {
            return Ok(parts);
        }
        let watched = |part| {
            let writer = self.recorder.as_ref().map(Recorder::writer);
            Box::new(SourcePart { part, copies: self.copies.of_part(), writer }) as Box<dyn Source + Send>
        };
        Ok(parts.map(|parts| parts.into_iter().map(watched).collect()))
    }

    fn clock_step(&mut self) -> i64 {
        self.reader.source_mut().clock_step()
    }

    fn progress(&self) -> (u64, Option<u64>) {
        self.reader.source().progress()
    }

    fn narrow(&mut self, filters: Option<&Arc<dyn KernelFilters>>) {
        // All packets are recorded, and the kernel would count copies.
        let filters = filters.filter(|_| self.writer.is_none() && !self.copies.removes());
        self.reader.source_mut().narrow(filters);
        if self.is_fixed {
            self.loader.end();
        }
    }

    fn stats(&self) -> SourceStats {
        let mut stats = self.reader.source().stats();
        self.copies.add_to(&mut stats);
        stats
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
    let tell = move |note: Note| match note {
        Note::Interface(named) => findings.add_interface(Interface::of_link(&named.name, named.link)),
        Note::Down(name) => say!("weir: {name} is down: the capture continues when it is up again"),
        Note::Method(name, method) => inform!("weir: {name}: {method}"),
        Note::Filtered(name, by) => inform!("weir: {name}: {by} discards packets that no question needs"),
        Note::Unfiltered(name, by, why) => inform!("weir: {name}: {by} does not filter packets: {why}"),
        Note::Fixed(why) => {
            inform!("weir: new connections do not move away from workers that fall behind: {why}")
        }
        Note::Up(name) => inform!("weir: {name} has packets again"),
    };
    // Threads of the links have notes, too.
    let listener = Listener::current();
    let note = move |note: Note| Listener::within(listener.clone(), || tell(note));
    let method = Method::ALL.into_iter().find(|(name, _)| *name == input.method);
    Ok(LinkOptions {
        loader: Loader::start().map_err(Failure::new)?,
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
