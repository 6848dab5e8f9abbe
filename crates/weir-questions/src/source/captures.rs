//! The captures of a run. An [`Ender`] ends the captures early: the packets read so far are processed, and
//! output files are complete.

use crate::input_options::Input;
use crate::messages::failure::Failure;
use crate::messages::listener::Listener;
use crate::quantity::bytes;
use crate::source::ender::Ender;
use crate::source::memory;
use crate::source::source_part::{CopyRule, SourcePart, Tap, Taps};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weir::io::ring::TimeRange;
use weir::io::{Attended, CaptureReader, Findings, Interface, Listening};
use weir::link::{LinkOptions, Links, Loader, Method, Note, Notes};
use weir::packet::{Burst, KernelFilters, Poll, Source, SourceError, SourceStats};

/// Bytes that datagrams should be able to occupy in the kernel until they are read: some hundredths of a
/// second of 10 Gbit/s.
const DATAGRAM_BUFFER_BYTES: usize = 32 << 20;

/// A packet source that ends at the end of the captures, or at a signal.
pub struct Captures {
    reader: Reader,
    is_live: bool,
    /// Number of the signal received; 0: none.
    signal: Arc<AtomicUsize>,
    packets: u64,
    copies: CopyRule,
    /// Receives the packets, too.
    tap: Option<Box<dyn Tap>>,
    /// Makes those of parts.
    taps: Option<Arc<dyn Taps>>,
    /// A signal ended the captures early.
    is_cut: bool,
    /// Of links: loads filters into the kernel.
    loader: Loader,
    /// The questions cannot change: the first filters are the last ones.
    is_fixed: bool,
}

/// The end of captures before that of their input.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// The number that [`Ender`] has: of a signal, if one came.
    pub number: usize,
    /// Packets before.
    pub packets: u64,
    /// The input has no other end.
    pub is_live: bool,
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
    /// Opens the captures of `input` for this number of workers; `ender` ends them early. If the input is an
    /// interface, the source does not block. Otherwise a separate thread reads with `is_attended`, or if the
    /// input is live, so that control requests and signals need not wait for packets. Metadata that is found
    /// besides packets goes to `findings`.
    ///
    /// # Errors
    /// The captures cannot be opened, or the memory that the options ask for is not there.
    pub fn open(
        input: &Input,
        workers: usize,
        is_attended: bool,
        findings: &Findings,
        ender: &Ender,
    ) -> Result<Self, Failure> {
        memory::check(input)?;
        let signal = Arc::clone(&ender.0);
        let is_live = super::input::is_live(input);
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
            inform!("weir: {name}: waiting for a sender on {}", super::input::addresses(&addresses));
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
            tap: None,
            taps: None,
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

    /// Gives all packets to others, too. Called before they are read.
    pub fn give_to(&mut self, taps: Arc<dyn Taps>) {
        self.tap = Some(taps.tap());
        self.taps = Some(taps);
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

    /// How the captures ended, if that was before the end of the input: the number that [`Ender`] has. Live
    /// input has no other end.
    pub fn cut(&self) -> Option<Cut> {
        let number = self.signal.load(Ordering::Relaxed);
        self.is_cut.then_some(Cut { number, packets: self.packets, is_live: self.is_live })
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
        if let Some(tap) = &mut self.tap {
            tap.take(burst);
        }
        polled
    }

    fn split(
        &mut self,
        parts: usize,
        idle_max: Option<Duration>,
    ) -> Result<Option<Vec<Box<dyn Source + Send>>>, SourceError> {
        let parts = self.reader.source_mut().split(parts, idle_max)?;
        if self.taps.is_none() && matches!(self.copies, CopyRule::Keep) {
            return Ok(parts);
        }
        let watched = |part| {
            let tap = self.taps.as_ref().map(|taps| taps.tap());
            Box::new(SourcePart { part, copies: self.copies.of_part(), tap }) as Box<dyn Source + Send>
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
        // Others receive all packets, and the kernel would count copies.
        let filters = filters.filter(|_| self.tap.is_none() && !self.copies.removes());
        self.reader.source_mut().narrow(filters);
        if self.is_fixed {
            self.loader.end("the questions cannot change");
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
        loader: Loader::default(),
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
