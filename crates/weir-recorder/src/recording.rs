//! Records the packets of a run: a ring in memory, which other processes read, and its spool on the disk.

use crate::asking::PendingAsker;
use crate::causes::CAUSES;
use crate::dumps::{DumpAsker, DumpBounds, DumpCounters, DumpPlace, Dumps};
use crate::options::RecorderOptions;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use weir::io::Findings;
use weir::io::ring::recorders::{self, Name, Published};
use weir::io::ring::{Pages, Ring, SpoolCounters, SpoolFiles, Spooler, Writer};
use weir::packet::{Burst, PacketHeaders};
use weir::{Control, HeaderFinder, PacketClasses, PacketClassifier};
use weir_guard::{files, secrets};
use weir_questions::Input;
use weir_questions::messages::Failure;
use weir_questions::metrics::FurtherCounters;
use weir_questions::run::Run;
use weir_questions::service;
use weir_questions::source::Captures;
use weir_questions::source::{Tap, Taps};

/// Segments go to the disk at this age, although they are not full.
const SEGMENT_AGE_MAX: Duration = Duration::from_secs(60);
/// Segments that a ring has for each writer, at least.
const SEGMENTS_OF_WRITER: usize = 4;

/// A recording that goes on.
pub struct Recording {
    options: Arc<RecorderOptions>,
    /// The recording goes on when the last question has ended.
    _goes_on: Control,
    recorder: Recorder,
    published: Published,
    ends: Arc<AtomicBool>,
    spool: Option<(JoinHandle<u64>, Arc<SpoolCounters>, PathBuf)>,
    dumps: Option<Dumps>,
}

/// The counters of a recording.
struct RecordingCounters {
    ring: Ring,
    spool: Option<Arc<SpoolCounters>>,
    dumps: Option<DumpAsker>,
}

impl FurtherCounters for RecordingCounters {
    fn owner(&self) -> &'static str {
        "recorder"
    }

    fn counters(&self) -> Vec<(&'static str, u64, &'static str)> {
        let ring = self.ring.counters();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut all = vec![
            ("packets", ring.packets, "Packets written to the ring."),
            ("bytes", ring.bytes, "Captured bytes of the packets written to the ring."),
            ("left", ring.left, "Packets that made room for others in the ring."),
            (
                "too_long",
                ring.too_long,
                "Packets that are longer than half a segment, and are not in the ring.",
            ),
        ];
        if let Some(spool) = &self.spool {
            all.extend([
                ("spool_packets", count(&spool.packets), "Packets written to files of the spool."),
                ("spool_bytes", count(&spool.bytes), "Bytes written to files of the spool."),
                (
                    "spool_lost",
                    ring.unspooled,
                    "Packets that left the ring before the spool had written them.",
                ),
                ("spool_removed", count(&spool.removed), "Files that the spool has removed."),
                ("spool_errors", count(&spool.errors), "Writes of the spool that failed."),
            ]);
        }
        if let Some(dumps) = &self.dumps {
            let DumpCounters { written, packets, refused, cut, lost, failed } = dumps.counters();
            all.extend([
                ("dumps", count(written), "Dumps that are complete."),
                ("dump_packets", count(packets), "Packets in dumps that are complete."),
                ("dumps_refused", count(refused), "Dumps that were not begun, because there were too many."),
                (
                    "dumps_cut",
                    count(cut),
                    "Dumps that ended before their packets, because there was no room.",
                ),
                ("dump_lost", count(lost), "Packets that left the ring before they were dumped."),
                ("dumps_failed", count(failed), "Dumps that could not be written."),
            ]);
        }
        all
    }

    fn levels(&self) -> Vec<(&'static str, f64, &'static str)> {
        let ring_time = self.ring.times().map_or(Duration::ZERO, |times| {
            Duration::from_nanos(times.last.saturating_sub(times.first).try_into().unwrap_or(0))
        });
        let what = "Time between the first and the last packet in the ring.";
        vec![("ring_seconds", ring_time.as_secs_f64(), what)]
    }
}

/// Makes writers of a ring.
#[derive(Clone)]
struct Recorder {
    ring: Ring,
    findings: Findings,
    classes: Option<PacketClasses>,
    /// Finds the headers that the index has.
    finder: HeaderFinder,
    has_spool: bool,
    next: Arc<AtomicU32>,
}

impl RecorderOptions {
    /// The directories in which the recording makes files.
    ///
    /// # Errors
    /// One of them cannot be made.
    pub fn writable(&self) -> Result<Vec<PathBuf>, Failure> {
        let sockets = recorders::make_directory().map_err(Failure::new)?;
        let own: Vec<PathBuf> = [self.spool.clone(), self.dumps.clone()].into_iter().flatten().collect();
        for directory in &own {
            files::create_directories(directory)
                .map_err(|error| Failure::writing(directory.display(), &error))?;
        }
        Ok([vec![sockets], own].concat())
    }

    /// Takes the name of the recorder.
    ///
    /// # Errors
    /// Another recorder has the name; those of the system.
    pub fn take_name(&self) -> Result<Name, Failure> {
        Name::take(&self.name)
            .map_err(|error| Failure::new(format!("{}{}: {error}", recorders::PREFIX, self.name)))
    }

    /// Says in the options of a run that it is recorded: to be called before the run is made.
    ///
    /// # Errors
    /// What an option states wrongly.
    pub fn reserve(&self, input: &mut Input) -> Result<(), Failure> {
        input.ring_bytes = self.ring_bytes()? as u64;
        input.has_rules = !self.rules.is_empty();
        self.spool_params().map(drop)
    }

    /// Adds the questions of all causes of dumps to a run. Their dumps begin with the recording.
    ///
    /// # Errors
    /// All mistakes in them.
    pub fn ask(&self, run: &mut Run<'_>) -> Result<PendingAsker, Failure> {
        let asking = PendingAsker::default();
        CAUSES.iter().try_for_each(|ask| ask(self, run, &asking))?;
        Ok(asking)
    }

    /// Makes the ring, lets others find it, and records the packets of `captures` from now on. `asking` is
    /// what [`ask`](Self::ask) has returned.
    ///
    /// # Errors
    /// There is not enough memory; the directory of the spool cannot be written.
    pub fn start(
        &self,
        run: &Run<'_>,
        captures: &mut Captures,
        asking: &PendingAsker,
        name: Name,
    ) -> Result<Recording, Failure> {
        let set = run.set();
        let (findings, compiler) = (&set.findings, &set.compiler);
        let (workers, bpf) = (set.input.workers, set.input.bpf);
        let named = |what: &str, error: &dyn std::fmt::Display| Failure::new(format!("{what}: {error}"));
        let ring_bytes = self.ring_bytes()?;
        let (spool_params, filters) = self.spool_params()?;
        let classes = match &filters[..] {
            [] => None,
            filters => {
                let by_ports =
                    |filter: &String| service(filter, compiler, bpf).unwrap_or_else(|| filter.clone());
                let filters: Vec<String> = filters.iter().map(by_ports).collect();
                Some(PacketClasses::new(compiler, &filters, bpf)?)
            }
        };
        let finder = HeaderFinder::new(compiler)?;
        let identity = secrets::random().map(u64::from_ne_bytes).map_err(Failure::new)?;
        let made = Ring::create(ring_bytes, &format!("weir-{}", self.name), identity);
        let (ring, pages) = made.map_err(|error| named("--ring", &error))?;
        let writers = workers * (1 + filters.len());
        if writers * SEGMENTS_OF_WRITER > ring.segments() {
            let least = (writers * SEGMENTS_OF_WRITER * ring.segment_bytes()) >> 20;
            let classes = match filters.len() {
                0 => String::new(),
                classes => format!(" and {classes} classes (--keep)"),
            };
            return Err(Failure::new(format!(
                "--ring: {workers} workers (-j){classes} need at least {least}M"
            )));
        }
        if pages == Pages::Small {
            note!(
                "weir: the ring has small pages, because too few huge pages are free: vm.nr_hugepages={} makes room for it",
                ring_bytes.div_ceil(2 << 20) + 1
            );
        }
        let ends = Arc::<AtomicBool>::default();
        let directory = self.spool.clone();
        let spool = spool_params.map(|params| {
            let counters = Arc::<SpoolCounters>::default();
            let note = Box::new(|text: String| say!("weir: {text}"));
            let mut spooler = Spooler::new(&ring, params.clone(), Arc::clone(&counters), note)
                .map_err(|error| named(&params.directory.display().to_string(), &error))?;
            if !spooler.is_direct() {
                note!("weir: {}: the file system has no direct access", params.directory.display());
            }
            for directory in spooler.foreign() {
                note!(
                    "weir: {}: no class (--keep) has this name: its files can be read, and nobody removes them",
                    directory.display()
                );
            }
            let end = Arc::clone(&ends);
            let run = move || spooler.run(&end);
            let thread =
                std::thread::Builder::new().name("weir-spool".into()).spawn(run).map_err(Failure::new)?;
            Ok::<_, Failure>((thread, counters, params.directory.clone()))
        });
        let spool = spool.transpose()?;
        let published = Published::new(name, &ring, directory.as_deref());
        let published =
            published.map_err(|error| named(&format!("{}{}", recorders::PREFIX, self.name), &error))?;
        note!(
            "weir: recording in {} of memory as {}{}",
            weir::io::human::bytes(ring.segments() as u64 * ring.segment_bytes() as u64),
            recorders::PREFIX,
            if self.name == recorders::DEFAULT { "" } else { &self.name }
        );
        let dumps = self.dumps.as_ref().map(|place| {
            let (ring, compiler) = (ring.clone(), compiler.clone());
            let spool = directory.clone().map(SpoolFiles::new);
            let bounds = DumpBounds::of(self.dumps_max.as_deref(), place)?;
            Dumps::start(DumpPlace { ring, spool, directory: place.clone(), compiler, bounds })
        });
        let dumps = dumps.transpose()?;
        let recorder = Recorder {
            ring,
            findings: findings.clone(),
            classes,
            finder,
            has_spool: spool.is_some(),
            next: Arc::default(),
        };
        let (options, control) = (Arc::new(self.clone()), run.control());
        let recording = Recording { options, _goes_on: control, recorder, published, ends, spool, dumps };
        if let Some(asker) = recording.dump_asker() {
            asking.set(asker);
        }
        captures.give_to(Arc::new(recording.recorder.clone()));
        set.totals.set_further(recording.counters());
        Ok(recording)
    }
}

impl Recording {
    /// The options of the recorder.
    pub fn options(&self) -> &Arc<RecorderOptions> {
        &self.options
    }

    /// The packets in memory and on the disk.
    pub fn packets(&self) -> (Ring, Option<SpoolFiles>) {
        let spool = self.spool.as_ref().map(|(_, _, directory)| SpoolFiles::new(directory.clone()));
        (self.recorder.ring.clone(), spool)
    }

    /// The counters.
    fn counters(&self) -> RecordingCounters {
        let spool = self.spool.as_ref().map(|(_, counters, _)| Arc::clone(counters));
        RecordingCounters { ring: self.recorder.ring.clone(), spool, dumps: self.dump_asker() }
    }

    /// For those who ask for dumps, if the recording has a place for them.
    pub fn dump_asker(&self) -> Option<DumpAsker> {
        self.dumps.as_ref().map(Dumps::asker)
    }

    /// Ends the recording, once its writers are gone: complete segments go to the disk. Returns whether
    /// something was lost.
    pub fn finish(self) -> bool {
        let Self { recorder, published, ends, spool, dumps, .. } = self;
        let mut is_lossy = dumps.into_iter().any(Dumps::finish);
        ends.store(true, Ordering::Release);
        let counters = recorder.ring.counters();
        if let Some((thread, spooled, directory)) = spool {
            let unwritten = thread.join().unwrap_or_else(|_| {
                say!("weir: the thread of the spool has failed");
                0
            });
            let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            note!(
                "weir: {} packets are in {}; {} files were removed",
                count(&spooled.packets),
                directory.display(),
                count(&spooled.removed)
            );
            if unwritten > 0 {
                say!(
                    "weir: {unwritten} packets were in memory, and could not be written to {}",
                    directory.display()
                );
            }
            is_lossy |= unwritten + counters.unspooled > 0;
            if counters.unspooled > 0 {
                say!(
                    "weir: {} packets left the ring before they were written to {}: a faster disk, or a larger --ring",
                    counters.unspooled,
                    directory.display()
                );
            }
        }
        if counters.too_long > 0 {
            say!("weir: {} packets were longer than half a segment, and are not recorded", counters.too_long);
        }
        if counters.no_segment > 0 {
            say!("weir: {} packets found no free segment, and are not recorded", counters.no_segment);
        }
        note!("weir: {} packets recorded ({} bytes)", counters.packets, counters.bytes);
        drop(published);
        is_lossy || counters.too_long + counters.no_segment > 0
    }
}

impl Taps for Recorder {
    /// Another writer, with one of the ring for each class.
    fn tap(&self) -> Box<dyn Tap> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let of_class = |class| {
            let findings = self.findings.clone();
            let describe = move |interface| {
                let found = findings.interface(interface);
                found.and_then(|found| Some(found.description?.options.to_vec())).unwrap_or_default()
            };
            let writer = Writer::new(&self.ring, class, number, Box::new(describe));
            if self.has_spool { writer.with_age_max(SEGMENT_AGE_MAX) } else { writer }
        };
        let classes = self.classes.as_ref().map_or(0, PacketClasses::count);
        Box::new(RecordWriter {
            rest: of_class(0),
            classes: (1..=classes).map(of_class).collect(),
            classifier: self.classes.as_ref().map(PacketClasses::classifier),
            finder: self.finder.clone(),
            headers: vec![],
        })
    }
}

/// Writes packets into the ring, each class into segments of its own.
struct RecordWriter {
    rest: Writer,
    /// From class 1.
    classes: Vec<Writer>,
    classifier: Option<PacketClassifier>,
    finder: HeaderFinder,
    /// Those of a burst.
    headers: Vec<Option<PacketHeaders>>,
}

impl Tap for RecordWriter {
    /// Writes packets. They are readable when the call returns.
    fn take(&mut self, burst: &Burst) {
        self.headers.clear();
        self.finder.find(burst, &mut self.headers);
        let headers = &self.headers;
        let Some(classifier) = &mut self.classifier else { return self.rest.write(burst, headers) };
        let classes = classifier.classes(burst);
        for (writer, class) in std::iter::once(&mut self.rest).chain(&mut self.classes).zip(0..) {
            writer.write_some(burst, headers, |index| classes[index] == class);
        }
    }
}
